"""From recorded runs to proposals: what to write into the deviations file, for a person to judge.

Nothing here edits the deviations file. A proposal has no note, and a file with an empty note does not load:
whether it is the node that differs, or the test that is wrong, is for somebody to find out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.deviations.recorded import SHIPPED, Deviation, Deviations, plain
from conformance.deviations.versions import Key, ranges, version_key
from conformance.errors import UsageError
from spark_reports.rows import STALE, VERDICTS, RowsError, read_rows, read_run

REVIEW_AFTER = dt.timedelta(days=182)
"""How long a deviation stands before somebody looks again: a release of eclipse-zenoh comes every two months."""

WELL = "the node stays well"
"""What a test expected whose node was not well behind it; that is never a deviation."""

MET = ""
"""Stands for what a test saw that met its requirement."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What one test showed on one node.

    Attributes:
        test: Its id as on TCP.
        transport: What it ran over.
        version: Of the node.
        requirements: What it is about.
        shown: What was seen instead of what should have been; MET; None when nothing was learned.
        run_id: The run.
        capture: File below the run folder, or empty.
    """

    test: str
    transport: str
    version: str
    requirements: tuple[str, ...]
    shown: str | None
    run_id: str
    capture: str


@dataclass(slots=True)
class Proposals:
    """What to change in a deviations file.

    Attributes:
        entries: Each with the reasons for it, one line each; None where an entry should go.
        left_out: What cannot be proposed, and why.
    """

    entries: list[tuple[Draft | None, list[str]]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.entries)

    def text(self, source: str) -> str:
        """Returns them as a file like the deviations file.

        Args:
            source: Name of the deviations file they are about.
        """
        lines = [
            f"# Proposals for {source}. Is it the node, or is it the test? Look at the test, the page and the",
            "# capture; then copy what holds, and say in `note` what the node does. An empty note does not load.",
        ]
        for draft, reasons in self.entries:
            lines += ["", *map(_comment, reasons)]
            if draft is not None:
                lines += draft.lines()
        if self.left_out:
            lines += ["", "# Not proposed:", *map(_comment, self.left_out)]
        return "\n".join(lines) + "\n"

    def write(self, path: Path, source: str) -> None:
        """Writes them into a file, which is replaced.

        Raises:
            UsageError: It cannot be written.
        """
        try:
            path.write_text(self.text(source), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry as it might stand in the file; the attributes are those of Deviation."""

    requirement: str
    impl: str
    versions: str
    transports: str
    test: str
    seen: str
    note: str
    evidence: str
    reviewed: dt.date
    review_by: dt.date

    def lines(self) -> list[str]:
        """Returns the entry in TOML."""
        values = [
            ("requirement", quoted(self.requirement)),
            ("impl", quoted(self.impl)),
            ("versions", quoted(self.versions)),
            ("transports", quoted(self.transports) if self.transports else ""),
            ("test", quoted(self.test)),
            ("seen", quoted(self.seen)),
            ("evidence", quoted(self.evidence)),
            ("note", quoted(self.note)),
            ("reviewed", self.reviewed.isoformat()),
            ("review_by", self.review_by.isoformat()),
        ]
        return ["[[deviation]]", *(f"{key} = {value}" for key, value in values if value)]


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def quoted(text: str) -> str:
    """Returns a text as a string of TOML on one line, whatever it holds.

    Raises:
        ValueError: It has half of a surrogate pair, which TOML cannot hold.
    """
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("a text that is no Unicode cannot stand in TOML")
    return '"' + "".join(_ESCAPES.get(letter, _visible(letter)) for letter in text) + '"'


def _visible(letter: str) -> str:
    # What would not be seen in an editor, or would turn the line round, stands as its number.
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def _comment(text: str) -> str:
    return "# " + "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text)


# Reading --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Recorded:
    """What runs showed of one implementation.

    Attributes:
        impl: Its name.
        observed: By test, transport and what the version is compared by.
        left_out: What cannot be used, and why.
    """

    impl: str
    observed: dict[tuple[str, str, Key], Observed] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def over(self, known: Deviation) -> list[Observed]:
        """Returns what was learned of the tests that an entry is about, the oldest version first."""
        mine = [
            (key, made)
            for (test, transport, key), made in self.observed.items()
            if made.shown is not None and known.is_about(test) and known.is_over(transport)
        ]
        return [made for _, made in sorted(mine, key=lambda one: (one[0], one[1].test))]


