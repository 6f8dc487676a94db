"""A report in a few tables of Markdown: what the summary page of a pipeline shows."""

from collections import Counter
from collections.abc import Sequence

from spark_reports.folders import STATES
from spark_reports.pages.grid import ORDER
from spark_reports.pages.html_page import figure
from spark_reports.pages.page import Page, count
from spark_reports.pages.text import markdown, percent
from spark_reports.report import (
    FASTER,
    NA_EVERYWHERE,
    NEW_CHECK,
    NOT_COMPARABLE,
    NOT_SELECTED,
    SLOWER,
    UNCHANGED,
    CheckChange,
    Finding,
    FirstBad,
    Report,
    SetInfo,
    Trend,
)

_QUIET = {
    UNCHANGED: "unchanged",
    NOT_SELECTED: "not selected",
    NEW_CHECK: "new",
    NA_EVERYWHERE: "n/a everywhere",
    NOT_COMPARABLE: "",
}

LIMIT = 60_000
"""Bytes; platforms that show such summaries cut them off at about a million."""

ROWS = 50
"""So many rows of a table are shown."""

PAGE, WHOLE = "report.html", "report.json"
"""Where reasons are, and where the rest of long tables is."""


def summary(page: Page) -> str:
    """Returns the report as Markdown, at most ``LIMIT`` bytes and a line that says how much is left out."""
    report = page.report
    lines = [f"# {markdown(page.headline)}", "", f"{page.span}.", *_sets(report.sets), ""]
    lines += _section(
        "Gates",
        ["gate", "", "counted"],
        [[gate.name, "holds" if gate.ok else "FAILED", gate.text] for gate in report.gates],
    )
    loud = [change for change in report.changes if not _is_quiet(change)]
    several = len({change.key for change in loud}) > 1
    lines += _section(
        "What changed",
        ["", "requirement", "test", "failed, baseline", "failed, now", "seen"],
        [_change(change, several=several) for change in loud],
    )
    quiet = Counter(change.status for change in report.changes if _is_quiet(change))
    # Of runs that cannot be compared the runs are counted above, not every check of theirs.
    quiet.pop(NOT_COMPARABLE, None)
    if report.unchanged:
        quiet[UNCHANGED] += report.unchanged
    if quiet:
        counted = ", ".join(f"{number} {_QUIET[status]}" for status, number in quiet.items())
        lines += [f"{count(quiet.total(), 'other check')}: {counted}.", ""]
    lines += _section(
        "Findings",
        ["", "bucket", "cases", "campaigns", "first seen", "last seen", "smallest case"],
        [_finding(finding) for finding in report.findings],
    )
    lines += _section(
        "Flaky tests",
        ["test", "failed", "rate", "flips", "last change"],
        [
            [
                _test(flaky.test, flaky.transport),
                f"{flaky.failed} of {flaky.runs}",
                f"{percent(flaky.rate)} ({percent(flaky.low)} to {percent(flaky.high)})",
                str(flaky.flips),
                flaky.last_flip_run,
            ]
            for flaky in report.flaky
        ],
    )
    lines += _section(
        "No longer covered",
        ["kind", "name", "level", "last run with it", "why"],
        [[lost.kind, lost.name, lost.level, lost.last_run, lost.why] for lost in report.lost],
    )
    lines += _measured(report)
    rows = [[line.label, *(str(line.counts[name]) for name in ORDER)] for line in page.versions]
    lines += _section("Requirements by version", ["node", *ORDER], rows)
    lines += _section(
        "First failing version",
        ["requirement", "test", "good", "bad", "fixed in", "confidence"],
        _first_bad(report.first_bad),
    )
    lines += _section(
        "Differences between releases",
        ["requirement", "test", "since", "before", "then", "node"],
        [
            [
                row.requirement,
                row.test or "",
                row.first or "",
                row.before or "",
                row.after or "",
                row.node_impl,
            ]
            for row in report.differences
        ],
    )
    lines += _section(
        "Verdicts other than pass",
        ["outcome", "requirement", "expected", "seen", "node"],
        [
            [
                card.trouble.outcome,
                " ".join(card.trouble.requirements),
                card.trouble.expected or card.trouble.reason,
                card.trouble.seen,
                ", ".join(card.labels),
            ]
            for card in page.troubles
        ],
    )
    lines += _section(
        "Deviations no longer seen",
        ["requirement", "test", "node"],
        [[row.requirement, row.test, f"{row.node_impl} {row.node_version}"] for row in report.stale],
    )
    lines += _section(
        "Faulty nodes missed by every test",
        ["requirement", "detected", "not detected"],
        [
            [row.requirement, f"{row.killed} of {row.mutants}", ", ".join(row.alive)]
            for row in report.mutants
            if row.alive
        ],
    )
    lines += _section(
        "Incomplete runs",
        ["run", "state", "problem"],
        [
            [
                run.run_id,
                run.state,
                "; ".join([*run.notes, *([count(run.bad, "bad line")] if run.bad else [])])
                or STATES[run.state],
            ]
            for run in page.ailing
        ],
    )
    return _cap(lines)


