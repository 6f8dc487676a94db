"""Oracles about life: the process, its last words, new sessions, sessions that live through the run."""

from __future__ import annotations

import re
import time

from fuzz.oracles.base import Harm, Objection, When, oracle
from fuzz.oracles.machine import TURN, Watch
from fuzz.oracles.pace import limit
from fuzz.oracles.patient import Patient
from fuzz.oracles.places import place_of
from fuzz.oracles.service import NOBODY, Served, Step, close_words
from fuzz.oracles.trouble import Trouble, Wrong
from fuzz.player import Ending, Played
from scapy_layers.codes import CloseReason

FAMILIAR = 0.25
"""Of T1, what the states need is waited for when it is familiar that it gets lost."""

PAUSE = 0.5
"""Seconds in which a node answers that is well, when it has not much to do."""

LONG_PAUSE = 2.5
"""No machine keeps a process from its turn for so many seconds, however busy it is."""

HELD_UP = 0.1
"""Seconds for a new session that show that it had to wait."""

TOKENS_SECONDS = 10.0
"""Seconds between two looks at tokens: one may wait for the node to see the end of a link."""

CHANGED = "handshake changed"
"""What it is called when a new session is told something else than the first one."""

BUSY_CALLS = 3
"""What fails is tried so often once more on a machine that is busy with others, each time waiting twice as long, unless
the node had its turns all the same."""


@oracle("process", "the process lives", When.CASE, "a process of ours")
def process(patient: Patient, played: Played | None) -> Objection | None:  # noqa: ARG001  (called like the others)
    """The process lives."""
    death = patient.node.death()
    if not death:
        return None
    found = re.search(r"SIG\w+|exit code \d+", death)
    how = found[0] if found else death
    said = patient.said()
    where = place_of(said)
    return Objection("process", Harm.CRASH, f"{how} {where}".strip(), f"{death}; {said}" if said else death)


@oracle("stderr", "the process does not say that something in it failed", When.CASE, "a process of ours")
def stderr(patient: Patient, played: Played | None) -> Objection | None:
    """The process does not report a failure of its own."""
    said = patient.said()
    if not said:
        return None
    place = place_of(said)
    # It may be about to die of it.
    died = process(patient, played) if patient.ends(place) else None
    return died or Objection("stderr", Harm.PANIC, place, said)


@oracle("pause", "it answers at once", When.CASE, "a node that answers in sessions")
def pause(patient: Patient, played: Played | None) -> Objection | None:
    """No answer was waited for so long that others would notice."""
    if played is None or played.late < PAUSE:
        return None
    return paused(patient, played, played.late, "the answer to what was sent after it")


def paused(patient: Patient, played: Played | None, seconds: float, what: str) -> Objection | None:
    """Returns what it means that something took its time, and came.

    Args:
        patient: The node.
        played: The case that was just played.
        seconds: How long it took.
        what: What came.
    """
    # Much that was sent is no reason to stop reading.
    reads = played is None or not played.torn
    if seconds < PAUSE or (reads and seconds < patient.fair(played)):
        return None
    if seconds < LONG_PAUSE and patient.busy:
        return None
    detail = f"{what} took {seconds:.1f} s; {patient.usual * 1e3:.1f} ms when the node was fresh"
    return patient.aftermath() or Objection("pause", Harm.PAUSE, "", detail)


@oracle(
    "ping",
    "a new session opens, is told what the first one was told, and a query in it is answered in time",
    When.ODD,
    "a node that takes links",
)
def ping(patient: Patient, played: Played | None) -> Objection | None:
    """A new session opens, and a query in it is answered in time."""
    watch = Watch()
    served = _called(patient)
    if served is None:
        return None
    if not served.well:
        return _unserved(patient, served, played, watch)
    place = f"{CHANGED}: {served.other}"
    if served.other and (Harm.DISTURBED, place) not in patient.unjudged:
        detail = f"the node tells a new session another {served.other} than the first one"
        return patient.aftermath() or Objection("ping", Harm.DISTURBED, place, detail)
    fresh = patient.opening.baseline
    if watch.seconds < max(HELD_UP, limit(fresh) if fresh else 0):
        return None
    # It was silent before, and that may be why.
    before = 0.0
    if played is not None:
        before = patient.reply if played.failure else played.rtt if played.ending is Ending.SILENT else 0.0
    return paused(patient, played, before + watch.seconds, "a new session")


