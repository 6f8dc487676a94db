"""Base layers: what messages and extensions are in Scapy, and the choice of class by id.

``reading`` and ``writing`` are the Scapy readers of the shapes. A layer that is built takes ``None`` as
"computed" and every given value as it is, even a wrong one. A layer that is dissected never raises: what
it refuses is listed in ``errors``, and bytes it cannot take apart are kept as a Raw payload, so that
building it again gives the same bytes.
"""

# ruff: noqa: RUF012  (a field list is a class attribute: that is how Scapy layers are written)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self, cast

from scapy.fields import RawVal
from scapy.packet import NoPayload, Packet, Raw

from scapy_layers import answers, reading, shape
from scapy_layers.codes import Enc, Kind
from scapy_layers.errors import BadValue, Overlong, WireError
from scapy_layers.fields import (
    KIND_OF_IDS,
    AnyField,
    Bits,
    Flag,
    ListField,
    NumberField,
    PacketField,
    Rest,
    Vle,
    WhenField,
    packed,
    shapes_of,
    when,
)
from scapy_layers.primitives import VLE_MAX, Reader, write_vle
from scapy_layers.reading import Findings, holds
from scapy_layers.writing import Layout, layout_of, write


def message_class(kind: Kind, number: int) -> type[Message] | None:
    """Returns the class of a message by its layer and id, None when no such message is defined."""
    return cast("type[Message] | None", reading.by_id.get((kind, number)))


def kind_of(header: int) -> Kind:
    """Returns the layer of a message on a session link by its header byte.

    Transport and network ids do not overlap (Message Reference, Message ID Ranges); ids of neither
    count as transport.
    """
    return Kind.NETWORK if (Kind.NETWORK, header & 0x1F) in reading.by_id else Kind.TRANSPORT


def layer_class(described: shape.Message | shape.Extension | shape.Region) -> type[Layer]:
    """Returns the class that has a shape.

    Raises:
        KeyError: None has it.
    """
    if isinstance(described, shape.Message):
        return cast("type[Layer]", reading.by_id[described.kind, described.id])
    return cast("type[Layer]", reading.by_shape[described])


def known_extensions() -> tuple[type[Extension], ...]:
    """Returns the classes of all extensions that some message defines."""
    return tuple(cls for cls in reading.by_shape.values() if issubclass(cls, Extension))


# Layers -------------------------------------------------------------------------------------------


class _Unread(Exception):
    """A field of a partial layer was never read."""


_ATTRIBUTES = frozenset(Packet.__slots__) - {"fields", "original", "_pkt", "_answered"}
"""What Scapy puts into each packet; most readers never ask for it, so a layer that was read inside another one
gets it when it is asked for."""

_templates: dict[type[Layer], Layer] = {}

_FINDINGS = frozenset({"errors", "partial", "stopped"})
"""What dissection says about a layer; unset when there is nothing to say."""

# Scapy looks for a field of that name first.
_set = object.__setattr__
_set_fields = Packet.__dict__["fields"].__set__
_set_original = Packet.__dict__["original"].__set__
_get_overloaded = Packet.__dict__["overloaded_fields"].__get__


