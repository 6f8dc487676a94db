"""The dissector among other plugins, as tshark loads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from scapy_layers.derive.lua import OUTPUT
from scapy_layers.scouting import Scout

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "pcaps" / "query.pcapng"

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

OTHER = """
local other = Proto("zenoh", "Zenoh Protocol")
other.fields = { ProtoField.uint32("zenoh.frame.sn", "sn") }
function other.dissector(tvb, pinfo, tree) tree:add(other, tvb()) return tvb:len() end
"""


def tshark(*arguments: str | Path) -> tuple[list[str], str]:
    """Runs tshark on a capture; returns the lines of its output, and what it complains about."""
    command = ["tshark", "-n", "-r", CAPTURE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr


def test_another_zenoh_plugin_is_named_and_both_work(tmp_path: Path) -> None:
    other = tmp_path / "other.lua"
    other.write_text(OTHER)
    shown, complaints = tshark(
        "-X",
        f"lua_script:{other}",
        "-X",
        f"lua_script:{OUTPUT}",
        "-Y",
        "zenoh_lua.put",
        "-T",
        "fields",
        "-e",
        "zenoh_lua.keyexpr",
    )
    assert "another Zenoh dissector is loaded; this one is called zenoh_lua" in complaints
    assert shown
    assert "Error" not in complaints


def test_loaded_twice_is_said_and_does_no_harm(tmp_path: Path) -> None:
    copy = tmp_path / "copy.lua"
    shutil.copy(OUTPUT, copy)
    alone, _ = tshark("-X", f"lua_script:{OUTPUT}", "-Y", "zenoh")
    twice, complaints = tshark("-X", f"lua_script:{OUTPUT}", "-X", f"lua_script:{copy}", "-Y", "zenoh")
    assert "loaded twice" in complaints
    assert "Error" not in complaints
    assert twice == alone
    assert len(alone) > 50


def test_typed_fields_can_be_compared() -> None:
    shown, _ = tshark(
        "-X",
        f"lua_script:{OUTPUT}",
        "-Y",
        'zenoh.request.request_id >= 1 && zenoh.keyexpr contains "answers"',
        "-T",
        "fields",
        "-e",
        "zenoh.request.request_id",
    )
    assert shown
    assert all(int(number) >= 1 for line in shown for number in line.split(","))


def test_roles_asked_for_are_named_together(tmp_path: Path) -> None:
    asked = Ether() / IP(src="10.0.0.1", dst="224.0.0.224") / UDP(sport=50_000, dport=7446)
    path = tmp_path / "asked.pcap"
    wrpcap(str(path), [asked / Scout(version=9, what=what) for what in (1, 6, 7)])
    command = ["tshark", "-n", "-r", str(path), "-X", f"lua_script:{OUTPUT}", "-V"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    named = [line.split("what: ")[1] for line in done.stdout.splitlines() if "what: " in line]
    assert named == ["router (1)", "peer, client (6)", "router, peer, client (7)"]
