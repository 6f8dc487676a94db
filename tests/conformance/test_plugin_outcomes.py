"""What the plugin makes of tests: outcomes, rows, words for people, verdicts in passing, repetition."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from conformance.requirements import requirements
from conformance.running.outcome import encodable
from spark_reports.rows import OBSERVATIONS, VERDICTS, read_rows, read_run
from tests.conformance._runs import Done, outcomes, run_own, run_prepared, verdicts

TESTS = """
import pytest
from conformance.errors import NotApplicable, Unmet
from conformance.plugin import req
from scapy_layers.transport import Init
from conformance.running.outcome import encodable

@req("ZN-INIT-001")
def test_pass(tester):
    end = tester.link()
    end.send(tester.init())
    end.expect(Init, A=1)

@req("ZN-INIT-001")
def test_fail(tester):
    end = tester.link()
    end.send(tester.init())
    end.expect(Init, A=1, version=8)

@req("ZN-CLS-106")
def test_should():
    raise Unmet("this", "that")

@req("ZN-INIT-001")
def test_not_applicable():
    raise NotApplicable("cannot show it")

@req("ZN-INIT-001")
def test_inconclusive(tester):
    from conformance.errors import LinkFailed
    raise LinkFailed("no link")

@req("ZN-INIT-001")
def test_recorded():
    raise Unmet("this", "the recorded words")

@req("ZN-INIT-001")
def test_differs():
    raise Unmet("this", "other words")

@req("ZN-INIT-001")
def test_stale():
    pass

@req("ZN-INIT-001")
def test_bug():
    raise KeyError("a bug of the test")

@pytest.fixture
def broken():
    raise KeyError("a bug of a fixture")

@pytest.fixture
def impossible():
    raise NotApplicable("no such node")

@req("ZN-INIT-001")
def test_bug_of_a_fixture(broken):
    pass

@req("ZN-INIT-001")
def test_fixture_that_does_not_apply(impossible):
    pass

@req("ZN-INIT-001")
def test_harms_the_node(node):
    node._process.kill()
    node._process.wait()

@req("ZN-INIT-001")
def test_behind_the_harm(tester):
    tester.session().fence()
"""


def deviation(test: str) -> str:
    return f"""
[[deviation]]
requirement = "ZN-INIT-001"
impl = "eclipse-zenoh"
versions = ">=1.0.0"
test = "test_own.py::{test}"
seen = "the recorded words"
note = "why"
evidence = "none"
reviewed = 2026-01-01
review_by = 2126-01-01
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    folder = tmp_path_factory.mktemp("outcomes")
    (folder / "known.toml").write_text(
        "".join(map(deviation, ("test_recorded", "test_differs", "test_stale")))
    )
    words = ["--seed", "7", "--deviations", "known.toml", "--update-deviations"]
    return run_own(TESTS, folder, *words), folder / "run"


def test_each_outcome_is_a_row(done: tuple[Done, Path]) -> None:
    assert done[0].returncode == 1
    assert outcomes(done[1]) == {
        "test_pass": "pass",
        "test_fail": "fail",
        "test_should": "warning",
        "test_not_applicable": "n/a",
        "test_inconclusive": "inconclusive",
        "test_recorded": "deviation",
        "test_differs": "fail",
        "test_stale": "fail",
        "test_bug": "inconclusive",
        "test_bug_of_a_fixture": "inconclusive",
        "test_fixture_that_does_not_apply": "n/a",
        "test_harms_the_node": "fail",
        "test_behind_the_harm": "pass",
    }
    by_test = {row["test"].rpartition("::")[2]: row for row in verdicts(done[1])}
    assert by_test["test_bug"]["reason"] == "the test itself failed: KeyError: 'a bug of the test'"
    assert by_test["test_bug_of_a_fixture"]["reason"].endswith("KeyError: 'a bug of a fixture'")
    harm = by_test["test_harms_the_node"]
    assert (harm["expected"], harm["seen"]) == ("the node stays well", "the process died of SIGKILL")
    fail = by_test["test_fail"]
    assert (fail["expected"], fail["seen"]) == ("INIT A=1 version=8", "INIT A=1 version=9")
    assert (fail["level"], fail["transport"]) == ("FACT", "tcp")
    assert fail["stimulus"].startswith("INIT version=9")
    assert "stale" in by_test["test_stale"]["reason"]
    assert "the recorded words" in by_test["test_differs"]["reason"]


def test_failure_prints_all_that_is_needed_to_see_it_again(done: tuple[Done, Path]) -> None:
    text = done[0].stdout
    for words in (
        "ZN-INIT-001 (FACT;",
        "stimulus  INIT version=9",
        "expected  INIT A=1 version=8",
        "seen  INIT A=1 version=9",
        "exchange",
        "->",
        "seed  7",
        "capture",
        "repeat  pytest test_own.py::test_fail --node pypi --seed 7",
        "outcomes: ",
        f"of {len(requirements())} (",
        "page: ",
    ):
        assert words in text, words
    assert "a bug of the test" in text
    assert "Traceback" not in text


