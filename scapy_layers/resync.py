"""Finds the place in a stream where batches begin, when its start or a piece of it is not in the capture.

A stream has no marks between batches; a place can only be believed. Each place is followed: the length that
stands there leads to the next batch, and so on. What is found on the way counts as evidence in bits, that is,
how seldom random bytes would look like that: a length that leads to a place where a packet ended, a header that
a message may have, sequence numbers that count up. Foreign traffic is megabytes of random bytes, so a stream not
known to be Zenoh needs more evidence than one that lost a packet.

Every place is tried once, and goes on only when the bytes it waits for have come; where that is not enough to keep
time linear in the data, the search has a budget.

``prelude/sync.lua`` does the same, step by step: what is changed here has to be changed there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from scapy_layers import lz4, websocket
from scapy_layers.codes import DEFAULT_BATCH_SIZE, NetworkId
from scapy_layers.framing import HEAD, Framing, Looks, Place, binary_message, long, looks, short


class _Style(NamedTuple):
    """How to read a framing: places worth a look, the batch at a place, bits that its length has."""

    candidates: re.Pattern[bytes]
    place: Callable[[bytes | bytearray, int], Place | None]
    length_bits: int


_VLE = rb"[\x80-\xff]{0,8}[\0-\x7f]"
_NETWORK = (
    b"[" + b"".join(re.escape(bytes([flags << 5 | one])) for one in NetworkId for flags in range(8)) + b"]"
)
_MESSAGE = (
    rb"(?:[\x05\x25]" + _VLE + _NETWORK + rb"|[\x85\xa5]" + _VLE + rb"[\x31\xb1]"  # FRAME
    rb"|[\x06\x26\x46\x66]"
    + _VLE
    + rb"|[\x86\xa6\xc6\xe6]"
    + _VLE
    + rb"[\x02\x03\x31\x82\x83\xb1]"  # FRAGMENT
    rb"|[\x01\x21\x41\x61\x81\xa1\xc1\xe1]\x09)"  # INIT
)
_LITERALS = rb"(?:[\x40-\xef]|[\xf0-\xff]\xff{0,3}[\0-\xfe])"
"""The token of an LZ4 block with at least four literals, and how many more there are."""

_SHORT = (
    rb"(?=(?!\0\0)..(?:" + _MESSAGE + rb"|\0" + _MESSAGE + rb"|\x01" + _LITERALS + _MESSAGE + rb")"
    rb"|\x01\0\x04|\x02\0\0\x04|\x02\0[\x03\x23]|\x03\0\0[\x03\x23]"  # KEEP_ALIVE, CLOSE
    rb"|.\0[\x02\x22\x42\x62\x82\xa2\xc2\xe2])"  # OPEN
)
_LONG = rb"(?=[^\0]..\0" + _NETWORK + rb"|\0[^\0].\0" + _NETWORK + rb"|\x01\0\0\0\x04|\x02\0\0\0[\x03\x23])"
_AHEAD = 20
"""Bytes that these patterns look at, at most."""

_STYLES = {
    # Lookaheads: the matches themselves are empty, so that every place is tried.
    Framing.SHORT: _Style(re.compile(_SHORT, re.DOTALL), short, 16),
    Framing.LONG: _Style(re.compile(_LONG, re.DOTALL), long, 32),
    Framing.WEBSOCKET: _Style(re.compile(rb"(?=\x82[\x01-\xff].)", re.DOTALL), binary_message, 20),
}


# The search ---------------------------------------------------------------------------------------


class Proof(NamedTuple):
    """How much evidence is enough, in bits.

    Attributes:
        bits: All evidence, while more bytes may come.
        content: What of it must come from the messages; other protocols have lengths in front, too.
        whole_bits: All evidence, for a chain that begins with a packet and reaches the end of the bytes there are.
        whole_content: What of it must come from the messages then.
        at_once: Such a chain counts at the end of each packet; else when there will be no more bytes.
    """

    bits: int
    content: int
    whole_bits: int
    whole_content: int
    at_once: bool


STRANGER = Proof(40, 24, 24, 8, at_once=False)
"""For a stream that has shown nothing yet: up to 2**18 places are tried in it."""

EXPECTED = Proof(28, 8, 24, 3, at_once=True)
"""For such a stream on the port of Zenoh."""

KNOWN = Proof(18, 3, 24, 3, at_once=True)
"""For a stream of batches with a hole in it."""

MOST_PACKETS = 2048
"""In so many packets a batch has to be found, where tshark has to find it too: Wireshark takes longer for each."""

PLENTY = 64
"""A chain is followed until it has this much evidence."""

_TRIFLE = 3
"""Batches of so few bytes only (KEEP_ALIVE, CLOSE) prove nothing, unless the first packet is nothing else."""

_ASKED = 4096
"""So many bytes more than there are may be asked about: chains that lie over each other must not cost time."""

_UNPACKED = 1 << 19
"""What batches unpack to may have so many bytes more than there are: 250 times its size can stand in each."""

_WORK = 1
"""So many batches are looked at for each byte, at most: chains that meet would otherwise be followed again and again."""

_PATIENCE = 256
"""So many chains may be refused until nothing more is expected of a buffer."""

_BOUNDARY = 6
"""For a chain that begins where a packet begins: batches are written one at a time."""


class Found(NamedTuple):
    """A place where a batch begins, and the evidence for it in bits."""

    at: int
    bits: int


@dataclass(slots=True)
class _Chain:
    """Batches one behind the other, as far as they could be followed."""

    at: int
    begins: bool  # with a packet
    bits: int
    next: int
    content: int = 0
    longest: int = 0
    numbers: dict[int, int] = field(default_factory=dict)  # the latest of each lane
    telling: bool = False  # more than FRAGMENTs, or such that count up
    seen: Looks | None = None  # of the batch at ``next``, as soon as its head is there
    counted: bool = False  # that is evidence already
    proved: int = 0  # where the batches end that are enough evidence; 0 as long as they are not

    def meet(self, seen: Looks, size: int) -> None:
        """Takes note of the head of a batch: a number that counts on tells something before the batch is complete."""
        self.seen, self.counted = seen, False
        self.longest = max(self.longest, size)
        if seen.sn is not None:
            before = self.numbers.get(seen.lane)
            # Behind the last FRAGMENT of a message real nodes leave one out.
            if before is not None and seen.sn - before in {1, 2}:
                self._count(seen.bits + seen.sn_bits)
                self.counted = self.telling = True
            self.numbers[seen.lane] = seen.sn

    def complete(self, end: int, length_bits: int) -> None:
        """Goes on behind the batch whose head was met."""
        assert self.seen is not None, "its head is there"
        if not self.counted:
            self._count(self.seen.bits)
        self.telling |= not self.seen.is_fragment
        self.bits += length_bits
        self.next, self.seen = end, None

    def _count(self, bits: int) -> None:
        self.content += bits
        self.bits += bits


@dataclass(slots=True)
class Seeker:
    """The search in one buffer that grows at its end.

    Attributes:
        framing: How batches are told apart here.
        proof: How much evidence is asked for.
        limit: Largest batch that is waited for, in bytes.
        boundaries: Where packets end in the buffer; the owner adds to it.
        steps: How often a batch of a chain was looked at: what the search has cost.
    """

    framing: Framing
    proof: Proof
    limit: int
    boundaries: list[int] = field(default_factory=list)
    steps: int = 0
    _tried: int = 0
    _passed: set[int] = field(default_factory=set)
    _again: set[int] = field(default_factory=set)
    _asked: int = 0
    _unpacked: int = 0
    _refusals: int = 0
    _waiting: list[tuple[int, int]] = field(default_factory=list)
    _chains: dict[int, _Chain] = field(default_factory=dict)
    _good: list[_Chain] = field(default_factory=list)

    def look(self, data: bytearray, plausible: Callable[[bytes], bool], *, last: bool) -> Found | None:
        """Looks at what is new in the data.

        Args:
            data: The same as before, and what has come since.
            plausible: Has the last word on every batch of a chain.
            last: Nothing more will come.

        Returns:
            Where the first batch begins, and the evidence for that; None as long as there is not enough.
        """
        return None if self._refusals > _PATIENCE else self._look(data, plausible, last=last)

    def _look(self, data: bytearray, plausible: Callable[[bytes], bool], *, last: bool) -> Found | None:
        style = _STYLES[self.framing]
        while self._waiting and self._waiting[0][0] <= len(data):
            chain = self._chains.pop(heappop(self._waiting)[1], None)
            if chain is not None:
                self._follow(style, chain, data)
        for match in style.candidates.finditer(data, self._tried):
            at = match.start()
            if at not in self._passed:  # else it was tried, or is part of a chain
                self._passed.add(at)
                self._start(style, at, data)
        self._tried = max(self._tried, len(data) - _AHEAD)
        best: _Chain | None = None
        if last and not self.proof.at_once:
            self._good += [chain for chain in self._chains.values() if self._is_whole(chain, data)]
        for chain in self._good:  # grows
            if best is not None and (-chain.bits, chain.at) >= (-best.bits, best.at):
                continue
            refused = self._refused(style, chain, data, plausible)
            if refused is None:
                best = chain
            else:
                self._refusals += 1
                self._chains.pop(chain.at, None)
                self._behind(style, refused, data, last=last)
        self._good = []
        return None if best is None else Found(best.at, best.bits)

    def _refused(
        self, style: _Style, chain: _Chain, data: bytearray, plausible: Callable[[bytes], bool]
    ) -> int | None:
        """Returns where the first batch of a chain ends that is not plausible, or may not be asked about any more."""
        at = chain.at
        # What comes behind them may be refused for its own sake.
        while at < (chain.proved or chain.next):
            place = style.place(data, at)
            assert place is not None, "the chain was followed to here"
            start, at, mask = place
            batch = websocket.unmask(bytes(data[start:at]), mask)
            self._asked += len(batch)
            self._unpacked += lz4.weight(batch[1:], DEFAULT_BATCH_SIZE) if batch[0] == 1 else 0
            spent = self._asked > len(data) + _ASKED or self._unpacked > len(data) + _UNPACKED
            if spent or not plausible(batch):
                return at
        return None

    def _behind(self, style: _Style, at: int, data: bytearray, *, last: bool) -> None:
        """Tries what was a part of a chain so far."""
        if at in self._again or at in self._chains or self._refusals > _PATIENCE:
            return
        self._again.add(at)
        self._start(style, at, data)
        chain = self._chains.get(at)
        if (
            chain
            and last
            and not self.proof.at_once
            and chain not in self._good
            and self._is_whole(chain, data)
        ):
            self._good.append(chain)

    def _start(self, style: _Style, at: int, data: bytearray) -> None:
        begins = self._begins(at)
        self._follow(style, _Chain(at, begins, _BOUNDARY if begins else 0, at), data)

    def _begins(self, at: int) -> bool:
        """Tells whether a packet begins at a place."""
        return at == 0 or _among(self.boundaries, at)

    def _is_enough(self, chain: _Chain) -> bool:
        return (
            chain.next > chain.at
            and chain.bits >= self.proof.bits
            and chain.content >= self.proof.content
            and chain.longest > _TRIFLE
            and self._is_told(chain)
        )

    def _is_told(self, chain: _Chain) -> bool:
        """Tells whether there is more than the head of a FRAGMENT, unless packets begin and end with it."""
        return chain.telling or (chain.begins and _among(self.boundaries, chain.next))

    def _is_whole(self, chain: _Chain, data: bytearray) -> bool:
        return (
            chain.begins
            and chain.next == len(data)
            and chain.bits >= self.proof.whole_bits
            and chain.content >= self.proof.whole_content
            # Who only listens says nothing but KEEP_ALIVE, and CLOSE.
            and (chain.longest > _TRIFLE or (chain.at == 0 and self.proof.at_once))
        )

    def _follow(self, style: _Style, chain: _Chain, data: bytearray) -> None:
        """Goes from batch to batch until one is not complete, or the chain breaks or is good enough."""
        while chain.bits < PLENTY or not self._is_enough(chain):
            if self.steps > _WORK * len(data) + _ASKED:
                return
            self.steps += 1
            try:
                place = style.place(data, chain.next)
            except ValueError:
                return
            need = self._need(chain, place, data)
            if not need:
                return
            if place is None or need > len(data):
                heappush(self._waiting, (max(need, len(data) + 1), chain.at))
                self._chains[chain.at] = chain
                break
            end = place.end
            # How many places of this kind there are that the length could have led to by chance.
            targets = len(self.boundaries) if _among(self.boundaries, end) else len(data)
            chain.complete(end, max(style.length_bits - targets.bit_length(), 0))
            if not chain.proved and self._is_enough(chain):
                chain.proved = end
            self._passed.add(end)
        # More than plenty proves nothing more: of several such places the first is taken.
        chain.bits = min(chain.bits, PLENTY)
        if self._is_enough(chain) or (self.proof.at_once and self._is_whole(chain, data)):
            self._good.append(chain)

    def _need(self, chain: _Chain, place: Place | None, data: bytearray) -> int:
        """Returns how many bytes a chain needs to go on; 0 when no batch can stand there."""
        if place is None:
            return chain.next + 1
        start, end, mask = place
        if end == start or end - start > self.limit:
            return 0
        if chain.seen is None:
            need = start + min(HEAD, end - start)
            seen = looks(websocket.unmask(bytes(data[start:need]), mask), end - start)
            if need > len(data) and (not seen.bits or seen.opens):
                return need
            if not seen.bits or (seen.opens and not self._begins(chain.next)):
                return 0
            chain.meet(seen, end - start)
        return end


def _among(places: Sequence[int], place: int) -> bool:
    at = bisect_left(places, place)
    return at < len(places) and places[at] == place
