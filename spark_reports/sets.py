"""What is compared with what: candidate and baseline runs of the same node, environment and configuration.

Runs that differ in one of these are never compared: what looks fixed may only have been asked differently.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_reports.columns import require
from spark_reports.versions import version_key

CANDIDATE = "candidate"
BASELINE = "baseline"
HISTORY = "history"
NOT_COMPARABLE = "not comparable"

PREVIOUS = "previous"
RUN = "run"
VERSION = "version"

_OF_RUN = (
    *("run_id", "started_at", "node", "node_impl", "node_version", "node_whatami"),
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


def of_kind(runs: DataFrame, kind: str) -> DataFrame:
    """Returns the runs that did ``conformance``, ``fuzz`` or ``benchmark``; a run may have done several."""
    require(runs, "kind")
    return runs.where(sf.array_contains(sf.split("kind", r"\+"), kind))


def resolve(runs: DataFrame, baseline: Baseline) -> DataFrame:
    """Returns one row per run: what it is in the comparison.

    Columns: ``run_id set key others age started_at node_impl node_whatami node_version place harness mutant
    has_candidate has_baseline``. The
    ``key`` is what comparable runs share, in words; ``others`` counts the runs of the same implementation with another
    key; ``age`` counts the runs of a key from the newest, 0; ``place`` orders the versions of a key, from 1;
    ``harness`` is the commit of the tests, or their version; ``mutant`` names the rule that a reference node breaks;
    ``has_candidate`` and ``has_baseline`` say whether a run of the key is one.

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
            sf.count("*").over(Window.partitionBy("node_impl", "node_whatami")) - sf.count("*").over(by_key),
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


def compared(sets: DataFrame) -> DataFrame:
    """Returns what is compared, one row per key with a candidate or runs that are not comparable.

    Columns: ``key node candidate baseline not_comparable candidate_version baseline_version others``; run ids newest
    first, versions joined by a comma.
    """
    require(sets, "run_id", "set", "key", "others", "age", "node_impl", "node_whatami", "node_version")

    def of(name: str, value: Column) -> Column:
        return sf.when(sf.col("set") == name, value)

    def ids(name: str) -> Column:
        newest_first = sf.array_sort(sf.collect_list(of(name, sf.struct("age", "run_id"))))
        return sf.transform(newest_first, lambda run: run["run_id"])

    def names(name: str) -> Column:
        return sf.array_join(sf.sort_array(sf.collect_set(of(name, sf.col("node_version")))), ", ")

    node = sf.trim(sf.concat_ws(" ", "node_impl", "node_whatami"))
    return (
        sets.groupBy("key")
        .agg(
            sf.first(node).alias("node"),
            ids(CANDIDATE).alias("candidate"),
            ids(BASELINE).alias("baseline"),
            ids(NOT_COMPARABLE).alias("not_comparable"),
            names(CANDIDATE).alias("candidate_version"),
            names(BASELINE).alias("baseline_version"),
            sf.first("others").alias("others"),
        )
        .where((sf.size("candidate") > 0) | (sf.size("not_comparable") > 0))
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
    def told(name: str) -> Column:
        return sf.when(sf.col(name) != "", sf.col(name)).otherwise(sf.lit(f"{name} not recorded"))

    # Nodes of which nothing is known are the same only if they were reached in the same way.
    alone = (sf.col("mutant") != "") | (sf.col("node_impl") == "unknown")
    node = sf.concat_ws(
        " ", "node_impl", sf.when(alone, sf.col("node")), sf.nullif("node_whatami", sf.lit(""))
    )
    return sf.concat_ws("; ", node, told("environment"), told("configuration"))


def _unnumbered() -> Column:
    return sf.when(sf.col("version").isNull(), sf.col("node_version"))
