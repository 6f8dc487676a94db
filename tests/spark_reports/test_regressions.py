"""Each history of a check, in letters: what it says about the candidate.

P pass, F fail, W warning, D deviation, S stale deviation, n n/a, i inconclusive, B tries that disagree, - not run. What
stands before a | was seen on the version of the baseline, in a run that is none of it.
"""

from collections.abc import Mapping

import pytest
from pyspark.sql import Row, SparkSession

from spark_reports import rows
from spark_reports.frames import regressions, statistics
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import KEY, compared, rollup

RUNS = 10

ROLES = {"h": "history 1.0", "b": "baseline", "c": "candidate"}

OUTCOMES = {
    "P": ["pass"],
    "F": ["fail"],
    "W": ["warning"],
    "D": ["deviation"],
    "S": ["fail"],
    "n": ["n/a"],
    "i": ["inconclusive"],
    "B": ["fail", "pass", "fail", "fail"],
    "-": [],
}

HISTORIES: Mapping[str, tuple[str, str, str, str]] = {
    # Baseline and candidate, oldest run first; status; certainty.
    "breaks": ("PPPPP", "F", "new failure", "deterministic"),
    "breaks in all runs": ("PPPPPPPP", "FFF", "new failure", "deterministic"),
    "breaks after few runs": ("PPPP", "F", "new failure", "assumed"),
    "is mended": ("F", "PPPPP", "fixed", "deterministic"),
    "is mended, few runs": ("FFF", "PPPP", "fixed", "assumed"),
    "stays broken": ("FFF", "F", "still failing", "deterministic"),
    "stays whole": ("PP", "PPP", "unchanged", "deterministic"),
    "fails with a warning": ("PPPPP", "W", "no longer passes", "deterministic"),
    "fails as is known": ("PPPPP", "D", "no longer passes", "deterministic"),
    "needs its deviation no more": ("DDDDD", "S", "unchanged", "deterministic"),
    "cannot say": ("nn", "n", "n/a everywhere", "deterministic"),
    "cannot say and was not run": ("n-", "-", "n/a everywhere", "deterministic"),
    "is inconclusive in both": ("ii", "ii", "n/a everywhere", "deterministic"),
    "passed long ago and says nothing in either": ("P|nn", "in", "n/a everywhere", "deterministic"),
    "is inconclusive and was not run before": ("--", "i", "n/a everywhere", "deterministic"),
    "is not run": ("PPPPP", "---", "not run", "deterministic"),
    "failed and is not run": ("FFFFF", "---", "not run", "deterministic"),
    "failed and is n/a now": ("FFFFF", "n", "not run", "deterministic"),
    "failed and is inconclusive now": ("FFFFF", "ii", "not run", "deterministic"),
    "is new": ("---", "P", "new check", "deterministic"),
    "is new and fails": ("---", "F", "new check", "deterministic"),
    "was n/a before": ("nnn", "F", "new failure", "assumed"),
    "was n/a before and passes": ("nnn", "P", "new check", "deterministic"),
    "breaks behind runs that could not say": ("PPPPP|iiiii", "FFFFF", "new failure", "assumed"),
    "stays broken behind runs that could not say": ("PF|ii", "FF", "still failing", "assumed"),
    "passes again behind runs that could not say": ("F|ii", "PP", "fixed", "assumed"),
    "passes behind runs that could not say": ("PP|ii", "PP", "unchanged", "deterministic"),
    "fails now and then": ("PPFPPPFP", "PPPFPP", "flaky", "statistical"),
    "begins to fail now and then": ("PPPPPPPPPP", "PPPPF", "flaky", "statistical"),
    "fails half of the time": ("PPPPPPPPPP", "PFFPPFPFFP", "flaky", "statistical"),
    "fails half of the time behind many runs": (
        "PPPPPPPPPP|PPPPPPPPPP",
        "PFFPPFPFFP",
        "new failure",
        "statistical",
    ),
    "fails half of the time, failed once long ago": (
        "PPPPPPPPPF|PPPPPPPPPP",
        "PFFPPFPFFP",
        "flaky",
        "statistical",
    ),
    "fails ever more": ("PPPPFPPPPP", "FFFFFFFPFF", "new failure", "statistical"),
    "fails in all runs where it failed in some": ("PPPPPPPPPF", "FFFFFFFF", "new failure", "statistical"),
    "fails ever less": ("FFFFFFFPFF", "PPPPFPPPPP", "fixed", "statistical"),
    "failed now and then, fails once": ("PPFP", "F", "flaky", "statistical"),
    "failed once before": ("F|PPPPP", "F", "flaky", "statistical"),
    "failed once long ago": ("PFPPPPPPPP|PPPPPPPPPP", "F", "flaky", "statistical"),
    "failed once long ago and fails always": ("PFPPPPPPPP|PPPPPPPPPP", "FF", "new failure", "statistical"),
    "failed at times and fails twice": ("FFPPFPPFPF|PPPPPPPPPP", "FF", "flaky", "statistical"),
    "failed at times and fails always": ("PFPPFPPFPF|PPPPPPPPPP", "FFFF", "new failure", "statistical"),
    "disagreed with itself always": ("BBBBBB", "PPPPPP", "fixed", "statistical"),
    "disagrees with itself": ("PPPPP", "B", "flaky", "statistical"),
    # Likely worse (95 %), but not so likely that it is told among so many; intervals that touch each other.
    "few failures more": ("PPFP", "FFF", "flaky", "statistical"),
    "more failures": ("PFPPPPFPPP", "FFFPFFFPFF", "flaky", "statistical"),
    "fewer failures": ("FFFPFFFPFF", "PFPPPPFPPP", "flaky", "statistical"),
}


