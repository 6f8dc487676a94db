"""Runs campaigns against a node: which case is next, who plays it, who judges it, what happens when it harms."""

from __future__ import annotations

import math
import random
import resource
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from conformance.config import RunConfig
from conformance.errors import HarnessError, NotApplicable
from conformance.nodes.base import Node
from fuzz.boo import Boo
from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Case, Edge
from fuzz.compared import Compared
from fuzz.coverage import Coverage
from fuzz.fairness import Fairness
from fuzz.fast import LANES, Fast, Ran
from fuzz.findings import ACTED, CERTAIN, CONFIRMED, Finding
from fuzz.kinship import STAGE
from fuzz.lab import SLOW
from fuzz.memory import give_back
from fuzz.oracles import DEADLY, ORACLES, PAUSE, TREND_SECONDS, Harm, Objection, Patient, When
from fuzz.oracles.history import ENOUGH
from fuzz.plan import Done, Numbered, Plan, merged, mine
from fuzz.player import Answers, Ending, Played, Player, Trace
from fuzz.player.player import PATIENCE
from fuzz.recorder import Recorder
from fuzz.script import Do, Script, Step
from fuzz.stages import Stage, stage_for
from fuzz.states import FACTS, State
from fuzz.triage import LATE, Suspect, Triage, akin, bucket_of, telling
from fuzz.witness import Witness

FIRST_BATCH, BATCH = 16, 512
"""So many cases are taken at once and played stage by stage; fewer in the beginning."""

LONG_TURN = 5.0
"""Seconds for that; when it took longer, fewer are taken the next time."""

RECENT = 1000
"""So many cases behind us may be laid a finding on that shows late."""

LATELY = 2 * LANES
"""So many of the last cases a node may still have to do with when the next one waits for it."""

TRIAGE_SHARE = 0.5
"""Findings may be looked into for so much of the time that is left."""

FOREIGN_LANES = 2
"""Links side by side to a node of which nobody knows how many it takes."""

LEAST_TRIAGE = 10.0
"""Seconds for looking into a finding, also when the run is about to end."""

LAST_TRIAGE = 60.0
"""Seconds for all that is still to be looked into when the run has ended, at most."""

MADE_UP = 0.1
"""Seconds of a time without cases that a run with a rate makes up for: several cases end in one turn. More of it would be
more cases in a second than the user wants."""

NAP = 0.2
"""So long nobody is heard while the next case is waited for."""

PROBES = 40
"""So many of the last cases are played again one by one when a node was harmed; a beat comes more often."""

PROBE_SECONDS = 4.0
"""So long that may take."""

ATTEMPTS = 5
"""So often in a row a state may not be reached although the node is well; then that is said."""

LISTENS = "takes links"
"""What a node does for the states that need nothing else."""

DARING = 0.1
"""Of the time, so much may go into restarts after lies that are played once although they may only hit findings again."""

FAIR = 0.2
"""Of the time a stage may have so much while cases of others wait; more only if it has more of the cases."""

SETTLED = 10.0
"""Seconds from the beginning in which stages are not put off: what each takes is not known yet."""

UNHURRIED = 4
"""A node that takes long to answer when it is fresh may take so many times as long."""

SLOW_ANSWER = 0.02
"""Seconds; when an answer takes longer on a fresh node, that is said, because it makes all of a run slow."""

PUT_OFF = 2048
"""So many cases of a stage wait for its turn; more are let go."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When a run ends.

    Attributes:
        seconds: Of wall clock; None for no limit.
        cases: Number of cases; None for no limit.
    """

    seconds: float | None = None
    cases: int | None = None


@dataclass(slots=True)
class Summary:
    """What a run did.

    Attributes:
        cases: Cases that ran, by campaign.
        inconclusive: Those of them that learned nothing.
        seconds: How long it took.
        lost: How much of that went into findings and restarts: the looks that saw them, trying them again, waiting
            for the last of them at the end.
        restarts: How often a node was started again, or waited for.
        slowest_restart: Seconds from the decision to the next case that can be played.
        left_out: Cases that were masked.
        coverage: What was tried and what came back.
        findings: In the order they were found.
        notes: What was not applicable, and why.
        interrupted: Ended by a signal.
        stopped: Why it ended before its time; empty otherwise.
        blind: Oracles that failed themselves: what they would have seen is not known.
        doing: What goes on behind the last case; empty while cases are played.
        spent: Seconds that each oracle took for looks at a node that was well.
        looks: How many those were.
        compared: What was compared with another node.
        behind: Seconds that things took behind the last case, by what was done.
        over: Seconds beyond the time that the run was given.
    """

    coverage: Coverage
    cases: Counter[str] = field(default_factory=Counter)
    inconclusive: int = 0
    seconds: float = 0.0
    lost: float = 0.0
    restarts: int = 0
    slowest_restart: float = 0.0
    left_out: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    stopped: str = ""
    blind: list[str] = field(default_factory=list)
    doing: str = ""
    spent: dict[str, float] = field(default_factory=dict)
    looks: Counter[str] = field(default_factory=Counter)
    compared: Compared = field(default_factory=Compared)
    behind: dict[str, float] = field(default_factory=dict)
    over: float = 0.0

    @property
    def total(self) -> int:
        """Cases of all campaigns."""
        return self.cases.total()

    @property
    def rate(self) -> float:
        """Cases a second."""
        return self.total / self.seconds if self.seconds else 0.0

    @property
    def healthy_rate(self) -> float:
        """Cases a second while the node was well."""
        well = self.seconds - self.lost
        return self.total / well if well > 0 else 0.0


