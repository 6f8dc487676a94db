import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_reports import report, rows
from spark_reports.folders import find_run_folders
from spark_reports.load import load
from spark_reports.render import to_json
from spark_reports.report import Change, Report, collect

MakeRun = Callable[..., Path]
Verdict = Callable[..., rows.VerdictRow]
Case = Callable[..., rows.FuzzCaseRow]


def collected(spark: SparkSession, root: Path) -> Report:
    folders = find_run_folders([root])
    return collect(load(spark, folders), folders, lambda _: None)


@pytest.fixture
def three_runs(make_run: MakeRun, verdict_row: Verdict, case_row: Case) -> None:
    make_run("r1", day=1, verdicts=[verdict_row("pass")], cases=[case_row(1, "old"), case_row(2, "both")])
    make_run("r2", day=2, verdicts=[verdict_row("pass")], cases=[case_row(1, "both")])
    make_run("r3", day=3, verdicts=[verdict_row("fail")], cases=[case_row(1, "both"), case_row(2, "fresh")])


@pytest.mark.usefixtures("three_runs")
def test_report_says_what_changed(spark: SparkSession, tmp_path: Path) -> None:
    result = collected(spark, tmp_path)
    assert [run.run_id for run in result.runs] == ["r3", "r2", "r1"]
    assert [(c.requirement, c.before, c.after, c.direction) for c in result.changes] == [
        ("ZN-INIT-001", "pass", "fail", "worse")
    ]
    assert [(f.bucket, f.status, dict(f.by_run)) for f in result.findings] == [
        ("fresh", report.NEW, {"r3": 1}),
        ("both", report.KNOWN, {"r1": 1, "r2": 1, "r3": 1}),
        ("old", report.GONE, {"r1": 1}),
    ]
    assert [(t.outcome, t.expected, t.seen) for t in result.troubles] == [("fail", "INIT", "CLOSE")]
    assert [run.findings for run in result.runs] == [2, 1, 2]


@pytest.mark.usefixtures("three_runs")
def test_same_runs_give_the_same_bytes(spark: SparkSession, tmp_path: Path) -> None:
    text = to_json(collected(spark, tmp_path))
    assert text == to_json(collected(spark, tmp_path))
    assert json.loads(text)["report_version"] == report.REPORT_VERSION


def test_finding_is_not_gone_because_another_node_was_fuzzed(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, case_row: Case
) -> None:
    make_run("r1", day=1, cases=[case_row(1)])
    make_run("r2", day=2, cases=[case_row(1, "here")])
    make_run("r3", day=3, cases=[case_row(1)], node="pypi:1.5.1")
    assert [finding.status for finding in collected(spark, tmp_path).findings] == [report.NEW]


def test_nothing_recorded_is_lost(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict, case_row: Case
) -> None:
    cut = make_run("cut", verdicts=[verdict_row("fail"), verdict_row(test="b")], cases=[case_row()])
    path = cut / rows.VERDICTS
    path.write_bytes(path.read_bytes()[:-60])
    bad = make_run("bad", day=2, verdicts=[verdict_row()], cases=None, kind="conformance")
    (bad / rows.VERDICTS).write_text("what\n" + (bad / rows.VERDICTS).read_text())
    lost = make_run("lost", verdicts=[verdict_row()], cases=None)
    (lost / rows.RUN).write_text("{")
    result = collected(spark, tmp_path)
    by_name = {run.run_id: run for run in result.runs}
    assert {name: (run.state, run.rows[rows.VERDICTS], run.bad) for name, run in by_name.items()} == {
        "cut": ("cut off", 1, 1),
        "bad": ("cut off", 1, 1),
        "lost": ("unreadable", 1, 0),
    }
    assert "verdicts.jsonl ends in the middle of a line" in by_name["cut"].notes
    assert [line.text for line in result.bad_lines if line.run_id == "bad"] == ["what"]
    assert {(cell.node_version, cell.outcome) for cell in result.cells} == {
        ("1.10.2", "pass"),
        ("unknown", "pass"),
    }


def test_runs_without_any_row_make_an_empty_report(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun
) -> None:
    make_run()
    result = collected(spark, tmp_path)
    assert [run.state for run in result.runs] == ["complete"]
    assert not (result.cells or result.changes or result.troubles or result.findings or result.rates)


def test_more_than_the_limit_is_said(
    spark: SparkSession,
    tmp_path: Path,
    make_run: MakeRun,
    case_row: Case,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "LIMIT", 2)
    make_run(cases=[case_row(number, f"bucket {number % 3}") for number in range(1, 8)])
    result = collected(spark, tmp_path)
    assert [finding.bucket for finding in result.findings] == ["bucket 1", "bucket 0"]
    assert result.left_out == ("findings",)


def test_numbers_that_json_does_not_have_become_none(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, case_row: Case
) -> None:
    make_run(cases=[case_row(duration_s=float("nan"))])
    (rate,) = collected(spark, tmp_path).rates
    assert rate.cases_per_s is None


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        ("pass", "fail", "worse"),
        ("n/a", "warning", "worse"),
        ("deviation", "fail", "worse"),
        ("warning", "deviation", "better"),
        ("fail", "pass", "better"),
        ("fail", "inconclusive", "other"),
        ("pass", "n/a", "other"),
        ("inconclusive", "pass", "other"),
    ],
)
def test_direction_of_a_change(before: str, after: str, direction: str) -> None:
    words = dict.fromkeys((field.name for field in dataclasses.fields(Change)), "x")
    assert Change(**{**words, "before": before, "after": after}).direction == direction
