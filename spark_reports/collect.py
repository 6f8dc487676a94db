"""Asks Spark for all that a report says: the only place that does.

What comes back is small: it grows with the number of runs, requirements and buckets, never with the number of cases.
What is known without Spark (which runs there are, how they ended, how many lines they have) comes from the records
of the store.
"""

import dataclasses
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_reports import folders, sets
from spark_reports.asking import MOST, Questions
from spark_reports.errors import DataTrouble, NothingToReport
from spark_reports.folders import RunFolder
from spark_reports.frames import (
    coverage,
    drift,
    findings,
    matrix,
    mutants,
    rates,
    regressions,
    statistics,
    versions,
)
from spark_reports.report import (
    CERTAINTIES,
    CHECK_STATUSES,
    FASTER,
    FINDING_STATUSES,
    NEW,
    REOPENED,
    SLOWER,
    STEADY,
    TOO_FEW,
    UNCHANGED,
    UNHELD,
    WRONG,
    AccountLine,
    BadLineShown,
    Cell,
    CheckChange,
    Compared,
    CoverageLine,
    Difference,
    Finding,
    FirstBad,
    Flaky,
    FoundPoint,
    Lost,
    MutantLine,
    NotApplicable,
    NotComparable,
    Rate,
    Report,
    RunLine,
    SetInfo,
    StaleDeviation,
    Trend,
    TrendPoint,
    Trouble,
)
from spark_reports.rows import FUZZ_VERDICTS, OUTCOMES, RUN, STALE
from spark_reports.sets import RunOfSet
from spark_reports.storage import tables
from spark_reports.storage.commits import Commit
from spark_reports.storage.store import APART
from spark_reports.storage.views import Views

if TYPE_CHECKING:
    from spark_reports.storage.gathering import Gathered

BAD_LINES_LIMIT = 50
"""Lines that are no rows are counted, all of them; so many are shown."""

INTERPRETED_ROWS = 30_000
"""Up to so many rows it takes longer to compile a query than to interpret it, if both have to be done for the first time."""

NAMES = 2_000
"""So many requirements are named in a question; of more, all are asked for."""

TEXT_LIMIT = 200
"""Characters of such a line that are shown."""

_Row = Mapping[str, Any]
_T = typing.TypeVar("_T")
_OF_RUNS = (
    *("run_id", "started_at", "kind", "node", "node_impl", "node_version", "node_whatami"),
    *("harness_version", "harness_commit", "environment", "configuration"),
)
"""What questions need to know of a run."""

_TROUBLE_ORDER = ("fail", "warning", "inconclusive", "deviation")

# What is asked for by name, as it is told and as ``left_out`` has it.
_RATES = "rates"
_REQUIREMENTS = "requirements"
_OUTCOMES = "outcomes of runs"
_RELEASES = "releases"
_FIRST_BAD = "first bad versions"
_TRAFFIC = "traffic"
_COVERAGE = "coverage"
_APART = "lines kept apart"
_CHANGES = "changes"
_STALE = "stale deviations"
_LOST = "lost requirements"
_LOST_PAIRS = "lost states and messages"
_MUTANTS = "mutants"
_FINDINGS = "findings"
_FOUND = "findings over time"
_TOLD = "what is known of findings"
_VALUES = "times, rates and benchmarks"
_DRIFTS = "drifts"
_VERDICTS = "verdicts"
_REASONS = "reasons"


def collect(
    views: Views,
    commits: Sequence[Commit],
    baseline: str,
    say: Callable[[str], None],
    *,
    duplicates: Sequence[RunFolder] = (),
    open_few: Callable[[Sequence[Commit]], Views] | None = None,
    interpreted: Views | None = None,
    near: "Gathered | None" = None,
) -> Report:
    """Returns a report.

    Args:
        views: The tables and rollups of the runs.
        commits: The records of the same runs.
        baseline: ``previous``, a run or a version; what it means: ``sets.baseline_of``.
        say: Told what is being asked, a few words each.
        duplicates: Folders that were left out because another holds the same run.
        open_few: Opens the views of some of the runs, for what only few of them are asked for; without it, rows of the
            others are passed over, which takes longer.
        interpreted: The same as ``views`` in a session that compiles nothing, for questions about few rows.
        near: The copies that ``views`` reads; what these have no row for is not asked, and of what only ever passed in the
            same runs, one stands for all.

    Raises:
        NothingToReport: No run has a row, and none ended in order without any.
        DataTrouble: The baseline is none of the runs.
    """
    check_not_empty(commits)
    has = {table for commit in commits for table in commit.tables}
    wrong = any(map(_is_wrong, commits))
    compared, resolved = compare(commits, baseline)
    of = _Sources(views, interpreted, commits, resolved, near)
    with Questions(say) as ask:
        _ask_about_runs(of, has, ask)
        _ask_what_changed(of, has, wrong, ask)
        _ask_about_cases(of, has, ask)
        cells = tuple(
            make(Cell, row, requirement=name)
            for row in ask.rows(_REQUIREMENTS)
            for (name,) in of.members("requirements", row["requirement"])
        )
        _ask_about_versions(of, cells, ask)
        newest = {cell.run_id for cell in cells if cell.outcome != "pass"}
        few = (
            None if open_few is None else open_few([commit for commit in commits if commit.run_id in newest])
        )
        _ask_why(of, few or views, newest, ask)
        if ask.rows(_VALUES):
            values = ask.table(_VALUES)
            drifts = of.rows(len(values))
            ask.add(
                _DRIFTS,
                lambda: drift.drifts(drifts.spark.createDataFrame(values).coalesce(1), drifts.sets),
                limit=MOST,
            )
        else:
            ask.skip(_DRIFTS)
        _ask_about_all(of, ask)
        return _report(ask, commits, compared, resolved, cells, _unchanged(of, ask), duplicates)


