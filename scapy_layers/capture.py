"""Capture files: pcap and pcapng, plain or compressed, whole or as they arrive, into the segments they hold.

A file is read in pieces of bounded size and never asked to seek, so standard input will do and memory stays
flat. What a length in the file claims is checked before anything is allocated.
"""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from math import gcd
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias

from scapy_layers.ip import Decoder, LinkType, Segment

__all__ = ["CaptureError", "Segment", "read"]

MAX_BLOCK = 16 << 20
"""Bytes of the largest packet or block that is believed; usual writers stop at 256 KiB for these links."""

CHUNK = 1 << 18
"""Bytes asked of the file at a time."""

COMPRESSED = 1 << 14
"""Bytes that are decompressed at a time; what has to be done again where they turn out to be damaged."""

NS = 1_000_000_000

Source: TypeAlias = str | os.PathLike[str] | BinaryIO
"""Where a capture comes from: the path of a file, or a stream open for reading bytes, which need not be able to seek."""


def opened(source: Source) -> AbstractContextManager[BinaryIO]:
    """Opens a file; a stream that is open already stays open behind it."""
    return Path(source).open("rb") if isinstance(source, str | os.PathLike) else nullcontext(source)


class CaptureError(ValueError):
    """A file that is no capture, or is damaged from some place on; all whole packets in front were handed out.

    Attributes:
        reason: What is wrong.
        number: Of the packet, from 1, that would have come next.
        offset: Where the packet or block that is damaged begins, in bytes of the file after decompression.
    """

    def __init__(self, reason: str, number: int = 1, offset: int = 0) -> None:
        super().__init__(reason, number, offset)
        self.reason = reason
        self.number = number
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.reason} (at packet {self.number}, byte {self.offset})"


def read(
    source: Source,
    *,
    progress: Callable[[int], None] | None = None,
    decoder: Decoder | None = None,
    quick: bool = True,
) -> Iterator[Segment]:
    """Yields what every TCP segment and UDP datagram of a capture says to a port.

    Args:
        source: Path of a file, or a stream open for reading bytes, which need not be able to seek.
        progress: Told after each piece of the file how many bytes have been read so far, compressed ones if so.
        decoder: Takes packets apart; to be asked afterwards for what it left alone.
        quick: Take the short way through the commonest kind of packet. The segments are the same without.

    Raises:
        CaptureError: The file is no capture, or damaged; after all whole packets.
        OSError: The file cannot be read.
    """
    decode, quick_link = (decoder or Decoder()).decode, int(LinkType.ETHERNET) if quick else -1
    headers, size_of_headers, new = HEADERS.unpack_from, HEADERS.size, tuple.__new__
    number = 0
    for buffer, records in runs(source, progress=progress):
        for time, link, start, end, length in records:
            number += 1
            if link == quick_link and end - start >= size_of_headers:
                # Says what Decoder.decode says, for what most captures are made of, in a third of the time.
                kind, first, total, fragment, protocol, ends, seq, ack, words, flags = headers(buffer, start)
                data, stop = start + 34 + (words >> 4) * 4, start + 14 + total
                if (
                    first == PLAIN_IP
                    and protocol == PROTOCOL_TCP
                    and kind == ETHERTYPE_IP
                    and not fragment & FRAGMENTED
                    and words >= PLAIN_TCP
                    and data <= stop <= end
                ):
                    yield new(Segment, (number, time, True, ends, seq, ack, flags, buffer[data:stop], 0))
                    continue
            segment = decode(number, time, link, buffer[start:end], length)
            if segment is not None:
                yield segment


# The short way ------------------------------------------------------------------------------------

HEADERS = Struct(">12xHBxHxxHxB2x12sIIBB")
"""Ethernet, IPv4 and TCP without tags and IP options: EtherType, first byte of IP, total length, fragment, protocol,
addresses and ports, sequence number, acknowledgement, header length, flags. They are what they seem when:"""

ETHERTYPE_IP = 0x0800
PLAIN_IP = 0x45
PROTOCOL_TCP = 6
FRAGMENTED = 0x3FFF
PLAIN_TCP = 0x50


# From bytes to packets ----------------------------------------------------------------------------

_PCAP = {
    bytes.fromhex("d4c3b2a1"): ("<", 1000),
    bytes.fromhex("a1b2c3d4"): (">", 1000),
    bytes.fromhex("4d3cb2a1"): ("<", 1),
    bytes.fromhex("a1b23c4d"): (">", 1),
}
"""Magic number: byte order, and ns in a unit of the fraction of a second."""

_PCAP_HEADER = 24
_PCAP_RECORD = 16
_LINK_TYPE = 0xFFFF
"""The other bits of the link type field tell about checksums behind the packets, which IP's length cuts off."""


