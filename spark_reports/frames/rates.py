"""How fast campaigns were, and how their cases ended."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_reports.frames.columns import bounded, require
from spark_reports.rows import FUZZ_VERDICTS


def rates_of_outcomes(outcomes: DataFrame) -> DataFrame:
    """Returns one row per run and campaign, of the rollup ``case_outcomes``.

    Columns: ``run_id campaign cases seconds cases_per_s node_starts`` and one per fuzz verdict. Seconds are those from
    the start of the first case to the end of the last; without any the rate is null. Starts of the node are those of
    all jobs. A verdict that is not one of ours counts as inconclusive.
    """
    require(outcomes, "run_id", "campaign", "job", "verdict", "cases", "node_starts")
    require(outcomes, "first_ns", "last_end_ns")
    known = sf.col("verdict").isin(*FUZZ_VERDICTS)
    verdict = sf.when(known, sf.col("verdict")).otherwise(sf.lit("inconclusive"))

    def count(name: str) -> Column:
        return sf.sum(sf.when(sf.col("verdict") == name, sf.col("cases")).otherwise(0)).alias(name)

    of_jobs = (
        outcomes.withColumn("verdict", verdict)
        .groupBy("run_id", "campaign", "job")
        .agg(
            sf.sum("cases").alias("cases"),
            sf.min("first_ns").alias("first_ns"),
            sf.max("last_end_ns").alias("last_end_ns"),
            sf.max("node_starts").alias("node_starts"),
            *map(count, FUZZ_VERDICTS),
        )
    )
    # Times of a damaged row may be anything; what does not fit is no rate.
    seconds = sf.try_subtract(sf.max("last_end_ns"), sf.min("first_ns")) / 1e9
    return (
        of_jobs.groupBy("run_id", "campaign")
        .agg(
            sf.sum("cases").alias("cases"),
            seconds.alias("seconds"),
            sf.sum(bounded("node_starts")).alias("node_starts"),
            *(sf.sum(name).alias(name) for name in FUZZ_VERDICTS),
        )
        .withColumn("cases_per_s", sf.when(sf.col("seconds") > 0, sf.col("cases") / sf.col("seconds")))
    )
