"""Brings a link into the state a campaign wants, with the conformance tester."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, assert_never

from conformance.session.states import State as SessionState
from conformance.tester import End, SessionEnd, Tester, fresh_zid
from scapy_layers.data import Query
from scapy_layers.network import Request, ResponseFinal
from scapy_layers.transport import Frame, Init


class State(StrEnum):
    """Where the link is when the stimulus leaves.

    ``connected``: nothing was said yet. ``init_acked``: InitAck came, OpenSyn is expected. ``open``: a
    session lives.
    """

    CONNECTED = "connected"
    INIT_ACKED = "init_acked"
    OPEN = "open"


@dataclass(slots=True)
class Ready:
    """A link in the wanted state.

    Attributes:
        end: Our end of it.
        live: Values that stimuli need and that only this link has: ``zid``, ``cookie``, ``sn``.
        behind: Position in the history behind the prelude.
    """

    end: End
    live: dict[str, Any] = field(default_factory=dict)
    behind: int = 0


def prepare(tester: Tester, state: State, session: SessionEnd | None = None) -> Ready:
    """Makes a link and brings it into a state. Every session has a ZenohID of its own.

    Args:
        tester: Makes the link.
        state: Where to.
        session: One of this tester that is open already.

    Raises:
        LinkFailed: Nobody listens there.
        Unmet: The node does not go along.
    """
    match state:
        case State.CONNECTED:
            ready = Ready(tester.link(), {"zid": fresh_zid(tester.rng)})
        case State.INIT_ACKED:
            end = tester.link()
            end.send(tester.init())
            ready = Ready(end, {"cookie": end.expect(Init, A=1).cookie})
        case State.OPEN:
            session = session or tester.session()
            ready = Ready(session, {"sn": session.session.take_sn()})
        case _:
            assert_never(state)
    ready.behind = len(tester.history.observations)
    return ready


BARRIER = 4_000_000_000
"""Request id of the first barrier of a session; stimuli have small ones."""


@cache
def _query(number: int) -> bytes:
    """Returns a query on a key that nobody serves, encoded once: a campaign sends it with every case."""
    return bytes(Request(request_id=number, key_suffix="harness/fuzz/barrier", body=Query()))


class Barrier:
    """A query behind the stimulus: its end shows that the node has taken in the stimulus and goes on.

    It travels best effort, with a sequence number of its own, so that a stimulus which spoils the numbers
    of the reliable channel does not stop it.

    Args:
        end: Our end of a session.
        index: Counts the barriers of a session.
    """

    def __init__(self, end: SessionEnd, index: int) -> None:
        self._number = BARRIER + index
        if end.session.state is SessionState.OPEN:
            end.session.take_sn(reliable=False)
            sn = end.session.take_sn(reliable=False)
            end.link.send(bytes(Frame(R=0, sn=sn)) + _query(self._number))

    def answers(self, message: object) -> bool:
        """Tells whether a message is the answer."""
        return isinstance(message, ResponseFinal) and message.request_id == self._number

    def wait(self, end: SessionEnd, seconds: float) -> bool:
        """Waits for the answer; tells whether it came in time."""

        def there() -> bool:
            return any(self.answers(seen.message) for seen in end.inbox)

        return end.wait(lambda: there() or end.link.ended is not None, seconds) and there()
