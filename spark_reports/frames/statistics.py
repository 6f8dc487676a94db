"""Intervals, comparisons and false-discovery bounds: plain functions, no Spark.

``estimates`` has the same for columns of a frame. A count is one of runs, not of tries: tries within a run share
the machine and the moment, so they say less than they seem to.
"""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

Z95 = 1.959963984540054
"""Half the width of a 95 % interval of a normal distribution."""

FALSE_DISCOVERIES = 0.05
"""Of the changes that are told and rest on rates, at most this share is expected to be none."""

MARGIN = 0.05
"""A failure rate that is less than this much higher is not worth telling."""

SURE = 0.95
"""Probability from which on a rate counts as higher, and a release as one that would have shown a fault."""

FLIPLESS = 2
"""So many steps without a flip are added to those of a check, when it is told how unsteady it is."""

FEW = 8
"""With fewer runs on either side Wilson intervals are too rough, and the posterior decides."""

STEADY_RUNS = 5
"""So many runs without a failure show that a check does not fail now and then."""

EXACT = 10
"""Up to so many values on both sides the distribution of the Mann-Whitney statistic is counted out."""


Z99 = 2.5758293035489004
"""Half the width of a 99 % interval of a normal distribution."""

MEDIAN_WIDTH = math.sqrt(math.pi / 2)
"""So many times as wide as a mean is the median of many values spread."""

UNDENIABLE = math.log(1.5)
"""What became half as much again is not laid on noise that stays from run to run."""

FAR_OUT = 4.45
"""So many times the median of all distances from the middle; three standard deviations of a normal distribution."""

MOST_ALIKE = 0.95
"""No noise is taken to stay longer than this from run to run: few runs cannot show it."""


def wilson(failed: float, runs: float, z: float = Z95) -> tuple[float, float]:
    """Returns the interval that the failure rate lies in; (0, 1) without runs."""
    if runs <= 0:
        return 0.0, 1.0
    rate, square = failed / runs, z * z / runs
    centre = (rate + square / 2) / (1 + square)
    half = z * math.sqrt(rate * (1 - rate) / runs + square / (4 * runs)) / (1 + square)
    # At the ends both terms are the same, but for rounding.
    return (centre - half if failed else 0.0), (centre + half if failed < runs else 1.0)


def probability_higher(
    failed_c: float, runs_c: float, failed_b: float, runs_b: float, margin: float = MARGIN, steps: int = 512
) -> float:
    """Returns how likely the failure rate behind C is by ``margin`` above that behind B, both seen through their runs.

    Before any run all rates are equally likely by Jeffreys, Beta(1/2, 1/2). With rate = sin(angle) ** 2 this is flat,
    and the density a power of sine and cosine, so that equal steps of the angle integrate it.

    Args:
        failed_c: Failed runs of C.
        runs_c: Runs of C.
        failed_b: Failed runs of B.
        runs_b: Runs of B.
        margin: From 0 to 1.
        steps: Of the integration.
    """
    rates = [math.sin(math.pi / 2 * (step + 0.5) / steps) ** 2 for step in range(steps)]
    weights_c, weights_b = _density(rates, failed_c, runs_c), _density(rates, failed_b, runs_b)
    below = [0.0]
    for weight in weights_b:
        below.append(below[-1] + weight)
    total = sum(weight * _up_to(below, rate - margin) for weight, rate in zip(weights_c, rates, strict=True))
    return total / (sum(weights_c) * below[-1])


def _density(rates: Iterable[float], failed: float, runs: float) -> list[float]:
    logs = [failed * math.log(rate) + (runs - failed) * math.log1p(-rate) for rate in rates]
    most = max(logs)
    return [math.exp(value - most) for value in logs]


def _up_to(below: Sequence[float], rate: float) -> float:
    """Returns what lies below a rate, when ``below`` has what lies below equal steps of its angle."""
    at = math.asin(math.sqrt(max(0.0, rate))) / (math.pi / 2) * (len(below) - 1)
    step = min(int(at), len(below) - 2)
    return below[step] + (at - step) * (below[step + 1] - below[step])


