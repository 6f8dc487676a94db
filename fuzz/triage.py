"""From an objection to a finding: which case did it, does it come again, what is it called, what is left out."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from conformance.config import RunConfig
from conformance.errors import HarnessError
from conformance.nodes.base import Node
from fuzz.audience import attended
from fuzz.cases import Case, Cause
from fuzz.findings import (
    CERTAIN,
    CONFIRMED,
    FLAKY,
    FOLDER,
    OPEN,
    PROVEN,
    SEEN,
    STATE,
    TRAFFIC,
    Finding,
    Minimised,
    drop_folder,
    folder_of,
    open_folder,
    without_line,
)
from fuzz.kinship import STAGE, about, other_message, phase_of, why_one
from fuzz.known import KnownFindings
from fuzz.lab import LINGER, LONGEST_LINGER, ROUNDS, SLOW, TWICE, Lab, NoFreshNode, Tried, linger_of
from fuzz.oracles import DEADLY, SERVING, Harm, Objection, When
from fuzz.oracles.places import in_file, words_of
from fuzz.plan import Numbered
from fuzz.player import Ending, Played
from fuzz.regression import fails_on
from fuzz.script import Do, Script, Step, Template
from fuzz.shrink import shrink
from fuzz.states import State
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.transport import Fragment
from spark_reports.rows import utc_now

HITS = 3
"""After so many hits of a bucket, what hits it is left out: restarts would eat the time of the campaign."""

HITS_FLAKY = 12
"""The same for a bucket that nobody could confirm: what happens rarely is worth more tries."""

WIDE = 4
"""When so many causes of one kind hit a bucket, all of that kind are left out but for a sample."""

SAMPLE = 64
"""Of what is left out because it is like something that harms, every so manieth case is played all the same."""

WANTED, TRIES = 3, 5
"""A finding is confirmed when it comes again so often, of so many fresh nodes."""

COMPARE_SECONDS = 60.0
"""So long all of what two nodes answer differently may be tried again behind the campaign, on fresh nodes."""

CONFIRM_SECONDS = 8.0
"""So long that may take; then as often as there was time for."""

ATTRIBUTE_SECONDS = 20.0
"""So long it may take to find out which case did it."""

DELAYED_SECONDS = 40.0
"""The same for a process that dies of nothing that is looked at at once, and has to be waited for."""

LATE = 8
"""So many cases in front of the one behind which a node was seen to be dead may have killed it."""

RECENT = 8
"""So many of the last cases are tried alone first."""

SLOW_SECONDS = 4.0
"""So long a script is played again and again to see whether the node grows by it."""

GROUPS, GROUP_SECONDS = 6, 1.2
"""So many groups of cases are tried for so long each, to see by which of them the node grows."""

ORDINARY = frozenset({Do.REACH, Do.SETTLE, Do.CLOSE})
"""Steps that every node has to bear: they are what is left of a script without its messages."""

CONFIRM_SHARE, WAITED_SHARE = 0.15, 0.6
"""Of the time in which something is made smaller, for seeing that the smallest comes again; where that takes long."""

LEAST_SHARE, WAITED_LEAST = 0.2, 0.5
"""Of that time, what has to be left to begin once more with the smallest that came again; where that takes long."""

WAITED = frozenset({Harm.STALL, Harm.REFUSING, Harm.GONE})
"""What takes seconds to be seen, in which hardly anything is done: several tries of it go side by side."""

BORNE = frozenset({Harm.DISTURBED, Harm.UNDUE, Harm.PAUSE, Harm.SLOW, Harm.BUSY, Harm.UNDECODABLE})
"""With these a node goes on, and other harm shows all the same: where ordinary traffic is enough for one of them, it is
not judged any more behind ``HITS`` hits."""

ANSWERED = frozenset({Ending.ACCEPTED, Ending.CLOSED})
"""Behind a case that ended so the node was there."""

LOOKS = 3
"""A bucket of which nobody could tell which case it was is looked into again, so often, when one case surely hits it."""

MOST_OPEN = 12
"""So many objections wait until somebody looks into them; with more of them the campaign waits."""

ROOM_SECONDS = 1.0
"""So long it waits; then one more is counted with those that wait and look the same."""


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
        return Script((Step(Do.REACH, "a", self.state), *self.steps), self.script.where)

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
        return Script((Step(Do.REACH, "a", self.state), *steps), self.script.where)


@dataclass(slots=True, eq=False)
class Open:
    """An objection that is being looked into, or waits for it.

    Attributes:
        guess: The finding as it seems; saved.
        objection: What was seen.
        suspects: What was played since the node was known to be well, the newest last.
        seconds: So long it may take.
        before: What was played in front of those, for when they show nothing.
        buckets: Those that the rows of the cases have behind which it was seen.
        finding: What is being confirmed; None while the case that did it is looked for.
        job: What is under way; None while it waits.
        again: What else was met that looks the same.
        looked: How many of those were looked into, because what was seen first showed nothing.
        causes: Left out meanwhile.
        masked: How many cases that were.
    """

    guess: Finding
    objection: Objection
    suspects: Sequence[Suspect]
    seconds: float
    before: Sequence[Suspect] = ()
    buckets: set[str] = field(default_factory=set)
    finding: Finding | None = None
    job: Future[tuple[Suspect, Tried] | None] | Future[None] | None = None
    again: list[tuple[Objection, Suspect | None]] = field(default_factory=list)
    looked: int = 0
    causes: set[Cause] = field(default_factory=set)
    masked: int = 0


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
    return Script(tuple(steps), suspects[-1].script.where if suspects else ())


def _name(number: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[number] if number < len(letters) else f"{letters[number % 26]}{number // 26}"


# The signature --------------------------------------------------------------------------------------


def bucket_of(objection: Objection, case: Case | None, state: State | None) -> str:
    """Returns the signature of a finding in words, the same in every run and, as far as can be, every version.

    Where the process says where it failed, that is what it is: signal, file, and what it said there; lines move
    from version to version. Otherwise what is seen, and the kind of message and the part of a session it came in.
    """
    said = _seen(objection)
    if is_placed(objection):
        return said
    # What a stage needs of a node is gone: whatever was said there last, the same thing is broken.
    message = "" if objection.place == STAGE else case.message if case is not None else "?"
    return " ".join(filter(None, [said, phase_of(state), message]))


def bucket_without(objection: Objection, kind: str) -> str:
    """Returns the signature of a finding that needs no message: what was sent when it was seen is not in it.

    Args:
        objection: What was seen.
        kind: ``TRAFFIC`` or ``STATE``.
    """
    said = _seen(objection)
    return said if is_placed(objection) else f"{said} {kind}"


def _seen(objection: Objection) -> str:
    """Returns what is seen, and where the process says that it failed, as signatures begin."""
    words = words_of(objection.detail)
    return " ".join(
        filter(None, [str(objection.harm), without_line(objection.place), f'"{words}"' if words else ""])
    )


def bare(script: Script) -> Script:
    """Returns what brings links into their states, without anything that is sent on them then."""
    return script.with_steps(step for step in script.steps if step.do in ORDINARY)


def is_placed(objection: Objection) -> bool:
    """Tells whether the process itself said in which file of its own it failed."""
    return in_file(objection.place)


S = TypeVar("S")
T = TypeVar("T")


def akin(seen: Objection, now: Objection) -> bool:
    """Tells whether an objection is the same harm as another, or shows better what that was."""
    if now.harm in DEADLY:
        if seen.harm in DEADLY:
            return not (is_placed(seen) and is_placed(now)) or _spot(seen) == _spot(now)
        return seen.harm in SERVING
    if seen.harm is Harm.DIFFERS:
        return now.harm is seen.harm and now.place == seen.place
    if seen.harm is Harm.BUSY and now.harm in SERVING:
        # What keeps one thread of it busy for long keeps all of them busy when it is done again and again.
        return True
    return seen.harm is now.harm or (seen.harm in SERVING and now.harm in SERVING)


def telling(objection: Objection) -> int:
    """Returns how much an objection tells: the place where it failed; that it ended; that it failed; what others see."""
    if objection.harm not in DEADLY:
        return 0
    if is_placed(objection):
        return 3
    return 2 if objection.harm is Harm.CRASH else 1


def _spot(objection: Objection) -> str:
    """Returns file and line, without the signal: a panic may end the process or not."""
    found = re.search(r"\S+:\d+", objection.place)
    return found[0] if found else objection.place


# Triage ---------------------------------------------------------------------------------------------


class Triage:
    """Looks into objections, keeps the findings, says which cases to leave out.

    Args:
        config: The run.
        node: The node under test.
        lab: Where scripts are tried.
        known: Known findings.
        through_known: Cases that bring about known findings are played all the same.
        minimising: Seconds for making each finding smaller beside the campaign; 0 for not at all.
        also: Another node that gets the same, as for ``--also``; empty for none.

    Attributes:
        findings: By bucket, in the order they were found.
        masked: Cases left out, by what they are left out for.
        merged: Findings that were told as others, and turned out to be one that is there.
        unjudged: What is not judged any more, because it shows whatever is sent, and how that is known. The lab knows it
            too: it would take it for whatever is looked into.
    """

    def __init__(
        self,
        config: RunConfig,
        node: Node,
        lab: Lab,
        known: KnownFindings | None = None,
        *,
        through_known: bool = False,
        minimising: float = 0.0,
        also: str = "",
    ) -> None:
        self._config = config
        self._minimising = minimising
        self._also = also
        self._node = node
        self._lab = lab
        self._known = known or KnownFindings()
        self._through_known = through_known
        self._folder = config.run_dir / FOLDER
        self.findings: dict[str, Finding] = {}
        self.masked: Counter[Cause] = Counter()
        self.merged: list[Finding] = []
        self.unjudged = lab.unjudged
        self._names: dict[str, str] = {}
        self._mask: dict[Cause, Finding] = {}
        self._wide: dict[Cause, Finding] = {}
        self._spots: dict[tuple[Harm, str], str] = {}
        self._samples: Counter[Cause] = Counter()
        self._looks: Counter[str] = Counter()
        self._open: list[Open] = []
        self._held: dict[Cause, Open] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._latest = math.inf
        self._small: Future[bool] | None = None
        self._large: list[Finding] = []
        self._writing = threading.Lock()

    # Finding ---------------------------------------------------------------------------------------

    def found(
        self,
        objection: Objection,
        suspects: Sequence[Suspect],
        deadline: float | None = None,
        buckets: Iterable[str] = (),
    ) -> Finding:
        """Takes an objection: finds the case that did it, sees whether it comes again, keeps it.

        Args:
            objection: What the oracle saw.
            suspects: What was played since the node was known to be well, the newest last.
            deadline: On ``time.monotonic``: by then it shall be done.
            buckets: Those that the rows of the cases have behind which it was seen.

        Returns:
            The bucket it fell into, saved.
        """
        suspects = _ended_with(suspects) if objection.harm is Harm.GONE else suspects
        deadline = time.monotonic() + CONFIRM_SECONDS + ATTRIBUTE_SECONDS if deadline is None else deadline
        finding = self._met(objection, suspects)
        if finding is None:
            guess = self._guess(objection, suspects)
            finding = self._look_into(guess, objection, suspects, deadline)
            self._enter(finding, objection)
            self._save(finding)
        finding.case_buckets.update(buckets)
        return finding

    def _met(self, objection: Objection, suspects: Sequence[Suspect]) -> Finding | None:
        """Returns the bucket of something that was met before, hit once more."""
        finding = self._again(objection, suspects) or self._ordinary(objection, suspects)
        if finding is not None:
            self._hit(finding, objection, self._suspect_of(finding, suspects))
            self._save(finding)
            return finding
        if is_placed(objection) or len(suspects) == 1:
            finding = self._earlier(self._make(objection, suspects[-1] if suspects else None))
            if finding is not None:
                self._enter(finding, objection)
                self._save(finding)
        return finding

    def _guess(self, objection: Objection, suspects: Sequence[Suspect]) -> Finding:
        """Returns a finding as it seems, saved before anybody looks into it, so that nothing is lost whatever happens."""
        guess = self._make(objection, suspects[-1] if suspects else None)
        guess.path = open_folder(self._folder, guess.bucket)
        self._save(guess)
        return guess

    # Beside the campaign -----------------------------------------------------------------------------

    @property
    def open(self) -> int:
        """How many objections are being looked into, or wait for it."""
        return len(self._open)

    def take(
        self,
        objection: Objection,
        suspects: Sequence[Suspect],
        seconds: float,
        before: Sequence[Suspect] = (),
        buckets: Iterable[str] = (),
    ) -> None:
        """Takes an objection as ``found`` does, and looks into it while the campaign goes on.

        Args:
            objection: What the oracle saw.
            suspects: What was played since the node was known to be well, the newest last.
            seconds: So long it may take once it is its turn.
            before: What was played in front of a suspect that seems to be sure.
            buckets: Those that the rows of the cases have behind which it was seen.
        """
        met = self._met(objection, suspects)
        if met is not None:
            met.case_buckets.update(buckets)
            if len(suspects) == 1 and self._unsure(met):
                self._looks[met.bucket] += 1
                self._open.append(Open(met, objection, suspects, seconds, before))
                self.collect()
            return
        if not self._lab.able or not suspects:
            self.found(objection, suspects, buckets=buckets)
            return
        there = self._alike(objection, suspects) or self._like_it_where_full(objection)
        if there is not None:
            there.again.append((objection, suspects[-1] if len(suspects) == 1 else None))
        else:
            while len(self._open) >= MOST_OPEN:
                self.collect(wait=True)
            there = Open(self._guess(objection, suspects), objection, suspects, seconds, before)
            self._open.append(there)
        there.buckets.update(buckets)
        if len(suspects) == 1:
            # Whether it is true is not known yet; until then it shall not happen again.
            there.causes.update(suspects[0].case.causes)
            self._held.update(dict.fromkeys(suspects[0].case.causes, there))
        self.collect()

    def _unsure(self, finding: Finding) -> bool:
        """Tells whether nobody knows yet which case hits a bucket, and one may be tried."""
        return (
            finding.tried is None
            and finding.status != CONFIRMED
            and not finding.known
            and self._lab.able
            and self._looks[finding.bucket] < LOOKS
            and len(self._open) < MOST_OPEN
            and all(one.guess is not finding for one in self._open)
        )

    def collect(self, *, wait: bool = False) -> bool:
        """Takes in what was seen beside the campaign, and starts what comes next.

        Args:
            wait: Waits for the one that is under way.

        Returns:
            Whether the findings are others than before.
        """
        changed = self._collect_small()
        while self._open:
            first = self._open[0]
            if first.job is not None:
                if not wait and not first.job.done():
                    break
                wait = False
                changed |= self._advance(first, first.job)
            elif self._known_by_now(first):
                changed = True
            else:
                first.job = self._beside(self._attributed, first)
        return changed

    def finish(self, seconds: float) -> None:
        """Waits until everything has been looked into, so long for all of it together.

        Args:
            seconds: 0 gives up at once; what is under way comes to the end of its try.
        """
        self._latest = time.monotonic() + seconds
        while self._open:
            self.collect(wait=True)
        if self._small is not None:
            if self._small.result():
                self._merge(self._large.pop(0))
            self._small = None
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self._latest = math.inf

    def _collect_small(self) -> bool:
        """Takes in what was made smaller, and begins with the next; returns whether something became smaller."""
        if self._small is not None:
            if not self._small.done():
                return False
            done, self._small = self._small.result(), None
            if done:
                self._merge(self._large.pop(0))
            return done
        if self._large and not self._open and self._latest == math.inf:
            self._small = self._beside(self._made_smaller, self._large[0])
        return False

    def _made_smaller(self, finding: Finding) -> bool:
        """Makes a finding smaller beside the campaign, or sees whether fresh nodes differ.

        Returns:
            False when it had to stop because there is more to do.
        """

        def stop() -> bool:
            return bool(self._open) or time.monotonic() >= self._latest

        try:
            if self._to_compare(finding):
                self._compare(finding, stop)
            else:
                self.minimise(finding, self._minimising, stop)
        except Stopped:
            return False
        return True

    def _alike(self, objection: Objection, suspects: Sequence[Suspect]) -> Open | None:
        """Returns what is being looked into and looks the same: place, or bucket of a case that surely did it."""
        for one in self._open:
            if is_placed(objection):
                if is_placed(one.objection) and _spot(objection) == _spot(one.objection):
                    return one
            elif len(suspects) == len(one.suspects) == 1:
                suspect = suspects[0]
                if one.guess.bucket == bucket_of(objection, suspect.case, suspect.state):
                    return one
        return None

    def _like_it_where_full(self, objection: Objection) -> Open | None:
        """Returns what waits and looks the same, where an objection more had to wait for long; else None.

        Each of those may take a minute, in which the campaign would stand still.
        """
        until = time.monotonic() + ROOM_SECONDS
        while len(self._open) >= MOST_OPEN and (left := until - time.monotonic()) > 0:
            under_way: list[Future[Any]] = [one.job for one in self._open if one.job is not None]
            wait(under_way, left)
            self.collect()
        if len(self._open) < MOST_OPEN:
            return None
        return next((one for one in self._open[::-1] if _seen(one.objection) == _seen(objection)), None)

    def _beside(self, function: Callable[[S], T], one: S) -> Future[T]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "triage")
        return self._thread.submit(function, one)

    def _attributed(self, one: Open) -> tuple[Suspect, Tried] | None:
        """Finds who did it. Runs beside the campaign: changes nothing but the lab."""
        culprit = None
        try:
            deadline = min(time.monotonic() + one.seconds, self._latest)
            culprit = self._attribute(one.objection, one.suspects, deadline, one.before)
        finally:
            if culprit is None:
                self._lab.rest()
        return culprit

    def _confirmed(self, one: Open) -> None:
        """Plays it again on fresh nodes. Runs beside the campaign: changes nothing but the finding and the lab."""
        finding = one.finding
        assert finding is not None
        assert finding.tried is not None
        try:
            self._confirm(finding, finding.tried, min(time.monotonic() + one.seconds, self._latest))
        finally:
            self._lab.rest()

    def _advance(self, one: Open, job: Future[tuple[Suspect, Tried] | None] | Future[None]) -> bool:
        """Goes on with one whose job has ended; returns whether it has become a finding."""
        finding = one.finding
        if finding is None:
            try:
                culprit = job.result()
            except HarnessError as error:
                one.guess.notes.append(f"It could not be looked into: {error}")
                culprit = None
            if culprit is None and self._next_of(one):
                one.job = self._beside(self._attributed, one)
                return False
            if culprit is None:
                finding = self._nobody(one.guess, one.objection, one.suspects)
            else:
                finding = self._show(one.guess, *culprit)
                if finding.tried is culprit[1]:
                    one.finding = finding
                    one.job = self._beside(self._confirmed, one)
                    return False
                self._beside(lambda _: self._lab.rest(), one)
        else:
            try:
                job.result()
            except HarnessError as error:
                finding.notes.append(f"It could not be tried more often: {error}")
                self._settle(finding, [])
            finding = self._joined_to_other(finding)
        self._close(one, finding)
        smaller = self._minimising and finding.status == CONFIRMED and finding.minimised is None
        if smaller or self._to_compare(finding):
            self._large = [*self._large, finding] if finding not in self._large else self._large
        else:
            self._beside(self._prove, finding)
        return True

    def _known_by_now(self, one: Open) -> bool:
        """Counts what waits as a hit of a finding that was confirmed meanwhile, when it is one; tells whether it is."""
        met = None
        if not self._is_kept(one.guess):
            met = self._again(one.objection, one.suspects) or self._ordinary(one.objection, one.suspects)
        if met is None or met.status != CONFIRMED:
            return False
        self._hit(met, one.objection, self._suspect_of(met, one.suspects))
        drop_folder(one.guess.path)
        self._close(one, met)
        return True

    def _close(self, one: Open, finding: Finding) -> None:
        """Takes what was looked into for a finding: what else was met that looks the same, and what was left out."""
        self._open.remove(one)
        for cause in one.causes:
            self._held.pop(cause, None)
        self._enter(finding, one.objection)
        for objection, suspect in one.again:
            self._hit(finding, objection, suspect)
        finding.masked += one.masked
        finding.case_buckets |= one.buckets
        self._save(finding)

    @staticmethod
    def _next_of(one: Open) -> bool:
        """Turns to what else may have done it; tells whether there is something.

        That is what was played just before, or a case on which the same was laid when it was met again.
        """
        if one.before:
            one.suspects, one.before = [*one.before, *one.suspects], ()
            return True
        sure = [(objection, suspect) for objection, suspect in one.again if suspect is not None][:LOOKS]
        if one.looked >= len(sure):
            return False
        one.objection, suspect = sure[one.looked]
        one.suspects = [suspect]
        one.looked += 1
        return True

    def _earlier(self, guess: Finding) -> Finding | None:
        """Returns the finding of this bucket as an earlier part of the run has left it, hit once more."""
        _, there = folder_of(self._folder, guess.bucket)
        if there is None or there.status not in PROVEN:
            return None
        there.before, there.hits, there.masked = there.hits, guess.hits, 0
        for name in ("places", "messages", "states", "causes"):
            getattr(there, name).update(getattr(guess, name))
        return there

    def _again(self, objection: Objection, suspects: Sequence[Suspect]) -> Finding | None:
        """Returns the bucket of something that was met before, when that can be told without looking into it."""
        if is_placed(objection):
            name = self._spots.get((objection.harm, _spot(objection)))
            return self.findings.get(name) if name else None
        for suspect in reversed(suspects):
            for finding in self.findings.values():
                same = finding.harm is objection.harm or (
                    finding.harm in SERVING and objection.harm in SERVING
                )
                if same and not in_file(finding.place) and finding.causes & set(suspect.case.causes):
                    return finding
        # What was played behind it got no answer either.
        first = next(iter(_odd(suspects)), None) if objection.harm in SERVING else None
        if first is None and (len(suspects) == 1 or self._surely_last(objection, suspects)):
            first = suspects[-1]
        return self._called(bucket_of(objection, first.case, first.state)) if first else None

    def _ordinary(self, objection: Objection, suspects: Sequence[Suspect]) -> Finding | None:
        """Returns the finding that needs no message, and of which nobody could tell this one.

        Where the ordinary traffic is enough, it is enough whatever was played. Where a state is, one that was laid on
        a single case may need its message; with many cases it is not tried again and again.
        """
        there = self._needing_nothing(objection)
        if there is not None and (there.without == TRAFFIC or (len(suspects) != 1 and there.hits >= LOOKS)):
            return there
        return None

    def _needing_nothing(self, objection: Objection) -> Finding | None:
        """Returns the finding of the same harm and place that needs no message."""
        place = without_line(objection.place)
        return next(
            (
                finding
                for finding in self.findings.values()
                if finding.without and finding.harm is objection.harm and without_line(finding.place) == place
            ),
            None,
        )

    @staticmethod
    def _surely_last(objection: Objection, suspects: Sequence[Suspect]) -> bool:
        """Tells whether only the last case can have done it: it was played alone, and the node died of it at once."""
        last = suspects[-1]
        return (
            objection.harm in DEADLY and last.case.alone and last.played is not None and last.played.by_itself
        )

    @staticmethod
    def _suspect_of(finding: Finding, suspects: Sequence[Suspect]) -> Suspect | None:
        """Returns who of the suspects has hit a bucket that was met before; None when it may be any of them.

        What is guessed here would be left out from then on, and so would others of its kind.
        """
        for suspect in reversed(suspects):
            if finding.causes & set(suspect.case.causes):
                return suspect
        return suspects[0] if len(suspects) == 1 else None

    def _make(self, objection: Objection, suspect: Suspect | None) -> Finding:
        """Makes a finding, hit once."""
        case = suspect.case if suspect else None
        script = suspect.alone if suspect else Script(())
        finding = Finding(
            bucket=self._name(objection, suspect),
            harm=objection.harm,
            oracle=objection.oracle,
            place=objection.place,
            detail=objection.detail,
            state=str(suspect.state) if suspect else "",
            message=case.message if case else "",
            field=case.field if case else "",
            mutation=case.mutation if case else "",
            campaign=suspect.numbered.campaign.name if suspect else "",
            case=suspect.numbered.number if suspect else 0,
            seed=self._config.seed,
            run=self._config.run_id,
            found_at=utc_now(),
            node=self._config.node,
            impl=self._node.impl,
            version=self._node.version,
            script=script,
            first=script,
            hits=0,
            also=self._also if objection.harm is Harm.DIFFERS else "",
        )
        self._hit(finding, objection, suspect)
        return finding

    def _name(self, objection: Objection, suspect: Suspect | None) -> str:
        """Returns the bucket; two places in one file that say the same are told apart by their lines."""
        name = bucket_of(objection, suspect.case if suspect else None, suspect.state if suspect else None)
        other = self.findings.get(name)
        if is_placed(objection):
            known = self._spots.get((objection.harm, _spot(objection)))
            if known:
                return known
            if other is not None:
                return f"{name} {_spot(objection).rpartition(':')[2]}"
        return name

    def _enter(self, finding: Finding, objection: Objection) -> None:
        """Takes a finding in, in the folder of its bucket."""
        self.findings[finding.bucket] = finding
        for seen in (objection, _objection(finding)):
            if is_placed(seen) and seen.harm is finding.harm:
                self._spots[finding.harm, _spot(seen)] = finding.bucket
        self._recognise(finding)
        finding.settle()
        self._leave_out(finding)

    def _hit(self, finding: Finding, objection: Objection, suspect: Suspect | None) -> None:
        """Counts a hit, and leaves out what hits again and again."""
        with self._writing:
            finding.hits += 1
            if objection.place:
                finding.places.add(objection.place)
            if suspect is not None and finding.without:
                finding.states.add(str(suspect.state))
            elif suspect is not None:
                finding.messages.add(suspect.case.message)
                finding.states.add(str(suspect.state))
                # A pair of lies says nothing about which of the two did it.
                if len(suspect.case.causes) == 1:
                    finding.causes.add(suspect.case.causes[0])
            if finding.status == FLAKY and finding.beyond_doubt:
                finding.status = SEEN
        self._leave_out(finding)

    def _leave_out(self, finding: Finding) -> None:
        """Leaves out what hits a bucket again and again; nothing can be left out that hits one without its message."""
        if finding.bucket not in self.findings:
            return
        if finding.without == TRAFFIC and finding.harm in BORNE and finding.before + finding.hits >= HITS:
            self._pass_over(finding, f"it was met {HITS} times, and ordinary traffic is enough for it")
        most = HITS if finding.status == CONFIRMED or finding.known or finding.harm in CERTAIN else HITS_FLAKY
        if finding.before + finding.hits >= most and not (finding.known and self._through_known):
            self._mask |= dict.fromkeys(finding.causes, finding)
            alike = Counter(kind for cause in finding.causes for kind in _kinds(cause))
            self._wide |= {kind: finding for kind, count in alike.items() if count >= WIDE}

    def behind(self, finding: Finding, objection: Objection | None) -> None:
        """Takes what is seen in new sessions behind a finding, before any other case, where nobody starts the node anew.

        What goes on there can no longer be told from what cases do.
        """
        if objection is None or finding.harm not in BORNE:
            return
        if (objection.harm, objection.place) == (finding.harm, finding.place):
            self._pass_over(finding, "the node goes on with it in new sessions, and nobody starts it anew")
            self._save(finding)

    def _pass_over(self, finding: Finding, why: str) -> None:
        """Has what shows whatever is sent no longer judged: it would be met for ever."""
        if self.unjudged.setdefault((finding.harm, finding.place), why) is why:
            finding.notes.append(f"It was not judged any more from then on in this run: {why}.")

    # Looking into it -------------------------------------------------------------------------------

    def _look_into(
        self, guess: Finding, objection: Objection, suspects: Sequence[Suspect], deadline: float
    ) -> Finding:
        """Finds the case that did it and confirms it; returns the finding with what this shows."""
        if not self._lab.able or not suspects:
            guess.notes.append(
                "The node was not started by this run, so nothing was tried on a fresh one."
                if suspects
                else "Nothing had been played when it was seen."
            )
            self._settle(guess, [])
            return guess
        try:
            culprit = self._attribute(objection, suspects, deadline)
            if culprit is not None:
                finding = self._show(guess, *culprit)
                if finding.tried is culprit[1]:
                    self._confirm(finding, culprit[1], deadline)
                    finding = self._joined_to_other(finding)
                return finding
        except HarnessError as error:
            guess.notes.append(f"It could not be looked into: {error}")
        finally:
            self._lab.rest()
        return self._nobody(guess, objection, suspects)

    def _nobody(self, guess: Finding, objection: Objection, suspects: Sequence[Suspect]) -> Finding:
        """Returns the finding of which nobody knows which case it was."""
        if self._is_kept(guess):
            return guess
        there = self._needing_nothing(objection)
        if there is not None:
            return self._taken_for(there, guess, objection)
        if (len(suspects) > 1 or objection.harm in DEADLY) and not is_placed(objection):
            there = self._unlaid(guess, objection)
            if there is not None:
                return there
        two = objection.harm is Harm.DIFFERS
        guess.script = guess.first = suspects[-1].alone if two else joined(suspects[-RECENT:])
        if self._to_compare(guess):
            # That is done when there is nothing else to look into.
            guess.status = OPEN
            self._save(guess)
        else:
            self._settle(guess, [])
        return guess

    def _unlaid(self, guess: Finding, objection: Objection) -> Finding | None:
        """Takes back what a finding says of a case: none of many can be told to have done it.

        Returns:
            The finding that was met before without one; None when this is the first.
        """
        guess.bucket = bucket_of(objection, None, State(guess.state))
        there = self.findings.get(guess.bucket)
        if there is not None:
            return self._taken_for(there, guess, objection)
        guess.message = guess.field = guess.mutation = ""
        guess.messages.clear()
        guess.causes.clear()
        return None

    def _taken_for(self, there: Finding, guess: Finding, objection: Objection) -> Finding:
        """Counts a guess as a hit of a finding that is there already; returns that one."""
        self._hit(there, objection, None)
        drop_folder(guess.path)
        return there

    def _show(self, guess: Finding, suspect: Suspect, tried: Tried) -> Finding:
        """Returns the finding of what a try has shown, which may be there already; else it has to be confirmed.

        Another case may have done it, or the process have died a moment after it stopped answering.
        """
        objection = tried.objection
        assert objection is not None
        finding = self._make(objection, suspect)
        kept = self._is_kept(guess)
        there = self._called(finding.bucket) or self._earlier(finding)
        if there is not None:
            if there is guess:
                self._learn(there, finding, tried)
            elif there.bucket in self.findings:
                self._hit(there, objection, suspect)
            if not kept:
                drop_folder(guess.path)
            return there
        if kept:
            finding.path = open_folder(self._folder, finding.bucket)
        else:
            finding.path = guess.path
        finding.shown_by(tried)
        finding.first = tried.script
        self._save(finding)
        return finding

    def _is_kept(self, guess: Finding) -> bool:
        """Tells whether what is looked into is a finding already, of which more is to be learned."""
        return self.findings.get(guess.bucket) is guess

    def _learn(self, finding: Finding, shown: Finding, tried: Tried) -> None:
        """Takes over what a try has shown of a bucket of which nobody knew which case it was."""
        for name in ("state", "message", "field", "mutation", "campaign", "case"):
            setattr(finding, name, getattr(shown, name))
        finding.shown_by(tried)
        finding.first = tried.script
        self._save(finding)

    def _attribute(
        self,
        objection: Objection,
        suspects: Sequence[Suspect],
        deadline: float,
        before: Sequence[Suspect] = (),
    ) -> tuple[Suspect, Tried] | None:
        """Returns the suspect that did it, with a try on a fresh node that shows it; None when nothing does.

        Of what was played before them only that is tried which is known to do so.
        """
        until = min(deadline, time.monotonic() + ATTRIBUTE_SECONDS)
        if objection.harm in SLOW:
            return self._attribute_slow(objection, suspects, deadline)
        found = (
            self._first(objection, self._likeliest(suspects), until)
            or self._familiar(objection, [*before, *suspects], until)
            or self._first(objection, self._less_likely(suspects), until)
        )
        if found is not None:
            return found[0][-1], found[1]
        # Neither the last nor its session: one that is further back, or many of them together.
        scripts = [suspect.as_sent for suspect in suspects]
        seen = self._lab.walk(scripts, partial(akin, objection), until)
        if seen is None and objection.harm in DEADLY:
            seen = self._lab.walk(map(attended, scripts), partial(akin, objection), until)
        tries: list[tuple[Group, Script]] = []
        if seen is not None:
            suspect = suspects[seen[0]]
            before = suspects[: seen[0] + 1]
            # Harm that takes long to be seen shall not be given up so near to the end.
            until = min(deadline, max(until, time.monotonic() + 4 * seen[1].seconds + 2))
            ways = dict.fromkeys((suspect.alone, suspect.as_sent, seen[1].script, suspect.script))
            tries += [((suspect,), script) for script in ways]
            # It may have taken its time to die.
            tries += [((one,), one.as_sent) for one in reversed(before[-LATE:-1])]
            tries.append((before, joined(before)))
        tries += [(suspects[-count:], joined(suspects[-count:])) for count in _doubling(len(suspects))]
        found = self._first(objection, iter(tries), until, LINGER)
        if objection.harm in CERTAIN and (found is None or len(found[0]) > 1):
            until = max(deadline, time.monotonic() + DELAYED_SECONDS)
            found = self._delayed(objection, suspects if found is None else found[0], until) or found
        return found and (found[0][-1], found[1])

    def _familiar(self, objection: Objection, suspects: Group, until: float) -> tuple[Group, Tried] | None:
        """Tries those of many suspects that are about a message of which a process is known to die as this one did.

        It may take its time to die, and then others seem to have done it, or many together.
        """
        if objection.harm not in CERTAIN or is_placed(objection) or len(suspects) == 1:
            return None
        place = without_line(objection.place)
        for finding in list(self.findings.values()):
            same = finding.harm is objection.harm and without_line(finding.place) == place
            if same and finding.status in PROVEN and finding.tried is not None and not finding.without:
                like = [one for one in reversed(suspects) if one.case.message in finding.messages][:RECENT]
                tries: Iterator[tuple[Group, Script]] = (((one,), one.as_sent) for one in like)
                found = self._first(objection, tries, until, linger_of(finding.waited))
                if found is not None:
                    return found
        return None

    def _delayed(self, objection: Objection, suspects: Group, until: float) -> tuple[Group, Tried] | None:
        """Returns who made a process die that takes its time to die, with a try that shows it.

        Cases are played from the first one on, and then the process is waited for: the last one of the fewest of which
        it dies is the one that did it.
        """
        shown = self._first(objection, iter([(suspects, joined(suspects))]), until, LONGEST_LINGER)
        if shown is not None and not shown[1].waited:
            # It died while they were played: of the last one then, most likely.
            shown = self._fewest(objection, shown, until, at_once=True)
            if shown is not None and len(fewer := shown[0][:-1]):
                tries = iter([(fewer, joined(fewer))])
                before = self._first(objection, tries, until, linger_of(shown[1].seconds))
                shown = (before and self._fewest(objection, before, until)) or shown
        elif shown is not None:
            shown = self._fewest(objection, shown, until)
        if shown is None:
            return None
        last = shown[0][-1]
        alone = (((last,), script) for script in (last.alone, last.script))
        return self._first(objection, alone, until, linger_of(shown[1].seconds)) or shown

    def _fewest(
        self, objection: Objection, shown: tuple[Group, Tried], until: float, *, at_once: bool = False
    ) -> tuple[Group, Tried] | None:
        """Returns the fewest of some cases, from the first one on, that show the harm.

        When time is up these are those found by then, where the process has said where it failed; None where it has not.

        Args:
            objection: What was seen.
            shown: All of them, with a try that shows it.
            until: On ``time.monotonic``.
            at_once: A process that dies of them is taken to do so at once.
        """
        suspects, too_few = shown[0], 0
        while (count := len(shown[0])) - too_few > 1:
            if time.monotonic() >= min(until, self._latest):
                # What is called by its place needs no case, and can be made smaller from here.
                return shown if is_placed(objection) else None
            group = suspects[: (count + too_few) // 2]
            # It is not known how long after the first case it died, only that it was not longer.
            linger = LINGER if at_once else linger_of(shown[1].seconds)
            fewer = self._first(objection, iter([(group, joined(group))]), until, linger)
            if fewer is None:
                too_few = len(group)
            else:
                shown = fewer
        return shown

    def _first(
        self, objection: Objection, tries: Iterator[tuple[Group, Script]], until: float, linger: float = 0.0
    ) -> tuple[Group, Tried] | None:
        """Returns the first try that shows the harm, and what was played in it."""
        for group, script in tries:
            if time.monotonic() >= min(until, self._latest):
                return None
            tried = self._lab.play(script, case=group[-1].case, linger=linger)
            if tried.objection is not None and akin(objection, tried.objection):
                return group, tried
        return None

    @staticmethod
    def _likeliest(suspects: Group) -> Iterator[tuple[Group, Script]]:
        """Yields what is most likely: the last case alone, then what was played on its link."""
        last = suspects[-1]
        yield (last,), last.alone
        if last.as_sent != last.alone:
            yield (last,), last.as_sent
        if len(last.script.steps) > len(last.alone.steps):
            yield (last,), last.script

    @staticmethod
    def _less_likely(suspects: Group) -> Iterator[tuple[Group, Script]]:
        """Yields others of the last cases, that got no answer; then the last one once more."""
        last = suspects[-1]
        for suspect in _odd(suspects[:-1])[: RECENT // 2]:
            yield (suspect,), suspect.as_sent
        # Some harm is a matter of luck.
        yield (last,), last.alone
        yield (last,), last.alone

    def _attribute_slow(
        self, objection: Objection, suspects: Sequence[Suspect], deadline: float
    ) -> tuple[Suspect, Tried] | None:
        """The same for what shows only when it is done again and again.

        All that was played is tried in groups; the group by which the node grows, or becomes slow, most is split again.
        """
        which = {Harm.LEAK: 1, Harm.SLOW: 2}.get(objection.harm, 0)
        left = _one_of_each(suspects)
        if objection.harm is Harm.BUSY and (found := self._busied(objection, left[::-1], deadline)):
            return found
        while len(left) > 1:
            groups = [left[at::GROUPS] for at in range(min(GROUPS, len(left)))]
            grown = []
            for group in groups:
                if time.monotonic() >= min(deadline, self._latest):
                    return None
                tried = self._again_and_again(group, GROUP_SECONDS)
                if tried.objection is not None and akin(objection, tried.objection):
                    grown.append(float("inf"))
                    break
                grown.append(tried.grown[which])
            if max(grown) <= 0:
                return None
            left = groups[grown.index(max(grown))]
        return self._shown_by(left[0], objection, ROUNDS)

    def _busied(
        self, objection: Objection, newest: Sequence[Suspect], deadline: float
    ) -> tuple[Suspect, Tried] | None:
        """The same for a processor that does not come to rest: mostly one case is enough, and groups take long."""
        scripts = [suspect.as_sent for suspect in newest]
        until = min(deadline, self._latest)
        seen = self._lab.walk(scripts, partial(akin, objection), until, When.TREND)
        if seen is None:
            return None
        suspect = newest[seen[0]]
        return self._shown_by(suspect, objection, TWICE) or self._shown_by(suspect, objection, ROUNDS)

    def _shown_by(self, suspect: Suspect, objection: Objection, rounds: int) -> tuple[Suspect, Tried] | None:
        """Returns a suspect with a try that shows the harm when it is played so often; None when it does not."""
        tried = self._again_and_again([suspect], SLOW_SECONDS, rounds)
        shows = tried.objection is not None and akin(objection, tried.objection)
        return (suspect, tried) if shows else None

    def _again_and_again(self, group: Sequence[Suspect], seconds: float, rounds: int = ROUNDS) -> Tried:
        script = joined(group) if len(group) > 1 else group[0].alone
        return self._lab.play(script, rounds=rounds, seconds=seconds, case=group[-1].case)

    def _confirm(self, finding: Finding, tried: Tried, deadline: float) -> None:
        """Plays it on fresh nodes, n of m times; without its message first, which may be innocent."""
        try:
            if self._confirm_without(finding, tried, deadline):
                return
        except NoFreshNode as error:
            finding.notes.append(f"It could not be tried without its message: {error}")
        until = min(deadline, time.monotonic() + CONFIRM_SECONDS)
        linger = linger_of(finding.waited)
        results, _ = self._times(finding, finding.script, [tried] if tried.fresh else [], until, linger)
        self._settle(finding, results)

    def _times(
        self, finding: Finding, script: Script, tries: list[Tried], until: float, linger: float
    ) -> tuple[list[bool], Tried | None]:
        """Plays a script on fresh nodes until it is clear whether it shows the fault.

        Args:
            finding: The fault.
            script: What is played.
            tries: Tries of it that showed the fault.
            until: On ``time.monotonic``; then as often as there was time for.
            linger: See ``Lab.play``.

        Returns:
            Whether it was seen, for each try; the last one in which it was.
        """
        results = [True] * len(tries)
        last = self._try_again(
            finding,
            results,
            lambda: self._lab.play(script, rounds=_rounds(finding.rounds), linger=linger),
            lambda: bool(results) and time.monotonic() >= min(until, self._latest),
        )
        return results, last or (tries[-1] if tries else None)

    def _try_again(
        self, finding: Finding, results: list[bool], play: Callable[[], Tried], enough: Callable[[], bool]
    ) -> Tried | None:
        """Plays something on fresh nodes until it is clear whether it is true, or ``enough`` says so.

        Args:
            finding: What it is.
            results: Whether it was seen, for each try; what comes is added.
            play: Plays it once.
            enough: Is asked before each try.

        Returns:
            The last of these tries in which it was seen.
        """
        last = None
        while not _is_clear(results) and not enough():
            try:
                tried = play()
            except NoFreshNode as error:
                finding.notes.append(f"It could not be tried more often: {error}")
                break
            shows = tried.objection is not None and akin(_objection(finding), tried.objection)
            results.append(shows)
            last = tried if shows else last
        return last

    def _confirm_without(self, finding: Finding, tried: Tried, deadline: float) -> bool:
        """Sees whether the fault shows without the message: only coming into the state; with nothing at all.

        What showed that is confirmed as any finding is, and then it is what the finding is about.

        Returns:
            Whether it does; otherwise the finding is as it was.
        """
        controls = [(STATE, bare(finding.script))] if bare(finding.script) != finding.script else []
        controls += [(TRAFFIC, finding.script.with_steps(()))]
        linger = min(LONGEST_LINGER, max(LINGER, tried.seconds))
        kept = _rounds(finding.rounds)
        found = False
        for kind, script in controls:
            if script == finding.script:
                continue
            if time.monotonic() >= min(deadline, self._latest):
                if not found:
                    finding.notes.append("There was no time to see whether it shows without its message.")
                break
            seen = self._lab.play(script, rounds=kept, seconds=SLOW_SECONDS, linger=linger)
            if not comes_again(finding, seen):
                break
            until = min(deadline, time.monotonic() + CONFIRM_SECONDS)
            results, last = self._times(finding, script, [seen], until, linger)
            assert last is not None
            if not _is_true(results):
                how = f"{results.count(True)} of {len(results)} times"
                finding.notes.append(f"Without its message it was seen {how}, which is not often enough.")
                break
            self._lay_on_none(finding, kind, last)
            self._settle(finding, results)
            found = True
        return found

    def _lay_on_none(self, finding: Finding, kind: str, tried: Tried) -> None:
        """Takes back what a finding says of a case and its message."""
        assert tried.objection is not None
        finding.without = kind
        finding.shown_by(tried)
        finding.message = finding.field = ""
        finding.mutation = "nothing" if kind == TRAFFIC else "nothing but to come into its state"
        finding.messages.clear()
        finding.causes.clear()
        if kind == TRAFFIC:
            finding.state = ""
            finding.minimised = Minimised(0, 0, 0.0, 0, done=True)
        seen = tried.objection
        finding.harm, finding.oracle, finding.place, finding.detail = (
            seen.harm,
            seen.oracle,
            seen.place,
            seen.detail,
        )
        finding.bucket = bucket_without(seen, kind)

    def _prove(self, finding: Finding) -> None:
        """Runs the test of a finding: it may pass although the fault is there, and then that is said."""
        tried = finding.tried
        if finding.status != CONFIRMED or finding.test_fails is not None or not self._lab.able:
            return
        if tried is not None and finding.path is not None and time.monotonic() < self._latest:
            finding.test_fails = fails_on(finding.node, str(finding.harm), tried)
            self._save(finding)

    def _joined_to_other(self, finding: Finding) -> Finding:
        """Returns the finding that needs no message and was met before, hit once more; else this one."""
        if not finding.without:
            return finding
        # It may have been kept by the name of a case that nobody could tell.
        for name in [name for name, one in self.findings.items() if one is finding]:
            del self.findings[name]
            if name != finding.bucket:
                # Rows have that name.
                renamed = replace(finding, bucket=name)
                self.merged.append(_emptied(renamed, finding.bucket, "it needs no message"))
        there = self.findings.get(finding.bucket) or self._earlier(finding)
        if there is None or there is finding:
            return finding
        if there.bucket in self.findings:
            self._hit(there, _objection(finding), None)
            there.states |= finding.states
        # Of those the kept one was met by.
        there.case_buckets |= finding.case_buckets
        if finding.path != there.path:
            drop_folder(finding.path)
        return there

    def _settle(self, finding: Finding, results: Sequence[bool]) -> None:
        hits = results.count(True)
        finding.confirmed = hits, len(results)
        if _is_true(results):
            finding.status = CONFIRMED
        elif finding.beyond_doubt:
            finding.status = SEEN
        else:
            finding.status = FLAKY
        self._save(finding)

    # One fault, one finding ------------------------------------------------------------------------

    def _called(self, bucket: str) -> Finding | None:
        """Returns the finding of a bucket, whatever it is called by now."""
        return self.findings.get(self._names.get(bucket, bucket))

    def _merge(self, finding: Finding) -> None:
        """Joins a finding that was made smaller to one that is the same then, though it was met by another message."""
        if finding.minimised is None or self.findings.get(finding.bucket) is not finding:
            return
        self._call_by_field(finding)
        finding = self._call_by_message(finding)
        for other in list(self.findings.values()):
            there = other is not finding and self.findings.get(other.bucket) is other
            why = why_one(finding, other) if there and other.minimised is not None else ""
            if why:
                graver = _gravity(finding) < _gravity(other)
                gone, kept = (other, finding) if graver else (finding, other)
                self._join(gone, kept, why)
                finding = kept

    def _join(self, gone: Finding, kept: Finding, why: str) -> None:
        """Takes all that was told as one finding for hits of another one, which is the same fault."""
        del self.findings[gone.bucket]
        self._rename(gone.bucket, kept.bucket)
        for left_out in (self._mask, self._wide):
            left_out.update({cause: kept for cause, one in left_out.items() if one is gone})
        with self._writing:
            kept.hits += gone.hits
            kept.before += gone.before
            kept.masked += gone.masked
            for name in ("places", "messages", "states", "causes", "case_buckets"):
                getattr(kept, name).update(getattr(gone, name))
            # An earlier part of the run may have rows of it.
            kept.case_buckets.add(gone.bucket)
            kept.notes.append(f"Met as `{gone.bucket}` too; {why}.")
            drop_folder(gone.path)
            _emptied(gone, kept.bucket, why)
        self.merged.append(gone)
        self._leave_out(kept)
        self._save(kept)

    def _rename(self, old: str, new: str) -> None:
        """Has what would fall into one bucket fall into another one."""
        self._names |= {name: new for name, to in self._names.items() if to == old}
        self._names[old] = new

    def _call_by_field(self, finding: Finding) -> None:
        """Calls a finding by the field that it is about, where that is not a matter of the message that carries it.

        Otherwise it would be called by whichever message was met first.
        """
        field = about(finding)
        if field:
            finding.about = field
            self._recognise(finding)
            self._call(finding, field, "it is called by the field that it is about")
            self._save(finding)

    def _call_by_message(self, finding: Finding) -> Finding:
        """Calls a finding by the message that it needs, where its case was to be about another one.

        Returns:
            The finding that is called so already, hit as often besides; else this one.
        """
        message = other_message(finding)
        if not message or about(finding):
            return finding
        why = f"what is sent is read as {message}"
        there = self._called(self._called_by(finding, message))
        if there is not None and there is not finding:
            if there.status != CONFIRMED:
                return finding
            self._join(finding, there, why)
            return there
        finding.message = message
        self._call(finding, message, why)
        self._recognise(finding)
        return finding

    def _recognise(self, finding: Finding) -> None:
        """Sees whether a finding is known, going by what it is called by now."""
        known = self._known.of(finding.signature, finding.impl, finding.version)
        finding.known = known.id if known else ""

    @staticmethod
    def _called_by(finding: Finding, words: str) -> str:
        return " ".join([_seen(_objection(finding)), phase_of(State(finding.state)), words])

    def _call(self, finding: Finding, words: str, why: str) -> None:
        """Calls a finding by other words than those that it was met by, unless another one is called so."""
        name = self._called_by(finding, words)
        if name == finding.bucket or name in self.findings:
            return
        with self._writing:
            old = replace(finding, bucket=finding.bucket)
            del self.findings[old.bucket]
            self._rename(old.bucket, name)
            self.merged.append(_emptied(old, name, why))
            finding.case_buckets.add(old.bucket)
            finding.bucket = name
            finding.move()
        self.findings[name] = finding
        self._save(finding)

    # Making it smaller -----------------------------------------------------------------------------

    def minimise(self, finding: Finding, seconds: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Makes the script of a finding smaller; nothing is lost when that fails.

        Args:
            finding: Confirmed; others are left as they are.
            seconds: So long it may take.
            stop: Tells, between two tries, that there is no more time for it.

        Raises:
            Stopped: ``stop`` has said so; the finding is as it was, but for what is worth a try next time.
        """
        if finding.status != CONFIRMED or finding.minimised is not None or not self._lab.able:
            return
        if finding.harm is Harm.DIFFERS:
            # What is left might differ for another reason.
            return
        try:
            minimise(self._lab, finding, seconds, stop)
        except HarnessError as error:
            finding.notes.append(f"It could not be made smaller: {error}")
        finally:
            self._lab.rest()
        self._save(finding)
        self._prove(finding)

    def _to_compare(self, finding: Finding) -> bool:
        """Tells whether nobody has seen yet whether two fresh nodes differ as two that were used did."""
        return finding.harm is Harm.DIFFERS and not finding.confirmed[1] and self._lab.compares

    def _compare(self, finding: Finding, stop: Callable[[], bool]) -> None:
        """Plays what two nodes answer differently on fresh nodes of both kinds, n of m times.

        Raises:
            Stopped: ``stop`` has said so; the finding is as it was.
        """

        def enough() -> bool:
            if stop():
                raise Stopped
            return False

        results: list[bool] = []
        shown = self._try_again(finding, results, lambda: self._lab.compare(finding.script), enough)
        if shown is not None:
            finding.shown_by(shown)
        self._settle(finding, results)

    def minimise_all(self, seconds: float, begin: Callable[[int, int], None]) -> None:
        """Makes all findings smaller that are not yet, behind the campaign, and tries those again that take two nodes.

        Args:
            seconds: For each.
            begin: Is told the number of each before it is its turn, and how many there are.
        """
        # Those first that have a limit of their own: to make others smaller takes longer than that.
        findings = sorted(self.findings.values(), key=lambda finding: not self._to_compare(finding))
        until = time.monotonic() + COMPARE_SECONDS
        for number, finding in enumerate(findings, 1):
            begin(number, len(findings))
            if self._to_compare(finding):
                # There may be hundreds of them.
                try:
                    self._compare(finding, lambda: time.monotonic() >= until)
                except Stopped:
                    self._settle(finding, [])
            self.minimise(finding, seconds)
            self._merge(finding)

    def _save(self, finding: Finding) -> None:
        with self._writing:
            finding.save()

    # Leaving out -----------------------------------------------------------------------------------

    def leaves_out(self, case: Case) -> bool:
        """Tells whether a case is not to be played because what it does is known by now, and counts it."""
        for cause in case.causes:
            held = self._held.get(cause)
            if held is not None:
                held.masked += 1
                return True
            finding = self._mask.get(cause)
            if finding is None:
                for kind in _kinds(cause):
                    finding = self._wide.get(kind)
                    if finding is not None:
                        self._samples[kind] += 1
                        if self._samples[kind] % SAMPLE == 0:
                            return False
                        break
            if finding is not None:
                finding.masked += 1
                self.masked[cause] += 1
                return True
        return False


