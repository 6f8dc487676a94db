from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from spark_reports import rows
from spark_reports.frames import findings
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import compared, rollup

Frame = Callable[..., DataFrame]
Run = Callable[..., rows.RunRow]


PLAYED = 100
"""Cases that each run played of each campaign."""

SMALLEST = ("hs", 7, 9, "0102", "INIT", "INIT.lease", "0 -> 1", "open", "EOF", "it ended", "f.pcapng", 3)
"""Campaign, number, bytes and more of a case."""

RUNS = ("h0", "h1", "h2", "h3", "h4", "b0", "c0", "c1")

HISTORIES: Mapping[str, tuple[str, str]] = {
    # Cases of the bucket in each of RUNS, oldest first; what became of it.
    "new": ("0 0 0 0 0 0 0 1", "new"),
    "known": ("0 0 0 0 0 1 1 0", "known"),
    "known for long": ("1 0 0 0 1 0 0 1", "known"),
    "twice clean": ("0 1 0 0 1 0 1 0", "known"),
    "reopened": ("1 0 1 0 0 0 0 1", "reopened"),
    "gone": ("0 0 0 0 0 9 0 0", "gone"),
    "gone for long": ("9 0 0 0 0 0 0 0", "gone"),
    # One of a hundred cases met it: two hundred without it say little.
    "rare": ("0 0 0 0 0 1 0 0", "not tried"),
    # Three of six hundred did, though of one run three of a hundred.
    "rare for long": ("3 0 0 0 0 0 0 0", "not tried"),
}


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Mapping[str, Row]:
    """Returns what became of each bucket, from one question for all."""
    met = [
        bucket(run_id, name, int(count))
        for name, (counts, _) in HISTORIES.items()
        for run_id, count in zip(RUNS, counts.split(), strict=True)
        if int(count)
    ]
    met += [
        # A campaign that the candidate did not play, and another key that the candidate says nothing of.
        bucket("b0", "other campaign", 50, "data"),
        bucket("x0", "other key", 50),
        bucket("m0", "of a mutant", 5),
    ]
    played = [{"run_id": run_id, "campaign": "hs", "cases": PLAYED} for run_id in (*RUNS, "x0", "m0")]
    played.append({"run_id": "b0", "campaign": "data", "cases": PLAYED})
    roles = {"h": "history", "b": "baseline", "c": "candidate"}
    runs = compared(
        spark, *(f"{run_id} {roles[run_id[0]]}" for run_id in RUNS), "x0 candidate 1.1 elsewhere"
    ).unionByName(compared(spark, "m0 candidate", mutant="ZN-A-1"))
    changes = findings.bucket_changes(
        rollup(spark, "buckets", *met), rollup(spark, "case_outcomes", *played), runs
    )
    return {row["bucket"]: row for row in changes.collect()}


def bucket(run_id: str, name: str, cases: int, campaign: str = "hs") -> dict[str, object]:
    """Makes a row of a bucket whose smallest case has as many bytes as the name of its run says."""
    size = 9 - int(run_id[1])
    smallest = (campaign, 7, size, *SMALLEST[3:])
    return {
        "run_id": run_id,
        "bucket": name,
        "campaign": campaign,
        "cases": cases,
        "cases_before": 10 + size,
        "campaigns": [campaign],
        "fields": [f"field {run_id}"],
        "states": ["open"],
        "smallest": smallest,
    }


@pytest.mark.parametrize("name", HISTORIES)
def test_history_of_a_bucket_has_its_status(told: Mapping[str, Row], name: str) -> None:
    assert told[name]["status"] == HISTORIES[name][1]


SEEN_AGAIN: Mapping[str, str] = {
    # What each run met, oldest first, the candidate last; what the bucket is.
    "0 0 0 1 0 0 1 0 0 0 1": "known",  # half of the runs met it: three without it happen (12 %)
    "0 0 1 0 1 0 0 0 0 0 1": "reopened",  # two of three, five without it: 0.4 %
    "1 0 1 0 0 1 0 0 0 0 1": "known",  # half of the runs, four without it: 6 %
    "1 1 0 0 1 0 0 0 0 0 1": "reopened",  # three of five, five without it: 1 %
    "0 0 0 0 0 0 1 0 0 0 1": "reopened",  # those in front of the first that met it do not count
    "1 1 1 1 1 1 1 1 0 0 1": "known",  # two are never enough
}


