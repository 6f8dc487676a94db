from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.packet import Packet
from scapy.utils import PcapNgReader

from conformance.observe import Direction, Endpoints
from fuzz import witness
from fuzz.player import Trace
from fuzz.player.trace import EVENT_BYTES
from fuzz.states import State
from fuzz.witness import Witness

ENDS = Endpoints(("127.0.0.1", 40001), ("127.0.0.1", 7447))
OTHER = Endpoints(("127.0.0.1", 40002), ("127.0.0.1", 7447))


def carried(path: Path) -> list[bytes]:
    with PcapNgReader(str(path)) as reader:
        packets: list[Packet] = list(reader)
    return [data for one in packets if (data := bytes((one[TCP] if TCP in one else one[IP][UDP]).payload))]


def test_newest_events_are_bounded_by_their_bytes() -> None:
    trace = Trace()
    link = trace.link(ENDS)
    for number in range(10):
        trace.add(link, Direction.SENT, b"%d" % number * 100)
    assert [event.raw[:1] for event in trace.newest(trace.end, 3 * (100 + EVENT_BYTES), {link})] == [
        b"7",
        b"8",
        b"9",
    ]
    assert len(trace.newest(trace.end, 1 << 20, ())) == 11
    assert trace.newest(trace.end, 0, ()) == []
    assert [event.raw[:1] for event in trace.newest(trace.end - 4, 100 + EVENT_BYTES, ())] == [b"5"]


def test_links_of_the_last_cases_do_not_lose_what_went_over_them_to_others() -> None:
    trace = Trace()
    first, second = trace.link(ENDS), trace.link(OTHER)
    trace.add(first, Direction.SENT, b"old")
    for number in range(10):
        trace.add(second, Direction.SENT, b"%d" % number * 100)
    trace.add(second, Direction.ENDED)
    kept = trace.newest(trace.end, 3 * (100 + EVENT_BYTES), {first})
    assert [(event.link, event.raw[:3]) for event in kept if event.raw] == [
        (first, b"old"),
        *((second, b"%d" % number * 3) for number in (8, 9)),
    ]
    assert [event.direction for event in kept if not event.raw] == [Direction.OPENED, Direction.ENDED]


def test_traffic_of_all_links_stands_in_it_with_what_was_seen_and_nothing_of_later(tmp_path: Path) -> None:
    trace = Trace()
    first, second = trace.link(ENDS), trace.link(OTHER)
    trace.add(first, Direction.SENT, b"\x01\x00\x04")
    trace.add(second, Direction.RECEIVED, b"\x02\x00\x03\x00")
    made = Witness(trace, {first}, {first: State.OPEN}, "a session got no answer")
    trace.add(first, Direction.SENT, b"\x01\x00\x1f")
    made.write(tmp_path / "seen.pcapng")
    assert carried(tmp_path / "seen.pcapng") == [b"\x01\x00\x04", b"\x02\x00\x03\x00"]
    assert b"seen: a session got no answer" in (tmp_path / "seen.pcapng").read_bytes()


def test_handshake_of_a_link_that_was_open_before_stands_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace()
    link = trace.link(ENDS)
    trace.add(link, Direction.SENT, b"\x02\x00\x01\x00")
    for _ in range(200):
        trace.add(link, Direction.SENT, b"\x01\x00\x1f")
    trace.add(link, Direction.SENT, b"\x01\x00\x04")
    monkeypatch.setattr(witness, "MOST_BYTES", 2 * (3 + EVENT_BYTES))
    Witness(trace, {link}, {}, "it").write(tmp_path / "seen.pcapng")
    data = carried(tmp_path / "seen.pcapng")
    assert data[0] == b"\x02\x00\x01\x00"
    assert data[-2:] == [b"\x01\x00\x1f", b"\x01\x00\x04"]
    assert len(data) < 100
