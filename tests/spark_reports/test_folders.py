import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_reports import folders, rows
from spark_reports.errors import WrongUse
from spark_reports.folders import Counted, find_run_folders, is_in, is_same, judge

MakeRun = Callable[..., Path]
Make = Callable[..., rows.VerdictRow]


def judge_one(path: Path, verdicts: int = 0, bad: int = 0) -> tuple[str, str]:
    (folder,) = find_run_folders([path])
    state, notes = judge(folder, {rows.VERDICTS: Counted(verdicts, bad)})
    return state, "; ".join(notes)


def test_runs_are_found_at_any_depth_in_order(tmp_path: Path, make_run: MakeRun) -> None:
    for name in ("b", "a", "deep/c"):
        make_run(name)
    (tmp_path / "runs" / "empty").mkdir()
    assert [folder.path.name for folder in find_run_folders([tmp_path])] == ["a", "b", "c"]


def test_folder_named_twice_is_found_once(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run("a")
    assert [folder.duplicate_of for folder in find_run_folders([tmp_path, run, run / ".." / "a"])] == [None]


def test_links_are_followed_once(tmp_path: Path, make_run: MakeRun) -> None:
    first, second = make_run("a"), make_run("deep/b")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "latest").symlink_to(first)
    (linked / "more").symlink_to(second.parent)
    (linked / "loop").symlink_to(linked)
    (linked / "up").symlink_to(tmp_path)
    (linked / "nowhere").symlink_to(tmp_path / "nothing")
    found = find_run_folders([linked])
    assert [(folder.path, folder.duplicate_of) for folder in found] == [(first, None), (second, None)]


@pytest.mark.parametrize("name", [rows.VERDICTS, rows.RUN])
def test_pipe_is_not_opened(make_run: MakeRun, name: str) -> None:
    run = make_run(kind="conformance", cases=None)
    (run / name).unlink()
    os.mkfifo(run / name)
    assert f"{name} cannot be opened (it is no regular file)" in judge_one(run)[1]


@pytest.mark.parametrize(("name", "what"), [("nowhere", "does not exist"), ("file", "is not a folder")])
def test_root_that_is_no_folder_is_wrong_use(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WrongUse, match=what):
        find_run_folders([tmp_path / name])


def test_whole_run_is_complete(make_run: MakeRun, verdict_row: Make) -> None:
    assert judge_one(make_run(verdicts=[verdict_row()]), 1) == (folders.COMPLETE, "")


def test_run_without_fuzzing_needs_no_fuzz_cases(make_run: MakeRun) -> None:
    assert judge_one(make_run(kind="conformance", cases=None)) == (folders.COMPLETE, "")


def test_missing_file_of_a_kind_is_seen(make_run: MakeRun) -> None:
    state, notes = judge_one(make_run(cases=None))
    assert state == folders.CUT_OFF
    assert "fuzz_cases.jsonl is missing" in notes


def test_run_that_failed_says_so(make_run: MakeRun) -> None:
    assert judge_one(make_run(status="failed")) == (folders.FAILED, "")


def test_run_without_an_end_is_running(make_run: MakeRun, verdict_row: Make) -> None:
    run = make_run(verdicts=[verdict_row()], status="running", ended_at=None)
    lines = (run / rows.VERDICTS).read_text().splitlines(keepends=True)
    (run / rows.VERDICTS).write_text(lines[0])
    assert judge_one(run, 1) == (folders.RUNNING, "")


def test_footer_that_counts_more_rows_than_there_are_is_seen(make_run: MakeRun, verdict_row: Make) -> None:
    run = make_run(verdicts=[verdict_row(), verdict_row()])
    lines = (run / rows.VERDICTS).read_text().splitlines(keepends=True)
    (run / rows.VERDICTS).write_text("".join(lines[1:]))
    state, notes = judge_one(run, 1)
    assert state == folders.CUT_OFF
    assert "verdicts.jsonl holds 1 rows, but its footer counts 2" in notes


