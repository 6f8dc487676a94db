"""The maths of ``statistics`` as SQL, so that no worker needs Python. What each means stands there.

Every function takes and returns SQL text: a formula of a hundred parts is one call to Java instead of hundreds, which
is what a report would otherwise spend its time on. Arguments are names of columns, or other text.
"""

import math
from collections.abc import Iterable

from pyspark.sql import DataFrame

from spark_reports.frames import statistics
from spark_reports.frames.columns import require

STEPS = 96
"""Steps of the integration over a failure rate; with them it is right to a thousandth up to 100 runs."""


def let(name: str, value: str, use: str) -> str:
    """Returns ``use``, in which ``name`` stands for a value that is computed once."""
    return f"element_at(transform(array({value}), {name} -> {use}), 1)"


def wilson(failed: str, runs: str) -> str:
    """Returns ``struct<low, high>``; (0, 1) without runs."""
    z = statistics.Z95
    square = f"{z * z!r}D / {runs}"
    centre = f"({failed} / {runs} + {square} / 2) / (1 + {square})"
    spread = f"({failed} / {runs}) * (1 - {failed} / {runs}) / {runs} + {square} / (4 * {runs})"
    half = f"{z!r}D * sqrt({spread}) / (1 + {square})"
    return (
        f"named_struct('low', if({runs} > 0 AND {failed} > 0, {centre} - {half}, 0D), "
        f"'high', if({runs} > 0 AND {failed} < {runs}, {centre} + {half}, 1D))"
    )


def probability_higher(
    failed_c: str, runs_c: str, failed_b: str, runs_b: str, margin: float = statistics.MARGIN
) -> str:
    """Returns P(rate of C > rate of B + margin)."""
    rates = [math.sin(math.pi / 2 * (step + 0.5) / STEPS) ** 2 for step in range(STEPS)]
    up, down = _table(map(math.log, rates)), _table(math.log1p(-rate) for rate in rates)
    spots = _table(math.asin(math.sqrt(max(0.0, rate - margin))) / (math.pi / 2) * STEPS for rate in rates)

    def weights(failed: str, runs: str) -> str:
        return _weights(f"zip_with({up}, {down}, (u, d) -> {failed} * u + ({runs} - {failed}) * d)")

    below = (
        f"aggregate({weights(failed_b, runs_b)}, array(0D), "
        "(sums, one) -> array_append(sums, element_at(sums, -1) + one))"
    )
    step = f"cast(least(floor(spot), {STEPS - 1}) AS int)"
    share = let(
        "at",
        step,
        "one * (element_at(made.b, at + 1) "
        "+ (spot - at) * (element_at(made.b, at + 2) - element_at(made.b, at + 1)))",
    )
    total = _sum(f"zip_with(made.c, {spots}, (one, spot) -> {share})")
    return let(
        "made",
        f"named_struct('c', {weights(failed_c, runs_c)}, 'b', {below})",
        f"{total} / ({_sum('made.c')} * element_at(made.b, -1))",
    )


def fisher(failed_c: str, runs_c: str, failed_b: str, runs_b: str) -> str:
    """Returns p, two-sided; the counts are whole numbers."""
    known = (
        f"named_struct('k', {failed_c} + {failed_b}, 'm', {runs_c}, 'rest', {runs_b} - {failed_c} - {failed_b}, "
        f"'low', greatest(0L, {failed_c} + {failed_b} - {runs_b}), 'high', least({failed_c} + {failed_b}, {runs_c}))"
    )
    # The logarithm of how many ways there are, up to a constant: numbers of ways do not fit into a double.
    ratio = "(t.k - x) * (t.m - x) / ((x + 1) * (t.rest + x + 1))"
    logs = (
        "aggregate(if(t.high > t.low, sequence(t.low, t.high - 1), cast(array() AS array<bigint>)), array(0D), "
        f"(sums, x) -> array_append(sums, element_at(sums, -1) + ln({ratio})))"
    )
    at = f"cast({failed_c} - t.low + 1 AS int)"
    tails = f"least({_sum(f'slice(ways, 1, {at})')}, {_sum(f'slice(ways, {at}, size(ways))')})"
    return let("t", known, let("ways", _weights(logs), f"least(1D, 2 * {tails} / {_sum('ways')})"))


