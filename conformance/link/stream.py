"""Links over streams: tcp, tls, unixsock-stream, ws."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from conformance.config import Locator
from conformance.link.framing import Broken, Framing
from conformance.link.link import BATCHES_A_TURN, SECONDS_A_TURN, Home, Link, code, words
from conformance.observe import Direction, Endpoints
from scapy_layers.batch import BatchReader
from scapy_layers.errors import WireError

RECEIVE_BYTES = 1 << 16
"""Bytes that one link may bring in a turn."""

MOST_WAITING = 1 << 20
"""With so many bytes waiting PING is not answered any more."""

FAREWELL_SECONDS = 1.0
"""How long an end that we closed waits for the other end to read what is under way."""


class StreamLink(Link):
    """One connection. Made by ``Links.connect`` and by listeners.

    Attributes:
        on_open: Called when the handshake of TLS or WebSocket is over.
    """

    def __init__(
        self,
        home: Home,
        name: str,
        locator: Locator,
        connected: socket.socket,
        framing: Framing,
        endpoints: Callable[[], Endpoints],
        *,
        accepted: bool = False,
    ) -> None:
        super().__init__(
            home, name, locator, endpoints, f"link {name} {'from' if accepted else 'to'} {locator}"
        )
        self.on_open: Callable[[], None] | None = None
        self._socket = connected
        self._framing = framing
        self.streamed = framing.prefix > 0
        self._out = bytearray()
        self._unsealed = bytearray()
        self._writing = False
        self._backlog = False
        self._delivering = False
        self._broken = ""
        self._shut = False
        self._half_closed = False
        if home.history is not None:
            framing.log = []
        home.register(self)

    @property
    def opened(self) -> bool:
        """Batches can be sent: there is no handshake, or it is over."""
        return self._framing.opened

    @property
    def prefix(self) -> int:
        """See Link."""
        return self._framing.prefix

    @prefix.setter
    def prefix(self, size: int) -> None:
        self._framing.prefix = size

    @property
    def limit(self) -> int:
        """See Link."""
        return self._framing.limit

    @limit.setter
    def limit(self, size: int) -> None:
        self._framing.limit = size

    def cut_with(self, reader: type[BatchReader]) -> None:
        """See Link."""
        self._framing.cut_with(reader)

    def start(self) -> None:
        """Begins the handshake of TLS or WebSocket, as the end that connects."""
        self._framing.start()
        self._answer()

    # Sending ---------------------------------------------------------------------------------------

    def send(
        self,
        batch: bytes,
        *,
        length: int | None = None,
        note: str = "",
        plain: bytes | None = None,
        prefix: int | None = None,
    ) -> None:
        """See Link."""
        framed = self._framing.frame(batch, length, prefix)
        if self._home.history is not None:
            self._record(Direction.SENT, framed, batch, note, plain)
        self._put(framed)

    def send_raw(self, data: bytes, *, note: str = "") -> None:
        """See Link."""
        self._record(Direction.SENT, data, None, note)
        self._put(data)

    def send_cut(self, batch: bytes, cuts: Sequence[int], *, note: str = "") -> None:
        """See Link."""
        framed = self._framing.frame_cut(batch, cuts)
        self._record(Direction.SENT, framed, batch, note)
        self._put(framed)

    def _put(self, data: bytes) -> None:
        if self.ended is None and not self._broken and not self._half_closed:
            if self._framing.seals:
                self._unsealed += data
            else:
                self._out += data
            self._soon()

    def _answer(self) -> None:
        """Sends what the framing itself has to say."""
        said = self._framing.answer()
        if len(self._out) > MOST_WAITING and self._framing.opened and not self._framing.seals:
            # Who pings and does not read gets no answers; a record of TLS that is left out would break the rest.
            said = b""
        self._out += said
        self._record_log()
        if said:
            self.flush()

    def _record_log(self) -> None:
        """Records what passed besides batches."""
        log = self._framing.log
        if log:
            for ours, data, note in log:
                self._record(Direction.SENT if ours else Direction.RECEIVED, data, None, note)
            log.clear()

    @property
    def waiting(self) -> int:
        """See Link."""
        return len(self._out) + len(self._unsealed)

    def flush(self) -> None:
        """See Link."""
        if self.ended is not None or self._broken:
            return
        if self._unsealed:
            self._seal()
        try:
            self._write()
        except OSError as error:
            self._fail_to_send(f"send failed: {code(error)}")
            return
        wants = bool(self._out) and self._allowed != 0
        if wants != self._writing:
            self._writing = wants
            self._home.watch(self, writing=wants)
        if self._shut and not self._out:
            self._shut = False
            with suppress(OSError):  # the other end may be quicker
                self._socket.shutdown(socket.SHUT_WR)

    def _write(self) -> None:
        """Hands over what is allowed to leave, in pieces where they are wanted, until the system takes no more."""
        out = self._out
        while out:
            size = len(out) if self._allowed is None else min(self._allowed, len(out))
            if self.chunk is not None and size:
                size = min(size, max(1, self.chunk()))
            if not size:
                return
            try:
                sent = self._socket.send(out if size == len(out) else out[:size])
            except BlockingIOError:
                return
            del out[:sent]
            if self._allowed is not None:
                self._allowed -= sent

    def _seal(self) -> None:
        try:
            self._out += self._framing.seal(bytes(self._unsealed))
        except Broken as error:
            self._fail_to_send(f"send failed: {error}")
        self._unsealed.clear()

    def _fail_to_send(self, how: str) -> None:
        self._broken = how
        self._out.clear()
        self._unsealed.clear()
        if self._writing:
            self._writing = False
            self._home.watch(self, writing=False)
        # What the node sent before it ended the link may still wait to be read.
        if self._delivering or self._home.gathers:
            self._home.again(self)
            return
        while self.ended is None:
            self.readable()

    # Receiving -------------------------------------------------------------------------------------

    def writable(self) -> None:
        """The system takes bytes again."""
        self.flush()

    def readable(self) -> None:
        """Reads what has arrived, as much as one link may in a turn."""
        if self.ended is not None:
            return
        more = True
        if self._backlog:
            self._deliver()
        else:
            more = self._receive()
        if self._broken and not self._backlog and self.ended is None:
            # We cannot send any more, and read what the node sent before it ended the link, to the last of it.
            if more:
                self._home.again(self)
            else:
                self._end(self._broken)

    def _receive(self) -> bool:
        """Reads once and delivers; tells whether there was something."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            self._end(words(error))
            return False
        if not data:
            self._end(self._framing.stream_ended())
            return False
        framing = self._framing
        opened = framing.opened
        try:
            framing.feed(data)
        except Broken as error:
            self._answer()
            self._end(f"failed: {error}")
            return False
        if framing.talks:
            self._answer()
        if not opened and framing.opened and self.ended is None and self.on_open is not None:
            self.on_open()
        if self.ended is None:
            self._deliver()
        return True

    def _deliver(self) -> None:
        """Hands over the batches that are complete, as many as one link may in a turn."""
        self._backlog = True
        self._delivering = True
        framing = self._framing
        try:
            until = time.monotonic() + SECONDS_A_TURN
            for number in range(BATCHES_A_TURN):
                if number and time.monotonic() > until:
                    break
                batch = framing.take()
                if framing.log:
                    self._record_log()
                if batch is None:
                    self._backlog = False
                    break
                self._hand_over(batch, framing.came_as)
                if self.ended is not None:
                    return
        except (WireError, Broken) as error:
            self._backlog = False
            self._refuse(error)
        finally:
            self._delivering = False
            if self._backlog and self.ended is None:
                self._home.again(self)
        if framing.over and not self._backlog and self.ended is None:
            self._end(framing.over, orderly=True)

    def _refuse(self, error: WireError | Broken) -> None:
        why = f"{error.field}: {error.found}" if isinstance(error, WireError) else str(error)
        self._tell_refused(why)
        self._end(f"refused: {why}", orderly=True)

    # Ending ----------------------------------------------------------------------------------------

    def half_close(self) -> None:
        """See Link."""
        if self.ended is None and not self._half_closed:
            self.flush()
            self._out += self._framing.goodbye()
            self._record_log()
            self._half_closed = True
            self._shut = self.streamed
            self.flush()

    def close(self) -> None:
        """See Link."""
        self._end("closed by us", orderly=True)

    def abort(self) -> None:
        """See Link."""
        if self.ended is None:
            with suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._end("aborted by us")

    def fileno(self) -> int:
        """See Link."""
        return self._socket.fileno()

    def _end(self, how: str, *, orderly: bool = False) -> None:
        if self.ended is not None:
            return
        if orderly and not self._take_leave():
            return
        if pending := self._framing.pending if self._home.history is not None else b"":
            self._record(Direction.RECEIVED, pending, None, "an unfinished batch")
        self._home.unregister(self)
        self._note_end(how)
        if orderly and not self._broken and (self._out or _unread(self._socket)):
            Farewell(self._home, self._socket, self._out)
        else:
            self._socket.close()

    def _take_leave(self) -> bool:
        """Sends what waits and the farewell; False when that ended the link, and what was read then told more."""
        held, self._allowed = self._allowed is not None and self.waiting, None
        if held:
            # Nothing can follow half a batch, half a record or half a frame.
            self._out.clear()
            self._unsealed.clear()
            return True
        self.flush()
        if not self._half_closed and not self._broken and self._framing.opened:
            self._out += self._framing.goodbye()
            self._record_log()
            self._half_closed = True
            self.flush()
        return self.ended is None