MOST_COMPARED = 64
"""So many cases are kept that were compared with another node and may be forgotten."""


class _Scene:
    """A stage with everything around it.

    Attributes:
        stage: The node.
        also: The other node that gets the same; None for none.
        patient: The node as the oracles see it.
        engine: Plays.
        recent: What was played, the newest last.
        trace: What went over the links.
        seconds: How long its cases took, with what was found by them.
        played: How many there were.
        waiting: Cases that were put off, because it takes long.
        let_go: Campaigns and numbers of those that were too many to wait.
        usual: Seconds that an exchange took when the node was fresh; the longest of all times that it was.
        compared: Cases that wait for being compared with another node, and some that were.
    """

    def __init__(self, runner: Runner, stage: Stage, also: Stage | None) -> None:
        self.stage = stage
        self.also = also
        self.trace = Trace()
        self._answers = runner.answers
        self.failed: Counter[str] = Counter()
        self.reached: set[str] = set()
        self.patient = Patient(
            stage, runner.config.reply, rng=random.Random(), also=also, unjudged=runner.unjudged
        )
        self.recent: deque[Ran] = deque(maxlen=RECENT)
        self.patient.lately = self._lately
        self.seconds = 0.0
        self.played = 0
        self.waiting: list[Numbered] = []
        self.let_go: list[tuple[str, int]] = []
        self._players: list[Player] = []
        self.usual = 0.0
        self.compared: dict[Case, Ran] = {}
        self.engine = runner.engine_for(self._player, stage.lanes)

    def put_off(self, cases: Sequence[Numbered]) -> None:
        """Lets cases wait for the next turn of the stage, as many as can wait."""
        self.waiting = list(cases[:PUT_OFF])
        self.let_go += [(one.campaign.name, one.number) for one in cases[PUT_OFF:]]

    @property
    def left(self) -> list[tuple[str, int]]:
        """Campaigns and numbers of the cases whose turn did not come."""
        return [*((one.campaign.name, one.number) for one in self.waiting), *self.let_go]

    def _lately(self) -> list[Played]:
        """Returns what became of the cases that the node may still have to do with."""
        return [ran.played for ran in (*islice(reversed(self.recent), LATELY), *self.engine.in_flight)]

    def never_reaches(self, state: str) -> bool:
        """Tells whether the node was often to come into a state, and never did."""
        return state not in self.reached and self.failed[state] >= ATTEMPTS

    def is_for(self, state: str) -> bool:
        """Tells whether cases of a state are played here."""
        return bool(state) and FACTS[State(state)].needs == self.stage.needs

    def begin(self) -> None:
        """Gets to know a node that was just started."""
        self.patient.begin()
        self.usual = max(self.usual, self.patient.usual)
        for player in self._players:
            player.patience = max(PATIENCE, min(player.reply, UNHURRIED * self.patient.usual))

    def slow(self) -> str:
        """Returns in words that the node takes long to answer; nothing when it does not."""
        if self.usual < SLOW_ANSWER:
            return ""
        lanes = len(self._players)
        links = "only one link is used" if lanes == 1 else f"only {lanes} links are used"
        return (
            f"the node answers slowly: an exchange took {self.usual * 1e3:.0f} ms when it was fresh; each case waits "
            f"for an answer, and {links} in parallel, so the rate is low"
        )

    def _player(self) -> Player:
        player = self.stage.player(random.Random(), self.trace, self._answers)
        self._players.append(player)
        return player


