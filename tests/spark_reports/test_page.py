import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from spark_reports import report
from spark_reports.pages import badge
from spark_reports.pages.grid import ORDER
from spark_reports.pages.page import GLYPHS, make_page
from spark_reports.rows import OUTCOMES
from tests.spark_reports.reports import example_report


def test_every_outcome_has_a_sign_of_its_own() -> None:
    assert set(GLYPHS) == set(ORDER) == set(OUTCOMES)
    assert len(set(GLYPHS.values())) == len(OUTCOMES)


def test_headline_speaks_of_the_version_judged_last(parts: SimpleNamespace) -> None:
    report = parts.report(
        runs=(parts.run("r2", 2), parts.run("r1", 1)),
        cells=(
            parts.cell("fail", "ZN-A-1", run_id="r1", node_version="1.10.1"),
            parts.cell("pass", "ZN-A-1", run_id="r2"),
        ),
    )
    page = make_page(report)
    assert (page.headline, page.tone) == ("1 requirement met on eclipse-zenoh 1.10.2, none broken", "good")
    assert [line.label for line in page.versions] == ["eclipse-zenoh 1.10.2", "eclipse-zenoh 1.10.1"]


@pytest.mark.parametrize(
    ("outcomes", "findings", "words", "tone"),
    [
        (["fail"], [], "1 requirement fails on X", "bad"),
        (["fail", "fail"], ["new", "known"], "2 requirements fail on X; 2 findings, 1 new", "bad"),
        (["pass"], ["known"], "No requirement fails on X; 1 finding", "bad"),
        ([], ["known"], "1 finding", "bad"),
        (["pass"], ["gone"], "1 requirement met on X, none broken", "good"),
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
        (
            "1 requirement no longer covered, 1 pair of state and message no longer tried, 1 measurement slower "
            "on eclipse-zenoh router 1.3.0"
        ),
        "mixed",
    )


@pytest.mark.parametrize(
    ("outcome", "change", "said", "tone"),
    [
        (
            "fail",
            {"candidate_version": "2.0"},
            "eclipse-zenoh router 2.0 has X, 1 requirement fails there",
            "mixed",
        ),
        ("pass", {"candidate_version": "2.0"}, "eclipse-zenoh router 2.0 has X", "good"),
        # The same version on another machine.
        ("fail", {"key": "elsewhere"}, "1 of 2 sets of runs has X, 1 requirement fails there", "mixed"),
    ],
)
def test_headline_counts_only_nodes_that_were_compared(
    outcome: str, change: dict[str, Any], said: str, tone: str
) -> None:
    example = compared()
    (pair,) = example.sets.pairs
    other = dataclasses.replace(pair, candidate=("alone",), baseline=(), **change)
    version = change.get("candidate_version", pair.candidate_version)
    run = dataclasses.replace(example.runs[0], run_id="alone", node_version=version, started_at="2026-12-31T")
    cell = dataclasses.replace(
        example.cells[0], requirement="ZN-OTHER-001", run_id="alone", node_version=version, outcome=outcome
    )
    passing = tuple(dataclasses.replace(one, outcome="pass") for one in example.cells)
    found = dataclasses.replace(
        example,
        runs=(run, *example.runs),
        cells=(cell, *passing),
        sets=dataclasses.replace(example.sets, pairs=(pair, other)),
    )
    page = make_page(found)
    said = said.replace("X", "nothing to compare with")
    assert page.headline == f"Nothing got worse on eclipse-zenoh router 1.3.0; {said}"
    assert page.tone == tone
    still = dataclasses.replace(example.cells[0], outcome="fail", node_version=pair.candidate_version)
    page = make_page(dataclasses.replace(found, cells=(cell, *passing, still)))
    assert page.headline == (
        f"Nothing got worse on eclipse-zenoh router 1.3.0; 1 requirement still fails; {said}"
    )


def ending(state: str, found: report.Report) -> report.Report:
    """The report, whose newest run ended otherwise."""
    newest = dataclasses.replace(found.runs[0], state=state)
    return dataclasses.replace(found, runs=(newest, *found.runs[1:]))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("running", "the newest run has not ended"),
        ("cut off", "the newest run is cut off"),
        ("failed", "the newest run failed"),
    ],
)
def test_headline_over_a_run_that_is_not_whole_says_what_cannot_be_told(
    state: str, said: str, parts: SimpleNamespace
) -> None:
    cells = (parts.cell(run_id=example_report().runs[0].run_id),)
    page = make_page(ending(state, compared(cells=cells)))
    assert page.headline == (
        f"Nothing worse seen on eclipse-zenoh router 1.3.0; {said}: what it did not get to is unknown"
    )
    assert page.tone == "mixed"
    page = make_page(ending(state, example_report()))
    assert page.headline.startswith("1 new failure and 2 new findings on ")
    assert page.headline.endswith("is unknown")
    assert page.tone == "bad"
    alone = make_page(ending(state, compared(cells=cells, sets=report.SetInfo(pairs=(_alone(),)))))
    assert alone.headline.startswith("1 requirement met on ")
    assert (alone.headline.endswith("is unknown"), alone.tone) == (True, "mixed")


