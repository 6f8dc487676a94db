"""What all commands share: exit statuses, errors, text that any terminal takes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001  (it has no public name)
"""What a command module adds itself to."""

REFUSED = 1
"""Exit status: strict decoding refuses some of the bytes, or the capture shows something wrong."""

WRONG_USE = 2
"""Exit status: the command line or the input makes no sense (argparse uses the same)."""

INTERRUPTED = 130
CLOSED_PIPE = 141


class WrongUseError(Exception):
    """What the user gave makes no sense; the text says why and what to do."""


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


def printable(text: str) -> str:
    """Returns text that any terminal takes: what cannot be encoded, and control characters, are escaped."""
    encoding = (sys.stdout and sys.stdout.encoding) or "ascii"
    visible = "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )
    return visible.encode(encoding, "backslashreplace").decode(encoding)
