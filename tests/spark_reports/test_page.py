import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_reports import report
from spark_reports.grid import ORDER
from spark_reports.page import GLYPHS, certainty, count, link, make_page, places_of, slug
from spark_reports.rows import OUTCOMES
from tests.spark_reports.hostile import HOSTILE
from tests.spark_reports.reports import example_report


def test_every_outcome_has_a_sign_of_its_own() -> None:
    assert set(GLYPHS) == set(ORDER) == set(OUTCOMES)
    assert len(set(GLYPHS.values())) == len(OUTCOMES)


def test_count_knows_one_from_many() -> None:
    assert [count(number, "run") for number in (0, 1, 12_345)] == ["0 runs", "1 run", "12 345 runs"]


def test_headline_speaks_of_the_version_judged_last(parts: SimpleNamespace) -> None:
    report = parts.report(
        runs=(parts.run("r2", 2), parts.run("r1", 1)),
        cells=(
            parts.cell("fail", "ZN-A-1", run_id="r1", node_version="1.10.1"),
            parts.cell("pass", "ZN-A-1", run_id="r2"),
        ),
    )
    page = make_page(report)
    assert (page.headline, page.tone) == ("1 requirement shown on eclipse-zenoh 1.10.2, none broken", "good")
    assert [line.label for line in page.versions] == ["eclipse-zenoh 1.10.2", "eclipse-zenoh 1.10.1"]


@pytest.mark.parametrize(
    ("outcomes", "findings", "words", "tone"),
    [
        (["fail"], [], "1 requirement fails on X", "bad"),
        (["fail", "fail"], ["new", "known"], "2 requirements fail on X; 2 findings, 1 new", "bad"),
        (["pass"], ["known"], "No requirement fails on X; 1 finding", "bad"),
        ([], ["known"], "1 finding", "bad"),
        (["pass"], ["gone"], "1 requirement shown on X, none broken", "good"),
        (
            ["warning", "deviation", "deviation"],
            [],
            "Nothing fails on X; 1 warning, 2 known deviations",
            "mixed",
        ),
        (["inconclusive"], [], "Nothing fails on X; 1 inconclusive", "mixed"),
        (["n/a"], [], "Nothing was judged", "none"),
        ([], [], "Nothing was judged", "none"),
    ],
)
def test_headline_says_the_worst_first(
    parts: SimpleNamespace, outcomes: list[str], findings: list[str], words: str, tone: str
) -> None:
    report = parts.report(
        runs=(parts.run(),),
        cells=tuple(parts.cell(outcome, f"ZN-A-{number}") for number, outcome in enumerate(outcomes)),
        findings=tuple(parts.finding(f"b{number}", status) for number, status in enumerate(findings)),
    )
    page = make_page(report)
    assert page.headline.replace("eclipse-zenoh 1.10.2", "X") == words
    assert page.tone == tone


def test_campaigns_without_findings_are_good_news(parts: SimpleNamespace) -> None:
    page = make_page(parts.report(runs=(parts.run(),), rates=(parts.rate(),)))
    assert (page.headline, page.tone) == ("No findings", "good")


def test_not_applicable_is_not_counted_as_passed(parts: SimpleNamespace) -> None:
    report = parts.report(runs=(parts.run(),), cells=(parts.cell("n/a", "a"), parts.cell("pass", "b")))
    (line,) = make_page(report).versions
    assert (line.counts["pass"], line.counts["n/a"]) == (1, 1)


def test_equal_verdicts_of_several_versions_are_one_card(parts: SimpleNamespace) -> None:
    report = parts.report(
        runs=(parts.run(),),
        cells=(parts.cell("fail"),),
        troubles=(
            parts.trouble(),
            parts.trouble(node_version="1.5.1", run_id="r0"),
            parts.trouble(seen="OPEN"),
        ),
    )
    page = make_page(report)
    assert [card.labels for card in page.troubles] == [
        ["eclipse-zenoh 1.10.2", "eclipse-zenoh 1.5.1"],
        ["eclipse-zenoh 1.10.2"],
    ]
    # The requirement has one place on the page, and its row in the grid leads there.
    assert [card.anchors for card in page.troubles] == [["r-ZN-INIT-001"], [""]]
    assert page.anchors == {"ZN-INIT-001": "r-ZN-INIT-001"}


def test_runs_that_are_not_whole_are_named(parts: SimpleNamespace) -> None:
    report = parts.report(
        runs=(parts.run("r3"), parts.run("r2", state="cut off", notes=("x",)), parts.run("r1", bad=2))
    )
    page = make_page(report)
    assert [run.run_id for run in page.ailing] == ["r2", "r1"]
    assert page.bad_lines == 2


def compared(**values: Any) -> report.Report:
    """A report with something to compare with, in which nothing is worse unless the values say so."""
    nothing: dict[str, Any] = dict.fromkeys(("changes", "findings", "lost", "trends", "gates", "flaky"), ())
    return example_report(**{**nothing, **values})


def test_headline_of_a_comparison_says_what_became_worse() -> None:
    example = example_report()
    assert (make_page(example).headline, make_page(example).tone) == (
        "1 new failure and 2 new findings on eclipse-zenoh router 1.3.0",
        "bad",
    )
    page = make_page(compared(lost=example.lost, trends=example.trends))
    assert (page.headline, page.tone) == (
        "1 requirement no longer covered, 1 measurement slower on eclipse-zenoh router 1.3.0",
        "mixed",
    )


def test_comparison_without_news_is_good_unless_something_still_fails(parts: SimpleNamespace) -> None:
    cells = {"cells": (parts.cell("fail", run_id=example_report().runs[0].run_id),)}
    page = make_page(compared(**cells))
    assert page.tone == "mixed"
    assert page.headline == "Nothing became worse on eclipse-zenoh router 1.3.0; 1 requirement still fails"
    cells = {"cells": (parts.cell(run_id=example_report().runs[0].run_id),)}
    assert make_page(compared(**cells)).tone == "good"


