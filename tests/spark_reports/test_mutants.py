import pytest
from pyspark.sql import SparkSession

from spark_reports.frames import mutants
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import compared, rollup


def check(run_id: str, outcome: str, requirement: str, test: str = "t") -> dict[str, object]:
    return {
        "run_id": run_id,
        "test": test,
        "outcome": outcome,
        "requirements": [requirement],
        "level": "MUST",
    }


def test_mutant_is_killed_by_a_test_of_its_own_requirement(spark: SparkSession) -> None:
    runs = (
        compared(spark, "old baseline", "new candidate", mutant="ZN-A-001")
        .unionByName(compared(spark, "second candidate", mutant="ZN-A-001b"))
        .unionByName(compared(spark, "third candidate", mutant="ZN-B-002"))
        .unionByName(compared(spark, "null candidate", mutant="null:echo"))
        .unionByName(compared(spark, "real candidate"))
    )
    checks = rollup(
        spark,
        "checks",
        # The newest run counts, and the first test that noticed is named.
        check("old", "pass", "ZN-A-001"),
        check("new", "fail", "ZN-A-001", "u"),
        check("new", "warning", "ZN-A-001", "t"),
        check("new", "fail", "ZN-C-003", "v"),
        # Nobody has noticed if a test could say nothing, or another one objected.
        check("second", "inconclusive", "ZN-A-001"),
        check("second", "fail", "ZN-C-003"),
        check("third", "pass", "ZN-C-003"),
        check("null", "fail", "ZN-A-001"),
        check("real", "fail", "ZN-A-001"),
    )
    told = mutants.mutants(checks, runs)
    assert sorted(map(tuple, told.collect())) == [
        # mutant, requirement, level, killed, test, elsewhere, tests, own, run
        ("ZN-A-001", "ZN-A-001", "MUST", True, "t", 1, 3, 2, "new"),
        ("ZN-A-001b", "ZN-A-001", "MUST", False, None, 1, 2, 1, "second"),
        ("ZN-B-002", "ZN-B-002", None, False, None, 0, 1, 0, "third"),
    ]
    assert sorted(map(tuple, mutants.killed_by_requirement(told).collect())) == [
        ("ZN-A-001", "MUST", 2, 1, ["ZN-A-001b"]),
        ("ZN-B-002", "", 1, 0, ["ZN-B-002"]),
    ]


def test_missing_columns_are_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column test"):
        mutants.mutants(compared(spark, "a candidate"), compared(spark, "a candidate"))
