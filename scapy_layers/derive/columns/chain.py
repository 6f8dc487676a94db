"""Extension chains: the first extension of every row, then the second; each kind in all rows that have it there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scapy_layers import names, shape
from scapy_layers.codes import Enc
from scapy_layers.derive.columns.column import Column, Form, Numbers, Spans, Struct, join_all, pick, spread
from scapy_layers.derive.columns.cursor import Cursor
from scapy_layers.derive.columns.nested import Steps, as_list, fill
from scapy_layers.derive.columns.schema import OTHER
from scapy_layers.derive.columns.scope import MOST_WAVES, Scope, Step, groups, holding, mask, of
from scapy_layers.derive.columns.units import Places

_ENC, _RESERVED, _MANDATORY, _MORE = 0x60, Enc.RESERVED << 5, 0x10, 0x80


class _Known(NamedTuple):
    """One form of an extension, and the column it goes to."""

    described: shape.Extension
    slot: str
    steps: Steps


def chain(described: shape.Chain, bodies: list[Steps]) -> Step:
    """An extension chain; with the steps for each body that is known."""
    known: dict[int, list[_Known]] = {}
    for extension, steps in zip(described.known, bodies, strict=True):
        known.setdefault(extension.header, []).append(_Known(extension, names.layer_name(extension), steps))

    def step(cursor: Cursor, scope: Scope) -> None:
        reading = _Reading(cursor, scope, described.skips_mandatory)
        rows: Places | None = None
        for _ in range(MOST_WAVES):
            some = cursor.pick(rows)
            head = some.u8()
            cursor.put(rows, some)
            for header, of_some in groups(head & ~np.uint8(_MORE), some.out):
                chosen = rows if of_some is None else of(rows, of_some)
                reading.take(header, chosen, known.get(header, []))
            rows = of(rows, np.flatnonzero(head & _MORE))
            if cursor.out is not None:
                rows = rows[~cursor.out.take(rows)]
            if not len(rows):
                break
        if rows is not None:
            cursor.leave(mask(rows, len(cursor)))
        reading.finish()

    return step


class _Reading:
    """What was found in the chains of a layer so far."""

    def __init__(self, cursor: Cursor, scope: Scope, skips_mandatory: bool) -> None:
        self._cursor = cursor
        self._scope = scope
        self._skips_mandatory = skips_mandatory
        self._slots: dict[str, list[tuple[Struct, Places | None]]] = {}
        self._others: list[tuple[Struct, Places]] = []

    def take(self, header: int, rows: Places | None, known: list[_Known]) -> None:
        """Reads extensions of one header behind it, in some rows; None for all."""
        for one, of_it in self._told_apart(known, rows):
            if one is None:
                self._take_unknown(header, np.arange(len(self._cursor)) if of_it is None else of_it)
            else:
                self._take_known(one, of_it)
        carried = self._scope.carried.setdefault(header, np.zeros(len(self._cursor), bool))
        carried[slice(None) if rows is None else rows] = True

    def _told_apart(
        self, known: list[_Known], rows: Places | None
    ) -> Iterator[tuple[_Known | None, Places | None]]:
        """Yields the forms of an extension with the rows that have it; None for what is not known."""
        for one in known:
            holds = holding(one.described.conditions, self._scope.some(rows))
            if holds is True:
                yield one, rows
                return
            if holds is not False:
                yield one, of(rows, np.flatnonzero(holds))
                rows = of(rows, np.flatnonzero(~holds))
        yield None, rows

    def _take_known(self, one: _Known, rows: Places | None) -> None:
        rows = self._first_only(one.slot, rows)
        if rows is not None and not len(rows):
            return
        cursor, layer = self._cursor.pick(rows), self._scope.inner(rows)
        if one.described.enc == Enc.ZBUF and one.described.bounded:
            struct = fill(cursor, layer, one.steps)
        else:
            if one.described.enc == Enc.ZBUF:
                length = cursor.vle()
                cursor.leave(length > 0xFFFFFFFF)
            for step in one.steps:
                step(cursor, layer)
            struct = Struct(len(cursor), layer.columns)
        self._cursor.put(rows, cursor)
        self._slots.setdefault(one.slot, []).append((struct, rows))

    def _first_only(self, slot: str, rows: Places | None) -> Places | None:
        """Leaves out the rows that have an extension of this name already, and returns the others."""
        count = len(self._cursor)
        for _, filled in self._slots.get(slot, []):
            again = np.ones(count, bool) if filled is None else mask(filled, count)
            if rows is not None:
                again &= mask(rows, count)
            if again.any():
                self._cursor.leave(again)
                kept = ~again if rows is None else ~again.take(rows)
                rows = of(rows, np.flatnonzero(kept))
        return rows

    def _take_unknown(self, header: int, rows: Places) -> None:
        cursor = self._cursor.pick(rows)
        if header & _ENC == _RESERVED or (header & _MANDATORY and not self._skips_mandatory):
            cursor.leave(np.ones(len(rows), bool))
        start = cursor.pos
        match header >> 5:
            case Enc.ZBUF:
                start, _ = cursor.take(cursor.vle(), 32)
            case Enc.Z64:
                cursor.vle()
        self._cursor.put(rows, cursor)
        fields: dict[str, Column] = {
            "header": Numbers(np.full(len(rows), header, np.uint8)),
            "body": Spans(Form.BYTES, start, cursor.pos),
        }
        self._others.append((Struct(len(rows), fields), rows))

    def finish(self) -> None:
        """Makes columns of what was found."""
        count = len(self._cursor)
        for slot, parts in self._slots.items():
            self._scope.columns[slot] = _together(parts, count)
        if self._others:
            others = as_list(self._others, count)
            others.present = others.counts > 0
            self._scope.columns[OTHER] = others


def _together(parts: list[tuple[Struct, Places | None]], count: int) -> Column:
    """Returns one column from what different rows have."""
    (struct, rows), *more = parts
    if rows is None:
        return struct
    column: Column = struct
    if more:
        every = [(struct, rows) for struct, rows in parts if rows is not None]
        rows = np.concatenate([rows for _, rows in every])
        order = np.argsort(rows, kind="stable")
        column = Struct(len(rows), join_all([(struct, struct.rows) for struct, _ in every]))
        column, rows = pick(column, order), rows.take(order)
    return spread(column, rows, count)
