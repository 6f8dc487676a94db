"""What stands on the page, from top to bottom: the values of a report, grouped and put into words."""

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from statistics import median
from urllib.parse import quote

from markupsafe import Markup

from spark_reports import folders, svg
from spark_reports.grid import ORDER, Grid, Version, make_grid
from spark_reports.report import (
    CHECK_STATUSES,
    DETERMINISTIC,
    FIXED,
    GONE,
    NEW,
    NEW_FAILURE,
    REOPENED,
    SLOWER,
    UNCHANGED,
    Cell,
    CheckChange,
    CoverageLine,
    Finding,
    FirstBad,
    Flaky,
    FoundPoint,
    MutantLine,
    Rate,
    Report,
    RunLine,
    SetInfo,
    Trend,
    Trouble,
)
from spark_reports.rows import FUZZ_VERDICTS, VERDICTS
from spark_reports.text import visible

GLYPHS: Mapping[str, str] = {
    "pass": "✓",
    "fail": "✕",
    "warning": "!",
    "deviation": "≠",
    "n/a": "\N{EN DASH}",
    "inconclusive": "?",
}
"""A sign for each outcome, so that nothing rests on colour alone."""

COVERED: Mapping[str, str] = {
    "requirement": "Requirements",
    "state": "States",
    "message": "Messages",
    "pair": "Messages in states",
    "edge": "Fields",
    "extension": "Extensions",
    "strategy": "Kinds of lies",
    "transition": "Changes of state",
    "answer": "Answers",
}
"""Kinds of coverage in the order of the page, with the words for them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many of each kind the page shows; what is left out is in report.json, and the page says how many.

    Attributes:
        unfolded: So many new failures and findings are unfolded from the start.
        rows: Of tables that have no limit of their own.
    """

    versions: int = 6
    runs: int = 60
    new: int = 40
    changes: int = 150
    flaky: int = 60
    findings: int = 40
    troubles: int = 100
    trends: int = 24
    rows: int = 60
    unfolded: int = 3

    def smaller(self, share: float) -> "Limits":
        """Returns this share of them, but not less than ``LEAST``."""
        return Limits(
            **{
                field.name: max(getattr(LEAST, field.name), int(getattr(self, field.name) * share))
                for field in fields(self)
            }
        )


LEAST = Limits(
    versions=3,
    runs=8,
    new=25,
    changes=10,
    flaky=8,
    findings=12,
    troubles=12,
    trends=6,
    rows=10,
    unfolded=1,
)
"""What there is room for in any case; what is new goes before the rest."""


LAST_RUNS = 60
"""So many runs are in a picture."""

FRESH = (NEW, REOPENED)
"""Findings that the run before did not have."""


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
class ChangeCard:
    """A check that became worse.

    Attributes:
        change: What changed.
        picture: How often it failed, now and before.
        sure: Why this is no accident, one sentence.
        since: Between which versions, one sentence; empty if that is not known.
        expected: What should have been seen, if the newest verdict on the test says so.
        link: Where the capture is, relative to the page; empty if that is not known.
        is_open: Unfolded from the start.
    """

    change: CheckChange
    picture: Markup
    sure: str
    since: str
    expected: str
    link: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class FlakyRow:
    """A flaky check, what became of it from run to run, how often it fails, and when it last changed."""

    flaky: Flaky
    last_flip: str
    story: Markup
    share: Markup
    link: str


@dataclass(frozen=True, slots=True)
class TroubleCard:
    """Equal verdicts on one test, whatever the node version."""

    trouble: Trouble
    labels: Sequence[str]
    anchors: Sequence[str]
    link: str


@dataclass(frozen=True, slots=True)
class FindingCard:
    """A bucket and its history."""

    finding: Finding
    anchor: str
    history: Markup
    link: str
    repeat: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """How much of one kind the newest run tried, and earlier ones."""

    label: str
    line: CoverageLine
    meter: Markup
    history: Markup
    runs: int


