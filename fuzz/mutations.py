"""Havoc: many small changes to real messages, of bytes and of what the bytes mean.

Changes of pieces come first and keep the lengths around them true, so that what is behind them is still read; then
come changes of bytes, which keep nothing.
"""

# ruff: noqa: ARG001  (all operators of a kind have the same arguments)

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fuzz.anatomy import Anatomy, Piece, Sort, Span
from fuzz.corpus import MARKS, Seed
from scapy_layers.codes import Kind
from scapy_layers.errors import WireError
from scapy_layers.primitives import VLE_BYTES, VLE_MAX, Reader, vle_size, write_vle

STACK = (1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6, 8)
"""How many changes one mutation has; each number as often as it stands here."""

PIECES_SHARE = 0.75
"""Share of the changes that are about pieces."""

LONGEST = 8192
"""Bytes of a mutation at most: repetition repeated grows without end."""

NUMBERS = (
    0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x100, 0x3FFF, 0x4000, 0x7FFF, 0xFFFE, 0xFFFF, 0x10000, 0x1F_FFFF, 0x20_0000,
    0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF, 1 << 32, 1 << 56, (1 << 63) - 1, 1 << 63, VLE_MAX - 1, VLE_MAX,
)  # fmt: skip
"""Numbers at which something may change."""

TOKENS: tuple[bytes, ...] = (
    b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\x80\x00", b"\x80\x80\x04", b"\xff\xff\x03", b"\xff\xff\xff\xff\x0f",
    b"\x80" * 9, b"\xff" * 9, b"\x80" * 8 + b"\x00", b"\x10" * 17, b"\x00" * 16, b"\x00\x80", b"\xff\xff",
    b"\x1f", b"\x3f", b"\x5f", b"\x8f", b"\x30", b"\x42\x05", b"\x25\x00", b"\x1a\x00", b"\x23\x00", b"\x04", b"\x03\x00",
    b"**", b"*/**", b"$*", b"a/$*b/**", b"@", b"@/**", b"//", b"/", b"#", b"?", b"a/*/", b"\xc3\x28", b"\xf0\x9f\xa6\x80",
    b"tcp/127.0.0.1:1", b"tcp/", b"/x", b"tcp/[::1]:65536", b"zenoh/attachment", b";", b"&_time=now()", b"_anyke",
)  # fmt: skip
"""What sits well in a header, a count, a key expression, a selector or a locator."""

TEXTS: tuple[bytes, ...] = (
    b"", b"/", b"//", b"a", b"*", b"**", b"***", b"$*", b"a$*b", b"$*$*", b"**/**", b"*/**/*", b"a/**/b/**/c", b"@",
    b"@a", b"a/@b/**", b"a/", b"/a", b"a//b", b"a#b", b"a?b", b"a\x00b", b"\xff", b"\xc3", b"\xed\xa0\x80",
    b"a" * 255, b"a/" * 100 + b"a", b"**/" * 60 + b"a", b"*/" * 60 + b"*", b"$*a" * 40, b"\xe2\x80\xae" * 20,
)  # fmt: skip
"""Key expressions, right and wrong."""

SIZES = (0, 1, 2, 15, 16, 17, 127, 128, 129, 255, 256, 1000)
"""Sizes at which something may change."""


