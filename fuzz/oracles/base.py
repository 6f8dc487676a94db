"""What an oracle is, what it says, and the list of all of them.

The invariant: whatever is sent, the node understands it or refuses it; its process lives, it does not panic, it
goes on serving others, and it holds no more than before. Everything else is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzz.cases import Case
    from fuzz.oracles.patient import Patient
    from fuzz.player import Played


class Harm(StrEnum):
    """Classes of findings, the gravest first.

    ``crash``: the process ended. ``panic``: it said that something in it failed. ``gone``: nobody listens any more at
    the address of a node that is not ours. ``stall``: it lives but answers nothing. ``refusing``: it takes no new
    sessions, or a link to it is no use. ``deaf``: it serves all others, but answers nothing any
    more in a session that it does not end. ``undue``: it ended a session that did nothing wrong. ``disturbed``: what
    others send through it is lost, late or changed. ``pause``: it answers nothing for a while, and then goes on.
    ``busy``: it computes although nothing is asked. ``growth``, ``leak``: it holds more and more memory, or
    descriptors, threads, child processes. ``slow``: it takes many times as long as at first. ``undecodable``: it said something that no strict
    decoder takes. ``overdue``: what it owes to a link on which nothing is
    said does not come: a word of its own, or the end of the link. ``unclean``: asked to end, the process dies of
    something else, or says that something in it failed. ``differs``: another node answers otherwise.
    """

    CRASH = "crash"
    PANIC = "panic"
    GONE = "gone"
    STALL = "stall"
    REFUSING = "refusing"
    DEAF = "deaf"
    UNDUE = "undue"
    DISTURBED = "disturbed"
    PAUSE = "pause"
    BUSY = "busy"
    GROWTH = "growth"
    LEAK = "leak"
    SLOW = "slow"
    UNDECODABLE = "undecodable"
    OVERDUE = "overdue"
    UNCLEAN = "unclean"
    DIFFERS = "differs"


AWAITED = frozenset({Harm.OVERDUE, Harm.UNCLEAN})
"""What is mostly waited for, behind all that was played: a look takes seconds, or the process with it."""

DEADLY = frozenset({Harm.CRASH, Harm.PANIC})
"""What the process shows of itself; nobody has to wait for an answer to know it."""

SERVING = frozenset({Harm.STALL, Harm.REFUSING, Harm.DISTURBED, Harm.PAUSE, Harm.SLOW, Harm.GONE, Harm.UNDUE})
"""Different views of one thing: the node lives, but does not serve as it should."""


@dataclass(frozen=True, slots=True)
class Objection:
    """What an oracle saw.

    Attributes:
        oracle: Its name.
        harm: The class.
        place: Where in the node, or what of it fails, in words that do not change from run to run; may be empty.
        detail: One line for people.
        case: What it is about where that is known, and the node is well all the same; else None.
        lasting: It was waited for so long to end that no busy machine explains it.
    """

    oracle: str
    harm: Harm
    place: str
    detail: str
    case: Case | None = None
    lasting: bool = False


Spot = tuple[Harm, str]
"""Class and place of objections."""


class When(StrEnum):
    """How often an oracle is asked; each of them includes those in front of it.

    ``case``: after every case; takes microseconds. ``beat``: every BEAT_CASES cases or BEAT_SECONDS. ``odd``: every
    ODD_SECONDS, and whenever something looks odd. ``trend``: every TREND_SECONDS; judges a window of time. ``end``: once,
    when the process is to end; see ``Patient.ending``.
    """

    CASE = "case"
    BEAT = "beat"
    ODD = "odd"
    TREND = "trend"
    END = "end"


ORDER = tuple(When)

BEAT_CASES = 32
"""A beat takes about as long as one case: after so many of them it costs a thirtieth of each."""

BEAT_SECONDS = 0.05
"""A beat comes at least so often, in seconds: an engine with a new session each case does 15 of them meanwhile."""

ODD_SECONDS = 2.0
"""The thorough look comes at least so often: it takes as long as two or three cases."""

TREND_SECONDS = 5.0
"""Growth is judged so often: it takes as long as a hundred cases, most of it to see whether the node comes to rest."""

Look = Callable[["Patient", "Played | None"], "Objection | None"]


@dataclass(frozen=True, slots=True)
class Oracle:
    """A small function with a name.

    Attributes:
        name: Unique.
        purpose: What holds while it has no objection, one line.
        when: How often it is asked.
        look: The function: the node, and the case that was just played if there is one.
        needs: What the node must be for it; empty when it can always be asked.
    """

    name: str
    purpose: str
    when: When
    look: Look
    needs: str = ""


ORACLES: dict[str, Oracle] = {}
"""All of them, in the order in which they are asked."""


def oracle(name: str, purpose: str, when: When, needs: str = "") -> Callable[[Look], Look]:
    """Registers an oracle."""

    def register(look: Look) -> Look:
        ORACLES[name] = Oracle(name, purpose, when, look, needs)
        return look

    return register
