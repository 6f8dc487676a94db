import dataclasses
import re
from typing import Any

import pytest

from spark_reports.pages import summary as module
from spark_reports.pages.page import make_page
from spark_reports.pages.summary import summary
from spark_reports.pages.text import NONE
from spark_reports.report import NA_EVERYWHERE, NEW_CHECK, NOT_COMPARABLE, SLOWER, STEADY, TOO_FEW, Report
from tests.spark_reports.hostile import HOSTILE, with_text
from tests.spark_reports.reports import example_report


def text_of(report: Report) -> str:
    return summary(make_page(report))


def test_summary_says_first_whether_gates_hold_and_what_changed() -> None:
    titles = re.findall("^## (.*)$", text_of(example_report()), re.MULTILINE)
    assert titles == [
        "Gates",
        "What changed",
        "Findings",
        "Flaky tests",
        "No longer covered",
        "Measured",
        "Requirements by version",
        "First failing version",
        "Differences between releases",
        "Verdicts other than pass",
        "Deviations no longer seen",
        "Faulty nodes missed by every test",
        "Incomplete runs",
    ]


def test_change_is_a_row_with_both_sides() -> None:
    text = text_of(example_report())
    assert "| new failure | ZN\\-INIT\\-000 | suite/test\\_init" in text
    assert "| 0 of 3 | 3 of 3 | CLOSE" in text
    assert "113 other checks: 1 new, 1 n/a everywhere, 1 not selected, 110 unchanged." in text
    assert "1 run not comparable" in text


def test_changes_of_several_nodes_name_theirs() -> None:
    found = example_report()
    other = dataclasses.replace(found.changes[0], key="zenoh-pico client; Linux")
    text = text_of(dataclasses.replace(found, changes=(*found.changes, other)))
    rows = re.findall(r"^\| new failure \| ZN\\-INIT\\-000 \| .*$", text, re.MULTILINE)
    assert [", zenoh\\-pico client; Linux |" in row for row in rows] == [False, True]
    assert ", eclipse\\-zenoh router; Linux" in rows[0]


@pytest.mark.parametrize(
    ("status", "words"), [(NOT_COMPARABLE, ""), (NEW_CHECK, "1 new"), (NA_EVERYWHERE, "1 n/a everywhere")]
)
def test_checks_that_need_no_eye_are_counted(status: str, words: str) -> None:
    plain = example_report(changes=())
    like = example_report().changes[0]
    quiet = dataclasses.replace(like, status=status, failed_c=0, test="suite/test_quiet.py::test_a")
    text = text_of(dataclasses.replace(plain, changes=(quiet,)))
    assert "quiet" not in text
    assert words in text
    loud = dataclasses.replace(quiet, failed_c=1)
    assert "quiet" in text_of(dataclasses.replace(plain, changes=(loud,)))


def test_value_that_is_shown_was_measured_in_a_run_that_is_judged() -> None:
    found = example_report()
    judged = found.sets.candidate[-1]
    point = next(one for one in found.trends[0].points if one.run_id == judged)
    points = (
        dataclasses.replace(point, value=15_554.0),
        dataclasses.replace(point, run_id="a later one of another version", value=1.0),
    )
    trend = dataclasses.replace(found.trends[0], name="it", unit="us", points=points, drift="")
    text = text_of(dataclasses.replace(found, trends=(trend,))).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert re.search(r"\| it \| 15 554 us \|", text)


def test_what_did_not_drift_is_counted() -> None:
    found = example_report()
    slower, steady, few = (
        dataclasses.replace(found.trends[0], name=status, status=status)
        for status in (SLOWER, STEADY, TOO_FEW)
    )
    text = text_of(dataclasses.replace(found, trends=(slower, steady, few, few)))
    assert "| slower | slower |" in text
    assert "| steady" not in text
    assert "3 other measurements: 1 steady, 2 too few runs." in text
    text = text_of(dataclasses.replace(found, trends=(few,)))
    assert "Measured" not in text
    assert "\n1 measurement: 1 too few runs.\n" in text


def test_first_failing_version_says_what_is_known_of_it() -> None:
    (pair,) = example_report().first_bad
    pair = dataclasses.replace(
        pair, requirement="R", test="t", good="1", bad="2", runs_bad=9, failed_bad=4, confidence=0.97
    )
    alone = dataclasses.replace(pair, good="", confidence=0.0, fixed="3")
    assert "| R | t | 1 | 2, 4 of 9 runs | not yet | 97 % |" in text_of(example_report(first_bad=(pair,)))
    other = dataclasses.replace(alone, environment="Plan 9", configuration="udp")
    text = text_of(example_report(first_bad=(alone, other)))
    assert f"| R | t, Plan 9; udp | \\(none\\) | 2, 4 of 9 runs | 3 | {NONE} |" in text


def test_part_that_is_empty_is_left_out() -> None:
    empty: dict[str, Any] = dict.fromkeys(("gates", "flaky", "lost", "trends", "stale"), ())
    text = text_of(example_report(**empty))
    for title in ("Gates", "Flaky", "covered", "Measured", "Deviations"):
        assert f"## {title}" not in text


def test_summary_keeps_its_tables_whatever_the_text() -> None:
    bars = re.compile(r"(?<!\\)\|")
    plain, hostile = (text_of(with_text(example_report(), text)) for text in ("plain", HOSTILE))
    assert [len(bars.findall(line)) for line in hostile.splitlines()] == [
        len(bars.findall(line)) for line in plain.splitlines()
    ]
    assert "<script" not in hostile
    assert "@" not in hostile


def test_long_table_is_cut_and_counted() -> None:
    report = example_report()
    many = tuple(
        dataclasses.replace(report.changes[0], test=f"t{number}", seen="y" * 500) for number in range(120)
    )
    runs = tuple(
        dataclasses.replace(report.runs[0], run_id=f"r{number}", state="cut off", notes=("n" * 900,))
        for number in range(500)
    )
    text = text_of(dataclasses.replace(report, changes=many, runs=(*report.runs, *runs)))
    assert len(text.encode()) < module.LIMIT + 200
    assert "70 more in report.json" in text


def test_summary_beyond_the_limit_ends_with_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 300)
    text = text_of(example_report())
    assert len(text.encode()) < 400
    assert re.search(r"\d+ more lines; see report.json for all of it.\n$", text)
