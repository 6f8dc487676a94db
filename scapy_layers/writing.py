"""From values to bytes: what is given goes out as it is, what is missing is computed from it.

Each shape becomes a function once, as in ``reading``; a layer is written by calling them in order. All write into
one buffer, the layers inside included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import GeneratorType
from typing import Any, assert_never

from scapy.base_classes import BasePacket, Gen
from scapy.volatile import VolatileValue

from scapy_layers import shape
from scapy_layers.primitives import WideInt, vle_size, write_count, write_vle
from scapy_layers.reading import Values, holds

Step = Callable[[Values, Values, bytearray], None]
"""Appends one shape: takes the values that are given, the defaults of all fields, and what was written so far."""

Get = Callable[[Values, Values], Any]
"""Returns one field as it goes onto the wire; takes the values that are given, and the defaults of all fields."""

Test = Callable[[Values, Values], bool]
"""Tells whether a condition holds; takes the same."""

Program = tuple[Step, ...]
"""What writes some shapes, in wire order."""

writers: dict[type, Callable[[Any, bytearray], None]] = {}
"""What appends a layer of a class to the bytes around it. A class that is missing here builds itself in its own way."""


class Unsettled(TypeError):
    """A value that stands for several, or for a random one: Scapy has to choose one of them first."""


class Misfit(TypeError):
    """A value of a kind that its field cannot carry; the message names the layer, the field and the value."""


class Unread(Exception):
    """A field of a layer that was read only in part: building ends in front of it."""


class Unfinished(Values):
    """The values of a layer that was read only in part: whoever gets one that was not read is told so."""

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a value.

        Raises:
            Unread: It was not read.
        """
        if name not in self:
            raise Unread(name)
        return super().get(name, default)


_given = dict.get
"""Gets a value of any layer; None when it was not read."""

_SEVERAL = (VolatileValue, Gen, list, tuple, range, GeneratorType)
"""What Scapy takes for a set of values; but a packet stands for itself."""


def _settled(value: Any) -> Any:
    """Returns a value that is none of the usual ones, if it is one at all.

    Raises:
        Unsettled: It has to be chosen first.
    """
    if isinstance(value, _SEVERAL) and not isinstance(value, BasePacket):
        raise Unsettled(f"{value!r} is no single value")
    return value


