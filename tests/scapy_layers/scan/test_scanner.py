"""The units of a capture, many packets at a time, are those that a passive reader hears."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from scapy_layers import capture, scan
from scapy_layers.capture import CaptureError
from scapy_layers.scan import Split, scanner
from scapy_layers.scan.plain import Language, Plain
from scapy_layers.scan.scanner import Scanner
from scapy_layers.scan.watch import Watch
from scapy_layers.transport import Init
from tests.benchmarks._common import frame, handshake, prefixed, put
from tests.scapy_layers.packets import (
    INIT_ACK,
    INIT_SYN,
    OPEN_ACK,
    OPEN_SYN,
    RST,
    enhanced,
    ethernet,
    interface,
    ipv4,
    section,
    udp,
)
from tests.scapy_layers.scan.heard import (
    Packet,
    batch_stream,
    packets,
    quickly,
    rows,
    said,
    same,
    slowly,
    timed,
    written,
)
from tests.scapy_layers.tunnels import TUNNELS, vxlan

CAPTURES = sorted((Path(__file__).parents[3] / "pcaps").glob("*.pcapng"))
SMALL = [path for path in CAPTURES if path.stat().st_size < 20_000]
PUTS = [put(sn, bytes([sn & 0xFF]) * (sn % 50)) for sn in range(300)]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_capture_of_real_nodes_gives_what_is_heard(path: Path) -> None:
    data = path.read_bytes()
    expected = slowly(data)
    assert quickly(data) == expected
    assert quickly(data, size=2000, block=7) == expected


# Streams ------------------------------------------------------------------------------------------


def cut(stream: bytes, size: int) -> list[bytes]:
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def many(batches: list[bytes], each: int) -> list[bytes]:
    return [batch_stream(batches[at : at + each]) for at in range(0, len(batches), each)]


LONG = [put(sn, bytes(3000 + sn)) for sn in range(80)]

STREAMS = {
    "one batch each": many(PUTS, 1),
    "several each": many(PUTS, 7),
    "all in a few": many(PUTS, 100),
    "cut anywhere": cut(batch_stream(PUTS), 97),
    "cut inside lengths": cut(batch_stream(PUTS[:12]), 1),
    "over many segments": cut(batch_stream(LONG), 1448),
    "large ones between small ones": many([*PUTS[:200], *LONG[:9], *PUTS[200:]], 3),
    "an empty batch": [*many(PUTS[:100], 1), b"\0\0", *many(PUTS[100:], 1)],
}


@pytest.fixture
def slow_packets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the packets that are looked at alone."""
    numbers: list[int] = []
    whole = Scanner._packet

    def packet(self: Scanner, number: int, *rest: object) -> None:
        numbers.append(number)
        whole(self, number, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Scanner, "_packet", packet)
    return numbers


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("name", STREAMS)
def test_stream_in_order_is_taken_together(
    name: str, opened: bool, answered: bool, slow_packets: list[int]
) -> None:
    frames = said(STREAMS[name], opened=opened, answered=answered)
    data = written(timed(frames))
    found = same(data, block=64)
    assert len(found) >= 12
    if len(frames) >= 300 and name != "cut inside lengths":
        assert len(slow_packets) < len(frames) / 2


def test_connections_that_take_turns_are_taken_together(slow_packets: list[int]) -> None:
    talks = [said(many(PUTS, 1 + which % 3), port=50_000 + which) for which in range(9)]
    frames = [each for turn in zip(*(talk[:100] for talk in talks), strict=True) for each in turn]
    found = same(written(timed(frames)))
    assert len(found) == 9 * 4 + 94 * (3 * 1 + 3 * 2 + 3 * 3)
    assert len(slow_packets) < 300 < len(frames) / 2


def sll(each: bytes) -> bytes:
    return b"\0\0\0\1\0\6" + bytes(8) + each[12:]


def sll2(each: bytes) -> bytes:
    return each[12:14] + bytes(18) + each[14:]


def loopback(each: bytes) -> bytes:
    return b"\2\0\0\0" + each[14:]


def raw(each: bytes) -> bytes:
    return each[14:]


def version_6(each: bytes) -> bytes:
    """Ethernet with IPv6 around the same segment."""
    segment = each[34:]
    hosts = (bytes(15) + b"\1", bytes(15) + b"\2")
    source, target = hosts if segment[2:4] == (7447).to_bytes(2, "big") else hosts[::-1]
    return (
        bytes(12)
        + b"\x86\xdd"
        + struct.pack(">IHBB", 6 << 28, len(segment), 6, 64)
        + source
        + target
        + segment
    )


