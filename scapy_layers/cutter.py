"""The bytes of one direction into batches; finds the framing, and finds the way back after a hole."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from scapy_layers import websocket
from scapy_layers.codes import DEFAULT_PORT, PROTOCOL_VERSION, TransportId
from scapy_layers.framing import Framing, Place, binary_message, long, opens, short, telling
from scapy_layers.links import Batch, Gap, Limits, Way
from scapy_layers.resync import EXPECTED, KNOWN, MOST_PACKETS, PLENTY, STRANGER, Found, Seeker
from scapy_layers.tcp import BEGINS_INSIDE, Event, Piece
from scapy_layers.websocket import Answer

_PLACES = {
    Framing.SHORT: short,
    Framing.EITHER: short,
    Framing.LONG: long,
    Framing.WEBSOCKET: binary_message,
}
"""Where the batch ends that begins the buffer."""

ZENOH = (Framing.SHORT, Framing.LONG, Framing.EITHER, Framing.WEBSOCKET)
_STYLES = {
    Framing.UNDECIDED: (Framing.SHORT, Framing.LONG, Framing.WEBSOCKET),
    Framing.EITHER: (Framing.SHORT, Framing.LONG),
}
"""What to look for where it is not known."""

_LEFT_BY_LOWLATENCY = re.compile(rb"(?:\x02\0|\x03\0\0)([\x03\x23].)", re.DOTALL)
"""A CLOSE with a 2-byte length that real nodes write behind the last 4-byte one when they tear a link down; where
compression was agreed too, with its header byte, which nothing else has in low latency."""

_INIT_SEEN = 6
"""Bytes of the shortest INIT with its length; they tell it from all else."""

_LONGEST_INIT = 4096
"""Bytes of one: what says that it is longer may be the frame of a WebSocket, or its length is damaged."""

_TLS = re.compile(rb"\x16\x03[\0-\x04]..[\x01\x02]\0", re.DOTALL)
"""A handshake record with a hello: its bytes could pass for an INIT of some hundred bytes."""


NOT_BY_INIT = "it does not begin with INIT"
"""Why there is a gap in front of the first batch of a whole connection."""

_OTHER = re.compile(rb"[\x14-\x17]\x03[\0-\x04]|GET /|HTTP/")
"""TLS, and HTTP that is no upgrade."""


class _Mark(NamedTuple):
    """A packet ends where so many bytes have been taken."""

    end: int
    number: int
    time: int


class _Loss(NamedTuple):
    """A gap that is not told yet: how far reading must go on is not known."""

    number: int
    time: int
    missing: int | None
    skipped: int
    why: str


def _first(data: bytearray, *, expected: bool) -> tuple[Framing, int]:
    """Tells what a direction is from its first bytes, and how many of them belong to no batch.

    Args:
        data: All there is so far.
        expected: One of the ports is that of Zenoh: there the zid of an INIT may be longer than the INIT, and HTTP asks
            for an upgrade until it is answered.
    """
    answer, header = websocket.upgrade(data, expected=expected)
    if answer is Answer.YES:
        return Framing.WEBSOCKET, header
    if answer is Answer.MORE:
        return Framing.UNDECIDED, 0
    if len(data) < _INIT_SEEN:
        may_be = len(data) < 3 or data[2] & 0x1F == TransportId.INIT
        return (Framing.UNDECIDED if may_be else Framing.FOREIGN), 0
    size = data[0] | data[1] << 8
    # A longer one is believed when all of it is there.
    init = size <= max(_LONGEST_INIT, len(data) - 2) and _is_init(data[2:_INIT_SEEN], size, damaged=expected)
    return (Framing.SHORT if init and not _TLS.match(data) else Framing.FOREIGN), 0


def _is_init(head: bytes | bytearray, size: int, *, damaged: bool = False) -> bool:
    """Tells from its first bytes whether a batch of a size is an INIT, or one whose end is missing."""
    return (
        len(head) >= _INIT_SEEN - 2
        and head[0] & 0x1F == TransportId.INIT
        and head[1] == PROTOCOL_VERSION
        and size >= _INIT_SEEN - 2 + (0 if damaged else head[2] >> 4)
    )


class Cutter:
    """Cuts one direction into batches, each as ``way.framing`` says at that moment.

    Attributes:
        buffer: What is in order and not cut yet.
    """

    __slots__ = (
        "_answers",
        "_consumed",
        "_gap",
        "_limits",
        "_marks",
        "_messages",
        "_number",
        "_opens",
        "_passing",
        "_resumed",
        "_seekers",
        "_sought",
        "_time",
        "_way",
        "buffer",
    )

    def __init__(self, way: Way, limits: Limits) -> None:
        self._way = way
        self._limits = limits
        self.buffer = bytearray()
        self._number = self._time = 0  # of the latest packet
        # Which packet a byte came in: kept while batches are looked for, for else the latest one ends them.
        self._marks: deque[_Mark] = deque()
        self._consumed = 0  # bytes cut off in front of the buffer since there are marks
        self._seekers: list[Seeker] = []  # while it is not known where a batch begins
        self._answers = False  # the other end had begun before the search
        self._resumed = False  # a batch was found at the begin of the buffer, and has not been read yet
        self._opens = False  # the buffer begins with a packet, which is the first that is searched
        self._sought = Framing.UNDECIDED, Framing.UNDECIDED  # framings of both ways, when the search began
        self._gap: _Loss | None = None  # told when it is known again
        self._passing = 0  # bytes to come of a batch of which others are lost
        self._messages = websocket.Messages(limits.batch)

    @property
    def held(self) -> int:
        """Bytes that wait."""
        return len(self.buffer) + self._messages.held

    @property
    def seeking(self) -> bool:
        """It is not known where a batch begins."""
        return bool(self._seekers)

    @property
    def lacking(self) -> int | None:
        """How many bytes complete the SHORT batch in the buffer, 0 between batches; None when that is not known."""
        if self._seekers or self._passing or len(self.buffer) == 1:
            return None
        if not self.buffer:
            return 0
        return 2 + int.from_bytes(self.buffer[:2], "little") - len(self.buffer)

    def take(self, event: Event) -> Iterator[Batch | Gap]:
        """Takes bytes in order, or a hole; yields the batches that it completes."""
        if isinstance(event, Piece):
            if self._passing:
                event = event._replace(data=self._pass(event.data))
                yield from self._tell_passed()
            self._append(event)
            yield from self._cut()
            return
        if not event.afresh:
            yield from self._cut(last=True)
            left, missing = self._left_of_batch(), event.missing
            if left is not None and missing is not None and missing <= left:
                self._add_loss(_Loss(event.number, event.time, missing, self._clear(), event.why))
                self._passing = left - missing
                if self._way.framing is Framing.SHORT and not self._way.begun:
                    self._way.framing = Framing.EITHER  # INIT would have told
                yield from self._tell_passed()
                return
        self._passing = 0
        skipped = self._clear()
        if event.afresh:
            self._gap, skipped = None, 0
        if self._way.framing is not Framing.FOREIGN:
            self._opens = True
            self._answers = self._way.framing is Framing.UNDECIDED and self._may_answer()
            self._seek(_Loss(event.number, event.time, event.missing, skipped, event.why))

    def leave(self, why: str, number: int, time: int) -> Iterator[Batch | Gap]:
        """Tells what is left at the end of the direction; ``why`` there may be a part of a batch."""
        yield from self._cut(last=True)
        left, gap, way = len(self.buffer), self._gap, self._way
        if way.framing in ZENOH:
            if gap is not None:
                yield Gap(way, gap.number, gap.time, gap.missing, gap.skipped + left, gap.why)
            elif way.framing is Framing.LONG and (close := _LEFT_BY_LOWLATENCY.fullmatch(self.buffer)):
                yield Batch(way, self._number, self._time, bytes(close[1]))
            elif left or self._messages.held:
                yield Gap(way, number, time, 0, left + self._messages.held, why)
        self.forget()

    def forget(self) -> None:
        """Drops all that waits."""
        self._clear()
        self._seekers, self._gap, self._passing = [], None, 0

    # Lost inside a batch

    def _left_of_batch(self) -> int | None:
        """Returns how many bytes a batch that has begun lacks; None when that is not known."""
        if self._passing:
            return self._passing
        if self._seekers or not self.buffer or self._messages.held:
            return None
        framing = self._way.framing
        if framing is Framing.EITHER and len(self.buffer) > 3:
            framing = self._short_or_long()
        try:
            place = _PLACES[framing](self.buffer, 0) if framing in _PLACES else None
        except ValueError:
            return None
        return place.end - len(self.buffer) if place is not None else None

    def _add_loss(self, loss: _Loss) -> None:
        """Takes note of a loss, besides the one that is not told yet."""
        before = self._gap
        if before is not None:
            unknown = before.missing is None or loss.missing is None
            missing = None if unknown else (before.missing or 0) + (loss.missing or 0)
            loss = before._replace(missing=missing, skipped=before.skipped + loss.skipped)
        self._gap = loss

    def _pass(self, data: bytes) -> bytes:
        """Drops what belongs to a batch that is given up; returns what is behind it."""
        assert self._gap is not None, "that is why"
        passed = min(self._passing, len(data))
        self._passing -= passed
        self._gap = self._gap._replace(skipped=self._gap.skipped + passed)
        return data[passed:]

    def _tell_passed(self) -> Iterator[Gap]:
        """Tells of a loss inside a batch as soon as that is behind."""
        if self._gap is not None and not self._passing:
            gap, self._gap = self._gap, None
            yield Gap(self._way, *gap)

    # The buffer

    def _append(self, piece: Piece) -> None:
        self.buffer += piece.data
        self._number, self._time = piece.number, piece.time
        if self._seekers:
            self._mark()
            for seeker in self._seekers:
                seeker.boundaries.append(len(self.buffer))

    def _mark(self) -> None:
        self._marks.append(_Mark(self._consumed + len(self.buffer), self._number, self._time))

    def _consume(self, size: int) -> tuple[int, int]:
        """Removes bytes from the buffer; returns number and time of the packet in which the last one came."""
        del self.buffer[:size]
        if not self._marks:
            return self._number, self._time
        self._consumed += size
        while self._marks[0].end < self._consumed:
            self._marks.popleft()
        _, number, time = self._marks[0]
        if not self.buffer:
            self._marks.clear()
        return number, time

    def _clear(self) -> int:
        size = self.held
        self.buffer.clear()
        self._marks.clear()
        self._consumed = 0
        self._resumed = False
        self._drop_message()
        return size

    def _drop_message(self) -> int:
        """Gives up a message of which only the first frames came; returns how many bytes of it there were."""
        held = self._messages.held
        self._messages = websocket.Messages(self._limits.batch)
        return held

    # Batches

    def _cut(self, *, last: bool = False) -> Iterator[Batch | Gap]:
        way = self._way
        while self.buffer:
            if way.framing is Framing.FOREIGN:
                self.forget()
            elif self._seekers:
                yield from self._search(last=last)
                if self._seekers:
                    return
            elif way.framing is Framing.UNDECIDED:
                if not self._decide():
                    return
            else:
                try:
                    cut = self._next(way.framing)
                except ValueError as error:
                    self._lose(str(error))
                    continue
                if cut is None:
                    self._marks.clear()  # the next batch ends in a packet to come
                    return
                size, data = cut
                self._resumed = False
                number, time = self._consume(size)
                if data is not None and (way.begun or self._begins(data)):
                    yield Batch(way, number, time, data)

    def _next(self, framing: Framing) -> tuple[int, bytes | None] | None:
        """Reads what begins the buffer.

        Returns:
            How many bytes, and the batch that they complete, if any. None when there are too few.

        Raises:
            ValueError: No batch can begin like that.
        """
        buffer = self.buffer
        if framing is Framing.WEBSOCKET:
            return self._messages.take(buffer)
        if framing is Framing.EITHER:
            framing = self._short_or_long()
        prefix = 2 if framing is Framing.SHORT else 4
        if len(buffer) < prefix:
            return None
        size = int.from_bytes(buffer[:prefix], "little")
        if size > self._limits.batch and framing is Framing.LONG:
            if len(buffer) <= 5 and _LEFT_BY_LOWLATENCY.match(buffer + b"\0"):
                return None  # it is that one if nothing follows
            raise ValueError(f"a batch of {size} bytes, at most {self._limits.batch} are believed")
        end = prefix + size
        return None if end > len(buffer) else (end, bytes(buffer[prefix:end]))

    def _short_or_long(self) -> Framing:
        """Tells a 4-byte length, of which two bytes are 0, from a 2-byte one: no message begins with such bytes.

        What has been long once stays so.
        """
        buffer = self.buffer
        if len(buffer) < 3 or any(buffer[2:4]) or not any(buffer[:2]):
            return Framing.SHORT
        if len(buffer) > 3:
            self._way.framing = Framing.LONG
        return Framing.LONG

    def _decide(self) -> bool:
        """Looks at the first bytes of a direction; False when there are too few to tell."""
        way, opposite = self._way, self._way.opposite
        framing, header = _first(self.buffer, expected=self._is_expected())
        if framing is Framing.FOREIGN and self._is_answer():
            framing = Framing.EITHER if opposite.framing is Framing.LONG else Framing.SHORT
        if framing is Framing.FOREIGN and self._is_damaged():
            self._opens = True
            self._seek(_Loss(self._number, self._time, 0, 0, NOT_BY_INIT))
            return True
        if framing is Framing.FOREIGN and self._is_asked():
            # Who is asked to INIT may CLOSE instead.
            cut = self._next(Framing.SHORT)
            if cut is None:
                return False
            framing = Framing.SHORT if cut[1] and way.plausible(cut[1]) else Framing.FOREIGN
        if framing is Framing.UNDECIDED:
            return False
        way.framing = framing
        if header:
            self._consume(header)
        if framing is Framing.FOREIGN and (opposite.framing is Framing.WEBSOCKET or self._is_refusal()):
            opposite.framing = Framing.FOREIGN  # the upgrade was refused, or to something that cannot be read
        return True

    def _is_refusal(self) -> bool:
        """Tells whether HTTP answers a request of which the capture has only a part."""
        return self._way.opposite.framing is Framing.UNDECIDED and self.buffer.startswith(b"HTTP/")

    def _is_answer(self) -> bool:
        """Tells whether who was asked to INIT says something else in a packet, or with a fault: most often CLOSE."""
        place = short(self.buffer, 0)
        if place is None or not self._may_answer():
            return False
        whole = place.start < place.end == len(self.buffer)
        return whole and self._way.plausible(bytes(self.buffer[place.start :]))

    def _may_answer(self) -> bool:
        """Tells whether the other end was heard, in low latency too, where the last CLOSE has a 2-byte length."""
        return self._is_asked() or self._way.opposite.framing is Framing.LONG

    def _is_asked(self) -> bool:
        """Tells whether the other end has begun a session."""
        return self._way.opposite.framing in (Framing.SHORT, Framing.EITHER)

    def _is_damaged(self) -> bool:
        """Tells whether what begins a session is damaged, or left out."""
        expected = self._is_expected() or self._is_telling(len(self.buffer))
        return expected and not _OTHER.match(self.buffer)

    def _is_telling(self, end: int) -> bool:
        """Tells whether the buffer is whole batches up to a place, the first of which is unmistakable wherever it stands."""
        first = place = short(self.buffer, 0)
        while place is not None and place.start < place.end < end:
            place = short(self.buffer, place.end)
        if first is None or place is None or place.end != end:
            return False
        batch = bytes(self.buffer[first.start : first.end])
        return (telling(batch) or opens(batch)) and self._way.plausible(batch)

    def _begins(self, batch: bytes) -> bool:
        """Looks at the first batch of a direction: to what an upgrade to WebSocket was, is not told before."""
        way = self._way
        way.begun = way.framing is not Framing.WEBSOCKET or way.opposite.begun or _is_init(batch, len(batch))
        if not way.begun:
            way.framing = way.opposite.framing = Framing.FOREIGN
        return way.begun

    # The way back

    def _lose(self, why: str) -> None:
        """Takes note that no batch begins the buffer."""
        self._opens = self._answers = False
        skipped = self._drop_message()
        if self._resumed:  # what was found here is none: it would be found again, for ever
            self._consume(1)
            skipped += 1
        self._seek(_Loss(self._number, self._time, 0, skipped, why))

    def _seek(self, loss: _Loss) -> None:
        """Begins to look for a batch, in what there is and what will come."""
        self._add_loss(loss)
        way = self._way
        self._sought = way.framing, way.opposite.framing
        framing = next((framing for framing in self._sought if framing in ZENOH), Framing.UNDECIDED)
        framings = _STYLES.get(framing, (framing,))
        unsure = framing is Framing.WEBSOCKET and not (way.begun or way.opposite.begun)
        proof = KNOWN
        if framing is Framing.UNDECIDED or unsure:  # an upgrade to WebSocket may be to anything
            proof = EXPECTED if self._is_expected() else STRANGER
        if not self._marks:
            self._consumed = 0
            if self.buffer:
                self._mark()
        ends = [mark.end - self._consumed for mark in self._marks]
        self._seekers = [Seeker(one, proof, self._limits.undecided, list(ends)) for one in framings]

    def _is_expected(self) -> bool:
        """Tells whether one of the ends has the port of Zenoh."""
        link = self._way.link
        return DEFAULT_PORT in {link.first.port, link.second.port}

    def _first_batch(self) -> Place | None:
        """Returns the whole batch that the packet is with which the search began, if it is one."""
        place = short(self.buffer, 0) if self._opens else None
        ends = place is not None and any(mark.end - self._consumed == place.end for mark in self._marks)
        return place if ends and not _TLS.match(self.buffer) else None

    def _opening(self) -> Found | None:
        """Tells whether a session begins with the first packet, which needs no batches behind it."""
        place = self._first_batch()
        batch = bytes(self.buffer[place.start : place.end]) if place else b""
        begins = opens(batch) and self._way.plausible(batch)
        if self._answers and len(self._marks) == 1:
            begins |= self._is_answer()
        if self._opens and self._gap is not None and self._gap.why is NOT_BY_INIT:
            begins |= self._is_telling(self._marks[0].end - self._consumed)
        return Found(0, PLENTY) if begins else None

    def _is_beginning(self) -> bool:
        """Tells whether it is INIT that came first: all that is missing is the SYN, or it stands behind it."""
        place = self._first_batch()
        return place is not None and _is_init(self.buffer[place.start :], place.end - place.start)

    def _is_upgrade(self) -> bool:
        """Tells the same of an upgrade to WebSocket."""
        begins = self._opens and self._gap is not None and self._gap.why == BEGINS_INSIDE
        undecided = self._way.framing is Framing.UNDECIDED
        if not begins or not undecided:
            return False
        return websocket.upgrade(self.buffer, expected=self._is_expected())[0] is Answer.YES

    def _opened(self, at: int) -> bool:
        """Tells whether OPEN_ACK is all that stands in front of a place."""
        place = self._first_batch()
        if place is None or place.end != at or self.buffer[place.start] & 0x1F != TransportId.OPEN:
            return False
        return self._way.plausible(bytes(self.buffer[place.start : at]))

    def _look(self, *, last: bool) -> tuple[Found, Framing] | None:
        """Asks all seekers."""
        best, framing = self._opening(), Framing.SHORT
        for seeker in self._seekers:
            found = seeker.look(self.buffer, self._way.plausible, last=last)
            if found is not None and (best is None or found.bits > best.bits):
                best, framing = found, seeker.framing
        if best is not None and framing is Framing.LONG and self._opened(best.at):
            best, framing = Found(0, best.bits), Framing.EITHER
        return None if best is None else (best, framing)

    def _search(self, *, last: bool) -> Iterator[Gap]:
        """Goes on looking; then either a batch begins the buffer, or there are seekers still."""
        way, nothing = self._way, _Loss(0, 0, 0, 0, "")
        if self._is_upgrade():
            self._seekers, self._gap = [], None
            return
        # With what the other direction has shown meanwhile; on the port of Zenoh as soon as more comes, and not without.
        if self._sought != (way.framing, way.opposite.framing) and not (last and self._is_expected()):
            self._seek(nothing)
        found = self._look(last=last)
        if found is not None:
            (best, framing), gap = found, self._gap
            assert gap is not None, "a search begins with one"
            whole = gap.why == BEGINS_INSIDE and best.at == 0 and self._is_beginning()
            self._consume(best.at)
            self._seekers, self._gap, self._resumed = [], None, True
            still = framing is Framing.SHORT and not {Framing.EITHER, Framing.LONG}.isdisjoint(self._sought)
            way.framing, way.begun = Framing.EITHER if still else framing, True
            if not whole:
                yield Gap(way, gap.number, gap.time, gap.missing, gap.skipped + best.at, gap.why)
        elif len(self.buffer) > self._limits.undecided or (
            len(self._marks) > MOST_PACKETS and self._seekers[0].proof.at_once
        ):
            if way.framing is Framing.UNDECIDED:
                way.framing = Framing.FOREIGN
                self.forget()
                return
            self._opens = False
            self._seek(nothing._replace(skipped=self._clear()))
