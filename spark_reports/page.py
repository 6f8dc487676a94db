"""What stands on the page, from top to bottom: the values of a report, grouped and put into words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spark_reports import folders, svg
from spark_reports.report import GONE, NEW, Cell, Change, Finding, Rate, Report, RunLine, Trouble
from spark_reports.rows import FUZZ_VERDICTS

ORDER = ("pass", "deviation", "warning", "fail", "inconclusive", "n/a")
"""Outcomes as they stand in a bar, from good to not known."""

GLYPHS: Mapping[str, str] = {
    "pass": "✓",
    "fail": "✕",
    "warning": "!",
    "deviation": "≠",
    "n/a": "\N{EN DASH}",
    "inconclusive": "?",
}
"""A sign for each outcome, so that nothing rests on colour alone."""

AREAS: Mapping[str, str] = {
    "SCT": "SCOUT",
    "HLO": "HELLO",
    "MSG": "Message layers",
    "BAT": "Batches",
    "VLE": "Variable-length integers",
    "EXT": "Extensions",
    "OAM": "OAM",
    "INIT": "INIT",
    "OPEN": "OPEN",
    "CLS": "CLOSE",
    "KA": "KEEP_ALIVE",
    "FRM": "FRAME",
    "FRG": "FRAGMENT",
    "JOIN": "JOIN",
    "NET": "Network messages",
    "PUSH": "PUSH",
    "REQ": "REQUEST",
    "RSP": "RESPONSE",
    "FIN": "RESPONSE_FINAL",
    "DCL": "DECLARE",
    "INT": "INTEREST",
    "DATA": "Data",
    "PUT": "PUT",
    "DEL": "DEL",
    "QRY": "QUERY",
    "RPL": "REPLY",
    "ERR": "ERR",
    "RTE": "Routing",
    "KEX": "Key expressions",
}
"""Areas of requirements in the order of the specification, with the words for them."""

MAX_VERSIONS = 8
MAX_RUNS = 30
MAX_FINDINGS = 60
MAX_TROUBLES = 200
MAX_OPEN = 6
"""So many verdicts and findings are unfolded from the start."""

BAD_OUTCOMES = ("fail", "warning", "inconclusive", "deviation")

Version = tuple[str, str]


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A node version: what holds for it now."""

    key: Version
    label: str
    counts: Mapping[str, int]
    bar: Markup
    newest_run: str


@dataclass(frozen=True, slots=True)
class Chip:
    """A requirement for one node version; ``outcome`` is empty where it was never tried."""

    number: str
    requirement: str
    outcome: str
    title: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Area:
    """The requirements of one area: a line of chips for each node version."""

    name: str
    title: str
    counts: Mapping[str, int]
    lines: Sequence[tuple[VersionLine, Sequence[Chip]]]


@dataclass(frozen=True, slots=True)
class TroubleCard:
    """Equal verdicts on one test, whatever the node version."""

    trouble: Trouble
    labels: Sequence[str]
    anchors: Sequence[str]
    is_open: bool