def test_bucket_is_reopened_after_as_many_clean_runs_as_its_rate_needs(spark: SparkSession) -> None:
    names = [*(f"h{number}" for number in range(9)), "b9", "c0"]
    met = [
        bucket(run_id, history, int(count))
        for history in SEEN_AGAIN
        for run_id, count in zip(names, history.split(), strict=True)
        if int(count)
    ]
    played = [{"run_id": run_id, "campaign": "hs", "cases": PLAYED} for run_id in names]
    roles = {"h": "history", "b": "baseline", "c": "candidate"}
    changes = findings.bucket_changes(
        rollup(spark, "buckets", *met),
        rollup(spark, "case_outcomes", *played),
        compared(spark, *(f"{run_id} {roles[run_id[0]]}" for run_id in names)),
    )
    assert {row["bucket"]: row["status"] for row in changes.collect()} == SEEN_AGAIN


def test_key_that_nobody_uses_any_more_makes_nothing_new(spark: SparkSession) -> None:
    lines = ["x0 candidate 1.0 laptop", "h1 history 1.0", "b2 baseline", "c3 candidate"]
    names = [line.split()[0] for line in lines]
    met = [bucket(run_id, "old", 2) for run_id in names[1:]]
    met += [bucket("c3", "young", 2), bucket("x0", "of the laptop", 2), bucket("c3", "of the laptop", 2)]
    played = [{"run_id": run_id, "campaign": "hs", "cases": PLAYED} for run_id in names]
    changes = findings.bucket_changes(
        rollup(spark, "buckets", *met), rollup(spark, "case_outcomes", *played), compared(spark, *lines)
    )
    statuses = {row["bucket"]: row["status"] for row in changes.collect()}
    assert statuses == {"old": "known", "young": "new", "of the laptop": "new"}


def test_another_implementation_with_the_same_signature_has_another_finding(spark: SparkSession) -> None:
    lines = ["x0 history 1.0 other", "x1 candidate 1.1 other", "b2 baseline", "c3 candidate"]
    runs = compared(spark, *lines).withColumn(
        "node_impl", sf.when(sf.col("key") == "other", "theirs").otherwise(sf.col("node_impl"))
    )
    names = [line.split()[0] for line in lines]
    met = [bucket("x0", "stall stage group", 10), bucket("c3", "stall stage group", 2)]
    played = [{"run_id": run_id, "campaign": "hs", "cases": PLAYED} for run_id in names]
    changes = findings.bucket_changes(
        rollup(spark, "buckets", *met), rollup(spark, "case_outcomes", *played), runs
    )
    assert {
        (row["bucket"], row["node_impl"]): (row["status"], row["cases"]) for row in changes.collect()
    } == {
        ("stall stage group", "theirs"): ("gone", 10),
        ("stall stage group", "impl"): ("new", 2),
    }
    ran: dict[str, Any] = {"job": 0, "part": 0, "tries": 3, "rows_version": rows.ROWS_VERSION, "hits": 2}
    told = findings.told(
        rollup(
            spark,
            "findings",
            {
                **ran,
                "run_id": "x0",
                "bucket": "it",
                "time_ns": 1,
                "status": "confirmed",
                "known": "k-1",
                "fails": False,
            },
            {
                **ran,
                "run_id": "c3",
                "bucket": "it",
                "time_ns": 1,
                "status": "confirmed",
                "known": "",
                "fails": True,
            },
        ),
        runs,
    )
    assert {row["node_impl"]: row["known"] for row in told.collect()} == {"theirs": "k-1", "impl": ""}


def test_what_the_baseline_met_is_not_new_when_that_was_run_later(spark: SparkSession) -> None:
    """As when the version before is tried again to see whether that has it, too."""
    lines = ["c0 candidate", "b1 baseline", "x2 candidate 1.1 elsewhere", "y3 baseline 1.0 elsewhere"]
    names = [line.split()[0] for line in lines]
    met = [bucket("c0", "in both", 1), bucket("b1", "in both", 1)]
    met += [bucket("c0", "of another key", 1), bucket("y3", "of another key", 1)]
    played = [{"run_id": run_id, "campaign": "hs", "cases": PLAYED} for run_id in names]
    changes = findings.bucket_changes(
        rollup(spark, "buckets", *met), rollup(spark, "case_outcomes", *played), compared(spark, *lines)
    )
    statuses = {row["bucket"]: row["status"] for row in changes.collect()}
    assert statuses == {"in both": "known", "of another key": "new"}