def compare(commits: Sequence[Commit], baseline: str) -> tuple[SetInfo, list[RunOfSet]]:
    """Returns what is compared with what, in words and run by run; needs no Spark.

    Raises:
        DataTrouble: The baseline is none of the runs.
    """
    readable = [commit for commit in commits if commit.state != folders.UNREADABLE]
    ahead = _ahead(readable)
    resolved = sets.resolve(
        (commit.run for commit in readable if commit.run_id not in ahead), _baseline(baseline, commits)
    )
    unread = (*ahead.values(), *_unread(commits, resolved), *_unplaced(resolved))
    complete = {commit.run_id for commit in readable if commit.state == folders.COMPLETE}
    left = sets.left_behind(resolved, complete)
    return dataclasses.replace(_compared(resolved, baseline, left), unread=unread), resolved


def _report(
    ask: Questions,
    commits: Sequence[Commit],
    compared: SetInfo,
    resolved: Sequence[RunOfSet],
    cells: Sequence[Cell],
    unchanged: int,
    duplicates: Sequence[RunFolder],
) -> Report:
    """Puts the answers together, all in an order of their own."""
    by_campaign = tuple(
        make(Rate, row, verdicts={name: row[name] for name in FUZZ_VERDICTS}) for row in ask.rows(_RATES)
    )
    age = {commit.run_id: (commit.started_at, commit.run_id) for commit in commits}
    troubles, reasons = _why(cells, ask)
    checks = ask.rows(_CHANGES)
    changed = [row for row in checks if row["status"] != UNCHANGED]
    outcomes = ask.rows(_OUTCOMES)
    covered = [make(CoverageLine, row) for row in ask.rows(_COVERAGE)]
    covered += [_covered(row) for row in outcomes]
    return Report(
        runs=_runs(commits, outcomes, ask.rows(_TRAFFIC), by_campaign, duplicates),
        cells=tuple(sorted(cells, key=lambda cell: (cell.node_impl, cell.node_version, cell.requirement))),
        changes=tuple(sorted((make(CheckChange, row) for row in changed), key=_change_order)),
        troubles=troubles,
        not_applicable=reasons,
        findings=_findings(ask),
        rates=tuple(sorted(by_campaign, key=lambda rate: (*age[rate.run_id], rate.campaign), reverse=True)),
        bad_lines=tuple(make(BadLineShown, row, problem=row["reason"]) for row in ask.rows(_APART)),
        differences=tuple(make(Difference, row) for row in ask.rows(_RELEASES)),
        sets=compared,
        unchanged=unchanged,
        flaky=tuple(sorted(_flaky(checks), key=lambda one: (-one.score, one.test, one.transport, one.key))),
        coverage=tuple(
            sorted(
                sorted(covered, key=lambda line: age[line.run_id], reverse=True), key=lambda line: line.kind
            )
        ),
        lost=tuple(make(Lost, row) for row in (*ask.rows(_LOST), *ask.rows(_LOST_PAIRS))),
        trends=_trends(ask, resolved),
        mutants=tuple(make(MutantLine, row) for row in ask.rows(_MUTANTS)),
        first_bad=tuple(
            sorted(
                (
                    make(FirstBad, row, requirement=" ".join(row["requirements"]))
                    for row in ask.rows(_FIRST_BAD)
                ),
                key=_first_bad_order,
            )
        ),
        stale=tuple(make(StaleDeviation, row) for row in ask.rows(_STALE)),
        found=tuple(
            sorted(
                (make(FoundPoint, row) for row in ask.rows(_FOUND)),
                key=lambda point: (point.node_impl, point.started_at, point.run_id),
            )
        ),
        accounts=tuple(_accounts(commits)),
        left_out=tuple(sorted(ask.left_out - {_APART})),
    )


