"""One message at a time, strictly, in plain Python: the exact error of what is refused, and the rare and the few.

The walk over all messages at once leaves to this what is not worth a wave of its own. Single fields are read by
``reading``, as in the Scapy layers; only what has fields inside is done here, because there it becomes layers.
"""

# ruff: noqa: ARG001  (every step has the same arguments)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, assert_never

from scapy_layers import names, reading, shape
from scapy_layers.codes import Enc, Kind
from scapy_layers.derive.columns.schema import OTHER, Shapes
from scapy_layers.errors import (
    BadValue,
    Overlong,
    Truncated,
    UnknownMandatoryExtension,
    UnknownMessage,
    WireError,
)
from scapy_layers.primitives import Reader, zid_to_text
from scapy_layers.reading import Findings

Values = dict[str, Any]
"""The fields of a layer by name, as Arrow takes them, but for extensions without fields (see ``arrow.of_values``)."""


class Row(NamedTuple):
    """One message.

    Attributes:
        described: What it is.
        at: Where it begins.
        end: Behind its last byte.
        within: Where the message begins that it stands in; None at the top.
        values: Its fields.
    """

    described: shape.Message
    at: int
    end: int
    within: int | None
    values: Values


class State(NamedTuple):
    """What the steps of a message share.

    Attributes:
        at: Where the message begins.
        rows: The messages inside that are complete.
    """

    at: int
    rows: list[Row]


Step = Callable[[Values, Reader, State], None]
"""Reads one shape into the values, or raises the first WireError that strict decoding finds in it."""


class Rowwise:
    """Reads messages one after the other."""

    def __init__(self, shapes: Shapes) -> None:
        """Prepares the steps for every message."""
        self._shapes = shapes
        self._steps = {key: self._prepare(message.fields) for key, message in shapes.items()}

    def message(self, reader: Reader, described: shape.Message, within: int | None = None) -> list[Row]:
        """Reads one message, the reader moves behind it. Messages that follow inside a FRAME are left alone.

        Returns:
            The message and the bodies inside, outermost first.

        Raises:
            WireError: It is refused; the path does not begin with its name yet.
        """
        at = reader.at
        state = State(at, [])
        values: Values = {}
        for step in self._steps[described.kind, described.id]:
            step(values, reader, state)
        return [Row(described, at, reader.at, within, values), *state.rows]

    def _prepare(self, shapes: tuple[shape.Shape, ...]) -> tuple[Step, ...]:
        return tuple(step for described in shapes for step in self._step(described))

    def _step(self, described: shape.Shape) -> list[Step]:  # noqa: PLR0911  (one match over all kinds)
        match described:
            case shape.Packed() | shape.U8() | shape.Le() | shape.Vle():
                return [_plain(described)]
            case shape.Zid():
                return [_plain(described), _as_text(described.name, zid_to_text)]
            case shape.CountedBytes() | shape.Rest():
                return [
                    _plain(described),
                    *([_as_text(described.name, bytes.decode)] if described.text else []),
                ]
            case shape.When():
                return [_when(described.conditions, self._prepare(described.fields))]
            case shape.Many():
                return [_many(described, self._prepare(described.item))]
            case shape.Region():
                return [_region(described, self._prepare(described.fields))]
            case shape.Chain():
                return [_chain(described, [self._prepare(extension.fields) for extension in described.known])]
            case shape.Body():
                return [self._body(described)]
            case shape.Messages():
                return []
            case _:
                assert_never(described)

    def _body(self, described: shape.Body) -> Step:
        def step(values: Values, reader: Reader, state: State) -> None:
            try:
                number = reader.peek("its header byte") & 0x1F
            except WireError as error:
                error.about(described.name)
                raise
            if number not in described.ids:
                raise UnknownMessage(described.name, f"id {number:#04x} may not stand here", reader.at)
            inner = self._shapes[described.kind, number]
            try:
                state.rows.extend(self.message(reader, inner, state.at))
            except WireError as error:
                raise error.within(f"{described.name}.{inner.name}") from None

        return step


def unknown(kind: Kind, number: int, at: int) -> WireError:
    """Returns the error for an id that no message of a layer has."""
    return UnknownMessage("header", f"id {number:#04x} is no {kind.name.lower()} message", at)


def nothing(at: int) -> WireError:
    """Returns the error for a message without a byte."""
    return Truncated("header", "no byte at all", at)


def _plain(described: shape.Shape) -> Step:
    program = reading.program((described,))

    def step(values: Values, reader: Reader, state: State) -> None:
        found = Findings()
        reading.run(program, values, reader, found)
        if found:
            raise found[0]

    return step


def _as_text(name: str, convert: Callable[[bytes], str]) -> Step:
    def step(values: Values, reader: Reader, state: State) -> None:
        values[name] = convert(values[name])

    return step


def _when(conditions: shape.Conditions, inside: tuple[Step, ...]) -> Step:
    def step(values: Values, reader: Reader, state: State) -> None:
        if _hold(conditions, values, values.get(_HEADERS, ())):
            for one in inside:
                one(values, reader, state)

    return step


