"""How far a run is: one line that refreshes on a terminal, else a line now and then."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from functools import reduce
from operator import or_
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

if TYPE_CHECKING:
    from fuzz.runner import Summary

TERMINAL_SECONDS, LOG_SECONDS = 0.2, 10.0
"""How often the progress is shown: on a terminal, where it overwrites itself, and elsewhere."""

TICK_SECONDS = 1.0
"""So long after a line was due the last one is shown again."""

BEFORE = "getting ready for the first case"


class Share(NamedTuple):
    """What was tried of something.

    Attributes:
        bits: One bit for each that there is, in their order; set for what was tried.
        there: How many there are.
    """

    bits: int = 0
    there: int = 0

    @classmethod
    def of(cls, tried: Iterable[Any], things: Collection[Any]) -> Share:
        """Returns what was tried of what there is."""
        places = {thing: place for place, thing in enumerate(sorted(things))}
        return cls(sum(1 << places[thing] for thing in set(tried)), len(places))

    def __or__(self, other: object) -> Share:
        """Returns what was tried here or there."""
        assert isinstance(other, Share)
        return Share(self.bits | other.bits, max(self.there, other.there))

    def __str__(self) -> str:
        return f"{self.bits.bit_count()} of {self.there}"


class Glance(NamedTuple):
    """A run at one moment.

    Attributes:
        seconds: How long it has been going on.
        cases: Cases that ran.
        states: States in which cases were played.
        pairs: Pairs of state and message that were tried.
        buckets: Signatures of the findings, and whether they make the run fail.
        restarts: How often a node was started again.
        doing: What goes on behind the last case; empty while cases are played.
    """

    seconds: float = 0.0
    cases: int = 0
    states: Share = Share()
    pairs: Share = Share()
    buckets: tuple[tuple[str, bool], ...] = ()
    restarts: int = 0
    doing: str = ""

    @classmethod
    def of(cls, summary: Summary) -> Glance:
        """Looks at a run."""
        states, pairs = summary.coverage.glance()
        buckets = tuple((finding.bucket, finding.fails) for finding in summary.findings)
        return cls(summary.seconds, summary.total, states, pairs, buckets, summary.restarts, summary.doing)


def together(glances: Iterable[Glance]) -> Glance:
    """Returns several processes as one."""
    some = list(glances)
    buckets = {name: fails for one in some for name, fails in one.buckets}
    return Glance(
        max((one.seconds for one in some), default=0.0),
        sum(one.cases for one in some),
        reduce(or_, (one.states for one in some), Share()),
        reduce(or_, (one.pairs for one in some), Share()),
        tuple(buckets.items()),
        sum(one.restarts for one in some),
        next((one.doing for one in some if one.doing), ""),
    )


def words(glance: Glance, seconds: float | None, cases: int | None, elapsed: float = 0.0) -> str:
    """Returns the line.

    Args:
        glance: How far the run is.
        seconds: How long it may take.
        cases: How many cases it may play.
        elapsed: Seconds since it was called: behind the last case, its own time does not go on.
    """
    if glance._replace(seconds=0.0) == Glance():
        return f"{clock(elapsed)}: {BEFORE}"
    rate = glance.cases / glance.seconds if glance.seconds else 0.0
    new = sum(fails for _, fails in glance.buckets)
    found = f"{len(glance.buckets)} findings" + (f" ({new} new)" if glance.buckets else "")
    parts = [f"{glance.cases} cases, {rate:.0f}/s"]
    if glance.pairs.there:
        parts += [f"{glance.states} states", f"{glance.pairs} pairs"]
    parts += [found, f"{glance.restarts} restarts"]
    left = _left(glance, rate, seconds, cases)
    if glance.doing:
        parts.append(glance.doing)
    elif left is not None:
        parts.append(f"{clock(left)} left")
    return f"{clock(max(glance.seconds, elapsed) if glance.doing else glance.seconds)}: {', '.join(parts)}"


def _left(glance: Glance, rate: float, seconds: float | None, cases: int | None) -> float | None:
    limits = []
    if seconds is not None:
        limits.append(max(0.0, seconds - glance.seconds))
    if cases is not None and rate:
        limits.append(max(0.0, (cases - glance.cases) / rate))
    return min(limits, default=None)


def clock(seconds: float) -> str:
    """Returns ``0:07``, ``12:30``, ``1:02:03``."""
    whole = int(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Shows how far a run is, when it is time to.

    As a context manager it shows the last line again, with the time as it is by then, when nothing new is told for long:
    a try may take a minute.

    Args:
        seconds: How long the run may take.
        cases: How many cases it may play.
        now: The clock.
        look: Called each time as well: may end the run by an exception.
    """

    def __init__(
        self,
        seconds: float | None = None,
        cases: int | None = None,
        now: Callable[[], float] = time.monotonic,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._limits = seconds, cases
        self._now = now
        self._look = look
        self._next = self._began = self._told = now()
        self._shown = False
        self._last = Glance()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets what follows begin on a line of its own."""
        self._ended.set()
        if self._ticker is not None:
            self._ticker.join()
        if self._shown:
            say("", file=sys.stderr)

    def _tick(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            with self._lock:
                silent = self._now() - self._next
                if silent >= TICK_SECONDS:
                    self._show(self._last)

    def __call__(self, summary: Summary) -> None:
        """Shows a run in this process."""
        self._look()
        self.offer(lambda: Glance.of(summary), summary.doing)

    def offer(self, look: Callable[[], Glance], doing: str) -> None:
        """Shows a run if it is time to; otherwise keeps what is new for when the line is shown again.

        What is shown again must be the newest, also where cases take so long that each comes between two lines.

        Args:
            look: Looks at the run; takes time.
            doing: What it does, which is quick to ask.
        """
        now = self._now()
        if now >= self._next:
            self.show(look())
        elif doing != self._last.doing or now >= self._told + TERMINAL_SECONDS:
            self._keep(look())

    def _keep(self, glance: Glance) -> None:
        with self._lock:
            self._last, self._told = glance, self._now()

    def note(self, text: str) -> None:
        """Says something beside it, on a line of its own."""
        with self._lock:
            if self._shown:
                say("", file=sys.stderr)
            self._shown = False
            say(text, file=sys.stderr)

    def show(self, glance: Glance) -> None:
        """Shows a line."""
        self._keep(glance)
        with self._lock:
            self._show(glance)

    def _show(self, glance: Glance) -> None:
        now = self._now()
        terminal = sys.stderr.isatty()
        self._next = now + (TERMINAL_SECONDS if terminal else LOG_SECONDS)
        glance = glance._replace(seconds=glance.seconds + now - self._told) if not glance.doing else glance
        line = words(glance, *self._limits, now - self._began)
        if terminal:
            # A line that wraps does not overwrite itself.
            line = line[: shutil.get_terminal_size().columns - 1]
            say(f"\r{line}\x1b[K", end="", file=sys.stderr)
            self._shown = True
        else:
            say(line, file=sys.stderr)


def say(text: str, end: str = "\n", file: TextIO | None = None) -> None:
    """Prints; goes on when nobody reads any more (``| head``): what counts is in the run folder."""
    stream = sys.stdout if file is None else file
    try:
        print(text, end=end, file=stream, flush=True)
    except OSError:
        # Python flushes once more when it exits and would complain about the same thing again.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
