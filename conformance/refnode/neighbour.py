"""One link: its session, its face of the router (which several links of a session share), its timer, its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from conformance.link import Link, Timer
from conformance.observe import Observation
from conformance.refnode.core import Core, Fellow, log
from conformance.refnode.mutants import Memory
from conformance.refnode.policy import PATIENCE_SECONDS
from conformance.refnode.settings import NodeConfig, reason_name
from conformance.router import Outgoing
from conformance.session.events import Closed, Event, Opened, Received
from conformance.session.machine import Session, SessionConfig
from conformance.session.negotiate import Offer
from conformance.session.rsa import PrivateKey
from conformance.session.states import State
from scapy_layers.batch import Contents, contents
from scapy_layers.codes import CloseReason, Priority
from scapy_layers.errors import Overlong
from scapy_layers.primitives import zid_to_text

DATAGRAM_BYTES = 65_507
"""Largest batch on udp: what IPv4 leaves for a datagram."""

UNITS_A_TURN = 256
"""Batches that one neighbour is sent in a turn of the loop: the others want theirs."""

UNITS_AT_ONCE = 16
"""Batches between two looks at what the link still holds."""

ENOUGH_WAITING = 1 << 20
"""Bytes that a link has not taken yet above which it is given no more."""

OnGone = Callable[[bool], None]
"""Told when a link is no more; whether a session had been open on it."""


class Phase(Enum):
    """How far a link is."""

    HANDSHAKE = "handshake"
    OPEN = "open"
    OVER = "over"


class Neighbour:
    """The other end of one link.

    Whatever happens here harms nobody else: an exception in the handling of this link ends this link.

    Args:
        core: What all links share.
        link: Just made.
        initiator: We made it, so that we begin the handshake.
        on_gone: Called once, when the link is no more; says whether a session had been open.
    """

    def __init__(self, core: Core, link: Link, *, initiator: bool, on_gone: OnGone | None = None) -> None:
        self.link = link
        self.face = core.face()
        self.session = Session(
            session_config(core.config, link, core.key),
            rng=core.rng,
            policy=core.sessions,
            registry=core.registry,
        )
        self._core = core
        self._policy = core.decisions
        self._on_gone = on_gone
        self.route = self.face
        self._zid = b""
        self._links: list[Fellow] = [self]
        self._phase = Phase.HANDSHAKE
        self._was_open = False
        self._told = self._expired = False
        self._timer: Timer | None = None
        self._due = 0.0
        self._given = self._taken = 0
        self._stuck_since = 0.0
        self._memory: Memory = {"number": self.face}
        core.counters.links += 1
        core.counters.half_open += 1
        core.mouths[self.face] = core.dirty[self.face] = self
        link.unwrap = self.session.unwrap
        link.cut_with(core.decisions.reader())
        link.on_batch = self._on_batch
        link.on_refused = self._on_refused
        link.on_end = self._on_end
        (self.session.connect if initiator else self.session.accept)(core.clock())

    # From the router and the node ---------------------------------------------------------------------

    def post(self, out: Outgoing) -> None:
        """Queues a network message of the router."""
        try:
            session, core = self.session, self._core
            if session.state is not State.OPEN:
                return
            if self._policy.may_drop(out.message, self.waiting, core.config.waiting_bytes):
                core.counters.dropped += 1
                return
            lane = out.priority if session.agreed.qos else Priority.DATA
            session.send(out.message, reliable=out.reliable, priority=lane, raw=core.encoded(out.message))
            core.counters.routed += 1
            core.dirty[self.face] = self
        except Exception:  # noqa: BLE001  (one message shall not harm the other links)
            self._fail()

    def flush(self, now: float) -> None:
        """Hands what the session has queued to the link, and ends the link when the session is over."""
        if self.link.ended is not None:
            return
        try:
            self._send(now)
            if self._phase is Phase.OPEN and self._unresponsive(now):
                self.close(CloseReason.UNRESPONSIVE, "it does not read")
                self._send(now)
            if self.session.over and not self.session.has_more:
                self._leave()
            else:
                self._arm(now)
        except Exception:  # noqa: BLE001  (likewise)
            self._fail()

    def close(self, reason: CloseReason, why: str) -> None:
        """Ends the session with CLOSE, and then the link."""
        if not self.session.over:
            self.session.close(reason)
            self._over(Closed(reason, by_us=True, why=why), self._core.clock())
            self._core.dirty[self.face] = self

    def follow(self, why: str) -> None:
        """Ends this link because another one of its session was the end of all."""
        self._take(self.session.link_ended(why), self._core.clock())
        self._core.dirty[self.face] = self

    @property
    def waiting(self) -> int:
        """Bytes that wait to leave."""
        return self.session.waiting + self.link.waiting

    @property
    def open(self) -> bool:
        """There is a session."""
        return self._phase is Phase.OPEN

    # From the link --------------------------------------------------------------------------------------

    def _on_batch(self, seen: Observation) -> None:
        if self._phase is Phase.OVER:
            # Our CLOSE is on its way; what the other end said before it heard it is of no interest.
            return
        core = self._core
        try:
            now = core.clock()
            inside = seen.contents if core.mutant.hear is None else self._misheard(seen)
            if inside is not None:
                self._take(self.session.receive_contents(inside, now), now)
            if self.link.streamed:
                # The next length may have another size: low-latency sessions have longer ones.
                self.link.prefix, self.link.limit = self.session.prefix, self.session.limit
            core.dirty[self.face] = self
        except Exception:  # noqa: BLE001  (likewise)
            self._fail()

    def _misheard(self, seen: Observation) -> Contents | None:
        raw = seen.batch if seen.plain is None else seen.plain
        heard = self._core.mutant.heard(raw, self._memory)
        return None if raw and not heard else contents(heard)

    def _on_refused(self, _: Link, why: str) -> None:
        """What came in is no batch; the link ends when this returns."""
        now = self._core.clock()
        try:
            self._take(self.session.refuse(Overlong("batch", why)), now)
            self._send(now)
        except Exception:  # noqa: BLE001  (likewise)
            self._internal_error("when refusing")

    def _on_end(self, link: Link) -> None:
        core = self._core
        now = core.clock()
        try:
            if self._phase is not Phase.OVER:
                self._take(self.session.link_ended(link.ended or "end of the link"), now)
                self._enter(Phase.OVER, now)
        except Exception:  # noqa: BLE001  (likewise)
            self._internal_error("at its end")
        for known in (core.mouths, core.dirty, core.unfinished):
            for face in {self.face, self.route}:
                if known.get(face) is self:
                    del known[face]
        self._disarm()
        log.debug("link %s: %s", link.name, link.ended)
        if self._on_gone is not None:
            self._on_gone(self._was_open)
        core.links.wake()

    def _on_time(self, now: float) -> None:
        # The timers of a turn are called before its sockets are read. Whoever seems silent after a turn that took
        # long may have spoken meanwhile.
        self._timer = self._core.links.at(now, self._tick)

    def _tick(self, now: float) -> None:
        self._timer = None
        if self.link.ended is not None or self._phase is Phase.OVER:
            return
        try:
            self._take(self.session.tick(now), now)
            self._core.dirty[self.face] = self
            self._core.links.wake()
        except Exception:  # noqa: BLE001  (likewise)
            self._fail()

    # Inside ----------------------------------------------------------------------------------------------

    def _take(self, events: Iterable[Event], now: float) -> None:
        core = self._core
        for event in events:
            if isinstance(event, Received):
                core.counters.received += 1
                core.router.receive(
                    self.route, event.message, now, reliable=event.reliable, priority=event.priority
                )
            elif isinstance(event, Opened):
                self._enter(Phase.OPEN, now)
                log.info("link %s: session with %s", self.link.name, zid_to_text(event.zid))
                self._join(event.zid, now)
            elif isinstance(event, Closed):
                self._over(event, now)

    def _enter(self, phase: Phase, now: float) -> None:
        before, self._phase = self._phase, phase
        core = self._core
        if before is Phase.HANDSHAKE:
            core.counters.half_open -= 1
            if phase is Phase.OPEN:
                self._was_open = True
                core.counters.handshakes += 1
                core.counters.sessions += 1
            else:
                core.counters.refused += 1
        elif before is Phase.OPEN and phase is Phase.OVER:
            core.counters.sessions -= 1
            self._part(now)

    def _join(self, zid: bytes, now: float) -> None:
        """Begins a session in the router, or becomes one more link of the session that there is."""
        bundles = self._core.bundles
        if self.session.joined and zid in bundles:
            self._links = bundles[zid]
            self._links.append(self)
            self.route = self._links[0].route
            return
        self._zid = zid
        bundles[zid] = self._links = [self]
        peer = self.session.peer
        assert peer is not None
        self._core.router.open(self.route, zid, peer.whatami, now, rid=peer.agreed.rid)

    def _part(self, now: float) -> None:
        """Leaves the session to the other links that it has, or ends it in the router."""
        core, links = self._core, self._links
        links.remove(self)
        if links:
            core.mouths[self.route] = links[0]
            return
        if core.bundles.get(self._zid) is links:
            del core.bundles[self._zid]
        core.router.close(self.route, now, expired=self._expired)

    def _over(self, closed: Closed, now: float) -> None:
        if self._phase is Phase.OVER:
            return
        name = reason_name(closed.reason)
        self._core.counters.count_closed(name)
        said = (
            f"CLOSE {name} {'sent' if closed.by_us else 'received'}" if closed.reason is not None else "over"
        )
        # Whoever wonders why a node was refused looks here first.
        level = log.warning if closed.by_us and closed.reason else log.info
        level("link %s to %s: %s: %s", self.link.name, self.link.locator, said, closed.why)
        self._told = not closed.by_us
        self._expired = closed.by_us and closed.reason == CloseReason.EXPIRED
        self._enter(Phase.OVER, now)
        if closed.all_links:
            for other in tuple(self._links):
                other.follow(closed.why)

    def _send(self, now: float) -> None:
        """Sends some of what is queued; the rest has its turn when the link has taken that."""
        link, core, mutant = self.link, self._core, self._core.mutant
        turns = UNITS_A_TURN // UNITS_AT_ONCE
        while turns and link.waiting <= ENOUGH_WAITING:
            units = self.session.units_to_send(now, UNITS_AT_ONCE)
            if not units:
                return
            turns -= 1
            for unit in units:
                plain = unit.raw if mutant.bend is None else mutant.bent(unit.messages, self._memory)
                if len(plain) > max(len(unit.raw), DATAGRAM_BYTES):
                    plain = unit.raw  # a mutant made more of it than a batch holds
                if plain:
                    batch = unit.wrap(plain)
                    link.send(batch, prefix=unit.prefix if link.streamed else None)
                    core.counters.batches += 1
                    self._given += len(batch)
        if self.session.has_more:
            core.unfinished[self.face] = self
            link.flush()
            if link.waiting <= ENOUGH_WAITING:
                # Otherwise the system says when it takes more.
                core.links.wake()

    def _unresponsive(self, now: float) -> bool:
        link, most = self.link, self._core.config.waiting_bytes
        if self.waiting > most:
            # Only what the system does not take says something about the other end.
            link.flush()
        taken = self._given - link.waiting
        if taken > self._taken or self.waiting <= most:
            self._taken, self._stuck_since = taken, now
        return self._policy.unresponsive(self.waiting, most, now - self._stuck_since)

    def _leave(self) -> None:
        """Ends the link of a session that is over; CLOSE still leaves."""
        self._disarm()
        if self._policy.hangs_up_on_close() if self._told else self._policy.hangs_up():
            self.link.close()

    def _fail(self) -> None:
        """Ends this link because of an exception: a bug of ours."""
        self._internal_error("")
        try:
            self.close(CloseReason.GENERIC, "internal error")
        except Exception:  # noqa: BLE001  (likewise)
            self._internal_error("while closing")
            self.link.abort()

    def _internal_error(self, when: str) -> None:
        self._core.counters.internal_errors += 1
        log.exception("link %s: %s", self.link.name, f"internal error {when}".strip())

    def _arm(self, now: float) -> None:
        """Sets the timer; only a deadline that moved forward needs a new one, the others wait for the old one."""
        due = self.session.next_deadline()
        if due is not None and self.waiting > self._core.config.waiting_bytes:
            due = min(due, self._stuck_since + PATIENCE_SECONDS)
        if due is None or (self._timer is not None and self._due <= due):
            return
        self._disarm()
        self._due = max(due, now)
        self._timer = self._core.links.at(self._due, self._on_time)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def session_config(config: NodeConfig, link: Link, key: PrivateKey | None = None) -> SessionConfig:
    """Returns what our end of a session on a link is and offers."""
    datagrams = link.locator.proto == "udp"
    size = min(config.batch_size, DATAGRAM_BYTES) if datagrams else config.batch_size
    return SessionConfig(
        zid=config.zid,
        whatami=config.mode,
        offer=Offer(
            fsn=config.fsn,
            rid=config.rid,
            batch_size=size,
            qos=config.qos,
            patch=config.patch,
            # Messages are not cut there, and a datagram has little room.
            lowlatency=config.lowlatency and not datagrams,
            compression=config.compression,
        ),
        lease=config.lease,
        users=config.users,
        credentials=config.credentials,
        handshake_seconds=config.handshake_seconds,
        max_message=config.max_message,
        batching=True,
        max_links=config.max_links,
        key=key,
    )
