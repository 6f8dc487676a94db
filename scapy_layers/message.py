"""Base layers: reading and writing shapes, computed values, choice of class by id.

``read`` and ``write`` are the Scapy reader of the shapes. A layer that is built takes ``None`` as
"computed" and every given value as it is, even a wrong one. A layer that is dissected never raises: what
it refuses is listed in ``errors``, and bytes it cannot take apart are kept as a Raw payload, so that
building it again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    Rest,
    Vle,
    WhenField,
    packed,
    shapes_of,
    when,
)
from scapy_layers.primitives import Counted, CountedList, Reader, WideInt, write_count, write_vle

_by_id: dict[tuple[Kind, int], type[Message]] = {}


def message_class(kind: Kind, number: int) -> type[Message] | None:
    """Returns the class of a message by its layer and id, None when no such message is defined."""
    return _by_id.get((kind, number))


# Reading ------------------------------------------------------------------------------------------

Values = dict[str, Any]


def _read(described: shape.Shape, values: Values, reader: Reader, errors: list[WireError]) -> bool:
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
                    return all([_read(inner, values, reader, errors) for inner in described.fields])
            case shape.Many():
                return _read_many(described, values, reader, errors)
            case shape.Chain():
                return _read_chain(described, values, reader, errors)
            case shape.Body():
                number = reader.peek("its header byte") & 0x1F
                if number not in described.ids:
                    raise UnknownMessage(described.name, f"id {number:#04x} may not stand here", at)
                inner = _read_message(described, number, reader, errors)
                values[described.name] = inner
                return not inner.stopped
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


def _check(
    name: str, allowed: tuple[int, ...] | None, value: int, at: int, errors: list[WireError]
) -> None:
    if allowed is not None and value not in allowed:
        errors.append(BadValue(name, f"{value} has no meaning", at))


def _check_text(name: str, raw: bytes, at: int, errors: list[WireError]) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        errors.append(BadValue(name, f"not UTF-8 ({error.reason} at {error.start})", at))


def _read_packed(
    described: shape.Packed, values: Values, reader: Reader, errors: list[WireError]
) -> None:
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
        values[bits.name] = WideInt(value, carrier.width)


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
    """Takes the bytes behind a count that was read at ``at``; goes back there when they are too few."""
    try:
        raw = reader.take(size, what)
    except WireError:
        reader.at = at
        raise
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


def _read_many(described: shape.Many, values: Values, reader: Reader, errors: list[WireError]) -> bool:
    at = reader.at
    count = reader.vle() if described.times is None else described.times
    if described.most is not None and count > described.most:
        errors.append(BadValue(described.name, f"a count of {count}, at most {described.most}", at))
    items: list[Any] = []
    try:
        for index in range(count):
            item: Values = {}
            found: list[WireError] = []
            for inner in described.item:
                _read(inner, item, reader, found)
            items.append(_plain(next(iter(item.values()))) if len(item) == 1 else item)
            errors.extend(error.within(f"{described.name}[{index}]") for error in found)
    finally:
        lies = len(items) != count or isinstance(count, WideInt)
        width = count.width if isinstance(count, WideInt) else None
        values[described.name] = CountedList(items, count, width) if lies else items
    return True


def _plain(value: Any) -> Any:
    """Returns text items as ``str``; bytes that are no UTF-8 as lone surrogates."""
    return value.decode("utf-8", "surrogateescape") if type(value) is bytes else value


def _read_chain(described: shape.Chain, values: Values, reader: Reader, errors: list[WireError]) -> bool:
    chain: list[Extension] = []
    values[described.name] = chain
    more = True
    while more:
        at = reader.at
        head = reader.peek("the header of an extension")
        if head >> 5 & 3 == Enc.RESERVED:
            raise BadValue(f"{described.name}[{len(chain)}]", "an extension with the reserved encoding 3", at)
        cls = _extension_classes(described).get(head & 0x7F, UnknownExtension)
        extension = cls.read(reader)
        if cls is UnknownExtension and head & 0x10 and not described.skips_mandatory:
            found = f"extension {head & 0x0F:#x} is not known here and is mandatory"
            errors.append(UnknownMandatoryExtension(f"{described.name}[{len(chain)}]", found, at))
        errors.extend(
            error.within(str(extension.name)).within(f"{described.name}[{len(chain)}]")
            for error in extension.errors
        )
        chain.append(extension)
        if extension.stopped:
            return False
        more = bool(head & 0x80)
    return True


@cache
def _extension_classes(described: shape.Chain) -> dict[int, type[Extension]]:
    """Returns the classes of a chain's known extensions by header byte without Z."""
    return {known.header: _extension_of_shape[known] for known in described.known}


