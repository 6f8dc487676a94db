from collections.abc import Callable

from pyspark.sql import DataFrame

from spark_reports import rows
from spark_reports.findings import buckets, buckets_by_run, only_findings

Frame = Callable[..., DataFrame]
Case = Callable[..., rows.FuzzCaseRow]
Run = Callable[..., rows.RunRow]


def test_bucket_gathers_what_its_cases_share(frame: Frame, case_row: Case, run_row: Run) -> None:
    cases = frame(
        case_row(1, "panic", run_id="r2", sent_bytes=9),
        case_row(2, "panic", run_id="r1", sent_bytes=5, field="INIT.version", sent_hex="aa"),
        case_row(3, "panic", run_id="r1", campaign="data", sent_bytes=5),
        case_row(4, run_id="r1"),
        case_row(5, "silent", run_id="r1"),
    )
    runs = frame(run_row("r2", 1), run_row("r1", 2, node_version="1.10.3"))
    found = only_findings(cases)
    panic, silent = buckets(found, runs).orderBy("bucket").collect()
    assert (panic["cases"], panic["runs"], panic["first_run"], panic["last_run"]) == (3, 2, "r2", "r1")
    assert panic["campaigns"] == ["data", "handshake"]
    assert panic["fields"] == ["INIT.lease", "INIT.version"]
    assert panic["versions"] == ["eclipse-zenoh 1.10.2", "eclipse-zenoh 1.10.3"]
    # Two cases are equally small: the name of the campaign decides, not the order of the files.
    assert (panic["campaign"], panic["case"], panic["sent_bytes"]) == ("data", 3, 5)
    assert silent["cases"] == 1
    assert sorted(map(tuple, buckets_by_run(found).collect())) == [
        ("panic", "r1", 2),
        ("panic", "r2", 1),
        ("silent", "r1", 1),
    ]


def test_finding_without_signature_is_seen(frame: Frame, case_row: Case) -> None:
    (row,) = only_findings(frame(case_row(1, verdict="finding"), case_row(2))).collect()
    assert row["bucket"] == "(no signature)"
