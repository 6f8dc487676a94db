"""Our own readers under test: the bytes of the campaigns go to them instead of to a node."""

from __future__ import annotations

import itertools
import json
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from conformance.config import RunConfig
from conformance.errors import HarnessError, UsageError
from fuzz.campaigns.base import Campaign, Setting
from fuzz.coverage import Coverage
from fuzz.findings import CONFIRMED, FINDING, FLAKY, OPEN, README, drop_folder, many, slug_of
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

MOST_HANGS = 3
"""A message that hung the reader so often is not read any more; a field of it after the first time. Each takes as long as
thousands of others."""

MOST_LEFT_OUT = 10_000
"""So many inputs in a row may be left out; then the run ends."""

MOST_HITS = 20
"""A finding that was met so often is only counted from then on: nothing is made smaller for it any more."""


FAMILY = 3
"""So many buckets of a family are one mistake: in what they have in common, and not in each of them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that a reader may not do.

    Attributes:
        bucket: Kind of the fault and where: the same for the same mistake.
        detail: What was seen, one line.
        index: Which of the inputs did it; -1 when that is not known.
        data: What shows it: the bytes of a unit, a stream, or a capture.
        form: What ``data`` is: ``batch``, ``scouting``, ``network``, ``stream``, ``pcap``, ``bytes``.
        family: What ``FAMILY`` buckets or more are told as that have it in common; empty for none.
    """

    bucket: str
    detail: str
    index: int
    data: bytes
    form: str
    family: str = ""


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
    def shown(self, data: bytes, form: str) -> Iterable[Fault]:
        """Yields what some bytes alone show."""

    def shows(self, data: bytes, form: str, wanted: str = "") -> str:
        """Returns the bucket of a fault that some bytes alone show: of several the one that is wanted, or the first.

        Empty when they show none.
        """
        first = ""
        for fault in self.shown(data, form):
            first = first or fault.bucket
            if not wanted or fault.bucket == wanted:
                return fault.bucket
        return first


@dataclass(slots=True)
class _Found:
    """A finding in the making.

    Attributes:
        fault: The first one of the bucket, or a smaller one.
        one: The first case.
        folder: Name of its folder.
        cases: Numbers of the cases that met it.
        family: Bucket that several are told as; ``members`` are theirs.
    """

    fault: Fault
    one: Input
    folder: str
    cases: set[int]
    family: str = ""
    members: tuple[str, ...] = ()

    @property
    def bucket(self) -> str:
        """What it is told as."""
        return self.family or self.fault.bucket


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
    _hung: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _left_out: int = 0
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
        # All that is left may be like what hung the reader, and there may be no end of it.
        given = islice(source, most + MOST_LEFT_OUT)
        some = list(islice(filter(self._is_read, given), most))
        self._last = len(some)
        return some

    def _is_read(self, one: Input) -> bool:
        """Tells whether an input is not like those that hung the reader, and counts it if it is."""
        case = one.numbered.case
        hangs = bool(self._hung[case.message, case.field]) or self._hung[case.message,] >= MOST_HANGS
        self._left_out += hangs
        return not hangs

    def _examine(self, some: Sequence[Input], recorder: Recorder) -> None:
        started, began = time.time_ns(), time.perf_counter()
        faults: dict[int, Fault] = {}
        for fault in self.target.examine(some, self.config.seed + self.outcome.total):
            self._note(fault, some, recorder)
            faults.setdefault(fault.index, fault)
        each = (time.perf_counter() - began) / len(some)
        for index, one in enumerate(some):
            self._record(one, faults.get(index), recorder, started, each)
        self.outcome.seconds = time.monotonic() - self._began
        self.report(self.outcome)

    def _note(self, fault: Fault, some: Sequence[Input], recorder: Recorder) -> None:
        index = max(fault.index, 0)
        if fault.bucket.startswith(Harm.STALL) and fault.index >= 0:
            self._note_hang(some[index])
        number = self.outcome.total + index
        known = self._found.get(fault.bucket)
        if known is None:
            folder = self._folder_of(fault.bucket)
            found = self._found[fault.bucket] = _Found(fault, some[index], folder, {number})
            # At once, as it is: whatever ends the run does not lose it.
            self._keep(found, OPEN, recorder)
        else:
            # A case of several units may meet it in each.
            known.cases.add(number)
            if len(known.cases) <= MOST_HITS and len(fault.data) < len(known.fault.data):
                known.fault = fault

    def _note_hang(self, one: Input) -> None:
        case = one.numbered.case
        self._hung.update([(case.message, case.field), (case.message,)])

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
        all_found = list(self._gathered(recorder))
        for number, found in enumerate(all_found, 1):
            self._tell(f"minimising findings, {number} of {len(all_found)}")
            left = 0.0 if self.outcome.interrupted else max(0.0, deadline - time.monotonic())
            fault = found.fault = smaller(self.target, found.fault, min(left, SHRINK_SECONDS))
            again = (
                bool(fault.form) and self.target.shows(fault.data, fault.form, fault.bucket) == fault.bucket
            )
            row = self._keep(found, CONFIRMED if again else FLAKY, recorder)
            self.outcome.findings.append(row)
        self.outcome.doing = ""
        recorder.coverage(self.outcome.coverage.rows(self.config.run_id))
        if self._left_out:
            self.outcome.notes.append(
                f"{many(self._left_out, 'case')} not read: others like them hung the reader"
            )
        over = round(time.monotonic() - ended)
        if self.limit.seconds is not None and over:
            self.outcome.notes.append(f"--time was exceeded by {over} s for minimising findings")

    def _gathered(self, recorder: Recorder) -> Iterator[_Found]:
        """Yields what was found, those of one family as one where there are so many of them, and takes back the others."""
        families: dict[str, list[_Found]] = defaultdict(list)
        for found in self._found.values():
            families[found.fault.family or found.bucket].append(found)
        for family, some in families.items():
            if len(some) < FAMILY:
                yield from some
                continue
            # The smallest shows it best.
            first = min(some, key=lambda found: len(found.fault.data))
            members = tuple(found.bucket for found in some)
            cases = set[int]().union(*(found.cases for found in some))
            one = _Found(first.fault, first.one, self._folder_of(family), cases, family, members)
            self._keep(one, OPEN, recorder)
            for found in some:
                drop_folder(self.config.run_dir / "findings" / found.folder)
                detail = f"the same as {family}: {len(some)} fields of this kind are read differently"
                recorder.finding(replace(self._row(found, FLAKY), hits=0, detail=detail))
            yield one

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

    def _keep(self, found: _Found, status: str, recorder: Recorder) -> FindingRow:
        """Writes the folder of a finding and its row."""
        save(self.config.run_dir / "findings" / found.folder, self.target, found, self.config.seed, status)
        row = self._row(found, status)
        recorder.finding(row)
        return row

    def _row(self, found: _Found, status: str) -> FindingRow:
        case, fault = found.one.numbered.case, found.fault
        return FindingRow(
            run_id=self.config.run_id,
            bucket=found.bucket,
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
            hits=len(found.cases),
            left_out=0,
            tries=0 if status == OPEN else 1,
            confirmed=int(status == CONFIRMED),
            messages=1,
            size=len(fault.data),
            known="",
            folder=f"findings/{found.folder}",
            engine=self.target.name,
            seed=self.config.seed,
            job=0,
            part=0,
            node_impl=f"zenoh-harness {self.target.name}",
            node_version="",
            case_buckets=found.members or (found.bucket,),
        )


