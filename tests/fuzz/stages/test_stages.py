"""Stages: every state is reached on a real node, again after a restart; nodes that cannot say why."""

import gc
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.config import Locator, RunConfig
from conformance.errors import NodeDidNotStart, NotApplicable
from conformance.nodes import Node, node_of
from conformance.nodes.attach import AttachedNode
from fuzz.cases import reach, send
from fuzz.oracles import Harm, Patient, When
from fuzz.player import Ending
from fuzz.player.sessions import ASSISTANT
from fuzz.script import Script
from fuzz.stages import STAGES, Connecting, stage_for
from fuzz.stages.base import Stage, variant
from fuzz.states import FACTS, State
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.primitives import zid_to_text
from scapy_layers.scouting import Scout
from scapy_layers.transport import Close, Frame, KeepAlive
from tests.fuzz.fakes import FakeNode
from tests.fuzz.player.callers import ZID, Hearer

NEEDS = sorted(STAGES)
CLIENT = shlex.join([sys.executable, str(Path(__file__).parents[1] / "client_process.py")])


def config_of(folder: Path, node: str = "pypi") -> RunConfig:
    return RunConfig(node=node, run_dir=folder, run_id="run", seed=1)


def stimulus(state: State) -> bytes:
    """Something that a node in this state takes."""
    return bytes(Scout() if state in {State.SCOUTING, State.SEEKING} else KeepAlive())


def prefix(state: State) -> str:
    if FACTS[state].needs in {"scouts", "seeks", "joins"}:
        return ""
    return "size32" if state is State.LOW_LATENCY else "size"


def test_there_is_a_stage_for_every_state() -> None:
    assert {facts.needs for facts in FACTS.values()} == set(STAGES)


