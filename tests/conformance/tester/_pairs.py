"""Two ends of ours in one loop: what most tests of the tester stand on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conformance.config import Locator
from conformance.tester import ListenerEnd, SessionEnd, Tester

NOWHERE = Locator("tcp", "127.0.0.1", 1)
"""The node of a tester whose ends speak with each other."""


@contextmanager
def lone_tester(seed: int = 1, reply: float = 2.0) -> Iterator[Tester]:
    """Makes a tester without a node."""
    made = Tester(NOWHERE, random.Random(seed), reply)
    try:
        yield made
    finally:
        made.close()


def session_pair(
    tester: Tester, listener: ListenerEnd | None = None, **offer: Any
) -> tuple[SessionEnd, SessionEnd]:
    """Opens a session between two ends of ours; returns the one that connected and the one that accepted."""
    listener = listener or tester.listen()
    ours = tester.starting(locator=listener.locator, **offer)
    ours.begin()
    theirs = listener.accept(**offer)
    theirs.serve()
    ours.finish()
    return ours, theirs
