"""The router: takes the network messages of all sessions and says what is to be sent over which."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from conformance.router.network import Network
from conformance.router.policy import RouterPolicy
from conformance.router.queries import Asking, Queries, Query
from conformance.router.relay import CONTROL, alone, chain_of, last, made, relayed, with_node_id
from conformance.router.routes import Routes, is_key
from conformance.router.tables import (
    NOTHING,
    OWN,
    Entity,
    Face,
    Holder,
    Info,
    Interest,
    Mood,
    Neighbour,
    Record,
    Records,
)
from conformance.router.telling import Telling
from conformance.router.trees import Trees
from conformance.router.upstream import Upstream
from scapy_layers.codes import InterestMode, OamId, Priority, QueryTarget, Resolution, WhatAmI
from scapy_layers.data import Err
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import Budget, NodeId, QoS, QueryableInfo, Target, Timeout, WireExpr
from scapy_layers.keyexpr import is_valid
from scapy_layers.message import Extension, Message
from scapy_layers.network import Declare, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.network import Interest as InterestMessage

_log = logging.getLogger(__name__)

_LONGEST_KEY = 0xFFFF
"""Bytes of a key that fit into a message."""

_MADE = {
    DeclareSubscriber: Entity.SUBSCRIBER,
    DeclareQueryable: Entity.QUERYABLE,
    DeclareToken: Entity.TOKEN,
}
_GONE = {
    UndeclareSubscriber: Entity.SUBSCRIBER,
    UndeclareQueryable: Entity.QUERYABLE,
    UndeclareToken: Entity.TOKEN,
}

Name = str | tuple[int, int]
"""What tells the entities of one holder apart: the face and the id that it has there."""

_BY_KEY = "key"
"""Name of an entity that a router declares without an id: there is one for each node and key."""


_EVERYTHING = {
    "subscribers": 1,
    "queryables": 1,
    "tokens": 1,
    "extensions": [CONTROL],
}
"""What an INTEREST in all there is says, besides its mode and its id."""


class Outgoing(NamedTuple):
    """A message to be sent. Several may share one message, so nobody may change it.

    Attributes:
        face: The session.
        message: The network message.
        reliable: Its lane.
        priority: Its lane; where no lanes were agreed there is only one.
    """

    face: Face
    message: Message
    reliable: bool
    priority: int


class Router:
    """Routes by declarations. Without I/O and without a clock: all times are seconds that the owner gives.

    Attributes:
        refused: How many messages had no effect, because they meant nothing or too much; each is logged.
    """

    def __init__(
        self,
        zid: bytes,
        whatami: int = WhatAmI.ROUTER,
        *,
        policy: RouterPolicy | None = None,
        locators: Sequence[str] = (),
    ) -> None:
        self.zid = zid
        self.whatami = whatami
        self.policy = policy or RouterPolicy()
        self.network = Network(zid, whatami, locators)
        self.refused = 0
        self._neighbours: dict[int, Neighbour] = {}
        self._records = Records()
        self._trees = Trees(self.network)
        self._out: list[Outgoing] = []
        self._joining: dict[int, Neighbour] = {}
        self._routes = Routes(self._records, self._trees, self.policy)
        self._queries = Queries(self._neighbours, self.policy, self._send)
        self._telling = Telling(
            self._neighbours, self._records, self._trees, self.policy, self._send_declaration
        )
        self._upstream = Upstream(self._trees, self._records, self._ask_for_all, self._not_confirmed)
        self._handlers: dict[type[Message], Callable[[Neighbour, Any, float, bool, int], None]] = {
            Push: self._push,
            Request: self._request,
            Response: self._response,
            ResponseFinal: self._response_final,
            Declare: self._declare,
            InterestMessage: self._interest,
            NetworkOam: self._oam,
        }

    # Sessions ---------------------------------------------------------------------------------------

    def open(
        self, face: Face, zid: bytes, whatami: int, now: float, *, rid: int = Resolution.BITS_32
    ) -> None:
        """A session became open.

        Args:
            face: A number for it that was not used before.
            zid: ZenohID of the node behind it.
            whatami: That node's role.
            now: The time.
            rid: Agreed resolution of request ids.
        """
        networked = self.whatami == whatami and whatami != WhatAmI.CLIENT
        wait = 0.0 if networked else self.policy.joining_seconds(whatami)
        neighbour = Neighbour(face, zid, whatami, networked, rid, Mood.JOINING, now + wait)
        self._neighbours[face] = neighbour
        if _has_links(self.whatami, whatami):
            self.network.up(face, zid, whatami)
            self._network_changed()
        if self.policy.asks_on_joining(self.whatami, whatami):
            self._send_declaration(face, _all_there_is(InterestMode.CURRENT_FUTURE, 1))
        if wait:
            self._joining[face] = neighbour
            return
        self._telling.joined(neighbour)
        if networked and whatami == WhatAmI.PEER:
            # Real peers wait for it: "my initial declarations are complete".
            self._telling.final(neighbour, 0)

    def close(self, face: Face, now: float, *, expired: bool = False) -> None:
        """A session ended: what it declared is undeclared, its queries are finished.

        Args:
            face: Its number.
            now: The time.
            expired: It was silent for too long.
        """
        del now
        neighbour = self._neighbours.pop(face, None)
        if neighbour is None:
            return
        self._joining.pop(face, None)
        self._queries.closed(face)
        self._upstream.closed(face)
        if self.policy.undeclares_lost(expired=expired):
            left: dict[tuple[int, Record, Holder], None] = {}
            for (kind, number), (key, holder) in neighbour.entities.items():
                record = self._records.get(kind, key)
                if record is not None:
                    self._records.drop(record, holder, (face, number))
                    left[kind, record, holder] = None
            for _, record, holder in left:
                self._telling.changed(record, holder, added=False)
        self._routes.forget()
        if _has_links(self.whatami, neighbour.whatami):
            self.network.down(face)
            self._network_changed()

    # Messages and time ----------------------------------------------------------------------------------

    def receive(
        self,
        face: Face,
        message: Message,
        now: float,
        *,
        reliable: bool = True,
        priority: int = Priority.DATA,
    ) -> None:
        """Takes a network message of a session; whatever it says, nothing is raised."""
        neighbour = self._neighbours.get(face)
        if neighbour is None:
            self._refuse(face, message, "the session is not open")
            return
        if neighbour.mood is Mood.JOINING and _speaks(message):
            self._joining.pop(face, None)
            self._telling.joined(neighbour)
        handler = self._handlers.get(type(message))
        if handler is None:
            self._refuse(face, message, "no message of the network")
            return
        handler(neighbour, message, now, reliable, priority)

    def take(self) -> list[Outgoing]:
        """Returns what is to be sent, in order, and forgets it."""
        out = self._out
        self._out = []
        return out

    def next_deadline(self) -> float | None:
        """Returns when ``tick`` is wanted; None when nothing is due."""
        waits = [neighbour.joining_until for neighbour in self._joining.values()]
        query = self._queries.next_deadline()
        if query is not None:
            waits.append(query)
        return min(waits, default=None)

    def tick(self, now: float) -> None:
        """Does what is due: ends queries that took too long, tells those who have had their time to ask."""
        for face, neighbour in list(self._joining.items()):
            if neighbour.joining_until <= now:
                del self._joining[face]
                self._telling.joined(neighbour)
        self._queries.tick(now)

    # Sending ------------------------------------------------------------------------------------------

    def _send(self, face: int, message: Message, reliable: bool, priority: int) -> None:
        self._out.append(Outgoing(Face(face), message, reliable, priority))

    def _send_declaration(self, face: int, message: Message) -> None:
        self._out.append(Outgoing(Face(face), message, True, Priority.CONTROL))

    def _refuse(self, face: int, message: Message, why: str) -> None:
        self.refused += 1
        _log.info("face %d: %s has no effect: %s", face, message.name, why)

    # Keys and sources ---------------------------------------------------------------------------------

    def _key(self, neighbour: Neighbour, scope: int, suffix: bytes | str | None, mapping: int) -> str | None:
        """Returns the full key of a message, which may be none; None when its alias is not known."""
        text = suffix.decode("utf-8", "surrogateescape") if isinstance(suffix, bytes) else suffix or ""
        if not scope:
            return text
        # We declare no aliases of our own, so those of "the receiver" do not exist.
        prefix = neighbour.aliases.get(scope) if mapping else None
        if prefix is None:
            return None
        key = prefix + text
        return key if len(key.encode("utf-8", "surrogateescape")) <= _LONGEST_KEY else None

    def _key_of(self, neighbour: Neighbour, message: Message) -> str | None:
        fields = message.fields
        scope = fields.get("key_scope", 0)
        return self._key(neighbour, scope, fields.get("key_suffix"), fields.get("M", 0))

    def _origin(self, neighbour: Neighbour, chain: Sequence[Extension]) -> bytes | None:
        """Returns the node at which a message began, ``OWN`` when it began outside of the network.

        None when it is one that began here: it has come back and must not go on.
        """
        if not neighbour.networked:
            return OWN
        said = last(chain, NodeId)
        return (
            self._trees.source(neighbour.face, 0 if said is None else said.fields.get("node_id", 0)) or None
        )

    # Publications ---------------------------------------------------------------------------------------

    def _push(self, neighbour: Neighbour, message: Push, now: float, reliable: bool, priority: int) -> None:
        del now
        key = self._key_of(neighbour, message)
        chain = chain_of(message)
        origin = self._origin(neighbour, chain) if neighbour.networked else OWN
        route = None if key is None or origin is None else self._routes.of_push(origin, key)
        if route is None or key is None or origin is None:
            self._refuse(neighbour.face, message, "no key")
            return
        if self.policy.floods():
            route = tuple(self._neighbours)
        back = self.policy.returned_to_source()
        source = neighbour.face
        sent: dict[int | None, Message] = {}
        for face in route:
            target = self._neighbours[face]
            if (face == source and not back) or not self._carried(neighbour, target):
                continue
            if target.networked:
                node_id: int | None = self._trees.node_id(origin)
            else:
                node_id = self.policy.node_id(source)
            out = sent.get(node_id)
            if out is None:
                out = sent[node_id] = relayed(message, key, with_node_id(chain, node_id))
            self._out.append(Outgoing(Face(face), out, reliable, priority))

    def _carried(self, source: Neighbour, target: Neighbour) -> bool:
        """Tells whether we carry from one face to another."""
        if source.whatami != WhatAmI.PEER or target.whatami != WhatAmI.PEER or source.networked:
            return True
        linked = self.network.linked(source.face, target.zid) or self.network.linked(target.face, source.zid)
        return self.policy.carries(linked)

    # Queries ----------------------------------------------------------------------------------------------

    def _request(
        self, neighbour: Neighbour, message: Request, now: float, reliable: bool, priority: int
    ) -> None:
        chain = chain_of(message)
        quality = last(chain, QoS)
        timeout, budget = last(chain, Timeout), last(chain, Budget)
        seconds = (
            self.policy.default_timeout()
            if timeout is None
            else self.policy.timeout(timeout.fields["timeout"])
        )
        query = Query(
            neighbour.face,
            message.fields.get("request_id", 0),
            [] if quality is None else [alone(quality)],
            now + seconds,
            reliable=reliable,
            priority=priority,
            budget=None if budget is None else budget.fields.get("budget"),
        )
        self._queries.ask(query, self._targets(neighbour, message, chain))

    def _targets(self, neighbour: Neighbour, message: Request, chain: list[Extension]) -> list[Asking]:
        """Returns whom to ask; nobody when that is nobody's business."""
        key = self._key_of(neighbour, message)
        origin = self._origin(neighbour, chain)
        if key is None or origin is None or not is_key(key, self.policy):
            self._refuse(neighbour.face, message, "no key")
            return []
        if (
            len(self._queries) >= self.policy.most_queries()
            or self._queries.of(neighbour.face) >= self.policy.most_queries_of_asker()
        ):
            self._refuse(neighbour.face, message, "too many open queries")
            return []
        said = last(chain, Target)
        target = QueryTarget.BEST_MATCHING if said is None else said.fields.get("target", 0)
        candidates = [
            one
            for one in self._routes.of_request(origin, key, neighbour.face)
            if self._carried(neighbour, self._neighbours[one.face])
        ]
        bare = with_node_id(chain, None)
        targets = []
        for face in self.policy.targets(target, candidates):
            inside = self._neighbours[face].networked
            out = with_node_id(chain, self._trees.node_id(origin)) if inside else bare
            targets.append(Asking(face, _asking(message, key, out)))
        return targets

    def _response(
        self, neighbour: Neighbour, message: Response, now: float, reliable: bool, priority: int
    ) -> None:
        del now
        number = message.fields.get("request_id", 0)
        query = self._queries.asked_with(neighbour.face, number)
        if query is None:
            self._refuse(neighbour.face, message, "nothing was asked with that id")
            return
        key = self._key_of(neighbour, message)
        if key is None or not (is_valid(key) or _says_nothing(message)):
            self._refuse(neighbour.face, message, "no key")
            return
        out = relayed(message, key, chain_of(message), request_id=query.request_id)
        if not key:
            del out.fields["key_suffix"]
            out.fields["N"] = 0
        self._queries.reply(query, out, reliable=reliable, priority=priority)

    def _response_final(
        self, neighbour: Neighbour, message: ResponseFinal, now: float, reliable: bool, priority: int
    ) -> None:
        del now, reliable, priority
        if not self._queries.finished(neighbour.face, message.fields.get("request_id", 0)):
            self._refuse(neighbour.face, message, "nothing was asked with that id")

    # Declarations -------------------------------------------------------------------------------------------

    def _declare(
        self, neighbour: Neighbour, message: Declare, now: float, reliable: bool, priority: int
    ) -> None:
        del now, reliable, priority
        body = message.fields.get("body")
        kind = type(body)
        if kind in _MADE:
            self._entity(neighbour, message, body, _MADE[kind])
        elif kind in _GONE:
            self._no_entity(neighbour, message, body, _GONE[kind])
        elif kind is DeclareKeyExpr:
            self._alias(neighbour, message, body)
        elif kind is UndeclareKeyExpr:
            gone = neighbour.aliases.pop(body.fields.get("key_id", 0), "")
            neighbour.alias_characters -= len(gone)
        elif kind is DeclareFinal:
            self._upstream.finished(neighbour.face, message.fields.get("interest_id", 0))
        else:
            self._refuse(neighbour.face, message, "no declaration")

    def _alias(self, neighbour: Neighbour, message: Declare, body: Message) -> None:
        number = body.fields.get("key_id", 0)
        # There is no M flag: an alias of an alias is the sender's (reading R-27).
        key = self._key(neighbour, body.fields.get("key_scope", 0), body.fields.get("key_suffix"), 1)
        if not number or not key:
            self._refuse(neighbour.face, message, "an alias needs an id and a key")
        elif number in neighbour.aliases:
            # As real nodes do it: the first one stays until it is taken back.
            self._refuse(neighbour.face, message, "the id is taken")
        elif (
            len(neighbour.aliases) >= self.policy.most_aliases()
            or neighbour.alias_characters + len(key) > self.policy.most_alias_characters()
        ):
            self._refuse(neighbour.face, message, "too many aliases")
        else:
            neighbour.aliases[number] = key
            neighbour.alias_characters += len(key)

    def _entity(self, neighbour: Neighbour, message: Declare, body: Message, kind: Entity) -> None:
        key = self._key_of(neighbour, body)
        source = self._origin(neighbour, chain_of(message))
        if key is None or source is None or not is_key(key, self.policy):
            self._refuse(neighbour.face, message, "no key" if source is not None else "it began here")
            return
        holder: Holder = source if neighbour.networked else neighbour.face
        number = body.fields.get("entity_id", 0)
        if self._by_key(neighbour, number):
            assert isinstance(holder, bytes)
            self._upstream.heard(neighbour.face, neighbour.zid, holder)
            if message.fields.get("I", 0):
                answered = message.fields.get("interest_id", 0)
                self._upstream.said(neighbour.face, answered, (kind, holder, key))
            name: Name = _BY_KEY
            old = None
            full = len(self._records.of_holder.get(holder, ())) >= self.policy.most_declarations()
        else:
            name = (neighbour.face, number)
            old = neighbour.entities.get((kind, number))
            full = old is None and len(neighbour.entities) >= self.policy.most_declarations()
        if full or not self._has_room(kind, key, holder):
            self._refuse(neighbour.face, message, "too many declarations")
            return
        if old is not None and old != (key, holder):
            self._drop(kind, *old, name)
        record = self._hold(kind, key, holder, name, _info(kind, body))
        if name != _BY_KEY:
            # The record's text, so that many entities of one key keep it once.
            neighbour.entities[kind, number] = (record.key, holder)

    def _has_room(self, kind: Entity, key: str, holder: Holder) -> bool:
        """Tells whether the key of a declaration may be kept."""
        record = self._records.get(kind, key)
        if record is not None and holder in record.holders:
            return True
        return self._records.characters.get(holder, 0) + len(key) <= self.policy.most_key_characters()

    @staticmethod
    def _by_key(neighbour: Neighbour, number: int) -> bool:
        """Tells whether an entity is known by its node and its key: real routers give each other no ids."""
        return neighbour.networked and neighbour.whatami == WhatAmI.ROUTER and not number

    def _hold(self, kind: Entity, key: str, holder: Holder, name: Name, info: Info) -> Record:
        """Notes an entity and tells whom it concerns."""
        known = self._records.get(kind, key)
        before = None if known is None else known.entity(holder, name)
        if known is not None and before == info:
            return known
        record = self._records.put(kind, key, holder, name, info)
        if kind is Entity.SUBSCRIBER:
            self._routes.forget()
        self._telling.changed(record, holder, added=before is None)
        return record

    def _no_entity(self, neighbour: Neighbour, message: Declare, body: Message, kind: Entity) -> None:
        number = body.fields.get("entity_id", 0)
        known = neighbour.entities.pop((kind, number), None)
        if known is not None:
            self._drop(kind, *known, (neighbour.face, number))
            return
        where = last(chain_of(body), WireExpr)
        if not neighbour.networked or where is None:
            self._refuse(neighbour.face, message, "nothing has that id")
            return
        fields = where.fields
        key = self._key(
            neighbour, fields.get("key_scope", 0), fields.get("key_suffix"), fields.get("mapping", 0)
        )
        source = self._origin(neighbour, chain_of(message))
        if key and source:
            self._upstream.heard(neighbour.face, neighbour.zid, source)
            self._drop(kind, key, source, _BY_KEY)

    def _drop(self, kind: Entity, key: str, holder: Holder, name: Name) -> None:
        """Forgets an entity and tells whom it concerns."""
        record = self._records.get(kind, key)
        if record is None:
            return
        self._records.drop(record, holder, name)
        if kind is Entity.SUBSCRIBER:
            self._routes.forget()
        self._telling.changed(record, holder, added=False)

    # Interests ----------------------------------------------------------------------------------------------

    def _interest(
        self, neighbour: Neighbour, message: Message, now: float, reliable: bool, priority: int
    ) -> None:
        del now, reliable, priority
        mode = message.value("mode")
        number = message.fields.get("interest_id", 0)
        if mode == InterestMode.FINAL:
            self._telling.ended(neighbour, number)
            return
        key = None
        if message.value("restricted"):
            key = self._key_of(neighbour, message)
            if key is None or not is_key(key, self.policy):
                self._refuse(neighbour.face, message, "no key")
                return
        if (
            len(neighbour.interests) >= self.policy.most_interests()
            or neighbour.interests.characters + len(key or "") > self.policy.most_key_characters()
        ):
            self._refuse(neighbour.face, message, "too many interests")
            return
        names = {
            Entity.SUBSCRIBER: "subscribers",
            Entity.QUERYABLE: "queryables",
            Entity.TOKEN: "tokens",
        }
        kinds = frozenset(kind for kind, name in names.items() if message.value(name))
        self._joining.pop(neighbour.face, None)
        interest = Interest(number, kinds, key, bool(message.value("aggregate")))
        self._telling.asked(neighbour, interest, mode)

    # The network ----------------------------------------------------------------------------------------------

    def _oam(
        self, neighbour: Neighbour, message: NetworkOam, now: float, reliable: bool, priority: int
    ) -> None:
        del now, reliable, priority
        if _has_links(self.whatami, neighbour.whatami) and message.fields.get("oam_id") == OamId.LINKSTATE:
            self.network.receive(neighbour.face, message)
            self._network_changed()

    def _network_changed(self) -> None:
        """Sends what the network has to say; if it is another one now, tells who is next on the way."""
        for face, oam in self.network.take():
            self._send_declaration(face, oam)
        if not self._trees.news():
            return
        self._routes.forget()
        there = {neighbour.zid for neighbour in self._neighbours.values() if neighbour.networked}
        there.update(self.network.nodes())
        for holder in list(self._records.of_holder):
            if isinstance(holder, bytes) and holder not in there:
                self._lose(holder)
        self._telling.rearranged()
        self._upstream.rearranged(self._trees.known())

    def _lose(self, node: bytes) -> None:
        """Forgets what a node had declared that cannot be reached any more."""
        self._upstream.lost(node, [face for face, one in self._neighbours.items() if one.networked])
        for neighbour in self._neighbours.values():
            if neighbour.networked:
                gone = [name for name, (_, holder) in neighbour.entities.items() if holder == node]
                for name in gone:
                    del neighbour.entities[name]
        for record in list(self._records.of_holder.get(node, ())):
            self._records.drop_holder(record, node)
            self._telling.changed(record, node, added=False)

    def _ask_for_all(self, face: int, number: int) -> None:
        """Asks a router for all it has to say."""
        if self._neighbours[face].whatami == WhatAmI.ROUTER:
            self._send_declaration(face, _all_there_is(InterestMode.CURRENT, number))

    def _not_confirmed(self, kind: Entity, key: str, node: bytes) -> None:
        """Forgets what a node had declared that nobody knows of who should."""
        self._drop(kind, key, node, _BY_KEY)


