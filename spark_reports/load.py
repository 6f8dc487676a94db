"""Run folders as DataFrames: Spark reads the lines itself, with the schemas of the row types.

Every line of a file becomes a row of ``lines``, which keeps its text and says what it is: a good row, a
footer, or neither and why. So nothing is lost silently, and ``rows + bad + footers + blank`` is the
number of lines in the file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from spark_reports import rows
from spark_reports.columns import require
from spark_reports.folders import RunFolder
from spark_reports.schemas import relaxed, required, schema_of

_FOOTER = "footer"
_NEXT = "end"
_BAD = "bad"


@dataclass(frozen=True, slots=True)
class Tables:
    """The runs and their rows.

    Attributes:
        runs: RunRow, one row per folder that is counted.
        verdicts: VerdictRow.
        observations: ObservationRow.
        cases: FuzzCaseRow.
        findings: FindingRow.
        coverage: CoverageRow.
        lines: ``run_id file text problem footer``: every line that is not blank, of all files.
    """

    runs: DataFrame
    verdicts: DataFrame
    observations: DataFrame
    cases: DataFrame
    findings: DataFrame
    coverage: DataFrame
    lines: DataFrame


def load(spark: SparkSession, folders: Sequence[RunFolder]) -> Tables:
    """Returns the rows of all run folders that are no duplicates. Starts no job."""
    counted = [folder for folder in folders if folder.duplicate_of is None]
    schema = schema_of(rows.RunRow)
    runs = spark.createDataFrame(
        [tuple(getattr(folder.run, name) for name in schema.names) for folder in counted], schema
    )
    lines = {name: read_lines(spark, counted, name) for name in rows.type_of_file}
    every = [frame.select("run_id", "file", "text", "problem", _FOOTER) for frame in lines.values()]
    return Tables(
        runs=runs,
        verdicts=good_rows(lines[rows.VERDICTS], rows.VerdictRow),
        observations=good_rows(lines[rows.OBSERVATIONS], rows.ObservationRow),
        cases=good_rows(lines[rows.FUZZ_CASES], rows.FuzzCaseRow),
        findings=good_rows(lines[rows.FINDINGS], rows.FindingRow),
        coverage=good_rows(lines[rows.FUZZ_COVERAGE], rows.CoverageRow),
        lines=reduce(DataFrame.union, every),
    )


def read_lines(spark: SparkSession, folders: Sequence[RunFolder], file_name: str) -> DataFrame:
    """Returns every line that is not blank of one kind of file.

    Columns: ``run_id``, the name of the folder; ``file``; ``text``; ``row``, the values found in it;
    ``problem``, why it is no row, empty if it is one; ``footer``, whether it is a footer.
    """
    row_type = rows.type_of_file[file_name]
    fields = schema_of(row_type)
    parsed = StructType(
        [
            *relaxed(fields),
            StructField(_FOOTER, BooleanType()),
        ]
    )
    paths = [_as_glob(str(folder.path / file_name)) for folder in folders if file_name in folder.files]
    if paths:
        text = spark.read.text(paths).select(_folder_name().alias("run_id"), sf.col("value").alias("text"))
    else:
        text = spark.createDataFrame([], "run_id string, text string")
    line = sf.from_json(
        _with_sentinel(sf.col("text")),
        _sentinel_schema(parsed),
        {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _BAD,
            "allowSingleQuotes": "false",
        },
    )
    broken = (
        sf.col(f"line.{_BAD}").isNotNull() | sf.col("line.row").isNull() | sf.col(f"line.{_NEXT}").isNull()
    )
    return (
        text.where(sf.col("text").rlike(r"\S"))
        .withColumn("line", line)
        .select(
            "run_id",
            sf.lit(file_name).alias("file"),
            "text",
            sf.col("line.row").alias("row"),
            broken.alias("broken"),
            (~broken & sf.coalesce(sf.col(f"line.row.{_FOOTER}"), sf.lit(False))).alias(_FOOTER),
        )
        .withColumn("problem", _problem(fields, rows.later_fields(row_type)))
        .drop("broken")
    )


def good_rows(lines: DataFrame, row_type: type) -> DataFrame:
    """Returns the rows among the lines of one kind of file, under the name of their folder."""
    require(lines, "run_id", "row", "problem", _FOOTER)
    later = rows.later_fields(row_type)

    def value(name: str) -> Column:
        found = sf.col(f"row.{name}")
        return sf.coalesce(found, sf.lit(later[name])) if name in later else found

    names = [name for name in schema_of(row_type).names if name != "run_id"]
    good = lines.where((sf.col("problem") == "") & ~sf.col(_FOOTER))
    return good.select("run_id", *(value(name).alias(name) for name in names))


def accounts(lines: DataFrame) -> DataFrame:
    """Returns ``run_id file rows bad``: how many lines of each file are rows, and how many are none."""
    require(lines, "run_id", "file", "problem", _FOOTER)
    bad = sf.col("problem") != ""
    return lines.groupBy("run_id", "file").agg(
        sf.count(sf.when(~bad & ~sf.col(_FOOTER), True)).alias("rows"),
        sf.count(sf.when(bad, True)).alias("bad"),
    )


def bad_lines(lines: DataFrame) -> DataFrame:
    """Returns ``run_id file problem text`` of the lines that are no rows; 200 characters of each."""
    require(lines, "run_id", "file", "problem", "text")
    bad = lines.where(sf.col("problem") != "")
    return bad.select("run_id", "file", "problem", sf.substring("text", 1, 200).alias("text"))


def _problem(fields: StructType, later: Mapping[str, object]) -> Column:
    """Says why a line is no row. The order is that of what a person would want to know first."""
    names = [name for name in required(fields) if name not in later]
    missing = sf.concat_ws(", ", *(sf.when(sf.col(f"row.{name}").isNull(), sf.lit(name)) for name in names))
    newer = sf.concat(
        sf.lit("rows_version "),
        sf.col("row.rows_version").cast("string"),
        sf.lit(f" is newer than this reader ({rows.ROWS_VERSION})"),
    )
    return (
        sf.when(sf.col("broken"), sf.lit("is not one JSON object with the values of a row"))
        .when(sf.col(_FOOTER), sf.lit(""))
        .when(sf.col("row.rows_version") > rows.ROWS_VERSION, newer)
        .when(missing != "", sf.concat(sf.lit("no "), missing))
        .otherwise(sf.lit(""))
    )


# Spark's JSON parser stops after the first value and does not look at what follows, so two rows on one
# line would lose the second. Behind a member of our own, anything that follows is an error.
def _with_sentinel(text: Column) -> Column:
    return sf.concat(sf.lit('{"row":'), text, sf.lit(f',"{_NEXT}":1}}'))


def _sentinel_schema(parsed: StructType) -> StructType:
    return StructType(
        [StructField("row", parsed), StructField(_NEXT, LongType()), StructField(_BAD, StringType())]
    )


def _folder_name() -> Column:
    """Returns the name of the folder a line comes from; Spark has it percent-encoded, with a plain plus."""
    folder = sf.element_at(sf.split(sf.col("_metadata.file_path"), "/"), -2)
    return sf.url_decode(sf.regexp_replace(folder, r"\+", "%2B"))


def _as_glob(path: str) -> str:
    """Returns a pattern that only this path matches; Spark takes every path for a pattern."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