Record: TypeAlias = tuple[int, int, int, int, int]
"""One packet: its time, link type, begin and end in ``Run.buffer``, and how many bytes it had on the wire."""


class Run(NamedTuple):
    """Packets that lie in one piece of the file, so that nothing has to be copied to look at their headers."""

    buffer: bytes
    records: list[Record]


def runs(source: Source, *, progress: Callable[[int], None] | None = None) -> Iterator[Run]:
    """Yields the packets of a capture, many at a time; arguments and errors are those of ``read``."""
    with opened(source) as file:
        yield from _runs(_Bytes(_pieces(file, progress)))


def _runs(source: _Bytes) -> Iterator[Run]:
    buffer = source.fill(b"", 4)
    magic = buffer[:4]
    if magic in _PCAP:
        return _pcap(source, buffer, *_PCAP[magic])
    if magic == _SECTION_MAGIC:
        return _pcapng(source, buffer)
    if not buffer and not source.damage:
        raise CaptureError("the file is empty")
    raise CaptureError(source.damage or no_capture(magic))


def no_capture(magic: bytes) -> str:
    """Says what is wrong with a file that begins with these four bytes."""
    for begins, (what, how) in _NOT_READ.items():
        if magic.startswith(begins):
            return f"compressed with {what}, which is not read here: decompress it first ({how})"
    how = "if Wireshark can read it, `editcap -F pcapng FILE NEW` converts it"
    return f"neither pcap nor pcapng: the file begins with {magic.hex(' ')}; {how}"


def _pcap(source: _Bytes, buffer: bytes, order: str, unit: int) -> Iterator[Run]:
    buffer = source.need(buffer, _PCAP_HEADER, 1, "the file header")
    link = Struct(order + "I").unpack_from(buffer, 20)[0] & _LINK_TYPE
    header = Struct(order + "IIII").unpack_from
    at, number = _PCAP_HEADER, 1
    while True:
        records: list[Record] = []
        add = records.append
        last = len(buffer) - _PCAP_RECORD
        want = _PCAP_RECORD
        while at <= last:
            seconds, fraction, size, length = header(buffer, at)
            start = at + _PCAP_RECORD
            if start + size > len(buffer):
                want += size
                break
            at = start + size
            add((seconds * NS + fraction * unit, link, start, at, length))
        yield Run(buffer, records)
        number += len(records)
        buffer, at = source.need(buffer[at:], want, number, "a packet"), 0
        if not buffer:
            return


_SECTION_MAGIC = bytes.fromhex("0a0d0d0a")
_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_PACKETS = frozenset({_PACKET, _OLD_PACKET})
_COUNTED = frozenset({9, 0x204, 0x216, 0x221, 0x0BAD, 0x4000_0BAD})
"""Entries of journals, system calls and custom blocks: Wireshark gives them numbers like packets, and so do we."""
_NO_LINK = -1
"""The link type of what is no packet."""
_SECTION_ORDERS = {bytes.fromhex("4d3c2b1a"): "<", bytes.fromhex("1a2b3c4d"): ">"}
_OPTION_END, _OPTION_RESOLUTION, _OPTION_OFFSET = 0, 9, 14
_SMALLEST_BLOCK, _SMALLEST_SIMPLE, _SMALLEST_PACKET = 12, 16, 32


class _Interface(NamedTuple):
    """Where packets of a section were captured; ``time * multiply // divide + add`` is in ns."""

    link: int
    snap: int
    multiply: int
    divide: int
    add: int


