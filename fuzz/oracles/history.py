"""What was measured of a process since it was started, and whether that goes on growing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fuzz.oracles.trends import growth
from fuzz.oracles.vitals import Sample

WINDOWS = (16, 48, 144)
"""Measurements that are looked at together. At one in five seconds: 80 s, 4 min, 12 min."""

WARM_UP = 6
"""The first measurements of a process do not count: it fills its caches and pools."""

MEMORY_LEAST = 16 << 20
"""Bytes; smaller growth may be a pool that fills, or memory in pieces that are too small to be used again."""

MEMORY_REPEATED = MEMORY_LEAST // 8
"""Bytes; the same while one script is played again and again: nothing else can have brought it about."""

HANDLES_LEAST = 24
"""Smaller growth may be links that the node keeps until their lease has passed, or threads of a pool that fills."""

LEASE_SECONDS = 75.0
"""The lease of our sessions and some more: until then a node may hold what belongs to a session that is gone."""

REPEATED_SECONDS = 1.0
"""Measurements that follow each other faster are made while one script is played again and again."""

CONFIRMING = 2
"""A series that grows must grow again by a share of its window behind the moment when that was first seen: one in so many."""


ENOUGH = WARM_UP + WINDOWS[0] + WINDOWS[0] // CONFIRMING
"""Measurements of one process below which no growth is told that goes on."""


@dataclass(slots=True)
class Suspicion:
    """A series that grew, and is watched.

    Attributes:
        at: Number of the measurement then.
        value: What it had reached.
        grown: By how much it had grown over the window.
    """

    at: int
    value: float
    grown: float


@dataclass(slots=True)
class Series:
    """One measured thing of one process.

    Attributes:
        least: Growth that counts.
        repeated: Growth that counts while one script is played again and again.
        span: Seconds that a window must cover, unless one script is played again and again.
        values: All measurements behind the warm-up.
        times: When they were made, in seconds.
        cases: How many cases the process had seen by then.
    """

    least: float
    repeated: float
    span: float = 0.0
    values: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    cases: list[int] = field(default_factory=list)
    _skipped: int = 0
    _suspicions: dict[int, Suspicion] = field(default_factory=dict)

    def add(self, at: float, value: float, cases: int) -> None:
        """Takes a measurement."""
        if self._skipped < WARM_UP:
            self._skipped += 1
            return
        self.values.append(value)
        self.times.append(at)
        self.cases.append(cases)
        most = 2 * WINDOWS[-1]
        if len(self.values) > most:
            del self.values[:-most], self.times[:-most], self.cases[:-most]
            for suspicion in self._suspicions.values():
                suspicion.at -= 1

    def grows(self) -> int:
        """Returns the window over which it goes on growing; 0 when it does not."""
        size = len(self.values)
        for window in WINDOWS:
            if size < window:
                break
            seconds = self.times[-1] - self.times[-window]
            repeated = seconds < window * REPEATED_SECONDS
            least = self.repeated if repeated else self.least
            grown = growth(self.values[-window:], least)
            if not grown or (not repeated and seconds < self.span):
                self._suspicions.pop(window, None)
                continue
            suspicion = self._suspicions.setdefault(window, Suspicion(size, self.values[-1], grown))
            behind = size - suspicion.at
            due = suspicion.grown * behind / window
            if behind >= window // CONFIRMING and self.values[-1] - suspicion.value >= due / 2:
                return window
        return 0

    def forget(self) -> None:
        """Begins anew: what was seen was said."""
        self.values.clear()
        self.times.clear()
        self.cases.clear()
        self._suspicions.clear()

    def told(self, window: int, show: Callable[[float], str]) -> str:
        """Returns the growth over a window in words."""
        first, last = self.values[-window], self.values[-1]
        seconds = self.times[-1] - self.times[-window]
        cases = self.cases[-1] - self.cases[-window]
        return (
            f"from {show(first)} to {show(last)} in {seconds:.0f} s and {cases} cases, and is still growing"
        )


@dataclass(slots=True)
class History:
    """What was measured of one process.

    Attributes:
        first: When it was fresh.
        memory: Bytes.
        handles: Number of descriptors, threads and children together.
    """

    first: Sample
    memory: Series = field(default_factory=lambda: Series(MEMORY_LEAST, MEMORY_REPEATED))
    handles: Series = field(default_factory=lambda: Series(HANDLES_LEAST, HANDLES_LEAST, LEASE_SECONDS))

    def add(self, sample: Sample, cases: int) -> None:
        """Takes a measurement."""
        self.memory.add(sample.at, sample.memory, cases)
        self.handles.add(sample.at, sum(sample.handles), cases)
