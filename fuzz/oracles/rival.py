"""The same case on another node: another version, or another implementation."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from conformance.nodes.base import Node
from fuzz.cases import Case, reach
from fuzz.compared import Class, Compared, Field
from fuzz.oracles.ward import Ward
from fuzz.player import Ending, Played
from fuzz.script import Script
from scapy_layers.codes import CloseReason

SHARE = 0.5
"""Of the time, comparing takes so much: it was asked for, and most campaigns have more fields than there is time for."""

MOST_ALIKE = 3
"""So many cases about one field of one message in one state are compared; all fields have one before any has two."""

AGAIN = 2
"""So often a difference must show again on fresh links."""

DIED = "died"

UNKNOWN = "unknown"
"""Implementation of a node of which nobody knows what it is."""

OURS, THEIRS = "the node under test", "the node of --also"
"""What is said of them where they have no names of their own."""


class _Answer(NamedTuple):
    """What became of a case on one node.

    Attributes:
        ending: How it ended, or ``died``.
        shape: What came back, for people.
        reason: Of the CLOSE in it; None without one.
    """

    ending: str
    shape: str
    reason: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Two nodes that answer one case differently.

    Attributes:
        case: The case; not always the one that was played last.
        ours: What became of it on the node under test: an ending, with the reason of a CLOSE where only that differs,
            or ``died``.
        theirs: The same on the other.
        detail: One line for people.
    """

    case: Case
    ours: str
    theirs: str
    detail: str


class Rival:
    """Another node that the same cases are played on, as many as there is time for.

    A case of each field waits until it is its turn: those of fields that were compared least, and of them those that
    were answered at once.

    Args:
        stage: The other node; started.

    Attributes:
        counts: How often each class of differences was met.
        compared: How many cases were played on both.
    """

    def __init__(self, stage: Ward) -> None:
        self.stage = stage
        self.counts: Counter[Class] = Counter()
        self.compared = 0
        self._met: set[Field] = set()
        self._alike: Counter[Field] = Counter()
        self._waiting: dict[Field, tuple[bool, Case]] = {}
        self._next = 0.0

    def compare(self, ours: Ward, case: Case, *, silent: bool = False) -> Difference | None:
        """Takes in a case, and plays one on both nodes if it is time.

        Args:
            ours: The node under test.
            case: What was just played on it.
            silent: It was not answered: comparing it takes long.

        Returns:
            A difference of a class that was not met yet.
        """
        if len(case.causes) == 1:
            self._met.add(field_of(case))
        if self.wants(case, silent=silent):
            self._waiting[field_of(case)] = silent, case
        began = time.perf_counter()
        if began < self._next or not self._waiting:
            return None
        chosen = min(self._waiting, key=lambda one: (self._alike[one], self._waiting[one][0]))
        _, case = self._waiting.pop(chosen)
        self._alike[chosen] += 1
        self.compared += 1
        found = self._difference(ours, case)
        now = time.perf_counter()
        self._next = now + (now - began) * (1 / SHARE - 1)
        if found is None:
            return None
        known = *chosen[:2], f"{found.ours} / {found.theirs}"
        self.counts[known] += 1
        return found if self.counts[known] == 1 else None

    def wants(self, case: Case, *, silent: bool = False) -> bool:
        """Tells whether a case is to wait for its turn: none of its field does, or one that takes longer.

        One about several fields at once does where nothing else waits: there is no end of them.
        """
        if len(case.causes) > 1:
            return not self._waiting and not self._alike[field_of(case)]
        there = self._waiting.get(field_of(case))
        if there is None:
            return self._alike[field_of(case)] < MOST_ALIKE
        return there[0] and not silent

    def waits(self, case: Case) -> bool:
        """Tells whether a case waits for its turn."""
        there = self._waiting.get(field_of(case))
        return there is not None and there[1] is case

    @property
    def waiting(self) -> int:
        """How many cases wait for their turn."""
        return len(self._waiting)

    def so_far(self) -> Compared:
        """Returns how much was compared, and what came out."""
        done = {field for field, count in self._alike.items() if count}
        title = _title(self.stage.node, THEIRS)
        return Compared(title, set(self._met), done, self.compared, set(self.counts))

    def _difference(self, ours: Ward, case: Case) -> Difference | None:
        script = Script((reach(case.state, "a"), *case.steps))
        first: tuple[str, str] | None = None
        shapes = ""
        for _ in range(1 + AGAIN):
            # What a node reads in a stimulus may hang on the ZenohID in it: both get the same.
            seed = random.getrandbits(64)
            mine = _of(ours.node, _played(ours, script, seed))
            # One that died here is for other oracles.
            if mine is None or mine.ending == DIED:
                return None
            theirs = _of(self.stage.node, _played(self.stage, script, seed))
            if theirs is not None and theirs.ending == DIED:
                self.stage.restart()
            words = _words(ours.node, mine, self.stage.node, theirs) if theirs is not None else None
            if theirs is None or words is None or first not in {None, words}:
                return None
            first = words
            shapes = _shapes(ours.node, mine, self.stage.node, theirs)
        assert first is not None
        return Difference(case, *first, shapes)