@pytest.mark.parametrize("sets", [report.SetInfo(), example_report().sets])
def test_failed_gate_is_bad_whatever_else_is_good(sets: report.SetInfo, parts: SimpleNamespace) -> None:
    gate = report.GateResult(name="coverage", ok=False, text="")
    cells = (parts.cell(run_id=example_report().runs[0].run_id),)
    assert make_page(compared(cells=cells, sets=sets)).tone == "good"
    assert make_page(compared(cells=cells, sets=sets, gates=(gate,))).tone == "bad"


def test_tiles_count_what_changed_and_nothing_is_quiet() -> None:
    tiles = {tile.label: (tile.number, tile.tone) for tile in make_page(example_report()).tiles}
    assert tiles == {
        "new failures": (1, "bad"),
        "new findings": (2, "bad"),
        "fixed": (1, "good"),
        "flaky": (3, "mixed"),
        "coverage lost": (2, "mixed"),
        "slower": (1, "mixed"),
    }
    assert {tile.tone for tile in make_page(compared()).tiles} == {"quiet"}


def test_every_check_is_counted_once() -> None:
    page = make_page(example_report(checks=120))
    assert sum(page.statuses.values()) == len(page.report.changes) + page.report.unchanged
    assert len(page.fresh) + len(page.fixed) + len(page.others) == len(page.report.changes)


def test_change_says_why_it_is_no_accident() -> None:
    (sure, flaky, *_) = example_report().changes
    assert certainty(sure) == "Beyond doubt: failed in 3 of 3 runs, in 0 of 3 before."
    assert certainty(flaky) == (
        "By rate: failed in 0 of 3 runs, in 0 of 3 before; by chance alone with probability 0.04."
    )


def test_new_failure_knows_its_versions_and_what_was_expected() -> None:
    (card,) = make_page(example_report()).fresh
    assert card.since == "between 1.2.0 and 1.3.0, confidence 97 %"
    assert card.expected == "INIT(A=1)"


def test_trend_is_compared_with_the_median_of_its_baseline() -> None:
    cards = make_page(example_report()).trends
    assert [card.tone for card in cards] == ["bad", "even", "even"]
    # Judged runs are shaded, and what was usual is a dashed line; two runs long ago have neither.
    assert ['class="judged"' in card.picture for card in cards] == [True, True, False]
    assert ['class="level"' in card.picture for card in cards] == [True, True, False]


def test_lines_of_a_run_that_do_not_add_up_stand_first() -> None:
    example = example_report()
    line = report.AccountLine(
        run_id=example.runs[3].run_id, file="x", lines=9, good=5, apart=1, blank=1, footers=1
    )
    accounts = make_page(example_report(accounts=(*example.accounts, line))).accounts
    assert [account.balanced for account in accounts[:2]] == [False, True]
    assert accounts[0].run_id == line.run_id


def test_runs_that_were_made_alike_are_told_once() -> None:
    page = make_page(example_report(runs=60))
    assert [len(making.runs) for making in page.makings] == [60]
    assert page.makings[0].sent == sum(run.sent for run in page.report.runs)


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("captures/a b.pcapng", "../r1/captures/a%20b.pcapng"),
        ("captures/#?javascript:x", "../r1/captures/%23%3Fjavascript%3Ax"),
        ("", ""),
        ("/etc/passwd", ""),
        ("captures/../../../secret", ""),
        ("captures/\u202egnp.exe", ""),
        ("captures/\udc80", ""),
        (HOSTILE, ""),
    ],
)
def test_link_leads_to_a_file_of_its_run_or_nowhere(path: str, there: str) -> None:
    assert link({"r1": "../r1"}, "r1", path) == there
    assert link({"r1": "../r1"}, "r2", path) == ""


def test_places_are_seen_from_the_page() -> None:
    root = Path("/a/runs")
    places = places_of({"r 1": root / "r 1", "r2": Path("/b/r2")}, root / "report")
    assert places == {"r 1": "../r%201", "r2": "../../../b/r2"}


@pytest.mark.parametrize("bucket", ["crash: INIT.lease: x", "..", "", "../../etc", "a" * 300, HOSTILE])
def test_folder_of_a_finding_is_named_as_the_fuzzer_names_it(bucket: str) -> None:
    from fuzz.findings import slug_of

    assert slug(bucket) == slug_of(bucket)


def test_version_that_is_judged_stands_first_though_its_baseline_ran_later() -> None:
    example = example_report()
    (pair,) = example.sets.pairs
    turned = dataclasses.replace(
        pair,
        candidate=pair.baseline,
        baseline=pair.candidate,
        candidate_version=pair.baseline_version,
        baseline_version=pair.candidate_version,
    )
    page = make_page(example_report(sets=dataclasses.replace(example.sets, pairs=(turned,))))
    assert [line.label for line in page.versions[:2]] == ["eclipse-zenoh 1.2.0", "eclipse-zenoh 1.3.0"]
    assert page.headline.endswith("on eclipse-zenoh router 1.2.0")
    # The value of a trend is that of what is judged, not that of the newest run.
    points = page.report.trends[0].points
    judged = [point.value for point in points if point.run_id in turned.candidate]
    assert page.trends[0].value == judged[-1] != points[-1].value


def test_several_nodes_are_counted_in_the_headline() -> None:
    (pair,) = example_report().sets.pairs
    other = dataclasses.replace(pair, key="other", node="zenoh-pico client")
    page = make_page(compared(sets=report.SetInfo(pairs=(pair, other))))
    assert page.headline.startswith("Nothing became worse on 2 nodes")
