"""Fuzz cases of runs that never took place, made by the million: as Parquet files, or as the lines that writers write.

The same numbers give the same bytes. Seconds are multiples of 1/1024, so that their sums are exact in whatever order
they are added, and results can be compared cell by cell.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_reports import rows
from spark_reports.storage.tables import arrow_schema

RUNS = 200
CHUNK = 500_000
"""Rows that are made at a time."""

STATES = ("connected", "init_acked", "open", "declared")
MESSAGES = tuple(f"MESSAGE_{number}" for number in range(24))
STRATEGIES = ("edge", "length", "havoc", "order", "flags", "splice")
VERDICTS = ("accepted", "closed", "refused", "silent")
FIELDS = tuple(f"FIELD_{number}.length" for number in range(150))
BUCKETS = 60
FOUND = 1 / 500
"""Share of the cases that are findings."""

START_NS = 1_790_000_000 * 10**9
RUN_NS = 3600 * 10**9

KEYS = {
    "case_outcomes": (
        "run_id",
        "attempt",
        "campaign",
        "engine",
        "job",
        "state",
        "message",
        "strategy",
        "verdict",
    ),
    "case_times": ("run_id", "attempt", "campaign", "message", "bin"),
    "buckets": ("run_id", "attempt", "bucket", "campaign"),
}
"""The rollups of cases, and what makes a row of each."""


def write_parquet(folder: Path, count: int, files: int) -> int:
    """Writes cases of 200 runs as the base table ``cases``; returns the bytes."""
    folder.mkdir(parents=True)
    schema = arrow_schema("cases")
    each = count // files
    for number in range(files):
        path = folder / f"part-{number}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for first in range(number * each, (number + 1) * each, CHUNK):
                size = min(CHUNK, (number + 1) * each - first)
                writer.write_table(_table(first, size, count // RUNS, schema))
    return sum(path.stat().st_size for path in folder.iterdir())


def _table(first: int, count: int, of_run: int, schema: pa.Schema) -> pa.Table:
    rng = np.random.default_rng(first)
    index = np.arange(first, first + count)
    run, case = index // of_run, index % of_run
    campaign = case * 2 // of_run
    # A campaign has states and messages of its own, and some of these are tried more often than others.
    state = campaign * 2 + rng.integers(0, 2, count)
    message = campaign * 12 + rng.zipf(1.6, count) % 12
    verdict = rng.choice(len(VERDICTS), count, p=(0.6, 0.25, 0.1, 0.05))
    found = rng.random(count) < FOUND
    bucket = rng.integers(1, BUCKETS + 1, count)
    rtt = np.exp(rng.normal(6, 1.2, count)).astype(np.int64)
    rtt[rng.random(count) < 0.1] = 0
    whole = {
        "case": case % (of_run // 2) + 1,
        "time_ns": START_NS + run * RUN_NS + case * (RUN_NS // of_run),
        "duration_s": (rtt + 500) // 977 / 1024,
        "seed": np.full(count, 7),
        "sent_bytes": rng.integers(4, 400, count),
        "node_instance": 1 + case // 5000,
        "rtt_us": rtt,
        "links": np.ones(count, np.int64),
        "session": case // 200,
        "position": case % 200,
        "job": case % 2,
        "rows_version": np.full(count, rows.ROWS_VERSION),
        "attempt": np.ones(count, np.int64),
    }
    chosen = {
        "run_id": ([f"run-{number:03}" for number in range(RUNS)], run),
        "campaign": (("handshake", "session"), campaign),
        "state": (STATES, state),
        "message": (MESSAGES, message),
        "field": (FIELDS, rng.integers(0, len(FIELDS), count)),
        "mutation": ([f"0 -> {number}" for number in range(1000)], rng.integers(0, 1000, count)),
        "reply": (("CLOSE", "FRAME", "EOF", ""), rng.integers(0, 4, count)),
        "verdict": (
            (*VERDICTS, "finding"),
            np.where(found, len(VERDICTS), verdict),
        ),
        "oracle": (("", "alive", "silent"), np.where(found, 1 + bucket % 2, 0)),
        "bucket": (
            ("", *(f"panic in place {number}" for number in range(BUCKETS))),
            np.where(found, bucket, 0),
        ),
        "detail": (("", "the node ended"), found.astype(np.int64)),
        "engine": (("fast",), np.zeros(count, np.int64)),
        "strategy": (STRATEGIES, rng.integers(0, len(STRATEGIES), count)),
        "answer": ([f"CLOSE reason {number}" for number in range(40)], rng.integers(0, 40, count)),
    }
    columns = []
    for field in schema:
        if field.name in whole:
            columns.append(pa.array(whole[field.name], field.type))
        elif field.name == "sent_hex":
            columns.append(_hex(rng, count))
        else:
            values, places = chosen.get(field.name, (("",), np.zeros(count, np.int64)))
            named = pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(list(values)))
            columns.append(named.cast(field.type))
    return pa.table(columns, schema=schema)


def _hex(rng: np.random.Generator, count: int, digits: int = 24) -> pa.Array:
    """Returns strings that are all different and do not compress."""
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)[rng.integers(0, 16, (count, digits))]
    offsets = np.arange(0, (count + 1) * digits, digits, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters.tobytes())]
    )


def write_runs(root: Path, cases: int, verdicts: int) -> int:
    """Writes 200 run folders on ten releases, each with so many lines, anew; returns how many lines of rows there are."""
    sample = root / "sample"
    for folder in (sample, root / "runs"):
        shutil.rmtree(folder, ignore_errors=True)
    templates = [_template(sample / str(number), number, cases, verdicts) for number in range(5)]
    for number in range(RUNS):
        folder = root / "runs" / f"run-{number:03}"
        folder.mkdir(parents=True)
        rows.write_run(folder, _run_row(folder.name, number))
        for name, content in templates[number % len(templates)].items():
            (folder / name).write_bytes(content.replace(b"THE-RUN", folder.name.encode()))
    return RUNS * (cases + verdicts + 1)


def _run_row(run_id: str, number: int) -> rows.RunRow:
    day = f"2026-{1 + number // 28:02}-{1 + number % 28:02}"
    return rows.RunRow(
        run_id=run_id,
        started_at=f"{day}T10:00:00.000Z",
        ended_at=f"{day}T10:30:00.000Z",
        kind="conformance+fuzz",
        node="pypi",
        node_impl="eclipse-zenoh",
        node_version=f"1.{number // 20}.0",
        node_whatami="router",
        node_zid="a1",
        harness_version="0.1.0",
        python="3.11",
        platform="Linux x86_64",
        seed=7,
        command="pytest conformance/ --node pypi",
        status="complete",
    )


def _template(folder: Path, number: int, cases: int, verdicts: int) -> dict[str, bytes]:
    """Returns the files of a run with ``THE-RUN`` for its name, as the writers write them."""
    folder.mkdir(parents=True)
    schema = arrow_schema("cases")
    table = _table(number * cases, cases, cases, schema).drop_columns(["attempt"])
    for name, count, made in (
        (rows.FUZZ_CASES, cases, _cases(table)),
        (rows.VERDICTS, verdicts, _verdicts(number, verdicts)),
    ):
        with rows.RowWriter(folder / name) as writer:
            for row in made:
                writer.write(replace(row, run_id="THE-RUN"))
        assert count
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _cases(table: pa.Table) -> Iterator[rows.FuzzCaseRow]:
    for row in table.to_pylist():
        yield rows.FuzzCaseRow(**row)


def _verdicts(number: int, count: int) -> Iterator[rows.VerdictRow]:
    rng = np.random.default_rng(number)
    for check in range(count):
        # A check in fifty fails now and then, one in a hundred always does.
        fails = check % 100 == 7 or (check % 50 == 3 and rng.random() < 0.3)
        yield rows.VerdictRow(
            run_id="",
            test=f"suite/test_area{check % 20}.py::test_{check}",
            requirements=(f"ZN-A{check % 20}-{check // 20:03}",),
            level="MUST" if check % 3 else "SHOULD",
            outcome="fail" if fails else "pass",
            expected="CLOSE" if fails else "",
            seen="nothing" if fails else "",
            reason="",
            stimulus="INIT(S=1)",
            duration_s=check / 1024,
            started_ns=START_NS + check,
            capture="",
            repeat=f"pytest -k test_{check}",
        )
