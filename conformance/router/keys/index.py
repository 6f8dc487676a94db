"""Values under key expressions, found by any key that intersects.

What is looked at depends on the key that is looked up and on what matches, not on how much there is besides:
keys without wildcards by equality, those with some by a tree. Nothing here recurses, and a long key costs no more
than its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from conformance.router.keys.places import places_of
from conformance.router.keys.plain import PlainKeys
from conformance.router.keys.wild import WildKeys
from scapy_layers.keyexpr import intersects

T = TypeVar("T")


class _Shelf:
    """The keys with the same verbatim chunks: no others can intersect them."""

    __slots__ = ("plain", "wild")

    def __init__(self) -> None:
        self.plain = PlainKeys()
        self.wild = WildKeys()


class KeyIndex(Generic[T]):
    """Values under key expressions; all of them are valid, which whoever calls has seen to."""

    def __init__(self) -> None:
        self._values: dict[str, dict[T, None]] = {}
        self._shelves: dict[tuple[str, ...], _Shelf] = {}
        self._sizes: dict[tuple[str, ...], int] = {}

    def __len__(self) -> int:
        """How many keys have a value."""
        return len(self._values)

    def add(self, keyexpr: str, value: T) -> None:
        """Puts a value under a key; one that is there stays."""
        values = self._values.get(keyexpr)
        if values is not None:
            values[value] = None
            return
        self._values[keyexpr] = {value: None}
        verbatim = _verbatim(keyexpr)
        shelf = self._shelves.get(verbatim)
        if shelf is None:
            shelf = self._shelves[verbatim] = _Shelf()
        self._sizes[verbatim] = self._sizes.get(verbatim, 0) + 1
        if is_wild(keyexpr):
            shelf.wild.add(keyexpr)
        else:
            shelf.plain.add(keyexpr)

    def discard(self, keyexpr: str, value: T) -> None:
        """Takes a value from under a key; one that is not there is no error."""
        values = self._values.get(keyexpr)
        if values is None or value not in values:
            return
        del values[value]
        if values:
            return
        del self._values[keyexpr]
        verbatim = _verbatim(keyexpr)
        shelf = self._shelves[verbatim]
        if is_wild(keyexpr):
            shelf.wild.remove(keyexpr)
        else:
            shelf.plain.remove(keyexpr)
        self._sizes[verbatim] -= 1
        if not self._sizes[verbatim]:
            del self._shelves[verbatim], self._sizes[verbatim]

    def matching(self, keyexpr: str) -> Iterator[tuple[str, T]]:
        """Gives the keys that intersect one, with each of their values; the index may change meanwhile."""
        for key in self.keys_matching(keyexpr):
            for value in list(self._values.get(key, ())):
                yield key, value

    def keys_matching(self, keyexpr: str) -> list[str]:
        """Returns the keys that intersect one."""
        verbatim = _verbatim(keyexpr)
        shelf = self._shelves.get(verbatim)
        if shelf is None:
            return []
        found = []
        wild = is_wild(keyexpr)
        if not wild and keyexpr in self._values:
            found.append(keyexpr)
        if not wild and not len(shelf.wild):
            return found
        places = places_of(keyexpr)
        near = [*shelf.wild.near(places), *(shelf.plain.near(places) if wild else ())]
        if verbatim:
            return found + [key for key, _ in near if intersects(key, keyexpr)]
        return found + [key for key, sure in near if sure or _meets(key, keyexpr)]


def _meets(a: str, b: str) -> bool:
    """Tells whether two valid keys without verbatim chunks intersect."""
    if is_wild(a) and is_wild(b):
        return intersects(a, b)
    wide, plain = (a, b) if is_wild(a) else (b, a)
    head, *middle = wide.split("**")
    if not middle or "*" in head or any("*" in piece for piece in middle):
        return intersects(a, b)
    # With no wildcard but ``**`` it is the text between them that has to be found, each piece as far in front as it can.
    *middle, tail = middle
    text, tail = f"/{plain}/", f"{tail}/"
    if not text.startswith(f"/{head}"):
        return False
    at = len(head)
    for piece in middle:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece) - 1
    return text.endswith(tail) and at <= len(text) - len(tail)


def is_wild(keyexpr: str) -> bool:
    """Tells whether a key has wildcards, or what looks like some in a verbatim chunk."""
    return "*" in keyexpr


def _verbatim(keyexpr: str) -> tuple[str, ...]:
    """Returns the verbatim chunks of a key."""
    if "@" not in keyexpr:
        return ()
    return tuple(chunk for chunk in keyexpr.split("/") if chunk.startswith("@"))
