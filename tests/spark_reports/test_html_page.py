import dataclasses
import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_reports import report
from spark_reports.folders import STATES
from spark_reports.pages import html_page
from spark_reports.pages.cards import LEAST, Limits
from spark_reports.pages.page import make_page
from spark_reports.pages.text import NONE, percent
from tests.spark_reports.hostile import HOSTILE, with_text
from tests.spark_reports.reports import example_report


class Elements(HTMLParser):
    """Lists the elements of a page, their attributes' names, its links and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.text += data


def html(found: report.Report, **places: str) -> str:
    return html_page.html(make_page(found, places))


def crowded(many: int = 200, **values: Any) -> report.Report:
    """The true size, with much of everything: what a bad week looks like."""
    found = example_report(checks=1000, runs=60, versions=13)
    run = found.runs[0].run_id

    def fill(field: str, **numbered: str) -> tuple[Any, ...]:
        part = getattr(found, field)
        return tuple(
            dataclasses.replace(
                part[number % len(part)], **{name: f"{text} {number}" for name, text in numbered.items()}
            )
            for number in range(many)
        )

    changes = fill("changes", test="suite/test_init.py::test_something_with_a_long_name", seen="CLOSE " * 12)
    more: dict[str, Any] = {
        "changes": tuple(
            dataclasses.replace(change, status=report.NEW_FAILURE) if number % 4 == 0 else change
            for number, change in enumerate(changes)
        ),
        "troubles": fill("troubles", test="suite/test_init.py::test_this", seen="CLOSE(reason=INVALID) " * 5),
        "findings": fill("findings", bucket="crash: INIT.lease: panicked at transport/unicast/link.rs"),
        "flaky": fill("flaky", test="suite/test_open.py::test_that"),
        "lost": fill("lost", name="ZN-OPEN"),
        "trends": fill("trends", name="reply to OPEN, median"),
        "first_bad": fill("first_bad", test="suite/test_init.py::test_this"),
        "differences": fill("differences", test="suite/test_init.py::test_this"),
        "mutants": fill("mutants", requirement="ZN-OPEN"),
        "stale": fill("stale", test="suite/test_init.py::test_this"),
        "not_applicable": fill("not_applicable", reason="needs a router of routers and a peer"),
        "bad_lines": fill("bad_lines", text='{"case": 7, "field": "INIT.lease"}')[:50],
        "sets": dataclasses.replace(
            found.sets,
            not_comparable=tuple(report.NotComparable(run_id=run, why="other machine") for _ in range(50)),
        ),
    }
    return dataclasses.replace(found, **{**more, **values})


@given(text=st.text(st.characters(), min_size=1, max_size=60))
@settings(max_examples=10, deadline=None)
def test_no_string_changes_what_the_page_is_made_of(text: str) -> None:
    same_elements(text)


@pytest.mark.parametrize("text", [HOSTILE, "x" * 100_000, "\ufdfd" * 5_000], ids=["hostile", "long", "wide"])
def test_no_hostile_string_changes_what_the_page_is_made_of(text: str) -> None:
    same_elements(text)


def same_elements(text: str) -> None:
    found = example_report(checks=12, runs=4)
    page = html(with_text(found, text))
    page.encode()
    assert Elements(page).seen == Elements(html(with_text(found, "plain"))).seen
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page
    )
    assert len(page) < html_page.MOST_BYTES


def test_hostile_text_is_shown_as_text() -> None:
    shown = Elements(html(with_text(example_report(), HOSTILE))).text
    assert "<script>alert(1)</script>" in shown
    assert "\\u202e\\x00\\x1b[31m\\udc80" in shown
    assert "{{ 7*7 }}" in shown


def test_page_is_self_contained() -> None:
    page = Elements(html(example_report()))
    assert not [tag for tag, _ in page.seen if tag in {"iframe", "object", "embed", "img", "form"}]
    assert [names for tag, names in page.seen if tag in {"script", "style"}] == [(), ()]
    assert [names for tag, names in page.seen if tag == "link"] == [("rel", "href")]
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert not [
        names for _, names in page.seen if any(name.startswith("on") or name == "style" for name in names)
    ]


def test_policy_of_the_page_knows_its_style_and_script() -> None:
    page = html(example_report())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert f"style-src {html_page.digest(style)};" in policy
    assert f"script-src {html_page.digest(script)};" in policy
    assert len(script.encode()) < 20_000


def test_every_link_leads_to_one_place() -> None:
    for found in (example_report(), crowded()):
        page = Elements(html(found))
        assert len(page.ids) == len(set(page.ids))
        assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_capture_is_a_link_where_its_run_is_known() -> None:
    found = example_report()
    run_id = found.runs[0].run_id
    links = set(Elements(html(found, **{run_id: "../somewhere"})).links)
    assert {
        "../somewhere/index.html",
        "../somewhere/captures/finding.pcapng",
        "../somewhere/captures/ZN-INIT-000.pcapng",
    } <= links
    assert not [link for link in Elements(html(found)).links if "captures" in link]


def test_page_says_first_what_changed_and_last_how_it_was_measured() -> None:
    order = [
        "changed",
        "requirements",
        "verdicts",
        "flaky",
        "findings",
        "coverage",
        "trends",
        "runs",
        "health",
    ]
    assert [name for name in Elements(html(example_report())).ids if name in order] == order


def test_page_opens_with_verdict_and_gates() -> None:
    text = " ".join(Elements(html(example_report())).text.split())
    opening = text[text.index("Zenoh conformance and fuzzing") :]
    wanted = [
        "1 new failure and 2 new findings",
        "new-failures failed: 1 new failure, 0 allowed",
        "What changed",
    ]
    places = [opening.index(words) for words in wanted]
    assert places == sorted(places)


def test_failure_shows_expected_and_seen(parts: SimpleNamespace) -> None:
    found = parts.report(runs=(parts.run(),), troubles=(parts.trouble(),))
    assert re.search("Expected ?INIT ?Seen ?CLOSE", " ".join(Elements(html(found)).text.split()))


def test_checks_that_differ_in_their_parameter_are_told_apart_while_folded(parts: SimpleNamespace) -> None:
    test = "suite/test_x.py::test_y[{}]"
    change = dataclasses.replace(example_report().changes[0], status=report.NEW_FAILURE)
    found = example_report(
        changes=tuple(dataclasses.replace(change, test=test.format(one)) for one in ("small", "large")),
        troubles=tuple(
            dataclasses.replace(parts.trouble(), test=test.format(one)) for one in ("odd", "even")
        ),
    )
    folded = " ".join(re.findall(r"<summary>(.*?)</summary>", html(found), re.DOTALL))
    for one in ("small", "large", "odd", "even"):
        assert f">{one}<" in folded


def test_page_names_the_first_release_that_differs(parts: SimpleNamespace) -> None:
    text = Elements(html(parts.report(differences=(parts.difference(differing=3),)))).text
    for words in ("1.9.0", "13 versions from 1.0.0 to 1.10.2; 2 more differ later", "as required"):
        assert words in text
    assert "Differences between releases" not in html(parts.report())


def test_runs_of_some_tests_are_not_said_to_be_as_before() -> None:
    words = "among the selected tests, the same checks fail"
    found = example_report()
    unselected = tuple(one for one in found.changes if one.status == report.NOT_SELECTED)
    quiet = dataclasses.replace(found, findings=(), changes=())
    assert words not in Elements(html(quiet)).text
    assert words in Elements(html(dataclasses.replace(quiet, changes=unselected))).text


def test_that_nothing_changed_is_said_only_of_what_the_newest_run_got_to() -> None:
    found = example_report(changes=(), findings=(), lost=(), trends=(), gates=(), flaky=())
    cut = dataclasses.replace(found.runs[0], state="cut off")
    words = "as far as the newest runs got, the same checks fail"
    assert words not in html(found)
    assert words in html(dataclasses.replace(found, runs=(cut, *found.runs[1:])))


def test_command_that_is_copied_is_one_whole_line() -> None:
    change = example_report().changes[0]
    for command, shown in ((f"a\nb {'c' * 300}", f"a b {'c' * 300}"), ("d" * 700, None)):
        found = example_report(
            changes=(dataclasses.replace(change, repeat=command),), flaky=(), troubles=(), findings=()
        )
        copied = re.findall(r'<div class="again"><code class="cmd">(.*?)</code>', html(found), re.DOTALL)
        assert copied == ([shown] if shown else [])


def test_every_part_of_a_report_is_on_the_page() -> None:
    text = " ".join(Elements(html(example_report())).text.split())
    for words in (
        "3 of 3 fail",
        "before 0 of 3",
        "Broke between 1.2.0 and 1.3.0",
        "crash: INIT.lease: thread panicked at link 0",
        "reopened",
        "after 39 cases in that run",
        "zenoh-fuzz replay findings/crash-init.lease-thread-panicked-at-link-0",
        "pytest conformance/suite/test_init.py::test_zn_init_000 --node pypi --seed 7",
        "40 % slower than the baseline (p 0.002)",
        "open-ack-lease",
        "no longer seen",
        "No longer tried",
        "no other run has its environment",
        "verdicts.jsonl has no footer",
        "4 after 18 000 cases",
        "fuzz_cases.jsonl:7",
        "no verdict",
    ):
        assert words in text


def test_empty_report_says_so_in_every_part(parts: SimpleNamespace) -> None:
    text = Elements(html(parts.report(runs=(parts.run(),)))).text
    for words in (
        "No run has an earlier one to compare with",
        "No conformance verdicts",
        "no check passed and failed by turns",
        "No fuzz cases in these runs",
        "recorded no coverage",
        "Nothing was measured more than once",
        "All 1 run complete",
    ):
        assert words in text


@pytest.mark.parametrize("state", STATES)
def test_every_state_of_a_run_is_explained_on_the_page(parts: SimpleNamespace, state: str) -> None:
    text = Elements(html(parts.report(runs=(parts.run(state=state, notes=("a note",)),)))).text
    assert STATES[state] in text


def test_page_of_the_true_size_is_small() -> None:
    text = html(example_report(checks=1000, runs=60, versions=13))
    assert len(text.encode()) <= 500 * 1024
    assert len(re.findall(r'class="q ', text)) == 1000
    assert not re.search(r"\d more [a-z ]+ in report\.json", text)


@pytest.mark.parametrize("text", ["", "y" * 3000])
def test_crowded_page_shows_less_and_says_so(text: str) -> None:
    found = crowded() if not text else with_text(crowded(), text)
    run_id = found.findings[0].run_id
    page = make_page(found, {run_id: "mine"}, typed={run_id: "mine"})
    assert len(html_page._render(page).encode()) > html_page.MOST_BYTES
    made = html_page.html(page)
    assert len(made.encode()) <= html_page.MOST_BYTES
    assert re.search(r"\d more [a-z ]+ in report\.json", made)
    assert "zenoh-fuzz replay mine/findings/" in made
    drawn = made.count('<article class="chart')
    assert f"{200 - drawn} more measurements in report.json" in made
    # What is new goes before what was there all along.
    assert made.count('class="evidence"') >= LEAST.new


def test_page_that_cannot_be_made_small_is_written_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_page, "MOST_BYTES", 100)
    assert "What changed" in html(example_report(checks=9, runs=4))


def test_sets_that_changed_are_listed_first_and_those_that_are_not_listed_are_counted() -> None:
    found = example_report(checks=12, runs=4)
    (pair,) = found.sets.pairs
    quiet = [
        dataclasses.replace(pair, key=f"node {number}", node="quiet")
        for number in range(Limits().sets + Limits().rows + 6)
    ]
    page = html(dataclasses.replace(found, sets=dataclasses.replace(found.sets, pairs=(*quiet, pair))))
    text = Elements(page).text
    first, rest = text.split("New failures 1", 1)
    listed = f" of {pair.candidate_version} against "
    assert first.count(listed) == Limits().sets
    assert first.index(f"{pair.node}:") < first.index("quiet:")
    assert f"{Limits().rows + 7} more sets below." in " ".join(first.split())
    assert rest.count(listed) == Limits().rows
    assert "7 more sets in report.json." in rest


def test_limits_shrink_until_they_cannot() -> None:
    assert Limits().smaller(0.5).findings == Limits().findings // 2
    limits = Limits()
    while limits.smaller(0.9) != limits:
        limits = limits.smaller(0.9)
    assert limits == LEAST


def test_same_report_is_the_same_page() -> None:
    assert html(example_report()) == html(example_report())


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, NONE),
        (0.0, "0 %"),
        (0.001, "< 1 %"),
        (0.5, "50 %"),
        (0.999, "> 99 %"),
        (1.0, "100 %"),
    ],
)
def test_percent_is_never_certain_when_it_is_not(share: float | None, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NONE),
        (0.01234, "0.0123"),
        (4.561, "4.56"),
        (123.4, "123"),
        (1_234_567.0, "1\u202f234\u202f567"),
    ],
)
def test_figure_has_about_three_digits(value: float | None, text: str) -> None:
    assert html_page.figure(value) == text


def test_bytes_of_several_stimuli_stand_on_lines_of_their_own() -> None:
    assert html_page.hexdump("0102 03") == "01 02\n03"
    assert html_page.hexdump("0102 030405", 3) == "01 02\n03 … 2 more bytes"
    assert html_page.hexdump("010203", 2) == "01 02 … 1 more byte"
    assert html_page.hexdump("") == ""


def test_fixed_check_shows_how_it_ends_now_and_where() -> None:
    found = example_report()
    fixed = dataclasses.replace(
        found.changes[0], status=report.FIXED, outcome_c="warning", test="suite/test_it.py::test_fixed"
    )
    text = html(dataclasses.replace(found, changes=(fixed,)))
    (row,) = re.findall(r"<tr>(?:(?!</tr>).)*test_fixed.*?</tr>", text.replace("\n", ""))
    assert '<span class="tag o-warning">' in row
    assert '<span class="tag o-pass">' not in row


def test_finding_that_no_gate_counts_says_why() -> None:
    found = example_report()
    shaky = dataclasses.replace(found.findings[0], status=report.NEW, confirmed="not reproduced")
    text = html(dataclasses.replace(found, findings=(shaky,)))
    assert '<span class="tag o-na">new</span><span class="tag o-na">not reproduced</span>' in text
    sure = dataclasses.replace(shaky, confirmed="confirmed")
    assert '<span class="tag o-fail">new</span>' in html(dataclasses.replace(found, findings=(sure,)))


def test_first_affected_releases_of_several_environments_and_options_name_theirs() -> None:
    (pair,) = example_report().first_bad
    pair = dataclasses.replace(pair, runs_bad=9, failed_bad=4)
    alone = html(example_report(first_bad=(pair,)))
    assert pair.configuration not in alone.partition('id="releases"')[2].partition("</section>")[0]
    other = dataclasses.replace(pair, environment="Plan 9", configuration="transport=tls")
    both = html(example_report(first_bad=(pair, other)))
    section = Elements(both.partition('id="releases"')[2].partition("</section>")[0]).text
    for text in (pair.configuration, "Plan 9", "transport=tls", "failed in 4 of 9 runs"):
        assert text in section


def test_gate_that_failed_says_all_that_is_to_be_done() -> None:
    gates = [
        report.GateResult(name=name, ok=name == "holds", text=f"{name} {'x' * 300}")
        for name in ("holds", "fails")
    ]
    text = Elements(html(example_report(gates=tuple(gates)))).text
    assert gates[1].text in text
    assert gates[0].text not in text


def test_what_could_not_be_judged_is_not_marked_as_equal() -> None:
    (trend, *_) = example_report().trends
    for status, mark in (("steady", "="), (report.TOO_FEW, "?")):
        page = html(example_report(trends=(dataclasses.replace(trend, status=status),)))
        assert re.search(rf'<i aria-hidden="true">([^<]*)</i>{status}', page)[1] == mark  # type: ignore[index]
