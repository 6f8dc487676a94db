"""Our own readers under test: the bytes of the campaigns go to them instead of to a node."""

from __future__ import annotations

import itertools
import json
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from conformance.config import RunConfig
from conformance.errors import HarnessError, UsageError
from fuzz.campaigns.base import Campaign, Setting
from fuzz.coverage import Coverage
from fuzz.findings import CONFIRMED, FINDING, FLAKY, OPEN, README, many, slug_of
from fuzz.oracles import Harm, Objection
from fuzz.player import Ending, Played
from fuzz.recorder import MAX_DISK, Recorder
from fuzz.summary import Outcome
from fuzz.targets.feed import Input, inputs
from spark_reports.rows import FindingRow

OK, FINDINGS, USAGE, FAILED = 0, 1, 2, 3

SHRINK_SECONDS = 10.0
"""How long one finding may be made smaller."""

SHRINK_ALL_SECONDS = 60.0
"""How long all of them together may be."""

FIRST_BATCH = 16
"""So many inputs a reader gets at first when there is a time limit: how long it takes for them is not known yet."""

TURN_SECONDS = 5.0
"""So long a reader may take for a batch then, so that it is seen how far the run is."""

EPSILON = 1e-6
"""Seconds that a batch takes at least."""

MOST_HITS = 20
"""A finding that was met so often is only counted from then on: nothing is made smaller for it any more."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that a reader may not do.

    Attributes:
        bucket: Kind of the fault and where: the same for the same mistake.
        detail: What was seen, one line.
        index: Which of the inputs did it; -1 when that is not known.
        data: What shows it: the bytes of a unit, a stream, or a capture.
        form: What ``data`` is: ``batch``, ``scouting``, ``network``, ``stream``, ``pcap``, ``bytes``.
    """

    bucket: str
    detail: str
    index: int
    data: bytes
    form: str


class Target(ABC):
    """A reader.

    Attributes:
        name: For the command line.
        purpose: One line.
        each: Inputs that it gets at once.
    """

    name: ClassVar[str]
    purpose: ClassVar[str]
    each: ClassVar[int] = 1

    def start(self) -> None:  # noqa: B027  (most need nothing)
        """Makes ready.

        Raises:
            HarnessError: What it needs is not there.
        """

    @abstractmethod
    def examine(self, some: Sequence[Input], seed: int) -> Iterable[Fault]:
        """Gives inputs to the reader and yields what it does wrong; ``seed`` is for what else is random."""

    @abstractmethod
    def shows(self, data: bytes, form: str) -> str:
        """Returns the bucket of the first fault that some bytes alone show; empty when they show none."""


@dataclass(slots=True)
class _Found:
    """A finding in the making.

    Attributes:
        fault: The first one of the bucket, or a smaller one.
        one: The first case.
        folder: Name of its folder.
        hits: How many cases met it.
    """

    fault: Fault
    one: Input
    folder: str
    hits: int = 1


@dataclass(slots=True)
class Limit:
    """When a run ends; see ``fuzz.runner.Budget``.

    Attributes:
        seconds: Of wall clock; None for no limit.
        cases: None for no limit.
        max_disk: Bytes that the run folder may take; None for no limit.
    """

    seconds: float | None = None
    cases: int | None = None
    max_disk: int | None = MAX_DISK