class Stopped(Exception):
    """There was no more time for it."""


def minimise(lab: Lab, finding: Finding, seconds: float, stop: Callable[[], bool] = lambda: False) -> None:
    """Makes the script of a finding smaller and confirms the smallest on fresh nodes.

    Raises:
        NoFreshNode: There is none.
        Stopped: ``stop`` has said so.
    """
    began = time.monotonic()
    deadline = began + seconds
    wanted = _objection(finding)
    slow = finding.harm in SLOW
    origin = finding.script
    linger = linger_of(finding.waited) if finding.waited else 0.0

    def harms(script: Script, *, fresh: bool = False) -> bool:
        if stop():
            raise Stopped
        if not _same_kind(script, origin, wanted):
            return False
        tried = lab.play(
            script,
            fresh=fresh or slow or linger > 0,
            rounds=_rounds(finding.rounds),
            seconds=SLOW_SECONDS,
            linger=linger,
        )
        if not comes_again(finding, tried):
            return False
        if not tried.fresh:
            # What came before may have helped.
            return harms(script, fresh=True)
        finding.smaller.append(script)
        return True

    share, least = (WAITED_SHARE, WAITED_LEAST) if finding.harm in WAITED else (CONFIRM_SHARE, LEAST_SHARE)
    smallest, tries, done, hurry = origin, 0, False, True
    tried: set[str] = set()
    while not done and (left := deadline - time.monotonic()) >= least * seconds:
        # Some of the time is for seeing that the smallest does it again and again.
        with lab.hurried() if hurry else nullcontext():
            result = shrink(smallest, harms, deadline - share * left, finding.smaller[::-1], tried)
        smaller = result.kept[1:]
        true = _smallest(
            smaller, lambda script: _confirmed(lab, finding, script, wanted), deadline + seconds / 4
        )
        smallest, tries = result.kept[true], tries + result.tries
        # What showed only in a hurry is not it.
        if true < len(smaller):
            hurry, tried = False, set()
            finding.smaller.clear()
        done = result.done and true == len(smaller)
    finding.minimised = Minimised(
        finding.script.sends, finding.script.size, time.monotonic() - began, tries, done
    )


