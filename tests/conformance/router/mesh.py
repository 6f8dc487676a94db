"""A router with faces, fed with messages as they come from the wire, and what it sends as it goes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.router import Face, Outgoing, Router, RouterPolicy
from scapy_layers.batch import contents
from scapy_layers.catalogue import decode
from scapy_layers.codes import InterestMode, Resolution, WhatAmI
from scapy_layers.data import Del, Err, Put, Query, Reply
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
from scapy_layers.extensions import NodeId, QueryableInfo, WireExpr
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal

MADE = {"sub": DeclareSubscriber, "qable": DeclareQueryable, "token": DeclareToken}
GONE = {"sub": UndeclareSubscriber, "qable": UndeclareQueryable, "token": UndeclareToken}
KINDS = {"sub": "subscribers", "qable": "queryables", "token": "tokens"}


class Mesh:
    """One router and the sessions around it; time stands until it is moved."""

    def __init__(
        self,
        *,
        whatami: int = WhatAmI.ROUTER,
        policy: RouterPolicy | None = None,
        zid: bytes = b"\xee\x01",
    ) -> None:
        self.router = Router(zid, whatami, policy=policy)
        self.now = 0.0
        self.sent: list[Outgoing] = []
        self._faces = 0

    def open(
        self, whatami: int = WhatAmI.CLIENT, *, zid: bytes | None = None, rid: int = Resolution.BITS_32
    ) -> End:
        """Opens a session."""
        self._faces += 1
        end = End(self, Face(self._faces), zid or bytes([0xAA, self._faces]))
        self.router.open(end.face, end.zid, whatami, self.now, rid=rid)
        self._collect()
        return end

    def asker(self) -> End:
        """Opens a session that has asked for something else, so it is told nothing unasked."""
        end = self.open()
        end.interest("@nobody", mode=InterestMode.FUTURE, number=4_000_000)
        end.said()
        return end

    def clients(self, count: int) -> list[End]:
        """Opens sessions that are told nothing unasked."""
        return [self.asker() for _ in range(count)]

    def wait(self, seconds: float) -> None:
        """Moves time, and does what is due on the way."""
        until = self.now + seconds
        while (due := self.router.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.router.tick(self.now)
        self.now = until
        self._collect()

    def _collect(self) -> None:
        for out in self.router.take():
            raw = bytes(out.message)
            again = decode(raw)
            assert not again.errors
            assert bytes(again) == raw
            self.sent.append(out._replace(message=again))


class End:
    """The other end of one session."""

    def __init__(self, mesh: Mesh, face: Face, zid: bytes) -> None:
        self.mesh = mesh
        self.face = face
        self.zid = zid
        self._seen = 0
        self._numbers = 0
        self._known: dict[tuple[str, int], str] = {}

    def send(self, *messages: Message, reliable: bool = True, priority: int = 5) -> None:
        """Sends messages as the wire carries them."""
        for message in messages:
            self.give(bytes(message), reliable=reliable, priority=priority)

    def give(self, raw: bytes, *, reliable: bool = True, priority: int = 5) -> None:
        """Sends the bytes of a message."""
        for message in contents(b"\x25\x00" + raw).messages[0].messages:
            assert not message.errors, message.errors
            self.mesh.router.receive(self.face, message, self.mesh.now, reliable=reliable, priority=priority)
        self.mesh._collect()

    def close(self) -> None:
        """Ends the session."""
        self.mesh.router.close(self.face, self.mesh.now)
        self.mesh._collect()

    # Words ------------------------------------------------------------------------------------------

    def declare(self, kind: str, key: str, number: int | None = None, **fields: Any) -> int:
        """Declares an entity, ``complete`` and ``distance`` for a queryable; returns its id."""
        self._numbers += 1
        number = self._numbers if number is None else number
        info = {name: fields.pop(name) for name in ("complete", "distance") if name in fields}
        chain: list[Any] = [QueryableInfo(**info)] if info else []
        body = MADE[kind](entity_id=number, key_suffix=key, extensions=chain)
        self.send(Declare(body=body, **fields))
        return number

    def undeclare(self, kind: str, number: int, key: str | None = None, **fields: Any) -> None:
        """Takes an entity back."""
        chain = [] if key is None else [WireExpr(key_suffix=key.encode())]
        self.send(Declare(body=GONE[kind](entity_id=number, extensions=chain), **fields))

    def alias(self, number: int, key: str, scope: int = 0) -> None:
        """Declares an alias."""
        self.send(Declare(body=DeclareKeyExpr(key_id=number, key_scope=scope, key_suffix=key)))

    def unalias(self, number: int) -> None:
        """Takes an alias back."""
        self.send(Declare(body=UndeclareKeyExpr(key_id=number)))

    def interest(
        self,
        key: str | None,
        *kinds: str,
        mode: int = InterestMode.CURRENT_FUTURE,
        number: int = 1,
        **fields: Any,
    ) -> None:
        """Asks for declarations, of all kinds when none is named."""
        wanted = {KINDS[kind]: 1 for kind in kinds or KINDS}
        where = {} if key is None else {"restricted": 1, "key_suffix": key}
        self.send(Interest(**{"interest_id": number, "mode": mode, **wanted, **where, **fields}))

    def uninterest(self, number: int = 1) -> None:
        """Ends an interest."""
        self.send(Interest(interest_id=number, mode=InterestMode.FINAL))

    def put(self, key: str, data: bytes = b"1", **fields: Any) -> None:
        """Publishes a value."""
        self.send(Push(**{"key_suffix": key, "body": Put(data=data), **fields}))

    def ask(self, key: str, number: int = 1, *chain: Any, **fields: Any) -> None:
        """Sends a query."""
        said = {"request_id": number, "key_suffix": key, "body": Query(), "extensions": list(chain)}
        self.send(Request(**{**said, **fields}))

    def reply(self, number: int, key: str, data: bytes = b"1", **fields: Any) -> None:
        """Answers a query."""
        body = Reply(body=Put(data=data))
        self.send(Response(**{"request_id": number, "key_suffix": key, "body": body, **fields}))

    def finish(self, *numbers: int) -> None:
        """Says that no more answers come."""
        for number in numbers:
            self.send(ResponseFinal(request_id=number))

    # What came --------------------------------------------------------------------------------------

    def got(self) -> list[Message]:
        """Returns what was sent here since this was asked last."""
        fresh = self.mesh.sent[self._seen :]
        self._seen = len(self.mesh.sent)
        messages = [out.message for out in fresh if out.face == self.face]
        for message in messages:
            if isinstance(message, Declare):
                self._learn(message.body)
        return messages

    def _learn(self, body: Message) -> None:
        """Judges that an undeclaration names the id and the key that were declared, once."""
        for kind, made in MADE.items():
            if isinstance(body, made):
                known = self._known.setdefault((kind, body.entity_id), body.key_suffix)
                assert known == body.key_suffix or not body.entity_id
            if isinstance(body, GONE[kind]):
                key = next(ext.key_suffix for ext in body.extensions if isinstance(ext, WireExpr))
                known = self._known.pop((kind, body.entity_id), key)
                assert known == key or not body.entity_id

    def lanes(self) -> list[tuple[bool, int]]:
        """Returns the lanes of what was sent here since this was asked last."""
        fresh = self.mesh.sent[self._seen :]
        self._seen = len(self.mesh.sent)
        return [(out.reliable, out.priority) for out in fresh if out.face == self.face]

    def said(self) -> list[str]:
        """The same in words; undeclarations name the key that their id stood for."""
        return [self.word(message) for message in self.got() if not isinstance(message, NetworkOam)]

    def word(self, message: Message) -> str:
        """Returns one message in words: ``PUT a=1``, ``+sub a``, ``-sub a``, ``!1 +sub a`` in answer to interest 1."""
        key = message.key_suffix if "key_suffix" in message.fieldtype else ""
        match message:
            case Push():
                return _data(message.body, key)
            case Request():
                return f"? {key} #{message.request_id}"
            case Response():
                body = message.body
                data = f"ERR {bytes(body.data).decode()}" if isinstance(body, Err) else _data(body.body, key)
                return f"{data} #{message.request_id}"
            case ResponseFinal():
                return f"final #{message.request_id}"
            case Declare():
                answer = f"!{message.interest_id} " if message.I else ""
                return answer + self._declaration(message.body)
        raise AssertionError(message)

    def _declaration(self, body: Message) -> str:
        if isinstance(body, DeclareFinal):
            return "done"
        for kind, cls in MADE.items():
            if isinstance(body, cls):
                info = next((ext for ext in body.extensions if isinstance(ext, QueryableInfo)), None)
                said = f" {'complete ' if info.complete else ''}{info.distance}" if info else ""
                return f"+{kind} {body.key_suffix}{said}"
        for kind, gone in GONE.items():
            if isinstance(body, gone):
                key = next(ext.key_suffix for ext in body.extensions if isinstance(ext, WireExpr))
                return f"-{kind} {key}"
        raise AssertionError(body)


def _data(body: Message, key: str) -> str:
    return f"DEL {key}" if isinstance(body, Del) else f"PUT {key}={bytes(body.data).decode()}"


def extension(message: Message, cls: type[Any]) -> Any:
    """Returns an extension of a message; None when it has none of that class."""
    return next((ext for ext in message.extensions or [] if isinstance(ext, cls)), None)


def node_ids(messages: Sequence[Message]) -> list[int | None]:
    """Returns what NodeId says on each message."""
    said = [extension(message, NodeId) for message in messages]
    return [None if one is None else one.node_id for one in said]
