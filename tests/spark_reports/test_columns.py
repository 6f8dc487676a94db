import pytest
from pyspark.sql import SparkSession

from spark_reports.frames.columns import MissingColumns, require


def test_frame_with_the_columns_passes(spark: SparkSession) -> None:
    require(spark.createDataFrame([], "a int, b int"), "b", "a")


def test_missing_column_is_named_with_those_that_are_there(spark: SparkSession) -> None:
    with pytest.raises(MissingColumns, match="no column c, d; there are a, b"):
        require(spark.createDataFrame([], "a int, b int"), "c", "a", "d")
