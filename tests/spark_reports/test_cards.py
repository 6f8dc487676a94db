import dataclasses
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_reports import report
from spark_reports.pages import html_page
from spark_reports.pages.cards import (
    certainty,
    count,
    coverage_rows,
    link,
    missing_of,
    places_of,
    slug,
    typed_of,
)
from spark_reports.pages.page import make_page
from tests.spark_reports.hostile import HOSTILE
from tests.spark_reports.reports import example_report


def test_count_knows_one_from_many() -> None:
    assert [count(number, "run") for number in (0, 1, 12_345)] == ["0 runs", "1 run", "12 345 runs"]


def test_equal_verdicts_of_several_versions_are_one_card(parts: SimpleNamespace) -> None:
    report = parts.report(
        runs=(parts.run(),),
        cells=(parts.cell("fail"),),
        troubles=(
            parts.trouble(),
            parts.trouble(node_version="1.5.1", run_id="r0"),
            parts.trouble(node_version="unknown", run_id="s1"),
            parts.trouble(seen="OPEN"),
        ),
    )
    page = make_page(report)
    assert [card.labels for card in page.troubles] == [
        ["eclipse-zenoh unknown", "eclipse-zenoh 1.5.1", "eclipse-zenoh 1.10.2"],
        ["eclipse-zenoh 1.10.2"],
    ]
    # What to repeat is that of the run that began last, whatever it is called.
    assert page.troubles[0].trouble.run_id == "r1"
    # The requirement has one place on the page, and its row in the grid leads there.
    assert [card.anchors for card in page.troubles] == [["r-ZN-INIT-001"], [""]]
    assert page.anchors == {"ZN-INIT-001": "r-ZN-INIT-001"}


def test_folder_whose_name_is_no_text_has_a_link() -> None:
    odd = Path(os.fsdecode(b"/runs/bad\xff\xfe?"))
    assert places_of({"odd": odd}, Path("/out")) == {"odd": "../runs/bad%FF%FE%3F"}


def test_finding_is_repeated_from_the_folder_that_the_run_was_taken_in_from(parts: SimpleNamespace) -> None:
    runs = {"r1": Path("/here/my runs/r1"), "r2": Path("/elsewhere/r2"), "r4": Path("/gone/r4")}
    typed = typed_of(runs, Path("/here"))
    assert typed == {"r1": "my runs/r1", "r2": "/elsewhere/r2", "r4": "/gone/r4"}

    def met_by(run_id: str, **values: str) -> report.Finding:
        made: report.Finding = parts.finding("a b", run_id=run_id, by_run={run_id: 3}, **values)
        return made

    found = parts.report(
        runs=tuple(parts.run(name) for name in ("r1", "r2", "r3", "r4")),
        findings=(
            *map(met_by, ("r1", "r2", "r3")),
            met_by("r1", confirmed=report.UNHELD),
            met_by("r2", folder="findings/a-b-2"),
            met_by("r2", folder="findings/../../../etc"),
            met_by("r4"),
        ),
    )
    page = make_page(found, {"r1": "../r1", "r2": "../r2"}, typed=typed)
    assert [card.repeat for card in page.findings] == [
        "zenoh-fuzz replay 'my runs/r1/findings/a-b'",
        "zenoh-fuzz replay /elsewhere/r2/findings/a-b",
        "zenoh-fuzz replay findings/a-b",
        "",
        "zenoh-fuzz replay /elsewhere/r2/findings/a-b-2",
        "zenoh-fuzz replay /elsewhere/r2/findings/../../../etc",
        "zenoh-fuzz replay findings/a-b",
    ]
    assert [card.stored for card in page.findings] == [
        *("../r1/findings/a-b", "../r2/findings/a-b", "", "", "../r2/findings/a-b-2", "", ""),
    ]
    assert [card.where for card in page.findings[:2]] == ["", ""]
    assert page.findings[2].where.startswith("In the folder of the run r3: ")
    assert page.findings[3].where.startswith("No finding stores it")
    gone = "In the folder of the run r4: that was /gone/r4 when it was ingested, where it is not now."
    assert page.findings[6].where == gone
    html = html_page.html(page)
    assert "zenoh-fuzz replay &#39;my runs/r1/findings/a-b&#39;" in html
    assert page.findings[2].where in html
    assert page.findings[3].where in html
    links = re.findall(r'<a class="mono" href="([^"]*)">(findings/[^<]*)</a>', html)
    assert links == [
        ("../r1/findings/a-b/", "findings/a-b"),
        ("../r2/findings/a-b/", "findings/a-b"),
        ("../r2/findings/a-b-2/", "findings/a-b-2"),
    ]


