"""A node that somebody else started: ``--node tcp/HOST:PORT``."""

from __future__ import annotations

from conformance.config import Locator
from conformance.nodes.base import Node


class AttachedNode(Node):
    """A running node of which only the locator is known.

    Args:
        locator: Where it is.
        profile: ``IMPLEMENTATION[:VERSION]`` when the user knows it; chooses the recorded deviations.
    """

    def __init__(self, locator: Locator, profile: str = "") -> None:
        self.locator = locator
        impl, _, version = profile.partition(":")
        self.impl = impl or "unknown"
        self.version = version or "unknown"

    def start(self) -> None:
        """Counts; the node runs already."""
        self.starts += 1

    def stop(self) -> None:
        """Leaves the node alone."""

    def death(self) -> str:
        """Knows nothing of the process."""
        return ""

    def complaints(self) -> str:
        """Hears nothing of the process."""
        return ""
