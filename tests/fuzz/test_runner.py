"""The runner: every case judged and recorded once, harm looked into, the campaign goes on behind it."""

import contextlib
import itertools
import json
import math
import resource
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from scapy.layers.inet import IP
from scapy.utils import RawPcapNgReader

from conformance.config import RunConfig
from conformance.errors import HarnessError, NodeDidNotStart, NotApplicable
from conformance.nodes import Node
from fuzz import runner as module
from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Case, Edge, Source
from fuzz.fairness import Fairness
from fuzz.fast import Ran
from fuzz.known import KnownFindings
from fuzz.lab import Lab
from fuzz.lying import Lying
from fuzz.oracles import Harm, Objection, Patient, When
from fuzz.oracles.history import ENOUGH
from fuzz.oracles.patient import hurried
from fuzz.plan import Done, Numbered
from fuzz.player import Ending, NotReached, Player
from fuzz.recorder import Recorder
from fuzz.runner import Budget, Runner, Summary, forget_cores
from fuzz.stages import Stage
from fuzz.states import FACTS, State
from fuzz.triage import Triage
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Close, Frame
from spark_reports.rows import FUZZ_CASES
from tests.fuzz.fakes import PANIC, FakeNode, config_in

KEY = b"\x03a/b"


def pushes(_: Setting) -> Iterator[Source]:
    push = Frame(R=1, messages=[Push(key_suffix="a/b", body=Put(data=b"hello"))])
    yield Lying("PUSH", State.OPEN, push, {"FRAME.sn": "sn"}, ("FRAME",))
    yield Lying("CLOSE", State.OPEN, Close())


PUSHES = Campaign("pushes", "for tests", pushes)


@contextlib.contextmanager
def running(node: FakeNode, config: RunConfig, budget: Budget, **options: object) -> Iterator[Runner]:
    with node, Recorder(config) as recorder, Lab(config, node) as lab:
        triage = Triage(config, node, lab, KnownFindings())
        runner = Runner(config, node, [PUSHES], budget, recorder, triage, **options)  # type: ignore[arg-type]
        yield runner
        for scene in runner._scenes.values():
            scene.patient.close()
            scene.stage.stop()


def run(node: FakeNode, folder: Path, cases: int, **options: object) -> Summary:
    with running(node, config_in(folder), Budget(cases=cases), **options) as runner:
        return runner.run()


def rows_in(folder: Path) -> Sequence[dict[str, object]]:
    return [json.loads(line) for line in (folder / FUZZ_CASES).read_text().splitlines()]


@pytest.mark.parametrize("engine", ["fast", "boofuzz"])
def test_a_node_that_copes_has_no_finding_and_a_row_for_each_case(tmp_path: Path, engine: str) -> None:
    summary = run(FakeNode(), tmp_path / "run", 60, engine=engine)
    assert not summary.findings
    assert (summary.total, summary.inconclusive, summary.restarts) == (60, 0, 0)
    rows = rows_in(tmp_path / "run")
    assert sorted(row["case"] for row in rows) == list(range(1, 61))  # type: ignore[type-var]
    assert {row["engine"] for row in rows} == {engine}
    assert {row["verdict"] for row in rows} <= {"accepted", "closed", "refused", "silent"}


@pytest.mark.parametrize("engine", ["fast", "boofuzz"])
def test_the_capture_holds_what_a_case_said_and_not_what_was_said_beside_it(
    tmp_path: Path, engine: str
) -> None:
    run(FakeNode(), tmp_path / "run", 60, engine=engine)
    kept = [row["capture"] for row in rows_in(tmp_path / "run") if row["capture"]]
    assert kept
    stories: list[set[int]] = []
    with RawPcapNgReader(str(tmp_path / "run" / str(kept[0]))) as capture:
        for data, meta in capture:
            if any(b" in open; " in comment for comment in meta.comments or ()):
                stories.append(set())
            packet = IP(data)
            stories[-1].add(packet.sport + packet.dport)
    assert len(stories) == len(kept)
    assert {len(links) for links in stories} == {1}