def tagged(each: bytes) -> bytes:
    return each[:12] + b"\x81\0\0\5" + each[12:]


def lengthened(each: bytes) -> bytes:
    """802.3: a length, and the EtherType behind LLC."""
    return each[:12] + (len(each) - 6).to_bytes(2, "big") + b"\xaa\xaa\3\0\0\0" + each[12:]


@pytest.mark.parametrize(
    ("link", "dress", "together"),
    [
        (113, sll, True),
        (276, sll2, True),
        (0, loopback, True),
        (101, raw, True),
        (1, version_6, True),
        (1, tagged, False),
        (1, lengthened, False),
    ],
)
def test_link_layer_makes_no_difference(
    link: int, dress: Callable[[bytes], bytes], together: bool, slow_packets: list[int]
) -> None:
    frames = [dress(each) for each in said(many(PUTS, 1), answered=True)]
    found = same(written(timed(frames, link), link))
    assert len(found) == len(PUTS) + 4
    assert (len(slow_packets) < 200) is together


def ppp(each: bytes) -> bytes:
    return b"\0\x21" + each[14:]


@pytest.mark.parametrize("kind", TUNNELS)
@pytest.mark.parametrize("share", [1, 10])
def test_tunnel_makes_no_difference(kind: str, share: int) -> None:
    """All packets come through it, or every tenth."""
    frames = said(many(PUTS[:200], 1), answered=True)
    dressed = [TUNNELS[kind](each) if index % share == 0 else each for index, each in enumerate(frames)]
    assert len(same(written(timed(dressed)))) == 200 + 4


ENDED = 207
"""The packet in which a connection is reset."""


def reset() -> list[bytes]:
    """Frames of a connection that goes on behind a reset as if there was none."""
    frames = said(many(PUTS[:200], 1), answered=True)
    answer = frames[ENDED]
    frames[ENDED] = answer[:47] + bytes([RST]) + answer[48:]
    return frames


def links_of(data: bytes) -> set[int]:
    return {row[2] for row in same(data) if row[0] != "gap"}


@pytest.mark.parametrize("kind", TUNNELS)
def test_end_that_comes_through_a_tunnel_ends_what_does_not(kind: str) -> None:
    frames = reset()
    frames[ENDED] = TUNNELS[kind](frames[ENDED])
    assert links_of(written((10**8 * n, 1, each, len(each)) for n, each in enumerate(frames))) == {0, 1}


@pytest.mark.parametrize("size", [8, 56, 64])
def test_end_that_comes_in_fragments_of_a_tunnel_ends_what_does_not(size: int) -> None:
    frames = [each[14:] for each in reset()]
    pieces = in_fragments(vxlan(ethernet(frames[ENDED]))[14:], size, 7)
    frames[ENDED:ENDED] = pieces
    del frames[ENDED + len(pieces)]
    timed_ = [(10**8 * n, 101, each, len(each)) for n, each in enumerate(frames)]
    assert links_of(written(timed_, 101)) == {0, 1}


def test_end_that_comes_over_ppp_ends_what_does_not() -> None:
    blocks = [section(), interface(1), interface(9)]
    for n, each in enumerate(reset()):
        over_ppp = n == ENDED
        blocks.append(enhanced(ppp(each) if over_ppp else each, number=int(over_ppp), ticks=10**5 * n))
    assert links_of(b"".join(blocks)) == {0, 1}


@pytest.mark.parametrize("share", [1, 10])
@pytest.mark.parametrize("size", [8, 56, 64])
def test_tunnel_in_fragments_makes_no_difference(size: int, share: int) -> None:
    """The last ones are shorter than the headers of what they carry."""
    found: list[bytes] = []
    for index, each in enumerate(said(many(PUTS[:200], 1), answered=True)):
        found += in_fragments(vxlan(each)[14:], size, index) if index % share == 0 else [each[14:]]
    assert len(same(written(timed(found, 101), 101))) == 200 + 4


def in_fragments(packet: bytes, size: int, number: int) -> list[bytes]:
    """Pieces of a packet of IP without options, in order."""
    payload = packet[20:]
    pieces = []
    for at in range(0, len(payload), size):
        more = at + size < len(payload)
        head = packet[:2] + struct.pack(
            ">HHH", 20 + len(payload[at : at + size]), number, at // 8 | more << 13
        )
        pieces.append(head + packet[8:20] + payload[at : at + size])
    return pieces


def test_ppp_makes_no_difference() -> None:
    frames = [ppp(each) for each in said(many(PUTS[:200], 1), answered=True)]
    assert len(same(written(timed(frames, 9), 9))) == 200 + 4


