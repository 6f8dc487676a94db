"""How much memory a process and those it has started hold together, while they run."""

from __future__ import annotations

import threading
from typing import Self

import psutil  # type: ignore[import-untyped]

POLL_S = 0.2


def tree(pid: int | None = None) -> list[psutil.Process]:
    """Returns a process, this one when None, and those below it; what has ended meanwhile is not there."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


class Watch:
    """Looks at the memory of a process and its children while something runs.

    Attributes:
        most: The most they held together, MB; what processes share counts in each of them.
    """

    def __init__(self, pid: int | None = None) -> None:
        self.most = 0.0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(POLL_S):
            held = 0
            for process in tree(self._pid):
                try:
                    held += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.most = max(self.most, held / 1e6)