def test_each_test_has_one_line_with_outcome_requirement_and_title(done: tuple[Done, Path]) -> None:
    lines = done[0].stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("[") and "harms the node" in line]
    assert line.split()[-5:] == ["fail", "ZN-INIT-001", "harms", "the", "node"]
    marks = [line[:6] for line in lines if line.startswith("[") and "ZN-" in line]
    assert len(marks) == 13
    assert marks[-1] == "[100%]"
    # pytest's own names of files and words for outcomes do not stand in between.
    assert not [line for line in lines if line.startswith("test_own.py")]


def test_observations_and_capture_belong_to_the_test(done: tuple[Done, Path]) -> None:
    found = read_rows(done[1] / OBSERVATIONS)
    assert found.complete
    mine = [row for row in found.rows if row["test"].endswith("test_pass")]
    assert [row["direction"] for row in mine] == ["opened", "sent", "received"]
    assert [row["messages"] for row in mine] == ["", "INIT", "INIT"]
    captures = {row["capture"] for row in verdicts(done[1]) if row["capture"]}
    assert len(captures) == 3
    assert all((done[1] / name).stat().st_size > 0 for name in captures)


def test_rows_hold_no_path_of_this_machine(done: tuple[Done, Path]) -> None:
    text = (done[1] / "run.json").read_text() + (done[1] / VERDICTS).read_text()
    assert str(done[1].parent) not in text
    assert json.loads((done[1] / "run.json").read_text())["seed"] == 7


def test_run_leaves_page_junit_coverage_and_badge(done: tuple[Done, Path]) -> None:
    assert "differ" in (done[1] / "badge.svg").read_text() or "failed" in (done[1] / "badge.svg").read_text()
    assert "<h1>" in (done[1] / "index.html").read_text()
    assert "test_own.py::test_fail" in (done[1] / "coverage.csv").read_text()
    cases = ET.parse(done[1] / "junit.xml").getroot().findall(".//testcase")
    assert len(cases) == len(verdicts(done[1]))


def test_proposals_stand_beside_the_deviations_that_were_given(done: tuple[Done, Path]) -> None:
    text = (done[1].parent / "known.proposed.toml").read_text()
    assert "other words" in text
    assert "known.proposed.toml" in done[0].stdout
    assert "other words" not in (done[1].parent / "known.toml").read_text()


# In passing -------------------------------------------------------------------------------------------

NOSY = """
import pytest
from conformance.plugin import req

@req("ZN-INIT-001")
@pytest.mark.parametrize("number", range(4))
def test_session(tester, number):
    tester.session().fence()
"""

CHANGED_RULES = """
import conformance.running.outcome as outcome
from conformance.passive import CHECKERS, Checker, Remark

for name in ("ZN-MSG-006", "ZN-CLS-106", "ZN-INIT-002"):
    CHECKERS.setdefault(name, Checker(name))

def look(history):
    if not history.observations:
        return []
    return [Remark("ZN-MSG-006", 1), Remark("ZN-CLS-106", 1, "a reason", "none", 0),
            Remark("ZN-INIT-002", 1, "this", "that", 0)]

outcome.look = look
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_what_is_seen_in_passing_gets_verdicts_that_everybody_sees(
    workers: list[str], tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(CHANGED_RULES)
    ran = run_own(NOSY, tmp_path, *workers, "--node", "ref")
    text = ran.stdout
    assert ran.returncode == 1, text
    rows = verdicts(tmp_path / "run")
    # A break does not fail the tests in which it was seen.
    assert {row["outcome"] for row in rows if "::" in row["test"]} == {"pass"}
    passing = {row["test"]: row for row in rows if "::" not in row["test"]}
    assert {name: row["outcome"] for name, row in passing.items()} == {
        "passive/ZN-MSG-006": "pass",
        "passive/ZN-CLS-106": "warning",
        "passive/ZN-INIT-002": "fail",
    }
    broken = passing["passive/ZN-INIT-002"]
    assert (broken["expected"], broken["seen"]) == ("this", "that")
    assert broken["reason"].startswith("seen in test_own.py::test_session[")
    assert (tmp_path / "run" / broken["capture"]).exists()
    assert "--node ref" in broken["repeat"]
    assert "judged passively from all recorded traffic: 1 pass, 1 fail, 1 warning" in text
    assert "fail: passive/ZN-INIT-002" in text
    assert "passive/ZN-INIT-002" in (tmp_path / "run" / "coverage.csv").read_text()
    assert (tmp_path / "run" / "junit.xml").read_text().count("<failure") == 1


def test_what_fails_in_everything_else_passes_nothing_in_passing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CHANGED_RULES)
    ran = run_own(NOSY.replace("fence()", "fence(); assert False, 'a bug'"), tmp_path, "--node", "ref")
    assert ran.returncode == 1, ran.stdout
    passing = {row["test"]: row["outcome"] for row in verdicts(tmp_path / "run") if "::" not in row["test"]}
    assert passing == {"passive/ZN-CLS-106": "warning", "passive/ZN-INIT-002": "fail"}


def test_deviation_in_passing_is_known_by_its_own_id(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CHANGED_RULES)
    known = (
        deviation("x")
        .replace('"test_own.py::x"', '"passive/ZN-INIT-002"')
        .replace("the recorded words", "that")
    )
    (tmp_path / "known.toml").write_text(known)
    ran = run_own(NOSY, tmp_path, "--deviations", "known.toml", "-k", "session")
    assert ran.returncode == 0, ran.stdout
    (row,) = [row for row in verdicts(tmp_path / "run") if row["test"] == "passive/ZN-INIT-002"]
    assert (row["outcome"], row["reason"]) == ("deviation", "why; seen in test_own.py::test_session[0]")


# Again ------------------------------------------------------------------------------------------------

HARD_TO_NAME = """
import pytest
from conformance.errors import Unmet
from conformance.plugin import req, transports