def fisher(failed_c: int, runs_c: int, failed_b: int, runs_b: int) -> float:
    """Returns how likely, if both rates are the same, C and B are at least so far apart (Fisher, twice one tail)."""
    failed, runs = failed_c + failed_b, runs_c + runs_b
    least, most = max(0, failed - runs_b), min(failed, runs_c)
    ways = {x: math.comb(failed, x) * math.comb(runs - failed, runs_c - x) for x in range(least, most + 1)}
    up = sum(count for x, count in ways.items() if x >= failed_c)
    down = sum(count for x, count in ways.items() if x <= failed_c)
    return min(1.0, 2 * min(up, down) / sum(ways.values()))


def benjamini_hochberg(values: Sequence[float]) -> list[float]:
    """Returns for each p the smallest share of false discoveries at which it would be told (q), in the same order."""
    order = sorted(range(len(values)), key=values.__getitem__, reverse=True)
    result, least = [0.0] * len(values), 1.0
    for rank, index in zip(range(len(values), 0, -1), order, strict=True):
        least = min(least, values[index] * len(values) / rank)
        result[index] = least
    return result


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns how likely two samples of one distribution are at least so far shifted against each other (two-sided).

    Counted out for at most ``EXACT`` values on both sides, where values that are the same count as evidence for no
    shift; otherwise by the normal approximation with both corrections.
    """
    m, n = len(first), len(second)
    if not m or not n:
        return 1.0
    wins = sum((a > b) + (a == b) / 2 for a in first for b in second)
    if m <= EXACT and n <= EXACT:
        # An uneven statistic comes from ties; towards the middle is towards "no shift".
        extreme = math.ceil(min(wins, m * n - wins))
        return min(1.0, 2 * _tail(m, n)[min(extreme, m * n // 2)])
    ties = sum(count**3 - count for count in Counter([*first, *second]).values())
    variance = m * n / 12 * (m + n + 1 - ties / ((m + n) * (m + n - 1)))
    distance = abs(wins - m * n / 2) - 0.5
    return 1.0 if variance <= 0 or distance <= 0 else math.erfc(distance / math.sqrt(2 * variance))


def noise_of_medians(series: Sequence[tuple[str, float]]) -> float:
    """Returns how far the medians of C and B may lie apart by noise alone, also by noise that stays from run to run.

    How much of a value's noise the next one has (rho, of a process that remembers one step) and how wide it is are
    estimated from all sets, each around its median; what is far out is drawn in, so that a busy hour does not count for
    all. rho and width are corrected for the medians that were taken off. The limit is the 99 % one of a median.

    Args:
        series: By time, oldest first: the set, of which ``candidate`` and ``baseline`` are compared, and the logarithm of
            the value. Others only show how the noise is.

    Returns:
        A difference of logarithms, at most ``UNDENIABLE``.
    """
    sets: dict[str, list[float]] = {}
    for name, value in series:
        sets.setdefault(name, []).append(value)
    middles = {name: statistics.median(values) for name, values in sets.items()}
    rest = [value - middles[name] for name, value in series]
    if limit := FAR_OUT * statistics.median(map(abs, rest)):
        rest = [max(-limit, min(limit, one)) for one in rest]
    squares, runs = math.fsum(one * one for one in rest), len(series)
    if not squares:
        return 0.0
    alike = math.fsum(one * other for one, other in itertools.pairwise(rest)) / squares * runs / (runs - 1)
    taken = len(sets) / runs
    rho = max(0.0, min(MOST_ALIKE, (alike + taken) / (1 - 3 * taken))) if 3 * taken < 1 else MOST_ALIKE
    free = max(1.0, runs - sum(_alike(len(values), rho) for values in sets.values()))
    weights = {name: sign / len(sets[name]) for name, sign in (("candidate", 1), ("baseline", -1))}
    total = carried = 0.0
    for name, _ in series:
        weight = weights.get(name, 0.0)
        total += weight * weight + 2 * weight * carried
        carried = rho * (carried + weight)
    return min(UNDENIABLE, MEDIAN_WIDTH * _student(free) * math.sqrt(squares / free * total))


def _alike(runs: int, rho: float) -> float:
    """Returns the variance of the mean of so many values, times their number, if that of a value is 1."""
    return (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**runs) / (runs * (1 - rho) ** 2)


def _student(free: float) -> float:
    """Returns the 99.5 % quantile of Student's distribution, roughly (Cornish and Fisher)."""
    z = Z99
    return z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)


