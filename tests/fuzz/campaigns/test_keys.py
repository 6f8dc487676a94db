"""Key expressions and aliases."""

import random
from itertools import islice

import pytest

from fuzz.campaigns import Setting
from fuzz.campaigns.keys import CAMPAIGN, TIMES, expression, places
from fuzz.cases import Case
from fuzz.states import State
from scapy_layers.batch import contents
from scapy_layers.catalogue import decode_batch
from scapy_layers.keyexpr import is_valid
from scapy_layers.message import Message
from tests.fuzz.campaigns.sent import MOST_BYTES, filled, said, sampled, sends, sizes

SOURCES = list(CAMPAIGN.make(Setting(1)))


def cases(name: str) -> dict[str, Case]:
    (source,) = (source for source in SOURCES if source.name == name)
    return {case.mutation: case for case in source.cases(random.Random(1))}


def network(case: Case, step: int = -1) -> Message:
    message: Message = decode_batch(filled(sends(case)[step])[2:])[0].messages[0]
    return message


def test_keys_stand_in_every_place_where_one_can() -> None:
    assert places().keys() == {
        "PUSH", "REQUEST", "RESPONSE", "INTEREST", "D_KEYEXPR", "D_SUBSCRIBER", "D_QUERYABLE", "D_TOKEN",
        "U_SUBSCRIBER", "U_QUERYABLE", "U_TOKEN",
    }  # fmt: skip
    assert {source.message for source in SOURCES} == places().keys()


def test_a_key_arrives_as_it_is() -> None:
    assert network(cases("keys of PUSH")["key 'a$*$*b'"]).key_suffix == "a$*$*b"
    taken_back = network(cases("keys of U_TOKEN")["key 'a//b'"]).body
    assert bytes(taken_back).endswith(b"a//b")
    asked = network(cases("keys of INTEREST")["key '@'"])
    assert (asked.mode, asked.restricted, asked.key_suffix) == (3, 1, "@")


def test_keys_that_are_no_text_leave_as_they_are() -> None:
    raw = filled(sends(cases("keys of D_SUBSCRIBER")[r"key '\xff'"])[0])
    assert raw.endswith(b"\x01\xff")
    assert contents(raw[2:]).error


def test_an_alias_is_used_after_each_of_its_stories() -> None:
    known = cases("aliases of PUSH")
    redefined = known["alias declared with two keys, as one of ours, suffix '/x'"]
    said_first = [network(redefined, step).body.key_suffix for step in (0, 1)]
    assert said_first == ["fuzz/a", "fuzz/b"]
    use = network(redefined, 2)
    assert (use.key_scope, use.M, use.key_suffix) == (20, 1, "/x")
    theirs = network(known["alias declared never, as one of theirs"], 0)
    assert (theirs.key_scope, theirs.M, theirs.N) == (20, 0, 0)
    chained = network(known["alias declared on an alias, as one of ours"], 1).body
    assert (chained.key_id, chained.key_scope) == (20, 21)


def test_alias_and_suffix_are_both_of_a_size_that_small_nodes_take() -> None:
    words = "alias declared with a middling key, as one of ours, suffix"
    (case,) = (case for name, case in cases("aliases of PUSH").items() if name.startswith(f"{words} '/aaa"))
    alias, use = network(case, 0).body.key_suffix, network(case, 1).key_suffix
    assert min(len(alias), len(use)) > 512
    assert max(len(filled(sent)) for sent in sends(case)) < 1024


def test_aliases_go_up_to_numbers_that_do_not_exist() -> None:
    raw = filled(sends(cases("aliases of REQUEST")["alias 65536, unknown"])[0])
    assert contents(raw[2:]).error
    declared = cases("aliases of REQUEST")["alias 65535, declared"]
    assert network(declared, 0).body.key_id == 65_535


def test_hard_patterns_grow_and_stay_within_a_batch() -> None:
    hard = cases("matching D_SUBSCRIBER")
    first = network(hard["** between the same chunks, 5 times"], 0).body.key_suffix
    assert first.count("**") == 5
    assert any(words.startswith("$* between the same letters, 400") for words in hard)
    assert len(hard) > 10 * len(TIMES)


@pytest.mark.parametrize("kind", ["D_SUBSCRIBER", "D_QUERYABLE", "D_TOKEN", "INTEREST"])
def test_keys_that_are_to_be_matched_come_from_two_sessions(kind: str) -> None:
    for case in cases(f"matching {kind}").values():
        said, use, *_ = sends(case)
        assert (said.link, use.link) == ("b", "a")


def test_the_grammar_makes_right_and_wrong_ones() -> None:
    drawn = [expression(random.Random(seed)) for seed in range(300)]
    assert len(set(drawn)) > 200
    texts = [key.decode("utf-8", "replace") for key in drawn]
    valid = sum(map(is_valid, texts))
    assert 20 < valid < 250
    assert max(map(len, drawn)) > 1000
    assert any(b"\xff" in key for key in drawn)


def test_links_are_in_sessions() -> None:
    assert CAMPAIGN.states == [State.DECLARED, State.OPEN]


def test_cases_render_and_are_not_too_large() -> None:
    for case in sampled(CAMPAIGN, 40):
        assert sizes(case) <= MOST_BYTES
        assert all(len(filled(step)) <= 65_535 + 2 for step in sends(case))


def test_the_seed_decides() -> None:
    assert said(SOURCES, 2) == said(SOURCES, 2) == said(CAMPAIGN.make(Setting(1)), 2)
    assert said(SOURCES, 2) != said(SOURCES, 2, seed=2)


def test_places_are_drawn_from_without_end() -> None:
    source = SOURCES[0]
    assert len({case.mutation for case in islice(source.more(random.Random(1)), 40)}) > 20


def test_cases_are_laid_on_the_sort_of_their_keys() -> None:
    """Else a fault that every wrong key meets would be met anew for each of them."""
    sorts = {case.causes[0].kind for case in cases("keys of PUSH").values()}
    assert {"not canonical", "no UTF-8", "'*' in", "'$' in", "valid", "valid wild", "valid verbatim"} <= sorts
    assert len(sorts) < 20
    stories = {case.causes[0].kind for case in cases("aliases of PUSH").values()}
    assert "alias declared on itself, as one of ours" in stories
    assert len(stories) < 60
    patterns = {case.causes[0].kind for case in cases("matching INTEREST").values()}
    assert "** against **" in patterns
    assert len(patterns) < 20
    (source,) = (source for source in SOURCES if source.name == "keys of PUSH")
    drawn = {case.causes[0] for case in islice(source.more(random.Random(1)), 200)}
    assert {cause.kind for cause in drawn} & sorts
    assert {cause.field for cause in drawn} == {"key_suffix"}
