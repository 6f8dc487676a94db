"""Requirements: loaded once, checked at collection."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from conformance.errors import UsageError

LEVELS = ("MUST", "MUST NOT", "FACT", "SHOULD", "MAY")
"""Strictest first. FACT binds the bytes or the behaviour without one of the words of RFC 2119."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One thing a node has to do, or that the bytes have to be.

    Attributes:
        id: ``ZN-<AREA>-<number>``; numbers from 101 on belong to pages that the seed pages link to.
        level: One of LEVELS.
        text: What is required.
        source: Page (S0 SCOUT, S1 HELLO, S2 Message Reference, S3 Routing, S4 Session Establishment,
            L a linked page) and heading.
        via: How it can be observed: I one link, I2 several, R the node connects to us, U we scout, Ur the
            node scouts, M multicast, N2 a second node, P from captures; ``c`` needs a configuration of
            its own, ``!`` may harm the node.
        test: Stimulus and expectation.
        control: What keeps the test honest.
        mutant: What a reference node that breaks it does.
    """

    id: str
    level: str
    text: str
    source: str
    via: str
    test: str
    control: str
    mutant: str

    @property
    def area(self) -> str:
        """The middle of the id: ``INIT``."""
        return self.id.split("-")[1]


@cache
def requirements() -> dict[str, Requirement]:
    """Returns all requirements by id.

    Raises:
        UsageError: ``requirements.toml`` is damaged.
    """
    table = tomllib.loads((files("conformance") / "requirements.toml").read_text(encoding="utf-8"))
    result: dict[str, Requirement] = {}
    for entry in table["requirement"]:
        requirement = Requirement(**entry)
        if requirement.id in result or requirement.level not in LEVELS:
            raise UsageError(f"requirements.toml: {requirement.id} stands twice or has no known level")
        result[requirement.id] = requirement
    return result


def strictest(ids: tuple[str, ...]) -> str:
    """Returns the strictest level among requirements."""
    return min((requirements()[name].level for name in ids), key=LEVELS.index)
