"""Links over UDP: one datagram is one batch."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from conformance.config import Locator
from conformance.link.framing import with_length
from conformance.link.link import SECONDS_A_TURN, Home, Link, code, words
from conformance.observe import Address, Direction, Endpoints
from scapy_layers.batch import MAX_BATCH

DATAGRAM_BYTES = 1 << 16
DATAGRAMS_A_TURN = 64
BUFFER_BYTES = 1 << 20
"""Of a socket; the system may allow less."""

MOST_SOURCES = 10_000
"""Links that one listener keeps; further sources are not heard."""

IDLE_SECONDS = 60.0
"""A source that has been silent for so long is forgotten. Leases are shorter."""


class DatagramLink(Link):
    """What is said with one address over a UDP socket.

    A listener's links share its socket; one that connects has its own.
    """

    def __init__(
        self,
        home: Home,
        name: str,
        locator: Locator,
        shared: DatagramSocket,
        address: Address | None,
        endpoints: Callable[[], Endpoints],
    ) -> None:
        note = f"link {name} {'to' if address is None else 'from'} {locator}"
        super().__init__(home, name, locator, endpoints, note)
        self._shared = shared
        self._address = address
        self._queue: deque[bytes] = deque()
        self._prefix = 0
        self._limit = MAX_BATCH
        self.heard = 0.0

    @property
    def prefix(self) -> int:
        """See Link. A datagram has no length in front unless somebody wants one there in what leaves."""
        return self._prefix

    @prefix.setter
    def prefix(self, size: int) -> None:
        self._prefix = size

    @property
    def limit(self) -> int:
        """See Link."""
        return self._limit

    @limit.setter
    def limit(self, size: int) -> None:
        self._limit = size

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
        framed = with_length(batch, length, self._prefix if prefix is None else prefix)
        self._record(Direction.SENT, framed, batch, note, plain)
        self._put(framed)

    def send_raw(self, data: bytes, *, note: str = "") -> None:
        """See Link."""
        self._record(Direction.SENT, data, None, note)
        self._put(data)

    def send_cut(self, batch: bytes, cuts: Sequence[int], *, note: str = "") -> None:  # noqa: ARG002
        """See Link."""
        self.send(batch, note=note)

    def _put(self, data: bytes) -> None:
        if self.ended is None:
            self._queue.append(data)
            self._soon()

    @property
    def waiting(self) -> int:
        """See Link."""
        return sum(map(len, self._queue))

    def flush(self) -> None:
        """See Link."""
        while self._queue and self.ended is None and self._allowed != 0:
            try:
                self._shared.send(self._queue[0], self._address)
            except BlockingIOError:
                self._shared.wanted(self)
                return
            except OSError as error:
                self._queue.clear()
                self.end(f"send failed: {code(error)}")
                return
            self._queue.popleft()
            if self._allowed is not None:
                self._allowed -= 1

    def writable(self) -> None:
        """The system takes datagrams again."""
        self.flush()

    def readable(self) -> None:
        """Its socket reads, not the link."""

    def came(self, datagram: bytes) -> None:
        """Takes a datagram of its address."""
        if self.ended is None:
            self.heard = time.monotonic()
            if len(datagram) > self._limit:
                why = f"batch length: {len(datagram)} bytes, at most {self._limit}"
                self._tell_refused(why)
                self.end(f"refused: {why}")
            else:
                self._hand_over(datagram, bytes)

    def half_close(self) -> None:
        """Sends what waits. There is no direction that could end."""
        self.flush()

    def close(self) -> None:
        """See Link."""
        self.flush()
        self.end("closed by us")

    def abort(self) -> None:
        """See Link."""
        self.end("aborted by us")

    def fileno(self) -> int:
        """See Link."""
        return self._shared.fileno()

    def end(self, how: str) -> None:
        """Ends the link; its socket is told."""
        if self.ended is None:
            self._queue.clear()
            self._note_end(how)
            self._shared.forget(self, self._address)


class DatagramSocket:
    """A UDP socket and the links it carries: one when it connects, one for each source when it listens.

    Args:
        home: The loop.
        bound: The socket.
        on_source: Makes a link for a source that was not heard before; None when the socket is connected.
    """

    def __init__(
        self,
        home: Home,
        bound: socket.socket,
        on_source: Callable[[DatagramSocket, Address], DatagramLink] | None,
    ) -> None:
        self._home = home
        self._socket = bound
        self._on_source = on_source
        self._links: dict[Address | None, DatagramLink] = {}
        self._blocked: list[DatagramLink] = []
        self.refused = 0
        bound.setblocking(False)
        with suppress(OSError):  # as much as the system allows
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        home.register(self)
        self._timer = home.at(time.monotonic() + IDLE_SECONDS / 4, self._sweep) if on_source else None

    def carry(self, link: DatagramLink) -> None:
        """Takes the link of a connected socket."""
        self._links[None] = link

    def send(self, data: bytes, address: Address | None) -> None:
        """Sends a datagram.

        Raises:
            OSError: The system does not take it.
        """
        if address is None:
            self._socket.send(data)
        else:
            self._socket.sendto(data, address)

    def wanted(self, link: DatagramLink) -> None:
        """Calls ``link.writable`` when the system takes datagrams again."""
        if not self._blocked:
            self._home.watch(self, writing=True)
        self._blocked.append(link)

    def fileno(self) -> int:
        """The file descriptor."""
        return self._socket.fileno()

    def writable(self) -> None:
        """Lets the links send that could not."""
        blocked, self._blocked = self._blocked, []
        if blocked and self._socket.fileno() >= 0:
            self._home.watch(self, writing=False)
        for link in blocked:
            link.flush()

    def readable(self) -> None:
        """Takes datagrams, as many as one socket may bring in a turn."""
        until = time.monotonic() + SECONDS_A_TURN
        for number in range(DATAGRAMS_A_TURN):
            if self._socket.fileno() < 0 or (number and time.monotonic() > until):
                return
            try:
                datagram, source = self._socket.recvfrom(DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                # On a connected socket: an earlier datagram found nobody.
                if None in self._links:
                    self._links[None].end(words(error))
                return
            link = self._links.get(source[:2] if self._on_source else None)
            if link is None:
                link = self._make(source[:2])
            if link is not None:
                link.came(datagram)

    def _make(self, source: Address) -> DatagramLink | None:
        if self._on_source is None:
            return None
        if len(self._links) >= MOST_SOURCES:
            self.refused += 1
            return None
        link = self._links[source] = self._on_source(self, source)
        return link

    def settle(self) -> None:
        """Gathers nothing; its links do."""

    def forget(self, link: DatagramLink, address: Address | None) -> None:
        """Drops a link that has ended; a connected socket ends with it."""
        if self._links.get(address) is link:
            del self._links[address]
        if self._on_source is None:
            self.close("")

    def close(self, how: str = "closed by us") -> None:
        """Ends all links and the socket."""
        if self._socket.fileno() < 0:
            return
        for link in list(self._links.values()):
            link.end(how)
        if self._socket.fileno() >= 0:
            self._home.unregister(self)
            self._socket.close()
            if self._timer is not None:
                self._timer.cancel()

    def _sweep(self, now: float) -> None:
        self._timer = self._home.at(now + IDLE_SECONDS / 4, self._sweep)
        for link in [link for link in self._links.values() if now - link.heard > IDLE_SECONDS]:
            link.end(f"silent for {IDLE_SECONDS:g} s")
