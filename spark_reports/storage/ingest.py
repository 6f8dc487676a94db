"""Run folders into a store: lines into Parquet, bad ones kept apart, rollups, one record for each run.

Each file is read once here, which hashes it, counts its lines and cuts it into pieces, and once by the workers, which
parse the pieces, write them and make the rollups (``writing``). The counts of both must agree, and every line must be good, kept apart,
blank or a footer, before a run is published. Many runs are taken in together by one Spark job, whether there are two
or two hundred; a long file becomes many pieces, many short runs share a task, so that one run with most of the rows
holds up nobody. Nothing but partial rollups is shuffled, and only those of runs that several tasks read.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_reports import folders as run_folders
from spark_reports import rows
from spark_reports.errors import DataTrouble
from spark_reports.folders import Counted, RunFolder
from spark_reports.storage.parse import variant
from spark_reports.storage.pieces import THREADS, Scan, bundle, scan_all
from spark_reports.storage.rollups import made_of
from spark_reports.storage.store import APART, PARQUET, RAW, Account, Append, Commit, Draft, Staging, Store
from spark_reports.storage.tables import EXTRA, arrow_schema
from spark_reports.storage.wanted import encodable
from spark_reports.storage.writing import DONE, READ, Parts, Target, Work, ddl, take_in, write_rollups

BATCH_BYTES = 16 << 30
"""Runs of so many bytes are taken in together; what is published stays when a later batch fails."""

BATCH_RUNS = 256
"""Same in runs: each holds a claim on its name meanwhile."""

LEAST_PIECE, MOST_PIECE = 4 << 20, 128 << 20
"""Bytes of a piece: not so small that Parquet files become many, not so large that cores wait for the last one."""

PIECES = 16
"""A batch makes about so many tasks unless its pieces would be larger or smaller than that; a task costs 40 ms."""

MERGES = 4
"""So many tasks put the partial rollups of a batch together: there is little to do for each run."""

PUBLISHED_AT_ONCE = 4
"""So many runs wait for the disk at the same time, which then writes its journal once for all of them."""

FILE_WEIGHT = 256 << 10
"""Bytes that opening and writing one more file is worth, when pieces are shared out."""

_OTHER_NAME = re.compile(r"-[0-9a-f]{8}")

Say = Callable[[str], None]
Scans = Mapping[Path, Scan | OSError]


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of some run folders.

    Attributes:
        commits: Runs that were taken in.
        known: Runs that the store had already, with just these files.
        duplicates: Folders that hold the same run as another one of them.
        troubles: Runs that could not be taken in, each with the reason.
        names: What the run in each folder is called in the store.
    """

    commits: tuple[Commit, ...] = ()
    known: tuple[Commit, ...] = ()
    duplicates: tuple[Path, ...] = ()
    troubles: tuple[str, ...] = ()
    names: Mapping[Path, str] = field(default_factory=dict)

    @property
    def account(self) -> Account:
        """Returns what became of the lines of the runs that were taken in."""
        each = [account for commit in self.commits for account in commit.accounts.values()]
        return Account(
            **{
                name.name: sum(getattr(account, name.name) for account in each)
                for name in dataclasses.fields(Account)
            }
        )


@dataclass(slots=True)
class _Run:
    """A run on its way into the store.

    Attributes:
        folder: Where it is.
        run: Its row, under the name of its folder.
        bundle: Hash of its files.
        scans: Its files of rows.
        before: What the store has of it.
    """

    folder: RunFolder
    run: rows.RunRow
    bundle: str
    scans: dict[str, Scan]
    before: Commit | None = None
    staging: Staging | None = None
    accounts: dict[str, Account] = field(default_factory=dict)
    trouble: str = ""

    @property
    def size(self) -> int:
        return sum(scan.size for scan in self.scans.values())

    @property
    def staged(self) -> Staging:
        assert self.staging is not None
        return self.staging


