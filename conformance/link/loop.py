"""The one loop: sockets that are ready, timers that are due, links that want to be looked at again."""

from __future__ import annotations

import heapq
import itertools
import math
import os
import selectors
import threading
import time
from collections.abc import Callable
from typing import Protocol

FEW = 64
"""So many cancelled timers may stay in the heap without counting."""


class Served(Protocol):
    """What the loop serves: something with a socket. Its calls do nothing once it has ended."""

    def fileno(self) -> int:
        """The file descriptor."""

    def readable(self) -> None:
        """Bytes are there, or it asked with ``Loop.again`` to be looked at."""

    def writable(self) -> None:
        """The system takes bytes again."""

    def settle(self) -> None:
        """The turn ends; asked for with ``Loop.later``."""


class Timer:
    """One call in the future. Made by ``Loop.at``."""

    __slots__ = ("_loop", "call", "when")

    def __init__(self, loop: Loop, when: float, call: Callable[[float], None]) -> None:
        self.when = when
        self.call: Callable[[float], None] | None = call
        self._loop = loop

    def cancel(self) -> None:
        """Forgets the call; does nothing when it was made or cancelled before."""
        if self.call is not None:
            self.call = None
            self._loop.cancelled()


class Ticker:
    """A timer that is asked each turn. Made by ``Loop.every``."""

    __slots__ = ("_loop", "call")

    def __init__(self, loop: Loop, call: Callable[[float], float | None]) -> None:
        self.call = call
        self._loop = loop

    def cancel(self) -> None:
        """Forgets it; does nothing the second time."""
        self._loop.forget_ticker(self)


class Loop:
    """Waits for sockets and times, and calls who is concerned. One thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._cancelled = 0
        self._called = False
        self._numbers = itertools.count()
        self._tickers: list[Ticker] = []
        self._again: list[Served] = []
        self._later: list[Served] = []
        self._calls: list[Callable[[], None]] = []
        self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._waker, selectors.EVENT_READ)
        # A thread that wakes the loop while it is shut must not write to what has its number next.
        self._gate = threading.RLock()
        self.closed = False

    # Times -----------------------------------------------------------------------------------------

    def at(self, when: float, call: Callable[[float], None]) -> Timer:
        """Calls once with the time, not before ``when`` (seconds of the monotonic clock)."""
        timer = Timer(self, when, call)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def every(self, timer: Callable[[float], float | None]) -> Ticker:
        """Registers a timer that is called each turn with the time.

        It returns when it wants to be called again at the latest, or None.
        """
        ticker = Ticker(self, timer)
        self._tickers.append(ticker)
        return ticker

    def cancelled(self) -> None:
        """Counts a timer that was cancelled, and clears the heap of them when most of it is."""
        self._cancelled += 1
        if self._cancelled > FEW and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].call is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def forget_ticker(self, ticker: Ticker) -> None:
        """Calls a ticker no more."""
        if ticker in self._tickers:
            self._tickers.remove(ticker)

    def _due(self, now: float) -> float:
        """Calls what is due; returns when the next call is."""
        latest = next(self._numbers)
        self._called = bool(self._tickers)
        while self._timers and self._timers[0][0] <= now:
            # A timer that sets itself anew for a time that has come waits for the next turn.
            if self._timers[0][1] > latest:
                return now
            _, _, timer = heapq.heappop(self._timers)
            call, timer.call = timer.call, None
            if call is None:
                self._cancelled -= 1
            else:
                self._called = True
                call(now)
        due = self._timers[0][0] if self._timers else math.inf
        for ticker in tuple(self._tickers):
            wanted = ticker.call(now)
            if wanted is not None and wanted < due:
                due = wanted
        return due

    # Sockets ---------------------------------------------------------------------------------------

    def register(self, served: Served) -> None:
        """Serves a socket."""
        self._selector.register(served, selectors.EVENT_READ, served)

    def watch(self, served: Served, *, writing: bool, reading: bool = True) -> None:
        """Says whether one that is served waits to write, and whether it reads."""
        events = (selectors.EVENT_READ if reading else 0) | (selectors.EVENT_WRITE if writing else 0)
        self._selector.modify(served, events, served)

    def unregister(self, served: Served) -> None:
        """Serves a socket no more."""
        self._selector.unregister(served)

    def again(self, served: Served) -> None:
        """Looks at one once more in the next turn, which comes at once."""
        self._again.append(served)

    def later(self, served: Served) -> None:
        """Calls ``settle`` at the end of the turn, or before the loop sleeps."""
        self._later.append(served)

    def call_later(self, call: Callable[[], None]) -> None:
        """Calls at the end of the turn, or before the loop sleeps."""
        self._calls.append(call)

    # The loop --------------------------------------------------------------------------------------

    def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Moves bytes until a condition holds; tells whether it did in time.

        May be called from within a call of the loop, which then serves everybody as well.
        """
        deadline = time.monotonic() + seconds
        while not until():
            now = time.monotonic()
            due = self._due(now)
            if self._called and until():
                break
            self._turn(0.0 if now >= deadline else min(deadline, due) - now)
            if now >= deadline:
                return until()
        self._settle()
        return True

    def wake(self) -> None:
        """Makes ``wait`` look at its condition. May be called from a signal handler and from another thread."""
        with self._gate:
            if not self.closed:
                os.eventfd_write(self._waker, 1)

    def shut(self) -> None:
        """Gives back what the loop itself holds; calls what still waits to be called."""
        if not self.closed:
            self._settle()
            self._selector.close()
            with self._gate:
                self.closed = True
                os.close(self._waker)
            self._timers.clear()
            self._tickers.clear()

    def _turn(self, seconds: float) -> None:
        called = self._settle()
        again, self._again = self._again, []
        # Who was called may be what is waited for.
        wait = 0.0 if again or called else None if seconds == math.inf else max(0.0, seconds)
        for key, mask in self._selector.select(wait):
            served: Served | None = key.data
            if served is None:
                os.eventfd_read(self._waker)
                continue
            if mask & selectors.EVENT_WRITE:
                served.writable()
            if mask & selectors.EVENT_READ:
                served.readable()
        for served in again:
            served.readable()
        self._settle()

    def _settle(self) -> bool:
        """Settles who asked for it; tells whether anybody was called."""
        called = False
        while self._later or self._calls:
            later, self._later = self._later, []
            for served in later:
                served.settle()
            calls, self._calls = self._calls, []
            for call in calls:
                call()
            called |= bool(calls)
        return called
