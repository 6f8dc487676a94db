"""Run folders of runs that never took place, and the truth about them: what a report over them has to find.

Several nodes, releases and configurations, each with tests, a fuzzing campaign, reply times and benchmarks, all with
the noise that real ones have. Into them are planted: checks that broke, were mended, or end now this way and now
that; requirements that nobody tests any more; findings that are new, gone or back; times that grew; runs that may not
be compared; files that are damaged. The same seed gives the same bytes. Needs only the row types, so that it runs
without Spark.
"""

import dataclasses
import datetime as dt
import hashlib
import math
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from spark_reports import rows
from spark_reports import synthetic_plan as plan
from spark_reports.recall import (
    ACCOUNT,
    ALIVE,
    BUCKET,
    CLASSES,
    FASTER,
    FIRST_BAD,
    FIXED,
    FLAKY,
    KILLED,
    LOST,
    NA_EVERYWHERE,
    NEW_CHECK,
    NEW_FAILURE,
    NOT_COMPARABLE,
    NOT_RUN,
    SLOWER,
    STALE,
    STATE,
    STILL_FAILING,
    Fact,
    Truth,
)
from spark_reports.storage.damage import DAMAGE

LEAST_RUNS = 100
"""With fewer, some releases have fewer runs than it takes to call anything steady."""

SURE_RUNS = 15
"""With fewer runs of a release nobody can be sure that a rate or a time changed, so it need not be found."""

START = dt.datetime(2026, 1, 5, 8, tzinfo=dt.UTC)


def make(root: Path, runs: int = 300, seed: int = 1) -> Truth:
    """Writes run folders below a folder and returns what was planted in them.

    Args:
        root: Must not hold run folders yet; made if missing.
        runs: About how many; at least ``LEAST_RUNS``.
        seed: Of all chance.

    Raises:
        ValueError: Too few runs.
        OSError: The folder cannot be written.
    """
    if runs < LEAST_RUNS:
        raise ValueError(f"{runs} runs are too few; at least {LEAST_RUNS} are needed")
    root.mkdir(parents=True, exist_ok=True)
    return _Maker(root, runs, random.Random(seed)).make()


@dataclass(frozen=True, slots=True)
class _Run:
    """A run folder that is being written.

    Attributes:
        start_ns: When it began, as rows have it.
        slow: What all of its times are multiplied with.
        long: It plays many times as many cases as others.
    """

    folder: Path
    row: rows.RunRow
    line: plan.Line
    age: int
    start_ns: int
    slow: float
    long: bool = False


