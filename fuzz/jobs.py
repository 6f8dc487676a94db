"""A run in this process, or in several side by side, each with nodes of its own.

Process j of n plays the cases j, j+n, ... of the same seed. All of them append to the files of one run folder, line
by line; what each has done comes back to the one that was called, which writes one summary. A process that dies loses
nothing: what it recorded is there, and is counted from the rows.
"""

from __future__ import annotations

import ctypes
import gc
import math
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.config import RunConfig
from conformance.errors import HarnessError, NotApplicable, Unmet, UsageError
from conformance.recorder import NodeFacts
from fuzz.interrupts import ENDING, Interrupts
from fuzz.plan import Done
from fuzz.progress import Glance, Progress, together
from fuzz.recorder import MAX_DISK, Recorder
from fuzz.resume import postpone
from fuzz.summary import Outcome, merged
from spark_reports.rows import FindingRow

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from conformance.nodes.base import Node
    from fuzz.findings import Finding
    from fuzz.runner import Summary

PR_SET_PDEATHSIG = 1

TELL_SECONDS = 0.5
"""How often a process tells how far it is."""

GO = "go"
"""What a process waits for once its node serves."""

YOUNG, OLDER, OLDEST = 50_000, 20, 100
"""Collector of cycles: objects that are new before it looks at them; rounds before it looks at older ones. A run keeps
hundreds of thousands of lies to its end; with Python's own numbers, looking at them takes longer than making them."""

TURN_SECONDS = 0.0005
"""A thread that computes gives way to another so soon. Findings are looked into beside the campaign, which has to wait
for its turn whenever it has sent or received something; Python's own 5 ms are as long as several cases."""

END_SECONDS = 60.0
"""How long processes may take to end in order: a finding may just be looked into."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run; plain data, so that other processes can be told.

    Attributes:
        config: The run.
        campaigns: Names of the campaigns.
        seconds: How long; None for no limit.
        cases: How many cases; None for no limit.
        engine: ``fast`` or ``boofuzz``.
        jobs: How many processes.
        also: Another node that gets the same, as for ``--node``; empty for none.
        known: File of findings that are known besides those that are shipped; None for none.
        through_known: Known findings are not avoided.
        minimise: Seconds for making each finding smaller.
        rate: Cases a second at most, of all processes together; None for no limit.
        max_disk: Bytes that the run folder may take.
        corpus: Folder of a corpus that is kept from run to run.
        web: Port of boofuzz's own page; None for none.
        database: File of boofuzz's own database; None for none.
        part: How often the run was resumed.
        done: Cases of earlier parts, by process and campaign.
        left: Folders of findings that earlier parts had not looked into, or not made smaller, when they were killed.
    """

    config: RunConfig
    campaigns: tuple[str, ...]
    seconds: float | None = None
    cases: int | None = None
    engine: str = "fast"
    jobs: int = 1
    also: str = ""
    known: Path | None = None
    through_known: bool = False
    minimise: float = 20.0
    rate: float | None = None
    max_disk: int | None = MAX_DISK
    corpus: Path | None = None
    web: int | None = None
    database: Path | None = None
    part: int = 0
    done: Mapping[int, Mapping[str, Done]] = field(default_factory=dict)
    left: tuple[Path, ...] = ()

    @property
    def judging(self) -> dict[str, object]:
        """Options that change what is found, for the row of the run."""
        from fuzz.campaigns import CAMPAIGNS

        whole = set(self.campaigns) == set(CAMPAIGNS)
        return {
            "campaigns": "all" if whole else ",".join(sorted(self.campaigns)),
            "engine": self.engine,
            "also": self.also,
            "known": self.known is not None,
            "through-known": self.through_known,
            "corpus": self.corpus is not None,
            "user": self.config.user is not None,
        }

    def share(self, job: int) -> Order:
        """Returns what one of the processes gets."""
        cases = self.cases
        if cases is not None:
            cases = cases // self.jobs + (job < cases % self.jobs)
        rate = self.rate / self.jobs if self.rate else None
        return replace(self, cases=cases, rate=rate, left=() if job else self.left)


