"""A capture of two nodes that say what a test wants."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scapy_layers.data import Err, Put, Query, Reply
from scapy_layers.message import Message
from scapy_layers.network import Push, Request, Response, ResponseFinal
from scapy_layers.transport import Frame, Init, Open
from tests.scapy_layers.packets import HERE, THERE, ethernet, pcap, prefixed

ALICE, BOB = b"\xa1\x01", b"\xb2\x02"
A, B = "1a1", "2b2"
"""The same two in text form."""

SYN, ACK = 2, 16


class Said:
    """What two nodes say; every message comes in a FRAME and a packet of its own."""

    def __init__(self) -> None:
        self._batches: list[tuple[bytes, bool]] = []
        self._sn = {False: 10, True: 20}
        self._raw(Init(whatami=2, zid=ALICE))
        self._raw(Init(A=1, whatami=0, zid=BOB, cookie=b"c"), back=True)
        self._raw(Open(T=1, lease=10, initial_sn=10, cookie=b"c"))
        self._raw(Open(A=1, T=1, lease=10, initial_sn=20), back=True)

    def _raw(self, message: Message, *, back: bool = False) -> None:
        self._batches.append((prefixed(bytes(message)), back))

    def say(self, *messages: Message, back: bool = False) -> Said:
        """One FRAME, from alice to bob or back."""
        self._raw(Frame(R=1, sn=self._sn[back], messages=list(messages)), back=back)
        self._sn[back] += 1
        return self

    def packets(self) -> Iterator[bytes]:
        """IPv4 in Ethernet, a second apart; the first message is in packet 3."""
        seq = {False: 1000, True: 2000}
        yield self._packet(b"", seq, back=False, flags=SYN)
        yield self._packet(b"", seq, back=True, flags=SYN | ACK)
        for data, back in self._batches:
            yield self._packet(data, seq, back=back, flags=ACK)

    @staticmethod
    def _packet(data: bytes, seq: dict[bool, int], *, back: bool, flags: int) -> bytes:
        source, target = ((THERE, 7447), (HERE, 50_000))[:: 1 if back else -1]
        segment = struct.pack(
            ">HHIIBBHHH", source[1], target[1], seq[back], seq[not back], 0x50, flags, 512, 0, 0
        )
        size = 40 + len(data)
        header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 7, 0, 64, 6, 0, source[0], target[0])
        seq[back] += len(data) + bool(flags & SYN)
        return ethernet(header + segment + data)

    def write(self, path: Path) -> str:
        """Writes the capture; returns its name."""
        path.write_bytes(pcap(self.packets()))
        return str(path)


def put(key: str, data: bytes = b"x", encoding: int | None = None, schema: bytes | None = None) -> Push:
    """A value."""
    named = {} if encoding is None else {"E": 1, "encoding": encoding, "S": int(schema is not None)}
    if schema is not None:
        named["schema"] = schema  # type: ignore[assignment]
    return Push(N=1, key_suffix=key, body=Put(data=data, **named))


def query(number: int, key: str, parameters: str = "") -> Request:
    """A query."""
    return Request(
        request_id=number, N=1, key_suffix=key, body=Query(P=int(bool(parameters)), parameters=parameters)
    )


def reply(number: int, key: str, data: bytes = b"x") -> Response:
    """A reply with a value."""
    return Response(request_id=number, N=1, key_suffix=key, body=Reply(body=Put(data=data)))


def error(number: int, data: bytes = b"no") -> Response:
    """A reply that is an error, without a key as nodes send it."""
    return Response(request_id=number, key_suffix="", body=Err(data=data))


def final(number: int) -> ResponseFinal:
    """The end of replies."""
    return ResponseFinal(request_id=number)


def with_small_files(most: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``zenoh-dissect`` where no file may have more bytes, as on a disk that becomes full."""
    script = (
        "import resource, sys\n"
        "from scapy_layers.__main__ import main\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
