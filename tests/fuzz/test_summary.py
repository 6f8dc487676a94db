from __future__ import annotations

import random
from collections import Counter
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from fuzz.compared import Compared
from fuzz.coverage import Coverage, Part
from fuzz.lying import Lying
from fuzz.states import State
from fuzz.summary import Outcome, as_junit, as_markdown, as_text, by_bucket, merged
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame
from tests.fuzz.test_resume import finding

SECRET = "deadbeefdeadbeef"


def outcome(**values: Any) -> Outcome:
    message = Frame(R=1, messages=[Push(key_suffix="a", body=Put(data=b"x"))])
    coverage = Coverage(
        {"pushes": [Lying("PUSH", State.OPEN, message, {"FRAME.sn": "sn"}, ("FRAME",), kind="PUSH")]}
    )
    usual: dict[str, Any] = {"coverage": coverage, "cases": Counter({"pushes": 1200}), "seconds": 4.0}
    return Outcome(**{**usual, **values})


def some_findings() -> list[Any]:
    return [
        finding("crash SIGABRT a.rs PUSH"),
        finding("stall INIT", harm="stall", known="zn-1", fails=False, hits=7, left_out=30),
        finding("disturbed PUSH", harm="disturbed", status="not reproduced", fails=False, confirmed=0),
    ]


def test_what_fails_is_kept_apart_from_what_is_known_and_what_is_doubtful() -> None:
    whole = outcome(findings=some_findings())
    assert [row.bucket for row in whole.new] == ["crash SIGABRT a.rs PUSH"]
    assert [row.bucket for row in whole.known] == ["stall INIT"]
    assert [row.bucket for row in whole.doubtful] == ["disturbed PUSH"]


def test_text_has_rates_coverage_findings_and_how_to_repeat() -> None:
    text = as_text(outcome(findings=some_findings(), restarts=2, slowest_restart=0.7, lost=1.0), "runs/r")
    assert "1200 cases in 4.0 s: 300/s, 400/s while the node was healthy" in text
    assert "0 of 1 pairs of state and message (0.0 %)" in text
    assert "not tried: PUSH in open" in text
    assert "finding: crash SIGABRT a.rs PUSH" in text
    assert "reproduced on 3 of 3 fresh nodes; smallest: 1 message, 9 bytes" in text
    assert "zenoh-fuzz replay runs/r/findings/crash-push" in text
    assert "known finding: stall INIT" in text
    assert "7 cases in open, first: pushes 4, 30 more skipped" in text
    assert "findings: 1 new, 1 known, 1 unconfirmed" in text
    assert "2 restarts, longest 0.70 s" in text


@pytest.mark.parametrize(
    ("message", "words"), [("PUSH", "; not retried"), ("", "; the case responsible is unknown")]
)
def test_what_never_came_again_is_said_as_far_as_it_is_known(message: str, words: str) -> None:
    seen = finding("crash SIGSEGV session", status="seen", message=message, confirmed=0, tries=0)
    assert words in as_text(outcome(findings=[seen]), "runs/r")


def test_what_the_dearest_oracles_cost_is_told_of_all_processes() -> None:
    one = outcome(
        lost=2.0,
        spent={"process": 0.0036, "canary": 0.1, "ping": 0.2, "cpu": 0.004, "stderr": 0.008},
        looks=Counter(process=1000, canary=50, ping=40, cpu=1, stderr=1000),
    )
    looks = "ping {} % (5,000 us per check), canary {} % (2,000 us per check), stderr {} % (8 us per check), cpu {} % (4,000 us per check)"
    text = as_text(one, "r")
    told = looks.format("10.0", "5.0", "0.4", "0.2")
    assert f"oracles took 15.8 % of the time while the node was healthy: {told}\n" in text
    both = as_text(merged([one, outcome(lost=2.0, spent={"ping": 0.1}, looks=Counter(ping=60))]), "r")
    told = looks.replace("5,000", "3,000").format("7.5", "2.5", "0.2", "0.1")
    assert f"oracles took 10.4 % of the time while the node was healthy: {told}\n" in both
    assert "oracles" not in as_text(outcome(), "r")


