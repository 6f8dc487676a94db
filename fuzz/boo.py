"""A campaign as a boofuzz session: our requests, connection and monitor in boofuzz's loop.

What is set differently from boofuzz's defaults, and why: no web page (it opens a port and waits for ENTER at
the end), its own record in memory (it commits to disk for each case), no thresholds (it skips silently; we
mask and say so), no restart by a monitor (it sleeps three seconds behind it; a hook on failures does not).
"""

from __future__ import annotations

import contextlib
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from boofuzz import Request, Session, Target
from boofuzz.connections import ITargetConnection
from boofuzz.exception import BoofuzzFailure
from boofuzz.monitors import BaseMonitor
from boofuzz.mutation_context import MutationContext

from conformance.config import RunConfig
from conformance.errors import LinkFailed, LocalError, NodeDidNotStart, Unmet
from conformance.nodes.base import Node
from conformance.observe import Seen
from conformance.tester import End, SessionEnd, Tester
from fuzz.campaigns import Campaign
from fuzz.cases import Case, Plan
from fuzz.oracles import Objection, Patient, examine
from fuzz.prelude import Barrier, Ready, State, prepare
from fuzz.recorder import Record, Recorder, undisturbed
from fuzz.triage import Triage
from scapy_layers.batch import PREFIX
from scapy_layers.message import Message
from scapy_layers.transport import Close, KeepAlive
from spark_reports.rows import FuzzCaseRow

PATIENCE = 0.01
"""Seconds in which the node has to end a link by itself, or it was us. On loopback it takes a fraction of one ms."""

DECODED = 4096
"""Stimuli of more bytes are recorded without taking them apart, which would take longer than the case."""

QUICK = ("process", "stderr")
"""Oracles that cost next to nothing."""

RECOVERY = 15.0
"""Seconds that a node we cannot restart has to become well again; half-open links live for ten."""

RECOVERY_STEP = 0.2
"""Seconds between two looks at it."""

ATTEMPTS = 3
"""So many cases in a row may fail before their stimulus until the campaign is given up."""

REPLAY_SECONDS = 15.0
"""How long that may take for all findings together."""

REPLAYS = 2
"""How often the smallest case of a finding is sent again to a fresh node."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When a campaign ends.

    Attributes:
        seconds: Of wall clock; None for no limit.
        cases: Number of cases; None for no limit.
    """

    seconds: float | None = None
    cases: int | None = None


@dataclass(slots=True)
class Summary:
    """What a campaign did.

    Attributes:
        cases: Cases that ran.
        inconclusive: Those of them that learned nothing.
        seconds: How long it took, replays aside.
        lost: How much of that went into cases that harmed the node, and into making it well again.
        restarts: How often the node was started again, or waited for.
        slowest_restart: Seconds of the longest one.
        fields: Fields that were mutated, of ``all_fields``.
        messages: Stimuli that were mutated, of ``all_messages``.
        singles: Cases with one lie that exist.
        triage: Findings and what was masked.
        interrupted: Ended by Ctrl-C.
        capture_is_full: The last cases are in the rows only.
    """

    cases: int = 0
    inconclusive: int = 0
    seconds: float = 0.0
    lost: float = 0.0
    restarts: int = 0
    slowest_restart: float = 0.0
    fields: set[tuple[str, str]] = field(default_factory=set)
    all_fields: int = 0
    messages: set[str] = field(default_factory=set)
    all_messages: int = 0
    singles: int = 0
    triage: Triage = field(default_factory=Triage)
    interrupted: bool = False
    capture_is_full: bool = False

    @property
    def rate(self) -> float:
        """Cases a second."""
        return self.cases / self.seconds if self.seconds else 0.0

    @property
    def healthy_rate(self) -> float:
        """Cases a second while the node was well."""
        well = self.seconds - self.lost
        return self.cases / well if well > 0 else 0.0


class _Current:
    """The case that runs now.

    Attributes:
        case: What is sent.
        number: Counts from 1.
        tester: Made for this case.
        ready: The link behind its prelude; None when that failed.
        barrier: In an open session, what was sent behind the stimulus.
        failure: Why the prelude failed.
        sent: The stimulus, with its length in front.
        answered: The node has dealt with the stimulus and lives.
        outcome: Names of what came back, and the verdict unless an oracle objects.
    """

    def __init__(self, case: Case, number: int) -> None:
        self.case = case
        self.number = number
        self.started_ns = time.time_ns()
        self.started = time.monotonic()
        self.tester: Tester | None = None
        self.ready: Ready | None = None
        self.barrier: Barrier | None = None
        self.failure = ""
        self.sent = b""
        self.answered = False
        self.outcome: tuple[list[str], str] = [], "inconclusive"


