"""Scouting over UDP: lies about SCOUT and HELLO, what is neither, very many and very much."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import KINDS, ZID, forms, main_forms
from fuzz.campaigns.placing import Stated
from fuzz.cases import Source, send
from fuzz.script import Step
from fuzz.sequences import Drawn, Made
from fuzz.states import State
from scapy_layers.codes import Kind, WhatAmI
from scapy_layers.scouting import Hello, Scout

STATES = (State.SCOUTING, State.SEEKING)

FLOOD = 150
"""Datagrams in a row; a socket of a node holds about as many."""

MOST_LOCATORS = 500
"""Locators of one HELLO: a node may try them all, one after the other."""

LARGEST = 65_507
"""Bytes of a datagram over IPv4."""

NOWHERE = "tcp/127.0.0.1:1"
"""Where nobody listens."""

PLACES = (
    NOWHERE,
    "tls/127.0.0.1:1",
    "ws/127.0.0.1:1",
    "unixsock-stream//nowhere",
    "unixpipe//nowhere",
    "serial//nowhere#baudrate=9600",
    "vsock/1:1",
    "tcp/127.0.0.1:0",
    "tcp/127.0.0.1:65536",
    "tcp/[::1]:1",
    "tcp/127.0.0.1:1?rel=0;prio=0-7",
    "tcp/127.0.0.1:1?prio=7-0",
    "tcp/127.0.0.1:1?prio=0-255",
    "tcp/127.0.0.1:1#iface=nowhere",
    "shm/127.0.0.1:1",
    "tcp/127.0.0.1:1/a",
    "TCP/127.0.0.1:1",
)
"""Locators for different ways to be followed. None leads beyond loopback: hosts are numbers, so that nobody asks a
name server, and none is a group. None is UDP or QUIC: a node waits for somebody to answer there, and follows no other
HELLO meanwhile.
"""


def make(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (every campaign is called like this)
    """SCOUT and HELLO in every form; then datagrams that are none, or too many."""
    for state, kind in product(STATES, ("SCOUT", "HELLO")):
        for words, message in forms(kind).items():
            yield Stated(f"{kind} {words} in {state}", state, message)
    for state in STATES:
        yield Made(
            f"other datagrams in {state}", state, "batch", dict(_datagrams()), "garbage", _drawn, alone=False
        )
        yield Made(f"messages of links in {state}", state, "INIT", dict(_of_links()), "place", alone=False)
        yield Made(f"many in {state}", state, "SCOUT", dict(_many()), "flood", alone=False)
        yield Made(f"locators in {state}", state, "HELLO", dict(_locators()), "locators", alone=False)


Variant = tuple[str, Callable[[], Sequence[Step]]]


def _said(*pieces: bytes | str, times: int = 1, note: str = "") -> Callable[[], Sequence[Step]]:
    return lambda: [send(*pieces, times=times, note=note)]


def _scout(**fields: int) -> bytes:
    return bytes(Scout(**fields))


def _hello(*locators: str, zid: bytes = ZID) -> bytes:
    return bytes(Hello(zid=zid, whatami=WhatAmI.PEER, L=int(bool(locators)), locators=list(locators)))


def _datagrams() -> Iterator[Variant]:
    yield "nothing", _said(b"")
    for byte in range(256):
        yield f"byte {byte:02x}", _said(bytes([byte]))
    for size in (2, 3, 64, 1500, 9000):
        for byte in (0x00, 0x01, 0x02, 0x7F, 0xFF):
            yield f"{size} bytes {byte:02x}", _said(bytes([byte]) * size)
    yield "the largest datagram", _said(b"\xff" * LARGEST)
    scout, hello = _scout(), _hello(NOWHERE)
    pairs = {"SCOUT": scout, "HELLO": hello}
    for (first, one), (second, other) in product(pairs.items(), repeat=2):
        yield f"{first} and {second} in one", _said(one + other)
    for name, one in pairs.items():
        yield f"{name} and a rest", _said(one + b"\xff")
        yield f"{name} and much of a rest", _said(one + bytes(LARGEST - len(one)))
        yield f"{name} with a length in front", _said(len(one).to_bytes(2, "little") + one)
        yield f"{name} from the end", _said(one[::-1])
    yield "no UTF-8 and no datagram", _said(b"GET / HTTP/1.1\r\n\r\n")


def _of_links() -> Iterator[Variant]:
    for name, cls in KINDS.items():
        if cls.kind is Kind.SCOUTING:
            continue
        for words, message in main_forms(name).items():
            yield f"{name} {words}", _said(bytes(message))


def _many() -> Iterator[Variant]:
    yield "SCOUTs", _said(_scout(), times=FLOOD)
    yield "HELLOs of one node", _said(_hello(NOWHERE), times=FLOOD)
    head = _hello(NOWHERE, zid=b"000001")
    front, back = head.split(b"000001")
    yield "HELLOs of many nodes", _said(front, "digits", back, times=FLOOD)
    yield (
        "HELLOs of nodes that are nowhere",
        _said(_hello()[:3].replace(b"\xf1", b"\x51"), "digits", times=FLOOD),
    )
    yield "datagrams of nothing", _said(b"", times=FLOOD)
    yield "large datagrams", _said(b"\x02" + bytes(60_000), times=20)
    yield (
        "SCOUTs and HELLOs by turns",
        lambda: [
            send(one, note="by turns") for _ in range(FLOOD // 10) for one in (_scout(), _hello(NOWHERE))
        ],
    )


def _locators() -> Iterator[Variant]:
    for place in PLACES:
        yield place, _said(_hello(place))
    for count in (2, 16, 127, 128, 255, 256, MOST_LOCATORS):
        yield f"{count} times the same", _said(_hello(*[NOWHERE] * count))
    yield "many places", _said(_hello(*(f"tcp/127.0.0.{1 + number % 254}:1" for number in range(200))))
    yield "many that are none", _said(_hello(*["x"] * MOST_LOCATORS))
    yield "long ones", _said(_hello(*["tcp/" + "a" * 250] * 200))
    yield "all of these", _said(_hello(*PLACES))


def _drawn(rng: random.Random) -> Drawn:
    """Draws bytes behind a header that is known."""
    size = rng.choice((1, 2, 3, 4, 8, 16, 32, 64, 256))
    head = bytes(
        [rng.choice((0x01, 0x02)) | rng.choice((0, 0x20, 0x40, 0x80, 0xE0)), rng.choice((9, 9, 9, 8, 255))]
    )
    data = head + rng.randbytes(size)
    return Drawn(f"{size} random bytes behind {head.hex()}", ("random bytes",), [send(data)])


CAMPAIGN = Campaign(
    "scouting", "SCOUT and HELLO over UDP: mutations, other datagrams, bounded floods", make, weight=0.7
)
