"""What was tried, and what the baseline tried and the candidate did not."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_reports.frames.columns import bounded, require
from spark_reports.frames.matrix import NO_REQUIREMENT
from spark_reports.frames.statistics import SURE
from spark_reports.sets import BASELINE, CANDIDATE

REQUIREMENT = "requirement"
STATE = "state"
MESSAGE = "message"

STRICT = ("MUST", "MUST NOT")
"""Levels of requirements that may not be lost."""

LONGER = 1.5
"""A campaign that plays so many times as many cases gets to what a shorter one cannot be blamed for."""

_SAYS_NOTHING = ("n/a", "inconclusive")


def coverage_by_run(requirements: DataFrame, coverage: DataFrame) -> DataFrame:
    """Returns ``run_id kind tried planned cases``: how much of what there was each run tried.

    Kinds are ``requirement`` (of the rollup ``requirements``; planned are those that the run's tests name, tried those
    that one of them could judge, cases are tests), those of ``rows.COVERAGE_KINDS``, and ``state`` and ``message``,
    which are those of the pairs. Planned is 0 where there is no plan; then all that was met counts as tried.
    """
    require(requirements, "run_id", "outcome", "tests")
    require(coverage, "run_id", "kind", "state", "message", "field", "what", "count", "planned")
    judged = ~sf.col("outcome").isin(*_SAYS_NOTHING)
    of_tests = requirements.groupBy("run_id").agg(
        sf.lit(REQUIREMENT).alias("kind"),
        sf.count(sf.when(judged, 1)).alias("tried"),
        sf.count("*").alias("planned"),
        sf.sum("tests").alias("cases"),
    )
    things = coverage.groupBy("run_id", "kind", "state", "message", "field", "what").agg(*_sums())
    pairs = coverage.where(sf.col("kind") == "pair")
    coarse = [
        pairs.groupBy("run_id", sf.lit(kind).alias("kind"), sf.col(kind).alias("what")).agg(*_sums())
        for kind in (STATE, MESSAGE)
    ]
    columns = ("run_id", "kind", "count", "planned")
    all_things = things.select(*columns)
    for frame in coarse:
        all_things = all_things.unionByName(frame.select(*columns))
    of_cases = all_things.groupBy("run_id", "kind").agg(
        sf.count(sf.when((sf.col("count") > 0) & sf.col("planned"), 1)).alias("planned_tried"),
        sf.count(sf.when(sf.col("count") > 0, 1)).alias("met"),
        sf.count(sf.when(sf.col("planned"), 1)).alias("planned"),
        sf.sum(bounded("count")).alias("cases"),
    )
    tried = sf.when(sf.col("planned") > 0, sf.col("planned_tried")).otherwise(sf.col("met"))
    return of_tests.unionByName(of_cases.select("run_id", "kind", tried.alias("tried"), "planned", "cases"))


def lost_requirements(requirements: DataFrame, sets: DataFrame, checks: DataFrame | None = None) -> DataFrame:
    """Returns the MUST requirements that a test of a baseline run judged and none of a candidate run did.

    Args:
        requirements: The rollup ``requirements``, which has the worst outcome of all tests of one.
        sets: What is compared, of ``sets.resolve``.
        checks: The rollup ``checks``, which tells of a requirement for which one test was inconclusive whether another
            one could judge it; it may be left out where nothing is inconclusive.

    Columns: ``key kind name level last_run why``; the kind is ``requirement``, ``why`` is what the newest candidate
    run says instead: ``n/a``, ``inconclusive`` or ``not run``. Where all candidate runs left tests out on purpose, a
    requirement is lost only if they have as many tests of it as ``last_run``.
    """
    require(requirements, "run_id", "requirement", "level", "outcome", "tests")
    both = _compared(sets)
    judged = ~sf.col("outcome").isin(*_SAYS_NOTHING)
    judged_before = judged & _is(BASELINE)
    newest = sf.struct(-sf.col("age"), "run_id")
    of_runs = requirements.select("run_id", "requirement", "level", "outcome", "tests")
    if checks is not None:
        require(checks, "run_id", "requirements", "outcome")
        named = checks.where(judged).select(
            "run_id", sf.explode("requirements").alias("requirement"), "outcome"
        )
        # What strictness a requirement has, and how many tests, its own row says.
        of_its_own = {"level": sf.lit(None).cast("string"), "tests": sf.lit(None).cast("long")}
        of_runs = of_runs.unionByName(named.withColumns(of_its_own))
    return (
        # Tests that name no requirement show none that could be lost.
        of_runs.where(sf.col("requirement") != NO_REQUIREMENT)
        .join(sf.broadcast(both), "run_id")
        .groupBy("key", "requirement")
        .agg(
            # The level is that of the tests that name it, which may change; the newest run knows best.
            sf.max_by("level", sf.when(sf.col("level").isNotNull(), newest)).alias("level"),
            sf.max(sf.when(judged_before, newest))["run_id"].alias("last_run"),
            sf.max(sf.when(judged & _is(CANDIDATE), True)).alias("kept"),
            sf.max_by("outcome", sf.when(_is(CANDIDATE), newest)).alias("says"),
            sf.max_by("tests", sf.when(judged_before & sf.col("tests").isNotNull(), newest)).alias("tests_b"),
            sf.max(sf.when(_is(CANDIDATE), sf.col("tests"))).alias("tests_c"),
            sf.first("selected_only").alias("selected_only"),
        )
        .where(
            ~sf.col("selected_only")
            | (sf.coalesce("tests_c", sf.lit(0)) >= sf.coalesce("tests_b", sf.lit(1)))
        )
        .where(sf.col("level").isin(*STRICT) & sf.col("last_run").isNotNull() & sf.col("kept").isNull())
        .select(
            "key",
            sf.lit(REQUIREMENT).alias("kind"),
            sf.col("requirement").alias("name"),
            "level",
            "last_run",
            sf.coalesce("says", sf.lit("not run")).alias("why"),
        )
    )


def lost_pairs(coverage: DataFrame, sets: DataFrame) -> DataFrame:
    """Returns the pairs of state and message that the baseline tried and the candidate did not.

    Columns as of ``lost_requirements``; the kind is ``pair``, the level empty. ``why`` is ``not planned`` where the
    baseline planned to try it and the candidate did not. It is ``not reached`` where the candidate played so many cases
    that it would have reached it by the share of the cases that did in the baseline: not to reach one of so many pairs
    by chance has a probability of at most 5 %, and by the share of the runs that did as well. Baseline runs that played more than ``LONGER`` times as many cases as
    any of the candidate do not count for that, as they get to what takes long. Of a candidate that reached nothing at
    all every pair is lost. Keys whose candidate recorded no coverage are left out: there nothing was fuzzed.
    """
    require(coverage, "run_id", "kind", "state", "message", "count", "planned")
    tried = sf.col("count") > 0
    newest = sf.struct(-sf.col("age"), "run_id")
    pairs = (
        coverage.where(sf.col("kind") == "pair")
        .withColumn("cases", bounded("count"))
        .join(sf.broadcast(_compared(sets)), "run_id")
    )
    of_key = (
        pairs.groupBy("key", "run_id", "set")
        .agg(sf.sum("cases").alias("cases"))
        .groupBy("key")
        .agg(
            sf.max(sf.when(_is(CANDIDATE), sf.col("cases"))).alias("longest"),
            sf.sum(sf.when(_is(CANDIDATE), sf.col("cases"))).alias("cases_c"),
            sf.count(sf.when(_is(CANDIDATE), 1)).alias("runs_c"),
            sf.expr(f"collect_list(if(set = '{BASELINE}', struct(run_id, cases), NULL)) AS runs_b"),
        )
        .where(sf.col("longest").isNotNull())
        .selectExpr("*", f"filter(runs_b, one -> one.cases <= {LONGER} * longest) AS fair")
        .selectExpr(
            *("key", "cases_c", "runs_c"),
            "transform(fair, one -> one.run_id) AS fair_runs",
            "aggregate(fair, 0D, (sums, one) -> sums + one.cases) AS cases_b",
        )
    )
    # Cases of a run are no strangers: where a run gets to a pair it often does so several times.
    chance = (
        f"pow(1 - try_divide(hits_b, cases_b), cases_c) * count(*) OVER (PARTITION BY key) <= {1 - SURE} "
        f"AND pow(1 - try_divide(reached_b, size(fair_runs)), runs_c) <= {1 - SURE}"
    )
    return (
        pairs.join(sf.broadcast(of_key), "key")
        .groupBy("key", "state", "message")
        .agg(
            sf.max(sf.when(tried & _is(BASELINE), newest))["run_id"].alias("last_run"),
            sf.max(sf.when(tried & _is(CANDIDATE), True)).alias("kept"),
            sf.max(sf.when(_is(CANDIDATE), sf.col("planned"))).alias("planned_c"),
            sf.max(sf.when(_is(BASELINE), sf.col("planned"))).alias("planned_b"),
            sf.expr("sum(if(array_contains(fair_runs, run_id), cases, 0)) AS hits_b"),
            sf.expr(
                "size(collect_set(if(cases > 0 AND array_contains(fair_runs, run_id), run_id, NULL)))"
            ).alias("reached_b"),
            *(sf.first(name).alias(name) for name in ("cases_b", "cases_c", "runs_c", "fair_runs")),
        )
        .selectExpr(
            "*",
            "planned_b AND NOT coalesce(planned_c, false) AS given_up",
            f"coalesce({chance}, false) OR cases_c = 0 AS would_show",
        )
        .where("last_run IS NOT NULL AND kept IS NULL AND (given_up OR would_show)")
        .select(
            "key",
            sf.lit("pair").alias("kind"),
            sf.concat_ws(" in ", "message", "state").alias("name"),
            sf.lit("").alias("level"),
            "last_run",
            sf.when(sf.col("given_up"), "not planned").otherwise("not reached").alias("why"),
        )
    )


def _sums() -> tuple[Column, Column]:
    return sf.sum(bounded("count")).alias("count"), sf.max("planned").alias("planned")


def _compared(sets: DataFrame) -> DataFrame:
    """Returns the runs of keys that have both a candidate and a baseline."""
    require(sets, "run_id", "set", "key", "age", "mutant", "has_candidate", "has_baseline", "selected_only")
    wanted = sf.col("set").isin(CANDIDATE, BASELINE) & (sf.col("mutant") == "")
    return sets.where(wanted & sf.col("has_candidate") & sf.col("has_baseline")).select(
        "run_id", "key", "set", "age", "selected_only"
    )


def _is(name: str) -> Column:
    return sf.col("set") == name
