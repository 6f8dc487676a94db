"""What the workers do when runs are taken in: pieces of files into Parquet, rollups into one file for each run.

A worker writes its files itself, next to where they belong, and gives back only what became of the lines. So no row
travels between processes. Each file is written under another name first and has a name that follows from its content's
place: a task that is tried again writes the same files again, and one that is killed leaves nothing that is looked at.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from spark_reports.storage.parse import LONGEST_TEXT, Apart, Parsed, read_block, text_of, too_long
from spark_reports.storage.pieces import Piece
from spark_reports.storage.rollups import ROLLUP_OF, made_of, merged
from spark_reports.storage.tables import EXTRA, arrow_schema

BLOCK = 2 << 20
"""Bytes that are parsed at once; with more of them the caches of the processor are too small."""

GROUP = 64 << 20
"""Bytes of lines that make a row group; a worker holds about three times as much."""

_KEPT = 30 << 20
"""Bytes of a block of memory below the largest one that the C library of GNU learns from (32 MiB)."""

# Columns whose values hardly repeat: a dictionary of them costs time and is thrown away again.
_UNIQUE = frozenset(
    [
        "case",
        "time_ns",
        "duration_s",
        "sent_hex",
        "sent_zlib",
        "rtt_us",
        "started_ns",
        "raw_hex",
        "summary",
        "value",
        "text",
        "line",
        "smallest",
    ]
)
# Columns that somebody may look for a value in.
_LOOKED_FOR = frozenset(
    ["run_id", "attempt", "campaign", "case", "verdict", "bucket", "time_ns", "test", "outcome"]
)


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of a file and where its rows go.

    Attributes:
        run: Number of the run.
        number: Number of the file, among those of all runs.
        path: The file.
        piece: The lines.
        part: Number of the piece within its file.
        name: Name of the file, for lines that are kept apart.
        table: The table of its rows.
        run_id: What the rows are to bear.
        attempt: Same.
        rows_folder: Where the rows go.
        apart_folder: Where lines that are no rows go.
    """

    run: int
    number: int
    path: str
    piece: Piece
    part: int
    name: str
    table: str
    run_id: str
    attempt: int
    rows_folder: str
    apart_folder: str


COUNTS = ("lines", "good", "apart", "blank", "footers")
"""What is counted of the lines."""

_ROLLUPS = tuple(ROLLUP_OF)

READ = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("run", "number", "part", "chunk", *COUNTS)),
        pa.field("trouble", pa.string()),
        *(pa.field(name, pa.binary()) for name in _ROLLUPS),
    ]
)
"""What a worker gives back for each row group that it has written, and once behind the last one of a piece: the account
of the lines since the row before, partial rollups of the good ones, and why the piece could not be read, empty if it
could."""

DONE = pa.schema([READ.field(name) for name in ("number", *COUNTS, "trouble")])
"""What is left of that when the rollups are written."""

_TOLD = tuple(name for name in READ.names if name not in _ROLLUPS)

_DDL = {pa.int64(): "bigint", pa.string(): "string", pa.binary(): "binary"}


def ddl(schema: pa.Schema) -> str:
    """Returns a schema as Spark is told of it."""
    return ", ".join(f"{column.name} {_DDL[column.type]}" for column in schema)