@pytest.mark.parametrize("needs", NEEDS)
def test_every_state_is_reached_on_a_real_node(
    needs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever ends its side before the answer came may be told CLOSE for it; here it is never late.
    monkeypatch.setattr("fuzz.player.player.PATIENCE", 2.0)
    config = config_of(tmp_path)
    stage = stage_for(needs, node_of(config), config)
    stage.start()
    try:
        players = [stage.player() for _ in range(2)]
        first = stage.node.starts
        for _ in range(2):
            for player in players:
                for state in State:
                    if FACTS[state].needs != needs:
                        continue
                    head = b"\x00" if state is State.COMPRESSED else b""
                    steps = (reach(state, "a"), send(prefix(state), head, stimulus(state)))
                    played = player.play(Script(steps))
                    assert not played.failure
                    if FACTS[state].session or not prefix(state):
                        assert played.ending is Ending.ACCEPTED
                        assert not played.by_itself
                    else:
                        assert played.ending is not Ending.ACCEPTED
            assert stage.trouble(config.reply) == ""
            if stage.node.starts == first:
                # Players go on with the node that was started again.
                stage.restart()
        assert stage.node.starts == first + 1
    finally:
        stage.stop()
    assert stage.node.death()


def test_client_connects_to_us(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    stage = stage_for("connects", node_of(config), config, {"mode": "client"})
    assert isinstance(stage, Connecting)
    assert not stage.serves
    assert stage.lanes == 1
    stage.start()
    try:
        player = stage.player()
        player.reach(State.ACCEPTED)
        # It has its one session: that is no trouble.
        assert stage.trouble(config.reply) == ""
        player.close()
        assert (
            player.play(Script((reach(State.OPEN_RECEIVED, "a"), send("size", b"\x1f")))).ending
            is Ending.CLOSED
        )
    finally:
        stage.stop()


def test_client_of_a_command_is_started_again_whenever_it_has_left(tmp_path: Path) -> None:
    config = config_of(tmp_path, f"cmd:{CLIENT} {{connect}} 9")
    with pytest.raises(NotApplicable, match="does not specify where it listens"):
        stage_for("", node_of(config), config)
    stage = stage_for("connects", node_of(config), config)
    assert (stage.serves, stage.lanes) == (False, 1)
    stage.start()
    try:
        player, patient = stage.player(), Patient(stage, config.reply)
        patient.begin()
        first = stage.node.starts
        for _ in range(2):
            played = player.play(Script((reach(State.ACCEPTED, "a"), send("size", bytes(Close())))))
            assert not played.failure
            assert patient.examine(When.TREND, played) is None
            assert not patient.failures
        assert stage.node.starts > first
        push = Frame(sn=1, messages=[Push(key_suffix="more than nine", body=Put())])
        played = player.play(Script((reach(State.ACCEPTED, "a"), send("size", bytes(push)))))
        objection = patient.examine(When.TREND, played)
        assert objection is not None
        assert (objection.harm, objection.place) == (Harm.CRASH, "SIGABRT")
        patient.close()
    finally:
        stage.stop()


def test_peer_of_a_command_connects_to_one_listener(tmp_path: Path) -> None:
    words = f"{shlex.quote(sys.executable)} -m conformance.refnode --mode peer"
    config = config_of(tmp_path, f"cmd:{words} --listen {{locator}} [[--connect {{connect}}]]")
    stage = stage_for("connects", node_of(config), config)
    assert (stage.serves, stage.lanes) == (True, 1)
    stage.start()
    try:
        assert stage.trouble(config.reply) == ""
        # Nobody but the player holds the one link.
        assert not stage.player().play(Script((reach(State.ACCEPTED, "a"),))).failure
        # A player is there.
        assert stage.trouble(config.reply) == ""
    finally:
        stage.stop()


@pytest.mark.parametrize("needs", [needs for needs in NEEDS if needs not in {"", "scouts"}])
def test_node_of_others_is_not_applicable(needs: str, tmp_path: Path) -> None:
    node = AttachedNode(Locator("tcp", "127.0.0.1", 1))
    with pytest.raises(NotApplicable, match="configuration of its own"):
        stage_for(needs, node, config_of(tmp_path))


def test_node_of_others_is_asked_where_it_may_hear_scout(tmp_path: Path) -> None:
    node = AttachedNode(Locator("tcp", "192.0.2.1", 1))
    with pytest.raises(NotApplicable, match="it is unknown where"):
        stage_for("scouts", node, config_of(tmp_path))


class Heard(FakeNode):
    """A node in whose group somebody answers SCOUT."""

    def __init__(self, port: int, zid: str) -> None:
        super().__init__()
        self.scouting, self.name = Locator("udp", "127.0.0.1", port), zid

    def ask(self, reply: float) -> None:
        super().ask(reply)
        self.zid = self.name


@pytest.mark.parametrize("alone", [True, False])
def test_nobody_else_may_answer_scout(alone: bool, tmp_path: Path) -> None:
    hearer = Hearer()
    stage = stage_for("scouts", Heard(hearer.port, zid_to_text(ZID) if alone else "1"), config_of(tmp_path))
    if alone:
        stage.start()
    else:
        with pytest.raises(NotApplicable, match="other nodes answer"):
            stage.start()
    stage.stop()
    hearer.close()


def test_stage_that_a_node_does_not_fit_leaves_it_to_the_others(tmp_path: Path) -> None:
    hearer, node = Hearer(), FakeNode()
    first = stage_for("", node, config_of(tmp_path))
    first.start()
    node.scouting, node.zid = Locator("udp", "127.0.0.1", hearer.port), "1"
    with pytest.raises(NotApplicable, match="other nodes answer"):
        stage_for("scouts", node, config_of(tmp_path)).start()
    assert not node.death()
    assert node.starts == 1
    steps = reach(State.OPEN, "a"), send("size", b"\x04")
    assert first.player().play(Script(steps)).ending is Ending.ACCEPTED
    first.stop()
    hearer.close()


def test_nobody_knows_other_needs(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="there is no way to get a node that flies"):
        stage_for("flies", FakeNode(), config_of(tmp_path))


def test_given_node_is_started_once_and_stopped(tmp_path: Path) -> None:
    node = FakeNode()
    stage = stage_for("", node, config_of(tmp_path))
    stage.start()
    stage.start()
    assert node.starts == 1
    player = stage.player()
    assert player.play(Script((reach(State.OPEN, "a"), send("size", b"\x04")))).ending is Ending.ACCEPTED
    stage.restart()
    assert node.starts == 2
    assert player.play(Script((reach(State.OPEN, "a"), send("size", b"\x04")))).ending is Ending.ACCEPTED
    stage.stop()
    assert node.server is None


class Foreign(FakeNode):
    """A node that somebody else starts."""

    owned = False

    def __init__(self, fails: int) -> None:
        super().__init__()
        self.fails = fails
        self.asked = 0

    def ask(self, reply: float) -> None:
        self.asked += 1
        if self.asked > 1 and self.fails:
            self.fails -= 1
            raise NodeDidNotStart("gone")
        super().ask(reply)


def test_node_of_others_is_waited_for(tmp_path: Path) -> None:
    node = Foreign(3)
    stage = Stage(node, RunConfig(node="x", run_dir=tmp_path, run_id="x", seed=1, time_scale=0.1))
    stage.start()
    stage.restart()
    assert (node.starts, node.asked) == (1, 5)
    stage.stop()
    assert node.server is not None
    node.stop()


def test_links_of_a_player_that_is_dropped_are_closed(tmp_path: Path) -> None:
    stage = stage_for("", FakeNode(), config_of(tmp_path))
    stage.start()
    player = stage.player()
    pipes = [player.reach(State.DECLARED), player.helpers[ASSISTANT]]
    del player
    gc.collect()
    assert all(pipe.ended for pipe in pipes)
    stage.stop()


class Choosy(FakeNode):
    """A node that knows some paths of a configuration only."""

    def __init__(self, knows: set[str], config: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.knows, self.config = knows, config or {}

    def variant(self, **config: Any) -> Node:
        unknown = config.keys() - self.knows
        if unknown:
            raise NotApplicable(f"no {min(unknown)}")
        return Choosy(self.knows, config)


def test_variant_gets_those_wishes_that_it_knows() -> None:
    node = Choosy({"a__b", "c"})
    made = variant(node, {"a/b": 1}, {"c": 2, "d/e": 3, "a/b": 0})
    assert isinstance(made, Choosy)
    assert made.config == {"a__b": 1, "c": 2}
    with pytest.raises(NotApplicable, match="no x"):
        variant(node, {"x": 1}, {"c": 2})