def _smallest(kept: Sequence[Script], is_true: Callable[[Script], bool], late: float) -> int:
    """Looks for the smallest of some scripts that is true; the smallest of all mostly is, those before it likelier.

    Args:
        kept: Each smaller than the one before.
        is_true: Tells whether it is, and takes it then.
        late: On ``time.monotonic``; nothing is tried behind it.

    Returns:
        How many of them there are up to the one that was taken; 0 when none was.
    """
    true, false = 0, len(kept) + 1
    at = len(kept)
    while false - true > 1 and time.monotonic() < late:
        if is_true(kept[at - 1]):
            true = at
        else:
            false = at
        at = (true + false) // 2
    return true


def _emptied(finding: Finding, other: str, why: str) -> Finding:
    """Takes everything from a finding that is another one; returns it, for the rows that have its name."""
    finding.hits = finding.before = finding.masked = 0
    finding.status, finding.path = FLAKY, None
    finding.detail = f"the same as {other}: {why}"
    return finding


def _gravity(finding: Finding) -> int:
    """Returns how grave what is seen is, 0 for the gravest."""
    return list(Harm).index(finding.harm)


def _confirmed(lab: Lab, finding: Finding, script: Script, wanted: Objection) -> bool:
    """Plays a smaller script with all the patience there is; it is the finding's when it does it every time."""
    rounds, linger = _rounds(finding.rounds), linger_of(finding.waited)
    tries: list[Tried] = []
    while len(tries) < WANTED:
        beside = WANTED if finding.harm in WAITED else 1
        more = lab.play_beside(script, beside, rounds=rounds, linger=linger)
        if not all(tried.objection is not None and _same(wanted, tried.objection) for tried in more):
            return False
        tries += more
    finding.shown_by(tries[-1])
    finding.confirmed = len(tries), len(tries)
    return True


