"""Extensions of every kind on every message."""

import random
from itertools import islice

from fuzz.campaigns import Setting
from fuzz.campaigns.extensions import BODIES, CAMPAIGN, Chained, home_of
from fuzz.campaigns.messages import KINDS, Wish, message_of
from fuzz.states import State
from scapy_layers import shape
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.network import Push
from tests.fuzz.campaigns.sent import MOST_BYTES, filled, said, sends, sizes

SOURCES = list(CAMPAIGN.make(Setting(1)))

PUSH = Chained("x", State.OPEN, message_of(Push, Wish()))


def test_every_kind_with_a_chain_is_told_where_a_node_looks_into_it() -> None:
    told = {source.message for source in SOURCES if isinstance(source, Chained)}
    chained = {
        kind
        for kind, cls in KINDS.items()
        if any(isinstance(one, shape.Chain) for one in shape.walk(cls.wire_shapes()))
    }
    assert told == chained == KINDS.keys()
    assert home_of("OPEN") is State.INIT_ACKED
    assert home_of("OPEN", answer=True) is State.OPEN_RECEIVED
    assert home_of("HELLO") is State.SEEKING


def test_every_header_that_an_extension_can_have_is_sent() -> None:
    # FRAME with its number of three bytes, PUSH with its key; then the chain.
    heads = {
        filled(sends(case)[0])[2 + 4 + 9] & 0x7F
        for case in PUSH.cases(random.Random(1))
        if case.strategy == "any extension" and case.field == "PUSH.extensions"
    }
    assert heads == set(range(0x80))
    count = sum(case.strategy == "any extension" for case in PUSH.cases(random.Random(1)))
    assert count == 2 * 2 * 16 * sum(map(len, BODIES.values()))


def test_a_message_says_that_extensions_follow() -> None:
    plain = filled(PUSH.valid_steps()[0])
    for case in PUSH.cases(random.Random(1)):
        if case.strategy == "any extension" and case.field == "PUSH.extensions":
            assert filled(sends(case)[0])[2 + 4] == 0x80 | plain[2 + 4]


def test_chains_that_are_drawn_are_read_to_their_end() -> None:
    known = [case for case in islice(PUSH.more(random.Random(3)), 60) if "mandatory" not in case.mutation]
    read = []
    for case in known:
        seen = contents(filled(sends(case)[0])[2:])
        if not seen.error and not seen.rest and case.field == "PUSH.extensions":
            read.append(len(seen.messages[0].messages[0].extensions))
    assert len(set(read)) > 2


def test_bodies_stand_in_bodies() -> None:
    deep = {
        case.mutation: case
        for source in SOURCES
        if source.name.startswith("bodies")
        for case in source.cases(random.Random(1))
    }
    inner = filled(sends(deep["REPLY in itself, 100 deep"])[0])
    assert inner.endswith(b"\x04" * 100)
    auth = filled(sends(deep["Auth in itself, 2 deep"])[0])
    assert auth.endswith(b"\x43\x02\x43\x00")
    assert auth[2] & 0x80


def test_only_chains_are_lied_about() -> None:
    assert all(edge.field.endswith(".extensions") or not edge.field for edge in PUSH.edges())


def test_cases_render_and_are_not_too_large() -> None:
    rng = random.Random(1)
    for source in SOURCES[::5]:
        for case in (*islice(source.cases(rng), 0, 2000, 400), *islice(source.more(rng), 2)):
            assert sizes(case) <= MOST_BYTES


def test_the_seed_decides() -> None:
    few = SOURCES[::20]
    assert said(few, 5) == said(few, 5) == said(list(CAMPAIGN.make(Setting(1)))[::20], 5)
    assert said(few, 5) != said(few, 5, seed=2)


def test_every_layer_is_there() -> None:
    assert {KINDS[source.message].kind for source in SOURCES} == set(Kind)
