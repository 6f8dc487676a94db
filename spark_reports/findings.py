"""Fuzz findings: one row per bucket, which is the signature that cases with the same cause share."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_reports.columns import require

NO_BUCKET = "(no signature)"
"""Stands for the bucket of a finding that has none, so that it is seen as well."""

_SMALLEST = ("sent_bytes", "run_id", "campaign", "case")


def only_findings(cases: DataFrame) -> DataFrame:
    """Returns the cases that an oracle objected to; every one of them with a bucket."""
    require(cases, "verdict", "bucket")
    bucket = sf.when(sf.col("bucket") == "", sf.lit(NO_BUCKET)).otherwise(sf.col("bucket"))
    return cases.where(sf.col("verdict") == "finding").withColumn("bucket", bucket)


def buckets(findings: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns one row per bucket: when and where it was seen, how often, and its smallest case.

    Columns: ``bucket cases runs first_run last_run campaigns fields states oracles versions`` and, of the
    case with the fewest bytes, ``run_id campaign case sent_bytes sent_hex message field mutation state
    reply detail capture seed``.
    """
    require(findings, "bucket", "campaign", "field", "state", "oracle", *_SMALLEST)
    require(runs, "run_id", "started_at", "node_impl", "node_version")
    in_order = sf.struct("started_at", "run_id")
    case = (
        "campaign",
        "case",
        "sent_bytes",
        "sent_hex",
        "message",
        "field",
        "mutation",
        "state",
        "reply",
        "detail",
    )
    smallest = sf.min_by(sf.struct("run_id", *case, "capture", "seed"), sf.struct(*_SMALLEST))
    version = sf.concat_ws(" ", "node_impl", "node_version")
    joined = findings.join(
        sf.broadcast(runs.select("run_id", "started_at", "node_impl", "node_version")), "run_id"
    )
    return (
        joined.groupBy("bucket")
        .agg(
            sf.count("*").alias("cases"),
            sf.count_distinct("run_id").alias("runs"),
            sf.min_by("run_id", in_order).alias("first_run"),
            sf.max_by("run_id", in_order).alias("last_run"),
            _all(sf.col("campaign")).alias("campaigns"),
            _all(sf.col("field")).alias("fields"),
            _all(sf.col("state")).alias("states"),
            _all(sf.col("oracle")).alias("oracles"),
            _all(version).alias("versions"),
            smallest.alias("smallest"),
        )
        .select(
            "bucket",
            "cases",
            "runs",
            "first_run",
            "last_run",
            "campaigns",
            "fields",
            "states",
            "oracles",
            "versions",
            "smallest.*",
        )
    )


def buckets_by_run(findings: DataFrame) -> DataFrame:
    """Returns ``bucket run_id cases``."""
    require(findings, "bucket", "run_id")
    return findings.groupBy("bucket", "run_id").agg(sf.count("*").alias("cases"))


def _all(value: Column) -> Column:
    return sf.sort_array(sf.collect_set(value))
