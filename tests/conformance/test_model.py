"""The model of a router, and what the state machine makes of a node that is wrong."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.errors import NoRoom, Unmet
from conformance.nodes.ref import RefNode
from conformance.suite import test_model as suite
from conformance.suite.model import KINDS, Entity, Model, Participant, Wish
from conformance.suite.sessions import Answer, Sessions, _answerer
from conformance.suite.test_model import ARGUMENTS, TRIES, Steps, drawn, shortened
from conformance.tester import Script, Tester, play
from scapy_layers.codes import QueryTarget
from scapy_layers.data import Del, Err, Put, Reply
from scapy_layers.network import Response

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


def test_wish_is_about_its_kinds_where_the_keys_have_one_in_common() -> None:
    things = {("subscribers", "t/*"), ("subscribers", "u"), ("queryables", "t/x"), ("tokens", "t/x")}
    assert Wish(("subscribers", "tokens"), "t/x").of(things) == {("subscribers", "t/*"), ("tokens", "t/x")}
    assert Wish(KINDS, "**").of(things) == things


def asked(made: Model, asker: str, target: QueryTarget) -> list[tuple[str, str]]:
    """Returns who must and who may be asked a query for t/x, as words."""
    return [("".join(sorted(must)), "".join(sorted(may))) for must, may in made.asked(asker, "t/x", target)]


def test_query_reaches_others_whom_its_target_names() -> None:
    assert asked(model(), "c", QueryTarget.ALL) == [("ab", "ab")]
    assert asked(model(), "a", QueryTarget.ALL) == [("b", "b")]
    assert asked(model(), "c", QueryTarget.ALL_COMPLETE) == [("a", "a")]
    assert asked(model(), "a", QueryTarget.ALL_COMPLETE) == [("", "")]


def test_best_is_one_of_the_complete_ones_and_one_or_all_where_none_is() -> None:
    both = model()
    assert asked(both, "c", QueryTarget.BEST_MATCHING) == [("a", "a")]
    both.sessions["d"] = Participant({1: Entity("queryables", "**", complete=True)})
    assert asked(both, "c", QueryTarget.BEST_MATCHING) == [("a", "a"), ("d", "d")]
    assert asked(both, "a", QueryTarget.BEST_MATCHING) == [("d", "d")]
    del both.sessions["d"]
    both.sessions["e"] = Participant({1: Entity("queryables", "t/x")})
    assert asked(both, "a", QueryTarget.BEST_MATCHING) == [("be", "be"), ("b", "b"), ("e", "e")]


def test_who_took_its_queryable_back_may_be_asked_only_where_another_had_the_same_key() -> None:
    both = model()
    assert both.take_back("b", 2) == Entity("queryables", "t/x")
    assert asked(both, "c", QueryTarget.ALL) == [("a", "a")]
    both = model()
    both.sessions["e"] = Participant({1: Entity("queryables", "t/x", complete=True)})
    both.take_back("b", 2)
    assert asked(both, "c", QueryTarget.ALL) == [("ae", "abe")]
    assert asked(both, "b", QueryTarget.ALL) == [("ae", "ae")]
    both.take_back("a", 1)
    both.sessions["d"] = Participant({1: Entity("queryables", "t/x")})
    both.take_back("e", 1)
    assert asked(both, "c", QueryTarget.ALL_COMPLETE) == [("", "e")]
    assert asked(both, "c", QueryTarget.BEST_MATCHING) == [("d", "bde"), ("b", "b"), ("d", "d"), ("e", "e")]


def test_key_is_written_by_an_alias_that_stands_for_whole_chunks_of_it() -> None:
    named = Participant(aliases={3: "t", 4: "t/x", 5: "t/x/y"})
    assert named.written("t/x", None) == (0, "t/x")
    assert [named.written("t/x", choice) for choice in range(3)] == [(3, "/x"), (4, ""), (3, "/x")]
    assert named.written("t/xy", 0) == (3, "/xy")
    assert named.written("t/xy", 1) == (3, "/xy")
    assert named.written("u", 0) == (0, "u")


def test_listener_is_told_of_what_others_declared() -> None:
    assert model().others("b") == {("subscribers", "t/*"), ("queryables", "t/**"), ("tokens", "t/x")}
    assert model().own("c") == {("tokens", "t/x")}


def test_sequence_is_shortened_to_what_matters_in_its_simplest_form() -> None:
    def differs(steps: Steps) -> bool:
        kinds = [arguments["kind"] for name, arguments in steps if name == "declare"]
        return "tokens" in kinds and any(name == "go" for name, _ in steps)

    steps = next(steps for steps in map(drawn, map(random.Random, range(99))) if differs(steps))
    simple = {"who": 0, "kind": "tokens", "key": "a", "how": None, "complete": False}
    assert sorted(shortened(steps, differs)) == [("declare", simple), ("go", {"who": 0, "how": "close"})]


def test_shortening_gives_up_in_time() -> None:
    tried = []

    def differs(steps: Steps) -> bool:
        tried.append(steps)
        return False

    steps = [*drawn(random.Random(1)), *drawn(random.Random(2))] * 9
    assert shortened(steps, differs) == steps
    assert len(tried) == TRIES


def compare(monkeypatch: pytest.MonkeyPatch, differences: list[Unmet], seconds: float = 60.0) -> int:
    """Runs the test of the suite with sessions that differ so, one after the other; returns how often they ran."""
    ran = []

    class Staged:
        def __init__(self, tester: Tester) -> None: ...

        def run(self, steps: Steps) -> None:
            ran.append(steps)
            if differences:
                raise differences.pop(0)

    monkeypatch.setattr(suite, "Sessions", Staged)
    monkeypatch.setattr(suite, "MOST_SECONDS", seconds)
    tester = Tester("tcp/127.0.0.1:1", random.Random(1), 1.0)
    config = RunConfig(node="ref", run_dir=Path("unused"), run_id="unused", seed=1)
    suite.test_node_agrees_with_the_model_after_any_sequence_of_steps(tester, config)
    return len(ran)


def test_difference_that_does_not_come_again_is_told_as_it_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unmet) as error:
        compare(monkeypatch, [Unmet("told of nothing", "told of tokens a")])
    assert error.value.seen == "a difference that was not there when the same steps were done again"
    assert "told of tokens a" in error.value.detail


def test_no_room_for_sessions_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoRoom):
        compare(monkeypatch, [NoRoom("a session", "CLOSE")])


def test_sequences_end_with_their_number_or_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(monkeypatch, []) == suite.SEQUENCES
    assert compare(monkeypatch, [], seconds=0.0) < suite.SEQUENCES


def test_only_queryables_that_nobody_else_has_stay_told() -> None:
    answer = Answer()
    answer.keep({("subscribers", "a"), ("queryables", "a"), ("queryables", "b")}, {("queryables", "b")})
    assert answer.kept == {("queryables", "a")}
    answer.keep(set(), {("queryables", "a")})
    assert answer.kept == set()


def test_queryables_of_one_session_on_one_key_are_alike(tmp_path: Path) -> None:
    with RefNode(tmp_path / "node") as node:
        tester = Tester(node.locator, random.Random(1))
        sessions = Sessions(tester)
        step = {"who": 0, "kind": "queryables", "key": "a", "how": None}
        sessions.run(
            [("join", {"offer": {}, "back": False})]
            + [("declare", {**step, "complete": complete}) for complete in (False, True)]
        )
        (known,) = sessions._model.sessions.values()
        assert [entity.complete for entity in known.entities.values()] == [False, False]
        tester.close()


def test_reply_without_a_value_is_named_after_what_it_is() -> None:
    assert _answerer(Response(request_id=1, body=Reply(body=Put(data=b"a")))) == "a"
    assert _answerer(Response(request_id=1, body=Reply(body=Del()))) == "REPLY"
    assert _answerer(Response(request_id=1, body=Err(data=b"a"))) == "ERR"


def test_steps_by_chance_lead_somewhere() -> None:
    names = [name for number in range(20) for name, _ in drawn(random.Random(number))]
    assert set(names) == {*ARGUMENTS}
    assert names.count("declare") > names.count("go")
    assert drawn(random.Random(1)) == drawn(random.Random(1)) != drawn(random.Random(2))


def judged(run: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the test of the suite that compares a node with the model."""
    command = [sys.executable, "-m", "pytest", SUITE, "-q", "-p", "no:cacheprovider", "--seed", "1"]
    return subprocess.run(
        [*command, "--run-dir", str(run), *options], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("mutant", "seen"),
    [
        ("ZN-RTE-014", "expected a REQUEST for"),
        ("ZN-RTE-011", "expected a gets"),
        ("ZN-RTE-027b", "queryables"),
    ],
)
def test_steps_show_what_a_wrong_node_does_with_what_others_declared(
    tmp_path: Path, mutant: str, seen: str
) -> None:
    done = judged(tmp_path / "run", "--node", f"ref:{mutant}", "--time-scale", "0.2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert seen in done.stdout


def test_alias_that_a_node_goes_on_using_is_left_to_a_test_of_its_own(tmp_path: Path) -> None:
    done = judged(tmp_path / "run", "--node", "ref:ZN-DCL-103b", "--time-scale", "0.2")
    assert done.returncode == 0, done.stdout + done.stderr


def test_node_without_room_for_the_sessions_cannot_show_it(tmp_path: Path) -> None:
    node = f"{shlex.quote(sys.executable)} -m conformance.refnode --listen {{locator}} --max-sessions 2"
    done = judged(tmp_path / "run", "--node", f"cmd:{node}")
    assert "the node has no room for as many sessions as this takes" in done.stdout, done.stdout + done.stderr
    assert "outcomes: 1 n/a" in done.stdout


def test_wrong_node_leaves_a_short_script_that_shows_it_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = judged(run, "--node", "ref:ZN-CLS-007", "--time-scale", "0.2")
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
