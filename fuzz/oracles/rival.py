"""The same case on another node: another version, or another implementation."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from fuzz.cases import Case, reach
from fuzz.oracles.ward import Ward
from fuzz.player import Played
from fuzz.script import Script

SHARE = 0.1
"""Of the time, comparing takes so much."""

MOST_ALIKE = 3
"""So many cases about one field of one message in one state are compared."""

AGAIN = 2
"""So often a difference must show again on fresh links."""

DIED = "died"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two nodes that answer one case differently.

    Attributes:
        ours: What became of the case on the node under test: an ending, or ``died``.
        theirs: The same on the other.
        detail: One line for people.
    """

    ours: str
    theirs: str
    detail: str


class Rival:
    """Another node that the same cases are played on, now and then.

    Args:
        stage: The other node; started.

    Attributes:
        counts: How often each class of differences was met: state, message, both endings.
        compared: How many cases were played on both.
    """

    def __init__(self, stage: Ward) -> None:
        self.stage = stage
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.compared = 0
        self._alike: Counter[tuple[str, str, str]] = Counter()
        self._next = 0.0

    def compare(self, ours: Ward, case: Case) -> Difference | None:
        """Plays a case on both nodes if it is time; returns a difference of a class that was not met yet."""
        began = time.perf_counter()
        alike = str(case.state), case.message, case.field
        if began < self._next or self._alike[alike] >= MOST_ALIKE:
            return None
        self._alike[alike] += 1
        self.compared += 1
        found = self._difference(ours, case)
        now = time.perf_counter()
        self._next = now + (now - began) * (1 / SHARE - 1)
        if found is None:
            return None
        known = *alike[:2], f"{found.ours} / {found.theirs}"
        self.counts[known] += 1
        return found if self.counts[known] == 1 else None

    def _difference(self, ours: Ward, case: Case) -> Difference | None:
        script = Script((reach(case.state, "a"), *case.steps))
        first: tuple[str, str] | None = None
        shapes = ""
        for _ in range(1 + AGAIN):
            mine = _ending(ours, script)
            # One that died here is for other oracles.
            if mine is None or mine[0] == DIED:
                return None
            theirs = _ending(self.stage, script)
            if theirs is not None and theirs[0] == DIED:
                self.stage.restart()
            if theirs is None or mine[0] == theirs[0] or first not in {None, (mine[0], theirs[0])}:
                return None
            first = mine[0], theirs[0]
            shapes = f"{mine[1]!r} from {_title(ours)}, {theirs[1]!r} from {_title(self.stage)}"
        assert first is not None
        return Difference(*first, f"two nodes answer differently: {shapes}")


def _ending(stage: Ward, script: Script) -> tuple[str, str] | None:
    """Plays a script; returns how it ended and the shape of the answers, None when its state was not reached."""
    player = stage.player()
    try:
        played: Played = player.play(script)
    finally:
        player.leave()
    if stage.node.death():
        return DIED, stage.node.death()
    return None if played.failure else (str(played.ending), played.shape)


def _title(stage: Ward) -> str:
    return f"{stage.node.impl} {stage.node.version}"
