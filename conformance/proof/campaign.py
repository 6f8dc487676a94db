"""Runs the plans: one process has the suite collected and forks a child for each mutant.

A child is the same pytest run, with another node, another run folder and fewer tests. So nothing is collected twice,
nothing is imported twice, and what a test does is exactly what it does in any other run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import conformance
from conformance.errors import UsageError
from conformance.proof.forked import fork_nodes
from conformance.proof.plan import SAMPLE, Plan, Tests, plans
from conformance.proof.results import NOTICED, NullResult, Proof, Result, line_of, result_of
from conformance.refnode.__main__ import PR_SET_PDEATHSIG
from conformance.refnode.mutants import CORRECT, MUTANTS, Mutant
from conformance.running import writer
from spark_reports.rows import VERDICTS, VerdictRow, read_rows, utc_now

SUITE = Path(conformance.__file__).parent / "suite"

TIME_SCALE = 0.5
"""A test that notices something has often waited for T1 in vain; a reference node answers in a millisecond."""

NULL_TIME_SCALE = 0.05
"""Nothing comes from these but what comes at once."""

NULL_KINDS = ("closed", "silent", "echo", "noise", "replay", "yes")
"""Nodes that are none."""

SEARCHING = "suite/test_model.py::"
"""Tests that look for the shortest way to break a node."""

LIMIT_SECONDS = 120.0
"""No child takes so long; one that does is ended."""

LOOK_SECONDS = 1.0
"""Between two looks whether a child has taken too long."""

Say = Callable[[str], None]
"""Tells whoever watches how it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a campaign was asked to do.

    Attributes:
        out: Folder for all that it writes.
        jobs: Children at the same time.
        mutants: Ids of those to try; all when empty.
        all_tests: Each faces every test.
        nulls: The nodes that are none are tried too.
        seed: Of the samples and of the tests.
        size: Tests of other requirements that each mutant faces.
        bound: Stray kills that a mutant may have.
        time_scale: As ``--time-scale`` of the suite.
        suite: Files or folders with the tests.
    """

    out: Path
    jobs: int = 2
    mutants: tuple[str, ...] = ()
    all_tests: bool = False
    nulls: bool = False
    seed: int = 0
    size: int = SAMPLE
    bound: int = 0
    time_scale: float = TIME_SCALE
    suite: tuple[Path, ...] = (SUITE,)


@dataclass(slots=True)
class _Task:
    """What one child has to do.

    Attributes:
        name: Of its folder and of its log.
        node: Value of ``--node``.
        plan: Its tests.
        time_scale: See Options.
        limit: Seconds after which it is ended.
        trusted: Nobody looks whether the node is well. A mutant that breaks a rule of every handshake never is: every
            test would stop at that, and none would be tried.
        started: When it was, by the monotonic clock.
        seconds: How long it took.
        trouble: Why it was not to the end.
    """

    name: str
    node: str
    plan: Plan
    time_scale: float
    limit: float = LIMIT_SECONDS
    trusted: bool = False
    started: float = 0.0
    seconds: float = 0.0
    trouble: str = ""


def run(options: Options, say: Say) -> Proof:
    """Runs a campaign.

    Args:
        options: What to do.
        say: Is told a line for each mutant.

    Raises:
        UsageError: There is no such mutant, or no test, or the folder cannot be made.
    """
    chosen = _chosen(options.mutants)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{options.out}: cannot be made ({error.strerror}); choose another --out") from None
    started = time.monotonic()
    campaign = _Campaign(options, chosen, say)
    words = [*map(str, options.suite), "--node", "ref", "--seed", str(options.seed)]
    words += ["-q", "-s"]
    # Those of the last line make the end of a run slow: they collect garbage until there is none.
    for plugin in (
        *("cacheprovider", "xdist", "randomly"),
        *("unraisableexception", "threadexception"),
    ):
        words += ["-p", f"no:{plugin}"]
    words += [
        "--rootdir",
        str(SUITE.parents[1]),
        "--run-dir",
        str(options.out / "unused"),
        "--captures",
        "none",
    ]
    # This module has imported the packages, so that an installed pytest plugin cannot rewrite them.
    words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    log = options.out / "collection.txt"
    with _written_to(log):
        code = pytest.main(words, plugins=[campaign])
        sys.stdout.flush()
        sys.stderr.flush()
        if campaign.child:
            os._exit(int(code))
    if campaign.proof is None:
        raise UsageError(f"the suite was not collected: see {log}")
    campaign.proof.seconds = time.monotonic() - started
    return campaign.proof


def _chosen(names: Sequence[str]) -> list[Mutant]:
    unknown = [name for name in names if name not in MUTANTS]
    if unknown:
        raise UsageError(f"no mutant {unknown[0]!r}; python -m conformance.refnode --list-mutants lists all")
    return [MUTANTS[name] for name in (names or sorted(MUTANTS))]


@contextlib.contextmanager
def _written_to(log: Path) -> Generator[None]:
    """Sends what this process and its children print into a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, file_number in enumerate(kept, 1):
            os.dup2(file_number, number)
            os.close(file_number)


