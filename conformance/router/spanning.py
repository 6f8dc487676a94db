"""Lengths of links, and the tree of shortest paths from one node: alike on every node that knows the same graph.

Among paths of equally many links one has to be chosen, by all nodes alike, or messages get lost or arrive twice.
Real routers make every link a little longer, by up to a hundredth that depends on its two ends; so do we, and
one mesh can be made of both.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

DEFAULT_WEIGHT = 100
"""Weight of a link for which neither end announces one. More than the hundredths on a path can add up to, so the
number of links decides first."""

WORD = 0xFFFF_FFFF_FFFF_FFFF

ZID_BYTES = 16
"""Size of a ZenohID in the hash; shorter ones are filled with zeros."""

Lengths = Mapping[bytes, Mapping[bytes, float]]
"""For each node its neighbours with the length of the link; both directions are there."""


def sip_hash(data: bytes) -> int:
    """Returns the 64-bit SipHash-1-3 of some bytes with an all-zero key."""
    a, b, c, d = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573

    def mix(rounds: int) -> None:
        nonlocal a, b, c, d
        for _ in range(rounds):
            a = (a + b) & WORD
            b = _turned(b, 13) ^ a
            a = _turned(a, 32)
            c = (c + d) & WORD
            d = _turned(d, 16) ^ c
            a = (a + d) & WORD
            d = _turned(d, 21) ^ a
            c = (c + b) & WORD
            b = _turned(b, 17) ^ c
            c = _turned(c, 32)

    filled = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for at in range(0, len(filled), 8):
        word = int.from_bytes(filled[at : at + 8], "little")
        d ^= word
        mix(1)
        a ^= word
    c ^= 0xFF
    mix(3)
    return a ^ b ^ c ^ d


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & WORD


def surplus(low: bytes, high: bytes) -> float:
    """Returns by which part of itself a link is longer, 0 to 0.01; the smaller ZenohID, as bytes, comes first."""
    share = sip_hash(low.ljust(ZID_BYTES, b"\0") + high.ljust(ZID_BYTES, b"\0")) & 0xFFFF_FFFF
    return 0.01 * (share / 0xFFFF_FFFF)


class Links:
    """Lengths of links; what takes long to compute is kept as long as the link is there."""

    def __init__(self) -> None:
        self._surpluses: dict[tuple[bytes, bytes], float] = {}

    def length(self, one: bytes, other: bytes, weight: int = 0) -> float:
        """Returns the length of a link.

        Args:
            one: Wire bytes of the ZenohID of one end.
            other: Those of the other end; the order of the two does not count.
            weight: The larger of the weights that the ends announce; 0 when neither does.
        """
        ends = (one, other) if one < other else (other, one)
        share = self._surpluses.get(ends)
        if share is None:
            share = self._surpluses[ends] = surplus(*ends)
        return (weight or DEFAULT_WEIGHT) * (1.0 + share)

    def keep(self, lengths: Lengths) -> None:
        """Forgets the links that are in no graph any more."""
        self._surpluses = {
            ends: share for ends, share in self._surpluses.items() if ends[1] in lengths.get(ends[0], ())
        }


def length(one: bytes, other: bytes, weight: int = 0) -> float:
    """Returns the length of one link, see ``Links.length``."""
    return Links().length(one, other, weight)


def parents(lengths: Lengths, root: bytes) -> dict[bytes, bytes | None]:
    """Returns for each node that can be reached from the root the one before it, nearest nodes first."""
    found: dict[bytes, bytes | None] = {}
    nearest: dict[bytes, float] = {root: 0.0}
    before: dict[bytes, bytes | None] = {root: None}
    heap = [(0.0, root)]
    while heap:
        far, node = heapq.heappop(heap)
        if node in found:
            continue
        found[node] = before[node]
        for neighbour, link in lengths.get(node, {}).items():
            if neighbour in found:
                continue
            way = far + link
            known = nearest.get(neighbour)
            # Two ways of the very same length differ in the node before: the smaller one wins everywhere.
            if known is None or (way, node) < (known, before[neighbour] or b""):
                nearest[neighbour] = way
                before[neighbour] = node
                heapq.heappush(heap, (way, neighbour))
    return found
