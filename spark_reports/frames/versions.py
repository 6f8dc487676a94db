"""What releases of an implementation show differently, requirement by requirement, oldest release first.

Two releases differ in a requirement when one of its tests saw something else: not only pass or fail, but
also another answer. What was n/a or inconclusive says nothing about a release and is passed over.
"""

import math
import re
from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_reports.frames import statistics
from spark_reports.frames.columns import require
from spark_reports.frames.matrix import NO_REQUIREMENT
from spark_reports.rows import STALE

MET = "as required"
"""What a test saw that met its requirement."""

_COMPARABLE = ("node_impl", "node_whatami", "environment", "configuration")
"""Only runs that have these in common are compared."""

# Where what stands behind the numbers comes; 0 is the release itself. As conformance.deviations.versions has it.
_PHASES = (
    (-4, "dev|nightly|snapshot"),
    (-3, "a|alpha"),
    (-2, "b|beta"),
    (-1, "rc|c|pre|preview"),
    (1, "post|r|rev"),
)

_VERSION = (
    r"(?i)^v?(?!(?!20[0-9]{6}$)[0-9a-f]{7,40}$)([0-9]{1,9}(?:\.[0-9]{1,9})*)(?:[-.]?([a-z]+)(?:[-.]?([0-9]{1,9}))?)?"
    r"(?:-([0-9]{1,9})-g[0-9a-f]{4,40})?(?:\+[0-9a-z.]+)?$"
)
"""The last number is that of commits behind a version, as ``git describe`` counts them. What may be a commit alone, as in
a shallow clone, is no version, even if it is all digits; a day, 20261128, is one."""


Version = tuple[tuple[int, ...], int, int, int]
"""What versions are ordered by: numbers, phase, number of the phase, commits behind that."""


def parse_version(text: str) -> Version | None:
    """Returns what a version is ordered by, as ``version_key`` does for a column; None for what is no version."""
    found = re.match(_VERSION, text.strip(" "), re.ASCII)
    if found is None:
        return None
    word = (found[2] or "").lower()
    phase = next((rank for rank, words in _PHASES if word in words.split("|")), None) if word else 0
    if phase is None:
        return None
    numbers = re.sub(r"(\.0+)+$", "", found[1])
    return tuple(map(int, numbers.split("."))), phase, int(found[3] or 0), int(found[4] or 0)


def nodes_in_order(nodes: Iterable[str]) -> list[str]:
    """Sorts implementations with their versions, ``eclipse-zenoh 1.9.0``; what is no version stands in front of all that are."""

    def place(node: str) -> tuple[str, Version | tuple[()], str]:
        impl, _, version = node.rpartition(" ")
        return impl, parse_version(version) or (), version

    return sorted(nodes, key=place)


def version_key(version: Column) -> Column:
    """Returns what versions are ordered by; null for what is no version.

    1.9.0 before 1.10.0rc1 before 1.10.0 before 1.10.0-12-g0a1b2c3 before 1.10.1.
    """
    # To turn a text into small letters, Spark first makes a table of all letters there are: a second of the start.
    text = sf.trim(version)
    numbers = sf.regexp_replace(sf.regexp_extract(text, _VERSION, 1), r"(\.0+)+$", "")
    word = sf.regexp_extract(text, _VERSION, 2)
    phase = sf.when(word == "", sf.lit(0))
    for rank, words in _PHASES:
        phase = phase.when(word.rlike(f"(?i)^({words})$"), sf.lit(rank))
    number, commits = (sf.regexp_extract(text, _VERSION, group) for group in (3, 4))
    key = sf.struct(
        sf.transform(sf.split(numbers, r"\."), lambda part: part.cast("long")).alias("numbers"),
        phase.alias("phase"),
        *(
            sf.when(count == "", sf.lit(0)).otherwise(count).cast("long").alias(name)
            for count, name in ((number, "number"), (commits, "commits"))
        ),
    )
    return sf.when(text.rlike(_VERSION) & phase.isNotNull(), key)


