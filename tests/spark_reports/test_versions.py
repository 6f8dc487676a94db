from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from conformance.deviations.versions import version_key as key_in_python
from spark_reports import rows
from spark_reports.frames import statistics
from spark_reports.frames.columns import MissingColumns
from spark_reports.frames.versions import (
    MET,
    first_bad,
    first_differs,
    nodes_in_order,
    parse_version,
    version_key,
)
from tests.spark_reports.frames import local_frame

Frame = Callable[..., DataFrame]
Verdict = Callable[..., rows.VerdictRow]
Run = Callable[..., rows.RunRow]
Seen = tuple[str, str, Mapping[str, Any]]
Found = Mapping[str, list[Row]]

CASES: dict[str, Sequence[Seen]] = {}
"""What stands above the tests that look at it: outcome, run and more of each verdict. A case is an implementation."""

OF_RUNS: dict[str, Mapping[str, Any]] = {}
"""What is said of a run besides its version, the first word of its name, by case and name."""


def saw(outcome: str, run: str, **values: Any) -> Seen:
    return outcome, run, values


def add(case: str, *seen: Seen, **runs: Mapping[str, Any]) -> str:
    """Adds a case; the first run that is named is the oldest one, unless ``runs`` say what day they are of."""
    CASES[case] = seen
    OF_RUNS.update({f"{case}/{run}": values for run, values in runs.items()})
    return case


@pytest.fixture(scope="module")
def frames(frame: Frame, run_row: Run, verdict_row: Verdict) -> tuple[DataFrame, DataFrame]:
    """Returns the verdicts and the runs of all cases."""
    runs, verdicts = [], []
    for case, seen in CASES.items():
        for day, run in enumerate(dict.fromkeys(run for _, run, _ in seen), start=1):
            standard = {"day": day, "node_impl": case, "node_version": run.partition(" ")[0]}
            runs.append(run_row(f"{case}/{run}", **{**standard, **OF_RUNS.get(f"{case}/{run}", {})}))
        verdicts += [verdict_row(outcome, run_id=f"{case}/{run}", **values) for outcome, run, values in seen]
    return frame(*verdicts), frame(*runs)


def by_case(found: DataFrame) -> Found:
    cases: dict[str, list[Row]] = {case: [] for case in CASES}
    for row in found.collect():
        cases[row["node_impl"]].append(row)
    return cases


@pytest.fixture(scope="module")
def differs(frames: tuple[DataFrame, DataFrame]) -> Found:
    """Returns what differs, from one question for all cases."""
    return by_case(first_differs(*frames))


COLUMNS = ("requirement", "oldest", "newest", "versions", "first", "before", "after", "differing")


def of(found: Iterable[Row], columns: Sequence[str] = COLUMNS) -> list[tuple[Any, ...]]:
    ordered = sorted(found, key=lambda row: str(row[columns[0]]))
    return [tuple(row[name] for name in columns) for row in ordered]


ORDER = add(
    "order",
    # 1.10.0 comes first as text, and its run is the oldest.
    saw("pass", "1.10.0"),
    saw("fail", "1.0.4", seen="CLOSE"),
    saw("fail", "1.9.0", seen="CLOSE"),
    saw("pass", "1.10.2"),
    saw("fail", "1.5.1", seen="CLOSE"),
)


def test_first_release_that_differs_is_found_in_the_order_of_versions(differs: Found) -> None:
    assert of(differs[ORDER]) == [("ZN-INIT-001", "1.0.4", "1.10.2", 5, "1.10.0", "CLOSE", MET, 1)]


ANSWER = add(
    "answer",
    saw("fail", "1.0.0", seen="CLOSE"),
    saw("deviation", "1.1.0", seen="CLOSE"),
    saw("warning", "1.2.0", seen="CLOSE"),
    saw("deviation", "1.3.0", seen="nothing"),
    saw("fail", "1.4.0", seen="the requirement is met", reason=rows.STALE),
)


