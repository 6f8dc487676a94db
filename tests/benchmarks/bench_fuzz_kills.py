"""Whether a campaign that is killed loses a case: ``python tests/benchmarks/bench_fuzz_kills.py --kills 20``.

A node that lives through it all writes down what comes on each link. ``zenoh-fuzz run`` is killed with SIGKILL at a
random moment, again and again, and goes on with ``--resume``; the last part ends by itself. Then the rows are held
against what the node saw: every stimulus that was followed by another one on its link has a row, every number has one
row at most, no line is cut, and the end has a footer.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.tester import Fencing
from fuzz.fast import LANES
from fuzz.player.player import FRAME_BE, fence_of
from spark_reports.rows import FUZZ_CASES
from tests.benchmarks._fuzz import ROOT, command, sent
from tests.fuzz.planted import PROCESS

FENCE = fence_of(Fencing.QUERY)
CANARY = b"@zenoh-harness/canary"
SN_SIZE = 3
"""Bytes of a sequence number of ours."""

KEEP_ALIVE = b"\x01\x00\x04"
KILL = "kill\n"
"""Line of the journal behind which a part of the run was gone."""

LONGEST = 5.0
START_SECONDS = 10.0


def free_port() -> int:
    """Returns a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def rows_of(folder: Path) -> tuple[list[dict[str, Any]], int, int]:
    """Returns the rows, how many lines are none, and how many footers there are."""
    rows, broken, footers = [], 0, 0
    path = folder / FUZZ_CASES
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            broken += 1
            continue
        if row.get("footer"):
            footers += 1
        else:
            rows.append(row)
            broken += not line.endswith(b"\n")
    return rows, broken, footers


def stimuli(journal: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yields what stood between two fences of a link: kills before, link, bytes."""
    streams: dict[str, bytearray] = {}
    fenced: set[str] = set()
    canaries: set[str] = set()
    ours: dict[str, list[tuple[int, int, bytes]]] = {}
    kills = 0
    with journal.open() as file:
        for line in file:
            if line == KILL:
                kills += 1
                continue
            link, data = line.split()
            stream = streams.setdefault(link, bytearray())
            stream += bytes.fromhex(data)
            while (at := stream.find(FENCE)) >= 0:
                begin = at - SN_SIZE - len(FRAME_BE) - 2
                whole = bytes(stream[:begin])
                del stream[: at + len(FENCE)]
                if link in fenced:
                    ours.setdefault(link, []).append((kills, int(link), whole))
                fenced.add(link)
            if CANARY in stream:
                canaries.add(link)
                stream.clear()
    for link, found in ours.items():
        if link not in canaries:
            yield from found


def wait_for_rows(folder: Path, more_than: int, child: subprocess.Popen[str]) -> None:
    """Waits until a part of a run has written rows."""
    path = folder / FUZZ_CASES
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        if path.exists() and path.stat().st_size > more_than:
            return
        time.sleep(0.01)


def killed(words: list[str], folder: Path, seconds: float) -> bool:
    """Starts a part of a run and kills it; tells whether it was there to be killed."""
    path = folder / FUZZ_CASES
    before = path.stat().st_size if path.exists() else 0
    with (folder.parent / "out").open("a") as out:
        child = subprocess.Popen(words, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, text=True)
        wait_for_rows(folder, before, child)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        return child.wait() == -signal.SIGKILL


def main() -> int:
    """Prints what became of it; 1 when something was lost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--campaign", default="session")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", default="fast")
    parser.add_argument("--last", default="5s", help="time of the part that ends by itself")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder, journal = Path(temporary) / "run", Path(temporary) / "journal"
        where = f"tcp/127.0.0.1:{free_port()}"
        node = subprocess.Popen([sys.executable, str(PROCESS), where, "--journal", str(journal)])
        try:
            words = command(options.campaign, where, folder, options.seed, "--engine", options.engine)
            kills = 0
            for number in range(options.kills):
                again = ["--resume"] if number and (folder / FUZZ_CASES).exists() else []
                kills += killed([*words, "--time", "1h", *again], folder, dice.uniform(0.05, LONGEST))
                with journal.open("a") as file:
                    file.write(KILL)
                rows, broken, _ = rows_of(folder)
                print(f"kill {number + 1}: {len(rows)} rows, {broken} lines cut", flush=True)
            last = subprocess.run(
                [*words, "--time", options.last, "--resume"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            node.kill()
            node.wait()
        return judge(folder, journal, kills, last)


def judge(folder: Path, journal: Path, kills: int, last: subprocess.CompletedProcess[str]) -> int:
    """Holds the rows against what the node saw; prints and returns whether something is wrong."""
    rows, broken, footers = rows_of(folder)
    counts = Counter((row["campaign"], row["case"]) for row in rows)
    twice = sum(count - 1 for count in counts.values())
    said = Counter(sent(row) for row in rows if row.get("links", 1) == 1)
    seen = [(part, link, data.replace(KEEP_ALIVE, b"")) for part, link, data in stimuli(journal)]
    lost: Counter[int] = Counter()
    for part, _, data in seen:
        if said[data] > 0:
            said[data] -= 1
        elif data:
            lost[part] += 1
    print(
        f"{kills} kills; {len(rows)} rows of {len(counts)} cases, {len(seen)} stimuli seen by the node between fences"
    )
    print(
        f"without a row: {lost.total()}, in one part {max(lost.values(), default=0)} at most"
        f" (under way when it was killed: up to {LANES})"
    )
    print(
        f"cases with two rows: {twice}; lines cut: {broken}; footers: {footers}; exit code at last: {last.returncode}"
    )
    wrong = max(lost.values(), default=0) > LANES or twice or broken or footers != 1 or last.returncode != 0
    if wrong:
        print(last.stdout[-2000:], last.stderr[-2000:], lost)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
