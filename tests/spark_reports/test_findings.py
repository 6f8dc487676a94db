from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_reports import rows
from spark_reports.frames import findings
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import Cases, compared, rollup

Frame = Callable[..., DataFrame]
Run = Callable[..., rows.RunRow]


PLAYED = 100
"""Cases that each run played of each campaign."""

SMALLEST = ("hs", 7, 9, "0102", "INIT", "INIT.lease", "0 -> 1", "open", "EOF", "it ended", "f.pcapng", 3)
"""Campaign, number, bytes and more of a case."""

RUNS = ("h0", "h1", "h2", "h3", "h4", "b0", "c0", "c1")

HISTORIES: Mapping[str, tuple[str, str]] = {
    # Cases of the bucket in each of RUNS, oldest first; what became of it.
    "new": ("0 0 0 0 0 0 0 1", "new"),
    "known": ("0 0 0 0 0 1 1 0", "known"),
    "known for long": ("1 0 0 0 1 0 0 1", "known"),
    "twice clean": ("0 1 0 0 1 0 1 0", "known"),
    "reopened": ("1 0 1 0 0 0 0 1", "reopened"),
    "gone": ("0 0 0 0 0 9 0 0", "gone"),
    "gone for long": ("9 0 0 0 0 0 0 0", "gone"),
    # One of a hundred cases met it: two hundred without it say little.
    "rare": ("0 0 0 0 0 1 0 0", "not tried"),
    # Three of six hundred did, though of one run three of a hundred.
    "rare for long": ("3 0 0 0 0 0 0 0", "not tried"),
}


