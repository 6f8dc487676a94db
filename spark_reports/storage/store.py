"""What runs left, kept for good: unchanging files for each run and attempt, and a record that says so.

::

    <store>/
      _store.json                                      version and format
      _commits/<run>.<attempt>[.<revision>].json       the only truth of what exists
      _generations/<table>.<number>.json               which files were merged
      _checkpoints/<number>.json                       so many of the records in one file, to open fewer
      _staging/                                        what is being written, and by whom
      tables/<table>/<run>/<attempt>/part-*.parquet
      rollups/<table>/<run>/<attempt>/part-*.parquet
      apart/<run>/<attempt>/part-*.parquet             lines that are no rows
      raw/<run>/<attempt>/...                          files as they were, optional
      compact/<table>/gen-<number>/part-*.parquet

Files are written where nobody looks, moved to their place, and exist from the moment their record is there. The
record is put there whole, and only if there is none of its name. Readers go by records alone and never by what
lies in a folder. So writers need not know of each other, and one that is killed leaves nothing that a reader sees:
docs/decisions/0007. No Spark here.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_reports.errors import DataTrouble, WrongUse
from spark_reports.rows import NotJson, from_json
from spark_reports.storage.claims import Claim, claim, claimed, take_leftovers
from spark_reports.storage.commits import (
    STORE_VERSION,
    Account,
    Commit,
    Draft,
    FileEntry,
    Generation,
    NewerStore,
    Source,
    check_version,
    json_record,
    safe_name,
    utc_now,
)
from spark_reports.storage.places import UNFINISHED, Found, LocalPlace, Place, place_of, read_all
from spark_reports.storage.staging import RAW, Stage

__all__ = [
    "APART",
    "BASE_TABLES",
    "PARQUET",
    "RAW",
    "ROLLUP_TABLES",
    "Account",
    "Append",
    "Commit",
    "Draft",
    "FileEntry",
    "Generation",
    "Merging",
    "NewerStore",
    "Source",
    "Staging",
    "Store",
    "TableFiles",
    "bundle_of",
]

BASE_TABLES = ("runs", "verdicts", "observations", "cases", "findings", "coverage", "benchmarks")
"""What runs recorded."""

ROLLUP_TABLES = (
    "requirements",
    "checks",
    "case_outcomes",
    "case_times",
    "buckets",
    "traffic",
    "reply_times",
)
"""What reports read instead; the columns of all tables: ``tables.SCHEMAS``."""

APART = "apart"
_EVERY = (*BASE_TABLES, *ROLLUP_TABLES, APART, RAW)

PARQUET = "parquet"

STEPS = ("claimed", "written", "synced", "moved one", "moved", "record written", "committed")
"""Where a writer may be when it is killed, in order; tests stop it at each."""

_MARK = "_store.json"
_COMMITS = "_commits"
_GENERATIONS = "_generations"
_STAGING = "_staging"
_CHECKPOINTS = "_checkpoints"
# So many records are read one by one rather than by way of a checkpoint.
_ONE_BY_ONE = 16
# Put before rows go into a table that takes them at once, so that no other attempt has the same number.
_BEGUN = re.compile(r"([^.]+)\.(\d+)\.begun")
_RECORD = re.compile(r"([^.]+)\.(\d+)(?:\.(\d+))?(?:\.(h[0-9a-f]+))?\.json")
# No run is called so: see safe_name.
_MERGE = "_merge."
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Where the rows of a table are.

    Attributes:
        merged: Those files of the newest generation that hold rows that count.
        held: The runs, with attempt, that the generation holds.
        live: Those of them that count.
        mixed: The merged files hold rows of other runs too, which are to be left out.
        loose: Files of the runs that no generation holds, whole.
    """

    merged: tuple[FileEntry, ...]
    held: frozenset[tuple[str, int]]
    live: frozenset[tuple[str, int]]
    mixed: bool
    loose: tuple[FileEntry, ...]

    @property
    def rows(self) -> int:
        """Rows in all files, those to be left out included."""
        return sum(entry.rows for entry in (*self.merged, *self.loose))


