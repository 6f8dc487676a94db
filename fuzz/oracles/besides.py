"""What the canary publishes besides its usual traffic: large payloads, and each priority on its lane."""

from __future__ import annotations

from typing import NamedTuple

from scapy_layers.codes import Priority


class Besides(NamedTuple):
    """What is published besides.

    Attributes:
        size: Bytes of its payload.
        priority: Its own, and its lane.
    """

    size: int
    priority: int = Priority.DATA

    def __str__(self) -> str:
        if self.priority == Priority.DATA:
            return f"a publication of {self.size} bytes"
        return f"a publication of priority {Priority(self.priority).name}"


LARGE = tuple(map(Besides, (1000, 12_000, 66_000, 150_000)))
BESIDES = (*LARGE, *(Besides(100, priority) for priority in [*Priority][1:] if priority != Priority.DATA))
"""One is published with each thorough look, by turns: of those that a fresh node carries."""
