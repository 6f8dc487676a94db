"""Segments of a capture into what Zenoh sends on its links: batches, datagrams, and what was lost.

A hole in a TCP stream is given up when the other side has acknowledged what lies behind it, when too much waits,
or at the end; then a ``Gap`` says what is missing, and reading goes on where batches can be told to begin again.
Behind a RST a connection is read on for a moment: what the other side had sent before it heard of it was on the
wire, and is in the capture. What comes later is a link of its own, of which the beginning was not captured.
A stream that shows itself to be something else is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import heappop, heappush
from ipaddress import ip_address
from itertools import chain
from typing import NamedTuple

from scapy_layers.capture import (
    ETHERTYPE_IP,
    FRAGMENTED,
    HEADERS,
    PLAIN_IP,
    PLAIN_TCP,
    PROTOCOL_TCP,
    Source,
    runs,
)
from scapy_layers.cutter import ZENOH, Cutter
from scapy_layers.framing import Framing, plausible
from scapy_layers.ip import Decoder, LinkType, Segment, TcpFlag
from scapy_layers.links import Batch, Check, Datagram, End, Endpoint, Gap, Limits, Link, Unit, Way
from scapy_layers.tcp import FAR, SEQUENCE, Event, Order, Piece, ahead_of

__all__ = [
    "Batch",
    "Datagram",
    "End",
    "Endpoint",
    "Framing",
    "Gap",
    "Limits",
    "Link",
    "Unit",
    "Way",
    "plausible",
    "units",
    "units_of",
]

# Plain numbers: enumerations take their time with each packet.
_FIN, _SYN, _RST, _ACK = (int(flag) for flag in TcpFlag)
_SPECIAL = _FIN | _SYN | _RST

LINGER = 1_000_000_000
"""Nanoseconds for which a connection that was reset is read on: some round trips of any network."""

_SOME = 64
"""Times of which it does not matter whether they are remembered for nothing."""

NEVER = 1 << 64
"""A time behind all others."""


def units(
    segments: Iterable[Segment], *, plausible: Check = plausible, limits: Limits | None = None
) -> Iterator[Unit]:
    """Yields what links carried, one unit at a time: ``way.framing`` may be set in between.

    Args:
        segments: As ``capture.read`` yields them.
        plausible: Tells whether bytes may be a batch; asked after a loss, or a start in mid stream.
        limits: What may be remembered.
    """
    reader = Reader(plausible, limits or Limits())
    for segment in segments:
        yield from reader.take(segment)
    yield from reader.finish()


def units_of(  # noqa: C901  (one loop over packets, by the short way or the long one)
    source: Source,
    *,
    progress: Callable[[int], None] | None = None,
    plausible: Check = plausible,
    limits: Limits | None = None,
    decoder: Decoder | None = None,
) -> Iterator[Unit]:
    """Yields the same as ``units(capture.read(source))``, some ten times faster.

    Most packets of most captures are the next bytes of a stream that has been understood: for those the headers
    are read where they lie in the file, and batches are cut from there. All others go the long way.
    """
    reader = Reader(plausible, limits or Limits())
    decode, find, ethernet = (decoder or Decoder()).decode, reader.tcp.get, int(LinkType.ETHERNET)
    headers, least, new, short = (
        HEADERS.unpack_from,
        HEADERS.size,
        tuple.__new__,
        Framing.SHORT,
    )
    number = 0
    for buffer, records in runs(source, progress=progress):
        for time, link, begin, end, length in records:
            number += 1
            if time >= reader.due:
                yield from reader.overdue(time)
            if link == ethernet and end - begin >= least:
                kind, first, total, fragment, protocol, ends, seq, ack, words, flags = headers(buffer, begin)
                flow = find(ends)
                at, stop = begin + 34 + (words >> 4) * 4, begin + 14 + total
                if (
                    flow is not None
                    and flow.expected == seq
                    and first == PLAIN_IP
                    and protocol == PROTOCOL_TCP
                    and kind == ETHERTYPE_IP
                    and not fragment & FRAGMENTED
                    and words >= PLAIN_TCP
                    and not flags & _SPECIAL
                    and at <= stop <= end
                    and (way := flow.way).framing is short
                ):
                    flow.number, flow.time = number, time
                    flow.expected = (seq + stop - at) & SEQUENCE
                    if ack != flow.peer.expected and at < stop and flags & _ACK:
                        flow.compare(ack)
                    if flow.lacking:
                        at, batches = reader.complete(flow, buffer, at, stop)
                        yield from batches
                    while at + 2 <= stop and way.framing is short:
                        start = at + 2
                        behind = start + (buffer[at] | buffer[at + 1] << 8)
                        if behind > stop:
                            break
                        at = behind
                        yield new(Batch, (way, number, time, buffer[start:behind]))
                    if at < stop:
                        yield from reader.rest(flow, buffer[at:stop])
                    continue
            segment = decode(number, time, link, buffer[begin:end], length)
            if segment is not None:
                yield from reader.take(segment)
    yield from reader.finish()


class _Flow:
    """One direction of a TCP connection, or of a pair of UDP endpoints.

    Attributes:
        way: What consumers see of it.
        peer: The other direction.
        order: Puts TCP segments in order.
        cutter: Cuts bytes into batches.
        expected: The next sequence number, when bytes of batches with a 2-byte length are all that is waited for;
            else -1. While it is set, ``order`` is behind.
        lacking: How many bytes complete the batch that has begun, while ``expected`` is set.
        number: Of the latest packet.
        time: Of the latest packet.
        awaited: Up to here the other side has acknowledged what was not captured by then; None for nothing.
        ended: Nothing more is expected.
        lingers: The connection was reset, and is read on for a moment.
    """

    __slots__ = (
        "awaited",
        "cutter",
        "ended",
        "expected",
        "lacking",
        "lingers",
        "number",
        "order",
        "peer",
        "time",
        "way",
    )
    peer: _Flow

    def __init__(self, way: Way, limits: Limits) -> None:
        self.way = way
        self.order = Order(limits.early)
        self.cutter = Cutter(way, limits)
        self.expected = -1
        self.lacking = 0
        self.awaited: int | None = None
        self.number = self.time = 0
        self.ended = self.lingers = False

    @property
    def held(self) -> int:
        """Bytes that wait."""
        return self.order.held + self.cutter.held

    def compare(self, ack: int) -> None:
        """Takes note of an acknowledgement of what was not captured by then."""
        peer, link = self.peer, self.way.link
        if link.late or peer.way.framing is Framing.FOREIGN:
            return  # of what is foreign nobody keeps count
        position = peer.expected if peer.expected >= 0 else peer.order.next
        if position is None:
            # All of the other side was captured later than this, if at all: it accepted the connection.
            ahead = self.order.begun is not None
        else:
            ahead = 0 < ahead_of(position + peer.order.finished, ack) <= FAR  # a FIN takes a number as well
        if ahead:
            behind = peer.order.behind
            there = behind is not None and ahead_of(behind, ack) > 0
            peer.wait_for(behind & SEQUENCE if there and behind is not None else ack)

    def wait_for(self, ack: int) -> None:
        """Takes note that what is in front of a number was not captured by now."""
        self.way.link.disordered = True
        self.disarm()
        self.awaited = ack

    def came(self, position: int) -> None:
        """Takes note of new bytes from a position on, or that what is in front of it is given up."""
        if self.awaited is not None:
            ahead = ahead_of(position, self.awaited)
            self.way.link.late = self.way.link.late or ahead > 0
            if ahead <= 0 or self.way.link.late:
                self.awaited = None

    def arm(self) -> None:
        """Lets the next segment take the short way, when all is in order."""
        order = self.order
        if (
            self.way.framing is Framing.SHORT
            and order.quiet
            and (lacking := self.cutter.lacking) is not None
            and not self.ended
            and not self.lingers
            and self.awaited is None
            and self.peer.order.waiting is None  # else acknowledgements have to be looked at
        ):
            assert order.next is not None
            self.expected, self.lacking = order.next & SEQUENCE, lacking

    def disarm(self) -> None:
        """Sends the next segment the long way."""
        if self.expected >= 0:
            self.order.next, self.expected = self.expected, -1

    def forget(self) -> None:
        """Drops all that waits."""
        self.order.forget()
        self.cutter.forget()


def _back(ends: bytes) -> bytes:
    """The same flow, seen from the other side."""
    size = len(ends) // 2 - 2
    return ends[size : 2 * size] + ends[:size] + ends[-2:] + ends[-4:-2]


class _Reset(NamedTuple):
    """A connection that was reset.

    Attributes:
        flow: One of its directions.
        number: Of the packet with the RST.
        time: Of that packet.
        due: When it is over.
    """

    flow: _Flow
    number: int
    time: int
    due: int


class Reader:
    """All links of a capture.

    Attributes:
        tcp: The flows of TCP by their ends.
        udp: The flows of UDP.
        held: Bytes that wait, in all.
        due: The time from which on some connection that was reset is over.
    """

    def __init__(self, check: Check, limits: Limits) -> None:
        self.tcp: dict[bytes, _Flow] = {}
        self.udp: dict[bytes, _Flow] = {}
        self._check = check
        self._limits = limits
        self._links = 0
        self.held = 0
        self.due = NEVER
        self._resets: dict[int, _Reset] = {}
        self._dues: list[tuple[int, int]] = []  # times, and the numbers of links, as a heap

    def take(self, segment: Segment) -> Iterator[Unit]:
        """Takes a segment, the long way."""
        taken = self._take_tcp(segment) if segment.tcp else self._take_udp(segment)
        return taken if segment.time < self.due else chain(self.overdue(segment.time), taken)

    def overdue(self, time: int) -> Iterator[Unit]:
        """Ends the connections that were reset a moment before a time."""
        while self._dues and self._dues[0][0] <= time:
            due, number = heappop(self._dues)
            reset = self._resets.get(number)
            if reset is not None and reset.due == due:
                yield from self._close(reset.flow, reset.number, reset.time)
        self.due = self._dues[0][0] if self._dues else NEVER

    def complete(self, flow: _Flow, buffer: bytes, at: int, stop: int) -> tuple[int, Iterable[Batch]]:
        """Takes from a segment what a batch that has begun lacks, on the short way.

        Returns:
            Where the segment goes on, and the batch when nothing is lacking any more.
        """
        pending, lacking = flow.cutter.buffer, flow.lacking
        if stop - at < lacking:
            pending += buffer[at:stop]
            self.held += stop - at
            flow.lacking = lacking - (stop - at)
            return stop, ()
        self.held -= len(pending)
        whole = bytes(pending[2:]) + buffer[at : at + lacking]
        pending.clear()
        flow.lacking = 0
        return at + lacking, (Batch(flow.way, flow.number, flow.time, whole),)

    def rest(self, flow: _Flow, data: bytes) -> Iterable[Unit]:
        """Takes what the short way leaves of a segment: most often the beginning of a batch."""
        if flow.way.framing is Framing.SHORT and len(data) >= 2:
            flow.cutter.buffer += data
            flow.lacking = 2 + (data[0] | data[1] << 8) - len(data)
            self.held += len(data)
            return ()
        return self._rest(flow, data)

    def _rest(self, flow: _Flow, data: bytes) -> Iterator[Unit]:
        flow.disarm()
        before = flow.held
        yield from flow.cutter.take(Piece(flow.number, flow.time, data))
        yield from self._account(flow, before)
        flow.arm()

    def finish(self) -> Iterator[Unit]:
        """Tells all that is left."""
        yield from self._end([reset.flow for reset in self._resets.values()])
        yield from self._finish([flow for flow in self.tcp.values() if flow.way.forward])

    # Links

    def _link(self, segment: Segment, *, answered: bool = False) -> Generator[Unit, None, _Flow]:
        """Makes a new link; ``answered`` when the segment comes from the side that accepted."""
        source = Endpoint(str(ip_address(segment.source)), segment.sport)
        target = Endpoint(str(ip_address(segment.target)), segment.dport)
        first, second = (target, source) if answered else (source, target)
        link = Link(self._links, segment.tcp, first, second, self._check)
        self._links += 1
        forward, backward = (_Flow(way, self._limits) for way in link.ways)
        forward.peer, backward.peer = backward, forward
        flow = backward if answered else forward
        table = self.tcp if segment.tcp else self.udp
        table[_back(segment.ends)] = flow.peer
        table[segment.ends] = flow
        flow.number, flow.time = segment.number, segment.time
        if len(self.tcp) + len(self.udp) > 2 * self._limits.links:
            flows = [flow for table in (self.tcp, self.udp) for flow in table.values()]
            yield from self._let_go(flows, keep=flow)
        return flow

    def _let_go(self, flows: list[_Flow], keep: _Flow) -> Iterator[Unit]:
        """Forgets the half of some links that was silent longest."""
        links = {flow.way.link: flow for flow in flows if flow.way.forward}
        links.pop(keep.way.link, None)
        oldest = sorted(links.values(), key=_latest)[: len(links) // 2 + 1]
        yield from self._end(oldest)
        yield from self._finish(oldest)
        gone = {flow.way.link for flow in oldest}
        for table in (self.tcp, self.udp):
            for ends in [ends for ends, flow in table.items() if flow.way.link in gone]:
                del table[ends]

    def _account(self, flow: _Flow, before: int) -> Iterator[Unit]:
        """Keeps count of what waits in all, and makes room when it is too much."""
        self.held += flow.held - before
        if self.held > self._limits.held:
            yield from self._let_go([flow for flow in self.tcp.values() if flow.held or flow.peer.held], flow)

    # UDP

    def _take_udp(self, segment: Segment) -> Iterator[Unit]:
        flow = self.udp.get(segment.ends)
        if flow is None:
            flow = yield from self._link(segment)
        number, time, data = segment.number, segment.time, segment.data
        flow.number, flow.time = number, time
        if flow.way.framing is Framing.FOREIGN:
            return
        if segment.missing:
            why = "the snap length of the capture cut the datagram"
            yield Gap(flow.way, number, time, segment.missing, len(data), why)
        else:
            yield Datagram(flow.way, number, time, data)

    # TCP

    def _take_tcp(self, segment: Segment) -> Iterator[Unit]:
        flow = self.tcp.get(segment.ends)
        flags = segment.flags
        if flags & _SYN:
            flow = yield from self._syn(flow, segment)
        elif flow is None or (flow.ended and self._goes_on(flow, segment)):
            if not segment.data:
                return  # neither acknowledgements nor a reset make a link
            flow = yield from self._link(segment)
        flow.number, flow.time = segment.number, segment.time
        flow.disarm()
        peer = flow.peer
        if flags & _ACK:
            yield from self._acknowledge(flow, segment)
        if flags & _RST:
            self._reset(flow, segment)
            return
        if flow.ended:
            return
        if flow.way.framing is Framing.FOREIGN:
            self.held -= flow.held
            flow.forget()
            return
        if segment.data or segment.missing or flags & _FIN:
            seq = segment.seq + bool(flags & _SYN)
            piece = Piece(segment.number, segment.time, segment.data, segment.missing)
            yield from self._bytes(flow, flow.order.take(piece, seq, fin=bool(flags & _FIN)))
        flow.arm()
        if flow.order.waiting is not None:
            peer.disarm()

    def _acknowledge(self, flow: _Flow, segment: Segment) -> Iterable[Unit]:
        """Takes what one side says it has of the other one."""
        order = flow.peer.order
        if segment.data:
            flow.compare(segment.ack)
        if order.waiting is None:
            return ()
        bare = not segment.data and not segment.missing and not segment.flags & _SPECIAL
        late = flow.way.link.late
        acknowledged = order.acknowledged(segment.ack, segment.number, segment.time, bare=bare, late=late)
        return self._bytes(flow.peer, acknowledged)

    def _bytes(self, flow: _Flow, events: Iterator[Event]) -> Iterator[Unit]:
        """Cuts what comes into order."""
        before = flow.held
        for event in events:
            if flow.awaited is not None and isinstance(event, Piece) and flow.order.next is not None:
                flow.came(flow.order.next - len(event.data))
            yield from flow.cutter.take(event)
        if flow.order.late:
            flow.way.link.disordered = flow.way.link.late = True
        if not flow.cutter.seeking:
            flow.order.settle()
        if flow.order.finished and not flow.ended:
            yield from flow.cutter.leave("the connection ends inside a batch", flow.number, flow.time)
            flow.ended = True
            if flow.way.framing in ZENOH:
                yield End(flow.way, flow.number, flow.time, False)
        yield from self._account(flow, before)

    def _syn(self, flow: _Flow | None, segment: Segment) -> Generator[Unit, None, _Flow]:
        begun = (segment.seq + 1) & SEQUENCE
        if flow is not None:
            if flow.order.has_begun(begun):
                return flow
            if flow.order.next is None and flow.peer.order.begun is not None:
                flow.order.begin(begun)  # the other half of a handshake
                return flow
            yield from self._close(flow, segment.number, segment.time)
        flow = yield from self._link(segment, answered=bool(segment.flags & _ACK))
        flow.order.begin(begun)
        return flow

    def _goes_on(self, flow: _Flow, segment: Segment) -> bool:
        """Tells whether something new comes on a connection that is over: its beginning was not captured."""
        behind = segment.seq + len(segment.data) & SEQUENCE
        return (
            bool(segment.data) and not segment.flags & _RST and flow.peer.ended and not flow.order.has(behind)
        )

    def _reset(self, flow: _Flow, segment: Segment) -> None:
        """Takes note of a RST."""
        expected, link = flow.order.next, flow.way.link.number
        believed = expected is None or abs(ahead_of(expected, segment.seq)) <= self._limits.early
        if not believed or flow.lingers or (flow.ended and flow.peer.ended):
            return
        reset = _Reset(flow, segment.number, segment.time, segment.time + LINGER)
        self._resets[link] = reset
        heappush(self._dues, (reset.due, link))
        if len(self._dues) > 2 * len(self._resets) + _SOME:
            # Most of these are over: by a new connection, where the clock of the capture stands still.
            self._dues = sorted((one.due, number) for number, one in self._resets.items())
        self.due = self._dues[0][0]
        flow.lingers = flow.peer.lingers = True
        flow.peer.disarm()

    def _end(self, flows: list[_Flow]) -> Iterator[Unit]:
        """Ends those of some connections that were reset."""
        for flow in flows:
            reset = self._resets.get(flow.way.link.number)
            if reset is not None:
                yield from self._close(flow, reset.number, reset.time)

    def _close(self, flow: _Flow, number: int, time: int) -> Iterator[Unit]:
        """Ends both directions where they are, with a packet, or with the RST that stands in front of it."""
        reset = self._resets.pop(flow.way.link.number, None)
        if reset is not None:
            number, time = reset.number, reset.time
        forward = flow if flow.way.forward else flow.peer
        yield from self._finish([forward], what="connection")
        for one in (forward, forward.peer):
            if not one.ended and one.way.framing in ZENOH:
                yield End(one.way, number, time, True)
            one.ended, one.lingers = True, False

    def _finish(self, forwards: list[_Flow], what: str = "capture") -> Iterator[Unit]:
        """Gives up all holes of some links, in the order of the packets behind them, and tells what is left.

        Args:
            forwards: One direction of each link.
            what: Is at its end.
        """
        flows = [one for flow in forwards for one in (flow, flow.peer)]
        holes: list[tuple[int, int]] = []
        for index, flow in enumerate(flows):
            flow.disarm()
            if flow.order.waiting is not None:
                heappush(holes, (flow.order.waiting, index))
        while holes:
            flow = flows[(index := heappop(holes)[1])]
            yield from self._bytes(flow, flow.order.give_up("not in the capture", most=1))
            if flow.order.waiting is not None:
                heappush(holes, (flow.order.waiting, index))
        for flow in flows:
            before = flow.held
            if not flow.ended:
                yield from flow.cutter.leave(f"the {what} ends inside a batch", flow.number, flow.time)
            flow.forget()
            self.held -= before


def _latest(flow: _Flow) -> int:
    return max(flow.number, flow.peer.number)
