import dataclasses
import datetime as dt
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from spark_reports import gates as module
from spark_reports import report
from spark_reports.errors import DataTrouble, GateFailed, WrongUse
from spark_reports.gates import GATES, Gates, Quarantined, check, judge, parse_names, read_gates
from spark_reports.pages import badge, html_page
from spark_reports.pages.junit import junit
from spark_reports.pages.page import make_page
from spark_reports.pages.summary import summary
from spark_reports.report import GateResult, Report
from tests.spark_reports.reports import example_report


def judged(found: Report, **values: Any) -> dict[str, GateResult]:
    gates = Gates(**{"limits": dict.fromkeys(GATES, 0), **values})
    return {result.name: result for result in judge(found, gates)}


def test_each_gate_counts_what_its_name_says() -> None:
    counted = {name: result.text.partition(",")[0] for name, result in judged(example_report()).items()}
    assert counted == {
        "runs": "3 of 3 judged runs complete",
        "kept-apart": "0 of 25696 lines set aside (0.00 %)",
        "new-failures": "1",
        "not-run": "1",
        "new-findings": "2",
        "coverage": "2",
        "flaky": "3",
        "slower": "1",
        "stale": "1",
    }


def test_gate_fails_above_its_limit_and_says_what_it_counted() -> None:
    limits = {"flaky": 3, "new-findings": 1}
    results = judged(example_report(), limits=limits)
    assert results["flaky"].ok
    assert not results["new-findings"].ok
    assert results["new-findings"].text.startswith("2, 1 allowed: crash: INIT.lease")
    assert set(results) == {"runs", "kept-apart", *limits}


def test_long_list_is_cut_and_counted() -> None:
    found = example_report()
    many = tuple(dataclasses.replace(found.lost[0], name=f"ZN-{number}") for number in range(5))
    text = judged(dataclasses.replace(found, lost=many))["coverage"].text
    assert text == "5, 0 allowed: requirement ZN-0, requirement ZN-1, requirement ZN-2 and 2 more"


def test_what_is_called_the_same_on_many_nodes_is_named_once() -> None:
    found = example_report()
    many = tuple(dataclasses.replace(found.lost[0], name=f"ZN-{number % 2}") for number in range(5))
    text = judged(dataclasses.replace(found, lost=many))["coverage"].text
    assert text == "5, 0 allowed: requirement ZN-0 (3 times), requirement ZN-1 (2 times)"


def test_finding_that_is_known_or_did_not_come_again_is_not_new() -> None:
    found = example_report()
    first, second, *_ = found.findings
    others = (
        dataclasses.replace(first, known="zenoh-1234"),
        dataclasses.replace(second, confirmed="not reproduced"),
    )
    assert judged(dataclasses.replace(found, findings=others))["new-findings"].ok


def test_little_slower_does_not_count() -> None:
    assert judged(example_report(), slower_percent=41)["slower"].ok
    assert not judged(example_report(), slower_percent=39)["slower"].ok


def test_gate_says_when_there_were_too_few_runs_to_judge_by() -> None:
    found = example_report()
    few = tuple(dataclasses.replace(trend, status=report.TOO_FEW) for trend in found.trends)
    assert "too few runs" not in judged(found)["slower"].text
    result = judged(dataclasses.replace(found, trends=few))["slower"]
    assert result.ok
    assert result.text.endswith(
        f"none of {len(few)} measurements was judged, as there are too few runs on either side"
    )
    assert "too few runs" not in judged(dataclasses.replace(found, trends=()))["slower"].text


def quarantined(test: str, until: str) -> bool:
    entry = Quarantined(test, dt.date.fromisoformat(until), "known to hang")
    return judged(example_report(), quarantine=[entry])["new-failures"].ok


def test_test_in_quarantine_is_not_counted_until_its_last_day() -> None:
    test = "suite/test_init.py::test_zn_init_000"
    # The newest run is of 2026-01-12.
    assert quarantined(test, "2026-01-12")
    assert not quarantined(test, "2026-01-11")
    assert quarantined("suite/test_init.py::*", "2027-01-01")
    assert not quarantined("test_zn_init_000", "2027-01-01")


def test_quarantine_that_has_ended_is_told() -> None:
    entries = [
        Quarantined(f"{name}::*", dt.date(2026, 1, day), "hangs") for name, day in (("a", 11), ("b", 12))
    ]
    assert "quarantine" not in judged(example_report(), quarantine=entries[1:])
    held = judged(example_report(), quarantine=entries)["quarantine"]
    assert held.ok
    assert held.text == "a::* until 2026-01-11: expired, and counts again"


