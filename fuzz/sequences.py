"""Operators on lists of steps: what can be done to the order and the number of things.

A scenario is a valid exchange. An operator lists every single way to spoil its order; ``mixed`` draws from all of
them and combines. Steps stay plain data, so that a finding can be replayed and made smaller.

Neighbours that belong together move together: what is sent, and the wait for its answer.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

from fuzz.cases import Case, Cause, Edge, Source, reach
from fuzz.phrases import closing, together
from fuzz.player.pipe import FIRST_SN
from fuzz.script import SIZE, Do, Step, Template
from fuzz.states import State
from scapy_layers.primitives import write_vle

MOST_STEPS = 400
"""Longer combinations are not played: they take long, and what they show, shorter ones show too."""

MOST_SENDS = 2000
"""Nor those with more messages."""

OFTEN = 50
"""So many times is many for a message that should come once."""

STRANGER = "z"
"""The link that an operator brings along."""

_LINK = re.compile(r"@(\w+)")

Act = tuple[Step, ...]
"""Steps that move together."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A valid exchange.

    Attributes:
        name: Unique; stable from version to version.
        message: The kind of message it is about.
        state: Where link ``a`` is; other links are brought into their states by steps.
        steps: What is done.
    """

    name: str
    message: str
    state: State
    steps: tuple[Step, ...]


class Change(NamedTuple):
    """A scenario whose order was spoiled.

    Attributes:
        operator: By what.
        target: What it was done to: notes of steps.
        steps: What is played.
        parts: Of a combination: operators and targets, in order.
    """

    operator: str
    target: str
    steps: tuple[Step, ...]
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def done(self) -> tuple[tuple[str, str], ...]:
        """Operators and targets."""
        return self.parts or ((self.operator, self.target),)

    @property
    def words(self) -> str:
        """One line."""
        return "; ".join(f"{operator} {target}".rstrip() for operator, target in self.done)


class Drawn(NamedTuple):
    """A case that was drawn.

    Attributes:
        words: One line.
        kinds: What was done, in words that come again: what findings are laid on.
        steps: What is played.
    """

    words: str
    kinds: tuple[str, ...]
    steps: Sequence[Step]


Changes = Iterator[tuple[str, Iterable[Step]]]


@dataclass(frozen=True, slots=True)
class Operator:
    """One way to spoil an order.

    Attributes:
        name: A word.
        purpose: One line.
        changes: Lists what it makes of acts: what it was done to, and the steps.
    """

    name: str
    purpose: str
    changes: Callable[[Sequence[Act], State], Changes]


OPERATORS: dict[str, Operator] = {}


def operator(name: str, purpose: str) -> Callable[[Callable[[Sequence[Act], State], Changes]], Operator]:
    """Registers an operator."""

    def register(changes: Callable[[Sequence[Act], State], Changes]) -> Operator:
        OPERATORS[name] = Operator(name, purpose, changes)
        return OPERATORS[name]

    return register


# Acts -----------------------------------------------------------------------------------------------------


def acts(steps: Iterable[Step]) -> list[Act]:
    """Returns steps in groups that move together."""
    groups: list[list[Step]] = []
    for step in steps:
        if step.do in (Do.AWAIT, Do.SETTLE) and groups and groups[-1][0].do is Do.SEND:
            groups[-1].append(step)
        else:
            groups.append([step])
    return [tuple(group) for group in groups]


def flat(groups: Iterable[Act]) -> Iterator[Step]:
    """Yields the steps of groups."""
    return chain.from_iterable(groups)


def playable(steps: Iterable[Step]) -> bool:
    """Tells whether each link is there when it is used."""
    there = {"a"}
    for step in steps:
        if step.do is Do.REACH:
            there.add(step.link)
        elif step.link not in there:
            return False
    return True


def _sends(groups: Sequence[Act]) -> list[int]:
    return [index for index, group in enumerate(groups) if group[0].do is Do.SEND]


def _note(group: Act) -> str:
    step = group[0]
    return f"{step.note or step.do}" if step.link == "a" else f"{step.note or step.do} of {step.link}"


def changes_of(scenario: Scenario) -> Iterator[Change]:
    """Yields every single change of a scenario by every operator."""
    for one in OPERATORS.values():
        yield from _changes(one, scenario.steps, scenario.state)


def _changes(one: Operator, steps: tuple[Step, ...], state: State) -> Iterator[Change]:
    seen = {steps}
    names: Counter[str] = Counter()
    for target, changed in one.changes(acts(steps), state):
        made = tuple(changed)
        names[target] += 1
        if made not in seen and playable(made):
            seen.add(made)
            # Two steps may have the same note; findings tell them apart by their turn.
            turn = f" ({names[target]})" if names[target] > 1 else ""
            yield Change(one.name, target + turn, made)


# Operators ------------------------------------------------------------------------------------------------


@operator("skip", "is left out")
def _skip(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001  (called like the others)
    for index in _sends(groups):
        yield _note(groups[index]), flat([*groups[:index], *groups[index + 1 :]])


@operator("repeat", "comes twice")
def _repeat(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    for index in _sends(groups):
        yield _note(groups[index]), flat([*groups[: index + 1], *groups[index:]])


@operator("often", f"comes {OFTEN} times")
def _often(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    for index in _sends(groups):
        group = groups[index]
        many = (replace(group[0], times=group[0].times * OFTEN), *group[1:])
        if many[0].times <= 10 * OFTEN:
            yield _note(group), flat([*groups[:index], many, *groups[index + 1 :]])


@operator("swap", "change places")
def _swap(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    places = _sends(groups)
    for one, first in enumerate(places):
        for second in places[one + 1 :]:
            turned = list(groups)
            turned[first], turned[second] = groups[second], groups[first]
            yield f"{_note(groups[first])} and {_note(groups[second])}", flat(turned)


@operator("reverse", "all in reverse order")
def _reverse(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    places = _sends(groups)
    turned = list(groups)
    for here, there in zip(places, reversed(places), strict=True):
        turned[here] = groups[there]
    yield "", flat(turned)


@operator("early", "comes first")
def _early(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    places = _sends(groups)
    for index in places[2:]:
        rest = [group for at, group in enumerate(groups) if at != index]
        yield _note(groups[index]), flat([*rest[: places[0]], groups[index], *rest[places[0] :]])


@operator("late", "comes last")
def _late(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    for index in _sends(groups)[:-2]:
        rest = [group for at, group in enumerate(groups) if at != index]
        yield _note(groups[index]), flat([*rest, groups[index]])


@operator("replay", "the same bytes, numbers included, once more at the end")
def _replay(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    frozen = acts(frozen_numbers(flat(groups)))
    places = _sends(groups)
    for index in places:
        yield _note(groups[index]), flat([*groups, frozen[index]])
    yield "everything", flat([*groups, *(frozen[index] for index in places)])


@operator("replay elsewhere", "the same bytes, numbers included, once more on another link")
def _replay_elsewhere(groups: Sequence[Act], state: State) -> Changes:
    frozen = acts(frozen_numbers(flat(groups)))
    elsewhere = {index: _moved(frozen[index], STRANGER) for index in _sends(groups)}
    for index, again in elsewhere.items():
        yield _note(groups[index]), flat([(reach(state, STRANGER),), *groups, again])
    yield "everything", flat([*groups, (reach(state, STRANGER),), *elsewhere.values()])


@operator("stranger", "comes on another link than it should")
def _stranger(groups: Sequence[Act], state: State) -> Changes:
    links = sorted({group[0].link for group in groups})
    for index in _sends(groups):
        group = groups[index]
        for link in (*links, STRANGER):
            if link != group[0].link:
                moved = [*groups[:index], _moved(group, link), *groups[index + 1 :]]
                before = [(reach(state, STRANGER),)] if link == STRANGER else []
                yield f"{_note(group)} to {link}", flat([*before, *moved])


@operator("behind CLOSE", "the link was closed with CLOSE before")
def _behind_close(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    for index in _sends(groups):
        link = groups[index][0].link
        yield _note(groups[index]), flat([*groups[:index], (closing(link),), *groups[index:]])
    for index in _sends(groups):
        both = together(closing(groups[index][0].link), groups[index][0])
        if both is not None:
            yield (
                f"{_note(groups[index])}, in its batch",
                flat([*groups[:index], (both,), *groups[index + 1 :]]),
            )


ENDS = (Do.FINISH, Do.RESET, Do.CLOSE)


@operator("end behind", "the link ends behind it, in each of three ways")
def _end_behind(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    for index in _sends(groups):
        link = groups[index][0].link
        for how in ENDS:
            # The answer is not waited for: the link ends while the node is at it.
            ended = [*groups[:index], groups[index][:1], (Step(how, link),), *groups[index + 1 :]]
            yield f"{_note(groups[index])}: {how}", flat(ended)


@operator("half", "half of it leaves, then the link ends, in each of three ways")
def _half(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    for index in _sends(groups):
        group = groups[index]
        half = _first_half(group[0])
        for how in ENDS:
            ended = [*groups[:index], (half, Step(how, half.link)), *groups[index + 1 :]]
            yield f"{_note(group)}: {how}", flat(ended)


@operator("deaf", "from there on nothing is read on the link")
def _deaf(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    for index in _sends(groups):
        link = groups[index][0].link
        yield _note(groups[index]), flat([*groups[:index], (Step(Do.PAUSE, link),), *groups[index:]])


@operator("together", "travels in one batch with the next one")
def _together(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    for index in _sends(groups)[:-1]:
        first, second = groups[index], groups[index + 1]
        both = together(first[0], second[0]) if second[0].link == first[0].link else None
        if both is not None:
            rest = (*first[1:], *second[1:])
            yield (
                f"{_note(first)} with {_note(second)}",
                flat([*groups[:index], (both, *rest), *groups[index + 2 :]]),
            )


@operator("impatient", "no answer is waited for")
def _impatient(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    yield "", flat(group[:1] for group in groups)


@operator("slowly", "leaves byte by byte")
def _slowly(groups: Sequence[Act], state: State) -> Changes:  # noqa: ARG001
    for index in _sends(groups):
        group = groups[index]
        slow = (replace(group[0], bytewise=True), *group[1:])
        yield _note(group), flat([*groups[:index], slow, *groups[index + 1 :]])


@operator("side by side", "the same on other links, step by step in turns")
def _side_by_side(groups: Sequence[Act], state: State) -> Changes:
    for links, words in ((2, "on two"), (8, "on eight")):
        if links * (1 + sum(map(len, groups))) <= MOST_STEPS:
            yield words, _copies(groups, state, links)


def _copies(groups: Sequence[Act], state: State, links: int) -> Iterator[Step]:
    plays = [list(groups)]
    plays += [
        [(reach(state, _link(copy, "a")),), *_elsewhere(groups, partial(_link, copy))]
        for copy in range(1, links)
    ]
    yield from flat(_in_turns(plays))


def _link(copy: int, link: str) -> str:
    return f"{link}{copy}"


def _in_turns(plays: Sequence[Sequence[Act]]) -> Iterator[Act]:
    for depth in range(max(map(len, plays))):
        for play in plays:
            if depth < len(play):
                yield play[depth]


# What operators are made of -------------------------------------------------------------------------------


def _moved(group: Act, link: str) -> Act:
    return tuple(replace(step, link=link) for step in group)


def _elsewhere(groups: Iterable[Act], rename: Callable[[str], str]) -> list[Act]:
    """Returns the same on other links; values of other links are followed."""
    return [
        tuple(replace(step, link=rename(step.link), data=_renamed(step.data, rename)) for step in group)
        for group in groups
    ]


def _renamed(template: Template, rename: Callable[[str], str]) -> Template:
    return Template(
        tuple(
            _LINK.sub(lambda found: f"@{rename(found[1])}", piece) if isinstance(piece, str) else piece
            for piece in template.pieces
        )
    )


def _first_half(step: Step) -> Step:
    """Returns the first half of a batch; its length still says all of it, or as good as."""
    pieces = step.data.pieces
    if not pieces or pieces[0] != SIZE:
        return step
    whole = sum(len(piece) if isinstance(piece, bytes) else 3 for piece in pieces[1:])
    left, kept = whole // 2, list[bytes | str]()
    for piece in pieces[1:]:
        if left <= 0:
            break
        kept.append(piece[:left] if isinstance(piece, bytes) else piece)
        left -= len(piece) if isinstance(piece, bytes) else 3
    return replace(
        step,
        data=Template.of(f"{SIZE}|length says twice as much", *kept),
        times=1,
        note=f"half of {step.note}",
    )


def frozen_numbers(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Returns steps with the numbers that live ones have when all of them are played, written out."""
    due: dict[tuple[str, str], int] = {}
    frozen = []
    for step in steps:
        pieces: list[bytes | str] = []
        for piece in step.data.pieces:
            if piece in ("sn", "sn_be"):
                at = due.get((step.link, str(piece)), FIRST_SN)
                due[step.link, str(piece)] = at + step.times
                pieces.append(write_vle(at & 0x0FFF_FFFF))
                continue
            if isinstance(piece, str) and piece.startswith("from "):
                due[step.link, "sn"] = due[step.link, "sn_be"] = int(piece[5:])
            pieces.append(piece)
        if step.do is Do.REACH:
            due.pop((step.link, "sn"), None)
            due.pop((step.link, "sn_be"), None)
        frozen.append(replace(step, data=Template.of(*pieces)))
    return tuple(frozen)


