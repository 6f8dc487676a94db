"""Captures as somebody takes them who comes later: without their first packets, the nodes on the usual port."""

from __future__ import annotations

import struct
from pathlib import Path

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
