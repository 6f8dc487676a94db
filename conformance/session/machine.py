"""The session machine: wires states, negotiation, numbers, fragments and policy; holds no rule itself."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from conformance.errors import LocalError, RemoteError
from conformance.session import fragments, sequence
from conformance.session.events import Closed, Dropped, Event, Opened, Received
from conformance.session.negotiate import Offer, agreed, offer_of
from conformance.session.policy import Dice, Policy
from conformance.session.states import HANDSHAKE, State, Trigger, after
from scapy_layers.batch import Contents, contents
from scapy_layers.catalogue import decode
from scapy_layers.codes import CloseReason, Priority, WhatAmI
from scapy_layers.errors import WireError
from scapy_layers.extensions import First, Lane, Patch, QoSOffer
from scapy_layers.message import Message
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open

FRAME_ROOM = 16
"""Bytes kept free in a batch for prefix, header, number and lane of a FRAME or FRAGMENT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """What our end of a session is and offers.

    Attributes:
        zid: Wire bytes of our ZenohID.
        whatami: Our role.
        offer: What INIT proposes.
        lease: Seconds, announced in OPEN.
    """

    zid: bytes
    whatami: int = WhatAmI.CLIENT
    offer: Offer = field(default_factory=Offer)
    lease: float = 10.0


