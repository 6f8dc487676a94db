from collections.abc import Callable, Mapping, Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession
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

Frame = Callable[..., DataFrame]
Verdict = Callable[..., rows.VerdictRow]
Run = Callable[..., rows.RunRow]
Rows = Callable[..., list[tuple[object, ...]]]

COLUMNS = ("requirement", "oldest", "newest", "versions", "first", "before", "after", "differing")


@pytest.fixture
def found(frame: Frame, run_row: Run) -> Rows:
    """Returns what differs, for verdicts on a run that is named like its version."""

    def make(*verdicts: rows.VerdictRow, columns: Sequence[str] = COLUMNS) -> list[tuple[object, ...]]:
        names = dict.fromkeys(verdict.run_id for verdict in verdicts)
        runs = [
            run_row(name, day, node_version=name.partition(" ")[0]) for day, name in enumerate(names, start=1)
        ]
        result = first_differs(frame(*verdicts), frame(*runs)).orderBy("node_impl", "requirement")
        return [tuple(row[name] for name in columns) for row in result.collect()]

    return make


def test_first_release_that_differs_is_found_in_the_order_of_versions(
    found: Rows, verdict_row: Verdict
) -> None:
    # 1.10.0 comes first as text, and its run is the oldest.
    assert found(
        verdict_row("pass", run_id="1.10.0"),
        verdict_row("fail", run_id="1.0.4", seen="CLOSE"),
        verdict_row("fail", run_id="1.9.0", seen="CLOSE"),
        verdict_row("pass", run_id="1.10.2"),
        verdict_row("fail", run_id="1.5.1", seen="CLOSE"),
    ) == [("ZN-INIT-001", "1.0.4", "1.10.2", 5, "1.10.0", "CLOSE", MET, 1)]


def test_other_answer_is_a_difference_and_another_outcome_for_the_same_is_none(
    found: Rows, verdict_row: Verdict
) -> None:
    assert found(
        verdict_row("fail", run_id="1.0.0", seen="CLOSE"),
        verdict_row("deviation", run_id="1.1.0", seen="CLOSE"),
        verdict_row("warning", run_id="1.2.0", seen="CLOSE"),
        verdict_row("deviation", run_id="1.3.0", seen="nothing"),
        verdict_row("fail", run_id="1.4.0", seen="the requirement is met", reason=rows.STALE),
    ) == [("ZN-INIT-001", "1.0.0", "1.4.0", 5, "1.3.0", "CLOSE", "nothing", 2)]


def test_release_that_cannot_show_it_is_passed_over(found: Rows, verdict_row: Verdict) -> None:
    assert found(
        verdict_row("n/a", run_id="1.0.0", seen=""),
        verdict_row("pass", run_id="1.1.0"),
        verdict_row("inconclusive", run_id="1.2.0", seen="what"),
        verdict_row("pass", run_id="1.3.0"),
        verdict_row("fail", run_id="unknown"),
    ) == [("ZN-INIT-001", "1.1.0", "1.3.0", 2, None, None, None, 0)]


def test_tests_are_compared_one_by_one_and_count_for_all_their_requirements(
    found: Rows, verdict_row: Verdict
) -> None:
    both = ("ZN-A-001", "ZN-B-002")
    columns = ("requirement", "first", "test")
    assert found(
        verdict_row("pass", both, run_id="1.0.0", test="a"),
        verdict_row("fail", both, run_id="1.1.0", test="a"),
        verdict_row("fail", ("ZN-A-001",), run_id="1.0.0", test="b", seen="x"),
        verdict_row("fail", ("ZN-A-001",), run_id="1.1.0", test="b", seen="x"),
        verdict_row("fail", ("ZN-A-001",), run_id="1.1.0", test="c", seen="y"),
        columns=columns,
    ) == [("ZN-A-001", "1.1.0", "a"), ("ZN-B-002", "1.1.0", "a")]


def test_newest_run_of_a_release_counts(found: Rows, verdict_row: Verdict) -> None:
    assert found(
        verdict_row("fail", run_id="1.0.0"),
        verdict_row("pass", run_id="1.0.0 again"),
        verdict_row("pass", run_id="1.1.0"),
        columns=("versions", "first"),
    ) == [(2, None)]