class Runner:
    """Runs campaigns against a node that was started.

    Args:
        config: The run.
        node: The node, started.
        campaigns: What is played; with several of them, by turns.
        budget: When to end.
        recorder: Takes every case.
        triage: Looks into findings.
        job: Which of several processes this is, from 0.
        jobs: How many there are.
        done: Cases that ran in an earlier part of this run, by campaign.
        rate: Cases a second at most; None for no limit.
        minimise: Seconds for making each finding smaller.
        corpus: Folder of a corpus that is kept from run to run.
        engine: ``fast`` or ``boofuzz``.
        also: Another node that every case is played on, started; None for none.
        database: Where boofuzz keeps its own record; in memory when None.
        web: Port of boofuzz's own page on loopback; None for none.
        progress: Called now and then.
    """

    def __init__(
        self,
        config: RunConfig,
        node: Node,
        campaigns: Sequence[Campaign],
        budget: Budget,
        recorder: Recorder,
        triage: Triage,
        *,
        job: int = 0,
        jobs: int = 1,
        done: Mapping[str, Done] | None = None,
        rate: float | None = None,
        minimise: float = 20.0,
        corpus: Path | None = None,
        engine: str = "fast",
        also: Node | None = None,
        database: Path | None = None,
        web: int | None = None,
        progress: Callable[[Summary], None] = lambda _: None,
    ) -> None:
        self.config = config
        self.answers = Answers()
        self.also = also
        self._engine = engine
        self._database, self._web = database, web
        self._node = node
        self._budget = budget
        self._recorder = recorder
        self._triage = triage
        self.unjudged = triage.unjudged
        self._rate = rate
        self._minimise = minimise
        self._progress = progress
        setting = Setting(config.seed, corpus)
        self._plans = [Plan(campaign, setting) for campaign in campaigns]
        cases = merged(self._plans, config.seed)
        self._cases = mine(cases, dict(done or {}), job, jobs)
        self._postponed = {name: earlier.postponed for name, earlier in (done or {}).items()}
        self._scenes: dict[str, _Scene] = {}
        self._refused: dict[str, str] = {}
        self._now: _Scene | None = None
        self._began = 0.0
        self._ahead = FIRST_BATCH // 2
        self._turn = 0.0
        self._turn_ends = math.inf
        self._due = 0.0
        # With a number of cases all that is due is played in its order, so that it is the same for the same seed.
        self._in_order = budget.seconds is None or budget.cases is not None
        sources = sum(len(plan.sources) for plan in self._plans)
        self._fairness = None if self._in_order else Fairness(sources)
        self._dared: set[Edge] = set()
        self._dared_seconds = 0.0
        self._objection: Objection | None = None
        self._running: list[Ran] = []
        self._buckets: set[str] = set()
        notices = {getattr(source, "notice", "") for plan in self._plans for source in plan.sources}
        self.summary = Summary(Coverage({plan.campaign.name: plan.sources for plan in self._plans}))
        self.summary.notes += sorted(filter(None, notices))

    # The run -----------------------------------------------------------------------------------------

    def run(self) -> Summary:
        """Runs until the budget is spent, the cases are, or somebody presses Ctrl-C.

        Raises:
            HarnessError: The node is not to be had any more, or does nothing of what the cases need; all cases so far
                are recorded.
        """
        self._began = time.monotonic()
        try:
            while not self._spent():
                batch = self._batch()
                if not batch and not any(scene.waiting for scene in self._scenes.values()):
                    if not self._playable:
                        raise HarnessError(
                            "no case can be run on this node; see above for what it would need"
                        )
                    break
                began = time.monotonic()
                self._play(batch)
                self._turn = time.monotonic() - began
            self._wind_up()
        except KeyboardInterrupt:
            self.summary.interrupted = True
        finally:
            self.summary.seconds = time.monotonic() - self._began
            self._triage.finish(0)
            rivals = [scene.patient.rival for scene in self._scenes.values()]
            self._triage.compared(sum((one.counts for one in rivals if one is not None), Counter()))
            self.summary.findings = list(self._triage.findings.values())
            self.summary.notes += filter(None, [self._fairness.note()] if self._fairness else [])
            self.summary.notes += sorted(
                f"judging stopped during the run: {' '.join(filter(None, spot))}: {why}"
                for spot, why in self.unjudged.items()
            )
            self.summary.notes += filter(None, [self._too_short_for_leaks(), self._unasked()])
            for needs, scene in self._scenes.items():
                self._note(needs, scene)
                scene.engine.abandon()
                scene.patient.close()
                scene.stage.stop()
                if scene.also is not None:
                    scene.also.stop()
        return self.summary

    def _unasked(self) -> str:
        """Returns in words that the node never asked for the user that it was to be told; else nothing."""
        nodes = [scene.stage.node for scene in self._scenes.values()]
        if self.config.user is None or not any(node.asks_user is False for node in nodes):
            return ""
        return "the node does not ask for a user and a password: --user made no difference"

    def _too_short_for_leaks(self) -> str:
        """Returns in words that no process was looked at for so long that a leak would have shown; else nothing."""
        measured = [scene.patient.measured for scene in self._scenes.values() if scene.stage.node.owned]
        if not measured or max(measured) >= ENOUGH:
            return ""
        return (
            f"leaks not judged: that takes some {ENOUGH * TREND_SECONDS:.0f} s of cases on one process of the node; "
            "use a longer --time"
        )

    def _note(self, needs: str, scene: _Scene) -> None:
        """Says what could not be judged, and what there was no time for."""
        patient = scene.patient
        where = f" ({needs})" if needs else ""
        self.summary.notes += filter(None, [scene.slow()])
        self.summary.looks += patient.looks
        for name, seconds in patient.spent.items():
            self.summary.spent[name] = self.summary.spent.get(name, 0.0) + seconds
        left = len(scene.left)
        if left and needs and self._had_enough(scene):
            share = scene.seconds / self.summary.seconds
            self.summary.notes.append(
                f"{left} cases were postponed: those that need a node that {needs} took {share:.0%} of the time"
            )
        if patient.rival is not None:
            self.summary.compared.merge(patient.rival.so_far())
        self.summary.notes += [f"not judged{where}: {name}: {why}" for name, why in patient.notes.items()]
        self.summary.blind += [
            f"oracle {name} failed{where} and was disabled: {why}" for name, why in patient.failures.items()
        ]

    @property
    def postponed(self) -> list[tuple[str, int]]:
        """Campaigns and numbers of the cases whose turn did not come, to be played when the run is resumed."""
        put_off = self._fairness.left if self._fairness else []
        return [*put_off, *(one for scene in self._scenes.values() for one in scene.left)]

    def engine_for(self, make: Callable[[], Player], lanes: int) -> Fast | Boo:
        """Returns what plays cases on one stage."""
        if self._engine == Fast.name:
            # Some nodes take ten links in all, and ours for looking are among them.
            most = LANES if self._node.configured else FOREIGN_LANES
            return Fast(make, self, min(most, lanes))
        return Boo(make, self, self._database, self._web)

    def minimise(self, left: Sequence[Path] = ()) -> None:
        """Looks into the findings that there was no time for, and makes those smaller that are not yet.

        Args:
            left: Folders of what an earlier part of the run did not come to.
        """

        def begin(doing: str) -> Callable[[int, int], None]:
            def tell(number: int, count: int) -> None:
                self.summary.findings = list(self._triage.findings.values())
                give_back()
                self._tell(f"{doing}, {number} of {count}")

            return tell

        try:
            if self._minimise and left:
                doing = "analysing and minimising findings of an earlier part of the run"
                with self._behind(doing):
                    self._triage.take_over(left, begin(doing))
            if self._minimise:
                doing = "analysing findings that there was no time for"
                with self._behind(doing):
                    self._triage.catch_up(self._minimise, begin(doing))
            doing = "minimising findings" if self._minimise else "checking the tests of the findings"
            with self._behind(doing):
                self._triage.minimise_all(self._minimise, begin(doing))
        except KeyboardInterrupt:
            self.summary.interrupted = True
        self.summary.findings = list(self._triage.findings.values())

    def _tell(self, doing: str) -> None:
        """Tells what goes on behind the last case."""
        self.summary.doing = doing
        self._progress(self.summary)

    def _spent(self) -> bool:
        seconds, most = self._budget.seconds, self._budget.cases
        if seconds is not None and time.monotonic() - self._began >= seconds:
            return True
        if most is not None and self.summary.total >= most:
            return True
        self.summary.stopped = self._recorder.full
        return bool(self.summary.stopped)

    @property
    def _playable(self) -> bool:
        """Some of the cases can be played on this node."""
        return any(self._is_had(state) for plan in self._plans for state in plan.campaign.states)

    def _is_had(self, state: State) -> bool:
        """Tells whether the node comes into a state, as far as anybody knows."""
        needs = FACTS[state].needs
        if needs in self._refused:
            return False
        scene = self._scenes.get(needs)
        return scene is None or self._in_order or not scene.never_reaches(state)

    def _wind_up(self) -> None:
        """Looks at the nodes once more, and waits for what is being looked into."""
        with self._behind("checking the node"):
            self._last_look()
            self._see_end()
        self._tell("analysing the last findings" if self._triage.open else "")
        began = time.monotonic()
        with self._behind("analysing the last findings"):
            self._triage.finish(min(LAST_TRIAGE, LEAST_TRIAGE * max(1, self._triage.open)))
        self._lose(began)

    @contextmanager
    def _behind(self, doing: str) -> Iterator[None]:
        """Takes note of how long something takes behind the last case, and of how far that is beyond the time."""
        began = time.monotonic()
        try:
            yield
        finally:
            now = time.monotonic()
            behind = self.summary.behind
            behind[doing] = behind.get(doing, 0.0) + now - began
            if self._budget.seconds is not None:
                self.summary.over = max(0.0, now - self._began - self._budget.seconds)

    def _left(self) -> float:
        """Seconds that are left; many when there is no limit."""
        seconds = self._budget.seconds
        return 3600.0 if seconds is None else max(0.0, seconds - (time.monotonic() - self._began))

    def _batch(self) -> list[Numbered]:
        # What a case needs is read when it is first met; the first cases shall not wait for that of all others.
        # What takes long makes the turns of all stages long.
        self._ahead = (
            max(FIRST_BATCH, self._ahead // 2) if self._turn > LONG_TURN else min(BATCH, 2 * self._ahead)
        )
        most = self._ahead
        if self._budget.cases is not None:
            most = min(most, self._budget.cases - self.summary.total)
        fairness = self._fairness
        if not self._playable:
            return []
        batch = [one for one in fairness.due() if self._applies(one)] if fairness else []
        seen = len(batch)
        for one in self._cases:
            if self._applies(one):
                if fairness and one.number in self._postponed.get(one.campaign.name, ()):
                    fairness.wait(one)
                    continue
                seen += 1
                if not self._put_off(one):
                    batch.append(one)
            if seen >= most:
                break
        return batch or (fairness.rest(most) if fairness else [])

    def _put_off(self, one: Numbered) -> bool:
        """Lets a case wait whose source had more of the time than is fair; tells whether it does."""
        return self._fairness is not None and self._fairness.put_off(one)

    def _applies(self, one: Numbered) -> bool:
        """Tells whether a case can be played, and shall be."""
        if not self._is_had(one.case.state):
            return False
        if self._dares(one.case):
            return True
        if self._triage.leaves_out(one.case):
            self.summary.left_out += 1
            self.summary.coverage.leave_out(one.case)
            return False
        return True

    def _dares(self, case: Case) -> bool:
        """Tells whether a case is played that is to be left out: for a lie that was tried nowhere, once.

        Behind a fault that is known may be another one. Restarts have a share of the time for it.
        """
        if self._in_order or not self._node.owned or not self._triage.is_told_apart(case):
            return False
        tried = self.summary.coverage.edges
        new = [edge for edge in case.edges if edge not in tried and edge not in self._dared]
        passed = time.monotonic() - self._began
        if not new or self._dared_seconds > DARING * passed:
            return False
        self._dared.update(new)
        return True

    def _play(self, batch: list[Numbered]) -> None:
        """Plays cases, stage by stage."""
        by_stage: dict[str, list[Numbered]] = {}
        for one in batch:
            by_stage.setdefault(FACTS[one.case.state].needs, []).append(one)
        for needs, known in self._scenes.items():
            if known.waiting:
                by_stage.setdefault(needs, [])
        for needs, cases in by_stage.items():
            scene = self._scene(needs)
            if scene is None:
                continue
            left, scene.waiting = [*scene.waiting, *cases], []
            shares = bool(needs and batch) and len(by_stage) > 1 and not self._in_order
            if not shares or not self._had_enough(scene):
                left = self._play_on(scene, left, LONG_TURN if shares else math.inf)
            scene.put_off(left)

    def _play_on(self, scene: _Scene, left: list[Numbered], seconds: float) -> list[Numbered]:
        """Plays cases on one stage for some time; returns those that there was no time for."""
        began, before = time.monotonic(), self.summary.total
        self._now = scene
        if not self.summary.total:
            # What it takes to begin is no time of the run.
            self._began = began
            if self._fairness:
                self._fairness.begin()
        self._turn_ends = began + seconds
        scene.patient.resume()
        while left and not self.rests() and not self._spent():
            todo = iter(left)
            self._objection = None
            if self._fairness:
                self._fairness.go_on()
            scene.engine.play(todo)
            objection = self._seen()
            self._running = scene.engine.in_flight
            left = [*scene.engine.abandon(), *scene.engine.waiting(), *todo]
            if objection is not None and not self._was_full(scene, objection):
                played = self._trouble(scene, objection)
                left = [one for one in left if one is not played and self._applies(one)]
                left = [one for one in left if not self._put_off(one)]
        scene.patient.pause()
        scene.seconds += time.monotonic() - began
        scene.played += self.summary.total - before
        return left

    def _had_enough(self, scene: _Scene) -> bool:
        """Tells whether a stage had more of the time than is fair."""
        passed = time.monotonic() - self._began
        if self._in_order or passed < SETTLED:
            return False
        return scene.seconds / passed > max(FAIR, scene.played / max(1, self.summary.total))

    def _seen(self) -> Objection | None:
        return self._objection

    def _scene(self, needs: str) -> _Scene | None:
        """Returns the stage for cases of one kind, started; None when this node has no such."""
        if needs in self._scenes:
            return self._scenes[needs]
        if needs in self._refused:
            return None
        try:
            stage = stage_for(needs, self._node, self.config)
            stage.start()
        except NotApplicable as error:
            self._refused[needs] = str(error)
            self.summary.notes.append(f"states skipped ({needs or LISTENS}): {error}")
            return None
        scene = self._scenes[needs] = _Scene(self, stage, self._beside(needs))
        scene.begin()
        return scene

    def _beside(self, needs: str) -> Stage | None:
        """Returns the same stage of the other node; None when there is none, or it cannot do what is needed."""
        if self.also is None:
            return None
        try:
            stage = stage_for(needs, self.also, self.config)
            stage.start()
        except NotApplicable as error:
            self.summary.notes.append(f"states not compared ({needs or LISTENS}): {error}")
            return None
        return stage

    # Called by the engine ----------------------------------------------------------------------------

    def ended(self, ran: Ran) -> bool:
        """See fast.Judge."""
        scene = self._now
        assert scene is not None
        scene.recent.append(ran)
        began = time.monotonic()
        objection = self._look(scene, ran)
        if objection is not None:
            # Most of it was waited for.
            self._lose(began)
        if objection is not None and objection.case is not None:
            # The node is well.
            self._take_difference(scene, objection, objection.case)
            objection = None
        self._record(scene, ran, objection)
        if self._triage.collect():
            self._learn()
            give_back()
        self._progress(self.summary)
        # Others that were moved in the same turn must not hide it.
        self._objection = self._objection or objection
        if self._rate:
            self._pace()
        if self._fairness and self._objection is None:
            self._fairness.ended(ran.numbered, lambda: [other.numbered for other in scene.engine.in_flight])
        return objection is None and not self._spent()

    def _record(self, scene: _Scene, ran: Ran, objection: Objection | None) -> None:
        """Writes the row of a case, and counts it."""
        played, case = ran.played, ran.numbered.case
        took = time.perf_counter() - ran.started
        if played.failure and objection is None:
            self.summary.inconclusive += 1
            self._give_up(scene, ran)
        elif not played.failure:
            scene.reached.add(str(ran.state))
        # What it is laid on in the end stands in the finding, and with it what it seems to be now.
        bucket = bucket_of(objection, case, ran.state) if objection is not None else ""
        if bucket:
            self._buckets.add(bucket)
        verdict = "finding" if objection else "inconclusive" if played.failure else str(played.ending)
        name, capture = ran.numbered.campaign.name, ""
        if self.summary.coverage.add(name, case, played, verdict):
            if objection is None:
                case.source.learn(case, played)
            capture = self._recorder.keep(scene.trace, case, played)
        self._recorder.case(
            ran.numbered.number,
            name,
            case,
            played,
            verdict,
            objection=objection,
            bucket=bucket,
            instance=scene.stage.node.starts,
            engine=scene.engine.name,
            duration_s=took,
            time_ns=ran.started_ns,
            position=ran.position,
            session=ran.lane,
            parent=str(getattr(case.plan, "origin", "")),
            capture=capture,
        )
        self.summary.cases[name] += 1
        self.summary.seconds = time.monotonic() - self._began

    def idle(self) -> bool:
        """See fast.Judge."""
        scene = self._now
        assert scene is not None
        scene.patient.keep()
        began = time.monotonic()
        self._objection = scene.patient.examine(When.CASE)
        if self._objection is not None:
            self._lose(began)
        return self._objection is None and not self._spent()

    def failed(self) -> bool:
        """See fast.Judge."""
        assert self._now is not None
        return self._now.patient.has_failed()

    def rests(self) -> bool:
        """See fast.Judge. The turn of a stage ends."""
        return time.monotonic() >= self._turn_ends

    def _pace(self) -> None:
        """Waits until the next case is due, unless the run ends before; what was missed long ago is not made up for."""
        assert self._now is not None
        assert self._rate
        self._due = max(self._due, time.monotonic() - MADE_UP) + 1 / self._rate
        while (early := self._due - time.monotonic()) > 0 and not self._spent():
            time.sleep(min(early, NAP))  # the user asked for it
            # What is waited for is no silence of ours, and somebody may ask for the end.
            self._now.patient.keep()
            self._progress(self.summary)

    def _look(self, scene: _Scene, ran: Ran) -> Objection | None:
        """Asks the oracles: the cheap ones always, the others when it is time or something looks odd."""
        patient, played = scene.patient, ran.played
        if self._objection is not None:
            # It was moved in the same turn: that the node is not well is known.
            return None
        when = patient.due()
        silent = played.ending is Ending.SILENT
        odd = played.failure or (silent and (scene.stage.prompt or played.rtt >= PAUSE))
        if odd and when is not When.TREND:
            when = When.ODD
        elif silent and when is When.CASE:
            when = When.BEAT
        patient.keep()
        rival = patient.rival
        if rival is None:
            return patient.examine(when, played, ran.numbered.case)
        compared = rival.compared
        if len(scene.compared) > 2 * rival.waiting + MOST_COMPARED:
            scene.compared = {case: ran for case, ran in scene.compared.items() if rival.waits(case)}
        if rival.wants(ran.numbered.case, silent=silent):
            scene.compared[ran.numbered.case] = ran
        objection = patient.examine(when, played, ran.numbered.case)
        if self._fairness and rival.compared > compared:
            # It is no fault of the case that was just played.
            self._fairness.go_on()
        return objection

    def _take_difference(self, scene: _Scene, objection: Objection, case: Case) -> None:
        """Takes in that another node answers a case otherwise. It came again by then; a fresh node shows no more."""
        self._triage.take(objection, [_suspect(scene.compared[case], ())], 0.0)
        self._learn()

    def _give_up(self, scene: _Scene, ran: Ran) -> None:
        """Counts how often a state was not reached although the node is well."""
        state = str(ran.state)
        scene.failed[state] += 1
        if scene.failed[state] == ATTEMPTS:
            rest = (
                "; no further cases were tried in it"
                if scene.never_reaches(state) and not self._in_order
                else ""
            )
            how = "did not always reach" if state in scene.reached else "does not reach"
            self.summary.notes.append(f"the node {how} the state {state}: {ran.played.failure}{rest}")

    # Harm --------------------------------------------------------------------------------------------

    def _was_full(self, scene: _Scene, objection: Objection) -> bool:
        """Tells whether a node that refused a new session takes one now that all links of cases are closed, but not many.

        It was full of them, which a node with a small table may be: from then on one case at a time is played. One that
        takes as many sessions again had another reason.
        """
        if objection.harm is not Harm.REFUSING:
            return False
        deadline = time.monotonic() + scene.patient.reply
        while (now := scene.patient.examine(When.ODD)) is not None:
            if now.harm is not Harm.REFUSING or time.monotonic() >= deadline:
                return False
        links = {link for ran in self._running for link in ran.played.links}
        if scene.patient.takes(max(scene.stage.lanes, len(links))):
            return False
        if not scene.engine.one_by_one:
            self.summary.notes.append(
                f"the node accepts few links: it refused a new session ({objection.place}) while cases were using theirs; "
                "from then on, cases ran one at a time"
            )
        scene.engine.one_by_one = True
        return True

    def _trouble(self, scene: _Scene, objection: Objection) -> Numbered | None:
        """Looks into a finding, and gets the node going again.

        Returns:
            The case that did it, if it was under way when the harm was seen: it has its row now.
        """
        began = time.monotonic()
        # The last look at this process: it is about to be ended.
        objection = scene.patient.more_of(objection)
        suspects = self._suspects(scene)
        witness = self._witness(scene, objection)
        likely = self._likely(scene)
        running = {id(ran) for ran in self._running}
        done: Numbered | None = None
        dared = False
        try:
            if not scene.stage.node.owned:
                # It may never come back; and there is nothing to try it on.
                finding = self._triage.found(objection, suspects, buckets=self._buckets, witness=witness)
                self._restart(scene)
                self._triage.behind(finding, scene.patient.examine(When.BEAT))
                return None
            self._restart(scene)
            culprit = (
                self._probe(scene, objection, likely) if objection.harm not in SLOW | {Harm.OVERDUE} else None
            )
            blamed = likely[: 1 + len(self._running)] if culprit is None else [culprit[0]]
            dared = any(not self._dared.isdisjoint(ran.numbered.case.edges) for ran in blamed)
            if self._fairness and objection.harm in DEADLY:
                # Nothing was waited for; what does it again and again is left out.
                self._fairness.go_on()
            elif self._fairness:
                self._fairness.charge(ran.numbered for ran in blamed)
            scene.patient.close()
            if culprit is not None:
                ran, seen = culprit
                # Alone it may stall without the panic that came with it, which tells what it was.
                worst = max(seen, objection, key=telling)
                if id(ran) in running:
                    self._record(scene, ran, worst)
                    done = ran.numbered
                # A node may take a moment to die, and it is laid on one that was played meanwhile.
                before = [_suspect(other, ()) for other in likely[: likely.index(ran)][-LATE:]]
                if not akin(objection, seen):
                    before = suspects
                seconds = self._triage_seconds()
                self._triage.take(worst, [_suspect(ran, ())], seconds, before, self._buckets, witness)
                if worst is seen and not akin(objection, seen) and objection.harm in CERTAIN | ACTED:
                    # Another fault, and true as it was seen.
                    self._triage.take(objection, suspects, seconds, (), self._buckets, witness)
            else:
                self._triage.take(objection, suspects, self._triage_seconds(), (), self._buckets, witness)
            # What was played again is in no row and nobody's suspect: it shall not help what comes next to do harm.
            self._restart(scene)
        finally:
            self._buckets.clear()
            self._learn()
            self._lose(began)
            if dared:
                self._dared_seconds += time.monotonic() - began
        return done

    def _lose(self, began: float) -> None:
        """The time since then went into findings."""
        self.summary.lost += time.monotonic() - began

    def _triage_seconds(self) -> float:
        """Returns how long a finding may be looked into."""
        return max(LEAST_TRIAGE, TRIAGE_SHARE * self._left())

    def _learn(self) -> None:
        """Takes in what was found."""
        self.summary.findings = list(self._triage.findings.values())
        for scene in self._scenes.values():
            scene.patient.familiar |= any(
                finding.place == STAGE and finding.status == CONFIRMED and scene.is_for(finding.state)
                for finding in self.summary.findings
            )

    def _likely(self, scene: _Scene) -> list[Ran]:
        """Returns what was under way, and what was played since the last good look: the newest first."""
        recent = list(scene.recent)[-PROBES:]
        last = recent[-1:] if recent and recent[-1].played.ending is not Ending.ACCEPTED else []
        rest = recent[: len(recent) - len(last)]
        return [*last, *reversed(self._running), *reversed(rest)]

    def _probe(
        self, scene: _Scene, objection: Objection, likely: Sequence[Ran]
    ) -> tuple[Ran, Objection] | None:
        """Plays cases again, one by one; returns the one that harms the node, as it was played now."""
        when = ORACLES[objection.oracle].when if objection.oracle in ORACLES else When.ODD
        when = When.BEAT if when is When.CASE else when
        names = [name for name in ORACLES if name != "differs"]
        player = scene.stage.player(random.Random(), scene.trace, self.answers)
        deadline = time.monotonic() + PROBE_SECONDS
        # It is confirmed later, with all patience.
        with scene.patient.hurried() as player.reply:
            try:
                for ran in likely:
                    again = replace(ran, started_ns=time.time_ns(), started=time.perf_counter(), position=0)
                    script = _suspect(ran, ()).alone
                    again.played = player.play(script, scene.patient.has_failed)
                    seen = scene.patient.examine(when, again.played, ran.numbered.case, names)
                    if seen is not None:
                        ran.played, ran.started_ns, ran.position = again.played, again.started_ns, 0
                        return ran, seen
                    if time.monotonic() >= deadline:
                        return None
            finally:
                player.leave()
        return None

    def _restart(self, scene: _Scene) -> None:
        began = time.monotonic()
        scene.recent.clear()
        scene.stage.restart()
        scene.begin()
        self.summary.restarts += 1
        self.summary.slowest_restart = max(self.summary.slowest_restart, time.monotonic() - began)
        # What was harmed once is harmed again.
        scene.stage.node.ahead()

    def _witness(self, scene: _Scene, objection: Objection) -> Callable[[Path], None]:
        """Returns what writes the traffic up to now, which goes on."""
        played = [*scene.recent, *self._running]
        states = {link: ran.state for ran in played for link in ran.played.links}
        last = {link for ran in played[-1 - len(self._running) :] for link in ran.played.links}
        return Witness(scene.trace, last, states, objection.detail).write

    def _suspects(self, scene: _Scene) -> list[Suspect]:
        """Returns what may have done it, the most recent last; each with what was played on its link before."""
        links: dict[int, list[Ran]] = {}
        suspects = []
        for ran in [*scene.recent, *self._running]:
            before = links.setdefault(ran.lane, [])
            suspects.append(_suspect(ran, before))
            before.append(ran)
        return suspects

    def _last_look(self) -> None:
        """Judges once more, thoroughly, when all cases were played: some harm shows late."""
        for scene in self._scenes.values():
            if scene.recent:
                objection = scene.patient.examine(When.TREND)
                if objection is not None:
                    self._trouble(scene, objection)

    def _see_end(self) -> None:
        """Asks the nodes to end, as their users would, and sees how they do that."""
        for scene in self._scenes.values():
            node = scene.stage.node
            if not scene.recent or node.pid is None or node.death():
                # It was just started, or is another stage's too.
                continue
            self._tell("checking how the node shuts down")
            began = time.monotonic()
            # eclipse-zenoh waits 10 s for links on which no session was begun.
            scene.stage.withdraw()
            objection = scene.patient.ending()
            if objection is not None:
                witness = self._witness(scene, objection)
                self._triage.take(objection, self._suspects(scene), self._triage_seconds(), witness=witness)
                self._learn()
            elif not (node.death() or node.has_left()):
                self.summary.notes.append(
                    f"the node did not exit within {time.monotonic() - began:.0f} s of SIGTERM and was killed"
                )
            self._lose(began)


def _suspect(ran: Ran, before: Sequence[Ran]) -> Suspect:
    """Returns a case as a suspect.

    Args:
        ran: The case.
        before: What was played on its link before it.
    """
    steps = (step for other in [*before, ran] for step in other.steps)
    valid = all(other.numbered.case.source.all_valid for other in [*before, ran])
    script = Script((Step(Do.REACH, "a", ran.state), *steps), valid=valid)
    return Suspect(ran.numbered, ran.steps, script, ran.lane, ran.state, ran.played)


def forget_cores() -> None:
    """Keeps nodes that crash from writing their memory to disk.

    boofuzz, when it is imported, allows that for this process and its children. It takes half a second, in
    which a crash looks like a stall, and leaves hundreds of megabytes in the working directory.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
