"""Scores: what was found against what was planted."""

import types

import pytest

from spark_reports import recall, report
from spark_reports.recall import CLASSES, FLAKY, NEW_FAILURE, Score, Truth, score, table


def _truth(
    planted: dict[str, set[tuple[str, ...]]], either: dict[str, set[tuple[str, ...]]] | None = None
) -> Truth:
    return Truth(
        planted={name: frozenset(facts) for name, facts in planted.items()},
        either={name: frozenset(facts) for name, facts in (either or {}).items()},
        runs=1,
        rows=1,
        line_of={"r1": "router"},
    )


def _of(scores: tuple[Score, ...], name: str) -> Score:
    return next(one for one in scores if one.name == name)


def test_missed_and_wrong_ones_lower_recall_and_precision() -> None:
    truth = _truth({NEW_FAILURE: {("a",), ("b",), ("c",), ("d",)}})
    one = _of(score(truth, {NEW_FAILURE: {("a",), ("b",), ("c",), ("x",)}}), NEW_FAILURE)
    assert (one.recall, one.precision) == (0.75, 0.75)
    assert (one.missed, one.wrong) == ((("d",),), (("x",),))


def test_what_may_be_found_counts_neither_way() -> None:
    truth = _truth({FLAKY: {("a",)}}, {FLAKY: {("b",)}})
    for found in ({("a",)}, {("a",), ("b",)}):
        one = _of(score(truth, {FLAKY: found}), FLAKY)
        assert (one.recall, one.precision, one.wrong) == (1.0, 1.0, ())


def test_nothing_planted_and_nothing_found_is_whole() -> None:
    scores = score(_truth({}), {})
    assert [one.name for one in scores] == list(CLASSES)
    assert all((one.recall, one.precision) == (1.0, 1.0) for one in scores)


def test_class_that_is_not_known_is_refused() -> None:
    with pytest.raises(KeyError, match="slow"):
        score(_truth({}), {"slow": [("a",)]})


def test_report_is_read_in_the_words_of_the_truth(parts: types.SimpleNamespace) -> None:
    pair = report.Compared(
        key="k",
        node="eclipse-zenoh router",
        candidate=("r1",),
        baseline=("r0",),
        candidate_version="2",
        baseline_version="1",
    )
    trend = report.Trend(
        key="k", name="cases of data", unit="1/s", better="higher", points=(), drift="", status="slower"
    )
    made = parts.report(
        sets=report.SetInfo(pairs=(pair,)),
        trends=(trend,),
        mutants=(
            report.MutantLine(requirement="ZN-A-1", level="MUST", mutants=2, killed=1, alive=("ZN-A-1b",)),
            report.MutantLine(requirement="ZN-A-2", level="MUST", mutants=1, killed=1, alive=()),
        ),
        accounts=(
            report.AccountLine(
                run_id="r1", file="verdicts.jsonl", lines=6, good=3, apart=1, blank=1, footers=1
            ),
        ),
    )
    found = recall.found_in(made, _truth({}))
    assert found[recall.SLOWER] == {("router", "cases of data")}
    assert found[recall.ALIVE] == {("ZN-A-1",)}
    assert found[recall.KILLED] == {("ZN-A-2",)}
    assert found[recall.ACCOUNT] == {("r1", "verdicts.jsonl", "6", "3", "1", "1", "1")}
    assert set(found) == set(CLASSES)


def test_table_has_a_line_for_each_class() -> None:
    lines = table(score(_truth({FLAKY: {("a",)}}), {})).splitlines()
    assert len(lines) == 1 + len(CLASSES)
    assert [line.split() for line in lines if line.startswith("flaky")] == [
        ["flaky", "1", "0", "1.000", "0.000"]
    ]
