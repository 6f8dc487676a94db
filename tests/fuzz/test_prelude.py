from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from conformance.tester import SessionEnd, Tester
from fuzz.prelude import Barrier, State, prepare
from scapy_layers.network import ResponseFinal
from tests.fuzz.fakes import COOKIE, FakeNode


@pytest.fixture
def tester() -> Iterator[Tester]:
    with FakeNode() as node:
        made = Tester(node.locator, random.Random(1), 2.0)
        yield made
        made.close()


def test_connected_has_said_nothing_and_has_a_zid(tester: Tester) -> None:
    first, second = prepare(tester, State.CONNECTED), prepare(tester, State.CONNECTED)
    assert not list(tester.history.received("a"))
    assert len(first.live["zid"]) == 16
    assert first.live["zid"] != second.live["zid"]


def test_init_acked_has_the_cookie_and_no_open_was_sent(tester: Tester) -> None:
    ready = prepare(tester, State.INIT_ACKED)
    assert ready.live == {"cookie": COOKIE}
    assert [seen.contents.names for seen in tester.history.observations if seen.raw] == ["INIT", "INIT"]
    assert ready.behind == len(tester.history.observations)


def test_open_has_the_number_that_is_due(tester: Tester) -> None:
    ready = prepare(tester, State.OPEN)
    sent = [seen for seen in tester.history.observations if seen.contents.names == "OPEN"]
    assert ready.live["sn"] == sent[0].contents.messages[0].initial_sn


def test_open_takes_a_session_that_is_there(tester: Tester) -> None:
    session = tester.session()
    assert prepare(tester, State.OPEN, session).end is session


def test_barrier_is_answered_without_touching_the_reliable_channel(tester: Tester) -> None:
    ready = prepare(tester, State.OPEN)
    assert isinstance(ready.end, SessionEnd)
    barrier = Barrier(ready.end, 0)
    assert barrier.wait(ready.end, 2.0)
    assert not barrier.answers(ResponseFinal(request_id=99))
    sent = tester.history.observations[-2].contents.messages[0]
    assert sent.value("R") == 0
    assert ready.end.session.take_sn() == ready.live["sn"] + 1
    assert not Barrier(ready.end, 1).answers(ResponseFinal(request_id=99))
