"""All messages and extensions, strict decoding, and the shapes of everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, assert_never

from scapy_layers import data, declarations, network, scouting, shape, transport
from scapy_layers.batch import LONG_PREFIX, PREFIX
from scapy_layers.codes import Kind, TransportId
from scapy_layers.errors import BadValue, Truncated, UnknownMessage, WireError
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


def build(described: shape.Message | shape.Extension | shape.Region, values: Mapping[str, Any]) -> Layer:
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
    if not isinstance(raw, bytes | bytearray | memoryview):
        raise TypeError(
            f"bytes are decoded, not {type(raw).__name__}; bytes.fromhex() reads hexadecimal digits"
        )
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


class Form(Enum):
    """What some bytes are, as far as their carrier tells."""

    STREAM = "stream"
    """Batches behind their 2-byte lengths, as TCP carries them."""
    LOWLATENCY = "lowlatency"
    """Network messages, KEEP_ALIVE or CLOSE behind 4-byte lengths: a low-latency session after OPEN."""
    BATCH = "batch"
    """Transport messages back to back: a batch without its length, or a datagram of a session."""
    TRANSPORT = "transport"
    """One transport message."""
    NETWORK = "network"
    """One network message."""
    SCOUTING = "scouting"
    """A datagram of scouting: SCOUT or HELLO; nodes ignore what is behind it."""


def decode_as(form: Form, raw: bytes) -> list[Message]:
    """Decodes bytes strictly.

    Raises:
        WireError: They are refused; the offset counts from the start of ``raw``.
    """
    match form:
        case Form.STREAM:
            return _units(raw, PREFIX, decode_transport)
        case Form.LOWLATENCY:
            return _units(raw, LONG_PREFIX, _decode_lowlatency)
        case Form.BATCH:
            return decode_transport(raw)
        case Form.TRANSPORT:
            return [decode(raw, Kind.TRANSPORT)]
        case Form.NETWORK:
            return [decode(raw, Kind.NETWORK)]
        case Form.SCOUTING:
            return [decode_one(raw, Kind.SCOUTING)[0]]
        case _:
            assert_never(form)


def _units(raw: bytes, prefix: int, decode_unit: Callable[[bytes], list[Message]]) -> list[Message]:
    messages: list[Message] = []
    at = 0
    while at < len(raw):
        start = at + prefix
        size = int.from_bytes(raw[at:start], "little")
        if start > len(raw) or size > len(raw) - start:
            said = "the length is cut" if start > len(raw) else f"{size} bytes, {len(raw) - start} left"
            raise Truncated("batch length", said, at)
        at = start + size
        try:
            messages += decode_unit(raw[start:at])
        except WireError as error:
            raise type(error)(error.field, error.found, start + error.offset) from None
    return messages


def decode_transport(raw: bytes) -> list[Message]:
    """Decodes all messages of a batch strictly; network messages stand in a FRAME only.

    Raises:
        WireError: One of them is refused.
    """
    messages: list[Message] = []
    at = 0
    while at < len(raw):
        message, at = decode_one(raw, Kind.TRANSPORT, at)
        messages.append(message)
    return messages


def _decode_lowlatency(raw: bytes) -> list[Message]:
    message = decode(raw)
    if message.kind is Kind.TRANSPORT and message.id not in (TransportId.CLOSE, TransportId.KEEP_ALIVE):
        raise UnknownMessage("header", f"{message.name} does not occur in a low-latency session", 0)
    return [message]


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
