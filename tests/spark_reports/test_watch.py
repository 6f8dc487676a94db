"""Runs while they go on: every line counted once, also by a watch that was ended in the middle of a batch."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from unittest.mock import create_autospec

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_reports import rows
from spark_reports.__main__ import main
from spark_reports.errors import EngineFailed, WrongUse
from spark_reports.following import watch
from spark_reports.following.stream import SCHEMA
from spark_reports.following.tally import Group, Tally
from spark_reports.following.watch import Plan
from tests.spark_reports.frames import local_frame

CaseRow = Callable[..., rows.FuzzCaseRow]


def _write(root: Path, cases: list[rows.FuzzCaseRow], run: str = "r1", *, end: bytes = b"") -> None:
    path = root / run / rows.FUZZ_CASES
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(rows.to_json(case).encode() + b"\n" for case in cases) + end)


def _count(counted: Tally) -> dict[str, int]:
    return {Path(folder).name: run.lines() for folder, run in counted.runs.items()}


def test_lines_that_are_alike_become_one_group(spark: SparkSession) -> None:
    common = ("r1", rows.FUZZ_CASES, "good", "handshake")
    events = local_frame(
        spark,
        [
            (*common, "finding", "hang", "", "second", 20, 2),
            (*common, "finding", "hang", "", "first", 10, 1),
            (*common, "closed", "", "", "", 30, 3),
        ],
        SCHEMA,
    )
    found = {Group(**row.asDict()) for row in watch.groups(events).collect()}
    of_run = {"folder": "r1", "file": rows.FUZZ_CASES, "kind": "good", "campaign": "handshake"}
    assert found == {
        Group(
            **of_run,
            outcome="finding",
            bucket="hang",
            lines=2,
            first_ns=10,
            last_ns=20,
            case=1,
            text="first",
        ),
        Group(**of_run, outcome="closed", lines=1, first_ns=30, last_ns=30, case=3),
    }


def test_watch_that_was_ended_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, case_row: CaseRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    plan = Plan(roots=[runs], checkpoint=tmp_path / "checkpoint", once=True)
    _write(runs, [case_row(at) for at in range(1, 4)], end=b'{"half')

    # Ended when the batch was counted and Spark had not taken note of it yet.
    def cut(_: threading.Event) -> None:
        raise KeyboardInterrupt

    counted = watch.begin(plan)
    with monkeypatch.context() as patch:
        patch.setattr(watch, "_acknowledge", cut)
        with pytest.raises(KeyboardInterrupt):
            list(watch.follow(spark, plan, counted))
    assert _count(watch.begin(plan)) == {"r1": 3}

    # The same batch comes again, with what has come since in the next one.
    _write(runs, [], end=b' a line"}\n')
    _write(runs, [case_row(at) for at in range(4, 6)])
    _write(runs, [case_row(1)], "r2")
    counted = watch.begin(plan)
    assert [news for news in watch.follow(spark, plan, counted) if news is not None]
    assert _count(counted) == {"r1": 6, "r2": 1}
    assert counted.runs[str(runs / "r1")].files[rows.FUZZ_CASES] == {
        "good": 5,
        "apart": 1,
        "blank": 0,
        "footers": 0,
    }
    assert _count(watch.begin(plan)) == _count(counted)


def test_watch_that_was_killed_before_its_first_batch_goes_on(
    spark: SparkSession, tmp_path: Path, case_row: CaseRow
) -> None:
    """Spark begins no query where something is left of another."""
    runs = tmp_path / "runs"
    _write(runs, [case_row(1)])
    # What there is then: the number of the query, folders, and what was to become the end of the batch.
    left = tmp_path / "left"
    for name in ("offsets", "commits"):
        (left / "spark" / name).mkdir(parents=True)
    (left / "spark" / "metadata").write_text('{"id":"0d2f4f5e-6f0c-4a3c-9a43-2b1f6a4c7d10"}')
    (left / "spark" / "offsets" / ".0.52ef94f8-85da-4730-9ac5-bc3b96ad404e.tmp").write_bytes(b"v1")
    plan = Plan(roots=[runs], checkpoint=left, once=True)
    counted = watch.begin(plan)
    list(watch.follow(spark, plan, counted))
    assert _count(counted) == {"r1": 1}


_LATE = EngineFailed(
    "Spark gave up: [STREAM_FAILED] Query [...]: Python worker failed to connect back. SQLSTATE: XXKST"
)


def test_watch_begins_again_where_spark_did_not_wait_for_its_python(
    spark: SparkSession, tmp_path: Path, case_row: CaseRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, [case_row(1)])
    plan = Plan(roots=[tmp_path], checkpoint=tmp_path / "checkpoint", once=True)
    wait = watch._wait
    late: list[StreamingQuery] = []

    def wait_too_short(query: StreamingQuery, inbox: watch._Inbox) -> None:
        late.append(query)
        if len(late) == 1:
            query.stop()
            inbox.put(watch._Ended(_LATE))
        else:
            wait(query, inbox)

    monkeypatch.setattr(watch, "_wait", wait_too_short)
    told: list[str] = []
    counted = watch.begin(plan)
    list(watch.follow(spark, plan, counted, told.append))
    assert _count(counted) == {"r1": 1}
    # More often, where the machine is.
    assert set(told) == {"the machine is very busy: Spark's Python did not start in time; trying again"}


@pytest.mark.parametrize(("error", "begun"), [(_LATE, watch.TRIES), (EngineFailed("no such table"), 1)])
def test_watch_gives_up_where_spark_never_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: EngineFailed, begun: int
) -> None:
    starts: list[watch._Ended] = []

    @contextmanager
    def query(*_: object) -> Iterator[tuple[watch._Inbox, Callable[[], None]]]:
        inbox: watch._Inbox = SimpleQueue()

        def start() -> None:
            starts.append(watch._Ended(error))
            inbox.put(starts[-1])

        yield inbox, start

    monkeypatch.setattr(watch, "_query", query)
    plan = Plan(roots=[tmp_path], checkpoint=tmp_path / "checkpoint")
    with pytest.raises(EngineFailed, match=str(error)[-20:]):
        list(watch.follow(create_autospec(SparkSession), plan, watch.begin(plan)))
    assert len(starts) == begun


def test_watch_hears_that_java_is_gone() -> None:
    query = create_autospec(StreamingQuery)
    query.awaitTermination.side_effect = ConnectionRefusedError(111, "Connection refused")
    inbox: watch._Inbox = SimpleQueue()
    watch._wait(query, inbox)
    ended = inbox.get_nowait()
    assert isinstance(ended, watch._Ended)
    assert "Connection refused" in str(ended.error)


def test_what_spark_says_first_is_told_where_nobody_threw_anything() -> None:
    error = PySparkException("[STREAM_FAILED] the reason\n=== Streaming Query ===\n+- ~Plan zenoh_events")
    assert str(watch._failed(error)) == "Spark gave up: [STREAM_FAILED] the reason"


@pytest.mark.usefixtures("spark")
def test_what_came_while_nobody_watched_is_told(
    tmp_path: Path, make_run: Callable[..., Path], case_row: CaseRow, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run("r1", cases=[case_row(1, "hang")], ended_at="2026-11-01T10:00:00.000Z")
    watching = ["watch", str(tmp_path / "runs"), "--once", "--checkpoint", str(tmp_path / "checkpoint")]
    assert main(watching) == 0
    first = capsys.readouterr().out.splitlines()
    assert first[0] == "1 run ended before: 1 row, 1 bucket not seen in older runs"
    make_run("r2", cases=[case_row(1, "panic")], ended_at=rows.utc_now())
    assert main(watching) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("r2 eclipse-zenoh")
    assert any(line.startswith("new bucket: panic (") for line in told)


def test_watch_ends_when_no_line_comes_any_more(
    spark: SparkSession, tmp_path: Path, case_row: CaseRow
) -> None:
    plan = Plan(roots=[tmp_path], checkpoint=tmp_path / "checkpoint", every_s=0.1, idle_s=0.1)
    counted = watch.begin(plan)
    _write(tmp_path, [case_row(1)])
    told = 0
    for news in watch.follow(spark, plan, counted):
        if news is not None and not told:
            # A run that begins while the watch goes on.
            _write(tmp_path, [case_row(1), case_row(2)], "r2")
            told += 1
    assert _count(counted) == {"r1": 1, "r2": 2}
    assert not spark.streams.active


def test_whoever_watches_hears_that_nothing_was_found(
    spark: SparkSession, tmp_path: Path, case_row: CaseRow
) -> None:
    plan = Plan(roots=[tmp_path], checkpoint=tmp_path / "checkpoint", every_s=0.1, idle_s=30)
    _write(tmp_path, [case_row(1)])
    following = watch.follow(spark, plan, watch.begin(plan))
    heard = [next(following) for _ in range(3)]
    following.close()
    # Otherwise the end of a run is told behind the next line of another one, or never.
    assert [news is None for news in heard] == [False, True, True]


@pytest.mark.usefixtures("spark")
def test_command_tells_what_is_there_and_ends(
    tmp_path: Path, case_row: CaseRow, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, [case_row(1, "hang INIT", verdict="finding", oracle="alive")])
    assert main(["watch", str(tmp_path), "--once"]) == 0
    told = capsys.readouterr()
    assert "no run folder" not in told.err
    lines = told.out.splitlines()
    assert lines[0] == "r1 node not known yet"
    assert lines[-2].startswith("new bucket: hang INIT (handshake, case 1 of r1)")
    assert lines[-1] == "1 run: 1 line = 1 rows; 1 bucket"


@pytest.mark.usefixtures("spark")
def test_command_tells_where_there_is_no_run_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path), "--once"]) == 0
    told = capsys.readouterr()
    assert told.err.splitlines()[-1] == f"no run folder in {tmp_path} yet"
    assert told.out == "0 runs: 0 lines; 0 buckets\n"


def test_runs_of_one_name_in_two_places_are_two(
    spark: SparkSession, tmp_path: Path, case_row: CaseRow
) -> None:
    root = tmp_path / "two\nlines"
    for number, place in enumerate(("monday", "tuesday"), 1):
        (root / place).mkdir(parents=True)
        _write(root / place, [case_row(at) for at in range(number)])
    plan = Plan(roots=[root], checkpoint=tmp_path / "checkpoint", once=True)
    counted = watch.begin(plan)
    list(watch.follow(spark, plan, counted))
    found = {Path(folder).parent.name: run.lines() for folder, run in counted.runs.items()}
    assert found == {"monday": 1, "tuesday": 2}


def test_reader_that_fails_ends_the_watch_with_the_reason(
    spark: SparkSession, tmp_path: Path, case_row: CaseRow
) -> None:
    _write(tmp_path, [case_row(1)])
    plan = Plan(roots=[tmp_path], checkpoint=tmp_path / "checkpoint", once=True)
    (tmp_path / "checkpoint" / "spark" / "offsets").mkdir(parents=True)
    for name in ("metadata", "offsets/0"):
        (tmp_path / "checkpoint" / "spark" / name).write_text("no checkpoint")
    with pytest.raises(EngineFailed, match=r"Spark gave up: .*no"):
        list(watch.follow(spark, plan, watch.begin(plan)))


def test_folder_that_is_not_there_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path / "none"), "--once"]) == 2
    assert "none does not exist" in capsys.readouterr().err


def test_checkpoint_that_cannot_be_written_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WrongUse, match="cannot be used as a checkpoint"):
        watch.begin(Plan(roots=[tmp_path], checkpoint=tmp_path / "file"))


@pytest.mark.parametrize("text", ["1 / 0", "0s", "soon"])
def test_times_that_are_none_are_wrong_use(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["watch", ".", "--until-idle", text])
    assert ended.value.code == 2
    assert "is not a time of at least 1ms" in capsys.readouterr().err
