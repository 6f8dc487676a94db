"""Lies before there is a session."""

import random
from itertools import islice

from fuzz.campaigns import Setting
from fuzz.campaigns.handshake import CAMPAIGN, NEGOTIATED
from fuzz.script import Do
from fuzz.states import State
from scapy_layers.catalogue import decode_batch
from scapy_layers.transport import Init, Open
from tests.fuzz.campaigns.sent import MOST_BYTES, filled, said, sends, sizes

SOURCES = list(CAMPAIGN.make(Setting(1)))

TALKED = {"INIT", "OPEN"}


def test_both_messages_are_told_where_they_are_due_and_where_not() -> None:
    told = {(str(source.state), source.message) for source in SOURCES}
    for state in ("connected", "init_acked"):
        assert {(state, kind) for kind in ("INIT", "OPEN", "CLOSE", "KEEP_ALIVE", "JOIN")} <= told


def test_an_initiator_says_what_is_the_acceptors() -> None:
    first = [
        next(source.cases(random.Random(1)))
        for source in SOURCES
        if source.message in TALKED and "plain" in source.name
    ]
    messages = [decode_batch(filled(sends(case)[-1])[2:])[0] for case in first if case.strategy == "valid"]
    assert {(type(one), one.A) for one in messages} == {(Init, 0), (Init, 1), (Open, 0), (Open, 1)}


def test_open_comes_behind_an_init_that_gives_its_extensions_a_meaning() -> None:
    behind = [source for source in SOURCES if source.name.startswith("OPEN with") and "behind" in source.name]
    assert len(behind) == sum(map(len, NEGOTIATED.values()))
    for source in behind:
        case = next(source.cases(random.Random(1)))
        assert [step.do for step in case.steps] == [Do.SEND, Do.AWAIT, Do.SEND, Do.AWAIT]
        offered, said_then = (decode_batch(filled(step)[2:])[0] for step in sends(case))
        assert isinstance(offered, Init)
        assert len(offered.extensions) == 1
        assert isinstance(said_then, Open)
        assert "cookie" in case.steps[2].data.names


def test_sessions_are_agreed_on_in_every_width_of_numbers() -> None:
    (source,) = (source for source in SOURCES if source.name == "sessions as agreed")
    seen = set()
    for case in source.cases(random.Random(1)):
        if case.mutation == "role 3":
            # There is none.
            continue
        init, opening = (decode_batch(filled(step)[2:])[0] for step in sends(case)[:2])
        assert (type(init), type(opening), init.A, opening.A) == (Init, Open, 0, 0)
        seen.add((int(init.fsn), int(init.rid)))
        assert [step.do for step in case.steps[:4]] == [Do.SEND, Do.AWAIT, Do.SEND, Do.AWAIT]
    assert seen == {(fsn, rid) for fsn in range(4) for rid in range(4)}


def test_links_are_in_states_before_a_session() -> None:
    assert CAMPAIGN.states == [State.CONNECTED, State.INIT_ACKED]


def test_cases_render_and_are_not_too_large() -> None:
    rng = random.Random(1)
    for source in SOURCES[::5]:
        for case in (*islice(source.cases(rng), 0, 1000, 100), *islice(source.more(rng), 1)):
            assert sizes(case) <= MOST_BYTES


def test_the_seed_decides() -> None:
    few = SOURCES[::16]
    assert said(few, 5) == said(few, 5) == said(list(CAMPAIGN.make(Setting(1)))[::16], 5)
    assert said(few, 5) != said(few, 5, seed=2)
