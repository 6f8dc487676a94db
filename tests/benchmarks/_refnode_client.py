"""The other ends of a node, as cheap as they can be: bytes are made before, answers are only counted.

Started as ``python _refnode_client.py KIND PORT COUNT``; writes one JSON object with the seconds it took.
Standard library only, so that starting it costs nothing.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import threading
from collections.abc import Callable
from time import perf_counter

ABREAST = 8
"""Handshakes under way at once: enough that the node never waits for us."""

CLOSE = b"\x02\x00\x03\x00"
PAYLOAD = bytes(64)
KEY = b"bench/topic"


def vle(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def prefixed(batch: bytes) -> bytes:
    return len(batch).to_bytes(2, "little") + batch


def init_syn() -> bytes:
    return prefixed(b"\x01\x09\xf2" + os.urandom(15) + b"\x01")


def batch(link: socket.socket) -> bytes:
    """Reads one batch."""
    size = int.from_bytes(exactly(link, 2), "little")
    return exactly(link, size)


def exactly(link: socket.socket, size: int) -> bytes:
    data = link.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionError("the node ended the link")
    return data


def open_syn(init_ack: bytes) -> bytes:
    """Answers InitAck: the cookie goes back, the lease is a minute, numbers begin at 0."""
    at = 3 + 1 + (init_ack[2] >> 4) + (3 if init_ack[0] & 0x40 else 0)
    size, shift = 0, 0
    while True:
        size |= (init_ack[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if init_ack[at - 1] < 0x80:
            break
    cookie = init_ack[at : at + size]
    return prefixed(b"\x42\x3c\x00" + vle(len(cookie)) + cookie)


def connected(port: int) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), timeout=30)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def opened(port: int) -> socket.socket:
    link = connected(port)
    link.sendall(init_syn())
    link.sendall(open_syn(batch(link)))
    answer = batch(link)
    if answer[0] & 0x1F != 2:
        raise ConnectionError(f"no OpenAck but {answer.hex()}")
    return link


def handshakes(port: int, count: int) -> None:
    """Opens and closes sessions, some abreast."""
    for _ in range(count // ABREAST):
        links = [connected(port) for _ in range(ABREAST)]
        for link in links:
            link.sendall(init_syn())
        for link in links:
            link.sendall(open_syn(batch(link)))
        for link in links:
            batch(link)
            link.sendall(CLOSE)
            link.close()


def push() -> bytes:
    # QoS says that it may not be dropped: a node that is slower than we write has to let us wait.
    return b"\xbd\x00" + vle(len(KEY)) + KEY + b"\x21\x0d" + b"\x01" + vle(len(PAYLOAD)) + PAYLOAD


def subscriber(port: int) -> socket.socket:
    link = opened(port)
    declare = b"\x1e\x22\x01\x00" + vle(len(KEY)) + KEY
    link.sendall(prefixed(b"\x25\x00" + declare))
    # A query that nobody answers: its end says that the declaration was taken in.
    link.sendall(prefixed(b"\x25\x01\x3c\x01\x00\x06nobody\x03"))
    seen = b""
    while b"\x1a\x01" not in seen:
        seen = batch(link)
    return link


def routed(port: int, count: int, together: int, readers: int = 1) -> None:
    """Publishes from one session to others, some messages in each FRAME."""
    subscribers = [subscriber(port) for _ in range(readers)]
    publisher = opened(port)
    frames = [prefixed(b"\x25" + vle(sn) + push() * together) for sn in range(count // together)]
    whole = b"".join(frames)
    writing = threading.Thread(target=publisher.sendall, args=(whole,))
    writing.start()
    _count(subscribers, count // together * together)
    writing.join()


def _count(subscribers: list[socket.socket], wanted: int) -> None:
    """Reads until every subscriber got all."""
    # The key stands once in every message and nowhere else; what is cut at the end of a read is counted later.
    waiting = selectors.DefaultSelector()
    seen = dict.fromkeys(subscribers, 0)
    tails = dict.fromkeys(subscribers, b"")
    for link in subscribers:
        waiting.register(link, selectors.EVENT_READ, link)
    while waiting.get_map():
        ready = waiting.select(20)
        if not ready:
            raise TimeoutError(f"{list(seen.values())} of {wanted} messages came")
        for key, _ in ready:
            link = key.data
            data = tails[link] + link.recv(1 << 18)
            seen[link] += data.count(KEY)
            tails[link] = data[-len(KEY) + 1 :]
            if seen[link] >= wanted:
                waiting.unregister(link)


KINDS: dict[str, Callable[[int, int], None]] = {
    "handshakes": handshakes,
    "routed": lambda port, count: routed(port, count, 1),
    "routed20": lambda port, count: routed(port, count, 20),
    "fan": lambda port, count: routed(port, count, 1, readers=10),
}

if __name__ == "__main__":
    kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    begin = perf_counter()
    KINDS[kind](port, count)
    print(json.dumps({"seconds": perf_counter() - begin}))