@pytest.fixture(scope="module")
def changes(spark: SparkSession) -> dict[str, Row]:
    """Returns what is said about each history, from one question for all."""
    runs = [f"{letter}{place} {role}" for letter, role in ROLES.items() for place in range(RUNS)]
    found = [
        {
            "run_id": f"{letter}{place}",
            "test": test,
            "outcome": outcome,
            "requirements": ["ZN-A-1"],
            "level": "MUST",
            "transport": "tcp",
            "seen": f"{outcome} in {letter}{place}",
            "reason": rows.STALE if sign == "S" else "",
        }
        for test, history in HISTORIES.items()
        for letter, signs in zip(ROLES, (*history[0].rpartition("|")[::2], history[1]), strict=True)
        for place, sign in enumerate(signs)
        for outcome in OUTCOMES[sign]
    ]
    changes = regressions.check_changes(rollup(spark, "checks", *found), compared(spark, *runs))
    return {row["test"]: row for row in changes.collect()}


@pytest.mark.parametrize("test", HISTORIES)
def test_history_has_its_status(changes: Mapping[str, Row], test: str) -> None:
    assert (changes[test]["status"], changes[test]["certainty"]) == HISTORIES[test][2:]


@pytest.mark.parametrize(
    ("history", "status", "certainty"),
    [
        # One run of each version, oldest first; the last two are compared.
        ("PPPPPPF", "new failure", "assumed"),
        ("PPFFPPF", "new failure", "assumed"),
        ("PFFFFPP", "unchanged", "deterministic"),
        ("PFPFPPF", "flaky", "statistical"),
        ("PFPFPFP", "flaky", "statistical"),
        ("PFPPFFF", "flaky", "statistical"),
        ("PFPFPPP", "unchanged", "deterministic"),
    ],
)
def test_check_that_comes_and_goes_from_build_to_build_is_flaky(
    spark: SparkSession, history: str, status: str, certainty: str
) -> None:
    roles = ["history"] * 5 + ["baseline", "candidate"]
    runs = [f"r{number} {role} 1.{number}" for number, role in enumerate(roles)]
    found = [
        {"run_id": f"r{number}", "test": "t", "outcome": {"P": "pass", "F": "fail"}[sign], "transport": "tcp"}
        for number, sign in enumerate(history)
    ]
    (row,) = regressions.check_changes(rollup(spark, "checks", *found), compared(spark, *runs)).collect()
    assert (row["status"], row["certainty"]) == (status, certainty)


