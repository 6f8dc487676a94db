import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_reports import rows, sets

Run = Callable[..., rows.RunRow]
Runs = Sequence[Mapping[str, Any]]


@pytest.fixture(scope="module")
def runs(run_row: Run) -> Runs:
    """Three versions on one machine, one of them on another, a mutant; names are not in the order of time."""
    return made(
        run_row("old", 1, node_version="1.9.0"),
        run_row("ten", 2, node_version="1.10.0"),
        run_row("eleven-a", 4, node_version="1.11.0"),
        run_row("eleven-b", 3, node_version="1.11"),
        run_row("other", 5, node_version="1.10.0", environment="another machine"),
        run_row("mutant", 6, node="ref:ZN-INIT-001b", node_impl="refnode:ZN-INIT-001b"),
        run_row("", 7, started_at="", node_impl="unknown"),
        run_row("nothing", 8, node="null:echo", node_impl="null:echo"),
    )


def made(*runs: rows.RunRow) -> Runs:
    return [dataclasses.asdict(run) for run in runs]


def roles(runs: Runs, text: str = "previous") -> Mapping[str, str]:
    baseline = sets.baseline_of(text, {run["run_id"] for run in runs})
    return {run.run_id: run.set for run in sets.resolve(runs, baseline)}


def test_newest_version_is_compared_with_the_one_before_it(runs: Runs) -> None:
    found = {run.run_id: run for run in sets.resolve(runs, sets.Baseline())}
    assert {name: run.set for name, run in found.items()} == {
        "old": "history",
        "ten": "baseline",
        "eleven-a": "candidate",
        "eleven-b": "candidate",
        "other": "candidate",
        "mutant": "candidate",
        "nothing": "candidate",
    }
    assert found["old"].key == found["eleven-a"].key != found["other"].key
    assert [found[name].age for name in ("eleven-a", "eleven-b", "ten", "old")] == [0, 1, 2, 3]
    assert [found[name].place for name in ("old", "ten", "eleven-a", "eleven-b")] == [1, 2, 3, 3]
    assert [found[name].others for name in ("ten", "other", "mutant")] == [1, 4, 0]
    assert {name: run.mutant for name, run in found.items() if run.mutant} == {
        "mutant": "ZN-INIT-001b",
        "nothing": "null:echo",
    }
    assert (found["ten"].has_baseline, found["other"].has_baseline) == (True, False)
    names = ("old", "ten", "eleven-a", "eleven-b")
    assert [found[name].is_judged for name in names] == [False, False, True, True]


def test_version_that_is_asked_for_is_the_baseline_and_other_keys_are_not_comparable(runs: Runs) -> None:
    assert roles(runs, "v1.9") == {
        "old": "baseline",
        "ten": "history",
        "eleven-a": "candidate",
        "eleven-b": "candidate",
        "other": "not comparable",
        "mutant": "not comparable",
        "nothing": "not comparable",
    }


@pytest.mark.parametrize(
    ("asked", "candidate"),
    [
        ("old", {"eleven-a", "eleven-b"}),
        # Of its own version, what came later; where nothing did, the newest other run.
        ("eleven-b", {"eleven-a"}),
        ("eleven-a", {"eleven-b"}),
    ],
)
def test_run_that_is_asked_for_is_the_baseline(runs: Runs, asked: str, candidate: set[str]) -> None:
    told = roles(runs, asked)
    assert {name for name, role in told.items() if role == "baseline"} == {asked}
    assert {name for name, role in told.items() if role == "candidate"} == candidate


def test_newest_run_of_an_only_version_is_compared_with_those_before_it(run_row: Run) -> None:
    runs = made(run_row("r1", 1), run_row("r2", 2), run_row("r3", 3, node_version="v1.10.2.0"))
    assert roles(runs) == {"r1": "baseline", "r2": "baseline", "r3": "candidate"}


def test_earlier_runs_of_an_only_version_are_of_the_judged_one(run_row: Run) -> None:
    found = sets.resolve(made(run_row("a", 1), run_row("b", 2)), sets.Baseline())
    assert [(run.run_id, run.set, run.is_judged) for run in found] == [
        ("b", "candidate", True),
        ("a", "baseline", True),
    ]


