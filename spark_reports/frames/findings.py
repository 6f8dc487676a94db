"""Fuzz findings: one row per bucket, which is the signature that cases with the same cause share, and implementation.

Another implementation that shows the same signature has another fault.
"""

import math
from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark_reports.frames import statistics
from spark_reports.frames.columns import require
from spark_reports.rows import CASE_BUCKETS_SINCE
from spark_reports.sets import BASELINE, CANDIDATE

NO_BUCKET = "(no signature)"
"""Stands for the bucket of a finding that has none, so that it is seen as well."""

NEW = "new"
KNOWN = "known"
REOPENED = "reopened"
GONE = "gone"
NOT_TRIED = "not tried"

CLEAN_RUNS = 3
"""Fewer runs in a row that could have met a bucket and did not are never enough to call it gone, and then reopened."""

_CASE = (
    *(
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
    ),
    *("capture", "seed"),
)
_LISTS = ("campaigns", "fields", "states", "oracles", "messages")
_OF_BUCKETS = ("campaign", "cases", "first_ns", "cases_before", "smallest", *_LISTS)
_HELD: Mapping[str, bool | str] = {"unheld": False, "apart": False, "folder": ""}
"""What ``held`` says of a bucket, and what holds where it is not asked."""

_LEARNED = ("status", "known", "fails", "tries", "confirmed")
_OF_FINDINGS = (
    *("hits", "campaign", "case", "size", "message", "field", "state", "oracle", "detail", "seed"),
    "folder",
)


def held(buckets: DataFrame, findings: DataFrame, complete: Collection[str]) -> DataFrame:
    """Returns the rollup ``buckets`` with what the findings of each run say of it: one row for what each of them holds.

    The bucket of a case is what it seemed to be when it was played; the finding is what it turned out to be. Of runs
    without findings, or whose findings do not say which buckets they hold, the rollup stays as it is.

    Args:
        buckets: The rollup.
        findings: The table, with all rows of a finding.
        complete: The runs that ended in order: in these everything that was met has been looked into.

    Columns: those of ``bucket_changes``, and

    - ``bucket``: the finding that holds it; of several the one of the same name, or else the one that was met most
      often. Each finding has a row of its own besides, whose ``smallest`` names the case that it is laid on, without
      bytes, and whose ``cases_before`` is null; it counts cases only if the finding holds none.
    - ``unheld``: no finding of its run holds it, and the run is complete.
    - ``apart``: the ``smallest`` case sends another message than the finding is about: the harm only showed there.
    - ``folder``: where the finding is stored, as seen from the folder of the run; empty if none holds it.
    """
    require(buckets, "run_id", "bucket", *_OF_BUCKETS)
    require(
        findings,
        "run_id",
        "bucket",
        "job",
        "part",
        "time_ns",
        "hits",
        "case_buckets",
        "folder",
        "rows_version",
    )
    says = sf.min("rows_version").over(Window.partitionBy("run_id")) >= CASE_BUCKETS_SINCE
    # A few rows for each run. Each part of it counts its own hits.
    parts = (
        findings.withColumn("says", says)
        .where("says")
        .groupBy("run_id", "bucket", "job", "part")
        .agg(
            sf.max_by(sf.struct(*_OF_FINDINGS), "time_ns").alias("last"),
            _flat("case_buckets"),
        )
    )
    # One whose last row counts no case is part of another by now.
    ours = (
        parts.groupBy("run_id", "bucket", "job")
        .agg(
            sf.max_by("last", sf.struct("part")).alias("last"),
            sf.sum("last.hits").alias("hits"),
            _flat("case_buckets"),
        )
        .where("last.hits > 0")
        .groupBy("run_id", "bucket")
        .agg(
            sf.max_by("last", sf.struct("hits", "job")).alias("last"),
            sf.sum("hits").alias("hits"),
            _flat("case_buckets"),
        )
    )
    name = sf.col("name")
    first = sf.struct(name != sf.col("bucket"), -sf.col("hits"), name)
    holds = (
        ours.withColumn("held", sf.array_union("case_buckets", sf.array("bucket")))
        .select(
            *("run_id", sf.col("bucket").alias("name"), "hits", sf.col("last.message").alias("about")),
            *(sf.col("last.folder").alias("folder"), sf.explode("held").alias("bucket")),
        )
        .groupBy("run_id", "bucket")
        .agg(*(sf.min_by(what, first).alias(what) for what in ("name", "about", "folder")))
    )
    told = ours.select("run_id").distinct().withColumn("ended", sf.col("run_id").isin(*complete))
    other = (sf.col("about") != "") & (sf.col("smallest.message") != sf.col("about"))
    named = (
        buckets.join(sf.broadcast(holds), ["run_id", "bucket"], "left")
        .join(sf.broadcast(told), "run_id", "left")
        .withColumn("unheld", sf.coalesce(name.isNull() & sf.col("ended"), sf.lit(False)))
        .withColumn("apart", sf.coalesce(other, sf.lit(False)))
        .withColumn("bucket", sf.coalesce(name, "bucket"))
        .withColumn("folder", sf.coalesce("folder", sf.lit("")))
        .select("run_id", "bucket", *_OF_BUCKETS, *_HELD)
    )
    with_cases = named.select("run_id", "bucket", sf.lit(True).alias("met")).distinct()
    return named.unionByName(_of_their_own(ours.join(with_cases, ["run_id", "bucket"], "left"), buckets))


