"""Rows, run folders and one Spark session for all tests of the reports."""

import functools
import os
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_reports import report, rows
from spark_reports.engine.java import find_java
from spark_reports.engine.session import spark_session
from spark_reports.engine.settings import SMALL
from spark_reports.storage.schemas import schema_of
from tests.spark_reports.frames import local_frame

MakeRun = Callable[..., Path]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session(find_java(os.environ), os.environ, SMALL) as session:
        yield session


@pytest.fixture(scope="session")
def run_row() -> Callable[..., rows.RunRow]:
    def make(run_id: str = "r1", day: int = 1, **values: Any) -> rows.RunRow:
        standard: dict[str, Any] = {
            "run_id": run_id,
            "started_at": f"2026-11-{day:02d}T10:00:00.000Z",
            "ended_at": f"2026-11-{day:02d}T10:05:00.000Z",
            "kind": "conformance+fuzz",
            "node": "pypi",
            "node_impl": "eclipse-zenoh",
            "node_version": "1.10.2",
            "node_whatami": "router",
            "node_zid": "a1",
            "harness_version": "0.1.0",
            "python": "3.11",
            "platform": "Linux x86_64",
            "seed": 7,
            "command": "pytest conformance/ --node pypi",
            "status": "complete",
        }
        return rows.RunRow(**{**standard, **values})

    return make


@pytest.fixture(scope="session")
def verdict_row() -> Callable[..., rows.VerdictRow]:
    def make(
        outcome: str = "pass", requirements: Sequence[str] = ("ZN-INIT-001",), **values: Any
    ) -> rows.VerdictRow:
        standard: dict[str, Any] = {
            "run_id": "r1",
            "test": "suite/test_init.py::test_a",
            "requirements": tuple(requirements),
            "level": "MUST",
            "outcome": outcome,
            "expected": "" if outcome == "pass" else "INIT",
            "seen": "" if outcome == "pass" else "CLOSE",
            "reason": "",
            "stimulus": "INIT(S=1)",
            "duration_s": 0.5,
            "started_ns": 1,
            "capture": "",
            "repeat": "pytest -k test_a",
        }
        return rows.VerdictRow(**{**standard, **values})

    return make


@pytest.fixture(scope="session")
def case_row() -> Callable[..., rows.FuzzCaseRow]:
    def make(case: int = 1, bucket: str = "", **values: Any) -> rows.FuzzCaseRow:
        standard: dict[str, Any] = {
            "run_id": "r1",
            "campaign": "handshake",
            "case": case,
            "time_ns": case * 1_000_000_000,
            "duration_s": 0.5,
            "seed": 7,
            "state": "connected",
            "message": "INIT",
            "field": "INIT.lease",
            "mutation": "0 -> 1",
            "sent_hex": "0102",
            "sent_bytes": 4,
            "reply": "CLOSE",
            "verdict": "finding" if bucket else "closed",
            "oracle": "alive" if bucket else "",
            "bucket": bucket,
            "detail": "it ended" if bucket else "",
            "node_instance": 1,
            "capture": "",
        }
        return rows.FuzzCaseRow(**{**standard, **values})

    return make


@pytest.fixture(scope="session")
def observation_row() -> Callable[..., rows.ObservationRow]:
    def make(direction: str = "sent", **values: Any) -> rows.ObservationRow:
        standard: dict[str, Any] = {
            "run_id": "r1",
            "test": "suite/test_init.py::test_a",
            "seq": 0,
            "time_ns": 1,
            "link": "a",
            "direction": direction,
            "messages": "INIT",
            "summary": "INIT(S=1)",
            "raw_hex": "01",
            "error": "",
        }
        return rows.ObservationRow(**{**standard, **values})

    return make


@pytest.fixture(scope="session")
def frame(spark: SparkSession) -> Callable[..., DataFrame]:
    """Makes a DataFrame of rows of one type."""

    def make(*values: rows.AnyRow, of: type = rows.RunRow) -> DataFrame:
        schema = schema_of(type(values[0]) if values else of)
        found = [tuple(getattr(value, name) for name in schema.names) for value in values]
        return local_frame(spark, found, schema)

    return make


@pytest.fixture
def make_run(tmp_path: Path, make_run_in: MakeRun) -> MakeRun:
    """Writes a run folder below ``tmp_path/runs``."""
    return functools.partial(make_run_in, tmp_path / "runs")


@pytest.fixture(scope="session")
def make_run_in(run_row: Callable[..., rows.RunRow]) -> MakeRun:
    """Writes a run folder as the writers do; None for a file leaves it out."""

    def make(
        root: Path,
        run_id: str = "r1",
        day: int = 1,
        *,
        verdicts: Sequence[rows.VerdictRow] | None = (),
        cases: Sequence[rows.FuzzCaseRow] | None = (),
        observations: Sequence[rows.ObservationRow] | None = None,
        **values: Any,
    ) -> Path:
        folder = root / run_id
        folder.mkdir(parents=True)
        rows.write_run(folder, run_row(run_id, day, **values))
        for name, content in (
            (rows.VERDICTS, verdicts),
            (rows.FUZZ_CASES, cases),
            (rows.OBSERVATIONS, observations),
        ):
            if content is not None:
                with rows.RowWriter(folder / name) as writer:
                    for row in content:
                        writer.write(row)
        return folder

    return make


