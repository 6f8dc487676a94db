"""The columns against the layers: the same bytes, and captures with them, must say the same."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import ClassVar

from conformance.errors import HarnessError
from fuzz.oracles import Harm
from fuzz.readers.compare import NOTHING
from fuzz.readers.dissector import capture_of
from fuzz.readers.units import Unit, UnitKind
from fuzz.states import State
from fuzz.targets.base import Fault, Target, failed, place_of
from fuzz.targets.feed import Input
from fuzz.targets.guard import Grows, Hangs, limits
from scapy_layers.capture import CaptureError
from scapy_layers.codes import Kind

SECONDS = 60.0
"""So many inputs at once may take so long."""

GROWTH = 1 << 30
"""Bytes of memory that they may take: columns hold all of them side by side, in every table, and the layers as well."""

CAPTURE_EVERY = 4
"""Every so manieth time the inputs are read from a capture as well: it takes longer than the inputs by themselves."""


class Columns(Target):
    """Tables of all messages, from units and from captures."""

    name: ClassVar[str] = "columns"
    purpose: ClassVar[str] = "the column decoder and the capture tables, against the layers"
    each: ClassVar[int] = 256

    def __init__(self) -> None:
        self._turn = 0

    def start(self) -> None:
        """See Target."""
        try:
            import fuzz.readers.by_columns  # noqa: F401  (only whether it can be had)
        except ImportError as error:
            raise HarnessError(
                f"{error}; install the extra 'columns': pip install 'zenoh-harness[columns]'"
            ) from None

    def examine(self, some: Sequence[Input], seed: int) -> Iterable[Fault]:
        """See Target."""
        units = [(index, unit) for index, one in enumerate(some) for unit in one.units]
        yield from self._of_units(units)
        self._turn += 1
        if self._turn % CAPTURE_EVERY == 0:
            capture = capture_of([unit.data for _, unit in units if unit.data], seed).file()
            yield from self._of_capture(capture)

    def shown(self, data: bytes, form: str) -> Iterable[Fault]:
        """See Target."""
        if form == "pcap":
            return self._of_capture(data)
        unit = Unit(UnitKind(form), data)
        alone = self._of_units([(0, unit)])
        # What a column says of one row may depend on the others.
        beside = self._of_units([(0, unit), *((-1, other) for other in companions())])
        return (fault for fault in chain(alone, beside) if fault.index == 0)

    def _of_units(self, units: Sequence[tuple[int, object]]) -> Iterator[Fault]:
        from fuzz.readers.together import read_units

        plain = [unit for _, unit in units if isinstance(unit, Unit)]
        try:
            with limits(SECONDS, GROWTH):
                read = read_units(plain, tshark=False)
        except (Exception, Hangs) as error:  # noqa: BLE001  (whatever it is, it is what this looks for)
            yield from self._apart(units, error)
            return
        yield from differing(read, [index for index, _ in units])

    def _apart(self, units: Sequence[tuple[int, object]], error: BaseException) -> Iterator[Fault]:
        """Yields a fault of all units together, with the units that bring it about when they are read alone."""
        if len(units) == 1:
            index, unit = units[0]
            assert isinstance(unit, Unit)
            yield failing("columns", error, index, unit.data, unit.kind.value)
            return
        half = len(units) // 2
        found = [*self._of_units(units[:half]), *self._of_units(units[half:])]
        yield from found or [failing("columns together", error, -1, b"", "")]

    @staticmethod
    def _of_capture(capture: bytes) -> Iterator[Fault]:
        from fuzz.readers.together import read_capture

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "input.pcap"
            path.write_bytes(capture)
            try:
                with limits(SECONDS, GROWTH):
                    read = read_capture(path, tshark=False)
            except CaptureError:
                return
            except (Exception, Hangs) as error:  # noqa: BLE001
                yield failing("columns of a capture", error, -1, capture, "pcap")
                return
        for fault in differing(read, []):
            yield replace(fault, detail=f"{fault.detail} in a capture", index=-1, data=capture, form="pcap")


@cache
def companions() -> tuple[Unit, ...]:
    """Returns messages of every kind, small and with all that they can have, with large numbers and with small ones."""
    from fuzz.campaigns.messages import KINDS, SENSE, Wish, forms, message_of
    from fuzz.campaigns.placing import placed

    small = {name: 1 for name, value in SENSE.items() if isinstance(value, int)}
    units = []
    for kind, cls in KINDS.items():
        wish = Wish(options=True, extensions=None, sense=small)
        for message in (*forms(kind).values(), message_of(cls, wish)):
            whole = placed(message, State.OPEN).message
            form = UnitKind.SCOUTING if whole.kind is Kind.SCOUTING else UnitKind.BATCH
            units.append(Unit(form, bytes(whole)))
    return tuple(units)


def differing(read: object, indexes: Sequence[int]) -> Iterator[Fault]:
    """Yields what readers say differently, one fault for each unit."""
    from fuzz.readers.compare import differences, kinds
    from fuzz.readers.together import Read

    assert isinstance(read, Read)
    for difference in differences(read.units, read.readings):
        field = difference.field.split("[")[0]
        odd = [name for name, value in difference.values.items() if value != difference.values["scapy"]]
        # Who says something else is more to blame than who has no such field.
        odd.sort(key=lambda name: difference.values[name] == NOTHING)
        who = odd[0] if odd else "scapy"
        values = "; ".join(f"{name} says {value}" for name, value in difference.values.items())
        yield Fault(
            f"{Harm.DIFFERS} {who} {difference.message} {field}",
            f"{difference.message} at byte {difference.at}, {difference.field}: {values}"[:400],
            indexes[difference.number] if indexes else -1,
            difference.unit.data,
            difference.unit.kind.value,
            f"{Harm.DIFFERS} {who} {kinds().get(field, field)}",
        )


def failing(name: str, error: BaseException, index: int, data: bytes, form: str) -> Fault:
    """Returns the fault of a reader that failed."""
    kind = type(error).__name__
    if isinstance(error, Grows):
        return Fault(f"{Harm.GROWTH} {name}", f"{kind}: {error}"[:300], index, data, form)
    if isinstance(error, Hangs):
        return Fault(
            f"{Harm.STALL} {name} {kind} {place_of(error)}", f"{kind}: {error}"[:300], index, data, form
        )
    return failed(name, error, index, data, form)
