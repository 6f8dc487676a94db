"""Drift: found when it is there, and hardly ever when it is not."""

import math
import random
import statistics as plain
from collections.abc import Mapping

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_reports.frames import drift, statistics
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import KEY, compared, rollup

VALUES = pa.schema(
    [(name, pa.string()) for name in ("name", "unit", "better")]
    + [("least", pa.float64()), ("run_id", pa.string())]
    + [(name, pa.float64()) for name in ("value", "low", "high")]
)

METRICS = 4
"""Measured values in each simulated report."""


def noisy(chance: random.Random, level: float) -> float:
    """Returns what a run measures: 10 % of noise from run to run, and one run in ten on a busy machine."""
    return level * chance.lognormvariate(0, 0.1) * (chance.uniform(1.3, 3) if chance.random() < 0.1 else 1)


def simulated(
    spark: SparkSession, reports: int, runs_b: int, runs_c: int, drifted: float = 1.0
) -> dict[str, list[str]]:
    """Returns the statuses in each report, which is a key of its own; its first value has drifted."""
    chance = random.Random(4)
    rows, lines = [], []
    for report in range(reports):
        for place in range(runs_b + runs_c):
            run_id, ours = f"{report}-{place}", place >= runs_b
            lines.append(f"{run_id} {'candidate' if ours else 'baseline'} {1.1 if ours else 1.0} k{report}")
            for metric in range(METRICS):
                value = noisy(chance, 100.0) * (drifted if ours and not metric else 1.0)
                rows.append(row_of(f"m{metric}", run_id, value))
    result: dict[str, list[str]] = {}
    for row in drift.drifts(frame_of(spark, rows), compared(spark, *lines)).collect():
        result.setdefault(row["key"], []).append(f"{row['name']} {row['status']}")
    return result


def row_of(name: str, run_id: str, value: float, better: str = "lower") -> dict[str, object]:
    return {"name": name, "unit": "us", "better": better, "least": 0.05, "run_id": run_id, "value": value}


def frame_of(spark: SparkSession, rows: list[dict[str, object]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, VALUES)).coalesce(1)


def told(wolves: int, reports: int, what: str) -> float:
    """Prints how often a drift was told that was none; returns the lower end of the interval of that."""
    low, high = statistics.wilson(wolves, reports)
    print(f"{what}: {wolves} of {reports} reports cry wolf ({low:.2%} to {high:.2%})")  # noqa: T201 (pytest -s)
    return low


def test_reports_without_drift_hardly_ever_tell_of_one(spark: SparkSession) -> None:
    found = simulated(spark, 60, 10, 8)
    assert len(found) == 60
    wolves = sum(any(not status.endswith(drift.STEADY) for status in statuses) for statuses in found.values())
    # One report in a hundred is the bound.
    assert told(wolves, len(found), "10 and 8 runs, frames") <= drift.SURE


@pytest.mark.parametrize("runs", [(5, 5), (8, 8), (30, 7), (4, 40)])
def test_rule_cries_wolf_in_one_of_a_hundred_reports_at_most(runs: tuple[int, int]) -> None:
    # The rule of drift.drifts in plain Python, whose parts test_estimates compares one by one: many more reports.
    chance = random.Random(5)
    reports = 700
    wolves = 0
    for _ in range(reports):
        samples = [[[noisy(chance, 100.0) for _ in range(count)] for count in runs] for _ in range(METRICS)]
        q = statistics.benjamini_hochberg([statistics.mann_whitney(*sample) for sample in samples])
        change = [abs(plain.median(c) / plain.median(b) - 1) for b, c in samples]
        wolves += any(one <= drift.SURE and far >= 0.05 for one, far in zip(q, change, strict=True))
    assert told(wolves, reports, f"{runs[0]} and {runs[1]} runs") <= drift.SURE


@pytest.mark.parametrize(
    ("runs", "drifted", "most"), [((10, 6), 1.0, 0.05), ((15, 10), 1.0, 0.06), ((10, 6), 2.0, 0.0)]
)
def test_noise_that_stays_from_run_to_run_is_rarely_taken_for_drift_and_never_hides_a_doubled_value(
    runs: tuple[int, int], drifted: float, most: float
) -> None:
    chance = random.Random(8)
    reports, missed, told = 250, 0, 0
    for _ in range(reports):
        level, series = chance.gauss(0, 0.05), []
        for place in range(sum(runs)):
            name = "baseline" if place < runs[0] else "candidate"
            series.append((name, level + (math.log(drifted) if name == "candidate" else 0)))
            level = 0.8 * level + 0.6 * chance.gauss(0, 0.05)
        b, c = ([math.exp(value) for of, value in series if of == name] for name in ("baseline", "candidate"))
        far = abs(math.log(plain.median(c) / plain.median(b)))
        if statistics.mann_whitney(b, c) <= drift.SURE and math.expm1(far) >= 0.05:
            told += far >= statistics.noise_of_medians(series)
        else:
            missed += drifted > 1
    assert missed == 0
    assert (told if drifted == 1 else reports - told) <= most * reports