@oracle(
    "canary",
    "sessions of ours live on, what they send each other arrives once, whole, in order and in time, numbered in turn",
    When.BEAT,
    "a node that carries publications",
)
def canary(patient: Patient, played: Played | None) -> Objection | None:
    """Sessions of ours live on, and what they send each other arrives."""
    birds = patient.canary
    if birds is None:
        if patient.when is not When.BEAT:
            patient.open_canary()
        return None
    trouble = (
        birds.beat() if patient.when is When.BEAT else birds.look(rare=patient.rare, every=patient.thorough)
    )
    if trouble is None:
        return None
    if trouble.wrong is Wrong.ENDED:
        ended = birds.gone
        always = (Harm.UNDUE, trouble.how) in patient.unjudged
        if always or (ended is not None and birds.neglected(ended)):
            # The node does so whatever it is sent, or we were silent for too long ourselves.
            patient.close_canary()
            patient.open_canary()
            return None
    elif (Harm.DISTURBED, trouble.place) in patient.unjudged:
        return None
    return objection_of(patient, trouble, played)


@oracle(
    "valid",
    "a session in which only what is valid was sent is not ended by the node",
    When.CASE,
    "a node that answers in sessions",
)
def valid(patient: Patient, played: Played | None) -> Objection | None:
    """A session of a case that is valid in every respect is not ended."""
    if played is None or not played.valid or not played.session_ended or played.failure:
        return None
    reason = played.close
    if reason == CloseReason.EXPIRED:
        # Somebody was late: the machine, or we.
        return None
    how = "end of the link" if reason is None else close_words(reason)
    detail = f"the node ended a session in which only valid messages were sent ({how})"
    return objection_of(patient, Trouble(Wrong.ENDED, how, detail), played, "valid")


@oracle(
    "keys",
    "publications of ours for the keys that most cases use arrive as well, once and whole, and none behind the end of "
    "a subscriber",
    When.ODD,
    "a node that carries publications, and answers in sessions",
)
def keys(patient: Patient, played: Played | None) -> Objection | None:
    """Publications of ours for keys that cases use arrive."""
    birds = patient.canary
    trouble = birds.look_at_common() if birds is not None and birds.common.carried else None
    return _besides(patient, trouble, played, "keys")


@oracle(
    "tokens",
    "a token of a session of ours is told to who asks, and neither it nor a subscriber outlives that session",
    When.ODD,
    "a node that carries publications, and tells of tokens",
)
def tokens(patient: Patient, played: Played | None) -> Objection | None:
    """Tokens come and go with their session."""
    birds = patient.canary
    now = time.perf_counter()
    if birds is None or not birds.guests.tokens:
        return None
    if not patient.thorough and now - patient.tokens_at < TOKENS_SECONDS:
        return None
    trouble = birds.look_at_tokens(at_once=patient.thorough)
    patient.tokens_at = now
    return _besides(patient, trouble, played, "tokens")


def _besides(
    patient: Patient, trouble: Trouble | None, played: Played | None, oracle: str
) -> Objection | None:
    """Returns what a look at more than sessions of ours found, unless it is that they end, which is said by ``canary``."""
    if trouble is None or trouble.wrong is Wrong.ENDED or (Harm.DISTURBED, trouble.place) in patient.unjudged:
        return None
    return objection_of(patient, trouble, played, oracle)


