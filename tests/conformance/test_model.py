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
from scapy_layers.codes import QueryTarget

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


def test_query_reaches_others_whom_its_target_names() -> None:
    both = model()
    assert both.asked("c", "t/x", QueryTarget.ALL) == [{"a", "b"}]
    assert both.asked("a", "t/x", QueryTarget.ALL) == [{"b"}]
    assert both.asked("c", "t/x", QueryTarget.ALL_COMPLETE) == [{"a"}]
    assert both.asked("a", "t/x", QueryTarget.ALL_COMPLETE) == [set()]


def test_best_is_one_of_the_complete_ones_and_one_or_all_where_none_is() -> None:
    both = model()
    assert both.asked("c", "t/x", QueryTarget.BEST_MATCHING) == [{"a"}]
    both.sessions["d"] = Participant({1: Entity("queryables", "**", complete=True)})
    assert both.asked("c", "t/x", QueryTarget.BEST_MATCHING) == [{"a"}, {"d"}]
    assert both.asked("a", "t/x", QueryTarget.BEST_MATCHING) == [{"d"}]
    del both.sessions["d"]
    both.sessions["e"] = Participant({1: Entity("queryables", "t/x")})
    assert both.asked("a", "t/x", QueryTarget.BEST_MATCHING) == [{"b", "e"}, {"b"}, {"e"}]


def test_key_is_written_by_an_alias_that_stands_for_whole_chunks_of_it() -> None:
    named = Participant(aliases={3: "t", 4: "t/x", 5: "t/x/y"})
    assert named.written("t/x", None) == (0, "t/x")
    assert [named.written("t/x", choice) for choice in range(3)] == [(3, "/x"), (4, ""), (3, "/x")]
    assert named.written("t/xy", 0) == (3, "/xy")
    assert named.written("t/xy", 1) == (3, "/xy")
    assert named.written("u", 0) == (0, "u")


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
