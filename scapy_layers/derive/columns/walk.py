"""The walk: each shape becomes a function once, and reads its field in all messages at a time.

What is refused, and what is too rare to be worth a wave, is left out (see ``cursor``). Conditions are masks; the items
of a list, the extensions of a chain and the bodies of messages are waves: the first one of every row, then the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from scapy_layers import names, shape
from scapy_layers.codes import Enc
from scapy_layers.derive.columns.column import (
    Column,
    Form,
    Lists,
    Numbers,
    Spans,
    Struct,
    join,
    join_all,
    pick,
    spread,
)
from scapy_layers.derive.columns.cursor import Cursor, Ints
from scapy_layers.derive.columns.schema import OTHER, Shapes
from scapy_layers.derive.columns.text import no_locator, no_text
from scapy_layers.derive.columns.units import Mask, Places

MOST_WAVES = 32
"""Items of a list, or extensions of a chain, that are read in waves; longer ones are left out."""

_ZID_BYTES = 16


@dataclass(slots=True)
class Part:
    """Messages of one kind that were read in one wave.

    Attributes:
        described: What they are.
        rows: Which rows of the wave they belong to.
        at: Where each begins.
        end: Behind its last byte.
        within: Where the message begins that it stands in; None at the top.
        columns: Its fields.
    """

    described: shape.Message
    rows: Places
    at: Places
    end: Places
    within: Places | None
    columns: dict[str, Column]

    def pick(self, kept: Places) -> Part:
        """Returns some of the messages."""
        within = None if self.within is None else self.within.take(kept)
        columns = {name: pick(column, kept) for name, column in self.columns.items()}
        return Part(self.described, self.rows.take(kept), self.at.take(kept), self.end.take(kept), within, columns)


@dataclass(slots=True)
class Scope:
    """The fields of a layer that were read so far, in some rows.

    Attributes:
        rows: Which rows of the wave these are.
        at: Where the message begins that all this belongs to.
        parts: Gets the bodies inside.
        columns: What was read.
        hidden: Numbers that are no columns but that conditions ask for.
        carried: Which rows have a certain extension, by header.
        outer: The same layer with all its rows, when these are some of them.
        of_outer: Which ones.
    """

    rows: Places
    at: Places
    parts: list[Part]
    columns: dict[str, Column] = field(default_factory=dict)
    hidden: dict[str, Ints] = field(default_factory=dict)
    carried: dict[int, Mask] = field(default_factory=dict)
    outer: Scope | None = None
    of_outer: Places | None = None

    def some(self, rows: Places) -> Scope:
        """Returns the same layer in some rows."""
        return Scope(self.rows.take(rows), self.at.take(rows), self.parts, outer=self, of_outer=rows)

    def inner(self) -> Scope:
        """Returns a layer inside, in the same rows."""
        return Scope(self.rows, self.at, self.parts)

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


class Walk:
    """Reads messages of one kind, as many as there are rows."""

    def __init__(self, shapes: Shapes) -> None:
        """Prepares the steps for every message."""
        self._shapes = shapes
        self._steps = {key: self._prepare(message.fields) for key, message in shapes.items()}

    def messages(
        self, cursor: Cursor, described: shape.Message, rows: Places, within: Places | None, parts: list[Part]
    ) -> None:
        """Reads a message in each row; it and the bodies inside become parts, also the rows that are left out."""
        at = cursor.pos
        scope = Scope(rows, at, parts)
        for step in self._steps[described.kind, described.id]:
            step(cursor, scope)
        parts.append(Part(described, rows, at, cursor.pos, within, scope.columns))

    def _prepare(self, shapes: tuple[shape.Shape, ...]) -> tuple[Step, ...]:
        return tuple(self._step(described) for described in shapes if not isinstance(described, shape.Messages))

    def _step(self, described: shape.Shape) -> Step:
        match described:
            case shape.Packed():
                return _packed(described)
            case shape.U8():
                return _u8(described)
            case shape.Le():
                return _le(described)
            case shape.Vle():
                return _vle(described)
            case shape.Zid():
                return _zid(described)
            case shape.CountedBytes() | shape.Rest():
                return _bytes(described)
            case shape.When():
                return _when(described.conditions, self._prepare(described.fields))
            case shape.Many():
                return _many(described, self._prepare(described.item))
            case shape.Region():
                return _region(described, self._prepare(described.fields))
            case shape.Chain():
                return _chain(described, [self._prepare(extension.fields) for extension in described.known])
            case shape.Body():
                return self._body(described)
            case shape.Messages():
                raise ValueError("messages end a message: nothing is read behind them")
            case _:
                assert_never(described)

    def _body(self, described: shape.Body) -> Step:
        allowed = np.zeros(32, bool)
        allowed[list(described.ids)] = True

        def step(cursor: Cursor, scope: Scope) -> None:
            number = cursor.peek() & 0x1F
            wrong = ~allowed.take(number)
            if wrong.any():
                cursor.leave(wrong)
            if cursor.out is not None and cursor.out.all():
                return
            for value, rows in groups(number, cursor.out):
                if value not in described.ids:
                    continue
                message = self._shapes[described.kind, value]
                if rows is None:
                    self.messages(cursor, message, scope.rows, scope.at, scope.parts)
                else:
                    some = cursor.pick(rows)
                    within = scope.at.take(rows)
                    self.messages(some, message, scope.rows.take(rows), within, scope.parts)
                    cursor.put(rows, some)

        return step


def groups(values: NDArray[np.unsignedinteger], out: Mask | None = None) -> list[tuple[int, Places | None]]:
    """Returns every value with the rows that have it; None for all rows, and when all are the same."""
    if not len(values):
        return []
    first = int(values[0])
    if out is None:
        if values.min() == values.max():
            return [(first, None)]
        counted = np.bincount(values)
        return [(int(value), np.flatnonzero(values == value)) for value in np.flatnonzero(counted)]
    kept = ~out
    counted = np.bincount(values[kept])
    return [(int(value), np.flatnonzero((values == value) & kept)) for value in np.flatnonzero(counted)]


# Numbers --------------------------------------------------------------------------------------------


def _packed(described: shape.Packed) -> Step:
    # The id said already what to read; the kind of body is asked for by conditions.
    shown = [bits for bits in described.bits if bits.name not in names.SAID]
    hidden = [bits for bits in described.bits if bits.name in names.SAID and bits.name != "mid"]
    limited = [bits for bits in described.bits if bits.allowed is not None and bits.name != "mid"]

    def step(cursor: Cursor, scope: Scope) -> None:
        carrier = cursor.vle() if described.vle else cursor.u8()
        if described.enforced is not None and carrier.dtype != np.uint8:
            _leave(cursor, carrier >> np.uint64(described.enforced) != 0)
        for bits in shown:
            scope.columns[bits.name] = Numbers(_bits(carrier, bits))
        for bits in hidden:
            scope.hidden[bits.name] = _bits(carrier, bits)
        for bits in limited:
            _check(cursor, _bits(carrier, bits), bits.allowed)

    return step


def _bits(carrier: Ints, bits: shape.Bits) -> Ints:
    most = 0xFF if carrier.dtype == np.uint8 else (1 << 64) - 1
    mask = (1 << bits.size) - 1 & most
    if bits.shift == 0:
        return carrier if mask == most else carrier & carrier.dtype.type(mask)
    if bits.shift >= carrier.dtype.itemsize * 8:
        return np.zeros(len(carrier), carrier.dtype)
    shifted = carrier >> carrier.dtype.type(bits.shift)
    return shifted if bits.shift + bits.size >= carrier.dtype.itemsize * 8 else shifted & carrier.dtype.type(mask)


def _leave(cursor: Cursor, wrong: Mask) -> None:
    if wrong.any():
        cursor.leave(wrong)


def _check(cursor: Cursor, values: Ints, allowed: tuple[int, ...] | None) -> None:
    """Leaves out the rows whose value has no meaning."""
    if allowed is None:
        return
    if values.dtype == np.uint8:
        table = np.ones(256, bool)
        table[[value for value in allowed if value < 256]] = False
        _leave(cursor, table.take(values))
    else:
        _leave(cursor, ~np.isin(values, np.array(allowed, np.uint64)))


def _u8(described: shape.U8) -> Step:
    def step(cursor: Cursor, scope: Scope) -> None:
        values = cursor.u8()
        scope.columns[described.name] = Numbers(values)
        _check(cursor, values, described.allowed)

    return step


def _le(described: shape.Le) -> Step:
    unsigned = np.dtype(f"<u{described.size}")
    target = np.dtype(f"<i{described.size}") if described.signed else unsigned

    def step(cursor: Cursor, scope: Scope) -> None:
        value = cursor.u8().astype(unsigned)
        for index in range(1, described.size):
            value |= cursor.u8().astype(unsigned) << unsigned.type(8 * index)
        scope.columns[described.name] = Numbers(value.view(target))

    return step


def _vle(described: shape.Vle) -> Step:
    bits = described.z if described.enforced else 64

    def step(cursor: Cursor, scope: Scope) -> None:
        values = cursor.vle()
        scope.columns[described.name] = Numbers(values)
        if bits < 64 and values.dtype != np.uint8:
            _leave(cursor, values >> np.uint64(bits) != 0)
        _check(cursor, values, described.allowed)

    return step


# Bytes ----------------------------------------------------------------------------------------------


def _zid(described: shape.Zid) -> Step:
    def step(cursor: Cursor, scope: Scope) -> None:
        if described.length:
            size = scope.number(described.length)
            assert size is not None
            size = size + size.dtype.type(1)
        else:
            size = cursor.vle()
            _leave(cursor, (size == 0) | (size > _ZID_BYTES))
        start, end = cursor.take(size)
        scope.columns[described.name] = Spans(Form.ZID, start, end)
        _leave_zeros(cursor, start, end)

    return step


def _leave_zeros(cursor: Cursor, start: Places, end: Places) -> None:
    """Leaves out the ZenohIDs that are zero; few begin with a zero, fewer go on so."""
    rows = np.flatnonzero(cursor.data.take(start, mode="clip") == 0)
    for index in range(1, _ZID_BYTES):
        if not len(rows):
            return
        at = start.take(rows) + index
        rows = rows[(at >= end.take(rows)) | (cursor.data.take(at, mode="clip") == 0)]
    zeros = np.zeros(len(cursor), bool)
    zeros[rows] = True
    _leave(cursor, zeros)


def _bytes(described: shape.CountedBytes | shape.Rest) -> Step:
    counted = isinstance(described, shape.CountedBytes)
    bits = described.z if isinstance(described, shape.CountedBytes) and described.enforced else 64
    locator = isinstance(described, shape.CountedBytes) and described.locator
    form = Form.TEXT if described.text else Form.BYTES

    def step(cursor: Cursor, scope: Scope) -> None:
        start, end = cursor.take(cursor.vle(), bits) if counted else cursor.rest()
        spans = Spans(form, start, end)
        scope.columns[described.name] = spans
        if described.text:
            wrong = no_text(cursor.data, spans)
            if wrong is not None:
                cursor.leave(wrong)
        if locator:
            _leave(cursor, no_locator(cursor.data, spans))

    return step


# Groups ---------------------------------------------------------------------------------------------


def _holding(conditions: shape.Conditions, scope: Scope) -> Mask | bool:
    """Tells in which rows all conditions hold; True or False for all rows."""
    result: Mask | bool = True
    for need in conditions:
        if isinstance(need, shape.Carries):
            carried = scope.carries(need.header)
            holds: Mask | bool = need.negated if carried is None else carried != need.negated
        else:
            values = scope.number(need.field)
            if values is None:
                holds = need.holds(0)
            elif need.equals is None:
                holds = (values != 0) != need.negated
            else:
                holds = (values == need.equals) != need.negated
        if not isinstance(holds, bool) and (every := _same(holds)) is not None:
            holds = every
        if holds is False:
            return False
        if holds is not True:
            result = holds if result is True else result & holds
    if not isinstance(result, bool) and (every := _same(result)) is not None:
        return every
    return result


def _same(mask: Mask) -> bool | None:
    """Returns what all rows are, None when they differ."""
    if mask.all():
        return True
    return None if mask.any() else False


def _when(conditions: shape.Conditions, inside: tuple[Step, ...]) -> Step:
    def step(cursor: Cursor, scope: Scope) -> None:
        holds = _holding(conditions, scope)
        if holds is False:
            return
        if holds is True:
            for one in inside:
                one(cursor, scope)
            return
        rows = np.flatnonzero(holds)
        some, part = cursor.pick(rows), scope.some(rows)
        for one in inside:
            one(some, part)
        cursor.put(rows, some)
        count = len(cursor)
        for name, column in part.columns.items():
            scope.columns[name] = spread(column, rows, count)
        for header, carried in part.carried.items():
            scope.carried[header] = np.zeros(count, bool)
            scope.carried[header][rows] = carried

    return step


def _many(described: shape.Many, inside: tuple[Step, ...]) -> Step:
    single = len(described.item) == 1

    def step(cursor: Cursor, scope: Scope) -> None:
        times = _times(described, cursor, scope)
        if described.most is not None:
            _leave(cursor, times > described.most)
        _leave(cursor, times > MOST_WAVES)
        taken: list[tuple[Struct, Places]] = []
        for index in range(MOST_WAVES):
            going = times > index
            if cursor.out is not None:
                going &= ~cursor.out
            rows = np.flatnonzero(going)
            if not len(rows):
                break
            some, item = cursor.pick(rows), scope.some(rows)
            item.outer = None
            for one in inside:
                one(some, item)
            cursor.put(rows, some)
            taken.append((Struct(len(rows), item.columns), rows))
        scope.columns[described.name] = _as_list(taken, len(cursor), single)

    return step


def _times(described: shape.Many, cursor: Cursor, scope: Scope) -> Ints:
    if described.times is None:
        return cursor.vle()
    if isinstance(described.times, int):
        return np.full(len(cursor), described.times, np.uint8)
    times = scope.number(described.times)
    return np.zeros(len(cursor), np.uint8) if times is None else times


def _as_list(taken: list[tuple[Struct, Places]], count: int, single: bool) -> Lists:
    """Returns a list from its first items, its second ones and so on; with each ones the rows they stand in."""
    if not taken:
        return Lists(np.zeros(count, np.int64), Struct(0, {}))
    rows = np.concatenate([rows for _, rows in taken])
    items: Column = Struct(len(rows), join_all([(struct, struct.rows) for struct, _ in taken]))
    if single:
        (items,) = items.children.values()
    if len(taken) > 1:
        items = pick(items, np.argsort(rows, kind="stable"))
    return Lists(np.bincount(rows, minlength=count), items)


def _region(described: shape.Region, inside: tuple[Step, ...]) -> Step:
    def step(cursor: Cursor, scope: Scope) -> None:
        body = cursor.inside(cursor.vle(), 32)
        layer = scope.inner()
        for one in inside:
            one(body, layer)
        cursor.close(body)
        scope.columns[described.name] = Struct(len(cursor), layer.columns)

    return step


# Extensions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    described: shape.Extension
    slot: str
    steps: tuple[Step, ...]


def _chain(described: shape.Chain, bodies: list[tuple[Step, ...]]) -> Step:
    known: dict[int, list[_Known]] = {}
    for extension, steps in zip(described.known, bodies, strict=True):
        known.setdefault(extension.header, []).append(_Known(extension, names.layer_name(extension), steps))

    def step(cursor: Cursor, scope: Scope) -> None:
        chain = _Found(cursor, scope, described.skips_mandatory)
        rows: Places | None = None
        for _ in range(MOST_WAVES):
            some = cursor if rows is None else cursor.pick(rows)
            head = some.u8()
            if rows is not None:
                cursor.put(rows, some)
            more = head & 0x80 != 0
            for header, of_some in groups(head & 0x7F, some.out):
                chosen = of_some if rows is None else rows if of_some is None else rows.take(of_some)
                chain.take(header, chosen, known.get(header, ()))
            if not more.any():
                break
            going = np.flatnonzero(more)
            rows = going if rows is None else rows.take(going)
            if cursor.out is not None:
                rows = rows[~cursor.out.take(rows)]
            if not len(rows):
                break
        else:
            longer = np.zeros(len(cursor), bool)
            longer[rows] = True
            cursor.leave(longer)
        chain.finish()

    return step


class _Found:
    """What chains hold: fills the columns of a layer."""

    def __init__(self, cursor: Cursor, scope: Scope, skips_mandatory: bool) -> None:
        self._cursor = cursor
        self._scope = scope
        self._skips_mandatory = skips_mandatory
        self._slots: dict[str, list[tuple[Struct, Places | None]]] = {}
        self._filled: dict[str, Mask | bool] = {}
        self._others: list[tuple[Struct, Places]] = []

    def take(self, header: int, rows: Places | None, known: list[_Known] | tuple[()]) -> None:
        """Reads the bodies of one kind of extension in some rows; None for all."""
        # Two bodies of one header byte: conditions on the message, or on the chain so far, tell which.
        if known and not known[0].described.conditions:
            self._take_known(rows, known[0])
        else:
            scope = self._scope if rows is None else self._scope.some(rows)
            left = None
            for one in known:
                holds = _holding(one.described.conditions, scope)
                if left is not None:
                    holds = left & holds
                if holds is True:
                    self._take_known(rows, one)
                    left = False
                    break
                if holds is not False:
                    chosen = np.flatnonzero(holds)
                    if len(chosen):
                        self._take_known(chosen if rows is None else rows.take(chosen), one)
                    left = ~holds if left is None else left & ~holds
            if left is None:
                self._take_unknown(header, rows)
            elif left is not False and left.any():
                chosen = np.flatnonzero(left)
                self._take_unknown(header, chosen if rows is None else rows.take(chosen))
        carried = self._scope.carried.get(header)
        if carried is None or rows is None:
            carried = self._scope.carried[header] = np.full(len(self._cursor), rows is None)
        if rows is not None:
            carried[rows] = True

    def _take_known(self, rows: Places | None, one: _Known) -> None:
        rows = self._without_repeated(rows, one.slot)
        if rows is not None and not len(rows):
            return
        cursor = self._cursor if rows is None else self._cursor.pick(rows)
        layer = self._scope.inner() if rows is None else self._scope.some(rows).inner()
        if one.described.enc == Enc.ZBUF:
            length = cursor.vle()
            if one.described.bounded:
                body = cursor.inside(length, 32)
                for step in one.steps:
                    step(body, layer)
                cursor.close(body)
            else:
                if length.dtype != np.uint8:
                    _leave(cursor, length >> np.uint64(32) != 0)
                for step in one.steps:
                    step(cursor, layer)
        else:
            for step in one.steps:
                step(cursor, layer)
        if rows is not None:
            self._cursor.put(rows, cursor)
        self._slots.setdefault(one.slot, []).append((Struct(len(cursor), layer.columns), rows))

    def _without_repeated(self, rows: Places | None, slot: str) -> Places | None:
        """Leaves out the rows that have an extension of this name already, and returns the others."""
        filled = self._filled.get(slot)
        count = len(self._cursor)
        if filled is None:
            if rows is None:
                self._filled[slot] = True
            else:
                self._filled[slot] = mask = np.zeros(count, bool)
                mask[rows] = True
            return rows
        if rows is None:
            rows = np.arange(count)
        if filled is True:
            filled = self._filled[slot] = np.ones(count, bool)
        assert not isinstance(filled, bool)
        again = filled.take(rows)
        repeated = np.zeros(count, bool)
        repeated[rows[again]] = True
        _leave(self._cursor, repeated)
        rows = rows[~again]
        filled[rows] = True
        return rows

    def _take_unknown(self, header: int, rows: Places | None) -> None:
        if rows is None:
            rows = np.arange(len(self._cursor))
        cursor = self._cursor.pick(rows)
        refused = header & 0x10 and not self._skips_mandatory
        if refused or header & 0x60 == Enc.RESERVED << 5:
            cursor.leave(np.ones(len(rows), bool))
        elif header >> 5 == Enc.ZBUF:
            cursor.take(cursor.vle(), 32)
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
            others = _as_list(self._others, count, single=False)
            others.present = others.counts > 0
            self._scope.columns[OTHER] = others


def _together(parts: list[tuple[Struct, Places | None]], count: int) -> Struct:
    """Returns one column from what different rows have."""
    if len(parts) == 1:
        struct, rows = parts[0]
        if rows is None:
            return struct
        return _struct(spread(struct, rows, count))
    rows = np.concatenate([np.arange(struct.rows) if rows is None else rows for struct, rows in parts])
    joined = Struct(len(rows), join_all([(struct, struct.rows) for struct, _ in parts]))
    order = np.argsort(rows, kind="stable")
    return _struct(spread(pick(joined, order), rows.take(order), count))


def _struct(column: Column) -> Struct:
    assert isinstance(column, Struct)
    return column
