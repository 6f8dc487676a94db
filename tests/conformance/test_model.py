"""The model of a router, and what the state machine makes of a node that is wrong."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from hypothesis.errors import FlakyFailure, FlakyReplay

from conformance.errors import Unmet
from conformance.nodes.ref import RefNode
from conformance.suite.model import Entity, Model, Participant
from conformance.suite.test_model import first_of
from conformance.tester import Script, Tester, play

ROOT = Path(__file__).parents[2]

SUITE = "conformance/suite/test_model.py"


def model() -> Model:
    made = Model()
    entities = {
        "a": [Entity("subscribers", "t/*"), Entity("queryables", "t/**", complete=True)],
        "b": [Entity("subscribers", "t/x"), Entity("subscribers", "t/**"), Entity("queryables", "t/x")],
        "c": [Entity("tokens", "t/x")],
    }
    made.sessions = {name: Participant(dict(enumerate(known))) for name, known in entities.items()}
    return made


def test_publication_reaches_others_with_a_fitting_subscriber() -> None:
    assert model().receivers("c", "t/x") == {"a", "b"}
    assert model().receivers("a", "t/x") == {"b"}
    assert model().receivers("c", "t/x/y") == {"b"}
    assert model().receivers("c", "u") == set()


def test_query_reaches_others_with_a_fitting_queryable() -> None:
    assert model().asked("c", "t/x", complete=False) == {"a", "b"}
    assert model().asked("c", "t/x", complete=True) == {"a"}
    assert model().asked("a", "t/x", complete=False) == {"b"}


def test_listener_is_told_of_what_others_declared() -> None:
    assert model().told("b") == {("subscribers", "t/*"), ("queryables", "t/**"), ("tokens", "t/x")}
    assert model().own("c") == {("tokens", "t/x")}


def test_what_did_not_come_again_is_told_as_it_was_seen_first() -> None:
    unmet = Unmet("nothing", "told of tokens a")
    assert first_of(FlakyFailure("unreliable", [unmet])) == str(unmet)
    assert first_of(FlakyReplay("other steps the second time")) == "other steps the second time"


def test_wrong_node_leaves_a_short_script_that_shows_it_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "pytest",
        SUITE,
        "--node",
        "ref:ZN-CLS-007",
        "--seed",
        "1",
        "--time-scale",
        "0.2",
    ]
    done = subprocess.run(
        [*command, "-q", "-p", "no:cacheprovider", "--run-dir", str(run)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "expected end of the link" in done.stdout
    script = Script.from_json((run / "scripts" / "test_model.json").read_text())
    steps = [step["step"] for step in json.loads(script.to_json())["steps"]]
    # One session that closes: nothing else is needed to show it.
    assert len(steps) <= 8, steps
    with RefNode(tmp_path / "well") as node:
        tester = Tester(node.locator, random.Random(1))
        assert play(tester, script).met
        tester.close()
    with RefNode(tmp_path / "ill", "ZN-CLS-007") as node:
        tester = Tester(node.locator, random.Random(1), 0.2)
        assert not play(tester, script).met
        tester.close()
