"""What a person sees: one line a test, and what was remarkable when all are done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from conformance.page.facts import Facts
from conformance.page.words import PASSIVE, title_of
from conformance.requirements import requirements
from conformance.running.marks import ids_of
from conformance.verdicts import short
from spark_reports.rows import OUTCOMES, RunRow, VerdictRow

LETTERS = {"pass": ".", "fail": "F", "warning": "w", "deviation": "d", "n/a": "-", "inconclusive": "?"}

COLOURS: dict[str, dict[str, bool]] = {
    "pass": {"green": True},
    "fail": {"red": True, "bold": True},
    "warning": {"yellow": True},
    "deviation": {"purple": True},
    "n/a": {"light": True},
    "inconclusive": {"cyan": True, "bold": True},
}

MOST_IDS = 2
"""Requirements that a line names; the rest is counted."""

MOST_REASONS = 12
"""Reasons for n/a that the summary lists."""

WORST_FIRST = ("fail", "inconclusive", "warning", "deviation")


class Shown:
    """Writes to the terminal, in the process that writes.

    Args:
        config: Of pytest.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._session: pytest.Session | None = None
        self._begun = False
        self._count = 0
        self._wordy = config.option.verbose > 0
        self.lost = ""

    @property
    def _terminal(self) -> Any:
        return self._config.pluginmanager.get_plugin("terminalreporter")

    @property
    def lines(self) -> bool:
        """One line a test; a letter under ``-q``."""
        return int(self._config.option.verbose) >= 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Remembers the session, which knows how many tests there are."""
        self._session = session

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begins when there are tests of the suite."""
        if any(map(ids_of, session.items)) and not self._config.option.collectonly:
            self.begin()

    def begin(self) -> None:
        """Has pytest leave the lines to us."""
        terminal = self._terminal
        if self._begun or terminal is None:
            return
        self._begun = True
        # Our own summary lists what failed.
        terminal.reportchars = "".join(char for char in terminal.reportchars if char not in "fsE")
        if not self.lines:
            return
        # No public switch says "no percentages": ours stand in front of each line.
        terminal._show_progress_info = False  # noqa: SLF001
        terminal.showfspath = False
        self._config.option.verbose = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        """Begins when a worker has found tests of the suite."""
        if any(name.startswith("test_") or "suite/test_" in name for name in ids):
            self.begin()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Calls the outcomes as the reports do; the line itself is ours."""
        result = getattr(report, "zenoh", None)
        if result is None:
            return None
        outcome = result["verdict"]["outcome"]
        category = {"pass": "passed", "fail": "failed"}.get(outcome, outcome)
        # What was judged in passing is no test that pytest has counted.
        letter = not (self.lines or self.lost or report.nodeid.startswith(PASSIVE))
        return category, LETTERS[outcome] if letter else "", ""

    def test(self, row: VerdictRow) -> None:
        """Writes the line of a test; of what was met in passing only under ``-v``."""
        passive = row.test.startswith(PASSIVE)
        terminal = self._terminal
        if terminal is None:
            return
        self.begin()
        if not self.lines or (passive and row.outcome in {"pass", "n/a"} and not self._wordy):
            return
        terminal.ensure_newline()
        terminal.write(self._percent(passive=passive))
        terminal.write(f" {row.outcome:<12}", **COLOURS[row.outcome])
        terminal.line(f" {_ids(row):<16}  {title_of(row)}")

    def _percent(self, *, passive: bool) -> str:
        if passive or self._session is None or not self._session.testscollected:
            return " " * 6
        self._count += 1
        return f"[{100 * self._count // self._session.testscollected:3d}%]"

    def lose(self, why: str) -> None:
        """Says once that there is no node; the tests that follow get no line."""
        self.lost = why
        if self._terminal is not None:
            self._terminal.ensure_newline()
            self._terminal.line(f"no node: {why}", red=True, bold=True)
            self._terminal.line("all remaining tests are inconclusive", red=True)

    # The end ------------------------------------------------------------------------------------------

    def summary(self, run: RunRow, facts: Facts, folder: Path, notes: Iterable[str]) -> None:
        """Lists what is remarkable, counts, and says where all of it is.

        Args:
            run: The run.
            facts: What came of it.
            folder: Of the run.
            notes: Further lines for the end.
        """
        out = self._terminal
        if out is None:
            return
        out.section(f"Zenoh conformance: {run.node_impl} {run.node_version}")
        for outcome in WORST_FIRST:
            self._group(outcome, [row for row in facts.rows if row.outcome == outcome])
        reasons = Counter(row.reason for row in facts.rows if row.outcome == "n/a")
        for reason, count in reasons.most_common(MOST_REASONS):
            out.line(f"n/a          {count:4d}  {reason}")
        if len(reasons) > MOST_REASONS:
            rest = sum(reasons.values()) - sum(count for _, count in reasons.most_common(MOST_REASONS))
            out.line(f"n/a          {rest:4d}  for {len(reasons) - MOST_REASONS} other reasons, see the page")
        passive = Counter(row.outcome for row in facts.rows if row.test.startswith(PASSIVE))
        if passive:
            told = ", ".join(f"{passive[name]} {name}" for name in OUTCOMES if passive[name])
            out.line(f"judged passively from all recorded traffic: {told}")
        counts = Counter(row.outcome for row in facts.rows)
        out.line("outcomes: " + ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name]))
        decided = ", ".join(f"{count} {name}" for name, count in facts.decided.items() if count)
        total = sum(facts.decided.values())
        out.line(
            f"requirements decided: {total} of {len(requirements())}" + (f" ({decided})" if decided else "")
        )
        out.line(f"seed {run.seed}; rows and captures: {short(folder)}")
        for note in notes:
            out.line(note)

    def _group(self, outcome: str, rows: list[VerdictRow]) -> None:
        out = self._terminal
        folded = Counter(row.reason for row in rows if row.outcome == "inconclusive")
        told: set[str] = set()
        for row in sorted(rows, key=lambda row: row.test):
            if folded[row.reason] > 3:
                if row.reason not in told:
                    told.add(row.reason)
                    out.line(f"{outcome:<12} {folded[row.reason]} tests: {row.reason}", **COLOURS[outcome])
                continue
            out.write(f"{outcome:<12}", **COLOURS[outcome])
            out.line(f" {', '.join(row.requirements)}  {row.test}")
            if row.expected:
                out.line(f"{'':<12} expected {row.expected}; seen {row.seen}")
            if row.reason:
                out.line(f"{'':<12} {row.reason}")
            if outcome == "inconclusive":
                out.line(f"{'':<12} {row.repeat}")


def _ids(row: VerdictRow) -> str:
    shown = " ".join(row.requirements[:MOST_IDS])
    more = len(row.requirements) - MOST_IDS
    return f"{shown} +{more}" if more > 0 else shown
