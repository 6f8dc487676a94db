"""What the layers say: the reading that the others are held to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fuzz.readers.said import Entry, Part, Reading, Refusal, Said, Value
from fuzz.readers.units import Unit, UnitKind
from scapy_layers import capture, names, shape, stream
from scapy_layers.batch import contents
from scapy_layers.catalogue import decode, decode_batch, decode_one
from scapy_layers.codes import Kind
from scapy_layers.conversation import Conversations, Heard, Unread, is_batch
from scapy_layers.conversation.batches import unpack
from scapy_layers.errors import WireError
from scapy_layers.message import Extension, Layer, Message, UnknownExtension, message_class
from scapy_layers.primitives import Reader, zid_to_text
from scapy_layers.reading import holds
from scapy_layers.transport import Frame

KINDS = {UnitKind.SCOUTING: Kind.SCOUTING, UnitKind.NETWORK: Kind.NETWORK}
"""Units of which only the first message counts, and its layer."""


def reading(unit: Unit) -> Reading:
    """Reads a unit."""
    layers, refused = _layers(unit)
    messages: list[Said] = []
    for at, layer in layers:
        if not _say(layer, at, None, messages):
            break
    return Reading(messages, refused, started=None if refused is None else tuple(_started(layers)))


def _started(layers: list[tuple[int, Message]]) -> Iterator[Entry]:
    """Yields what was read of the message that is refused, its extensions included, in wire order."""
    wrong: Layer | None = next((layer for _, layer in layers if layer.errors), None)
    while wrong is not None:
        inside = list(_inside(wrong))
        if isinstance(wrong, Frame) and wrong.errors[0].field.startswith("messages."):
            wrong = next(inner for inner in inside if inner.errors)
            continue
        yield from _everything(wrong)
        wrong = inside[0] if inside else None


# Units --------------------------------------------------------------------------------------------


def _layers(unit: Unit) -> tuple[list[tuple[int, Message]], Refusal | None]:
    """Reads tolerantly; what is refused is asked for strictly, and both have to say the same."""
    raw = unit.data
    if unit.kind is UnitKind.PACKED:
        layers, error = [], None
    elif unit.kind is UnitKind.BATCH:
        found = contents(raw)
        places = [len(raw) - len(found.rest) - sum(len(m.original) for m in found.messages)]
        for message in found.messages:
            places.append(places[-1] + len(message.original))
        layers = list(zip(places, found.messages, strict=False))
        error = found.error
    else:
        cls = message_class(KINDS[unit.kind], raw[0] & 0x1F) if raw else None
        layers = [] if cls is None else [(0, cls.read(Reader(raw)))]
        errors = [error for _, layer in layers for error in layer.errors]
        error = errors[0].within(str(layers[0][1].name)) if errors else None
    strict = _strictly(unit)
    if error is not None:
        assert strict is not None
        assert (error.offset, error.field, type(error)) == (strict.offset, strict.field, type(strict))
    elif layers or not raw:
        assert strict is None or not raw
    return layers, None if strict is None else Refusal(strict.offset, type(strict).__name__, strict.field)


def _strictly(unit: Unit) -> WireError | None:
    try:
        if unit.kind is UnitKind.PACKED:
            unpack(unit.data)
        elif unit.kind is UnitKind.BATCH:
            decode_batch(unit.data)
        else:
            decode_one(unit.data, KINDS[unit.kind])
    except WireError as error:
        return error.within("batch") if unit.kind is UnitKind.PACKED else error
    return None


def kind_of_datagram(raw: bytes) -> UnitKind:
    """Tells what a datagram on the port of scouting is: SCOUT and HELLO have the ids of INIT and OPEN.

    In a group with compression a batch has a byte more in front.
    """
    try:
        decode(raw, Kind.SCOUTING)
    except WireError:
        return UnitKind.BATCH if not raw or is_batch(raw) else UnitKind.SCOUTING
    return UnitKind.SCOUTING


# Messages -----------------------------------------------------------------------------------------


def _say(layer: Layer, at: int, within: int | None, said: list[Said]) -> bool:
    """Adds a message and those inside it; tells whether it is without fault."""
    around = isinstance(layer, Frame) and bool(layer.errors) and layer.errors[0].field.startswith("messages.")
    if layer.errors and not around:
        return False
    assert isinstance(layer, Message)
    name = names.layer_name(layer.shape())
    said.append(
        Said(at, len(layer.original), name, within, *_split(_fields(name, layer.wire_shapes(), layer.fields)))
    )
    inside = list(_inside(layer))
    begin = at + len(layer.original) - sum(len(inner.original) for inner in inside)
    for inner in inside:
        if not _say(inner, begin, at, said):
            return False
        begin += len(inner.original)
    return True


def _inside(layer: Layer) -> Iterator[Layer]:
    """Yields the messages inside a message: they are what it ends with."""
    for name in ("messages", "body"):
        value = layer.fields.get(name)
        if value is not None:
            yield from value if isinstance(value, list) else [value]


def _everything(layer: Layer) -> Iterator[Entry]:
    """Yields the fields of a layer and of its extensions in wire order."""
    return _flat(_fields(names.layer_name(layer.shape()), layer.wire_shapes(), layer.fields))


def _flat(said: Iterable[Entry | Part]) -> Iterator[Entry]:
    for one in said:
        if isinstance(one, Part):
            yield from _flat([*one.entries, *one.parts])
        else:
            yield one


def _split(said: Iterable[Entry | Part]) -> tuple[tuple[Entry, ...], tuple[Part, ...]]:
    entries: list[Entry] = []
    parts: list[Part] = []
    for one in said:
        if isinstance(one, Part):
            parts.append(one)
        else:
            entries.append(one)
    return tuple(entries), tuple(parts)


def _fields(  # noqa: C901, PLR0912  (one match over all kinds of shape)
    layer: str, shapes: Iterable[shape.Shape], values: dict[str, Any]
) -> Iterator[Entry | Part]:
    """Yields the fields of a layer, or of an item of a list, in wire order."""
    for described in shapes:
        match described:
            case shape.Packed():
                for bits in described.bits:
                    if bits.name in values and bits.name not in names.SAID:
                        yield Entry(layer, bits.name, int(values[bits.name]))
            case shape.When():
                # A chain that is not there is an empty one.
                known = all(isinstance(n, shape.Carries) or n.field in values for n in described.conditions)
                if known and holds(described.conditions, values.get):
                    yield from _fields(layer, described.fields, values)
            case shape.Chain():
                yield from map(_part, values.get(described.name, ()))
            case shape.Region():
                region = values.get(described.name)
                if region is not None:
                    yield from _fields(names.layer_name(described), described.fields, region.fields)
            case shape.Many():
                for item in values.get(described.name, ()):
                    alone = described.item[0] if len(described.item) == 1 else None
                    of_item = item if alone is None else {_name_of(alone): item}
                    yield from _fields(layer, described.item, of_item)
            case shape.Body() | shape.Messages():
                pass
            case _:
                if described.name in values:
                    yield Entry(layer, described.name, _plain(described, values[described.name]))


def _name_of(described: shape.Shape) -> str:
    assert not isinstance(described, shape.Packed | shape.When)
    return described.name


def _plain(described: shape.Shape, value: Any) -> Value:
    if isinstance(described, shape.Zid):
        return zid_to_text(value)
    if isinstance(value, bytes):
        text = isinstance(described, shape.CountedBytes | shape.Rest) and described.text
        return bytes(value).decode("utf-8", "surrogateescape") if text else bytes(value)
    return str(value) if isinstance(value, str) else int(value)


def _part(extension: Extension) -> Part:
    reader = Reader(extension.original, 1)
    if "length" in extension.fields:
        reader.vle()
    unread = not extension.enforced and extension.partial and not extension.stopped
    if isinstance(extension, UnknownExtension):
        layer, shapes = names.UNKNOWN_EXTENSION, extension.wire_shapes()
        inside = _fields(layer, shapes[2:], extension.fields)
    else:
        described = extension.shape()
        layer = names.layer_name(described)
        inside = _fields(layer, described.fields, extension.fields)
    return Part(layer, extension.header, reader.rest(), *_split(inside), unread)


# Captures -----------------------------------------------------------------------------------------


def units_of(path: Path) -> Iterator[Unit]:
    """Yields what a passive reader hears in a capture.

    That is batches without their compression, datagrams of scouting, and what fragments make, each behind the batch
    that completed it.
    """
    conversations = Conversations()
    for unit in stream.units(capture.read(path), plausible=is_batch):
        heard = list(conversations.hear(unit))
        if isinstance(unit, stream.Batch) and not unit.data:
            yield Unit(UnitKind.BATCH, b"", unit.number)
        yield from _units(heard)


def _units(heard: list[Heard]) -> Iterator[Unit]:
    pending = b""
    behind: list[Unit] = []
    for one in heard:
        message = one.message
        raw = bytes(message.data) if isinstance(message, Unread) else bytes(message.original)
        if isinstance(message, Message) and message.kind is Kind.SCOUTING:
            belated = one is not heard[-1]  # the HELLO comes with it
            yield Unit(UnitKind.SCOUTING, raw, one.number, belated=belated)
        elif isinstance(message, Unread) and not pending and _is_packed(one):
            yield Unit(UnitKind.PACKED, raw, one.number)
        elif one.within is None:
            pending += raw
        elif one.pieces:
            behind.append(Unit(UnitKind.NETWORK, raw, one.number))
    if pending:
        yield Unit(UnitKind.BATCH, pending, heard[0].number)
    yield from behind


def _is_packed(heard: Heard) -> bool:
    """Tells whether a batch could not be decompressed."""
    return any((remark.field or "").startswith("batch.") for remark in heard.remarks)
