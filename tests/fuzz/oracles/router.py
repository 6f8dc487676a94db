"""A small router in a thread, which goes wrong in the way that is asked for while it runs."""

import contextlib
import os
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from conformance.config import Locator
from conformance.nodes.base import Node
from fuzz.oracles import Patient, Spot
from fuzz.player import Initiator, Player
from scapy_layers.batch import BatchReader, contents, prefixed
from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind, WhatAmI
from scapy_layers.declarations import (
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    UndeclareQueryable,
    UndeclareSubscriber,
)
from scapy_layers.errors import WireError
from scapy_layers.extensions import First
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push, Request, Response, ResponseFinal
from scapy_layers.transport import Close, Fragment, Frame, Init, Open

ROOM = 600
"""Bytes of the publications that it carries, unless more is wanted: each takes time."""

MOST = 40_000
"""Bytes of a message that goes in one batch."""

REPLY = 0.3
"""T1 of these tests, in seconds."""

LONG = 30.0
"""T1 where nothing is waited for in vain."""


@dataclass(eq=False)
class Session:
    """One link."""

    sock: socket.socket
    reader: BatchReader = field(default_factory=BatchReader)
    keys: dict[tuple[str, int], str] = field(default_factory=dict)
    aliases: dict[int, str] = field(default_factory=dict)
    sn: int = 0
    parts: dict[int, list[bytes]] = field(default_factory=dict)


