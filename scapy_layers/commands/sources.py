"""Captures that are given by name: opened, read, and every trouble with them told in one line."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from scapy_layers.commands.terminal import REFUSED, WRONG_USE, Screen, WrongUseError, add_output

if TYPE_CHECKING:
    from scapy_layers.capture import Segment
    from scapy_layers.conversation import Heard
    from scapy_layers.stream import Gap, Unit

STANDARD_INPUT = "-"


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Adds the captures and what all commands that read some have: ``--color``, ``--no-progress``."""
    parser.add_argument(
        "captures",
        nargs="+",
        metavar="CAPTURE",
        help="pcap or pcapng, plain or compressed (gzip, bzip2, xz); - is standard input",
    )
    add_output(parser)


@dataclass(slots=True)
class Source:
    """One capture of the command line. To be read once, by one of its iterators.

    What is wrong with the file is told on standard error after all that could be read of it, and noted in
    ``sources.status``; it is no exception of these iterators.

    Attributes:
        given: As the user wrote it.
        sources: What it is part of.
    """

    given: str
    sources: Sources

    @property
    def name(self) -> str:
        """What to call it."""
        return "standard input" if self.given == STANDARD_INPUT else self.given

    def units(self, watch: Callable[[Segment], None] | None = None) -> Iterator[Unit]:
        """Yields what travelled on the links; framings may be set in between.

        Args:
            watch: Is shown every segment, the ones of foreign traffic as well, before what it completes is
                yielded. Reading is quicker without.
        """
        from scapy_layers import capture, stream
        from scapy_layers.conversation import is_batch
        from scapy_layers.ip import Decoder

        screen, decoder, silent = self.sources.screen, Decoder(), True
        try:
            file, size = _open(self.given)
            progress = screen.progress(self.name, size)
            if watch is None:
                units = stream.units_of(file, progress=progress, plausible=is_batch, decoder=decoder)
            else:
                segments = _shown_to(watch, capture.read(file, progress=progress, decoder=decoder))
                units = stream.units(segments, plausible=is_batch)
            for unit in units:
                silent = False
                yield unit
        except OSError as error:
            self.sources.fail(f"{self.name}: {error.strerror}", WRONG_USE)
        except capture.CaptureError as error:
            damaged = error.offset > 0
            self.sources.fail(
                f"{self.name}: {error if damaged else error.reason}", REFUSED if damaged else WRONG_USE
            )
        finally:
            screen.done()
        for link, count in decoder.unknown.items():
            # Beside others it is foreign traffic; alone it means that nothing of the capture was read.
            self.sources.fail(
                f"{self.name}: packets skipped: {count:,}, of link type {link}; "
                "only Ethernet, Linux cooked, loopback and raw IP are read",
                WRONG_USE if silent else 0,
            )

    def heard(self, watch: Callable[[Segment], None] | None = None) -> Iterator[Heard | Gap]:
        """Yields every message, and what is missing between them; arguments as of ``units``."""
        from scapy_layers.conversation import Conversations
        from scapy_layers.stream import Gap

        conversations = Conversations()
        for unit in self.units(watch):
            if isinstance(unit, Gap):
                yield unit
            yield from conversations.hear(unit)


class Sources:
    """The captures of a command line, one after the other.

    Attributes:
        screen: Where troubles and progress are shown.
        status: Exit status: 0, or that of the worst trouble so far.
    """

    def __init__(self, arguments: argparse.Namespace, screen: Screen) -> None:
        self.screen = screen
        self.status = 0
        self._given: list[str] = arguments.captures
        if self._given.count(STANDARD_INPUT) > 1:
            raise WrongUseError("standard input can be read only once")
        if "" in self._given:
            raise WrongUseError("the name of a CAPTURE is empty")

    def __iter__(self) -> Iterator[Source]:
        for given in self._given:
            yield Source(given, self)

    def __len__(self) -> int:
        return len(self._given)

    def fail(self, text: str, status: int) -> None:
        """Tells of a trouble."""
        self.status = max(self.status, status)
        self.screen.complain(text)


def _shown_to(watch: Callable[[Segment], None], segments: Iterator[Segment]) -> Iterator[Segment]:
    for segment in segments:
        watch(segment)
        yield segment


def _open(given: str) -> tuple[Path | BinaryIO, int | None]:
    """Returns what to read, and its bytes if that is known."""
    if given == STANDARD_INPUT:
        if sys.stdin is None:
            raise WrongUseError("no standard input to read from")
        return sys.stdin.buffer, None
    path = Path(given)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, not a capture", given)
    return path, path.stat().st_size if path.is_file() else None