def test_places_of_requirements_are_short_and_there(parts: SimpleNamespace) -> None:
    long = [f"ZN-{'x' * 9000}-{number}" for number in range(2)]
    many = (*long, *(f"ZN-{number}" for number in range(20)))
    found = parts.report(
        runs=(parts.run(),),
        cells=tuple(parts.cell("fail", name) for name in many),
        troubles=(parts.trouble(requirements=many),),
    )
    page = make_page(found)
    assert set(page.anchors) == set(many[:12])
    assert len(set(page.anchors.values())) == 12
    html = html_page.html(page)
    for anchor in page.anchors.values():
        assert len(anchor) < 90
        assert f'id="{anchor}"' in html
    linked = set(re.findall(r'href="#(r-[^"]*)"', html))
    assert linked == set(page.anchors.values())


def test_change_says_why_it_is_no_accident() -> None:
    (sure, flaky, *_) = example_report().changes
    assert certainty(sure) == "Certain: failed in 3 of 3 runs, in 0 of 3 before."
    assert certainty(flaky) == (
        "By rate: failed in 0 of 3 runs, in 0 of 3 before; probability by chance alone 0.04."
    )


def test_change_with_few_runs_to_compare_with_is_assumed() -> None:
    change = dataclasses.replace(example_report().changes[0], certainty=report.ASSUMED, runs_b=2)
    assert certainty(change) == (
        "Assumed: failed in 3 of 3 runs, in 0 of 2 before; fewer than 5 runs cannot rule out chance."
    )


def test_change_behind_runs_that_could_not_judge_it_says_so() -> None:
    change = dataclasses.replace(example_report().changes[0], certainty=report.ASSUMED, runs_b=0)
    assert certainty(change) == "Assumed: failed in 3 of 3 runs; no earlier run could judge it."


def test_new_failure_knows_its_versions_and_what_was_expected() -> None:
    (card,) = make_page(example_report()).fresh
    assert card.since == "between 1.2.0 and 1.3.0, confidence 97 %"
    assert card.expected == "INIT(A=1)"


def test_new_failure_in_several_configurations_says_in_which_on_each_card() -> None:
    example = example_report()
    mine, *others = example.changes
    shown = next(run for run in example.runs if run.run_id == mine.run_id)
    keys = [mine.key.replace("transport=tcp", f"transport={name}") for name in ("udp", "tls")]
    runs = [dataclasses.replace(shown, run_id=f"run {number}") for number in range(2)]
    elsewhere = [
        dataclasses.replace(mine, key=key, run_id=run.run_id, failed_c=2)
        for key, run in zip(keys, runs, strict=True)
    ]
    also = (mine, *elsewhere, *others)
    (pair,) = example.sets.pairs
    pairs = (pair, *(dataclasses.replace(pair, key=key) for key in keys))
    found = dataclasses.replace(
        example,
        changes=also,
        runs=(*example.runs, *runs),
        sets=dataclasses.replace(example.sets, pairs=pairs),
    )
    page = make_page(found)
    assert [card.expected for card in page.fresh] == ["INIT(A=1)"] * 3
    assert [card.where for card in page.fresh] == ["transport=tcp", "transport=udp", "transport=tls"]
    assert page.fresh[0].also == ["transport=udp: 2 of 3 fail", "transport=tls: 2 of 3 fail"]
    assert page.fresh[1].also == ["transport=tcp: 3 of 3 fail", "transport=tls: 2 of 3 fail"]
    text = html_page.html(page)
    assert text.count("transport=udp: 2 of 3 fail<br>") == 2
    assert f"{mine.level} transport=udp</span></h3>" in text
    # What saw something else may have met another expectation of the test.
    other = dataclasses.replace(elsewhere[0], seen="something else")
    page = make_page(dataclasses.replace(found, changes=(mine, other, *others)))
    assert [card.expected for card in page.fresh] == ["INIT(A=1)", ""]
    (alone,) = make_page(example).fresh
    assert (alone.where, alone.also) == ("", [])


def test_versions_of_a_new_failure_are_those_of_its_own_node() -> None:
    example = example_report()
    (mine,) = example.first_bad
    other = dataclasses.replace(mine, good="0.1.0", bad="0.2.0")
    others = [
        dataclasses.replace(other, node_impl="another"),
        dataclasses.replace(other, node_whatami="peer"),
        dataclasses.replace(other, environment="another"),
        dataclasses.replace(other, configuration="another"),
    ]
    (card,) = make_page(example_report(first_bad=(others[0], mine, *others[1:]))).fresh
    assert card.since == "between 1.2.0 and 1.3.0, confidence 97 %"
    (card,) = make_page(example_report(first_bad=tuple(others))).fresh
    assert card.since == ""