@pytest.mark.parametrize("seed", range(6))
def test_damaged_packet_in_a_tunnel_gives_what_is_heard(seed: int) -> None:
    rng = random.Random(seed)
    frames = said(rng.choice(list(STREAMS.values()))[:120], answered=rng.random() < 0.5)
    dressed = [rng.choice([*TUNNELS.values(), bytes])(each) for each in frames]
    changed = timed(dressed)
    for _ in range(10):
        changed = mutated(changed, rng)
    same(written(changed), block=rng.choice([5, 64, 1 << 14]))


# Out of order --------------------------------------------------------------------------------------


def conversation(port: int, turns: int) -> list[bytes]:
    """Frames of two ends that say something in turns, each of which acknowledges what came before."""
    frames, seq, back = handshake()
    for sn in range(turns):
        asked, answered = prefixed(put(sn)), prefixed(put(sn, b"yes"))
        frames.append(frame(asked, seq, ack=back))
        seq += len(asked)
        frames.append(frame(answered, back, forward=False, ack=seq))
        back += len(answered)
    named = port.to_bytes(2, "big")
    there = (7447).to_bytes(2, "big")
    return [
        each[:36] + named + each[38:] if each[34:36] == there else each[:34] + named + each[36:]
        for each in frames
    ]


@pytest.mark.parametrize("seed", range(4))
def test_links_of_which_both_directions_lack_something_were_not_captured_out_of_order(seed: int) -> None:
    rng = random.Random(seed)
    frames = conversation(50_000, 300)
    for _ in range(rng.randrange(1, 9)):
        at = rng.randrange(20, len(frames) - 20)
        del frames[at : at + rng.randrange(1, 9)]
    data = written(timed(frames))
    same(data)
    found = quickly(data)
    assert (found.disordered, found.late) == ({0}, set())


def test_datagram_is_looked_at_once_however_many_sessions_begin_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    whole = Watch.is_batch

    def look(watch: Watch, raw: bytes) -> bool:
        looked.append(len(raw))
        return whole(watch, raw)

    monkeypatch.setattr(Watch, "is_batch", look)
    one, other = (bytes(Init(zid=zid, whatami=2)) for zid in (b"\x01\x02", b"\x03\x04"))
    many = (one + other) * 100
    data = written(timed([ethernet(ipv4(udp(said, dport=7447), protocol=17)) for said in (one, many)]))
    assert len(quickly(data).rows) == 2
    assert looked.count(len(many)) == 1


def test_link_of_which_one_direction_was_captured_was_not_captured_out_of_order() -> None:
    data = written(timed([each for each in conversation(50_000, 300) if each[36:38] == b"\x1d\x17"]))
    same(data)
    assert not quickly(data).late


@pytest.mark.parametrize("seed", range(6))
def test_links_that_were_captured_out_of_order_are_known(seed: int, slow_packets: list[int]) -> None:
    rng = random.Random(seed)
    talks = [conversation(50_000 + which, 200) for which in range(6)]
    late = rng.sample(range(6), seed)
    for which in late:
        question = 6 + 2 * rng.randrange(100, 150)
        talks[which].insert(question + 1, talks[which].pop(question))
    frames = [each for turn in zip(*talks, strict=True) for each in turn]
    data = written(timed(frames))
    same(data)
    assert quickly(data).late == set(late)
    assert len(slow_packets) < len(frames) / 2


# What goes wrong ----------------------------------------------------------------------------------


def test_link_in_mid_session_is_given_up_after_three_batches_that_cannot_be_read() -> None:
    good, bad = many(PUTS[:300], 1), prefixed(b"\x25\x01\x3d\xff\xff")
    for nonsense in (2, 3, 4):
        frames = said([*good, *[bad] * nonsense, *good], opened=False)
        found = quickly(written(timed(frames)))
        assert found == slowly(written(timed(frames)))
        assert found.foreign == (nonsense >= 3)


@pytest.mark.parametrize("stem", ["compression", "packed_websocket", "lowlatency"])
def test_batches_behind_an_open_that_was_cut_off_are_as_agreed(stem: str) -> None:
    given = packets((CAPTURES[0].parent / f"{stem}.pcapng").read_bytes())
    whole = same(written(given))
    asked = next(row for row in whole if row[4][:1] in {b"\x42", b"\x02"})
    time, link, raw, size = given[asked[0] - 1]
    cut = [*given[: asked[0] - 1], (time, link, raw[:80], size), *given[asked[0] :]]
    assert [row for row in same(written(cut)) if row[0] != "gap"] == [row for row in whole if row != asked]


