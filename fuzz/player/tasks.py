"""Things that take time: they say what they wait for, so that one thread plays many cases at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")

SOON, LOOK = 0.001, 0.02
"""Seconds to the first look whether there is still anything to wait for, and between two of them when that takes long."""


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


Task = Generator[Wait, float, T]
"""Something that takes time: it yields what it waits for, and is told for how many seconds nothing at all came."""


class GivenUp(Exception):
    """What a task waits for does not come any more."""


def run(task: Task[T], hopeless: Callable[[], bool] | None = None) -> T:
    """Runs a task alone, to its end.

    Args:
        task: What is run.
        hopeless: Asked while it waits: tells whether it waits in vain; then ``GivenUp`` is thrown into it.
    """
    try:
        wait = next(task)
        quiet, look = 0.0, SOON
        while True:
            began = time.perf_counter()
            left = wait.deadline - began
            asked = left if hopeless is None else min(left, look)
            there = wait.pipe.wait(asked)
            # What a machine takes longer that stands still is not the node's.
            quiet += max(0.0, min(time.perf_counter() - began, asked))
            if hopeless is None or there or wait.pipe.ended or left <= look:
                wait, quiet, look = task.send(quiet), 0.0, SOON
            elif hopeless():
                wait = task.throw(GivenUp("the node failed in the meantime"))
            else:
                look = min(2 * look, LOOK)
    except StopIteration as ended:
        result: T = ended.value
        return result
