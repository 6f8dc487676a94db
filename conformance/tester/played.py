"""What came of a script."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.observe import History
from conformance.tester.hearing import Hearing
from conformance.tester.listener import ListenerEnd
from conformance.tester.script import Script
from conformance.tester.steps import Step
from scapy_layers.message import Message

Path = tuple[int, ...]
"""Where a step stands: its index, and inside another step the group and the index there."""

AnyEnd = Hearing | ListenerEnd


@dataclass(frozen=True, slots=True)
class Failure:
    """The expectation that was not met.

    Attributes:
        path: Of the step.
        step: The step.
        expected: In words.
        seen: In words.
        detail: Whatever helps a person.
    """

    path: Path
    step: Step
    expected: str
    seen: str
    detail: str

    def __str__(self) -> str:
        return f"step {dotted(self.path)}: expected {self.expected}, seen {self.seen}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A step that had no meaning where it stood.

    Attributes:
        path: Of the step.
        step: The step.
        why: In words.
    """

    path: Path
    step: Step
    why: str


@dataclass(slots=True)
class Played:
    """What came of a script.

    Attributes:
        script: The script.
        history: Everything that was seen.
        ends: The ends that it made, by name.
        done: Steps that were done, those inside others too.
        skipped: Steps that were passed over.
        failure: The first expectation that was not met; the script ended there.
    """

    script: Script
    history: History
    ends: dict[str, AnyEnd] = field(default_factory=dict)
    done: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    failure: Failure | None = None

    @property
    def met(self) -> bool:
        """All expectations were met."""
        return self.failure is None

    def came(self, link: str) -> list[Message]:
        """Returns what came in on a link of the script."""
        end = self.ends.get(link)
        return [seen.message for seen in end.inbox] if isinstance(end, Hearing) else []


def dotted(path: Path) -> str:
    """Returns where a step stands, counted from 1: ``3``, or ``3.1.2`` for the second of group 1 in step 3."""
    return ".".join(str(number + 1) for number in path)
