"""Units in a capture, one a packet, so that one run of tshark reads thousands of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from fuzz.readers.units import Unit, UnitKind
from scapy_layers.codes import DEFAULT_PORT, SCOUTING_PORT
from scapy_layers.extensions import Compression, First, LowLatency, Patch, QoSOffer
from scapy_layers.transport import Fragment, Init, Open

HERE, THERE, GROUP = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), bytes([224, 0, 0, 224])
_FIN, _SYN, _ACK, _PUSH = 0x01, 0x02, 0x10, 0x18
_TCP, _UDP = 6, 17

LARGEST_SEGMENT = 40_000
"""Bytes of a TCP segment, and so of what an IP packet carries."""


@dataclass(slots=True)
class Packets:
    """A pcap file in the making, Ethernet and IPv4."""

    frames: list[bytes] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Of the latest packet, from 1."""
        return len(self.frames)

    def ip(self, protocol: int, source: bytes, target: bytes, payload: bytes) -> None:
        """Adds an IP packet."""
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, source, target)
        self.frames.append(bytes(12) + b"\x08\x00" + head + payload)

    def udp(self, data: bytes, ports: tuple[int, int], ends: tuple[bytes, bytes] = (HERE, THERE)) -> None:
        """Adds a datagram; first the source, then the target."""
        head = struct.pack(">HHHH", *ports, 8 + len(data), 0)
        self.ip(_UDP, *ends, head + data)

    def tcp(
        self, data: bytes, ports: tuple[int, int], ends: tuple[bytes, bytes], seq: int, ack: int, flags: int
    ) -> None:
        """Adds a segment; first the source, then the target."""
        head = struct.pack(">HHIIBBHHH", *ports, seq, ack, 5 << 4, flags, 65_535, 0, 0)
        self.ip(_TCP, *ends, head + data)

    def file(self) -> bytes:
        """Returns the file; packets are a microsecond apart."""
        parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)]
        for at, frame in enumerate(self.frames):
            parts.append(
                struct.pack("<IIII", 1_700_000_000 + at // 1_000_000, at % 1_000_000, len(frame), len(frame))
            )
            parts.append(frame)
        return b"".join(parts)


@dataclass(slots=True)
class Connection:
    """A TCP connection between two nodes.

    Attributes:
        packets: Where it is captured.
        port: Of the side that connects.
        prefix: Bytes of the length in front of a batch.
        compressed: Batches have the byte of compression in front.
    """

    packets: Packets
    port: int
    prefix: int = 2
    compressed: bool = False
    _next: dict[bool, int] = field(default_factory=lambda: {True: 1_000, False: 5_000})
    _sn: int = 0

    def open(self, *, low_latency: bool = False, compression: bool = False) -> Connection:
        """Connects and opens a session; batches travel from here on as agreed."""
        self.connect()
        offers = [QoSOffer(), Patch(patch=1)]
        if low_latency:
            # Nodes agree on no lanes then.
            offers = [LowLatency()]
        if compression:
            offers.insert(-1, Compression())
        zids = {True: b"\x01" * 16, False: b"\x02" * 16}
        self.say(bytes(Init(zid=zids[True], extensions=offers)))
        self.say(bytes(Init(A=1, zid=zids[False], cookie=b"c", extensions=offers)), forward=False)
        self.say(bytes(Open(lease=10_000, initial_sn=0, cookie=b"c")))
        self.say(bytes(Open(A=1, lease=10_000, initial_sn=0)), forward=False)
        self.prefix = 4 if low_latency else 2
        self.compressed = compression
        return self

    def connect(self) -> Connection:
        """Makes the connection."""
        self._segment(True, b"", _SYN)
        self._segment(False, b"", _SYN | _ACK)
        return self

    def end(self) -> None:
        """Ends the connection, from both sides."""
        self._segment(True, b"", _FIN | _ACK)
        self._segment(False, b"", _FIN | _ACK)

    def say(self, batch: bytes, *, forward: bool = True) -> int:
        """Sends a batch and returns the number of the packet in which it ends."""
        if self.compressed and batch:
            batch = stored_or_packed(batch)
        return self.send(len(batch).to_bytes(self.prefix, "little") + batch, forward=forward)

    def send(self, stream: bytes, *, forward: bool = True) -> int:
        """Sends bytes as they are; returns the number of the packet in which they end."""
        for at in range(0, len(stream), LARGEST_SEGMENT):
            self._segment(forward, stream[at : at + LARGEST_SEGMENT], _PUSH)
        return self.packets.number

    def say_in_fragments(self, message: bytes) -> int:
        """Sends a network message in two or three FRAGMENTs; returns the packet of the last one."""
        third = max(1, len(message) // 3)
        slices = [message[:third], message[third : 2 * third], message[2 * third :]]
        slices = [one for one in slices if one] or [b""]
        if len(slices) == 1:
            slices.append(b"")
        for index, data in enumerate(slices):
            chain = [] if index else [First()]
            more = int(index < len(slices) - 1)
            self.say(bytes(Fragment(R=1, M=more, sn=self._sn, extensions=chain, data=data)))
            self._sn += 1
        return self.packets.number

    def _segment(self, forward: bool, data: bytes, flags: int) -> None:
        ends = (HERE, THERE) if forward else (THERE, HERE)
        ports = (self.port, DEFAULT_PORT) if forward else (DEFAULT_PORT, self.port)
        acknowledged = 0 if flags == _SYN else self._next[not forward]
        self.packets.tcp(data, ports, ends, self._next[forward] & 0xFFFFFFFF, acknowledged, flags)
        self._next[forward] += len(data) + bool(flags & (_SYN | _FIN))


def stored_or_packed(batch: bytes) -> bytes:
    """Puts the byte of compression in front; every other size is an LZ4 block of literals only."""
    if len(batch) % 2:
        return b"\0" + batch
    size = len(batch)
    token = bytes([min(size, 15) << 4])
    if size >= 15:
        token += b"\xff" * ((size - 15) // 255) + bytes([(size - 15) % 255])
    return b"\1" + token + batch


def carried(
    units: Iterable[Unit], *, low_latency: bool = False, compression: bool = False
) -> tuple[bytes, list[Unit]]:
    """Returns a capture with all units, and the units with the packets in which they end.

    Batches travel on one connection, as agreed with the arguments; network messages in FRAGMENTs on another one;
    datagrams of scouting alone.
    """
    packets = Packets()
    batches = Connection(packets, 40_001).open(low_latency=low_latency, compression=compression)
    fragments = Connection(packets, 40_002).open()
    placed: list[Unit] = []
    for unit in units:
        match unit.kind:
            case UnitKind.BATCH:
                number = batches.say(unit.data)
            case UnitKind.NETWORK:
                number = fragments.say_in_fragments(unit.data)
            case UnitKind.SCOUTING:
                packets.udp(unit.data, (50_000, SCOUTING_PORT), (HERE, GROUP))
                number = packets.number
        placed.append(unit._replace(packet=number))
    return packets.file(), placed