def _sets(sets: SetInfo) -> list[str]:
    lines = ["", f"Compared: {markdown(sets.text)}."] if sets.text else []
    if apart := len(sets.not_comparable) + len(sets.unread):
        lines += ["", f"{count(apart, 'run')} not comparable; see {PAGE} for why."]
    return lines


def _is_quiet(change: CheckChange) -> bool:
    """Tells whether nobody has to look at a check; it is counted."""
    return change.status in _QUIET and not change.failed_c


def _change(change: CheckChange, *, several: bool) -> list[str]:
    test = _test(change.test, change.transport)
    return [
        f"{change.status}, in quarantine {change.quarantine}" if change.quarantine else change.status,
        " ".join(change.requirements),
        f"{test}, {change.key}" if several else test,
        f"{change.failed_b} of {change.runs_b}",
        f"{change.failed_c} of {change.runs_c}",
        change.seen,
    ]


def _finding(finding: Finding) -> list[str]:
    return [
        finding.status if not finding.known else f"{finding.status}, {finding.known}",
        finding.bucket,
        str(finding.cases),
        ", ".join(finding.campaigns),
        finding.first_run,
        finding.last_run,
        f"{finding.campaign} case {finding.case}, {count(finding.sent_bytes, 'byte')}",
    ]


def _measured(report: Report) -> list[str]:
    """Lists what drifted and counts the rest, which may be hundreds of values that nobody could judge."""
    trends = [trend for trend in report.trends if trend.points]
    drifted = [trend for trend in trends if trend.status in {SLOWER, FASTER}]
    head = ["", "what", "newest", "vs. baseline"]
    lines = _section("Measured", head, [_trend(trend, report.sets) for trend in drifted])
    rest = Counter(trend.status for trend in trends if trend.status not in {SLOWER, FASTER})
    if rest:
        counted = ", ".join(f"{number} {status}" for status, number in rest.items())
        what = "other measurement" if drifted else "measurement"
        lines += [f"{count(rest.total(), what)}: {counted}.", ""]
    return lines


def _first_bad(found: Sequence[FirstBad]) -> list[list[str]]:
    several = len({(row.environment, row.configuration) for row in found}) > 1
    return [
        [
            row.requirement,
            _test(row.test, row.transport) + (f", {row.environment}; {row.configuration}" if several else ""),
            row.good or "(none)",
            f"{row.bad}, {row.failed_bad} of {count(row.runs_bad, 'run')}",
            row.fixed or "not yet",
            percent(row.confidence if row.good else None),
        ]
        for row in found
    ]


def _trend(trend: Trend, sets: SetInfo) -> list[str]:
    judged = [point for point in trend.points if point.run_id in sets.candidate] or trend.points
    return [trend.status, trend.name, f"{figure(judged[-1].value)} {trend.unit}", trend.drift]


def _test(test: str, transport: str) -> str:
    return test if transport in {"", "tcp"} else f"{test} over {transport}"


def _section(title: str, head: list[str], rows: Sequence[list[str]]) -> list[str]:
    if not rows:
        return []
    shown = rows[:ROWS]
    more = [f"{len(rows) - len(shown)} more in {WHOLE}.", ""] if len(rows) > len(shown) else []
    return [f"## {title}", "", *_table(head, shown), *more]


def _table(head: list[str], rows: Sequence[list[str]]) -> list[str]:
    body = ["| " + " | ".join(markdown(cell) for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body, ""]


def _cap(lines: list[str]) -> str:
    text = "\n".join(lines).rstrip() + "\n"
    if len(text.encode()) <= LIMIT:
        return text
    kept, size = [], 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > LIMIT:
            break
        kept.append(line)
    return "\n".join([*kept, "", f"{len(lines) - len(kept)} more lines; see {WHOLE} for all of it."]) + "\n"
