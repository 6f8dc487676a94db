"""The Wireshark dissector in tshark: no Lua error, no hang, and the same messages and fields as the layers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from conformance.errors import HarnessError
from fuzz.oracles import Harm
from fuzz.readers import dissector
from fuzz.readers.units import Unit, UnitKind
from fuzz.targets.base import Fault, Target
from fuzz.targets.columns import differing
from fuzz.targets.feed import Input

_VARIES = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"")


class Dissector(Target):
    """``zenoh.lua`` in tshark."""

    name: ClassVar[str] = "lua"
    purpose: ClassVar[str] = "zenoh.lua in tshark: no Lua error, no hang, the same fields as the layers"
    each: ClassVar[int] = 400

    def start(self) -> None:
        """See Target."""
        try:
            import fuzz.readers.together  # noqa: F401  (only whether it can be had)
        except ImportError as error:
            raise HarnessError(
                f"{error}; install the extra 'columns': pip install 'zenoh-harness[columns]'"
            ) from None
        if not dissector.is_there():
            raise HarnessError("tshark not found; install Wireshark's command line (apt install tshark)")

    def examine(self, some: Sequence[Input], seed: int) -> Iterable[Fault]:
        """See Target."""
        units = [(index, unit) for index, one in enumerate(some) for unit in one.units if unit.data]
        made = dissector.capture_of([unit.data for _, unit in units], seed)
        yield from self._of_capture(made.file(), made.number)
        yield from self._of_units(units)

    def shown(self, data: bytes, form: str) -> Iterable[Fault]:
        """See Target."""
        if form == "pcap":
            return self._of_capture(data, len(data) // 100)
        return self._of_units([(0, Unit(UnitKind(form), data))])

    @staticmethod
    def _of_capture(capture: bytes, packets: int) -> Iterator[Fault]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "input.pcap"
            path.write_bytes(capture)
            for fault in dissector.faults(path, packets):
                harm = Harm.STALL if fault.what.startswith("no end") else Harm.PANIC
                yield Fault(f"{harm} lua {_steady(fault.what)}", fault.what, -1, capture, "pcap")

    @staticmethod
    def _of_units(units: Sequence[tuple[int, Unit]]) -> Iterator[Fault]:
        if not units:
            return
        from fuzz.readers.by_tshark import TsharkFailed
        from fuzz.readers.together import read_units

        try:
            read = read_units([unit for _, unit in units])
        except TsharkFailed as error:
            said = str(error).partition(": ")[2]
            yield Fault(f"{Harm.PANIC} lua {_steady(said)}", said[:300], -1, b"", "")
            return
        except AssertionError as error:
            yield Fault(f"{Harm.DIFFERS} scapy strict and tolerant", str(error)[:300], -1, b"", "")
            return
        yield from differing(read, [index for index, _ in units])


def _steady(text: str) -> str:
    """Returns a message without what varies: numbers, names in quotes."""
    return _VARIES.sub("..", text)[:80]
