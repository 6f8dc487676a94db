"""How much memory the readers need for captures of 10 MB, 100 MB and 1 GB: ``python tests/benchmarks/bench_memory.py``.

The captures are made on the spot: many sessions, keys, queries of which some are never answered, aliases that
come and go, fragments. The figure to watch is the ratio to the smallest one; flat means near 1. What tshark keeps
of each packet without our dissector stands beside it. pyshark and Spark are processes together. The whole takes
some minutes; ``--sizes 10 100`` is the quick form.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from scapy_layers import wireshark
from tests.benchmarks._common import OPEN_ACK, OPEN_SYN, frame, pcap, prefixed, vle
from tests.benchmarks._memory import Watch

ROOT = Path(__file__).parents[2]

SIZES = (10, 100, 1000)

MB = 1_000_000
PAYLOAD = bytes(range(256)) * 32
"""What most values are: 8 KiB."""

LARGE = PAYLOAD * 24
"""What comes in fragments: 192 KiB."""

PIECE = 60_000
"""Bytes of a fragment."""

KEYS = 50_000
"""Different keys: more than any table of the readers has rows."""

PUTS = 2_000
"""Values of one session, after which another one begins."""

FIN, SYN, ACK = 1, 2, 16

INIT_SYN = bytes.fromhex("01096201020304050607")
INIT_ACK = bytes.fromhex("210960111213141516170431323334")


class Connection:
    """Both ends of a TCP connection with a session on it; every method returns Ethernet frames."""

    def __init__(self, port: int) -> None:
        self._port = port.to_bytes(2, "big")
        self._seq = {True: 1000, False: 2000}
        self._sn = {True: 100, False: 100}

    def open(self) -> Iterator[bytes]:
        """From SYN to OPEN."""
        yield self._packet(b"", True, SYN)
        yield self._packet(b"", False, SYN | ACK)
        for forward, batch in ((True, INIT_SYN), (False, INIT_ACK), (True, OPEN_SYN), (False, OPEN_ACK)):
            yield self._packet(prefixed(batch), forward)

    def close(self) -> Iterator[bytes]:
        """CLOSE and the end of the connection."""
        yield self._packet(prefixed(b"\x23\x00"), True)
        yield self._packet(b"", True, FIN | ACK)
        yield self._packet(b"", False, FIN | ACK)

    def say(self, message: bytes, *, forward: bool = True) -> Iterator[bytes]:
        """A network message, in fragments if need be."""
        if len(message) <= PIECE:
            yield self._packet(prefixed(b"\x25" + self._next(forward) + message), forward)
            return
        for at in range(0, len(message), PIECE):
            more = at + PIECE < len(message)
            header = b"\x66" if more else b"\x26"
            piece = header + self._next(forward) + message[at : at + PIECE]
            yield self._packet(prefixed(piece), forward)

    def _next(self, forward: bool) -> bytes:
        self._sn[forward] += 1
        return vle(self._sn[forward] - 1)

    def _packet(self, data: bytes, forward: bool, flags: int = ACK) -> bytes:
        made = frame(data, self._seq[forward], forward=forward, ack=self._seq[not forward], flags=flags)
        self._seq[forward] += len(data) + bool(flags & (SYN | FIN))
        # The client's port stands first on the way to the server.
        at = 34 if forward else 36
        return made[:at] + self._port + made[at + 2 :]


def key(name: str) -> bytes:
    """A whole key, without an alias."""
    return b"\x00" + vle(len(name)) + name.encode()


def put(payload: bytes) -> bytes:
    """A PUT."""
    return b"\x01" + vle(len(payload)) + payload


def session(number: int) -> Iterator[bytes]:
    """A session from its first to its last packet, about 17 MB."""
    link = Connection(20_000 + number % 40_000)
    yield from link.open()
    for index in range(PUTS):
        place = (number * PUTS + index) % KEYS
        yield from link.say(b"\x3d" + key(f"fleet/robot/{place:06}/camera") + put(PAYLOAD))
        if index % 50 == 0:
            yield from query(link, index, answered=index % 500 != 0)
        if index % 100 == 0:
            yield from link.say(b"\x3d" + key(f"fleet/robot/{place:06}/map") + put(LARGE))
            # An alias that stays until the end of its session, and a subscriber by it.
            alias = vle(index + 1)
            yield from link.say(b"\x1e\x20" + alias + key(f"fleet/robot/{place:06}"))
            yield from link.say(b"\x1e\x62" + vle(index) + alias + b"\x08/command")
    yield from link.close()


def query(link: Connection, number: int, *, answered: bool) -> Iterator[bytes]:
    """A query with its reply, or without."""
    name = key(f"fleet/status/{number}")
    yield from link.say(b"\x3c" + vle(number) + name + b"\x03")
    if answered:
        yield from link.say(b"\x3b" + vle(number) + name + b"\x04" + put(b"ready"), forward=False)
        yield from link.say(b"\x1a" + vle(number), forward=False)


def traffic(size: int) -> Iterator[bytes]:
    """Sessions one after the other, until there are so many bytes."""
    number = done = 0
    while True:
        for packet in session(number):
            yield packet
            done += len(packet)
            if done >= size:
                return
        number += 1


class Needed(NamedTuple):
    """What one run needed."""

    megabytes: float
    seconds: float


PYSHARK = """
import sys
from scapy_layers import wireshark

