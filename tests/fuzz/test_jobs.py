from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageError
from conformance.nodes import node_of
from fuzz.__main__ import main
from fuzz.cases import send
from fuzz.commands.run import _Run
from fuzz.coverage import Coverage
from fuzz.findings import Finding
from fuzz.jobs import Order, _Watch, check_jobs, cores_of, whole
from fuzz.oracles import Harm
from fuzz.recorder import Recorder
from fuzz.resume import Earlier
from fuzz.runner import Summary
from fuzz.script import Script
from fuzz.summary import Outcome
from spark_reports.rows import FINDINGS, FUZZ_CASES, FUZZ_COVERAGE, read_rows, read_run
from tests.fuzz.planted import command
from tests.fuzz.test_recorder import config_in

ROOT = Path(__file__).parents[2]


def test_share_of_each_process_adds_up(tmp_path: Path) -> None:
    order = Order(config_in(tmp_path / "run"), ("a",), seconds=9.0, cases=11, jobs=3, rate=30.0)
    shares = [order.share(job) for job in range(3)]
    assert [share.cases for share in shares] == [4, 4, 3]
    assert {share.rate for share in shares} == {10.0}
    assert {share.seconds for share in shares} == {9.0}
    assert Order(order.config, ("a",), jobs=2).share(1).cases is None


def test_what_a_killed_run_left_is_looked_into_by_one_process(tmp_path: Path) -> None:
    order = Order(config_in(tmp_path), ("a",), jobs=2, left=(tmp_path,))
    assert [order.share(job).left for job in range(2)] == [(tmp_path,), ()]


@pytest.mark.parametrize(
    ("jobs", "cores", "shares"),
    [
        (1, {3, 5}, [{3, 5}]),
        (2, {3, 5}, [{3}, {5}]),
        (2, {0, 1, 2, 3, 4}, [{0, 1}, {2, 3, 4}]),
        (3, {3, 5}, [{3}, {5}, {3}]),
    ],
)
def test_processes_share_the_cores(jobs: int, cores: set[int], shares: list[set[int]]) -> None:
    assert [cores_of(job, jobs, cores) for job in range(jobs)] == shares


