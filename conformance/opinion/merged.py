"""Many captures in one, so that tshark starts once.

Ports and addresses repeat from test to test, and a reader would take their connections for one. So each capture gets
addresses of its own, which none of the messages depends on; checksums, which nobody looks at here, are then wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ENHANCED_PACKET = 6
"""Type of the block of a pcapng file that holds a packet."""

LINKTYPE_RAW = 101

MICROSECONDS = 0xA1B2C3D4
"""Magic of a pcap file."""

LONGEST_PACKET = 1 << 18

TCP, UDP = 6, 17
SYN, ACK = 0x02, 0x10


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet of a merged capture.

    Attributes:
        capture: File it comes from.
        number: Its number there, from 1.
        payload: What TCP or UDP carries.
    """

    capture: Path
    number: int
    payload: bytes


@dataclass(slots=True)
class Merged:
    """What a merged capture holds.

    Attributes:
        packets: In order; the number of a packet in the merged capture is its place, from 1.
        tcp_ports: Both ends of links over TCP. Wireshark may know the port of either as one of another protocol.
        udp_ports: Both ends of links over UDP.
        scouting_ports: Where datagrams to groups went, and came from: there HELLO goes.
    """

    packets: list[Packet] = field(default_factory=list)
    tcp_ports: set[int] = field(default_factory=set)
    udp_ports: set[int] = field(default_factory=set)
    scouting_ports: set[int] = field(default_factory=set)


def merge(captures: Iterable[Path], out: Path) -> Merged:
    """Writes captures of the recorder into one.

    Raises:
        OSError: A file cannot be read or written.
    """
    merged = Merged()
    with out.open("wb") as file:
        file.write(struct.pack("<IHHiIII", MICROSECONDS, 2, 4, 0, 0, LONGEST_PACKET, LINKTYPE_RAW))
        for index, path in enumerate(captures, start=1):
            hosts: dict[bytes, int] = {}
            for number, (time, data) in enumerate(_packets(path.read_bytes()), start=1):
                _write(file, time, _moved(data, index, hosts))
                merged.packets.append(Packet(path, number, _payload(data, merged)))
    return merged


def _packets(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields time in microseconds and bytes of each packet of a pcapng file as the recorder writes it."""
    at = 0
    while at + 12 <= len(raw):
        kind, length = struct.unpack_from("<II", raw, at)
        if length < 12:
            return
        if kind == ENHANCED_PACKET and at + length <= len(raw):
            _, high, low, size, _ = struct.unpack_from("<5I", raw, at + 8)
            yield high << 32 | low, raw[at + 28 : at + 28 + size]
        at += length


def _write(file: IO[bytes], time: int, data: bytes) -> None:
    file.write(struct.pack("<IIII", *divmod(time, 1_000_000), len(data), len(data)) + data)


def _moved(data: bytes, index: int, hosts: dict[bytes, int]) -> bytes:
    """Returns a packet with addresses that only its capture has; groups stay, others are told apart as before."""
    moved = bytearray(data)
    if data[0] >> 4 == 4:
        for at in (12, 16):
            address = data[at : at + 4]
            if address[0] < 224:
                host = hosts.setdefault(address, len(hosts) + 1)
                moved[at : at + 4] = bytes([10, index >> 8 & 0xFF, index & 0xFF, host & 0xFF])
    else:
        for at in (8, 24):
            address = data[at : at + 16]
            if address[0] != 0xFF:
                host = hosts.setdefault(address, len(hosts) + 1)
                moved[at : at + 16] = b"\xfd" + bytes(9) + struct.pack("!HI", index & 0xFFFF, host)
    return bytes(moved)


def _payload(data: bytes, merged: Merged) -> bytes:
    """Returns what a packet carries; notes where it goes."""
    four = data[0] >> 4 == 4
    protocol, at, group = (data[9], 20, data[16] >= 224) if four else (data[6], 40, data[24] == 0xFF)
    ends = struct.unpack_from("!HH", data, at)
    if protocol == UDP:
        if group:
            merged.scouting_ports.update(ends)
        elif merged.scouting_ports.isdisjoint(ends):
            merged.udp_ports.update(ends)
        return data[at + 8 :]
    if data[at + 13] & (SYN | ACK) == SYN:
        merged.tcp_ports.update(ends)
    return data[at + (data[at + 12] >> 4) * 4 :]


def unmasked(payload: bytes) -> bytes:
    """Returns what a WebSocket frame of a client carries; nothing when it is no such frame, or not a whole one."""
    if len(payload) < 6 or not payload[1] & 0x80:
        return b""
    size, at = payload[1] & 0x7F, 2
    if size >= 126:
        wide = 2 if size == 126 else 8
        size, at = int.from_bytes(payload[2 : 2 + wide], "big"), 2 + wide
    mask, data = payload[at : at + 4], payload[at + 4 :]
    if len(data) != size:
        return b""
    return bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
