"""Lines that look just as ``rows.to_json`` writes them, many of them at once.

Such a line has its fields in the order of the row type and nothing between them but a comma; only fields that older
rows lack may be missing. So the quotes say where every field is, and each byte is either part of a value or known
beforehand. These are all compared, field by field for all lines at once. A line that differs in one of them, or has a
value that is not plainly of its type, is left to ``parse``, which says what it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports import rows
from spark_reports.rows import LONGEST_LINE
from spark_reports.storage.wanted import Wanted, encodable

_LINE_FEED, _SPACE, _QUOTE, _BACKSLASH, _OPENS, _CLOSES, _LAST_ASCII = b'\n "\\{}\x7f'
_POINT, _POWER, _MINUS, _ZERO = b".e-0"

MOST_BYTES = 4 << 20
"""Bytes that are taken at once; if these were all quotes, a hundred megabytes would say where they are."""

_WORD = 8
"""Bytes that are compared, or made a number, at once."""

_FRONT, _BACK = b" " * (3 * _WORD), b" " * 64
"""In front of the lines and behind them, so that whatever is looked up near a line lies in the block."""

_FLOAT = r"^-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?$"
"""Numbers of JSON of which none is too large or too small for a float."""

_MOST_DIGITS = 19
"""A whole number of more digits does not fit into 64 bits; one of as many may."""

_LEAST = np.array([0, 0, *(10**digits for digits in range(1, _MOST_DIGITS))], np.uint64)
"""The least number that has no digit, one digit, two digits ..."""

_LAST_BYTES = np.array([(1 << 64) - (1 << 8 * (_WORD - count)) for count in range(_WORD + 1)], np.uint64)
"""Which bits of a word are those of its last none, one, two ... bytes."""

_ZEROS, _ABOVE_NINE, _TOPS = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x76, 0x80))
_PAIRS = np.uint64(0x000000FF000000FF)
_TOO_LARGE = np.uint64(1 << 63)

_SHORT = 15
"""A float holds each number of so many digits exactly ..."""

_TENS = 10.0 ** np.arange(23)
"""... and these powers of ten. So one divided by the other is rounded once, as the number has to be that they are."""

_EXPONENT = 4
"""Bytes of ``e-05``, which ends what is less than 0.0001."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was found in lines.

    Attributes:
        rows: The rows of those that were taken, in their order.
        taken: For each line whether it was.
        ends: Where each line ends, its line feed included.
    """

    rows: pa.Table
    taken: np.ndarray
    ends: np.ndarray


def can_read(want: Wanted) -> bool:
    """Whether the rows of a table hold texts and numbers only, and older ones all that have a fraction."""
    kinds = {str, int} | ({float} - {want.kinds[name] for name in want.later})
    return not want.lists and set(want.kinds.values()) <= kinds


def read_recorded(data: bytes, want: Wanted) -> Recorded:
    """Returns what lines hold that look just as they are written.

    Args:
        data: Whole lines, at least one, and at most MOST_BYTES.
        want: What their rows look like: such that ``can_read`` says yes.
    """
    lines = _Lines(data, want)
    lines.walk(want)
    numbers = lines.numbers()
    versions = numbers["rows_version"]
    lines.good &= (versions >= 1) & (versions <= rows.ROWS_VERSION)
    # Only now it is known which lines are taken.
    taken = np.flatnonzero(lines.good)
    columns = lines.texts(taken) | {name: pa.array(values[taken]) for name, values in numbers.items()}
    return Recorded(
        pa.Table.from_arrays([columns[name] for name in want.kinds], schema=want.schema),
        lines.good,
        np.minimum(lines.ends - len(_FRONT) + 1, len(data)),
    )


class _Lines:
    """A block of lines, and the quotes that begin and end a text in them.

    Attributes:
        ends: Where each line ends; the block has something in front of the first.
        good: Whether each line may still be taken.
    """

    def __init__(self, data: bytes, want: Wanted) -> None:
        # What stands for missing values is part of the block, so that these are looked up like any others.
        self._spare: dict[str, tuple[int, int]] = {}
        spare = b'""'
        for name, value in want.later.items():
            text = json.dumps(value).encode()
            begin = len(_FRONT) + len(data) + len(spare)
            self._spare[name] = begin, begin + len(text)
            spare += text
        self._block = b"".join((_FRONT, data, spare, _BACK))
        self._each = each = np.frombuffer(self._block, np.uint8)
        controls = np.flatnonzero(each < _SPACE)
        feeds = each[controls] == _LINE_FEED
        self.ends = controls[feeds]
        if not data.endswith(b"\n"):
            self.ends = np.append(self.ends, len(_FRONT) + len(data))
        self._starts = np.concatenate(([len(_FRONT)], self.ends[:-1] + 1))
        self.good = (each[self._starts] == _OPENS) & (each[self.ends - 1] == _CLOSES)
        self.good &= self.ends - self._starts <= LONGEST_LINE
        self.good[self._lines_of(controls[~feeds])] = False
        if not data.isascii():
            self._leave_out_other_bytes()
        # There are twice as many bytes of these as of lines; half as wide, more of both stay in the caches.
        self._quotes = np.flatnonzero(each == _QUOTE).astype(np.int32)
        backslashes = np.flatnonzero(each == _BACKSLASH) if b"\\" in data else self._quotes[:0]
        self._leave_out_escaped(backslashes)
        self._count()
        # Without these, every second quote ends a text, in the whole block.
        odd = (self._last - self._first) % 2 == 1
        if odd.any():
            self.good &= ~odd
            lost = [np.arange(self._first[line], self._last[line]) for line in np.flatnonzero(odd)]
            self._quotes = np.delete(self._quotes, np.concatenate(lost))
            self._count()
        self._unescaped = self._unescape(backslashes)
        # Where values are: of a text the number of its first quote, of a number its begin and its end.
        self._texts: dict[str, np.ndarray] = {}
        self._numbers: dict[type, dict[str, tuple[np.ndarray, np.ndarray]]] = {int: {}, float: {}}

    def _lines_of(self, places: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.ends, places)

    def _count(self) -> None:
        """Finds for each line the number of its first quote and of the one behind its last."""
        self._first = self._quotes_before(self._starts)
        self._last = np.append(self._first[1:], self._quotes_before(self.ends[-1:]))

    def _quotes_before(self, places: np.ndarray) -> np.ndarray:
        # With places of another type all quotes would be converted to that.
        return np.asarray(np.searchsorted(self._quotes, places.astype(self._quotes.dtype)))

    def _leave_out_other_bytes(self) -> None:
        """Leaves out lines that are no UTF-8."""
        try:
            self._block.decode()
        except UnicodeDecodeError:
            others = self._lines_of(np.flatnonzero(self._each > _LAST_ASCII))
            for line in np.unique(others).tolist():
                try:
                    self._block[self._starts[line] : self.ends[line]].decode()
                except UnicodeDecodeError:
                    self.good[line] = False

    def _leave_out_escaped(self, backslashes: np.ndarray) -> None:
        """Leaves out quotes that are part of a text: those behind an odd number of backslashes."""
        if not len(backslashes):
            return
        number = np.arange(len(backslashes))
        begins = np.diff(backslashes, prepend=-2) != 1
        within = number - np.maximum.accumulate(np.where(begins, number, 0))
        escaped = backslashes[within % 2 == 0] + 1
        escaped = escaped[self._each[escaped] == _QUOTE]
        self._quotes = np.delete(self._quotes, np.searchsorted(self._quotes, escaped))

    def _unescape(self, backslashes: np.ndarray) -> list[tuple[int, int, str]]:
        """Returns texts with a backslash: the line, the number of the first quote, what they say."""
        made = []
        lines = self._lines_of(backslashes)
        quotes = np.searchsorted(self._quotes, backslashes) - 1
        within = quotes - self._first[lines]
        mine = self.good[lines] & (within >= 0) & (within % 2 == 0)
        for quote, line in dict(zip(quotes[mine].tolist(), lines[mine].tolist(), strict=True)).items():
            text = self._block[self._quotes[quote] : self._quotes[quote + 1] + 1]
            try:
                made.append((line, quote, encodable(json.loads(text.decode()))))
            except ValueError:
                self.good[line] = False
        return made

    def walk(self, want: Wanted) -> None:
        """Finds where the values are, and takes lines out of ``good`` that have something else between them."""
        # In each line where that ends which was read, and the number of the next quote.
        behind, quote = self._starts, self._first
        for number, (name, kind) in enumerate(want.kinds.items()):
            literal = f'{"," if number else "{"}"{name}":'.encode() + b'"' * (kind is str)
            there = self._stands(behind, literal)
            value = quote + 2
            if kind is str:
                end, after = self._quote(value + 1) + 1, value + 2
            elif number < len(want.kinds) - 1:
                end, after = self._quote(value) - 1, value
            else:
                end, after = self.ends - 1, value
            begin, last = behind + len(literal), end
            if name not in want.later:
                self.good &= there
            elif not there.all():
                spare_begin, spare_end = self._spare[name]
                value = np.where(there, value, self._quotes_before(np.array(spare_begin)))
                begin, last = np.where(there, begin, spare_begin), np.where(there, last, spare_end)
                end, after = np.where(there, end, behind), np.where(there, after, quote)
            if kind is str:
                self._texts[name] = value
            else:
                self._numbers[kind][name] = begin, last
            behind, quote = end, after
        self.good &= (behind == self.ends - 1) & (quote == self._last)

    def _quote(self, numbers: np.ndarray) -> np.ndarray:
        """Returns where quotes stand; of numbers that are too high, where the last one does."""
        return self._quotes.take(numbers, mode="clip")

    def _stands(self, places: np.ndarray, literal: bytes) -> np.ndarray:
        """Returns whether something stands at each of some places."""
        # Words are compared several times faster than texts.
        count = -(-len(literal) // _WORD)
        found = self._from_each(f"V{_WORD * count}")[places].view("<u8").reshape(-1, count)
        same = np.ones(len(places), np.bool_)
        for at in range(count):
            part = literal[_WORD * at : _WORD * (at + 1)]
            words = found[:, at]
            if len(part) < _WORD:
                words = words & np.uint64((1 << 8 * len(part)) - 1)
            same &= words == np.uint64(int.from_bytes(part, "little"))
        return same

    def _from_each(self, kind: str) -> np.ndarray:
        """Returns what begins at each byte of the block, with so many bytes as a type of numpy has."""
        count = len(self._block) - np.dtype(kind).itemsize + 1
        return np.ndarray((count,), kind, self._block, strides=(1,))

    def numbers(self) -> dict[str, np.ndarray]:
        """Returns the numbers of all fields, and takes lines out of ``good`` that have something else there."""
        found: dict[str, np.ndarray] = {}
        whole = self._numbers[int]
        # Together, since a call of numpy costs as much as a hundred numbers.
        begin, end = (np.concatenate(places) for places in zip(*whole.values(), strict=True))
        values, fit = (each.reshape(len(whole), -1) for each in self._whole(begin, end))
        self.good &= fit.all(axis=0)
        found |= dict(zip(whole, values, strict=True))
        for name, (begin, end) in self._numbers[float].items():
            found[name], fit = self._floats(begin, end)
            self.good &= fit
        return found

    def _whole(self, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns whole numbers without a sign, and whether something is one."""
        value, fit = self._digits(begin, end)
        fit &= (value >= _LEAST.take(end - begin, mode="clip")) & (value < _TOO_LARGE)
        return value.view(np.int64), fit

    def _digits(self, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Same, with any zeros in front."""
        digits = end - begin
        fit = (digits > 0) & (digits <= _MOST_DIGITS)
        value = np.zeros(len(begin), np.uint64)
        words = self._from_each("<u8")
        for done in range(0, _MOST_DIGITS, _WORD):
            rest = digits - done
            some = np.flatnonzero(rest > 0) if done else slice(None)
            # Digits of a word, of which the last is the highest byte; those in front of the number are 0.
            word = words[end[some] - (done + _WORD)] ^ _ZEROS
            word &= _LAST_BYTES.take(rest[some], mode="clip")
            fit[some] &= ((word + _ABOVE_NINE) | word) & _TOPS == 0
            # Two, four, then eight digits next to each other become one number.
            word = word * np.uint64(10) + (word >> np.uint64(8))
            high = ((word >> np.uint64(16)) & _PAIRS) * np.uint64(1 + (10000 << 32))
            word = (word & _PAIRS) * np.uint64(100 + (1000000 << 32)) + high
            value[some] += (word >> np.uint64(32)) * np.uint64(10**done)
        return value, fit

    def _floats(self, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # Of other lines nobody knows where they begin and end.
        usable = self.good & (begin < end)
        value, fit = self._fractions(begin, np.where(usable, end, begin))
        rest = np.flatnonzero(usable & ~fit)
        if len(rest):
            texts = self._between(np.column_stack((begin[rest], end[rest])).ravel())
            texts = texts.take(pa.array(np.arange(0, len(texts), 2)))
            plain = pc.match_substring_regex(texts, _FLOAT)
            fit[rest] = plain.to_numpy(zero_copy_only=False)
            value[rest[fit[rest]]] = texts.filter(plain).cast(pa.float64()).to_numpy()
        return value, fit

    def _fractions(self, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns short numbers without a sign, ``0.25``, ``7`` or ``6.2e-05``, and whether something is one."""
        tail = self._up_to(end, _EXPONENT)
        tens, ones = (tail[:, 2:] ^ _ZERO).T
        small = (tail[:, 0] == _POWER) & (tail[:, 1] == _MINUS) & (tens <= 9) & (ones <= 9)
        stop = end - _EXPONENT * small
        points = self._up_to(stop, _SHORT)[:, ::-1] == _POINT
        digits = np.argmax(points, axis=1)
        broken = points.any(axis=1)
        whole, fit = self._whole(begin, stop - (digits + 1) * broken)
        part, fits = self._digits(stop - digits, stop)
        power = digits + np.where(small, 10 * tens + ones, 0)
        fit &= (fits | ~broken) & (stop - begin <= _SHORT) & (power < len(_TENS))
        value = (whole * _TENS[digits] + part) / _TENS.take(power, mode="clip")
        return value, fit

    def _up_to(self, places: np.ndarray, size: int) -> np.ndarray:
        """Returns so many bytes in front of each place."""
        found: np.ndarray = self._from_each(f"V{size}")[places - size]
        return found.view(np.uint8).reshape(-1, size)

    def _between(self, places: np.ndarray) -> pa.StringArray:
        """Returns what lies between each place and the next."""
        offsets = pa.py_buffer(places.astype(np.int32))
        return pa.StringArray.from_buffers(len(places) - 1, offsets, pa.py_buffer(self._block))

    def texts(self, taken: np.ndarray) -> dict[str, pa.Array]:
        """Returns the texts of all fields in some lines."""
        quotes = np.stack([numbers[taken] for numbers in self._texts.values()])
        # A text has the number of its first quote, and begins behind it.
        places = self._quotes.copy()
        places[::2] += 1
        made = self._between(places).take(pa.array(quotes.ravel()))
        said: dict[int, str] = {}
        for line, quote, text in self._unescaped:
            row = int(np.searchsorted(taken, line))
            if self.good[line]:
                (column,) = np.flatnonzero(quotes[:, row] == quote).tolist()
                said[column * len(taken) + row] = text
        if said:
            mask = np.zeros(len(made), np.bool_)
            mask[list(said)] = True
            made = pc.replace_with_mask(made, pa.array(mask), pa.array([said[at] for at in sorted(said)]))
        return {name: made.slice(number * len(taken), len(taken)) for number, name in enumerate(self._texts)}
