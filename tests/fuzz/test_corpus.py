from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from fuzz import corpus as corpora
from fuzz.cases import Case, Fixed, send
from fuzz.corpus import (
    MARKS,
    PCAPS,
    Corpus,
    CorpusError,
    Family,
    Seed,
    known_seeds,
    made_seeds,
    places,
    seed_of,
)
from fuzz.player import Answers, Ending, Played
from fuzz.script import SIZE, Template
from fuzz.states import State
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareKeyExpr
from scapy_layers.network import Declare, Push, ResponseFinal
from scapy_layers.transport import Close, Frame, Init, Join, Open

PUSH = Push(key_suffix="a", body=Put(data=b"x"))


def seed(raw: bytes) -> Seed:
    found = seed_of(raw, "test")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Frame(R=1, sn=7, messages=[PUSH]), "25{sn}" + bytes(PUSH).hex()),
        (Frame(R=0, sn=7, messages=[PUSH]), "05{sn_be}" + bytes(PUSH).hex()),
        (Init(zid=b"\x01\x02"), "0109f2{zid}"),
        (Open(lease=5, initial_sn=3, cookie=b"abc"), "020503{cookie}"),
        (Open(A=1, lease=5, initial_sn=3), "220503"),
        (Frame(R=1, sn=7, messages=[ResponseFinal(request_id=900)]), "25{sn}1a{rid}"),
        (Frame(R=1, sn=7, messages=[Push(M=1, key_scope=900, body=Put(data=b"x"))]), "25{sn}5d07010178"),
        (
            Frame(R=1, sn=7, messages=[Declare(body=DeclareKeyExpr(key_id=900, key_suffix="a"))]),
            "25{sn}1e2007000161",
        ),
    ],
)
def test_what_belongs_to_a_session_is_filled_in_later(message: Frame | Init | Open, text: str) -> None:
    assert str(seed(bytes(message)).template) == text


def test_seed_says_which_capture_and_packet_it_came_from() -> None:
    origins = {one.origin for one in known_seeds(PCAPS)}
    assert all(re.fullmatch(r"\w+\.pcapng, packet [1-9]\d*", origin) for origin in origins)
    assert len(origins) > 100


def test_captures_give_seeds_of_every_family_and_no_shape_twice() -> None:
    corpus = Corpus()
    shapes = [(one.family, one.anatomy.shape) for family in Family for one in corpus.of(family)]
    assert {family for family, _ in shapes} == set(Family)
    assert len(shapes) == len(set(shapes)) == len(corpus)
    assert {"PUSH", "REQUEST", "RESPONSE", "DECLARE", "INTEREST", "OAM", "FRAGMENT"} <= set(
        corpus.names(Family.SESSION)
    )
    assert corpus.notice == ""


def test_without_captures_seeds_are_made_and_it_says_so(tmp_path: Path) -> None:
    corpus = Corpus(captures=tmp_path)
    assert "no captures of real nodes" in corpus.notice
    assert corpus.known == made_seeds()
    assert {Family.INIT, Family.OPEN, Family.SESSION, Family.SCOUTING} <= {one.family for one in corpus.known}


def test_template_of_a_seed_and_its_bytes_are_one() -> None:
    for one in known_seeds(PCAPS):
        assert Seed.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_stand_in_that_was_changed_is_only_bytes() -> None:
    raw = b"\x25" + MARKS["sn"] + b"\x00"
    assert places(raw) == [b"\x25", "sn", b"\x00"]
    assert places(raw[:2] + b"\x00" + raw[3:]) == [raw[:2] + b"\x00" + raw[3:]]


# Learning --------------------------------------------------------------------------------------------


def case_of(*pieces: bytes | str) -> Case:
    source = Fixed("test", State.OPEN, "PUSH", {"it": [send(*pieces)]}, "test")
    return next(source.cases(random.Random(1)))