class _Section:
    """The byte order of a section, and the interfaces described so far."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.interfaces: list[_Interface] = []
        self.block = Struct(order + "II").unpack_from
        self.packet = Struct(order + "IIIII").unpack_from
        self.packet_block = Struct(order + "IIIIIII").unpack_from
        self.old_packet = Struct(order + "HHIIII").unpack_from
        self.word = Struct(order + "I").unpack_from

    def _describe(self, block: bytes) -> None:
        """Takes an Interface Description Block."""
        if len(block) < 20:
            raise ValueError("an interface description is too short")
        link, snap = Struct(self.order + "HxxI").unpack_from(block, 8)
        resolution, offset = 6, 0
        option = Struct(self.order + "HH").unpack_from
        at, end = 16, len(block) - 4
        while at + 4 <= end:
            code, size = option(block, at)
            at += 4
            if code == _OPTION_END or at + size > end:
                break
            if code == _OPTION_RESOLUTION and size == 1:
                resolution = block[at]
            elif code == _OPTION_OFFSET and size == 8:
                offset = Struct(self.order + "q").unpack_from(block, at)[0]
            at += size + -size % 4
        units = 1 << (resolution & 0x7F) if resolution & 0x80 else 10**resolution
        common = gcd(NS, units)
        self.interfaces.append(_Interface(link, snap, NS // common, units // common, offset * NS))

    def take(self, buffer: bytes, at: int, records: list[Record]) -> int:
        """Takes the block that begins at ``buffer[at]``; adds the packet in it.

        Returns:
            Where the block ends; when that is behind the buffer, nothing was taken.

        Raises:
            ValueError: The block contradicts itself, or names an interface that was not described.
        """
        kind, size = self.block(buffer, at)
        if size < _SMALLEST_BLOCK or size % 4:
            raise ValueError(f"a block of {size} bytes")
        end: int = at + size
        if end > len(buffer):
            return end
        if self.word(buffer, end - 4)[0] != size:
            raise ValueError("a block whose two lengths differ")
        if kind in _PACKETS:
            records.append(self._packet(kind, buffer, at, end))
        elif kind == _SIMPLE_PACKET:
            records.append(self._simple(buffer, at, end))
        elif kind in _COUNTED:
            records.append((0, _NO_LINK, end, end, 0))
        elif kind == _INTERFACE:
            self._describe(buffer[at:end])
        return end

    def take_packets(self, buffer: bytes, at: int, records: list[Record]) -> int:
        """Takes Enhanced Packet Blocks as long as nothing is wrong with them; returns where the next block begins.

        Says what ``take`` says, for what most of a file is made of, in a fourth of the time.
        """
        header, word, add_record, interfaces = self.packet_block, self.word, records.append, self.interfaces
        count, size_of_buffer = len(interfaces), len(buffer)
        while at + _SMALLEST_PACKET <= size_of_buffer:
            kind, size, interface, high, low, captured, length = header(buffer, at)
            end = at + size
            if (
                kind != _PACKET
                or size & 3
                or captured + _SMALLEST_PACKET > size
                or end > size_of_buffer
                or interface >= count
                or word(buffer, end - 4)[0] != size
            ):
                break
            link, _, multiply, divide, add = interfaces[interface]
            start = at + 28
            time = (high << 32 | low) * multiply // divide + add
            add_record((time, link, start, start + captured, length))
            at = end
        return at

    def _packet(self, kind: int, buffer: bytes, at: int, end: int) -> Record:
        if end - at < _SMALLEST_PACKET:
            raise ValueError("a packet block is too short")
        if kind == _PACKET:
            interface, high, low, captured, length = self.packet(buffer, at + 8)
        else:
            interface, _, high, low, captured, length = self.old_packet(buffer, at + 8)
        if interface >= len(self.interfaces):
            raise ValueError(f"a packet of interface {interface}, of {len(self.interfaces)} described")
        start = at + 28
        if start + captured > end - 4:
            raise ValueError(f"a packet of {captured} bytes in a block of {end - at}")
        link, _, multiply, divide, add = self.interfaces[interface]
        return (high << 32 | low) * multiply // divide + add, link, start, start + captured, length

    def _simple(self, buffer: bytes, at: int, end: int) -> Record:
        """A packet of the first interface, without a time."""
        if end - at < _SMALLEST_SIMPLE or not self.interfaces:
            raise ValueError("a simple packet block is too short, or of no interface")
        (length,) = self.word(buffer, at + 8)
        link, snap, *_ = self.interfaces[0]
        start = at + 12
        captured = min(length, end - 4 - start, snap or length)
        return 0, link, start, start + captured, length


def _order(buffer: bytes, at: int) -> str:
    order = _SECTION_ORDERS.get(buffer[at + 8 : at + 12])
    if order is None:
        raise ValueError("a section without a byte order")
    return order


def _pcapng(source: _Bytes, buffer: bytes) -> Iterator[Run]:
    section = _Section("<")
    at, number = 0, 1
    while True:
        records: list[Record] = []
        want, wrong = _SMALLEST_BLOCK, ""
        try:
            while at + _SMALLEST_BLOCK <= len(buffer):
                if buffer.startswith(_SECTION_MAGIC, at):
                    section = _Section(_order(buffer, at))
                end = section.take(buffer, at, records)
                if end > len(buffer):
                    want = end - at
                    break
                at = section.take_packets(buffer, end, records)
        except ValueError as error:
            wrong = str(error)
        yield Run(buffer, records)
        number += len(records)
        if wrong:
            raise CaptureError(wrong, number, source.taken - len(buffer) + at)
        buffer, at = source.need(buffer[at:], want, number, "a block"), 0
        if not buffer:
            return


# From files to bytes ------------------------------------------------------------------------------

_GZIP_MAGIC = b"\x1f\x8b"
_BZIP2_MAGIC = b"BZh"
_XZ_MAGIC = b"\xfd7zXZ"
_MAGIC = max(map(len, (_GZIP_MAGIC, _BZIP2_MAGIC, _XZ_MAGIC)))

_NOT_READ = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d FILE"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d FILE"),
    b"PK\x03\x04": ("zip", "unzip FILE"),
}
"""What files begin with that Python has no module for, or that hold several files, and what to do with them."""

_XZ_MEMORY = 128 << 20
"""Bytes that decompressing xz may take: ``xz -9`` asks for 65 MiB, a hostile file for 4 GiB."""


def is_compressed(head: bytes) -> bool:
    """Tells from its first bytes whether a file is compressed in a way that is read here."""
    return head.startswith((_GZIP_MAGIC, _BZIP2_MAGIC, _XZ_MAGIC))


class _Damaged(Exception):
    """Compressed data that cannot be read on."""


class _Bytes:
    """What is left of a file.

    Attributes:
        taken: How many bytes have been handed out.
        damage: Why there are no more; empty when the file simply ended.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.taken = 0
        self.damage = ""

    def fill(self, rest: bytes, size: int) -> bytes:
        """Returns ``rest`` and what follows, in all ``size`` bytes or more if there are as many."""
        parts, held = [rest], len(rest)
        try:
            while held < size or len(parts) == 1:
                parts.append(next(self._pieces))
                held += len(parts[-1])
        except StopIteration:
            pass
        except _Damaged as damaged:
            self.damage = str(damaged)
        self.taken += held - len(rest)
        return b"".join(parts)

    def need(self, rest: bytes, size: int, number: int, what: str) -> bytes:
        """Returns what ``fill`` does; nothing at the end of the file.

        Raises:
            CaptureError: The file ends, or cannot be read on, in front of that.
        """
        at = self.taken - len(rest)
        if size > MAX_BLOCK:
            raise CaptureError(f"{what} of {size} bytes, at most {MAX_BLOCK} are believed", number, at)
        buffer = self.fill(rest, size)
        if len(buffer) < size and self.damage:
            raise CaptureError(self.damage, number, at)
        if 0 < len(buffer) < size:
            raise CaptureError(f"the file ends inside {what}, after {len(buffer)} bytes", number, at)
        return buffer