def test_new_failure_in_quarantine_is_told_and_counts_nowhere() -> None:
    found = example_report(findings=(), gates=())
    until = dt.date(2026, 12, 31)
    entry = Quarantined("suite/test_init.py::test_zn_init_000", until, "known to hang")
    page = make_page(module.judged(found, Gates(quarantine=[entry])))
    held, *others = page.report.changes
    assert held.quarantine == "until 2026-12-31: known to hang"
    assert not any(change.quarantine for change in others)
    assert make_page(found).headline.startswith("1 new failure")
    assert "new failure" not in page.headline + badge.words(page.report)[0]
    assert (page.tiles[0].number, list(page.fresh), page.others[0]) == (0, [], held)
    for text in (html_page.html(page), summary(page)):
        assert "in quarantine until 2026-12-31: known to hang" in text.replace("\\", "")
    checks = next(iter(ET.fromstring(junit(page.report))))
    assert (checks.get("name"), checks.get("failures")) == ("checks", "0")
    said = [one.attrib["message"] for one in checks.iterfind("testcase/skipped")]
    assert said[0].startswith("new failure, in quarantine until 2026-12-31: known to hang: failed in 3 of 3")


def test_brackets_of_a_quarantined_test_are_meant_as_they_are() -> None:
    found = example_report()
    change = dataclasses.replace(found.changes[0], test="a.py::test_x[tcp-0x8]")
    found = dataclasses.replace(found, changes=(change,))
    for pattern, ok in (("a.py::test_x[tcp-*]", True), ("a.py::test_x[t]cp-0x8]", False)):
        entry = Quarantined(pattern, dt.date(2027, 1, 1), "")
        assert judged(found, quarantine=[entry])["new-failures"].ok is ok


def test_data_gates_ask_for_whole_runs_lines_and_a_baseline() -> None:
    found = example_report()
    assert not judged(found, min_runs=4)["runs"].ok
    assert judged(found, baseline=True)["baseline"].ok
    alone = dataclasses.replace(found.sets.pairs[0], baseline=())
    found = dataclasses.replace(found, sets=dataclasses.replace(found.sets, pairs=(alone,)))
    result = judged(found, baseline=True)["baseline"]
    assert not result.ok
    assert alone.key in result.text
    assert not judged(dataclasses.replace(found, sets=report.SetInfo()), baseline=True)["baseline"].ok
    found = example_report()
    warned = dataclasses.replace(found.sets, cautions=("1.11.0 was run elsewhere",))
    result = judged(dataclasses.replace(found, sets=warned), baseline=True)["baseline"]
    assert (result.ok, "1.11.0 was run elsewhere" in result.text) == (False, True)


@pytest.mark.parametrize(("newer", "holds"), [(True, False), (False, True)])
def test_runs_that_the_baseline_says_nothing_of_are_no_comparison_if_they_are_newer(
    newer: bool, holds: bool
) -> None:
    found = example_report()
    times = sorted(run.started_at for run in found.runs if run.run_id in found.sets.candidate)
    alone = dataclasses.replace(
        found.runs[0], run_id="alone", started_at="2027-01-01T00:00:00.000Z" if newer else times[0]
    )
    apart = report.NotComparable(run_id="alone", why="another machine")
    found = dataclasses.replace(
        found, runs=(alone, *found.runs), sets=dataclasses.replace(found.sets, not_comparable=(apart,))
    )
    result = judged(found, baseline=True)["baseline"]
    assert result.ok == holds
    assert ("newer and cannot be compared: alone" in result.text) == newer


def with_apart(found: Report, run_id: str, percent: int) -> Report:
    """Returns a report in which so many of 100 lines of a run are kept apart."""
    (account, *_) = found.accounts
    mine = dataclasses.replace(
        account, run_id=run_id, lines=100, good=100 - percent, apart=percent, blank=0, footers=0
    )
    others = (one for one in found.accounts if one.run_id != run_id)
    return dataclasses.replace(found, accounts=(*others, mine))


