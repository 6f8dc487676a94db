"""Whatever order messages come in, readers say the same: ``python -m tests.agreement --sequences 1000 --seed 7``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from fuzz.readers.compare import differences
from fuzz.readers.together import Read, read_capture
from scapy_layers import scan, tables
from scapy_layers.tshark import is_there
from tests.agreement import sequences


def read_alike(folder: Path, name: str, data: bytes, *, tshark: bool) -> Read:
    path = folder / name
    path.write_bytes(data)
    read = read_capture(path, tshark=tshark)
    difference = next(differences(read.units, read.readings), None)
    assert difference is None, f"\n{difference}"
    return read


@pytest.mark.skipif(not is_there(), reason="tshark is not there")
@pytest.mark.parametrize("seed", range(4))
def test_sequences_of_sessions_are_read_alike(seed: int, tmp_path: Path) -> None:
    found = [read_alike(tmp_path, *one, tshark=True) for one in sequences.captures(8, seed, orderly=True)]
    assert sum(len(read.units) for read in found) > 100


@pytest.mark.parametrize("seed", range(4))
def test_sequences_in_any_order_are_read_alike(seed: int, tmp_path: Path) -> None:
    found = [read_alike(tmp_path, *one, tshark=False) for one in sequences.captures(60, seed, orderly=False)]
    assert sum(len(read.units) for read in found) > 1000


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


PIECE = 4_000
"""Bytes at which captures are cut."""


def test_capture_that_is_cut_anywhere_is_read_as_the_whole(tmp_path: Path) -> None:
    cut = 0
    for name, data in sequences.captures(100, 5, orderly=False):
        path = tmp_path / name
        path.write_bytes(data)
        splits = scan.plan(path, PIECE)
        whole = put_together(tables.read(path))
        for size in (600, 2_000):
            assert put_together(tables.read(path, size=size)) == whole
        assert put_together(made for split in splits for made in tables.read(path, split=split)) == whole
        cut += len(splits) > 1
    assert cut > 10
