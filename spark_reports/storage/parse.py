"""Lines of a ``.jsonl`` file of a run into rows: good ones, those kept apart, blank ones and footers.

``read_line`` says what one line is, and is the definition. ``read_block`` says the same of many lines at once.
``recorded`` reads those of them that look just as they are written. Arrow reads what is left together, and where
anything about it is odd it is cut into smaller blocks until few lines are left for ``read_line``. A line that is kept
apart has its number, the reason and its text; none is dropped.

What Arrow's reader would take although it is no row is kept from it by ``_is_plain``, or found in what comes back:
two rows on a line, a row over two lines, a ``null`` on the top level (which ends the process), bytes that are no
UTF-8, numbers that are not finite.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from spark_reports import rows
from spark_reports.rows import LONGEST_LINE
from spark_reports.storage.recorded import MOST_BYTES, can_read, read_recorded
from spark_reports.storage.tables import EXTRA, arrow_schema
from spark_reports.storage.wanted import Wanted, encodable, wanted

LONGEST_TEXT = 1 << 16
"""Characters of a line that are kept when it is kept apart."""

_SPLIT = 8
"""A block with something odd in it is tried again as so many smaller ones."""

_SINGLY = 16 << 10
"""Fewer bytes than this are read line by line when something odd is among them: Arrow takes as long to begin."""

_FEW = 16
"""One in so many lines may be odd, or else all are read as if they were."""

_LINE_FEED, _OPENS, _CLOSES = b"\n{}"

_LEVELS = 100
"""A value that is nested deeper is kept as text. A VARIANT holds more, but PySpark reads it back by recursion, and how
deep that goes differs from one Python to the next: 247 levels in 3.11, if nothing else is on the stack."""

_INT64 = range(-(1 << 63), 1 << 63)
_KIND_NAMES = {str: "text", int: "whole number", float: "number", bool: "truth value"}


@dataclass(frozen=True, slots=True)
class Apart:
    r"""A line that is no row.

    Attributes:
        line: Its number in the file, from 1.
        reason: Why it is none.
        text: The line without its end, at most LONGEST_TEXT characters; bytes that are no UTF-8 as ``\xNN``.
    """

    line: int
    reason: str
    text: str


@dataclass(slots=True)
class Parsed:
    """What some lines hold.

    Attributes:
        lines: How many there are.
        good: Rows, in the order of the lines, as tables with the columns of ``tables.arrow_schema``; of them some have
            the column ``extra``.
        apart: Lines that are no rows.
        blank: How many hold nothing but blanks.
        footers: How many are footers.
    """

    lines: int = 0
    good: list[pa.Table] = field(default_factory=list)
    apart: list[Apart] = field(default_factory=list)
    blank: int = 0
    footers: int = 0

    @property
    def rows(self) -> int:
        """Returns the number of good rows."""
        return sum(table.num_rows for table in self.good)


# One line ---------------------------------------------------------------------------------------------------


class Other(enum.Enum):
    """What a line is that is no row, and not damaged either."""

    BLANK = enum.auto()
    FOOTER = enum.auto()


class NoRow(ValueError):
    """A line that is no row; the message says why."""


def read_line(line: bytes, want: Wanted, *, ended: bool = True) -> dict[str, Any] | Other:
    """Returns the values of a row, whose unknown keys stand in ``extra`` as a dictionary, or what else the line is.

    Args:
        line: The line without its end.
        want: What the row has to look like.
        ended: A line end follows: the line is whole.

    Raises:
        NoRow: It is neither a row nor a footer nor blank.
    """
    if not line.strip():
        return Other.BLANK
    if len(line) > LONGEST_LINE:
        raise NoRow(too_long())
    try:
        value = json.loads(line.decode(), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise NoRow(f"not UTF-8 (byte {error.start + 1})" if ended else _CUT) from None
    except RecursionError:
        raise NoRow(_NESTED) from None
    except _TwiceError as error:
        raise NoRow(f"{error} stands in it twice") from None
    except ValueError:
        raise NoRow("not JSON" if ended else _CUT) from None
    if not isinstance(value, dict):
        raise NoRow("not an object")
    if value.get("footer") is True:
        return Other.FOOTER
    return _row(value, want)


_CUT = "cut off in the middle of a line"

_NESTED = "nested too deeply"


def too_long() -> str:
    """Returns why a line of more than LONGEST_LINE bytes is no row."""
    return f"longer than {LONGEST_LINE >> 20} MiB"


class _TwiceError(ValueError):
    """A key that an object has twice: which of the values counts nobody can say."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        raise _TwiceError(next(_short(name) for name in counted if counted[name] > 1))
    return made


