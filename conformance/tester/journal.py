"""Writes down what a tester does as the steps of a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from conformance.tester.script import Script
from conformance.tester.steps import Step

Make = Callable[[], Step | None]


class Journal:
    """The steps so far. What a step does inside itself is not written again.

    Args:
        seed: Of the tester's choices, for the script.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._lists: list[list[Step]] = [[]]
        self._quiet = 0

    @contextmanager
    def doing(self, make: Make) -> Iterator[None]:
        """Writes a step down before it is done; those that it consists of are passed over."""
        if not self._quiet:
            step = make()
            if step is not None:
                self._lists[-1].append(step)
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    @contextmanager
    def around(self, make: Callable[[tuple[Step, ...]], Step | None]) -> Iterator[None]:
        """Writes down a step that has others inside, which are written down too."""
        if self._quiet:
            yield
            return
        self._lists.append([])
        try:
            yield
        finally:
            inside = self._lists.pop()
            step = make(tuple(inside))
            if step is not None:
                self._lists[-1].append(step)

    def script(self, title: str = "") -> Script:
        """Returns what was done so far."""
        return Script(steps=tuple(self._lists[0]), title=title, seed=self.seed)
