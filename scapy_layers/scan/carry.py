"""Messages in fragments that are under way where a capture is cut: what the part behind the cut has to be told."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scapy_layers.codes import Kind, TransportId
from scapy_layers.primitives import Reader
from scapy_layers.scan.pieces import Chunk
from scapy_layers.scan.plain import Language
from scapy_layers.scan.sessions import Part, Sessions, part_of


def carry(sessions: Sessions, chunk: Chunk, language: Language) -> None:
    """Takes the fragments of a piece of a capture, by their batches; no FRAME is looked at."""
    events = iter(chunk.events)
    event = next(events, None)
    for part in _parts(chunk, language):
        # What stands in the same batch comes behind its fragment, which is its first message.
        while event is not None and (event.unit, event.offset) < (part.unit, 0):
            sessions.take_note(event.event)
            event = next(events, None)
        sessions.pass_over((part.connection,))
        sessions.take(part)
    while event is not None:
        sessions.take_note(event.event)
        event = next(events, None)
    sessions.pass_over(set(np.unique(chunk.connection).tolist()))


def _parts(chunk: Chunk, language: Language) -> Iterator[Part]:
    units = chunk.units
    if not len(units.start):
        return
    head = units.data[np.minimum(units.start, len(units.data) - 1)]
    begins = (head & 0x1F == TransportId.FRAGMENT) & (units.end > units.start) & (units.kind == 0)
    begins[[one.unit for one in chunk.damaged]] = False
    for unit in np.flatnonzero(begins).tolist():
        data = units.data[units.start[unit] : units.end[unit]].tobytes()
        message = language.read(Kind.TRANSPORT, TransportId.FRAGMENT, Reader(data))
        if message is None or message.refused:
            continue
        yield part_of(
            message, unit, int(chunk.connection[unit]), bool(chunk.forward[unit]), bool(chunk.tcp[unit])
        )
