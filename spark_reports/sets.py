"""What is compared with what: candidate and baseline runs of the same node, environment and configuration.

Runs that differ in one of these are never compared: what looks fixed may only have been asked differently. Runs are
few and the records of the store have all that is needed here, so this takes no Spark; ``frame`` brings it there.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_reports.frames.versions import Version, parse_version
from spark_reports.rows import is_partial

CANDIDATE = "candidate"
BASELINE = "baseline"
HISTORY = "history"
NOT_COMPARABLE = "not comparable"

PREVIOUS = "previous"
RUN = "run"
VERSION = "version"

SCHEMA = (
    "run_id string, set string, key string, others bigint, age int, started_at string, node_impl string, "
    "node_whatami string, node_version string, place int, harness string, mutant string, is_judged boolean, "
    "has_candidate boolean, has_baseline boolean, selected_only boolean, kind string"
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the candidate is compared with.

    Attributes:
        kind: ``previous``: the newest earlier version of the same key, of those with runs of all tests if the newest has
            one, or the earlier runs of the same version where there is but one. ``run`` and ``version``: that one.
        name: The run id or the version; empty for ``previous``.
    """

    kind: str = PREVIOUS
    name: str = ""


@dataclass(slots=True)
class RunOfSet:
    """What a run is in the comparison.

    Attributes:
        run_id: The run.
        set: ``candidate``, ``baseline``, ``history`` or ``not comparable``.
        key: What comparable runs share, in words. Rows before version 4 do not say how they were configured; there
            what the run did stands in for it, so that a campaign is not taken for a run of the suite without any test.
        others: How many runs of the same implementation, role and kind have another key.
        age: Counts the runs of a key from the newest, which is 0.
        started_at: Of the run; so are ``node_impl``, ``node_whatami``, ``node_version``.
        place: Orders the versions of a key, from 1.
        harness: The commit of the tests, or their version.
        mutant: Names the rule that a reference node breaks on purpose; ``null:`` and its kind for a node that is
            none; empty for others.
        is_judged: Whether the candidate is of the same version, or the run is one of it.
        has_candidate: Whether a run of the key is one; so is ``has_baseline``.
        selected_only: Whether all runs of the candidate of the key left tests of the suite out on purpose.
        kind: What was run: the suite, campaigns, benchmarks.
    """

    run_id: str
    set: str
    key: str
    others: int
    age: int
    started_at: str
    node_impl: str
    node_whatami: str
    node_version: str
    place: int
    harness: str
    mutant: str
    is_judged: bool = False
    has_candidate: bool = False
    has_baseline: bool = False
    selected_only: bool = False
    kind: str = ""


def baseline_of(text: str, run_ids: Collection[str]) -> Baseline:
    """Returns what ``--baseline`` means: ``previous``, a run if there is one of that name, or else a version."""
    if text == PREVIOUS:
        return Baseline()
    return Baseline(RUN if text in run_ids else VERSION, text)


def resolve(runs: Iterable[Mapping[str, Any]], baseline: Baseline) -> list[RunOfSet]:
    """Returns what each run is, by key, the newest first.

    The candidate is every run of the newest version of a key, or its newest run where there is one version only. A
    run whose run.json cannot be read is left out.

    Args:
        runs: Runs, as ``rows.RunRow`` has them; records of versions that knew no selection lack it.
        baseline: What they are compared with.
    """
    known = [run for run in runs if run["started_at"]]
    by_key: dict[str, list[Mapping[str, Any]]] = {}
    for run in known:
        by_key.setdefault(_key(run), []).append(run)
    of_node = Counter(_node_and_kind(run) for run in known)
    found = []
    for key in sorted(by_key):
        newest_first = sorted(by_key[key], key=lambda run: (run["started_at"], run["run_id"]), reverse=True)
        places = _places(newest_first)
        of_kind = Counter(run["kind"] for run in newest_first)
        mine = [
            RunOfSet(
                run_id=run["run_id"],
                set=HISTORY,
                key=key,
                others=of_node[_node_and_kind(run)] - of_kind[run["kind"]],
                age=age,
                started_at=run["started_at"],
                node_impl=run["node_impl"],
                node_whatami=run["node_whatami"],
                node_version=run["node_version"],
                place=places[run["node_version"]],
                harness=run["harness_commit"] or run["harness_version"],
                mutant=_mutant(run["node"]),
                kind=run["kind"],
            )
            for age, run in enumerate(newest_first)
        ]
        partial = {run["run_id"] for run in newest_first if is_partial(run.get("selection", ""))}
        _split(mine, baseline, partial)
        roles = {run.set for run in mine}
        versions = {run.place for run in mine if run.set == CANDIDATE}
        judged = [run for one, run in zip(mine, newest_first, strict=True) if one.set == CANDIDATE]
        selected_only = bool(judged) and all(is_partial(run.get("selection", "")) for run in judged)
        for one in mine:
            one.is_judged = one.place in versions
            one.has_candidate, one.has_baseline = CANDIDATE in roles, BASELINE in roles
            one.selected_only = selected_only
        found += mine
    return found


