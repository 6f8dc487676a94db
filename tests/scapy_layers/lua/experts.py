"""What tshark says of a capture with our dissector: expert infos."""

from __future__ import annotations

import os
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from scapy_layers.derive.lua import OUTPUT

LUA = Path(os.environ.get("ZENOH_LUA", OUTPUT))


class Said(NamedTuple):
    """An expert info."""

    packet: int
    name: str
    text: str
    severity: str


SEVERITIES = {"2097152": "chat", "4194304": "note", "6291456": "warn", "8388608": "error"}
DECODE_AS = {"packed_multicast": "udp.port==57861,zenoh", "unicast_scouting": "udp.port==42638,zenoh"}
"""Captures of which a single packet does not show what it is: users would say so, too."""

_NO_TEXT = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f]")
"""What XML cannot say."""


def pdml(path: Path, *options: str) -> ET.Element:
    """Returns the packets of a capture, and what our dissector makes of them, as tshark writes them."""
    command = [
        "tshark",
        "-n",
        "-X",
        f"lua_script:{LUA}",
        "-r",
        str(path),
        "-T",
        "pdml",
        "-J",
        "zenoh",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, check=True, timeout=600)
    assert b"Lua" not in done.stderr, done.stderr.decode()
    return ET.fromstring(_NO_TEXT.sub(b"?", done.stdout))


def number_of(packet: ET.Element) -> int:
    """Returns where a packet stands in its capture."""
    return int(packet.find("proto[@name='geninfo']/field[@name='num']").attrib["show"])  # type: ignore[union-attr]


def experts(path: Path, *options: str, where: str = "zenoh && _ws.expert") -> list[Said]:
    """Returns what tshark says of a capture."""
    if path.stem in DECODE_AS:
        options = (*options, "-d", DECODE_AS[path.stem])
    if where:
        options = (*options, "-Y", where)
    return list(_said(pdml(path, *options)))


def _said(packets: Iterable[ET.Element]) -> Iterator[Said]:
    for packet in packets:
        number = number_of(packet)
        for one in packet.iter("field"):
            if one.get("name") != "_ws.expert":
                continue
            inside = {inner.get("name", ""): inner.get("show", "") for inner in one}
            names = [name for name in inside if name.startswith("zenoh.expert.")]
            if names:
                severity = SEVERITIES[inside["_ws.expert.severity"]]
                name = names[0].removeprefix("zenoh.expert.")
                yield Said(number, name, inside["_ws.expert.message"], severity)