def _row(value: dict[str, Any], want: Wanted) -> dict[str, Any]:
    version = value.get("rows_version")
    if isinstance(version, int) and version > rows.ROWS_VERSION:
        raise NoRow(f"rows_version {_short(version)} is newer than this reader ({rows.ROWS_VERSION})")
    missing = [name for name in want.kinds if value.get(name) is None and name not in want.later]
    if missing:
        raise NoRow(f"no {', '.join(missing)}")
    row = {}
    for name, kind in want.kinds.items():
        found = value.get(name)
        if found is None:
            row[name] = want.later[name]
        elif name in want.lists:
            if not isinstance(found, list):
                raise NoRow(f"{name} is no list")
            row[name] = [_checked(name, item, kind) for item in found]
        else:
            row[name] = _checked(name, found, kind)
    if row["rows_version"] < 1:
        raise NoRow(f"rows_version {row['rows_version']} was never written")
    row[EXTRA] = {name: value[name] for name in value if name not in want.kinds} or None
    if row[EXTRA] is not None and rows.is_deeper(row[EXTRA], rows.MOST_NESTED):
        raise NoRow(_NESTED)
    return row


def _checked(name: str, value: Any, kind: Any) -> Any:
    """Returns a value of a field as Arrow holds it."""
    taken = (int, float) if kind is float else kind
    if not isinstance(value, taken) or (isinstance(value, bool) and kind is not bool):
        raise NoRow(f"{name} is no {_KIND_NAMES[kind]}")
    if kind is int and value not in _INT64:
        raise NoRow(f"{name} does not fit into 64 bits")
    if kind is float:
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise NoRow(f"{name} is no finite number")
    return encodable(value) if kind is str else value


def _short(value: object) -> str:
    text = str(value)
    return encodable(text if len(text) <= 40 else f"{text[:40]}…")


def variant(value: Any) -> dict[str, bytes]:
    """Returns a JSON value in the two parts of a VARIANT; as its text if it is nested deeper than _LEVELS or does not fit.

    Whole numbers beyond 64 bits may lose digits.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import VariantVal

    made = None
    if not rows.is_deeper(value, _LEVELS):
        with contextlib.suppress(PySparkException, ValueError, ArithmeticError):
            made = VariantVal.parseJson(json.dumps(_clean(value)))
    if made is None:
        made = VariantVal.parseJson(json.dumps(json.dumps(value)))
    return {"value": bytes(made.value), "metadata": bytes(made.metadata)}


def _clean(value: Any) -> Any:
    """Returns a JSON value whose texts can be encoded."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {encodable(name): _clean(item) for name, item in value.items()}
    return value


# Many lines -------------------------------------------------------------------------------------------------


def read_block(data: bytes, table: str, first_line: int, *, last: bool = False) -> Parsed:
    """Returns what whole lines hold.

    Args:
        data: The lines. Each ends with a line feed, but for the last one of a file.
        table: The table of their rows.
        first_line: Number of the first of them in its file, from 1.
        last: They end the file, so that a last line without line feed may have been cut off.
    """
    want = wanted(table)
    parsed = Parsed()
    if not data:
        return parsed
    if b"\r" in data:
        data = data.replace(b"}\r\n", b"}\n")
    at = data.rfind(b"\n", 0, len(data) - 1) + 1
    # Nearly all files end with a footer, and those that do not with a line that was cut off.
    odd = data.startswith(b'{"footer"', at) or (last and not data.endswith(b"\n"))
    end = at if odd else len(data)
    if end:
        _read(data[:end], want, first_line, parsed)
    if odd:
        _read_singly(data[end:], want, first_line + parsed.lines, parsed, ended=data.endswith(b"\n"))
    return parsed


def _read(data: bytes, want: Wanted, first_line: int, parsed: Parsed) -> None:
    """Adds what a block holds."""
    if not can_read(want) or len(data) > MOST_BYTES:
        _read_any(data, want, first_line, parsed)
        return
    found = read_recorded(data, want)
    changes = (np.flatnonzero(np.diff(found.taken)) + 1).tolist()
    if len(changes) > len(found.taken) // _FEW:
        _read_any(data, want, first_line, parsed)
        return
    at = row = 0
    for begin, end in itertools.pairwise([0, *changes, len(found.taken)]):
        count, stop = end - begin, int(found.ends[end - 1])
        if found.taken[begin]:
            parsed.good.append(found.rows.slice(row, count))
            parsed.lines += count
            row += count
        else:
            _read_any(data[at:stop], want, first_line + begin, parsed)
        at = stop


def _read_any(data: bytes, want: Wanted, first_line: int, parsed: Parsed) -> None:
    """Adds what lines hold, however they are written."""
    for piece, count, plain in _runs(data):
        if plain:
            _read_plain(piece, count, want, first_line, parsed)
        else:
            _read_singly(piece, want, first_line, parsed)
        first_line += count


