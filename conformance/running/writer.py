"""The process that writes: rows as tests end, everything else when all have ended.

It is the only process, or the controller of pytest-xdist, which gets verdicts with the reports.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import shlex
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from typing import Any, NoReturn

import pytest

from conformance.deviations import SHIPPED, Deviations, beside, propose
from conformance.errors import UsageError
from conformance.nodes.releases import RELEASES
from conformance.page.facts import DECIDED, Facts
from conformance.page.writing import PAGE, write_all
from conformance.recorder import SUITE_RUN, NodeFacts, close_run, open_run
from conformance.running.options import Settings, settings_of, wanted_requirements
from conformance.running.passing import FOLDER, Passing, row_of
from conformance.running.shown import Shown
from conformance.verdicts import Judged, compare, short
from spark_reports.rows import (
    ALL,
    OBSERVATIONS,
    VERDICTS,
    ObservationRow,
    RowsError,
    RowWriter,
    RunRow,
    VerdictRow,
)

EXIT_HARNESS = 3
"""Exit code when there was no node, or the harness failed."""

EXIT_USAGE = int(pytest.ExitCode.USAGE_ERROR)

EXIT_FAILED = int(pytest.ExitCode.TESTS_FAILED)


class Recorder:
    """Writes the rows of a run and sums it up.

    Attributes:
        refused: Why the run was not to be, and its exit code.
    """

    def __init__(self, config: pytest.Config, shown: Shown) -> None:
        self._config = config
        self._shown = shown
        self._node: NodeFacts | None = None
        self._whole = False
        self._row: RunRow | None = None
        self._verdicts: RowWriter | None = None
        self._observations: RowWriter | None = None
        self._rows: list[VerdictRow] = []
        self._passing = Passing()
        self._notes: list[str] = []
        self._cut_off = False
        self._heeded: list[signal.Signals] = []
        self.refused: tuple[str, int] | None = None

    @property
    def _settings(self) -> Settings:
        return settings_of(self._config)

    # Each test ------------------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Writes the rows of a test."""
        result = getattr(report, "zenoh", None)
        if result is None:
            return
        if self._row is None:
            self._whole = result["whole"]
            self._begin(NodeFacts(**result["node"]))
        verdict = result["verdict"]
        row = VerdictRow(**{**verdict, "requirements": tuple(verdict["requirements"])})
        self._write(row, result["observations"])
        if not row.test.startswith(f"{FOLDER}/"):
            self._passing.add(row, result["remarks"])
        if self._shown.lost:
            return
        if row.reason != result["lost"] or not row.reason:
            self._shown.test(row)
        if result["lost"]:
            self._shown.lose(result["lost"])

    def _write(self, row: VerdictRow, observations: list[dict[str, Any]]) -> None:
        assert self._verdicts is not None
        assert self._observations is not None
        self._rows.append(row)
        try:
            self._verdicts.write(row)
            for seen in observations:
                self._observations.write(ObservationRow(**seen))
        except OSError as error:
            pytest.exit(_unwritable(error), EXIT_HARNESS)

    def _begin(self, facts: NodeFacts) -> None:
        self._node = facts
        folder = self._settings.config.run_dir
        try:
            command = shlex.join(["pytest", *_without_paths(self._config.invocation_params.args)])
            settings = self._settings
            self._heed_signals()
            self._row = open_run(
                settings.config,
                facts,
                SUITE_RUN,
                command,
                settings.judging,
                settings.selection(all_files=self._whole),
            )
            self._verdicts = RowWriter(folder / VERDICTS)
            self._observations = RowWriter(folder / OBSERVATIONS)
        except (OSError, RowsError, UsageError) as error:
            pytest.exit(_unwritable(error), EXIT_HARNESS)

    def _heed_signals(self) -> None:
        """Makes of what ends a process a Ctrl-C, so that a run that somebody ends leaves its page and counts."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, self._end)
                    self._heeded.append(number)

    def _end(self, *_: object) -> NoReturn:
        # ``timeout`` sends its signal twice; what is written now shall not be cut off by the second one.
        for number in self._heeded:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def pytest_unconfigure(self) -> None:
        """Leaves the signals as they were."""
        while self._heeded:
            signal.signal(self._heeded.pop(), signal.SIG_DFL)

    # When all are done -----------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Judges what all tests have seen, as long as a fail still makes the run one that failed."""
        try:
            done = yield
            if self._row is not None and not self._shown.lost:
                self._judge_in_passing()
        except (KeyboardInterrupt, pytest.exit.Exception):
            # Whoever is interrupted once more while pytest makes a note of it is told of no failure at all.
            self._cut_off = True
            raise
        return done

    def _judge_in_passing(self) -> None:
        assert self._node is not None
        settings = self._settings
        wanted, levels = wanted_requirements(self._config), self._config.getoption("--level")
        deviations = deviations_of(settings)
        found: dict[str, list[tuple[Judged, VerdictRow]]] = {}
        partial = not wanted and (settings.partial or not self._whole)
        for name, judged, shown in self._passing.judged(wanted, levels, partial=partial):
            if judged.outcome != "pass" or (self._whole and not settings.narrowed):
                # Of a few tests, none may have seen what a recorded deviation is about.
                reason = judged.reason
                compare(
                    judged,
                    (name,),
                    f"{FOLDER}/{name}",
                    (self._node.impl, self._node.version),
                    strict_should=settings.config.strict_should,
                    transport=(shown.transport if shown else "") or "tcp",
                    deviations=deviations,
                )
                if reason not in judged.reason:
                    judged.reason = f"{judged.reason}; {reason}" if judged.reason else reason
            row = row_of(settings.config.run_id, name, judged, shown)
            found.setdefault(name, []).append((judged, row))
        order = ("fail", "warning", "deviation", "pass", "n/a")
        for several in found.values():
            _, row = min(several, key=lambda one: order.index(one[0].outcome))
            self._config.hook.pytest_runtest_logreport(report=_report(row, self._node))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Completes the files of the run; those of an interrupted run stay without a footer."""
        if self.refused is not None:
            session.exitstatus = self.refused[1]
        if self._row is None or self._verdicts is None or self._observations is None:
            return
        ended = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED} and not self._cut_off
        lost = self._shown.lost
        if session.shouldfail:
            # What came behind the last failure that was wanted (-x, --maxfail) was not asked for.
            row, words = self._row, f"--maxfail {self._config.getoption('maxfail')}"
            before = "" if row.selection == ALL else row.selection
            self._row = dataclasses.replace(row, selection=f"{before} {words}".strip())
        try:
            if ended:
                self._verdicts.close()
                self._observations.close()
            close_run(self._settings.config, self._row, failed=not ended or bool(lost))
        except OSError as error:
            self._notes.append(_unwritable(error))
            session.exitstatus = EXIT_HARNESS
        if lost:
            session.exitstatus = EXIT_HARNESS
        elif exitstatus == pytest.ExitCode.OK and not any(row.outcome in DECIDED for row in self._rows):
            session.exitstatus = EXIT_FAILED
            self._notes.append("nothing was decided: no test could show anything about this node")
        if not self._derive(ended=ended) and session.exitstatus == pytest.ExitCode.OK:
            # Whoever waits for one of these files shall not believe that all is well.
            session.exitstatus = EXIT_HARNESS

    def _derive(self, *, ended: bool) -> bool:
        """Writes what is made of the rows; tells whether that could be written."""
        settings = self._settings
        folder = settings.config.run_dir
        try:
            self._notes += self._remarks()
            if settings.update_deviations and ended:
                self._notes.append(self._propose())
            write_all(folder, proof=settings.proof)
            self._notes.append(f"page: {short(folder / PAGE)}")
        except (OSError, RowsError, UsageError) as error:
            self._notes.append(f"page, coverage or proposals could not be written: {error}")
            return False
        return True

    def _remarks(self) -> list[str]:
        """Returns what is to be said about the recorded deviations themselves."""
        assert self._node is not None
        return deviations_of(self._settings).remarks(
            self._node.impl,
            self._node.version,
            [(row.test, row.transport, row.outcome) for row in self._rows],
            whole=self._whole and not self._settings.narrowed,
            today=_today(),
        )

    def _propose(self) -> str:
        """Writes proposals for the file of deviations beside it."""
        settings = self._settings
        path = settings.deviations or SHIPPED
        folder = settings.config.run_dir
        found = propose(deviations_of(settings), [folder], releases=RELEASES, today=_today())
        out = beside(path, folder)
        found.write(out, path.name)
        return f"{len(found)} proposed changes to deviations: {short(out)}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Sums the run up."""
        if self._row is not None:
            folder = self._settings.config.run_dir
            self._shown.summary(self._row, Facts(self._rows), folder, self._notes)
        if self.refused is not None:
            terminalreporter.line(f"ERROR: {self.refused[0]}", red=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes from a worker why the run is not to be."""
        refused = getattr(node, "workeroutput", {}).get("zenoh_refused")
        if refused is not None:
            self.refused = tuple(refused)


def _without_paths(words: Iterable[str]) -> Iterator[str]:
    """Yields what was typed; paths of this machine and a password have no place in the rows. The node is told as it is."""
    before = ""
    for word in words:
        node = before == "--node" or word.startswith("--node=")
        if before == "--user" or word.startswith("--user="):
            yield word.partition(":")[0]
        else:
            yield word if node else word.rstrip("/").rpartition("/")[2]
        before = word


def _today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()


def _unwritable(error: Exception) -> str:
    why = error.strerror if isinstance(error, OSError) and error.strerror else error
    return f"cannot write to the run folder: {why}; what was written so far is kept"


def deviations_of(settings: Settings) -> Deviations:
    """Returns the recorded deviations of a run.

    Raises:
        UsageError: The file is none.
    """
    path = settings.deviations
    if path is not None and settings.update_deviations and not path.exists():
        # The first proposals for a file that somebody is about to write.
        return Deviations((), path)
    return Deviations.load(path or SHIPPED)


def _report(row: VerdictRow, node: NodeFacts) -> pytest.TestReport:
    """Returns the report on a requirement that was judged by looking at all tests."""
    told = f"{row.outcome}: {row.test}\n  expected  {row.expected}\n      seen  {row.seen}\n    reason  {row.reason}"
    failed = row.outcome == "fail"
    report = pytest.TestReport(
        nodeid=row.test,
        location=(FOLDER, None, row.test),
        keywords={},
        outcome="failed" if failed else "skipped" if row.outcome == "n/a" else "passed",
        longrepr=f"{told}\n   capture  {row.capture}\n    repeat  {row.repeat}" if failed else None,
        when="call",
    )
    report.zenoh = {  # type: ignore[attr-defined]
        "verdict": dataclasses.asdict(row),
        "observations": [],
        "remarks": [],
        "node": dataclasses.asdict(node),
        "lost": "",
        "whole": False,
    }
    return report