class Parts:
    """Writes tables of one kind as ``part-*.parquet`` of a folder; a new file begins where the columns change.

    Args:
        filesystem: Of pyarrow.
        folder: In it.
        label: What stands behind ``part-``.
    """

    def __init__(self, filesystem: Any, folder: str, label: str) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._label = label
        self._writer: pq.ParquetWriter | None = None
        self._output: Any = None
        self._names = ("", "")
        self._count = 0

    def write(self, table: pa.Table) -> None:
        """Appends rows as one row group."""
        if self._writer is None or self._writer.schema != table.schema:
            self.close()
            self._begin(table.schema)
        assert self._writer is not None
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def _begin(self, schema: pa.Schema) -> None:
        suffix = f"-{self._count}" if self._count else ""
        final = f"{self._folder}/part-{self._label}{suffix}.parquet"
        # Elsewhere a file appears when it is closed, and moving it would copy it.
        local = isinstance(self._filesystem, pafs.LocalFileSystem)
        first = f"{self._folder}/.{os.getpid()}-{os.urandom(4).hex()}.unfinished" if local else final
        self._names = (first, final)
        self._output = self._filesystem.open_output_stream(first)
        self._writer = pq.ParquetWriter(
            self._output,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in schema.names if name not in _UNIQUE],
            write_statistics=[name for name in schema.names if name in _LOOKED_FOR],
            store_schema=False,
            write_page_checksum=True,
        )

    def close(self) -> None:
        """Completes the file."""
        if self._writer is None:
            return
        self._writer.close()
        self._output.close()
        first, final = self._names
        if first != final:
            self._filesystem.move(first, final)
        self._count += 1
        self._writer = None

    def give_up(self) -> None:
        """Drops the file that is not complete."""
        if self._writer is not None:
            self._writer.close()
            self._output.close()
            self._filesystem.delete_file(self._names[0])
            self._writer = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where the rollups of a run go.

    Attributes:
        run_id: The run.
        attempt: Its attempt.
        folders: By rollup.
    """

    run_id: str
    attempt: int
    folders: Mapping[str, str]


def take_in(
    tasks: Sequence[Sequence[Work]], targets: Sequence[Target], whole: Collection[int], filesystem: Any
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a function for ``mapInArrow`` that gets numbers of tasks and gives back rows of READ.

    Args:
        tasks: What is to be done in each; the pieces of a run stand together.
        targets: Where the rollups of each run go, by its number.
        whole: Runs all of whose pieces are in one task. Their rollups are written there, and are not given back.
        filesystem: Of pyarrow, for what is written; it travels to the workers.
    """
    write = write_rollups(targets, filesystem)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _keep_memory()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for of_run, works in itertools.groupby(tasks[number], key=lambda work: work.run):
                    if of_run not in whole:
                        for work in works:
                            yield pa.RecordBatch.from_pylist(
                                list(take_in_piece(work, filesystem)), schema=READ
                            )
                        continue
                    read = [row for work in works for row in take_in_piece(work, filesystem)]
                    write(pa.Table.from_pylist(read, schema=READ))
                    told = [{name: row[name] for name in _TOLD} for row in read]
                    yield pa.RecordBatch.from_pylist(told, schema=READ)

    return run


def _keep_memory() -> None:
    """Has the C library keep memory that is given back, which every block of lines wants again.

    That of GNU takes what is larger than anything given back before from the system, and returns what is twice that. Left
    alone it learns too little here, and a tenth of the time goes into pages that the system clears.
    """
    np.empty(_KEPT, np.uint8)


def take_in_piece(work: Work, filesystem: Any) -> Iterator[dict[str, Any]]:
    """Writes the rows of a piece and the lines kept apart; yields rows of READ."""
    label = f"{work.table}-{work.part:05d}"
    good, apart = (Parts(filesystem, folder, label) for folder in (work.rows_folder, work.apart_folder))
    head = {"run": work.run, "number": work.number, "part": work.part, "trouble": ""}
    count = dict.fromkeys(COUNTS, 0)
    held: list[pa.Table] = []
    size = chunk = 0
    trouble = ""
    try:
        for parsed, read in _parsed(work):
            for name, more in zip(
                COUNTS,
                (parsed.lines, parsed.rows, len(parsed.apart), parsed.blank, parsed.footers),
                strict=True,
            ):
                count[name] += more
            held += parsed.good
            size += read
            if parsed.apart:
                apart.write(_apart_table(parsed.apart, work))
            if size >= GROUP:
                yield {**head, "chunk": chunk, **count, **_write_rows(held, work, good)}
                count = dict.fromkeys(COUNTS, 0)
                held, size, chunk = [], 0, chunk + 1
        made = _write_rows(held, work, good)
    except _Unreadable as error:
        trouble, made = f"{work.name} cannot be read any more ({error})", {}
        good.give_up()
        apart.give_up()
    else:
        good.close()
        apart.close()
    yield {**head, "chunk": chunk, **count, **made, "trouble": trouble}


class _Unreadable(Exception):
    """A file was there when it was scanned and is not now, or is shorter."""


