"""Requirements and recorded deviations: loaded once, checked at collection."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A known way in which released nodes differ from a requirement.

    Attributes:
        requirement: Its id.
        impl: Implementation, ``eclipse-zenoh``.
        versions: Releases: ``1.10.2``, a range ``1.0.0-1.10.2``, or several joined by ``,``.
        test: Test id, ``suite/test_init.py::test_x[*]``, with ``*`` as a wildcard.
        seen: What the test sees instead, word for word.
        note: What it means, where it is argued.
    """

    requirement: str
    impl: str
    versions: str
    test: str
    seen: str
    note: str

    def is_for(self, impl: str, version: str, test: str) -> bool:
        """Tells whether it is recorded for a test on a node."""
        # Parameters stand in brackets, which a pattern would take as a set of characters.
        pattern = self.test.replace("[", "[[]")
        return impl == self.impl and _covers(self.versions, version) and fnmatchcase(test, pattern)


def _covers(versions: str, version: str) -> bool:
    for part in versions.split(","):
        low, _, high = part.strip().partition("-")
        if _number(low) <= _number(version) <= _number(high or low):
            return True
    return False


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", version)) or (-1,)


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


@cache
def deviations() -> tuple[Deviation, ...]:
    """Returns all recorded deviations.

    Raises:
        UsageError: ``deviations.toml`` names an unknown requirement.
    """
    table = tomllib.loads((files("conformance") / "deviations.toml").read_text(encoding="utf-8"))
    result = tuple(Deviation(**entry) for entry in table.get("deviation", []))
    for deviation in result:
        if deviation.requirement not in requirements():
            raise UsageError(f"deviations.toml: {deviation.requirement} is no requirement")
    return result


def deviation_of(impl: str, version: str, test: str) -> Deviation | None:
    """Returns the deviation recorded for a test on a node, or None."""
    return next((known for known in deviations() if known.is_for(impl, version, test)), None)


def strictest(ids: tuple[str, ...]) -> str:
    """Returns the strictest level among requirements."""
    return min((requirements()[name].level for name in ids), key=LEVELS.index)
