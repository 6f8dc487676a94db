"""Keys with wildcards as a tree of chunks, walked once for each key that is looked up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from conformance.router.keys.patterns import Patterns
from conformance.router.keys.places import ANY, INSIDE, ONE, Places, ends
from conformance.router.keys.words import SortedWords

DEPTH = 32
"""Chunks of a key that stand in the tree. What is longer hangs at its last node and is compared as a whole: a key of
64 KiB must not cost 32 768 nodes."""

_STRIDE = 64
"""Steps that one of two walks does before the other has its turn."""

_MANY = 32
"""Chunks below one node from which on it pays to keep them in order."""


class _Node:
    """What begins with the same chunks."""

    __slots__ = ("any", "back", "deep", "ends", "front", "inside", "literal", "one")

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.one: _Node | None = None
        self.any: _Node | None = None
        self.inside: Patterns[_Node] | None = None
        self.ends: str | None = None
        self.deep: set[str] | None = None
        self.front: SortedWords | None = None
        self.back: SortedWords | None = None

    def child(self, chunk: str) -> _Node | None:
        if chunk == ONE:
            return self.one
        if chunk == ANY:
            return self.any
        if INSIDE in chunk:
            return self.inside.all.get(chunk) if self.inside else None
        return self.literal.get(chunk)

    def grow(self, chunk: str) -> _Node:
        node = self.child(chunk)
        if node is not None:
            return node
        node = _Node()
        if chunk == ONE:
            self.one = node
        elif chunk == ANY:
            self.any = node
        elif INSIDE in chunk:
            self.inside = self.inside or Patterns()
            self.inside.put(chunk, node)
        else:
            self.literal[chunk] = node
            if self.front is not None and self.back is not None:
                self.front.add(chunk)
                self.back.add(chunk[::-1])
        return node

    def cut(self, chunk: str) -> None:
        if chunk == ONE:
            self.one = None
        elif chunk == ANY:
            self.any = None
        elif INSIDE in chunk:
            assert self.inside is not None
            self.inside.remove(chunk)
            if not self.inside.all:
                self.inside = None
        else:
            del self.literal[chunk]
            if self.front is not None and self.back is not None:
                self.front.discard(chunk)
                self.back.discard(chunk[::-1])

    @property
    def empty(self) -> bool:
        below = self.literal or self.one or self.any or self.inside
        return not below and self.ends is None and not self.deep

    def fitting(self, pattern: str) -> Iterator[str]:
        """Gives the literal chunks below that may fit a chunk with ``$*``."""
        first, last = ends(pattern)
        if len(self.literal) < _MANY or not (first or last):
            yield from self.literal
            return
        if self.front is None or self.back is None:
            self.front = SortedWords(self.literal)
            self.back = SortedWords(chunk[::-1] for chunk in self.literal)
        if first:
            yield from self.front.starting_with(first)
        else:
            for chunk in self.back.starting_with(last[::-1]):
                yield chunk[::-1]


class _Tree:
    """Keys by their chunks, read from the front or from the back."""

    def __init__(self, *, backwards: bool) -> None:
        self._root = _Node()
        self._order = -1 if backwards else 1

    def add(self, key: str, chunks: list[str]) -> None:
        node = self._root
        for chunk in chunks[:: self._order][:DEPTH]:
            node = node.grow(chunk)
        if len(chunks) > DEPTH:
            node.deep = node.deep or set()
            node.deep.add(key)
        else:
            node.ends = key

    def remove(self, key: str, chunks: list[str]) -> None:
        way = chunks[:: self._order][:DEPTH]
        path = [self._root]
        for chunk in way:
            node = path[-1].child(chunk)
            assert node is not None
            path.append(node)
        if len(chunks) > DEPTH:
            assert path[-1].deep is not None
            path[-1].deep.remove(key)
        else:
            path[-1].ends = None
        while len(path) > 1 and path[-1].empty:
            path.pop()
            path[-1].cut(way[len(path) - 1])

    def near(self, key: Places) -> Iterator[tuple[str, bool] | None]:
        """Gives the keys that may intersect one, and None for each step on the way; see ``WildKeys``.

        The key is laid out in the direction in which the tree is read.
        """
        stack = [(self._root, key.start)]
        while stack:
            node, mask = stack.pop()
            if node.ends is not None and mask & key.end:
                yield node.ends, True
            for deep in node.deep or ():
                yield deep, False
            if node.any is not None:
                stack.append((node.any, key.over_any(mask)))
            live = mask & (key.end - 1)
            if live:
                for below, moved in self._below(node, key, live):
                    if moved:
                        stack.append((below, moved))
                    yield None
            yield None

    @staticmethod
    def _below(node: _Node, key: Places, live: int) -> Iterator[tuple[_Node, int]]:
        """Gives the nodes below one that are reached with one chunk each, and where the key stands then."""
        if node.one is not None:
            yield node.one, key.over_one(live)
        if node.inside is not None:
            for chunk, child in _Tree._patterns(node.inside, key, live):
                yield child, key.over_inside(live, chunk)
        if node.literal:
            for chunk in _Tree._literals(node, key, live):
                below = node.literal.get(chunk)
                if below is not None:
                    yield below, key.over(live, chunk)

    @staticmethod
    def _patterns(inside: Patterns[_Node], key: Places, live: int) -> Iterator[tuple[str, _Node]]:
        if live & key.open or live.bit_count() >= len(inside.all):
            yield from inside.all.items()
            return
        seen = set()
        for chunk, _ in key.at(live):
            for pattern, child in inside.near(chunk):
                if pattern not in seen:
                    seen.add(pattern)
                    yield pattern, child

    @staticmethod
    def _literals(node: _Node, key: Places, live: int) -> Iterator[str]:
        """Gives each literal chunk below a node once that may fit at the places; others as well."""
        if not live & (live - 1) and not live & key.wild:
            yield key.chunks[live.bit_length() - 1]
        elif live & key.open or live.bit_count() >= len(node.literal):
            yield from node.literal
        else:
            seen = set()
            for chunk, place in key.at(live):
                for fitting in node.fitting(chunk) if place & key.wild else (chunk,):
                    if fitting not in seen:
                        seen.add(fitting)
                        yield fitting


class WildKeys:
    """A set of keys with wildcards.

    There are two trees of them. A key without wildcards looks into one; for a key that has some, both are walked in
    turn until the first has been walked through: what one end of the key leaves open, the other often does not.
    """

    def __init__(self) -> None:
        self._forwards = _Tree(backwards=False)
        self._backwards = _Tree(backwards=True)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, key: str) -> None:
        """Adds a key that is not there."""
        chunks = key.split("/")
        self._forwards.add(key, chunks)
        self._backwards.add(key, chunks)
        self._size += 1

    def remove(self, key: str) -> None:
        """Takes out a key that is there."""
        chunks = key.split("/")
        self._forwards.remove(key, chunks)
        self._backwards.remove(key, chunks)
        self._size -= 1

    def near(self, key: Places) -> list[tuple[str, bool]]:
        """Returns the keys that may intersect one; the flag says that they do, verbatim chunks aside."""
        forwards = _Walk(self._forwards.near(key))
        if not key.wild:
            return forwards.found_by_the_end()
        if forwards.goes_on():
            backwards = _Walk(self._backwards.near(key.backwards()))
            while forwards.goes_on():
                if not backwards.goes_on():
                    return backwards.found
        return forwards.found


class _Walk:
    """A walk through a tree, some steps at a time."""

    __slots__ = ("_steps", "found")

    def __init__(self, steps: Iterator[tuple[str, bool] | None]) -> None:
        self._steps = steps
        self.found: list[tuple[str, bool]] = []

    def goes_on(self) -> bool:
        """Does some more steps; tells whether there are more after them."""
        steps = list(islice(self._steps, _STRIDE))
        self.found += [found for found in steps if found is not None]
        return len(steps) == _STRIDE

    def found_by_the_end(self) -> list[tuple[str, bool]]:
        """Does all the steps."""
        self.found += [found for found in self._steps if found is not None]
        return self.found