@pytest.mark.parametrize("outcome", ["inconclusive", "n/a"])
def test_headline_over_a_run_that_decided_nothing_says_so(outcome: str, parts: SimpleNamespace) -> None:
    newest, before = (run.run_id for run in example_report().runs[:2])
    seen = [parts.cell(outcome, f"ZN-A-{number}", run_id=newest) for number in range(2)]
    found = compared(cells=(*seen, parts.cell(run_id=before)))
    assert found.blind == (newest,)
    assert make_page(found).headline == (
        "Nothing worse seen on eclipse-zenoh router 1.3.0; 1 run decided no requirement: all is inconclusive or n/a"
    )
    some = compared(cells=(*seen, parts.cell("fail", "ZN-A-2", run_id=newest)))
    assert (some.blind, "decided" in make_page(some).headline) == ((), False)


@pytest.mark.parametrize(
    ("number", "words"), [(1, "1 check no longer passes on "), (3, "3 checks no longer pass on ")]
)
def test_headline_says_how_many_checks_no_longer_pass(number: int, words: str) -> None:
    ones = [
        dataclasses.replace(
            example_report().changes[0], status=report.NO_LONGER_PASSES, test=f"t{at}", outcome_c="deviation"
        )
        for at in range(number)
    ]
    page = make_page(compared(changes=tuple(ones)))
    assert page.headline == f"{words}eclipse-zenoh router 1.3.0"
    assert page.tone == "mixed"


def _alone() -> report.Compared:
    (pair,) = example_report().sets.pairs
    return dataclasses.replace(pair, baseline=())


def test_requirement_that_a_run_without_end_did_not_get_to_is_not_called_lost() -> None:
    found = compared(lost=example_report().lost)
    (lost,) = (one for one in found.lost if one.kind == "requirement")
    found = dataclasses.replace(found, lost=(dataclasses.replace(lost, why=report.NOT_RUN),))
    (pair,) = found.sets.pairs
    only = dataclasses.replace(pair, candidate=pair.candidate[:1])
    found = dataclasses.replace(found, sets=dataclasses.replace(found.sets, pairs=(only,)))
    assert make_page(found).headline.startswith("1 requirement no longer covered on ")
    assert make_page(ending("running", found)).headline.startswith("Nothing worse seen on ")
    said = dataclasses.replace(found, lost=(dataclasses.replace(lost, why="n/a"),))
    assert make_page(ending("running", said)).headline.startswith("1 requirement no longer covered on ")


def test_headline_says_that_states_are_not_reached_any_more() -> None:
    (lost,) = (one for one in example_report().lost if one.kind == "pair")
    pairs = tuple(dataclasses.replace(lost, name=name) for name in ("OPEN in open", "INIT in open"))
    page = make_page(compared(lost=pairs))
    assert page.headline == "2 pairs of state and message no longer tried on eclipse-zenoh router 1.3.0"
    assert page.tone == "mixed"


def test_headline_says_that_new_checks_fail() -> None:
    (flaky,) = (one for one in example_report().changes if one.status == report.FLAKY)
    new = dataclasses.replace(flaky, status=report.NEW_CHECK, failed_c=2, runs_b=0, failed_b=0)
    page = make_page(compared(changes=(new,)))
    assert (page.headline, page.tone) == ("1 new check fails on eclipse-zenoh router 1.3.0", "mixed")
    for quiet in (dataclasses.replace(new, failed_c=0), dataclasses.replace(new, quarantine="until then")):
        assert "new check" not in make_page(compared(changes=(quiet,))).headline
    # With nothing to compare with every check is new, and the headline is of the state of the node.
    alone = dataclasses.replace(new, key="another")
    assert "new check" not in make_page(compared(changes=(alone,))).headline