# Combinations ---------------------------------------------------------------------------------------------

MOST_CHANGES = 4
"""At most so many operators on each other."""

WEAVE, SPLICE = 0.3, 0.3
"""Shares of the combinations that hold two scenarios."""


def mixed(rng: random.Random, scenario: Scenario, others: Sequence[Scenario]) -> Change:
    """Draws a combination: operators on each other, or two scenarios woven into each other, or one cut into one.

    Args:
        rng: Draws.
        scenario: Of which the state and the first steps are.
        others: Scenarios in the same state.
    """
    how = rng.random()
    steps = scenario.steps
    parts: list[tuple[str, str]] = []
    if others and how < WEAVE + SPLICE:
        other = rng.choice(others)
        steps = woven(rng, steps, other) if how < WEAVE else spliced(rng, steps, other.steps)
        parts.append(("woven with" if how < WEAVE else "goes on as", other.name))
    for _ in range(rng.randint(1 if parts else 2, MOST_CHANGES)):
        one = OPERATORS[rng.choice(list(OPERATORS))]
        found = list(one.changes(acts(steps), scenario.state))
        if found:
            target, changed = rng.choice(found)
            made = tuple(changed)
            if len(made) <= MOST_STEPS and _sent(made) <= MOST_SENDS and playable(made):
                steps = made
                parts.append((one.name, target))
    return Change("", "", steps, tuple(parts))


