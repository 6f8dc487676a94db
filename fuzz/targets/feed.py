"""What nodes would get, as bytes: the cases of the campaigns with nominal values in place of live ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from fuzz.campaigns.base import Campaign, Setting
from fuzz.plan import Numbered, Plan, merged
from fuzz.player.pipe import EARLY, FIRST_SN
from fuzz.readers.by_scapy import kind_of_datagram
from fuzz.readers.units import Unit, UnitKind
from fuzz.script import PREFIXES, Do, Step
from fuzz.states import State
from scapy_layers.batch import PREFIX
from scapy_layers.primitives import write_vle

ZID = bytes(range(1, 17))

MOST_TIMES = 3
"""A step that sends a message many times sends it as often to a reader, which remembers nothing of it."""

LONGEST = 0xFF00
"""Bytes of a unit at most: what a datagram carries."""

SPOILED = 0.15
"""Share of the streams that are cut or have a byte changed, lengths included."""


class Nominal(Mapping[str, bytes]):
    """Live values of a session that does not exist: those that are due are counted on."""

    def __init__(self) -> None:
        self._numbers = {"sn": FIRST_SN, "sn_be": FIRST_SN}
        self._values = {**EARLY, "zid": ZID, "count": b"\x01", "digits": b"000001"}

    def __getitem__(self, name: str) -> bytes:
        name = name.partition("@")[0]
        if name in self._numbers:
            self._numbers[name] += 1
            return write_vle(self._numbers[name] - 1)
        if name.startswith("from ") and name[5:].isdecimal():
            return write_vle(int(name[5:]))
        # A name that is not known here is a value that only some states have.
        return self._values.get(name, b"\x01")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class Input:
    """What one case gives a reader.

    Attributes:
        numbered: The case.
        units: Batches and datagrams, without lengths in front.
        stream: The same as it travels on a stream link; empty for datagrams.
        prefix: Bytes of the lengths in it.
    """

    numbered: Numbered
    units: tuple[Unit, ...]
    stream: bytes = b""
    prefix: int = PREFIX


def inputs(campaigns: Sequence[Campaign], setting: Setting) -> Iterator[Input]:
    """Yields what the cases of campaigns give, in the order in which a run plays them; the same seed gives the same."""
    rng = random.Random(f"{setting.seed} streams")
    cases = merged([Plan(campaign, setting) for campaign in campaigns], setting.seed)
    for numbered in cases:
        found = input_of(numbered, rng)
        if found.units or found.stream:
            yield found


def input_of(numbered: Numbered, rng: random.Random) -> Input:
    """Returns what a case gives."""
    values = Nominal()
    scouting = numbered.case.state is State.SCOUTING
    units: list[Unit] = []
    stream, prefix = bytearray(), PREFIX
    for step in numbered.case.steps:
        if step.do is not Do.SEND:
            continue
        for data in _sent(step, values):
            size = _prefix_of(step)
            if size:
                prefix = size
                stream += data
            if size < len(data):
                raw = data[size : size + LONGEST]
                kind = kind_of_datagram(raw) if scouting else UnitKind.BATCH
                units.append(Unit(kind, raw, about=f"{numbered.campaign.name} {numbered.number}"))
    return Input(numbered, tuple(units), spoiled(bytes(stream), rng), prefix)


def _sent(step: Step, values: Nominal) -> Iterator[bytes]:
    for _ in range(min(step.times, MOST_TIMES)):
        yield step.data.fill(values)


def _prefix_of(step: Step) -> int:
    """Returns how many bytes of a step are the length in front."""
    first = step.data.pieces[0] if step.data.pieces else b""
    if isinstance(first, bytes):
        return 0
    # Of a length that is a lie it is not known how many bytes it has; the true number is as good as any.
    return PREFIXES.get(first.partition("|")[0], 0)


def spoiled(stream: bytes, rng: random.Random) -> bytes:
    """Returns a stream, now and then with something wrong with it."""
    if not stream or rng.random() >= SPOILED:
        return stream
    at = int(rng.random() * len(stream))
    if rng.random() < 0.5:
        return stream[:at]
    return stream[:at] + bytes([stream[at] ^ 1 << int(rng.random() * 8)]) + stream[at + 1 :]


def pieces(stream: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yields a stream in segments of all sizes."""
    at = 0
    for size in cycle([1 + int(rng.random() * 40) for _ in range(7)]):
        if at >= len(stream):
            return
        yield stream[at : at + size]
        at += size