def _of_their_own(findings: DataFrame, buckets: DataFrame) -> DataFrame:
    """Returns findings as rows of the rollup; those that are ``met`` by cases count none themselves."""
    smallest = buckets.schema["smallest"].dataType
    assert isinstance(smallest, StructType)
    last = sf.col("last")
    there = {
        "sent_bytes": last["size"],
        **{name: last[name] for name in _OF_FINDINGS if name in smallest.names},
    }
    case = (there.get(field.name, sf.lit("")).cast(field.dataType).alias(field.name) for field in smallest)
    lists = {"campaigns": "campaign", "fields": "field", "states": "state", "oracles": "oracle"}
    return findings.select(
        *("run_id", "bucket", last["campaign"].alias("campaign")),
        sf.when(sf.col("met"), 0).otherwise(sf.col("hits")).cast("long").alias("cases"),
        sf.lit(None).cast("long").alias("first_ns"),
        sf.lit(None).cast("long").alias("cases_before"),
        sf.struct(*case).alias("smallest"),
        *(sf.array(last[lists.get(name, "message")]).alias(name) for name in _LISTS),
        sf.lit(False).alias("unheld"),
        sf.lit(False).alias("apart"),
        last["folder"].alias("folder"),
    )


def _flat(name: str) -> Column:
    return sf.array_distinct(sf.flatten(sf.collect_list(name))).alias(name)


def told(findings: DataFrame, sets: DataFrame) -> DataFrame:
    """Returns what was learned about each finding when it was looked into, one row per bucket and implementation.

    Of several jobs and parts of a run, and of several runs, the one that makes a run fail stands for all, or else the one
    in which it came again most often: that another one did not see it again refutes nothing.

    Args:
        findings: The table, with all rows of a finding.
        sets: What is compared, of ``sets.resolve``.

    Columns: ``bucket node_impl confirmed known ours``.

    - ``ours``: runs of the candidate say it; others, on other versions, only speak where none of them does.
    - ``confirmed``: the status, one of ``rows.FINDING_STATUS``.
    - ``known``: the name of the known finding that it is; empty if it is none for the newest run of a key.
    """
    require(findings, "run_id", "bucket", "job", "part", "time_ns", "hits", "rows_version", *_LEARNED)
    require(sets, "run_id", "set", "key", "age", "node_impl", "mutant")
    of_run = sf.broadcast(
        sets.where(sf.col("mutant") == "").select(
            "run_id", "key", "node_impl", "age", (sf.col("set") == CANDIDATE).alias("ours")
        )
    )
    # What counts no case any more is part of another finding.
    counts = (sf.col("last.hits") > 0) | (sf.col("last.rows_version") < CASE_BUCKETS_SINCE)
    share = sf.coalesce(sf.try_divide("last.confirmed", "last.tries"), sf.lit(0.0))
    return (
        findings.groupBy("run_id", "bucket", "job", "part")
        .agg(sf.max(sf.struct("time_ns", "hits", "rows_version", *_LEARNED)).alias("last"))
        .where(counts)
        .groupBy("run_id", "bucket")
        .agg(
            sf.min(sf.struct(~sf.col("last.fails"), -share, "last.status")).alias("best"),
            sf.max("last.known").alias("known"),
        )
        .join(of_run, "run_id")
        .groupBy("bucket", "node_impl", "ours", "key")
        .agg(sf.min("best").alias("best"), sf.min_by("known", "age").alias("known"))
        .groupBy("bucket", "node_impl", "ours")
        .agg(sf.min("best")["status"].alias("confirmed"), sf.min("known").alias("known"))
        .groupBy("bucket", "node_impl")
        .agg(sf.max(sf.struct("ours", "confirmed", "known")).alias("said"))
        .select("bucket", "node_impl", "said.confirmed", "said.known", "said.ours")
    )


