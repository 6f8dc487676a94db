"""What became of each check from the baseline to the candidate, and which checks are flaky.

A check is a test over one transport. What counts is runs: however often a check was tried in a run, the run counts once,
as failed if a try of it failed; only flips go by tries that disagree. The definition, with its reasons, stands in
docs/reports.md.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_reports.frames import estimates, statistics
from spark_reports.frames.columns import require
from spark_reports.rows import STALE
from spark_reports.sets import BASELINE, CANDIDATE

NEW_FAILURE = "new failure"
FIXED = "fixed"
NO_LONGER_PASSES = "no longer passes"
STILL_FAILING = "still failing"
FLAKY = "flaky"
NA_EVERYWHERE = "n/a everywhere"
NOT_RUN = "not run"
NOT_SELECTED = "not selected"
NEW_CHECK = "new check"
UNCHANGED = "unchanged"
NOT_COMPARABLE = "not comparable"

DETERMINISTIC = "deterministic"
ASSUMED = "assumed"
STATISTICAL = "statistical"

RECENT = 30
"""So many of the newest runs of a key are looked at for flips."""

TURNS = 3
"""A version that differs from the one before it is a fault that came or went; of single runs, so many are chance."""

_CHECK = ("key", "test", "transport")
_COUNTS = ("failed_c", "runs_c", "failed_b", "runs_b")
_SHOWN = tuple(f"told.{name} AS {name}" for name in ("seen", "reason", "capture", "repeat", "run_id"))


def check_changes(checks: DataFrame, sets: DataFrame) -> DataFrame:
    """Returns one row per key, test and transport that a candidate or baseline run has.

    Columns: ``key test transport requirements level status certainty failed_c runs_c failed_b runs_b rate low high p q
    flips flips_c score last_flip_run seen reason capture repeat run_id outcome_c outcome_b recent_runs recent_failed
    history``.

    - ``status``: new failure, fixed, no longer passes (a deviation or a warning now), still failing, flaky, n/a
      everywhere, not run (judged in the baseline and not in the candidate), not selected (the same, where all runs of the candidate left tests out on purpose and have no
      verdict on it), new check (judged in the candidate and not in the baseline), unchanged, not comparable (runs of
      this node differ in environment or configuration from those they would be compared with). Where the baseline has
      a check and no run of it could judge it, a failure of the newest candidate run is told by the newest earlier run
      that could, also one of an older version: still failing if it failed in it, otherwise a new failure. So is what
      does not fail now: fixed if it failed in it, otherwise unchanged.
    - ``certainty``: ``deterministic`` for a check that never failed now and then: it had no failure in at least five
      baseline runs and fails in all of the candidate (or the other way round), or in its newest run where that has
      other tests than those that passed; ``assumed`` for the same with fewer runs, or none that could judge it, and no
      sign that it is flaky; ``statistical`` for what rests on rates, as where it fails in all of the candidate, never in
      the baseline, and in so few of the recent runs besides that chance makes that with less than 5 %.
    - ``failed_*`` and ``runs_*`` count runs in which the check passed or failed, of the candidate (c) and baseline (b); a
      run that disagrees with itself counts once, as failed.
    - ``rate low high``: failure rate in the recent runs of the versions that are compared where it is flaky, otherwise
      in the candidate, with its 95 % interval.
    - ``p`` and ``q`` are null where nothing rests on rates; q is corrected for all such checks of the key.
    - ``flips``: how often two runs of one version and one harness that follow each other disagree, in the newest 30;
      twice for a run that disagrees with itself; and, where versions have one run each, how often one of them differs from
      the one before it, if that is at least TURNS times; ``flips_c``: those on the version of the candidate. ``score`` as
      in ``statistics.flip_score``.
    - ``seen reason capture repeat`` are those of ``run_id``: the newest run that shows the failure, or the newest one.
    - ``outcome_c``, ``outcome_b``: what the newest run said; null for nothing.
    - ``recent_runs``, ``recent_failed``: what ``failed_*`` and ``runs_*`` are, of the newest 30 runs; ``history``: these
      runs, oldest first, as ``struct(run_id, outcome)``, the outcome ``pass``, ``fail`` or ``both``; null where there are
      no flips.

    Reference nodes that break a rule on purpose are left out; ``mutants`` looks at these.
    """
    failed = "if(status = 'flaky', recent_failed, failed_c)"
    runs = "if(status = 'flaky', recent_runs, runs_c)"
    return (
        _decided(_counted(checks, sets))
        .selectExpr(
            "*",
            f"{runs} > 0 AS judged",
            f"try_divide({failed}, {runs}) AS share",
            f"{estimates.wilson(failed, runs)} AS ends",
        )
        .selectExpr(
            *_CHECK,
            *("requirements", "level", "status", "certainty"),
            *_COUNTS,
            "if(judged, share, NULL) AS rate",
            "if(judged, ends.low, NULL) AS low",
            "if(judged, ends.high, NULL) AS high",
            *("p", "q", "flips", "flips_c", "score", "last_flip_run"),
            *_SHOWN,
            *("outcome_c", "outcome_b", "recent_runs", "recent_failed"),
            f"if(flips > 0, {_HISTORY}, NULL) AS history",
        )
    )


def stale_deviations(checks: DataFrame, sets: DataFrame) -> DataFrame:
    """Returns the tests of the candidate whose requirement is met although a deviation says otherwise.

    Columns: ``key node_impl node_version requirement test run_id``, those of the newest run of the candidate with it.
    """
    require(checks, "run_id", "test", "requirements", "outcome", "reason")
    require(sets, "run_id", "set", "key", "age", "node_impl", "node_version", "mutant")
    of_run = sets.where(f"set = '{CANDIDATE}' AND mutant = ''").select(
        "run_id", "key", "age", "node_impl", "node_version"
    )
    newest = f"min_by(struct(run_id, node_version, {_STALE} AS stale), age) AS newest"
    return (
        checks.where(_JUDGED)
        .join(sf.broadcast(of_run), "run_id")
        .withColumn("requirement", sf.explode("requirements"))
        .groupBy("key", "node_impl", "requirement", "test")
        .agg(sf.expr(newest))
        .where("newest.stale")
        .select("key", "node_impl", "newest.node_version", "requirement", "test", "newest.run_id")
    )


def _counted(checks: DataFrame, sets: DataFrame) -> DataFrame:
    """Returns one row per check with its counts, its recent runs and what it showed last."""
    require(checks, "run_id", "test", "transport", "level", "requirements", "outcome")
    require(checks, "seen", "reason", "capture", "repeat")
    require(sets, "run_id", "set", "key", "others", "age", "place", "harness", "mutant")
    require(sets, "is_judged", "has_candidate", "has_baseline", "selected_only")
    of_run = sets.where(
        f"mutant = '' AND (set <> 'history' OR age < {RECENT})"
        # Of a key with a baseline and no candidate there is nothing to tell.
        " AND (has_candidate OR NOT has_baseline)"
    ).selectExpr(
        *(
            "run_id",
            "set",
            "key",
            "others",
            "place",
            "harness",
            "is_judged",
            "has_candidate",
            "has_baseline",
            "selected_only",
            "-age AS at",
        ),
        "set IN ('candidate', 'not comparable') AS ours",
    )

    def failures(role: str) -> str:
        return f"cast(size(filter(ended, one -> one.set = '{role}' AND one.failed)) AS bigint)"

    def runs(role: str) -> str:
        return _runs_in(f"filter(ended, one -> one.set = '{role}')")

    # One pass over the checks. A set holds what each run ended with, once: a run that disagrees with itself is in it
    # with both, and any other once, however often it tried.
    return (
        checks.join(sf.broadcast(of_run), "run_id")
        .groupBy(*_CHECK)
        .agg(
            sf.expr(f"sort_array(collect_set(if({_JUDGED}, {_END}, NULL))) AS ended"),
            sf.expr("bool_or(set <> 'history') AS asked"),
            sf.expr("count_if(outcome <> 'n/a') AS applied"),
            sf.expr(f"max_by(outcome, if(set = '{CANDIDATE}', {_NEWEST}, NULL)) AS outcome_c"),
            sf.expr(f"max_by(outcome, if(set = '{BASELINE}', {_NEWEST}, NULL)) AS outcome_b"),
            sf.expr(f"max_by(struct({_TOLD}), {_IMPORTANCE}) AS told"),
            sf.expr("max(if(is_judged, place, NULL)) AS place_c"),
            *(
                sf.first(name).alias(name)
                for name in ("others", "has_candidate", "has_baseline", "selected_only")
            ),
        )
        .where("asked")
        .selectExpr(
            "*",
            f"{failures(CANDIDATE)} AS failed_c",
            f"{runs(CANDIDATE)} AS runs_c",
            f"{failures(BASELINE)} AS failed_b",
            f"{runs(BASELINE)} AS runs_b",
            f"array_max(transform(filter(ended, one -> one.set = '{CANDIDATE}'), "
            "one -> struct(one.at, one.failed))).failed AS fails_now",
            # Newer versions than those that are judged are no past.
            f"array_max(transform(filter(ended, one -> one.set <> '{CANDIDATE}' AND one.place <= place_c), "
            "one -> struct(one.place, one.at, one.failed))).failed AS failed_before",
            f"filter(ended, one -> one.at > -{RECENT}) AS recent",
            "told.requirements AS requirements",
            "told.level AS level",
            # What follows names what stands above: a selection of its own for each would be analysed one by one.
            f"{_FLIPPED} AS flipped",
            f"{_runs_in('recent')} AS recent_runs",
            "cast(size(filter(recent, one -> one.failed)) AS bigint) AS recent_failed",
            f"{_SELDOM} AS seldom",
            f"{_runs_in(_EARLIER)} AS runs_e",
            f"cast(size(filter({_EARLIER}, one -> one.failed)) AS bigint) AS failed_e",
            f"flipped.turns >= {TURNS} AS turning",
            "flipped.flips + if(turning, flipped.turns, 0L) AS flips",
            "flipped.pairs + if(turning, flipped.steps, 0L) AS pairs",
            "flipped.flips_c AS flips_c",
            "coalesce(flipped.last.run_id, '') AS last_flip_run",
            f"{_SCORE} AS score",
        )
    )


def _runs_in(ends: str) -> str:
    return f"cast(size(array_distinct(transform({ends}, one -> one.run_id))) AS bigint)"


# Recent runs of what was judged before, other versions than that of the baseline included.
_EARLIER = f"filter(recent, one -> one.set <> '{CANDIDATE}' AND one.place <= place_c)"

_JUDGED = "outcome IN ('pass', 'fail', 'warning', 'deviation')"

# A stale deviation is a requirement that is met; what fails is the list of deviations.
_STALE = f"outcome = 'fail' AND reason = '{STALE}'"

_FAILING = f"outcome = 'fail' AND reason <> '{STALE}'"

_TOLD = "requirements, level, run_id, seen, reason, capture, repeat"

# The candidate says most, then the baseline; of each a failure, the newest one.
_IMPORTANCE = f"struct(ours, set = 'baseline', {_FAILING}, at, repeat)"

_NEWEST = f"struct(at, {_FAILING}, {_JUDGED})"

# In the order in which flips are counted; a run that ended both ways passes first.
_END = f"struct(place, harness, at, run_id, {_FAILING} AS failed, set, is_judged)"

_END_TYPE = (
    "struct<place: int, harness: string, at: int, run_id: string, failed: boolean, set: string, "
    "is_judged: boolean>"
)

# Walks the recent runs by version, harness and time. Tries of one run that disagree count twice. Where each version has
# one run, as those of builds have, none disagrees with another one of its version. There a version that differs from the
# one before it counts once the next version has come, so that what is judged says nothing of itself. Nor does it where
# all runs are of one version: the step to the run that is judged is what the report is about.
_FLIPPED = f"""aggregate(
    recent,
    named_struct('flips', 0L, 'flips_c', 0L, 'pairs', 0L, 'last', cast(NULL AS struct<at: int, run_id: string>),
        'alone', false, 'prior', cast(NULL AS boolean), 'turns', 0L, 'steps', 0L,
        'before', cast(NULL AS {_END_TYPE})),
    (state, one) -> {
    estimates.let(
        "weight",
        f'''CASE WHEN state.before.run_id = one.run_id THEN 2L
            WHEN state.before.place = one.place AND state.before.harness = one.harness
                AND NOT (state.before.set = '{BASELINE}' AND one.set = '{CANDIDATE}') THEN 1L ELSE 0L END''',
        '''named_struct(
            'flips', state.flips + if(state.before.failed <> one.failed, weight, 0L),
            'flips_c', state.flips_c + if(state.before.failed <> one.failed AND one.is_judged, weight, 0L),
            'pairs', state.pairs + weight,
            'last', if(state.before.failed <> one.failed AND weight > 0
                    AND (state.last IS NULL OR state.last.at < one.at),
                named_struct('at', one.at, 'run_id', one.run_id), state.last),
            'alone', if(state.before.place = one.place, state.alone AND state.before.run_id = one.run_id, true),
            'prior', if(state.before.place = one.place, state.prior, if(state.alone, state.before.failed, NULL)),
            'turns', state.turns + if(state.alone AND state.before.place <> one.place
                AND state.prior <> state.before.failed, 1L, 0L),
            'steps', state.steps + if(state.alone AND state.before.place <> one.place
                AND state.prior IS NOT NULL, 1L, 0L),
            'before', one)''',
    )
})"""

# As statistics.flip_score; a run that ended both ways is split as evenly as can be.
_SCORE = f"""flips / (pairs + {statistics.FLIPLESS}) * least(1D,
    4 * ((recent_failed + 0.5D) / (size(recent) + 1)) * (1 - (recent_failed + 0.5D) / (size(recent) + 1)))"""

# How often it failed in recent runs that are not judged, as a probability that it does, with the prior of the posterior.
_SELDOM = f"""(size(filter(recent, one -> one.set <> '{CANDIDATE}' AND one.failed)) + 0.5D)
    / ({_runs_in(f"filter(recent, one -> one.set <> '{CANDIDATE}')")} + 1)"""

# Oldest first.
_HISTORY = """transform(
    array_sort(array_distinct(transform(recent, one -> struct(one.at AS at, one.run_id AS run_id))),
        (one, other) -> one.at - other.at),
    run -> struct(run.run_id AS run_id, CASE
        WHEN NOT exists(recent, one -> one.run_id = run.run_id AND one.failed) THEN 'pass'
        WHEN exists(recent, one -> one.run_id = run.run_id AND NOT one.failed) THEN 'both'
        ELSE 'fail' END AS outcome))"""


def _decided(counted: DataFrame) -> DataFrame:
    """Adds status and certainty, and p and q where they rest on rates."""
    estimated = counted.selectExpr(
        "*",
        "has_baseline AND runs_c > 0 AND runs_b > 0 AS both",
        "failed_c = runs_c AND failed_b = 0 AS worse",
        "failed_c = 0 AND failed_b = runs_b AS better",
        "(failed_c = 0 AND failed_b = 0) OR (failed_c = runs_c AND failed_b = runs_b) AS same",
        "has_baseline AND runs_c > 0 AND runs_b = 0 AND outcome_b IS NOT NULL AS unjudged",
        "unjudged AND flips_c = 0 AND fails_now AS blind",
        "unjudged AND failed_c = 0 AND failed_before IS NOT NULL AS recalled",
        "both AND flips = 0 AND (worse OR better) AND NOT same AS clear",
        # Earlier runs of the candidate, with other tests, did not show it yet.
        "both AND flips = 0 AND NOT worse AND failed_b = 0 AND fails_now AS fresh",
        # It failed before, but so seldom that chance does not make all of these runs fail.
        "both AND worse AND failed_b = 0 AND flips > 0 AND flips_c = 0 "
        f"AND pow(seldom, runs_c) < {1 - statistics.SURE} AS sudden",
        "both AND NOT clear AND NOT same AS rates",
        # What never failed in earlier versions either has more runs to compare with than those of the baseline.
        "if(failed_b = 0 AND failed_e = 0, greatest(runs_b, runs_e), runs_b) AS runs_w",
        f"if(rates, {estimates.fisher(*_WEIGHED)}, NULL) AS p",
    )
    mirrored = "failed_c * runs_w < failed_b * runs_c"
    ordered = [f"if({mirrored}, {other}, {one})" for one, other in zip(_WEIGHED, _MIRRORED, strict=True)]
    return estimates.with_q(estimated, "key").selectExpr(
        "*",
        f"rates AND q <= {statistics.FALSE_DISCOVERIES} AND {_apart(ordered)} AS apart",
        f"apart AND NOT ({mirrored}) AS rises",
        f"apart AND {mirrored} AS falls",
        f"{_STATUS} AS status",
        f"{_CERTAINTY} AS certainty",
    )


_WEIGHED = ("failed_c", "runs_c", "failed_b", "runs_w")
_MIRRORED = ("failed_b", "runs_w", "failed_c", "runs_c")

_STATUS = """CASE
    WHEN NOT has_candidate THEN 'not comparable'
    WHEN applied = 0 THEN 'n/a everywhere'
    WHEN NOT has_baseline AND flips > 0 AND failed_c > 0 THEN 'flaky'
    WHEN NOT has_baseline AND others > 0 THEN 'not comparable'
    WHEN runs_c = 0 AND runs_b = 0 THEN 'n/a everywhere'
    WHEN runs_c = 0 THEN if(selected_only AND outcome_c IS NULL, 'not selected', 'not run')
    WHEN blind THEN if(coalesce(failed_before, false), 'still failing', 'new failure')
    WHEN unjudged AND flips_c > 0 AND failed_c > 0 THEN 'flaky'
    WHEN recalled THEN if(failed_before, 'fixed', 'unchanged')
    WHEN runs_b = 0 THEN 'new check'
    WHEN clear AND worse THEN 'new failure'
    WHEN clear THEN 'fixed'
    WHEN rises OR fresh OR sudden THEN 'new failure'
    WHEN falls THEN 'fixed'
    WHEN flips > 0 AND failed_c + failed_b > 0 THEN 'flaky'
    WHEN failed_c > 0 AND (failed_b > 0 OR fails_now) THEN 'still failing'
    WHEN outcome_b = 'pass' AND outcome_c IN ('deviation', 'warning') THEN 'no longer passes'
    ELSE 'unchanged' END"""

_CERTAINTY = f"""CASE
    WHEN blind OR (recalled AND failed_before) THEN '{ASSUMED}'
    WHEN fresh AND NOT rises THEN if(runs_b < {statistics.STEADY_RUNS}, '{ASSUMED}', '{DETERMINISTIC}')
    WHEN status = 'flaky' OR (rates AND status IN ('new failure', 'fixed', 'still failing', 'unchanged'))
        THEN '{STATISTICAL}'
    WHEN clear AND if(worse, runs_b, runs_c) < {statistics.STEADY_RUNS} THEN '{ASSUMED}'
    ELSE '{DETERMINISTIC}' END"""


def _apart(counts: Sequence[str]) -> str:
    """Whether the first rate is above the second: by intervals, or by the posterior where runs are few."""
    failed, runs, failed_other, runs_other = counts
    low, high = estimates.wilson(failed, runs), estimates.wilson(failed_other, runs_other)
    likely = estimates.probability_higher(failed, runs, failed_other, runs_other)
    few = f"least(runs_c, runs_w) < {statistics.FEW}"
    return f"if({few}, {likely} >= {statistics.SURE}, {low}.low > {high}.high)"