@pytest.mark.parametrize(
    ("does", "harm"), [("die", Harm.CRASH), ("panic", Harm.PANIC), ("stall", Harm.STALL)]
)
def test_harm_is_found_and_the_campaign_goes_on(tmp_path: Path, does: str, harm: Harm) -> None:
    def harms(batch: bytes) -> str:
        return does if b"a/b" in batch and KEY not in batch else ""

    node = FakeNode(harms)
    summary = run(node, tmp_path / "run", 120)
    assert summary.total == 120
    assert summary.restarts >= 1
    assert node.foresights == summary.restarts
    assert {finding.harm for finding in summary.findings} == {harm}
    assert 0 < sum(finding.hits for finding in summary.findings) <= summary.restarts
    rows = rows_in(tmp_path / "run")
    assert len({row["case"] for row in rows}) == len(rows) == 120
    # Each case that met it is held by a finding, whatever it seemed to be.
    met = {row["bucket"] for row in rows if row["verdict"] == "finding"}
    assert met == {name for finding in summary.findings for name in finding.case_buckets}


def test_waiting_to_see_harm_and_to_look_into_it_is_no_time_in_which_the_node_was_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    stall = Objection("ping", Harm.STALL, "", "seen")

    def waited(seconds: float, result: Objection | None) -> Objection | None:
        nonlocal now
        now += seconds
        return result

    with running(FakeNode(), config_in(tmp_path / "run"), Budget(cases=20)) as runner:
        runner.run()
        monkeypatch.setattr("fuzz.runner.time.monotonic", lambda: now)
        runner.summary.lost = 0.0
        runner._budget = Budget(cases=100)
        ran = runner._scenes[""].recent[-1]
        monkeypatch.setattr(Patient, "examine", lambda *_: waited(3.0, None))
        assert runner.ended(ran)
        assert runner.idle()
        assert runner.summary.lost == 0
        monkeypatch.setattr(Patient, "examine", lambda *_: waited(3.0, stall))
        assert not runner.ended(ran)
        assert runner.summary.lost == 3
        assert not runner.idle()
        assert runner.summary.lost == 6
        monkeypatch.setattr(runner, "_last_look", lambda: None)
        monkeypatch.setattr(runner._triage, "finish", lambda seconds: waited(5.0 * (seconds > 0), None))
        runner._budget = Budget(cases=0)
        runner.run()
    assert runner.summary.lost == 11


