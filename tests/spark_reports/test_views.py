"""The views of a store: only rows that count, columns that are known, nothing opened before it is used."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_reports import rows
from spark_reports.errors import DataTrouble, EngineFailed
from spark_reports.storage import lake, upkeep, views
from spark_reports.storage.schemas import schema_of
from spark_reports.storage.store import BASE_TABLES, ROLLUP_TABLES, Draft, Store
from spark_reports.storage.tables import BASE, ROLLUPS, SCHEMAS, arrow_schema
from spark_reports.storage.views import NAMES, Views, open_views
from tests.spark_reports.stored import publish


@pytest.fixture
def store(tmp_path: Path) -> Store:
    # What Hadoop would take for a pattern, an escape, a scheme or a hidden folder.
    return Store(tmp_path / "_a [st]{o}re*:x %20é", durable=False)


def seen_in(frame: DataFrame) -> set[tuple[Any, ...]]:
    found = [tuple(row) for row in frame.select("run_id", "attempt", "tests").collect()]
    assert len(set(found)) == len(found)
    return set(found)


def requirement(tests: int) -> dict[str, list[dict[str, Any]]]:
    return {"requirements": [{"requirement": "ZN-INIT-001", "tests": tests}]}


def test_tables_are_those_of_the_store_and_have_every_column_of_their_rows() -> None:
    assert tuple(BASE) == BASE_TABLES
    assert tuple(ROLLUPS) == ROLLUP_TABLES
    assert set(NAMES) == set(SCHEMAS)
    for row_type in (rows.RunRow, *rows.type_of_file.values()):
        names = BASE[row_type.TABLE].names
        assert names[: len(schema_of(row_type).names)] == schema_of(row_type).names
        assert names[-2:] == ["attempt", "extra"]
    for table, schema in SCHEMAS.items():
        assert {"run_id", "attempt"} <= set(schema.names)
        assert arrow_schema(table, extra=True).names == schema.names
        assert isinstance(getattr(Views, table), property)


def test_nothing_is_opened_before_it_is_used_and_then_once(spark: SparkSession) -> None:
    opened: list[str] = []

    def opener(name: str) -> DataFrame:
        opened.append(name)
        return spark.range(1)

    views = Views(spark, opener)
    assert opened == []
    assert views.cases is views.frame("cases")
    assert opened == ["cases"]
    with pytest.raises(ValueError, match=r"no view letters; there are runs, verdicts"):
        views.frame("letters")


def test_only_what_a_record_names_is_read(spark: SparkSession, store: Store) -> None:
    publish(store, "r.1", requirement(1))
    publish(store, "r2", requirement(2))
    publish(store, "r2", requirement(3), bundle="other")
    for name in ("tables/cases/r3/1", "rollups/requirements/r3/1"):
        Path(store.uri, name).mkdir(parents=True)
        Path(store.uri, name, "part-0.parquet").write_bytes(b"of a writer that was killed")
    views = open_views(spark, store)
    assert seen_in(views.requirements) == {("r.1", 1, 1), ("r2", 2, 3)}
    assert views.cases.count() == 0
    assert views.cases.schema == SCHEMAS["cases"]
    (first, _) = store.commits()
    assert seen_in(open_views(spark, store, [first]).requirements) == {(first.run_id, 1, 1)}


@pytest.mark.parametrize(("name", "limit"), [("FEW_FILES", 0), ("FEW_ROWS", 1)])
def test_little_is_read_by_one_task_without_a_shuffle(
    spark: SparkSession,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    limit: int,
) -> None:
    publish(store, "r1", requirement(1))
    publish(store, "r2", requirement(2))

    def plan() -> str:
        open_views(spark, store).requirements.groupBy("requirement").count().explain()
        return capsys.readouterr().out

    assert "Exchange" not in plan()
    monkeypatch.setattr(views, name, limit)
    assert "Exchange" in plan()


def test_rows_of_merged_and_loose_files_count_once(spark: SparkSession, store: Store) -> None:
    for n in range(3):
        publish(store, f"r{n}", requirement(n))
    upkeep.compact(store)
    publish(store, "r0", requirement(7), bundle="other")
    publish(store, "r3", requirement(3))
    views = open_views(spark, store)
    assert sorted(seen_in(views.requirements)) == [("r0", 2, 7), ("r1", 1, 1), ("r2", 1, 2), ("r3", 1, 3)]
    some = [commit for commit in store.commits() if commit.run_id in {"r0", "r2"}]
    assert sorted(seen_in(open_views(spark, store, some).requirements)) == [("r0", 2, 7), ("r2", 1, 2)]


def test_view_that_was_opened_goes_on_while_the_store_changes(spark: SparkSession, store: Store) -> None:
    for n in range(2):
        publish(store, f"r{n}", requirement(n))
    views = open_views(spark, store)
    upkeep.compact(store)
    publish(store, "r2", requirement(2))
    upkeep.sweep(store)
    assert seen_in(views.requirements) == {("r0", 1, 0), ("r1", 1, 1)}


def test_columns_that_older_files_lack_have_the_value_that_stands_for_it(
    spark: SparkSession, store: Store
) -> None:
    with store.staging("r1") as stage:
        old = pa.table({"run_id": ["r1"], "attempt": [1], "node": ["n"], "rows_version": [1]})
        parquet.write_table(old, f"{stage.folder('runs')}/part-0.parquet")
        cases = pa.table({"run_id": ["r1"], "attempt": [1]})
        parquet.write_table(cases, f"{stage.folder('cases')}/part-0.parquet")
        stage.publish(Draft(run={"run_id": "r1", "started_at": ""}, bundle="b"))
    views = open_views(spark, store)
    (run,) = views.runs.collect()
    assert (run["environment"], run["configuration"], run["command"], run["extra"]) == ("", "", None, None)
    (case,) = views.cases.select("engine", "links", "rtt_us").collect()
    assert tuple(case) == ("boofuzz", 1, 0)


def test_session_that_heeds_no_names_reads_by_patterns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is one over Spark Connect."""
    assert lake.heeds_names(spark)
    monkeypatch.setattr(lake, "heeds_names", lambda _: False)
    store = Store(tmp_path / "_a [st]{o}re* %20é", durable=False)
    publish(store, "r1", requirement(1))
    publish(store, "r2", requirement(2))
    assert seen_in(open_views(spark, store).requirements) == {("r1", 1, 1), ("r2", 1, 2)}


