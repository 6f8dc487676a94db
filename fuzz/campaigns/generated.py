"""Sequences of messages drawn by Hypothesis, valid and with lies, about few keys and ids so that they concern each other.

What is drawn is taken as bytes and put together here: Hypothesis would draw some hundred sequences a second, a
campaign plays thousands. For the same reason its shrinking is not used on nodes. It needs hundreds of replays, each
on a fresh node, where delta debugging of the script needs some ten; and it can shrink only what it has drawn itself,
while a finding is any script. Where a replay costs microseconds, in our own readers, the strategies shrink in the
tests of those (``tests/agreement``).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Case, Cause, Source
from fuzz.script import SIZE, SIZE32, Do, Step, Template
from fuzz.states import State
from scapy_layers.codes import Kind
from scapy_layers.derive.strategies import Lie, examples
from scapy_layers.transport import Frame

EACH = 48
"""So many messages are drawn at once: it takes some tenths of a second."""

CHUNKS = 24
"""So many times are messages of a layer drawn in a run at most, only when they are due; the sources share them."""

CASES = 80
"""A source takes other messages after so many cases."""

SINGLES = 12
"""Cases of each source that come before those without end."""

LONGEST = 6
"""Messages of a sequence at most."""

LIES = 0.4
"""Share of the messages that lie; with most sequences all wrong, nothing would be reached behind the first."""

FEW: dict[str, Sequence[Any]] = {
    "key_suffix": ["", "fuzz/g", "fuzz/g/a", "fuzz/*", "fuzz/**", "**", "fuzz/g/$*", "@/g"],
    "key_scope": [0, 0, 1, 2, 3],
    "key_id": [1, 2, 3],
    "entity_id": [1, 2, 3, 4],
    "request_id": [1, 2, 3, 4],
    "interest_id": [1, 2, 3],
}
"""What messages are about."""

RELIABLE, BEST_EFFORT = bytes(Frame(R=1, sn=0))[:1], bytes(Frame(R=0, sn=0))[:1]


class Generated(Source):
    """Sequences of messages of one layer in one state.

    Args:
        seed: Of the run.
        state: Where link ``a`` is.
        kind: Layer of the messages.
        message: Kind of message, for coverage.
        longest: Messages of a sequence at most.
        head: What stands in front of each message.
    """

    sequence = True

    def __init__(
        self, seed: int, state: State, kind: Kind, message: str, longest: int, *head: bytes | str
    ) -> None:
        self.name = f"generated {message}"
        self.state = state
        self.message = message
        self._seed = seed
        self._kind = kind
        self._longest = longest
        self._head = head

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """Yields some sequences."""
        drawn = self._draw(0)
        for _ in range(SINGLES):
            yield self._case(drawn, rng)

    def more(self, rng: random.Random) -> Iterator[Case]:
        """Yields sequences; every now and then of other messages."""
        for number in itertools.count():
            drawn = self._draw(number)
            for _ in range(CASES):
                yield self._case(drawn, rng)

    def _draw(self, number: int) -> Drawn:
        return _drawn(self._kind, self._seed * CHUNKS + number % CHUNKS)

    def _case(self, drawn: Drawn, rng: random.Random) -> Case:
        chosen = [
            rng.choice(drawn.lies if rng.random() < LIES else drawn.valid)
            for _ in range(1 + int(rng.random() * self._longest))
        ]
        told = [one.what for one in chosen if one.what]
        # All in one frame, or each in its own.
        together = len(chosen) > 1 and rng.random() < 0.3
        plan = _Plan(tuple(chosen), together, rng.random() < 0.8)
        words = (
            f"{len(chosen)} messages{' in one frame' if together else ''}; {'; '.join(told) or 'all valid'}"
        )
        # Which message of a sequence did it is not known before it is made smaller.
        causes = (Cause(self.name, "", f"{told[0] if told else 'valid'}, {len(chosen)}"),)
        return Case(self, self.message, "", words, "generated", causes, plan=plan)

    def steps(self, case: Case) -> tuple[Step, ...]:
        """See Source."""
        plan: _Plan = case.plan
        raws = [one.raw for one in plan.messages]
        if plan.together and self._kind is Kind.NETWORK:
            raws = [b"".join(raws)]
        return tuple(
            Step(Do.SEND, data=Template.of(*self._head, *self._around(plan), raw), note=case.mutation)
            for raw in raws
        )

    def _around(self, plan: _Plan) -> tuple[bytes | str, ...]:
        if self._kind is not Kind.NETWORK or self.state is State.LOW_LATENCY:
            return ()
        return (RELIABLE, "sn") if plan.reliable else (BEST_EFFORT, "sn_be")


class Drawn(NamedTuple):
    """Some messages of one layer.

    Attributes:
        valid: Right ones.
        lies: Each with one thing wrong.
    """

    valid: list[Lie]
    lies: list[Lie]


@lru_cache(maxsize=4 * CHUNKS)
def _drawn(kind: Kind, number: int) -> Drawn:
    drawn = examples(kind, EACH, number, FEW)
    return Drawn([one for one in drawn if not one.what], [one for one in drawn if one.what])


class _Plan(NamedTuple):
    """What the steps are made of.

    Attributes:
        messages: In order.
        together: In one frame.
        reliable: On which lane.
    """

    messages: tuple[Lie, ...]
    together: bool
    reliable: bool


def sources(setting: Setting) -> Iterable[Source]:
    """Yields the sources of the campaign."""
    yield Generated(setting.seed, State.CONNECTED, Kind.TRANSPORT, "INIT", 2, SIZE)
    yield Generated(setting.seed, State.INIT_ACKED, Kind.TRANSPORT, "OPEN", 2, SIZE)
    for state in (State.OPEN, State.DECLARED, State.PENDING, State.ACCEPTED):
        yield Generated(setting.seed, state, Kind.NETWORK, "FRAME", LONGEST, SIZE)
    yield Generated(setting.seed, State.LOW_LATENCY, Kind.NETWORK, "PUSH", LONGEST, SIZE32)
    yield Generated(setting.seed, State.COMPRESSED, Kind.NETWORK, "FRAME", LONGEST, SIZE, b"\x00")
    yield Generated(setting.seed, State.JOINED, Kind.NETWORK, "FRAME", LONGEST)
    yield Generated(setting.seed, State.SCOUTING, Kind.SCOUTING, "SCOUT", 2)


CAMPAIGN = Campaign(
    "generated",
    "sequences of messages about a few shared keys and ids, generated from the protocol description, with mutations",
    sources,
)
