"""The multicast side of the session machine: JOIN instead of a handshake, one sender, many members.

A datagram says who sent it by its source address only; what an address means is known from its JOIN.
Spec: Message Reference, JOIN; Session Establishment, Multicast Sessions.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from conformance.errors import LocalError, RemoteError
from conformance.session.events import Event, Joined, Left, Received
from conformance.session.fragments import MAX_MESSAGE
from conformance.session.lanes import Inbox, LaneKey, Outbox, Unit
from conformance.session.negotiate import Offer
from conformance.session.policy import Dice, Policy
from conformance.session.states import State, Trigger, after
from scapy_layers.batch import contents
from scapy_layers.codes import CloseReason, Priority, Resolution, WhatAmI
from scapy_layers.extensions import JoinLanes, Patch
from scapy_layers.message import Extension, Message
from scapy_layers.transport import Close, Fragment, Frame, Join

JOIN_BATCH_SIZE = 8192
"""Bytes of the largest datagram when JOIN has no S (docs/readings.md, R-05)."""

MAX_MEMBERS = 1000
"""Nodes of a group that are followed at once, as real nodes have it."""

_DEFAULT_SIZES = (Resolution.BITS_32, Resolution.BITS_32, JOIN_BATCH_SIZE)

STRANGER = b"\0"
"""Stands for the ZenohID of a sender whose JOIN was not heard; only a mutant takes anything from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """What our end of a multicast group is.

    Attributes:
        zid: Wire bytes of our ZenohID.
        whatami: Our role.
        offer: Resolutions, batch size, lanes and patch that JOIN announces.
        lease: Seconds after which we are gone without another JOIN.
        max_message: Bytes of unfinished messages of one member.
        max_members: Members at most; when there are more, the one that was silent for longest has to go: leases may be
            as long as whoever joins likes.
        batching: Messages that are queued together share FRAMEs.
    """

    zid: bytes
    whatami: int = WhatAmI.PEER
    offer: Offer = field(default_factory=lambda: Offer(batch_size=JOIN_BATCH_SIZE))
    lease: float = 10.0
    max_message: int = MAX_MESSAGE
    max_members: int = MAX_MEMBERS
    batching: bool = False


@dataclass(slots=True)
class _Member:
    node: Joined
    sizes: tuple[int, int, int]
    inbox: Inbox
    state: State
    until: float
    heard: float


