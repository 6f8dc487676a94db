"""Links of which the node says CLOSE, whether it ends them or not."""

import socket
import time

import pytest

from conformance.observe import Endpoints
from fuzz.cases import reach, send
from fuzz.player import Ending, Player
from fuzz.player.doors import Door
from fuzz.script import Script
from fuzz.states import State
from scapy_layers.batch import prefixed
from scapy_layers.transport import Close, KeepAlive

REPLY = 60.0


class Says(Door):
    """Says something at once, and hears nothing."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        self.theirs: list[socket.socket] = []

    def open(self) -> tuple[socket.socket, Endpoints]:
        ours, theirs = socket.socketpair()
        theirs.sendall(self._said)
        self.theirs.append(theirs)
        return ours, Endpoints(("127.0.0.1", 1), ("127.0.0.1", 2))


@pytest.mark.parametrize("before", [b"", prefixed(bytes(KeepAlive()))])
def test_behind_close_the_end_of_the_link_is_not_waited_for_as_long_as_an_answer(before: bytes) -> None:
    door = Says(before + prefixed(bytes(Close(reason=2))))
    player = Player(door, REPLY)
    began = time.monotonic()
    played = player.play(Script((reach(State.CONNECTED, "a"), send("size", b"\x04"))))
    assert time.monotonic() - began < REPLY / 2
    assert played.ending is Ending.CLOSED
    assert not played.by_itself
    # The next case gets a link of its own.
    assert not player.links
    for theirs in door.theirs:
        theirs.close()
