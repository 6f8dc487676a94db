"""Making links to other nodes: again and again until it works, and again when a link ends."""

from __future__ import annotations

from collections.abc import Callable

from conformance.config import CONNECT_SECONDS, Locator
from conformance.errors import UsageError
from conformance.link import Link, Reaching
from conformance.refnode.core import Core, log
from conformance.refnode.neighbour import Neighbour, OnGone
from conformance.refnode.settings import RETRY_SECONDS


class Dialler:
    """Keeps a link to one locator.

    Args:
        core: What all links share.
        locator: Where the other node is.
    """

    def __init__(self, core: Core, locator: Locator) -> None:
        self._core = core
        self._locator = locator
        self._pause = RETRY_SECONDS[0]
        self._stopped = False
        self._tries = 0
        self._reaching: Reaching | None = None

    def start(self) -> None:
        """Makes the first attempt."""
        self._attempt(self._core.clock())

    def stop(self) -> None:
        """Makes no more attempts."""
        self._stopped = True
        if self._reaching is not None:
            self._reaching.cancel()

    def _attempt(self, _: float) -> None:
        if not self._stopped:
            self._tries += 1
            self._reaching = dial(self._core, self._locator, f"out{self._tries}", self._ended, self._later)

    def _ended(self, was_open: bool) -> None:
        if was_open:
            self._pause = RETRY_SECONDS[0]
        self._later()

    def _later(self) -> None:
        if not self._stopped:
            self._core.links.at(self._core.clock() + self._pause, self._attempt)
            self._pause = min(self._pause * 2, RETRY_SECONDS[1])


def dial(
    core: Core,
    locator: Locator,
    name: str,
    on_gone: OnGone,
    on_failed: Callable[[], None],
    seconds: float = CONNECT_SECONDS,
    on_made: Callable[[], None] = lambda: None,
) -> Reaching | None:
    """Makes a link and begins the handshake, without waiting.

    Args:
        core: What all links share.
        locator: Where the other node is.
        name: Of the link.
        on_gone: Called when the link has ended.
        on_failed: Called when there is no link: nobody is there, or we cannot speak with it.
        seconds: How long the other end may take.
        on_made: Called when there is a link.

    Returns:
        What can be cancelled while nothing has come of it.
    """

    def made(link: Link) -> None:
        Neighbour(core, link, initiator=True, on_gone=on_gone)
        on_made()

    def failed(why: str) -> None:
        log.info("%s", why)
        on_failed()

    try:
        return core.links.reach(locator, name, made, failed, seconds)
    except UsageError as error:
        why = str(error)
        core.links.call_later(lambda: failed(why))
        return None
