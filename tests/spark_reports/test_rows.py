import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reports import rows

Verdict = Callable[..., rows.VerdictRow]


def write(path: Path, *content: rows.VerdictRow) -> None:
    with rows.RowWriter(path) as writer:
        for row in content:
            writer.write(row)


def test_rows_that_were_written_are_read_back(tmp_path: Path, verdict_row: Verdict) -> None:
    path = tmp_path / rows.VERDICTS
    write(path, verdict_row(), verdict_row("fail"))
    read = rows.read_rows(path)
    assert read.complete
    assert [row["outcome"] for row in read.rows] == ["pass", "fail"]
    assert not read.bad


def test_second_writer_adds_rows_and_a_footer_for_all(tmp_path: Path, verdict_row: Verdict) -> None:
    path = tmp_path / rows.VERDICTS
    write(path, verdict_row())
    write(path, verdict_row(), verdict_row())
    read = rows.read_rows(path)
    assert (len(read.rows), read.complete) == (3, True)
    assert json.loads(path.read_text().splitlines()[-1])["rows"] == 3


def test_second_writer_starts_a_new_line_after_a_lost_line_end(tmp_path: Path, verdict_row: Verdict) -> None:
    path = tmp_path / rows.VERDICTS
    write(path, verdict_row())
    path.write_bytes(path.read_bytes()[:-1])
    write(path, verdict_row())
    read = rows.read_rows(path)
    assert (len(read.rows), len(read.bad), read.complete) == (2, 0, True)


def test_writer_refuses_a_file_with_a_cut_line(tmp_path: Path, verdict_row: Verdict) -> None:
    path = tmp_path / rows.VERDICTS
    write(path, verdict_row())
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(rows.RowsError, match=r"line 2 is not JSON.*use another"):
        rows.RowWriter(path)


@pytest.mark.parametrize("line", [b"\xff\xfe", b"9" * 5000, b"[" * 100_000], ids=["bytes", "number", "depth"])
def test_what_python_cannot_hold_is_not_json(tmp_path: Path, verdict_row: Verdict, line: bytes) -> None:
    path = tmp_path / rows.VERDICTS
    write(path, verdict_row())
    path.write_bytes(path.read_bytes() + line + b"\n")
    read = rows.read_rows(path)
    assert (len(read.rows), [bad.reason for bad in read.bad], read.complete) == (1, ["not JSON"], False)
    with pytest.raises(rows.RowsError, match=r"line 3 is not JSON.*use another"):
        rows.check_appendable(path)
    (tmp_path / rows.RUN).write_bytes(line)
    with pytest.raises(rows.RowsError, match="cut off or damaged"):
        rows.read_run(tmp_path)


def test_error_while_writing_leaves_the_footer_out(tmp_path: Path, verdict_row: Verdict) -> None:
    def fail() -> None:
        with rows.RowWriter(tmp_path / rows.VERDICTS) as writer:
            writer.write(verdict_row())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    read = rows.read_rows(tmp_path / rows.VERDICTS)
    assert (len(read.rows), read.complete) == (1, False)


@given(st.text(st.characters(), max_size=40))
def test_any_string_survives_two_writers(
    tmp_path_factory: pytest.TempPathFactory, verdict_row: Verdict, text: str
) -> None:
    path = tmp_path_factory.mktemp("rows") / rows.VERDICTS
    write(path, verdict_row(seen=text))
    write(path, verdict_row(seen=text))
    read = rows.read_rows(path)
    assert read.complete
    assert [row["seen"] for row in read.rows] == [text, text]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "not JSON"),
        ("[1]", "not an object"),
        ("{}", "no run_id, test"),
        ('{"footer": 1}', "no run_id"),
    ],
)
def test_line_that_is_no_row_is_kept_apart(
    tmp_path: Path, verdict_row: Verdict, line: str, reason: str
) -> None:
    path = tmp_path / rows.VERDICTS
    write(path, verdict_row())
    path.write_text(line + "\n\n" + path.read_text())
    read = rows.read_rows(path)
    assert len(read.rows) == 1
    assert [bad.line for bad in read.bad] == [1]
    assert reason in read.bad[0].reason


def test_row_of_an_older_version_is_read_with_what_stands_for_its_missing_fields(
    tmp_path: Path, verdict_row: Verdict
) -> None:
    path = tmp_path / rows.VERDICTS
    old = {**dataclasses.asdict(verdict_row(transport="tls")), "rows_version": 1}
    del old["transport"]
    path.write_text(json.dumps(old) + "\n")
    (row,) = rows.read_rows(path).rows
    assert (row["transport"], row["rows_version"]) == ("tcp", 1)


def test_fuzz_case_of_version_2_is_read(tmp_path: Path, case_row: Callable[..., rows.FuzzCaseRow]) -> None:
    path = tmp_path / rows.FUZZ_CASES
    later = rows.later_fields(rows.FuzzCaseRow)
    value = {**dataclasses.asdict(case_row()), "rows_version": 2}
    path.write_text(json.dumps({name: value[name] for name in value if name not in later}) + "\n")
    (row,) = rows.read_rows(path).rows
    assert row == value
    assert (row["engine"], row["sent_zlib"], row["job"]) == ("boofuzz", "", 0)


