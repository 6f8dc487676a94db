"""Versions in their order, and sets of them: ``1.10.2``, ``1.0.0-1.10.2``, ``>=1.7``, joined by commas."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import Self

_PHASES = {
    **dict.fromkeys(("dev", "nightly", "snapshot"), -4),
    **dict.fromkeys(("a", "alpha"), -3),
    **dict.fromkeys(("b", "beta"), -2),
    **dict.fromkeys(("rc", "c", "pre", "preview"), -1),
    **dict.fromkeys(("post", "r", "rev"), 1),
}
"""Where what stands behind the numbers comes, before (-) or after (+) the release itself."""

# A letter follows the dash of 1.0.0-rc.1, a digit the dash of 1.0.0-1.10.2.
_VERSION = r"[0-9]{1,18}(?:\.[0-9]{1,18})*(?:[-.]?[a-z]+(?:[-.]?[0-9]{1,18})?)?(?:\+[0-9a-z.]+)?"

# In a shallow clone git knows no tag, and a commit stands alone: v0a1b2c3, or only digits. A day, 20261128, has its place.
_COMMIT = r"v?(?!20[0-9]{6}$)[0-9a-f]{7,40}"

Key = tuple[tuple[int, ...], int, int, int]
"""What versions are compared by: numbers without zeros at the end, phase, number of the phase, commits behind that."""


class NoVersions(ValueError):
    """A text that names no set of versions; the message says why and what to write."""


def version_key(text: str) -> Key | None:
    """Returns what a version is compared by; None when the text is no version that has a place in an order.

    1.10 is 1.10.0; 1.10.0rc1, 1.10.0-rc.1 and 1.10.0.dev5 come before it; what stands behind ``+`` does not count.
    1.10.0-12-g0a1b2c3, as ``git describe`` calls the twelfth commit behind it, comes before all releases behind it. A
    commit alone, 1234567, has no place.
    """
    text = text.strip().lower()
    match = re.fullmatch(
        r"v?([0-9]{1,18}(?:\.[0-9]{1,18})*)(?:[-.]?([a-z]+)(?:[-.]?([0-9]{1,18}))?)?"
        r"(?:-([0-9]{1,9})-g[0-9a-f]{4,40})?(?:\+[0-9a-z.]+)?",
        text,
    )
    if not match or (match[2] and match[2] not in _PHASES) or re.fullmatch(_COMMIT, text):
        return None
    numbers = [int(number) for number in match[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), _PHASES[match[2]] if match[2] else 0, int(match[3] or 0), int(match[4] or 0)


@dataclass(frozen=True, slots=True)
class _Span:
    """Versions between two, both of which belong to it or not; None is no bound."""

    low: Key | None
    high: Key | None
    with_low: bool = True
    with_high: bool = True

    def __contains__(self, key: Key) -> bool:
        above = self.low is None or key > self.low or (self.with_low and key == self.low)
        below = self.high is None or key < self.high or (self.with_high and key == self.high)
        return above and below

    def meets(self, other: _Span) -> bool:
        """Tells whether some version, released or not, is in both."""
        return not (self._is_below(other) or other._is_below(self))

    def _is_below(self, other: _Span) -> bool:
        if self.high is None or other.low is None:
            return False
        touch = self.with_high and other.with_low
        return self.high < other.low or (self.high == other.low and not touch)


@dataclass(frozen=True, slots=True)
class Versions:
    """A set of versions.

    Attributes:
        text: As it was written.
    """

    text: str
    _spans: tuple[_Span, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a set of versions.

        Raises:
            NoVersions: The text is none.
        """
        parts = [part.strip() for part in text.split(",")]
        spans = [_span(part) for part in parts]
        for (first, one), (second, other) in combinations(zip(parts, spans, strict=True), 2):
            # A comma joins; who means "and" would be surprised.
            if one.meets(other):
                raise NoVersions(
                    f"{first} and {second} overlap; commas separate sets, so write one range such as 1.7.0-1.9.0"
                )
        return cls(text, tuple(spans))

    def __contains__(self, version: object) -> bool:
        key = version_key(version) if isinstance(version, str) else None
        return key is not None and any(key in span for span in self._spans)

    def meets(self, other: Versions) -> bool:
        """Tells whether some version is in both."""
        return any(one.meets(another) for one in self._spans for another in other._spans)

    def ends(self) -> list[str]:
        """Returns the versions that the text names."""
        return re.findall(_VERSION, self.text.lower())

    def __str__(self) -> str:
        return self.text


def _span(part: str) -> _Span:
    if match := re.fullmatch(rf"(>=|<=|>|<)\s*({_VERSION})", part.lower()):
        key = _known(match[2])
        match match[1]:
            case ">=":
                return _Span(key, None)
            case ">":
                return _Span(key, None, with_low=False)
            case "<=":
                return _Span(None, key)
            case _:
                return _Span(None, key, with_high=False)
    if match := re.fullmatch(rf"({_VERSION})(?:\s*-\s*({_VERSION}))?", part.lower()):
        low = _known(match[1])
        high = _known(match[2]) if match[2] else low
        if low > high:
            raise NoVersions(f"{part} ends before it starts; write {match[2]}-{match[1]}")
        return _Span(low, high)
    raise NoVersions(
        f"{part!r} is not a set of versions; write 1.10.2, 1.0.0-1.10.2 or >=1.7, separated by commas"
    )


def _known(text: str) -> Key:
    key = version_key(text)
    if key is None:
        raise NoVersions(f"{text} cannot be ordered as a version; use one like 1.10.2 or 1.10.2rc1")
    return key


def ranges(chosen: list[bool | None], order: list[str]) -> str:
    """Returns the text of a set of versions.

    Args:
        chosen: For each version of ``order`` whether it belongs to the set; None where nobody knows: such a
            version does not interrupt a range, and does not begin or end one.
        order: Versions, oldest first.
    """
    parts: list[str] = []
    first: int | None = None
    last = 0
    for at, wanted in enumerate([*chosen, False]):
        if wanted:
            first, last = at if first is None else first, at
        elif wanted is False and first is not None:
            parts.append(order[first] if first == last else f"{order[first]}-{order[last]}")
            first = None
    return ", ".join(parts)
