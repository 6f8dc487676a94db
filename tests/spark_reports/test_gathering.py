import dataclasses
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_reports import rows
from spark_reports.errors import DataTrouble
from spark_reports.storage import gathering
from spark_reports.storage.gathering import Gathered
from spark_reports.storage.merging import Writer
from spark_reports.storage.store import Draft, Store
from spark_reports.storage.tables import arrow_schema
from spark_reports.storage.views import FEW_FILES, open_views

MakeRow = Callable[..., rows.RunRow]


def published(store: Store, run: rows.RunRow, received: int) -> None:
    """Puts a run with one row of traffic into a store."""
    with store.staging(run.run_id) as staging:
        writer = Writer(staging.arrow("traffic"))
        row = {
            "run_id": run.run_id,
            "attempt": staging.attempt,
            "sent": 1,
            "received": received,
            "undecoded": 0,
        }
        writer.write(pa.RecordBatch.from_pylist([row], arrow_schema("traffic")))
        writer.close()
        staging.publish(Draft(run=dataclasses.asdict(run), bundle=f"{run.run_id}{received}"))


@pytest.fixture
def store(tmp_path: Path, run_row: MakeRow) -> Store:
    store = Store(tmp_path / "store", durable=False)
    for number in range(FEW_FILES + 1):
        published(store, run_row(f"r{number}", 1 + number), number)
    return store


def copies(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.parquet")]


def test_many_files_become_one_with_the_same_rows(
    spark: SparkSession, store: Store, tmp_path: Path, run_row: MakeRow
) -> None:
    published(store, run_row("r0", 1), 99)
    commits, folder = store.commits(), tmp_path / "near"
    folder.mkdir()
    with Gathered(store, commits, folder) as near:
        views = near.views(spark)
        assert views.traffic.inputFiles() == [
            (folder / "traffic.parquet").as_uri().replace("file:///", "file:///")
        ]
        found = views.traffic.toArrow().sort_by("run_id")
        assert found == open_views(spark, store, commits).traffic.toArrow().sort_by("run_id")
        assert found["received"].to_pylist() == [99, 1, 2, 3, 4]
        assert views.checks.columns == open_views(spark, store, commits).checks.columns
    assert copies(folder) == ["traffic.parquet"]


@pytest.mark.parametrize("damage", ["missing", "cut", "overwritten"])
def test_missing_or_damaged_file_is_told(
    spark: SparkSession, store: Store, tmp_path: Path, damage: str
) -> None:
    path = next(iter((tmp_path / "store").rglob("traffic/**/*.parquet")))
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            whole[:20] if damage == "cut" else whole[:4] + b"\xff" * (len(whole) - 12) + whole[-8:]
        )
    folder = tmp_path / "near"
    folder.mkdir()
    with (
        Gathered(store, store.commits(), folder) as near,
        pytest.raises(DataTrouble, match=r"table traffic is missing or damaged.*store check"),
    ):
        near.views(spark).traffic.collect()


def test_few_or_large_files_stay_where_they_are(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gathered(store, store.commits()[:-1], tmp_path):
        pass
    monkeypatch.setattr(gathering, "MOST_BYTES", 100)
    with Gathered(store, store.commits(), tmp_path):
        pass
    assert copies(tmp_path) == []
