"""The keys that most cases use, and what the canary publishes on them.

A private key shows nothing of a node that carries one key no more and all others as before. What is published here says
of itself that it is ours, so that sessions of cases that have asked for the key pass over it. Pure: bytes in and out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from fuzz.phrases import KEY, OTHER_KEY
from fuzz.player.answers import FENCE_ID, OURS
from scapy_layers import extensions as ext
from scapy_layers.data import Put, Query
from scapy_layers.declarations import (
    DeclareQueryable,
    DeclareSubscriber,
    UndeclareQueryable,
    UndeclareSubscriber,
)
from scapy_layers.network import Declare, Push, Request

COMMON = (KEY, OTHER_KEY, "fuzz/t")
"""Of the keys that cases of all campaigns write out whole and without wild cards, nine of ten are one of these."""

FIRST_ID = 101
"""Id of the first of their subscribers; the canary has smaller ones."""

DIGITS = 12


class CommonKeys:
    """What is said and heard about them.

    Args:
        rng: Draws where the numbers begin: what another canary has sent is not taken for ours.

    Attributes:
        carried: Those that the node carried when it was fresh.
        changed: Keys of which something came changed, since ``begin``.
        twice: Keys of which something came twice.
        kept: Keys of which something came although their subscriber, or queryable, had been taken back.
    """

    def __init__(self, rng: random.Random) -> None:
        self.carried: tuple[str, ...] = ()
        self.changed: set[str] = set()
        self.twice: set[str] = set()
        self.kept: set[str] = set()
        self._number = rng.randrange(10 ** (DIGITS - 1))
        self._sent: dict[int, str] = {}
        self._arrived: set[int] = set()
        self._behind: dict[int, str] = {}

    def begin(self) -> None:
        """What was published before is not looked at any more."""
        for seen in (self._sent, self._arrived, self.changed, self.twice):
            seen.clear()
        self.taken_back()

    def taken_back(self) -> None:
        """Nothing is to come any more of what is sent from now on."""
        self._behind.clear()
        self.kept.clear()

    @property
    def missing(self) -> tuple[str, ...]:
        """Keys of which nothing has come, in the order in which they were published on."""
        there = {self._sent[number] for number in self._arrived}
        return tuple(dict.fromkeys(key for key in self._sent.values() if key not in there))

    def published(self, keys: Sequence[str]) -> bytes:
        """Returns the messages that publish something on each key, which is looked for from now on."""
        return b"".join(_head(key) + self._next(key, self._sent) for key in keys)

    def published_behind(self, keys: Sequence[str]) -> bytes:
        """The same behind the end of the subscribers."""
        return b"".join(_head(key) + self._next(key, self._behind) for key in keys)

    def asked_behind(self, key: str, wait: int) -> bytes:
        """Returns a query to a queryable that has been taken back.

        Args:
            key: Its key.
            wait: How long the query waits for replies, in ms.
        """
        words = self._next(key, self._behind)
        return bytes(
            Request(
                request_id=FENCE_ID,
                key_suffix=key,
                extensions=[ext.Timeout(timeout=wait)],
                body=Query(P=1, parameters=words.decode()),
            )
        )

    def _next(self, key: str, sent: dict[int, str]) -> bytes:
        self._number += 1
        sent[self._number] = key
        return _payload(self._number)

    def take(self, batch: bytes) -> None:
        """Takes in a batch that came where the subscribers are."""
        at = batch.find(OURS)
        while at >= 0:
            behind = at + len(OURS) + DIGITS
            digits = batch[at + len(OURS) : behind]
            number = int(digits) if digits.isdigit() else 0
            if behind_end := self._behind.get(number):
                self.kept.add(behind_end)
            # Another may be an older one that a case has sent on.
            if key := self._sent.get(number):
                if batch[at - 1] != len(OURS) + 2 * DIGITS or batch[behind : behind + DIGITS] != digits:
                    self.changed.add(key)
                elif number in self._arrived:
                    self.twice.add(key)
                self._arrived.add(number)
            at = batch.find(OURS, behind)


@cache
def declared(keys: tuple[str, ...]) -> bytes:
    """Returns the messages that declare a subscriber of each key."""
    return b"".join(
        bytes(Declare(body=DeclareSubscriber(entity_id=FIRST_ID + at, key_suffix=key)))
        for at, key in enumerate(keys)
    )


@cache
def undeclared(count: int) -> bytes:
    """Returns the messages that end so many of them."""
    return b"".join(bytes(Declare(body=UndeclareSubscriber(entity_id=FIRST_ID + at))) for at in range(count))


def served(key: str) -> bytes:
    """Returns the messages that declare a queryable, and take it back."""
    bodies = DeclareQueryable(entity_id=FIRST_ID, key_suffix=key), UndeclareQueryable(entity_id=FIRST_ID)
    return b"".join(bytes(Declare(body=body)) for body in bodies)


@cache
def _head(key: str) -> bytes:
    blank = _payload(0)
    return bytes(Push(key_suffix=key, body=Put(data=blank))).removesuffix(blank)


def _payload(number: int) -> bytes:
    # The digits once more, so that a change of most bytes shows.
    return OURS + b"%0*d" % (DIGITS, number) * 2
