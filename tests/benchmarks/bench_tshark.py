"""How fast tshark is with our dissector, and pyshark on top: ``python tests/benchmarks/bench_tshark.py``.

The captures are made on the spot: eight sessions at a time, packets of about 110 bytes, values by declared keys,
some queries with replies, aliases that come and go. Figures to watch: packets per second of CPU time with the
dissector, the ratio to tshark alone, and whether rate and memory per packet stay as the capture grows. For the last,
the smallest capture is read again and again beside a larger one until that is through: a machine that others share
can be half as quick a minute later. ``--packets 20000`` is the quick form; the whole takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from scapy_layers import wireshark
from tests.benchmarks._common import pcap, vle
from tests.benchmarks.bench_memory import Connection, key, put, query

ROOT = Path(__file__).parents[2]
SIZES = (20_000, 500_000)
SESSIONS = 8
"""Sessions at the same time."""

ALIASES = 16
"""Keys that a session has declared at any time."""

LIFE = 4_000
"""Rounds of a session before another one takes its place."""

FIELDS = ("-e", "frame.number", "-e", "zenoh.frame.sn", "-e", "zenoh.keyexpr", "-e", "zenoh.put.data")

PYSHARK = """
import sys
from scapy_layers import wireshark

layers = sys.argv[3].split() or None
values = 0
with wireshark.open(sys.argv[1], mode=sys.argv[2], layers=layers) as capture:
    for packet in capture:
        if "zenoh" in packet:
            values += packet.zenoh.has_field("frame.sn") and packet.zenoh.frame.sn >= 0
            values += len(packet.zenoh.get("put.data", b"")) > 0
assert values
"""


def session(number: int) -> Iterator[bytes]:
    """A session: aliases, values by them, queries now and then."""
    link = Connection(20_000 + number % 40_000)
    yield from link.open()
    for alias in range(1, ALIASES + 1):
        yield from link.say(declaration(number, alias, 0))
    for index in range(LIFE):
        alias = index % ALIASES + 1
        yield from link.say(b"\x5d" + vle(alias) + put(b"%016d" % index))
        if index % 50 == 49:
            yield from query(link, index, answered=True)
        if index % 200 == 199:
            # The alias ends, and means another key from now on.
            yield from link.say(b"\x1e\x01" + vle(alias))
            yield from link.say(declaration(number, alias, index))
    yield from link.close()


def declaration(number: int, alias: int, index: int) -> bytes:
    """A DECLARE of a key."""
    return b"\x1e\x20" + vle(alias) + key(f"fleet/{number}/robot/{alias}/sensor/{index}")


def traffic() -> Iterator[bytes]:
    """Several sessions at a time, for ever."""
    running = [session(number) for number in range(SESSIONS)]
    number = SESSIONS
    while True:
        for place in range(SESSIONS):
            packet = next(running[place], None)
            if packet is None:
                running[place] = session(number)
                number += 1
                packet = next(running[place])
            yield packet


class Needed(NamedTuple):
    """What one run needed."""

    cpu: float
    seconds: float
    megabytes: float


class Running:
    """A command at work."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self.begin = perf_counter()
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the command has ended
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=self.said,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": "."},
        )

    def result(self, options: int = 0) -> Needed | None:
        """Waits for the end, or with ``os.WNOHANG`` looks for it; what children needed is in it."""
        ended, status, usage = os.wait4(self.process.pid, options)
        if not ended:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        with self.said:
            self.said.seek(0)
            if self.process.returncode:
                name = self.command[0]
                sys.exit(f"{name} ended with status {self.process.returncode}: {self.said.read().decode()}")
        return Needed(usage.ru_utime + usage.ru_stime, perf_counter() - self.begin, usage.ru_maxrss / 1000)


def run(command: Sequence[str]) -> Needed:
    """Runs a command."""
    needed = Running(command).result()
    assert needed is not None
    return needed


def run_beside(command: Sequence[str], small: Sequence[str]) -> tuple[Needed, float]:
    """Runs a command, and a smaller one over and over meanwhile; returns the CPU seconds of one of these as well."""
    running = Running(command)
    spent: list[float] = []
    while True:
        one = run(small).cpu
        needed = running.result(os.WNOHANG)
        if needed is not None:
            return needed, sum(spent or [one]) / max(len(spent), 1)
        spent.append(one)


def commands(capture: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields what is measured."""
    tshark = str(wireshark.tshark().path)
    ours = ["-X", f"lua_script:{wireshark.script()}"]
    read = [tshark, "-n", "-r", str(capture), "-T", "fields"]
    yield "tshark alone", [*read, "-e", "frame.number", "-e", "tcp.payload"]
    yield "tshark, zenoh.lua", [*read, *ours, *FIELDS]
    yield "tshark, zenoh.lua, two passes", [*read, *ours, "-2", *FIELDS]
    for mode, layers in (("ek", "zenoh"), ("ek", ""), ("json", "zenoh")):
        name = f"pyshark, {mode}, {layers or 'all layers'}"
        yield name, [sys.executable, "-c", PYSHARK, str(capture), mode, layers]


def main() -> None:
    """Makes the captures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packets", nargs="+", type=int, default=SIZES, metavar="N", help="of the captures")
    parser.add_argument("--only", default="", metavar="TEXT", help="only what has this in its name")
    parser.add_argument("--folder", help="where to make them (default: the usual place for temporary files)")
    arguments = parser.parse_args()
    print(
        f"{'':<32}{'packets':>9}{'per second':>12}{'per CPU s':>11}{'ratio':>7}{'of first':>10}{'memory':>10}",
    )
    if arguments.folder is not None:
        Path(arguments.folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        small: dict[str, list[str]] = {}
        for size in arguments.packets:
            capture = Path(folder, f"{size}.pcap")
            pcap(capture, islice(traffic(), size))
            alone = 0.0
            for name, command in commands(capture):
                if arguments.only not in name and name != "tshark alone":
                    continue
                if name in small:
                    needed, seconds = run_beside(command, small[name])
                else:
                    small[name] = command
                    needed = run(command)
                    seconds = needed.cpu
                rate = size / needed.cpu
                alone = alone or rate
                print(
                    f"{name:<32}{size:>9,}{size / needed.seconds:>12,.0f}{rate:>11,.0f}{rate / alone:>7.2f}"
                    f"{rate * seconds / arguments.packets[0]:>10.2f}{needed.megabytes:>7.0f} MB",
                    flush=True,
                )
    print(
        "ratio: to tshark alone; of first: to the first capture, read at the same time;"
        " both of packets per second of CPU time"
    )


if __name__ == "__main__":
    main()