class _Maker:
    def __init__(self, root: Path, runs: int, rng: random.Random) -> None:
        self._root = root
        self._wanted = runs
        self._rng = rng
        self._nonce = f"{rng.random()}"
        self._number = 0
        self._rows = 0
        self._line_of: dict[str, str] = {}
        self._per_version: dict[str, int] = {}
        self._planted: dict[str, set[Fact]] = {name: set() for name in CLASSES}
        self._either: dict[str, set[Fact]] = {name: set() for name in CLASSES}

    def make(self) -> Truth:
        for when, make_one in sorted(self._calendar(), key=lambda entry: entry[0]):
            make_one(when)
        for line in plan.LINES:
            self._plant(line)
        self._damage()
        return Truth(
            planted={name: frozenset(facts) for name, facts in self._planted.items()},
            either={name: frozenset(facts) for name, facts in self._either.items()},
            runs=sum(1 for path in self._root.iterdir() if path.is_dir()),
            rows=self._rows,
            line_of=dict(self._line_of),
        )

    # When which run takes place -----------------------------------------------------------------------

    def _calendar(self) -> Iterator[tuple[dt.datetime, Callable[[dt.datetime], None]]]:
        """Yields the start of each run and what makes it. The releases of a node do not overlap, its runs do."""
        left = self._wanted - len(plan.ALONE) - plan.MUTANTS - 1
        for line in plan.LINES:
            per_version = max(3, round(left * line.share / len(line.versions)))
            self._per_version[line.name] = per_version
            oldest = len(line.versions) - 1
            for index in range(len(line.versions)):
                age = oldest - index
                weeks = dt.timedelta(weeks=4 * (len(plan.RELEASES) - 1 - age))
                step = dt.timedelta(days=25) / per_version
                for number in range(per_version):
                    shift = dt.timedelta(seconds=self._rng.randrange(3600))
                    when = START + weeks + number * step + shift
                    long = line is plan.LINES[0] and age == 0 and number == 0
                    yield when, partial(self._ordinary, line, age, long)
        newest = START + dt.timedelta(weeks=4 * len(plan.RELEASES) - 1)
        for number in range(len(plan.ALONE)):
            yield newest + number * dt.timedelta(hours=2), partial(self._alone, number)
        for number in range(plan.MUTANTS):
            when = newest + dt.timedelta(days=1, minutes=5 * number)
            yield when, partial(self._mutant, number)

    def _open(self, line: plan.Line, age: int, when: dt.datetime, kind: str) -> _Run:
        self._number += 1
        digest = hashlib.sha256(f"{self._nonce} {self._number}".encode()).hexdigest()[:8]
        run_id = f"{when:%Y%m%dT%H%M%SZ}-{digest}"
        row = rows.RunRow(
            run_id=run_id,
            started_at=_stamp(when),
            ended_at=_stamp(when + dt.timedelta(minutes=5)),
            kind=kind,
            node=line.node,
            node_impl=line.impl,
            node_version=line.versions[-1 - age],
            node_whatami=line.whatami,
            node_zid="a1b2c3d4",
            harness_version="0.1.0",
            python="3.11.9",
            platform=line.platform,
            seed=self._number,
            command=f"pytest conformance/ --node {line.node}; zenoh-fuzz run all --node {line.node}",
            status="complete",
            environment=line.environment,
            configuration=line.configuration,
            harness_commit="5f1c9a0d2b7e",
        )
        folder = self._root / run_id
        folder.mkdir()
        self._line_of[run_id] = line.name
        rows.write_run(folder, row)
        slow = math.exp(self._rng.gauss(0, 0.02)) * (1.5 if self._rng.random() < plan.BUSY else 1.0)
        self._planted[STATE].add((run_id, "complete"))
        return _Run(folder, row, line, age, int(when.timestamp()) * 1_000_000_000, slow)

    def _ordinary(self, line: plan.Line, age: int, long: bool, when: dt.datetime) -> None:
        kind = "benchmark+conformance+fuzz" if line.buckets else "benchmark+conformance"
        run = dataclasses.replace(self._open(line, age, when, kind), long=long)
        self._write(run, rows.VERDICTS, self._verdicts(run))
        self._write(run, rows.OBSERVATIONS, self._observations(run))
        self._write(run, rows.BENCHMARKS, self._benchmarks(run))
        if line.buckets:
            met: list[rows.FuzzCaseRow] = []
            self._write(run, rows.FUZZ_CASES, self._cases(run, met))
            self._write(run, rows.FINDINGS, _findings(run, met))
            self._write(run, rows.FUZZ_COVERAGE, _coverage(run))

    def _alone(self, number: int, when: dt.datetime) -> None:
        """Makes a run like the newest ones of the router, but elsewhere; all that fails there passes, and so on."""
        title, environment, configuration = plan.ALONE[number]
        swap = {"broke": "mended", "mended": "broke", "steady": "broke" if number == 0 else "steady"}
        checks = tuple(
            dataclasses.replace(check, behaviour=swap.get(check.behaviour, check.behaviour))
            for check in plan.LINES[0].checks
        )
        line = dataclasses.replace(
            plan.LINES[0], name=title, environment=environment, configuration=configuration, checks=checks
        )
        run = self._open(line, 0, when, "conformance")
        self._write(run, rows.VERDICTS, self._verdicts(run))
        self._planted[NOT_COMPARABLE].add((run.row.run_id,))
        # In a run that stands alone, what is n/a was never anything else, and what fails always did.
        self._either[FIRST_BAD] |= {(check.test, line.transport, "", line.versions[-1]) for check in checks}
        self._either[NA_EVERYWHERE] |= {
            (check.test, line.transport) for check in checks if check.behaviour == "no longer applies"
        }

    def _mutant(self, number: int, when: dt.datetime) -> None:
        """Makes a run against a reference node that breaks one rule; most are noticed."""
        broken = plan.ROUTER_CHECKS[number].requirement
        alive = number < plan.MUTANTS_ALIVE
        checks = tuple(
            dataclasses.replace(
                check, behaviour="always fails" if check.requirement == broken and not alive else "steady"
            )
            for check in plan.ROUTER_CHECKS
        )
        line = plan.Line(
            name="mutant",
            node=f"ref:{broken}",
            impl=f"{plan.REFERENCE}:{broken}",
            whatami="router",
            environment=plan.LAB,
            configuration=plan.TCP,
            transport="tcp",
            versions=("0.1.0",),
            share=0,
            checks=checks,
        )
        run = self._open(line, 0, when, "conformance")
        self._write(run, rows.VERDICTS, self._verdicts(run, well=True))
        self._planted[ALIVE if alive else KILLED].add((broken,))

    # Rows ---------------------------------------------------------------------------------------------

    def _write(self, run: _Run, name: str, found: Iterable[rows.LineRow]) -> None:
        count = 0
        with rows.RowWriter(run.folder / name) as writer:
            for row in found:
                writer.write(row)
                count += 1
        self._rows += count
        self._planted[ACCOUNT].add(_account(run.row.run_id, name, count, 0, 0, 1))

    def _verdicts(self, run: _Run, *, well: bool = False) -> Iterator[rows.VerdictRow]:
        for number, check in enumerate(run.line.checks):
            said = plan.BEHAVIOUR[check.behaviour](run.age)
            if said is None:
                continue
            if isinstance(said, float):
                said = "fail" if self._rng.random() < said else "pass"
                if not well and self._rng.random() < plan.SOMETIMES_INCONCLUSIVE:
                    said = "inconclusive"
            took = round(0.05 * run.slow * math.exp(self._rng.gauss(0, 0.3)), 4)
            yield _verdict(run, number, check, said, took)
            if check.behaviour == "now and then" and said == "fail" and self._rng.random() < plan.TRIED_AGAIN:
                yield _verdict(run, number, check, "pass", took)

    def _observations(self, run: _Run) -> Iterator[rows.ObservationRow]:
        for number, (stimulus, (reply, median)) in enumerate(plan.REPLIES.items()):
            factor = run.line.factor.get(stimulus, 1.0) if run.age == 0 else 1.0
            sent_ns = run.start_ns + number * 1_000_000_000
            for seq in range(plan.REPLIES_PER_RUN):
                took = median * factor * run.slow * math.exp(self._rng.gauss(0, 0.25))
                yield _observation(run, number, 2 * seq, sent_ns, "sent", stimulus)
                sent_ns += round(took * 1000)
                yield _observation(run, number, 2 * seq + 1, sent_ns, "received", reply)
                sent_ns += 5_000_000

    def _benchmarks(self, run: _Run) -> Iterator[rows.BenchmarkRow]:
        for name, (metric, unit, better, usual) in plan.BENCHMARKS.items():
            factor = run.line.factor.get(name, 1.0) if run.age == 0 else 1.0
            slow = 1 / run.slow if better == "higher" else run.slow
            for sample in range(plan.SAMPLES):
                cold = 1.0 if sample else (0.6 if better == "higher" else 1.6)
                value = usual * factor * slow * cold * math.exp(self._rng.gauss(0, 0.015))
                yield rows.BenchmarkRow(
                    run_id=run.row.run_id,
                    name=name,
                    metric=metric,
                    value=round(value, 3),
                    unit=unit,
                    better=better,
                    sample=sample,
                    warmup=sample == 0,
                    baseline="",
                )

    def _cases(self, run: _Run, met: list[rows.FuzzCaseRow]) -> Iterator[rows.FuzzCaseRow]:
        """Yields the cases of a run; those in a bucket are put into ``met`` as well."""
        for at, campaign in enumerate(plan.CAMPAIGNS):
            count = plan.CASES * (plan.MANY if run.long else 1)
            places = self._places(run, campaign, count)
            factor = run.line.factor.get(campaign, 1.0) if run.age == 0 else 1.0
            rate = plan.RATE * factor / run.slow
            now = float(run.start_ns + at * 60_000_000_000)
            for case in range(1, count + 1):
                took = math.exp(self._rng.gauss(0, 0.2)) / rate
                row = self._case(run, campaign, case, round(now), took, places.get(case))
                now += took * 1e9
                if row.bucket:
                    met.append(row)
                yield row

    def _places(self, run: _Run, campaign: str, count: int) -> dict[int, plan.Bucket]:
        """Returns in which cases of a campaign a run meets which bucket."""
        oldest = len(run.line.versions) - 1
        result: dict[int, plan.Bucket] = {}
        for bucket in run.line.buckets:
            there = plan.BUCKET_IN[bucket.status](run.age, oldest)
            if bucket.campaign == campaign and there and self._rng.random() < plan.HITS:
                free = [case for case in range(1, count + 1) if case not in result]
                result |= dict.fromkeys(self._rng.sample(free, self._rng.randint(1, 3)), bucket)
        return result

    def _case(
        self, run: _Run, campaign: str, case: int, now: int, took: float, bucket: plan.Bucket | None
    ) -> rows.FuzzCaseRow:
        messages = [name for name in plan.CAMPAIGNS[campaign] if (_state(name), name) != self._untried(run)]
        message = bucket.message if bucket else self._rng.choice(messages)
        drawn = self._rng.choices(list(plan.VERDICTS), list(plan.VERDICTS.values()))[0]
        verdict = "finding" if bucket else drawn
        size = self._rng.randint(8, 96)
        answers = {"accepted": "KEEP_ALIVE", "closed": "CLOSE", "refused": "EOF"}
        return rows.FuzzCaseRow(
            run_id=run.row.run_id,
            campaign=campaign,
            case=case,
            time_ns=now,
            duration_s=round(took, 6),
            seed=run.row.seed,
            state=_state(message),
            message=message,
            field=f"{message}.batch_size" if case % 2 else f"{message}.zid",
            mutation="batch_size: 65535 -> 0" if case % 2 else "zid: 4 bytes -> 17 bytes",
            sent_hex=self._rng.randbytes(size).hex(),
            sent_bytes=size,
            reply=answers.get(verdict, ""),
            verdict=verdict,
            oracle="alive" if bucket else "",
            bucket=bucket.name if bucket else "",
            detail=bucket.detail if bucket else "",
            node_instance=1,
            capture="",
            engine="fast",
            source=f"{campaign}:{case}",
            strategy="edge" if case % 2 else "length",
            answer=answers.get(verdict, ""),
            rtt_us=0 if verdict in {"silent", "inconclusive"} else round(took * 0.6e6),
            position=case - 1,
        )

    def _untried(self, run: _Run) -> tuple[str, str]:
        return run.line.lost_pair if run.age == 0 else ("", "")

    # The truth ----------------------------------------------------------------------------------------

    def _plant(self, line: plan.Line) -> None:
        """Notes what a report has to say of a node and its releases."""
        version = dict(enumerate(reversed(line.versions)))
        few = self._per_version[line.name] < SURE_RUNS
        for check in line.checks:
            fact = (check.test, line.transport)
            for name in _SAID.get(check.behaviour, ()):
                (self._either if check.behaviour == "broke often" and few else self._planted)[name].add(fact)
            if check.behaviour == "met at last":
                self._planted[STALE].add((check.test, version[0]))
            if check.behaviour in {"no longer applies", "given up"} and check.level == "MUST":
                self._planted[LOST].add(("requirement", check.requirement))
            self._plant_first_bad(check, fact, version)
        for bucket in line.buckets:
            self._planted[BUCKET].add((bucket.name, bucket.status))
        if line.lost_pair[0]:
            self._planted[LOST].add(("pair", " in ".join(reversed(line.lost_pair))))
        for name, factor in line.factor.items():
            if abs(factor - 1) > 0.05:
                drifts = {(line.name, shown) for shown in _names_of(name)}
                (self._either if few else self._planted)[_drift(name, factor)] |= drifts

    def _plant_first_bad(self, check: plan.Check, fact: Fact, version: Mapping[int, str]) -> None:
        """Notes between which releases a check broke; ``version`` has the releases by age."""
        oldest = version[len(version) - 1]
        if check.behaviour == "broke":
            self._planted[FIRST_BAD].add((*fact, version[1], version[0]))
        elif check.behaviour == "broke long ago" and 3 in version:
            self._planted[FIRST_BAD].add((*fact, version[3], version[2]))
        elif check.behaviour in {"always fails", "mended"}:
            # It was bad before anyone looked: to say so is no mistake.
            self._either[FIRST_BAD].add((*fact, "", oldest))
        elif check.behaviour in {"broke often", "now and then", "hardly ever"}:
            # Nobody can say since when: what happens now and then may just not have happened on a release.
            self._either[FIRST_BAD] |= {
                (*fact, good, bad) for good in ("", *version.values()) for bad in version.values()
            }
        if check.behaviour in {"broke often", "hardly ever"}:
            # The one failed now and then before as well, the other may not have failed of late.
            self._either[FLAKY].add(fact)

    # Damage -------------------------------------------------------------------------------------------

    def _damage(self) -> None:
        """Damages some runs of the router: files as machines that go down, full disks and foreign tools leave them."""
        folders = sorted(path for path in self._root.iterdir() if (path / rows.FUZZ_CASES).exists())
        chosen = self._rng.sample(folders, len(DAMAGE) + 2)
        for folder, (name, harm, state) in zip(chosen, DAMAGE, strict=False):
            path = folder / name
            whole = path.read_bytes()
            damaged, good, apart, blank, footers = harm(whole)
            path.write_bytes(damaged)
            count = whole.count(b"\n") - 1
            self._rows += good - count
            self._planted[ACCOUNT].remove(_account(folder.name, name, count, 0, 0, 1))
            self._planted[ACCOUNT].add(_account(folder.name, name, good, apart, blank, footers))
            self._planted[STATE].remove((folder.name, "complete"))
            self._planted[STATE].add((folder.name, state))
        running, twice = chosen[len(DAMAGE) :]
        # Killed in the middle: no end in run.json, a file without footer.
        row = dataclasses.replace(rows.read_run(running), ended_at=None, status="running")
        rows.write_run(running, row)
        self._planted[STATE].remove((running.name, "complete"))
        self._planted[STATE].add((running.name, "running"))
        # The same run once more, as a copy of a copied folder has it.
        copy = f"copy of {twice.name}"
        shutil.copytree(twice, self._root / copy)
        self._planted[STATE].add((copy, "duplicate"))


