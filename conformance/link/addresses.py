"""From locators to sockets and back."""

from __future__ import annotations

import errno
import itertools
import socket
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from conformance.config import CONNECT_SECONDS, UNIX, Locator
from conformance.errors import LinkFailed
from conformance.observe import Address, Endpoints

BACKLOG = 1024

_ports = itertools.count()


def connected_socket(locator: Locator, seconds: float = CONNECT_SECONDS) -> socket.socket:
    """Connects to a node within so many seconds; the socket does not block.

    Raises:
        LinkFailed: Nobody listens there, or nothing answers in time.
    """
    try:
        if locator.proto == UNIX:
            made = _connect_unix(locator.path, seconds)
        elif locator.proto == "udp":
            made = _connect_udp(locator)
        else:
            made = socket.create_connection((locator.host, locator.port), timeout=seconds)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, UnicodeError) as error:
        raise LinkFailed(f"no link to {locator} ({_reason(error)}); is a node listening there?") from None
    made.setblocking(False)
    return made


def _reason(error: OSError | UnicodeError) -> str:
    return (
        (getattr(error, "strerror", None) or "no answer in time")
        if isinstance(error, OSError)
        else "no such name"
    )


def _connect_unix(path: str, seconds: float) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(seconds)
        made.connect(path)
    except OSError:
        made.close()
        raise
    return made


def _connect_udp(locator: Locator) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(locator.host, locator.port, type=socket.SOCK_DGRAM)[0]
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.connect(address)
    except OSError:
        made.close()
        raise
    return made


def listening_socket(locator: Locator) -> tuple[socket.socket, Locator]:
    """Listens (or binds, on udp); returns the socket and the locator with the true port.

    Raises:
        LinkFailed: The address is taken, or not ours.
    """
    try:
        if locator.proto == UNIX:
            return _listen_unix(locator.path), locator
        kind = socket.SOCK_DGRAM if locator.proto == "udp" else socket.SOCK_STREAM
        family, _, _, _, address = socket.getaddrinfo(
            locator.host, locator.port, type=kind, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind)
        try:
            if kind == socket.SOCK_STREAM:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                # Connections inherit it.
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.bind(address)
            if kind == socket.SOCK_STREAM:
                made.listen(BACKLOG)
        except OSError:
            made.close()
            raise
    except (OSError, UnicodeError) as error:
        raise LinkFailed(f"cannot listen on {locator} ({_reason(error)})") from None
    made.setblocking(False)
    return made, replace(locator, port=made.getsockname()[1])


def _listen_unix(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            made.bind(path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not _is_stale(path):
                raise
            Path(path).unlink()
            made.bind(path)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return made


def _is_stale(path: str) -> bool:
    """Tells whether the socket file is what a process left behind that is no more."""
    if not stat.S_ISSOCK(Path(path).stat().st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(BlockingIOError):
        probe.setblocking(False)
        return probe.connect_ex(path) == errno.ECONNREFUSED
    return False


def endpoints_of(made: socket.socket, locator: Locator, accepted_from: Address | None = None) -> Endpoints:
    """Returns the addresses of a connected socket, for the capture.

    Args:
        made: The socket.
        locator: Where it was connected to, or accepted.
        accepted_from: Whom it was accepted from; None for one that we connected.
    """
    accepted = accepted_from is not None
    if locator.proto == UNIX:
        ours, theirs = made_up()
        return Endpoints(ours, theirs, UNIX, accepted, locator.path)
    local = made.getsockname()
    remote = accepted_from
    if remote is None:
        try:
            remote = made.getpeername()
        except OSError:
            # The other end is gone already.
            remote = (local[0], locator.port)
    return Endpoints((local[0], local[1]), (remote[0], remote[1]), locator.proto, accepted)


def made_up() -> tuple[Address, Address]:
    """Returns addresses for a link that has none, for the capture."""
    number = next(_ports) % 50_000
    return ("127.0.0.1", 10_000 + number), ("127.0.0.2", 7447)