def _pieces(file: BinaryIO, progress: Callable[[int], None] | None) -> Iterator[bytes]:
    raw = _raw(file, progress)
    head = b""
    for piece in raw:
        head += piece
        if len(head) >= _MAGIC:
            break
    whole = _chain(head, raw)
    if head.startswith(_GZIP_MAGIC):
        return _inflate(whole)
    if head.startswith(_BZIP2_MAGIC):
        return _unpack(whole, "bzip2", bz2.BZ2Decompressor)
    if head.startswith(_XZ_MAGIC):
        return _unpack(whole, "xz", _xz)
    return whole


def _raw(file: BinaryIO, progress: Callable[[int], None] | None) -> Iterator[bytes]:
    done = 0
    # What is there, without waiting for more: so a running capture can be watched through a pipe.
    take: Callable[[int], bytes] = getattr(file, "read1", file.read)
    while piece := take(CHUNK):
        done += len(piece)
        if progress is not None:
            progress(done)
        yield piece


def _chain(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from pieces


def _inflate(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decompresses gzip of one or more members; what stands in front of damage is handed out first."""
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    for piece in pieces:
        for at in range(0, len(piece), COMPRESSED):
            some = piece[at : at + COMPRESSED]
            while some:
                if unzip.eof:
                    some = some.lstrip(b"\0")  # tapes and blocks are filled up with zeros
                    if not some:
                        break
                    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
                before = unzip.copy()
                try:
                    data = unzip.decompress(some, CHUNK)
                except zlib.error as error:
                    yield from _bytewise(before, some)
                    raise _Damaged(f"the gzip data is damaged: {error}") from None
                if data:
                    yield data
                some = unzip.unused_data if unzip.eof else unzip.unconsumed_tail
    if not unzip.eof:
        raise _Damaged("the gzip data ends too early")


def _bytewise(unzip: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Decompresses up to the damaged byte: zlib keeps nothing of a call that fails."""
    for at in range(len(data)):
        try:
            yield unzip.decompress(data[at : at + 1])
        except zlib.error:
            return


class _Decompressor(Protocol):
    """What ``bz2`` and ``lzma`` have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def _unpack(pieces: Iterator[bytes], what: str, begin: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """Decompresses one or more streams; of blocks that are damaged nothing is handed out."""
    unpack, begun = begin(), False
    for piece in pieces:
        some = piece
        while some or not unpack.needs_input:
            if unpack.eof:
                some = some.lstrip(b"\0")
                if not some:
                    break
                unpack = begin()
            begun = True
            try:
                data = unpack.decompress(some, CHUNK)
            except (OSError, lzma.LZMAError) as error:
                raise _Damaged(f"the {what} data cannot be decompressed: {error}") from None
            if data:
                yield data
            some = unpack.unused_data if unpack.eof else b""
    if begun and not unpack.eof:
        raise _Damaged(f"the {what} data ends too early")
