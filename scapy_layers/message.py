"""Base layers: reading and writing shapes, computed values, choice of class by id.

``read`` and ``write`` are the Scapy reader of the shapes. A layer that is built takes ``None`` as
"computed" and every given value as it is, even a wrong one. A layer that is dissected never raises: what
it refuses is listed in ``errors``, and bytes it cannot take apart are kept as a Raw payload, so that
building it again gives the same bytes.
"""

# ruff: noqa: RUF012  (a field list is a class attribute: that is how Scapy layers are written)

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self, assert_never

from scapy.packet import NoPayload, Packet, Raw

from scapy_layers import shape
from scapy_layers.codes import Enc, Kind
from scapy_layers.errors import BadValue, Overlong, UnknownMandatoryExtension, UnknownMessage, WireError
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
from scapy_layers.primitives import (
    VLE_MAX,
    Counted,
    CountedList,
    Reader,
    WideInt,
    vle_size,
    write_count,
    write_vle,
)

_by_id: dict[tuple[Kind, int], type[Message]] = {}
_by_shape: dict[shape.Extension, type[Extension]] = {}


def message_class(kind: Kind, number: int) -> type[Message] | None:
    """Returns the class of a message by its layer and id, None when no such message is defined."""
    return _by_id.get((kind, number))


def kind_of(header: int) -> Kind:
    """Returns the layer of a message on a session link by its header byte.

    Transport and network ids do not overlap (Message Reference, Message ID Ranges); ids of neither
    count as transport.
    """
    return Kind.NETWORK if (Kind.NETWORK, header & 0x1F) in _by_id else Kind.TRANSPORT


def layer_class(described: shape.Message | shape.Extension) -> type[Layer]:
    """Returns the class that has a shape.

    Raises:
        KeyError: None has it.
    """
    if isinstance(described, shape.Extension):
        return _by_shape[described]
    return _by_id[described.kind, described.id]


def known_extensions() -> tuple[type[Extension], ...]:
    """Returns the classes of all extensions that some message defines."""
    return tuple(_by_shape.values())


# Reading ------------------------------------------------------------------------------------------

Values = dict[str, Any]


def _read(  # noqa: C901, PLR0912  (one match over all kinds of shape)
    described: shape.Shape, values: Values, reader: Reader, errors: list[WireError]
) -> bool:
    """Reads one shape into ``values``; errors that leave the rest readable go to ``errors``.

    Returns:
        False when a message inside could not be taken apart to its end; nothing may follow it.

    Raises:
        WireError: The field cannot be read; the reader stands where it begins.
    """
    at = reader.at
    try:
        match described:
            case shape.Packed():
                _read_packed(described, values, reader, errors)
            case shape.U8():
                values[described.name] = reader.u8()
                _check(described.name, described.allowed, values[described.name], at, errors)
            case shape.U16le():
                values[described.name] = int.from_bytes(reader.take(2), "little")
            case shape.Vle():
                value = values[described.name] = reader.vle()
                if described.enforced and value >> described.z:
                    errors.append(Overlong(described.name, f"{value} needs more than {described.z} bits", at))
                _check(described.name, described.allowed, value, at, errors)
            case shape.Zid():
                _read_zid(described, values, reader, errors)
            case shape.CountedBytes():
                _read_counted(described, values, reader, errors)
            case shape.Rest():
                values[described.name] = raw = reader.rest()
                if described.text:
                    _check_text(described.name, raw, at, errors)
            case shape.When():
                if all(condition.holds(values[condition.field]) for condition in described.conditions):
                    for inner in described.fields:
                        if not _read(inner, values, reader, errors):
                            return False
            case shape.Many():
                _read_many(described, values, reader, errors)
            case shape.Chain():
                return _read_chain(described, values, reader, errors)
            case shape.Body():
                number = reader.peek("its header byte") & 0x1F
                if number not in described.ids:
                    raise UnknownMessage(described.name, f"id {number:#04x} may not stand here", at)
                body = _read_message(described, number, reader, errors)
                values[described.name] = body
                return not body.stopped
            case shape.Messages():
                messages: list[Message] = []
                values[described.name] = messages
                while reader.left and reader.peek() & 0x1F in described.ids:
                    messages.append(_read_message(described, reader.peek() & 0x1F, reader, errors))
                    if messages[-1].stopped:
                        return False
            case _:
                assert_never(described)
    except WireError as error:
        if error.field:
            raise
        raise type(error)(_name(described), error.found, error.offset) from None
    return True


