"""Feeds many inputs to every target and prints what came of it: ``python -m tests.robustness.run --inputs 1000000``.

Ends with status 1 when anything but a WireError came out, with the input and the command that repeats it. Times
are CPU time for each KB of input (short ones count as one KB); a slow one is measured again before it is believed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import traceback
from collections.abc import Sequence

from fuzz.readers.invariants import TARGETS, Target
from tests.robustness.inputs import inputs

AGAIN = 5
"""So often is the slowest measured once more: what is slow because the machine was busy is fast then."""

SUSPICIOUS = 2.0
"""Milliseconds for each KB from which on it is worth the trouble."""


def cost(target: Target, raw: bytes) -> float:
    """Returns the milliseconds of CPU time for each KB of an input."""
    return target(raw) / max(1.0, len(raw) / 1024)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the targets and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} (default: all)"
    )
    parser.add_argument("--inputs", type=int, default=10_000, help="for each target (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    unknown = set(arguments.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target is called {', '.join(sorted(unknown))}")
    status = 0
    print(f"{'target':<14}{'inputs':>10}{'failed':>8}{'mean ms':>10}{'worst ms/KB':>13}{'peak MB':>9}")
    for name in arguments.targets or TARGETS:
        target = TARGETS[name]
        failed, slowest, began = 0, 0.0, time.process_time()
        for number, raw in enumerate(inputs(arguments.inputs, arguments.seed)):
            try:
                spent = cost(target, raw)
                if spent > max(SUSPICIOUS, slowest):
                    slowest = max(slowest, min(cost(target, raw) for _ in range(AGAIN)))
            except Exception:  # noqa: BLE001  (whatever it is, it is what this looks for)
                failed += 1
                if failed <= 3:
                    print(
                        f"{name}, seed {arguments.seed}, input {number}: {raw.hex()}\n{traceback.format_exc()}"
                    )
        mean = (time.process_time() - began) * 1000 / max(1, arguments.inputs)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{name:<14}{arguments.inputs:>10}{failed:>8}{mean:>10.3f}{slowest:>13.2f}{peak:>9.0f}",
            flush=True,
        )
        status |= failed > 0
    return status


if __name__ == "__main__":
    sys.exit(main())
