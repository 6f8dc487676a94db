"""Columns to Arrow: numbers without a copy, bytes by whole values, what no row has for nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from scapy_layers.derive.columns.column import Column, Form, Lists, Numbers, Spans, Struct
from scapy_layers.derive.columns.text import gather
from scapy_layers.derive.columns.units import Bytes, Mask
from scapy_layers.primitives import zid_to_text


def to_arrow(column: Column | None, kind: pa.DataType, count: int, data: Bytes) -> pa.Array:
    """Returns a column as an Arrow array of ``count`` rows.

    Args:
        column: The column; None when no row has a value.
        kind: What it becomes; fields that the column lacks are null.
        count: How many rows.
        data: The buffer that spans lie in.
    """
    if column is None or not count:
        return nulls(kind, count)
    valid, missing = _valid(column.present)
    match column:
        case Numbers():
            values = np.ascontiguousarray(column.values, kind.to_pandas_dtype())
            return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(values)], missing)
        case Spans():
            taken = gather(data, column)
            if column.form is Form.ZID:
                taken = _zids(taken)
            return pa.Array.from_buffers(kind, count, [valid, *taken.buffers()[1:]], missing, taken.offset)
        case Struct() if pa.types.is_boolean(kind):
            true = pa.py_buffer(np.full((count + 7) // 8, 0xFF, np.uint8))
            return pa.Array.from_buffers(kind, count, [valid, true], missing)
        case Struct():
            children = [to_arrow(column.children.get(child.name), child.type, count, data) for child in kind]
            return pa.Array.from_buffers(kind, count, [valid], missing, children=children)
        case Lists():
            offsets = np.zeros(count + 1, np.int32)
            np.cumsum(column.counts, out=offsets[1:])
            items = to_arrow(column.items, kind.value_type, int(offsets[-1]), data)
            return pa.Array.from_buffers(
                kind, count, [valid, pa.py_buffer(offsets)], missing, children=[items]
            )


def _valid(present: Mask | None) -> tuple[pa.Buffer | None, int]:
    """Returns the bits that tell which rows have a value, and how many have none."""
    if present is None:
        return None, 0
    missing = len(present) - int(np.count_nonzero(present))
    return (pa.py_buffer(np.packbits(present, bitorder="little")), missing) if missing else (None, 0)


@cache
def _nulls(kind: pa.DataType, size: int) -> pa.Array:
    """Returns a column without values; all of them share their zeros, so that they take no memory."""
    zeros = _zeros(size)
    if pa.types.is_struct(kind):
        return pa.Array.from_buffers(
            kind, size, [zeros], size, children=[_nulls(child.type, size) for child in kind]
        )
    if pa.types.is_list(kind):
        return pa.Array.from_buffers(
            kind, size, [zeros, zeros], size, children=[pa.nulls(0, kind.value_type)]
        )
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return pa.Array.from_buffers(kind, size, [zeros, zeros, pa.py_buffer(b"")], size)
    return pa.Array.from_buffers(kind, size, [zeros, zeros], size)


@cache
def _zeros(size: int) -> pa.Buffer:
    return pa.py_buffer(bytes(8 * (size + 1)))


def of_values(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Returns the Python values of messages that were read alone as an Arrow array.

    An extension without fields is an empty dictionary there and true here, unless another form of it has fields.
    """
    if all(value is None for value in values):
        return nulls(kind, len(values))
    convert = _conversion(kind)
    return pa.array(
        [value if value is None else convert(value) for value in values] if convert else values, kind
    )


@cache
def _conversion(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Returns what makes values fit for Arrow, None when they are."""
    if pa.types.is_boolean(kind):
        return _true
    if pa.types.is_list(kind):
        of_item = _conversion(kind.value_type)
        return of_item and (lambda items: [of_item(item) for item in items])
    inside = {child.name: convert for child in _children(kind) if (convert := _conversion(child.type))}

    def fit(value: dict[str, Any]) -> dict[str, Any]:
        return value | {name: convert(value[name]) for name, convert in inside.items() if name in value}

    return fit if inside else None


def _children(kind: pa.DataType) -> list[pa.Field]:
    return list(kind) if pa.types.is_struct(kind) else []


def _true(value: object) -> bool:  # noqa: ARG001  (that there is one is all there is to know)
    return True


def nulls(kind: pa.DataType, count: int) -> pa.Array:
    """Returns a column of ``count`` rows without values, which costs nothing."""
    return _nulls(kind, max(1024, 1 << max(count - 1, 0).bit_length())).slice(0, count)


def _zids(wire: pa.Array) -> pa.Array:
    """Returns the text of ZenohIDs; a network has few, so each one is converted once."""
    coded = wire.dictionary_encode()
    texts = [zid_to_text(zid) for zid in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)
