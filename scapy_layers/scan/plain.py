"""Messages read into plain values, for what a reader of captures has to know of them. No Scapy.

Says the same as the layers do about the same bytes: which messages a batch consists of, what stands in their
fields, which of them a strict decoder refuses, and where nothing can follow. The steps that read numbers and bytes
are those of ``reading``; what has messages or extensions inside is put together here.
"""

# ruff: noqa: SLF001  (every step has the same arguments; the steps of single fields are shared)

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scapy_layers import reading, shape
from scapy_layers.codes import Enc, Kind
from scapy_layers.derive.columns import Decoded, Decoder, Units
from scapy_layers.errors import BadValue, Overlong, UnknownMandatoryExtension, UnknownMessage, WireError
from scapy_layers.primitives import Reader
from scapy_layers.reading import Findings, Program, Step, Values

Shapes = Mapping[tuple[Kind, int], shape.Message]
"""The description of every message by layer and id."""

_LENGTH = 32
"""Bits of the length in front of the body of an extension or region."""

_UNKNOWN: tuple[shape.Shape, ...] = (
    shape.When((shape.Condition("ENC", Enc.Z64),), (shape.Vle("z64", 64),)),
    shape.When((shape.Condition("ENC", Enc.ZBUF),), (shape.Rest("data"),)),
)
"""The body of an extension that a message does not define."""


@dataclass(slots=True, eq=False)
class Plain:
    """A message, extension or region as it was read.

    Attributes:
        name: What the specification calls it; empty for an unknown extension.
        kind: Layer of a message.
        fields: Values by name.
        refused: How many times a strict decoder refuses it: itself, or what is inside.
        own: The same without the messages that a FRAME carries.
        stopped: Where it ends is not known, so nothing can follow it.
        at: Where a message begins in its batch.
    """

    name: str
    kind: Kind | None = None
    fields: Values = field(default_factory=dict)
    refused: int = 0
    own: int = 0
    stopped: bool = False
    at: int = 0

    def extension(self, name: str, number: int | None = None, enc: Enc | None = None) -> Plain | None:
        """Returns an extension that the message defines; of several equal ones the last counts.

        Args:
            name: What the specification calls it.
            number: Its id, where extensions share the name.
            enc: Its encoding, where they share that as well.
        """
        found: Plain | None = None
        for one in self.fields.get("extensions") or ():
            if (
                one.name == name
                and number in {None, one.fields["ext_id"]}
                and enc in {None, one.fields["ENC"]}
            ):
                found = one
        return found


