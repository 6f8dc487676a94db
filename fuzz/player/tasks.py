"""Things that take time: they say what they wait for, so that one thread plays many cases at once."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Waited(Protocol):
    """What can be waited for: a link, or a listener."""

    @property
    def ended(self) -> str:
        """How it ended; empty while it lives."""

    def fileno(self) -> int:
        """The file descriptor."""

    def wait(self, seconds: float) -> bool:
        """Waits until something is there; tells whether it is."""


class Wait(NamedTuple):
    """What a task waits for: that something comes on a link, or that time has passed.

    Attributes:
        pipe: The link.
        deadline: On ``time.perf_counter``.
    """

    pipe: Waited
    deadline: float


Task = Generator[Wait, None, T]
"""Something that takes time: it yields what it waits for."""


def run(task: Task[T]) -> T:
    """Runs a task alone, to its end."""
    try:
        while True:
            wait = next(task)
            wait.pipe.wait(wait.deadline - time.perf_counter())
    except StopIteration as ended:
        result: T = ended.value
        return result
