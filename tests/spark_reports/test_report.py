import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_reports import report, rows
from spark_reports.folders import find_run_folders
from spark_reports.load import load
from spark_reports.render import to_json
from spark_reports.report import Change, Fetcher, Report, collect

MakeRun = Callable[..., Path]
Verdict = Callable[..., rows.VerdictRow]
Case = Callable[..., rows.FuzzCaseRow]


def collected(spark: SparkSession, root: Path) -> Report:
    folders = find_run_folders([root])
    return collect(load(spark, folders), folders, lambda _: None)


@pytest.fixture(scope="module")
def root(
    tmp_path_factory: pytest.TempPathFactory, make_run_in: MakeRun, verdict_row: Verdict, case_row: Case
) -> Path:
    """Three runs in a row, then one of another node, then three with something wrong, then an empty one."""
    root = tmp_path_factory.mktemp("runs")
    make_run_in(
        root, "r1", 1, verdicts=[verdict_row("pass")], cases=[case_row(1, "old"), case_row(2, "both")]
    )
    make_run_in(root, "r2", 2, verdicts=[verdict_row("pass")], cases=[case_row(1, "both")])
    make_run_in(
        root, "r3", 3, verdicts=[verdict_row("fail")], cases=[case_row(1, "both"), case_row(2, "fresh")]
    )
    make_run_in(
        root, "r4", 4, cases=[case_row(duration_s=float("nan"))], node="pypi:1.5.1", node_version="1.5.1"
    )
    other = {"node": "tcp/x", "node_version": "unknown"}
    cut = make_run_in(root, "cut", 5, verdicts=[verdict_row(), verdict_row(test="b")], **other)
    (cut / rows.VERDICTS).write_bytes((cut / rows.VERDICTS).read_bytes()[:-60])
    bad = make_run_in(root, "bad", 6, verdicts=[verdict_row()], cases=None, kind="conformance", **other)
    (bad / rows.VERDICTS).write_text("what\n" + (bad / rows.VERDICTS).read_text())
    lost = make_run_in(root, "lost", verdicts=[verdict_row("warning", ["ZN-X-1"])], cases=None)
    (lost / rows.RUN).write_text("{")
    make_run_in(root, "empty", 7, **other)
    return root


@pytest.fixture(scope="module")
def result(spark: SparkSession, root: Path) -> Report:
    return collected(spark, root)


def test_runs_stand_newest_first(result: Report) -> None:
    assert [run.run_id for run in result.runs] == ["empty", "bad", "cut", "r4", "r3", "r2", "r1", "lost"]


def test_change_of_the_newest_run_is_told(result: Report) -> None:
    assert [(c.requirement, c.before_run, c.after_run, c.direction) for c in result.changes] == [
        ("ZN-INIT-001", "r2", "r3", "worse")
    ]


def test_findings_are_new_known_or_gone_for_the_node_that_showed_them(result: Report) -> None:
    # The run of another node, after them, does not count.
    assert [(f.bucket, f.status, dict(f.by_run)) for f in result.findings] == [
        ("fresh", report.NEW, {"r3": 1}),
        ("both", report.KNOWN, {"r1": 1, "r2": 1, "r3": 1}),
        ("old", report.GONE, {"r1": 1}),
    ]
    assert {run.run_id: run.findings for run in result.runs if run.findings} == {"r1": 2, "r2": 1, "r3": 2}


def test_what_releases_show_differently_is_told(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict
) -> None:
    make_run("r1", 1, verdicts=[verdict_row("pass"), verdict_row("pass", ["ZN-X-1"], test="b")])
    make_run("r2", 2, verdicts=[verdict_row("fail")], node_version="1.9.0")
    (difference,) = collected(spark, tmp_path).differences
    assert (difference.requirement, difference.first, difference.before, difference.after) == (
        "ZN-INIT-001",
        "1.10.2",
        "CLOSE",
        "as required",
    )


def test_what_did_not_pass_says_expected_and_seen(result: Report) -> None:
    assert [(t.outcome, t.run_id, t.expected, t.seen) for t in result.troubles] == [
        ("fail", "r3", "INIT", "CLOSE"),
        ("warning", "lost", "INIT", "CLOSE"),
    ]


def test_nothing_recorded_is_lost(result: Report) -> None:
    states = {run.run_id: (run.state, run.rows.get(rows.VERDICTS), run.bad) for run in result.runs}
    assert states["cut"] == ("cut off", 1, 1)
    assert states["bad"] == ("cut off", 1, 1)
    assert states["lost"] == ("unreadable", 1, 0)
    assert states["empty"] == ("complete", 0, 0)
    assert states["r1"] == ("complete", 1, 0)
    (cut,) = (run for run in result.runs if run.run_id == "cut")
    assert "verdicts.jsonl ends in the middle of a line" in cut.notes
    assert ("bad", "what") in [(line.run_id, line.text) for line in result.bad_lines]
    assert {cell.node_version for cell in result.cells} == {"1.10.2", "unknown"}


def test_number_that_json_does_not_have_becomes_none(result: Report) -> None:
    assert [rate.cases_per_s for rate in result.rates if rate.run_id == "r4"] == [None]


def test_same_runs_give_the_same_bytes(spark: SparkSession, root: Path, result: Report) -> None:
    text = to_json(result)
    assert text == to_json(collected(spark, root))
    assert json.loads(text)["report_version"] == report.REPORT_VERSION


def test_more_than_the_limit_is_left_out_and_said(spark: SparkSession) -> None:
    fetch = Fetcher()
    numbers = spark.range(7)
    assert [row["id"] for row in fetch(numbers, sf.desc("id"), what="numbers", limit=2)] == [6, 5]
    assert len(fetch(numbers, "id", what="all numbers", limit=7)) == 7
    assert fetch.left_out == ["numbers"]


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