def test_what_to_type_can_be_typed_whatever_the_folder_is_called() -> None:
    whole = outcome(findings=[finding()])
    assert "zenoh-fuzz replay 'runs/my run/findings/" in as_text(whole, "runs/my run")
    assert "zenoh-fuzz replay 'runs/my run/findings/" in as_markdown(whole, "t", "runs/my run")


def test_page_of_a_run_that_never_began_says_so() -> None:
    page = as_markdown(Outcome(failed="no link to it; is a node listening there?"), "a against b", "")
    assert "**No cases were run.** **Ended early: no link to it; is a node listening there?**" in page
    assert "nothing new" not in page
    assert "100.0 %" not in page


def test_of_nothing_there_is_no_share() -> None:
    part = Part("states", 0, 0)
    assert str(part) == "0 of 0 states"
    page = as_markdown(Outcome(cases=Counter(a=1)), "a against b", "")
    assert "| 0 | 0 | - | states |" in page


def test_lies_that_findings_hide_are_counted() -> None:
    whole = outcome(left_out=7)
    (source,) = (source for _, source in whole.coverage._sources)
    case = next(iter(source.cases(random.Random(1))))
    assert "findings that had been hit often\n" in as_text(whole, "runs/r")
    whole.coverage.leave_out(case)
    assert "findings that had been hit often; 1 edge of a field was not tried because of that\n" in as_text(
        whole, "runs/r"
    )


def test_text_of_a_run_without_findings() -> None:
    text = as_text(outcome(interrupted=True), "runs/r")
    assert "(stopped)" in text
    assert "findings: nothing new" in text
    assert "restarts" not in text


@pytest.mark.parametrize("why", ["the run folder takes up 4.0 GB", ""])
def test_why_a_run_ended_is_said(why: str) -> None:
    text = as_text(outcome(stopped=why), "runs/r")
    assert (f"({why})" in text) == bool(why)


def test_markdown_is_a_table_that_shows_what_is_new_first() -> None:
    page = as_markdown(outcome(findings=some_findings()[::-1]), "pushes against fake 1", "runs/r")
    lines = page.splitlines()
    assert lines[0] == "## zenoh-fuzz: pushes against fake 1"
    table = [
        line for line in lines if line.startswith("| **new**") or "`stall" in line or "`disturbed" in line
    ]
    assert table[0].startswith(
        "| **new** | `crash SIGABRT a.rs PUSH` | open | PUSH | 1 | 3 of 3 | 1 message, 9 bytes |"
    )
    assert "known: zn-1" in page
    assert "| 0 | 1 | 0.0 % | pairs of state and message |" in lines
    assert all(line.count("|") - line.count("\\|") == 9 for line in table)


def test_markdown_of_odd_words_stays_a_table() -> None:
    page = as_markdown(outcome(findings=[finding("crash a|b`c\n# d")]), "x | y\n# z", "r")
    assert "\n# " not in page
    (row,) = [line for line in page.splitlines() if line.startswith("| **new**")]
    assert row.count("|") - row.count("\\|") == 9


def test_junit_counts_failures_skipped_and_errors() -> None:
    whole = outcome(
        findings=some_findings(), cases=Counter({"pushes": 5, "others": 3}), failed="the node is gone"
    )
    suite = fromstring(as_junit(whole, "title", "fake 1", 7)).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5", "failures": "1", "errors": "1", "skipped": "2",
    }  # fmt: skip
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "crash SIGABRT a.rs PUSH"
    assert "zenoh-fuzz replay RUN/findings/crash-push" in (failure.text or "")
    assert [
        case.get("classname") for case in suite.iter("testcase") if case.get("name") == "nothing new"
    ] == ["fuzz.others"]
    values = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert values["pairs of state and message"] == "0 of 1"


def test_junit_is_xml_whatever_a_bucket_says() -> None:
    text = as_junit(outcome(findings=[finding("crash \x00\ud800<&\x1b", detail="\x07")]), "\x01", "n", 1)
    assert fromstring(text.encode("utf-8", "strict")).tag == "testsuites"


def test_nothing_that_is_published_holds_the_bytes() -> None:
    whole = outcome(findings=[finding(detail=f"seen {SECRET}", field=f"PUSH.{SECRET}")], notes=[])
    for text in (as_text(whole, "r"), as_markdown(whole, "t", "r"), as_junit(whole, "t", "n", 1)):
        assert SECRET not in text