def _unread(connected: socket.socket) -> bool:
    """Tells whether bytes wait to be read: closing such a socket resets the connection."""
    size = bytearray(4)
    fcntl.ioctl(connected, termios.FIONREAD, size)
    return any(size)


class Farewell:
    """A socket of a link that we closed while bytes were under way.

    What waits is sent, then our direction ends, then the other end has time to read: a close with unread bytes would be
    a reset, which may take from the other end what it has not read yet.
    """

    def __init__(self, home: Home, connected: socket.socket, out: bytearray) -> None:
        self._home = home
        self._socket = connected
        self._out = out
        home.register(self)
        home.leftovers.add(self)
        self._timer = home.at(time.monotonic() + FAREWELL_SECONDS, lambda _: self.close())
        self.writable()

    def fileno(self) -> int:
        """The file descriptor."""
        return self._socket.fileno()

    def writable(self) -> None:
        """Sends what is left, then ends our direction."""
        if self._socket.fileno() < 0:
            return
        try:
            if self._out:
                del self._out[: self._socket.send(self._out)]
            if not self._out:
                self._socket.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._home.watch(self, writing=bool(self._out))

    def readable(self) -> None:
        """Drops what comes until the other end ends its direction as well."""
        try:
            if self._socket.fileno() >= 0 and not self._socket.recv(RECEIVE_BYTES):
                self.close()
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def settle(self) -> None:
        """Gathers nothing."""

    def close(self) -> None:
        """Gives the socket back."""
        if self._socket.fileno() >= 0:
            self._timer.cancel()
            self._home.unregister(self)
            self._home.leftovers.discard(self)
            self._socket.close()