def check_not_empty(commits: Sequence[Commit]) -> None:
    """Checks that there is anything to report.

    Raises:
        NothingToReport: No run has a row, and none ended in order without any.
    """
    ended = {folders.COMPLETE, folders.FAILED, folders.RUNNING}
    if any(
        commit.state in ended or any(account.good for account in commit.accounts.values())
        for commit in commits
    ):
        return
    first = next((note for commit in commits for note in commit.notes), "every line is damaged")
    raise NothingToReport(
        f"no readable rows in {_count(commits)}: {first}; "
        "record them again with `pytest conformance/ --node ...` or `zenoh-fuzz run`"
    )


def collect_differences(
    views: Views, commits: Sequence[Commit], say: Callable[[str], None]
) -> tuple[Difference, ...]:
    """Asks Spark what releases show differently; requirements that no release differs in are there as well.

    Raises:
        NothingToReport: No test was judged on a release whose version is known.
    """
    with Questions(say) as ask:
        runs = _well(_runs_of(commits, views.spark), commits)
        ask.add(_RELEASES, lambda: versions.first_differs(views.checks, runs), limit=MOST)
        found = ask.rows(_RELEASES)
    if not found:
        raise NothingToReport(
            "no verdicts on a node of known version; record some with `python -m conformance.matrix`, "
            "or set the version of your own node with --profile"
        )
    return tuple(make(Difference, row) for row in found)


# Questions ---------------------------------------------------------------------------------------------


class _Source:
    """What questions are asked of, in one session.

    Attributes:
        views: The tables.
        spark: Their session.
    """

    def __init__(self, views: Views, commits: Sequence[Commit], resolved: Sequence[RunOfSet]) -> None:
        self.views = views
        self.spark = views.spark
        self._commits = commits
        self._resolved = resolved

    @cached_property
    def runs(self) -> DataFrame:
        """The runs as the records have them, which saves opening a file for each."""
        return _runs_of(self._commits, self.spark)

    @cached_property
    def well(self) -> DataFrame:
        """The runs against nodes that are not wrong on purpose, unless there are no others, and not in the future."""
        ahead = _ahead(self._commits)
        runs = self.runs.where(~sf.col("run_id").isin(*ahead)) if ahead else self.runs
        return _well(runs, self._commits)

    @cached_property
    def sets(self) -> DataFrame:
        """What is compared with what."""
        return sets.frame(self.spark, self._resolved)

    @property
    def ended(self) -> DataFrame:
        """The same of runs that came to their end: what others did not notice they may not have come to."""
        complete = [commit.run_id for commit in self._commits if commit.state == folders.COMPLETE]
        return self.sets.where(sf.col("run_id").isin(*complete))

    @cached_property
    def held(self) -> DataFrame:
        """The rollup ``buckets`` by the names of the findings."""
        told = [commit for commit in self._commits if "findings" in commit.tables]
        if not told:
            return self.views.buckets
        complete = [commit.run_id for commit in told if commit.state == folders.COMPLETE]
        return findings.held(self.views.buckets, self.views.findings, complete)


class _Sources:
    """The same tables in one session that compiles queries and, if there is one, in another that interprets them.

    To compile what is asked of few rows takes longer than to go through them.
    """

    def __init__(
        self,
        views: Views,
        interpreted: Views | None,
        commits: Sequence[Commit],
        resolved: Sequence[RunOfSet],
        near: "Gathered | None" = None,
    ) -> None:
        self._commits = commits
        self._near = near
        self._compiled = _Source(views, commits, resolved)
        self._interpreted = self._compiled if interpreted is None else _Source(interpreted, commits, resolved)

    def rows(self, count: int) -> _Source:
        """Returns where to ask about so many rows."""
        return self._interpreted if count <= INTERPRETED_ROWS else self._compiled

    def tables(self, *names: str) -> _Source:
        """Returns where to ask about all rows of tables."""
        return self.rows(sum(map(self._count, names)))

    def changing(self, table: str) -> _Source:
        """Returns where to ask about what may have changed of a rollup."""
        return self.rows(self._count(table) if self._near is None else self._near.changing_rows(table))

    def members(self, table: str, *name: str) -> Sequence[tuple[str, ...]]:
        """Returns those for which one of an answer stands, itself among them."""
        return (self._near is not None and self._near.members(table, name)) or [name]

    def lacks(self, table: str, column: str, value: str) -> bool:
        """Whether it is known that no row of a table has a value."""
        return self._near is not None and self._near.lacks(table, column, value)

    def _count(self, table: str) -> int:
        if self._near is not None:
            return self._near.rows(table)
        return sum(commit.rows(table) for commit in self._commits)


