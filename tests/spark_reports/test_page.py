from types import SimpleNamespace

import pytest

from spark_reports.page import GLYPHS, ORDER, count, make_page
from spark_reports.rows import OUTCOMES


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


def test_areas_stand_in_the_order_of_the_specification(parts: SimpleNamespace) -> None:
    names = ["ZZZ", "RTE", "SCT", "INIT"]
    report = parts.report(
        runs=(parts.run(),), cells=tuple(parts.cell(requirement=f"ZN-{name}-1", area=name) for name in names)
    )
    assert [area.title for area in make_page(report).areas] == ["SCOUT", "INIT", "Routing", "ZZZ"]


def test_requirement_that_a_version_never_tried_is_left_open(parts: SimpleNamespace) -> None:
    report = parts.report(
        runs=(parts.run("r2", 2), parts.run("r1", 1)),
        cells=(
            parts.cell("pass", "ZN-INIT-001", run_id="r2"),
            parts.cell("fail", "ZN-INIT-001", run_id="r1", node_version="1.5.1", other=("pass",)),
            parts.cell("pass", "ZN-INIT-002", run_id="r1", node_version="1.5.1"),
        ),
    )
    (area,) = make_page(report).areas
    assert [[chip.outcome for chip in chips] for _, chips in area.lines] == [["pass", ""], ["fail", "pass"]]
    assert area.lines[1][1][0].title == "ZN-INIT-001 (MUST): fail; earlier runs: pass"


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
    # The requirement has one place on the page, and its chip leads there.
    assert [card.anchors for card in page.troubles] == [["r-ZN-INIT-001"], [""]]
    assert page.areas[0].lines[0][1][0].anchor == "r-ZN-INIT-001"


def test_runs_that_are_not_whole_are_named(parts: SimpleNamespace) -> None:
    report = parts.report(
        runs=(parts.run("r3"), parts.run("r2", state="cut off", notes=("x",)), parts.run("r1", bad=2))
    )
    page = make_page(report)
    assert [run.run_id for run in page.ailing] == ["r2", "r1"]
    assert page.bad_lines == 2
