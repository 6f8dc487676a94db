"""From an objection to a finding: who looks into it and when, which finding it is, what becomes of that."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from conformance.config import RunConfig
from conformance.errors import HarnessError
from conformance.nodes.base import Node
from fuzz.cases import Case, Cause
from fuzz.compared import Class
from fuzz.findings import (
    CONFIRMED,
    FLAKY,
    FOLDER,
    OPEN,
    PROVEN,
    SEEN,
    TRAFFIC,
    WITNESS,
    Finding,
    Minimised,
    NoFinding,
    drop_folder,
    folder_of,
    open_folder,
    without_line,
)
from fuzz.kinship import about, other_message, part_seen, phase_of, same_unknown, state_of, why_one
from fuzz.known import KnownFindings
from fuzz.lab import ROUNDS, SLOW, Lab, Tried
from fuzz.oracles import DEADLY, SERVING, Harm, Objection
from fuzz.oracles.places import in_file
from fuzz.regression import fails_on
from fuzz.script import Script
from fuzz.shrink import cost_of
from fuzz.states import State
from fuzz.triage.attribution import ATTRIBUTE_SECONDS, RECENT, Attribution
from fuzz.triage.confirming import CONFIRM_SECONDS, SLOW_SECONDS, Confirming, Stopped
from fuzz.triage.leaving_out import HITS, LeftOut
from fuzz.triage.signature import beginning_of, bucket_of, comes_again, is_placed, objection_of, spot
from fuzz.triage.smaller import minimise
from fuzz.triage.suspects import Suspect, ended_with, joined, odd
from spark_reports.rows import utc_now

COMPARE_SECONDS = 60.0
"""So long all of what two nodes answer differently may be tried again behind the campaign, on fresh nodes."""

BORNE = frozenset(
    {
        *(Harm.DISTURBED, Harm.UNDUE, Harm.PAUSE, Harm.SLOW, Harm.BUSY, Harm.UNDECODABLE, Harm.OVERDUE),
        # Of a process that lives on: its end is another harm.
        Harm.PANIC,
    }
)
"""With these a node goes on, and other harm shows all the same: where ordinary traffic is enough for one of them, it is
not judged any more behind ``HITS`` hits."""

CHANCES = 5
"""What ended a process, and could not be laid on a case, is played again so often until it comes again."""

FEW = 3
"""A finding of so many messages is small."""

HINTS = 3
"""So many of what hits a finding are tried first when it is made smaller."""

LOOKS = 3
"""A bucket of which nobody could tell which case it was is looked into again, so often, when one case surely hits it."""

MOST_OPEN = 12
"""So many objections wait until somebody looks into them; with more of them the campaign waits."""

TOGETHER = frozenset({"handshake", "session"})
"""Parts of a conversation that are tried on one node by turns."""

ROOM_SECONDS = 1.0
"""So long it waits; then one more is counted with those that wait and look the same."""


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
        finding: What is being confirmed; None while the case that did it is looked for. In the end what it is taken for.
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


# The signature --------------------------------------------------------------------------------------


S = TypeVar("S")
T = TypeVar("T")


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
        self._left_out = LeftOut(through_known=through_known)
        self._folder = config.run_dir / FOLDER
        self.findings: dict[str, Finding] = {}
        self.masked = self._left_out.masked
        self.merged: list[Finding] = []
        self.unjudged = lab.unjudged
        self._names: dict[str, str] = {}
        self._spots: dict[tuple[Harm, str], str] = {}
        self._looks: Counter[str] = Counter()
        self._open: list[Open] = []
        self._thread: ThreadPoolExecutor | None = None
        self._latest = math.inf
        self._small: Future[bool] | None = None
        self._large: list[Finding] = []
        self._cramped: list[Finding] = []
        self._late: list[tuple[Open, Finding]] = []
        self._writing = threading.Lock()
        self._attribution = Attribution(lab, self.findings, self._over)
        self._confirming = Confirming(lab, self._over, self._save)

    # Finding ---------------------------------------------------------------------------------------

    def found(
        self,
        objection: Objection,
        suspects: Sequence[Suspect],
        deadline: float | None = None,
        buckets: Iterable[str] = (),
        witness: Callable[[Path], None] | None = None,
    ) -> Finding:
        """Takes an objection: finds the case that did it, sees whether it comes again, keeps it.

        Args:
            objection: What the oracle saw.
            suspects: What was played since the node was known to be well, the newest last.
            deadline: On ``time.monotonic``: by then it shall be done.
            buckets: Those that the rows of the cases have behind which it was seen.
            witness: Writes a capture of the traffic before it was seen.

        Returns:
            The bucket it fell into, saved.
        """
        suspects = ended_with(suspects) if objection.harm is Harm.GONE else suspects
        deadline = time.monotonic() + CONFIRM_SECONDS + ATTRIBUTE_SECONDS if deadline is None else deadline
        finding = self._met(objection, suspects)
        if finding is None:
            guess = self._guess(objection, suspects, witness)
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

    def _guess(
        self,
        objection: Objection,
        suspects: Sequence[Suspect],
        witness: Callable[[Path], None] | None = None,
    ) -> Finding:
        """Returns a finding as it seems, saved before anybody looks into it, so that nothing is lost whatever happens."""
        guess = self._make(objection, suspects[-1] if suspects else None)
        if len(suspects) > 1:
            # If this process is killed, that is all there is to play again.
            guess.script = guess.first = joined(suspects[-RECENT:])
        guess.path = open_folder(self._folder, guess.bucket)
        if witness is not None:
            witness(guess.path / WITNESS)
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
        witness: Callable[[Path], None] | None = None,
    ) -> None:
        """Takes an objection as ``found`` does, and looks into it while the campaign goes on.

        Args:
            objection: What the oracle saw.
            suspects: What was played since the node was known to be well, the newest last.
            seconds: So long it may take once it is its turn.
            before: What was played in front of a suspect that seems to be sure.
            buckets: Those that the rows of the cases have behind which it was seen.
            witness: Writes a capture of the traffic before it was seen.
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
            self.found(objection, suspects, buckets=buckets, witness=witness)
            return
        there = self._alike(objection, suspects) or self._like_it_where_full(objection)
        if there is not None:
            there.again.append((objection, suspects[-1] if len(suspects) == 1 else None))
        else:
            while len(self._open) >= MOST_OPEN:
                self.collect(wait=True)
            there = Open(self._guess(objection, suspects, witness), objection, suspects, seconds, before)
            self._open.append(there)
        there.buckets.update(buckets)
        if len(suspects) == 1:
            # Whether it is true is not known yet; until then it shall not happen again.
            there.causes.update(suspects[0].case.causes)
            self._left_out.hold(suspects[0].case.causes, there)
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

    def compared(self, counts: Mapping[Class, int]) -> None:
        """Takes in how often two nodes answered differently; of each class only the first was told.

        Args:
            counts: Cases of each class.
        """
        for finding in self.findings.values():
            if finding.harm is Harm.DIFFERS:
                told = product(finding.states, finding.messages, finding.places)
                finding.hits = max(finding.hits, sum(counts.get(one, 0) for one in told))
                self._save(finding)

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

    def catch_up(self, seconds: float, begin: Callable[[int, int], None]) -> None:
        """Looks into what there was no time for in ``finish``, behind the campaign.

        Args:
            seconds: For each, to find the case that did it, and as many to see it again.
            begin: Is told the number of each before it is its turn, and how many there are.
        """
        late, self._late = self._late, []
        for number, (one, finding) in enumerate(late, 1):
            if self.findings.get(finding.bucket) is not finding or finding.confirmed[1]:
                # Met again and looked into meanwhile.
                continue
            begin(number, len(late))
            look = Open(finding, one.objection, one.suspects, seconds, one.before)
            self._open.append(look)
            self.finish(2 * seconds)
            shown = look.finding
            if shown is not None and shown is not finding and self._is_kept(finding):
                # One hit of both is that which was looked into.
                finding.hits -= 1
                self._join(finding, shown, "this is what a retry shows")

    def take_over(self, folders: Sequence[Path], begin: Callable[[int, int], None]) -> None:
        """Does what an earlier part of the run, killed, did not come to.

        What was sent before an objection that nobody looked into is played again, what came again is made smaller.

        Args:
            folders: Of those, see ``unfinished``; one that is damaged is left as it is.
            begin: Is told the number of each before it is its turn, and how many there are.
        """
        for number, folder in enumerate(folders, 1):
            begin(number, len(folders))
            with suppress(NoFinding):
                self._take_over(Finding.load(folder))

    def _take_over(self, left: Finding) -> None:
        if left.is_large:
            # Met again, it is one of ours.
            if self._called(left.bucket) is None:
                self.minimise(left, self._minimising)
            return
        objection = objection_of(left)
        name = self._spots.get((left.harm, spot(objection))) if is_placed(objection) else None
        there = self._called(name or left.bucket)
        if there is not None:
            self._add(there, left)
        else:
            there = self._earlier(left)
        if there is not None:
            drop_folder(left.path)
        else:
            self._play_left(left)
            there = self._joined_to_other(left)
        there.case_buckets.add(left.bucket)
        self._enter(there, objection_of(there))
        self._save(there)

    def _play_left(self, left: Finding) -> None:
        """Plays what an earlier part of the run left, and sees whether it comes again."""
        if self._to_compare(left):
            return
        if self._lab.able and left.harm is not Harm.DIFFERS:
            self._play_again(left, self._confirming.confirm)
        if not left.confirmed[1]:
            self._confirming.settle(left, [])

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
                self._confirming.compare(finding, stop)
            else:
                self.minimise(finding, self._minimising, stop)
                self._cramped.append(finding)
        except Stopped:
            return False
        return True

    def _alike(self, objection: Objection, suspects: Sequence[Suspect]) -> Open | None:
        """Returns what is being looked into and looks the same: place, or bucket of a case that surely did it."""
        for one in self._open:
            if is_placed(objection):
                if is_placed(one.objection) and spot(objection) == spot(one.objection):
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
        return next(
            (one for one in self._open[::-1] if beginning_of(one.objection) == beginning_of(objection)), None
        )

    def _beside(self, function: Callable[[S], T], one: S) -> Future[T]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "triage")
        return self._thread.submit(function, one)

    def _attributed(self, one: Open) -> tuple[Suspect, Tried] | None:
        """Finds who did it. Runs beside the campaign: changes nothing but the lab."""
        culprit = None
        try:
            deadline = min(time.monotonic() + one.seconds, self._latest)
            with self._lab.waiting_for(one.objection.harm, one.objection.place):
                culprit = self._attribution.culprit(one.objection, one.suspects, deadline, one.before)
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
            with self._lab.waiting_for(finding.harm, finding.place):
                self._confirming.confirm(
                    finding, finding.tried, min(time.monotonic() + one.seconds, self._latest)
                )
        finally:
            self._lab.rest()

    def _advance(self, one: Open, job: Future[tuple[Suspect, Tried] | None] | Future[None]) -> bool:
        """Goes on with one whose job has ended; returns whether it has become a finding."""
        finding = one.finding
        if finding is None:
            try:
                culprit = job.result()
            except HarnessError as error:
                one.guess.notes.append(f"Could not be analysed: {error}")
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
                finding.notes.append(f"Could not be retried any further: {error}")
                self._confirming.settle(finding, [])
            finding = self._joined_to_other(finding)
        self._close(one, finding)
        if not finding.confirmed[1] and self._over(math.inf):
            self._late.append((one, finding))
        if (self._minimising and finding.is_large) or self._to_compare(finding):
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
        one.finding = finding
        self._left_out.release(one.causes)
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
            name = self._spots.get((objection.harm, spot(objection)))
            return self.findings.get(name) if name else None
        for suspect in reversed(suspects):
            for finding in self.findings.values():
                same = finding.harm is objection.harm or (
                    finding.harm in SERVING and objection.harm in SERVING
                )
                if same and not in_file(finding.place) and finding.causes & set(suspect.case.causes):
                    return finding
        # What was played behind it got no answer either.
        first = next(iter(odd(suspects)), None) if objection.harm in SERVING else None
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
            user=self._config.user is not None and self._node.asks_user is not False,
        )
        self._hit(finding, objection, suspect)
        return finding

    def _name(self, objection: Objection, suspect: Suspect | None) -> str:
        """Returns the bucket; two places in one file that say the same are told apart by their lines."""
        name = bucket_of(objection, suspect.case if suspect else None, suspect.state if suspect else None)
        other = self.findings.get(name)
        if is_placed(objection):
            known = self._spots.get((objection.harm, spot(objection)))
            if known:
                return known
            if other is not None:
                return f"{name} {spot(objection).rpartition(':')[2]}"
        return name

    def _enter(self, finding: Finding, objection: Objection) -> None:
        """Takes a finding in, in the folder of its bucket."""
        self.findings[finding.bucket] = finding
        for seen in (objection, objection_of(finding)):
            if is_placed(seen) and seen.harm is finding.harm:
                self._spots[finding.harm, spot(seen)] = finding.bucket
        self._recognise(finding)
        finding.settle()
        self._leave_out(finding)

    def _hit(self, finding: Finding, objection: Objection, suspect: Suspect | None) -> None:
        """Counts a hit, and leaves out what hits again and again."""
        with self._writing:
            finding.hits += 1
            finding.lasting |= objection.lasting
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
                _hint(finding, suspect.alone)
            if finding.status == FLAKY and finding.beyond_doubt:
                finding.status = SEEN
        self._leave_out(finding)

    def _leave_out(self, finding: Finding) -> None:
        """Leaves out what hits a bucket again and again; nothing can be left out that hits one without its message."""
        if finding.bucket not in self.findings:
            return
        if finding.without == TRAFFIC and finding.harm in BORNE and finding.before + finding.hits >= HITS:
            self._pass_over(finding, f"it was hit {HITS} times, and ordinary traffic is enough to cause it")
        self._left_out.learn(finding)

    def behind(self, finding: Finding, objection: Objection | None) -> None:
        """Takes what is seen in new sessions behind a finding, before any other case, where nobody starts the node anew.

        What goes on there can no longer be told from what cases do.
        """
        if objection is None or finding.harm not in BORNE:
            return
        if (objection.harm, objection.place) == (finding.harm, finding.place):
            self._pass_over(finding, "it continues in new sessions, and the fuzzer cannot restart the node")
            self._save(finding)

    def _pass_over(self, finding: Finding, why: str) -> None:
        """Has what shows whatever is sent no longer judged: it would be met for ever."""
        if finding.harm is Harm.PANIC and not finding.place:
            # All that the process says of itself would be passed over.
            return
        if self.unjudged.setdefault((finding.harm, finding.place), why) is why:
            finding.notes.append(f"Not judged for the rest of the run: {why}.")

    # Looking into it -------------------------------------------------------------------------------

    def _look_into(
        self, guess: Finding, objection: Objection, suspects: Sequence[Suspect], deadline: float
    ) -> Finding:
        """Finds the case that did it and confirms it; returns the finding with what this shows."""
        if not self._lab.able or not suspects:
            guess.notes.append(
                "The node was not started by this run, so it could not be retried on a fresh one."
                if suspects
                else "No case had been run when it was seen."
            )
            self._confirming.settle(guess, [])
            return guess
        try:
            culprit = self._attribution.culprit(objection, suspects, deadline)
            if culprit is not None:
                finding = self._show(guess, *culprit)
                if finding.tried is culprit[1]:
                    self._confirming.confirm(finding, culprit[1], deadline)
                    finding = self._joined_to_other(finding)
                return finding
        except HarnessError as error:
            guess.notes.append(f"Could not be analysed: {error}")
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
        of_place = is_placed(objection) and objection.harm is not Harm.UNCLEAN
        if (len(suspects) > 1 or objection.harm in DEADLY) and not of_place:
            there = self._unlaid(guess, objection, suspects)
            if there is not None:
                return there
        elif len(suspects) > 1:
            # It is called by its place all the same.
            self._lay_on_nobody(guess, suspects)
        two = objection.harm is Harm.DIFFERS
        guess.script = guess.first = suspects[-1].alone if two else joined(suspects[-RECENT:])
        if self._to_compare(guess):
            # That is done when there is nothing else to look into.
            guess.status = OPEN
            self._save(guess)
        else:
            self._confirming.settle(guess, [])
        return guess

    @staticmethod
    def _lay_on_nobody(guess: Finding, suspects: Sequence[Suspect]) -> None:
        """Takes back what a finding says of a case, where it is none of many; its state, where it may have been another."""
        guess.message = guess.field = guess.mutation = ""
        phases = {phase_of(suspect.state) for suspect in suspects}
        if len(phases) > 1 or phases <= TOGETHER:
            guess.state = ""
            guess.states.clear()
        guess.messages.clear()
        guess.causes.clear()

    def _unlaid(self, guess: Finding, objection: Objection, suspects: Sequence[Suspect]) -> Finding | None:
        """Takes back what a finding says of a case: none of many can be told to have done it.

        Returns:
            The finding that was met before without one; None when this is the first.
        """
        self._lay_on_nobody(guess, suspects)
        guess.bucket = bucket_of(objection, None, State(guess.state) if guess.state else None)
        there = self.findings.get(guess.bucket)
        return self._taken_for(there, guess, objection) if there is not None else None

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

    def _prove(self, finding: Finding) -> None:
        """Runs the test of a finding: it may pass although the fault is there, and then that is said."""
        if finding.path is None or finding.test_fails is not None or not self._lab.able:
            return
        if finding.harm is Harm.DIFFERS:
            # A test has one node.
            return
        if finding.tried is None and not self._over(math.inf):
            self._play_again(finding, self._confirming.again)
        tried = finding.tried if finding.status == CONFIRMED else finding.vain
        if tried is not None and not self._over(math.inf):
            fails = fails_on(finding.node, str(finding.harm), tried, self._config.user)
            if tried is finding.played:
                finding.test_fails = fails
                self._save(finding)

    def _play_again(self, finding: Finding, see: Callable[[Finding, Tried, float], None]) -> None:
        """Plays what was sent before a fault that nobody could lay on a case, so that there is something to play again.

        Args:
            finding: The fault.
            see: Sees whether what has shown it does so again, until a time on ``time.monotonic``.
        """
        if finding.vain is not None:
            return
        rounds = ROUNDS if finding.harm in SLOW else 1
        try:
            with self._lab.waiting_for(finding.harm, finding.place):
                # What kills takes no time to be seen, and may take some luck.
                for plays in range(1, 1 + (CHANCES if finding.harm in DEADLY else 1)):
                    tried = self._lab.play(finding.script, rounds=rounds, seconds=SLOW_SECONDS)
                    if finding.tried is not None:
                        # Met again meanwhile, and laid on a case.
                        return
                    if comes_again(finding, tried):
                        finding.shown_by(tried)
                        if plays > 1:
                            finding.notes.append(f"It took {plays} fresh nodes until it came again.")
                        see(finding, tried, self._latest)
                        return
        except HarnessError as error:
            if not any(str(error) in note for note in finding.notes):
                finding.notes.append(f"Could not be played on a fresh node: {error}")
            return
        finally:
            self._lab.rest()
        finding.played_in_vain(tried)
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
            self._hit(there, objection_of(finding), None)
            there.states |= finding.states
        # Of those the kept one was met by.
        there.case_buckets |= finding.case_buckets
        if finding.path != there.path:
            drop_folder(finding.path)
        return there

    # One fault, one finding ------------------------------------------------------------------------

    def _called(self, bucket: str) -> Finding | None:
        """Returns the finding of a bucket, whatever it is called by now."""
        return self.findings.get(self._names.get(bucket, bucket))

    def _merge(self, finding: Finding, *, graver: bool = True) -> None:
        """Joins a finding that was made smaller to one that is the same then, though it was met by another message.

        One that comes too seldom to be made smaller is the same too where it was about one field from the beginning.

        Args:
            finding: Made smaller, or not.
            graver: Also if it is graver than the other one.
        """
        small = finding.minimised is not None
        if self.findings.get(finding.bucket) is not finding:
            return
        if small:
            self._lay_on_script(finding)
            self._call_by_field(finding)
            finding = self._call_by_message(finding)
        elif not (finding.confirmed[0] and about(finding)):
            return
        for other in list(self.findings.values()):
            there = other is not finding and self.findings.get(other.bucket) is other
            why = why_one(finding, other) if there and other.minimised is not None else ""
            worse = _gravity(finding) < _gravity(other)
            if why and (graver or not worse):
                gone, kept = (other, finding) if small and worse else (finding, other)
                self._join(gone, kept, why)
                finding = kept

    def _join(self, gone: Finding, kept: Finding, why: str) -> None:
        """Takes all that was told as one finding for hits of another one, which is the same fault."""
        del self.findings[gone.bucket]
        self._rename(gone.bucket, kept.bucket)
        self._left_out.move(gone, kept)
        with self._writing:
            self._add(kept, gone)
            # An earlier part of the run may have rows of it.
            kept.case_buckets.add(gone.bucket)
            kept.notes.append(f"Also found as `{gone.bucket}`; {why}.")
            drop_folder(gone.path)
            _emptied(gone, kept.bucket, why)
        self.merged.append(gone)
        self._leave_out(kept)
        self._save(kept)

    @staticmethod
    def _add(kept: Finding, gone: Finding) -> None:
        """Counts what was met as one finding for another one."""
        kept.hits += gone.hits
        kept.before += gone.before
        kept.masked += gone.masked
        for name in ("places", "messages", "states", "causes", "case_buckets"):
            getattr(kept, name).update(getattr(gone, name))

    def _rename(self, old: str, new: str) -> None:
        """Has what would fall into one bucket fall into another one."""
        self._names |= {name: new for name, to in self._names.items() if to == old}
        self._names[old] = new

    @staticmethod
    def _lay_on_script(finding: Finding) -> None:
        """Says of a finding that nobody could lay on a case, and whose script shows it all the same, where that leads."""
        state = state_of(finding.script)
        if not (finding.state or finding.without) and state is not None:
            finding.state = str(state)
            finding.states.add(finding.state)

    def _call_by_field(self, finding: Finding) -> None:
        """Calls a finding by the field that it is about, where that is not a matter of the message that carries it.

        Otherwise it would be called by whichever message was met first.
        """
        field = about(finding)
        if field:
            finding.about = field
            self._recognise(finding)
            self._call(finding, field, "it is named after the field that it is about")
            self._save(finding)

    def _call_by_message(self, finding: Finding) -> Finding:
        """Calls a finding by the message that it needs, where its case was to be about another one.

        Returns:
            The finding that is called so already, hit as often besides; else this one.
        """
        message = other_message(finding)
        if not message or about(finding):
            finding.message = finding.message or message
            return finding
        if in_file(finding.place):
            # It is called by its place, whatever is sent; of what its case was about nothing is left.
            finding.message, finding.field = message, ""
            self._recognise(finding)
            self._save(finding)
            return finding
        why = f"what was sent decodes as {message}"
        there = self._called(self._called_by(finding, message))
        if there is not None and there is not finding:
            if there.status != CONFIRMED or not same_unknown(finding, there):
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
        part = part_seen(finding.oracle, State(finding.state))
        return " ".join([beginning_of(objection_of(finding)), part, words])

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
        if not (finding.is_large and self._lab.able):
            return
        try:
            with self._lab.waiting_for(finding.harm, finding.place):
                minimise(self._lab, finding, seconds, stop)
        except HarnessError as error:
            finding.notes.append(f"Could not be minimised: {error}")
        finally:
            self._lab.rest()
        self._save(finding)
        self._prove(finding)

    def _go_on_with(self, finding: Finding, seconds: float) -> None:
        """Makes a finding smaller still, for which there was not enough of the processors beside the campaign."""
        before = finding.minimised
        if finding not in self._cramped or before is None or before.done or finding.script.sends <= FEW:
            return
        finding.minimised = None
        try:
            self.minimise(finding, seconds)
        finally:
            _add_effort(finding, before)
            self._save(finding)

    def _to_compare(self, finding: Finding) -> bool:
        """Tells whether nobody has seen yet whether two fresh nodes differ as two that were used did."""
        return finding.harm is Harm.DIFFERS and not finding.confirmed[1] and self._lab.compares

    def minimise_all(self, seconds: float, begin: Callable[[int, int], None]) -> None:
        """Makes all findings smaller that are not yet, behind the campaign, and tries those again that take two nodes.

        Args:
            seconds: For each.
            begin: Is told the number of each before it is its turn, and how many there are.
        """
        # Those first that have a limit of their own: to make others smaller takes longer than that. Of those that are
        # one, the gravest is kept.
        findings = sorted(
            self.findings.values(), key=lambda finding: (not self._to_compare(finding), _gravity(finding))
        )
        until = time.monotonic() + COMPARE_SECONDS
        for number, finding in enumerate(findings, 1):
            begin(number, len(findings))
            if self._to_compare(finding):
                # There may be hundreds of them.
                try:
                    self._confirming.compare(finding, lambda: time.monotonic() >= until)
                except Stopped:
                    self._confirming.settle(finding, [])
            if finding.tried is None:
                # Nobody could lay it on a case; if it comes again all the same, it can be made smaller.
                self._prove(finding)
            if finding.minimised is None:
                # What is the same as one that is small already is not made smaller as well, which takes longest.
                self._merge(finding, graver=False)
                if self.findings.get(finding.bucket) is not finding:
                    continue
            self.minimise(finding, seconds)
            self._go_on_with(finding, seconds)
            self._prove(finding)
            self._merge(finding)
        for finding in findings:
            # What it is the same as may have been made smaller behind it.
            if finding.minimised is None:
                self._merge(finding)
        self._lay_untried()

    def _lay_untried(self) -> None:
        """Joins what no try could lay on a case to the same seen without any message: that it had to do with one is a guess.

        A process that ends in the same way may have done so for another reason.
        """
        for finding in list(self.findings.values()):
            if finding.without or finding.confirmed[1] or finding.harm in {*DEADLY, Harm.DIFFERS}:
                continue
            there = self._needing_nothing(objection_of(finding))
            if there is not None and there.status == CONFIRMED:
                self._join(finding, there, "it was seen with a case and not tried again, and needs none")

    def _save(self, finding: Finding) -> None:
        with self._writing:
            finding.save()

    def leaves_out(self, case: Case) -> bool:
        """Tells whether a case is not to be played because what it does is known by now, and counts it."""
        return self._left_out.takes(case)

    def is_told_apart(self, case: Case) -> bool:
        """Tells whether what a case is left out for is known by itself when it is met again. See ``LeftOut``."""
        return self._left_out.is_told_apart(case)

    def _over(self, until: float) -> bool:
        """Tells whether a time on ``time.monotonic`` has come, or all has to end."""
        return time.monotonic() >= min(until, self._latest)


def _emptied(finding: Finding, other: str, why: str) -> Finding:
    """Takes everything from a finding that is another one; returns it, for the rows that have its name."""
    finding.hits = finding.before = finding.masked = 0
    finding.status, finding.path = FLAKY, None
    finding.detail = f"the same as {other}: {why}"
    return finding


def _add_effort(finding: Finding, before: Minimised) -> None:
    """Counts what was done to make a finding smaller when it began for the first time."""
    # Where it was broken off, something smaller may have been confirmed by then.
    left = finding.script
    now = finding.minimised or replace(before, messages=left.sends, size=left.size, seconds=0.0, tries=0)
    finding.minimised = replace(now, seconds=before.seconds + now.seconds, tries=before.tries + now.tries)


def _hint(finding: Finding, script: Script) -> None:
    """Keeps what has hit a finding, to be tried first when it is made smaller; some, and only what is smaller than it is."""
    if cost_of(script) < cost_of(finding.script):
        finding.smaller = sorted([*finding.smaller, script], key=cost_of, reverse=True)[-HINTS:]


def _gravity(finding: Finding) -> int:
    """Returns how grave what is seen is, 0 for the gravest."""
    return list(Harm).index(finding.harm)
