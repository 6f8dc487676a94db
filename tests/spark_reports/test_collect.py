import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_reports import collect as asking
from spark_reports import report, rows
from spark_reports.asking import Questions
from spark_reports.collect import check_not_empty, collect, collect_differences, compare
from spark_reports.engine.session import interpreting
from spark_reports.engine.settings import INTERPRETED
from spark_reports.errors import DataTrouble, NothingToReport
from spark_reports.folders import DUPLICATE, find_run_folders
from spark_reports.pages.page import make_page
from spark_reports.pages.render import to_json
from spark_reports.report import Report
from spark_reports.storage.gathering import Gathered
from spark_reports.storage.ingest import ingest
from spark_reports.storage.store import Account, Commit, Store
from spark_reports.storage.tables import SCHEMAS
from spark_reports.storage.views import Views, open_views
from tests.spark_reports.reports import example_report

MakeRun = Callable[..., Path]
Verdict = Callable[..., rows.VerdictRow]
Case = Callable[..., rows.FuzzCaseRow]

LAB = {"environment": "Linux 6.1", "configuration": "transport=tcp"}


def ask_only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Leaves all other questions unanswered: each takes Spark a moment."""
    every = Questions.add

    def add(self: Questions, name: str, *args: Any, **values: Any) -> None:
        if name in names:
            every(self, name, *args, **values)
        else:
            self.skip(name)

    monkeypatch.setattr(Questions, "add", add)


@pytest.fixture(scope="module")
def root(
    tmp_path_factory: pytest.TempPathFactory,
    make_run_in: MakeRun,
    verdict_row: Verdict,
    case_row: Case,
    observation_row: Callable[..., rows.ObservationRow],
) -> Path:
    """Runs of two versions, a run elsewhere, a mutant, and what may be wrong with runs."""
    root = tmp_path_factory.mktemp("runs")
    steady, broken = verdict_row(test="steady"), verdict_row("fail", ["ZN-INIT-002"], test="broken")
    whole = verdict_row("pass", ["ZN-INIT-002"], test="broken")
    silent = verdict_row("n/a", ["ZN-INIT-003"], test="silent", reason="no multicast")
    for day in range(1, 6):
        make_run_in(
            root,
            f"old{day}",
            day,
            verdicts=[steady, whole, silent],
            cases=[case_row(1, "both"), case_row(2, "gone" if day == 1 else "")],
            node_version="1.9.0",
            **LAB,
        )
    make_run_in(
        root,
        "new",
        6,
        verdicts=[steady, broken, silent],
        cases=[case_row(1, "both"), case_row(2, "fresh")],
        observations=[observation_row("sent"), observation_row("received", error="Truncated")],
        **LAB,
    )
    make_run_in(root, "elsewhere", 7, verdicts=[steady], cases=None, environment="Windows", configuration="")
    make_run_in(
        root,
        "mutant",
        8,
        verdicts=[verdict_row("fail", ["ZN-INIT-001"])],
        cases=None,
        node="ref:ZN-INIT-001",
        node_impl="zenoh-harness-refnode",
        kind="conformance",
    )
    cut = make_run_in(root, "cut", 5, verdicts=[steady, whole], cases=None, node_version="1.9.0", **LAB)
    (cut / rows.VERDICTS).write_bytes((cut / rows.VERDICTS).read_bytes()[:-60])
    lost = make_run_in(root, "lost", verdicts=[verdict_row("warning", ["ZN-X-1"])], cases=None)
    (lost / rows.RUN).write_text("{")
    make_run_in(root / "twice", "new", 6, verdicts=[steady])
    return root


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"), durable=False)


@pytest.fixture(scope="module")
def opened(spark: SparkSession, root: Path, store: Store) -> tuple[Views, list[Commit]]:
    ingest(spark, store, find_run_folders([root]))
    commits = store.commits()
    return open_views(spark, store, commits), commits


@pytest.fixture(scope="module")
def result(opened: tuple[Views, list[Commit]], root: Path) -> Report:
    twice = [folder for folder in find_run_folders([root]) if folder.duplicate_of]
    return collect(*opened, "previous", lambda _: None, duplicates=twice)


def test_runs_stand_newest_first_with_all_that_was_recorded(result: Report) -> None:
    assert [run.run_id for run in result.runs][:4] == ["mutant", "elsewhere", "new", "new"]
    assert result.runs[-1].run_id == "lost"
    by_state = {(run.run_id, run.state): run for run in result.runs}
    new = by_state["new", "complete"]
    assert (new.outcomes["pass"], new.outcomes["fail"], new.findings) == (1, 1, 2)
    assert (new.sent, new.received, new.undecoded) == (1, 1, 1)
    assert new.rows == {rows.FUZZ_CASES: 2, rows.OBSERVATIONS: 2, rows.VERDICTS: 3}
    cut = by_state["cut", "cut off"]
    assert (cut.rows, cut.bad) == ({rows.VERDICTS: 1}, 1)
    assert "verdicts.jsonl ends in the middle of a line" in cut.notes
    assert by_state["lost", "unreadable"].rows == {rows.VERDICTS: 1}
    assert by_state["new", DUPLICATE].outcomes["pass"] == 0


def test_lines_add_up_and_those_that_are_no_rows_are_shown(result: Report) -> None:
    assert len(result.accounts) == sum(len(run.rows) for run in result.runs)
    for line in result.accounts:
        assert line.lines == line.good + line.apart + line.blank + line.footers
    assert [(line.run_id, line.file, line.line) for line in result.bad_lines] == [("cut", rows.VERDICTS, 2)]


def test_newest_version_is_compared_with_the_one_before(
    result: Report, opened: tuple[Views, list[Commit]]
) -> None:
    assert result.sets == compare(opened[1], "previous")[0]
    (pair,) = (pair for pair in result.sets.pairs if pair.baseline)
    assert (pair.candidate, pair.candidate_version, pair.baseline_version) == (("new",), "1.10.2", "1.9.0")
    assert result.sets.text == "1 run on eclipse-zenoh router 1.10.2 with 6 runs on 1.9.0"
    assert [alone.run_id for alone in result.sets.not_comparable] == ["elsewhere"]


def test_points_of_a_trend_name_their_runs_and_what_these_were_of(result: Report) -> None:
    runs = {(run.run_id, run.node_version, run.started_at) for run in result.runs}
    points = {point for trend in result.trends for point in trend.points}
    assert {(point.run_id, point.version, point.started_at) for point in points} <= runs
    assert {point.version for point in points} >= {"1.9.0", "1.10.2"}


def test_mutant_is_none_of_the_runs_that_cannot_be_compared(opened: tuple[Views, list[Commit]]) -> None:
    apart = {alone.run_id for alone in compare(opened[1], "1.9.0")[0].not_comparable}
    assert apart == {"elsewhere"}


def test_changes_are_told_and_the_rest_is_counted(result: Report) -> None:
    told = {change.test: change for change in result.changes if change.key == result.sets.pairs[0].key}
    assert {test: change.status for test, change in told.items()} == {
        "broken": report.NEW_FAILURE,
        "silent": report.NA_EVERYWHERE,
    }
    broken = told["broken"]
    assert (broken.failed_c, broken.runs_c, broken.failed_b, broken.seen) == (1, 1, 0, "CLOSE")
    assert broken.certainty == report.DETERMINISTIC
    assert result.unchanged == 1
    assert [(bad.requirement, bad.good, bad.bad, bad.environment) for bad in result.first_bad] == [
        ("ZN-INIT-002", "1.9.0", "1.10.2", "Linux 6.1")
    ]
    (card,) = make_page(result).fresh
    assert card.since.startswith("between 1.9.0 and 1.10.2, ")


def test_what_is_certain_and_strict_stands_first() -> None:
    like = next(change for change in example_report().changes if change.status == report.NEW_FAILURE)
    told = [
        (report.ASSUMED, "MUST"),
        (report.STATISTICAL, "MUST"),
        (report.DETERMINISTIC, "SHOULD"),
        (report.DETERMINISTIC, "MUST"),
        (report.DETERMINISTIC, "made up"),
    ]
    changes = [dataclasses.replace(like, certainty=certainty, level=level) for certainty, level in told]
    in_order = [(one.certainty, one.level) for one in sorted(changes, key=asking._change_order)]
    assert in_order == [told[3], told[2], told[4], told[1], told[0]]
    fixed = dataclasses.replace(like, status=report.FIXED)
    assert sorted([fixed, changes[0]], key=asking._change_order) == [changes[0], fixed]


def test_versions_between_which_it_began_stand_first() -> None:
    (pair,) = example_report().first_bad
    alone = dataclasses.replace(pair, good="", requirement="A")
    mended = dataclasses.replace(pair, fixed="1.5.0", requirement="B")
    assert sorted([alone, mended, pair], key=asking._first_bad_order) == [pair, mended, alone]


def test_cells_say_what_holds_for_a_version_and_why(result: Report) -> None:
    cells = {(cell.node_version, cell.requirement): cell.outcome for cell in result.cells}
    assert cells["1.10.2", "ZN-INIT-002"] == "fail"
    assert cells["1.9.0", "ZN-INIT-002"] == "pass"
    assert {cell.node_impl for cell in result.cells} == {"eclipse-zenoh", "unknown"}
    assert [(t.outcome, t.run_id, t.expected, t.seen) for t in result.troubles] == [
        ("fail", "new", "INIT", "CLOSE"),
        ("warning", "lost", "INIT", "CLOSE"),
    ]
    assert result.not_applicable == (report.NotApplicable(reason="no multicast", tests=2),)
    assert [(row.requirement, row.first) for row in result.differences] == [("ZN-INIT-002", "1.10.2")]


def test_findings_are_compared_with_those_of_earlier_runs(result: Report) -> None:
    statuses = {finding.bucket: finding.status for finding in result.findings}
    assert statuses["fresh"] == report.NEW
    assert statuses["both"] == report.KNOWN
    assert statuses["gone"] in {report.GONE, report.NOT_TRIED}
    both = next(finding for finding in result.findings if finding.bucket == "both")
    assert dict(both.by_run) == {**{f"old{day}": 1 for day in range(1, 6)}, "new": 1}
    assert (both.first_run, both.first_seen) == ("old1", "2026-11-01T10:00:00.000Z")
    assert [(point.run_id, point.buckets) for point in result.found][-1] == ("new", 3)


def test_findings_are_those_that_the_fuzzer_lists(
    spark: SparkSession,
    tmp_path: Path,
    make_run: MakeRun,
    case_row: Case,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_run("r1", 1, verdicts=None, cases=[case_row(1)], node_version="1.9.0", kind="fuzz", **LAB)
    met = [case_row(1, "crash DECLARE"), case_row(2, "stall INIT"), case_row(3, "crash PUSH")]
    run = make_run("r2", 2, verdicts=None, cases=met, kind="fuzz", **LAB)
    usual: dict[str, Any] = {
        "run_id": "r2", "time_ns": 1, "status": "confirmed", "fails": True, "harm": "crash", "oracle": "process",
        "state": "open", "message": "PUSH", "field": "", "detail": "it died", "campaign": "handshake", "case": 4,
        "hits": 1, "left_out": 0, "tries": 3, "confirmed": 3, "messages": 1, "size": 9, "known": "", "folder": "",
        "engine": "fast", "seed": 7, "job": 0, "part": 0, "node_impl": "eclipse-zenoh", "node_version": "1.10.2",
    }  # fmt: skip
    with rows.RowWriter(run / rows.FINDINGS) as writer:
        for name, holds, more in (
            ("crash SUBSCRIBER", ("crash DECLARE",), {"known": "known-one", "fails": False}),
            ("crash PUSH", ("crash PUSH",), {}),
            ("crash PUSH", ("crash PUSH",), {"hits": 0, "status": "not reproduced", "time_ns": 2}),
            ("crash FRAME", ("crash PUSH",), {"time_ns": 2}),
            ("leak", (), {"campaign": "", "message": ""}),
        ):
            writer.write(rows.FindingRow(**{**usual, "bucket": name, "case_buckets": holds, **more}))
    # A node of somebody else, for which one of them is known and another was not seen again.
    theirs = {"node_impl": "other", "kind": "fuzz", **LAB}
    other = make_run("x3", 3, verdicts=None, cases=[case_row(1, "leak"), case_row(2, "stall INIT")], **theirs)
    with rows.RowWriter(other / rows.FINDINGS) as writer:
        for name, more in (("leak", {"known": "x"}), ("crash FRAME", {"status": "not reproduced"})):
            writer.write(rows.FindingRow(**{**usual, "bucket": name, "hits": 2, "time_ns": 3, **more}))
    store = Store(tmp_path / "store", durable=False)
    ingest(spark, store, find_run_folders([tmp_path / "runs"]))
    commits = store.commits()
    ask_only(monkeypatch, asking._RATES, asking._FINDINGS, asking._FOUND, asking._TOLD)
    found = collect(open_views(spark, store, commits), commits, "previous", lambda _: None)
    told = {(one.node_impl, one.bucket): (one.status, one.confirmed, one.known) for one in found.findings}
    assert told == {
        ("eclipse-zenoh", "crash SUBSCRIBER"): (report.NEW, "confirmed", "known-one"),
        ("eclipse-zenoh", "crash FRAME"): (report.NEW, "confirmed", ""),
        ("eclipse-zenoh", "leak"): (report.NEW, "confirmed", ""),
        ("eclipse-zenoh", "stall INIT"): (report.NEW, report.UNHELD, ""),
        ("other", "crash FRAME"): (report.NEW, "not reproduced", ""),
        ("other", "leak"): (report.NEW, "confirmed", "x"),
        ("other", "stall INIT"): (report.NEW, report.UNHELD, ""),
    }
    assert {(one.node_impl, one.bucket) for one in found.findings if one.is_news} == {
        ("eclipse-zenoh", "crash FRAME"),
        ("eclipse-zenoh", "leak"),
    }
    assert [point.buckets for point in found.found] == [0, 4, 3]


def test_what_was_measured_is_a_trend(result: Report) -> None:
    assert {rate.run_id for rate in result.rates} == {"new", *(f"old{day}" for day in range(1, 6))}
    (trend,) = result.trends
    assert (trend.name, trend.better, len(trend.points)) == ("cases of handshake", "higher", 6)
    assert {(line.kind, line.run_id): line.tried for line in result.coverage}["requirement", "new"] == 2


def test_node_that_is_wrong_on_purpose_shows_what_tests_notice(result: Report) -> None:
    assert [(line.requirement, line.mutants, line.killed) for line in result.mutants] == [
        ("ZN-INIT-001", 1, 1)
    ]
    assert "mutant" not in {cell.run_id for cell in result.cells}


def test_same_runs_give_the_same_bytes_however_they_are_opened(
    spark: SparkSession,
    tmp_path: Path,
    store: Store,
    opened: tuple[Views, list[Commit]],
    root: Path,
    result: Report,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a command does: from copies, in part in the session that interprets, and with the runs that are needed alone.

    They are in another order, and what there is no row for is not asked.
    """
    views, commits = opened
    opened_there: list[str] = []
    asked: list[int] = []
    said: list[str] = []

    def few(some: Sequence[Commit]) -> Views:
        asked.append(len(some))
        return views

    def noting(found: Callable[[str], DataFrame]) -> Callable[[str], DataFrame]:
        def open_one(name: str) -> DataFrame:
            opened_there.append(name)
            return found(name)

        return open_one

    twice = [folder for folder in find_run_folders([root]) if folder.duplicate_of]
    with Gathered(store, commits, tmp_path, summed=True) as near, interpreting(spark) as beside:
        assert beside is not None
        assert {name: beside.conf.get(name) for name in INTERPRETED} == INTERPRETED
        most = near.rows("case_outcomes")
        assert most < near.changing_rows("checks")
        monkeypatch.setattr(asking, "INTERPRETED_ROWS", most)
        interpreted = near.views(beside)
        for name in ("frame", "changing"):
            monkeypatch.setattr(interpreted, name, noting(getattr(interpreted, name)))
        again = collect(
            near.views(spark),
            commits[::-1],
            "previous",
            said.append,
            duplicates=twice,
            open_few=few,
            interpreted=interpreted,
            near=near,
        )
    assert to_json(again) == to_json(result)
    assert 0 < asked[0] < len(commits)
    assert "case_outcomes" in opened_there
    assert "checks" not in opened_there
    assert asking._REASONS in said
    assert asking._STALE not in said
    assert SparkSession.getActiveSession() is spark