class Session:
    """The initiator of a unicast session, without I/O.

    Nothing happens until ``connect``. All times are seconds of a monotonic clock that the owner reads.
    """

    def __init__(self, config: SessionConfig, *, rng: Dice, policy: Policy | None = None) -> None:
        self.config = config
        self.policy = policy or Policy()
        self.state = State.IDLE
        self.agreed = config.offer
        self.peer: Opened | None = None
        self._rng = rng
        self._node: tuple[bytes, int] = (b"", 0)
        self._out: list[list[Message]] = []
        self._next_sn: dict[tuple[bool, int], int] = {}
        self._initial_sn = 0
        self._last_sn: dict[tuple[bool, int], int] = {}
        self._partial: dict[tuple[bool, int], fragments.Reassembly] = defaultdict(
            lambda: fragments.Reassembly(self.agreed.patch)
        )
        self._last_sent = 0.0
        self._last_heard = 0.0

    @property
    def over(self) -> bool:
        """The session has ended."""
        return self.state is State.CLOSED

    # Intents ---------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Queues InitSyn.

        Raises:
            LocalError: The session was started before.
        """
        self._move(Trigger.CONNECT)
        offer = self.config.offer
        default = Offer(qos=offer.qos, patch=offer.patch)
        sizes = (
            {} if offer == default else {"fsn": offer.fsn, "rid": offer.rid, "batch_size": offer.batch_size}
        )
        chain = [QoSOffer()] * offer.qos + [Patch(patch=offer.patch)] * bool(offer.patch)
        self._queue(Init(whatami=self.config.whatami, zid=self.config.zid, extensions=chain, **sizes))

    def send(self, message: Message, *, reliable: bool = True, priority: int = Priority.DATA) -> None:
        """Queues a network message: numbered, in a FRAME, or in FRAGMENTs when it does not fit.

        Raises:
            LocalError: The session is not open, or the lane was not agreed.
        """
        if self.state is not State.OPEN:
            raise LocalError(f"a session that is {self.state!s} carries no network messages")
        if priority != Priority.DATA and not self.agreed.qos:
            raise LocalError("a lane other than DATA needs QoS agreed by both ends")
        lane = [] if priority == Priority.DATA else [Lane(priority=priority)]
        room = self.agreed.batch_size - FRAME_ROOM
        raw = bytes(message)
        if len(raw) <= room:
            sn = self.take_sn(reliable=reliable, priority=priority)
            self._queue(Frame(R=int(reliable), sn=sn, extensions=lane, messages=[message]))
            return
        slices = fragments.cut(raw, room)
        for index, part in enumerate(slices):
            marks = [First()] if index == 0 and self.agreed.patch else []
            self._queue(
                Fragment(
                    R=int(reliable),
                    M=int(index < len(slices) - 1),
                    sn=self.take_sn(reliable=reliable, priority=priority),
                    extensions=[*lane, *marks],
                    data=part,
                )
            )

    def take_sn(self, *, reliable: bool = True, priority: int = Priority.DATA) -> int:
        """Returns the next sequence number of a lane and counts on; for FRAMEs that are made by hand."""
        lane = (reliable, int(priority))
        sn = self._next_sn.get(lane, self._initial_sn)
        self._next_sn[lane] = sequence.following(sn, self.agreed.fsn)
        return sn

    def close(self, reason: int = CloseReason.GENERIC) -> None:
        """Queues CLOSE and ends the session."""
        if self.state in {State.IDLE, State.CLOSED}:
            self.state = State.CLOSED
            return
        self._queue(Close(reason=reason))
        self._move(Trigger.CLOSE_SENT)

    # Bytes and time ----------------------------------------------------------------------------------

    def messages_to_send(self, now: float) -> list[list[Message]]:
        """Returns what is queued, a list of messages for each batch, and forgets it."""
        out, self._out = self._out, []
        if out:
            self._last_sent = now
        return out

    def batches_to_send(self, now: float) -> list[bytes]:
        """Returns what is queued as bytes of batches, without length prefixes."""
        return [b"".join(bytes(message) for message in batch) for batch in self.messages_to_send(now)]

    def receive(self, batch: bytes, now: float) -> list[Event]:
        """Takes one batch, without its length prefix."""
        return self.receive_contents(contents(batch), now)

    def receive_contents(self, inside: Contents, now: float) -> list[Event]:
        """Takes one batch that was taken apart before.

        A node that breaks the protocol gets CLOSE with the reason it deserves, and the events end with
        Closed.
        """
        if self.state in {State.IDLE, State.CLOSED}:
            return []
        self._last_heard = now
        events: list[Event] = []
        try:
            for message in inside.messages:
                if message.errors:
                    break
                events += self._take(message)
                if self.over:
                    return events
            if inside.error:
                raise RemoteError(f"the batch does not decode: {inside.error}")
            if not inside.messages and self.state in HANDSHAKE:
                raise RemoteError("an empty batch during the handshake")
        except RemoteError as error:
            self._queue(Close(reason=error.reason))
            self._move(Trigger.BROKEN)
            events.append(Closed(error.reason, by_us=True, why=str(error)))
        return events

    def next_deadline(self) -> float | None:
        """Returns when ``tick`` is wanted: keep-alive or lease; None when nothing is due."""
        if self.state is not State.OPEN or self.peer is None:
            return None
        keep_alive = self._last_sent + self.policy.keep_alive_period(self.config.lease)
        return min(keep_alive, self._last_heard + self._effective_lease())

    def tick(self, now: float) -> list[Event]:
        """Does what is due: queues KEEP_ALIVE, or gives the session up after a silent lease."""
        if self.state is not State.OPEN or self.peer is None:
            return []
        if now >= self._last_heard + self._effective_lease():
            self._queue(Close(reason=CloseReason.EXPIRED))
            self._move(Trigger.EXPIRED)
            return [Closed(CloseReason.EXPIRED, by_us=True, why="the node was silent for a whole lease")]
        if now >= self._last_sent + self.policy.keep_alive_period(self.config.lease):
            self._queue(KeepAlive())
        return []

    # Inside ------------------------------------------------------------------------------------------

    def _effective_lease(self) -> float:
        assert self.peer is not None
        return self.policy.effective_lease(self.config.lease, self.peer.lease)

    def _queue(self, message: Message) -> None:
        self._out.append([message])

    def _move(self, trigger: Trigger) -> None:
        try:
            self.state = after(self.state, trigger)
        except ValueError as error:
            raise LocalError(str(error)) from None

    def _take(self, message: Message) -> list[Event]:
        if isinstance(message, Close):
            if self.policy.answers_close():
                self._queue(Close(reason=message.reason))
            self._move(Trigger.CLOSE_RECEIVED)
            return [Closed(message.reason, by_us=False, why="CLOSE received")]
        if self.state is State.INIT_SENT:
            return self._take_init_ack(message)
        if self.state is State.OPEN_SENT:
            return self._take_open_ack(message)
        if isinstance(message, Frame | Fragment):
            return self._take_numbered(message)
        return []

    def _take_init_ack(self, message: Message) -> list[Event]:
        if not isinstance(message, Init) or not message.value("A"):
            raise RemoteError(f"{message.name} instead of InitAck")
        self.agreed = agreed(self.config.offer, offer_of(message))
        self._node = (message.zid, message.whatami)
        self._initial_sn = self.policy.initial_sn(self.agreed.fsn, self._rng)
        seconds, rest = divmod(round(self.config.lease * 1000), 1000)
        lease = {"lease": round(self.config.lease * 1000)} if rest else {"T": 1, "lease": seconds}
        cookie = self.policy.returned_cookie(message.cookie)
        self._queue(Open(A=0, initial_sn=self._initial_sn, cookie=cookie, **lease))
        self._move(Trigger.INIT_ACK)
        return []

    def _take_open_ack(self, message: Message) -> list[Event]:
        if not isinstance(message, Open) or not message.value("A"):
            raise RemoteError(f"{message.name} instead of OpenAck")
        if message.initial_sn >> sequence.WRITTEN_BITS[self.agreed.fsn]:
            raise RemoteError("the initial sequence number is outside the agreed range")
        lease = message.lease * (1.0 if message.value("T") else 0.001)
        self.peer = Opened(*self._node, self.agreed, lease, message.initial_sn)
        self._move(Trigger.OPEN_ACK)
        return [self.peer]

    def _take_numbered(self, message: Frame | Fragment) -> list[Event]:
        chain = message.extensions or []
        priority = next((e.priority for e in chain if isinstance(e, Lane)), int(Priority.DATA))
        if priority != Priority.DATA and not self.agreed.qos:
            raise RemoteError(f"lane {priority} without QoS agreed")
        lane = (bool(message.value("R")), priority)
        assert self.peer is not None
        first = self.peer.initial_sn - 1 & sequence.mask(self.agreed.fsn)
        last = self._last_sn.get(lane, first)
        if not sequence.is_new(last, message.sn, self.agreed.fsn):
            return [Dropped(message.sn)]
        self._last_sn[lane] = message.sn
        if isinstance(message, Frame):
            self._partial[lane].forget()
            return [Received(inner, *lane) for inner in message.messages]
        gap = sequence.gap(last, message.sn, self.agreed.fsn) != 1
        whole = self._partial[lane].take(message, gap=gap)
        if whole is None:
            return []
        try:
            return [Received(decode(whole), *lane)]
        except WireError:
            # Reassembled bytes that are no message: dropped without harm (ZN-FRG-105).
            return []
