"""What runs and what is kept: plain words, listing, transports, captures, too little."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from conformance.nodes.ref import RefNode
from conformance.passive import CHECKERS
from conformance.requirements import requirements
from spark_reports.rows import OBSERVATIONS, read_rows, read_run
from tests.conformance._runs import outcomes, run_own, run_prepared, verdicts

TESTS = """
import pytest
from conformance.errors import NotApplicable, Unmet
from conformance.plugin import req, slow, transports

@req("ZN-INIT-001")
def test_first_one(tester):
    tester.session().fence()

@req("ZN-OPEN-005")
@pytest.mark.parametrize("what", ["a", "b"])
def test_second_one(tester, what):
    raise Unmet("this", "that")

@req("ZN-CLS-106")
@transports("tcp", "udp")
def test_third_one(tester):
    tester.session().fence()

@req("ZN-CLS-106")
@slow
def test_without_links():
    pass
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-k", "cookie"], {"test_second_one[a]", "test_second_one[b]"}),
        (["-k", "handshake and not cookie"], {"test_first_one"}),
        (["-k", "zn-open-005"], {"test_second_one[a]", "test_second_one[b]"}),
        (["-k", "third"], {"test_third_one"}),
        (["--req", "zn-cls", "-m", "not slow"], {"test_third_one"}),
        (["--level", "should"], {"test_third_one", "test_without_links"}),
    ],
    ids=lambda value: " ".join(sorted(value) if isinstance(value, set) else value),
)
def test_words_of_requirements_select(words: list[str], expected: set[str], tmp_path: Path) -> None:
    listed = run_own(TESTS, tmp_path, *words, "--collect-only", "-q")
    found = {line.partition("::")[2] for line in listed.stdout.splitlines() if "::" in line}
    assert found == expected, listed.stdout


