"""Columns while they are made: numpy arrays with one value a row, and how rows are spread, picked and joined.

Rows without a value are zero, so that a condition on them does not hold; a column that no row has is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from scapy_layers.derive.columns.cursor import Ints
from scapy_layers.derive.columns.units import Mask, Places


class Form(Enum):
    """What some bytes are."""

    BYTES = "bytes"
    TEXT = "text"
    ZID = "zid"


@dataclass(slots=True)
class Numbers:
    """One number a row.

    Attributes:
        values: The numbers.
        present: Which rows have one; None for all. The same in every other kind of column.
    """

    values: Ints
    present: Mask | None = None


@dataclass(slots=True)
class Spans:
    """Some bytes a row.

    Attributes:
        form: What they are.
        start: Where they begin in the buffer.
        end: Behind the last one.
        ready: The same as an Arrow array of binary, when it was needed already.
    """

    form: Form
    start: Places
    end: Places
    present: Mask | None = None
    ready: pa.Array | None = None


@dataclass(slots=True)
class Struct:
    """A layer inside.

    Attributes:
        rows: How many rows.
        children: Its fields by name.
    """

    rows: int
    children: dict[str, Column]
    present: Mask | None = None


@dataclass(slots=True)
class Lists:
    """A list a row.

    Attributes:
        counts: How many items each row has.
        items: All items, row by row; None when there are none.
    """

    counts: Places
    items: Column | None
    present: Mask | None = None


Column = Numbers | Spans | Struct | Lists


def spread(column: Column, rows: Places, count: int) -> Column:
    """Returns a column of ``count`` rows that has those of another one at ``rows``, which are all different."""
    if column.present is None:
        present = np.zeros(count, bool)
        present[rows] = True
    else:
        present = _spread(column.present, rows, count)
    match column:
        case Numbers():
            return Numbers(_spread(column.values, rows, count), present)
        case Spans():
            return Spans(
                column.form, _spread(column.start, rows, count), _spread(column.end, rows, count), present
            )
        case Struct():
            children = {name: spread(child, rows, count) for name, child in column.children.items()}
            return Struct(count, children, present)
        case Lists():
            # The rows ascend, so the items stay where they are.
            return Lists(_spread(column.counts, rows, count), column.items, present)


def _spread(values: Any, rows: Places, count: int) -> Any:
    full = np.zeros(count, values.dtype)
    full[rows] = values
    return full


def pick(column: Column, rows: Places) -> Column:
    """Returns some rows of a column, in any order."""
    present = None if column.present is None else column.present.take(rows)
    match column:
        case Numbers():
            return Numbers(column.values.take(rows), present)
        case Spans():
            return Spans(column.form, column.start.take(rows), column.end.take(rows), present)
        case Struct():
            return Struct(
                len(rows), {name: pick(child, rows) for name, child in column.children.items()}, present
            )
        case Lists():
            counts = column.counts.take(rows)
            if column.items is None:
                return Lists(counts, None, present)
            first = (np.cumsum(column.counts) - column.counts).take(rows)
            shift = first - (np.cumsum(counts) - counts)
            return Lists(
                counts, pick(column.items, np.repeat(shift, counts) + np.arange(counts.sum())), present
            )


def join(parts: Sequence[tuple[Column | None, int]]) -> Column | None:
    """Returns columns one behind the other; with each one how many rows it has, None when none of them has a value."""
    first = next((column for column, _ in parts if column is not None), None)
    if first is None or len(parts) == 1:
        return first
    present = None
    if any(column is None or column.present is not None for column, _ in parts):
        present = np.concatenate([_presence(column, rows) for column, rows in parts])

    def all_of(name: str, kind: Any) -> Any:
        return np.concatenate(
            [np.zeros(rows, kind) if column is None else getattr(column, name) for column, rows in parts]
        )

    match first:
        case Numbers():
            return Numbers(all_of("values", np.uint8), present)
        case Spans():
            return Spans(first.form, all_of("start", np.int64), all_of("end", np.int64), present)
        case Struct():
            structs = [
                (column if isinstance(column, Struct) else Struct(rows, {}), rows) for column, rows in parts
            ]
            return Struct(sum(rows for _, rows in parts), join_all(structs), present)
        case Lists():
            lists = [column for column, _ in parts if isinstance(column, Lists)]
            # Parts without items take no rows, so only others are joined.
            items = join(
                [(column.items, int(column.counts.sum())) for column in lists if column.items is not None]
            )
            return Lists(all_of("counts", np.int64), items, present)


def join_all(parts: Sequence[tuple[Struct, int]]) -> dict[str, Column]:
    """Returns the columns of several layers, each one behind the other."""
    names = dict.fromkeys(name for struct, _ in parts for name in struct.children)
    joined = {name: join([(struct.children.get(name), rows) for struct, rows in parts]) for name in names}
    return {name: column for name, column in joined.items() if column is not None}


def _presence(column: Column | None, rows: int) -> Mask:
    if column is None:
        return np.zeros(rows, bool)
    return np.ones(rows, bool) if column.present is None else column.present