def _read_message(
    described: shape.Body | shape.Messages, number: int, reader: Reader, errors: list[WireError]
) -> Message:
    inner = _by_id[described.kind, number].read(reader)
    errors.extend(error.within(str(inner.name)).within(described.name) for error in inner.errors)
    return inner


# Writing ------------------------------------------------------------------------------------------

Get = Callable[[str], Any]


def _write(described: shape.Shape, get: Get, out: bytearray) -> None:
    """Appends the bytes of one shape; ``get`` gives the value of a field."""
    match described:
        case shape.Packed():
            carrier, width = 0, 0
            for bits in described.bits:
                value = get(bits.name)
                carrier |= (value & (1 << bits.size) - 1) << bits.shift
                width = max(width, value.width if isinstance(value, WideInt) else 0)
            out += write_vle(carrier, width or None) if described.vle else bytes([carrier])
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
    if not isinstance(item, dict):
        _write(described.item[0], lambda _: item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item, out)
        return
    values = {**_defaults(described.item), **item}
    conditions = _conditions(described.item)

    def get(name: str) -> Any:
        value = values[name]
        return _flag(name, conditions, item.get) if value is None else value

    for inner in described.item:
        _write(inner, get, out)


def _defaults(shapes: tuple[shape.Shape, ...]) -> Values:
    result: Values = {}
    for described in shape.walk(shapes):
        match described:
            case shape.Packed():
                result |= {bits.name: bits.default for bits in described.bits}
            case shape.U8() | shape.U16le() | shape.Vle():
                result[described.name] = described.default
            case shape.Zid() | shape.CountedBytes() | shape.Rest():
                result[described.name] = b""
            case shape.Many() | shape.Chain() | shape.Messages():
                result[described.name] = []
            case shape.Body():
                result[described.name] = None
            case shape.When():
                pass
            case _:
                assert_never(described)
    return result


def _conditions(shapes: tuple[shape.Shape, ...]) -> tuple[tuple[str, tuple[shape.Condition, ...]], ...]:
    """Lists (name, conditions) of all fields that may be absent."""
    result: list[tuple[str, tuple[shape.Condition, ...]]] = []
    for described in shapes:
        if isinstance(described, shape.When):
            result.extend((name, described.conditions) for name in _defaults(described.fields))
    return tuple(result)


def _flag(
    flag: str, conditions: tuple[tuple[str, tuple[shape.Condition, ...]], ...], given: Get
) -> int:
    """Computes a presence flag: 1 when a field that needs it was given (and is not an empty list)."""
    for name, needs in conditions:
        if shape.Condition(flag) in needs and given(name) not in (None, []):
            return 1
    return 0


# Layers -------------------------------------------------------------------------------------------