class Group:
    """Our end of a multicast transport, without I/O.

    Attributes:
        config: What our end is.
        policy: What it decides.
        state: IDLE, JOINED or CLOSED.
    """

    def __init__(self, config: GroupConfig, *, rng: Dice, policy: Policy | None = None) -> None:
        self.config = config
        self.policy = policy or Policy()
        self.state = State.IDLE
        self._outbox = Outbox(self.policy, config.offer, batching=config.batching)
        self._outbox.initial_sn = self.policy.initial_sn(config.offer.fsn, rng)
        self._members: dict[Hashable, _Member] = {}
        self._next_join = 0.0

    @property
    def members(self) -> list[Joined]:
        """Who is in the group."""
        return [member.node for member in self._members.values()]

    # Intents ---------------------------------------------------------------------------------------

    def join(self, now: float) -> None:
        """Queues the first JOIN.

        Raises:
            LocalError: We joined before.
        """
        self._move(Trigger.ENTER)
        self._announce(now)

    def send(self, message: Message, *, reliable: bool = True, priority: int = Priority.DATA) -> None:
        """Queues a network message for all members.

        Raises:
            LocalError: We are not in the group, or announce no lanes.
        """
        if self.state is not State.JOINED:
            raise LocalError(f"an end that is {self.state!s} has no group to send to")
        if not self.policy.accepts_lane(priority, qos=self.config.offer.qos):
            raise LocalError("a lane other than DATA needs QoS announced")
        self._outbox.put(message, (reliable, int(priority)), prefix=0)

    def lane_for(self, priority: int) -> int:
        """Returns the lane on which a message of a priority can go."""
        return priority if self.config.offer.qos else int(Priority.DATA)

    def leave(self, reason: int = CloseReason.GENERIC) -> None:
        """Queues CLOSE and ends our part."""
        if self.state is State.CLOSED:
            return
        if self.state is State.JOINED:
            self._outbox.control(Close(S=1, reason=reason), prefix=0)
        self._move(Trigger.CLOSE_SENT)
        self._members.clear()

    # Datagrams and time ------------------------------------------------------------------------------

    def units_to_send(self, now: float) -> list[Unit]:
        """Returns what is queued, datagram by datagram, and forgets it."""
        del now  # JOIN goes by its own clock: other traffic does not replace it.
        return self._outbox.take()

    def batches_to_send(self, now: float) -> list[bytes]:
        """Returns what is queued as bytes of datagrams, and forgets it."""
        return [unit.raw for unit in self.units_to_send(now)]

    def receive(self, datagram: bytes, source: Hashable, now: float) -> list[Event]:
        """Takes one datagram of the group.

        Args:
            datagram: Its bytes; what does not decode has no effect.
            source: Where it came from, in any form that stays the same for one sender.
            now: The time.
        """
        if self.state is not State.JOINED:
            return []
        events: list[Event] = []
        for message in contents(datagram).messages:
            if message.errors:
                break
            events += self._take(message, source, now)
        return events

    def next_deadline(self) -> float | None:
        """Returns when ``tick`` is wanted: our next JOIN, or the end of a member's lease."""
        if self.state is not State.JOINED:
            return None
        return min([self._next_join, *(member.until for member in self._members.values())])

    def tick(self, now: float) -> list[Event]:
        """Does what is due: queues JOIN, gives up members that fell silent."""
        if self.state is not State.JOINED:
            return []
        late = [source for source, member in self._members.items() if now >= member.until]
        events: list[Event] = [
            self._gone(source, Trigger.EXPIRED, None, "no JOIN for a whole lease") for source in late
        ]
        if now >= self._next_join:
            self._announce(now)
        return events

    # Inside ------------------------------------------------------------------------------------------

    def _move(self, trigger: Trigger) -> None:
        try:
            self.state = after(self.state, trigger)
        except ValueError as error:
            raise LocalError(str(error)) from None

    def _announce(self, now: float) -> None:
        offer, policy = self.config.offer, self.policy
        chain: list[Extension] = []
        if offer.qos:
            chain.append(JoinLanes(lanes=[self._next_numbers(int(priority)) for priority in Priority]))
        if offer.patch:
            chain.append(Patch(patch=offer.patch))
        sizes = {}
        if policy.writes_sizes(offer.sizes, _DEFAULT_SIZES):
            sizes = {"S": 1, "fsn": offer.fsn, "rid": offer.rid, "batch_size": offer.batch_size}
        lease = self.config.lease
        unit = (1, int(lease)) if policy.lease_in_seconds(lease) else (0, round(lease * 1000))
        self._outbox.control(
            Join(
                T=unit[0],
                version=policy.version(),
                whatami=self.config.whatami,
                zid=self.config.zid,
                lease=unit[1],
                extensions=chain,
                **self._next_numbers(int(Priority.DATA)),
                **sizes,
            ),
            prefix=0,
        )
        self._next_join = now + policy.join_period(lease)

    def _take(self, message: Message, source: Hashable, now: float) -> list[Event]:
        if isinstance(message, Join):
            return self._take_join(message, source, now)
        member = self._members.get(source)
        if member is None:
            return self._take_stranger(message)
        member.heard = now
        if isinstance(message, Close):
            return [self._gone(source, Trigger.CLOSE_RECEIVED, message.reason, "CLOSE received")]
        if isinstance(message, Frame | Fragment):
            try:
                return member.inbox.take(message)
            except RemoteError as error:
                return [self._gone(source, Trigger.BROKEN, None, str(error))]
        # INIT and OPEN exist on unicast only (ZN-MSG-006); OAM and KEEP_ALIVE change nothing.
        return []

    def _take_stranger(self, message: Message) -> list[Event]:
        """Takes nothing: what the numbers of a stranger mean is not known (ZN-JOIN-006)."""
        if not isinstance(message, Frame) or not self.policy.hears_strangers():
            return []
        lane = bool(message.value("R")), int(Priority.DATA)
        return [Received(inside, *lane, STRANGER) for inside in message.messages]

    def _take_join(self, join: Join, source: Hashable, now: float) -> list[Event]:
        policy, config = self.policy, self.config
        if join.zid == config.zid or not policy.accepts_version(join.version):
            return []
        lease = float(join.lease) * (1.0 if join.value("T") else 0.001)
        if not policy.accepts_lease(lease):
            return []
        sizes = (join.fsn, join.rid, join.batch_size) if join.value("S") else _DEFAULT_SIZES
        events: list[Event] = []
        known = self._members.get(source)
        if known and known.node.zid == join.zid and known.sizes == sizes:
            known.state = after(known.state, Trigger.JOIN)
            known.until = now + lease
            known.heard = now
            known.node = replace(known.node, lease=lease)
            return events
        if known:
            why = "another node, or other parameters, from the same address"
            events.append(self._gone(source, Trigger.BROKEN, None, why))
        moved = next((at for at, member in self._members.items() if member.node.zid == join.zid), None)
        if moved is not None:
            events.append(self._gone(moved, Trigger.BROKEN, None, "it speaks from another address now"))
        return events + self._new(join, source, sizes, now)

    def _new(self, join: Join, source: Hashable, sizes: tuple[int, int, int], now: float) -> list[Event]:
        policy, config = self.policy, self.config
        chain = join.extensions or []
        lanes = next((extension for extension in chain if isinstance(extension, JoinLanes)), None)
        patch = next((extension.patch for extension in chain if isinstance(extension, Patch)), 0)
        same = sizes == config.offer.sizes
        if not policy.accepts_member(same_sizes=same, lanes=lanes is not None, qos=config.offer.qos):
            return []
        events: list[Event] = []
        if len(self._members) >= config.max_members:
            silent = min(self._members, key=lambda at: self._members[at].heard)
            why = "there are too many members, and it was silent for longest"
            events.append(self._gone(silent, Trigger.BROKEN, None, why))
        patch = policy.accepted_patch(config.offer.patch, patch)
        lease = float(join.lease) * (1.0 if join.value("T") else 0.001)
        node = Joined(join.zid, join.whatami, lease, patch)
        data = int(Priority.DATA)
        first: dict[LaneKey, int] = {(True, data): join.next_sn_re, (False, data): join.next_sn_be}
        if lanes is not None and policy.lane_numbers_count():
            for priority, numbers in zip(Priority, lanes.lanes, strict=False):
                first[True, int(priority)] = int(numbers["next_sn_re"])
                first[False, int(priority)] = int(numbers["next_sn_be"])
        both = replace(config.offer, patch=patch, qos=lanes is not None)
        inbox = Inbox(policy, both, 0, config.max_message, first=first, zid=node.zid)
        state = after(State.STRANGER, Trigger.JOIN)
        self._members[source] = _Member(node, sizes, inbox, state, now + lease, now)
        return [*events, node]

    def _next_numbers(self, priority: int) -> dict[str, int]:
        return {
            "next_sn_re": self._outbox.next_sn((True, priority)),
            "next_sn_be": self._outbox.next_sn((False, priority)),
        }

    def _gone(self, source: Hashable, trigger: Trigger, reason: int | None, why: str) -> Left:
        member = self._members.pop(source)
        member.state = after(member.state, trigger)
        return Left(member.node.zid, reason, why)