def _sent(steps: Iterable[Step]) -> int:
    return sum(step.times for step in steps if step.do is Do.SEND)


def woven(rng: random.Random, steps: tuple[Step, ...], other: Scenario) -> tuple[Step, ...]:
    """Returns two exchanges side by side, the second on links of its own, in a random order of turns."""
    first = acts(steps)
    second = [
        (reach(other.state, _link(9, "a")),),
        *_elsewhere(acts(other.steps), partial(_link, 9)),
    ]
    turns = [0] * len(first) + [1] * len(second)
    rng.shuffle(turns)
    left = (iter(first), iter(second))
    return tuple(flat(next(left[turn]) for turn in turns))


def spliced(rng: random.Random, steps: tuple[Step, ...], other: tuple[Step, ...]) -> tuple[Step, ...]:
    """Returns an exchange that goes on as another one on the same links."""
    first, second = acts(steps), acts(other)
    head, tail = first[: rng.randint(1, len(first))], second[rng.randint(0, max(0, len(second) - 1)) :]
    reaches = [group for group in second if group[0].do is Do.REACH]
    there = {group[0].link for group in head if group[0].do is Do.REACH}
    missing = [group for group in reaches if group not in tail and group[0].link not in there]
    made = tuple(flat([*head, *missing, *tail]))
    return made if playable(made) else steps


