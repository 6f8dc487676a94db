"""Fresh nodes on which scripts are tried: to find what did it, to confirm it, to make it smaller.

A try on a fresh node is true but takes as long as a node takes to start; while one is tried, the next one starts.
"""

from __future__ import annotations

import os
import random
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from types import TracebackType
from typing import Any, Protocol, Self
from weakref import WeakKeyDictionary

from conformance.config import RunConfig
from conformance.errors import HarnessError, NotApplicable, Unmet
from conformance.nodes.base import Node
from conformance.observe import Endpoints
from fuzz.cases import Case
from fuzz.oracles import Harm, Objection, Patient, Spot, When
from fuzz.oracles.common import COMMON, declared, undeclared
from fuzz.oracles.fresh import Fresh
from fuzz.oracles.growth import NAMES, leak
from fuzz.oracles.patient import ENDING, FAIR
from fuzz.oracles.rival import difference
from fuzz.oracles.trends import growth
from fuzz.oracles.vitals import Handles, Vitals
from fuzz.player import Answers, Ending, Event, NotReached, Played, Player, Trace, run
from fuzz.player.doors import NoLink
from fuzz.player.tasks import GivenUp
from fuzz.script import Do, Script
from fuzz.stages import Stage, stage_for
from fuzz.states import FACTS, State

SEATS = 2
"""Nodes at a time: more of them start no faster on two cores."""

SLOW = frozenset({Harm.GROWTH, Harm.LEAK, Harm.BUSY, Harm.SLOW})
"""Harm that one case hardly shows: its script is played again and again."""

ROUNDS = 100_000
"""So often a script is played for harm that shows slowly, at most."""

ROUNDS_SECONDS = 6.0
"""So long that may take."""

TWICE = 2
"""The fewest rounds behind which harm that shows slowly is looked for."""

LOOK_EVERY = 25
"""So many rounds pass between two looks at a trend."""


MEMORY_LEAST, MEMORY_MOST = 2 << 20, 256 << 20
"""Bytes: growth that counts when it goes on to the end; growth that is enough at once."""

HANDLES_LEAST = 12
"""Growth that counts."""

PLENTY = 4
"""So many times that is enough before the last round."""

PACE = 9
"""So many answers are timed."""

DECLARATIONS = declared(COMMON) + undeclared(len(COMMON))
"""What is said before each: it may be declarations that take long, and not answers."""

SLOWER, SLOWER_SECONDS = 4.0, 0.004
"""So many times as long as before, and so many seconds longer, is slow."""

TRY_SECONDS = 20.0
"""A script that takes longer is cut: what is behind is not played. Many cases together may be more than can be tried."""

HURRY = 0.1
"""Of T1, what an answer may take while many scripts are tried of which most stall the node."""

LINGER, LONGEST_LINGER = 0.15, 3.0
"""Seconds in which a process may still die of what it was sent; where it is known or likely that it takes its time."""

LINGERING = 1.5
"""A process that took its time to die is waited for so many times as long."""

WARM_UP = 5
"""So manieth part of the measurements is not counted: a process fills its pools."""

MEASURED = 64
"""So many measurements are judged together."""


NOT_STARTED = (HarnessError, NotApplicable, NotReached, NoLink, Unmet, OSError)
"""How the start of a node and of its canary can fail."""


class Nurse(Protocol):
    """What the lab asks of an ``oracles.Patient``."""

    rare: bool

    @property
    def usual(self) -> float:
        """Seconds that an exchange took when the node was fresh; 0 when nobody knows."""

    def begin(self) -> None:
        """The node was just started."""

    def examine(self, when: When, played: Played | None = None, case: Case | None = None) -> Objection | None:
        """Returns the first objection."""

    def has_failed(self) -> bool:
        """Tells whether the process has ended, or said that something in it failed."""

    def owed(self, place: str) -> Objection | None:
        """Waits for what is owed, to a link on which nothing is said or in the end; returns an objection to it."""

    def close(self) -> None:
        """Ends the sessions of the canary."""


