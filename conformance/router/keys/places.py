"""A key laid out so that it is compared with many others at once.

Bit ``i`` of a mask says: the first ``i`` chunks of this key are used up, and so is all of the other key so far. Each
chunk of the other key moves the whole mask, so the cost does not grow with the ways in which wildcards may lie.
Verbatim chunks count as ordinary ones here: who compares keys that have some looks again with
``scapy_layers.keyexpr``.
"""

from __future__ import annotations

from functools import lru_cache

ONE = "*"
ANY = "**"
INSIDE = "$*"

_FEW = 8
"""Places that are looked at one by one."""

_SHORT = 512
"""Characters of a key whose places are remembered: what is kept must stay small."""


def meets(a: str, b: str) -> bool:
    """Tells whether two chunks, neither ``*`` nor ``**``, can be the same one."""
    if INSIDE not in a:
        return _matches(b, a) if INSIDE in b else a == b
    if INSIDE not in b:
        return _matches(a, b)
    # Between what both begin and end with, each takes all that the other has.
    (first, last), (begin, close) = ends(a), ends(b)
    return (first.startswith(begin) or begin.startswith(first)) and (
        last.endswith(close) or close.endswith(last)
    )


def ends(pattern: str) -> tuple[str, str]:
    """Returns the text in front of the first and behind the last wildcard of a chunk."""
    return pattern[: pattern.index(INSIDE)], pattern[pattern.rindex(INSIDE) + 2 :]


def _matches(pattern: str, text: str) -> bool:
    """Tells whether a text is what stands around the wildcards of a pattern, in order."""
    first, *middle, last = pattern.split(INSIDE)
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        # The leftmost place is always the best one.
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


class Places:
    """The chunks of one key, and where each of them stands.

    Attributes:
        chunks: The chunks in order.
        start: The mask before the first chunk of another key.
        end: The bit that says that this key is used up.
        open: Places of ``*`` and ``**``: any chunk fits there.
        wild: Those, and places of chunks with ``$*``.
        literal: Places of each chunk without wildcards.
        inside: Places of each chunk with ``$*``.
    """

    __slots__ = (
        "_anys",
        "_backwards",
        "_fitting",
        "_ones",
        "chunks",
        "end",
        "inside",
        "literal",
        "open",
        "start",
        "wild",
    )

    def __init__(self, chunks: list[str]) -> None:
        self.chunks = chunks
        self.end = 1 << len(chunks)
        masks = _masks(chunks)
        self._ones = masks.pop(ONE, 0)
        self._anys = masks.pop(ANY, 0)
        self.inside = {}
        for chunk in chunks:
            if INSIDE in chunk and chunk in masks:
                self.inside[chunk] = masks.pop(chunk)
        self.literal = masks
        self.open = self._ones | self._anys
        self.wild = self.open
        for mask in self.inside.values():
            self.wild |= mask
        self.start = self._closed(1)
        self._fitting: dict[str, int] = {}
        self._backwards: Places | None = None

    def _closed(self, mask: int) -> int:
        """Adds the places behind each ``**``, which may stand for nothing."""
        return mask | (mask & self._anys) << 1

    def backwards(self) -> Places:
        """Returns the same key read from its end."""
        if self._backwards is None:
            self._backwards = Places(self.chunks[::-1])
        return self._backwards

    def over(self, mask: int, chunk: str) -> int:
        """Moves a mask over a chunk without wildcards."""
        fits = self.literal.get(chunk, 0) | self._ones
        for inside, places in self.inside.items():
            if mask & places and _matches(inside, chunk):
                fits |= places
        return self._closed((mask & fits) << 1 | mask & self._anys)

    def over_one(self, mask: int) -> int:
        """Moves a mask over ``*``."""
        anys = mask & self._anys
        return self._closed((mask & (self.end - 1) & ~anys) << 1 | anys)

    def over_any(self, mask: int) -> int:
        """Moves a mask over ``**``."""
        return (self.end << 1) - (mask & -mask)

    def over_inside(self, mask: int, chunk: str) -> int:
        """Moves a mask over a chunk with ``$*``."""
        return self._closed((mask & self._fits(mask & (self.end - 1), chunk)) << 1 | mask & self._anys)

    def _fits(self, mask: int, chunk: str) -> int:
        """Returns places, at least all among ``mask``, at which a chunk with ``$*`` fits."""
        if mask.bit_count() > _FEW:
            return self._all_that_fit(chunk)
        fits = self._ones
        for chunk_here, place in self.at(mask & ~self.open):
            if meets(chunk, chunk_here):
                fits |= place
        return fits

    def _all_that_fit(self, chunk: str) -> int:
        known = self._fitting.get(chunk)
        if known is None:
            known = self._ones
            for other, places in (*self.literal.items(), *self.inside.items()):
                if meets(chunk, other):
                    known |= places
            self._fitting[chunk] = known
        return known

    def at(self, mask: int) -> list[tuple[str, int]]:
        """Lists the chunks at some places, each with its bit."""
        found = []
        while mask:
            bit = mask & -mask
            found.append((self.chunks[bit.bit_length() - 1], bit))
            mask ^= bit
        return found

    def match(self, chunks: list[str]) -> bool:
        """Tells whether the chunks of another key, without wildcards, fit."""
        mask = self.start
        for chunk in chunks:
            mask = self.over(mask, chunk)
            if not mask:
                return False
        return bool(mask & self.end)


def _masks(chunks: list[str]) -> dict[str, int]:
    """Returns the places of each chunk."""
    masks: dict[str, int] = {}
    if len(chunks) <= _FEW:
        for place, chunk in enumerate(chunks):
            masks[chunk] = masks.get(chunk, 0) | 1 << place
        return masks
    places: dict[str, list[int]] = {}
    for place, chunk in enumerate(chunks):
        places.setdefault(chunk, []).append(place)
    for chunk, found in places.items():
        # A mask that grew bit by bit would be copied for each of them.
        row = bytearray(found[-1] // 8 + 1)
        for place in found:
            row[place // 8] |= 1 << place % 8
        masks[chunk] = int.from_bytes(row, "little")
    return masks


@lru_cache(256)
def _remembered(key: str) -> Places:
    return Places(key.split("/"))


def places_of(key: str) -> Places:
    """Returns a key laid out; several indexes are often asked for the same one."""
    return _remembered(key) if len(key) <= _SHORT else Places(key.split("/"))
