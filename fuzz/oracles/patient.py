"""A node under observation: what the oracles need to know of it, and the order in which they are asked."""

from __future__ import annotations

import os
import random
import select
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from statistics import median
from typing import Self

from conformance.errors import HarnessError, Inconclusive
from conformance.nodes.base import Node
from fuzz.cases import Case
from fuzz.oracles.base import (
    BEAT_CASES,
    BEAT_SECONDS,
    DEADLY,
    ODD_SECONDS,
    ORACLES,
    ORDER,
    TREND_SECONDS,
    Harm,
    Objection,
    Oracle,
    Spot,
    When,
)
from fuzz.oracles.canary import Canary
from fuzz.oracles.fresh import CALLS, Fresh
from fuzz.oracles.history import History
from fuzz.oracles.machine import TURN, Turns, Watch, overslept
from fuzz.oracles.pace import LEAST_EFFORT, Pace
from fuzz.oracles.rival import Rival
from fuzz.oracles.service import NOTHING, UNREACHED, Caller, Served
from fuzz.oracles.vigil import Vigil
from fuzz.oracles.vitals import Vitals
from fuzz.oracles.ward import Ward
from fuzz.player import Answers, NotReached, Played
from fuzz.player.doors import NoLink
from scapy_layers.batch import PREFIX
from scapy_layers.errors import WireError
from scapy_layers.primitives import VLE_BYTES, Reader

WORDS = ("process", "stderr")
"""Oracles that look at what the process shows of itself."""

AFTERMATH = 0.1
"""Seconds in which a process that no longer serves may still die or say why; more on a machine that is busy."""

SURVIVED = 0.005
"""Seconds in which it may die of something that it has survived before: most panics end a thread, and not the process."""

AFTERMATH_STEP = 0.005
"""Seconds between two looks at its last words, which cannot be awaited; its exit can."""

HURRY, SHORTEST = 0.25, 0.25
"""Of T1, and in seconds: what an answer may take where stalls are waited out again and again to find what does it."""

APART = 3
"""Behind a look so many times as long as it took go by before the next one: a node that takes long to answer is to be
given cases, and not only looked at."""

LONGEST_APART = 30.0
"""Seconds between two looks, at most."""

FAIR, FAIR_EACH = 20, 2
"""So many times as long as an exchange takes may pass before an answer comes, and so many for each message that may be
in what was sent."""

SMALLEST = 8
"""Bytes of a small message."""

LARGE, HEAD = 1024, 256
"""Bytes of a batch of which it is worth to see how much is payload, and in how many of them its length is looked for."""

COPIED = 4096
"""Bytes that any node hands on in the time of an exchange."""

AWAKE, OVERSLEPT = 8, 0.02
"""So many naps show whether the machine is busy: when one of them takes so many seconds longer than asked."""

REST = 0.03
"""Seconds in which nothing is asked, to see whether the node comes to rest."""

LASTING = 4
"""So many times T1 a node that serves nobody is given to recover, once for each way in which it does not."""

RESTING = 0.05
"""Share of one processor at which it has come to rest."""

ENDING = "its end"
"""What is owed by a process that is asked to end; see ``Patient.owed``."""

REST_STEP = 0.5
"""Seconds between two looks at the sessions of ours while the node is left alone."""


def hurried(reply: float) -> float:
    """Returns what an answer may take when T1 is ``reply``, and there is a hurry."""
    return max(HURRY * reply, min(SHORTEST, reply))


def messages_in(data: bytes) -> float:
    """Returns how many messages may be in what was sent, at most: a payload at its end is none, however large it is."""
    return (len(data) - _payload_of(data)) / SMALLEST


def _payload_of(data: bytes) -> int:
    """Returns the size of the payload with which a large batch ends, going by the length that leads to its end.

    To take it apart would take minutes where it is megabytes of small messages, or of nothing.
    """
    for at in range(PREFIX, HEAD if len(data) >= LARGE else 0):
        reader = Reader(data[at : at + VLE_BYTES])
        with suppress(WireError):
            size = reader.vle()
            if at + reader.at + size == len(data):
                return size
    return 0


