from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from scapy_layers.capture import CaptureError, read
from scapy_layers.ip import Fragments, Segment
from scapy_layers.stream import Unit, units, units_of
from tests.scapy_layers.packets import (
    HERE,
    HERE_6,
    THERE,
    THERE_6,
    block,
    enhanced,
    ethernet,
    interface,
    ipv4,
    ipv6,
    option,
    pcap,
    pcapng,
    prefixed,
    put,
    section,
    tcp,
    udp,
)
from tests.scapy_layers.tunnels import TUNNELS, pppoe, vxlan

PCAPS = sorted((Path(__file__).parents[2] / "pcaps").glob("*.pcapng"))
SENT = ipv4(tcp(b"hello", seq=77))
PLAIN = ethernet(SENT)
SECOND = 1_000_000_000


class Pipe(io.BytesIO):
    """A file that cannot seek and gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self.size = size

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise io.UnsupportedOperation

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(min(size or 0, self.size))


def segments(raw: bytes) -> list[Segment]:
    """Reads in both ways, which must agree."""
    seen = list(read(io.BytesIO(raw)))
    assert seen == list(read(io.BytesIO(raw), quick=False))
    return seen


def broken(raw: bytes) -> tuple[list[Segment], CaptureError]:
    seen: list[Segment] = []
    reading = read(io.BytesIO(raw))
    with pytest.raises(CaptureError) as caught:
        take_all(reading, seen)
    return seen, caught.value


def take_all(reading: Iterable[object], into: list[Any]) -> None:
    """Unlike list.extend keeps what came in front of an error."""
    for item in reading:
        into.append(item)  # noqa: PERF402


def one(packet: bytes, link: int = 1) -> Segment | None:
    seen = segments(pcap([packet], link=link))
    return seen[0] if seen else None


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_pcap_of_either_order_and_resolution(order: str, magic: int, unit: int) -> None:
    first, second = segments(pcap([PLAIN, PLAIN], order=order, magic=magic))
    assert first == Segment(
        1, SECOND + 500 * unit, True, HERE + THERE + b"\xc3\x50\x1d\x17", 77, 9, 24, b"hello", 0
    )
    assert (second.number, second.time) == (2, 2 * SECOND + 500 * unit)
    assert (first.source, first.target, first.sport, first.dport) == (HERE, THERE, 50_000, 7447)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_of_either_order(order: str) -> None:
    assert [one.time for one in segments(pcapng([PLAIN, PLAIN], order=order))] == [1000, 2000]


@pytest.mark.parametrize(
    ("options", "time"),
    [
        (b"", 5000),
        (option(9, b"\x09"), 5),
        (option(9, b"\x03"), 5_000_000),
        (option(9, b"\x00"), 5 * SECOND),
        (option(9, b"\x8a"), 5 * SECOND // 1024),
        (
            option(2, b"lo") + option(9, b"\x09") + option(14, struct.pack("<q", 3)) + option(0, b""),
            3 * SECOND + 5,
        ),
        (option(9, b"\x0c"), 0),
    ],
)
def test_pcapng_time_follows_its_interface(options: bytes, time: int) -> None:
    raw = section() + interface() + interface(options=options) + enhanced(PLAIN, number=1, ticks=5)
    assert [one.time for one in segments(raw)] == [time]


def test_pcapng_sections_blocks_and_interfaces_of_every_kind() -> None:
    old = block(2, struct.pack("<HHIIII", 1, 0, 0, 7, len(SENT), len(SENT)) + SENT)
    simple = block(3, struct.pack("<I", len(PLAIN)) + PLAIN)
    raw = b"".join(
        [
            section(),
            interface(),
            block(4, bytes(8)),  # names
            interface(101),
            block(0xBAD, b"custom!!"),  # what has a number without being a packet
            old,
            simple,
            section(">"),
            interface(101, order=">"),
            block(5, bytes(12), ">"),  # statistics
            enhanced(SENT, order=">", ticks=9),
        ]
    )
    assert [(one.number, one.time, one.data) for one in segments(raw)] == [
        (2, 7000, b"hello"),
        (3, 0, b"hello"),
        (4, 9000, b"hello"),
    ]


@pytest.mark.parametrize(
    ("kind", "counts"),
    [(0xBAD, 1), (0x40000BAD, 1), (9, 1), (0x204, 1), (0x216, 1), (0x221, 1), (5, 0), (10, 0), (0x77, 0)],
)
def test_packets_have_the_numbers_that_wireshark_gives_them(kind: int, counts: int) -> None:
    raw = section() + interface() + enhanced(PLAIN) + block(kind, bytes(40)) + enhanced(PLAIN)
    assert [one.number for one in segments(raw)] == [1, 2 + counts]


def test_simple_packet_is_cut_by_the_snap_length_of_its_interface() -> None:
    raw = section() + interface(snap=57) + block(3, struct.pack("<I", len(PLAIN)) + PLAIN[:57])
    (seen,) = segments(raw)
    assert (seen.data, seen.missing) == (b"hel", 2)


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_gzip_of_several_members_and_padding(write: object) -> None:
    raw = pcap([PLAIN] * 500) if write is pcap else pcapng([PLAIN] * 500)
    packed = gzip.compress(raw[:1000]) + gzip.compress(raw[1000:]) + bytes(512)
    assert segments(packed) == segments(raw)


@pytest.mark.parametrize("packed", [bz2.compress, lzma.compress])
def test_bzip2_and_xz_of_several_streams_are_read(packed: Callable[[bytes], bytes]) -> None:
    raw = pcapng([PLAIN] * 5000)  # more than is decompressed at a time
    assert segments(packed(raw[:1000]) + packed(raw[1000:])) == segments(raw)
    assert list(read(Pipe(packed(raw), 1))) == segments(raw)


@pytest.mark.parametrize("packed", [bz2.compress, lzma.compress])
def test_damaged_bzip2_or_xz_is_told_behind_what_stands_in_front(packed: Callable[[bytes], bytes]) -> None:
    raw = pcap([PLAIN] * 10)
    seen, error = broken(packed(raw)[:-1])
    assert len(seen) == 10
    assert "too early" in error.reason
    seen, error = broken(packed(raw) + packed(raw)[:20] + bytes(100))
    assert len(seen) == 10
    assert "cannot be decompressed" in error.reason
    seen, error = broken(packed(raw)[:12])
    assert not seen


def test_xz_that_asks_for_much_memory_is_refused() -> None:
    dictionary = {"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}
    _, error = broken(lzma.compress(pcap([PLAIN]), filters=[dictionary]))
    assert "memory" in error.reason.lower()


@pytest.mark.parametrize(
    ("magic", "what"), [("28b52ffd", "zstd -d"), ("04224d18", "lz4 -d"), ("504b0304", "unzip")]
)
def test_other_compression_is_named_with_what_to_do(magic: str, what: str) -> None:
    _, error = broken(bytes.fromhex(magic) + bytes(100))
    assert what in error.reason


def test_other_kind_of_capture_is_told_with_what_to_do() -> None:
    _, error = broken(b"snoop" + bytes(100))
    assert "editcap -F pcapng" in error.reason


@pytest.mark.parametrize("size", [1, 3, 17, 4096])
@pytest.mark.parametrize("packed", [False, True])
def test_stream_that_cannot_seek_is_read_as_it_comes(size: int, packed: bool) -> None:
    raw = pcapng([PLAIN] * 20)
    told: list[int] = []
    data = gzip.compress(raw) if packed else raw
    assert list(read(Pipe(data, size), progress=told.append)) == segments(raw)
    assert told[-1] == len(data)
    assert told == sorted(told)


def test_file_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap([PLAIN]))
    assert [one.data for one in read(path)] == [b"hello"]


def test_capture_without_packets_is_no_error() -> None:
    assert segments(pcap([])) == segments(section()) == segments(section() + interface()) == []


# Damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw", [b"", b"\xa1", b"PK\x03\x04 zip", bytes(100), b"\x1f\x8bnot really", section()[:20]]
)
def test_what_is_no_capture_is_refused_in_one_sentence(raw: bytes) -> None:
    seen, error = broken(raw)
    assert not seen
    assert error.number == 1
    assert "\n" not in str(error)


@pytest.mark.parametrize("cut", [1, 40, len(PLAIN) + 3])
@pytest.mark.parametrize("packed", [False, True])
def test_whole_packets_are_handed_out_in_front_of_a_cut_end(cut: int, packed: bool) -> None:
    raw = pcap([PLAIN] * 10)[:-cut]
    seen, error = broken(gzip.compress(raw) if packed else raw)
    assert len(seen) == 9
    assert (error.number, error.offset) == (10, 24 + 9 * (16 + len(PLAIN)))


def test_damaged_gzip_gives_what_stands_in_front_of_the_damage() -> None:
    raw = pcap([PLAIN] * 10)
    seen, error = broken(gzip.compress(raw)[:-8] + b"checksum")
    assert len(seen) == 10
    assert "gzip" in error.reason
    seen, error = broken(gzip.compress(raw)[:-8])
    assert len(seen) == 10
    assert "too early" in error.reason


@pytest.mark.parametrize("packed", [False, True])
def test_length_that_lies_is_refused_and_not_allocated(packed: bool) -> None:
    record = struct.pack("<IIII", 1, 2, 0xFFFF_FFFF, 0xFFFF_FFFF)
    raw = pcap([PLAIN]) + record + bytes(100)
    seen, error = broken(gzip.compress(raw) if packed else raw)
    assert len(seen) == 1
    assert "4294967311" in error.reason
    raw = pcapng([PLAIN]) + struct.pack("<II", 6, 0xFFFF_FFF0) + bytes(100)
    assert len(broken(raw)[0]) == 1


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (block(6, bytes(4)), "too short"),
        (enhanced(PLAIN, number=1), "interface 1"),
        (enhanced(PLAIN)[:20] + b"\xff\xff\0\0" + enhanced(PLAIN)[24:], "packet of 65535"),
        (enhanced(PLAIN)[:-4] + bytes(4), "differ"),
        (struct.pack("<II", 9, 13) + bytes(20), "block of 13"),
        (struct.pack("<II", 9, 4) + bytes(20), "block of 4"),
        (block(1, b""), "description"),
        (block(3, b""), "simple"),
        (section()[:8] + bytes(20), "byte order"),
    ],
)
def test_block_that_contradicts_itself_ends_the_reading(bad: bytes, word: str) -> None:
    good = section() + interface() + enhanced(PLAIN)
    seen, error = broken(good + bad + enhanced(PLAIN))
    assert len(seen) == 1
    assert word in error.reason
    assert (error.number, error.offset) == (2, len(good))


# Links --------------------------------------------------------------------------------------------

SENT_6 = ipv6(tcp(b"hello", seq=77))
SNAP = b"\xaa\xaa\x03\0\0\0"


@pytest.mark.parametrize(
    ("link", "head"),
    [
        (1, ethernet(b"\x45")[:-1]),
        (1, ethernet(b"\x45", tags=[0x8100])[:-1]),
        (1, ethernet(b"\x45", tags=[0x88A8, 0x8100, 0x9100])[:-1]),
        (1, ethernet(SNAP + b"\x08\0", kind=53)),
        (1, ethernet(SNAP + b"\x08\0", tags=[0x8100], kind=53)),
        (1, ethernet(SNAP + b"\x81\0\0\x05\x08\0", kind=57)),
        (0, b"\x02\0\0\0"),
        (0, b"\0\0\0\x02"),
        (108, b"\0\0\0\x02"),
        (12, b""),
        (14, b""),
        (101, b""),
        (228, b""),
        (113, bytes(14) + b"\x08\0"),
        (113, bytes(14) + b"\0\x04" + SNAP + b"\x08\0"),
        (113, bytes(14) + b"\x81\0\0\x05\x08\0"),
        (276, b"\x08\0" + bytes(18)),
    ],
)
def test_every_link_layer_carries_ip(link: int, head: bytes) -> None:
    seen = one(head + SENT, link)
    assert seen is not None
    assert (seen.data, seen.source, seen.seq) == (b"hello", HERE, 77)


@pytest.mark.parametrize(
    ("link", "head"),
    [
        *((0, bytes([family, 0, 0, 0])) for family in (10, 24, 28, 30)),
        *((108, bytes([0, 0, 0, family])) for family in (10, 24, 28, 30)),
        (1, bytes(12) + b"\x86\xdd"),
        (1, bytes(12) + b"\0\x49" + SNAP + b"\x86\xdd"),
        (101, b""),
        (229, b""),
        (113, bytes(14) + b"\x86\xdd"),
        (276, b"\x86\xdd" + bytes(18)),
    ],
)
def test_every_link_layer_carries_ipv6(link: int, head: bytes) -> None:
    seen = one(head + SENT_6, link)
    assert seen is not None
    assert (seen.data, seen.source, seen.target, seen.dport) == (b"hello", HERE_6, THERE_6, 7447)


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        PLAIN[:13],
        PLAIN[:30],
        PLAIN[:50],
        ethernet(SENT, kind=0x0806),
        ethernet(bytes(100), tags=[0x8100] * 3)[:17],
        ethernet(ipv4(bytes(30), protocol=1)),
        ethernet(b"\x41" + SENT[1:]),
        ethernet(ipv4(tcp(b"")[:12] + b"\x10" + tcp(b"")[13:])),
        ethernet(ipv4(tcp(b"")[:12] + b"\xf0" + tcp(b"")[13:])),
        ethernet(ipv4(udp(b"", length=3), protocol=17)),
        ethernet(ipv6(bytes(30), protocol=58)),
    ],
)
def test_foreign_and_damaged_packets_are_skipped(packet: bytes) -> None:
    assert one(packet) is None


def test_unknown_link_type_is_skipped() -> None:
    assert one(SENT, 147) is None


# Tunnels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TUNNELS)
@pytest.mark.parametrize("packet", [PLAIN, ethernet(SENT_6), ethernet(ipv4(udp(b"hello"), protocol=17))])
def test_packet_in_a_tunnel_is_read_as_without(packet: bytes, kind: str) -> None:
    tunnelled = TUNNELS[kind](packet)
    assert one(tunnelled + bytes(7)) == one(packet)  # what follows is padding
    for cut in range(len(tunnelled)):
        seen = one(tunnelled[:cut])
        assert seen is None or not seen.tcp or b"hello".startswith(seen.data)


@pytest.mark.parametrize("version", [4, 6])
def test_tunnel_in_fragments_is_put_together(version: int) -> None:
    datagram = vxlan(PLAIN)[34:]
    (seen,) = segments(pcap(map(ethernet, fragments(datagram, [16, 80], version=version))))
    assert (seen.data, seen.source) == (b"hello", HERE)


def test_packet_may_not_reach_out_of_the_one_that_carries_it() -> None:
    longer = ethernet(ipv4(tcp(b"hello"), total=45 + 9))
    seen = one(vxlan(longer) + b"123456789")
    assert seen is not None
    assert (seen.data, seen.missing) == (b"hello", 9)


@pytest.mark.parametrize(
    ("link", "head"),
    [
        (9, b"\0\x21"),
        (9, b"\x21"),
        (9, b"\xff\x03\0\x21"),
        (1, ethernet(b"\x11\0\0\5\0\x2e\0\x21", kind=0x8864, tags=[0x8100])),
        (113, bytes(14) + b"\x88\x64\x11\0\0\5\0\x2e\0\x21"),
    ],
)
def test_ppp_carries_ip(link: int, head: bytes) -> None:
    seen = one(head + SENT, link)
    assert seen is not None
    assert (seen.data, seen.source) == (b"hello", HERE)


@pytest.mark.parametrize(
    "packet",
    [
        ethernet(b"\x11\xa7" + pppoe(PLAIN)[16:], kind=0x8864),
        ethernet(bytes(60), kind=0x8847),
        ethernet(ipv4(b"\x40\0\x08\0" + SENT, protocol=47)),
        ethernet(ipv4(b"\0\1\x08\0" + SENT, protocol=47)),
        ethernet(ipv4(b"\0\0\x88\x0b" + SENT, protocol=47)),
        vxlan(ethernet(bytes(28), kind=0x0806)),
    ],
)
def test_what_carries_no_ip_is_skipped(packet: bytes) -> None:
    assert one(packet) is None


@pytest.mark.parametrize(
    ("port", "data"),
    [
        (4789, put(7)),
        (8472, b"\x08"),
        (6081, b""),
        (6081, put(7)),
        (2152, put(7)),
        (2152, b"\x32\x01" + bytes(12)),
    ],
)
def test_other_datagram_to_the_port_of_a_tunnel_is_read_as_such(port: int, data: bytes) -> None:
    seen = one(ethernet(ipv4(udp(data, dport=port), protocol=17)))
    assert seen is not None
    assert (seen.data, seen.dport) == (data, port)


def test_packets_stand_in_each_other_within_bounds() -> None:
    packet = PLAIN
    for _ in range(7):
        packet = vxlan(packet)
    assert one(packet) == one(PLAIN)
    assert one(vxlan(packet)) is None


# IP -----------------------------------------------------------------------------------------------


def test_padding_of_the_link_is_no_payload() -> None:
    seen = one(ethernet(ipv4(udp(b"x"), protocol=17)) + bytes(17))
    assert seen is not None
    assert (seen.data, seen.tcp) == (b"x", False)
    empty = one(ethernet(ipv4(tcp(b""))) + bytes(6))
    assert empty is not None
    assert empty.data == b""


def test_options_are_no_payload() -> None:
    seen = one(ethernet(ipv4(tcp(b"hello", options=bytes(12)), options=bytes(8))))
    assert seen is not None
    assert seen.data == b"hello"


def test_length_that_is_left_to_the_network_card_means_the_rest() -> None:
    for packet in (ipv4(tcp(b"hello"), total=0), ipv6(tcp(b"hello"), size=0)):
        seen = one(ethernet(packet))
        assert seen is not None
        assert (seen.data, seen.missing) == (b"hello", 0)


@pytest.mark.parametrize("packet", [SENT, SENT_6, ipv4(udp(b"hello"), protocol=17)])
def test_bytes_cut_by_the_snap_length_are_counted(packet: bytes) -> None:
    whole = ethernet(packet)
    (seen,) = segments(pcap([whole], snap=len(whole) - 3))
    assert (seen.data, seen.missing) == (b"he", 3)


def test_ipv6_extension_headers_are_walked() -> None:
    inner = tcp(b"hello")
    chain = (
        bytes([43, 0])
        + bytes(6)
        + bytes([60, 1])
        + bytes(14)
        + bytes([51, 0])
        + bytes(6)
        + bytes([6, 1])
        + bytes(10)
    )
    seen = one(ethernet(ipv6(chain + inner, protocol=0)))
    assert seen is not None
    assert seen.data == b"hello"


def fragments(payload: bytes, cuts: list[int], *, version: int = 4, number: int = 7) -> list[bytes]:
    ends = [*cuts, len(payload)]
    packets = []
    for start, end in zip([0, *cuts], ends, strict=True):
        more = end < len(payload)
        if version == 4:
            packets.append(
                ipv4(payload[start:end], protocol=17, fragment=start // 8 | more << 13, number=number)
            )
        else:
            head = struct.pack(">BBHI", 17, 0, start | more, number)
            packets.append(ipv6(head + payload[start:end], protocol=44))
    return packets


PAYLOAD = udp(bytes(range(256)) * 4)


@pytest.mark.parametrize("version", [4, 6])
def test_fragments_are_put_together_in_any_order(version: int) -> None:
    packets = fragments(PAYLOAD, [8, 400, 1000], version=version)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [0, 0, 1, 1, 2, 3]):
        (seen,) = segments(pcap([ethernet(packets[at]) for at in order]))
        assert (seen.data, seen.number) == (PAYLOAD[8:], len(order))


@pytest.mark.parametrize("version", [4, 6])
def test_fragments_of_different_packets_are_kept_apart(version: int) -> None:
    one = fragments(PAYLOAD, [800], version=version)
    two = fragments(udp(bytes(1024)), [800], version=version, number=8)
    seen = segments(pcap(map(ethernet, [one[0], two[0], one[1], two[1]])))
    assert [segment.data for segment in seen] == [PAYLOAD[8:], bytes(1024)]


def test_fragment_that_overlaps_changes_nothing() -> None:
    first, second = fragments(PAYLOAD, [800])
    liar = ipv4(b"\xee" * 160, protocol=17, fragment=700 // 8 | 1 << 13)
    (seen,) = segments(pcap(map(ethernet, [first, liar, second])))
    assert seen.data[:792] == PAYLOAD[8:800]
    assert seen.data[792 : 696 + 152] == b"\xee" * 56
    assert seen.data[696 + 152 :] == PAYLOAD[856:]


def test_fragment_behind_the_end_is_ignored() -> None:
    first, second = fragments(PAYLOAD, [800])
    liar = ipv4(bytes(8), protocol=17, fragment=1200 // 8 | 1 << 13)
    for packets in ([liar, first, second], [second, liar, first]):
        (seen,) = segments(pcap(map(ethernet, packets)))
        assert seen.data == PAYLOAD[8:]


def test_packet_with_a_missing_or_cut_fragment_is_not_handed_out() -> None:
    first, second = fragments(PAYLOAD, [800])
    assert segments(pcap([ethernet(second)])) == []
    assert segments(pcap([ethernet(first), ethernet(second)], snap=600)) == []
    first, second = fragments(PAYLOAD, [104])
    assert segments(pcap([ethernet(first), ethernet(second)], snap=600)) == []


def test_first_fragment_of_a_segment_is_not_taken_for_all_of_it() -> None:
    whole = tcp(bytes(200))
    first, second = ipv4(whole[:120], fragment=1 << 13), ipv4(whole[120:], fragment=15)
    (seen,) = segments(pcap([ethernet(first), ethernet(second)]))
    assert (seen.number, seen.data) == (2, bytes(200))


def test_fragments_wait_within_bounds() -> None:
    waiting = Fragments(most=10, most_bytes=1000)
    for number in range(1000):
        waiting.add(number.to_bytes(2, "big"), 0, bytes(150), last=False)
        assert len(waiting) <= 6
    assert waiting.add((999).to_bytes(2, "big"), 150, b"end", last=True) == bytes(150) + b"end"
    assert waiting.add(b"\0\1", 0xFFF8, bytes(100), last=True) is None


# Anything at all ----------------------------------------------------------------------------------


def synthetic() -> list[bytes]:
    """A small capture of every kind, each with Zenoh in it."""
    stream = b"".join(prefixed(put(sn)) for sn in range(500, 512))
    inside = [tcp(stream[at : at + 60], seq=1 + at) for at in range(0, len(stream), 60)]
    v4, v6 = [ipv4(one) for one in inside], [ipv6(one) for one in inside]
    pieces = [*fragments(PAYLOAD, [400, 800]), *fragments(PAYLOAD, [400], version=6)]
    ether = [*map(ethernet, [*v4, *v6, *pieces]), ethernet(v4[0], tags=[0x8100])]
    links = {
        0: b"\x02\0\0\0",
        108: b"\0\0\0\x1e",
        101: b"",
        228: b"",
        113: bytes(14) + b"\x08\0",
        276: b"\x08\0" + bytes(18),
    }
    files = [pcap(ether), pcapng(ether), pcap(ether, order=">"), gzip.compress(pcap(ether))]
    files += [pcap([head + packet for packet in v4], link=link) for link, head in links.items()]
    return [*files, pcap([b"\0\0\0\x1e" + packet for packet in v6], link=108), pcap(v6, link=229)]


def mutated(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.choice([1, 1, 2, 5, 30])):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                data[at : at + 4] = chance.choice([b"\xff" * 4, bytes(4), b"\0\0\0\x80", chance.randbytes(4)])
            case 2:
                del data[at : at + chance.choice([1, 4, 60])]
            case 3:
                data[at:at] = data[max(at - 50, 0) : at]
            case _:
                del data[len(data) - chance.choice([0, 0, 1, 10]) :]
    return bytes(data)


def test_mutated_captures_give_units_or_one_error_and_both_ways_agree() -> None:
    chance = random.Random(11)
    files = [*synthetic(), *(path.read_bytes() for path in PCAPS if path.stat().st_size < 6000)]
    for round_ in range(1500):
        raw = mutated(files[round_ % len(files)], chance)
        said = []
        for run in (units_of, the_long_way):
            heard: list[Unit] = []
            error = ""
            try:
                take_all(run(io.BytesIO(raw)), heard)
            except CaptureError as caught:
                error = str(caught)
            said.append(([(type(unit), unit.way.link.number, *unit[1:]) for unit in heard], error))
        assert said[0] == said[1]


def the_long_way(source: BinaryIO) -> Iterator[Unit]:
    return units(read(source, quick=False))


def test_random_bytes_behind_every_magic_are_refused_or_read() -> None:
    chance = random.Random(5)
    heads = [b"", pcap([]), pcap([], order=">"), section(), section() + interface(), b"\x1f\x8b\x08\0"]
    for round_ in range(1500):
        raw = heads[round_ % len(heads)] + chance.randbytes(chance.randrange(300))
        with suppress(CaptureError):
            segments(raw)


@pytest.mark.parametrize("path", PCAPS, ids=lambda path: path.stem)
def test_both_ways_agree_on_captures_of_real_nodes(path: Path) -> None:
    quick = [(type(unit), unit.way.link.number, *unit[1:]) for unit in units_of(path)]
    assert quick == [(type(unit), unit.way.link.number, *unit[1:]) for unit in units(read(path, quick=False))]
