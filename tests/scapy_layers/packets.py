"""Packets and captures written by hand, for the tests of what reads them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scapy_layers.ip import Segment, join_ends
from scapy_layers.primitives import write_vle

HERE, THERE = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
HERE_6, THERE_6 = bytes([0xFD, *bytes(14), 1]), bytes([0xFD, *bytes(14), 2])
INIT_SYN = bytes.fromhex("01096201020304050607")
INIT_ACK = bytes.fromhex("210962111213141516170431323334")
OPEN_SYN = bytes.fromhex("020a640431323334")
OPEN_ACK = bytes.fromhex("220a64")
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def put(sn: int, payload: bytes = b"payload") -> bytes:
    """A FRAME with a PUSH of a PUT; the number fits two bytes."""
    number = bytes([sn & 0x7F | 0x80, sn >> 7])
    return b"\x25" + number + b"\x3d\x00\x04a/bc\x01" + write_vle(len(payload)) + payload


def prefixed(batch: bytes, size: int = 2) -> bytes:
    return len(batch).to_bytes(size, "little") + batch


# TCP ----------------------------------------------------------------------------------------------


@dataclass
class Talk:
    """A TCP connection as it is captured, packet after packet."""

    segments: list[Segment] = field(default_factory=list)
    forward: int = 1_000
    backward: int = 5_000
    port: int = 50_000
    service: int = 7447

    def add(
        self, data: bytes, seq: int, *, back: bool = False, flags: int = PSH, ack: int = 0, missing: int = 0
    ) -> None:
        ends = (HERE, THERE, self.port, self.service)
        if back:
            ends = (THERE, HERE, self.service, self.port)
        number = len(self.segments) + 1
        sent = Segment(
            number, number * 1000, True, join_ends(*ends), seq % 2**32, ack % 2**32, flags, data, missing
        )
        self.segments.append(sent)

    def syn(self) -> None:
        self.add(b"", self.forward, flags=SYN)
        self.add(b"", self.backward, back=True, flags=SYN | ACK, ack=self.forward + 1)
        self.forward += 1
        self.backward += 1

    def say(self, data: bytes, *, back: bool = False, flags: int = PSH | ACK) -> None:
        """The next bytes."""
        seq, ack = (self.backward, self.forward) if back else (self.forward, self.backward)
        self.add(data, seq, back=back, flags=flags, ack=ack)
        step = len(data) + bool(flags & FIN)
        if back:
            self.backward += step
        else:
            self.forward += step

    def acknowledge(self, *, back: bool = True) -> None:
        self.say(b"", back=back, flags=ACK)

    def open(self) -> Talk:
        self.syn()
        self.say(prefixed(INIT_SYN))
        self.say(prefixed(INIT_ACK), back=True)
        self.say(prefixed(OPEN_SYN))
        self.say(prefixed(OPEN_ACK), back=True)
        return self

    def pieces(self, stream: bytes, size: int, start: int) -> None:
        for at in range(0, len(stream), size):
            self.add(stream[at : at + size], start + at)


# Packets ------------------------------------------------------------------------------------------


def tcp(
    data: bytes,
    *,
    seq: int = 1,
    sport: int = 50_000,
    dport: int = 7447,
    flags: int = 24,
    options: bytes = b"",
) -> bytes:
    words = (20 + len(options)) // 4 << 4
    return struct.pack(">HHIIBBHHH", sport, dport, seq, 9, words, flags, 512, 0, 0) + options + data


def udp(data: bytes, *, sport: int = 50_000, dport: int = 7446, length: int | None = None) -> bytes:
    return struct.pack(">HHHH", sport, dport, 8 + len(data) if length is None else length, 0) + data


def ipv4(
    payload: bytes,
    *,
    protocol: int = 6,
    fragment: int = 0,
    total: int | None = None,
    options: bytes = b"",
    number: int = 7,
) -> bytes:
    first = 0x45 + len(options) // 4
    size = 20 + len(options) + len(payload) if total is None else total
    head = struct.pack(">BBHHHBBH4s4s", first, 0, size, number, fragment, 64, protocol, 0, HERE, THERE)
    return head + options + payload


def ipv6(payload: bytes, *, protocol: int = 6, size: int | None = None) -> bytes:
    head = struct.pack(">IHBB", 0x60000000, len(payload) if size is None else size, protocol, 64)
    return head + HERE_6 + THERE_6 + payload


def ethernet(packet: bytes, *, tags: Sequence[int] = (), kind: int | None = None) -> bytes:
    of_version = 0x86DD if packet[:1] and packet[0] >> 4 == 6 else 0x0800
    tagged = b"".join(struct.pack(">HH", tag, 5) for tag in tags)
    return bytes(12) + tagged + (of_version if kind is None else kind).to_bytes(2, "big") + packet


# Files --------------------------------------------------------------------------------------------


def pcap(
    packets: Iterable[bytes], *, link: int = 1, order: str = "<", magic: int = 0xA1B2C3D4, snap: int = 1 << 18
) -> bytes:
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link)]
    for at, packet in enumerate(packets, 1):
        kept = packet[:snap]
        parts += [struct.pack(order + "IIII", at, 500, len(kept), len(packet)), kept]
    return b"".join(parts)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(link: int = 1, *, snap: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    return block(1, struct.pack(order + "HHI", link, 0, snap) + options, order)


def enhanced(packet: bytes, *, number: int = 0, ticks: int = 0, order: str = "<") -> bytes:
    size = len(packet)
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, size, size)
    return block(6, head + packet, order)


def pcapng(packets: Iterable[bytes], *, link: int = 1, order: str = "<") -> bytes:
    blocks = [enhanced(packet, ticks=at, order=order) for at, packet in enumerate(packets, 1)]
    return b"".join([section(order), interface(link, order=order), *blocks])
