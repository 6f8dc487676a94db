"""What a node has done so far, as numbers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class Counters:
    """What happened since the node was started.

    Attributes:
        links: Links that were made, in both directions.
        half_open: Links on which the handshake is not over.
        sessions: Sessions that are open now.
        handshakes: Sessions that were opened.
        received: Network messages taken.
        routed: Network messages sent, one for each neighbour that got it.
        batches: Batches sent.
        dropped: Messages not sent because too much waited for a neighbour.
        refused: Handshakes that ended without a session, and links that were not taken.
        closed: Sessions and handshakes that ended, by reason: the name of ours or theirs, or what else ended them.
        internal_errors: Exceptions on a link: bugs of ours.
    """

    links: int = 0
    half_open: int = 0
    sessions: int = 0
    handshakes: int = 0
    received: int = 0
    routed: int = 0
    batches: int = 0
    dropped: int = 0
    refused: int = 0
    closed: dict[str, int] = field(default_factory=dict)
    internal_errors: int = 0

    def count_closed(self, name: str) -> None:
        """Counts the end of a session or handshake."""
        self.closed[name] = self.closed.get(name, 0) + 1

    def line(self) -> str:
        """Returns one line of JSON."""
        return json.dumps({"stats": asdict(self)})
