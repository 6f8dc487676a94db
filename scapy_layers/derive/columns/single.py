"""Shapes without anything inside: numbers and bytes."""

from __future__ import annotations

import numpy as np

from scapy_layers import names, shape
from scapy_layers.derive.columns.column import Form, Numbers, Spans
from scapy_layers.derive.columns.cursor import Cursor, Ints
from scapy_layers.derive.columns.scope import Scope, Step, mask
from scapy_layers.derive.columns.text import no_locator, no_text
from scapy_layers.derive.columns.units import Bytes, Places

_ZID_BYTES = 16


def packed(described: shape.Packed) -> Step:
    """Bits of a carrier."""
    # The id said already what to read; conditions ask for the kind of body.
    shown = [bits for bits in described.bits if bits.name not in names.SAID]
    hidden = [bits for bits in described.bits if bits.name in names.SAID and bits.name != "mid"]
    limited = [
        (bits, bits.allowed) for bits in described.bits if bits.allowed is not None and bits.name != "mid"
    ]

    def step(cursor: Cursor, scope: Scope) -> None:
        carrier = cursor.vle() if described.vle else cursor.u8()
        if described.enforced is not None:
            _limit(cursor, carrier, described.enforced)
        for bits in shown:
            scope.columns[bits.name] = Numbers(_part_of(carrier, bits))
        for bits in hidden:
            scope.hidden[bits.name] = _part_of(carrier, bits)
        for bits, allowed in limited:
            _check(cursor, _part_of(carrier, bits), allowed)

    return step


def _part_of(carrier: Ints, bits: shape.Bits) -> Ints:
    """Returns some bits; carriers are bytes when no row has a larger one."""
    width = carrier.dtype.itemsize * 8
    if bits.shift >= width:
        return np.zeros(len(carrier), carrier.dtype)
    part = carrier >> carrier.dtype.type(bits.shift) if bits.shift else carrier
    if bits.shift + bits.size >= width:
        return part
    return part & carrier.dtype.type((1 << bits.size) - 1)


def _limit(cursor: Cursor, values: Ints, bits: int) -> None:
    """Leaves out the rows whose value needs more bits."""
    if bits < values.dtype.itemsize * 8:
        cursor.leave(values >> values.dtype.type(bits) != 0)


def _check(cursor: Cursor, values: Ints, allowed: tuple[int, ...]) -> None:
    """Leaves out the rows whose value has no meaning."""
    if values.dtype == np.uint8:
        wrong = np.ones(256, bool)
        wrong[[value for value in allowed if value < len(wrong)]] = False
        cursor.leave(wrong.take(values))
    else:
        cursor.leave(~np.isin(values, np.array(allowed, np.uint64)))


def u8(described: shape.U8) -> Step:
    """One byte."""

    def step(cursor: Cursor, scope: Scope) -> None:
        values = cursor.u8()
        scope.columns[described.name] = Numbers(values)
        if described.allowed is not None:
            _check(cursor, values, described.allowed)

    return step


def le(described: shape.Le) -> Step:
    """A number of fixed size, low byte first."""
    unsigned = np.dtype(f"<u{described.size}")
    kind = np.dtype(f"<i{described.size}") if described.signed else unsigned

    def step(cursor: Cursor, scope: Scope) -> None:
        value = cursor.u8().astype(unsigned)
        for index in range(1, described.size):
            value |= cursor.u8().astype(unsigned) << unsigned.type(8 * index)
        scope.columns[described.name] = Numbers(value.view(kind))

    return step


def vle(described: shape.Vle) -> Step:
    """A VLE integer."""

    def step(cursor: Cursor, scope: Scope) -> None:
        values = cursor.vle()
        scope.columns[described.name] = Numbers(values)
        if described.enforced:
            _limit(cursor, values, described.z)
        if described.allowed is not None:
            _check(cursor, values, described.allowed)

    return step


def zid(described: shape.Zid) -> Step:
    """A ZenohID."""

    def step(cursor: Cursor, scope: Scope) -> None:
        if described.length:
            nibble = scope.number(described.length)
            assert nibble is not None, "the length stands in front of the ZenohID"
            size: Ints = nibble + nibble.dtype.type(1)
        else:
            size = cursor.vle()
            cursor.leave((size == 0) | (size > _ZID_BYTES))
        start, end = cursor.take(size)
        scope.columns[described.name] = Spans(Form.ZID, start, end)
        cursor.leave(mask(_zeros(cursor.data, start, end), len(cursor)))

    return step


def _zeros(data: Bytes, start: Places, end: Places) -> Places:
    """Returns the rows whose bytes are all zero; few begin with a zero, fewer go on so."""
    rows = np.flatnonzero(data.take(start, mode="clip") == 0)
    for index in range(1, _ZID_BYTES):
        if not len(rows):
            break
        at = start.take(rows) + index
        rows = rows[(at >= end.take(rows)) | (data.take(at, mode="clip") == 0)]
    return rows


def some_bytes(described: shape.CountedBytes | shape.Rest) -> Step:
    """Bytes or text."""
    form = Form.TEXT if described.text else Form.BYTES
    counted = isinstance(described, shape.CountedBytes)
    locator = isinstance(described, shape.CountedBytes) and described.locator
    bits = described.z if isinstance(described, shape.CountedBytes) and described.enforced else 64

    def step(cursor: Cursor, scope: Scope) -> None:
        start, end = cursor.take(cursor.vle(), bits) if counted else cursor.rest()
        spans = Spans(form, start, end)
        scope.columns[described.name] = spans
        if described.text:
            cursor.leave(mask(no_text(cursor.data, spans), len(cursor)))
        if locator:
            cursor.leave(no_locator(cursor.data, spans))

    return step
