"""All readers on the same input: units that were made, or a capture."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from fuzz.readers import by_columns, by_scapy, by_tshark
from fuzz.readers.carry import carried
from fuzz.readers.compare import agree
from fuzz.readers.said import Complaint, Reading
from fuzz.readers.units import Unit, UnitKind
from scapy_layers.tshark import is_there

_NOTHING = Reading(complaints=(Complaint(0, "unit", "all of it", "a unit", "nothing"),))
"""What is said of a unit that a reader does not have."""


class Read(NamedTuple):
    """What all readers say.

    Attributes:
        units: What was read.
        readings: Of each reader one for each unit.
    """

    units: list[Unit]
    readings: dict[str, Sequence[Reading]]


def read_units(
    units: Sequence[Unit], *, low_latency: bool = False, compression: bool = False, tshark: bool = True
) -> Read:
    """Reads units that were made; tshark gets them in a capture, in sessions as agreed with the arguments.

    Args:
        units: What is read.
        low_latency: See ``carry.carried``.
        compression: See there.
        tshark: Ask tshark as well, when it is there.
    """
    capture, placed = carried(units, low_latency=low_latency, compression=compression)
    readings: dict[str, Sequence[Reading]] = {
        "scapy": [by_scapy.reading(unit) for unit in placed],
        "columns": by_columns.readings(placed),
    }
    if tshark and is_there():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "units.pcap"
            path.write_bytes(capture)
            readings["tshark"] = _of_units(placed, by_tshark.shown(path, len(placed)))
    return Read(placed, readings)


def _of_units(units: Sequence[Unit], found: Sequence[by_tshark.Shown]) -> list[Reading]:
    """Finds the reading of each unit by its packet: the batch, or what its last fragment completes."""
    told = {(one.packet, one.fragments): one.reading for one in reversed(found)}
    # Where a script failed there is one reading of the packet, whatever it carries.
    return [
        told.get((unit.packet, unit.kind is UnitKind.NETWORK)) or told.get((unit.packet, False)) or _NOTHING
        for unit in units
    ]


class Order(Enum):
    """Which packets tshark may tell what of a capture with."""

    SAME = auto()
    """The same as the layers."""
    LATER = auto()
    """Later ones too: what only the bytes behind it show to be a batch it tells with the packet that has those."""
    ANY = auto()
    """Any: segments were out of order."""


def read_capture(
    path: Path, *, tshark: bool = True, options: Sequence[str] = (), order: Order = Order.SAME
) -> Read:
    """Reads a capture: what is carried, put together and decompressed in it.

    Args:
        path: The capture.
        tshark: Ask tshark as well, when it is there.
        options: What it is told besides.
        order: In which packets tshark may tell what.
    """
    heard = [unit._replace(about=path.name) for unit in by_scapy.units_of(path) if unit.data]
    found: dict[str, list[tuple[int, Reading]]] = {"columns": by_columns.readings_of(path)}
    if tshark and is_there():
        wanted = {unit.packet for unit in heard}
        found["tshark"] = [
            (one.packet, one.reading)
            for one in by_tshark.shown(path, max(wanted, default=0), options=options)
            # It shows all datagrams on its ports, and batches without a byte.
            if (one.packet in wanted or not one.datagram) and one.reading != Reading()
        ]
    return _aligned(heard, found, order)


def _aligned(heard: Sequence[Unit], found: Mapping[str, Sequence[tuple[int, Reading]]], order: Order) -> Read:
    """Puts what readers say of the same unit together: those of a packet in order.

    What others have and the layers do not is a unit without bytes.
    """
    by_packet: dict[int, list[Unit]] = defaultdict(list)
    for unit in heard:
        by_packet[unit.packet].append(unit)
    told: dict[int, dict[str, list[Reading]]] = defaultdict(lambda: {reader: [] for reader in found})
    for reader, readings in found.items():
        moved = _MOVED.get(order) if reader == "tshark" else None
        for packet, reading in moved(by_packet, readings) if moved else readings:
            told[packet][reader].append(reading)
    units: list[Unit] = []
    aligned: dict[str, list[Reading]] = {reader: [] for reader in ("scapy", *found)}
    for packet in sorted(by_packet.keys() | told.keys()):
        most = max(len(by_packet[packet]), *map(len, told[packet].values()))
        for index in range(most):
            here = Unit(UnitKind.BATCH, b"", packet, "what the layers do not find")
            here = _item(by_packet[packet], index, here)
            units.append(here)
            aligned["scapy"].append(by_scapy.reading(here))
            for reader, of_packet in told[packet].items():
                # tshark reads packets as they come; it cannot know yet.
                silent = here.belated and reader == "tshark"
                otherwise = aligned["scapy"][-1] if silent else _NOTHING
                aligned[reader].append(_item(of_packet, index, otherwise))
    return Read(units, dict(aligned))


def _in_time(
    by_packet: Mapping[int, Sequence[Unit]], readings: Sequence[tuple[int, Reading]]
) -> Iterator[tuple[int, Reading]]:
    """Yields readings with the packets in which the units end."""
    told: dict[int, list[Reading]] = defaultdict(list)
    for packet, reading in readings:
        told[packet].append(reading)
    early = {packet: list(units) for packet, units in by_packet.items() if len(units) > len(told[packet])}
    for packet, of_packet in sorted(told.items()):
        late = len(of_packet) - len(by_packet.get(packet, ()))
        for reading in of_packet:
            began = _began(early, packet, reading) if late > 0 else None
            late -= began is not None
            yield packet if began is None else began, reading


def _in_any_packet(
    by_packet: Mapping[int, Sequence[Unit]], readings: Sequence[tuple[int, Reading]]
) -> Iterator[tuple[int, Reading]]:
    """Yields readings with the packets in which the layers have what is read like this."""
    left = list(readings)
    for unit in chain.from_iterable(units for _, units in sorted(by_packet.items())):
        mine = by_scapy.reading(unit)
        found = [one for one in left if agree(mine, one[1])]
        if found:
            nearest = min(found, key=lambda one: abs(one[0] - unit.packet))
            left.remove(nearest)
            yield unit.packet, nearest[1]
    # What agrees with nothing is a difference where it stands.
    yield from left


def _began(early: Mapping[int, list[Unit]], packet: int, reading: Reading) -> int | None:
    """Returns an earlier packet in which a unit ended that is read like this, and takes the unit away."""
    for before, units in sorted(early.items()):
        for unit in units if before < packet else ():
            if agree(by_scapy.reading(unit), reading):
                units.remove(unit)
                return before
    return None


_MOVED = {Order.LATER: _in_time, Order.ANY: _in_any_packet}

T = TypeVar("T")


def _item(items: Sequence[T], index: int, otherwise: T) -> T:
    return items[index] if index < len(items) else otherwise
