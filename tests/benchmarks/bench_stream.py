"""How fast captures are read and streams are cut into batches, beside Scapy: ``python tests/benchmarks/bench_stream.py``.

The figure to watch is the ratio, measured in the same run: the machine may be busy. One core is used.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

sys.path.insert(0, str(Path(__file__).parents[2]))

from scapy.layers.inet import TCP
from scapy.packet import Packet, Raw
from scapy.sessions import TCPSession
from scapy.utils import PcapReader, RawPcapReader

from scapy_layers.capture import read
from scapy_layers.stream import units, units_of
from tests.benchmarks._common import best, exhaust, frame, handshake, pcap, pcapng, prefixed, put, table

PACKETS = 200_000
FEW = 2_000
"""Packets for Scapy's reassembler, which is some hundred times slower."""


def one_each(packets: int) -> Iterator[bytes]:
    """One batch in each segment: what express messages and small rates look like."""
    yield from stream(prefixed(put(sn)) for sn in range(packets))


def many_each(packets: int) -> Iterator[bytes]:
    """Thirty batches in each segment: what a busy link looks like."""
    yield from stream(b"".join(prefixed(put(30 * sn + at)) for at in range(30)) for sn in range(packets))


def split(packets: int) -> Iterator[bytes]:
    """Segments that end anywhere: batches of 250 bytes cut every 100."""
    whole = b"".join(prefixed(put(sn, bytes(230))) for sn in range(packets * 100 // 250))
    yield from stream(whole[at : at + 100] for at in range(0, len(whole), 100))


def answered(packets: int) -> Iterator[bytes]:
    """Every segment with an acknowledgement of its own behind it."""
    yield from stream((prefixed(put(sn)) for sn in range(packets // 2)), acknowledged=True)


def stream(pieces: Iterator[bytes], *, acknowledged: bool = False) -> Iterator[bytes]:
    """A session, then pieces of what the client sends."""
    frames, seq, back = handshake()
    yield from frames
    for data in pieces:
        yield frame(data, seq, ack=back)
        seq += len(data)
        if acknowledged:
            yield frame(b"", back, forward=False, ack=seq & 0xFFFFFFFF, flags=0x10)


class ZenohBatch(Packet):  # type: ignore[misc]
    """The hook that Scapy's TCPSession asks for whole messages."""

    fields_desc: ClassVar[list[object]] = []

    @classmethod
    def tcp_reassemble(cls, data: bytes, *_: object) -> Packet | None:
        """Returns a batch when it is complete."""
        size = 2 + int.from_bytes(data[:2], "little")
        if len(data) < size:
            return None
        return Raw(data[:size]) / Raw(data[size:]) if len(data) > size else Raw(data)


def scapy_session(path: Path) -> int:
    """Reads with Scapy's own reassembler."""
    TCP.payload_guess.insert(0, ({}, ZenohBatch))
    try:
        with PcapReader(str(path)) as reader:
            session = TCPSession()
            return sum(1 for packet in reader if session.process(packet) is not None)
    finally:
        TCP.payload_guess.pop(0)


def main() -> None:
    """Makes the captures, measures, prints."""
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        for make in (one_each, many_each, split, answered):
            path = Path(folder) / f"{make.__name__}.pcap"
            made[make.__name__] = path, pcap(path, make(PACKETS if make is not many_each else PACKETS // 10))
        path, count = made["one_each"]
        newer = path.with_suffix(".pcapng")
        pcapng(newer, one_each(PACKETS))
        few = Path(folder) / "few.pcap"
        few_count = pcap(few, one_each(FEW))
        many, many_count = made["many_each"]

        rates = [
            best("scapy RawPcapReader, packets", count, lambda: exhaust(RawPcapReader(str(path)))),
            best("pcap to segments, packets", count, lambda: exhaust(read(path))),
            best("pcap to batches, packets", count, lambda: exhaust(units_of(path))),
            best("pcapng to batches, packets", count, lambda: exhaust(units_of(newer))),
            best("  the long way, packets", count, lambda: exhaust(units(read(path))), runs=2),
            best("  split batches, packets", made["split"][1], lambda: exhaust(units_of(made["split"][0]))),
            best(
                "  acknowledged, packets", made["answered"][1], lambda: exhaust(units_of(made["answered"][0]))
            ),
            best("  30 batches each, packets", many_count, lambda: exhaust(units_of(many))),
            best("  30 batches each, batches", 30 * many_count, lambda: exhaust(units_of(many))),
            best("scapy TCPSession, packets", few_count, lambda: scapy_session(few), runs=2),
        ]
    size = len(frame(prefixed(put(PACKETS // 2)), 0))
    print(table(f"Streams of {PACKETS:,} Ethernet frames of {size} bytes", rates, against=rates[0].name))


if __name__ == "__main__":
    main()