def test_lines_kept_apart_count_in_each_run_that_is_compared() -> None:
    found = example_report()
    (pair, *_) = found.sets.pairs
    for run_id in (pair.candidate[0], pair.baseline[-1]):
        result = judged(with_apart(found, run_id, 2))["kept-apart"]
        assert not result.ok
        assert f"1 % allowed in each run: {run_id} has 2.0 %" in result.text
        assert judged(with_apart(found, run_id, 2), apart_percent=2)["kept-apart"].ok
        assert not judged(with_apart(found, run_id, 1), apart_percent=0)["kept-apart"].ok
    compared = {run_id for pair in found.sets.pairs for run_id in (*pair.candidate, *pair.baseline)}
    old = next(run.run_id for run in found.runs if run.run_id not in compared)
    assert judged(with_apart(found, old, 90))["kept-apart"].ok
    assert not judged(dataclasses.replace(with_apart(found, old, 90), sets=report.SetInfo()))["kept-apart"].ok


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("complete", ""),
        ("running", "wait until it has ended and report again, or record it again"),
        ("cut off", "record it again"),
        ("failed", "record it again"),
    ],
)
def test_newest_run_of_its_kind_has_to_be_whole(state: str, told: str) -> None:
    found = example_report()
    newest = found.sets.pairs[0].candidate[0]
    runs = tuple(dataclasses.replace(run, state=state) if run.run_id == newest else run for run in found.runs)
    result = judged(dataclasses.replace(found, runs=runs))["runs"]
    assert result.ok is (not told)
    assert (
        not told
        or f"; 1 run is the newest of its kind and incomplete: {newest} ({state}); {told}" in result.text
    )
    older = found.sets.pairs[0].candidate[-1]
    runs = tuple(dataclasses.replace(run, state=state) if run.run_id == older else run for run in found.runs)
    assert judged(dataclasses.replace(found, runs=runs))["runs"].ok


def test_run_of_a_set_that_was_left_behind_need_not_be_whole() -> None:
    found = example_report()
    (pair,) = found.sets.pairs
    newest = pair.candidate[0]
    old = dataclasses.replace(found.runs[0], run_id="old", state="running")
    killed = dataclasses.replace(pair, key="elsewhere", candidate=("old",), baseline=())

    def with_old(**values: Any) -> Report:
        pairs = (pair, dataclasses.replace(killed, **values))
        runs = (*found.runs, old)
        return dataclasses.replace(found, runs=runs, sets=dataclasses.replace(found.sets, pairs=pairs))

    asked, left = with_old(), with_old(left_behind=True)
    assert not judged(asked)["runs"].ok
    assert make_page(asked).headline.endswith("is unknown")
    result = judged(left)["runs"]
    assert result.ok
    assert result.text.endswith(
        "; 1 run is incomplete and passed over, as later ones are of newer versions: old (running)"
    )
    assert not make_page(left).headline.endswith("is unknown")
    # What is judged today has to be whole in any case.
    ended = tuple(
        dataclasses.replace(run, state="failed") if run.run_id == newest else run for run in left.runs
    )
    assert not judged(dataclasses.replace(left, runs=ended))["runs"].ok
    for report_, ok in ((asked, False), (left, True)):
        assert judged(with_apart(report_, "old", 90))["kept-apart"].ok is ok
        blind = tuple(
            dataclasses.replace(cell, outcome="inconclusive", run_id="old") for cell in found.cells[:1]
        )
        assert (dataclasses.replace(report_, cells=(*found.cells, *blind)).blind == ()) is ok


def test_newest_run_that_cannot_be_read_is_data_trouble() -> None:
    found = example_report()
    lost = report.NotComparable(run_id="late", why="late/run.json is cut off")
    result = judged(dataclasses.replace(found, sets=dataclasses.replace(found.sets, unread=(lost,))))["runs"]
    assert not result.ok
    assert result.text == (
        "3 of 3 judged runs complete, at least 1 needed; 1 run is newer but not judged: late "
        "(late/run.json is cut off); repair it or record the run again"
    )


def test_flips_count_on_the_judged_version_and_fail_no_gate_on_others() -> None:
    found = example_report()
    flaky = found.flaky[0]
    # Whichever version flipped last.
    for run in (found.runs[0], found.runs[-1]):
        for flips, ok in ((1, False), (0, True)):
            one = dataclasses.replace(flaky, last_flip_run=run.run_id, flips_c=flips)
            assert judged(dataclasses.replace(found, flaky=(one,)))["flaky"].ok is ok


def test_time_that_is_none_does_not_move_the_day_of_a_quarantine() -> None:
    found = example_report()
    odd = dataclasses.replace(found.runs[-1], run_id="odd", started_at="yesterday")
    entry = Quarantined("suite/test_init.py::*", dt.date(2026, 1, 12), "known to hang")
    assert judged(dataclasses.replace(found, runs=(*found.runs, odd)), quarantine=[entry])["new-failures"].ok


