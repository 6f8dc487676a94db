"""Units to tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from scapy_layers import names, shape
from scapy_layers.codes import Kind
from scapy_layers.derive.columns.decoded import Decoded
from scapy_layers.derive.columns.rowwise import Row, Rowwise, nothing, unknown
from scapy_layers.derive.columns.schema import ERRORS, Shapes, schemas
from scapy_layers.derive.columns.units import MOST_BYTES, UnitKind, Units
from scapy_layers.errors import WireError
from scapy_layers.primitives import Reader

Wanted = Mapping[str, Collection[str] | None]


class Decoder:
    def __init__(self, shapes: Shapes, wanted: Wanted | None = None) -> None:
        self._shapes = dict(shapes)
        self._wanted = wanted
        self._rowwise = Rowwise(self._shapes)
        self.schemas = schemas(self._shapes)
        if wanted is not None:
            self.schemas = {n: s if wanted[n] is None else pa.schema([f for i, f in enumerate(s) if i < 4 or f.name in wanted[n]]) for n, s in self.schemas.items() if n in wanted}

    def __reduce__(self):
        return type(self), (self._shapes, self._wanted)

    def decode(self, units: Units) -> Decoded:
        if len(units.data) > MOST_BYTES:
            raise ValueError(f"{len(units.data)} bytes at once, at most {MOST_BYTES}: decode the units in several parts")
        rows: dict[str, list] = {}
        errors = []
        for unit, (start, end, kind) in enumerate(zip(units.start.tolist(), units.end.tolist(), units.kind.tolist())):
            raw = units.data[start:end].tobytes()
            reader = Reader(raw)
            frame = None
            try:
                while reader.left or kind != UnitKind.BATCH:
                    if not reader.left:
                        raise nothing()
                    at = reader.at
                    number = raw[at] & 0x1f
                    refused = at
                    if frame is not None:
                        holder, holds = frame
                        if number in holds.ids:
                            m = self._shapes[holds.kind, number]
                            try:
                                found = self._rowwise.message(reader, m, holder.at)
                            except WireError as e:
                                holder.values["#end"] = at
                                raise e.within(f"{holder.described.name}.{holds.name}.{m.name}") from None
                            self._keep(rows, unit, found)
                            holder.values["#end"] = reader.at
                            continue
                        frame = None
                    k = Kind.SCOUTING if kind == UnitKind.SCOUTING else Kind.NETWORK if kind == UnitKind.NETWORK or (Kind.NETWORK, number) in self._shapes else Kind.TRANSPORT
                    m = self._shapes.get((k, number))
                    if m is None:
                        raise unknown(k, number, at)
                    try:
                        found = self._rowwise.message(reader, m)
                    except WireError as e:
                        raise e.within(m.name) from None
                    self._keep(rows, unit, found)
                    if isinstance(m.fields[-1], shape.Messages):
                        frame = found[0], m.fields[-1]
                    if kind != UnitKind.BATCH:
                        break
            except WireError as e:
                at = refused if reader.left or raw else 0
                errors.append({"unit": unit, "offset": e.offset, "field": e.field, "kind": type(e).__name__, "found": e.found, "rest": raw[at:]})
        tables = {}
        for name, schema in self.schemas.items():
            if name in rows:
                tables[name] = pa.RecordBatch.from_pylist([{**row.values, "unit": unit, "offset": row.at, "length": row.values.get("#end", row.end) - row.at, "within": row.within} for unit, row in rows[name]], schema)
        return Decoded(tables, pa.RecordBatch.from_pylist(errors, ERRORS))

    def _keep(self, rows, unit: int, found: list[Row]) -> None:
        for row in found:
            rows.setdefault(names.layer_name(row.described), []).append((unit, row))
