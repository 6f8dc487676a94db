"""A node that somebody else started: ``--node tcp/HOST:PORT``."""

from __future__ import annotations

from conformance.config import Locator, Tls
from conformance.nodes.foreign import ForeignNode, heard
from conformance.profiles import GENERAL, Profile


class AttachedNode(ForeignNode):
    """A running node of which only the locator is known.

    Args:
        locator: Where it is.
        profile: What it supports, as far as the user knows.
    """

    def __init__(self, locator: Locator, profile: Profile = GENERAL) -> None:
        self.locator = locator
        self.profile = profile
        self.impl = profile.impl
        self.version = profile.version
        self.scouting = heard(locator, profile)
        # Nobody told us whom to trust, and it is not its certificate that is tested.
        self.tls = Tls(verify=False) if locator.proto == "tls" else None

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