def _read_plain(data: bytes, count: int, want: Wanted, first_line: int, parsed: Parsed) -> None:
    """Adds what lines hold that look like rows, all at once or in smaller blocks."""
    quick = _read_together(data, count, want)
    if quick is not None:
        parsed.good.append(quick)
        parsed.lines += count
        return
    smaller = list(_cut(data, len(data) // _SPLIT)) if len(data) > _SINGLY else []
    if len(smaller) < 2:
        _read_singly(data, want, first_line, parsed)
        return
    for piece in smaller:
        lines = len(_ends(piece))
        _read_plain(piece, lines, want, first_line, parsed)
        first_line += lines


def _ends(data: bytes) -> np.ndarray:
    """Returns where each line ends; faster than anything that ``bytes`` can do."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_FEED)
    return ends if data.endswith(b"\n") else np.append(ends, len(data))


def _runs(data: bytes) -> Iterator[tuple[bytes, int, bool]]:
    """Yields lines that look like rows, and lines that do not, as they follow each other, and how many these are.

    A line that looks like a row begins as an object and ends as one, so that it cannot hold less than one row, nor go
    on in the next line. Few such lines between others are not worth more than the others.
    """
    each = np.frombuffer(data, np.uint8)
    ends = _ends(data)
    starts = np.concatenate(([0], ends[:-1] + 1))
    plain = (each[np.minimum(starts, len(data) - 1)] == _OPENS) & (each[ends - 1] == _CLOSES)
    if plain.all():
        yield data, len(ends), True
        return
    first = np.concatenate(([0], np.flatnonzero(np.diff(plain)) + 1, [len(plain)]))
    for begin, end in itertools.pairwise(first.tolist()):
        piece = data[int(starts[begin]) : int(ends[end - 1]) + 1]
        yield piece, end - begin, bool(plain[begin]) and len(piece) > _SINGLY


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    """Yields blocks of whole lines, of ``size`` bytes or one line more."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + size - 1) + 1 or len(data)
        yield data[start:end]
        start = end


def _read_together(data: bytes, count: int, want: Wanted) -> pa.Table | None:
    """Returns the rows of lines that all look like rows; None when one of them may be something else."""
    if len(data) > LONGEST_LINE:
        return None
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return None
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=want.schema, unexpected_field_behavior="error"),
        )
    except pa.ArrowInvalid:
        return None
    # With each line at least one object, as many rows as lines means one on each.
    if table.num_rows != count or not _is_good(table, want):
        return None
    return _completed(table, want)


def _is_good(table: pa.Table, want: Wanted) -> bool:
    """Whether all values are there and such as ``_row`` takes them; their types are right by now."""
    for name, kind in want.kinds.items():
        column = table.column(name)
        if column.null_count and name not in want.later:
            return False
        if name in want.lists and any(chunk.values.null_count for chunk in column.chunks):
            return False
        if kind is float and not pc.all(pc.is_finite(column), skip_nulls=True).as_py():
            return False
    versions = pc.min_max(table.column("rows_version"))
    return bool(versions["min"].as_py() >= 1 and versions["max"].as_py() <= rows.ROWS_VERSION)


def _completed(table: pa.Table, want: Wanted) -> pa.Table:
    """Puts in what older rows lack."""
    for name, value in want.later.items():
        column = table.column(name)
        if column.null_count:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, want.schema.field(at), pc.fill_null(column, value))
    return table


def _read_singly(data: bytes, want: Wanted, first_line: int, parsed: Parsed, *, ended: bool = True) -> None:
    """Adds what a block holds, line by line."""
    good: list[dict[str, Any]] = []
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=first_line):
        try:
            value = read_line(line, want, ended=ended)
        except NoRow as error:
            parsed.apart.append(Apart(number, str(error), text_of(line)))
            continue
        if value is Other.BLANK:
            parsed.blank += 1
        elif value is Other.FOOTER:
            parsed.footers += 1
        else:
            good.append(value)
    parsed.lines += len(lines)
    parsed.good += _tables(good, want)


def _tables(found: Sequence[dict[str, Any]], want: Wanted) -> Iterable[pa.Table]:
    """Returns rows as a table, which has ``extra`` only if one of the rows has."""
    if not found:
        return []
    extras = [variant(row[EXTRA]) if row[EXTRA] is not None else None for row in found]
    columns = [pa.array([row[column.name] for row in found], column.type) for column in want.schema]
    table = pa.Table.from_arrays(columns, schema=want.schema)
    if any(extra is not None for extra in extras):
        kind = arrow_schema(want.table, extra=True).field(EXTRA)
        table = table.append_column(kind, pa.array(extras, kind.type))
    return [table]


def text_of(line: bytes) -> str:
    """Returns a line that is kept apart as text."""
    return line[: 4 * LONGEST_TEXT].rstrip(b"\r").decode("utf-8", "backslashreplace")[:LONGEST_TEXT]
