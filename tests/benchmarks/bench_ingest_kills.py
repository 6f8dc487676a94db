"""Whether rows are lost or doubled: ``python tests/benchmarks/bench_ingest_kills.py --kills 5``.

Two processes take in the same runs at the same time. Then some are started and killed (SIGKILL, the whole process
group) at a moment of chance, each over runs that have grown meanwhile; one more goes through. In the end every run has
every row once, and all files that records name are there.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow.parquet as pq

from spark_reports import rows
from spark_reports.storage import upkeep
from spark_reports.storage.store import Store
from tests.benchmarks.bench_ingest import run_row

LINES = 200


def write(root: Path, runs: int, begin: int, end: int) -> None:
    """Appends rows to every run; a footer counts all of them."""
    for run in range(runs):
        folder = root / f"run{run:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        rows.write_run(folder, run_row(folder.name))
        with rows.RowWriter(folder / rows.FUZZ_COVERAGE) as writer:
            for number in range(begin, end):
                writer.write(
                    rows.CoverageRow(
                        run_id=folder.name, kind="pair", campaigns="a", state="open", message="PUSH", field="",
                        what=str(number), count=number, planned=True,
                    )
                )  # fmt: skip


def started(root: Path, store: Path) -> subprocess.Popen[str]:
    """Begins to take the runs in, in a process group of its own."""
    command = [sys.executable, "-m", "spark_reports", "ingest", str(root), "--store", str(store)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def killed(process: subprocess.Popen[str], chance: random.Random, most: float) -> float:
    """Kills a process some time after it has begun to take runs in; returns how many seconds after."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("taking in"):
            break
    after = chance.uniform(0, most)
    time.sleep(after)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return after


def wrong(store: Store, runs: int, count: int) -> list[str]:
    """Returns what is not as it should be."""
    found = list(upkeep.check(store))
    commits = store.commits()
    if len(commits) != runs:
        found.append(f"{len(commits)} runs instead of {runs}")
    for commit in commits:
        files = [store.place.address(entry.path) for entry in commit.tables["coverage"]]
        numbers = Counter(
            number for file in files for number in pq.read_table(file, columns=["count"])["count"].to_pylist()
        )
        if numbers != Counter(range(count)):
            found.append(
                f"{commit.run_id}: {numbers.total()} rows instead of {count}, {len(numbers)} different ones"
            )
    return found


def main() -> None:
    """Does it, and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="bench-kills-") as name:
        root, place = Path(name) / "runs", Path(name) / "store"
        write(root, options.runs, 0, LINES)
        begin = time.monotonic()
        both = [started(root, place) for _ in range(2)]
        said = [process.communicate() for process in both]
        took = time.monotonic() - begin
        for process, (out, err) in zip(both, said, strict=True):
            print(
                f"one of two: exit code {process.returncode}, {out.splitlines()[-1:] or err.splitlines()[-1:]}"
            )
        problems = wrong(Store(place), options.runs, LINES)
        print(f"two at once: {len(problems)} wrong {problems[:3]}", flush=True)
        for kill in range(options.kills):
            write(root, options.runs, LINES * (kill + 1), LINES * (kill + 2))
            after = killed(started(root, place), chance, took / 3)
            left = [commit.attempt for commit in Store(place).commits()]
            print(f"killed after {after:.1f} s: {sum(left)} attempts of {len(left)} runs", flush=True)
        last = started(root, place)
        out, err = last.communicate()
        problems = wrong(Store(place), options.runs, LINES * (options.kills + 1))
        print(
            f"after {options.kills} kills: exit code {last.returncode}, {len(problems)} wrong {problems[:3]}"
        )
        sys.exit(1 if problems or last.returncode else 0)


if __name__ == "__main__":
    main()
