"""The bodies of DECLARE. Spec: Declarations; ids and flags as real nodes have them."""

# ruff: noqa: RUF012  (a field list is a class attribute: that is how Scapy layers are written)

from __future__ import annotations

from scapy_layers import extensions
from scapy_layers.codes import DeclarationId
from scapy_layers.extensions import key
from scapy_layers.fields import Vle, header
from scapy_layers.message import Message


class DeclareKeyExpr(Message):
    """Gives a key an alias: ExprId ``key_id`` stands for it from now on. There is no M flag."""

    name = "D_KEYEXPR"
    fields_desc = [
        *header(DeclarationId.D_KEYEXPR, "Z", "-", "N"),
        Vle("key_id", 16),
        *key(),
        extensions.NONE,
    ]


class UndeclareKeyExpr(Message):
    """Takes an alias back."""

    name = "U_KEYEXPR"
    fields_desc = [
        *header(DeclarationId.U_KEYEXPR, "Z", "-", "-"),
        Vle("key_id", 16),
        extensions.NONE,
    ]


class DeclareSubscriber(Message):
    """Announces a subscriber."""

    name = "D_SUBSCRIBER"
    fields_desc = [
        *header(DeclarationId.D_SUBSCRIBER, "Z", "M", "N"),
        Vle("entity_id", 32),
        *key(),
        extensions.NONE,
    ]


class UndeclareSubscriber(Message):
    """Retracts a subscriber."""

    name = "U_SUBSCRIBER"
    fields_desc = [
        *header(DeclarationId.U_SUBSCRIBER, "Z", "-", "-"),
        Vle("entity_id", 32),
        extensions.UNDECLARE,
    ]


class DeclareQueryable(Message):
    """Announces a queryable."""

    name = "D_QUERYABLE"
    fields_desc = [
        *header(DeclarationId.D_QUERYABLE, "Z", "M", "N"),
        Vle("entity_id", 32),
        *key(),
        extensions.D_QUERYABLE,
    ]


class UndeclareQueryable(Message):
    """Retracts a queryable."""

    name = "U_QUERYABLE"
    fields_desc = [
        *header(DeclarationId.U_QUERYABLE, "Z", "-", "-"),
        Vle("entity_id", 32),
        extensions.UNDECLARE,
    ]


class DeclareToken(Message):
    """Announces a liveliness token."""

    name = "D_TOKEN"
    fields_desc = [
        *header(DeclarationId.D_TOKEN, "Z", "M", "N"),
        Vle("entity_id", 32),
        *key(),
        extensions.NONE,
    ]


class UndeclareToken(Message):
    """Retracts a liveliness token."""

    name = "U_TOKEN"
    fields_desc = [
        *header(DeclarationId.U_TOKEN, "Z", "-", "-"),
        Vle("entity_id", 32),
        extensions.UNDECLARE,
    ]


class DeclareFinal(Message):
    """Ends the answer to the current part of an INTEREST."""

    name = "D_FINAL"
    fields_desc = [*header(DeclarationId.D_FINAL, "Z", "-", "-"), extensions.NONE]
