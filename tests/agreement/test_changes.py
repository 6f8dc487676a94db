"""How sessions begin and change: fragments are put together by what was agreed when they came, damage is told as such."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from fuzz.readers.carry import HERE, THERE, Connection, Packets
from fuzz.readers.compare import differences
from fuzz.readers.together import read_capture
from scapy_layers import capture, scan, tables
from scapy_layers.codes import DEFAULT_PORT
from scapy_layers.data import Put
from scapy_layers.extensions import Compression, First, LowLatency, Patch
from scapy_layers.message import Message
from scapy_layers.network import Push
from scapy_layers.scan import carry
from scapy_layers.transport import Close, Fragment, Frame, Init, Open

PUSH = bytes(Push(key_suffix="a/b", body=Put(data=b"hello")))
FRAME = Frame(R=1, sn=0, messages=[Push(key_suffix="a", body=Put(data=b"x"))])

Said = list[tuple[bool, Message]]
"""Messages, each with whether it goes to the port of Zenoh."""


def handshake(zid: bytes, *extensions: Message) -> Said:
    return [
        (True, Init(zid=zid, extensions=list(extensions))),
        (False, Init(A=1, zid=b"\x02" * 16, cookie=b"c", extensions=list(extensions))),
        (True, Open(lease=10_000, initial_sn=0, cookie=b"c")),
        (False, Open(A=1, lease=10_000, initial_sn=0)),
    ]


def fragments(*pieces: tuple[int, bytes], sn: int = 0) -> Said:
    """Each with whether it says that a message begins."""
    return [
        (
            True,
            Fragment(
                R=1,
                M=int(index < len(pieces) - 1),
                sn=sn + index,
                extensions=[First()] if first else [],
                data=data,
            ),
        )
        for index, (first, data) in enumerate(pieces)
    ]


LATER = Frame(R=1, sn=5, messages=FRAME.messages)
ASTRAY = Fragment(R=1, M=1, sn=5, data=b"x")
CLOSES: Said = [(forward, Close(S=1, reason=0)) for forward in (True, False)]
MARKED_IN_THE_MIDST = fragments((0, PUSH[:3]), (1, PUSH[3:]))
BEGUN_TWICE = fragments((1, b"junk"), (1, PUSH), sn=1)
OLD, NEW = b"\x01" * 16, b"\x03" * 16


@pytest.mark.parametrize(
    ("said", "pieces"),
    [
        # Without patch 1 the mark of a first fragment does not count, whatever the next session agrees on.
        ([*handshake(OLD), *MARKED_IN_THE_MIDST, *handshake(NEW, Patch(patch=1))], [2]),
        ([*handshake(OLD, Patch(patch=1)), *MARKED_IN_THE_MIDST, *handshake(NEW)], []),
        # It counts as long as nothing is known of what was agreed.
        ([(True, FRAME), *BEGUN_TWICE, (False, Init(A=1, zid=OLD, cookie=b"c"))], [1]),
        # What one session left unfinished is no part of the next.
        ([*handshake(OLD), *MARKED_IN_THE_MIDST[:1], *handshake(NEW), *MARKED_IN_THE_MIDST[1:]], []),
        # Behind CLOSE of both another link begins in the same place.
        ([*handshake(OLD), *MARKED_IN_THE_MIDST, *CLOSES, *handshake(NEW, Patch(patch=1))], [2]),
        # What lies a little behind is old, known resolution or not, also behind a fragment of nothing.
        ([(True, FRAME), *fragments((1, PUSH[:3]), (0, PUSH[3:]), sn=1)], [2]),
        ([(True, FRAME), (True, LATER), *fragments((1, PUSH[:3]), (0, PUSH[3:]), sn=1)], []),
        ([(True, FRAME), (True, ASTRAY), *fragments((1, PUSH[:3]), (0, PUSH[3:]), sn=1)], []),
        # With low latency there are none.
        ([*handshake(OLD, LowLatency()), *fragments((1, PUSH[:3]), (0, PUSH[3:]))], []),
    ],
)
def test_fragments_count_by_what_was_agreed_when_they_came(
    tmp_path: Path, said: Iterable[tuple[bool, Message]], pieces: list[int]
) -> None:
    packets = Packets()
    for forward, message in said:
        ends, ports = (
            ((HERE, THERE), (50_000, DEFAULT_PORT)) if forward else ((THERE, HERE), (DEFAULT_PORT, 50_000))
        )
        packets.udp(bytes(message), ports, ends)
    path = tmp_path / "capture.pcap"
    path.write_bytes(packets.file())
    read = read_capture(path)
    assert list(differences(read.units, read.readings)) == []
    found = [row for made in tables.read(path) if "push" in made for row in made["push"].to_pylist()]
    assert [row["pieces"] for row in found if row["key_suffix"] == "a/b"] == pieces


def told(path: Path, packets: Packets) -> list[str]:
    """Returns what the layers find in a capture that is read alike."""
    path.write_bytes(packets.file())
    read = read_capture(path)
    assert list(differences(read.units, read.readings)) == []
    return [unit.data.hex() for unit in read.units]


CUT_INIT = bytes(Init(zid=OLD))[:9]


def test_init_that_is_shorter_than_its_zid_is_told_on_the_port_of_zenoh(tmp_path: Path) -> None:
    packets = Packets()
    connection = Connection(packets, 40_001).connect()
    connection.say(CUT_INIT)
    connection.say(b"\x03\x02", forward=False)
    assert told(tmp_path / "capture.pcap", packets) == [CUT_INIT.hex(), "0302"]


def test_first_packet_behind_what_is_missing_is_told_when_the_other_end_has_begun(tmp_path: Path) -> None:
    packets = Packets()
    connection = Connection(packets, 40_001).connect()
    connection.say(bytes(Init(zid=OLD)))
    del packets.frames[-1]
    connection.say(bytes(Init(A=1, zid=NEW, cookie=b"c")), forward=False)
    # No chain of batches is needed, nor that its extension is known: FRAGMENT with the extension 0x0e.
    odd = bytes.fromhex("e6010e00")
    connection.say(odd)
    assert odd.hex() in told(tmp_path / "capture.pcap", packets)


@pytest.mark.parametrize("extensions", [[Compression()], [LowLatency(), Compression()]])
def test_close_with_the_byte_of_compression_is_one(tmp_path: Path, extensions: list[Message]) -> None:
    packets = Packets()
    raws = [(forward, bytes(message)) for forward, message in handshake(OLD, *extensions)]
    for forward, raw in [*raws, (True, b"\0\x03\0"), (False, b"\0\x23\0"), *raws]:
        ends, ports = (
            ((HERE, THERE), (50_000, DEFAULT_PORT)) if forward else ((THERE, HERE), (DEFAULT_PORT, 50_000))
        )
        packets.udp(raw, ports, ends)
    found = told(tmp_path / "capture.pcap", packets)
    assert found[4:6] == ["0300", "2300"]
    assert found[6:] == [raw.hex() for _, raw in raws]


def test_each_refusal_in_a_datagram_lets_the_next_number_count_as_it_is(tmp_path: Path) -> None:
    packets = Packets()
    for forward, message in handshake(OLD, Patch(patch=1)):
        ends, ports = (
            ((HERE, THERE), (50_000, DEFAULT_PORT)) if forward else ((THERE, HERE), (DEFAULT_PORT, 50_000))
        )
        packets.udp(bytes(message), ports, ends)
    refused = b"\xa5\x01\x1e"  # FRAME with a mandatory extension that nobody knows
    (_, behind), *_ = fragments((1, PUSH), sn=49)
    frame = bytes(Frame(R=1, sn=50, messages=FRAME.messages))
    packets.udp(refused + frame + refused + bytes(behind), (50_000, DEFAULT_PORT))
    assert PUSH.hex() in told(tmp_path / "capture.pcap", packets)


def pieces_of(path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Returns of how many fragments the messages are that they make, with a file that is read or cut by so many bytes."""
    monkeypatch.setattr(capture, "CHUNK", 16)
    monkeypatch.setattr(scan, "SIZE", size)
    assert len([chunk for chunk in scan.chunks(path, size=size) if len(chunk.batch)]) > 1
    assert len(scan.plan(path, size)) > 1
    ways = [
        tables.read(path, size=size),
        (made for split in scan.plan(path, size) for made in tables.read(path, split=split)),
    ]
    found = []
    for way in ways:
        rows = [row for made in way if "push" in made for row in made["push"].to_pylist()]
        found.append([row["pieces"] for row in rows if row["pieces"]])
    return found