def ingest(
    spark: SparkSession,
    store: Store,
    folders: Sequence[RunFolder],
    say: Say = lambda _: None,
    *,
    keep_raw: bool = False,
    ahead: Scans | None = None,
) -> Ingested:
    """Takes run folders into a store; those that it has already are left alone.

    Args:
        spark: The session.
        store: Where to; made if it is not there.
        folders: As ``find_run_folders`` returns them.
        say: Told how far this is, line by line.
        keep_raw: Keep the files as they are as well, compressed.
        ahead: What ``scan_ahead`` found in these folders.

    Raises:
        WrongUse: The store cannot be written.
        EngineFailed: Spark lacks what the format of the store needs.
    """
    counted = [folder for folder in folders if folder.duplicate_of is None]
    duplicates = tuple(folder.path for folder in folders if folder.duplicate_of is not None)
    found = Ingested(duplicates=duplicates)
    append = None
    if store.exists() and store.format != PARQUET:
        from spark_reports.storage.lake import appender

        append = appender(spark, store.format)
    for number, batch in enumerate(_batches(counted)):
        scans = _scans(batch) if number or ahead is None else ahead
        fresh, known = _look(store, batch, scans)
        names = {path: commit.run_id for path, commit in known} | {
            run.folder.path: run.run.run_id for run in fresh
        }
        found = dataclasses.replace(
            found, known=(*found.known, *(commit for _, commit in known)), names={**found.names, **names}
        )
        if not fresh:
            continue
        with ExitStack() as stack:
            for run in fresh:
                run.staging = stack.enter_context(store.staging(run.run.run_id))
            _take_in_lines(spark, fresh)
            good = [run for run in fresh if not run.trouble]
            states = {run.bundle: _write_run(run) for run in good}
            late = [run for run in good if _is_less(run, states[run.bundle][0])]
            good = [run for run in good if run not in late]
            if keep_raw:
                _keep_raw(good)
            published, meanwhile = _publish(good, states, append)
        for run in late:
            say(
                f"warning: {run.folder.path} was copied before {run.run.run_id} ended; the store has it whole"
            )
        meanwhile += [run.before for run in late if run.before is not None]
        troubles = tuple(f"{run.run.run_id}: {run.trouble}" for run in fresh if run.trouble)
        found = dataclasses.replace(
            found,
            commits=(*found.commits, *published),
            known=(*found.known, *meanwhile),
            troubles=(*found.troubles, *troubles),
        )
        done = len(found.commits) + len(found.known) + len(found.troubles)
        say(f"{done} of {len(counted)} runs: {in_words(found.account)}")
    return found


def in_words(account: Account) -> str:
    """Returns an account as a sum that can be checked."""
    return (
        f"{account.lines} lines in = {account.good} good + {account.apart} set aside + {account.blank} blank "
        f"+ {account.footers} footers"
    )


# What is there ----------------------------------------------------------------------------------------------


def _batches(counted: Iterable[RunFolder]) -> Iterator[list[RunFolder]]:
    """Yields the folders that are taken in together."""
    batch: list[RunFolder] = []
    size = 0
    for folder in counted:
        mine = sum(tail.size for tail in folder.files.values())
        if batch and (size + mine > BATCH_BYTES or len(batch) == BATCH_RUNS):
            yield batch
            batch, size = [], 0
        batch.append(folder)
        size += mine
    if batch:
        yield batch


def scan_ahead(folders: Sequence[RunFolder]) -> Scans:
    """Scans what ``ingest`` takes in first of these folders, for which it needs no Spark."""
    return _scans(next(_batches(folder for folder in folders if folder.duplicate_of is None), []))