@pytest.mark.parametrize(
    ("words", "selection"),
    [
        (["--req", "zn-init", "-m", "not slow"], "--req ZN-INIT -m 'not slow'"),
        (["{folder}/test_own.py::test_first_one"], "test_own.py::test_first_one"),
        (["-n", "2", "-k", "first", "--level", "must"], "--level MUST -k first"),
        (["--deselect", "test_own.py::test_third_one"], "--deselect test_own.py::test_third_one"),
        (["-p", "cacheprovider", "--lf"], "--lf"),
        (["-p", "cacheprovider", "-p", "stepwise", "--sw"], "--sw"),
        (["-x"], "some files --maxfail 1"),
        # All have run.
        (["--maxfail", "3"], "some files"),
        # These are not all files of the suite.
        ([], "some files"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_run_says_what_was_selected(words: list[str], selection: str, tmp_path: Path) -> None:
    run_own(TESTS, tmp_path, "--node", "ref", *(word.format(folder=tmp_path) for word in words))
    assert read_run(tmp_path / "run").selection == selection


@pytest.mark.parametrize("joined", [False, True])
def test_run_tells_the_node_as_it_was_named_and_files_without_their_folder(
    joined: bool, tmp_path: Path
) -> None:
    node = (
        f"cmd:{sys.executable} -m conformance.refnode --listen {{locator}} --scout udp/{{scouting}}#iface=lo"
    )
    named = [f"--node={node}"] if joined else ["--node", node]
    run_own(TESTS, tmp_path, *named, "-k", "first", f"{tmp_path}/test_own.py")
    command = read_run(tmp_path / "run").command
    assert shlex.split(command)[-len(named) - 3 :] == [*named, "-k", "first", "test_own.py"]


HANDSHAKES = """
import pytest
from conformance.errors import Unmet
from conformance.plugin import req
from conformance.suite.common import accept
from scapy_layers.transport import Init, Open

@req("ZN-INIT-001")
def test_whole(tester):
    tester.session().fence()

@req("ZN-INIT-001")
def test_step_by_step(tester):
    end = tester.starting()
    end.init(extensions=[])
    end.take_init_ack()
    end.open_syn(extensions=[])
    end.take_open_ack()
    end.fence()

@req("ZN-INIT-001")
def test_by_hand(tester):
    accept(tester)

@req("ZN-INIT-001")
def test_that_fails(tester):
    tester.session()
    raise Unmet("this", "that")
"""


def test_node_that_asks_for_a_user_is_tested_and_no_password_is_written(tmp_path: Path) -> None:
    words = ["--node", "ref", "--user", "alice:open sesame"]
    done = run_own(HANDSHAKES, tmp_path, *words, "--seed", "1")
    passed = dict.fromkeys(("test_whole", "test_step_by_step", "test_by_hand"), "pass")
    assert outcomes(tmp_path / "run") == {**passed, "test_that_fails": "fail"}
    made = read_run(tmp_path / "run")
    assert shlex.split(made.command)[-6:] == [*words[:3], "alice", "--seed", "1"]
    assert "user=yes" in made.configuration.split()
    assert "--user alice\n" in done.stdout
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"alice" in written
    assert b"sesame" not in written + done.stdout.encode() + done.stderr.encode()


def test_user_without_a_password_is_wrong_use(tmp_path: Path) -> None:
    done = run_own(HANDSHAKES, tmp_path, "--node", "ref", "--user", "alice", ZENOH_PASSWORD="")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--user: no password for alice; write NAME:PASSWORD, or put it into ZENOH_PASSWORD" in done.stderr


def test_listing_names_requirements_and_their_tests_and_starts_nothing(tmp_path: Path) -> None:
    done = run_own(TESTS, tmp_path, "--list-reqs", "--req", "ZN-OPEN", "-n", "2", "--node", "tcp/127.0.0.1:1")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.strip().splitlines()
    wanted = [one for one in requirements().values() if one.area == "OPEN"]
    assert lines[-1].startswith(f"{len(wanted)} requirements, ")
    at = next(index for index, line in enumerate(lines) if line.startswith("ZN-OPEN-005"))
    assert lines[at].split()[1] in {"MUST", "FACT"}
    assert requirements()["ZN-OPEN-005"].text in lines[at]
    assert "test_own.py::test_second_one (2 cases)" in lines[at + 1]
    assert not (tmp_path / "run").exists()


def test_transports_lead_in_ids_and_those_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    done = run_own(TESTS, tmp_path, "--node", "ref", "--transports", "ws,udp,tcp", "-k", "one and not second")
    assert done.returncode == 0, done.stdout
    assert set(outcomes(tmp_path / "run")) == {
        "test_first_one",
        "test_first_one[ws]",
        "test_third_one",
        "test_third_one[udp]",
    }
    assert {row["transport"] for row in verdicts(tmp_path / "run") if "[" in row["test"]} == {"ws", "udp"}


def test_udp_alone_leaves_out_tests_of_streams(tmp_path: Path) -> None:
    done = run_own(TESTS, tmp_path, "--node", "ref", "--transports", "udp")
    assert done.returncode == 0, done.stdout
    assert outcomes(tmp_path / "run") == {"test_third_one[udp]": "pass", "test_without_links": "pass"}


def test_transport_that_cannot_be_had_is_shown_only_to_who_asks_for_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with RefNode(tmp_path / "nodes") as node:
        words = ["--node", str(node.locator), "-k", "first"]
        run_own(TESTS, tmp_path / "one", *words, "--transports", "tcp,ws")
        run_own(TESTS, tmp_path / "two", *words, "--transports", "all")
    assert outcomes(tmp_path / "one" / "run") == {"test_first_one": "pass", "test_first_one[ws]": "n/a"}
    assert outcomes(tmp_path / "two" / "run") == {"test_first_one": "pass"}


def test_locator_says_the_transport(tmp_path: Path) -> None:
    with RefNode(tmp_path / "nodes", transports=("ws",)) as node:
        done = run_own(TESTS, tmp_path, "--node", str(node.locators["ws"]), "-k", "first")
    assert done.returncode == 0, done.stdout
    assert outcomes(tmp_path / "run") == {"test_first_one[ws]": "pass"}


@pytest.mark.parametrize(("kept", "count"), [("all", 2), ("failed", 1), ("none", 0)])
def test_captures_are_kept_as_wanted_and_rows_always(kept: str, count: int, tmp_path: Path) -> None:
    tests = TESTS.replace('raise Unmet("this", "that")', "tester.link(); raise Unmet('this', 'that')")
    run_own(
        tests,
        tmp_path,
        "--captures",
        kept,
        "--node",
        "ref",
        "test_own.py::test_first_one",
        "test_own.py::test_second_one[a]",
    )
    assert len(list((tmp_path / "run" / "captures").iterdir())) == count
    rows = [row for row in verdicts(tmp_path / "run") if "::" in row["test"]]
    assert sum(bool(row["capture"]) for row in rows) == count
    assert {row["test"] for row in read_rows(tmp_path / "run" / OBSERVATIONS).rows} == {
        "test_own.py::test_first_one",
        "test_own.py::test_second_one[a]",
    }


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_run_that_decides_nothing_fails(workers: list[str], tmp_path: Path) -> None:
    tests = """
from conformance.errors import NotApplicable
from conformance.plugin import req

@req("ZN-INIT-001")
def test_one():
    raise NotApplicable("it is another node")
"""
    done = run_own(tests, tmp_path, "--node", "ref", *workers)
    assert done.returncode == 1, done.stdout
    assert "nothing was decided" in done.stdout
    assert "n/a             1  it is another node" in done.stdout


def test_profile_that_asks_for_more_tests_than_there_are_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('impl = "mine"\nminimum = 100000\n')
    words = ["--pyargs", "conformance", "-p", "conformance.plugin", "--profile", "mine.toml"]
    for workers in ([], ["-n", "2"]):
        done = run_prepared(*words, *workers, "--node", "tcp/127.0.0.1:1", "--run-dir", "run", cwd=tmp_path)
        text = done.stdout + done.stderr
        assert done.returncode == 4, text
        assert "the profile mine requires at least 100000" in text
        assert "Traceback" not in text
    # Who leaves tests out on purpose is not told that there are few.
    done = run_prepared(
        *words, "-k", "own_zenoh_id", "--node", "tcp/127.0.0.1:1", "--run-dir", "run", cwd=tmp_path
    )
    assert done.returncode == 3, done.stdout


def test_excluded_test_is_not_applicable_with_the_reason_of_the_profile(tmp_path: Path) -> None:
    profile = (
        'impl = "mine"\n[[excluded]]\ntests = ["test_own.py::test_second*"]\nreason = "has no cookies"\n'
    )
    (tmp_path / "mine.toml").write_text(profile)
    with RefNode(tmp_path / "nodes") as node:
        done = run_own(TESTS, tmp_path, "--node", str(node.locator), "--profile", "mine.toml")
    assert done.returncode == 0, done.stdout
    rows = {row["test"].partition("::")[2]: row for row in verdicts(tmp_path / "run")}
    assert rows["test_second_one[a]"]["outcome"] == "n/a"
    assert rows["test_second_one[a]"]["reason"] == "profile mine: has no cookies"


def test_requirement_that_is_only_seen_in_passing_keeps_all_tests(tmp_path: Path) -> None:
    done = run_own(TESTS, tmp_path, "--req", min(CHECKERS), "--collect-only", "-q")
    assert "5 tests collected" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("name", "what"), [("--run-dir", "folder"), ("--deviations", "file"), ("--proof", "file")]
)
def test_empty_path_is_wrong_use(name: str, what: str, tmp_path: Path) -> None:
    refused = run_own(TESTS, tmp_path, name, "")
    assert refused.returncode == 4
    assert f"{name}: is empty; name a {what}" in refused.stdout + refused.stderr
