"""The headers of many packets at once: link layer, IP, TCP, and which flow each packet belongs to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scapy_layers.ip import LARGEST_LENGTH, LEADING, TUNNEL_PORTS, TUNNELS, LinkType
from scapy_layers.scan.records import Array, Records

Mask = NDArray[np.bool_]
Words = NDArray[np.uint64]

_SPECIAL = 0x17
"""FIN, SYN, RST, ACK."""

_ACK = 0x10

_TCP, _UDP, _ICMP_6 = 6, 17, 58
_IP, _IP_6 = 0x0800, 0x86DD
_LEADING, _TUNNELS, _TUNNEL_PORTS = tuple(LEADING), tuple(TUNNELS), tuple(TUNNEL_PORTS)
_FAMILY_IP = (2, 0x0200_0000)
_FAMILIES_IP_6 = tuple(
    number for family in (10, 24, 28, 30) for number in (family, int.from_bytes(family.to_bytes(4, "little")))
)

_ETHERTYPE_AT = {LinkType.ETHERNET: 12, LinkType.LINUX_SLL: 14, LinkType.LINUX_SLL2: 0}
_IP_AT = {
    LinkType.ETHERNET: 14,
    LinkType.LINUX_SLL: 16,
    LinkType.LINUX_SLL2: 20,
    LinkType.NULL: 4,
    LinkType.LOOP: 4,
    LinkType.RAW: 0,
    LinkType.RAW_BSD: 0,
    LinkType.RAW_OPENBSD: 0,
    LinkType.IPV4: 0,
    LinkType.IPV6: 0,
}

_IP_HEADER, _IP_6_HEADER, _TCP_HEADER, _UDP_HEADER = 20, 40, 20, 8

_HEADER = np.dtype(
    {
        "names": [
            "first",
            "total",
            "fragment",
            "protocol",
            "source",
            "target",
            "ports",
            "seq",
            "ack",
            "words",
            "flags",
        ],
        "formats": ["u1", ">u2", ">u2", "u1", "u4", "u4", "u4", ">u4", ">u4", "u1", "u1"],
        "offsets": [0, 2, 6, 9, 12, 16, 20, 24, 28, 32, 33],
        "itemsize": _IP_HEADER + _TCP_HEADER,
    }
)
_HEADER_6 = np.dtype(
    {
        "names": ["size", "next", "a", "b", "c", "d", "ports", "seq", "ack", "words", "flags"],
        "formats": [">u2", "u1", "u8", "u8", "u8", "u8", "u4", ">u4", ">u4", "u1", "u1"],
        "offsets": [4, 6, 8, 16, 24, 32, 40, 44, 48, 52, 53],
        "itemsize": _IP_6_HEADER + _TCP_HEADER,
    }
)

_MIX = [np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)] + [
    np.uint64(number) for number in (0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB)
]
_BUCKETS = 16
"""Bits of the place in which a flow is looked for."""


class Headers(NamedTuple):
    """What the packets of a piece of a file say; an item each.

    Attributes:
        plain: A TCP segment with ACK, without FIN, SYN, RST and without anything unusual in its headers, captured whole.
        at: Where its payload begins in the buffer.
        stop: Behind its last byte.
        seq: Its sequence number.
        ack: What it acknowledges.
        flow: The same number for packets of one flow, -1 where that is not known.
        keys: The ends of each flow as ``Segment.ends`` has them.
        odd: What may be TCP, or carry it, but cannot be told which flow it belongs to.
        datagram: A UDP datagram without anything unusual in its headers, captured whole; ``at`` and ``stop`` are
            those of its payload.
    """

    plain: Mask
    at: Array
    stop: Array
    seq: NDArray[np.uint32]
    ack: NDArray[np.uint32]
    flow: Array
    keys: list[bytes]
    odd: Mask
    datagram: Mask


def headers(records: Records) -> Headers:
    """Reads the headers of all packets of a piece of a file."""
    buffer, start, end = records.buffer, records.start, records.end
    count = len(start)
    ip = np.full(count, -1, np.int64)
    version = np.zeros(count, np.int8)
    odd = np.zeros(count, np.bool_)
    links = (
        [int(records.link[0])]
        if count and (records.link == records.link[0]).all()
        else np.unique(records.link)
    )
    for link in links:
        those = slice(None) if len(links) == 1 else np.flatnonzero(records.link == link)
        _link_layer(buffer, int(link), start, end, those, ip, version, odd)
    plain = np.zeros(count, np.bool_)
    at, stop = np.zeros(count, np.int64), np.zeros(count, np.int64)
    seq, ack = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
    known = np.zeros(count, np.bool_)
    width = 6 if (version == 6).any() else 3
    words = [np.zeros(count, np.uint64) for _ in range(width)]
    flow, datagram = np.full(count, -1, np.int64), np.zeros(count, np.bool_)
    parts = Headers(plain, at, stop, seq, ack, flow, [], odd, datagram)
    _version_4(buffer, ip, end, _where(version == 4), known, words, parts)
    if width > 3:
        _version_6(buffer, ip, end, np.flatnonzero(version == 6), known, words, parts)
    representatives = _flows(known, words, parts.flow)
    for index in representatives.tolist():
        place = int(ip[index])
        inside = (12, 24) if version[index] == 4 else (8, 44)
        parts.keys.append(buffer[place + inside[0] : place + inside[1]])
    return parts


def _where(mask: Mask) -> Array | slice:
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _view(buffer: bytes, kind: np.dtype[np.void] | str, size: int) -> NDArray[np.void]:
    return np.ndarray((max(len(buffer) - size + 1, 0),), kind, buffer, 0, (1,))


def _link_layer(
    buffer: bytes,
    link: int,
    start: Array,
    end: Array,
    those: Array | slice,
    ip: Array,
    version: NDArray[np.int8],
    odd: Mask,
) -> None:
    """Finds the IP header of packets of one link type."""
    if link not in _IP_AT:
        odd[those] = link == LinkType.PPP
        return
    begin, header = start[those], _IP_AT[LinkType(link)]
    long = end[those] - begin >= header + _IP_HEADER
    # What is too short is looked at in the first bytes, and not believed.
    safe = np.where(long, begin, 0)
    if len(buffer) < header + _IP_HEADER:
        return
    if link in _ETHERTYPE_AT:
        kind = _view(buffer, ">u2", 2)[safe + _ETHERTYPE_AT[LinkType(link)]]
        found = np.where(kind == _IP, 4, np.where(kind == _IP_6, 6, 0))
        odd[those] = long & (np.isin(kind, _LEADING) | (kind <= LARGEST_LENGTH)) if not found.all() else False
    elif header:
        family = _view(buffer, ">u4", 4)[safe]
        found = np.where(np.isin(family, _FAMILY_IP), 4, np.where(np.isin(family, _FAMILIES_IP_6), 6, 0))
    else:
        found = np.frombuffer(buffer, np.uint8)[safe] >> 4
    version[those] = np.where(long, found, 0)
    ip[those] = begin + header


def _version_4(
    buffer: bytes, ip: Array, end: Array, those: Array | slice, known: Mask, words: list[Words], out: Headers
) -> None:
    place, limit = ip[those], end[those]
    long = limit - place >= _HEADER.itemsize
    # Shorter ones are no TCP, with or without IP options.
    read = _view(buffer, f"V{_HEADER.itemsize}", _HEADER.itemsize)
    if not len(read):
        return
    header = read[np.where(long, place, 0)].view(_HEADER)
    first, protocol = header["first"], header["protocol"]
    tcp = long & (protocol == _TCP)
    whole = header["fragment"] & 0x3FFF == 0
    usual = (first == 0x45) & whole
    keyed = tcp & usual
    if not keyed.all():
        _may_carry(buffer, place, limit, header, usual, out.odd, those)
    size = header["words"]
    at = place + _IP_HEADER + (size >> 4).astype(np.int64) * 4
    stop = place + header["total"]
    plain = keyed & (size >= 0x50) & (header["flags"] & _SPECIAL == _ACK) & (at <= stop) & (stop <= limit)
    known[those] = keyed
    out.plain[those], out.at[those], out.stop[those] = plain, at, stop
    out.seq[those], out.ack[those] = header["seq"], header["ack"]
    for word, name in zip(words, ("source", "target", "ports"), strict=False):
        word[those] = header[name]
    udp = long & (protocol == _UDP) & usual & (header["total"] > 0)
    if udp.any():
        _datagrams(buffer, place + _IP_HEADER, stop, limit, udp, those, out)


def _may_carry(
    buffer: bytes,
    place: Array,
    limit: Array,
    header: NDArray[np.void],
    usual: Mask,
    odd: Mask,
    those: Array | slice,
) -> None:
    """Notes which packets of IPv4 that are not usual TCP may be TCP all the same, or carry it."""
    long, protocol = limit - place >= _HEADER.itemsize, header["protocol"]
    # Any datagram that comes in pieces may carry packets, for which ports would tell.
    held = ((protocol == _TCP) | (protocol == _UDP)) & ~usual | np.isin(protocol, _TUNNELS)
    odd[those] |= long & held & (header["first"] >> 4 == 4)
    short = ~long & (limit - place >= _IP_HEADER)
    if short.any():
        # The last piece of a packet may be shorter than its headers.
        fragment = _view(buffer, ">u2", 2)[np.where(short, place + 6, 0)].astype(np.int64)
        odd[those] |= short & (fragment & 0x3FFF != 0)


def _version_6(
    buffer: bytes, ip: Array, end: Array, those: Array, known: Mask, words: list[Words], out: Headers
) -> None:
    place, limit = ip[those], end[those]
    long = limit - place >= _HEADER_6.itemsize
    read = _view(buffer, f"V{_HEADER_6.itemsize}", _HEADER_6.itemsize)
    if not len(read):
        return
    header = read[np.where(long, place, 0)].view(_HEADER_6)
    keyed = long & (header["next"] == _TCP)
    out.odd[those] = long & ~np.isin(header["next"], (_TCP, _UDP, _ICMP_6))
    size = header["words"]
    at = place + _IP_6_HEADER + (size >> 4).astype(np.int64) * 4
    stop = place + _IP_6_HEADER + header["size"]
    plain = keyed & (size >= 0x50) & (header["flags"] & _SPECIAL == _ACK) & (header["size"] > 0)
    plain &= (at <= stop) & (stop <= limit)
    known[those] = keyed
    out.plain[those], out.at[those], out.stop[those] = plain, at, stop
    out.seq[those], out.ack[those] = header["seq"], header["ack"]
    for word, name in zip(words, ("a", "b", "ports", "c", "d"), strict=False):
        word[those] = header[name]
    words[5][those] = 6
    udp = long & (header["next"] == _UDP) & (header["size"] > 0)
    if udp.any():
        _datagrams(buffer, place + _IP_6_HEADER, stop, limit, udp, those, out)


def _datagrams(
    buffer: bytes, place: Array, stop: Array, limit: Array, udp: Mask, those: Array | slice, out: Headers
) -> None:
    """Notes where UDP headers begin at some places, and IP ends behind them."""
    words = _view(buffer, ">u2", 2)
    tunnel = udp & np.isin(words[np.where(udp, place + 2, 0)], _TUNNEL_PORTS)
    out.odd[those] |= tunnel
    size = words[np.where(udp, place + 4, 0)].astype(np.int64)
    end = np.where(size > 0, np.minimum(stop, place + size), stop)
    at = place + _UDP_HEADER
    good = udp & ~tunnel & (at <= end) & (stop <= limit)
    out.datagram[those] = good
    out.at[those] = np.where(good, at, out.at[those])
    out.stop[those] = np.where(good, end, out.stop[those])


def _flows(known: Mask, words: list[Words], flow: Array) -> Array:
    """Numbers the flows of the packets that are known to belong to one; returns a packet of each flow."""
    left = _where(known)
    if isinstance(left, slice):
        left = np.arange(len(known))
    found: list[Array] = []
    count = 0
    for turn in range(64):
        if not len(left):
            break
        mixed = words[0][left] * _MIX[turn % 3]
        for word, mix in zip(words[1:], _MIX[1:], strict=False):
            mixed = (mixed ^ (mixed >> np.uint64(29)) ^ word[left]) * (mix + np.uint64(2 * turn))
        bucket = (mixed >> np.uint64(64 - _BUCKETS)).astype(np.int64)
        table = np.empty(1 << _BUCKETS, np.int64)
        table[bucket] = np.arange(len(left))
        chosen = table[bucket]
        same = words[0][left[chosen]] == words[0][left]
        for word in words[1:]:
            same &= word[left[chosen]] == word[left]
        leaders = np.flatnonzero(chosen == np.arange(len(left)))
        number = np.empty(len(left), np.int64)
        number[leaders] = np.arange(count, count + len(leaders))
        flow[left[same]] = number[chosen[same]]
        found.append(left[leaders])
        count += len(leaders)
        left = left[~same]
    return np.concatenate(found) if found else np.empty(0, np.int64)