def test_candidate_is_a_selection_if_every_run_of_it_left_tests_out(run_row: Run) -> None:
    def selected(*selections: str) -> bool:
        before = run_row("before", 1, node_version="1.9.0", selection="-k first")
        newest = [
            run_row(f"r{day}", day, node_version="1.10.0", selection=text)
            for day, text in enumerate(selections, 2)
        ]
        found = {
            run.run_id: run.selected_only for run in sets.resolve(made(before, *newest), sets.Baseline())
        }
        assert len(set(found.values())) == 1
        return found["before"]

    assert selected("-k close", "--req ZN-INIT")
    assert not selected("-k close", rows.ALL)
    # Older rows do not say it, and older records do not have it.
    assert not selected("")
    (known,) = made(run_row("old", 1))
    old = {name: value for name, value in known.items() if name != "selection"}
    assert [run.selected_only for run in sets.resolve([old], sets.Baseline())] == [False]


@pytest.mark.parametrize(
    ("selections", "baseline"),
    [
        (("", "-k open", ""), {"r1"}),
        (("-k open", "", ""), {"r2"}),
        (("-k open", "-k open", ""), {"r2"}),
        (("", "-k open", "-k open"), {"r2"}),
        (("", "-k open", rows.ALL), {"r1"}),
    ],
)
def test_version_with_runs_of_some_tests_only_is_passed_over(
    run_row: Run, selections: tuple[str, ...], baseline: set[str]
) -> None:
    runs = made(
        *(
            run_row(f"r{number}", number, node_version=f"1.{number}.0", selection=text)
            for number, text in enumerate(selections, 1)
        )
    )
    told = roles(runs)
    assert {name for name, role in told.items() if role == "baseline"} == baseline
    assert told["r3"] == "candidate"


def test_versions_that_are_none_come_in_the_order_in_which_they_were_met(run_row: Run) -> None:
    runs = made(
        run_row("r1", 1, node_version="fbaa"),
        run_row("r2", 2, node_version="0cc1-dirty"),
        run_row("r3", 3, node_version="fbaa"),
    )
    assert roles(runs) == {"r1": "baseline", "r2": "candidate", "r3": "baseline"}


def test_builds_as_many_commits_behind_a_version_are_two_in_the_order_in_which_they_were_met(
    run_row: Run,
) -> None:
    builds = {"a": "1.0.0-12-gbbbb", "b": "1.0.0-12-gaaaa", "c": "1.0.0-9-gcccc", "d": "1.0.0"}
    runs = made(
        *(run_row(name, day, node_version=build) for day, (name, build) in enumerate(builds.items(), 1))
    )
    assert roles(runs) == {"a": "baseline", "b": "candidate", "c": "history", "d": "history"}
    assert roles(runs, "1.0.0-12-gbbbb") == roles(runs)


def test_what_differs_is_another_key(run_row: Run) -> None:
    runs = made(
        run_row("a"),
        run_row("b", configuration="transport=tls"),
        run_row("c", node_whatami="peer"),
        run_row("d", node_impl="unknown", node="tcp/a"),
        run_row("e", node_impl="unknown", node="tcp/b"),
        run_row("f", node="pypi:1.10.2", harness_version="0.2.0", seed=9),
        # As long as nothing is recorded of its configuration, a campaign is no run of the suite.
        run_row("g", kind="fuzz"),
        run_row("h", kind="conformance", configuration="transport=tls"),
    )
    keys = {run.run_id: run.key for run in sets.resolve(runs, sets.Baseline())}
    assert keys["a"] == keys["f"]
    assert keys["b"] == keys["h"]
    assert len(set(keys.values())) == 6


def test_baseline_is_a_run_if_there_is_one_of_that_name() -> None:
    assert sets.baseline_of("previous", set()) == sets.Baseline()
    assert sets.baseline_of("1.9", {"1.9"}) == sets.Baseline(sets.RUN, "1.9")
    assert sets.baseline_of("1.9", {"r1"}) == sets.Baseline(sets.VERSION, "1.9")


