import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from spark_reports import rows
from spark_reports.folders import find_run_folders
from spark_reports.load import accounts, bad_lines, load
from spark_reports.schemas import schema_of

MakeRun = Callable[..., Path]
Verdict = Callable[..., rows.VerdictRow]
Case = Callable[..., rows.FuzzCaseRow]


def counts(spark: SparkSession, root: Path) -> dict[tuple[str, str], tuple[int, int]]:
    """Returns (rows, bad) by run and file."""
    tables = load(spark, find_run_folders([root]))
    return {
        (row["run_id"], row["file"]): (row["rows"], row["bad"]) for row in accounts(tables.lines).collect()
    }


def test_every_kind_of_row_is_read_back(
    spark: SparkSession,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Verdict,
    case_row: Case,
    observation_row: Callable[..., rows.ObservationRow],
) -> None:
    verdict = verdict_row("fail", ("ZN-A-1", "ZN-B-2"), seen='ü\u2028\U0001f600"\\')
    make_run(verdicts=[verdict], cases=[case_row()], observations=[observation_row()])
    tables = load(spark, find_run_folders([tmp_path]))
    for frame, wanted in (
        (tables.verdicts, verdict),
        (tables.cases, case_row()),
        (tables.observations, observation_row()),
    ):
        (row,) = frame.collect()
        expected = dataclasses.asdict(wanted)
        assert row.asDict() == {name: list(v) if isinstance(v, tuple) else v for name, v in expected.items()}
    (run,) = tables.runs.collect()
    assert run["node_version"] == "1.10.2"


def test_frames_have_the_columns_of_their_rows(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun
) -> None:
    make_run(verdicts=None, cases=None)
    tables = load(spark, find_run_folders([tmp_path]))
    for frame, kind in (
        (tables.verdicts, rows.VerdictRow),
        (tables.observations, rows.ObservationRow),
        (tables.cases, rows.FuzzCaseRow),
        (tables.findings, rows.FindingRow),
        (tables.coverage, rows.CoverageRow),
    ):
        assert frame.columns == schema_of(kind).names
        assert [field.dataType.simpleString() for field in frame.schema] == [
            field.dataType.simpleString() for field in schema_of(kind)
        ]
        assert frame.count() == 0


def test_no_rows_give_no_rows(spark: SparkSession, tmp_path: Path, make_run: MakeRun) -> None:
    make_run()
    assert counts(spark, tmp_path) == {("r1", rows.VERDICTS): (0, 0), ("r1", rows.FUZZ_CASES): (0, 0)}


BAD_LINES = {
    "text": "hello",
    "array": "[{}]",
    "empty-array": "[]",
    "null": "null",
    "number": "5",
    "object": "{}",
    "single-quotes": "{'footer': true}",
    "footer-that-is-none": '{"footer": "yes"}',
    "half-a-row": '{"run_id": "r1", "te',
}


def test_line_that_is_no_row_is_kept_apart_with_its_text(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict
) -> None:
    for name, line in BAD_LINES.items():
        path = make_run(name, verdicts=[verdict_row()], cases=None) / rows.VERDICTS
        path.write_text(line + "\n" + path.read_text())
    assert counts(spark, tmp_path) == {(name, rows.VERDICTS): (1, 1) for name in BAD_LINES}
    bad = bad_lines(load(spark, find_run_folders([tmp_path])).lines).collect()
    assert {row["run_id"]: row["text"] for row in bad} == BAD_LINES
    assert all(row["problem"] for row in bad)


def spoilt(row: rows.VerdictRow, **change: object) -> str:
    return json.dumps({**dataclasses.asdict(row), **change})


def older(row: rows.VerdictRow) -> str:
    """Returns a row as version 1 had it."""
    values = dataclasses.asdict(row) | {"rows_version": 1}
    return json.dumps({name: value for name, value in values.items() if name != "transport"})


def test_row_of_an_older_version_is_read_with_what_stands_for_its_missing_fields(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict
) -> None:
    row = verdict_row(transport="tls")
    path = make_run("r1", verdicts=[row], cases=None) / rows.VERDICTS
    path.write_text(older(row) + "\n" + path.read_text())
    verdicts = load(spark, find_run_folders([tmp_path])).verdicts.orderBy("transport").collect()
    assert [(found["transport"], found["test"]) for found in verdicts] == [("", row.test), ("tls", row.test)]