def read(folders: Iterable[Path]) -> dict[str, Recorded]:
    """Returns what recorded runs showed, by implementation.

    Raises:
        UsageError: A folder is no run with verdicts.
    """
    found: dict[str, Recorded] = {}
    for folder in folders:
        try:
            run, rows = read_run(folder), read_rows(folder / VERDICTS).rows
        except (RowsError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"{folder}: is no run of the suite ({why})") from None
        mine = found.setdefault(run.node_impl, Recorded(run.node_impl))
        key = version_key(run.node_version)
        if key is None:
            mine.left_out.append(
                f"run {run.run_id}: the version of the node is not known; name it with --profile"
            )
            continue
        for row in rows:
            _take(mine, row, run.node_version, key)
    return found


def _take(mine: Recorded, row: dict[str, object], version: str, version_as_key: Key) -> None:
    transport = str(row["transport"]) or "tcp"
    test = plain(str(row["test"]), transport)
    key = (test, transport, version_as_key)
    shown: str | None = str(row["seen"])
    where = f"{test} on {version} over {transport}"
    outcome = row["outcome"]
    if outcome in {"n/a", "inconclusive"}:
        shown = None
    elif outcome == "pass" or row["reason"] == STALE:
        shown = MET
    elif row["expected"] == WELL or "; then " in str(shown) or not shown:
        mine.left_out.append(
            f"{where}: the node was not well behind it, or nothing was said about what was seen"
        )
        shown = None
    elif any("\ud800" <= letter <= "\udfff" for letter in shown):
        mine.left_out.append(f"{where}: what was seen is no Unicode, which TOML cannot hold")
        shown = None
    names = row["requirements"]
    made = Observed(
        test,
        transport,
        version,
        tuple(map(str, names)) if isinstance(names, list) else (),
        shown,
        str(row["run_id"]),
        str(row["capture"]),
    )
    before = mine.observed.get(key)
    if before is None or before.shown is None:
        mine.observed[key] = made
    elif shown is not None and shown != before.shown:
        mine.left_out.append(f"{where}: differs from run to run; find out why before anything is recorded")
        mine.observed[key] = Observed(
            test, transport, version, made.requirements, None, made.run_id, made.capture
        )


# Comparing ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One signature of one test over one transport, with the versions that show it."""

    test: str
    transport: str
    seen: str
    versions: str


def beside(path: Path, otherwise: Path) -> Path:
    """Returns where proposals for a file of deviations belong: beside it, unless that is an installed package.

    Args:
        path: The file of deviations.
        otherwise: Folder for proposals about the file that came with an installation.
    """
    name = f"{path.stem}.proposed.toml"
    installed = path == SHIPPED and not (path.parents[1] / "pyproject.toml").exists()
    return otherwise / name if installed else path.with_name(name)


def propose(
    deviations: Deviations, folders: Iterable[Path], *, releases: Sequence[str] = (), today: dt.date
) -> Proposals:
    """Returns what should change in a deviations file for recorded runs to be as it says.

    What was not seen in these runs, such as another version, stays as the file has it.

    Args:
        deviations: What is recorded now.
        folders: Runs of the suite, of one version or of several.
        releases: Versions that exist: a range of which one is taken out ends at its neighbours, and where these
            are not known, at what runs and entries name.
        today: Stands as the day of the review, which whoever copies the entry is to make true.

    Raises:
        UsageError: A folder is no run with verdicts.
    """
    result = Proposals()
    for _, recorded in sorted(read(folders).items()):
        _compare(deviations, recorded, releases, today, result)
        result.left_out += recorded.left_out
    return result


def _compare(
    deviations: Deviations, recorded: Recorded, releases: Sequence[str], today: dt.date, result: Proposals
) -> None:
    entries = [known for known in deviations if known.impl == recorded.impl]
    order = _in_order(
        [*(made.version for made in recorded.observed.values()), *releases, *_named(entries)],
    )
    objections = {known: _objections(known, recorded) for known in entries}
    changed: dict[_Wanted, list[Deviation]] = {}
    kept: set[Deviation] = set()
    for test, transport in sorted({(test, transport) for test, transport, _ in recorded.observed}):
        for seen, versions in _signatures(deviations, recorded, order, test, transport).items():
            mine = [k for k in entries if k.seen == seen and k.is_about(test) and k.is_over(transport)]
            kept.update(mine)
            if not mine or any(objections[known] for known in mine):
                changed[_Wanted(test, transport, seen, versions)] = mine
    for known in entries:
        if objections[known] and known not in kept:
            reasons = [f"{known.place} ({known.requirement}, {known.test}): remove it", *objections[known]]
            result.entries.append((None, reasons))
    for group in _groups(changed, recorded):
        before = list(dict.fromkeys(known for want in group for known in changed[want]))
        reasons = [] if before else ["new"]
        for known in before:
            reasons.append(f"{known.place} ({known.requirement}): instead of {known.versions}, {known.test}")
            reasons += objections[known]
        result.entries.append((_draft(group, recorded, before[0] if before else None, today), reasons))