def objection_of(
    patient: Patient, trouble: Trouble, played: Played | None = None, oracle: str = "canary"
) -> Objection | None:
    """Returns what trouble with the canary means, given whether the node serves others."""
    watch = Watch()
    late = patient.aftermath()
    if late is not None:
        return late
    served = _called(patient)
    if served is not None and not served.well:
        return _unserved(patient, served, played, watch)
    birds = patient.canary
    if trouble.wrong is Wrong.MUTE and birds is not None:
        later = birds.later()
        if later is None:
            return paused(patient, played, watch.seconds, "what sessions of ours send each other")
        trouble = later
    if trouble.wrong is Wrong.ENDED:
        oracle = "undue" if oracle == "canary" else oracle
        objection = Objection(oracle, Harm.UNDUE, trouble.how, trouble.detail)
    else:
        harm = Harm.STALL if trouble.wrong is Wrong.MUTE else Harm.DISTURBED
        objection = Objection(oracle, harm, trouble.place, trouble.detail)
    if not patient.node.owned:
        # Nobody starts it anew: what comes next is judged by fresh sessions.
        patient.close_canary()
        patient.open_canary()
    return objection


def _called(patient: Patient) -> Served | None:
    """Opens a new session; a second one when that fails, and more of them while the machine leaves the node no time."""
    watch = Watch()
    served = patient.call()
    if served is None or served.well:
        return served
    turns = patient.turns()
    for longer in range(BUSY_CALLS):
        if patient.node.death():
            break
        busy = watch.busy
        served = patient.call(patient.reply * 2**longer if busy else patient.reply / 2)
        assert served is not None
        # One that computes for a message has T1 for that, as on a machine of its own.
        if served.well or not busy or turns.had >= patient.reply:
            break
    return served


def _unserved(patient: Patient, served: Served, played: Played | None, watch: Watch) -> Objection | None:
    """Returns what it means that a new session is not served, and whether that lasts."""
    objection = _unserved_now(patient, served)
    if served.unanswered and objection.harm is Harm.REFUSING:
        again = patient.call()
        if again is not None and again.well:
            # Those that are open were answered because the node was done by then with what it had been at.
            return paused(patient, played, watch.seconds, "a new session")
    waited_for = served.unanswered and objection.harm in {Harm.STALL, Harm.REFUSING}
    return patient.outlasted(objection) if waited_for else objection


def _unserved_now(patient: Patient, served: Served) -> Objection:
    """Returns what it means that a new session is not served."""
    birds = patient.canary
    if birds is not None:
        birds.ask()
    late = patient.aftermath()
    if late is not None:
        return late
    if served.how == NOBODY:
        if not patient.node.owned:
            return Objection("ping", Harm.GONE, "", served.why)
        # A process that dies lets go of where it listens first; on a busy machine the rest may take long.
        if patient.ended_within(patient.reply) and (death := patient.words()) is not None:
            return death
    if served.step is Step.QUERY:
        return Objection("ping", Harm.STALL, "sessions open, nothing is answered in them", served.why)
    others = birds is not None and birds.answered(patient.reply / 4)
    if served.unanswered and not others:
        return Objection("ping", Harm.STALL, "", served.why)
    rest = "; sessions opened earlier are still served" if others else ""
    return Objection("ping", Harm.REFUSING, served.place, served.why + rest)


@oracle("stage", "what the states need is still there: it scouts, connects, is in its group", When.ODD)
def stage(patient: Patient, played: Played | None) -> Objection | None:  # noqa: ARG001
    """What the states of the stage need is still there."""
    watch, turns = Watch(), patient.turns()
    why = patient.stage.trouble(patient.reply * (FAMILIAR if patient.familiar else 1))
    for longer in range(1, 1 + BUSY_CALLS):
        if not why or not watch.busy or turns.had >= patient.reply * TURN:
            break
        why = patient.stage.trouble(patient.reply * 2**longer)
    if not why:
        return None
    return patient.aftermath() or Objection("stage", Harm.STALL, "stage", why)
