"""What all commands share: exit statuses, errors, text that any terminal takes, colours, a progress bar.

Captures that are given by name stand in ``captures``, what picks messages out of them in ``filters``.
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO, TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001  (it has no public name)
"""What a command module adds itself to."""

REFUSED = 1
"""Exit status: strict decoding refuses some of the bytes, or the capture is damaged or shows something wrong."""

WRONG_USE = 2
"""Exit status: the command line or the input makes no sense (argparse uses the same)."""

INTERRUPTED = 130
CLOSED_PIPE = 141


class WrongUseError(Exception):
    """What the user gave makes no sense; the text says why and what to do."""


def end_at_once(code: int) -> NoReturn:
    """Ends the process without taking Python apart, which takes seconds where a run has made many objects."""
    # Removes folders that were made for it.
    atexit._run_exitfuncs()  # noqa: SLF001  (there is no public name)
    with suppress(OSError):
        # What could be written of them is.
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def forget_output() -> None:
    """Drops what standard output still holds back: Python writes it at its end, and would complain once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def at_least(least: int) -> Callable[[str], int]:
    """Returns what makes a number of an argument and refuses a smaller one."""

    def number(text: str) -> int:
        if (found := int(text)) < least:
            raise argparse.ArgumentTypeError(f"at least {least}")
        return found

    return number


def seconds(text: str) -> float:
    """Reads a duration.

    Raises:
        argparse.ArgumentTypeError: It is none, or would never end.
    """
    with suppress(ValueError):
        if 0 < (found := float(text)) < float("inf"):
            return found
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")


def named(text: str) -> str:
    """Reads a name that may not be empty, as that of a variable which is not set.

    Raises:
        argparse.ArgumentTypeError: It is.
    """
    if not text:
        raise argparse.ArgumentTypeError("is empty")
    return text


def folder(text: str) -> Path:
    """Reads the path of a folder.

    Raises:
        argparse.ArgumentTypeError: It is empty; the current one is ``.``.
    """
    return Path(named(text))


def add_command(
    commands: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    summary: str,
    description: str,
    examples: str = "",
) -> argparse.ArgumentParser:
    """Registers a command and returns its parser.

    Args:
        commands: What ``add`` of a command module was given.
        name: What the user types.
        run: Takes the arguments, returns the exit status.
        summary: For the list of all commands.
        description: Above the arguments in the help text, exit statuses included.
        examples: Below them.
    """
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def installed_version() -> str:
    """Returns the version of this project; ``unknown`` where it runs from a checkout that is not installed."""
    # Takes longer to import than a command takes to start.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("zenoh-harness")
    except PackageNotFoundError:
        return "unknown"


def add_version(parser: argparse.ArgumentParser) -> None:
    """Adds ``--version``."""
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(parser.prog, installed_version(), flush=True)
        parser.exit()


# Text ---------------------------------------------------------------------------------------------


def printable(text: str, *, keep: str = "\n\t") -> str:
    """Returns text that any terminal takes: what cannot be encoded, and control characters, are escaped.

    Escape sequences, and marks that change the direction of writing, are harmless afterwards.

    Args:
        text: Whatever a capture or a user says.
        keep: Control characters that stay; none where a line break would look like another line.
    """
    encoding = (sys.stdout and sys.stdout.encoding) or "ascii"
    if not text.isprintable():
        text = "".join(
            c if c.isprintable() or c in keep else c.encode("unicode_escape", "surrogatepass").decode()
            for c in text
        )
    return text.encode(encoding, "backslashreplace").decode(encoding)


class Colour(StrEnum):
    """What is coloured; the values are parameters of the SGR control sequence."""

    PLAIN = ""
    DIM = "2"
    NAME = "1"
    KEY = "36"
    VALUE = "32"
    OK = "32"
    NOTE = "33"
    WRONG = "1;31"


class Piece(NamedTuple):
    """Part of a line. The text may be anything: it is made printable before it is shown."""

    text: str
    colour: Colour = Colour.PLAIN


# The terminal -------------------------------------------------------------------------------------

_MOST_SILENT = 4 << 20
"""Bytes of a file that needs no progress bar."""

_STEP = 4 << 20
"""Bytes between two changes of a bar whose end is not known."""

_BAR = 30
"""Columns of a bar."""

_CLEAR = "\r\x1b[K"


def add_output(parser: argparse.ArgumentParser) -> None:
    """Adds ``--color`` and ``--no-progress``; a ``Screen`` is made of the arguments."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours: on a terminal unless NO_COLOR is set (auto, the default), always, or never",
    )
    group.add_argument("--no-progress", action="store_true", help="no progress bar for long files")


class Screen:
    """Where a command writes: lines on standard output; complaints and the progress bar on standard error."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._colours = _wants_colours(arguments.color)
        self._bar = not arguments.no_progress and sys.stderr is not None and sys.stderr.isatty()
        self._shown = ""

    def line(self, *pieces: Piece | str) -> None:
        """Prints one line; what control characters stand in the pieces is escaped."""
        self.raw(
            "".join(self._painted(Piece(piece) if isinstance(piece, str) else piece) for piece in pieces)
        )

    def raw(self, text: str) -> None:
        """Prints text as it is: lines of our own making, JSON."""
        self._clear()
        print(text)

    def complain(self, text: str) -> None:
        """Prints one line on standard error."""
        self._clear()
        if sys.stdout:
            # What was said before stands before it, also where both end in the same file.
            sys.stdout.flush()
        print(f"zenoh-dissect: {printable(text, keep='')}", file=sys.stderr)

    def progress(self, name: str, size: int | None) -> Callable[[int], None] | None:
        """Returns what draws a bar when it is told how many bytes have been read; None when none is wanted.

        Args:
            name: Of the file.
            size: Its bytes; None when that is not known.
        """
        if not self._bar or (size is not None and size <= _MOST_SILENT):
            return None
        before = -1

        def told(done: int) -> None:
            nonlocal before
            state = done * 100 // size if size else done // _STEP
            if state != before:
                before = state
                self._draw(f"{printable(name, keep='')}: {_bar_of(done, size)}")

        return told

    def done(self) -> None:
        """Takes the progress bar away."""
        self._clear()

    def _painted(self, piece: Piece) -> str:
        text = printable(piece.text, keep="")
        return f"\x1b[{piece.colour}m{text}\x1b[0m" if self._colours and piece.colour and text else text

    def _draw(self, text: str) -> None:
        if sys.stdout:
            sys.stdout.flush()
        self._shown = text
        _write(sys.stderr, _CLEAR + text)

    def _clear(self) -> None:
        if self._shown:
            self._shown = ""
            _write(sys.stderr, _CLEAR)


def _wants_colours(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _bar_of(done: int, size: int | None) -> str:
    megabytes = f"{done / 1e6:.0f} MB"
    if not size:
        return megabytes
    part = min(done / size, 1)
    full = int(part * _BAR)
    return f"[{'#' * full}{'.' * (_BAR - full)}] {part:4.0%} of {size / 1e6:.0f} MB"


def _write(file: TextIO, text: str) -> None:
    file.write(text)
    file.flush()
