"""Fragments back into messages, one chain for each lane, within bounds. Spec: Fragmentation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scapy_layers.codes import Kind, Priority, TransportId
from scapy_layers.primitives import Reader
from scapy_layers.scan.carry import MOST, Carried
from scapy_layers.scan.plain import Language
from scapy_layers.scan.watch import Talk

ALL = 128 << 20
"""Bytes of all messages that are not complete."""

PIECE = 64
"""Bytes that a fragment costs besides its data: an empty one is not free."""

_BITS = (7, 14, 28, 64)
"""Bits of sequence numbers for the resolution codes 0 to 3: nodes use what 1, 2 and 4 VLE bytes hold."""

_FAR_BACK = (1 << _BITS[0]) - 1 >> 1
"""Numbers further back are none that came before, as long as the resolution is not known."""

_WRAPS = frozenset((1 << bits) - 1 for bits in (7, 14, 28, 32, 63, 64))
"""Where nodes begin again, as far as it is not known."""

Lane = tuple[int, bool, int, int]
"""Connection, direction, reliability, priority."""


class Part(NamedTuple):
    """What a FRAME or FRAGMENT says.

    Attributes:
        unit: The batch it stands in.
        lane: Its lane.
        sn: Its sequence number.
        data: Slice of a message; None for a FRAME.
        more: The message goes on.
        first: It has the extension First.
        drop: It has the extension Drop.
    """

    unit: int
    lane: Lane
    sn: int
    data: bytes | None = None
    more: bool = False
    first: bool = False
    drop: bool = False


class Whole(NamedTuple):
    """A message that is complete.

    Attributes:
        unit: The batch that completed it.
        data: Its bytes.
        pieces: How many fragments it was.
    """

    unit: int
    data: bytes
    pieces: int


@dataclass(slots=True)
class _Chain:
    last: int = 0
    parts: list[bytes] = field(default_factory=list)
    size: int = 0


class Reassembly:
    """The unfinished messages of all lanes.

    Attributes:
        held: Bytes they cost.
        doubts: The directions of which something was not captured: what begins there has to say so.
    """

    def __init__(self, doubts: Collection[tuple[int, bool]] = ()) -> None:
        self.held = 0
        self.doubts = set(doubts)
        self._chains: dict[Lane, _Chain] = {}
        # The last number of what ended on a lane, and whether it was in fragments: behind it a message begins.
        self._ends: dict[Lane, tuple[int, bool]] = {}
        # The latest number of each lane, of whatever was not dropped.
        self._latest: dict[Lane, int] = {}
        # Connections of which not all was looked at: where their lanes stand is not known.
        self._passed: set[int] = set()
        # Lanes on which the next number counts as it is: what came in front of it was not heard.
        self._unsure: set[Lane] = set()

    def replay(self, carried: Iterable[Carried], talks: Mapping[int, Talk], language: Language) -> None:
        """Takes the fragments in front of a part of a capture."""
        self._passed.update(talks)
        for connection, forward, data in carried:
            message = language.read(Kind.TRANSPORT, TransportId.FRAGMENT, Reader(data))
            if message is None or message.refused:
                continue
            qos = message.extension("QoS")
            priority = int(Priority.DATA) if qos is None else qos.fields["priority"]
            fields = message.fields
            part = Part(
                -1,
                (connection, forward, fields["R"], priority),
                fields["sn"],
                fields["data"],
                bool(fields["M"]),
                message.extension("First") is not None,
                message.extension("Drop") is not None,
            )
            self.take(part, talks.get(connection))

    def doubt(self, connection: int, forward: bool) -> None:
        """Takes note that something of a direction was not heard: the next number of each lane counts as it is."""
        way = connection, forward
        self.doubts.add(way)
        self._unsure.update(lane for lane in (*self._latest, *self._chains) if lane[:2] == way)

    def passed(self, connections: Collection[int]) -> None:
        """Takes note that the FRAMEs of some connections were not looked at: where lanes stand is not known."""
        self._passed.update(connections)
        for known in (self._ends, self._latest):
            for lane in [lane for lane in known if lane[0] in connections]:
                del known[lane]

    def forget(self, connection: int) -> None:
        """Drops what belongs to a connection that is over, or on which another session begins."""
        for lane in [lane for lane in self._chains if lane[0] == connection]:
            self._drop(lane)
        self.passed((connection,))
        self._passed.remove(connection)
        self._unsure = {lane for lane in self._unsure if lane[0] != connection}
        self.doubts = {way for way in self.doubts if way[0] != connection}

    def take(self, part: Part, talk: Talk | None) -> Whole | None:
        """Takes the next FRAME or FRAGMENT of a lane; returns the message that it completes."""
        session = None if talk is None else talk.session
        patch = None if session is None else session.patch
        bits = None if session is None or session.fsn is None else _BITS[session.fsn]
        lane, sn = part.lane, part.sn
        chain = self._chains.get(lane)
        if self._is_ignored(part, bits, talk):
            return None
        self._latest[lane] = sn
        if part.data is None:
            self._end(lane, sn, in_fragments=False)
            return None
        if chain is not None and (
            (part.first and patch != 0) or not _follows(sn, chain.last, bits) or (patch and not chain.size)
        ):
            self._drop(lane)
            chain = None
        marks = patch is None or patch >= 1
        if marks and part.drop:
            self._end(lane, sn)
            return None
        if chain is None:
            if not (marks and part.first) and (patch or not self._may_begin(lane, sn, bits, talk)):
                if not part.more:
                    self._end(lane, sn)
                return None
            chain = self._chains[lane] = _Chain()
        self._grow(lane, chain, part)
        if part.more or lane not in self._chains:
            return None
        self._end(lane, sn)
        return Whole(part.unit, b"".join(chain.parts), len(chain.parts))

    def _is_ignored(self, part: Part, bits: int | None, talk: Talk | None) -> bool:
        """Tells whether receivers drop a message because of its number, or as there are none in low latency."""
        lane, sn = part.lane, part.sn
        if (talk is not None and talk.session.lowlatency) or (bits is not None and sn >> bits):
            return True
        if lane in self._unsure:
            self._unsure.remove(lane)
            return False
        return _is_old(sn, self._last(lane, bits, talk), bits)

    def _last(self, lane: Lane, bits: int | None, talk: Talk | None) -> int | None:
        """Returns the number in front of the next message of a lane; None when that is not known."""
        chain = self._chains.get(lane)
        latest = self._latest.get(lane, None if chain is None else chain.last)
        if latest is not None or talk is None or bits is None or lane[:2] in self.doubts:
            return latest
        start = talk.starts[int(not lane[1])]
        return None if start is None else start - 1 & (1 << bits) - 1

    def _may_begin(self, lane: Lane, sn: int, bits: int | None, talk: Talk | None) -> bool:
        """Tells whether a fragment that does not say so begins a message."""
        if lane in self._ends:
            end, in_fragments = self._ends[lane]
            # Real nodes take one number more than they send for a message in fragments.
            later = _after(end, bits) if in_fragments else ()
            return _follows(sn, end, bits) or any(_follows(sn, one, bits) for one in later)
        index = int(not lane[1])
        if talk is None or not talk.opened[index] or talk.inits[index] is None or lane[:2] in self.doubts:
            return False
        return lane[0] in self._passed or talk.starts[index] == sn

    def _grow(self, lane: Lane, chain: _Chain, part: Part) -> None:
        assert part.data is not None
        chain.last = part.sn
        chain.parts.append(part.data)
        chain.size += len(part.data)
        self.held += len(part.data) + PIECE
        self._chains[lane] = self._chains.pop(lane)  # the latest one stands last
        if chain.size + PIECE * len(chain.parts) > MOST:
            self._drop(lane)
        while self.held > ALL:
            self._drop(next(iter(self._chains)))

    def _end(self, lane: Lane, sn: int, *, in_fragments: bool = True) -> None:
        self._drop(lane)
        self._ends[lane] = sn, in_fragments

    def _drop(self, lane: Lane) -> None:
        chain = self._chains.pop(lane, None)
        if chain is not None:
            self.held -= chain.size + PIECE * len(chain.parts)


def _after(sn: int, bits: int | None) -> tuple[int, ...]:
    if bits is not None and bits < _BITS[-1]:
        return (sn + 1 & (1 << bits) - 1,)
    return (sn + 1, 0) if sn in _WRAPS else (sn + 1,)


def _is_old(sn: int, last: int | None, bits: int | None) -> bool:
    """Tells whether receivers drop a number: it came before, or lies behind what came."""
    if last is None:
        return False
    if bits is None and last - sn > _FAR_BACK:
        # So far back only if a small resolution wrapped where nobody saw it.
        return False
    mask = (1 << (_BITS[-1] if bits is None else bits)) - 1
    step = sn - last & mask
    return step == 0 or (step > mask >> 1 and not _follows(sn, last, bits))


def _follows(sn: int, last: int, bits: int | None) -> bool:
    return sn in _after(last, bits)
