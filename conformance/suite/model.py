"""What a router has to know of its sessions, and where it has to send what: the model for test_model.py.

Sessions by name, what they declared, and three questions: who gets a publication, who is asked a query, what a
session that asked for it has been told. No bytes, no links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from scapy_layers.codes import QueryTarget
from scapy_layers.keyexpr import intersects

KINDS = ("subscribers", "queryables", "tokens")


class Entity(NamedTuple):
    """Something declared.

    Attributes:
        kind: One of KINDS.
        key: Key expression.
        complete: Of a queryable: it has all there is for its key.
    """

    kind: str
    key: str
    complete: bool = False


@dataclass(slots=True)
class Participant:
    """A session.

    Attributes:
        entities: What it declared, by entity id.
        aliases: Key expressions that it gave a number, by that number.
        asked: It has an interest in everything, now and later.
    """

    entities: dict[int, Entity] = field(default_factory=dict)
    aliases: dict[int, str] = field(default_factory=dict)
    asked: bool = False

    def written(self, key: str, choice: int | None) -> tuple[int, str]:
        """Returns a key as it can be said: number of an alias, 0 for none, and what stands behind it.

        Args:
            key: Key expression.
            choice: Which of the aliases that fit is used, counted round; none is when None.
        """
        fitting = [
            (number, key.removeprefix(alias))
            for number, alias in self.aliases.items()
            if key == alias or key.startswith(f"{alias}/")
        ]
        return (0, key) if choice is None or not fitting else fitting[choice % len(fitting)]


class Model:
    """A router and its sessions.

    Attributes:
        sessions: By name.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, Participant] = {}

    def receivers(self, publisher: str, key: str) -> set[str]:
        """Returns the sessions that get a publication, each once: those with a fitting subscriber but the source."""
        return {name for name, _ in self._fitting("subscribers", publisher, key)}

    def asked(self, asker: str, key: str, target: QueryTarget) -> list[set[str]]:
        """Returns who may be asked a query, each once: the sets of sessions that its target allows."""
        found = self._fitting("queryables", asker, key)
        fitting = {name for name, _ in found}
        complete = {name for name, entity in found if entity.complete}
        match target:
            case QueryTarget.ALL_COMPLETE:
                return [complete]
            case QueryTarget.BEST_MATCHING if complete:
                return [{name} for name in sorted(complete)]
            case QueryTarget.BEST_MATCHING:
                # The page has one asked; real nodes ask all of them then.
                return [fitting, *({name} for name in sorted(fitting))]
        return [fitting]

    def told(self, listener: str) -> set[tuple[str, str]]:
        """Returns kind and key of all that the others have declared: what a session that asked has been told."""
        return {
            (entity.kind, entity.key)
            for name, other in self.sessions.items()
            for entity in other.entities.values()
            if name != listener
        }

    def own(self, name: str) -> set[tuple[str, str]]:
        """Returns kind and key of all that a session has declared itself."""
        return {(entity.kind, entity.key) for entity in self.sessions[name].entities.values()}

    def _fitting(self, kind: str, source: str, key: str) -> list[tuple[str, Entity]]:
        return [
            (name, entity)
            for name, other in self.sessions.items()
            for entity in other.entities.values()
            if name != source and entity.kind == kind and intersects(entity.key, key)
        ]
