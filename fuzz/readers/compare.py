"""Where two readings of the same units part for the first time, told so that it can be looked into at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from fuzz.readers.said import Entry, Part, Reading, Said
from fuzz.readers.units import Unit
from scapy_layers import names, shape
from scapy_layers.catalogue import shapes

Reader = str
"""``scapy``, ``tshark`` or ``columns``."""

REFERENCE: Reader = "scapy"


BY_DESIGN = {
    "reserved bits of value 0": "tshark shows reserved bits only when one is set, as they say nothing otherwise",
    "the end of a FRAME in which something is refused": "nobody knows it",
    "fields of the refused message": "tshark shows those in front of the fault; columns have rows of whole messages",
    "items of a list in which something is refused": "the layers keep none of the list",
    "the order of extensions": "a row of a table has a column for each",
    "datagrams of no session": "tshark shows all on its ports; the others those of a session that was heard to begin",
    "an unusual SCOUT, or one where none is expected": "only the HELLO behind it shows it to be one: tshark has passed it by then",
    "the packet of a batch that only the bytes behind it show to be one": "tshark tells it with the packet of those",
    "sessions in progress on other ports": "tshark recognises them by one whole segment, the others by several",
    "the first JOIN of a group on another port": "tshark recognises it only if nodes send such ones",
    "the packets of segments that are out of order": "Wireshark and the others name different ones of those",
    "what fragments make is no network message": "columns have a row of errors, the others give it up",
    "batches without a message": "columns have no row for them",
    "datagrams without a byte": "Wireshark calls no dissector for them",
}
"""What readers may say differently, and why."""


class Step(NamedTuple):
    """One thing that a reading says.

    Attributes:
        at: Where the message begins that it is about; the offset of a refusal.
        message: Its name; ``refusal`` at the end.
        field: What is said of it, ``zenoh.push.key_scope``.
        value: What it is.
    """

    at: int
    message: str
    field: str
    value: object

    @property
    def place(self) -> tuple[int, str, str]:
        """What it is about."""
        return self[:3]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing on which a reader does not agree with the layers.

    Attributes:
        unit: What was read.
        number: Which one of those that were compared, from 0.
        at: Where the message begins that it is about.
        message: Its name.
        field: What is said differently.
        values: What each reader says there; a reader that was not asked is not in it.
    """

    unit: Unit
    number: int
    at: int
    message: str
    field: str
    values: Mapping[Reader, str]

    def __str__(self) -> str:
        """All of it."""
        kind, data = self.unit.kind.value, self.unit.data
        where = f"{self.unit.about or 'unit'}, packet {self.unit.packet}, unit {self.number}"
        told = [
            f"{where}: {self.message} at byte {self.at}, {self.field}",
            *(f"  {reader:<8} {value}" for reader, value in self.values.items()),
            f"  bytes    {kind}:{data.hex()}",
        ]
        return "\n".join(told)


def first_difference(
    units: Sequence[Unit], readings: Mapping[Reader, Sequence[Reading]]
) -> Difference | None:
    """Returns the first difference between the layers and any other reader; None when all say the same."""
    return next(differences(units, readings), None)


def differences(units: Sequence[Unit], readings: Mapping[Reader, Sequence[Reading]]) -> Iterator[Difference]:
    """Yields the first difference in each unit that is read differently.

    Raises:
        ValueError: A reader has more or fewer readings than there are units.
    """
    for reader, read in readings.items():
        if len(read) != len(units):
            raise ValueError(f"{reader} has {len(read)} readings of {len(units)} units")
    for number, unit in enumerate(units):
        of_unit = {reader: read[number] for reader, read in readings.items()}
        found = _in_unit(of_unit)
        if found is not None:
            at, message, field, values = found
            yield Difference(unit, number, at, message, field, values)


def agree(one: Reading, other: Reading) -> bool:
    """Tells whether the layers and tshark say the same of a unit."""
    return _in_unit({REFERENCE: one, "tshark": other}) is None


def _in_unit(readings: Mapping[Reader, Reading]) -> _Found | None:
    reference = readings[REFERENCE]
    # Where a FRAME ends is not known when something in it is refused.
    whole = all(read.refusal is None for read in readings.values())
    steps = {
        reader: list(columnar_steps(read, whole) if reader == "columns" else wire_steps(read, whole))
        for reader, read in readings.items()
    }
    columnar = list(columnar_steps(reference, whole))
    for reader, told in steps.items():
        if reader == REFERENCE:
            continue
        if readings[reader].complaints and not told:
            return _complaint(reader, readings[reader])
        expected = columnar if reader == "columns" else steps[REFERENCE]
        for index in range(max(len(expected), len(told))):
            mine = expected[index] if index < len(expected) else None
            theirs = told[index] if index < len(told) else None
            if mine == theirs:
                continue
            place = (mine or theirs or expected[0]).place
            values = {name: _value_at(said, place, index) for name, said in steps.items()}
            values[REFERENCE] = _shown(mine, place)
            values[reader] = _shown(theirs, place)
            return *place, values
        if found := _complaint(reader, readings[reader]) or _started(reader, reference, readings[reader]):
            return found
    return None


_Found = tuple[int, str, str, dict[Reader, str]]
"""Place, message, field and values of a difference."""


def _complaint(reader: Reader, reading: Reading) -> _Found | None:
    for at, message, field, wanted, seen in reading.complaints:
        return at, message, field, {REFERENCE: wanted, reader: seen}
    return None


