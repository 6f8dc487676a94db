"""What a run did and found: for the terminal, as Markdown for the page of a CI job, as JUnit.

Nothing in it triggers a fault: all of it may land in the log of a public CI. What does stays in the run folder.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from conformance.page.words import visible
from fuzz.compared import Compared
from fuzz.coverage import Coverage
from fuzz.findings import many
from spark_reports.rows import FUZZ_ENGINES, FindingRow

MOST_FINDINGS = 50
"""So many findings are shown on a page; the rows have all."""

OVERTIME = 5.0
"""Seconds beyond the time that a run was given that are said."""

DEAREST = 4
"""So many oracles are named with what they cost."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(slots=True)
class Outcome:
    """What a run did, or one of its processes.

    Attributes:
        coverage: What was tried and what came back.
        cases: Cases that ran, by campaign.
        inconclusive: Those of them that learned nothing.
        seconds: How long it took.
        lost: How much of that went into findings and restarts.
        restarts: How often a node was started again, or waited for.
        slowest_restart: Seconds of the longest one.
        left_out: Cases that were left out because they would fall into a finding that was met often.
        findings: One row for each bucket.
        notes: What was not applicable, and why.
        doing: What goes on behind the last case; empty while cases are played.
        interrupted: Ended by a signal.
        stopped: Why it ended before its time; empty otherwise.
        failed: Why the node or the harness failed; empty otherwise.
        earlier: Cases of earlier parts of the run, by campaign.
        jobs: How many processes played.
        spent: Seconds that each oracle took for looks at a node that was well.
        looks: How many those were.
        compared: What was compared with another node.
        behind: Seconds that things took behind the last case, by what was done; of several processes those of the slowest.
        over: Seconds beyond the time that the run was given.
    """

    coverage: Coverage = field(default_factory=Coverage)
    cases: Counter[str] = field(default_factory=Counter)
    inconclusive: int = 0
    seconds: float = 0.0
    lost: float = 0.0
    restarts: int = 0
    slowest_restart: float = 0.0
    left_out: int = 0
    findings: list[FindingRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doing: str = ""
    interrupted: bool = False
    stopped: str = ""
    failed: str = ""
    earlier: Counter[str] = field(default_factory=Counter)
    jobs: int = 1
    spent: dict[str, float] = field(default_factory=dict)
    looks: Counter[str] = field(default_factory=Counter)
    compared: Compared = field(default_factory=Compared)
    behind: dict[str, float] = field(default_factory=dict)
    over: float = 0.0

    @property
    def total(self) -> int:
        """Cases of all campaigns."""
        return self.cases.total()

    @property
    def rate(self) -> float:
        """Cases a second."""
        return self.total / self.seconds if self.seconds else 0.0

    @property
    def healthy_rate(self) -> float:
        """Cases a second while no finding was looked into and no node started again."""
        return self.total / self.well if self.well > 0 else 0.0

    @property
    def well(self) -> float:
        """Seconds in which no finding was looked into and no node started again."""
        return self.seconds - self.lost / self.jobs

    @property
    def new(self) -> list[FindingRow]:
        """Findings that make a run fail."""
        return [row for row in self.findings if row.fails]

    @property
    def known(self) -> list[FindingRow]:
        """Those that are known."""
        return [row for row in self.findings if row.known]

    @property
    def doubtful(self) -> list[FindingRow]:
        """Those that were seen, but not again on a fresh node."""
        return [row for row in self.findings if not row.fails and not row.known]


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Returns what several processes did side by side."""
    whole = Outcome(jobs=len(outcomes))
    for one in outcomes:
        whole.coverage.merge(one.coverage)
        whole.cases.update(one.cases)
        whole.inconclusive += one.inconclusive
        whole.seconds = max(whole.seconds, one.seconds)
        whole.lost += one.lost
        whole.restarts += one.restarts
        whole.slowest_restart = max(whole.slowest_restart, one.slowest_restart)
        whole.left_out += one.left_out
        whole.looks += one.looks
        whole.compared.merge(one.compared)
        whole.over = max(whole.over, one.over)
        for doing, seconds in one.behind.items():
            whole.behind[doing] = max(whole.behind.get(doing, 0.0), seconds)
        for name, seconds in one.spent.items():
            whole.spent[name] = whole.spent.get(name, 0.0) + seconds
        whole.notes += [note for note in one.notes if note not in whole.notes]
        whole.interrupted |= one.interrupted
        whole.stopped = whole.stopped or one.stopped
        whole.failed = "; ".join(filter(None, [whole.failed, one.failed]))
    whole.findings = by_bucket(row for one in outcomes for row in one.findings)
    return whole


def by_bucket(rows: Iterable[FindingRow]) -> list[FindingRow]:
    """Returns one row for each bucket, of what several processes or parts of a run found.

    Hits add up; the best confirmed and then the smallest one stands for all.
    """
    result: dict[str, FindingRow] = {}
    for row in rows:
        other = result.get(row.bucket)
        if other is None:
            result[row.bucket] = row
            continue
        best = min(row, other, key=_rank)
        first = min(row, other, key=lambda one: (one.part, one.time_ns))
        result[row.bucket] = replace(
            best,
            hits=row.hits + other.hits,
            left_out=row.left_out + other.left_out,
            state=first.state,
            campaign=first.campaign,
            case=first.case,
        )
    return list(result.values())


def _rank(row: FindingRow) -> tuple[bool, float, bool, int, int, int]:
    share = row.confirmed / row.tries if row.tries else 0.0
    return not row.known, -share, not row.fails, row.messages or 1 << 30, row.size, row.job


# Terminal ---------------------------------------------------------------------------------------------


def as_text(outcome: Outcome, folder: str) -> str:
    """Returns what is shown at the end of a run.

    Args:
        outcome: What it did.
        folder: The run folder, as people see it from where they are.
    """
    return "\n".join(map(_shown, _text(outcome, folder)))


def _text(outcome: Outcome, folder: str) -> Iterator[str]:
    ended = f" ({outcome.failed or outcome.stopped or 'stopped'})" if _ended_early(outcome) else ""
    yield f"{outcome.total} cases in {outcome.seconds:.1f} s: {_rates(outcome)}{ended}"
    if outcome.earlier:
        yield f"plus {outcome.earlier.total()} in earlier parts of the run"
    if len(outcome.cases) > 1:
        yield "cases: " + ", ".join(f"{name} {count}" for name, count in outcome.cases.most_common())
    yield f"tried: {'; '.join(map(str, outcome.coverage.parts))}"
    yield f"distinct answer shapes: {outcome.coverage.shapes}"
    missing = outcome.coverage.missing()
    if missing:
        yield f"not tried: {', '.join(missing)}"
    yield from _asides(outcome)
    for row in outcome.findings:
        yield f"{_word(row)}: {row.bucket}"
        yield f"  {_hits(row)}; {_confirmed(row)}{_smallest(row)}"
        if row.known:
            yield f"  known as {row.known}"
        if row.folder:
            yield f"  {_repeat(row, folder)}"
    yield verdict(outcome)
    yield f"rows, captures and findings: {folder}"


def _ended_early(outcome: Outcome) -> bool:
    return outcome.interrupted or bool(outcome.stopped) or bool(outcome.failed)


def _rates(outcome: Outcome) -> str:
    well = f", {outcome.healthy_rate:.0f}/s while the node was healthy" if outcome.lost else ""
    return f"{outcome.rate:.0f}/s{well}"


def _asides(outcome: Outcome) -> Iterator[str]:
    if outcome.inconclusive:
        yield f"{outcome.inconclusive} cases inconclusive: the node did not reach their state"
    if outcome.left_out:
        hidden = outcome.coverage.hidden
        edges = "1 edge of a field was" if hidden == 1 else f"{hidden} edges of fields were"
        so = f"; {edges} not tried because of that" if hidden else ""
        yield f"{outcome.left_out} cases skipped: they would only have hit findings that had been hit often{so}"
    if outcome.restarts:
        yield f"{outcome.restarts} restarts, longest {outcome.slowest_restart:.2f} s"
    if outcome.well > 0 and outcome.spent:
        yield f"oracles took {_share(outcome, outcome.spent)} of the time while the node was healthy: {_dearest(outcome)}"
    yield from filter(None, [outcome.compared.note(), _overtime(outcome)])
    yield from outcome.notes


def _overtime(outcome: Outcome) -> str:
    """Returns in words that the run took longer than it was to, and what took it; nothing when it was not much."""
    if outcome.over < OVERTIME:
        return ""
    parts = [f"{seconds:.0f} s for {doing}" for doing, seconds in outcome.behind.items() if seconds >= 1]
    what = f"; after the last case it took {', '.join(parts)}" if parts else ""
    return f"--time was exceeded by {outcome.over:.0f} s{what}"


def _share(outcome: Outcome, names: Iterable[str]) -> str:
    """Returns what some oracles took of the time in which the node was well."""
    share = sum(outcome.spent[name] for name in names) / (outcome.well * outcome.jobs)
    return f"{100 * share:.1f} %"


def _dearest(outcome: Outcome) -> str:
    """Returns what each of the dearest oracles took, all in all and for one look."""
    names = sorted(outcome.spent, key=outcome.spent.__getitem__, reverse=True)[:DEAREST]
    return ", ".join(
        f"{name} {_share(outcome, [name])} ({outcome.spent[name] / outcome.looks[name] * 1e6:,.0f} us per check)"
        for name in names
    )


def verdict(outcome: Outcome) -> str:
    """Returns the one line that says how it came out."""
    parts = [f"{len(outcome.new)} new" if outcome.new else "nothing new"]
    if outcome.known:
        parts.append(f"{len(outcome.known)} known")
    if outcome.doubtful:
        parts.append(f"{len(outcome.doubtful)} unconfirmed")
    return f"findings: {', '.join(parts)}"


def _word(row: FindingRow) -> str:
    return "finding" if row.fails else "known finding" if row.known else "unconfirmed"


def _hits(row: FindingRow) -> str:
    left_out = f", {row.left_out} more skipped" if row.left_out else ""
    where = f" in {row.state}" if row.state else ""
    return f"{many(row.hits, 'case')}{where}, first: {row.campaign} {row.case}{left_out}"


def _confirmed(row: FindingRow) -> str:
    if not row.tries:
        return "not retried" if row.message else "the case responsible is unknown"
    if row.engine not in FUZZ_ENGINES:
        # A reader, which is no node.
        return "reproduced" if row.confirmed else "its bytes do not show it again"
    return f"reproduced on {row.confirmed} of {row.tries} fresh nodes"


def _smallest(row: FindingRow) -> str:
    if not row.messages:
        return ""
    # Of what nobody could lay on a case the script is all that was sent lately.
    what = "smallest" if row.tries else "sent" if row.message else "sent before it"
    return f"; {what}: {many(row.messages, 'message')}, {many(row.size, 'byte')}"


def _repeat(row: FindingRow, folder: str) -> str:
    """Returns what to type to see a finding again."""
    where = f"{folder}/{row.folder or 'findings'}"
    return f"zenoh-fuzz replay {shlex.quote(where)}"


# Markdown ---------------------------------------------------------------------------------------------


def as_markdown(outcome: Outcome, title: str, folder: str) -> str:
    """Returns a summary for the page of a CI job.

    Args:
        outcome: What the run did.
        title: What was run against what, one line.
        folder: The run folder, as people see it.
    """
    return "\n".join(_markdown(outcome, title, folder)) + "\n"


def _markdown(outcome: Outcome, title: str, folder: str) -> Iterator[str]:
    yield f"## zenoh-fuzz: {_md(title)}"
    yield ""
    why = ""
    if _ended_early(outcome):
        words = _md(outcome.failed or outcome.stopped or "stopped")
        why = f" **Ended early: {words}{'' if words.endswith(('.', '?', '!')) else '.'}**"
    if not (outcome.total or outcome.earlier or outcome.findings):
        yield f"**No cases were run.**{why}"
        return
    yield f"**{verdict(outcome).capitalize()}.** {outcome.total} cases in {outcome.seconds:.0f} s, {_rates(outcome)}.{why}"
    yield ""
    shown = sorted(outcome.findings, key=lambda row: (not row.fails, bool(row.known)))[:MOST_FINDINGS]
    if shown:
        yield "| | bucket | state | message | cases | on fresh nodes | smallest | folder |"
        yield "|---|---|---|---|---|---|---|---|"
        for row in shown:
            smallest = _smallest(row).partition(": ")[2]
            again = f"{row.confirmed} of {row.tries}" if row.tries else "not retried"
            status = "**new**" if row.fails else f"known: {_md(row.known)}" if row.known else row.status
            cells = [status, f"`{_code(row.bucket)}`", row.state, row.message, str(row.hits), again, smallest]
            yield f"| {' | '.join([*map(_cell, cells), f'`{_code(row.folder)}`' if row.folder else ''])} |"
        if len(outcome.findings) > len(shown):
            yield ""
            yield f"and {len(outcome.findings) - len(shown)} more in `findings.jsonl`."
        yield ""
        yield f"To replay one: `{_code(_repeat(shown[0], folder))}`. The folders contain the trigger; treat them as confidential."
        yield ""
    yield "| tried | of | | |"
    yield "|---|---|---|---|"
    for part in outcome.coverage.parts:
        share = f"{100 * part.share:.1f} %" if part.planned else "-"
        yield f"| {part.tried} | {part.planned} | {share} | {part.name} |"
    yield ""
    yield f"Distinct answer shapes: {outcome.coverage.shapes}."
    for note in _asides(outcome):
        yield f"- {_md(note)}"


def _md(text: str) -> str:
    """Returns text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", _line(text))


def _code(text: str) -> str:
    return _line(text).replace("`", "'").replace("|", "\\|")


def _cell(text: str) -> str:
    return _line(text)


def _line(text: str) -> str:
    return _shown(" ".join(text.split()))


def _shown(text: str) -> str:
    """Returns one line in which nothing can hide, whatever a node wrote."""
    return visible(text.encode("utf-8", "backslashreplace").decode()).replace("\n", " ")


# JUnit ------------------------------------------------------------------------------------------------


def as_junit(outcome: Outcome, title: str, node: str, seed: int) -> str:
    """Returns JUnit XML: one case for each finding, and one for each campaign that has none.

    A new finding is a failure; a known one and one that was not seen again are skipped, with words; a node or
    harness that failed is an error.
    """
    suite = Element("testsuite", {"name": "zenoh-fuzz", "time": f"{outcome.seconds:.3f}"})
    properties = SubElement(suite, "properties")
    values = {"run": title, "node": node, "seed": str(seed), "cases": str(outcome.total)}
    values |= {part.name: f"{part.tried} of {part.planned}" for part in outcome.coverage.parts}
    for name, value in values.items():
        SubElement(properties, "property", {"name": _xml(name), "value": _xml(value)})
    for row in outcome.findings:
        case = SubElement(
            suite, "testcase", {"classname": f"fuzz.{_xml(row.campaign)}", "name": _xml(row.bucket)}
        )
        words = f"{_hits(row)}; {_confirmed(row)}{_smallest(row)}"
        if row.fails:
            failure = SubElement(case, "failure", {"message": _xml(row.bucket), "type": _xml(row.harm)})
            failure.text = _xml(f"{words}\n{_repeat(row, 'RUN')}" if row.folder else words)
        else:
            why = f"known as {row.known}" if row.known else "unconfirmed"
            SubElement(case, "skipped", {"message": _xml(f"{why}: {words}")})
    guilty = {row.campaign for row in outcome.new}
    for campaign, count in sorted(outcome.cases.items()):
        if campaign not in guilty:
            case = SubElement(
                suite, "testcase", {"classname": f"fuzz.{_xml(campaign)}", "name": "nothing new"}
            )
            SubElement(case, "system-out").text = f"{count} cases"
    if outcome.failed:
        case = SubElement(suite, "testcase", {"classname": "fuzz", "name": "node and harness"})
        SubElement(case, "error", {"message": _xml(outcome.failed)})
    for name, tag in (
        ("tests", "testcase"),
        ("failures", "testcase/failure"),
        ("errors", "testcase/error"),
        ("skipped", "testcase/skipped"),
    ):
        suite.set(name, str(len(suite.findall(tag))))
    root = Element("testsuites")
    root.append(suite)
    indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
