"""How fast and how it was measured: cases per second and their verdicts, traffic of the tests."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_reports.columns import require
from spark_reports.rows import FUZZ_VERDICTS


def campaign_rates(cases: DataFrame) -> DataFrame:
    """Returns one row per run and campaign.

    Columns: ``run_id campaign cases seconds cases_per_s node_starts`` and one per fuzz verdict. Seconds
    are those from the start of the first case to the end of the last; without any the rate is null. A
    verdict that is not one of ours counts as inconclusive.
    """
    require(cases, "run_id", "campaign", "time_ns", "duration_s", "verdict", "node_instance")
    known = sf.col("verdict").isin(*FUZZ_VERDICTS)
    verdict = sf.when(known, sf.col("verdict")).otherwise(sf.lit("inconclusive"))
    start = sf.min("time_ns")
    last_start = sf.max("time_ns")
    last_duration = sf.max_by("duration_s", "time_ns")
    seconds = (last_start - start) / 1e9 + sf.when(last_duration > 0, last_duration).otherwise(sf.lit(0.0))
    counted = (sf.count(sf.when(verdict == name, True)).alias(name) for name in FUZZ_VERDICTS)
    return (
        cases.groupBy("run_id", "campaign")
        .agg(
            sf.count("*").alias("cases"),
            seconds.alias("seconds"),
            sf.max("node_instance").alias("node_starts"),
            *counted,
        )
        .withColumn("cases_per_s", sf.when(sf.col("seconds") > 0, sf.col("cases") / sf.col("seconds")))
    )


def traffic(observations: DataFrame) -> DataFrame:
    """Returns ``run_id sent received undecoded``: batches of the tests, and those that do not decode."""
    require(observations, "run_id", "direction", "error")
    received = sf.col("direction") == "received"
    return observations.groupBy("run_id").agg(
        sf.count(sf.when(sf.col("direction") == "sent", True)).alias("sent"),
        sf.count(sf.when(received, True)).alias("received"),
        sf.count(sf.when(received & (sf.col("error") != ""), True)).alias("undecoded"),
    )