def _is_true(results: Sequence[bool]) -> bool:
    """Tells whether something came again on fresh nodes as often as was asked for."""
    return results.count(True) >= WANTED or (bool(results) and all(results))


def _is_clear(results: Sequence[bool]) -> bool:
    """Tells whether something was tried so often on fresh nodes that it is clear whether it is true."""
    hits = results.count(True)
    return len(results) >= TRIES or hits >= WANTED or len(results) - hits > TRIES - WANTED


def _rounds(rounds: int) -> int:
    """Returns how often something is played that showed after so many rounds."""
    return 1 if rounds == 1 else min(ROUNDS, 2 * rounds)


def _objection(finding: Finding) -> Objection:
    return Objection(finding.oracle, finding.harm, finding.place, finding.detail)


def comes_again(finding: Finding, tried: Tried) -> bool:
    """Tells whether a try shows the very fault that a finding is about."""
    return tried.objection is not None and _same(_objection(finding), tried.objection)


def _same(wanted: Objection, now: Objection) -> bool:
    """Tells whether an objection is to the very same fault."""
    if is_placed(wanted):
        return now.harm in DEADLY and _spot(wanted) == _spot(now)
    return (now.harm is wanted.harm and without_line(now.place) == without_line(wanted.place)) or (
        now.harm in SERVING and wanted.harm in SERVING
    )