def test_footer_without_a_number_of_rows_is_seen(make_run: MakeRun, verdict_row: Make) -> None:
    run = make_run(verdicts=[verdict_row()])
    path = run / rows.VERDICTS
    path.write_text(
        path.read_text().replace('"rows":1,', '"rows":1e0,').replace('"rows": 1,', '"rows": 1e0,')
    )
    state, notes = judge_one(run, 1)
    assert state == folders.CUT_OFF
    assert "verdicts.jsonl holds 1 rows, but its footer has no number of rows" in notes


def test_link_that_leads_nowhere_is_told(make_run: MakeRun, verdict_row: Make) -> None:
    run = make_run(verdicts=[verdict_row()])
    (run / rows.FINDINGS).symlink_to(run / "nothing")
    (folder,) = folders.find_run_folders([run])
    assert folder.locked == {rows.FINDINGS: "No such file or directory"}
    assert folders.judge(folder, {})[0] != folders.COMPLETE


def test_every_cut_of_the_last_line_is_seen(make_run: MakeRun, verdict_row: Make) -> None:
    run = make_run(verdicts=[verdict_row()])
    whole = (run / rows.VERDICTS).read_bytes()
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in range(start, len(whole) + 1):
        (run / rows.VERDICTS).write_bytes(whole[:end])
        read = rows.read_rows(run / rows.VERDICTS)
        state, _ = judge_one(run, len(read.rows), len(read.bad))
        # Without its line end alone the footer is still whole.
        assert (state == folders.COMPLETE) == read.complete == (end >= len(whole) - 1)


def test_last_line_longer_than_a_block_is_read_whole(make_run: MakeRun, verdict_row: Make) -> None:
    run = make_run(verdicts=[verdict_row(seen="x" * 300_000)])
    lines = (run / rows.VERDICTS).read_bytes().splitlines(keepends=True)
    (run / rows.VERDICTS).write_bytes(lines[0])
    (folder,) = find_run_folders([run])
    assert folder.files[rows.VERDICTS].end == "row"
    (run / rows.VERDICTS).write_bytes(lines[0][:-2])
    (folder,) = find_run_folders([run])
    assert folder.files[rows.VERDICTS].end == "cut"


@pytest.mark.parametrize("tail", [b"\n", b"\n \n\t\n", b"\r\n"])
def test_blank_lines_at_the_end_do_not_hide_the_footer(
    make_run: MakeRun, verdict_row: Make, tail: bytes
) -> None:
    run = make_run(verdicts=[verdict_row()])
    (run / rows.VERDICTS).write_bytes((run / rows.VERDICTS).read_bytes() + tail)
    assert judge_one(run, 1)[0] == folders.COMPLETE


def test_empty_file_has_no_footer(make_run: MakeRun) -> None:
    run = make_run()
    (run / rows.VERDICTS).write_bytes(b"")
    assert judge_one(run) == (
        folders.CUT_OFF,
        "verdicts.jsonl has no footer, so rows may be missing at its end",
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seed": 1 << 64}, "seed does not fit into 64 bits"),
        ({"seed": True}, "seed is of the wrong type"),
        ({"node": None}, "node is of the wrong type"),
        ({"rows_version": 99}, "newer than"),
        ({"started_at": ""}, "started_at is not a time ('')"),
        ({"started_at": "yesterday"}, "started_at is not a time ('yesterday'); write it as 2026-12-31T23:59"),
        ({"started_at": "2026-11-01T10:00:00.000"}, "started_at is not a time"),
        # A time, but one that sorts behind all others of that year as a text.
        ({"started_at": "2026-W05-4T10:00:00.000Z"}, "started_at is not a time"),
        ({"started_at": "2026-11-01T10Z"}, "started_at is not a time"),
    ],
)
def test_run_json_that_is_no_run_row_is_unreadable(
    make_run: MakeRun, change: dict[str, object], why: str
) -> None:
    run = make_run()
    value = json.loads((run / rows.RUN).read_text())
    (run / rows.RUN).write_text(json.dumps(value | change))
    state, notes = judge_one(run)
    assert state == folders.UNREADABLE
    assert why in notes


def began(path: Path) -> str:
    (folder,) = find_run_folders([path])
    assert folder.problem
    return folder.run.started_at