def _runs_of(commits: Sequence[Commit], spark: SparkSession) -> DataFrame:
    """Returns the runs as the records have them, which saves opening a file for each."""
    import pyarrow as pa

    schema = pa.schema([field for field in tables.arrow_schema("runs") if field.name in _OF_RUNS])
    in_order = sorted((commit.run for commit in commits), key=lambda run: (run["started_at"], run["run_id"]))
    rows = [{"turn": turn, **{name: run[name] for name in _OF_RUNS}} for turn, run in enumerate(in_order, 1)]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema.append(pa.field("turn", pa.int64()))))


def _well(runs: DataFrame, commits: Sequence[Commit]) -> DataFrame:
    """Returns the runs against nodes that are not wrong on purpose, unless there are no others."""
    if all(map(_is_wrong, commits)):
        return runs
    return runs.where(~reduce(Column.__or__, (sf.col("node").startswith(prefix) for prefix in WRONG)))


def _is_wrong(commit: Commit) -> bool:
    return str(commit.run["node"]).startswith(WRONG)


def _ask_about_runs(of: _Sources, has: Collection[str], ask: Questions) -> None:
    """Asks what holds whatever is compared; first for what other questions wait for."""
    if "requirements" in has:
        shown, few = of.tables("requirements"), of.changing("requirements")
        ask.add(
            _REQUIREMENTS,
            lambda: matrix.outcomes_by_version(few.views.changing("requirements"), few.well),
            limit=MOST,
        )
    else:
        ask.skip(_REQUIREMENTS)
    if "case_outcomes" in has:
        cases = of.tables("case_outcomes")
        ask.add(_RATES, lambda: rates.rates_of_outcomes(cases.views.case_outcomes), limit=MOST)
    else:
        ask.skip(_RATES)
    if "requirements" in has:
        ask.add(_OUTCOMES, lambda: matrix.outcomes_by_run(shown.views.requirements), limit=MOST)
    else:
        ask.skip(_OUTCOMES)
    if "traffic" in has:
        sent = of.tables("traffic")
        columns = ("run_id", "sent", "received", "undecoded")
        ask.add(_TRAFFIC, lambda: sent.views.traffic.select(*columns), limit=MOST)
    else:
        ask.skip(_TRAFFIC)
    if "coverage" in has:
        met = of.tables("coverage")
        # What tests covered is in the outcomes of the runs.
        ask.add(
            _COVERAGE,
            lambda: coverage.coverage_by_run(met.views.requirements.where("false"), met.views.coverage),
            limit=MOST,
        )
    else:
        ask.skip(_COVERAGE)
    if APART in has:
        bad = of.tables(APART)
        text = sf.substring("text", 1, TEXT_LIMIT).alias("text")
        ask.add(
            _APART,
            lambda: bad.views.apart.select("run_id", "file", "line", "reason", text),
            limit=BAD_LINES_LIMIT,
            first=("run_id", "file", "line"),
        )
    else:
        ask.skip(_APART)


def _ask_what_changed(of: _Sources, has: Collection[str], wrong: bool, ask: Questions) -> None:
    """Asks what the candidate shows differently from the baseline."""
    if "requirements" in has:
        checks, shown = of.changing("checks"), of.changing("requirements")
        _ask_about_changes(lambda: checks.views.changing("checks"), checks, ask)
        if of.lacks("checks", "reason", STALE):
            ask.skip(_STALE)
        else:
            ask.add(
                _STALE, lambda: regressions.stale_deviations(checks.views.changing("checks"), checks.sets)
            )
        _ask_what_was_lost(of, lambda: shown.views.changing("requirements"), shown, ask)
    else:
        for name in (_CHANGES, _STALE, _LOST):
            ask.skip(name)
    if "coverage" in has:
        met = of.tables("coverage")
        ask.add(_LOST_PAIRS, lambda: coverage.lost_pairs(met.views.coverage, met.sets))
    else:
        ask.skip(_LOST_PAIRS)
    if wrong and "checks" in has:
        faulty = of.tables("checks")
        ask.add(
            _MUTANTS,
            lambda: mutants.killed_by_requirement(mutants.mutants(faulty.views.checks, faulty.ended)),
        )
    else:
        ask.skip(_MUTANTS)


def _ask_about_changes(checks: Callable[[], DataFrame], of: _Source, ask: Questions) -> None:
    """Asks what became of each check; to ask apart for those that are only counted would take as long as for all."""
    ask.add(
        _CHANGES,
        lambda: regressions.check_changes(checks(), of.sets),
        limit=MOST,
        first=("status", "test"),
    )


