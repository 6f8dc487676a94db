"""What may have done it, alone and together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fuzz.anatomy import Anatomy, anatomy
from fuzz.cases import Case, Cause
from fuzz.kinship import CARRIERS, kind_in, raw_of, raws_of
from fuzz.plan import Numbered
from fuzz.player import Ending, Played
from fuzz.script import Do, Script, Step, Template
from fuzz.states import FACTS, State

ANSWERED = frozenset({Ending.ACCEPTED, Ending.CLOSED})
"""Behind a case that ended so the node was there."""

OFTEN, MUCH = 200, 1 << 20
"""So often a single message is sent in one session, but not more than so many bytes, to see what it leaves behind: what a
case leaves may be too little to be measured."""

_GIVEN = re.compile(r"(?:INTEREST\.interest|REQUEST\.request|D_KEYEXPR\.key|D_[A-Z]+\.entity)_id")
"""Paths of ids that whoever sends them gives to something."""

MOST_KINDS = 32
"""Of so many kinds of messages at most."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """What may have done it.

    Attributes:
        numbered: The case, with its number and campaign.
        steps: Its own steps.
        script: All that was played on its link: how it came into its state, the cases before it, itself.
        lane: Number of the link; those of the same followed each other on it.
        state: Where the link was in the beginning.
        played: What became of it.
    """

    numbered: Numbered
    steps: tuple[Step, ...]
    script: Script
    lane: int
    state: State
    played: Played | None = None

    @property
    def case(self) -> Case:
        """The case."""
        return self.numbered.case

    @property
    def alone(self) -> Script:
        """The case on a link of its own."""
        return replace(self.script, steps=(Step(Do.REACH, "a", self.state), *self.steps))

    @property
    def as_sent(self) -> Script:
        """The same with the ZenohIDs that were drawn for it: a node may have taken them for lengths, counts and more.

        What a link learns from the node, and what it counts, is its own; such steps stay as they are.
        """
        sends = [index for index, step in enumerate(self.steps) if step.do is Do.SEND]
        sent = self.played.sent if self.played is not None else []
        if len(sends) != len(sent) or any(self.steps[index].times != 1 for index in sends):
            return self.alone
        steps = list(self.steps)
        for index, raw in zip(sends, sent, strict=True):
            if set(steps[index].data.names) == {"zid"}:
                steps[index] = replace(steps[index], data=Template.of(raw))
        return self.alone.with_steps((Step(Do.REACH, "a", self.state), *steps))


Group = Sequence[Suspect]
"""What was played together, in order."""


def joined(suspects: Group) -> Script:
    """Returns all of them as one script, in order; those that shared a link share one again."""
    last = {suspect.lane: index for index, suspect in enumerate(suspects)}
    names: dict[tuple[int, str], str] = {}
    steps: list[Step] = []
    for index, suspect in enumerate(suspects):
        first = (suspect.lane, "a") not in names
        own = (*([Step(Do.REACH, "a", suspect.state)] if first else []), *suspect.steps)
        for step in own:
            name = names.setdefault((suspect.lane, step.link), _name(len(names)))
            steps.append(replace(step, link=name))
        if last[suspect.lane] == index:
            # The engine closes a link behind its last case, when the node has dealt with it.
            for (lane, _), name in names.items():
                if lane == suspect.lane:
                    steps += [Step(Do.SETTLE, name), Step(Do.CLOSE, name)]
        else:
            steps.append(Step(Do.SETTLE, names[suspect.lane, "a"]))
    valid = bool(suspects) and all(suspect.script.valid for suspect in suspects)
    return Script(tuple(steps), suspects[-1].script.where if suspects else (), valid)


def _name(number: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[number] if number < len(letters) else f"{letters[number % 26]}{number // 26}"


def ended_with(suspects: Sequence[Suspect]) -> Sequence[Suspect]:
    """Returns the suspect, alone, of which a process is gone: it is behind the last one that was answered.

    That is the last one whose link the node ended without a word, as a process ends its links with itself; else the
    first one that got no answer. What was played behind it, or beside it, only met that. All where there is no such.
    """
    answered = [index for index, one in enumerate(suspects) if one.played and one.played.ending in ANSWERED]
    behind = suspects[answered[-1] + 1 if answered else 0 :]
    sent = [one for one in behind if one.played is not None and one.played.sent]
    ended = [one for one in sent if one.played is not None and one.played.ending is Ending.REFUSED]
    return ended[-1:] or sent[:1] or suspects


def odd(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Returns those of the last suspects that got no answer, the first of them first."""
    return [
        suspect
        for suspect in suspects[-64:]
        if suspect.played is not None and (suspect.played.ending is Ending.SILENT or suspect.played.failure)
    ]


