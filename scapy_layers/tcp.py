"""One direction of a TCP connection: segments as they were captured into bytes in order, and holes.

Sequence numbers count modulo 2**32 (RFC 9293, section 3.4). Of two segments that claim the same place the bytes
that came first stay. What comes too early is held back until the hole in front of it is filled or given up. A hole
that the other side acknowledges need not be one of the stream: where packets of both directions are captured by
several queues, an acknowledgement may stand in front of what it acknowledges. So it is waited for a moment, unless
what acknowledges says more, which may be an answer to what is behind the hole. Once that has been seen to happen on
a connection, holes are waited for much longer, whatever acknowledges them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

SEQUENCE = 0xFFFF_FFFF
"""Sequence numbers are taken modulo this plus one."""

FAR = 1 << 30
"""TCP's largest window: what is farther away belongs to something else."""

PIECE = 128
"""Bytes of memory that count for a piece that waits, besides its own; they may be one byte each."""

_HALF = 1 << 31
_REWINDS = 8
"""How often a start in mid stream may turn out to have been an earlier one."""

PATIENCE = 24
"""Packets of the capture for which a segment may come behind the bare acknowledgement of it: each takes the long way,"""

PATIENT = 1_000_000_000
"""and ns, whichever is over first."""

LATE = 4096
"""The same where packets were seen to be captured behind what acknowledges them,"""

LATE_NS = 10_000_000_000
"""and ns."""

_GIVEN_UP = 8
"""Holes that are remembered for the case that what was missing comes after all."""

_ACKNOWLEDGED = "acknowledged, but not in the capture"

BEGINS_INSIDE = "the capture begins inside the connection"


class Piece(NamedTuple):
    """Bytes of a packet; behind them the snap length cut off ``lost`` more."""

    number: int
    time: int
    data: bytes
    lost: int = 0


class Hole(NamedTuple):
    """Bytes that are not in the capture, in front of the packet named.

    Attributes:
        number: Of the packet.
        time: Of the packet.
        missing: How many; None when that cannot be known.
        why: What happened.
        afresh: The stream begins here: earlier pieces come once more, in their place.
    """

    number: int
    time: int
    missing: int | None
    why: str
    afresh: bool = False


Event: TypeAlias = Piece | Hole


def ahead_of(position: int, seq: int) -> int:
    """Returns how far a sequence number is ahead of a position in the stream; negative when behind."""
    return (seq - position + _HALF & SEQUENCE) - _HALF


