from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spark_reports.__main__ import main
from spark_reports.commands import warmup
from spark_reports.engine import session, training
from spark_reports.engine.java import Java

Capture = pytest.CaptureFixture[str]


class Engine:
    """Stands for the Spark that writes an archive as it ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.starts = 0
        self.content: bytes | None = b"classes"
        monkeypatch.setattr(session, "spark_session", self._session)
        monkeypatch.setattr(training, "run", lambda *_: None)
        monkeypatch.setattr(warmup, "find_java", lambda _: Java(Path("/bin/sh"), 17, "PATH", None))

    @contextmanager
    def _session(self, *_: object, make_archive: Path) -> Iterator[None]:
        self.starts += 1
        yield
        if self.content is not None:
            make_archive.write_bytes(self.content)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return Engine(monkeypatch)


def test_archive_is_made_once(engine: Engine, capsys: Capture) -> None:
    assert main(["warmup"]) == 0
    made = Path(capsys.readouterr().out.partition(": ")[0])
    assert made.read_bytes() == b"classes"
    assert main(["warmup"]) == 0
    assert capsys.readouterr().out == f"{made} already exists\n"
    assert engine.starts == 1
    assert main(["warmup", "--again"]) == 0
    assert engine.starts == 2


def test_java_that_writes_no_archive_is_one_line(engine: Engine, capsys: Capture) -> None:
    engine.content = None
    assert main(["warmup"]) == 4
    assert "zenoh-reports: no archive was written" in capsys.readouterr().err.splitlines()[-1]


def test_without_a_cache_folder_there_is_no_place(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert main(["warmup"]) == 4
    assert "XDG_CACHE_HOME" in capsys.readouterr().err
    assert engine.starts == 0


@pytest.mark.usefixtures("engine")
def test_server_that_does_not_run_is_not_stopped(capsys: Capture) -> None:
    assert main(["warmup", "--stop"]) == 0
    assert capsys.readouterr().out == "no warm server is running\n"


def test_training_has_a_little_of_everything(spark: Any, tmp_path: Path) -> None:
    report = training.run(spark, tmp_path)
    assert len(report.runs) == training.RUNS
    assert not any(account.apart for account in report.accounts)
    assert report.changes
    assert report.findings
