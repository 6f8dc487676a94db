"""A socket with TLS around it, for whoever sends and receives as a ``Pipe`` does."""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import suppress

RECORD = 1 << 14
"""Bytes that one record holds."""

RECEIVE = 1 << 16
"""Bytes that are taken from the system at once."""

SEND_SECONDS = 1.0
"""How long the other end may not read what we send."""

NOW = int(socket.MSG_DONTWAIT)


class Sealed:
    """The end of a TLS stream that connects; what goes in and comes out is what is inside.

    How it ends is told as for a stream without TLS: with or without close_notify it has ended, and an alert is an error.

    Args:
        sock: Connected, with a timeout.
        context: Whom to trust.
        host: Name of the other end.

    Raises:
        OSError: The handshake fails.
    """

    type = socket.SOCK_STREAM

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._left = b""
        self._over = self._abrupt = False
        while not self._greeted():
            data = sock.recv(RECEIVE)
            if not data:
                raise ConnectionError("end of stream in the TLS handshake")
            self._in.write(data)

    def _greeted(self) -> bool:
        """Goes on with the handshake; tells whether it is over."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._sock.sendall(self._out.read())
        return True

    def fileno(self) -> int:
        """The file descriptor."""
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        """See socket."""
        self._sock.setblocking(flag)

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """See socket; whoever sets SO_LINGER wants an end without a word."""
        self._abrupt |= option == socket.SO_LINGER
        self._sock.setsockopt(level, option, value)

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        """Sends what one record holds; returns how many bytes that were. Takes in what comes while it has to wait.

        Raises:
            TimeoutError: The other end does not read. What did not leave does so in front of the next.
        """
        self._flush(flags)
        part = bytes(data[:RECORD])
        self._tls.write(part)
        self._left = self._out.read()
        self._flush(flags)
        return len(part)

    def _flush(self, flags: int) -> None:
        while self._left:
            try:
                self._left = self._left[self._sock.send(self._left, flags) :]
            except BlockingIOError:
                readable, writable, _ = select.select([self._sock], [self._sock], [], SEND_SECONDS)
                if readable:
                    self._take(NOW)
                elif not writable:
                    raise TimeoutError from None

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Returns all that is there, also more than asked for; nothing at the end.

        Raises:
            BlockingIOError: Nothing has come that is not of TLS itself.
        """
        del size
        plain = self._plain()
        if plain or self._over:
            return plain
        self._take(flags)
        plain = self._plain()
        if not plain and not self._over:
            raise BlockingIOError
        return plain

    def _take(self, flags: int) -> None:
        data = self._sock.recv(RECEIVE, flags)
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()

    def _plain(self) -> bytes:
        """Returns what is inside of all that was taken in."""
        parts: list[bytes] = []
        while not self._over:
            try:
                part = self._tls.read(RECEIVE)
            except ssl.SSLWantReadError:
                break
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                part = b""
            except ssl.SSLError:
                if not parts:
                    raise
                # It comes again behind these.
                break
            parts.append(part)
            # close_notify: an error when we have not sent ours, nothing otherwise.
            self._over = not part
        return b"".join(parts)

    def shutdown(self, how: int) -> None:
        """Ends our side: close_notify, then FIN."""
        self._say_goodbye()
        self._sock.shutdown(how)

    def close(self) -> None:
        """Ends the stream, with close_notify unless it is to be reset."""
        if not self._abrupt:
            self._say_goodbye()
        self._sock.close()

    def _say_goodbye(self) -> None:
        # It waits for the other end's, which we do not; behind half a record nothing else may come.
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        with suppress(OSError):
            if not self._left:
                self._sock.send(self._out.read(), NOW)
