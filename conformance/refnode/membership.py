"""The node in a multicast group: every member has a face of the router, all share one socket."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.config import Locator
from conformance.link import Datagrams, Timer
from conformance.observe import Observation
from conformance.refnode.core import Core, log
from conformance.refnode.mutants import Memory
from conformance.refnode.scouting import Address
from conformance.router import Face, Outgoing
from conformance.session.events import Event, Joined, Left, Received
from conformance.session.group import JOIN_BATCH_SIZE, Group, GroupConfig
from conformance.session.negotiate import Offer
from scapy_layers.codes import CloseReason, WhatAmI
from scapy_layers.network import Push
from scapy_layers.primitives import zid_to_text


@dataclass(slots=True)
class Seat:
    """One member of the group, as the router sees it.

    Attributes:
        face: Its face.
        group: Where it sits.
    """

    face: Face
    group: Membership

    def post(self, out: Outgoing) -> None:
        """Queues a network message: the whole group will hear it."""
        self.group.say(out)

    def flush(self, now: float) -> None:
        """Hands what is queued to the socket."""
        self.group.flush(now)


class Membership:
    """Our part in a multicast group.

    What one member says, all members hear: the router's copies for the others are not sent.

    Args:
        core: What all links share.
        where: The group.
    """

    def __init__(self, core: Core, where: Locator) -> None:
        config = core.config
        offer = Offer(
            fsn=config.fsn,
            rid=config.rid,
            batch_size=min(config.batch_size, JOIN_BATCH_SIZE),
            qos=config.qos,
            patch=config.patch,
        )
        self._core = core
        self._where = where
        self._group = Group(
            GroupConfig(
                zid=config.zid,
                whatami=config.mode,
                offer=offer,
                lease=config.lease,
                max_message=config.max_message,
                max_members=config.max_sessions,
                batching=True,
            ),
            rng=core.rng,
            policy=core.sessions,
        )
        self._seats: dict[bytes, Seat] = {}
        self._said: set[bytes] = set()
        self._spoke: set[Face] = set()
        self._memory: Memory = {"number": 0, "group": True}
        self._socket: Datagrams | None = None
        self._timer: Timer | None = None
        self._due = 0.0

    def start(self) -> None:
        """Joins the group.

        Raises:
            LinkFailed: There is no such group here.
        """
        self._socket = self._core.links.datagrams(self._where, "group", group=True, kind=None)
        self._socket.on_datagram = self._heard
        now = self._core.clock()
        self._group.join(now)
        self.flush(now)

    def stop(self) -> None:
        """Says CLOSE and leaves."""
        if self._timer is not None:
            self._timer.cancel()
        if self._core.decisions.says_goodbye():
            self._group.leave(CloseReason.GENERIC)
            self._send(self._core.clock())
        for seat in self._seats.values():
            self._core.mouths.pop(seat.face, None)
        if self._socket is not None:
            self._socket.close()

    # From the router ------------------------------------------------------------------------------------

    def say(self, out: Outgoing) -> None:
        """Queues a network message for the group; a publication for several members goes out once."""
        try:
            if isinstance(out.message, Push):
                raw = bytes(out.message)
                if raw in self._said:
                    return
                self._said.add(raw)
            lane = self._group.lane_for(out.priority)
            self._group.send(out.message, reliable=out.reliable, priority=lane)
            self._core.counters.routed += 1
            self._core.dirty[out.face] = self._core.mouths[out.face]
        except Exception:  # noqa: BLE001  (the group shall not harm the links)
            self._failed()

    def flush(self, now: float) -> None:
        """Hands what is queued to the socket."""
        self._said.clear()
        try:
            self._send(now)
            self._arm(now)
        except Exception:  # noqa: BLE001  (the group shall not harm the links)
            self._failed()

    # From the socket ------------------------------------------------------------------------------------

    def _heard(self, seen: Observation, source: Address) -> None:
        core = self._core
        # What is on its way already has nothing to do with this datagram.
        core.deliver(core.router.take())
        try:
            now = core.clock()
            mutant = core.mutant
            batch = seen.batch if mutant.hear is None else mutant.heard(seen.batch, self._memory)
            self._take(self._group.receive(batch, source, now), now)
            self._arm(now)
        except Exception:  # noqa: BLE001  (the group shall not harm the links)
            self._failed()
        # The other members heard the same datagram.
        heard = {seat.face for seat in self._seats.values()} - self._spoke
        self._spoke.clear()
        core.deliver(out for out in core.router.take() if out.face not in heard)

    def _take(self, events: Iterable[Event], now: float) -> None:
        core = self._core
        for event in events:
            if isinstance(event, Received):
                seat = self._seats.get(event.zid)
                if seat is None:
                    # Only a mutant hears strangers; the router would not know whom to ask back.
                    seat = self._seated(event.zid, WhatAmI.PEER, now)
                core.counters.received += 1
                self._spoke.add(seat.face)
                core.router.receive(
                    seat.face, event.message, now, reliable=event.reliable, priority=event.priority
                )
            elif isinstance(event, Joined):
                log.info("group %s: %s joined", self._where, zid_to_text(event.zid))
                self._spoke.add(self._seated(event.zid, event.whatami, now).face)
            elif isinstance(event, Left):
                log.info("group %s: %s left: %s", self._where, zid_to_text(event.zid), event.why)
                self._unseated(event.zid, now)

    def _seated(self, zid: bytes, whatami: int, now: float) -> Seat:
        self._unseated(zid, now)
        seat = self._seats[zid] = Seat(self._core.face(), self)
        self._core.mouths[seat.face] = seat
        self._core.counters.sessions += 1
        self._core.router.open(seat.face, zid, whatami, now, rid=self._core.config.rid)
        return seat

    def _unseated(self, zid: bytes, now: float) -> None:
        seat = self._seats.pop(zid, None)
        if seat is not None:
            self._core.mouths.pop(seat.face, None)
            self._core.dirty.pop(seat.face, None)
            self._core.counters.sessions -= 1
            self._core.router.close(seat.face, now)

    # Inside ----------------------------------------------------------------------------------------------

    def _send(self, now: float) -> None:
        if self._socket is None:
            return
        mutant = self._core.mutant
        for unit in self._group.units_to_send(now):
            plain = unit.raw if mutant.bend is None else mutant.bent(unit.messages, self._memory)
            if not plain:
                continue
            self._socket.send(plain)
            self._core.counters.batches += 1

    def _arm(self, now: float) -> None:
        due = self._group.next_deadline()
        if due is None or (self._timer is not None and self._due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = max(due, now)
        self._timer = self._core.links.at(self._due, self._on_time)

    def _on_time(self, now: float) -> None:
        self._timer = None
        try:
            self._take(self._group.tick(now), now)
        except Exception:  # noqa: BLE001  (the group shall not harm the links)
            self._failed()
        self.flush(now)
        self._core.links.wake()

    def _failed(self) -> None:
        self._core.counters.internal_errors += 1
        log.exception("group %s: internal error", self._where)