class Ground(Protocol):
    """What the lab asks of a ``stages.Stage``."""

    node: Node

    def start(self) -> None:
        """Starts the node."""

    def restart(self) -> None:
        """Kills and starts it."""

    def player(
        self, rng: random.Random | None = None, trace: Trace | None = None, answers: Answers | None = None
    ) -> Player:
        """Returns one more player."""

    def stop(self) -> None:
        """Ends the node."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one step did.

    Attributes:
        link: Number of its link in the trace; 0 when there is none.
        start: Position of its first event.
        end: Position behind its last one.
        values: Live values of the link behind it.
        sn: Next sequence numbers of the link behind it: reliable, best effort.
    """

    link: int
    start: int
    end: int
    values: Mapping[str, bytes] = field(default_factory=dict)
    sn: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Tried:
    """A script that was played once on a node, or round by round.

    Attributes:
        script: What was played.
        objection: What an oracle saw; None when the node is well.
        played: What became of it, of the last round.
        rounds: How often it was played.
        fresh: The node had just been started.
        events: What went over the links in the last round.
        endpoints: Addresses of the links.
        parts: One for each step of the last round.
        helpers: Live values of links that states made beside those of the script, by number.
        waited: Seconds for which the node seemed well behind it, before it was not.
        grown: Bytes of memory, and descriptors, threads and children together, that the process holds more a second,
            behind its warming up; seconds that an answer takes longer.
        seconds: How long it took.
    """

    script: Script
    objection: Objection | None = None
    played: Played = field(default_factory=Played)
    rounds: int = 1
    fresh: bool = True
    events: list[Event] = field(default_factory=list)
    endpoints: dict[int, Endpoints] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    helpers: dict[int, Mapping[str, bytes]] = field(default_factory=dict)
    waited: float = 0.0
    grown: tuple[float, float, float] = (0.0, 0.0, 0.0)
    seconds: float = 0.0

    def links(self, *states: str) -> set[int]:
        """Returns the numbers of the links that were brought into one of these states."""
        steps = zip(self.script.steps, self.parts, strict=False)
        return {part.link for step, part in steps if step.do is Do.REACH and step.state in states}


def linger_of(waited: float) -> float:
    """Returns seconds in which a process may die of what it took so many seconds to die of."""
    return min(LONGEST_LINGER, max(LINGER, LINGERING * waited))


class NoFreshNode(HarnessError):
    """No node could be started for a try."""


def needs_of(script: Script) -> str:
    """Returns what the node must do for the states of a script."""
    needs = (FACTS[step.state].needs for step in script.steps if step.state is not None)
    return next(filter(None, needs), "")


def _when(number: int, *, last: bool) -> When:
    """Returns how thorough the look behind one of many rounds is."""
    return When.TREND if last or number % LOOK_EVERY == 0 else When.CASE


class Scales:
    """Sees within seconds what the oracles see in minutes: that a process holds more and more.

    Here one thing is done again and again, so that nothing else can be what it grows by.

    Args:
        pid: The process; None for one that is not ours.
    """

    def __init__(self, pid: int | None) -> None:
        self._vitals = Vitals(pid) if pid is not None else None
        self._memory: list[float] = []
        self._handles: list[Handles] = []
        self._before = self._counted()

    def _counted(self) -> list[float]:
        """Returns how much it holds now, and nothing of a process that is gone: the oracles see that."""
        with suppress(OSError):
            return [float(sum(self._vitals.handles()))] if self._vitals is not None else []
        return []

    def weigh(self, *, last: bool) -> Objection | None:
        """Takes a measurement; returns an objection when it has grown enough, or when it went on to the last."""
        if self._vitals is None:
            return None
        with suppress(OSError):  # it is gone: the oracles see that
            self._memory.append(self._vitals.memory())
            self._handles.append(self._vitals.handles())
        looking = last or len(self._memory) % LOOK_EVERY == 0
        # Much is enough at once.
        least = 1 if last else PLENTY
        grown = self._memory[-1] - self._memory[0] if self._memory else 0.0
        if grown > MEMORY_MOST or (looking and _goes_on(self._memory, least * MEMORY_LEAST)):
            detail = f"memory grows by {grown / (1 << 20):.0f} MB in {len(self._memory)} rounds and is still growing"
            return Objection("memory", Harm.GROWTH, "memory", detail)
        if looking and _goes_on(self._held, least * HANDLES_LEAST):
            what, more = self._handles[-1].more_than(self._handles[0]), self._held[-1] - self._held[0]
            return leak(
                what,
                f"{NAMES[what]} increase by {more:.0f} in {len(self._memory)} rounds and are still increasing",
            )
        return None

    def grown(self, seconds: float) -> tuple[float, float]:
        """Returns by how much memory and handles grew a second, behind the first third.

        What a process holds in number is counted from before the first round, as it fills no pools: a round may take so
        long that there is no other.
        """
        return _rate(self._memory, seconds), _rate([*self._before, *self._held], seconds)

    @property
    def _held(self) -> list[float]:
        return [float(sum(handles)) for handles in self._handles]


