"""The fast engine: many cases to a session, several links side by side, one thread."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from fuzz.plan import Numbered
from fuzz.player import NotReached, Played, Player, Wait
from fuzz.script import Step
from fuzz.states import FACTS, State

LANES = 6
"""Links side by side: while a node takes its time to end one, the others go on. More do not make it faster."""

SHARED = 64
"""So many cases follow each other in one session; what they leave behind in the node is bounded by it."""

AHEAD = 256
"""So many cases wait for a lane, so that one finds a case for the state that it is in."""

HEAVY = 64
"""A case of more messages than this is played alone, so that it does not slow down those beside it."""

IDLE = 0.05
"""Seconds after which the node is looked at although no case has ended."""


@dataclass(slots=True, eq=False)
class Ran:
    """A case that was played, or is being played.

    Attributes:
        numbered: The case.
        steps: What was played.
        lane: Number of the link it was played on; cases with the same one share a session.
        position: How many cases were played on the link before it.
        state: Where the link was before the first of them.
        started_ns: Unix time in ns.
        started: On ``time.perf_counter``.
        played: What became of it; empty while it is played.
        heavy: It has so many messages that it is played alone.
    """

    numbered: Numbered
    steps: tuple[Step, ...]
    lane: int
    position: int
    state: State
    started_ns: int
    started: float
    played: Played = field(default_factory=Played)
    heavy: bool = False


class Judge(Protocol):
    """Whom the engine tells."""

    def ended(self, ran: Ran) -> bool:
        """A case came to its end; returns whether the engine shall go on."""

    def idle(self) -> bool:
        """Nothing has ended for a while; returns whether the engine shall go on."""

    def failed(self) -> bool:
        """Tells, while something is waited for, that the node has failed."""

    def rests(self) -> bool:
        """Tells whether no more cases shall begin; those under way come to their end."""


class _Lane:
    """One link and its cases.

    Attributes:
        player: Makes the link.
        task: Plays.
        wait: What it waits for; ``quiet``: for how many seconds nothing came on any link meanwhile.
        ran: The case that is being played.
        link: Number of the link.
        cases: Cases on this link so far.
        state: Where it is; None when it has to be reached anew.
    """

    def __init__(self, player: Player) -> None:
        self.player = player
        self.task: Generator[Wait, float, None] | None = None
        self.wait: Wait | None = None
        self.quiet = 0.0
        self.ran: Ran | None = None
        self.link = 0
        self.cases = 0
        self.state: State | None = None


class Fast:
    """Plays cases on several links to one stage.

    Args:
        make: Makes one more player.
        judge: Is told of every case.
        lanes: Links side by side.

    Attributes:
        one_by_one: No case is played beside another: the node takes few links.
    """

    name = "fast"
    one_by_one = False

    def __init__(self, make: Callable[[], Player], judge: Judge, lanes: int = LANES) -> None:
        self._make = make
        self._judge = judge
        self._lanes = [_Lane(make()) for _ in range(lanes)]
        self._waiting: dict[State, deque[Numbered]] = {}
        self._count = 0
        self._links = 0
        self._alone: Numbered | None = None
        self._source: Iterator[Numbered] = iter(())

    @property
    def in_flight(self) -> list[Ran]:
        """Cases that are being played, the oldest first."""
        running = [lane.ran for lane in self._lanes if lane.ran is not None]
        return sorted(running, key=lambda ran: ran.started)

    def play(self, cases: Iterator[Numbered]) -> bool:
        """Plays cases until there are no more, or the judge says stop.

        Returns:
            Whether all cases were played.
        """
        self._source = cases
        while self._step():
            pass
        return not self._count and all(lane.ran is None for lane in self._lanes)

    def abandon(self) -> list[Numbered]:
        """Gives up what is being played, and closes all links; returns those cases, to be played again."""
        running = [ran.numbered for ran in self.in_flight]
        for lane in self._lanes:
            if lane.task is not None:
                lane.task.close()
            lane.task = lane.wait = lane.ran = lane.state = None
            lane.player.close()
        return running

    def waiting(self) -> list[Numbered]:
        """Takes out the cases that wait for a lane."""
        left = [one for queue in self._waiting.values() for one in queue]
        self._waiting.clear()
        self._count = 0
        if self._alone is not None:
            left.insert(0, self._alone)
            self._alone = None
        return sorted(left, key=lambda one: one.number)

    # One turn ----------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Starts what can be started, waits, moves what is ready; returns whether to go on."""
        now = time.perf_counter()
        for lane in self._lanes:
            if lane.task is None and (self._judge.rests() or not self._begin(lane)):
                break
        busy = [lane for lane in self._lanes if lane.task is not None]
        if not busy:
            return False
        ready = [lane for lane in busy if lane.wait is None]
        if not ready:
            ready = self._poll(busy, now)
        if not ready:
            return self._judge.idle()
        # All of them are moved, whatever the first one says.
        moved = [self._move(lane) for lane in ready]
        return all(moved)

    def _poll(self, busy: list[_Lane], now: float) -> list[_Lane]:
        poll = select.poll()
        by_fd: dict[int, _Lane] = {}
        first = now + IDLE
        for lane in busy:
            wait = lane.wait
            assert wait is not None
            first = min(first, wait.deadline)
            if not wait.pipe.ended:
                by_fd[wait.pipe.fileno()] = lane
                poll.register(wait.pipe.fileno(), select.POLLIN)
            else:
                first = now
        began, asked = time.perf_counter(), max(0.0, first - now)
        ready = [by_fd[fd] for fd, _ in poll.poll(asked * 1000)]
        now = time.perf_counter()
        for lane in busy:
            # What a machine takes longer that stands still is not the node's.
            lane.quiet += min(now - began, asked)
        return ready + [
            lane
            for lane in busy
            if lane not in ready
            and lane.wait is not None
            and (lane.wait.deadline <= now or lane.wait.pipe.ended)
        ]

    def _move(self, lane: _Lane) -> bool:
        """Lets a lane go on until it waits again or its case has ended."""
        assert lane.task is not None
        try:
            lane.wait = next(lane.task) if lane.wait is None else lane.task.send(lane.quiet)
            lane.quiet = 0.0
        except StopIteration:
            ran, lane.ran, lane.task, lane.wait = lane.ran, None, None, None
            assert ran is not None
            return self._judge.ended(ran)
        return True

    def _begin(self, lane: _Lane) -> bool:
        """Gives a lane its next case; returns whether there was one that may begin now."""
        if self._alone is None:
            numbered = self._next(lane)
            if numbered is None:
                return False
        else:
            numbered = self._alone
        steps = numbered.case.steps
        heavy = sum([step.times for step in steps]) > HEAVY
        running = [other.ran for other in self._lanes if other.ran is not None]
        if running and (heavy or self.one_by_one or any(ran.heavy for ran in running)):
            self._alone = numbered
            return False
        self._alone = None
        state = numbered.case.state
        alone = numbered.case.alone or not FACTS[state].shared
        if alone or lane.state is not state or lane.cases >= SHARED:
            self._links += 1
            lane.link, lane.cases, lane.state = self._links, 0, None
        now = time.perf_counter()
        ran = Ran(numbered, steps, lane.link, lane.cases, state, time.time_ns(), now, heavy=heavy)
        lane.ran = ran
        lane.task = self._task(lane, ran, alone=alone)
        return True

    def _task(self, lane: _Lane, ran: Ran, *, alone: bool) -> Generator[Wait, float, None]:
        player = lane.player
        played = ran.played
        try:
            if lane.state is None:
                player.close()
                yield from player.reaching(ran.state)
                lane.state = ran.state
                ran.started = time.perf_counter()
            played.start, player.nth_play = player.trace.end, ran.numbered.number
            # What others leave behind in a session may end it.
            played.valid = ran.numbered.case.source.all_valid and not lane.cases
            yield from player.steps(ran.steps, played)
            yield from player.conclude(played)
        except NotReached as error:
            played.failure = str(error)
        lane.cases += 1
        if alone or played.failure or not _lives(player):
            player.close()
            lane.state = None

    def _next(self, lane: _Lane) -> Numbered | None:
        """Takes the next case: one for the state that the lane is in, if there is one."""
        while self._count < AHEAD:
            one = next(self._source, None)
            if one is None:
                break
            self._waiting.setdefault(one.case.state, deque()).append(one)
            self._count += 1
        if not self._count:
            return None
        queue = self._waiting.get(lane.state) if lane.state is not None and lane.cases < SHARED else None
        if not queue:
            queue = min(
                (queue for queue in self._waiting.values() if queue), key=lambda queue: queue[0].number
            )
        self._count -= 1
        return queue.popleft()


def _lives(player: Player) -> bool:
    """Tells whether the next case may follow on the same link."""
    pipe = player.links.get("a")
    return pipe is not None and not pipe.ended and not pipe.finished and len(player.links) == 1
