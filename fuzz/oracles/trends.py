"""Whether a series of measurements goes on growing: not while it warms up, not when it levels off, not when it swings.

Pure functions; a series is in the order of time. Mann-Kendall says whether it rises, its quarters say how.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

SURE = 3.0
"""Mann-Kendall's Z of a series that rises; by chance one of a thousand series without a trend has it."""

LEVEL = 0.4
"""A series whose second half grows by less than this share of what the first half grew by levels off."""

SWING = 0.3
"""A series that falls back by more than this share of its growth swings."""

FEWEST = 12
"""Measurements below which nothing is said."""


def mann_kendall(series: Sequence[float]) -> float:
    """Returns Z of the Mann-Kendall test: above 0 when later values are larger. Ties are allowed for."""
    size = len(series)
    score = sum(
        (series[later] > series[earlier]) - (series[later] < series[earlier])
        for earlier in range(size)
        for later in range(earlier + 1, size)
    )
    ties: dict[float, int] = {}
    for value in series:
        ties[value] = ties.get(value, 0) + 1
    spread = size * (size - 1) * (2 * size + 5) - sum(n * (n - 1) * (2 * n + 5) for n in ties.values())
    if spread <= 0 or not score:
        return 0.0
    return (score - math.copysign(1, score)) / math.sqrt(spread / 18)


def quarters(series: Sequence[float]) -> list[float]:
    """Returns the median of each quarter."""
    size = len(series)
    return [median(series[size * part // 4 : size * (part + 1) // 4]) for part in range(4)]


def growth(series: Sequence[float], least: float) -> float:
    """Returns by how much a series grew when it goes on growing; 0 otherwise.

    Args:
        series: At least FEWEST values.
        least: Smaller growth does not count.
    """
    if len(series) < FEWEST:
        return 0.0
    parts = quarters(series)
    grown = parts[-1] - parts[0]
    if grown < least:
        return 0.0
    steps = [later - earlier for earlier, later in pairwise(parts)]
    half = len(series) // 2
    first, second = _rise(series[:half]), _rise(series[half:])
    if min(steps) < grown / 10 or second < LEVEL * first or _fall(series) > SWING * grown:
        return 0.0
    return grown if mann_kendall(series) >= SURE else 0.0


def _rise(series: Sequence[float]) -> float:
    third = max(1, len(series) // 3)
    return median(series[-third:]) - median(series[:third])


def _fall(series: Sequence[float]) -> float:
    """Returns the deepest fall from what had been reached."""
    top = deepest = series[0] - series[0]
    top = series[0]
    for value in series:
        top = max(top, value)
        deepest = max(deepest, top - value)
    return deepest
