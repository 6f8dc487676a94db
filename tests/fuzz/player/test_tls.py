"""Links over TLS: the same sessions inside, and their ends as without."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conformance.config import Locator, RunConfig, Tls, prepare_run_dir
from conformance.link.tls import client_context, server_context
from conformance.nodes import node_of
from conformance.nodes.certificates import certificates
from fuzz import standalone
from fuzz.cases import reach, send
from fuzz.lab import Lab
from fuzz.phrases import act, batch, closing, frame, handshake, push
from fuzz.player import Answers, Ending, Initiator, NotReached, Pipe, Player, Trace
from fuzz.player.sealed import RECORD, Sealed
from fuzz.regression import fails_on
from fuzz.script import Do, Script
from fuzz.states import State
from scapy_layers.batch import prefixed
from scapy_layers.transport import KeepAlive
from tests.conformance.refnode._started import Started
from tests.fuzz.campaigns.test_state import ENDS

UNCHECKED = Tls(verify=False)
LARGE = frame(push("fuzz/k", bytes(40_000), block=True))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return certificates(tmp_path_factory.mktemp("tls") / "made")


@pytest.fixture
def node(tmp_path: Path, files: Tls) -> Iterator[Started]:
    words = ("--tls-cert", str(files.certificate), "--tls-key", str(files.key))
    with Started(tmp_path, "--listen", "tls/127.0.0.1:0", *words) as running:
        yield running


@pytest.fixture
def player(node: Started) -> Iterator[Player]:
    made = Player(Initiator(Locator.parse(node.facts["locator"]), tls=UNCHECKED), 2.0)
    yield made
    made.leave()


@pytest.mark.parametrize("state", [State.OPEN, State.DECLARED, State.PENDING])
def test_sessions_inside_tls_are_opened_used_and_ended(player: Player, node: Started, state: State) -> None:
    played = player.play(Script((reach(state, "a"), LARGE)))
    assert (played.failure, played.ending) == ("", Ending.ACCEPTED)
    player.leave()
    node.until_stats(sessions=0)


def test_what_is_larger_than_a_record_comes_back_whole(player: Player) -> None:
    pipe = player.reach(State.DECLARED)
    key = f"{pipe.facts['base']}/x"
    other = player.reach(State.OPEN, "b")
    player.say(other, bytes(push(key, bytes(3 * RECORD), block=True)), "large")
    player.fence(other)
    while not any(len(answer.batch) > 3 * RECORD for answer in pipe.inbox):
        assert pipe.wait(2.0)
        pipe.receive()
    assert not any(answer.refused for answer in pipe.inbox)


@pytest.mark.parametrize(
    ("step", "ending"), [(send("size", b"\x1f"), Ending.CLOSED), (closing(session=True), Ending.REFUSED)]
)
def test_end_by_the_node_is_told_as_without_tls(player: Player, step: object, ending: Ending) -> None:
    # On a busy machine the end of the link takes its time.
    player.patience = player.reply
    played = player.play(Script((reach(State.OPEN, "a"), step)))  # type: ignore[arg-type]
    assert (played.failure, played.ending) == ("", ending)


@pytest.mark.parametrize("end", [Do.FINISH, Do.CLOSE, Do.RESET])
def test_our_end_is_heard(player: Player, node: Started, end: Do) -> None:
    steps = (reach(State.CONNECTED, "a"), *handshake(), act(end))
    player.play(Script(steps))
    node.until_stats(sessions=0)
    assert "Traceback" not in node.said()


def test_no_tls_at_the_other_end_is_no_link() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = Locator("tls", "127.0.0.1", server.getsockname()[1])

        def refuse() -> None:
            made, _ = server.accept()
            made.sendall(b"no TLS here, whatever is said")
            made.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(NotReached, match="no link to tls/"):
            Player(Initiator(where, tls=UNCHECKED), 1.0).reach(State.CONNECTED)
        thread.join()


@pytest.fixture
def pair(files: Tls) -> Iterator[tuple[Pipe, ssl.SSLSocket]]:
    """A link of ours, and the other end of it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(5.0)
    theirs.settimeout(5.0)
    made: list[ssl.SSLSocket] = []
    thread = threading.Thread(
        target=lambda: made.append(server_context(files).wrap_socket(theirs, server_side=True))
    )
    thread.start()
    sealed = Sealed(ours, client_context(UNCHECKED), "localhost")
    thread.join()
    sealed.setblocking(flag=False)
    yield Pipe(sealed, ENDS, Trace(), Answers(), bytes(16)), made[0]
    sealed.close()
    made[0].close()


def test_end_that_is_taken_in_with_data_is_seen_at_once(pair: tuple[Pipe, ssl.SSLSocket]) -> None:
    pipe, theirs = pair
    theirs.settimeout(0)
    theirs.sendall(prefixed(bytes(KeepAlive())))
    with suppress(ssl.SSLError, BlockingIOError):
        # The TCP stream goes on.
        theirs.unwrap()
    assert pipe.wait(5.0)
    pipe.receive()
    assert [answer.names for answer in pipe.inbox] == [("KEEP_ALIVE",)]
    assert pipe.ended == "EOF"


def test_what_did_not_leave_leaves_before_the_next(
    pair: tuple[Pipe, ssl.SSLSocket], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, theirs = pair
    monkeypatch.setattr("fuzz.player.sealed.SEND_SECONDS", 0.05)
    data = bytes(range(256)) * (1 << 15)
    assert not pipe.send(data)
    assert pipe.torn
    heard = bytearray()

    def hear() -> None:
        with suppress(OSError):
            while part := theirs.recv(1 << 16):
                heard.extend(part)

    thread = threading.Thread(target=hear)
    thread.start()
    assert pipe.send(b"behind")
    pipe.finish()
    thread.join()
    assert 0 < len(heard) < len(data)
    assert heard == data[: len(heard) - 6] + b"behind"


def test_batch_that_comes_in_pieces_and_the_end_behind_it_are_taken(
    pair: tuple[Pipe, ssl.SSLSocket],
) -> None:
    pipe, theirs = pair
    raw = b"\x01\x00" + bytes(KeepAlive())
    for byte in raw:
        theirs.send(bytes([byte]))
    theirs.send(raw)
    with suppress(OSError):
        theirs.unwrap().close()
    until = time.monotonic() + 30
    while not pipe.ended and time.monotonic() < until:
        pipe.receive()
        pipe.wait(0.05)
    assert [answer.names for answer in pipe.inbox] == [("KEEP_ALIVE",)] * 2
    assert pipe.ended == "EOF"


def test_regression_test_runs_over_tls(
    tmp_path: Path, node: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "TRIES", 1)
    prepare_run_dir(tmp_path / "run")
    config = RunConfig(node=node.facts["locator"], run_dir=tmp_path / "run", run_id="run", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        tried = lab.play(Script((reach(State.DECLARED, "a"), batch(KeepAlive()))))
    assert (tried.objection, tried.played.failure) == (None, "")
    assert fails_on(config.node, "stall", tried) is False
