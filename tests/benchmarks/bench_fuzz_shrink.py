"""How small findings become, and how long that takes: ``python tests/benchmarks/bench_fuzz_shrink.py runs/RUN...``.

Each confirmed finding of the runs is made smaller anew, from the script as it was found, on fresh nodes of the release
it was found on; the folders stay as they are. ``--tries`` shows each try: what it cost and whether it did the harm.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.config import RunConfig, prepare_run_dir
from conformance.errors import HarnessError
from conformance.nodes import node_of
from fuzz.findings import CONFIRMED, FINDING, Finding
from fuzz.lab import Lab, Tried
from fuzz.oracles import Harm
from fuzz.triage import minimise

FEW, SOON = 3, 20.0
"""Messages and seconds that most findings shall come down to."""


def findings_in(run: Path) -> Iterator[Finding]:
    """Yields the findings of a run, or the one of a folder, that can be made smaller."""
    for path in sorted([*run.glob(FINDING), *run.glob(f"findings/*/{FINDING}")]):
        finding = Finding.load(path.parent)
        if finding.status == CONFIRMED and finding.harm is not Harm.DIFFERS and finding.first.sends:
            yield finding


def watched(lab: Lab) -> None:
    """Has each try of a lab shown."""
    play, beside = lab.play, lab.play_beside

    def show(tries: list[Tried], began: float) -> None:
        took = time.monotonic() - began
        for tried in tries:
            seen, size = tried.objection, f"{tried.script.sends:4} messages {tried.script.size:6} bytes"
            what = f"{seen.harm} {seen.place}" if seen else "well"
            how = "beside" if len(tries) > 1 else "fresh" if tried.fresh else "used"
            print(
                f"    {took:6.2f} s, {tried.seconds:6.2f} s of it played, {size}, {how}: {what}", flush=True
            )

    def alone(*args: Any, **options: Any) -> Tried:
        began = time.monotonic()
        tried = play(*args, **options)
        show([tried], began)
        return tried

    def several(*args: Any, **options: Any) -> list[Tried]:
        began = time.monotonic()
        tries = beside(*args, **options)
        show(tries, began)
        return tries

    lab.play, lab.play_beside = alone, several  # type: ignore[method-assign]


def shrunk(finding: Finding, seconds: float, folder: Path, *, tries: bool) -> str:
    """Makes one smaller; returns its line."""
    prepare_run_dir(folder)
    config = RunConfig(node=finding.node, run_dir=folder, run_id="shrink", seed=1)
    finding.script, finding.path, finding.minimised = finding.first, None, None
    with Lab(config, node_of(config)) as lab:
        if tries:
            watched(lab)
        try:
            minimise(lab, finding, seconds)
        except HarnessError as error:
            return f"failed: {error}"
    made: Any = finding.minimised
    done = "all tried" if made.done else "time was up"
    return (
        f"{made.seconds:6.1f} s  {finding.first.sends:4} to {made.messages:3} messages {made.size:6} bytes  "
        f"{made.tries:4} tries, {done:11}"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, or of a finding")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each (default: 20)")
    parser.add_argument("--harm", default="", help="only findings of this class")
    parser.add_argument("--tries", action="store_true", help="show each try")
    options = parser.parse_args()
    made, small = [], 0
    for run in options.runs:
        for finding in findings_in(run):
            if options.harm not in {"", str(finding.harm)}:
                continue
            with tempfile.TemporaryDirectory(prefix="zenoh-fuzz-") as folder:
                line = shrunk(finding, options.seconds, Path(folder), tries=options.tries)
            print(f"{line}  {finding.impl} {finding.version} {finding.bucket}", flush=True)
            if finding.minimised is not None:
                made.append(finding.minimised.seconds)
                small += finding.minimised.messages <= FEW and finding.minimised.seconds < SOON
    if made:
        print(f"median {median(made):.1f} s; {small} of {len(made)} to {FEW} messages in {SOON:g} s")


if __name__ == "__main__":
    main()
