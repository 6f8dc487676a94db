"""One link: a socket, what came over it, and its numbers."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from conformance.config import Credentials
from conformance.observe import Direction, Endpoints
from conformance.session.authentication import challenged, shown
from fuzz.player.answers import Answer, Answers
from fuzz.player.doors import Socket
from fuzz.player.trace import Trace
from fuzz.states import FACTS, State
from scapy_layers.batch import LONG_PREFIX, MAX_BATCH, PREFIX
from scapy_layers.primitives import write_vle
from scapy_layers.transport import Close

RECEIVE = 1 << 16
"""Bytes asked for at once."""

MOST_WAITING = 1 << 22
"""Of a node that sends more than this while one case is played, only small batches are still looked into."""

SMALL = 4096
"""Bytes of a small batch: an answer to a fence, a CLOSE."""

FIRST_SN = 1_000_000
"""First sequence number of our sessions: its VLE form has three bytes, and so have the next million. Where the node has
agreed to less than 32 bits, what is left of it in those."""

APART = 1000
"""So many keys with digits a step has at most; those of the next play are so far from them."""

EARLY: dict[str, bytes] = {"cookie": write_vle(16) + bytes(16), "rid": write_vle(1)}
"""What stands for values that the node has not said yet."""

SEND_SECONDS = 1.0
"""How long a node may not read what we send."""

LEAVE = bytes(Close(S=1, reason=0))
"""Ends a session."""

NOW = int(socket.MSG_DONTWAIT)
MORE = int(socket.MSG_DONTWAIT | socket.MSG_MORE)
"""Flags as plain numbers: to join two of the enumeration takes as long as to send."""

LINGER_NOT = struct.pack("ii", 1, 0)
"""With it a socket that is closed sends RST."""


class Pipe:
    """A link of ours.

    Args:
        sock: Connected, or a datagram socket.
        ends: Its addresses.
        trace: Remembers what goes over it.
        answers: Reads what comes back.
        zid: Our ZenohID on it.
        peer: For datagram sockets without one peer: where to send.
        user: What our INIT and OPEN show, unless they show something else; None for nothing.
        as_written: How far the node counts sequence numbers, see ``Node``.

    Attributes:
        state: Where it is.
        inbox: What came back and was not taken yet.
        heard: How many of those a step ``await`` has seen.
        ended: How it ended; empty while it lives.
        by_us: We ended it.
        prefix: Bytes of the length in front of a batch; 0 for datagrams.
        values: Live values as wire bytes, by name: ``zid``; ``cookie`` of the last InitAck, counted; ``rid``, the
            id of the node's last query; ``user``, if there is one. ``sn``, ``sn_be`` are the numbers that are due, and are taken; ``from N``
            is N, from which both are counted from then on; ``count`` and ``digits`` are ``turn`` from 1, as VLE and
            as six digits, ``digits`` behind those of ``nth_play``; ``NAME@b`` is the value of link b.
        turn: Which repetition of a step this is, from 0.
        nth_play: Which of many plays, each of which has keys of its own.
        others: The links beside it, by name.
        facts: What states remember: the cookie, the node's ZenohID, its request ids ...
        finals: How many answers to fences came.
        since: Position in the trace where it came into its state.
        torn: Of what was sent only a part has left.
        late: Seconds for which nothing came before a fence was answered: the longest since somebody looked.
        silent: The same for those that were given up; a pause if it is answered later.
        rids: Ids of queries of the node that wait for our reply, as wire bytes; ``rid`` is each of them in turn.
        deaf: What comes is cut into batches and forgotten.
        farewell: What is sent before it is closed; of datagrams, where an end says nothing. Sessions over
            datagrams are ended in any case.
    """

    def __init__(
        self,
        sock: Socket,
        ends: Endpoints,
        trace: Trace,
        answers: Answers,
        zid: bytes,
        peer: Any = None,
        user: Credentials | None = None,
        *,
        as_written: bool = False,
    ) -> None:
        self.sock = sock
        self.ends = ends
        self.peer = peer
        self.stream = sock.type == socket.SOCK_STREAM
        self.prefix = PREFIX if self.stream else 0
        # TLS and WebSocket may have taken in the end together with data, of which the system tells nobody any more.
        self._short_is_all = self.stream and isinstance(sock, socket.socket)
        self.state: State | None = None
        self.inbox: list[Answer] = []
        self.heard = 0
        self.ended = ""
        self.by_us = False
        self.finished = False
        self.paused = False
        self.zid = zid
        self.values: dict[str, bytes] = {**EARLY, "zid": zid}
        self.turn = 0
        self.nth_play = 0
        self.others: Mapping[str, Pipe] = {}
        self.facts: dict[str, Any] = {}
        self.finals = 0
        self.since = 0
        self.torn = False
        self.silent = 0.0
        self.late = 0.0
        self.fences = 0
        self.sn = FIRST_SN
        self.sn_be = FIRST_SN
        self.sn_mask = (1 << 32) - 1
        self.as_written = as_written
        self.rids: deque[bytes] = deque()
        self.deaf = False
        self.farewell = b""
        self._user = user
        self._nonce: int | None = None
        if user is not None:
            self.values["user"] = user.user
        self._trace = trace
        self._answers = answers
        self._buffer = bytearray()
        self._taken = 0
        self._skip = 0
        self.number = trace.link(ends)

    # Sending ---------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> bytes:
        """Returns a live value as wire bytes; a sequence number is the one that is due, and taken."""
        if name == "sn":
            self.sn += 1
            return write_vle(self.sn - 1 & self.sn_mask)
        if name == "sn_be":
            self.sn_be += 1
            return write_vle(self.sn_be - 1 & self.sn_mask)
        value = self.values.get(name)
        return self._special(name) if value is None else value

    def _special(self, name: str) -> bytes:
        name, _, link = name.partition("@")
        if link:
            return self.others[link][name]
        if name == "rid" and self.rids:
            self.rids.rotate(-1)
            return self.rids[-1]
        if name == "count":
            return write_vle(self.turn + 1)
        if name == "digits":
            return b"%06d" % ((self.nth_play * APART + self.turn + 1) % 1_000_000)
        if name.startswith("from ") and name[5:].isdecimal():
            self.sn = self.sn_be = int(name[5:])
            return write_vle(self.sn & self.sn_mask)
        raise KeyError(name)

    def learn(self, answer: Answer) -> None:
        """Takes from an answer the values that steps may need."""
        if answer.live:
            self.values["cookie"] = write_vle(len(answer.live)) + answer.live
        if answer.ids:
            self.values["rid"] = write_vle(answer.ids[-1])

    def send(self, data: bytes, note: str = "", *, bytewise: bool = False, more: bool = False) -> bool:
        """Sends bytes as they are; returns whether all of them left. With ``more`` they may wait for what follows."""
        if not self.ended:
            if self._user is not None:
                data = self._shown(data, self._user)
            self._trace.add(self.number, Direction.SENT, data, note)
            try:
                if bytewise and self.stream:
                    for byte in data:
                        self._send_all(bytes([byte]))
                elif self.stream:
                    self._send_all(data, MORE if more else NOW)
                elif self.peer is not None and isinstance(self.sock, socket.socket):
                    self.sock.sendto(data, self.peer)
                else:
                    self.sock.send(data)
            except TimeoutError:
                # A node that does not read: what it does with that shows in what follows.
                self.torn = True
                return False
            except OSError as error:
                if not self.stream:
                    # Too long for a datagram, or an earlier one found nobody: the next may fare better.
                    return False
                # What it said before it ended the link is still there.
                self.receive()
                self._end(error.strerror or str(error))
        return not self.ended

    def _shown(self, data: bytes, user: Credentials) -> bytes:
        """Returns what leaves with what it has to show of us, if it is one batch whose length is true."""
        size = len(data) - self.prefix
        if int.from_bytes(data[: self.prefix], "little") != (size if self.prefix else 0):
            return data
        batch = data[self.prefix :]
        longer = shown(batch, user, self._nonce)
        if longer is batch or len(longer) > MAX_BATCH:
            return data
        return len(longer).to_bytes(self.prefix, "little") + longer

    def _send_all(self, data: bytes, flags: int = NOW) -> None:
        """Sends while the node reads; takes in what it says meanwhile, so that it is not held up by us."""
        left: bytes | memoryview = data
        while left:
            try:
                sent = self.sock.send(left, flags)
                if sent == len(left):
                    return
                left = memoryview(left)[sent:]
            except BlockingIOError:
                heard = [] if self.paused else [self.sock]
                readable, writable, _ = select.select(heard, [self.sock], [], SEND_SECONDS)
                if readable:
                    self.receive()
                    if self.ended:
                        return
                if not readable and not writable:
                    raise TimeoutError from None

    # Receiving -------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """The file descriptor, for ``select``."""
        return self.sock.fileno()

    def wait(self, seconds: float) -> bool:
        """Waits until something is there to be received; tells whether it is."""
        if self.ended:
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def receive(self) -> None:
        """Takes in what is there, without waiting."""
        while not self.ended and not self.paused:
            try:
                data = self.sock.recv(RECEIVE, NOW)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._end(error.strerror or str(error))
                return
            if not data and self.stream:
                self._end("EOF")
                return
            self._take(data)
            if self._short_is_all and len(data) < RECEIVE:
                return

    def _take(self, data: bytes) -> None:
        now = time.time_ns()
        self._taken += len(data)
        if not self.stream:
            self._batch(data, data, now)
            return
        # What is skipped must not be taken in, but where the next batch begins has to be known.
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        buffer, prefix = self._buffer, self.prefix
        whole = len(data) == prefix + int.from_bytes(data[:prefix], "little")
        if whole and not buffer and not skipped and len(data) <= SMALL:
            # One batch: most of what comes.
            self._batch(data, data[prefix:], now)
            return
        buffer += memoryview(data)[skipped:]
        at = 0
        flooded = self._taken > MOST_WAITING
        while len(buffer) - at >= prefix:
            size = int.from_bytes(buffer[at : at + prefix], "little")
            if flooded and size > SMALL:
                there = min(size, len(buffer) - at - prefix)
                self._skip = size - there
                at += prefix + there
                continue
            if len(buffer) - at - prefix < size:
                break
            raw = bytes(buffer[at : at + prefix + size])
            at += prefix + size
            self._batch(raw, raw[prefix:], now)
        if at:
            del buffer[:at]

    def _batch(self, raw: bytes, batch: bytes, now: int) -> None:
        if self.deaf:
            return
        self._trace.add(self.number, Direction.RECEIVED, raw)
        if self._user is not None:
            # Without it InitAcks are alike, and need not be taken apart.
            batch, nonce = challenged(batch)
            self._nonce = self._nonce if nonce is None else nonce
        answer = self._answers.read(batch, now, self)
        self.finals += answer.finals
        if answer.live or answer.ids:
            self.learn(answer)
        self.inbox.append(answer)

    def take(self) -> list[Answer]:
        """Returns what came since the last call."""
        inbox, self.inbox, self._taken, self.heard = self.inbox, [], 0, 0
        return inbox

    def longer(self) -> None:
        """Lengths have four bytes from here on (low latency)."""
        self.prefix = LONG_PREFIX

    # Ending ----------------------------------------------------------------------------------------

    def _end(self, how: str) -> None:
        if not self.ended:
            self.ended = how
            self._trace.add(self.number, Direction.ENDED, note=how + (" by us" if self.by_us else ""))
            self.sock.close()

    def finish(self) -> None:
        """Ends our side; what the node still says can be received."""
        if not self.ended and not self.finished and self.stream:
            self.finished = True
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)

    def drop(self, why: str) -> None:
        """Ends a link that the node has given up without a sign."""
        self._end(why)

    def close(self) -> None:
        """Closes the link."""
        if not self.ended:
            if farewell := self.farewell or self._leave():
                self.send(farewell, "farewell")
            self.by_us = True
            self._end("closed")

    def _leave(self) -> bytes:
        """Returns what ends a session over datagrams, which the node would keep for the lease."""
        if self.stream or self.state is None or not FACTS[self.state].session:
            return b""
        return b"\x00" + LEAVE if self.facts.get("compressed") else LEAVE

    def reset(self) -> None:
        """Closes the link with RST."""
        if not self.ended:
            with suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            self.by_us = True
            self._end("reset")