def frame(spark: SparkSession, runs: Sequence[RunOfSet]) -> DataFrame:
    """Returns one row per run, with the columns of ``SCHEMA``, which are the attributes of ``RunOfSet``."""
    import pyarrow as pa

    rows = [dataclasses.asdict(run) for run in runs]
    columns = {field.name: [row[field.name] for row in rows] for field in dataclasses.fields(RunOfSet)}
    return spark.createDataFrame(pa.table(columns), SCHEMA)


def cautions(runs: Sequence[RunOfSet]) -> list[str]:
    """Returns what people may take for compared although it was not, one clause each.

    The newest version of a node that was only run otherwise than those before it; a baseline that is newer than what is
    compared with it, so that what it has and the other has not counts as lost; what was run last among builds, and counts
    fewer commits than an earlier one, as behind a history that was written anew.
    """
    by_node: dict[tuple[str, str, str], list[RunOfSet]] = {}
    for run in runs:
        if not run.mutant and has_place(run):
            by_node.setdefault((run.node_impl, run.node_whatami, run.kind), []).append(run)
    # What was asked to be compared is what was run last, whatever its version.
    unplaced = {run.key for run in runs if run.set == CANDIDATE and not has_place(run)}
    found = []
    for (impl, role, _), alike in by_node.items():
        node = f"{impl} {role}".strip()
        newest = max(alike, key=lambda run: (parse_version(run.node_version) or (), run.started_at))
        last = _same_version(newest.node_version)
        before = [run for run in alike if _same_version(run.node_version) != last]
        told = any(_same_version(run.node_version) == last for run in _told(alike))
        if before and not told and newest.key not in unplaced:
            why = (
                "none of those is the baseline that was asked for"
                if any(run.key == newest.key for run in before)
                else "those were run in other environments or configurations"
            )
            found.append(
                f"{node} {newest.node_version}, the newest, was compared with no other version: {why}"
            )
    judged: dict[str, RunOfSet] = {}
    for run in runs:
        if run.set == CANDIDATE and run.place >= judged.get(run.key, run).place:
            judged[run.key] = run
    for run in runs:
        newer = judged.get(run.key)
        if newer is not None and run.age == 0 and run.set == HISTORY and _is_passed_over(run, newer):
            found.append(
                f"{run.node_impl} {run.node_version} was run last and is not judged: by its number it is older than "
                f"{newer.node_version}"
            )
        if run.set == BASELINE and newer is not None and has_place(newer) and run.place > newer.place:
            found.append(
                f"the baseline, {run.node_version}, is newer than {newer.node_version}, which is compared with it"
            )
    return list(dict.fromkeys(found))


def left_behind(runs: Sequence[RunOfSet], complete: Collection[str]) -> set[str]:
    """Returns the keys whose newest judged run nobody will make again, as its version is no longer run.

    Under another key a later run, complete and judged, is of a newer version of the same node, and did the same. One of
    the same version leaves nothing behind: on that machine, or with those options, it may still be run.

    Args:
        runs: That of ``resolve``.
        complete: The runs that came to their end.
    """
    last: dict[str, RunOfSet] = {}
    for run in runs:
        if run.set == CANDIDATE and not run.mutant:
            last[run.key] = min(last.get(run.key, run), run, key=lambda one: one.age)

    def went_past(later: RunOfSet, run: RunOfSet) -> bool:
        # What is no version comes before all that are.
        versions = [parse_version(one.node_version) or () for one in (run, later)]
        nodes = {(one.node_impl, one.node_whatami) for one in (run, later)}
        # A run of suite and campaigns that was killed in the suite is called one of the suite.
        did_as_much = set(run.kind.split("+")) <= set(later.kind.split("+"))
        is_later = later.started_at > run.started_at and versions[0] < versions[1]
        return is_later and did_as_much and len(nodes) == 1

    whole = [run for run in runs if run.set == CANDIDATE and not run.mutant and run.run_id in complete]
    return {key for key, run in last.items() if any(went_past(later, run) for later in whole)}


def _is_passed_over(last: RunOfSet, judged: RunOfSet) -> bool:
    """Tells whether a run is older than what is judged only as commits are counted."""
    versions = parse_version(last.node_version), parse_version(judged.node_version)
    return last.place < judged.place and None not in versions and any(map(_is_build, filter(None, versions)))


