"""Bodies of DECLARE on their own; inside DECLARE they are in test_network.py."""

from __future__ import annotations

import pytest

from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import WireExpr
from scapy_layers.message import Message
from tests.scapy_layers.golden import assert_every_cut_refused, assert_golden, raw

ALL: list[tuple[str, Message]] = [
    ("20070003612f62", DeclareKeyExpr(key_id=7, key_suffix="a/b")),
    ("0107", UndeclareKeyExpr(key_id=7)),
    ("62010203612f62", DeclareSubscriber(entity_id=1, M=1, key_scope=2, key_suffix="a/b")),
    ("0301", UndeclareSubscriber(entity_id=1)),
    ("24ac02000161", DeclareQueryable(entity_id=300, key_suffix="a")),
    ("8501 5f020101", UndeclareQueryable(entity_id=1, extensions=[WireExpr(key_scope=1, N=1)])),
    ("460409", DeclareToken(entity_id=4, M=1, key_scope=9)),
    ("8704 5f03010061", UndeclareToken(entity_id=4, extensions=[WireExpr(key_suffix="a")])),
    ("1a", DeclareFinal()),
]


@pytest.mark.parametrize(("digits", "message"), ALL, ids=[type(row[1]).__name__ for row in ALL])
def test_golden_bytes(digits: str, message: Message) -> None:
    assert_golden(digits, message)
    assert_every_cut_refused(digits, Kind.DECLARATION)


def test_alias_has_no_mapping_flag() -> None:
    alias = decode(raw("6007 000161"), Kind.DECLARATION)
    assert (alias.reserved_6, alias.key_suffix) == (1, "a")
    assert "M" not in alias.default_fields
