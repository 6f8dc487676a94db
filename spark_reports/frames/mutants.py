"""Which faulty reference nodes the tests noticed: runs against ``ref:MUTANT``, as ``conformance.proof`` makes them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_reports.frames.columns import require

NOTICED = ("fail", "warning")
"""Outcomes that show that a test has noticed something; as ``conformance.proof.results`` has it."""


def mutants(checks: DataFrame, sets: DataFrame) -> DataFrame:
    """Returns one row per mutant, of its newest run.

    Columns: ``mutant requirement level killed test elsewhere tests own run_id``. It is ``killed`` if a test of the
    requirement in its name noticed it; ``test`` is the first of these by name, null if none did; ``elsewhere`` counts
    tests of other requirements that noticed something, ``own`` the tests of its requirement that it faced, ``tests``
    all of them. The level is null where no test of its requirement was run.
    """
    require(checks, "run_id", "test", "requirements", "level", "outcome")
    require(sets, "run_id", "started_at", "mutant")
    # The name is that of the requirement; a letter behind it tells several of one requirement apart.
    requirement = sf.regexp_extract("mutant", r"^(.*\d)[a-z]*$", 1)
    broken = sets.where((sf.col("mutant") != "") & ~sf.col("mutant").startswith("null:"))
    newest = (
        checks.select("run_id")
        .distinct()
        .join(sf.broadcast(broken.select("run_id", "started_at", "mutant")), "run_id")
        .groupBy("mutant")
        .agg(sf.max_by("run_id", sf.struct("started_at", "run_id")).alias("run_id"))
        .withColumn("requirement", requirement)
    )
    own = sf.array_contains("requirements", sf.col("requirement"))
    noticed = sf.col("outcome").isin(*NOTICED)
    return (
        checks.join(sf.broadcast(newest), "run_id")
        .groupBy("mutant", "requirement", "run_id")
        .agg(
            sf.max(sf.when(own, sf.col("level"))).alias("level"),
            sf.min(sf.when(own & noticed, sf.col("test"))).alias("test"),
            sf.count(sf.when(~own & noticed, 1)).alias("elsewhere"),
            sf.count("*").alias("tests"),
            sf.count(sf.when(own, 1)).alias("own"),
        )
        .select(
            *("mutant", "requirement", "level", sf.col("test").isNotNull().alias("killed"), "test"),
            *("elsewhere", "tests", "own", "run_id"),
        )
    )


def killed_by_requirement(mutants: DataFrame) -> DataFrame:
    """Returns ``requirement level mutants killed alive``: how many of its mutants were noticed, and which were not.

    The level is empty where it is not known.
    """
    require(mutants, "mutant", "requirement", "level", "killed")
    return mutants.groupBy("requirement").agg(
        sf.coalesce(sf.max("level"), sf.lit("")).alias("level"),
        sf.count("*").alias("mutants"),
        sf.count(sf.when(sf.col("killed"), 1)).alias("killed"),
        sf.sort_array(sf.collect_list(sf.when(~sf.col("killed"), sf.col("mutant")))).alias("alive"),
    )
