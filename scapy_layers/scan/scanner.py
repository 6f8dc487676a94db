"""Packets into units: most of them many at a time, the rest one by one, with the same result.

Most packets of most captures are the next bytes of a stream that has been understood, or acknowledge such bytes.
Of each block of packets those are found with a few operations on all of them at once: up to the first packet of a
connection that is anything else. That one, and what follows on its connection in the block, goes the exact way
through ``stream.Reader`` and ``Watch``, in the order of the capture.
"""

# ruff: noqa: SLF001  (``stream`` keeps what a flow needs between two packets)

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scapy_layers import stream
from scapy_layers.capture import ETHERTYPE_IP, FRAGMENTED, HEADERS, PLAIN_IP, PLAIN_TCP, PROTOCOL_TCP
from scapy_layers.codes import TransportId
from scapy_layers.derive.columns import Units
from scapy_layers.framing import Framing
from scapy_layers.ip import Decoder, LinkType
from scapy_layers.links import Batch, Gap, Limits
from scapy_layers.scan.headers import Headers, Mask, headers
from scapy_layers.scan.pieces import Chunk, Many, Pieces
from scapy_layers.scan.records import Array, Position, Records
from scapy_layers.scan.watch import LINKS, MISSES, Talk, Watch
from scapy_layers.tcp import FAR, PATIENCE, PIECE, SEQUENCE

BLOCK = 1 << 14
"""Packets that are looked at together, at most."""

_LEAST_BLOCK = 1 << 7
"""And at least: where much has to go the exact way, small blocks let the rest find its way back sooner."""

_SMALL_BLOCK = 1 << 10
_SOME = 1 / 16
_MOST = 15 / 16
"""Parts of a block that went the exact way between which blocks become smaller, down to that."""

_BEHIND = PATIENCE + 8
"""So many packets behind one that is not as expected its connection may be as expected again: a hole is waited for."""

BLOCK_BYTES = 8 << 20
"""Bytes of them, about."""

MOST_EXTRA = 32 << 20
"""Bytes of units that do not lie in the file at which what there is so far is handed out."""

_FEW = 24
"""Places from which on it is quicker to follow each of them alone."""

_ETHERNET = int(LinkType.ETHERNET)
_OPENING = (int(TransportId.INIT), int(TransportId.OPEN))


class Mode(IntEnum):
    """Which packets of a flow change nothing but where it stands."""

    SLOW = 0
    """None: all of them are looked at alone."""
    QUIET = 1
    """Those without data."""
    FOREIGN = 2
    """All: it is no Zenoh, or not known, and nothing of it is kept."""
    ARMED = 3
    """The next bytes of the stream, which are batches behind 2-byte lengths, and those without data."""


class _Flows(NamedTuple):
    """What is known of the flows of a block, an item each.

    Attributes:
        flows: As ``stream`` knows them; None for those it does not.
        mode: See Mode.
        expected: The next sequence number of those that are armed.
        pair: The same number for both directions.
        pairs: How many such numbers there are.
    """

    flows: list[stream._Flow | None]
    mode: NDArray[np.int8]
    expected: NDArray[np.uint32]
    pair: Array
    pairs: int


