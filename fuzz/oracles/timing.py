"""How long answers and declarations take, now and when the node was fresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from fuzz.oracles.base import Harm, Objection, When, oracle
from fuzz.oracles.pace import Pace
from fuzz.oracles.patient import Patient
from fuzz.player import Played


@oracle(
    "time",
    "answers take about as long as when the node was fresh, declarations as much processor time",
    When.ODD,
    "a node that answers in sessions",
)
def timing(patient: Patient, played: Played | None) -> Objection | None:  # noqa: ARG001  (called like the others)
    """Answers take about as long as when the node was fresh, declarations as much processor time."""
    birds = patient.canary
    looks: list[tuple[str, Pace, Sequence[float], Callable[[], float | None]]] = []
    if birds is not None:
        looks.append(("exchange", patient.exchange, birds.recent, birds.timed))
    taken = [patient.called] if patient.called is not None else []
    looks.append(("new session", patient.opening, taken, patient.timed_call))
    if patient.declaring.baseline:
        spent = patient.effort()
        taken = [spent] if spent is not None else []
        looks.append(("declaration, processor time", patient.declaring, taken, patient.effort))
    for what, pace, recent, measure in looks:
        now = pace.judge(recent, measure)
        if now:
            pace.slow = 0
            usual = median(pace.baseline)
            detail = f"{what}: {median(now) * 1e3:.1f} ms with nothing else running, {usual * 1e3:.2f} ms when the node was fresh"
            return Objection("time", Harm.SLOW, "", detail)
    return None