class Ordered(Source):
    """A scenario, spoiled by every operator, then by combinations of them.

    Args:
        scenario: The valid exchange; its first case is the exchange as it is.
        others: Scenarios that it is combined with; those in the same state are.
    """

    sequence = True

    def __init__(self, scenario: Scenario, others: Sequence[Scenario] = ()) -> None:
        self.name, self.state, self.message = scenario.name, scenario.state, scenario.message
        self.scenario = scenario
        self._others = [other for other in others if other.state is scenario.state and other is not scenario]

    @cached_property
    def singles(self) -> list[Change]:
        """Every single change, the exchange as it is in front."""
        return [Change("valid", "", self.scenario.steps), *changes_of(self.scenario)]

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """Yields every single change once: operators take turns."""
        valid, *changes = self.singles
        yield self._case(valid)
        by: dict[str, list[Change]] = {}
        for change in changes:
            by.setdefault(change.operator, []).append(change)
        groups = [rng.sample(group, len(group)) for group in rng.sample(list(by.values()), len(by))]
        for depth in range(max(map(len, groups), default=0)):
            for group in groups:
                if depth < len(group):
                    yield self._case(group[depth])

    def more(self, rng: random.Random) -> Iterator[Case]:
        """Yields combinations."""
        while True:
            yield self._case(mixed(rng, self.scenario, self._others))

    def _case(self, change: Change) -> Case:
        return Case(
            self,
            self.message,
            "",
            change.words,
            "order",
            tuple(Cause(self.name, target, operator) for operator, target in change.done),
            () if change.parts else (self._edge(change),),
            alone=True,
            plan=change.steps,
        )

    def _edge(self, change: Change) -> Edge:
        return Edge(self.message, self.name, change.words)

    def edges(self) -> Iterable[Edge]:
        """See Source."""
        return [self._edge(change) for change in self.singles]

    def steps(self, case: Case) -> tuple[Step, ...]:
        """See Source."""
        steps: tuple[Step, ...] = case.plan
        return steps


