"""What is known of a layer while it is read, in all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from scapy_layers import shape
from scapy_layers.derive.columns.column import Column, Lists, Numbers, pick
from scapy_layers.derive.columns.cursor import Cursor, Ints
from scapy_layers.derive.columns.units import Mask, Places

MOST_WAVES = 32
"""Items of a list, or extensions of a chain, that are read in waves; rows with more are left out."""


@dataclass(slots=True)
class Part:
    """Messages of one kind that were read in one wave.

    Attributes:
        described: What they are.
        units: Which unit each stands in.
        at: Where each begins.
        end: Behind its last byte.
        within: Where the message begins that it stands in; None at the top.
        columns: Its fields.
    """

    described: shape.Message
    units: Places
    at: Places
    end: Places
    within: Places | None
    columns: dict[str, Column]

    def pick(self, kept: Places) -> Part:
        """Returns some of the messages."""
        units, at, end = (array.take(kept) for array in (self.units, self.at, self.end))
        within = None if self.within is None else self.within.take(kept)
        columns = {name: pick(column, kept) for name, column in self.columns.items()}
        return Part(self.described, units, at, end, within, columns)


@dataclass(slots=True)
class Scope:
    """The fields of a layer that were read so far, in some rows.

    Attributes:
        units: Which unit each row stands in.
        at: Where the message begins that all this belongs to.
        parts: Gets the bodies inside.
        columns: What was read.
        hidden: Numbers that are no columns but that conditions ask for.
        carried: Which rows have a certain extension, by header.
        outer: The same layer with all its rows, when these are some of them.
        of_outer: Which ones.
    """

    units: Places
    at: Places
    parts: list[Part]
    columns: dict[str, Column] = field(default_factory=dict)
    hidden: dict[str, Ints] = field(default_factory=dict)
    carried: dict[int, Mask] = field(default_factory=dict)
    outer: Scope | None = None
    of_outer: Places | None = None

    def some(self, rows: Places | None) -> Scope:
        """Returns the same layer in some rows; None for all."""
        if rows is None:
            return self
        return Scope(self.units.take(rows), self.at.take(rows), self.parts, outer=self, of_outer=rows)

    def inner(self, rows: Places | None = None) -> Scope:
        """Returns a layer inside, in some rows; None for all."""
        if rows is None:
            return Scope(self.units, self.at, self.parts)
        return Scope(self.units.take(rows), self.at.take(rows), self.parts)

    def number(self, name: str) -> Ints | None:
        """Returns the values of a field, or how many items a list has; None when no row has any."""
        if name in self.hidden:
            return self.hidden[name]
        column = self.columns.get(name)
        if isinstance(column, Numbers):
            return column.values
        if isinstance(column, Lists):
            return column.counts
        if self.outer is None or self.of_outer is None:
            return None
        found = self.outer.number(name)
        return None if found is None else found.take(self.of_outer)

    def carries(self, header: int) -> Mask | None:
        """Tells which rows have an extension; None when no row has."""
        if header in self.carried:
            return self.carried[header]
        if self.outer is None or self.of_outer is None:
            return None
        found = self.outer.carries(header)
        return None if found is None else found.take(self.of_outer)


Step = Callable[[Cursor, Scope], None]
"""Reads one shape in all rows."""


def groups(values: Ints, out: Mask | None = None) -> Iterator[tuple[int, Places | None]]:
    """Yields every value with the rows that have it and are not left out; None for all rows."""
    if out is None:
        if len(values) and values.min() == values.max():
            yield int(values[0]), None
            return
        kept = values
    else:
        kept = values[~out]
    for value in np.flatnonzero(np.bincount(kept)).tolist():
        of_value = values == value
        yield value, np.flatnonzero(of_value if out is None else of_value & ~out)


def of(rows: Places | None, some: Places) -> Places:
    """Returns some of some rows; None for all."""
    return some if rows is None else rows.take(some)


def mask(rows: Places, count: int) -> Mask:
    """Returns the mask of some of ``count`` rows."""
    result = np.zeros(count, bool)
    result[rows] = True
    return result


def holding(conditions: shape.Conditions, scope: Scope) -> Mask | bool:
    """Tells in which rows all conditions hold; True or False for all rows."""
    result: Mask | bool = True
    for need in conditions:
        found = _holds(need, scope)
        if isinstance(found, bool):
            if not found:
                return False
        else:
            result = found if result is True else result & found
    if isinstance(result, bool) or result.all():
        return True
    return result if result.any() else False


def _holds(need: shape.Condition | shape.Carries, scope: Scope) -> Mask | bool:
    if isinstance(need, shape.Carries):
        carried = scope.carries(need.header)
        return need.negated if carried is None else carried != need.negated
    values = scope.number(need.field)
    if values is None:
        return need.holds(0)
    holds: Mask = values != 0 if need.equals is None else values == need.equals
    return ~holds if need.negated else holds