SHORT_NUMBERS = {"S": 1, "fsn": 0, "rid": 2, "batch_size": 65_535}
"""Of INIT: numbers have seven bits."""


@pytest.mark.parametrize(
    ("frames", "sn", "pieces"),
    [
        # As the last FRAME had it, or the next one.
        ([(1, 4)], 4, []),
        ([(1, 4)], 5, [2]),
        # What a lane had before the FRAME of another one is not known: any number counts.
        ([(0, sn) for sn in range(100)] + [(1, 0)], 100, [2]),
    ],
)
def test_numbers_go_on_from_piece_to_piece(
    tmp_path: Path, frames: list[tuple[int, int]], sn: int, pieces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = Packets()
    connection = Connection(packets, 40_001).connect()
    for forward, message in handshake(OLD, Patch(patch=1)):
        if isinstance(message, Init):
            message.fields.update(SHORT_NUMBERS)
        connection.say(bytes(message), forward=forward)
    body = [Push(key_suffix="a", body=Put(data=bytes(300)))]
    for lane, number in frames:
        connection.say(bytes(Frame(R=lane, sn=number, messages=body)))
    path = tmp_path / "capture.pcap"
    size = len(packets.file()) - 24  # a piece ends here
    first, second = fragments((1, PUSH[:3]), (0, PUSH[3:]), sn=sn)
    for _, message in (first, second):
        message.R = frames[0][0]
        connection.say(bytes(message))
    path.write_bytes(packets.file())
    read = read_capture(path)
    assert list(differences(read.units, read.readings)) == []
    # Of a piece the end is looked at, or hardly anything.
    for tail in (64, 1):
        monkeypatch.setattr(tables, "TAIL", tail)
        monkeypatch.setattr(carry, "TAIL", tail)
        assert pieces_of(path, size, monkeypatch) == [pieces, pieces]