def given(*steps: Step) -> Callable[[], Sequence[Step]]:
    """Returns what makes steps that are there: for small cases among large ones."""
    return lambda: steps


class Made(Source):
    """Like ``Fixed``, for cases that are large: their steps are made when they are due.

    Args:
        name: Unique in its campaign.
        state: Where link ``a`` is.
        message: Kind of message.
        variants: By words: what makes the steps.
        strategy: For tables.
        draw: Makes a case beyond them; None when there are no more.
        alone: The cases need links of their own.
        kind: What a variant is laid on, from its words; the words themselves unless told.
        behind: Steps behind those of every case.
        all_valid: See Source.
    """

    sequence = True

    def __init__(
        self,
        name: str,
        state: State,
        message: str,
        variants: Mapping[str, Callable[[], Sequence[Step]]],
        strategy: str,
        draw: Callable[[random.Random], Drawn] | None = None,
        *,
        alone: bool = True,
        kind: Callable[[str], str] = str,
        behind: Sequence[Step] = (),
        all_valid: bool = False,
    ) -> None:
        self.name, self.state, self.message = name, state, message
        self.all_valid = all_valid
        self._kind = kind
        self._behind = tuple(behind)
        self._variants = dict(variants)
        self._strategy = strategy
        self._draw = draw
        self._alone = alone

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """See Source."""
        for words in rng.sample(sorted(self._variants), len(self._variants)):
            yield self._case(
                words, (self._kind(words),), self._variants[words], (Edge(self.message, self.name, words),)
            )

    def more(self, rng: random.Random) -> Iterator[Case]:
        """Yields what is drawn."""
        while self._draw is not None:
            words, kinds, steps = self._draw(rng)
            yield self._case(words, kinds, partial(tuple, steps), ())

    def _case(
        self, words: str, kinds: Iterable[str], make: Callable[[], Sequence[Step]], edges: tuple[Edge, ...]
    ) -> Case:
        causes = tuple(Cause(self.name, "", kind) for kind in kinds)
        return Case(self, self.message, "", words, self._strategy, causes, edges, self._alone, make)

    def steps(self, case: Case) -> tuple[Step, ...]:
        """See Source."""
        return (*case.plan(), *self._behind)

    def edges(self) -> Iterable[Edge]:
        """See Source."""
        return [Edge(self.message, self.name, words) for words in self._variants]
