"""Who declared what: records of keys with their holders, and what is known of each face."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple, NewType

from conformance.router.keys import KeyIndex

Face = NewType("Face", int)
"""A number for a session, chosen by who owns the router and never used again."""

Holder = int | bytes
"""Who declared something: a face, or the ZenohID of a node of the network that we are part of."""

OWN = b""
"""Stands for ourselves, and for all faces that are not part of the network, as the source of a declaration."""


class Entity(IntEnum):
    """What can be declared."""

    SUBSCRIBER = 0
    QUERYABLE = 1
    TOKEN = 2


class Info(NamedTuple):
    """What a queryable says about itself; nothing for other entities."""

    complete: bool = False
    distance: int = 0


NOTHING = Info()


class Record:
    """A key under which some hold entities of one kind.

    Attributes:
        kind: The kind.
        key: The key expression.
        holders: What each holder has declared, under names that only the holder knows.
    """

    __slots__ = ("holders", "key", "kind")

    def __init__(self, kind: Entity, key: str) -> None:
        self.kind = kind
        self.key = key
        self.holders: dict[Holder, dict[Hashable, Info]] = {}

    def info(self, holder: Holder) -> Info | None:
        """Returns what one holder has, several entities taken together; None when it has none."""
        held = self.holders.get(holder)
        return merged(list(held.values())) if held else None

    def of(self, belongs: Callable[[Holder], bool]) -> Info | None:
        """Returns what some holders have together; None when they have nothing."""
        infos: list[Info] = []
        for holder, held in self.holders.items():
            if belongs(holder):
                if self.kind is not Entity.QUERYABLE:
                    return NOTHING
                infos += held.values()
        return merged(infos)

    def of_all(self, but: int | None) -> Info | None:
        """Returns what faces and nodes of the network hold together, one face left out."""
        if self.kind is not Entity.QUERYABLE:
            return NOTHING if len(self.holders) > (but in self.holders) else None
        return merged(
            [info for holder, held in self.holders.items() if holder != but for info in held.values()]
        )


def merged(infos: list[Info]) -> Info | None:
    """Takes queryables together: complete when one of them is, as near as the nearest."""
    if not infos:
        return None
    if len(infos) == 1:
        return infos[0]
    return Info(any(info.complete for info in infos), min(info.distance for info in infos))


class Records:
    """All records, by key and by what intersects; and the records of each holder."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[Entity, str], Record] = {}
        self._index: dict[Entity, KeyIndex[Record]] = {kind: KeyIndex() for kind in Entity}
        self.of_holder: dict[Holder, dict[Record, None]] = {}

    def get(self, kind: Entity, key: str) -> Record | None:
        """Returns the record of a key."""
        return self._by_key.get((kind, key))

    def matching(self, kind: Entity, key: str | None) -> list[Record]:
        """Returns the records that intersect a key, or all of a kind when it is None."""
        if key is None:
            return [record for (one, _), record in self._by_key.items() if one is kind]
        return [record for _, record in self._index[kind].matching(key)]

    def all(self) -> list[Record]:
        """Returns all records."""
        return list(self._by_key.values())

    def put(self, kind: Entity, key: str, holder: Holder, name: Hashable, info: Info) -> Record:
        """Notes an entity and returns its record."""
        record = self._by_key.get((kind, key))
        if record is None:
            record = self._by_key[kind, key] = Record(kind, key)
            self._index[kind].add(key, record)
        record.holders.setdefault(holder, {})[name] = info
        self.of_holder.setdefault(holder, {})[record] = None
        return record

    def drop(self, record: Record, holder: Holder, name: Hashable) -> None:
        """Forgets an entity."""
        held = record.holders.get(holder)
        if held is None or name not in held:
            return
        del held[name]
        if not held:
            self.drop_holder(record, holder)

    def drop_holder(self, record: Record, holder: Holder) -> None:
        """Forgets all entities of a holder under one key."""
        if record.holders.pop(holder, None) is None:
            return
        of_holder = self.of_holder[holder]
        del of_holder[record]
        if not of_holder:
            del self.of_holder[holder]
        if not record.holders:
            del self._by_key[record.kind, record.key]
            self._index[record.kind].discard(record.key, record)

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._by_key)


