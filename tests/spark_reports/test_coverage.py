from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_reports.frames import coverage, matrix
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import KEY, Cases, compared, rollup


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


Told = Mapping[str, list[dict[str, Any]]]

REQUIREMENTS, PAIRS, CHECKS = Cases(), Cases(), Cases()
"""What stands above the tests that look at it; checks are of the requirements of a case."""


@pytest.fixture(scope="module")
def lost(spark: SparkSession) -> Told:
    """Returns the requirements that were lost, from one question for all cases."""
    requirements, checks = REQUIREMENTS.rows(spark, "requirements"), CHECKS.rows(spark, "checks")
    return Cases.told(coverage.lost_requirements(requirements, REQUIREMENTS.runs(spark), checks))


@pytest.fixture(scope="module")
def lost_pairs(spark: SparkSession) -> Told:
    return Cases.told(coverage.lost_pairs(PAIRS.rows(spark, "coverage"), PAIRS.runs(spark)))


def said(
    run_id: str, requirement: str, outcome: str, level: str = "MUST", tests: int = 1
) -> dict[str, object]:
    return {
        "run_id": run_id,
        "requirement": requirement,
        "level": level,
        "outcome": outcome,
        "tests": tests,
    }


SELECTED = REQUIREMENTS.add(
    "selected",
    ["b0 baseline", "c1 candidate"],
    [
        said(run_id, name, sign[0], tests=sign[1])
        for name, both in {
            # Outcome and number of tests of b0 and c1.
            "left out": (("pass", 2), None),
            "one of two selected": (("pass", 2), ("n/a", 1)),
            "all selected": (("pass", 2), ("n/a", 2)),
        }.items()
        for run_id, sign in zip(("b0", "c1"), both, strict=True)
        if sign
    ],
    selected_only=True,
)


def test_requirement_of_tests_that_were_not_selected_is_not_lost(lost: Told) -> None:
    assert [(row["name"], row["why"]) for row in lost[SELECTED]] == [("all selected", "n/a")]


MUST = REQUIREMENTS.add(
    "must",
    [
        "b0 baseline",
        "b1 baseline",
        "c1 candidate",
        "c2 candidate",
        "x candidate 1.1 alone",
        "y baseline 1.0 over",
    ],
    [
        *(
            said(run_id, name, outcome, level)
            for (name, level), outcomes in {
                # Outcomes of b0, b1, c1 and c2; empty where it was not run.
                ("lost", "MUST"): ("pass", "", "", ""),
                ("fails to say", "MUST NOT"): ("pass", "fail", "n/a", "inconclusive"),
                ("kept", "MUST"): ("pass", "pass", "fail", "n/a"),
                ("never said", "MUST"): ("n/a", "", "n/a", "n/a"),
                ("should", "SHOULD"): ("pass", "pass", "", ""),
                ("new", "MUST"): ("", "", "pass", "pass"),
                (matrix.NO_REQUIREMENT, "MUST"): ("pass", "pass", "", ""),
            }.items()
            for run_id, outcome in zip(("b0", "b1", "c1", "c2"), outcomes, strict=True)
            if outcome
        ),
        # Keys that have one side only.
        *(said(run_id, "lost", "pass") for run_id in "xy"),
    ],
)


def test_must_that_no_candidate_run_judges_is_lost(lost: Told) -> None:
    assert sorted(tuple(row.values()) for row in lost[MUST]) == [
        (KEY, "requirement", "fails to say", "MUST NOT", "b1", "inconclusive"),
        (KEY, "requirement", "lost", "MUST", "b0", "not run"),
    ]


BESIDE: Mapping[str, tuple[str, str]] = {
    # What the tests of it say in the baseline and in the candidate, the worst first.
    "kept": ("pass", "inconclusive pass"),
    "lost": ("inconclusive pass", "n/a"),
    matrix.NO_REQUIREMENT: ("pass", "inconclusive"),
    "never": ("inconclusive n/a", "inconclusive"),
}
_SAID = [
    (run_id, name, outcomes.split())
    for name, both in BESIDE.items()
    for run_id, outcomes in zip("bc", both, strict=True)
]
JUDGED = REQUIREMENTS.add(
    "judged",
    ["b baseline", "c candidate"],
    (said(run_id, name, outcomes[0]) for run_id, name, outcomes in _SAID),
)
CHECKS.add(
    JUDGED,
    (),
    (
        {
            "run_id": run_id,
            "requirements": [] if name == matrix.NO_REQUIREMENT else [name],
            "outcome": outcome,
        }
        for run_id, name, outcomes in _SAID
        for outcome in outcomes
    ),
)


def test_requirement_is_judged_by_a_test_beside_one_that_was_inconclusive(lost: Told) -> None:
    assert [tuple(row.values()) for row in lost[JUDGED]] == [(KEY, "requirement", "lost", "MUST", "b", "n/a")]


def test_without_checks_what_was_inconclusive_is_lost(spark: SparkSession) -> None:
    requirements = rollup(spark, "requirements", said("b", "a", "pass"), said("c", "a", "inconclusive"))
    (row,) = coverage.lost_requirements(requirements, compared(spark, "b baseline", "c candidate")).collect()
    assert (row["name"], row["why"]) == ("a", "inconclusive")


TRIED = PAIRS.add(
    "tried",
    ["b baseline", "c candidate", "d baseline 1.0 idle", "e candidate 1.1 idle"],
    [
        pair("b", "open", "INIT", 70),
        pair("c", "open", "INIT", 90),
        pair("b", "open", "OPEN", 30),
        pair("c", "open", "OPEN", 0),
        pair("b", "open", "CLOSE"),
        pair("b", "never", "PUSH", 0),
        # Nothing was fuzzed by the candidate of this key.
        pair("d", "open", "INIT"),
    ],
)


def test_pair_that_the_baseline_tried_and_the_candidate_did_not_is_lost(lost_pairs: Told) -> None:
    assert sorted(tuple(row.values()) for row in lost_pairs[TRIED]) == [
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
for _cases_c, _cases_b in SHORT:
    PAIRS.add(
        f"{_cases_c}-{_cases_b}",
        ["b baseline", "c candidate"],
        [
            *(pair("b", "open", "INIT", _cases_b), pair("b", "open", "OPEN", _cases_b // 9)),
            *(pair("c", "open", "INIT", _cases_c), pair("c", "open", "OPEN", 0)),
        ],
    )


@pytest.mark.parametrize("cases", SHORT)
def test_pair_that_short_campaigns_miss_by_chance_is_not_lost(
    lost_pairs: Told, cases: tuple[int, int]
) -> None:
    lost = [row["name"] for row in lost_pairs.get("{}-{}".format(*cases), ())]
    assert ("OPEN in open" in lost) is SHORT[cases]


SOME = {"b0": 50, "b1": 0, "b2": 0, "c0": 0, "c1": 0}
PAIRS.add(
    "some",
    [f"{run_id} {'baseline' if run_id[0] == 'b' else 'candidate'}" for run_id in SOME],
    [
        *(pair(run_id, "open", "INIT", 100) for run_id in SOME),
        *(pair(run_id, "open", "OPEN", count) for run_id, count in SOME.items()),
    ],
)


def test_pair_that_only_some_runs_get_to_is_not_lost(lost_pairs: Told) -> None:
    assert "some" not in lost_pairs


def test_missing_columns_are_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column outcome, tests"):
        coverage.coverage_by_run(compared(spark, "a candidate"), rollup(spark, "coverage"))
