"""Counting batches: each once, and a file that remembers it."""

from pathlib import Path
from typing import Any

import pytest

from spark_reports import rows
from spark_reports.errors import WrongUse
from spark_reports.following.tally import Group, Tally, load

ROOTS = ("/runs",)


def _cases(lines: int = 10, first_ns: int = 0, last_ns: int = 900_000_000, **values: Any) -> Group:
    standard: dict[str, Any] = {
        "folder": "r1",
        "file": rows.FUZZ_CASES,
        "kind": "good",
        "campaign": "handshake",
        "outcome": "closed",
    }
    return Group(**{**standard, **values}, lines=lines, first_ns=first_ns, last_ns=last_ns)


def test_batch_that_comes_again_is_not_counted_again() -> None:
    tally = Tally(ROOTS)
    assert tally.add(0, [_cases()]) is not None
    assert tally.add(0, [_cases()]) is None
    assert tally.runs["r1"].lines() == 10


def test_bucket_is_new_once() -> None:
    tally = Tally(ROOTS)
    late = _cases(1, 50, 50, bucket="hang", outcome="finding", case=9)
    early = _cases(1, 20, 20, bucket="hang", outcome="finding", case=4, folder="r0")
    first = tally.add(0, [late, early])
    assert first is not None
    assert [group.case for group in first.buckets] == [4]
    second = tally.add(1, [_cases(1, 90, 90, bucket="hang", outcome="finding")])
    assert second is not None
    assert second.buckets == []
    assert tally.buckets == {"hang": "r0"}


def test_rate_is_that_of_the_last_seconds_by_the_times_of_the_rows() -> None:
    tally = Tally(ROOTS)
    second = 1_000_000_000
    tally.add(0, [_cases(1000, 0, 1 * second)])
    tally.add(1, [_cases(11, 60 * second, 61 * second)])
    assert tally.runs["r1"].rate == 10.0


def test_single_case_has_no_rate() -> None:
    tally = Tally(ROOTS)
    tally.add(0, [_cases(1, 5, 5)])
    assert tally.runs["r1"].rate is None


def test_lines_of_each_kind_are_counted_apart() -> None:
    tally = Tally(ROOTS)
    news = tally.add(
        0,
        [_cases(3), _cases(2, outcome="accepted")]
        + [
            Group(folder="r1", file=rows.FUZZ_CASES, kind=kind, lines=1)
            for kind in ("apart", "blank", "footers")
        ],
    )
    run = tally.runs["r1"]
    assert run.files[rows.FUZZ_CASES] == {"good": 5, "apart": 1, "blank": 1, "footers": 1}
    assert run.outcomes[rows.FUZZ_CASES] == {"closed": 3, "accepted": 2}
    assert news is not None
    assert news.added == {"r1": {rows.FUZZ_CASES: 5}}
    assert len(news.apart) == 1


def test_saved_tally_is_the_same_when_loaded(tmp_path: Path) -> None:
    tally = load(tmp_path, ROOTS)
    tally.add(7, [_cases(), _cases(1, bucket="hang \udc80", outcome="finding")])
    tally.save(tmp_path)
    assert load(tmp_path, ROOTS) == tally
    assert [path.name for path in tmp_path.iterdir()] == ["tally.json"]


def test_tally_of_other_folders_is_refused(tmp_path: Path) -> None:
    Tally(ROOTS).save(tmp_path)
    with pytest.raises(WrongUse, match="belongs to a watch of /runs"):
        load(tmp_path, ("/other",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version":1}',
        '{"version":99,"roots":[]}',
        '{"version":1,"roots":[],"batch":0,"runs":{"r":3},"buckets":{}}',
    ],
)
def test_damaged_tally_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tally.json").write_text(text)
    with pytest.raises(WrongUse, match="is not a checkpoint of a watch"):
        load(tmp_path, ROOTS)
