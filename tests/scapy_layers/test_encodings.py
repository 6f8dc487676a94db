"""Names of encodings, and what a reader does with their payloads."""

from __future__ import annotations

import pytest

from scapy_layers import encodings
from scapy_layers.codes import Encoding


def test_every_number_but_custom_has_a_name() -> None:
    assert set(encodings.NAMES) == set(Encoding) - {Encoding.CUSTOM}
    assert encodings.NAMES[Encoding.VIDEO_VP9] == "video/vp9"
    for number, name in encodings.NAMES.items():
        assert number.name == name.translate(str.maketrans("/-+", "___")).upper()


@pytest.mark.parametrize(
    ("number", "schema", "name"),
    [
        (4, None, "text/plain"),
        (4, b"utf8", "text/plain;utf8"),
        (4, b"\xff", "text/plain;\\xff"),
        (4, b"", "text/plain"),
        (60, b"x", "unknown(60);x"),
        (0xFFFF, b"own/encoding;with schema", "own/encoding;with schema"),
        (0xFFFF, None, ""),
    ],
)
def test_encoding_with_schema_is_named_as_the_api_does(number: int, schema: bytes | None, name: str) -> None:
    assert encodings.name_of(number, schema) == name


def test_payloads_that_are_text_are_known_with_and_without_schema() -> None:
    assert encodings.is_text("text/anything;utf8")
    assert encodings.is_text("application/json")
    assert encodings.is_json("application/json;x")
    assert not encodings.is_text("zenoh/bytes")
    assert not encodings.is_json("text/json5")
    assert encodings.is_binary("image/png;x")
    assert not any(
        encodings.is_binary(name) for name in ("zenoh/bytes", "text/own", "zenoh/string", "own", "")
    )
    for name in encodings.TEXT | encodings.JSON:
        assert name in encodings.NAMES.values()


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("image/jpeg", "jpg"),
        ("text/own", "txt"),
        ("zenoh/bytes", "bin"),
        ("../../etc/passwd", "bin"),
        ("", "bin"),
    ],
)
def test_suffix_of_a_file_is_one_of_ours_whatever_the_encoding_says(name: str, suffix: str) -> None:
    assert encodings.suffix_of(name) == suffix
