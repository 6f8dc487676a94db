"""A node of a few lines that connects to us, and one that hears SCOUT."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from scapy_layers.batch import BatchReader, contents, prefixed
from scapy_layers.codes import Kind, WhatAmI
from scapy_layers.extensions import Patch, QoSOffer
from scapy_layers.message import Message
from scapy_layers.network import Request, ResponseFinal
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Frame, Init, Open

ZID = b"\x0b" * 16

INIT = Init(
    zid=ZID, whatami=WhatAmI.PEER, fsn=1, rid=1, batch_size=2000, extensions=[QoSOffer(), Patch(patch=1)]
)


class Caller:
    """Makes one link, offers a session on it and answers queries; ends it with CLOSE for what it cannot read.

    Attributes:
        heard: What came, in order.
        local: Its end of the link.
    """

    def __init__(self, port: int, first: bytes = bytes(INIT)) -> None:
        self.heard: list[Message] = []
        self._socket = socket.create_connection(("127.0.0.1", port))
        self.local = self._socket.getsockname()
        self._socket.sendall(prefixed(first))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the link."""
        self._socket.close()

    def join(self) -> None:
        """Waits until the other end has ended the link."""
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        reader = BatchReader()
        try:
            while data := self._socket.recv(1 << 16):
                for batch in reader.feed(data):
                    inside = contents(batch)
                    self.heard += inside.messages
                    for message in [Close(reason=2)] if inside.error else map(answer_to, inside.messages):
                        if message is not None:
                            self._socket.sendall(prefixed(bytes(message)))
                    if inside.error:
                        self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def answer_to(message: Message) -> Message | None:
    """Returns what a node that began the session says to a message."""
    if isinstance(message, Init):
        return Open(cookie=message.cookie, initial_sn=5)
    if isinstance(message, Frame):
        asked = [inside for inside in message.messages if isinstance(inside, Request)]
        return (
            Frame(R=1, sn=5, messages=[ResponseFinal(request_id=one.request_id) for one in asked])
            if asked
            else None
        )
    return None


class Hearer:
    """Answers SCOUT at a port on loopback.

    Args:
        hears: Tells whether a datagram is heard at all.

    Attributes:
        heard: Datagrams that came.
    """

    def __init__(self, hears: Callable[[bytes], bool] = lambda _: True) -> None:
        self.heard: list[bytes] = []
        self._hears = hears
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hears no more."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            data, source = self._socket.recvfrom(1 << 16)
            if data == b"end":
                return
            self.heard.append(data)
            first = contents(data, Kind.SCOUTING).messages
            if self._hears(data) and first and isinstance(first[0], Scout) and not first[0].errors:
                self._socket.sendto(bytes(Hello(zid=ZID, whatami=WhatAmI.ROUTER)), source)
