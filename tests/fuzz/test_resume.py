from __future__ import annotations

import itertools
import multiprocessing
import platform
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageError
from conformance.recorder import NodeFacts, open_run
from fuzz.campaigns import Campaign, Setting
from fuzz.cases import Fixed, send
from fuzz.plan import Done, Numbered, Plan, mine
from fuzz.recorder import Recorder
from fuzz.resume import (
    CUT_LINES,
    JOBS,
    POSTPONED,
    Numbers,
    check_fresh,
    check_numbers,
    check_same,
    complete,
    cut_end,
    earlier,
    findings_before,
    jobs_of_run,
    locked,
    mend,
    postpone,
    share,
)
from fuzz.states import State
from scapy_layers.commands.terminal import installed_version
from spark_reports.rows import FINDINGS, FUZZ_CASES, FindingRow, read_rows, to_json
from tests.fuzz.test_recorder import config_in, rows_in, write


def recorded(folder: Path, *numbers: int, job: int = 0, campaign: str = "pushes", seed: int = 7) -> Path:
    """Writes rows as a run does that was killed behind them."""
    with Recorder(config_in(folder, seed), job=job) as recorder:
        for number in numbers:
            write(recorder, number)
    if campaign != "pushes":
        path = folder / FUZZ_CASES
        path.write_text(path.read_text().replace('"pushes"', f'"{campaign}"'))
    return folder


def finding(bucket: str = "crash PUSH", **values: Any) -> FindingRow:
    usual: dict[str, Any] = {
        "run_id": "run", "bucket": bucket, "time_ns": 1, "status": "confirmed", "fails": True, "harm": "crash",
        "oracle": "process", "state": "open", "message": "PUSH", "field": "PUSH.N", "detail": "it died",
        "campaign": "pushes", "case": 4, "hits": 1, "left_out": 0, "tries": 3, "confirmed": 3, "messages": 1,
        "size": 9, "known": "", "folder": "findings/crash-push", "engine": "fast", "seed": 7, "job": 0, "part": 0,
        "node_impl": "fake", "node_version": "1",
    }  # fmt: skip
    return FindingRow(**{**usual, **values})


# Whole files ------------------------------------------------------------------------------------------


def test_file_cut_at_any_byte_is_mended_and_loses_no_whole_row(tmp_path: Path) -> None:
    whole = (recorded(tmp_path / "whole", 1, 2, 3) / FUZZ_CASES).read_bytes()
    last = len(whole.rstrip(b"\n").rpartition(b"\n")[0]) + 1
    for end in [last - 1, last, last + 1, last + 60, len(whole) - 2, len(whole) - 1, len(whole)]:
        folder = tmp_path / f"cut{end}"
        path = config_in(folder).run_dir / FUZZ_CASES
        path.write_bytes(whole[:end])
        lost = mend(folder)
        rows = rows_in(config_in(folder))
        ends = whole[:end].count(b"\n") + (end == len(whole) - 1) + (end == last - 1)
        assert [row["case"] for row in rows] == list(range(1, ends + 1))
        apart = (folder / CUT_LINES).read_bytes() if (folder / CUT_LINES).exists() else b""
        assert bool(apart) == bool(lost)
        if lost:
            assert apart == b"fuzz_cases.jsonl: " + whole[last:end] + b"\n"
        with Recorder(config_in(folder)) as recorder:
            write(recorder, 9)
        complete(folder)
        found = read_rows(path)
        assert (found.complete, found.bad, found.rows[-1]["case"]) == (True, [], 9)


def test_end_of_a_long_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"whole\n" + b"x" * 200_000)
    assert cut_end(path) == b"x" * 200_000
    path.write_bytes(b"")
    assert cut_end(path) == b""
    assert cut_end(tmp_path / "none") == b""


