"""Aliases of key expressions: who declared what under which number."""

from __future__ import annotations

from conformance.expect import field
from scapy_layers.declarations import DeclareKeyExpr, UndeclareKeyExpr
from scapy_layers.message import Message

Table = dict[int, str]
"""Key expressions by the number that the owner of the table gave them."""


def resolved(message: Message, table: Table) -> str:
    """Returns the full key expression of a message, given the table that its alias belongs to."""
    scope = int(field(message, "key_scope") or 0)
    prefix = table.get(scope, f"<unknown alias {scope}>") if scope else ""
    return prefix + str(field(message, "key_suffix") or "")


def learn(body: Message | None, table: Table) -> None:
    """Takes in an alias that the owner of a table declares or takes back."""
    if isinstance(body, DeclareKeyExpr):
        table[int(body.value("key_id"))] = resolved(body, table)
    elif isinstance(body, UndeclareKeyExpr):
        table.pop(int(body.value("key_id")), None)