def test_other_answer_is_a_difference_and_another_outcome_for_the_same_is_none(differs: Found) -> None:
    assert of(differs[ANSWER]) == [("ZN-INIT-001", "1.0.0", "1.4.0", 5, "1.3.0", "CLOSE", "nothing", 2)]


PASSED_OVER = add(
    "passed over",
    saw("n/a", "1.0.0", seen=""),
    saw("pass", "1.1.0"),
    saw("inconclusive", "1.2.0", seen="what"),
    saw("pass", "1.3.0"),
    saw("fail", "unknown"),
)


def test_release_that_cannot_show_it_is_passed_over(differs: Found) -> None:
    assert of(differs[PASSED_OVER]) == [("ZN-INIT-001", "1.1.0", "1.3.0", 2, None, None, None, 0)]


BOTH = ("ZN-A-001", "ZN-B-002")
ONE_BY_ONE = add(
    "one by one",
    saw("pass", "1.0.0", requirements=BOTH, test="a"),
    saw("fail", "1.1.0", requirements=BOTH, test="a"),
    saw("fail", "1.0.0", requirements=BOTH[:1], test="b", seen="x"),
    saw("fail", "1.1.0", requirements=BOTH[:1], test="b", seen="x"),
    saw("fail", "1.1.0", requirements=BOTH[:1], test="c", seen="y"),
)


def test_tests_are_compared_one_by_one_and_count_for_all_their_requirements(differs: Found) -> None:
    columns = ("requirement", "first", "test")
    assert of(differs[ONE_BY_ONE], columns) == [("ZN-A-001", "1.1.0", "a"), ("ZN-B-002", "1.1.0", "a")]


AGAIN = add("again", saw("fail", "1.0.0"), saw("pass", "1.0.0 again"), saw("pass", "1.1.0"))


def test_newest_run_of_a_release_counts(differs: Found) -> None:
    assert of(differs[AGAIN], ("versions", "first")) == [(2, None)]


# The name of a run says nothing of its age, and decides between runs that began at once, whichever comes first.
NAMED = add("named", saw("fail", "1.0.0 b"), saw("pass", "1.0 a"), saw("pass", "1.1.0"))
AT_ONCE = [
    add(
        f"at once, {' '.join(names)}",
        *(saw("pass" if name == "b" else "fail", f"1.0.0 {name}", seen="CLOSE") for name in names),
        saw("pass", "1.1.0"),
        **{f"1.0.0 {name}": {"day": 1} for name in names},
    )
    for names in ("ab", "ba")
]


@pytest.mark.parametrize("case", [NAMED, *AT_ONCE])
def test_of_runs_of_one_release_the_last_begun_counts_or_that_whose_name_is_last(
    differs: Found, case: str
) -> None:
    assert of(differs[case], ("versions", "first")) == [(2, None)]


def test_release_that_is_written_in_two_ways_has_the_first_name_of_them(differs: Found) -> None:
    assert of(differs[NAMED], ("oldest",)) == [("1.0",)]


KINDS = ("node_whatami", "environment", "configuration")
for _kind in KINDS:
    add(_kind, saw("fail", "1.0.0"), saw("pass", "1.1.0"), **{"1.1.0": {_kind: "other"}})


@pytest.mark.parametrize("what", KINDS)
def test_runs_of_another_kind_are_kept_apart(differs: Found, what: str) -> None:
    assert of(differs[what], ("versions", "first")) == [(2, None)]


OURS, THEIRS = add("ours", saw("fail", "1.0.0")), add("theirs", saw("pass", "1.1.0"))


def test_implementations_are_kept_apart(differs: Found) -> None:
    for impl in (OURS, THEIRS):
        assert of(differs[impl], ("versions", "first")) == [(1, None)]


