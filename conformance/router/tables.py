"""Who declared what: records of keys with their holders, and what is known of each face."""

from __future__ import annotations

from bisect import bisect_left, insort
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


_FEW = 8
"""As many are simply gone through; only beyond that it pays to count."""


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


def merged(infos: list[Info]) -> Info | None:
    """Takes queryables together: complete when one of them is, as near as the nearest."""
    if not infos:
        return None
    if len(infos) == 1:
        return infos[0]
    return Info(any(info.complete for info in infos), min(info.distance for info in infos))


class _Tally:
    """How many are complete, and how many there are of each distance."""

    __slots__ = ("complete", "counts", "distances")

    def __init__(self) -> None:
        self.complete = 0
        self.counts: dict[int, int] = {}
        self.distances: list[int] = []

    def add(self, info: Info) -> None:
        self.complete += info.complete
        if info.distance not in self.counts:
            self.counts[info.distance] = 0
            insort(self.distances, info.distance)
        self.counts[info.distance] += 1

    def remove(self, info: Info) -> None:
        self.complete -= info.complete
        self.counts[info.distance] -= 1
        if not self.counts[info.distance]:
            del self.counts[info.distance]
            del self.distances[bisect_left(self.distances, info.distance)]

    def whole(self, but: Info | None) -> Info:
        """Returns what all say together, one left out who is not the only one."""
        nearest = self.distances[0]
        if but is None:
            return Info(self.complete > 0, nearest)
        if nearest == but.distance and self.counts[nearest] == 1:
            nearest = self.distances[1]
        return Info(self.complete > but.complete, nearest)


class Infos:
    """What some queryables say, each under a name."""

    __slots__ = ("_infos", "_tally")

    def __init__(self) -> None:
        self._infos: dict[Hashable, Info] = {}
        self._tally: _Tally | None = None

    def __len__(self) -> int:
        return len(self._infos)

    def get(self, name: Hashable) -> Info | None:
        """Returns what one says."""
        return self._infos.get(name)

    def put(self, name: Hashable, info: Info) -> None:
        """Notes what one says, instead of what it said before."""
        if self._tally is not None:
            before = self._infos.get(name)
            if before is not None:
                self._tally.remove(before)
            self._tally.add(info)
        self._infos[name] = info
        if self._tally is None and len(self._infos) > _FEW:
            self._tally = _Tally()
            for each in self._infos.values():
                self._tally.add(each)

    def pop(self, name: Hashable) -> bool:
        """Forgets one; tells whether it was there."""
        info = self._infos.pop(name, None)
        if info is not None and self._tally is not None:
            self._tally.remove(info)
            if len(self._infos) <= _FEW // 2:
                self._tally = None
        return info is not None

    def whole(self, but: Hashable | None = None) -> Info | None:
        """Returns what all say together, one left out; None when nobody is left."""
        if self._tally is not None:
            return self._tally.whole(self._infos.get(but))
        return merged([info for name, info in self._infos.items() if name != but])


_NOBODY = Infos()


class Record:
    """A key under which some hold entities of one kind.

    Attributes:
        kind: The kind.
        key: The key expression.
        holders: What each holder has declared, under names that only the holder knows.
    """

    __slots__ = ("_faces", "holders", "key", "kind")

    def __init__(self, kind: Entity, key: str) -> None:
        self.kind = kind
        self.key = key
        self.holders: dict[Holder, Infos] = {}
        self._faces = Infos() if kind is Entity.QUERYABLE else _NOBODY

    def entity(self, holder: Holder, name: Hashable) -> Info | None:
        """Returns one entity."""
        held = self.holders.get(holder)
        return None if held is None else held.get(name)

    def put(self, holder: Holder, name: Hashable, info: Info) -> None:
        """Notes an entity."""
        held = self.holders.get(holder)
        if held is None:
            held = self.holders[holder] = Infos()
        held.put(name, info)
        self._sum_up(holder, held)

    def pop(self, holder: Holder, name: Hashable) -> bool:
        """Forgets an entity; tells whether that was the last one of its holder."""
        held = self.holders.get(holder)
        if held is None or not held.pop(name):
            return False
        if len(held):
            self._sum_up(holder, held)
        return not len(held)

    def pop_holder(self, holder: Holder) -> bool:
        """Forgets all entities of a holder; tells whether it had some."""
        self._faces.pop(holder)
        return self.holders.pop(holder, None) is not None

    def _sum_up(self, holder: Holder, held: Infos) -> None:
        info = held.whole() if self.kind is Entity.QUERYABLE and isinstance(holder, int) else None
        if info is not None:
            self._faces.put(holder, info)

    def info(self, holder: Holder) -> Info | None:
        """Returns what one holder has, several entities taken together; None when it has none."""
        held = self.holders.get(holder)
        return None if held is None else held.whole()

    def of(self, belongs: Callable[[bytes], bool]) -> Info | None:
        """Returns what all faces and some nodes of the network have together; None when they have nothing."""
        if self.kind is not Entity.QUERYABLE:
            some = any(isinstance(holder, int) or belongs(holder) for holder in self.holders)
            return NOTHING if some else None
        return self._with_nodes(self._faces.whole(), belongs)

    def of_all(self, but: int | None) -> Info | None:
        """Returns what faces and nodes of the network hold together, one face left out."""
        if self.kind is not Entity.QUERYABLE:
            return NOTHING if len(self.holders) > (but in self.holders) else None
        return self._with_nodes(self._faces.whole(but))

    def _with_nodes(self, faces: Info | None, belongs: Callable[[bytes], bool] | None = None) -> Info | None:
        """Takes what faces have together with what nodes have, or some of them."""
        infos = [] if faces is None else [faces]
        if len(self._faces) < len(self.holders):
            for holder, held in self.holders.items():
                if isinstance(holder, bytes) and (belongs is None or belongs(holder)):
                    infos += filter(None, [held.whole()])
        return merged(infos)


