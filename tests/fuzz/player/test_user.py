"""Nodes that ask for a user and a password: the same states, cases and tests, and who we are in front of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.config import Credentials, RunConfig, prepare_run_dir
from conformance.nodes import Node, node_of
from conformance.observe import Direction
from fuzz import standalone
from fuzz.cases import reach
from fuzz.lab import Lab, Tried
from fuzz.phrases import act, frame, handshake, push
from fuzz.player import Ending, Initiator, NotReached, Player
from fuzz.regression import fails_on, flat
from fuzz.regression import test_of as text_of_test
from fuzz.script import Do, Script
from fuzz.stages import stage_for
from fuzz.states import State

ROOT = Path(__file__).parents[3]
ALICE = Credentials(user=b"alice", password=b"open sesame")
STATES = [
    State.OPEN,
    State.DECLARED,
    State.PENDING,
    State.FRAGMENTING,
    State.CLOSED,
    State.LOW_LATENCY,
    State.COMPRESSED,
    State.JOINED,
]


def config_of(folder: Path, user: Credentials | None = ALICE) -> RunConfig:
    prepare_run_dir(folder)
    return RunConfig(node="ref", run_dir=folder, run_id="run", seed=1, user=user)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with node_of(config_of(tmp_path_factory.mktemp("run"))) as running:
        yield running


@pytest.fixture
def player(node: Node) -> Iterator[Player]:
    made = Player(Initiator(node.locator, node.user), 2.0)
    yield made
    made.leave()


def tried_on(folder: Path, *script: Script) -> list[Tried]:
    config = config_of(folder)
    with Lab(config, node_of(config), seats=1) as lab:
        return [lab.play(one) for one in script]


@pytest.mark.parametrize("state", STATES)
def test_states_are_reached_in_which_a_session_is_open(tmp_path: Path, state: State) -> None:
    config = config_of(tmp_path)
    stage = stage_for(
        {"low_latency": "low_latency", "compressed": "compression", "joined": "joins"}.get(state, ""),
        node_of(config),
        config,
        {},
    )
    stage.start()
    player = stage.player()
    try:
        assert player.reach(state).state is state
    finally:
        player.leave()
        stage.stop()


def test_handshake_that_a_case_plays_by_hand_opens_a_session(player: Player) -> None:
    steps = (reach(State.CONNECTED, "a"), *handshake(), frame(push(block=True)), act(Do.SETTLE))
    played = player.play(Script(steps, valid=True))
    assert (played.failure, played.names, played.ending) == ("", ["INIT", "OPEN"], Ending.ACCEPTED)
    assert played.valid


@pytest.mark.parametrize(
    ("user", "awaited"),
    [(None, "INIT"), (Credentials(user=b"alice", password=b"barley"), "OPEN")],
    ids=["nobody", "wrong"],
)
def test_node_opens_no_session_for_others(node: Node, user: Credentials | None, awaited: str) -> None:
    player = Player(Initiator(node.locator, user), 2.0)
    with pytest.raises(NotReached, match=f"expected {awaited}, got CLOSE"):
        player.reach(State.OPEN)
    player.leave()


def test_answer_with_a_nonce_is_taken_apart_once(player: Player) -> None:
    player.reach(State.OPEN)
    known = player.answers.decoded
    for _ in range(3):
        player.reach(State.OPEN)
    assert player.answers.decoded == known


def test_what_a_node_that_asks_for_nobody_is_sent_is_what_was_sent_before(tmp_path: Path) -> None:
    config = config_of(tmp_path, None)
    with node_of(config) as running:
        player = Player(Initiator(running.locator), 2.0)
        player.reach(State.OPEN)
        sent = [event.raw for event in player.trace.since(0) if event.direction is Direction.SENT]
        assert not any(b"\x43" in raw[2:3] or b"\xc3\x01\x02" in raw for raw in sent)
        player.leave()


def test_regression_test_holds_no_user_and_runs_on_a_node_that_asks_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "TRIES", 1)
    by_hand = Script((reach(State.CONNECTED, "a"), *handshake(), act(Do.SETTLE)))
    for tried in tried_on(tmp_path / "run", Script((reach(State.PENDING, "a"),)), by_hand):
        assert (tried.objection, tried.played.failure) == (None, "")
        assert b"alice" in b"".join(event.raw for event in tried.events)
        text = json.dumps(flat(tried))
        assert not any(word in text for word in (b"alice".hex(), "c30102", "430102"))
        assert fails_on("ref", "stall", tried, ALICE) is False
        assert fails_on("ref", "stall", tried) is False


@pytest.mark.parametrize(
    ("words", "variables", "passes"),
    [
        ([], {"ZENOH_USER": "alice", "ZENOH_PASSWORD": "open sesame"}, True),
        (["-p", "conformance.plugin", "--run-dir=run", "--user=alice:open sesame"], {}, True),
        ([], {"ZENOH_USER": "alice:barley"}, False),
        ([], {}, False),
    ],
    ids=["variables", "option", "wrong", "nobody"],
)
def test_regression_test_is_told_who_we_are(
    tmp_path: Path, node: Node, words: list[str], variables: dict[str, str], passes: bool
) -> None:
    (tried,) = tried_on(tmp_path / "run", Script((reach(State.OPEN, "a"),)))
    file = tmp_path / "test_finding.py"
    file.write_text(text_of_test("It does not stall", "stall", str(node.locator), tried))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *words, file.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ("1 passed" in done.stdout) == passes, done.stdout
