"""Files on their way into a store: written where nobody looks, counted, moved to their place."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from spark_reports.errors import DataTrouble
from spark_reports.storage.commits import FileEntry
from spark_reports.storage.places import LocalPlace, Place

RAW = "raw"

_PART = re.compile(r"part-.*\.parquet")


@dataclass(slots=True)
class Stage:
    """The files of one record, before there is a record.

    On this machine they are written to a folder of their own and moved. Where a move would be a copy they are
    written in their place at once, below a name that no other writer has.

    Args:
        place: Where the store lies.
        scratch: A folder of its own, on this machine.
        written: Where a table is written to.
        final: Where it belongs.
        step: Is told how far this is.
    """

    place: Place
    scratch: str
    written: Callable[[str], str]
    final: Callable[[str], str]
    step: Callable[[str], None]
    _begun: dict[str, None] = field(default_factory=dict)

    def folder(self, table: str) -> str:
        """Returns the folder to write files of a table into, an absolute path or a URI.

        Files of tables are named ``part-*.parquet``, whatever else a writer leaves there is dropped. Of ``raw``
        everything is kept.
        """
        self._begin(table)
        return self.place.address(self.written(table))

    def arrow(self, table: str) -> tuple[Any, str]:
        """Returns the same folder as a file system of pyarrow and a path in it."""
        self._begin(table)
        return self.place.arrow(self.written(table))

    def _begin(self, table: str) -> None:
        self._begun[table] = None
        self.place.make(self.written(table))

    def collect(self) -> dict[str, tuple[FileEntry, ...]]:
        """Returns the files that were written, as they will be called; drops what is none of a table.

        Raises:
            DataTrouble: A file that was written is no Parquet file.
        """
        tables = {table: self._entries(table) for table in self._begun}
        return {table: entries for table, entries in tables.items() if entries}

    def _entries(self, table: str) -> tuple[FileEntry, ...]:
        written, final = self.written(table), self.final(table)
        entries = []
        for found in list(self.place.walk(written)):
            below = PurePosixPath(found.path).relative_to(written)
            if table != RAW and not _PART.fullmatch(str(below)):
                self.place.remove([found.path])
                continue
            rows = 0 if table == RAW else self._rows(found.path)
            if table == RAW or rows:
                entries.append(FileEntry(f"{final}/{below}", rows, found.bytes))
            else:
                self.place.remove([found.path])
        return tuple(entries)

    def _rows(self, path: str) -> int:
        import pyarrow as pa
        from pyarrow import parquet

        filesystem, inside = self.place.arrow(path)
        try:
            with parquet.ParquetFile(inside, filesystem=filesystem) as file:
                return int(file.metadata.num_rows)
        except (pa.ArrowException, OSError) as error:
            raise DataTrouble(f"{path} was not written completely ({error})") from error

    def settle(self, tables: Mapping[str, tuple[FileEntry, ...]]) -> None:
        """Moves the files to their place."""
        place = self.place
        if not isinstance(place, LocalPlace):
            return
        written = [place.root / self.written(table) for table in tables]
        walked = [(Path(folder), files) for start in written for folder, _, files in os.walk(start)]
        place.sync(*(folder / name for folder, files in walked for name in (*files, "")))
        self.step("synced")
        parents: set[Path] = set()
        for table in tables:
            final = place.move(self.written(table), self.final(table))
            # Each folder between the store and the files may be new.
            parents |= {parent for parent in final.parents if parent.is_relative_to(place.root)}
            self.step("moved one")
        place.sync(*parents)
        self.step("moved")

    def record(self, path: str, content: bytes) -> bool:
        """Puts a record there, whole; False if there is one of its name.

        Where a place cannot promise that, names of records must be such that it does no harm.
        """
        place = self.place
        if not isinstance(place, LocalPlace):
            return place.put(path, content)
        unfinished = place.root / self.scratch / "record.json"
        unfinished.write_bytes(content)
        place.sync(unfinished)
        self.step("record written")
        target = place.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return place.link(unfinished, target)
