"""Chains of fragments where something was not heard. Whole captures are compared with the Scapy side elsewhere."""

from types import SimpleNamespace
from typing import cast

import pytest

from scapy_layers.scan.reassembly import Part, Reassembly
from scapy_layers.scan.watch import Talk

LANE = 3, True, 1, 5


def talk(patch: int = 1) -> Talk:
    """A session with numbers of one byte, of which the beginning was seen."""
    session = SimpleNamespace(patch=patch, fsn=0)
    return cast("Talk", SimpleNamespace(session=session, opened=[True, True], inits=[object(), object()]))


def whole(reassembly: Reassembly, sn: int, patch: int = 1) -> bytes | None:
    """Takes two fragments; returns the message that they make."""
    first = Part(7, LANE, sn & 0x7F, b"ab", more=True, first=patch > 0)
    assert reassembly.take(first, talk(patch)) is None
    found = reassembly.take(Part(8, LANE, sn + 1 & 0x7F, b"c"), talk(patch))
    return None if found is None else found.data


@pytest.mark.parametrize("step", [1, 63, 64, 100, 126, 127])
def test_number_behind_a_hole_counts_as_it_is(step: int) -> None:
    reassembly = Reassembly()
    reassembly.take(Part(1, LANE, 20), talk())
    reassembly.doubt(*LANE[:2])
    assert whole(reassembly, 20 + step) == b"abc"


def test_old_number_is_dropped_where_nothing_is_missing() -> None:
    reassembly = Reassembly()
    reassembly.take(Part(1, LANE, 20), talk())
    reassembly.doubt(LANE[0], forward=False)
    assert whole(reassembly, 20 + 64) is None


def test_only_the_next_number_counts_as_it_is() -> None:
    reassembly = Reassembly()
    reassembly.take(Part(1, LANE, 20), talk())
    reassembly.doubt(*LANE[:2])
    reassembly.take(Part(2, LANE, 90), talk())
    assert whole(reassembly, 80) is None


@pytest.mark.parametrize("patch", [0, 1])
def test_message_begins_behind_frames_that_nobody_looked_at(patch: int) -> None:
    reassembly = Reassembly()
    reassembly.take(Part(1, LANE, 20), talk(patch))
    reassembly.passed({LANE[0]})
    assert whole(reassembly, 20 + 100, patch) == b"abc"
