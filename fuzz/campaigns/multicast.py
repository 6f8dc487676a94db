"""A multicast group: JOIN, and what members say before, behind and without it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import KINDS, forms, main_forms
from fuzz.campaigns.placing import Stated
from fuzz.cases import Source, send
from fuzz.phrases import ZID_MARK, Pieces, as_fragment, as_frame, push, query, subscriber, token
from fuzz.player import template_of
from fuzz.player.pipe import FIRST_SN
from fuzz.script import Step
from fuzz.sequences import Drawn, Made
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.codes import CloseReason, Kind, Resolution
from scapy_layers.message import Message
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Join, KeepAlive, TransportOam

STATES = (State.GROUP, State.JOINED)

FLOOD = 100
"""Datagrams in a row."""

LARGEST = 65_507
"""Bytes of a datagram over IPv4."""

MEMBERS = 100
"""Members that one case invents; they are gone after a second."""


def make(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (every campaign is called like this)
    """JOIN in every form; every other message of a member and of a stranger; sequences and floods."""
    for state in STATES:
        for words, message in forms("JOIN").items():
            yield Stated(f"JOIN {words} in {state}", state, message)
        for kind, cls in KINDS.items():
            if kind != "JOIN" and (cls.kind is Kind.TRANSPORT or state is State.JOINED):
                for words, message in main_forms(kind).items():
                    yield Stated(f"{kind} {words} in {state}", state, message)
        yield Made(f"JOINs in {state}", state, "JOIN", dict(_joins()), "agreement", alone=False)
        yield Made(
            f"other datagrams in {state}", state, "batch", dict(_datagrams()), "garbage", _drawn, alone=False
        )
    yield Made("members", State.GROUP, "JOIN", dict(_members()), "order")
    yield Made("what a member says", State.JOINED, "FRAME", dict(_said()), "order")


Variant = tuple[str, Callable[[], Sequence[Step]]]


def joining(**fields: object) -> Step:
    """Returns the step that sends a JOIN; fields given win."""
    values: dict[str, object] = {
        "zid": ZID_MARK,
        "lease": 10_000,
        "next_sn_re": FIRST_SN,
        "next_sn_be": FIRST_SN,
        "extensions": [ext.Patch(patch=1)],
        **fields,
    }
    return send(*template_of(Join(**values), "").pieces, note="JOIN")


def datagram(*parts: Pieces | Message | bytes, note: str = "", times: int = 1) -> Step:
    """Returns the step that sends transport messages in one datagram."""
    pieces: list[bytes | str] = []
    for part in parts:
        pieces += part if isinstance(part, tuple) else (bytes(part),)
    return send(*pieces, note=note, times=times)


def _joins() -> Iterator[Variant]:
    def one(**fields: object) -> Callable[[], Sequence[Step]]:
        return lambda: [joining(**fields), datagram(as_frame(push()), note="PUSH")]

    for fsn, rid in product(Resolution, Resolution):
        yield f"fsn {fsn.name}, rid {rid.name}", one(fsn=fsn, rid=rid)
    for size in (0, 1, 2, 16, 1500, 8191, 8192, 8193, 65_535):
        yield f"batches of {size}", one(batch_size=size)
    for lease, seconds in product((0, 1, 100, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1), (0, 1)):
        yield f"lease {lease} {'s' if seconds else 'ms'}", one(lease=lease, T=seconds)
    for role in range(4):
        yield f"role {role}", one(whatami=role)
    for version in (0, 8, 10, 255):
        yield f"version {version}", one(version=version)
    for number in (0, (1 << 28) - 1, 1 << 28, (1 << 32) - 1):
        yield f"numbers from {number}", one(next_sn_re=number, next_sn_be=number)
    lanes = [{"next_sn_re": FIRST_SN, "next_sn_be": FIRST_SN}] * 8
    yield "with lanes", one(extensions=[ext.JoinLanes(lanes=lanes), ext.Patch(patch=1)])
    yield "with lanes twice", one(extensions=[ext.JoinLanes(lanes=lanes), ext.JoinLanes(lanes=lanes)])
    yield "without a patch", one(extensions=[])
    for patch in (0, 2, 255, 1 << 32, (1 << 64) - 1):
        yield f"patch {patch}", one(extensions=[ext.Patch(patch=patch)])
    for size in (1, 2, 8, 15):
        yield f"ZenohID of {size} bytes", one(zid=bytes(range(1, size + 1)))


def _members() -> Iterator[Variant]:
    frame = datagram(as_frame(push()), note="PUSH")
    yield "PUSH, JOIN, PUSH", lambda: [frame, joining(), frame]
    yield "JOIN twice", lambda: [joining(), joining(), frame]
    yield "JOIN, then one with another lease", lambda: [joining(), joining(lease=1), frame]
    yield "JOIN, then one with other sizes", lambda: [joining(), joining(batch_size=1000), frame]
    yield "JOIN, then one with other widths", lambda: [joining(), joining(fsn=Resolution.BITS_8), frame]
    yield "JOIN, then one of another node", lambda: [joining(), joining(zid=b"\x09" * 16), frame]
    yield (
        "JOIN, then one with other numbers",
        lambda: [
            joining(),
            joining(next_sn_re=5, next_sn_be=5),
            datagram(as_frame(push(), sn=5)),
            frame,
        ],
    )
    yield "JOIN, CLOSE, JOIN", lambda: [joining(), datagram(Close(S=1, reason=0)), joining(), frame]
    yield "CLOSE of a stranger", lambda: [datagram(Close(S=1, reason=0)), frame]
    yield "JOIN and PUSH in one datagram", lambda: [_together()]
    template = template_of(Join(zid=b"\x51\x52\x53\x54\x55\x56", T=1, lease=1), "").pieces
    (whole,) = (piece for piece in template if isinstance(piece, bytes))
    front, back = whole.split(b"\x51\x52\x53\x54\x55\x56")
    yield (
        "many members from one port",
        lambda: [send(front, "digits", back, times=MEMBERS, note="JOIN"), frame],
    )


def _together() -> Step:
    join = joining()
    return send(*join.data.pieces, *as_frame(push()), note="JOIN and PUSH")


def _said() -> Iterator[Variant]:
    value = bytes(push(data=bytes(4000)))
    half = len(value) // 2
    first = datagram(as_fragment(value[:half], first=True, more=True), note="first half")
    last = datagram(as_fragment(value[half:]), note="second half")
    frame = datagram(as_frame(push()), note="PUSH")
    yield "a message in two halves", lambda: [first, last, frame]
    yield "the first half only", lambda: [first, frame]
    yield "the second half only", lambda: [last, frame]
    yield "the first half over and over", lambda: [first] * 50
    yield (
        "fragments without end",
        lambda: [
            datagram(as_fragment(value[:half], first=True, more=True)),
            datagram(as_fragment(bytes(8000), more=True), times=FLOOD, note="more"),
        ],
    )
    for number in (0, FIRST_SN - 1, FIRST_SN + (1 << 27), (1 << 28) - 1, 1 << 28, (1 << 32) - 1):
        yield (
            f"a FRAME with number {number}",
            lambda number=number: [  # type: ignore[misc]
                datagram(as_frame(push(), sn=number)),
                frame,
            ],
        )
    yield "FRAMEs", lambda: [datagram(as_frame(push()), times=FLOOD, note="PUSH")]
    yield "JOINs", lambda: [joining()] * FLOOD
    yield "KEEP_ALIVEs", lambda: [datagram(KeepAlive(), times=FLOOD)]
    for reason in (*CloseReason, 0xFF):
        for session in (0, 1):
            yield (
                f"CLOSE {int(reason)} S={session}",
                lambda reason=reason, session=session: [  # type: ignore[misc]
                    datagram(Close(S=session, reason=int(reason))),
                    frame,
                ],
            )
    yield (
        "declarations, then CLOSE",
        lambda: [
            datagram(as_frame(subscriber(1), token(2)), note="declarations"),
            datagram(Close(S=1, reason=0)),
            frame,
        ],
    )
    yield "declarations twice", lambda: [datagram(as_frame(subscriber(1), token(2)))] * 2
    yield "a query", lambda: [datagram(as_frame(query(1)))]
    yield (
        "every kind of thing in one datagram",
        lambda: [
            datagram(
                KeepAlive(),
                as_frame(push()),
                TransportOam(oam_id=7, data=b"hi"),
                as_frame(push()),
                note="all",
            )
        ],
    )
    yield "a full datagram", lambda: [datagram(as_frame(push(data=bytes(8000))))]
    yield "more than a batch", lambda: [datagram(as_frame(push(data=bytes(9000))))]
    yield "the largest datagram", lambda: [datagram(as_frame(push(data=bytes(65_400))))]


def _datagrams() -> Iterator[Variant]:
    yield "nothing", lambda: [send(b"", note="nothing")]
    for byte in range(256):
        yield f"byte {byte:02x}", lambda byte=byte: [send(bytes([byte]))]  # type: ignore[misc]
    for size, byte in product((2, 64, 1500, 8193), (0x00, 0x07, 0x25, 0xFF)):
        yield f"{size} bytes {byte:02x}", lambda size=size, byte=byte: [send(bytes([byte]) * size)]  # type: ignore[misc]
    yield "the largest datagram", lambda: [send(b"\xff" * LARGEST)]
    yield "SCOUT", lambda: [datagram(Scout())]
    yield "HELLO", lambda: [datagram(Hello(zid=b"\x01" * 16, whatami=1))]
    yield "JOIN with a length in front", lambda: [_prefixed(joining())]


def _prefixed(step: Step) -> Step:
    return send("size", *step.data.pieces, note="JOIN with a length in front")


def _drawn(rng: random.Random) -> Drawn:
    """Draws bytes behind the header of a JOIN, or of a FRAME with the number that is due."""
    size = rng.choice((1, 4, 16, 64, 256, 1000))
    data = rng.randbytes(size)
    if rng.random() < 0.5:
        head = bytes([0x07 | rng.choice((0, 0x20, 0x40, 0x80, 0xE0)), 9, 0xF1])
        return Drawn(f"JOIN and {size} random bytes", ("random JOIN",), [send(head, "zid", data)])
    return Drawn(f"FRAME and {size} random bytes", ("random FRAME",), [send(b"\x25", "sn", data)])


CAMPAIGN = Campaign(
    "multicast", "JOIN and what members of a multicast group send before and after it", make, weight=0.4
)
