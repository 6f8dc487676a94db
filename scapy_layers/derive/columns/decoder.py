"""Units to tables: waves over all units at once, the first message of every unit, then the second."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from scapy_layers import shape
from scapy_layers.codes import Kind
from scapy_layers.derive.columns.cursor import Cursor
from scapy_layers.derive.columns.decoded import Decoded
from scapy_layers.derive.columns.rowwise import Rowwise, nothing, unknown
from scapy_layers.derive.columns.schema import PLACE, Shapes, schemas
from scapy_layers.derive.columns.scope import Part, groups
from scapy_layers.derive.columns.tables import Tables
from scapy_layers.derive.columns.units import Places, UnitKind, Units
from scapy_layers.derive.columns.walk import Walk
from scapy_layers.errors import WireError
from scapy_layers.primitives import Reader

Wanted = Mapping[str, Collection[str] | None]
"""The tables to make, each with the columns wanted besides its place; None for all."""

FEW = 8
"""So few messages of one kind are read one by one: a wave costs more."""

_IDS = 32


class CrowdedError(Exception):
    """There are more messages in some units than were to be decoded at once.

    Attributes:
        parts: Into how many parts to cut the units, by what was read of them.
    """

    def __init__(self, parts: int) -> None:
        super().__init__(f"more messages than were asked for, about {parts} times as many")
        self.parts = parts


class Decoder:
    """Decodes many units at once.

    Attributes:
        schemas: The schema of every table it makes.
    """

    def __init__(self, shapes: Shapes, wanted: Wanted | None = None) -> None:
        """Prepares the steps for every message.

        Args:
            shapes: ``catalogue.shapes()``; they can be pickled, and so can a decoder.
            wanted: Tables and columns to make; everything when None. All bytes are checked in any case.

        Raises:
            KeyError: A table or column is wanted that does not exist.
        """
        self._given = dict(shapes), wanted
        self._plan = _Plan(dict(shapes))
        self.schemas = _chosen(schemas(shapes), wanted)

    def __reduce__(self) -> tuple[type[Decoder], tuple[Shapes, Wanted | None]]:
        return type(self), self._given

    def decode(self, units: Units, most: int | None = None) -> Decoded:
        """Decodes units: some 16,000 at a time are fastest, because what is known of so many fits into the caches.

        Args:
            units: What to decode.
            most: How many messages to decode, about, bodies aside: rows take many times the bytes of a small message.
                Looked at between waves, so a few units may have any number. All when None.

        Raises:
            ValueError: They are not what ``Units`` says.
            CrowdedError: There are more messages than that.
        """
        units = units.checked()
        return _Run(self._plan, units, Tables(units, self.schemas)).decode(most)


def _chosen(every: dict[str, pa.Schema], wanted: Wanted | None) -> dict[str, pa.Schema]:
    if wanted is None:
        return every
    chosen: dict[str, pa.Schema] = {}
    for name, columns in wanted.items():
        if name not in every:
            raise KeyError(f"no table {name!r}, there are {', '.join(every)}")
        if columns is None:
            chosen[name] = every[name]
            continue
        missing = sorted(set(columns) - set(every[name].names))
        if missing:
            raise KeyError(f"no column {missing[0]!r} in {name}, there are {', '.join(every[name].names)}")
        kept = {field.name for field in PLACE} | set(columns)
        chosen[name] = pa.schema([field for field in every[name] if field.name in kept])
    return chosen


class Holder(NamedTuple):
    """A message that others follow inside.

    Attributes:
        outer: The message.
        inside: What may follow.
    """

    outer: shape.Message
    inside: shape.Messages


class _Plan:
    """What may come next in each state of a unit, and how it is read.

    The states of a unit: first the UnitKind, behind these one for each holder.

    Attributes:
        walk: Reads many messages at once.
        rowwise: Reads one.
    """

    def __init__(self, shapes: Shapes) -> None:
        self.walk = Walk(shapes)
        self.rowwise = Rowwise(shapes)
        self._holders = [
            Holder(message, message.fields[-1])
            for message in shapes.values()
            if isinstance(message.fields[-1], shape.Messages)
        ]
        self._next: list[tuple[shape.Message | None, Holder | None]] = []
        for kinds in ((Kind.NETWORK, Kind.TRANSPORT), (Kind.SCOUTING,), (Kind.NETWORK,)):
            for number in range(_IDS):
                found = (shapes.get((kind, number)) for kind in kinds)
                self._next.append((next((message for message in found if message), None), None))
        for holder in self._holders:
            for number in range(_IDS):
                if number in holder.inside.ids:
                    self._next.append((shapes[holder.inside.kind, number], holder))
                else:
                    self._next.append(self._next[number])

    def next(self, state: int, number: int) -> tuple[shape.Message | None, Holder | None]:
        """Returns the message that an id stands for, None when there is none, and the holder it is in."""
        return self._next[state * _IDS + number]

    def state_behind(self, message: shape.Message) -> int:
        """Returns the state of a batch behind a message that is in no holder."""
        for index, holder in enumerate(self._holders):
            if holder.outer is message:
                return len(UnitKind) + index
        return UnitKind.BATCH


class _Run:
    """One run over some units.

    Every message of a unit is read once, wherever it stands; the first one that is refused ends its unit.
    """

    def __init__(self, plan: _Plan, units: Units, tables: Tables) -> None:
        self._plan = plan
        self._units = units
        self._tables = tables
        self._raw: bytes | None = None
        self._pos = np.array(units.start, np.int64)
        self._state = np.array(units.kind, np.uint8)
        self._holder_at = np.zeros(len(units.start), np.int64)

    def decode(self, most: int | None) -> Decoded:
        """Reads all units to their ends; raises ``CrowdedError`` behind so many messages."""
        units = self._units
        empty = (units.start >= units.end) & (units.kind != UnitKind.BATCH)
        for unit in np.flatnonzero(empty).tolist():
            start = int(units.start[unit])
            self._tables.refuse(unit, nothing(start), b"")
        active = np.flatnonzero(self._pos < units.end)
        read = 0
        while len(active) > FEW:
            if most is not None and read + len(active) > most:
                raise CrowdedError(self._parts(read or len(active), most))
            self._wave(active)
            read += len(active)
            active = active[self._pos.take(active) < units.end.take(active)]
        for unit in active.tolist():
            while self._pos[unit] < units.end[unit]:
                self._one(unit)
        return self._tables.finish()

    def _parts(self, read: int, most: int) -> int:
        """Returns how many times too many messages there are, if the rest are as large as those that were read."""
        units = self._units
        share = float((self._pos - units.start).sum()) / float((units.end - units.start).sum())
        return max(2, ceil(read / (share or 1) / most))

    def _wave(self, active: Places) -> None:
        """Reads the next message of some units."""
        pos = self._pos.take(active)
        header = self._units.data.take(pos) & 0x1F
        for key, rows in groups(self._state.take(active).astype(np.uint16) * _IDS + header):
            of = active if rows is None else active.take(rows)
            message, holder = self._plan.next(*divmod(key, _IDS))
            if message is None or len(of) <= FEW:
                for unit in of.tolist():
                    self._one(unit)
            else:
                self._many(of, pos if rows is None else pos.take(rows), message, holder)

    def _many(self, of: Places, at: Places, message: shape.Message, holder: Holder | None) -> None:
        """Reads one kind of message in some units."""
        cursor = Cursor(self._units.data, at, self._units.end.take(of))
        within = self._holder_at.take(of) if holder else None
        parts: list[Part] = []
        self._plan.walk.messages(cursor, message, of, within, parts)
        end, out = cursor.pos, cursor.out
        alone: list[int] = []
        if out is not None and out.any():
            alone = of[out].tolist()
            kept = np.ones(len(self._pos), bool)
            kept[alone] = False
            parts = [part.pick(np.flatnonzero(kept.take(part.units))) for part in parts]
            of, at, end = of[~out], at[~out], end[~out]
        for part in parts:
            self._tables.add(part)
        if holder is None:
            state = self._state.take(of)
            closing = state >= len(UnitKind)
            if closing.any():
                self._tables.close(self._holder_at.take(of[closing]), at[closing])
            single = (state == UnitKind.SCOUTING) | (state == UnitKind.NETWORK)
            if single.any():
                end = np.where(single, self._units.end.take(of), end)
            self._state[of] = self._plan.state_behind(message)
            self._holder_at[of] = at
        self._pos[of] = end
        for unit in alone:
            self._one(unit)

    def _one(self, unit: int) -> None:
        """Reads the next message of one unit, or refuses it and so ends the unit."""
        if self._raw is None:
            self._raw = self._units.data.tobytes()
        at, end, state = int(self._pos[unit]), int(self._units.end[unit]), int(self._state[unit])
        number = self._raw[at] & 0x1F
        message, holder = self._plan.next(state, number)
        if holder is None and state >= len(UnitKind):
            self._tables.close_alone(int(self._holder_at[unit]), at)
            self._state[unit] = UnitKind.BATCH
        reader = Reader(self._raw, at, end)
        try:
            if message is None:
                raise unknown(_UNKNOWN.get(state, Kind.TRANSPORT), number, at)
            try:
                rows = self._plan.rowwise.message(
                    reader, message, int(self._holder_at[unit]) if holder else None
                )
            except WireError as error:
                place = f"{holder.outer.name}.{holder.inside.name}.{message.name}" if holder else message.name
                raise error.within(place) from None
        except WireError as error:
            if holder:
                self._tables.close_alone(int(self._holder_at[unit]), at)
            self._tables.refuse(unit, error, self._raw[at:end])
            self._pos[unit] = end
            return
        self._tables.add_alone(unit, rows)
        if holder is None:
            self._state[unit] = self._plan.state_behind(message)
            self._holder_at[unit] = at
        self._pos[unit] = end if state in _UNKNOWN else reader.at


_UNKNOWN = {int(UnitKind.SCOUTING): Kind.SCOUTING, int(UnitKind.NETWORK): Kind.NETWORK}
"""What the id of units of one message is of, when it is none."""