class Store:
    """A folder that holds runs, local or on anything that pyarrow reaches.

    Args:
        uri: A path, or a URI: ``file:``, ``s3:``, ``gs:``, ``abfss:``, ``hdfs:``.
        durable: Wait until what was written is on the disk; False for a store that goes away with its process.
        step: Is told each of STEPS when a writer gets there.
    """

    def __init__(
        self, uri: str | Path, *, durable: bool = True, step: Callable[[str], None] | None = None
    ) -> None:
        self.uri = str(uri)
        self.place: Place = place_of(uri, durable=durable)
        # What messages call it: a URI may hold a password.
        self.name = self.place.address("").rstrip("/")
        self._step = step or (lambda _: None)
        # Records never change, so each is read once.
        self._read: dict[str, Commit] = {}
        self._merged: dict[str, Generation] = {}

    def exists(self) -> bool:
        """Whether there is a store.

        Raises:
            NewerStore: There is one that this version does not understand.
        """
        return self._mark() is not None

    def create(self, table_format: str = PARQUET) -> None:
        """Makes the store if there is none.

        Raises:
            WrongUse: There is one of another format, or the folder holds something else.
            NewerStore: There is one that this version does not understand.
        """
        mark = self._mark()
        if mark is None:
            content = {"store_version": STORE_VERSION, "format": table_format}
            try:
                others = [name for name in self.place.names("") if not name.startswith("_")]
                # Whoever made the store meanwhile has put the mark there before anything else.
                if others and self._mark() is None:
                    raise WrongUse(
                        f"{self.name} contains other files and is not a store; choose an empty folder"
                    )
                self.place.put(_MARK, json.dumps(content).encode())
            except OSError as error:
                raise WrongUse(f"cannot write to {self.name} ({error.strerror or error})") from error
            mark = self._mark() or content
        if mark["format"] != table_format:
            raise WrongUse(f"{self.name} is a store of format {mark['format']}, not {table_format}")

    @property
    def format(self) -> str:
        """What its tables are: ``parquet``, or a table format that Spark has by a plug-in."""
        return str((self._mark() or {"format": PARQUET})["format"])

    def require_parquet(self) -> None:
        """Refuses to touch files that belong to another table format.

        Raises:
            WrongUse: The store has one.
        """
        if self.format != PARQUET:
            raise WrongUse(
                f"{self.name} is a store of format {self.format}, which has its own tools for that"
            )

    def commits(self) -> list[Commit]:
        """Returns the newest attempt of each run, ordered by when the run started.

        Raises:
            WrongUse: There is no store.
            NewerStore: A newer version wrote to it.
            DataTrouble: A record is damaged.
        """
        if not self.exists():
            raise WrongUse(
                f"{self.name} is not a store; `zenoh-reports ingest RUNS --store {self.name}` creates one"
            )
        newest: dict[str, tuple[tuple[int, int, str], str]] = {}
        for run, order, name in self._records():
            newest[run] = max(newest.get(run, ((0, 0, ""), "")), (order, name))
        found = self._load(name for _, name in newest.values())
        return sorted(found, key=lambda commit: (commit.started_at, commit.run_id))

    def history(self) -> list[Commit]:
        """Returns every record of every run, in order of run, attempt and revision."""
        return self._load(name for *_, name in sorted(self._records()))

    def find(self, bundle: str) -> Commit | None:
        """Returns the run that has exactly these raw files, if one has; of each run the newest attempt counts."""
        commits = self.commits() if self.exists() else []
        return next((commit for commit in commits if commit.bundle == bundle), None)

    def has(self, bundle: str) -> bool:
        """Whether a run has exactly these raw files, as ``find`` says."""
        return self.find(bundle) is not None

    def snapshot(self) -> tuple[list[Commit], dict[str, Generation]]:
        """Returns ``commits`` and ``generations`` as they fit together; raises as ``commits`` does.

        Read the other way round, a run of the one may be missing in the other: taken in anew and merged anew in
        between, while its own files are long gone.
        """
        generations = self.generations()
        return self.commits(), generations

    def generations(self) -> dict[str, Generation]:
        """Returns the newest generation of each table that has one."""
        return {one.table: one for one in self._generations(newest=True)}

    def all_generations(self) -> list[Generation]:
        """Returns every generation, in order of table and number."""
        return self._generations(newest=False)

    def _generations(self, *, newest: bool) -> list[Generation]:
        while True:
            found = sorted(
                (parts[1], int(parts[2]), parts[4] or "", name)
                for name in self.place.names(_GENERATIONS)
                if (parts := _RECORD.fullmatch(name))
            )
            names = [name for *_, name in found]
            if newest:
                names = list({table: name for table, *_, name in found}.values())
            missing = [name for name in names if name not in self._merged]
            try:
                texts = read_all(self.place, (f"{_GENERATIONS}/{name}" for name in missing))
            except FileNotFoundError:
                # One that was replaced long ago has just been swept up. What is listed now is there.
                continue
            for name, text in zip(missing, texts, strict=True):
                self._merged[name] = Generation.read(f"{self.name}/{_GENERATIONS}/{name}", text)
            return [self._merged[name] for name in names]

    def files(self, table: str, commits: Iterable[Commit], generation: Generation | None) -> TableFiles:
        """Returns where the rows of a table are.

        Args:
            table: Its name.
            commits: The runs that are wanted.
            generation: The newest of the table.
        """
        sources = generation.sources if generation is not None else ()
        held = {(source.run_id, source.attempt): source for source in sources}
        live: set[tuple[str, int]] = set()
        parts: set[str] = set()
        loose: list[FileEntry] = []
        for commit in commits:
            key = (commit.run_id, commit.attempt)
            if key in held and commit.paths(table) == frozenset(held[key].paths):
                live.add(key)
                parts.update(held[key].parts)
            else:
                loose += commit.tables.get(table, ())
        return TableFiles(
            merged=tuple(file for file in (generation.files if generation else ()) if file.path in parts),
            held=frozenset(held),
            live=frozenset(live),
            mixed=any(key not in live and parts.intersection(source.parts) for key, source in held.items()),
            loose=tuple(loose),
        )

    @contextmanager
    def staging(self, run_id: str) -> Iterator["Staging"]:
        """Reserves the next attempt of a run and gives folders to write its files into.

        Whatever was not published when the body ends is removed. What a killed process left of the same run is
        cleaned up first.
        """
        self.create(self.format)
        name = safe_name(run_id)
        self.clean(name)
        attempt = 0
        while True:
            attempt = max(attempt + 1, self._next_attempt(name))
            with self._staged(name, attempt, 0) as stage:
                if stage is not None:
                    self._step("claimed")
                    yield Staging(self, run_id, attempt, 0, stage)
                    return

    @contextmanager
    def revising(self, commit: Commit) -> Iterator["Staging"]:
        """Gives folders to write those tables of a run into that are cut down; the others stay as they are.

        Raises:
            DataTrouble: Another process is at it.
        """
        revision = commit.revision + 1
        name = safe_name(commit.run_id)
        self.clean(name)
        with self._staged(name, commit.attempt, revision) as stage:
            if stage is None:
                raise DataTrouble(f"another process is working on {commit.run_id}; try again when it is done")
            yield Staging(self, commit.run_id, commit.attempt, revision, stage)

    @contextmanager
    def merging(self, table: str) -> Iterator["Merging"]:
        """Gives a folder to write the next generation of a table into. What a killed merger left of it is cleaned up first.

        Raises:
            DataTrouble: Another process is at it.
        """
        place = self.place
        if not isinstance(place, LocalPlace):
            number = self._next_generation(table)
            label = f"{number}-{os.urandom(6).hex()}"

            def final(_: str) -> str:
                return f"compact/{table}/gen-{label}"

            yield Merging(self, table, number, Stage(place, "", final, final, self._step))
            return
        self._take_over(f"{_MERGE}{table}")
        with self._claimed(place, f"{_MERGE}{table}") as held:
            if held is None:
                raise DataTrouble(f"another process is merging {table}; try again when it is done")
            number = self._next_generation(table)
            stage = Stage(
                place,
                f"{_STAGING}/{held.name}",
                lambda _: f"{_STAGING}/{held.name}/{table}",
                lambda _: f"compact/{table}/gen-{number}",
                self._step,
            )
            yield Merging(self, table, number, stage)

    def clean(self, run: str = "") -> list[str]:
        """Removes what killed processes left unfinished.

        Args:
            run: Name of the run whose leftovers are meant; empty for everything.

        Returns:
            The names of what was removed. A remote store keeps no track of its writers; see ``upkeep.sweep``.
        """
        return self._take_over(f"{run}.*" if run else "*")

    def _take_over(self, names: str) -> list[str]:
        """Removes what killed processes left under claims of some names, a pattern; returns the names of these."""
        place = self.place
        if not isinstance(place, LocalPlace):
            return []
        removed = []
        for leftover in take_leftovers(place.root / _STAGING, names):
            self._undo(place, leftover.name)
            leftover.release()
            removed.append(leftover.name)
        return removed

    def busy(self) -> list[str]:
        """Returns the folders that somebody is about to move files into, each with a ``/`` at its end."""
        if not isinstance(self.place, LocalPlace):
            return []
        found = []
        for name in claimed(self.place.root / _STAGING):
            if name.startswith(_MERGE):
                found.append(f"compact/{name.removeprefix(_MERGE)}/")
            else:
                run, _, label = name.partition(".")
                found += [f"{_folder(table, run, label)}/" for table in _EVERY]
        return found

    def unfinished(self) -> list[Found]:
        """Returns what writers of records that were killed left beside them, and what is being written right now."""
        folders = (_COMMITS, _GENERATIONS, _CHECKPOINTS)
        found = (file for folder in folders for file in self.place.walk(folder))
        return [file for file in found if file.path.endswith(UNFINISHED)]

    def forget_generations(self, generations: Iterable[Generation]) -> None:
        """Removes the records of generations; their files are no longer needed by anybody."""
        gone = list(generations)
        # By what they say, as two remote writers may have used the same number.
        self.place.remove(
            f"{_GENERATIONS}/{name}"
            for name in self.place.names(_GENERATIONS)
            if name in self._merged and self._merged[name] in gone
        )

    @contextmanager
    def _staged(self, name: str, attempt: int, revision: int) -> Iterator[Stage | None]:
        """Claims an attempt; None if it is taken. Undoes what was not committed."""
        label = f"{attempt}.{revision}" if revision else f"{attempt}"
        place = self.place
        if not isinstance(place, LocalPlace):
            label = f"{label}-{os.urandom(6).hex()}"

            def final(table: str) -> str:
                return _folder(table, name, label)

            yield Stage(place, "", final, final, self._step)
            return
        with self._claimed(place, f"{name}.{label}") as held:
            # Between the look at the records and the claim somebody else may have had the claim, and used it.
            if held is None or f"{name}.{label}.json" in place.names(_COMMITS):
                yield None
            else:
                # Files without a record, which somebody took away by hand, are in nobody's use.
                self._undo(place, held.name)
                yield Stage(
                    place,
                    f"{_STAGING}/{held.name}",
                    lambda table: f"{_STAGING}/{held.name}/{table}",
                    lambda table: _folder(table, name, label),
                    self._step,
                )

    @contextmanager
    def _claimed(self, place: LocalPlace, name: str) -> Iterator[Claim | None]:
        area = place.root / _STAGING
        try:
            area.mkdir(parents=True, exist_ok=True)
            held = claim(area, name)
        except OSError as error:
            raise WrongUse(f"cannot write to {self.name} ({error.strerror})") from error
        try:
            yield held
        finally:
            if held is not None:
                self._undo(place, name)
                held.release()

    def _undo(self, place: LocalPlace, name: str) -> None:
        """Removes what was moved in the name of a claim but not committed."""
        if name.startswith(_MERGE):
            table = name.removeprefix(_MERGE)
            named = {file.path for one in self.all_generations() if one.table == table for file in one.files}
            known = {path.rpartition("/")[0] for path in named}
            for folder in place.names(f"compact/{table}"):
                if f"compact/{table}/{folder}" not in known:
                    place.remove_folder(f"compact/{table}/{folder}")
        elif f"{name}.json" not in place.names(_COMMITS):
            run, _, label = name.partition(".")
            for table in _EVERY:
                place.remove_folder(_folder(table, run, label))

    def _next_generation(self, table: str) -> int:
        return 1 + max((one.number for one in self.all_generations() if one.table == table), default=0)

    def _next_attempt(self, run: str) -> int:
        begun = (_BEGUN.fullmatch(name) for name in self.place.names(_COMMITS))
        attempts = [int(parts[2]) for parts in begun if parts and parts[1] == run]
        return 1 + max([0, *attempts, *(order[0] for name, order, _ in self._records() if name == run)])

    def _mark(self) -> dict[str, Any] | None:
        try:
            value = from_json(self.place.read(_MARK))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise WrongUse(f"{self.name} cannot be read ({error.strerror or error})") from error
        except NotJson as error:
            raise DataTrouble(f"{self.name}/{_MARK} is damaged ({error})") from None
        if not isinstance(value, dict):
            raise DataTrouble(f"{self.name}/{_MARK} is damaged (no object)")
        check_version(f"the store {self.name}", value.get("store_version"))
        return value

    def _records(self) -> list[tuple[str, tuple[int, int, str], str]]:
        """Returns run, order and file name of each record."""
        found = ((name, _RECORD.fullmatch(name)) for name in self.place.names(_COMMITS))
        return [
            (parts[1], (int(parts[2]), int(parts[3] or 0), parts[4] or ""), name)
            for name, parts in found
            if parts
        ]

    def _load(self, names: Iterable[str]) -> list[Commit]:
        wanted = list(names)
        missing = [name for name in wanted if name not in self._read]
        if len(missing) > _ONE_BY_ONE:
            held = self._newest_checkpoint()
            for name in missing:
                if name in held:
                    self._read[name] = Commit.of(f"{self.name}/{_COMMITS}/{name}", held[name])
            missing = [name for name in missing if name not in held]
        texts = read_all(self.place, (f"{_COMMITS}/{name}" for name in missing))
        for name, text in zip(missing, texts, strict=True):
            self._read[name] = Commit.read(f"{self.name}/{_COMMITS}/{name}", text)
        return [self._read[name] for name in wanted]

    def damaged_records(self) -> list[str]:
        """Returns what is wrong with records that a checkpoint stands in for, one sentence each."""
        wrong = []
        for _, _, name in sorted(self._records()):
            path = f"{_COMMITS}/{name}"
            try:
                text = self.place.read(path)
            except FileNotFoundError:
                # Swept up meanwhile.
                continue
            try:
                same = Commit.read(f"{self.name}/{path}", text) == self._load([name])[0]
            except DataTrouble as error:
                wrong.append(str(error))
            else:
                if not same:
                    wrong.append(f"{path} and its copy in {_CHECKPOINTS} differ")
        return wrong

    def checkpoint(self) -> None:
        """Puts all records into one more file, unless there is one that has nearly all of them."""
        names = [name for *_, name in sorted(self._records())]
        old = self._checkpoints()
        if len(names) - max(old, default=0) < _ONE_BY_ONE:
            return
        # As they were written, with whatever a newer version has in them.
        records = self._newest_checkpoint()
        missing = [name for name in names if name not in records]
        texts = read_all(self.place, (f"{_COMMITS}/{name}" for name in missing))
        for name, text in zip(missing, texts, strict=True):
            records[name] = json_record(f"{self.name}/{_COMMITS}/{name}", text)
        content = json.dumps({"store_version": STORE_VERSION, "records": records}, separators=(",", ":"))
        self.place.put(f"{_CHECKPOINTS}/{len(records)}.json", content.encode())
        self.place.remove(f"{_CHECKPOINTS}/{number}.json" for number in old)

    def _newest_checkpoint(self) -> dict[str, Any]:
        """Returns the records of the newest checkpoint, by file name; none if there is no checkpoint."""
        numbers = self._checkpoints()
        if not numbers:
            return {}
        path = f"{_CHECKPOINTS}/{numbers[-1]}.json"
        try:
            text = self.place.read(path)
        except FileNotFoundError:
            # A newer one has just replaced it. The records themselves are all there.
            return {}
        return dict(json_record(f"{self.name}/{path}", text).get("records", {}))

    def _checkpoints(self) -> list[int]:
        found = (re.fullmatch(r"(\d+)\.json", name) for name in self.place.names(_CHECKPOINTS))
        return sorted(int(parts[1]) for parts in found if parts)


