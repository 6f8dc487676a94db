"""Sequence numbers modulo the resolution."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.session import sequence


@pytest.mark.parametrize(
    ("resolution", "largest"), [(0, 0x7F), (1, 0x3FFF), (2, 0x0FFF_FFFF), (3, (1 << 63) - 1)]
)
def test_largest_number_fits_the_vle_bytes_in_use(resolution: int, largest: int) -> None:
    assert sequence.mask(resolution) == largest
    assert sequence.following(largest, resolution) == 0


@given(st.integers(0, 3), st.data())
def test_following_number_is_one_step_away_and_new(resolution: int, data: st.DataObject) -> None:
    sn = data.draw(st.integers(0, sequence.mask(resolution)))
    following = sequence.following(sn, resolution)
    assert sequence.gap(sn, following, resolution) == 1
    assert sequence.is_new(sn, following, resolution)
    assert not sequence.is_new(following, sn, resolution)
    assert not sequence.is_new(sn, sn, resolution)


def test_forward_window_is_half_the_range() -> None:
    assert sequence.is_new(0, 63, 0)
    assert not sequence.is_new(0, 64, 0)
    assert sequence.is_new(120, (120 + 63) & 0x7F, 0)
