"""What a node says, told from what it does not."""

import socket

import pytest

from fuzz.player import Answers
from fuzz.player.pipe import Pipe
from fuzz.player.trace import Trace
from scapy_layers.codes import WhatAmI
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Init, KeepAlive
from tests.fuzz.campaigns.test_state import ENDS

INIT = bytes(Init(zid=bytes(range(1, 17)), whatami=WhatAmI.PEER, S=1, batch_size=65_507))


@pytest.mark.parametrize(
    ("batch", "names", "refused"),
    [
        (bytes(Hello(zid=b"\x01", whatami=WhatAmI.ROUTER)), ("HELLO",), False),
        (bytes(Scout()), ("SCOUT",), False),
        # The sender of a HELLO without locators is where the session begins, over UDP.
        (INIT, ("INIT",), False),
        (bytes(KeepAlive()), ("KEEP_ALIVE",), False),
        (INIT[:-1], ("SCOUT", "SCOUT"), True),
        (b"\x1f", (), True),
    ],
)
def test_a_port_that_scouts_hears_scouting_and_udp_links(
    batch: bytes, names: tuple[str, ...], *, refused: bool
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pipe = Pipe(ours, ENDS, Trace(), Answers(), b"\x01" * 16)
        pipe.facts["scouting"] = True
        answer = Answers().read(batch, 0, pipe)
    assert (answer.names, bool(answer.refused)) == (names, refused)
