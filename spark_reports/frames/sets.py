"""What is compared with what: candidate and baseline runs of the same node, environment and configuration.

Runs that differ in one of these are never compared: what looks fixed may only have been asked differently.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_reports.frames.columns import require
from spark_reports.frames.versions import version_key

CANDIDATE = "candidate"
BASELINE = "baseline"
HISTORY = "history"
NOT_COMPARABLE = "not comparable"

PREVIOUS = "previous"
RUN = "run"
VERSION = "version"

_OF_RUN = (
    *("run_id", "started_at", "kind", "node", "node_impl", "node_version", "node_whatami"),
    *("environment", "configuration", "harness_version", "harness_commit"),
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the candidate is compared with.

    Attributes:
        kind: ``previous``: the newest earlier version of the same key, or the earlier runs of the same version where
            there is but one. ``run`` and ``version``: that one.
        name: The run id or the version; empty for ``previous``.
    """

    kind: str = PREVIOUS
    name: str = ""


def baseline_of(text: str, run_ids: frozenset[str] | set[str]) -> Baseline:
    """Returns what ``--baseline`` means: ``previous``, a run if there is one of that name, or else a version."""
    if text == PREVIOUS:
        return Baseline()
    return Baseline(RUN if text in run_ids else VERSION, text)


def resolve(runs: DataFrame, baseline: Baseline) -> DataFrame:
    """Returns one row per run: what it is in the comparison.

    Columns: ``run_id set key others age started_at node_impl node_whatami node_version place harness mutant
    has_candidate has_baseline``.

    - ``key``: what comparable runs share, in words. Rows before version 4 do not say how they were configured; there
      what the run did stands in for it, so that a campaign is not taken for a run of the suite without any test.
    - ``others``: how many runs of the same implementation, role and kind have another key.
    - ``age``: counts the runs of a key from the newest, which is 0.
    - ``place``: orders the versions of a key, from 1.
    - ``harness``: the commit of the tests, or their version.
    - ``mutant``: names the rule that a reference node breaks on purpose; ``null:`` and its kind for a node that is
      none; empty for others.
    - ``has_candidate``, ``has_baseline``: whether a run of the key is one.

    The candidate is every run of the newest version of a key, or its newest run where there is one version only. A
    run whose run.json cannot be read is left out.
    """
    require(runs, *_OF_RUN)
    by_key, newest_first = Window.partitionBy("key"), (sf.desc("started_at"), sf.desc("run_id"))
    of_version = Window.partitionBy("key", "node_version")
    known = (
        runs.where(sf.col("started_at") != "")
        .select(*_OF_RUN)
        .withColumn("mutant", _mutant())
        .withColumn("key", _key())
        .withColumn("version", version_key(sf.col("node_version")))
        # Versions that are none are in the order in which they first came up.
        .withColumn("met", sf.when(sf.col("version").isNull(), sf.min("started_at").over(of_version)))
        .withColumn("place", sf.dense_rank().over(by_key.orderBy("version", "met", _unnumbered())))
        .withColumn("age", sf.row_number().over(by_key.orderBy(*newest_first)) - 1)
        .withColumn(
            "others",
            sf.count("*").over(Window.partitionBy("node_impl", "node_whatami", "kind"))
            - sf.count("*").over(Window.partitionBy("key", "kind")),
        )
    )
    return (
        _split(known, baseline)
        .withColumn("has_candidate", sf.max(sf.col("set") == CANDIDATE).over(by_key))
        .withColumn("has_baseline", sf.max(sf.col("set") == BASELINE).over(by_key))
        .select(
            *("run_id", "set", "key", "others", "age", "started_at", "node_impl", "node_whatami"),
            *("node_version", "place", "harness", "mutant", "has_candidate", "has_baseline"),
        )
    )


def _split(known: DataFrame, baseline: Baseline) -> DataFrame:
    by_key = Window.partitionBy("key")
    harness = sf.when(sf.col("harness_commit") != "", sf.col("harness_commit")).otherwise(
        sf.col("harness_version")
    )
    known = known.withColumn("harness", harness)
    newest = sf.max("place").over(by_key)
    if baseline.kind == PREVIOUS:
        one_version = newest == 1
        is_candidate = sf.when(one_version, sf.col("age") == 0).otherwise(sf.col("place") == newest)
        is_baseline = sf.when(one_version, sf.col("age") > 0).otherwise(sf.col("place") == newest - 1)
        role = sf.when(is_candidate, CANDIDATE).when(is_baseline, BASELINE).otherwise(HISTORY)
        return known.withColumn("set", role)
    wanted = sf.lit(baseline.name)
    if baseline.kind == RUN:
        asked = sf.col("run_id") == wanted
    else:
        asked = (sf.col("node_version") == wanted) | sf.coalesce(
            sf.col("version") == version_key(wanted), sf.lit(False)
        )
    known = known.withColumn("asked", asked)
    # A run is compared with those behind it, if there are some; otherwise with the newest other one.
    mark = sf.min(sf.when(sf.col("asked"), sf.struct(-sf.col("place"), sf.col("age")))).over(by_key)
    known = known.withColumn(
        "later",
        ~sf.col("asked")
        & ((sf.struct(-sf.col("place"), sf.col("age")) < mark) if baseline.kind == RUN else sf.lit(True)),
    )
    last = sf.max(sf.when(sf.col("later"), sf.col("place"))).over(by_key)
    youngest = sf.min(sf.when(~sf.col("asked"), sf.col("age"))).over(by_key)
    chosen = sf.when(last.isNull(), sf.col("age") == youngest).otherwise(
        sf.col("later") & (sf.col("place") == last)
    )
    role = (
        sf.when(~sf.max("asked").over(by_key), NOT_COMPARABLE)
        .when(sf.col("asked"), BASELINE)
        .when(chosen, CANDIDATE)
        .otherwise(HISTORY)
    )
    return known.withColumn("set", role)


def _mutant() -> Column:
    node = sf.col("node")
    return (
        sf.when(node.startswith("ref:"), sf.substring_index(node, ":", -1))
        .when(node.startswith("null:"), node)
        .otherwise(sf.lit(""))
    )


def _key() -> Column:
    # Nodes of which nothing is known are the same only if they were reached in the same way.
    alone = (sf.col("mutant") != "") | (sf.col("node_impl") == "unknown")
    node = sf.concat_ws(
        " ", "node_impl", sf.when(alone, sf.col("node")), sf.nullif("node_whatami", sf.lit(""))
    )
    environment = sf.when(sf.col("environment") == "", "environment not recorded").otherwise(
        sf.col("environment")
    )
    configuration = sf.when(
        sf.col("configuration") == "", sf.concat(sf.col("kind"), sf.lit(", configuration not recorded"))
    ).otherwise(sf.col("configuration"))
    return sf.concat_ws("; ", node, environment, configuration)


def _unnumbered() -> Column:
    return sf.when(sf.col("version").isNull(), sf.col("node_version"))
