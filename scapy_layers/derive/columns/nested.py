"""Shapes with fields inside: conditions, lists, regions."""

from __future__ import annotations

import numpy as np

from scapy_layers import shape
from scapy_layers.derive.columns.column import Column, Lists, Struct, join_all, pick, spread
from scapy_layers.derive.columns.cursor import Cursor, Ints
from scapy_layers.derive.columns.scope import MOST_WAVES, Scope, Step, holding
from scapy_layers.derive.columns.units import Places

Steps = tuple[Step, ...]


def when(described: shape.When, inside: Steps) -> Step:
    """Fields of the rows in which the conditions hold."""

    def step(cursor: Cursor, scope: Scope) -> None:
        holds = holding(described.conditions, scope)
        if holds is False:
            return
        rows = None if holds is True else np.flatnonzero(holds)
        some, part = cursor.pick(rows), scope.some(rows)
        for one in inside:
            one(some, part)
        if rows is None:
            return
        cursor.put(rows, some)
        count = len(cursor)
        for name, column in part.columns.items():
            scope.columns[name] = spread(column, rows, count)
        for header, carried in part.carried.items():
            scope.carried[header] = np.zeros(count, bool)
            scope.carried[header][rows] = carried

    return step


def many(described: shape.Many, inside: Steps) -> Step:
    """A list: the first item of every row, then the second."""
    single = len(described.item) == 1

    def step(cursor: Cursor, scope: Scope) -> None:
        times = _times(described, cursor, scope)
        most = MOST_WAVES if described.most is None else min(MOST_WAVES, described.most)
        cursor.leave(times > most)
        taken: list[tuple[Struct, Places]] = []
        for index in range(most):
            going = times > index
            rows = np.flatnonzero(going if cursor.out is None else going & ~cursor.out)
            if not len(rows):
                break
            some, item = cursor.pick(rows), scope.inner(rows)
            for one in inside:
                one(some, item)
            cursor.put(rows, some)
            taken.append((Struct(len(rows), item.columns), rows))
        scope.columns[described.name] = as_list(taken, len(cursor), single=single)

    return step


def _times(described: shape.Many, cursor: Cursor, scope: Scope) -> Ints:
    if described.times is None:
        return cursor.vle()
    times = None if isinstance(described.times, int) else scope.number(described.times)
    if times is None:
        fixed = described.times if isinstance(described.times, int) else 0
        return np.full(len(cursor), fixed, np.int64)
    return times


def as_list(taken: list[tuple[Struct, Places]], count: int, *, single: bool = False) -> Lists:
    """Returns a list of ``count`` rows.

    Args:
        taken: First items, second ones and so on, with the rows they stand in.
        count: How many rows.
        single: An item is its only field.
    """
    if not taken:
        return Lists(np.zeros(count, np.int64), None)
    rows = np.concatenate([rows for _, rows in taken])
    layer = Struct(len(rows), join_all([(struct, struct.rows) for struct, _ in taken]))
    items: Column = next(iter(layer.children.values())) if single else layer
    if len(taken) > 1:
        items = pick(items, np.argsort(rows, kind="stable"))
    return Lists(np.bincount(rows, minlength=count), items)


def region(described: shape.Region, inside: Steps) -> Step:
    """Fields that fill what a count says."""

    def step(cursor: Cursor, scope: Scope) -> None:
        scope.columns[described.name] = fill(cursor, scope.inner(), inside)

    return step


def fill(cursor: Cursor, layer: Scope, inside: Steps) -> Struct:
    """Reads a count of bytes, and a layer whose fields fill exactly those."""
    body = cursor.inside(cursor.vle(), 32)
    for one in inside:
        one(body, layer)
    cursor.close(body)
    return Struct(len(cursor), layer.columns)
