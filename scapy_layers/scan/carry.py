"""Messages in fragments that are under way where a capture is cut: what the part behind the cut has to be told."""

from __future__ import annotations

from collections import deque

import numpy as np

from scapy_layers.codes import TransportId
from scapy_layers.derive.columns.units import UnitKind
from scapy_layers.scan.events import BEFORE, BEHIND
from scapy_layers.scan.pieces import Chunk
from scapy_layers.scan.plain import Language, Plain
from scapy_layers.scan.sessions import Sessions, part_of

TAIL = 16
"""So many units at the end of a piece are looked at, each message by itself."""


def carry_over(sessions: Sessions, chunk: Chunk, language: Language) -> None:
    """Takes the fragments of a piece of a capture, by their batches, and all that is said at its end."""
    first = max(0, len(chunk.units.start) - TAIL)
    damaged = {one.unit for one in chunk.damaged}
    unknown = set(np.unique(chunk.connection[:first]).tolist())
    events = deque(chunk.events)

    def follow(unit: int, offset: int) -> None:
        while events and (events[0].unit, events[0].offset) <= (unit, offset):
            sessions.take_note(events.popleft().event)

    for unit in [*_fragments(chunk, first), *range(first, len(chunk.units.start))]:
        if unit >= first and unknown:
            follow(first - 1, BEHIND)
            sessions.pass_over(unknown)
            unknown.clear()
        connection = int(chunk.connection[unit])
        if unit in damaged:
            follow(unit, BEFORE)
            sessions.doubt(connection, bool(chunk.forward[unit]))
        elif chunk.units.kind[unit] == UnitKind.BATCH:
            raw = chunk.units.data[chunk.units.start[unit] : chunk.units.end[unit]].tobytes()
            for message in language.messages(raw):
                follow(unit, message.at)
                if unit < first:
                    sessions.pass_over((connection,))  # what FRAMEs stand in front of it nobody knows
                _take(sessions, chunk, unit, message)
    follow(len(chunk.units.start), BEHIND)


def _take(sessions: Sessions, chunk: Chunk, unit: int, message: Plain) -> None:
    """Takes one message of a unit."""
    connection, forward = int(chunk.connection[unit]), bool(chunk.forward[unit])
    if not message.own and message.name in {"FRAME", "FRAGMENT"}:
        sessions.take(part_of(message, unit, connection, forward, bool(chunk.tcp[unit])))
    if message.refused:
        sessions.doubt(connection, forward)


def _fragments(chunk: Chunk, stop: int) -> list[int]:
    """Returns the units in front of one that begin with FRAGMENT."""
    units = chunk.units
    start, end, kind = units.start[:stop], units.end[:stop], units.kind[:stop]
    if not len(start):
        return []
    head = units.data[np.minimum(start, len(units.data) - 1)]
    return np.flatnonzero(
        (head & 0x1F == TransportId.FRAGMENT) & (end > start) & (kind == UnitKind.BATCH)
    ).tolist()
