"""Counting in bounded memory: what weighs most stays, what is left out is told."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from scapy_layers.tally import Spread, Tally


@dataclass
class Row:
    weight: int = 0


def test_rows_come_heaviest_first_and_in_order_of_appearance() -> None:
    tally: Tally[str, Row] = Tally(Row)
    for name in "abcbdb":
        tally[name].weight += 1
    assert [(name, row.weight) for name, row in tally.top(3)] == [("b", 3), ("a", 1), ("c", 1)]
    assert (len(tally), tally.left_out, tally.weight_left_out) == (4, 0, 0)


def test_too_many_rows_leave_out_what_weighs_least_and_say_how_much() -> None:
    tally: Tally[int, Row] = Tally(Row, rows=10)
    for number in range(1000):
        tally[number].weight += 1
        tally[-1].weight += 2
    assert len(tally) <= 10
    assert tally.top(1) == [(-1, Row(2000))]
    held = sum(row.weight for _, row in tally.items())
    assert held + tally.weight_left_out == 3000
    assert len(tally) + tally.left_out == 1001


def test_long_names_are_bounded_together() -> None:
    tally: Tally[str, Row] = Tally(Row, text=1000)
    for number in range(100):
        tally[f"{number:0100}"].weight += 1
    assert sum(len(name) for name, _ in tally.items()) <= 1000
    assert len(tally) + tally.left_out == 100


def test_row_that_is_taken_out_is_not_left_out() -> None:
    tally: Tally[str, Row] = Tally(Row, text=4)
    tally["four"].weight = 7
    assert tally.pop("four") == Row(7)
    assert tally.pop("four") is None
    tally["five"].weight = 1
    assert (len(tally), tally.left_out) == (1, 0)


@pytest.mark.parametrize(
    ("values", "median"), [([], None), ([3], 3), ([1, 9], 1), ([5, 1, 9], 5), ([2, 2, 8, 9, 9], 8)]
)
def test_few_values_have_their_exact_median(values: list[int], median: int | None) -> None:
    spread = Spread()
    for value in values:
        spread.add(value)
    assert spread.median == median
    assert spread.exact
    assert (spread.count, spread.least, spread.most) == (
        len(values),
        min(values, default=None),
        max(values, default=None),
    )


def test_many_values_have_exact_ends_and_a_median_of_some_of_them() -> None:
    spread = Spread(most_values=64)
    for value in range(10_001):
        spread.add(value)
    assert (spread.count, spread.least, spread.most) == (10_001, 0, 10_000)
    assert not spread.exact
    assert spread.median is not None
    assert abs(spread.median - 5000) < 500
