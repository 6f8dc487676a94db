"""Two session machines joined in memory, with a clock of their own."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from conformance.session.events import Closed, Dropped, Event, Received
from conformance.session.machine import Session, SessionConfig
from conformance.session.negotiate import Offer
from conformance.session.policy import Policy
from conformance.session.registry import Registry
from conformance.session.states import State

CONNECTING = b"\x01\x01"
ACCEPTING = b"\x02\x02"


def cut(raw: bytes, room: int) -> list[bytes]:
    """Cuts an encoded network message into slices of at most ``room`` bytes."""
    return [raw[at : at + room] for at in range(0, len(raw), room)]


def end(
    zid: bytes,
    *,
    seed: int = 1,
    policy: Policy | None = None,
    registry: Registry | None = None,
    offer: dict[str, Any] | None = None,
    **config: Any,
) -> Session:
    """Makes one end; ``offer`` has the fields of Offer, ``config`` those of SessionConfig."""
    return Session(
        SessionConfig(zid=zid, offer=Offer(**(offer or {})), **config),
        rng=random.Random(seed),
        policy=policy,
        registry=registry,
    )


@dataclass
class Pair:
    """Both ends of a session, what happened at each, and the time."""

    connecting: Session
    accepting: Session
    now: float = 0.0
    seen: dict[Session, list[Event]] = field(default_factory=dict)
    travelled: list[tuple[Session, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen = {self.connecting: [], self.accepting: []}

    def other(self, session: Session) -> Session:
        return self.accepting if session is self.connecting else self.connecting

    def start(self) -> Pair:
        self.accepting.accept(self.now)
        self.connecting.connect(self.now)
        return self.run()

    def run(self) -> Pair:
        """Carries batches to and fro until all is quiet."""
        moved = True
        while moved:
            moved = False
            for session in (self.connecting, self.accepting):
                for batch in session.batches_to_send(self.now):
                    moved = True
                    self.travelled.append((session, batch))
                    target = self.other(session)
                    self.seen[target] += target.receive(batch, self.now)
        return self

    def tick(self, seconds: float) -> Pair:
        """Lets time pass, waking each end when it asked for it."""
        until = self.now + seconds
        while True:
            due = [when for s in self.seen if (when := s.next_deadline()) is not None]
            wake = min([until, *due])
            self.now = max(self.now, wake)
            for session in self.seen:
                self.seen[session] += session.tick(self.now)
            self.run()
            if wake >= until:
                return self

    def received(self, session: Session) -> list[Any]:
        return [event.message for event in self.seen[session] if isinstance(event, Received)]

    def dropped(self, session: Session) -> list[int]:
        return [event.sn for event in self.seen[session] if isinstance(event, Dropped)]

    def closed(self, session: Session) -> Closed | None:
        return next((event for event in self.seen[session] if isinstance(event, Closed)), None)

    @property
    def open(self) -> bool:
        return self.connecting.state is State.OPEN and self.accepting.state is State.OPEN


def pair(
    connecting: dict[str, Any] | None = None, accepting: dict[str, Any] | None = None, **both: Any
) -> Pair:
    """Makes two ends and runs the handshake.

    Args:
        connecting: Arguments of ``end`` for the initiator alone.
        accepting: Arguments of ``end`` for the acceptor alone.
        both: Fields of the offer of both ends.
    """
    one, two = (
        end(**{"zid": zid, "seed": seed, **(own or {}), "offer": {**both, **(own or {}).get("offer", {})}})
        for zid, seed, own in ((CONNECTING, 1, connecting), (ACCEPTING, 2, accepting))
    )
    return Pair(one, two).start()
