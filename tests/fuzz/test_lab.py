from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from operator import eq
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from conformance.errors import NotApplicable
from conformance.nodes import node_of
from fuzz.cases import Case, reach, send
from fuzz.lab import Lab, NoFreshNode, Scales, Seat, needs_of
from fuzz.oracles import Harm, Objection, When
from fuzz.oracles.vitals import Handles
from fuzz.player import Played
from fuzz.script import Do, Script, Step
from fuzz.states import State
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame, Init
from tests.fuzz.fakes import FakeNode
from tests.fuzz.hospital import CRASH, GROWTH, STALL, Doctor, SickNode, behind, config_in, lab_of, on, suspect
from tests.fuzz.oracles.router import REPLY, RouterNode, RouterStage
from tests.fuzz.planted import FAULTS

SOON = 30.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def lab(folder: Path) -> Iterator[Lab]:
    with lab_of(config_in(folder), SickNode(on(b"bad"))) as made:
        yield made


def test_a_script_is_played_and_what_is_wrong_is_seen(lab: Lab) -> None:
    tried = lab.play(suspect(1, b"bad").alone)
    assert tried.objection == CRASH
    assert tried.fresh
    assert [event.raw for event in tried.events if event.raw] == [b"\x03\x00bad"]
    assert len(tried.parts) == 2
    assert lab.play(suspect(1, b"good").alone).objection is None


def test_each_try_that_wants_a_fresh_node_gets_one(folder: Path) -> None:
    with lab_of(config_in(folder), SickNode(behind(b"one", b"two"))) as lab:
        assert lab.play(suspect(1, b"one").alone).objection is None
        assert lab.play(suspect(2, b"two").alone).objection is None
        assert lab.play(suspect(3, b"one").alone, fresh=False).objection is None
        tried = lab.play(suspect(4, b"two").alone, fresh=False)
        assert tried.objection == CRASH
        assert not tried.fresh
        assert lab.play(suspect(5, b"two").alone).fresh


def test_tries_side_by_side_are_all_on_fresh_nodes(lab: Lab) -> None:
    for _ in range(2):
        lab.play(suspect(1, b"good").alone)
        tries = lab.play_beside(suspect(2, b"bad").alone, 3)
        assert [(tried.objection, tried.fresh) for tried in tries] == [(CRASH, True)] * 3
    assert lab.tries == 8
    assert lab.play(suspect(3, b"good").alone).objection is None


def test_node_that_takes_long_is_hurried_no_more_than_it_can_bear(folder: Path) -> None:
    patient = replace(config_in(folder), time_scale=1.0)
    with lab_of(patient, SickNode(on(b"bad"))) as lab:
        lab.play(Script(()))
        usual = lab._reply
        lab._seats[0].usual = usual / 40
        with lab.hurried():
            assert lab._reply == usual / 2


def test_a_walk_stops_behind_the_first_that_does_the_harm_that_is_looked_for(folder: Path) -> None:
    def fault(heard: list[bytes]) -> Objection | None:
        return on(b"other", STALL)(heard) or on(b"bad")(heard)

    words = [b"a", b"other", b"bad", b"c", b"bad"]
    scripts = [suspect(number, word).alone for number, word in enumerate(words)]
    until, crash = time.monotonic() + SOON, partial(eq, CRASH)
    with lab_of(config_in(folder), SickNode(fault)) as lab:
        seen = lab.walk(scripts, crash, until)
        assert seen is not None
        assert (seen[0], seen[1].objection) == (2, CRASH)
        assert lab.walk(scripts[:2], crash, until) is None
        assert lab.walk(scripts, crash, time.monotonic() - 1) is None


class Glancing(Doctor):
    """Sees nothing unless it looks thoroughly."""

    looked: ClassVar[list[When]] = []

    def examine(self, when: When, played: Played | None = None, case: Case | None = None) -> Objection | None:
        self.looked.append(when)
        seen = super().examine(when, played, case)
        return None if when is When.CASE else seen


