"""The parts of the page: values of a report with their pictures, words and links."""

import hashlib
import itertools
import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from statistics import median
from urllib.parse import quote

from markupsafe import Markup

from spark_reports.folders import COMPLETE, DUPLICATE
from spark_reports.frames.statistics import STEADY_RUNS
from spark_reports.frames.versions import nodes_in_order
from spark_reports.pages import svg
from spark_reports.pages.grid import ORDER
from spark_reports.pages.text import percent, visible
from spark_reports.report import (
    ASSUMED,
    DETERMINISTIC,
    NEW,
    REOPENED,
    UNHELD,
    CheckChange,
    CoverageLine,
    Finding,
    FirstBad,
    Flaky,
    FoundPoint,
    Rate,
    Report,
    RunLine,
    SetInfo,
    Trend,
    Trouble,
)
from spark_reports.rows import FUZZ_VERDICTS, VERDICTS

REQUIREMENT = "requirement"

COVERED: Mapping[str, str] = {
    REQUIREMENT: "Requirements",
    "state": "States",
    "message": "Messages",
    "pair": "Messages by state",
    "edge": "Fields",
    "extension": "Extensions",
    "strategy": "Mutation strategies",
    "transition": "State changes",
    "answer": "Answers",
}
"""Kinds of coverage in the order of the page, with the words for them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many of each kind the page shows; what is left out is in report.json, and the page says how many.

    Attributes:
        unfolded: So many new failures and findings are unfolded from the start.
        sets: Of those that were compared, so many stand in front of what changed.
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
    sets: int = 4
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
    sets=4,
    rows=10,
    unfolded=1,
)
"""What there is room for in any case; what is new goes before the rest."""


NAMED = 12
"""So many requirements of a verdict are named on its card."""

_LONG_NAME = 60

LAST_RUNS = 60
"""So many runs are in a picture."""


FRESH = (NEW, REOPENED)
"""Findings that the run before did not have."""


@dataclass(frozen=True, slots=True)
class ChangeCard:
    """A check that became worse.

    Attributes:
        change: What changed.
        picture: How often it failed, now and before.
        sure: Why this is no accident, one sentence.
        since: Between which versions, one sentence; empty if that is not known.
        expected: What should have been seen, if the verdict of the run that is shown, or another that saw the same, says so.
        where: What sets it apart from the same failure under other keys; empty if there is none.
        also: The same of each of those, with how often it fails there.
        link: Where the capture is, relative to the page; empty if that is not known.
        is_open: Unfolded from the start.
    """

    change: CheckChange
    picture: Markup
    sure: str
    since: str
    expected: str
    where: str
    also: Sequence[str]
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
    """A bucket and its history.

    Attributes:
        finding: What is known of it.
        anchor: Its place on the page.
        history: Cases per run, a picture.
        link: Where the capture is, relative to the page; empty if that is not known.
        kept: Its folder in that of a run, with script, capture and test; empty if no finding stores it. Where that of the
            run with the smallest case is gone, the newest run that still has one.
        stored: Where that is, as ``link``.
        repeat: Command that plays it again.
        where: What the command leaves open, in words.
        is_open: Unfolded from the start.
    """

    finding: Finding
    anchor: str
    history: Markup
    link: str
    kept: str
    stored: str
    repeat: str
    where: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class FoundCurve:
    """How the number of findings of an implementation grew, from its first run to its last."""

    impl: str
    first: FoundPoint
    last: FoundPoint
    picture: Markup


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """How much of one kind the newest run on a node tried, and earlier ones; the node is empty where there is but one."""

    label: str
    node: str
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
    """A campaign in its newest run on a node, and its history; the node is empty where there is but one."""

    rate: Rate
    node: str
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


def places_of(runs: Mapping[str, Path], page: Path) -> dict[str, str]:
    """Returns where run folders are, as seen from the folder that the page is in, fit for a link."""
    # Names of folders are bytes, which need not be text.
    return {run_id: quote(os.fsencode(os.path.relpath(path, page))) for run_id, path in runs.items()}


def typed_of(runs: Mapping[str, Path], here: Path) -> dict[str, str]:
    """Returns what to type for each run folder: as seen from ``here`` if it is below, absolute elsewhere."""
    return {
        run_id: str(path.relative_to(here) if path.is_relative_to(here) else path)
        for run_id, path in runs.items()
    }


def link(places: Mapping[str, str], run_id: str, path: str) -> str:
    """Returns a link to a file of a run; empty if the run is elsewhere, or the path leads out of its folder."""
    parts = PurePosixPath(path).parts
    if not parts or run_id not in places or path.startswith("/") or ".." in parts or visible(path) != path:
        return ""
    return f"{places[run_id]}/{quote(path)}"


def count(number: int, noun: str) -> str:
    """Returns ``1 finding``, ``2 findings``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", " ")


