"""Whether answers, campaigns and benchmarks became slower or faster than in the baseline.

What is compared is one value per run: times within a run share the machine and the moment, so a thousand of them are
no stronger than one. Two sets of runs differ when Mann-Whitney says so at 1 % of false discoveries among all that is
measured under a key, and the medians are at least as far apart as it takes to matter, and farther than by noise that
stays from run to run (``statistics.noise_of_medians``): a machine that is slow for days is slow for all runs of a
version. So of a hundred values that did not drift, one to four are told to have drifted, as machines go; and of a
hundred reports with many values, each with lasting noise of its own, more. With few runs no test can be that
sure; then the status says so.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_reports.frames import estimates, statistics
from spark_reports.frames.columns import require
from spark_reports.sets import BASELINE, CANDIDATE, HISTORY

SLOWER = "slower"
FASTER = "faster"
STEADY = "steady"
TOO_FEW = "too few runs"

SURE = 0.01
"""Share of false discoveries, and p, at which a drift is told."""

LEAST_RATE = 0.05
"""Rates and benchmarks that differ by less do not matter."""

LEAST_TIME = 0.10
"""Times that differ by less do not matter; they are kept in bins of 9 %."""

LEAST_TIMES = 20
"""A run says something about a reply with so many of them."""

_VALUE = ("name", "unit", "better", "least", "run_id", "value", "low", "high")
_OF = ("key", "name", "unit", "better")


def reply_values(reply_times: DataFrame) -> DataFrame:
    """Returns the median time of each reply in each run, of the rollup ``reply_times``.

    Columns: ``name unit better least run_id value low high``, the interval (95 %) is that of the median. Replies that
    a run has fewer than 20 times are left out.
    """
    require(reply_times, "run_id", "stimulus", "reply", "bin", "count")
    return _medians(reply_times, "reply", "after", "stimulus", "count")


def case_values(case_times: DataFrame) -> DataFrame:
    """Returns the median time of the answers in each campaign and run, of the rollup ``case_times``.

    Columns as of ``reply_values``.
    """
    require(case_times, "run_id", "campaign", "message", "bin", "cases")
    return _medians(case_times, "message", "in", "campaign", "cases", before="answer to ")


def rate_values(rates: DataFrame) -> DataFrame:
    """Returns the cases per second of each campaign in each run, of ``rates.rates_of_outcomes``.

    Columns as of ``reply_values``, without an interval.
    """
    require(rates, "run_id", "campaign", "cases_per_s")
    return rates.where(sf.col("cases_per_s") > 0).select(
        sf.concat_ws(" ", sf.lit("cases of"), sf.col("campaign")).alias("name"),
        sf.lit("1/s").alias("unit"),
        sf.lit("higher").alias("better"),
        sf.lit(LEAST_RATE).alias("least"),
        "run_id",
        sf.col("cases_per_s").alias("value"),
        *_no_interval(),
    )


def benchmark_values(benchmarks: DataFrame) -> DataFrame:
    """Returns the median sample of each benchmark in each run, of the table ``benchmarks``; warm-ups do not count.

    Columns as of ``reply_values``; the interval is that from the smallest to the largest sample.
    """
    require(benchmarks, "run_id", "name", "metric", "value", "unit", "better", "warmup", "baseline")
    against = sf.when(sf.col("baseline") != "", sf.concat(sf.lit("against "), sf.col("baseline")))
    name = sf.concat_ws(" ", "name", "metric", against)
    samples = benchmarks.where(~sf.col("warmup") & ~sf.isnan("value"))
    return (
        samples.groupBy(name.alias("name"), "unit", "better", "run_id")
        .agg(
            sf.lit(LEAST_RATE).alias("least"),
            sf.median("value").alias("value"),
            sf.min("value").alias("low"),
            sf.max("value").alias("high"),
        )
        .select(*_VALUE)
    )


def points(values: DataFrame, sets: DataFrame) -> DataFrame:
    """Returns ``key name unit better run_id started_at version value low high``: what to draw, one row per run."""
    require(values, *_VALUE)
    require(sets, "run_id", "key", "started_at", "node_version", "mutant")
    of_run = sets.where(sf.col("mutant") == "").select(
        "run_id", "key", "started_at", sf.col("node_version").alias("version")
    )
    return values.join(sf.broadcast(of_run), "run_id").select(
        *_OF, "run_id", "started_at", "version", "value", "low", "high"
    )


def drifts(values: DataFrame, sets: DataFrame) -> DataFrame:
    """Returns one row per key and measured value that both the candidate and the baseline have.

    Columns: ``key name unit better status change value_c runs_c value_b runs_b beyond p q``.

    - ``value_c``, ``value_b``: medians of the runs; ``change``: 0.1 where the candidate is 10 % above the baseline.
    - ``status``: ``slower`` and ``faster`` (worse and better, whichever way the value counts), ``steady``, or ``too few
      runs`` where not even a value that became a thousand times as large could be told, if it were the only one to
      change of all that is measured under the key.
    - ``beyond``: all runs of the candidate lie on the same side of all of the baseline; with few runs a hint, no proof.
    - ``q`` is p corrected for all that is measured under the key.
    """
    require(values, *_VALUE)
    require(sets, "run_id", "set", "key", "age", "place", "mutant")
    # Runs of other versions show how the noise of these values is.
    of_run = sets.where(f"set IN ('{CANDIDATE}', '{BASELINE}', '{HISTORY}') AND mutant = ''").selectExpr(
        *("run_id", "key", "set"), f"if(set = '{HISTORY}', string(place), set) AS of", "-age AS at"
    )
    compared = (
        values.join(sf.broadcast(of_run), "run_id")
        .groupBy(*_OF, "least")
        .agg(
            sf.expr(f"collect_list(if(set = '{CANDIDATE}', value, NULL)) AS c"),
            sf.expr(f"collect_list(if(set = '{BASELINE}', value, NULL)) AS b"),
            sf.expr("collect_list(struct(at, of AS name, value)) AS series"),
        )
        .where("size(c) > 0 AND size(b) > 0")
        .selectExpr(
            *("*", "size(c) AS runs_c", "size(b) AS runs_b"),
            f"{estimates.median('c')} AS value_c",
            f"{estimates.median('b')} AS value_b",
            "array_min(c) > array_max(b) OR array_max(c) < array_min(b) AS beyond",
            f"{estimates.least_p('size(c)', 'size(b)')} AS least_p",
        )
        .selectExpr(
            *("*", "try_divide(value_c, value_b) - 1 AS change"),
            f"if(least_p <= {SURE}, {estimates.mann_whitney('c', 'b')}, NULL) AS p",
        )
    )
    together = estimates.with_q(compared, "key").withColumn(
        "compared", sf.count("p").over(Window.partitionBy("key"))
    )
    beyond_noise = (
        f"coalesce(abs(ln(try_divide(value_c, value_b))) >= {estimates.noise_of_medians('series')}, true)"
    )
    told = f"coalesce(q <= {SURE} AND abs(change) >= least, false) AND {beyond_noise}"
    status = (
        f"CASE WHEN {told} THEN if((change > 0) = (better = 'lower'), '{SLOWER}', '{FASTER}') "
        f"WHEN p IS NULL OR least_p * compared > {SURE} THEN '{TOO_FEW}' ELSE '{STEADY}' END AS status"
    )
    return together.selectExpr(
        *_OF,
        status,
        "change",
        *("value_c", "runs_c", "value_b", "runs_b", "beyond", "p", "q"),
    )


def _medians(
    times: DataFrame, first: str, between: str, second: str, count: str, *, before: str = ""
) -> DataFrame:
    """Returns the median of each pair of two columns, which also name it."""
    name = sf.concat(sf.lit(before), first, sf.lit(f" {between} "), second)
    binned = (
        times.groupBy("run_id", first, second)
        .agg(
            sf.sum(count).alias("total"),
            # A rollup has each bin once.
            sf.sort_array(sf.collect_list(sf.struct("bin", sf.col(count).alias("count")))).alias("bins"),
        )
        .where(sf.col("total") >= LEAST_TIMES)
        .withColumn("name", name)
    )
    # The 95 % interval of a median by ranks: half the values, give or take 0.98 times the root of their number.
    apart = f"{statistics.Z95 / 2!r}D / sqrt(total)"
    return binned.selectExpr(
        *("name", "'us' AS unit", "'lower' AS better", f"{LEAST_TIME!r}D AS least", "run_id"),
        f"{estimates.quantile_of_bins('bins', '0.5D')} AS value",
        f"{estimates.quantile_of_bins('bins', f'0.5D - {apart}')} AS low",
        f"{estimates.quantile_of_bins('bins', f'0.5D + {apart}')} AS high",
    )


def _no_interval() -> tuple[Column, Column]:
    none = sf.lit(None).cast("double")
    return none.alias("low"), none.alias("high")