def test_footer_counts_the_rows_of_all_parts(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", 1, 2)
    complete(folder)
    complete(folder)
    recorded(folder, 3)
    complete(folder)
    found = read_rows(folder / FUZZ_CASES)
    assert (len(found.rows), found.complete) == (3, True)
    assert (folder / FUZZ_CASES).read_text().count("footer") == 2


def test_run_without_a_case_is_complete_too(tmp_path: Path) -> None:
    folder = config_in(tmp_path / "run").run_dir
    complete(folder)
    assert read_rows(folder / FUZZ_CASES).complete
    assert not (folder / FINDINGS).exists()


def test_folder_that_was_cut_off_is_refused_without_resume(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", 1, 2)
    check_fresh(folder, [])
    path = folder / FUZZ_CASES
    path.write_bytes(path.read_bytes()[:-60])
    before = path.read_bytes()
    with pytest.raises(UsageError, match="--resume, or use another --run-dir"):
        check_fresh(folder, [])
    assert path.read_bytes() == before


def test_folder_with_cases_of_a_campaign_is_refused_without_resume(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", 1, 2)
    there = read_rows(folder / FUZZ_CASES).rows[0]["campaign"]
    check_fresh(folder, ["another"])
    with pytest.raises(UsageError, match=f"already has cases of {there}; continue with --resume"):
        check_fresh(folder, ["another", there])
    # What cannot be resumed is not told to.
    with pytest.raises(UsageError, match=f"already has cases of {there}; use another --run-dir"):
        check_fresh(folder, [there], resumable=False)


def _hold(folder: Path, ready: Any, done: Any) -> None:
    with locked(folder):
        ready.set()
        done.wait(30)


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.resume.LOCK_SECONDS", 0.05)
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, ready, done))
    other.start()
    assert ready.wait(30)
    with pytest.raises(UsageError, match="another run is writing"), locked(tmp_path):
        pass
    done.set()
    other.join()
    with locked(tmp_path):
        pass


# Earlier parts ----------------------------------------------------------------------------------------


def test_nothing_recorded_is_nothing_done(tmp_path: Path) -> None:
    found = earlier(config_in(tmp_path / "run").run_dir)
    assert (found.done, found.part, found.cases.total()) == ({}, 0, 0)
    assert check_same(found, ["pushes"], 5, 2, tmp_path) is None


def test_what_has_a_row_is_done_and_what_has_none_is_not(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", 1, 2, 5, 4)
    complete(folder)
    seen: list[int] = []
    found = earlier(folder, lambda row: seen.append(row["case"]))
    assert found.done == {0: {"pushes": Done(0, frozenset({1, 2, 4, 5}))}}
    assert (found.cases["pushes"], found.seeds, found.jobs, found.part) == (4, {"pushes": 7}, 1, 1)
    assert seen == [1, 2, 5, 4]


def test_far_behind_the_last_case_what_has_no_row_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.resume.WINDOW", 10)
    monkeypatch.setattr("fuzz.resume.KEPT", 40)
    folder = recorded(tmp_path / "run", *(number for number in range(1, 101) if number not in {20, 95}))
    done = earlier(folder).done[0]["pushes"]
    assert done.upto == 90
    assert [number for number in range(1, 110) if number not in done] == [95, *range(101, 110)]


def test_what_was_postponed_is_played_when_a_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.resume.WINDOW", 10)
    folder = recorded(tmp_path / "run", *(number for number in range(1, 101) if number not in {20, 30, 40}))
    postpone(folder, [])
    assert not (folder / POSTPONED).exists()
    postpone(folder, [("pushes", 30), ("pushes", 20), ("other", 40)])

    def left() -> list[int]:
        done = earlier(folder).done[0]["pushes"]
        return [number for number in range(1, 101) if number not in done]

    assert left() == [20, 30]
    recorded(folder, 20)
    postpone(folder, [("pushes", 30)])
    with (folder / POSTPONED).open("a") as file:
        file.write('{"campaign": "pushes", "ca\n[]\n{"cases": [true, "x"]}\n')
    assert left() == [30]


def test_processes_go_on_where_each_of_them_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.resume.WINDOW", 3)
    folder = recorded(tmp_path / "run", *range(2, 41, 2))
    recorded(folder, *range(1, 8, 2), job=1)
    found = earlier(folder)
    assert found.jobs == 2
    source = Fixed("s", State.OPEN, "PUSH", {f"{n:03}": [send(b"x")] for n in range(60)}, "order")
    plan = Plan(Campaign("pushes", "for tests", lambda _: [source]), Setting(7))
    cases = list(plan.cases())
    left = {job: [one.number for one in mine(iter(cases), found.done[job], job, 2)] for job in (0, 1)}
    assert left == {0: list(range(42, 61, 2)), 1: list(range(9, 61, 2))}


def test_resumed_run_plays_what_one_run_would_have_played(tmp_path: Path) -> None:
    source = Fixed("s", State.OPEN, "PUSH", {f"{n:03}": [send(b"x")] for n in range(50)}, "order")

    def cases() -> list[tuple[int, str]]:
        plan = Plan(Campaign("pushes", "for tests", lambda _: [source]), Setting(7))
        return [(one.number, one.case.mutation) for one in plan.cases()]

    whole = cases()
    rng = random.Random(4)
    played: list[int] = []
    folder = tmp_path / "run"
    for _ in range(5):
        done = earlier(config_in(folder).run_dir).done.get(0, {}).get("pushes", Done())
        part = [number for number, _ in cases() if number not in done][: rng.randrange(1, 20)]
        # Side by side they end in another order than they began.
        rng.shuffle(part)
        recorded(folder, *part)
        played += part
    assert len(played) == len(set(played))
    assert {number for number, _ in whole} >= set(played)
    assert sorted(played) == [
        row["case"] for row in sorted(rows_in(config_in(folder)), key=lambda row: row["case"])
    ]


@pytest.mark.parametrize(
    ("campaigns", "seed", "jobs", "words"),
    [
        (["pushes"], 8, 1, "has seed 7, not 8; leave out --seed"),
        (["pushes"], None, 2, "was started with --jobs 1, not 2"),
        (["other"], None, 1, "run has no cases of other (it has: pushes)"),
    ],
)
def test_another_run_is_not_gone_on_with(
    tmp_path: Path, campaigns: list[str], seed: int | None, jobs: int, words: str
) -> None:
    folder = recorded(tmp_path / "run", 1)
    found = earlier(folder)
    with pytest.raises(UsageError) as caught:
        check_same(found, campaigns, seed, jobs, folder)
    assert words in str(caught.value)


def planned(*words: str) -> list[Numbered]:
    """Returns the cases of campaign ``pushes``."""
    source = Fixed("s", State.OPEN, "PUSH", {one: [send(b"x")] for one in words}, "order")
    return list(Plan(Campaign("pushes", "for tests", lambda _: [source]), Setting(7)).cases())


def told_by(cases: Iterable[Numbered], parent: str = "") -> Numbers:
    """Returns what the rows of these cases say."""
    numbers = Numbers()
    for one in cases:
        case = one.case
        row = {"campaign": one.campaign.name, "case": one.number, "state": str(case.state), "parent": parent}
        numbers.add({**row, "source": case.source.name, "message": case.message, "field": case.field, "mutation": case.mutation})  # fmt: skip
    return numbers


WORDS = [f"{number:03}" for number in range(40)]


def test_run_whose_cases_have_their_numbers_still_is_gone_on_with(tmp_path: Path) -> None:
    found = earlier(recorded(tmp_path / "run", 1))
    numbers = told_by(planned(*WORDS)[3:30])
    assert numbers.changed(["pushes"], planned(*WORDS)) == ""
    check_numbers(tmp_path / "run", found, ["pushes"], numbers, planned(*WORDS))
    # Of another campaign in the same folder nothing is asked.
    assert numbers.changed(["inits"], []) == ""


def test_run_whose_cases_have_other_numbers_by_now_is_refused(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", 1)
    now = planned(*WORDS, "more")
    numbers = told_by(planned(*WORDS))
    with pytest.raises(UsageError) as caught:
        check_numbers(folder, earlier(folder), ["pushes"], numbers, now)
    said = str(caught.value)
    assert re.search(r"pushes \d+ was s: \d{3} in open, and is s: (\d{3}|more) in open", said)
    assert "begun by another version of the harness" in said
    assert said.endswith("use another --run-dir")


def test_version_that_wrote_a_run_is_named(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", 1)
    open_run(config_in(folder), NodeFacts("fake", "1", "router", "1"), "fuzz", "zenoh-fuzz")
    with pytest.raises(
        UsageError, match=rf"\(last {re.escape(installed_version())}, .*Python {platform.python_version()}\)"
    ):
        check_numbers(folder, earlier(folder), ["pushes"], told_by(planned(*WORDS)), planned("a", "b"))


def test_case_that_is_there_no_more_is_another_order() -> None:
    numbers = told_by(planned(*WORDS))
    assert re.fullmatch("pushes 40 was .*, and is none", numbers.changed(["pushes"], planned(*WORDS)[:39]))


def test_campaigns_that_are_played_together_decide_on_numbers(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", 1, campaign="inits")
    recorded(folder, 2)
    other = planned(*reversed(WORDS), "more")
    with pytest.raises(
        UsageError, match="it has cases of inits, pushes, and numbers depend on what is played"
    ):
        check_numbers(folder, earlier(folder), ["pushes"], told_by(planned(*WORDS)), other)


def test_what_is_drawn_from_answers_has_no_order_of_its_own() -> None:
    numbers = told_by(planned(*WORDS), parent="captured.pcapng")
    assert numbers.changed(["pushes"], planned("another")) == ""


def test_number_of_processes_is_known_before_each_has_a_row(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", 1)
    share(folder, ["pushes"], 2)
    # Another campaign in the same folder may have more.
    share(folder, ["other"], 3)
    found = earlier(folder)
    assert found.jobs == 3
    assert check_same(found, ["pushes"], None, 2, folder) == 7
    for jobs in (1, 3):
        with pytest.raises(UsageError, match=f"was started with --jobs 2, not {jobs}"):
            check_same(found, ["pushes"], None, jobs, folder)
    assert [jobs_of_run(found, names, 9) for names in (["pushes"], ["new", "pushes"], ["other"])] == [2, 2, 9]


@pytest.mark.parametrize("text", ["{", "[]", '{"pushes": 0}', '{"pushes": true}'])
def test_numbers_of_processes_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    folder = recorded(tmp_path / "run", 1)
    (folder / JOBS).write_text(text)
    with pytest.raises(UsageError, match=r"jobs\.json in run (is|was) .*use another --run-dir"):
        earlier(folder)


def test_campaigns_with_seeds_of_their_own_are_resumed_one_by_one(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", 1, campaign="a", seed=3)
    recorded(folder, 1)
    found = earlier(folder)
    assert check_same(found, ["a"], None, 1, folder) == 3
    with pytest.raises(UsageError, match="different seeds"):
        check_same(found, ["a", "pushes"], None, 1, folder)


def test_findings_of_earlier_parts_are_the_last_rows_of_each(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    for part, hits in ((0, 1), (0, 4), (1, 2)):
        with Recorder(config, part=part) as recorder:
            recorder.finding(finding(hits=hits, part=part))
    with (config.run_dir / FINDINGS).open("a") as file:
        file.write(to_json(finding("panic", part=0))[:50])
    mend(config.run_dir)
    assert [(row.part, row.hits) for row in findings_before(config.run_dir, 2)] == [(0, 4), (1, 2)]
    assert [(row.part, row.hits) for row in findings_before(config.run_dir, 1)] == [(0, 4)]
    write_one = Recorder(config)
    write(write_one, 1)
    write_one.close()
    assert earlier(config.run_dir).part == 2


def test_findings_of_earlier_parts_that_became_others_are_not_told(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    for part, bucket, hits in ((0, "a", 3), (0, "b", 2), (0, "b", 0), (0, "c", 1), (1, "a", 0)):
        with Recorder(config, part=part) as recorder:
            recorder.finding(finding(bucket, hits=hits, part=part))
    assert [row.bucket for row in findings_before(config.run_dir, 1)] == ["c"]


def test_numbers_that_are_remembered_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.resume.KEPT", 100)
    folder = recorded(tmp_path / "run", *itertools.islice(itertools.count(1), 500))
    done = earlier(folder).done[0]["pushes"]
    assert all(number in done for number in range(1, 501))
    assert 501 not in done
    assert len(done.beyond) <= 100
