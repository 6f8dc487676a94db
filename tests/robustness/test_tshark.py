"""A small share of what ``tests.robustness.tshark`` does, in each run of our tests; and that it finds what it looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.readers import dissector
from fuzz.readers.carry import Packets
from tests.robustness import tshark

SHARE = 2_500

needs_tshark = pytest.mark.skipif(not dissector.is_there(), reason="tshark is not there")


@needs_tshark
def test_mutated_datagrams_and_streams_end_in_no_lua_error(tmp_path: Path) -> None:
    made = tshark.capture_of(SHARE, seed=11)
    path = tmp_path / "mutated.pcap"
    path.write_bytes(made.file())
    assert list(dissector.faults(path, made.number)) == []


def test_captures_are_the_same_for_the_same_seed() -> None:
    assert tshark.capture_of(100, 3).frames == tshark.capture_of(100, 3).frames
    assert tshark.capture_of(100, 3).frames != tshark.capture_of(100, 4).frames


BROKEN = {
    "nothing = nil + 1": "attempt to perform arithmetic",
    "tvb(tvb:len(), 5)": "Range is out of bounds",
    "error('gave up')": "Lua Error",
}


@needs_tshark
@pytest.mark.parametrize("line", BROKEN)
def test_failing_script_is_noticed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "broken.lua"
    script.write_text(
        'local broken = Proto("broken", "Broken")\n'
        f"function broken.dissector(tvb, pinfo, tree) {line} end\n"
        'DissectorTable.get("udp.port"):add(7446, broken)\n'
    )
    monkeypatch.setattr(dissector, "SCRIPT", script)
    packets = Packets()
    packets.udp(b"\x01\x09\x07", (50_000, 7446))
    path = tmp_path / "one.pcap"
    path.write_bytes(packets.file())

    (fault,) = dissector.faults(path, 1)

    assert fault.packet == 1
    assert BROKEN[line] in fault.what


@needs_tshark
def test_hanging_script_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "hanging.lua"
    script.write_text("while true do end\n")
    monkeypatch.setattr(dissector, "SCRIPT", script)
    monkeypatch.setattr(dissector, "SECONDS", 0.5)
    path = tmp_path / "none.pcap"
    path.write_bytes(Packets().file())

    (fault,) = dissector.faults(path, 0)

    assert fault.what.startswith("no end within")
