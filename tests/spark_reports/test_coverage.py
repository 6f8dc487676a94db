from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from spark_reports.frames import coverage, matrix
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import KEY, compared, rollup


def pair(run_id: str, state: str, message: str, count: int = 1, *, planned: bool = True) -> dict[str, object]:
    return {
        "run_id": run_id,
        "kind": "pair",
        "state": state,
        "message": message,
        "count": count,
        "planned": planned,
    }


def test_coverage_is_what_was_tried_of_what_is_planned(spark: SparkSession) -> None:
    requirements = rollup(
        spark,
        "requirements",
        {"requirement": "a", "outcome": "fail", "tests": 2},
        {"requirement": "b", "outcome": "n/a", "tests": 1},
        {"requirement": "c", "outcome": "inconclusive", "tests": 1},
    )
    cases = rollup(
        spark,
        "coverage",
        pair("r2", "open", "INIT", 3),
        pair("r2", "open", "OPEN", 0),
        pair("r2", "closed", "INIT", 0),
        pair("r2", "met", "CLOSE", 2, planned=False),
        {"run_id": "r2", "kind": "answer", "message": "INIT", "what": "CLOSE", "count": 5},
    )
    told = coverage.coverage_by_run(requirements, cases).collect()
    assert {(row["run_id"], row["kind"]): tuple(row)[2:] for row in told} == {
        # tried, planned, cases
        ("r1", "requirement"): (1, 3, 4),
        ("r2", "pair"): (1, 3, 5),
        ("r2", "state"): (1, 2, 5),
        ("r2", "message"): (1, 2, 5),
        ("r2", "answer"): (1, 0, 5),
    }


def test_requirement_of_tests_that_were_not_selected_is_not_lost(spark: SparkSession) -> None:
    runs = compared(spark, "b0 baseline", "c1 candidate", selected_only=True)
    signs = {
        # Outcome and number of tests of b0 and c1.
        "left out": (("pass", 2), None),
        "one of two selected": (("pass", 2), ("n/a", 1)),
        "all selected": (("pass", 2), ("n/a", 2)),
    }
    found = [
        {"run_id": run_id, "requirement": name, "level": "MUST", "outcome": sign[0], "tests": sign[1]}
        for name, both in signs.items()
        for run_id, sign in zip(("b0", "c1"), both, strict=True)
        if sign
    ]
    requirements = rollup(spark, "requirements", *found)
    told = coverage.lost_requirements(requirements, runs).collect()
    assert [(row["name"], row["why"]) for row in told] == [("all selected", "n/a")]


def test_must_that_no_candidate_run_judges_is_lost(spark: SparkSession) -> None:
    runs = compared(
        spark,
        "b0 baseline",
        "b1 baseline",
        "c1 candidate",
        "c2 candidate",
        "x candidate 1.1 alone",
        "y baseline 1.0 over",
    )
    signs = {
        # Outcomes of b0, b1, c1 and c2; empty where it was not run.
        ("lost", "MUST"): ("pass", "", "", ""),
        ("fails to say", "MUST NOT"): ("pass", "fail", "n/a", "inconclusive"),
        ("kept", "MUST"): ("pass", "pass", "fail", "n/a"),
        ("never said", "MUST"): ("n/a", "", "n/a", "n/a"),
        ("should", "SHOULD"): ("pass", "pass", "", ""),
        ("new", "MUST"): ("", "", "pass", "pass"),
        (matrix.NO_REQUIREMENT, "MUST"): ("pass", "pass", "", ""),
    }
    found = [
        {"run_id": run_id, "requirement": name, "level": level, "outcome": outcome, "tests": 1}
        for (name, level), outcomes in signs.items()
        for run_id, outcome in zip(("b0", "b1", "c1", "c2"), outcomes, strict=True)
        if outcome
    ]
    # Keys that have one side only.
    found += [
        {"run_id": run_id, "requirement": "lost", "level": "MUST", "outcome": "pass", "tests": 1}
        for run_id in "xy"
    ]
    told = coverage.lost_requirements(rollup(spark, "requirements", *found), runs).collect()
    assert sorted(map(tuple, told)) == [
        (KEY, "requirement", "fails to say", "MUST NOT", "b1", "inconclusive"),
        (KEY, "requirement", "lost", "MUST", "b0", "not run"),
    ]


