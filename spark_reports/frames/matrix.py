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

_RUN = ("run_id", "turn", "node_impl", "node_version")

# Where nothing is recorded of the configuration, what the run did stands in for it, as in ``sets``.
_CONDITIONS = (
    "xxhash64(node_whatami, environment, if(configuration = '', concat('kind ', kind), configuration))"
)


def outcomes_by_run(outcomes: DataFrame) -> DataFrame:
    """Returns ``run_id``, one column per outcome: how many requirements ended in it, and ``tests``: all of them."""
    require(outcomes, "run_id", "outcome", "tests")
    return outcomes.groupBy("run_id").agg(
        *(sf.count(sf.when(sf.col("outcome") == outcome, True)).alias(outcome) for outcome in OUTCOMES),
        sf.sum("tests").alias("tests"),
    )


def outcomes_by_version(outcomes: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns what holds of each requirement for each node version.

    That is the newest outcome, and where runs had different roles of the node, environments or configurations, the worst
    of what is newest in each: a test that fails over TLS is not mended by a later run over TCP.

    Columns: ``node_impl node_version requirement area level outcome run_id runs other``; ``runs`` counts
    the runs that tried it, ``other`` lists, worst first, what they saw besides that outcome.

    Args:
        outcomes: The rollup ``requirements``.
        runs: With ``turn``, a number for each that grows with the time at which it started.
    """
    require(outcomes, "run_id", "requirement", "area", "level", "outcome")
    require(runs, *_RUN, "node_whatami", "environment", "configuration", "kind")
    of_run = runs.select(*_RUN, sf.expr(_CONDITIONS).alias("conditions"))
    # All is packed into numbers: Spark sorts the rows of groups that keep text, and hashes others.
    rank, level = _rank("outcome", WORST_FIRST, "inconclusive"), _rank("level", LEVELS, "MAY")
    grouped = (
        outcomes.join(sf.broadcast(of_run), "run_id")
        .groupBy("node_impl", "node_version", "requirement", "area", "conditions")
        .agg(
            sf.max(sf.col("turn") * 256 + level * 16 + rank).alias("newest"),
            sf.count("*").alias("runs"),
            sf.bit_or(sf.pow(sf.lit(2), rank).cast("long")).alias("seen"),
        )
        .groupBy("node_impl", "node_version", "requirement", "area")
        .agg(
            sf.expr("max(struct(-(newest & 15), newest)).newest AS newest"),
            sf.sum("runs").alias("runs"),
            sf.bit_or("seen").alias("seen"),
        )
        .withColumn("turn", sf.shiftright("newest", 8))
    )
    outcome = _name(sf.col("newest").bitwiseAND(15), WORST_FIRST)
    seen = [
        sf.when(sf.col("seen").bitwiseAND(1 << rank) > 0, name) for rank, name in enumerate(WORST_FIRST, 1)
    ]
    return grouped.join(sf.broadcast(of_run.select("turn", "run_id")), "turn").select(
        *("node_impl", "node_version", "requirement", "area"),
        _name(sf.shiftright("newest", 4).bitwiseAND(15), LEVELS).alias("level"),
        outcome.alias("outcome"),
        "run_id",
        "runs",
        sf.array_remove(sf.array_compact(sf.array(*seen)), outcome).alias("other"),
    )


def _rank(name: str, order: tuple[str, ...], unknown: str) -> Column:
    """Returns the position of a value, from 1; that of ``unknown`` for a value that is not listed."""
    position = sf.array_position(sf.array(*map(sf.lit, order)), sf.col(name))
    return sf.when(position > 0, position).otherwise(sf.lit(order.index(unknown) + 1))


def _name(rank: Column, order: tuple[str, ...]) -> Column:
    return sf.element_at(sf.array(*map(sf.lit, order)), rank.cast("int"))
