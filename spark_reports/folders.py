"""Finds run folders and judges, without Spark, how each of them ends.

Only the last line of each file is read here, so a folder of gigabytes costs as little as a small one.
What stands in between is counted by Spark, and ``judge`` puts both together.
"""

import contextlib
import dataclasses
import datetime as dt
import hashlib
import os
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    FAILED: "ended normally, but reports that the node or the harness failed",
    RUNNING: "had not ended when the report was made: still running, or killed",
    CUT_OFF: "part of what was recorded is missing; the rest is used",
    UNREADABLE: "its run.json cannot be read; its rows are used, the node is unknown",
    DUPLICATE: "another folder holds the same run; this one is not counted",
}
"""The states of a run folder and what each means."""

_FILES_OF_KIND: Mapping[str, str] = {"conformance": rows.VERDICTS, "fuzz": rows.FUZZ_CASES}
_UNKNOWN = "unknown"
_BLOCK = 1 << 16
_NAMED_AFTER_A_TIME = re.compile(r"(\d{8}T\d{6})Z")
_STARTED_AT = re.compile(rb'"started_at"\s*:\s*"([^"\\]{1,40})"')
_LONGEST_TIME = 40
_CLOSE = dt.timedelta(hours=1)
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class Tail:
    """How a file of rows ends.

    Attributes:
        size: Bytes.
        end: ``footer``, ``row`` (any other whole line), ``cut`` (the middle of a line) or ``empty``.
        footer_rows: How many rows the footer counts; -1 without a footer, or if it does not say.
    """

    size: int
    end: str
    footer_rows: int = -1


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder that holds a run, or what is left of one.

    Attributes:
        path: Where it is.
        run: What its run.json says, under the name of the folder; unknown values if it cannot be read, except for
            ``started_at``, which then is the best that the folder tells, or empty.
        problem: Why run.json cannot be read; empty otherwise.
        files: How each of its files of rows ends, by file name.
        locked: Files of rows that cannot be opened, with the reason.
        duplicate_of: The folder that holds the same run and is counted; None for the one that is.
        extra: What else its run.json says.
        own_id: The ``run_id`` that its run.json gives; empty if it cannot be read.
    """

    path: Path
    run: rows.RunRow
    problem: str = ""
    files: Mapping[str, Tail] = field(default_factory=dict)
    locked: Mapping[str, str] = field(default_factory=dict)
    duplicate_of: Path | None = None
    extra: Mapping[str, typing.Any] = field(default_factory=dict)
    own_id: str = ""

    def named(self, run_id: str) -> "RunFolder":
        """Returns the same folder with its run under another name."""
        return dataclasses.replace(self, run=dataclasses.replace(self.run, run_id=run_id))

    @property
    def size(self) -> int:
        """Bytes of its files of rows."""
        return sum(tail.size for tail in self.files.values())

    @property
    def other_name(self) -> str:
        """What its run is called where another run has the name of the folder: that, and 8 hexadecimal digits."""
        run = self.run
        told = (self.own_id, run.started_at, run.node, run.node_impl, run.node_version)
        mark = hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.path.name}-{mark[:8]}"


@dataclass(frozen=True, slots=True)
class Counted:
    """What Spark counted in one file: rows, and lines that are none."""

    rows: int
    bad: int


def find_run_folders(roots: Iterable[Path]) -> list[RunFolder]:
    """Returns the run folders at and below the given folders, in order of their names. Links are followed.

    A run has the name of its folder. Of several folders with the same run (``is_same``) the one counts that holds most,
    of such the first one; the others are marked as duplicates, never added up. Where two runs are in folders of one
    name, the one that began first has it, the other ``RunFolder.other_name``.

    Raises:
        WrongUse: One of the folders does not exist or cannot be read.
    """
    found = {path.resolve(): None for root in roots for path in _walk(root)}
    read = [_read_folder(path) for path in found]
    result: list[RunFolder] = []
    counted: list[RunFolder] = []
    alike: dict[tuple[str, str], list[RunFolder]] = {}
    # What can be read goes first, then what holds most: a damaged one, or one that was made in between, is the copy.
    for folder in sorted(
        read, key=lambda one: (bool(one.problem), -one.size, one.path.name, one.run.started_at, one.path)
    ):
        places = [("name", folder.path.name), *([("id", folder.own_id)] if folder.own_id else [])]
        others = [one for place in places for one in alike.get(place, ())]
        same = next((one for one in others if _is_copy(folder, one)), None)
        if same is not None:
            result.append(dataclasses.replace(folder, duplicate_of=same.path))
            continue
        for place in places:
            alike.setdefault(place, []).append(folder)
        counted.append(folder)
    taken = set[str]()
    for folder in sorted(
        counted, key=lambda one: (one.path.name, bool(one.problem), one.run.started_at, one.path)
    ):
        named = folder.named(folder.other_name) if folder.path.name in taken else folder
        taken.add(named.run.run_id)
        result.append(named)
    return sorted(result, key=lambda folder: (folder.path.name, folder.path))


def is_same(run: Mapping[str, typing.Any], other: Mapping[str, typing.Any], *, readable: bool) -> bool:
    """Whether two rows are of one run: it was begun at the same time on the same node.

    What a run learns on its way, which node it met, may be missing in one of them; the seed and the command change
    when a second tool goes on with the run.

    Args:
        run: Fields of ``rows.RunRow``, as is ``other``; some may be missing.
        other: See there.
        readable: Both have what a run.json says. Otherwise only about the time is known: within an hour, or unknown,
            is the same.
    """
    if not readable:
        times = [one.get("started_at", "") for one in (run, other)]
        if not all(map(is_time, times)):
            return True
        first, second = map(dt.datetime.fromisoformat, times)
        return abs(first - second) < _CLOSE
    if any(_plain(name, run) != _plain(name, other) for name in ("started_at", "node") if name in other):
        return False
    pairs = [(run.get(name), other.get(name)) for name in ("node_impl", "node_version")]
    return all(one == two or not {one, two}.isdisjoint({None, "", _UNKNOWN}) for one, two in pairs)


def is_in(path: str, run: Mapping[str, typing.Any]) -> bool:
    """Whether a run is in a folder, which may be gone, or hold another one by now."""
    try:
        return is_same(dataclasses.asdict(rows.read_run(Path(path))), run, readable=True)
    except (ValueError, OSError):
        # No run row, or a name that no system has.
        return False


def _plain(name: str, run: Mapping[str, typing.Any]) -> typing.Any:
    """Returns a field of a run; a time as rows spell it, which a record of an earlier version may do otherwise."""
    value = run.get(name)
    return (rows.as_utc(value) or value) if name == "started_at" and isinstance(value, str) else value


def _is_copy(folder: RunFolder, other: RunFolder) -> bool:
    readable = not folder.problem and not other.problem
    if readable and folder.own_id != other.own_id:
        return False
    return is_same(dataclasses.asdict(folder.run), dataclasses.asdict(other.run), readable=readable)


def judge(folder: RunFolder, counted: Mapping[str, Counted]) -> tuple[str, list[str]]:
    """Returns the state of a run, one of ``STATES``, and what is wrong with it, one sentence each.

    Args:
        folder: The run.
        counted: What was counted in each of its files; a file that is not there counts as empty.
    """
    if folder.duplicate_of is not None:
        return DUPLICATE, [f"holds the same run as {folder.duplicate_of}; remove one of the two"]
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
            yield f"{name} is missing although the run includes {kind}"
    for name, tail in sorted(folder.files.items()):
        count = counted.get(name, Counted(0, 0))
        lines = count.rows + count.bad
        if tail.end in {"row", "empty"}:
            yield f"{name} has no footer, so rows may be missing at its end"
        elif tail.end == "footer" and tail.footer_rows != lines:
            told = f"counts {tail.footer_rows}" if tail.footer_rows >= 0 else "has no number of rows"
            yield f"{name} holds {lines} rows, but its footer {told}"


def _walk(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise WrongUse(f"{root} {what}; give the folder with the runs, for example runs/")

    def refuse(error: OSError) -> None:
        raise WrongUse(f"{error.filename} cannot be read ({error.strerror})") from error

    return (place for place, _ in walk(root, refuse))


def walk(
    root: str | Path, onerror: Callable[[OSError], None] = lambda _: None
) -> Iterator[tuple[Path, list[str]]]:
    """Yields the run folders at and below a folder, each with the names of its files. Links are followed, once.

    Args:
        root: Where to begin.
        onerror: Told of each folder that cannot be read; what is not refused is passed over.
    """
    marks = {rows.RUN, *rows.type_of_file}
    seen = set[tuple[int, int]]()
    for place, below, files in os.walk(root, onerror=onerror, followlinks=True):
        try:
            there = Path(place).stat()
        except OSError as error:
            onerror(error)
            below.clear()
            continue
        if (there.st_dev, there.st_ino) in seen:
            # A link that leads back, or to what was found already.
            below.clear()
            continue
        seen.add((there.st_dev, there.st_ino))
        if marks & set(files):
            below.clear()
            yield Path(place), files


def _read_folder(path: Path) -> RunFolder:
    """Returns the run in a folder, under the name of the folder."""
    problem = own_id = ""
    extra: dict[str, typing.Any] = {}
    try:
        run, extra = rows.read_run_and_more(path)
        problem = _misfit(run)
        own_id = "" if problem else run.run_id
    except rows.RowsError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{path.name}/{rows.RUN} cannot be opened ({error.strerror})"
    if problem:
        run = _stand_in(path.name, _began(path))
    files: dict[str, Tail] = {}
    locked: dict[str, str] = {}
    for name in rows.type_of_file:
        # A link that leads nowhere is no missing file.
        if not os.path.lexists(path / name):
            continue
        try:
            files[name] = _tail(path / name)
        except OSError as error:
            locked[name] = error.strerror or str(error)
    named = dataclasses.replace(run, run_id=path.name)
    return RunFolder(path, named, problem, files, locked, extra=extra, own_id=own_id)


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
    if not is_time(run.started_at):
        said = run.started_at[:_LONGEST_TIME]
        return f"{rows.RUN}: started_at is not a time ({said!r}); write it as 2026-12-31T23:59:59.000Z"
    return ""


def is_time(text: str) -> bool:
    """Whether a text is a time that stands for one moment."""
    return rows.as_utc(text) != ""


def _began(path: Path) -> str:
    """Returns when a run began whose run.json cannot be read; empty if nothing tells.

    That is the name of the folder if it is one that our writers give, or else what is left of run.json, or else the
    first row.
    """
    if named := _NAMED_AFTER_A_TIME.match(path.name):
        with contextlib.suppress(ValueError):
            return _as_time(dt.datetime.strptime(named[1] + "+0000", "%Y%m%dT%H%M%S%z"))
    said = _STARTED_AT.search(_head(path / rows.RUN))
    if said and (time := rows.as_utc(said[1].decode("ascii", "replace"))):
        return time
    times = []
    for name, kind in rows.type_of_file.items():
        fields = [one.name for one in dataclasses.fields(kind) if one.name in {"started_ns", "time_ns"}]
        first, end, _ = _head(path / name).partition(b"\n")
        if not fields or not end:
            continue
        with contextlib.suppress(rows.NotJson):
            row = rows.from_json(first)
            value = row.get(fields[0]) if isinstance(row, dict) else None
            if isinstance(value, int) and 10**18 < value < 1 << 62:
                times.append(_as_time(dt.datetime.fromtimestamp(value // 10**9, dt.UTC)))
    return min(times, default="")


def _as_time(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _head(path: Path) -> bytes:
    """Returns the first bytes of a file; nothing of one that cannot be read, which is told elsewhere."""
    try:
        rows.check_regular(path)
        with path.open("rb") as file:
            return file.read(_BLOCK)
    except OSError:
        return b""


def _stand_in(run_id: str, started_at: str) -> rows.RunRow:
    """Returns the row of a run of which nothing else is known. Without a time it sorts as the oldest."""
    return rows.RunRow(
        run_id=run_id,
        started_at=started_at,
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
    rows.check_regular(path)
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