def bucket_changes(buckets: DataFrame, outcomes: DataFrame, sets: DataFrame) -> DataFrame:
    """Returns one row per bucket and implementation: what became of it, when and where it was seen, its smallest case.

    Args:
        buckets: The rollup ``buckets``, or what ``held`` makes of it.
        outcomes: The rollup ``case_outcomes``, which says which runs could have met a bucket.
        sets: What is compared, of ``sets.resolve``.

    Columns: ``bucket node_impl status cases runs first_run last_run first_seen last_seen cases_before cases_c cases_b
    played_c odds campaigns fields states oracles messages versions by_run folders unheld`` and, of the case with the fewest bytes, one
    that is not ``apart`` and sent some if there is any, or else the one that the finding names, ``run_id campaign case sent_bytes sent_hex message field mutation state reply
    detail capture seed folder``.

    - ``status``: ``new``: the candidate met it, and no earlier run did and none of its baseline; ``reopened``: the
      candidate met it again after at least three clean runs in a row, and so many that one of them had met it (95 %) if
      it were still there, by the share of the runs that met it before; ``known``: met by the candidate, and before or by
      its baseline; ``gone``: met by runs of
      the same key and not by the candidate, although that played enough cases of its campaigns to meet it (95 %); ``not
      tried``: the candidate did not meet it, and has not looked so long that this says anything.
    - A run looked for a bucket if it played one of its campaigns against the implementation that has shown it.
    - ``cases_before``: cases of the first run that were played before it was met: cases to find it.
    - ``odds``: the share of the cases of its campaigns that met it, in the runs of the same key, the candidate left
      out, from the first that did on.
    - ``by_run``: a map of run id to cases.
    - ``folders``: a map of run id to ``folder``, of the runs whose smallest case has one.
    - ``unheld``: no run of the candidate that met it has a finding that holds it.
    """
    require(buckets, "run_id", "bucket", *_OF_BUCKETS)
    require(outcomes, "run_id", "campaign", "cases")
    require(sets, "run_id", "set", "key", "started_at", "node_impl", "node_version", "mutant")
    of_run = sf.broadcast(
        sets.where(sf.col("mutant") == "").select(
            "run_id", "set", "key", "started_at", "node_impl", "node_version"
        )
    )
    played = outcomes.groupBy("run_id", "campaign").agg(sf.sum("cases").alias("played"))
    buckets = buckets.withColumns(
        {name: sf.lit(value) for name, value in _HELD.items() if name not in buckets.columns}
    )
    met = buckets.join(of_run, "run_id")
    seen = _seen(met)
    looked = _looked(met, played.join(of_run, "run_id"))
    return (
        # Nobody can look for what was seen when no campaign was under way.
        seen.join(looked, ["bucket", "node_impl"], "left")
        # In a column of its own it is made once, however often it is looked at.
        .withColumn("story", _story())
        .withColumn("status", _status())
        .select(
            *("bucket", "node_impl", "status", "cases", "runs", "first.run_id"),
            *(
                sf.col("first.started_at").alias("first_seen"),
                sf.col("first.cases_before").alias("cases_before"),
            ),
            sf.col("last.run_id").alias("last_run"),
            sf.col("last.started_at").alias("last_seen"),
            *("cases_c", "cases_b", sf.coalesce("played_c", sf.lit(0)).alias("played_c"), "odds", *_LISTS),
            *("versions", "by_run", "folders", "unheld"),
            sf.col("least.run_id").alias("least_run"),
            "least.folder",
            *(f"least.smallest.{name}" for name in _CASE),
        )
        .withColumnRenamed("run_id", "first_run")
        .withColumnRenamed("least_run", "run_id")
    )


