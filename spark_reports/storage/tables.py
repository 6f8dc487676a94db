"""The columns of every table and rollup of a store, once: as Spark reads them and as Arrow writes them.

Whole numbers are 64 bits wide, everywhere. Columns are only ever added, at the end of a row type; a file that
lacks one is read with null, and ``views`` puts the value in its place that stands for "not recorded".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from spark_reports import rows
from spark_reports.storage.schemas import relaxed, schema_of

if TYPE_CHECKING:
    import pyarrow as pa

EXTRA = "extra"
"""The column that keeps what a line holds besides the columns of its row type, as VARIANT; null mostly."""

ROW_TYPES: Mapping[str, type] = {
    row_type.TABLE: row_type for row_type in (rows.RunRow, *rows.type_of_file.values())
}
"""The row type behind each base table."""

_KEY = (StructField("run_id", StringType()), StructField("attempt", LongType()))
_STRINGS = ArrayType(StringType())


def _columns(strings: str = "", longs: str = "", doubles: str = "") -> list[StructField]:
    kinds = ((strings, StringType()), (longs, LongType()), (doubles, DoubleType()))
    return [StructField(name, kind) for names, kind in kinds for name in names.split()]


def _base(row_type: type) -> StructType:
    fields = list(relaxed(schema_of(row_type)))
    if row_type is rows.RunRow:
        fields += [StructField("state", StringType()), StructField("notes", _STRINGS)]
    return StructType([*fields, StructField("attempt", LongType()), StructField(EXTRA, VariantType())])


BASE: Mapping[str, StructType] = {name: _base(row_type) for name, row_type in ROW_TYPES.items()}
"""The base tables: the columns of the row type, then ``attempt`` and ``extra``; runs have ``state`` and ``notes``
before these, as ``folders.judge`` puts it."""

SMALLEST = StructType(
    _columns("campaign", "case sent_bytes", "")
    + _columns("sent_hex message field mutation state reply detail capture")
    + _columns(longs="seed")
)
"""The case of a bucket with the fewest bytes; of ``sent_hex`` 4096 characters."""

ROLLUPS: Mapping[str, StructType] = {
    "requirements": StructType([*_KEY, *_columns("requirement area level outcome", "tests")]),
    "checks": StructType(
        [
            *_KEY,
            *_columns("test transport level"),
            StructField("requirements", _STRINGS),
            *_columns("outcome seen reason", doubles="duration_s"),
            *_columns("capture repeat"),
        ]
    ),
    "case_outcomes": StructType(
        [
            *_KEY,
            *_columns("campaign engine", "job"),
            *_columns("state message strategy verdict", "cases", "seconds"),
            *_columns(longs="sent_bytes first_ns last_ns last_end_ns node_starts"),
        ]
    ),
    "case_times": StructType([*_KEY, *_columns("campaign message", "bin cases max_us")]),
    "buckets": StructType(
        [
            *_KEY,
            *_columns("bucket campaign", "cases first_case first_ns cases_before"),
            *(
                StructField(name, _STRINGS)
                for name in ("campaigns", "fields", "states", "oracles", "messages")
            ),
            StructField("smallest", SMALLEST),
        ]
    ),
    "traffic": StructType([*_KEY, *_columns(longs="sent received undecoded")]),
    "reply_times": StructType([*_KEY, *_columns("stimulus reply", "bin count max_us")]),
}
"""The rollups, one file per run and attempt, written when a run is taken in. A ``bin`` is
``floor(8 * log2(max(us, 1)))``."""

APART = StructType(
    [*_KEY, StructField("file", StringType()), StructField("line", LongType()), *_columns("reason text")]
)
"""Lines that are no rows."""

SCHEMAS: Mapping[str, StructType] = {**BASE, **ROLLUPS, "apart": APART}
"""Every table by its name."""


def arrow_schema(table: str, *, extra: bool = False) -> pa.Schema:
    """Returns the columns of a table for a file that Arrow writes.

    Args:
        table: Its name.
        extra: With the column ``extra``, as Parquet keeps it. A file may lack it; then it reads as null.
    """
    import pyarrow as pa

    fields = [field for field in SCHEMAS[table] if extra or field.name != EXTRA]
    return pa.schema([pa.field(field.name, _arrow(field.dataType)) for field in fields])


def later_values(table: str) -> dict[str, object]:
    """Returns the columns that older files of a base table lack, with the values that stand for them."""
    if table not in ROW_TYPES:
        return {}
    known = {field.name for field in dataclasses.fields(ROW_TYPES[table])}
    return {name: value for name, value in rows.later_fields(ROW_TYPES[table]).items() if name in known}


def _arrow(wanted: DataType) -> pa.DataType:
    import pyarrow as pa

    if isinstance(wanted, ArrayType):
        return pa.list_(_arrow(wanted.elementType))
    if isinstance(wanted, StructType):
        return pa.struct([pa.field(field.name, _arrow(field.dataType)) for field in wanted])
    if isinstance(wanted, VariantType):
        return pa.struct(
            [
                pa.field("value", pa.binary(), nullable=False),
                pa.field("metadata", pa.binary(), nullable=False),
            ]
        )
    simple = {
        StringType: pa.string(),
        LongType: pa.int64(),
        DoubleType: pa.float64(),
        BooleanType: pa.bool_(),
    }
    return simple[type(wanted)]
