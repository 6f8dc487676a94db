"""Every kind of message in every state that a link can be in."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import KINDS, main_forms
from fuzz.campaigns.placing import BASED, Stated
from fuzz.cases import Source
from fuzz.states import State


def pairs() -> list[tuple[State, str]]:
    """Returns every pair of a state and a kind of message: the denominator of their coverage."""
    return [(state, kind) for state in State for kind in KINDS]


def make(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (every campaign is called like this)
    """Each kind of message with all its options, for each thing it can be for, without and with extensions."""
    for state, kind in pairs():
        for words, message in main_forms(kind, by_alias=state in BASED).items():
            yield Stated(f"{kind} {words} in {state}", state, message)


CAMPAIGN = Campaign(
    "everywhere",
    "every kind of message in every state: unmodified, then mutated",
    make,
    weight=2.0,
    repeats=True,
)
