import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_reports.asking import Questions


def nobody(_: str) -> None:
    """Is told what is asked."""


def test_rows_are_ordered_by_their_values(spark: SparkSession) -> None:
    told: list[str] = []
    with Questions(told.append) as ask:
        ask.add(
            "numbers",
            lambda: spark.range(12).select((-sf.col("id")).alias("id"), sf.array("id").alias("list")),
        )
        ask.add("none", lambda: spark.range(0))
        assert ask.rows("none") == []
        rows = ask.rows("numbers")
    assert [row["id"] for row in rows] == list(range(-11, 1))
    assert [row["list"] for row in rows] == [(number,) for number in reversed(range(12))]
    assert told == ["numbers", "none"]
    assert ask.left_out == set()


def test_lists_and_structs_are_ordered_by_numbers_and_nothing_comes_first(spark: SparkSession) -> None:
    values = (
        "(NULL, NULL, true)",
        "(array(10), 'b', true)",
        "(array(9), 'b', true)",
        "(array(9), 'a', false)",
    )
    table = f"VALUES {', '.join(values)} AS v(list, text, flag)"
    with Questions(nobody) as ask:
        ask.add("mixed", lambda: spark.sql(f"SELECT struct(list, text) AS both, flag FROM {table}"))
        found = [tuple(row["both"].values()) for row in ask.rows("mixed")]
    assert found == [(None, None), ((9,), "a"), ((9,), "b"), ((10,), "b")]


def test_more_than_the_limit_is_left_out_and_said(spark: SparkSession) -> None:
    numbers = spark.range(7).select((sf.col("id") % 3).alias("third"), "id")
    with Questions(nobody) as ask:
        ask.add("numbers", lambda: numbers, limit=3, first=("third",))
        ask.add("all numbers", lambda: numbers, limit=7)
        assert [row["id"] for row in ask.rows("numbers")] == [0, 3, 6]
        assert len(ask.rows("all numbers")) == 7
    assert ask.left_out == {"numbers"}


def test_number_that_json_does_not_have_becomes_none(spark: SparkSession) -> None:
    with Questions(nobody) as ask:
        ask.add(
            "odd",
            lambda: spark.range(1).select(
                sf.lit(float("nan")).alias("a"), sf.array(sf.lit(float("inf"))).alias("b")
            ),
        )
        assert ask.rows("odd") == [{"a": None, "b": (None,)}]


def test_question_that_fails_says_so_when_it_is_answered(spark: SparkSession) -> None:
    with Questions(nobody) as ask:
        ask.add("broken", lambda: spark.range(1).select(sf.raise_error(sf.lit("no such thing"))))
        with pytest.raises(PySparkException, match="no such thing"):
            ask.rows("broken")
