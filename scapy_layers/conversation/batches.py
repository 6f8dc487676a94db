"""A batch into messages, tolerantly: what stands in front of a fault and behind it is not lost."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers.conversation.heard import Unread
from scapy_layers.errors import UnknownMessage, WireError
from scapy_layers.lz4 import decompress
from scapy_layers.message import Layer, kind_of, message_class
from scapy_layers.primitives import Reader

MAX_UNPACKED = 0xFFFF
"""Bytes of the largest batch, compressed or not."""


def messages(raw: bytes) -> Iterator[tuple[Layer, list[WireError]]]:
    """Yields the messages of a batch, each with what strict decoding refuses in it.

    Offsets count from the start of the batch. A FRAME comes with what is wrong with itself; its messages have
    their own ``errors``. Bytes that are no message come last, as ``Unread``.
    """
    reader = Reader(raw)
    while reader.left:
        at = reader.at
        number = reader.peek() & 0x1F
        cls = message_class(kind_of(number), number)
        if cls is None:
            found = f"id {number:#04x} is no message of a link"
            yield Unread(data=reader.rest()), [UnknownMessage("header", found, at)]
            return
        message = cls.read(reader)
        errors = message.errors
        yield (
            message,
            [own.within(str(message.name)) for own in errors if not own.field.startswith("messages.")],
        )
        if errors and message.stopped and reader.left:
            yield Unread(data=reader.rest()), []
            return


def unpack(raw: bytes) -> bytes:
    """Returns a batch without the header byte that compression puts in front. Spec: Compression.

    Raises:
        WireError: The LZ4 block behind the header is refused.
    """
    return decompress(raw[1:], MAX_UNPACKED) if raw[0] & 1 else raw[1:]
