"""``python -m conformance.proof``: tries every mutant and says which test killed it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path

from conformance.errors import HarnessError, UsageError
from conformance.proof.campaign import TIME_SCALE, Options, run
from conformance.proof.page import page
from conformance.proof.plan import SAMPLE
from conformance.proof.results import STRAY_BOUND, document, sentences
from conformance.requirements import requirements
from scapy_layers.commands.terminal import at_least, folder
from spark_reports.rows import new_run_id

EXIT_DOUBT = 1
"""The proof does not hold."""

EXIT_USAGE = 2
"""Wrong options."""

EXIT_HARNESS = 3
"""Nothing was judged: the harness failed."""


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(
        prog="python -m conformance.proof",
        description="Runs the tests against nodes that break one rule each. The test of that rule must notice it.",
    )
    add = made.add_argument
    add("--out", type=folder, metavar="DIR", help="output folder (default: runs/<time>-proof)")
    add("--jobs", type=at_least(1), default=2, metavar="N", help="mutants tested in parallel (default: 2)")
    add("--mutant", action="append", default=[], metavar="ID", help="only this one; may be repeated")
    add(
        "--all-tests",
        action="store_true",
        help="run every test against each mutant: the full matrix, about an hour",
    )
    add("--null", action="store_true", help="also run the null nodes, with which no test may pass")
    add("--seed", type=int, default=0, metavar="N", help="seed of the samples and the tests (default: 0)")
    add(
        "--sample",
        type=at_least(0),
        default=SAMPLE,
        metavar="N",
        help="tests of other requirements to run against each mutant (default: %(default)s)",
    )
    add(
        "--strays",
        type=int,
        default=STRAY_BOUND,
        metavar="N",
        help="number of those that may notice something (default: %(default)s)",
    )
    add("--time-scale", type=float, default=TIME_SCALE, metavar="X", help="default: %(default)s")
    return made


def main(words: list[str] | None = None) -> int:
    """Runs a campaign; returns the exit code."""
    given = parser().parse_args(words)
    out = given.out or Path("runs") / f"{new_run_id()}-proof"
    options = Options(
        out=out.resolve(),
        jobs=given.jobs,
        mutants=tuple(given.mutant),
        all_tests=given.all_tests,
        nulls=given.null,
        seed=given.seed,
        size=given.sample,
        bound=given.strays,
        time_scale=given.time_scale,
    )
    try:
        if not 0 < options.time_scale < float("inf"):
            raise UsageError("--time-scale must be more than 0")
        if (options.out / "runs").exists():
            raise UsageError(f"{out} holds a campaign already; choose another --out")
        # The tests print into a file; this is the terminal, whatever becomes of standard output meanwhile.
        with os.fdopen(os.dup(1), "w", buffering=1) as terminal:
            proof = run(options, partial(print, file=terminal))
    except UsageError as error:
        print(f"proof: {error}", file=sys.stderr)
        return EXIT_USAGE
    except HarnessError as error:
        print(f"proof: {error}", file=sys.stderr)
        return EXIT_HARNESS
    written = document(proof, requirements())
    (options.out / "proof.json").write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    (options.out / "proof.html").write_text(page(written))
    print("\n".join(sentences(proof)))
    print(f"{out}/proof.json, proof.html")
    return 0 if proof.holds else EXIT_DOUBT


if __name__ == "__main__":
    sys.exit(main())