class Runner:
    """Runs a campaign against a node that was started.

    Args:
        config: The run.
        node: The node.
        campaign: The plan.
        budget: When to end.
        recorder: Takes every case.
        progress: Called behind every case.
    """

    def __init__(
        self,
        config: RunConfig,
        node: Node,
        campaign: Campaign,
        budget: Budget,
        recorder: Recorder,
        progress: Callable[[Summary], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._node = node
        self._campaign = campaign
        self._budget = budget
        self._recorder = recorder
        self._progress = progress
        self._patient = Patient(node, config.reply)
        self._plan = Plan(list(campaign.stimuli()), config.rng(f"fuzz {campaign.name}"))
        self._failed_in_a_row = 0
        self._began = 0.0
        self._current: _Current | None = None
        self._last_case: Case | None = None
        self._replayed: Objection | None = None
        self._replaying = False
        self.summary = Summary(
            all_fields=self._plan.fields, all_messages=len(self._plan.requests), singles=self._plan.singles
        )

    def run(self) -> Summary:
        """Runs until the budget is spent or somebody presses Ctrl-C.

        Raises:
            HarnessError: The node is not to be had any more; all cases so far are recorded.
        """
        self._began = time.monotonic()
        try:
            self._loop(self._cases())
        except KeyboardInterrupt:
            self.summary.interrupted = True
        finally:
            self._close()
            self._patient.close()
            self.summary.seconds = time.monotonic() - self._began
            self._recorder.flush()
            self.summary.capture_is_full = self._recorder.capture_is_full
        return self.summary

    def _loop(self, cases: Iterator[Case]) -> None:
        """Runs boofuzz's loop over cases."""
        with contextlib.closing(_BooSession(self, self._plan, cases)) as loop:
            loop.fuzz()

    def replay(self) -> None:
        """Sends the smallest case of each finding again to a fresh node, and notes how often it harms it.

        Does nothing with a node that is not ours.
        """
        if not self._node.owned:
            return
        self._replaying = True
        deadline = time.monotonic() + REPLAY_SECONDS
        try:
            for finding in self.summary.triage.findings.values():
                for _ in range(REPLAYS):
                    if time.monotonic() < deadline:
                        tries, hits = finding.confirmed
                        finding.confirmed = tries + 1, hits + self._harms(finding.case)
        except KeyboardInterrupt:
            self.summary.interrupted = True
        finally:
            self._close()
            self._patient.close()

    def _harms(self, case: Case) -> bool:
        """Sends a case to a fresh node; tells whether an oracle objects."""
        self._recover()
        self._replayed = None
        self._loop(iter([case]))
        return self._replayed is not None

    # Called by boofuzz, through the classes below ---------------------------------------------------

    def _cases(self) -> Iterator[Case]:
        """Yields cases until the budget is spent, those that are masked aside."""
        for case in self._plan.cases():
            seconds, most = self._budget.seconds, self._budget.cases
            if seconds is not None and time.monotonic() - self._began >= seconds:
                return
            if most is not None and self.summary.cases >= most:
                return
            if not self.summary.triage.leaves_out(case):
                yield case

    def begin(self, case: Case) -> None:
        """Makes a case the current one."""
        self._current = _Current(case, self.summary.cases + 1)

    def open(self) -> None:
        """Makes the link of the current case and brings it into its state.

        Raises:
            BoofuzzFailure: That failed twice.
            HarnessError: The node is not to be had any more.
        """
        now = self._now
        if not self._replaying:
            late = examine(self._patient, QUICK)
            if late is not None:
                self._blame_last(late)
        self._patient.forget()
        self._prepare(now)
        if now.ready is None and not self._replaying:
            late = examine(self._patient, self._campaign.oracles)
            if late is not None:
                self._blame_last(late)
            self._prepare(now)
        if now.ready is None:
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= ATTEMPTS:
                raise NodeDidNotStart(
                    f"the node does not come into the state {now.case.stimulus.state}: {now.failure}"
                )
            raise BoofuzzFailure(message=now.failure)
        self._failed_in_a_row = 0

    def _prepare(self, now: _Current) -> None:
        if now.tester is not None:
            now.tester.close()
        state = now.case.stimulus.state
        spare = self._patient.take_session() if state is State.OPEN else None
        now.tester, session = spare or (Tester(self._node.locator, random.Random(), self._config.reply), None)
        try:
            now.ready = prepare(now.tester, state, session)
        except (LinkFailed, Unmet, LocalError) as error:
            now.failure = str(error)

    def live(self) -> dict[str, Any]:
        """Returns the values that only this link has."""
        return self._now.ready.live if self._now.ready else {}

    def send(self, data: bytes) -> int:
        """Sends the stimulus."""
        now = self._now
        assert now.ready
        assert now.tester
        now.sent = data
        link = now.ready.end.link
        words = f"mutation: {now.case.field}: {now.case.mutation}"
        if PREFIX <= len(data) <= DECODED:
            link.send(data[PREFIX:], length=int.from_bytes(data[:PREFIX], "little"), note=words)
        else:
            link.send_raw(data, note=words)
        now.tester.history.annotate(words)
        return len(data)

    def receive(self) -> bytes:
        """Waits for what the stimulus brings about: an answer, the end, or the answer to the barrier."""
        now = self._now
        assert now.ready
        assert now.tester
        end = now.ready.end
        if isinstance(end, SessionEnd):
            now.barrier = Barrier(end, 1)
        position = 0

        def there() -> bool:
            nonlocal position
            for seen in end.inbox[position:]:
                now.answered |= self._answers(now, seen)
            position = len(end.inbox)
            return now.answered or end.link.ended is not None

        wait = now.tester.links.wait
        wait(there, PATIENCE)
        by_itself = end.link.ended is not None
        if not by_itself:
            # The node ends its side once it has dealt with all before: so it is not judged in the middle of it.
            end.half_close()
            self._await_end(now.tester, end, PATIENCE if now.answered else self._config.reply)
            there()
        now.outcome = self._outcome(now, by_itself)
        return b""

    def _await_end(self, tester: Tester, end: End, seconds: float) -> None:
        """Waits until the node ends a link, or it turns out that it cannot any more."""
        deadline = time.monotonic() + seconds
        while not tester.links.wait(lambda: end.link.ended is not None, PATIENCE):
            if time.monotonic() >= deadline or examine(self._patient, QUICK) is not None:
                return

    def _answers(self, now: _Current, seen: Seen) -> bool:
        """Tells whether a message shows that the node has dealt with the stimulus. Behind CLOSE comes the end."""
        assert now.ready
        if seen.at < now.ready.behind or isinstance(seen.message, Close | KeepAlive):
            return False
        return now.barrier.answers(seen.message) if now.barrier else True

    def judge(self) -> bool:
        """Asks the oracles, records the case; tells whether the node is well."""
        now = self._now
        # What the end of a session does to the node belongs to the case as well.
        self._close()
        objection = examine(self._patient, self._campaign.oracles)
        if self._replaying:
            self._replayed = objection
            return objection is None
        summary = self.summary
        with undisturbed():
            record = self._record(now)
            self._recorder.add(record)
            summary.cases += 1
            summary.messages.add(now.case.stimulus.name)
            summary.fields.update((now.case.stimulus.name, lying.field) for lying in now.case.lies)
            if now.failure:
                summary.inconclusive += 1
            if objection is not None:
                self._found(objection, record, now.case)
                summary.lost += time.monotonic() - now.started
        summary.seconds = time.monotonic() - self._began
        self._progress(summary)
        return objection is None and not now.failure

    def _blame_last(self, objection: Objection) -> None:
        """What shows before a stimulus was done by the case before it."""
        last = self._recorder.last
        if last is not None and self._last_case is not None and last.row.verdict != "finding":
            late = replace(objection, detail=f"seen behind the case: {objection.detail}")
            self._found(late, last, self._last_case)
        self._recover()

    def _found(self, objection: Objection, record: Record, case: Case) -> None:
        row = record.row
        finding, smallest = self.summary.triage.add(objection, case, row.case, row.sent_bytes)
        record.row = replace(
            row, verdict="finding", oracle=objection.oracle, bucket=finding.bucket, detail=objection.detail
        )
        self._recorder.found(finding, record, smallest=smallest)

    def _record(self, now: _Current) -> Record:
        assert now.tester
        case = now.case
        self._last_case = case
        replies, verdict = now.outcome
        row = FuzzCaseRow(
            run_id=self._config.run_id,
            campaign=self._campaign.name,
            case=now.number,
            time_ns=now.started_ns,
            duration_s=round(time.monotonic() - now.started, 6),
            seed=self._config.seed,
            state=str(case.stimulus.state),
            message=case.message,
            field=case.field,
            mutation=case.mutation,
            sent_hex=now.sent[PREFIX:].hex(),
            sent_bytes=len(now.sent),
            reply=" ".join(replies),
            verdict=verdict,
            oracle="",
            bucket="",
            detail=now.failure,
            node_instance=self._node.starts,
            capture="",
        )
        return Record(row, now.tester.history)

    def _outcome(self, now: _Current, ended: bool) -> tuple[list[str], str]:
        """Returns the names of what came back, and the verdict unless an oracle objects."""
        assert now.ready
        replies = [
            str(seen.message.name)
            for seen in now.ready.end.inbox
            if seen.at >= now.ready.behind and not self._is_noise(now, seen.message)
        ]
        if "CLOSE" in replies:
            verdict = "closed"
        elif ended:
            verdict = "refused"
        else:
            verdict = "accepted" if now.answered else "silent"
        return replies + ["EOF"] * ended, verdict

    @staticmethod
    def _is_noise(now: _Current, message: Message) -> bool:
        """Tells what is no reply: keep-alives, the barrier's answer, and the frames around messages."""
        return (
            isinstance(message, KeepAlive)
            or message.name == "FRAME"
            or bool(now.barrier and now.barrier.answers(message))
        )

    def _close(self) -> None:
        """Ends the link of the current case."""
        if self._current is not None and self._current.tester is not None:
            self._current.tester.close()

    def close(self) -> None:
        """Ends the link of the current case."""
        self._close()

    def recover(self, **_: Any) -> None:
        """Makes the node well again: boofuzz calls this behind every finding."""
        self._close()
        if not self._replaying:
            self._recover()

    def _recover(self) -> None:
        """Starts a node of ours again; waits for one that is not.

        Raises:
            NodeDidNotStart: It is not well in time.
        """
        started = time.monotonic()
        self._patient.close()
        if self._node.owned:
            # A node that stalls does not hear a polite signal either.
            getattr(self._node, "kill", self._node.stop)()
            self._node.start()
        else:
            while why := self._node.problem(self._config.reply):
                if time.monotonic() - started >= RECOVERY:
                    raise NodeDidNotStart(
                        f"the node at {self._node.locator} is not well any more ({why}); start it again"
                    )
                time.sleep(RECOVERY_STEP)  # nothing tells us when somebody else's node is back
        self._patient.forget()
        if not self._replaying:
            took = time.monotonic() - started
            self.summary.restarts += 1
            self.summary.lost += took
            self.summary.slowest_restart = max(self.summary.slowest_restart, took)

    @property
    def _now(self) -> _Current:
        assert self._current is not None
        return self._current


def forget_cores() -> None:
    """Keeps nodes that crash from writing their memory to disk.

    boofuzz, when it is imported, allows that for this process and its children. It takes half a second, in
    which a crash looks like a stall, and leaves hundreds of megabytes in the working directory.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class _Connection(ITargetConnection):
    """boofuzz's way to our links."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def info(self) -> str:
        return "conformance.link"

    def open(self) -> None:
        self._runner.open()

    def close(self) -> None:
        self._runner.close()

    def send(self, data: bytes) -> int:
        return self._runner.send(data)

    def recv(self, max_bytes: int) -> bytes:  # noqa: ARG002  (boofuzz calls by name)
        return self._runner.receive()


class _Monitor(BaseMonitor):
    """boofuzz's way to our oracles."""

    def __init__(self, runner: Runner) -> None:
        super().__init__()
        self._runner = runner

    def post_send(self, **_: object) -> bool:
        return self._runner.judge()

    def get_crash_synopsis(self) -> str:
        return "see the row"


class _BooSession(Session):
    """boofuzz's loop over our cases in our order."""

    def __init__(self, runner: Runner, plan: Plan, cases: Iterator[Case]) -> None:
        super().__init__(
            target=Target(connection=_Connection(runner), monitors=[_Monitor(runner)]),
            web_port=None,
            keep_web_open=False,
            fuzz_loggers=[],
            # boofuzz keeps a record of its own in any case; in memory, and of the last case only.
            db_filename=":memory:",
            fuzz_db_keep_only_n_pass_cases=1,
            crash_threshold_request=sys.maxsize,
            crash_threshold_element=sys.maxsize,
            receive_data_after_each_request=False,
            receive_data_after_fuzz=True,
        )
        self._runner = runner
        self._cases = cases
        self._edges = {
            request.name: self.connect(request, callback=self._splice) for _, request in plan.requests
        }
        self.on_failure += runner.recover

    def close(self) -> None:
        """Ends boofuzz's record, which boofuzz leaves open."""
        self._db_logger._database_connection.close()  # noqa: SLF001  (boofuzz has no other way)

    def _splice(self, *_: object, test_case_context: Any, **__: object) -> None:
        """Gives the elements the values that only this link has."""
        test_case_context.session_variables.update(self._runner.live())

    def _generate_mutations_indefinitely(self, **_: object) -> Iterator[Any]:
        """Yields our cases where boofuzz would go through one field after the other."""
        for case in self._cases:
            request: Request = case.request
            self.fuzz_node = request
            self.total_mutant_index += 1
            self._runner.begin(case)
            yield MutationContext(message_path=[self._edges[request.name]], mutations=case.mutations)