class Order:
    """Puts segments in order.

    Attributes:
        next: Position of the first byte that has not come; modulo 2**32 a sequence number. None before the first.
        begun: The sequence number of the first byte, when the SYN was seen.
        start: Position of the first byte that came.
        held: Memory of what waits, in bytes.
        late: Some of what was given up as acknowledged has come after all.
    """

    __slots__ = (
        "_came_again",
        "_early",
        "_early_at",
        "_fin",
        "_first",
        "_first_bytes",
        "_given_up",
        "_limit",
        "_patient",
        "_rewinds",
        "begun",
        "held",
        "late",
        "next",
        "start",
    )

    def __init__(self, limit: int) -> None:
        self.next: int | None = None
        self.begun: int | None = None
        self.start: int | None = None
        self.held = 0
        self._limit = limit
        self._early: dict[int, Piece] = {}
        self._early_at: list[int] = []  # the same positions as a heap
        self._fin: int | None = None
        # The position of a hole, and the packet and the time with which it was acknowledged.
        self._patient: tuple[int, int, int] | None = None
        self._came_again = 0, 0  # a position, and how many bytes came again since it was reached
        # What a start in mid stream has given so far, for the case that it was not the start.
        self._first: list[tuple[int, Piece]] | None = None
        self._first_bytes = 0
        self._rewinds = 0
        self._given_up: deque[tuple[int, int]] = deque(maxlen=_GIVEN_UP)
        self.late = False

    def begin(self, seq: int) -> None:
        """Takes a SYN."""
        self.begun = self.start = self.next = seq

    def has_begun(self, seq: int) -> bool:
        """Tells whether a SYN is that of what came already, and takes note of it."""
        if self.begun is None and self.start is not None and self.start & SEQUENCE == seq:
            self.begun = seq
        return self.begun == seq

    @property
    def waiting(self) -> int | None:
        """The number of the first packet behind a hole."""
        return self._early[self._early_at[0]].number if self._early_at else None

    @property
    def behind(self) -> int | None:
        """Where what is behind a hole begins."""
        return self._early_at[0] if self._early_at else None

    @property
    def finished(self) -> bool:
        """All bytes in front of the FIN are accounted for."""
        return self._fin is not None and self.next is not None and self.next >= self._fin

    @property
    def quiet(self) -> bool:
        """Nothing but the next bytes is waited for."""
        return self.next is not None and self._fin is None and not self._early_at

    def settle(self) -> None:
        """The start is not to be moved any more."""
        self._first = None

    def has(self, seq: int) -> bool:
        """Tells whether all in front of a sequence number has been taken, or given up."""
        return self.next is not None and -FAR < ahead_of(self.next, seq) <= 0

    def forget(self) -> None:
        """Drops what waits."""
        self._early.clear()
        self._early_at.clear()
        self._first = None
        self.held = 0

    def take(self, piece: Piece, seq: int, *, fin: bool) -> Iterator[Event]:
        """Takes a segment; yields what comes into order with it."""
        number, time, data, lost = piece
        if self.next is None:
            self.next, self.start, self._first = seq, seq, []
            yield Hole(number, time, None, BEGINS_INSIDE, afresh=True)
        ahead = ahead_of(self.next, seq)
        if self._first and self._rewind(ahead):
            yield Hole(number, time, None, BEGINS_INSIDE, afresh=True)
            ahead = 0
        elif abs(ahead) > FAR or self._comes_again(ahead, len(data) + lost):
            yield from self.give_up("not in the capture")
            yield Hole(number, time, None, "the sequence numbers jump")
            self.next, self._fin, ahead = seq, None, 0
        position = self.next + ahead
        end = position + len(data) + lost
        if self._given_up and any(begin < end and position < stop for begin, stop in self._given_up):
            self.late = True
            self._given_up.clear()
        if fin and self._fin is None and end >= self.next:
            self._fin = end
        if self._fin is not None and end > self._fin:
            data = data[: max(self._fin - position, 0)]
            lost = max(self._fin - position - len(data), 0)
        piece = Piece(number, time, data, lost)
        if ahead > 0:
            self._hold(position, piece)
            while self.held > self._limit:
                yield from self._lose("more waits behind it than is held back")
        else:
            yield from self._deliver(position, piece)
            yield from self._drain()

    def acknowledged(
        self, ack: int, number: int, time: int, *, bare: bool, late: bool = False
    ) -> Iterator[Event]:
        """Gives up the holes that the other side does not have.

        Args:
            ack: What the other side waits for.
            number: Of the packet that says so.
            time: Of that packet, ns.
            bare: It says nothing else.
            late: Packets of the connection were captured behind what acknowledges them.
        """
        if self.next is None:
            return
        ahead = ahead_of(self.next, ack)
        acked = self.next + (ahead if ahead <= FAR else 0)
        while self._early_at and self._early_at[0] <= acked:
            if (bare or late) and self._may_come(number, time, late):
                return
            if not late:
                self._given_up.append((self.next, self._early_at[0]))
            yield from self._lose(_ACKNOWLEDGED)

    def _may_come(self, number: int, time: int, late: bool) -> bool:
        """Tells whether the hole in front of what waits was acknowledged a moment ago only."""
        assert self.next is not None, "something waits"
        if self._patient is None or self._patient[0] != self.next:
            self._patient = self.next, number, time
        _, since, began = self._patient
        packets, ns = (LATE, LATE_NS) if late else (PATIENCE, PATIENT)
        return number - since < packets and time - began < ns

    def give_up(self, why: str, *, most: int | None = None) -> Iterator[Event]:
        """Gives up holes, all or so many."""
        while self._early_at and most != 0:
            yield from self._lose(why)
            most = None if most is None else most - 1

    def _lose(self, why: str) -> Iterator[Event]:
        assert self.next is not None, "something came, but early"
        first = self._early_at[0]
        number, time, *_ = self._early[first]
        if self._patient is not None and self._patient[0] == self.next:
            why = _ACKNOWLEDGED
        missing, self.next = first - self.next, first
        self.settle()
        yield Hole(number, time, missing, why)
        yield from self._drain()

    def _hold(self, position: int, piece: Piece) -> None:
        there = self._early.get(position)
        if there is None:
            heappush(self._early_at, position)
        elif len(there.data) >= len(piece.data):
            return
        else:
            self.held -= len(there.data) + PIECE
        self._early[position] = piece
        self.held += len(piece.data) + PIECE

    def _drain(self) -> Iterator[Event]:
        """Yields what came early and is in order now."""
        while self._early_at and self.next is not None and self._early_at[0] <= self.next:
            position = heappop(self._early_at)
            piece = self._early.pop(position)
            self.held -= len(piece.data) + PIECE
            yield from self._deliver(position, piece)

    def _deliver(self, position: int, piece: Piece) -> Iterator[Event]:
        """Yields what is new of a piece whose turn has come."""
        assert self.next is not None
        number, time, data, lost = piece
        end = position + len(data)
        if end > self.next:
            new = Piece(number, time, data[self.next - position :])
            if self._first is not None:
                self._first.append((self.next, new))
                self._first_bytes += len(new.data)
                if self._first_bytes > self._limit:
                    self.settle()
            self.next = end
            yield new
        if lost and end + lost > self.next:
            missing, self.next = end + lost - self.next, end + lost
            self.settle()
            yield Hole(number, time, missing, "the snap length of the capture cut them off")

    def _rewind(self, ahead: int) -> bool:
        """At a start in mid stream the first packet captured need not be the first one sent."""
        assert self._first
        assert self.next is not None
        start = self._first[0][0]
        position = self.next + ahead
        if not start - self._limit < position < start or self._rewinds == _REWINDS:
            return False
        self._rewinds += 1
        for at, piece in self._first:
            self._hold(at, piece)
        self._first, self._first_bytes, self.next, self.start = [], 0, position, position
        return True

    def _comes_again(self, ahead: int, size: int) -> bool:
        """Tells whether more old bytes came than retransmissions can be: another stream uses the numbers."""
        assert self.next is not None
        if not size or size + ahead > 0:
            return False
        position, before = self._came_again
        self._came_again = self.next, size + (before if position == self.next else 0)
        return self._came_again[1] > self._limit
