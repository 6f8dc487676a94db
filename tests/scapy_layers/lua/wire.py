"""Captures made of messages, and what tshark with ``zenoh.lua`` says about them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import wrpcap

import scapy_layers
from scapy_layers.codes import DEFAULT_PORT
from scapy_layers.message import Message
from scapy_layers.network import Push
from scapy_layers.transport import Frame, Init, Open

SCRIPT = Path(scapy_layers.__file__).parent / "zenoh.lua"
PCAPS = Path(scapy_layers.__file__).parent.parent / "pcaps"
TIME = 1_700_000_000.0

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

ASKER, ANSWERER = "10.0.0.1", "10.0.0.2"
ZIDS = "a1a2a3a4", "b1b2b3b4"


@dataclass
class Talk:
    """A TCP connection; each packet comes 1 ms behind the one before it."""

    port: int = DEFAULT_PORT
    asker_port: int = 50_000
    packets: list[Packet] = field(default_factory=list)
    next: dict[bool, int] = field(default_factory=lambda: {False: 1000, True: 5000})

    def raw(self, data: bytes, *, back: bool = False) -> Talk:
        """Adds a segment."""
        here, there = (ANSWERER, ASKER) if back else (ASKER, ANSWERER)
        sport, dport = (self.port, self.asker_port) if back else (self.asker_port, self.port)
        segment = TCP(sport=sport, dport=dport, seq=self.next[back], ack=self.next[not back], flags="PA")
        return self._add(IP(src=here, dst=there) / segment / Raw(data), back, len(data))

    def batch(self, *messages: Message | bytes, back: bool = False) -> Talk:
        """Adds a segment with one batch."""
        return self.raw(prefixed(*messages), back=back)

    def frame(self, *messages: Message, back: bool = False, sn: int = 1) -> Talk:
        """Adds a segment with one FRAME."""
        return self.batch(Frame(R=1, sn=sn, messages=list(messages)), back=back)

    def syn(self) -> Talk:
        """Adds how TCP begins."""
        for back in (False, True):
            here, there = (ANSWERER, ASKER) if back else (ASKER, ANSWERER)
            sport, dport = (self.port, self.asker_port) if back else (self.asker_port, self.port)
            segment = TCP(
                sport=sport, dport=dport, seq=self.next[back], ack=1001, flags="SA" if back else "S"
            )
            self._add(IP(src=here, dst=there) / segment, back, 1)
        return self

    def open(self) -> Talk:
        """Adds a handshake."""
        self.batch(Init(version=9, zid=ZIDS[0], whatami=2))
        self.batch(Init(A=1, version=9, zid=ZIDS[1], whatami=0, cookie=b"cookie--"), back=True)
        self.batch(Open(lease=10_000, initial_sn=1, cookie=b"cookie--"))
        return self.batch(Open(A=1, lease=10_000, initial_sn=1), back=True)

    def save(self, path: Path) -> Path:
        """Writes the capture."""
        save(path, self.packets)
        return path

    def _add(self, packet: Packet, back: bool, size: int) -> Talk:
        self.packets.append(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet)
        self.next[back] += size
        return self


def prefixed(*messages: Message | bytes) -> bytes:
    """A batch behind its length."""
    raw = b"".join(bytes(one) for one in messages)
    return len(raw).to_bytes(2, "little") + raw


def datagram(
    data: Message | bytes,
    *,
    to: str = ANSWERER,
    sport: int = 50_000,
    dport: int = 50_001,
    source: str = ASKER,
) -> Packet:
    """A packet with one UDP datagram."""
    link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    return link / IP(src=source, dst=to) / UDP(sport=sport, dport=dport) / Raw(bytes(data))


def save(path: Path, packets: Sequence[Packet]) -> Path:
    """Writes packets, 1 ms between them."""
    for index, packet in enumerate(packets):
        packet.time = TIME + index / 1000
    wrpcap(str(path), list(packets))
    return path


def push(keyexpr: str, body: Message) -> Push:
    """A PUSH with the whole key in its suffix."""
    return Push(N=1, M=1, key_scope=0, key_suffix=keyexpr, body=body)


def tshark(capture: Path, *arguments: str) -> str:
    """Runs tshark with our dissector and returns what it prints.

    Nothing may go wrong in it: an error of Lua fails the test.
    """
    done = run(capture, *arguments)
    assert done.returncode == 0, done.stderr
    for said in (done.stdout, done.stderr):
        assert "Lua Error" not in said, said
        assert "Lua: " not in said, said
        assert "Dissector bug" not in said, said
    # Wireshark tells people who are root that they are; nothing else may be said beside the packets.
    others = [line for line in done.stderr.splitlines() if "root" not in line]
    assert not others, done.stderr
    return done.stdout


def run(capture: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same without a look at what it says."""
    command = ["tshark", "-n", "-X", f"lua_script:{SCRIPT}", "-r", str(capture), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)


def fields(capture: Path, *names: str, where: str = "zenoh", options: Sequence[str] = ()) -> list[list[str]]:
    """Returns the values of some fields, a row for each packet that passes a filter; several values have a ``|``."""
    wanted = [part for name in names for part in ("-e", name)]
    text = tshark(capture, "-Y", where, "-T", "fields", "-E", "aggregator=|", *wanted, *options)
    return [line.split("\t") for line in text.splitlines()]


def values(capture: Path, name: str, *, where: str = "zenoh", options: Sequence[str] = ()) -> list[str]:
    """Returns all values of one field."""
    rows = fields(capture, name, where=where, options=options)
    return [value for row in rows if row[0] for value in row[0].split("|")]


def count(capture: Path, where: str = "zenoh", *options: str) -> int:
    """Returns how many packets pass a filter."""
    return len(fields(capture, "frame.number", where=where, options=options))


def packets_of(capture: Path, *options: str) -> list[dict[str, Any]]:
    """Returns the layers of every packet, as ``-T json`` has them."""
    return [packet["_source"]["layers"] for packet in json.loads(tshark(capture, "-T", "json", *options))]