class Router:
    """Routes publications and queries.

    Attributes:
        without: What it does not do: ``routes``, ``aliases``, ``queries``, ``replies``, ``named replies``, ``answers``, ``listen``, ``new``, ``served``,
            ``beside``: a session beside another one; ``others``: those that have a subscriber of a key when another
            session takes one back; ``ends``: that of subscribers; ``ends of queryables``; ``abandoning``: what was begun in fragments, at a FRAME in its midst.
        dropped: A key that it does not carry.
        double: A key of which it hands on everything twice; ``altered``: changed.
        alter: Changes the payloads that it hands on.
        replace: Hands on zeros instead of the payloads of publications.
        twice: Hands on every publication twice.
        swap: Holds back one publication until the next one.
        lose: Loses the next publications, so many, of those that come whole: which link is read first is open.
        shift: Added to the request id of replies.
        delay: Seconds it takes over each batch; ``ponder``: over each declaration of a subscriber.
        largest: Bytes of the largest publication that it carries; ``alters_from``: of the smallest that it alters.
        forgets: What was begun in fragments is forgotten, in all sessions, at the next fragments, so many.
    """

    def __init__(self) -> None:
        self.without: set[str] = set()
        self.alter = self.replace = self.twice = self.swap = False
        self.lose = self.shift = 0
        self.dropped = self.double = self.altered = ""
        self.delay = self.ponder = 0.0
        self.forgets = 0
        self.largest, self.alters_from = ROOM, 1 << 30
        self.sessions: list[Session] = []
        self._held: list[bytes] = []
        self._pending: dict[int, tuple[Session, int]] = {}
        self._queries = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.locator = Locator("tcp", "127.0.0.1", self._listener.getsockname()[1])
        self._wake, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for sock in (self._listener, self._wake):
            self._selector.register(sock, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._waker.send(b"x")
        self._thread.join()
        self._waker.close()

    def deafen(self) -> None:
        """Nobody listens any more."""
        self._listener.shutdown(socket.SHUT_RDWR)

    def end(self, number: int, reason: int | None = None) -> None:
        """Ends a session, with CLOSE if there is a reason for it."""
        session = self.sessions[number]
        if reason is not None:
            session.sock.sendall(prefixed(bytes(Close(reason=reason, S=1))))
        session.sock.shutdown(socket.SHUT_RDWR)

    def say(self, number: int, message: Message) -> None:
        """Says something in a session that nobody asked for."""
        self._say(self.sessions[number], message)

    def _serve(self) -> None:
        alive = True
        while alive:
            for key, _ in self._selector.select():
                if key.fileobj is self._wake:
                    alive = False
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    self._read(key.data)
        for sock in (*(session.sock for session in self.sessions), self._listener, self._wake):
            sock.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            self._selector.unregister(self._listener)
            self._listener.close()
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session = Session(sock)
        self.sessions.append(session)
        others = [one for one in self.sessions[:-1] if one.sock.fileno() != -1]
        if "new" in self.without or ("beside" in self.without and others):
            sock.shutdown(socket.SHUT_RDWR)
        self._selector.register(sock, selectors.EVENT_READ, session)

    def _read(self, session: Session) -> None:
        try:
            data = session.sock.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(session.sock)
            session.sock.close()
            session.keys.clear()
            return
        for batch in session.reader.feed(data):
            if "served" in self.without:
                continue
            time.sleep(self.delay)
            # The other end may be gone.
            with contextlib.suppress(OSError):
                for message in contents(batch).messages:
                    self._take(session, message)

    def _take(self, session: Session, message: Message) -> None:
        match message:
            case Init() if "init" not in self.without:
                self._send(session, Init(A=1, whatami=WhatAmI.ROUTER, zid=b"\x0a" * 16, cookie=b"a cookie"))
            case Open():
                self._send(session, Open(A=1, initial_sn=0))
            case Frame():
                if "abandoning" not in self.without:
                    session.parts.pop(int(message.R), None)
                for inside in message.messages:
                    self._handle(session, inside)
            case Fragment() if "joining" not in self.without:
                self._join(session, message)

    def _join(self, session: Session, fragment: Fragment) -> None:
        if self.forgets:
            self.forgets -= 1
            for other in self.sessions:
                other.parts.clear()
        parts = session.parts.setdefault(int(fragment.R), [])
        parts.append(bytes(fragment.data))
        if not fragment.M:
            whole = b"".join(session.parts.pop(int(fragment.R)))
            lose, self.lose = self.lose, 0
            with contextlib.suppress(WireError):
                self._handle(session, decode(whole, Kind.NETWORK))
            self.lose = lose

    def _handle(self, session: Session, message: Message) -> None:
        match message:
            case Declare():
                self._declare(session, message.body)
            case Push() if not message.key_scope:
                self._publish(bytes(message), bytes(message.value("key_suffix")).decode())
            case Push() if "aliases" not in self.without:
                key = session.aliases[int(message.key_scope)]
                whole = Push(key_suffix=key, extensions=message.extensions, body=message.body)
                self._publish(bytes(whole), key)
            case Request():
                self._ask(session, message)
            case Response() if message.key_scope and "named replies" in self.without:
                pass
            case Response() if "replies" not in self.without:
                asker, number = self._pending[int(message.request_id)]
                message.request_id = number + self.shift
                self._say(asker, message)
            case ResponseFinal():
                asker, number = self._pending.pop(int(message.request_id))
                self._say(asker, ResponseFinal(request_id=number))

    def _declare(self, session: Session, body: Message) -> None:
        match body:
            case DeclareKeyExpr():
                session.aliases[int(body.key_id)] = bytes(body.value("key_suffix")).decode()
            case DeclareSubscriber() | DeclareQueryable():
                time.sleep(self.ponder)
                key = bytes(body.value("key_suffix")).decode()
                session.keys[str(body.name), int(body.entity_id)] = key
            case UndeclareQueryable() if "ends of queryables" not in self.without:
                session.keys.pop(("D_QUERYABLE", int(body.entity_id)), "")
            case UndeclareSubscriber() if "ends" not in self.without:
                key = session.keys.pop(("D_SUBSCRIBER", int(body.entity_id)), "")
                if "others" in self.without:
                    for other in self.sessions:
                        other.keys = {one: theirs for one, theirs in other.keys.items() if theirs != key}

    def _publish(self, push: bytes, key: str) -> None:
        if "routes" in self.without or key == self.dropped or len(push) > self.largest:
            return
        if self.lose:
            self.lose -= 1
            return
        if self.alter or key == self.altered or len(push) > self.alters_from:
            push = push[:-1] + bytes([push[-1] ^ 1])
        if self.replace:
            size = len(bytes(decode(push, Kind.NETWORK).body.data))
            push = push[:-size] + bytes(size)
        pushes = [*self._held, push] if not self.swap else [push, *self._held]
        self._held = []
        if self.swap and len(pushes) == 1:
            self._held = pushes
            return
        for subscriber in self._with("D_SUBSCRIBER", key):
            for one in pushes * (2 if self.twice or key == self.double else 1):
                self._send_raw(subscriber, one)

    def _ask(self, session: Session, request: Request) -> None:
        queryables = self._with("D_QUERYABLE", bytes(request.value("key_suffix")).decode())
        if "queries" in self.without:
            queryables = []
        number = int(request.request_id)
        for queryable in queryables:
            self._queries += 1
            self._pending[self._queries] = session, number
            request.request_id = self._queries
            self._say(queryable, request)
        # Whoever took a queryable back answers nothing: such a query is given up at once.
        if (not queryables or "ends of queryables" in self.without) and "answers" not in self.without:
            self._say(session, ResponseFinal(request_id=number))

    def _with(self, kind: str, key: str) -> list[Session]:
        return [
            session
            for session in self.sessions
            if any(one == kind and theirs == key for (one, _), theirs in session.keys.items())
        ]

    def _say(self, session: Session, message: Message) -> None:
        self._send_raw(session, bytes(message))

    def _send_raw(self, session: Session, message: bytes) -> None:
        session.sn += 1
        if len(message) <= MOST:
            session.sock.sendall(prefixed(bytes(Frame(R=1, sn=session.sn)) + message))
            return
        whole = Fragment(R=1, M=1, sn=session.sn, extensions=[First()], data=message[:MOST])
        session.sock.sendall(prefixed(bytes(whole)))
        for at in range(MOST, len(message), MOST):
            session.sn += 1
            more = int(at + MOST < len(message))
            session.sock.sendall(
                prefixed(bytes(Fragment(R=1, M=more, sn=session.sn, data=message[at : at + MOST])))
            )

    def _send(self, session: Session, message: Message) -> None:
        session.sock.sendall(prefixed(bytes(message)))


class RouterNode(Node):
    """The router as a node.

    Attributes:
        dead: How its process ended.
        words: What its process said about a failure.
    """

    owned = True
    impl = "fake"
    version = "1"

    def __init__(self) -> None:
        self.router: Router
        self.dead = ""
        self.words = ""

    @property
    def pid(self) -> int | None:
        return os.getpid() if self.owned else None

    def start(self) -> None:
        self.starts += 1
        self.router = Router()
        self.locator = self.router.locator
        self.dead = self.words = ""

    def stop(self) -> None:
        self.router.close()

    def death(self) -> str:
        return self.dead

    def complaints(self) -> str:
        words, self.words = self.words, ""
        return words


class RouterStage:
    """Where it is."""

    def __init__(self, node: Node, reply: float = REPLY) -> None:
        self.node = node
        self.reply = reply
        self.lacking = ""
        self.at_work: Callable[[], bool] = lambda: False

    def player(self, rng: random.Random | None = None) -> Player:
        return Player(Initiator(self.node.locator), self.reply, rng=rng)

    def restart(self) -> None:
        self.node.restart()

    def trouble(self, reply: float) -> str:  # noqa: ARG002  (called like that of a stage)
        return self.lacking


@contextmanager
def patient_of(node: RouterNode, unjudged: Container[Spot] = (), reply: float = REPLY) -> Iterator[Patient]:
    """A patient whose node was just started.

    Until it is known what the node does, that has as long as it takes, unless there is something that it does not.
    """
    router = node.router
    spoilt = bool(router.without or router.dropped or router.replace)
    stage = RouterStage(node, reply if spoilt else LONG)
    patient = Patient(stage, stage.reply, unjudged=unjudged)
    with pytest.MonkeyPatch.context() as patch:
        if router.largest == ROOM:
            # It carries none of them.
            patch.setattr("fuzz.oracles.canary.BESIDES", ())
        patient.begin()
    patient.reply = stage.reply = reply
    if patient.canary is not None:
        patient.canary.reply = reply
    if patient.vigil is not None:
        patient.vigil._player.reply = reply
    yield patient
    patient.close()
