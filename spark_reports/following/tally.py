"""What a watch has counted so far: plain values, kept in one small file that is written as a whole.

The file says which batch was counted last. Spark hands a batch on again if it was killed before it took note of its
end; such a batch is then passed over, so that every line counts once.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spark_reports import rows
from spark_reports.errors import WrongUse

TALLY = "tally.json"
TALLY_VERSION = 2

KINDS = ("good", "apart", "blank", "footers")
"""What a line can be."""

RATE_SECONDS = 10.0
"""A rate is that of the last so many seconds of a run, by the times in its rows."""

WORDS: Mapping[str, str] = {
    rows.VERDICTS: "verdict",
    rows.FUZZ_CASES: "case",
    rows.OBSERVATIONS: "observation",
    rows.FINDINGS: "finding",
    rows.BENCHMARKS: "benchmark",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Lines of one batch that are alike.

    Attributes:
        folder: Of the run.
        kind: One of ``KINDS``.
        outcome: Verdict of cases, outcome of tests, direction of what was seen on a link; empty otherwise.
        bucket: Of cases that an oracle objected to.
        test: Of verdicts that are no pass.
        lines: How many.
        first_ns: Time of the first of them; ``last_ns`` likewise; 0 where rows have no time.
        case: Number of the first case.
        text: What was seen in the first of them, or why it is no row.
    """

    folder: str
    file: str
    kind: str
    campaign: str = ""
    outcome: str = ""
    bucket: str = ""
    test: str = ""
    lines: int
    first_ns: int = 0
    last_ns: int = 0
    case: int = 0
    text: str = ""


@dataclass(slots=True)
class RunTally:
    """The lines of one run.

    Attributes:
        files: By file: how many of its lines are of each kind.
        outcomes: By file: how many of its good lines have each outcome.
        spans: The last stretches of cases: first and last time in ns, and how many.
    """

    files: dict[str, dict[str, int]] = field(default_factory=dict)
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    spans: list[list[int]] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        """Cases per second of late; None as long as there are too few."""
        if not self.spans:
            return None
        cases = sum(span[2] for span in self.spans)
        seconds = (max(span[1] for span in self.spans) - min(span[0] for span in self.spans)) / 1e9
        return (cases - 1) / seconds if seconds > 0 and cases > 1 else None

    def lines(self, kind: str = "") -> int:
        """Returns how many lines of a kind there are, or of all kinds."""
        return sum(sum(file.values()) if not kind else file[kind] for file in self.files.values())


@dataclass(slots=True)
class Tally:
    """All that was counted.

    Attributes:
        roots: The folders that are watched.
        batch: Number of the last batch that is in it; -1 before the first.
        runs: By folder.
        buckets: By bucket: the folder of the run that met it first.
        began: When the first watch with it began, as rows spell it.
    """

    roots: tuple[str, ...]
    batch: int = -1
    runs: dict[str, RunTally] = field(default_factory=dict)
    buckets: dict[str, str] = field(default_factory=dict)
    began: str = field(default_factory=rows.utc_now)

    def add(self, batch: int, groups: Iterable[Group]) -> "News | None":
        """Counts a batch; returns what is new, or None for a batch that was counted before."""
        if batch <= self.batch:
            return None
        self.batch = batch
        news = News()
        for group in sorted(groups, key=lambda group: (group.first_ns, group.folder, group.file, group.case)):
            self._count(group)
            added = news.added.setdefault(group.folder, {})
            added[group.file] = added.get(group.file, 0) + (group.lines if group.kind == "good" else 0)
            if group.bucket and group.bucket not in self.buckets:
                self.buckets[group.bucket] = group.folder
                news.buckets.append(group)
            if group.test and group.outcome == "fail":
                news.fails.append(group)
            if group.kind == "apart":
                news.apart.append(group)
        for folder in news.added:
            _forget_old(self.runs[folder].spans)
        return news

    def _count(self, group: Group) -> None:
        run = self.runs.setdefault(group.folder, RunTally())
        kinds = run.files.setdefault(group.file, dict.fromkeys(KINDS, 0))
        kinds[group.kind] += group.lines
        if group.kind == "good" and group.outcome:
            outcomes = run.outcomes.setdefault(group.file, {})
            outcomes[group.outcome] = outcomes.get(group.outcome, 0) + group.lines
        if group.kind == "good" and group.file == rows.FUZZ_CASES:
            run.spans.append([group.first_ns, group.last_ns, group.lines])

    def save(self, folder: Path) -> None:
        """Writes the tally, whole or not at all."""
        temporary = folder / f".{TALLY}.{os.getpid()}"
        value = {"version": TALLY_VERSION, **asdict(self)}
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(value, file, separators=(",", ":"), ensure_ascii=True)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / TALLY)


@dataclass(slots=True)
class News:
    """What a batch added.

    Attributes:
        added: Good rows by folder and file; 0 for a file that brought only other lines.
        buckets: The first group of each bucket that was never met before.
        fails: Tests that failed.
        apart: Lines that are no rows.
    """

    added: dict[str, dict[str, int]] = field(default_factory=dict)
    buckets: list[Group] = field(default_factory=list)
    fails: list[Group] = field(default_factory=list)
    apart: list[Group] = field(default_factory=list)


def load(folder: Path, roots: Iterable[str]) -> Tally:
    """Returns the tally that a watch left in a folder, or a new one.

    Raises:
        WrongUse: It is of other folders, or cannot be read.
    """
    path = folder / TALLY
    wanted = tuple(roots)
    if not path.exists():
        return Tally(wanted)
    try:
        value = rows.from_json(path.read_bytes())
        tally = _tally(value)
    except (rows.NotJson, KeyError, TypeError, AttributeError) as error:
        raise WrongUse(f"{path} is not a checkpoint of a watch ({error}); use another --checkpoint") from None
    if tally.roots != wanted:
        raise WrongUse(
            f"{folder} belongs to a watch of {', '.join(tally.roots)}; use another --checkpoint for other folders"
        )
    return tally


def _tally(value: Mapping[str, Any]) -> Tally:
    if value["version"] != TALLY_VERSION:
        raise TypeError(f"version {value['version']}")
    runs = {folder: RunTally(**run) for folder, run in value["runs"].items()}
    # Those of earlier versions do not say when they began.
    began = {"began": str(value["began"])} if "began" in value else {}
    return Tally(tuple(value["roots"]), int(value["batch"]), runs, dict(value["buckets"]), **began)


def _forget_old(spans: list[list[int]]) -> None:
    """Leaves those that are not older than a rate goes back, and at least the newest."""
    if spans:
        newest = max(span[1] for span in spans)
        spans[:] = [span for span in spans if newest - span[1] <= RATE_SECONDS * 1e9]