def test_what_no_run_of_a_selection_has_was_not_selected(spark: SparkSession) -> None:
    runs = compared(spark, "b0 baseline", "b1 baseline", "c0 candidate", selected_only=True)
    found = [
        {"run_id": run_id, "test": test, "outcome": outcome, "transport": "tcp"}
        for test, outcomes in {
            "left out": ("pass", "pass", ""),
            "left out and failed": ("fail", "fail", ""),
            "cannot say": ("pass", "pass", "n/a"),
            "never said": ("n/a", "n/a", ""),
            "breaks": ("pass", "pass", "fail"),
        }.items()
        for run_id, outcome in zip(("b0", "b1", "c0"), outcomes, strict=True)
        if outcome
    ]
    told = regressions.check_changes(rollup(spark, "checks", *found), runs).collect()
    assert {row["test"]: row["status"] for row in told} == {
        "left out": "not selected",
        "left out and failed": "not selected",
        "cannot say": "not run",
        "never said": "n/a everywhere",
        "breaks": "new failure",
    }


def test_every_check_is_told_once_and_every_status_is_ours(changes: Mapping[str, Row]) -> None:
    assert set(changes) == set(HISTORIES)
    assert {row["key"] for row in changes.values()} == {KEY}
    shown = {getattr(regressions, name) for name in dir(regressions) if name.isupper()}
    assert {row["status"] for row in changes.values()} <= shown


def test_runs_are_counted_once_and_as_failed_where_tries_disagree(changes: Mapping[str, Row]) -> None:
    def counts(test: str) -> tuple[int, ...]:
        return tuple(changes[test][name] for name in ("failed_c", "runs_c", "failed_b", "runs_b"))

    assert counts("fails ever more") == (9, 10, 1, 10)
    assert counts("disagrees with itself") == (1, 1, 0, 5)
    assert counts("disagreed with itself always") == (0, 6, 6, 6)
    assert counts("failed and is inconclusive now") == (0, 0, 5, 5)


def test_what_rests_on_rates_has_p_and_q_and_nothing_else_has(changes: Mapping[str, Row]) -> None:
    rated = {test: row for test, row in changes.items() if row["p"] is not None}
    assert set(rated) == {test for test, row in changes.items() if row["certainty"] == "statistical"}
    for test, row in rated.items():
        counts = [row[name] for name in ("failed_c", "runs_c", "failed_b", "runs_b")]
        if test == "fails half of the time behind many runs":
            # Those of older versions did not fail either.
            counts[3] = 2 * RUNS
        assert row["p"] == pytest.approx(statistics.fisher(*counts)), test
    corrected = statistics.benjamini_hochberg([row["p"] for row in rated.values()])
    assert [row["q"] for row in rated.values()] == pytest.approx(corrected)


def test_interval_is_that_of_the_candidate_or_of_a_flaky_check(changes: Mapping[str, Row]) -> None:
    def interval(test: str) -> tuple[float | None, float | None]:
        return changes[test]["low"], changes[test]["high"]

    assert interval("fails ever more") == pytest.approx(statistics.wilson(9, 10))
    assert interval("fails now and then") == pytest.approx(statistics.wilson(3, 14))
    assert changes["fails now and then"]["rate"] == pytest.approx(3 / 14)
    assert interval("is not run") == (None, None)


def test_flips_count_within_a_version_and_the_last_one_is_named(changes: Mapping[str, Row]) -> None:
    row = changes["fails now and then"]
    assert (row["flips"], row["last_flip_run"]) == (6, "c4")
    units = [[0, 0, 1, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 0]]
    assert row["score"] == pytest.approx(statistics.flip_score(units))
    assert (changes["breaks in all runs"]["flips"], changes["breaks in all runs"]["last_flip_run"]) == (0, "")
    assert changes["disagrees with itself"]["flips"] == 2