class Mutation(NamedTuple):
    """A seed with changes.

    Attributes:
        raw: The bytes, stand-ins for live values in them.
        words: What was done, one line.
        done: Kind of each change and the field it is about, in order.
    """

    raw: bytes
    words: str
    done: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Stock:
    """What mutations take from other seeds.

    Attributes:
        seeds: The seeds.
        messages: Network messages by themselves.
        extensions: Extensions, bit 7 of the first byte clear.
    """

    seeds: list[Seed] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    extensions: list[bytes] = field(default_factory=list)
    _known: set[bytes] = field(default_factory=set)

    def add(self, seed: Seed) -> None:
        """Takes in a seed."""
        self.seeds.append(seed)
        cut = seed.anatomy
        if not cut.whole:
            return
        for span in cut.messages:
            if span.kind is Kind.NETWORK:
                self._keep(self.messages, _bytes_of(cut, span))
        for span in cut.extensions:
            raw = _bytes_of(cut, span)
            self._keep(self.extensions, bytes([raw[0] & 0x7F]) + raw[1:])

    def _keep(self, among: list[bytes], raw: bytes) -> None:
        if raw not in self._known and len(raw) <= MOST_TAKEN and len(among) < MOST_STOCK:
            self._known.add(raw)
            among.append(raw)


MOST_TAKEN = 400
"""Bytes of what is taken from another seed."""

MOST_STOCK = 2000
"""So many messages and so many extensions are kept to take from."""


def _bytes_of(cut: Anatomy, span: Span) -> bytes:
    return b"".join(piece.raw for piece in cut.pieces[span.first : span.end])


class Edit:
    """Pieces that are being changed.

    Attributes:
        anatomy: Of the seed.
        raws: The bytes of the pieces now.
        stock: What can be taken from others.
    """

    __slots__ = ("_fixed", "_fronts", "_touched", "anatomy", "raws", "stock")

    def __init__(self, anatomy: Anatomy, stock: Stock) -> None:
        self.anatomy = anatomy
        self.raws = list(anatomy.raws)
        self.stock = stock
        self._touched: set[int] = set()
        self._fixed: set[int] = set()
        self._fronts: dict[int, bytes] = {}

    def set(self, index: int, raw: bytes) -> None:
        """Changes a piece; the lengths around it will stay true."""
        self.raws[index] = raw
        self._touched.update(self.anatomy.pieces[index].inside)

    def put(self, index: int, raw: bytes) -> None:
        """Puts bytes in front of a piece; the lengths around it will stay true."""
        self._fronts[index] = raw + self._fronts.get(index, b"")
        self._touched.update(self.anatomy.pieces[index].inside)

    def lie(self, index: int, raw: bytes) -> None:
        """Changes a length for good."""
        self.set(index, raw)
        self._fixed.add(index)

    def done(self) -> bytes:
        """Returns all bytes, with lengths that are true unless they are lies."""
        raws, fronts = self.raws, self._fronts
        # Inner lengths stand behind those around them.
        for index in sorted(self._touched - self._fixed, reverse=True):
            counted = self.anatomy.counts.get(index)
            if counted is not None:
                first, end = counted
                size = sum(map(len, raws[first:end]))
                size += sum(len(front) for at, front in fronts.items() if first <= at < end)
                raws[index] = write_vle(size)
        for at, front in fronts.items():
            raws[at] = front + raws[at]
        return b"".join(raws)


Operator = Callable[[Edit, random.Random], "tuple[str, str] | None"]
"""Changes pieces; returns the field and what was done to it, None when there is nothing to change."""

ByteOperator = Callable[[bytearray, int, random.Random, Stock], str]
"""Changes bytes, of which there are some, from a place on; returns what was done."""

OPERATORS: dict[str, Operator] = {}
BYTE_OPERATORS: dict[str, ByteOperator] = {}


def operator(name: str) -> Callable[[Operator], Operator]:
    """Registers an operator for pieces."""

    def register(function: Operator) -> Operator:
        OPERATORS[name] = function
        return function

    return register


def byte_operator(name: str) -> Callable[[ByteOperator], ByteOperator]:
    """Registers an operator for bytes."""

    def register(function: ByteOperator) -> ByteOperator:
        BYTE_OPERATORS[name] = function
        return function

    return register


