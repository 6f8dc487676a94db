"""Layers as plain data: what ``--format json`` and ``jsonl`` print.

Fields are named as in the layers. Numbers stay numbers, bytes are hexadecimal, ZenohIDs have their text form,
text is text. What a message does not have is left out, and so are reserved bits of value 0 and the id, which
the name says.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scapy_layers import shape
from scapy_layers.message import Layer, UnknownExtension
from scapy_layers.primitives import zid_to_text
from scapy_layers.reading import holds
from scapy_layers.ros2 import from_attachment

Plain = dict[str, Any]
"""What JSON calls an object."""

UNDECODED = "undecoded"
"""Key of the bytes of a layer that could not be taken apart."""


def as_data(layer: Layer) -> Plain:
    """Returns a layer with all that is inside it as JSON can say it; ``name`` comes first."""
    data: Plain = {"name": str(layer.name)}
    if isinstance(layer, UnknownExtension):
        data["header"] = layer.header
    data |= _fields(layer.wire_shapes(), layer.fields)
    attachment = layer.fields.get("attachment")
    ros2 = from_attachment(attachment) if attachment else None
    if ros2:
        data["ros2"] = asdict(ros2) | {"source_gid": ros2.source_gid.hex()}
    if layer.partial and layer.payload:
        data[UNDECODED] = bytes(layer.payload).hex()
    return data


def _fields(shapes: tuple[shape.Shape, ...], values: dict[str, Any]) -> Plain:
    """Returns the fields of a layer or of an item of a list; those without a value are left out."""
    data: Plain = {}
    for described in shapes:
        match described:
            case shape.Packed():
                for bits in described.bits:
                    value = values.get(bits.name)
                    if value is not None and bits.name not in _SAID and not (bits.reserved and not value):
                        data[bits.name] = int(value)
            case shape.When():
                # A chain that is not there is an empty one.
                known = all(isinstance(n, shape.Carries) or n.field in values for n in described.conditions)
                if known and holds(described.conditions, values.get):
                    data |= _fields(described.fields, values)
            case _:
                value = values.get(described.name)
                if value is not None:
                    data[described.name] = _plain(described, value)
    return data


_SAID = frozenset({"mid", "ext_id", "ENC"})
"""Bits that the name of a layer says; an unknown extension shows its whole header instead."""


def _plain(described: shape.Shape, value: Any) -> Any:
    if isinstance(value, Layer):
        return as_data(value)
    if isinstance(described, shape.Many):
        single = described.item[0] if len(described.item) == 1 else None
        return [_plain(single, one) if single else _fields(described.item, one) for one in value]
    if isinstance(value, list):
        return [as_data(one) if isinstance(one, Layer) else _plain(described, one) for one in value]
    if isinstance(value, bytes):
        if isinstance(described, shape.Zid):
            return zid_to_text(value)
        text = isinstance(described, shape.CountedBytes | shape.Rest) and described.text
        return _text(value.decode("utf-8", "surrogateescape")) if text else value.hex()
    return _text(value) if isinstance(value, str) else int(value)


def _text(value: str) -> str:
    """Returns text that any JSON reader takes: bytes that are no UTF-8 are escaped as in Python."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
