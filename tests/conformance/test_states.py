"""The table of session states."""

from __future__ import annotations

import pytest

from conformance.session.states import HANDSHAKE, TABLE, State, Trigger, after


def test_handshake_leads_from_idle_to_open() -> None:
    state = State.IDLE
    for trigger in (Trigger.CONNECT, Trigger.INIT_ACK, Trigger.OPEN_ACK):
        state = after(state, trigger)
    assert state is State.OPEN


@pytest.mark.parametrize("state", [*HANDSHAKE, State.OPEN])
def test_close_ends_every_started_session(state: State) -> None:
    assert after(state, Trigger.CLOSE_RECEIVED) is State.CLOSED
    assert after(state, Trigger.CLOSE_SENT) is State.CLOSED


def test_change_that_is_not_in_the_table_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="a session that is open has no place for: InitAck received"):
        after(State.OPEN, Trigger.INIT_ACK)


def test_nothing_leaves_closed() -> None:
    assert State.CLOSED not in {state for state, _ in TABLE}