@dataclass(slots=True)
class Run:
    """One run against a target.

    Attributes:
        target: The reader.
        config: Folder, id and seed.
        campaigns: Where the inputs come from.
        limit: When it ends.
        report: Is told now and then.
        corpus: See ``Setting``.
    """

    target: Target
    config: RunConfig
    campaigns: Sequence[Campaign]
    limit: Limit = field(default_factory=Limit)
    report: Callable[[Outcome], None] = lambda _: None
    corpus: Path | None = None
    outcome: Outcome = field(default_factory=Outcome)
    _found: dict[str, _Found] = field(default_factory=dict)
    _began: float = 0.0
    _turn: float = 0.0
    _last: int = 0

    def run(self) -> Outcome:
        """Runs until the time is over, the cases are played, or somebody presses Ctrl-C.

        Raises:
            HarnessError: The reader cannot be had.
            OSError: The run folder cannot be written.
        """
        setting = Setting(self.config.seed, self.corpus)
        self._began = time.monotonic()
        self.target.start()
        with Recorder(self.config, max_disk=self.limit.max_disk) as recorder:
            source = inputs(self.campaigns, setting)
            try:
                while not self._spent(recorder) and (some := self._next(source)):
                    self._examine(some, recorder)
            except KeyboardInterrupt:
                self.outcome.interrupted = True
            self._finish(recorder)
        return self.outcome

    def _spent(self, recorder: Recorder) -> bool:
        self.outcome.seconds = time.monotonic() - self._began
        self.outcome.stopped = recorder.full
        if self.limit.seconds is not None and self.outcome.seconds >= self.limit.seconds:
            return True
        if self.limit.cases is not None and self.outcome.total >= self.limit.cases:
            return True
        return bool(self.outcome.stopped)

    def _next(self, source: Iterator[Input]) -> list[Input]:
        most = self.target.each
        if self.limit.cases is not None:
            most = min(most, self.limit.cases - self.outcome.total)
        if self.limit.seconds is not None:
            now = time.monotonic()
            # Others may take longer than those so far.
            left = min(TURN_SECONDS, (self.limit.seconds - (now - self._began)) / 2)
            if self._last:
                most = min(
                    most,
                    2 * self._last,
                    max(FIRST_BATCH, int(left * self._last / max(now - self._turn, EPSILON))),
                )
            else:
                most = min(most, FIRST_BATCH)
            self._turn = now
        some = list(islice(source, most))
        self._last = len(some)
        return some

    def _examine(self, some: Sequence[Input], recorder: Recorder) -> None:
        started, began = time.time_ns(), time.perf_counter()
        faults: dict[int, Fault] = {}
        met: set[tuple[str, int]] = set()
        for fault in self.target.examine(some, self.config.seed + self.outcome.total):
            # A case of several units may meet it in each.
            again = fault.index >= 0 and (fault.bucket, fault.index) in met
            met.add((fault.bucket, fault.index))
            self._note(fault, some, recorder, hits=0 if again else 1)
            faults.setdefault(fault.index, fault)
        each = (time.perf_counter() - began) / len(some)
        for index, one in enumerate(some):
            self._record(one, faults.get(index), recorder, started, each)
        self.outcome.seconds = time.monotonic() - self._began
        self.report(self.outcome)

    def _note(self, fault: Fault, some: Sequence[Input], recorder: Recorder, hits: int) -> None:
        known = self._found.get(fault.bucket)
        if known is None:
            folder = self._folder_of(fault.bucket)
            found = self._found[fault.bucket] = _Found(fault, some[max(fault.index, 0)], folder)
            # At once, as it is: whatever ends the run does not lose it.
            self._keep(found, fault, OPEN, recorder)
        else:
            known.hits += hits
            if known.hits <= MOST_HITS and len(fault.data) < len(known.fault.data):
                known.fault = fault

    def _record(self, one: Input, fault: Fault | None, recorder: Recorder, started: int, each: float) -> None:
        case, name = one.numbered.case, one.numbered.campaign.name
        sent = [one.stream] if one.stream else [unit.data for unit in one.units]
        played = Played(ending=Ending.ACCEPTED, sent=sent, rtt=each)
        verdict = "finding" if fault is not None else str(Ending.ACCEPTED)
        recorder.case(
            one.numbered.number,
            name,
            case,
            played,
            verdict,
            objection=None if fault is None else objection_of(self.target, fault),
            bucket="" if fault is None else fault.bucket,
            instance=1,
            engine=self.target.name,
            duration_s=each,
            time_ns=started,
        )
        self.outcome.cases[name] += 1
        self.outcome.coverage.add(name, case, played, verdict)

    # Findings ----------------------------------------------------------------------------------------

    def _finish(self, recorder: Recorder) -> None:
        """Makes what was found smaller and writes it down."""
        ended = time.monotonic()
        deadline = ended + SHRINK_ALL_SECONDS
        for number, (bucket, found) in enumerate(self._found.items(), 1):
            self._tell(f"minimising findings, {number} of {len(self._found)}")
            left = 0.0 if self.outcome.interrupted else max(0.0, deadline - time.monotonic())
            fault = smaller(self.target, found.fault, min(left, SHRINK_SECONDS))
            again = bool(fault.form) and self.target.shows(fault.data, fault.form) == bucket
            row = self._keep(found, fault, CONFIRMED if again else FLAKY, recorder)
            self.outcome.findings.append(row)
        self.outcome.doing = ""
        recorder.coverage(self.outcome.coverage.rows(self.config.run_id))
        over = round(time.monotonic() - ended)
        if self.limit.seconds is not None and over:
            self.outcome.notes.append(f"--time was exceeded by {over} s for minimising findings")

    def _tell(self, doing: str) -> None:
        """Tells what goes on behind the last case; who stops the run then gets the findings as they are."""
        if not self.outcome.interrupted:
            self.outcome.doing = doing
            try:
                self.report(self.outcome)
            except KeyboardInterrupt:
                self.outcome.interrupted = True

    def _folder_of(self, bucket: str) -> str:
        """Returns the name of a folder that no other finding has: buckets may differ by what no name can hold."""
        slug, taken = slug_of(bucket), {found.folder for found in self._found.values()}
        names = itertools.chain([slug], (f"{slug}-{number}" for number in itertools.count(2)))
        return next(name for name in names if name not in taken)

    def _keep(self, found: _Found, fault: Fault, status: str, recorder: Recorder) -> FindingRow:
        """Writes the folder of a finding and its row."""
        folder = self.config.run_dir / "findings" / found.folder
        save(folder, self.target, fault, found.one, found.hits, self.config.seed, status)
        case = found.one.numbered.case
        row = FindingRow(
            run_id=self.config.run_id,
            bucket=fault.bucket,
            time_ns=time.time_ns(),
            status=status,
            # A reader has no luck: what it did once, it did.
            fails=True,
            harm=fault.bucket.split(" ", 1)[0],
            oracle=self.target.name,
            state=str(case.state),
            message=case.message,
            field=case.field,
            detail=fault.detail,
            campaign=found.one.numbered.campaign.name,
            case=found.one.numbered.number,
            hits=found.hits,
            left_out=0,
            tries=0 if status == OPEN else 1,
            confirmed=int(status == CONFIRMED),
            messages=1,
            size=len(fault.data),
            known="",
            folder=str(folder.relative_to(self.config.run_dir)),
            engine=self.target.name,
            seed=self.config.seed,
            job=0,
            part=0,
            node_impl=f"zenoh-harness {self.target.name}",
            node_version="",
            case_buckets=(fault.bucket,),
        )
        recorder.finding(row)
        return row