@req("ZN-INIT-001")
@transports("tcp", "udp")
@pytest.mark.parametrize("what", ["a b", "it's $HOME [x]"])
def test_named(tester, what):
    raise Unmet("this", f"{what} {tester.rng.random()} {tester.locator.proto}")
"""


def test_command_that_repeats_a_test_works_as_it_stands(tmp_path: Path) -> None:
    run_own(HARD_TO_NAME, tmp_path, "--node", "ref", "--transports", "tcp,udp", "--time-scale", "2")
    rows = {row["test"]: row for row in verdicts(tmp_path / "run") if "::" in row["test"]}
    assert len(rows) == 4
    assert {row["transport"] for row in rows.values()} == {"tcp", "udp"}
    chosen = "test_own.py::test_named[udp-it's $HOME [x]]"
    again = rows[chosen]["repeat"]
    assert again.startswith("pytest ")
    done = run_prepared(
        *shlex.split(again)[1:], "-p", "conformance.plugin", "--run-dir", "again", cwd=tmp_path
    )
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    (second,) = [row for row in verdicts(tmp_path / "again") if "::" in row["test"]]
    # The same seed: the same random choices.
    assert (second["test"], second["seen"]) == (chosen, rows[chosen]["seen"])
    assert second["repeat"] == again


def test_command_for_a_test_of_the_suite_works_from_another_folder(tmp_path: Path) -> None:
    words = [
        "--pyargs",
        "conformance.suite.test_close",
        "-k",
        "own_zenoh_id",
        "--node",
        "ref",
        "-p",
        "conformance.plugin",
    ]
    first = run_prepared(*words, "--run-dir", "run", cwd=tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    (row,) = [row for row in verdicts(tmp_path / "run") if "::" in row["test"]]
    assert "--pyargs conformance.suite.test_close::test_own_zenoh_id" in row["repeat"]
    words = [*shlex.split(row["repeat"])[1:], "-p", "conformance.plugin", "--run-dir", "again"]
    again = run_prepared(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert [row["test"] for row in verdicts(tmp_path / "again") if "::" in row["test"]] == [row["test"]]
    assert read_run(tmp_path / "again").node_impl == "zenoh-harness-refnode"


def test_what_steers_a_terminal_is_shown_as_text() -> None:
    hostile = "\x1b[31mred\x00\x7f\x9b\u202e\u2066\ud800 plain \N{SNOWMAN}\n\tindented"
    assert encodable(hostile) == (
        "\\x1b[31mred\\x00\\x7f\\x9b\\u202e\\u2066\\ud800 plain \N{SNOWMAN}\n\tindented"
    )


GIVEN_UP = """
from conformance.plugin import req
from scapy_layers.network import Push

@req("ZN-INIT-001")
def test_rubbish(tester):
    listener = tester.listen()
    for name in ("first", "second"):
        ours = tester.starting(locator=listener.locator, name=name)
        ours.begin()
        theirs = listener.accept()
        theirs.serve()
        ours.finish()
        theirs.send(b"\\xff\\xff")
        ours.wait(lambda: ours.closed, 1)
    ours.expect(Push)