def play(order: Order, job: int, node: Node, progress: Callable[[Summary], None]) -> Outcome:
    """Plays one process's share against a node that serves, and records it.

    Returns:
        What it did; ``failed`` says when the node or the harness did not hold out.

    Raises:
        OSError: The rows cannot be written.
    """
    from fuzz.campaigns import CAMPAIGNS
    from fuzz.known import KnownFindings
    from fuzz.lab import Lab
    from fuzz.runner import Budget, Runner, forget_cores
    from fuzz.triage import Triage

    forget_cores()
    gc.set_threshold(YOUNG, OLDER, OLDEST)
    sys.setswitchinterval(TURN_SECONDS)
    outcome = Outcome()
    config = order.config
    known = KnownFindings.of_run(order.known)
    with (
        Recorder(config, job=job, part=order.part, max_disk=order.max_disk) as recorder,
        _beside(order, job) as also,
        Lab(config, node, also=also) as lab,
    ):
        watch = _Watch(recorder, order.engine, progress)
        triage = Triage(
            config,
            node,
            lab,
            known,
            through_known=order.through_known,
            minimising=order.minimise,
            also=order.also,
        )
        runner = Runner(
            config,
            node,
            [CAMPAIGNS[name] for name in order.campaigns],
            Budget(order.seconds, order.cases),
            recorder,
            triage,
            job=job,
            jobs=order.jobs,
            done=order.done.get(job, {}),
            rate=order.rate,
            minimise=order.minimise,
            corpus=order.corpus,
            engine=order.engine,
            also=also,
            database=order.database,
            web=order.web,
            progress=watch,
        )
        try:
            runner.run()
            if not runner.summary.interrupted:
                runner.minimise(order.left)
                # Of fewer cases than processes some get none.
                if not runner.summary.total and not order.part and order.cases != 0:
                    outcome.failed = runner.summary.stopped or "no cases were run; increase --time"
        except (HarnessError, Unmet, NotApplicable) as error:
            outcome.failed = str(error)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001  (a bug of ours must not take along what was found)
            traceback.print_exc()
            outcome.failed = f"internal error in the harness: {type(error).__name__}: {error}"
        postpone(config.run_dir, runner.postponed)
        summary = runner.summary
        outcome.failed = "; ".join(filter(None, [outcome.failed, *dict.fromkeys(summary.blind)]))
        outcome.findings = [watch.row(finding) for finding in summary.findings]
        for finding in summary.findings:
            # What was left out because of it is counted to the end.
            finding.save()
        for finding in triage.merged:
            # Rows of it were written when nobody knew.
            if finding.bucket not in triage.findings:
                watch.row(finding)
    for name in (
        "coverage",
        "cases",
        "inconclusive",
        "seconds",
        "lost",
        "restarts",
        "slowest_restart",
        "left_out",
        "spent",
        "looks",
        "compared",
        "behind",
        "over",
    ):
        setattr(outcome, name, getattr(summary, name))
    outcome.notes, outcome.interrupted, outcome.stopped = summary.notes, summary.interrupted, summary.stopped
    return outcome


class _Watch:
    """Writes a row whenever something was learned about a finding, so that a run that is killed has told of it.

    Args:
        recorder: Writes.
        engine: What plays.
        progress: Is told as well.
    """

    def __init__(self, recorder: Recorder, engine: str, progress: Callable[[Summary], None]) -> None:
        self._recorder = recorder
        self._engine = engine
        self._progress = progress
        self._seen: list[Finding] | None = None
        self._told: dict[str, tuple[int, str]] = {}

    def __call__(self, summary: Summary) -> None:
        """Is called by the runner after each case."""
        if summary.findings is not self._seen:
            self._seen = summary.findings
            for finding in summary.findings:
                if self._told.get(finding.bucket) != (finding.hits, finding.status):
                    self.row(finding)
        self._progress(summary)

    def row(self, finding: Finding) -> FindingRow:
        """Writes what is known now."""
        self._told[finding.bucket] = finding.hits, finding.status
        return self._recorder.found(finding, self._engine)


