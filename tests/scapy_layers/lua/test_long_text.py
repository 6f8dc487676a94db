"""Long keys in labels and in the Info column: no character is cut, so that what tshark writes is text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fuzz.readers.by_tshark import SCRIPT
from fuzz.readers.carry import carried
from fuzz.readers.compare import first_difference
from fuzz.readers.together import read_units
from fuzz.readers.units import Unit, UnitKind
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

# All places of a character at which something may be cut.
UNITS = [
    Unit(
        UnitKind.BATCH,
        bytes(Frame(messages=[Push(key_suffix="a" * lead + "\N{EURO SIGN}" * 150, body=Put())])),
    )
    for lead in range(4)
]


def test_long_key_is_read_like_any_other() -> None:
    read = read_units(UNITS)
    assert first_difference(read.units, read.readings) is None


def test_everything_that_tshark_writes_is_text(tmp_path: Path) -> None:
    capture, _ = carried(UNITS)
    path = tmp_path / "long.pcap"
    path.write_bytes(capture)
    command = ["tshark", "-n", "-X", f"lua_script:{SCRIPT}", "-r", str(path)]
    for form in ([], ["-V"], ["-T", "pdml"]):
        out = subprocess.run([*command, *form], capture_output=True, check=True, timeout=600).stdout
        assert b"..." in out
        out.decode()
