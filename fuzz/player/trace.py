"""What went over the links, in order; the oldest is forgotten when it is too much."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container, Iterator
from itertools import islice
from typing import NamedTuple

from conformance.observe import Direction, Endpoints

MOST_BYTES = 16 << 20
"""So many bytes are remembered; enough for the cases that a finding may be about."""

EVENT_BYTES = 300
"""What an event takes besides its bytes, with its share of the addresses of its link."""

BEGINNING = 50
"""A link begins with its events among so many of all links: the handshake."""


class Event(NamedTuple):
    """One thing that went over a link.

    Attributes:
        time_ns: Unix time in ns.
        link: Number of the link; no two of a trace are the same.
        direction: Which way.
        raw: As it travelled, length in front included.
        note: Why it ended; what the stimulus was.
        carried: Bytes that had gone over the link before, sent and received.
    """

    time_ns: int
    link: int
    direction: Direction
    raw: bytes = b""
    note: str = ""
    carried: tuple[int, int] = (0, 0)


_new = tuple.__new__

_NOTHING = (0, 0)


class Trace:
    """Remembers events.

    Attributes:
        endpoints: Addresses of the links that are remembered, by number.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._events: deque[Event] = deque()
        self._most = most
        self._size = 0
        self._links = 0
        self._carried: dict[int, tuple[int, int]] = {}
        self._opened: dict[int, int] = {}
        self.endpoints: dict[int, Endpoints] = {}
        self.first = 0
        """Position of the oldest event that is remembered."""

    @property
    def end(self) -> int:
        """Position of the next event."""
        return self.first + len(self._events)

    def link(self, ends: Endpoints) -> int:
        """Takes in a new link and returns its number."""
        self._links += 1
        self.endpoints[self._links] = ends
        self._opened[self._links] = self.end
        self.add(self._links, Direction.OPENED)
        return self._links

    def add(self, link: int, direction: Direction, raw: bytes = b"", note: str = "") -> None:
        """Remembers one event."""
        carried = self._carried.get(link, _NOTHING)
        # The same as Event(...), in half of the time.
        self._events.append(_new(Event, (time.time_ns(), link, direction, raw, note, carried)))
        if raw:
            sent, received = carried
            ours = direction is Direction.SENT
            self._carried[link] = (sent + len(raw), received) if ours else (sent, received + len(raw))
        self._size += len(raw) + EVENT_BYTES
        while self._size > self._most:
            old = self._events.popleft()
            self.first += 1
            self._size -= len(old.raw) + EVENT_BYTES
            if old.direction is Direction.ENDED:
                for known in (self.endpoints, self._carried, self._opened):
                    known.pop(old.link, None)

    def since(self, position: int) -> list[Event]:
        """Returns what is remembered from a position on."""
        return list(self._from(max(0, position - self.first)))

    def newest(self, before: int, most: int, links: Container[int]) -> list[Event]:
        """Returns the last events before a position, of some links and of others: of each at most so many bytes.

        They are counted as those that are remembered.
        """
        left = {True: most, False: most}
        kept: list[Event] = []
        for event in islice(reversed(self._events), self.end - before, None):
            chosen = event.link in links
            left[chosen] -= len(event.raw) + EVENT_BYTES
            if left[chosen] >= 0:
                kept.append(event)
            elif left[not chosen] < 0:
                break
        return kept[::-1]

    def beginning(self, link: int, before: int) -> list[Event]:
        """Returns the first events of a link, as far as they stand together and before a position."""
        opened = self._opened.get(link, before)
        if opened < self.first or opened >= before:
            return []
        first = opened - self.first
        stop = min(before - self.first, first + BEGINNING)
        return [event for event in islice(self._events, first, stop) if event.link == link]

    def _from(self, index: int) -> Iterator[Event]:
        back = len(self._events) - index
        # The end of a deque is near, its middle is far.
        newest: list[Event] = []
        for event in reversed(self._events):
            if len(newest) >= back:
                break
            newest.append(event)
        return reversed(newest)