def test_newest_run_that_shows_it_is_shown(changes: Mapping[str, Row]) -> None:
    assert (changes["fails ever more"]["run_id"], changes["fails ever more"]["seen"]) == ("c9", "fail in c9")
    assert changes["fails now and then"]["run_id"] == "c3"
    assert changes["is mended"]["run_id"] == "c4"
    assert changes["failed and is not run"]["run_id"] == "b4"
    assert (changes["breaks"]["outcome_c"], changes["breaks"]["outcome_b"]) == ("fail", "pass")


def check(run_id: str, outcome: str = "pass", test: str = "t", **more: object) -> dict[str, object]:
    return {"run_id": run_id, "test": test, "outcome": outcome, "requirements": ["ZN-A-1"], **more}


def test_runs_that_differ_otherwise_are_not_comparable_and_never_fixed(spark: SparkSession) -> None:
    found = [
        check("b1", "fail"),
        check("c1", "pass", transport="tls"),
        check("x1", "pass"),
        check("y1", "fail"),
        check("m1", "fail"),
    ]
    runs = compared(
        spark, "b1 baseline", "c1 candidate", "x1 not_comparable 1.1 elsewhere", "y1 baseline 1.0 alone"
    )
    mutant = compared(spark, "m1 candidate 1.0 mutant", mutant="ZN-A-1")
    changes = regressions.check_changes(rollup(spark, "checks", *found), runs.unionByName(mutant)).collect()
    told = {(row["key"], row["transport"]): row["status"] for row in changes}
    # One transport is no other, and a mutant is nobody's candidate.
    assert told == {(KEY, ""): "not run", (KEY, "tls"): "new check", ("elsewhere", ""): "not comparable"}


@pytest.mark.parametrize(("others", "status"), [(0, "new check"), (2, "not comparable")])
def test_candidate_without_baseline_is_new_only_if_there_is_no_other_run(
    spark: SparkSession, others: int, status: str
) -> None:
    found = [check("c1"), check("c1", "fail", "u"), check("c2", "pass", "u")]
    runs = compared(spark, "c1 candidate", "c2 candidate", others=others)
    changes = regressions.check_changes(rollup(spark, "checks", *found), runs).collect()
    assert {row["test"]: row["status"] for row in changes} == {"t": status, "u": "flaky"}


def test_few_runs_are_judged_by_the_posterior(spark: SparkSession) -> None:
    signs = {"b": "PPFPPP", "c": "FFFF"}
    of_run = {
        f"{letter}{place}": sign
        for letter, all_signs in signs.items()
        for place, sign in enumerate(all_signs)
    }
    found = [check(run_id, OUTCOMES[sign][0]) for run_id, sign in of_run.items()]
    runs = compared(spark, *(f"{run_id} {ROLES[run_id[0]]}" for run_id in of_run))
    (row,) = regressions.check_changes(rollup(spark, "checks", *found), runs).collect()
    # The intervals overlap, as they do with so few runs.
    assert statistics.wilson(4, 4)[0] < statistics.wilson(1, 6)[1]
    assert (row["status"], row["certainty"], row["q"]) == (
        "new failure",
        "statistical",
        pytest.approx(10 / 210),
    )


