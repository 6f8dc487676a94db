"""VLE integers, ZenohIDs, counted bytes and the bounded reader."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_layers.errors import BadValue, Truncated
from scapy_layers.primitives import (
    VLE_MAX,
    Counted,
    CountedList,
    Reader,
    WideInt,
    vle_size,
    write_count,
    write_vle,
    zid_from_text,
    zid_to_text,
)

VLE = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16383, "ff7f"),
    (16384, "808001"),
    (65535, "ffff03"),
    (2**28 - 1, "ffffff7f"),
    (2**32 - 1, "ffffffff0f"),
    (2**56 - 1, "ff" * 7 + "7f"),
    (2**56, "80" * 8 + "01"),
    (2**63 - 1, "ff" * 8 + "7f"),
    (2**63, "80" * 8 + "80"),
    (2**64 - 1, "ff" * 9),
]


@pytest.mark.parametrize(("value", "digits"), VLE)
def test_vle_table(value: int, digits: str) -> None:
    raw = bytes.fromhex(digits)
    assert write_vle(value) == raw
    assert vle_size(value) == len(raw)
    reader = Reader(raw + b"\x55")
    read = reader.vle()
    assert (read, reader.at) == (value, len(raw))
    assert not isinstance(read, WideInt)


@given(st.integers(0, VLE_MAX), st.integers(1, 9))
def test_vle_of_any_width_is_read_and_written_again(value: int, width: int) -> None:
    if width < vle_size(value):
        with pytest.raises(ValueError, match="cannot be written"):
            WideInt(value, width)
        return
    raw = write_vle(value, width)
    assert len(raw) == width
    read = Reader(raw).vle()
    assert read == value
    assert write_vle(read) == raw
    for cut in range(width):
        reader = Reader(raw[:cut])
        with pytest.raises(Truncated):
            reader.vle()
        assert reader.at == 0


@given(st.binary(min_size=9))
def test_vle_never_takes_more_than_nine_bytes(raw: bytes) -> None:
    reader = Reader(raw)
    value = reader.vle()
    assert 0 <= value <= VLE_MAX
    assert write_vle(value) == raw[: reader.at]
    assert reader.at <= 9


@pytest.mark.parametrize("value", [-1, VLE_MAX + 1])
def test_vle_refuses_what_is_no_64_bit_number(value: int) -> None:
    with pytest.raises(ValueError, match="64-bit"):
        write_vle(value)


def test_wide_int_is_a_number_that_keeps_its_width() -> None:
    wide = WideInt(10, 3)
    assert (wide, str(wide), f"{wide}", repr(wide)) == (10, "10", "10", "WideInt(10, width=3)")
    for twin in (pickle.loads(pickle.dumps(wide)), copy.deepcopy(wide)):
        assert write_vle(twin) == b"\x8a\x80\x00"


def test_counted_values_lie_in_every_copy() -> None:
    lying = Counted("ab", said=5, width=2)
    listed = CountedList([1, 2], said=0)
    for twin in (lying, pickle.loads(pickle.dumps(lying)), copy.deepcopy(lying)):
        assert write_count(twin).hex() == "8500"
    for other in (listed, listed.copy(), pickle.loads(pickle.dumps(listed)), copy.deepcopy(listed)):
        assert write_count(other) == b"\x00"
    assert eval(repr(lying)) == lying
    assert eval(repr(listed)).said == 0


def test_count_is_the_true_one_unless_given() -> None:
    assert write_count(b"abc") == b"\x03"
    assert write_count([1] * 200).hex() == "c801"
    assert write_count(Counted(b"abc", width=2)).hex() == "8300"


def test_reader_stops_at_the_end_of_its_region() -> None:
    outer = Reader(b"abcdef")
    inner = outer.region(3)
    assert (inner.take(2), inner.left, outer.rest()) == (b"ab", 1, b"def")
    with pytest.raises(Truncated) as caught:
        inner.take(2)
    assert (caught.value.offset, inner.rest()) == (2, b"c")
    with pytest.raises(Truncated):
        inner.u8()
    with pytest.raises(Truncated):
        outer.region(1)


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        ("1", "01"),
        ("aabbccdd", "ddccbbaa"),
        ("AABBCCDD", "ddccbbaa"),
        ("807060504030201", "0102030405060708"),
        ("f" * 32, "ff" * 16),
        ("100", "0001"),
    ],
)
def test_zid_text_is_the_number_in_hexadecimal(text: str, wire: str) -> None:
    assert zid_from_text(text).hex() == wire
    assert zid_to_text(bytes.fromhex(wire)) == text.lower()


@pytest.mark.parametrize("text", ["", "0", "00", "xyz", "1" + "0" * 32, "-1"])
def test_zid_text_that_is_no_zid_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        zid_from_text(text)