def mutated(seed: Seed, stock: Stock, rng: random.Random) -> Mutation:
    """Returns a seed with one to eight changes; the same generator in the same state makes the same."""
    dice = rng.random
    count = STACK[int(dice() * len(STACK))]
    pieces = int(count * PIECES_SHARE + dice())
    words: list[str] = []
    done: list[tuple[str, str]] = []
    raw = seed.raw
    if pieces:
        edit = Edit(seed.anatomy, stock)
        for _ in range(pieces):
            name = _PIECE_NAMES[int(dice() * len(_PIECE_NAMES))]
            found = OPERATORS[name](edit, rng)
            if found is not None:
                done.append((name, found[0]))
                words.append(f"{name} {found[0]} {found[1]}")
        raw = edit.done()
    if count > len(done):
        data = bytearray(raw[:LONGEST])
        for _ in range(count - len(done)):
            if not data:
                break
            name = _BYTE_NAMES[int(dice() * len(_BYTE_NAMES))]
            at = int(dice() * len(data))
            words.append(f"{name} {BYTE_OPERATORS[name](data, at, rng, stock)}")
            # In front of changes of pieces it would be exact; near enough to tell one cause from another.
            done.append((name, seed.anatomy.path_at(at)))
        raw = bytes(data)
    return Mutation(raw[:LONGEST], "; ".join(words), tuple(done))


# Pieces ----------------------------------------------------------------------------------------------


def _any(things: Sequence[bytes], rng: random.Random) -> bytes:
    return things[int(rng.random() * len(things))]


@operator("value")
def _value(edit: Edit, rng: random.Random) -> tuple[str, str] | None:
    """Another value in a field, at an edge of what it can hold."""
    pieces = edit.anatomy.pieces
    index = int(rng.random() * len(pieces))
    piece = pieces[index]
    raw = edit.raws[index]
    if raw in _STAND_INS and rng.random() < KEEP_LIVE:
        # Without the number that is due nothing behind it is looked at.
        index = int(rng.random() * len(pieces))
        piece, raw = pieces[index], edit.raws[index]
    now = _EDITS[piece.sort](raw, rng)
    if piece.sort is Sort.LENGTH:
        edit.lie(index, now)
    else:
        edit.set(index, now)
    return piece.path, f"to {now[:8].hex()}{'..' if len(now) > 8 else ''}"


KEEP_LIVE = 0.8
"""So often a live value that was chosen is left alone."""

_STAND_INS = frozenset(MARKS.values())


_WRITTEN = tuple(write_vle(number) for number in NUMBERS)


def _number(raw: bytes, rng: random.Random) -> bytes:
    chance = rng.random()
    if chance < 0.5:
        return _any(_WRITTEN, rng)
    try:
        value = int(Reader(raw).vle())
    except WireError:
        return write_vle(0)
    if chance < 0.75:
        return write_vle(max(0, min(VLE_MAX, value + int(rng.random() * 9) - 4)))
    if chance < 0.9:
        return write_vle(value, int(vle_size(value) + rng.random() * (10 - vle_size(value))))
    return write_vle(value ^ 1 << int(rng.random() * 64))


def _byte(raw: bytes, rng: random.Random) -> bytes:
    if not raw:
        return b"\x00"
    return bytes([raw[0] ^ 1 << int(rng.random() * 8)]) + raw[1:]


def _fixed(raw: bytes, rng: random.Random) -> bytes:
    size = len(raw)
    limit = 1 << 8 * size
    return (NUMBERS[int(rng.random() * len(NUMBERS))] % limit).to_bytes(size, "little")


def _blob(raw: bytes, rng: random.Random) -> bytes:
    chance = rng.random()
    if chance < 0.3:
        return rng.randbytes(SIZES[int(rng.random() * len(SIZES))])
    if chance < 0.5:
        return raw[: int(rng.random() * (len(raw) + 1))]
    if chance < 0.7:
        return (raw * 4)[:MOST_TAKEN] or b"\x00"
    return raw + _any(TOKENS, rng)