def mann_whitney(first: str, second: str) -> str:
    """Returns p, two-sided, for two arrays of numbers without null."""
    against = f"aggregate({second}, 0D, (inner, b) -> inner + CASE WHEN a > b THEN 1D WHEN a = b THEN 0.5D ELSE 0D END)"
    wins = f"aggregate({first}, 0D, (sums, a) -> sums + {against})"
    known = f"named_struct('m', size({first}), 'n', size({second}), 'wins', {wins}, 'all', concat({first}, {second}))"
    middle = "s.m * s.n / 2"
    extreme = f"cast(least(ceil(least(s.wins, s.m * s.n - s.wins)), floor({middle})) AS int)"
    tail = _exact("s.m", "s.n", extreme)
    # The sum of count ** 3 over groups of the same value is that of count ** 2 over all values.
    ties = "aggregate(s.all, 0D, (sums, a) -> sums + power(size(filter(s.all, b -> a = b)), 2) - 1)"
    variance = f"s.m * s.n / 12D * (s.m + s.n + 1 - {ties} / ((s.m + s.n) * (s.m + s.n - 1)))"
    rough = let(
        "v",
        f"named_struct('variance', {variance}, 'distance', abs(s.wins - {middle}) - 0.5D)",
        f"if(v.variance <= 0 OR v.distance <= 0, 1D, {_beyond('v.distance / sqrt(v.variance)')})",
    )
    few = statistics.EXACT
    return let(
        "s",
        known,
        "CASE WHEN s.m = 0 OR s.n = 0 THEN 1D "
        f"WHEN s.m <= {few} AND s.n <= {few} THEN least(1D, 2 * {tail}) ELSE {rough} END",
    )


def least_p(runs: str, runs_other: str) -> str:
    """Returns the least p that ``mann_whitney`` can have for samples of so many values, which are none less than 1."""
    m, n, few = runs, runs_other, statistics.EXACT
    tails = statistics.tails()
    exact = _table(min(1.0, 2 * tails[one, two][0]) for one in range(1, few + 1) for two in range(1, few + 1))
    rough = _beyond(f"({m} * {n} / 2 - 0.5D) / sqrt({m} * {n} / 12D * ({m} + {n} + 1))")
    at = f"cast(({m} - 1) * {few} + {n} AS int)"
    return f"CASE WHEN {m} <= {few} AND {n} <= {few} THEN element_at({exact}, {at}) ELSE {rough} END"


def noise_of_medians(series: str) -> str:
    """Returns a difference of logarithms; null if a value is not above 0.

    Args:
        series: ``array<struct<at, name, value>>``: what orders the runs, the set of each, and its value itself.
    """
    names = f"array_distinct(transform({series}, one -> one.name))"
    of_set = f"filter({series}, one -> one.name = name)"
    weight = "CASE o.name WHEN 'candidate' THEN 1D / o.runs WHEN 'baseline' THEN -1D / o.runs ELSE 0D END AS weight"
    sets = (
        f"transform({names}, name -> "
        + let(
            "mine",
            of_set,
            "struct(name, size(mine) AS runs, mine, "
            f"{median('transform(mine, one -> ln(one.value))')} AS middle)",
        )
        + ")"
    )
    rest = (
        "array_sort(flatten(transform(sets, o -> transform(o.mine, "
        f"one -> struct(one.at AS at, ln(one.value) - o.middle AS rest, {weight})))))"
    )
    limit = f"{statistics.FAR_OUT!r}D * {median('transform(raw, one -> abs(one.rest))')}"
    drawn_in = let(
        "far",
        limit,
        "transform(raw, one -> struct("
        "if(far > 0, greatest(-far, least(far, one.rest)), one.rest) AS rest, one.weight AS weight))",
    )
    products = (
        "aggregate(each, named_struct('squares', 0D, 'products', 0D, 'last', 0D), (sums, one) -> named_struct("
        "'squares', sums.squares + one.rest * one.rest, 'products', sums.products + sums.last * one.rest, "
        "'last', one.rest))"
    )
    alike = "sums.products / sums.squares * size(each) / (size(each) - 1)"
    taken = "size(sets) / size(each)"
    most = f"{statistics.MOST_ALIKE!r}D"
    rho = f"if(3 * {taken} < 1, greatest(0D, least({most}, ({alike} + {taken}) / (1 - 3 * {taken}))), {most})"
    of_mean = "(1 + rho) / (1 - rho) - 2 * rho * (1 - power(rho, o.runs)) / (o.runs * (1 - rho) * (1 - rho))"
    free = f"greatest(1D, size(each) - aggregate(sets, 0D, (sums, o) -> sums + {of_mean}))"
    total = (
        "aggregate(each, named_struct('total', 0D, 'carried', 0D), (sums, one) -> named_struct("
        "'total', sums.total + one.weight * one.weight + 2 * one.weight * sums.carried, "
        "'carried', rho * (sums.carried + one.weight)), sums -> sums.total)"
    )
    z = statistics.Z99
    student = (
        f"({z!r}D + {(z**3 + z) / 4!r}D / free + {(5 * z**5 + 16 * z**3 + 3 * z) / 96!r}D / (free * free))"
    )
    width = f"{statistics.MEDIAN_WIDTH!r}D * {student} * sqrt(sums.squares / free * {total})"
    noise = let("rho", rho, let("free", free, f"least({statistics.UNDENIABLE!r}D, {width})"))
    known = let("sums", products, f"if(sums.squares = 0, 0D, {noise})")
    every = let("sets", sets, let("raw", rest, let("each", drawn_in, known)))
    return f"if(exists({series}, one -> one.value <= 0), NULL, {every})"


