import pytest
from pyspark.sql import SparkSession

from spark_reports.frames.columns import MOST_COUNTED, MissingColumns, bounded, require
from tests.spark_reports.frames import local_frame


def test_frame_with_the_columns_passes(spark: SparkSession) -> None:
    require(spark.createDataFrame([], "a int, b int"), "b", "a")


def test_missing_column_is_named_with_those_that_are_there(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column c, d; there are a, b"):
        require(spark.createDataFrame([], "a int, b int"), "c", "a", "d")


def test_counts_of_damaged_rows_can_be_added(spark: SparkSession) -> None:
    said = local_frame(spark, [((1 << 63) - 1,), (-5,), (None,), (7,)], "count long")
    got = [row[0] for row in said.select(bounded("count")).collect()]
    assert got == [MOST_COUNTED, 0, None, 7]
