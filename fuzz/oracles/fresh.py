"""What fresh processes of one node do, and how long they take.

A node that dies often is to be back soon, and to learn all this of a process takes several times as long as to find it
well. So what one process carried is not tried on the next, and each of them adds little to what is known of their pace.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

EXCHANGES, EXCHANGES_AGAIN = 20, 2
"""Exchanges of a baseline; and of each further process, in the place of the oldest ones."""

CALLS = 7
"""New sessions, and declarations, that show how long one takes; each further process adds one of both."""


def _latest(most: int) -> deque[float]:
    return deque(maxlen=most)


@dataclass(slots=True)
class Fresh:
    """What is known of processes that were just started.

    Attributes:
        exchanges: Seconds that exchanges between two sessions took.
        calls: Seconds that new sessions took.
        efforts: Seconds of processor time that declarations took.
        aliases: Publications arrived whose key is an alias.
        named_replies: So did replies.
        fragments: Publications arrived that go in FRAGMENTs.
        tokens: Who asked was told of tokens, of none too many.
        besides: What was carried of ``BESIDES``, as numbers.
        common: Keys that cases use and that were carried.
    """

    exchanges: deque[float] = field(default_factory=lambda: _latest(EXCHANGES))
    calls: deque[float] = field(default_factory=lambda: _latest(CALLS))
    efforts: deque[float] = field(default_factory=lambda: _latest(CALLS))
    aliases: bool = False
    named_replies: bool = False
    fragments: bool = False
    tokens: bool = False
    besides: list[int] = field(default_factory=list)
    common: tuple[str, ...] = ()
