"""What the system knows of a process: memory, descriptors, threads, children, processor time. Linux."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")

_CLOCK_OF_PROCESS = 2


class Handles(NamedTuple):
    """What the system keeps for a process, in numbers."""

    descriptors: int
    threads: int
    children: int

    def more_than(self, before: Handles) -> str:
        """Returns what there is more of than before, in words; the one that grew most."""
        return max(
            ("descriptors", "threads", "children"),
            key=lambda name: getattr(self, name) - getattr(before, name),
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """A process at one moment.

    Attributes:
        at: Seconds on ``time.perf_counter``.
        memory: Bytes of memory that no file backs: what it has taken and touched.
        handles: Open descriptors, threads, children.
        cpu: Seconds of processor time so far.
    """

    at: float
    memory: int
    handles: Handles
    cpu: float


class Vitals:
    """Looks at a process of ours.

    Args:
        pid: Its number.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._statm = Path(f"/proc/{pid}/statm")
        self._fds = f"/proc/{pid}/fd"
        self._tasks = Path(f"/proc/{pid}/task")
        # What clock_getcpuclockid(3) makes of a process number.
        self._clock = (~pid << 3) | _CLOCK_OF_PROCESS

    def memory(self) -> int:
        """Returns bytes of memory that no file backs.

        Raises:
            OSError: The process is gone.
        """
        _, resident, shared, *_ = self._statm.read_text().split()
        return (int(resident) - int(shared)) * PAGE

    def handles(self) -> Handles:
        """Returns how many descriptors are open, threads live, and children are not waited for or run.

        Raises:
            OSError: The process is gone, or is not ours to look at.
        """
        descriptors = sum(1 for _ in os.scandir(self._fds))
        threads = children = 0
        for thread in self._tasks.iterdir():
            threads += 1
            with suppress(OSError):  # it has ended meanwhile, or the kernel does not tell
                children += len((thread / "children").read_bytes().split())
        return Handles(descriptors, threads, children)

    def cpu(self) -> float:
        """Returns seconds of processor time of all its threads so far.

        Raises:
            OSError: The process is gone.
        """
        return time.clock_gettime(self._clock)

    def is_runnable(self) -> bool:
        """Tells whether one of its threads computes or waits for a processor right now.

        Raises:
            OSError: The process is gone.
        """
        for thread in self._tasks.iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                # The name of the thread stands in brackets, and may hold anything.
                if (thread / "stat").read_bytes().rpartition(b")")[2].split()[0] == b"R":
                    return True
        return False

    def sample(self) -> Sample:
        """Returns all of it.

        Raises:
            OSError: The process is gone.
        """
        return Sample(time.perf_counter(), self.memory(), self.handles(), self.cpu())
