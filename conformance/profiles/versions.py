"""Ranges of releases, as people write them."""

from __future__ import annotations

import re


def covers(ranges: str, version: str) -> bool:
    """Tells whether ranges cover a release.

    Args:
        ranges: ``1.10.2``, ``1.0.0-1.5.1``, or several joined by ``,``.
        version: The release; one that is not known is covered by none.

    Raises:
        ValueError: These are no ranges.
    """
    found = False
    for part in ranges.split(","):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)*)(?:\s*-\s*(\d+(?:\.\d+)*))?\s*", part)
        if not match:
            raise ValueError(
                f"{part.strip()!r} is not a release; write 1.10.2 or 1.0.0-1.5.1, separated by commas"
            )
        low, high = _number(match[1]), _number(match[2] or match[1])
        if low > high:
            raise ValueError(f"{part.strip()!r} ends before it begins")
        number = _number(version)
        found = found or bool(number and low <= number <= high)
    return found


def _number(version: str) -> tuple[int, ...]:
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(digits) for digits in match[1].split(".")) if match else ()
