"""Keeps sources whose cases take long from taking the time of all others: their cases wait until it is fair again."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable

from fuzz.cases import Source
from fuzz.plan import Numbered

SHARE = 0.02
"""Of the time a source may have so much while others wait; more only if it has more of the cases."""

FEW = 2.0
"""Where there are few sources: so many times what each would have if all had the same."""

SETTLED = 10.0
"""Seconds from the beginning in which nothing is put off: what each takes is not known yet."""

GAP = 0.05
"""Seconds in which no case ended; what was under way is charged with them, shorter ones are nobody's."""

MOST = 2048
"""So many cases wait; more are let go."""


class Fairness:
    """Who had how much of the time, and the cases that wait.

    Args:
        sources: How many there are.
        clock: Seconds, for tests.

    Attributes:
        let_go: Campaigns and numbers of the cases that were too many to wait.
    """

    def __init__(self, sources: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.let_go: list[tuple[str, int]] = []
        self._fair = max(SHARE, FEW / max(1, sources))
        self._clock = clock
        self._began = self._last = clock()
        self._seconds: defaultdict[Source, float] = defaultdict(float)
        self._cases: Counter[Source] = Counter()
        self._total = 0
        self._waiting: dict[Source, deque[Numbered]] = {}

    def begin(self) -> None:
        """A run begins now."""
        self._began = self._last = self._clock()

    def go_on(self) -> None:
        """Nobody is charged with what passed up to now."""
        self._last = self._clock()

    def ended(self, one: Numbered, beside: Callable[[], Iterable[Numbered]]) -> None:
        """Takes in that a case has ended; ``beside`` tells what else was under way."""
        self._cases[one.case.source] += 1
        self._total += 1
        if self._clock() - self._last > GAP:
            self.charge([one, *beside()])
        else:
            self.go_on()

    def charge(self, cases: Iterable[Numbered]) -> None:
        """Charges the sources of cases with the time since the last one ended, all with the same."""
        gap = self._clock() - self._last
        sources = {one.case.source for one in cases}
        for source in sources:
            self._seconds[source] += gap / len(sources)
        self.go_on()

    def had_enough(self, one: Numbered) -> bool:
        """Tells whether the source of a case had more of the time than is fair."""
        passed, source = self._clock() - self._began, one.case.source
        if passed < SETTLED:
            return False
        share = self._cases[source] / max(1, self._total)
        return self._seconds.get(source, 0.0) / passed > max(self._fair, share)

    def put_off(self, one: Numbered) -> bool:
        """Lets a case wait if its source had enough; tells whether it does."""
        if not self.had_enough(one):
            return False
        self.wait(one)
        return True

    def wait(self, one: Numbered) -> None:
        """Lets a case wait, as it did in an earlier part of the run."""
        if sum(map(len, self._waiting.values())) < MOST:
            self._waiting.setdefault(one.case.source, deque()).append(one)
        else:
            self.let_go.append((one.campaign.name, one.number))

    def due(self) -> list[Numbered]:
        """Takes out cases whose sources may have a turn again: one of each, since it may take long again."""
        if self._clock() - self._began < SETTLED:
            # Whoever waits by then took long before.
            return []
        ready = [cases for cases in self._waiting.values() if not self.had_enough(cases[0])]
        return self._take(ready)

    def rest(self, most: int) -> list[Numbered]:
        """Takes out cases although their turn has not come: there are no others any more."""
        return self._take(list(self._waiting.values())[:most])

    def _take(self, some: list[deque[Numbered]]) -> list[Numbered]:
        taken = [cases.popleft() for cases in some]
        self._waiting = {source: cases for source, cases in self._waiting.items() if cases}
        return taken

    @property
    def left(self) -> list[tuple[str, int]]:
        """Campaigns and numbers of the cases that waited to the end."""
        waiting = [(one.campaign.name, one.number) for cases in self._waiting.values() for one in cases]
        return [*waiting, *self.let_go]

    def note(self) -> str:
        """Says whose cases had to wait to the end; empty when none had to."""
        left = len(self.left)
        if not left:
            return ""
        passed = self._clock() - self._began
        dearest = sorted(self._seconds.items(), key=lambda item: -item[1])[:3]
        names = ", ".join(
            f"{source.name} ({seconds / passed:.0%} of the time)" for source, seconds in dearest
        )
        what = (
            "1 case was postponed because its source"
            if left == 1
            else f"{left} cases were postponed because their sources"
        )
        return f"{what} took too long; slowest: {names}"
