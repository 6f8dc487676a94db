"""The records of a store: what a run left in it, and which files were merged. Plain data and its JSON.

Whatever a reader shows of a store comes from these. A record is written once and never changed, so one that was
read stays true.
"""

import dataclasses
import datetime as dt
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from spark_reports.errors import DataTrouble
from spark_reports.rows import ROWS_VERSION, NotJson, from_json

STORE_VERSION = 1
"""Raised when an older reader would misread a store; what is merely added does not raise it."""

_UNSAFE = re.compile(r"[^A-Za-z0-9+=@_-]")
_LONGEST = 120


class NewerStore(DataTrouble):
    """A store, or a record in it, was written by a newer version of this package."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a table.

    Attributes:
        path: Below the store, with ``/``.
        rows: How many it holds; 0 for raw files.
        bytes: Its size.
    """

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of the lines of a file: ``lines == good + apart + blank + footers``."""

    lines: int = 0
    good: int = 0
    apart: int = 0
    blank: int = 0
    footers: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every line is accounted for."""
        return self.lines == self.good + self.apart + self.blank + self.footers


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is to be said of a run, before its files are counted and it has an attempt.

    Attributes:
        run: Its RunRow as a dictionary.
        bundle: Hash of all its raw files, ``store.bundle_of``. The same bundle is the same run.
        accounts: By file name.
        state: As ``folders.judge`` puts it.
        notes: Same.
        folder: Where its files are.
    """

    run: Mapping[str, Any]
    bundle: str
    accounts: Mapping[str, Account] = field(default_factory=dict)
    state: str = "complete"
    notes: tuple[str, ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A run in a store.

    Attributes:
        run_id: The run.
        attempt: Counts, from 1, how often it was taken in with other content; the newest counts.
        revision: Counts how often this attempt was cut down since, from 0.
        started_at: When the run started; runs are ordered by it, not by when they came.
        committed_at: When the record was written; UTC, ISO 8601.
        bundle: As in Draft.
        rows_version: Version of the rows of whoever took it in.
        tables: The files of each table, rollup, of ``apart`` and of ``raw``; what is empty is not listed.
        accounts: As in Draft.
        state: Same.
        notes: Same.
        run: Same.
        trimmed: Tables that were cut down since: they hold fewer rows than were taken in.
        folder: Where its files were when it was taken in; empty in records of earlier versions.
    """

    run_id: str
    attempt: int
    started_at: str
    committed_at: str
    bundle: str
    tables: Mapping[str, tuple[FileEntry, ...]]
    accounts: Mapping[str, Account]
    state: str
    notes: tuple[str, ...]
    run: Mapping[str, Any]
    rows_version: int = ROWS_VERSION
    revision: int = 0
    trimmed: tuple[str, ...] = ()
    folder: str = ""

    def paths(self, table: str) -> frozenset[str]:
        """Returns the files of a table."""
        return frozenset(entry.path for entry in self.tables.get(table, ()))

    def rows(self, table: str) -> int:
        """Returns how many rows of a table there are."""
        return sum(entry.rows for entry in self.tables.get(table, ()))

    def to_json(self) -> bytes:
        """Returns the record."""
        return _to_json(self)

    @classmethod
    def read(cls, name: str, text: bytes) -> Self:
        """Reads a record.

        Raises:
            NewerStore: A newer version wrote it.
            DataTrouble: It is damaged.
        """
        return cls.of(name, json_record(name, text))

    @classmethod
    def of(cls, name: str, value: dict[str, Any]) -> Self:
        """Returns what a record says; raises as ``read`` does."""
        try:
            if value["rows_version"] > ROWS_VERSION:
                raise NewerStore(
                    f"{name} holds rows of version {value['rows_version']}, this zenoh-reports reads up to "
                    f"{ROWS_VERSION}; use a newer one"
                )
            tables = {table: _entries(found) for table, found in value["tables"].items()}
            accounts = {file: Account(**account) for file, account in value["accounts"].items()}
            value |= {
                "tables": tables,
                "accounts": accounts,
                "notes": tuple(value["notes"]),
                "trimmed": tuple(value["trimmed"]),
            }
            return cls(**_only(cls, value))
        except (KeyError, TypeError, AttributeError) as error:
            raise _damaged(name, error) from None


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a run that were merged.

    Attributes:
        run_id: The run.
        attempt: Its attempt.
        paths: The files it had.
        parts: The merged files that hold its rows now.
    """

    run_id: str
    attempt: int
    paths: tuple[str, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The files of many runs, merged into a few.

    Attributes:
        table: Whose files.
        number: Counts the generations of the table, from 1; the newest counts.
        created_at: When the record was written; UTC, ISO 8601.
        files: The merged files, some of them perhaps of earlier generations.
        sources: What they hold.
    """

    table: str
    number: int
    created_at: str
    files: tuple[FileEntry, ...]
    sources: tuple[Source, ...]

    def to_json(self) -> bytes:
        """Returns the record."""
        return _to_json(self)

    @classmethod
    def read(cls, name: str, text: bytes) -> Self:
        """Reads a record; raises as ``Commit.read`` does."""
        value = json_record(name, text)
        try:
            sources = tuple(
                Source(found["run_id"], found["attempt"], tuple(found["paths"]), tuple(found["parts"]))
                for found in value["sources"]
            )
            value |= {"files": _entries(value["files"]), "sources": sources}
            return cls(**_only(cls, value))
        except (KeyError, TypeError, AttributeError) as error:
            raise _damaged(name, error) from None


