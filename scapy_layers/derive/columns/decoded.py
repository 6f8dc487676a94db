"""What decoding gives: one Arrow table for each kind of message, and what was refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

Plain = dict[str, Any]
"""A message as Python says it: ``name`` is its table, fields without a value are left out."""


@dataclass(frozen=True)
class Decoded:
    """The messages of some units.

    Attributes:
        tables: Rows of each kind of message that occurs by its name, in the order of units and offsets.
        errors: One row for each unit that strict decoding refuses, see ``schema.ERRORS``.
    """

    tables: dict[str, pa.RecordBatch]
    errors: pa.RecordBatch

    def rows(self, unit: int) -> list[Plain]:
        """Returns the messages of one unit, as they are nested: for tests and for looking at a few.

        What follows a FRAME stands in its ``messages``, what another message carries in its ``body``.
        """
        chosen = {name: _of_unit(table, unit) for name, table in self.tables.items()}
        return Decoded(chosen, self.errors).all_rows().get(unit, [])

    def all_rows(self) -> dict[int, list[Plain]]:
        """Returns the messages of every unit that has any, as ``rows`` does."""
        found: dict[int, dict[int, Plain]] = {}
        for name, table in self.tables.items():
            for row in table.to_pylist():
                unit = row.pop("unit")
                found.setdefault(unit, {})[row["offset"]] = {"name": name} | without_nothing(row)
        return {unit: _nested(found[unit]) for unit in sorted(found)}

    def error(self, unit: int) -> Plain | None:
        """Returns why a unit is refused; None when it is not."""
        found = _of_unit(self.errors, unit).to_pylist()
        return found[0] if found else None


def _nested(by_offset: dict[int, Plain]) -> list[Plain]:
    top: list[Plain] = []
    for _, row in sorted(by_offset.items()):
        outer = by_offset.get(row.pop("within", -1))
        if outer is None:
            top.append(row)
        elif outer["name"] == "frame":
            outer.setdefault("messages", []).append(row)
        else:
            outer["body"] = row
    return top


def _of_unit(table: pa.RecordBatch, unit: int) -> pa.RecordBatch:
    units = table.column(0).to_numpy()
    first, behind = np.searchsorted(units, [unit, unit + 1])
    return table.slice(first, behind - first)


def without_nothing(value: Any) -> Any:
    """Returns Arrow's Python values without the fields that have none."""
    if isinstance(value, dict):
        return {name: without_nothing(inner) for name, inner in value.items() if inner is not None}
    return [without_nothing(item) for item in value] if isinstance(value, list) else value
