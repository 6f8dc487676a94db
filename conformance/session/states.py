"""Every change of state of a session, as data.

Initiator of a unicast session (Session Establishment, Full Handshake Flow). What does not fit the
table: a session also goes to CLOSED from every state when its link ends.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a session stands."""

    IDLE = "idle"
    INIT_SENT = "init sent"
    OPEN_SENT = "open sent"
    OPEN = "open"
    CLOSED = "closed"


class Trigger(StrEnum):
    """What moves it on."""

    CONNECT = "connect"
    INIT_ACK = "InitAck received"
    OPEN_ACK = "OpenAck received"
    CLOSE_RECEIVED = "CLOSE received"
    CLOSE_SENT = "CLOSE sent"
    EXPIRED = "lease expired"
    BROKEN = "protocol broken by the node"


TABLE: dict[tuple[State, Trigger], State] = {
    (State.IDLE, Trigger.CONNECT): State.INIT_SENT,
    (State.INIT_SENT, Trigger.INIT_ACK): State.OPEN_SENT,
    (State.OPEN_SENT, Trigger.OPEN_ACK): State.OPEN,
    **{
        (state, trigger): State.CLOSED
        for state in (State.INIT_SENT, State.OPEN_SENT, State.OPEN)
        for trigger in (Trigger.CLOSE_RECEIVED, Trigger.CLOSE_SENT, Trigger.EXPIRED, Trigger.BROKEN)
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


HANDSHAKE = (State.INIT_SENT, State.OPEN_SENT)
"""States in which only the next handshake message or CLOSE may come."""
