"""Key expressions: what is valid, the canonical form, what intersects and what includes what.

A key expression is one or more chunks joined by ``/``. ``*`` stands for one chunk, ``**`` for any number of
them, ``$*`` for any characters inside a chunk. A chunk that begins with ``@`` is verbatim: no wildcard
stands for it, and a wildcard inside it is no wildcard for others.

Two keys are compared by these observations, which need no search through combinations:

- Verbatim chunks match only themselves, so both keys must have the same ones in the same order; what stands
  between two of them is compared piece by piece.
- There is no end of characters and chunks that neither key names. So a key includes another exactly when it
  matches it with each ``$*`` and each ``**`` taken as something foreign, which only a wildcard matches.
- The leftmost place for a rigid run of chunks is always the best one.

Time is at worst the product of both lengths. Nothing here needs Scapy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from scapy_layers.errors import BadValue

_ONE = "*"
_ANY = "**"
_INSIDE = "$*"

_PLAIN = re.compile(r"[^/*$#?\ud800-\udfff]+(?:/[^/*$#?\ud800-\udfff]+)*")
"""A key without wildcards."""

_REPEATED = re.compile(r"(?:\$\*){2,}")

_MOST_SHOWN = 60
"""Characters of a key or chunk that a sentence about it quotes."""

_LONG = 1000
"""Bytes beyond which a key is long."""

_MOST_REMEMBERED = 512
"""Characters of a key that is remembered taken apart, and how many are: at most about 10 MB in all."""


def concrete(text: str) -> bool:
    """Tells whether a text is a valid key expression without wildcards."""
    return _PLAIN.fullmatch(text) is not None


def is_valid(text: str) -> bool:
    """Tells whether a text may stand on the wire as a key expression: valid and canonical."""
    return why_invalid(text) is None


def why_invalid(text: str) -> str | None:
    """Returns one sentence that says why a text may not stand on the wire, None when it may.

    A length is not judged here: fields bound it, and a key joined from two of them may be longer.
    """
    try:
        better = canonical(text)
    except BadValue as error:
        return error.found
    return None if better == text else f"not canonical, {_shown(text)} is written {_shown(better)}"


def sort_of(key: bytes) -> str:
    """Returns what a key is, in few words: why it is none, or what is in it."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return "no UTF-8"
    reason = why_invalid(text)
    if reason is not None:
        return "not canonical" if reason.startswith("not canonical") else reason.partition(" chunk")[0]
    marks = [words for words, mark in (("wild", "*"), ("verbatim", "@")) if mark in text]
    return " ".join(("long" if len(key) > _LONG else "valid", *marks))


def canonical(text: str) -> str:
    """Returns the only spelling that is valid on the wire of those that match the same keys.

    Raises:
        BadValue: There is none: the text is no key expression. The offset is that of the chunk, in
            characters.
    """
    if concrete(text):
        return text
    chunks: list[str] = []
    at = 0
    for chunk in text.split("/"):
        fault = _fault(chunk, text)
        if fault:
            raise BadValue("key expression", fault, at)
        once = _REPEATED.sub(_INSIDE, chunk)
        chunks.append(_ONE if once == _INSIDE else once)
        at += len(chunk) + 1
    return "/".join(_in_order(chunks))


def _fault(chunk: str, text: str) -> str | None:
    """Returns why a chunk can stand in no key expression."""
    if chunk in {_ONE, _ANY}:
        return None
    if not chunk:
        return f"an empty chunk in {_shown(text)}" if text else "empty, a key has at least one chunk"
    rest = chunk.replace(_INSIDE, "")
    if "*" in rest:
        return f"'*' in chunk {_shown(chunk)}, where it stands neither alone nor behind a '$'"
    if "$" in rest:
        return f"'$' in chunk {_shown(chunk)} without a '*' behind it"
    if "#" in rest or "?" in rest:
        return f"'{'#' if '#' in rest else '?'}' in chunk {_shown(chunk)}, no key has it"
    return None if _is_utf8(chunk) else f"chunk {_shown(chunk)} is not UTF-8"


