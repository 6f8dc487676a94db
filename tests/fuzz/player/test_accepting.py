"""Links that a node makes: the states behind them, and what becomes of a stimulus there."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.cases import reach, send
from fuzz.player import Ending, NotReached, Player, accepting
from fuzz.player.accepting import COOKIE, Acceptor
from fuzz.script import Script
from fuzz.states import State
from scapy_layers.batch import contents
from scapy_layers.extensions import Patch, QoSOffer
from scapy_layers.transport import Init, KeepAlive, Open
from tests.fuzz.player.callers import INIT, Caller

REPLY = 30.0


@pytest.fixture
def door() -> Iterator[Acceptor]:
    made = Acceptor()
    yield made
    made.close()


class Calling(Acceptor):
    """A caller connects whenever a link is wanted."""

    def __init__(self, first: bytes = bytes(INIT)) -> None:
        super().__init__()
        self.callers: list[Caller] = []
        self._first = first

    def drain(self) -> int:
        dropped = super().drain()
        self.callers.append(Caller(self.locator.port, self._first))
        return dropped


@pytest.fixture
def calling() -> Iterator[Calling]:
    made = Calling()
    yield made
    made.close()
    for caller in made.callers:
        caller.join()


@pytest.mark.parametrize("state", [State.INIT_RECEIVED, State.OPEN_RECEIVED, State.ACCEPTED])
def test_states_behind_a_link_that_the_node_makes(calling: Calling, state: State) -> None:
    player = Player(calling, REPLY)
    pipe = player.reach(state)
    assert pipe.state is state
    assert pipe.ends.accepted
    assert not pipe.inbox
    player.leave()
    heard = calling.callers[0].heard
    calling.callers[0].join()
    names = ["INIT", "OPEN", "FRAME"][
        : [State.INIT_RECEIVED, State.OPEN_RECEIVED, State.ACCEPTED].index(state)
    ]
    assert [message.name for message in heard][: len(names)] == names


def test_init_ack_takes_what_was_proposed_and_nothing_else(calling: Calling) -> None:
    player = Player(calling, REPLY)
    pipe = player.reach(State.OPEN_RECEIVED)
    player.leave()
    calling.callers[0].join()
    ack = calling.callers[0].heard[0]
    assert isinstance(ack, Init)
    assert (ack.A, ack.zid, ack.cookie) == (1, pipe.zid, COOKIE)
    assert (ack.fsn, ack.rid, ack.batch_size) == (1, 1, 2000)
    assert [type(one) for one in ack.extensions] == [QoSOffer, Patch]


def test_node_that_shows_a_user_is_asked_for_it_and_believed(tmp_path: Path, door: Acceptor) -> None:
    config = RunConfig(node="ref", run_dir=tmp_path, run_id="run", seed=1)
    shown = {"transport__auth__usrpwd__user": "alice", "transport__auth__usrpwd__password": "sesame"}
    node = node_of(config).variant(mode="peer", connect__endpoints=[str(door.locator)], **shown)
    player = Player(door, REPLY)
    try:
        node.launch()
        pipe = player.reach(State.ACCEPTED)
        assert (pipe.state, pipe.ended) == (State.ACCEPTED, "")
        raw = b"".join(event.raw for event in player.trace.since(0))
        assert b"alice" in raw
        assert b"\x43\x01\x02" in raw
    finally:
        player.leave()
        node.kill()


def test_nothing_is_offered_to_a_node_that_proposes_nothing() -> None:
    raw = accepting.init_ack_to(bytes(Init(zid=b"\x01"))).fill({"zid": b"\x02" * 16})
    ack = contents(raw[2:]).messages[0]
    assert isinstance(ack, Init)
    assert not ack.extensions
    assert not ack.S


def test_init_that_cannot_be_read_is_not_answered() -> None:
    door = Calling(bytes(Open(cookie=b"c")))
    player = Player(door, 0.05)
    with pytest.raises(NotReached, match="expected INIT"):
        player.reach(State.OPEN_RECEIVED)
    player.leave()
    door.close()
    for caller in door.callers:
        caller.join()


def test_what_becomes_of_a_stimulus(calling: Calling) -> None:
    player = Player(calling, REPLY)
    kept = player.play(Script((reach(State.ACCEPTED, "a"), send("size", bytes(KeepAlive())))))
    assert (kept.failure, kept.ending, kept.names) == ("", Ending.ACCEPTED, [])
    closed = player.play(Script((reach(State.ACCEPTED, "a"), send("size", b"\x1f"))))
    assert (closed.failure, closed.ending, closed.names[0]) == ("", Ending.CLOSED, "CLOSE")
    refused = player.play(Script((reach(State.INIT_RECEIVED, "a"), send("size", b"\x1f"))))
    assert refused.ending is Ending.CLOSED


def test_links_that_were_given_up_are_not_taken(door: Acceptor) -> None:
    gone = socket.create_connection(("127.0.0.1", door.locator.port))
    gone.close()
    lives = socket.create_connection(("127.0.0.1", door.locator.port))
    taken = door._next()
    assert taken is not None
    assert taken.getpeername() == lives.getsockname()
    assert door._next() is None
    taken.close()
    lives.close()


def test_links_that_waited_are_not_taken(door: Acceptor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "PAUSE_SECONDS", 0.05)
    with socket.create_connection(("127.0.0.1", door.locator.port)):
        player = Player(door, 0.01)
        with pytest.raises(NotReached, match="did not connect to"):
            player.reach(State.INIT_RECEIVED)
