"""What commands print that are there to print something, and what they make of errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import wraps

from fuzz.commands.run import FAILED, USAGE, fail
from scapy_layers.commands.terminal import CLOSED_PIPE

Command = Callable[[argparse.Namespace, list[str]], int]


def tell(text: str) -> None:
    """Prints.

    Raises:
        OSError: It cannot be written.
    """
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def in_a_sentence(command: Command) -> Command:
    """Turns errors of a command into one sentence and an exit code; that nobody reads any more is none (``| head``)."""

    @wraps(command)
    def guarded(options: argparse.Namespace, argv: list[str]) -> int:
        from conformance.errors import HarnessError, NotApplicable, UsageError
        from fuzz.findings import NoFinding

        try:
            return command(options, argv)
        except (UsageError, NoFinding) as error:
            return fail(str(error), USAGE)
        except BrokenPipeError:
            return CLOSED_PIPE
        except (HarnessError, NotApplicable, OSError) as error:
            return fail(str(error), FAILED)

    return guarded
