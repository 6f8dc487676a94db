"""What stands on the page, from top to bottom: the values of a report, grouped and put into words."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spark_reports import folders
from spark_reports.pages import svg
from spark_reports.pages.cards import (
    Account,
    ChangeCard,
    CoverageRow,
    FindingCard,
    FlakyRow,
    FoundCurve,
    Limits,
    Making,
    RateView,
    RunView,
    TrendCard,
    TroubleCard,
    accounts_of,
    anchor,
    anchors_of,
    change_cards,
    count,
    coverage_rows,
    finding_cards,
    flaky_row,
    found_curves,
    makings_of,
    missing_of,
    places_of,
    rate_views,
    run_view,
    trend_card,
    trouble_cards,
    typed_of,
)
from spark_reports.pages.grid import ORDER, Grid, Version, make_grid
from spark_reports.report import (
    CHECK_STATUSES,
    FASTER,
    FIXED,
    GONE,
    NEW_CHECK,
    NO_LONGER_PASSES,
    NOT_RUN,
    NOT_SELECTED,
    SLOWER,
    TOO_FEW,
    UNCHANGED,
    Cell,
    CheckChange,
    Compared,
    Finding,
    Lost,
    MutantLine,
    Report,
    RunLine,
    SetInfo,
    Trend,
)
from spark_reports.rows import BENCHMARKS, VERDICTS

__all__ = [
    "GLYPHS",
    "ORDER",
    "Page",
    "Tile",
    "VersionLine",
    "count",
    "is_compared",
    "make_page",
    "missing_of",
    "places_of",
    "typed_of",
    "verdict",
    "version_lines",
]

GLYPHS: Mapping[str, str] = {
    "pass": "✓",
    "fail": "✕",
    "warning": "!",
    "deviation": "≠",
    "n/a": "\N{EN DASH}",
    "inconclusive": "?",
}
"""A sign for each outcome, so that nothing rests on colour alone."""

_ENDS: Mapping[str, str] = {
    folders.CUT_OFF: "the newest run is cut off",
    folders.FAILED: "the newest run failed",
    folders.RUNNING: "the newest run has not ended",
}

MOST_NAMED = 2
"""More nodes than that are counted in the headline, not named."""


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A node version: what holds for it now."""

    key: Version
    label: str
    counts: Mapping[str, int]
    bar: Markup
    newest_run: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that the page opens with, what it counts, and where more of it stands; tone as in ``verdict``, or ``quiet``."""

    number: int
    label: str
    anchor: str
    tone: str


@dataclass(frozen=True, slots=True)
class Page:
    """Everything the template needs, in the order of the page.

    Attributes:
        new: Findings that are new, and their anchors; empty where the page has no place for one.
        others: Checks that changed, neither new failures nor fixed; those that were not selected are only counted.
        anchors: Where the verdict on a requirement stands, by requirement.
        killed: How many faulty nodes were noticed, and how many there are.
        limits: How many of each kind have a picture or a card; the rest is counted.
    """

    headline: str
    tone: str
    span: str
    compared: bool
    tiles: Sequence[Tile]
    versions: Sequence[VersionLine]
    fresh: Sequence[ChangeCard]
    statuses: Mapping[str, int]
    status_bar: Markup
    fixed: Sequence[CheckChange]
    others: Sequence[CheckChange]
    new: Sequence[tuple[Finding, str]]
    gone: Sequence[Finding]
    grid: Grid
    anchors: Mapping[str, str]
    troubles: Sequence[TroubleCard]
    flaky: Sequence[FlakyRow]
    findings: Sequence[FindingCard]
    found: Sequence[FoundCurve]
    coverage: Sequence[CoverageRow]
    mutants: Sequence[tuple[MutantLine, Markup]]
    killed: tuple[int, int]
    trends: Sequence[TrendCard]
    trends_left_out: int
    rates: Sequence[RateView]
    runs: Sequence[RunView]
    makings: Sequence[Making]
    accounts: Sequence[Account]
    ailing: Sequence[RunLine]
    report: Report
    places: Mapping[str, str]
    typed: Mapping[str, str]
    missing: Collection[tuple[str, str]]
    limits: Limits

    @property
    def against(self) -> Sequence[Compared]:
        """What was compared, where most changed first: new failures, then measurements, then all else."""
        news = Counter(change.key for change in self.report.changes if change.is_news)
        drifted = Counter(trend.key for trend in self.report.trends if trend.status in {SLOWER, FASTER})
        others = Counter(
            change.key for change in self.report.changes if change.status not in {NOT_SELECTED, UNCHANGED}
        )
        pairs = [pair for pair in self.report.sets.pairs if pair.baseline]
        return sorted(pairs, key=lambda pair: (-news[pair.key], -drifted[pair.key], -others[pair.key]))

    @property
    def cases(self) -> int:
        """Number of fuzz cases in all runs."""
        return sum(run.rows.get("fuzz_cases.jsonl", 0) for run in self.report.runs)

    @property
    def bad_lines(self) -> int:
        """Number of lines that are no rows."""
        return sum(run.bad for run in self.report.runs)


def make_page(
    report: Report,
    places: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    grid: Grid | None = None,
    typed: Mapping[str, str] | None = None,
    missing: Collection[tuple[str, str]] = (),
) -> Page:
    """Returns the page of a report.

    Args:
        report: What it says.
        places: Where run folders are, by run id, as ``places_of`` returns them; a capture of a run that is
            not there is named, without a link.
        limits: How much of it is shown.
        grid: That of a page of the same report, if there is one already.
        typed: What to type for run folders, by run id, as ``typed_of`` returns them; also for those that are not where
            they were and so not among the places.
        missing: Findings that are not in the folder of their run, as ``missing_of`` returns them.
    """
    places, limits, typed = places or {}, limits or Limits(), typed or {}
    versions = version_lines(report)
    started = {run.run_id: run.started_at for run in report.runs}
    troubles = trouble_cards(report.troubles, started, places)
    anchors = {
        requirement: anchor
        for card in troubles[: limits.troubles]
        for requirement, anchor in anchors_of(card)
    }
    counted = [run for run in report.runs if run.state != folders.DUPLICATE]
    oldest_first = [run.run_id for run in reversed(counted)]
    headline, tone = verdict(report, versions)
    trends = [trend for trend in report.trends if trend.points]
    findings = finding_cards(report, oldest_first, places, typed, limits, missing)
    statuses = _statuses(report)
    mutants = sorted(report.mutants, key=lambda line: (not line.alive, line.requirement))
    return Page(
        headline=headline,
        tone=tone,
        span=_span(counted),
        compared=is_compared(report.sets),
        tiles=_tiles(report),
        versions=versions,
        fresh=change_cards(report, places, limits),
        statuses=statuses,
        status_bar=svg.bar(list(statuses.items()), "checks", css="c"),
        fixed=[change for change in report.changes if change.status == FIXED],
        others=[
            change
            for change in report.changes
            if not change.is_news and change.status not in {FIXED, NOT_SELECTED, UNCHANGED}
        ],
        new=[
            (finding, anchor(number) if number < limits.findings else "")
            for number, finding in enumerate(report.findings)
            if finding.is_news
        ],
        gone=_gone(report),
        grid=make_grid(report.cells, [line.key for line in versions], _selected(report))
        if grid is None
        else grid,
        anchors=anchors,
        troubles=troubles,
        flaky=[flaky_row(flaky, started, places) for flaky in report.flaky[: limits.flaky]],
        findings=findings,
        found=found_curves(report.found),
        coverage=coverage_rows(report.coverage, counted[::-1]),
        mutants=[
            (line, svg.meter(line.killed, line.mutants, f"{line.killed} of {line.mutants}"))
            for line in mutants[: limits.rows]
        ],
        killed=(sum(line.killed for line in mutants), sum(line.mutants for line in mutants)),
        trends=[trend_card(trend, report.sets) for trend in trends[: limits.trends]],
        trends_left_out=max(0, len(trends) - limits.trends),
        rates=rate_views(report.rates, counted[::-1]),
        runs=[run_view(run, report.sets, places) for run in report.runs[: limits.runs]],
        makings=makings_of(report.runs),
        accounts=accounts_of(report),
        ailing=[run for run in report.runs if run.state != folders.COMPLETE or run.notes or run.bad],
        report=report,
        places=places,
        typed=typed,
        missing=missing,
        limits=limits,
    )


def is_compared(sets: SetInfo) -> bool:
    """Whether there was anything to compare with."""
    return any(pair.baseline for pair in sets.pairs)


def version_lines(report: Report) -> list[VersionLine]:
    """Returns the node versions that were judged, those that are compared first, then the one with the newest run."""
    counted = (run for run in report.runs if run.state != folders.DUPLICATE)
    age = {run.run_id: (run.started_at, run.run_id) for run in counted}
    cells: dict[Version, list[Cell]] = {}
    for cell in report.cells:
        cells.setdefault((cell.node_impl, cell.node_version), []).append(cell)
    lines = []
    for key, mine in cells.items():
        counts = {name: sum(cell.outcome == name for cell in mine) for name in ORDER}
        label = " ".join(filter(None, key)) if key != ("unknown", "unknown") else "unknown node"
        newest = max((cell.run_id for cell in mine), key=lambda run_id: age[run_id])
        lines.append(VersionLine(key, label, counts, svg.bar(list(counts.items()), label), newest))
    # Campaigns have no requirements: what they were played against says nothing of what the grid shows.
    judged = {
        (run.node_impl, run.node_version)
        for run in report.runs
        if run.run_id in report.sets.candidate and any(run.outcomes.values())
    }
    return sorted(lines, key=lambda line: (line.key in judged, age[line.newest_run], line.key), reverse=True)


def verdict(report: Report, versions: Sequence[VersionLine]) -> tuple[str, str]:
    """Returns the headline and its tone: ``bad``, ``mixed``, ``good`` or ``none``.

    With something to compare with, it speaks of what became worse on the nodes that were compared, and names the
    others. Without, of the node version that was judged last and of the findings that are not gone. Where the newest
    runs are not whole or were not judged, it says that not all can be told.
    """
    headline, tone = _verdict(report, versions)
    if unknown := _unknown(report):
        return f"{headline}; {unknown}", "mixed" if tone in {"good", "none"} else tone
    return headline, tone


def _verdict(report: Report, versions: Sequence[VersionLine]) -> tuple[str, str]:
    where = f" on {versions[0].label}" if versions else ""
    failed = any(not gate.ok for gate in report.gates)
    if not is_compared(report.sets):
        headline, tone = _state(report, versions[0].counts if versions else {}, where)
        return headline, "bad" if failed else tone
    fails, fails_alone = _fails(report)
    alone = _alone(report.sets, fails_alone)
    broken = [change for change in report.changes if change.is_news]
    fresh = [finding for finding in report.findings if finding.is_news]
    lost = [one for one in report.lost if one.kind == "requirement" and not _may_come(one, report)]
    pairs = [one for one in report.lost if one.kind == "pair"]
    slower = [trend for trend in report.trends if trend.status == SLOWER]
    shaky = [change for change in report.changes if change.is_newly_flaky]
    unproven = _failing_from_the_start(report)
    softer = [change for change in report.changes if change.status == NO_LONGER_PASSES]
    worse = [
        count(len(ones), noun) for ones, noun in ((broken, "new failure"), (fresh, "new finding")) if ones
    ]
    if worse:
        return " and ".join(worse) + _on(report.sets, broken, fresh) + alone, "bad"
    weaker = [
        f"{count(len(lost), 'requirement')} no longer covered" if lost else "",
        f"{count(len(pairs), 'pair')} of state and message no longer tried" if pairs else "",
        f"{count(len(slower), 'measurement')} slower" if slower else "",
        f"{count(len(shaky), 'check')} began to fail now and then" if shaky else "",
        f"{count(len(softer), 'check')} no longer {'passes' if len(softer) == 1 else 'pass'}"
        if softer
        else "",
        f"{count(len(unproven), 'new check')} {'fails' if len(unproven) == 1 else 'fail'}"
        if unproven
        else "",
    ]
    if any(weaker):
        where = _on(report.sets, (*lost, *pairs, *slower, *shaky, *softer, *unproven))
        return ", ".join(filter(None, weaker)) + where + alone, "bad" if failed else "mixed"
    where = _on(report.sets)
    still = f"; {count(fails, 'requirement')} still {'fails' if fails == 1 else 'fail'}" if fails else ""
    tone = "bad" if failed else "mixed" if fails or fails_alone else "good"
    known = "Nothing worse seen" if _unknown(report) else "Nothing got worse"
    return f"{known}{where}{still}{alone}", tone


def _failing_from_the_start(report: Report) -> list[CheckChange]:
    """Returns the new checks that fail on nodes that are compared with something: nobody can tell that it is news."""
    keys = {pair.key for pair in report.sets.pairs if pair.baseline}
    return [
        change
        for change in report.changes
        if change.status == NEW_CHECK and change.failed_c and not change.quarantine and change.key in keys
    ]


def _on(sets: SetInfo, worse: Sequence[CheckChange | Lost | Trend] = (), met: Sequence[Finding] = ()) -> str:
    """Returns on which nodes something became worse, or else which were compared; of many, how many."""
    keys = {one.key for one in worse}
    runs = {run_id for finding in met for run_id in finding.by_run}
    compared = _labels(pair for pair in sets.pairs if pair.baseline)
    found = _labels(pair for pair in sets.pairs if pair.key in keys or not runs.isdisjoint(pair.candidate))
    named = found or compared
    if len(named) <= MOST_NAMED:
        return f" on {' and '.join(named)}"
    some = f" of {len(compared)}" if len(named) < len(compared) else ""
    return f" on {len(named)}{some} nodes"


def _may_come(lost: Lost, report: Report) -> bool:
    """Tells whether no judged run has tried it because none of its key is whole."""
    state = {run.run_id: run.state for run in report.runs if run.state != folders.DUPLICATE}
    judged = [run_id for pair in report.sets.pairs if pair.key == lost.key for run_id in pair.candidate]
    return lost.why == NOT_RUN and all(state.get(one) != folders.COMPLETE for one in judged)


def _unknown(report: Report) -> str:
    """Says why more may have become worse than can be told; empty if nothing speaks for it."""
    words = []
    if states := list(report.not_whole.values()):
        run = _ENDS[states[0]] if len(states) == 1 else f"{len(states)} of the newest runs are incomplete"
        words.append(f"{run}: what {'it' if len(states) == 1 else 'they'} did not get to is unknown")
    if any(pair.selected_only for pair in report.sets.pairs):
        several = len(report.sets.pairs) > 1
        words.append(
            f"{'some of the newest runs have' if several else 'the newest run has'} only the selected tests"
        )
    if unmeasured := _unmeasured(report):
        words.append(f"none of {count(unmeasured, 'measurement')} was judged, as there are too few runs")
    if blind := len(report.blind):
        words.append(f"{count(blind, 'run')} decided no requirement: all is inconclusive or n/a")
    if unread := len(report.sets.unread):
        words.append(
            f"{count(unread, 'run')} that may be newer {'was' if unread == 1 else 'were'} not judged"
        )
    return "; ".join(words)


def _unmeasured(report: Report) -> int:
    """Returns how many measurements were not judged where that is all that the newest runs have to say."""
    judged = set(report.sets.candidate)
    told = {name for run in report.runs if run.run_id in judged for name, rows in run.rows.items() if rows}
    few = told == {BENCHMARKS} and all(trend.status == TOO_FEW for trend in report.trends)
    return len(report.trends) if few else 0


def _selected(report: Report) -> set[Version]:
    """Returns the versions on which every run of the suite left tests out on purpose."""
    runs = [run for run in report.runs if run.rows.get(VERDICTS) and run.state != folders.DUPLICATE]
    whole = {(run.node_impl, run.node_version) for run in runs if not run.is_partial}
    return {(run.node_impl, run.node_version) for run in runs} - whole


def _labels(pairs: Iterable[Compared]) -> list[str]:
    return list(dict.fromkeys(f"{pair.node} {pair.candidate_version}" for pair in pairs))


def _fails(report: Report) -> tuple[int, int]:
    """Returns how many requirements fail on nodes that are compared with something, and how many on the others."""
    with_baseline = {run_id for pair in report.sets.pairs if pair.baseline for run_id in pair.candidate}
    alone = set(report.sets.candidate) - with_baseline
    version_of = {run.run_id: (run.node_impl, run.node_version) for run in report.runs}
    compared = {version_of[run_id] for run_id in with_baseline if run_id in version_of}
    failing = [cell for cell in report.cells if cell.outcome == "fail"]
    return (
        len(
            {
                cell.requirement
                for cell in failing
                if cell.run_id in with_baseline
                or ((cell.node_impl, cell.node_version) in compared and cell.run_id not in alone)
            }
        ),
        len({cell.requirement for cell in failing if cell.run_id in alone}),
    )


def _alone(sets: SetInfo, fails: int) -> str:
    """Says which nodes have nothing to compare with; empty if all have something."""
    pairs = [pair for pair in sets.pairs if not pair.baseline]
    if not pairs:
        return ""
    labels = _labels(pairs)
    named = len(labels) == 1 and labels[0] not in _labels(pair for pair in sets.pairs if pair.baseline)
    many = f"{len(pairs)} of {len(sets.pairs)} sets of runs {'has' if len(pairs) == 1 else 'have'}"
    there = f", {count(fails, 'requirement')} {'fails' if fails == 1 else 'fail'} there" if fails else ""
    return f"; {f'{labels[0]} has' if named else many} nothing to compare with{there}"


def _state(report: Report, counts: Mapping[str, int], where: str) -> tuple[str, str]:
    found = [finding for finding in report.findings if finding.status != GONE]
    words = []
    if fails := counts.get("fail", 0):
        words.append(f"{count(fails, 'requirement')} {'fails' if fails == 1 else 'fail'}{where}")
    if found:
        if counts.get("pass") and not fails:
            words.append(f"No requirement fails{where}")
        fresh = sum(finding.is_news for finding in found)
        words.append(count(len(found), "finding") + (f", {fresh} new" if 0 < fresh < len(found) else ""))
    if words:
        return "; ".join(words), "bad"
    softer = [
        count(counts.get("warning", 0), "warning"),
        count(counts.get("deviation", 0), "known deviation"),
        f"{counts.get('inconclusive', 0)} inconclusive",
    ]
    softer = [word for word in softer if not word.startswith("0 ")]
    if softer:
        return f"Nothing fails{where}; {', '.join(softer)}", "mixed"
    if counts.get("pass"):
        return f"{count(counts['pass'], 'requirement')} met{where}, none broken", "good"
    if any(rate.cases for rate in report.rates):
        return "No findings", "good"
    return "Nothing was judged", "none"


def _span(runs: Sequence[RunLine]) -> str:
    days = sorted(run.started_at[:10] for run in runs if run.started_at)
    when = "" if not days else f", {days[0]}" if days[0] == days[-1] else f", {days[0]} to {days[-1]}"
    return count(len(runs), "run") + when


def _tiles(report: Report) -> list[Tile]:
    numbers = (
        (sum(change.is_news for change in report.changes), "new failures", "changed", "bad"),
        (sum(finding.is_news for finding in report.findings), "new findings", "changed", "bad"),
        (_fixed(report), "fixed", "changed", "good"),
        (len(report.flaky), "flaky", "flaky", "mixed"),
        (len(report.lost), "coverage lost", "coverage", "mixed"),
        (sum(trend.status == SLOWER for trend in report.trends), "slower", "trends", "mixed"),
    )
    return [
        Tile(number, label, anchor, tone if number else "quiet") for number, label, anchor, tone in numbers
    ]


def _gone(report: Report) -> list[Finding]:
    """Returns the findings that the baseline met and that are gone; what was gone by then did not change."""
    baseline = set(report.sets.baseline)
    return [
        found for found in report.findings if found.status == GONE and not baseline.isdisjoint(found.by_run)
    ]


def _fixed(report: Report) -> int:
    return sum(change.status == FIXED for change in report.changes) + len(_gone(report))


def _statuses(report: Report) -> dict[str, int]:
    found = [change.status for change in report.changes]
    counts = {status: found.count(status) for status in CHECK_STATUSES}
    counts[UNCHANGED] += report.unchanged
    return {status: number for status, number in counts.items() if number}
