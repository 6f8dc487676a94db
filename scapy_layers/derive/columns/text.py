"""Bytes of a column in one piece, and whether they are text."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scapy_layers.derive.columns.column import Spans
from scapy_layers.derive.columns.cursor import Ints
from scapy_layers.derive.columns.units import Bytes, Mask, Places

_ASCII = 0x80


def as_array(values: Ints, kind: pa.DataType) -> pa.Array:
    """Returns numbers as an Arrow array of the same type, without a copy; ``pa.array`` would import pandas."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


@cache
def _even(size: int) -> pa.Array:
    return as_array(np.arange(0, 2 * size, 2, dtype=np.int32), pa.int32())


def even(count: int) -> pa.Array:
    """Returns the first even numbers."""
    return _even(max(1024, 1 << (count - 1).bit_length())).slice(0, count)


def gather(data: Bytes, spans: Spans) -> pa.Array:
    """Returns the bytes of each row as Arrow binary; rows without any are empty.

    The buffer as a column whose values are the spans and what lies between them: of that the spans are taken, which
    copies whole values and no bytes one by one.
    """
    if spans.ready is None:
        count = len(spans.start)
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2] = spans.start
        offsets[1::2] = spans.end
        offsets[-1] = len(data)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        both = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
        spans.ready = both.take(even(count))
    return spans.ready


def no_text(data: Bytes, spans: Spans) -> Places:
    """Returns the rows that are no UTF-8. Only those with bytes that are no ASCII are looked at one by one."""
    taken = gather(data, spans)
    _, offsets, values = taken.buffers()
    ends = np.frombuffer(offsets, np.int32)[taken.offset :][: len(taken) + 1]
    joined = np.frombuffer(values or b"", np.uint8)[: ends[-1]]
    if joined.max(initial=0) < _ASCII:
        return np.empty(0, np.int64)
    rows = np.unique(np.searchsorted(ends, np.flatnonzero(joined >= _ASCII), side="right") - 1)
    wrong = [row for row in rows.tolist() if not _is_text(joined[ends[row] : ends[row + 1]].tobytes())]
    return np.array(wrong, np.int64)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def no_locator(data: Bytes, spans: Spans) -> Mask:
    """Tells which rows are not ``proto/address`` without ``#``."""
    taken = gather(data, spans)
    right = pc.and_not(pc.match_substring(taken, "/"), pc.match_substring(taken, "#"))
    wrong: Mask = ~right.to_numpy(zero_copy_only=False)
    return wrong
