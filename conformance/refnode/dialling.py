"""Making links to other nodes: again and again until it works, and again when a link ends."""

from __future__ import annotations

from conformance.config import CONNECT_SECONDS, Locator
from conformance.errors import LinkFailed, UsageError
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

    def start(self) -> None:
        """Makes the first attempt."""
        self._attempt(self._core.clock())

    def stop(self) -> None:
        """Makes no more attempts."""
        self._stopped = True

    def _attempt(self, _: float) -> None:
        if self._stopped:
            return
        self._tries += 1
        if dialled(self._core, self._locator, f"out{self._tries}", self._ended) is None:
            self._later()

    def _ended(self, was_open: bool) -> None:
        if was_open:
            self._pause = RETRY_SECONDS[0]
        self._later()

    def _later(self) -> None:
        if not self._stopped:
            self._core.links.at(self._core.clock() + self._pause, self._attempt)
            self._pause = min(self._pause * 2, RETRY_SECONDS[1])


def dialled(
    core: Core,
    locator: Locator,
    name: str,
    on_gone: OnGone | None = None,
    seconds: float = CONNECT_SECONDS,
) -> Neighbour | None:
    """Makes a link and begins the handshake; returns None when nobody is there, or we cannot speak with it."""
    try:
        link = core.links.connect(locator, name, seconds)
    except (LinkFailed, UsageError) as error:
        log.info("%s", error)
        return None
    return Neighbour(core, link, initiator=True, on_gone=on_gone)
