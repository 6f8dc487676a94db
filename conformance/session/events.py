"""What the session machine wants its owner to know."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.session.negotiate import Offer
from scapy_layers.message import Message


@dataclass(frozen=True, slots=True)
class Opened:
    """The session is live in both directions.

    Attributes:
        zid: Wire bytes of the node's ZenohID.
        whatami: Its role code.
        agreed: What was negotiated.
        lease: Seconds, the one the node announced.
        initial_sn: First sequence number of the node.
    """

    zid: bytes
    whatami: int
    agreed: Offer
    lease: float
    initial_sn: int


@dataclass(slots=True)
class Received:
    """A network message came.

    Attributes:
        message: The message; one that came in fragments is whole again.
        reliable: The channel it came on.
        priority: The lane.
        zid: Who sent it, in a multicast group; empty in a session.
    """

    message: Message
    reliable: bool
    priority: int
    zid: bytes = b""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A FRAME or FRAGMENT was not taken: its number is old, or it was heard before.

    Attributes:
        sn: Its number.
        zid: Who sent it, in a multicast group; empty in a session.
    """

    sn: int
    zid: bytes = b""


@dataclass(frozen=True, slots=True)
class Closed:
    """The session is over.

    Attributes:
        reason: Close reason code; None when the link ended without CLOSE.
        by_us: We ended it.
        why: In words.
        all_links: Where it has several links, all of them end; otherwise this one.
    """

    reason: int | None
    by_us: bool
    why: str
    all_links: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """A node is in the multicast group now.

    Attributes:
        zid: Wire bytes of its ZenohID.
        whatami: Its role code.
        lease: Seconds after which it is gone without another JOIN.
        patch: Patch version that holds towards it.
    """

    zid: bytes
    whatami: int
    lease: float
    patch: int


@dataclass(frozen=True, slots=True)
class Left:
    """A node is in the multicast group no more.

    Attributes:
        zid: Wire bytes of its ZenohID.
        reason: Close reason code; None when it fell silent or broke the protocol.
        why: In words.
    """

    zid: bytes
    reason: int | None
    why: str


Event = Opened | Received | Dropped | Closed | Joined | Left