class Patient:
    """One node that the oracles look at.

    Args:
        stage: Where it is.
        reply: T1: seconds that an answer may take.
        rng: Draws words and ZenohIDs of the canary.
        also: Another node that the same cases are played on; running.
        unjudged: Objections to which nobody wants to hear any more; it may become more of them.
        fresh: What is known of processes of this node from another patient.

    Attributes:
        case: The case that was just played, for oracles that want to know.
        when: How thorough the look is that is being taken.
        canary: Sessions of ours; None when the node opens none.
        rival: The other node; None when there is none.
        thorough: Each look is to show what the case in front of it did, whatever it costs.
        rare: What is looked for may go wrong now and then only.
        tokens_at: When tokens were looked at last, on ``time.perf_counter``.
        vigil: Links on which nothing is said; None when there are none, or datagrams, of which nobody sees an end.
        vitals: What the system knows of its process; None when it is not ours.
        notes: What cannot be judged, and why, by oracle.
        failures: Oracles that failed themselves and are not asked any more, and how.
        history: What was measured of it since it was started.
        measured: How often one process was measured, of all that it had; the most.
        exchange: How long an exchange of the canary takes.
        opening: How long a new session takes.
        declaring: How much processor time it takes to declare subscribers and to publish to them.
        called: Seconds that the latest new session took, if it was served.
        spent: Seconds that each oracle took for looks at a node that was well.
        looks: How many those were.
        cases: Cases since the node was started.
        lately: Returns what became of other cases that the node still has to do with.
        familiar: What the states need was lost before, and that is confirmed: it is not waited for so long again.
    """

    def __init__(
        self,
        stage: Ward,
        reply: float,
        *,
        rng: random.Random | None = None,
        also: Ward | None = None,
        unjudged: Container[Spot] = (),
        fresh: Fresh | None = None,
    ) -> None:
        self.stage = stage
        self.reply = reply
        self.unjudged = unjudged
        self.rng = rng or random.Random()
        self.rival = Rival(also) if also is not None else None
        self.case: Case | None = None
        self.when = When.CASE
        self.canary: Canary | None = None
        self._fresh = fresh if fresh is not None else Fresh()
        self.vigil: Vigil | None = None
        self.thorough = False
        self.rare = False
        self.tokens_at = 0.0
        self.vitals: Vitals | None = None
        self.history: History | None = None
        self.measured = 0
        self._samples = 0
        self.exchange = Pace()
        self.opening = Pace()
        self.declaring = Pace(least=LEAST_EFFORT)
        self.called: float | None = None
        self.notes: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.looks: Counter[str] = Counter()
        self.cases = 0
        self.lately: Callable[[], Iterable[Played]] = tuple
        self.familiar = False
        self._said = ""
        self._survived: set[str] = set()
        self._caller: Caller | None = None
        self._answers = Answers()
        self._plans: dict[tuple[When, tuple[str, ...] | None], list[Oracle]] = {}
        self._beat_cases = 0
        self._beat_at = self._odd_at = self._trend_at = 0.0
        self._sampled_at = 0.0
        self._paused_at: float | None = None
        self._outlasted: set[Spot] = set()
        self._hurried = False
        self._took: dict[When, float] = {}
        self._watch = Watch()
        stage.at_work = self.is_at_work

    @property
    def usual(self) -> float:
        """Seconds that an exchange between two sessions took when the node was fresh; 0 when nobody knows."""
        return median(self.exchange.baseline) if self.exchange.baseline else 0.0

    @property
    def busy(self) -> bool:
        """The machine has had others to serve since the last look that was more than a glance, or does at the moment."""
        return self._watch.busy or any(overslept() > OVERSLEPT for _ in range(AWAKE))

    def turns(self) -> Turns:
        """Returns what tells how long the node could work from now on."""
        return Turns(self.node.pid)

    def fair(self, played: Played | None) -> float:
        """Returns seconds that the node may take for what it was sent lately, going by how long it took when fresh.

        Args:
            played: The case that was just played.
        """
        cases = {id(one): one for one in (*self.lately(), played) if one is not None}
        sent = [data for one in cases.values() for data in one.sent]
        return self.usual * (FAIR + FAIR_EACH * sum(map(messages_in, sent)) + sum(map(len, sent)) / COPIED)

    @property
    def node(self) -> Node:
        """The node."""
        return self.stage.node

    # Beginning and ending ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Sets up what is needed for a node that was just started: canary and baselines.

        Raises:
            Inconclusive: It takes one session at a time, and nothing can be seen beside the one that a case needs.
        """
        self.close()
        self.forget()
        self.cases = self._beat_cases = 0
        self._took.clear()
        self._beat_at = self._odd_at = self._trend_at = time.perf_counter()
        node = self.node
        try:
            self._caller = Caller(node, self.reply, self._answers)
        except NoLink as error:
            self.notes["ping"] = str(error)
        self.open_canary()
        if self.canary is None and self._caller is not None and (why := self._caller.crowded(self.reply)):
            raise Inconclusive(
                f"the node accepts one session at a time, so it cannot be checked while a case runs: {why}"
            )
        self._measure()
        self._open_vigil()
        self.declaring = Pace(least=LEAST_EFFORT)
        if node.pid is None:
            self.notes["memory"] = self.notes["handles"] = self.notes["cpu"] = (
                "the process was not started by the fuzzer"
            )
            return
        self._weigh()
        self.declaring.baseline = _measured(self.effort, self._fresh.efforts)

    def _weigh(self) -> None:
        """Begins to measure the process."""
        pid = self.node.pid
        self.vitals = self.history = None
        self._samples = 0
        if pid is None:
            return
        vitals = Vitals(pid)
        try:
            self.history = History(vitals.sample())
        except OSError:
            return  # it is gone already: the first look says so
        self.vitals = vitals

    def _open_vigil(self) -> None:
        """Makes links on which nothing is said, where the node serves several sessions."""
        birds = self.canary
        if birds is None or not (birds.routes or birds.replies) or not birds.publisher.stream:
            return
        self.vigil = Vigil(self.node, self.reply, lambda place: (Harm.OVERDUE, place) in self.unjudged)
        self.vigil.begin()

    def owed(self, place: str) -> Objection | None:
        """Waits for what is owed to a link on which nothing is said, from now on; returns an objection if it is overdue.

        Args:
            place: What is owed; ``ENDING`` asks the process to end.
        """
        if place == ENDING:
            return self.ending()
        if self.vigil is None:
            return None
        self.vigil.wait(place, self.rest)
        return self.words() or ORACLES["silence"].look(self, None)

    def ending(self) -> Objection | None:
        """Asks the process to end, and looks how it does that; it is no use behind this."""
        return ORACLES["ending"].look(self, None)

    def ended_within(self, seconds: float) -> bool:
        """Waits for the exit of the process; tells whether it came."""
        with _Exit(self.node.pid) as exited:
            return exited.wait(seconds)

    def _measure(self) -> None:
        """Learns how long a fresh node takes."""
        fresh = self._fresh
        if self.canary is not None:
            fresh.exchanges += self.canary.recent
        self.exchange = Pace(list(fresh.exchanges) if self.canary is not None else [])
        self.opening = Pace(_measured(self.timed_call, fresh.calls))

    def open_canary(self) -> None:
        """Opens the sessions of the canary; notes why when that fails."""
        if self._caller is None:
            return
        canary = Canary(self.node, self.reply, self.rng, self.unjudged, self._fresh)
        try:
            canary.open()
        except NotReached as error:
            canary.close()
            self.notes["canary"] = str(error)
            return
        self.canary = canary
        self.notes.pop("canary", None)
        if not canary.routes:
            self.notes["canary"] = "the node does not forward publications between sessions"
        elif not canary.replies:
            self.notes["canary"] = "the node does not forward queries between sessions"

    def close_canary(self) -> None:
        """Ends the sessions of the canary."""
        if self.canary is not None:
            self.canary.close()
            self.canary = None

    def close(self) -> None:
        """Ends what ``begin`` set up."""
        self.close_canary()
        if self.vigil is not None:
            self.vigil.close()
            self.vigil = None
        self._caller = None
        self.vitals = None
        self.history = None

    def keep(self) -> None:
        """Keeps the sessions of the canary alive. Costs nothing most of the time."""
        if self.canary is not None:
            self.canary.keep()

    @contextmanager
    def hurried(self) -> Iterator[float]:
        """Waits less long for answers; gives what they may take. What is seen so has to be seen again with T1."""
        patience, self.reply = self.reply, hurried(self.reply)
        self._hurried = True
        try:
            if self.canary is not None:
                self.canary.reply = self.reply
            yield self.reply
        finally:
            self._hurried = False
            self.reply = patience
            if self.canary is not None:
                self.canary.reply = patience

    # What oracles ask --------------------------------------------------------------------------------

    def said(self) -> str:
        """Returns what the process said about failures of its own since the last ``forget``."""
        new = self.node.complaints()
        if new:
            self._said = f"{self._said}; {new}" if self._said else new
        return self._said

    def has_failed(self) -> bool:
        """Tells whether the process has ended, or said that something in it failed."""
        return bool(self.node.death() or self.said())

    def ends(self, place: str) -> bool:
        """Waits a moment for the exit of a process that has said that something in it failed; tells whether it came.

        Args:
            place: Where it failed. What was survived once is waited for less long the next time.
        """
        with _Exit(self.node.pid) as exited:
            if exited.wait(SURVIVED if place in self._survived else AFTERMATH):
                return True
        if place:
            self._survived.add(place)
        return False

    def forget(self) -> None:
        """Forgets what was said; what comes now is about the next case."""
        self._said = ""

    def call(self, reply: float | None = None) -> Served | None:
        """Opens a new session; None when the node takes no links, or nobody knows where.

        Args:
            reply: Seconds that an answer may take; T1 when None.
        """
        served = self._caller.call(reply or self.reply) if self._caller is not None else None
        if served is not None:
            self.called = served.seconds if served.well else None
        return served

    def timed_call(self) -> float | None:
        """Opens a new session; returns how long that took, None when it was not served."""
        served = self.call()
        return served.seconds if served is not None and served.well else None

    def effort(self) -> float | None:
        """Declares subscribers and publishes to them; returns the seconds of processor time that the process takes meanwhile.

        None where nobody can know. Unlike the time that passes it does not depend on what else the machine does.
        """
        if self.canary is None or self.vitals is None:
            return None
        try:
            before = self.vitals.cpu()
            carried = self.canary.carries_common()
            return self.vitals.cpu() - before if carried else None
        except OSError:
            return None

    def rest(self, seconds: float) -> None:
        """Lets time pass in which the node is asked nothing; ends at once when its process does."""
        deadline = time.perf_counter() + seconds
        with _Exit(self.node.pid) as exited:
            while (left := deadline - time.perf_counter()) > 0:
                if exited.wait(min(left, REST_STEP)):
                    return
                self.keep()

    def takes(self, number: int) -> bool:
        """Tells whether the node takes so many sessions beside ours; not where nobody can know."""
        return self._caller is not None and self._caller.takes(number, self.reply)

    def is_at_work(self) -> bool:
        """Tells whether the process computes over two moments in which it is asked nothing; not where nobody can know.

        On a busy machine it may wait for a processor all the while. What it does now and then, as keeping its sessions
        alive, falls into one of them.
        """
        return self._computes() and self._computes()

    def _computes(self) -> bool:
        if self.vitals is None:
            return False
        try:
            at, before, wants = time.perf_counter(), self.vitals.cpu(), self.vitals.is_runnable()
            self.rest(REST)
            spent, wants = self.vitals.cpu() - before, wants and self.vitals.is_runnable()
            return wants or spent >= RESTING * (time.perf_counter() - at)
        except OSError:
            return False

    def words(self) -> Objection | None:
        """Returns what the process itself shows by now: that it has ended, or that it said that something failed."""
        shown = (ORACLES[name].look(self, None) for name in WORDS)
        return next(filter(None, shown), None)

    def more_of(self, seen: Objection) -> Objection:
        """Returns what the process shows of itself by now, where that says more than what was seen.

        It may have been written while an oracle waited for an answer.
        """
        if seen.harm in DEADLY:
            return seen
        return self.words() or seen

    def aftermath(self) -> Objection | None:
        """Waits a moment for the exit or the last words of a node that no longer serves; the gravest thing it shows."""
        node = self.node
        watch, turns = Watch(), self.turns()
        deadline = time.perf_counter() + AFTERMATH
        patient = True
        with _Exit(node.pid) as exited:
            while True:
                late = self.words()
                if late is not None:
                    return late
                if not node.owned:
                    return None
                now = time.perf_counter()
                if now >= deadline:
                    if not (patient and watch.busy) or turns.had >= AFTERMATH * TURN:
                        return None
                    patient, deadline = False, now + 5 * AFTERMATH
                exited.wait(AFTERMATH_STEP)

    def outlasted(self, objection: Objection) -> Objection:
        """Waits whether a node that serves nobody recovers; returns what it is then.

        Once for each place: what was waited for is true although nobody may be able to tell which case it was. Where
        scripts are tried again and again nobody has the time.
        """
        spot = objection.harm, objection.place
        if self.thorough or self._hurried or spot in self._outlasted:
            return objection
        self._outlasted.add(spot)
        watch, turns = Watch(), self.turns()
        deadline = time.perf_counter() + LASTING * self.reply
        while time.perf_counter() < deadline:
            served = self.call()
            if served is None or served.well:
                return objection
            late = self.words()
            if late is not None:
                return late
            if served.how not in {NOTHING, UNREACHED} or self.ended_within(AFTERMATH):
                # That is no matter of time.
                return objection
        had_time = not watch.busy or turns.had >= self.reply * TURN
        return replace(objection, lasting=True) if had_time else objection

    # Examining ---------------------------------------------------------------------------------------

    def due(self) -> When:
        """Returns how thorough the next look must be; counts a case.

        The process is measured as often on a node at which thorough looks take long, and come seldom for that.
        """
        self._beat_cases += 1
        now = time.perf_counter()
        if now - self._trend_at >= self._apart(When.TREND, TREND_SECONDS):
            return When.TREND
        if now - self._sampled_at >= TREND_SECONDS:
            self._sample()
        if now - self._odd_at >= self._apart(When.ODD, ODD_SECONDS):
            return When.ODD
        if self._beat_cases >= BEAT_CASES or now - self._beat_at >= self._apart(When.BEAT, BEAT_SECONDS):
            return When.BEAT
        return When.CASE

    def pause(self) -> None:
        """Others have their turn: no case is played here for a while."""
        self._paused_at = time.perf_counter()

    def resume(self) -> None:
        """Cases are played here again; the while in which there were none makes no thorough look due.

        The process is measured as often as ever, which costs nothing: whether it grows shows in time, and not in turns.
        """
        if self._paused_at is None:
            return
        now = time.perf_counter()
        away, self._paused_at = now - self._paused_at, None
        self._odd_at += away
        self._trend_at += away
        if now - self._sampled_at >= TREND_SECONDS:
            self._sample()

    def _apart(self, when: When, seconds: float) -> float:
        """Returns seconds between two looks that are as thorough."""
        return max(seconds, min(LONGEST_APART, APART * self._took.get(when, 0.0)))

    def examine(
        self,
        when: When,
        played: Played | None = None,
        case: Case | None = None,
        names: Sequence[str] | None = None,
    ) -> Objection | None:
        """Asks the oracles whose time it is, until one objects; returns the objection.

        Args:
            when: How thorough.
            played: What became of the case that was just played.
            case: The case.
            names: Only these oracles; all of them when None.
        """
        if played is not None:
            self.cases += 1
        if when is not When.CASE:
            self._looked(when)
        self.case, self.when = case, when
        if self.node.has_left():
            self.vitals = self.history = None
        elif self.node.pid != (self.vitals.pid if self.vitals is not None else None):
            self._weigh()
        if when is When.TREND:
            self._sample()
        clock = time.perf_counter
        began = start = clock()
        for one in self._plan(when, names):
            objection = self._ask(one, played)
            if objection is not None:
                # One about a case that was played a while ago has nothing to do with it.
                return objection if objection.case is not None else self.more_of(objection)
            now = clock()
            self.spent[one.name] += now - began
            self.looks[one.name] += 1
            began = now
        if when is not When.CASE:
            self._ended(when, began - start)
        return None

    def _ended(self, when: When, took: float) -> None:
        """Remembers how long a look took; the next one is due some time behind its end."""
        self._took[when] = took
        self._watch = Watch()
        self._looked(when)

    def _ask(self, one: Oracle, played: Played | None) -> Objection | None:
        try:
            objection = one.look(self, played)
        except Exception as error:  # noqa: BLE001  (the campaign goes on without this oracle, and says so)
            if self._leaves():
                return None
            why = str(error) if isinstance(error, HarnessError) else repr(error)
            self.failures[one.name] = why
            self._plans.clear()
            return None
        if objection is not None and (objection.harm, objection.place) in self.unjudged:
            return None
        return objection

    def _leaves(self) -> bool:
        """Waits a moment for the exit of a node that may leave, of which nothing could be seen any more."""
        if not self.node.listens:
            with _Exit(self.node.pid) as exited:
                exited.wait(AFTERMATH)
        return self.node.has_left()

    def _sample(self) -> None:
        self._sampled_at = time.perf_counter()
        if self.vitals is None or self.history is None:
            return
        try:
            sample = self.vitals.sample()
        except OSError:
            return  # the process is gone: the first oracle says so
        self.history.add(sample, self.cases)
        self._samples += 1
        self.measured = max(self.measured, self._samples)

    def _plan(self, when: When, names: Sequence[str] | None) -> list[Oracle]:
        key = when, None if names is None else tuple(names)
        plan = self._plans.get(key)
        if plan is None:
            reach = ORDER.index(when)
            plan = self._plans[key] = [
                one
                for one in ORACLES.values()
                if ORDER.index(one.when) <= reach
                and one.when is not When.END
                and (names is None or one.name in names)
                and one.name not in self.failures
            ]
        return plan

    def _looked(self, when: When) -> None:
        now = time.perf_counter()
        self._beat_cases, self._beat_at = 0, now
        if when is not When.BEAT:
            self._odd_at = now
        if when is When.TREND:
            self._trend_at = now


def _measured(measure: Callable[[], float | None], known: deque[float]) -> list[float]:
    """Returns what something takes on fresh processes, as far as it does not fail; of a further one it is measured once."""
    times = 1 if len(known) == known.maxlen else CALLS
    known.extend(islice(iter(measure, None), times))
    return list(known)


class _Exit:
    """The end of a process, to be waited for."""

    def __init__(self, pid: int | None) -> None:
        self._poll = select.poll()
        self._fd = -1
        if pid is not None:
            try:
                self._fd = os.pidfd_open(pid)
            except OSError:
                return  # it is gone: whoever asks how it ended learns it at once
            self._poll.register(self._fd, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Waits until the process has ended; tells whether it has."""
        return bool(self._poll.poll(seconds * 1000))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