def other(order: Order) -> RunConfig:
    """Returns the run as the node sees it that gets the same. The profile is of the node under test."""
    return replace(order.config, node=order.also, profile="")


@contextmanager
def _beside(order: Order, job: int) -> Iterator[Node | None]:
    """Starts the node that gets the same, if there is to be one."""
    from conformance.nodes import node_of

    if not order.also:
        yield None
        return
    node = node_of(other(order), f"also-{job}")
    try:
        awake(node, order.config.reply)
        yield node
    finally:
        node.stop()


# Several processes ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Worker:
    """A process as the one that was called sees it.

    Attributes:
        job: Its number.
        process: It.
        pipe: What it says comes here.
        glance: How far it is.
        outcome: What it did; None until it has said so.
        greeted: Its node serves, and it was told to begin.
    """

    job: int
    process: BaseProcess
    pipe: Connection
    glance: Glance = field(default_factory=Glance)
    outcome: Outcome | None = None
    greeted: bool = False

    def tell(self, what: str) -> None:
        """Says something; that a process is not there any more shows when it is listened to."""
        with suppress(BrokenPipeError):
            self.pipe.send(what)

    def leave(self) -> None:
        """Waits until the process has ended; ends it when that takes too long."""
        self.process.join(END_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def side_by_side(
    order: Order, progress: Progress, served: Callable[[NodeFacts], None], interrupts: Interrupts
) -> list[Outcome]:
    """Runs all processes until the last one has ended; returns what each did.

    Args:
        order: The run.
        progress: Shows how far it is.
        served: Is told of the first node that serves, before any case is played.
        interrupts: Tells when the run is to end.

    Raises:
        HarnessError: No node can be had, or ``served`` does not want it.
    """
    workers: list[_Worker] = []
    try:
        workers.extend(_begin(order, job) for job in range(order.jobs))
        deadline = math.inf
        while running := [worker for worker in workers if worker.outcome is None]:
            heard = list(_said(running))
            # Before anybody is let go: a signal may have come while the first node was started.
            if interrupts.take():
                _end(workers)
                deadline = time.monotonic() + END_SECONDS
            for said, worker in heard:
                if isinstance(said, NodeFacts):
                    _greet(said, worker, workers, served if deadline == math.inf else None)
                elif said is None and worker.outcome is not None:
                    progress.note(f"warning: {worker.outcome.failed}")
            if time.monotonic() >= deadline:
                _kill(running)
            glance = together(worker.glance for worker in workers)
            progress.offer(lambda glance=glance: glance, glance.doing)  # type: ignore[misc]
    except BaseException:
        _end(workers)
        for worker in workers:
            worker.tell("")
        raise
    finally:
        for worker in workers:
            worker.leave()
    return [worker.outcome for worker in workers if worker.outcome is not None]


def _greet(
    facts: NodeFacts, worker: _Worker, workers: list[_Worker], served: Callable[[NodeFacts], None] | None
) -> None:
    """Lets a process begin; the record begins with the first one. None begins when nobody wants to hear of it."""
    if served is None:
        worker.tell("")
        return
    if not any(other.greeted for other in workers):
        served(facts)
    worker.greeted = True
    worker.tell(GO)


@contextmanager
def _unheard() -> Iterator[None]:
    """Holds back signals that end a run, from us and from processes that are started meanwhile.

    A terminal sends them to all processes at once, and those are not ready to hear them while they load their modules.
    """
    # When it starts it lets some of them through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(order: Order, job: int) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_work, args=(order.share(job), job, theirs, os.getpid()), name=f"fuzz-{job}"
    )
    with _unheard():
        process.start()
    theirs.close()
    return _Worker(job, process, ours)


def _said(workers: list[_Worker]) -> Iterator[tuple[Any, _Worker]]:
    """Waits until somebody says something, or for a moment."""
    by_pipe = {worker.pipe: worker for worker in workers}
    for pipe in wait(list(by_pipe), TELL_SECONDS):
        assert isinstance(pipe, Connection)
        yield _hear(by_pipe[pipe]), by_pipe[pipe]


