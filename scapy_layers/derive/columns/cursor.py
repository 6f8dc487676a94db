"""Where reading stands in many messages at once: one position, one end a row.

A row that cannot be read, or whose bytes are too rare to be worth a wave, is left out: it is marked, stays between
its start and its end, and whoever called reads it again on its own. So nothing here raises for what the bytes are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scapy_layers.derive.columns.units import Bytes, Mask, Places

Ints = NDArray[np.integer]
"""Values that were read, in the narrowest type that was at hand."""

Spanned = tuple[Places, Places]
"""Where bytes begin, and behind the last."""

_CONTINUES, _NINTH = 0x80, 56


class Cursor:
    """Positions in one buffer.

    Attributes:
        data: All bytes; at least one.
        pos: Position of the next byte of each row; the array is replaced, never changed.
        end: Behind the last byte that may be read.
        out: Rows that are left out; None when there are none.
    """

    __slots__ = ("data", "end", "out", "pos")

    def __init__(self, data: Bytes, pos: Places, end: Places, out: Mask | None = None) -> None:
        self.data = data
        self.pos = pos
        self.end = end
        self.out = out

    def __len__(self) -> int:
        return len(self.pos)

    def leave(self, rows: Mask) -> None:
        """Leaves rows out, if any, and keeps their positions within bounds."""
        if rows.any():
            self.out = rows if self.out is None else self.out | rows
            self.pos = np.minimum(self.pos, self.end)

    def pick(self, rows: Places | None) -> Cursor:
        """Returns a cursor of some rows; None for this one."""
        if rows is None:
            return self
        out = None if self.out is None else self.out.take(rows)
        return Cursor(self.data, self.pos.take(rows), self.end.take(rows), out)

    def put(self, rows: Places | None, other: Cursor) -> None:
        """Takes over where a cursor that was picked arrived."""
        if rows is None:
            return
        self.pos = self.pos.copy()
        self.pos[rows] = other.pos
        if other.out is not None:
            self.out = np.zeros(len(self), bool) if self.out is None else self.out.copy()
            self.out[rows] |= other.out

    def peek(self) -> Bytes:
        """Returns the next byte of each row without moving."""
        self.leave(self.pos >= self.end)
        return self.data.take(self.pos, mode="clip")

    def u8(self) -> Bytes:
        """Reads one byte."""
        byte = self.peek()
        self.pos = self.pos + 1
        if self.out is not None:
            self.pos = np.minimum(self.pos, self.end)
        return byte

    def vle(self) -> Ints:
        """Reads a VLE integer; bytes come back when every row has just one."""
        byte = self.u8()
        if byte.max(initial=0) < _CONTINUES:
            return byte
        return self.vle_from(byte, 0)

    def vle_from(self, byte: Bytes, shift: int) -> NDArray[np.uint64]:
        """Returns the value of what begins with some bytes; only rows that go on read on."""
        value = byte.astype(np.uint64)
        if shift == _NINTH:
            return value << np.uint64(shift)
        rows = np.flatnonzero(byte >= _CONTINUES)
        value &= np.uint64(0x7F)
        if shift:
            value <<= np.uint64(shift)
        if len(rows) == len(byte):
            value |= self.vle_from(self.u8(), shift + 7)
        elif len(rows):
            some = self.pick(rows)
            value[rows] |= some.vle_from(some.u8(), shift + 7)
            self.put(rows, some)
        return value

    def take(self, size: Ints, bits: int = 64) -> Spanned:
        """Passes over as many bytes as each row says; rows that say more than it has, or ``bits``, are left out."""
        start = self.pos
        # Signed, so that it can be added to positions; what is negative then is far too much.
        said = size.view(np.int64) if size.dtype == np.uint64 else size
        wrong = said > self.end - start
        if size.dtype == np.uint64:
            wrong |= said < 0
            if bits < 64:
                wrong |= size >> np.uint64(bits) != 0
        elif bits < 8:
            wrong |= size >> bits != 0
        if wrong.any():
            self.leave(wrong)
            start = self.pos
            said = np.where(wrong, 0, said)
        self.pos = start + said
        return start, self.pos

    def rest(self) -> Spanned:
        """Passes over all that is left."""
        start, self.pos = self.pos, self.end
        return start, self.end

    def inside(self, size: Ints, bits: int) -> Cursor:
        """Returns a cursor of the next bytes, as many as each row says; this one passes over them."""
        start, end = self.take(size, bits)
        return Cursor(self.data, start, end, self.out)

    def close(self, inner: Cursor) -> None:
        """Leaves out what a cursor within this one left out, or did not read to its end."""
        if inner.out is not None:
            self.leave(inner.out)
        self.leave(inner.pos != inner.end)
