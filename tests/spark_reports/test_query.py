"""SQL over the views: only queries, errors that say what is there, answers that do no harm."""

import csv
import io
import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_reports.errors import WrongUse
from spark_reports.query import Answer, as_text, ask, listing, plain, views_in
from spark_reports.storage.tables import SCHEMAS
from spark_reports.storage.views import NAMES, Views
from tests.spark_reports.frames import local_frame

HOSTILE = "demo/\x1b[31m\u202eexe"


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Views:
    """A store with three verdict checks and nothing else."""
    columns = SCHEMAS["checks"].names
    given: list[dict[str, object]] = [
        {"run_id": "r1", "test": "a", "outcome": "pass", "requirements": ["ZN-INIT-001"], "duration_s": 0.5},
        {"run_id": "r1", "test": "b", "outcome": "fail", "requirements": [], "seen": HOSTILE},
        {"run_id": "r2", "test": "a", "outcome": "pass", "requirements": ["ZN-INIT-001"]},
    ]
    rows = [tuple(row.get(name) for name in columns) for row in given]

    def opener(name: str) -> DataFrame:
        return local_frame(spark, rows if name == "checks" else [], SCHEMAS[name])

    return Views(spark, opener)


def test_aggregate_gives_its_rows_and_columns(spark: SparkSession, views: Views) -> None:
    answer = ask(spark, views, "SELECT outcome, count(*) AS n FROM checks GROUP BY ALL ORDER BY n DESC;")
    assert answer == Answer(("outcome", "n"), (("pass", 2), ("fail", 1)), more=False)


def test_more_rows_than_the_limit_are_cut_and_told(spark: SparkSession, views: Views) -> None:
    answer = ask(spark, views, "WITH t AS (SELECT test FROM checks) SELECT * FROM t -- all", limit=2)
    assert (len(answer.rows), answer.more) == (2, True)


def test_order_of_the_query_is_kept(spark: SparkSession, views: Views) -> None:
    answer = ask(spark, views, "FROM checks |> ORDER BY test DESC, run_id |> SELECT test, run_id")
    assert answer.rows == (("b", "r1"), ("a", "r1"), ("a", "r2"))


@pytest.mark.parametrize("end", [";", "; -- all of them", ";\n-- one\n/* ; */ ;\n", " -- it's ;"])
def test_query_may_end_with_semicolons_and_remarks(spark: SparkSession, views: Views, end: str) -> None:
    assert ask(spark, views, f"SELECT '; -- x' AS text{end}").rows == (("; -- x",),)


@pytest.mark.parametrize(
    "sql",
    [
        "DROP VIEW checks",
        "CREATE TABLE t AS SELECT 1",
        "INSERT INTO checks VALUES (1)",
        "SET spark.sql.shuffle.partitions=7",
        "SELECT 1; SELECT 2",
        "SELECT (FROM WHERE",
        "SELECT 1 / 0",
        "SELECT CAST('x' AS INT)",
        "SELECT date'-0044-03-15'",
        "SELECT parse_json('{bad')",
        "SELECT (SELECT run_id FROM checks)",
        "SELECT sequence(1, 0, 1)",
        "SELECT to_number('a', '99')",
        "SELECT format_string('%d', 'a')",
        "SELECT raise_error('x')",
        "SELECT schema_of_json('{')",
        "SELECT interval 1 month",
        "SELECT array_repeat(1, 2147483647)",
    ],
)
def test_anything_but_a_query_that_works_is_wrong_use(
    spark: SparkSession, views: Views, capfd: pytest.CaptureFixture[str], sql: str
) -> None:
    with pytest.raises(WrongUse, match=r"invalid query: .") as found:
        ask(spark, views, sql)
    assert "\n" not in str(found.value)
    assert not capfd.readouterr().err
    assert spark.conf.get("spark.sql.shuffle.partitions") != "7"


@pytest.mark.parametrize(
    "call",
    [
        "java_method('java.lang.System', 'exit', 0)",
        "TRY_REFLECT ('java.lang.Math', 'abs', -1)",
        "`reflect`('java.lang.Math', 'abs', -1)",
        "reflect /* it's */ ('java.lang.Math', 'abs', -1)",
        "1 -- don't\n, reflect('java.lang.Math', 'abs', -1) -- won't",
        r"r'\', reflect('java.lang.Math', 'abs', -1), r'\'",
    ],
)
def test_methods_of_java_are_not_called(spark: SparkSession, views: Views, call: str) -> None:
    with pytest.raises(WrongUse, match="calls Java methods"):
        ask(spark, views, f"SELECT {call}")


@pytest.mark.parametrize(
    "hidden", ["/* /* */ ' */ reflect('a', 'b') -- '", "/* /* */ */ 1", "/* a /* */ */ 'x'"]
)
def test_comments_in_comments_hide_nothing(spark: SparkSession, views: Views, hidden: str) -> None:
    with pytest.raises(WrongUse, match="comments in comments are not taken"):
        ask(spark, views, f"SELECT {hidden}")


