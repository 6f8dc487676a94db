"""Where two readers of a capture part for the first time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.opinion.reading import Told


@dataclass(frozen=True, slots=True)
class Difference:
    """What tshark says otherwise.

    Attributes:
        capture: Name of the file.
        packet: Number of the packet in it.
        what: What differs: ``messages``, or a field of one.
        ours: What our decoder makes of it.
        theirs: What tshark makes of it.
    """

    capture: str
    packet: int
    what: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.capture}, packet {self.packet}: {self.what}: ours {self.ours}; tshark {self.theirs}"


def parting(ours: Sequence[Told], theirs: Sequence[Told]) -> tuple[str, str, str] | None:
    """Returns what differs first between two readings of a packet, and what each says; None when nothing does."""
    if [told.name for told in ours] != [told.name for told in theirs]:
        return "messages", _names(ours), _names(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        for name, value in mine.fields.items():
            if name in other.fields and other.fields[name] != value:
                return f"{mine.name}.{name}", str(value), str(other.fields[name])
    return None


def _names(told: Sequence[Told]) -> str:
    return " ".join(map(str, told)) or "nothing"
