"""A bounded memory, in groups that can be forgotten at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRY = 256
"""Bytes that an entry costs besides what it says itself."""


class Table(Generic[K, V]):
    """Values by group (a session) and key; the least recently used go when there are too many.

    Attributes:
        most: Bytes that all entries may cost together.
        held: Bytes they cost now.
        forgotten: Entries that had to go before their group did.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self.forgotten = 0
        self._groups: OrderedDict[int, OrderedDict[K, tuple[V, int]]] = OrderedDict()
        self._lossy: set[int] = set()

    def get(self, group: int, key: K) -> V | None:
        """Returns a value and notes that it was used."""
        entries = self._groups.get(group)
        if entries is None or key not in entries:
            return None
        self._groups.move_to_end(group)
        entries.move_to_end(key)
        return entries[key][0]

    def put(self, group: int, key: K, value: V, size: int = 0) -> None:
        """Keeps a value instead of an earlier one of the same key.

        Args:
            group: What it is forgotten with.
            key: Its name in the group.
            value: What is kept.
            size: Bytes of it, besides the cost of an entry.
        """
        self.pop(group, key)
        entries = self._groups.setdefault(group, OrderedDict())
        self._groups.move_to_end(group)
        entries[key] = (value, size + ENTRY)
        self.held += size + ENTRY
        self._make_room()

    def charge(self, group: int, key: K, size: int) -> None:
        """Takes note that a value that is there has grown by some bytes."""
        value, cost = self._groups[group][key]
        self._groups[group][key] = (value, cost + size)
        self.held += size
        self._make_room()

    def pop(self, group: int, key: K) -> V | None:
        """Removes a value and returns it."""
        entries = self._groups.get(group)
        if entries is None or key not in entries:
            return None
        value, cost = entries.pop(key)
        self.held -= cost
        if not entries:
            del self._groups[group]
        return value

    def drop(self, group: int) -> None:
        """Forgets a whole group."""
        self.held -= sum(cost for _, cost in self._groups.pop(group, OrderedDict()).values())
        self._lossy.discard(group)

    def lossless(self, group: int) -> bool:
        """Tells whether nothing of a group had to go."""
        return group not in self._lossy

    def _make_room(self) -> None:
        while self.held > self.most:
            oldest, entries = next(iter(self._groups.items()))
            _, (_, cost) = entries.popitem(last=False)
            self.held -= cost
            self.forgotten += 1
            self._lossy.add(oldest)
            if not entries:
                del self._groups[oldest]