@dataclass(slots=True)
class Scanner:
    """Reads a capture from some position on. Can be pickled between two pieces of the file.

    Attributes:
        watch: What the links turn out to be.
        position: How far the file has been read.
        reader: The links and what waits there.
        decoder: Takes unusual packets apart.
        batches: How many units were found.
        packets: How many packets were read.
        other: How many of them were neither TCP nor UDP over IP, or incomplete.
        gaps: How many gaps there were.
        skipped: Bytes that were passed over in them.
        block: How many packets are looked at together.
    """

    watch: Watch
    position: Position = field(default_factory=Position)
    limits: Limits = field(default_factory=Limits)
    decoder: Decoder = field(default_factory=Decoder)
    batches: int = 0
    packets: int = 0
    other: int = 0
    gaps: int = 0
    skipped: int = 0
    block: int = _LEAST_BLOCK
    reader: stream.Reader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = stream.Reader(self.watch.is_batch, self.limits)

    @property
    def links(self) -> int:
        """How many TCP connections and UDP pairs were seen."""
        return self.reader._links

    def take(self, records: Records) -> Iterator[Chunk]:
        """Yields what is in a piece of the file; most often one thing."""
        pieces = Pieces(records.buffer, records.number, records.time)
        parsed = headers(records)
        self.packets += len(records.start)
        begin, count = 0, len(records.start)
        while begin < count:
            bytes_end = int(np.searchsorted(records.start, records.start[begin] + BLOCK_BYTES))
            stop = min(max(bytes_end, begin + 1), begin + self.block, count)
            begin = yield from self._block(records, parsed, begin, stop, pieces)
        yield self._chunk(pieces, begin)

    def finish(self) -> Iterator[Chunk]:
        """Yields what is left at the end of the capture."""
        pieces = Pieces(b"", 0, np.empty(0, np.int64))
        self.watch.at(self.position.number)
        for unit in self.reader.finish():
            self._hear(unit, 0, pieces)
        self.watch.finish()
        yield self._chunk(pieces, 1)

    def _chunk(self, pieces: Pieces, upto: int) -> Chunk:
        over, self.watch.over = self.watch.over, []
        chunk, count = pieces.chunk(upto, self.batches, over, self.watch.talks)
        self.batches += count
        return chunk

    # Blocks ---------------------------------------------------------------------------------------

    def _block(
        self, records: Records, parsed: Headers, begin: int, stop: int, pieces: Pieces
    ) -> Generator[Chunk, None, int]:
        """Takes the packets of a block, or fewer; returns where the next one begins."""
        quick, stop = self._quick(records, parsed, begin, stop, pieces)
        slow = np.arange(begin, stop) if quick is None else begin + np.flatnonzero(~quick)
        if not len(slow):
            self._end_overdue(records, begin, stop, pieces)
            return stop
        harmless = self._harmless(records.buffer, parsed, slow)
        columns = zip(
            slow.tolist(),
            records.time[slow].tolist(),
            records.link[slow].tolist(),
            records.start[slow].tolist(),
            records.end[slow].tolist(),
            records.length[slow].tolist(),
            harmless.tolist(),
            strict=True,
        )
        first, buffer, watch, looked = records.number, records.buffer, self.watch, begin
        for index, time, link, start, end, length, watch.harmless in columns:
            self._end_overdue(records, looked, index + 1, pieces)
            looked = index + 1
            self._packet(first + index, time, link, buffer, start, end, length, index, pieces)
            if pieces.extra > MOST_EXTRA:
                yield self._chunk(pieces, index + 1)
        watch.harmless = False
        self._end_overdue(records, looked, stop, pieces)
        return stop

    def _end_overdue(self, records: Records, begin: int, stop: int, pieces: Pieces) -> None:
        """Ends the connections that were reset a moment before one of some packets, in front of that."""
        reader = self.reader
        while reader.due < stream.NEVER and begin < stop:
            times = records.time[begin:stop]
            if int(times.max()) < reader.due:
                break
            begin += int(np.argmax(times >= reader.due))
            for unit in reader.overdue(int(records.time[begin])):
                self._hear(unit, begin - 1, pieces)
            begin += 1

    def _harmless(self, buffer: bytes, parsed: Headers, packets: Array) -> Mask:
        """Tells which packets are datagrams that need not be looked at, if there are enough of them to ask."""
        found = np.zeros(len(packets), np.bool_)
        those = np.flatnonzero(parsed.datagram[packets])
        if len(those) < _FEW or all(talk.link.tcp for talk in self.watch.talks.values()):
            return found
        kind = np.zeros(len(those), np.uint8)
        start, end = parsed.at[packets[those]], parsed.stop[packets[those]]
        found[those] = self.watch.language.harmless(Units(np.frombuffer(buffer, np.uint8), start, end, kind))
        return found

    def _packet(  # noqa: C901  (one packet by the short way of ``stream``)
        self,
        number: int,
        time: int,
        link: int,
        buffer: bytes,
        begin: int,
        end: int,
        length: int,
        index: int,
        pieces: Pieces,
    ) -> None:
        """Takes one packet as ``stream.units_of`` does."""
        reader, watch = self.reader, self.watch
        watch.at(number)
        if link == _ETHERNET and end - begin >= HEADERS.size:
            kind, first, total, fragment, protocol, ends, seq, ack, words, flags = HEADERS.unpack_from(
                buffer, begin
            )
            flow = reader.tcp.get(ends)
            at, stop = begin + 34 + (words >> 4) * 4, begin + 14 + total
            if (
                flow is not None
                and flow.expected == seq
                and first == PLAIN_IP
                and protocol == PROTOCOL_TCP
                and kind == ETHERTYPE_IP
                and not fragment & FRAGMENTED
                and words >= PLAIN_TCP
                and not flags & stream._SPECIAL
                and at <= stop <= end
                and (way := flow.way).framing is Framing.SHORT
            ):
                flow.number, flow.time = number, time
                flow.expected = (seq + stop - at) & SEQUENCE
                if ack != flow.peer.expected and at < stop and flags & stream._ACK:
                    flow.compare(ack)
                if flow.lacking:
                    at, batches = reader.complete(flow, buffer, at, stop)
                    for batch in batches:
                        self._hear(batch, index, pieces)
                while at + 2 <= stop and way.framing is Framing.SHORT:
                    start = at + 2
                    behind = start + (buffer[at] | buffer[at + 1] << 8)
                    if behind > stop:
                        break
                    at = behind
                    self._hear(Batch(way, number, time, buffer[start:behind]), index, pieces)
                if at < stop:
                    for unit in reader.rest(flow, buffer[at:stop]):
                        self._hear(unit, index, pieces)
                return
        segment = self.decoder.decode(number, time, link, buffer[begin:end], length)
        if segment is None:
            self.other += 1
            return
        for unit in reader.take(segment):
            self._hear(unit, index, pieces)

    def _hear(self, unit: stream.Unit, index: int, pieces: Pieces) -> None:
        if isinstance(unit, Gap):
            self.gaps += 1
            self.skipped += unit.skipped
            pieces.add_one(index, unit)
        watch = self.watch
        told = watch.hear(unit)
        if watch.happened:
            for event in watch.happened:
                pieces.add_one(index, event)
            watch.happened = []
        for heard in told:
            pieces.add_one(index, heard)

    # Many at once ---------------------------------------------------------------------------------

    def _quick(
        self, records: Records, parsed: Headers, begin: int, stop: int, pieces: Pieces
    ) -> tuple[Mask | None, int]:
        """Takes the packets of a block that can be taken together.

        Returns:
            Which these are, None for none, and where the block ends: earlier, when much behind could be taken
            together with the next one.
        """
        flow, plain = parsed.flow[begin:stop], parsed.plain[begin:stop]
        if not plain.any():
            self.block = min(self.block * 2, BLOCK)
            return None, stop
        at, end = parsed.at[begin:stop], parsed.stop[begin:stop]
        known = self._flows(parsed, flow)
        size = np.where(plain, end - at, 0)
        fine = self._changes_nothing(known, flow, plain, size, parsed.seq[begin:stop])
        pair = np.where(flow >= 0, known.pair[flow], -1)
        first_bad, broken = self._first_bad(known, fine, pair, flow, parsed.odd[begin:stop])
        if broken + 4 * _BEHIND < len(flow):
            self.block = max(2 * (broken + _BEHIND), _LEAST_BLOCK)
            return self._quick(records, parsed, begin, begin + broken + _BEHIND, pieces)
        quick = fine & (flow >= 0) & (np.arange(len(flow)) < first_bad[pair])
        slow = len(flow) - int(quick.sum())
        between = _SOME < slow / len(flow) < _MOST
        self.block = (
            max(self.block // 2, min(_SMALL_BLOCK, self.block)) if between else min(self.block * 2, BLOCK)
        )
        if slow and self._crowded(slow, int(size.sum())):
            return None, stop
        data = np.flatnonzero(quick & (size > 0) & (known.mode[flow] == Mode.ARMED))
        found = self._batches(records.buffer, at, end, flow, data, known)
        if found.refused:
            quick &= ~np.isin(pair, found.refused)
            data = data[quick[data]]
        awaited = self._compare(known, parsed, begin, flow, data)
        self._commit(records, parsed, begin, known, quick, flow, found, pieces)
        for one, ack in awaited:
            one.wait_for(ack)
        return quick, stop

    def _first_bad(self, known: _Flows, fine: Mask, pair: Array, flow: Array, odd: Mask) -> tuple[Array, int]:
        """Returns the first packet of each connection that is not as expected, and the first of those in order."""
        count = len(flow)
        first = np.full(known.pairs, count, np.int64)
        # Backwards, so that the first one of each connection is the one that stays.
        places = np.flatnonzero(~fine & (flow >= 0))[::-1]
        first[pair[places]] = places
        barrier = int(np.argmax(odd)) if odd.any() else count
        np.minimum(first, barrier, out=first)
        armed = np.unique(known.pair[known.mode == Mode.ARMED])
        return first, int(first[armed].min(initial=count))

    def _crowded(self, slow: int, size: int) -> bool:
        """Tells whether something may have to be forgotten in this block: then order is all."""
        reader, limits = self.reader, self.limits
        return (
            len(reader.tcp) + len(reader.udp) + 2 * slow > 2 * limits.links
            or len(self.watch.talks) + slow > LINKS
            or reader.held + size + (PIECE + 2) * slow > limits.held
        )

    def _flows(self, parsed: Headers, flow: Array) -> _Flows:
        count = len(parsed.keys)
        present = _present(flow[flow >= 0], count).tolist()
        flows: list[stream._Flow | None] = [None] * count
        mode, expected = np.zeros(count, np.int8), np.zeros(count, np.uint32)
        pair = np.full(count, -1, np.int64)
        pairs: dict[bytes, int] = {}
        find = self.reader.tcp.get
        for index in present:
            key = parsed.keys[index]
            other = stream._back(key)
            number = pairs.get(other)
            if number is None:
                number = pairs.setdefault(key, len(pairs))
            pair[index] = number
            one = flows[index] = find(key)
            mode[index], expected[index] = _mode(one, self.watch)
        return _Flows(flows, mode, expected, pair, max(len(pairs), 1))

    def _changes_nothing(
        self, known: _Flows, flow: Array, plain: Mask, size: Array, seq: NDArray[np.uint32]
    ) -> Mask:
        """Tells which packets are as their flow expects them, if all packets in front are."""
        mode = known.mode[flow]
        fine: Mask = plain & ((mode == Mode.FOREIGN) | ((size == 0) & (mode == Mode.QUIET)))
        armed = np.flatnonzero((mode == Mode.ARMED) & (flow >= 0))
        if not len(armed):
            return fine
        behind = seq + size.astype(np.uint32)
        of = flow[armed]
        only = (of == of[0]).all()
        order = (
            armed
            if only
            else armed[
                np.argsort(of.astype(np.uint16 if len(known.flows) < 65536 else np.int64), kind="stable")
            ]
        )
        of = flow[order]
        expected = np.empty(len(order), np.uint32)
        expected[1:] = behind[order[:-1]]
        begins = np.concatenate(([0], np.flatnonzero(of[1:] != of[:-1]) + 1))
        expected[begins] = known.expected[of[begins]]
        fine[order] = plain[order] & (seq[order] == expected)
        return fine

    def _compare(
        self, known: _Flows, parsed: Headers, begin: int, flow: Array, data: Array
    ) -> list[tuple[stream._Flow, int]]:
        """Looks for acknowledgements of what was not captured by then, as ``_Flow.compare`` does.

        Returns:
            The flows of which something may still come, and up to which number.

        Args:
            known: What is known of the flows.
            parsed: The headers.
            begin: The first packet of the block.
            flow: Of each packet of the block.
            data: The packets that carry data of flows as expected, in order, counted in the block.
        """
        awaited: list[tuple[stream._Flow, int]] = []
        count = len(known.flows)
        asked, second = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        position = np.zeros(count, np.uint32)
        for index in _present(flow[data], count).tolist():
            one = known.flows[index]
            assert one is not None
            peer = one.peer
            at = peer.expected if peer.expected >= 0 else peer.order.next
            if one.way.link.late:
                continue
            if at is not None:
                asked[index], second[index] = True, not one.way.forward
                position[index] = (at + peer.order.finished) & SEQUENCE
            elif one.order.begun is not None:
                awaited.append((peer, int(parsed.ack[begin + data[flow[data] == index][-1]])))
        # Where nothing is acknowledged but what came before the block, as of one that only listens, all is said.
        of = flow[data]
        new = (parsed.ack[begin + data] - position[of] - np.uint32(1) < FAR) & asked[of]
        if not new.any():
            return awaited
        asked &= (np.bincount(known.pair[of[new]], minlength=known.pairs) > 0)[known.pair]
        those = data[asked[of]]
        those = those[np.argsort(known.pair[flow[those]], kind="stable")]
        of, packets, places = flow[those], begin + those, np.arange(len(those))
        back, pair = second[of], known.pair[of]
        size = (parsed.stop[packets] - parsed.at[packets]).astype(np.uint32)
        behind = parsed.seq[packets] + size
        first = np.zeros(len(those), np.int64)
        first[1:] = np.where(pair[1:] != pair[:-1], places[1:], 0)
        first = np.maximum.accumulate(first)
        # The latest packet of the other direction, if there is one of the same connection.
        there = np.maximum.accumulate(np.where(back, -1, places))
        latest = np.where(back, there, np.maximum.accumulate(np.where(back, places, -1)))
        expected = np.where(latest >= first, behind[latest], position[of])
        early = np.flatnonzero(parsed.ack[packets] - expected - np.uint32(1) < FAR)
        for index in np.unique(of[early]).tolist():
            one = known.flows[index]
            assert one is not None
            own = early[of[early] == index]
            if ((places > own[0]) & (pair == pair[own[0]]) & (back != back[own[0]])).any():
                one.way.link.disordered = one.way.link.late = True
            else:
                awaited.append((one.peer, int(parsed.ack[packets[own[-1]]])))
        return awaited

    def _batches(
        self, buffer: bytes, at: Array, stop: Array, flow: Array, data: Array, known: _Flows
    ) -> _Found:
        """Cuts the data of some packets into batches.

        Args:
            buffer: All packets.
            at: Where the payload of each packet begins.
            stop: Behind its last byte.
            flow: Of each packet.
            data: The packets to cut, in order, counted in the block.
            known: What is known of the flows.
        """
        found = _Found([], [], {}, [], {}, {})
        if not len(data):
            return found
        start, limit, of = at[data], stop[data], flow[data]
        which, first, last, rest = _walk(buffer, start, limit)
        # A flow is clean when every segment begins and ends with a batch; the last one may end anywhere.
        final = np.full(len(known.flows), -1, np.int64)
        final[of] = np.arange(len(of))
        touched = np.flatnonzero(final >= 0)
        dirty = np.zeros(len(known.flows), np.bool_)
        broken = rest > 0
        broken[final[touched]] = False
        dirty[of[broken]] = True
        for index in touched.tolist():
            one = known.flows[index]
            assert one is not None
            dirty[index] |= one.lacking > 0
        if dirty.any():
            clean = ~dirty[of[which]]
            which, first, last = which[clean], first[clean], last[clean]
            for index in np.flatnonzero(dirty).tolist():
                own = np.flatnonzero(of == index)
                found.streams.append(
                    _joined(known.flows[index], index, buffer, start[own], limit[own], data[own])
                )
        found.many.append(_Cut(0, buffer, of[which], data[which], first, last))
        for index in touched[~dirty[touched]].tolist():
            left = int(rest[final[index]])
            end = int(limit[final[index]])
            found.tails[index] = buffer[end - left : end]
        for one_stream in found.streams:
            found.many.append(one_stream.cut)
            found.tails[one_stream.flow] = one_stream.tail
        self._judge(known, found)
        return found

    def _judge(self, known: _Flows, found: _Found) -> None:
        """Finds the connections whose batches may change what is known of them: they go the slow way."""
        for cut in found.many:
            if not len(cut.start):
                continue
            careful = np.zeros(len(known.flows), np.bool_)
            for index in _present(cut.flow, len(known.flows)).tolist():
                talk = self._talk(known, index)
                careful[index] = not (talk.sure and all(talk.opened) and talk.session.compression is False)
            those = np.flatnonzero(careful[cut.flow])
            if not len(those):
                continue
            raw = np.frombuffer(cut.buffer, np.uint8)
            starts = cut.start[those]
            head = raw[np.minimum(starts, len(raw) - 1)]
            opens = (cut.end[those] > starts) & ((head <= 1) | np.isin(head & 0x1F, _OPENING))
            if opens.any():
                found.refused.extend(np.unique(known.pair[cut.flow[those[opens]]]).tolist())
        self._doubt(known, found)

    def _doubt(self, known: _Flows, found: _Found) -> None:
        """Finds the connections that may be given up: too many batches in a row that cannot be read."""
        doubtful: dict[int, list[_Cut]] = {}
        for cut in found.many:
            for index in _present(cut.flow, len(known.flows)).tolist():
                talk, pair = self._talk(known, index), int(known.pair[index])
                if not talk.sure and pair not in found.refused:
                    found.talks[pair] = talk
                    cuts = doubtful.setdefault(pair, [])
                    if not cuts or cuts[-1] is not cut:
                        cuts.append(cut)
        alone = [pair for pair, cuts in doubtful.items() if len(cuts) == 1 and cuts[0].source == 0]
        looked = self._sampled(known, found, alone) if alone else {}
        for pair, cuts in doubtful.items():
            misses = looked.get(pair)
            if misses is None:
                rows: list[tuple[int, int, bytes, int, int]] = []
                for cut in cuts:
                    own = np.flatnonzero(known.pair[cut.flow] == pair)
                    columns = cut.trigger[own].tolist(), cut.start[own].tolist(), cut.end[own].tolist()
                    rows += [
                        (trigger, start, cut.buffer, start, end)
                        for trigger, start, end in zip(*columns, strict=True)
                    ]
                rows.sort(key=_when)
                misses = self._misses(found.talks[pair].misses, [buffer[a:b] for *_, buffer, a, b in rows])
            if misses < MISSES:
                found.misses[pair] = misses
            else:
                found.refused.append(pair)

    def _sampled(self, known: _Flows, found: _Found, pairs: list[int]) -> dict[int, int]:
        """Looks at every third batch of some connections: when these can be read, no three in a row cannot.

        Returns:
            For connections of which all that was looked at can be read: the batches since then that cannot.
        """
        cut = found.many[0]
        of = known.pair[cut.flow]
        own = {pair: np.flatnonzero(of == pair) for pair in pairs}
        samples = {pair: own[pair][MISSES - 1 - found.talks[pair].misses :: MISSES] for pair in pairs}
        those = np.sort(np.concatenate(list(samples.values())))
        if len(those) < _FEW:
            return {}
        kind = np.zeros(len(those), np.uint8)
        units = Units(np.frombuffer(cut.buffer, np.uint8), cut.start[those], cut.end[those], kind)
        refused = those[self.watch.language.refused(units)]
        bad = set(of[refused].tolist())
        looked: dict[int, int] = {}
        for pair in pairs:
            if pair in bad or not len(samples[pair]):
                continue
            rest = own[pair][own[pair] > samples[pair][-1]]
            raw = [
                cut.buffer[a:b] for a, b in zip(cut.start[rest].tolist(), cut.end[rest].tolist(), strict=True)
            ]
            looked[pair] = self._misses(0, raw)
        return looked

    def _misses(self, misses: int, batches: Sequence[bytes]) -> int:
        """Returns how many batches in a row cannot be read at the end; no less than MISSES when it was as many before."""
        at, last = MISSES - 1 - misses, -1
        while at < len(batches):
            good = next((one for one in range(at, last, -1) if self._reads(batches[one])), None)
            if good is None:
                return MISSES
            last = good
            at = last + MISSES
        count = misses if last < 0 else 0
        for one in range(last + 1, len(batches)):
            count = 0 if self._reads(batches[one]) else count + 1
        return count

    def _reads(self, raw: bytes) -> bool:
        return not any(message.refused for message in self.watch.language.messages(raw))

    def _talk(self, known: _Flows, index: int) -> Talk:
        one = known.flows[index]
        assert one is not None
        return self.watch.talks[one.way.link.number]

    def _commit(
        self,
        records: Records,
        parsed: Headers,
        begin: int,
        known: _Flows,
        quick: Mask,
        flow: Array,
        found: _Found,
        pieces: Pieces,
    ) -> None:
        """Lets the packets count that were taken together."""
        last = np.full(len(known.flows), -1, np.int64)
        those = np.flatnonzero(quick)
        last[flow[those]] = those
        some = np.flatnonzero(last >= 0)
        places = begin + last[some]
        behind = (parsed.seq[places] + (parsed.stop[places] - parsed.at[places])) & SEQUENCE
        armed = known.mode[some] == int(Mode.ARMED)
        each = (some, records.number + places, records.time[places], behind, armed)
        for index, number, time, expected, is_armed in zip(*(one.tolist() for one in each), strict=True):
            one = known.flows[index]
            if one is None:
                continue
            one.number, one.time = number, time
            if is_armed:
                one.expected = expected
        refused = set(found.refused)
        for index, tail in found.tails.items():
            one = known.flows[index]
            assert one is not None
            if int(known.pair[index]) not in refused:
                self._leave(one, tail)
        self._add(records, begin, known, found, refused, pieces)

    def _leave(self, flow: stream._Flow, tail: bytes) -> None:
        """Keeps the beginning of a batch for the packets to come."""
        waiting = flow.cutter.buffer
        self.reader.held -= len(waiting)
        waiting.clear()
        flow.lacking = 0
        if tail:
            for unit in self.reader.rest(flow, tail):
                raise AssertionError(f"{unit} in the beginning of a batch")

    def _add(
        self, records: Records, begin: int, known: _Flows, found: _Found, refused: set[int], pieces: Pieces
    ) -> None:
        """Hands batches out, and keeps count of them."""
        count = len(known.flows)
        link, forward = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        for cut in found.many:
            flow, trigger, start, end = cut.flow, cut.trigger, cut.start, cut.end
            if refused:
                stays = ~np.isin(known.pair[flow], list(refused))
                flow, trigger, start, end = flow[stays], trigger[stays], start[stays], end[stays]
            if not len(flow):
                continue
            numbers = np.bincount(flow, minlength=count)
            sizes = np.bincount(flow, weights=end - start, minlength=count)
            last = np.zeros(count, np.int64)
            last[flow] = trigger
            some = np.flatnonzero(numbers)
            places = begin + last[some]
            each = (
                some,
                records.number + places,
                records.time[places],
                numbers[some],
                sizes[some].astype(np.int64),
            )
            for index, number, time, batches, size in zip(*(one.tolist() for one in each), strict=True):
                talk, one = self._talk(known, index), known.flows[index]
                assert one is not None
                link[index], forward[index] = one.way.link.number, one.way.forward
                before = talk.last
                talk.count(one.way.forward, number, time, batches, size)
                talk.last = max(talk.last, before)
                talk.said += batches
                talk.greeting = False
                self.watch.at(number)
                talk.used = max(talk.used, self.watch.now + 1)
            source = 0 if not cut.source else pieces.source(cut.buffer)
            pieces.add(Many(source, trigger + begin, link[flow], forward[flow], start, end))
        for pair, misses in found.misses.items():
            if pair not in refused:
                found.talks[pair].misses = misses


class _Cut(NamedTuple):
    """Batches that lie in one buffer.

    Attributes:
        source: 0 for the piece of the file.
        buffer: Where they lie.
        flow: Of each.
        trigger: The packet that completes it.
        start: Where it begins.
        end: Behind its last byte.
    """

    source: int
    buffer: bytes
    flow: Array
    trigger: Array
    start: Array
    end: Array


class _Joined(NamedTuple):
    """A flow whose batches do not end with its segments: the batches, and what is left."""

    flow: int
    cut: _Cut
    tail: bytes


class _Found(NamedTuple):
    """What was cut from a block.

    Attributes:
        many: Batches.
        streams: Flows that had to be put together.
        tails: What is left of each flow.
        refused: Connections that have to go the slow way after all.
        talks: Of connections in doubt.
        misses: Batches in a row that cannot be read, of those.
    """

    many: list[_Cut]
    streams: list[_Joined]
    tails: dict[int, bytes]
    refused: list[int]
    talks: dict[int, Talk]
    misses: dict[int, int]


def _mode(flow: stream._Flow | None, watch: Watch) -> tuple[Mode, int]:
    if flow is None:
        return Mode.QUIET, 0
    peer = flow.peer
    if peer.order.waiting is not None or flow.lingers:
        return Mode.SLOW, 0  # acknowledgements have to be looked at, or for how long it goes on
    if flow.way.framing is Framing.FOREIGN:
        return (Mode.FOREIGN if not flow.held else Mode.QUIET), 0
    if flow.expected >= 0 and flow.way.framing is Framing.SHORT:
        talk = watch.talks.get(flow.way.link.number)
        if talk is not None and talk.plain:
            return Mode.ARMED, flow.expected
    return Mode.QUIET, 0


def _present(numbers: Array, most: int) -> Array:
    """Returns which of some small numbers occur."""
    return np.flatnonzero(np.bincount(numbers, minlength=most))


def _when(batch: tuple[int, int, bytes, int, int]) -> tuple[int, int]:
    return batch[0], batch[1]


def _walk(buffer: bytes, at: Array, stop: Array) -> tuple[Array, Array, Array, Array]:
    """Follows 2-byte lengths through many segments at once.

    Returns:
        For each batch the segment, where it begins and where it ends, in order; and for each segment how many
        bytes are left.
    """
    sizes = np.ndarray((max(len(buffer) - 1, 0),), "<u2", buffer, 0, (1,))
    rest = stop - at
    active = np.arange(len(at))
    parts: list[tuple[Array, Array, Array]] = []
    while len(active) > _FEW or (len(active) and not parts):
        place, limit = at[active], stop[active]
        has = place + 2 <= limit
        start = place + 2
        end = start + sizes[np.where(has, place, 0)]
        whole = has & (end <= limit)
        if not whole.all():
            rest[active[~whole]] = (limit - place)[~whole]
            active, start, end, limit = active[whole], start[whole], end[whole], limit[whole]
        parts.append((active, start, end))
        more = end < limit
        rest[active[~more]] = 0
        active = active[more]
        at = at.copy() if len(parts) == 1 else at
        at[active] = end[more]
    for one in active.tolist():
        starts, behind = _hop(buffer, int(at[one]), int(stop[one]))
        ends = np.array([*starts[1:], behind + 2], np.int64) - 2
        parts.append((np.full(len(starts), one), np.array(starts, np.int64), ends[: len(starts)]))
        rest[one] = stop[one] - behind
    if len(parts) == 1:
        return (*parts[0], rest)
    which, start, end = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(start)
    return which[order], start[order], end[order], rest


def _hop(buffer: bytes, at: int, stop: int) -> tuple[list[int], int]:
    """Follows 2-byte lengths through one segment; returns where batches begin, and where the last one ends."""
    starts: list[int] = []
    add = starts.append
    while at + 2 <= stop:
        behind = at + 2 + (buffer[at] | buffer[at + 1] << 8)
        if behind > stop:
            break
        add(at + 2)
        at = behind
    return starts, at


def _joined(
    flow: stream._Flow | None, index: int, buffer: bytes, at: Array, stop: Array, data: Array
) -> _Joined:
    """Puts the data of a flow together and cuts it."""
    assert flow is not None
    waiting = bytes(flow.cutter.buffer) if flow.lacking else b""
    view = memoryview(buffer)
    whole = b"".join([waiting, *(view[a:b] for a, b in zip(at.tolist(), stop.tolist(), strict=True))])
    starts, behind = _hop(whole, 0, len(whole))
    start = np.array(starts, np.int64)
    end = np.array([*starts[1:], behind + 2][: len(starts)], np.int64) - 2
    ends = len(waiting) + np.cumsum(stop - at)
    trigger = data[np.searchsorted(ends, end)] if len(end) else np.empty(0, np.int64)
    cut = _Cut(1, whole, np.full(len(start), index), trigger, start, end)
    return _Joined(index, cut, whole[behind:])
