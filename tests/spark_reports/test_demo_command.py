"""What demo refuses before it makes anything; that it finds all it planted: tests/benchmarks/bench_recall.py."""

from pathlib import Path

import pytest

from spark_reports.__main__ import main
from spark_reports.commands.demo import SHOWN, differences
from spark_reports.recall import Score
from spark_reports.synthetic import LEAST_RUNS


def test_folder_that_holds_something_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_too_few_runs_are_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path / "new"), "--runs", "7"]) == 2
    assert capsys.readouterr().err == (
        f"zenoh-reports: --runs: 7 is too few; at least {LEAST_RUNS} are needed\n"
    )
    assert not (tmp_path / "new").exists()
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    assert f"approximate number of runs, at least {LEAST_RUNS} (default: 300)" in " ".join(
        capsys.readouterr().out.split()
    )


def test_differences_are_named_and_many_are_cut() -> None:
    missed = tuple((f"t{at:02}", "tcp") for at in range(SHOWN + 3))
    lines = list(differences([Score("flaky", 30, 7, missed, (("x", "tls"),))]))
    assert lines[0] == "missed: flaky: t00, tcp"
    assert lines[SHOWN:] == ["missed: flaky: 3 more", "not planted: flaky: x, tls"]
