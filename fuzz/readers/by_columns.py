"""What the columns say: rows of all tables back into messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fuzz.readers.said import Entry, Part, Reading, Refusal, Said
from fuzz.readers.units import Unit, UnitKind
from scapy_layers import names, shape, tables
from scapy_layers.catalogue import shapes
from scapy_layers.derive import columns

OTHERS = "other_extensions"

_KINDS = {
    UnitKind.BATCH: columns.UnitKind.BATCH,
    UnitKind.SCOUTING: columns.UnitKind.SCOUTING,
    UnitKind.NETWORK: columns.UnitKind.NETWORK,
}

_MESSAGES = {names.layer_name(described): described for described in shapes().values()}

Row = Mapping[str, Any]


def decode(units: Sequence[Unit]) -> columns.Decoded:
    """Decodes units all at once; some bytes of no unit stand between them."""
    between = b"\xff\x05\x1d"
    data = between.join([b"", *(unit.data for unit in units), b""])
    sizes = np.array([len(unit.data) for unit in units], dtype=np.int64)
    start = np.cumsum(sizes + len(between)) - sizes
    kinds = np.array([int(_KINDS[unit.kind]) for unit in units], dtype=np.uint8)
    decoder = columns.Decoder(shapes())
    return decoder.decode(columns.Units(np.frombuffer(data, dtype=np.uint8), start, start + sizes, kinds))


def readings(units: Sequence[Unit]) -> list[Reading]:
    """Reads units."""
    decoded = decode(units)
    return assembled(decoded.tables, decoded.errors, len(units))


def readings_of(path: Path) -> list[tuple[int, Reading]]:
    """Returns what the tables of a capture say: of each batch, and of what fragments make behind it, with its packet."""
    messages: dict[tuple[int, bool], list[Said]] = defaultdict(list)
    refused: dict[tuple[int, bool], Refusal] = {}
    packets: dict[tuple[int, bool], int] = {}
    for made in tables.read(path):
        for name, table in made.items():
            if name not in _MESSAGES and name != "errors":
                continue
            for row in table.to_pylist():
                unit = row["batch"], row["pieces"] > 0
                packets[unit] = row["packet"]
                if name == "errors":
                    refused[unit] = Refusal(row["offset"], row["kind"], row["field"])
                else:
                    messages[unit].append(said(name, row))
    for unit in [
        unit for unit in packets if unit[1] and not messages[unit] and refused[unit].field == "header"
    ]:
        # What fragments make is no network message: the others give it up.
        del packets[unit]
    return [
        (packets[unit], Reading(tuple(sorted(messages[unit], key=_offset)), refused.get(unit)))
        for unit in sorted(packets)
    ]


def assembled(made: Mapping[str, pa.RecordBatch], errors: pa.RecordBatch, count: int) -> list[Reading]:
    """Puts rows of all tables back in order, and one unit to one reading."""
    messages: dict[int, list[Said]] = defaultdict(list)
    for name, table in made.items():
        for row in table.to_pylist():
            messages[row["unit"]].append(said(name, row))
    refused = {row["unit"]: Refusal(row["offset"], row["kind"], row["field"]) for row in errors.to_pylist()}
    return [Reading(tuple(sorted(messages[unit], key=_offset)), refused.get(unit)) for unit in range(count)]


def said(name: str, row: Row) -> Said:
    """Makes a message of a row of the table ``name``."""
    described = _MESSAGES[name]
    entries = tuple(_entries(name, described.fields, row))
    return Said(
        row["offset"], row["length"], name, row["within"], entries, tuple(_parts(described.fields, row))
    )


def _offset(one: Said) -> int:
    return one.at


def _entries(  # noqa: C901, PLR0912  (one match over all kinds of shape)
    layer: str, described: Iterable[shape.Shape], row: Row
) -> Iterator[Entry]:
    """Yields what is not null, in wire order."""
    for one in described:
        match one:
            case shape.Packed():
                for bits in one.bits:
                    if bits.name not in names.SAID and row[bits.name] is not None:
                        yield Entry(layer, bits.name, row[bits.name])
            case shape.When():
                yield from _entries(layer, one.fields, row)
            case shape.Region():
                if row[one.name] is not None:
                    yield from _entries(names.layer_name(one), one.fields, row[one.name])
            case shape.Many():
                for item in row[one.name] or ():
                    if isinstance(item, dict):
                        yield from _entries(layer, one.item, item)
                    else:
                        (alone,) = names.fields_of(layer, one.item)
                        yield Entry(layer, alone.name, item)
            case shape.Chain() | shape.Body() | shape.Messages():
                pass
            case _:
                if row[one.name] is not None:
                    yield Entry(layer, one.name, row[one.name])


def _parts(described: Iterable[shape.Shape], row: Row) -> Iterator[Part]:
    """Yields the extensions that are there; only those without a struct have a header."""
    chains = [one for one in shape.walk(tuple(described)) if isinstance(one, shape.Chain)]
    forms: dict[str, list[shape.Extension]] = defaultdict(list)
    for extension in (extension for chain in chains for extension in chain.known):
        forms[names.layer_name(extension)].append(extension)
    for layer, known in forms.items():
        if row[layer] is not None:
            yield _part(layer, known, row[layer])
    for other in (row[OTHERS] or ()) if chains else ():
        yield Part(names.UNKNOWN_EXTENSION, other["header"], other["body"])


def _part(layer: str, forms: Sequence[shape.Extension], row: Row | bool) -> Part:
    if isinstance(row, bool):
        return Part(layer, 0, b"")  # it has no fields in any form
    # A struct has the fields of all forms of an extension, each once.
    met: set[str] = set()
    fields: list[shape.Shape] = []
    for form in forms:
        for one in shape.walk(form.fields):
            name = one.bits[0].name if isinstance(one, shape.Packed) else getattr(one, "name", "")
            if isinstance(one, shape.Chain) or (not isinstance(one, shape.When) and name not in met):
                met.add(name)
                fields.append(one)
    return Part(layer, 0, b"", tuple(_entries(layer, fields, row)), tuple(_parts(fields, row)))