def _same_kind(script: Script, origin: Script, wanted: Objection) -> bool:
    """Tells whether a smaller script is still about the same thing, where nothing but that tells faults apart."""
    if is_placed(wanted):
        return True
    phases = {phase_of(step.state) for step in script.steps if step.state is not None}
    before = {phase_of(step.state) for step in origin.steps if step.state is not None}
    return phases <= before and bool(names_in(script) & names_in(origin) or not names_in(origin))


def names_in(script: Script) -> set[str]:
    """Returns the names of the messages that a script sends, as far as its bytes can be read; also of what is in pieces."""
    names: set[str] = set()
    pieces: dict[str, bytes] = {}
    scouting = any(step.state is State.SCOUTING for step in script.steps)
    for step in script.steps:
        if step.do is Do.SEND and step.data.pieces:
            raw = b"".join(
                piece if isinstance(piece, bytes) else _STAND_IN.get(piece, b"\x01")
                for piece in step.data.pieces
            )
            read = contents(raw[:4096], Kind.SCOUTING if scouting else None)
            names.update(read.names.split())
            for message in read.messages:
                if isinstance(message, Fragment):
                    pieces[step.link] = pieces.get(step.link, b"") + bytes(message.data or b"")
                    names.update(contents(pieces[step.link][:4096], Kind.NETWORK).names.split())
                    if not message.M:
                        del pieces[step.link]
    return names - {"FRAME"} or names