with wireshark.open(sys.argv[1], mode="ek", layers=["zenoh"]) as capture:
    assert sum(len(packet.zenoh.get("put.data", b"")) for packet in capture if "zenoh" in packet)
"""

SPARK = """
import os, sys
from pyspark.sql import functions as sf
from spark_reports import traffic
from spark_reports.engine.java import find_java
from spark_reports.engine.session import spark_session
from spark_reports.engine.settings import BULK

HEAP = {"spark.driver.memory": "1g"}  # of Java, which takes what it is given
with spark_session(find_java(os.environ), os.environ, BULK, master="local[2]", conf=HEAP) as spark:
    traffic.register(spark)
    messages = spark.read.format("zenoh").load(sys.argv[1])
    assert messages.groupBy("message").agg(sf.sum(sf.length("payload"))).collect()
"""

COLUMNS = """
import sys
from scapy_layers import tables

assert sum(found["put"].num_rows for found in tables.read(sys.argv[1]) if "put" in found)
"""


def commands(capture: Path) -> dict[str, list[str]]:
    """Returns what reads a capture, by name."""
    name = str(capture)
    tshark = [str(wireshark.tshark().path), "-n", "-r", name, "-T", "fields", "-e", "frame.number"]
    ours = ["-X", f"lua_script:{wireshark.script()}", "-e", "zenoh.keyexpr", "-e", "zenoh.put.data"]
    return {
        **{one: [sys.executable, "-m", "scapy_layers", one, name] for one in ("read", "samples", "stats")},
        "columns": [sys.executable, "-c", COLUMNS, name],
        "tshark alone": [*tshark, "-e", "tcp.payload"],
        "tshark": [*tshark, *ours],
        "pyshark": [sys.executable, "-c", PYSHARK, name],
        "spark": [sys.executable, "-c", SPARK, name],
    }


def run(name: str, command: list[str]) -> Needed:
    """Runs a command; says the most memory that it and its children held."""
    begin = perf_counter()
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT) as process,
        Watch(process.pid) as watch,
    ):
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{name} ended with status {process.returncode}: {said.decode()}")
    return Needed(max(watch.most, usage.ru_maxrss * 1024 / MB), perf_counter() - begin)


def main() -> None:
    """Makes the captures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="MB", help="of the captures")
    parser.add_argument("--only", nargs="+", metavar="READER", help=f"some of: {', '.join(commands(Path()))}")
    parser.add_argument("--folder", help="where to make them (default: the usual place for temporary files)")
    arguments = parser.parse_args()
    base: dict[str, float] = {}
    print(f"{'reader':<14}{'capture':>10}{'packets':>12}{'seconds':>10}{'memory':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for size in arguments.sizes:
            capture = Path(folder, f"{size}.pcap")
            packets = pcap(capture, traffic(size * MB))
            for name, command in commands(capture).items():
                if arguments.only and name not in arguments.only:
                    continue
                needed = run(name, command)
                ratio = needed.megabytes / base.setdefault(name, needed.megabytes)
                print(
                    f"{name:<14}{size:>7} MB{packets:>12,}{needed.seconds:>10.1f}"
                    f"{needed.megabytes:>9.0f} MB{ratio:>8.2f}",
                    flush=True,
                )
            capture.unlink()


if __name__ == "__main__":
    main()
