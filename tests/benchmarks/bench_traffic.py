"""How fast Spark counts what travelled, by key, beside one core without it.

A capture of one session is made in a temporary folder (1.2 GB of 10 million packets, unless told otherwise) and
removed afterwards. Each packet is a batch with one PUT on one of 400 keys, said by alias and suffix.
The figure to watch is the ratio, measured in the same run: the machine may be busy. Spark has two cores, ``local[2]``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from scapy_layers import scan, tables
from scapy_layers.declarations import DeclareKeyExpr
from scapy_layers.network import Declare
from scapy_layers.transport import Frame
from spark_reports import traffic
from spark_reports.engine.java import find_java
from spark_reports.engine.session import spark_session
from spark_reports.engine.settings import BULK
from tests.benchmarks._common import Rate, frame, handshake, pcap, prefixed, table

PACKETS = 10_000_000
SIZE = 100
ALIASES, SUFFIXES = 8, 50
FIRST_SN = 1 << 21
"""From here on a number takes four bytes, up to 2**28."""

SOME = 1 << 18
"""Packets that are made at a time."""

START = 1_750_000_000
"""Seconds since 1970 of the first packet."""

RECORD = 16


def capture(path: Path, packets: int) -> None:
    """Writes the handshake, the declarations, and the packets, which differ in time, number, key and sequence."""
    frames, seq, back = handshake()
    for number in range(1, ALIASES + 1):
        body = DeclareKeyExpr(key_id=number, key_suffix=f"robot/{number}/sensor")
        data = prefixed(bytes(Frame(R=1, sn=FIRST_SN + number - 1, messages=[Declare(body=body)])))
        frames.append(frame(data, seq, ack=back))
        seq += len(data)
    pcap(path, frames)
    before = 54 + 12
    message = bytes(4) + b"\x7d\x01\x04/000\x01"
    payload = bytes(SIZE - before - 2 - 1 - len(message) - 1)
    data = prefixed(b"\x25" + message + bytes([len(payload)]) + payload)
    one = np.frombuffer(SIZE.to_bytes(4, "little").rjust(12, b"\0") + SIZE.to_bytes(4, "little"), np.uint8)
    template = np.concatenate([one, np.frombuffer(frame(data, 0, ack=back), np.uint8)])
    at = RECORD + before
    with path.open("ab") as file:
        for first in range(0, packets, SOME):
            index = np.arange(first, min(first + SOME, packets), dtype=np.int64)
            rows = np.tile(template, (len(index), 1))
            _put(rows, 0, START + index // 1_000_000, "<u4")
            _put(rows, 4, index % 1_000_000, "<u4")
            _put(rows, RECORD + 38, seq + index * len(data), ">u4")
            sn = FIRST_SN + ALIASES + index
            for byte in range(4):
                rows[:, at + 3 + byte] = (sn >> 7 * byte & 0x7F) | (0x80 if byte < 3 else 0)
            rows[:, at + 8] = 1 + index % ALIASES
            suffix = index // ALIASES % SUFFIXES
            for digit in range(3):
                rows[:, at + 11 + digit] = ord("0") + suffix // 10 ** (2 - digit) % 10
            file.write(rows.tobytes())


def _put(rows: np.ndarray, at: int, values: np.ndarray, kind: str) -> None:
    size = np.dtype(kind).itemsize
    rows[:, at : at + size] = (values & (1 << 8 * size) - 1).astype(kind).view(np.uint8).reshape(-1, size)


def timed(name: str, packets: int, run: Callable[[], object]) -> Rate:
    """Runs something once: it takes long enough."""
    begin = perf_counter()
    found = run()
    seconds = perf_counter() - begin
    print(f"{name}: {seconds:.1f} s, {found}", file=sys.stderr, flush=True)
    return Rate(name, packets / seconds)


def one_core(path: Path) -> int:
    """Reads the same columns that Spark gets, and counts rows."""
    wanted = {"push": ["key_scope", "key_suffix", "M"]}
    return sum(found["push"].num_rows for found in tables.read(path, tables=wanted) if "push" in found)


def messages(spark: SparkSession, path: Path, columns: str, **options: str) -> DataFrame:
    """Returns some columns of messages."""
    return spark.read.format("zenoh").options(columns=columns, **options).load(str(path))


def by_wire_key(spark: SparkSession, path: Path) -> int:
    """Groups by the key as it was said; equal rows of a piece leave Python as one."""
    pushed = messages(spark, path, "key_scope,key_suffix", message="push", count="true")
    return len(pushed.groupBy("key_scope", "key_suffix").agg(sf.sum("count")).collect())


def by_wire_key_apart(spark: SparkSession, path: Path) -> int:
    """Groups by the key as it was said, with a row for each message."""
    pushed = messages(spark, path, "key_scope,key_suffix", message="push")
    return len(pushed.groupBy("key_scope", "key_suffix").agg(sf.count("*")).collect())


def by_full_key(spark: SparkSession, path: Path) -> int:
    """Groups by the full key, for which the declarations are looked for first."""
    columns = "capture,connection,forward,batch,pieces,offset,body,key_scope,key_suffix,mapping,key_id"
    declared = messages(spark, path, columns, body="d_keyexpr,u_keyexpr")
    pushed = messages(spark, path, columns, message="push")
    keyed = traffic.keys(pushed, traffic.aliases(declared))
    return len(keyed.groupBy("keyexpr").agg(sf.count("*")).collect())


def by_full_key_counted(spark: SparkSession, path: Path) -> int:
    """Groups by the full key; alike messages leave Python as one, and are kept, so that the capture is read once."""
    counted = messages(spark, path, traffic.KEY_COLUMNS, message="push,declare", count="true").cache()
    keyed = traffic.keys(counted, traffic.aliases(counted)).where("message = 'push'")
    found = keyed.groupBy("keyexpr").agg(sf.sum("count")).collect()
    counted.unpersist()
    return len(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "packets", nargs="?", type=int, default=PACKETS, help="packets of 100 bytes (%(default)s)"
    )
    packets = parser.parse_args().packets
    with tempfile.TemporaryDirectory(prefix="bench-traffic-") as folder:
        path = Path(folder) / "capture.pcap"
        capture(path, packets)
        print(f"{path.stat().st_size / 1e6:,.0f} MB", file=sys.stderr)
        rates = [
            timed("columns, one core", packets, lambda: one_core(path)),
            timed("planning", packets, lambda: len(scan.plan(path, 64 << 20))),
        ]
        with spark_session(find_java(os.environ), os.environ, BULK, master="local[2]") as spark:
            traffic.register(spark)
            spark.range(1000).selectExpr("sum(id)").collect()
            rates += [
                timed("Spark, count", packets, lambda: messages(spark, path, "message").count()),
                timed("Spark, by key as said", packets, lambda: by_wire_key(spark, path)),
                timed("Spark, the same, all rows", packets, lambda: by_wire_key_apart(spark, path)),
                timed("Spark, by full key", packets, lambda: by_full_key_counted(spark, path)),
                timed("Spark, the same, all rows", packets, lambda: by_full_key(spark, path)),
            ]
    print(table(f"{packets:,} packets of {SIZE} bytes", rates, against="columns, one core"))


if __name__ == "__main__":
    main()
