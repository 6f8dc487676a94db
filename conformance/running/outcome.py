"""From a test to its outcome: canary before and after, judgement, rows, capture, words for people."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import Inconclusive, NotApplicable
from conformance.passive import look
from conformance.recorder import CaptureWriter, NodeFacts, observation_rows
from conformance.requirements import strictest
from conformance.running.explaining import explain
from conformance.running.marks import ids_of, test_id, transport_of
from conformance.running.repeating import command
from conformance.running.run import Run, harmed, pending_key, run_key, testers_key
from conformance.tester import Tester
from conformance.verdicts import Judged, compare, judge
from spark_reports.rows import CAPTURES, STALE, ObservationRow, VerdictRow, as_dict

result_key = pytest.StashKey[dict[str, Any]]()
started_key = pytest.StashKey[int]()

WELL = "the node stays well"
"""What every test expects of the node, besides what it is about."""

MOST_GIVEN_UP = 2
"""Reasons of a failure for which our end gave up sessions; the capture has all."""


class Outcomes:
    """The hooks around each test, in the process that runs it."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Looks whether the node is well; whatever goes wrong from here on is judged, not an error of pytest."""
        if not ids_of(item):
            return (yield)
        item.stash[started_key] = time.time_ns()
        run = item.config.stash[run_key]
        if why := run.settings.profile.why_not(test_id(item), ids_of(item)):
            item.stash[pending_key] = NotApplicable(why)
        elif run.lost:
            item.stash[pending_key] = Inconclusive(run.lost)
        elif problem := run.problem():
            item.stash[pending_key] = Inconclusive(f"the node was not well before the test: {problem}")
        try:
            return (yield)
        except Exception as error:  # noqa: BLE001  (raised again in place of the test)
            item.stash.setdefault(pending_key, error)
            return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> None:
        """Raises why a test cannot be run, in its place."""
        if pending_key in pyfuncitem.stash:
            raise pyfuncitem.stash[pending_key]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Judges a test by what it raised, and by how the node is afterwards."""
        ids = ids_of(item)
        if not ids:
            return (yield)
        run = item.config.stash[run_key]
        raised: Exception | None = None
        try:
            yield
        except Exception as error:  # noqa: BLE001  (what is no judgement is raised again below)
            raised = error
        judged, harm = judge(raised), ""
        if pending_key not in item.stash:
            made: list[Tester] = item.stash.get(testers_key, [])
            problem = run.problem(made)
            harm = problem or harmed(item)
            _look_after(judged, harm, run.last_words if problem else "")
        compare(
            judged,
            ids,
            test_id(item),
            (run.node.impl, run.node.version),
            strict_should=run.settings.config.strict_should,
            transport=transport_of(item) or "tcp",
            deviations=run.deviations,
        )
        testers = item.stash.get(testers_key, [])
        _tell_who_ended(judged, testers)
        if not harm:
            _excuse(judged, testers)
        row, seen = _record(run, _verdict_row(run, item, judged, testers), testers)
        item.stash[result_key] = {
            "verdict": _sendable(row),
            "observations": [_sendable(one) for one in seen],
            "remarks": [_sendable(remark) for made in testers for remark in look(made.history)],
            "node": as_dict(NodeFacts.of(run.node)),
            "lost": run.lost,
            "whole": run.whole,
        }
        if raised is not None and judged.bug:
            raise raised
        if row.outcome == "n/a":
            pytest.skip(encodable(row.reason))
        if row.outcome in {"fail", "inconclusive"}:
            pytest.fail(encodable(explain(row, judged, run, testers)), pytrace=False)
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attaches verdict and observations to the report, which travels to the process that writes."""
        report = yield
        result = item.stash.get(result_key, None)
        if result is not None and call.when == "call":
            report.zenoh = result  # type: ignore[attr-defined]
        return report


def shows_harm(item: pytest.Item) -> bool:
    """Tells, behind a test, whether a node that it shared with others is not to be trusted any more.

    True of each test that did not end as it should: what was met once need not be met in all tests behind it.
    """
    result = item.stash.get(result_key, None)
    return result is None or result["verdict"]["outcome"] in {"fail", "inconclusive"}


