"""Everything a report says, as plain values: what ``render`` turns into a page and ``report.json`` holds.

``collect`` is the only place where Spark is asked for results. What comes back is small: it grows with
the number of runs, requirements and buckets, never with the number of cases.
"""

import math
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_reports import findings, folders, load, matrix, rates, versions
from spark_reports.errors import NothingToReport
from spark_reports.folders import Counted, RunFolder
from spark_reports.rows import FUZZ_VERDICTS, OUTCOMES, RunRow

REPORT_VERSION = 1
"""Version of ``report.json``; raised when a field goes away or changes its meaning."""

LIMIT = 5_000
"""At most so many rows of one kind leave Spark; the report says when there were more."""

BAD_LINES_LIMIT = 50
"""Bad lines are counted, all of them; so many are shown."""

NEW = "new"
KNOWN = "known"
GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run: what it was, how it ended, what it showed.

    Attributes:
        state: One of ``folders.STATES``.
        notes: What is wrong with it, one sentence each.
        outcomes: Number of requirements by outcome.
        rows: Number of rows by file.
        bad: Number of lines that are no rows.
        sent: Batches sent by its tests; ``received`` and ``undecoded`` likewise.
        findings: Number of fuzz cases that an oracle objected to.
    """

    run_id: str
    started_at: str
    ended_at: str | None
    kind: str
    node: str
    node_impl: str
    node_version: str
    node_whatami: str
    harness_version: str
    python: str
    platform: str
    seed: int
    command: str
    state: str
    notes: tuple[str, ...]
    outcomes: Mapping[str, int]
    rows: Mapping[str, int]
    bad: int
    sent: int
    received: int
    undecoded: int
    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The newest outcome of a requirement for a node version; see ``matrix.outcomes_by_version``."""

    node_impl: str
    node_version: str
    requirement: str
    area: str
    level: str
    outcome: str
    run_id: str
    runs: int
    other: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A requirement that the newest run of a node shows differently; see ``matrix.changes``."""

    node: str
    requirement: str
    level: str
    before: str
    after: str
    before_run: str
    after_run: str
    before_version: str
    after_version: str

    @property
    def direction(self) -> str:
        """Whether the change is for the ``better`` or the ``worse``, or neither (``other``)."""
        bad = ("fail", "warning", "deviation")
        if self.after in bad and (self.before not in bad or bad.index(self.after) < bad.index(self.before)):
            return "worse"
        return "better" if self.before in bad and self.after not in {"n/a", "inconclusive"} else "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A requirement that releases of an implementation show differently; see ``versions.first_differs``.

    ``first``, ``test``, ``before`` and ``after`` are None where no release differs from the one before it.
    """

    node_impl: str
    requirement: str
    level: str
    oldest: str
    newest: str
    versions: int
    first: str | None
    test: str | None
    before: str | None
    after: str | None
    differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A verdict that needs an explanation; see ``matrix.troubles``."""

    outcome: str
    test: str
    requirements: tuple[str, ...]
    level: str
    node_impl: str
    node_version: str
    run_id: str
    expected: str
    seen: str
    reason: str
    stimulus: str
    capture: str
    repeat: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """Why tests could not show their requirement, and how many."""

    reason: str
    tests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A bucket, with its smallest case; see ``findings.buckets``.

    Attributes:
        status: ``new`` if the newest run that looked is the first to see it, ``gone`` if that run did not
            see it, ``known`` otherwise. A run looked if it ran one of the campaigns of the bucket
            against a node (``--node``) that has shown it.
    """

    bucket: str
    cases: int
    runs: int
    first_run: str
    last_run: str
    campaigns: tuple[str, ...]
    fields: tuple[str, ...]
    states: tuple[str, ...]
    oracles: tuple[str, ...]
    versions: tuple[str, ...]
    run_id: str
    campaign: str
    case: int
    sent_bytes: int
    sent_hex: str
    message: str
    field: str
    mutation: str
    state: str
    reply: str
    detail: str
    capture: str
    seed: int
    by_run: Mapping[str, int]
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A campaign in a run; see ``rates.campaign_rates``."""

    run_id: str
    campaign: str
    cases: int
    seconds: float | None
    cases_per_s: float | None
    node_starts: int
    verdicts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLineShown:
    """A line that is no row."""

    run_id: str
    file: str
    problem: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that a report says.

    Attributes:
        runs: Newest first; duplicates and unreadable ones included.
        cells: By node version, then requirement.
        changes: By direction, worse first.
        troubles: Fails first.
        not_applicable: Commonest reason first.
        findings: New ones first, then by number of cases.
        rates: By campaign, then run, newest first.
        bad_lines: The first few of them.
        left_out: How many kinds of rows were more than ``LIMIT``: their names.
        differences: By implementation, then requirement; those that no release differs in are left out.
    """

    runs: tuple[RunLine, ...]
    cells: tuple[Cell, ...]
    changes: tuple[Change, ...]
    troubles: tuple[Trouble, ...]
    not_applicable: tuple[NotApplicable, ...]
    findings: tuple[Finding, ...]
    rates: tuple[Rate, ...]
    bad_lines: tuple[BadLineShown, ...]
    left_out: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    report_version: int = REPORT_VERSION


