"""Each history of a check, in letters: what it says about the candidate.

P pass, F fail, W warning, D deviation, S stale deviation, n n/a, i inconclusive, B tries that disagree, - not run. What
stands before a | was seen on the version of the baseline, in a run that is none of it.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_reports import rows
from spark_reports.frames import regressions, statistics
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import KEY, Cases, compared, rollup

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


CASES = Cases()
"""What stands above the tests that look at it."""

Told = Mapping[str, list[dict[str, Any]]]
Changes = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Told:
    return CASES.told(regressions.check_changes(CASES.rows(spark, "checks"), CASES.runs(spark)))


def check(run_id: str, outcome: str = "pass", test: str = "t", **more: object) -> dict[str, object]:
    return {"run_id": run_id, "test": test, "outcome": outcome, "requirements": ["ZN-A-1"], **more}


ALL = CASES.add(
    "histories",
    [f"{letter}{place} {role}" for letter, role in ROLES.items() for place in range(RUNS)],
    [
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
    ],
)


@pytest.fixture(scope="module")
def changes(told: Told) -> Changes:
    """Returns what is said about each history."""
    assert len(told[ALL]) == len(HISTORIES)
    return {row["test"]: row for row in told[ALL]}


@pytest.mark.parametrize("test", HISTORIES)
def test_history_has_its_status(changes: Changes, test: str) -> None:
    assert (changes[test]["status"], changes[test]["certainty"]) == HISTORIES[test][2:]


BUILDS: Mapping[str, tuple[str, str]] = {
    # One run of each version, oldest first; the last two are compared.
    "PPPPPPF": ("new failure", "assumed"),
    "PPFFPPF": ("new failure", "assumed"),
    "PFFFFPP": ("unchanged", "deterministic"),
    "PFPFPPF": ("flaky", "statistical"),
    "PFPFPFP": ("flaky", "statistical"),
    "PFPPFFF": ("flaky", "statistical"),
    "PFPFPPP": ("unchanged", "deterministic"),
}
for _history in BUILDS:
    CASES.add(
        _history,
        (f"r{n} {role} 1.{n}" for n, role in enumerate(["history"] * 5 + ["baseline", "candidate"])),
        (
            check(f"r{n}", *OUTCOMES[sign], requirements=[], transport="tcp")
            for n, sign in enumerate(_history)
        ),
    )


@pytest.mark.parametrize("history", BUILDS)
def test_check_that_comes_and_goes_from_build_to_build_is_flaky(told: Told, history: str) -> None:
    (row,) = told[history]
    assert (row["status"], row["certainty"]) == BUILDS[history]


SELECTION = CASES.add(
    "selection",
    ["b0 baseline", "b1 baseline", "c0 candidate"],
    [
        check(run_id, outcome, test, requirements=[], transport="tcp")
        for test, outcomes in {
            "left out": ("pass", "pass", ""),
            "left out and failed": ("fail", "fail", ""),
            "cannot say": ("pass", "pass", "n/a"),
            "never said": ("n/a", "n/a", ""),
            "breaks": ("pass", "pass", "fail"),
        }.items()
        for run_id, outcome in zip(("b0", "b1", "c0"), outcomes, strict=True)
        if outcome
    ],
    selected_only=True,
)


def test_what_no_run_of_a_selection_has_was_not_selected(told: Told) -> None:
    assert {row["test"]: row["status"] for row in told[SELECTION]} == {
        "left out": "not selected",
        "left out and failed": "not selected",
        "cannot say": "not run",
        "never said": "n/a everywhere",
        "breaks": "new failure",
    }


def test_every_check_is_told_once_and_every_status_is_ours(changes: Changes) -> None:
    assert set(changes) == set(HISTORIES)
    assert {row["key"] for row in changes.values()} == {KEY}
    shown = {getattr(regressions, name) for name in dir(regressions) if name.isupper()}
    assert {row["status"] for row in changes.values()} <= shown


def test_runs_are_counted_once_and_as_failed_where_tries_disagree(changes: Changes) -> None:
    def counts(test: str) -> tuple[int, ...]:
        return tuple(changes[test][name] for name in ("failed_c", "runs_c", "failed_b", "runs_b"))

    assert counts("fails ever more") == (9, 10, 1, 10)
    assert counts("disagrees with itself") == (1, 1, 0, 5)
    assert counts("disagreed with itself always") == (0, 6, 6, 6)
    assert counts("failed and is inconclusive now") == (0, 0, 5, 5)


def test_what_rests_on_rates_has_p_and_q_and_nothing_else_has(changes: Changes) -> None:
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


def test_interval_is_that_of_the_candidate_or_of_a_flaky_check(changes: Changes) -> None:
    def interval(test: str) -> tuple[float | None, float | None]:
        return changes[test]["low"], changes[test]["high"]

    assert interval("fails ever more") == pytest.approx(statistics.wilson(9, 10))
    assert interval("fails now and then") == pytest.approx(statistics.wilson(3, 14))
    assert changes["fails now and then"]["rate"] == pytest.approx(3 / 14)
    assert interval("is not run") == (None, None)


def test_flips_count_within_a_version_and_the_last_one_is_named(changes: Changes) -> None:
    row = changes["fails now and then"]
    assert (row["flips"], row["last_flip_run"]) == (6, "c4")
    units = [[0, 0, 1, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 0]]
    assert row["score"] == pytest.approx(statistics.flip_score(units))
    assert (changes["breaks in all runs"]["flips"], changes["breaks in all runs"]["last_flip_run"]) == (0, "")
    assert changes["disagrees with itself"]["flips"] == 2


def test_newest_run_that_shows_it_is_shown(changes: Changes) -> None:
    assert (changes["fails ever more"]["run_id"], changes["fails ever more"]["seen"]) == ("c9", "fail in c9")
    assert changes["fails now and then"]["run_id"] == "c3"
    assert changes["is mended"]["run_id"] == "c4"
    assert changes["failed and is not run"]["run_id"] == "b4"
    assert (changes["breaks"]["outcome_c"], changes["breaks"]["outcome_b"]) == ("fail", "pass")


DIFFERENT = CASES.add(
    "different",
    ["b1 baseline", "c1 candidate", "x1 not_comparable 1.1 elsewhere", "y1 baseline 1.0 alone"],
    [
        check("b1", "fail"),
        check("c1", "pass", transport="tls"),
        check("x1", "pass"),
        check("y1", "fail"),
        check("m1", "fail"),
    ],
)
CASES.add(DIFFERENT, ["m1 candidate 1.0 mutant"], [], mutant="ZN-A-1")


def test_runs_that_differ_otherwise_are_not_comparable_and_never_fixed(told: Told) -> None:
    # One transport is no other, and a mutant is nobody's candidate.
    assert {(row["key"], row["transport"]): row["status"] for row in told[DIFFERENT]} == {
        (KEY, ""): "not run",
        (KEY, "tls"): "new check",
        ("elsewhere", ""): "not comparable",
    }


for _others in (0, 2):
    CASES.add(
        f"others{_others}",
        ["c1 candidate", "c2 candidate"],
        [check("c1"), check("c1", "fail", "u"), check("c2", "pass", "u")],
        others=_others,
    )


@pytest.mark.parametrize(("others", "status"), [(0, "new check"), (2, "not comparable")])
def test_candidate_without_baseline_is_new_only_if_there_is_no_other_run(
    told: Told, others: int, status: str
) -> None:
    changes = told[f"others{others}"]
    assert {row["test"]: row["status"] for row in changes} == {"t": status, "u": "flaky"}


FEW = CASES.add(
    "few",
    [*(f"b{n} baseline" for n in range(6)), *(f"c{n} candidate" for n in range(4))],
    [
        check(f"{letter}{n}", *OUTCOMES[sign])
        for letter, signs in {"b": "PPFPPP", "c": "FFFF"}.items()
        for n, sign in enumerate(signs)
    ],
)


def test_few_runs_are_judged_by_the_posterior(told: Told) -> None:
    (row,) = told[FEW]
    # The intervals overlap, as they do with so few runs.
    assert statistics.wilson(4, 4)[0] < statistics.wilson(1, 6)[1]
    assert (row["status"], row["certainty"], row["q"]) == (
        "new failure",
        "statistical",
        pytest.approx(10 / 210),
    )


FLAKY = {"flaky": "PPPFB", "steady": "FPFPP", "new harness": "PPFFF"}
OF_FLAKY = (
    *("h1 history 0.9", "b1 baseline 1.0@old", "b2 baseline 1.0@new"),
    *("c1 candidate", "c2 candidate"),
)
LATE = [f"f{place} candidate 1.1 long" for place in range(regressions.RECENT)]
HARNESSES = CASES.add(
    "harnesses",
    # Of another key, with a flip 31 runs ago.
    [*OF_FLAKY, "o1 history 1.1 long", "o2 history 1.1 long", *LATE],
    [
        *(
            check(line.split()[0], outcome, test)
            for test, letters in FLAKY.items()
            for line, sign in zip(OF_FLAKY, letters, strict=True)
            for outcome in OUTCOMES[sign]
        ),
        check("o1", "pass", "long ago"),
        check("o2", "fail", "long ago"),
        *(check(line.split()[0], "pass", "long ago") for line in LATE),
    ],
)


def test_flaky_checks_tell_their_history_and_other_harnesses_and_versions_are_no_flips(told: Told) -> None:
    changes = told[HARNESSES]
    assert {row["test"]: row["history"] is not None for row in changes} == {
        **dict.fromkeys(FLAKY, False),
        "long ago": False,
        "flaky": True,
    }
    (row,) = [row for row in changes if row["flips"]]
    # From the first run of the candidate to the second, and within that, which counts twice.
    assert (row["recent_runs"], row["recent_failed"], row["flips"], row["last_flip_run"]) == (5, 2, 3, "c2")
    # Each of three steps is a flip; c2 is split in itself.
    assert row["score"] == pytest.approx(3 / 5 * 4 * (2.5 / 7) * (1 - 2.5 / 7))
    assert row["history"] == [
        ("h1", "pass"),
        ("b1", "pass"),
        ("b2", "pass"),
        ("c1", "fail"),
        ("c2", "both"),
    ]


ONLY_VERSION: Mapping[str, tuple[str, str]] = {
    # Runs before the newest one, which fails.
    "PPPPP": ("new failure", "deterministic"),
    "PPP": ("new failure", "assumed"),
    "PPPPF": ("flaky", "statistical"),
    "FFFFF": ("still failing", "deterministic"),
}
for _baseline in ONLY_VERSION:
    CASES.add(
        f"only{_baseline}",
        [*(f"b{n} baseline 1.0" for n in range(len(_baseline))), "c0 candidate 1.0"],
        [*(check(f"b{n}", *OUTCOMES[sign]) for n, sign in enumerate(_baseline)), check("c0", "fail")],
    )


@pytest.mark.parametrize("baseline", ONLY_VERSION)
def test_newest_run_of_the_only_version_is_judged_like_a_version(told: Told, baseline: str) -> None:
    (row,) = told[f"only{baseline}"]
    assert (row["status"], row["certainty"]) == ONLY_VERSION[baseline]


FLIPS = CASES.add(
    "flips",
    [
        *(f"{letter}{place} {ROLES[letter]}" for place in range(4) for letter in "cb"),
        *("x0 history 1.0 elsewhere", "x1 history 1.0 elsewhere", "x2 baseline 1.0 elsewhere"),
    ],
    [
        *(
            check(f"{letter}{place}", OUTCOMES[sign][0], test)
            for test, of_letter in {
                "both": ("PFPF", "PFPF"),
                "old": ("PPPP", "PFPP"),
                "new": ("PFFP", "PPPP"),
                "gone": ("", "PFPF"),
            }.items()
            for letter, letters in zip("cb", of_letter, strict=True)
            for place, sign in enumerate(letters)
        ),
        # Nothing of this key is judged.
        *(check("x0", "pass", "apart"), check("x1", "fail", "apart"), check("x2", "pass", "apart")),
    ],
)


def test_flips_are_counted_for_the_judged_version_whichever_flipped_last(told: Told) -> None:
    flips = {row["test"]: (row["flips"], row["flips_c"], row["last_flip_run"]) for row in told[FLIPS]}
    assert flips == {"both": (6, 3, "b3"), "old": (2, 0, "b2"), "new": (2, 2, "c3"), "gone": (3, 0, "b3")}


EARLIER = CASES.add(
    "earlier",
    ["b0 baseline 1.0", "b1 baseline 1.0", "c0 candidate 1.0"],
    [
        *(check("b0"), check("b1", "fail"), check("c0", "fail")),
        *(check("b0", "pass", "not run"), check("b1", "fail", "not run")),
    ],
)


def test_flips_of_earlier_runs_of_the_judged_version_count(told: Told) -> None:
    assert {row["test"]: row["flips_c"] for row in told[EARLIER]} == {"t": 1, "not run": 1}


NEW_TESTS: Mapping[str, tuple[str, str]] = {
    "PPPPP PPPF": ("new failure", "deterministic"),
    "PPPP PPPF": ("new failure", "assumed"),
    "PPPPP PFPP": ("unchanged", "statistical"),
    "PFPFP PPPF": ("still failing", "statistical"),
    "iiiii PPPF": ("new failure", "assumed"),
}
for _letters in NEW_TESTS:
    _signs = {
        f"{letter}{n}": sign
        for letter, signs in zip("bc", _letters.split(), strict=True)
        for n, sign in enumerate(signs)
    }
    CASES.add(
        _letters.replace(" ", "_"),
        # Each run has a commit of its own, so that there are no flips.
        (f"{run_id} {ROLES[run_id[0]]} {'1.0' if run_id[0] == 'b' else '1.1'}@{run_id}" for run_id in _signs),
        (check(run_id, *OUTCOMES[sign]) for run_id, sign in _signs.items()),
    )


@pytest.mark.parametrize("letters", NEW_TESTS)
def test_failure_that_came_with_new_tests_is_new(told: Told, letters: str) -> None:
    (row,) = told[letters.replace(" ", "_")]
    assert (row["status"], row["certainty"]) == NEW_TESTS[letters]


BOTH_WAYS = ("FPF", "FPP", "B")
for _now in BOTH_WAYS:
    CASES.add(
        _now,
        [
            *("h0 history 0.9", "b0 baseline 1.0", "b1 baseline 1.0"),
            *(f"c{n} candidate 1.1" for n in range(len(_now))),
        ],
        [
            *(check("h0"), check("b0", "inconclusive"), check("b1", "n/a")),
            *(check(f"c{n}", outcome) for n, sign in enumerate(_now) for outcome in OUTCOMES[sign]),
        ],
    )


@pytest.mark.parametrize("now", BOTH_WAYS)
def test_check_that_ends_both_ways_is_flaky_behind_runs_that_could_not_say(told: Told, now: str) -> None:
    (row,) = told[now]
    assert (row["status"], row["certainty"], row["p"]) == ("flaky", "statistical", None)


NEWER = CASES.add(
    "newer",
    ["b0 baseline 1.0", "c0 candidate 1.1", "h0 history 1.2"],
    [check("b0", "inconclusive"), check("c0", "fail"), check("h0", "fail")],
)


def test_failure_of_a_newer_version_is_no_past(told: Told) -> None:
    """As with a version as baseline that is not the one before the newest."""
    (row,) = told[NEWER]
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