def test_version_that_was_only_run_elsewhere_is_told(run_row: Run) -> None:
    before = [run_row("a", 1, node_version="1.9.0"), run_row("b", 2, node_version="1.10.0")]
    elsewhere = [run_row(f"c{day}", day, node_version="1.11.0", environment="another") for day in (3, 4)]
    told = sets.cautions(sets.resolve(made(*before, *elsewhere), sets.Baseline()))
    (one,) = told
    told_of = "eclipse-zenoh router 1.11.0, the newest, was compared with no other version: "
    assert one == f"{told_of}those were run in other environments or configurations"
    alike = [run_row("c", 3, node_version="1.11.0"), run_row("d", 4, node_version="1.11.0")]
    asked = sets.cautions(sets.resolve(made(*before, *alike), sets.Baseline(sets.RUN, "d")))
    assert f"{told_of}none of those is the baseline that was asked for" in asked
    # Of another kind, of the same machine, or older: nothing to be told.
    for other in (
        [run_row("c", 3, node_version="1.11.0", environment="another", kind="fuzz")],
        [run_row("c", 3, node_version="1.11.0", environment="another", node="ref:ZN-INIT-001b")],
        [run_row("c", 3, node_version="1.11.0")],
        [run_row("c", 3, node_version="1.9.5", environment="another")],
    ):
        assert not sets.cautions(sets.resolve(made(*before, *other), sets.Baseline()))


@pytest.mark.parametrize(
    ("environment", "configuration", "ends"),
    [
        ("Linux", "transport=tcp", "; transport=tcp"),
        ("Linux", "", "; conformance"),
        ("", "", "; conformance, configuration not recorded"),
    ],
)
def test_key_says_what_is_not_recorded(run_row: Run, environment: str, configuration: str, ends: str) -> None:
    row = run_row("a", 1, kind="conformance", environment=environment, configuration=configuration)
    (run,) = sets.resolve(made(row), sets.Baseline())
    assert run.key.endswith(ends)


def test_baseline_that_is_newer_than_what_is_judged_is_told(run_row: Run) -> None:
    runs = made(run_row("a", 1, node_version="1.9.0"), run_row("b", 2, node_version="1.10.0"))
    newer = sets.cautions(sets.resolve(runs, sets.Baseline("version", "1.10.0")))
    assert newer == ["the baseline, 1.10.0, is newer than 1.9.0, which is compared with it"]
    assert not sets.cautions(sets.resolve(runs, sets.Baseline("version", "1.9.0")))


def test_builds_of_as_many_commits_are_versions_of_their_own(run_row: Run) -> None:
    amended = [run_row(name, day, node_version=f"1.0-12-g{name * 4}") for day, name in enumerate("ba", 2)]
    found = sets.resolve(made(run_row("c", 1, node_version="1.0-11-gcccc"), *amended), sets.Baseline())
    assert {run.run_id: run.set for run in found} == {
        "a": sets.CANDIDATE,
        "b": sets.BASELINE,
        "c": sets.HISTORY,
    }
    assert not sets.cautions(found)


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("1.0-9-gdddd", True),
        # A checkout that knows no commits behind the version.
        ("1.0", True),
        ("1.0-12-gdddd", False),
        ("1.1", False),
    ],
)
def test_build_that_was_run_last_and_is_older_by_its_number_is_told(
    run_row: Run, last: str, *, told: bool
) -> None:
    builds = [run_row(f"b{day}", day, node_version=f"1.0-{day + 9}-gabcd") for day in (1, 2)]
    found = sets.cautions(sets.resolve(made(*builds, run_row("last", 3, node_version=last)), sets.Baseline()))
    assert [f"{last} was run last and is not judged" in caution for caution in found] == [True] * told


def test_older_release_that_is_run_last_is_no_surprise(run_row: Run) -> None:
    runs = [run_row(name, day, node_version=name) for day, name in enumerate(("1.9", "1.10", "1.8"), 1)]
    assert not sets.cautions(sets.resolve(made(*runs), sets.Baseline()))


def test_frame_has_what_was_resolved(spark: SparkSession, runs: Runs) -> None:
    resolved = sets.resolve(runs, sets.Baseline())
    told = sets.frame(spark, resolved)
    assert told.schema.simpleString() == f"struct<{sets.SCHEMA.replace(', ', ',').replace(' ', ':')}>"
    assert [sets.RunOfSet(**row.asDict()) for row in told.collect()] == resolved
    assert sets.frame(spark, []).collect() == []