def _ask_what_was_lost(
    of: _Sources, requirements: Callable[[], DataFrame], shown: _Source, ask: Questions
) -> None:
    def lost() -> DataFrame:
        # Whatever shares a requirement with what is inconclusive has changed.
        clear = of.lacks("checks", "outcome", "inconclusive")
        return coverage.lost_requirements(
            requirements(), shown.sets, None if clear else shown.views.changing("checks")
        )

    ask.add(_LOST, lost)


def _ask_about_all(of: _Sources, ask: Questions) -> None:
    """Asks about all of a rollup again where one that stands for others has changed: they have, too."""
    if any(
        row["status"] != UNCHANGED and len(of.members("checks", row["test"], row["transport"])) > 1
        for row in ask.rows(_CHANGES)
    ):
        checks = of.tables("checks")
        _ask_about_changes(lambda: checks.views.checks, checks, ask)
    if any(len(of.members("requirements", row["name"])) > 1 for row in ask.rows(_LOST)):
        shown = of.tables("requirements")
        _ask_what_was_lost(of, lambda: shown.views.requirements, shown, ask)


def _unchanged(of: _Sources, ask: Questions) -> int:
    """Returns how many checks are unchanged."""
    ones = (row for row in ask.rows(_CHANGES) if row["status"] == UNCHANGED)
    return len(
        {(row["key"], *name) for row in ones for name in of.members("checks", row["test"], row["transport"])}
    )


def _ask_about_cases(of: _Sources, has: Collection[str], ask: Questions) -> None:
    """Asks for what was measured, of which drifts are asked then, and about findings; both need the rates."""
    for name in (_FINDINGS, _FOUND, _TOLD):
        ask.skip(name)
    played = ask.table(_RATES) if "case_outcomes" in has else None
    measured = {
        table: of_table
        for table, of_table in (
            ("case_times", drift.case_values),
            ("reply_times", drift.reply_values),
            ("benchmarks", drift.benchmark_values),
        )
        if table in has
    }
    timed = of.tables(*measured)

    def values() -> DataFrame:
        each = [of_table(timed.views.frame(table)) for table, of_table in measured.items()]
        if played is not None:
            each.append(drift.rate_values(timed.spark.createDataFrame(played)))
        return reduce(DataFrame.unionByName, each)

    if measured or played is not None:
        ask.add(_VALUES, values, limit=MOST)
    else:
        ask.skip(_VALUES)
    if played is not None:
        found = of.tables("buckets", "findings")
        outcomes = found.spark.createDataFrame(played).coalesce(1)
        ask.add(
            _FOUND,
            lambda: findings.distinct_over_time(found.held, outcomes, found.runs),
            limit=MOST,
        )
        if "buckets" in has or "findings" in has:
            ask.add(
                _FINDINGS,
                lambda: findings.bucket_changes(found.held, outcomes, found.sets),
                first=("status", "bucket", "node_impl"),
            )
    if "findings" in has:
        known = of.tables("findings")
        ask.add(_TOLD, lambda: findings.told(known.views.findings, known.sets), limit=MOST)


def _ask_about_versions(of: _Sources, cells: Sequence[Cell], ask: Questions) -> None:
    """Asks since when what differs; of requirements that every run has shown there is nothing to tell."""
    names = sorted({cell.requirement for cell in cells if cell.outcome != "pass" or cell.other})
    if not names:
        ask.skip(_RELEASES)
        ask.skip(_FIRST_BAD)
        return
    shown = of.changing("checks")

    def checks() -> DataFrame:
        changing = shown.views.changing("checks")
        if len(names) > NAMES:
            return changing
        without = sf.size("requirements") == 0 if matrix.NO_REQUIREMENT in names else sf.lit(False)
        return changing.where(sf.exists("requirements", lambda name: name.isin(names)) | without)

    ask.add(_RELEASES, lambda: versions.first_differs(checks(), shown.well).where("first IS NOT NULL"))
    ask.add(_FIRST_BAD, lambda: versions.first_bad(checks(), shown.well), first=("test",))


def _ask_why(of: _Sources, few: Views, newest: Collection[str], ask: Questions) -> None:
    """Asks for the verdicts of the runs that hold for a version: those that need an explanation, and why n/a."""
    if not newest:
        ask.skip(_VERDICTS)
        ask.skip(_REASONS)
        return
    of_newest = sf.col("run_id").isin(sorted(newest))
    # What is met although a deviation says otherwise is listed on its own.
    bad = of_newest & ~sf.col("outcome").isin("pass", "n/a") & (sf.col("reason") != STALE)
    names = (name for name in _names(Trouble) if name not in {"node_impl", "node_version", "run_id"})
    columns = ("run_id", *names)
    ask.add(_VERDICTS, lambda: few.verdicts.where(bad).select(*columns), first=("run_id", "test"))
    if of.lacks("checks", "outcome", "n/a"):
        ask.skip(_REASONS)
        return
    checks = of.changing("checks").views
    silent = of_newest & (sf.col("outcome") == "n/a")
    ask.add(
        _REASONS,
        lambda: (
            checks.changing("checks")
            .where(silent)
            .groupBy("run_id", "requirements", "reason")
            .agg(sf.count("*").alias("tests"))
        ),
        limit=MOST,
    )