def test_time_of_a_run_whose_run_json_is_damaged_is_what_the_folder_tells(
    make_run: MakeRun, verdict_row: Make
) -> None:
    named = make_run("20261107T081500Z-conformance-1a2b3c4d")
    (named / rows.RUN).write_text("{")
    assert began(named) == "2026-11-07T08:15:00.000Z"
    cut = make_run("cut", 3)
    (cut / rows.RUN).write_bytes((cut / rows.RUN).read_bytes()[:-40])
    assert began(cut) == "2026-11-03T10:00:00.000Z"
    moment = 1_793_700_000 * 10**9
    lost = make_run(
        "lost", verdicts=[verdict_row(started_ns=moment), verdict_row(started_ns=moment + 10**12)]
    )
    (lost / rows.RUN).unlink()
    assert began(lost) == "2026-11-03T10:00:00.000Z"
    (cut / rows.RUN).write_text('{"started_at": "2026-11-03T01:30:00+02:00", "ended')
    assert began(cut) == "2026-11-02T23:30:00.000Z"
    unknown = make_run("20269999T081500Z-x", verdicts=[verdict_row(started_ns=1)])
    (unknown / rows.RUN).write_text('{"started_at": "yesterday"')
    assert began(unknown) == ""


def test_rows_without_run_json_stay_in_use(make_run: MakeRun, verdict_row: Make) -> None:
    run = make_run(verdicts=[verdict_row()])
    (run / rows.RUN).unlink()
    (folder,) = find_run_folders([run])
    assert judge(folder, {rows.VERDICTS: Counted(1, 0)})[0] == folders.UNREADABLE
    assert (folder.run.run_id, folder.run.node_version) == ("r1", "unknown")
    assert rows.VERDICTS in folder.files


def test_file_that_cannot_be_opened_is_told(make_run: MakeRun) -> None:
    run = make_run()
    (run / rows.VERDICTS).unlink()
    (run / rows.VERDICTS).mkdir()
    state, notes = judge_one(run)
    assert state == folders.CUT_OFF
    assert "verdicts.jsonl cannot be opened (Is a directory)" in notes


