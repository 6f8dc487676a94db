"""The maths, against counting out and against known values."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reports.frames import statistics

PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@st.composite
def tables(draw: st.DrawFn, most: int = 12) -> tuple[int, int, int, int]:
    runs_c, runs_b = draw(st.integers(1, most)), draw(st.integers(1, most))
    return draw(st.integers(0, runs_c)), runs_c, draw(st.integers(0, runs_b)), runs_b


@pytest.mark.parametrize(
    ("failed", "runs", "low", "high"),
    # The values of Wilson's formula worked out by hand to four digits.
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (1, 100, 0.0018, 0.0545)],
)
def test_interval_has_its_known_values(failed: int, runs: int, low: float, high: float) -> None:
    assert statistics.wilson(failed, runs) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 500), st.data())
def test_interval_ends_where_the_rate_seen_is_just_credible(runs: int, data: st.DataObject) -> None:
    failed = data.draw(st.integers(0, runs))
    low, high = statistics.wilson(failed, runs)
    assert 0 <= low <= failed / runs <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            # Wilson's interval is where the score test does not reject: its ends are z standard errors away.
            distance = abs(failed / runs - end) / math.sqrt(end * (1 - end) / runs)
            assert distance == pytest.approx(statistics.Z95, rel=1e-6)


def test_interval_without_runs_says_nothing() -> None:
    assert statistics.wilson(0, 0) == (0.0, 1.0)


@given(tables(7))
def test_posterior_agrees_with_drawing_from_it(table: tuple[int, int, int, int]) -> None:
    failed_c, runs_c, failed_b, runs_b = table
    draw = random.Random(1).betavariate
    drawn = sum(
        draw(failed_c + 0.5, runs_c - failed_c + 0.5) > draw(failed_b + 0.5, runs_b - failed_b + 0.5) + 0.05
        for _ in range(4000)
    )
    # Four standard errors of 4000 draws.
    assert statistics.probability_higher(*table) == pytest.approx(drawn / 4000, abs=0.032)


@given(tables(30))
def test_posterior_without_margin_is_certain_of_one_side(table: tuple[int, int, int, int]) -> None:
    failed_c, runs_c, failed_b, runs_b = table
    up = statistics.probability_higher(failed_c, runs_c, failed_b, runs_b, margin=0)
    down = statistics.probability_higher(failed_b, runs_b, failed_c, runs_c, margin=0)
    assert up + down == pytest.approx(1, abs=1e-3)


@given(tables(8))
def test_fisher_agrees_with_counting_all_orders(table: tuple[int, int, int, int]) -> None:
    failed_c, runs_c, failed_b, runs_b = table
    runs = range(runs_c + runs_b)
    seen = [
        sum(run < runs_c for run in failed) for failed in itertools.combinations(runs, failed_c + failed_b)
    ]
    up = sum(count >= failed_c for count in seen) / len(seen)
    down = sum(count <= failed_c for count in seen) / len(seen)
    assert statistics.fisher(*table) == pytest.approx(min(1.0, 2 * min(up, down)))


@given(PROBABILITIES, st.sampled_from([0.01, 0.05, 0.2, 0.5]))
def test_q_tells_what_the_step_up_rule_tells(values: list[float], share: float) -> None:
    # The rule as it was published: the largest k with p(k) <= k/m * q, and all below.
    ordered = sorted(values)
    told = [p for k, p in enumerate(ordered, 1) if p <= k / len(values) * share]
    bound = max(told, default=-1.0)
    q = statistics.benjamini_hochberg(values)
    # A share that is met to the last digit may fall on either side.
    edge = [abs(one - share) < 1e-12 for one in q]
    assert [one <= share for one, close in zip(q, edge, strict=True) if not close] == [
        p <= bound for p, close in zip(values, edge, strict=True) if not close
    ]


def test_q_of_nothing_is_nothing() -> None:
    assert statistics.benjamini_hochberg([]) == []


@given(st.integers(1, 5), st.integers(1, 5), st.randoms(use_true_random=False))
def test_mann_whitney_agrees_with_all_orders(m: int, n: int, chance: random.Random) -> None:
    values = [float(value) for value in range(m + n)]
    chance.shuffle(values)

    def wins(first: tuple[float, ...] | list[float]) -> int:
        return sum(a > b for a in first for b in values if b not in first)

    here = wins(values[:m])
    orders = [wins(first) for first in itertools.combinations(values, m)]
    extreme = min(here, m * n - here)
    p = min(1.0, 2 * sum(count <= extreme for count in orders) / len(orders))
    assert statistics.mann_whitney(values[:m], values[m:]) == pytest.approx(p)


def test_mann_whitney_is_rough_and_right_beyond_what_is_counted() -> None:
    first, second = [float(x) for x in range(12)], [x + 4.5 for x in range(12)]
    # 28 wins of 144; the exact value, counted out here, is 0.0100. Too large is the side to err on.
    exact = 2 * sum(statistics._ways(12, 12)[:29]) / math.comb(24, 12)
    assert exact < statistics.mann_whitney(first, second) < 1.25 * exact


@pytest.mark.parametrize(
    ("first", "second"), [([], [1.0]), ([1.0] * 5, [1.0] * 5), ([2.0] * 20, [2.0] * 30), ([1.0], [2.0])]
)
def test_mann_whitney_sees_no_shift_where_there_is_none(first: list[float], second: list[float]) -> None:
    assert statistics.mann_whitney(first, second) == 1.0


def test_ties_are_evidence_for_no_shift() -> None:
    apart = statistics.mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    assert apart == pytest.approx(2 / 252)
    assert statistics.mann_whitney([1, 2, 3, 4, 6], [6, 7, 8, 9, 10]) > apart


@pytest.mark.parametrize(("rate", "runs"), [(1.0, 1), (0.95, 1), (0.5, 5), (0.1, 29), (0.01, 299)])
def test_runs_to_see_a_rate(rate: float, runs: int) -> None:
    assert statistics.runs_to_see(rate) == runs
    assert (1 - rate) ** runs <= 0.05 + 1e-12
    assert runs == 1 or (1 - rate) ** (runs - 1) > 0.05


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="failure rate"):
        statistics.runs_to_see(rate)


def test_one_failure_is_not_taken_for_certainty() -> None:
    assert statistics.would_have_shown(1, 1, 1) == 0.75
    assert statistics.would_have_shown(30, 30, 1) > 0.98
    assert statistics.would_have_shown(100, 50, 5) == pytest.approx(1 - 0.5**5)
    assert statistics.would_have_shown(1, 1, 0) == 0


def test_flips_count_within_a_version_only() -> None:
    assert statistics.flip_score([[0, 0, 0], [1, 1, 1]]) == 0
    assert statistics.flip_score([[0, 1, 0, 1, 0, 1, 0, 1]]) == pytest.approx(7 / 9)
    # One flip in nine pairs and two more, a rate of 1.5 in 11.
    assert statistics.flip_score([[0] * 9 + [1]]) == pytest.approx(1 / 11 * 4 * (1.5 / 11) * (9.5 / 11))
    assert statistics.flip_score([[0], [1]]) == statistics.flip_score([]) == 0
    # Two runs that differ say less than many of which most do.
    assert statistics.flip_score([[0, 1]]) < statistics.flip_score([[0, 1, 1, 0, 1, 0, 0, 1]])


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=200), st.sampled_from([0.05, 0.5, 0.95]))
def test_quantile_of_bins_lies_in_the_bin_of_the_true_one(times: list[int], share: float) -> None:
    bins: dict[int, int] = {}
    for time in times:
        bins[statistics.bin_of(time)] = bins.get(statistics.bin_of(time), 0) + 1
    true = sorted(times)[max(0, math.ceil(share * len(times)) - 1)]
    place = statistics.bin_of(true)
    got = statistics.quantile_of_bins(bins.items(), share)
    assert 2 ** (place / 8) <= got * (1 + 1e-12)
    assert got <= 2 ** ((place + 1) / 8) * (1 + 1e-12)


def test_quantile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no times"):
        statistics.quantile_of_bins([], 0.5)