Append = Callable[[str, str, str], None]
"""Appends Parquet files of a table to a table of another format: its name, their folder, where that table is."""


@dataclass(frozen=True, slots=True)
class Staging:
    """A run on its way into the store.

    Attributes:
        store: Where to.
        run_id: Its id.
        attempt: What the column ``attempt`` of every row is to say.
        revision: 0 for what was taken in, more for what was cut down.
    """

    store: Store
    run_id: str
    attempt: int
    revision: int
    stage: Stage

    def folder(self, table: str) -> str:
        """Returns where to write files of a table, as ``Stage.folder`` says."""
        return self.stage.folder(table)

    def arrow(self, table: str) -> tuple[Any, str]:
        """Returns the same for pyarrow, as ``Stage.arrow`` says."""
        return self.stage.arrow(table)

    def publish(self, draft: Draft, append: Append | None = None) -> Commit:
        """Moves what was written to its place and puts the record there.

        Args:
            draft: What is to be said of the run.
            append: Takes the rows into the tables of a store whose format is not Parquet, see ``lake.appender``.

        Returns:
            The record; that of another attempt if the same bundle was taken in meanwhile.

        Raises:
            DataTrouble: A file was not written whole, or another process has published this attempt.
            WrongUse: The format of the store needs ``append``.
        """
        if draft.run.get("run_id") != self.run_id:
            raise ValueError(f"staged {self.run_id}, publishes {draft.run.get('run_id')}")
        table_format = self.store.format
        if table_format != PARQUET and append is None:
            raise WrongUse(
                f"{self.store.name} is a store of format {table_format}; only Spark can write to it"
            )
        if (same := self.store.find(draft.bundle)) is not None:
            return same
        tables = self.stage.collect()
        self.stage.step("written")
        moved = tables
        if append is not None and table_format != PARQUET:
            moved = {}
            tables = self._append(table_format, tables, append)
        return self._record(
            Commit(
                run_id=self.run_id,
                attempt=self.attempt,
                started_at=str(draft.run.get("started_at", "")),
                committed_at=utc_now(),
                bundle=draft.bundle,
                tables=tables,
                accounts=draft.accounts,
                state=draft.state,
                notes=draft.notes,
                run=dict(draft.run),
                folder=draft.folder,
            ),
            moved,
        )

    def _append(
        self, table_format: str, tables: Mapping[str, tuple[FileEntry, ...]], append: Append
    ) -> dict[str, tuple[FileEntry, ...]]:
        place = self.store.place
        if not place.put(f"{_COMMITS}/{safe_name(self.run_id)}.{self.attempt}.begun", b""):
            raise DataTrouble(f"another process is ingesting {self.run_id}; ingest it again when it is done")
        appended: dict[str, tuple[FileEntry, ...]] = {}
        for table, files in tables.items():
            target = f"{table_format}/{table}"
            append(table, self.folder(table), place.address(target))
            appended[table] = (FileEntry(target, sum(file.rows for file in files), 0),)
        return appended

    def replace(self, commit: Commit, cut: Iterable[str]) -> Commit:
        """Publishes a revision: some tables as they were written now, the others as they were.

        Args:
            commit: What is revised.
            cut: The tables that were cut down; one of which nothing was written is empty from now on.
        """
        cut = set(cut)
        tables = self.stage.collect()
        self.stage.step("written")
        kept = {table: files for table, files in commit.tables.items() if table not in cut}
        revised = dataclasses.replace(
            commit,
            revision=self.revision,
            committed_at=utc_now(),
            tables={**kept, **tables},
            trimmed=tuple(sorted({*commit.trimmed, *cut})),
        )
        return self._record(revised, tables)

    def _record(self, commit: Commit, moved: Mapping[str, tuple[FileEntry, ...]]) -> Commit:
        self.stage.settle(moved)
        label = f"{safe_name(commit.run_id)}.{commit.attempt}"
        label += f".{commit.revision}" if commit.revision else ""
        # Without a claim two writers may take the same attempt. Then each has a record of its own, and the
        # higher name counts for every reader alike.
        tag = (
            ""
            if self.store.place.exclusive
            else f".h{hashlib.sha256(commit.bundle.encode()).hexdigest()[:12]}"
        )
        if not self.stage.record(f"{_COMMITS}/{label}{tag}.json", commit.to_json()):
            raise DataTrouble(
                f"attempt {commit.attempt} of {commit.run_id} was published by another process; ingest it again"
            )
        self.stage.step("committed")
        return commit


