"""The scenarios by name; each module adds its own."""

from pcaps.scenarios import (
    advanced,
    closing,
    data,
    declarations,
    handshakes,
    links,
    older,
    queries,
    routing,
)
from pcaps.stage import SCENARIOS

__all__ = [
    "SCENARIOS",
    "advanced",
    "closing",
    "data",
    "declarations",
    "handshakes",
    "links",
    "older",
    "queries",
    "routing",
]
