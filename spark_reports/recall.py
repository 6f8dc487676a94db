"""How much of what was planted in synthetic runs a report finds, and what it finds that is not there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_reports.report import Report

Fact = tuple[str, ...]
"""What identifies one thing that was planted, within its class."""

# Classes of what is planted ---------------------------------------------------------------------------

NEW_FAILURE = "new failure"
FIXED = "fixed"
STILL_FAILING = "still failing"
FLAKY = "flaky"
NA_EVERYWHERE = "n/a everywhere"
NOT_RUN = "not run"
NEW_CHECK = "new check"
STALE = "stale deviation"
FIRST_BAD = "first bad version"
LOST = "coverage lost"
BUCKET = "finding"
SLOWER = "slower"
FASTER = "faster"
NOT_COMPARABLE = "not comparable"
KILLED = "mutant killed"
ALIVE = "mutant alive"
STATE = "state of a run"
ACCOUNT = "account of a file"

CLASSES: Mapping[str, str] = {
    NEW_FAILURE: "test, transport",
    FIXED: "test, transport",
    STILL_FAILING: "test, transport",
    FLAKY: "test, transport",
    NA_EVERYWHERE: "test, transport",
    NOT_RUN: "test, transport",
    NEW_CHECK: "test, transport",
    STALE: "test, version",
    FIRST_BAD: "test, transport, last good version, first bad version",
    LOST: "kind, name",
    BUCKET: "bucket, status",
    SLOWER: "node, measured value",
    FASTER: "node, measured value",
    NOT_COMPARABLE: "run",
    KILLED: "requirement",
    ALIVE: "requirement",
    STATE: "run, state",
    ACCOUNT: "run, file, lines, good, apart, blank, footers",
}
"""The classes of what is planted, and what identifies one of each."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What was planted.

    Attributes:
        planted: What a report has to find, by class.
        either: What it may find and may leave out, because two fair readings of the rule differ.
        runs: How many run folders there are, duplicates included.
        rows: How many good rows they hold.
        line_of: By run: the name of the node, environment and configuration that it belongs to.
    """

    planted: Mapping[str, frozenset[Fact]]
    either: Mapping[str, frozenset[Fact]]
    runs: int
    rows: int
    line_of: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Score:
    """How what was found of one class agrees with what was planted.

    Attributes:
        planted: How many there were to find.
        right: How many of them were found.
        missed: Those that were not, in order; ``wrong`` likewise those that were found and are not there.
    """

    name: str
    planted: int
    right: int
    missed: tuple[Fact, ...]
    wrong: tuple[Fact, ...]

    @property
    def precision(self) -> float:
        """Share of what was found that is true; 1 if nothing was found."""
        found = self.right + len(self.wrong)
        return self.right / found if found else 1.0

    @property
    def recall(self) -> float:
        """Share of what is true that was found; 1 if there was nothing to find."""
        return self.right / self.planted if self.planted else 1.0


def score(truth: Truth, found: Mapping[str, Iterable[Fact]]) -> tuple[Score, ...]:
    """Compares what was found with what was planted, class by class, in the order of ``CLASSES``.

    Raises:
        KeyError: Something of an unknown class was found.
    """
    for name in found:
        if name not in CLASSES:
            raise KeyError(name)
    result = []
    for name in CLASSES:
        planted, mine = truth.planted.get(name, frozenset()), frozenset(found.get(name, ()))
        wrong = mine - planted - truth.either.get(name, frozenset())
        missed = tuple(sorted(planted - mine))
        result.append(Score(name, len(planted), len(planted & mine), missed, tuple(sorted(wrong))))
    return tuple(result)


_OF_CHECKS = (NEW_FAILURE, FIXED, STILL_FAILING, FLAKY, NA_EVERYWHERE, NOT_RUN, NEW_CHECK)


def found_in(report: "Report", truth: Truth) -> dict[str, set[Fact]]:
    """Returns what a report says, by class, in the words in which things are planted."""
    line_of_key = {pair.key: truth.line_of.get(pair.candidate[0], "") for pair in report.sets.pairs}
    found: dict[str, set[Fact]] = {name: set() for name in CLASSES}
    for change in report.changes:
        if change.status in _OF_CHECKS:
            found[change.status].add((change.test, change.transport))
    found[FLAKY] |= {(flaky.test, flaky.transport) for flaky in report.flaky}
    found[STALE] = {(stale.test, stale.node_version) for stale in report.stale}
    found[FIRST_BAD] = {(bad.test, bad.transport, bad.good, bad.bad) for bad in report.first_bad}
    found[LOST] = {(lost.kind, lost.name) for lost in report.lost}
    found[BUCKET] = {(finding.bucket, finding.status) for finding in report.findings}
    for trend in report.trends:
        if trend.status in {SLOWER, FASTER}:
            found[trend.status].add((line_of_key.get(trend.key, trend.key), trend.name))
    found[NOT_COMPARABLE] = {(alone.run_id,) for alone in report.sets.not_comparable}
    for mutant in report.mutants:
        found[ALIVE if mutant.alive else KILLED].add((mutant.requirement,))
    found[STATE] = {(run.run_id, run.state) for run in report.runs}
    found[ACCOUNT] = {
        (line.run_id, line.file, *map(str, (line.lines, line.good, line.apart, line.blank, line.footers)))
        for line in report.accounts
    }
    return found


def table(scores: Iterable[Score]) -> str:
    """Returns precision and recall of each class as a table."""
    lines = [f"{'class':20}  planted  found  precision  recall"]
    for one in scores:
        found = one.right + len(one.wrong)
        lines.append(f"{one.name:20}  {one.planted:7}  {found:5}  {one.precision:9.3f}  {one.recall:6.3f}")
    return "\n".join(lines)
