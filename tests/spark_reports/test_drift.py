"""Drift: found when it is there, and hardly ever when it is not."""

import math
import random
import statistics as plain
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_reports.frames import drift, statistics
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import KEY, Cases, compared, local_frame, rollup

VALUES = pa.schema(
    [(name, pa.string()) for name in ("name", "unit", "better")]
    + [("least", pa.float64()), ("run_id", pa.string())]
    + [(name, pa.float64()) for name in ("value", "low", "high")]
)

METRICS = 4
"""Measured values in each simulated report."""

CASES = Cases()
"""What stands above the tests that look at it."""

Found = Mapping[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    return Cases.told(drift.drifts(frame_of(spark, CASES.of_runs), CASES.runs(spark)))


def noisy(chance: random.Random, level: float) -> float:
    """Returns what a run measures: 10 % of noise from run to run, and one run in ten on a busy machine."""
    return level * chance.lognormvariate(0, 0.1) * (chance.uniform(1.3, 3) if chance.random() < 0.1 else 1)


def simulated(case: str, reports: int, runs_b: int, runs_c: int, drifted: float = 1.0) -> str:
    """Adds a case of so many reports, each a key of its own; its first value has drifted."""
    chance = random.Random(4)
    rows, lines = [], []
    for report in range(reports):
        for place in range(runs_b + runs_c):
            run_id, ours = f"{report}-{place}", place >= runs_b
            lines.append(f"{run_id} {'candidate' if ours else 'baseline'} {1.1 if ours else 1.0} k{report}")
            for metric in range(METRICS):
                value = noisy(chance, 100.0) * (drifted if ours and not metric else 1.0)
                rows.append(row_of(f"m{metric}", run_id, value))
    return CASES.add(case, lines, rows)


def statuses_of(drifts: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Returns the statuses in each report of a simulated case."""
    result: dict[str, list[str]] = {}
    for row in drifts:
        result.setdefault(row["key"], []).append(f"{row['name']} {row['status']}")
    return result


def row_of(name: str, run_id: str, value: float, better: str = "lower") -> dict[str, object]:
    return {"name": name, "unit": "us", "better": better, "least": 0.05, "run_id": run_id, "value": value}


def frame_of(spark: SparkSession, rows: Iterable[Mapping[str, object]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist([dict(row) for row in rows], VALUES)).coalesce(1)


def values(of_runs: Mapping[str, float], better: str = "lower") -> list[dict[str, object]]:
    return [row_of("m", run_id, value, better) for run_id, value in of_runs.items()]


def told(wolves: int, reports: int, what: str) -> float:
    """Prints how often a drift was told that was none; returns the lower end of the interval of that."""
    low, high = statistics.wilson(wolves, reports)
    print(f"{what}: {wolves} of {reports} reports cry wolf ({low:.2%} to {high:.2%})")  # noqa: T201 (pytest -s)
    return low


STEADY = simulated("steady", 60, 10, 8)


def test_reports_without_drift_hardly_ever_tell_of_one(found: Found) -> None:
    reports = statuses_of(found[STEADY])
    assert len(reports) == 60
    wolves = sum(
        any(not status.endswith(drift.STEADY) for status in statuses) for statuses in reports.values()
    )
    # One report in a hundred is the bound.
    assert told(wolves, len(reports), "10 and 8 runs, frames") <= drift.SURE


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


SLOW = [place // 6 % 2 for place in range(48)]
"""In turn the machine is slow for a few runs and quick for a few; those of the versions before tell."""

IN_TURN = {f"r{place}": 100 * (1 + 0.1 * one) + place % 5 for place, one in enumerate(SLOW)}
OF_TURN = [
    f"r{place} {role}"
    for place, role in enumerate(
        ["history 0.8"] * 18 + ["history 0.9"] * 18 + ["baseline"] * 6 + ["candidate"] * 6
    )
]
CASES.add("in_turn", OF_TURN, values(IN_TURN))
CASES.add("alone", OF_TURN[36:], values(IN_TURN))


def test_shift_that_noise_of_other_versions_explains_is_steady(found: Found) -> None:
    (row,) = found["in_turn"]
    assert (row["status"], row["beyond"]) == (drift.STEADY, True)
    assert row["q"] < drift.SURE
    assert row["change"] >= 0.05
    (alone,) = found["alone"]
    assert alone["status"] == drift.SLOWER


DRIFTED = simulated("drifted", 12, 15, 15, drifted=1.5)


def test_drift_is_found_and_only_where_it_is(found: Found) -> None:
    reports = statuses_of(found[DRIFTED])
    hits = sum(f"m0 {drift.SLOWER}" in statuses for statuses in reports.values())
    others = [status for statuses in reports.values() for status in statuses if not status.startswith("m0")]
    print(f"{hits} of {len(reports)} drifts of 50 % found")  # noqa: T201 (pytest -s)
    assert hits >= 0.85 * len(reports)
    assert {status.partition(" ")[2] for status in others} == {drift.STEADY}


SIX = [f"{letter}{place}" for letter in "bc" for place in range(6)]


def of_six(factor: float, noise: float) -> dict[str, float]:
    return {
        run_id: (factor if run_id[0] == "c" else 1) * (100 + noise * place)
        for place, run_id in enumerate(SIX)
    }


WORSE: Mapping[tuple[float, str, float], str] = {
    # How much more the candidate has, what is better, how much values of the same version differ, and what is told.
    (2.0, "lower", 0.1): "slower",
    (2.0, "higher", 0.1): "faster",
    (0.5, "lower", 0.1): "faster",
    (0.5, "higher", 0.1): "slower",
    # Seen for sure, but too small to matter.
    (1.03, "lower", 0.1): "steady",
    (1.03, "lower", 0.001): "steady",
    (1.06, "lower", 0.001): "slower",
}
for _factor, _better, _noise in WORSE:
    CASES.add(
        f"{_factor}_{_better}_{_noise}",
        (f"{run_id} {'baseline' if run_id[0] == 'b' else 'candidate'}" for run_id in SIX),
        values(of_six(_factor, _noise), _better),
    )


@pytest.mark.parametrize(("factor", "better", "noise"), WORSE)
def test_what_is_worse_depends_on_what_is_measured(
    found: Found, factor: float, better: str, noise: float
) -> None:
    (row,) = found[f"{factor}_{better}_{noise}"]
    status = WORSE[factor, better, noise]
    assert (row["status"], row["runs_c"], row["runs_b"], row["beyond"]) == (status, 6, 6, True)
    assert row["p"] == row["q"] == pytest.approx(2 / 924)
    medians = [
        plain.median(value for run_id, value in of_six(factor, noise).items() if run_id[0] == letter)
        for letter in "cb"
    ]
    assert (row["value_c"], row["value_b"]) == pytest.approx(tuple(medians))
    assert row["change"] == pytest.approx(medians[0] / medians[1] - 1)


BASELINES = (10, 11, 40)
OF_SINGLE = {
    run_id: baseline
    for baseline in BASELINES
    for run_id in (f"c{baseline}", *(f"b{baseline}-{place}" for place in range(baseline)))
}
SINGLE = CASES.add(
    "single",
    (
        f"{run_id} {'baseline 1.0' if run_id[0] == 'b' else 'candidate 1.1'} {baseline}"
        for run_id, baseline in OF_SINGLE.items()
    ),
    values({run_id: 900.0 if run_id[0] == "c" else 100 + place for place, run_id in enumerate(OF_SINGLE)}),
)


def test_single_run_is_too_few_against_any_number(found: Found) -> None:
    assert {row["key"]: (row["status"], row["runs_b"], row["p"]) for row in found[SINGLE]} == {
        str(baseline): (drift.TOO_FEW, baseline, None) for baseline in BASELINES
    }


OF_FEW = [*(f"b{place} baseline" for place in range(4)), "c0 candidate", "h history", "x candidate 1.1 alone"]
FEW_VALUES = values(dict.fromkeys(["b0", "b1", "b2", "b3"], 1.0) | {"c0": 9.0, "h": 5.0, "x": 5.0})
FEW = CASES.add("few", OF_FEW, FEW_VALUES)


def test_few_runs_are_not_judged(spark: SparkSession, found: Found) -> None:
    (row,) = found[FEW]
    assert (row["key"], row["status"], row["p"], row["beyond"]) == (KEY, drift.TOO_FEW, None, True)
    points = drift.points(frame_of(spark, FEW_VALUES), compared(spark, *OF_FEW)).collect()
    assert {(row["run_id"], row["version"], row["value"]) for row in points} >= {
        ("h", "1.1", 5.0),
        ("b0", "1.0", 1.0),
    }


for _others in (0, 1):
    CASES.add(
        f"three_{_others}",
        [*(f"b{place} baseline" for place in range(10)), *(f"c{place} candidate" for place in range(3))],
        [
            row_of(name, run_id, (9 if name == "m" and run_id[0] == "c" else 1) * (100 + place % 3), "lower")
            for name in ("m", *(f"other {number}" for number in range(_others)))
            for place, run_id in enumerate([*(f"b{n}" for n in range(10)), *(f"c{n}" for n in range(3))])
        ],
    )


@pytest.mark.parametrize(("others", "status"), [(0, "slower"), (1, "too few runs")])
def test_nothing_is_steady_that_could_not_be_told_alone(found: Found, others: int, status: str) -> None:
    """Of 3 against 10 runs p is 2 in 286 at least, so that a second measured value asks for more runs."""
    drifts = {row["name"]: row for row in found[f"three_{others}"]}
    assert (drifts["m"]["status"], drifts["m"]["beyond"]) == (status, True)
    assert drifts["m"]["p"] == pytest.approx(2 / 286)
    assert {row["status"] for name, row in drifts.items() if name != "m"} <= {"too few runs"}


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
    rates = local_frame(
        spark,
        [("r1", "hs", 50.0), ("r1", "idle", None)],
        "run_id string, campaign string, cases_per_s double",
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