class Language:
    """Reads messages as some shapes describe them. Can be pickled.

    Attributes:
        shapes: The descriptions.
    """

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self._programs: dict[tuple[Kind, int], tuple[str, Program]] = {}
        self._unknown = self._program(_UNKNOWN)
        self._decoder: Decoder | None = None

    def __reduce__(self) -> tuple[type[Language], tuple[dict[tuple[Kind, int], shape.Message]]]:
        return Language, (dict(self.shapes),)

    def read(self, kind: Kind, number: int, reader: Reader) -> Plain | None:
        """Reads one message, tolerantly; the reader moves behind it. None when there is none of that id."""
        known = self._programs.get((kind, number))
        if known is None:
            described = self.shapes.get((kind, number))
            if described is None:
                return None
            known = self._programs[kind, number] = described.name, self._program(described.fields)
        name, program = known
        message, errors = Plain(name, kind), Findings()
        self._run(message, program, reader, errors)
        message.refused = errors.total
        message.own = errors.total - message.fields.pop(_CARRIED, 0)
        return message

    def messages(self, raw: bytes) -> Iterator[Plain]:
        """Yields the messages of a batch; bytes that are none come last, as a refused one without a kind."""
        reader = Reader(raw)
        while reader.left:
            at = reader.at
            number = reader.peek() & 0x1F
            kind = Kind.NETWORK if (Kind.NETWORK, number) in self.shapes else Kind.TRANSPORT
            message = self.read(kind, number, reader)
            if message is None:
                yield Plain("UNREAD", refused=1, own=1, stopped=True, at=at)
                return
            message.at = at
            yield message
            if message.stopped and reader.left:
                yield Plain("UNREAD", stopped=True, at=reader.at)
                return

    def strict(self, raw: bytes) -> list[Plain]:
        """Returns the messages of a batch; none if strict decoding refuses any of it."""
        found = []
        for message in self.messages(raw):
            if message.refused:
                return []
            found.append(message)
        return found

    def scouting(self, raw: bytes) -> Plain | None:
        """Returns the message of scouting that a datagram is to the byte."""
        reader = Reader(raw)
        message = self.read(Kind.SCOUTING, raw[0] & 0x1F, reader) if raw else None
        return message if message is not None and not message.refused and not reader.left else None

    def refused(self, units: Units) -> NDArray[np.int64]:
        """Returns which of many units a strict decoder refuses."""
        found: NDArray[np.int64] = self._decoded(units).errors.column("unit").to_numpy()
        return found

    def harmless(self, units: Units) -> NDArray[np.bool_]:
        """Tells which of many units a strict decoder takes, and hold nothing that begins or ends a session."""
        decoded = self._decoded(units)
        good = np.ones(len(units.start), np.bool_)
        for table in (decoded.errors, *decoded.tables.values()):
            good[table.column("unit").to_numpy()] = False
        return good

    def _decoded(self, units: Units) -> Decoded:
        if self._decoder is None:
            self._decoder = Decoder(self.shapes, dict.fromkeys(("init", "open", "close", "join"), ()))
        return self._decoder.decode(units)

    # From shapes to steps -----------------------------------------------------------------------

    def _program(self, shapes: tuple[shape.Shape, ...]) -> Program:
        return tuple((self._step(described), reading._name(described)) for described in shapes)

    def _step(self, described: shape.Shape) -> Step:  # noqa: PLR0911  (one match over all kinds of shape)
        match described:
            case shape.When():
                return self._when(described)
            case shape.Many():
                return self._many(described)
            case shape.Region():
                return self._region(described)
            case shape.Chain():
                return self._chain(described)
            case shape.Body():
                return self._body(described)
            case shape.Messages():
                return self._messages(described)
            case _:
                return reading._step(described)

    def _run(self, layer: Plain, program: Program, reader: Reader, errors: Findings) -> None:
        """Fills a layer; it keeps the bytes from the field on that cannot be read."""
        try:
            layer.stopped = not reading.run(program, layer.fields, reader, errors)
        except WireError as error:
            _stop(layer, error, reader, errors)

    def _inside(
        self, layer: Plain, program: Program, enforced: bool, inside: Reader, errors: Findings
    ) -> None:
        """Reads a body within its length; what is behind it can be read, whatever is in it."""
        start = inside.at
        found = errors if enforced else Findings()
        try:
            whole = reading.run(program, layer.fields, inside, found)
        except WireError as error:
            found.add(error)
            whole = False
        if whole and inside.left:
            found.note(
                BadValue, "length", f"{inside.left} bytes behind the last field of the body", inside.at
            )
        layer.stopped = False
        if found.total and not enforced:
            for name in [name for name in layer.fields if name not in _HEADER]:
                del layer.fields[name]
            inside.at = start

    def _when(self, described: shape.When) -> Step:
        inside = self._program(described.fields)

        def step(values: Values, reader: Reader, errors: Findings) -> bool:
            for need in described.conditions:
                if isinstance(need, shape.Carries):
                    fits = need.holds(_headers(values.get(need.field) or ()))
                else:
                    fits = need.holds(values[need.field])
                if not fits:
                    return True
            return reading.run(inside, values, reader, errors)

        return step

    def _many(self, described: shape.Many) -> Step:
        name, inside = described.name, self._program(described.item)

        def step(values: Values, reader: Reader, errors: Findings) -> bool:
            at = reader.at
            match described.times:
                case None:
                    count = reader.vle()
                case int():
                    count = described.times
                case _:
                    count = len(values.get(described.times) or ())
            if described.most is not None and count > described.most:
                errors.note(BadValue, name, f"a count of {int(count)}, at most {described.most}", at)
            items: list[Values] = []
            values[name] = items
            for _ in range(count):
                start, item = reader.at, Values()
                try:
                    reading.run(inside, item, reader, errors)
                except WireError:
                    reader.at = start
                    raise
                items.append(item)
            return True

        return step

    def _region(self, described: shape.Region) -> Step:
        inside = self._program(described.fields)

        def step(values: Values, reader: Reader, errors: Findings) -> bool:
            inner = values[described.name] = Plain(described.name)
            body = _body_of(inner, reader, errors)
            if body is not None:
                self._inside(inner, inside, True, body, errors)
            return not inner.stopped

        return step

    def _chain(self, described: shape.Chain) -> Step:
        known: dict[int, list[tuple[shape.Extension, Program]]] = {}
        for extension in described.known:
            known.setdefault(extension.header, []).append((extension, self._program(extension.fields)))

        def step(values: Values, reader: Reader, errors: Findings) -> bool:
            chain: list[Plain] = []
            values[described.name] = chain
            seen: set[int] = set()
            more = True
            while more:
                at = reader.at
                head = reader.peek("the header of an extension")
                if head >> 5 & 3 == Enc.RESERVED:
                    raise BadValue(described.name, "an extension with the reserved encoding 3", at)
                extension, program = _chosen(known.get(head & 0x7F, ()), values, seen)
                program = self._unknown if extension is None else program
                seen.add(head & 0x7F)
                total = errors.total
                inner = self._extension(extension, program, reader, errors)
                chain.append(inner)
                if errors.total > total and inner.stopped:
                    return False
                if head & 0x10 and extension is None and not described.skips_mandatory:
                    found = f"extension {head & 0x0F:#x} is not known here and is mandatory"
                    errors.note(UnknownMandatoryExtension, described.name, found, at)
                more = head & 0x80 != 0
            return True

        return step

    def _extension(
        self, described: shape.Extension | None, program: Program, reader: Reader, errors: Findings
    ) -> Plain:
        head = reader.u8()
        layer = Plain("" if described is None else described.name)
        enc = head >> 5 & 3
        layer.fields = {"ENC": enc, "M": head >> 4 & 1, "ext_id": head & 0x0F}
        if enc != Enc.ZBUF:
            self._unbounded(layer, program, reader, errors)
        elif described is not None and not described.bounded:
            self._unbounded(layer, (_LENGTH_STEP, *program), reader, errors)
        else:
            body = _body_of(layer, reader, errors)
            if body is not None:
                self._inside(layer, program, described is None or described.enforced, body, errors)
        return layer

    def _unbounded(self, layer: Plain, program: Program, reader: Reader, errors: Findings) -> None:
        try:
            reading.run(program, layer.fields, reader, errors)
        except WireError as error:
            _stop(layer, error, reader, errors)

    def _body(self, described: shape.Body) -> Step:
        def step(values: Values, reader: Reader, errors: Findings) -> bool:
            number = reader.peek("its header byte") & 0x1F
            inner = self.read(described.kind, number, reader) if number in described.ids else None
            if inner is None:
                raise UnknownMessage(described.name, f"id {number:#04x} may not stand here", reader.at)
            values[described.name] = inner
            errors.total += inner.refused
            return not (inner.refused and inner.stopped)

        return step

    def _messages(self, described: shape.Messages) -> Step:
        ids = frozenset(described.ids)

        def step(values: Values, reader: Reader, errors: Findings) -> bool:
            messages: list[Plain] = []
            values[described.name] = messages
            while reader.at < reader.end:
                number = reader.data[reader.at] & 0x1F
                inner = self.read(described.kind, number, reader) if number in ids else None
                if inner is None:
                    break
                messages.append(inner)
                if inner.refused:
                    errors.total += inner.refused
                    values[_CARRIED] = values.get(_CARRIED, 0) + inner.refused
                    if inner.stopped:
                        return False
            return True

        return step


