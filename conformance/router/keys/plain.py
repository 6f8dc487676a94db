"""Keys without wildcards, found by a key that has some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

from conformance.router.keys.places import ANY, INSIDE, ONE, Places, ends
from conformance.router.keys.wild import DEPTH
from conformance.router.keys.words import SortedWords

K = TypeVar("K")


class PlainKeys:
    """A set of keys without wildcards.

    Each key is listed under each of its chunks and under their number, and by its beginning. Whoever looks with
    wildcards takes the shortest of the lists that must have it.
    """

    def __init__(self) -> None:
        self._by_chunk: dict[str, dict[str, None]] = {}
        self._by_size: dict[int, dict[str, None]] = {}
        self._deep: dict[str, dict[str, None]] = {}
        self._front: SortedWords | None = None
        self._back: SortedWords | None = None
        self._in_order: SortedWords | None = None

    def add(self, key: str) -> None:
        """Adds a key that is not there."""
        chunks = key.split("/")
        if len(chunks) > DEPTH:
            self._deep.setdefault(chunks[0], {})[key] = None
            return
        self._by_size.setdefault(len(chunks), {})[key] = None
        if self._in_order is not None:
            self._in_order.add(key)
        for chunk in chunks:
            keys = self._by_chunk.get(chunk)
            if keys is None:
                keys = self._by_chunk[chunk] = {}
                if self._front is not None and self._back is not None:
                    self._front.add(chunk)
                    self._back.add(chunk[::-1])
            keys[key] = None

    def remove(self, key: str) -> None:
        """Takes out a key that is there."""
        chunks = key.split("/")
        if len(chunks) > DEPTH:
            _drop(self._deep, chunks[0], key)
            return
        _drop(self._by_size, len(chunks), key)
        if self._in_order is not None:
            self._in_order.discard(key)
        for chunk in set(chunks):
            if _drop(self._by_chunk, chunk, key) and self._front is not None and self._back is not None:
                self._front.discard(chunk)
                self._back.discard(chunk[::-1])

    def near(self, key: Places) -> Iterator[tuple[str, bool]]:
        """Gives the keys that may intersect one with wildcards; the flag says that they do, verbatim chunks aside."""
        first = key.chunks[0]
        for deep in (
            self._deep.values() if first in {ONE, ANY} or INSIDE in first else [self._deep.get(first, {})]
        ):
            for one in deep:
                yield one, False
        if key.wild == key.open == key.end - 1:
            # Nothing but * and **: any key of that size fits.
            for one in self._of_size(key):
                yield one, True
            return
        # Text around the wildcards of a chunk has to be there: that is seen at once.
        texts = [max(chunk.split(INSIDE), key=len) for chunk in key.inside]
        for one in self._shortest(key):
            if all(text in one for text in texts) and key.match(one.split("/")):
                yield one, True

    def _shortest(self, key: Places) -> Iterable[str]:
        """Returns the shortest list that has all keys without wildcards that fit."""
        lists = [self._by_chunk.get(chunk) for chunk in key.literal]
        known: list[dict[str, None]] = []
        for found in lists:
            if not found:
                return ()
            known.append(found)
        best: list[dict[str, None]] = [min(known, key=len)] if known else self._sizes(key)
        least = sum(map(len, best))
        if key.inside:
            begins = dict.fromkeys(islice(self._beginning_like(key), least))
            if len(begins) < least:
                best, least = [begins], len(begins)
        for chunk in key.inside:
            found_here, count = [], 0
            for word in self._fitting(chunk):
                found_here.append(self._by_chunk[word])
                count += len(found_here[-1])
                if count >= least:
                    break
            else:
                best, least = found_here, count
        # A key that has several of the words is in several lists.
        return best[0] if len(best) == 1 else dict.fromkeys(chain.from_iterable(best))

    def _beginning_like(self, key: Places) -> Iterator[str]:
        """Gives the keys that begin with what stands before the first wildcard of one."""
        head: list[str] = []
        for chunk in key.chunks:
            if chunk == ANY:
                break
            head.append("" if chunk == ONE else chunk.split(INSIDE)[0])
            if chunk == ONE or INSIDE in chunk:
                break
        if self._in_order is None:
            self._in_order = SortedWords(chain.from_iterable(self._by_size.values()))
        return self._in_order.starting_with("/".join(head))

    def _fitting(self, pattern: str) -> Iterator[str]:
        """Gives the chunks that may fit one with ``$*``."""
        first, last = ends(pattern)
        if self._front is None or self._back is None:
            self._front = SortedWords(self._by_chunk)
            self._back = SortedWords(chunk[::-1] for chunk in self._by_chunk)
        if first or not last:
            yield from self._front.starting_with(first)
        else:
            for chunk in self._back.starting_with(last[::-1]):
                yield chunk[::-1]

    def _sizes(self, key: Places) -> list[dict[str, None]]:
        least = sum(chunk != ANY for chunk in key.chunks)
        if least == len(key.chunks):
            return [self._by_size.get(least, {})]
        return [keys for size, keys in self._by_size.items() if size >= least]

    def _of_size(self, key: Places) -> Iterator[str]:
        return chain.from_iterable(self._sizes(key))


def _drop(lists: dict[K, dict[str, None]], name: K, key: str) -> bool:
    """Takes a key out of a list; tells whether the list is gone with it."""
    keys = lists[name]
    del keys[key]
    if not keys:
        del lists[name]
    return not keys
