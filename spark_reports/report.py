"""Everything a report says, as plain values: what ``render`` turns into a page and ``report.json`` holds.

``collect`` asks Spark for them. No Spark is needed to have a report, to judge or to draw it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_reports.folders import CUT_OFF, DUPLICATE, FAILED, RUNNING
from spark_reports.rows import is_partial

REPORT_VERSION = 2
"""Version of ``report.json``; raised when a field goes away or changes its meaning."""

NEW = "new"
KNOWN = "known"
GONE = "gone"
REOPENED = "reopened"
NOT_TRIED = "not tried"

REFUTED = "not reproduced"
"""One of ``rows.FINDING_STATUS``: what was seen did not come again on fresh nodes."""

UNHELD = "held by no finding"
"""Of cases that seemed to meet something, and were laid on no finding of their run when that was looked into."""

FINDING_STATUSES = (NEW, REOPENED, KNOWN, GONE, NOT_TRIED)
"""What can be said of a bucket, most urgent first; what each means: docs/reports.md."""


WRONG = ("ref:", "null:")
"""What nodes are called that break a rule on purpose: they show what the tests notice, and nothing of any version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run: what it was, how it ended, what it showed.

    Attributes:
        state: One of ``folders.STATES``.
        notes: What is wrong with it, one sentence each.
        outcomes: Number of requirements by outcome.
        rows: Number of rows by file.
        bad: Number of lines that are no rows.
        sent: Batches sent by its tests; ``received`` and ``undecoded`` likewise.
        findings: Number of fuzz cases that an oracle objected to.
    """

    run_id: str
    started_at: str
    ended_at: str | None
    kind: str
    node: str
    node_impl: str
    node_version: str
    node_whatami: str
    harness_version: str
    python: str
    platform: str
    seed: int
    command: str
    state: str
    notes: tuple[str, ...]
    outcomes: Mapping[str, int]
    rows: Mapping[str, int]
    bad: int
    sent: int
    received: int
    undecoded: int
    findings: int
    environment: str = ""
    configuration: str = ""
    harness_commit: str = ""
    parent: str = ""
    attempt: int = 1
    selection: str = ""

    @property
    def is_partial(self) -> bool:
        """Tells whether it left tests of the suite out on purpose."""
        return is_partial(self.selection)

    @property
    def is_wrong(self) -> bool:
        """Tells whether its node breaks a rule on purpose."""
        return self.node.startswith(WRONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What holds of a requirement for a node version; see ``matrix.outcomes_by_version``."""

    node_impl: str
    node_version: str
    requirement: str
    area: str
    level: str
    outcome: str
    run_id: str
    runs: int
    other: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A requirement that releases of an implementation show differently; see ``versions.first_differs``.

    ``first``, ``test``, ``before`` and ``after`` are None where no release differs from the one before it.
    """

    node_impl: str
    requirement: str
    level: str
    oldest: str
    newest: str
    versions: int
    first: str | None
    test: str | None
    before: str | None
    after: str | None
    differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A verdict that needs an explanation; see ``collect``."""

    outcome: str
    test: str
    requirements: tuple[str, ...]
    level: str
    node_impl: str
    node_version: str
    run_id: str
    expected: str
    seen: str
    reason: str
    stimulus: str
    capture: str
    repeat: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """Why tests could not show their requirement, and how many."""

    reason: str
    tests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A bucket of an implementation, with its smallest case; see ``findings.bucket_changes``.

    Attributes:
        node_impl: The implementation: the same signature of another one is another finding.
        by_run: Cases by run id.
        status: One of ``FINDING_STATUSES``.
        first_seen: When its first run began; ``last_seen`` likewise.
        cases_before: Cases of the first run that were played before it was met; None if that is not known.
        known: Name of the known finding, for those that were looked at before; empty otherwise.
        confirmed: One of ``rows.FINDING_STATUS``; empty if nobody tried; ``held by no finding`` of cases that were
            looked into and are no finding of the runs that are judged.
        odds: Share of the baseline's cases of its campaigns that met it; None if none did.
        folder: Where the run of its smallest case stores it, as seen from the folder of that run; empty if that is not
            known.
        folders: The same of all runs that are known to store it, by run id.
    """

    bucket: str
    node_impl: str
    cases: int
    runs: int
    first_run: str
    last_run: str
    campaigns: tuple[str, ...]
    fields: tuple[str, ...]
    states: tuple[str, ...]
    oracles: tuple[str, ...]
    versions: tuple[str, ...]
    run_id: str
    campaign: str
    case: int
    sent_bytes: int
    sent_hex: str
    message: str
    field: str
    mutation: str
    state: str
    reply: str
    detail: str
    capture: str
    seed: int
    by_run: Mapping[str, int]
    status: str
    first_seen: str = ""
    last_seen: str = ""
    cases_before: int | None = None
    known: str = ""
    confirmed: str = ""
    odds: float | None = None
    folder: str = ""
    folders: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_news(self) -> bool:
        """Tells whether it is a finding that is new, not known already, and was not refuted on fresh nodes."""
        return self.status in {NEW, REOPENED} and not self.known and self.confirmed not in {REFUTED, UNHELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A campaign in a run; see ``rates``."""

    run_id: str
    campaign: str
    cases: int
    seconds: float | None
    cases_per_s: float | None
    node_starts: int
    verdicts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Runs of one node, environment and configuration, and the runs they are compared with.

    Attributes:
        key: What all of them share, in words.
        node: Implementation and role of the node.
        candidate: Run ids, newest first; ``baseline`` likewise, empty where there is nothing to compare with.
        candidate_version: Versions of the node in the candidate runs, joined by a comma; ``baseline_version``
            likewise.
        selected_only: All candidate runs left tests of the suite out on purpose.
        left_behind: A later run of the same node went past the version of its newest run; see ``sets.left_behind``.
    """

    key: str
    node: str
    candidate: tuple[str, ...]
    baseline: tuple[str, ...]
    candidate_version: str
    baseline_version: str
    selected_only: bool = False
    left_behind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NotComparable:
    """A run that is compared with nothing, and why."""

    run_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInfo:
    """What was compared with what.

    Attributes:
        asked: The baseline that was asked for: ``previous``, a run or a version.
        text: One sentence that says what was compared.
        pairs: One for each key that candidate runs have.
        not_comparable: Runs that were asked to be compared and cannot be.
        unread: Runs that may be what should be judged, and whose run.json cannot be read or whose version has no place
            in an order, with the reason.
        cautions: What may be taken for compared although it was not, one clause each; ``text`` ends with them.
    """

    asked: str = "previous"
    text: str = ""
    pairs: tuple[Compared, ...] = ()
    not_comparable: tuple[NotComparable, ...] = ()
    unread: tuple[NotComparable, ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def followed(self) -> tuple[Compared, ...]:
        """The pairs that were not left behind."""
        return tuple(pair for pair in self.pairs if not pair.left_behind)

    @property
    def candidate(self) -> tuple[str, ...]:
        """All runs that are judged."""
        return tuple(run_id for pair in self.pairs for run_id in pair.candidate)

    @property
    def baseline(self) -> tuple[str, ...]:
        """All runs that they are compared with."""
        return tuple(run_id for pair in self.pairs for run_id in pair.baseline)


NEW_FAILURE = "new failure"
FIXED = "fixed"
STILL_FAILING = "still failing"
FLAKY = "flaky"
NA_EVERYWHERE = "n/a everywhere"
NOT_RUN = "not run"
NOT_SELECTED = "not selected"
NEW_CHECK = "new check"
UNCHANGED = "unchanged"
NOT_COMPARABLE = "not comparable"
NO_LONGER_PASSES = "no longer passes"

CHECK_STATUSES = (
    NEW_FAILURE,
    FLAKY,
    NOT_RUN,
    NO_LONGER_PASSES,
    STILL_FAILING,
    NOT_COMPARABLE,
    FIXED,
    NEW_CHECK,
    NA_EVERYWHERE,
    NOT_SELECTED,
    UNCHANGED,
)
"""What can be said of a check, most urgent first; what each means: docs/reports.md."""

DETERMINISTIC = "deterministic"
ASSUMED = "assumed"
STATISTICAL = "statistical"

CERTAINTIES = (DETERMINISTIC, STATISTICAL, ASSUMED)
"""How certain a change is, most certain first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckChange:
    """A check in the runs that are judged (``_c``) and in those they are compared with (``_b``).

    Attributes:
        key: That of ``Compared``.
        status: One of ``CHECK_STATUSES``.
        certainty: ``deterministic``; ``assumed`` for the same with fewer than five runs to compare with and no sign
            that it is flaky, or with none that could judge it; ``statistical`` if it rests on rates.
        failed_c: Runs in which it failed; ``failed_b`` likewise.
        runs_c: Runs in which it passed or failed; ``runs_b`` likewise.
        low: Interval (95 %) in which its failure rate lies, from 0 to 1, up to ``high``. None without runs.
        p: How likely the difference is by chance; None where that was not asked. ``q``: the same, corrected for the
            number of checks that were looked at.
        flips: How often its outcome changed from run to run of one node version.
        rate: Share of runs in which it failed.
        last_flip_run: Run in which it last changed; empty for never.
        seen: What was seen in ``run_id``, the newest run that shows the status; ``capture`` and ``repeat`` likewise.
        outcome_c: What the newest run that is judged said; None for nothing.
        quarantine: Until when it is not counted, and why; empty if it is.
    """

    key: str
    test: str
    transport: str
    requirements: tuple[str, ...]
    level: str
    status: str
    certainty: str
    failed_c: int
    runs_c: int
    failed_b: int
    runs_b: int
    low: float | None
    high: float | None
    p: float | None
    q: float | None
    flips: int
    rate: float | None
    last_flip_run: str
    seen: str
    capture: str
    repeat: str
    run_id: str
    outcome_c: str | None = None
    quarantine: str = ""

    @property
    def is_news(self) -> bool:
        """Tells whether it is a new failure that counts."""
        return self.status == NEW_FAILURE and not self.quarantine

    @property
    def is_newly_flaky(self) -> bool:
        """Tells whether it fails now and then in the runs that are judged, and failed in none of those before."""
        return self.status == FLAKY and self.failed_c > 0 and self.failed_b == 0 and not self.quarantine


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaky:
    """A check that ended both ways for one node version, harness and configuration.

    Attributes:
        runs: How many runs were looked at, at most 30; ``failed`` of them failed.
        rate: Share that failed, from 0 to 1; between ``low`` and ``high`` (95 %).
        flips: How often it changed from one run to the next.
        flips_c: How often it did on the version that is judged.
        score: 0 (never changes) to 1 (changes in every run, and fails in half of them).
        history: Run id and outcome, oldest first.
    """

    key: str
    test: str
    transport: str
    requirements: tuple[str, ...]
    level: str
    runs: int
    failed: int
    rate: float
    low: float
    high: float
    flips: int
    score: float
    last_flip_run: str
    seen: str
    capture: str
    repeat: str
    run_id: str
    history: tuple[tuple[str, str], ...] = ()
    flips_c: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageLine:
    """How much of what was planned a run tried.

    Attributes:
        kind: ``requirement`` (shown by a test), or one of ``rows.COVERAGE_KINDS``.
        tried: How many; of ``planned``, 0 if there was no plan.
        cases: How many cases or tests that took.
    """

    run_id: str
    kind: str
    tried: int
    planned: int
    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """What the baseline tried and the candidate did not.

    Attributes:
        kind: As in ``CoverageLine``.
        name: Requirement, or the state, message or field.
        level: Of a requirement; empty otherwise.
        last_run: Newest run that tried it.
        why: What the candidate says instead, for example the reason of n/a; ``not run`` if nothing.
    """

    key: str
    kind: str
    name: str
    level: str
    last_run: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """A measured value of one run, with the interval it lies in (None where it is not known)."""

    run_id: str
    started_at: str
    version: str
    value: float
    low: float | None
    high: float | None