def _is_utf8(chunk: str) -> bool:
    try:
        chunk.encode()
    except UnicodeEncodeError:
        return False
    return True


def _in_order(chunks: list[str]) -> Iterator[str]:
    """Gives the chunks with one ``**`` at the end of each run of whole-chunk wildcards that has some."""
    pending = False
    for chunk in chunks:
        if chunk == _ANY:
            pending = True
            continue
        if pending and chunk != _ONE:
            yield _ANY
            pending = False
        yield chunk
    if pending:
        yield _ANY


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "...")


_NEAR = 64
"""Places that are looked at one by one before all of them are looked at together."""

# Comparing ----------------------------------------------------------------------------------------


class _Key(NamedTuple):
    """A key taken apart.

    Attributes:
        verbatim: Its verbatim chunks.
        between: The chunks in front of, between and behind them: one more than there are verbatim ones.
    """

    verbatim: list[str]
    between: list[list[str]]


def intersects(a: str, b: str) -> bool:
    """Tells whether some key without wildcards is matched by both.

    Raises:
        BadValue: One of them is not valid.
    """
    return _compared(a, b, _pieces_intersect)


def includes(a: str, b: str) -> bool:
    """Tells whether every key that ``b`` matches is matched by ``a``.

    Raises:
        BadValue: One of them is not valid.
    """
    return _compared(a, b, _piece_includes)


def _compared(a: str, b: str, relates: Callable[[list[str], list[str]], bool]) -> bool:
    left, right = _taken_apart(a), _taken_apart(b)
    if a == b:
        return True
    return left.verbatim == right.verbatim and all(map(relates, left.between, right.between))


def _taken_apart(text: str) -> _Key:
    return _remembered(text) if len(text) <= _MOST_REMEMBERED else _take_apart(text)


def _take_apart(text: str) -> _Key:
    fault = why_invalid(text)
    if fault:
        raise BadValue("key expression", fault)
    key = _Key([], [[]])
    for chunk in text.split("/"):
        if chunk.startswith("@"):
            key.verbatim.append(chunk)
            key.between.append([])
        else:
            key.between[-1].append(chunk)
    return key


_remembered = lru_cache(_MOST_REMEMBERED)(_take_apart)


def _pieces_intersect(a: list[str], b: list[str]) -> bool:
    if _ANY not in a:
        return _fits(b, a, _chunks_intersect)
    if _ANY not in b:
        return _fits(a, b, _chunks_intersect)
    # Behind what both begin with and in front of what both end with, each takes all that the other has.
    return all(map(_chunks_intersect, a[: a.index(_ANY)], b[: b.index(_ANY)])) and all(
        map(_chunks_intersect, _behind_last_any(a), _behind_last_any(b))
    )


def _behind_last_any(chunks: list[str]) -> list[str]:
    """Returns the chunks behind the last ``**``, the last one first."""
    backwards = chunks[::-1]
    return backwards[: backwards.index(_ANY)]


def _piece_includes(a: list[str], b: list[str]) -> bool:
    return _fits(a, b, _chunk_includes)


def _fits(a: list[str], b: list[str], relates: Callable[[str, str], bool]) -> bool:
    """Tells whether the chunks of ``a`` can be laid over those of ``b``, its ``**`` over whatever is left.

    A ``**`` in ``b`` may be any number of foreign chunks, none as well: only a ``**`` of ``a`` can lie over
    it, and it does not count where ``*`` next to that ``**`` ask for a least number of chunks.
    """
    head, *middle = _split_at_any(a)
    if not middle:
        return len(a) == len(b) and all(map(relates, a, b))
    *middle, tail = middle
    lead, least = _without_stars(head)
    if not all(map(relates, lead, b)):
        return False
    board = _Board(b, relates)
    at = len(lead)
    for piece in middle:
        run, stars = _without_stars(piece)
        found = board.find(run, board.behind(at, least))
        if found is None:
            return False
        at, least = found + len(run), stars
    end = len(b) - len(tail)
    return board.behind(at, least) <= end and all(map(relates, tail, b[end:]))