def check_version(name: str, version: object) -> None:
    """Refuses what a newer version wrote.

    Raises:
        NewerStore: A newer version wrote it.
        DataTrouble: There is no version in it.
    """
    if not isinstance(version, int):
        raise DataTrouble(f"{name} has no store_version; it is not a record of a store")
    if version > STORE_VERSION:
        raise NewerStore(
            f"{name} is of store version {version}, this zenoh-reports reads up to {STORE_VERSION}; use a newer one"
        )


def utc_now() -> str:
    """Returns the present time as records have it: UTC, ISO 8601, microseconds."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")


def age_s(stamp: str) -> float:
    """Returns how long ago a time of a record is, in seconds."""
    return (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(stamp)).total_seconds()


def safe_name(run_id: str) -> str:
    """Returns a run id as the name of a file or folder, without a dot, that Spark does not hide.

    Run ids are names of folders and may hold anything; each of the two readers, Hadoop and object stores, has its
    own idea of what a percent sign or a bracket means.
    """
    name = _UNSAFE.sub(lambda found: "".join(f"~{byte:02x}" for byte in _utf8(found.group())), run_id)
    if name.startswith("_"):
        name = f"~5f{name[1:]}"
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}~{hashlib.sha256(_utf8(run_id)).hexdigest()[:16]}"
    return name or "~"


def _utf8(text: str) -> bytes:
    # A folder name that is no UTF-8 reaches us as lone surrogates.
    return text.encode("utf-8", "surrogateescape")


def _to_json(record: Commit | Generation) -> bytes:
    value = {"store_version": STORE_VERSION, **dataclasses.asdict(record)}
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def json_record(name: str, text: bytes) -> dict[str, Any]:
    """Returns the JSON object of a record, whose version this one understands.

    Raises:
        NewerStore: A newer version wrote it.
        DataTrouble: It is damaged.
    """
    try:
        value = from_json(text)
    except NotJson as error:
        raise _damaged(name, error) from None
    if not isinstance(value, dict):
        raise _damaged(name, TypeError("no object"))
    check_version(name, value.get("store_version"))
    return value


def _entries(found: Sequence[Mapping[str, Any]]) -> tuple[FileEntry, ...]:
    return tuple(FileEntry(entry["path"], entry["rows"], entry["bytes"]) for entry in found)


def _only(kind: type, value: Mapping[str, Any]) -> dict[str, Any]:
    # Records may have gained fields since; those say nothing that an older reader needs.
    return {
        known.name: value[known.name]
        for known in dataclasses.fields(kind)
        if known.name in value or known.default is dataclasses.MISSING
    }


def _damaged(name: str, error: Exception) -> DataTrouble:
    return DataTrouble(
        f"{name} is damaged ({error}); move it and the folder _checkpoints away and ingest the run again"
    )