def _name(described: shape.Shape) -> str:
    """Returns what an error calls a field."""
    if isinstance(described, shape.Packed):
        return next(bits.name for bits in described.bits if not bits.reserved)
    return "" if isinstance(described, shape.When) else described.name


def _check(name: str, allowed: tuple[int, ...] | None, value: int, at: int, errors: list[WireError]) -> None:
    if allowed is not None and value not in allowed:
        errors.append(BadValue(name, f"{value} has no meaning", at))


def _check_text(name: str, raw: bytes, at: int, errors: list[WireError]) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        errors.append(BadValue(name, f"not UTF-8 ({error.reason} at {error.start})", at))


def _read_packed(described: shape.Packed, values: Values, reader: Reader, errors: list[WireError]) -> None:
    at = reader.at
    carrier = reader.vle() if described.vle else reader.u8()
    if described.enforced is not None and carrier >> described.enforced:
        found = f"{carrier} needs more than {described.enforced} bits"
        errors.append(Overlong(_name(described), found, at))
    for bits in described.bits:
        value = carrier >> bits.shift & (1 << bits.size) - 1
        values[bits.name] = value
        _check(bits.name, bits.allowed, value, at, errors)
    if isinstance(carrier, WideInt):
        # An over-long carrier is remembered at its lowest bits.
        last = described.bits[-1].name
        values[last] = WideInt(values[last], carrier.width)


def _read_zid(described: shape.Zid, values: Values, reader: Reader, errors: list[WireError]) -> None:
    at = reader.at
    if described.length:
        raw = reader.take(values[described.length] + 1, "a ZenohID")
    else:
        size = reader.vle()
        if not 1 <= size <= 16:
            reader.at = at
            raise BadValue(described.name, f"a ZenohID of {size} bytes, must be 1 to 16", at)
        raw = _take_counted(size, reader, at, "a ZenohID")
    values[described.name] = raw
    if not any(raw):
        errors.append(BadValue(described.name, "a ZenohID of value 0", at))


def _take_counted(size: int, reader: Reader, at: int, what: str) -> bytes:
    """Takes the bytes behind a count that was read at ``at``; the reader goes back there when it cannot."""
    try:
        raw = reader.take(size, what)
    except WireError as error:
        reader.at = at
        raise type(error)("", error.found, at) from None
    return Counted(raw, None, size.width) if isinstance(size, WideInt) else raw


def _read_counted(
    described: shape.CountedBytes, values: Values, reader: Reader, errors: list[WireError]
) -> None:
    at = reader.at
    size = reader.vle()
    if described.enforced and size >> described.z:
        reader.at = at
        raise Overlong(described.name, f"a length of {size}, at most {(1 << described.z) - 1}", at)
    raw = _take_counted(size, reader, at, described.name)
    values[described.name] = raw
    if described.text:
        _check_text(described.name, raw, at, errors)
    if described.locator and (b"/" not in raw or b"#" in raw):
        errors.append(BadValue(described.name, f"{raw!r} is no locator (proto/address[?metadata])", at))