class Layer(Packet):
    """What messages and extensions have in common.

    A field that dissection has filled counts as given: flags and lengths stay as they were on the wire when
    another field is changed. ``del layer.Z`` (or ``layer.Z = None``) makes one computed again.

    Attributes:
        errors: What a strict decoder refuses in these bytes, the first ones in order; empty for a layer that
            was built.
        partial: Some fields were never read; the bytes from there on are a Raw payload, here or in the
            layer inside that could not be read.
        stopped: Where this layer ends is not known, so nothing can follow it.
    """

    __slots__ = ["_kept", "errors", "partial", "stopped"]

    errors: list[WireError]
    partial: bool
    stopped: bool
    show_indent = 0
    _layout: ClassVar[Layout]
    _program: ClassVar[reading.Program]
    _field_of: ClassVar[dict[str, AnyField]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._layout = layout_of(shapes_of(cls.fields_desc))
        cls._program = reading.program(cls._layout.shapes)
        cls._field_of = {field.name: field for field in cls.fields_desc}

    def __getattr__(self, attr: str) -> Any:
        field = self._field_of.get(attr)
        if field is not None:
            value = self.getfieldval(attr)
            return value if isinstance(value, RawVal) else field.i2h(self, value)
        if attr == "name":
            # Asked for so often that the rest shall not come along.
            _set(self, attr, self._name)
            return self._name
        if attr in _ATTRIBUTES:
            self._complete()
            return object.__getattribute__(self, attr)
        if attr in _FINDINGS:
            finding: list[WireError] | bool = [] if attr == "errors" else False
            _set(self, attr, finding)
            return finding
        return super().__getattr__(attr)

    def getfieldval(self, attr: str) -> Any:
        """Scapy's way to a field; a list that was not read is an own empty one, so that items can be appended."""
        value = self.fields.get(attr)
        if value is not None or attr not in self._field_of:
            return super().getfieldval(attr) if value is None else value
        if attr in self._layout.lists:
            value = []
            if not self.partial:
                # A field that was not read must stay without a value: building stops there.
                self.fields[attr] = value
            return value
        try:
            _get_overloaded(self)
        except AttributeError:
            # It was read inside another layer, and nobody asked yet for what Scapy keeps about it.
            return self._field_of[attr].default
        return super().getfieldval(attr)

    def _complete(self) -> None:
        """Gives a layer that was read what Scapy gives to one that it makes."""
        cls = type(self)
        if cls not in _templates:
            _templates[cls] = cls(_internal=1)
        template = _templates[cls]
        for attr in _ATTRIBUTES:
            try:
                object.__getattribute__(self, attr)
            except AttributeError:
                value: Any = 1 if attr == "explicit" else getattr(template, attr)
                own = attr in {"overloaded_fields", "post_transforms"}
                _set(self, attr, value.copy() if own else value)
        try:
            kept = object.__getattribute__(self, "_kept")
        except AttributeError:
            return
        object.__delattr__(self, "_kept")
        self.add_payload(Raw(kept))

    @classmethod
    def read(cls, reader: Reader, errors: Findings | None = None) -> Self:
        """Dissects a layer inside another one; the reader moves behind it.

        Args:
            reader: Stands at its first byte.
            errors: Gets what a strict decoder refuses in it.
        """
        if errors is None:
            errors = Findings()
        layer = cls.__new__(cls)
        _set_fields(layer, {})
        start, known = reader.at, len(errors)
        layer.dissect_from(reader, errors)
        _set_original(layer, reader.data[start : reader.at])
        if len(errors) > known:
            _set(layer, "errors", errors[known:])
        return layer

    def dissect_from(self, reader: Reader, errors: Findings) -> None:
        """Fills the fields from a reader; never raises for what the bytes are."""
        try:
            if not reading.run(self._program, self.fields, reader, errors):
                _set(self, "partial", True)
                _set(self, "stopped", True)
        except WireError as error:
            self._stop(error, reader, errors)

    def _stop(self, error: WireError, reader: Reader, errors: Findings) -> None:
        """Gives up at a field: keeps the bytes from there on as a Raw payload."""
        errors.add(error)
        _set(self, "partial", True)
        _set(self, "stopped", True)
        self._keep(reader)

    def _keep(self, reader: Reader) -> None:
        """Keeps the bytes that are left as a payload; Scapy gets it when it asks."""
        if not reader.left:
            return
        try:
            _get_overloaded(self)
        except AttributeError:
            _set(self, "_kept", reader.rest())
        else:
            self.add_payload(Raw(reader.rest()))

    @classmethod
    def wire_shapes(cls) -> tuple[shape.Shape, ...]:
        """Returns the shapes of all fields in wire order."""
        return cls._layout.shapes

    def do_dissect(self, s: bytes) -> bytes:
        """Scapy's entry: dissects and returns the bytes behind this layer."""
        # The fields are what the wire said, they are no set of values to choose from.
        _set(self, "explicit", 1)
        reader = Reader(bytes(s))
        found = Findings()
        self.dissect_from(reader, found)
        self.errors = list(found)
        return reader.rest()

    def self_build(self) -> bytes:
        """Scapy's entry: the bytes of this layer without a payload."""
        out = bytearray()
        self._build_shapes(self.wire_shapes(), out)
        return bytes(out)

    def _build_shapes(self, shapes: tuple[shape.Shape, ...], out: bytearray) -> None:
        """Appends the bytes of some fields, up to the first one that dissection could not read."""
        try:
            for described in shapes:
                write(described, self._read_value if self.partial else self.value, out)
        except _Unread:
            pass

    def _read_value(self, name: str) -> Any:
        if name not in self.fields:
            raise _Unread
        return self.value(name)

    def value(self, name: str) -> Any:
        """Returns a field as it goes onto the wire: given, dissected, default, or computed.

        Raises:
            AttributeError: No such field.
        """
        given = self.fields.get(name)
        if given is not None:
            return given
        if name not in self.default_fields:
            return self.getfieldval(name)
        return self._layout.value(name, self.fields, self.default_fields)

    def present(self, conditions: shape.Conditions) -> bool:
        """Tells whether all conditions hold."""
        return holds(conditions, self.value)

    def clone_with(self, *args: Any, **kwargs: Any) -> Any:
        """Scapy's copy of a packet with other values; keeps what dissection found."""
        return self._keep_findings(super().clone_with(*args, **kwargs))

    def copy(self) -> Self:
        """Returns a deep copy that keeps what dissection found."""
        return self._keep_findings(super().copy())

    def _keep_findings(self, clone: Self) -> Self:
        clone.errors = list(self.errors)
        clone.partial = self.partial
        clone.stopped = self.stopped
        clone.original = self.original
        return clone

    def mysummary(self) -> str:
        """Scapy's one-line summary."""
        return self.describe()

    def hashret(self) -> bytes:
        """Scapy's entry: bytes that a question and its answers share."""
        return answers.hashret(self)

    def answers(self, other: Packet) -> bool:
        """Scapy's entry: tells whether this answers another message."""
        return answers.answers(self, other)

    def describe(self) -> str:
        """Returns one line: the name and what differs from the defaults."""
        return " ".join([str(self.name), *self._details()])

    def _details(self) -> Iterator[str]:
        for field in self.fields_desc:
            value = self.fields.get(field.name)
            if value is None or field.name in _FRAMING:
                continue
            inner = field.fld if isinstance(field, WhenField) else field
            if isinstance(field, WhenField) and not self.present(field.conditions):
                continue
            if isinstance(inner, ListField) and inner.holds_packets:
                inside = ", ".join(_shown(item) for item in value)
                if inside:
                    yield f"[{inside}]"
            elif isinstance(inner, PacketField):
                yield _shown(value)
            elif isinstance(inner, NumberField) and isinstance(inner.shape, shape.Packed):
                bits = next(bits for bits in inner.shape.bits if bits.name == field.name)
                if bits.names or (value and not bits.counts and bits.name not in _PRESENCE):
                    yield f"{field.name}={inner.i2repr(self, value)}"
            else:
                text = inner.i2repr(self, value)
                yield f"{field.name}={text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + '...'}"
        if not isinstance(self.payload, NoPayload):
            yield f"+ {len(bytes(self.payload))} bytes not understood"


_FRAMING = frozenset({"mid", "ENC", "ext_id", "length"})
"""Fields that one line about a layer leaves out: its name says them."""

_KEPT_FIELDS = _FRAMING | {"Z", "M"}
"""Fields in front of the body of an extension."""

_PRESENCE = frozenset({"Z", "N", "M", "S"})
"""Flags that one line about a layer leaves out: what they announce is there to be seen."""

_MOST_SHOWN = 80
"""Characters of one value in one line about a layer."""


def _shown(item: Any) -> str:
    """Returns one line about a layer inside another; what was put there to mislead is shown as it is."""
    return item.describe() if isinstance(item, Layer) else repr(item)


class Message(Layer):
    """A message with a header byte and an id.

    Attributes:
        kind: The layer whose ids its id belongs to.
        id: Bits 4:0 of the header byte.
    """

    kind: ClassVar[Kind]
    id: ClassVar[int]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        mid = _bits_of_header(cls)["mid"]
        assert mid.names
        assert mid.default is not None
        cls.kind = KIND_OF_IDS[mid.names]
        cls.id = mid.default
        # The first class of an id is the one that dissection makes; variants of it may be derived.
        reading.by_id.setdefault((cls.kind, cls.id), cls)

    @classmethod
    def shape(cls) -> shape.Message:
        """Returns the description of this message, for every other reader."""
        return shape.Message(str(cls._name), cls.kind, cls.id, cls.wire_shapes())


def _bits_of_header(cls: type[Layer]) -> dict[str, shape.Bits]:
    header = cls.wire_shapes()[0]
    assert isinstance(header, shape.Packed)
    return {bits.name: bits for bits in header.bits}


def extension(number: int, enc: Enc, *body: AnyField, mandatory: bool = False) -> list[AnyField]:
    """The field list of an extension: header, length (ZBuf only, computed unless given), body.

    Spec: Message Reference, extension headers; ``Z ENC ENC M id id id id``.
    """
    head = packed(
        Flag("Z"),
        Bits("ENC", 2, Enc, default=enc, allowed=[enc]),
        Bits("M", 1, default=mandatory, allowed=[mandatory]),
        Bits("ext_id", 4, default=number, allowed=[number]),
    )
    return [*head, *_counted_body(), *body]


def region(*body: AnyField) -> list[AnyField]:
    """The field list of a region: length (computed unless given), body."""
    return [_length(), *body]


def _counted_body() -> list[AnyField]:
    return when(("ENC", Enc.ZBUF), _length())


def _length() -> AnyField:
    return NumberField("length", None, shape.Vle("length", 32, enforced=True), VLE_MAX, None)


class _Counted(Layer):
    """A layer whose body stands behind a length."""

    _head: ClassVar[reading.Program]
    _inside: ClassVar[reading.Program]
    enforced: ClassVar[bool] = True

    def _read_length(self, reader: Reader, errors: Findings) -> Reader | None:
        """Reads the length and returns a reader of just the body; None when it stopped at the length."""
        at = reader.at
        try:
            length = reader.vle()
            if length >> 32:
                raise Overlong("length", f"a length of {int(length)}, at most {(1 << 32) - 1}", at)
            inside = reader.region(length, "a body")
        except WireError as error:
            reader.at = at
            self._stop(type(error)("length", error.found, at), reader, errors)
            return None
        self.fields["length"] = length
        return inside

    def _read_inside(self, inside: Reader, errors: Findings) -> None:
        """Reads the body; what its fields leave over is kept as a Raw payload."""
        start = inside.at
        found = errors if self.enforced else Findings()
        try:
            whole = reading.run(self._inside, self.fields, inside, found)
        except WireError as error:
            # The body cannot be taken apart, but its length says where the next field is.
            found.add(error)
            whole = False
        if whole and inside.left:
            left = f"{inside.left} bytes behind the last field of the body"
            found.note(BadValue, "length", left, inside.at)
        if not whole:
            _set(self, "partial", True)
        # What is behind it can be read, whatever is in it.
        _set(self, "stopped", False)
        if found.total and not self.enforced:
            # Bytes that nodes do not look into unless they must: nothing wrong with them, just not understood.
            _set(self, "partial", True)
            for name in self._layout.defaults:
                if name not in _KEPT_FIELDS:
                    self.fields.pop(name, None)
            inside.at = start
        self._keep(inside)

    def _build_inside(self, counted: bool, shapes: tuple[shape.Shape, ...]) -> bytes:
        """Returns length and body, without a payload; the length counts the payload too."""
        body = bytearray()
        self._build_shapes(shapes, body)
        length = self.getfieldval("length")
        # Without a length that was read, the payload has the length too.
        if counted and (length is not None or not self.partial):
            return write_vle(len(body) + len(bytes(self.payload)) if length is None else length) + body
        return bytes(body)


class Region(_Counted):
    """A VLE count of bytes and the fields inside. Its field list is made by ``region``."""

    fields_desc = region()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._inside = cls._program[1:]

    def dissect_from(self, reader: Reader, errors: Findings) -> None:
        """Reads the length, then the body within it."""
        inside = self._read_length(reader, errors)
        if inside:
            self._read_inside(inside, errors)

    def self_build(self) -> bytes:
        """Scapy's entry: length and body without a payload."""
        return self._build_inside(True, self.wire_shapes()[1:])

    def __repr__(self) -> str:
        # One may stand in an item of a list, which command() prints by repr().
        return str(self.command())


def RegionOf(name: str, cls: type[Region]) -> PacketField:  # noqa: N802
    """A field that holds a region; bytes in its place are what the region shall hold instead."""
    described = shape.Region(name, cls.wire_shapes()[1:])
    reading.by_shape[described] = cls
    return PacketField(name, None, described)


class Extension(_Counted):
    """One extension of a chain. Its field list is made by ``extension``.

    Attributes:
        enforced: A decoder refuses a body that does not fit the fields; otherwise such bytes are kept.
        bounded: The length says where the body ends.
        conditions: On the message around it, where two extensions have the same header byte.
    """

    fields_desc = extension(0, Enc.UNIT)
    bounded: ClassVar[bool] = True
    conditions: ClassVar[shape.Conditions] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._head, cls._inside = cls._program[:1], cls._program[2:]

    @classmethod
    def shape(cls) -> shape.Extension:
        """Returns the description of this extension, for every other reader."""
        bits = _bits_of_header(cls)
        number, enc, mandatory = (bits[name].default or 0 for name in ("ext_id", "ENC", "M"))
        body = cls.wire_shapes()[2:]
        return shape.Extension(
            str(cls._name), number, Enc(enc), bool(mandatory), body, cls.enforced, cls.bounded, cls.conditions
        )

    @property
    def header(self) -> int:
        """The header byte with Z clear: what tells one extension of a message from another."""
        return int(self.value("ENC") << 5 | self.value("M") << 4 | self.value("ext_id"))

    def dissect_from(self, reader: Reader, errors: Findings) -> None:
        """Reads header and length, then the body within that length."""
        fields = self.fields
        try:
            reading.run(self._head, fields, reader, errors)
            if fields["ENC"] != Enc.ZBUF or not self.bounded:
                reading.run(self._program[1:], fields, reader, errors)
                return
            inside = self._read_length(reader, errors)
        except WireError as error:
            self._stop(error, reader, errors)
            inside = None
        if inside:
            self._read_inside(inside, errors)

    def self_build(self) -> bytes:
        """Scapy's entry: header, length and body without a payload."""
        header, _, *body = self.wire_shapes()
        out = bytearray()
        self._build_shapes((header,), out)
        return bytes(out) + self._build_inside(self.value("ENC") == Enc.ZBUF, tuple(body))


class UnknownExtension(Extension):
    """An extension that the message does not define; kept as it is.

    ``z64`` stands when ENC is 1 (Z64), ``data`` when it is 2 (ZBuf); ENC is computed from which one is given.
    """

    name = "unknown extension"
    fields_desc = [
        *packed(
            Flag("Z"),
            Bits("ENC", 2, Enc, default=None, allowed=(Enc.UNIT, Enc.Z64, Enc.ZBUF)),
            Bits("M", 1),
            Bits("ext_id", 4, default=0xF),
        ),
        *_counted_body(),
        *when(("ENC", Enc.Z64), Vle("z64", 64)),
        *when(("ENC", Enc.ZBUF), Rest("data")),
    ]

    def describe(self) -> str:
        """Returns one line: what stands in the header, and the body."""
        what = "mandatory" if self.value("M") else "optional"
        return " ".join([f"unknown {what} extension {int(self.value('ext_id')):#x}", *self._details()])


reading.unknown_extension.append(UnknownExtension)


def Extensions(*known: type[Extension], skips_mandatory: bool = False, always: bool = False) -> AnyField:  # noqa: N802
    """The extension chain of a message: present when Z is set.

    Args:
        known: The extensions this message defines.
        skips_mandatory: Unknown mandatory ones are no reason to refuse (scouting, as real nodes do).
        always: There is no Z that announces the chain: it is the whole body of what is around it.

    Raises:
        TypeError: Two classes describe the same extension.
    """
    for cls in known:
        other = reading.by_shape.setdefault(cls.shape(), cls)
        if other is not cls:
            raise TypeError(f"{cls.__name__} describes the same extension as {other.__name__}")
    chain = shape.Chain("extensions", tuple(cls.shape() for cls in known), skips_mandatory)
    field = ListField("extensions", chain, packets=True)
    return field if always else when("Z", field)[0]