def test_new_failure_that_no_other_version_was_tried_for_says_nothing_of_versions() -> None:
    (mine,) = example_report().first_bad
    alone = dataclasses.replace(mine, good="", confidence=0.0)
    (card,) = make_page(example_report(first_bad=(alone,))).fresh
    assert card.since == ""
    seldom = dataclasses.replace(alone, between=("1.1.0", "1.2.0"))
    (card,) = make_page(example_report(first_bad=(seldom,))).fresh
    assert card.since == "in 1.3.0 or earlier: 1.2.0 was not run often enough to be sure"


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


def test_findings_over_cases_are_those_of_one_implementation_each() -> None:
    found = example_report()
    theirs = [
        dataclasses.replace(point, node_impl="zenoh-pico", cases=10, buckets=0) for point in found.found[:2]
    ]
    alone = dataclasses.replace(theirs[0], node_impl="once")
    page = make_page(dataclasses.replace(found, found=(*found.found, alone, *theirs)))
    assert [(curve.impl, curve.last) for curve in page.found] == [
        ("", found.found[-1]),
        ("zenoh-pico", theirs[-1]),
    ]
    text = html_page.html(page)
    assert "Findings over cases, zenoh-pico</span>" in text
    assert "Findings over cases</span>" in html_page.html(make_page(found))


def test_finding_whose_folder_is_gone_has_no_link(tmp_path: Path, parts: SimpleNamespace) -> None:
    (tmp_path / "r1" / "findings" / "there").mkdir(parents=True)
    runs = {"r1": tmp_path / "r1"}
    found = parts.report(
        runs=(parts.run("r1"), parts.run("r2")),
        findings=(
            parts.finding("there", run_id="r1"),
            parts.finding("gone", run_id="r1"),
            parts.finding("gone", run_id="r1", confirmed=report.UNHELD),
            parts.finding("gone", run_id="r2"),
        ),
    )
    missing = missing_of(found, runs)
    assert missing == {("r1", "findings/gone")}
    hostile = [f"findings/{'x' * 5000}", "findings/\0", "findings/\udcff"]
    odd = parts.report(findings=[parts.finding("a", run_id="r1", folder=name) for name in hostile])
    assert missing_of(odd, runs) == {("r1", name) for name in hostile}
    page = make_page(found, {"r1": "../r1"}, typed={"r1": "runs/r1"}, missing=missing)
    assert [(card.repeat, card.stored) for card in page.findings[:2]] == [
        ("zenoh-fuzz replay runs/r1/findings/there", "../r1/findings/there"),
        ("zenoh-fuzz replay findings/gone", ""),
    ]
    assert page.findings[1].where.endswith("that was runs/r1 when it was ingested, where it is not now.")


def test_finding_whose_folder_is_gone_is_offered_from_the_newest_run_that_has_it(
    tmp_path: Path, parts: SimpleNamespace
) -> None:
    runs = {name: tmp_path / name for name in ("small", "old", "named", "new", "gone")}
    for name, folder in (("old", "a-b"), ("named", "a-b-2"), ("new", "other")):
        (tmp_path / name / "findings" / folder).mkdir(parents=True)

    def finding(*met: str) -> report.Finding:
        by_run = dict.fromkeys(["small", *met], 1)
        folders = {name: "findings/a-b-2" for name in met if name == "named"}
        made: report.Finding = parts.finding("a b", run_id="small", by_run=by_run, folders=folders)
        return made

    found = parts.report(
        runs=tuple(parts.run(name) for name in ("new", "named", "old", "small")),
        findings=(finding("old", "named", "new"), finding("old"), finding("new"), finding("elsewhere")),
    )
    missing = missing_of(found, runs)
    assert missing == {("small", "findings/a-b"), ("new", "findings/a-b")}
    there = places_of(runs, tmp_path)
    page = make_page(found, there, typed={name: f"runs/{name}" for name in runs}, missing=missing)
    assert [(card.repeat, card.stored) for card in page.findings] == [
        ("zenoh-fuzz replay runs/named/findings/a-b-2", "named/findings/a-b-2"),
        ("zenoh-fuzz replay runs/old/findings/a-b", "old/findings/a-b"),
        ("zenoh-fuzz replay findings/a-b", ""),
        ("zenoh-fuzz replay findings/a-b", ""),
    ]
    assert (
        page.findings[0].where == "As named stores it: the folder of the run with the smallest case is gone."
    )
    assert page.findings[2].where.startswith("In the folder of the run small: ")
    assert page.findings[0].where in html_page.html(page)
    # As a run that is not where it was, and not among the places.
    del there["small"]
    page = make_page(found, there, typed={name: f"runs/{name}" for name in runs}, missing=missing)
    assert page.findings[0].repeat == "zenoh-fuzz replay runs/named/findings/a-b-2"