def test_only_runs_before_the_candidate_met_it_and_not_its_own_count_as_clean(spark: SparkSession) -> None:
    def status(lines: str, met: str) -> str:
        names = [line.split()[0] for line in lines.split(", ")]
        played = [{"run_id": run_id, "campaign": "hs", "cases": PLAYED} for run_id in names]
        changes = findings.bucket_changes(
            rollup(spark, "buckets", *(bucket(run_id, "it", 1) for run_id in met.split())),
            rollup(spark, "case_outcomes", *played),
            compared(spark, *lines.split(", ")),
        )
        (row,) = changes.collect()
        found: str = row["status"]
        return found

    own = "h0 history, h1 history, b2 baseline, c3 candidate, c4 candidate, c5 candidate, c6 candidate"
    assert status(own, "h0 h1 b2 c6") == findings.KNOWN
    later = "h0 history, h1 history, b2 baseline, c3 candidate, h4 history, h5 history, h6 history"
    assert status(later, "h0 h1 b2 c3") == findings.KNOWN
    between = "h0 history, h1 history, h2 history, h3 history, h4 history, b5 baseline, c6 candidate"
    assert status(between, "h0 h1 h2 c6") == findings.REOPENED


def test_what_nobody_looked_for_is_not_gone(told: Mapping[str, Row]) -> None:
    assert set(told) == {*HISTORIES, "other campaign", "other key"}
    assert (told["other campaign"]["status"], told["other campaign"]["played_c"]) == ("not tried", 0)
    # Its own key has a candidate, and that has met it first.
    assert told["other key"]["status"] == "new"


def test_bucket_tells_when_it_was_seen_and_its_smallest_case(told: Mapping[str, Row]) -> None:
    row = told["known for long"]
    assert (row["cases"], row["runs"], row["first_run"], row["last_run"]) == (3, 3, "h0", "c1")
    assert (row["first_seen"], row["last_seen"]) == ("2026-11-01", "2026-11-08")
    # Candidates of both keys have looked.
    assert (row["cases_before"], row["cases_c"], row["cases_b"], row["played_c"]) == (19, 1, 0, 300)
    assert row["by_run"] == {"h0": 1, "h4": 1, "c1": 1}
    assert row["fields"] == ["field c1", "field h0", "field h4"]
    assert (row["run_id"], row["sent_bytes"], row["case"], row["detail"]) == ("h4", 5, 7, "it ended")
    # Of the run that met it; those in front of the first that did are left out, those behind it are not.
    assert told["gone"]["odds"] == pytest.approx(0.09)
    assert told["gone for long"]["odds"] == pytest.approx(0.015)


def test_number_of_buckets_grows_over_time(spark: SparkSession, frame: Frame, run_row: Run) -> None:
    runs = frame(run_row("r2", 1), run_row("r1", 2), run_row("r3", 3), run_row("x", 1, node_impl="other"))
    met = [bucket(run_id, name, 1) for run_id, name in (("r2", "a"), ("r1", "a"), ("r1", "b"), ("x1", "a"))]
    met[-1]["run_id"] = "x"
    played = [
        {"run_id": run_id, "campaign": name, "cases": 10}
        for run_id in ("r1", "r2", "r3", "x")
        for name in "ab"
    ]
    told = findings.distinct_over_time(
        rollup(spark, "buckets", *met), rollup(spark, "case_outcomes", *played), runs
    ).collect()
    assert sorted((row["node_impl"], row["run_id"], *tuple(row)[3:]) for row in told) == [
        # played, new; cases and buckets so far
        ("eclipse-zenoh", "r1", 20, 1, 40, 2),
        ("eclipse-zenoh", "r2", 20, 1, 20, 1),
        ("eclipse-zenoh", "r3", 20, 0, 60, 2),
        ("other", "x", 20, 1, 20, 1),
    ]


# What a finding holds --------------------------------------------------------------------------------


def found(run_id: str, name: str, *holds: str, hits: int = 1, **values: object) -> dict[str, object]:
    row = {
        "run_id": run_id,
        "bucket": name,
        "case_buckets": list(holds),
        "hits": hits,
        "time_ns": 1,
        "size": 3,
        "folder": f"findings/{run_id}-{name}",
    }
    return {**row, "campaign": "hs", "case": 30, "message": "PUSH", "rows_version": 5, **values}


