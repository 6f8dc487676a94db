"""What a trace holds as a history, from which captures are written."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from conformance.observe import Direction, Endpoints, History
from fuzz.player.trace import Event
from scapy_layers.batch import LONG_PREFIX, MAX_BATCH, PREFIX, Contents
from scapy_layers.codes import Kind
from scapy_layers.errors import WireError
from scapy_layers.lz4 import decompress

DECODED = 4096
"""Longer batches are not taken apart: it takes long, and tells people little."""

HANDSHAKE = 2
"""Messages in each direction before a session is compressed."""


def history_of(
    events: Iterable[Event],
    endpoints: Mapping[int, Endpoints],
    *,
    names: Mapping[int, str] | None = None,
    compressed: Container[int] = (),
    scouting: Container[int] = (),
) -> History:
    """Returns events as a history.

    Args:
        events: In order; those of links whose beginning is forgotten are left out.
        endpoints: Addresses of the links.
        names: What links are called; their numbers where there is none.
        compressed: Numbers of links that agreed on compression.
        scouting: Numbers of links over which scouting datagrams go.
    """
    history = History()
    passed: dict[tuple[int, Direction], int] = {}
    for event in events:
        ends = endpoints.get(event.link)
        if ends is None:
            continue
        name = (names or {}).get(event.link, str(event.link))
        history.endpoints[name] = ends
        if event.direction in {Direction.OPENED, Direction.ENDED}:
            history.add(event.time_ns, name, event.direction, note=event.note, carried=event.carried)
            continue
        batch = batch_of(event.raw, stream=ends.proto != "udp")
        plain = None
        count = passed[event.link, event.direction] = passed.get((event.link, event.direction), 0) + 1
        if batch is not None and event.link in compressed and count > HANDSHAKE:
            plain = _plain(batch)
        long = batch is not None and len(plain if plain is not None else batch) > DECODED
        history.add(
            event.time_ns,
            name,
            event.direction,
            event.raw,
            batch,
            event.note,
            plain=plain,
            inside=Contents((), None, b"") if long else None,
            kind=Kind.SCOUTING if event.link in scouting else None,
            carried=event.carried,
        )
        if event.note:
            history.annotate(event.note)
    return history


def batch_of(raw: bytes, *, stream: bool) -> bytes | None:
    """Returns bytes without the length in front, even when it lies; None when they are no batch."""
    if not stream:
        return raw
    if len(raw) >= LONG_PREFIX and int.from_bytes(raw[:LONG_PREFIX], "little") == len(raw) - LONG_PREFIX:
        return raw[LONG_PREFIX:]
    return raw[PREFIX:] if len(raw) > PREFIX else None


def _plain(batch: bytes) -> bytes | None:
    if not batch:
        return None
    if not batch[0] & 1:
        return batch[1:]
    try:
        return decompress(batch[1:], MAX_BATCH)
    except WireError:
        return None
