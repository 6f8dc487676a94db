"""Going on with a run that ended, or was ended, and completing its files."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from fuzz.findings import FINDING, FOLDER, OPEN, Finding, NoFinding
from fuzz.plan import Done, Numbered
from fuzz.recorder import Lines, footer
from spark_reports.rows import (
    FINDINGS,
    FUZZ_CASES,
    FindingRow,
    NotJson,
    RowsError,
    from_json,
    read_rows,
    read_run,
)

CUT_LINES = "cut_lines.txt"
"""Beginnings of lines that were cut off are kept here, so that the files of rows stay whole."""

JOBS = "jobs.json"
"""Says in a run folder how many processes play each campaign, before the last of them has a row."""

POSTPONED = "postponed.jsonl"
"""Names in a run folder the cases whose turn did not come, a line for each part, process and campaign."""

LOCK_SECONDS = 3.0
"""How long the processes of a run that was killed may take to be gone."""

WINDOW = 2048
"""So many cases behind the last one of a process may have been under way when it ended; of them, those without a row
are played again."""

KEPT = 1 << 16
"""So many numbers are remembered while rows are read."""

BLOCK = 1 << 16

COMPARED = 2048
"""So many rows of a run are compared with the cases that have their numbers now: more of them would take longer to make."""

AHEAD = 10_000
"""So many cases are made beyond the numbers of those rows, to be sure that one is not there."""


@dataclass(slots=True)
class Earlier:
    """What a run folder holds of earlier parts of the run.

    Attributes:
        done: Which cases have a row, by process and campaign.
        cases: Rows by campaign.
        jobs: How many processes there were, at least.
        shared: How many there were, by campaign; nothing of those of older releases.
        seeds: Seeds of those campaigns.
        part: How often the run was resumed, with this time.
    """

    done: dict[int, dict[str, Done]] = field(default_factory=dict)
    cases: Counter[str] = field(default_factory=Counter)
    jobs: int = 1
    shared: dict[str, int] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    part: int = 0


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other runs out of a folder.

    Raises:
        UsageError: Another one is at it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise UsageError(
                        f"another run is writing into {folder.name}; choose another --run-dir"
                    ) from None
                time.sleep(0.05)  # a lock can be waited for, but not for so long and no longer
        yield
    finally:
        os.close(descriptor)


# Whole files ------------------------------------------------------------------------------------------


def cut_end(path: Path) -> bytes:
    """Returns the end of a file behind its last whole row: empty when the last line is one.

    Raises:
        OSError: It cannot be read.
    """
    if not path.exists():
        return b""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start, last = size, b""
        while start > 0 and b"\n" not in last:
            start = max(0, size - max(BLOCK, 2 * len(last)))
            file.seek(start)
            last = file.read(size - start)
    return last.rpartition(b"\n")[2]


def check_fresh(folder: Path, campaigns: Iterable[str], *, resumable: bool = True) -> None:
    """Refuses a folder whose rows were cut off, or that has cases of one of the campaigns.

    What is behind a cut would not be told apart from it, and two cases would have one number.

    Args:
        folder: The run folder.
        campaigns: What is to be played.
        resumable: A run like this one can be continued.

    Raises:
        UsageError: It is such a folder.
    """
    to_do = "continue with --resume, or use another --run-dir" if resumable else "use another --run-dir"
    for name in (FUZZ_CASES, FINDINGS):
        if cut_end(folder / name):
            raise UsageError(f"{name} in {folder.name} is truncated; {to_do}")
    before = earlier(folder).cases
    there = [name for name in campaigns if before[name]]
    if there:
        raise UsageError(f"{folder.name} already has cases of {', '.join(there)}; {to_do}")


def mend(folder: Path) -> int:
    """Sets lines apart that were cut off; returns how many there were.

    A row that lacks nothing but its line end gets one.

    Raises:
        OSError: The files cannot be written.
    """
    count = 0
    for name in (FUZZ_CASES, FINDINGS):
        path = folder / name
        end = cut_end(path)
        if not end:
            continue
        if _is_row(end):
            lines = Lines(path)
            lines.write("\n")
            lines.close()
            continue
        with (folder / CUT_LINES).open("ab") as file:
            file.write(name.encode() + b": " + end + b"\n")
        os.truncate(path, path.stat().st_size - len(end))
        count += 1
    return count


def _is_row(line: bytes) -> bool:
    try:
        return isinstance(from_json(line), dict)
    except NotJson:
        return False


def complete(folder: Path) -> None:
    """Writes the footers of the files that were appended to; the run is whole from now on.

    Raises:
        OSError: They cannot be written.
    """
    mend(folder)
    for name in (FUZZ_CASES, FINDINGS):
        path = folder / name
        if name != FUZZ_CASES and not path.exists():
            continue
        count, ends = 0, False
        if path.exists():
            with path.open("rb") as file:
                for line in file:
                    ends = line.startswith(b'{"footer":')
                    count += not ends and not line.isspace()
        if not ends:
            lines = Lines(path)
            lines.write(footer(count))
            lines.close()


# Earlier parts ----------------------------------------------------------------------------------------


def earlier(folder: Path, count: Callable[[Mapping[str, Any]], None] = lambda _: None) -> Earlier:
    """Reads what earlier parts of a run recorded. What is no row is passed over.

    Args:
        folder: The run folder.
        count: Is given every row of a case.

    Raises:
        OSError: It cannot be read.
    """
    result = Earlier(shared=_shared(folder))
    result.jobs = max([1, *result.shared.values()])
    seen: dict[tuple[int, str], _Seen] = {}
    postponed = _postponed(folder)
    for row in _rows(folder / FUZZ_CASES):
        campaign, job = str(row["campaign"]), int(row.get("job", 0))
        result.cases[campaign] += 1
        result.seeds[campaign] = int(row["seed"])
        result.jobs = max(result.jobs, job + 1)
        seen.setdefault((job, campaign), _Seen()).add(int(row["case"]))
        if campaign in postponed:
            # A later part has played it.
            postponed[campaign].discard(int(row["case"]))
        count(row)
    for (job, campaign), numbers in seen.items():
        done = numbers.done(WINDOW * result.jobs)
        left = frozenset(postponed.get(campaign, ()))
        result.done.setdefault(job, {})[campaign] = replace(done, postponed=left)
    parts = [int(row.get("part", 0)) for row in _rows(folder / FINDINGS)]
    result.part = 1 + max(parts, default=0) if result.cases else 0
    return result


def postpone(folder: Path, cases: Iterable[tuple[str, int]]) -> None:
    """Writes down which cases of which campaigns are to be played when the run is resumed.

    Raises:
        OSError: It cannot be written.
    """
    by_campaign: dict[str, list[int]] = {}
    for campaign, number in cases:
        by_campaign.setdefault(campaign, []).append(number)
    if by_campaign:
        with closing(Lines(folder / POSTPONED)) as lines:
            for campaign, numbers in by_campaign.items():
                lines.write(json.dumps({"campaign": campaign, "cases": sorted(numbers)}) + "\n")


def _postponed(folder: Path) -> dict[str, set[int]]:
    """Returns the numbers of cases that parts of a run postponed, by campaign; what cannot be read is passed over."""
    result: dict[str, set[int]] = {}
    if not (folder / POSTPONED).exists():
        return result
    for line in (folder / POSTPONED).read_bytes().splitlines():
        try:
            value = from_json(line)
        except NotJson:
            continue
        if isinstance(value, dict) and isinstance(value.get("cases"), list):
            numbers = (number for number in value["cases"] if type(number) is int)
            result.setdefault(str(value.get("campaign")), set()).update(numbers)
    return result


def share(folder: Path, campaigns: Iterable[str], jobs: int) -> None:
    """Writes down how many processes play campaigns.

    Raises:
        OSError: It cannot be written.
    """
    values = {**_shared(folder), **dict.fromkeys(campaigns, jobs)}
    temporary = folder / f".{JOBS}"
    temporary.write_text(json.dumps(values) + "\n", encoding="utf-8")
    temporary.replace(folder / JOBS)


def _shared(folder: Path) -> dict[str, int]:
    path = folder / JOBS
    if not path.exists():
        return {}
    try:
        values = from_json(path.read_bytes())
    except NotJson as error:
        raise UsageError(f"{JOBS} in {folder.name} is not JSON ({error}); use another --run-dir") from None
    if not isinstance(values, dict) or not all(type(jobs) is int and jobs > 0 for jobs in values.values()):
        raise UsageError(f"{JOBS} in {folder.name} was not written by zenoh-fuzz; use another --run-dir")
    return values


def findings_before(folder: Path, part: int | None = None) -> list[FindingRow]:
    """Returns what parts of a run found before one, or all: of each part and process the last row of each bucket.

    A bucket that counts no case in its last row of a process, which may be of this part, is part of another by now.

    Raises:
        OSError: It cannot be read.
    """
    path = folder / FINDINGS
    if not path.exists():
        return []
    last: dict[tuple[int, int, str], FindingRow] = {}
    newest: dict[tuple[int, str], FindingRow] = {}
    for value in read_rows(path).rows:
        row = FindingRow(**{**value, "case_buckets": tuple(value["case_buckets"])})
        last[row.part, row.job, row.bucket] = newest[row.job, row.bucket] = row
    before = (row for row in last.values() if part is None or row.part < part)
    return [row for row in before if newest[row.job, row.bucket].hits]


def unrecorded(folder: Path) -> list[Finding]:
    """Returns the findings of a run that have a folder and no row, as of a process that was killed between the two.

    What nobody has looked into is left out.

    Raises:
        OSError: It cannot be read.
    """
    path = folder / FINDINGS
    told = {value["bucket"] for value in read_rows(path).rows} if path.exists() else set()
    found = []
    for file in sorted((folder / FOLDER).glob(f"*/{FINDING}")):
        if not file.parent.name.startswith(f"{OPEN}-"):
            with suppress(NoFinding):  # of one of our readers, or damaged: there is nothing to say
                finding = Finding.load(file.parent)
                if finding.bucket not in told:
                    found.append(finding)
    return found


class _Seen:
    """Numbers of the cases of one process, the last ones of which it remembers."""

    def __init__(self) -> None:
        self._highest = 0
        self._numbers: set[int] = set()

    def add(self, number: int) -> None:
        self._highest = max(self._highest, number)
        self._numbers.add(number)
        if len(self._numbers) > KEPT:
            self._numbers = {one for one in self._numbers if one > self._highest - KEPT // 2}

    def done(self, window: int) -> Done:
        # Further back, what has no row was left out.
        upto = max(0, self._highest - min(window, KEPT // 2))
        return Done(upto, frozenset(one for one in self._numbers if one > upto))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file; what is none is left to the readers of reports, which show it."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                value = from_json(line)
            except NotJson:
                continue
            if isinstance(value, dict) and not value.get("footer") and "run_id" in value:
                yield value


def jobs_of_run(found: Earlier, campaigns: Iterable[str], jobs: int) -> int:
    """Returns how many processes played one of some campaigns; ``jobs`` when none was begun."""
    return next((found.shared.get(name, found.jobs) for name in campaigns if name in found.seeds), jobs)


def check_same(found: Earlier, campaigns: list[str], seed: int | None, jobs: int, folder: Path) -> int | None:
    """Returns the seed that a run has to go on with; None when nothing of its campaigns is there.

    Raises:
        UsageError: Another seed or number of jobs was given, the campaigns have different seeds, or only others
            were run here.
    """
    mine = {found.seeds[name] for name in campaigns if name in found.seeds}
    if not mine:
        if found.cases:
            raise UsageError(
                f"{folder.name} has no cases of {', '.join(campaigns)} (it has: {', '.join(found.cases)}); "
                "leave out --resume to add them"
            )
        return None
    if len(mine) > 1:
        raise UsageError(
            f"the campaigns in {folder.name} have different seeds ({', '.join(map(str, sorted(mine)))}); "
            "resume them one by one"
        )
    (before,) = mine
    if seed is not None and seed != before:
        raise UsageError(f"the run in {folder.name} has seed {before}, not {seed}; leave out --seed")
    begun = {jobs_of_run(found, [name], jobs) for name in campaigns if name in found.seeds}
    if begun != {jobs}:
        first = min(begun - {jobs})
        raise UsageError(
            f"the run in {folder.name} was started with --jobs {first}, not {jobs}; use the same number"
        )
    return before


class Numbers:
    """What the first rows of a run say which case has which number.

    Of those that come from a corpus nothing is said: they are drawn from the answers of a node.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, int], tuple[str, ...]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Takes in the row of a case."""
        if len(self._told) < COMPARED and not row.get("parent"):
            values = (str(row.get(name, "")) for name in ("state", "source", "message", "field", "mutation"))
            self._told[str(row["campaign"]), int(row["case"])] = tuple(values)

    def changed(self, campaigns: Iterable[str], cases: Iterable[Numbered]) -> str:
        """Returns in words which case of some campaigns has another number now; nothing when all have their own.

        Args:
            campaigns: Those that are played.
            cases: Of them, as they come now.
        """
        left = {key: told for key, told in self._told.items() if key[0] in set(campaigns)}
        highest: Counter[str] = Counter()
        for campaign, number in left:
            highest[campaign] = max(highest[campaign], number)
        for one in islice(cases, highest.total() + AHEAD):
            if not left:
                return ""
            case = one.case
            was = left.pop((one.campaign.name, one.number), None)
            now = str(case.state), case.source.name, case.message, case.field, case.mutation
            if was is not None and was != now:
                return f"{one.campaign.name} {one.number} was {_words(was)}, and is {_words(now)}"
        return "".join(
            f"{campaign} {number} was {_words(left[campaign, number])}, and is none"
            for campaign, number in sorted(left)[:1]
        )


def _words(told: Sequence[str]) -> str:
    state, source, _, field_, mutation = told
    return f"{field_ or source}: {mutation} in {state}"


def check_numbers(
    folder: Path, found: Earlier, campaigns: Sequence[str], numbers: Numbers, cases: Iterable[Numbered]
) -> None:
    """Refuses to go on with a run whose cases would have other numbers than in its rows.

    Some would be played twice, others never, and rows with one number would be of two cases.

    Args:
        folder: The run folder.
        found: What it holds.
        campaigns: What is to be played.
        numbers: What its rows say.
        cases: Of the campaigns, as they come now.

    Raises:
        UsageError: It is such a run.
    """
    if not (changed := numbers.changed(campaigns, cases)):
        return
    if set(found.cases) != set(campaigns):
        why = (
            f"it has cases of {', '.join(sorted(found.cases))}, and numbers depend on what is played together"
        )
    else:
        why = f"it was begun by {_writer(folder)}"
    raise UsageError(
        f"the run in {folder.name} cannot be continued, as its cases have other numbers now: {why} ({changed}); "
        "use another --run-dir"
    )


def _writer(folder: Path) -> str:
    """Returns what wrote a run, in words."""
    with suppress(RowsError):  # whoever wrote it, it was another one
        row = read_run(folder)
        commit = f", commit {row.harness_commit[:12]}" if row.harness_commit else ""
        return f"another version of the harness or of Hypothesis (last {row.harness_version}{commit}, Python {row.python})"
    return "another version of the harness"
