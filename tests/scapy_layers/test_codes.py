"""The numbers, against the tables of the specification where a slip would go unnoticed elsewhere."""

from __future__ import annotations

import pytest

from scapy_layers import codes


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ZENOH_BYTES", 0),
        ("TEXT_PLAIN", 4),
        ("APPLICATION_CBOR", 8),
        ("TEXT_JSON5", 11),
        ("IMAGE_PNG", 16),
        ("APPLICATION_XML", 21),
        ("TEXT_CSV", 28),
        ("APPLICATION_JWT", 34),
        ("AUDIO_AAC", 38),
        ("VIDEO_H261", 43),
        ("VIDEO_VP9", 52),
        ("CUSTOM", 0xFFFF),
    ],
)
def test_encoding_ids(name: str, number: int) -> None:
    assert codes.Encoding[name] == number


def test_encoding_ids_have_no_gap() -> None:
    assert sorted(codes.Encoding) == [*range(53), 0xFFFF]


def test_transport_and_network_ids_do_not_overlap() -> None:
    assert [*codes.TransportId] == [*range(8)]
    assert [*codes.NetworkId] == [*range(0x19, 0x20)]


def test_roles_have_two_encodings() -> None:
    assert [1 << role for role in codes.WhatAmI] == [*codes.What]