# Answers -----------------------------------------------------------------------------------------------


def _baseline(asked: str, commits: Sequence[Commit]) -> sets.Baseline:
    return sets.baseline_of(asked, {commit.run_id for commit in commits})


def _compared(resolved: Sequence[RunOfSet], asked: str, left: Collection[str]) -> SetInfo:
    """Returns what is compared with what; ``left`` are the keys that were left behind.

    Raises:
        DataTrouble: The baseline was asked for by its name, and there is none of it.
    """
    by_key: dict[str, list[RunOfSet]] = {}
    for run in resolved:
        by_key.setdefault(run.key, []).append(run)
    if asked != sets.PREVIOUS and not any(run.set == sets.BASELINE for run in resolved):
        known = versions.nodes_in_order({run.node_version for run in resolved})
        raise DataTrouble(f"no run or version {asked}; the versions are {', '.join(known) or 'none'}")
    pairs, alone = [], []
    for key, runs in by_key.items():
        of_set = {name: [run for run in runs if run.set == name] for name in (sets.CANDIDATE, sets.BASELINE)}
        candidate, baseline = of_set[sets.CANDIDATE], of_set[sets.BASELINE]
        apart = [run for run in runs if run.set == sets.NOT_COMPARABLE and not run.mutant]
        if apart:
            why = f"{asked} ran with another environment or configuration, or on another node"
            alone += [NotComparable(run_id=run.run_id, why=why) for run in apart]
        if not candidate or runs[0].mutant:
            continue
        if not baseline and runs[0].others:
            why = "no earlier run of this node has the same environment and configuration"
            alone += [NotComparable(run_id=run.run_id, why=why) for run in candidate]
        pairs.append(
            Compared(
                key=key,
                node=f"{runs[0].node_impl} {runs[0].node_whatami}".strip(),
                candidate=tuple(run.run_id for run in candidate),
                baseline=tuple(run.run_id for run in baseline),
                candidate_version=_versions(candidate),
                baseline_version=_versions(baseline),
                selected_only=runs[0].selected_only,
                left_behind=key in left,
            )
        )
    with_both = [pair for pair in pairs if pair.baseline]
    warned = tuple(sets.cautions(resolved))
    return SetInfo(
        asked=asked,
        text="; ".join([_words(with_both), *warned]),
        pairs=tuple(pairs),
        not_comparable=tuple(alone),
        cautions=warned,
    )


def _ahead(commits: Sequence[Commit]) -> dict[str, NotComparable]:
    """Returns the runs that say that they began in the future, which would be the newest for years.

    None if all say so: then it is the clock of this machine that is wrong.
    """
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    ahead = {
        commit.run_id: NotComparable(
            run_id=commit.run_id,
            why=f"it began in the future ({commit.started_at}); correct started_at in its {RUN}",
        )
        for commit in commits
        if (commit.started_at or "") > tomorrow
    }
    return ahead if len(ahead) < len(commits) else {}


def _unread(commits: Sequence[Commit], resolved: Iterable[RunOfSet]) -> Iterator[NotComparable]:
    """Yields the runs that cannot be read and may be newer than all judged runs that recorded the same.

    Which node and configuration they had nobody knows; the files that they left tell whether it was the suite, a
    campaign or a benchmark. Where nothing tells when a run was, it was before it was taken into the store.
    """
    judged = {run.run_id for run in resolved if run.set == sets.CANDIDATE and not run.mutant}
    read = [commit for commit in commits if commit.run_id in judged]
    for commit in commits:
        if commit.state != folders.UNREADABLE:
            continue
        alike = [other for other in read if other.accounts.keys() & commit.accounts.keys()] or read
        newest = max((other.started_at for other in alike), default="")
        if (commit.started_at or commit.committed_at) > newest:
            why = next(iter(commit.notes), f"its {RUN} cannot be read")
            yield NotComparable(run_id=commit.run_id, why=why)