def test_headline_says_that_checks_began_to_fail_now_and_then() -> None:
    (flaky,) = (one for one in example_report().changes if one.status == report.FLAKY)
    newly = dataclasses.replace(flaky, failed_c=2, failed_b=0)
    page = make_page(compared(changes=(newly, dataclasses.replace(newly, test="another"))))
    assert page.headline == "2 checks began to fail now and then on eclipse-zenoh router 1.3.0"
    assert page.tone == "mixed"
    for old in ({"failed_b": 1}, {"failed_c": 0}, {"quarantine": "2026-12-31, it hangs"}):
        page = make_page(compared(changes=(dataclasses.replace(newly, **old),)))
        assert page.headline.startswith("Nothing got worse on")


def test_signs_of_the_grid_are_of_a_version_whose_requirements_were_judged() -> None:
    found = example_report()
    newest = found.runs[0]
    campaign = dataclasses.replace(
        newest,
        run_id="campaign",
        node_version="1.0.0",
        started_at="2099-01-01T00:00:00Z",
        outcomes=dict.fromkeys(newest.outcomes, 0),
    )
    cells = (*found.cells, *(dataclasses.replace(cell, run_id="campaign") for cell in found.cells[:1]))
    sets = dataclasses.replace(
        found.sets,
        pairs=(*found.sets.pairs, dataclasses.replace(found.sets.pairs[0], candidate=("campaign",))),
    )
    both = dataclasses.replace(found, runs=(campaign, *found.runs), cells=cells, sets=sets)
    assert make_page(both).versions[0].key == (newest.node_impl, newest.node_version)


def test_headline_over_selected_tests_says_that_they_are_not_all() -> None:
    found = compared()
    (pair,) = found.sets.pairs
    selected = dataclasses.replace(found.sets, pairs=(dataclasses.replace(pair, selected_only=True),))
    found = dataclasses.replace(found, sets=selected)
    page = make_page(found)
    assert page.headline.startswith("Nothing worse seen on ")
    assert page.headline.endswith("; the newest run has only the selected tests")
    assert page.tone == "mixed"
    assert badge.words(found)[0] == "nothing new in some tests"


def test_run_of_selected_tests_says_nothing_of_how_many_requirements_are_covered() -> None:
    found = example_report()
    newest, *earlier = found.runs
    lines = [
        report.CoverageLine(run_id=run.run_id, kind="requirement", tried=tried, planned=9, cases=9)
        for run, tried in ((newest, 2), (earlier[0], 8))
    ]

    def tried(selection: str) -> int:
        runs = (dataclasses.replace(newest, selection=selection), *earlier)
        page = make_page(dataclasses.replace(found, runs=runs, coverage=tuple(lines)))
        return page.coverage[0].line.tried

    assert [tried(text) for text in ("", "all", "-k close")] == [2, 2, 8]


def test_version_is_of_selected_tests_if_every_run_of_it_is(parts: SimpleNamespace) -> None:
    def selected(*selections: str) -> list[str]:
        runs = tuple(
            parts.run(f"r{day}", day, selection=text, rows={"verdicts.jsonl": 1})
            for day, text in enumerate(selections, 1)
        )
        return list(make_page(parts.report(runs=runs, cells=(parts.cell(run_id="r1"),))).grid.selected)

    assert selected("-k close", "-m slow") == ["1.10.2"]
    assert selected("-k close", "all") == selected("") == []


def test_run_that_was_not_judged_is_told_in_the_headline() -> None:
    found = compared()
    newer = report.NotComparable(run_id="newer", why="its run.json cannot be read")
    page = make_page(dataclasses.replace(found, sets=dataclasses.replace(found.sets, unread=(newer,))))
    assert page.headline.startswith("Nothing worse seen on ")
    assert page.headline.endswith("; 1 run that may be newer was not judged")


