"""What a rule is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from scapy_layers.message import Layer
from scapy_layers.stream import Way

if TYPE_CHECKING:
    from scapy_layers.lint.notes import Scene

Level = Literal["MUST", "MUST NOT", "SHOULD", "FACT"]
"""Of a requirement, as in the specification; FACT is a statement without such a word that binds all the same."""

ECLIPSE = "eclipse-zenoh"
PICO = "zenoh-pico"


class Severity(StrEnum):
    """How bad a finding is."""

    MUST = "must"
    """A MUST, MUST NOT or FACT is broken."""
    SHOULD = "should"
    """A SHOULD is broken."""
    DEVIATION = "deviation"
    """Broken in a way that is known of an implementation: nothing new."""


class Break(NamedTuple):
    """What a rule found.

    Attributes:
        text: One clause: what was seen.
        known: Implementation of which it is known.
    """

    text: str
    known: str | None = None


Check: TypeAlias = "Callable[[Scene], Iterator[Break]]"


@dataclass(frozen=True, slots=True)
class Rule:
    """A requirement that a passive reader can judge.

    Attributes:
        ids: The requirement, and those that say the same elsewhere.
        level: Of the first one.
        text: The requirement in a few words.
        on: Layers it is about: messages, or bodies inside them.
        check: Yields what is wrong with one.
    """

    ids: tuple[str, ...]
    level: Level
    text: str
    on: tuple[type[Layer], ...]
    check: Check


@dataclass(frozen=True, slots=True)
class Finding:
    """A requirement that a message breaks.

    Attributes:
        rule: What is broken.
        text: What was seen.
        known: Implementation of which this is known.
        packet: Number of the packet.
        time: Of that packet, ns since 1970.
        way: Link and direction: ``way.source`` broke it.
        source_zid: ZenohID of who broke it.
        path: Names of the messages, outermost first.
        keyexpr: Full key, where there is one.
    """

    rule: Rule
    text: str
    known: str | None
    packet: int
    time: int
    way: Way
    source_zid: str | None = None
    path: tuple[str, ...] = ()
    keyexpr: str | None = None

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        if self.known is not None:
            return Severity.DEVIATION
        return Severity.SHOULD if self.rule.level == "SHOULD" else Severity.MUST


RULES: list[Rule] = []
"""All rules."""


def rule(
    *ids: str, level: Level, text: str, on: type[Layer] | tuple[type[Layer], ...]
) -> Callable[[Check], Check]:
    """Registers a rule."""

    def register(check: Check) -> Check:
        RULES.append(Rule(ids, level, text, on if isinstance(on, tuple) else (on,), check))
        return check

    return register


def declare(*ids: str, level: Level, text: str) -> Rule:
    """Registers a rule that is no function over one message: the linter itself finds it broken."""
    described = Rule(ids, level, text, (), _never)
    RULES.append(described)
    return described


def _never(_scene: Scene) -> Iterator[Break]:
    return iter(())
