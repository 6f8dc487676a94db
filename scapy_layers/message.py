"""Base layers: what messages and extensions are in Scapy, and the choice of class by id.

``reading`` and ``writing`` are the Scapy readers of the shapes. A layer that is built takes ``None`` as
"computed" and every given value as it is, even a wrong one. A layer that is dissected never raises: what
it refuses is listed in ``errors``, and bytes it cannot take apart are kept as a Raw payload, so that
building it again gives the same bytes.
"""

# ruff: noqa: RUF012  (a field list is a class attribute: that is how Scapy layers are written)

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, ClassVar, Self, cast

from scapy.fields import RawVal
from scapy.packet import NoPayload, Packet, Raw
from scapy.volatile import RandField

from scapy_layers import answers, reading, shape, writing
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
    ZenohField,
    packed,
    shapes_of,
    when,
)
from scapy_layers.primitives import VLE_MAX, Reader, write_vle
from scapy_layers.reading import Findings, Values, holds
from scapy_layers.writing import Layout, Unfinished, Unread, Unsettled, append_vle, layout_of


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


_ATTRIBUTES = frozenset(Packet.__slots__) - {"fields", "explicit", "original", "_pkt", "_answered"}
"""What Scapy puts into each packet. Most layers are made, read and built without anybody asking for it, so they get it
when it is asked for."""

_COMPLETE, _CUT, _PLAIN = range(3)
"""What there is of a layer: all that Scapy gives to a packet; its fields, and bytes that could not be read or fields
that were not; nothing but its fields."""

_templates: dict[type[Layer], Values] = {}
"""What Scapy puts into a packet of each class."""

_UNLESS_SET: dict[str, Any] = {
    "errors": [],
    "partial": False,
    "stopped": False,
    "original": b"",
    "explicit": 1,
}
"""What these are as long as dissection has nothing to say; a layer that was read stands for itself, so it is explicit."""

_OWNED = (list, dict, set, RandField, Packet)
"""Defaults of which Scapy gives a copy to each packet."""

_BUILDING = (
    *("__bytes__", "build", "do_build", "self_build", "post_build", "build_done", "__iter__", "clone_with"),
    *("do_build_payload", "build_padding"),
)
"""What a class can have of its own to be built in its own way."""

