"""Frames put into a tunnel, by the pages that define each: RFC 2516, 3032, 2784 and 2890, 2003, 7348, 8926, TS 29.281."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from tests.scapy_layers.packets import ethernet, ipv4, ipv6, udp

_PPP = {4: b"\x00\x21", 6: b"\x00\x57"}


def _ip(frame: bytes) -> bytes:
    return frame[14:]


def _kind(frame: bytes) -> bytes:
    return frame[12:14]


def _version(frame: bytes) -> int:
    return frame[14] >> 4


def _over_udp(port: int, data: bytes, *, version: int = 4) -> bytes:
    datagram = udp(data, sport=40_000, dport=port)
    return ethernet(ipv4(datagram, protocol=17) if version == 4 else ipv6(datagram, protocol=17))


def pppoe(frame: bytes) -> bytes:
    inside = _PPP[_version(frame)] + _ip(frame)
    return ethernet(struct.pack(">BBHH", 0x11, 0, 5, len(inside)) + inside, kind=0x8864)


def mpls(frame: bytes) -> bytes:
    """Two labels."""
    labels = struct.pack(">II", 17 << 12 | 64, 18 << 12 | 1 << 8 | 64)
    return ethernet(labels + _ip(frame), kind=0x8847)


def ip_in_ip(frame: bytes) -> bytes:
    return ethernet(ipv4(_ip(frame), protocol=4 if _version(frame) == 4 else 41))


def ip_in_ipv6(frame: bytes) -> bytes:
    return ethernet(ipv6(_ip(frame), protocol=4 if _version(frame) == 4 else 41))


def gre(frame: bytes) -> bytes:
    return ethernet(ipv4(b"\0\0" + _kind(frame) + _ip(frame), protocol=47))


def gre_with_all(frame: bytes) -> bytes:
    """Checksum, key and sequence number."""
    return ethernet(ipv6(b"\xb0\0" + _kind(frame) + bytes(12) + _ip(frame), protocol=47))


def gre_with_ethernet(frame: bytes) -> bytes:
    return ethernet(ipv4(b"\x20\0\x65\x58" + bytes(4) + frame, protocol=47))


def erspan(frame: bytes) -> bytes:
    """The second kind; the first has neither a sequence number nor a header of its own."""
    head = struct.pack(">HHI", 0x1005, 0x0807, 0)
    return ethernet(ipv4(b"\x10\0\x88\xbe" + bytes(4) + head + frame, protocol=47))


def erspan_1(frame: bytes) -> bytes:
    return ethernet(ipv4(b"\0\0\x88\xbe" + frame, protocol=47))


def erspan_3(frame: bytes) -> bytes:
    head = struct.pack(">HHIHH", 0x2005, 0x0807, 0, 0, 0)
    return ethernet(ipv4(b"\x10\0\x22\xeb" + bytes(4) + head + frame, protocol=47))


def erspan_3_with_more(frame: bytes) -> bytes:
    """With the header of a platform behind its own."""
    head = struct.pack(">HHIHHQ", 0x2005, 0x0807, 0, 0, 1, 0)
    return ethernet(ipv4(b"\x10\0\x22\xeb" + bytes(4) + head + frame, protocol=47))


def vxlan(frame: bytes) -> bytes:
    return _over_udp(4789, b"\x08\0\0\0" + b"\0\0\x2a\0" + frame)


def vxlan_of_linux(frame: bytes) -> bytes:
    return _over_udp(8472, b"\x08\0\0\0" + b"\0\0\x2a\0" + frame, version=6)


def geneve(frame: bytes) -> bytes:
    """With two words of options."""
    return _over_udp(6081, b"\x02\0\x65\x58" + b"\0\0\x2a\0" + bytes.fromhex("0102800112345678") + frame)


def gtp(frame: bytes) -> bytes:
    inside = _ip(frame)
    return _over_udp(2152, struct.pack(">BBHI", 0x30, 0xFF, len(inside), 7) + inside)


def gtp_with_number(frame: bytes) -> bytes:
    """A sequence number; what is behind it means nothing then."""
    inside = struct.pack(">HBB", 9, 0, 0x85) + _ip(frame)
    return _over_udp(2152, struct.pack(">BBHI", 0x32, 0xFF, len(inside), 7) + inside)


def gtp_with_more(frame: bytes) -> bytes:
    """A sequence number, and an extension header."""
    inside = struct.pack(">HBB", 9, 0, 0x85) + bytes.fromhex("01100100") + _ip(frame)
    return _over_udp(2152, struct.pack(">BBHI", 0x36, 0xFF, len(inside), 7) + inside)


def vxlan_in_vxlan(frame: bytes) -> bytes:
    return vxlan(vxlan(frame))


TUNNELS: Mapping[str, Callable[[bytes], bytes]] = {
    made.__name__: made
    for made in (
        *(pppoe, mpls, ip_in_ip, ip_in_ipv6),
        *(gre, gre_with_all, gre_with_ethernet, erspan, erspan_1, erspan_3, erspan_3_with_more),
        *(vxlan, vxlan_of_linux, vxlan_in_vxlan, geneve, gtp, gtp_with_number, gtp_with_more),
    )
}
"""What puts an untagged frame of Ethernet with IP into a tunnel, by name."""