"""


def test_failure_says_that_it_was_our_end_that_gave_up_and_why(tmp_path: Path) -> None:
    done = run_own(GIVEN_UP, tmp_path, "--node", "ref")
    row = next(row for row in verdicts(tmp_path / "run") if row["outcome"] == "fail")
    why = "our end gave up first, second: the batch does not decode: OAM.ENC at byte 0: 3 has no meaning"
    assert row["reason"] == why
    assert f"    reason  {why}" in done.stdout


NEGLECTED = """
import os
import signal
import time
from conformance.plugin import req
from scapy_layers.network import Push

@req("ZN-INIT-001")
def test_late(tester):
    ours = tester.session(lease=1)
    # As if the machine had no time for us.
    time.sleep(1.5)
    ours.expect(Push)

@req("ZN-INIT-001")
def test_in_time(tester):
    tester.session().expect(Push)

@req("ZN-INIT-001")
def test_dead(tester, node):
    ours = tester.session(lease=1)
    time.sleep(1.5)
    os.kill(node.pid, signal.SIGKILL)
    ours.expect(Push)
"""


def test_node_is_not_blamed_where_our_end_was_silent_for_a_whole_lease(tmp_path: Path) -> None:
    run_own(NEGLECTED, tmp_path, "--node", "ref")
    rows = {row["test"].rpartition("_")[2]: row for row in verdicts(tmp_path / "run")}
    late = rows["late"]
    # A process that died has no such excuse.
    assert (late["outcome"], rows["time"]["outcome"], rows["dead"]["outcome"]) == (
        "inconclusive",
        "fail",
        "fail",
    )
    assert late["reason"].startswith("our end was kept from sending anything in session ")


ONE_PASSES = """
from conformance.plugin import req

@req("ZN-INIT-001")
def test_pass():
    pass
"""

INTERRUPTED = f"""{ONE_PASSES}
@req("ZN-INIT-001")
def test_long():
    raise KeyboardInterrupt
"""

IMPATIENT = """
def pytest_keyboard_interrupt():
    raise KeyboardInterrupt
"""


def test_run_that_is_interrupted_twice_is_not_complete(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(IMPATIENT)
    done = run_own(INTERRUPTED, tmp_path, "--node", "ref")
    assert done.returncode not in {0, 1}
    found = read_rows(tmp_path / "run" / VERDICTS)
    assert [row["outcome"] for row in found.rows] == ["pass"]
    assert not found.complete
    assert read_run(tmp_path / "run").status == "failed"


TERMINATED = f"""{ONE_PASSES}
import os, signal

@req("ZN-INIT-001")
def test_long():
    try:
        os.kill(os.getpid(), signal.SIG{{name}})
    finally:
        # As timeout does it.
        os.kill(os.getpid(), signal.SIG{{name}})
"""


@pytest.mark.parametrize("name", ["TERM", "HUP"])
def test_run_that_somebody_ends_leaves_a_page_of_what_was_judged(name: str, tmp_path: Path) -> None:
    done = run_own(TERMINATED.format(name=name), tmp_path, "--node", "ref")
    assert done.returncode == 2
    assert "outcomes: 1 pass" in done.stdout
    assert (tmp_path / "run" / "index.html").is_file()
    assert read_run(tmp_path / "run").status == "failed"


def test_run_without_its_page_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "run" / "index.html").mkdir(parents=True)
    done = run_own(ONE_PASSES, tmp_path, "--node", "ref")
    assert "page, coverage or proposals could not be written" in done.stdout
    assert done.returncode == 3
    assert outcomes(tmp_path / "run") == {"test_pass": "pass"}


MORTAL = r"""
import os, signal, sys
from conformance.refnode.__main__ import main

def die(*_):
    os.write(2, b"thread 'main' panicked at src/x.rs:1:2:\nthe reason\nnote: run with a backtrace\n")
    os._exit(101)

signal.signal(signal.SIGUSR2, die)
sys.exit(main())
"""

DIES = """
import os, signal
from conformance.plugin import req

@req("ZN-INIT-001")
def test_kills(node):
    os.kill(node.pid, signal.SIGUSR2)

@req("ZN-INIT-001")
def test_lives(node):
    pass
"""


def test_failure_says_what_the_node_wrote_when_it_died_and_where(tmp_path: Path) -> None:
    (tmp_path / "mortal.py").write_text(MORTAL)
    node = f"cmd:{sys.executable} mortal.py --listen {{locator}}"
    done = run_own(DIES, tmp_path, "--node", node)
    reasons = {row["outcome"]: (row["seen"], row["reason"]) for row in verdicts(tmp_path / "run")}
    why = "nodes/node-1.stderr: thread 'main' panicked at src/x.rs:1:2: the reason"
    assert reasons == {"fail": ("the process ended with exit code 101", why), "pass": ("", "")}
    assert f"    reason  {why}" in done.stdout