def test_a_walk_looks_behind_few_and_finds_behind_which_harm_that_stays_began(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This node answers nothing, and each look would be a thorough one.
    monkeypatch.setattr("fuzz.lab._is_odd", lambda _: False)
    monkeypatch.setattr("tests.fuzz.hospital.Doctor", Glancing)
    Glancing.looked.clear()
    scripts = [suspect(number, b"bad" if number == 21 else b"good").alone for number in range(60)]
    with lab_of(config_in(folder), SickNode(on(b"bad"))) as lab:
        seen = lab.walk(scripts, partial(eq, CRASH), time.monotonic() + SOON, apart=16)
    assert seen is not None
    assert seen[0] == 21
    # Behind the 16th, the 32nd; in the second walk behind the 16th, and each from there on.
    assert Glancing.looked.count(When.ODD) == 2 + 1 + (22 - 16)


def test_a_walk_stops_at_once_behind_what_got_no_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.lab._is_odd", lambda played: any(b"bad" in sent for sent in played.sent))
    monkeypatch.setattr("tests.fuzz.hospital.Doctor", Glancing)
    scripts = [suspect(number, b"bad" if number == 21 else b"good").alone for number in range(60)]
    with lab_of(config_in(folder), SickNode(on(b"bad"))) as lab:
        seen = lab.walk(scripts, partial(eq, CRASH), time.monotonic() + SOON, apart=16)
        assert seen is not None
        assert (seen[0], lab.tries) == (21, 22)


def test_rounds_go_on_until_it_shows(folder: Path) -> None:
    with lab_of(config_in(folder), SickNode(lambda heard: CRASH if heard.count(b"x") >= 40 else None)) as lab:
        script = suspect(1, b"x").alone
        assert lab.play(script).objection is None
        tried = lab.play(script, rounds=100)
        assert tried.objection == CRASH
        assert tried.rounds == 40


def test_a_node_that_cannot_be_made_is_said(folder: Path) -> None:
    def refuse(needs: str, where: object) -> SickNode:  # noqa: ARG001
        raise NotApplicable("needs what it has not")

    with (
        Lab(config_in(folder), SickNode(on(b"")), stage_of=refuse) as lab,  # type: ignore[arg-type]
        pytest.raises(NoFreshNode, match="needs what it has not"),
    ):
        lab.play(suspect(1, b"x").alone)


def test_a_state_that_is_not_reached_is_no_harm_by_itself(lab: Lab) -> None:
    tried = lab.play(Script((Step(Do.REACH, "a", State.OPEN),)))
    assert tried.objection is None
    assert "expected INIT" in tried.played.failure


def test_hurry_ends(folder: Path) -> None:
    patient = replace(config_in(folder), time_scale=1.0)
    with lab_of(patient, SickNode(on(b"bad"))) as lab:
        before = lab._reply
        with lab.hurried():
            assert lab._reply < before
        assert lab._reply == before


def test_needs_come_from_the_states() -> None:
    assert (
        needs_of(Script((Step(Do.REACH, "a", State.OPEN), Step(Do.REACH, "b", State.COMPRESSED))))
        == "compression"
    )
    assert needs_of(Script(())) == ""


class Growing:
    """Vitals of a process that grows by so much a look."""

    def __init__(self, memory: int, threads: int) -> None:
        self._step = memory, threads
        self._looks = [0, 0]

    def memory(self) -> int:
        self._looks[0] += 1
        return self._looks[0] * self._step[0]

    def handles(self) -> Handles:
        self._looks[1] += 1
        return Handles(20, self._looks[1] * self._step[1], 0)


def harm_of(memory: int, threads: int) -> Harm | None:
    scales = Scales(None)
    scales._vitals = Growing(memory, threads)  # type: ignore[assignment]
    seen = [scales.weigh(last=number == 600) for number in range(1, 601)]
    return next((one.harm for one in seen if one is not None), None)


def test_rounds_do_not_end_by_what_a_process_holds_where_it_is_to_be_seen_whether_it_gets_slow(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scales, "weigh", lambda *_, **__: GROWTH)
    script = suspect(1, b"x").alone
    with lab_of(config_in(folder), SickNode(lambda _: None)) as lab:
        assert lab.play(script, rounds=5).objection == GROWTH
        with lab.waiting_for(Harm.SLOW, ""):
            tried = lab.play(script, rounds=5)
        assert (tried.objection, tried.rounds) == (None, 5)
        assert lab.play(script, rounds=5).objection == GROWTH


def test_rounds_on_nodes_side_by_side_end_with_their_time(folder: Path) -> None:
    script = suspect(1, b"x").alone
    with lab_of(config_in(folder), SickNode(lambda _: None)) as lab:
        assert [one.rounds for one in lab.play_beside(script, 2, rounds=5, seconds=0.0)] == [1, 1]
        assert [one.rounds for one in lab.play_beside(script, 2, rounds=5)] == [5, 5]


def test_what_a_single_round_leaves_behind_is_counted() -> None:
    scales = Scales(None)
    growing = Growing(0, 6)
    scales._vitals = growing  # type: ignore[assignment]
    scales._before = scales._counted()
    assert scales.weigh(last=True) is None
    assert scales.grown(2.0)[1] == 3.0


def test_growth_that_goes_on_is_seen_within_seconds() -> None:
    assert harm_of(1 << 16, 0) is Harm.GROWTH
    assert harm_of(64 << 20, 0) is Harm.GROWTH
    assert harm_of(0, 1) is Harm.LEAK
    assert harm_of(1 << 10, 0) is None
    assert harm_of(0, 0) is None


def test_played_is_that_of_the_last_round(lab: Lab) -> None:
    tried = lab.play(suspect(1, b"x", b"y").alone, rounds=3)
    assert isinstance(tried.played, Played)
    assert tried.played.sent == [b"\x01\x00x", b"\x01\x00y"]


def test_a_process_may_take_its_time_to_die(folder: Path) -> None:
    with subprocess.Popen(["sleep", "0.1"]) as process:
        node = SickNode(lambda _: CRASH if process.poll() is not None else None, process.pid)
        with lab_of(config_in(folder), node) as lab:
            tried = lab.play(suspect(1, b"x").alone, linger=10.0)
            assert tried.objection == CRASH
            assert tried.seconds < 10


def test_the_real_node_survives_what_is_right(tmp_path: Path) -> None:
    config = replace(config_in(tmp_path), node="pypi", time_scale=1.0)
    steps = (reach(State.OPEN, "a"), *FAULTS["across"].trigger.steps[2:3], Step(Do.SETTLE))
    with Lab(config, node_of(config), seats=1) as lab:
        for fresh in (True, False):
            tried = lab.play(Script(steps), fresh=fresh)
            assert tried.objection is None
            assert not tried.played.failure
            assert tried.fresh is fresh


class Copied(FakeNode):
    """A node of which others can be made."""

    def variant(self, **config: object) -> Copied:  # noqa: ARG002
        return Copied(self._harm)


@pytest.mark.parametrize(
    ("ours", "theirs", "seen"),
    [
        ("", "", None),
        ("die", "", (Harm.CRASH, "")),
        ("", "die", (Harm.DIFFERS, "accepted / died")),
        ("", "hush", (Harm.DIFFERS, "accepted / silent")),
    ],
)
def test_a_script_is_played_on_two_fresh_nodes_and_what_differs_is_seen(
    folder: Path, ours: str, theirs: str, seen: tuple[Harm, str] | None
) -> None:
    def node(does: str) -> Copied:
        return Copied(lambda batch: {"hush": "stall"}.get(does, does) if b"a/b" in batch else "")

    push = Frame(R=1, sn=0, messages=[Push(key_suffix="a/b", body=Put(data=b"hello"))])
    script = Script((reach(State.OPEN, "a"), send("size", bytes(push))))
    config = config_in(folder)
    with Lab(replace(config, time_scale=0.3), node(ours), also=node(theirs)) as lab:
        assert lab.compares
        objection = lab.compare(script).objection
    assert (None if objection is None else (objection.harm, objection.place)) == seen


def test_both_nodes_are_sent_the_same_zenoh_ids(folder: Path) -> None:
    def node(heard: set[bytes]) -> Copied:
        def hear(batch: bytes) -> str:
            if batch[0] & 31 == Init.id:
                heard.add(batch)
            return ""

        return Copied(hear)

    ours: set[bytes] = set()
    theirs: set[bytes] = set()
    script = Script((reach(State.OPEN, "a"),))
    with Lab(replace(config_in(folder), time_scale=0.3), node(ours), also=node(theirs)) as lab:
        for _ in range(2):
            assert lab.compare(script).objection is None
    # Whoever waits for a node to start calls it, too.
    assert len(ours & theirs) == 2


def test_slow_declarations_make_the_pace_slow_where_something_is_played_in_rounds() -> None:
    with RouterNode() as node:
        stage = SimpleNamespace(player=lambda rng, answers: RouterStage(node).player(rng))  # noqa: ARG005
        seat = Seat(cast("Any", stage), cast("Any", None), REPLY)
        node.router.ponder = 0.05
        assert seat._pace() > node.router.ponder
