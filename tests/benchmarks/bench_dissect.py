"""What the Scapy layers cost, beside Scapy's own on the same packets: ``python tests/benchmarks/bench_dissect.py``.

The packets are those of real nodes in pcaps/ whose TCP segment is one batch: Ether/IP/TCP is what Scapy needs down to
the payload, the layers are what the payload needs. Only the ratios mean something: both are measured in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import RawPcapReader

from scapy_layers import catalogue
from scapy_layers.batch import Batch, contents
from scapy_layers.codes import PROTOCOL_VERSION
from scapy_layers.errors import WireError

PCAPS = Path(__file__).parents[2] / "pcaps"
ROUNDS = 7
MOST = 2000


def packets() -> list[tuple[bytes, bytes]]:
    """Returns frames with the batch in each."""
    found = []
    for path in sorted(PCAPS.glob("*.pcapng")):
        for raw, _ in RawPcapReader(str(path)):
            frame = Ether(raw)
            payload = bytes(frame[TCP].payload)[: frame[IP].len - 40] if TCP in frame and IP in frame else b""
            if len(payload) > 2 and int.from_bytes(payload[:2], "little") == len(payload) - 2:
                found.append((raw, payload[2:]))
    return found[:MOST]


def best(run: Callable[[Any], object], items: Iterable[Any]) -> float:
    """Returns the items a second of the best round."""
    items = list(items)
    shortest = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for item in items:
            run(item)
        shortest = min(shortest, time.perf_counter() - start)
    return len(items) / shortest


def main() -> None:
    """Measures and prints one table."""
    found = packets()
    frames, batches = [frame for frame, _ in found], [batch for _, batch in found]
    hostile = b"\x04" * (1 << 16)
    built = [Batch(batch) for batch in batches]
    scapy = best(Ether, frames)
    size = sum(map(len, batches)) / len(batches)
    print(
        f"{len(batches)} packets of Zenoh {PROTOCOL_VERSION:#04x}, {size:.0f} bytes a batch, best of {ROUNDS}"
    )
    print(f"{'what':<44}{'packets/s':>12}{'ratio':>8}")
    rows = {
        "Scapy: Ether/IP/TCP": scapy,
        "our layers: Batch(batch)": best(Batch, batches),
        "our layers: contents(batch)": best(contents, batches),
        "our layers: strict decoding": best(_strictly, batches),
        "Scapy: a packet of Raw bytes": best(Raw, batches),
        "our layers: build": best(bytes, built),
    }
    for what, rate in rows.items():
        print(f"{what:<44}{rate:>12,.0f}{rate / scapy:>8.2f}")
    print(f"64 KiB of one-byte messages: {1000 / best(contents, [hostile]) / 64:.1f} ms a KB")


def _strictly(batch: bytes) -> object:
    try:
        return catalogue.decode_batch(batch)
    except WireError as error:
        # Batches of compressed sessions are no messages yet.
        return error


if __name__ == "__main__":
    main()
