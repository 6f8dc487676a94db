"""Sessions over UDP: no lengths in front of batches, and an end only where it is said."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.config import Locator
from fuzz.cases import reach
from fuzz.phrases import act, frame, handshake
from fuzz.player import Answers, Ending, Initiator, Pipe, Player, Trace
from fuzz.script import SIZE, SIZE32, Do, Script, Step, Template, lies_about
from fuzz.standalone import Link
from fuzz.states import State
from scapy_layers.data import Put
from scapy_layers.network import Push
from tests.conformance.refnode._started import Started
from tests.fuzz.campaigns.test_state import ENDS

PUT = frame(Push(key_suffix="a", body=Put(data=b"1")))
COMPRESSIBLE = Step(Do.SEND, "a", data=Template.of(SIZE, b"\x00", *PUT.data.pieces[1:]))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Started]:
    with Started(tmp_path, "--listen", "udp/127.0.0.1:0", "--compression") as running:
        yield running


def pipe(kind: socket.SocketKind) -> Pipe:
    with socket.socket(socket.AF_INET, kind) as sock:
        return Pipe(sock, ENDS, Trace(), Answers(), bytes(16))


@pytest.fixture
def player(node: Started) -> Iterator[Player]:
    made = Player(Initiator(Locator.parse(node.facts["locator"])), 30.0)
    made.patience = made.reply
    yield made
    made.leave()


@pytest.mark.parametrize("state", [State.OPEN, State.DECLARED, State.PENDING, State.COMPRESSED])
def test_sessions_over_datagrams_are_opened_used_and_ended(
    player: Player, node: Started, state: State
) -> None:
    step = COMPRESSIBLE if state is State.COMPRESSED else PUT
    played = player.play(Script((reach(state, "a"), step)))
    assert (played.failure, played.ending) == ("", Ending.ACCEPTED)
    player.leave()
    node.until_stats(sessions=0)


def test_handshake_by_hand_over_datagrams(player: Player, node: Started) -> None:
    steps = (reach(State.CONNECTED, "a"), *handshake(), act(Do.SETTLE))
    played = player.play(Script(steps))
    assert (played.failure, played.names) == ("", ["INIT", "OPEN"])
    node.until_stats(sessions=0)


def test_length_that_is_lied_about_stands_in_front_of_a_datagram() -> None:
    link = pipe(socket.SOCK_DGRAM)
    words = next(iter(lies_about(SIZE)))
    assert len(Template.of(f"{SIZE}|{words}", b"abc").fill(link)) == 5
    assert Template.of(SIZE, b"abc").fill(link) == Template.of(SIZE32, b"abc").fill(link) == b"abc"
    assert Template.of(SIZE, b"abc").fill(pipe(socket.SOCK_STREAM)) == b"\x03\x00abc"


def test_finding_is_played_again_without_lengths_over_datagrams() -> None:
    for kind, sent in ((socket.SOCK_DGRAM, b"\x04"), (socket.SOCK_STREAM, b"\x01\x00\x04")):
        with socket.socket(socket.AF_INET, kind) as sock:
            assert Link(sock).fill("{size}04") == sent