def test_requirement_is_judged_by_a_test_beside_one_that_was_inconclusive(spark: SparkSession) -> None:
    signs = {
        # What the tests of it say in the baseline and in the candidate, the worst first.
        "kept": ("pass", "inconclusive pass"),
        "lost": ("inconclusive pass", "n/a"),
        matrix.NO_REQUIREMENT: ("pass", "inconclusive"),
        "never": ("inconclusive n/a", "inconclusive"),
    }
    told = [
        (run_id, name, said.split())
        for name, both in signs.items()
        for run_id, said in zip("bc", both, strict=True)
    ]
    found = [
        {"run_id": run_id, "requirement": name, "level": "MUST", "outcome": said[0]}
        for run_id, name, said in told
    ]
    checks = [
        {
            "run_id": run_id,
            "requirements": [] if name == matrix.NO_REQUIREMENT else [name],
            "outcome": outcome,
        }
        for run_id, name, said in told
        for outcome in said
    ]
    lost = coverage.lost_requirements(
        rollup(spark, "requirements", *found),
        compared(spark, "b baseline", "c candidate"),
        rollup(spark, "checks", *checks),
    ).collect()
    assert list(map(tuple, lost)) == [(KEY, "requirement", "lost", "MUST", "b", "n/a")]


def test_pair_that_the_baseline_tried_and_the_candidate_did_not_is_lost(spark: SparkSession) -> None:
    runs = compared(spark, "b baseline", "c candidate", "d baseline 1.0 idle", "e candidate 1.1 idle")
    found = rollup(
        spark,
        "coverage",
        pair("b", "open", "INIT", 70),
        pair("c", "open", "INIT", 90),
        pair("b", "open", "OPEN", 30),
        pair("c", "open", "OPEN", 0),
        pair("b", "open", "CLOSE"),
        pair("b", "never", "PUSH", 0),
        # Nothing was fuzzed by the candidate of this key.
        pair("d", "open", "INIT"),
    )
    assert sorted(map(tuple, coverage.lost_pairs(found, runs).collect())) == [
        (KEY, "pair", "CLOSE in open", "", "b", "not planned"),
        (KEY, "pair", "OPEN in open", "", "b", "not reached"),
    ]


SHORT: Mapping[tuple[int, int], bool] = {
    # Cases of the candidate and of the baseline; whether the pair is lost.
    # One in ten cases tried it, so of 40 it should have been four.
    (40, 9): True,
    (20, 9): False,
    # With so many cases each run of the baseline got to the last pairs, the candidate did not.
    (40, 90): False,
    # Nothing was reached at all.
    (0, 9): True,
}


@pytest.fixture(scope="module")
def lost_of(spark: SparkSession) -> set[tuple[str, str]]:
    """Returns key and name of what was lost, from one question for all; the key is the place in ``SHORT``."""
    found, lines = [], []
    for key, (cases_c, cases_b) in enumerate(SHORT):
        found += [pair(f"b{key}", "open", "INIT", cases_b), pair(f"b{key}", "open", "OPEN", cases_b // 9)]
        found += [pair(f"c{key}", "open", "INIT", cases_c), pair(f"c{key}", "open", "OPEN", 0)]
        lines += [f"b{key} baseline 1.0 {key}", f"c{key} candidate 1.1 {key}"]
    lost = coverage.lost_pairs(rollup(spark, "coverage", *found), compared(spark, *lines)).collect()
    return {(row["key"], row["name"]) for row in lost}


@pytest.mark.parametrize("cases", SHORT)
def test_pair_that_short_campaigns_miss_by_chance_is_not_lost(
    lost_of: set[tuple[str, str]], cases: tuple[int, int]
) -> None:
    assert ((str(list(SHORT).index(cases)), "OPEN in open") in lost_of) is SHORT[cases]


def test_pair_that_only_some_runs_get_to_is_not_lost(spark: SparkSession) -> None:
    reached = {"b0": 50, "b1": 0, "b2": 0, "c0": 0, "c1": 0}
    found = rollup(
        spark,
        "coverage",
        *(pair(run_id, "open", "INIT", 100) for run_id in reached),
        *(pair(run_id, "open", "OPEN", count) for run_id, count in reached.items()),
    )
    lines = [f"{run_id} {'baseline' if run_id[0] == 'b' else 'candidate'}" for run_id in reached]
    assert coverage.lost_pairs(found, compared(spark, *lines)).collect() == []


def test_missing_columns_are_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column outcome, tests"):
        coverage.coverage_by_run(compared(spark, "a candidate"), rollup(spark, "coverage"))
