"""What a watch says, without Spark."""

from pathlib import Path
from typing import Any

import pytest

from spark_reports import rows
from spark_reports.following.tally import Group, Tally
from spark_reports.following.telling import About, Teller, about

BEGAN = "2026-11-22T10:00:00.000Z"


class Runs:
    """Folders of runs, and what is said of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.said: dict[str, About] = {}

    def add(self, folder: str, status: str = "running", ended_at: str = "") -> None:
        path = self.root / folder
        path.mkdir(exist_ok=True)
        (path / rows.FUZZ_CASES).touch()
        self.said[folder] = About("eclipse-zenoh 1.10.2 router", status, ended_at)

    def look(self, folder: Path) -> About:
        return self.said[folder.name]


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.fixture
def teller(runs: Runs) -> Teller:
    return Teller(BEGAN, runs.look)


def _group(folder: str = "r1", lines: int = 11, **values: Any) -> Group:
    standard: dict[str, Any] = {
        "file": rows.FUZZ_CASES,
        "kind": "good",
        "outcome": "closed",
        "first_ns": 0,
        "last_ns": 1_000_000_000,
    }
    return Group(folder=folder, lines=lines, **{**standard, **values})


def _tell(teller: Teller, tally: Tally, batch: int, *groups: Group) -> list[str]:
    news = tally.add(batch, groups)
    assert news is not None
    return list(teller.news(tally, news))


def test_run_is_greeted_once_and_its_cases_told_with_their_rate(runs: Runs, teller: Teller) -> None:
    runs.add("r1")
    tally = Tally(("x",))
    assert _tell(teller, tally, 0, _group()) == [
        "r1 eclipse-zenoh 1.10.2 router",
        "r1 11 cases (+11, 10/s): 11 closed",
    ]
    assert _tell(teller, tally, 1, _group(lines=1, outcome="accepted")) == [
        "r1 12 cases (+1, 11/s): 1 accepted, 11 closed"
    ]


def test_runs_that_ended_before_are_only_counted(runs: Runs, teller: Teller) -> None:
    for at in range(3):
        runs.add(f"r{at}", "complete", "2026-11-22T09:59:59.000Z")
    bucket = _group("r1", 1, outcome="finding", bucket="hang")
    lines = _tell(teller, Tally(("x",)), 0, _group("r0"), bucket, _group("r2"))
    assert lines == ["3 runs ended before: 23 rows, 1 bucket not seen in older runs"]


def test_runs_of_one_name_are_told_apart_by_what_is_in_front_of_it(runs: Runs, teller: Teller) -> None:
    runs.add("fuzz")
    lines = _tell(teller, Tally(("x",)), 0, _group("/nights/1/fuzz", 1), _group("/nights/2/fuzz", 2))
    assert [line.split()[:2] for line in lines] == [
        ["fuzz", "eclipse-zenoh"],
        ["fuzz", "1"],
        ["2/fuzz", "eclipse-zenoh"],
        ["2/fuzz", "2"],
    ]


def test_new_bucket_is_told_with_where_it_was_met(runs: Runs, teller: Teller) -> None:
    runs.add("r1")
    group = _group(lines=1, outcome="finding", bucket="crash INIT", campaign="handshake", case=7, text="gone")
    told = _tell(teller, Tally(("x",)), 0, group)
    assert told[-1] == "new bucket: crash INIT (handshake, case 7 of r1): gone"


def test_many_failed_tests_are_cut(runs: Runs, teller: Teller) -> None:
    runs.add("r1")
    groups = [
        _group(lines=1, file=rows.VERDICTS, outcome="fail", test=f"t{at:02}", first_ns=at) for at in range(13)
    ]
    told = _tell(teller, Tally(("x",)), 0, *groups)
    assert told[2] == "failed: t00 (r1)"
    assert told[-1] == "failed: 3 more"
    assert len(told) == 2 + 10 + 1


def test_end_is_told_when_no_line_came_between_two_looks(runs: Runs, teller: Teller) -> None:
    runs.add("r1")
    tally = Tally(("x",))
    _tell(teller, tally, 0, _group())
    assert list(teller.look(tally)) == []
    runs.add("r1", "complete", "2026-11-22T10:01:00.000Z")
    assert list(teller.look(tally)) == []
    _tell(teller, tally, 1, _group(lines=1), _group(lines=1, kind="footers", outcome=""))
    assert list(teller.look(tally)) == []
    assert list(teller.look(tally)) == ["r1 ended, complete: 13 lines = 12 rows + 1 footers"]
    assert list(teller.look(tally)) == []


def test_summary_adds_up(teller: Teller) -> None:
    tally = Tally(("x",))
    tally.add(0, [_group(), _group("r2", 1, kind="apart", outcome="")])
    assert list(teller.end(tally)) == ["2 runs: 12 lines = 11 rows + 1 set aside; 0 buckets"]


def test_hostile_text_is_told_harmlessly(runs: Runs, teller: Teller) -> None:
    runs.add("r1")
    group = _group(lines=1, outcome="finding", bucket="\x1b]0;x\x07\n\u202e", text="a" * 1000)
    line = _tell(teller, Tally(("x",)), 0, group)[-1]
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert "\n" not in line
    assert len(line) < 300


def test_run_json_that_is_not_there_yet_is_unknown(tmp_path: Path) -> None:
    assert about(tmp_path).status == "unknown"
    (tmp_path / rows.RUN).write_text("{")
    assert about(tmp_path).ended_at == ""