def test_flaky_checks_tell_their_history_and_other_harnesses_and_versions_are_no_flips(
    spark: SparkSession,
) -> None:
    runs = compared(
        spark, "h1 history 0.9", "b1 baseline 1.0@old", "b2 baseline 1.0@new", "c1 candidate", "c2 candidate"
    )
    signs = {"flaky": "PPPFB", "steady": "FPFPP", "new harness": "PPFFF"}
    found = [
        check(run_id, outcome, test)
        for test, letters in signs.items()
        for run_id, sign in zip(("h1", "b1", "b2", "c1", "c2"), letters, strict=True)
        for outcome in OUTCOMES[sign]
    ]
    # Of another key, with a flip 31 runs ago.
    late = [f"f{place} candidate 1.1 long" for place in range(regressions.RECENT)]
    runs = runs.unionByName(compared(spark, "o1 history 1.1 long", "o2 history 1.1 long", *late))
    found += [check("o1", "pass", "long ago"), check("o2", "fail", "long ago")]
    found += [check(line.split()[0], "pass", "long ago") for line in late]
    changes = regressions.check_changes(rollup(spark, "checks", *found), runs).collect()
    assert {row["test"]: row["history"] is not None for row in changes} == {
        **dict.fromkeys(signs, False),
        "long ago": False,
        "flaky": True,
    }
    (row,) = [row for row in changes if row["flips"]]
    # From the first run of the candidate to the second, and within that, which counts twice.
    assert (row["recent_runs"], row["recent_failed"], row["flips"], row["last_flip_run"]) == (5, 2, 3, "c2")
    # Each of three steps is a flip; c2 is split in itself.
    assert row["score"] == pytest.approx(3 / 5 * 4 * (2.5 / 7) * (1 - 2.5 / 7))
    assert [tuple(one) for one in row["history"]] == [
        ("h1", "pass"),
        ("b1", "pass"),
        ("b2", "pass"),
        ("c1", "fail"),
        ("c2", "both"),
    ]


@pytest.mark.parametrize(
    ("baseline", "status", "certainty"),
    [
        ("PPPPP", "new failure", "deterministic"),
        ("PPP", "new failure", "assumed"),
        ("PPPPF", "flaky", "statistical"),
        ("FFFFF", "still failing", "deterministic"),
    ],
)
def test_newest_run_of_the_only_version_is_judged_like_a_version(
    spark: SparkSession, baseline: str, status: str, certainty: str
) -> None:
    lines = [f"b{place} baseline 1.0" for place in range(len(baseline))] + ["c0 candidate 1.0"]
    found = [check(f"b{place}", OUTCOMES[sign][0]) for place, sign in enumerate(baseline)] + [
        check("c0", "fail")
    ]
    (row,) = regressions.check_changes(rollup(spark, "checks", *found), compared(spark, *lines)).collect()
    assert (row["status"], row["certainty"]) == (status, certainty)


def test_flips_are_counted_for_the_judged_version_whichever_flipped_last(spark: SparkSession) -> None:
    lines = [f"{letter}{place} {ROLES[letter]}" for place in range(4) for letter in "cb"]
    lines += ["x0 history 1.0 elsewhere", "x1 history 1.0 elsewhere", "x2 baseline 1.0 elsewhere"]
    signs = {"both": ("PFPF", "PFPF"), "old": ("PPPP", "PFPP"), "new": ("PFFP", "PPPP"), "gone": ("", "PFPF")}
    found = [
        check(f"{letter}{place}", OUTCOMES[sign][0], test)
        for test, of_letter in signs.items()
        for letter, letters in zip("cb", of_letter, strict=True)
        for place, sign in enumerate(letters)
    ]
    # Nothing of this key is judged.
    found += [check("x0", "pass", "apart"), check("x1", "fail", "apart"), check("x2", "pass", "apart")]
    changes = regressions.check_changes(rollup(spark, "checks", *found), compared(spark, *lines)).collect()
    told = {row["test"]: (row["flips"], row["flips_c"], row["last_flip_run"]) for row in changes}
    assert told == {"both": (6, 3, "b3"), "old": (2, 0, "b2"), "new": (2, 2, "c3"), "gone": (3, 0, "b3")}


def test_flips_of_earlier_runs_of_the_judged_version_count(spark: SparkSession) -> None:
    lines = ["b0 baseline 1.0", "b1 baseline 1.0", "c0 candidate 1.0"]
    found = [check("b0"), check("b1", "fail"), check("b0", "pass", "not run"), check("b1", "fail", "not run")]
    found.append(check("c0", "fail"))
    changes = regressions.check_changes(rollup(spark, "checks", *found), compared(spark, *lines)).collect()
    assert {row["test"]: row["flips_c"] for row in changes} == {"t": 1, "not run": 1}


NEW_TESTS: Mapping[str, tuple[str, str]] = {
    "PPPPP PPPF": ("new failure", "deterministic"),
    "PPPP PPPF": ("new failure", "assumed"),
    "PPPPP PFPP": ("unchanged", "statistical"),
    "PFPFP PPPF": ("still failing", "statistical"),
    "iiiii PPPF": ("new failure", "assumed"),
}