def noted(node: FakeNode, config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Runs, and returns what was taken for a finding: harm and place, in order."""
    taken: list[tuple[str, str]] = []
    take = Triage.take

    def noting(self: Triage, objection: Objection, *rest: Any, **more: Any) -> None:
        taken.append((str(objection.harm), objection.place))
        take(self, objection, *rest, **more)

    monkeypatch.setattr(Triage, "take", noting)
    with running(node, config, Budget(cases=60)) as runner:
        runner.run()
    return taken


FACE = "some-crate/src/net/face.rs:83"


@pytest.mark.parametrize(
    ("first", "alone", "taken"),
    [
        ("panic", "stall", ("panic", FACE)),
        ("die", "stall", ("crash", "SIGSEGV")),
        ("stall", "panic", ("panic", FACE)),
        ("die", "panic", ("panic", FACE)),
        ("panic", "die", ("panic", FACE)),
    ],
)
def test_of_what_is_seen_at_first_and_alone_what_tells_more_is_the_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, alone: str, taken: tuple[str, str]
) -> None:
    does = iter([first, alone])

    def harms(batch: bytes) -> str:
        return next(does, "") if b"a/b" in batch and KEY not in batch else ""

    assert noted(FakeNode(harms), config_in(tmp_path / "run"), monkeypatch)[0] == taken


def test_what_the_process_says_before_it_is_ended_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = FakeNode(lambda batch: "stall" if b"a/b" in batch and KEY not in batch else "")
    trouble = Runner._trouble

    def speaks(self: Runner, *rest: Any) -> Any:
        assert node.server is not None
        node.server.said = PANIC
        return trouble(self, *rest)

    monkeypatch.setattr(Runner, "_trouble", speaks)
    assert noted(node, config_in(tmp_path / "run"), monkeypatch)[0] == ("panic", FACE)


def test_a_second_place_that_shows_in_its_stead_does_not_hide_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    does = iter(["panic", "relapse"])

    def harms(batch: bytes) -> str:
        how = next(does, "") if b"a/b" in batch and KEY not in batch else ""
        if how != "relapse":
            return how
        assert node.server is not None
        node.server.said = PANIC.replace("face.rs:83", "link.rs:7")
        return ""

    node = FakeNode(harms)
    taken = noted(node, config_in(tmp_path / "run"), monkeypatch)
    assert taken[:2] == [("panic", "some-crate/src/net/link.rs:7"), ("panic", FACE)]


def inside(monkeypatch: pytest.MonkeyPatch, name: str) -> Callable[[], bool]:
    """Returns what tells whether a runner is in one of its methods."""
    method, within = getattr(Runner, name), False

    def called(self: Runner, *rest: Any) -> Any:
        nonlocal within
        within = True
        try:
            return method(self, *rest)
        finally:
            within = False

    monkeypatch.setattr(Runner, name, called)
    return lambda: within


def test_who_did_it_is_looked_for_in_a_hurry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replies: dict[bool, set[float]] = {False: set(), True: set()}
    probing, examine = inside(monkeypatch, "_probe"), Patient.examine

    def examined(self: Patient, *rest: Any) -> Objection | None:
        if threading.current_thread() is threading.main_thread():
            replies[probing()].add(self.reply)
        return examine(self, *rest)

    monkeypatch.setattr(Patient, "examine", examined)
    config = config_in(tmp_path / "run")
    node = FakeNode(lambda batch: "stall" if b"a/b" in batch and KEY not in batch else "")
    with running(node, config, Budget(cases=60)) as runner:
        assert runner.run().restarts >= 1
    assert replies == {False: {config.reply}, True: {hurried(config.reply)}}


@pytest.mark.parametrize(("does", "charged"), [("panic", False), ("die", False), ("stall", True)])
def test_only_what_is_waited_for_counts_for_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, charged: bool
) -> None:
    charges: list[bool] = []
    in_trouble = inside(monkeypatch, "_trouble")
    monkeypatch.setattr(Fairness, "charge", lambda *_: charges.append(in_trouble()))
    node = FakeNode(lambda batch: does if b"a/b" in batch and KEY not in batch else "")
    with running(node, config_in(tmp_path / "run"), Budget(cases=60)) as runner:
        runner._fairness = Fairness(4)
        assert runner.run().restarts >= 1
    assert any(charges) is charged


@contextlib.contextmanager
def paced(folder: Path, monkeypatch: pytest.MonkeyPatch, rate: float, seconds: float) -> Iterator[Any]:
    """A runner that only waits between cases, on a clock of its own; ``now`` is what it shows."""
    clock = SimpleNamespace(now=1000.0, looks=0)

    def looked(_: Summary) -> None:
        clock.looks += 1

    def sleep(nap: float) -> None:
        clock.now += nap

    with running(FakeNode(), config_in(folder), Budget(cases=5), progress=looked) as runner:
        runner.run()
        runner._rate, clock.looks = rate, 0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
        runner._began, runner._due = clock.now, 0.0
        runner._budget = Budget(seconds=seconds)
        clock.pace = runner._pace
        yield clock
        monkeypatch.undo()


def test_a_rate_holds_behind_a_long_pause_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with paced(tmp_path / "run", monkeypatch, rate=20, seconds=100) as clock:
        for pause in (0.0, 30.0):
            clock.now += pause
            until, cases = clock.now + 1, 0
            while clock.now < until and cases < 100:
                clock.pace()
                cases += 1
            assert 18 <= cases <= 23


def test_the_wait_for_the_next_case_is_looked_up_from_and_ends_with_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with paced(tmp_path / "run", monkeypatch, rate=0.01, seconds=4) as clock:
        clock.pace()
        assert clock.now == pytest.approx(1004, abs=0.3)
        assert clock.looks >= 15


def test_boofuzz_does_not_rest_behind_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    class Clock:
        def __getattr__(self, name: str) -> object:
            return getattr(time, name)

        def sleep(self, seconds: float) -> None:
            rests.append(seconds)

    monkeypatch.setattr("boofuzz.sessions.session.time", Clock())
    node = FakeNode(lambda batch: "die" if b"a/b" in batch and KEY not in batch else "")
    summary = run(node, tmp_path / "run", 200, engine="boofuzz")
    assert summary.restarts >= 1
    assert sum(rests) == 0


def test_cases_beside_the_harmful_one_are_played_again(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def harms(batch: bytes) -> str:
        seen.append(batch)
        return "die" if len(seen) == 40 else ""

    summary = run(FakeNode(harms), tmp_path / "run", 80)
    numbers = [row["case"] for row in rows_in(tmp_path / "run")]
    assert sorted(numbers) == list(range(1, 81))  # type: ignore[type-var]
    assert summary.restarts >= 1


def test_what_was_played_again_in_vain_is_not_left_in_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []
    died: list[bytes] = []
    left: list[int] = []

    def harms(batch: bytes) -> str:
        if KEY not in batch:
            return ""
        heard.append(batch)
        if len(heard) < 3 or died:
            return ""
        died.append(batch)
        return "die"

    class Forgetful(FakeNode):
        def start(self) -> None:
            super().start()
            heard.clear()

    trouble = Runner._trouble

    def watched(runner: Runner, *given: Any) -> Numbered | None:
        done = trouble(runner, *given)
        left.append(len(heard))
        return done

    monkeypatch.setattr(Runner, "_trouble", watched)
    run(Forgetful(harms), tmp_path / "run", 60)
    assert died
    assert left == [0]


def test_what_is_done_is_left_out_and_shares_are_disjoint(tmp_path: Path) -> None:
    run(FakeNode(), tmp_path / "a", 20, done={"pushes": Done(20)})
    assert sorted(row["case"] for row in rows_in(tmp_path / "a")) == list(range(21, 41))  # type: ignore[type-var]
    shares = []
    for job in (0, 1):
        run(FakeNode(), tmp_path / f"job{job}", 20, job=job, jobs=2)
        shares.append({row["case"] for row in rows_in(tmp_path / f"job{job}")})
    assert not shares[0] & shares[1]


def test_time_ends_a_run(tmp_path: Path) -> None:
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(seconds=3)) as runner:
        summary = runner.run()
    assert 2 < summary.seconds < 30
    assert summary.total > 10


class Turns:
    """A runner whose cases cost what they are said to cost, on a clock of its own.

    Attributes:
        played: Cases by stage, turn by turn.
        given: Seconds that a stage may have, turn by turn.
    """

    def __init__(self, runner: Runner, monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]) -> None:
        self.runner = runner
        self.played: list[dict[str, int]] = []
        self.given: list[float] = []
        self._seconds = seconds
        self._now = 0.0
        slow = replace(FACTS[State.CONNECTED], needs="slow")
        monkeypatch.setattr(module, "FACTS", {**FACTS, State.CONNECTED: slow})
        monkeypatch.setattr(module, "stage_for", self._stage)
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self._now))
        monkeypatch.setattr(runner, "_play_on", self._play_on)

    def _stage(self, needs: str, node: Node, config: RunConfig) -> Stage:
        stage = Stage(node, config)
        stage.needs = needs
        return stage

    def _play_on(self, scene: module._Scene, left: list[Numbered], seconds: float) -> list[Numbered]:
        self.given.append(seconds)
        cost = self._seconds[scene.stage.needs] * len(left)
        self.played[-1][scene.stage.needs] = len(left)
        self._now += cost
        scene.seconds += cost
        scene.played += len(left)
        self.runner.summary.cases["pushes"] += len(left)
        return []

    def turn(self, *states: State) -> None:
        """Plays one case for each state."""
        self.played.append({})
        cases = [Numbered(PUSHES, 1, cast("Case", SimpleNamespace(state=state))) for state in states]
        self.runner._play(cases)

    def seconds(self, needs: str) -> float:
        """Returns how long a stage had."""
        return sum(turn.get(needs, 0) for turn in self.played) * self._seconds[needs]


def test_the_turn_of_a_stage_is_told_to_its_oracles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    for name in ("pause", "resume"):
        monkeypatch.setattr(Patient, name, lambda _, name=name: told.append(name))
    summary = run(FakeNode(), tmp_path / "run", 40)
    assert summary.total == 40
    assert told
    assert told == ["resume", "pause"] * (len(told) // 2)


def test_a_stage_that_takes_long_gets_its_share_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(seconds=1e6)) as runner:
        turns = Turns(runner, monkeypatch, {"": 1.0, "slow": 5.0})
        for _ in range(200):
            turns.turn(State.OPEN, State.OPEN, State.OPEN, State.CONNECTED)
        assert all(turn[""] == 3 for turn in turns.played)
        slow = turns.seconds("slow")
        # A quarter of the cases may have a quarter of the time.
        assert 0.2 < slow / (slow + turns.seconds("")) < 0.3
        waiting = len(runner._scenes["slow"].waiting)
        assert waiting == 200 - slow / 5 > 0
        turns.turn()
        assert turns.played[-1] == {"slow": waiting}


def test_of_what_waits_too_long_the_rest_is_let_go_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PUT_OFF", 10)
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(seconds=1e6)) as runner:
        turns = Turns(runner, monkeypatch, {"": 1.0, "slow": 500.0})
        for _ in range(50):
            turns.turn(State.OPEN, State.CONNECTED)
        scene = runner._scenes["slow"]
        assert (len(scene.waiting), len(scene.let_go)) == (10, 39)
        assert runner.postponed == scene.left
        assert len(runner.postponed) == 49
        runner.summary.seconds = 550.0
        runner._note("slow", scene)
        assert runner.summary.notes[:1] == [
            "49 cases were postponed: those that need a node that slow took 91% of the time"
        ]


def test_what_an_earlier_part_postponed_waits_for_its_turn(tmp_path: Path) -> None:
    done = {PUSHES.name: Done(400, postponed=frozenset(range(5, 305)))}
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(seconds=1e6), done=done) as runner:
        first = [one.number for one in runner._batch()]
        assert min(first) == 401
        assert sorted(runner.postponed) == [(PUSHES.name, number) for number in range(5, 305)]
    # Where cases are played in their order nothing waits.
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(cases=9), done=done) as runner:
        assert [one.number for one in runner._batch()] == list(range(5, 14))


def test_states_that_are_left_out_are_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> Stage:
        raise NotApplicable("needs a node that is started with a configuration of its own")

    monkeypatch.setattr(module, "stage_for", none)
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(cases=20)) as runner:
        assert runner._scene("joins") is None
        assert runner.summary.notes[-1] == (
            "states skipped (joins): needs a node that is started with a configuration of its own"
        )


@pytest.mark.parametrize("seconds", [None, 1e6])
def test_cases_by_number_are_not_put_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None
) -> None:
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(seconds, 1000)) as runner:
        turns = Turns(runner, monkeypatch, {"": 1.0, "slow": 5.0})
        for _ in range(20):
            turns.turn(State.OPEN, State.CONNECTED)
        assert all(turn == {"": 1, "slow": 1} for turn in turns.played)
        assert set(turns.given) == {math.inf}
        assert runner._fairness is None


def test_what_ends_in_the_turn_of_a_finding_is_not_looked_into_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[When] = []
    examine = Patient.examine

    def counted(self: Patient, when: When, *rest: object) -> Objection | None:
        looks.append(when)
        return examine(self, when, *rest)  # type: ignore[arg-type]

    with running(FakeNode(), config_in(tmp_path / "run"), Budget(cases=20)) as runner:
        runner.run()
        scene = runner._scenes[""]
        ran = scene.recent[-1]
        monkeypatch.setattr(Patient, "examine", counted)
        ran.played.ending = Ending.SILENT
        runner._look(scene, ran)
        scene.stage.prompt = True
        runner._look(scene, ran)
        runner._objection = Objection("ping", Harm.STALL, "", "seen")
        assert runner._look(scene, ran) is None
    assert looks == [When.BEAT, When.ODD]


def test_what_is_not_judged_any_more_is_told_to_the_oracles_and_at_the_end(tmp_path: Path) -> None:
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(cases=20)) as runner:
        runner._triage.unjudged[Harm.DISTURBED, "publication twice"] = "it is so"
        summary = runner.run()
        assert runner._scenes[""].patient.unjudged is runner._triage.unjudged
    assert [note for note in summary.notes if "judging stopped" in note] == [
        "judging stopped during the run: disturbed publication twice: it is so"
    ]


def test_a_node_that_cannot_be_had_any_more_ends_it_with_all_recorded(tmp_path: Path) -> None:
    class Once(FakeNode):
        def start(self) -> None:
            if self.starts:
                raise NodeDidNotStart("not again")
            super().start()

        def variant(self, **_: object) -> "Once":
            return Once(self._harm)

    node = Once(lambda batch: "die" if b"a/b" in batch and KEY not in batch else "")
    with running(node, config_in(tmp_path / "run"), Budget(cases=200)) as runner:
        with pytest.raises(NodeDidNotStart, match="not again"):
            runner.run()
        assert len(rows_in(tmp_path / "run")) == runner.summary.total > 0


def test_how_much_longer_a_run_took_than_it_was_to_is_known_and_what_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def takes(seconds: float) -> Any:
        def work(*_: object) -> None:
            runner._began -= seconds
            began.append(seconds)

        return work

    began: list[float] = []
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(seconds=100, cases=10)) as runner:
        monkeypatch.setattr(runner, "_last_look", takes(150))
        summary = runner.run()
        assert 50 <= summary.over < 100
        assert list(summary.behind) == ["checking the node", "analysing the last findings"]
        monkeypatch.setattr(runner._triage, "minimise_all", takes(1000))
        runner.minimise()
    assert began == [150, 1000]
    assert 1050 <= summary.over < 1100
    assert list(summary.behind)[2:] == [
        "analysing findings that there was no time for",
        "minimising findings",
    ]


@pytest.mark.parametrize(
    ("owned", "measured", "said"), [(True, ENOUGH - 1, True), (True, ENOUGH, False), (False, 0, False)]
)
def test_that_no_process_was_looked_at_for_long_enough_to_see_a_leak_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: int, *, owned: bool, said: bool
) -> None:
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(cases=5)) as runner:

        def look() -> None:
            scene = runner._scenes[""]
            scene.patient.measured = measured
            monkeypatch.setattr(scene.stage.node, "owned", owned)

        monkeypatch.setattr(runner, "_last_look", look)
        notes = runner.run().notes
        monkeypatch.undo()
    assert any(note.startswith("leaks not judged: that takes some 150 s") for note in notes) is said


def test_crashes_leave_no_cores() -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        forget_cores()
        assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.parametrize(
    ("well", "many", "full"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_node_that_takes_sessions_again_without_those_of_cases_but_not_as_many_was_full(
    tmp_path: Path, *, well: bool, many: bool, full: bool
) -> None:
    refused = Objection("ping", Harm.REFUSING, "INIT: CLOSE MAX_SESSIONS", "a new session fails")
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(cases=20)) as runner:
        runner.run()
        scene = runner._scenes[""]
        scene.patient.reply = 0.01
        looks = iter([refused, None] if well else itertools.repeat(refused))
        scene.patient.examine = lambda *_, **__: next(looks)  # type: ignore[method-assign]
        scene.patient.takes = lambda number: many and number >= scene.stage.lanes  # type: ignore[method-assign]
        assert runner._was_full(scene, refused) == full
        assert scene.engine.one_by_one == full
    assert any("accepts few links" in note for note in runner.summary.notes) == full


def test_a_node_that_was_only_full_is_not_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Objection("ping", Harm.REFUSING, "INIT: CLOSE MAX_SESSIONS", "a new session fails")
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(cases=20)) as runner:
        looks = iter([refused])
        monkeypatch.setattr(Patient, "examine", lambda *_, **__: next(looks, None))
        monkeypatch.setattr(Patient, "takes", lambda *_: False)
        summary = runner.run()
    assert (summary.total, summary.restarts, summary.findings) == (20, 0, [])


def test_in_a_state_that_is_never_reached_no_more_is_tried(tmp_path: Path) -> None:
    applies = []
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(seconds=1e6)) as runner:
        scene = runner._scene("")
        assert scene is not None
        vain = cast("Case", SimpleNamespace(state=State.PENDING, plan=None, source=None, causes=()))
        runner._triage.leaves_out = lambda _: False  # type: ignore[method-assign,assignment]
        for reached in (set(), {State.PENDING}):
            scene.reached = {str(state) for state in reached}
            for failed in (module.ATTEMPTS - 1, module.ATTEMPTS):
                scene.failed[State.PENDING] = failed
                applies.append(runner._applies(Numbered(PUSHES, 1, vain)))
    assert applies == [True, False, True, True]


@pytest.mark.parametrize(
    ("budget", "owned", "told", "spent", "daring"),
    [
        (Budget(seconds=1e6), True, True, 0.0, True),
        (Budget(seconds=1e6), True, False, 0.0, False),
        (Budget(seconds=1e6), False, True, 0.0, False),
        (Budget(seconds=1e6), True, True, module.DARING * 100 + 1, False),
        # What is played for a number and a seed is always the same.
        (Budget(cases=100), True, True, 0.0, False),
    ],
)
def test_lie_that_was_tried_nowhere_is_tried_once_although_others_like_it_only_hit_a_finding(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    budget: Budget,
    owned: bool,
    told: bool,
    spent: float,
    daring: bool,
) -> None:
    node = FakeNode()
    monkeypatch.setattr(node, "owned", owned)
    with running(node, config_in(tmp_path / "run"), budget) as runner:
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: runner._began + 100))
        monkeypatch.setattr(runner._triage, "leaves_out", lambda _: True)
        monkeypatch.setattr(runner._triage, "is_told_apart", lambda _: told)
        runner._dared_seconds = spent
        edge, tried = Edge("PUSH", "PUSH.key_suffix", "256 bytes"), Edge("PUSH", "PUSH.key_suffix", "empty")
        runner.summary.coverage.edges[tried] = 1

        def applies(*edges: Edge) -> bool:
            case = cast("Case", SimpleNamespace(state=State.OPEN, edges=edges, causes=()))
            return runner._applies(Numbered(PUSHES, 1, case))

        assert [applies(tried), applies(edge, tried), applies(edge)] == [False, daring, False]
        assert runner.summary.left_out == 3 - daring


def test_time_after_such_a_lie_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(
        FakeNode(lambda batch: "panic" if KEY in batch else ""), config_in(tmp_path / "run"), Budget(cases=8)
    ) as runner:
        monkeypatch.setattr(
            runner,
            "_dared",
            {edge for plan in runner._plans for source in plan.sources for edge in source.edges()},
        )
        summary = runner.run()
        assert summary.restarts
        assert 0 < runner._dared_seconds <= summary.lost


def test_run_ends_when_the_node_comes_into_none_of_the_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reaching(_: Player, state: State) -> NoReturn:
        raise NotReached(f"the link does not come into {state}")

    with running(FakeNode(), config_in(tmp_path / "run"), Budget(seconds=1e6)) as runner:
        scene = runner._scene("")
        assert scene is not None
        monkeypatch.setattr(Player, "reaching", reaching)
        scene.patient.examine = lambda *_, **__: None  # type: ignore[method-assign]
        with pytest.raises(HarnessError, match="no case can be run on this node"):
            runner.run()
        assert runner.summary.inconclusive >= module.ATTEMPTS
        assert any("does not reach the state open" in note for note in runner.summary.notes)


def test_state_that_cases_reached_is_said_to_be_missed_at_times(tmp_path: Path) -> None:
    with running(FakeNode(), config_in(tmp_path / "run"), Budget(cases=1)) as runner:
        scene = runner._scene("")
        assert scene is not None
        ran = cast(
            "Ran", SimpleNamespace(state=State.OPEN, played=SimpleNamespace(failure="the end of the link"))
        )
        scene.reached.add("open")
        for _ in range(2 * module.ATTEMPTS):
            runner._give_up(scene, ran)
        assert runner.summary.notes == ["the node did not always reach the state open: the end of the link"]
