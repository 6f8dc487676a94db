"""Fields: what they take, what they show, and that nothing undescribable gets in."""

from __future__ import annotations

from typing import Any

import pytest
from scapy.fields import ByteField, ConditionalField
from scapy.packet import Packet

from scapy_layers import shape
from scapy_layers.codes import TransportId, What, WhatAmI
from scapy_layers.fields import U8, Bits, Flag, Reserved, Vle, header, packed, shapes_of, when
from scapy_layers.message import Layer
from scapy_layers.network import Interest, Push
from scapy_layers.primitives import Counted, WideInt
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Init


def test_number_takes_names_of_any_case_and_enumerations() -> None:
    for given in ("peer", "PEER", WhatAmI.PEER, 1, True):
        assert Init(whatami=given).whatami == 1
    assert Interest(mode="current_future").mode == 3
    assert Scout(what=What.ROUTER | What.CLIENT).what == 5


@pytest.mark.parametrize(
    ("cls", "field", "value"),
    [
        (Init, "whatami", 4),
        (Init, "version", 256),
        (Init, "batch_size", 65536),
        (Init, "whatami", -1),
        (Init, "whatami", "boss"),
        (Push, "key_scope", 2**64),
    ],
)
def test_number_that_the_wire_cannot_carry_is_refused_at_once(cls: Any, field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        cls(**{field: value})


def test_values_are_shown_with_names_widths_and_lies() -> None:
    def shown(layer: Any, name: str) -> str:
        return str(layer.get_field(name).i2repr(layer, layer.getfieldval(name)))

    assert shown(Init(whatami=2), "whatami") == "2 (CLIENT)"
    assert shown(Close(reason=200), "reason") == "200"
    assert shown(Push(key_scope=WideInt(7, 3)), "key_scope") == "7 in 3 bytes"
    assert shown(Scout(what=3), "what") == "3 (ROUTER|PEER)"
    assert shown(Push(key_suffix=Counted("ab", said=9)), "key_suffix") == "'ab' behind the count 9"
    assert shown(Hello(zid="aabb"), "zid") == "aabb"


def test_text_is_text_and_bytes_that_are_none_survive() -> None:
    push = Push(key_suffix="ä/b")
    assert push.key_suffix == "ä/b"
    broken = Push(key_suffix=b"\xff")
    again = Push(key_suffix=broken.key_suffix)
    assert bytes(again) == bytes(broken)


def test_header_puts_flags_from_bit_7_down() -> None:
    (group,) = shapes_of(header(TransportId.INIT, "Z", "-", "A"))
    assert isinstance(group, shape.Packed)
    assert [(bits.name, bits.shift) for bits in group.bits] == [
        ("Z", 7),
        ("reserved_6", 6),
        ("A", 5),
        ("mid", 0),
    ]


def test_packed_refuses_bits_that_do_not_fill_their_carrier() -> None:
    with pytest.raises(ValueError, match="7 bits"):
        packed(Bits("a", 4), Reserved(3))
    with pytest.raises(ValueError, match="65 bits"):
        packed(Bits("a", 64), Flag("b"), vle=True)


def test_neighbours_under_the_same_condition_become_one_when() -> None:
    fields = [Vle("a", 8), *when("S", Vle("b", 8), *when("T", Vle("c", 8), Vle("d", 8))), *when("S", U8("e"))]
    names = [
        [inner.name for inner in one.fields if not isinstance(inner, shape.Packed | shape.When)]
        if isinstance(one, shape.When)
        else one
        for one in shapes_of(fields)
    ]
    assert names == [shape.Vle("a", 8), ["b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize(
    "field",
    [ByteField("x", 0), ConditionalField(ByteField("x", 0), lambda _: True)],
    ids=["plain", "conditional"],
)
def test_field_without_a_shape_is_refused(field: Any) -> None:
    with pytest.raises(TypeError, match="cannot be described"):
        type("Smuggled", (Layer,), {"name": "smuggled", "fields_desc": [field]})


def test_fields_of_other_packets_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot be described"):
        shapes_of([Packet])
