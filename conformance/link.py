"""Sockets: one loop moves the bytes of all links of a test and records them."""

from __future__ import annotations

import errno
import selectors
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from conformance.config import CONNECT_SECONDS, Locator
from conformance.errors import LinkFailed
from conformance.observe import Direction, Endpoints, History, Observation
from scapy_layers.batch import BatchReader, prefixed

RECEIVE_BYTES = 1 << 16

OnBatch = Callable[[Observation], None]


class Link:
    """One TCP connection to a node. Made by ``Links.connect``.

    Attributes:
        name: Its name in the history.
        ended: How it ended, in words; None while it lives.
    """

    def __init__(self, links: Links, name: str, connected: socket.socket) -> None:
        self.name = name
        self.ended: str | None = None
        self.on_batch: OnBatch | None = None
        self._links = links
        self._socket = connected
        self._reader = BatchReader()
        self._out = bytearray()

    def send(self, batch: bytes, *, length: int | None = None, note: str = "") -> None:
        """Sends one batch with its length prefix.

        Args:
            batch: The messages, encoded.
            length: What the prefix says; the truth when None.
            note: A word for the record.
        """
        self._links.record(self, Direction.SENT, prefixed(batch, length), batch, note)
        self._put(prefixed(batch, length))

    def send_raw(self, data: bytes, *, note: str = "") -> None:
        """Sends bytes as they are: no prefix, or part of a batch."""
        self._links.record(self, Direction.SENT, data, None, note)
        self._put(data)

    def _put(self, data: bytes) -> None:
        self._out += data
        self.flush()

    def flush(self) -> None:
        """Hands waiting bytes to the system as far as it takes them now."""
        while self._out and self.ended is None:
            try:
                del self._out[: self._socket.send(self._out)]
            except BlockingIOError:
                break
            except OSError as error:
                # What the node sent before it ended the link may still wait to be read.
                self.drain()
                self._end(f"send failed: {errno.errorcode.get(error.errno or 0, error)}")
        self._links.watch(self, writing=bool(self._out))

    def drain(self) -> None:
        """Reads what has arrived."""
        while self.ended is None:
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._end(
                    "reset by the node" if error.errno == errno.ECONNRESET else f"failed: {error.strerror}"
                )
                return
            if not data:
                self._end("end of stream")
                return
            for batch in self._reader.feed(data):
                seen = self._links.record(self, Direction.RECEIVED, prefixed(batch), batch)
                if self.on_batch:
                    self.on_batch(seen)

    def close(self) -> None:
        """Ends the link in order."""
        self._end("closed by us")

    def abort(self) -> None:
        """Ends the link with a TCP reset."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._end("aborted by us")

    def fileno(self) -> int:
        """The file descriptor, for the selector."""
        return self._socket.fileno()

    @property
    def sending(self) -> bool:
        """Bytes still wait to leave."""
        return bool(self._out) and self.ended is None

    def _end(self, how: str) -> None:
        if self.ended is None:
            if self._reader.pending:
                self._links.record(
                    self, Direction.RECEIVED, self._reader.pending, None, "an unfinished batch"
                )
            self.ended = how
            self._links.forget(self)
            self._links.record(self, Direction.ENDED, note=how)
            self._socket.close()


class Links:
    """The links of one test and the loop that serves them.

    Attributes:
        history: Where everything is recorded.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self._selector = selectors.DefaultSelector()
        self._all: list[Link] = []
        self._timers: list[Callable[[float], float | None]] = []

    def connect(self, locator: Locator, name: str) -> Link:
        """Makes a TCP connection.

        Raises:
            LinkFailed: Nobody listens there, or nothing answers in time.
        """
        try:
            connected = socket.create_connection((locator.host, locator.port), timeout=CONNECT_SECONDS)
        except OSError as error:
            reason = error.strerror or "no answer in time"
            raise LinkFailed(f"no link to {locator} ({reason}); is a node listening there?") from None
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(self, name, connected)
        local, remote = connected.getsockname(), connected.getpeername()
        self.history.endpoints[name] = Endpoints((local[0], local[1]), (remote[0], remote[1]))
        self.record(link, Direction.OPENED, note=f"link {name} to {locator}")
        self._selector.register(link, selectors.EVENT_READ, link)
        self._all.append(link)
        return link

    def every(self, timer: Callable[[float], float | None]) -> None:
        """Registers a timer: called with the time, returns when it wants to be called again or None."""
        self._timers.append(timer)

    def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Moves bytes until a condition holds; tells whether it did in time."""
        deadline = time.monotonic() + seconds
        while not until():
            now = time.monotonic()
            wake = min([deadline, *(due for timer in self._timers if (due := timer(now)) is not None)])
            self._turn(max(0.0, wake - now))
            if now >= deadline:
                return until()
        return True

    def _turn(self, seconds: float) -> None:
        for key, mask in self._selector.select(seconds):
            link: Link = key.data
            if mask & selectors.EVENT_WRITE:
                link.flush()
            if mask & selectors.EVENT_READ:
                link.drain()

    def close(self) -> None:
        """Ends all links that still live."""
        for link in self._all:
            link.close()
        self._selector.close()

    # Used by Link --------------------------------------------------------------------------------------

    def record(
        self, link: Link, direction: Direction, raw: bytes = b"", batch: bytes | None = None, note: str = ""
    ) -> Observation:
        """Adds an observation with the present time."""
        return self.history.add(time.time_ns(), link.name, direction, raw, batch, note)

    def watch(self, link: Link, *, writing: bool) -> None:
        """Says whether a link waits to write."""
        if link.ended is None:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
            self._selector.modify(link, events, link)

    def forget(self, link: Link) -> None:
        """Stops serving a link."""
        self._selector.unregister(link)
