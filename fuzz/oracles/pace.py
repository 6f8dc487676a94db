"""How long the node takes, against what it took when it was fresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from fuzz.oracles.machine import overslept

TIMES = 8
"""A node that takes so many times as long as at first is slow."""

LEAST = 0.01
"""Seconds; what takes less is not slow, whatever it took at first."""

LEAST_EFFORT = 0.003
"""The same for seconds of processor time, in which nobody waits."""

AGAIN = 9
"""Measurements of an immediate second look, with nothing else under way."""

IN_A_ROW = 3
"""So many thorough looks in a row must find it slow."""


def is_slow(baseline: Sequence[float], now: Sequence[float], least: float = LEAST) -> bool:
    """Tells whether a node takes many times as long as at first.

    Args:
        baseline: Seconds it took when it was fresh.
        now: Seconds it takes now.
        least: What takes less is not slow.
    """
    return bool(baseline) and bool(now) and median(now) > limit(baseline, least)


def limit(baseline: Sequence[float], least: float = LEAST) -> float:
    """Returns the seconds above which a node is slow.

    Of what it took when it was fresh, the lower quartile is looked at: what nothing else disturbed.
    """
    return max(least, TIMES * sorted(baseline)[len(baseline) // 4])


@dataclass(slots=True)
class Pace:
    """How long one thing takes.

    Attributes:
        baseline: Seconds on a fresh node.
        least: What takes less is not slow, in seconds.
        slow: How many thorough looks in a row found it slow.
    """

    baseline: list[float] = field(default_factory=list)
    least: float = LEAST
    slow: int = 0

    def judge(self, recent: Sequence[float], measure: Callable[[], float | None]) -> list[float]:
        """Returns what it takes now when that is slow, again and again, in quiet too; nothing otherwise.

        Args:
            recent: What it took just now.
            measure: Measures once more; None when that failed.
        """
        if not is_slow(self.baseline, recent, self.least):
            self.slow = 0
            return []
        again, late = [], []
        for _ in range(AGAIN):
            seconds = measure()
            if seconds is None:
                break
            again.append(seconds)
            late.append(overslept())
        # On a busy machine most take long, but not all; and we ourselves are woken late.
        if len(again) < AGAIN or min(again) <= max(limit(self.baseline, self.least), TIMES * median(late)):
            self.slow = 0
            return []
        self.slow += 1
        return again if self.slow >= IN_A_ROW else []
