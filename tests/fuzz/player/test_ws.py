"""Links over WebSocket: the same sessions inside, and their ends as without."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conformance.config import Locator, RunConfig, prepare_run_dir
from conformance.link import websocket_stream
from conformance.link.websocket import WebSocket
from conformance.link.websocket_stream import WebSocketStream
from conformance.nodes import node_of
from fuzz import standalone
from fuzz.cases import reach, send
from fuzz.lab import Lab
from fuzz.oracles.canary import Canary
from fuzz.phrases import act, batch, closing, frame, handshake, push
from fuzz.player import Answers, Ending, Initiator, NotReached, Pipe, Player, Trace
from fuzz.regression import fails_on
from fuzz.script import Do, Script
from fuzz.states import State
from scapy_layers.transport import KeepAlive
from tests.conformance.refnode._started import Started
from tests.fuzz.campaigns.test_state import ENDS

LARGE = frame(push("fuzz/k", bytes(40_000), block=True))
ALIVE = bytes(KeepAlive())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Started]:
    with Started(tmp_path, "--listen", "ws/127.0.0.1:0") as running:
        yield running


@pytest.fixture
def player(node: Started) -> Iterator[Player]:
    made = Player(Initiator(Locator.parse(node.facts["locator"])), 2.0)
    yield made
    made.leave()


@pytest.mark.parametrize("state", [State.OPEN, State.DECLARED, State.PENDING])
def test_sessions_inside_are_opened_used_and_ended(player: Player, node: Started, state: State) -> None:
    played = player.play(Script((reach(state, "a"), LARGE)))
    assert (played.failure, played.ending) == ("", Ending.ACCEPTED)
    player.leave()
    node.until_stats(sessions=0)


@pytest.mark.parametrize(
    ("step", "ending"), [(send("size", b"\x1f"), Ending.CLOSED), (closing(session=True), Ending.REFUSED)]
)
def test_end_by_the_node_is_told_as_over_tcp(player: Player, step: object, ending: Ending) -> None:
    # On a busy machine the end of the link takes its time.
    player.patience = player.reply
    played = player.play(Script((reach(State.OPEN, "a"), step)))  # type: ignore[arg-type]
    assert (played.failure, played.ending) == ("", ending)


@pytest.mark.parametrize("end", [Do.FINISH, Do.CLOSE, Do.RESET])
def test_our_end_is_heard(player: Player, node: Started, end: Do) -> None:
    player.play(Script((reach(State.CONNECTED, "a"), *handshake(), act(end))))
    node.until_stats(sessions=0)
    assert "Traceback" not in node.said()


def test_canary_has_no_objection(tmp_path: Path, node: Started) -> None:
    config = RunConfig(node=node.facts["locator"], run_dir=tmp_path, run_id="run", seed=1)
    canary = Canary(node_of(config), 2.0, random.Random(1))
    canary.open()
    assert all((canary.routes, canary.joins, canary.named))
    assert [canary.look(), canary.look_at_common()] == [None] * 2
    canary.close()


def test_no_upgrade_at_the_other_end_is_no_link() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = Locator("ws", "127.0.0.1", server.getsockname()[1])

        def refuse() -> None:
            made, _ = server.accept()
            made.sendall(b"HTTP/1.1 404 Not Found\r\n\r\n")
            made.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(NotReached, match="no link to ws/"):
            Player(Initiator(where), 1.0).reach(State.CONNECTED)
        thread.join()


class Far:
    """The other end of a link."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.words = WebSocket(None)
        while not self.words.opened:
            self.words.feed(sock.recv(1 << 16))
            sock.sendall(self.words.answer())


@pytest.fixture
def pair() -> Iterator[tuple[Pipe, Far]]:
    """A link of ours, and the other end of it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(5.0)
    theirs.settimeout(5.0)
    made: list[Far] = []
    thread = threading.Thread(target=lambda: made.append(Far(theirs)))
    thread.start()
    link = WebSocketStream(ours, "localhost:1")
    thread.join()
    link.setblocking(flag=False)
    yield Pipe(link, ENDS, Trace(), Answers(), bytes(16)), made[0]
    link.close()
    theirs.close()


def test_batches_leave_when_they_are_whole(pair: tuple[Pipe, Far]) -> None:
    pipe, far = pair
    pipe.send(b"\x01\x00" + ALIVE + b"\x02\x00", bytewise=True)
    pipe.send(b"ab" + b"\x09\x00never")
    far.words.limit = 1 << 16
    came: list[bytes] = []
    while len(came) < 2:
        far.words.feed(far.sock.recv(1 << 16))
        while (one := far.words.take()) is not None:
            came.append(one)
    assert came == [ALIVE, b"ab"]


def test_messages_that_come_in_pieces_and_the_end_behind_them_are_taken(pair: tuple[Pipe, Far]) -> None:
    pipe, far = pair
    raw = far.words.frame(ALIVE, None, None)
    for byte in raw:
        far.sock.send(bytes([byte]))
    far.sock.send(raw + b"\x89\x00" + far.words.goodbye())
    until = time.monotonic() + 30
    while not pipe.ended and time.monotonic() < until:
        pipe.receive()
        pipe.wait(0.05)
    assert [answer.names for answer in pipe.inbox] == [("KEEP_ALIVE",)] * 2
    assert pipe.ended == "EOF"


def test_other_end_that_does_not_read_is_not_waited_for(
    pair: tuple[Pipe, Far], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, far = pair
    monkeypatch.setattr(websocket_stream, "SEND_SECONDS", 0.05)
    assert not pipe.send((b"\xff\xff" + bytes(0xFFFF)) * 128)
    assert pipe.torn
    with suppress(OSError):
        far.sock.shutdown(socket.SHUT_WR)
    assert not pipe.send(b"\x01\x00" + ALIVE)


def test_regression_test_runs_over_websocket(
    tmp_path: Path, node: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "TRIES", 1)
    prepare_run_dir(tmp_path / "run")
    config = RunConfig(node=node.facts["locator"], run_dir=tmp_path / "run", run_id="run", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        tried = lab.play(Script((reach(State.DECLARED, "a"), batch(KeepAlive()))))
    assert tried.objection is None
    assert fails_on(config.node, "stall", tried) is False