@cache
def _tail(m: int, n: int) -> tuple[float, ...]:
    """Returns P(U <= u) for u from 0 on, for samples of one distribution without ties."""
    counts = _ways(m, n)
    total, sums = math.comb(m + n, m), 0
    result = []
    for count in counts:
        sums += count
        result.append(sums / total)
    return tuple(result)


@cache
def _ways(m: int, n: int) -> tuple[int, ...]:
    """Returns in how many orders of m and n values the statistic is 0, 1, ... m * n."""
    if not m or not n:
        return (1,)
    result = [0] * (m * n + 1)
    # The largest value is one of the first sample and beats all n, or one of the second and beats none.
    for u, count in enumerate(_ways(m - 1, n)):
        result[u + n] += count
    for u, count in enumerate(_ways(m, n - 1)):
        result[u] += count
    return tuple(result)


def tails(limit: int = EXACT) -> dict[tuple[int, int], tuple[float, ...]]:
    """Returns P(U <= u) for u up to the middle, by both sizes, for all of at most ``limit`` values."""
    sizes = range(1, limit + 1)
    return {(m, n): _tail(m, n)[: m * n // 2 + 1] for m in sizes for n in sizes}


def runs_to_see(rate: float) -> int:
    """Returns how many runs without a failure make it likely (``SURE``) that there is none of that rate.

    Raises:
        ValueError: The rate is not above 0 and at most 1.
    """
    if not 0 < rate <= 1:
        raise ValueError(f"a failure rate of {rate} is never seen, or is none")
    return 1 if rate == 1 else max(1, math.ceil(math.log(1 - SURE) / math.log1p(-rate)))


def would_have_shown(runs: int, failed: int, clean: int) -> float:
    """Returns how likely ``clean`` runs had shown a fault that fails ``failed`` of ``runs`` runs; from 0 to below 1.

    The rate is taken as (failed + 1/2) / (runs + 1), so that a single failure is not taken for certainty.
    """
    rate = (failed + 0.5) / (runs + 1)
    return float(1 - (1 - rate) ** clean)


def flip_score(units: Iterable[Sequence[int]]) -> float:
    """Returns how unsteady a check is: 0 (never changes) to 1 (changes in every run, and fails in half of them).

    Counted as if there had been FLIPLESS more steps without a flip, so that few runs do not weigh more than many.

    Args:
        units: For each node version and harness whether its runs failed (1) or not (0), oldest first. Only changes
            within a unit count: between two units there is a reason for them.
    """
    groups = [tuple(unit) for unit in units]
    pairs = sum(max(0, len(unit) - 1) for unit in groups)
    flips = sum(a != b for unit in groups for a, b in itertools.pairwise(unit))
    runs = sum(map(len, groups))
    rate = (sum(map(sum, groups)) + 0.5) / (runs + 1)
    return flips / (pairs + FLIPLESS) * min(1.0, 4 * rate * (1 - rate))


def bin_of(microseconds: float) -> int:
    """Returns the bin of a time; bins are 9 % wide, eight double it."""
    return math.floor(8 * math.log2(max(1.0, microseconds)))


def quantile_of_bins(bins: Iterable[tuple[int, int]], share: float) -> float:
    """Returns the time in microseconds below which a share of the times lies, from (bin, count) pairs.

    Within a bin the times are taken to lie evenly on the scale of the logarithm.

    Raises:
        ValueError: There is no time.
    """
    ordered = sorted(bins)
    total = sum(count for _, count in ordered)
    if not total:
        raise ValueError("no times")
    wanted, before = share * total, 0
    for place, count in ordered:
        if count and before + count >= wanted:
            return float(2 ** ((place + (wanted - before) / count) / 8))
        before += count
    raise AssertionError("shares are at most 1")