CONTROLS = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\n\t"
}
"""What steers a terminal, or turns the direction of writing, and what is shown instead."""


def encodable(text: str) -> str:
    """Returns a text that may stand anywhere: without what steers a terminal, and without halves of surrogate pairs."""
    return text.translate(CONTROLS).encode("utf-8", "backslashreplace").decode("utf-8")


def _sendable(row: object) -> dict[str, Any]:
    """Returns a row that can travel to the process that writes, whatever a node has said; each text in one line."""
    return {
        name: encodable(value).replace("\n", "\\n") if isinstance(value, str) else value
        for name, value in as_dict(row).items()
    }


def _look_after(judged: Judged, problem: str, last_words: str) -> None:
    """Blames a test for the harm it did."""
    if problem and judged.outcome != "inconclusive":
        judged.outcome = "fail"
        judged.expected = judged.expected or WELL
        judged.seen = f"{judged.seen}; then {problem}" if judged.seen else problem
        judged.reason = last_words


def _tell_who_ended(judged: Judged, testers: list[Tester]) -> None:
    """Says which sessions our own end gave up, and why: an end of the link behind that is no fault of the node."""
    if judged.outcome not in {"fail", "warning"}:
        return
    given_up: dict[str, list[str]] = {}
    for made in testers:
        for link, why in made.history.given_up.items():
            given_up.setdefault(why, []).append(link)
    told = [f"our end gave up {', '.join(links)}: {why}" for why, links in given_up.items()]
    judged.reason = "; ".join(filter(None, [judged.reason, *told[:MOST_GIVEN_UP]]))


def _excuse(judged: Judged, testers: list[Tester]) -> None:
    """Blames no node for a session that our own end neglected for a whole lease, as on a machine that is too busy."""
    late = {link: seconds for made in testers for link, seconds in made.history.neglected.items()}
    if late and judged.outcome in {"fail", "warning"} and judged.reason != STALE:
        link, seconds = max(late.items(), key=lambda item: item[1])
        judged.outcome = "inconclusive"
        judged.reason = (
            f"our end was kept from sending anything in session {link} for a whole lease ({seconds:.1f} s)"
        )


def _verdict_row(run: Run, item: pytest.Item, judged: Judged, testers: list[Tester]) -> VerdictRow:
    test, config = test_id(item), run.settings.config
    started = item.stash[started_key]
    return VerdictRow(
        run_id=config.run_id,
        test=test,
        requirements=ids_of(item),
        level=strictest(ids_of(item)),
        outcome=judged.outcome,
        expected=judged.expected,
        seen=judged.seen,
        reason=judged.reason,
        stimulus=testers[-1].history.last_stimulus() if testers else "",
        duration_s=round((time.time_ns() - started) / 1e9, 6),
        started_ns=started,
        capture=_capture_of(run, judged.outcome, test, testers),
        repeat=command(item, run.settings),
        transport=transport_of(item),
    )


def _capture_of(run: Run, outcome: str, test: str, testers: list[Tester]) -> str:
    """Returns where the capture of a test stands below the run folder; empty when there is none."""
    kept = run.settings.captures
    if kept == "none" or (kept == "failed" and outcome in {"pass", "n/a"}):
        return ""
    if not any(made.history.observations for made in testers):
        return ""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", test.removeprefix("suite/")).strip("-")
    return f"{CAPTURES}/{name}.pcapng"


def _record(run: Run, row: VerdictRow, testers: list[Tester]) -> tuple[VerdictRow, list[ObservationRow]]:
    """Writes the capture of a test; returns its verdict, and the rows of what was seen."""
    config = run.settings.config
    rows: list[ObservationRow] = []
    for made in testers:
        rows += observation_rows(config.run_id, row.test, made.history, first=len(rows))
    if row.capture:
        title = f"{row.test} ({', '.join(row.requirements)})"
        verdict = f"verdict: {row.outcome}"
        if row.expected:
            verdict += f"; expected {row.expected}, seen {row.seen}"
        try:
            with CaptureWriter(config.run_dir / row.capture) as capture:
                for made in testers:
                    capture.add(made.history, title, [verdict])
        except OSError:
            # Whoever writes the rows will meet the same trouble, and says so.
            row = replace(row, capture="")
    return row, rows
