"""Where a link can be when a stimulus leaves, and what it takes to be there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a link is.

    Links that we make: ``connected`` nothing was said; ``init_acked`` InitAck came, OPEN is due; ``open`` a session;
    ``declared`` a session with an alias, a subscriber, a queryable and a token of ours; ``pending`` a session in which
    queries of ours and of the node wait for replies; ``fragmenting`` a session in the middle of a fragmented message;
    ``closed`` a session that we ended with CLOSE, its link still there; ``low_latency``, ``compressed`` sessions with
    that agreed on.

    Links that the node makes: ``init_received`` its INIT came, InitAck is due; ``open_received`` its OPEN came;
    ``accepted`` a session.

    Datagrams: ``scouting`` the address where it hears SCOUT; ``seeking`` the port from which it looks for others, where
    it hears HELLO; ``group`` a multicast group in which we have not joined;
    ``joined`` the same behind a JOIN of ours.
    """

    CONNECTED = "connected"
    INIT_ACKED = "init_acked"
    OPEN = "open"
    DECLARED = "declared"
    PENDING = "pending"
    FRAGMENTING = "fragmenting"
    CLOSED = "closed"
    LOW_LATENCY = "low_latency"
    COMPRESSED = "compressed"
    INIT_RECEIVED = "init_received"
    OPEN_RECEIVED = "open_received"
    ACCEPTED = "accepted"
    SCOUTING = "scouting"
    SEEKING = "seeking"
    GROUP = "group"
    JOINED = "joined"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a state.

    Attributes:
        purpose: One line.
        before: The state it is reached from; None for the first of its kind.
        session: A session is open, so that the node can be asked there whether it is done.
        shared: Cases may follow each other on one link.
        needs: What the node must do for it: ``connects``, ``scouts``, ``seeks``, ``joins``, ``low_latency``, ``compression``.
    """

    purpose: str
    before: State | None = None
    session: bool = False
    shared: bool = False
    needs: str = ""


FACTS: dict[State, Facts] = {
    State.CONNECTED: Facts("a link on which nothing was said"),
    State.INIT_ACKED: Facts("InitAck came, OPEN is due", State.CONNECTED),
    State.OPEN: Facts("a session", State.INIT_ACKED, session=True, shared=True),
    State.DECLARED: Facts("a session with declarations of ours", State.OPEN, session=True, shared=True),
    State.PENDING: Facts(
        "a session in which queries wait for replies", State.OPEN, session=True, shared=True
    ),
    State.FRAGMENTING: Facts("a session in the middle of a fragmented message", State.OPEN, session=True),
    State.CLOSED: Facts("behind our CLOSE, the link still there", State.OPEN),
    State.LOW_LATENCY: Facts(
        "a low-latency session", State.INIT_ACKED, session=True, shared=True, needs="low_latency"
    ),
    State.COMPRESSED: Facts(
        "a session with compression", State.INIT_ACKED, session=True, shared=True, needs="compression"
    ),
    State.INIT_RECEIVED: Facts("the node made the link and sent INIT", needs="connects"),
    State.OPEN_RECEIVED: Facts("the node sent OPEN to our InitAck", State.INIT_RECEIVED, needs="connects"),
    State.ACCEPTED: Facts(
        "a session that the node began", State.OPEN_RECEIVED, session=True, shared=True, needs="connects"
    ),
    State.SCOUTING: Facts("where the node hears SCOUT", shared=True, needs="scouts"),
    State.SEEKING: Facts("where a node that looks for others hears HELLO", shared=True, needs="seeks"),
    State.GROUP: Facts("a multicast group, no JOIN of ours", needs="joins"),
    State.JOINED: Facts("a multicast group behind a JOIN of ours", State.GROUP, shared=True, needs="joins"),
}