@pytest.mark.parametrize("what", ["node_whatami", "environment", "configuration"])
def test_runs_of_another_kind_are_kept_apart(
    frame: Frame, verdict_row: Verdict, run_row: Run, what: str
) -> None:
    runs = frame(run_row("r1", node_version="1.0.0"), run_row("r2", node_version="1.1.0", **{what: "other"}))
    verdicts = frame(verdict_row("fail", run_id="r1"), verdict_row("pass", run_id="r2"))
    (got,) = first_differs(verdicts, runs).collect()
    assert (got["versions"], got["first"]) == (2, None)


def test_implementations_are_kept_apart(frame: Frame, verdict_row: Verdict, run_row: Run) -> None:
    runs = frame(
        run_row("r1", node_version="1.0.0"),
        run_row("r2", node_version="1.1.0", node_impl="other"),
    )
    verdicts = frame(verdict_row("pass", run_id="r1"), verdict_row("fail", run_id="r2"))
    got = first_differs(verdicts, runs).orderBy("node_impl").collect()
    assert [(row["node_impl"], row["versions"], row["first"]) for row in got] == [
        ("eclipse-zenoh", 1, None),
        ("other", 1, None),
    ]


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
    frame = spark.createDataFrame([(text,) for text in texts], "version string")
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
    "could not say": ("1.8.0 P, 1.9.0 ?, 1.10.0 F", ("1.8.0", "1.10.0", "", [], 1, 1, 1)),
}


@pytest.mark.parametrize("builds", [("1.0-12-gaaaa", "1.0-12-gbbbb"), ("1.0-12-gbbbb", "1.0-12-gaaaa")])
def test_builds_of_as_many_commits_are_told_apart_in_the_order_they_came_up_in(
    frame: Frame, run_row: Run, verdict_row: Verdict, builds: tuple[str, str]
) -> None:
    signs = {builds[0]: "pass", builds[1]: "fail"}
    runs = [
        run_row(f"{build} {turn}", day + 2 * turn, node_version=build)
        for day, build in enumerate(builds, 1)
        for turn in range(3)
    ]
    verdicts = [verdict_row(signs[run.node_version], run_id=run.run_id, seen="CLOSE") for run in runs]
    (row,) = first_bad(frame(*verdicts), frame(*runs)).collect()
    assert (row["good"], row["bad"], row["runs_good"], row["runs_bad"]) == (*builds, 3, 3)
    (row,) = first_differs(frame(*verdicts), frame(*runs)).collect()
    assert (row["oldest"], row["newest"], row["versions"], row["first"]) == (*builds, 2, builds[1])


@pytest.fixture(scope="module")
def begun(
    frame: Callable[..., DataFrame], run_row: Run, verdict_row: Verdict
) -> Mapping[str, Mapping[str, object]]:
    """Returns since when each history fails, from one question for all."""
    runs, verdicts = {}, []
    for test, (text, _) in HISTORIES.items():
        for part in text.split(", "):
            version, signs = part.split()
            for place, sign in enumerate(signs):
                run_id = f"{version} {place}"
                runs[run_id] = run_row(run_id, node_version=version)
                outcome = {"P": "pass", "F": "fail", "?": "inconclusive"}[sign]
                verdicts.append(verdict_row(outcome, run_id=run_id, test=test))
    runs["unknown"] = run_row("unknown", node_version="unknown")
    runs["mutant"] = run_row("mutant", node="ref:ZN-INIT-001", node_version="1.9.0")
    runs["elsewhere"] = run_row("elsewhere", environment="another machine", node_version="1.9.0")
    verdicts += [
        verdict_row("fail", run_id="unknown", test="breaks"),
        verdict_row("fail", run_id="mutant", test="breaks"),
        # Nothing on another machine says what happened here.
        verdict_row("fail", run_id="elsewhere", test="breaks"),
        verdict_row("pass", run_id="1.8.0 0", test="never fails"),
        verdict_row("fail", run_id="1.8.0 0", test="is met by now", reason=rows.STALE),
    ]
    found = first_bad(frame(*verdicts), frame(*runs.values())).collect()
    return {row["test"] + (" elsewhere" if row["environment"] else ""): row.asDict() for row in found}


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
        assert row["clean_needed"] == statistics.runs_to_see(failed / runs), test


def test_what_never_failed_or_failed_elsewhere_has_no_pair_here(
    begun: Mapping[str, Mapping[str, object]],
) -> None:
    assert set(begun) == {*HISTORIES, "breaks elsewhere"}
    assert (begun["breaks elsewhere"]["good"], begun["breaks elsewhere"]["confidence"]) == ("", 0.0)