# Scapy looks for a field of that name first.
_set = object.__setattr__
_set_fields = Packet.__dict__["fields"].__set__
_set_original = Packet.__dict__["original"].__set__
_set_explicit = Packet.__dict__["explicit"].__set__


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

    __slots__ = ["_extent", "_kept", "errors", "partial", "stopped"]

    _extent: int
    errors: list[WireError]
    partial: bool
    stopped: bool
    show_indent = 0
    _layout: ClassVar[Layout]
    _program: ClassVar[reading.Program]
    _steps: ClassVar[writing.Program]
    _field_of: ClassVar[dict[str, AnyField]]
    _defaults: ClassVar[Values]
    _own: ClassVar[tuple[str, ...] | None]
    _plain: ClassVar[dict[str, ZenohField]]
    _inputs: ClassVar[tuple[tuple[str, Callable[[Packet | None, Any], Any]], ...]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._layout = layout_of(shapes_of(cls.fields_desc))
        cls._program = reading.program(cls._layout.shapes)
        cls._steps = writing.program(cls._layout.shapes)
        cls._field_of = {field.name: field for field in cls.fields_desc}
        cls._plain = {
            name: field.fld if isinstance(field, WhenField) else field
            for name, field in cls._field_of.items()
        }
        cls._inputs = tuple((name, field.any2i) for name, field in cls._plain.items())
        cls._defaults = {name: field.default for name, field in cls._plain.items()}
        # A layer gets lists of its own; what else there may be, each layer gets a copy of, is left to Scapy.
        own = [name for name, value in cls._defaults.items() if isinstance(value, _OWNED)]
        cls._own = tuple(own) if all(cls._defaults[name] == [] for name in own) else None
        if all(getattr(cls, name) is getattr(Layer, name) for name in _BUILDING):
            writing.writers[cls] = cls._append_to

    def __init__(self, *args: Any, **given: Any) -> None:
        if not args and self._own is not None:
            fields: Values = {}
            for name in self._own:
                fields[name] = []
            found = 0
            if given:
                # In wire order, whatever the order in which they are given.
                for name, convert in self._inputs:
                    if name in given:
                        value = given[name]
                        fields[name] = value if isinstance(value, RawVal) else convert(self, value)
                        found += 1
            if found == len(given):
                _set_fields(self, fields)
                _set_explicit(self, 0)
                _set_extent(self, _PLAIN)
                return
        _set_extent(self, _COMPLETE)
        super().__init__(*args, **given)

    def __getattr__(self, attr: str) -> Any:
        field = self._field_of.get(attr)
        if field is not None:
            value = self.getfieldval(attr)
            return value if isinstance(value, RawVal) else field.i2h(self, value)
        if attr == "name":
            # Asked for so often that the rest shall not come along.
            _set(self, attr, self._name)
            return self._name
        if attr in _ATTRIBUTES and self._extent != _COMPLETE:
            self._complete()
            return object.__getattribute__(self, attr)
        if attr in _UNLESS_SET:
            finding = copy(_UNLESS_SET[attr])
            _set(self, attr, finding)
            return finding
        if attr in Packet.__slots__ or attr in Layer.__slots__:
            raise AttributeError(attr)
        return super().__getattr__(attr)

    def __setattr__(self, attr: str, value: Any) -> None:
        if attr in self._field_of:
            self.setfieldval(attr, value)
            return
        if self._extent != _COMPLETE:
            self._complete()
        super().__setattr__(attr, value)

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
        if self._extent != _COMPLETE:
            return None if attr in self.fields else self._defaults[attr]
        return super().getfieldval(attr)

    def setfieldval(self, attr: str, val: Any) -> None:
        """Scapy's way to set a field."""
        field = self._plain.get(attr)
        if field is None:
            super().setfieldval(attr, val)
            return
        self.fields[attr] = val if isinstance(val, RawVal) else field.any2i(self, val)
        self._changed()

    def delfieldval(self, attr: str) -> None:
        """Scapy's way to make a field computed again."""
        if attr in self.fields:
            del self.fields[attr]
            self._changed()
        else:
            super().delfieldval(attr)

    def _changed(self) -> None:
        """Forgets what Scapy knew of the fields."""
        _set_explicit(self, 0)
        if self._extent == _COMPLETE:
            for attr in ("raw_packet_cache", "raw_packet_cache_fields", "wirelen"):
                _set(self, attr, None)

    def _complete(self) -> None:
        """Gives a layer what Scapy gives to one that it makes."""
        cls = type(self)
        if cls not in _templates:
            template = cls(_internal=1)
            _templates[cls] = {attr: getattr(template, attr) for attr in _ATTRIBUTES}
        _set_extent(self, _COMPLETE)
        for attr, value in _templates[cls].items():
            _set(self, attr, value)
        # Another one since layers were bound anew.
        _set(self, "overload_fields", self._overload_fields)
        _set(self, "overloaded_fields", {})
        _set(self, "post_transforms", [])
        # Of its own, because fuzz() changes those of the copy that it makes.
        _set(self, "default_fields", dict(self._defaults))
        if not self.explicit:
            # It was made here, and this is the first time that anybody wants to know when.
            _set(self, "time", Packet().time)
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
        _set_extent(layer, _PLAIN)
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
                self._cut()
                _set(self, "stopped", True)
        except WireError as error:
            self._stop(error, reader, errors)

    def _cut(self) -> None:
        """Takes note that some fields were not read."""
        _set(self, "partial", True)
        if self._extent != _COMPLETE:
            _set_extent(self, _CUT)

    def _stop(self, error: WireError, reader: Reader, errors: Findings) -> None:
        """Gives up at a field: keeps the bytes from there on as a Raw payload."""
        errors.add(error)
        self._cut()
        _set(self, "stopped", True)
        self._keep(reader)

    def _keep(self, reader: Reader) -> None:
        """Keeps the bytes that are left as a payload; Scapy gets it when it asks."""
        if not reader.left:
            return
        if self._extent == _COMPLETE:
            self.add_payload(Raw(reader.rest()))
        else:
            _set(self, "_kept", reader.rest())
            _set_extent(self, _CUT)

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

    def build(self) -> bytes:
        """Scapy's entry: the bytes of this layer and of what is behind it."""
        if type(self) not in writing.writers:
            return bytes(super().build())
        out = bytearray()
        self._append_to(out)
        return bytes(out)

    def _append_to(self, out: bytearray) -> None:
        """Appends what ``build`` returns: by itself when there is nothing but fields, otherwise Scapy's way."""
        if self._extent == _PLAIN:
            defaults = self._defaults
        elif self._extent == _COMPLETE and self._alone():
            defaults = self.default_fields
        else:
            out += super().build()
            return
        start = len(out)
        try:
            self._append_fields(self.fields, defaults, out)
        except Unsettled:
            del out[start:]
            out += Packet.build(next(iter(self)))

    def _alone(self) -> bool:
        """Tells whether there is nothing but fields, all of them read, though Scapy could add something."""
        return not (self.partial or self.post_transforms) and isinstance(self.payload, NoPayload)

    def self_build(self) -> bytes:
        """Scapy's entry: the bytes of this layer without a payload."""
        out = bytearray()
        values = Unfinished(self.fields) if self.partial else self.fields
        self._append_fields(values, self.default_fields, out)
        return bytes(out)

    def _append_fields(self, values: Values, defaults: Values, out: bytearray) -> None:
        """Appends the bytes of all fields, up to the first one that dissection could not read."""
        _run(self._steps, values, defaults, out, str(self.name))

    def value(self, name: str) -> Any:
        """Returns a field as it goes onto the wire: given, dissected, default, or computed.

        Raises:
            AttributeError: No such field.
        """
        given = self.fields.get(name)
        if given is not None:
            return given
        defaults = self.default_fields if self._extent == _COMPLETE else self._defaults
        if name not in defaults:
            return self.getfieldval(name)
        return self._layout.value(name, self.fields, defaults)

    def present(self, conditions: shape.Conditions) -> bool:
        """Tells whether all conditions hold."""
        return holds(conditions, self.value)

    def clone_with(self, *args: Any, **kwargs: Any) -> Any:
        """Scapy's copy of a packet with other values; keeps what dissection found.

        Names and text that Scapy chose, from a list or at random, are taken as if they had been given alone.
        """
        plain = self._plain
        for name, value in kwargs.items():
            if isinstance(value, str) and name in plain:
                kwargs[name] = plain[name].any2i(self, value)
        return self._keep_findings(super().clone_with(*args, **kwargs))

    def copy(self) -> Self:
        """Returns a deep copy that keeps what dissection found."""
        if self._extent != _PLAIN:
            return self._keep_findings(super().copy())
        clone = self.__new__(type(self))
        plain = self._plain
        _set_fields(clone, {name: plain[name].do_copy(value) for name, value in self.fields.items()})
        _set_explicit(clone, self.explicit)
        _set_extent(clone, _PLAIN)
        return self._keep_findings(clone)

    def _keep_findings(self, clone: Self) -> Self:
        for finding in ("errors", "partial", "stopped", "original"):
            _set(clone, finding, copy(getattr(self, finding)))
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


_set_extent = Layer.__dict__["_extent"].__set__


def _run(steps: writing.Program, values: Values, defaults: Values, out: bytearray, layer: str) -> None:
    """Appends the bytes of some fields of a layer, up to the first one that dissection could not read.

    Raises:
        Misfit: A value is of a kind that its field cannot carry.
    """
    try:
        for step in steps:
            step(values, defaults, out)
    except Unread:
        pass
    except (writing.Misfit, Unsettled):
        raise
    except (TypeError, AttributeError) as error:
        raise writing.misfit(layer, step, values, error) from error


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


_ZBUF = int(Enc.ZBUF)


class _Counted(Layer):
    """A layer whose body stands behind a length."""

    _head: ClassVar[reading.Program]
    _inside: ClassVar[reading.Program]
    _head_steps: ClassVar[writing.Program]
    _body_steps: ClassVar[writing.Program]
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
            self._cut()
        # What is behind it can be read, whatever is in it.
        _set(self, "stopped", False)
        if found.total and not self.enforced:
            # Bytes that nodes do not look into unless they must: nothing wrong with them, just not understood.
            self._cut()
            for name in self._layout.defaults:
                if name not in _KEPT_FIELDS:
                    self.fields.pop(name, None)
            inside.at = start
        self._keep(inside)

    def _append_body(self, counted: bool, values: Values, defaults: Values, out: bytearray) -> None:
        """Appends length and body, without a payload; the length counts the payload too."""
        steps = self._body_steps
        length = self.fields.get("length")
        if length is None:
            length = defaults["length"]
        if counted and length is not None:
            append_vle(length, out)
            _run(steps, values, defaults, out, str(self.name))
        elif not counted or isinstance(values, Unfinished):
            # Where no length was read, the payload has the length too.
            _run(steps, values, defaults, out, str(self.name))
        else:
            start = len(out)
            _run(steps, values, defaults, out, str(self.name))
            behind = 0 if self._extent == _PLAIN else len(bytes(self.payload))
            out[start:start] = write_vle(len(out) - start + behind)


class Region(_Counted):
    """A VLE count of bytes and the fields inside. Its field list is made by ``region``."""

    fields_desc = region()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._inside, cls._body_steps = cls._program[1:], cls._steps[1:]

    def dissect_from(self, reader: Reader, errors: Findings) -> None:
        """Reads the length, then the body within it."""
        inside = self._read_length(reader, errors)
        if inside:
            self._read_inside(inside, errors)

    def _append_fields(self, values: Values, defaults: Values, out: bytearray) -> None:
        """Appends length and body without a payload."""
        self._append_body(True, values, defaults, out)

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
        cls._head_steps, cls._body_steps = cls._steps[:1], cls._steps[2:]

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

    def _append_fields(self, values: Values, defaults: Values, out: bytearray) -> None:
        """Appends header, length and body without a payload."""
        _run(self._head_steps, values, defaults, out, str(self.name))
        encoding = self.fields.get("ENC")
        if encoding is None:
            encoding = self._layout.value("ENC", self.fields, defaults)
        self._append_body(encoding == _ZBUF, values, defaults, out)


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
