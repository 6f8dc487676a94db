"""Sockets that listen."""

from __future__ import annotations

import errno
import itertools
import logging
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from conformance.config import UNIX, Locator
from conformance.link.addresses import endpoints_of
from conformance.link.datagram import DatagramLink, DatagramSocket
from conformance.link.framing import Framing
from conformance.link.link import Home, Link
from conformance.link.stream import StreamLink
from conformance.observe import Address, Endpoints

ACCEPTS_A_TURN = 32

PAUSE_SECONDS = 0.1
"""How long nobody is accepted after the system had no descriptor left."""

HANDSHAKE_SECONDS = 10.0
"""How long a handshake of TLS or WebSocket may take."""

MOST_PENDING = 1000
"""Handshakes of TLS or WebSocket under way; further connections are closed."""

EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

OnLink = Callable[[Link], None]

log = logging.getLogger(__name__)


class Listener(ABC):
    """A place where links arrive. Made by ``Links.listen``.

    Attributes:
        locator: With the port that the system chose.
    """

    locator: Locator

    @abstractmethod
    def close(self) -> None:
        """Accepts nobody any more. Links over streams live on; those of a udp listener end with its socket."""


class StreamListener(Listener):
    """Accepts connections.

    Args:
        home: The loop.
        locator: Where it listens.
        listening: The socket.
        framing: Makes the framing of a connection.
        on_link: Called with each link that is ready for batches.
        name: Links are called by it and a number.
    """

    def __init__(
        self,
        home: Home,
        locator: Locator,
        listening: socket.socket,
        framing: Callable[[], Framing],
        on_link: OnLink,
        name: str,
    ) -> None:
        self.locator = locator
        self._home = home
        self._socket = listening
        self._framing = framing
        self._on_link = on_link
        self._names = (f"{name}{number}" for number in itertools.count(1))
        self._pending = 0
        home.register(self)
        home.leftovers.add(self)

    def fileno(self) -> int:
        """The file descriptor."""
        return self._socket.fileno()

    def writable(self) -> None:
        """Never asked for."""

    def settle(self) -> None:
        """Gathers nothing."""

    def readable(self) -> None:
        """Accepts, as many as one listener may in a turn."""
        for _ in range(ACCEPTS_A_TURN):
            if self._socket.fileno() < 0:
                return
            try:
                accepted, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._pause(error)
                    return
                continue  # that connection is gone already
            self._accept(accepted, address)

    def _accept(self, accepted: socket.socket, address: Address | str) -> None:
        accepted.setblocking(False)
        local = self.locator
        if local.proto == UNIX:
            source: Address = ("", 0)
            locator = Locator(UNIX, "", 0, local.path)
        else:
            source = (str(address[0]), int(address[1]))
            locator = Locator(local.proto, *source)
        framing = self._framing()
        if not framing.opened and self._pending >= MOST_PENDING:
            accepted.close()
            return
        link = StreamLink(
            self._home,
            next(self._names),
            locator,
            accepted,
            framing,
            lambda: endpoints_of(accepted, local, source),
            accepted=True,
        )
        if framing.opened:
            self._on_link(link)
        else:
            self._shake_hands(link)

    def _shake_hands(self, link: StreamLink) -> None:
        def settled() -> None:
            self._pending -= 1
            timer.cancel()
            link.on_open = link.on_end = None

        def opened() -> None:
            settled()
            self._on_link(link)

        self._pending += 1
        timer = self._home.at(time.monotonic() + HANDSHAKE_SECONDS, lambda _: link.abort())
        link.on_open = opened
        link.on_end = lambda _: settled()

    def _pause(self, error: OSError) -> None:
        log.warning("%s: nobody is accepted for %g s: %s", self.locator, PAUSE_SECONDS, error.strerror)
        self._home.unregister(self)
        self._home.at(time.monotonic() + PAUSE_SECONDS, self._go_on)

    def _go_on(self, _: float) -> None:
        if self._socket.fileno() >= 0:
            self._home.register(self)

    def close(self) -> None:
        """See Listener."""
        if self._socket.fileno() >= 0:
            with suppress(KeyError):  # it pauses
                self._home.unregister(self)
            self._socket.close()
            self._home.leftovers.discard(self)
            if self.locator.proto == UNIX:
                Path(self.locator.path).unlink(missing_ok=True)


class DatagramListener(Listener):
    """Makes a link for each address that a datagram comes from.

    Args:
        home: The loop.
        locator: Where it listens.
        bound: The socket.
        on_link: Called with each new link, before its first batch is handed over.
        name: Links are called by it and a number.
    """

    def __init__(
        self, home: Home, locator: Locator, bound: socket.socket, on_link: OnLink, name: str
    ) -> None:
        self.locator = locator
        self._home = home
        self._on_link = on_link
        self._names = (f"{name}{number}" for number in itertools.count(1))
        self._local: Address = bound.getsockname()[:2]
        self._socket = DatagramSocket(home, bound, self._source)
        home.leftovers.add(self)

    @property
    def refused(self) -> int:
        """Datagrams of sources for which there was no room."""
        return self._socket.refused

    def _source(self, shared: DatagramSocket, source: Address) -> DatagramLink:
        local = self._local
        link = DatagramLink(
            self._home,
            next(self._names),
            Locator("udp", *source),
            shared,
            source,
            lambda: Endpoints(local, source, "udp", accepted=True),
        )
        self._on_link(link)
        return link

    def close(self) -> None:
        """See Listener."""
        self._socket.close()
        self._home.leftovers.discard(self)
