"""Which nodes have a session with us: what all sessions of one node share."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Registry:
    """The sessions of one node.

    Attributes:
        max_sessions: Sessions at most; None for no limit.
    """

    max_sessions: int | None = None
    _owners: dict[bytes, object] = field(default_factory=dict)

    @property
    def present(self) -> dict[bytes, object]:
        """ZenohIDs that have a session, with whoever holds it."""
        return self._owners

    def add(self, zid: bytes, owner: object) -> None:
        """Notes that a node has a session."""
        self._owners[zid] = owner

    def remove(self, zid: bytes, owner: object) -> None:
        """Forgets it; nothing happens when the session of that node belongs to somebody else."""
        if self._owners.get(zid) is owner:
            del self._owners[zid]