@dataclass(frozen=True, slots=True)
class TrendCard:
    """A measured value, its picture and the ends of its axes; the value is that of the newest run that is judged."""

    trend: Trend
    value: float
    picture: Markup
    top: float
    bottom: float
    tone: str


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, its bar, and where its own page or folder is; the link is empty if that is not known."""

    run: RunLine
    link: str
    bar: Markup
    counts: Mapping[str, int]
    judged: int
    role: str


@dataclass(frozen=True, slots=True)
class Making:
    """How runs were made that were made alike, the newest in front, and the batches of all of them."""

    runs: Sequence[RunLine]
    sent: int
    received: int
    undecoded: int


@dataclass(frozen=True, slots=True)
class RateView:
    """A campaign in its newest run, and its history."""

    rate: Rate
    mix: Markup
    meter: Markup
    history: Markup
    runs: int


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the lines of a run."""

    run_id: str
    lines: int
    good: int
    apart: int
    blank: int
    footers: int

    @property
    def balanced(self) -> bool:
        """Whether every line is accounted for."""
        return self.lines == self.good + self.apart + self.blank + self.footers


@dataclass(frozen=True, slots=True)
class Page:
    """Everything the template needs, in the order of the page.

    Attributes:
        new: Findings that are new, and their anchors; empty where the page has no place for one.
        others: Checks that changed, neither new failures nor fixed.
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
    found: Markup
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
    limits: Limits

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
) -> Page:
    """Returns the page of a report.

    Args:
        report: What it says.
        places: Where run folders are, by run id, as ``places_of`` returns them; a capture of a run that is
            not there is named, without a link.
        limits: How much of it is shown.
        grid: That of a page of the same report, if there is one already.
    """
    places, limits = places or {}, limits or Limits()
    versions = version_lines(report)
    troubles = _trouble_cards(report.troubles, places)
    anchors = {
        requirement: anchor for card in troubles[: limits.troubles] for requirement, anchor in _pairs(card)
    }
    counted = [run for run in report.runs if run.state != folders.DUPLICATE]
    oldest_first = [run.run_id for run in reversed(counted)]
    started = {run.run_id: run.started_at for run in report.runs}
    headline, tone = verdict(report, versions)
    trends = [trend for trend in report.trends if trend.points]
    findings = _finding_cards(report, oldest_first, places, limits)
    statuses = _statuses(report)
    mutants = sorted(report.mutants, key=lambda line: (not line.alive, line.requirement))
    return Page(
        headline=headline,
        tone=tone,
        span=_span(counted),
        compared=is_compared(report.sets),
        tiles=_tiles(report),
        versions=versions,
        fresh=_change_cards(report, places, limits),
        statuses=statuses,
        status_bar=svg.bar(list(statuses.items()), "checks", css="c"),
        fixed=[change for change in report.changes if change.status == FIXED],
        others=[change for change in report.changes if change.status not in {NEW_FAILURE, FIXED, UNCHANGED}],
        new=[
            (finding, _anchor(number) if number < limits.findings else "")
            for number, finding in enumerate(report.findings)
            if finding.status in FRESH
        ],
        gone=[finding for finding in report.findings if finding.status == GONE],
        grid=make_grid(report.cells, [line.key for line in versions]) if grid is None else grid,
        anchors=anchors,
        troubles=troubles,
        flaky=[_flaky_row(flaky, started, places) for flaky in report.flaky[: limits.flaky]],
        findings=findings,
        found=_found(report.found),
        coverage=_coverage(report.coverage, oldest_first),
        mutants=[
            (line, svg.meter(line.killed, line.mutants, f"{line.killed} of {line.mutants}"))
            for line in mutants[: limits.rows]
        ],
        killed=(sum(line.killed for line in mutants), sum(line.mutants for line in mutants)),
        trends=[_trend_card(trend, report.sets) for trend in trends[: limits.trends]],
        trends_left_out=max(0, len(trends) - limits.trends),
        rates=_rate_views(report.rates, oldest_first),
        runs=[_run_view(run, report.sets, places) for run in report.runs[: limits.runs]],
        makings=_makings(report.runs),
        accounts=_accounts(report),
        ailing=[run for run in report.runs if run.state != folders.COMPLETE or run.notes or run.bad],
        report=report,
        places=places,
        limits=limits,
    )


def places_of(runs: Mapping[str, Path], page: Path) -> dict[str, str]:
    """Returns where run folders are, as seen from the folder that the page is in, fit for a link."""
    return {run_id: quote(Path(os.path.relpath(path, page)).as_posix()) for run_id, path in runs.items()}


def link(places: Mapping[str, str], run_id: str, path: str) -> str:
    """Returns a link to a file of a run; empty if the run is elsewhere, or the path leads out of its folder."""
    parts = PurePosixPath(path).parts
    if not parts or run_id not in places or path.startswith("/") or ".." in parts or visible(path) != path:
        return ""
    return f"{places[run_id]}/{quote(path)}"


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
    judged = {(run.node_impl, run.node_version) for run in report.runs if run.run_id in report.sets.candidate}
    return sorted(lines, key=lambda line: (line.key in judged, age[line.newest_run], line.key), reverse=True)


def verdict(report: Report, versions: Sequence[VersionLine]) -> tuple[str, str]:
    """Returns the headline and its tone: ``bad``, ``mixed``, ``good`` or ``none``.

    With something to compare with, it speaks of what became worse. Without, of the node version that was
    judged last and of the findings that are not gone.
    """
    where = f" on {versions[0].label}" if versions else ""
    failed = any(not gate.ok for gate in report.gates)
    if not is_compared(report.sets):
        headline, tone = _state(report, versions[0].counts if versions else {}, where)
        return headline, "bad" if failed else tone
    judged = list(dict.fromkeys(f"{pair.node} {pair.candidate_version}" for pair in report.sets.pairs))
    where = f" on {judged[0]}" if len(judged) == 1 else f" on {len(judged)} nodes"
    broken = sum(change.status == NEW_FAILURE for change in report.changes)
    fresh = sum(finding.status in FRESH for finding in report.findings)
    lost = sum(one.kind == "requirement" for one in report.lost)
    slower = sum(trend.status == SLOWER for trend in report.trends)
    worse = [
        count(number, noun) for number, noun in ((broken, "new failure"), (fresh, "new finding")) if number
    ]
    if worse:
        return " and ".join(worse) + where, "bad"
    weaker = [
        f"{count(lost, 'requirement')} no longer covered" if lost else "",
        f"{count(slower, 'measurement')} slower" if slower else "",
    ]
    if any(weaker):
        return ", ".join(filter(None, weaker)) + where, "bad" if failed else "mixed"
    fails = versions[0].counts.get("fail", 0) if versions else 0
    still = f"; {count(fails, 'requirement')} still {'fails' if fails == 1 else 'fail'}" if fails else ""
    return f"Nothing became worse{where}{still}", "bad" if failed else "mixed" if still else "good"


def _state(report: Report, counts: Mapping[str, int], where: str) -> tuple[str, str]:
    found = [finding for finding in report.findings if finding.status != GONE]
    words = []
    if fails := counts.get("fail", 0):
        words.append(f"{count(fails, 'requirement')} {'fails' if fails == 1 else 'fail'}{where}")
    if found:
        if counts.get("pass") and not fails:
            words.append(f"No requirement fails{where}")
        fresh = sum(finding.status in FRESH for finding in found)
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
        return f"{count(counts['pass'], 'requirement')} shown{where}, none broken", "good"
    if any(rate.cases for rate in report.rates):
        return "No findings", "good"
    return "Nothing was judged", "none"


def count(number: int, noun: str) -> str:
    """Returns ``1 finding``, ``2 findings``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", " ")


