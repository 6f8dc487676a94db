"""What the system knows of a process: memory, descriptors, processor time. Linux."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")

_CLOCK_OF_PROCESS = 2


@dataclass(frozen=True, slots=True)
class Sample:
    """A process at one moment.

    Attributes:
        at: Seconds on ``time.perf_counter``.
        memory: Bytes of memory that no file backs: what it has taken and touched.
        descriptors: Open descriptors.
        cpu: Seconds of processor time so far.
    """

    at: float
    memory: int
    descriptors: int
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
        # What clock_getcpuclockid(3) makes of a process number.
        self._clock = (~pid << 3) | _CLOCK_OF_PROCESS

    def memory(self) -> int:
        """Returns bytes of memory that no file backs.

        Raises:
            OSError: The process is gone.
        """
        _, resident, shared, *_ = self._statm.read_text().split()
        return (int(resident) - int(shared)) * PAGE

    def descriptors(self) -> int:
        """Returns how many descriptors are open.

        Raises:
            OSError: The process is gone, or is not ours to look at.
        """
        return sum(1 for _ in os.scandir(self._fds))

    def cpu(self) -> float:
        """Returns seconds of processor time of all its threads so far.

        Raises:
            OSError: The process is gone.
        """
        return time.clock_gettime(self._clock)

    def sample(self) -> Sample:
        """Returns all of it.

        Raises:
            OSError: The process is gone.
        """
        return Sample(time.perf_counter(), self.memory(), self.descriptors(), self.cpu())
