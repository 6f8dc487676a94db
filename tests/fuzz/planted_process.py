# ruff: noqa: ARG001, ARG002, ARG005, T201
# What sets faults off is called alike; standard error is where a panic is seen.
"""A small router with faults of its own choice, so that it can be seen which of them a campaign finds.

It owes nothing to this project: bytes in, bytes out, standard library only. It opens sessions, carries publications and
queries between them, and refuses what is malformed with CLOSE. Each fault has a name, a place in a message and a value
there that sets it off; ``FAULTS`` lists them.

    python tests/fuzz/planted_process.py tcp/127.0.0.1:7447 stall abort
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import resource
import secrets
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, count
from operator import and_

PR_SET_PDEATHSIG = 1
VERSION = 9
BATCH = 49_152
HEAD = 6
LEASE = 10.0
KEEP_ALIVE = 2.5
TICK = 0.1
HANDSHAKE_SECONDS = 10.0
LINGER_SECONDS = 0.5
MOST_QUEUED = 4 << 20
MOST_FRAGMENTED = 1 << 20
MOST_CHUNKS = 200
U16, U32 = (1 << 16) - 1, (1 << 32) - 1

GRANTED = {7: 0, 8: 0, 14: 1, 16: 1, 28: 2}
"""Resolution that is granted, by the bits of sequence numbers that are used."""

GENERIC, UNSUPPORTED, INVALID, EXPIRED = 0, 1, 2, 5

DECLARED = {0: "KEYEXPR", 2: "SUBSCRIBER", 4: "QUERYABLE", 6: "TOKEN"}
KNOWN_MANDATORY = {
    "OAM": {1},
    "FRAME": {1},
    "FRAGMENT": {1},
    "PUSH": {3},
    "REQUEST": {3, 4},
    "DECLARE": {3},
    "INTEREST": {3},
    "PUT": {2},
    "ERR": {2},
    "U_SUBSCRIBER": {15},
    "U_QUERYABLE": {15},
    "U_TOKEN": {15},
}
"""Extensions that may be mandatory, by message."""


class Refused(Exception):
    """The session ends.

    Attributes:
        reason: Code of the CLOSE; None when the link ends without one.
    """

    def __init__(self, why: str, reason: int | None = INVALID) -> None:
        super().__init__(why)
        self.reason = reason


def vle(number: int) -> bytes:
    """A number as it stands on the wire: seven bits a byte, the ninth has eight."""
    out = bytearray()
    while number > 0x7F and len(out) < 8:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def counted(data: bytes) -> bytes:
    return vle(len(data)) + data


class Cursor:
    """Reads bytes, and refuses when they run out."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.end = data, 0, len(data)

    def byte(self) -> int:
        if self.at >= self.end:
            raise Refused("cut")
        self.at += 1
        return self.data[self.at - 1]

    def take(self, count: int) -> bytes:
        if self.end - self.at < count:
            raise Refused("cut")
        self.at += count
        return self.data[self.at - count : self.at]

    def vle(self, most: int = (1 << 64) - 1) -> int:
        value = 0
        for shift in range(0, 56, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            value |= self.byte() << 56
        if value > most:
            raise Refused("a number that is too large")
        return value

    def counted(self, most: int = U32) -> bytes:
        return self.take(self.vle(most))


@dataclass(slots=True)
class Pending:
    """A query of one session that others still answer."""

    link: Link
    request: int
    waiting: int


class Link:
    """One link, and the session on it."""

    def __init__(self, node: Node, sock: socket.socket) -> None:
        self.node = node
        self.sock = sock
        self.number = next(node.numbers)
        self.buffer = b""
        self.out = bytearray()
        self.stage = "connected"
        self.leaving = 0.0
        self.began = self.heard = self.said = time.monotonic()
        self.lease = HANDSHAKE_SECONDS
        self.cookie = secrets.token_bytes(16)
        self.mask = (1 << 28) - 1
        self.most = BATCH
        self.sn = secrets.randbelow(1 << 7)
        self.due: dict[tuple[int, int], int] = {}
        self.first = 0
        self.fragments: dict[tuple[int, int], bytearray] = {}
        self.keys: dict[int, str] = {}
        self.declared: dict[str, dict[int, str]] = {kind: {} for kind in DECLARED.values()}
        self.pending: dict[int, Pending] = {}
        self.done: set[str] = set()
        self.mute = False
        self.key_read = ""
        self.noted = 0
        self.readers: dict[int, Callable[[int, Cursor, bool], None]] = {
            0x19: self.interest,
            0x1A: self.final,
            0x1B: self.response,
            0x1C: self.request,
            0x1D: self.push,
            0x1E: self.declare,
            0x1F: self.oam,
        }

    # Out ---------------------------------------------------------------------------------------------------

    def send(self, batch: bytes) -> None:
        if not self.leaving and not self.mute:
            self.out += len(batch).to_bytes(2, "little") + batch
            self.node.dirty.add(self)

    def next_sn(self) -> bytes:
        if self.node.skipping and not self.sn % 4:
            self.sn += 1
        number, self.sn = self.sn, self.sn + 1 & self.mask
        return vle(number)

    def frame(self, message: bytes) -> None:
        if len(message) + HEAD <= self.most:
            self.send(b"\x25" + self.next_sn() + message)
            return
        step = self.most - HEAD
        for at in range(0, len(message), step):
            more = at + step < len(message)
            self.send((b"\x66" if more else b"\x26") + self.next_sn() + message[at : at + step])

    def flush(self) -> None:
        if not self.out:
            return
        try:
            sent = self.sock.send(self.out)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.node.end(self)
            return
        if sent:
            self.said = time.monotonic()
        del self.out[:sent]
        if len(self.out) > MOST_QUEUED:
            self.node.end(self)
        else:
            self.node.watch(self)

    def refuse(self, reason: int | None) -> None:
        """Ends the session with CLOSE; the link stays until the other side has read it."""
        if reason is None:
            self.node.end(self)
            return
        self.send(bytes([0x23, reason]))
        self.flush()
        self.node.forget(self)
        self.leaving = time.monotonic()
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.node.end(self)

    # In ------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        self.heard = time.monotonic()
        if self.node.journal is not None:
            self.node.journal.write(f"{self.number} {data.hex()}")
        buffer = self.buffer + data if self.buffer else data
        at, end = 0, len(buffer)
        while end - at >= 2:
            size = buffer[at] | buffer[at + 1] << 8
            if end - at - 2 < size:
                break
            batch = buffer[at + 2 : at + 2 + size]
            at += 2 + size
            self.batch(Cursor(batch))
            if self.leaving or self.sock.fileno() < 0:
                return
        self.buffer = buffer[at:]

    def batch(self, cursor: Cursor) -> None:
        if self.node.slow:
            time.sleep(self.node.slow)
        while cursor.at < cursor.end:
            header = cursor.byte()
            kind = header & 0x1F
            if kind == 5 and self.stage == "open":
                self.take_frame(header, cursor)
            elif kind == 6 and self.stage == "open":
                self.take_fragment(header, cursor)
            elif kind == 4 and self.stage == "open":
                self.extensions("KEEP_ALIVE", header, cursor)
            elif kind == 0 and self.stage == "open":
                self.oam(header, cursor)
            elif kind == 1 and self.stage == "connected":
                self.init(header, cursor)
            elif kind == 2 and self.stage == "greeted":
                self.opening(header, cursor)
            elif kind == 3:
                self.closing(header, cursor)
            else:
                raise Refused(f"message {kind:#x} when {self.stage}")

    def closing(self, header: int, cursor: Cursor) -> None:
        cursor.byte()
        self.extensions("CLOSE", header, cursor)
        if not self.node.holding or self.stage != "open":
            raise Refused("CLOSE", None)
        self.node.forget(self)
        self.stage, self.lease = "closed", U32

    def extensions(self, message: str, header: int, cursor: Cursor) -> dict[int, int]:
        """Reads a chain; returns the values of integers, and the lengths of what has one."""
        found: dict[int, int] = {}
        more = header & 0x80
        while more:
            head = cursor.byte()
            number, encoding = head & 0x0F, head >> 5 & 3
            if encoding == 3:
                raise Refused("a reserved encoding")
            if head & 0x10 and number not in KNOWN_MANDATORY.get(message, ()):
                raise Refused("an unknown mandatory extension")
            found[number] = cursor.vle() if encoding == 1 else len(cursor.counted()) if encoding == 2 else 0
            self.note(f"{message}.extension", head & 0x7F)
            self.note(f"{message}.{number}", found[number])
            more = head & 0x80
        return found

    def note(self, place: str, value: int) -> None:
        """A value was read; the fault that waits for it there is set off."""
        self.noted = value
        for name, fault in self.node.watched.get(place, ()):
            if fault.when(value, self):
                if self.node.set_off is not None:
                    self.node.set_off.write(f"{name} {self.number} {place} {value}")
                fault.then(self.node, self)

    # Handshake -----------------------------------------------------------------------------------------------

    def init(self, header: int, cursor: Cursor) -> None:
        if header & 0x20:
            raise Refused("an InitAck to one who did not ask")
        version, packed = cursor.byte(), cursor.byte()
        self.note("INIT.version", version)
        zid = cursor.take((packed >> 4) + 1)
        codes, size = 2 | 2 << 2, 65_535
        if header & 0x40:
            codes, size = cursor.byte(), int.from_bytes(cursor.take(2), "little")
            self.note("INIT.batch_size", size)
        self.extensions("INIT", header, cursor)
        if version != VERSION:
            raise Refused("another version", UNSUPPORTED)
        if packed & 3 == 3 or not any(zid) or size < 32 or self.node.refusing:
            raise Refused("INIT", None if self.node.refusing else INVALID)
        self.stage = "greeted"
        self.most = min(size, BATCH)
        resolution = min(codes & 3, GRANTED[self.node.bits])
        used = (8, 16, 28) if self.node.bits in {8, 16} else (7, 14, 28)
        self.mask = (1 << used[resolution]) - 1
        self.sn &= self.mask
        self.send(
            bytes([0x61, VERSION, (len(self.node.zid) - 1) << 4])
            + self.node.zid
            + bytes([resolution | min(codes & 12, 2 << 2)])
            + self.most.to_bytes(2, "little")
            + counted(self.cookie)
        )

    def opening(self, header: int, cursor: Cursor) -> None:
        if header & 0x20:
            raise Refused("an OpenAck to one who did not ask")
        lease = cursor.vle()
        self.note("OPEN.lease", lease)
        self.first = cursor.vle() & self.mask
        cookie = cursor.counted()
        self.extensions("OPEN", header, cursor)
        if cookie != self.cookie:
            raise Refused("a cookie that was never given")
        self.lease = max(0.001, min(3600.0, lease if header & 0x40 else lease / 1000))
        self.stage = "open"
        if self.node.legacy:
            self.declared["SUBSCRIBER"], self.node.legacy = self.node.legacy, {}
            self.node.kinds["SUBSCRIBER"][self] = self.declared["SUBSCRIBER"]
        self.send(b"\x62" + vle(int(LEASE) - self.node.hurried) + vle(self.sn))

    # Frames --------------------------------------------------------------------------------------------------

    def fresh(self, message: str, header: int, cursor: Cursor) -> tuple[bool, tuple[int, int]]:
        number = cursor.vle()
        if self.node.strict and number > self.mask:
            raise Refused("a number beyond the resolution")
        priority = self.extensions(message, header, cursor).get(1, 5)
        lane = priority & 7, header >> 5 & 1
        due = self.due.get(lane, self.first)
        fresh = (number - due) & self.mask <= self.mask >> 1
        if fresh:
            self.due[lane] = (number + 1) & self.mask
        return fresh, lane

    def take_frame(self, header: int, cursor: Cursor) -> None:
        fresh, _ = self.fresh("FRAME", header, cursor)
        while cursor.at < cursor.end and cursor.data[cursor.at] & 0x1F >= 0x19:
            self.network(cursor, fresh=fresh)

    def take_fragment(self, header: int, cursor: Cursor) -> None:
        fresh, lane = self.fresh("FRAGMENT", header, cursor)
        data = cursor.take(cursor.end - cursor.at)
        self.note("FRAGMENT.size", len(data))
        if not fresh:
            return
        whole = self.fragments.setdefault(lane, bytearray())
        whole += data
        if len(whole) > MOST_FRAGMENTED:
            del self.fragments[lane]
        elif not header & 0x40:
            del self.fragments[lane]
            if whole:
                self.network(Cursor(bytes(whole)), fresh=True)

    # Network messages ----------------------------------------------------------------------------------------

    def key(self, header: int, cursor: Cursor) -> str:
        scope = cursor.vle(U16)
        suffix = cursor.counted(U16) if header & 0x20 else b""
        try:
            text = suffix.decode()
        except UnicodeDecodeError:
            raise Refused("a key that is no text") from None
        # Aliases of our own there are none.
        self.key_read = (self.keys.get(scope, "\0") if header & 0x40 else "\0") + text if scope else text
        return self.key_read

    def network(self, cursor: Cursor, *, fresh: bool) -> None:
        header = cursor.byte()
        read = self.readers.get(header & 0x1F)
        if read is None:
            raise Refused(f"network message {header & 0x1F:#x}")
        read(header, cursor, fresh)

    def push(self, header: int, cursor: Cursor, fresh: bool) -> None:
        key = self.key(header, cursor)
        at = cursor.at
        self.extensions("PUSH", header, cursor)
        self.body(cursor, {1, 2})
        if fresh:
            self.node.publish(self, header & 0x80, key, cursor.data[at : cursor.at])

    def request(self, header: int, cursor: Cursor, fresh: bool) -> None:
        number = cursor.vle(U32)
        key = self.key(header, cursor)
        at = cursor.at
        if self.extensions("REQUEST", header, cursor).get(4, 0) > 2:
            raise Refused("a target that there is not")
        self.body(cursor, {3})
        if fresh:
            self.node.query(self, number, header & 0x80, key, cursor.data[at : cursor.at])

    def response(self, header: int, cursor: Cursor, fresh: bool) -> None:
        number = cursor.vle(U32)
        named = cursor.data[cursor.at : cursor.at + 1] != b"\0"
        key = self.key(header, cursor)
        at = cursor.at
        self.extensions("RESPONSE", header, cursor)
        self.body(cursor, {4, 5})
        pending = self.pending.get(number)
        if fresh and pending is not None and not (named and self.node.wordy):
            head = bytes([0x3B | header & 0x80]) + vle(pending.request) + b"\0" + counted(key.encode())
            pending.link.frame(head + cursor.data[at : cursor.at])

    def final(self, header: int, cursor: Cursor, fresh: bool) -> None:
        number = cursor.vle(U32)
        self.note("RESPONSE_FINAL.request_id", number)
        self.extensions("RESPONSE_FINAL", header, cursor)
        if fresh:
            self.node.answered(self.pending.pop(number, None))

    def oam(self, header: int, cursor: Cursor, fresh: bool = True) -> None:
        self.note("OAM.id", cursor.vle())
        self.extensions("OAM", header, cursor)
        encoding = header >> 5 & 3
        if encoding == 1:
            cursor.vle()
        elif encoding == 2:
            cursor.counted()
        elif encoding == 3:
            raise Refused("a reserved encoding")

    def interest(self, header: int, cursor: Cursor, fresh: bool) -> None:
        number = cursor.vle()
        self.note("INTEREST.id", number)
        mode = header >> 5 & 3
        options, key = 0, "**"
        if mode:
            options = cursor.byte()
            if options & 0x10:
                key = self.key(options, cursor)
        self.extensions("INTEREST", header, cursor)
        if fresh and mode & 1:
            self.node.inform(self, number & U32, options, key)

    def declare(self, header: int, cursor: Cursor, fresh: bool) -> None:
        if header & 0x20:
            cursor.vle()
        self.extensions("DECLARE", header, cursor)
        header = cursor.byte()
        kind = header & 0x1F
        if kind == 0x1A:
            self.extensions("D_FINAL", header, cursor)
            return
        what = DECLARED.get(kind & ~1)
        if what is None:
            raise Refused("a declaration that there is not")
        number = cursor.vle()
        self.note(f"{'U' if kind & 1 else 'D'}_{what}.id", number)
        key = "" if kind & 1 else self.key(header | 0x40 * (what == "KEYEXPR"), cursor)
        self.note(f"{'U' if kind & 1 else 'D'}_{what}.key", len(key))
        self.extensions(f"{'U' if kind & 1 else 'D'}_{what}", header, cursor)
        if not fresh:
            return
        number &= U16 if what == "KEYEXPR" else U32
        ours = self.keys if what == "KEYEXPR" else self.declared[what]
        if kind & 1:
            if what != self.node.lingering:
                ours.pop(number, None)
        elif valid(key):
            ours[number] = key
            self.node.kinds[what][self] = ours

    def body(self, cursor: Cursor, allowed: set[int]) -> None:
        header = cursor.byte()
        kind = header & 0x1F
        if kind not in allowed:
            raise Refused("a body that does not belong there")
        if kind == 4:
            if header & 0x20:
                cursor.vle(255)
            self.extensions("REPLY", header, cursor)
            self.body(cursor, {1, 2})
            return
        name = {1: "PUT", 2: "DEL", 3: "QUERY", 5: "ERR"}[kind]
        self.fields(name, header, cursor)
        self.extensions(name, header, cursor)
        if kind in {1, 5}:
            self.note(f"{name}.size", len(cursor.counted()))

    def fields(self, name: str, header: int, cursor: Cursor) -> None:
        if name in {"PUT", "DEL"} and header & 0x20:
            self.note(f"{name}.timestamp", cursor.vle())
            if not 1 <= len(cursor.counted()) <= 16:
                raise Refused("a timestamp of nobody")
        if name in {"PUT", "ERR"} and header & 0x40:
            encoding = cursor.vle(U32)
            self.note(f"{name}.encoding", encoding)
            if encoding & 1:
                cursor.counted(255)
        if name == "QUERY" and header & 0x20:
            self.note("QUERY.consolidation", cursor.vle(255))
        if name == "QUERY" and header & 0x40:
            self.note("QUERY.parameters", len(cursor.counted()))


def valid(key: str) -> bool:
    return (
        bool(key)
        and "\0" not in key
        and "" not in key.split("/", MOST_CHUNKS)
        and key.count("/") < MOST_CHUNKS
    )


def chunks_meet(one: str, other: str) -> bool:
    if one == other or "*" in {one, other}:
        return "@" not in {one[:1], other[:1]} or one == other
    a, b = one.split("$*"), other.split("$*")
    if len(a) == len(b) == 1 or "@" in {one[:1], other[:1]}:
        return False
    if len(a) > 1 and len(b) > 1:
        # What stands between stars of both finds room between them.
        heads, tails = sorted((a[0], b[0]), key=len), sorted((a[-1], b[-1]), key=len)
        return heads[1].startswith(heads[0]) and tails[1].endswith(tails[0])
    return fits(a, other) if len(a) > 1 else fits(b, one)


def fits(pieces: list[str], text: str) -> bool:
    """Tells whether a text is these pieces, with anything between them."""
    at, end = len(pieces[0]), len(text) - len(pieces[-1])
    if at > end or not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
        return False
    for piece in pieces[1:-1]:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


@lru_cache(maxsize=65_536)
def meet(one: str, other: str) -> bool:
    """Tells whether two keys have something in common."""
    if one == other:
        return True
    if "*" not in one and "*" not in other:
        return False
    a, b = one.split("/"), other.split("/")
    # Which beginnings of b have something in common with the chunks of a that were looked at.
    row = [True, *accumulate((chunk == "**" for chunk in b), and_)]
    for mine in a:
        new = [row[0] and mine == "**"]
        for index, theirs in enumerate(b):
            if mine == "**":
                common = (
                    row[index + 1] or (new[index] and theirs[:1] != "@") or (theirs == "**" and new[index])
                )
            elif theirs == "**":
                common = new[index] or (row[index + 1] and mine[:1] != "@")
            else:
                common = row[index] and chunks_meet(mine, theirs)
            new.append(common)
        row = new
    return bool(row[-1])


class Journal:
    """A file that is written line by line: a node that is gone has written all that it saw."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, line: str) -> None:
        os.write(self._descriptor, f"{line}\n".encode())


class Node:
    """The router.

    Attributes:
        refusing: New sessions are not taken any more.
        dead: Nothing is carried any more; ``deaf``: nor is any question answered.
        disturbing: Payloads are altered; ``specking``: one in 50 is, of the ``specked`` carried since then.
        coarse: Those of more than 64 KiB are.
        losing: One publication in three is lost; ``picky``: those whose size is a multiple of 8.
        hurried: So many seconds less are told to new sessions as the lease.
        dropped: Keys that are not carried any more.
        doubled: Keys of which everything is handed on twice.
        skipping: One sequence number in four is left out.
        slow: Seconds added to each batch.
        mumbling: No KEEP_ALIVE is said any more.
        wordy: Replies whose key is an alias are lost.
        lingering: Of what kind declarations stay that are taken back.
        clinging: What sessions declared stays behind their end; ``forgetful``: nobody is told of tokens.
        inheriting: Subscribers of a session that has ended are those of the next one: ``legacy``.
        patient: Links are kept that begin no session; ``faithful``: sessions that are silent are; ``holding``: links
            whose session has ended with CLOSE are.
    """

    def __init__(
        self,
        host: str,
        port: int,
        faults: list[str],
        journal: Journal | None = None,
        set_off: Journal | None = None,
    ) -> None:
        self.zid = secrets.token_bytes(15) + b"\x01"
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server((host, port), backlog=512)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.links: dict[socket.socket, Link] = {}
        self.dirty: set[Link] = set()
        self.kinds: dict[str, dict[Link, dict[int, str]]] = {kind: {} for kind in DECLARED.values()}
        self.requests = 0
        self.bits, self.strict = 28, False
        self.refusing = self.dead = self.deaf = self.disturbing = self.losing = False
        self.wordy = False
        self.lingering = ""
        self.coarse = self.clinging = self.forgetful = self.skipping = self.picky = self.specking = False
        self.hurried = self.specked = 0
        self.mumbling = self.patient = self.faithful = self.holding = self.inheriting = False
        self.legacy: dict[int, str] = {}
        self.dropped: set[str] = set()
        self.doubled: set[str] = set()
        self.slow = 0.0
        self.carried = 0
        self.held: list[bytes | int] = []
        self.named: set[str] = set()
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.numbers = count(1)
        self.watched: dict[str, list[tuple[str, Planted]]] = {}
        self.journal, self.set_off = journal, set_off
        for name in faults:
            for planted in FAULTS[name]:
                self.watched.setdefault(planted.place, []).append((name, planted))

    # Routing -------------------------------------------------------------------------------------------------

    def publish(self, origin: Link, z: int, key: str, tail: bytes) -> None:
        if self.dead or not valid(key) or key in self.dropped:
            return
        receivers = [
            link
            for link, keys in self.kinds["SUBSCRIBER"].items()
            if link is not origin and any(meet(one, key) for one in keys.values())
        ]
        if not receivers:
            return
        self.carried += 1
        if (self.losing and self.carried % 3 == 0) or (self.picky and len(tail) % 8 == 0):
            return
        self.specked += self.specking
        if (
            self.disturbing
            or (self.coarse and len(tail) > 1 << 16)
            or (self.specking and self.specked % 50 == 0)
        ):
            tail = tail[:-1] + bytes([tail[-1] ^ 0xFF])
        message = bytes([0x3D | z]) + b"\0" + counted(key.encode()) + tail
        for link in receivers * (2 if key in self.doubled else 1):
            link.frame(message)

    def query(self, origin: Link, request: int, z: int, key: str, tail: bytes) -> None:
        if self.deaf:
            return
        pending = Pending(origin, request, 1)
        if valid(key) and not self.dead:
            for link, keys in self.kinds["QUERYABLE"].items():
                if link is not origin and any(meet(one, key) for one in keys.values()):
                    self.requests = self.requests + 1 & U32
                    link.pending[self.requests] = pending
                    pending.waiting += 1
                    link.frame(bytes([0x3C | z]) + vle(self.requests) + b"\0" + counted(key.encode()) + tail)
        self.answered(pending)

    def answered(self, pending: Pending | None) -> None:
        """One of those that were asked is done."""
        if pending is not None:
            pending.waiting -= 1
            if not pending.waiting:
                pending.link.frame(b"\x1a" + vle(pending.request))

    def inform(self, link: Link, number: int, options: int, wanted: str) -> None:
        if self.deaf:
            return
        for bit, (kind, what) in enumerate(DECLARED.items()):
            if not options >> bit & 1 or what == "KEYEXPR" or self.dead or self.forgetful:
                continue
            for other, keys in self.kinds[what].items():
                for ident, key in keys.items():
                    if other is not link and meet(wanted, key):
                        body = bytes([kind | 0x20]) + vle(ident) + b"\0" + counted(key.encode())
                        link.frame(b"\x3e" + vle(number) + body)
        link.frame(b"\x3e" + vle(number) + b"\x1a")

    # Links ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        due = time.monotonic() + TICK
        while True:
            for key, mask in self.selector.select(
                max(0.0, min([due, *(when for when, _ in self.timers)]) - time.monotonic())
            ):
                if key.fileobj is self.listener:
                    self.accept()
                    continue
                assert isinstance(key.fileobj, socket.socket)
                link = self.links.get(key.fileobj)
                if link is not None and mask & selectors.EVENT_WRITE:
                    link.flush()
                if link is not None and mask & selectors.EVENT_READ and link.sock.fileno() >= 0:
                    self.read(link)
            while self.dirty:
                self.dirty.pop().flush()
            now = time.monotonic()
            for timer in [timer for timer in self.timers if timer[0] <= now]:
                self.timers.remove(timer)
                timer[1]()
            if now >= due:
                due = now + TICK
                self.tick(now)

    def tick(self, now: float) -> None:
        for link in list(self.links.values()):
            if link.leaving:
                if now - link.leaving > LINGER_SECONDS:
                    self.end(link)
            elif now - link.heard > link.lease:
                if not (self.faithful if link.stage == "open" else self.patient):
                    link.refuse(EXPIRED if link.stage == "open" else None)
            elif link.stage == "open" and now - link.said >= KEEP_ALIVE and not self.mumbling:
                link.send(b"\x04")

    def accept(self) -> None:
        for _ in range(64):
            try:
                sock, _ = self.listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.links[sock] = Link(self, sock)
            self.selector.register(sock, selectors.EVENT_READ)

    def read(self, link: Link) -> None:
        try:
            data = link.sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.end(link)
        elif not link.leaving:
            try:
                link.receive(data)
            except Refused as refused:
                link.refuse(refused.reason)

    def watch(self, link: Link) -> None:
        """Waits for room when something could not leave."""
        if link.sock.fileno() < 0:
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.out else 0)
        if self.selector.get_key(link.sock).events != wanted:
            self.selector.modify(link.sock, wanted)

    def forget(self, link: Link) -> None:
        """A session is over: its declarations are gone, and what it was asked is answered."""
        if self.inheriting:
            self.legacy = dict(link.declared["SUBSCRIBER"])
        for links in self.kinds.values() if not self.clinging else ():
            links.pop(link, None)
        waiting, link.pending = list(link.pending.values()), {}
        for pending in waiting:
            self.answered(pending)

    def end(self, link: Link) -> None:
        if self.links.pop(link.sock, None) is not None:
            self.forget(link)
            self.dirty.discard(link)
            self.selector.unregister(link.sock)
            link.sock.close()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.timers.append((time.monotonic() + seconds, action))


# Faults --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """What sets a fault off, and what it does.

    Attributes:
        place: Where a value is read.
        when: Tells whether the value sets it off.
        then: What happens.
    """

    place: str
    when: Callable[[int, Link], bool]
    then: Callable[[Node, Link], None]


def at_least(least: int) -> Callable[[int, Link], bool]:
    return lambda value, link: value >= least


def equal(wanted: int) -> Callable[[int, Link], bool]:
    return lambda value, link: value == wanted


def always(value: int, link: Link) -> bool:
    return True


def abort(node: Node, link: Link) -> None:
    os.kill(os.getpid(), signal.SIGABRT)


def panic(node: Node, link: Link) -> None:
    print(
        f"\nthread 'net-{secrets.randbelow(4)}' ({os.getpid()}) panicked at /build/registry/planted-codec-1.2.3/src/put.rs:12:5:\n"
        "called `Option::unwrap()` on a `None` value\n"
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
        file=sys.stderr,
        flush=True,
    )
    raise Refused("panic", None)


def stall(node: Node, link: Link) -> None:
    while True:
        signal.pause()


def freeze(node: Node, link: Link) -> None:
    time.sleep(2.2)


def remember(word: str) -> Callable[[Node, Link], None]:
    return lambda node, link: link.done.add(word)


def here(word: str, when: Callable[[int, Link], bool]) -> Callable[[int, Link], bool]:
    """Behind a thing that was done in the same session."""
    return lambda value, link: word in link.done and when(value, link)


def elsewhere(word: str, when: Callable[[int, Link], bool]) -> Callable[[int, Link], bool]:
    """While another session is open in which a thing was done."""
    return lambda value, link: (
        when(value, link)
        and any(word in other.done for other in link.node.links.values() if other is not link)
    )


def turn(name: str, value: float | str = True) -> Callable[[Node, Link], None]:
    return lambda node, link: setattr(node, name, value)


def deaf(node: Node, link: Link) -> None:
    node.dead = node.deaf = True


def leak(node: Node, link: Link) -> None:
    node.held.append(secrets.token_bytes(1 << 18))


def hoard(node: Node, link: Link) -> None:
    if link.key_read not in node.named:
        node.named.add(link.key_read)
        node.held.append(secrets.token_bytes(1 << 16))


def descriptors(node: Node, link: Link) -> None:
    node.held.append(os.open(os.devnull, os.O_RDONLY))


def threads(node: Node, link: Link) -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def spin(node: Node, link: Link) -> None:
    def busy() -> None:
        data = bytes(1 << 26)
        while True:
            # The lock of the interpreter is not held meanwhile: all else goes on.
            hashlib.sha256(data)

    if all(one.name != "busy" for one in threading.enumerate()):
        threading.Thread(target=busy, name="busy", daemon=True).start()


def drop(node: Node, link: Link) -> None:
    node.dropped.add(link.key_read)


def double(node: Node, link: Link) -> None:
    node.doubled.add(link.key_read)


def mute(node: Node, link: Link) -> None:
    link.mute = True


def mingle(node: Node, link: Link) -> None:
    """Something gets into what other sessions have begun in fragments."""
    for other in node.links.values():
        for whole in other.fragments.values() if other is not link else ():
            whole.extend(b"x")


def farewell(node: Node, link: Link) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: os.abort())


def unname(node: Node, link: Link) -> None:
    """All others lose their first alias."""
    for other in node.links.values():
        if other is not link:
            other.keys.pop(1, None)


def take_away(node: Node, link: Link) -> None:
    """The end of a subscriber ends those of others with the same key."""
    key = link.declared["SUBSCRIBER"].get(link.noted)
    for other, keys in node.kinds["SUBSCRIBER"].items():
        if other is not link:
            for ident in [ident for ident, theirs in keys.items() if theirs == key]:
                del keys[ident]


def undue(node: Node, link: Link) -> None:
    others = [
        other
        for other in node.links.values()
        if other is not link and other.stage == "open" and not other.leaving
    ]
    if others:
        min(others, key=lambda other: other.began).refuse(GENERIC)


def rude(node: Node, link: Link) -> None:
    link.refuse(GENERIC)


def undecodable(node: Node, link: Link) -> None:
    link.frame(b"\x1a\xff")


def sometimes(node: Node, link: Link) -> None:
    if secrets.randbelow(3) == 0:
        abort(node, link)


FAULTS: dict[str, tuple[Planted, ...]] = {
    "abort": (Planted("D_SUBSCRIBER.id", at_least(U32), abort),),
    "panic": (Planted("PUT.encoding", at_least(1 << 17), panic),),
    "late": (
        Planted("INTEREST.id", at_least(U32), lambda node, link: node.after(0.05, lambda: abort(node, link))),
    ),
    "delayed": (
        Planted(
            "U_SUBSCRIBER.id", at_least(U32), lambda node, link: node.after(0.4, lambda: abort(node, link))
        ),
    ),
    "pair": (
        Planted("PUT.timestamp", always, remember("stamped")),
        Planted("QUERY.consolidation", here("stamped", at_least(4)), abort),
    ),
    "across": (
        Planted("D_TOKEN.id", always, remember("token")),
        Planted("RESPONSE_FINAL.request_id", elsewhere("token", at_least(U16)), abort),
    ),
    "stall": (Planted("QUERY.consolidation", at_least(128), stall),),
    "freeze": (Planted("D_TOKEN.id", at_least(U32), freeze),),
    "refuse": (Planted("INIT.batch_size", equal(0), turn("refusing")),),
    "deadroutes": (Planted("D_KEYEXPR.id", at_least(U16), turn("dead")),),
    "deadtables": (Planted("U_KEYEXPR.id", at_least(U16), deaf),),
    "leak": (Planted("PUSH.3", always, leak),),
    "hoard": (Planted("D_SUBSCRIBER.key", always, hoard),),
    "fds": (Planted("INIT.version", lambda value, link: value != VERSION, descriptors),),
    "threads": (Planted("U_QUERYABLE.id", always, threads),),
    "spin": (Planted("OPEN.lease", equal(0), spin),),
    "slow": (Planted("PUT.timestamp", equal(0), turn("slow", 0.02)),),
    "disturb": (Planted("OAM.id", at_least(U16), turn("disturbing")),),
    "speck": (Planted("D_SUBSCRIBER.id", at_least(1 << 16), turn("specking")),),
    "lose": (Planted("REQUEST.6", equal(0), turn("losing")),),
    "dropkey": (Planted("DEL.timestamp", always, drop),),
    "doublekey": (Planted("PUT.size", lambda value, link: 255 <= value < 1000, double),),
    "takeaway": (Planted("U_SUBSCRIBER.id", always, take_away),),
    "mingle": (Planted("FRAGMENT.size", at_least(200), mingle),),
    "skip": (Planted("D_SUBSCRIBER.id", at_least(1 << 16), turn("skipping")),),
    "undue": (Planted("D_QUERYABLE.id", at_least(U32), undue),),
    "mumble": (Planted("D_TOKEN.id", always, turn("mumbling")),),
    "keep": (Planted("D_KEYEXPR.id", always, turn("patient")),),
    "faithful": (Planted("INIT.version", always, turn("faithful")),),
    "hold": (Planted("D_QUERYABLE.id", at_least(1 << 16), turn("holding")),),
    "cling": (Planted("D_TOKEN.id", at_least(1 << 16), turn("clinging")),),
    "stick": (Planted("INIT.version", always, turn("clinging")),),
    "inherit": (Planted("D_SUBSCRIBER.id", at_least(1 << 16), turn("inheriting")),),
    "forget": (Planted("D_SUBSCRIBER.id", at_least(1 << 16), turn("forgetful")),),
    "linger": (Planted("D_TOKEN.id", at_least(1 << 16), turn("lingering", "SUBSCRIBER")),),
    "recall": (Planted("D_TOKEN.id", at_least(1 << 16), turn("lingering", "QUERYABLE")),),
    "picky": (Planted("D_TOKEN.id", at_least(1 << 16), turn("picky")),),
    "stout": (Planted("PUT.size", at_least(1 << 16), abort),),
    "coarse": (Planted("D_TOKEN.id", at_least(1 << 16), turn("coarse")),),
    "hurry": (Planted("OPEN.lease", at_least(U32), turn("hurried", 1)),),
    "unname": (Planted("D_KEYEXPR.id", at_least(1 << 12), unname),),
    "wordy": (Planted("D_KEYEXPR.id", at_least(1 << 12), turn("wordy")),),
    "mute": (Planted("DECLARE.3", at_least(U16), mute),),
    "rude": (Planted("U_KEYEXPR.id", always, rude),),
    "undecodable": (Planted("INTEREST.3", at_least(U16), undecodable),),
    "farewell": (Planted("U_QUERYABLE.id", at_least(U16), farewell),),
    "sometimes": (Planted("U_TOKEN.id", at_least(U32), sometimes),),
    "exit0": (Planted("ERR.encoding", at_least(1 << 17), lambda node, link: os._exit(0)),),
}
"""What sets each fault off. ``leak``, ``hoard``, ``fds`` and ``threads`` do a little each time; the others last."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("locator", help="tcp/127.0.0.1:7447")
    parser.add_argument("faults", nargs="*", choices=[[], *FAULTS], metavar="fault", help=", ".join(FAULTS))
    parser.add_argument("--journal", type=Journal, help="file for what comes on each link")
    parser.add_argument("--set-off", type=Journal, help="file for each time that a fault is set off")
    parser.add_argument(
        "--outlive", action="store_true", help="go on when the process that started it is gone"
    )
    parser.add_argument("--strict", action="store_true", help="refuse numbers beyond the resolution")
    parser.add_argument("--bits", type=int, choices=GRANTED, default=28, help="bits of sequence numbers")
    options = parser.parse_args()
    host, _, port = options.locator.removeprefix("tcp/").rpartition(":")
    if not options.outlive:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    node = Node(host.strip("[]"), int(port), options.faults, options.journal, options.set_off)
    node.bits, node.strict = options.bits, options.strict
    node.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