def certainty(change: CheckChange) -> str:
    """Says in one sentence why a change is no accident."""
    now = f"failed in {change.failed_c} of {count(change.runs_c, 'run')}"
    before = f"in {change.failed_b} of {change.runs_b} before" if change.runs_b else "was not run before"
    if change.certainty == DETERMINISTIC:
        return f"Beyond doubt: {now}, {before}."
    chance = change.q if change.q is not None else change.p
    by_chance = "" if chance is None else f"; by chance alone with probability {chance:.2g}"
    return f"By rate: {now}, {before}{by_chance}."


def slug(bucket: str) -> str:
    """Returns the folder of a finding below ``findings/`` of its run, as the fuzzer names it."""
    words = re.sub(r"[^A-Za-z0-9.]+", "-", bucket).strip("-.").lower()
    return words[:100].rstrip("-.") or "finding"


def _span(runs: Sequence[RunLine]) -> str:
    days = sorted(run.started_at[:10] for run in runs if run.started_at)
    when = "" if not days else f", {days[0]}" if days[0] == days[-1] else f", {days[0]} to {days[-1]}"
    return count(len(runs), "run") + when


def _tiles(report: Report) -> list[Tile]:
    statuses = [change.status for change in report.changes]
    numbers = (
        (statuses.count(NEW_FAILURE), "new failures", "changed", "bad"),
        (sum(finding.status in FRESH for finding in report.findings), "new findings", "changed", "bad"),
        (statuses.count(FIXED), "fixed", "changed", "good"),
        (len(report.flaky), "flaky", "flaky", "mixed"),
        (len(report.lost), "coverage lost", "coverage", "mixed"),
        (sum(trend.status == SLOWER for trend in report.trends), "slower", "trends", "mixed"),
    )
    return [
        Tile(number, label, anchor, tone if number else "quiet") for number, label, anchor, tone in numbers
    ]


