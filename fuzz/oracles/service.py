"""Whether a node takes a new session and serves it: how far one of ours comes."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from conformance.nodes.base import Node
from conformance.tester import Fencing
from fuzz.player import Answers, Initiator, NotReached, Pipe, Player, Trace
from fuzz.player.answers import FENCE_ID, vle
from fuzz.player.doors import NoLink
from fuzz.player.fitting import FRAME_R, SIZES, behind_zid
from fuzz.player.player import FENCE_KEY, fence_of
from fuzz.script import Template
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.codes import CloseReason
from scapy_layers.data import Query
from scapy_layers.network import Request

TRACE_BYTES = 1 << 16

ASKED_MS = 50
"""So long a query that asks whether the node is done waits for replies, in ms. None will come."""


def door_to(node: Node) -> Initiator:
    """Returns where links to a node come from: its main locator.

    Raises:
        NoLink: The node does not listen.
    """
    if not hasattr(node, "locator"):
        raise NoLink("the node does not listen")
    made = Initiator(node.locator, node.user, node.tls)
    made.as_written = bool(node.as_written)
    return made


@cache
def question_of(fence: str) -> bytes:
    """Returns the network message that asks a node whether it is done; empty when it cannot be asked.

    A query may be handed on to sessions of the campaign, which do not answer while oracles look: so it says itself how
    long it waits.
    """
    match Fencing(fence):
        case Fencing.QUERY:
            wait = ext.Timeout(timeout=ASKED_MS)
            return bytes(Request(request_id=FENCE_ID, key_suffix=FENCE_KEY, extensions=[wait], body=Query()))
        case other:
            return fence_of(other)


class Step(StrEnum):
    """How far a new session comes; the words of a place."""

    LINK = "link"
    INIT = "INIT"
    OPEN = "OPEN"
    QUERY = "query"
    SERVED = "served"


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a new session.

    Attributes:
        step: What failed; SERVED when nothing did.
        how: How it failed, in words without numbers.
        why: One line for people.
        seconds: How long it took until it was open.
        other: What the node tells it otherwise than the first one, in words; empty for nothing.
    """

    step: Step
    how: str = ""
    why: str = ""
    seconds: float = 0.0
    other: str = ""

    @property
    def well(self) -> bool:
        """It was served."""
        return self.step is Step.SERVED

    @property
    def unanswered(self) -> bool:
        """The node said nothing, and did nothing."""
        return self.how == NOTHING

    @property
    def place(self) -> str:
        """The words for an objection."""
        return f"{self.step}: {self.how}"


NOTHING = "no answer"
NOBODY = "nobody listens"
UNREACHED = "no link"

_AT = {None: Step.LINK, State.CONNECTED: Step.INIT, State.INIT_ACKED: Step.OPEN, State.OPEN: Step.QUERY}


class Caller:
    """Opens new sessions, one at a time.

    Args:
        node: The node; it listens.
        reply: T1 in seconds.
        answers: Recognises answers; those of one node are alike however often it is started.
    """

    def __init__(self, node: Node, reply: float, answers: Answers | None = None) -> None:
        # ZenohIDs are not drawn from the seed: a node that still closes the last session of one refuses it.
        self._question = question_of(node.fence)
        self._player = Player(
            door_to(node),
            reply,
            Fencing(node.fence),
            random.Random(),
            Trace(TRACE_BYTES),
            answers,
        )
        self._first: dict[str, object] = {}

    def call(self, reply: float) -> Served:
        """Opens a session, asks a query in it if the node answers such, and closes it.

        Args:
            reply: Seconds that each answer may take.
        """
        player = self._player
        player.reply = reply
        began = time.perf_counter()
        try:
            pipe = player.reach(State.OPEN, "new")
            seconds = time.perf_counter() - began
            if self._question and not self._served(pipe, reply):
                return Served(Step.QUERY, *_how(pipe, "a new session opens, but nothing is answered in it"))
        except NotReached as error:
            broken = player.links.get("new")
            step = _AT.get(broken.state, Step.QUERY) if broken is not None else Step.LINK
            return Served(step, *_how(broken, str(error)))
        finally:
            player.close()
        told = _told(pipe)
        first = self._first = self._first or told
        other = ", ".join(name for name in told if told[name] != first[name])
        return Served(Step.SERVED, seconds=seconds, other=other)

    def crowded(self, reply: float) -> str:
        """Returns how the node takes no session beside one that is open; nothing when it does, or takes none at all."""
        player = self._player
        player.reply = reply
        # Whatever we had open before has ended; the node may not have seen it yet.
        if not _by(reply, lambda: self._opens("first")):
            return ""
        try:
            player.reach(State.OPEN, "second")
        except NotReached as error:
            why = str(error)
        else:
            return ""
        finally:
            player.close()
        return why if _by(reply, lambda: self.call(reply).well) else ""

    def takes(self, number: int, reply: float) -> bool:
        """Tells whether the node takes so many sessions at once."""
        player = self._player
        player.reply = reply
        try:
            for place in range(number):
                player.reach(State.OPEN, str(place))
        except NotReached:
            return False
        finally:
            player.close()
        return True

    def _opens(self, name: str) -> bool:
        """Opens a session, which stays; tells whether the node took it."""
        try:
            self._player.reach(State.OPEN, name)
        except NotReached:
            self._player.close()
            return False
        return True

    def _served(self, pipe: Pipe, seconds: float) -> bool:
        """Asks the node in a session whether it is done; tells whether it answers in time."""
        pipe.send(
            Template.of(*(["size"] if pipe.stream else []), FRAME_R, "sn", self._question).fill(pipe), "ping"
        )
        deadline = time.perf_counter() + seconds
        while True:
            pipe.receive()
            if pipe.finals:
                return True
            if pipe.ended or not pipe.wait(deadline - time.perf_counter()):
                return False


def _by(seconds: float, works: Callable[[], bool]) -> bool:
    """Tells whether something works within some time, tried at least once."""
    deadline = time.perf_counter() + seconds
    while not (worked := works()) and time.perf_counter() < deadline:
        pass
    return worked


def _told(pipe: Pipe) -> dict[str, object]:
    """Returns what a node tells each session that opens alike, by what it is."""
    init, opened = pipe.facts["init_ack"], pipe.facts["open_ack"]
    behind = behind_zid(init)
    sizes = init[behind : behind + 3] if init[0] & SIZES else b""
    lease = opened[0], vle(opened[1:])
    return {"version, role or ZenohID": init[1:behind], "resolution or batch size": sizes, "lease": lease}


def _how(pipe: Pipe | None, error: str) -> tuple[str, str]:
    why = f"a new session fails: {error}"
    if pipe is None:
        return (NOBODY if os.strerror(errno.ECONNREFUSED) in error else UNREACHED), why
    reason = next((answer.close for answer in pipe.inbox if answer.close is not None), None)
    if reason is not None:
        return close_words(reason), why
    return ("end of the link" if pipe.ended else NOTHING), why


def close_words(reason: int) -> str:
    """Returns a CLOSE in words, for a place."""
    return f"CLOSE {CloseReason(reason).name if reason in set(CloseReason) else 'of an unknown reason'}"