@pytest.mark.parametrize("seed", range(12))
def test_damaged_capture_gives_what_is_heard(seed: int) -> None:
    rng = random.Random(seed)
    given = packets(rng.choice(SMALL).read_bytes())
    if seed % 3 == 0:
        pieces_ = rng.choice(list(STREAMS.values()))[:120]
        given = timed(said(pieces_, opened=rng.random() < 0.6, answered=rng.random() < 0.5))
    for _ in range(4):
        changed = mutated(given, rng)
        data = written(changed, changed[0][1] if changed else 1)
        same(
            data[: rng.randrange(len(data))] if rng.random() < 0.1 else data,
            block=rng.choice([5, 64, 1 << 14]),
        )


def mutated(given: list[Packet], rng: random.Random) -> list[Packet]:  # noqa: C901  (a list of faults)
    """Lost, repeated, late, cut and wrong packets."""
    changed = list(given)
    for _ in range(rng.choice([1, 2, 5])):
        if not changed:
            break
        at, other = rng.randrange(len(changed)), rng.randrange(len(changed))
        time, link, data, length = changed[at]
        match rng.randrange(7):
            case 0:
                del changed[at : at + rng.choice([1, 3])]
            case 1:
                changed.insert(at, changed[other])
            case 2:
                changed.insert(at, changed.pop(other))
            case 3:
                spoiled = bytearray(data)
                for _ in range(rng.choice([1, 1, 6])):
                    if spoiled:
                        spoiled[rng.randrange(len(spoiled))] = rng.choice([0, 0xFF, rng.randrange(256)])
                changed[at] = time, link, bytes(spoiled), length
            case 4:
                changed[at] = time, link, data[: rng.randrange(len(data) + 1)], length
            case 5:
                del changed[: at // 2]
            case _:
                del changed[at:]
    return changed


@pytest.mark.parametrize("seed", range(8))
def test_connections_that_are_reset_give_what_is_heard(seed: int) -> None:
    """Some go on behind it, soon or late; others are as expected all the while."""
    rng = random.Random(seed)
    frames: list[bytes] = []
    talks = [said(many(PUTS[:60], 1 + which % 3), port=50_000 + which) for which in range(8)]
    reset = frame(b"", 2030, forward=False, flags=RST)
    while any(talks):
        which = rng.randrange(8)
        del talks[which][: len(taken := talks[which][: rng.randrange(1, 9)])]
        frames += taken
        if which < 4 and rng.random() < 0.2:
            frames.append(reset[:36] + (50_000 + which).to_bytes(2, "big") + reset[38:])
    time, timed_ = 10**18, []
    for each in frames:
        time += rng.choice([10**6, 10**6, 10**7, rng.randrange(10**9)])
        timed_.append((time, 1, each, len(each)))
    found = same(written(timed_), block=rng.choice([5, 64, 1 << 14]))
    assert len(found) > 200


def test_file_that_ends_inside_a_packet_gives_all_in_front_and_an_error() -> None:
    data = written(timed(said(many(PUTS, 1))))
    found: list[scan.Chunk] = []
    with pytest.raises(CaptureError, match="the file ends inside a packet"):
        found.extend(scan.chunks(io.BytesIO(data[:-3])))
    assert len(rows(found)) == len(PUTS) + 3


def test_memory_is_bounded_when_small_packets_hold_large_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    # Compressed zeros: each batch is 60 KB, each packet some hundred bytes.
    packed = b"\x01\x1f\x04\x01\0" + b"\xff" * 234 + b"\0\x50\4\4\4\4\4"
    monkeypatch.setattr(scanner, "MOST_EXTRA", 100_000)
    data = written(timed(said([prefixed(packed)] * 50, opened=False)))
    chunks = list(scan.chunks(io.BytesIO(data)))
    assert rows(chunks) == slowly(data).rows
    assert max(len(chunk.units.data) for chunk in chunks) < 300_000


# Sources ------------------------------------------------------------------------------------------


class Pipe(io.RawIOBase):
    """A stream that cannot seek, and gives what it likes."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, 777))


def test_pipe_and_gzip_give_the_same_as_the_file() -> None:
    data = written(timed(said(many(PUTS, 2))))
    expected = slowly(data).rows
    source: BinaryIO = Pipe(data)  # type: ignore[assignment]
    assert rows(scan.chunks(source)) == expected
    assert rows(scan.chunks(io.BytesIO(gzip.compress(data)))) == expected


# Parts --------------------------------------------------------------------------------------------


def parts(path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> list[Split]:
    """Cuts a small file as if it were a large one."""
    monkeypatch.setattr(capture, "CHUNK", 300)
    monkeypatch.setattr(scan, "SIZE", 300)
    splits = scan.plan(path, size)
    again: list[Split] = pickle.loads(pickle.dumps(splits))
    return again


@pytest.mark.parametrize("path", CAPTURES[::4], ids=lambda path: path.stem)
def test_parts_of_a_capture_are_together_the_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(scan.chunks(path))
    splits = parts(path, max(600, path.stat().st_size // 8), monkeypatch)
    assert rows([chunk for split in splits for chunk in scan.chunks(path, split=split)]) == whole
    assert [split.start for split in splits[1:]] == [split.end for split in splits[:-1]]
    assert len(splits) > 1 or path.stat().st_size < 1200


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("opened", [False, True])
def test_parts_of_a_stream_are_together_the_whole(
    name: str, opened: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(written(timed(said(STREAMS[name][:80], opened=opened))))
    whole = rows(scan.chunks(path))
    splits = parts(path, path.stat().st_size // 8, monkeypatch)
    assert len(splits) > 2
    assert rows([chunk for split in splits for chunk in scan.chunks(path, split=split)]) == whole


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_file_is_one_part(packed: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path, data = tmp_path / "x.pcap.packed", written(timed(said(many(PUTS, 1))))
    path.write_bytes(packed(data))
    assert [(split.start, split.end) for split in scan.plan(path, 100)] == [(0, None)]
    assert rows(scan.chunks(path)) == rows(scan.chunks(io.BytesIO(data)))


def test_last_part_of_a_damaged_file_tells_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(written(timed(said(many(PUTS, 1))))[:-3])
    splits = parts(path, 5000, monkeypatch)
    for split in splits[:-1]:
        list(scan.chunks(path, split=split))
    with pytest.raises(CaptureError, match="ends inside"):
        list(scan.chunks(path, split=splits[-1]))


def test_counts_tell_what_was_passed_over() -> None:
    frames = said(many(PUTS, 1))
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    dns = (
        frame(b"", 1)[:23] + b"\x11" + frame(b"", 1)[24:34] + struct.pack(">HHHH", 5353, 53, 12, 0) + b"abcd"
    )
    dns = dns[:16] + struct.pack(">H", 32) + dns[18:]
    state = scan.begin()
    found = rows(scan.chunks(io.BytesIO(written(timed([arp, *frames, dns, arp]))), state=state))
    assert len(found) == len(PUTS) + 4 == state.batches
    assert (state.packets, state.other, state.links, state.watch.begun) == (len(frames) + 3, 2, 2, 1)
    assert state.watch.strange == [1, 4]


def datagram(data: bytes, *, back: bool = False) -> bytes:
    """Ethernet with UDP between the usual ports."""
    packet = ethernet(ipv4(udp(data, sport=50_000, dport=7447), protocol=17))
    if not back:
        return packet
    return packet[:26] + packet[30:34] + packet[26:30] + packet[36:38] + packet[34:36] + packet[38:]


def test_datagrams_are_judged_together_and_sessions_follow_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opening = [
        datagram(INIT_SYN),
        datagram(INIT_ACK, back=True),
        datagram(OPEN_SYN),
        datagram(OPEN_ACK, back=True),
    ]
    session = [*opening, *map(datagram, PUTS[:80]), datagram(b"\x25\x01\x3d\xff"), datagram(b"\x03\0")]
    ending = [datagram(b"\x03\0", back=True)]
    frames = [*session, *ending, *session, *session[4:], *map(datagram, PUTS[:60])]
    read: list[str] = []
    whole = Language.messages

    def messages(self: Language, raw: bytes) -> Iterator[Plain]:
        read.append("one")
        return whole(self, raw)

    expected = slowly(written(timed(frames)))
    monkeypatch.setattr(Language, "messages", messages)
    assert quickly(written(timed(frames))) == expected
    assert len(read) < len(frames) / 2


def test_datagrams_of_a_handshake_that_were_captured_out_of_order_are_known() -> None:
    asked, answered = datagram(INIT_SYN), datagram(INIT_ACK, back=True)
    rest = [datagram(OPEN_SYN), datagram(OPEN_ACK, back=True), *map(datagram, PUTS[:9])]
    for frames, late in (([asked, answered, *rest], set()), ([answered, asked, *rest], {0})):
        found = quickly(written(timed(frames)))
        assert found == slowly(written(timed(frames)))
        assert found.late == late
