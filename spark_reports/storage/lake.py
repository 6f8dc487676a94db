"""Tables of other formats than plain Parquet, for clusters whose Spark has the plug-in: Delta Lake, Iceberg.

The records of the store stay the truth: a row counts if a record names its run and attempt. What the format adds is
its own way of keeping, merging and deleting files; see its documentation for the last two.
"""

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sf

from spark_reports.errors import EngineFailed
from spark_reports.storage.places import BY_NAME, as_glob, plain_address
from spark_reports.storage.store import Append
from spark_reports.storage.tables import SCHEMAS

PLUG_INS = {
    "delta": "Delta Lake (package io.delta:delta-spark)",
    "iceberg": "Apache Iceberg (package org.apache.iceberg:iceberg-spark-runtime)",
}
"""The formats besides Parquet, and what Spark needs for each, in the version that fits it."""

_UNKNOWN = "DATA_SOURCE_NOT_FOUND"


def appender(spark: SparkSession, table_format: str) -> Append:
    """Returns what appends rows to tables of a format.

    Raises:
        EngineFailed: Spark lacks the plug-in.
    """
    require_plug_in(spark, table_format)

    def append(table: str, folder: str, target: str) -> None:
        rows = _load(spark.read.schema(SCHEMAS[table]), "parquet", folder, spark)
        rows.write.format(table_format).mode("append").save(target)

    return append


def require_plug_in(spark: SparkSession, table_format: str) -> None:
    """Checks that Spark has what a format needs.

    Raises:
        EngineFailed: It has not.
    """
    try:
        spark.read.format(table_format).load("/zenoh-reports/no-such-table")
    except (PySparkException, Py4JJavaError) as error:
        # Any other error is about the path, which is not there, and comes from the plug-in.
        if _UNKNOWN in str(error):
            needed = PLUG_INS.get(table_format, f"a plug-in for {table_format}")
            raise EngineFailed(
                f"this Spark does not support tables of format {table_format}: start it with {needed}, using --conf "
                "spark.jars.packages or its jars folder, or omit --format"
            ) from error


def heeds_names(spark: SparkSession) -> bool:
    """Whether a session heeds ``places.BY_NAME``; over Spark Connect the names of options lose their capitals."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def _load(reader: DataFrameReader, table_format: str, address: str, spark: SparkSession) -> DataFrame:
    if heeds_names(spark):
        return reader.format(table_format).options(**BY_NAME).load(plain_address(address))
    return reader.format(table_format).load(as_glob(address))


def read(spark: SparkSession, table_format: str, address: str, table: str) -> DataFrame:
    """Returns all rows of a table, those that do not count included."""
    rows = _load(spark.read, table_format, address, spark)
    # A table that is older than a column lacks it.
    known = set(rows.columns)
    return rows.select(
        *(
            sf.col(field.name) if field.name in known else sf.lit(None).cast(field.dataType).alias(field.name)
            for field in SCHEMAS[table]
        )
    )
