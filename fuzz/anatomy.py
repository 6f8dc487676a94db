"""Where in some bytes each field stands: bytes cut into pieces that know what they are and who counts them.

Edits of pieces keep the lengths around them true, so that a mutation gets as deep as it is meant to. Bytes that are
no message are pieces too: nothing here raises for what the bytes are.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, assert_never

from scapy_layers import shape
from scapy_layers.catalogue import shapes
from scapy_layers.codes import Enc, Kind
from scapy_layers.errors import WireError
from scapy_layers.message import kind_of
from scapy_layers.primitives import Reader


class Sort(StrEnum):
    """What a piece is.

    ``header``: first byte of a message. ``extension``: first byte of an extension. ``bits``: another byte of flags.
    ``number``: a VLE integer. ``fixed``: an integer of fixed size, low byte first. ``length``: a VLE integer that
    counts bytes behind it. ``count``: one that counts items. ``rest``: bytes that could not be taken apart.
    """

    HEADER = "header"
    EXTENSION = "extension"
    BITS = "bits"
    NUMBER = "number"
    FIXED = "fixed"
    LENGTH = "length"
    COUNT = "count"
    ZID = "zid"
    TEXT = "text"
    BYTES = "bytes"
    REST = "rest"


class Piece(NamedTuple):
    """Some bytes.

    Attributes:
        raw: The bytes.
        sort: What they are.
        path: Field, ``PUSH.key_suffix``; of extensions and what is inside them ``PUSH.Timestamp.time``.
        inside: Indexes of the lengths that count it, innermost first.
    """

    raw: bytes
    sort: Sort
    path: str
    inside: tuple[int, ...] = ()


class Span(NamedTuple):
    """Some neighbouring pieces: a message with all in it, or an extension.

    Attributes:
        name: What it is called.
        kind: Layer of a message; None for extensions.
        first: Index of its first piece.
        end: Index behind its last one.
        depth: How many messages are around it.
    """

    name: str
    kind: Kind | None
    first: int
    end: int
    depth: int = 0


class Chain(NamedTuple):
    """A place where extensions stand, or may.

    Attributes:
        at: Index of the piece in front of which the first one stands, or would.
        header: Index of the header that announces it; -1 when nothing does.
        filled: There are some.
    """

    at: int
    header: int
    filled: bool


@dataclass(frozen=True)
class Anatomy:
    """Bytes in pieces.

    Attributes:
        pieces: In order; joined they are the bytes. The last one is what could not be taken apart, often nothing.
        messages: All messages, those inside others too.
        extensions: All extensions.
        chains: All places for extensions.
        counts: Of each length: the pieces it counts, as first index and the index behind the last.
        whole: Everything could be taken apart.
    """

    pieces: tuple[Piece, ...]
    messages: tuple[Span, ...]
    extensions: tuple[Span, ...]
    chains: tuple[Chain, ...]
    counts: dict[int, tuple[int, int]]
    whole: bool

    @cached_property
    def raws(self) -> tuple[bytes, ...]:
        """The bytes of the pieces."""
        return tuple(piece.raw for piece in self.pieces)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self.raws)))

    def path_at(self, offset: int) -> str:
        """Returns the path of the piece that a byte belongs to; that of the last one behind the end."""
        return self.pieces[min(bisect_right(self._ends, offset), len(self.pieces) - 1)].path

    def __bytes__(self) -> bytes:
        return b"".join(self.raws)

    @property
    def shape(self) -> str:
        """What it looks like: which fields there are, and the first bytes of messages and extensions."""
        told = []
        for piece in self.pieces:
            match piece.sort:
                case Sort.HEADER | Sort.EXTENSION:
                    told.append(f"{piece.path}={piece.raw.hex()}")
                case Sort.REST if not piece.raw:
                    pass
                case _:
                    told.append(piece.path.rpartition(".")[2])
        return " ".join(told)

    @property
    def name(self) -> str:
        """Kind of message: what the outermost one carries, ``FRAME`` for several, ``batch`` for none."""
        if not self.messages:
            return "batch"
        outer = [span for span in self.messages if span.depth == 0]
        carried = [span for span in self.messages if span.depth == 1 and span.kind is Kind.NETWORK] or outer
        names = {span.name for span in carried}
        return names.pop() if len(names) == 1 else "FRAME"


def anatomy(raw: bytes, kind: Kind | None = None) -> Anatomy:
    """Takes bytes apart.

    Args:
        raw: A batch or datagram without a length in front.
        kind: SCOUTING for datagrams of scouting; None for what travels on a link.
    """
    cutter = _Cutter(raw)
    whole = True
    reader = Reader(raw)
    try:
        while reader.left:
            number = reader.peek() & 0x1F
            described = shapes().get((kind_of(number) if kind is None else kind, number))
            if described is None:
                whole = False
                break
            cutter.message(described, reader, 0)
    except WireError:
        whole = False
    return cutter.anatomy(whole)


class _Cutter:
    """Cuts bytes; what raises leaves the pieces that were cut so far."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._pieces: list[Piece] = []
        self._at = 0
        self._messages: list[Span] = []
        self._extensions: list[Span] = []
        self._chains: list[Chain] = []
        self._inside: tuple[int, ...] = ()
        self._counts: dict[int, tuple[int, int]] = {}

    def anatomy(self, whole: bool) -> Anatomy:
        """Returns what was cut; bytes that are left are one piece."""
        # It is there even when nothing is left: the place behind the last field.
        self._pieces.append(Piece(self._raw[self._at :], Sort.REST, "rest"))
        end = len(self._pieces) - 1
        return Anatomy(
            tuple(self._pieces),
            tuple(span._replace(end=end) if span.end < 0 else span for span in self._messages),
            tuple(self._extensions),
            tuple(self._chains),
            {index: (first, last) for index, (first, last) in self._counts.items() if last >= 0},
            whole,
        )

    def _cut(self, reader: Reader, sort: Sort, path: str) -> int:
        """Makes a piece of what was read since the last one; returns its index."""
        self._pieces.append(Piece(self._raw[self._at : reader.at], sort, path, self._inside))
        self._at = reader.at
        return len(self._pieces) - 1

    def message(self, described: shape.Message, reader: Reader, depth: int) -> None:
        """Cuts a message."""
        first, place = len(self._pieces), len(self._messages)
        self._messages.append(Span(described.name, described.kind, first, -1, depth))
        self._fields(described.fields, described.name, {}, reader, first, depth)
        self._messages[place] = self._messages[place]._replace(end=len(self._pieces))

    def _fields(
        self,
        described: tuple[shape.Shape, ...],
        path: str,
        values: dict[str, int | set[int]],
        reader: Reader,
        header: int,
        depth: int,
    ) -> None:
        for one in described:
            self._field(one, path, values, reader, header, depth)

    def _field(  # noqa: C901, PLR0912  (one match over all kinds of shape)
        self,
        one: shape.Shape,
        path: str,
        values: dict[str, int | set[int]],
        reader: Reader,
        header: int,
        depth: int,
    ) -> None:
        match one:
            case shape.Packed():
                carrier = int(reader.vle()) if one.vle else reader.u8()
                for bits in one.bits:
                    values[bits.name] = carrier >> bits.shift & (1 << bits.size) - 1
                sort = Sort.HEADER if len(self._pieces) == header else Sort.BITS
                self._cut(reader, Sort.NUMBER if one.vle else sort, f"{path}.{_first(one)}")
            case shape.U8():
                values[one.name] = reader.u8()
                self._cut(reader, Sort.BITS, f"{path}.{one.name}")
            case shape.Le():
                values[one.name] = int.from_bytes(reader.take(one.size), "little")
                self._cut(reader, Sort.FIXED, f"{path}.{one.name}")
            case shape.Vle():
                values[one.name] = int(reader.vle())
                self._cut(reader, Sort.NUMBER, f"{path}.{one.name}")
            case shape.Zid():
                if one.length:
                    size = values[one.length]
                    assert isinstance(size, int)
                    reader.take(size + 1)
                    self._cut(reader, Sort.ZID, f"{path}.{one.name}")
                else:
                    self._counted(reader, Sort.ZID, f"{path}.{one.name}")
            case shape.CountedBytes():
                self._counted(reader, Sort.TEXT if one.text else Sort.BYTES, f"{path}.{one.name}")
            case shape.Rest():
                reader.rest()
                self._cut(reader, Sort.TEXT if one.text else Sort.BYTES, f"{path}.{one.name}")
            case shape.When():
                if _holds(one.conditions, values):
                    self._fields(one.fields, path, values, reader, header, depth)
                elif any(isinstance(inner, shape.Chain) for inner in one.fields):
                    self._chains.append(Chain(len(self._pieces), header, filled=False))
            case shape.Many():
                self._many(one, path, values, reader, depth)
            case shape.Region():
                size = int(reader.vle())
                length = self._cut(reader, Sort.LENGTH, f"{path}.{one.name}.length")
                self._within(length, one.fields, f"{path}.{one.name}", reader.region(size), depth, -1)
                reader.at = self._at
            case shape.Chain():
                self._chain(one, path, values, reader, header, depth)
            case shape.Body() | shape.Messages():
                self._inner(one, reader, depth)
            case _:
                assert_never(one)

    def _counted(self, reader: Reader, sort: Sort, path: str) -> None:
        size = int(reader.vle())
        counted = reader.region(size)
        reader.at = counted.at
        length = self._cut(reader, Sort.LENGTH, f"{path}.length")
        reader.take(size)
        self._inside = (length, *self._inside)
        content = self._cut(reader, sort, path)
        self._counts[length] = content, content + 1
        self._inside = self._inside[1:]

    def _many(
        self, one: shape.Many, path: str, values: dict[str, int | set[int]], reader: Reader, depth: int
    ) -> None:
        match one.times:
            case None:
                times = int(reader.vle())
                self._cut(reader, Sort.COUNT, f"{path}.{one.name}.count")
            case int():
                times = one.times
            case _:
                known = values.get(one.times, 0)
                times = known if isinstance(known, int) else 0
        values[one.name] = times
        for index in range(times):
            self._fields(one.item, f"{path}.{one.name}[{index}]", {}, reader, -1, depth)

    def _inner(self, one: shape.Body | shape.Messages, reader: Reader, depth: int) -> None:
        while reader.left:
            number = reader.peek() & 0x1F
            if number not in one.ids:
                break
            self.message(shapes()[one.kind, number], reader, depth + 1)
            if isinstance(one, shape.Body):
                break

    def _chain(
        self,
        one: shape.Chain,
        path: str,
        values: dict[str, int | set[int]],
        reader: Reader,
        header: int,
        depth: int,
    ) -> None:
        seen: set[int] = set()
        values[one.name] = seen
        self._chains.append(Chain(len(self._pieces), header, filled=True))
        more = True
        while more:
            first, head = len(self._pieces), reader.u8()
            known = next(
                (e for e in one.known if e.header == head & 0x7F and _holds(e.conditions, values)), None
            )
            seen.add(head & 0x7F)
            name = known.name if known is not None else f"0x{head & 0x7F:02x}"
            inner = f"{path}.{name}"
            self._cut(reader, Sort.EXTENSION, inner)
            match head >> 5 & 3:
                case Enc.ZBUF if known is not None and not known.bounded:
                    # What the length says is only what the sender reckoned.
                    reader.vle()
                    self._cut(reader, Sort.NUMBER, f"{inner}.length")
                    self._fields(known.fields, inner, {}, reader, -1, depth)
                case Enc.ZBUF:
                    size = int(reader.vle())
                    length = self._cut(reader, Sort.LENGTH, f"{inner}.length")
                    region = reader.region(size)
                    self._within(length, () if known is None else known.fields, inner, region, depth, -1)
                    reader.at = self._at
                case Enc.Z64 if known is not None:
                    self._fields(known.fields, inner, {}, reader, -1, depth)
                case Enc.Z64:
                    reader.vle()
                    self._cut(reader, Sort.NUMBER, f"{inner}.z64")
                case Enc.RESERVED:
                    reader.take(reader.left + 1)
                case _:
                    pass
            self._extensions.append(Span(name, None, first, len(self._pieces), depth))
            more = head & 0x80 != 0

    def _within(
        self, length: int, fields: tuple[shape.Shape, ...], path: str, reader: Reader, depth: int, header: int
    ) -> None:
        """Cuts what a length counts; what does not fit its fields is one piece."""
        first, start = len(self._pieces), self._at
        saved = len(self._messages), len(self._extensions), len(self._chains)
        self._inside = (length, *self._inside)
        inside = self._inside
        try:
            self._fields(fields, path, {}, reader, header, depth)
        except WireError:
            del self._pieces[first:]
            del self._messages[saved[0] :], self._extensions[saved[1] :], self._chains[saved[2] :]
            for index in [index for index in self._counts if index >= first]:
                del self._counts[index]
            self._inside = inside
            self._at = start
        reader.at = reader.end
        if reader.at > self._at or len(self._pieces) == first:
            self._cut(reader, Sort.BYTES, f"{path}.bytes")
        self._inside = inside[1:]
        self._counts[length] = first, len(self._pieces)


def _holds(conditions: shape.Conditions, values: dict[str, int | set[int]]) -> bool:
    for need in conditions:
        value = values.get(need.field)
        if isinstance(need, shape.Carries):
            if not need.holds(value if isinstance(value, set) else ()):
                return False
        elif not need.holds(value if isinstance(value, int) else 0):
            return False
    return True


def _first(packed: shape.Packed) -> str:
    return next((bits.name for bits in packed.bits if not bits.reserved), packed.bits[0].name)
