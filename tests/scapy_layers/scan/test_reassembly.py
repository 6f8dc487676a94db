"""Chains of fragments where something was not heard. Whole captures are compared with the Scapy side elsewhere."""

from types import SimpleNamespace
from typing import cast

import pytest

from scapy_layers.scan.reassembly import Part, Reassembly
from scapy_layers.scan.watch import Talk

LANE = 3, True, 1, 5


def talk(patch: int = 1, start: int | None = None) -> Talk:
    """A session with numbers of one byte, of which the beginning was seen; OPEN names the first number."""
    made = SimpleNamespace(
        session=SimpleNamespace(patch=patch, fsn=0, lowlatency=False),
        opened=[True, True],
        starts=[start, start],
        inits=[object(), object()],
    )
    return cast("Talk", made)


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


def test_message_goes_on_behind_frames_of_other_lanes_that_nobody_looked_at() -> None:
    reassembly, session = Reassembly(), talk(start=10)
    reassembly.take(Part(1, LANE, 60), session)
    reassembly.take(Part(2, LANE, 100, b"a", more=True, first=True), session)
    reassembly.passed({LANE[0]})
    assert reassembly.take(Part(3, LANE, 101, b"b"), session)


@pytest.mark.parametrize(("sn", "fresh"), [(9, False), (10, True), (12, True), (200, False)])
def test_first_number_of_a_lane_is_no_older_than_open_names_and_in_range(sn: int, fresh: bool) -> None:
    reassembly, session = Reassembly(), talk(start=10)
    reassembly.take(Part(1, LANE, sn, b"a", more=True, first=True), session)
    found = reassembly.take(Part(2, LANE, sn + 1 & 0x7F, b"b"), session)
    assert (found is not None) == fresh