def _text(raw: bytes, rng: random.Random) -> bytes:
    chance = rng.random()
    if chance < 0.5:
        return _any(TEXTS, rng)
    if chance < 0.8:
        at = int(rng.random() * (len(raw) + 1))
        return raw[:at] + _any(TEXTS, rng) + raw[at:]
    return _blob(raw, rng)


def _zid(raw: bytes, rng: random.Random) -> bytes:
    size = int(rng.random() * 19)
    return bytes(size) if rng.random() < 0.3 else rng.randbytes(size) if rng.random() < 0.6 else raw + b"\x00"


_EDITS: dict[Sort, Callable[[bytes, random.Random], bytes]] = {
    Sort.HEADER: _byte,
    Sort.EXTENSION: _byte,
    Sort.BITS: _byte,
    Sort.NUMBER: _number,
    Sort.LENGTH: _number,
    Sort.COUNT: _number,
    Sort.FIXED: _fixed,
    Sort.ZID: _zid,
    Sort.TEXT: _text,
    Sort.BYTES: _blob,
    Sort.REST: _blob,
}


@operator("drop")
def _drop(edit: Edit, rng: random.Random) -> tuple[str, str] | None:
    """A field, an extension or a message is not there, what announces it is."""
    spans = (*edit.anatomy.extensions, *edit.anatomy.messages)
    if rng.random() < 0.5 or not spans:
        index = int(rng.random() * len(edit.raws))
        edit.set(index, b"")
        return edit.anatomy.pieces[index].path, "left out"
    span = spans[int(rng.random() * len(spans))]
    for index in range(span.first, span.end):
        edit.set(index, b"")
    return span.name, "left out"


