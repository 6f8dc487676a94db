"""Damaged captures are read alike; thousands more of them: ``python -m tests.agreement --damage 1000 --seed 7``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from fuzz.readers.compare import first_difference
from fuzz.readers.together import read_capture
from tests.agreement import damage
from tests.scapy_layers.tunnels import TUNNELS

PCAPS = Path(__file__).parents[2] / "pcaps"

SHARE = [
    ("fragments", "cut_late", 1),
    ("fragments", "lossy", 2),
    ("interleaved", "cut_late", 2),
    ("interleaved", "bursts", 3),
    ("mixed", "late_and_lossy", 1),
    ("lanes", "one_way", 1),
    ("compression", "late_and_lossy", 2),
    ("lowlatency", "cut_late", 1),
    ("lowlatency", "mutated", 1),
    ("websocket", "lossy", 22),
    ("websocket", "late", 1),
    ("packed_websocket", "cut_late", 4),
    ("direct_websocket", "late_and_lossy", 22),
    ("negotiation", "mutated", 2),
    ("udp6", "doubled", 1),
    ("udp6", "clipped", 3),
    ("datagrams", "clipped", 1),
    ("joins", "clipped", 1038923664),
    ("fragments", "clipped", 1),
    ("query", "swapped", 1),
    ("fragments", "reset", 1),
    ("lowlatency", "reset", 2),
    ("compression", "reset", 3),
    ("compression", "unheard", 1),
    ("compression", "unheard", 3),
    ("lowlatency", "unheard", 3),
]
"""Captures, what is done to them, and the seed of that."""


@pytest.mark.parametrize(("name", "kind", "seed"), SHARE, ids=[f"{name}-{kind}" for name, kind, _ in SHARE])
def test_damaged_capture_is_read_alike(name: str, kind: str, seed: int, tmp_path: Path) -> None:
    made = damage.variant(PCAPS / f"{name}.pcapng", kind, seed)
    path = tmp_path / made.name
    path.write_bytes(made.data)
    read = read_capture(path, options=made.options, order=made.order)
    assert read.units
    difference = first_difference(read.units, read.readings)
    assert difference is None, f"\n{difference}"


FILES = ["nanoseconds", "vlan", "llc", "raw", "pcapng", "pcapng_big", "gzip", "snap96", "chopped96"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [*(("history", kind) for kind in FILES), ("udp6", "llc"), ("udp6", "snap96"), ("udp6", "chopped96")],
)
def test_file_of_any_kind_is_read_alike(name: str, kind: str, tmp_path: Path) -> None:
    raws = [one.raw for one in damage.packets(PCAPS / f"{name}.pcapng")]
    path = tmp_path / kind
    path.write_bytes((damage.files(raws, 1_500) | damage.files(raws, 96))[kind]())
    read = read_capture(path)
    assert read.units
    difference = first_difference(read.units, read.readings)
    assert difference is None, f"\n{difference}"


@cache
def units_of(name: str) -> int:
    return len(read_capture(PCAPS / f"{name}.pcapng").units)


@pytest.mark.parametrize("kind", TUNNELS)
@pytest.mark.parametrize("name", ["history", "udp6"])
def test_capture_in_a_tunnel_is_read_alike(name: str, kind: str, tmp_path: Path) -> None:
    raws = [one.raw for one in damage.packets(PCAPS / f"{name}.pcapng")]
    path = tmp_path / kind
    path.write_bytes(damage.pcap([TUNNELS[kind](raw) for raw in raws]))
    # Wireshark knows no port of Linux.
    read = read_capture(path, options=("-d", "udp.port==8472,vxlan"))
    assert len(read.units) == units_of(name)
    difference = first_difference(read.units, read.readings)
    assert difference is None, f"\n{difference}"
