"""Which case comes when: seeded, so that a run can be repeated, resumed, and shared between several processes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Case, Source

ENDLESS_EVERY = 8
"""While single cases are left, every so manieth one is one of those without end."""

SLICE = 16
"""So many sources have their turn side by side; with more of them no source would be seen twice for long."""


@dataclass(frozen=True, slots=True)
class Done:
    """Which cases of a campaign ran in an earlier part of a run.

    Attributes:
        upto: All up to this number.
        beyond: Single ones behind it.
    """

    upto: int = 0
    beyond: frozenset[int] = field(default_factory=frozenset)

    def __contains__(self, number: int) -> bool:
        return number <= self.upto or number in self.beyond


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
        for number, case in enumerate(self._order(), 1):
            yield Numbered(self.campaign, number, case)

    def _order(self) -> Iterator[Case]:
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


def merged(plans: Sequence[Plan], seed: int) -> Iterator[Numbered]:
    """Yields the cases of several campaigns: those that open each of them first, then by their weights."""
    rng = random.Random(f"{seed} all")
    running = {plan.campaign.name: (plan, plan.cases()) for plan in plans}
    for name in list(running):
        plan, cases = running[name]
        pairs = {(source.state, source.message) for source in plan.sources}
        yield from islice(cases, len(pairs))
    while running:
        names = list(running)
        weights = [running[name][0].campaign.weight for name in names]
        for name in rng.choices(names, weights, k=SLICE):
            if name in running:
                found = next(running[name][1], None)
                if found is None:
                    del running[name]
                else:
                    yield found


def mine(cases: Iterator[Numbered], done: dict[str, Done], job: int, jobs: int) -> Iterator[Numbered]:
    """Yields the cases that one of several processes plays and that did not run before."""
    for one in cases:
        if one.number % jobs == job and one.number not in done.get(one.campaign.name, Done()):
            yield one