def _read_many(described: shape.Many, values: Values, reader: Reader, errors: list[WireError]) -> None:
    at = reader.at
    count = reader.vle() if described.times is None else described.times
    if described.most is not None and count > described.most:
        errors.append(BadValue(described.name, f"a count of {count}, at most {described.most}", at))
    items: list[Any] = []
    try:
        for index in range(count):
            start = reader.at
            item: Values = {}
            found: list[WireError] = []
            try:
                for inner in described.item:
                    _read(inner, item, reader, found)
            except WireError as error:
                # What was read of this item is not kept, so it has to be read again as something else.
                reader.at = start
                raise error.within(f"{described.name}[{index}]") from None
            items.append(_plain(described.item[0], item) if len(described.item) == 1 else item)
            errors.extend(error.within(f"{described.name}[{index}]") for error in found)
    finally:
        width = count.width if isinstance(count, WideInt) else None
        said = int(count) if described.times is None and len(items) != count else None
        lies = said is not None or width is not None
        values[described.name] = CountedList(items, said, width) if lies else items


def _plain(described: shape.Shape, item: Values) -> Any:
    """Returns the only field of an item: text as ``str``, bytes that are no UTF-8 as lone surrogates."""
    (value,) = item.values()
    text = isinstance(described, shape.CountedBytes | shape.Rest) and described.text
    # A count that is wrong or over-long is kept with the bytes.
    return value.decode("utf-8", "surrogateescape") if text and type(value) is bytes else value


def _read_chain(described: shape.Chain, values: Values, reader: Reader, errors: list[WireError]) -> bool:
    chain: list[Extension] = []
    values[described.name] = chain
    classes = _extension_classes(described)
    more = True
    while more:
        at = reader.at
        place = f"{described.name}[{len(chain)}]"
        head = reader.peek("the header of an extension")
        if head >> 5 & 3 == Enc.RESERVED:
            raise BadValue(place, "an extension with the reserved encoding 3", at)
        # Reading R-08: known is what has the whole header byte of the table, Z aside.
        cls = classes.get(head & 0x7F, UnknownExtension)
        extension = cls.read(reader)
        if cls is UnknownExtension and head & 0x10 and not described.skips_mandatory:
            found = f"extension {head & 0x0F:#x} is not known here and is mandatory"
            errors.append(UnknownMandatoryExtension(place, found, at))
        errors.extend(error.within(str(extension.name)).within(place) for error in extension.errors)
        chain.append(extension)
        if extension.stopped:
            return False
        more = bool(head & 0x80)
    return True


@cache
def _extension_classes(described: shape.Chain) -> dict[int, type[Extension]]:
    """Returns the classes of a chain's known extensions by header byte without Z."""
    return {known.header: _by_shape[known] for known in described.known}


def _read_message(
    described: shape.Body | shape.Messages, number: int, reader: Reader, errors: list[WireError]
) -> Message:
    inner = _by_id[described.kind, number].read(reader)
    errors.extend(error.within(str(inner.name)).within(described.name) for error in inner.errors)
    return inner


# Writing ------------------------------------------------------------------------------------------

Get = Callable[[str], Any]


def _write(  # noqa: C901, PLR0912  (one match over all kinds of shape)
    described: shape.Shape, get: Get, out: bytearray
) -> None:
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
        case shape.U16le():
            out += get(described.name).to_bytes(2, "little")
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
            if all(condition.holds(get(condition.field)) for condition in described.conditions):
                for inner in described.fields:
                    _write(inner, get, out)
        case shape.Many():
            items = get(described.name)
            if described.times is None:
                out += write_count(items)
            for item in items:
                _write_item(described, item, out)
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
        _write(described.item[0], lambda _: value, out)
        return
    layout = _layout_of(described.item)
    for inner in described.item:
        _write(inner, lambda name: layout.value(name, item, layout.defaults), out)


@dataclass(frozen=True, slots=True)
class _Layout:
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
    conditions: dict[str, tuple[shape.Condition, ...]]
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
            needs = self.conditions.get(zid, ())
            present = all(need.holds(self.value(need.field, given, defaults)) for need in needs)
            return max(len(self.value(zid, given, defaults)), 1) - 1 & 0x0F if present else 0
        for field, needs in self.conditions.items():
            value = given.get(field)
            if value is None or (type(value) is list and not value):
                continue
            for need in needs:
                if need.field == name:
                    return 1 if need.equals is None else need.equals
        return 0 if name in self.flags else None


