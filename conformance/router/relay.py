"""Messages to be sent: new ones with just the fields that say something, relayed ones with just what changes.

A relayed message shares its body and its extensions with the one that came in, and one message may go to many faces:
nobody may change it. Building a packet the way Scapy does costs more than all the rest of the router.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

from scapy.packet import Packet

from scapy_layers.codes import Priority
from scapy_layers.extensions import NodeId, QoS
from scapy_layers.message import Extension, Layer, Message

L = TypeVar("L", bound=Layer)

# Scapy's own setter looks for a field of that name first.
_set_fields = Packet.__dict__["fields"].__set__


def made(cls: type[L], fields: dict[str, Any]) -> L:
    """Returns a message or extension with these fields, given as they are kept: texts as bytes."""
    layer = cls()
    _set_fields(layer, fields)
    return layer


def relayed(message: Message, key: str, chain: list[Extension], **changes: Any) -> Message:
    """Returns a message with a full key, another chain and other fields; the rest is that of the old one."""
    fields = message.fields.copy()
    fields |= changes
    fields["Z"] = 1 if chain else 0
    fields["M"] = fields["N"] = 1
    fields["key_scope"] = 0
    fields["key_suffix"] = key.encode()
    fields["extensions"] = chain
    return made(type(message), fields)


def without(chain: list[Extension], cls: type[Extension]) -> list[Extension]:
    """Returns a chain without the extensions of a class; the bits that say that more follow are right again."""
    for extension in chain:
        if type(extension) is cls:
            break
    else:
        return chain
    kept = [extension for extension in chain if type(extension) is not cls]
    if kept:
        kept[-1] = alone(kept[-1])
    return kept


def alone(extension: Extension) -> Extension:
    """Returns an extension as it is when no other follows."""
    if not extension.fields.get("Z"):
        return extension
    fields = extension.fields.copy()
    fields["Z"] = 0
    return made(type(extension), fields)


def with_node_id(chain: list[Extension], node_id: int | None) -> list[Extension]:
    """Returns a chain with just this NodeId, in front; with none when it is None."""
    rest = without(chain, NodeId)
    if node_id is None:
        return rest
    return [_node_id(node_id, bool(rest)), *rest]


@lru_cache(1024)
def _node_id(number: int, more: bool) -> NodeId:
    return made(NodeId, {"Z": int(more), "node_id": number})


def last(chain: Iterable[Extension], cls: type[Extension]) -> Any:
    """Returns the last extension of a class, which is the one that counts (reading R-15); None when there is none."""
    found = None
    for extension in chain:
        if type(extension) is cls:
            found = extension
    return found


def chain_of(message: Message) -> list[Extension]:
    """Returns the extensions of a message without giving it an empty list of its own."""
    return message.fields.get("extensions") or []


CONTROL = made(QoS, {"Z": 0, "D": 1, "priority": int(Priority.CONTROL)})
"""QoS of a DECLARE, as real nodes have it: 0x08."""
