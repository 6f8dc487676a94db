"""Messages that were read, wave by wave or alone, to tables in the order of the bytes."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from scapy_layers import names, shape
from scapy_layers.derive.columns.arrow import nulls, of_values, to_arrow
from scapy_layers.derive.columns.column import Column, Numbers, Struct, join, join_all, pick
from scapy_layers.derive.columns.decoded import Decoded
from scapy_layers.derive.columns.rowwise import Row
from scapy_layers.derive.columns.schema import ERRORS, PLACE
from scapy_layers.derive.columns.scope import Part
from scapy_layers.derive.columns.text import as_array
from scapy_layers.derive.columns.units import Places, Units
from scapy_layers.errors import WireError

_UNIT, _OFFSET, _LENGTH, _WITHIN = (field.name for field in PLACE)

_SAID = ERRORS.names

_MOST_PARTS = 256
"""So many parts of a table are joined, so that a batch of many small messages does not leave thousands of tiny arrays."""

_MOST_ROW_BYTES = 1 << 16
"""Messages read alone become columns when they took so many bytes: as Python values they are far larger."""


class _Piece(NamedTuple):
    """Rows of a table, in the order of the bytes.

    Attributes:
        batch: The rows.
        units: Which unit each stands in.
        at: Where each begins.
    """

    batch: pa.RecordBatch
    units: Places
    at: Places


class Tables:
    """Collects what was read."""

    def __init__(self, units: Units, schemas: dict[str, pa.Schema]) -> None:
        """Makes the tables of some schemas; messages of other tables are dropped."""
        self._units = units
        self._schemas = schemas
        self._holders: set[str] = set()
        self._parts: dict[str, list[Part]] = {}
        self._rows: dict[str, list[tuple[int, Row]]] = {}
        self._row_bytes = 0
        self._pieces: dict[str, list[_Piece]] = {}
        self._closed: list[tuple[Places, Places]] = []
        self._closed_alone = array("q"), array("q")
        self._errors: list[dict[str, Any]] = []

    def add(self, part: Part) -> None:
        """Takes messages that were read in a wave."""
        name = self._name(part.described)
        if name is None or not len(part.at):
            return
        parts = self._parts.setdefault(name, [])
        parts.append(part)
        if len(parts) == _MOST_PARTS:
            self._join(name)

    def add_alone(self, unit: int, rows: list[Row]) -> None:
        """Takes a message that was read alone, and the bodies inside."""
        for row in rows:
            name = self._name(row.described)
            if name is not None:
                self._rows.setdefault(name, []).append((unit, row))
        self._row_bytes += rows[0].end - rows[0].at
        if self._row_bytes > _MOST_ROW_BYTES:
            self._convert()

    def close(self, at: Places, end: Places) -> None:
        """Says where holders end, by where they begin; one that is never closed ends with its unit."""
        self._closed.append((at, end))

    def close_alone(self, at: int, end: int) -> None:
        """Does the same for one holder."""
        self._closed_alone[0].append(at)
        self._closed_alone[1].append(end)

    def refuse(self, unit: int, error: WireError, rest: bytes) -> None:
        """Takes the error of a unit, with its offset in the buffer, and the bytes from the refused message on."""
        offset = error.offset - int(self._units.start[unit])
        said = (unit, offset, error.field, type(error).__name__, error.found, rest)
        self._errors.append(dict(zip(_SAID, said, strict=True)))

    def finish(self) -> Decoded:
        """Makes the tables."""
        for name in list(self._parts):
            self._join(name)
        self._convert()
        tables = {name: self._whole(name) for name in self._schemas if name in self._pieces}
        return Decoded(tables, self._refused())

    def _refused(self) -> pa.RecordBatch:
        if not self._errors:
            return pa.RecordBatch.from_arrays([nulls(field.type, 0) for field in ERRORS], schema=ERRORS)
        self._errors.sort(key=_unit_of)
        return pa.RecordBatch.from_pylist(self._errors, ERRORS)

    def _name(self, described: shape.Message) -> str | None:
        """Returns the table of a message, None when it is not wanted."""
        name = names.layer_name(described)
        if name not in self._schemas:
            return None
        if isinstance(described.fields[-1], shape.Messages):
            self._holders.add(name)
        return name

    # From waves -------------------------------------------------------------------------------------

    def _join(self, name: str) -> None:
        """Makes a piece of the parts of a table."""
        parts, schema = self._parts.pop(name), self._schemas[name]
        units, at, end = (
            _one_behind_the_other([getattr(part, of) for part in parts]) for of in ("units", "at", "end")
        )
        within = join(
            [(part.within if part.within is None else Numbers(part.within), len(part.at)) for part in parts]
        )
        wanted = set(schema.names)
        layers = [
            Struct(len(part.at), {of: part.columns[of] for of in part.columns if of in wanted})
            for part in parts
        ]
        columns = join_all([(layer, layer.rows) for layer in layers])
        if len(parts) > 1 and (at[1:] < at[:-1]).any():
            order = np.argsort(at, kind="stable")
            units, at, end = units.take(order), at.take(order), end.take(order)
            within = within and pick(within, order)
            columns = {of: pick(column, order) for of, column in columns.items()}
        start = self._units.start.take(units)
        columns |= {_UNIT: Numbers(units), _OFFSET: Numbers(at - start), _LENGTH: Numbers(end - at)}
        if isinstance(within, Numbers):
            columns[_WITHIN] = Numbers(within.values - start, within.present)
        arrays = [
            to_arrow(columns.get(field.name), field.type, len(at), self._units.data) for field in schema
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        self._pieces.setdefault(name, []).append(_Piece(batch, units, at))

    # From messages read alone -----------------------------------------------------------------------

    def _convert(self) -> None:
        """Makes pieces of the messages that were read alone."""
        for name, rows in self._rows.items():
            rows.sort(key=_begin_of)
            units = np.array([unit for unit, _ in rows], np.int64)
            at = np.array([row.at for _, row in rows], np.int64)
            start = self._units.start.take(units)
            end = np.array([row.end for _, row in rows], np.int64)
            within = np.array([-1 if row.within is None else row.within for _, row in rows], np.int64)
            columns: dict[str, Column] = {
                _UNIT: Numbers(units),
                _OFFSET: Numbers(at - start),
                _LENGTH: Numbers(end - at),
                _WITHIN: Numbers(within - start, within >= 0),
            }
            schema = self._schemas[name]
            arrays = [
                to_arrow(columns[field.name], field.type, len(rows), self._units.data)
                if field.name in columns
                else of_values([row.values.get(field.name) for _, row in rows], field.type)
                for field in schema
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            self._pieces.setdefault(name, []).append(_Piece(batch, units, at))
        self._rows.clear()
        self._row_bytes = 0

    # To tables --------------------------------------------------------------------------------------

    def _whole(self, name: str) -> pa.RecordBatch:
        """Returns a table."""
        pieces = self._pieces.pop(name)
        batch, units, at = pieces[0]
        if len(pieces) > 1:
            at = np.concatenate([piece.at for piece in pieces])
            order = np.argsort(at, kind="stable")
            at, units = at.take(order), np.concatenate([piece.units for piece in pieces]).take(order)
            batch = pa.concat_batches([piece.batch for piece in pieces]).take(as_array(order, pa.int64()))
        if name in self._holders:
            length = as_array((self._ends(units, at) - at).astype(np.int32), pa.int32())
            batch = batch.set_column(
                batch.schema.get_field_index(_LENGTH), batch.schema.field(_LENGTH), length
            )
        return batch

    def _ends(self, units: Places, at: Places) -> Places:
        """Returns where holders end that begin, in order, at some places."""
        ends = self._units.end.take(units)
        closed = [*self._closed, tuple(np.frombuffer(one, np.int64) for one in self._closed_alone)]
        begins, behind = (np.concatenate(one) for one in zip(*closed, strict=True))
        places = np.minimum(np.searchsorted(at, begins), len(at) - 1)
        known = at.take(places) == begins
        ends[places[known]] = behind[known]
        return ends


def _one_behind_the_other(arrays: list[Places]) -> Places:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _unit_of(error: dict[str, Any]) -> int:
    return int(error[_UNIT])


def _begin_of(row: tuple[int, Row]) -> int:
    return row[1].at