def objection_of(target: Target, fault: Fault) -> Objection:
    """Returns a fault in the words of oracles."""
    harm = Harm.DIFFERS if fault.bucket.startswith("differs") else Harm.PANIC
    return Objection(target.name, harm, fault.bucket, fault.detail)


def smaller(target: Target, fault: Fault, seconds: float = SHRINK_SECONDS) -> Fault:
    """Returns the same fault with fewer bytes: halves first, then ever smaller blocks, while there is time."""
    deadline = time.monotonic() + seconds
    data = fault.data
    if not fault.form or target.shows(data, fault.form, fault.bucket) != fault.bucket:
        return fault
    size = max(1, len(data) // 2)
    while time.monotonic() < deadline:
        at, shrunk = 0, False
        while at < len(data) and time.monotonic() < deadline:
            tried = data[:at] + data[at + size :]
            if tried and target.shows(tried, fault.form, fault.bucket) == fault.bucket:
                data, shrunk = tried, True
            else:
                at += size
        if size == 1 and not shrunk:
            break
        size = max(1, size // 2)
    return replace(fault, data=data)


def save(folder: Path, target: Target, found: _Found, seed: int, status: str) -> None:
    """Writes the folder of a finding: what shows it, and how to see it again.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fault, hits, numbered = found.fault, len(found.cases), found.one.numbered
    name = input_name(fault.form)
    (folder / name).write_bytes(fault.data)
    case = numbered.case
    facts = {
        "bucket": found.bucket,
        "shows": fault.bucket,
        "members": found.members,
        "target": target.name,
        "status": status,
        "detail": fault.detail,
        "form": fault.form,
        "size": len(fault.data),
        "hex": fault.data[:4096].hex(),
        "hits": hits,
        "seed": seed,
        "campaign": numbered.campaign.name,
        "case": numbered.number,
        "state": str(case.state),
        "message": case.message,
        "field": case.field,
        "mutation": case.mutation,
    }
    (folder / FINDING).write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n", "utf-8")
    often = "once" if hits == 1 else f"{hits} times"
    alike = "".join(f"* {member}\n" for member in found.members)
    (folder / README).write_text(
        f"# {found.bucket}\n\n"
        f"The reader `{target.name}` did this {often} in a run with seed {seed}; the first was case "
        f"{numbered.number} of `{numbered.campaign.name}` ({case.message} in {case.state}: {case.mutation}).\n\n"
        f"{fault.detail}\n\n"
        + (alike and f"Told as one, as the same kind of value is read differently in:\n\n{alike}\n")
        + f"`{name}` ({fault.form or 'no bytes'}, {len(fault.data)} bytes) {_SHOWS[status]}\n\n"
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
        bucket = str(self.facts.get("shows", self.facts["bucket"]))
        return target.shows((self.folder / input_name(form)).read_bytes(), form, bucket) if form else ""


_NAMED = ("bucket", "target", "form")


ELSEWHERE = "elsewhere"
"""Place of what failed in no code of ours."""


def place_of(error: BaseException) -> str:
    """Returns where in our code an error arose: file and function, no line, which moves from version to version."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        for package in ("scapy_layers", "conformance"):
            if package in path.parts:
                inside = path.parts[path.parts.index(package) :]
                return f"{'/'.join(inside)}:{frame.name}"
    return ELSEWHERE


def failed(name: str, error: BaseException, index: int, data: bytes, form: str) -> Fault:
    """Returns the fault of a reader that failed: where it did is what it is, whatever else was looked at then."""
    kind, place = type(error).__name__, place_of(error)
    who = f"{name} " if place == ELSEWHERE else ""
    return Fault(f"{Harm.PANIC} {who}{kind} {place}", f"{name}: {kind}: {error}"[:300], index, data, form)


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
