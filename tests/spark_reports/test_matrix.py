import dataclasses
import itertools
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_reports import rows
from spark_reports.frames import matrix
from spark_reports.frames.columns import MissingColumns
from spark_reports.storage import rollups
from spark_reports.storage.tables import arrow_schema
from tests.spark_reports.frames import rollup

Frame = Callable[..., DataFrame]
Verdict = Callable[..., rows.VerdictRow]
Run = Callable[..., rows.RunRow]


def outcome(run_id: str, name: str, requirement: str = "ZN-INIT-001") -> dict[str, object]:
    return {"run_id": run_id, "requirement": requirement, "outcome": name, "level": "MUST", "tests": 1}


def test_worst_outcome_wins_in_every_pair(verdict_row: Verdict) -> None:
    pairs = list(itertools.combinations(matrix.WORST_FIRST, 2))
    verdicts = [
        dataclasses.asdict(verdict_row(name, (f"ZN-X-{number}",), test=name))
        for number, pair in enumerate(pairs)
        for name in reversed(pair)
    ]
    part = rollups.ROLLUP_OF["requirements"].part(
        pa.Table.from_pylist(verdicts, schema=arrow_schema("verdicts"))
    )
    got = {
        row["requirement"]: row["outcome"]
        for row in rollups.merged("requirements", [part], [0], "r1", 1).to_pylist()
    }
    assert got == {f"ZN-X-{number}": worse for number, (worse, _) in enumerate(pairs)}


def test_every_outcome_has_its_place() -> None:
    assert matrix.WORST_FIRST == ("fail", "inconclusive", "warning", "deviation", "pass", "n/a")
    assert set(matrix.WORST_FIRST) == set(rows.OUTCOMES)


def test_outcomes_are_counted_per_run(spark: SparkSession) -> None:
    outcomes = rollup(
        spark,
        "requirements",
        outcome("r1", "pass", "a"),
        outcome("r1", "n/a", "b"),
        outcome("r2", "pass", "a"),
    )
    counted = matrix.outcomes_by_run(outcomes).orderBy("run_id").collect()
    assert [(row["run_id"], row["pass"], row["n/a"], row["fail"]) for row in counted] == [
        ("r1", 1, 1, 0),
        ("r2", 1, 0, 0),
    ]


@pytest.fixture
def history(frame: Frame, run_row: Run) -> DataFrame:
    """Three runs of one version, the middle one by name the newest, and one of another."""
    return frame(
        run_row("r1", 1),
        run_row("r3", 2),
        run_row("r2", 3),
        run_row("r4", 4, node="pypi:1.5.1", node_version="1.5.1"),
    ).withColumn("turn", sf.day(sf.to_timestamp("started_at")).cast("long"))


def test_newest_outcome_holds_for_a_version(spark: SparkSession, history: DataFrame) -> None:
    outcomes = rollup(
        spark,
        "requirements",
        outcome("r1", "fail"),
        outcome("r2", "pass"),
        outcome("r3", "splendid"),
        outcome("r4", "warning"),
    )
    got = matrix.outcomes_by_version(outcomes, history).orderBy("node_version").collect()
    assert [(r["node_version"], r["outcome"], r["run_id"], r["runs"], r["other"]) for r in got] == [
        # An outcome that is none of ours counts as inconclusive; the worst is named first.
        ("1.10.2", "pass", "r2", 3, ["fail", "inconclusive"]),
        ("1.5.1", "warning", "r4", 1, []),
    ]


@pytest.mark.parametrize("name", ["configuration", "environment", "node_whatami"])
def test_failure_under_other_conditions_is_not_mended_by_a_later_run(
    spark: SparkSession, frame: Frame, run_row: Run, name: str
) -> None:
    runs = frame(
        run_row("r1", 1, **{name: "one"}),
        run_row("r2", 2, **{name: "one"}),
        run_row("r3", 3, **{name: "other"}),
        run_row("r4", 4, **{name: "other"}),
    ).withColumn("turn", sf.day(sf.to_timestamp("started_at")).cast("long"))
    outcomes = rollup(
        spark,
        "requirements",
        *(
            outcome(run_id, name, "a")
            for run_id, name in zip(["r1", "r2", "r3"], ["pass", "fail", "pass"], strict=True)
        ),
        *(
            outcome(run_id, name, "b")
            for run_id, name in zip(["r1", "r2", "r4"], ["fail", "pass", "n/a"], strict=True)
        ),
    )
    got = matrix.outcomes_by_version(outcomes, runs).orderBy("requirement").collect()
    assert [(r["outcome"], r["run_id"], r["runs"], r["other"]) for r in got] == [
        ("fail", "r2", 3, ["pass"]),
        ("pass", "r2", 3, ["fail", "n/a"]),
    ]


def test_partial_run_keeps_older_outcomes(spark: SparkSession, history: DataFrame) -> None:
    outcomes = rollup(spark, "requirements", outcome("r1", "fail", "a"), outcome("r2", "pass", "b"))
    got = matrix.outcomes_by_version(outcomes, history).collect()
    assert {row["requirement"]: row["outcome"] for row in got} == {"a": "fail", "b": "pass"}


def test_missing_columns_are_refused_at_the_door(frame: Frame, run_row: Run) -> None:
    with pytest.raises(MissingColumns, match="no column requirement, area"):
        matrix.outcomes_by_version(frame(run_row()), frame(run_row()))