def test_comments_are_no_part_of_a_query(spark: SparkSession, views: Views) -> None:
    assert ask(spark, views, "SELECT 1 /* a * / */, '/* /* ' -- /* /*\n, 2 /**/").rows == ((1, "/* /* ", 2),)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT TRANSFORM(run_id) USING 'touch {file}' AS x FROM checks",
        'FROM checks MAP run_id USING "touch {file}"',
        "FROM checks REDUCE run_id\nusing -- it's\nR'touch {file}' AS (x STRING)",
    ],
)
def test_programs_are_not_run(spark: SparkSession, views: Views, tmp_path: Path, sql: str) -> None:
    with pytest.raises(WrongUse, match="runs a program"):
        ask(spark, views, sql.format(file=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_text_that_names_what_is_not_allowed_is_a_text(spark: SparkSession, views: Views) -> None:
    texts = "SELECT 'java_method(\\'', \"reflect('x'\", 'USING ''x'''"
    answer = ask(spark, views, f"{texts} FROM range(1) JOIN range(1) USING (id)")
    assert answer.rows == (("java_method('", "reflect('x'", "USING 'x'"),)


def test_unknown_view_is_answered_with_all_views(spark: SparkSession, views: Views) -> None:
    with pytest.raises(WrongUse, match=r"no view chekcs; the views are runs, .*reply_times"):
        ask(spark, views, "SELECT * FROM chekcs")


@pytest.mark.parametrize(
    "statement", ["SHOW TABLES", "-- all\n DESCRIBE checks", "DROP TABLE checks", ".tables"]
)
def test_what_is_no_query_is_answered_with_what_queries_begin_with(
    spark: SparkSession, views: Views, statement: str
) -> None:
    with pytest.raises(WrongUse, match=r"not with SELECT, .*; run without a query to list the views"):
        ask(spark, views, statement)


@pytest.mark.parametrize(
    "sql", ["(SELECT 1)", "values (1)", "/* x */ with a as (select 1) table a", "(\n( FROM range(1)))"]
)
def test_queries_may_begin_with_other_words(spark: SparkSession, views: Views, sql: str) -> None:
    assert len(ask(spark, views, sql).rows) == 1


def test_unknown_column_is_answered_with_those_of_the_view(spark: SparkSession, views: Views) -> None:
    with pytest.raises(WrongUse, match=r"no column verdict; checks has run_id, .*outcome"):
        ask(spark, views, "SELECT verdict FROM checks")


def test_view_of_an_answer_does_not_stay_in_the_session(spark: SparkSession, views: Views) -> None:
    ask(spark, views, "SELECT count(*) FROM checks")
    assert not spark.catalog.tableExists("checks")


def test_variants_and_structs_are_plain_values(spark: SparkSession, views: Views) -> None:
    sql = """SELECT parse_json('{"a":[1,null]}') v, named_struct('b', X'0aff') s, DATE'2026-11-01' d, 1 x, 2 x"""
    answer = ask(spark, views, sql)
    assert answer.columns == ("v", "s", "d", "x", "x_2")
    assert answer.rows == (({"a": [1, None]}, {"b": "0aff"}, "2026-11-01", 1, 2),)


def test_columns_and_fields_of_one_name_are_all_kept(spark: SparkSession, views: Views) -> None:
    sql = "SELECT 1 a, 2 a, 3 a_2, 4 a, named_struct('b', 5, 'b', 6) s, -1.50BD d, -2.5e-9BD e"
    answer = ask(spark, views, sql)
    assert answer.columns == ("a", "a_3", "a_2", "a_4", "s", "d", "e")
    (row,) = json.loads(as_text(answer, "json"))
    assert list(row.values())[:5] == [1, 2, 3, 4, {"b": 5, "b_2": 6}]
    cells = list(csv.reader(io.StringIO(as_text(answer, "csv"))))[1]
    assert [float(cells[5]), float(cells[6])] == [-1.5, -2.5e-9]


@pytest.mark.parametrize("text", ["-1+1", "-1.5.2", "--1", "-1 ", "+1", "-\u0661", "-0x10", "-1e"])
def test_what_only_looks_like_a_number_is_no_number_in_a_spreadsheet(text: str) -> None:
    rows = list(csv.reader(io.StringIO(as_text(Answer(("a",), ((text,),), more=False), "csv"))))
    assert rows == [["a"], [f"'{text}"]]


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_hostile_text_cannot_reach_the_terminal(form: str) -> None:
    text = as_text(Answer(("seen",), ((HOSTILE,),), more=False), form)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "31m" in text


def test_csv_does_not_give_a_spreadsheet_a_formula() -> None:
    answer = Answer(("a", "b"), (("=cmd|' /c calc'!A1", -1), (None, 0.5)), more=False)
    rows = list(csv.reader(io.StringIO(as_text(answer, "csv"))))
    assert rows == [["a", "b"], ["'=cmd|' /c calc'!A1", "-1"], ["", "0.5"]]


def test_json_is_lossless() -> None:
    answer = Answer(("a", "b"), ((HOSTILE, [1, {"x": None}]), ("é", True)), more=False)
    assert json.loads(as_text(answer, "json")) == [
        {"a": HOSTILE, "b": [1, {"x": None}]},
        {"a": "é", "b": True},
    ]


def test_table_aligns_numbers_and_cuts_long_cells() -> None:
    lines = as_text(Answer(("name", "n"), (("x" * 200, 5), ("y", 1234)), more=False), "table").splitlines()
    assert lines[0].split() == ["name", "n"]
    assert lines[2].endswith("(140 more)     5")
    assert lines[3].endswith(" 1234")
    assert len({len(line) for line in lines}) == 1


def test_table_without_rows_has_its_head() -> None:
    assert as_text(Answer(("name", "n"), (), more=False), "table") == "name  n\n----  -\n"


def test_listing_names_every_view_and_column() -> None:
    text = listing()
    assert [line.partition("(")[0] for line in text.splitlines()] == list(SCHEMAS)
    assert set(NAMES) == set(SCHEMAS)
    assert "first_case bigint" in listing(["buckets"])


def test_views_are_found_whatever_their_case() -> None:
    assert views_in("select * from CHECKS join Runs using (run_id) -- not rundown") == ["runs", "checks"]


def test_numbers_that_json_lacks_are_text() -> None:
    assert plain([float("nan"), float("inf"), 1.5]) == ["nan", "inf", 1.5]
