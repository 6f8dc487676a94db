"""What columns have to say about a unit, worked out from the Scapy layers, and the first difference between the two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

from scapy_layers import shape
from scapy_layers.batch import contents
from scapy_layers.catalogue import decode_batch, decode_one, shapes
from scapy_layers.codes import Enc, Kind
from scapy_layers.derive.columns import Decoded, Decoder, UnitKind, Units, decoder
from scapy_layers.errors import WireError
from scapy_layers.message import Extension, Layer, Message, Region, UnknownExtension
from scapy_layers.names import SAID, layer_name
from scapy_layers.primitives import Reader, zid_to_text
from scapy_layers.reading import holds

Plain = dict[str, Any]
Unit = tuple[bytes, UnitKind]

DECODER = Decoder(shapes())


def units_from(units: Sequence[Unit], between: bytes = b"") -> Units:
    """Lays units one behind the other, with bytes in between that belong to none."""
    data = between + b"".join(raw + between for raw, _ in units)
    sizes = np.array([len(raw) for raw, _ in units], np.int64)
    start = np.cumsum(sizes + len(between)) - sizes
    kinds = np.array([kind for _, kind in units], np.uint8)
    return Units(np.frombuffer(data, np.uint8), start, start + sizes, kinds)


def error_of(raw: bytes, kind: UnitKind) -> Plain | None:
    """Returns what strict decoding raises."""
    try:
        if kind is UnitKind.BATCH:
            decode_batch(raw)
        else:
            decode_one(raw, Kind.SCOUTING if kind is UnitKind.SCOUTING else Kind.NETWORK)
    except WireError as error:
        return {
            "kind": type(error).__name__,
            "offset": error.offset,
            "field": error.field,
            "found": error.found,
        }
    return None


def rows_of(raw: bytes, kind: UnitKind) -> tuple[list[Plain], int]:
    """Returns the messages in front of what is refused, and where the bytes begin that gave none."""
    if not raw:
        return [], 0
    if kind is UnitKind.BATCH:
        found: Iterable[Message] = contents(raw).messages
    else:
        try:
            found = [decode_one(raw, Kind.SCOUTING if kind is UnitKind.SCOUTING else Kind.NETWORK)[0]]
        except WireError:
            return [], 0
    rows: list[Plain] = []
    at = 0
    for message in found:
        row = _row(message, at)
        behind = at + len(message.original)
        if not message.errors:
            rows.append(row)
            at = behind
        elif not message.errors[0].field.startswith("messages."):
            return rows, at
        else:
            inner = row["messages"]
            index = next(index for index, one in enumerate(message.fields["messages"]) if one.errors)
            rest = inner[index]["offset"]
            row["length"] = rest - at
            del inner[index:]
            if not inner:
                del row["messages"]
            return [*rows, row], int(rest)
    return rows, at


def _row(message: Message, at: int) -> Plain:
    behind = at + len(message.original)
    row: Plain = {"name": layer_name(message.shape()), "offset": at, "length": len(message.original)}
    row |= _fields(message.wire_shapes(), message.fields)
    body = message.fields.get("body")
    if isinstance(body, Message):
        row["body"] = _row(body, behind - len(body.original))
    inside = message.fields.get("messages")
    if inside:
        begins = behind - sum(len(one.original) for one in inside)
        row["messages"] = []
        for one in inside:
            row["messages"].append(_row(one, begins))
            begins += len(one.original)
    return row


def _fields(described: tuple[shape.Shape, ...], values: Plain) -> Plain:
    found: Plain = {}
    for one in described:
        match one:
            case shape.Packed():
                found |= {
                    bits.name: int(values[bits.name])
                    for bits in one.bits
                    if bits.name in values and bits.name not in SAID
                }
            case shape.When():
                known = all(
                    isinstance(need, shape.Carries) or need.field in values for need in one.conditions
                )
                if known and holds(one.conditions, values.get):
                    found |= _fields(one.fields, values)
            case shape.Body() | shape.Messages():
                pass
            case shape.Chain():
                if one.name in values:
                    found |= _chain(values[one.name])
            case _:
                if values.get(one.name) is not None:
                    found[one.name] = _plain(one, values[one.name])
    return found


def _plain(described: shape.Shape, value: Any) -> Any:
    if isinstance(value, Region):
        return _fields(value.wire_shapes()[1:], value.fields)
    if isinstance(described, shape.Many):
        (single, *more) = described.item
        return [_fields(described.item, one) if more else _plain(single, one) for one in value]
    if isinstance(described, shape.Zid):
        return zid_to_text(value)
    if isinstance(value, bytes):
        text = isinstance(described, shape.CountedBytes | shape.Rest) and described.text
        return value.decode(errors="replace") if text else bytes(value)
    return value if isinstance(value, str) else int(value)


def _chain(chain: list[Extension]) -> Plain:
    found: Plain = {}
    for extension in chain:
        name = layer_name(extension.shape())
        unread = not extension.enforced and extension.partial
        if isinstance(extension, UnknownExtension) or unread or name in found:
            found.setdefault("other_extensions", []).append(
                {"header": extension.header, "body": _body(extension)}
            )
        else:
            found[name] = _fields(extension.wire_shapes()[2:], extension.fields)
    return found


def _body(extension: Layer) -> bytes:
    reader = Reader(bytes(extension.original), 1)
    if extension.fields["ENC"] == Enc.ZBUF:
        try:
            reader.vle()
        except WireError:
            return b""
    return bytes(reader.rest())


def expected_of(units: Sequence[Unit]) -> list[Plain]:
    """Returns what columns have to say about each unit, worked out from the Scapy layers."""
    expected = []
    for number, (raw, kind) in enumerate(units):
        rows, behind = rows_of(raw, kind)
        error = error_of(raw, kind)
        if error is not None:
            error |= {"unit": number, "rest": raw[behind:]}
        expected.append({"messages": rows, "error": error})
    return expected


def difference(units: Sequence[Unit], expected: Sequence[Plain], decoded: Decoded) -> str | None:
    """Returns the first difference between columns and what is expected in words, None when there is none."""
    rows = decoded.all_rows()
    errors = {row["unit"]: row for row in decoded.errors.to_pylist()}
    for number, (raw, kind) in enumerate(units):
        found = {"messages": rows.get(number, []), "error": errors.get(number)}
        where = first_difference(expected[number], found)
        if where:
            return f"unit {number} ({kind.name} {raw.hex(' ')}): {where}"
    return None


def first_difference(expected: Any, found: Any, place: str = "") -> str | None:
    """Returns the path to the first difference, what was expected and what was found."""
    if found is True:
        # An extension without fields, where no other form of it has any.
        found = {}
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in [*expected, *(name for name in found if name not in expected)]:
            inner = f"{place}.{name}" if place else name
            if name not in found or name not in expected:
                return f"{inner}: expected {expected.get(name, '(no such field)')!r}, found {found.get(name, '(none)')!r}"
            if where := first_difference(expected[name], found[name], inner):
                return where
        return None
    if isinstance(expected, list) and isinstance(found, list):
        for index, (one, other) in enumerate(zip(expected, found, strict=False)):
            if where := first_difference(one, other, f"{place}[{index}]"):
                return where
        return None if len(expected) == len(found) else f"{place}: expected {expected!r}, found {found!r}"
    same = type(expected) is type(found) and expected == found
    return None if same else f"{place}: expected {expected!r}, found {found!r}"


def assert_same(units: Sequence[Unit], *, between: bytes = b"") -> None:
    """Asserts that columns say the same as Scapy layers, when everything is read in waves and when nothing is.

    Args:
        units: What is decoded, all at once.
        between: Bytes between the units, which must not matter.
    """
    expected = expected_of(units)
    for few in (0, 1 << 30, decoder.FEW):
        with patch.object(decoder, "FEW", few):
            decoded = DECODER.decode(units_from(units, between))
        for name, table in decoded.tables.items():
            table.validate(full=True)
            assert table.schema == DECODER.schemas[name]
        where = difference(units, expected, decoded)
        assert where is None, f"{'in waves' if not few else 'one by one'}: {where}"
