"""A small share of what ``tests.robustness.run`` does, in each run of our tests."""

from __future__ import annotations

import pytest

from fuzz.readers.invariants import TARGETS
from tests.robustness.inputs import inputs

SHARE = 1500


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_understood_or_refused(name: str) -> None:
    for raw in inputs(SHARE, seed=7):
        TARGETS[name](raw)


def test_inputs_are_the_same_for_the_same_seed() -> None:
    assert list(inputs(50, 3)) == list(inputs(50, 3))
    assert list(inputs(50, 3)) != list(inputs(50, 4))