_HEADERS = "headers of the chain"
"""Key of the header bytes of all extensions, Z clear; no field is called so."""


def _hold(conditions: shape.Conditions, values: Values, headers: Any) -> bool:
    for need in conditions:
        if not need.holds(headers if isinstance(need, shape.Carries) else values[need.field]):
            return False
    return True


def _many(described: shape.Many, inside: tuple[Step, ...]) -> Step:
    name = described.name
    count_of = reading.program((shape.Vle(name, 64),))
    single = len(described.item) == 1

    def step(values: Values, reader: Reader, state: State) -> None:
        at = reader.at
        if described.times is None:
            said: Values = {}
            reading.run(count_of, said, reader, Findings())
            count = said[name]
        elif isinstance(described.times, int):
            count = described.times
        else:
            count = len(values.get(described.times) or ())
        if described.most is not None and count > described.most:
            raise BadValue(name, f"a count of {int(count)}, at most {described.most}", at)
        items: list[Any] = []
        for index in range(count):
            item: Values = {}
            try:
                for one in inside:
                    one(item, reader, state)
            except WireError as error:
                raise error.within(f"{name}[{index}]") from None
            items.append(next(iter(item.values())) if single else item)
        values[name] = items

    return step


def _length(reader: Reader) -> Reader:
    """Reads the length of a body and returns a reader of just the body."""
    at = reader.at
    try:
        length = reader.vle()
        if length >> 32:
            raise Overlong("length", f"a length of {int(length)}, at most {(1 << 32) - 1}", at)
        return reader.region(length, "a body")
    except WireError as error:
        raise type(error)("length", error.found, at) from None


def _fill(inside: tuple[Step, ...], reader: Reader, state: State) -> Values:
    """Reads fields that must fill what the reader has."""
    values: Values = {}
    for step in inside:
        step(values, reader, state)
    if reader.left:
        raise BadValue("length", f"{reader.left} bytes behind the last field of the body", reader.at)
    return values


def _region(described: shape.Region, inside: tuple[Step, ...]) -> Step:
    def step(values: Values, reader: Reader, state: State) -> None:
        try:
            values[described.name] = _fill(inside, _length(reader), state)
        except WireError as error:
            raise error.within(described.name) from None

    return step


def _chain(described: shape.Chain, bodies: list[tuple[Step, ...]]) -> Step:
    known: dict[int, list[tuple[shape.Extension, str, tuple[Step, ...]]]] = {}
    for extension, steps in zip(described.known, bodies, strict=True):
        known.setdefault(extension.header, []).append((extension, names.layer_name(extension), steps))

    def step(values: Values, reader: Reader, state: State) -> None:
        headers: set[int] = set()
        others: list[Values] = []
        index, more = 0, True
        while more:
            place, at = f"{described.name}[{index}]", reader.at
            try:
                head = reader.peek("the header of an extension")
            except WireError as error:
                error.about(described.name)
                raise
            if head & 0x60 == Enc.RESERVED << 5:
                raise BadValue(place, "an extension with the reserved encoding 3", at)
            header = head & 0x7F
            chosen = next(
                (one for one in known.get(header, ()) if _hold(one[0].conditions, values, headers)), None
            )
            headers.add(header)
            reader.at += 1
            try:
                raw, inside = _extension(header, chosen, reader, state)
            except WireError as error:
                raise error.within(f"{place}.{chosen[0].name if chosen else 'unknown extension'}") from None
            if chosen is None and head & 0x10 and not described.skips_mandatory:
                found = f"extension {head & 0x0F:#x} is not known here and is mandatory"
                raise UnknownMandatoryExtension(place, found, at)
            if chosen is None or inside is None or chosen[1] in values:
                others.append({"header": header, "body": raw})
            else:
                values[chosen[1]] = inside
            index, more = index + 1, head & 0x80 != 0
        values[_HEADERS] = headers
        values[OTHER] = others or None

    return step


_LENGTH = _plain(shape.Vle("length", 32, enforced=True))
_Z64 = _plain(shape.Vle("z64", 64))


def _extension(
    header: int, chosen: tuple[shape.Extension, str, tuple[Step, ...]] | None, reader: Reader, state: State
) -> tuple[bytes, Values | None]:
    """Reads an extension behind its header: its raw body, and its fields when they can be told."""
    counted = header >> 5 == Enc.ZBUF
    if counted and (chosen is None or chosen[0].bounded):
        inside = _length(reader)
        raw = reader.data[inside.at : inside.end]
        if chosen is None:
            return raw, None
        try:
            return raw, _fill(chosen[2], inside, state)
        except WireError:
            if chosen[0].enforced:
                raise
            # Bytes that nodes do not look into unless they must.
            return raw, None
    values: Values = {}
    if counted:
        _LENGTH({}, reader, state)
    at = reader.at
    if chosen is None:
        if header >> 5 == Enc.Z64:
            _Z64(values, reader, state)
        return reader.data[at : reader.at], None
    for step in chosen[2]:
        step(values, reader, state)
    return reader.data[at : reader.at], values