_SAID: Mapping[str, tuple[str, ...]] = {
    "broke": (NEW_FAILURE,),
    "broke often": (NEW_FAILURE,),
    "mended": (FIXED,),
    "broke long ago": (STILL_FAILING,),
    "always fails": (STILL_FAILING,),
    "now and then": (FLAKY,),
    "never applies": (NA_EVERYWHERE,),
    "given up": (NOT_RUN,),
    # Whether nobody asks any more or nobody can answer: the check says nothing where it did.
    "no longer applies": (NOT_RUN,),
    "added": (NEW_CHECK,),
}
"""What a report has to say of a check, by its behaviour."""


def _drift(name: str, factor: float) -> str:
    """Returns whether a measured value that is multiplied became slower or faster."""
    rises_when_slow = name in plan.REPLIES or plan.BENCHMARKS.get(name, ("", "", "", 0.0))[2] == "lower"
    return SLOWER if (factor > 1) == rises_when_slow else FASTER


def _names_of(name: str) -> tuple[str, ...]:
    """Returns the names under which a report shows a measured value."""
    if name in plan.REPLIES:
        return (f"{plan.REPLIES[name][0]} after {name}",)
    if name in plan.BENCHMARKS:
        return (f"{name} {plan.BENCHMARKS[name][0]}",)
    # Cases that take longer come more slowly, and so do the answers in them.
    return (f"cases of {name}", *(f"answer to {message} in {name}" for message in plan.CAMPAIGNS[name]))


