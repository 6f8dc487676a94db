"""``zenoh-dissect columns``: captures as Parquet files, for analysis of any size."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from scapy_layers.commands.sources import STANDARD_INPUT, Source, Sources, add_sources
from scapy_layers.commands.terminal import (
    REFUSED,
    WRONG_USE,
    Screen,
    Subparsers,
    WrongUseError,
    add_command,
    folder,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

NEEDED = "this needs numpy and pyarrow: pip install 'zenoh-harness[columns]'"

ROWS = 1 << 17
"""Rows of a row group, about."""

BYTES = 64 << 20
"""Bytes of rows that wait to be written, for each table."""

EXAMPLES = """\
examples:
  zenoh-dissect columns capture.pcapng --out tables
  zenoh-dissect columns *.pcap.gz --out tables --tables push,put,connections
  zenoh-dissect columns big.pcap --out tables --columns push.time,push.batch,push.key_suffix
  duckdb -c "select key_suffix, count(*) from 'tables/push/*.parquet' group by 1"
  python -c "import pandas; print(pandas.read_parquet('tables/put'))"
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "columns",
        _columns,
        summary="write captures to Parquet files, one table per kind of message",
        description="Writes a folder per table, with one Parquet file per capture, such as\n"
        "DIR/put/capture.pcapng.parquet, even if the table has no rows. There is a table for each kind\n"
        "of message, and tables connections, gaps, errors (what strict decoding refuses; damaged\n"
        "captures) and capture (counters). Message rows have the packet, time, connection, direction\n"
        "(forward: from the connection's source), the number of the batch in the capture, and the\n"
        "offset in it; `within` is the offset of the message that contains this one. Streams are\n"
        "reassembled, compressed batches unpacked, and messages that came in fragments are single rows\n"
        "with the number of fragments in `pieces`. One core reads about a million packets a second, and\n"
        "memory use does not grow with the capture. Existing files are never overwritten.\n\n"
        "Exit status: 0 all read, 1 a capture is damaged (the intact part was written), 2 wrong use,\n"
        "130 interrupted by Ctrl-C (nothing is written for that capture).",
        examples=EXAMPLES,
    )
    add_sources(parser)
    parser.add_argument(
        "--out", required=True, metavar="DIR", type=folder, help="output folder; created if missing"
    )
    parser.add_argument(
        "--tables",
        metavar="NAMES",
        type=_listed,
        help="tables to write, comma-separated (default: all)",
    )
    parser.add_argument(
        "--columns",
        metavar="NAMES",
        type=_listed,
        help="columns to write, as table.column; tables not named here get all columns",
    )


def _listed(text: str) -> list[str]:
    """Reads names.

    Raises:
        argparse.ArgumentTypeError: There is none, and nothing would be written.
    """
    if not (names := text.replace(",", " ").split()):
        raise argparse.ArgumentTypeError("names none")
    return names


def _columns(arguments: argparse.Namespace) -> int:
    try:
        from scapy_layers import tables
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in {"numpy", "pyarrow"}:
            raise
        raise WrongUseError(NEEDED) from None

    screen = Screen(arguments)
    sources = Sources(arguments, screen)
    wanted, columns = _wanted(arguments)
    try:
        schemas = tables.Selection(wanted, columns).schemas
    except KeyError as error:
        raise WrongUseError(error.args[0]) from None
    chosen = list(sources)
    folders = [_Files(arguments.out, _name(source), schemas) for source in chosen]
    _check_names(folders)
    for source, files in zip(chosen, folders, strict=True):
        with files:
            _convert(source, files, columns)
    return sources.status


def _wanted(arguments: argparse.Namespace) -> tuple[list[str] | None, dict[str, list[str]]]:
    """Returns the tables to write, None for all, and columns of some of them."""
    columns: dict[str, list[str]] = {}
    for name in arguments.columns or ():
        table, dot, column = name.partition(".")
        if not dot:
            raise WrongUseError(f"--columns takes table.column, such as put.data, not {name!r}")
        columns.setdefault(table, []).append(column)
    if arguments.tables is None:
        return (list(columns) or None), columns
    return [*arguments.tables, *(table for table in columns if table not in arguments.tables)], columns


def _name(source: Source) -> str:
    return "stdin" if source.given == STANDARD_INPUT else Path(source.given).name


def _check_names(folders: list[_Files]) -> None:
    """Refuses to write to what exists before anything is read."""
    names = [files.name for files in folders]
    for name in names:
        if names.count(name) > 1:
            raise WrongUseError(f"two captures are named {name}: write each to its own folder with --out")
    for files in folders:
        if there := files.there():
            raise WrongUseError(f"{there} already exists; choose another folder with --out")


