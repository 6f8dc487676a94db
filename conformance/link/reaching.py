"""Making a link without waiting: the loop serves everybody while the other end has not answered."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from conformance.config import UNIX, Locator
from conformance.link.addresses import endpoints_of
from conformance.link.framing import Framing
from conformance.link.link import Home, Link
from conformance.link.loop import Timer
from conformance.link.stream import StreamLink

OnLink = Callable[[Link], None]
OnFailed = Callable[[str], None]

Target = tuple[int, str | tuple[object, ...]]
"""Address family and address, as the socket module has them."""


class Reaching:
    """One attempt to make a link over a stream. Made by ``Links.reach``.

    Exactly one of both calls is made, from the loop, unless it is cancelled.

    Args:
        home: The loop.
        locator: Where.
        name: Of the link.
        framing: How batches stand on it.
        on_link: Called with the link when it is ready for batches.
        on_failed: Called with the reason in words.
        seconds: How long all of it may take.
    """

    def __init__(
        self,
        home: Home,
        locator: Locator,
        name: str,
        framing: Framing,
        on_link: OnLink,
        on_failed: OnFailed,
        seconds: float,
    ) -> None:
        self._home = home
        self._locator = locator
        self._name = name
        self._framing = framing
        self._on_link = on_link
        self._on_failed = on_failed
        self._socket: socket.socket | None = None
        self._link: StreamLink | None = None
        self._done = False
        self._timer: Timer = home.at(time.monotonic() + seconds, lambda _: self._fail("no answer in time"))
        home.leftovers.add(self)
        home.call_later(self._begin)

    def cancel(self) -> None:
        """Gives up; nobody is called."""
        self._done = True
        self._timer.cancel()
        self._home.leftovers.discard(self)
        if self._socket is not None:
            with suppress(KeyError):
                self._home.unregister(self)
            self._socket.close()
            self._socket = None
        if self._link is not None:
            self._link.on_open = self._link.on_end = None
            self._link.abort()
            self._link = None

    close = cancel

    # Served by the loop --------------------------------------------------------------------------------

    def fileno(self) -> int:
        """The file descriptor."""
        assert self._socket is not None
        return self._socket.fileno()

    def readable(self) -> None:
        """A connection that failed is readable too."""
        self.writable()

    def writable(self) -> None:
        """The other end has answered, or the system has given up."""
        made = self._socket
        if made is None or self._done:
            return
        code = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._fail(os.strerror(code))
        else:
            self._home.unregister(self)
            self._socket = None
            self._connected(made)

    def settle(self) -> None:
        """Gathers nothing."""

    # Inside ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._done:
            return
        try:
            family, address = self._target()
            made = socket.socket(family, socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._fail(getattr(error, "strerror", None) or "no such name")
            return
        made.setblocking(False)
        if family != socket.AF_UNIX:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = made.connect_ex(address)
        self._socket = made
        if code not in {0, errno.EINPROGRESS}:
            made.close()
            self._socket = None
            self._fail(os.strerror(code))
            return
        self._home.register(self)
        self._home.watch(self, writing=True, reading=False)

    def _target(self) -> Target:
        locator = self._locator
        if locator.proto == UNIX:
            return socket.AF_UNIX, locator.path
        family, _, _, _, address = socket.getaddrinfo(locator.host, locator.port, type=socket.SOCK_STREAM)[0]
        return family, address

    def _connected(self, made: socket.socket) -> None:
        locator, framing = self._locator, self._framing
        link = StreamLink(self._home, self._name, locator, made, framing, lambda: endpoints_of(made, locator))
        if framing.opened:
            self._ready(link)
            return
        self._link = link
        link.on_open = lambda: self._ready(link)
        link.on_end = lambda ended: self._fail(ended.ended or "", f"does it speak {locator.proto}?")
        link.start()

    def _ready(self, link: StreamLink) -> None:
        link.on_open = link.on_end = None
        self._link = None
        self.cancel()
        self._on_link(link)

    def _fail(self, why: str, hint: str = "is a node listening there?") -> None:
        if not self._done:
            self.cancel()
            self._on_failed(f"no link to {self._locator} ({why}); {hint}")