def test_copy_of_a_run_is_marked_and_not_counted(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run("a")
    copy = make_run("b")
    rows.write_run(copy, dataclasses.replace(rows.read_run(run)))
    first, second = find_run_folders([tmp_path])
    assert (first.duplicate_of, second.duplicate_of) == (None, run)
    assert judge(second, {})[0] == folders.DUPLICATE


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_copy_that_was_made_before_the_run_went_on_is_the_copy(
    tmp_path: Path, make_run: MakeRun, case_row: Callable[..., rows.FuzzCaseRow], names: str
) -> None:
    early, late = (
        make_run(name, cases=[case_row(number) for number in range(cases)])
        for name, cases in zip(names, (5, 50), strict=True)
    )
    # They are copies of one run.
    rows.write_run(late, rows.read_run(early))
    found = {folder.path: folder.duplicate_of for folder in find_run_folders([tmp_path])}
    assert found == {early: late, late: None}


OTHERS: list[dict[str, object]] = [
    {"run_id": "20261102T100000Z-b", "started_at": "2026-11-02T10:00:00.000Z"},
    {"started_at": "2026-11-01T10:00:00.001Z"},
    {"node_version": "1.11.0"},
    {"node": "tcp/10.0.0.2:7447"},
]


def elsewhere(make_run_in: MakeRun, root: Path, **values: object) -> Path:
    """Writes a run into a folder called run1 below ``root``."""
    folder = make_run_in(root, "run1", cases=None)
    rows.write_run(folder, dataclasses.replace(rows.read_run(folder), **values))  # type: ignore[arg-type]
    return folder


@pytest.mark.parametrize("values", OTHERS)
def test_other_run_in_a_folder_of_the_same_name_counts(
    tmp_path: Path, make_run_in: MakeRun, values: dict[str, object]
) -> None:
    first = elsewhere(make_run_in, tmp_path / "z")
    second = elsewhere(make_run_in, tmp_path / "a", **values)
    copy = elsewhere(make_run_in, tmp_path / "c", **values)
    found = {folder.path: folder for folder in find_run_folders([tmp_path])}
    assert {path: folder.duplicate_of for path, folder in found.items()} == {
        first: None,
        second: None,
        copy: second,
    }
    names = {found[path].run.run_id for path in (first, second)}
    assert len(names) == 2
    assert "run1" in names
    assert all(name.startswith("run1") for name in names)
    assert find_run_folders([tmp_path / "z", tmp_path / "c", tmp_path / "a"]) == list(found.values())


def test_run_that_did_not_know_its_node_yet_is_the_same(tmp_path: Path, make_run_in: MakeRun) -> None:
    elsewhere(
        make_run_in, tmp_path / "a", status="running", ended_at=None, node_version="", node_impl="unknown"
    )
    whole = elsewhere(make_run_in, tmp_path / "b")
    assert [folder.duplicate_of for folder in find_run_folders([tmp_path])] == [
        None,
        whole.parents[1] / "a/run1",
    ]


@pytest.mark.parametrize(("left", "same"), [(200, True), (0, True), (-1, False)])
def test_damaged_copy_is_the_copy_and_other_damaged_run_is_none(
    tmp_path: Path, make_run_in: MakeRun, left: int, same: bool
) -> None:
    damaged = elsewhere(make_run_in, tmp_path / "a")
    whole = elsewhere(make_run_in, tmp_path / "b")
    text = (damaged / rows.RUN).read_text()
    if left < 0:
        text, left = text.replace("2026-11-01", "2026-11-07"), 200
    (damaged / rows.RUN).write_text(text[:left])
    first, second = find_run_folders([tmp_path])
    assert (first.path, first.duplicate_of) == (damaged, whole if same else None)
    assert second.duplicate_of is None
    assert (first.run.run_id == "run1") is same


@pytest.mark.parametrize(("end", "what"), [(b"", "cut"), (b"\n", "row")])
def test_last_line_of_gigabytes_is_not_read_whole(
    tmp_path: Path, make_run: MakeRun, end: bytes, what: str
) -> None:
    path = make_run("a", cases=None) / rows.VERDICTS
    with path.open("r+b") as file:
        # Takes no room on the disk, and would take all of the memory.
        file.truncate(1 << 36)
        file.seek(0, 2)
        file.write(end)
    (folder,) = find_run_folders([tmp_path])
    assert folder.files[rows.VERDICTS].end == what


def test_run_json_of_gigabytes_is_unreadable(tmp_path: Path, make_run: MakeRun) -> None:
    with (make_run("a") / rows.RUN).open("r+b") as file:
        file.truncate(1 << 36)
    assert "larger than 16 MiB" in judge_one(tmp_path)[1]


def test_same_run_whose_times_are_spelled_otherwise_is_a_copy(tmp_path: Path, make_run_in: MakeRun) -> None:
    elsewhere(make_run_in, tmp_path / "a")
    copy = elsewhere(
        make_run_in,
        tmp_path / "b",
        started_at="2026-11-01T12:00:00+02:00",
        ended_at="2026-11-01T12:05:00+02:00",
    )
    first, second = find_run_folders([tmp_path])
    assert (first.duplicate_of, second.duplicate_of, second.path) == (None, first.path, copy)
    assert (second.run.started_at, second.run.ended_at) == (first.run.started_at, first.run.ended_at)


def test_times_are_the_same_however_a_store_spelled_them() -> None:
    before = {"started_at": "2026-11-01T10:00:00Z", "node": "pypi"}
    now = {"started_at": "2026-11-01T10:00:00.000Z", "node": "pypi"}
    assert is_same(now, before, readable=True)
    assert not is_same(now, before | {"started_at": "2026-11-01T10:00:01Z"}, readable=True)


def test_run_is_not_in_a_folder_that_there_cannot_be(make_run: MakeRun) -> None:
    folder = make_run("a")
    run = dataclasses.asdict(rows.read_run(folder))
    assert is_in(str(folder), run)
    for name in ("", "\0", "x" * 5000, str(folder / "b"), str(folder / rows.RUN)):
        assert not is_in(name, run)
