"""Sessions beside the canary that come and go: what they declare is known to the node, and no more behind their end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fuzz.oracles.trouble import Wrong
from fuzz.player import NotReached, Pipe, run
from fuzz.states import State
from scapy_layers.batch import prefixed
from scapy_layers.codes import InterestMode
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareSubscriber, DeclareToken
from scapy_layers.network import Declare, Interest, Push
from scapy_layers.transport import Close

if TYPE_CHECKING:
    from fuzz.oracles.canary import Canary

SOON = 0.004
"""Seconds between two questions for a token of a session of which a node has not seen the end yet."""

_CLOSE = prefixed(bytes(Close(reason=0)))


class Guests:
    """One after the other declares a token and a subscriber on a key of its own, and ends.

    Args:
        canary: Asks, and publishes.

    Attributes:
        tokens: Who asks is told of tokens, as far as was seen when the node was fresh.
        told: A token was told since somebody asked.
    """

    def __init__(self, canary: Canary) -> None:
        self._canary = canary
        self.tokens = self.told = False
        self._count = 0
        self._ended = ""
        """Key of the token of the last one that has ended, if nobody has asked for it since."""
        self._left = ""
        """Key of the subscriber of the last one."""

    def wrong(self, *, at_once: bool = True) -> Wrong | None:
        """Has one come and go; returns what is wrong with it, or what is left of the one before, None when nothing is.

        Args:
            at_once: It is asked for now what is left, where a node may take a moment to see the end; else with the next one.
        """
        stuck = self._stuck()
        if stuck is not None:
            return stuck
        self._count += 1
        key = f"{self._canary.key}/{self._count}"
        player = self._canary.player
        try:
            guest = player.reach(State.OPEN, "guest")
            self._declare(guest, key)
            told = self._tells(key, wanted=True)
            guest.receive()
            inherits = any("PUSH" in answer.names for answer in guest.inbox)
            if told is False and guest.finals < guest.fences and not inherits:
                # A node that has connected to us may ask us first, before it says that it is done.
                return None
        except NotReached:
            # Whether new sessions are served is for others to say.
            return None
        finally:
            if "guest" in player.links:
                # By turns without a word and with CLOSE.
                leaving = player.links.pop("guest")
                leaving.farewell = _CLOSE if self._count % 2 else b""
                leaving.close()
        if inherits or not told:
            return Wrong.INHERITED if inherits else Wrong.MUTE if told is None else Wrong.UNTOLD
        self._ended = key
        return self._stuck() if at_once else None

    def _declare(self, guest: Pipe, key: str) -> None:
        """Declares a token and a subscriber; what the last one has subscribed to is published before."""
        canary, player = self._canary, self._canary.player
        if self._left:
            canary.say(canary.publisher, bytes(Push(key_suffix=self._left, body=Put(data=b"left"))))
            canary.answers(canary.publisher, canary.first_share)
        self._left = key
        for body in (
            DeclareToken(entity_id=1, key_suffix=key),
            DeclareSubscriber(entity_id=1, key_suffix=key),
        ):
            player.say(guest, bytes(Declare(body=body)), str(body.name))
        if self.tokens:
            player.fence(guest)
        else:
            run(player.fenced(guest))

    def _stuck(self) -> Wrong | None:
        """Returns what is wrong with the token of the last one that has ended; None when nothing is, or there is none."""
        key, self._ended = self._ended, ""
        told = self._tells(key, wanted=False) if key else False
        return Wrong.STUCK if told else None if told is False else Wrong.MUTE

    def _tells(self, key: str, *, wanted: bool) -> bool | None:
        """Asks which tokens there are of a key, again where the answer is not the wanted one; None when none comes."""
        canary = self._canary
        interest = Interest(mode=InterestMode.CURRENT, interest_id=self._count, tokens=1, key_suffix=key)
        # A fresh node that does not tell at once is taken for one that never does.
        until = time.perf_counter() + (canary.reply if self.tokens or not wanted else 0.0)
        pipe = canary.subscriber
        while True:
            self.told = False
            pipe.fences += 1
            canary.say(pipe, bytes(interest), canary.question)
            if not canary.hear(lambda: pipe.finals >= pipe.fences, canary.first_share):
                return None
            if self.told is wanted or time.perf_counter() >= until:
                return self.told
            # A node may take a moment to see the end of a link.
            canary.hear(lambda: False, SOON)
