"""What a process holds and does: memory, descriptors, threads, processor time. Only for processes of ours."""

from __future__ import annotations

import time

from fuzz.oracles.base import Harm, Objection, When, oracle
from fuzz.oracles.patient import REST, RESTING, Patient
from fuzz.oracles.vitals import Handles
from fuzz.player import Played

MEMORY_MOST = 1 << 30
"""Bytes; a node that still holds so much more a while after is not waited for any longer."""

THREADS_MOST, THREADS_EACH = 1000, 8
"""The same for threads and children together: so many more than at first, and so many more for each descriptor, as a node
may have some for each link."""

SPIN = 0.2
"""Share of one processor that a node without work does not take; one that spins gets no more on a busy machine."""

RESTLESS_SECONDS = 3.0
"""So long a node may go on computing over what it was asked before."""

NAMES = {"descriptors": "open descriptors", "threads": "threads", "children": "child processes"}
"""What the system keeps for a process, for people."""


def megabytes(size: float) -> str:
    """Returns a number of bytes for people."""
    return f"{size / (1 << 20):.1f} MB"


@oracle("memory", "the process does not hold more and more memory", When.TREND, "a process of ours")
def memory(patient: Patient, played: Played | None) -> Objection | None:  # noqa: ARG001  (called like the others)
    """The process does not hold more and more memory."""
    history, vitals = patient.history, patient.vitals
    if history is None or vitals is None:
        return None
    series = history.memory
    window = series.grows()
    if window:
        told = series.told(window, megabytes)
        series.forget()
        return Objection("memory", Harm.GROWTH, "memory", f"memory grows {told}")
    limit = history.first.memory + MEMORY_MOST
    if vitals.memory() <= limit:
        return None
    patient.rest(RESTLESS_SECONDS)
    now = vitals.memory()
    if now <= limit:
        return None
    series.forget()
    first = history.first.memory
    return Objection(
        "memory",
        Harm.GROWTH,
        "memory",
        f"memory stays at {megabytes(now)}; it was {megabytes(first)} at first",
    )


@oracle(
    "handles",
    "the process does not hold more and more descriptors, threads or children",
    When.TREND,
    "a process of ours",
)
def handles(patient: Patient, played: Played | None) -> Objection | None:  # noqa: ARG001
    """The process does not hold more and more descriptors, threads or children."""
    history, vitals = patient.history, patient.vitals
    if history is None or vitals is None:
        return None
    series, first = history.handles, history.first.handles
    window = series.grows()
    if window:
        told = series.told(window, lambda value: f"{value:.0f}")
        series.forget()
        what = vitals.handles().more_than(first)
        return leak(what, f"the number of {NAMES[what]} grows {told}")
    if not _too_many(first, vitals.handles()):
        return None
    patient.rest(RESTLESS_SECONDS)
    now = vitals.handles()
    if not _too_many(first, now):
        return None
    series.forget()
    what = now.more_than(first)
    return leak(
        what,
        f"the number of {NAMES[what]} stays at {getattr(now, what)}; it was {getattr(first, what)} at first",
    )


def _too_many(first: Handles, now: Handles) -> bool:
    """Tells whether there are more threads and children than links can explain."""
    more = now.threads + now.children - first.threads - first.children
    return more > THREADS_MOST + THREADS_EACH * now.descriptors


def leak(what: str, detail: str) -> Objection:
    """Returns what is said of a process that holds more and more of something."""
    return Objection("handles", Harm.LEAK, what, detail)


@oracle("cpu", "the process comes to rest when nothing is asked", When.TREND, "a process of ours")
def cpu(patient: Patient, played: Played | None) -> Objection | None:  # noqa: ARG001
    """The process comes to rest when nothing is asked."""
    vitals = patient.vitals
    if vitals is None:
        return None
    seconds, spent, waited = REST, 0.0, 0.0
    while waited < RESTLESS_SECONDS:
        at, before = time.perf_counter(), vitals.cpu()
        patient.rest(seconds)
        took, used = time.perf_counter() - at, vitals.cpu() - before
        if used < RESTING * took or (not waited and used < SPIN * took):
            return None
        spent, waited, seconds = spent + used, waited + took, RESTLESS_SECONDS / 12
    if spent < SPIN * waited:
        return None
    detail = f"the process uses {spent / waited:.0%} of a CPU for {waited:.1f} s while idle"
    return Objection("cpu", Harm.BUSY, "cpu", detail)
