"""Small frames for tests: rollups from a few values, and sets of runs from a few words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, LongType, StringType, StructType

from spark_reports.sets import SCHEMA
from spark_reports.storage.tables import SCHEMAS

KEY = "node"


def rollup(spark: SparkSession, name: str, *rows: Mapping[str, Any]) -> DataFrame:
    """Makes a frame of a table or rollup of a store; what a row leaves out is empty, and run_id is r1."""
    schema = StructType([field for field in SCHEMAS[name] if field.name not in {"attempt", "extra"}])
    values = [{"run_id": "r1", **row} for row in rows]
    unknown = {key for row in values for key in row} - set(schema.names)
    assert not unknown, unknown
    filled = [tuple(row.get(field.name, _empty(field.dataType)) for field in schema) for row in values]
    return local_frame(spark, filled, schema)


def local_frame(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType | str) -> DataFrame:
    """Makes a frame of rows that the plan of a query holds itself: to ask takes half as long as of those that Python sends."""
    kind = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(kind, StructType)
    table = pa.Table.from_pylist([_named(row, kind) for row in rows], to_arrow_schema(kind))
    return spark.createDataFrame(table, kind).coalesce(1)


def compared(
    spark: SparkSession, *lines: str, others: int = 0, mutant: str = "", selected_only: bool = False
) -> DataFrame:
    """Makes what ``sets.resolve`` returns, of "run set version key" with the oldest run first.

    The version is 1.0 for a baseline and 1.1 for others unless it is given; the harness stands behind a version after
    an @.
    """
    return _sets(spark, _compared(lines, others=others, mutant=mutant, selected_only=selected_only))


def _sets(spark: SparkSession, rows: Iterable[Sequence[Any]]) -> DataFrame:
    columns = [field.split()[0] for field in SCHEMA.split(", ")]
    table = pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])
    return spark.createDataFrame(table, SCHEMA).coalesce(1)


def _compared(
    lines: Sequence[str], *, others: int = 0, mutant: str = "", selected_only: bool = False
) -> list[tuple[Any, ...]]:
    """Returns the rows of ``compared``."""
    parsed = []
    for day, line in enumerate(lines, 1):
        words = line.split()
        role = words[1].replace("_", " ")
        version, _, harness = (
            words[2] if len(words) > 2 else "1.0" if role == "baseline" else "1.1"
        ).partition("@")
        parsed.append((words[0], role, words[3] if len(words) > 3 else KEY, day, version, harness or "h"))
    versions = {(key, version) for _, role, key, _, version, _ in parsed if role == "candidate"}
    keys = {key: {role for _, role, of, *_ in parsed if of == key} for *_, key, _, _, _ in parsed}
    return [
        (
            *(run_id, role, key, others, sum(of == key for _, _, of, *_ in parsed[day:])),
            *(f"2026-11-{day:02d}", "impl", "router", version),
            *(
                int(version.replace(".", "")),
                harness,
                mutant,
                (key, version) in versions,
                "candidate" in keys[key],
                "baseline" in keys[key],
                selected_only,
                "",
            ),
        )
        for run_id, role, key, day, version, harness in parsed
    ]


class Cases:
    """Cases that each have runs and keys of their own, so that Spark is asked once for all of them.

    Attributes:
        of_runs: The rows of all cases.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[tuple[str, ...], dict[str, Any]]] = []
        self.of_runs: list[Mapping[str, Any]] = []

    def add(self, case: str, lines: Iterable[str], rows: Iterable[Mapping[str, Any]], **options: Any) -> str:
        """Adds runs, told as to ``compared``, and rows of them; returns the name of the case."""
        assert " " not in case
        self._runs.append((tuple(self._apart(case, line) for line in lines), options))
        self.of_runs += [{**row, "run_id": f"{case}/{row['run_id']}"} for row in rows]
        return case

    def rows(self, spark: SparkSession, table: str) -> DataFrame:
        """Returns the rows of all cases as those of a table."""
        return rollup(spark, table, *self.of_runs)

    def runs(self, spark: SparkSession) -> DataFrame:
        """Returns what is compared in all cases."""
        return _sets(spark, (row for lines, options in self._runs for row in _compared(lines, **options)))

    @staticmethod
    def told(frame: DataFrame, by: str = "key") -> dict[str, list[dict[str, Any]]]:
        """Returns the rows of each case, with runs and keys as the case has named them.

        Args:
            frame: What was found in all cases.
            by: The column that says of which case a row is, which stands in front of what else it says.
        """
        found: dict[str, list[dict[str, Any]]] = {}
        for row in frame.collect():
            case = row[by].partition("/")[0]
            found.setdefault(case, []).append(_bare(row.asDict(), f"{case}/"))
        return found

    @staticmethod
    def _apart(case: str, line: str) -> str:
        run_id, role, version, key = (*line.split(), "", "")[:4]
        version = version or ("1.0" if role == "baseline" else "1.1")
        return f"{case}/{run_id} {role} {version} {case}/{key or KEY}"


def _bare(value: Any, prefix: str) -> Any:
    """Takes a prefix from all texts in a row."""
    if isinstance(value, dict):
        return {_bare(name, prefix): _bare(part, prefix) for name, part in value.items()}
    if isinstance(value, list):
        return [_bare(part, prefix) for part in value]
    if isinstance(value, tuple):
        # A Row.
        return tuple(_bare(part, prefix) for part in value)
    return value.removeprefix(prefix) if isinstance(value, str) else value


def _named(value: Any, kind: DataType) -> Any:
    """Gives the parts of a struct their names, for Arrow."""
    if isinstance(kind, StructType) and not isinstance(value, Mapping):
        parts = zip(kind, value, strict=True)
        return {field.name: _named(part, field.dataType) for field, part in parts}
    return value


def _empty(kind: DataType) -> object:
    if isinstance(kind, ArrayType):
        return []
    if isinstance(kind, StructType):
        return tuple(_empty(field.dataType) for field in kind)
    return {StringType: "", LongType: 0, DoubleType: 0.0, BooleanType: False}[type(kind)]
