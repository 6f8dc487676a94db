"""SCOUT and HELLO against bytes that real nodes answered or took."""

from __future__ import annotations

import pytest

from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind, What, WhatAmI
from scapy_layers.errors import BadValue, Overlong, Truncated
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.primitives import Counted, CountedList
from scapy_layers.scouting import Hello, Scout
from tests.scapy_layers.golden import CLIENT, assert_every_cut_refused, assert_golden, raw

GOLDEN: list[tuple[str, str, Message]] = [
    ("H50", "010903", Scout(what=What.ROUTER | What.PEER)),
    ("H51", "01093fddccbbaa", Scout(zid="aabbccdd")),
    ("H52", "0109ff0102030405060708090a0b0c0d0e0f10", Scout(zid=CLIENT, what=7)),
    (
        "H53",
        "2209f10102030405060708090a0b0c0d0e0f10 01 0f 7463702f3132372e302e302e313a39",
        Hello(zid=CLIENT, whatami=WhatAmI.PEER, locators=["tcp/127.0.0.1:9"]),
    ),
    ("H54", "0209f10102030405060708090a0b0c0d0e0f10", Hello(zid=CLIENT, whatami="peer")),
    (
        "H55",
        "220971 0102030405060708 01 0f 7463702f3132372e302e302e313a39",
        Hello(zid="807060504030201", whatami="peer", locators="tcp/127.0.0.1:9"),
    ),
    (
        "H56",
        (
            "2209f10102030405060708090a0b0c0d0e0f10 02 0f 7463702f3132372e302e302e313a39"
            "0d 7463702f5b3a3a315d3a393939"
        ),
        Hello(zid=CLIENT, whatami="peer", locators=["tcp/127.0.0.1:9", "tcp/[::1]:999"]),
    ),
    ("optional extension", "8109070f", Scout(extensions=[UnknownExtension(ext_id=0xF)])),
    ("mandatory extension", "8109071f", Scout(extensions=[UnknownExtension(ext_id=0xF, M=1)])),
    ("reserved header bits", "610907", Scout(reserved_6=1, reserved_5=1)),
    ("another version", "01ff07", Scout(version=0xFF)),
    ("addressed to nobody", "010900", Scout(what=0)),
    ("no locators behind L", "22090001 00", Hello(L=1, zid=b"\x01", locators=[])),
]


@pytest.mark.parametrize(("digits", "message"), [row[1:] for row in GOLDEN], ids=[row[0] for row in GOLDEN])
def test_golden_bytes(digits: str, message: Message) -> None:
    assert_golden(digits, message)


@pytest.mark.parametrize("digits", [row[1] for row in GOLDEN], ids=[row[0] for row in GOLDEN])
def test_every_cut_is_refused(digits: str) -> None:
    assert_every_cut_refused(digits, Kind.SCOUTING)


@pytest.mark.parametrize(
    ("digits", "error", "field", "offset"),
    [
        ("0109", Truncated, "SCOUT.zid_len", 2),
        ("01093f ddcc", Truncated, "SCOUT.zid", 3),
        ("010908 00", BadValue, "SCOUT.zid", 3),
        ("020903 01", BadValue, "HELLO.whatami", 2),
        ("020901 00", BadValue, "HELLO.zid", 3),
        ("220901 01 01 03 746370", BadValue, "HELLO.locators[0].locator", 5),
        ("220901 01 01 05 612f622363", BadValue, "HELLO.locators[0].locator", 5),
        ("220901 01 01 03 612fff", BadValue, "HELLO.locators[0].locator", 5),
        ("220901 01 02 03 612f62 8002" + "00" * 256, Overlong, "HELLO.locators[1].locator", 9),
        ("220901 01 02 03 612f62", Truncated, "HELLO.locators[1].locator", 9),
        ("220901 01 ffffffffffffffffff", Truncated, "HELLO.locators[0].locator", 13),
    ],
)
def test_refused_bytes_name_the_field_and_the_place(
    digits: str, error: type[Exception], field: str, offset: int
) -> None:
    with pytest.raises(error) as caught:
        decode(raw(digits), Kind.SCOUTING)
    assert (caught.value.field, caught.value.offset) == (field, offset)  # type: ignore[attr-defined]


def test_trailing_zero_bytes_of_a_zid_are_kept() -> None:
    hello = decode(raw("020921 010000"), Kind.SCOUTING)
    assert hello.zid == b"\x01\x00\x00"
    assert hello.get_field("zid").i2repr(hello, hello.zid) == "1"


def test_count_of_locators_can_lie() -> None:
    lying = Hello(zid=b"\x01", locators=CountedList(["a/b"], said=2))
    assert bytes(lying).hex() == "2209000102" + "03612f62"
    assert bytes(lying.copy()) == bytes(lying)


def test_locator_with_a_lying_count_is_kept() -> None:
    lying = Hello(zid=b"\x01", locators=[Counted(b"a/b", said=9)])
    assert bytes(lying).hex() == "22090001 01 09 612f62".replace(" ", "")


def test_over_long_count_of_locators_still_counts_them() -> None:
    hello = Hello(raw("22090001 8100 03612f62"))
    assert bytes(hello).hex() == "22090001" + "8100" + "03612f62"
    hello.locators.append("c/d")
    assert bytes(hello).hex() == "22090001" + "8200" + "03612f62" + "03632f64"


def test_partly_read_locators_are_rebuilt() -> None:
    cut = Hello(raw("22090001 03 03612f62 05612f"))
    assert cut.locators == ["a/b"]
    assert cut.partial
    assert bytes(cut).hex() == "2209000103" + "03612f62" + "05612f"