class Fetcher:
    """Brings rows out of Spark, in order, and remembers of what there were more than it brought.

    Attributes:
        left_out: Names of what was cut at a limit.
    """

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def __call__(
        self, frame: DataFrame, *order: str | Column, what: str = "", limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Returns the rows of a frame as dictionaries; ``what`` names them if they may be too many."""
        ordered = frame.orderBy(*order)
        found = (ordered if limit is None else ordered.limit(limit + 1)).collect()
        if limit is not None and len(found) > limit:
            self.left_out.append(what)
        return [_plain(row.asDict(recursive=True)) for row in found[:limit]]


def collect(tables: load.Tables, run_folders: Sequence[RunFolder], say: Callable[[str], None]) -> Report:
    """Asks Spark for everything a report says.

    Args:
        tables: The rows.
        run_folders: The folders they come from, duplicates included.
        say: Told what is being done, a few words each.

    Raises:
        NothingToReport: Not one row can be read, and no run ended in order without any.
    """
    fetch = Fetcher()
    say("counting rows")
    judged = _judge(run_folders, fetch(load.accounts(tables.lines), "run_id", "file"))
    bad = []
    if any(run.bad for run in judged):
        lines = load.bad_lines(tables.lines)
        bad = fetch(lines, "run_id", "file", "problem", "text", what="bad lines", limit=BAD_LINES_LIMIT)

    say("requirements")
    outcomes = matrix.requirement_outcomes(tables.verdicts).persist()
    by_run = fetch(matrix.outcomes_by_run(outcomes), "run_id")
    by_version = matrix.outcomes_by_version(outcomes, tables.runs)
    cells = fetch(by_version, "node_impl", "node_version", "requirement")
    changes = fetch(matrix.changes(outcomes, tables.runs), "node", "requirement")
    outcomes.unpersist()
    newest = matrix.newest_verdicts(tables.verdicts, tables.runs).where("outcome <> 'pass'").persist()
    in_order = ("test", "run_id", "outcome", "expected", "seen")
    troubles = fetch(matrix.troubles(newest), *in_order, what="verdicts", limit=LIMIT)
    reasons = fetch(matrix.not_applicable(newest), "reason", what="reasons", limit=LIMIT)
    newest.unpersist()

    say("releases")
    differing = versions.first_differs(tables.verdicts, tables.runs).where("first IS NOT NULL")
    differences = fetch(differing, "node_impl", "requirement", what="differences", limit=LIMIT)

    say("findings")
    found = findings.only_findings(tables.cases).persist()
    most_first = (sf.desc("cases"), "bucket")
    buckets = fetch(findings.buckets(found, tables.runs), *most_first, what="findings", limit=LIMIT)
    per_run = findings.buckets_by_run(found)
    by_bucket = fetch(per_run, *most_first, "run_id", what="findings of runs", limit=20 * LIMIT)
    found.unpersist()

    say("rates")
    per_campaign = fetch(rates.campaign_rates(tables.cases), "campaign", "run_id")
    traffic = fetch(rates.traffic(tables.observations), "run_id")

    run_of = {folder.run.run_id: folder.run for folder in run_folders if folder.duplicate_of is None}
    of_campaigns = [
        _build(Rate, row, verdicts={name: row[name] for name in FUZZ_VERDICTS}) for row in per_campaign
    ]
    return Report(
        runs=_runs(judged, by_run, traffic, of_campaigns),
        cells=tuple(_build(Cell, row) for row in cells),
        changes=tuple(sorted((_build(Change, row) for row in changes), key=_change_order)),
        troubles=tuple(sorted((_build(Trouble, row) for row in troubles), key=_trouble_order)),
        not_applicable=tuple(
            sorted((_build(NotApplicable, row) for row in reasons), key=lambda row: (-row.tests, row.reason))
        ),
        findings=_findings(buckets, by_bucket, of_campaigns, run_of),
        rates=tuple(sorted(of_campaigns, key=lambda rate: _age(run_of[rate.run_id]), reverse=True)),
        bad_lines=tuple(_build(BadLineShown, row) for row in bad),
        left_out=tuple(sorted(set(fetch.left_out) - {"bad lines"})),
        differences=tuple(_build(Difference, row) for row in differences),
    )


def collect_differences(tables: load.Tables) -> tuple[Difference, ...]:
    """Asks Spark what releases show differently; requirements that no release differs in are there as well.

    Raises:
        NothingToReport: No test was judged on a release whose version is known.
    """
    fetch = Fetcher()
    found = fetch(versions.first_differs(tables.verdicts, tables.runs), "node_impl", "requirement")
    if not found:
        raise NothingToReport(
            "no verdict on a node whose version is known; record some with `python -m conformance.matrix`, "
            "or name the version of a node of yours with --profile"
        )
    return tuple(_build(Difference, row) for row in found)


_TROUBLE_ORDER = ("fail", "warning", "inconclusive", "deviation")
_DIRECTIONS = ("worse", "other", "better")


@dataclass(frozen=True, slots=True)
class _Judged:
    """A run folder, what was counted in its files, and the judgement on both."""

    folder: RunFolder
    counted: Mapping[str, Counted]
    state: str
    notes: Sequence[str]

    @property
    def bad(self) -> int:
        return sum(count.bad for count in self.counted.values())


def _judge(run_folders: Sequence[RunFolder], counted: Iterable[Mapping[str, Any]]) -> list[_Judged]:
    files: dict[str, dict[str, Counted]] = {}
    for row in counted:
        files.setdefault(row["run_id"], {})[row["file"]] = Counted(row["rows"], row["bad"])
    judged = []
    for folder in run_folders:
        # A duplicate bears the name of the run that is counted, whose numbers are not its own.
        mine = files.get(folder.run.run_id, {}) if folder.duplicate_of is None else {}
        judged.append(_Judged(folder, mine, *folders.judge(folder, mine)))
    usable = {folders.COMPLETE, folders.FAILED, folders.RUNNING}
    if not any(run.state in usable or any(count.rows for count in run.counted.values()) for run in judged):
        first = next((note for run in judged for note in run.notes), "every line is damaged")
        raise NothingToReport(
            f"no row can be read in any of {len(judged)} run folders: {first}; "
            "record them again with `pytest conformance/ --node ...` or `zenoh-fuzz run`"
        )
    return judged


def _runs(
    judged: Iterable[_Judged],
    by_run: Iterable[Mapping[str, Any]],
    traffic: Iterable[Mapping[str, Any]],
    of_campaigns: Iterable[Rate],
) -> tuple[RunLine, ...]:
    outcomes = {row["run_id"]: row for row in by_run}
    batches = {row["run_id"]: row for row in traffic}
    found: dict[str, int] = {}
    for rate in of_campaigns:
        found[rate.run_id] = found.get(rate.run_id, 0) + rate.verdicts["finding"]
    lines = []
    for one in judged:
        run = one.folder.run
        run_id = run.run_id if one.folder.duplicate_of is None else ""
        line = {name: getattr(run, name) for name in _names(RunLine) if hasattr(run, name)}
        line |= {name: batches.get(run_id, {}).get(name, 0) for name in ("sent", "received", "undecoded")}
        lines.append(
            _build(
                RunLine,
                line,
                state=one.state,
                notes=tuple(one.notes),
                outcomes={name: outcomes.get(run_id, {}).get(name, 0) for name in OUTCOMES},
                rows={name: count.rows for name, count in sorted(one.counted.items())},
                bad=one.bad,
                findings=found.get(run_id, 0),
            )
        )
    return tuple(sorted(lines, key=_age, reverse=True))


def _age(run: RunRow | RunLine) -> tuple[str, str]:
    """Sorts runs, oldest first."""
    return run.started_at, run.run_id


def _findings(
    buckets: Iterable[Mapping[str, Any]],
    by_bucket: Iterable[Mapping[str, Any]],
    of_campaigns: Iterable[Rate],
    run_of: Mapping[str, RunRow],
) -> tuple[Finding, ...]:
    counts: dict[str, dict[str, int]] = {}
    for row in by_bucket:
        counts.setdefault(row["bucket"], {})[row["run_id"]] = row["cases"]
    runs_of: dict[str, set[str]] = {}
    for rate in of_campaigns:
        runs_of.setdefault(rate.campaign, set()).add(rate.run_id)
    result = []
    for row in buckets:
        mine = counts.get(row["bucket"], {})
        nodes = {run_of[run_id].node for run_id in mine}
        looked = {run_id for campaign in row["campaigns"] for run_id in runs_of.get(campaign, ())}
        looked = {run_id for run_id in looked if run_of[run_id].node in nodes} | {row["last_run"]}
        newest = max(looked, key=lambda run_id: _age(run_of[run_id]))
        status = NEW if row["first_run"] == newest else KNOWN if row["last_run"] == newest else GONE
        result.append(_build(Finding, row, by_run=mine, status=status))
    order = (NEW, KNOWN, GONE)
    return tuple(
        sorted(result, key=lambda finding: (order.index(finding.status), -finding.cases, finding.bucket))
    )


def _change_order(change: Change) -> int:
    return _DIRECTIONS.index(change.direction)


def _trouble_order(trouble: Trouble) -> int:
    known = trouble.outcome in _TROUBLE_ORDER
    return _TROUBLE_ORDER.index(trouble.outcome) if known else len(_TROUBLE_ORDER)


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


_T = typing.TypeVar("_T")


def _build(kind: type[_T], row: Mapping[str, Any], **more: Any) -> _T:
    """Makes a value of the columns that are named like its fields."""
    named = {name: row[name] for name in _names(kind) if name in row}
    return kind(**{**named, **more})


def _plain(value: Any) -> Any:
    """Makes lists tuples, and numbers that JSON does not have None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value
