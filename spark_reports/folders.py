"""Finds run folders and judges, without Spark, how each of them ends.

Only the last line of each file is read here, so a folder of gigabytes costs as little as a small one.
What stands in between is counted by Spark, and ``judge`` puts both together.
"""

import dataclasses
import os
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spark_reports import rows
from spark_reports.errors import WrongUse

COMPLETE = "complete"
FAILED = "failed"
RUNNING = "running"
CUT_OFF = "cut off"
UNREADABLE = "unreadable"
DUPLICATE = "duplicate"

STATES: Mapping[str, str] = {
    COMPLETE: "every file ends with a footer that counts its rows",
    FAILED: "ended in order, but says itself that the node or the harness failed",
    RUNNING: "had no end when the report was made: it was going on, or was killed",
    CUT_OFF: "lacks something that it had recorded; what is there is used",
    UNREADABLE: "its run.json cannot be read; its rows are used, the node is unknown",
    DUPLICATE: "another folder holds the same run; this one is not counted",
}
"""The states of a run folder and what each means."""

_FILES_OF_KIND: Mapping[str, str] = {"conformance": rows.VERDICTS, "fuzz": rows.FUZZ_CASES}
_UNKNOWN = "unknown"
_BLOCK = 1 << 16
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class Tail:
    """How a file of rows ends.

    Attributes:
        size: Bytes.
        end: ``footer``, ``row`` (any other whole line), ``cut`` (the middle of a line) or ``empty``.
        footer_rows: How many rows the footer counts; -1 without a footer.
    """

    size: int
    end: str
    footer_rows: int = -1


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder that holds a run, or what is left of one.

    Attributes:
        path: Where it is.
        run: What its run.json says, under the name of the folder; unknown values if it cannot be read.
        problem: Why run.json cannot be read; empty otherwise.
        files: How each of its files of rows ends, by file name.
        locked: Files of rows that cannot be opened, with the reason.
        duplicate_of: The folder that holds the same run and is counted; None for the one that is.
        extra: What else its run.json says.
    """

    path: Path
    run: rows.RunRow
    problem: str = ""
    files: Mapping[str, Tail] = field(default_factory=dict)
    locked: Mapping[str, str] = field(default_factory=dict)
    duplicate_of: Path | None = None
    extra: Mapping[str, typing.Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counted:
    """What Spark counted in one file: rows, and lines that are none."""

    rows: int
    bad: int


def find_run_folders(roots: Iterable[Path]) -> list[RunFolder]:
    """Returns the run folders at and below the given folders, in order of their names.

    A run is known by the name of its folder and by the ``run_id`` in it. Of several folders with the
    same run the first one counts; the others are marked as duplicates, never added up.

    Raises:
        WrongUse: One of the folders does not exist or cannot be read.
    """
    found = {path.resolve(): None for root in roots for path in _walk(root)}
    result: list[RunFolder] = []
    first: dict[str, Path] = {}
    for path in sorted(found, key=lambda path: (path.name, path)):
        folder, run_id = _read_folder(path)
        same = first.get(path.name) or first.get(run_id)
        if same is None:
            first[path.name] = first[run_id] = path
        else:
            folder = dataclasses.replace(folder, duplicate_of=same)
        result.append(folder)
    return result


def judge(folder: RunFolder, counted: Mapping[str, Counted]) -> tuple[str, list[str]]:
    """Returns the state of a run, one of ``STATES``, and what is wrong with it, one sentence each.

    Args:
        folder: The run.
        counted: What was counted in each of its files; a file that is not there counts as empty.
    """
    if folder.duplicate_of is not None:
        return DUPLICATE, [f"holds the same run as {folder.duplicate_of}; remove or rename one of the two"]
    notes = [folder.problem] if folder.problem else []
    notes += [f"{name} cannot be opened ({why})" for name, why in sorted(folder.locked.items())]
    torn = [name for name, tail in sorted(folder.files.items()) if tail.end == "cut"]
    notes += [f"{name} ends in the middle of a line" for name in torn]
    short = list(_shortcomings(folder, counted))
    if folder.problem:
        return UNREADABLE, notes + short
    if folder.run.status == RUNNING and not torn and not folder.locked:
        return RUNNING, notes
    if notes or short:
        return CUT_OFF, notes + short
    return (FAILED if folder.run.status == FAILED else COMPLETE), notes


def _shortcomings(folder: RunFolder, counted: Mapping[str, Counted]) -> Iterator[str]:
    for kind in folder.run.kind.split("+"):
        name = _FILES_OF_KIND.get(kind, "")
        if name and name not in folder.files and name not in folder.locked:
            yield f"{name} is missing although the run says it did {kind}"
    for name, tail in sorted(folder.files.items()):
        count = counted.get(name, Counted(0, 0))
        lines = count.rows + count.bad
        if tail.end in {"row", "empty"}:
            yield f"{name} has no footer, so rows may be missing at its end"
        elif tail.end == "footer" and tail.footer_rows != lines:
            yield f"{name} holds {lines} rows, its footer counts {tail.footer_rows}"


def _walk(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise WrongUse(f"{root} {what}; name the folder that the runs are in, for example runs/")

    def refuse(error: OSError) -> None:
        raise WrongUse(f"{error.filename} cannot be read ({error.strerror})") from error

    marks = {rows.RUN, *rows.type_of_file}
    for place, below, files in os.walk(root, onerror=refuse):
        if marks & set(files):
            below.clear()
            yield Path(place)


def _read_folder(path: Path) -> tuple[RunFolder, str]:
    """Returns the run in a folder and the id it gives itself."""
    problem = ""
    extra: dict[str, typing.Any] = {}
    try:
        run, extra = rows.read_run_and_more(path)
        problem = _misfit(run)
    except rows.RowsError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{path.name}/{rows.RUN} cannot be opened ({error.strerror})"
    if problem:
        run = _stand_in(path.name)
    files: dict[str, Tail] = {}
    locked: dict[str, str] = {}
    for name in rows.type_of_file:
        if not (path / name).exists():
            continue
        try:
            files[name] = _tail(path / name)
        except OSError as error:
            locked[name] = error.strerror or str(error)
    named = dataclasses.replace(run, run_id=path.name)
    return RunFolder(path, named, problem, files, locked, extra=extra), run.run_id


def _misfit(run: rows.RunRow) -> str:
    """Returns why the values of a run row do not fit its type; empty if they do."""
    for name, hint in typing.get_type_hints(rows.RunRow).items():
        if typing.get_origin(hint) is typing.ClassVar:
            continue
        value = getattr(run, name)
        if isinstance(value, bool) or not isinstance(value, hint):
            return f"{rows.RUN}: {name} is of the wrong type"
        if isinstance(value, int) and value not in _INT64:
            return f"{rows.RUN}: {name} does not fit into 64 bits"
    return ""


def _stand_in(run_id: str) -> rows.RunRow:
    """Returns the row of a run of which nothing is known. It sorts as the oldest."""
    return rows.RunRow(
        run_id=run_id,
        started_at="",
        ended_at=None,
        kind="",
        node=_UNKNOWN,
        node_impl=_UNKNOWN,
        node_version=_UNKNOWN,
        node_whatami="",
        node_zid="",
        harness_version=_UNKNOWN,
        python=_UNKNOWN,
        platform=_UNKNOWN,
        seed=0,
        command="",
        status="",
    )


def _tail(path: Path) -> Tail:
    """Reads the last line of a file that is not blank."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start, last = size, b""
        # Ever larger pieces of the end, until one holds the beginning of the last line.
        while start > 0 and b"\n" not in last.rstrip() and len(last) <= rows.LONGEST_LINE:
            start = max(0, size - max(_BLOCK, 2 * len(last)))
            file.seek(start)
            last = file.read(size - start)
    ends_line = last.endswith(b"\n")
    if len(last) > rows.LONGEST_LINE and b"\n" not in last.rstrip():
        # No row is that long; nobody needs to know how it begins.
        return Tail(size, "row" if ends_line else "cut")
    text = last.rstrip().rpartition(b"\n")[2].decode("utf-8", "replace").strip()
    if not text:
        return Tail(size, "empty")
    try:
        value = rows.from_json(text)
    except rows.NotJson:
        return Tail(size, "row" if ends_line else "cut")
    if isinstance(value, dict) and value.get("footer") is True:
        count = value.get("rows")
        return Tail(size, "footer", count if isinstance(count, int) else -1)
    return Tail(size, "row")