def _unplaced(resolved: Iterable[RunOfSet]) -> Iterator[NotComparable]:
    """Yields the runs of versions that have no place in an order and that are newer than all of their key that are judged.

    They stand in front of all that have one, so that what was built last would not be judged and nobody would notice.
    """
    by_key: dict[str, list[RunOfSet]] = {}
    for run in resolved:
        by_key.setdefault(run.key, []).append(run)
    for runs in by_key.values():
        judged = [run for run in runs if run.set == sets.CANDIDATE]
        if not judged or any(run.mutant or not sets.has_place(run) for run in judged):
            continue
        newest = max(run.started_at for run in judged)
        for run in runs:
            if run.set == sets.HISTORY and run.started_at > newest and not sets.has_place(run):
                why = f"{run.node_version} cannot be ordered among the versions; set one with --profile NAME:VERSION"
                yield NotComparable(run_id=run.run_id, why=why)


def _versions(runs: Iterable[RunOfSet]) -> str:
    return ", ".join(dict.fromkeys(run.node_version for run in sorted(runs, key=lambda run: run.place)))


def _words(pairs: Sequence[Compared]) -> str:
    if not pairs:
        return "nothing to compare with"
    if len(pairs) == 1:
        (pair,) = pairs
        one = f"{_count(pair.candidate)} on {pair.node} {pair.candidate_version}"
        return f"{one} with {_count(pair.baseline)} on {pair.baseline_version}"
    candidate, baseline = (
        _count([run for pair in pairs for run in getattr(pair, name)]) for name in ("candidate", "baseline")
    )
    return (
        f"{candidate} with {baseline}, in {len(pairs)} sets of the same node, environment and configuration"
    )


def _count(runs: Sequence[object]) -> str:
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}"


def _why(cells: Sequence[Cell], ask: Questions) -> tuple[tuple[Trouble, ...], tuple[NotApplicable, ...]]:
    """Returns what stands behind the cells: verdicts that need an explanation, and why tests could not show theirs."""
    behind = {(cell.run_id, cell.requirement) for cell in cells}
    version_of = {cell.run_id: (cell.node_impl, cell.node_version) for cell in cells}

    def counts(row: _Row) -> bool:
        return any(
            (row["run_id"], name) in behind for name in row["requirements"] or (matrix.NO_REQUIREMENT,)
        )

    troubles = []
    for row in filter(counts, ask.rows(_VERDICTS)):
        impl, version = version_of[row["run_id"]]
        troubles.append(make(Trouble, row, node_impl=impl, node_version=version))
    tests: dict[str, int] = {}
    for row in filter(counts, ask.rows(_REASONS)):
        tests[row["reason"]] = tests.get(row["reason"], 0) + row["tests"]
    commonest = sorted(tests.items(), key=lambda item: (-item[1], item[0]))
    return (
        tuple(sorted(troubles, key=_trouble_order)),
        tuple(NotApplicable(reason=reason, tests=number) for reason, number in commonest),
    )


def _runs(
    commits: Iterable[Commit],
    by_run: Iterable[_Row],
    traffic: Iterable[_Row],
    of_campaigns: Iterable[Rate],
    duplicates: Iterable[RunFolder],
) -> tuple[RunLine, ...]:
    outcomes = {row["run_id"]: row for row in by_run}
    batches = {row["run_id"]: row for row in traffic}
    found: dict[str, int] = {}
    for rate in of_campaigns:
        found[rate.run_id] = found.get(rate.run_id, 0) + rate.verdicts["finding"]
    none = dict.fromkeys(("sent", "received", "undecoded"), 0)
    lines = [
        make(
            RunLine,
            {**commit.run, **batches.get(commit.run_id, none)},
            run_id=commit.run_id,
            attempt=commit.attempt,
            state=commit.state,
            notes=commit.notes,
            outcomes={name: outcomes.get(commit.run_id, {}).get(name, 0) for name in OUTCOMES},
            rows={name: account.good for name, account in sorted(commit.accounts.items())},
            bad=sum(account.apart for account in commit.accounts.values()),
            findings=found.get(commit.run_id, 0),
        )
        for commit in commits
    ]
    lines += [
        make(
            RunLine,
            {**dataclasses.asdict(folder.run), **none},
            state=folders.DUPLICATE,
            notes=tuple(folders.judge(folder, {})[1]),
            outcomes=dict.fromkeys(OUTCOMES, 0),
            rows={},
            bad=0,
            findings=0,
        )
        for folder in duplicates
    ]
    return tuple(sorted(lines, key=lambda run: (run.started_at, run.run_id), reverse=True))


def _findings(ask: Questions) -> tuple[Finding, ...]:
    told = {(row["bucket"], row["node_impl"]): row for row in ask.rows(_TOLD)}
    none = {"confirmed": UNHELD}

    def learned(row: _Row) -> _Row:
        said = told.get((row["bucket"], row["node_impl"]), {"ours": False})
        # Whether it is true on the version that is judged, and known there, no other one can say.
        return {} if row["status"] in {NEW, REOPENED} and not said["ours"] else said

    found = [
        make(
            Finding,
            {**row, **learned(row), **(none if row["unheld"] else {})},
            by_run=dict(row["by_run"]),
            folders=dict(row["folders"]),
            versions=tuple(versions.nodes_in_order(row["versions"])),
        )
        for row in ask.rows(_FINDINGS)
    ]
    order = FINDING_STATUSES.index
    return tuple(sorted(found, key=lambda one: (order(one.status), -one.cases, one.bucket, one.node_impl)))