def certainty(change: CheckChange) -> str:
    """Says in one sentence why a change is no accident."""
    now = f"failed in {change.failed_c} of {count(change.runs_c, 'run')}"
    before = f"in {change.failed_b} of {change.runs_b} before" if change.runs_b else "was not run before"
    if change.certainty == DETERMINISTIC:
        return f"Certain: {now}, {before}."
    if change.certainty == ASSUMED and not change.runs_b:
        return f"Assumed: {now}; no earlier run could judge it."
    if change.certainty == ASSUMED:
        return f"Assumed: {now}, {before}; fewer than {STEADY_RUNS} runs cannot rule out chance."
    chance = change.q if change.q is not None else change.p
    by_chance = "" if chance is None else f"; probability by chance alone {chance:.2g}"
    return f"By rate: {now}, {before}{by_chance}."


def slug(bucket: str) -> str:
    """Returns the folder of a finding below ``findings/`` of its run, as the fuzzer names it."""
    words = re.sub(r"[^A-Za-z0-9.]+", "-", bucket).strip("-.").lower()
    return words[:100].rstrip("-.") or "finding"


def _alike(one: RunLine | FirstBad) -> tuple[str, ...]:
    """Returns what runs share that are compared with each other."""
    return one.node_impl, one.node_whatami, one.environment, one.configuration


def _rate_of(failed: int, runs: int) -> float | None:
    return failed / runs if runs else None


def change_cards(report: Report, places: Mapping[str, str], limits: Limits) -> list[ChangeCard]:
    """Returns the checks that fail and did not, as many as are shown."""
    since: dict[tuple[str, ...], FirstBad] = {
        (row.test, row.transport, *_alike(row)): row for row in report.first_bad
    }
    place_of = {run.run_id: _alike(run) for run in report.runs if run.state != DUPLICATE}
    # Of several configurations the report has the verdicts of one run, and the test expects the same in all.
    expected: dict[tuple[str, ...], str] = {}
    for trouble in report.troubles:
        expected[trouble.test, trouble.run_id] = trouble.expected
        expected.setdefault((trouble.test, trouble.node_impl, trouble.seen), trouble.expected)
    cards = []
    fresh = [change for change in report.changes if change.is_news]
    alike: dict[tuple[str, ...], list[CheckChange]] = {}
    for change in fresh:
        alike.setdefault((change.test, change.transport), []).append(change)
    shared = {name: _shared(one.key for one in those) for name, those in alike.items()}
    for number, change in enumerate(fresh[: limits.new]):
        interval = (change.low, change.high) if change.low is not None and change.high is not None else None
        first = since.get((change.test, change.transport, *place_of.get(change.run_id, ())))
        words = "" if first is None else _since(first)
        picture = svg.shares(
            None if interval is None else (interval[0] or 0.0, interval[1] or 0.0),
            _rate_of(change.failed_c, change.runs_c),
            _rate_of(change.failed_b, change.runs_b),
            f"failed {change.failed_c} of {change.runs_c} now, {change.failed_b} of {change.runs_b} before",
        )
        capture = link(places, change.run_id, change.capture)
        others = [one for one in alike[change.test, change.transport] if one is not change]
        of_all = shared[change.test, change.transport]
        impl = place_of.get(change.run_id, ("",))[0]
        cards.append(
            ChangeCard(
                change,
                picture,
                certainty(change),
                words,
                expected.get((change.test, change.run_id))
                or expected.get((change.test, impl, change.seen), ""),
                _apart(change.key, of_all) if others else "",
                [f"{_apart(other.key, of_all)}: {other.failed_c} of {other.runs_c} fail" for other in others],
                capture,
                number < limits.unfolded,
            )
        )
    return cards


def _shared(keys: Iterable[str]) -> set[str]:
    """Returns the parts that some keys have in common: node, environment, configuration."""
    return set[str].intersection(*(set(key.split("; ")) for key in keys))


def _apart(key: str, shared: Collection[str]) -> str:
    """Returns the parts of a key that it does not share with others."""
    return "; ".join(part for part in key.split("; ") if part not in shared) or key


def _since(first: FirstBad) -> str:
    """Says between which versions a check broke; nothing where no other version was tried."""
    if first.good:
        return f"between {first.good} and {first.bad}, confidence {percent(first.confidence)}"
    if first.between:
        return f"in {first.bad} or earlier: {first.between[-1]} was not run often enough to be sure"
    return ""