def _statuses(report: Report) -> dict[str, int]:
    found = [change.status for change in report.changes]
    counts = {status: found.count(status) for status in CHECK_STATUSES}
    counts[UNCHANGED] += report.unchanged
    return {status: number for status, number in counts.items() if number}


def _rate_of(failed: int, runs: int) -> float | None:
    return failed / runs if runs else None


def _change_cards(report: Report, places: Mapping[str, str], limits: Limits) -> list[ChangeCard]:
    since: dict[tuple[str, str], FirstBad] = {(row.test, row.transport): row for row in report.first_bad}
    expected = {trouble.test: trouble.expected for trouble in report.troubles}
    cards = []
    fresh = [change for change in report.changes if change.status == NEW_FAILURE]
    for number, change in enumerate(fresh[: limits.new]):
        interval = (change.low, change.high) if change.low is not None and change.high is not None else None
        first = since.get((change.test, change.transport))
        words = ""
        if first is not None:
            between = f"between {first.good} and {first.bad}" if first.good else f"in {first.bad} or earlier"
            words = f"{between}, confidence {100 * first.confidence:.0f} %"
        picture = svg.shares(
            None if interval is None else (interval[0] or 0.0, interval[1] or 0.0),
            _rate_of(change.failed_c, change.runs_c),
            _rate_of(change.failed_b, change.runs_b),
            f"failed {change.failed_c} of {change.runs_c} now, {change.failed_b} of {change.runs_b} before",
        )
        capture = link(places, change.run_id, change.capture)
        cards.append(
            ChangeCard(
                change,
                picture,
                certainty(change),
                words,
                expected.get(change.test, ""),
                capture,
                number < limits.unfolded,
            )
        )
    return cards


def _flaky_row(flaky: Flaky, started: Mapping[str, str], places: Mapping[str, str]) -> FlakyRow:
    outcomes = [outcome for _, outcome in flaky.history]
    told = f"{flaky.failed} of {count(flaky.runs, 'run')} failed, {count(flaky.flips, 'flip')}"
    return FlakyRow(
        flaky,
        started.get(flaky.last_flip_run, flaky.last_flip_run),
        svg.story(outcomes, f"{told}, oldest first"),
        svg.shares((flaky.low, flaky.high), flaky.rate, None, told),
        link(places, flaky.run_id, flaky.capture),
    )