def test_order_of_versions_is_that_of_the_deviations(spark: SparkSession) -> None:
    texts = [
        "1.10.0",
        "1.9.0",
        "1.10",
        "1",
        "v1.2",
        "1.0.0rc1",
        "1.0.0-rc.2",
        "1.0.0-alpha",
        "1.0.0.dev5",
        "1.0.0b1",
    ]
    texts += [
        "1.0.0.post1",
        "1.0.0+build",
        "1.0.0-12-g0a1b2c3",
        "v1.0.0-9-gabcdef0",
        "1.0.0-rc.2-3-gabcd",
        "1.0.0-12-g0a1b2c3-dirty",
        "1.0.0-12",
        "1234567",
        "v1234567",
        "12b3456",
        "20261128",
        "unknown",
        "",
        "1.0.0-dirty",
        "1..0",
        "1.x",
        "0",
        "0.0",
        "00.1",
        "10.0.0",
    ]
    frame = local_frame(spark, [(text,) for text in texts], "version string")
    got = frame.withColumn("key", version_key(sf.col("version"))).withColumn(
        "rank", sf.when(sf.col("key").isNotNull(), sf.struct("key"))
    )
    ordered = [row["version"] for row in got.where("key is not null").orderBy("key", "version").collect()]
    keys = {text: key for text in texts if (key := key_in_python(text)) is not None}
    assert ordered == sorted(keys, key=lambda text: (keys[text], text))
    assert {text: parse_version(text) for text in texts} == {text: key_in_python(text) for text in texts}


def test_nodes_are_sorted_by_name_and_version() -> None:
    nodes = ["zenoh-pico 1.0.0", "eclipse-zenoh 1.10.2", "eclipse-zenoh 1.9.0", "eclipse-zenoh unknown"]
    assert nodes_in_order(nodes) == [*nodes[:0:-1], nodes[0]]


def test_missing_columns_are_refused_at_the_door(frame: Frame, run_row: Run, verdict_row: Verdict) -> None:
    with pytest.raises(MissingColumns, match="no column test, requirements"):
        first_differs(frame(run_row()), frame(run_row()))
    with pytest.raises(MissingColumns, match="no column started_at"):
        first_differs(frame(verdict_row()), frame(verdict_row()))


HISTORIES: Mapping[str, tuple[str, tuple[object, ...]]] = {
    # Outcomes by version, oldest first: P and F are runs that passed and failed, ? one that could not say. What is
    # told: good, bad, fixed, between, runs of the good version, runs and failures since the bad one.
    "breaks": ("1.8.0 P, 1.9.0 P, 1.10.0 F, 1.11.0 F", ("1.9.0", "1.10.0", "", [], 1, 2, 2)),
    "is mended": ("1.8.0 P, 1.9.0 F, 1.10.0 P, 1.11.0 P", ("1.8.0", "1.9.0", "1.10.0", [], 1, 1, 1)),
    "was always broken": ("1.8.0 F, 1.9.0 F", ("", "1.8.0", "", [], 0, 2, 2)),
    "breaks again": ("1.8.0 F, 1.9.0 P, 1.10.0 F", ("1.9.0", "1.10.0", "", [], 1, 1, 1)),
    # Fails in every other run: a version needs five runs to be clean, and one behind it as well.
    "now and then": (
        "1.7.0 PPPPP, 1.8.0 PP, 1.8.1 P, 1.9.0 FPFP, 1.10.0 P, 1.11.0 PPPPP",
        ("1.7.0", "1.9.0", "1.11.0", ["1.8.0", "1.8.1"], 5, 4, 2),
    ),
    "between two failing": (
        "1.7.0 PPPPPPPPPPP, 1.8.0 FP, 1.9.0 P, 1.10.0 PF",
        ("1.7.0", "1.8.0", "", [], 11, 5, 2),
    ),
    # The float next to 1 is not far enough from it to tell that it is not.
    "breaks after many": (
        "1.8.0 PPPPPPPPPPPP, 1.9.0 FFFFFFFFFFFFFFF",
        ("1.8.0", "1.9.0", "", [], 12, 15, 15),
    ),
    "could not say": ("1.8.0 P, 1.9.0 ?, 1.10.0 F", ("1.8.0", "1.10.0", "", [], 1, 1, 1)),
}


