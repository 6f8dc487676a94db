"""Who is told of which declaration: propagation, interests, snapshots, and what is taken back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from conformance.router.policy import RouterPolicy
from conformance.router.relay import CONTROL, made, with_node_id
from conformance.router.tables import (
    NOTHING,
    OWN,
    Entity,
    Holder,
    Info,
    Interest,
    Mood,
    Neighbour,
    Record,
    Records,
    Told,
)
from conformance.router.trees import Trees
from scapy_layers.codes import WhatAmI
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import QueryableInfo, WireExpr
from scapy_layers.keyexpr import includes
from scapy_layers.message import Message
from scapy_layers.network import Declare

_MADE: dict[Entity, type[Message]] = {
    Entity.SUBSCRIBER: DeclareSubscriber,
    Entity.QUERYABLE: DeclareQueryable,
    Entity.TOKEN: DeclareToken,
}
_GONE: dict[Entity, type[Message]] = {
    Entity.SUBSCRIBER: UndeclareSubscriber,
    Entity.QUERYABLE: UndeclareQueryable,
    Entity.TOKEN: UndeclareToken,
}


class Telling:
    """Tells each face what it is to be told, once, and takes it back when the last one who held it has gone."""

    def __init__(
        self,
        neighbours: dict[int, Neighbour],
        records: Records,
        trees: Trees,
        policy: RouterPolicy,
        send: Callable[[int, Message], None],
    ) -> None:
        self._neighbours = neighbours
        self._records = records
        self._trees = trees
        self._policy = policy
        self._send = send

    # What happens -----------------------------------------------------------------------------------

    def changed(self, record: Record, holder: Holder, *, added: bool) -> None:
        """Tells all whom it concerns that a holder has more under a key, or less or something else."""
        source = OWN if self._ours(holder) else holder
        assert isinstance(source, bytes)
        for neighbour in self._neighbours.values():
            if neighbour.mood is Mood.JOINING:
                continue
            if neighbour.networked:
                info = self._from(neighbour, record, source)
                self._set(neighbour, record.kind, source, record.key, info, added=added, unasked=True)
            elif neighbour.mood is Mood.UNASKED and self._wants_unasked(neighbour, record):
                info = self._seen_by(neighbour, record)
                self._set(neighbour, record.kind, OWN, record.key, info, added=added, unasked=True)
            elif neighbour.mood is Mood.ASKED:
                self._change_for_asker(neighbour, record, added)

    def joined(self, neighbour: Neighbour) -> None:
        """Tells a face that has not asked all there is."""
        neighbour.mood = Mood.UNASKED
        if not self._policy.told_unasked(neighbour.whatami):
            neighbour.mood = Mood.ASKED
            return
        for record in self._records.all():
            if self._wants_unasked(neighbour, record):
                for source, info in self._views(neighbour, record):
                    self._set(neighbour, record.kind, source, record.key, info, added=True, unasked=True)

    def asked(self, neighbour: Neighbour, interest: Interest, mode: int) -> None:
        """Answers an INTEREST and remembers what it wants to know from now on."""
        if not neighbour.networked and self._policy.narrows():
            neighbour.mood = Mood.ASKED
        elif neighbour.mood is Mood.JOINING:
            self.joined(neighbour)
        goes_on = self._policy.tells_changes(mode)
        old = neighbour.interests.put(interest) if goes_on else None
        if self._policy.lists_current(mode):
            for kind in sorted(interest.kinds):
                self._list(neighbour, interest, kind, keep=goes_on)
        if old is not None:
            self._forget(neighbour, old)
        if self._policy.closes_list(mode):
            self.final(neighbour, interest.number)

    def ended(self, neighbour: Neighbour, number: int) -> None:
        """Ends an interest: nothing more is told of what only this one asked for."""
        interest = neighbour.interests.pop(number)
        if interest is not None:
            self._forget(neighbour, interest)

    def final(self, neighbour: Neighbour, number: int) -> None:
        """Says that an interest has been answered."""
        self._declare(neighbour, OWN, made(DeclareFinal, {}), number)

    def rearranged(self) -> None:
        """Tells who is now next on the way from a node of the network what that node has declared."""
        known, reached = self._trees.known(), self._trees.reached()
        for neighbour in self._neighbours.values():
            if neighbour.networked and neighbour.mood is not Mood.JOINING:
                self._rearrange(neighbour)
                self._take_back(neighbour, known, reached)

    def _rearrange(self, neighbour: Neighbour) -> None:
        told = {(kind, key): set[bytes]() for kind, _, key in neighbour.told}
        for kind, source, key in neighbour.told:
            told[kind, key].add(source)
        for holder, records in self._records.of_holder.items():
            if isinstance(holder, bytes):
                for record in records:
                    told.setdefault((record.kind, record.key), set()).update((OWN, holder))
        for (kind, key), sources in told.items():
            held = self._records.get(kind, key)
            for source in sources:
                info = None if held is None else self._from(neighbour, held, source)
                name = (kind, source, key)
                if info is None and source != OWN and neighbour.whatami == WhatAmI.ROUTER:
                    # It knows the declaration by node and key, and hears of it from elsewhere now.
                    if neighbour.told.pop(name, None) is not None:
                        neighbour.left.add(name)
                else:
                    neighbour.left.discard(name)
                    self._set(neighbour, kind, source, key, info, added=True, unasked=True)

    def _take_back(self, neighbour: Neighbour, known: Collection[bytes], reached: Collection[bytes]) -> None:
        """Takes back what is not so and what nobody but us will take back."""
        for name in list(neighbour.left):
            source = name[1]
            if source in reached and not self._next_for(neighbour, source):
                continue
            neighbour.left.remove(name)
            # A node that the network has forgotten has no number any more, and is gone for others too.
            if source in known:
                self._undeclare(neighbour, name, 0)

    def _wants_unasked(self, neighbour: Neighbour, record: Record) -> bool:
        return record.kind is not Entity.TOKEN or self._policy.tokens_unasked(neighbour.whatami)

    # What a face can know -----------------------------------------------------------------------------

    def _seen_by(self, neighbour: Neighbour, record: Record) -> Info | None:
        """Returns what all others hold under a key, as a face outside of the network sees it."""
        return record.of_all(None if self._policy.told_of_own() else neighbour.face)

    def _ours(self, holder: Holder) -> bool:
        """Tells whether others hear of a holder as of ourselves."""
        return isinstance(holder, int) or self._trees.ours(holder)

    def _from(self, neighbour: Neighbour, record: Record, source: bytes) -> Info | None:
        """Returns what a face of the network is told that one node holds; None when it hears of it elsewhere."""
        if not self._policy.told_to_network(neighbour.whatami):
            return None
        own = None if self._policy.told_of_own() else neighbour.zid
        if source == OWN:
            return record.of(lambda node: node != own and self._ours(node))
        return record.info(source) if self._next_for(neighbour, source) else None

    def _next_for(self, neighbour: Neighbour, source: bytes) -> bool:
        """Tells whether we are next on the way from a node to a face, so that it hears of the node by us."""
        if source == neighbour.zid and not self._policy.told_of_own():
            return False
        return not self._trees.ours(source) and neighbour.face in self._trees.children(source)

    def _views(self, neighbour: Neighbour, record: Record) -> Iterable[tuple[bytes, Info | None]]:
        if not neighbour.networked:
            return [(OWN, self._seen_by(neighbour, record))]
        sources = [OWN, *(holder for holder in record.holders if isinstance(holder, bytes))]
        return [(source, self._from(neighbour, record, source)) for source in sources]

    # Interests ------------------------------------------------------------------------------------------

    def _folds(self, interest: Interest, kind: Entity) -> bool:
        return (
            interest.aggregate and interest.key is not None and self._policy.aggregates(kind is Entity.TOKEN)
        )

    def _change_for_asker(self, neighbour: Neighbour, record: Record, added: bool) -> None:
        kind, key = record.kind, record.key
        covering = neighbour.interests.covering(kind, key)
        folded = {interest.key for interest in covering if self._folds(interest, kind)}
        wanted = any(not self._folds(interest, kind) for interest in covering)
        if (wanted or (kind, OWN, key) in neighbour.told) and key not in folded:
            self._set(neighbour, kind, OWN, key, self._seen_by(neighbour, record), added=added)
        for whole in folded:
            if whole is not None:
                self._fold(neighbour, record, whole, added)

    def _fold(self, neighbour: Neighbour, record: Record, key: str, added: bool) -> None:
        """Tells of a change under the key of an interest that wants it folded."""
        kind = record.kind
        told = neighbour.told.get((kind, OWN, key))
        if added and (kind is not Entity.QUERYABLE or told is not None):
            # One more changes little, so that all the others need not be looked at.
            more = self._share(neighbour, record, key)
            if more is None:
                return
            if told is not None and kind is Entity.QUERYABLE:
                sent = self._sent(kind, more)
                both = Info(told.info.complete or sent.complete, min(told.info.distance, sent.distance))
                self._say_again(neighbour, (kind, OWN, key), told, both)
            else:
                self._set(neighbour, kind, OWN, key, more, added=True)
            return
        self._set(neighbour, kind, OWN, key, self._folded(neighbour, kind, key), added=added)

    def _share(self, neighbour: Neighbour, record: Record, key: str) -> Info | None:
        """Returns what a record adds to a folded declaration."""
        info = self._seen_by(neighbour, record)
        if info is None or record.kind is not Entity.QUERYABLE:
            return info
        return Info(info.complete and includes(record.key, key), info.distance)

    def _folded(self, neighbour: Neighbour, kind: Entity, key: str) -> Info | None:
        whole: Info | None = None
        for record in self._records.matching(kind, key):
            share = self._share(neighbour, record, key)
            if share is None:
                continue
            if kind is not Entity.QUERYABLE:
                return share
            whole = (
                share
                if whole is None
                else Info(whole.complete or share.complete, min(whole.distance, share.distance))
            )
        return whole

    def _list(self, neighbour: Neighbour, interest: Interest, kind: Entity, *, keep: bool) -> None:
        """Tells what there is, as the answer to an interest."""
        if self._folds(interest, kind) and not neighbour.networked:
            assert interest.key is not None
            folded = self._folded(neighbour, kind, interest.key)
            self._answer(neighbour, (kind, OWN, interest.key), folded, interest.number, keep=keep)
            return
        for record in self._records.matching(kind, interest.key):
            for source, info in self._views(neighbour, record):
                self._answer(neighbour, (kind, source, record.key), info, interest.number, keep=keep)

    def _forget(self, neighbour: Neighbour, interest: Interest) -> None:
        """Forgets what was told for an interest that is over, unless another one or nobody asked for it too."""
        for kind in interest.kinds:
            if interest.key is None:
                keys = [key for one, _, key in neighbour.told if one is kind]
            else:
                keys = [
                    interest.key,
                    *(record.key for record in self._records.matching(kind, interest.key)),
                ]
            for key in keys:
                told = neighbour.told.get((kind, OWN, key))
                if told is not None and not told.unasked and not self._covered(neighbour, kind, key):
                    del neighbour.told[kind, OWN, key]

    def _covered(self, neighbour: Neighbour, kind: Entity, key: str) -> bool:
        return any(
            interest.key == key or not self._folds(interest, kind)
            for interest in neighbour.interests.covering(kind, key)
        )

    # Messages -------------------------------------------------------------------------------------------

    def _sent(self, kind: Entity, info: Info) -> Info:
        """Returns what is said of a queryable on the next hop."""
        if kind is not Entity.QUERYABLE:
            return NOTHING
        return Info(self._policy.told_complete(info.complete), self._policy.farther(info.distance))

    def _set(
        self,
        neighbour: Neighbour,
        kind: Entity,
        source: bytes,
        key: str,
        info: Info | None,
        *,
        added: bool,
        unasked: bool = False,
    ) -> None:
        """Makes sure that a face knows what is true: declares, undeclares, or says nothing."""
        name = (kind, source, key)
        told = neighbour.told.get(name)
        if info is None:
            if told is not None:
                del neighbour.told[name]
                self._undeclare(neighbour, name, told.number)
            return
        sent = self._sent(kind, info)
        if told is not None:
            self._say_again(neighbour, name, told, sent)
        elif added:
            number = self._number(neighbour)
            neighbour.told[name] = Told(number, sent, unasked)
            self._declare(neighbour, source, self._body(kind, key, number, sent))

    def _say_again(
        self, neighbour: Neighbour, name: tuple[Entity, bytes, str], told: Told, sent: Info
    ) -> None:
        """Declares once more, with the same id, when what was said is not true any more."""
        if told.info != sent:
            kind, source, key = name
            neighbour.told[name] = told._replace(info=sent)
            self._declare(neighbour, source, self._body(kind, key, told.number, sent))

    def _answer(
        self,
        neighbour: Neighbour,
        name: tuple[Entity, bytes, str],
        info: Info | None,
        interest: int,
        *,
        keep: bool,
    ) -> None:
        if info is None:
            return
        kind, source, key = name
        sent = self._sent(kind, info)
        told = neighbour.told.get(name)
        number = self._number(neighbour) if told is None else told.number
        if keep or told is not None or neighbour.networked:
            neighbour.told[name] = Told(number, sent, told is not None and told.unasked)
        self._declare(neighbour, source, self._body(kind, key, number, sent), interest)

    @staticmethod
    def _number(neighbour: Neighbour) -> int:
        """Returns an id for a declaration. Routers know declarations of routers by node and key; their id is 0."""
        return 0 if neighbour.networked and neighbour.whatami == WhatAmI.ROUTER else neighbour.next_number()

    @staticmethod
    def _body(kind: Entity, key: str, number: int, info: Info) -> Message:
        fields: dict[str, Any] = {
            "N": 1,
            "M": 1,
            "entity_id": number,
            "key_scope": 0,
            "key_suffix": key.encode(),
        }
        if info != NOTHING:
            said = {"complete": int(info.complete), "distance": info.distance}
            fields["extensions"] = [made(QueryableInfo, said)]
        return made(_MADE[kind], fields)

    def _undeclare(self, neighbour: Neighbour, name: tuple[Entity, bytes, str], number: int) -> None:
        kind, source, key = name
        where = made(WireExpr, {"N": 1, "mapping": 1, "key_scope": 0, "key_suffix": key.encode()})
        body = made(_GONE[kind], {"entity_id": number, "extensions": [where]})
        self._declare(neighbour, source, body)

    def _declare(
        self, neighbour: Neighbour, source: bytes, body: Message, interest: int | None = None
    ) -> None:
        chain = [CONTROL]
        if source != OWN:
            chain = with_node_id(chain, self._trees.node_id(source))
        fields: dict[str, Any] = {"extensions": chain, "body": body}
        if interest is not None:
            fields |= {"I": 1, "interest_id": interest}
        self._send(neighbour.face, made(Declare, fields))
