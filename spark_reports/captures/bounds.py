"""Filters that Spark hands to a data source, as far as a reader can use them before rows are made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

USED = frozenset({"capture", "connection", "message", "body", "packet", "time", "time_ns"})
"""Columns whose filters are used; all others Spark applies alone."""

_RANGES: Mapping[type[Filter], Callable[[Any, Any], Any]] = {
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}


@dataclass
class Bounds:
    """What rows must be like.

    Attributes:
        sets: The values that a column may have.
        ranges: Comparisons that a column must pass.
    """

    sets: dict[str, frozenset[Any]] = field(default_factory=dict)
    ranges: list[tuple[str, type[Filter], Any]] = field(default_factory=list)

    def take(self, one: Filter) -> None:
        """Takes note of a filter; one of another kind, or on another column, is passed over."""
        path: Sequence[str] = getattr(one, "attribute", ())
        if len(path) != 1 or path[0] not in USED:
            return
        name = path[0]
        match one:
            case EqualTo() | EqualNullSafe():
                self._restrict(name, frozenset({one.value}))
            case In():
                self._restrict(name, frozenset(one.value))
            case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
                self.ranges.append((name, type(one), one.value))

    def _restrict(self, name: str, values: frozenset[Any]) -> None:
        if None in values:
            # Nothing but ``<=>`` is true of null; that is for Spark.
            return
        self.sets[name] = self.sets.get(name, values) & values

    def allows(self, name: str, value: object) -> bool:
        """Tells whether a value of a column may be in a row that is wanted."""
        return name not in self.sets or value in self.sets[name]

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows that pass."""
        for name, values in self.sets.items():
            if name in rows.schema.names:
                column = rows.column(name)
                rows = rows.filter(pc.is_in(column, pa.array(list(values), column.type)))
        for name, kind, value in self.ranges:
            if name in rows.schema.names:
                column = rows.column(name)
                rows = rows.filter(_RANGES[kind](column, pa.scalar(value, column.type)))
        return rows