FOUND = (
    # It seemed to be something else when it was met, twice.
    found("c0", "moved", "guess", "other guess", hits=2),
    # Two hold what has the name of one; the other one has no case of its own.
    found("c0", "same"),
    found("c0", "without a case", "same", hits=9, detail="it died"),
    # Was joined to another; only the last row counts.
    found("c0", "joined", "late", hits=3),
    found("c0", "joined", "late", hits=0, time_ns=2),
    found("c0", "joined to", "late", "joined", time_ns=2),
    # Was met in both parts of the run, and in the second it became another one.
    found("c0", "resumed", hits=4, part=0),
    found("c0", "resumed", hits=5, part=0, time_ns=2),
    found("c0", "resumed", hits=2, part=1, time_ns=3, size=2),
    found("c0", "resumed", hits=1, part=1, job=1, time_ns=4),
    found("c0", "given up", hits=4, part=0),
    found("c0", "given up", hits=0, part=1, time_ns=3),
    # In no campaign.
    found("c0", "idle", campaign=""),
    # Another run is of a version that does not say it, and a third was cut off.
    found("old", "moved", rows_version=4),
    found("cut", "moved", "guess"),
)
MET = {
    "c0": "guess|other guess|same|late|joined|nothing",
    "old": "guess|moved",
    "cut": "guess|nothing",
    "bare": "guess",
}


@pytest.fixture(scope="module")
def holding(spark: SparkSession) -> DataFrame:
    met = [bucket(run_id, name, 1) for run_id in ("c0",) for name in MET["c0"].split("|")]
    met += [
        {**bucket("c0", name, 1), "run_id": run_id}
        for run_id in ("old", "cut", "bare")
        for name in MET[run_id].split("|")
    ]
    return findings.held(
        rollup(spark, "buckets", *met), rollup(spark, "findings", *FOUND), ["c0", "old", "bare"]
    ).cache()


def test_buckets_of_cases_go_by_the_name_of_the_finding_that_holds_them(holding: DataFrame) -> None:
    names: dict[str, list[tuple[str, bool]]] = {}
    for row in holding.collect():
        # The row of its own that each finding has counts no case that another row counts.
        if row["cases"]:
            names.setdefault(row["run_id"], []).append((row["bucket"], row["unheld"]))
    assert sorted(names["c0"]) == [
        *(("idle", False), ("joined to", False), ("joined to", False), ("moved", False), ("moved", False)),
        *(("nothing", True), ("resumed", False), ("same", False), ("without a case", False)),
    ]
    # Where it is not told, or not all was looked into, nothing is said of it.
    assert sorted(names["old"]) == [("guess", False), ("moved", False)]
    assert sorted(names["cut"]) == [("moved", False), ("nothing", False)]
    assert names["bare"] == [("guess", False)]


def test_finding_is_where_the_run_of_its_smallest_case_says(spark: SparkSession, holding: DataFrame) -> None:
    kept = {(row["run_id"], row["bucket"]): row["folder"] for row in holding.collect()}
    assert kept["c0", "moved"] == "findings/c0-moved"
    assert kept["c0", "without a case"] == "findings/c0-without a case"
    assert kept["cut", "moved"] == "findings/cut-moved"
    # No finding holds it, or those of its run do not say.
    assert kept["c0", "nothing"] == kept["old", "moved"] == kept["bare", "guess"] == ""
    changes = findings.bucket_changes(
        holding, rollup(spark, "case_outcomes"), compared(spark, "c0 history", "cut candidate")
    )
    told = {row["bucket"]: (row["run_id"], row["folder"]) for row in changes.collect()}
    assert told["moved"] == ("c0", "findings/c0-moved")


def test_finding_without_a_case_of_its_own_is_shown(spark: SparkSession, holding: DataFrame) -> None:
    played = [{"run_id": "c0", "campaign": "hs", "cases": PLAYED}]
    changes = findings.bucket_changes(
        holding, rollup(spark, "case_outcomes", *played), compared(spark, "h0 history", "c0 candidate")
    )
    told = {row["bucket"]: row for row in changes.collect()}
    assert set(told) == {"idle", "joined to", "moved", "nothing", "resumed", "same", "without a case"}
    assert {row["status"] for row in told.values()} == {"new"}
    assert [name for name, row in told.items() if row["unheld"]] == ["nothing"]
    alone = told["without a case"]
    assert (alone["cases"], alone["cases_before"], alone["sent_hex"], alone["case"]) == (9, None, "", 30)
    assert (alone["detail"], alone["messages"], alone["sent_bytes"]) == ("it died", ["PUSH"], 3)
    # Its cases send another message: they only seemed to meet it.
    assert (told["moved"]["cases"], told["moved"]["sent_hex"], told["moved"]["message"]) == (2, "", "PUSH")
    assert (told["resumed"]["cases"], told["resumed"]["sent_bytes"]) == (8, 2)
    assert (told["idle"]["played_c"], told["idle"]["odds"]) == (0, None)