def _rate(series: list[float], seconds: float) -> float:
    behind = series[len(series) // 3 :]
    return (behind[-1] - behind[0]) / seconds if behind and seconds else 0.0


def _goes_on(series: list[float], least: float) -> bool:
    """Tells whether a series rises to its end; its first part, in which a process warms up, aside."""
    behind = series[len(series) // WARM_UP :]
    # The test looks at every pair.
    few = behind[:: max(1, len(behind) // MEASURED)]
    return growth(few, least) > 0


def _slower(usual: float, longer: float) -> Objection | None:
    """Returns an objection when an answer takes so many seconds longer than usual that it is slow."""
    now = usual + longer
    if now < SLOWER * usual or longer < SLOWER_SECONDS:
        return None
    detail = f"an answer takes {now * 1e3:.1f} ms; it took {usual * 1e3:.2f} ms before"
    return Objection("time", Harm.SLOW, "", detail)


def play_round(
    stage: Ground,
    tried: Tried,
    reply: float,
    answers: Answers,
    failed: Callable[[], bool],
    rng: random.Random | None = None,
) -> None:
    """Plays a script once, and takes in what became of it.

    Args:
        stage: The node.
        tried: Has the script; what is played is put into it.
        reply: T1: seconds that an answer may take.
        answers: Reads them.
        failed: Tells, while something is waited for, that the node has failed.
        rng: Draws ZenohIDs; not from the seed when None: a node that still closes the last session of one refuses it.
    """
    trace = Trace()
    player = stage.player(rng, trace, answers)
    player.reply, player.nth_play = reply, tried.rounds
    played = tried.played = Played(valid=tried.script.valid)
    tried.parts, tried.helpers = [], {}
    until = time.monotonic() + TRY_SECONDS
    try:
        for step in tried.script.steps:
            if time.monotonic() >= until:
                raise GivenUp(f"it takes more than {TRY_SECONDS:g} s to replay")
            start = trace.end
            try:
                run(player.steps((step,), played), failed)
            finally:
                # Some are dropped when the node does not answer.
                tried.helpers |= {pipe.number: dict(pipe.values) for pipe in player.helpers.values()}
                pipe = player.links.get(step.link)
                tried.parts.append(
                    Part(pipe.number, start, trace.end, dict(pipe.values), (pipe.sn, pipe.sn_be))
                    if pipe is not None
                    else Part(0, start, trace.end)
                )
        run(player.conclude(played), failed)
    except (NotReached, GivenUp) as error:
        played.failure = str(error)
    finally:
        player.leave()
    tried.events = trace.since(0)
    tried.endpoints = dict(trace.endpoints)


def _is_dead(node: Node) -> bool:
    return bool(node.death())


def _is_odd(played: Played) -> bool:
    """Tells whether a node that is well need not have answered so."""
    return bool(played.failure) or played.ending is Ending.SILENT


class Seat:
    """One node on which scripts are tried.

    Args:
        stage: The node, not started.
        make: Makes its patient.
        reply: T1: seconds that an answer may take.

    Attributes:
        state: ``down``, ``fresh``, ``used`` or ``harmed``.
        usual: Seconds that an exchange takes when the node is fresh.
        owed: What is waited for behind a script; see Lab.
        rare: See Lab.
        weighs: See Lab.
    """

    def __init__(self, stage: Ground, make: Callable[[Ground], Nurse], reply: float) -> None:
        self.stage = stage
        self._reply = reply
        self.state = "down"
        self.usual = 0.0
        self.owed = ""
        self.rare = False
        self.weighs = True
        self._make = make
        self._patient: Nurse | None = None
        self._answers = Answers()

    def prepare(self) -> None:
        """Starts the node anew.

        Raises:
            HarnessError: It does not come up.
        """
        self._forget()
        if self.state == "down":
            self.stage.start()
        else:
            self.stage.restart()
        self._patient = self._make(self.stage)
        self._patient.begin()
        self.usual = max(self.usual, self._patient.usual)
        self.state = "fresh"

    def play(
        self,
        script: Script,
        rounds: int = 1,
        case: Case | None = None,
        seconds: float = ROUNDS_SECONDS,
        linger: float = 0.0,
        look: When = When.ODD,
    ) -> Tried:
        """Plays a script and looks at the node; see Lab.play. When it is played once, ``look`` is how thoroughly."""
        assert self._patient is not None
        tried = Tried(script, fresh=self.state == "fresh")
        scales = Scales(self.stage.node.pid) if rounds > 1 else None
        usual = self._pace() if rounds > 1 else 0.0
        longer = 0.0
        began = time.monotonic()
        self.state = "used"
        self._patient.rare = self.rare
        for number in range(1, rounds + 1):
            tried.rounds = number
            self._round(tried)
            over = time.monotonic() - began >= seconds
            last = number == rounds or over
            when = look if rounds == 1 else _when(number, last=last)
            tried.objection = self._patient.examine(when, tried.played, case)
            if tried.objection is None and scales is not None:
                tried.objection = scales.weigh(last=last) if self.weighs else None
                if last and tried.objection is None and usual:
                    longer = max(0.0, self._pace() - usual)
                    tried.objection = _slower(usual, longer)
            if tried.objection is not None or last:
                break
        if tried.objection is None:
            self._look_later(tried, case, linger)
        if self.owed == ENDING:
            self.state = "harmed"
        if tried.objection is not None:
            self.state = "harmed"
            if rounds > 1 and tried.objection.harm in SLOW:
                # It is not looked for behind a single round.
                tried.rounds = max(TWICE, tried.rounds)
        if scales is not None:
            played = time.monotonic() - began
            tried.grown = *scales.grown(played), longer / played
        tried.seconds = time.monotonic() - began
        return tried

    def examine(self, tried: Tried, look: When) -> None:
        """Looks at the node behind a try."""
        assert self._patient is not None
        tried.objection = self._patient.examine(look, tried.played)
        if tried.objection is not None:
            self.state = "harmed"

    def _look_later(self, tried: Tried, case: Case | None, linger: float) -> None:
        """Waits for what does not show at once: the end of the process, what is owed to links on which nothing is said."""
        assert self._patient is not None
        well = time.monotonic()
        if linger and self._ends_within(linger):
            waited = time.monotonic() - well
            tried.objection = self._patient.examine(When.ODD, tried.played, case)
            tried.waited = waited if tried.objection is not None else 0.0
        if tried.objection is None and self.owed:
            tried.objection = self._patient.owed(self.owed)

    def _pace(self) -> float:
        """Returns seconds that declarations and an answer behind them take in a session; 0 when there is none."""
        player = self.stage.player(random.Random(), answers=self._answers)
        times = []
        try:
            for _ in range(PACE):
                pipe = player.reach(State.OPEN)
                began = time.perf_counter()
                player.say(pipe, DECLARATIONS, "D_SUBSCRIBER")
                run(player.settle(pipe, Played()))
                times.append(time.perf_counter() - began)
        except NotReached:
            return 0.0
        finally:
            player.leave()
        return median(times)

    def _ends_within(self, seconds: float) -> bool:
        """Waits for the process to end, or to say that something in it failed; tells whether to look again."""
        pid = self.stage.node.pid
        if pid is None:
            return False
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return True
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(seconds * 1000)
        finally:
            os.close(descriptor)
        return True

    def _round(self, tried: Tried) -> None:
        assert self._patient is not None
        play_round(self.stage, tried, self._reply, self._answers, self._patient.has_failed)

    def close(self) -> None:
        """Ends the node."""
        self._forget()
        if self.state != "down":
            self.stage.stop()
            self.state = "down"

    def _forget(self) -> None:
        if self._patient is not None:
            self._patient.close()
            self._patient = None


class Lab:
    """Tries scripts on nodes of its own.

    Args:
        config: The run.
        node: The node under test; those of the lab are made like it.
        stage_of: Makes a stage for what states need; for tests.
        patient_of: Makes the patient of a stage; for tests.
        seats: Nodes at a time.
        also: Another node, of which others are made as well: what differs is tried on both.

    Attributes:
        tries: How many scripts were tried.
        starts: How many nodes were started for it.
        unjudged: What nodes do whatever they are sent, and what therefore shows nothing; and why that is known.
        owed: What is waited for behind each try that is not to be seen at once; empty for nothing.
        rare: What is to be seen may go wrong now and then only: each look takes as long as that needs.
        weighs: Rounds end when the process holds more and more; it may be what makes it slow, where that is to be seen.
    """

    def __init__(
        self,
        config: RunConfig,
        node: Node,
        *,
        stage_of: Callable[[str, Mapping[str, Any]], Ground] | None = None,
        patient_of: Callable[[Ground], Nurse] | None = None,
        seats: int = SEATS,
        also: Node | None = None,
    ) -> None:
        self._config = config
        self._node = node
        self._also = also
        self._stage_of = stage_of or self._stage
        self._patient_of = patient_of or self._patient
        # A node dies with the thread that started it (PR_SET_PDEATHSIG), so threads live as long as the lab.
        self._threads = ThreadPoolExecutor(seats, "lab")
        self._count = seats
        self._seats: list[Seat] = []
        self._known: WeakKeyDictionary[Stage, Fresh] = WeakKeyDictionary()
        self._starting: dict[int, Future[None]] = {}
        self._kind: tuple[str, str] | None = None
        self._reply = config.reply
        self._answers = Answers()
        self.tries = 0
        self.starts = 0
        self.unjudged: dict[Spot, str] = {}
        self.owed = ""
        self.rare = False
        self.weighs = True

    def _stage(self, needs: str, where: Mapping[str, Any]) -> Stage:
        return self._made_like(self._node, needs, where)

    def _made_like(self, node: Node, needs: str, where: Mapping[str, Any]) -> Stage:
        # One that is not ours cannot be started anew; whoever wants a try on it knows that.
        return stage_for(needs, node.variant() if node.owned else node, self._config, where)

    def _patient(self, stage: Ground) -> Patient:
        assert isinstance(stage, Stage)
        fresh = self._known.setdefault(stage, Fresh())
        patient = Patient(stage, self._reply, rng=random.Random(), unjudged=self.unjudged, fresh=fresh)
        patient.thorough = True
        return patient

    @property
    def able(self) -> bool:
        """Nodes like the one under test can be started."""
        return self._node.owned

    @property
    def compares(self) -> bool:
        """Nodes like the one under test and like the other one can be started."""
        return self._node.owned and self._also is not None and self._also.owned

    # Trying ----------------------------------------------------------------------------------------

    def play(
        self,
        script: Script,
        *,
        fresh: bool = True,
        rounds: int = 1,
        case: Case | None = None,
        seconds: float = ROUNDS_SECONDS,
        linger: float = 0.0,
    ) -> Tried:
        """Plays a script on a node and looks at the node.

        Args:
            script: What is played.
            fresh: On a node that was just started; otherwise one that survived others may do.
            rounds: How often.
            case: What the script was made of, for oracles that want to know.
            seconds: So long the rounds may take.
            linger: A process that seems well has so many seconds to die.

        Raises:
            NoFreshNode: There is none to be had.
        """
        seat = self._seat(script, fresh=fresh)
        seat.owed, seat.rare, seat.weighs = self.owed, self.rare, self.weighs
        tried = seat.play(script, rounds, case, seconds, linger)
        self.tries += 1
        if seat.state == "harmed":
            self._prepare(seat)
        return tried

    def play_beside(
        self,
        script: Script,
        times: int,
        *,
        rounds: int = 1,
        seconds: float = ROUNDS_SECONDS,
        linger: float = 0.0,
    ) -> list[Tried]:
        """Plays a script on so many fresh nodes side by side: for what is mostly waited for.

        Args:
            script: What is played.
            times: How many nodes.
            rounds: See ``play``.
            seconds: See ``play``.
            linger: See ``play``.

        Raises:
            NoFreshNode: One of them is not to be had.
        """
        seats = self._fresh(script, times)
        for seat in seats:
            seat.owed, seat.rare, seat.weighs = self.owed, self.rare, self.weighs
        with ThreadPoolExecutor(times, "beside") as threads:
            playing = [
                threads.submit(seat.play, script, rounds, seconds=seconds, linger=linger) for seat in seats
            ]
            tries = [one.result() for one in playing]
        self.tries += times
        for seat in seats:
            self._prepare(seat)
        return tries

    def compare(self, script: Script) -> Tried:
        """Plays a script on two nodes that were just started, one of each kind, and sees whether they answer alike.

        Returns:
            The try on the node under test; where they do not, with an objection.

        Raises:
            NoFreshNode: One of them is not to be had.
        """
        assert self._also is not None
        began = time.monotonic()
        needs, where = needs_of(script), dict(script.where)
        try:
            stages = [self._made_like(node, needs, where) for node in (self._node, self._also)]
        except NotApplicable as error:
            raise NoFreshNode(str(error)) from None
        starting = [self._threads.submit(stage.start) for stage in stages]
        mine, their = Tried(script), Tried(script)
        # What a node reads in a stimulus may hang on the ZenohID in it: both get the same.
        seed = random.getrandbits(64)
        try:
            for stage, start, tried in zip(stages, starting, (mine, their), strict=True):
                self._await(start)
                dead = partial(_is_dead, stage.node)
                play_round(stage, tried, self._reply, self._answers, dead, random.Random(seed))
            found = difference(stages[0].node, mine.played, stages[1].node, their.played)
            died = stages[0].node.death()
        finally:
            for stage, start in zip(stages, starting, strict=True):
                with suppress(*NOT_STARTED):  # told by then
                    start.result()
                stage.stop()
        if died:
            mine.objection = Objection("process", Harm.CRASH, "", died)
        elif found is not None:
            mine.objection = Objection("differs", Harm.DIFFERS, *found)
        elif their.played.failure:
            mine.played.failure = f"on {stages[1].node.impl}: {their.played.failure}"
        self.tries += 1
        mine.seconds = time.monotonic() - began
        return mine

    def walk(
        self,
        scripts: Sequence[Script],
        wanted: Callable[[Objection], bool],
        deadline: float,
        look: When = When.ODD,
        *,
        apart: int = 1,
        closely: int = sys.maxsize,
    ) -> tuple[int, Tried] | None:
        """Plays scripts one after the other on a fresh node, with looks at it.

        Args:
            scripts: In order; all need the same node.
            wanted: Tells whether an objection is the one that is looked for; behind another one a fresh node goes on.
            deadline: On ``time.monotonic``.
            look: How thorough the looks are.
            apart: For harm that stays: a look is taken behind every so many, and behind one that the node does not answer.
                What it is seen behind is then looked for in a second walk.
            closely: From this one on a look is taken behind each.

        Returns:
            Position of the first one behind which that is seen, and the try; None when there is none.
        """
        seat: Seat | None = None
        well = 0
        for index, script in enumerate(scripts):
            if time.monotonic() >= deadline:
                return None
            if seat is None:
                seat = self._seat(script, fresh=True)
                seat.rare = self.rare
            tried = seat.play(script, look=When.CASE)
            self.tries += 1
            number, odd = index + 1, _is_odd(tried.played)
            close = odd or index >= closely or number % apart == 0 or number == len(scripts)
            if close and tried.objection is None:
                seat.examine(tried, look)
            if tried.objection is not None:
                self._prepare(seat)
                if wanted(tried.objection):
                    # Those in front of one that got no answer got theirs.
                    if odd or index == well:
                        return index, tried
                    again = self.walk(scripts[:number], wanted, deadline, look, apart=apart, closely=well)
                    return again or (index, tried)
                seat = None
            if close:
                well = number
        return None

    def _seat(self, script: Script, *, fresh: bool) -> Seat:
        """Returns a seat that is free; starts those that are not up."""
        kind = (needs_of(script), repr(script.where))
        if kind != self._kind:
            self._furnish(kind, script)
        idle = [seat for seat in self._seats if id(seat) not in self._starting]
        used = next((seat for seat in idle if seat.state == "used"), None)
        if used is not None and not fresh:
            return used
        wanted = next((seat for seat in self._seats if self._is_up(seat) and seat.state == "fresh"), None)
        if wanted is None:
            for seat in idle:
                self._prepare(seat)
            wanted = min(self._seats, key=lambda seat: list(self._starting).index(id(seat)))
        future = self._starting.pop(id(wanted), None)
        if future is not None:
            self._await(future)
        return wanted

    def _fresh(self, script: Script, count: int) -> list[Seat]:
        """Returns so many seats with nodes that were just started."""
        kind = (needs_of(script), repr(script.where))
        if kind != self._kind:
            self._furnish(kind, script)
        self._add_seats(script, count - len(self._seats))
        # Those that are ready, or will be soonest.
        seats = sorted(self._seats, key=lambda seat: seat.state != "fresh")[:count]
        for seat in seats:
            if seat.state != "fresh":
                self._prepare(seat)
        for seat in seats:
            future = self._starting.pop(id(seat), None)
            if future is not None:
                self._await(future)
        return seats

    def _furnish(self, kind: tuple[str, str], script: Script) -> None:
        """Starts nodes of a kind; those of another kind end."""
        self.rest()
        self._add_seats(script, self._count)
        self._kind = kind

    def _add_seats(self, script: Script, count: int) -> None:
        """Starts so many more nodes that a script can be played on."""
        where = dict(script.where)
        try:
            seats = [
                Seat(self._stage_of(needs_of(script), where), self._patient_of, self._reply)
                for _ in range(count)
            ]
        except NotApplicable as error:
            raise NoFreshNode(str(error)) from None
        self._seats += seats
        for seat in seats:
            self._prepare(seat)

    def _is_up(self, seat: Seat) -> bool:
        future = self._starting.get(id(seat))
        return future is None or future.done()

    def _prepare(self, seat: Seat) -> None:
        if id(seat) not in self._starting:
            self.starts += 1
            self._starting[id(seat)] = self._threads.submit(seat.prepare)

    @staticmethod
    def _await(future: Future[None]) -> None:
        try:
            future.result()
        except NOT_STARTED as error:
            raise NoFreshNode(f"no fresh node for a retry: {error}") from None

    @contextmanager
    def waiting_for(self, harm: Harm | None, place: str) -> Iterator[None]:
        """Waits behind each try for what nodes owe to silent links, or for their end, where that is what is to be seen.

        What they spoil, they may spoil now and then only: there each look is at many exchanges.
        """
        self.rare = harm is Harm.DISTURBED
        self.weighs = harm is not Harm.SLOW
        self.owed = place if harm is Harm.OVERDUE else ENDING if harm is Harm.UNCLEAN else ""
        try:
            yield
        finally:
            self.owed, self.rare, self.weighs = "", False, True

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Waits less for answers than is fair; what is seen so has to be seen again with all the patience."""
        usual = max((seat.usual for seat in self._seats), default=0.0)
        self.rest()
        patience = self._reply
        self._reply = min(patience, max(HURRY * patience, FAIR * usual))
        try:
            yield
        finally:
            self._reply = patience
            self.rest()

    # Ending ----------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Ends the nodes; the next try starts others."""
        # Who asks for the end may do so in the middle of a try.
        for future in list(self._starting.values()):
            with suppress(*NOT_STARTED):
                future.result()
        self._starting.clear()
        for seat in self._seats:
            seat.close()
        self._seats = []
        self._kind = None

    def close(self) -> None:
        """Ends the nodes and threads for good."""
        self.rest()
        self._threads.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
