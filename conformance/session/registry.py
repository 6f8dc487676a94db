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
    _owners: dict[bytes, list[object]] = field(default_factory=dict)

    @property
    def present(self) -> dict[bytes, list[object]]:
        """ZenohIDs that have a session, with whoever holds it: one for each link, the oldest first."""
        return self._owners

    def add(self, zid: bytes, owner: object) -> None:
        """Notes that a node has a session, or one more link of it."""
        self._owners.setdefault(zid, []).append(owner)

    def remove(self, zid: bytes, owner: object) -> None:
        """Forgets it; nothing happens when the session of that node belongs to somebody else."""
        owners = self._owners.get(zid, [])
        if owner in owners:
            owners.remove(owner)
            if not owners:
                del self._owners[zid]
