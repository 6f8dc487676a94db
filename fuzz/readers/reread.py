"""The bytes that tshark highlights for a field, read again: do they say what it shows?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from xml.etree.ElementTree import Element

from fuzz.readers.said import Value
from scapy_layers import names, shape
from scapy_layers.catalogue import shapes
from scapy_layers.errors import WireError
from scapy_layers.names import Type
from scapy_layers.primitives import Reader, zid_to_text

FIELDS = names.all_fields(shapes().values())
"""Every field that a description has, by its name in Wireshark."""

Way = Callable[[bytes], Value]
"""Reads the value of a field from the bytes that are highlighted for it; may raise ``WireError`` or ``ValueError``."""


def place(node: Element) -> tuple[int, int]:
    """Returns where a field begins, and how many bytes are highlighted for it."""
    return int(node.get("pos", "0")), int(node.get("size", "0"))


def highlighted(node: Element) -> bytes:
    """Returns the bytes that are highlighted for a field."""
    return bytes.fromhex(node.get("unmaskedvalue") or node.get("value") or "")


def value_of(node: Element, kind: Type) -> Value:
    """Returns the value of a field; text and bytes are what is highlighted, as what is shown may be cut or escaped."""
    told = node.get("show", "")
    match kind:
        case Type.TEXT:
            return _text(highlighted(node))
        case Type.BYTES:
            return highlighted(node)
        case Type.ZID:
            return told
        case _:
            return int(told, 0)


def complaint(node: Element, name: str, value: Value) -> str | None:
    """Returns what is wrong with the bytes that are highlighted for a value, or with how it is shown."""
    raw, told = highlighted(node), node.get("show", "")
    if len(raw) != place(node)[1]:
        return f"{place(node)[1]} bytes, of which tshark gives {len(raw)}"
    if isinstance(value, bytes):
        return None if told.replace(":", "") == value.hex() else f"shown as {told}"
    if FIELDS[name].type is Type.TEXT:
        # Wireshark escapes what cannot be printed.
        plain = str(value).isascii() and str(value).isprintable() and "\\" not in str(value)
        return None if told == value or not plain else f"shown as {told!r}"
    for way in _WAYS[name]:
        try:
            if way(raw) == value:
                return None
        except (WireError, ValueError):
            continue
    return f"highlighted {raw.hex() or 'nothing'}"


# Ways ---------------------------------------------------------------------------------------------


def _bits_of_byte(shift: int, size: int, raw: bytes) -> int:
    (byte,) = raw
    return int(byte) >> shift & (1 << size) - 1


def _bits_of_vle(shift: int, size: int, raw: bytes) -> int:
    reader = Reader(raw)
    carrier = reader.vle()
    if reader.left:
        raise ValueError("more than the integer is highlighted")
    return int(carrier) >> shift & (1 << size) - 1


def _little_endian(signed: bool, raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=signed)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _ways(described: Iterable[shape.Shape]) -> Iterator[tuple[str, Way]]:
    """Yields how the fields of a layer are read, those of list items too."""
    for one in described:
        match one:
            case shape.Packed():
                of = _bits_of_vle if one.vle else _bits_of_byte
                for bits in one.bits:
                    yield bits.name, partial(of, bits.shift, bits.size)
            case shape.U8():
                yield one.name, partial(_bits_of_byte, 0, 8)
            case shape.Le():
                yield one.name, partial(_little_endian, one.signed)
            case shape.Vle():
                yield one.name, partial(_bits_of_vle, 0, 64)
            case shape.Zid():
                yield one.name, zid_to_text
            case shape.When():
                yield from _ways(one.fields)
            case shape.Many():
                yield from _ways(one.item)
            case _:
                pass  # text and bytes are what is highlighted; the rest has fields of its own


def _all_ways() -> dict[str, list[Way]]:
    """Returns how the bytes of each field can be read; extensions that share a name may do it differently."""
    found: dict[str, list[Way]] = defaultdict(list)
    for described in shapes().values():
        for layer in (described, *names.inner_layers(described.fields)):
            for name, way in _ways(layer.fields):
                found[f"zenoh.{names.layer_name(layer)}.{name}"].append(way)
    found["zenoh.unknown_extension.z64"].append(partial(_bits_of_vle, 0, 64))
    return found


_WAYS = _all_ways()
