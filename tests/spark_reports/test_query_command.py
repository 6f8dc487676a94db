"""The command query: what it refuses, and one answer over run folders."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_reports import rows
from spark_reports.__main__ import main
from spark_reports.commands.query import size_of
from spark_reports.engine.settings import LINES_OF_PARQUET
from spark_reports.storage.store import Store
from spark_reports.storage.tables import SCHEMAS


def test_no_query_lists_the_views(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(SCHEMAS)


def test_query_without_a_store_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT 1"]) == 2
    assert "--store is missing" in capsys.readouterr().err


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_query_that_is_no_text_is_wrong_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], errors: str
) -> None:
    given = io.TextIOWrapper(io.BytesIO(b"SELECT '\xff'"), encoding="utf-8", errors=errors)
    monkeypatch.setattr("sys.stdin", given)
    assert main(["query", "-", "--store", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("zenoh-reports: the query is not text (")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("DROP TABLE checks", "invalid query: it begins with DROP TABLE checks, not with SELECT"),
        (";", "the query is empty; the views are runs"),
        ("SELECT java_method('a', 'b')", "java_method calls Java methods"),
    ],
)
def test_query_that_does_more_than_read_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str, words: str
) -> None:
    # Where nothing could be opened either, that is told first.
    assert main(["query", sql, "--store", str(tmp_path / "none")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"zenoh-reports: {words}")


def test_store_that_is_not_there_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT 1", "--store", str(tmp_path / "none")]) == 2
    assert "is neither a store nor a folder of run folders" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--warm", "--remote=sc://127.0.0.1:1"])
def test_store_that_a_connect_server_cannot_read_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    Store(tmp_path / "s[1]:x", durable=False).create()
    for command in (["query", "SELECT 1"], ["build", "--out", str(tmp_path / "report")]):
        assert main([*command, "--store", str(tmp_path / "s[1]:x"), option]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "has a colon and one of" in line


def test_store_whose_path_is_no_text_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT 1", "--store", str(tmp_path / "\udcff")]) == 2
    assert "is not valid UTF-8" in capsys.readouterr().err


def test_folder_without_runs_is_data_trouble(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT 1", "--store", str(tmp_path)]) == 3
    assert "no run folder" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["0", "-1", "1000001", "many", "9" * 5000])
def test_limit_out_of_bounds_is_wrong_use(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["query", "SELECT 1", "--store", ".", "--limit", limit])
    assert ended.value.code == 2
    assert "is not a number from 1 to 1000000" in capsys.readouterr().err


@pytest.mark.usefixtures("spark")
def test_tables_that_a_query_names_say_how_much_it_reads(
    make_run: Callable[..., Path], verdict_row: Callable[..., rows.VerdictRow], tmp_path: Path
) -> None:
    for name in ("r1", "r2"):
        make_run(name, verdicts=[verdict_row()])
    store = tmp_path / "store"
    assert main(["ingest", str(tmp_path / "runs"), "--store", str(store)]) == 0
    files = [*(store / "rollups" / "checks").rglob("*.parquet")]
    assert len(files) == 2
    assert size_of(Store(str(store)), ["checks"]) == LINES_OF_PARQUET * sum(
        one.stat().st_size for one in files
    )
    assert size_of(Store(str(store)), ["cases"]) == 0


@pytest.mark.parametrize("content", [None, b"PAR1 no more than this PAR1"])
@pytest.mark.usefixtures("spark")
def test_store_that_lacks_a_file_is_data_trouble(
    make_run: Callable[..., Path],
    verdict_row: Callable[..., rows.VerdictRow],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
) -> None:
    make_run("r1", verdicts=[verdict_row()])
    store = str(tmp_path / "store")
    assert main(["ingest", str(tmp_path / "runs"), "--store", store]) == 0
    (path,) = (tmp_path / "store" / "rollups" / "checks").rglob("*.parquet")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    capsys.readouterr()
    asked = (["query", "SELECT test FROM checks"], ["build", "--out", str(tmp_path / "out")])
    for arguments in asked:
        assert main([*arguments, "--store", store]) == 3
        told = capsys.readouterr().err.splitlines()[-1]
        assert told.startswith("zenoh-reports: a file of the store's table checks is missing or damaged: ")
        assert str(path) in told
        assert told.endswith(
            "; `zenoh-reports store check` may say which; docs/store.md says how to take its run in again"
        )


@pytest.mark.usefixtures("spark")
def test_query_over_run_folders_answers_in_json(
    make_run: Callable[..., Path],
    verdict_row: Callable[..., rows.VerdictRow],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_run("r1", verdicts=[verdict_row("fail", seen="\x1b[31m"), verdict_row("pass", test="b")])
    sql = "SELECT run_id, seen FROM checks WHERE outcome = 'fail'"
    assert main(["query", sql, "--store", str(tmp_path), "--format", "json", "--limit", "1"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out) == [{"run_id": "r1", "seen": "\x1b[31m"}]
    assert "\x1b" not in out
