"""A small acceptor that serves sessions until a case harms it in the way that was asked for."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from conformance.config import Locator, RunConfig, prepare_run_dir
from conformance.nodes.base import Node
from scapy_layers.batch import BatchReader, contents, prefixed
from scapy_layers.codes import WhatAmI
from scapy_layers.declarations import DeclareFinal
from scapy_layers.extensions import QoS
from scapy_layers.message import Message
from scapy_layers.network import Declare, Request, ResponseFinal
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open

ZID = b"\x0a" * 16
COOKIE = b"a cookie"
MOST = 2000
"""Larger batches are refused unread: Scapy would take longer over them than a ping may."""

PANIC = (
    "thread 'rx-0' (7) panicked at /build/.cargo/registry/src/index-1/some-crate-1.2.3/src/net/face.rs:83:22: "
    "called unwrap"
)

Harm = Callable[[bytes], str]
"""Takes a batch; returns ``die``, ``panic``, ``stall``, ``hiccup``, ``mumble``, ``mute``, ``babble``, ``idle``, ``late`` or nothing."""


class Server:
    """Serves one port from a thread.

    ``stall``: nothing is answered any more. ``hiccup``: the next connection is never answered. ``mumble``:
    the panic is written only when the next connection was let down, too. ``mute``: nothing is answered on this link any
    more. ``babble``, ``idle``: whatever is said on this link is answered with a declaration, or with KEEP_ALIVE.
    ``congested``: what may be dropped is from now on. ``late``: what is asked on this link is answered when the other side
    of it has ended.
    """

    def __init__(self, harm: Harm, port: int = 0) -> None:
        self._harm = harm
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._wake, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._readers: dict[socket.socket, BatchReader] = {}
        self._sn = 0
        self._deaf: set[socket.socket] = set()
        self._instead: dict[socket.socket, bytes] = {}
        self._late: dict[socket.socket, list[Message]] = {}
        self._let_down = 0
        self._stalled = False
        self._congested = False
        self._mumbling = False
        self.dead = ""
        self.said = ""
        for sock in (self._listener, self._wake):
            self._selector.register(sock, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and all sockets."""
        self._waker.send(b"x")
        self._thread.join()
        self._waker.close()

    def _serve(self) -> None:
        alive = True
        while alive:
            for key, _ in self._selector.select():
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock is self._wake:
                    alive = False
                elif sock is self._listener:
                    # It may have died of what another link said in the same turn.
                    if not self.dead:
                        self._accept()
                elif sock in self._readers:
                    self._read(sock)
        for sock in (*self._readers, self._listener, self._wake):
            sock.close()
        self._selector.close()

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._readers[sock] = BatchReader()
        self._selector.register(sock, selectors.EVENT_READ)
        if self._let_down:
            self._let_down -= 1
            self._deaf.add(sock)
            if self._mumbling:
                self.said = PANIC

    def _drop(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)
        del self._readers[sock]
        sock.close()

    def _read(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._reply(sock, self._late.pop(sock, []))
            self._drop(sock)
            return
        for batch in self._readers[sock].feed(data):
            if sock in self._instead:
                sock.sendall(self._instead[sock])
            elif sock in self._readers and not self._stalled and sock not in self._deaf:
                self._take(sock, batch)

    def _take(self, sock: socket.socket, batch: bytes) -> None:  # noqa: C901  (one case each)
        match self._harm(batch):
            case "die":
                self.dead = "the process died of SIGSEGV"
                for other in (*self._readers,):
                    self._drop(other)
                self._selector.unregister(self._listener)
                self._listener.close()
                return
            case "panic":
                self.said = PANIC
            case "stall":
                self._stalled = True
                return
            case "mute" | "congested" as how:
                self._congested |= how == "congested"
                self._deaf |= {sock} if how == "mute" else set()
                return
            case "babble" | "idle" | "late" as how:
                self._change(sock, how)
                return
            case "hiccup" | "mumble" as how:
                self._let_down = 1
                self._mumbling = how == "mumble"
        if len(batch) > MOST:
            self._drop(sock)
            return
        answers: list[Message] = []
        inside = contents(batch)
        for message in inside.messages:
            answers += self._answers(message)
        if sock in self._late:
            self._late[sock] += answers
            return
        self._reply(sock, answers)
        if inside.error or any(isinstance(answer, Close) for answer in answers):
            self._drop(sock)

    def _change(self, sock: socket.socket, how: str) -> None:
        if how == "late":
            self._late[sock] = []
            return
        said = KeepAlive() if how == "idle" else Frame(sn=1, messages=[Declare(body=DeclareFinal())])
        self._instead[sock] = prefixed(bytes(said))

    def _reply(self, sock: socket.socket, answers: list[Message]) -> None:
        # The node may have been killed by now, and the other end gone.
        with contextlib.suppress(OSError):
            for answer in answers:
                sock.sendall(prefixed(bytes(answer)))

    def _answers(self, message: Message) -> list[Message]:
        if message.errors:
            return [Close(reason=2)]
        match message:
            case Init() if not message.value("A"):
                size = message.batch_size if message.value("S") else 65_535
                return [Init(A=1, whatami=WhatAmI.ROUTER, zid=ZID, batch_size=size, cookie=COOKIE)]
            case Open() if not message.value("A"):
                return [Open(A=1, initial_sn=0) if message.cookie == COOKIE else Close(reason=2)]
            case Frame():
                asked = [inner for inner in message.messages if isinstance(inner, Request)]
                return [self._final(inner) for inner in asked if _is_firm(inner) or not self._congested]
            case _:
                return []

    def _final(self, request: Request) -> Frame:
        self._sn += 1
        # Its answer has the congestion control of the request.
        chain = [QoS(D=1)] if _is_firm(request) else []
        final = ResponseFinal(request_id=request.request_id, extensions=chain)
        return Frame(sn=self._sn, messages=[final])


def _is_firm(request: Request) -> bool:
    return any(isinstance(one, QoS) and one.D for one in request.extensions or [])


class FakeNode(Node):
    """A node of ours that can be started again."""

    owned = True
    impl = "fake"
    version = "1"

    def __init__(self, harm: Harm = lambda _: "") -> None:
        self._harm = harm
        self.server: Server | None = None
        self.foresights = 0

    def ahead(self) -> None:
        self.foresights += 1

    def start(self) -> None:
        self.stop()
        self.starts += 1
        self.server = Server(self._harm)
        self.locator = Locator("tcp", "127.0.0.1", self.server.port)

    def stop(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None

    def death(self) -> str:
        return self.server.dead if self.server else "the process is not running"

    def complaints(self) -> str:
        if self.server is None:
            return ""
        said, self.server.said = self.server.said, ""
        return said


def config_in(folder: Path, seed: int = 1) -> RunConfig:
    """Returns the options of a run in a folder that is ready."""
    prepare_run_dir(folder)
    return RunConfig(node="fake", run_dir=folder, run_id=folder.name, seed=seed)
