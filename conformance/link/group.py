"""UDP sockets that speak with many: scouting, and the transport of a multicast group."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from conformance.config import Locator
from conformance.errors import LinkFailed
from conformance.link.datagram import BUFFER_BYTES, DATAGRAM_BYTES, DATAGRAMS_A_TURN
from conformance.link.link import SECONDS_A_TURN, Home, code
from conformance.observe import Address, Direction, Endpoints, Observation
from scapy_layers.codes import Kind

SIOCGIFADDR = 0x8915
"""Asks Linux for the address of an interface."""

IP_MULTICAST_ALL = 49
"""Linux; the module socket does not know it."""

DISCARD = 9
"""A port, where any will do."""

TTL = 1
"""Routers of the network do not pass such datagrams on; ``#ttl=`` says otherwise."""

OnDatagram = Callable[[Observation, Address], None]


class Datagrams:
    """Speaks from a port of its own, and hears what is said to it, or to the locator as well. Made by ``Links``.

    Attributes:
        name: Its name in the history.
        locator: The group, or the address, that ``send`` speaks to and that is listened on.
        address: Where it speaks from: what an answer is sent to.
        ended: How it ended; None while it lives.
        refused: The system's word for the last datagram that it did not take; empty when there is none.
        on_datagram: Called with each datagram and where it came from. Its own are not among them.
    """

    def __init__(self, home: Home, locator: Locator, name: str, *, listens: bool, kind: Kind | None) -> None:
        self.name = name
        self.ended: str | None = None
        self.refused = ""
        self.on_datagram: OnDatagram | None = None
        self._home = home
        self._kind = kind
        self._queue: deque[tuple[bytes, Address]] = deque()
        self._ears: list[_Ear] = []
        try:
            self._target = _resolve(locator)
            own = _speaking(self._target, locator)
            self.address: Address = own.getsockname()[:2]
            self._ears.append(_Ear(self, home, own, self.address))
            if listens:
                bound = _hearing(self._target, locator)
                locator = replace(locator, port=bound.getsockname()[1])
                self._target = _resolve(locator)
                self._ears.append(_Ear(self, home, bound, self._target[1][:2]))
        except (OSError, UnicodeError) as error:
            for ear in self._ears:
                ear.close()
            advice = "; name an interface: #iface=lo" if locator.group and not locator.config else ""
            reason = getattr(error, "strerror", None) or error
            raise LinkFailed(f"no datagrams with {locator} ({reason}){advice}") from None
        self.locator = locator
        home.leftovers.add(self)
        if home.history is not None:
            home.history.endpoints[name] = Endpoints(self.address, self._target[1][:2], "udp")
            home.history.add(
                time.time_ns(),
                name,
                Direction.OPENED,
                note=f"datagrams with {locator} from {self.address[1]}",
            )

    def send(self, data: bytes, *, note: str = "") -> None:
        """Sends a datagram to the group or address of the locator."""
        self.send_to(data, self._target[1][:2], note=note)

    def send_to(self, data: bytes, address: Address, *, note: str = "") -> None:
        """Sends a datagram."""
        if self.ended is not None:
            return
        if self._home.history is not None:
            self._home.history.add(
                time.time_ns(),
                self.name,
                Direction.SENT,
                data,
                data,
                note,
                kind=self._kind,
                route=(self.address, address),
            )
        self._queue.append((data, address))
        self.flush()

    def _full(self, address: Address) -> tuple[Any, ...]:
        """Returns an address with the number of its interface, which Python drops from IPv6 addresses."""
        host, _, zone = address[0].partition("%")
        if zone:
            return host, address[1], 0, socket.if_nametoindex(zone)
        return self._target[1] if address == self._target[1][:2] else address

    def flush(self) -> None:
        """Hands waiting datagrams to the system as far as it takes them now."""
        while self._queue and self.ended is None:
            data, address = self._queue[0]
            try:
                self._ears[0].socket.sendto(data, self._full(address))
            except BlockingIOError:
                break
            except OSError as error:
                # A datagram may always be lost; one that is too large always is.
                self.refused = code(error)
                if self._home.history is not None:
                    self._home.history.annotate(f"the system did not take a datagram: {self.refused}")
            self._queue.popleft()
        if self.ended is None:
            self._ears[0].watch(writing=bool(self._queue))

    def came(self, data: bytes, source: Address, target: Address) -> None:
        """Takes a datagram from one of the two sockets."""
        if self.ended is not None or source == self.address:
            return
        kind, history = self._kind, self._home.history
        now, route = time.time_ns(), (source, target)
        if history is None:
            seen = Observation(0, now, self.name, Direction.RECEIVED, b"", data, kind=kind, route=route)
        else:
            seen = history.add(now, self.name, Direction.RECEIVED, data, data, kind=kind, route=route)
        if self.on_datagram is not None:
            self.on_datagram(seen, source)

    def close(self) -> None:
        """Leaves the group and ends."""
        if self.ended is None:
            self.flush()
            self.ended = "closed by us"
            self._home.leftovers.discard(self)
            for ear in self._ears:
                ear.close()
            if self._home.history is not None:
                self._home.history.add(time.time_ns(), self.name, Direction.ENDED, note=self.ended)


