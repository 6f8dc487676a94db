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


Things = set[tuple[str, str]]
"""Kinds and keys."""


class Wish(NamedTuple):
    """What a session has an interest in, now and later.

    Attributes:
        kinds: Some of KINDS.
        key: Key expression.
    """

    kinds: tuple[str, ...]
    key: str

    def of(self, things: Things) -> Things:
        """Returns those of some things that it is about."""
        return {(kind, key) for kind, key in things if kind in self.kinds and intersects(key, self.key)}


@dataclass(slots=True)
class Participant:
    """A session.

    Attributes:
        entities: What it declared, by entity id.
        aliases: Key expressions that it gave a number, by that number.
        wishes: Its interests, by interest id.
        former: Queryables that it took back when another session had one with the same key.
    """

    entities: dict[int, Entity] = field(default_factory=dict)
    aliases: dict[int, str] = field(default_factory=dict)
    wishes: dict[int, Wish] = field(default_factory=dict)
    former: list[Entity] = field(default_factory=list)

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

    def take_back(self, name: str, number: int) -> Entity:
        """Takes an entity of a session away and returns it."""
        entity = self.sessions[name].entities.pop(number)
        if entity.kind == "queryables" and entity[:2] in self.others(name):
            self.sessions[name].former.append(entity)
        return entity

    def asked(self, asker: str, key: str, target: QueryTarget) -> list[tuple[set[str], set[str]]]:
        """Returns who is asked a query, each once: what its target allows, as those who must be and those who may be.

        A session may be that took its queryable back when another one had the same key: whether it is no longer
        asked is the matter of ZN-RTE-027.
        """
        found = self._fitting("queryables", asker, key)
        both = found + [
            (name, entity)
            for name, other in self.sessions.items()
            for entity in other.former
            if name != asker and intersects(entity.key, key)
        ]
        must, may = ({name for name, _ in some} for some in (found, both))
        whole, maybe_whole = ({name for name, entity in some if entity.complete} for some in (found, both))
        match target:
            case QueryTarget.ALL_COMPLETE:
                return [(whole, maybe_whole)]
            case QueryTarget.BEST_MATCHING if whole:
                return [({name}, {name}) for name in sorted(maybe_whole)]
            case QueryTarget.BEST_MATCHING:
                # The page has one asked; real nodes ask all of them then.
                return [(must, may), *(({name}, {name}) for name in sorted(may))]
        return [(must, may)]

    def others(self, listener: str) -> Things:
        """Returns what the others have declared: of that a session is told what it has an interest in."""
        return {
            (entity.kind, entity.key)
            for name, other in self.sessions.items()
            for entity in other.entities.values()
            if name != listener
        }

    def own(self, name: str) -> Things:
        """Returns what a session has declared itself."""
        return {(entity.kind, entity.key) for entity in self.sessions[name].entities.values()}

    def _fitting(self, kind: str, source: str, key: str) -> list[tuple[str, Entity]]:
        return [
            (name, entity)
            for name, other in self.sessions.items()
            for entity in other.entities.values()
            if name != source and entity.kind == kind and intersects(entity.key, key)
        ]
