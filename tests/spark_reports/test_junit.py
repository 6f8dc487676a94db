import dataclasses
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from spark_reports import report
from spark_reports.pages import badge
from spark_reports.pages.junit import junit
from tests.spark_reports.hostile import HOSTILE, with_text
from tests.spark_reports.reports import example_report


def suites(found: report.Report) -> dict[str, ET.Element]:
    return {suite.attrib["name"]: suite for suite in ET.fromstring(junit(found))}


def outcomes(suite: ET.Element) -> list[str]:
    return [case[0].tag if len(case) else "passed" for case in suite.iter("testcase")]


def test_only_new_failures_fail_and_what_rests_on_chance_is_skipped() -> None:
    found = example_report()
    status = dict(
        zip([change.status for change in found.changes], outcomes(suites(found)["checks"]), strict=True)
    )
    assert status == {
        report.NEW_FAILURE: "failure",
        report.FLAKY: "skipped",
        report.NOT_RUN: "skipped",
        report.NO_LONGER_PASSES: "passed",
        report.STILL_FAILING: "passed",
        report.NOT_COMPARABLE: "skipped",
        report.FIXED: "passed",
        report.NEW_CHECK: "passed",
        report.NA_EVERYWHERE: "skipped",
        report.NOT_SELECTED: "skipped",
    }


def test_failure_says_what_was_seen_and_how_to_see_it_again() -> None:
    case = suites(example_report())["checks"].find("testcase")
    assert case is not None
    assert (case.get("classname"), case.get("name")) == ("suite/test_init.py", "test_zn_init_000 over tcp")
    failure = case[0]
    assert failure.get("message") == "new failure: ZN-INIT-000"
    for words in ("failed in 3 of 3 runs, before in 0 of 3", "CLOSE(reason=INVALID)", "repeat: pytest"):
        assert words in (failure.text or "")


def test_checks_of_several_nodes_have_names_of_their_own() -> None:
    found = example_report()
    other = dataclasses.replace(found.changes[0], key="zenoh-pico client; Linux", status=report.FIXED)
    names = [
        case.attrib["name"]
        for case in suites(dataclasses.replace(found, changes=(*found.changes, other)))["checks"].iter(
            "testcase"
        )
    ]
    assert len(set(names)) == len(names) == len(found.changes) + 1
    assert names[0] == f"test_zn_init_000 over tcp on {found.changes[0].key}"
    assert names[-1] == "test_zn_init_000 over tcp on zenoh-pico client; Linux"


def test_finding_of_several_implementations_has_a_name_for_each() -> None:
    found = example_report()
    other = dataclasses.replace(found.findings[0], node_impl="zenoh-pico")
    more = dataclasses.replace(found, findings=(*found.findings, other))
    names = [case.attrib["name"] for case in suites(more)["findings"].iter("testcase")]
    assert len(set(names)) == len(names)
    assert names[-1] == f"{other.bucket} on zenoh-pico"
    assert names[1] == found.findings[1].bucket


def test_new_findings_and_failed_gates_fail() -> None:
    found = suites(example_report())
    assert outcomes(found["findings"]) == ["failure", "failure", "passed", "passed"]
    assert outcomes(found["gates"]) == ["failure", "passed"]


def test_what_the_gate_of_findings_does_not_count_fails_nowhere() -> None:
    found = example_report()
    refuted = tuple(dataclasses.replace(one, confirmed="not reproduced") for one in found.findings)
    calm = dataclasses.replace(found, findings=refuted)
    assert set(outcomes(suites(calm)["findings"])) == {"passed"}
    assert "finding" in badge.words(found)[0]
    assert "finding" not in badge.words(calm)[0]


def test_suites_count_their_cases_and_what_is_unchanged() -> None:
    checks = suites(example_report())["checks"]
    assert {name: checks.get(name) for name in ("tests", "failures", "skipped", "errors")} == {
        "tests": "10",
        "failures": "1",
        "skipped": "5",
        "errors": "0",
    }
    unchanged = checks.find("properties/property")
    assert unchanged is not None
    assert unchanged.attrib == {"name": "unchanged", "value": "110"}


@pytest.mark.parametrize("text", [HOSTILE, "x" * 100_000, "\x0b\ufffe"])
def test_no_string_changes_what_the_file_is_made_of(text: str) -> None:
    plain, hostile = (
        [element.tag for element in ET.fromstring(junit(with_text(example_report(), words))).iter()]
        for words in ("plain", text)
    )
    assert hostile == plain
    assert len(junit(with_text(example_report(), text))) < 400_000


def test_empty_report_has_three_empty_suites() -> None:
    nothing: dict[str, Any] = dict.fromkeys(("changes", "findings", "gates"), ())
    assert {name: len(outcomes(suite)) for name, suite in suites(example_report(**nothing)).items()} == {
        "checks": 0,
        "findings": 0,
        "gates": 0,
    }