class _Ear:
    """One socket of Datagrams."""

    def __init__(self, owner: Datagrams, home: Home, bound: socket.socket, heard_at: Address) -> None:
        self.socket = bound
        self._owner = owner
        self._home = home
        self._heard_at = heard_at
        self._writing = False
        bound.setblocking(False)
        with suppress(OSError):  # as much as the system allows
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        home.register(self)

    def fileno(self) -> int:
        return self.socket.fileno()

    def watch(self, *, writing: bool) -> None:
        if writing != self._writing:
            self._writing = writing
            self._home.watch(self, writing=writing)

    def readable(self) -> None:
        until = time.monotonic() + SECONDS_A_TURN
        for number in range(DATAGRAMS_A_TURN):
            if self.socket.fileno() < 0 or (number and time.monotonic() > until):
                return
            try:
                data, source = self.socket.recvfrom(DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue  # an earlier datagram found nobody: that is no news about the others
            self._owner.came(data, source[:2], self._heard_at)

    def writable(self) -> None:
        self._owner.flush()

    def settle(self) -> None:
        pass

    def close(self) -> None:
        if self.socket.fileno() >= 0:
            self._home.unregister(self)
            self.socket.close()


# Sockets -------------------------------------------------------------------------------------------

Resolved = tuple[int, tuple[str, int] | tuple[str, int, int, int]]


def _resolve(locator: Locator) -> Resolved:
    family, _, _, _, address = socket.getaddrinfo(locator.host, locator.port, type=socket.SOCK_DGRAM)[0]
    iface = locator.config.get("iface")
    host, port = str(address[0]), int(address[1])
    if family == socket.AF_INET6:
        zone = host.partition("%")[2]
        return family, (
            host.partition("%")[0],
            port,
            0,
            socket.if_nametoindex(iface or zone) if iface or zone else 0,
        )
    return family, (host, port)


def _index(locator: Locator) -> int:
    """Returns the number of the interface; 0 lets the system choose."""
    iface = locator.config.get("iface")
    return socket.if_nametoindex(iface) if iface else 0


def _is_group(target: Resolved) -> bool:
    return ipaddress.ip_address(target[1][0].partition("%")[0]).is_multicast


def _speaking(target: Resolved, locator: Locator) -> socket.socket:
    """Returns a socket with a port of its own, bound to the address that the target sees."""
    made = socket.socket(target[0], socket.SOCK_DGRAM)
    try:
        _route(made, target, locator)
        made.bind(_source(target, locator))
    except OSError:
        made.close()
        raise
    return made


def _source(target: Resolved, locator: Locator) -> tuple[Any, ...]:
    """Returns the address of ours that the target sees, with port 0."""
    family, address = target
    iface = locator.config.get("iface")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        if iface and family == socket.AF_INET:
            # Asked for a route, the system may name an address of another interface.
            wanted = struct.pack("256s", iface.encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(probe, SIOCGIFADDR, wanted)[20:24]), 0
        _route(probe, target, locator)
        # Nothing travels; the system chooses. A target port of 0 has no route.
        probe.connect((address[0], address[1] or DISCARD))
        source = probe.getsockname()
        return (source[0], 0, *source[2:])


def _route(made: socket.socket, target: Resolved, locator: Locator) -> None:
    """Says by which interface, how far, and that members on this machine hear it."""
    if not _is_group(target):
        return
    ttl, index = int(locator.config.get("ttl", TTL)), _index(locator)
    if target[0] == socket.AF_INET:
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        if index:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("=4s4si", b"", b"", index))
    else:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
        if index:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)


def _hearing(target: Resolved, locator: Locator) -> socket.socket:
    """Returns a socket that hears what is sent to the target."""
    family, address = target
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if _is_group(target):
            # Several members on one machine.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)
        if _is_group(target):
            group = ipaddress.ip_address(address[0].partition("%")[0]).packed
            if family == socket.AF_INET:
                # Otherwise Linux hands over what members on other interfaces hear.
                made.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
                wanted = struct.pack("=4s4si", group, b"", _index(locator))
                made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, wanted)
            else:
                wanted = struct.pack("=16si", group, _index(locator))
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, wanted)
    except OSError:
        made.close()
        raise
    return made
