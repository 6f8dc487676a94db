"""Words in order, so that those with one beginning are found without looking at the others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

_MOST = 512
"""Words in one block; adding a word moves no more than that."""


class SortedWords:
    """A set of words in order, kept in blocks."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        ordered = sorted(set(words))
        half = _MOST // 2
        self._blocks = [ordered[at : at + half] for at in range(0, len(ordered), half)]
        self._firsts = [block[0] for block in self._blocks]

    def add(self, word: str) -> None:
        """Puts a word in its place; one that is there stays."""
        if not self._blocks:
            self._blocks.append([word])
            self._firsts.append(word)
            return
        at = max(bisect_right(self._firsts, word) - 1, 0)
        block = self._blocks[at]
        place = bisect_left(block, word)
        if place < len(block) and block[place] == word:
            return
        insort(block, word)
        self._firsts[at] = block[0]
        if len(block) > _MOST:
            half = len(block) // 2
            self._blocks[at : at + 1] = [block[:half], block[half:]]
            self._firsts[at : at + 1] = [block[0], block[half]]

    def discard(self, word: str) -> None:
        """Takes a word out; one that is not there is no error."""
        at = bisect_right(self._firsts, word) - 1
        if at < 0:
            return
        block = self._blocks[at]
        place = bisect_left(block, word)
        if place == len(block) or block[place] != word:
            return
        del block[place]
        if block:
            self._firsts[at] = block[0]
        else:
            del self._blocks[at], self._firsts[at]

    def starting_with(self, beginning: str) -> Iterator[str]:
        """Gives the words with this beginning, in order."""
        first = max(bisect_right(self._firsts, beginning) - 1, 0)
        for at in range(first, len(self._blocks)):
            block = self._blocks[at]
            for place in range(bisect_left(block, beginning), len(block)):
                if not block[place].startswith(beginning):
                    return
                yield block[place]
