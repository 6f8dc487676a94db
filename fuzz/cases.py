"""A case, and where cases come from."""

from __future__ import annotations

import dataclasses
import random
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fuzz.script import Do, Step, Template
from fuzz.states import State

if TYPE_CHECKING:
    from boofuzz import Request

    from fuzz.player import Played


class Cause(NamedTuple):
    """What a finding is laid on, and what is left out when it hides others.

    Attributes:
        source: Name of the source.
        field: Path of the field; empty when the whole is meant.
        kind: Kind of the lie, or what is done.
    """

    source: str
    field: str
    kind: str


VALID = "valid"
"""The edge of a message that is sent as it should be."""


THEN = "behind"
"""Field of the edges that pairs of messages cover, ``Edge(second, THEN, first)``; and what stands between them in the
words of the cases that do."""


class Edge(NamedTuple):
    """One way to lie about one field, or one variant of a sequence: what coverage counts.

    Attributes:
        message: Innermost message.
        field: Path of the field, of the message or of the batch around it, or what the sequence is called.
        edge: What is done, in words without live values.
    """

    message: str
    field: str
    edge: str

    @property
    def of_field(self) -> bool:
        """It is about a field, or a message that is sent as it should be."""
        if not self.field:
            return self.edge == VALID
        return self.field.partition(".")[0] in {in_paths(self.message), "batch"}


def in_paths(kind: str) -> str:
    """Returns a kind of message as paths of fields call it: without the layer that tells two of one name apart."""
    return kind.partition(" (")[0]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One stimulus that is to be played.

    Attributes:
        source: Where it comes from.
        message: The message that is lied about, the innermost; ``batch`` for bytes that are none.
        field: Path of the field, or of both; empty when no field is meant.
        mutation: What is done, one line.
        strategy: A word for the kind of lie, for tables: ``edge``, ``length``, ``havoc``, ``order``.
        causes: What it is laid on when it harms.
        edges: What it covers.
        alone: It needs links of its own, which end with it.
        plan: What ``source.steps`` needs to make the steps.
        request: For boofuzz: the request, and its mutations by the name boofuzz knows the element by.
    """

    source: Source
    message: str
    field: str
    mutation: str
    strategy: str
    causes: tuple[Cause, ...]
    edges: tuple[Edge, ...] = ()
    alone: bool = False
    plan: Any = None
    request: Request | None = None
    mutations: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def state(self) -> State:
        """Where link ``a`` is when the first step is played."""
        return self.source.state

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is played; link ``a`` is in its state by then. Made anew each time."""
        return self.source.steps(self)


class Source(ABC):
    """Cases about one thing in one state.

    Attributes:
        name: Unique in its campaign; stable from version to version, findings name it.
        state: Where link ``a`` is.
        message: Kind of message, as the catalogue calls it: the pair (state, message) is what coverage counts.
        sequence: The order of things is what is tried, not their fields.
        all_valid: All that its cases send is as it should be: the node has no reason to end a session of theirs.
    """

    name: str
    state: State
    message: str
    sequence: bool = False
    all_valid: bool = False

    @abstractmethod
    def cases(self, rng: random.Random) -> Iterator[Case]:
        """Yields every single case once; what differs most from the others comes first.

        The same state of the generator gives the same cases in the same order.
        """

    def unseen(self, rng: random.Random, seen: Container[Edge]) -> Iterator[Case]:
        """Yields those of ``cases`` that cover something else than what was seen by then; that may grow meanwhile."""
        return (case for case in self.cases(rng) if not all(edge in seen for edge in case.edges))

    def more(self, rng: random.Random) -> Iterator[Case]:  # noqa: ARG002  (sources that end have no more)
        """Yields cases without end, behind the single ones; nothing when there are no more."""
        yield from ()

    @abstractmethod
    def steps(self, case: Case) -> tuple[Step, ...]:
        """Returns what is played for one of its cases."""

    def edges(self) -> Iterable[Edge]:
        """Returns what its cases cover, for the denominator."""
        return ()

    def learn(self, case: Case, played: Played) -> None:  # noqa: B027  (most learn nothing)
        """Is told of a case whose answer had a shape that was never seen before."""


def send(*pieces: bytes | str, link: str = "a", note: str = "", times: int = 1) -> Step:
    """Returns the step that sends bytes, with places for live values. See ``script.Template``."""
    return Step(Do.SEND, link, data=Template.of(*pieces), note=note, times=times)


def reach(state: State, link: str) -> Step:
    """Returns the step that brings a new link into a state."""
    return Step(Do.REACH, link, state)


class Fixed(Source):
    """A list of cases that were written down.

    Args:
        name: Unique in its campaign.
        state: Where link ``a`` is.
        message: Kind of message.
        variants: By words: what is played.
        strategy: For tables.
        alone: The cases need links of their own.
    """

    sequence = True

    def __init__(
        self,
        name: str,
        state: State,
        message: str,
        variants: Mapping[str, Sequence[Step]],
        strategy: str,
        *,
        alone: bool = True,
    ) -> None:
        self.name, self.state, self.message = name, state, message
        self._variants = {words: tuple(steps) for words, steps in variants.items()}
        self._strategy = strategy
        self._alone = alone

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """See Source."""
        for words in rng.sample(sorted(self._variants), len(self._variants)):
            yield Case(
                self,
                self.message,
                "",
                words,
                self._strategy,
                (Cause(self.name, "", words),),
                (Edge(self.message, "", words),),
                self._alone,
                words,
            )

    def steps(self, case: Case) -> tuple[Step, ...]:
        """See Source."""
        return self._variants[case.plan]

    def edges(self) -> Iterable[Edge]:
        """See Source."""
        return [Edge(self.message, "", words) for words in self._variants]
