"""Files of rows cut into pieces at line ends, and hashed and counted on the way: one pass, no more memory than a block.

A piece says where its lines are and which number the first of them has, so that whoever reads it needs nothing else
of the file. A line that is too long to be held is a piece of its own and is never read whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spark_reports.rows import LONGEST_LINE, check_regular

BLOCK = 4 << 20
"""Bytes that are read at once; a line longer than LONGEST_LINE spans at least one block without a line end."""

THREADS = 2
"""Files are scanned side by side: hashing leaves the interpreter to others."""

_LINE_FEED = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """Some whole lines of a file.

    Attributes:
        start: Byte at which the first line begins.
        end: Byte behind the last line and its end.
        first_line: Number of the first line, from 1.
        lines: How many there are.
        last: They end the file, so that the last of them may have no line end.
        long: One line that is longer than LONGEST_LINE.
    """

    start: int
    end: int
    first_line: int
    lines: int
    last: bool = False
    long: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """What a file was when it was scanned.

    Attributes:
        digest: SHA-256 of its bytes, hexadecimal.
        size: Bytes; what was added since is not looked at.
        lines: Lines, a last one without line end included.
        pieces: All of them, in order.
    """

    digest: str
    size: int
    lines: int
    pieces: tuple[Piece, ...]


@dataclass(slots=True)
class _Cutter:
    """Follows the line ends of a file.

    Attributes:
        most: Bytes after which a piece ends at the next block.
        start: Where the piece that is not finished begins.
        before: Lines in front of it.
        lines: Line ends so far.
        line: Where the line that is not finished begins.
    """

    most: int
    start: int = 0
    before: int = 0
    lines: int = 0
    line: int = 0
    pieces: list[Piece] = field(default_factory=list)

    def cut(self, end: int, lines: int, *, last: bool = False, long: bool = False) -> None:
        """Ends the piece that is not finished, ``lines`` line ends into the file."""
        if end > self.start:
            self.pieces.append(
                Piece(self.start, end, self.before + 1, lines - self.before, last=last, long=long)
            )
        self.start, self.before = end, lines

    def add(self, at: int, buffer: bytearray, size: int) -> None:
        """Follows the next block, which begins ``at`` bytes into the file and has ``size`` of the bytes of a buffer."""
        count = int(np.count_nonzero(np.frombuffer(buffer, np.uint8, size) == _LINE_FEED))
        if not count:
            return
        self._close_long(at + buffer.find(b"\n") + 1, self.lines + 1)
        self.lines += count
        self.line = at + buffer.rfind(b"\n", 0, size) + 1
        if self.line - self.start >= self.most:
            self.cut(self.line, self.lines)

    def end(self, size: int) -> None:
        """Follows the end of the file."""
        if size > self.line:
            self.lines += 1
            self._close_long(size, self.lines)
        self.cut(size, self.lines, last=True)

    def _close_long(self, end: int, lines: int) -> None:
        """Makes a line a piece of its own if it is too long."""
        if end - self.line > LONGEST_LINE:
            self.cut(self.line, lines - 1)
            self.cut(end, lines, long=True)


def scan(path: Path, most: int, block: int = BLOCK) -> Scan:
    """Reads a file once.

    Args:
        path: The file.
        most: Bytes of a piece, to the next block or line end; a piece with fewer is the last one of its file or stands
            in front of a line that is too long.
        block: Bytes to read at once.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.sha256()
    cutter = _Cutter(most)
    buffer = bytearray(block)
    view = memoryview(buffer)
    at = 0
    check_regular(path)
    with path.open("rb", buffering=0) as file:
        # What a run that goes on writes meanwhile belongs to the next look at it.
        size = os.fstat(file.fileno()).st_size
        while at < size and (count := file.readinto(view[: min(block, size - at)])):
            digest.update(view[:count])
            cutter.add(at, buffer, count)
            at += count
    cutter.end(at)
    return Scan(digest.hexdigest(), at, cutter.lines, tuple(cutter.pieces))


def scan_all(most: Mapping[Path, int]) -> dict[Path, Scan | OSError]:
    """Scans files side by side; what cannot be read has the error instead.

    Args:
        most: The files, each with the bytes of a piece.
    """

    def one(path: Path) -> Scan | OSError:
        try:
            return scan(path, most[path])
        except OSError as error:
            return error

    with ThreadPoolExecutor(THREADS, thread_name_prefix="scan") as pool:
        return dict(zip(most, pool.map(one, most), strict=True))


def bundle(digests: Mapping[str, str]) -> str:
    """Returns the hash of files by their names and digests, as ``store.bundle_of`` has it."""
    whole = hashlib.sha256()
    for name, digest in sorted(digests.items()):
        whole.update(f"{name}\0{digest}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()