@cache
def _layout_of(shapes: tuple[shape.Shape, ...]) -> _Layout:
    defaults: Values = {}
    conditions: dict[str, tuple[shape.Condition, ...]] = {}
    zids: dict[str, str] = {}
    lists: list[str] = []
    flags: list[str] = []
    for described in shape.walk(shapes):
        match described:
            case shape.Packed():
                defaults |= {bits.name: bits.default for bits in described.bits}
                flags += [bits.name for bits in described.bits if bits.default is None]
            case shape.U8() | shape.U16le() | shape.Vle():
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
            case shape.Body():
                defaults[described.name] = None
            case shape.When():
                inside = _layout_of(described.fields)
                conditions |= dict.fromkeys(inside.defaults, described.conditions)
            case _:
                assert_never(described)
    return _Layout(shapes, defaults, conditions, zids, tuple(lists), frozenset(flags))


# Layers -------------------------------------------------------------------------------------------


class _Unread(Exception):
    """A field of a partial layer was never read."""


class Layer(Packet):
    """What messages and extensions have in common.

    A field that dissection has filled counts as given: flags and lengths stay as they were on the wire when
    another field is changed. ``del layer.Z`` (or ``layer.Z = None``) makes one computed again.

    Attributes:
        errors: What a strict decoder refuses in these bytes, in order; empty for a layer that was built.
        partial: Some fields were never read; the bytes from there on are a Raw payload, here or in the
            layer inside that could not be read.
        stopped: Where this layer ends is not known, so nothing can follow it.
    """

    __slots__ = ["errors", "partial", "stopped"]

    errors: list[WireError]
    partial: bool
    stopped: bool
    show_indent = 0
    _layout: ClassVar[_Layout]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._layout = _layout_of(shapes_of(cls.fields_desc))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.errors = []
        self.partial = False
        self.stopped = False
        super().__init__(*args, **kwargs)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Dissects a layer inside another one; the reader moves behind it."""
        layer = cls(_internal=1)
        # Scapy gives a new layer empty lists; nothing is given in one that is read.
        layer.fields.clear()
        start = reader.at
        layer.dissect_from(reader)
        layer.original = reader.data[start : reader.at]
        return layer

    def dissect_from(self, reader: Reader) -> None:
        """Fills the fields from a reader; never raises for what the bytes are."""
        self._begin()
        try:
            for described in self.wire_shapes():
                if not _read(described, self.fields, reader, self.errors):
                    self.partial = self.stopped = True
                    break
        except WireError as error:
            self._stop(error, reader)
        self._finish()

    def _begin(self) -> None:
        # Scapy: the fields are what the wire said, they are no set of values to choose from.
        object.__setattr__(self, "explicit", 1)

    def _stop(self, error: WireError, reader: Reader) -> None:
        """Gives up at a field: keeps the bytes from there on as a Raw payload."""
        self.errors.append(error)
        self.partial = self.stopped = True
        if reader.left:
            self.add_payload(Raw(reader.rest()))

    def _finish(self) -> None:
        """Makes sure that a list which was not read is not the default that all layers share."""
        if self.partial:
            # A field that was not read must stay without a value: building stops there.
            object.__setattr__(self, "default_fields", self.copy_fields_dict(self.default_fields))
        else:
            for name in self._layout.lists:
                self.fields.setdefault(name, [])

    @classmethod
    def wire_shapes(cls) -> tuple[shape.Shape, ...]:
        """Returns the shapes of all fields in wire order."""
        return cls._layout.shapes

    def do_dissect(self, s: bytes) -> bytes:
        """Scapy's entry: dissects and returns the bytes behind this layer."""
        reader = Reader(bytes(s))
        self.dissect_from(reader)
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
                _write(described, self._read_value if self.partial else self.value, out)
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
        if name not in self.default_fields:
            return self.getfieldval(name)
        return self._layout.value(name, self.fields, self.default_fields)

    def present(self, conditions: tuple[shape.Condition, ...]) -> bool:
        """Tells whether all conditions hold; those on fields that were never read do not."""
        return all(condition.holds(self.value(condition.field)) for condition in conditions)

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
        _by_id.setdefault((cls.kind, cls.id), cls)

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


