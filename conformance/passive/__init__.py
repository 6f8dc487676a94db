"""Requirements that can be judged from what any test happens to see: ``look`` goes over a history.

One small function for each requirement; the modules whose names begin with ``of_`` hold them.
"""

from __future__ import annotations

# Loading them registers the rules.
from conformance.passive import of_datagrams, of_handshake, of_network, of_numbers, of_transport
from conformance.passive.look import Remark, look
from conformance.passive.rules import CHECKERS, Checker

__all__ = [
    "CHECKERS",
    "Checker",
    "Remark",
    "look",
    "of_datagrams",
    "of_handshake",
    "of_network",
    "of_numbers",
    "of_transport",
]
