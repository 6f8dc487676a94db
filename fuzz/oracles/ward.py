"""What oracles ask of the place where a node is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from conformance.nodes.base import Node
from fuzz.player import Player


class Ward(Protocol):
    """A ``stages.Stage``, as the oracles see it."""

    at_work: Callable[[], bool]
    """What its players ask whether the process computes."""

    @property
    def node(self) -> Node:
        """The node; it is running."""

    def player(self, rng: random.Random | None = None) -> Player:
        """Returns one more player, which draws ZenohIDs from ``rng``."""

    def restart(self) -> None:
        """Kills the node and starts it."""

    def trouble(self, reply: float) -> str:
        """Returns why what its states need is not there any more, or nothing."""