def flaky_row(flaky: Flaky, started: Mapping[str, str], places: Mapping[str, str]) -> FlakyRow:
    """Returns a flaky check with its pictures; ``started`` says when runs began."""
    outcomes = [outcome for _, outcome in flaky.history]
    told = f"{flaky.failed} of {count(flaky.runs, 'run')} failed, {count(flaky.flips, 'flip')}"
    return FlakyRow(
        flaky,
        started.get(flaky.last_flip_run, flaky.last_flip_run),
        svg.story(outcomes, f"{told}, oldest first"),
        svg.shares((flaky.low, flaky.high), flaky.rate, None, told),
        link(places, flaky.run_id, flaky.capture),
    )


def trouble_cards(
    troubles: Iterable[Trouble], started: Mapping[str, str], places: Mapping[str, str]
) -> list[TroubleCard]:
    """Returns the verdicts, equal ones on one test put together; ``started`` says when runs began."""
    same: dict[tuple[str, ...], list[Trouble]] = {}
    for trouble in troubles:
        key = (trouble.outcome, trouble.test, trouble.expected, trouble.seen, trouble.reason)
        same.setdefault(key, []).append(trouble)
    taken: set[str] = set()
    cards = []
    for group in same.values():
        newest = max(group, key=lambda trouble: (started.get(trouble.run_id, ""), trouble.run_id))
        labels = nodes_in_order({f"{trouble.node_impl} {trouble.node_version}" for trouble in group})
        anchors = []
        for number, requirement in enumerate(newest.requirements):
            anchor = _place_of(requirement)
            if number >= NAMED or anchor in taken:
                anchors.append("")
                continue
            anchors.append(anchor)
            taken.add(anchor)
        cards.append(TroubleCard(newest, labels, anchors, link(places, newest.run_id, newest.capture)))
    return cards


def _place_of(requirement: str) -> str:
    """Returns the id of the place of a requirement; of one that is longer than any of ours, of its beginning and hash."""
    name = re.sub(r"[^A-Za-z0-9-]", "_", requirement)
    if len(name) > _LONG_NAME:
        mark = hashlib.sha256(requirement.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name[:_LONG_NAME]}-{mark}"
    return f"r-{name}"


def anchors_of(card: TroubleCard) -> Iterable[tuple[str, str]]:
    """Yields (requirement, anchor) for each requirement that has its place on this card."""
    return (
        (requirement, anchor)
        for requirement, anchor in zip(card.trouble.requirements, card.anchors, strict=True)
        if anchor
    )


def anchor(number: int) -> str:
    """Returns where the finding with this number stands on the page."""
    return f"f-{number}"


def finding_cards(
    report: Report,
    oldest_first: Sequence[str],
    places: Mapping[str, str],
    typed: Mapping[str, str],
    limits: Limits,
    missing: Collection[tuple[str, str]] = (),
) -> list[FindingCard]:
    """Returns the findings, as many as are shown.

    Args:
        report: That has them.
        oldest_first: Run ids.
        places: Where run folders are, as ``places_of`` returns them.
        typed: That of ``typed_of``, also of folders that are not there any more.
        limits: How many are shown.
        missing: That of ``missing_of``.
    """
    cards = []
    newest_first = oldest_first[::-1]
    for number, finding in enumerate(report.findings[: limits.findings]):
        own, *others = _stored(finding, newest_first)
        there = ((run_id, kept) for run_id, kept in (own, *others) if kept and run_id in places)
        run_id, kept = next((one for one in there if one not in missing), own)
        is_there = run_id in places and (run_id, kept) not in missing
        repeat, where = _replay(run_id, kept, typed.get(run_id), is_there=is_there)
        if run_id != finding.run_id:
            where = f"As {visible(run_id)} stores it: the folder of the run with the smallest case is gone."
        cards.append(
            FindingCard(
                finding,
                anchor(number),
                _history(finding, report.rates, oldest_first),
                link(places, finding.run_id, finding.capture),
                kept,
                link(places, run_id, kept) if is_there else "",
                repeat,
                where,
                number < limits.unfolded and finding.status in FRESH,
            )
        )
    return cards


