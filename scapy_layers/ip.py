"""From a captured packet to what it says to one port of one host: link layer, IP, fragments, tunnels, UDP, TCP.

Checksums are not looked at: in captures taken on the sending host the network card has yet to fill them in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from struct import Struct
from typing import NamedTuple


class Segment(NamedTuple):
    """The payload of one TCP segment or UDP datagram, and what is needed to put it in its place.

    Attributes:
        number: Of the packet in the capture, from 1; of the last fragment when the packet came in pieces.
        time: In ns since 1970; 0 when the capture has none.
        tcp: TCP; else UDP.
        ends: Both addresses and both ports as they stand in the packet, in the innermost one of a tunnel (see
            ``join_ends``): one key for a flow.
        seq: Sequence number, TCP only.
        ack: Acknowledgement number, TCP only.
        flags: ``TcpFlag`` bits, TCP only.
        data: What IP says is payload: without padding of the link.
        missing: How many bytes of the payload the snap length of the capture cut off.
    """

    number: int
    time: int
    tcp: bool
    ends: bytes
    seq: int
    ack: int
    flags: int
    data: bytes
    missing: int

    @property
    def source(self) -> bytes:
        """The sender's address, 4 or 16 bytes."""
        return self.ends[: len(self.ends) // 2 - 2]

    @property
    def target(self) -> bytes:
        """The receiver's address, 4 or 16 bytes."""
        return self.ends[len(self.ends) // 2 - 2 : -4]

    @property
    def sport(self) -> int:
        """The sender's port."""
        return int.from_bytes(self.ends[-4:-2], "big")

    @property
    def dport(self) -> int:
        """The receiver's port."""
        return int.from_bytes(self.ends[-2:], "big")


def join_ends(source: bytes, target: bytes, sport: int, dport: int) -> bytes:
    """Returns what ``Segment.ends`` holds for these addresses and ports."""
    return source + target + sport.to_bytes(2, "big") + dport.to_bytes(2, "big")


class TcpFlag(IntFlag):
    """The bits of a TCP header that matter here."""

    FIN = 1
    SYN = 2
    RST = 4
    ACK = 16


class LinkType(IntEnum):
    """Link layers that carry IP, as capture files number them."""

    NULL = 0
    ETHERNET = 1
    PPP = 9
    RAW_BSD = 12
    RAW_OPENBSD = 14
    RAW = 101
    LOOP = 108
    LINUX_SLL = 113
    IPV4 = 228
    IPV6 = 229
    LINUX_SLL2 = 276


# Link layers --------------------------------------------------------------------------------------

_ETHERTYPE_IP = 0x0800
_ETHERTYPE_IPV6 = 0x86DD
_VERSION_OF_ETHERTYPE = {_ETHERTYPE_IP: 4, _ETHERTYPE_IPV6: 6}
_TAGS = frozenset({0x8100, 0x88A8, 0x9100, 0x9200})
"""EtherTypes of VLAN tags: 802.1Q, 802.1ad, and two that were used before it."""

_PPPOE = 0x8864
"""EtherType of PPP over Ethernet, once its session is there."""

_MPLS = frozenset({0x8847, 0x8848})
"""EtherTypes of labels in front of IP."""

_ETHERTYPE_ETHERNET = 0x6558
"""EtherType of Ethernet in a tunnel."""

LEADING = frozenset({*_TAGS, *_MPLS, _PPPOE, _ETHERTYPE_ETHERNET})
"""EtherTypes of what may stand in front of another EtherType, or of IP."""

_MIRRORED, _MIRRORED_3 = 0x88BE, 0x22EB
"""EtherTypes of what a switch mirrors (ERSPAN): Ethernet behind a header of its own, of 8 bytes or 12."""

_VERSION_OF_PPP = {0x0021: 4, 0x0057: 6}

LARGEST_LENGTH = 1500
"""Up to here an EtherType is the length of a frame of 802.3, in which LLC comes first."""

_SNAP = b"\xaa\xaa\x03\0\0\0"
"""LLC and the first part of SNAP when an EtherType comes next."""

_FAMILIES = {2: 4, 10: 6, 24: 6, 28: 6, 30: 6}
"""AF_INET, and AF_INET6 of Linux, NetBSD and OpenBSD, FreeBSD, macOS."""


def _after_ethertype(packet: bytes, at: int, start: int) -> tuple[int, int]:
    """Version and place of the IP header, given the place of an EtherType and of what follows it."""
    kind = int.from_bytes(packet[at : at + 2], "big")
    while start <= len(packet):
        if kind in _TAGS:
            start += 4
        elif kind <= LARGEST_LENGTH and packet.startswith(_SNAP, start):
            start += 8
        elif kind == _ETHERTYPE_ETHERNET:
            start += 14
        else:
            return _without_ethertype(packet, kind, start)
        kind = int.from_bytes(packet[start - 2 : start], "big")
    return 0, start


def _without_ethertype(packet: bytes, kind: int, start: int) -> tuple[int, int]:
    """The same for what brings no other EtherType: IP, or headers that say in a way of their own where IP is."""
    if kind == _PPPOE:
        # Version and type 1, code 0 for data; then the session and a length.
        return _ppp(packet, start + 6) if packet.startswith(b"\x11\0", start) else (0, start)
    if kind in _MPLS:
        while start + 4 <= len(packet):
            start += 4
            if packet[start - 2] & 1:  # the last label
                return _version_at(packet, start)
        return 0, start
    return _VERSION_OF_ETHERTYPE.get(kind, 0), start


def _version_at(packet: bytes, start: int) -> tuple[int, int]:
    return packet[start] >> 4 if start < len(packet) else 0, start


def _ppp(packet: bytes, start: int = 0) -> tuple[int, int]:
    """The protocol may have lost its first byte, and the two bytes in front of it."""
    if packet.startswith(b"\xff\x03", start):
        start += 2
    size = 1 if packet[start : start + 1] in {b"\x21", b"\x57"} else 2
    return _VERSION_OF_PPP.get(int.from_bytes(packet[start : start + size], "big"), 0), start + size


def _ethernet(packet: bytes, start: int = 0) -> tuple[int, int]:
    return _after_ethertype(packet, start + 12, start + 14)


def _cooked(packet: bytes) -> tuple[int, int]:
    return _after_ethertype(packet, 14, 16)


def _cooked_2(packet: bytes) -> tuple[int, int]:
    return _after_ethertype(packet, 0, 20)


def _loopback(packet: bytes) -> tuple[int, int]:
    """The family word is in the byte order of the host that captured, which may not be that of the file."""
    family = packet[:4]
    return _FAMILIES.get(min(int.from_bytes(family, "big"), int.from_bytes(family, "little")), 0), 4


def _raw(packet: bytes) -> tuple[int, int]:
    return _version_at(packet, 0)


_LINKS: dict[int, Callable[[bytes], tuple[int, int]]] = {
    LinkType.NULL: _loopback,
    LinkType.ETHERNET: _ethernet,
    LinkType.PPP: _ppp,
    LinkType.RAW_BSD: _raw,
    LinkType.RAW_OPENBSD: _raw,
    LinkType.RAW: _raw,
    LinkType.LOOP: _loopback,
    LinkType.LINUX_SLL: _cooked,
    LinkType.IPV4: _raw,
    LinkType.IPV6: _raw,
    LinkType.LINUX_SLL2: _cooked_2,
}


# IP -----------------------------------------------------------------------------------------------

_IPV4 = Struct(">BxHHHxB2x8s")
"""Version and length of the header, total length, identification, fragment, protocol, both addresses."""

_IPV6 = Struct(">BxxxHBx32s")
"""Version, payload length, next header, both addresses."""

_TCP = Struct(">4sIIBB")
_UDP = Struct(">4sH")
_TCP_HEADER, _UDP_HEADER = 20, 8

_PROTOCOL_TCP = 6
_PROTOCOL_UDP = 17
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_MORE_V4 = 0x2000
_OFFSET_V4 = 0x1FFF
_MORE_V6 = 1
_RESERVED_V6 = 6


class _Payload(NamedTuple):
    """What IP carries: ``data[start:end]``, where ``end`` may lie behind the last byte that was captured."""

    protocol: int
    addresses: bytes
    data: bytes
    start: int
    end: int


# Tunnels ------------------------------------------------------------------------------------------

_IP_IN_IP, _IPV6_IN_IP, _GRE, _ETHERNET_IN_IP = 4, 41, 47, 143
TUNNELS = frozenset({_IP_IN_IP, _IPV6_IN_IP, _GRE, _ETHERNET_IN_IP})
"""Protocols of IP that carry packets."""

_VXLAN = b"\x08\0\0\0"
"""The first bytes of its header: the number of a network follows, nothing else."""

_GENEVE_PORT, _GTP_PORT = 6081, 2152
_VXLAN_PORTS = 4789, 8472
TUNNEL_PORTS = frozenset({*_VXLAN_PORTS, _GENEVE_PORT, _GTP_PORT})
"""UDP ports to which packets are sent in datagrams: VXLAN (of Linux as well), Geneve, GTP-U."""

_DEEPEST = 8
"""Packets that stand in each other, at most."""


def _inside(payload: _Payload) -> tuple[int, int] | None:
    """Version and place of the IP header that a packet carries; version 0 for another protocol, None for no tunnel."""
    protocol, _, data, start, _ = payload
    if protocol == _PROTOCOL_UDP:
        port = int.from_bytes(data[start + 2 : start + 4], "big")
        return _in_datagram(port, data, start + _UDP_HEADER) if port in TUNNEL_PORTS else None
    if protocol == _GRE:
        return _in_gre(data, start)
    if protocol == _ETHERNET_IN_IP:
        return _ethernet(data, start)
    return _version_at(data, start) if protocol in TUNNELS else None


def _in_datagram(port: int, data: bytes, start: int) -> tuple[int, int] | None:
    """None as well for what has no such header: the port may be used for something else."""
    if port in _VXLAN_PORTS:
        return _ethernet(data, start + 8) if data.startswith(_VXLAN, start) else None
    if port == _GENEVE_PORT:
        # Version 0 and a number of words of options; flags; the EtherType of what comes behind them.
        behind = start + 8 + (data[start] & 63) * 4 if start < len(data) else start
        found = _after_ethertype(data, start + 2, behind)
        return found if found[0] and data[start] < 64 else None
    return _in_gtp(data, start)


def _in_gtp(data: bytes, start: int) -> tuple[int, int] | None:
    if start + 12 > len(data) or data[start] & 0xF8 != 0x30 or data[start + 1] != 0xFF:
        return None
    behind = start + 8
    if data[start] & 7:
        following = data[behind + 3] if data[start] & 4 else 0
        behind += 4
        while following and behind < len(data) and data[behind]:
            behind += data[behind] * 4
            following = data[behind - 1] if behind <= len(data) else 0
    return _version_at(data, behind)


def _in_gre(data: bytes, start: int) -> tuple[int, int]:
    flags = int.from_bytes(data[start : start + 2], "big")
    if flags & 0x4FFF:  # a route, or another version
        return 0, start
    behind = start + 4 + 4 * (flags >> 12).bit_count()  # checksum, key, sequence number
    kind = int.from_bytes(data[start + 2 : start + 4], "big")
    if kind == _MIRRORED:
        return _ethernet(data, behind + (8 if flags & 0x1000 else 0))
    if kind == _MIRRORED_3:
        more = behind + 11 < len(data) and data[behind + 11] & 1
        return _ethernet(data, behind + (20 if more else 12))
    return _after_ethertype(data, start + 2, behind)


# What stands in IP --------------------------------------------------------------------------------


def _segment(number: int, time: int, payload: _Payload) -> Segment | None:
    if payload.protocol == _PROTOCOL_TCP:
        return _tcp(number, time, payload)
    if payload.protocol == _PROTOCOL_UDP:
        return _udp(number, time, payload)
    return None


def _tcp(number: int, time: int, payload: _Payload) -> Segment | None:
    _, addresses, data, start, end = payload
    if start + _TCP_HEADER > min(end, len(data)):
        return None
    ports, seq, ack, words, flags = _TCP.unpack_from(data, start)
    body = start + (words >> 4) * 4
    if body < start + _TCP_HEADER or body > end:
        return None
    missing = max(end - max(body, len(data)), 0)
    return Segment(number, time, True, addresses + ports, seq, ack, flags, data[body:end], missing)


def _udp(number: int, time: int, payload: _Payload) -> Segment | None:
    _, addresses, data, start, end = payload
    if start + _UDP_HEADER > min(end, len(data)):
        return None
    ports, length = _UDP.unpack_from(data, start)
    if length:  # 0 stands for "the rest" in jumbograms and in what offloading cards are given
        end = min(end, start + length)
    body = start + _UDP_HEADER
    if body > end:
        return None
    missing = max(end - max(body, len(data)), 0)
    return Segment(number, time, False, addresses + ports, 0, 0, 0, data[body:end], missing)


def _upper(data: bytes, kind: int, start: int, end: int) -> tuple[int, int, int | None, bytes]:
    """Walks IPv6 extension headers.

    Returns:
        The protocol and place of what follows them; offset and M bit when that is a fragment, and which packet
        it belongs to.
    """
    captured = min(end, len(data))
    while start + 8 <= captured:
        if kind in {_HOP_BY_HOP, _ROUTING, _DESTINATION}:
            kind, start = data[start], start + 8 + data[start + 1] * 8
        elif kind == _AUTHENTICATION:
            kind, start = data[start], start + 8 + data[start + 1] * 4
        elif kind == _FRAGMENT:
            place = int.from_bytes(data[start + 2 : start + 4], "big")
            identification = data[start + 4 : start + 8]
            kind, start = data[start], start + 8
            if place & ~_RESERVED_V6:
                return kind, start, place, identification
        else:
            break
    return kind, start, None, b""


@dataclass(slots=True)
class _Pieces:
    """Fragments of one IP packet; where two overlap, the bytes that came first stay."""

    starts: list[int] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    held: int = 0
    total: int | None = None

    def add(self, start: int, piece: bytes, *, last: bool) -> int:
        """Takes a fragment; returns by how many bytes more are held."""
        before = self.held
        if last and self.total is None:
            self.total = start + len(piece)
            self._cut(self.total)
        if self.total is None or start + len(piece) <= self.total:
            self._insert(start, piece)
        return self.held - before

    def _insert(self, start: int, piece: bytes) -> None:
        at = bisect_left(self.starts, start)
        if at and (covered := self.starts[at - 1] + len(self.pieces[at - 1])) > start:
            piece, start = piece[covered - start :], covered
        while piece:
            free = self.starts[at] - start if at < len(self.starts) else len(piece)
            if new := piece[:free]:
                self.starts.insert(at, start)
                self.pieces.insert(at, new)
                self.held += len(new)
                at += 1
            if at == len(self.starts):
                break
            covered = self.starts[at] + len(self.pieces[at])
            piece, start = piece[covered - start :], covered
            at += 1

    def _cut(self, total: int) -> None:
        """Forgets what lies behind the end that the last fragment gives."""
        while self.starts and self.starts[-1] + len(self.pieces[-1]) > total:
            start, piece = self.starts.pop(), self.pieces.pop()
            self.held -= len(piece)
            if start < total:
                self._insert(start, piece[: total - start])

    @property
    def whole(self) -> bytes | None:
        """All bytes, once there are no holes."""
        return b"".join(self.pieces) if self.held == self.total else None


_MAX_PAYLOAD = 0xFFFF
"""Bytes an IP packet may have in all; a fragment that ends behind it belongs to no packet."""


@dataclass(slots=True)
class Fragments:
    """Puts IP packets together; the packets that are longest without their end are given up first.

    Attributes:
        most: How many packets may be incomplete at once.
        most_bytes: How many bytes may wait in all.
    """

    most: int = 1024
    most_bytes: int = 8 << 20
    _packets: dict[bytes, _Pieces] = field(default_factory=dict)
    _held: int = 0

    def add(self, key: bytes, start: int, piece: bytes, *, last: bool) -> bytes | None:
        """Takes a fragment; returns the payload of the packet that it completes.

        Args:
            key: What the fragments of one packet have in common.
            start: Where in the payload the piece belongs, in bytes.
            piece: Its bytes.
            last: Whether the payload ends with it.
        """
        if not piece or start + len(piece) > _MAX_PAYLOAD:
            return None
        if key not in self._packets:
            self._packets[key] = _Pieces()
        packet = self._packets[key]
        self._held += packet.add(start, piece, last=last)
        if (whole := packet.whole) is not None:
            self._drop(key)
            return whole
        while len(self._packets) > self.most or self._held > self.most_bytes:
            self._drop(next(iter(self._packets)))
        return None

    def __len__(self) -> int:
        return len(self._packets)

    def _drop(self, key: bytes) -> None:
        self._held -= self._packets.pop(key).held


@dataclass(slots=True)
class Decoder:
    """Takes captured packets apart; remembers nothing but fragments.

    Attributes:
        fragments: Of IP packets that are not complete.
        unknown: How many packets had a link type that is none of ``LinkType``, by its number.
    """

    fragments: Fragments = field(default_factory=Fragments)
    unknown: Counter[int] = field(default_factory=Counter)

    def decode(self, number: int, time: int, link: int, packet: bytes, length: int) -> Segment | None:
        """Returns what a packet, or the one it completes, says to a port.

        Args:
            number: Of the packet.
            time: In ns.
            link: Its ``LinkType``.
            packet: The bytes that were captured.
            length: How many there were on the wire.

        Returns:
            None for other protocols, damaged headers, and fragments while some are missing.
        """
        ip_at = _LINKS.get(link)
        if ip_at is None:
            if link >= 0:  # else it is no packet
                self.unknown[link] += 1
            return None
        found = ip_at(packet)
        end = max(length, len(packet))
        for _ in range(_DEEPEST):
            payload = self._payload(packet, found, end)
            if payload is None:
                return None
            inside = _inside(payload)
            if inside is None:
                return _segment(number, time, payload)
            found = inside
            # Behind its end stands what is not of it, which the packet that it carries may not take for its own.
            packet, end = payload.data[: payload.end], payload.end
        return None

    def _payload(self, packet: bytes, found: tuple[int, int], end: int) -> _Payload | None:
        version, at = found
        if version == 4:
            return self._version_4(packet, at, end)
        return self._version_6(packet, at, end) if version == 6 else None

    def _version_4(self, packet: bytes, at: int, end: int) -> _Payload | None:
        if at + 20 > len(packet):
            return None
        first, total, identification, fragment, protocol, addresses = _IPV4.unpack_from(packet, at)
        start = at + (first & 15) * 4
        if total:  # 0 when the network card is to cut it into packets: then all the rest belongs to it
            end = at + total
        if first >> 4 != 4 or start < at + 20 or start > end:
            return None
        payload = _Payload(protocol, addresses, packet, start, end)
        if not fragment & (_MORE_V4 | _OFFSET_V4):
            return payload
        key = addresses + bytes([protocol]) + identification.to_bytes(2, "big")
        return self._join(key, (fragment & _OFFSET_V4) * 8, payload, last=not fragment & _MORE_V4)

    def _version_6(self, packet: bytes, at: int, end: int) -> _Payload | None:
        if at + 40 > len(packet):
            return None
        first, size, kind, addresses = _IPV6.unpack_from(packet, at)
        if first >> 4 != 6:
            return None
        start = at + 40
        if size:  # 0 in jumbograms and in what the network card is to cut
            end = start + size
        kind, start, place, identification = _upper(packet, kind, start, end)
        if start > end:
            return None
        payload = _Payload(kind, addresses, packet, start, end)
        if place is None:
            return payload
        joined = self._join(addresses + identification, place & ~7, payload, last=not place & _MORE_V6)
        if joined is None:
            return None
        kind, start, place, _ = _upper(joined.data, kind, 0, joined.end)
        return joined._replace(protocol=kind, start=start) if place is None and start <= joined.end else None

    def _join(self, key: bytes, place: int, payload: _Payload, *, last: bool) -> _Payload | None:
        """Adds a fragment; one that was cut by the snap length leaves a hole that nothing fills."""
        if payload.end > len(payload.data):
            return None
        piece = payload.data[payload.start : payload.end]
        whole = self.fragments.add(key, place, piece, last=last)
        return None if whole is None else payload._replace(data=whole, start=0, end=len(whole))