_CARRIED = " refused"
"""Stands for how often the messages inside are refused until that is taken away; no field has such a name."""

_HEADER = frozenset({"ENC", "M", "ext_id", "length"})

_LENGTH_STEP = (reading._step(shape.Vle("length", _LENGTH, enforced=True)), "length")


def _stop(layer: Plain, error: WireError, reader: Reader, errors: Findings) -> None:
    errors.add(error)
    layer.stopped = True
    reader.at = reader.end


def _body_of(layer: Plain, reader: Reader, errors: Findings) -> Reader | None:
    """Reads a length and returns a reader of just the body; None when it stopped at the length."""
    at = reader.at
    try:
        length = reader.vle()
        if length >> _LENGTH:
            raise Overlong("length", f"a length of {int(length)}", at)
        inside = reader.region(length, "a body")
    except WireError as error:
        _stop(layer, error, reader, errors)
        return None
    layer.fields["length"] = length
    return inside


def _headers(chain: Collection[Plain]) -> set[int]:
    """Returns the header bytes of extensions, Z clear."""
    return {one.fields["ENC"] << 5 | one.fields["M"] << 4 | one.fields["ext_id"] for one in chain}


def _chosen(
    known: Collection[tuple[shape.Extension, Program]], values: Values, seen: set[int]
) -> tuple[shape.Extension | None, Program]:
    for extension, program in known:
        for need in extension.conditions:
            fits = need.holds(seen) if isinstance(need, shape.Carries) else need.holds(values[need.field])
            if not fits:
                break
        else:
            return extension, program
    return None, ()
