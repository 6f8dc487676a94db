"""Signals that end a run: the first one between two cases, the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

GRACE = 5.0
"""Seconds until a signal takes effect in the middle of something that lasts, such as the start of a node."""


class Interrupts:
    """Turns signals into a KeyboardInterrupt at a moment when everything is recorded.

    Use it as a context manager, and call ``check`` often. Does nothing outside of the main thread. A signal that is
    ignored (nohup) stays ignored.

    Args:
        numbers: The signals.
        ignored: Those that are for another process to hear.

    Attributes:
        asked: Somebody has asked for the end.
        at_once: Ends this process when somebody asks a second time. Without it that is a KeyboardInterrupt right where
            the main thread is.
    """

    def __init__(self, numbers: Iterable[int] = ENDING, ignored: Iterable[int] = ()) -> None:
        self._numbers = tuple(numbers)
        self._ignored = tuple(ignored)
        self._before: dict[int, Any] = {}
        self._taken = False
        self.asked = False
        self.at_once: Callable[[], NoReturn] | None = None

    def check(self) -> None:
        """Raises KeyboardInterrupt once when somebody has asked for the end."""
        if self.take():
            raise KeyboardInterrupt

    def take(self) -> bool:
        """Tells once that somebody has asked for the end; it is up to the caller from then on."""
        if not self.asked or self._taken:
            return False
        self._taken = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        return True

    def _heard(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  (called by Python)
        if self.asked:
            self._taken = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            if self.at_once is not None:
                self.at_once()
            raise KeyboardInterrupt
        self.asked = True
        signal.setitimer(signal.ITIMER_REAL, GRACE)

    def _waited(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  (called by Python)
        self.check()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}:
                    self._before[number] = signal.signal(number, self._heard)
            for number in self._ignored:
                self._before[number] = signal.signal(number, signal.SIG_IGN)
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._waited)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