def test_empty_report_has_no_lines_apart() -> None:
    assert judged(example_report(accounts=()))["kept-apart"].ok


def test_data_trouble_goes_before_a_failed_gate() -> None:
    bad_data = GateResult(name="kept-apart", ok=False, text="9 of 10")
    failed = GateResult(name="flaky", ok=False, text="3, 0 allowed")
    check([GateResult(name="flaky", ok=True, text="")])
    with pytest.raises(GateFailed, match="gate flaky failed: 3, 0 allowed") as caught:
        check([failed])
    assert caught.value.exit_code == 1
    with pytest.raises(DataTrouble, match="kept-apart") as trouble:
        check([failed, bad_data])
    assert trouble.value.exit_code == 3


def test_names_are_read_from_the_command_line() -> None:
    assert parse_names("new-failures, flaky,") == ("new-failures", "flaky")
    for wrong in ("new-failure", "flaky,Coverage", "", ","):
        with pytest.raises(ValueError, match="the gates are new-failures, not-run"):
            parse_names(wrong)


def read(tmp_path: Path, text: str) -> Gates:
    (tmp_path / "gates.toml").write_text(text, encoding="utf-8")
    return read_gates(tmp_path / "gates.toml")


def test_file_of_gates_says_all_of_it(tmp_path: Path) -> None:
    gates = read(
        tmp_path,
        """
        max_new_failures = 0
        max_flaky = 5
        slower_percent = 10
        apart_percent = 0.5
        min_runs = 2
        baseline = true
        [[quarantine]]
        test = "suite/test_init.py::*"
        until = 2026-12-31
        why = "hangs"
        """,
    )
    assert gates == Gates(
        limits={"new-failures": 0, "flaky": 5},
        slower_percent=10,
        apart_percent=0.5,
        min_runs=2,
        baseline=True,
        quarantine=(Quarantined("suite/test_init.py::*", dt.date(2026, 12, 31), "hangs"),),
    )


def test_file_of_gates_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "gates.toml"
    path.write_bytes(b"\xef\xbb\xbfmax_flaky = 1\r\n")
    assert read_gates(path).limits == {"flaky": 1}


def test_limit_of_the_file_wins_over_none_allowed(tmp_path: Path) -> None:
    gates = read(tmp_path, "max_flaky = 5").failing_on(["flaky", "coverage"])
    assert gates.limits == {"flaky": 5, "coverage": 0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_flake = 1", "unknown key max_flake; known are max_new_failures"),
        ("max_flaky = -1", "max_flaky must be a whole number, 0 or more"),
        ("max_flaky = 1.5", "max_flaky must be a whole number"),
        ("max_flaky = true", "max_flaky must be a whole number"),
        ('apart_percent = "1"', "apart_percent must be a number"),
        ("apart_percent = nan", "apart_percent must be a number"),
        ("slower_percent = inf", "slower_percent must be a number"),
        ("apart_percent = 250", "apart_percent must be 100 or less"),
        ("baseline = 1", "baseline must be true or false"),
        ("max_flaky =", "is not a TOML file"),
        ("[quarantine]\ntest = 'a'", "test, until, why"),
        ("[[quarantine]]\ntest = 'a'\nuntil = '2026'\nwhy = ''", "until a date"),
        ("[[quarantine]]\ntest = 'a'\nuntil = 2026-12-31T00:00:00Z\nwhy = ''", "until a date"),
        ("[[quarantine]]\ntest = 7\nuntil = 2026-12-31\nwhy = ''", "test and why must be texts"),
        ("[[quarantine]]\ntest = ' '\nuntil = 2026-12-31\nwhy = ''", "test is empty"),
        ("quarantine = 'a'", "needs exactly"),
    ],
)
def test_file_that_no_gate_understands_is_wrong_use(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(WrongUse) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)
    assert "gates.toml" in str(caught.value)
    assert caught.value.exit_code == 2


def test_file_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"none.toml cannot be read \(No such file"):
        read_gates(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(WrongUse, match="not a TOML file"):
        read_gates(tmp_path / "bytes.toml")


def test_runs_that_decided_nothing_are_no_good_ones() -> None:
    found = example_report()
    newest = found.runs[0].run_id
    blind = dataclasses.replace(
        found,
        cells=tuple(dataclasses.replace(cell, outcome="inconclusive", run_id=newest) for cell in found.cells),
    )
    result = judged(blind)["runs"]
    assert not result.ok
    assert result.text.endswith(f"; 1 run decided no requirement, as all is inconclusive or n/a: {newest}")
    assert judged(found)["runs"].ok
