"""How much the reference node takes, beside the real router: ``python tests/benchmarks/bench_refnode.py``.

The other ends run in a process of their own with bytes that were made before. CPU is what the node's process
used; a node that is not busy all the time waits for the other ends, and could do more. The real router has
many threads, the reference node one. ``--profile KIND`` says where the reference node's time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.config import Locator
from conformance.nodes.pypi import PypiNode
from conformance.nodes.ref import RefNode
from conformance.refnode.node import Node
from conformance.refnode.settings import NodeConfig
from tests.benchmarks._common import Rate, table

CLIENT = Path(__file__).with_name("_refnode_client.py")
RUNS = 3

JOBS = {
    "handshakes": ("handshakes, with connection and CLOSE", 2_000),
    "routed": ("messages routed, one in a FRAME", 10_000),
    "routed20": ("messages routed, 20 in a FRAME", 20_000),
    "fan": ("messages to 10 subscribers, one in a FRAME", 1_000),
}
"""Kinds of the client, what they count, and how many."""


@dataclass(frozen=True)
class Measured:
    """One job on one node.

    Attributes:
        rate: Things a second of wall clock.
        cpu: Seconds of CPU that the node used for one thing.
    """

    rate: float
    cpu: float


def cpu_seconds(pid: int) -> float:
    """Returns user and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(kind: str, port: int, count: int) -> float:
    """Runs the client; returns the seconds it took."""
    words = [sys.executable, str(CLIENT), kind, str(port), str(count)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=100)
    seconds: float = json.loads(done.stdout)["seconds"]
    return seconds


def measure(kind: str, pid: int, port: int) -> Measured:
    """Runs one job several times; the fastest run was disturbed least."""
    count = JOBS[kind][1]
    seconds, cpu = [], []
    for _ in range(RUNS):
        before = cpu_seconds(pid)
        seconds.append(run(kind, port, count))
        cpu.append(cpu_seconds(pid) - before)
    return Measured(count / min(seconds), min(cpu) / count)


@contextmanager
def nodes(folder: Path) -> Iterator[dict[str, tuple[int, int]]]:
    """Runs both nodes; gives pid and port of each."""
    # The client sends no KEEP_ALIVE.
    patient = {"transport/link/tx/lease": 60_000}
    with RefNode(folder, config=patient) as ours, PypiNode(folder, config=patient) as real:
        assert real._process is not None
        yield {
            "reference node": (ours.facts["pid"], ours.locator.port),
            "eclipse-zenoh": (real._process.pid, real.locator.port),
        }


def profile(kind: str) -> None:
    """Runs the reference node in this process and prints where its time goes."""
    node = Node(
        NodeConfig(zid=b"\x01", lease=60.0, listen=(Locator.parse("tcp/127.0.0.1:0", listening=True),))
    )
    node.start()
    port = Locator.parse(node.locators[0]).port
    words = [sys.executable, str(CLIENT), kind, str(port), str(JOBS[kind][1])]
    client = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    watched = cProfile.Profile()
    watched.enable()

    def look(now: float) -> float:
        if client.poll() is not None:
            node.stop()
        return now + 0.05

    node.links.every(look)
    node.run()
    watched.disable()
    node.close()
    pstats.Stats(watched).sort_stats("tottime").print_stats(30)


def main() -> None:
    """Prints one table a job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", choices=JOBS)
    parser.add_argument("--only", choices=JOBS)
    options = parser.parse_args()
    if options.profile:
        profile(options.profile)
        return
    with tempfile.TemporaryDirectory() as folder, nodes(Path(folder)) as running:
        for kind, (title, _) in JOBS.items():
            if options.only in {None, kind}:
                found = {name: measure(kind, pid, port) for name, (pid, port) in running.items()}
                rates = [Rate(name, measured.rate) for name, measured in found.items()]
                print(table(title, rates, against="eclipse-zenoh"))
                for name, measured in found.items():
                    busy = measured.rate * measured.cpu
                    print(f"  {name}: {measured.cpu * 1e6:,.0f} us of CPU each, {busy:.0%} of a core")
                print()


if __name__ == "__main__":
    main()
