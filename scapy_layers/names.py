"""What every reader of the shapes calls a field: ``zenoh.put.data``, column ``data`` of table ``put``.

A message is called by its name in lower case, OAM by its layer as well; an extension or region by its name with
``_`` between words. Extensions that share a name share it here too. A field keeps the spelling of the layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from scapy_layers import shape

PREFIX = "zenoh"
"""Of every name in Wireshark."""

UNKNOWN_EXTENSION = "unknown_extension"
"""What stands for an extension that the message does not define."""

SAID = frozenset({"mid", "ENC", "ext_id"})
"""Bits that the name of a message or extension says."""


class Type(Enum):
    """What the values of a field are."""

    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    TEXT = "text"
    """UTF-8; on the wire it may be none."""
    ZID = "zid"
    """1 to 16 bytes; shown as ``primitives.zid_to_text`` does."""
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Named:
    """One field.

    Attributes:
        layer: The message, extension or region it stands in, as ``layer_name`` says.
        name: As in the layers.
        type: What its values are.
        names: Names of its values.
        bits: Which bits of a byte it has, as a mask; 0 when it is more or less than that.
    """

    layer: str
    name: str
    type: Type
    names: shape.Names | None = None
    bits: int = 0

    @property
    def filter(self) -> str:
        """The name in Wireshark."""
        return f"{PREFIX}.{self.layer}.{self.name}"


def layer_name(described: shape.Message | shape.Extension | shape.Region) -> str:
    """Returns what a message, extension or region is called.

    ``push``, ``keep_alive``, ``transport_oam``, ``source_info``, ``shm_reference``.
    """
    if isinstance(described, shape.Message):
        name = described.name.lower()
        return f"{described.kind.name.lower()}_{name}" if name == "oam" else name
    spaced = described.name.replace(" ", "_").replace("-", "_")
    return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", spaced).lower()


def fields_of(layer: str, shapes: Iterable[shape.Shape]) -> Iterator[Named]:  # noqa: C901, PLR0912  (one match over all kinds of shape)
    """Yields the fields of a layer in wire order: those of list items too, reserved bits too.

    What has fields of its own is left out: chains, bodies, messages, regions.
    """
    for described in shapes:
        match described:
            case shape.Packed():
                for bits in described.bits:
                    if bits.name not in SAID:
                        yield Named(layer, bits.name, *_bits(bits, described.vle))
            case shape.U8():
                yield Named(layer, described.name, Type.UINT8, described.names)
            case shape.Le():
                yield Named(layer, described.name, _LE[described.size, described.signed])
            case shape.Vle():
                yield Named(layer, described.name, Type.UINT64, described.names)
            case shape.Zid():
                yield Named(layer, described.name, Type.ZID)
            case shape.CountedBytes() | shape.Rest():
                yield Named(layer, described.name, Type.TEXT if described.text else Type.BYTES)
            case shape.When():
                yield from fields_of(layer, described.fields)
            case shape.Many():
                yield from fields_of(layer, described.item)
            case shape.Region() | shape.Chain() | shape.Body() | shape.Messages():
                pass
            case _:
                assert_never(described)


_LE = {
    (2, False): Type.UINT16,
    (2, True): Type.INT16,
    (4, False): Type.UINT32,
    (4, True): Type.INT32,
    (8, False): Type.UINT64,
    (8, True): Type.INT64,
}


def _bits(bits: shape.Bits, vle: bool) -> tuple[Type, shape.Names | None, int]:
    if vle:
        return (Type.UINT64 if bits.size > 32 else Type.UINT32), bits.names, 0
    return Type.UINT8, bits.names, (1 << bits.size) - 1 << bits.shift


def inner_layers(shapes: Iterable[shape.Shape]) -> Iterator[shape.Extension | shape.Region]:
    """Yields every extension and region inside some shapes, outermost first, at any depth."""
    for described in shapes:
        match described:
            case shape.When():
                yield from inner_layers(described.fields)
            case shape.Many():
                yield from inner_layers(described.item)
            case shape.Region():
                yield described
                yield from inner_layers(described.fields)
            case shape.Chain():
                for extension in described.known:
                    yield extension
                    yield from inner_layers(extension.fields)
            case _:
                pass


def all_fields(messages: Iterable[shape.Message]) -> dict[str, Named]:
    """Returns every field of some messages by its name in Wireshark, those inside extensions and regions too.

    Fields of extensions that share a name are one; of the types they have it gets the widest, and no bits
    where they differ.

    Raises:
        ValueError: Two fields of one name cannot be one.
    """
    found: dict[str, Named] = {}
    for message in messages:
        layers: list[shape.Message | shape.Extension | shape.Region] = [
            message,
            *inner_layers(message.fields),
        ]
        for described in layers:
            for field in fields_of(layer_name(described), described.fields):
                known = found.get(field.filter)
                found[field.filter] = field if known is None else _merged(known, field)
    for field in (
        Named(UNKNOWN_EXTENSION, "z64", Type.UINT64),
        Named(UNKNOWN_EXTENSION, "data", Type.BYTES),
    ):
        found[field.filter] = field
    return found


_WIDTHS = (Type.UINT8, Type.UINT16, Type.UINT32, Type.UINT64)


def _merged(one: Named, other: Named) -> Named:
    if one == other:
        return one
    if one.type in _WIDTHS and other.type in _WIDTHS:
        widest = max(one.type, other.type, key=_WIDTHS.index)
    elif one.type is other.type:
        widest = one.type
    else:
        raise ValueError(f"{one.filter} is {one.type.value} and {other.type.value}")
    names = one.names if other.names in {None, one.names} else other.names if one.names is None else None
    return Named(one.layer, one.name, widest, names, one.bits if one.bits == other.bits else 0)
