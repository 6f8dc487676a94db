"""Where a node of ours listens: ports that nobody uses, and a short path for a Unix socket."""

from __future__ import annotations

import random
import shutil
import socket
import sys
import tempfile
import threading
from collections import deque
from dataclasses import replace
from pathlib import Path

from conformance.config import LONGEST_PATH, UNIX, Locator
from conformance.errors import NodeDidNotStart, UsageError

HOST = "127.0.0.1"

PORTS = (15_000, 30_000)
"""Ports that no system gives to a connection by itself, so that one that was free stays free for a moment."""

ATTEMPTS = 100
"""Ports that are tried before it is said that none is free."""

KEPT = 64
"""So many of the ports that were chosen last are kept from others of us: until nodes listen there."""

_chosen: deque[socket.socket] = deque()
_choosing = threading.Lock()

LONGEST_NAME = 24
"""Bytes that the name of a socket file, and of a lock beside it, may add to the path of its folder."""


def free_port(proto: str, host: str = HOST) -> int:
    """Returns a port that nobody uses now, and that no other process of ours chooses before a node listens there.

    Raises:
        NodeDidNotStart: There is none.
    """
    kind = socket.SOCK_DGRAM if proto == "udp" else socket.SOCK_STREAM
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    dice = random.SystemRandom()
    for _ in range(ATTEMPTS):
        port = dice.randrange(*PORTS)
        with socket.socket(family, kind) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            if _choose(f"{kind.name} {port}"):
                return port
    raise NodeDidNotStart(f"no port of {host} is free for {proto}")


def _choose(name: str) -> bool:
    """Tells whether nobody else of us has chosen a port; from now on it is ours.

    A name without a file, which only Linux has, is given to one process at a time and is free when that has ended.
    """
    if sys.platform != "linux":
        return True
    chosen = socket.socket(socket.AF_UNIX)
    try:
        chosen.bind(f"\0zenoh-harness {name}")
    except OSError:
        chosen.close()
        return False
    with _choosing:
        _chosen.append(chosen)
        if len(_chosen) > KEPT:
            _chosen.popleft().close()
    return True


class Places:
    """The places of one node.

    Args:
        transports: What it shall listen on.

    Attributes:
        asked: These.
        transports: These and tcp, which the canary uses.
    """

    def __init__(self, transports: tuple[str, ...] = ("tcp",)) -> None:
        self.asked = transports
        self.transports = tuple(dict.fromkeys(("tcp", *transports)))
        self._folder: Path | None = None

    def endpoints(self, transports: tuple[str, ...] = ()) -> list[str]:
        """Returns where to listen; the system shall choose the ports.

        Args:
            transports: On what; all of this node when empty.
        """
        return [
            f"{UNIX}/{self._socket()}" if proto == UNIX else f"{proto}/{HOST}:0"
            for proto in transports or self.transports
        ]

    def clear(self) -> None:
        """Removes the folder of the Unix socket; a node that is started again gets another one."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _socket(self) -> Path:
        if self._folder is None:
            base = tempfile.gettempdir()
            if len(base.encode()) + LONGEST_NAME * 2 > LONGEST_PATH:
                base = "/tmp"  # noqa: S108  (mkdtemp makes a folder of its own there)
            self._folder = Path(tempfile.mkdtemp(prefix="zenoh-", dir=base))
        return self._folder / "node.sock"


def settled(endpoint: str) -> str:
    """Returns an endpoint with a free port in place of 0; one that nobody here understands stays as it is."""
    try:
        locator = Locator.parse(endpoint, listening=True)
        if locator.proto == UNIX or locator.port:
            return endpoint
        return str(replace(locator, port=free_port(locator.proto, locator.host)))
    except UsageError:
        return endpoint


def reached(endpoints: list[str]) -> dict[str, Locator]:
    """Returns by transport where a node that listens there takes links; the first of each transport."""
    found: dict[str, Locator] = {}
    for endpoint in endpoints:
        try:
            locator = Locator.parse(endpoint)
        except UsageError:
            continue
        # A group is no place for links, and what stands behind # is for whoever listens.
        if not locator.group:
            found.setdefault(locator.proto, replace(locator, config={}))
    return found