class Records:
    """All records, by key and by what intersects; and for each holder its records and the size of their keys."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[Entity, str], Record] = {}
        self._index: dict[Entity, KeyIndex[Record]] = {kind: KeyIndex() for kind in Entity}
        self.of_holder: dict[Holder, dict[Record, None]] = {}
        self.characters: dict[Holder, int] = {}

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
        record.put(holder, name, info)
        of_holder = self.of_holder.setdefault(holder, {})
        if record not in of_holder:
            of_holder[record] = None
            self.characters[holder] = self.characters.get(holder, 0) + len(key)
        return record

    def drop(self, record: Record, holder: Holder, name: Hashable) -> None:
        """Forgets an entity."""
        if record.pop(holder, name):
            self.drop_holder(record, holder)

    def drop_holder(self, record: Record, holder: Holder) -> None:
        """Forgets all entities of a holder under one key."""
        if not record.pop_holder(holder):
            return
        of_holder = self.of_holder[holder]
        del of_holder[record]
        self.characters[holder] -= len(record.key)
        if not of_holder:
            del self.of_holder[holder], self.characters[holder]
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
    """The open interests of one face, by kind and key.

    Attributes:
        characters: Size of all their keys.
    """

    def __init__(self) -> None:
        self.characters = 0
        self._alike: dict[Interest, int] = {}
        self._by_number: dict[int, Interest] = {}
        self._index: dict[Entity, KeyIndex[Interest]] = {kind: KeyIndex() for kind in Entity}
        self._everywhere: dict[Entity, dict[Interest, None]] = {kind: {} for kind in Entity}

    def __len__(self) -> int:
        return len(self._by_number)

    def put(self, interest: Interest) -> Interest | None:
        """Adds one; returns the one with the same id that it replaces."""
        old = self.pop(interest.number)
        self._by_number[interest.number] = interest
        self.characters += len(interest.key or "")
        for kind, one in _each_kind(interest):
            self._alike[one] = self._alike.get(one, 0) + 1
            if one.key is None:
                self._everywhere[kind][one] = None
            else:
                self._index[kind].add(one.key, one)
        return old

    def pop(self, number: int) -> Interest | None:
        """Takes one out and returns it."""
        interest = self._by_number.pop(number, None)
        if interest is None:
            return None
        self.characters -= len(interest.key or "")
        for kind, one in _each_kind(interest):
            self._alike[one] -= 1
            if self._alike[one]:
                continue
            del self._alike[one]
            if one.key is None:
                del self._everywhere[kind][one]
            else:
                self._index[kind].discard(one.key, one)
        return interest

    def covering(self, kind: Entity, key: str) -> list[Interest]:
        """Returns the interests that a change under a key concerns, those that ask for the same as one."""
        found = list(self._everywhere[kind])
        if len(self._index[kind]):
            found += [interest for _, interest in self._index[kind].matching(key)]
        return found


def _each_kind(interest: Interest) -> list[tuple[Entity, Interest]]:
    """Returns an interest as one for each kind, without what tells it from others that ask for the same."""
    return [
        (kind, Interest(0, frozenset({kind}), interest.key, interest.aggregate)) for kind in interest.kinds
    ]


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
        alias_characters: Size of their keys.
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
    alias_characters: int = 0
    entities: dict[tuple[Entity, int], tuple[str, Holder]] = field(default_factory=dict)
    interests: Interests = field(default_factory=Interests)
    told: dict[tuple[Entity, bytes, str], Told] = field(default_factory=dict)
    left: set[tuple[Entity, bytes, str]] = field(default_factory=set)
    numbers: int = 0

    def next_number(self) -> int:
        """Returns an entity id that this face was not given yet."""
        self.numbers = self.numbers % 0xFFFF_FFFF + 1
        return self.numbers
