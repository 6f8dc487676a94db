"""Which SCOUTs and HELLOs are believed, wherever they go, and which HELLO answers which SCOUT.

Port 7446 is that of scouting, and 7447 may be in groups. Elsewhere a datagram has to be what nodes send, or to be in company.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Generic, NamedTuple, TypeVar

from scapy_layers.codes import DEFAULT_PORT, SCOUTING_PORT, WhatAmI
from scapy_layers.links import Endpoint, Way
from scapy_layers.primitives import Reader

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_HEADER = 3
"""Bytes of a SCOUT or HELLO in front of the zid: header, version, and how long it is with what else there is."""

_PORTS = frozenset({SCOUTING_PORT, DEFAULT_PORT})
"""Where groups are Zenoh's."""

_ANYBODY = "*"
"""Who is asked by what goes to a group."""

_LOCATOR = re.compile(rb"[a-z][A-Za-z0-9_\-+.]*/[^\x00-\x20\x7f]+")


class Answer(NamedTuple, Generic[T]):
    """What is thought of a HELLO.

    Attributes:
        believed: It is one.
        scout: The SCOUT that it answers, if that was captured.
        belated: That SCOUT is believed only now.
    """

    believed: bool
    scout: T | None = None
    belated: bool = False


class Scouted(Generic[T]):
    """Remembers who asked and who was answered, of each kind up to a number.

    Attributes:
        forgotten: SCOUTs that had to go because there were too many.
    """

    def __init__(self, most: int) -> None:
        self.forgotten = 0
        self._most = most
        # The latest SCOUT of each endpoint: where it went, and what the caller keeps of it until it is believed.
        self._latest: OrderedDict[Endpoint, _Latest[T]] = OrderedDict()
        # Who asked whom, and whether that was believed.
        self._asked: OrderedDict[tuple[Endpoint, str], bool] = OrderedDict()
        # Endpoints that are part of scouting: askers, groups that are asked, and who gets a HELLO.
        self._company: OrderedDict[Endpoint, None] = OrderedDict()

    def ask(self, way: Way, raw: bytes, scout: T) -> bool:
        """Takes note of a datagram that strict decoding takes for a SCOUT; tells whether it is believed now.

        If not, it may be when its HELLO comes.
        """
        pair = way.source, _asked_by(way.target)
        told = self._asked.get(pair, False) or self._is_scout(way, raw)
        self._keep(self._asked, pair, told)
        self.forgotten += self._keep(self._latest, way.source, _Latest(scout, way.target, told))
        if told:
            self._keep(self._company, way.source, None)
            if is_group(way.target):
                self._keep(self._company, way.target, None)
        return told

    def answer(self, way: Way, raw: bytes) -> Answer[T]:
        """Judges a datagram that strict decoding takes for a HELLO.

        It is believed when it goes to somebody who asked its sender or a group, or names locators as nodes do.
        """
        asker = way.target
        if is_group(asker):
            return Answer(False)
        pairs = [pair for pair in ((asker, way.source.address), (asker, _ANYBODY)) if pair in self._asked]
        if not (pairs or asker in self._company or is_usual_hello(raw)):
            return Answer(False)
        self._asked.update(dict.fromkeys(pairs, True))
        self._keep(self._company, asker, None)
        latest = self._latest.get(asker)
        if latest is None or _asked_by(latest.target) not in {way.source.address, _ANYBODY}:
            return Answer(True)
        answer = Answer(True, latest.scout, belated=not latest.told)
        latest.told = True
        return answer

    def _is_scout(self, way: Way, raw: bytes) -> bool:
        if not is_group(way.target):
            return way.target.port == SCOUTING_PORT
        known = way.source in self._company or way.target in self._company
        return known or way.target.port in _PORTS or is_usual_scout(raw)

    def _keep(self, where: OrderedDict[K, V], key: K, value: V) -> bool:
        """Remembers something; tells whether what was not heard for the longest time had to go for it."""
        where[key] = value
        where.move_to_end(key)
        if len(where) <= self._most:
            return False
        where.popitem(last=False)
        return True


@dataclass(slots=True, eq=False)
class _Latest(Generic[T]):
    scout: T
    target: Endpoint
    told: bool


def is_group(endpoint: Endpoint) -> bool:
    """Tells whether an address is that of a multicast group."""
    return ip_address(endpoint.address).is_multicast


def is_usual_scout(raw: bytes) -> bool:
    """Tells whether a SCOUT asks for something, and has a zid of zeros, extensions and reserved bits nowhere."""
    flags, packed = raw[0] & 0xE0, raw[2]
    zid = any(raw[_HEADER:]) if packed & 0x08 else packed < 0x10
    return not flags and bool(packed & 0x07) and zid


def is_usual_hello(raw: bytes) -> bool:
    """Tells whether a HELLO names locators that look like some, and has none of the other things."""
    flags, packed = raw[0] & 0xE0, raw[2]
    reader = Reader(raw, _HEADER)
    if flags != 0x20 or packed & 0x0F > max(WhatAmI) or not any(reader.take((packed >> 4) + 1)):
        return False
    locators = [reader.take(reader.vle()) for _ in range(reader.vle())]
    return bool(locators) and all(map(_LOCATOR.fullmatch, locators))


def _asked_by(target: Endpoint) -> str:
    """Returns whose answer a SCOUT to an endpoint asks for."""
    return _ANYBODY if is_group(target) else target.address