def test_why_is_not_asked_where_nothing_is_na(
    spark: SparkSession,
    tmp_path: Path,
    store: Store,
    opened: tuple[Views, list[Commit]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commits, said = opened[1], set[str]()
    with Gathered(store, commits, tmp_path, summed=True) as near:
        lacking = [("checks", "reason", rows.STALE), ("checks", "outcome", "n/a")]
        monkeypatch.setattr(near, "lacks", lambda *what: what in lacking)
        ask_only(
            monkeypatch,
            asking._RATES,
            asking._REQUIREMENTS,
            asking._VERDICTS,
            asking._REASONS,
            asking._STALE,
        )
        found = collect(near.views(spark), commits, "previous", said.add, near=near)
    assert found.not_applicable == ()
    assert asking._VERDICTS in said
    assert not said & {asking._REASONS, asking._STALE}


@pytest.mark.parametrize("others", [(0, 1), (3,)])
def test_what_one_stands_for_is_told_as_if_each_was_asked_for(
    spark: SparkSession,
    tmp_path: Path,
    make_run_in: MakeRun,
    verdict_row: Verdict,
    others: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one of many new ones is new, all of them are, and each has its own row; so have those that are gone."""
    names = (asking._REQUIREMENTS, asking._CHANGES, asking._LOST)
    # What else is asked of checks, where some stand for others; there are no cases, no times and no mutants.
    more = (
        asking._OUTCOMES,
        asking._STALE,
        asking._RELEASES,
        asking._FIRST_BAD,
        asking._VERDICTS,
        asking._REASONS,
    )
    again = max(others) > 1
    ask_only(monkeypatch, *names, *(more if again else ()))

    def judged(outcome: str, name: str, count: int) -> list[rows.VerdictRow]:
        return [verdict_row(outcome, [f"ZN-{name}-{n}"], test=f"{name}{n}") for n in range(count)]

    # Each with so many that are new and that are gone, in a configuration of their own.
    for many in others:
        both = [*judged("pass", f"steady{many}", 9), *judged("fail", f"broken{many}", 1)]
        lab = {"environment": "Linux 6.1", "configuration": f"transport={many}", "cases": None}
        for day in range(1, 5):
            more_of_day = judged("pass", f"gone{many}" if day < 4 else f"fresh{many}", many)
            version = "1.9.0" if day < 4 else "1.10.2"
            verdicts = [*both, *more_of_day]
            make_run_in(
                tmp_path / "runs", f"r{day} {many}", day, verdicts=verdicts, node_version=version, **lab
            )
    store, said = Store(tmp_path / "store", durable=False), list[str]()
    ingest(spark, store, find_run_folders([tmp_path / "runs"]))
    commits, folder = store.commits(), tmp_path / "near"
    folder.mkdir()
    wanted = collect(open_views(spark, store, commits), commits, "previous", lambda _: None)
    with Gathered(store, commits, folder) as near:
        for table in ("checks", "requirements"):
            assert near.changing_rows(table) < near.rows(table)
        found = collect(near.views(spark), commits, "previous", said.append, near=near)
    assert to_json(found) == to_json(wanted)
    assert {pair.candidate for pair in found.sets.pairs} == {(f"r4 {many}",) for many in others}
    sets, all_others = len(others), sum(others)
    assert (found.unchanged, len(found.changes), len(found.lost)) == (
        9 * sets,
        sets + 2 * all_others,
        all_others,
    )
    assert [said.count(name) for name in (asking._CHANGES, asking._LOST)] == [1 + again, 1 + again]
    assert len(found.cells) == 2 * (10 * sets + all_others)


def test_session_that_was_active_is_so_again_behind_a_failure(spark: SparkSession) -> None:
    def fail() -> None:
        with interpreting(spark) as beside:
            assert beside is not None
            beside.createDataFrame([], "nothing int")
            assert SparkSession.getActiveSession() is beside
            raise DataTrouble("it fails")

    with pytest.raises(DataTrouble, match="it fails"):
        fail()
    assert SparkSession.getActiveSession() is spark


def test_turns_of_runs_follow_their_starts(spark: SparkSession, opened: tuple[Views, list[Commit]]) -> None:
    commits = sorted(opened[1], key=lambda commit: commit.bundle)
    runs = asking._runs_of(commits, spark).orderBy("turn").collect()
    assert [row["turn"] for row in runs] == list(range(1, len(commits) + 1))
    in_order = [(row["started_at"], row["run_id"]) for row in runs]
    assert in_order == sorted(in_order)


def test_each_requirement_and_what_names_none_has_its_versions(
    spark: SparkSession,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Verdict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"a": ["ZN-A-001"], "b": ["ZN-B-001", "ZN-B-002"], "c": ["ZN-B-002"], "none": []}

    def verdicts(outcome: str) -> list[rows.VerdictRow]:
        steady = verdict_row(test="steady", requirements=["ZN-S-001"])
        return [steady, *(verdict_row(outcome, of, test=test) for test, of in names.items())]

    for day in range(1, 4):
        make_run(f"old{day}", day, verdicts=verdicts("pass"), cases=None, node_version="1.9.0", **LAB)
    make_run("new", 4, verdicts=verdicts("fail"), cases=None, **LAB)
    store = Store(tmp_path / "store", durable=False)
    ingest(spark, store, find_run_folders([tmp_path / "runs"]))
    ask_only(monkeypatch, asking._REQUIREMENTS, asking._RELEASES, asking._FIRST_BAD)
    found = collect(open_views(spark, store), store.commits(), "previous", lambda _: None)
    told = ["(none)", "ZN-A-001", "ZN-B-001", "ZN-B-002"]
    assert sorted(one.requirement for one in found.differences) == told
    assert sorted(bad.test for bad in found.first_bad) == sorted(names)


def test_baseline_that_is_not_there_is_data_trouble(opened: tuple[Views, list[Commit]]) -> None:
    with pytest.raises(DataTrouble, match=r"no run or version 7\.0; the versions are 1\.9\.0, 1\.10\.2"):
        collect(*opened, "7.0", lambda _: None)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("name", "of_cases", "unread"),
    [
        ("20261103T000000Z-late", False, True),
        ("20261101T120000Z-early", False, False),
        # A campaign ended well since the first run of the suite, not since the second one.
        ("20261101T000000Z-suite", False, False),
        ("20261104T000000Z-late", True, True),
        ("20261103T000000Z-early", True, False),
    ],
)
def test_damaged_run_is_unread_unless_a_later_one_like_it_is_judged(
    spark: SparkSession,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Verdict,
    case_row: Case,
    name: str,
    of_cases: bool,
    unread: bool,
) -> None:
    make_run("suite", 2, kind="conformance", verdicts=[verdict_row()], cases=None, **LAB)
    make_run("campaign", 3, kind="fuzz", verdicts=None, cases=[case_row()], configuration="profile=all")
    rows_of = (
        {"verdicts": None, "cases": [case_row()]}
        if of_cases
        else {"verdicts": [verdict_row()], "cases": None}
    )
    (make_run(name, 1, **rows_of) / rows.RUN).write_text("{")
    store = Store(tmp_path / "store", durable=False)
    ingest(spark, store, find_run_folders([tmp_path / "runs"]))
    found, _ = compare(store.commits(), "previous")
    assert [one.run_id for one in found.unread] == [name] * unread
    assert all("cut off or damaged" in one.why for one in found.unread)
    assert name not in found.candidate


def test_killed_run_of_an_old_version_is_left_behind_by_a_whole_one_of_a_newer(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict
) -> None:
    some: dict[str, Any] = {"verdicts": [verdict_row()], "cases": None, "kind": "conformance", **LAB}
    make_run("killed", 1, **{**some, "configuration": "transport=udp", "status": "running"})
    make_run("newer", 2, node_version="1.11.0", **some)
    store = Store(tmp_path / "store", durable=False)
    ingest(spark, store, find_run_folders([tmp_path / "runs"]))
    commits = store.commits()
    (pairs, _), (alone, _) = compare(commits, "previous"), compare(commits[:1], "previous")
    assert {pair.candidate: pair.left_behind for pair in pairs.pairs} == {
        ("killed",): True,
        ("newer",): False,
    }
    assert [(pair.candidate, pair.left_behind) for pair in alone.pairs] == [(("killed",), False)]


def commit(state: str, *notes: str, good: int = 0) -> Commit:
    """A run with one file."""
    return Commit(
        run_id="r1",
        attempt=1,
        started_at="",
        committed_at="",
        bundle="",
        tables={},
        accounts={rows.VERDICTS: Account(lines=2, good=good, apart=2 - good)},
        state=state,
        notes=notes,
        run={},
    )


def test_runs_without_a_row_are_nothing_to_report() -> None:
    with pytest.raises(
        NothingToReport, match="no readable rows in 1 run: it ends in the middle of a line; record"
    ):
        check_not_empty([commit("cut off", "it ends in the middle of a line")])
    check_not_empty([commit("cut off"), commit("cut off", good=1)])
    check_not_empty([commit("running")])


def test_runs_on_nodes_of_unknown_version_have_no_order(
    spark: SparkSession, opened: tuple[Views, list[Commit]]
) -> None:
    nothing = Views(spark, lambda table: spark.createDataFrame([], SCHEMAS[table]))
    with pytest.raises(NothingToReport, match="--profile"):
        collect_differences(nothing, opened[1], lambda _: None)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("versions", "baseline", "unread"),
    [
        # Oldest run first.
        ("1.9.0 1.10.0 1.10.0-12-gdead-dirty", "previous", ["r2"]),
        ("1.10.0 unknown", "previous", ["r1"]),
        ("1.10.0 unknown", "unknown", []),
        ("1.9.0 1.10.0 unknown", "1.9.0", []),
        ("unknown 1.10.0", "previous", []),
        ("unknown dirty", "previous", []),
        ("1.9.0 1.10.0", "1.10.0", []),
    ],
)
def test_newest_run_of_a_version_that_has_no_place_is_told(
    spark: SparkSession,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Verdict,
    versions: str,
    baseline: str,
    unread: list[str],
) -> None:
    for day, version in enumerate(versions.split(), 1):
        make_run(f"r{day - 1}", day, verdicts=[verdict_row()], cases=None, node_version=version, **LAB)
    store = Store(tmp_path / "store", durable=False)
    ingest(spark, store, find_run_folders([tmp_path / "runs"]))
    found, _ = compare(store.commits(), baseline)
    assert [one.run_id for one in found.unread] == unread
    assert all("cannot be ordered among the versions" in one.why for one in found.unread)


def opened_of(spark: SparkSession, folder: Path) -> tuple[Views, list[Commit]]:
    """Takes runs into a store of their own."""
    store = Store(folder / "store", durable=False)
    ingest(spark, store, find_run_folders([folder / "runs"]))
    commits = store.commits()
    return open_views(spark, store, commits), commits


def test_run_that_began_in_the_future_is_told_and_judges_nothing(
    spark: SparkSession,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Verdict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = {"started_at": "2999-01-01T00:00:00.000Z", "ended_at": "2999-01-01T00:05:00.000Z"}
    make_run("old", 1, verdicts=[verdict_row()], cases=None, **LAB)
    make_run("new", 2, verdicts=[verdict_row("fail")], cases=None, **LAB)
    make_run("ahead", 3, verdicts=[verdict_row()], cases=None, **LAB, **ahead)
    views, commits = opened_of(spark, tmp_path)
    ask_only(monkeypatch, asking._REQUIREMENTS, asking._CHANGES)
    found = collect(views, commits, "previous", lambda _: None)
    assert [(one.run_id, one.why[:22]) for one in found.sets.unread] == [("ahead", "it began in the future")]
    assert [(change.test, change.status, change.run_id) for change in found.changes] == [
        ("suite/test_init.py::test_a", "new failure", "new")
    ]
    assert {cell.outcome for cell in found.cells} == {"fail"}
    # Where all are ahead it is our own clock that is wrong.
    (alone, _) = compare([commit for commit in commits if commit.run_id == "ahead"], "previous")
    assert (alone.unread, alone.candidate) == ((), ("ahead",))


def test_stale_deviation_is_told_and_fails_nowhere(
    spark: SparkSession,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Verdict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known, stale = verdict_row("deviation"), verdict_row("fail", reason=rows.STALE)
    other = verdict_row("warning", ["ZN-INIT-002"], test="other")
    make_run("old", 1, verdicts=[known], cases=None, node_version="1.9.0", **LAB)
    make_run("new", 2, verdicts=[stale, other], cases=None, **LAB)
    ask_only(monkeypatch, asking._REQUIREMENTS, asking._CHANGES, asking._STALE, asking._VERDICTS)
    found = collect(*opened_of(spark, tmp_path), "previous", lambda _: None)
    assert [(row.requirement, row.run_id) for row in found.stale] == [("ZN-INIT-001", "new")]
    shown = {(cell.node_version, cell.requirement): cell.outcome for cell in found.cells}
    assert shown["1.10.2", "ZN-INIT-001"] == "pass"
    assert [trouble.test for trouble in found.troubles if trouble.run_id == "new"] == ["other"]
    assert "fail" not in make_page(found).headline


def test_mutant_is_judged_when_its_run_has_ended(
    spark: SparkSession,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Verdict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutant: dict[str, Any] = {"node": "ref:ZN-INIT-001", "cases": None, "kind": "conformance", **LAB}
    make_run("sound", 1, verdicts=[verdict_row()], cases=None, **LAB)
    make_run("ended", 2, verdicts=[verdict_row("fail")], **mutant)
    make_run("cut", 3, verdicts=[verdict_row()], **{**mutant, "status": "running", "ended_at": None})
    ask_only(monkeypatch, asking._REQUIREMENTS, asking._MUTANTS)
    (line,) = collect(*opened_of(spark, tmp_path), "previous", lambda _: None).mutants
    assert (line.mutants, line.killed, line.alive) == (1, 1, ())