@dataclass(frozen=True, slots=True)
class Merging:
    """The next generation of a table on its way into the store."""

    store: Store
    table: str
    number: int
    stage: Stage

    def folder(self) -> str:
        """Returns where to write the merged files, as ``Stage.folder`` says."""
        return self.stage.folder(self.table)

    def arrow(self) -> tuple[Any, str]:
        """Returns the same for pyarrow."""
        return self.stage.arrow(self.table)

    def publish(
        self, commits: Iterable[Commit], carried: Iterable[FileEntry] = (), old: Generation | None = None
    ) -> Generation:
        """Moves the merged files to their place and puts the record there.

        Args:
            commits: The runs whose rows are in these files.
            carried: Files of the generation before that are files of this one too.
            old: That generation.

        Raises:
            DataTrouble: A file was not written whole, or another process has published this generation.
        """
        tables = self.stage.collect()
        self.stage.step("written")
        written = tables.get(self.table, ())
        kept = tuple(carried)
        parts = self._parts(written, kept, old)
        self.stage.settle(tables)
        generation = Generation(
            table=self.table,
            number=self.number,
            created_at=utc_now(),
            files=(*kept, *written),
            sources=tuple(
                Source(
                    commit.run_id,
                    commit.attempt,
                    tuple(sorted(commit.paths(self.table))),
                    tuple(sorted(parts.get((commit.run_id, commit.attempt), ()))),
                )
                for commit in commits
                if commit.paths(self.table)
            ),
        )
        tag = "" if self.store.place.exclusive else f".h{os.urandom(6).hex()}"
        record = f"{_GENERATIONS}/{self.table}.{self.number}{tag}.json"
        if not self.stage.record(record, generation.to_json()):
            raise DataTrouble(f"{self.table} was merged by another process at the same time; nothing is lost")
        self.stage.step("committed")
        return generation

    def _parts(
        self, written: Iterable[FileEntry], kept: Iterable[FileEntry], old: Generation | None
    ) -> dict[tuple[str, int], set[str]]:
        """Returns the merged files that hold rows of each run."""
        from spark_reports.storage.merging import runs_in

        parts: dict[tuple[str, int], set[str]] = {}
        paths = {file.path for file in kept}
        for source in old.sources if old is not None else ():
            parts.setdefault((source.run_id, source.attempt), set()).update(paths.intersection(source.parts))
        for file in written:
            name = file.path.rpartition("/")[2]
            there = dataclasses.replace(file, path=f"{self.stage.written(self.table)}/{name}")
            for run in runs_in(self.store.place, there):
                parts.setdefault(run, set()).add(file.path)
        return parts


def bundle_of(files: Iterable[Path]) -> str:
    """Returns the hash of raw files: their names, without folders, and what is in them; their order does not matter."""
    whole = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        one = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                one.update(block)
        whole.update(f"{path.name}\0{one.hexdigest()}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _folder(table: str, run: str, label: str) -> str:
    if table in BASE_TABLES:
        return f"tables/{table}/{run}/{label}"
    if table in ROLLUP_TABLES:
        return f"rollups/{table}/{run}/{label}"
    if table in {APART, RAW}:
        return f"{table}/{run}/{label}"
    raise ValueError(f"no table {table}")
