"""A small report over runs that never took place: what Spark does while a class-data archive is made.

Whatever classes this needs are in the archive, so it goes the way of ``ingest`` and ``build`` and has a little of
everything: releases, failures, flakes, findings, answers that take their time.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from spark_reports import collect, rows
from spark_reports.folders import find_run_folders
from spark_reports.storage import ingest
from spark_reports.storage.store import Store
from spark_reports.storage.views import open_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_reports.report import Report

RUNS = 4
CHECKS = 6
CASES = 20


def run(spark: "SparkSession", folder: Path) -> "Report":
    """Makes runs, takes them into a store and reports on it.

    Args:
        spark: A session that makes an archive at its end.
        folder: An empty folder; what is written there is of no further use.
    """
    for number in range(RUNS):
        _write_run(folder / "runs" / f"r{number}", number)
    store = Store(folder / "store", durable=False)
    ingest.ingest(spark, store, find_run_folders([folder / "runs"]))
    commits = store.commits()
    return collect.collect(open_views(spark, store, commits), commits, "previous", lambda _: None)


def _write_run(folder: Path, number: int) -> None:
    folder.mkdir(parents=True)
    rows.write_run(
        folder,
        rows.RunRow(
            run_id=folder.name,
            started_at=f"2026-01-0{number + 1}T10:00:00.000Z",
            ended_at=f"2026-01-0{number + 1}T10:30:00.000Z",
            kind="conformance+fuzz",
            node="training",
            node_impl="training",
            node_version=f"1.{number // 2}.0",
            node_whatami="router",
            node_zid="a1",
            harness_version="0",
            python="3",
            platform="none",
            seed=number,
            command="none",
            status="complete",
        ),
    )
    with rows.RowWriter(folder / rows.VERDICTS) as writer:
        for check in range(CHECKS):
            writer.write(_verdict(folder.name, check, fails=check * number % 3 == 2))
    with rows.RowWriter(folder / rows.FUZZ_CASES) as writer:
        for case in range(1, CASES + 1):
            writer.write(_case(folder.name, case, bucket=f"place {case % 3}" if case % 5 == number else ""))
    with rows.RowWriter(folder / rows.OBSERVATIONS) as writer:
        for seq in range(CHECKS):
            writer.write(_observation(folder.name, seq))


def _verdict(run_id: str, check: int, *, fails: bool) -> rows.VerdictRow:
    return rows.VerdictRow(
        run_id=run_id,
        test=f"suite/test_training.py::test_{check}",
        requirements=(f"ZN-INIT-00{check // 2}",),
        level="MUST",
        outcome="fail" if fails else ("n/a" if check == 5 else "pass"),
        expected="INIT" if fails else "",
        seen="CLOSE" if fails else "",
        reason="not this role" if check == 5 else "",
        stimulus="INIT(S=1)",
        duration_s=0.5,
        started_ns=check,
        capture="",
        repeat="none",
    )


def _case(run_id: str, case: int, *, bucket: str) -> rows.FuzzCaseRow:
    return rows.FuzzCaseRow(
        run_id=run_id,
        campaign="handshake",
        case=case,
        time_ns=case * 1_000_000_000,
        duration_s=0.5,
        seed=1,
        state="connected",
        message="INIT",
        field="INIT.lease",
        mutation="0 -> 1",
        sent_hex="0102",
        sent_bytes=4,
        reply="CLOSE",
        verdict="finding" if bucket else "closed",
        oracle="alive" if bucket else "",
        bucket=bucket,
        detail="it ended" if bucket else "",
        node_instance=1,
        capture="",
        engine="fast",
        strategy="edge",
        rtt_us=case * 100,
    )


def _observation(run_id: str, seq: int) -> rows.ObservationRow:
    return rows.ObservationRow(
        run_id=run_id,
        test="suite/test_training.py::test_0",
        seq=seq,
        time_ns=seq * 1_000_000,
        link="a",
        direction="received" if seq % 2 else "sent",
        messages="INIT",
        summary="INIT(S=1)",
        raw_hex="01",
        error="",
    )
