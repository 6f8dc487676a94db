"""What columns cost from units to Arrow, beside strict decoding with Scapy: ``python tests/benchmarks/bench_columns_decode.py``.

A unit is a batch with one FRAME, PUSH and PUT, unless its line says otherwise. Ratios are to Scapy in the same run.
``no tables``: everything is read and checked as numpy arrays, no Arrow is made.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from scapy_layers.catalogue import decode_batch, shapes
from scapy_layers.derive.columns import Decoder, UnitKind, Units
from scapy_layers.errors import WireError
from tests.benchmarks._common import Rate, best, exhaust, put, table, vle

COUNT = 1 << 14
SCAPY_COUNT = 2_000


def rich(sn: int) -> bytes:
    """About 57 bytes with 20 fields: QoS on FRAME and PUSH, a timestamp, an encoding."""
    frame = b"\xa5" + vle(sn) + b"\x31\x05"
    push = b"\xbd\x00\x0ebench/topic/00\x21\x0d"
    stamp = vle(7 << 58 | sn) + b"\x04\x01\x02\x03\x04"
    return frame + push + b"\x61" + stamp + b"\x08\x10" + b"0123456789abcdef"


def full(sn: int) -> bytes:
    """Twenty PUSHes in one FRAME."""
    return b"\x25" + vle(sn) + b"".join(put(sn + index)[1 + len(vle(sn + index)) :] for index in range(20))


def strictly(batch: bytes) -> object:
    """Decodes a batch with Scapy, or finds out why not."""
    try:
        return decode_batch(batch)
    except WireError as error:
        return error


def units(batches: Sequence[bytes]) -> Units:
    """Lays batches one behind the other."""
    sizes = np.array([len(batch) for batch in batches])
    end = np.cumsum(sizes)
    kind = np.full(len(batches), UnitKind.BATCH, np.uint8)
    return Units(np.frombuffer(b"".join(batches), np.uint8), end - sizes, end, kind)


def measure(title: str, batches: Sequence[bytes]) -> str:
    """Measures one kind of traffic."""
    given, few = units(batches), batches[:SCAPY_COUNT]
    rates: list[Rate] = [best("Scapy", len(few), lambda: exhaust(map(strictly, few)), runs=3)]
    for name, decoder in (("no tables", Decoder(shapes(), {})), ("all tables", Decoder(shapes()))):
        rates.append(best(name, len(batches), partial(decoder.decode, given)))
    return table(f"{title}, {len(given.data) / len(batches):.0f} bytes", rates, against="Scapy")


if __name__ == "__main__":
    numbers = range(20_000, 20_000 + COUNT)
    print(measure("small", [put(sn) for sn in numbers]))
    print(measure("20 fields", [rich(sn) for sn in numbers]))
    print(measure("small and 20 fields in turn", [(put, rich)[sn % 2](sn) for sn in numbers]))
    print(measure("20 PUSHes in each FRAME", [full(sn) for sn in numbers[: COUNT // 4]]))
    print(measure("each PUSH refused", [put(sn)[:-1] for sn in numbers[: COUNT // 4]]))
