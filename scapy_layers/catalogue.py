"""All messages and extensions, strict decoding, and the shapes of everything."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from scapy_layers import data, declarations, network, scouting, shape, transport
from scapy_layers.codes import Kind
from scapy_layers.errors import BadValue, Truncated, UnknownMessage
from scapy_layers.message import (
    Extension,
    Layer,
    Message,
    kind_of,
    known_extensions,
    layer_class,
    message_class,
)
from scapy_layers.primitives import Reader

MESSAGES: tuple[type[Message], ...] = (
    scouting.Scout,
    scouting.Hello,
    transport.TransportOam,
    transport.Init,
    transport.Open,
    transport.Close,
    transport.KeepAlive,
    transport.Frame,
    transport.Fragment,
    transport.Join,
    network.Interest,
    network.ResponseFinal,
    network.Response,
    network.Request,
    network.Push,
    network.Declare,
    network.NetworkOam,
    declarations.DeclareKeyExpr,
    declarations.UndeclareKeyExpr,
    declarations.DeclareSubscriber,
    declarations.UndeclareSubscriber,
    declarations.DeclareQueryable,
    declarations.UndeclareQueryable,
    declarations.DeclareToken,
    declarations.UndeclareToken,
    declarations.DeclareFinal,
    data.Put,
    data.Del,
    data.Query,
    data.Reply,
    data.Err,
)

EXTENSIONS: tuple[type[Extension], ...] = known_extensions()
"""Every extension that some message defines (the tables in ``extensions.py``)."""


@cache
def shapes() -> dict[tuple[Kind, int], shape.Message]:
    """Returns the description of every message by layer and id: what all other readers read."""
    return {(cls.kind, cls.id): cls.shape() for cls in MESSAGES}


def build(described: shape.Message | shape.Extension, values: Mapping[str, Any]) -> Layer:
    """Makes the layer that a shape describes; a field that is not given is computed or has its default.

    Raises:
        KeyError: No layer has this shape.
    """
    cls = layer_class(described)
    return cls(**values)


def decode_one(raw: bytes, kind: Kind | None = None, at: int = 0) -> tuple[Message, int]:
    """Decodes one message strictly and returns it with the position behind it.

    Args:
        raw: Bytes of a batch or datagram, without a length prefix.
        kind: Layer of the message; None for transport or network, told apart by the id.
        at: Where it begins.

    Raises:
        WireError: The bytes are no such message; the offset counts from the start of ``raw``.
    """
    reader = Reader(raw, at)
    if not reader.left:
        raise Truncated("header", "no byte at all", at)
    number = reader.peek() & 0x1F
    layer = kind_of(number) if kind is None else kind
    cls = message_class(layer, number)
    if cls is None:
        raise UnknownMessage("header", f"id {number:#04x} is no {layer.name.lower()} message", at)
    message = cls.read(reader)
    if message.errors:
        raise message.errors[0].within(str(message.name))
    return message, reader.at


def decode(raw: bytes, kind: Kind | None = None) -> Message:
    """Decodes exactly one message strictly; arguments as in ``decode_one``.

    Raises:
        WireError: The bytes are no such message, or bytes are left behind it.
    """
    message, end = decode_one(raw, kind)
    if end < len(raw):
        raise BadValue(str(message.name), f"{len(raw) - end} bytes behind the message", end)
    return message


def decode_batch(raw: bytes) -> list[Message]:
    """Decodes all messages of a batch strictly.

    Behind a FRAME the transport goes on with the first id that is no network message.

    Raises:
        WireError: One of them is refused.
    """
    messages: list[Message] = []
    at = 0
    while at < len(raw):
        message, at = decode_one(raw, None, at)
        messages.append(message)
    return messages
