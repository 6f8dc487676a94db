"""How fast captures become Arrow tables, beside Scapy: ``python tests/benchmarks/bench_columns.py``.

Packets of 100 bytes with one batch each, FRAME[PUSH[PUT]], on one TCP connection and on 64 that take turns; all
columns of all messages. CPU time of one core, and ratios in the same run: the machine may be busy. Then the memory
of a process that reads 100 MB and 1 GB (``--no-memory`` leaves that out).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import BinaryIO

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from tests.benchmarks._common import Rate, frame, handshake, prefixed, table, vle

PACKETS = 1_000_000
FEW = 3_000
"""Packets for Scapy, which is some hundred times slower."""

SIZE = 100
FIRST_SN = 1 << 21
"""From here on sequence numbers take four bytes, so that all packets are alike."""

START = 1_750_000_000
RECORD = 16
PIECE = 1 << 17


def capture(path: Path, packets: int, connections: int = 1) -> int:
    """Writes a capture with a handshake for each connection, then packets of 100 bytes; returns how many in all."""
    frames, seq, ack = handshake()
    batch = b"\x25" + vle(FIRST_SN) + b"\x3d\x00\x0bbench/topic\x01"
    room = SIZE - len(frame(b"", 0)) - 2 - len(batch) - 1
    batch += bytes([room]) + bytes(range(1, room + 1))
    alike = frame(prefixed(batch), seq, ack=ack)
    assert len(alike) == SIZE, f"packets of {len(alike)} bytes"
    with path.open("wb") as file:
        file.write(np.array([0xA1B2C3D4, 4 << 16 | 2, 0, 0, 262_144, 1], "<u4").tobytes())
        number = 0
        for connection in range(connections):
            for each in frames:
                _write(file, _on(each, connection), number)
                number += 1
        for begin in range(0, packets, PIECE):
            many = min(PIECE, packets - begin)
            file.write(_many(alike, np.arange(begin, begin + many), connections, seq, len(batch) + 2, number))
    return number + packets


def _on(each: bytes, connection: int) -> bytes:
    """A packet on another connection: the client has another port."""
    there = 36 if each[34:36] == (7447).to_bytes(2, "big") else 34
    return each[:there] + (50_000 + connection).to_bytes(2, "big") + each[there + 2 :]


def _write(file: BinaryIO, data: bytes, number: int) -> None:
    file.write(np.array([START, number, len(data), len(data)], "<u4").tobytes() + data)


def _many(alike: bytes, which: np.ndarray, connections: int, seq: int, step: int, before: int) -> bytes:
    """Records that differ in time, port and both sequence numbers."""
    rows = np.tile(np.frombuffer(bytes(RECORD) + alike, np.uint8), (len(which), 1))
    micros = (which + before) * 10
    header = np.empty((len(which), 4), "<u4")
    header[:, 0], header[:, 1], header[:, 2:] = START + micros // 1_000_000, micros % 1_000_000, SIZE
    rows[:, :RECORD] = header.view(np.uint8)
    turn = which // connections
    rows[:, RECORD + 34 : RECORD + 36] = _bytes(50_000 + which % connections, ">u2")
    rows[:, RECORD + 38 : RECORD + 42] = _bytes(seq + turn * step, ">u4")
    sn = FIRST_SN + turn
    for index in range(4):
        rows[:, RECORD + 69 + index] = sn >> 7 * index & 0x7F | (0x80 if index < 3 else 0)
    return rows.tobytes()


def _bytes(values: np.ndarray, kind: str) -> np.ndarray:
    return (values & ((1 << 32) - 1)).astype(kind).view(np.uint8).reshape(len(values), -1)


# What is measured -----------------------------------------------------------------------------------


def best(name: str, run: Callable[[], int], runs: int = 3) -> Rate:
    """The best of several runs, by CPU time."""
    rates = []
    for _ in range(runs):
        begin = process_time()
        count = run()
        rates.append(count / (process_time() - begin))
    return Rate(name, max(rates))


def scanned(path: Path) -> int:
    """Reads a capture to units only; returns its packets."""
    from scapy_layers import scan

    state = scan.begin()
    units = sum(len(chunk.units.start) for chunk in scan.chunks(path, state=state))
    assert units == state.batches
    return state.packets


def planned(path: Path) -> int:
    """Cuts a capture into parts; returns its packets."""
    from scapy_layers import scan

    return scan.plan(path, 16 << 20)[-1].packet


def to_arrow(path: Path) -> int:
    """Reads a capture to tables; returns its packets."""
    from scapy_layers import tables

    packets = puts = 0
    for made in tables.read(path):
        puts += made["put"].num_rows if "put" in made else 0
        packets += made["capture"].column("packets")[0].as_py() if "capture" in made else 0
    assert puts > packets * 0.9, f"{puts} of {packets}"
    return packets


def with_scapy(path: Path) -> int:
    """Reads a capture with Scapy and our layers, packet by packet: a batch each, so nothing to put together."""
    from scapy.layers.inet import TCP
    from scapy.layers.l2 import Ether
    from scapy.utils import RawPcapReader

    from scapy_layers.batch import Batch
    from scapy_layers.data import Put

    count = puts = 0
    for raw, _ in RawPcapReader(str(path)):
        payload = bytes(Ether(raw)[TCP].payload)
        if len(payload) > 2:
            batch = Batch(payload[2:])
            puts += Put in batch
        count += 1
    assert puts > count * 0.9, f"{puts} of {count}"
    return count


def with_session(path: Path) -> int:
    """Reads a capture with a session that follows streams."""
    from scapy.sendrecv import sniff

    from scapy_layers.zenoh_session import ZenohSession

    messages = sniff(offline=str(path), session=ZenohSession)
    assert len(messages) > FEW, f"{len(messages)} messages"
    return FEW


def main() -> None:
    """Makes the captures, measures, prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-memory", action="store_true", help="do not read 100 MB and 1 GB")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read is not None:
        to_arrow(arguments.read)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    with tempfile.TemporaryDirectory() as folder:
        one, many, few = (Path(folder) / name for name in ("one.pcap", "many.pcap", "few.pcap"))
        capture(one, PACKETS)
        capture(many, PACKETS, 64)
        capture(few, FEW)
        rates = [
            best("Scapy, Ether to PUT", lambda: with_scapy(few)),
            best("Scapy, a session that follows streams", lambda: with_session(few), 1),
            best("scan, 1 connection", lambda: scanned(one)),
            best("scan, 64 connections", lambda: scanned(many)),
            best("plan, 1 connection", lambda: planned(one)),
            best("to Arrow, 1 connection", lambda: to_arrow(one)),
            best("to Arrow, 64 connections", lambda: to_arrow(many)),
        ]
        print(
            table(f"{PACKETS:,} packets of {SIZE} bytes, CPU time of one core", rates, against=rates[0].name)
        )
        if not arguments.no_memory:
            _memory(Path(folder))


def _memory(folder: Path) -> None:
    print("\npeak memory of a process that reads a capture to Arrow")
    for size in (100_000_000, 1_000_000_000):
        path = folder / "large.pcap"
        capture(path, size // (SIZE + RECORD))
        done = subprocess.run(
            [sys.executable, __file__, "--read", str(path)], check=True, capture_output=True, text=True
        )
        print(f"{size / 1e6:6,.0f} MB  {int(done.stdout) / 1024:6,.0f} MiB")


if __name__ == "__main__":
    main()
