"""How a process of ours ends that is asked to: what it dies of then, and what it says, may be a fault of its own.

A run ends most nodes at once, because they were harmed. The one that is well in the end is asked to end in order; there
a process frees what it holds, and sanitizers say what was never freed.
"""

from __future__ import annotations

import re
import signal

from fuzz.oracles.base import Harm, Objection, When, oracle
from fuzz.oracles.patient import Patient
from fuzz.oracles.places import place_of
from fuzz.player import Played

SECONDS = 10.0
"""So long a process may take to end: a sanitizer looks through all of its memory first."""

FATAL = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"})
"""Signals that a process dies of by its own fault."""

SHELL = 128
"""Exit codes of a shell from here on are signals that its child has died of."""


@oracle("ending", "asked to end, the process does so, and says of no failure", When.END, "a process of ours")
def ending(patient: Patient, played: Played | None) -> Objection | None:  # noqa: ARG001  (called like the others)
    """Asked to end, the process does so, and says of no failure. It is gone, or has to be killed, behind this."""
    node = patient.node
    if node.pid is None or node.death() or node.has_left():
        return None
    patient.forget()
    patient.said()
    patient.forget()
    if patient.vigil is not None:
        # A node may wait for links on which no session was begun.
        patient.vigil.close()
    node.dismiss()
    patient.ended_within(SECONDS)
    death, said = node.death(), patient.said()
    fatal = _fatal(death)
    if not fatal and not said:
        return None
    detail = "; ".join(filter(None, [f"on shutdown, {death}" if death else "on shutdown", said]))
    return Objection("ending", Harm.UNCLEAN, " ".join(filter(None, [fatal, place_of(said)])), detail)


def _fatal(death: str) -> str:
    """Returns the signal of a process that died by its own fault, or nothing."""
    found = re.search(r"(SIG\w+)|exit code (\d+)", death)
    if found is None:
        return ""
    if found[1]:
        return found[1] if found[1] in FATAL else ""
    number = int(found[2]) - SHELL
    name = signal.Signals(number).name if number in set(signal.Signals) else ""
    return name if name in FATAL else ""