def objection_of(target: Target, fault: Fault) -> Objection:
    """Returns a fault in the words of oracles."""
    harm = Harm.DIFFERS if fault.bucket.startswith("differs") else Harm.PANIC
    return Objection(target.name, harm, fault.bucket, fault.detail)


def smaller(target: Target, fault: Fault, seconds: float = SHRINK_SECONDS) -> Fault:
    """Returns the same fault with fewer bytes: halves first, then ever smaller blocks, while there is time."""
    deadline = time.monotonic() + seconds
    data = fault.data
    if not fault.form or target.shows(data, fault.form) != fault.bucket:
        return fault
    size = max(1, len(data) // 2)
    while time.monotonic() < deadline:
        at, shrunk = 0, False
        while at < len(data) and time.monotonic() < deadline:
            tried = data[:at] + data[at + size :]
            if tried and target.shows(tried, fault.form) == fault.bucket:
                data, shrunk = tried, True
            else:
                at += size
        if size == 1 and not shrunk:
            break
        size = max(1, size // 2)
    return Fault(fault.bucket, fault.detail, fault.index, data, fault.form)


def save(folder: Path, target: Target, fault: Fault, one: Input, hits: int, seed: int, status: str) -> None:
    """Writes the folder of a finding: what shows it, and how to see it again.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = input_name(fault.form)
    (folder / name).write_bytes(fault.data)
    case = one.numbered.case
    facts = {
        "bucket": fault.bucket,
        "target": target.name,
        "status": status,
        "detail": fault.detail,
        "form": fault.form,
        "size": len(fault.data),
        "hex": fault.data[:4096].hex(),
        "hits": hits,
        "seed": seed,
        "campaign": one.numbered.campaign.name,
        "case": one.numbered.number,
        "state": str(case.state),
        "message": case.message,
        "field": case.field,
        "mutation": case.mutation,
    }
    (folder / FINDING).write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n", "utf-8")
    often = "once" if hits == 1 else f"{hits} times"
    (folder / README).write_text(
        f"# {fault.bucket}\n\n"
        f"The reader `{target.name}` did this {often} in a run with seed {seed}; the first was case "
        f"{one.numbered.number} of `{one.numbered.campaign.name}` ({case.message} in {case.state}: {case.mutation}).\n\n"
        f"{fault.detail}\n\n"
        f"`{name}` ({fault.form or 'no bytes'}, {len(fault.data)} bytes) {_SHOWS[status]}\n\n"
        "    zenoh-fuzz replay .\n",
        "utf-8",
    )


_SHOWS = {
    CONFIRMED: "shows it again, alone or beside messages of every kind:",
    FLAKY: "is what was read then. It does not show this again, neither alone nor beside messages of every kind: what "
    "else was read at the same time may be needed. The run can be repeated with its seed.",
    OPEN: "is what was read then; whether it shows this again was not tried, as the run ended before. To try it:",
}
"""What is said of the bytes in a folder."""


def input_name(form: str) -> str:
    """Returns the name of the file with the bytes of a finding."""
    return "input.pcap" if form == "pcap" else "input.bin"


@dataclass(frozen=True, slots=True)
class Kept:
    """A finding about one of our readers, from its folder.

    Attributes:
        folder: Where it is.
        facts: What ``finding.json`` says.
    """

    folder: Path
    facts: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Kept | None:
        """Reads a folder; None when it is not one of such a finding."""
        try:
            facts = json.loads((folder / FINDING).read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        ours = isinstance(facts, dict) and all(isinstance(facts.get(name), str) for name in _NAMED)
        return cls(folder, facts) if ours else None

    @property
    def line(self) -> str:
        """The finding in one line."""
        hits, size = self.facts.get("hits", 0), self.facts.get("size", 0)
        return f"{self.facts['bucket']}: {self.facts.get('status', OPEN)}, {many(hits, 'case')}, {many(size, 'byte')}"

    def shown(self, target: Target) -> str:
        """Returns the bucket of what the reader does wrong with the bytes now; empty when it does nothing wrong.

        Raises:
            HarnessError: The reader cannot be had.
            OSError: The bytes cannot be read.
        """
        target.start()
        form = self.facts["form"]
        return target.shows((self.folder / input_name(form)).read_bytes(), form) if form else ""


_NAMED = ("bucket", "target", "form")


def place_of(error: BaseException) -> str:
    """Returns where in our code an error arose: file and function, no line, which moves from version to version."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        for package in ("scapy_layers", "conformance"):
            if package in path.parts:
                inside = path.parts[path.parts.index(package) :]
                return f"{'/'.join(inside)}:{frame.name}"
    return "elsewhere"


def run_target(
    name: str,
    config: RunConfig,
    budget: Limit,
    seed: int,
    report: Callable[[Outcome], None] = lambda _: None,
    *,
    campaigns: Sequence[Campaign] = (),
    corpus: Path | None = None,
) -> int:
    """Runs a target and returns the exit code: 0 nothing found, 1 findings, 3 the reader cannot be had.

    Args:
        name: See ``TARGETS``; ``refnode`` is no reader but a node, see ``NODES``.
        config: Folder and id of the run; the folder is there.
        budget: Anything with ``seconds`` and ``cases``.
        seed: Of all random choices.
        report: Is told now and then how far it is; the last call has everything.
        campaigns: Where the inputs come from; all when empty.
        corpus: See ``Setting``.

    Raises:
        UsageError: No target is called like that.
        OSError: The run folder cannot be written.
    """
    from fuzz.campaigns import CAMPAIGNS
    from fuzz.targets import TARGETS

    if name not in TARGETS:
        raise UsageError(f"unknown target {name!r}; choose from {', '.join(TARGETS)}")
    outcome = Outcome(coverage=Coverage())
    run = Run(
        TARGETS[name](),
        replace(config, seed=seed),
        campaigns or tuple(CAMPAIGNS.values()),
        budget,
        report,
        corpus,
        outcome,
    )
    try:
        run.run()
    except HarnessError as error:
        outcome.failed = str(error)
        report(outcome)
        return FAILED
    report(outcome)
    return FINDINGS if outcome.findings else OK