def distinct_over_time(buckets: DataFrame, outcomes: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns how the number of buckets grew, one row per run that fuzzed.

    Columns: ``node_impl run_id started_at played new cases buckets``: cases that the run played and buckets that it met
    first; cases and buckets of this and all earlier runs of the implementation.
    """
    require(buckets, "run_id", "bucket")
    require(outcomes, "run_id", "cases")
    require(runs, "run_id", "started_at", "node_impl")
    of_run = sf.broadcast(runs.select("run_id", "started_at", "node_impl"))
    first = (
        buckets.join(of_run, "run_id")
        .groupBy("node_impl", "bucket")
        .agg(sf.min_by("run_id", sf.struct("started_at", "run_id")).alias("run_id"))
        .groupBy("run_id")
        .agg(sf.count("*").alias("new"))
    )
    per_run = (
        outcomes.groupBy("run_id")
        .agg(sf.sum("cases").alias("played"))
        .join(of_run, "run_id")
        .join(first, "run_id", "left")
        .withColumn("new", sf.coalesce("new", sf.lit(0)))
    )
    # One row per run: a window over them stays small, whatever a run holds.
    so_far = (
        Window.partitionBy("node_impl")
        .orderBy("started_at", "run_id")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return per_run.select(
        *("node_impl", "run_id", "started_at", "played", "new"),
        sf.sum("played").over(so_far).alias("cases"),
        sf.sum("new").over(so_far).alias("buckets"),
    )


def _seen(met: DataFrame) -> DataFrame:
    """Returns one row per bucket and implementation with all that its own rows say."""
    own = sf.col("cases_before").isNull()
    # The node may have failed while a case waited that had nothing to do with it, or before one could send anything: then
    # what the finding says of its case tells more, though it has no bytes to show.
    shows = ~own & ~sf.col("apart") & (sf.col("smallest.sent_bytes") > 0)
    per_run = met.groupBy("bucket", "run_id", "started_at", "set", "key", "node_impl", "node_version").agg(
        sf.sum("cases").alias("cases"),
        sf.min("cases_before").alias("cases_before"),
        sf.min(
            sf.struct(
                sf.when(shows, 0).when(own, 1).otherwise(2).alias("rank"),
                sf.col("smallest.sent_bytes").alias("sent_bytes"),
                sf.col("run_id").alias("run_id"),
                sf.col("campaign").alias("campaign"),
                sf.col("smallest.case").alias("case"),
                sf.col("smallest").alias("smallest"),
                sf.col("folder").alias("folder"),
            )
        ).alias("least"),
        *(sf.flatten(sf.collect_list(name)).alias(name) for name in _LISTS),
        sf.bool_and("unheld").alias("unheld"),
    )
    in_order = sf.struct("started_at", "run_id")
    here = sf.struct("run_id", "started_at", "cases_before")

    def of(name: str) -> Column:
        return sf.coalesce(sf.sum(sf.when(sf.col("set") == name, sf.col("cases"))), sf.lit(0))

    def keys(name: str) -> Column:
        return sf.collect_set(sf.when(sf.col("set") == name, sf.col("key")))

    return per_run.groupBy("bucket", "node_impl").agg(
        sf.sum("cases").alias("cases"),
        sf.count("*").alias("runs"),
        of(CANDIDATE).alias("cases_c"),
        of(BASELINE).alias("cases_b"),
        # The baseline is of an older version, and may have been run later all the same.
        sf.arrays_overlap(keys(CANDIDATE), keys(BASELINE)).alias("in_both"),
        sf.min_by(here, in_order).alias("first"),
        sf.max_by(here, in_order).alias("last"),
        # Of another key the candidate may be long past, and never have met it.
        sf.min(sf.when(sf.col("set") == CANDIDATE, sf.col("started_at"))).alias("start_c"),
        sf.coalesce(sf.bool_and(sf.when(sf.col("set") == CANDIDATE, sf.col("unheld"))), sf.lit(False)).alias(
            "unheld"
        ),
        sf.min("least").alias("least"),
        *(sf.sort_array(sf.array_distinct(sf.flatten(sf.collect_list(name)))).alias(name) for name in _LISTS),
        _all(sf.concat_ws(" ", "node_impl", "node_version")).alias("versions"),
        sf.map_from_entries(sf.sort_array(sf.collect_list(sf.struct("run_id", "cases")))).alias("by_run"),
        sf.map_from_entries(
            sf.sort_array(
                sf.collect_list(
                    sf.when(sf.col("least.folder") != "", sf.struct("run_id", sf.col("least.folder")))
                )
            )
        ).alias("folders"),
    )


def _looked(met: DataFrame, played: DataFrame) -> DataFrame:
    """Returns one row per bucket and implementation with what the runs that could have met it did."""
    places = met.select("bucket", "campaign", "node_impl").distinct()
    hits = met.groupBy("bucket", "run_id").agg(sf.sum("cases").alias("hits"))
    per_run = (
        played.join(sf.broadcast(places), ["campaign", "node_impl"])
        .groupBy("bucket", "node_impl", "run_id", "started_at", "set", "key")
        .agg(sf.sum("played").alias("played"))
        .join(hits, ["bucket", "run_id"], "left")
        .withColumn("hits", sf.coalesce("hits", sf.lit(0)))
    )

    ours = sf.col("set") == CANDIDATE

    def total(which: Column, value: str) -> Column:
        return sf.coalesce(sf.sum(sf.when(which, sf.col(value))), sf.lit(0))

    # Only a candidate of the same key says something about what other runs have met.
    of_key = per_run.groupBy("bucket", "node_impl", "key").agg(
        total(ours, "played").alias("played_c"),
        total(~ours, "hits").alias("hits_b"),
        sf.min(sf.when(~ours & (sf.col("hits") > 0), sf.col("started_at"))).alias("start_b"),
        sf.collect_list(
            sf.struct("started_at", "run_id", "set", (sf.col("hits") > 0).alias("met"), "played")
        ).alias("runs"),
    )
    # Runs that did not meet it count as well, or what is rare would seem frequent. Those in front of the first that
    # met it may have played against a node without it.
    since = sf.filter(
        "runs", lambda run: (run["set"] != CANDIDATE) & (run["started_at"] >= sf.col("start_b"))
    )
    played_b = sf.aggregate(since, sf.lit(0).cast("long"), lambda so_far, run: so_far + run["played"])
    odds = sf.try_divide("hits_b", "played_b")
    needed = sf.when(odds >= 1, 1.0).otherwise(math.log(1 - statistics.SURE) / sf.log1p(-odds))
    gone = (sf.col("hits_b") > 0) & (sf.col("played_c") >= needed)
    return (
        of_key.withColumn("played_b", played_b)
        .groupBy("bucket", "node_impl")
        .agg(
            sf.sum("played_c").alias("played_c"),
            sf.max(sf.when(sf.col("hits_b") > 0, odds)).alias("odds"),
            sf.coalesce(sf.min(sf.when(sf.col("hits_b") > 0, gone)), sf.lit(False)).alias("gone"),
            sf.sort_array(sf.flatten(sf.collect_list("runs"))).alias("runs_looked"),
        )
    )


def _story() -> Column:
    """Returns how many runs met it, how many there are from the first that did on, and how many of the last did not.

    Those that looked before the candidate met it count, oldest first; those in front of the first that met it may have
    played against a node without it.
    """
    start = sf.col("start_c")
    earlier = sf.filter("runs_looked", lambda run: (run["started_at"] < start) & (run["set"] != CANDIDATE))
    none = sf.struct(sf.lit(0).alias("met"), sf.lit(0).alias("runs"), sf.lit(0).alias("clean"))
    return sf.aggregate(
        earlier,
        none,
        lambda so_far, run: sf.when(
            run["met"],
            sf.struct(
                (so_far["met"] + 1).alias("met"),
                sf.when(so_far["met"] == 0, 1).otherwise(so_far["runs"] + so_far["clean"] + 1).alias("runs"),
                sf.lit(0).alias("clean"),
            ),
        ).otherwise(
            sf.struct(
                so_far["met"].alias("met"), so_far["runs"].alias("runs"), (so_far["clean"] + 1).alias("clean")
            )
        ),
    )


def _status() -> Column:
    """Decides by the story, by when the candidate and the first of all runs met it, and by whether its baseline did."""
    missed = 1 - sf.coalesce(sf.try_divide("story.met", "story.runs"), sf.lit(1.0))
    clean = sf.col("story.clean")
    was_gone = (clean >= CLEAN_RUNS) & (sf.pow(missed, clean) < 1 - statistics.SURE)
    here = sf.col("start_c").isNotNull()
    before = sf.col("in_both") | (sf.col("first.started_at") < sf.col("start_c"))
    return (
        sf.when(here & ~before, NEW)
        .when(here & was_gone, REOPENED)
        .when(here, KNOWN)
        .when(sf.col("gone"), GONE)
        .otherwise(NOT_TRIED)
    )


def _all(value: Column) -> Column:
    return sf.sort_array(sf.collect_set(value))