def median(values: str) -> str:
    """Returns the median of an array of numbers; null if it is empty."""
    low, high = "cast((size(v) - 1) / 2 AS int)", "cast(size(v) / 2 AS int)"
    return let("v", f"sort_array({values})", f"(get(v, {low}) + get(v, {high})) / 2")


def quantile_of_bins(bins: str, share: str) -> str:
    """Returns a quantile in microseconds of ``array<struct<bin, count>>`` in the order of bins; null if it is empty."""
    here = "power(2D, (one.bin + (wanted - state.before) / one.count) / 8)"
    met = "state.at IS NULL AND one.count > 0 AND state.before + one.count >= wanted"
    return let(
        "wanted",
        f"({share}) * aggregate({bins}, 0L, (sums, one) -> sums + one.count)",
        f"aggregate({bins}, named_struct('before', 0L, 'at', cast(NULL AS double)), (state, one) -> "
        f"named_struct('before', state.before + one.count, 'at', if({met}, {here}, state.at)), state -> state.at)",
    )


def with_q(frame: DataFrame, *family: str) -> DataFrame:
    """Adds ``q``, Benjamini and Hochberg's, to a frame with ``p``; null where p is null.

    Args:
        frame: One row per comparison.
        family: Columns that name those that are corrected together: so few that one task can sort them.
    """
    require(frame, "p", *family)
    # Two steps: whatever stands in front is analysed again in each.
    of_family = f"PARTITION BY {', '.join(family)}"
    ranked = frame.selectExpr(
        "*",
        f"count(p) OVER ({of_family}) AS _all",
        # Ties share a rank, the last of them; null sorts first and does not count.
        f"count(p) OVER ({of_family} ORDER BY p) AS _rank",
    )
    q = f"min(if(p IS NULL, NULL, least(1D, p * _all / _rank))) OVER ({of_family} ORDER BY p DESC)"
    return ranked.selectExpr("* EXCEPT (_all, _rank)", f"if(p IS NULL, NULL, {q}) AS q")


def _weights(logs: str) -> str:
    """Returns what is behind logarithms, up to a factor, so that none is too large."""
    return let(
        "l",
        let("raw", logs, "named_struct('of', raw, 'most', array_max(raw))"),
        "transform(l.of, value -> exp(value - l.most))",
    )


def _sum(values: str) -> str:
    return f"aggregate({values}, 0D, (sums, one) -> sums + one)"


def _table(values: Iterable[float]) -> str:
    """Returns numbers as one text to be split; as a list each of them would be a part of the plan."""
    return f"cast(split('{','.join(map(repr, values))}', ',') AS array<double>)"


def _exact(m: str, n: str, extreme: str) -> str:
    """Returns P(U <= extreme) for samples of m and n values."""
    # One list for all sizes and where those of each size begin: lists of lists would be made anew for every row.
    lists, starts, end = statistics.tails(), [], 0
    for sizes in sorted(lists):
        starts.append(end)
        end += len(lists[sizes])
    every = _table(value for sizes in sorted(lists) for value in lists[sizes])
    start = f"cast(element_at({_table(starts)}, ({m} - 1) * {statistics.EXACT} + {n}) AS int)"
    return f"element_at({every}, {start} + {extreme} + 1)"


def _beyond(z: str) -> str:
    """Returns P(|Z| > z) of a normal distribution (Abramowitz and Stegun 7.1.26, error below 1.5e-7)."""
    terms = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    polynomial = "0D"
    for term in reversed(terms):
        polynomial = f"({polynomial} + {term!r}D) * t"
    inner = let("t", "1D / (1D + 0.3275911D * x)", f"{polynomial} * exp(-x * x)")
    return let("x", f"({z}) / {math.sqrt(2)!r}D", inner)
