"""What stands on the page of a run, in words and numbers; the template only arranges it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from conformance.page.facts import UNTRIED, Covered
from conformance.page.proof import Proof
from conformance.page.reading import MOST_SEEN, Recorded
from conformance.page.words import title_of
from conformance.requirements import LEVELS, requirements
from spark_reports.rows import CAPTURES, VerdictRow

MOST_HEX = 320
"""Digits of a batch that the page shows."""

ARROWS = {"sent": "→", "received": "←"}

NAMES = {
    "fail": "fail",
    "inconclusive": "inconclusive",
    "warning": "warning",
    "deviation": "deviation",
    "pass": "pass",
    "n/a": "n/a",
    UNTRIED: "not in this run",
}
"""Outcomes of requirements, worst first, and what they are called."""

MEANINGS = {
    "pass": "the requirement was shown",
    "fail": "the requirement was broken",
    "warning": "a SHOULD was broken",
    "deviation": "fails exactly as recorded for this version of the node",
    "n/a": "this node or profile cannot show it; never counted as passed",
    "inconclusive": "the node was unhealthy or the harness failed: nothing was learned",
    UNTRIED: "no test in this run covers it",
}

AREA_NAMES = {
    "BAT": "Batches",
    "CLS": "CLOSE",
    "DATA": "Data",
    "DCL": "DECLARE",
    "DEL": "DEL",
    "ERR": "ERR",
    "EXT": "Extensions",
    "FIN": "RESPONSE_FINAL",
    "FRG": "Fragments",
    "FRM": "FRAME",
    "HLO": "HELLO",
    "INIT": "INIT",
    "INT": "INTEREST",
    "JOIN": "JOIN",
    "KA": "KEEP_ALIVE",
    "KEX": "Key expressions",
    "MSG": "Messages",
    "NET": "Network messages",
    "OAM": "OAM",
    "OPEN": "OPEN",
    "PUSH": "PUSH",
    "PUT": "PUT",
    "QRY": "QUERY",
    "REQ": "REQUEST",
    "RPL": "REPLY",
    "RSP": "RESPONSE",
    "RTE": "Routing",
    "SCT": "SCOUT",
    "VLE": "Numbers",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One line of an exchange.

    Attributes:
        ms: Since the first one.
        link: Name of the link.
        arrow: Which way.
        summary: In words.
        hex: The bytes, cut when they are many.
    """

    ms: str
    link: str
    arrow: str
    summary: str
    hex: str


@dataclass(frozen=True, slots=True)
class Test:
    """A verdict as it is shown.

    Attributes:
        row: The verdict.
        title: What the test is about.
        texts: Ids of its requirements, level and text.
        capture: Link to its capture; empty without one.
        exchange: What was seen.
        left: How much more was seen.
    """

    row: VerdictRow
    title: str
    texts: list[tuple[str, str, str]]
    capture: str
    exchange: list[Seen]
    left: int


@dataclass(frozen=True, slots=True)
class Area:
    """Requirements of an area.

    Attributes:
        id: ``INIT``.
        name: What it is called.
        covered: They.
        counts: How many ended in each outcome, worst first.
    """

    id: str
    name: str
    covered: list[Covered]
    counts: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Content:
    """The page.

    Attributes:
        node: What was tested.
        sentence: What came of it.
        mood: ``good``, ``mixed``, ``bad`` or ``none``.
        warnings: What makes the run doubtful as a whole.
        requirements: How many ended in each outcome, worst first.
        tests: How many tests ended in each outcome.
        decided: How many requirements were decided.
        total: Of the catalogue.
        groups: Remarkable tests: heading, hint, outcome, tests.
        areas: The grid.
        covered: All requirements.
        reasons: Why tests were n/a: reason, tests.
        facts: How it was measured.
        proof: What a campaign of mutants found.
    """

    node: str
    sentence: str
    mood: str
    warnings: list[str]
    requirements: list[tuple[str, int]]
    tests: list[tuple[str, int]]
    decided: int
    total: int
    groups: list[tuple[str, str, str, list[Test]]]
    areas: list[Area]
    covered: list[Covered]
    reasons: list[tuple[str, list[VerdictRow]]]
    facts: list[tuple[str, str]]
    proof: Proof | None


GROUPS = (
    ("fail", "Failed", "Requirements that the node broke in this run."),
    (
        "inconclusive",
        "Inconclusive",
        "Nothing was learned: the node was unhealthy or the harness failed.",
    ),
    ("warning", "Warnings", "Broken SHOULDs; with --strict-should they count as fail."),
    (
        "deviation",
        "Recorded deviations",
        "Known and recorded for this version; a different failure, or none, counts as fail.",
    ),
)


def content_of(recorded: Recorded, proof: Proof | None) -> Content:
    """Returns what stands on the page of a run."""
    facts = recorded.facts
    node = f"{recorded.run.node_impl} {recorded.run.node_version}".strip()
    return Content(
        node=node if recorded.run.node_impl != "unknown" else recorded.run.node,
        sentence=_sentence(recorded),
        mood=_mood(recorded),
        warnings=_warnings(recorded),
        requirements=_counts(one.outcome for one in facts.covered),
        tests=_counts(row.outcome for row in facts.rows),
        decided=sum(facts.decided.values()),
        total=len(facts.covered),
        groups=[
            (name, hint, outcome, [_test(recorded, row) for row in _of(facts.rows, outcome)])
            for outcome, name, hint in GROUPS
        ],
        areas=_areas(facts.covered),
        covered=facts.covered,
        reasons=_reasons(row for row in facts.rows if row.outcome == "n/a"),
        facts=_facts(recorded),
        proof=proof,
    )


