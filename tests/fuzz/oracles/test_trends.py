"""What goes on growing, and what does not: warm-up, levels, swings, noise."""

import math
import random
from collections.abc import Callable

import pytest

from fuzz.oracles.history import (
    CONFIRMING,
    HANDLES_LEAST,
    LEASE_SECONDS,
    MEMORY_LEAST,
    MEMORY_REPEATED,
    WARM_UP,
    WINDOWS,
    Series,
)
from fuzz.oracles.trends import FEWEST, growth, mann_kendall, quarters

MB = 1 << 20


def noise(seed: int, size: float = 0.3) -> Callable[[], float]:
    rng = random.Random(seed)
    return lambda: rng.gauss(0, size)


def made(shape: Callable[[int], float], count: int = 48, seed: int = 1) -> list[float]:
    error = noise(seed)
    return [20 + shape(at) + error() for at in range(count)]


GROWS: dict[str, Callable[[int], float]] = {
    "straight": lambda at: at,
    "in steps of four": lambda at: 4 * (at // 4),
    "faster and faster": lambda at: at * at / 48,
    "a little slower": lambda at: 48 * (at / 48) ** 0.8,
}

DOES_NOT: dict[str, Callable[[int], float]] = {
    "flat": lambda _: 0,
    "warms up": lambda at: 40 * (1 - math.exp(-at / 8)),
    "levels off": lambda at: min(at, 20) * 2,
    "one step": lambda at: 40 * (at > 30),
    "two steps": lambda at: 20 * (at > 15) + 20 * (at > 35),
    "doubles like a table": lambda at: 2.0 ** int(math.log2(at + 1)),
    "swings": lambda at: 20 * (at % 12) / 12 + at / 2,
    "falls": lambda at: -at / 4,
    "too little": lambda at: at / 12,
}


@pytest.mark.parametrize("name", GROWS)
def test_what_goes_on_growing_does(name: str) -> None:
    for seed in range(20):
        assert growth(made(GROWS[name], seed=seed), 16) > 16


@pytest.mark.parametrize("name", DOES_NOT)
def test_what_does_not_go_on_growing_does_not(name: str) -> None:
    for seed in range(20):
        assert growth(made(DOES_NOT[name], seed=seed), 16) == 0


def test_few_measurements_say_nothing() -> None:
    assert growth([float(at) for at in range(FEWEST - 1)], 1) == 0


def test_mann_kendall_of_a_series_with_and_without_trend() -> None:
    # Gilbert (1987), Statistical Methods for Environmental Pollution Monitoring, has S = 45 for ten rising values.
    assert mann_kendall([float(at) for at in range(10)]) == pytest.approx(44 / math.sqrt(125))
    assert mann_kendall([float(-at) for at in range(10)]) == pytest.approx(-44 / math.sqrt(125))
    assert mann_kendall([1.0] * 10) == 0
    rng = random.Random(1)
    assert abs(mann_kendall([rng.random() for _ in range(100)])) < 3


def test_quarters_are_medians() -> None:
    assert quarters([1, 1, 99, 2, 2, 2, 3, 3, 3, 4, 4, 0]) == [1, 2, 3, 4]


def fed(
    shape: Callable[[int], float], count: int, *, seconds: float = 5.0, least: float = MEMORY_LEAST
) -> tuple[Series, int]:
    """A series and the number of the measurement at which it was found to grow; 0 when it was not."""
    series = Series(least, MEMORY_REPEATED, LEASE_SECONDS if least == HANDLES_LEAST else 0.0)
    for at in range(count):
        series.add(at * seconds, shape(at), at * 1000)
        if series.grows():
            return series, at
    return series, 0


def test_a_leak_is_told_when_it_goes_on_behind_the_first_suspicion() -> None:
    series, at = fed(lambda at: 2 * MB * at, 200)
    assert (
        WARM_UP + WINDOWS[0] + WINDOWS[0] // CONFIRMING
        <= at + 1
        <= WARM_UP + WINDOWS[0] + WINDOWS[0] // CONFIRMING + 1
    )
    assert series.told(WINDOWS[0], lambda value: f"{value / MB:.0f}").startswith("from ")
    series.forget()
    assert series.grows() == 0


def test_a_slow_leak_is_told_late() -> None:
    _, at = fed(lambda at: 0.2 * MB * at, 400)
    assert at > WINDOWS[1]


def test_growth_that_stops_once_it_was_suspected_is_not_told() -> None:
    _, at = fed(lambda at: 2 * MB * min(at, WARM_UP + WINDOWS[0] + 1), 400)
    assert at == 0


def test_thirty_minutes_of_a_node_whose_pools_fill_are_nothing() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        level = 8.0 * MB

        def pools(at: int, rng: random.Random = rng) -> float:
            nonlocal level
            # As measured: a step of a megabyte now and then, more of them at first.
            if rng.random() < 0.3 / (1 + at / 20):
                level += rng.random() * 2 * MB
            return level + rng.random() * 0.2 * MB

        _, at = fed(pools, 360)
        assert at == 0


def test_one_script_again_and_again_needs_less_growth_and_no_lease() -> None:
    _, at = fed(lambda at: 0.2 * MB * at, 200, seconds=0.03)
    assert 0 < at < 40
    _, at = fed(lambda at: at * 25, 200, seconds=0.03, least=HANDLES_LEAST)
    assert at == 0 or at > WARM_UP


def test_descriptors_that_go_when_the_lease_has_passed_are_no_leak() -> None:
    # Ten a measurement, each kept for a minute.
    _, at = fed(lambda at: 10.0 * min(at, 12), 400, least=HANDLES_LEAST)
    assert at == 0


def test_what_is_kept_of_a_series_is_bounded() -> None:
    series, _ = fed(lambda _: 0.0, 3 * WINDOWS[-1])
    assert len(series.values) == len(series.times) == len(series.cases) == 2 * WINDOWS[-1]
