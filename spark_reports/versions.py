"""What releases of an implementation show differently, requirement by requirement, oldest release first.

Two releases differ in a requirement when one of its tests saw something else: not only pass or fail, but
also another answer. What was n/a or inconclusive says nothing about a release and is passed over.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_reports.columns import require
from spark_reports.matrix import NO_REQUIREMENT
from spark_reports.rows import STALE

MET = "as required"
"""What a test saw that met its requirement."""

# Where what stands behind the numbers comes; 0 is the release itself. As conformance.deviations.versions has it.
_PHASES = (
    (-4, "dev|nightly|snapshot"),
    (-3, "a|alpha"),
    (-2, "b|beta"),
    (-1, "rc|c|pre|preview"),
    (1, "post|r|rev"),
)

_VERSION = r"^v?([0-9]{1,9}(?:\.[0-9]{1,9})*)(?:[-.]?([a-z]+)(?:[-.]?([0-9]{1,9}))?)?(?:\+[0-9a-z.]+)?$"


def version_key(version: Column) -> Column:
    """Returns what versions are ordered by: 1.9.0 before 1.10.0rc1 before 1.10.0; null for what is no version."""
    text = sf.lower(sf.trim(version))
    numbers = sf.regexp_replace(sf.regexp_extract(text, _VERSION, 1), r"(\.0+)+$", "")
    word = sf.regexp_extract(text, _VERSION, 2)
    phase = sf.when(word == "", sf.lit(0))
    for rank, words in _PHASES:
        phase = phase.when(word.rlike(f"^({words})$"), sf.lit(rank))
    count = sf.regexp_extract(text, _VERSION, 3)
    key = sf.struct(
        sf.transform(sf.split(numbers, r"\."), lambda part: part.cast("long")).alias("numbers"),
        phase.alias("phase"),
        sf.when(count == "", sf.lit(0)).otherwise(count).cast("long").alias("number"),
    )
    return sf.when(text.rlike(_VERSION) & phase.isNotNull(), key)


def shown(verdicts: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns what each test showed on each release: ``node_impl requirement level test version key shown``.

    The newest verdict counts. A node whose version is not known has no place in an order and is left out.
    """
    require(verdicts, "run_id", "test", "requirements", "level", "outcome", "seen", "reason")
    require(runs, "run_id", "started_at", "node_impl", "node_version")
    met = (sf.col("outcome") == "pass") | (sf.col("reason") == STALE)
    saw = sf.when(met, sf.lit(MET)).otherwise(sf.col("seen"))
    newest = sf.max_by(sf.struct("level", saw.alias("shown")), sf.struct("started_at", "run_id"))
    return (
        verdicts.where(~sf.col("outcome").isin("n/a", "inconclusive"))
        .join(sf.broadcast(runs.select("run_id", "started_at", "node_impl", "node_version")), "run_id")
        .withColumn("key", version_key(sf.col("node_version")))
        .where(sf.col("key").isNotNull())
        .withColumn("requirement", sf.explode_outer("requirements"))
        .withColumn("requirement", sf.coalesce("requirement", sf.lit(NO_REQUIREMENT)))
        .groupBy("node_impl", "requirement", "test", "key")
        .agg(newest.alias("newest"), sf.min("node_version").alias("version"))
        .select("node_impl", "requirement", "newest.level", "test", "version", "key", "newest.shown")
    )


def first_differs(verdicts: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns for each requirement the first release that differs from the one before it.

    Columns: ``node_impl requirement level oldest newest versions first test before after differing``:
    the oldest and newest release that showed it, how many did; the first that differs from the release that
    was judged before it, null when none does; a test that shows it, and what that saw before and then; how many
    releases differ from the one before them.
    """
    of_test = Window.partitionBy("node_impl", "requirement", "test").orderBy("key")
    before = sf.lag("shown").over(of_test)
    differs = before.isNotNull() & (before != sf.col("shown"))
    here = sf.struct("key", "test", "version", "before", "shown")
    return (
        shown(verdicts, runs)
        .withColumn("before", before)
        .withColumn("here", sf.when(differs, here))
        .groupBy("node_impl", "requirement")
        .agg(
            sf.max_by("level", "key").alias("level"),
            sf.min_by("version", "key").alias("oldest"),
            sf.max_by("version", "key").alias("newest"),
            sf.count_distinct("key").cast("int").alias("versions"),
            sf.min("here").alias("first"),
            sf.count_distinct("here.key").cast("int").alias("differing"),
        )
        .select(
            "node_impl",
            "requirement",
            "level",
            "oldest",
            "newest",
            "versions",
            sf.col("first.version").alias("first"),
            sf.col("first.test").alias("test"),
            sf.col("first.before").alias("before"),
            sf.col("first.shown").alias("after"),
            "differing",
        )
    )