def test_node_of_somebody_else_is_for_one_process(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    attached = node_of(type(config)(node="tcp/127.0.0.1:9", run_dir=config.run_dir, run_id="r", seed=1))
    check_jobs(Order(config, ("a",)), attached)
    with pytest.raises(UsageError, match="started once per job"):
        check_jobs(Order(config, ("a",), jobs=2), attached)


def test_finding_has_a_row_whenever_something_was_learned_about_it(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    finding = Finding(
        bucket="crash PUSH", harm=Harm.CRASH, oracle="process", place="a.rs:1", detail="it died", state="open",
        message="PUSH", script=Script((send(b"\x04"),)), first=Script((send(b"\x04"),)),
        path=config.run_dir / "findings" / "crash-push",
    )  # fmt: skip
    summary = Summary(Coverage())
    shown: list[Summary] = []
    with Recorder(config) as recorder:
        watch = _Watch(recorder, "fast", shown.append)
        for hits, status in ((0, ""), (1, "open"), (1, "open"), (1, "confirmed"), (2, "confirmed")):
            finding.hits, finding.status = hits, status or "open"
            summary.findings = [finding] if hits else []
            watch(summary)
        watch(summary)
    rows = read_rows(config.run_dir / FINDINGS).rows
    assert [(row["hits"], row["status"]) for row in rows] == [(1, "open"), (1, "confirmed"), (2, "confirmed")]
    assert (rows[0]["folder"], rows[0]["messages"], rows[0]["fails"]) == ("findings/crash-push", 1, True)
    assert len(shown) == 6


KNOWN = """
[[finding]]
id = "OWN-1"
impl = "unknown"
versions = "*"
harm = "crash"
place = "a.rs"
note = "it dies"
since = 2026-11-28
report = "reported privately"
"""


def recorded(tmp_path: Path) -> tuple[Order, Finding]:
    """Returns a run that has a confirmed finding in its rows and in a folder."""
    config = config_in(tmp_path / "run")
    finding = Finding(
        bucket="crash PUSH", harm=Harm.CRASH, oracle="process", place="a.rs:1", detail="it died", state="open",
        message="PUSH", script=Script((send(b"\x04"),)), first=Script((send(b"\x04"),)), campaign="session",
        path=config.run_dir / "findings" / "crash-push", status="confirmed",
    )  # fmt: skip
    assert finding.path is not None
    finding.path.parent.mkdir(parents=True)
    finding.save()
    with Recorder(config) as recorder:
        summary = Summary(Coverage())
        summary.findings = [finding]
        _Watch(recorder, "fast", lambda _: None)(summary)
    return Order(config, ("session",)), finding


def gone_on(order: Order, before: Earlier | None, outcome: Outcome) -> None:
    _Run(order, before, Namespace(), "")._add_earlier(outcome)


def test_what_a_process_that_died_has_found_is_told(tmp_path: Path) -> None:
    order, _ = recorded(tmp_path)
    outcome = Outcome(failed="job 1 was killed")
    gone_on(replace(order, jobs=2), None, outcome)
    assert [(row.bucket, row.fails) for row in outcome.findings] == [("crash PUSH", True)]


def test_what_was_entered_meanwhile_fails_a_resumed_run_no_more(tmp_path: Path) -> None:
    order, finding = recorded(tmp_path)
    before = Earlier(cases=Counter(session=3), part=1)
    own = tmp_path / "known.toml"
    own.write_text(KNOWN)
    for known, entry in ((None, ""), (own, "OWN-1"), (own, "OWN-1"), (None, "")):
        outcome = Outcome()
        gone_on(replace(order, known=known, part=1), before, outcome)
        assert [(row.known, row.fails) for row in outcome.findings] == [(entry, not entry)]
        assert finding.path is not None
        assert Finding.load(finding.path).known == entry
        assert read_rows(order.config.run_dir / FINDINGS).rows[-1]["known"] == entry
    # Only what is news is written down.
    assert len(read_rows(order.config.run_dir / FINDINGS).rows) == 3


def test_rate_while_well_is_that_of_all_processes() -> None:
    one = Outcome(cases=Counter(a=100), seconds=10.0, lost=5.0)
    both = whole([one, Outcome(cases=Counter(a=100), seconds=10.0, lost=5.0)], 2)
    assert (both.total, both.rate, both.healthy_rate) == (200, 20.0, 40.0)


def test_processes_play_different_cases_into_one_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    argv = ["run", "handshake", "--node", command(), "--jobs", "2", "--seed", "1", "--run-dir", str(folder)]
    assert main([*argv, "--cases", "81"]) == 0
    rows = read_rows(folder / FUZZ_CASES)
    assert rows.complete
    assert not rows.bad
    assert Counter(row["job"] for row in rows.rows) == {0: 41, 1: 40}
    assert all(row["case"] % 2 == row["job"] for row in rows.rows)
    assert len({row["case"] for row in rows.rows}) == 81
    captured = capfd.readouterr()
    assert "81 cases in" in captured.out
    assert captured.out.count("findings: nothing new") == 1
    assert "2 nodes, seed 1" in captured.err
    coverage = read_rows(folder / FUZZ_COVERAGE).rows
    assert sum(row["count"] for row in coverage if row["kind"] == "pair") == 81
    assert any(row["planned"] and not row["count"] for row in coverage if row["kind"] == "edge")
    run = read_run(folder)
    assert (run.status, run.node_impl) == ("complete", "unknown")


def test_nodes_of_a_process_are_on_its_cores(tmp_path: Path) -> None:
    seen = tmp_path / "cores"
    node = command().removeprefix("cmd:").replace("'", "'\\''")
    node = f"cmd:sh -c 'grep Cpus_allowed_list /proc/self/status >> {seen}; exec {node}'"
    argv = ["run", "handshake", "--node", node, "--jobs", "2", "--seed", "1", "--cases", "2"]
    assert main([*argv, "--run-dir", str(tmp_path / "run")]) == 0
    assert len(set(seen.read_text().splitlines())) == min(2, len(os.sched_getaffinity(0)))


def test_wrong_node_of_all_processes_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    argv = ["run", "handshake", "--node", "cmd:false {locator}", "--jobs", "2", "--cases", "9"]
    assert main([*argv, "--run-dir", str(tmp_path / "run")]) == 3
    err = [line for line in capfd.readouterr().err.splitlines() if line.startswith("zenoh-fuzz:")]
    assert len(err) == 1
    assert "job 0" in err[0]


def children(pid: int, mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(stat[1]) == pid and mark in (entry / "cmdline").read_text():
                found.append(int(entry.name))
    return sorted(found)


@contextlib.contextmanager
def started(folder: Path, seconds: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A run of two processes, each of which has played some cases; and the two."""
    argv = ["run", "handshake", "--node", command(), "--jobs", "2", "--seed", "1", "--run-dir", str(folder)]
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "fuzz", *argv, "--time", seconds],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        rows = folder / FUZZ_CASES
        while not rows.exists() or not {0, 1} <= {row["job"] for row in read_rows(rows).rows}:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        try:
            yield process, children(process.pid, "spawn_main")
        finally:
            process.kill()


def numbers(folder: Path) -> list[int]:
    return [row["case"] for row in read_rows(folder / FUZZ_CASES).rows]


def test_process_that_dies_is_said_and_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with started(folder, "1h") as (process, workers):
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        before = numbers(folder)
        process.terminate()
        out, err = process.communicate(timeout=600)
    assert process.returncode == 3, (out, err)
    assert "was killed by SIGKILL" in err
    # At once, and again at the end.
    assert re.search(r"^warning: job [01] was killed by SIGKILL", err, re.MULTILINE)
    assert "Traceback" not in err
    rows = read_rows(folder / FUZZ_CASES)
    assert rows.complete
    assert numbers(folder)[: len(before)] == before
    assert f"{len(rows.rows)} cases in" in out
    assert read_run(folder).status == "failed"


WAITING = """
import fcntl, os, sys

class Gate:
    def find_spec(self, name, *_):
        if name == "fuzz.jobs":
            open({gate!r} + str(os.getpid()), "w").close()
            fcntl.flock(open({gate!r}), fcntl.LOCK_SH)

if "spawn_main" in " ".join(sys.orig_argv):
    sys.meta_path.insert(0, Gate())
"""
"""A process of a run waits with it, while it loads its modules, until a file is unlocked."""


@contextlib.contextmanager
def loading(
    tmp_path: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[str], list[int], Callable[[], None]]]:
    """Yields a run of two processes that wait while they load their modules; their numbers; what lets them go on."""
    argv = ["run", "handshake", "--node", command(), "--jobs", "2", "--seed", "1", *options]
    code = "import signal, sys, fuzz.__main__ as m; signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(m.main())"
    gate = tmp_path / "gate"
    (tmp_path / "sitecustomize.py").write_text(WAITING.format(gate=str(gate)))
    with contextlib.ExitStack() as stack:
        closed = stack.enter_context(gate.open("w"))
        fcntl.flock(closed, fcntl.LOCK_EX)
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", code, *argv, "--run-dir", str(tmp_path / "run")],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(tmp_path)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        while len(waiting := list(tmp_path.glob("gate?*"))) < 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.002)
        workers = children(process.pid, "spawn_main")
        assert len(workers) == len(waiting)
        yield process, workers, lambda: fcntl.flock(closed, fcntl.LOCK_UN)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_all_processes_before_they_have_loaded_their_modules_ends_them_in_order(
    tmp_path: Path, number: int
) -> None:
    with loading(tmp_path) as (process, workers, go_on):
        os.killpg(process.pid, number)
        go_on()
        out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (0, ""), err
    assert err.endswith("zenoh-fuzz: stopped before the first case\n")
    assert "Traceback" not in err
    assert _gone(workers)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_that_processes_get_while_they_load_their_modules_kills_none_of_them(
    tmp_path: Path, number: int
) -> None:
    with loading(tmp_path, "--cases", "4") as (process, workers, go_on):
        for pid in workers:
            os.kill(pid, number)
        go_on()
        _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "died of" not in err


def _gone(pids: list[int]) -> bool:
    return not any(_state(pid) not in {"", "Z"} for pid in pids)


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def test_run_that_is_killed_takes_its_processes_along_and_is_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with started(folder, "1h") as (process, workers):
        nodes: list[Any] = [pid for worker in workers for pid in children(worker, "planted_process")]
        process.kill()
        process.communicate(timeout=600)
    deadline = time.monotonic() + 600
    while not _gone([*workers, *nodes]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(nodes) >= 2
    before = read_rows(folder / FUZZ_CASES)
    assert len(before.bad) <= 1
    argv = ["run", "handshake", "--node", command(), "--run-dir", str(folder), "--resume"]
    assert main([*argv, "--cases", "300", "--jobs", "1"]) == 2
    assert main([*argv, "--cases", str(len(before.rows) + 60)]) == 0
    after = read_rows(folder / FUZZ_CASES)
    assert after.complete
    assert not after.bad
    assert after.rows[: len(before.rows)] == before.rows
    assert len(numbers(folder)) == len(set(numbers(folder))) == len(before.rows) + 60
