"""What the node says itself must be what a strict decoder takes.

The lie may be ours, though. A router hands on what others publish, ask, reply and declare; keys, payloads, parameters,
attachments and extensions in it are theirs, and with several links side by side nobody can say whose. So a batch
with a message that may be handed on is not judged: PUSH, REQUEST, RESPONSE, DECLARE, INTEREST, OAM. What is left are
the node's own words: the handshake, CLOSE, KEEP_ALIVE, JOIN, HELLO, the end of queries, and the frames around them.
A handshake that we lied in may have agreed on another form of what comes behind it (compression, low latency): then
nothing behind the OpenAck is judged.
"""

from __future__ import annotations

import re

from fuzz.oracles.base import Harm, Objection, When, oracle
from fuzz.oracles.patient import Patient
from fuzz.player import Played
from fuzz.player.player import DEAF_TIMES

CARRIED = frozenset({"PUSH", "REQUEST", "RESPONSE", "DECLARE", "INTEREST", "OAM"})
"""Messages in which a node hands on what others said."""


@oracle("undecodable", "a strict decoder takes what the node says itself", When.CASE)
def undecodable(patient: Patient, played: Played | None) -> Objection | None:  # noqa: ARG001  (called like the others)
    """A strict decoder takes what the node says itself."""
    if played is None or not played.refused:
        return None
    for answer in played.answers:
        if answer.refused and CARRIED.isdisjoint(answer.names):
            said = answer.batch[:64].hex() + ("..." if len(answer.batch) > 64 else "")
            detail = f"a strict decoder rejects what the node sent: {answer.refused} ({said})"
            return Objection("undecodable", Harm.UNDECODABLE, place_in(answer.names, answer.refused), detail)
        if "OPEN" in answer.names:
            break
    return None


def place_in(names: tuple[str, ...], refused: str) -> str:
    """Returns which message and field it is, without offsets and values."""
    field = refused.partition(" at byte ")[0]
    field = re.sub(r"[\[(]?\d+[\])]?", "", field)
    return field or (names[-1] if names else "batch")


@oracle(
    "deaf",
    "it answers, or ends, the session in which whole batches were sent",
    When.ODD,
    "a node that answers in sessions",
)
def deaf(patient: Patient, played: Played | None) -> Objection | None:
    """The session of a case is answered or ended."""
    if played is None or not played.deaf or patient.is_at_work():
        # One that is still at it, over very many messages or on a busy machine, may answer yet.
        return None
    detail = f"a session got no answer for {DEAF_TIMES * patient.reply:g} s and was not closed; other sessions are served"
    return patient.aftermath() or Objection("deaf", Harm.DEAF, "", detail)