def finding_row() -> rows.FindingRow:
    values = {"time_ns": 1, "fails": True, "case": 1, "hits": 2, "left_out": 0, "tries": 3, "confirmed": 3}
    numbers = {"messages": 1, "size": 9, "seed": 7, "job": 0, "part": 0}
    names = {field.name for field in dataclasses.fields(rows.FindingRow)}
    texts = dict.fromkeys(names - values.keys() - numbers.keys() - {"case_buckets", "rows_version"}, "x")
    return rows.FindingRow(**{**texts, **values, **numbers, "case_buckets": ("x", "y")})  # type: ignore[arg-type]


def coverage_row() -> rows.CoverageRow:
    return rows.CoverageRow(
        run_id="r1",
        kind="edge",
        campaigns="a b",
        state="",
        message="INIT",
        field="INIT.S",
        what="S=0",
        count=4,
        planned=True,
    )


def benchmark_row() -> rows.BenchmarkRow:
    return rows.BenchmarkRow(
        run_id="r1",
        name="dissect: PUSH",
        metric="rate",
        value=1234.5,
        unit="1/s",
        better="higher",
        sample=0,
        warmup=True,
        baseline="",
    )


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (rows.FINDINGS, finding_row()),
        (rows.FUZZ_COVERAGE, coverage_row()),
        (rows.BENCHMARKS, benchmark_row()),
    ],
)
def test_findings_coverage_and_benchmarks_are_read_back(tmp_path: Path, name: str, row: rows.LineRow) -> None:
    with rows.RowWriter(tmp_path / name) as writer:
        writer.write(row)
    read = rows.read_rows(tmp_path / name)
    # JSON knows no tuples.
    assert (read.rows, read.complete) == ([json.loads(rows.to_json(row))], True)


@pytest.mark.parametrize("version", [rows.ROWS_VERSION + 1, "1", None])
def test_row_of_another_version_is_kept_apart(tmp_path: Path, verdict_row: Verdict, version: object) -> None:
    path = tmp_path / rows.VERDICTS
    value = {**dataclasses.asdict(verdict_row()), "rows_version": version}
    path.write_text(json.dumps(value) + "\n")
    read = rows.read_rows(path)
    assert (len(read.rows), len(read.bad), read.complete) == (0, 1, False)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_run_of_an_older_version_is_read_with_what_stands_for_its_missing_fields(
    tmp_path: Path, run_row: Callable[..., rows.RunRow], version: int
) -> None:
    later = rows.later_fields(rows.RunRow)
    value = {**dataclasses.asdict(run_row(environment="x")), "rows_version": version}
    old = {name: value[name] for name in value if name not in later}
    (tmp_path / rows.RUN).write_text(json.dumps(old))
    assert rows.read_run(tmp_path) == run_row(rows_version=version)


def test_run_that_cannot_be_put_in_place_leaves_nothing_behind(
    tmp_path: Path, run_row: Callable[..., rows.RunRow]
) -> None:
    (tmp_path / rows.RUN).mkdir()
    with pytest.raises(IsADirectoryError):
        rows.write_run(tmp_path, run_row())
    assert [path.name for path in tmp_path.iterdir()] == [rows.RUN]


def test_run_is_read_back(tmp_path: Path, run_row: Callable[..., rows.RunRow]) -> None:
    row = run_row(command="pytest --node \udcff", ended_at=None)
    rows.write_run(tmp_path, row)
    assert rows.read_run(tmp_path) == row


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "has no run.json"),
        ("", "cut off or damaged"),
        ('{"run_id": "r1"', "cut off or damaged"),
        ('{"rows_version": 1}', "missing"),
        ("[]", "no run row"),
        ('{"rows_version": 99}', "newer than"),
    ],
)
def test_run_that_cannot_be_read_says_why(tmp_path: Path, content: str | None, reason: str) -> None:
    if content is not None:
        (tmp_path / rows.RUN).write_text(content)
    with pytest.raises(rows.RowsError, match=reason):
        rows.read_run(tmp_path)


def test_run_ids_differ() -> None:
    assert len({rows.new_run_id() for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-29T10:00:00.000Z", "2026-11-29T10:00:00.000Z"),
        ("2026-11-29T10:00:00Z", "2026-11-29T10:00:00.000Z"),
        ("2026-11-29 10:00:00z", "2026-11-29T10:00:00.000Z"),
        ("2026-11-29T10:00:00.123456789Z", "2026-11-29T10:00:00.123Z"),
        ("2026-11-29T01:30:00+02:00", "2026-11-28T23:30:00.000Z"),
        ("2026-12-31T23:30:00.5-0130", "2027-01-01T01:00:00.500Z"),
        # Which moment that is depends on where the clock stood.
        ("2026-11-29T10:00:00", ""),
        ("2026-11-29T10:00:00+2:00", ""),
        ("2026-11-29T25:00:00Z", ""),
        ("0001-01-01T00:00:00+02:00", ""),
        ("9999-12-31T23:30:00-01:00", ""),
        ("٢026-11-29T10:00:00Z", ""),
        ("", ""),
    ],
)
def test_time_with_an_offset_is_read_in_utc(text: str, utc: str) -> None:
    assert rows.as_utc(text) == utc