# Derived once --------------------------------------------------------------------------------------


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
        announced: The fields that a field announces, by name, with the value with which it does.
    """

    shapes: tuple[shape.Shape, ...]
    defaults: Values
    conditions: dict[str, shape.Conditions]
    zids: dict[str, str]
    lists: tuple[str, ...]
    flags: frozenset[str]
    announced: dict[str, dict[str, int]]

    def value(self, name: str, given: Values, defaults: Values) -> Any:
        """Returns a field as it goes onto the wire: given, default, or computed from what was given."""
        value = _given(given, name)
        if value is None:
            value = defaults[name]
        return self.computed(name, given, defaults) if value is None else value

    def computed(self, name: str, given: Values, defaults: Values) -> int | None:
        """Computes a length nibble, or the value under which a field that was given is present."""
        if name in self.zids:
            zid = self.zids[name]
            needs = self.conditions.get(zid)
            if needs and not holds(needs, lambda field: self.value(field, given, defaults)):
                return 0
            value = self.value(zid, given, defaults)
            if isinstance(value, int):
                raise TypeError(f"{zid}={value!r} is no ZenohID")
            return max(len(value), 1) - 1 & 0x0F
        announced = self.announced.get(name)
        if announced is not None and not given.keys().isdisjoint(announced):
            for field, announcing in announced.items():
                value = _given(given, field)
                if value is not None and not (type(value) is list and not value):
                    return announcing
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
    announced = _announced(conditions)
    return Layout(shapes, defaults, conditions, zids, tuple(lists), frozenset(flags), announced)


def _announced(conditions: dict[str, shape.Conditions]) -> dict[str, dict[str, int]]:
    """Returns what each field announces, in the order in which it is looked for."""
    announced: dict[str, dict[str, int]] = {}
    for field, needs in conditions.items():
        for need in needs:
            if isinstance(need, shape.Condition) and not need.negated:
                announcing = 1 if need.equals is None else need.equals
                announced.setdefault(need.field, {}).setdefault(field, announcing)
    return announced


@cache
def program(shapes: tuple[shape.Shape, ...]) -> Program:
    """Returns the functions that write some shapes, in wire order."""
    layout = layout_of(shapes)
    steps = tuple(_step(described, layout) for described in shapes)
    _written.update({step: _names_in(described) for step, described in zip(steps, shapes, strict=True)})
    return steps


_written: dict[Step, tuple[str, ...]] = {}
"""The fields that each function writes."""


def _names_in(described: shape.Shape) -> tuple[str, ...]:
    match described:
        case shape.Packed():
            return tuple(bits.name for bits in described.bits)
        case shape.When():
            return tuple(name for inside in described.fields for name in _names_in(inside))
        case _:
            return (described.name,)


def misfit(layer: str, step: Step, values: Values, error: Exception) -> Misfit:
    """Returns the error for a value that a function could not write.

    Args:
        layer: Name of the layer.
        step: The function that failed.
        values: The values that are given.
        error: What Python said.
    """
    given = {name: value for name in _written.get(step, ()) if (value := _given(values, name)) is not None}
    # What shares its byte with others is a number.
    odd = {name: value for name, value in given.items() if not isinstance(value, int)} or given
    told = [
        f"{layer}.{name}: {repr(value)[:MOST_SHOWN]} ({type(value).__name__}) cannot be written"
        for name, value in odd.items()
    ]
    return Misfit("; ".join(told) or f"{layer}: {error}")


MOST_SHOWN = 60
"""Characters of a value in an error."""


def _step(described: shape.Shape, layout: Layout) -> Step:  # noqa: PLR0911, PLR0912, C901  (one match over all kinds)
    match described:
        case shape.Packed():
            return _packed_vle(described, layout) if described.vle else _packed_byte(described, layout)
        case shape.U8():
            return _u8(described, layout)
        case shape.Le():
            return _le(described, layout)
        case shape.Vle():
            return _vle(described, layout)
        case shape.Zid():
            return _zid(described, layout)
        case shape.CountedBytes():
            return _counted(described, layout)
        case shape.Rest():
            return _rest(described, layout)
        case shape.When():
            return _when(described, layout)
        case shape.Many():
            return _many(described, layout)
        case shape.Region():
            return _region(described, layout)
        case shape.Chain():
            return _chain(described, layout)
        case shape.Body():
            return _body(described, layout)
        case shape.Messages():
            return _messages(described, layout)
        case _:
            assert_never(described)


def _getter(name: str, layout: Layout) -> Get:
    computed = layout.computed

    def get(values: Values, defaults: Values) -> Any:
        value = values.get(name)
        if value is None:
            value = defaults[name]
            if value is None:
                value = computed(name, values, defaults)
        return value

    return get


# Numbers --------------------------------------------------------------------------------------------


def _packed_byte(described: shape.Packed, layout: Layout) -> Step:
    parts = [(bits.name, bits.shift, (1 << bits.size) - 1) for bits in described.bits]
    computed = layout.computed

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        carrier, get = 0, values.get
        for name, shift, mask in parts:
            value: Any = get(name)
            if value is None:
                value = defaults[name]
                if value is None:
                    value = computed(name, values, defaults)
            if type(value) is not int:
                _settled(value)
            carrier |= (value & mask) << shift
        out.append(carrier)

    return step


def _packed_vle(described: shape.Packed, layout: Layout) -> Step:
    parts = [(_getter(bits.name, layout), bits.shift, (1 << bits.size) - 1) for bits in described.bits]

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        carrier, width = 0, 0
        for get, shift, mask in parts:
            value = get(values, defaults)
            if type(value) is not int:
                _settled(value)
                width = max(width, value.width if isinstance(value, WideInt) else 0)
            carrier |= (value & mask) << shift
        if width:
            out += write_vle(carrier, max(width, vle_size(carrier)))
        else:
            append_vle(carrier, out)

    return step


def append_vle(value: Any, out: bytearray) -> None:
    """Appends a VLE integer: in its shortest form, or the width that it has.

    Raises:
        Unsettled: It has to be chosen first.
    """
    if type(value) is int and 0 <= value < 1 << 56:
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    else:
        out += write_vle(_settled(value))


def _u8(described: shape.U8, layout: Layout) -> Step:
    get = _getter(described.name, layout)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        value = get(values, defaults)
        out.append(value if type(value) is int else _settled(value))

    return step


def _le(described: shape.Le, layout: Layout) -> Step:
    get, size, signed = _getter(described.name, layout), described.size, described.signed

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        out += _settled(get(values, defaults)).to_bytes(size, "little", signed=signed)

    return step


def _vle(described: shape.Vle, layout: Layout) -> Step:
    name, get = described.name, _getter(described.name, layout)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        value = values.get(name)
        if value is None:
            value = get(values, defaults)
        if type(value) is int and 0 <= value < 0x80:
            out.append(value)
        else:
            append_vle(value, out)

    return step


# Bytes ----------------------------------------------------------------------------------------------


def _zid(described: shape.Zid, layout: Layout) -> Step:
    get = _getter(described.name, layout)
    if described.length:
        return _rest(described, layout)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        _append_counted(get(values, defaults), out)

    return step


def _counted(described: shape.CountedBytes, layout: Layout) -> Step:
    get = _getter(described.name, layout)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        _append_counted(get(values, defaults), out)

    return step


def _append_counted(raw: Any, out: bytearray) -> None:
    """Appends a count and that many bytes, or the count that comes with them."""
    if type(raw) is bytes:
        append_vle(len(raw), out)
        out += raw
    else:
        out += write_count(_settled(raw)) + raw


def _rest(described: shape.Rest | shape.Zid, layout: Layout) -> Step:
    get = _getter(described.name, layout)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        raw = get(values, defaults)
        out += raw if type(raw) is bytes else _settled(raw)

    return step


# Groups ---------------------------------------------------------------------------------------------


def _when(described: shape.When, layout: Layout) -> Step:
    inside = tuple(_step(inner, layout) for inner in described.fields)
    tests = [_test(need, layout) for need in described.conditions]
    (first, *others) = tests

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        if not first(values, defaults):
            return
        for test in others:
            if not test(values, defaults):
                return
        for inner in inside:
            inner(values, defaults, out)

    return step


def _test(need: shape.Condition | shape.Carries, layout: Layout) -> Test:
    get = _getter(need.field, layout)
    if isinstance(need, shape.Carries):
        negated, conditions = need.negated, (need,)

        def carries(values: Values, defaults: Values) -> bool:
            chain = get(values, defaults)
            return holds(conditions, lambda _: chain) if chain else negated

        return carries
    if need.equals == 1 and not need.negated:
        return lambda values, defaults: bool(get(values, defaults) == 1)
    return lambda values, defaults: need.holds(get(values, defaults))


def _many(described: shape.Many, layout: Layout) -> Step:
    get, counted = _getter(described.name, layout), described.times is None
    steps, item_layout = program(described.item), layout_of(described.item)
    item_defaults = item_layout.defaults
    single = len(described.item) == 1

    def write_values(item: Values, out: bytearray) -> None:
        for step in steps:
            step(item, item_defaults, out)

    def write_item(item: Any, out: bytearray) -> None:
        """Appends a plain value, or a dictionary whose missing flags are computed."""
        if single and not isinstance(item, dict):
            if item is None:
                raise TypeError(f"{described.name}: None is no item")
            value = item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
            item = dict.fromkeys(item_defaults, value)
        start = len(out)
        try:
            write_values(item, out)
        except Unsettled:
            # Scapy chooses values of fields, but looks into no list.
            del out[start:]
            write_values({name: _drawn(value) for name, value in item.items()}, out)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        items = get(values, defaults)
        if counted:
            out += write_count(items)
        for item in items:
            write_item(item, out)

    return step


def _drawn(value: Any) -> Any:
    """Returns a value, one of the possible ones when it is random."""
    return value._fix() if isinstance(value, VolatileValue) else value  # noqa: SLF001  (Scapy calls it so)


# Layers ---------------------------------------------------------------------------------------------


def _append_layer(layer: Any, out: bytearray) -> None:
    """Appends a layer, or what was put into its place."""
    write = writers.get(type(layer))
    if write is None:
        out += _as_bytes(layer)
    else:
        write(layer, out)


def _as_bytes(value: Any) -> bytes:
    """Returns what was put into the place of a layer; a number would be so many zero bytes for Python."""
    if isinstance(value, int):
        raise TypeError(f"{value!r} stands where a layer belongs")
    return bytes(value)


def _region(described: shape.Region, layout: Layout) -> Step:
    get = _getter(described.name, layout)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        region = get(values, defaults)
        if type(region) in writers:
            writers[type(region)](region, out)
        elif isinstance(region, bytes):
            # Bytes in place of the layer are what the region shall hold instead.
            _append_counted(region, out)
        else:
            out += _as_bytes(_settled(b"\0" if region is None else region) or b"\0")

    return step


def _chain(described: shape.Chain, layout: Layout) -> Step:
    get = _getter(described.name, layout)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        chain = get(values, defaults)
        last = len(chain) - 1
        for index, extension in enumerate(chain):
            start = len(out)
            _append_layer(extension, out)
            if index < last and extension.getfieldval("Z") is None:
                out[start] |= 0x80

    return step


def _body(described: shape.Body, layout: Layout) -> Step:
    get = _getter(described.name, layout)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        body = get(values, defaults)
        if type(body) in writers:
            writers[type(body)](body, out)
        else:
            out += _as_bytes(b"" if body is None else _settled(body))

    return step


def _messages(described: shape.Messages, layout: Layout) -> Step:
    get = _getter(described.name, layout)

    def step(values: Values, defaults: Values, out: bytearray) -> None:
        for message in get(values, defaults):
            _append_layer(message, out)

    return step
