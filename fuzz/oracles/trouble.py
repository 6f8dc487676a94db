"""What can be wrong with the canary."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Wrong(StrEnum):
    """What can be wrong with the canary: the words of a place."""

    LOST = "publication lost"
    UNJOINED = "publication in fragments lost"
    UNNAMED = "publication by an alias lost"
    LARGE_LOST = "large publication lost"
    LARGE_CHANGED = "large publication changed"
    UNRANKED = "publication of another priority lost"
    SILENT = "publications do not arrive"
    LATE = "long without an answer"
    CHANGED = "publication changed"
    TWICE = "publication twice"
    REORDERED = "publications out of order"
    ASTRAY = "publication for another key"
    UNREPLIED = "query does not arrive"
    NO_REPLY = "reply does not arrive"
    UNNAMED_REPLY = "reply by an alias lost"
    REPLY_CHANGED = "reply changed"
    REPLY_ASTRAY = "reply to another query"
    MUTE = "session not answered"
    ENDED = "session ended"
    MISNUMBERED = "sequence number out of turn"
    UNASKED = "answer to a query of another session"
    COMMON_SILENT = "publications for a common key do not arrive"
    COMMON_CHANGED = "publication for a common key changed"
    COMMON_TWICE = "publication for a common key twice"
    KEPT = "subscriber or queryable that was taken back is served"
    UNTOLD = "token is not told"
    STUCK = "token of a session that has ended is told"
    INHERITED = "publication for a session that has ended"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong with the canary.

    Attributes:
        wrong: What.
        how: More words for the place, such as the reason of a CLOSE.
        detail: One line for people.
    """

    wrong: Wrong
    how: str
    detail: str

    @property
    def place(self) -> str:
        """The words for an objection."""
        return f"{self.wrong}: {self.how}" if self.how else str(self.wrong)


MUTE = Trouble(Wrong.MUTE, "", "a session is no longer answered")

OUTLIVE = {
    Wrong.STUCK: f"a {Wrong.STUCK} although sessions are answered",
    Wrong.INHERITED: "a new session receives what an ended session had subscribed to",
}
"""What of a session outlives it."""