def _of(rows: Iterable[VerdictRow], outcome: str) -> list[VerdictRow]:
    """Returns the verdicts with an outcome, strictest requirements first."""

    def key(row: VerdictRow) -> tuple[int, tuple[str, ...], str]:
        return LEVELS.index(row.level) if row.level in LEVELS else len(LEVELS), row.requirements, row.test

    return sorted((row for row in rows if row.outcome == outcome), key=key)


def _counts(outcomes: Iterable[str]) -> list[tuple[str, int]]:
    found = [outcome if outcome in NAMES else "inconclusive" for outcome in outcomes]
    return [(name, found.count(name)) for name in NAMES if name in found]


def _mood(recorded: Recorded) -> str:
    outcomes = {row.outcome for row in recorded.facts.rows}
    if "fail" in outcomes or recorded.run.status == "failed":
        return "bad"
    if outcomes - {"pass", "n/a"} or not recorded.complete:
        return "mixed"
    return "good" if "pass" in outcomes else "none"


def _sentence(recorded: Recorded) -> str:
    decided = recorded.facts.decided
    total = sum(decided.values())
    if not total:
        return "Nothing was decided about this node"
    said = [
        _many(decided["fail"], "requirement fails", "requirements fail"),
        _many(decided["deviation"], "requirement differs as recorded", "requirements differ as recorded"),
        _many(decided["warning"], "warning", "warnings"),
    ]
    told = ", ".join(filter(None, said))
    met = f"{decided['pass']} of {total} decided requirements are met"
    if told or not recorded.complete:
        told = ", ".join(filter(None, ["" if recorded.complete else "cut off", told]))
        return f"{told[0].upper()}{told[1:]}; {met}"
    return f"All {total} decided requirements are met"


def _many(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}" if count else ""


def _warnings(recorded: Recorded) -> list[str]:
    said = []
    if not recorded.complete:
        said.append("The run was cut off: missing results were not tried or not written.")
    elif recorded.run.status == "failed":
        said.append("The run ended early: the node was gone or the harness failed.")
    if recorded.damaged:
        lines = _many(recorded.damaged, "line of the verdicts", "lines of the verdicts")
        said.append(f"{lines} cannot be read: not shown here.")
    return said


def _test(recorded: Recorded, row: VerdictRow) -> Test:
    known = requirements()
    seen = recorded.exchanges.get(row.test, [])
    return Test(
        row=row,
        title=title_of(row),
        texts=[
            (name, known[name].level, known[name].text) if name in known else (name, row.level, "")
            for name in row.requirements
        ],
        capture=link_to(row),
        exchange=[_seen(one, seen[0]["time_ns"]) for one in seen[-MOST_SEEN:]],
        left=max(0, len(seen) - MOST_SEEN),
    )


def _seen(one: dict[str, Any], first: int) -> Seen:
    digits = str(one["raw_hex"])
    cut = digits if len(digits) <= MOST_HEX else f"{digits[:MOST_HEX]}… ({len(digits) // 2} bytes)"
    return Seen(
        ms=f"{(one['time_ns'] - first) / 1e6:.3f}",
        link=str(one["link"]),
        arrow=ARROWS.get(str(one["direction"]), "·"),
        summary=str(one["summary"]),
        hex=cut,
    )


def link_to(row: VerdictRow) -> str:
    """Returns the link to the capture of a test, from the page; empty when it is not below the run's captures."""
    folder, _, name = row.capture.partition("/")
    return (
        f"{CAPTURES}/{quote(name, errors='replace')}"
        if folder == CAPTURES and name and "/" not in name
        else ""
    )


def _areas(covered: list[Covered]) -> list[Area]:
    by_area: dict[str, list[Covered]] = {}
    for one in covered:
        by_area.setdefault(one.requirement.area, []).append(one)
    return [
        Area(name, AREA_NAMES.get(name, name), ones, _counts(one.outcome for one in ones))
        for name, ones in by_area.items()
    ]


def _reasons(rows: Iterable[VerdictRow]) -> list[tuple[str, list[VerdictRow]]]:
    by_reason: dict[str, list[VerdictRow]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(row)
    return sorted(by_reason.items(), key=lambda one: (-len(one[1]), one[0]))


def _facts(recorded: Recorded) -> list[tuple[str, str]]:
    run, rows = recorded.run, recorded.facts.rows
    over = sorted({row.transport for row in rows if row.transport})
    spent = sum(row.duration_s for row in rows)
    return [
        ("Node", run.node),
        ("Implementation", f"{run.node_impl} {run.node_version}"),
        ("Role", run.node_whatami),
        ("ZenohID", run.node_zid),
        ("Transports", ", ".join(over)),
        ("Started", run.started_at),
        ("Duration", _took(run.started_at, run.ended_at)),
        ("Tests", f"{len(rows)}, {spent:.1f} s in total"),
        ("Seed", str(run.seed)),
        ("Command", run.command),
        ("Run", run.run_id),
        ("Harness", f"{run.harness_version}, Python {run.python}, {run.platform}"),
    ]


def _took(began: str, ended: str | None) -> str:
    try:
        seconds = (dt.datetime.fromisoformat(ended or "") - dt.datetime.fromisoformat(began)).total_seconds()
    except (TypeError, ValueError):
        return ""
    return f"{seconds:.1f} s"