def _split_at_any(chunks: list[str]) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for chunk in chunks:
        if chunk == _ANY:
            pieces.append([])
        else:
            pieces[-1].append(chunk)
    return pieces


def _without_stars(run: list[str]) -> tuple[list[str], int]:
    """Returns the chunks without the ``*`` at their end, and how many those are."""
    size = len(run)
    while size and run[size - 1] == _ONE:
        size -= 1
    return run[:size], len(run) - size


class _Board:
    """A row of chunks on which places for runs of other chunks are looked for.

    Places are bits of an integer, so that a run is tried at many places at once.
    """

    def __init__(self, chunks: list[str], relates: Callable[[str, str], bool]) -> None:
        self._chunks = chunks
        self._relates = relates
        self._places_of: dict[str, int] = {}
        self._fitting: dict[str, int] = {}

    def behind(self, at: int, least: int) -> int:
        """Returns the first place with ``least`` chunks between it and ``at``; ``**`` does not count.

        Behind the end when there are not so many.
        """
        while least and at < len(self._chunks):
            least -= self._chunks[at] != _ANY
            at += 1
        return at + least

    def find(self, run: list[str], start: int) -> int | None:
        """Returns the first place from ``start`` on where all chunks of a run fit."""
        last = len(self._chunks) - len(run)
        width = _NEAR
        while start <= last:
            places = (1 << width) - 1
            for at, chunk in enumerate(run, start):
                places &= self._near(chunk, at) if width == _NEAR else self._anywhere(chunk) >> at
                if not places:
                    break
            else:
                return start + (places & -places).bit_length() - 1
            start += width
            width *= 2
        return None

    def _near(self, chunk: str, start: int) -> int:
        """Returns where one chunk fits among the next few places, bit 0 for ``start``."""
        places = 0
        for index, other in enumerate(self._chunks[start : start + _NEAR]):
            places |= self._relates(chunk, other) << index
        return places

    def _anywhere(self, chunk: str) -> int:
        """Returns all places where one chunk fits. Asks once for each pair of different chunks."""
        known = self._fitting.get(chunk)
        if known is not None:
            return known
        if not self._places_of:
            self._note_places()
        places = 0
        for other, others in self._places_of.items():
            if self._relates(chunk, other):
                places |= others
        self._fitting[chunk] = places
        return places

    def _note_places(self) -> None:
        places: dict[str, list[int]] = {}
        for place, chunk in enumerate(self._chunks):
            places.setdefault(chunk, []).append(place)
        for chunk, found in places.items():
            row = bytearray(found[-1] // 8 + 1)
            for place in found:
                row[place // 8] |= 1 << place % 8
            self._places_of[chunk] = int.from_bytes(row, "little")


def _chunks_intersect(a: str, b: str) -> bool:
    """Tells whether two chunks, neither verbatim, can be the same one."""
    if a in {_ONE, b} or b == _ONE:
        return True
    if _INSIDE not in a:
        return _INSIDE in b and _matches(b, a)
    if _INSIDE not in b:
        return _matches(a, b)
    # Between what both begin and end with, each takes all that the other has.
    return _agree(a[: a.index(_INSIDE)], b[: b.index(_INSIDE)], str.startswith) and _agree(
        a[a.rindex(_INSIDE) + 2 :], b[b.rindex(_INSIDE) + 2 :], str.endswith
    )


def _agree(a: str, b: str, goes_on: Callable[[str, str], bool]) -> bool:
    return goes_on(a, b) or goes_on(b, a)


def _chunk_includes(a: str, b: str) -> bool:
    """Tells whether one chunk matches all that another one does, neither verbatim; ``b`` may be ``**``."""
    if b == _ANY:
        return False
    if a in {_ONE, b}:
        return True
    # The text around the wildcards of a has none of their characters, so it never lies over one of b.
    return _INSIDE in a and _matches(a, b)


def _matches(pattern: str, text: str) -> bool:
    """Tells whether a text is the parts of a pattern in order, with anything at each ``$*``."""
    first, *middle, last = pattern.split(_INSIDE)
    end = len(text) - len(last)
    at = len(first)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