def test_file_that_is_gone_is_trouble_where_spark_does_not_look(spark: SparkSession, store: Store) -> None:
    publish(store, "r1", requirement(1))
    (file,) = store.commits()[0].tables["requirements"]
    Path(store.uri, file.path).unlink()
    with pytest.raises(DataTrouble, match=rf"table requirements is missing: .*{file.path}"):
        _ = open_views(spark, store).requirements


def test_views_are_there_for_sql(spark: SparkSession, store: Store) -> None:
    publish(store, "r1", requirement(4))
    open_views(spark, store).register()
    (row,) = spark.sql("SELECT sum(tests) AS n FROM requirements LEFT JOIN runs USING (run_id)").collect()
    assert row["n"] == 4


def test_spark_merges_base_tables_with_their_extra_columns(spark: SparkSession, store: Store) -> None:
    for n in range(2):
        with store.staging(f"r{n}") as stage:
            line = f'{{"field{n}": {n}}}'
            found = spark.range(1).select(
                sf.lit(f"r{n}").alias("run_id"),
                sf.lit(1).cast("long").alias("attempt"),
                sf.parse_json(sf.lit(line)).alias("extra"),
            )
            found.write.mode("append").parquet(stage.folder("findings"))
            stage.publish(Draft(run={"run_id": f"r{n}", "started_at": ""}, bundle=f"b{n}"))
    (done,) = upkeep.compact(store, ["findings"], spark=spark)
    assert (done.before, done.after, done.rows) == (2, 1, 2)
    findings = open_views(spark, store).findings
    texts = {row[0] for row in findings.select(sf.to_json("extra")).collect()}
    assert texts == {'{"field0":0}', '{"field1":1}'}


def test_another_format_keeps_rows_and_records_decide_which_count(spark: SparkSession, store: Store) -> None:
    """ORC stands for Delta and Iceberg here: Spark has it without a plug-in."""
    store.create("orc")
    append = lake.appender(spark, "orc")

    def broken(table: str, folder: str, target: str) -> None:
        append(table, folder, target)
        raise TimeoutError

    def take_in(append_with: Any) -> None:
        with store.staging("r1") as stage:
            rows = [{"run_id": "r1", "attempt": stage.attempt, "tests": 5}]
            table = pa.Table.from_pylist(rows, arrow_schema("requirements"))
            parquet.write_table(table, f"{stage.folder('requirements')}/part-0.parquet")
            stage.publish(Draft(run={"run_id": "r1", "started_at": ""}, bundle="b"), append_with)

    with pytest.raises(TimeoutError):
        take_in(broken)
    take_in(append)
    views = open_views(spark, store)
    assert seen_in(views.requirements) == {("r1", 2, 5)}
    assert views.requirements.schema == SCHEMAS["requirements"]
    assert views.checks.count() == 0


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_missing_plug_in_is_named(spark: SparkSession, table_format: str) -> None:
    with pytest.raises(EngineFailed, match=rf"tables of format {table_format}: start it with .*package"):
        lake.appender(spark, table_format)
