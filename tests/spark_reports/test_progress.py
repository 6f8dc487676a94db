import io
import threading

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_reports.engine import progress
from spark_reports.engine.progress import NO_WORKERS, QUIET_S, WORKERS_S, Bar, Patience, line, shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_line_fills_up() -> None:
    assert line(0, 4, 1.2) == "[........................] 0 of 4 tasks, 1 s"
    assert line(2, 4, 61) == "[############............] 2 of 4 tasks, 61 s"
    assert line(4, 4, 61).startswith("[########################]")


def test_bar_is_shown_after_a_moment_and_leaves_nothing() -> None:
    terminal, clock = Terminal(), Clock()
    bar = Bar(terminal, clock)
    bar.show(1, 4)
    assert not terminal.getvalue()
    clock.now = QUIET_S
    bar.show(2, 4)
    assert terminal.getvalue() == f"\r\x1b[K{line(2, 4, QUIET_S)}\r"
    bar.show(0, 0)
    assert terminal.getvalue().endswith("\r\r\x1b[K")
    shown_so_far = terminal.getvalue()
    bar.clear()
    assert terminal.getvalue() == shown_so_far


def test_next_piece_of_work_gets_a_moment_of_its_own() -> None:
    terminal, clock = Terminal(), Clock()
    bar = Bar(terminal, clock)
    bar.show(1, 4)
    bar.show(0, 0)
    clock.now = QUIET_S
    bar.show(1, 4)
    assert not terminal.getvalue()


def test_file_is_told_nothing() -> None:
    file, clock = io.StringIO(), Clock()
    bar = Bar(file, clock)
    bar.show(1, 4)
    clock.now = 60
    bar.show(2, 4)
    bar.clear()
    assert not file.getvalue()


def test_patience_ends_once_when_no_task_is_taken_up() -> None:
    clock = Clock()
    patience = Patience(clock)
    assert not patience.lost(4, 0)
    clock.now = WORKERS_S + 1
    assert patience.lost(4, 0)
    assert not patience.lost(4, 0)


@pytest.mark.parametrize(("tasks", "taken"), [(4, 1), (0, 0)])
def test_patience_begins_anew_when_work_is_taken_up_or_done(tasks: int, taken: int) -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.lost(4, 0)
    clock.now = WORKERS_S
    patience.lost(tasks, taken)
    clock.now = 2 * WORKERS_S - 1
    assert not patience.lost(4, 0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    monkeypatch.setattr(progress, "QUIET_S", 0.0)


@pytest.mark.usefixtures("quick")
def test_tasks_of_a_session_are_shown_while_they_run(spark: SparkSession) -> None:
    terminal = Terminal()
    with shown(spark, cluster=False, say=print, stream=terminal):
        # Some tenths of a second of work.
        spark.range(1_000_000).select(sf.sum(sf.hash("id"))).collect()
    assert "tasks, 0 s\r" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert "progress" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.usefixtures("quick")
def test_cluster_that_gives_no_workers_is_told_of(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Patience, "lost", lambda _, tasks, taken: tasks > 0 or taken > 0)
    said: list[str] = []
    with shown(spark, cluster=True, say=said.append, stream=io.StringIO()):
        spark.range(1_000_000).select(sf.sum(sf.hash("id"))).collect()
    assert set(said) == {NO_WORKERS}
