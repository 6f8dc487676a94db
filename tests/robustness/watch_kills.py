"""Kills a watch again and again while runs are written: ``python tests/robustness/watch_kills.py [KILLS]``.

Writers append to several run folders, in pieces that end anywhere, also in the middle of a line; one of them is killed
as well. The watch is killed (-9) after a while that differs each time and started again with the same checkpoint. At
the end each line must have been counted once. Exit 1 if not.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from spark_reports import rows, synthetic
from spark_reports.following.tally import TALLY

KILLS = 6
RUNS = 12
SECONDS = 25.0
"""How long it takes to write a run."""


def write(source: Path, target: Path, seed: int) -> None:
    """Writes a run as a slow writer does, whose system calls end anywhere."""
    rng = random.Random(seed)
    target.mkdir()
    for name in (rows.VERDICTS, rows.FUZZ_CASES):
        data = (source / name).read_bytes()
        # Blank lines, rubbish and an early footer, so that every kind of line is counted.
        footer = b'{"footer":true,"rows":0,"rows_version":1}\n'
        data = data[: data.index(b"\n") + 1] + b"\nrubbish\n" + footer + data[data.index(b"\n") + 1 :]
        done = 0
        with (target / name).open("ab", buffering=0) as file:
            while done < len(data):
                size = rng.randint(1, 8000)
                file.write(data[done : done + size])
                done += size
                time.sleep(SECONDS / 2 * size / len(data))


def main() -> int:
    """Writes, watches, kills, and counts."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    rng = random.Random(kills)
    with tempfile.TemporaryDirectory(prefix="zenoh-watch-") as folder:
        whole, runs, checkpoint = (Path(folder, name) for name in ("whole", "runs", "checkpoint"))
        runs.mkdir()
        synthetic.make(whole, synthetic.LEAST_RUNS)
        sources = [path for path in sorted(whole.iterdir()) if (path / rows.FUZZ_CASES).exists()][:RUNS]
        writers = [
            multiprocessing.Process(target=write, args=(source, runs / source.name, at))
            for at, source in enumerate(sources)
        ]
        waiting = list(writers)
        command = [sys.executable, "-m", "spark_reports", "watch", str(runs), "--checkpoint", str(checkpoint)]
        for kill in range(kills):
            for writer in waiting[: RUNS // kills + 1]:
                writer.start()
            del waiting[: RUNS // kills + 1]
            watch = subprocess.Popen(
                [*command, "--every", "200ms"], stdout=subprocess.DEVNULL, start_new_session=True
            )
            before = counted(checkpoint)
            patience = time.monotonic() + 300
            # Killed once it has begun to count, at a moment that it does not know.
            while counted(checkpoint) == before and time.monotonic() < patience and watch.poll() is None:
                time.sleep(0.05)
            time.sleep(rng.uniform(0, 4))
            os.killpg(watch.pid, signal.SIGKILL)
            watch.wait()
            print(f"kill {kill + 1}: {before} lines counted before, {counted(checkpoint)} now", flush=True)
        for writer in waiting:
            writer.start()
        # One writer is killed in the middle of whatever it writes.
        writers[-1].kill()
        for writer in writers:
            writer.join()
        subprocess.run([*command, "--once"], check=True)
        tally = json.loads((checkpoint / TALLY).read_bytes())
        wrong = 0
        for source in sources:
            for name in (rows.VERDICTS, rows.FUZZ_CASES):
                path = runs / source.name / name
                there = path.read_bytes().count(b"\n") if path.exists() else 0
                run = tally["runs"].get(str(path.parent.resolve()), {"files": {}})
                found = sum(run["files"].get(name, {}).values())
                wrong += there != found
                if there != found:
                    print(f"{source.name}/{name}: {there} lines, {found} counted")
    print(f"{kills} kills, {wrong} files of which a line was lost or counted twice")
    return int(bool(wrong))


def counted(checkpoint: Path) -> int:
    """Returns how many lines the watch has counted so far."""
    try:
        tally = json.loads((checkpoint / TALLY).read_bytes())
    except FileNotFoundError:
        return 0
    return sum(
        number
        for run in tally["runs"].values()
        for kinds in run["files"].values()
        for number in kinds.values()
    )


if __name__ == "__main__":
    sys.exit(main())
