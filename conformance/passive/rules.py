"""What a passive rule is, and the register of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from conformance.observe import Observation
from scapy_layers.message import Message

if TYPE_CHECKING:
    from conformance.passive.talk import Talk

Judge = Callable[[Any, "Talk"], bool | None]
"""Judges what the node sent: raises Unmet when the requirement is broken, returns False when it says nothing of it."""

Subject = type[Message] | type[Observation]
"""What a rule looks at: messages of a class, or whole batches."""

Made = TypeVar("Made", bound=Judge)


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One function that judges something the node sent.

    Attributes:
        requirement: What it decides.
        judge: The function.
        echoed: What it looks at may be passed on from somebody else: when one of our ends said the same wrong thing
            in the same history, the node is not to blame.
    """

    requirement: str
    judge: Judge
    echoed: bool


@dataclass(slots=True)
class Checker:
    """All rules of one requirement.

    Attributes:
        requirement: Its id.
        rules: They.
    """

    requirement: str
    rules: list[Rule] = field(default_factory=list)


CHECKERS: dict[str, Checker] = {}
"""By requirement."""

by_class: dict[Subject, list[Rule]] = {}
"""Rules of a class of messages, or of batches."""

by_extension: dict[tuple[Subject, int], list[Rule]] = {}
"""Rules of an extension, by the class of the message around it and its id."""

about_extensions: dict[Subject, list[Rule]] = {}
"""Rules of every extension of a class of messages."""

ANY = -1
"""Stands for every extension id."""


def rule(
    requirement: str,
    *subjects: Subject,
    extension: int | None = None,
    echoed: bool = False,
) -> Callable[[Made], Made]:
    """Registers a function as a rule of a requirement.

    Args:
        requirement: What it decides.
        subjects: Classes of the messages it gets; ``Observation`` for whole batches and datagrams.
        extension: It gets the extension with that id, where there is one, instead of the message; ANY: each.
        echoed: See Rule.
    """

    def register(judge: Made) -> Made:
        made = Rule(requirement, judge, echoed)
        CHECKERS.setdefault(requirement, Checker(requirement)).rules.append(made)
        for subject in subjects:
            if extension is None:
                by_class.setdefault(subject, []).append(made)
            elif extension == ANY:
                about_extensions.setdefault(subject, []).append(made)
            else:
                by_extension.setdefault((subject, extension), []).append(made)
        return judge

    return register
