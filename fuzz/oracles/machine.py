"""How busy the machine is besides: what takes long on a busy one says nothing about the node."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
"""Says how long something that could run had to wait for a processor. Not every kernel keeps it."""

BUSY = 0.5
"""Share of time in which somebody waited for a processor; on a machine that is not busy it is far less while the node
and we wait for each other."""

TURN = 0.25
"""Of the time in which a node has to answer, what it must have had of a processor on a machine that is busy: hundreds of
times what it takes."""


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


class Turns:
    """How long a process could work since this was made: what passed, less what its threads waited for a processor.

    Where that is known it says more than how busy the machine is. A process that had its turns and said nothing has
    nothing to say; and what it computes itself keeps a machine busy, too.

    Args:
        pid: The process; None for one of which nothing is known.
    """

    def __init__(self, pid: int | None) -> None:
        self._tasks = Path(f"/proc/{pid}/task") if pid is not None else None
        self._began = time.perf_counter()
        self._before = self._delays()

    @property
    def had(self) -> float:
        """Seconds that even the thread had that waited longest; 0 when nobody knows."""
        now = self._delays()
        if not self._before or not now:
            return 0.0
        seconds = time.perf_counter() - self._began
        return max(0.0, seconds - max(delay - self._before.get(task, 0.0) for task, delay in now.items()))

    def _delays(self) -> dict[str, float]:
        """Returns the seconds that each thread has waited for a processor so far; nothing where no kernel tells."""
        delays: dict[str, float] = {}
        with suppress(OSError):  # it is gone, or the kernel does not count
            for task in self._tasks.iterdir() if self._tasks is not None else ():
                with suppress(FileNotFoundError):  # that thread has ended
                    delays[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
        return delays


def overslept(seconds: float = 0.001) -> float:
    """Sleeps a moment; returns how many seconds later than asked we were woken."""
    began = time.perf_counter()
    time.sleep(seconds)
    return max(0.0, time.perf_counter() - began - seconds)