def _convert(source: Source, files: _Files, columns: Mapping[str, Collection[str]]) -> None:
    """Writes the tables of one capture, and says what was in it."""
    from scapy_layers import tables
    from scapy_layers.capture import CaptureError

    sources, screen = source.sources, source.sources.screen
    begin = os.times().elapsed
    messages = errors = 0
    summary: dict[str, int | str | None] = {}
    # These are looked at in any case; they cost nothing.
    looked_at = {tables.CAPTURE, tables.ERRORS_TABLE, *files.schemas}
    kept = {name: named for name, named in columns.items() if name not in tables.SCHEMAS}
    try:
        file, size = _opened(source)
        for made in tables.read(
            file, tables=sorted(looked_at), columns=kept, progress=screen.progress(source.name, size)
        ):
            for name, rows in made.items():
                messages += 0 if name in tables.SCHEMAS else rows.num_rows
                errors += rows.num_rows if name == tables.ERRORS_TABLE else 0
                if name == tables.CAPTURE:
                    summary = rows.to_pylist()[0]
                files.add(name, rows)
    except CaptureError as error:
        sources.fail(f"{source.name}: {error.reason}", WRONG_USE)
        return
    except OSError as error:
        sources.fail(f"{source.name}: {error.strerror or error}", WRONG_USE)
        return
    finally:
        screen.done()
    files.finish()
    seconds = os.times().elapsed - begin
    packets = int(summary["packets"] or 0)
    speed = f"; {packets / seconds:,.0f} packets a second" if seconds >= 1 else ""
    screen.line(
        f"{source.name}: {packets:,} packets, {messages:,} messages in {summary['batches']:,} batches, "
        f"{errors:,} errors, {summary['gaps']:,} gaps{speed}"
    )
    if packets and summary["other_packets"] == packets:
        screen.complain(
            f"{source.name}: no packets are TCP or UDP over Ethernet, Linux cooked, loopback or raw IP"
        )
    if summary["damage"]:
        sources.fail(f"{source.name}: {summary['damage']}", REFUSED)


def _opened(source: Source) -> tuple[Path | BinaryIO, int | None]:
    """Returns what to read, and its bytes if that is known."""
    if source.given == STANDARD_INPUT:
        if sys.stdin is None:
            raise WrongUseError("no standard input to read from")
        return sys.stdin.buffer, None
    path = Path(source.given)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, not a capture", source.given)
    return path, path.stat().st_size if path.is_file() else None


class _Files:
    """The files of one capture: each under another name until all of them are complete.

    Attributes:
        name: Of the capture.
        schemas: Of the tables to write.
    """

    def __init__(self, folder: Path, name: str, schemas: Mapping[str, pa.Schema]) -> None:
        self.name = name
        self.schemas = schemas
        self._folder = folder
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._begun: list[str] = []
        self._open: dict[str, tuple[BinaryIO, parquet.ParquetWriter]] = {}

    def there(self) -> Path | None:
        """Returns one of the files if it exists already."""
        return next((path for name in self.schemas if os.path.lexists(path := self._path(name))), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._begun:
            self._part(name).unlink(missing_ok=True)
        for opened in self._open.values():
            for one in reversed(opened):
                with suppress(OSError):  # of a file that is gone, on a disk that may be full
                    one.close()
        self._open.clear()

    def add(self, name: str, rows: pa.RecordBatch) -> None:
        """Takes rows of a table; those of tables that are not wanted are passed over."""
        if name not in self.schemas:
            return
        waiting = self._waiting.setdefault(name, [])
        waiting.append(rows.select(self.schemas[name].names))
        if sum(some.num_rows for some in waiting) >= ROWS or sum(some.nbytes for some in waiting) >= BYTES:
            self._write(name)

    def finish(self) -> None:
        """Writes what waits, and gives the files their names.

        Raises:
            WrongUseError: They cannot be written.
        """
        for name in self.schemas:
            self._write(name)
        try:
            for name, (file, writer) in self._open.items():
                writer.close()
                file.close()
                self._part(name).rename(self._path(name))
        except OSError as error:
            raise WrongUseError(f"{self._folder}: {error.strerror or error}") from None
        self._open.clear()
        self._begun.clear()

    def _write(self, name: str) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        schema = self.schemas[name]
        try:
            if name not in self._open:
                self._part(name).parent.mkdir(parents=True, exist_ok=True)
                self._begun.append(name)
                # pyarrow itself opens no file whose name is not in UTF-8.
                file = self._part(name).open("wb")
                self._open[name] = file, parquet.ParquetWriter(file, schema, compression="zstd")
            rows = self._waiting.pop(name, [])
            if rows:
                self._open[name][1].write_table(pa.Table.from_batches(rows, schema))
        except OSError as error:
            raise WrongUseError(f"{self._folder}: {error.strerror or error}") from None

    def _path(self, name: str) -> Path:
        return self._folder / name / f"{self.name}.parquet"

    def _part(self, name: str) -> Path:
        # Readers of the folder pass over names that begin like this.
        return self._folder / name / f".{self.name}.parquet.part"