class Told(NamedTuple):
    """What a face was told of one key.

    Attributes:
        number: The entity id in our declaration.
        info: What we said.
        unasked: It was told without having asked, so it is also told when that changes.
    """

    number: int
    info: Info
    unasked: bool


class Mood(Enum):
    """What a face wants to be told."""

    JOINING = 0
    """Not known yet: it has time to ask."""

    UNASKED = 1
    """Everything."""

    ASKED = 2
    """What it asked for with INTEREST."""


@dataclass(frozen=True, slots=True)
class Interest:
    """An interest of a face in what will be declared.

    Attributes:
        number: Its id.
        kinds: Kinds it is about.
        key: Restricts it; None for no restriction.
        aggregate: Matches are to be folded into its key.
    """

    number: int
    kinds: frozenset[Entity]
    key: str | None
    aggregate: bool


class Interests:
    """The open interests of one face, by kind and key."""

    def __init__(self) -> None:
        self._by_number: dict[int, Interest] = {}
        self._index: dict[Entity, KeyIndex[Interest]] = {kind: KeyIndex() for kind in Entity}
        self._everywhere: dict[Entity, dict[int, Interest]] = {kind: {} for kind in Entity}

    def __len__(self) -> int:
        return len(self._by_number)

    def put(self, interest: Interest) -> Interest | None:
        """Adds one; returns the one with the same id that it replaces."""
        old = self.pop(interest.number)
        self._by_number[interest.number] = interest
        for kind in interest.kinds:
            if interest.key is None:
                self._everywhere[kind][interest.number] = interest
            else:
                self._index[kind].add(interest.key, interest)
        return old

    def pop(self, number: int) -> Interest | None:
        """Takes one out and returns it."""
        interest = self._by_number.pop(number, None)
        for kind in () if interest is None else interest.kinds:
            if interest is not None and interest.key is not None:
                self._index[kind].discard(interest.key, interest)
            else:
                self._everywhere[kind].pop(number, None)
        return interest

    def covering(self, kind: Entity, key: str) -> list[Interest]:
        """Returns the interests that a change under a key concerns."""
        found = list(self._everywhere[kind].values())
        if len(self._index[kind]):
            found += [interest for _, interest in self._index[kind].matching(key)]
        return found


@dataclass(slots=True, eq=False)
class Neighbour:
    """What is known of a face.

    Attributes:
        face: Its number.
        zid: ZenohID of the node behind it.
        whatami: That node's role.
        networked: It takes part in our network (router and router, peer and peer): declarations say where they began.
        rid: Agreed resolution of request ids.
        mood: What it wants to be told.
        joining_until: When it has had its time to ask.
        aliases: Its aliases.
        entities: What it declared, by kind and id: key and holder.
        interests: What it wants to be told of.
        told: What it was told, by kind, source and key.
        left: What it was told while we were on its way to the source, and may still believe: who is on the way now
            takes it back, or we when we are again.
        numbers: Entity ids given out to it.
    """

    face: Face
    zid: bytes
    whatami: int
    networked: bool
    rid: int
    mood: Mood
    joining_until: float
    aliases: dict[int, str] = field(default_factory=dict)
    entities: dict[tuple[Entity, int], tuple[str, Holder]] = field(default_factory=dict)
    interests: Interests = field(default_factory=Interests)
    told: dict[tuple[Entity, bytes, str], Told] = field(default_factory=dict)
    left: set[tuple[Entity, bytes, str]] = field(default_factory=set)
    numbers: int = 0

    def next_number(self) -> int:
        """Returns an entity id that this face was not given yet."""
        self.numbers = self.numbers % 0xFFFF_FFFF + 1
        return self.numbers
