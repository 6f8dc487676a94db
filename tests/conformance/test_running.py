"""How a node is looked at behind a test whose sessions are still open."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.deviations import Deviations
from conformance.running.run import Run
from conformance.tester.canary import UNSERVED

UNANSWERED = f"{UNSERVED}expected RESPONSE_FINAL for the fence's query, seen nothing"
REFUSED = f"{UNSERVED}expected INIT A=1, seen end of stream"
WRONG = f"{UNSERVED}expected RESPONSE_FINAL for the fence's query, seen CLOSE"


@dataclass
class Ends:
    """Sessions of a test."""

    takes_part: bool
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass
class WaitingNode:
    """A node that is unwell while sessions are open, or for good."""

    whatami: str
    trouble: str
    ends: Ends
    for_good: bool = False
    owned: bool = False
    looks: list[bool] = field(default_factory=list)

    def problem(self, reply: float) -> str:
        assert reply == 0.02
        self.looks.append(self.ends.closed)
        return self.trouble if self.for_good or not self.ends.closed else ""

    def last_words(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("role", "takes_part", "trouble", "for_good", "well"),
    [
        ("peer", True, UNANSWERED, False, True),
        ("peer", True, UNANSWERED, True, False),
        ("peer", False, UNANSWERED, False, False),
        ("router", True, UNANSWERED, False, False),
        ("peer", True, WRONG, False, False),
        ("router", False, REFUSED, False, True),
        ("router", False, REFUSED, True, False),
    ],
)
def test_node_that_may_wait_for_our_sessions_is_asked_again_without_them(
    role: str, takes_part: bool, trouble: str, for_good: bool, well: bool
) -> None:
    ends = Ends(takes_part)
    node = WaitingNode(role, trouble, ends, for_good)
    settings = SimpleNamespace(config=SimpleNamespace(trust_node=False, reply=0.02))
    stand_ins: dict[str, Any] = {"settings": settings, "node": node}
    run = Run(**stand_ins, deviations=Deviations([]))
    told: Any = [ends]
    assert run.problem(told) == ("" if well else trouble)
    assert run.unwell == (0 if well else 1)
    # Without sessions there is nobody to wait for.
    ends.closed, node.looks = False, []
    assert run.problem() == trouble
    assert node.looks == [False]