def test_trends_of_several_nodes_name_theirs() -> None:
    found = example_report()
    other = dataclasses.replace(found.trends[0], key="zenoh-pico client; Linux; transport=udp")
    assert "zenoh-pico client; transport=udp</p>" in html_page.html(
        make_page(dataclasses.replace(found, trends=(*found.trends, other)))
    )
    (key,) = {trend.key for trend in found.trends}
    short = "; ".join(key.split("; ")[::2])
    assert f"{short}</p>" not in html_page.html(make_page(found))


def test_campaigns_of_several_nodes_are_told_apart() -> None:
    found = example_report()
    newest = found.runs[0]
    other = dataclasses.replace(newest, run_id="other", node_impl="zenoh-pico", node_whatami="client")
    rate = dataclasses.replace(found.rates[0], run_id="other")
    page = make_page(dataclasses.replace(found, runs=(other, *found.runs), rates=(*found.rates, rate)))
    runs = {(view.node, view.rate.campaign): view.runs for view in page.rates}
    assert runs["zenoh-pico client", rate.campaign] == 1
    alone = make_page(found).rates
    assert {(view.rate.campaign, view.runs) for view in alone} == {
        (campaign, number) for (node, campaign), number in runs.items() if node != "zenoh-pico client"
    }
    assert "zenoh-pico client</span></td>" in html_page.html(page)
    assert {view.node for view in alone} == {""}


def test_coverage_is_told_for_each_node_and_not_of_those_that_are_wrong_on_purpose() -> None:
    found = example_report()
    newest = found.runs[0]
    pico = dataclasses.replace(newest, run_id="pico", node_impl="zenoh-pico", node_whatami="client")
    mutant = dataclasses.replace(newest, run_id="mutant", node="ref:ZN-INIT-000", node_impl="refnode")
    lines = [
        report.CoverageLine(run_id=run_id, kind="requirement", tried=1, planned=1, cases=1)
        for run_id in ("pico", "mutant")
    ]

    def told(*runs: report.RunLine) -> dict[tuple[str, str], tuple[str, int]]:
        page = make_page(
            dataclasses.replace(found, runs=(*runs, *found.runs), coverage=(*lines, *found.coverage))
        )
        return {(row.label, row.node): (row.line.run_id, row.runs) for row in page.coverage}

    alone = told()
    assert alone["Requirements", ""] == (newest.run_id, len(found.runs))
    assert told(mutant) == alone
    assert told(mutant, pico) == {
        **{(label, "eclipse-zenoh router"): row for (label, _), row in alone.items()},
        ("Requirements", "zenoh-pico client"): ("pico", 1),
    }
    assert [row.line.run_id for row in coverage_rows(lines, [mutant])] == ["mutant"]


def test_coverage_of_campaigns_is_that_of_the_options_that_plan_most() -> None:
    run = example_report().runs[0]
    # Oldest first: all campaigns twice, one of them alone, all again, one alone; of engines that plan alike the newest.
    plans = {"r1": ("all", 90), "r2": ("one", 9), "r3": ("all", 100), "r4": ("one", 99), "r5": ("slow", 100)}
    runs = [dataclasses.replace(run, run_id=name, configuration=plan[0]) for name, plan in plans.items()]
    lines = [
        report.CoverageLine(
            run_id=name, kind=kind, tried=9, planned=planned if kind == "pair" else 0, cases=9
        )
        for name, (_, planned) in plans.items()
        for kind in ("pair", "answer")
    ]

    def told(count: int) -> list[tuple[str, str, int]]:
        known = {one.run_id for one in runs[:count]}
        mine = [line for line in lines if line.run_id in known]
        return [(row.label, row.line.run_id, row.runs) for row in coverage_rows(mine, runs[:count])]

    assert told(2) == [("Messages by state", "r1", 1), ("Answers", "r1", 1)]
    assert told(4) == [("Messages by state", "r3", 2), ("Answers", "r3", 2)]
    assert told(5) == [("Messages by state", "r5", 1), ("Answers", "r5", 1)]
    # Where nothing was planned, all count.
    planless = [line for line in lines if line.kind == "answer"]
    assert [row.runs for row in coverage_rows(planless, runs)] == [5]


def test_coverage_is_that_of_the_newest_run_that_ended() -> None:
    found = example_report()
    killed = dataclasses.replace(found.runs[0], run_id="killed", state="running")
    line = report.CoverageLine(run_id="killed", kind="requirement", tried=3, planned=3, cases=3)
    whole = [one for one in found.coverage if one.kind == "requirement"]
    (row,) = coverage_rows([*whole, line], [*found.runs[::-1], killed])
    assert row.line.run_id == found.runs[0].run_id
    (alone,) = coverage_rows([line], [killed])
    assert alone.line.run_id == "killed"