SLOWER = "slower"
FASTER = "faster"
STEADY = "steady"
TOO_FEW = "too few runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A measured value over time.

    Attributes:
        name: What was measured: ``reply to OPEN``, ``cases per second of handshake``, a benchmark.
        unit: ``us``, ``1/s`` ...
        better: ``lower`` or ``higher``.
        points: Oldest first.
        drift: What the comparison says, in words; empty without one.
        status: ``slower``, ``faster``, ``steady`` or ``too few runs``.
        change: Candidate against baseline, 0.1 for ten per cent more; None without a comparison.
    """

    key: str
    name: str
    unit: str
    better: str
    points: tuple[TrendPoint, ...]
    drift: str
    status: str
    change: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantLine:
    """How many faulty reference nodes the tests of a requirement noticed; ``alive`` names the others."""

    requirement: str
    level: str
    mutants: int
    killed: int
    alive: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleDeviation:
    """A known deviation that a node no longer shows."""

    node_impl: str
    node_version: str
    requirement: str
    test: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBad:
    """The two versions between which a check began to fail.

    Attributes:
        requirement: Those that the check is about, joined by spaces.
        node_whatami: With ``node_impl``, ``environment`` and ``configuration`` what all runs that tell it share.
        good: Last version that was run often enough without a failure; empty if there is none.
        bad: First version that fails.
        between: Versions between the two that did not fail, and were not run often enough to be sure.
        confidence: From 0 to 1: that ``good`` had shown the failure if it had it, as often as it was run.
        runs_bad: Runs from ``bad`` on to the last version that failed; in ``failed_bad`` of them it did.
        fixed: First version that passes again; empty if none does.
    """

    node_impl: str
    requirement: str
    test: str
    transport: str
    good: str
    bad: str
    confidence: float
    runs_good: int
    runs_bad: int
    failed_bad: int
    fixed: str = ""
    level: str = ""
    between: tuple[str, ...] = ()
    node_whatami: str = ""
    environment: str = ""
    configuration: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPoint:
    """How far fuzzing had got by the end of a run.

    Attributes:
        cases: Cases of this and all earlier runs of the implementation.
        buckets: Buckets that these had met.
        new: Those of them that this run met first.
    """

    run_id: str
    started_at: str
    cases: int
    buckets: int
    node_impl: str = ""
    new: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLine:
    """What became of the lines of a file: lines = good + apart + blank + footers."""

    run_id: str
    file: str
    lines: int
    good: int
    apart: int
    blank: int
    footers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """Whether a gate holds; ``text`` says what was counted and what is allowed."""

    name: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLineShown:
    """A line that is no row; ``line`` is its number in the file, from 1."""

    run_id: str
    file: str
    line: int
    problem: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that a report says.

    Attributes:
        runs: Newest first; duplicates and unreadable ones included.
        cells: By node version, then requirement.
        changes: What is not ``unchanged``, in the order of ``CHECK_STATUSES``; of one status the most certain first.
        troubles: Fails first.
        not_applicable: Commonest reason first.
        findings: New ones first, then by number of cases.
        rates: By campaign, then run, newest first.
        bad_lines: The first few of them.
        left_out: Of what there was more than a report holds (``asking.LIMIT``): the names.
        differences: By implementation, then requirement; those that no release differs in are left out.
        sets: What was compared with what.
        unchanged: How many checks are as they were.
        flaky: Highest score first.
        coverage: By kind, then run, newest first.
        lost: Requirements first.
        trends: Those that became slower first.
        first_bad: Those with a good version first, then those that still fail, then by requirement.
        found: How the number of buckets grew, oldest run first.
        accounts: By run, then file.
        gates: In the order of their names; empty if none was asked for.
    """

    runs: tuple[RunLine, ...]
    cells: tuple[Cell, ...]
    changes: tuple[CheckChange, ...]
    troubles: tuple[Trouble, ...]
    not_applicable: tuple[NotApplicable, ...]
    findings: tuple[Finding, ...]
    rates: tuple[Rate, ...]
    bad_lines: tuple[BadLineShown, ...]
    left_out: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    sets: SetInfo = SetInfo()
    unchanged: int = 0
    flaky: tuple[Flaky, ...] = ()
    coverage: tuple[CoverageLine, ...] = ()
    lost: tuple[Lost, ...] = ()
    trends: tuple[Trend, ...] = ()
    mutants: tuple[MutantLine, ...] = ()
    stale: tuple[StaleDeviation, ...] = ()
    first_bad: tuple[FirstBad, ...] = ()
    found: tuple[FoundPoint, ...] = ()
    accounts: tuple[AccountLine, ...] = ()
    gates: tuple[GateResult, ...] = ()
    report_version: int = REPORT_VERSION

    @property
    def blind(self) -> tuple[str, ...]:
        """The runs that are judged and decided no requirement: all that they show is inconclusive or n/a."""
        shown: dict[str, set[str]] = {}
        for cell in self.cells:
            shown.setdefault(cell.run_id, set()).add(cell.outcome)
        judged = (run_id for pair in self.sets.followed for run_id in pair.candidate if run_id in shown)
        return tuple(run_id for run_id in judged if shown[run_id] <= {"inconclusive", "n/a"})

    @property
    def not_whole(self) -> Mapping[str, str]:
        """The runs that are the newest of their key, are judged, and lack what they did not get to; each with its state.

        Not those of keys that were left behind: that they are not whole says nothing about what is run today.
        """
        return self._incomplete(self.sets.followed)

    @property
    def left_incomplete(self) -> Mapping[str, str]:
        """The same of the keys that were left behind."""
        return self._incomplete([pair for pair in self.sets.pairs if pair.left_behind])

    def _incomplete(self, pairs: Sequence[Compared]) -> Mapping[str, str]:
        state = {run.run_id: run.state for run in self.runs if run.state != DUPLICATE}
        newest = [pair.candidate[0] for pair in pairs if pair.candidate]
        return {one: state[one] for one in newest if state.get(one) in {CUT_OFF, FAILED, RUNNING}}
