"""The cases of a campaign and their order: a seeded shuffle that soon touches every message and field."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from boofuzz import Request

from fuzz.campaigns import Stimulus
from scapy_layers.derive.requests import Block, Leaf, Lie, field_of, request_of


@dataclass(frozen=True, slots=True)
class Lying:
    """One lie about one field.

    Attributes:
        field: Path of the field.
        message: The innermost message it belongs to.
        lie: What is done.
        mutations: As boofuzz has it: the lie, and in front of it what shows a hidden field.
    """

    field: str
    message: str
    lie: Lie
    mutations: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One stimulus that is to be sent.

    Attributes:
        stimulus: The valid message.
        request: Its request.
        lies: One, later two.
    """

    stimulus: Stimulus
    request: Request
    lies: tuple[Lying, ...]

    @property
    def field(self) -> str:
        """Path of the mutated field, or of both."""
        return " + ".join(lying.field for lying in self.lies)

    @property
    def mutation(self) -> str:
        """What is done, one line."""
        return " + ".join(lying.lie.words for lying in self.lies)

    @property
    def message(self) -> str:
        """The innermost message that is mutated first; for the whole batch the message in it."""
        message = self.lies[0].message
        return str(self.stimulus.message.name) if message == "batch" else message

    @property
    def kinds(self) -> tuple[tuple[str, str, str], ...]:
        """What is masked when it harms again and again: stimulus, field and kind of each lie."""
        return tuple((self.stimulus.name, lying.field, lying.lie.kind) for lying in self.lies)

    @property
    def mutations(self) -> dict[str, Any]:
        """All mutations by the name boofuzz knows the element by."""
        return {mutation.qualified_name: mutation for lying in self.lies for mutation in lying.mutations}


class Plan:
    """All cases of a campaign.

    Args:
        stimuli: The valid messages.
        rng: Decides the order; the same generator state gives the same order.
    """

    def __init__(self, stimuli: Sequence[Stimulus], rng: random.Random) -> None:
        self._rng = rng
        self.requests = [
            (
                stimulus,
                request_of(
                    f"{stimulus.state} {stimulus.name}",
                    stimulus.message,
                    live=stimulus.live,
                    quiet=stimulus.quiet,
                ),
            )
            for stimulus in stimuli
        ]
        self._fields = [_by_field(stimulus, request) for stimulus, request in self.requests]

    @property
    def fields(self) -> int:
        """How many fields are mutated."""
        return sum(map(len, self._fields))

    @property
    def singles(self) -> int:
        """How many cases have one lie."""
        return sum(len(cases) for fields in self._fields for cases in fields)

    def cases(self) -> Iterator[Case]:
        """Yields every case with one lie, then cases with two without end.

        Goes round by round: in each, every field has its turn with one lie, the messages by turns.
        """
        rng = self._rng
        order = [
            [rng.sample(cases, len(cases)) for cases in rng.sample(fields, len(fields))]
            for fields in self._fields
        ]
        depth = 0
        while turns := [[cases[depth] for cases in fields if depth < len(cases)] for fields in order]:
            if not any(turns):
                break
            for index in range(max(map(len, turns))):
                for turn in rng.sample(turns, len(turns)):
                    if index < len(turn):
                        yield turn[index]
            depth += 1
        while True:
            yield self._pair()

    def _pair(self) -> Case:
        """Returns two lies about different elements of one message."""
        while True:
            fields = self._rng.choice(self._fields)
            first, second = (self._rng.choice(self._rng.choice(fields)) for _ in range(2))
            if not first.mutations.keys() & second.mutations.keys():
                return Case(first.stimulus, first.request, (*first.lies, *second.lies))


def _by_field(stimulus: Stimulus, request: Request) -> list[list[Case]]:
    """Returns all cases with one lie, grouped by the field they are about."""
    fields: dict[str, list[Case]] = {}
    for mutations in request.get_mutations():
        element: Leaf | Block = request.names[mutations[-1].qualified_name]
        lie: Lie = mutations[-1].value
        path = field_of(element, lie)
        case = Case(stimulus, request, (Lying(path, element.place.message, lie, tuple(mutations)),))
        fields.setdefault(path, []).append(case)
    return list(fields.values())
