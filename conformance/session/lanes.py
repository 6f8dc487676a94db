"""Network messages onto lanes and off them: numbers, batches and fragments of one direction each.

A lane is a pair of channel (reliable or best-effort) and priority; each counts its own sequence numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from conformance.errors import LocalError, RemoteError
from conformance.session import fragments, sequence
from conformance.session.events import Dropped, Event, Received
from conformance.session.negotiate import Offer
from conformance.session.policy import Policy
from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind, Priority
from scapy_layers.errors import WireError
from scapy_layers.extensions import First, Lane, QoS
from scapy_layers.message import Extension, Message
from scapy_layers.transport import Fragment, Frame

LaneKey = tuple[bool, int]
"""Reliable or not, priority."""


class Unit:
    """What leaves as one batch.

    Attributes:
        prefix: Bytes of the length in front of it on stream links.
        wrap: Returns bytes as they go behind the length prefix: with the header of compression when agreed.
        size: Bytes of network messages in it.
    """

    __slots__ = ("_inside", "_message", "_tail", "prefix", "size", "wrap")

    def __init__(self, prefix: int, wrap: Callable[[bytes], bytes], message: Message, size: int = 0) -> None:
        self.prefix = prefix
        self.wrap = wrap
        self.size = size
        self._message = message
        self._inside: list[Message] = []
        self._tail: list[bytes] = []

    def add(self, message: Message, raw: bytes) -> None:
        """Puts a network message into the FRAME; ``raw`` are its bytes."""
        self._inside.append(message)
        self._tail.append(raw)
        self.size += len(raw)

    @property
    def messages(self) -> list[Message]:
        """Its transport messages, those inside a FRAME included."""
        if self._inside and isinstance(self._message, Frame):
            self._message.messages = self._inside
            # From here on the FRAME has them; encoding must not add them again.
            self._inside, self._tail = [], []
        return [self._message]

    @property
    def raw(self) -> bytes:
        """Its bytes, before compression."""
        head = bytes(self._message)
        return b"".join([head, *self._tail]) if self._tail else head


@dataclass(slots=True)
class _Open:
    """The FRAME at the end of the queue, to which messages may still be added."""

    unit: Unit
    lane: LaneKey


@dataclass(slots=True)
class _Sliced:
    """A message that leaves as FRAGMENTs; they are made when they leave.

    Attributes:
        sn: Number of the next one.
        at: Bytes that have left.
    """

    raw: bytes
    room: int
    lane: LaneKey
    prefix: int
    sn: int
    at: int = 0


class Outbox:
    """Numbers and packs what we send.

    Attributes:
        agreed: What was negotiated; set when it is known.
        initial_sn: First number of every lane.
        batching: Messages that are queued together share FRAMEs.
        waiting: Bytes of network messages that are queued.
    """

    def __init__(self, policy: Policy, agreed: Offer, *, batching: bool) -> None:
        self.agreed = agreed
        self.initial_sn = 0
        self.batching = batching
        self.waiting = 0
        self._policy = policy
        self._next_sn: dict[LaneKey, int] = {}
        self._queue: deque[Unit | _Sliced] = deque()
        self._open: _Open | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def control(self, message: Message, *, prefix: int, compressed: bool = False) -> None:
        """Queues a transport message other than FRAME and FRAGMENT, in a batch of its own."""
        self._open = None
        self._queue.append(Unit(prefix, self._wrapping(compressed), message))

    def put(self, message: Message, lane: LaneKey, *, prefix: int, raw: bytes | None = None) -> None:
        """Queues a network message; ``raw`` are its bytes where they are known.

        Raises:
            LocalError: It cannot be cut into fragments, because a batch has no room for one.
        """
        sent, express = self._qos(message)
        if sent is not message:
            message, raw = sent, None
        if raw is None:
            raw = bytes(message)
        if self.agreed.lowlatency:
            self._add(Unit(prefix, self._wrapping(self.agreed.compression), message, size=len(raw)))
            return
        room = self._policy.room(self.agreed.batch_size)
        if len(raw) > room:
            self._slice(raw, room, lane, prefix)
            return
        alone = self._policy.sends_alone(express=express) if express else False
        last = self._open
        if last and last.lane == lane and last.unit.size + len(raw) <= room and not alone:
            last.unit.add(message, raw)
            self.waiting += len(raw)
            return
        reliable, priority = lane
        frame = Frame(R=int(reliable), sn=self.take_sn(lane), extensions=self._lane(priority))
        unit = Unit(prefix, self._wrapping(self.agreed.compression), frame)
        unit.add(message, raw)
        self._add(unit)
        self._open = _Open(unit, lane) if self.batching and not alone else None

    def take(self, most: int | None = None) -> list[Unit]:
        """Returns what is queued, or the first ``most`` units of it, and forgets it."""
        self._open = None
        queue = self._queue
        units: list[Unit] = []
        while queue and (most is None or len(units) < most):
            first = queue[0]
            if isinstance(first, _Sliced):
                unit = self._next_slice(first)
                if first.at >= len(first.raw):
                    queue.popleft()
            else:
                unit = first
                queue.popleft()
            self.waiting -= unit.size
            units.append(unit)
        return units

    def drop(self) -> None:
        """Forgets what is queued."""
        self._queue.clear()
        self._open = None
        self.waiting = 0

    def take_sn(self, lane: LaneKey) -> int:
        """Returns the next sequence number of a lane and counts on."""
        sn = self._next_sn.get(lane, self.initial_sn)
        self._next_sn[lane] = self._policy.following_sn(sn, self.agreed.fsn)
        return sn

    def count_with(self, other: Outbox) -> None:
        """Numbers what leaves together with what leaves over another link of the session."""
        self.initial_sn = other.initial_sn
        self._next_sn = other._next_sn

    def next_sn(self, lane: LaneKey) -> int:
        """Returns the number that the next FRAME or FRAGMENT of a lane will have."""
        return self._next_sn.get(lane, self.initial_sn)

    def _lane(self, priority: int) -> list[Extension]:
        return [Lane(priority=priority)] if self._policy.writes_lane(priority) else []

    def _add(self, unit: Unit) -> None:
        self._open = None
        self._queue.append(unit)
        self.waiting += unit.size

    def _slice(self, raw: bytes, room: int, lane: LaneKey, prefix: int) -> None:
        if room < 1:
            raise LocalError("the batch size leaves no room for a fragment")
        self._open = None
        sliced = _Sliced(raw, room, lane, prefix, self.next_sn(lane))
        # What is queued behind it, or announced meanwhile, counts on from there.
        for _ in range(0, len(raw), room):
            self.take_sn(lane)
        self._queue.append(sliced)
        self.waiting += len(raw)

    def _next_slice(self, sliced: _Sliced) -> Unit:
        at = sliced.at
        part = sliced.raw[at : at + sliced.room]
        sliced.at += sliced.room
        reliable, priority = sliced.lane
        chain = self._lane(priority)
        if at == 0 and self._policy.marks_first(self.agreed.patch):
            chain.append(First())
        more = int(sliced.at < len(sliced.raw))
        fragment = Fragment(R=int(reliable), M=more, sn=sliced.sn, extensions=chain, data=part)
        sliced.sn = self._policy.following_sn(sliced.sn, self.agreed.fsn)
        return Unit(sliced.prefix, self._wrapping(self.agreed.compression), fragment, size=len(part))

    def _wrapping(self, compressed: bool) -> Callable[[bytes], bytes]:
        return self._policy.wrapped if compressed else bytes

    def _qos(self, message: Message) -> tuple[Message, bool]:
        """Returns the message, without BlockFirst where the session does not know it, and whether it is express."""
        for extension in message.extensions or ():
            if isinstance(extension, QoS):
                if extension.F and not self._policy.keeps_block_first(self.agreed.patch):
                    message = message.copy()
                    for mine in message.extensions:
                        if isinstance(mine, QoS):
                            mine.F = 0
                return message, bool(extension.E)
        return message, False


class Inbox:
    """Takes what one sender numbered.

    Args:
        policy: Decides what is taken.
        agreed: What was negotiated with the sender.
        initial_sn: Its first number.
        most: Bytes of unfinished messages of all lanes together.
        first: First numbers of single lanes, where they differ.
        zid: The sender, in a multicast group.
    """

    def __init__(
        self,
        policy: Policy,
        agreed: Offer,
        initial_sn: int,
        most: int,
        *,
        first: Mapping[LaneKey, int] | None = None,
        zid: bytes = b"",
    ) -> None:
        self._policy = policy
        self._agreed = agreed
        self._most = policy.most_fragments(most)
        self._zid = zid
        # Below 0 for a first number of 0: who compares numbers knows where they begin anew.
        self._before = initial_sn - 1
        self._last_sn: dict[LaneKey, int] = {lane: sn - 1 for lane, sn in (first or {}).items()}
        self._partial: dict[LaneKey, fragments.Reassembly] = {}

    @property
    def held(self) -> int:
        """Bytes of unfinished messages."""
        return sum(partial.size for partial in self._partial.values())

    def take(self, message: Frame | Fragment) -> list[Event]:
        """Takes a FRAME or FRAGMENT and returns what it completes.

        Raises:
            RemoteError: It is on a lane that was not agreed, or its number is outside the resolution.
        """
        policy, agreed = self._policy, self._agreed
        lane = self._lane_of(message)
        sn = int(message.sn)
        if not policy.in_range(sn, agreed.fsn):
            raise RemoteError(f"sequence number {sn} is outside the agreed resolution")
        last = self._last_sn.get(lane, self._before)
        if not policy.is_new(last, sn, agreed.fsn):
            return [Dropped(sn, self._zid)]
        self._last_sn[lane] = sn
        partial = self._partial.get(lane)
        if isinstance(message, Frame):
            if partial is not None:
                # A FRAME in the middle: the sender gave the fragments up.
                partial.forget()
            return [Received(inner, *lane, self._zid) for inner in message.messages]
        if partial is None:
            patch = agreed.patch if policy.counts_markers(agreed.patch) else 0
            partial = self._partial[lane] = fragments.Reassembly(patch, self._most)
        whole = partial.take(message, gap=policy.breaks_chain(sequence.gap(last, sn, agreed.fsn)))
        if self.held > self._most:
            partial.spoil()
        if whole is None:
            return []
        try:
            return [Received(decode(whole, Kind.NETWORK), *lane, self._zid)]
        except WireError:
            # Reassembled bytes that are no network message: dropped without harm (ZN-FRG-105).
            return []

    def _lane_of(self, message: Frame | Fragment) -> LaneKey:
        reliable, priority = lane_of(message)
        if not self._policy.accepts_lane(priority, qos=self._agreed.qos):
            raise RemoteError(f"lane {priority} without QoS agreed")
        return reliable, priority


def lane_of(message: Frame | Fragment) -> LaneKey:
    """Returns the lane of a FRAME or FRAGMENT."""
    priority = int(Priority.DATA)
    for extension in message.extensions or ():
        if isinstance(extension, Lane):
            priority = int(extension.priority)
    return bool(message.value("R")), priority


class Consecutive:
    """Sees whether the numbers of each reliable lane follow one another, in a session over a stream, which loses none.

    Behind the last FRAGMENT of a message one number may be left out, as real nodes do.
    """

    def __init__(self) -> None:
        self._due: dict[LaneKey, tuple[int, ...]] = {}
        self._last: dict[LaneKey, int] = {}

    def wrong(self, messages: Iterable[Message]) -> str:
        """Takes the transport messages that came next; returns which number is not the one due, or nothing."""
        wrong = ""
        for message in messages:
            # Of one that is cut off, the number may be among what is missing.
            if isinstance(message, Frame | Fragment) and "sn" in message.fields:
                ends = isinstance(message, Fragment) and not message.value("M")
                off = self.off(message.name, lane_of(message), int(message.sn), ends=ends)
                wrong = wrong or off
        return wrong

    def off(self, name: str, lane: LaneKey, sn: int, *, ends: bool = False) -> str:
        """The same for a FRAME or FRAGMENT of which lane and number are known; ``ends`` of the last one of a message."""
        due = self._due.get(lane) if lane[0] else None
        last = self._last.get(lane)
        self._last[lane] = sn
        self._due[lane] = _behind(sn)
        if ends:
            self._due[lane] += tuple(after for one in _behind(sn) for after in _behind(one))
        if due is None or sn in due:
            return ""
        return f"{name} {sn} comes behind {last} on a reliable lane"


def _behind(sn: int) -> tuple[int, ...]:
    """Returns the numbers that may come next. Which resolution was agreed is not asked: behind the largest of each comes 0."""
    return (sn + 1, 0) if sn in sequence.LARGEST else (sn + 1,)