def played(*batches: bytes, ending: Ending = Ending.ACCEPTED) -> Played:
    return Played(ending=ending, answers=[Answers().read(batch, 0) for batch in batches])


ODD = bytes(Frame(R=1, sn=1, messages=[PUSH] * 3))


def test_case_with_a_new_answer_and_the_answer_are_learned_once() -> None:
    corpus = Corpus()
    before = len(corpus)
    case = case_of(SIZE, bytes([0x25]), "sn", bytes(PUSH) * 9)
    answer = bytes(Frame(R=1, sn=4, messages=[PUSH] * 11))

    found = corpus.learn(case, played(answer))

    assert [str(one.template) for one in found] == [
        "25{sn}" + bytes(PUSH).hex() * 9,
        "25{sn}" + bytes(PUSH).hex() * 11,
    ]
    assert corpus.learn(case, played(answer)) == []
    assert (len(corpus), corpus.learned) == (before + 2, 2)
    assert set(found) <= set(corpus.of(Family.SESSION, "PUSH"))


@pytest.mark.parametrize("ending", [Ending.SILENT, Ending.REFUSED])
def test_what_a_node_may_not_have_borne_is_not_learned(ending: Ending) -> None:
    assert Corpus().learn(case_of(SIZE, ODD), played(ending=ending)) == []


def test_value_that_only_the_case_has_is_no_reason_to_fail() -> None:
    assert Corpus().learn(case_of(SIZE, b"\x25", "sn@b"), played()) == []


def test_learned_seeds_are_there_in_the_next_run(tmp_path: Path) -> None:
    first = Corpus(tmp_path)
    (learned,) = first.learn(case_of(SIZE, ODD), played())
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]

    second = Corpus(tmp_path)

    assert learned in second.of(Family.SESSION)
    assert len(second) == len(first)
    assert second.learned == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting"),
        ("[]", "no seed of format 1"),
        ('{"format": 2}', "no seed of format 1"),
        ('{"format": 1, "family": "session"}', "'data' is missing"),
        ('{"format": 1, "family": "odd", "data": "04"}', "odd"),
        ('{"format": 1, "family": "session", "data": "0x"}', "not hexadecimal digits"),
        ('{"format": 1, "family": "session", "data": "{nothing}"}', "has no stand-in"),
        ('{"format": 1, "family": "session", "data": ""}', "0 bytes"),
        ("\udcff", "utf-8"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_file_that_is_no_seed_is_refused_by_name(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorpusError, match=r"bad\.json") as caught:
        Corpus(tmp_path)
    assert why in str(caught.value)
    assert "move it away" in str(caught.value)


def test_corpus_is_bounded_in_memory_and_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "MOST_SEEDS", 3)
    corpus = Corpus(tmp_path)
    before = len(corpus)
    for size in range(30, 36):
        corpus.learn(case_of(SIZE, bytes(Frame(R=1, sn=1, messages=[PUSH] * size))), played())
    assert (len(corpus), corpus.learned) == (before + 3, 6)
    assert len(list(tmp_path.iterdir())) == 3


def test_two_of_one_seed_are_the_same_and_independent() -> None:
    one, other = Corpus(), Corpus()
    one.learn(case_of(SIZE, ODD), played())
    assert len(one) == len(other) + 1


@pytest.mark.parametrize(
    ("raw", "family"),
    [
        (bytes(Init()), Family.INIT),
        (bytes(Open()), Family.OPEN),
        (bytes(Close()), Family.SESSION),
        (bytes(Join()), Family.JOIN),
        (bytes(PUSH), Family.NETWORK),
        (b"\x08", None),
        (b"", None),
    ],
)
def test_first_message_decides_where_bytes_may_be_sent(raw: bytes, family: Family | None) -> None:
    assert corpora.family_of(raw) is family


def test_template_with_a_length_in_front_is_a_seed_without() -> None:
    assert corpora.marked(Template.of(SIZE, b"\x04")) == b"\x04"
