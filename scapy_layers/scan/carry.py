"""Messages in fragments that are under way where a capture is cut: what the part behind the cut has to be told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scapy_layers.codes import Kind, TransportId
from scapy_layers.primitives import Reader
from scapy_layers.scan.pieces import Chunk
from scapy_layers.scan.plain import Language

MOST = 64 << 20
"""Bytes of fragments that are kept for one lane: no larger message is put together."""


class Carried(NamedTuple):
    """A batch that is one FRAGMENT.

    Attributes:
        connection: Number of its link.
        forward: Which way it went.
        data: Its bytes.
    """

    connection: int
    forward: bool
    data: bytes


class Carry:
    """Keeps the fragments since the last message of each lane that was whole. Can be pickled.

    Attributes:
        doubts: The directions of which something was not captured or could not be read.
    """

    def __init__(self) -> None:
        self.doubts: set[tuple[int, bool]] = set()
        self._lanes: dict[tuple[int, bool, int, int], list[Carried]] = {}
        self._sizes: dict[tuple[int, bool, int, int], int] = {}

    @property
    def fragments(self) -> list[Carried]:
        """All that is kept; lane by lane, in order."""
        return [one for lane in self._lanes.values() for one in lane]

    def take(self, chunk: Chunk, language: Language) -> None:
        """Takes note of what a piece of a capture holds."""
        for row in chunk.gaps:
            self.doubts.add((row.gap.way.link.number, row.gap.way.forward))
        units = chunk.units
        if len(units.start):
            head = units.data[np.minimum(units.start, len(units.data) - 1)]
            those = np.flatnonzero(
                (head & 0x1F == TransportId.FRAGMENT) & (units.end > units.start) & (units.kind == 0)
            )
            for index in those.tolist():
                data = units.data[units.start[index] : units.end[index]].tobytes()
                self._fragment(int(chunk.connection[index]), bool(chunk.forward[index]), data, language)
        for talk in chunk.talks:
            for lane in [lane for lane in self._lanes if lane[0] == talk.link.number]:
                del self._lanes[lane]

    def _fragment(self, connection: int, forward: bool, data: bytes, language: Language) -> None:
        message = language.read(Kind.TRANSPORT, TransportId.FRAGMENT, Reader(data))
        if message is None or message.refused:
            return
        qos = message.extension("QoS")
        lane = connection, forward, message.fields["R"], 5 if qos is None else qos.fields["priority"]
        kept = self._lanes.setdefault(lane, [])
        before = self._sizes.get(lane, 0)
        if message.extension("First") is not None or not before:
            # What ended in front of it says that a message begins here; nothing earlier counts.
            del kept[:-1]
            before = sum(len(one.data) for one in kept)
        kept.append(Carried(connection, forward, data))
        self._sizes[lane] = before + len(data)
        if not message.fields["M"] or message.extension("Drop") is not None or self._sizes[lane] > MOST:
            del kept[:-1]
            self._sizes[lane] = 0
