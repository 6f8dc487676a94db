"""Decisions that the specification gives to a node, one short method each, tagged with requirements.

A machine asks, it does not decide; a mutant is a policy with one method replaced.
"""

from __future__ import annotations

from typing import Protocol

from conformance.session import sequence


class Dice(Protocol):
    """A source of random numbers; ``random.Random`` is one. The machine has none of its own."""

    def randint(self, a: int, b: int) -> int:
        """Returns a number from ``a`` to ``b``, both included."""


KEEP_ALIVES_PER_LEASE = 4
"""Keep-Alive: at least one message every quarter of the lease."""


class Policy:
    """What a correct initiator decides."""

    def returned_cookie(self, cookie: bytes) -> bytes:
        """ZN-INIT-029: the cookie goes back bit for bit."""
        return cookie

    def initial_sn(self, resolution: int, rng: Dice) -> int:
        """ZN-OPEN-007, ZN-OPEN-008: random, inside the agreed range."""
        return rng.randint(0, sequence.mask(resolution))

    def keep_alive_period(self, lease: float) -> float:
        """ZN-KA-101, ZN-KA-102: seconds between two messages of ours, given our lease in seconds."""
        return lease / KEEP_ALIVES_PER_LEASE

    def effective_lease(self, ours: float, theirs: float) -> float:
        """ZN-OPEN-012, ZN-OPEN-013: seconds of silence after which the node counts as gone."""
        return min(ours, theirs)

    def answers_close(self) -> bool:
        """ZN-CLS-105: CLOSE needs no answer."""
        return False
