"""The expert infos for broken requirements: those that ``scapy_layers.lint`` finds, and none in ordinary traffic."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

import pytest

from scapy_layers.catalogue import decode_batch
from scapy_layers.derive.lua import OUTPUT, PRELUDE
from scapy_layers.errors import WireError
from scapy_layers.extensions import Compression, LowLatency
from scapy_layers.lint import RULES, findings
from scapy_layers.stream import Batch, Datagram, End, Endpoint, Gap, units_of
from scapy_layers.transport import Init
from tests.scapy_layers.test_lint import (
    CASES,
    CLIENT,
    MORE,
    SECOND,
    Story,
    agreed,
    client,
    interest,
    opened,
    ordinary,
    put,
    request,
    response,
    router,
)

LUA = Path(os.environ.get("ZENOH_LUA", OUTPUT))
PCAPS = Path(__file__).parents[3] / "pcaps"

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

# Who says what ------------------------------------------------------------------------------------

OWN = {
    f"ZN-{number}": level
    for number, level in re.findall(r'^  \{ "([A-Z]+-\d+)", "([A-Z ]+)"', (PRELUDE / "rules.lua").read_text(), re.M)
}
"""Requirements that have an expert info of their own, and their levels."""

OF_CONVERSATION = {
    "ZN-FRM-002": {"range"},
    "ZN-FRM-010": {"gap", "loss", "duplicate", "old"},
    "ZN-OPEN-011": {"gap", "loss", "duplicate", "old"},
    "ZN-INIT-050": {"place"},
    "ZN-NET-001": {"place"},
    "ZN-MSG-007": {"place"},
    "ZN-DCL-101": {"declaration"},
    "ZN-DCL-102": {"alias"},
    "ZN-DCL-103": {"alias"},
    "ZN-REQ-006": {"request"},
    "ZN-RSP-002": {"request"},
    "ZN-FIN-003": {"request"},
    "ZN-FRG-102": {"fragment"},
    "ZN-FRG-105": {"fragment"},
    "ZN-INIT-044": {"fragment"},
}
"""Requirements that the conversation notices when they are broken: what its expert infos are called."""

REFUSED = {"truncated", "overlong", "bad_value", "unknown_message", "unknown_mandatory_extension"}
"""Expert infos for what strict decoding refuses."""

OF_DECODING = {
    f"ZN-{number}"
    for number in (
        "SCT-013 HLO-006 OAM-001 INIT-013 INIT-019 OPEN-002 CLS-005 KA-002 FRM-004 FRG-001 JOIN-004 INT-003 RSP-007 "
        "REQ-005 PUSH-006 DCL-004 OAM-005 MSG-010 EXT-104"
    ).split()
}
"""Requirements that strict decoding holds to."""

NOT_HERE = {
    "ZN-INIT-003": "a dissector is not told of the end of a connection",
    "ZN-RTE-024": "nothing arrives that could be blamed for an answer that is not there",
    "ZN-VLE-102": "no value tells in how many bytes it came",
    "ZN-INIT-002": "zenoh-pico is known for it: normal traffic",
    "ZN-DEL-002": "zenoh-pico is known for it: normal traffic",
    "ZN-CLS-107": "real nodes are known for it: normal traffic",
    "ZN-FRG-003": "real nodes are known for it: normal traffic",
    "ZN-INT-102": "real nodes are known for it: normal traffic",
    "ZN-OPEN-008": "real nodes are known for it: normal traffic",
    "ZN-OPEN-013": "real nodes are known for it: normal traffic",
    "ZN-RTE-012": "real nodes are known for it: normal traffic",
}
"""Requirements without an expert info, and why."""


# Captures of stories --------------------------------------------------------------------------------


@dataclass
class Connection:
    """TCP between two endpoints: where both count, how batches travel."""

    next: list[int] = field(default_factory=lambda: [1_000, 900_000])
    batches: list[int] = field(default_factory=lambda: [0, 0])
    inits: list[Init] = field(default_factory=list)

    def both_offer(self, kind: type[LowLatency] | type[Compression]) -> bool:
        """Tells whether both sides offer something, once the OPEN of the first one was said."""
        offers = [any(type(one) is kind for one in init.extensions) for init in self.inits]
        return len(offers) == 2 and all(offers) and self.batches[0] >= 2

    def framed(self, data: bytes, side: int) -> bytes:
        """Returns a batch as it travels."""
        low = self.both_offer(LowLatency)
        if self.both_offer(Compression) and not low and self.batches[side] >= 2:
            data = b"\0" + data
        self.batches[side] += 1
        if self.batches[side] == 1:
            try:
                self.inits += [one for one in decode_batch(data) if isinstance(one, Init)]
            except WireError:
                pass
        return len(data).to_bytes(4 if low else 2, "little") + data


@dataclass
class Capture:
    """Stories as packets, one story behind the other, each between addresses of its own."""

    packets: list[tuple[int, bytes]] = field(default_factory=list)
    spans: list[range] = field(default_factory=list)
    _begin: int = 0

    def add(self, story: Story) -> None:
        """Adds a story."""
        first, index = len(self.packets) + 1, len(self.spans)
        connections: dict[int, Connection] = {}
        for unit in story.units:
            link, side = unit.way.link, int(not unit.way.forward)
            source, target = (self._end(end, index, link.number) for end in (unit.way.source, unit.way.target))
            time = self._begin + unit.time
            if isinstance(unit, Datagram):
                data = self._own(unit.data, index)
                self._packet(time, 17, source, target, struct.pack(">HH", 8 + len(data), 0) + data)
                continue
            connection = connections.get(link.number)
            if connection is None:
                connection = connections[link.number] = Connection()
                ends = (source, target) if unit.way.forward else (target, source)
                for back in (0, 1):
                    self._segment(time, connection, back, ends[::-1] if back else ends, b"", 18 if back else 2)
                    connection.next[back] += 1
            if isinstance(unit, Gap):
                connection.next[side] += unit.missing
            elif isinstance(unit, End):
                self._segment(time, connection, side, (source, target), b"", 17)
            elif isinstance(unit, Batch):
                data = connection.framed(self._own(unit.data, index), side)
                self._segment(time, connection, side, (source, target), data, 24)
                connection.next[side] += len(data)
        self._begin += story.time + SECOND
        self.spans.append(range(first, len(self.packets) + 1))

    def save(self, path: Path) -> Path:
        """Writes a pcap."""
        parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 1)]
        for time, packet in self.packets:
            parts += [struct.pack("<IIII", *divmod(time, SECOND), len(packet), len(packet)), packet]
        path.write_bytes(b"".join(parts))
        return path

    @staticmethod
    def _own(data: bytes, index: int) -> bytes:
        """Gives each story cookies of its own."""
        return data.replace(b"cook", b"%04d" % index)

    @staticmethod
    def _end(end: Endpoint, index: int, number: int) -> tuple[bytes, int]:
        address = IPv4Address(end.address)
        if not address.is_multicast:
            address = IPv4Address(int(IPv4Address("10.1.0.0")) + index * 256 + int(address) % 256)
        return address.packed, end.port + (number if end.port == 50_000 and index and number == 1 else 0)

    def _segment(
        self,
        time: int,
        connection: Connection,
        side: int,
        ends: tuple[tuple[bytes, int], tuple[bytes, int]],
        data: bytes,
        flags: int,
    ) -> None:
        words = connection.next[side], connection.next[1 - side] if flags != 2 else 0
        self._packet(time, 6, *ends, struct.pack(">IIBBHHH", *words, 5 << 4, flags, 512, 0, 0) + data)

    def _packet(self, time: int, protocol: int, source: tuple[bytes, int], target: tuple[bytes, int], rest: bytes) -> None:
        size = 24 + len(rest)
        ends = source[0] + target[0]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, size, 1, 0, 64, protocol, 0) + ends
        ports = struct.pack(">HH", source[1], target[1])
        self.packets.append((time, bytes(12) + b"\x08\0" + ip + ports + rest))


# Both sides -----------------------------------------------------------------------------------------


class Said(NamedTuple):
    """An expert info."""

    packet: int
    name: str
    text: str
    severity: str


SEVERITIES = {"2097152": "chat", "4194304": "note", "6291456": "warn", "8388608": "error"}
DECODE_AS = {"packed_multicast": "udp.port==57861,zenoh", "unicast_scouting": "udp.port==42638,zenoh"}
"""Captures of which a single packet does not show what it is: users would say so, too."""


def experts(path: Path, *options: str) -> list[Said]:
    """Returns what tshark says of a capture."""
    if path.stem in DECODE_AS:
        options = (*options, "-d", DECODE_AS[path.stem])
    if "-2" not in options:
        options = (*options, "-Y", "zenoh && _ws.expert")
    command = ["tshark", "-n", "-X", f"lua_script:{LUA}", "-r", str(path), "-T", "pdml", "-J", "zenoh", *options]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert b"Lua" not in done.stderr, done.stderr.decode()
    said = []
    for packet in ET.fromstring(re.sub(rb"[\0-\x08\x0b\x0c\x0e-\x1f]", b"?", done.stdout)):
        number = int(packet.find("proto[@name='geninfo']/field[@name='num']").attrib["show"])  # type: ignore[union-attr]
        for one in packet.iter("field"):
            if one.get("name") == "_ws.expert":
                inside = {inner.get("name", ""): inner.get("show", "") for inner in one}
                (name,) = [name for name in inside if name.startswith("zenoh.expert.")]
                severity = SEVERITIES[inside["_ws.expert.severity"]]
                text = inside["_ws.expert.message"]
                said.append(Said(number, name.removeprefix("zenoh.expert."), text, severity))
    return said


def requirement(name: str) -> str:
    """Returns the id of the requirement that an expert info is named after."""
    return "ZN-" + name.upper().replace("_", "-")


def own(said: Sequence[Said]) -> set[tuple[int, str]]:
    """Returns packets and requirements of the expert infos that have one."""
    return {(one.packet, requirement(one.name)) for one in said if requirement(one.name) in OWN}


def linted(path: Path) -> set[tuple[int, str]]:
    """Returns packets and requirements that the linter finds broken, of those that have an expert info.

    What is known of an implementation and breaks no MUST is normal traffic.
    """
    return {
        (one.packet, one.rule.ids[0])
        for one in findings(units_of(path))
        if one.rule.ids[0] in OWN and (one.known is None or one.rule.level.startswith("MUST"))
    }


# Tests ----------------------------------------------------------------------------------------------

STORIES = [*CASES, *MORE]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Capture, Path]:
    """All stories in one capture."""
    capture = Capture()
    for _, story in STORIES:
        capture.add(story)
    return capture, capture.save(tmp_path_factory.mktemp("rules") / "stories.pcap")


@pytest.fixture(scope="module")
def told(made: tuple[Capture, Path]) -> list[Said]:
    """What tshark says of them, in one run."""
    return experts(made[1])


def test_rules_are_those_of_the_linter_or_left_out_with_a_reason() -> None:
    levels = {rule.ids[0]: rule.level for rule in reversed(RULES)}
    assert {number: levels.get(number) for number in OWN} == OWN
    assert levels.keys() - OWN.keys() - OF_CONVERSATION.keys() - OF_DECODING - NOT_HERE.keys() == set()


def x(made,told):
    pass
