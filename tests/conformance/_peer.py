"""A small peer that owes nothing to this project: bytes in, bytes out, standard library only.

It stands for implementations on small devices: one listening socket, an empty cookie, batches of 2048 bytes, at most
ten links, its declarations pushed unasked, no routing between its links, no CLOSE when something is wrong.

    python tests/conformance/_peer.py tcp/127.0.0.1:7447
"""

from __future__ import annotations

import argparse
import ctypes
import secrets
import selectors
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG = 1
BATCH = 2048
MOST_LINKS = 10
LEASE = 10.0
KEEP_ALIVE = 3.5
SUBSCRIBES = b"peer/in/**"
ANSWERS = b"peer/answers"
VALUE = b"pong"


class Malformed(Exception):
    """The link ends."""


def vle(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def counted(data: bytes) -> bytes:
    return vle(len(data)) + data


class Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        if self.left < count:
            raise Malformed("cut")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def vle(self) -> int:
        value = 0
        for shift in range(0, 63, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        return value | self.byte() << 63

    def counted(self) -> bytes:
        return self.take(self.vle())

    def extensions(self, header: int) -> None:
        """Reads over a chain; one that is mandatory and none of QoS, NodeId, QueryTarget or Lane is refused."""
        more = header & 0x80
        while more:
            head = self.byte()
            encoding = head >> 5 & 3
            if encoding == 1:
                self.vle()
            elif encoding == 2:
                self.counted()
            elif encoding == 3:
                raise Malformed("reserved encoding")
            if head & 0x10 and head & 0x0F not in {1, 3, 4}:
                raise Malformed("unknown mandatory extension")
            more = head & 0x80


class Link:
    def __init__(self, peer: Peer, sock: socket.socket) -> None:
        self.peer = peer
        self.sock = sock
        self.waiting = b""
        self.open = False
        self.greeted = False
        self.sn = {1: secrets.randbelow(1 << 20), 0: 0}
        self.theirs: dict[int, int] = {}
        self.lease = LEASE
        self.heard = self.said = time.monotonic()

    # Out ---------------------------------------------------------------------------------------------------

    def send(self, batch: bytes) -> None:
        self.said = time.monotonic()
        self.sock.sendall(len(batch).to_bytes(2, "little") + batch)

    def frame(self, message: bytes) -> None:
        number, self.sn[1] = self.sn[1], (self.sn[1] + 1) % (1 << 28)
        self.send(b"\x25" + vle(number) + message)

    # In ------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        self.heard = time.monotonic()
        self.waiting += data
        while len(self.waiting) >= 2:
            size = int.from_bytes(self.waiting[:2], "little")
            if len(self.waiting) < 2 + size:
                return
            batch, self.waiting = self.waiting[2 : 2 + size], self.waiting[2 + size :]
            self.batch(Cursor(batch))

    def batch(self, cursor: Cursor) -> None:
        while cursor.left:
            header = cursor.byte()
            kind = header & 0x1F
            if kind == 1 and not self.open:
                self.init(header, cursor)
            elif kind == 2 and self.greeted and not self.open:
                self.opening(header, cursor)
            elif kind == 3:
                raise Malformed("CLOSE")
            elif kind == 4 and self.open:
                cursor.extensions(header)
            elif kind == 5 and self.open:
                self.take_frame(header, cursor)
            else:
                raise Malformed(f"message {kind:#x}")

    def init(self, header: int, cursor: Cursor) -> None:
        version, packed = cursor.byte(), cursor.byte()
        zid = cursor.take((packed >> 4) + 1)
        fsn, size = 2, 65_535
        if header & 0x40:
            fsn, size = cursor.byte() & 3, int.from_bytes(cursor.take(2), "little")
        cursor.extensions(header)
        if version != 9 or header & 0x20 or packed & 3 == 3 or zid == self.peer.zid:
            raise Malformed("INIT")
        self.greeted = True
        self.fsn = min(fsn, 2)
        self.sn[1] = secrets.randbelow(1 << (7, 14, 28)[self.fsn])
        self.send(
            b"\x61\x09"
            + bytes([(len(self.peer.zid) - 1) << 4 | 1])
            + self.peer.zid
            + bytes([self.fsn | 2 << 2])
            + min(size, BATCH).to_bytes(2, "little")
            + counted(b"")
        )

    def opening(self, header: int, cursor: Cursor) -> None:
        lease = cursor.vle()
        number = cursor.vle()
        if cursor.counted():
            raise Malformed("a cookie that we never gave")
        cursor.extensions(header)
        self.lease = min(LEASE, lease if header & 0x40 else lease / 1000)
        self.theirs[1] = self.theirs[0] = number
        self.open = True
        self.send(b"\x62" + vle(int(LEASE)) + vle(self.sn[1]))
        self.frame(b"\x1e\x22" + vle(1) + vle(0) + counted(SUBSCRIBES))
        self.frame(b"\x1e\x24" + vle(2) + vle(0) + counted(ANSWERS))

    def take_frame(self, header: int, cursor: Cursor) -> None:
        number = cursor.vle()
        cursor.extensions(header)
        channel = header >> 5 & 1
        mask = (1 << (7, 14, 28)[self.fsn]) - 1
        fresh = (number - self.theirs[channel]) & mask <= mask >> 1
        if fresh:
            self.theirs[channel] = (number + 1) & mask
        while cursor.left and cursor.data[cursor.at] & 0x1F >= 0x19:
            self.network(cursor, fresh=fresh)

    def key(self, header: int, cursor: Cursor) -> bytes:
        scope = cursor.vle()
        suffix = cursor.counted() if header & 0x20 else b""
        return suffix if scope == 0 else b"?"

    def network(self, cursor: Cursor, *, fresh: bool) -> None:
        header = cursor.byte()
        kind = header & 0x1F
        if kind == 0x1D:  # PUSH
            self.key(header, cursor)
            cursor.extensions(header)
            self.data(cursor)
        elif kind == 0x1C:  # REQUEST
            request = cursor.vle()
            key = self.key(header, cursor)
            cursor.extensions(header)
            self.data(cursor)
            if fresh and key == ANSWERS:
                self.frame(b"\x3b" + vle(request) + vle(0) + counted(key) + b"\x04\x01" + counted(VALUE))
            if fresh:
                self.frame(b"\x1a" + vle(request))
        elif kind == 0x1B:  # RESPONSE
            cursor.vle()
            self.key(header, cursor)
            cursor.extensions(header)
            self.data(cursor)
        elif kind == 0x1A:  # RESPONSE_FINAL
            cursor.vle()
            cursor.extensions(header)
        elif kind == 0x19:  # INTEREST
            self.interest(header, cursor, fresh=fresh)
        elif kind == 0x1E:  # DECLARE
            if header & 0x20:
                cursor.vle()
            cursor.extensions(header)
            self.declaration(cursor)
        else:
            raise Malformed(f"network message {kind:#x}")

    def interest(self, header: int, cursor: Cursor, *, fresh: bool) -> None:
        number = cursor.vle()
        mode = header >> 5 & 3
        if not mode:
            cursor.extensions(header)
            return
        options = cursor.byte()
        if options & 0x10:
            self.key(options & 0x20, cursor)
        cursor.extensions(header)
        if fresh and mode & 1:
            self.frame(b"\x3e" + vle(number) + b"\x1a")

    def declaration(self, cursor: Cursor) -> None:
        header = cursor.byte()
        kind = header & 0x1F
        if kind == 0x1A:
            pass
        elif kind in {0, 2, 4, 6}:
            cursor.vle()
            self.key(header, cursor)
        elif kind in {1, 3, 5, 7}:
            cursor.vle()
        else:
            raise Malformed("declaration")
        cursor.extensions(header)

    def data(self, cursor: Cursor) -> None:
        header = cursor.byte()
        kind = header & 0x1F
        if kind == 4:
            if header & 0x20:
                cursor.vle()
            cursor.extensions(header)
            self.data(cursor)
            return
        if kind in {1, 2} and header & 0x20:
            cursor.vle()
            cursor.counted()
        if kind in {1, 5} and header & 0x40 and cursor.vle() & 1:
            cursor.counted()
        if kind == 3:
            if header & 0x20:
                cursor.vle()
            if header & 0x40:
                cursor.counted()
        cursor.extensions(header)
        if kind in {1, 5}:
            cursor.counted()
        elif kind not in {2, 3}:
            raise Malformed("body")


class Peer:
    def __init__(self, host: str, port: int) -> None:
        self.zid = secrets.token_bytes(15) + b"\x01"
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server((host, port))
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.links: dict[socket.socket, Link] = {}

    def run(self) -> None:
        while True:
            for key, _ in self.selector.select(0.2):
                if key.fileobj is self.listener:
                    self.accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self.read(self.links[key.fileobj])
            now = time.monotonic()
            for link in list(self.links.values()):
                if now - link.heard > link.lease:
                    self.end(link)
                elif link.open and now - link.said >= KEEP_ALIVE:
                    self.guarded(link, lambda link=link: link.send(b"\x04"))

    def accept(self) -> None:
        sock, _ = self.listener.accept()
        if len(self.links) >= MOST_LINKS:
            sock.close()
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.links[sock] = Link(self, sock)
        self.selector.register(sock, selectors.EVENT_READ)

    def read(self, link: Link) -> None:
        def step() -> None:
            data = link.sock.recv(65_536)
            if not data:
                raise Malformed("end")
            link.receive(data)

        self.guarded(link, step)

    def guarded(self, link: Link, step: object) -> None:
        try:
            step()  # type: ignore[operator]
        except (Malformed, OSError):
            self.end(link)

    def end(self, link: Link) -> None:
        if self.links.pop(link.sock, None) is not None:
            self.selector.unregister(link.sock)
            link.sock.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("locator", help="tcp/127.0.0.1:7447")
    host, _, port = parser.parse_args().locator.removeprefix("tcp/").rpartition(":")
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    Peer(host.strip("[]"), int(port)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
