"""Any bytes are understood, or refused with a reason: nothing else comes out of a framing."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable

import pytest

from conformance.config import Tls
from conformance.link.framing import Broken, Framing, Prefixed
from conformance.link.tls import Encrypted, server_context
from conformance.link.websocket import WebSocket
from scapy_layers.errors import Overlong

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def eat(framing: Framing, data: bytes, rng: random.Random) -> None:
    """Feeds bytes in pieces, takes what there is, until the framing refuses."""
    try:
        while data:
            size = rng.choice([1, 2, 7, 100, 5000])
            framing.feed(data[:size])
            data = data[size:]
            framing.answer()
            while framing.take() is not None:
                pass
    except (Broken, Overlong):
        framing.answer()
    framing.goodbye()
    assert framing.stream_ended()


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", ["prefixed", "limited", "tls", "ws", "upgraded", "connecting"])
def test_any_bytes_are_batches_or_refused(kind: str, seed: int, tls: Tls) -> None:
    rng = random.Random(f"{kind} {seed}")
    context: Callable[[], ssl.SSLContext] = lambda: server_context(tls)  # noqa: E731
    framing: Framing
    data = rng.randbytes(rng.choice([10, 1000, 20_000]))
    match kind:
        case "tls":
            framing = Encrypted(context(), None)
            data = b"\x16\x03\x01" + data if seed % 2 else data
        case "ws" | "upgraded":
            framing = WebSocket(None)
            framing.log = [] if seed % 2 else None
            data = UPGRADE + bytes([0x82, 0x83]) + data if kind == "upgraded" else data
        case "connecting":
            framing = WebSocket("127.0.0.1:1")
            framing.start()
            data = b"HTTP/1.1 101 Switching Protocols\r\n" + data
        case _:
            framing = Prefixed()
            framing.prefix = rng.choice([2, 4])
            framing.limit = 100 if kind == "limited" else 0xFFFFFFFF
    eat(framing, data, rng)
