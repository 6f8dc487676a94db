"""Chunks with ``$*`` at one place of a tree, found by how they begin or end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from conformance.router.keys.places import INSIDE, ends
from conformance.router.keys.words import SortedWords

T = TypeVar("T")


class _Affixes(Generic[T]):
    """Patterns by the text in front of their first wildcard."""

    def __init__(self) -> None:
        self._by_text: dict[str, dict[str, T]] = {}
        self._lengths: dict[int, int] = {}
        self._words: SortedWords | None = None

    def put(self, text: str, pattern: str, value: T) -> None:
        group = self._by_text.get(text)
        if group is None:
            group = self._by_text[text] = {}
            self._lengths[len(text)] = self._lengths.get(len(text), 0) + 1
            if self._words is not None:
                self._words.add(text)
        group[pattern] = value

    def remove(self, text: str, pattern: str) -> None:
        group = self._by_text[text]
        del group[pattern]
        if group:
            return
        del self._by_text[text]
        self._lengths[len(text)] -= 1
        if not self._lengths[len(text)]:
            del self._lengths[len(text)]
        if self._words is not None:
            self._words.discard(text)

    def in_front_of(self, text: str) -> Iterator[tuple[str, T]]:
        """Gives the patterns whose text is a beginning of this one."""
        for length in self._lengths:
            if length <= len(text):
                yield from self._by_text.get(text[:length], {}).items()

    def along(self, text: str) -> Iterator[tuple[str, T]]:
        """Gives the patterns whose text begins with this one, or the other way round."""
        yield from self.in_front_of(text)
        if self._words is None:
            self._words = SortedWords(self._by_text)
        for word in self._words.starting_with(text):
            if word != text:
                yield from self._by_text[word].items()


class Patterns(Generic[T]):
    """Chunks with ``$*``, each with a value."""

    def __init__(self) -> None:
        self.all: dict[str, T] = {}
        self._front: _Affixes[T] = _Affixes()
        self._back: _Affixes[T] = _Affixes()
        self._neither: dict[str, T] = {}

    def put(self, pattern: str, value: T) -> None:
        """Adds a pattern that is not there."""
        self.all[pattern] = value
        first, last = ends(pattern)
        if first:
            self._front.put(first, pattern, value)
        elif last:
            self._back.put(last[::-1], pattern, value)
        else:
            self._neither[pattern] = value

    def remove(self, pattern: str) -> None:
        """Takes a pattern out."""
        del self.all[pattern]
        first, last = ends(pattern)
        if first:
            self._front.remove(first, pattern)
        elif last:
            self._back.remove(last[::-1], pattern)
        else:
            del self._neither[pattern]

    def near(self, chunk: str) -> Iterator[tuple[str, T]]:
        """Gives all patterns that may meet a chunk, and few others. The chunk may have ``$*`` itself."""
        first, last = ends(chunk) if INSIDE in chunk else (chunk, chunk)
        find = _Affixes.along if INSIDE in chunk else _Affixes.in_front_of
        yield from find(self._front, first)
        yield from find(self._back, last[::-1])
        yield from self._neither.items()