def missing_of(report: Report, runs: Mapping[str, Path]) -> set[tuple[str, str]]:
    """Returns the findings, by run and folder, whose folder is not in that of the run: removed, or not finished.

    Of a finding that several runs store only those are looked at that come before the first that is there.
    """
    newest_first = [run.run_id for run in report.runs if run.state != DUPLICATE]
    missing = set[tuple[str, str]]()
    for finding in report.findings:
        stored = (one for one in _stored(finding, newest_first) if one[1] and one[0] in runs)
        missing.update(itertools.takewhile(lambda one: not _is_folder(runs[one[0]] / one[1]), stored))
    return missing


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        # A row may name anything, also what is too long for a name.
        return False


def _stored(finding: Finding, newest_first: Iterable[str]) -> list[tuple[str, str]]:
    """Returns the runs that may store a finding, each with its folder in that of the run; empty if no finding stores it.

    The run with the smallest case comes first, then the others, the newest first.
    """
    if finding.confirmed == UNHELD:
        return [(finding.run_id, "")]
    usual = f"findings/{slug(finding.bucket)}"
    others = (run_id for run_id in newest_first if run_id in finding.by_run and run_id != finding.run_id)
    return [
        (finding.run_id, finding.folder or usual),
        *((run_id, finding.folders.get(run_id, usual)) for run_id in others),
    ]


def _replay(run_id: str, kept: str, folder: str | None, *, is_there: bool) -> tuple[str, str]:
    """Returns the command that plays a finding of a run again, and what has to be known besides; either may be empty."""
    if not kept:
        return "", "No finding stores it, so there is nothing to replay."
    if folder is not None and is_there:
        return f"zenoh-fuzz replay {shlex.quote(visible(f'{folder}/{kept}'))}", ""
    where = (
        "its record in the store does not say where that is; a report on the run folders does"
        if folder is None
        else f"that was {visible(folder)} when it was ingested, where it is not now"
    )
    return f"zenoh-fuzz replay {shlex.quote(kept)}", f"In the folder of the run {run_id}: {where}."


def _history(finding: Finding, rates: Iterable[Rate], oldest_first: Sequence[str]) -> Markup:
    """Draws the cases of a bucket in each run that had one of its campaigns."""
    looked = {rate.run_id for rate in rates if rate.campaign in finding.campaigns} | set(finding.by_run)
    runs = [run_id for run_id in oldest_first if run_id in looked][-LAST_RUNS:]
    values = [float(finding.by_run.get(run_id, 0)) for run_id in runs]
    label = f"cases in each of {count(len(runs), 'run')} that looked for it, oldest first"
    return svg.columns(values, label, kind="o-fail")


def found_curves(points: Iterable[FoundPoint]) -> list[FoundCurve]:
    """Draws how many findings there were after how many cases; nothing for an implementation with a single run.

    Args:
        points: By implementation, oldest first.
    """
    curves = []
    for impl, group in itertools.groupby(points, key=lambda point: point.node_impl):
        mine = list(group)
        if len(mine) > 1:
            label = f"{count(mine[-1].buckets, 'finding')} after {count(mine[-1].cases, 'case')}"
            picture = svg.steps([(point.cases, point.buckets) for point in mine], label)
            curves.append(FoundCurve(impl, mine[0], mine[-1], picture))
    return curves


def coverage_rows(lines: Iterable[CoverageLine], oldest_first: Sequence[RunLine]) -> list[CoverageRow]:
    """Returns how much of each kind was tried on each node, in the order of ``COVERED``.

    What was tried on nodes that break a rule on purpose says something only where there are no others; so do runs that
    left tests out on purpose of the requirements, and runs of campaigns with options that made them plan less.
    """
    lines = list(lines)
    real = [run for run in oldest_first if not run.is_wrong] or oldest_first
    node_of = _nodes(real)
    kinds: dict[tuple[str, str], dict[str, CoverageLine]] = {}
    for line in lines:
        if line.run_id in node_of:
            kinds.setdefault((line.kind, node_of[line.run_id]), {})[line.run_id] = line
    places = {kind: place for place, kind in enumerate(COVERED)}
    widest = _widest(lines, real, node_of)
    several = len({node for _, node in kinds}) > 1
    rows = []
    for (kind, node), of_run in sorted(
        kinds.items(), key=lambda item: (places.get(item[0][0], len(places)), item[0])
    ):
        asked = [run for run in real if run.run_id in of_run]
        if kind == REQUIREMENT:
            asked = [run for run in asked if not run.is_partial] or asked
        else:
            asked = [run for run in asked if run.configuration == widest.get(node, run.configuration)]
        mine = [of_run[run.run_id] for run in asked]
        # One that did not end did not get to all that it was asked for.
        ended = [of_run[run.run_id] for run in asked if run.state == COMPLETE]
        newest, label = (ended or mine)[-1], COVERED.get(kind, kind)
        shares = [
            svg.Value(line.tried / line.planned if line.planned else float(line.tried))
            for line in mine[-LAST_RUNS:]
        ]
        words = f"{newest.tried} of {newest.planned}" if newest.planned else f"{newest.tried}"
        rows.append(
            CoverageRow(
                label,
                node if several else "",
                newest,
                svg.meter(newest.tried, newest.planned, words) if newest.planned else Markup(""),
                svg.line(shares, None, f"{label} in {count(len(shares), 'run')}, oldest first"),
                len(mine),
            )
        )
    return rows