@pytest.mark.parametrize(
    ("versions", "asked", "candidate", "baseline"),
    [
        # Oldest run first. What was run later is nothing that the judged version came from.
        ("1.9 1.10 unknown", "previous", "b", "a"),
        ("1.10 1.10 unknown", "previous", "b", "a"),
        ("1.10 unknown", "previous", "a", ""),
        ("unknown 1.10 unknown", "previous", "b", ""),
        ("unknown 1.10", "previous", "b", "a"),
        ("unknown 1.10 1.10", "previous", "bc", "a"),
        # With a baseline of its own name, what was run last needs no place in an order.
        ("1.8 1.9 unknown", "1.9", "c", "b"),
        ("1.9 1.10-dirty 1.9 1.10-dirty", "1.9", "bd", "ac"),
        ("1.8 1.9 1.10 unknown", "b", "d", "b"),
        ("unknown 1.8 1.9", "1.9", "b", "c"),
        ("1.8 unknown 1.9", "c", "b", "c"),
        ("1.9 1.10 unknown", "unknown", "b", "c"),
    ],
)
def test_version_without_a_place_is_judged_by_when_it_was_run(
    run_row: Run, versions: str, asked: str, candidate: str, baseline: str
) -> None:
    runs = [
        run_row(name, day, node_version=version)
        for day, (name, version) in enumerate(zip("abcd", versions.split(), strict=False), 1)
    ]
    told = roles(made(*runs), asked)
    assert {name for name, role in told.items() if role == "candidate"} == set(candidate)
    assert {name for name, role in told.items() if role == "baseline"} == set(baseline)


def test_named_baseline_is_not_newer_than_what_has_no_place(run_row: Run) -> None:
    runs = [run_row(name, day, node_version=name) for day, name in enumerate(("1.9", "1.10", "dirty"), 1)]
    assert not sets.cautions(sets.resolve(made(*runs), sets.Baseline(sets.VERSION, "1.9")))
    # Nothing can be said of its number.
    builds = [run_row(name, day, node_version=name) for day, name in enumerate(("1.0-3-gabcd", "dirty"), 1)]
    assert not sets.cautions(sets.resolve(made(*builds), sets.Baseline()))


@pytest.mark.parametrize(
    ("later", "left"),
    [
        ({"node_version": "1.11.0"}, True),
        ({"node_version": "1.11.0", "kind": "conformance"}, True),
        ({"node_version": "1.10.0"}, False),
        ({"node_version": "1.9.0"}, False),
        ({"node_version": "unknown"}, False),
        ({"node_version": "1.11.0", "started_at": "2026-11-01T00:00:00.000Z"}, False),
        ({"node_version": "1.11.0", "node_whatami": "peer"}, False),
        ({"node_version": "1.11.0", "node_impl": "zenoh-pico"}, False),
        ({"node_version": "1.11.0", "node": "ref:ZN-INIT-001b"}, False),
        ({"node_version": "1.11.0", "kind": "fuzz"}, False),
        ({"node_version": "1.11.0", "status": "running"}, False),
    ],
)
def test_set_is_left_behind_when_a_newer_version_was_run_otherwise(
    run_row: Run, later: Mapping[str, Any], left: bool
) -> None:
    killed = run_row("killed", 2, node_version="1.10.0", kind="conformance", configuration="transport=udp")
    newer = run_row("newer", 3, **later)
    complete = {"before"} | ({"newer"} if newer.status == "complete" else set())
    before = run_row("before", 1, node_version="1.9.0", configuration="transport=udp")
    found = sets.resolve(made(before, killed, newer), sets.Baseline())
    (key,) = {run.key for run in found if run.run_id == "killed"}
    assert sets.left_behind(found, complete) == ({key} if left else set())


def test_version_that_is_none_is_left_behind_by_one_that_is(run_row: Run) -> None:
    killed = run_row("killed", 1, node_version="unknown", configuration="transport=udp")
    found = sets.resolve(made(killed, run_row("newer", 2)), sets.Baseline())
    assert len(sets.left_behind(found, {"newer"})) == 1


def test_set_whose_newest_version_is_judged_is_not_left_behind_by_its_own_runs(run_row: Run) -> None:
    # Asked for by its name, an old version is compared with what is judged under the same key.
    old, new = run_row("old", 1, node_version="1.9.0"), run_row("new", 2, node_version="1.10.0")
    found = sets.resolve(made(old, new), sets.baseline_of("1.10.0", ()))
    assert {run.run_id: run.set for run in found} == {"new": "baseline", "old": "candidate"}
    assert sets.left_behind(found, {"new"}) == set()
