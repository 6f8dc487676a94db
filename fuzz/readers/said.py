"""The common form into which every reader's answer is put, so that they can be compared.

A reading is what one reader says about one unit: its messages with all fields, and why the rest was refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Value = int | str | bytes
"""Numbers are numbers, text and ZenohIDs are ``str``, everything else is ``bytes``."""


class Entry(NamedTuple):
    """One field: ``zenoh.<layer>.<name>`` and its value."""

    layer: str
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Part:
    """One extension.

    Attributes:
        layer: As ``names.layer_name`` says; ``unknown_extension`` for one that the message does not define.
        header: Its header byte, Z clear.
        body: The bytes behind the header, and behind the length where there is one.
        unread: The body does not fit, and nodes do not mind: it is kept as it is.
        entries: What the body says, in wire order.
        parts: Extensions inside the body.
    """

    layer: str
    header: int
    body: bytes
    entries: tuple[Entry, ...] = ()
    parts: tuple[Part, ...] = ()
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """One message.

    Attributes:
        at: Where it begins in its unit.
        size: Its bytes, those of messages inside included.
        name: As ``names.layer_name`` says.
        within: Where the message begins that it stands in; None at the top.
        entries: Its own fields in wire order; those of regions and of list items too.
        parts: Its extensions in wire order.
    """

    at: int
    size: int
    name: str
    within: int | None
    entries: tuple[Entry, ...]
    parts: tuple[Part, ...] = ()


class Refusal(NamedTuple):
    """Why a unit is refused: the first thing a strict decoder does not take.

    Attributes:
        offset: In the unit.
        kind: Name of the ``WireError``.
        field: Path of the field.
    """

    offset: int
    kind: str
    field: str


class Complaint(NamedTuple):
    """Something that is wrong with one field.

    Attributes:
        at: Where its message begins.
        message: Name of the message.
        field: As Wireshark calls it.
        wanted: How it should be.
        seen: How it is.
    """

    at: int
    message: str
    field: str
    wanted: str
    seen: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reader says about one unit.

    Attributes:
        messages: Those in front of the first thing that is refused, a FRAME around it included.
        refusal: Why there are no more; None when nothing was refused.
        complaints: What is not right although the values are: bytes that are highlighted for a field and do not say
            its value.
        started: The fields of the message that is refused, up to the fault; None when the reader does not tell.
    """

    messages: Sequence[Said] = field(default_factory=tuple)
    refusal: Refusal | None = None
    complaints: tuple[Complaint, ...] = ()
    started: tuple[Entry, ...] | None = None
