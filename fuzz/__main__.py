"""zenoh-fuzz: runs campaigns against a node, and shows, repeats and shrinks what they find."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from fuzz.commands.listing import add_list
from fuzz.commands.run import EXAMPLES, FAILED, USAGE, add_run, fail
from scapy_layers.commands.terminal import add_version, end_at_once


def main(argv: list[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = _parser()
    try:
        if not (sys.argv[1:] if argv is None else argv):
            parser.exit(USAGE, parser.format_help())
        options = parser.parse_args(argv)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else USAGE
    except OSError as error:
        # The version, and nowhere to write it.
        return fail(str(error), USAGE)
    function: Callable[[argparse.Namespace, Sequence[str]], int] = options.function
    try:
        return function(options, sys.argv[1:] if argv is None else argv)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"fuzz", "conformance", "scapy_layers", "spark_reports"}:
            raise
        return fail(f"{error}; install the extra 'fuzz': pip install 'zenoh-harness[fuzz]'", FAILED)
    except KeyboardInterrupt:
        return fail("interrupted; everything recorded so far was kept", FAILED)


def _parser() -> argparse.ArgumentParser:
    from fuzz.commands.findings import add_replay, add_show, add_shrink

    parser = argparse.ArgumentParser(
        prog="zenoh-fuzz",
        description="Sends a node unexpected input and checks that it keeps serving.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_version(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_list(commands)
    add_run(commands)
    add_replay(commands)
    add_shrink(commands)
    add_show(commands)
    return parser


def command() -> NoReturn:
    """Runs a command and ends the process."""
    end_at_once(main())


if __name__ == "__main__":
    command()
