"""Which case comes when: seeded, so that a run can be repeated, resumed, and shared between several processes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice

from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Case, Edge, Source
from fuzz.states import FACTS

ENDLESS_EVERY = 8
"""While single cases are left, every so manieth one is one of those without end."""

SLICE = 16
"""So many sources have their turn side by side; with more of them no source would be seen twice for long."""


SWEEP = 8
"""Behind each case that comes by weight stand so many of lies that were not tried anywhere, while there are such.

Those are quick: so many take about the time of the one before them.
"""

VARIANT_EVERY = 8
"""Every so manieth of them is a variant of a sequence while there are lies about fields: it takes five to seven times as long."""


@dataclass(frozen=True, slots=True)
class Done:
    """Which cases of a campaign ran in an earlier part of a run.

    Attributes:
        upto: All up to this number.
        beyond: Single ones behind it.
        postponed: Single ones up to it that did not run after all.
    """

    upto: int = 0
    beyond: frozenset[int] = field(default_factory=frozenset)
    postponed: frozenset[int] = field(default_factory=frozenset)

    def __contains__(self, number: int) -> bool:
        return (number <= self.upto and number not in self.postponed) or number in self.beyond


@dataclass(frozen=True, slots=True)
class Numbered:
    """A case with its number.

    Attributes:
        campaign: Where it belongs.
        number: Counts the cases of the campaign, from 1; those that are left out count too.
        case: The case.
    """

    campaign: Campaign
    number: int
    case: Case


class Plan:
    """All cases of one campaign, numbered.

    First each pair (state, message) once, then every single case round by round, with cases without end strewn
    in, then those alone.

    Args:
        campaign: The campaign.
        setting: What its sources may depend on.

    Attributes:
        sources: Of the campaign.
    """

    def __init__(self, campaign: Campaign, setting: Setting) -> None:
        self.campaign = campaign
        self.sources: list[Source] = list(campaign.make(setting))
        self._seed = f"{setting.seed} {campaign.name}"

    def cases(self) -> Iterator[Numbered]:
        """Yields the cases in order."""
        for number, case in enumerate(self.order(), 1):
            yield Numbered(self.campaign, number, case)

    def order(self) -> Iterator[Case]:
        """Yields the cases without their numbers."""
        rng = random.Random(self._seed)
        # Each source draws from a generator of its own: one that has changed leaves the others as they are.
        seeds = {id(source): rng.getrandbits(64) for source in self.sources}
        singles = {id(source): source.cases(random.Random(seeds[id(source)])) for source in self.sources}
        order = rng.sample(self.sources, len(self.sources))
        first: list[Source] = []
        seen: set[tuple[str, str]] = set()
        for source in order:
            pair = source.state, source.message
            if pair not in seen:
                seen.add(pair)
                first.append(source)
        for source in first:
            yield from islice(singles[id(source)], 1)
        endless = _endless(order, rng)
        turns = _turns([singles[id(source)] for source in order])
        for index, case in enumerate(turns, 1):
            yield case
            if index % ENDLESS_EVERY == 0:
                yield from islice(endless, 1)
        yield from endless


def _turns(iterators: Sequence[Iterator[Case]]) -> Iterator[Case]:
    """Yields from all iterators by turns, until all are spent."""
    left = list(iterators)
    while left:
        alive = []
        for one in left:
            case = next(one, None)
            if case is not None:
                alive.append(one)
                yield case
        left = alive


def _endless(sources: Sequence[Source], rng: random.Random) -> Iterator[Case]:
    """Yields cases without end from sources that have such, by turns; nothing when none has."""
    left = [source.more(random.Random(rng.getrandbits(64))) for source in sources]
    while left:
        alive = []
        for one in left:
            case = next(one, None)
            if case is not None:
                alive.append(one)
                yield case
        left = alive


_Lateness = tuple[bool, str, bool]
"""Whether a campaign repeats what others send, what a state needs, whether each case needs a link of its own."""


class _Turns:
    """Sources of the sweep, some side by side, those first that are quickly played.

    Args:
        sources: In order.
        seeds: Of their generators, by source.
        seen: Lies that were seen by now; that grows meanwhile.
    """

    def __init__(
        self, sources: Iterable[tuple[Plan, Source]], seeds: Mapping[int, int], seen: set[Edge]
    ) -> None:
        self._ahead = deque(sources)
        self._seeds = seeds
        self._seen = seen
        self._turns: deque[tuple[Plan, Iterator[Case]]] = deque()
        self._now: _Lateness = False, "", False

    def next(self) -> tuple[Plan, Case] | None:
        """Returns a case that tries something new; None when none was found at once, or there is none any more."""
        if self._ahead and len(self._turns) < SLICE and self._may_begin(_lateness(self._ahead[0])):
            plan, source = self._ahead.popleft()
            if not self._seen.issuperset(source.edges()):
                rng = random.Random(self._seeds[id(source)])
                self._turns.append((plan, source.unseen(rng, self._seen)))
        if not self._turns:
            return None
        plan, cases = self._turns.popleft()
        case = next(cases, None)
        if case is None:
            return None
        self._turns.append((plan, cases))
        return plan, case

    def _may_begin(self, lateness: _Lateness) -> bool:
        """Tells whether sources of some lateness may have their turns: those before them have had theirs."""
        if self._turns and lateness != self._now:
            return False
        self._now = lateness
        return True


class _Sweep:
    """What was not tried yet, each once, whatever the state: lies about fields, and now and then a variant of a sequence.

    A lie is known by what coverage counts. Which state it is tried in first is that of the campaign that is about
    its message; campaigns that send what others send come behind all others.

    Args:
        plans: Whose lies.
        seed: Of the run.
    """

    def __init__(self, plans: Sequence[Plan], seed: int) -> None:
        rng = random.Random(f"{seed} sweep")
        self._seen: set[Edge] = set()
        self._taken: set[tuple[int, tuple[Edge, ...]]] = set()
        sources = [(plan, source) for plan in plans for source in plan.sources]
        ahead = sorted(rng.sample(sources, len(sources)), key=_lateness)
        seeds = {id(source): rng.getrandbits(64) for _, source in sources}
        self._lies, self._variants = (
            _Turns([one for one in ahead if one[1].sequence is sequence], seeds, self._seen)
            for sequence in (False, True)
        )
        self._calls = 0

    def note(self, case: Case) -> bool:
        """Takes in a case that comes by its plan; tells whether it is still to be played."""
        key = id(case.source), case.edges
        if key in self._taken:
            self._taken.remove(key)
            return False
        self._seen.update(case.edges)
        return True

    def next(self) -> tuple[Plan, Case] | None:
        """Returns a case that tries something new; None when none was found at once, or there is none any more."""
        self._calls += 1
        turns = [self._lies, self._variants]
        if self._calls % VARIANT_EVERY == 0:
            turns.reverse()
        new = turns[0].next() or turns[1].next()
        if new is not None:
            _, case = new
            self._seen.update(case.edges)
            self._taken.add((id(case.source), case.edges))
        return new


def _lateness(planned: tuple[Plan, Source]) -> _Lateness:
    plan, source = planned
    facts = FACTS[source.state]
    return plan.campaign.repeats, facts.needs, not facts.shared


def merged(plans: Sequence[Plan], seed: int) -> Iterator[Numbered]:
    """Yields the cases of several campaigns: those that open each of them, then by their weights.

    Strewn in is what tries each lie once, so that all were tried long before each was tried in every state.
    """
    rng = random.Random(f"{seed} all")
    sweep = _Sweep(plans, seed)
    numbers = {plan.campaign.name: count(1) for plan in plans}
    running = {plan.campaign.name: (plan, _left(plan, sweep)) for plan in plans}

    def numbered(plan: Plan, case: Case) -> Numbered:
        return Numbered(plan.campaign, next(numbers[plan.campaign.name]), case)

    for plan, cases in running.values():
        pairs = {(source.state, source.message) for source in plan.sources}
        for case in islice(cases, len(pairs)):
            yield numbered(plan, case)
    while running:
        names = list(running)
        weights = [running[name][0].campaign.weight for name in names]
        for name in rng.choices(names, weights, k=SLICE):
            if name not in running:
                continue
            plan, cases = running[name]
            found = next(cases, None)
            if found is None:
                del running[name]
                continue
            yield numbered(plan, found)
            for _ in range(SWEEP):
                new = sweep.next()
                if new is not None:
                    yield numbered(*new)


def _left(plan: Plan, sweep: _Sweep) -> Iterator[Case]:
    """Yields the cases of a plan that did not come before their time."""
    return (case for case in plan.order() if sweep.note(case))


def mine(cases: Iterator[Numbered], done: dict[str, Done], job: int, jobs: int) -> Iterator[Numbered]:
    """Yields the cases that one of several processes plays and that did not run before."""
    for one in cases:
        if one.number % jobs == job and one.number not in done.get(one.campaign.name, Done()):
            yield one
