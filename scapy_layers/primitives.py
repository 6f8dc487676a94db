"""Between bytes and values: VLE integers, ZenohIDs, counted bytes, a bounded reader. No Scapy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from scapy_layers.errors import BadValue, Truncated

VLE_MAX = (1 << 64) - 1
"""Largest value of a VLE integer; it takes nine bytes."""

VLE_BYTES = 9
"""Most bytes of a VLE integer. The ninth carries eight value bits and never continues."""


class WideInt(int):
    """A VLE integer that was, or shall be, written in more bytes than it needs.

    Attributes:
        width: Bytes on the wire, 1 to 9.
    """

    width: int

    def __new__(cls, value: int, width: int) -> Self:
        """Makes an integer that is written in ``width`` bytes.

        Raises:
            ValueError: The value needs more bytes, or the width is not 1 to 9.
        """
        if not vle_size(value) <= width <= VLE_BYTES:
            raise ValueError(f"{value} cannot be written as a VLE integer of {width} bytes")
        self = super().__new__(cls, value)
        self.width = width
        return self

    def __repr__(self) -> str:
        return f"WideInt({int(self)}, width={self.width})"

    __str__ = int.__repr__

    def __reduce__(self) -> tuple[type[Self], tuple[int, int]]:
        return type(self), (int(self), self.width)


_SHORT = 1 << 21
"""Integers below it take at most three bytes."""

_ONE_BYTE = tuple(bytes([value]) for value in range(0x80))


def vle_size(value: int) -> int:
    """Returns how many bytes the shortest VLE form of a value takes.

    Raises:
        ValueError: The value is negative or needs more than 64 bits.
    """
    if not 0 <= value <= VLE_MAX:
        raise ValueError(f"{value} is no 64-bit unsigned integer")
    return min(max(1, (value.bit_length() + 6) // 7), VLE_BYTES)


def write_vle(value: int, width: int | None = None) -> bytes:
    """Returns a VLE integer: seven bits a byte, lowest first, bit 7 set on all but the last.

    Spec: Wire Primitives, Variable-Length Integers. The ninth byte carries eight bits.

    Args:
        value: 0 to 2^64 - 1.
        width: Bytes to use; the shortest form when None, or the width of a WideInt.
    """
    if width is None:
        if type(value) is int and 0 <= value < _SHORT:
            # Most are.
            if value < 0x80:
                return _ONE_BYTE[value]
            if value < 0x4000:
                return bytes((value & 0x7F | 0x80, value >> 7))
            return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
        width = value.width if isinstance(value, WideInt) else vle_size(value)
    out = bytearray()
    for index in range(width):
        last = index == width - 1
        if index == VLE_BYTES - 1:
            out.append(value & 0xFF)
        else:
            out.append(value & 0x7F | (0 if last else 0x80))
        value >>= 7
    return bytes(out)


class Reader:
    """A position in bytes and the place where reading must stop.

    Every read moves the position or raises ``Truncated`` and leaves it; the error has no field name
    yet and the absolute offset.

    Attributes:
        data: All bytes.
        at: Position of the next byte.
        end: Position behind the last byte that may be read.
    """

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """Bytes that may still be read."""
        return self.end - self.at

    def peek(self, what: str = "a byte") -> int:
        """Returns the next byte without moving."""
        if self.at >= self.end:
            raise Truncated("", f"{what} is missing, the bytes end here", self.at)
        return self.data[self.at]

    def u8(self, what: str = "a byte") -> int:
        """Reads one byte."""
        byte = self.peek(what)
        self.at += 1
        return byte

    def take(self, size: int, what: str = "a field") -> bytes:
        """Reads ``size`` bytes."""
        if size > self.left:
            raise Truncated("", f"{what} of {size} bytes, {self.left} left", self.at)
        start, self.at = self.at, self.at + size
        return self.data[start : self.at]

    def rest(self) -> bytes:
        """Reads all that is left."""
        return self.take(self.left)

    def vle(self) -> int:
        """Reads a VLE integer; an over-long form comes back as a WideInt."""
        value = 0
        for index in range(VLE_BYTES):
            if self.at + index >= self.end:
                raise Truncated("", "the bytes end inside a VLE integer", self.at)
            byte = self.data[self.at + index]
            if index == VLE_BYTES - 1:
                value |= byte << 56
            else:
                value |= (byte & 0x7F) << 7 * index
                if byte & 0x80:
                    continue
            width = index + 1
            self.at += width
            return value if width == vle_size(value) else WideInt(value, width)
        raise AssertionError("the ninth byte ends every VLE integer")

    def region(self, size: int, what: str = "a field") -> Reader:
        """Returns a reader of the next ``size`` bytes, which this one passes over."""
        if size > self.left:
            raise Truncated("", f"{what} of {size} bytes, {self.left} left", self.at)
        start, self.at = self.at, self.at + size
        return Reader(self.data, start, self.at)


class Counted(bytes):
    """Bytes behind a count that is wrong or over-long.

    Attributes:
        said: What the count says; the true length when None.
        width: Bytes of the count; the shortest form when None.
    """

    said: int | None
    width: int | None

    def __new__(cls, data: bytes | str, said: int | None = None, width: int | None = None) -> Self:
        """Makes bytes with a count of their own; text is encoded as UTF-8."""
        self = super().__new__(cls, data.encode() if isinstance(data, str) else data)
        self.said = said
        self.width = width
        return self

    def __repr__(self) -> str:
        return f"Counted({bytes(self)!r}, said={self.said}, width={self.width})"

    def __reduce__(self) -> tuple[type[Self], tuple[bytes, int | None, int | None]]:
        return type(self), (bytes(self), self.said, self.width)


class CountedList(list[object]):
    """A list behind a count that is wrong or over-long; attributes as in Counted."""

    def __init__(self, items: list[object], said: int | None = None, width: int | None = None) -> None:
        super().__init__(items)
        self.said = said
        self.width = width

    def copy(self) -> CountedList:
        """Returns a list that lies in the same way."""
        return CountedList(list(self), self.said, self.width)

    def __repr__(self) -> str:
        return f"CountedList({list(self)!r}, said={self.said}, width={self.width})"


def write_count(value: bytes | list[object]) -> bytes:
    """Returns the VLE count in front of bytes or a list: the true one unless the value carries another."""
    said = value.said if isinstance(value, Counted | CountedList) else None
    width = value.width if isinstance(value, Counted | CountedList) else None
    return write_vle(len(value) if said is None else said, width)


def ntp64_ns(time: int) -> int:
    """Returns a time of the wire (seconds since 1970 << 32 | fraction) in ns, rounded down."""
    return (time >> 32) * 10**9 + ((time & 0xFFFFFFFF) * 10**9 >> 32)


def iso(ns: int) -> str:
    """Returns a time in ns since 1970 as ISO 8601, UTC, to the nanosecond."""
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def zid_to_text(wire: bytes) -> str:
    """Returns the text form of a ZenohID: lower-case hexadecimal of the number, no leading zeros.

    The wire carries the number little-endian, so the text is the reverse of the bytes.
    """
    return f"{int.from_bytes(wire, 'little'):x}"


def zid_from_text(text: str) -> bytes:
    """Returns the wire form, little-endian without trailing zero bytes.

    Raises:
        BadValue: Not a hexadecimal number from 1 to 2^128 - 1.
    """
    try:
        number = int(text, 16)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 128:
        raise BadValue("zid", f"{text!r} is no hexadecimal number of 1 to 16 bytes")
    return number.to_bytes((number.bit_length() + 7) // 8, "little")
