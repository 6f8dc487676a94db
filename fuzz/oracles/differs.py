"""Two nodes that answer one case differently."""

from __future__ import annotations

from fuzz.oracles.base import Harm, Objection, When, oracle
from fuzz.oracles.patient import Patient
from fuzz.player import Played


@oracle("differs", "another node answers the same case alike", When.CASE, "another node, --also")
def differs(patient: Patient, played: Played | None) -> Objection | None:
    """Another node answers the same case alike: both go on, close the session, end the link, or say nothing."""
    rival, case = patient.rival, patient.case
    if rival is None or case is None or played is None or played.failure:
        return None
    found = rival.compare(patient.stage, case)
    if found is None:
        return None
    return Objection("differs", Harm.DIFFERS, f"{found.ours} / {found.theirs}", found.detail)