class _Campaign:
    """Forks when the tests are known; in a child it is what chooses the tests and stops."""

    def __init__(self, options: Options, chosen: list[Mutant], say: Say) -> None:
        self.child = False
        self.proof: Proof | None = None
        self._options = options
        self._chosen = chosen
        self._say = say
        self._task: _Task | None = None
        self._killed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Goes through all tasks; returns in the children only."""
        by_name = {item.nodeid: item for item in items if item.get_closest_marker("req")}
        tests = {name: _marked(item) for name, item in by_name.items()}
        slow = [name for name, item in by_name.items() if item.get_closest_marker("slow")]
        if tests:
            self._go_through(tests, slow)
        if self._task is None:
            # pytest still ends the collection; no node shall be started for that.
            config.option.collectonly = True
            pytest.exit("the campaign is over", 0)
        config.option.node = self._task.node
        config.option.run_dir = str(self._options.out / "runs" / self._task.name)
        config.option.time_scale = self._task.time_scale
        config.option.trust_node = self._task.trusted
        items[:] = [by_name[name] for name in self._task.plan.tests]
        fork_nodes()
        # A page for each of some hundred runs would take longer than their tests; there is one for all.
        vars(writer)["write_all"] = _no_page

    def _go_through(self, tests: Tests, slow: list[str]) -> None:
        options = self._options
        made = plans(
            self._chosen,
            tests,
            slow=slow,
            searching=[name for name in tests if SEARCHING in name],
            size=options.size,
            seed=options.seed,
            all_tests=options.all_tests,
        )
        proof = Proof(
            seed=options.seed,
            bound=options.bound,
            started_at=utc_now(),
            tests={_test_id(name): marked for name, marked in tests.items()},
        )
        correct = self._shares(made, tests)
        nulls = [
            _Task(f"null-{kind}", f"null:{kind}", Plan("", tuple(tests)), NULL_TIME_SCALE, 5 * LIMIT_SECONDS)
            for kind in NULL_KINDS * options.nulls
        ]
        mutants = [_Task(plan.mutant, f"ref:{plan.mutant}", plan, options.time_scale) for plan in made]
        if options.all_tests:
            for task in mutants:
                task.limit = 10 * LIMIT_SECONDS
        began = time.monotonic()
        waiting = [*correct, *mutants, *nulls][::-1]
        for task in self._work(waiting):
            rows = _rows(options.out / "runs" / task.name)
            if task.node == "ref":
                proof.correct = _added(proof.correct, result_of(task.plan, CORRECT, rows, 0, task.trouble))
                proof.correct.seconds += task.seconds
                self._say(f"{task.name}: {_counted(rows) or task.trouble}")
            elif not task.plan.mutant:
                proof.nulls.append(_null_result(task, rows))
                self._say(f"{task.node}: {_counted(rows) or task.trouble}")
            elif not task.trusted and _unwell(rows):
                waiting.append(_without_canary(task))
            else:
                mutant = MUTANTS[task.plan.mutant]
                result = result_of(task.plan, mutant, rows, task.seconds, task.trouble)
                result.alone = task.trusted
                proof.results.append(result)
                count = f"[{len(proof.results):3}/{len(mutants)} {time.monotonic() - began:4.0f} s]"
                self._say(f"{count} {line_of(result, options.bound)}")
        if self._task is None:
            proof.results.sort(key=lambda result: result.mutant)
            self.proof = proof

    def _shares(self, made: list[Plan], tests: Tests) -> list[_Task]:
        """Returns what the correct node has to do: every test that some mutant may face."""
        needed = {test for plan in made for test in plan.tests}
        ordered = [test for test in tests if test in needed]
        jobs = self._options.jobs
        # Neighbours take equally long, so each child gets every so-many-th.
        shares = [tuple(ordered[at::jobs]) for at in range(jobs)]
        scale, limit = self._options.time_scale, 10 * LIMIT_SECONDS
        return [
            _Task(f"correct-{number}", "ref", Plan("", sample=share), scale, limit)
            for number, share in enumerate(shares, 1)
            if share
        ]

    def _work(self, waiting: list[_Task]) -> Generator[_Task]:
        """Runs tasks in children, some at a time, the last one first; yields those that have ended.

        Whoever gets one may add others. Ends early in a child.
        """
        running: dict[int, _Task] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._options.jobs:
                    task = waiting.pop()
                    task.started = time.monotonic()
                    sys.stdout.flush()
                    sys.stderr.flush()
                    pid = os.fork()
                    if not pid:
                        running.clear()
                        self._become_child(task)
                        return
                    running[pid] = task
                yield from self._ended(running)
        finally:
            # Not in a child: it has cleared them.
            for pid in running:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _ended(self, running: dict[int, _Task]) -> list[_Task]:
        """Waits until a child has ended; ends those that take too long."""
        while True:
            ended = []
            for pid, task in list(running.items()):
                done, status = os.waitpid(pid, os.WNOHANG)
                task.seconds = time.monotonic() - task.started
                if not done and task.seconds > task.limit:
                    os.kill(pid, signal.SIGKILL)
                    done, status = os.waitpid(pid, 0)
                    task.trouble = f"not ready after {task.limit:g} s"
                if done:
                    del running[pid]
                    code = os.waitstatus_to_exitcode(status)
                    if code not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
                        task.trouble = task.trouble or f"exit code {code}: {_last_line(self._log(task))}"
                    ended.append(task)
            if ended:
                return ended
            _await_any(running)

    def _log(self, task: _Task) -> Path:
        return self._options.out / "logs" / f"{task.name}.txt"

    def _become_child(self, task: _Task) -> None:
        self.child = True
        self._task = task
        # However the campaign ends, its children end with it, and their nodes with them.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        log = self._log(task)
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)

    # In a child ---------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs the tests; those of the mutant's requirements only until one has noticed."""
        assert self._task is not None
        plan = self._task.plan
        spared = frozenset() if self._options.all_tests or not plan.mutant else plan.until_noticed
        for item in session.items:
            if self._killed and item.nodeid in spared:
                continue
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Learns that the mutant was noticed, by a test of its own requirement or in passing."""
        result = getattr(report, "zenoh", None)
        mutant = MUTANTS.get(self._task.plan.mutant) if self._task else None
        if not result or not mutant:
            return
        wanted, verdict = mutant.requirements[0], result["verdict"]
        if verdict["outcome"] in NOTICED and wanted in verdict["requirements"]:
            self._killed = True
        for remark in result["remarks"]:
            if remark["requirement"] == wanted and remark["expected"]:
                self._killed = True


def _await_any(pids: Iterable[int]) -> None:
    """Waits until one of these processes has ended, or it is time to look at the clock."""
    files = [os.pidfd_open(pid) for pid in pids]
    try:
        select.select(files, [], [], LOOK_SECONDS)
    finally:
        for file in files:
            os.close(file)


def _marked(item: pytest.Item) -> frozenset[str]:
    return frozenset(str(name) for mark in item.iter_markers("req") for name in mark.args)


def _test_id(nodeid: str) -> str:
    """Returns the id of a test as it stands in rows."""
    return nodeid[nodeid.rfind("suite/") :] if "suite/" in nodeid else nodeid


def _no_page(folder: Path, **_: object) -> None:
    """Stands in for what writes the page of a run."""


def _unwell(rows: list[VerdictRow]) -> bool:
    """Tells whether the node was never well enough for a test: every one stopped at the canary."""
    return bool(rows) and all(row.outcome in {"inconclusive", "n/a"} for row in rows)


def _without_canary(task: _Task) -> _Task:
    """Returns what is left to be done with a mutant that breaks a rule of every handshake: its own tests."""
    plan = replace(task.plan, sample=())
    return _Task(f"{task.name}-alone", task.node, plan, task.time_scale, task.limit, trusted=True)


def _rows(folder: Path) -> list[VerdictRow]:
    if not (folder / VERDICTS).exists():
        return []
    found = read_rows(folder / VERDICTS).rows
    return [VerdictRow(**{**row, "requirements": tuple(row["requirements"])}) for row in found]


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "nothing was said"


def _counted(rows: list[VerdictRow]) -> str:
    counts = Counter(row.outcome for row in rows)
    return ", ".join(f"{counts[name]} {name}" for name in sorted(counts))


def _null_result(task: _Task, rows: list[VerdictRow]) -> NullResult:
    return NullResult(
        kind=task.node.partition(":")[2],
        outcomes=dict(Counter(row.outcome for row in rows)),
        passed=[row.test for row in rows if row.outcome == "pass"],
        seconds=round(task.seconds, 1),
        trouble=task.trouble if not rows else "",
    )


def _added(sum_: Result | None, more: Result) -> Result:
    if sum_ is None:
        return more
    for test, outcome in more.outcomes.items():
        # What is judged in passing has one verdict in each share.
        if sum_.outcomes.get(test) in {None, "pass", "n/a"}:
            sum_.outcomes[test] = outcome if outcome != "n/a" else sum_.outcomes.get(test, outcome)
    sum_.strays += more.strays
    sum_.trouble = sum_.trouble or more.trouble
    return sum_


__all__ = ["Options", "run"]
