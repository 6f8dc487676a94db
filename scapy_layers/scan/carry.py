"""Messages in fragments that are under way where a capture is cut: what the part behind the cut has to be told."""

from __future__ import annotations

import numpy as np

from scapy_layers.codes import TransportId
from scapy_layers.derive.columns.units import UnitKind
from scapy_layers.scan.pieces import Chunk
from scapy_layers.scan.plain import Language
from scapy_layers.scan.sessions import Sessions, part_of

TAIL = 64
"""So many units at the end of a piece are looked at, each message by itself."""


def carry_over(sessions: Sessions, chunk: Chunk, language: Language) -> None:
    """Takes the fragments of a piece of a capture, by their batches, and all that is said at its end."""
    first = max(0, len(chunk.units.start) - TAIL)
    damaged = {one.unit for one in chunk.damaged}
    events = iter(chunk.events)
    event = next(events, None)
    steps = [
        *_fragments(chunk, first),
        *(first + np.flatnonzero(chunk.units.kind[first:] == UnitKind.BATCH)).tolist(),
    ]
    unknown = set(np.unique(chunk.connection[:first]).tolist())
    for unit in steps:
        if unit >= first and unknown:
            sessions.pass_over(unknown)
            unknown = set()
        connection, forward = int(chunk.connection[unit]), bool(chunk.forward[unit])
        if unit in damaged:
            sessions.doubt(connection, forward)
            continue
        for message in language.messages(
            chunk.units.data[chunk.units.start[unit] : chunk.units.end[unit]].tobytes()
        ):
            while event is not None and (event.unit, event.offset) <= (unit, message.at):
                sessions.take_note(event.event)
                event = next(events, None)
            if unit < first:
                sessions.pass_over((connection,))  # what FRAMEs stand in front of it nobody knows
            if not message.own and message.name in {"FRAME", "FRAGMENT"}:
                sessions.take(part_of(message, unit, connection, forward, bool(chunk.tcp[unit])))
            if message.refused:
                sessions.doubt(connection, forward)
    while event is not None:
        sessions.take_note(event.event)
        event = next(events, None)
    sessions.pass_over(unknown)


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
