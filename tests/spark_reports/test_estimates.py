"""The SQL says what the plain functions say."""

import math
import random
from collections.abc import Sequence

import pytest
from pyspark.sql import Row, SparkSession

from spark_reports.frames import estimates, statistics
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import local_frame

COUNTS = ("failed_c", "runs_c", "failed_b", "runs_b")


@pytest.fixture(scope="module")
def tables() -> list[tuple[int, int, int, int]]:
    chance = random.Random(1)
    drawn = []
    for _ in range(60):
        runs_c, runs_b = chance.choice((1, 2, 7, 30, 100)), chance.choice((1, 3, 8, 30, 2000))
        drawn.append((chance.randint(0, runs_c), runs_c, chance.randint(0, runs_b), runs_b))
    return [(0, 1, 0, 1), (1, 1, 0, 1), (1, 1, 1, 1), (8, 8, 0, 5), *drawn]


def computed(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str, **texts: str) -> list[Row]:
    frame = local_frame(spark, rows, schema)
    return frame.selectExpr("*", *(f"{text} AS {name}" for name, text in texts.items())).collect()


def test_rates_are_judged_as_in_python(spark: SparkSession, tables: list[tuple[int, int, int, int]]) -> None:
    rows = computed(
        spark,
        tables,
        ", ".join(f"{name} bigint" for name in COUNTS),
        ends=estimates.wilson("failed_c", "runs_c"),
        p=estimates.fisher(*COUNTS),
        higher=estimates.probability_higher(*COUNTS),
    )
    for row, table in zip(rows, tables, strict=True):
        assert (row["ends"]["low"], row["ends"]["high"]) == pytest.approx(statistics.wilson(*table[:2]))
        assert row["p"] == pytest.approx(statistics.fisher(*table), rel=1e-9)
        assert row["higher"] == pytest.approx(statistics.probability_higher(*table), abs=0.02)
        if max(table[1], table[3]) <= 100:
            assert row["higher"] == pytest.approx(statistics.probability_higher(*table), abs=2e-3)


def test_interval_without_runs_says_nothing(spark: SparkSession) -> None:
    (row,) = computed(spark, [(0, 0)], "failed bigint, runs bigint", ends=estimates.wilson("failed", "runs"))
    assert tuple(row["ends"]) == (0.0, 1.0)


def test_shifts_are_judged_as_in_python(spark: SparkSession) -> None:
    chance = random.Random(2)
    samples: list[tuple[list[float], list[float]]] = [
        ([], [1.0]),
        ([1.0] * 12, [1.0] * 12),
        ([3.0] * 10, [1.0] * 10),
    ]
    for _ in range(60):
        sizes = chance.randint(1, 15), chance.randint(1, 15)
        # Whole numbers, so that there are ties.
        samples.append(tuple([float(chance.randint(0, 30)) for _ in range(size)] for size in sizes))  # type: ignore[arg-type]
    rows = computed(
        spark,
        samples,
        "c array<double>, b array<double>",
        p=estimates.mann_whitney("c", "b"),
        m=estimates.median("c"),
    )
    for row, (first, second) in zip(rows, samples, strict=True):
        assert row["p"] == pytest.approx(statistics.mann_whitney(first, second), abs=5e-7)
        ordered = sorted(first)
        half = len(ordered) // 2
        assert row["m"] == ((ordered[half] + ordered[-half - 1]) / 2 if ordered else None)


def test_least_p_is_that_of_samples_that_lie_apart(spark: SparkSession) -> None:
    sizes = [(m, n) for m in (1, 2, 5, 10, 11, 40) for n in (1, 3, 10, 11, 200)]
    rows = computed(spark, sizes, "m bigint, n bigint", p=estimates.least_p("m", "n"))
    for row, (m, n) in zip(rows, sizes, strict=True):
        apart = statistics.mann_whitney(list(range(m)), list(range(m, m + n)))
        assert row["p"] == pytest.approx(apart, abs=5e-7)


def test_noise_that_stays_is_estimated_as_in_python(spark: SparkSession) -> None:
    chance = random.Random(6)
    rows: list[tuple[list[tuple[int, str, float]]]] = []
    for turns in (False, True):
        for sizes in ((1, 1, 0), (4, 8, 0), (6, 10, 7), (20, 20, 40)):
            names = [name for name, size in zip("cbh", sizes, strict=True) for _ in range(size)]
            if turns:
                chance.shuffle(names)
            level = 0.0
            series = []
            for at, name in enumerate(names):
                level = 0.8 * level + chance.gauss(0, 0.03)
                spike = 1.0 if chance.random() < 0.1 else 0.0
                series.append(
                    (at, {"c": "candidate", "b": "baseline"}.get(name, "1"), math.exp(level + spike))
                )
            chance.shuffle(series)
            rows.append((series,))
    rows += [
        ([(0, "candidate", 2.0), (1, "baseline", 1.0)],),
        ([(0, "candidate", -1.0), (1, "baseline", 1.0)],),
    ]
    schema = "series array<struct<at: int, name: string, value: double>>"
    *found, flat, none = [
        row["noise"] for row in computed(spark, rows, schema, noise=estimates.noise_of_medians("series"))
    ]
    assert (flat, none) == (0.0, None)
    expected = [
        statistics.noise_of_medians([(name, math.log(value)) for _, name, value in sorted(series)])
        for (series,) in rows[:-2]
    ]
    assert found == pytest.approx(expected)
    assert sum(0 < one < statistics.UNDENIABLE for one in expected) >= 4


def test_quantiles_of_histograms_are_those_of_python(spark: SparkSession) -> None:
    histograms = [[(8, 3), (20, 5)], [(0, 1)], [(7, 1000), (8, 1), (100, 1)], [(5, 0), (6, 2)]]
    shares = (0.02, 0.5, 0.98)
    rows = computed(
        spark,
        [(bins,) for bins in [*histograms, []]],
        "bins array<struct<bin: bigint, count: bigint>>",
        **{
            f"q{place}": estimates.quantile_of_bins("bins", f"{share}D") for place, share in enumerate(shares)
        },
    )
    for row, bins in zip(rows, histograms, strict=False):
        expected = [statistics.quantile_of_bins(bins, share) for share in shares]
        assert [row[f"q{place}"] for place in range(3)] == pytest.approx(expected)
    assert rows[-1]["q1"] is None


def test_false_discoveries_are_bounded_in_each_family(spark: SparkSession) -> None:
    chance = random.Random(3)
    rows = [(place, place % 3, chance.choice([None, 0.01, 0.04, chance.random()])) for place in range(40)]
    frame = local_frame(spark, rows, "place int, family int, p double")
    got = {row["place"]: row["q"] for row in estimates.with_q(frame, "family").collect()}
    for family in range(3):
        mine = {place: p for place, of, p in rows if of == family and p is not None}
        expected = dict(zip(mine, statistics.benjamini_hochberg(list(mine.values())), strict=True))
        assert {place: got[place] for place in mine} == pytest.approx(expected)
    assert all(got[place] is None for place, _, p in rows if p is None)


def test_q_is_added_in_two_steps(spark: SparkSession) -> None:
    """Spark analyses all that stands in front again with each of them."""
    frame = spark.range(1).selectExpr("id AS family", "0.5D AS p")
    # Each step has the next number.
    before, behind = (made._jdf.queryExecution().id() for made in (frame, estimates.with_q(frame, "family")))
    assert behind - before == 2


def test_missing_columns_are_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column p"):
        estimates.with_q(spark.range(1), "id")
