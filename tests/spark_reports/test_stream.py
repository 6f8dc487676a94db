"""Following files that grow: whole lines only, each once, whatever happens to the files meanwhile."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from spark_reports import rows
from spark_reports.following import stream as module
from spark_reports.following.stream import (
    FOLLOWED,
    EventStream,
    Offsets,
    advance,
    blocks,
    events,
    pieces,
    scan,
)


def _file(tmp_path: Path, content: bytes, run: str = "r1", name: str = rows.FUZZ_CASES) -> Path:
    path = tmp_path / run / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def _take(start: Offsets, end: Offsets, task_bytes: int = 1 << 20) -> bytes:
    found = [blocks(piece.ranges) for piece in pieces(start, end, task_bytes)]
    return b"".join(block for one in found for _, block in one)


def test_linked_runs_are_found_once_and_pipes_are_passed_over(tmp_path: Path) -> None:
    path = _file(tmp_path, b"one\n")
    (tmp_path / "a-link").symlink_to(path.parent)
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(path.with_name(rows.VERDICTS))
    found = scan([str(tmp_path)])
    assert found == [str(path), str(path.with_name(rows.VERDICTS))]
    assert _take({}, advance({}, found, None)) == b"one\n"


def test_half_a_line_is_left_until_it_is_whole(tmp_path: Path) -> None:
    path = _file(tmp_path, b"one\ntw")
    first = advance({}, [str(path)], None)
    assert _take({}, first) == b"one\n"
    assert advance(first, [str(path)], None) == first
    with path.open("ab") as file:
        file.write(b"o\nthree")
    second = advance(first, [str(path)], None)
    assert _take(first, second) == b"two\n"


def test_every_cut_of_a_file_gives_each_line_once(tmp_path: Path) -> None:
    whole = b"one\n\ntwo\n\nthree three three\n"
    for cut in range(len(whole) + 1):
        path = _file(tmp_path, whole[:cut])
        first = advance({}, [str(path)], None)
        with path.open("ab") as file:
            file.write(whole[cut:])
        second = advance(first, [str(path)], None)
        assert _take({}, first) + _take(first, second) == whole, cut


@pytest.mark.parametrize("budget", [1, 4, 7, 100])
def test_budget_is_kept_to_whole_lines_and_makes_headway(tmp_path: Path, budget: int) -> None:
    whole = b"one\ntwo\na much longer line than any budget here\nthree\n"
    paths = [str(_file(tmp_path, whole, run)) for run in ("r1", "r2")]
    seen, offsets = dict.fromkeys(paths, b""), Offsets()
    while True:
        reached = advance(offsets, paths, budget)
        if reached == offsets:
            break
        taken = 0
        for piece in pieces(offsets, reached):
            for path, block in blocks(piece.ranges):
                seen[str(path)] += block
                taken += len(block)
        assert taken <= budget + len(b"a much longer line than any budget here\n")
        offsets = reached
    assert seen == dict.fromkeys(paths, whole)


def test_parts_of_a_large_file_are_cut_between_lines(tmp_path: Path) -> None:
    lines = [b"%d\n" % (7**at) for at in range(40)]
    path = _file(tmp_path, b"".join(lines))
    end = advance({}, [str(path)], None)
    cut = pieces({}, end, 50)
    assert len(cut) > 5
    for piece in cut:
        text = b"".join(block for _, block in blocks(piece.ranges))
        assert text.endswith(b"\n")
        assert len(text) <= 50 + max(map(len, lines))
    assert _take({}, end, 50) == b"".join(lines)


def test_part_that_is_read_in_several_goes_gives_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_BYTES", 10)
    whole = b"".join(b"%d\n" % (7**at) for at in range(40))
    path = _file(tmp_path, whole + b"half")
    found = [block for _, block in blocks([(str(path), 0, len(whole))])]
    assert len(found) > 10
    assert all(block.endswith(b"\n") for block in found)
    assert b"".join(found) == whole


def test_offsets_are_in_order_because_they_are_compared_as_text(tmp_path: Path) -> None:
    paths = [str(_file(tmp_path, b"one\n", f"r{at}")) for at in range(3)]
    assert list(advance({}, paths[::-1], None)) == paths


def test_short_files_share_a_part(tmp_path: Path) -> None:
    paths = [str(_file(tmp_path, b"one\n", f"r{at}")) for at in range(30)]
    assert len(pieces({}, advance({}, paths, None))) == 1


@pytest.mark.parametrize("content", [b"6\n", b"six\nten\n", b"another file of some length\n"])
def test_file_that_takes_the_place_of_another_is_read_from_its_beginning(
    tmp_path: Path, content: bytes
) -> None:
    path = _file(tmp_path, b"one\ntwo\n")
    first = advance({}, [str(path)], None)
    other = tmp_path / "other"
    other.write_bytes(content)
    other.replace(path)
    assert _take(first, advance(first, [str(path)], None)) == content


def test_file_that_is_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = _file(tmp_path, b"one\ntwo\n")
    first = advance({}, [str(path)], None)
    os.truncate(path, 0)
    with path.open("ab") as file:
        file.write(b"3\n")
    assert _take(first, advance(first, [str(path)], None)) == b"3\n"


def test_half_a_line_that_is_taken_back_costs_nothing(tmp_path: Path) -> None:
    path = _file(tmp_path, b"one\nhal")
    first = advance({}, [str(path)], None)
    os.truncate(path, 4)
    with path.open("ab") as file:
        file.write(b"two\n")
    assert _take(first, advance(first, [str(path)], None)) == b"two\n"


def test_file_that_is_gone_has_no_lines(tmp_path: Path) -> None:
    path = _file(tmp_path, b"one\n")
    end = advance({}, [str(path)], None)
    path.unlink()
    assert advance(end, [str(path)], None) == end
    assert _take({}, end) == b""


def test_scan_finds_runs_at_any_depth_and_no_coverage(tmp_path: Path) -> None:
    for run in ("a", "deep/b"):
        for name in rows.type_of_file:
            path = tmp_path / run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    (tmp_path / "a" / "findings").mkdir()
    (tmp_path / "a" / "findings" / rows.VERDICTS).touch()
    found = [Path(path) for path in scan([str(tmp_path), str(tmp_path / "a")])]
    assert {path.parent.name for path in found} == {"a", "b"}
    assert sorted(path.name for path in found if path.parent.name == "b") == sorted(FOLLOWED)
    assert rows.FUZZ_COVERAGE not in FOLLOWED


def test_scan_of_a_folder_that_is_gone_is_empty(tmp_path: Path) -> None:
    assert scan([str(tmp_path / "none")]) == []


def _stream(tmp_path: Path, batch_bytes: int = 1 << 20) -> EventStream:
    return EventStream([str(tmp_path)], batch_bytes)


def _events(stream: EventStream, start: Offsets, end: Offsets) -> list[dict[str, object]]:
    batches: Sequence[pa.RecordBatch] = [
        batch for piece in stream.partitions(start, end) for batch in stream.read(piece)
    ]
    return [row for batch in batches for row in batch.to_pylist()]


def test_single_look_ends_where_files_ended_when_it_began(tmp_path: Path) -> None:
    path = _file(tmp_path, b"one\n")
    stream = _stream(tmp_path)
    stream.prepareForTriggerAvailableNow()
    with path.open("ab") as file:
        file.write(b"two\n")
    _file(tmp_path, b"later\n", "r2")
    reached = stream.latestOffset(stream.initialOffset(), ReadMaxBytes(1 << 20))
    assert list(reached) == [str(path)]
    assert reached[str(path)]["end"] == 4
    assert stream.latestOffset(reached, ReadMaxBytes(1 << 20)) == reached


def test_reading_all_that_is_there_knows_no_budget(tmp_path: Path) -> None:
    path = _file(tmp_path, b"one\n" * 100)
    stream = _stream(tmp_path, 8)
    assert stream.latestOffset({}, stream.getDefaultReadLimit())[str(path)]["end"] == 8
    assert stream.latestOffset({}, ReadAllAvailable())[str(path)]["end"] == 400


def test_event_says_what_each_line_is(
    tmp_path: Path, case_row: Callable[..., rows.FuzzCaseRow], verdict_row: Callable[..., rows.VerdictRow]
) -> None:
    good = rows.to_json(case_row(case=3, bucket="hang INIT", verdict="finding", detail="x" * 900)).encode()
    _file(tmp_path, good + b'\n\n[]\n{"footer":true,"rows":1,"rows_version":1}\n')
    bad = rows.to_json(verdict_row("fail", seen="CLOSE")).encode()
    fine = rows.to_json(verdict_row("pass", seen="as wanted")).encode()
    _file(tmp_path, bad + b"\n" + fine + b"\n", name=rows.VERDICTS)
    stream = _stream(tmp_path)
    found = _events(stream, {}, stream.latestOffset({}, ReadAllAvailable()))
    assert [(row["file"], row["kind"]) for row in found] == [
        (rows.FUZZ_CASES, "good"),
        (rows.FUZZ_CASES, "blank"),
        (rows.FUZZ_CASES, "footers"),
        (rows.FUZZ_CASES, "apart"),
        (rows.VERDICTS, "good"),
        (rows.VERDICTS, "good"),
    ]
    case, _, _, apart, failed, passed = found
    assert (Path(str(case["folder"])).name, case["bucket"], case["case"], case["outcome"]) == (
        "r1",
        "hang INIT",
        3,
        "finding",
    )
    assert case["text"] == "x" * 300
    assert apart["text"] == "not an object"
    assert (failed["test"], failed["text"], failed["outcome"]) == (
        "suite/test_init.py::test_a",
        "CLOSE",
        "fail",
    )
    assert (passed["test"], passed["text"]) == ("", "")


@pytest.mark.parametrize("name", FOLLOWED)
def test_every_followed_file_can_be_read(tmp_path: Path, name: str) -> None:
    path = _file(tmp_path, b"\n", name=name)
    assert [row for batch in events(path, b"\n{}\n") for row in batch.to_pylist() if row["kind"] == "blank"]
