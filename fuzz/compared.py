"""How much two nodes were compared, of one process or several."""

from __future__ import annotations

from dataclasses import dataclass, field

Class = tuple[str, str, str]
"""What differences have in common: a state, a kind of message, both endings."""

Field = tuple[str, str, str]
"""What is compared: a state, a kind of message, the path of a field."""


@dataclass(slots=True)
class Compared:
    """What was played on both nodes.

    Attributes:
        title: The other node; empty where there is none.
        met: Fields of the cases that were played on the node under test.
        done: Fields of those that were played on both.
        cases: How many those were.
        kinds: Classes of differences.
    """

    title: str = ""
    met: set[Field] = field(default_factory=set)
    done: set[Field] = field(default_factory=set)
    cases: int = 0
    kinds: set[Class] = field(default_factory=set)

    def merge(self, other: Compared) -> None:
        """Adds what was compared elsewhere: on another node of the same kind, or by another process."""
        self.title = self.title or other.title
        self.met |= other.met
        self.done |= other.done
        self.cases += other.cases
        self.kinds |= other.kinds

    def note(self) -> str:
        """Says how much was compared, and what came out; nothing where there is no other node."""
        if not self.title:
            return ""
        count = len(self.kinds)
        kinds = f"{count} {'kind' if count == 1 else 'kinds'} of difference" if count else "no difference"
        cases = f"{self.cases} {'case' if self.cases == 1 else 'cases'}"
        fields = f"{len(self.done & self.met)} of {len(self.met)} fields in their states"
        return f"compared with {self.title}: {fields}, by {cases}; {kinds}"
