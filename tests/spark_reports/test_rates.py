import pytest
from pyspark.sql import SparkSession

from spark_reports import rows
from spark_reports.frames.columns import MissingColumns
from spark_reports.frames.rates import rates_of_outcomes
from tests.spark_reports.frames import rollup

SECOND = 1_000_000_000


def outcome(verdict: str = "closed", cases: int = 1, **more: object) -> dict[str, object]:
    ends = {"first_ns": SECOND, "last_end_ns": 5 * SECOND, "node_starts": 1}
    return {"campaign": "handshake", "verdict": verdict, "cases": cases, **ends, **more}


def test_rate_is_cases_over_the_time_they_took(spark: SparkSession) -> None:
    outcomes = rollup(
        spark,
        "case_outcomes",
        outcome("closed", 20, message="INIT"),
        outcome("closed", 5, message="OPEN", last_end_ns=9 * SECOND, node_starts=2),
        outcome("finding", 2, first_ns=8 * SECOND, last_end_ns=9 * SECOND),
        outcome("odd", 5),
        outcome(run_id="r2"),
        outcome(campaign="data"),
    )
    told = {(row["run_id"], row["campaign"]): row for row in rates_of_outcomes(outcomes).collect()}
    row = told["r1", "handshake"]
    # From the start of the first case, at 1 s, to the end of the last, at 9 s.
    assert (row["cases"], row["seconds"], row["cases_per_s"], row["node_starts"]) == (32, 8.0, 4.0, 2)
    assert (row["closed"], row["finding"], row["inconclusive"]) == (25, 2, 5)
    assert {key: row["cases"] for key, row in told.items() if key != ("r1", "handshake")} == {
        ("r2", "handshake"): 1,
        ("r1", "data"): 1,
    }


def test_jobs_play_side_by_side(spark: SparkSession) -> None:
    outcomes = rollup(
        spark,
        "case_outcomes",
        outcome(cases=10, first_ns=0, last_end_ns=4 * SECOND, node_starts=2),
        outcome("finding", 5, first_ns=SECOND, last_end_ns=2 * SECOND, node_starts=2),
        outcome(cases=25, job=1, first_ns=SECOND, last_end_ns=5 * SECOND),
    )
    (row,) = rates_of_outcomes(outcomes).collect()
    assert (row["cases"], row["seconds"], row["cases_per_s"]) == (40, 5.0, 8.0)
    assert (row["closed"], row["finding"], row["node_starts"]) == (35, 5, 3)


def test_verdicts_add_up_to_cases(spark: SparkSession) -> None:
    found = [outcome(name, place) for place, name in enumerate((*rows.FUZZ_VERDICTS, "new"), 1)]
    (row,) = rates_of_outcomes(rollup(spark, "case_outcomes", *found)).collect()
    assert sum(row[name] for name in rows.FUZZ_VERDICTS) == row["cases"] == sum(range(1, len(found) + 1))


@pytest.mark.parametrize(
    ("first", "end", "seconds"),
    # No time went by; time went back; more went by than there is.
    [(5, 5, 0.0), (6 * SECOND, 5 * SECOND, -1.0), (-(2**63), 2**63 - 1, None)],
)
def test_times_that_cannot_be_are_no_rate(
    spark: SparkSession, first: int, end: int, seconds: float | None
) -> None:
    outcomes = rollup(spark, "case_outcomes", outcome(first_ns=first, last_end_ns=end))
    (row,) = rates_of_outcomes(outcomes).collect()
    assert (row["cases"], row["seconds"], row["cases_per_s"]) == (1, seconds, None)


def test_missing_columns_are_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column campaign"):
        rates_of_outcomes(spark.range(1).withColumnRenamed("id", "run_id"))