BOTH_WAYS = ("FPF", "FPP", "B")


@pytest.fixture(scope="module")
def apart(spark: SparkSession) -> dict[str, Row]:
    """Returns what is said about histories that each have runs and a key of their own, from one question for all."""
    lines, found = [], []
    for letters in NEW_TESTS:
        key = letters.replace(" ", "_")
        before, _, now = letters.partition(" ")
        for letter, signs in (("b", before), ("c", now)):
            for place, sign in enumerate(signs):
                # Each run has a commit of its own, so that there are no flips.
                version = f"{'1.0' if letter == 'b' else '1.1'}@{letter}{place}"
                lines.append(f"{key}{letter}{place} {ROLES[letter]} {version} {key}")
                found.append(check(f"{key}{letter}{place}", OUTCOMES[sign][0]))
    for key in BOTH_WAYS:
        lines += [f"{key}h0 history 0.9 {key}", *(f"{key}b{n} baseline 1.0 {key}" for n in range(2))]
        lines += [f"{key}c{n} candidate 1.1 {key}" for n in range(len(key))]
        found += [check(f"{key}h0"), check(f"{key}b0", "inconclusive"), check(f"{key}b1", "n/a")]
        found += [check(f"{key}c{n}", outcome) for n, sign in enumerate(key) for outcome in OUTCOMES[sign]]
    changes = regressions.check_changes(rollup(spark, "checks", *found), compared(spark, *lines)).collect()
    assert len(changes) == len(NEW_TESTS) + len(BOTH_WAYS)
    return {row["key"]: row for row in changes}


@pytest.mark.parametrize("letters", NEW_TESTS)
def test_failure_that_came_with_new_tests_is_new(apart: Mapping[str, Row], letters: str) -> None:
    row = apart[letters.replace(" ", "_")]
    assert (row["status"], row["certainty"]) == NEW_TESTS[letters]


@pytest.mark.parametrize("now", BOTH_WAYS)
def test_check_that_ends_both_ways_is_flaky_behind_runs_that_could_not_say(
    apart: Mapping[str, Row], now: str
) -> None:
    row = apart[now]
    assert (row["status"], row["certainty"], row["p"]) == ("flaky", "statistical", None)


def test_failure_of_a_newer_version_is_no_past(spark: SparkSession) -> None:
    """As with a version as baseline that is not the one before the newest."""
    lines = ["b0 baseline 1.0", "c0 candidate 1.1", "h0 history 1.2"]
    found = [check("b0", "inconclusive"), check("c0", "fail"), check("h0", "fail")]
    (row,) = regressions.check_changes(rollup(spark, "checks", *found), compared(spark, *lines)).collect()
    assert (row["status"], row["certainty"]) == ("new failure", "assumed")


def test_deviation_is_stale_if_the_newest_candidate_run_says_so(spark: SparkSession) -> None:
    stale = {"outcome": "fail", "reason": rows.STALE, "requirements": ["ZN-A-1", "ZN-B-2"]}
    found = [
        check("c1", **stale),  # type: ignore[arg-type]
        check("c2", "inconclusive"),
        check("c1", "fail", "mended", reason=rows.STALE),
        check("c2", "deviation", "mended"),
        check("b1", "fail", "before", reason=rows.STALE),
    ]
    runs = compared(spark, "b1 baseline", "c1 candidate", "c2 candidate")
    told = regressions.stale_deviations(rollup(spark, "checks", *found), runs).collect()
    assert sorted((row["requirement"], row["test"], row["run_id"], row["node_version"]) for row in told) == [
        ("ZN-A-1", "t", "c1", "1.1"),
        ("ZN-B-2", "t", "c1", "1.1"),
    ]


def test_missing_columns_are_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column test"):
        regressions.check_changes(
            spark.range(1).withColumnRenamed("id", "run_id"), compared(spark, "a candidate")
        )