def _all_there_is(mode: int, number: int) -> Message:
    return made(InterestMessage, {"mode": mode, "interest_id": number, **_EVERYTHING})


def _has_links(ours: int, theirs: int) -> bool:
    """Tells whether nodes of these roles tell each other about their links."""
    return WhatAmI.CLIENT not in {ours, theirs}


def _speaks(message: Message) -> bool:
    """Tells whether a message shows that its sender will not ask before it goes to work."""
    if isinstance(message, InterestMessage | NetworkOam):
        return False
    return not (isinstance(message, Declare) and type(message.fields.get("body")) is DeclareKeyExpr)


def _says_nothing(message: Response) -> bool:
    """Tells whether a RESPONSE may have no key: real routers send such an ERR when a query timed out."""
    fields = message.fields
    empty = not fields.get("key_scope", 0) and not fields.get("key_suffix")
    return empty and isinstance(fields.get("body"), Err)


def _info(kind: Entity, body: Message) -> Info:
    """Returns what a declaration says of a queryable."""
    said = last(chain_of(body), QueryableInfo) if kind is Entity.QUERYABLE else None
    if said is None:
        return NOTHING
    return Info(bool(said.fields.get("complete", 0)), said.fields.get("distance", 0))


def _asking(message: Request, key: str, chain: list[Extension]) -> Callable[[int], Message]:
    return lambda number: relayed(message, key, chain, request_id=number)
