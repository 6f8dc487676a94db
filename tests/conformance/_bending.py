"""A proxy between the tester and a real node that makes the node break one rule."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from conformance.config import Locator
from scapy_layers.batch import BatchReader, contents, prefixed
from scapy_layers.message import Message
from scapy_layers.transport import Frame

Bent = Message | bytes | None | Iterable[Message | bytes]
"""What takes the place of a message: another one, bytes, nothing, or several."""


@dataclass(eq=False)
class Wire:
    """One link through the proxy.

    Attributes:
        proxy: With the other links.
        memory: Whatever a mutant has to remember of this link.
        keeps_open: The tester's side stays open when the node ends the link.
    """

    proxy: BendingProxy
    tester: socket.socket
    node: socket.socket
    memory: dict[str, Any] = field(default_factory=dict)
    keeps_open: bool = False

    def __post_init__(self) -> None:
        self.readers = {self.tester: BatchReader(), self.node: BatchReader()}

    def say(self, *messages: Message | bytes) -> None:
        """Sends a batch to the tester that the node never sent."""
        with suppress(OSError):
            self.tester.sendall(prefixed(b"".join(map(bytes, messages))))

    def others(self) -> list[Wire]:
        """Returns the other links."""
        return [wire for wire in self.proxy.wires if wire is not self]


@dataclass(frozen=True)
class Mutant:
    """A rule that the node breaks.

    Attributes:
        name: What it does.
        requirements: Each has a test that fails because of it.
        of: Class of the messages it bends, or ``bytes`` for whole batches.
        bend: Takes a message and its link, returns what goes on.
        outward: It bends what the node sends, rather than what it gets.
    """

    name: str
    requirements: tuple[str, ...]
    of: type[Any] | tuple[type[Any], ...]
    bend: Callable[[Any, Wire], Bent]
    outward: bool


class BendingProxy:
    """Listens on loopback and passes batches on, bent by a mutant while there is one.

    Attributes:
        mutant: The rule that is broken now.
        wires: The links that live.
        failures: What went wrong in a mutant: a bug of ours.
    """

    def __init__(self, target: Locator) -> None:
        self.mutant: Mutant | None = None
        self.wires: list[Wire] = []
        self.failures: list[str] = []
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._running = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def locator(self) -> str:
        """Where the tester finds the bent node."""
        return f"tcp/127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Ends all links and the thread."""
        self._running = False
        self._thread.join()
        for wire in list(self.wires):
            self._end(wire)
        self._listener.close()
        self._selector.close()

    def _run(self) -> None:
        while self._running:
            for key, _ in self._selector.select(0.05):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data in self.wires and isinstance(key.fileobj, socket.socket):
                    self._pass_on(key.data, key.fileobj)

    def _accept(self) -> None:
        tester, _ = self._listener.accept()
        node = socket.create_connection((self._target.host, self._target.port))
        wire = Wire(self, tester, node)
        self.wires.append(wire)
        for side in (tester, node):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(side, selectors.EVENT_READ, wire)

    def _pass_on(self, wire: Wire, side: socket.socket) -> None:
        outward = side is wire.node
        other = wire.tester if outward else wire.node
        try:
            data = side.recv(1 << 16)
            if not data:
                self._ended(wire, side)
                return
            mutant = self.mutant if self.mutant and self.mutant.outward == outward else None
            if mutant is None:
                other.sendall(data)
                return
            for batch in wire.readers[side].feed(data):
                out = self._bent(batch, mutant, wire)
                if out or not batch:
                    other.sendall(prefixed(out))
        except OSError:
            self._end(wire)

    def _bent(self, batch: bytes, mutant: Mutant, wire: Wire) -> bytes:
        try:
            return bent(batch, mutant, wire)
        except Exception as error:  # noqa: BLE001  (the thread must outlive one bad mutant)
            self.failures.append(f"{mutant.name}: {error!r}")
            return batch

    def _ended(self, wire: Wire, side: socket.socket) -> None:
        if side is wire.node and wire.keeps_open:
            self._selector.unregister(side)
        else:
            self._end(wire)

    def _end(self, wire: Wire) -> None:
        if wire in self.wires:
            self.wires.remove(wire)
        for side in (wire.tester, wire.node):
            with suppress(KeyError, ValueError):
                self._selector.unregister(side)
            side.close()


def bent(batch: bytes, mutant: Mutant, wire: Wire) -> bytes:
    """Returns a batch as a mutant lets it pass."""
    if mutant.of is bytes:
        return joined(mutant.bend(batch, wire))
    inside = contents(batch)
    if inside.error or inside.rest:
        return batch
    out = []
    for message in inside.messages:
        if isinstance(message, mutant.of):
            out.append(joined(mutant.bend(message, wire)))
        elif isinstance(message, Frame):
            parts = [
                joined(mutant.bend(inner, wire)) if isinstance(inner, mutant.of) else bytes(inner)
                for inner in message.messages
            ]
            head = message.copy()
            head.messages = []
            out.append(bytes(head) + b"".join(parts))
        else:
            out.append(bytes(message))
    return b"".join(out)


def joined(made: Bent) -> bytes:
    """Returns the bytes of what takes the place of a message."""
    if made is None:
        return b""
    if isinstance(made, Message | bytes):
        return bytes(made)
    return b"".join(bytes(part) for part in made)
