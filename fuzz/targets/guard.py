"""Limits for a reader: what takes for ever is ended, what takes much memory is noticed."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HANG_SECONDS = 15.0
"""A reader that takes more CPU time than this for one input hangs: inputs take milliseconds, the largest a second or two.

It is CPU time, so that a machine that is busy with something else makes nobody hang.
"""

MOST_GROWTH = 64 << 20
"""Bytes by which one input may raise the most memory ever used; inputs have at most 64 KiB."""


class Hangs(BaseException):
    """A reader did not come to an end; no ``Exception``, so that no reader takes it for one of its own."""


class Grows(Exception):
    """A reader needed much memory for one input."""


@contextmanager
def limits(seconds: float = HANG_SECONDS, growth: int | None = None) -> Iterator[None]:
    """Watches over what is done inside; only the main thread can be interrupted, elsewhere only memory counts.

    Args:
        seconds: Of CPU time.
        growth: Bytes by which the most memory ever used may rise; ``MOST_GROWTH`` when None.

    Raises:
        Hangs: It takes too long.
        Grows: It takes too much memory.
    """
    before = _peak()
    if threading.current_thread() is not threading.main_thread():
        yield
    else:
        old = signal.signal(signal.SIGPROF, _end)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, old)
    grown = _peak() - before
    if grown > (MOST_GROWTH if growth is None else growth):
        raise Grows(f"{grown >> 20} MiB at once")


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  (signal gives both)
    raise Hangs("did not finish within its CPU time limit")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