class Layer(Packet):
    """What messages and extensions have in common.

    Attributes:
        errors: What a strict decoder refuses in these bytes, in order; empty for a layer that was built.
        partial: Some fields were never read; the bytes from there on are a Raw payload.
        stopped: Where this layer ends is not known, so nothing can follow it.
    """

    __slots__ = ["errors", "partial", "stopped"]

    errors: list[WireError]
    partial: bool
    stopped: bool
    show_indent = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "errors", [])
        object.__setattr__(self, "partial", False)
        object.__setattr__(self, "stopped", False)
        super().__init__(*args, **kwargs)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Dissects a layer inside another one; the reader moves behind it."""
        layer = cls(_internal=1)
        start = reader.at
        layer.dissect_from(reader)
        layer.original = reader.data[start : reader.at]
        return layer

    def dissect_from(self, reader: Reader) -> None:
        """Fills the fields from a reader; never raises for what the bytes are."""
        self.explicit = 1
        try:
            for described in self.wire_shapes():
                if not _read(described, self.fields, reader, self.errors):
                    self.partial = self.stopped = True
                    return
        except WireError as error:
            self.stop(error, reader)

    def stop(self, error: WireError, reader: Reader) -> None:
        """Gives up at a field: keeps the bytes from there on as a Raw payload."""
        self.errors.append(error)
        self.partial = self.stopped = True
        if reader.left:
            self.add_payload(Raw(reader.rest()))

    @classmethod
    def wire_shapes(cls) -> tuple[shape.Shape, ...]:
        """Returns the shapes of all fields in wire order."""
        return _layout(cls)[0]

    def do_dissect(self, s: bytes) -> bytes:
        """Scapy's entry: dissects and returns the bytes behind this layer."""
        reader = Reader(bytes(s))
        self.dissect_from(reader)
        return reader.rest()

    def self_build(self) -> bytes:
        """Scapy's entry: the bytes of this layer without a payload."""
        out = bytearray()
        for described in self.wire_shapes():
            if self.partial and not self._was_read(described):
                break
            _write(described, self.value, out)
        return bytes(out)

    def _was_read(self, described: shape.Shape) -> bool:
        if isinstance(described, shape.When):
            absent = not self.present(described.conditions)
            return absent or all(name in self.fields for name in _defaults(described.fields))
        return all(name in self.fields for name in _defaults((described,)))

    def value(self, name: str) -> Any:
        """Returns a field as it goes onto the wire: given, dissected, default, or computed.

        Raises:
            AttributeError: No such field.
        """
        value = self.getfieldval(name)
        if value is not None or name not in self.fieldtype:
            return value
        _, conditions, zid_of = _layout(type(self))
        if name in zid_of:
            zid = self.getfieldval(zid_of[name]) if self._has(zid_of[name]) else b""
            return max(len(zid), 1) - 1 & 0x0F
        return _flag(name, conditions, self.fields.get)

    def _has(self, name: str) -> bool:
        field = self.get_field(name)
        return not isinstance(field, WhenField) or self.present(field.conditions)

    def present(self, conditions: tuple[shape.Condition, ...]) -> bool:
        """Tells whether all conditions hold; those on fields that were never read do not."""
        return all(condition.holds(self.value(condition.field) or 0) for condition in conditions)

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
        return clone

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Scapy's entry: what is behind a layer is no padding."""
        return s, None

    def mysummary(self) -> str:
        """Scapy's one-line summary."""
        return self.describe()

    def describe(self) -> str:
        """Returns one line: the name and what differs from the defaults."""
        return " ".join([str(self.name), *self._details()])

    def _details(self) -> Iterator[str]:
        for field in self.fields_desc:
            if field.name not in self.fields or field.name in {"mid", "ENC", "M", "ext_id", "length"}:
                continue
            value = self.fields[field.name]
            inner = field.fld if isinstance(field, WhenField) else field
            if value is None or not self._has(field.name):
                continue
            if isinstance(inner, ListField) and inner.holds_packets:
                inside = ", ".join(item.describe() for item in value)
                if inside:
                    yield f"[{inside}]"
            elif isinstance(value, Layer):
                yield value.describe()
            elif isinstance(inner, NumberField) and isinstance(inner.shape, shape.Packed):
                bits = next(bits for bits in inner.shape.bits if bits.name == field.name)
                if bits.names or (value and not bits.counts and field.name not in {"Z", "N", "M", "S"}):
                    yield f"{field.name}={inner.i2repr(self, value)}"
            else:
                text = inner.i2repr(self, value)
                yield f"{field.name}={text if len(text) <= 80 else text[:77] + '...'}"
        if not isinstance(self.payload, NoPayload):
            yield f"+ {len(bytes(self.payload))} bytes not understood"


@cache
def _layout(
    cls: type[Layer],
) -> tuple[tuple[shape.Shape, ...], tuple[tuple[str, tuple[shape.Condition, ...]], ...], dict[str, str]]:
    """Returns the shapes of a class, its conditional fields, and the ZenohID each length belongs to."""
    shapes = shapes_of(cls.fields_desc)
    zid_of = {
        described.length: described.name
        for described in shape.walk(shapes)
        if isinstance(described, shape.Zid) and described.length
    }
    return shapes, _conditions(shapes), zid_of


class Message(Layer):
    """A message with a header byte and an id.

    Attributes:
        kind: The layer whose ids its id belongs to.
        id: Bits 4:0 of the header byte.
    """

    __slots__ = []

    kind: ClassVar[Kind]
    id: ClassVar[int]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        group = cls.fields_desc[0].shape
        mid = next(bits for bits in group.bits if bits.name == "mid")
        cls.kind = KIND_OF_IDS[mid.names]
        cls.id = mid.default
        _by_id[cls.kind, cls.id] = cls

    @classmethod
    def shape(cls) -> shape.Message:
        """Returns the description of this message, for every other reader."""
        return shape.Message(str(cls._name), cls.kind, cls.id, cls.wire_shapes())