_STAND_IN = {"size": b"", "size32": b"", "zid": bytes(range(1, 17)), "cookie": b"\x01c"}


def _ended_with(suspects: Sequence[Suspect]) -> Sequence[Suspect]:
    """Returns the suspect, alone, of which a process is gone: it is behind the last one that was answered.

    That is the last one whose link the node ended without a word, as a process ends its links with itself; else the
    first one that got no answer. What was played behind it, or beside it, only met that. All where there is no such.
    """
    answered = [index for index, one in enumerate(suspects) if one.played and one.played.ending in ANSWERED]
    behind = suspects[answered[-1] + 1 if answered else 0 :]
    sent = [one for one in behind if one.played is not None and one.played.sent]
    ended = [one for one in sent if one.played is not None and one.played.ending is Ending.REFUSED]
    return ended[-1:] or sent[:1] or suspects


def _odd(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Returns those of the last suspects that got no answer, the first of them first."""
    return [
        suspect
        for suspect in suspects[-64:]
        if suspect.played is not None and (suspect.played.ending is Ending.SILENT or suspect.played.failure)
    ]


def _kinds(cause: Cause) -> tuple[Cause, ...]:
    """Returns what a cause is one of: the same kind of lie anywhere in its source; about the same field anywhere."""
    tail = cause.field.rpartition(".")[2]
    kinds = [Cause(cause.source, "*", cause.kind)]
    if tail:
        kinds.append(Cause("*", tail, cause.kind))
    return tuple(kinds)


def _doubling(most: int) -> Iterator[int]:
    count = 2
    while count < most:
        yield count
        count *= 4
    if most > 1:
        yield most


def _one_of_each(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Returns the newest suspect of each cause, at most 256 of them."""
    newest: dict[tuple[Cause, ...], Suspect] = {}
    for suspect in suspects:
        newest.pop(suspect.case.causes, None)
        newest[suspect.case.causes] = suspect
    return list(newest.values())[-256:]