Told = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Of each case, what is told of each bucket."""


class Stories:
    """Cases of buckets that runs met; each is of an implementation of its own, by which findings are told apart."""

    def __init__(self) -> None:
        self._met, self._played, self._found = Cases(), Cases(), Cases()
        self._complete: list[str] = []

    def add(
        self,
        case: str,
        lines: Iterable[str],
        met: Iterable[Mapping[str, Any]],
        *,
        played: Iterable[Mapping[str, Any]] | None = None,
        found: Iterable[Mapping[str, Any]] = (),
        complete: Iterable[str] = (),
        **options: Any,
    ) -> str:
        """Adds runs, told as to ``compared``, and what they met; each played one campaign unless it is said."""
        lines = list(lines)
        if played is None:
            played = [campaign(line.split()[0]) for line in lines]
        self._played.add(case, (), played)
        self._found.add(case, (), found)
        self._complete += [f"{case}/{run_id}" for run_id in complete]
        return self._met.add(case, lines, met, **options)

    def met(self, spark: SparkSession) -> DataFrame:
        return self._met.rows(spark, "buckets")

    def held(self, spark: SparkSession) -> DataFrame:
        return findings.held(self.met(spark), self._found.rows(spark, "findings"), self._complete)

    def told(self, spark: SparkSession, buckets: DataFrame) -> Told:
        """Returns what became of each bucket, from one question for all cases."""
        runs = self._met.runs(spark).withColumn("node_impl", sf.split_part("key", sf.lit("/"), sf.lit(1)))
        changes = findings.bucket_changes(buckets, self._played.rows(spark, "case_outcomes"), runs)
        return {
            case: {row["bucket"]: row for row in rows}
            for case, rows in Cases.told(changes, "node_impl").items()
        }


def campaign(run_id: str, name: str = "hs") -> dict[str, object]:
    """Makes a row of a campaign that a run played."""
    return {"run_id": run_id, "campaign": name, "cases": PLAYED}


def bucket(run_id: str, name: str, cases: int, campaign: str = "hs") -> dict[str, object]:
    """Makes a row of a bucket whose smallest case has as many bytes as the name of its run says."""
    size = 9 - int(run_id[1])
    smallest = (campaign, 7, size, *SMALLEST[3:])
    return {
        "run_id": run_id,
        "bucket": name,
        "campaign": campaign,
        "cases": cases,
        "cases_before": 10 + size,
        "campaigns": [campaign],
        "fields": [f"field {run_id}"],
        "states": ["open"],
        "smallest": smallest,
    }


STORIES = Stories()
"""What stands above the tests that look at it."""

ROLES = {"h": "history", "b": "baseline", "c": "candidate"}


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Told:
    return STORIES.told(spark, STORIES.met(spark))


HISTORY = STORIES.add(
    "history",
    [*(f"{run_id} {ROLES[run_id[0]]}" for run_id in RUNS), "x0 candidate 1.1 elsewhere"],
    [
        *(
            bucket(run_id, name, int(count))
            for name, (counts, _) in HISTORIES.items()
            for run_id, count in zip(RUNS, counts.split(), strict=True)
            if int(count)
        ),
        # A campaign that the candidate did not play, and another key that the candidate says nothing of.
        bucket("b0", "other campaign", 50, "data"),
        bucket("x0", "other key", 50),
    ],
    played=[*map(campaign, (*RUNS, "x0")), campaign("b0", "data")],
)
STORIES.add(HISTORY, ["m0 candidate"], [bucket("m0", "of a mutant", 5)], mutant="ZN-A-1")


@pytest.mark.parametrize("name", HISTORIES)
def test_history_of_a_bucket_has_its_status(told: Told, name: str) -> None:
    assert told[HISTORY][name]["status"] == HISTORIES[name][1]


SEEN_AGAIN: Mapping[str, str] = {
    # What each run met, oldest first, the candidate last; what the bucket is.
    "0 0 0 1 0 0 1 0 0 0 1": "known",  # half of the runs met it: three without it happen (12 %)
    "0 0 1 0 1 0 0 0 0 0 1": "reopened",  # two of three, five without it: 0.4 %
    "1 0 1 0 0 1 0 0 0 0 1": "known",  # half of the runs, four without it: 6 %
    "1 1 0 0 1 0 0 0 0 0 1": "reopened",  # three of five, five without it: 1 %
    "0 0 0 0 0 0 1 0 0 0 1": "reopened",  # those in front of the first that met it do not count
    "1 1 1 1 1 1 1 1 0 0 1": "known",  # two are never enough
}
_NAMES = (*(f"h{number}" for number in range(9)), "b9", "c0")
AGAIN = STORIES.add(
    "again",
    (f"{run_id} {ROLES[run_id[0]]}" for run_id in _NAMES),
    [
        bucket(run_id, history, int(count))
        for history in SEEN_AGAIN
        for run_id, count in zip(_NAMES, history.split(), strict=True)
        if int(count)
    ],
)


def test_bucket_is_reopened_after_as_many_clean_runs_as_its_rate_needs(told: Told) -> None:
    assert {name: row["status"] for name, row in told[AGAIN].items()} == SEEN_AGAIN


UNUSED = STORIES.add(
    "unused",
    ["x0 candidate 1.0 laptop", "h1 history 1.0", "b2 baseline", "c3 candidate"],
    [
        *(bucket(run_id, "old", 2) for run_id in ("h1", "b2", "c3")),
        *(bucket("c3", "young", 2), bucket("x0", "of the laptop", 2), bucket("c3", "of the laptop", 2)),
    ],
)


def test_key_that_nobody_uses_any_more_makes_nothing_new(told: Told) -> None:
    statuses = {name: row["status"] for name, row in told[UNUSED].items()}
    assert statuses == {"old": "known", "young": "new", "of the laptop": "new"}


THEIRS = STORIES.add("theirs", ["x0 history 1.0", "x1 candidate"], [bucket("x0", "stall stage group", 10)])
OURS = STORIES.add("ours", ["b2 baseline", "c3 candidate"], [bucket("c3", "stall stage group", 2)])


def test_another_implementation_with_the_same_signature_has_another_finding(told: Told) -> None:
    both = (told[case]["stall stage group"] for case in (THEIRS, OURS))
    assert [(row["status"], row["cases"]) for row in both] == [("gone", 10), ("new", 2)]


LATER = STORIES.add(
    "later",
    ["c0 candidate", "b1 baseline", "x2 candidate 1.1 elsewhere", "y3 baseline 1.0 elsewhere"],
    [
        *(bucket("c0", "in both", 1), bucket("b1", "in both", 1)),
        *(bucket("c0", "of another key", 1), bucket("y3", "of another key", 1)),
    ],
)


def test_what_the_baseline_met_is_not_new_when_that_was_run_later(told: Told) -> None:
    """As when the version before is tried again to see whether that has it, too."""
    statuses = {name: row["status"] for name, row in told[LATER].items()}
    assert statuses == {"in both": "known", "of another key": "new"}


CLEAN: Mapping[str, tuple[str, str]] = {
    # Runs, oldest first; of which the second ones met it. What the candidate did not meet itself is not clean.
    "h0 h1 b2 c3 c4 c5 c6": ("h0 h1 b2 c6", findings.KNOWN),
    "h0 h1 b2 c3 h4 h5 h6": ("h0 h1 b2 c3", findings.KNOWN),
    "h0 h1 h2 h3 h4 b5 c6": ("h0 h1 h2 c6", findings.REOPENED),
}
for _runs, (_met, _) in CLEAN.items():
    STORIES.add(
        _runs.replace(" ", "-"),
        [f"{run_id} {ROLES[run_id[0]]}" for run_id in _runs.split()],
        [bucket(run_id, "it", 1) for run_id in _met.split()],
    )


@pytest.mark.parametrize("runs", CLEAN)
def test_only_runs_before_the_candidate_met_it_and_not_its_own_count_as_clean(told: Told, runs: str) -> None:
    assert told[runs.replace(" ", "-")]["it"]["status"] == CLEAN[runs][1]


def test_what_nobody_looked_for_is_not_gone(told: Told) -> None:
    found = told[HISTORY]
    assert set(found) == {*HISTORIES, "other campaign", "other key"}
    assert (found["other campaign"]["status"], found["other campaign"]["played_c"]) == ("not tried", 0)
    # Its own key has a candidate, and that has met it first.
    assert found["other key"]["status"] == "new"


def test_bucket_tells_when_it_was_seen_and_its_smallest_case(told: Told) -> None:
    row = told[HISTORY]["known for long"]
    assert (row["cases"], row["runs"], row["first_run"], row["last_run"]) == (3, 3, "h0", "c1")
    assert (row["first_seen"], row["last_seen"]) == ("2026-11-01", "2026-11-08")
    # Candidates of both keys have looked.
    assert (row["cases_before"], row["cases_c"], row["cases_b"], row["played_c"]) == (19, 1, 0, 300)
    assert row["by_run"] == {"h0": 1, "h4": 1, "c1": 1}
    assert row["fields"] == ["field c1", "field h0", "field h4"]
    assert (row["run_id"], row["sent_bytes"], row["case"], row["detail"]) == ("h4", 5, 7, "it ended")
    # Of the run that met it; those in front of the first that did are left out, those behind it are not.
    assert told[HISTORY]["gone"]["odds"] == pytest.approx(0.09)
    assert told[HISTORY]["gone for long"]["odds"] == pytest.approx(0.015)


def test_number_of_buckets_grows_over_time(spark: SparkSession, frame: Frame, run_row: Run) -> None:
    runs = frame(run_row("r2", 1), run_row("r1", 2), run_row("r3", 3), run_row("x", 1, node_impl="other"))
    met = [bucket(run_id, name, 1) for run_id, name in (("r2", "a"), ("r1", "a"), ("r1", "b"), ("x1", "a"))]
    met[-1]["run_id"] = "x"
    played = [
        {"run_id": run_id, "campaign": name, "cases": 10}
        for run_id in ("r1", "r2", "r3", "x")
        for name in "ab"
    ]
    told = findings.distinct_over_time(
        rollup(spark, "buckets", *met), rollup(spark, "case_outcomes", *played), runs
    ).collect()
    assert sorted((row["node_impl"], row["run_id"], *tuple(row)[3:]) for row in told) == [
        # played, new; cases and buckets so far
        ("eclipse-zenoh", "r1", 20, 1, 40, 2),
        ("eclipse-zenoh", "r2", 20, 1, 20, 1),
        ("eclipse-zenoh", "r3", 20, 0, 60, 2),
        ("other", "x", 20, 1, 20, 1),
    ]


# What a finding holds --------------------------------------------------------------------------------


def found(run_id: str, name: str, *holds: str, hits: int = 1, **values: object) -> dict[str, object]:
    row = {
        "run_id": run_id,
        "bucket": name,
        "case_buckets": list(holds),
        "hits": hits,
        "time_ns": 1,
        "size": 3,
        "folder": f"findings/{run_id}-{name}",
    }
    return {**row, "campaign": "hs", "case": 30, "message": "PUSH", "rows_version": 5, **values}


FOUND = (
    # It seemed to be something else when it was met, twice.
    found("c0", "moved", "guess", "other guess", hits=2),
    # Two hold what has the name of one; the other one has no case of its own.
    found("c0", "same"),
    found("c0", "without a case", "same", hits=9, detail="it died"),
    # Was joined to another; only the last row counts.
    found("c0", "joined", "late", hits=3),
    found("c0", "joined", "late", hits=0, time_ns=2),
    found("c0", "joined to", "late", "joined", time_ns=2),
    # Was met in both parts of the run, and in the second it became another one.
    found("c0", "resumed", hits=4, part=0),
    found("c0", "resumed", hits=5, part=0, time_ns=2),
    found("c0", "resumed", hits=2, part=1, time_ns=3, size=2),
    found("c0", "resumed", hits=1, part=1, job=1, time_ns=4),
    found("c0", "given up", hits=4, part=0),
    found("c0", "given up", hits=0, part=1, time_ns=3),
    # In no campaign.
    found("c0", "idle", campaign=""),
    # Another run is of a version that does not say it, and a third was cut off.
    found("old", "moved", rows_version=4),
    found("cut", "moved", "guess"),
)
MET = {
    "c0": "guess|other guess|same|late|joined|nothing",
    "old": "guess|moved",
    "cut": "guess|nothing",
    "bare": "guess",
}


HOLDING = Stories()
"""What findings hold."""

ALONE, PAIR = (
    HOLDING.add(
        case,
        lines,
        [
            {**bucket("c0", name, 1), "run_id": run_id}
            for run_id, names in MET.items()
            for name in names.split("|")
        ],
        played=played,
        found=FOUND,
        complete=["c0", "old", "bare"],
    )
    for case, lines, played in (
        ("alone", ["h0 history", "c0 candidate"], [campaign("c0")]),
        ("pair", ["c0 history", "cut candidate"], []),
    )
)


@pytest.fixture(scope="module")
def holding(spark: SparkSession) -> Iterator[DataFrame]:
    held = HOLDING.held(spark).cache()
    yield held
    held.unpersist()


@pytest.fixture(scope="module")
def kept(holding: DataFrame) -> Mapping[str, list[dict[str, Any]]]:
    return Cases.told(holding, "run_id")


@pytest.fixture(scope="module")
def shown(spark: SparkSession, holding: DataFrame) -> Told:
    return HOLDING.told(spark, holding)


def test_buckets_of_cases_go_by_the_name_of_the_finding_that_holds_them(
    kept: Mapping[str, list[dict[str, Any]]],
) -> None:
    names: dict[str, list[tuple[str, bool]]] = {}
    for row in kept[ALONE]:
        # The row of its own that each finding has counts no case that another row counts.
        if row["cases"]:
            names.setdefault(row["run_id"], []).append((row["bucket"], row["unheld"]))
    assert sorted(names["c0"]) == [
        *(("idle", False), ("joined to", False), ("joined to", False), ("moved", False), ("moved", False)),
        *(("nothing", True), ("resumed", False), ("same", False), ("without a case", False)),
    ]
    # Where it is not told, or not all was looked into, nothing is said of it.
    assert sorted(names["old"]) == [("guess", False), ("moved", False)]
    assert sorted(names["cut"]) == [("moved", False), ("nothing", False)]
    assert names["bare"] == [("guess", False)]


def test_finding_is_where_the_run_of_its_smallest_case_says(
    kept: Mapping[str, list[dict[str, Any]]], shown: Told
) -> None:
    folders = {(row["run_id"], row["bucket"]): row["folder"] for row in kept[PAIR]}
    assert folders["c0", "moved"] == "findings/c0-moved"
    assert folders["c0", "without a case"] == "findings/c0-without a case"
    assert folders["cut", "moved"] == "findings/cut-moved"
    # No finding holds it, or those of its run do not say.
    assert folders["c0", "nothing"] == folders["old", "moved"] == folders["bare", "guess"] == ""
    moved = shown[PAIR]["moved"]
    assert (moved["run_id"], moved["folder"]) == ("c0", "findings/c0-moved")
    told = {run_id: folders[run_id, "moved"] for run_id in moved["by_run"]}
    assert moved["folders"] == {run_id: folder for run_id, folder in told.items() if folder}
    assert len(moved["folders"]) > 1


def test_finding_without_a_case_of_its_own_is_shown(shown: Told) -> None:
    told = shown[ALONE]
    assert set(told) == {"idle", "joined to", "moved", "nothing", "resumed", "same", "without a case"}
    assert {row["status"] for row in told.values()} == {"new"}
    assert [name for name, row in told.items() if row["unheld"]] == ["nothing"]
    alone = told["without a case"]
    assert (alone["cases"], alone["cases_before"], alone["sent_hex"], alone["case"]) == (9, None, "", 30)
    assert (alone["detail"], alone["messages"], alone["sent_bytes"]) == ("it died", ["PUSH"], 3)
    # Its cases send another message: they only seemed to meet it.
    assert (told["moved"]["cases"], told["moved"]["sent_hex"], told["moved"]["message"]) == (2, "", "PUSH")
    assert (told["resumed"]["cases"], told["resumed"]["sent_bytes"]) == (8, 2)
    assert (told["idle"]["played_c"], told["idle"]["odds"]) == (0, None)


HARMFUL = {**bucket("c0", "refusing PUSH", 2), "smallest": ("hs", 30, 8, "01", "PUSH", *SMALLEST[5:])}
INNOCENT = {
    **bucket("c0", "refusing INTEREST", 1),
    "smallest": ("hs", 31, 0, "", "INTEREST", *SMALLEST[5:]),
}
# One that did not come to send anything.
IDLE = {
    **bucket("c0", "refusing PUSH", 1, "data"),
    "smallest": ("data", 32, 0, "", "PUSH", *SMALLEST[5:]),
}
for _case, _buckets in {"harmful": [HARMFUL, INNOCENT, IDLE], "harmless": [INNOCENT, IDLE]}.items():
    HOLDING.add(
        _case,
        ["h0 history", "c0 candidate"],
        _buckets,
        played=[campaign("c0")],
        found=[found("c0", "refusing", "refusing PUSH", "refusing INTEREST")],
        complete=["c0"],
    )


def test_smallest_case_is_one_of_the_message_that_the_finding_is_about(shown: Told) -> None:
    row = shown["harmful"]["refusing"]
    assert (row["cases"], row["case"], row["sent_bytes"], row["message"]) == (4, 30, 8, "PUSH")
    # Where no case shows it, the one that the finding is laid on is named.
    row = shown["harmless"]["refusing"]
    assert (row["cases"], row["case"], row["sent_bytes"], row["message"]) == (2, 30, 3, "PUSH")
    assert row["sent_hex"] == ""
    assert all(len(shown[case]) == 1 for case in ("harmful", "harmless"))


def test_what_was_learned_is_that_of_the_candidate_and_one_that_was_seen_again_is_not_refuted(
    spark: SparkSession,
) -> None:
    refuted: dict[str, Any] = {"status": "not reproduced", "tries": 3, "confirmed": 0}
    true: dict[str, Any] = {"status": "confirmed", "tries": 3, "confirmed": 3, "fails": True}
    rows_of = (
        # Two jobs, the later one in vain; two runs, the newer one in vain; another node and an older version.
        found("c0", "jobs", **true),
        found("c0", "jobs", job=1, **{**refuted, "time_ns": 9}),
        found("c0", "runs", **true),
        found("c1", "runs", **{**refuted, "time_ns": 9}),
        found("c1", "elsewhere", **true),
        found("x0", "elsewhere", **{**refuted, "time_ns": 9}, known="x-1"),
        found("b0", "elsewhere", **{**refuted, "time_ns": 9}, known="b-1"),
        # Of each job the last row counts, and of one that became part of another nothing.
        found("c0", "looked into", status="open"),
        found("c0", "looked into", **{**refuted, "time_ns": 2}),
        found("c0", "joined", hits=1, **true),
        found("c0", "joined", hits=0, **{**refuted, "time_ns": 2}),
        # Was put on the list between two runs; is on that of one of two nodes.
        found("c0", "listed", **true),
        found("c1", "listed", status="confirmed", known="c-1", time_ns=2),
        found("c1", "listed for one", status="confirmed", known="c-2"),
        found("y0", "listed for one", **true),
        found("x0", "only elsewhere", **refuted),
        found("m0", "of a mutant", **true),
        # A node of somebody else has the same one, which is known for it.
        found("c0", "theirs as well", **true),
        found("z0", "theirs as well", **true, known="z-1"),
    )
    runs = compared(
        spark,
        *(
            "b0 baseline",
            "c0 candidate",
            "c1 candidate",
            "x0 history 1.0 elsewhere",
            "y0 candidate 1.1 other",
            "z0 candidate 1.1 theirs",
        ),
    ).unionByName(compared(spark, "m0 candidate", mutant="ZN-A-1"))
    runs = runs.withColumn("node_impl", sf.expr("if(key = 'theirs', 'another', node_impl)"))
    told = findings.told(rollup(spark, "findings", *rows_of), runs).collect()
    ours, theirs = (
        {
            row["bucket"]: (row["confirmed"], row["known"], row["ours"])
            for row in told
            if row["node_impl"] == impl
        }
        for impl in ("impl", "another")
    )
    assert theirs == {"theirs as well": ("confirmed", "z-1", True)}
    assert ours == {
        "theirs as well": ("confirmed", "", True),
        "jobs": ("confirmed", "", True),
        "runs": ("confirmed", "", True),
        "elsewhere": ("confirmed", "", True),
        "looked into": ("not reproduced", "", True),
        "listed": ("confirmed", "c-1", True),
        "listed for one": ("confirmed", "", True),
        "only elsewhere": ("not reproduced", "", False),
    }


def test_missing_columns_are_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column bucket"):
        findings.bucket_changes(
            compared(spark, "a candidate"), rollup(spark, "case_outcomes"), compared(spark, "a history")
        )
