"""The Arrow schema of each table, read from the shapes. The same for every capture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

import pyarrow as pa

from scapy_layers import names, shape
from scapy_layers.codes import Kind

Shapes = Mapping[tuple[Kind, int], shape.Message]
"""Every message by layer and id, as ``catalogue.shapes`` gives them."""

Types = dict[str, pa.DataType]
"""Columns of a table or fields of a struct, in wire order."""

OTHER = "other_extensions"
"""Column of the extensions that are unknown, repeated, or not to be taken apart, as they came."""

OTHERS = pa.list_(pa.struct([pa.field("header", pa.uint8(), nullable=False), pa.field("body", pa.binary())]))
"""Header byte with Z clear, and what stands behind it, without the length."""

PLACE = (
    pa.field("unit", pa.int64(), nullable=False),
    pa.field("offset", pa.int32(), nullable=False),
    pa.field("length", pa.int32(), nullable=False),
    pa.field("within", pa.int32()),
)
"""First columns of every table of messages: index of the unit, where the message begins in it, how many bytes it
takes with all that is inside, where the message begins that it stands in."""

ERRORS = pa.schema(
    [
        pa.field("unit", pa.int64(), nullable=False),
        pa.field("offset", pa.int32(), nullable=False),
        pa.field("field", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("found", pa.string(), nullable=False),
        pa.field("rest", pa.binary(), nullable=False),
    ]
)
"""One row for each unit that strict decoding refuses: what a WireError says, and the bytes that gave no row."""

_ARROW = {
    names.Type.UINT8: pa.uint8(),
    names.Type.UINT16: pa.uint16(),
    names.Type.UINT32: pa.uint32(),
    names.Type.UINT64: pa.uint64(),
    names.Type.INT16: pa.int16(),
    names.Type.INT32: pa.int32(),
    names.Type.INT64: pa.int64(),
    names.Type.TEXT: pa.string(),
    names.Type.ZID: pa.string(),
    names.Type.BYTES: pa.binary(),
}


class Typed:
    """The Arrow types of the fields of some messages."""

    def __init__(self, shapes: Shapes) -> None:
        """Takes the messages; fields that share a name in Wireshark share a type."""
        self._fields = names.all_fields(shapes.values())

    def message(self, described: shape.Message) -> Types:
        """Returns the types of the fields of a message."""
        return self.layer(names.layer_name(described), described.fields)

    def layer(self, layer: str, shapes: Iterable[shape.Shape]) -> Types:  # noqa: C901  (one match over all kinds)
        """Returns the types of some fields of a layer."""
        found: Types = {}
        for described in shapes:
            match described:
                case shape.Packed():
                    for bits in described.bits:
                        if bits.name not in names.SAID:
                            found[bits.name] = self._plain(layer, bits.name)
                case shape.When():
                    _merge(found, self.layer(layer, described.fields))
                case shape.Many():
                    inside = self.layer(layer, described.item)
                    item = next(iter(inside.values())) if len(described.item) == 1 else as_struct(inside)
                    found[described.name] = pa.list_(item)
                case shape.Region():
                    found[described.name] = as_struct(
                        self.layer(names.layer_name(described), described.fields)
                    )
                case shape.Chain():
                    _merge(found, self._chain(described))
                case shape.Body() | shape.Messages():
                    pass
                case (
                    shape.U8() | shape.Le() | shape.Vle() | shape.Zid() | shape.CountedBytes() | shape.Rest()
                ):
                    found[described.name] = self._plain(layer, described.name)
                case _:
                    assert_never(described)
        return found

    def _plain(self, layer: str, name: str) -> pa.DataType:
        return _ARROW[self._fields[f"{names.PREFIX}.{layer}.{name}"].type]

    def _chain(self, described: shape.Chain) -> Types:
        found: dict[str, Types] = {}
        for extension in described.known:
            name = names.layer_name(extension)
            _merge(found.setdefault(name, {}), self.layer(name, extension.fields))
        return {name: as_struct(inside) for name, inside in found.items()} | {OTHER: OTHERS}


def as_struct(inside: Types) -> pa.DataType:
    """Returns the type of a layer; Parquet has no empty structs, so one without fields is just true."""
    return pa.struct(list(inside.items())) if inside else pa.bool_()


def _merge(into: Types, more: Types) -> None:
    """Adds fields; two forms of one extension become one struct that has the fields of both."""
    for name, kind in more.items():
        known = into.get(name)
        if known is None or pa.types.is_boolean(known):
            into[name] = kind
        elif pa.types.is_struct(known) and pa.types.is_struct(kind):
            both = {field.name: field.type for field in known}
            _merge(both, {field.name: field.type for field in kind})
            into[name] = as_struct(both)


def schemas(shapes: Shapes) -> dict[str, pa.Schema]:
    """Returns the schema of every table of messages by its name, as ``names.layer_name`` says."""
    typed = Typed(shapes)
    return {
        names.layer_name(message): pa.schema([*PLACE, *typed.message(message).items()])
        for message in shapes.values()
    }
