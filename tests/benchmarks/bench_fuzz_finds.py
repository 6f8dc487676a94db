"""Which planted faults a campaign finds, and how soon: ``python tests/benchmarks/bench_fuzz_finds.py --time 60s``.

Each fault is planted alone into the node of ``tests/fuzz/planted_process.py``, and ``zenoh-fuzz run`` gets its time on
it. A line of the table: how often the fault was set off, after how many cases and seconds the finding was there, its
bucket, how often a replay on a fresh node brought it about, what the smallest case sends. The healthy node comes first;
whatever is found in it is false.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from spark_reports.rows import FINDINGS, FUZZ_CASES
from tests.benchmarks._fuzz import ROOT, command, rows
from tests.fuzz import planted_process
from tests.fuzz.planted import FAULTS
from tests.fuzz.planted import command as planted_node

HEALTHY = "(none)"
GRACE = 300.0
"""Seconds that a run may take behind its time, for what it does with findings."""


@dataclass
class Found:
    """What became of one fault.

    Attributes:
        fault: Its name.
        set_off: How often it was.
        cases: Cases of the run.
        seconds: From the first case to the last.
        code: Exit code.
        findings: Last row of each bucket.
        before: Cases and seconds in front of each bucket.
    """

    fault: str
    set_off: int = 0
    cases: int = 0
    seconds: float = 0.0
    code: int = 0
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    before: dict[str, tuple[int, float]] = field(default_factory=dict)

    def expected(self) -> list[str]:
        """Buckets in a class that the fault may be found in."""
        harms = FAULTS[self.fault].harms if self.fault in FAULTS else ()
        return [bucket for bucket, row in self.findings.items() if row["harm"] in harms]


def run(fault: str, campaign: str, seconds: str, seed: int, folder: Path) -> Found:
    """Runs a campaign against a node with one fault."""
    faults = [fault] if fault in FAULTS else []
    found = Found(fault)
    journal = folder / f"{fault}.journal"
    node = planted_node(*faults, options=f"--set-off {journal}")
    words = command(campaign, node, folder / fault, seed, "--time", seconds)
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=in_seconds(seconds) + GRACE
    )
    found.code = done.returncode
    (folder / f"{fault}.out").write_text(done.stdout + done.stderr)
    if faults and journal.exists():
        # The last one of a chain is what counts.
        last = planted_process.FAULTS[fault][-1].place
        found.set_off = sum(line.split()[2] == last for line in journal.read_text().splitlines())
    began = 0
    for row in rows(folder / fault / FUZZ_CASES):
        began = began or row["time_ns"]
        found.cases += 1
        found.seconds = (row["time_ns"] - began) / 1e9
    for row in rows(folder / fault / FINDINGS):
        bucket = row["bucket"]
        if bucket not in found.findings:
            cases = sum(1 for case in rows(folder / fault / FUZZ_CASES) if case["time_ns"] <= row["time_ns"])
            found.before[bucket] = cases, (row["time_ns"] - began) / 1e9
        found.findings[bucket] = row
    return found


def in_seconds(text: str) -> float:
    """Returns ``90s`` or ``2m`` as seconds."""
    match = re.fullmatch(r"(\d+)([sm]?)", text)
    assert match, f"{text!r} is no time"
    return int(match[1]) * (60 if match[2] == "m" else 1)


def lines(found: Found) -> Iterator[str]:
    """Yields the lines of the table for one fault."""
    head = f"{found.fault:12} {found.set_off:7} {found.cases:8} {found.cases / max(found.seconds, 1e-9):7.0f}"
    if not found.findings:
        yield f"{head}  nothing found, exit code {found.code}"
    expected = found.expected()
    for bucket in [*expected, *(other for other in found.findings if other not in expected)]:
        row, (cases, seconds) = found.findings[bucket], found.before[bucket]
        note = "" if bucket in expected else "  (NOT EXPECTED)"
        yield (
            f"{head}  {cases:8} {seconds:6.1f}  {row['status']:11} {row['confirmed']}/{row['tries']}"
            f"  {row['messages']:3} {row['size']:6}  {bucket}{note}"
        )
        head = " " * len(head)


def main() -> int:
    """Prints the table; 1 when a fault was not found in its class, or something was that is not there."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "faults", nargs="*", metavar="fault", help=f"{HEALTHY}, {', '.join(FAULTS)}; all when none"
    )
    parser.add_argument("--campaign", default="all")
    parser.add_argument("--time", default="60s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the runs; a temporary one without it")
    options = parser.parse_args()
    names = options.faults or [HEALTHY, *FAULTS]
    print(
        f"{'fault':12} {'set off':>7} {'cases':>8} {'a second':>7}  {'behind':>8} {'s':>6}  status      again  min bytes  bucket"
    )
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            found = run(name, options.campaign, options.time, options.seed, folder)
            print("\n".join(lines(found)), flush=True)
            wrong += bool(found.findings) if name == HEALTHY else not found.expected()
    print(f"{len(names) - wrong} of {len(names)} as they should be")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