def one_of_each(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Returns the newest suspect of each cause, at most 256 of them."""
    newest: dict[tuple[Cause, ...], Suspect] = {}
    for suspect in suspects:
        newest.pop(suspect.case.causes, None)
        newest[suspect.case.causes] = suspect
    return list(newest.values())[-256:]


def each_message_often(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Returns what was sent in the sessions of suspects, the newest of each kind: it alone, OFTEN times in one session.

    Each time it has an id of its own, and other digits where it has such. Kinds differ in the innermost message, and in
    its header; those that differ in the header alone come last. Such a suspect counts as not valid: what it needs was
    said in other messages.
    """
    newest: dict[tuple[str, bytes], Suspect] = {}
    for suspect in suspects:
        states = {"a": suspect.state}
        for step in suspect.steps:
            if step.state is not None:
                states[step.link] = step.state
            state = states.get(step.link)
            if step.do is not Do.SEND or state is None or not FACTS[state].session:
                continue
            raw = raw_of(step.data)
            cut = anatomy(raw, kind_in(state))
            inner = [span for span in cut.messages if span.name not in CARRIERS]
            if inner:
                kind = inner[-1].name, cut.raws[inner[-1].first]
                newest.pop(kind, None)
                times = min(OFTEN, 1 + MUCH // len(raw))
                often = replace(step, link="a", data=_with_own_id(step.data, cut), times=times)
                newest[kind] = _alone(suspect, often, state, inner[-1].name)
    first = {name: (name, header) for name, header in newest}
    kinds = dict.fromkeys([*first.values(), *reversed(newest)])
    return [newest[kind] for kind in [*kinds][:MOST_KINDS]]


def _with_own_id(data: Template, cut: Anatomy) -> Template:
    """Returns a batch in which the last id that it gives to something is a live value: another one each time."""
    given = [index for index, piece in enumerate(cut.pieces) if _GIVEN.fullmatch(piece.path)]
    if not given:
        return data
    before, end = sum(map(len, cut.raws[: given[-1]])), sum(map(len, cut.raws[: given[-1] + 1]))
    pieces: list[bytes | str] = []
    at = 0
    for piece, raw in zip(data.pieces, raws_of(data), strict=True):
        if isinstance(piece, bytes) and at <= before and end <= at + len(raw):
            pieces += [piece[: before - at], "count", piece[end - at :]]
        else:
            pieces.append(piece)
        at += len(raw)
    return Template.of(*pieces)


def _alone(suspect: Suspect, step: Step, state: State, message: str) -> Suspect:
    mutation = f"the same message {step.times} times in a session, with an id of its own each time"
    case = replace(suspect.case, message=message, field="", mutation=mutation, edges=())
    numbered, script = replace(suspect.numbered, case=case), replace(suspect.script, valid=False)
    return replace(suspect, numbered=numbered, steps=(step,), script=script, state=state, played=None)


def doubling(most: int) -> Iterator[int]:
    """Yields how many of the last suspects are tried together: more each time, all of them in the end."""
    count = 2
    while count < most:
        yield count
        count *= 4
    if most > 1:
        yield most
