"""Feeds many mutated datagrams and streams to tshark with our dissector: ``python -m tests.robustness.tshark``.

Nothing of it may end in a Lua error, a "Dissector bug", a crash or a hang. Ends with status 1 when something does,
with the packet and the capture that shows it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.readers import dissector
from fuzz.readers.carry import Packets
from tests.robustness.inputs import inputs

EACH = 4_000
"""Inputs of one process."""


def capture_of(count: int, seed: int) -> Packets:
    """Returns a capture with so many mutated inputs."""
    return dissector.capture_of(inputs(count, seed), seed)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs processes until all inputs were read; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.robustness.tshark", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--two-pass", action="store_true", help="as Wireshark does it: every packet twice")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="folder for captures that show a fault (default: %(default)s)",
    )
    arguments = parser.parse_args(argv)
    if not dissector.is_there():
        parser.error("tshark is not there, or scapy_layers/zenoh.lua was not written")
    failed = read = packets = 0
    spent = 0.0
    for number, count in enumerate(_shares(arguments.inputs)):
        seed = arguments.seed * 1_000_003 + number
        made = capture_of(count, seed)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"mutated_{seed}.pcap"
            path.write_bytes(made.file())
            began = time.monotonic()
            found = list(dissector.faults(path, made.number, *(["-2"] if arguments.two_pass else [])))
            spent += time.monotonic() - began
            if found:
                shutil.copy(path, arguments.keep)
        for fault in found[:5]:
            print(f"{arguments.keep / path.name}, packet {fault.packet}: {fault.what}")
        failed += len(found)
        read += count
        packets += made.number
        print(
            f"{read} inputs, {packets} packets, {failed} faults, {packets / spent:.0f} packets/s", flush=True
        )
    return 1 if failed else 0


def _shares(count: int) -> Iterator[int]:
    while count > 0:
        yield min(count, EACH)
        count -= EACH


if __name__ == "__main__":
    sys.exit(main())
