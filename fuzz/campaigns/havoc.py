"""Havoc: real messages with many small changes, and what the node's answers add to them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Case, Cause, Source
from fuzz.corpus import Corpus, Family, Seed, places
from fuzz.mutations import Mutation, Stock, mutated
from fuzz.script import SIZE, SIZE32, Do, Step, Template
from fuzz.states import State

if TYPE_CHECKING:
    from fuzz.player import Played

MOST_PLAIN = 25
"""Seeds of one source that are sent as they are, before the changes."""

FRESH = 0.25
"""Share of the mutations that begin from what was learned, as soon as there is some."""


class Havoc(Source):
    """Mutations of the seeds of one family and one kind of message.

    The same state of the generator gives the same mutations, as long as the corpus is the same: what is learned
    while a campaign runs depends on what the node answers, so that a run that learns can differ from another one of
    the same seed. Every script that is kept says which bytes were sent, whatever they began from.

    Args:
        state: Where link ``a`` is.
        family: Which seeds.
        kind: Kind of message; ``batch`` for all of the family.
        shared: What all sources of a campaign share.
        head: What stands in front of the bytes.
    """

    def __init__(self, state: State, family: Family, kind: str, shared: Shared, *head: bytes | str) -> None:
        self.name = f"havoc on {kind}"
        self.state = state
        self.message = kind
        self._family = family
        self._shared = shared
        self._head = head

    @property
    def notice(self) -> str:
        """What people should know about the seeds; empty when there is nothing to say."""
        return self._shared.corpus.notice

    @property
    def _seeds(self) -> list[Seed]:
        """Those of the kind; all of the family when there is none of it."""
        corpus = self._shared.corpus
        if self.message == "batch":
            return corpus.of(self._family)
        return corpus.of(self._family, self.message) or corpus.of(self._family)

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """Yields seeds as they are: what real nodes say, in a session of ours."""
        seeds = self._seeds
        for seed in rng.sample(seeds, min(len(seeds), MOST_PLAIN)):
            yield self._case(seed, Mutation(seed.raw, f"as in {seed.origin}", (("as it is", ""),)))

    def more(self, rng: random.Random) -> Iterator[Case]:
        """Yields mutations."""
        seeds, stock = self._seeds, self._shared.stock
        begun = len(seeds)
        while seeds:
            first = 0
            if len(seeds) > begun and rng.random() < FRESH:
                first = begun
            seed = seeds[first + int(rng.random() * (len(seeds) - first))]
            yield self._case(seed, mutated(seed, stock, rng))
            # Old ones that were learned may have been forgotten.
            begun = min(begun, len(seeds))

    def _case(self, seed: Seed, mutation: Mutation) -> Case:
        done = dict.fromkeys(mutation.done)
        # Of many changes the first ones name the case.
        fields = " + ".join([path for _, path in done if path][:2])
        return Case(
            self,
            self.message,
            fields,
            mutation.words,
            "havoc",
            tuple([Cause(self.name, path, kind) for kind, path in done]),
            plan=_Plan(mutation.raw, seed.origin),
        )

    def steps(self, case: Case) -> tuple[Step, ...]:
        """See Source."""
        plan: _Plan = case.plan
        data = Template.of(*self._head, *places(plan.raw))
        return (Step(Do.SEND, data=data, note=f"{plan.origin}: {case.mutation}"),)

    def learn(self, case: Case, played: Played) -> None:
        """See Source."""
        for seed in self._shared.corpus.learn(case, played):
            self._shared.stock.add(seed)


class _Plan(NamedTuple):
    """What the steps are made of.

    Attributes:
        raw: The bytes, stand-ins for live values in them.
        origin: Of the seed.
    """

    raw: bytes
    origin: str


class Shared:
    """What the sources of one campaign share: the corpus, read when the first case is due."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus.

        Raises:
            CorpusError: The folder of the setting holds what is no seed.
        """
        return Corpus(self._setting.corpus)

    @cached_property
    def stock(self) -> Stock:
        """What mutations take from other seeds."""
        stock = Stock()
        for family in Family:
            for seed in self.corpus.of(family):
                stock.add(seed)
        return stock


NETWORK = ("PUSH", "REQUEST", "RESPONSE", "RESPONSE_FINAL", "DECLARE", "INTEREST", "OAM")

SESSION = ("FRAME", "FRAGMENT", "KEEP_ALIVE", "CLOSE", *NETWORK)


def sources(setting: Setting) -> Iterable[Source]:
    """Yields the sources of the campaign.

    Raises:
        CorpusError: The folder of the setting holds what is no seed.
    """
    shared = Shared(setting)
    if setting.corpus is not None:
        # What cannot be read is refused before anything is played.
        shared.corpus.of(Family.SESSION)
    yield Havoc(State.CONNECTED, Family.INIT, "INIT", shared, SIZE)
    yield Havoc(State.INIT_ACKED, Family.OPEN, "OPEN", shared, SIZE)
    for kind in SESSION:
        yield Havoc(State.OPEN, Family.SESSION, kind, shared, SIZE)
    for kind in SESSION:
        yield Havoc(State.DECLARED, Family.SESSION, kind, shared, SIZE)
    for kind in ("RESPONSE", "RESPONSE_FINAL"):
        yield Havoc(State.PENDING, Family.SESSION, kind, shared, SIZE)
    yield Havoc(State.FRAGMENTING, Family.SESSION, "FRAGMENT", shared, SIZE)
    for kind in NETWORK:
        yield Havoc(State.LOW_LATENCY, Family.NETWORK, kind, shared, SIZE32)
    yield Havoc(State.COMPRESSED, Family.SESSION, "FRAME", shared, SIZE, b"\x00")
    yield Havoc(State.ACCEPTED, Family.SESSION, "FRAME", shared, SIZE)
    for kind in ("SCOUT", "HELLO"):
        yield Havoc(State.SCOUTING, Family.SCOUTING, kind, shared)
    yield Havoc(State.GROUP, Family.JOIN, "JOIN", shared)
    yield Havoc(State.JOINED, Family.SESSION, "FRAME", shared)


CAMPAIGN = Campaign(
    "havoc",
    "many small changes to messages of real nodes, from a corpus that grows with every new kind of answer",
    sources,
)
