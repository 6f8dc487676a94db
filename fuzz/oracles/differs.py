"""Two nodes that answer one case differently."""

from __future__ import annotations

from fuzz.oracles.base import Harm, Objection, When, oracle
from fuzz.oracles.patient import Patient
from fuzz.player import Ending, Played


@oracle("differs", "another node answers the same case alike", When.CASE, "another node, --also")
def differs(patient: Patient, played: Played | None) -> Objection | None:
    """Another node answers the same case alike.

    Both go on, close the session for the same reason, end the link, or say nothing. The case may have been played a
    while ago.
    """
    rival, case = patient.rival, patient.case
    if rival is None or case is None or played is None or played.failure:
        return None
    found = rival.compare(patient.stage, case, silent=played.ending is Ending.SILENT)
    if found is None:
        return None
    return Objection("differs", Harm.DIFFERS, f"{found.ours} / {found.theirs}", found.detail, found.case)
