"""What a router has to know of its sessions, and where it has to send what: the model for test_model.py.

Sessions by name, what they declared, and three questions: who gets a publication, who is asked a query, what a
session that asked for it has been told. No bytes, no links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

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
        asked: It has an interest in everything, now and later.
    """

    entities: dict[int, Entity] = field(default_factory=dict)
    asked: bool = False


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

    def asked(self, asker: str, key: str, *, complete: bool) -> set[str]:
        """Returns the sessions that are asked a query whose target is All, or AllComplete.

        Args:
            asker: Whose query it is.
            key: Of the query.
            complete: The target is AllComplete.
        """
        found = self._fitting("queryables", asker, key)
        return {name for name, entity in found if entity.complete or not complete}

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
