"""Somebody who wants all there is: with them a node hands on what it is sent, and may fail at that only."""

from __future__ import annotations

from functools import cache

from fuzz.player.sessions import frame
from fuzz.script import Do, Script, Step
from fuzz.states import FACTS, State
from scapy_layers.codes import InterestMode
from scapy_layers.declarations import DeclareQueryable, DeclareSubscriber
from scapy_layers.network import Declare, Interest

LINK = "audience"
"""Its link; cases have letters."""


def attended(script: Script) -> Script:
    """Returns a script with a session beside it that wants all data, queries and declarations there are.

    Where no link of the script is a session that we begin, it is as it was.
    """
    states = [step.state for step in script.steps if step.state is not None]
    if not any(FACTS[state].session and not FACTS[state].needs for state in states):
        return script
    return script.with_steps((*_listening(), *script.steps))


@cache
def _listening() -> tuple[Step, ...]:
    everything = frame(
        Declare(body=DeclareSubscriber(entity_id=1, key_suffix="**")),
        Declare(body=DeclareQueryable(entity_id=2, key_suffix="**")),
        Interest(
            mode=InterestMode.CURRENT_FUTURE,
            interest_id=1,
            keyexprs=1,
            subscribers=1,
            queryables=1,
            tokens=1,
        ),
    )
    return (
        Step(Do.REACH, LINK, State.OPEN),
        Step(Do.SEND, LINK, data=everything, note="subscribes to everything"),
        Step(Do.SETTLE, LINK),
    )
