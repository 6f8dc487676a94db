"""Where links come from."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from typing import Any

from conformance.config import UNIX, Credentials, Locator, Tls
from conformance.link.addresses import endpoints_of
from conformance.link.tls import client_context
from conformance.link.websocket_stream import WebSocketStream
from conformance.observe import Endpoints
from fuzz.player.sealed import Sealed
from fuzz.player.tasks import Task

SPOKEN = ("tcp", UNIX, "udp", "tls", "ws")
"""Protocols of the links that are fuzzed, the quickest first. What is inside is the same everywhere."""

Socket = socket.socket | Sealed | WebSocketStream
"""What links are made of."""

CONNECT_SECONDS = 2.0
"""How long making a link may take on loopback."""


class NoLink(Exception):
    """There is no link to be had; the message says why."""


class Door(ABC):
    """A place where links to one node are had.

    Attributes:
        peer: For datagrams: where they go.
        user: What handshakes show that we begin; None for nothing.
        as_written: How far the node counts sequence numbers, see ``Node``.
    """

    peer: Any = None
    user: Credentials | None = None
    as_written = False

    @abstractmethod
    def open(self) -> tuple[Socket, Endpoints]:
        """Returns the socket of a new link, and its addresses.

        Raises:
            NoLink: There is none.
        """

    def opening(self, seconds: float) -> Task[tuple[Socket, Endpoints]]:  # noqa: ARG002  (doors that wait need it)
        """The same as a task.

        Args:
            seconds: How long to wait for a link that the node makes.

        Raises:
            NoLink: There is none.
        """
        yield from ()
        return self.open()

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """Frees what the door holds."""


class Initiator(Door):
    """Makes links to a node that listens.

    Args:
        locator: Where: one of ``SPOKEN``.
        user: See Door.
        tls: Whom to trust, for links over TLS.

    Raises:
        NoLink: It has a name that nobody knows.
    """

    def __init__(self, locator: Locator, user: Credentials | None = None, tls: Tls | None = None) -> None:
        self.locator = locator
        self.user = user
        self._context = client_context(tls) if locator.proto == "tls" else None
        self._family: int
        self._address: Any
        if locator.proto == UNIX:
            self._family, self._address = socket.AF_UNIX, locator.path
        else:
            kind = socket.SOCK_DGRAM if locator.proto == "udp" else socket.SOCK_STREAM
            try:
                found = socket.getaddrinfo(locator.host, locator.port, type=kind)
            except OSError as error:
                raise NoLink(f"no link to {locator} ({error.strerror})") from None
            self._family, self._address = found[0][0], found[0][4]

    def open(self) -> tuple[Socket, Endpoints]:
        """See Door."""
        locator = self.locator
        made = socket.socket(
            self._family, socket.SOCK_DGRAM if locator.proto == "udp" else socket.SOCK_STREAM
        )
        made.settimeout(CONNECT_SECONDS)
        try:
            made.connect(self._address)
            if locator.proto in {"tcp", "tls", "ws"}:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ends = endpoints_of(made, locator)
            if self._context is not None:
                return Sealed(made, self._context, locator.host), ends
            if locator.proto == "ws":
                return WebSocketStream(made, locator.bare.partition("/")[2]), ends
        except OSError as error:
            made.close()
            raise NoLink(f"no link to {locator} ({error.strerror or error})") from None
        return made, ends