def _scans(batch: Sequence[RunFolder]) -> Scans:
    """Scans the files of some folders."""
    size = sum(tail.size for folder in batch for tail in folder.files.values())
    most = min(max(size // PIECES, LEAST_PIECE), MOST_PIECE)
    paths = [folder.path / name for folder in batch for name in (rows.RUN, *sorted(folder.files))]
    # What a reply answers is known only within a piece, so those of observations are few, and the same each time.
    return scan_all({path: MOST_PIECE if path.name == rows.OBSERVATIONS else most for path in paths})


def _look(
    store: Store, batch: Sequence[RunFolder], scans: Scans
) -> tuple[list[_Run], list[tuple[Path, Commit]]]:
    """Returns the runs of some folders that the store lacks, and what it has of the others."""
    # Only the newest attempts: whoever hands over an older one again means that one.
    commits = store.commits() if store.exists() else []
    known = {commit.bundle: commit for commit in commits}
    by_name = {commit.run_id: commit for commit in commits}
    fresh: list[_Run] = []
    same: list[tuple[Path, Commit]] = []
    for folder in batch:
        run = _run_of(folder, scans)
        if run.bundle in known:
            same.append((folder.path, known[run.bundle]))
        else:
            row = _named(run, by_name)
            fresh.append(dataclasses.replace(run, run=row, before=by_name.get(row.run_id)))
    return fresh, same


def _named(run: _Run, by_name: Mapping[str, Commit]) -> rows.RunRow:
    """Returns the row of a run under the name that it has in a store already, or else under one that none there has."""
    folder, row = run.folder, dataclasses.asdict(run.run)

    def is_it(name: str) -> bool:
        readable = not folder.problem and by_name[name].state != run_folders.UNREADABLE
        return run_folders.is_same(row, by_name[name].run, readable=readable)

    own = encodable(folder.path.name)
    # Which node it met may not have been known when it was taken in, so that it has another name than it would have now.
    known = [name for name in by_name if name == own or _OTHER_NAME.fullmatch(name.removeprefix(own))]
    same = next(filter(is_it, sorted(known)), "")
    free = run.run.run_id if run.run.run_id not in by_name else encodable(folder.other_name)
    return dataclasses.replace(run.run, run_id=same or free)


def _run_of(folder: RunFolder, scans: Scans) -> _Run:
    digests: dict[str, str] = {}
    mine: dict[str, Scan] = {}
    locked = dict(folder.locked)
    for name in (rows.RUN, *folder.files):
        scan = scans[folder.path / name]
        if isinstance(scan, Scan):
            digests[name] = scan.digest
            if name != rows.RUN:
                mine[name] = scan
        elif name != rows.RUN:
            locked[name] = scan.strerror or str(scan)
    files = {name: tail for name, tail in folder.files.items() if name in mine}
    # Whatever stands in names and options must fit into a column of text.
    texts: Any = {
        name: encodable(value)
        for name, value in dataclasses.asdict(folder.run).items()
        if isinstance(value, str)
    }
    run = dataclasses.replace(folder.run, **texts)
    return _Run(dataclasses.replace(folder, files=files, locked=locked), run, bundle(digests), mine)


# Lines ------------------------------------------------------------------------------------------------------


def _take_in_lines(spark: SparkSession, runs: Sequence[_Run]) -> None:
    """Writes the rows and rollups of all runs in one job, and checks what became of their lines."""
    files = [(number, run, name) for number, run in enumerate(runs) for name in sorted(run.scans)]
    works: list[Work] = []
    folders: list[dict[str, str]] = [{} for _ in runs]
    filesystem: Any = None
    for file, (number, run, name) in enumerate(files):
        if not run.scans[name].pieces:
            continue
        table = rows.type_of_file[name].TABLE
        filesystem, rows_folder = run.staged.arrow(table)
        _, apart_folder = run.staged.arrow(APART)
        folders[number] |= {rollup: run.staged.arrow(rollup)[1] for rollup in made_of(table)}
        works += [
            Work(
                run=number,
                number=file,
                path=str(run.folder.path / name),
                piece=piece,
                part=part,
                name=name,
                table=table,
                run_id=run.run.run_id,
                attempt=run.staged.attempt,
                rows_folder=rows_folder,
                apart_folder=apart_folder,
            )
            for part, piece in enumerate(run.scans[name].pieces)
        ]
    counts = [Account() for _ in files]
    targets = [
        Target(run.run.run_id, run.staged.attempt, mine) for run, mine in zip(runs, folders, strict=True)
    ]
    for done in _in_tasks(spark, _shared_out(works), targets, filesystem):
        _, run, _ = files[done["number"]]
        counts[done["number"]] = _sum(counts[done["number"]], done)
        run.trouble = run.trouble or done["trouble"]
    for (_, run, name), account in zip(files, counts, strict=True):
        run.accounts[name] = account
        scanned = run.scans[name].lines
        if not run.trouble and not (account.balanced and account.lines == scanned):
            run.trouble = (
                f"{name} had {scanned} lines when scanned and {account.lines} when read; "
                "is something rewriting it instead of appending? Ingest it again"
            )


def _shared_out(works: Sequence[Work]) -> list[list[Work]]:
    """Returns what each task does: pieces that stand together, until they are worth a task.

    A run that is worth less than that is not divided.
    """
    most = min(max(sum(map(_weight, works)) // PIECES, LEAST_PIECE), MOST_PIECE)
    tasks: list[list[Work]] = []
    room = 0
    for _, group in itertools.groupby(works, key=lambda work: work.run):
        of_run = list(group)
        weight = sum(map(_weight, of_run))
        for together in [of_run] if weight <= most else [[work] for work in of_run]:
            weight = sum(map(_weight, together))
            if not tasks or weight > room:
                tasks.append([])
                room = most
            tasks[-1] += together
            room -= weight
    return tasks


def _weight(work: Work) -> int:
    return work.piece.end - work.piece.start + FILE_WEIGHT


def _in_tasks(
    spark: SparkSession, tasks: Sequence[Sequence[Work]], targets: Sequence[Target], filesystem: Any
) -> Iterable[Any]:
    if not tasks:
        return []
    tasks_of = Counter(run for task in tasks for run in {work.run for work in task})
    whole = {run for run, count in tasks_of.items() if count == 1}
    # One number in each partition: the work travels with the function, and what is shuffled are partial rollups.
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    read = numbers.mapInArrow(take_in(tasks, targets, whole, filesystem), ddl(READ))
    if len(whole) == len(tasks_of):
        return read.select(*DONE.names).collect()
    by_run = read.repartition(min(len(targets), MERGES), "run").groupBy("run")
    return by_run.applyInArrow(write_rollups(targets, filesystem), ddl(DONE)).collect()


def _sum(account: Account, done: Any) -> Account:
    names = [name.name for name in dataclasses.fields(Account)]
    return Account(**{name: getattr(account, name) + done[name] for name in names})


# Runs and rollups -------------------------------------------------------------------------------------------


def _write_run(run: _Run) -> tuple[str, list[str]]:
    """Judges a run and writes its row."""
    counted = {name: Counted(account.good, account.apart) for name, account in run.accounts.items()}
    state, notes = run_folders.judge(run.folder, counted)
    notes = [encodable(note) for note in notes]
    filesystem, folder = run.staged.arrow(rows.RunRow.TABLE)
    parts = Parts(filesystem, folder, "0")
    row = {**dataclasses.asdict(run.run), "state": state, "notes": notes, "attempt": run.staged.attempt}
    extra = run.folder.extra
    if extra:
        row[EXTRA] = variant(dict(extra))
    parts.write(pa.Table.from_pylist([row], schema=arrow_schema(rows.RunRow.TABLE, extra=bool(extra))))
    parts.close()
    return state, notes


def _publish(
    runs: Sequence[_Run], states: Mapping[str, tuple[str, list[str]]], append: Append | None
) -> tuple[list[Commit], list[Commit]]:
    """Puts the records of runs into the store, some at a time; notes why one could not be.

    Returns:
        The records of these runs, and those of runs that another process has taken in meanwhile.
    """

    def one(run: _Run) -> Commit | None:
        state, notes = states[run.bundle]
        draft = Draft(
            run=dataclasses.asdict(run.run),
            bundle=run.bundle,
            accounts=run.accounts,
            state=state,
            notes=tuple(notes),
            folder=str(run.folder.path),
        )
        try:
            return run.staged.publish(draft, append)
        except DataTrouble as error:
            run.trouble = str(error)
            return None

    # Runs with the same files count once, so that these must see each other. And Spark appends one after the other.
    first = {id(run) for run in {run.bundle: run for run in reversed(runs)}.values()}
    beside = [run for run in runs if id(run) in first and append is None]
    behind = [run for run in runs if id(run) not in first or append is not None]
    with ThreadPoolExecutor(PUBLISHED_AT_ONCE, thread_name_prefix="publish") as pool:
        commits = list(zip(beside, pool.map(one, beside), strict=True))
    commits += [(run, one(run)) for run in behind]
    ours: list[Commit] = []
    others: list[Commit] = []
    for run, commit in commits:
        if commit is not None:
            (ours if commit.attempt == run.staged.attempt else others).append(commit)
    return ours, others


def _is_less(run: _Run, state: str) -> bool:
    """Whether the store has the whole run of which this is a part: a copy that was made before it ended."""
    if run.before is None or run.before.state != run_folders.COMPLETE:
        return False
    there = run.before.accounts
    return state in {run_folders.RUNNING, run_folders.CUT_OFF} and all(
        account.lines <= there.get(name, Account()).lines for name, account in run.accounts.items()
    )


def _keep_raw(runs: Sequence[_Run]) -> None:
    """Writes the files of some runs into the store, compressed; what was added since they were scanned is left out."""

    def copy(run: _Run, name: str) -> None:
        filesystem, folder = run.staged.arrow(RAW)
        path = run.folder.path / name
        left = run.scans[name].size if name in run.scans else path.stat().st_size
        with (
            path.open("rb") as source,
            filesystem.open_output_stream(f"{folder}/{name}.zst", compression=None) as plain,
            pa.CompressedOutputStream(plain, "zstd") as target,
        ):
            while left and (block := source.read(min(left, LEAST_PIECE))):
                target.write(block)
                left -= len(block)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="raw") as pool:
        pairs = [
            (run, name)
            for run in runs
            for name in (rows.RUN, *sorted(run.scans))
            if (run.folder.path / name).is_file()
        ]
        list(pool.map(lambda pair: copy(*pair), pairs))
