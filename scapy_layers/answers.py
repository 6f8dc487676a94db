"""Which message answers which: what Scapy's ``sr`` and ``sr1`` go by.

==============================  ==========================================================
Question                        Answers
==============================  ==========================================================
SCOUT                           HELLO, from as many nodes as there are (``multi=True``)
INIT (A=0)                      INIT (A=1), CLOSE
OPEN (A=0)                      OPEN (A=1), CLOSE
REQUEST                         RESPONSE and RESPONSE_FINAL with its ``request_id``
INTEREST that is no FINAL       DECLARE with its ``interest_id``, D_FINAL among them
==============================  ==========================================================

A FRAME or batch asks and answers all that the messages in it do. This is what the protocol pairs, not a
judgement: whether an answer is a right one is for the reader of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scapy.packet import NoPayload, Packet

from scapy_layers.codes import InterestMode, Kind, NetworkId, ScoutingId, TransportId

Pair = tuple[str, int]
"""What a question and its answers have in common: a name and an id, 0 where there is none."""

_SCOUT = ("scout", 0)
_HANDSHAKE = {TransportId.INIT: ("init", 0), TransportId.OPEN: ("open", 0)}


def answers(reply: Packet, request: Packet) -> bool:
    """Tells whether some message of ``reply`` answers one of ``request``."""
    asked = {pair for message in _messages(request) for pair in _asks(message)}
    return any(pair in asked for message in _messages(reply) for pair in _answers(message))


def hashret(message: Packet) -> bytes:
    """Returns bytes that a question and its answers share, by which Scapy finds candidates.

    A FRAME or batch may hold several of both, so all of them share one value and ``answers`` decides.
    """
    if _holds_messages(message):
        return str(message.name).encode()
    pairs = [*_asks(message), *_answers(message)]
    if not pairs:
        return b""
    # CLOSE answers INIT and OPEN: the three of them are one group.
    name, number = pairs[0]
    return b"session" if pairs[0] in _HANDSHAKE.values() else f"{name} {number}".encode()


def _messages(message: Packet) -> Iterator[Packet]:
    """Gives the messages that stand in a FRAME or batch, or the message itself, and what was stacked on it with ``/``."""
    while not isinstance(message, NoPayload):
        if _holds_messages(message):
            for inside in message.fields.get("messages") or []:
                if isinstance(inside, Packet):
                    yield from _messages(inside)
        else:
            yield message
        message = message.payload


def _holds_messages(message: Packet) -> bool:
    return "messages" in message.default_fields


def _asks(message: Packet) -> list[Pair]:
    """Returns what a message waits for."""
    match _identity(message):
        case (Kind.SCOUTING, ScoutingId.SCOUT):
            return [_SCOUT]
        case (Kind.TRANSPORT, TransportId.INIT | TransportId.OPEN as number) if not message.value("A"):
            return [_HANDSHAKE[number]]
        case (Kind.NETWORK, NetworkId.REQUEST):
            return _numbered("request", message)
        case (Kind.NETWORK, NetworkId.INTEREST) if message.value("mode") != InterestMode.FINAL:
            return _numbered("interest", message)
    return []


def _answers(message: Packet) -> list[Pair]:
    """Returns what a message may have been asked by."""
    match _identity(message):
        case (Kind.SCOUTING, ScoutingId.HELLO):
            return [_SCOUT]
        case (Kind.TRANSPORT, TransportId.INIT | TransportId.OPEN as number) if message.value("A"):
            return [_HANDSHAKE[number]]
        case (Kind.TRANSPORT, TransportId.CLOSE):
            return list(_HANDSHAKE.values())
        case (Kind.NETWORK, NetworkId.RESPONSE | NetworkId.RESPONSE_FINAL):
            return _numbered("request", message)
        case (Kind.NETWORK, NetworkId.DECLARE) if message.value("I"):
            return _numbered("interest", message)
    return []


def _identity(message: Packet) -> tuple[Any, Any] | None:
    """Returns kind and id of a message, None for an extension or a foreign layer."""
    return (message.kind, message.id) if hasattr(type(message), "kind") else None


def _numbered(name: str, message: Packet) -> list[Pair]:
    """Returns the pair of a message with an id; nothing when the bytes ended in front of the id."""
    field = f"{name}_id"
    unread = message.partial and field not in message.fields
    return [] if unread else [(name, int(message.value(field)))]