@operator("twice")
def _twice(edit: Edit, rng: random.Random) -> tuple[str, str] | None:
    """A message or an extension more than once."""
    spans = edit.anatomy.messages if rng.random() < 0.5 else edit.anatomy.extensions
    if not spans:
        return None
    span = spans[int(rng.random() * len(spans))]
    raws = edit.raws
    raw = b"".join(raws[span.first : span.end])
    if not raw:
        return None
    if span.kind is None:
        # All but the last one say that another one follows.
        raw = bytes([raw[0] | 0x80]) + raw[1:]
    times = (1, 1, 2, 7, 40)[int(rng.random() * 5)]
    times = min(times, 1 + LONGEST // 2 // len(raw))
    edit.put(span.first, raw * times)
    return span.name, f"{times} times more"


@operator("transplant")
def _transplant(edit: Edit, rng: random.Random) -> tuple[str, str] | None:
    """An extension of another message."""
    chains, stock = edit.anatomy.chains, edit.stock.extensions
    if not chains or not stock:
        return None
    chain = chains[int(rng.random() * len(chains))]
    raw = _any(stock, rng)
    raws = edit.raws
    if chain.filled or chain.header < 0:
        raw = bytes([raw[0] | 0x80]) + raw[1:]
    elif head := raws[chain.header]:
        edit.set(chain.header, head[:-1] + bytes([head[-1] | 0x80]))
    edit.put(chain.at, raw)
    return edit.anatomy.pieces[chain.at].path, f"behind the extension {raw[:8].hex()}"


@operator("insert")
def _insert(edit: Edit, rng: random.Random) -> tuple[str, str] | None:
    """A network message of another batch in front of one of this."""
    stock = edit.stock.messages
    places = [span for span in edit.anatomy.messages if span.kind is Kind.NETWORK]
    if not places or not stock:
        return None
    span = places[int(rng.random() * len(places))]
    raw = _any(stock, rng)
    edit.put(span.first, raw)
    return span.name, f"behind {raw[:8].hex()}"


@operator("swap")
def _swap(edit: Edit, rng: random.Random) -> tuple[str, str] | None:
    """Two pieces of one sort change places."""
    pieces = edit.anatomy.pieces
    first = int(rng.random() * len(pieces))
    same = [
        index for index, piece in enumerate(pieces) if piece.sort is pieces[first].sort and index != first
    ]
    if not same:
        return None
    second = same[int(rng.random() * len(same))]
    one, other = edit.raws[first], edit.raws[second]
    edit.set(first, other)
    edit.set(second, one)
    return pieces[first].path, f"with {pieces[second].path}"


@operator("borrow")
def _borrow(edit: Edit, rng: random.Random) -> tuple[str, str] | None:
    """The value of a field from the same sort of field in another seed."""
    seeds = edit.stock.seeds
    index = int(rng.random() * len(edit.raws))
    piece = edit.anatomy.pieces[index]
    other = seeds[int(rng.random() * len(seeds))].anatomy.pieces if seeds else ()
    same: list[Piece] = [one for one in other if one.sort is piece.sort and one.raw != piece.raw]
    if not same:
        return None
    raw = same[int(rng.random() * len(same))].raw
    if piece.sort is Sort.LENGTH:
        edit.lie(index, raw)
    else:
        edit.set(index, raw)
    return piece.path, f"to {raw[:8].hex()}"


# Bytes -----------------------------------------------------------------------------------------------


@byte_operator("flip")
def _flip(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    bit = int(rng.random() * 8)
    data[at] ^= 1 << bit
    return f"bit {bit} of byte {at}"


@byte_operator("byte")
def _set_byte(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    data[at] = (0, 0xFF, 0x80, 0x7F, 1, int(rng.random() * 256))[int(rng.random() * 6)]
    return f"{at} to {data[at]:02x}"


@byte_operator("token")
def _token(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    token = _any(TOKENS, rng)
    over = rng.random() < 0.5
    data[at : at + len(token) if over else at] = token
    return f"{token.hex()} {'over' if over else 'at'} byte {at}"


@byte_operator("delete")
def _delete(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    size = _block(data, rng)
    del data[at : at + size]
    return f"{size} bytes at {at}"


@byte_operator("repeat")
def _repeat(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    size = _block(data, rng)
    times = (1, 1, 2, 3, 50)[int(rng.random() * 5)]
    piece = bytes(data[at : at + size])
    if len(data) + len(piece) * times <= LONGEST:
        data[at:at] = piece * times
    return f"{size} bytes at {at}, {times} times"


@byte_operator("exchange")
def _exchange(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    first, second = sorted((at, int(rng.random() * len(data))))
    size = min(_block(data, rng), second - first, len(data) - second)
    ends = first + size, second + size
    data[first : ends[0]], data[second : ends[1]] = data[second : ends[1]], data[first : ends[0]]
    return f"{size} bytes at {first} and {second}"


@byte_operator("cut")
def _cut(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    del data[at:]
    return f"to {at} bytes"


@byte_operator("splice")
def _splice(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    if not stock.seeds:
        return "nothing"
    other = stock.seeds[int(rng.random() * len(stock.seeds))].raw
    start = int(rng.random() * len(other))
    data[at:] = other[start:]
    return f"from byte {at} on with another seed"


@byte_operator("append")
def _append(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    other = stock.seeds[int(rng.random() * len(stock.seeds))].raw if stock.seeds else rng.randbytes(8)
    data += other
    return f"{len(other)} bytes of another seed"


@byte_operator("number")
def _over_number(data: bytearray, at: int, rng: random.Random, stock: Stock) -> str:
    try:
        reader = Reader(bytes(data[at : at + VLE_BYTES]))
        reader.vle()
        end = at + reader.at
    except WireError:
        end = at + 1
    now = _number(bytes(data[at:end]), rng)
    data[at:end] = now
    return f"at byte {at} to {now.hex()}"


def _block(data: bytearray, rng: random.Random) -> int:
    return min(len(data), (1, 1, 2, 3, 4, 8, 16, 32, 100)[int(rng.random() * 9)])


_PIECE_NAMES = ("value", "value", "value", "value", *OPERATORS)
_BYTE_NAMES = tuple(BYTE_OPERATORS)