def _trouble_cards(troubles: Iterable[Trouble], places: Mapping[str, str]) -> list[TroubleCard]:
    same: dict[tuple[str, ...], list[Trouble]] = {}
    for trouble in troubles:
        key = (trouble.outcome, trouble.test, trouble.expected, trouble.seen, trouble.reason)
        same.setdefault(key, []).append(trouble)
    taken: set[str] = set()
    cards = []
    for group in same.values():
        newest = max(group, key=lambda trouble: trouble.run_id)
        labels = sorted({f"{trouble.node_impl} {trouble.node_version}" for trouble in group})
        anchors = []
        for requirement in newest.requirements:
            anchor = "r-" + re.sub(r"[^A-Za-z0-9-]", "_", requirement)
            anchors.append("" if anchor in taken else anchor)
            taken.add(anchor)
        cards.append(TroubleCard(newest, labels, anchors, link(places, newest.run_id, newest.capture)))
    return cards


def _pairs(card: TroubleCard) -> Iterable[tuple[str, str]]:
    return (
        (requirement, anchor)
        for requirement, anchor in zip(card.trouble.requirements, card.anchors, strict=True)
        if anchor
    )


def _anchor(number: int) -> str:
    return f"f-{number}"


def _finding_cards(
    report: Report, oldest_first: Sequence[str], places: Mapping[str, str], limits: Limits
) -> list[FindingCard]:
    cards = []
    for number, finding in enumerate(report.findings[: limits.findings]):
        folder = f"runs/{finding.run_id}/findings/{slug(finding.bucket)}"
        cards.append(
            FindingCard(
                finding,
                _anchor(number),
                _history(finding, report.rates, oldest_first),
                link(places, finding.run_id, finding.capture),
                f"zenoh-fuzz replay {shlex.quote(visible(folder))}",
                number < limits.unfolded and finding.status in FRESH,
            )
        )
    return cards


def _history(finding: Finding, rates: Iterable[Rate], oldest_first: Sequence[str]) -> Markup:
    """Draws the cases of a bucket in each run that had one of its campaigns."""
    looked = {rate.run_id for rate in rates if rate.campaign in finding.campaigns} | set(finding.by_run)
    runs = [run_id for run_id in oldest_first if run_id in looked][-LAST_RUNS:]
    values = [float(finding.by_run.get(run_id, 0)) for run_id in runs]
    label = f"cases in each of {count(len(runs), 'run')} that looked, oldest first"
    return svg.columns(values, label, kind="o-fail")


def _found(points: Sequence[FoundPoint]) -> Markup:
    if len(points) < 2:
        return Markup("")
    label = f"{count(points[-1].buckets, 'finding')} after {count(points[-1].cases, 'case')}"
    return svg.steps([(point.cases, point.buckets) for point in points], label)


def _coverage(lines: Iterable[CoverageLine], oldest_first: Sequence[str]) -> list[CoverageRow]:
    kinds: dict[str, dict[str, CoverageLine]] = {}
    for line in lines:
        kinds.setdefault(line.kind, {})[line.run_id] = line
    order = sorted(
        kinds, key=lambda kind: (kind not in COVERED, list(COVERED).index(kind) if kind in COVERED else 0)
    )
    rows = []
    for kind in order:
        mine = [kinds[kind][run_id] for run_id in oldest_first if run_id in kinds[kind]]
        if not mine:
            continue
        newest, label = mine[-1], COVERED.get(kind, kind)
        shares = [
            svg.Value(line.tried / line.planned if line.planned else float(line.tried))
            for line in mine[-LAST_RUNS:]
        ]
        words = f"{newest.tried} of {newest.planned}" if newest.planned else f"{newest.tried}"
        rows.append(
            CoverageRow(
                label,
                newest,
                svg.meter(newest.tried, newest.planned, words) if newest.planned else Markup(""),
                svg.line(shares, None, f"{label} in {count(len(shares), 'run')}, oldest first"),
                len(mine),
            )
        )
    return rows


