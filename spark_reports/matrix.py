"""Requirements: what each run showed, what holds for each node version, what changed.

When several tests of a run are about one requirement, the worst outcome counts. "n/a" is worse than
nothing and better than everything else: it stands only where no test could say more, and never counts
as passed.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_reports.columns import require
from spark_reports.rows import OUTCOMES

WORST_FIRST = ("fail", "inconclusive", "warning", "deviation", "pass", "n/a")
"""The outcomes in the order in which one wins over the next."""

LEVELS = ("MUST", "MUST NOT", "FACT", "SHOULD", "MAY")
"""The levels, strictest first."""

NO_REQUIREMENT = "(none)"
"""Stands for the requirement of a test that names none, so that its outcome is seen as well."""

_RUN = ("run_id", "started_at", "node", "node_impl", "node_version")


def requirement_outcomes(verdicts: DataFrame) -> DataFrame:
    """Returns ``run_id requirement area level outcome tests``: one row per run and requirement.

    The area is the middle part of the id, ``INIT`` in ``ZN-INIT-003``; "other" without one. An outcome
    that is not one of ours counts as inconclusive.
    """
    require(verdicts, "run_id", "test", "requirements", "level", "outcome")
    single = verdicts.withColumn("requirement", sf.explode_outer("requirements")).withColumn(
        "requirement", sf.coalesce("requirement", sf.lit(NO_REQUIREMENT))
    )
    area = sf.regexp_extract("requirement", r"^[A-Za-z]+-([A-Za-z]+)-", 1)
    return single.groupBy("run_id", "requirement").agg(
        sf.first(sf.when(area == "", sf.lit("other")).otherwise(area)).alias("area"),
        _name(sf.min(_rank(sf.col("level"), LEVELS, "MAY")), LEVELS).alias("level"),
        _name(sf.min(_rank(sf.col("outcome"), WORST_FIRST, "inconclusive")), WORST_FIRST).alias("outcome"),
        sf.count("*").alias("tests"),
    )


def outcomes_by_run(outcomes: DataFrame) -> DataFrame:
    """Returns ``run_id`` and one column per outcome: how many requirements ended in it."""
    require(outcomes, "run_id", "outcome")
    return outcomes.groupBy("run_id").agg(
        *(sf.count(sf.when(sf.col("outcome") == outcome, True)).alias(outcome) for outcome in OUTCOMES)
    )


def outcomes_by_version(outcomes: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns the newest outcome of each requirement for each node version.

    Columns: ``node_impl node_version requirement area level outcome run_id runs other``; ``runs`` counts
    the runs that tried it, ``other`` lists, worst first, what they saw besides the newest outcome.
    """
    require(outcomes, "run_id", "requirement", "area", "level", "outcome")
    joined = _with_run(outcomes, runs)
    rank = _rank(sf.col("outcome"), WORST_FIRST, "inconclusive")
    newest = sf.max_by(sf.struct("area", "level", "outcome", "run_id"), sf.struct("started_at", "run_id"))
    grouped = joined.groupBy("node_impl", "node_version", "requirement").agg(
        newest.alias("newest"), sf.count("*").alias("runs"), sf.sort_array(sf.collect_set(rank)).alias("seen")
    )
    names = sf.transform("seen", lambda rank: _name(rank, WORST_FIRST))
    return grouped.select(
        "node_impl",
        "node_version",
        "requirement",
        "newest.area",
        "newest.level",
        "newest.outcome",
        "newest.run_id",
        "runs",
        sf.array_remove(names, sf.col("newest.outcome")).alias("other"),
    )


def changes(outcomes: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns what the newest run of each node shows differently from the last run that showed it.

    Runs belong together when they asked for the same node (``--node``), so a node that was upgraded
    in between is compared with what it was. Columns: ``node requirement level before after before_run
    after_run before_version after_version``.
    """
    require(outcomes, "run_id", "requirement", "level", "outcome")
    in_order = sf.struct("started_at", "run_id")
    history = Window.partitionBy("node", "requirement").orderBy("started_at", "run_id")
    whole = Window.partitionBy("node")
    return (
        _with_run(outcomes, runs)
        .withColumn("before", sf.lag("outcome").over(history))
        .withColumn("before_run", sf.lag("run_id").over(history))
        .withColumn("before_version", sf.lag("node_version").over(history))
        .withColumn("newest", sf.max_by("run_id", in_order).over(whole))
        .where((sf.col("run_id") == sf.col("newest")) & (sf.col("before") != sf.col("outcome")))
        .select(
            "node",
            "requirement",
            "level",
            "before",
            sf.col("outcome").alias("after"),
            "before_run",
            sf.col("run_id").alias("after_run"),
            "before_version",
            sf.col("node_version").alias("after_version"),
        )
    )


def newest_verdicts(verdicts: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns the verdicts behind ``outcomes_by_version``, with the columns of their run.

    Those are the verdicts of the newest run, for each node version, that tried one of their requirements.
    """
    require(verdicts, "run_id", "requirements")
    joined = _with_run(verdicts, runs)
    columns = joined.columns
    tried = Window.partitionBy("node_impl", "node_version", "requirement")
    return (
        joined.withColumn("requirement", sf.explode_outer("requirements"))
        .withColumn("newest", sf.max(sf.struct("started_at", "run_id")).over(tried))
        .where(sf.col("run_id") == sf.col("newest.run_id"))
        .select(*columns)
        .distinct()
    )


def troubles(newest: DataFrame) -> DataFrame:
    """Returns the verdicts that need an explanation: all but pass and n/a."""
    require(newest, "outcome", "test", "expected", "seen")
    return newest.where(~sf.col("outcome").isin("pass", "n/a")).select(
        *("outcome", "test", "requirements", "level", "node_impl", "node_version", "run_id"),
        *("expected", "seen", "reason", "stimulus", "capture", "repeat"),
    )


def not_applicable(newest: DataFrame) -> DataFrame:
    """Returns ``reason tests``: why tests could not show their requirement, the commonest reason first."""
    require(newest, "outcome", "reason")
    return newest.where(sf.col("outcome") == "n/a").groupBy("reason").agg(sf.count("*").alias("tests"))


def _with_run(frame: DataFrame, runs: DataFrame) -> DataFrame:
    require(runs, *_RUN)
    return frame.join(sf.broadcast(runs.select(*_RUN)), "run_id")


def _rank(value: Column, order: tuple[str, ...], unknown: str) -> Column:
    """Returns the position of a value, from 1; that of ``unknown`` for a value that is not listed."""
    position = sf.array_position(sf.array(*map(sf.lit, order)), value)
    return sf.when(position > 0, position).otherwise(sf.lit(order.index(unknown) + 1)).cast("int")


def _name(rank: Column, order: tuple[str, ...]) -> Column:
    return sf.element_at(sf.array(*map(sf.lit, order)), rank)
