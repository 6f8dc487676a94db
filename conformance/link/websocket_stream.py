"""A WebSocket link as a stream of batches with lengths in front, for whoever sends and receives over plain sockets."""

from __future__ import annotations

import select
import socket
from contextlib import suppress

from conformance.link.framing import Broken
from conformance.link.websocket import WebSocket
from scapy_layers.batch import MAX_BATCH, PREFIX, prefixed
from scapy_layers.errors import Overlong

RECEIVE = 1 << 16
"""Bytes that are taken from the system at once."""

SEND_SECONDS = 1.0
"""How long the other end may not read what we send."""

NOW = int(socket.MSG_DONTWAIT)


class WebSocketStream:
    """The end of a WebSocket stream that connects.

    A batch leaves as one binary message when all of it is there, so one whose length says more than there is never leaves.

    Args:
        sock: Connected, with a timeout.
        authority: Host and port of the other end.

    Raises:
        OSError: The handshake fails.
    """

    type = socket.SOCK_STREAM

    def __init__(self, sock: socket.socket, authority: str) -> None:
        self._sock = sock
        self._websocket = WebSocket(authority)
        self._websocket.limit = MAX_BATCH
        self._batches = bytearray()
        self._left = b""
        self._over = self._abrupt = False
        self._websocket.start()
        sock.sendall(self._websocket.answer())
        while not self._websocket.opened:
            data = sock.recv(RECEIVE)
            if not data:
                raise ConnectionError("end of stream in the WebSocket handshake")
            self._feed(data)

    def fileno(self) -> int:
        """The file descriptor."""
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        """See socket."""
        self._sock.setblocking(flag)

    def settimeout(self, seconds: float) -> None:
        """See socket."""
        self._sock.settimeout(seconds)

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """See socket; whoever sets SO_LINGER wants an end without a word."""
        self._abrupt |= option == socket.SO_LINGER
        self._sock.setsockopt(level, option, value)

    def sendall(self, data: bytes) -> None:
        """The same as ``send``, which takes all."""
        self.send(data)

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        """Sends the batches that are whole by now; returns how many bytes were taken: all.

        Raises:
            TimeoutError: The other end does not read. What did not leave does so in front of the next.
        """
        self._batches += data
        messages = [self._left]
        while len(self._batches) >= PREFIX:
            end = PREFIX + int.from_bytes(self._batches[:PREFIX], "little")
            if len(self._batches) < end:
                break
            messages.append(self._websocket.frame(bytes(self._batches[PREFIX:end]), None, None))
            del self._batches[:end]
        self._left = b"".join(messages)
        self._flush(flags)
        return len(data)

    def _flush(self, flags: int) -> None:
        while self._left:
            try:
                self._left = self._left[self._sock.send(self._left, flags) :]
            except BlockingIOError:
                readable, writable, _ = select.select([self._sock], [self._sock], [], SEND_SECONDS)
                if writable:
                    continue
                if not readable or self._over:
                    raise TimeoutError from None
                self._take(NOW)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Returns all batches that are there, also more than asked for; nothing at the end.

        Raises:
            BlockingIOError: None has come.
        """
        del size
        while not (came := self._came()) and not self._over:
            self._take(flags)
        return came

    def _take(self, flags: int) -> None:
        data = self._sock.recv(RECEIVE, flags)
        if data:
            self._feed(data)
        else:
            self._over = True

    def _feed(self, data: bytes) -> None:
        try:
            self._websocket.feed(data)
        except Broken as error:
            raise ConnectionError(str(error)) from None
        # What answers a ping leaves with the next, if it cannot at once.
        self._left += self._websocket.answer()

    def _came(self) -> bytes:
        batches: list[bytes] = []
        try:
            while (batch := self._websocket.take()) is not None:
                batches.append(prefixed(batch))
        except (Broken, Overlong) as error:
            if not batches:
                raise ConnectionError(str(error)) from None
        self._over |= bool(self._websocket.over)
        return b"".join(batches)

    def shutdown(self, how: int) -> None:
        """Ends our side: CLOSE, then FIN."""
        self._say_goodbye()
        self._sock.shutdown(how)

    def close(self) -> None:
        """Ends the stream, with CLOSE unless it is to be reset."""
        if not self._abrupt:
            self._say_goodbye()
        self._sock.close()

    def _say_goodbye(self) -> None:
        with suppress(OSError):
            self._sock.send(self._left + self._websocket.goodbye(), NOW)
        self._left = b""
