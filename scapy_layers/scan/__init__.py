"""Captures into what Zenoh's links carried, many packets at a time: what ``stream`` and ``conversation`` find. No Scapy.

``chunks(path)`` yields the batches and datagrams of a capture piece by piece, with flat memory; ``plan(path)`` cuts a
large file into parts that can be read apart from each other.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scapy_layers.capture import CHUNK, CaptureError, Source, is_compressed, opened
from scapy_layers.scan.carry import carry_over
from scapy_layers.scan.pieces import Chunk, Damaged, EventRow, GapRow
from scapy_layers.scan.plain import Language
from scapy_layers.scan.records import read_records
from scapy_layers.scan.scanner import Scanner
from scapy_layers.scan.sessions import Sessions
from scapy_layers.scan.watch import Session, Talk, Watch

__all__ = [
    "Chunk",
    "Damaged",
    "EventRow",
    "GapRow",
    "Language",
    "Scanner",
    "Session",
    "Sessions",
    "Split",
    "Talk",
    "chunks",
    "plan",
    "scanner",
]

SIZE = 16 << 20
"""Bytes of a file that are read at a time."""

PART = 64 << 20
"""Bytes of a part of a large file."""


class Split(NamedTuple):
    """Part of a capture. Can be pickled.

    Attributes:
        start: Where it begins, in bytes of the file.
        end: Where it ends; None for the end of the file.
        packet: Number of its first packet.
        state: What was known of the connections there.
    """

    start: int
    end: int | None
    packet: int
    state: bytes

    def restored(self) -> tuple[Scanner, Sessions]:
        """Returns what reads it, and what is under way in front of it."""
        scanner, sessions = pickle.loads(self.state)  # noqa: S301  (made by ``plan``)
        return scanner, sessions


def begin(language: Language | None = None) -> Scanner:
    """Returns what reads a capture from its beginning."""
    return Scanner(Watch(language or language_of_catalogue()))


@cache
def language_of_catalogue() -> Language:
    """Returns what reads the messages of the catalogue, the same for all captures: to make it takes longer than a small one."""
    from scapy_layers.catalogue import shapes

    return Language(shapes())


def chunks(
    source: Source,
    *,
    progress: Callable[[int], None] | None = None,
    size: int = SIZE,
    split: Split | None = None,
    language: Language | None = None,
    state: Scanner | None = None,
) -> Iterator[Chunk]:
    """Yields the batches and datagrams of a capture in the order in which ``stream`` gives them.

    Args:
        source: Path of a file, or a stream open for reading bytes, which need not be able to seek.
        progress: Told how many bytes have been read so far, compressed ones if so.
        size: Bytes of the file that are read at a time; the first pieces are smaller.
        split: Which part of the file, as ``plan`` says; all of it when None.
        language: Reads the messages; that of the catalogue when None.
        state: What shall read it, to be asked for counts afterwards; made when None.

    Raises:
        CaptureError: The file is no capture, or damaged; after all whole packets.
        OSError: The file cannot be read.
    """
    reader = state or (begin(language) if split is None else split.restored()[0])
    end = None if split is None else split.end
    with opened(source) as file:
        if reader.position.offset:
            file.seek(reader.position.offset)
        try:
            for piece in read_records(file, reader.position, size=size, end=end, progress=progress):
                yield from reader.take(piece)
        except CaptureError:
            yield from reader.finish()
            raise
    if end is None:
        yield from reader.finish()


def plan(
    path: Path,
    size: int = PART,
    *,
    language: Language | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Split]:
    """Cuts a capture into parts that can be read apart from each other: together they are the whole, exactly.

    Reads the file once, without looking into messages. What is compressed cannot be cut, nor can standard input: one part.
    A file that is damaged is cut up to there; who reads the last part is told.

    Args:
        path: A file.
        size: Bytes of a part, about.
        language: Reads the messages; that of the catalogue when None.
        progress: Told how many bytes have been read so far.

    Raises:
        OSError: The file cannot be read.
    """
    reader, sessions = begin(language), Sessions()
    splits = [Split(0, None, 1, _state(reader, sessions))]
    with path.open("rb") as file:
        if path.stat().st_size <= size or is_compressed(file.read(CHUNK)):
            return splits
        file.seek(0)
        try:
            for piece in read_records(file, reader.position, size=min(size, SIZE), progress=progress):
                for chunk in reader.take(piece):
                    carry_over(sessions, chunk, reader.watch.language)
                position = reader.position
                if position.offset - splits[-1].start >= size:
                    splits[-1] = splits[-1]._replace(end=position.offset)
                    splits.append(Split(position.offset, None, position.number, _state(reader, sessions)))
        except CaptureError:
            pass
    return splits


def _state(reader: Scanner, sessions: Sessions) -> bytes:
    return pickle.dumps((reader, sessions), pickle.HIGHEST_PROTOCOL)
