"""From values to bytes: what is given goes out as it is, what is missing is computed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, assert_never

from scapy_layers import shape
from scapy_layers.primitives import WideInt, vle_size, write_count, write_vle
from scapy_layers.reading import Values, holds

Get = Callable[[str], Any]


def write(described: shape.Shape, get: Get, out: bytearray) -> None:  # noqa: C901, PLR0912  (one match over all kinds)
    """Appends the bytes of one shape; ``get`` gives the value of a field."""
    match described:
        case shape.Packed():
            carrier, width = 0, 0
            for bits in described.bits:
                value = get(bits.name)
                carrier |= (value & (1 << bits.size) - 1) << bits.shift
                width = max(width, value.width if isinstance(value, WideInt) else 0)
            out += write_vle(carrier, max(width, vle_size(carrier))) if described.vle else bytes([carrier])
        case shape.U8():
            out.append(get(described.name))
        case shape.Le():
            out += get(described.name).to_bytes(described.size, "little", signed=described.signed)
        case shape.Vle():
            out += write_vle(get(described.name))
        case shape.Zid():
            zid = get(described.name)
            out += zid if described.length else write_count(zid) + zid
        case shape.CountedBytes():
            raw = get(described.name)
            out += write_count(raw) + raw
        case shape.Rest():
            out += get(described.name)
        case shape.When():
            if holds(described.conditions, get):
                for inner in described.fields:
                    write(inner, get, out)
        case shape.Many():
            items = get(described.name)
            if described.times is None:
                out += write_count(items)
            for item in items:
                _write_item(described, item, out)
        case shape.Region():
            region = get(described.name)
            # Bytes in place of the layer are what the region shall hold instead.
            out += write_count(region) + region if isinstance(region, bytes) else bytes(region or b"\0")
        case shape.Chain():
            chain = get(described.name)
            for index, extension in enumerate(chain):
                raw = bytes(extension)
                more = index < len(chain) - 1 and extension.getfieldval("Z") is None
                out += bytes([raw[0] | 0x80]) + raw[1:] if more else raw
        case shape.Body():
            out += bytes(get(described.name) or b"")
        case shape.Messages():
            for message in get(described.name):
                out += bytes(message)
        case _:
            assert_never(described)


def _write_item(described: shape.Many, item: Any, out: bytearray) -> None:
    """Appends one item of a list: a plain value, or a dictionary whose missing flags are computed."""
    if len(described.item) == 1 and not isinstance(item, dict):
        value = item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
        write(described.item[0], lambda _: value, out)
        return
    layout = layout_of(described.item)
    for inner in described.item:
        write(inner, lambda name: layout.value(name, item, layout.defaults), out)


@dataclass(frozen=True, slots=True)
class Layout:
    """What is derived once from the shapes of a layer or of a list item.

    Attributes:
        shapes: The shapes, in wire order.
        defaults: What each field is unless given; None when that is computed.
        conditions: The conditions of each field that may be absent.
        zids: Each length field with its ZenohID.
        lists: The fields that hold a list.
        flags: The bit fields that are computed unless given.
    """

    shapes: tuple[shape.Shape, ...]
    defaults: Values
    conditions: dict[str, shape.Conditions]
    zids: dict[str, str]
    lists: tuple[str, ...]
    flags: frozenset[str]

    def value(self, name: str, given: Values, defaults: Values) -> Any:
        """Returns a field as it goes onto the wire: given, default, or computed from what was given."""
        value = given.get(name)
        if value is None:
            value = defaults[name]
        return self._computed(name, given, defaults) if value is None else value

    def _computed(self, name: str, given: Values, defaults: Values) -> int | None:
        """Computes a length nibble, or the value under which a field that was given is present."""
        if name in self.zids:
            zid = self.zids[name]
            present = holds(self.conditions.get(zid, ()), lambda field: self.value(field, given, defaults))
            return max(len(self.value(zid, given, defaults)), 1) - 1 & 0x0F if present else 0
        for field, needs in self.conditions.items():
            value = given.get(field)
            if value is None or (type(value) is list and not value):
                continue
            for need in needs:
                if need.field == name and isinstance(need, shape.Condition) and not need.negated:
                    return 1 if need.equals is None else need.equals
        return 0 if name in self.flags else None


@cache
def layout_of(shapes: tuple[shape.Shape, ...]) -> Layout:
    """Returns what is derived from some shapes."""
    defaults: Values = {}
    conditions: dict[str, shape.Conditions] = {}
    zids: dict[str, str] = {}
    lists: list[str] = []
    flags: list[str] = []
    for described in shape.walk(shapes):
        match described:
            case shape.Packed():
                defaults |= {bits.name: bits.default for bits in described.bits}
                flags += [bits.name for bits in described.bits if bits.default is None]
            case shape.U8() | shape.Le() | shape.Vle():
                defaults[described.name] = described.default
            case shape.Zid():
                defaults[described.name] = b"\x01"
                if described.length:
                    zids[described.length] = described.name
            case shape.CountedBytes() | shape.Rest():
                defaults[described.name] = b""
            case shape.Many() | shape.Chain() | shape.Messages():
                defaults[described.name] = []
                lists.append(described.name)
            case shape.Body() | shape.Region():
                defaults[described.name] = None
            case shape.When():
                inside = layout_of(described.fields)
                nested = {
                    field: described.conditions + inside.conditions.get(field, ())
                    for field in inside.defaults
                }
                conditions |= nested
            case _:
                assert_never(described)
    return Layout(shapes, defaults, conditions, zids, tuple(lists), frozenset(flags))