def test_reader_agrees_with_the_rows_module_on_every_odd_file(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict
) -> None:
    row = verdict_row()
    good = rows.to_json(row)
    footer = '{"footer":true,"rows":1,"rows_version":1}'
    odd = {
        "blank-lines": f"\n{good}\n   \n\n{footer}\n",
        "unknown-field": spoilt(row, later="x") + f"\n{footer}\n",
        "footer-in-the-middle": f"{good}\n{footer}\n{good}\n" + footer.replace("1,", "2,", 1) + "\n",
        "newer": spoilt(row, rows_version=rows.ROWS_VERSION + 1) + f"\n{good}\n",
        "older": older(row) + f"\n{good}\n",
        "version-is-text": spoilt(row, rows_version="x") + "\n",
        "field-missing": json.dumps({"run_id": "r1"}) + f"\n{good}\n",
        "two-on-a-line": f"{good}{good}\n{footer}\n",
        "text-behind": f"{good} and more\n{good}\n",
        "no-line-end": f"{good}\n{footer}",
        "carriage-returns": f"{good}\r\n{footer}\r\n",
        "empty": "",
        "only-a-footer": '{"footer":true,"rows":0,"rows_version":1}\n',
        "nan": spoilt(row, duration_s=float("nan")) + "\n",
        "deep": "[" * 5000 + "\n",
    }
    for name, text in odd.items():
        (make_run(name, verdicts=None, cases=None) / rows.VERDICTS).write_text(text, newline="")
    (make_run("not-utf-8", verdicts=None, cases=None) / rows.VERDICTS).write_bytes(
        good.encode().replace(b"INIT(S=1)", b"INIT\xff\xfe") + b"\n"
    )
    counted = counts(spark, tmp_path)
    for folder in find_run_folders([tmp_path]):
        read = rows.read_rows(folder.path / rows.VERDICTS)
        got = counted.get((folder.run.run_id, rows.VERDICTS), (0, 0))
        assert (folder.run.run_id, *got) == (folder.run.run_id, len(read.rows), len(read.bad))


def test_hundreds_of_runs_cut_at_every_byte_agree_with_the_rows_module(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, case_row: Case
) -> None:
    whole = (
        make_run("whole", cases=[case_row(1), case_row(2)], verdicts=None) / rows.FUZZ_CASES
    ).read_bytes()
    last_row = whole.index(b"\n") + 1
    for end in range(last_row, len(whole)):
        path = make_run(f"cut{end:04d}", verdicts=None, cases=None) / rows.FUZZ_CASES
        path.write_bytes(whole[:end])
    counted = counts(spark, tmp_path)
    assert len(counted) > 300
    for folder in find_run_folders([tmp_path]):
        read = rows.read_rows(folder.path / rows.FUZZ_CASES)
        assert counted[folder.run.run_id, rows.FUZZ_CASES] == (len(read.rows), len(read.bad))


def test_row_of_another_type_is_kept_apart(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict
) -> None:
    path = make_run(verdicts=None, cases=None) / rows.VERDICTS
    row = verdict_row()
    lines = [spoilt(row, started_ns="soon"), spoilt(row, started_ns=1 << 70), spoilt(row, seen=None)]
    path.write_text("\n".join(lines) + "\n")
    assert counts(spark, tmp_path) == {("r1", rows.VERDICTS): (0, 3)}


def test_folders_with_odd_names_are_read(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict
) -> None:
    names = ["a b+c", "50%20off", "[x]{y}*?", "ü\u4e2d", "_hidden", "back\\slash", "a'b\"c#d", "x"]
    for name in names:
        make_run(name, verdicts=[verdict_row()], cases=None)
    assert counts(spark, tmp_path) == {(name, rows.VERDICTS): (1, 0) for name in names}


def test_rows_bear_the_name_of_their_folder(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict
) -> None:
    make_run("renamed", verdicts=[verdict_row(run_id="before")])
    tables = load(spark, find_run_folders([tmp_path]))
    assert [row["run_id"] for row in tables.verdicts.collect()] == ["renamed"]


def test_duplicates_are_not_read(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, verdict_row: Verdict
) -> None:
    run = make_run("a", verdicts=[verdict_row()])
    copy = make_run("b", verdicts=[verdict_row()])
    rows.write_run(copy, rows.read_run(run))
    tables = load(spark, find_run_folders([tmp_path]))
    assert [row["run_id"] for row in tables.verdicts.collect()] == ["a"]
    assert tables.runs.count() == 1