def test_shift_that_noise_of_other_versions_explains_is_steady(spark: SparkSession) -> None:
    """In turn the machine is slow for a few runs and quick for a few; those of the versions before tell."""
    slow = [place // 6 % 2 for place in range(48)]
    of_runs = {f"r{place}": 100 * (1 + 0.1 * one) + place % 5 for place, one in enumerate(slow)}
    roles = ["history 0.8"] * 18 + ["history 0.9"] * 18 + ["baseline"] * 6 + ["candidate"] * 6
    lines = [f"r{place} {role}" for place, role in enumerate(roles)]
    (row,) = drift.drifts(values(spark, of_runs), compared(spark, *lines)).collect()
    assert (row["status"], row["beyond"]) == (drift.STEADY, True)
    assert row["q"] < drift.SURE
    assert row["change"] >= 0.05
    (alone,) = drift.drifts(values(spark, of_runs), compared(spark, *lines[36:])).collect()
    assert alone["status"] == drift.SLOWER


def test_drift_is_found_and_only_where_it_is(spark: SparkSession) -> None:
    found = simulated(spark, 12, 15, 15, drifted=1.5)
    hits = sum(f"m0 {drift.SLOWER}" in statuses for statuses in found.values())
    others = [status for statuses in found.values() for status in statuses if not status.startswith("m0")]
    print(f"{hits} of {len(found)} drifts of 50 % found")  # noqa: T201 (pytest -s)
    assert hits >= 0.85 * len(found)
    assert {status.partition(" ")[2] for status in others} == {drift.STEADY}


def values(spark: SparkSession, of_runs: Mapping[str, float], better: str = "lower") -> DataFrame:
    return frame_of(spark, [row_of("m", run_id, value, better) for run_id, value in of_runs.items()])


@pytest.mark.parametrize(
    ("factor", "better", "status"),
    [
        (2.0, "lower", "slower"),
        (2.0, "higher", "faster"),
        (0.5, "lower", "faster"),
        (0.5, "higher", "slower"),
        # Seen for sure, but too small to matter.
        (1.03, "lower", "steady"),
    ],
)
def test_what_is_worse_depends_on_what_is_measured(
    spark: SparkSession, factor: float, better: str, status: str
) -> None:
    runs = [f"{letter}{place}" for letter in "bc" for place in range(6)]
    of_runs = {
        run_id: (factor if run_id[0] == "c" else 1) * (100 + place / 10) for place, run_id in enumerate(runs)
    }
    lines = [f"{run_id} {'baseline' if run_id[0] == 'b' else 'candidate'}" for run_id in runs]
    (row,) = drift.drifts(values(spark, of_runs, better), compared(spark, *lines)).collect()
    assert (row["status"], row["runs_c"], row["runs_b"], row["beyond"]) == (status, 6, 6, True)
    assert row["p"] == row["q"] == pytest.approx(2 / 924)
    medians = [plain.median(of_runs[run_id] for run_id in runs if run_id[0] == letter) for letter in "cb"]
    assert (row["value_c"], row["value_b"]) == pytest.approx(tuple(medians))
    assert row["change"] == pytest.approx(medians[0] / medians[1] - 1)


def test_single_run_is_too_few_against_any_number(spark: SparkSession) -> None:
    lines: list[str] = []
    of_runs: dict[str, float] = {}
    for baseline in (10, 11, 40):
        runs = [f"c{baseline}", *(f"b{baseline}-{place}" for place in range(baseline))]
        lines += [
            f"{run_id} {'baseline 1.0' if run_id[0] == 'b' else 'candidate 1.1'} {baseline}"
            for run_id in runs
        ]
        of_runs |= {run_id: 900.0 if run_id[0] == "c" else 100 + place for place, run_id in enumerate(runs)}
    told = drift.drifts(values(spark, of_runs), compared(spark, *lines)).collect()
    assert {row["key"]: (row["status"], row["runs_b"], row["p"]) for row in told} == {
        str(baseline): (drift.TOO_FEW, baseline, None) for baseline in (10, 11, 40)
    }


def test_few_runs_are_not_judged(spark: SparkSession) -> None:
    lines = [
        *(f"b{place} baseline" for place in range(4)),
        "c0 candidate",
        "h history",
        "x candidate 1.1 alone",
    ]
    of_runs = dict.fromkeys(["b0", "b1", "b2", "b3"], 1.0) | {"c0": 9.0, "h": 5.0, "x": 5.0}
    (row,) = drift.drifts(values(spark, of_runs), compared(spark, *lines)).collect()
    assert (row["key"], row["status"], row["p"], row["beyond"]) == (KEY, drift.TOO_FEW, None, True)
    points = drift.points(values(spark, of_runs), compared(spark, *lines)).collect()
    assert {(row["run_id"], row["version"], row["value"]) for row in points} >= {
        ("h", "1.1", 5.0),
        ("b0", "1.0", 1.0),
    }


@pytest.mark.parametrize(("others", "status"), [(0, "slower"), (1, "too few runs")])
def test_nothing_is_steady_that_could_not_be_told_alone(
    spark: SparkSession, others: int, status: str
) -> None:
    """Of 3 against 10 runs p is 2 in 286 at least, so that a second measured value asks for more runs."""
    runs = [f"b{place}" for place in range(10)] + [f"c{place}" for place in range(3)]
    rows = [
        row_of(name, run_id, (9 if name == "m" and run_id[0] == "c" else 1) * (100 + place % 3), "lower")
        for name in ("m", *(f"other {number}" for number in range(others)))
        for place, run_id in enumerate(runs)
    ]
    lines = [f"{run_id} {'baseline' if run_id[0] == 'b' else 'candidate'}" for run_id in runs]
    found = {
        row["name"]: row for row in drift.drifts(frame_of(spark, rows), compared(spark, *lines)).collect()
    }
    assert (found["m"]["status"], found["m"]["beyond"]) == (status, True)
    assert found["m"]["p"] == pytest.approx(2 / 286)
    assert {row["status"] for name, row in found.items() if name != "m"} <= {"too few runs"}


def test_replies_have_their_median_with_its_interval(spark: SparkSession) -> None:
    times = rollup(
        spark,
        "reply_times",
        {"stimulus": "INIT", "reply": "INIT", "bin": 40, "count": 60},
        {"stimulus": "INIT", "reply": "INIT", "bin": 48, "count": 40},
        {"stimulus": "OPEN", "reply": "OPEN", "bin": 1, "count": drift.LEAST_TIMES - 1},
    )
    (row,) = drift.reply_values(times).collect()
    bins = [(40, 60), (48, 40)]
    assert (row["name"], row["unit"], row["better"]) == ("INIT after INIT", "us", "lower")
    assert row["value"] == pytest.approx(statistics.quantile_of_bins(bins, 0.5))
    ends = [statistics.quantile_of_bins(bins, share) for share in (0.5 - 0.098, 0.5 + 0.098)]
    assert (row["low"], row["high"]) == pytest.approx(tuple(ends), rel=1e-3)


def test_cases_and_benchmarks_have_one_value_for_each_run(spark: SparkSession) -> None:
    times = rollup(spark, "case_times", {"campaign": "hs", "message": "INIT", "bin": 8, "cases": 20})
    rates = spark.createDataFrame(
        [("r1", "hs", 50.0), ("r1", "idle", None)], "run_id string, campaign string, cases_per_s double"
    )
    sample = {"name": "encode", "metric": "ratio", "unit": "", "better": "higher", "baseline": "scapy"}
    benchmarks = rollup(
        spark,
        "benchmarks",
        *({**sample, "value": value, "sample": place} for place, value in enumerate((3.0, 1.0, 2.0))),
        {**sample, "value": 90.0, "warmup": True},
        {**sample, "value": float("nan")},
    )
    told = (
        drift.case_values(times)
        .unionByName(drift.rate_values(rates))
        .unionByName(drift.benchmark_values(benchmarks))
        .collect()
    )
    assert {row["name"]: (row["value"], row["low"], row["high"], row["better"]) for row in told} == {
        "answer to INIT in hs": (pytest.approx(2 ** (8.5 / 8)), *(pytest.approx(2, rel=0.1),) * 2, "lower"),
        "cases of hs": (50.0, None, None, "higher"),
        "encode ratio against scapy": (2.0, 1.0, 3.0, "higher"),
    }


def test_missing_columns_are_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column name"):
        drift.drifts(spark.range(1), compared(spark, "a candidate"))
