import dataclasses
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from spark_reports import report
from spark_reports.pages import badge
from tests.spark_reports.reports import example_report

QUIET: dict[str, Any] = dict.fromkeys(("changes", "findings", "flaky", "lost", "trends", "gates"), ())


@pytest.mark.parametrize(
    ("kept", "words", "colour"),
    [
        ([*QUIET], "1 new failure, 2 new findings, 1 gate failed", badge.BAD),
        (["changes", "flaky"], "1 new failure", badge.BAD),
        (["findings"], "2 new findings", badge.BAD),
        (["flaky", "lost", "trends"], "1 slower, 3 flaky, 2 no longer covered", badge.MIXED),
        ([], "nothing new", badge.GOOD),
    ],
)
def test_badge_says_what_became_worse(kept: list[str], words: str, colour: str) -> None:
    quiet = {name: value for name, value in QUIET.items() if name not in kept}
    assert badge.words(example_report(**quiet)) == (words, colour)


def test_badge_over_a_newest_run_that_is_not_whole_is_not_good() -> None:
    found = example_report(**QUIET)
    newest = dataclasses.replace(found.runs[0], state="running")
    cut = dataclasses.replace(found, runs=(newest, *found.runs[1:]))
    assert badge.words(cut) == ("newest run incomplete", badge.MIXED)
    newer = report.NotComparable(run_id="newer", why="its run.json cannot be read")
    unread = dataclasses.replace(found, sets=dataclasses.replace(found.sets, unread=(newer,)))
    assert badge.words(unread) == ("newest run not judged", badge.MIXED)


def test_report_without_judgement_says_so() -> None:
    assert badge.words(example_report(**QUIET, cells=(), rates=())) == ("nothing judged", badge.NONE)


def test_finding_that_is_known_is_no_news() -> None:
    found = example_report(**QUIET)
    known = dataclasses.replace(example_report().findings[0], known="zenoh-1234")
    assert badge.words(dataclasses.replace(found, findings=(known,)))[0] == "nothing new"


def test_badge_is_a_picture_with_a_name_for_those_who_do_not_see_it() -> None:
    root = ET.fromstring(badge.badge(example_report()))
    assert root.get("aria-label") == "zenoh reports: 1 new failure, 2 new findings, 1 gate failed"
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["zenoh reports", "1 new failure, 2 new findings, 1 gate failed"]
    assert report.NEW_FAILURE not in badge.badge(example_report(**QUIET))
