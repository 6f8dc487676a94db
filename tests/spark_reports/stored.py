"""Runs put into a store straight from rows, for tests that need a store and no ingest."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from spark_reports.storage.store import Account, Commit, Draft, Staging, Store
from spark_reports.storage.tables import arrow_schema

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def publish(store: Store, run_id: str, tables: Rows, *, day: int = 1, bundle: str = "") -> Commit:
    """Publishes a run of November 2026; ``run_id`` and ``attempt`` of each row are filled in."""
    with store.staging(run_id) as stage:
        for table, found in tables.items():
            write(stage, table, found)
        accounts = {
            f"{name}.jsonl": Account(lines=len(found), good=len(found))
            for name, found in tables.items()
            if name in {"verdicts", "observations"}
        }
        return stage.publish(
            Draft(
                run={"run_id": run_id, "started_at": f"2026-11-{day:02d}T10:00:00.000Z"},
                bundle=bundle or f"{run_id} {day} {tables}",
                accounts=accounts,
            )
        )


def write(stage: Staging, table: str, found: Sequence[Mapping[str, Any]]) -> None:
    """Writes a file of a table, with the columns it has in a store."""
    schema = arrow_schema(table)
    rows = [{"run_id": stage.run_id, "attempt": stage.attempt, **row} for row in found]
    filesystem, folder = stage.arrow(table)
    filesystem.create_dir(folder)
    parquet.write_table(pa.Table.from_pylist(rows, schema), f"{folder}/part-0.parquet", filesystem=filesystem)


def cases(**verdicts: int) -> list[dict[str, Any]]:
    """Returns cases with so many of each verdict."""
    each = [verdict for verdict, count in verdicts.items() for _ in range(count)]
    return [{"campaign": "c", "case": number, "verdict": verdict} for number, verdict in enumerate(each, 1)]
