"""What a node owes to links on which we say nothing."""

from __future__ import annotations

from fuzz.oracles.base import Harm, Objection, When, oracle
from fuzz.oracles.patient import Patient
from fuzz.oracles.vigil import OWED
from fuzz.player import Played


@oracle(
    "silence",
    "it ends links and sessions on which nothing is said, and says KEEP_ALIVE in its own sessions",
    When.TREND,
    "a node that takes links",
)
def silence(patient: Patient, played: Played | None) -> Objection | None:  # noqa: ARG001  (called like the others)
    """What is owed to silent links comes."""
    vigil = patient.vigil
    place = vigil.look() if vigil is not None else ""
    if vigil is None or not place:
        return None
    vigil.begin()
    return Objection("silence", Harm.OVERDUE, place, OWED[place].detail)