@pytest.mark.parametrize(
    ("name", "status", "ends"),
    [
        (
            "benchmarks.jsonl",
            report.TOO_FEW,
            "; none of 3 measurements was judged, as there are too few runs",
        ),
        ("benchmarks.jsonl", report.STEADY, ""),
        # There is more to be told of a run of the suite.
        ("verdicts.jsonl", report.TOO_FEW, ""),
    ],
)
def test_headline_over_benchmarks_alone_says_that_none_was_judged(name: str, status: str, ends: str) -> None:
    trends = tuple(dataclasses.replace(trend, status=status) for trend in example_report().trends)
    found = compared(trends=trends)
    runs = tuple(dataclasses.replace(run, rows={name: 9, "fuzz_cases.jsonl": 0}) for run in found.runs)
    headline = make_page(dataclasses.replace(found, runs=runs)).headline
    assert headline.startswith("Nothing worse seen on " if ends else "Nothing got worse on ")
    assert headline.endswith(ends)


def test_known_finding_is_no_news() -> None:
    findings = tuple(dataclasses.replace(finding, known="reported") for finding in example_report().findings)
    page = make_page(compared(findings=findings))
    assert page.headline.startswith("Nothing got worse")
    assert page.tone != "bad"
    assert [tile.number for tile in page.tiles if tile.label == "new findings"] == [0]


def test_comparison_without_news_is_good_unless_something_still_fails(parts: SimpleNamespace) -> None:
    cells = {"cells": (parts.cell("fail", run_id=example_report().runs[0].run_id),)}
    page = make_page(compared(**cells))
    assert page.tone == "mixed"
    assert page.headline == "Nothing got worse on eclipse-zenoh router 1.3.0; 1 requirement still fails"
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
        "fixed": (2, "good"),
        "flaky": (3, "mixed"),
        "coverage lost": (2, "mixed"),
        "slower": (1, "mixed"),
    }
    assert {tile.tone for tile in make_page(compared()).tiles} == {"quiet"}


def test_finding_that_was_gone_before_the_baseline_is_no_change_of_today() -> None:
    found = example_report()
    (gone,) = make_page(found).gone
    before = [run.run_id for run in found.runs if run.run_id not in found.sets.baseline]
    long_ago = dataclasses.replace(gone, by_run={before[-1]: 3})
    page = make_page(compared(findings=(long_ago,)))
    assert page.gone == []
    assert [tile.number for tile in page.tiles if tile.label == "fixed"] == [0]


def test_every_check_is_counted_once() -> None:
    page = make_page(example_report(checks=120))
    assert sum(page.statuses.values()) == len(page.report.changes) + page.report.unchanged
    others = page.statuses[report.NOT_SELECTED]
    assert len(page.fresh) + len(page.fixed) + len(page.others) + others == len(page.report.changes)


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


def test_headline_names_two_nodes_and_counts_more_of_them() -> None:
    (pair,) = example_report().sets.pairs
    pairs = tuple(
        dataclasses.replace(pair, key=name, node=f"{name} client", candidate=(name,)) for name in "abcd"
    )

    def headline(pairs: tuple[report.Compared, ...], **worse: Any) -> str:
        return make_page(compared(sets=report.SetInfo(pairs=pairs), **worse)).headline

    assert headline(pairs[:2]).startswith("Nothing got worse on a client 1.3.0 and b client 1.3.0")
    assert headline(pairs).startswith("Nothing got worse on 4 nodes")
    broken = next(change for change in example_report().changes if change.is_news)
    changes = tuple(dataclasses.replace(broken, key=name) for name in "bcd")
    assert headline(pairs, changes=changes[:1]) == "1 new failure on b client 1.3.0"
    assert headline(pairs, changes=changes) == "3 new failures on 3 of 4 nodes"
    met = next(finding for finding in example_report().findings if finding.is_news)
    met = dataclasses.replace(met, by_run={"d": 1})
    assert headline(pairs, findings=(met,)) == "1 new finding on d client 1.3.0"
    assert headline(pairs, changes=changes[:1], findings=(met,)) == (
        "1 new failure and 1 new finding on b client 1.3.0 and d client 1.3.0"
    )
    slower = next(trend for trend in example_report().trends if trend.status == report.SLOWER)
    assert headline(pairs, trends=(dataclasses.replace(slower, key="c"),)) == (
        "1 measurement slower on c client 1.3.0"
    )
