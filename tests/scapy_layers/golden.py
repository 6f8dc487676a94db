"""Golden bytes: a message built from its fields on one side, its bytes on the other, checked both ways."""

from __future__ import annotations

from typing import Any

import pytest

from scapy_layers import shape
from scapy_layers.batch import contents
from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind
from scapy_layers.errors import WireError
from scapy_layers.fields import WhenField
from scapy_layers.message import Extension, Layer, Message, Region
from scapy_layers.reading import holds
from scapy_layers.writing import layout_of

T1 = {"timestamp": 0x0102030405060708, "timestamp_id": "aa"}
"""The Timestamp that the hand-made vectors use."""

CLIENT = "100f0e0d0c0b0a090807060504030201"
"""The ZenohID 01 02 .. 10 of the hand-made client, as text."""

ROUTER = "2ed854756cd2a9f47f2fd1b4caf7b69a"
"""The ZenohID of the router that the hand-made client talked to."""


def raw(digits: str) -> bytes:
    """Returns the bytes of hexadecimal digits with spaces."""
    return bytes.fromhex(digits)


def facts(layer: Any) -> Any:
    """Returns what a layer says on the wire: every field that is present, computed ones included."""
    if isinstance(layer, list):
        return [facts(item) for item in layer]
    if isinstance(layer, Layer):
        said = {
            field.name: _said(field, layer.value(field.name))
            for field in layer.fields_desc
            if not isinstance(field, WhenField) or layer.present(field.conditions)
        }
        if isinstance(layer, Extension | Region):
            # Both follow from what stands behind; that they are right is seen in the bytes.
            said.pop("Z", None)
            said.pop("length", None)
        return type(layer).__name__, said
    # Text in a list is text, unless it stands behind a count of its own.
    return layer.encode("utf-8", "surrogateescape") if isinstance(layer, str) else layer


def _said(field: Any, value: Any) -> Any:
    described = field.fld.shape if isinstance(field, WhenField) else field.shape
    if isinstance(described, shape.Many) and isinstance(value, list):
        return [_item(described.item, one) if isinstance(one, dict) else facts(one) for one in value]
    return facts(value)


def _item(shapes: tuple[shape.Shape, ...], item: dict[str, Any]) -> dict[str, Any]:
    """Returns what an item of a list says: every field that is present, computed ones included."""
    layout = layout_of(shapes)

    def value(name: str) -> Any:
        return layout.value(name, item, layout.defaults)

    return {
        name: facts(value(name)) for name in layout.defaults if holds(layout.conditions.get(name, ()), value)
    }


def assert_golden(digits: str, message: Message) -> None:
    """Asserts that the message makes the bytes, that the bytes make the message, and their exact length."""
    expected = raw(digits)
    assert bytes(message).hex() == expected.hex()
    decoded = decode(expected, message.kind)
    assert facts(decoded) == facts(message)
    assert bytes(decoded) == expected
    assert bytes(decoded.copy()) == expected


def assert_every_cut_refused(digits: str, kind: Kind) -> None:
    """Asserts that no shorter piece of the bytes is such a message, and that each is read as far as it goes."""
    whole = raw(digits)
    for size in range(len(whole)):
        piece = whole[:size]
        with pytest.raises(WireError) as caught:
            decode(piece, kind)
        assert caught.value.offset <= size
        found = contents(piece, kind)
        assert b"".join(map(bytes, found.messages)) + found.rest == piece
