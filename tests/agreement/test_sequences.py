"""Whatever order messages come in, readers say the same: ``python -m tests.agreement --sequences 1000 --seed 7``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from fuzz.readers import by_tshark
from fuzz.readers.compare import differences
from fuzz.readers.together import Read, read_capture
from scapy_layers import capture, scan, tables
from scapy_layers.tshark import is_there
from tests.agreement import sequences


def read_alike(folder: Path, name: str, data: bytes, *, tshark: bool) -> Read:
    path = folder / name
    path.write_bytes(data)
    read = read_capture(path, tshark=tshark)
    difference = next(differences(read.units, read.readings), None)
    assert difference is None, f"\n{difference}"
    return read


needs_tshark = pytest.mark.skipif(not is_there(), reason="tshark is not there")


@needs_tshark
@pytest.mark.parametrize("seed", range(4))
def test_sequences_of_sessions_are_read_alike(seed: int, tmp_path: Path) -> None:
    found = [read_alike(tmp_path, *one, tshark=True) for one in sequences.captures(8, seed, orderly=True)]
    assert sum(len(read.units) for read in found) > 100


@needs_tshark
@pytest.mark.parametrize("seed", range(6))
def test_datagrams_of_scouting_are_found_alike(seed: int, tmp_path: Path) -> None:
    data = sequences.scouting(seed)
    heard = {
        unit.packet for unit in read_alike(tmp_path, "t.pcap", data, tshark=True).units if not unit.belated
    }
    shown = {one.packet for one in by_tshark.shown(tmp_path / "t.pcap", 40)}
    assert shown == heard
    assert len(heard) > 10


@pytest.mark.parametrize("seed", range(4))
def test_sequences_in_any_order_are_read_alike(seed: int, tmp_path: Path) -> None:
    found = [read_alike(tmp_path, *one, tshark=False) for one in sequences.captures(60, seed, orderly=False)]
    assert sum(len(read.units) for read in found) > 1000


@pytest.mark.parametrize("made", [50_000_325, 50_000_868, 31_001_529, 31_000_093])
def test_sequence_that_was_read_differently_once_is_read_alike(made: int, tmp_path: Path) -> None:
    # A session begins in the midst of a batch; damage that looks like one; what stands behind CLOSE in a datagram; an
    # answer with a 2-byte length where low latency was agreed, at which reading stood still.
    read_alike(tmp_path, "capture.pcap", sequences.capture(made, orderly=False), tshark=False)


def put_together(made: Iterable[tables.Tables]) -> list[tuple[str, int, int]]:
    """Returns the messages that fragments make: of which kind, in which packet, of how many."""
    found = [
        (name, row["packet"], row["pieces"])
        for piece in made
        for name, table in piece.items()
        if "pieces" in table.schema.names
        for row in table.to_pylist()
    ]
    return sorted(one for one in found if one[2])


def test_capture_that_is_cut_anywhere_is_read_as_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for name, data in sequences.captures(60, 7, orderly=False):
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    whole = [put_together(tables.read(path)) for path in paths]
    monkeypatch.setattr(capture, "CHUNK", 300)
    monkeypatch.setattr(scan, "SIZE", 300)
    assert [put_together(tables.read(path, size=300)) for path in paths] == whole
    splits = [scan.plan(path, 1_000) for path in paths]
    parts = [
        put_together(made for split in some for made in tables.read(path, split=split))
        for path, some in zip(paths, splits, strict=True)
    ]
    assert parts == whole
    assert sum(len(some) > 2 for some in splits) > 20
