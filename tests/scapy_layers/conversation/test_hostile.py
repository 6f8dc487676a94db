"""Whatever the bytes are: nothing is raised, and what is remembered stays within its bounds."""

from __future__ import annotations

import random
from functools import cache
from gc import get_referents
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.packet import Packet

from scapy_layers import capture
from scapy_layers.conversation import Conversations, Limits
from scapy_layers.data import Query
from scapy_layers.derive.strategies import batches
from scapy_layers.extensions import Compression, LowLatency, MultiLinkInitSyn, Patch, QoSOffer
from scapy_layers.message import Extension
from scapy_layers.network import Request
from scapy_layers.stream import Batch, Datagram, Endpoint, Gap, Link, Way, units
from tests.scapy_layers.conversation.pair import Pair, alias, fragment, frame

PCAPS = Path(__file__).parents[3] / "pcaps"
SMALL = Limits(
    links=8,
    aliases=20_000,
    exchanges=50_000,
    answers=4,
    fragments=20_000,
    message=10_000,
    key=2000,
    reorder=8,
)
OFFERS: list[tuple[Extension, ...]] = [
    (),
    (QoSOffer(), Patch(patch=1)),
    (LowLatency(),),
    (Compression(),),
    (MultiLinkInitSyn(n=b"\x01", e=b"\x03"), QoSOffer()),
]


@cache
def real() -> list[tuple[Way, bytes]]:
    """Batches and datagrams of some captures."""
    names = (
        "declarations",
        "query",
        "fragments",
        "routers",
        "compression",
        "multicast",
        "lowlatency",
        "multilink",
    )
    return [
        (unit.way, unit.data)
        for name in names
        for unit in units(capture.read(PCAPS / f"{name}.pcapng"))
        if isinstance(unit, Batch | Datagram)
    ]


def hear(pair: Pair, raw: bytes, *, back: bool) -> None:
    for one in pair.say(raw, back=back):
        str(one.remarks)
        assert one.number == pair.packet


@given(st.sampled_from(OFFERS), st.lists(st.tuples(st.booleans(), st.binary(max_size=80)), max_size=6))
def test_any_bytes_in_a_session(offer: tuple[Extension, ...], said: list[tuple[bool, bytes]]) -> None:
    pair = Pair(Conversations(SMALL))
    pair.handshake(*offer)
    for back, raw in said:
        hear(pair, raw, back=back)


@given(st.booleans(), st.lists(st.tuples(st.booleans(), batches()), max_size=4))
def test_any_messages_in_any_order(tcp: bool, said: list[tuple[bool, bytes]]) -> None:
    pair = Pair(Conversations(SMALL), tcp=tcp)
    for back, raw in said:
        hear(pair, bytes(raw), back=back)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_traffic_of_real_nodes(seed: int) -> None:
    dice = random.Random(seed)
    hearing = Conversations(SMALL)
    links: dict[int, Link] = {}
    for packet, (way, data) in enumerate(real()):
        link = links.setdefault(id(way.link), way.link)
        raw = bytearray(data)
        for _ in range(dice.choice([0, 0, 1, 3])):
            match dice.randrange(4):
                case 0 if raw:
                    raw[dice.randrange(len(raw))] = dice.randrange(256)
                case 1 if raw:
                    del raw[dice.randrange(len(raw)) :]
                case 2:
                    at = dice.randrange(len(raw) + 1)
                    raw[at:at] = dice.randbytes(dice.randrange(4))
                case _:
                    raw += real()[dice.randrange(len(real()))][1]
        unit = Batch if link.tcp else Datagram
        list(hearing.hear(unit(way, packet, packet, bytes(raw))))
        if not dice.randrange(20):
            list(hearing.hear(Gap(way, packet, packet, None, 0, "")))


def test_memory_stays_within_bounds_on_many_links() -> None:
    """Each link fills every table; what is remembered after many times as many links is no more."""
    hearing = Conversations(SMALL)
    held = [fill(hearing, number) for number in range(100)]
    assert max(held[60:]) <= max(held[10:30]) * 1.01
    assert hearing.forgotten["links"] == 92


def fill(hearing: Conversations, number: int) -> int:
    """Opens a link, fills its tables, and returns how many objects are reachable from what is remembered."""
    pair = Pair(hearing, number=number, first=Endpoint("10.0.0.1", number))
    pair.handshake(QoSOffer(), Patch(patch=1))
    pair.say(frame(10, *(alias(n, "k" * 50) for n in range(1, 20))))
    for lane in (0, 5):
        pair.say(frame(10, *(Request(request_id=n, body=Query()) for n in range(10)), lane=lane))
        pair.say(fragment(20 + lane, bytes(800), first=True))
    return sum(map(weight, [hearing._memory, hearing._scouts]))


def weight(thing: object) -> int:
    """Objects behind a thing, layers of messages excepted."""
    seen: set[int] = set()
    waiting = [thing]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | Packet):
            continue
        seen.add(id(one))
        waiting += [inner for inner in get_referents(one) if not callable(inner)]
    return len(seen)
