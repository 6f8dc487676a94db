"""Requirements: what each run showed, what holds for each node version.

When several tests of a run are about one requirement, the worst outcome counts (``rollups``). "n/a" is worse than
nothing and better than everything else: it stands only where no test could say more, and never counts as passed.
Outcomes are the rollup ``requirements``.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_reports.frames.columns import require
from spark_reports.rows import OUTCOMES

WORST_FIRST = ("fail", "inconclusive", "warning", "deviation", "pass", "n/a")
"""The outcomes in the order in which one wins over the next."""

LEVELS = ("MUST", "MUST NOT", "FACT", "SHOULD", "MAY")
"""The levels, strictest first."""

NO_REQUIREMENT = "(none)"
"""Stands for the requirement of a test that names none, so that its outcome is seen as well."""

_RUN = ("run_id", "started_at", "node_impl", "node_version")


def outcomes_by_run(outcomes: DataFrame) -> DataFrame:
    """Returns ``run_id``, one column per outcome: how many requirements ended in it, and ``tests``: all of them."""
    require(outcomes, "run_id", "outcome", "tests")
    return outcomes.groupBy("run_id").agg(
        *(sf.count(sf.when(sf.col("outcome") == outcome, True)).alias(outcome) for outcome in OUTCOMES),
        sf.sum("tests").alias("tests"),
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


def _with_run(frame: DataFrame, runs: DataFrame) -> DataFrame:
    require(runs, *_RUN)
    return frame.join(sf.broadcast(runs.select(*_RUN)), "run_id")


def _rank(value: Column, order: tuple[str, ...], unknown: str) -> Column:
    """Returns the position of a value, from 1; that of ``unknown`` for a value that is not listed."""
    position = sf.array_position(sf.array(*map(sf.lit, order)), value)
    return sf.when(position > 0, position).otherwise(sf.lit(order.index(unknown) + 1)).cast("int")


def _name(rank: Column, order: tuple[str, ...]) -> Column:
    return sf.element_at(sf.array(*map(sf.lit, order)), rank)