def _placed(runs: DataFrame) -> DataFrame:
    """Adds ``key``, by which runs are ordered; leaves out those whose version is none.

    Two builds may be as many commits behind a version, as an amended one is: the later one came up later.
    """
    came_up = sf.min("started_at").over(Window.partitionBy("node_impl", "node_version"))
    return (
        runs.withColumn("key", version_key(sf.col("node_version")))
        .where(sf.col("key").isNotNull())
        .withColumn("build", sf.when(sf.col("key.commits") > 0, sf.concat(came_up, "node_version")))
        .withColumn("key", sf.struct("key.*", sf.coalesce("build", sf.lit("")).alias("build")))
    )


def shown(verdicts: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns what each test showed on each release, in runs of one kind each.

    Columns: ``node_impl node_whatami environment configuration requirement level test version key shown``.
    The newest verdict counts. A node whose version is not known has no place in an order and is left out.
    """
    require(verdicts, "run_id", "test", "requirements", "level", "outcome", "seen", "reason")
    require(runs, "run_id", "started_at", "node_version", *_COMPARABLE)
    met = (sf.col("outcome") == "pass") | (sf.col("reason") == STALE)
    saw = sf.when(met, sf.lit(MET)).otherwise(sf.col("seen"))
    newest = sf.max_by(sf.struct("level", saw.alias("shown")), sf.struct("started_at", "run_id"))
    return (
        verdicts.where(~sf.col("outcome").isin("n/a", "inconclusive"))
        .join(
            sf.broadcast(_placed(runs).select("run_id", "started_at", "node_version", "key", *_COMPARABLE)),
            "run_id",
        )
        .withColumn("requirement", sf.explode_outer("requirements"))
        .withColumn("requirement", sf.coalesce("requirement", sf.lit(NO_REQUIREMENT)))
        .groupBy(*_COMPARABLE, "requirement", "test", "key")
        .agg(newest.alias("newest"), sf.min("node_version").alias("version"))
        .select(*_COMPARABLE, "requirement", "newest.level", "test", "version", "key", "newest.shown")
    )


def first_differs(verdicts: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns for each requirement the first release that differs from the one before it.

    Releases are compared in runs of the same role, environment and configuration only. The verdicts may be the rollup ``checks`` as well.

    Columns: ``node_impl requirement level oldest newest versions first test before after differing``:
    the oldest and newest release that showed it, how many did; the first that differs from the release that
    was judged before it, null when none does; a test that shows it, and what that saw before and then; how many
    releases differ from the one before them.
    """
    of_test = Window.partitionBy(*_COMPARABLE, "requirement", "test").orderBy("key")
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
            # Two counts of what is distinct would have each row copied for each of them.
            sf.size(sf.collect_set("key")).alias("versions"),
            sf.min("here").alias("first"),
            sf.size(sf.collect_set("here.key")).alias("differing"),
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


def first_bad(checks: DataFrame, runs: DataFrame) -> DataFrame:
    """Returns since when each check fails, or failed last: the pair of versions between which that began.

    Runs are compared with runs of the same implementation, role, environment and configuration only.

    Columns: ``node_impl node_whatami environment configuration test transport requirements level good bad fixed confidence runs_good
    runs_bad failed_bad rate clean_needed between``.

    - ``bad``: the first version that failed, of the last stretch that did; ``good``: the last version before it
      without a failure in so many runs that the fault had shown (``clean_needed``, 95 % at the ``rate`` of failures
      since); empty if there is none.
    - ``between``: versions that lie between both: without a failure, but not run often enough to be sure.
    - ``confidence``: how likely the runs of ``good`` had shown the fault; below 1 always, 0 without a good version.
    - ``runs_bad``, ``failed_bad``: runs from ``bad`` on to the last version that failed.
    - ``fixed``: the first version behind the stretch that is run often enough without a failure; empty if none is.

    A run in which some tries failed counts as failed. What is n/a or inconclusive says nothing. Versions that are none
    have no place in an order and are left out.
    """
    require(checks, "run_id", "test", "transport", "requirements", "level", "outcome", "reason")
    require(runs, "run_id", "started_at", "node", *_COMPARABLE, "node_version")
    # A node that breaks a rule on purpose is of no version.
    real = runs.where(~sf.col("node").startswith("ref:") & ~sf.col("node").startswith("null:"))
    known = _placed(real).withColumnRenamed("key", "place")
    failed = f"outcome = 'fail' AND reason <> '{STALE}'"
    by_version = (
        checks.where("outcome IN ('pass', 'fail', 'warning', 'deviation')")
        .join(sf.broadcast(known.select("run_id", "place", "node_version", *_COMPARABLE)), "run_id")
        .groupBy(*_COMPARABLE, "test", "transport", "run_id", "place", "node_version")
        .agg(
            sf.expr(f"bool_or({failed}) AS failed"),
            sf.expr("max(struct(level, requirements)) AS marked"),
        )
        .groupBy(*_COMPARABLE, "test", "transport", "place")
        .agg(
            sf.min("node_version").alias("version"),
            sf.expr("count_if(failed) AS failed"),
            sf.count("*").alias("runs"),
            sf.max("marked").alias("marked"),
        )
    )
    walked = (
        by_version.groupBy(*_COMPARABLE, "test", "transport")
        .agg(
            sf.expr("sort_array(collect_list(struct(place, version, failed, runs)), false) AS seen"),
            sf.max_by("marked", "place").alias("marked"),
        )
        .where("exists(seen, one -> one.failed > 0)")
        .selectExpr("*", f"{_WALKED} AS walked")
        .selectExpr("*", f"{_enough_runs('walked.failed', 'walked.runs')} AS clean_needed")
    )
    unlikely = "power(1 - (walked.failed + 0.5D) / (walked.runs + 1), walked.runs_good)"
    # What is too unlikely for a float to tell it from never is not never.
    confidence = f"least(1 - {unlikely}, {math.nextafter(1, 0)!r}D)"
    return walked.selectExpr(
        *(*_COMPARABLE, "test", "transport", "marked.requirements AS requirements", "marked.level AS level"),
        *("walked.good AS good", "walked.bad AS bad"),
        # What is newer than the last failure has none; seen is newest first.
        "coalesce(try_element_at(filter(walked.newer, one -> one.runs >= clean_needed), -1).version, '') AS fixed",
        f"{confidence} AS confidence",
        *("walked.runs_good AS runs_good", "walked.runs AS runs_bad", "walked.failed AS failed_bad"),
        *("walked.failed / walked.runs AS rate", "clean_needed", "reverse(walked.between) AS between"),
    )


def _enough_runs(failed: str, runs: str) -> str:
    """Returns how many runs without a failure it takes to be sure that there is none; as statistics.runs_to_see."""
    needed = f"ceil({math.log(1 - statistics.SURE)!r}D / ln(1 - {failed} / {runs}))"
    return f"if({failed} >= {runs}, 1L, greatest(1L, {needed}))"


# Goes back from the newest version: past those that failed and those that were run too seldom to be sure that they
# do not, to the first that is clean. What lies between two failing versions belongs to the stretch.
_START = """named_struct('failed', 0L, 'runs', 0L, 'bad', '', 'good', '', 'runs_good', 0L, 'pending', 0L,
    'between', cast(array() AS array<string>), 'newer', cast(array() AS array<struct<version: string, runs: bigint>>))"""

_WALKED = f"""aggregate(seen, {_START}, (state, one) -> CASE
    WHEN state.good <> '' THEN state
    WHEN one.failed > 0 THEN named_struct('failed', state.failed + one.failed,
        'runs', state.runs + one.runs + state.pending, 'bad', one.version, 'good', '', 'runs_good', 0L, 'pending', 0L,
        'between', cast(array() AS array<string>), 'newer', state.newer)
    WHEN state.bad = '' THEN named_struct('failed', 0L, 'runs', 0L, 'bad', '', 'good', '', 'runs_good', 0L,
        'pending', 0L, 'between', state.between,
        'newer', array_append(state.newer, named_struct('version', one.version, 'runs', one.runs)))
    WHEN one.runs >= {_enough_runs("state.failed", "state.runs")} THEN named_struct('failed', state.failed,
        'runs', state.runs, 'bad', state.bad, 'good', one.version, 'runs_good', one.runs, 'pending', state.pending,
        'between', state.between, 'newer', state.newer)
    ELSE named_struct('failed', state.failed, 'runs', state.runs, 'bad', state.bad, 'good', '', 'runs_good', 0L,
        'pending', state.pending + one.runs, 'between', array_append(state.between, one.version),
        'newer', state.newer)
    END)"""