def test_processes_are_added_up() -> None:
    one = outcome(
        seconds=4.0, lost=2.0, restarts=1, slowest_restart=0.5, notes=["a"], findings=[finding(hits=2)]
    )
    other = outcome(
        seconds=5.0, restarts=2, slowest_restart=0.9, notes=["a", "b"], findings=[finding(hits=3, job=1)]
    )
    whole = merged([one, other, Outcome(failed="job 2 died")])
    assert (whole.total, whole.seconds, whole.restarts, whole.slowest_restart) == (2400, 5.0, 3, 0.9)
    assert whole.notes == ["a", "b"]
    assert whole.failed == "job 2 died"
    assert [(row.bucket, row.hits) for row in whole.findings] == [("crash PUSH", 5)]


def test_best_confirmed_and_smallest_stands_for_a_bucket() -> None:
    rows = [
        finding(confirmed=1, tries=3, messages=1, size=4, case=9, time_ns=5),
        finding(
            confirmed=3,
            tries=3,
            messages=3,
            size=30,
            state="declared",
            campaign="keys",
            case=2,
            time_ns=1,
            job=1,
        ),
        finding(confirmed=3, tries=3, messages=2, size=90, case=7, time_ns=3, job=2),
        finding("panic PUSH"),
    ]
    first, second = by_bucket(rows)
    assert (first.messages, first.size, first.hits, first.job) == (2, 90, 3, 2)
    # The case was one of that campaign.
    assert (first.state, first.campaign, first.case) == ("declared", "keys", 2)
    assert second.bucket == "panic PUSH"


def test_what_a_node_wrote_reaches_no_terminal_as_it_is() -> None:
    hostile = outcome(findings=[finding("panic \x1b[31m\x00\x07\nfindings: nothing new\u202e")])
    for shown in (as_text(hostile, "r"), as_markdown(hostile, "t", "r")):
        assert "panic \\u001b" in shown.replace("\\\\", "\\")
        assert not {"\x1b", "\x00", "\x07", "\u202e"} & {*shown}
        assert "\nfindings: nothing new" not in shown


def test_many_findings_do_not_flood_the_page() -> None:
    page = as_markdown(outcome(findings=[finding(f"crash {n}") for n in range(80)]), "t", "r")
    assert page.count("| **new**") == 50
    assert "and 30 more" in page


def test_only_what_was_tried_is_the_smallest() -> None:
    untried: dict[str, Any] = {"tries": 0, "confirmed": 0, "messages": 8, "size": 251}
    assert "not retried; sent: 8 messages, 251 bytes" in as_text(outcome(findings=[finding(**untried)]), "r")
    unknown = as_text(outcome(findings=[finding(**untried, message="")]), "r")
    assert "the case responsible is unknown; sent before it: 8 messages, 251 bytes" in unknown


def test_what_several_processes_compared_is_told_in_one_line() -> None:
    one = Compared(
        "other 1", {("open", "PUT", "PUT.Z"), ("open", "PUT", "PUT.T")}, {("open", "PUT", "PUT.Z")}, 1
    )
    other = Compared("other 1", {("open", "PUT", "PUT.Z")}, {("open", "PUT", "PUT.Z")}, 2)
    other.kinds.add(("open", "PUT", "accepted / closed"))
    whole = merged([Outcome(compared=one), Outcome(compared=other)])
    said = "compared with other 1: 1 of 2 fields in their states, by 3 cases; 1 kind of difference"
    assert [line for line in as_text(whole, "r").splitlines() if "compared" in line] == [said]
    assert "compared" not in as_text(merged([Outcome(), Outcome()]), "r")


def test_how_much_longer_a_run_took_is_told_once_and_what_for() -> None:
    one = Outcome(over=3.0, behind={"checking the node": 3.2})
    assert "exceeded" not in as_text(one, "r")
    other = Outcome(over=70.0, behind={"checking the node": 0.2, "minimising findings": 61.0})
    said = "--time was exceeded by 70 s; after the last case it took 3 s for checking the node, 61 s for minimising findings"
    assert [line for line in as_text(merged([one, other]), "r").splitlines() if "exceeded" in line] == [said]
