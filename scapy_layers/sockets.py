"""Scapy sockets that speak Zenoh: one message at each ``recv``, so that ``sr1``, ``sr`` and ``sniff`` work.

They wrap a socket that is already there and connected or bound; they open none.

    with ZenohStreamSocket(socket.create_connection(("127.0.0.1", 7447))) as link:
        ack = link.sr1(Init(zid="aa"), timeout=2)
        link.sr1(Open(cookie=ack.cookie), timeout=2)
        replies, _ = link.sr(Frame(sn=0, messages=[Request(...)]), multi=True, timeout=2)

FRAMEs come as they are, with their messages inside; FRAGMENTs are not put together.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from scapy.data import MTU
from scapy.packet import Packet, Raw
from scapy.supersocket import SimpleSocket, StreamSocket

from scapy_layers.batch import MAX_BATCH, PREFIX, Batch, contents
from scapy_layers.codes import Kind
from scapy_layers.errors import Overlong


class _MessageSocket(SimpleSocket):
    """What both sockets have in common: messages that came and were not asked for yet."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock, Batch)
        self._messages: deque[Packet] = deque()

    def is_ready(self) -> bool:
        """Tells whether ``recv`` needs no byte from the socket."""
        return bool(self._messages)

    def _keep(self, raw: bytes, kind: Kind | None = None, source: bytes | None = None) -> None:
        """Takes a batch or datagram apart; what cannot be understood comes as a Raw layer at its end."""
        found = contents(raw, kind)
        now = _now()
        for message in (*found.messages, *([Raw(found.rest)] if found.rest else [])):
            message.time = now
            message.comment = source
            self._messages.append(message)

    @staticmethod
    def select(sockets: list[Any], remain: float | None = None) -> list[Any]:
        """Scapy's entry: the sockets with something to read, those that kept messages first."""
        ready = [one for one in sockets if isinstance(one, _MessageSocket) and one.is_ready()]
        return ready or list(SimpleSocket.select(sockets, remain))


class ZenohStreamSocket(_MessageSocket, StreamSocket):
    """The messages of a TCP, TLS or Unix stream link.

    Attributes:
        prefix: Bytes of the length in front of a batch, both directions: 2, or 4 in a low-latency session
            once OPEN is done. Takes effect with the next batch, even when its bytes are here already.
        limit: Largest batch that is taken; memory is bounded by it. Only a 4-byte length can say more.
    """

    desc = "reads and writes the Zenoh messages of a stream socket"

    def __init__(self, sock: Any, prefix: int = PREFIX, limit: int = MAX_BATCH) -> None:
        super().__init__(sock)
        self.prefix = prefix
        self.limit = limit
        self._data = bytearray()

    def is_ready(self) -> bool:
        """Tells whether ``recv`` needs no byte from the socket: a message or a whole batch is here."""
        return super().is_ready() or self.prefix <= len(self._data) >= self._size()

    def _size(self) -> int:
        """Returns how many bytes the next batch takes, its length included; needs the length."""
        return self.prefix + int.from_bytes(self._data[: self.prefix], "little")

    def recv(self, x: int | None = None, **_kwargs: Any) -> Packet | None:
        """Returns the next message, None as long as its batch is not whole.

        Blocks at most once, for at most ``x`` bytes, and only when nothing is kept.

        Raises:
            EOFError: The other end closed the stream.
            Overlong: The next batch is larger than ``limit``.
        """
        if not self.is_ready():
            data = self.ins.recv(MTU if x is None else x)
            if not data:
                raise EOFError(f"closed inside a batch: {len(self._data)} bytes of it" if self._data else "")
            self._data += data
        while not self._messages:
            batch = self._next_batch()
            if batch is None:
                return None
            self._keep(batch)
        return self._messages.popleft()

    def _next_batch(self) -> bytes | None:
        """Cuts one batch, not more: a message in it may change how the next one is cut."""
        if len(self._data) < self.prefix:
            return None
        end = self._size()
        if end - self.prefix > self.limit:
            raise Overlong("batch length", f"{end - self.prefix} bytes, at most {self.limit}")
        if len(self._data) < end:
            return None
        batch = bytes(self._data[self.prefix : end])
        del self._data[:end]
        return batch

    def send(self, x: Packet | bytes) -> int:
        """Sends a message, a ``Batch`` or bytes as one batch; returns how many bytes that were in all.

        Raises:
            OverflowError: It is longer than the length can say.
        """
        raw = bytes(x)
        self.outs.sendall(len(raw).to_bytes(self.prefix, "little") + raw)
        _note_time(x)
        return self.prefix + len(raw)


class ZenohDatagramSocket(_MessageSocket):
    """The messages of scouting or of a UDP link, from one node or from many.

    ``comment`` of a message says where it came from.

    Args:
        sock: A datagram socket.
        target: Where to send to, the scouting group for example; not needed when ``sock`` is connected.
        scouting: SCOUT and HELLO travel here, not batches.
    """

    desc = "reads and writes the Zenoh messages of a datagram socket"

    def __init__(self, sock: Any, target: Any = None, *, scouting: bool = False) -> None:
        super().__init__(sock)
        self._target = target
        self._kind = Kind.SCOUTING if scouting else None

    def recv(self, x: int | None = None, **_kwargs: Any) -> Packet | None:
        """Returns the next message; None for an empty datagram. Blocks when no message is kept."""
        if not self._messages:
            raw, source = self.ins.recvfrom(MTU if x is None else x)
            self._keep(raw, self._kind, _shown(source))
        return self._messages.popleft() if self._messages else None

    def send(self, x: Packet | bytes) -> int:
        """Sends a message, a ``Batch`` or bytes as one datagram; returns how many bytes that were."""
        raw = bytes(x)
        size = self.outs.send(raw) if self._target is None else self.outs.sendto(raw, self._target)
        _note_time(x)
        return int(size)


def _note_time(sent: Packet | bytes) -> None:
    if isinstance(sent, Packet):
        sent.sent_time = _now()


def _now() -> Any:
    """Returns the time as Scapy has it: it stamps each layer that it makes."""
    return Raw().time


def _shown(source: Any) -> bytes | None:
    """Returns an address of the socket module as text, None when there is none."""
    if not isinstance(source, tuple):
        return None
    host, port = source[:2]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
