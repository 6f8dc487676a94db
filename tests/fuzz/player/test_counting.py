"""Nodes that count sequence numbers to 2^bits - 1, as it is written, and not only as far as others do."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.cases import reach, send
from fuzz.oracles.canary import Canary
from fuzz.player import Ending, Initiator, Player
from fuzz.script import Script
from fuzz.stages.base import Stage
from fuzz.standalone import Replay
from fuzz.states import State
from scapy_layers.transport import Frame
from tests.fuzz.planted import command

RELIABLE = bytes(Frame(R=1, sn=0))[:1]


@pytest.mark.parametrize(
    ("node", "as_written"),
    [
        (command(options="--strict --bits 8"), True),
        (command(options="--strict --bits 7"), False),
        (command(), False),
    ],
)
def test_stage_learns_how_far_its_node_counts(tmp_path: Path, node: str, as_written: bool) -> None:
    config = RunConfig(node=node, run_dir=tmp_path, run_id="run", seed=1)
    stage = Stage(node_of(config), config)
    stage.start()
    assert stage.node.as_written is as_written
    door = stage.door()
    assert door.as_written is as_written
    stage.stop()


@pytest.mark.parametrize("bits", [8, 16])
def test_numbers_of_ours_go_on_to_the_end_that_the_node_hears(tmp_path: Path, bits: int) -> None:
    config = RunConfig(
        node=command(options=f"--strict --bits {bits}"), run_dir=tmp_path, run_id="run", seed=1
    )
    with node_of(config) as node:
        node.learn_counting(2.0)
        door = Initiator(node.locator)
        door.as_written = bool(node.as_written)
        # A node takes what is less than half of all numbers ahead.
        nearer = [send("size", RELIABLE, f"from {share * ((1 << bits) - 2) // 4}") for share in (1, 2, 3, 4)]
        many = send("size", RELIABLE, "sn", times=200)
        played = Player(door, 2.0).play(Script((reach(State.OPEN, "a"), *nearer, many)))
        assert (played.failure, played.ending, played.deaf) == ("", Ending.ACCEPTED, False)
        canary = Canary(node, 2.0, random.Random(1))
        canary.open()
        assert canary.look(rare=True) is None
        canary.close()


def test_regression_test_counts_as_far_as_the_node(tmp_path: Path) -> None:
    steps = [{"do": "link", "link": "a", "how": "connect"}]
    with Replay(command(options="--strict --bits 8"), {}, "", 1, tmp_path / "replay") as replay:
        assert replay.node.as_written
        assert replay.play("disturbed", steps, 1, 0.0) == ""