@dataclass(frozen=True, slots=True)
class FindingCard:
    """A bucket and its history."""

    finding: Finding
    history: Markup
    is_open: bool


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and its bar."""

    run: RunLine
    bar: Markup
    counts: Mapping[str, int]
    judged: int


@dataclass(frozen=True, slots=True)
class RateView:
    """A campaign in its newest run, and its history."""

    rate: Rate
    mix: Markup
    meter: Markup
    history: Markup
    runs: int


@dataclass(frozen=True, slots=True)
class Page:
    """Everything the template needs, in the order of the page."""

    headline: str
    tone: str
    span: str
    versions: Sequence[VersionLine]
    changes: Sequence[Change]
    new: Sequence[Finding]
    gone: Sequence[Finding]
    comparable: bool
    findings: Sequence[FindingCard]
    troubles: Sequence[TroubleCard]
    areas: Sequence[Area]
    runs: Sequence[RunView]
    rates: Sequence[RateView]
    ailing: Sequence[RunLine]
    report: Report

    @property
    def cases(self) -> int:
        """Number of fuzz cases in all runs."""
        return sum(run.rows.get("fuzz_cases.jsonl", 0) for run in self.report.runs)

    @property
    def bad_lines(self) -> int:
        """Number of lines that are no rows."""
        return sum(run.bad for run in self.report.runs)


def make_page(report: Report) -> Page:
    """Returns the page of a report."""
    versions = version_lines(report)
    troubles = _trouble_cards(report.troubles)
    anchors = {
        requirement: anchor for card in troubles[:MAX_TROUBLES] for requirement, anchor in _pairs(card)
    }
    counted = [run for run in report.runs if run.state != folders.DUPLICATE]
    oldest_first = [run.run_id for run in reversed(counted)]
    headline, tone = verdict(report, versions)
    return Page(
        headline=headline,
        tone=tone,
        span=_span(counted),
        versions=versions,
        changes=report.changes,
        new=[finding for finding in report.findings if finding.status == NEW],
        gone=[finding for finding in report.findings if finding.status == GONE],
        comparable=len(counted) > len({run.node for run in counted}),
        findings=[
            FindingCard(
                finding,
                _history(finding, report.rates, oldest_first),
                number < MAX_OPEN and finding.status != GONE,
            )
            for number, finding in enumerate(report.findings)
        ],
        troubles=troubles,
        areas=_areas(report.cells, versions[:MAX_VERSIONS], anchors),
        runs=[_run_view(run) for run in report.runs],
        rates=_rate_views(report.rates, oldest_first),
        ailing=[run for run in report.runs if run.state != folders.COMPLETE or run.notes or run.bad],
        report=report,
    )


def version_lines(report: Report) -> list[VersionLine]:
    """Returns the node versions that were judged, the one with the newest run first."""
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
    return sorted(lines, key=lambda line: (age[line.newest_run], line.key), reverse=True)


def verdict(report: Report, versions: Sequence[VersionLine]) -> tuple[str, str]:
    """Returns the headline and its tone: ``bad``, ``mixed``, ``good`` or ``none``.

    It speaks of the node version that was judged last, and of the findings that are not gone.
    """
    found = [finding for finding in report.findings if finding.status != GONE]
    counts: Mapping[str, int] = versions[0].counts if versions else {}
    where = f" on {versions[0].label}" if versions else ""
    words = []
    if fails := counts.get("fail", 0):
        words.append(f"{count(fails, 'requirement')} {'fails' if fails == 1 else 'fail'}{where}")
    if found:
        if counts.get("pass") and not fails:
            words.append(f"No requirement fails{where}")
        fresh = sum(finding.status == NEW for finding in found)
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


def _span(runs: Sequence[RunLine]) -> str:
    days = sorted(run.started_at[:10] for run in runs if run.started_at)
    when = "" if not days else f", {days[0]}" if days[0] == days[-1] else f", {days[0]} to {days[-1]}"
    return count(len(runs), "run") + when


def _trouble_cards(troubles: Iterable[Trouble]) -> list[TroubleCard]:
    same: dict[tuple[str, ...], list[Trouble]] = {}
    for trouble in troubles:
        key = (trouble.outcome, trouble.test, trouble.expected, trouble.seen, trouble.reason)
        same.setdefault(key, []).append(trouble)
    taken: set[str] = set()
    cards = []
    for number, group in enumerate(same.values()):
        newest = max(group, key=lambda trouble: trouble.run_id)
        labels = sorted({f"{trouble.node_impl} {trouble.node_version}" for trouble in group})
        anchors = []
        for requirement in newest.requirements:
            anchor = "r-" + re.sub(r"[^A-Za-z0-9-]", "_", requirement)
            anchors.append("" if anchor in taken else anchor)
            taken.add(anchor)
        cards.append(TroubleCard(newest, labels, anchors, number < MAX_OPEN and newest.outcome == "fail"))
    return cards


def _pairs(card: TroubleCard) -> Iterable[tuple[str, str]]:
    return (
        (requirement, anchor)
        for requirement, anchor in zip(card.trouble.requirements, card.anchors, strict=True)
        if anchor
    )


def _areas(cells: Iterable[Cell], versions: Sequence[VersionLine], anchors: Mapping[str, str]) -> list[Area]:
    by_area: dict[str, dict[str, dict[Version, Cell]]] = {}
    shown = {line.key for line in versions}
    for cell in cells:
        key = (cell.node_impl, cell.node_version)
        if key in shown:
            by_area.setdefault(cell.area, {}).setdefault(cell.requirement, {})[key] = cell
    known = list(AREAS)
    order = sorted(by_area, key=lambda name: (known.index(name) if name in AREAS else len(known), name))
    result = []
    for name in order:
        requirements = sorted(by_area[name])
        lines = [
            (
                line,
                [
                    _chip(requirement, by_area[name][requirement].get(line.key), anchors)
                    for requirement in requirements
                ],
            )
            for line in versions
        ]
        lines = [(line, chips) for line, chips in lines if any(chip.outcome for chip in chips)]
        newest = [chip.outcome for chip in lines[0][1]]
        counts = {outcome: newest.count(outcome) for outcome in ORDER if outcome in newest}
        result.append(Area(name, AREAS.get(name, name), counts, lines))
    return result


def _chip(requirement: str, cell: Cell | None, anchors: Mapping[str, str]) -> Chip:
    number = requirement.rpartition("-")[2] or requirement
    if cell is None:
        return Chip(number, requirement, "", f"{requirement}: not tried", "")
    other = f"; earlier runs: {', '.join(cell.other)}" if cell.other else ""
    title = f"{requirement} ({cell.level}): {cell.outcome}{other}"
    anchor = anchors.get(requirement, "") if cell.outcome in BAD_OUTCOMES else ""
    return Chip(number, requirement, cell.outcome, title, anchor)


def _run_view(run: RunLine) -> RunView:
    counts = {name: run.outcomes[name] for name in ORDER}
    return RunView(run, svg.bar(list(counts.items()), run.run_id), counts, sum(counts.values()))


def _history(finding: Finding, rates: Iterable[Rate], oldest_first: Sequence[str]) -> Markup:
    """Draws the cases of a bucket in each run that had one of its campaigns."""
    looked = {rate.run_id for rate in rates if rate.campaign in finding.campaigns} | set(finding.by_run)
    runs = [run_id for run_id in oldest_first if run_id in looked][-MAX_RUNS:]
    values = [
        (f"{run_id}: {count(finding.by_run.get(run_id, 0), 'case')}", float(finding.by_run.get(run_id, 0)))
        for run_id in runs
    ]
    return svg.columns(values, f"cases in each of {count(len(runs), 'run')}, oldest first", kind="o-fail")


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
        runs = [run_id for run_id in oldest_first if run_id in of_run][-MAX_RUNS:]
        values = [(f"{run_id}: {of_run[run_id]:.0f} cases/s", of_run[run_id]) for run_id in runs]
        views.append(
            RateView(
                rate=rate,
                mix=svg.bar([(verdict, rate.verdicts[verdict]) for verdict in FUZZ_VERDICTS], name, css="v"),
                meter=svg.meter(speed, top, f"{speed:.0f} cases/s"),
                history=svg.columns(
                    values, f"cases per second in {count(len(runs), 'run')}, oldest first", kind="meter"
                ),
                runs=len(mine),
            )
        )
    return views