def _trends(ask: Questions, resolved: Iterable[RunOfSet]) -> tuple[Trend, ...]:
    """Returns what was measured in each key over time, with what the comparison says of it."""
    run_of = {run.run_id: (run, dataclasses.asdict(run)) for run in resolved if not run.mutant}
    points: dict[tuple[str, str, str, str], list[TrendPoint]] = {}
    for row in ask.rows(_VALUES):
        if found := run_of.get(row["run_id"]):
            run, values = found
            point = make(TrendPoint, {**values, **row}, version=run.node_version)
            points.setdefault((run.key, row["name"], row["unit"], row["better"]), []).append(point)
    drifts = {(row["key"], row["name"], row["unit"], row["better"]): row for row in ask.rows(_DRIFTS)}
    trends = []
    for names, mine in points.items():
        key, name, unit, better = names
        told = drifts.get(names)
        trends.append(
            Trend(
                key=key,
                name=name,
                unit=unit,
                better=better,
                points=tuple(sorted(mine, key=lambda point: (point.started_at, point.run_id))),
                drift="" if told is None else _drift(told),
                status=TOO_FEW if told is None else told["status"],
                change=None if told is None else told["change"],
            )
        )
    order = (SLOWER, FASTER, STEADY, TOO_FEW)
    return tuple(sorted(trends, key=lambda one: (order.index(one.status), one.name, one.key)))


def _drift(told: _Row) -> str:
    runs = f"{told['runs_c']} against {told['runs_b']} run{'' if told['runs_b'] == 1 else 's'}"
    change = told["change"]
    # There is no percentage of nothing.
    words = f"{'from or to 0' if change is None else f'{100 * change:+.1f} %'} at the median, {runs}"
    return words if told["q"] is None else f"{words}, q {told['q']:.2g}"


def _flaky(checks: Iterable[_Row]) -> Iterator[Flaky]:
    for row in checks:
        if row["flips"]:
            low, high = statistics.wilson(row["recent_failed"], row["recent_runs"])
            yield make(
                Flaky,
                row,
                runs=row["recent_runs"],
                failed=row["recent_failed"],
                rate=row["recent_failed"] / row["recent_runs"],
                low=low,
                high=high,
                history=tuple((run["run_id"], run["outcome"]) for run in row["history"]),
            )


def _covered(row: _Row) -> CoverageLine:
    """Returns how many of the requirements that its tests name a run could judge."""
    planned = sum(row[name] for name in OUTCOMES)
    return CoverageLine(
        run_id=row["run_id"],
        kind=coverage.REQUIREMENT,
        tried=planned - row["n/a"] - row["inconclusive"],
        planned=planned,
        cases=row["tests"],
    )


def _accounts(commits: Iterable[Commit]) -> Iterable[AccountLine]:
    for commit in sorted(commits, key=lambda commit: commit.run_id):
        for name, account in sorted(commit.accounts.items()):
            counts = {kind: getattr(account, kind) for kind in ("lines", "good", "apart", "blank", "footers")}
            yield AccountLine(run_id=commit.run_id, file=name, **counts)


def _change_order(change: CheckChange) -> tuple[int, int, int, str, str, str]:
    """Orders by how urgent it is, how certain, and how strict the requirement."""
    sure = CERTAINTIES.index(change.certainty)
    strict = matrix.LEVELS.index(change.level) if change.level in matrix.LEVELS else len(matrix.LEVELS)
    return CHECK_STATUSES.index(change.status), sure, strict, change.key, change.test, change.transport


def _first_bad_order(row: FirstBad) -> tuple[bool, bool, str, str, str, str, str]:
    """Orders what says most first: between which versions it began, and that it still fails."""
    place = (row.environment, row.configuration)
    return not row.good, row.fixed != "", row.requirement, row.test, row.transport, *place


def _trouble_order(trouble: Trouble) -> int:
    known = trouble.outcome in _TROUBLE_ORDER
    return _TROUBLE_ORDER.index(trouble.outcome) if known else len(_TROUBLE_ORDER)


def make(kind: type[_T], row: _Row, **more: Any) -> _T:
    """Makes a part of a report of the columns that are named like its fields."""
    return kind(**{**{name: row[name] for name in _names(kind) if name in row}, **more})


def _names(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(typing.cast("Any", kind))]