def _hear(worker: _Worker) -> Any:
    """Takes in what a worker says; one that says nothing any more has died."""
    try:
        said = worker.pipe.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        code = worker.process.exitcode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        worker.outcome = Outcome(
            cases=Counter(),
            seconds=worker.glance.seconds,
            failed=f"job {worker.job} {how}; everything it had recorded is in the rows",
        )
        return None
    if isinstance(said, Glance):
        worker.glance = said
    elif isinstance(said, Outcome):
        worker.outcome = said
    return said


def _kill(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.process.kill()


def _end(workers: list[_Worker]) -> None:
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()


def cores_of(job: int, jobs: int, cores: Iterable[int]) -> frozenset[int]:
    """Returns the cores of one of several processes and its nodes: its share, or one where there are fewer of them."""
    own = sorted(cores)
    if jobs > len(own):
        return frozenset({own[job % len(own)]})
    return frozenset(own[job * len(own) // jobs : (job + 1) * len(own) // jobs])


def _work(order: Order, job: int, pipe: Connection, parent: int) -> None:
    """The main function of a worker."""
    # What the terminal sends goes to all processes; the one that was called tells the others.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    # Its nodes inherit that. To wake another core for each message, and for each answer, takes longer than to play it.
    os.sched_setaffinity(0, cores_of(job, order.jobs, os.sched_getaffinity(0)))
    # Whoever is to be told may have been ended meanwhile.
    with (
        suppress(BrokenPipeError),
        Interrupts([signal.SIGTERM], ignored=[signal.SIGINT, signal.SIGHUP]) as interrupts,
    ):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        try:
            pipe.send(_worked(order, job, pipe, interrupts))
        except (HarnessError, Unmet, NotApplicable) as error:
            pipe.send(Outcome(failed=f"job {job}: {error}"))
        except KeyboardInterrupt:
            pipe.send(Outcome(interrupted=True))
        except Exception:  # noqa: BLE001  (a bug of ours ends this process, not the others)
            pipe.send(Outcome(failed=f"job {job}: {traceback.format_exc().strip().splitlines()[-1]}"))
            traceback.print_exc()


def _worked(order: Order, job: int, pipe: Connection, interrupts: Interrupts) -> Outcome:
    from conformance.nodes import node_of

    interrupts.check()
    node = node_of(order.config, f"fuzz-{job}")
    progress = _Telling(pipe, interrupts)
    try:
        awake(node, order.config.reply)
        pipe.send(NodeFacts.of(node))
        if pipe.recv() != GO:
            raise KeyboardInterrupt
        return play(order, job, node, progress)
    finally:
        node.stop()


def awake(node: Node, reply: float) -> None:
    """Starts a node and learns who it is; one that only connects is started when there is somebody to connect to.

    Raises:
        NodeDidNotStart: It does not come up.
    """
    if node.listens:
        node.start()
        node.ask(reply)


class _Telling(Progress):
    """Tells the process that was called how far this one is."""

    def __init__(self, pipe: Connection, interrupts: Interrupts) -> None:
        super().__init__(look=interrupts.check)
        self._pipe = pipe

    def show(self, glance: Glance) -> None:
        """See Progress."""
        self._next = self._now() + TELL_SECONDS
        self._keep(glance)

    def _keep(self, glance: Glance) -> None:
        # Nothing may come behind what takes long.
        super()._keep(glance)
        self._pipe.send(glance)


def check_jobs(order: Order, node: Node) -> None:
    """Refuses several processes against one node: what one does would be laid on the other.

    Raises:
        UsageError: The node is not started by us.
    """
    if order.jobs > 1 and not node.owned:
        raise UsageError(
            f"--jobs {order.jobs} needs a node that can be started once per job (pypi, ref, cmd:); {order.config.node} is a single node"
        )


def whole(outcomes: list[Outcome], jobs: int) -> Outcome:
    """Returns what all processes did together."""
    result = merged(outcomes)
    result.jobs = jobs
    return result