def _named(entries: Iterable[Deviation]) -> list[str]:
    return [version for known in entries for version in known.named_versions()]


def _in_order(versions: Iterable[str]) -> list[str]:
    """Returns versions, oldest first, each once, as it is spelled the first time."""
    found: dict[Key, str] = {}
    for version in versions:
        key = version_key(version)
        if key is not None:
            found.setdefault(key, version)
    return [found[key] for key in sorted(found)]


def _signatures(
    deviations: Deviations, recorded: Recorded, order: list[str], test: str, transport: str
) -> dict[str, str]:
    """Returns what a test sees, with the versions where it does: from the runs, elsewhere from the file."""
    believed: list[str | None] = []
    for version in order:
        key = version_key(version)
        made = recorded.observed.get((test, transport, key)) if key else None
        if made is None or made.shown is None:
            known = deviations.of(recorded.impl, version, transport, test)
            believed.append(known.seen if known else None)
        else:
            believed.append(made.shown)
    seen = dict.fromkeys(shown for shown in believed if shown)
    return {
        one: ranges([None if shown is None else shown == one for shown in believed], order) for one in seen
    }


def _objections(known: Deviation, recorded: Recorded) -> list[str]:
    """Returns where runs contradict an entry, one line for each kind and signature."""
    found: dict[str, dict[str, None]] = {}
    for made in recorded.over(known):
        covered = known.is_on(recorded.impl, made.version, made.transport)
        if covered and made.shown == MET:
            found.setdefault("stale, the requirement is met", {})[made.version] = None
        elif covered and made.shown != known.seen:
            found.setdefault(f"different, seen is {made.shown}", {})[made.version] = None
        elif not covered and made.shown == known.seen:
            found.setdefault("wider, seen likewise", {})[made.version] = None
    return [f"{what}: {', '.join(versions)}" for what, versions in found.items()]


def _groups(wanted: Iterable[_Wanted], recorded: Recorded) -> list[list[_Wanted]]:
    """Joins what differs by transport or parameter only, where one entry can stand for all of it."""
    alike: dict[tuple[str, str, str], list[_Wanted]] = {}
    for want in wanted:
        alike.setdefault((want.test.partition("[")[0], want.seen, want.versions), []).append(want)
    groups = []
    for (name, _, _), mine in alike.items():
        tried = {
            (test, transport) for test, transport, _ in recorded.observed if test.partition("[")[0] == name
        }
        if {(want.test, want.transport) for want in mine} == tried:
            groups.append(mine)
            continue
        by_test: dict[str, list[_Wanted]] = {}
        for want in mine:
            by_test.setdefault(want.test, []).append(want)
        groups += by_test.values()
    return groups


def _draft(group: list[_Wanted], recorded: Recorded, known: Deviation | None, today: dt.date) -> Draft:
    first = group[0]
    tests = {want.test for want in group}
    made = [
        made
        for (test, transport, _), made in recorded.observed.items()
        if made.shown == first.seen
        and any((test, transport) == (want.test, want.transport) for want in group)
    ]
    newest = max(made, key=lambda one: version_key(one.version) or ((), 0, 0, 0), default=None)
    tried = {transport for test, transport, _ in recorded.observed if test in tests}
    over = {want.transport for want in group}
    if known is not None:
        transports = known.transports
    else:
        # Whoever looked at several transports, and saw it on all, knows that the transport does not matter.
        transports = "" if len(tried) > 1 and over == tried else ", ".join(sorted(over))
    requirements = newest.requirements if newest else ()
    return Draft(
        requirement=known.requirement if known else (requirements or ("",))[0],
        impl=recorded.impl,
        versions=first.versions,
        transports=transports,
        test=f"{first.test.partition('[')[0]}[*]" if len(tests) > 1 else first.test,
        seen=first.seen,
        note=known.note if known else "",
        evidence=known.evidence if known else _where(newest),
        reviewed=today,
        review_by=today + REVIEW_AFTER,
    )


def _where(made: Observed | None) -> str:
    return f"run {made.run_id} on {made.version}, {made.capture or 'no capture'}" if made else ""
