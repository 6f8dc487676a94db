"""Cases that are not played, because what they do is known by now and restarts would eat the time of the campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

from fuzz.cases import Case, Cause
from fuzz.findings import CERTAIN, CONFIRMED, Finding
from fuzz.kinship import phase_of
from fuzz.oracles import DEADLY
from fuzz.states import State

HITS = 3
"""After so many hits of a bucket, what hits it is left out."""

HITS_FLAKY = 12
"""The same for a bucket that nobody could confirm: what happens rarely is worth more tries."""

WIDE = 4
"""When so many causes of one kind hit a bucket, all of that kind are left out but for a sample."""

SAMPLE = 64
"""Of what is left out because it is like something that harms, every so manieth case is played all the same."""


COMMON = frozenset({"batch", "mid", "Z", "M", "header", "ENC", "ext_id", "extensions", "length", "count"})
"""Parts that all messages or extensions have, or many: they are the same field in name only."""


class Kind(NamedTuple):
    """What causes have in common.

    Attributes:
        cause: The cause with a wild card.
        phase: The part of a conversation in which that is; empty for a source, which is in one anyway.
    """

    cause: Cause
    phase: str = ""


class Counting(Protocol):
    """What cases are left out for.

    Attributes:
        masked: How many that were.
    """

    masked: int


class LeftOut:
    """Says which cases to leave out.

    Args:
        through_known: Cases that bring about known findings are played all the same.

    Attributes:
        masked: Cases left out, by what they are left out for.
    """

    def __init__(self, *, through_known: bool) -> None:
        self._through_known = through_known
        self.masked: Counter[Cause] = Counter()
        self._held: dict[Cause, Counting] = {}
        self._mask: dict[Cause, Finding] = {}
        self._wide: dict[Kind, Finding] = {}
        self._samples: Counter[Kind] = Counter()

    def hold(self, causes: Iterable[Cause], one: Counting) -> None:
        """Leaves out what may have done it, while somebody looks into that."""
        self._held.update(dict.fromkeys(causes, one))

    def release(self, causes: Iterable[Cause]) -> None:
        """Somebody has looked into it."""
        for cause in causes:
            self._held.pop(cause, None)

    def learn(self, finding: Finding) -> None:
        """Leaves out what hits a bucket, if it was hit often enough."""
        most = HITS if finding.status == CONFIRMED or finding.known or finding.harm in CERTAIN else HITS_FLAKY
        if finding.before + finding.hits >= most and not (finding.known and self._through_known):
            self._mask |= dict.fromkeys(finding.causes, finding)
            phases = {phase_of(State(state)) for state in finding.states}
            alike = Counter(kind for cause in finding.causes for kind in _kinds(cause, phases))
            self._wide |= {kind: finding for kind, count in alike.items() if count >= WIDE}

    def move(self, gone: Finding, kept: Finding) -> None:
        """Leaves out for one finding what was left out for another."""
        self._mask |= {cause: kept for cause, one in self._mask.items() if one is gone}
        self._wide |= {kind: kept for kind, one in self._wide.items() if one is gone}

    def takes(self, case: Case) -> bool:
        """Tells whether a case is left out, and counts it."""
        for cause in case.causes:
            held = self._held.get(cause)
            if held is not None:
                held.masked += 1
                return True
            finding, kind = self._reason(cause, case.state)
            if finding is not None and kind is not None:
                self._samples[kind] += 1
                if self._samples[kind] % SAMPLE == 0:
                    return False
            if finding is not None:
                finding.masked += 1
                self.masked[cause] += 1
                return True
        return False

    def is_told_apart(self, case: Case) -> bool:
        """Tells whether what a case is left out for says by itself which fault it is: the place at which a process failed.

        Then there is nothing to look into when it is met again, and another place is another fault.
        """
        if not self._mask:
            return False
        found = [finding for cause in case.causes if (finding := self._reason(cause, case.state)[0])]
        held = any(cause in self._held for cause in case.causes)
        return bool(found) and not held and all(map(_is_placed, found))

    def _reason(self, cause: Cause, state: State) -> tuple[Finding | None, Kind | None]:
        """Returns what a cause is left out for, and the kind of causes if it is left out for what others of it did."""
        if cause in self._mask:
            return self._mask[cause], None
        if not self._wide:
            return None, None
        kind = next((kind for kind in _kinds(cause, [phase_of(state)]) if kind in self._wide), None)
        return (None, None) if kind is None else (self._wide[kind], kind)


def _is_placed(finding: Finding) -> bool:
    return finding.harm in DEADLY and bool(finding.place) and finding.status == CONFIRMED


def _kinds(cause: Cause, phases: Collection[str]) -> Iterator[Kind]:
    """Yields what a cause is one of: the same kind of lie anywhere in its source; about the same field anywhere in a phase."""
    yield Kind(Cause(cause.source, "*", cause.kind))
    tail = cause.field.rpartition(".")[2]
    if tail and tail not in COMMON:
        for phase in phases:
            yield Kind(Cause("*", tail, cause.kind), phase)