def _trend_card(trend: Trend, sets: SetInfo) -> TrendCard:
    candidate, baseline = set(sets.candidate), set(sets.baseline)
    values = [
        svg.Value(point.value, point.low, point.high, point.run_id in candidate) for point in trend.points
    ]
    before = [point.value for point in trend.points if point.run_id in baseline]
    bottom, top = svg.span(values)
    label = f"{trend.name}, {count(len(values), 'run')}, oldest first"
    tone = {"slower": "bad", "faster": "good"}.get(trend.status, "even")
    newest = next((item for item in reversed(values) if item.judged), values[-1]).value
    return TrendCard(
        trend, newest, svg.line(values, median(before) if before else None, label), top, bottom, tone
    )


def _run_view(run: RunLine, sets: SetInfo, places: Mapping[str, str]) -> RunView:
    counts = {name: run.outcomes[name] for name in ORDER}
    apart = {one.run_id for one in sets.not_comparable}
    role = (
        "judged"
        if run.run_id in sets.candidate
        else "baseline"
        if run.run_id in sets.baseline
        else "not comparable"
        if run.run_id in apart
        else ""
    )
    # The suite leaves a page in its run folder, campaigns alone do not.
    own = (
        f"{places[run.run_id]}/{'index.html' if run.rows.get(VERDICTS) else ''}"
        if run.run_id in places
        else ""
    )
    return RunView(run, own, svg.bar(list(counts.items()), run.run_id), counts, sum(counts.values()), role)


def _makings(runs: Iterable[RunLine]) -> list[Making]:
    alike: dict[tuple[str, ...], list[RunLine]] = {}
    for run in runs:
        environment = run.environment or run.platform
        key = (
            run.command,
            run.harness_version,
            run.harness_commit,
            run.python,
            environment,
            run.configuration,
        )
        alike.setdefault(key, []).append(run)
    return [
        Making(
            group,
            sum(run.sent for run in group),
            sum(run.received for run in group),
            sum(run.undecoded for run in group),
        )
        for group in alike.values()
    ]


def _rate_views(rates: Iterable[Rate], oldest_first: Sequence[str]) -> list[RateView]:
    by_campaign: dict[str, list[Rate]] = {}
    for rate in rates:
        by_campaign.setdefault(rate.campaign, []).append(rate)
    newest = {
        name: max(mine, key=lambda rate: oldest_first.index(rate.run_id))
        for name, mine in by_campaign.items()
    }
    top = max((rate.cases_per_s or 0.0 for rate in newest.values()), default=0.0)
    views = []
    for name, mine in sorted(by_campaign.items()):
        rate = newest[name]
        speed = rate.cases_per_s or 0.0
        of_run = {other.run_id: other.cases_per_s or 0.0 for other in mine}
        runs = [run_id for run_id in oldest_first if run_id in of_run][-LAST_RUNS:]
        label = f"cases per second in {count(len(runs), 'run')}, oldest first"
        views.append(
            RateView(
                rate=rate,
                mix=svg.bar([(verdict, rate.verdicts[verdict]) for verdict in FUZZ_VERDICTS], name, css="v"),
                meter=svg.meter(speed, top, f"{speed:.0f} cases/s"),
                history=svg.columns([of_run[run_id] for run_id in runs], label, kind="meter"),
                runs=len(mine),
            )
        )
    return views


def _accounts(report: Report) -> list[Account]:
    """Adds up the lines of each run; runs with lines kept apart first, then newest first."""
    sums: dict[str, list[int]] = {}
    for line in report.accounts:
        numbers = (line.lines, line.good, line.apart, line.blank, line.footers)
        sums[line.run_id] = [sum(pair) for pair in zip(sums.get(line.run_id, [0] * 5), numbers, strict=True)]
    accounts = [Account(run.run_id, *sums.pop(run.run_id)) for run in report.runs if run.run_id in sums]
    return sorted(accounts, key=lambda account: (account.balanced, not account.apart))