def _started(reader: Reader, reference: Reading, reading: Reading) -> _Found | None:
    """Compares what is shown of the message that is refused, as far as the other reader shows it."""
    mine = [entry for entry in reference.started or () if _is_shown(entry)]
    theirs = [entry for entry in reading.started or () if _is_shown(entry)]
    for entry in theirs:
        if not mine:
            break
        if mine[0] == entry:
            mine.pop(0)
        elif entry[:2] not in _LISTED:
            assert reading.refusal is not None
            field = f"zenoh.{entry.layer}.{entry.name}"
            return (
                reading.refusal.offset,
                "refused message",
                field,
                {REFERENCE: repr(mine[0]), reader: repr(entry)},
            )
    return None


def _listed() -> Iterator[tuple[str, str]]:
    """Yields the fields that stand in items of lists: of a refused list the layers keep only what is in front of it."""
    for message in shapes().values():
        for layer in (message, *names.inner_layers(message.fields)):
            for described in shape.walk(layer.fields):
                if isinstance(described, shape.Many):
                    inside = [(names.layer_name(layer), described.item)]
                    inside += [
                        (names.layer_name(one), one.fields) for one in names.inner_layers(described.item)
                    ]
                    for name, fields in inside:
                        yield from ((name, field.name) for field in names.fields_of(name, fields))


def _kinds() -> Iterator[tuple[str, str]]:
    """Yields each field of each layer, as steps have it, with the kind of value that it is."""
    for message in shapes().values():
        for layer in (message, *names.inner_layers(message.fields)):
            yield from _kinds_in(names.layer_name(layer), layer.fields)


def _kinds_in(layer: str, fields: tuple[shape.Shape, ...]) -> Iterator[tuple[str, str]]:
    for described in shape.walk(fields):
        if isinstance(described, shape.Many):
            yield from _kinds_in(layer, described.item)
        elif not isinstance(described, shape.When):
            vle = isinstance(described, shape.Packed) and described.vle
            kind = "vle" if vle else type(described).__name__.lower()
            yield from (
                (f"zenoh.{layer}.{field.name}", kind) for field in names.fields_of(layer, [described])
            )


@cache
def kinds() -> Mapping[str, str]:
    """Returns the kind of value of each field that steps may be about: ``vle``, ``zid``, ``countedbytes``."""
    return dict(_kinds())


NOTHING = "nothing"
"""What a reader says of a field that it does not have."""

_LISTED = frozenset(_listed())


def _value_at(steps: Sequence[Step], place: tuple[int, str, str], near: int) -> str:
    """Returns what is said about a place; of several the one nearest to an index."""
    fits = [index for index, step in enumerate(steps) if step.place == place]
    if not fits:
        return NOTHING
    return _shown(steps[min(fits, key=lambda index: abs(index - near))], place)


def _shown(step: Step | None, place: tuple[int, str, str]) -> str:
    if step is None:
        return NOTHING
    value = step.value.hex() if isinstance(step.value, bytes) else repr(step.value)
    if step.place == place:
        return value
    return f"{step.message} at byte {step.at}, {step.field} {value}"


# Steps --------------------------------------------------------------------------------------------


def wire_steps(reading: Reading, whole: bool) -> Iterator[Step]:
    """Yields all that a reading says, extensions as they stand in the chain."""
    for said in reading.messages:
        yield from _message(said, whole)
        yield from _entries(said, said.entries)
        yield from _chain(said, said.parts)
    yield from _refusal(reading)


def _message(said: Said, whole: bool) -> Iterator[Step]:
    yield Step(said.at, said.name, "within", said.within)
    if whole or said.name != "frame":
        yield Step(said.at, said.name, "length", said.size)


def _chain(said: Said, parts: Iterable[Part]) -> Iterator[Step]:
    for part in parts:
        yield Step(said.at, said.name, f"zenoh.{part.layer}", part.header)
        if part.unread:
            yield Step(said.at, said.name, f"zenoh.{part.layer} unread", part.body)
        yield from _entries(said, part.entries)
        yield from _chain(said, part.parts)


def columnar_steps(reading: Reading, whole: bool) -> Iterator[Step]:
    """Yields all that columns can say: of each known extension the first, all others as they are."""
    for said in reading.messages:
        yield from _message(said, whole)
        yield from _entries(said, said.entries, reserved=True)
        yield from _columns(said, said.parts)
    yield from _refusal(reading)


def _columns(said: Said, parts: Iterable[Part]) -> Iterator[Step]:
    known: dict[str, Part] = {}
    others: list[Part] = []
    for part in parts:
        if part.unread or part.layer in known or part.layer == names.UNKNOWN_EXTENSION:
            others.append(part)
        else:
            known[part.layer] = part
    for layer, part in sorted(known.items()):
        yield Step(said.at, said.name, f"zenoh.{layer}", "there")
        # A struct has one order for all forms of an extension.
        yield from _entries(said, sorted(part.entries, key=_place), reserved=True)
        yield from _columns(said, part.parts)
    for part in others:
        yield Step(said.at, said.name, f"other_extensions {part.header:#04x}", part.body)


def _entries(said: Said, entries: Iterable[Entry], *, reserved: bool = False) -> Iterator[Step]:
    for layer, name, value in entries:
        if reserved or _is_shown(Entry(layer, name, value)):
            yield Step(said.at, said.name, f"zenoh.{layer}.{name}", value)


def _is_shown(entry: Entry) -> bool:
    return bool(entry.value) or not entry.name.startswith("reserved")


def _place(entry: Entry) -> tuple[str, str]:
    return entry.layer, entry.name


def _refusal(reading: Reading) -> Iterator[Step]:
    if reading.refusal is not None:
        offset, kind, field = reading.refusal
        yield Step(offset, "refusal", "kind", kind)
        yield Step(offset, "refusal", "field", field)