def _state(message: str) -> str:
    return plan.STATE.get(message, "open")


def _stamp(when: dt.datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _account(run_id: str, name: str, good: int, apart: int, blank: int, footers: int) -> Fact:
    lines = good + apart + blank + footers
    return (run_id, name, *map(str, (lines, good, apart, blank, footers)))


def _verdict(run: _Run, number: int, check: plan.Check, said: str, took: float) -> rows.VerdictRow:
    """Returns the row of a check that ended so; a stale deviation is a fail for that reason."""
    bad = said in {"fail", "warning", "deviation"}
    return rows.VerdictRow(
        run_id=run.row.run_id,
        test=check.test,
        requirements=(check.requirement,),
        level=check.level,
        outcome="fail" if said == rows.STALE else said,
        expected="CLOSE(reason=INVALID)" if bad else "",
        seen="KEEP_ALIVE, then nothing for 1.0 s" if bad else "",
        reason=plan.REASONS.get(said, ""),
        stimulus="INIT(S=1, batch_size=9)",
        duration_s=took,
        started_ns=run.start_ns + number * 100_000_000,
        capture=f"captures/{number}.pcapng" if bad else "",
        repeat=f"pytest conformance/{check.test} --node {run.line.node} --seed {run.row.seed}",
        transport=run.line.transport,
    )


def _observation(
    run: _Run, area: int, seq: int, time_ns: int, direction: str, messages: str
) -> rows.ObservationRow:
    return rows.ObservationRow(
        run_id=run.row.run_id,
        test=f"suite/test_{plan.AREAS[area].lower()}.py::test_replies[{run.line.name}]",
        seq=seq,
        time_ns=time_ns,
        link="a",
        direction=direction,
        messages=messages,
        summary=messages,
        raw_hex="0105",
        error="",
    )


def _findings(run: _Run, met: Iterable[rows.FuzzCaseRow]) -> Iterator[rows.FindingRow]:
    by_bucket: dict[str, list[rows.FuzzCaseRow]] = {}
    for row in met:
        by_bucket.setdefault(row.bucket, []).append(row)
    for number, (bucket, cases) in enumerate(sorted(by_bucket.items()), start=1):
        first = cases[0]
        yield rows.FindingRow(
            run_id=run.row.run_id,
            bucket=bucket,
            time_ns=first.time_ns,
            status="confirmed",
            fails=True,
            harm=bucket.split(" ", 1)[0],
            oracle=first.oracle,
            state=first.state,
            message=first.message,
            field=first.field,
            detail=first.detail,
            campaign=first.campaign,
            case=first.case,
            hits=len(cases),
            left_out=0,
            tries=3,
            confirmed=3,
            messages=1,
            size=min(case.sent_bytes for case in cases),
            known="",
            folder=f"findings/{number}",
            engine="fast",
            seed=run.row.seed,
            job=0,
            part=0,
            node_impl=run.row.node_impl,
            node_version=run.row.node_version,
            case_buckets=(bucket,),
        )


def _coverage(run: _Run) -> Iterator[rows.CoverageRow]:
    def line(
        kind: str, campaign: str, message: str, *, state: str = "", what: str = "", count: int
    ) -> rows.CoverageRow:
        return rows.CoverageRow(
            run_id=run.row.run_id,
            kind=kind,
            campaigns=campaign,
            state=state,
            message=message,
            field="",
            what=what,
            count=count,
            planned=kind == "pair",
        )

    for campaign, messages in plan.CAMPAIGNS.items():
        for message in messages:
            lost = run.age == 0 and (_state(message), message) == run.line.lost_pair
            yield line("pair", campaign, message, state=_state(message), count=0 if lost else 30)
            if not lost:
                yield line("answer", campaign, message, what="CLOSE", count=9)
