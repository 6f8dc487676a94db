import itertools
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame

from spark_reports import matrix, rows
from spark_reports.columns import MissingColumns

Frame = Callable[..., DataFrame]
Verdict = Callable[..., rows.VerdictRow]
Run = Callable[..., rows.RunRow]


def outcome_of(frame: Frame, verdict_row: Verdict, *outcomes: str) -> str:
    verdicts = frame(*(verdict_row(outcome, test=f"t{number}") for number, outcome in enumerate(outcomes)))
    (row,) = matrix.requirement_outcomes(verdicts).collect()
    return str(row["outcome"])


def test_worst_outcome_wins_in_every_pair(frame: Frame, verdict_row: Verdict) -> None:
    pairs = list(itertools.combinations(matrix.WORST_FIRST, 2))
    verdicts = [
        verdict_row(outcome, (f"ZN-X-{number}",), test=outcome)
        for number, pair in enumerate(pairs)
        for outcome in reversed(pair)
    ]
    got = {
        row["requirement"]: row["outcome"] for row in matrix.requirement_outcomes(frame(*verdicts)).collect()
    }
    assert got == {f"ZN-X-{number}": worse for number, (worse, _) in enumerate(pairs)}


def test_every_outcome_has_its_place() -> None:
    assert matrix.WORST_FIRST == ("fail", "inconclusive", "warning", "deviation", "pass", "n/a")
    assert set(matrix.WORST_FIRST) == set(rows.OUTCOMES)


def test_not_applicable_alone_is_not_passed(frame: Frame, verdict_row: Verdict) -> None:
    assert outcome_of(frame, verdict_row, "n/a", "n/a") == "n/a"


def test_outcome_that_is_none_counts_as_inconclusive(frame: Frame, verdict_row: Verdict) -> None:
    assert outcome_of(frame, verdict_row, "splendid", "pass") == "inconclusive"


def test_test_of_two_requirements_counts_for_both(frame: Frame, verdict_row: Verdict) -> None:
    verdicts = frame(
        verdict_row("fail", ("ZN-INIT-001", "ZN-OPEN-002"), level="SHOULD"),
        verdict_row("pass", ("ZN-OPEN-002",), level="MUST", test="b"),
        verdict_row("pass", (), test="c"),
        verdict_row("pass", ("odd",), test="d"),
    )
    got = matrix.requirement_outcomes(verdicts).orderBy("requirement").collect()
    assert [(row["requirement"], row["area"], row["level"], row["outcome"], row["tests"]) for row in got] == [
        ("(none)", "other", "MUST", "pass", 1),
        ("ZN-INIT-001", "INIT", "SHOULD", "fail", 1),
        ("ZN-OPEN-002", "OPEN", "MUST", "fail", 2),
        ("odd", "other", "MUST", "pass", 1),
    ]


def test_outcomes_are_counted_per_run(frame: Frame, verdict_row: Verdict) -> None:
    verdicts = frame(
        verdict_row("pass", ("a",)), verdict_row("n/a", ("b",)), verdict_row("pass", ("a",), run_id="r2")
    )
    counted = matrix.outcomes_by_run(matrix.requirement_outcomes(verdicts)).orderBy("run_id").collect()
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
    )


def test_newest_outcome_holds_for_a_version(frame: Frame, verdict_row: Verdict, history: DataFrame) -> None:
    verdicts = frame(
        verdict_row("fail", run_id="r1"),
        verdict_row("pass", run_id="r2"),
        verdict_row("fail", run_id="r3"),
        verdict_row("warning", run_id="r4"),
    )
    outcomes = matrix.requirement_outcomes(verdicts)
    got = matrix.outcomes_by_version(outcomes, history).orderBy("node_version").collect()
    assert [(r["node_version"], r["outcome"], r["run_id"], r["runs"], r["other"]) for r in got] == [
        ("1.10.2", "pass", "r2", 3, ["fail"]),
        ("1.5.1", "warning", "r4", 1, []),
    ]


def test_partial_run_keeps_older_outcomes(frame: Frame, verdict_row: Verdict, history: DataFrame) -> None:
    verdicts = frame(verdict_row("fail", ("a",), run_id="r1"), verdict_row("pass", ("b",), run_id="r2"))
    got = matrix.outcomes_by_version(matrix.requirement_outcomes(verdicts), history).collect()
    assert {row["requirement"]: row["outcome"] for row in got} == {"a": "fail", "b": "pass"}


def test_change_is_against_the_last_run_that_tried(
    frame: Frame, verdict_row: Verdict, history: DataFrame
) -> None:
    verdicts = frame(
        verdict_row("pass", ("a",), run_id="r1"),
        verdict_row("pass", ("b",), run_id="r1"),
        verdict_row("fail", ("b",), run_id="r3"),
        verdict_row("fail", ("a",), run_id="r2"),
        verdict_row("fail", ("b",), run_id="r2"),
        verdict_row("pass", ("new",), run_id="r2"),
        verdict_row("pass", ("a",), run_id="r4"),
    )
    (row,) = matrix.changes(matrix.requirement_outcomes(verdicts), history).collect()
    assert row.asDict() == {
        "node": "pypi",
        "requirement": "a",
        "level": "MUST",
        "before": "pass",
        "after": "fail",
        "before_run": "r1",
        "after_run": "r2",
        "before_version": "1.10.2",
        "after_version": "1.10.2",
    }


def test_troubles_are_those_behind_the_newest_outcome(
    frame: Frame, verdict_row: Verdict, history: DataFrame
) -> None:
    verdicts = frame(
        verdict_row("fail", ("a",), run_id="r1", test="old"),
        verdict_row("pass", ("a",), run_id="r2", test="old"),
        verdict_row("warning", ("a", "b"), run_id="r2", test="now"),
        verdict_row("n/a", ("c",), run_id="r2", reason="no multicast"),
        verdict_row("deviation", ("a",), run_id="r4", test="old"),
    )
    newest = matrix.newest_verdicts(verdicts, history)
    got = matrix.troubles(newest).orderBy("test").collect()
    assert [(row["test"], row["outcome"], row["node_version"]) for row in got] == [
        ("now", "warning", "1.10.2"),
        ("old", "deviation", "1.5.1"),
    ]
    assert [tuple(row) for row in matrix.not_applicable(newest).collect()] == [("no multicast", 1)]


def test_missing_columns_are_refused_at_the_door(frame: Frame, run_row: Run) -> None:
    with pytest.raises(MissingColumns, match="no column test, requirements"):
        matrix.requirement_outcomes(frame(run_row()))