def _widest(
    lines: Iterable[CoverageLine], oldest_first: Iterable[RunLine], node_of: Mapping[str, str]
) -> dict[str, str]:
    """Returns for each node the configuration of its campaigns whose newest run planned most, the newest of such."""
    planned = Counter[str]()
    for line in lines:
        planned[line.run_id] += line.planned if line.kind != REQUIREMENT else 0
    newest: dict[tuple[str, str], int] = {}
    for run in oldest_first:
        if planned[run.run_id]:
            # Moved to the end: of several that plan as much, the one that was run last counts.
            newest.pop((node_of[run.run_id], run.configuration), None)
            newest[node_of[run.run_id], run.configuration] = planned[run.run_id]
    found: dict[str, str] = {}
    for (node, configuration), most in newest.items():
        if most >= newest.get((node, found.get(node, configuration)), 0):
            found[node] = configuration
    return found


def _nodes(runs: Iterable[RunLine]) -> dict[str, str]:
    """Returns what the node of each run is called."""
    return {run.run_id: f"{run.node_impl} {run.node_whatami}".strip() for run in runs}


def trend_card(trend: Trend, sets: SetInfo) -> TrendCard:
    """Returns a measured value, drawn with the median of its baseline."""
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


def run_view(run: RunLine, sets: SetInfo, places: Mapping[str, str]) -> RunView:
    """Returns a run and what it was in the comparison."""
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
    # The suite leaves a page in its run folder when it ends, campaigns alone do not.
    paged = run.rows.get(VERDICTS) and run.state == COMPLETE
    own = f"{places[run.run_id]}/{'index.html' if paged else ''}" if run.run_id in places else ""
    return RunView(run, own, svg.bar(list(counts.items()), run.run_id), counts, sum(counts.values()), role)


def makings_of(runs: Iterable[RunLine]) -> list[Making]:
    """Puts runs together that were made alike, in the order in which they come."""
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


def rate_views(rates: Iterable[Rate], oldest_first: Sequence[RunLine]) -> list[RateView]:
    """Returns the campaigns by name, those on each node on their own: nodes differ in how fast they are."""
    node_of = _nodes(oldest_first)
    order = {run.run_id: place for place, run in enumerate(oldest_first)}
    by_campaign: dict[tuple[str, str], list[Rate]] = {}
    for rate in sorted(rates, key=lambda rate: order[rate.run_id]):
        by_campaign.setdefault((rate.campaign, node_of[rate.run_id]), []).append(rate)
    several = len({node for _, node in by_campaign}) > 1
    top = max((mine[-1].cases_per_s or 0.0 for mine in by_campaign.values()), default=0.0)
    views = []
    for (name, node), mine in sorted(by_campaign.items()):
        rate, recent = mine[-1], mine[-LAST_RUNS:]
        speed = rate.cases_per_s or 0.0
        label = f"cases per second in {count(len(recent), 'run')}, oldest first"
        views.append(
            RateView(
                rate=rate,
                node=node if several else "",
                mix=svg.bar([(verdict, rate.verdicts[verdict]) for verdict in FUZZ_VERDICTS], name, css="v"),
                meter=svg.meter(speed, top, f"{speed:.0f} cases/s"),
                history=svg.columns([one.cases_per_s or 0.0 for one in recent], label, kind="meter"),
                runs=len(mine),
            )
        )
    return views


def accounts_of(report: Report) -> list[Account]:
    """Adds up the lines of each run; runs with lines kept apart first, then newest first."""
    sums: dict[str, list[int]] = {}
    for line in report.accounts:
        numbers = (line.lines, line.good, line.apart, line.blank, line.footers)
        sums[line.run_id] = [sum(pair) for pair in zip(sums.get(line.run_id, [0] * 5), numbers, strict=True)]
    accounts = [Account(run.run_id, *sums.pop(run.run_id)) for run in report.runs if run.run_id in sums]
    return sorted(accounts, key=lambda account: (account.balanced, not account.apart))
