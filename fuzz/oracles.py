"""What is wrong with a node after a case: small functions with a name.

The invariant: whatever is sent, the node understands it or refuses it; its process lives, it does not
panic, and it goes on serving others. Everything else is a finding.
"""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from conformance.errors import LinkFailed, LocalError, Unmet
from conformance.nodes.base import Node
from conformance.tester import SessionEnd, Tester
from fuzz.prelude import Barrier

AFTERMATH = 0.1
"""Seconds in which a process that no longer serves may still die or say why."""

AFTERMATH_STEP = 0.005
"""Seconds between two looks at it: neither the exit of a process nor its last words can be awaited."""


class Harm(StrEnum):
    """Classes of findings.

    ``crash``: the process ended. ``panic``: it said that something in it failed. ``stall``: it lives but does
    not serve. ``gone``: nobody listens any more at the address of a node that is not ours.
    """

    CRASH = "crash"
    PANIC = "panic"
    STALL = "stall"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Objection:
    """What an oracle saw.

    Attributes:
        oracle: Its name.
        harm: The class.
        place: Where in the node, in words that do not change from run to run; empty when unknown.
        detail: One line for people.
    """

    oracle: str
    harm: Harm
    place: str
    detail: str


class Patient:
    """A node that is looked at.

    Attributes:
        node: The node.
        reply: Seconds that an answer may take.
    """

    def __init__(self, node: Node, reply: float) -> None:
        self.node = node
        self.reply = reply
        self._said = ""
        self._spare: tuple[Tester, SessionEnd] | None = None

    def said(self) -> str:
        """Returns what the process said about failures of its own since the last ``forget``."""
        self._said = "; ".join(filter(None, [self._said, self.node.complaints()]))
        return self._said

    def forget(self) -> None:
        """Forgets what was said; what comes now is about the next case."""
        self._said = ""

    def try_session(self) -> str:
        """Opens a new session and asks a query in it; returns why that failed, or nothing.

        The session is kept: the next case may begin in it.
        """
        self.close()
        # ZenohIDs are not drawn from the seed: a node that still closes the last session of one refuses it.
        tester = Tester(self.node.locator, random.Random(), self.reply)
        try:
            end = tester.session()
            served = Barrier(end, 0).wait(end, self.reply)
        except LinkFailed as error:
            tester.close()
            return str(error)
        except (Unmet, LocalError) as error:
            tester.close()
            return f"a fresh session fails: {error}"
        if not served:
            seen = "end of the link" if end.link.ended else "nothing"
            tester.close()
            return f"a fresh session fails: expected RESPONSE_FINAL for a query on an unused key, seen {seen}"
        self._spare = tester, end
        return ""

    def take_session(self) -> tuple[Tester, SessionEnd] | None:
        """Hands over the session of the last ``try_session`` while it lives."""
        spare, self._spare = self._spare, None
        if spare is not None and spare[1].link.ended is not None:
            spare[0].close()
            return None
        return spare

    def close(self) -> None:
        """Ends the session that was kept."""
        if self._spare is not None:
            self._spare[1].close()
            self._spare[0].close()
            self._spare = None


Oracle = Callable[[Patient], Objection | None]

ORACLES: dict[str, Oracle] = {}


def oracle(name: str) -> Callable[[Oracle], Oracle]:
    """Registers an oracle under a name."""

    def register(function: Oracle) -> Oracle:
        ORACLES[name] = function
        return function

    return register


def examine(patient: Patient, names: Sequence[str]) -> Objection | None:
    """Returns the first objection of the named oracles."""
    for name in names:
        objection = ORACLES[name](patient)
        if objection is not None:
            return objection
    return None


@oracle("process")
def process(patient: Patient) -> Objection | None:
    """The process lives."""
    death = patient.node.death()
    if not death:
        return None
    found = re.search(r"SIG\w+|exit code \d+", death)
    how = found[0] if found else death
    said = patient.said()
    where = place_of(said)
    return Objection("process", Harm.CRASH, f"{how} {where}".strip(), f"{death}; {said}" if said else death)


@oracle("stderr")
def stderr(patient: Patient) -> Objection | None:
    """The process does not report a failure of its own."""
    said = patient.said()
    return Objection("stderr", Harm.PANIC, place_of(said), said) if said else None


@oracle("ping")
def ping(patient: Patient) -> Objection | None:
    """A new session opens, and a query in it is answered in time.

    A node that is about to die stops serving first, and its last words come late: so when the ping fails,
    the other oracles get a second look before it is called a stall.
    """
    why = patient.try_session()
    if not why:
        return None
    deadline = time.monotonic() + AFTERMATH
    while patient.node.owned:
        late = process(patient) or stderr(patient)
        if late is not None:
            return late
        if time.monotonic() >= deadline:
            break
        time.sleep(AFTERMATH_STEP)
    # Whether a node that is not ours still listens shows only after the links that died with it.
    gone = not patient.node.owned and os.strerror(errno.ECONNREFUSED) in patient.try_session()
    return Objection("ping", Harm.GONE if gone else Harm.STALL, "", why)


def place_of(said: str) -> str:
    """Returns where a failure was: ``crate/src/file.rs:line`` without version and column, or what failed."""
    # ``panicked at /some/where/crate-1.2.3/src/a.rs:12:5``; older ones have the quoted message in front.
    place = re.search(r"panicked at (?:'.*?', )?(\S+?):(\d+)(?::\d+)?", said)
    if place:
        path = place[1].split("/")
        if "src" in path:
            at = len(path) - 1 - path[::-1].index("src")
            crate = re.sub(r"-\d+\.\d[\w.+-]*$", "", path[at - 1]) if at else ""
            path = [*([crate] if crate else []), *path[at:]]
        else:
            path = path[-1:]
        return f"{'/'.join(path)}:{place[2]}"
    known = re.search(r"memory allocation|stack overflow|fatal runtime error", said)
    return known[0] if known else ""
