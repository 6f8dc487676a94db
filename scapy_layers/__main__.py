"""``zenoh-dissect``: look at Zenoh bytes from a terminal. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from scapy_layers.commands import (
    columns,
    export,
    follow,
    hex,  # noqa: A004  (a module named like its command)
    lint,
    live,
    messages,
    read,
    samples,
    shell,
    stats,
    wireshark,
)
from scapy_layers.commands.terminal import (
    CLOSED_PIPE,
    INTERRUPTED,
    WRONG_USE,
    WrongUseError,
    add_version,
    forget_output,
)

COMMANDS = (read, live, lint, samples, follow, export, stats, hex, messages, columns, wireshark, shell)
"""In the order of the help text."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status.

    Args:
        argv: Arguments; those of the process when None.
    """
    parser = _parser()
    if not (sys.argv[1:] if argv is None else argv):
        parser.exit(2, parser.format_help())
    try:
        status = _run(parser, argv)
        if sys.stdout:
            sys.stdout.flush()
    except OSError as error:
        forget_output()
        if isinstance(error, BrokenPipeError):
            return CLOSED_PIPE
        print(f"{parser.prog}: {error.strerror}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        return INTERRUPTED
    except WrongUseError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return WRONG_USE
    return status


def _run(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    try:
        arguments = parser.parse_args(argv)
    except SystemExit:
        # Help and version are shown while arguments are read, and nobody has looked whether they arrived.
        if sys.stdout:
            sys.stdout.flush()
        raise
    status: int = arguments.run(arguments)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zenoh-dissect",
        description="Dissects and explains Zenoh 1.x traffic.",
        epilog="zenoh-dissect COMMAND --help explains a command and gives examples.",
    )
    add_version(parser)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
