"""Oracles: small functions with a name, each of which knows one way in which a node may not be well.

``Patient`` is a node under observation; ``examine`` asks the oracles whose time it is. To add one, register a function
with ``@oracle`` in a module that is imported here.
"""

from fuzz.oracles import alive, answers, differs, ending, growth, silence, timing
from fuzz.oracles.alive import PAUSE
from fuzz.oracles.base import (
    AWAITED,
    BEAT_CASES,
    BEAT_SECONDS,
    DEADLY,
    ODD_SECONDS,
    ORACLES,
    SERVING,
    TREND_SECONDS,
    Harm,
    Objection,
    Oracle,
    Spot,
    When,
    oracle,
)
from fuzz.oracles.patient import Patient
from fuzz.oracles.places import place_of

__all__ = [
    "AWAITED",
    "BEAT_CASES",
    "BEAT_SECONDS",
    "DEADLY",
    "ODD_SECONDS",
    "ORACLES",
    "PAUSE",
    "SERVING",
    "TREND_SECONDS",
    "Harm",
    "Objection",
    "Oracle",
    "Patient",
    "Spot",
    "When",
    "alive",
    "answers",
    "differs",
    "ending",
    "growth",
    "oracle",
    "place_of",
    "silence",
    "timing",
]