def _counted_body() -> list[AnyField]:
    described = shape.Vle("length", 32, enforced=True)
    return when(("ENC", Enc.ZBUF), NumberField("length", None, described, VLE_MAX, None))


class Extension(Layer):
    """One extension of a chain. Its field list is made by ``extension``."""

    fields_desc = extension(0, Enc.UNIT)

    @classmethod
    def shape(cls) -> shape.Extension:
        """Returns the description of this extension, for every other reader."""
        bits = _bits_of_header(cls)
        number, enc, mandatory = (bits[name].default or 0 for name in ("ext_id", "ENC", "M"))
        return shape.Extension(str(cls._name), number, Enc(enc), bool(mandatory), cls.wire_shapes()[2:])

    def dissect_from(self, reader: Reader) -> None:
        """Reads header and length, then the body within that length."""
        self._begin()
        header, _, *body = self.wire_shapes()
        region: Reader | None = None
        try:
            _read(header, self.fields, reader, self.errors)
            region = self._region(reader)
            for described in body:
                _read(described, self.fields, region or reader, self.errors)
        except WireError as error:
            if region is None:
                self._stop(error, reader)
            else:
                # The body cannot be taken apart, but its length says where the chain goes on.
                self.errors.append(error)
                self.partial = True
        if region and region.left:
            if not self.partial:
                found = f"{region.left} bytes behind the last field of the extension"
                self.errors.append(BadValue("length", found, region.at))
            self.add_payload(Raw(region.rest()))
        self._finish()

    def _region(self, reader: Reader) -> Reader | None:
        """Reads the length of a ZBuf body and returns a reader of just that body."""
        if self.fields["ENC"] != Enc.ZBUF:
            return None
        at = reader.at
        try:
            length = reader.vle()
            if length >> 32:
                raise Overlong("length", f"a length of {int(length)}, at most {(1 << 32) - 1}", at)
            region = reader.region(length, "an extension body")
        except WireError as error:
            reader.at = at
            raise type(error)("length", error.found, at) from None
        self.fields["length"] = length
        return region

    def self_build(self) -> bytes:
        """Scapy's entry: header, length and body without a payload."""
        header, _, *shapes = self.wire_shapes()
        out, body = bytearray(), bytearray()
        self._build_shapes((header,), out)
        self._build_shapes(tuple(shapes), body)
        length = self.getfieldval("length")
        # Without a length that was read, the payload has the length too.
        if self.value("ENC") == Enc.ZBUF and (length is not None or not self.partial):
            out += write_vle(len(body) + len(bytes(self.payload)) if length is None else length)
        return bytes(out + body)


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


def Extensions(*known: type[Extension], skips_mandatory: bool = False) -> AnyField:  # noqa: N802
    """The extension chain of a message: present when Z is set.

    Args:
        known: The extensions this message defines.
        skips_mandatory: Unknown mandatory ones are no reason to refuse (scouting, as real nodes do).

    Raises:
        TypeError: Two classes describe the same extension.
    """
    for cls in known:
        other = _by_shape.setdefault(cls.shape(), cls)
        if other is not cls:
            raise TypeError(f"{cls.__name__} describes the same extension as {other.__name__}")
    chain = shape.Chain("extensions", tuple(cls.shape() for cls in known), skips_mandatory)
    return when("Z", ListField("extensions", chain, packets=True))[0]
