"""Captures as somebody takes them who comes later, or from a real network: segments of its size, and some are lost."""

from __future__ import annotations

import random
import struct
from io import BytesIO
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter, RawPcapNgReader

from scapy_layers.codes import DEFAULT_PORT

_PACKET = 6
"""Block of pcapng with a packet."""

_HEAD = 28
"""Bytes of such a block in front of the packet."""

_PLAIN = struct.Struct(">12xH9xB")
"""Type and protocol in the headers of a packet of IPv4 over Ethernet."""

_SYN_ACK = 0x12


def joined(path: Path, packets: int) -> bytes:
    """Returns a capture in pcapng without its first packets; who accepts connections does so on port 7447.

    On other ports the dissector for Wireshark believes a session in progress by its PUSH, REQUEST or RESPONSE only.
    """
    data = bytearray(path.read_bytes())
    blocks, at = [], 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        blocks.append((kind, at, at + size))
        at += size
    places = [place for kind, start, _ in blocks if kind == _PACKET and (place := _tcp(data, start + _HEAD))]
    accepting = {bytes(data[at : at + 2]) for at in places if data[at + 13] & _SYN_ACK == _SYN_ACK}
    for at in places:
        for port in (at, at + 2):
            if bytes(data[port : port + 2]) in accepting:
                struct.pack_into(">H", data, port, DEFAULT_PORT)
    gone = [block for block in blocks if block[0] == _PACKET][:packets]
    return b"".join(data[start:end] for block in blocks if block not in gone for _, start, end in [block])


def _tcp(data: bytearray, at: int) -> int | None:
    """Returns where TCP begins in a packet of IPv4 over Ethernet."""
    kind, protocol = _PLAIN.unpack_from(data, at)
    return at + 14 + (data[at + 14] & 15) * 4 if (kind, protocol) == (0x0800, 6) else None


def lossy(capture: bytes, size: int, share: float, seed: int) -> bytes:
    """Returns what TCP carries in a capture in segments of a size at most, without a share of them.

    Args:
        capture: In pcapng.
        size: Bytes of a segment.
        share: How many packets are lost, 0 to 1.
        seed: Which of them.
    """
    rng, file = random.Random(seed), BytesIO()
    packets = (Ether(raw) for raw, _ in RawPcapNgReader(BytesIO(capture)))
    pieces = (piece for packet in packets if TCP in packet for piece in _pieces(packet, size))
    with PcapWriter(file, linktype=1) as writer:
        for number, piece in enumerate(piece for piece in pieces if rng.random() >= share):
            piece.time = number / 1000
            writer.write(piece)
        writer.flush()
        return file.getvalue()


def _pieces(packet: Ether, size: int) -> list[Ether]:
    tcp, data = packet[TCP], bytes(packet[TCP].payload)
    pieces = []
    for at in range(0, max(len(data), 1), size):
        head = TCP(sport=tcp.sport, dport=tcp.dport, seq=(tcp.seq + at) % 2**32, ack=tcp.ack, flags=tcp.flags)
        ends = IP(src=packet[IP].src, dst=packet[IP].dst)
        pieces.append(Ether(src=packet.src, dst=packet.dst) / ends / head / Raw(data[at : at + size]))
    return pieces
