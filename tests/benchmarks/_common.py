"""What the benchmarks share: frames and captures made on the spot, the best of several runs, one table."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from tests.benchmarks._rows import record

CLIENT, SERVER = (bytes([127, 0, 0, 1]), 50_000), (bytes([127, 0, 0, 1]), 7447)
INIT_SYN = bytes.fromhex("01096201020304050607")
INIT_ACK = bytes.fromhex("210962111213141516170431323334")
OPEN_SYN = bytes.fromhex("020a640431323334")
OPEN_ACK = bytes.fromhex("220a64")


class Rate(NamedTuple):
    """One line of the table: how many things a second, and each time it was measured."""

    name: str
    rate: float
    samples: tuple[float, ...] = ()


def best(name: str, count: int, run: Callable[[], object], *, runs: int = 5) -> Rate:
    """Runs something several times; the fastest run was disturbed least."""
    seconds = []
    for _ in range(runs):
        begin = perf_counter()
        run()
        seconds.append(perf_counter() - begin)
    return Rate(name, count / min(seconds), tuple(count / taken for taken in seconds))


def exhaust(items: Iterable[object]) -> int:
    """Takes all there are, and counts them."""
    return sum(1 for _ in items)


def table(title: str, rates: Sequence[Rate], *, against: str) -> str:
    """Rates, and their ratio to one of them in the same run; both are recorded when a run folder is named."""
    base = next(rate.rate for rate in rates if rate.name == against)
    for rate in rates:
        name = f"{title}: {rate.name}"
        record(name, rate.samples or (rate.rate,), "1/s")
        if rate.name != against:
            record(name, (rate.rate / base,), "", metric="ratio", baseline=against)
    wide = max(len(rate.name) for rate in rates)
    lines = [title, f"{'':{wide}}  {'per second':>12}  {'ratio':>8}"]
    lines += [f"{rate.name:{wide}}  {rate.rate:12,.0f}  {rate.rate / base:8.3f}" for rate in rates]
    return "\n".join(lines)


def vle(number: int) -> bytes:
    """A number as the wire has it: seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def put(sn: int, payload: bytes = b"12345678") -> bytes:
    """A reliable FRAME with a PUSH of a PUT, about 30 bytes."""
    return b"\x25" + vle(sn) + b"\x3d\x00\x0bbench/topic\x01" + vle(len(payload)) + payload


def prefixed(batch: bytes) -> bytes:
    """A batch as it stands in a stream."""
    return len(batch).to_bytes(2, "little") + batch


def frame(data: bytes, seq: int, *, forward: bool = True, ack: int = 0, flags: int = 0x18) -> bytes:
    """An Ethernet frame with IPv4, TCP with the usual time stamps, and data."""
    (source, sport), (target, dport) = (CLIENT, SERVER) if forward else (SERVER, CLIENT)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 52 + len(data), 0, 0x4000, 64, 6, 0, source, target)
    tcp = struct.pack(">HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack, 0x80, flags, 512, 0, 0)
    stamps = b"\x01\x01\x08\x0a" + struct.pack(">II", seq & 0xFFFFFFFF, ack & 0xFFFFFFFF)
    return bytes(12) + b"\x08\x00" + ip + tcp + stamps + data


def handshake() -> tuple[list[bytes], int, int]:
    """SYN to OPEN as frames, and where both directions stand then."""
    seqs = {True: 1000, False: 2000}
    frames = [
        frame(b"", seqs[True], flags=2),
        frame(b"", seqs[False], forward=False, ack=seqs[True] + 1, flags=0x12),
    ]
    seqs = {True: 1001, False: 2001}
    for forward, batch in ((True, INIT_SYN), (False, INIT_ACK), (True, OPEN_SYN), (False, OPEN_ACK)):
        data = prefixed(batch)
        frames.append(frame(data, seqs[forward], forward=forward, ack=seqs[not forward]))
        seqs[forward] += len(data)
    return frames, seqs[True], seqs[False]


def pcap(path: Path, frames: Iterable[bytes]) -> int:
    """Writes a capture; returns how many packets it has."""
    count = 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        for count, data in enumerate(frames, 1):
            file.write(struct.pack("<IIII", count // 1000, count % 1000 * 1000, len(data), len(data)) + data)
    return count


def pcapng(path: Path, frames: Iterable[bytes]) -> int:
    """Writes the same in the newer format."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = (len(body) + 12).to_bytes(4, "little")
        return kind.to_bytes(4, "little") + size + body + size

    count = 0
    with path.open("wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        file.write(block(1, struct.pack("<HHI", 1, 0, 0)))
        for count, data in enumerate(frames, 1):
            file.write(block(6, struct.pack("<IIIII", 0, 0, count, len(data), len(data)) + data))
    return count