def field_of(case: Case) -> Field:
    """Returns what a case compares."""
    return str(case.state), case.message, case.field


def _words(ours: Node, mine: _Answer, other: Node, theirs: _Answer) -> tuple[str, str] | None:
    """Returns what differs between two answers; None when they are alike.

    What else is in them is free to each node: extensions, what it declares by itself, how it fills its batches. So is
    what its links cannot show: one of datagrams has no end.
    """
    if mine.ending != theirs.ending:
        endless = {mine.ending, theirs.ending} == {str(Ending.SILENT), str(Ending.REFUSED)}
        if endless and _of_datagrams(ours) != _of_datagrams(other):
            return None
        return mine.ending, theirs.ending
    # One whose CLOSE was lost with the link said one all the same.
    if mine.reason is None or theirs.reason is None or mine.reason == theirs.reason:
        return None
    return f"{mine.ending} {_reason(mine.reason)}", f"{theirs.ending} {_reason(theirs.reason)}"


def _reason(reason: int) -> str:
    return CloseReason(reason).name if reason in set(CloseReason) else str(reason)


def difference(ours: Node, mine: Played, theirs: Node, their: Played) -> tuple[str, str] | None:
    """Returns how two nodes answered one script differently, as place and detail of an objection; None when alike.

    Args:
        ours: The node under test, on which it was just played.
        mine: What became of it there.
        theirs: The other node.
        their: What became of it there.
    """
    answer, other = _of(ours, mine), _of(theirs, their)
    if answer is None or other is None or answer.ending == DIED:
        return None
    words = _words(ours, answer, theirs, other)
    return (" / ".join(words), _shapes(ours, answer, theirs, other)) if words is not None else None


def _played(stage: Ward, script: Script, seed: int) -> Played:
    player = stage.player(random.Random(seed))
    try:
        return player.play(script)
    finally:
        player.leave()


def _of(node: Node, played: Played) -> _Answer | None:
    """Returns what became of a script; None when its state was not reached."""
    if node.death():
        return _Answer(DIED, node.death())
    if played.failure:
        return None
    reason = next((answer.close for answer in played.answers if answer.close is not None), None)
    return _Answer(str(played.ending), played.shape, reason)


def _of_datagrams(node: Node) -> bool:
    return node.listens and node.locator.proto == "udp"


def _shapes(ours: Node, mine: _Answer, theirs: Node, their: _Answer) -> str:
    one, other = _title(ours, OURS), _title(theirs, THEIRS)
    if one == other:
        # Two of one release, with other settings.
        one, other = OURS, THEIRS
    return f"two nodes answer differently: {mine.shape!r} from {one}, {their.shape!r} from {other}"


def _title(node: Node, nameless: str) -> str:
    """Returns what a node is called, or what is said of one of which nobody knows what it is."""
    return nameless if node.impl in {"", UNKNOWN} else f"{node.impl} {node.version}"