def _parsed(work: Work) -> Iterator[tuple[Parsed, int]]:
    """Yields what the lines of a piece hold, block by block, with the bytes of each block."""
    piece = work.piece
    if piece.long:
        text = text_of(next(_blocks(work, 4 * LONGEST_TEXT)))
        yield Parsed(lines=1, apart=[Apart(piece.first_line, too_long(), text)]), piece.end - piece.start
        return
    at, rest, line = piece.start, b"", piece.first_line
    for block in _blocks(work, BLOCK):
        at += len(block)
        data = rest + block if rest else block
        end = len(data) if at == piece.end else data.rfind(b"\n") + 1
        rest = data[end:]
        if end:
            parsed = read_block(data[:end], work.table, line, last=piece.last and at == piece.end)
            line += parsed.lines
            yield parsed, end


def _blocks(work: Work, size: int) -> Iterator[bytes]:
    """Yields the bytes of a piece."""
    try:
        with Path(work.path).open("rb", buffering=0) as file:
            left = work.piece.end - file.seek(work.piece.start)
            while left:
                block = file.read(min(size, left))
                if not block:
                    raise _Unreadable("it became shorter")
                left -= len(block)
                yield block
    except OSError as error:
        raise _Unreadable(error.strerror or str(error)) from None


def _write_rows(held: Sequence[pa.Table], work: Work, good: Parts) -> dict[str, bytes]:
    """Writes tables as a row group, all with ``extra`` if one has it; returns their partial rollups."""
    if not held:
        return {}
    with_extra = any(EXTRA in table.column_names for table in held)
    schema = arrow_schema(work.table, extra=with_extra)
    if with_extra:
        held = [_with_extra(table, schema.field(EXTRA)) for table in held]
    whole = pa.concat_tables(held)
    key = {
        "run_id": pa.repeat(work.run_id, whole.num_rows),
        "attempt": pa.repeat(pa.scalar(work.attempt, pa.int64()), whole.num_rows),
    }
    columns = [key[name] if name in key else whole.column(name) for name in schema.names]
    good.write(pa.Table.from_arrays(columns, schema=schema))
    return {name: _to_bytes(ROLLUP_OF[name].part(whole)) for name in made_of(work.table)}


def _with_extra(table: pa.Table, column: pa.Field) -> pa.Table:
    if EXTRA in table.column_names:
        return table
    # Not as concat_tables fills it up: there the parts of its structs are null as well, which Parquet refuses.
    return table.append_column(column, pa.array([None] * table.num_rows, column.type))


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _from_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def _apart_table(found: Sequence[Apart], work: Work) -> pa.Table:
    rows = [
        {
            "run_id": work.run_id,
            "attempt": work.attempt,
            "file": work.name,
            "line": line.line,
            "reason": line.reason,
            "text": line.text,
        }
        for line in found
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema("apart"))


def write_rollups(targets: Sequence[Target], filesystem: Any) -> Callable[[pa.Table], pa.Table]:
    """Returns a function for ``applyInArrow`` that gets the rows of READ of a run and gives back those of DONE.

    Args:
        targets: Where the rollups of each run go, by its number.
        filesystem: Of pyarrow.
    """

    def run(read: pa.Table) -> pa.Table:
        done = read.select(DONE.names).cast(DONE)
        if not any(read.column("trouble").to_pylist()):
            target = targets[read.column("run")[0].as_py()]
            in_order = read.sort_by([("number", "ascending"), ("part", "ascending"), ("chunk", "ascending")])
            for name in target.folders:
                _write_rollup(name, in_order, target, filesystem)
        return done

    return run


def _write_rollup(name: str, read: pa.Table, target: Target, filesystem: Any) -> None:
    mine = read.filter(pc.is_valid(read.column(name)))
    if not mine.num_rows:
        return
    rows = mine.column("good").to_pylist()
    before = [0, *itertools.accumulate(rows)][:-1]
    parts = [_from_bytes(data) for data in mine.column(name).to_pylist()]
    table = merged(name, parts, before, target.run_id, target.attempt)
    if table.num_rows:
        output = Parts(filesystem, target.folders[name], "0")
        output.write(table)
        output.close()