@pytest.fixture(scope="module")
def since(frames: tuple[DataFrame, DataFrame]) -> Found:
    """Returns since when each test fails, from one question for all cases."""
    return by_case(first_bad(*frames))


BUILDS = (("1.0-12-gaaaa", "1.0-12-gbbbb"), ("1.0-12-gbbbb", "1.0-12-gaaaa"))
"""A good one and a bad one, the first of which came up first."""

for _builds in BUILDS:
    add(
        " ".join(_builds),
        *(
            saw(outcome, f"{build} {turn}", seen="CLOSE")
            for turn in range(3)
            for build, outcome in zip(_builds, ("pass", "fail"), strict=True)
        ),
    )


@pytest.mark.parametrize("builds", BUILDS)
def test_builds_of_as_many_commits_are_told_apart_in_the_order_they_came_up_in(
    since: Found, differs: Found, builds: tuple[str, str]
) -> None:
    case = " ".join(builds)
    assert of(since[case], ("good", "bad", "runs_good", "runs_bad")) == [(*builds, 3, 3)]
    assert of(differs[case], ("oldest", "newest", "versions", "first")) == [(*builds, 2, builds[1])]


_SIGNS = {"P": "pass", "F": "fail", "?": "inconclusive"}
BEGINS = add(
    "begins",
    *(
        saw(_SIGNS[sign], f"{part.split()[0]} {place}", test=test)
        for test, (text, _) in HISTORIES.items()
        for part in text.split(", ")
        for place, sign in enumerate(part.split()[1])
    ),
    saw("fail", "unknown", test="breaks"),
    saw("fail", "mutant", test="breaks"),
    # Nothing on another machine says what happened here.
    saw("fail", "elsewhere", test="breaks"),
    saw("pass", "1.8.0 0", test="never fails"),
    saw("fail", "1.8.0 0", test="is met by now", reason=rows.STALE),
    mutant={"node": "ref:ZN-INIT-001", "node_version": "1.9.0"},
    elsewhere={"environment": "another machine", "node_version": "1.9.0"},
)


@pytest.fixture(scope="module")
def begun(since: Found) -> Mapping[str, Mapping[str, object]]:
    return {row["test"] + (" elsewhere" if row["environment"] else ""): row.asDict() for row in since[BEGINS]}


@pytest.mark.parametrize("test", HISTORIES)
def test_pair_between_which_it_broke(begun: Mapping[str, Mapping[str, object]], test: str) -> None:
    names = ("good", "bad", "fixed", "between", "runs_good", "runs_bad", "failed_bad")
    assert tuple(begun[test][name] for name in names) == HISTORIES[test][1]


def test_pair_is_told_with_its_confidence(begun: Mapping[str, Mapping[str, object]]) -> None:
    for test in HISTORIES:
        row = begun[test]
        runs, failed, good = row["runs_bad"], row["failed_bad"], row["runs_good"]
        assert isinstance(runs, int)
        assert isinstance(failed, int)
        assert isinstance(good, int)
        assert row["confidence"] == pytest.approx(statistics.would_have_shown(runs, failed, good)), test
        assert isinstance(row["confidence"], float)
        assert row["confidence"] < 1, test
        assert row["clean_needed"] == statistics.runs_to_see(failed / runs), test


def test_what_never_failed_or_failed_elsewhere_has_no_pair_here(
    begun: Mapping[str, Mapping[str, object]],
) -> None:
    assert set(begun) == {*HISTORIES, "breaks elsewhere"}
    assert (begun["breaks elsewhere"]["good"], begun["breaks elsewhere"]["confidence"]) == ("", 0.0)
