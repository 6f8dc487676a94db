import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_reports import rows
from spark_reports.errors import DataTrouble
from spark_reports.frames.rates import rates_of_outcomes
from spark_reports.storage import gathering
from spark_reports.storage.gathering import Gathered
from spark_reports.storage.merging import Writer
from spark_reports.storage.store import Draft, Store
from spark_reports.storage.tables import arrow_schema
from spark_reports.storage.views import FEW_FILES, open_views

MakeRow = Callable[..., rows.RunRow]


def published(store: Store, run: rows.RunRow, received: int, **more: list[dict[str, Any]]) -> None:
    """Puts a run with one row of traffic, and rows of other tables, into a store."""
    tables = {"traffic": [{"sent": 1, "received": received, "undecoded": 0}], **more}
    with store.staging(run.run_id) as staging:
        of_run = {"run_id": run.run_id, "attempt": staging.attempt}
        for table, its_rows in tables.items():
            writer = Writer(staging.arrow(table))
            made = [{**of_run, **row} for row in its_rows]
            writer.write(pa.RecordBatch.from_pylist(made, arrow_schema(table)))
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


def outcome(verdict: str, cases: int, at: int, **more: Any) -> dict[str, Any]:
    """A row of the rollup ``case_outcomes``."""
    usual = {"campaign": "handshake", "job": 0, "verdict": verdict, "node_starts": 2}
    return {**usual, "cases": cases, "first_ns": at, "last_end_ns": at + 10, **more}


OUTCOMES = [
    outcome("closed", 3, 100, state="open"),
    outcome("closed", 4, 50, state="init", node_starts=5),
    outcome("finding", 1, 300, state="open"),
    outcome("closed", 9, 10, job=1),
    outcome("closed", 2, 10, campaign="valid", node_starts=None),
    outcome("nobody knows", 1, 10, campaign=None),
]


@pytest.mark.parametrize("runs", [1, FEW_FILES + 1])
def test_added_up_outcomes_have_the_same_rates_in_fewer_rows(
    spark: SparkSession, tmp_path: Path, run_row: MakeRow, runs: int
) -> None:
    store = Store(tmp_path / "store", durable=False)
    for number in range(runs):
        published(store, run_row(f"r{number}", 1 + number), 1, case_outcomes=OUTCOMES)
    commits, folder = store.commits(), tmp_path / "near"
    folder.mkdir()
    with Gathered(store, commits, folder, summed=True) as near:
        summed = near.views(spark).case_outcomes
        whole = open_views(spark, store, commits).case_outcomes
        assert near.rows("case_outcomes") == summed.count() == 5 * runs
        assert whole.count() == 6 * runs
        assert summed.schema == whole.schema
        order = ["run_id", "campaign"]
        assert rates_of_outcomes(summed).orderBy(order).collect() == (
            rates_of_outcomes(whole).orderBy(order).collect()
        )
        assert near.rows("traffic") == runs


@pytest.mark.parametrize("runs", [1, FEW_FILES + 1])
@pytest.mark.parametrize(
    ("row", "rare"),
    [
        ({"outcome": "pass", "reason": ""}, set()),
        ({"outcome": None, "reason": None}, set()),
        ({"outcome": "n/a", "reason": "not this role"}, {"n/a"}),
        ({"outcome": "fail", "reason": rows.STALE}, {rows.STALE}),
    ],
)
def test_rare_values_are_known_to_lack(
    tmp_path: Path, run_row: MakeRow, runs: int, row: dict[str, Any], rare: set[str]
) -> None:
    store = Store(tmp_path / "store", durable=False)
    for number in range(runs):
        checks = [{"outcome": "pass", "reason": ""}, row if number == 0 else {}]
        published(store, run_row(f"r{number}", 1 + number), 1, checks=checks)
    folder = tmp_path / "near"
    folder.mkdir()
    with Gathered(store, store.commits(), folder) as near:
        assert near.lacks("checks", "outcome", "n/a") == ("n/a" not in rare)
        assert near.lacks("checks", "reason", rows.STALE) == (rows.STALE not in rare)
        # Nobody looked.
        assert not near.lacks("traffic", "sent", "7")
        assert not near.lacks("checks", "seen", "CLOSE")
