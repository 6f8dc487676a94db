"""How busy the machine is besides: what takes long on a busy one says nothing about the node."""

from __future__ import annotations

import time
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
"""Says how long something that could run had to wait for a processor. Not every kernel keeps it."""

BUSY = 0.5
"""Share of time in which somebody waited for a processor; on a machine that is not busy it is far less while the node
and we wait for each other."""


def _waited() -> float | None:
    """Returns the seconds in which something waited for a processor, since the machine started."""
    try:
        line = PRESSURE.read_text().partition("\n")[0]
    except OSError:
        return None
    return int(line.rpartition("total=")[2]) / 1e6


class Watch:
    """Tells how busy the machine was since it was made.

    Two signs: what the kernel says, and how much later than asked we were woken.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._waited = _waited()
        self._overslept = 0.0

    def woken(self, late: float) -> None:
        """Takes in that we were woken so many seconds too late."""
        self._overslept += max(0.0, late)

    @property
    def seconds(self) -> float:
        """Seconds since it was made."""
        return time.perf_counter() - self._began

    @property
    def share(self) -> float:
        """Share of the time in which something waited for a processor, from 0 to 1."""
        seconds = self.seconds
        if seconds <= 0:
            return 0.0
        now = _waited()
        told = now - self._waited if now is not None and self._waited is not None else 0.0
        return min(1.0, max(told, self._overslept) / seconds)

    @property
    def busy(self) -> bool:
        """The machine had others to serve."""
        return self.share > BUSY


def overslept(seconds: float = 0.001) -> float:
    """Sleeps a moment; returns how many seconds later than asked we were woken."""
    began = time.perf_counter()
    time.sleep(seconds)
    return max(0.0, time.perf_counter() - began - seconds)