def test_smallest_case_is_one_of_the_message_that_the_finding_is_about(spark: SparkSession) -> None:
    harmful, innocent = bucket("c0", "refusing PUSH", 2), bucket("c0", "refusing INTEREST", 1)
    harmful["smallest"] = ("hs", 30, 8, "01", "PUSH", *SMALLEST[5:])
    innocent["smallest"] = ("hs", 31, 0, "", "INTEREST", *SMALLEST[5:])
    # One that did not come to send anything.
    idle = bucket("c0", "refusing PUSH", 1, "data")
    idle["smallest"] = ("data", 32, 0, "", "PUSH", *SMALLEST[5:])
    held = findings.held(
        rollup(spark, "buckets", harmful, innocent, idle),
        rollup(spark, "findings", found("c0", "refusing", "refusing PUSH", "refusing INTEREST")),
        ["c0"],
    )
    played = rollup(spark, "case_outcomes", {"run_id": "c0", "campaign": "hs", "cases": PLAYED})
    runs = compared(spark, "h0 history", "c0 candidate")
    (row,) = findings.bucket_changes(held, played, runs).collect()
    assert (row["cases"], row["case"], row["sent_bytes"], row["message"]) == (4, 30, 8, "PUSH")
    # Where no case shows it, the one that the finding is laid on is named.
    (row,) = findings.bucket_changes(held.where("smallest.sent_bytes != 8"), played, runs).collect()
    assert (row["cases"], row["case"], row["sent_bytes"], row["message"]) == (2, 30, 3, "PUSH")
    assert row["sent_hex"] == ""


def test_what_was_learned_is_that_of_the_candidate_and_one_that_was_seen_again_is_not_refuted(
    spark: SparkSession,
) -> None:
    refuted: dict[str, Any] = {"status": "not reproduced", "tries": 3, "confirmed": 0}
    true: dict[str, Any] = {"status": "confirmed", "tries": 3, "confirmed": 3, "fails": True}
    rows_of = (
        # Two jobs, the later one in vain; two runs, the newer one in vain; another node and an older version.
        found("c0", "jobs", **true),
        found("c0", "jobs", job=1, **{**refuted, "time_ns": 9}),
        found("c0", "runs", **true),
        found("c1", "runs", **{**refuted, "time_ns": 9}),
        found("c1", "elsewhere", **true),
        found("x0", "elsewhere", **{**refuted, "time_ns": 9}, known="x-1"),
        found("b0", "elsewhere", **{**refuted, "time_ns": 9}, known="b-1"),
        # Of each job the last row counts, and of one that became part of another nothing.
        found("c0", "looked into", status="open"),
        found("c0", "looked into", **{**refuted, "time_ns": 2}),
        found("c0", "joined", hits=1, **true),
        found("c0", "joined", hits=0, **{**refuted, "time_ns": 2}),
        # Was put on the list between two runs; is on that of one of two nodes.
        found("c0", "listed", **true),
        found("c1", "listed", status="confirmed", known="c-1", time_ns=2),
        found("c1", "listed for one", status="confirmed", known="c-2"),
        found("y0", "listed for one", **true),
        found("x0", "only elsewhere", **refuted),
        found("m0", "of a mutant", **true),
    )
    runs = compared(
        spark,
        *(
            "b0 baseline",
            "c0 candidate",
            "c1 candidate",
            "x0 history 1.0 elsewhere",
            "y0 candidate 1.1 other",
        ),
    ).unionByName(compared(spark, "m0 candidate", mutant="ZN-A-1"))
    told = findings.told(rollup(spark, "findings", *rows_of), runs).collect()
    assert {row["bucket"]: (row["confirmed"], row["known"], row["ours"]) for row in told} == {
        "jobs": ("confirmed", "", True),
        "runs": ("confirmed", "", True),
        "elsewhere": ("confirmed", "", True),
        "looked into": ("not reproduced", "", True),
        "listed": ("confirmed", "c-1", True),
        "listed for one": ("confirmed", "", True),
        "only elsewhere": ("not reproduced", "", False),
    }


def test_missing_columns_are_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column bucket"):
        findings.bucket_changes(
            compared(spark, "a candidate"), rollup(spark, "case_outcomes"), compared(spark, "a history")
        )