def _told(runs: Iterable[RunOfSet]) -> list[RunOfSet]:
    """Returns the runs that are compared with those of another version."""
    both: dict[str, list[RunOfSet]] = {}
    for run in runs:
        if run.set in {CANDIDATE, BASELINE}:
            both.setdefault(run.key, []).append(run)
    return [
        run
        for alike in both.values()
        if len({_same_version(one.node_version) for one in alike}) > 1
        for run in alike
    ]


def _split(runs: Sequence[RunOfSet], baseline: Baseline, partial: Collection[str]) -> None:
    """Gives the runs of a key their roles; some of them are of some tests only."""
    if baseline.kind == PREVIOUS:
        _compare_newest(runs, partial)
        return
    asked = [run for run in runs if _is_asked(run, baseline)]
    if not asked:
        for run in runs:
            run.set = NOT_COMPARABLE
        return
    others = [run for run in runs if run not in asked]
    # A run is compared with those behind it, if there are some; otherwise with the newest other one.
    mark = min((-run.place, run.age) for run in asked)
    later = [run for run in others if baseline.kind == VERSION or (-run.place, run.age) < mark]
    last = max((run.place for run in later), default=None)
    if others and not has_place(others[0]) and (baseline.kind == VERSION or others[0].age < asked[0].age):
        # What was run last has no place among the versions, and needs none to be compared with one that is named.
        later, last = others, others[0].place
    for run in asked:
        run.set = BASELINE
    for run in others[:1] if last is None else later:
        if last is None or run.place == last:
            run.set = CANDIDATE


def _compare_newest(runs: Sequence[RunOfSet], partial: Collection[str]) -> None:
    """Compares the newest version with the one before it, or the newest run of the only one with the others."""
    newest = max(run.place for run in runs)
    last = next(run for run in runs if run.place == newest)
    # A version without a place stands in front of the others; one that was run later than they is nothing they came from.
    later = {run.place for run in runs if has_place(last) and not has_place(run) and run.age < last.age}
    others = {run.place for run in runs} - {newest} - later
    whole = {run.place for run in runs if run.run_id not in partial}
    # What a version was not asked can be no news of the next one that was.
    before = max((newest in whole and others & whole) or others, default=newest)
    for run in runs:
        if run.place == newest and (before < newest or run is last):
            run.set = CANDIDATE
        elif run.place == before:
            run.set = BASELINE


def _is_asked(run: RunOfSet, baseline: Baseline) -> bool:
    if baseline.kind == RUN:
        return run.run_id == baseline.name
    version = parse_version(baseline.name)
    return run.node_version == baseline.name or (
        version is not None and not _is_build(version) and parse_version(run.node_version) == version
    )


def has_place(run: RunOfSet) -> bool:
    """Tells whether the version of a run is one that can be ordered."""
    return parse_version(run.node_version) is not None


def _is_build(version: Version) -> bool:
    """Tells whether it is some commits behind a version: another build may be as many."""
    return bool(version[-1])


def _same_version(text: str) -> tuple[Version | None, str]:
    """Returns what is the same of versions that are written differently; builds are what they are called."""
    version = parse_version(text)
    return version, text if version is not None and _is_build(version) else ""


def _places(runs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Returns the place of each version of a key; versions that are none come first, in the order they came up in."""
    met: dict[str, str] = {}
    for run in runs:
        version = run["node_version"]
        met[version] = min(met.get(version, run["started_at"]), run["started_at"])

    def place(version: str) -> tuple[int, Version | tuple[str, str], str]:
        parsed = parse_version(version)
        if parsed is None:
            return 0, (met[version], version), ""
        # Of two builds that are as many commits behind a version, the later one came up later.
        return 1, parsed, met[version] + version if _is_build(parsed) else ""

    order = sorted({place(version) for version in met})
    return {version: order.index(place(version)) + 1 for version in met}


def _node_and_kind(run: Mapping[str, Any]) -> tuple[str, str, str]:
    return run["node_impl"], run["node_whatami"], run["kind"]


def _mutant(node: str) -> str:
    if node.startswith("ref:"):
        return node.rpartition(":")[2]
    return node if node.startswith("null:") else ""


def _key(run: Mapping[str, Any]) -> str:
    # Nodes of which nothing is known are the same only if they were reached in the same way.
    alone = _mutant(run["node"]) != "" or run["node_impl"] == "unknown"
    node = [run["node_impl"], *([run["node"]] if alone else []), run["node_whatami"]]
    words = " ".join([node[0], *filter(None, node[1:])])
    environment = run["environment"] or "environment not recorded"
    # Rows that do not say where they were made do not say how either.
    unknown = "" if run["environment"] else ", configuration not recorded"
    configuration = run["configuration"] or f"{run['kind']}{unknown}"
    return f"{words}; {environment}; {configuration}"
