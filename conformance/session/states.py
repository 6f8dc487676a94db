"""Every change of state of a session, as data: one table for both sides and for multicast.

Unicast follows Session Establishment, Full Handshake Flow. Multicast has no handshake: our own end is in
the group or not, and each other node is a stranger until its JOIN and again after its CLOSE or lease.
``docs/session.md`` draws its picture from this table.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a session stands."""

    IDLE = "idle"
    # Initiator.
    INIT_SENT = "init sent"
    OPEN_SENT = "open sent"
    # Acceptor.
    ACCEPTING = "accepting"
    INIT_ANSWERED = "init answered"
    # Both.
    OPEN = "open"
    CLOSED = "closed"
    # Multicast: our end.
    JOINED = "joined"
    # Multicast: another node, as we see it.
    STRANGER = "stranger"
    MEMBER = "member"


class Trigger(StrEnum):
    """What moves it on."""

    CONNECT = "connect"
    ACCEPT = "accept"
    INIT_SYN = "InitSyn received"
    INIT_ACK = "InitAck received"
    OPEN_SYN = "OpenSyn received"
    OPEN_ACK = "OpenAck received"
    CLOSE_RECEIVED = "CLOSE received"
    CLOSE_SENT = "CLOSE sent"
    EXPIRED = "lease expired"
    TIMED_OUT = "handshake took too long"
    BROKEN = "protocol broken by the node"
    LINK_ENDED = "link ended"
    ENTER = "enter the group"
    JOIN = "JOIN received"


HANDSHAKE = (State.INIT_SENT, State.OPEN_SENT, State.ACCEPTING, State.INIT_ANSWERED)
"""States in which only the next handshake message or CLOSE may come."""

_ENDS = (Trigger.CLOSE_RECEIVED, Trigger.CLOSE_SENT, Trigger.BROKEN, Trigger.LINK_ENDED)

TABLE: dict[tuple[State, Trigger], State] = {
    (State.IDLE, Trigger.CONNECT): State.INIT_SENT,
    (State.INIT_SENT, Trigger.INIT_ACK): State.OPEN_SENT,
    (State.OPEN_SENT, Trigger.OPEN_ACK): State.OPEN,
    (State.IDLE, Trigger.ACCEPT): State.ACCEPTING,
    (State.ACCEPTING, Trigger.INIT_SYN): State.INIT_ANSWERED,
    (State.INIT_ANSWERED, Trigger.OPEN_SYN): State.OPEN,
    **{(state, trigger): State.CLOSED for state in (*HANDSHAKE, State.OPEN) for trigger in _ENDS},
    **{(state, Trigger.TIMED_OUT): State.CLOSED for state in HANDSHAKE},
    (State.OPEN, Trigger.EXPIRED): State.CLOSED,
    (State.IDLE, Trigger.CLOSE_SENT): State.CLOSED,
    (State.IDLE, Trigger.LINK_ENDED): State.CLOSED,
    (State.IDLE, Trigger.ENTER): State.JOINED,
    (State.JOINED, Trigger.CLOSE_SENT): State.CLOSED,
    (State.STRANGER, Trigger.JOIN): State.MEMBER,
    (State.MEMBER, Trigger.JOIN): State.MEMBER,
    **{
        (State.MEMBER, trigger): State.STRANGER
        for trigger in (Trigger.CLOSE_RECEIVED, Trigger.EXPIRED, Trigger.BROKEN)
    },
}


def after(state: State, trigger: Trigger) -> State:
    """Returns the state behind a trigger.

    Raises:
        ValueError: The table does not have this change.
    """
    try:
        return TABLE[state, trigger]
    except KeyError:
        raise ValueError(f"a session that is {state!s} has no place for: {trigger!s}") from None