def _report(**values: Any) -> report.Report:
    empty = (
        "runs",
        "cells",
        "changes",
        "troubles",
        "not_applicable",
        "findings",
        "rates",
        "bad_lines",
        "left_out",
    )
    return report.Report(**{**dict.fromkeys(empty, ()), **values})


def _run_line(run_id: str = "r1", day: int = 1, **values: Any) -> report.RunLine:
    standard: dict[str, Any] = {
        "run_id": run_id,
        "started_at": f"2026-11-{day:02d}T10:00:00.000Z",
        "ended_at": None,
        "kind": "conformance",
        "node": "pypi",
        "node_impl": "eclipse-zenoh",
        "node_version": "1.10.2",
        "node_whatami": "router",
        "harness_version": "0.1.0",
        "python": "3.11",
        "platform": "Linux",
        "seed": 7,
        "command": "pytest",
        "state": "complete",
        "notes": (),
        "outcomes": dict.fromkeys(rows.OUTCOMES, 0),
        "rows": {rows.VERDICTS: 1},
        "bad": 0,
        "sent": 1,
        "received": 1,
        "undecoded": 0,
        "findings": 0,
    }
    return report.RunLine(**{**standard, **values})


def _cell(outcome: str = "pass", requirement: str = "ZN-INIT-001", **values: Any) -> report.Cell:
    standard: dict[str, Any] = {
        "node_impl": "eclipse-zenoh",
        "node_version": "1.10.2",
        "requirement": requirement,
        "area": "INIT",
        "level": "MUST",
        "outcome": outcome,
        "run_id": "r1",
        "runs": 1,
        "other": (),
    }
    return report.Cell(**{**standard, **values})


def _trouble(outcome: str = "fail", **values: Any) -> report.Trouble:
    standard: dict[str, Any] = {
        "outcome": outcome,
        "test": "suite/test_init.py::test_a",
        "requirements": ("ZN-INIT-001",),
        "level": "MUST",
        "node_impl": "eclipse-zenoh",
        "node_version": "1.10.2",
        "run_id": "r1",
        "expected": "INIT",
        "seen": "CLOSE",
        "reason": "because",
        "stimulus": "INIT(S=1)",
        "capture": "captures/a.pcapng",
        "repeat": "pytest -k test_a",
    }
    return report.Trouble(**{**standard, **values})


def _finding(bucket: str = "panic", status: str = "new", **values: Any) -> report.Finding:
    standard: dict[str, Any] = {
        "bucket": bucket,
        "node_impl": "eclipse-zenoh",
        "cases": 3,
        "runs": 1,
        "first_run": "r1",
        "last_run": "r1",
        "campaigns": ("handshake",),
        "fields": ("INIT.lease",),
        "states": ("open",),
        "oracles": ("alive",),
        "versions": ("eclipse-zenoh 1.10.2",),
        "run_id": "r1",
        "campaign": "handshake",
        "case": 4,
        "sent_bytes": 4,
        "sent_hex": "0102",
        "message": "INIT",
        "field": "INIT.lease",
        "mutation": "0 -> 1",
        "state": "open",
        "reply": "CLOSE",
        "detail": "it ended",
        "capture": "captures/f.pcapng",
        "seed": 7,
        "by_run": {"r1": 3},
        "status": status,
    }
    return report.Finding(**{**standard, **values})


def _difference(requirement: str = "ZN-INIT-001", **values: Any) -> report.Difference:
    standard: dict[str, Any] = {
        "node_impl": "eclipse-zenoh",
        "requirement": requirement,
        "level": "MUST",
        "oldest": "1.0.0",
        "newest": "1.10.2",
        "versions": 13,
        "first": "1.9.0",
        "test": "suite/test_init.py::test_a",
        "before": "as required",
        "after": "CLOSE",
        "differing": 1,
    }
    return report.Difference(**{**standard, **values})


def _rate(campaign: str = "handshake", **values: Any) -> report.Rate:
    standard: dict[str, Any] = {
        "run_id": "r1",
        "campaign": campaign,
        "cases": 10,
        "seconds": 2.0,
        "cases_per_s": 5.0,
        "node_starts": 1,
        "verdicts": {**dict.fromkeys(rows.FUZZ_VERDICTS, 0), "closed": 7, "finding": 3},
    }
    return report.Rate(**{**standard, **values})


@pytest.fixture(scope="session")
def parts() -> types.SimpleNamespace:
    """Makes parts of a report, and reports of them, without Spark."""
    return types.SimpleNamespace(
        report=_report,
        run=_run_line,
        cell=_cell,
        trouble=_trouble,
        finding=_finding,
        rate=_rate,
        difference=_difference,
    )
