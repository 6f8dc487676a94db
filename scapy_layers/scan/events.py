"""What changes what a message in fragments is put together by: what ``Watch`` finds, for ``Sessions``.

Units are looked at many at a time, so what is known of a session is told as it changes, with the place in the
capture where it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from scapy_layers.remarks import Lane

BEFORE = -1
"""Stands for the place in front of a unit."""

BEHIND = 1 << 40
"""Stands for the place behind its last byte."""


class Joins(NamedTuple):
    """A link belongs to a session from here on.

    Attributes:
        link: Its number.
        session: Number of the session.
        flipped: Side 0 of the session is the second endpoint of the link.
    """

    link: int
    session: int
    flipped: bool = False


class Leaves(NamedTuple):
    """A link belongs to no session any more; a session is forgotten with its last link."""

    link: int


class Introduced(NamedTuple):
    """INIT was heard on one way of a link."""

    link: int
    way: int


class Agreed(NamedTuple):
    """What is known of a session now; None is what is not.

    Attributes:
        session: Its number.
        mask: The largest sequence number.
        patch: Patch version.
        lowlatency: Network messages travel without FRAME, and none in fragments.
        multilink: Several links may carry what is said.
    """

    session: int
    mask: int | None
    patch: int | None
    lowlatency: bool | None
    multilink: bool | None


class Starts(NamedTuple):
    """One side says with which number each of its lanes begins.

    Attributes:
        session: Number of the session.
        side: The side.
        sn: The number; None when ``lanes`` has them.
        lanes: The number of each lane.
    """

    session: int
    side: int
    sn: int | None
    lanes: Mapping[Lane, int] | None = None


class Doubts(NamedTuple):
    """Something that a side said was not heard."""

    session: int
    side: int


Event: TypeAlias = Joins | Leaves | Introduced | Agreed | Starts | Doubts


class Happened(NamedTuple):
    """An event and its place in the unit that comes next: a byte, ``BEFORE`` or ``BEHIND``."""

    event: Event
    offset: int
