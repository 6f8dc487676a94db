from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_reports import rows
from spark_reports.__main__ import main
from spark_reports.commands import ingest
from spark_reports.storage.store import Store

MakeRun = Callable[..., Path]
Row = Callable[..., Any]
Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("spark")


def test_runs_are_taken_in_and_their_lines_accounted_for(
    tmp_path: Path, make_run: MakeRun, verdict_row: Row, capsys: Capture
) -> None:
    run = make_run("r1", verdicts=[verdict_row(), verdict_row(test="b")], cases=None)
    (run / rows.VERDICTS).write_bytes((run / rows.VERDICTS).read_bytes()[:-60])
    store = tmp_path / "store"
    command = ["ingest", str(tmp_path / "runs"), "--store", str(store)]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "2 lines in = 1 good + 1 set aside + 0 blank + 0 footers",
        f"1 ingested: {store}",
    ]
    assert "ingesting 1 run" in printed.err
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[1] == f"0 ingested, 1 already in the store: {store}"
    assert len(Store(store).history()) == 1


def test_too_many_lines_kept_apart_are_data_trouble(
    tmp_path: Path, make_run: MakeRun, verdict_row: Row, capsys: Capture
) -> None:
    run = make_run("r1", verdicts=[verdict_row()], cases=None)
    with (run / rows.VERDICTS).open("a") as file:
        file.write("rubbish\n" * (ingest.FEW_APART + 1))
    command = ["ingest", str(run), "--store", str(tmp_path / "store")]
    assert main(command) == 3
    told = capsys.readouterr().err
    assert "11 of 12 lines are invalid, more than 1 %" in told
    assert f"`zenoh-reports query 'FROM apart' --store {tmp_path / 'store'}` shows them" in told
    assert [commit.rows("verdicts") for commit in Store(tmp_path / "store").commits()] == [1]
    # What is there already is not judged again.
    assert main(command) == 0
    assert main(["ingest", str(run), "--store", str(tmp_path / "other"), "--max-apart", "95"]) == 0


def test_folder_that_holds_something_else_is_no_store(
    tmp_path: Path, make_run: MakeRun, verdict_row: Row, capsys: Capture
) -> None:
    run = make_run("r1", verdicts=[verdict_row()], cases=None)
    assert main(["ingest", str(run), "--store", str(tmp_path)]) == 2
    assert "is not a store" in capsys.readouterr().err


@pytest.mark.parametrize("percent", ["-1", "101", "many", "nan"])
def test_percentage_is_one(percent: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["ingest", "runs", "--store", "s", "--max-apart", percent])
    assert "is not a percentage from 0 to 100" in capsys.readouterr().err