_extension_of_shape: dict[shape.Extension, type[Extension]] = {}


def extension(number: int, enc: Enc, *body: AnyField, mandatory: bool = False) -> list[AnyField]:
    """The field list of an extension: header, length (ZBuf only, computed unless given), body.

    Spec: Message Reference, extension headers; ``Z ENC ENC M id id id id``.
    """
    head = packed(
        Flag("Z"),
        Bits("ENC", 2, Enc, default=enc),
        Bits("M", 1, default=mandatory),
        Bits("ext_id", 4, default=number),
    )
    length = NumberField("length", None, shape.Vle("length", 32, enforced=True), (1 << 64) - 1, None)
    return [*head, *when(("ENC", Enc.ZBUF), length), *body]


class Extension(Layer):
    """One extension of a chain. Its field list is made by ``extension``."""

    __slots__ = []

    fields_desc = extension(0, Enc.UNIT)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        described = cls.shape()
        if described in _extension_of_shape:
            raise TypeError(f"{cls.__name__} describes the same extension as {_extension_of_shape[described]}")
        _extension_of_shape[described] = cls

    @classmethod
    def shape(cls) -> shape.Extension:
        """Returns the description of this extension, for every other reader."""
        header = cls.fields_desc[0].shape
        default = {bits.name: bits.default for bits in header.bits}
        name = str(cls.__dict__.get("_name") or cls.__name__)
        return shape.Extension(
            name, default["ext_id"], Enc(default["ENC"]), bool(default["M"]), cls.wire_shapes()[2:]
        )

    def dissect_from(self, reader: Reader) -> None:
        """Reads header and length, then the body within that length."""
        self.explicit = 1
        header, _, *body = self.wire_shapes()
        try:
            _read(header, self.fields, reader, self.errors)
            region = self._region(reader)
        except WireError as error:
            self.stop(error, reader)
            return
        try:
            for described in body:
                _read(described, self.fields, region or reader, self.errors)
        except WireError as error:
            if region is None:
                self.stop(error, reader)
                return
            # The body cannot be taken apart, but its length says where the chain goes on.
            self.errors.append(error)
            self.partial = True
        if region and region.left:
            if not self.partial:
                found = f"{region.left} bytes behind the last field of the extension"
                self.errors.append(BadValue("length", found, region.at))
            self.add_payload(Raw(region.rest()))

    def _region(self, reader: Reader) -> Reader | None:
        """Reads the length of a ZBuf body and returns a reader of just that body."""
        if self.fields["ENC"] != Enc.ZBUF:
            return None
        at = reader.at
        try:
            length = reader.vle()
            if length >> 32:
                raise Overlong("length", f"a length of {length}, at most {(1 << 32) - 1}", at)
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
        _write(header, self.value, out)
        for described in shapes:
            if self.partial and not self._was_read(described):
                break
            _write(described, self.value, body)
        length = self.getfieldval("length")
        if self.value("ENC") == Enc.ZBUF and (length is not None or not self.partial):
            out += write_vle(len(body) + len(bytes(self.payload)) if length is None else length)
        return bytes(out + body)


class UnknownExtension(Extension):
    """An extension that the message does not define; kept as it is.

    ``value`` stands when ENC is 1 (Z64), ``data`` when it is 2 (ZBuf).
    """

    name = "unknown extension"
    fields_desc = extension(
        0xF, Enc.UNIT, *when(("ENC", Enc.Z64), Vle("value", 64)), *when(("ENC", Enc.ZBUF), Rest("data"))
    )


def Extensions(*known: type[Extension], skips_mandatory: bool = False) -> AnyField:  # noqa: N802
    """The extension chain of a message: present when Z is set.

    Args:
        known: The extensions this message defines.
        skips_mandatory: Unknown mandatory ones are no reason to refuse (scouting, as real nodes do).
    """
    chain = shape.Chain("extensions", tuple(cls.shape() for cls in known), skips_mandatory)
    return when("Z", ListField("extensions", chain, packets=True))[0]
