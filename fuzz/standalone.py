"""What the regression test of a finding is made of: it is copied whole into each, and needs nothing of the fuzzer.

Standard library and ``conformance`` only, because whoever gets such a test may have no fuzzer.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import select
import signal
import socket
import tempfile
import time
import unittest
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Self

from conformance.config import UNIX, Credentials, Locator, RunConfig, prepare_run_dir
from conformance.errors import HarnessError, LinkFailed, LocalError, NotApplicable, Unmet
from conformance.link.tls import client_context
from conformance.link.websocket_stream import WebSocketStream
from conformance.nodes import Node, node_of
from conformance.observe import Direction, History
from conformance.session.authentication import challenged, shown
from conformance.session.events import Opened
from conformance.session.lanes import Consecutive
from conformance.tester import SessionEnd, Tester
from scapy_layers.batch import contents
from scapy_layers.codes import InterestMode, Kind, QueryTarget
from scapy_layers.data import Put, Query, Reply
from scapy_layers.declarations import DeclareToken, UndeclareQueryable, UndeclareSubscriber
from scapy_layers.extensions import First, QoS, Target, Timeout
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from scapy_layers.transport import Fragment

PATIENCE = 1.0
"""Seconds that an answer may take."""

TRIES = 3
"""So often it is played, on a fresh node each time: what depends on who is quicker shows not every time."""

PROMPT = 0.05
"""Seconds in which a node that is well answers; the end of our side may bring the answer of one that is not."""

HEARING = 0.1
"""Seconds in which the next answer comes that a later step takes something from, and what comes behind what was asked
for."""

ALIASES = 40
"""The publisher has so many; the first one has to mean what it did whatever is declared behind it."""

REPLIES = 2
"""Alias of the queryable's key in its session."""

WORD, DIGITS, FILLER, SPREAD = 16, 12, 24, 64
"""Bytes of what the canary sends: a word, behind it one byte for what it is, a number, and what has no meaning. A node
may fail at one size and not at another: these are those of the oracles that saw it."""

FIRST_EXCHANGES, EXCHANGES, RARE_EXCHANGES = 20, 8, 150
"""So many the canary makes with a fresh node, so many to see whether it still serves, and so many to see what it spoils
now and then."""

COMMON = ("fuzz/k", "fuzz/q", "fuzz/t")
"""Keys that are looked at as well: a node may lose one that was used, and carry all others."""

DATA = 5
BESIDES = (
    *((size, DATA) for size in (1000, 12_000, 66_000, 150_000)),
    *((100, lane) for lane in (1, 2, 3, 4, 6, 7)),
)
"""Bytes of payloads that are published besides, and on which lane: a node may lose one of these, and carry all others."""

UNTOLD = "a token is not sent to a session that asks for it"

COMMON_TRIES = 3
"""So often something is published on one of them before it is said that it is not carried."""

WAITING_MS = 2000
"""So long a query of the canary waits for its reply, in ms."""

ASKED_MS = 50
"""The same where nobody is to reply."""

EARLY = b"\x10" + bytes(16)
"""Cookie of a link on which the node gave none: what takes one may come before it, or the node not answer any more."""

SLOWER, SLOWER_SECONDS = 4.0, 0.004
"""So many times as long as before, and so many seconds longer, is slow."""

PAUSE, HELD_UP = 0.4, 0.1
"""Seconds in which a node answers that is well; seconds that show that an answer had to wait for something."""

GROWN_KB = 16 << 10
"""So much more memory than before, and still growing, is growth."""

LEAKED = 32
"""So many more descriptors, threads and children than before are a leak."""

HANDLES = ("descriptors", "threads", "children")
"""What a process may leak."""

BUSY_SHARE = 0.5
"""So much of a processor is not used by a node that is asked nothing."""

ENDING_SECONDS = 10.0
"""So long a process may take to end that is asked to: a sanitizer looks through all of its memory first."""

FATAL = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")
"""What a process dies of by its own fault; a shell ends with 128 and the number."""

GREETING, KEPT, BEHIND_CLOSE = "{size}0109f2{zid}", "{size}04", "the end of a link behind CLOSE"
OWED: dict[str, tuple[tuple[str, ...], float | None]] = {
    "KEEP_ALIVE": ((GREETING, "{size}42901c01{cookie}"), None),
    "the end of a session with a lease of 1 s": ((GREETING, "{size}420101{cookie}"), 8.0),
    "the end of a link without INIT": ((), 25.0),
    "the end of a link without OPEN": ((GREETING,), 25.0),
    BEHIND_CLOSE: ((GREETING, "{size}423c01{cookie}", "{size}0300"), 8.0),
}
"""What links are owed on which nothing more is said but KEEP_ALIVE; what is said on them first; in how many seconds, or the lease that
the node names."""

APART = 1000
"""Keys with digits have others in each round: so far they are from those of the round before."""

MASKS = (0x7F, 0x3FFF, 0x0FFF_FFFF, (1 << 63) - 1)
"""Largest sequence number, by the two bits of a resolution."""

WRITTEN = (0xFF, 0xFFFF, *MASKS[2:])
"""The same of nodes that count as it is written."""

PLACE = re.compile(r"\{([a-z_]+(?:32)?)(?:\[(\d+):(\d+)\])?\}|\{([0-9a-f]{2}) x (\d+)\}")


def vle(value: int) -> bytes:
    """Returns a VLE integer: seven bits a byte, lowest first."""
    out = bytearray()
    while value > 0x7F and len(out) < 8:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class Link:
    """One link to the node."""

    mask = 0xFFFFFFFF
    """Largest sequence number, once an InitAck has said so."""

    user: Credentials | None = None
    """What its INIT and OPEN show, unless they show something else."""

    as_written = False
    """How far the node counts, see ``Node``."""

    nonce: int | None = None
    """What the password is to be hashed with, once an InitAck has said so."""

    def __init__(self, sock: socket.socket | WebSocketStream, peer: Any = None) -> None:
        self.sock: Any = sock
        self.peer = peer
        self.stream = sock.type == socket.SOCK_STREAM
        self.prefix = 2 if self.stream else 0
        self.values = {"zid": secrets.token_bytes(15) + b"\x01", "cookie": EARLY}
        self.numbers = {"sn": 1_000_000, "sn_be": 1_000_000}
        self.turn = self.nth_play = 0
        self.received: list[bytes] = []
        self.heard = 0
        self.ended = False
        self.paused = False
        self.silent = 0.0
        self._buffer = b""
        sock.settimeout(PATIENCE)

    def fill(self, text: str) -> bytes:
        """Returns the bytes that leave: hexadecimal digits, and places for what only this link knows."""
        data, at, size = b"", 0, 0
        for place in PLACE.finditer(text):
            data += bytes.fromhex(text[at : place.start()])
            at = place.end()
            name = place[1]
            if name is None:
                data += bytes.fromhex(place[4]) * int(place[5])
            elif name in {"size", "size32"}:
                size = 2 if name == "size" else 4
            elif name in {"count", "digits"}:
                number = (self.nth_play * APART if name == "digits" else 0) + self.turn + 1
                data += vle(number) if name == "count" else b"%06d" % (number % 1_000_000)
            elif name in self.numbers:
                data += vle(self.numbers[name] & self.mask)
                self.numbers[name] += 1
            else:
                value = self.values[name]
                data += value[int(place[2]) : int(place[3])] if place[2] else value
        data += bytes.fromhex(text[at:])
        if not size or not self.stream:
            return data
        return min(len(data), (1 << 8 * size) - 1).to_bytes(size, "little") + data

    def say(self, step: dict[str, Any]) -> None:
        """Sends what a step says, as often as it says."""
        for self.turn in range(step.get("times", 1)):
            self.send(self.fill(step["data"]), bytewise=step.get("bytewise", False))

    def send(self, data: bytes, *, bytewise: bool = False) -> None:
        """Sends bytes as they are, but for who we are; what the node says meanwhile is taken in."""
        size = len(data) - self.prefix
        if self.user and int.from_bytes(data[: self.prefix], "little") == (size if self.prefix else 0):
            batch = shown(data[self.prefix :], self.user, self.nonce)
            data = len(batch).to_bytes(self.prefix, "little") + batch if len(batch) < 1 << 16 else data
        for part in [data[at : at + 1] for at in range(len(data))] if bytewise else [data]:
            if self.ended:
                return
            try:
                if self.peer is not None:
                    self.sock.sendto(part, self.peer)
                elif not self.stream:
                    self.sock.send(part)
                else:
                    self.sock.sendall(part)
            except TimeoutError:
                return  # it does not read; what it does with that shows later
            except OSError:
                self.receive(0)
                self.ended = True

    def receive(self, seconds: float) -> bool:
        """Takes in what comes within a time; tells whether something did."""
        if self.ended or self.paused or not select.select([self.sock], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = self.sock.recv(1 << 16)
        except TimeoutError:
            return False  # nothing but a word of WebSocket itself
        except OSError:
            data = b""
        if not data and self.stream:
            self.ended = True
            return False
        if not self.stream:
            self._take(data)
            return True
        self._buffer += data
        while len(self._buffer) >= self.prefix:
            end = self.prefix + int.from_bytes(self._buffer[: self.prefix], "little")
            if len(self._buffer) < end:
                break
            self._take(self._buffer[self.prefix : end])
            self._buffer = self._buffer[end:]
        return True

    def _take(self, batch: bytes) -> None:
        if self.user:
            batch, nonce = challenged(batch)
            self.nonce = self.nonce if nonce is None else nonce
        self.received.append(batch)

    def wait(self, wanted: Any, seconds: float = PATIENCE, seen: int = 0) -> bool:
        """Waits until something that came behind the first ones is wanted, or the link ends; tells whether it came."""
        deadline = time.monotonic() + seconds
        while True:
            for batch in self.received[seen:]:
                seen += 1
                if wanted(batch):
                    return True
            left = deadline - time.monotonic()
            if self.ended or left <= 0:
                return False
            self.receive(left)

    def learn(self) -> None:
        """Takes cookie and resolution out of the first InitAck: header, version, role and sizes, ZenohID, sizes, cookie."""
        batch = next((batch for batch in self.received if batch[:1] and batch[0] & 0x3F == 0x21), None)
        if batch is None:
            return
        at = 3 + (batch[2] >> 4) + 1
        if batch[0] & 0x40:
            self.mask = (WRITTEN if self.as_written else MASKS)[batch[at] & 3]
            at += 3
        begin, size, shift = at, 0, 0
        while True:
            size |= (batch[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if not batch[at - 1] & 0x80:
                break
        self.values["cookie"] = batch[begin : at + size]

    def finish(self) -> None:
        """Ends our side."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool = False) -> None:
        """Closes the link, with RST if wanted."""
        if reset:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.ended = True
        self.sock.close()


class Replay:
    """A node, started for one finding, and what is played against it.

    Args:
        node: As for ``--node``.
        config: Configuration paths that the node needs.
        needs: How links come about: made by us, by the node (``connects``), datagrams (``scouts``, ``seeks``, ``joins``).
        links: How many a round makes.
        folder: For what the node writes.
        user: Who we are, to a node that asks for it.
    """

    def __init__(
        self,
        node: str,
        config: dict[str, Any],
        needs: str,
        links: int,
        folder: Path,
        user: Credentials | None = None,
    ) -> None:
        prepare_run_dir(folder)
        allowed = bool(os.environ.get("I_MAY_TEST_THIS_NODE"))
        run = RunConfig(node=node, run_dir=folder, run_id="finding", seed=1, may_test=allowed, user=user)
        self._needs = needs
        self._doors: list[socket.socket] = []
        self._links: dict[str, Link] = {}
        self._all: list[Link] = []
        self._testers: list[Tester] = []
        self._door_of: dict[str, socket.socket] = {}
        changes = dict(config)
        self._group = ""
        self._seeker: tuple[str, int] | None = None
        self._late = self._silent = 0.0
        self._deaf = self._ended = False
        self._nth_play = 0
        base = node_of(run)
        if needs == "connects":
            if not base.configured:
                # A command says one place at most, and nothing else.
                changes, links = {}, 1
            self._doors += [socket.create_server(("127.0.0.1", 0)) for _ in range(links)]
            ports = [door.getsockname()[1] for door in self._doors]
            changes["connect/endpoints"] = [f"tcp/127.0.0.1:{port}" for port in ports]
        elif needs == "joins":
            byte = 1 + secrets.randbelow(254)
            self._group = (
                f"udp/239.255.{byte}.{1 + secrets.randbelow(254)}:{20_000 + secrets.randbelow(9000)}#iface=lo"
            )
            changes["listen/endpoints"] = ["tcp/127.0.0.1:0", self._group]
        try:
            named = {path.replace("/", "__"): value for path, value in changes.items()}
            self.node: Node = base.variant(**named) if named else base
        except NotApplicable as error:
            self._close_sockets()
            raise unittest.SkipTest(f"{node}: {error}") from None

    def __enter__(self) -> Self:
        if not self.node.listens:
            self.node.launch()
            return self
        self.node.start()
        if not self.node.owned:
            self.node.ask(PATIENCE)
        self.node.learn_counting(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        for tester in self._testers:
            tester.close()
        self._close_sockets()
        self.node.kill()

    def _close_sockets(self) -> None:
        for link in self._all:
            link.close()
        for door in self._doors:
            door.close()

    # Playing ---------------------------------------------------------------------------------------

    def play(self, harm: str, steps: list[dict[str, Any]], rounds: int, late: float) -> str:
        """Plays the steps and looks at the node; returns what is wrong with it, or nothing."""
        in_group = harm == "stall" and self._needs == "joins"
        if in_group and not self._carries(steps):
            raise unittest.SkipTest("the node forwards nothing from its group even before the steps")
        # What a node tells a link of the sessions of others may be part of a finding.
        canary = None if harm in {"growth", "leak", "busy"} else self._canary()
        if canary and harm != "disturbed":
            # What the node spoils from the start is another finding.
            canary.bear()
        before = self._figures()
        usual = canary.pace() if canary and harm == "slow" else 0.0
        for self._nth_play in range(1, rounds + 1):
            for link in self._links.values():
                link.close()
            self._links.clear()
            if not self._round(steps) or self.node.death():
                break
        reached = all(name in self._links for name in {step["link"] for step in steps})
        why = self._wrong(harm, before, canary, late)
        if not why and canary and harm == "slow":
            now = canary.pace()
            if now > SLOWER * usual and now - usual > SLOWER_SECONDS:
                why = f"what others publish takes {now * 1e3:.1f} ms; it took {usual * 1e3:.1f} ms before"
        if not why and in_group and not self._carries(steps):
            why = "nothing sent to the group reaches a subscriber of the node"
        if not why and not reached:
            raise unittest.SkipTest("the node does not reach the state that is needed")
        return why

    def _round(self, steps: list[dict[str, Any]]) -> bool:
        for step in steps:
            if step["do"] == "link":
                try:
                    self._links[step["link"]] = self._open(step["link"], step["how"])
                except OSError:
                    return False
                self._links[step["link"]].nth_play = self._nth_play
                self._all.append(self._links[step["link"]])
            elif not self._step(self._links[step["link"]], step):
                del self._links[step["link"]]
                return False
        for link in self._links.values():
            link.paused = False
            link.receive(0)
        return True

    def _carries(self, steps: list[dict[str, Any]]) -> bool:
        """Goes the way to the state of the finding with new links; tells whether what comes last on it comes."""
        way = list(itertools.takewhile(lambda step: step["do"] != "numbers", steps))
        last = max((at for at, step in enumerate(way) if step["do"] == "expect"), default=-1)
        if last < 0:
            return True
        carried = self._round([*way[:last], {**way[last], "needed": True}, *way[last + 1 :]])
        for link in self._links.values():
            link.close()
        self._links.clear()
        return carried

    def _step(self, link: Link, step: dict[str, Any]) -> bool:
        match step["do"]:
            case "send":
                link.say(step)
            case "expect":
                return self._expect(link, step)
            case "numbers":
                link.numbers.update(sn=step["sn"], sn_be=step["sn_be"])
            case "prefix":
                link.prefix = step["size"]
            case "settle":
                self._settle(link, step)
            case "await":
                link.wait(lambda _: True, HEARING, link.heard)
                link.heard = len(link.received)
                link.learn()
            case "pause" | "resume" as what:
                link.paused = what == "pause"
            case "finish":
                link.finish()
            case "close" | "reset" as what:
                link.close(reset=what == "reset")
        return True

    @staticmethod
    def _expect(link: Link, step: dict[str, Any]) -> bool:
        """Waits for a message; tells whether it came, unless it may be missing."""
        found = link.wait(lambda batch: batch[:1] and batch[0] & 0x1F == step["id"])
        link.learn()
        link.received.clear()
        link.heard = 0
        return found or not step.get("needed", True)

    def _settle(self, link: Link, step: dict[str, Any]) -> None:
        """Waits until the node has dealt with all that was sent on a link: it answers a question, or ends it.

        Where nothing more is to be sent, our side is ended when the answer does not come: then the node says its last.
        """
        goes_on = bool(step.get("goes_on"))
        link.paused = False
        answered, answer, before, finished = False, b"", len(link.received), False
        began = time.monotonic()
        if step.get("data"):
            link.send(link.fill(step["data"]))
            answer = bytes.fromhex(step["answer"])
            answered = link.wait(lambda batch: answer in batch, PATIENCE if goes_on else PROMPT, before)
        elif not link.stream:
            link.wait(lambda _: True, 0.05)
        if not answered and not goes_on and not link.ended and step.get("again"):
            for text in step["again"]:
                link.send(link.fill(text))
            heard = len(link.received)
            answered = link.wait(lambda batch: answer in batch or _is_close(batch), PATIENCE, before)
            # While it still answers what came before it has not come to these questions.
            speaks = not all(map(_is_keep_alive, link.received[heard:]))
            self._deaf |= not answered and not speaks and not link.ended
        if not answered and not goes_on and not link.ended and link.stream:
            finished = True
            link.finish()
            answered = link.wait(lambda batch: bool(answer) and answer in batch, PATIENCE, before)
        if step.get("stays"):
            self._ended |= (link.ended and not finished) or any(map(_is_close, link.received))
        took = time.monotonic() - began
        if answered:
            self._late = max(self._late, took, link.silent)
            link.silent = 0.0
        else:
            self._silent = link.silent = took

    def _open(self, name: str, how: str) -> Link:
        if how == "accept":
            door = self._door_of.setdefault(name, self._doors[len(self._door_of) % len(self._doors)])
            return Link(self._accepted(door))
        if how == "connect":
            return _connected(self.node)
        if self._needs == "joins":
            return _datagrams(Locator.parse(self._group))
        if self.node.scouting is None:
            raise unittest.SkipTest("it is unknown where the node listens for SCOUT")
        if self._needs == "scouts":
            return _datagrams(self.node.scouting)
        # It asks more and more seldom, from the same place: to wait once is enough.
        self._seeker = self._seeker or _overheard(self.node.scouting)
        return _datagrams(Locator("udp", *self._seeker))

    def _accepted(self, door: socket.socket) -> socket.socket:
        """Returns the next link that the node makes; one that has left with its link is started again."""
        until = time.monotonic() + 10 * PATIENCE
        while not select.select([door], [], [], 0.05)[0]:
            if self.node.death() or time.monotonic() > until:
                raise TimeoutError("the node does not connect")
            if self.node.has_left():
                self.node.kill()
                self.node.launch()
        return door.accept()[0]

    # Looking ---------------------------------------------------------------------------------------

    def _wrong(self, harm: str, before: dict[str, float], canary: Canary | None, late: float) -> str:
        said = self._said(harm)
        if said:
            return said
        # What waits for us must not be taken for a fault.
        for link in self._all:
            link.close()
        if not self.node.death() and harm in {"growth", "leak", "busy"}:
            return self._more(harm, before)
        if harm == "overdue":
            return self.node.death() or self.node.problem(PATIENCE) or self._overdue()
        if harm == "unclean":
            return self._unclean()
        # A node that dies stops serving first, and may take its time to die; or it dies of what others send now.
        lost = canary.lost(common=harm == "disturbed") if canary else ""
        if harm == "pause" and not lost:
            lost = self._paused(canary.longest if canary else 0.0)
        judged = harm in {"disturbed", "stall", "refusing", "slow", "undue", "pause"}
        seen = self.node.problem(PATIENCE) or (lost if judged else "")
        if self.node.pid is not None:
            _ends_within(self.node.pid, late)
        return self.node.death() or seen or self.node.complaints()

    def _paused(self, others: float) -> str:
        """Returns for how long the node served nobody, when others had to wait for so many seconds; or nothing."""
        if others > HELD_UP:
            # The question behind what was sent was not answered at all.
            others += self._silent
        longest = max(self._late, others)
        return f"nothing was answered for {longest:.1f} s" if longest > PAUSE else ""

    def _said(self, harm: str) -> str:
        """Returns what is wrong with what the node said on the links of the finding."""
        if harm == "deaf" and self._deaf and not self.node.problem(PATIENCE):
            return "the node stopped answering in a session that it does not close"
        if harm == "undue" and self._ended and not self.node.problem(PATIENCE):
            return "the node ended a session in which only valid messages were sent"
        if harm == "undecodable":
            for batch in (batch for link in self._all for batch in link.received):
                # To a port that scouts a node may speak as over a UDP link.
                kinds = (None, Kind.SCOUTING) if self._needs in {"scouts", "seeks"} else (None,)
                errors = [contents(batch, kind).error for kind in kinds]
                if all(errors):
                    return f"the node sent {batch[:64].hex()}, which does not decode: {errors[-1]}"
        return ""

    def _overdue(self) -> str:
        """Returns what links do not get on which nothing is said, or nothing."""
        links: dict[str, tuple[Link, float, int]] = {}
        began = time.monotonic()
        for what, (said, seconds) in OWED.items():
            link = _connected(self.node)
            self._all.append(link)
            for text in said:
                link.send(link.fill(text))
                link.wait(lambda _: True, seen=len(link.received))
                link.learn()
            named = link.received[-1] if seconds is None and link.received else b""
            lease = _vle(named[1:]) / (1 if named[:1] > b"\x5f" else 1000) if named else PATIENCE
            links[what] = link, lease if seconds is None else seconds, len(link.received)
        while links:
            for what, (link, seconds, seen) in list(links.items()):
                if what == "KEEP_ALIVE" and not link.ended:
                    link.send(link.fill(KEPT))
                link.receive(0.05)
                came = link.received[seen:]
                told = what != BEHIND_CLOSE and any(map(_is_close, came))
                if link.ended or told or (came and what == "KEEP_ALIVE"):
                    del links[what]
                elif time.monotonic() - began > seconds:
                    return f"{what} does not come within {seconds:g} s on a silent link"
        return ""

    def _unclean(self) -> str:
        """Asks the process to end; returns what it dies of by its own fault, and what it says has failed, or nothing."""
        if self.node.pid is None:
            raise unittest.SkipTest("needs a node that the test starts itself")
        if died := self.node.death():
            return died
        self.node.complaints()
        self.node.dismiss()
        _ends_within(self.node.pid, ENDING_SECONDS)
        death = self.node.death()
        codes = [f"exit code {128 + signal.Signals[name]}" for name in FATAL]
        fatal = death if death.endswith((*FATAL, *codes)) else ""
        said = self.node.complaints()
        return "on shutdown: " + "; ".join(filter(None, [fatal, said])) if fatal or said else ""

    def _more(self, harm: str, before: dict[str, float]) -> str:
        now = self._figures()
        if harm == "growth" and now["kb"] - before["kb"] > GROWN_KB:
            return f"the node holds {(now['kb'] - before['kb']) / 1024:.0f} MB more than before"
        if harm == "leak" and (more := sum(now[name] - before[name] for name in HANDLES)) > LEAKED:
            return f"the node holds {more:.0f} more than before of {', '.join(HANDLES)}"
        if harm == "busy":
            time.sleep(PATIENCE)  # the share of a processor is that of a time
            share = (self._figures()["cpu"] - now["cpu"]) / PATIENCE
            if share > BUSY_SHARE:
                return f"the node uses {share:.0%} of a CPU while idle"
        return ""

    def _figures(self) -> dict[str, float]:
        """Returns memory in KB, numbers of what it holds, and seconds of processor time of the node's process."""
        figures = {"kb": 0.0, **dict.fromkeys(HANDLES, 0.0), "cpu": 0.0}
        with contextlib.suppress(OSError, IndexError):
            where = Path(f"/proc/{self.node.pid}")
            found = re.search(r"VmRSS:\s+(\d+)", (where / "status").read_text())
            figures["kb"] = float(found[1]) if found else 0.0
            figures["descriptors"] = float(len(list((where / "fd").iterdir())))
            for thread in (where / "task").iterdir():
                figures["threads"] += 1
                with contextlib.suppress(OSError):  # it has ended meanwhile, or the kernel does not tell
                    figures["children"] += len((thread / "children").read_bytes().split())
            ticks = (where / "stat").read_text().rpartition(")")[2].split()
            figures["cpu"] = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
        return figures

    def _canary(self) -> Canary | None:
        """Returns sessions of ours through which something went already."""
        ends = []
        try:
            for _ in range(3):
                self._testers.append(self.node.tester(PATIENCE))
                ends.append(self._testers[-1].session())
            histories = [
                (end.name, tester.history) for end, tester in zip(ends, self._testers[-3:], strict=True)
            ]
            return Canary(*ends, histories=histories, begin=lambda: self.node.tester(PATIENCE))
        except TROUBLE:
            return None


TROUBLE = (Unmet, LinkFailed, LocalError, HarnessError, NotApplicable)


class Canary:
    """Sessions of ours and what they send each other through the node: publications, queries and replies.

    Args:
        publisher: Publishes and asks.
        subscriber: Subscribes and replies.
        idler: Asks for nothing.
        histories: What went over their links, by the names of those.
        begin: Returns who opens one more session.

    Attributes:
        longest: Seconds that the longest exchange took of those that ``lost`` looked at.

    Raises:
        Unmet: The node does not carry publications to begin with.
    """

    def __init__(
        self,
        publisher: SessionEnd,
        subscriber: SessionEnd,
        idler: SessionEnd,
        *,
        histories: Sequence[tuple[str, History]],
        begin: Callable[[], Tester],
    ) -> None:
        self._begin = begin
        self._histories = histories
        self.longest = 0.0
        self._guests = 0
        self._left = ""
        self._parted = self._rest = b""
        self._whole = False
        self._publisher, self._subscriber, self._idler = publisher, subscriber, idler
        self._sent: list[bytes] = []
        self._arrived: set[int] = set()
        self._read = {subscriber: 0, idler: 0}
        self._spoilt: dict[str, str] = {}
        self._borne: set[str] = set()
        self._key = f"@zenoh-harness/canary/{secrets.token_hex(WORD // 2)}"
        self._word = secrets.token_hex(WORD // 2).encode()
        self._number = 0
        self._replies = True
        self._names_replies = False
        self._asked = 0
        subscriber.declare_subscriber(self._key)
        subscriber.declare_queryable(self._key, complete=True)
        publisher.fence()
        self._named = False
        with contextlib.suppress(*TROUBLE):
            self._named = self._carries_aliases()
        for _ in range(FIRST_EXCHANGES):
            self.publish()
            self._replies = self._replies and self._carries_queries()
        if self._named and self._replies:
            subscriber.declare_alias(REPLIES, self._key)
            self._names_replies = True
            self._names_replies = self._carries_queries() and self._carries_queries()
        self._common = [key for key in COMMON if self._arrives_on(key)]
        self._tokens = self._joins = False
        self._first: Opened | None = None
        with contextlib.suppress(*TROUBLE):
            self._first = self._told()
        with contextlib.suppress(*TROUBLE):
            wrong = self._wrong_token()
            self._tokens = wrong != UNTOLD
            if wrong and self._tokens:
                self._note("token", wrong)
        self._besides: list[tuple[int, int]] = []
        for one in BESIDES:
            with contextlib.suppress(*TROUBLE):
                if self._carries(*one):
                    self._besides.append(one)
        with contextlib.suppress(*TROUBLE):
            self._begin_in_parts()
            self._joins = self._end_in_parts()
            self._begin_in_parts()

    def publish(self) -> float:
        """Publishes something and waits until it arrives; returns how many seconds that took."""
        self._sent.append(self._data(b"p"))
        began = time.perf_counter()
        head: dict[str, Any] = {"extensions": [QoS(D=1, E=1)]}
        if self._named and not len(self._sent) % 2:
            self._publisher.post(Push(key_scope=1, M=1, body=Put(data=self._sent[-1]), **head))
        else:
            self._publisher.put(self._key, self._sent[-1], **head)
        while len(self._sent) not in self._arrived:
            # It may be another that comes, once more.
            self._subscriber.expect(Push)
            self._hear()
        return time.perf_counter() - began

    def _carries_aliases(self) -> bool:
        """Declares an alias of the key, and more behind it; tells whether what is published by it arrives."""
        self._publisher.declare_alias(1, self._key)
        data = self._data(b"a")
        self._publisher.post(Push(key_scope=1, M=1, extensions=[QoS(D=1, E=1)], body=Put(data=data)))
        self._publisher.fence()
        self._subscriber.expect(Push)
        for number in range(2, ALIASES + 1):
            self._publisher.declare_alias(number, f"{self._key}/{number}")
        self._hear()
        self._spoilt.clear()
        return True

    def _begin_in_parts(self) -> None:
        """Sends the first of two fragments of a publication; what is played now is no part of it."""
        self._parted, self._whole = self._data(b"f"), False
        raw = bytes(Push(key_suffix=self._key, extensions=[QoS(D=1, E=1)], body=Put(data=self._parted)))
        self._rest = raw[len(raw) // 2 :]
        self._send_part(raw[: len(raw) // 2], M=1, extensions=[First()])

    def _end_in_parts(self) -> bool:
        """Sends the second one; tells whether the publication arrives."""
        self._send_part(self._rest)
        self._idler.fence()
        with contextlib.suppress(Unmet):
            while not self._whole:
                self._subscriber.expect(Push)
                self._hear()
        return self._whole

    def _send_part(self, data: bytes, **fields: Any) -> None:
        number = self._idler.session.take_sn()
        self._idler.send(Fragment(R=1, sn=number, data=data, **fields))

    def _hear(self) -> None:
        """Takes in all publications that came, and what is wrong with them."""
        for end, read in self._read.items():
            came, self._read[end] = end.inbox[read:], len(end.inbox)
            for push in (seen.message for seen in came if isinstance(seen.message, Push)):
                if end is self._idler or end.key(push) != self._key:
                    # The subscriber has asked for the common ones, or had until a moment ago.
                    if end is self._idler or end.key(push) not in COMMON:
                        self._note("astray", "a session receives a publication that it did not subscribe to")
                else:
                    self._judge(bytes(getattr(push.body, "data", b"")))

    def _count(self) -> None:
        """Sees whether the numbers of what came follow one another, and whether it was asked for."""
        for link, history in self._histories:
            sent = (
                one for one in history.observations if (one.link, one.direction) == (link, Direction.SENT)
            )
            asked = {
                inside.request_id
                for one in sent
                for message in one.contents.messages
                for inside in getattr(message, "messages", None) or ()
                if isinstance(inside, Request)
            }
            came = (seen.message for seen in history.received(link))
            if any(isinstance(one, Response | ResponseFinal) and one.request_id not in asked for one in came):
                self._note("unasked", "a session receives an answer although it asked nothing")
            said = (seen.message for seen in history.received(link) if seen.carrier is None)
            if wrong := Consecutive().wrong(said):
                self._note("numbers", f"the node skips or repeats sequence numbers: {wrong}")

    def _judge(self, data: bytes) -> None:
        """Tells whether a publication comes once, whole and in order.

        Without our word it is one that a stimulus sent by an alias of the node, or one of ours of which nothing is left:
        then ours does not come.
        """
        if self._parted and self._word + b"f" in data:
            # A changed one is not lost as well.
            self._whole = True
            if data != self._parted:
                self._note("changed", f"a fragmented publication arrives changed: {data.hex()}")
            return
        if self._word + b"l" in data:
            # Whoever waits for it looks at it.
            return
        last = max(self._arrived, default=0)
        number = self._sent.index(data) + 1 if data in self._sent else 0
        if not number and self._word not in data:
            return
        if not number:
            self._note("changed", f"a publication arrives changed: {data.hex()}")
        elif number in self._arrived:
            self._note("twice", f"publication {number} arrives again, after {last}")
        elif number < last:
            self._note("order", f"publication {number} arrives after {last}")
        # A changed one is not lost as well.
        self._arrived.add(number or len(self._sent))

    def _note(self, what: str, why: str) -> None:
        if what not in self._borne:
            self._spoilt.setdefault(what, why)

    def bear(self) -> None:
        """Passes over what the node has spoilt up to now, from now on."""
        self._count()
        self._borne |= set(self._spoilt)
        self._spoilt.clear()

    def ask(self) -> None:
        """Asks something and waits for the reply."""
        data = self._data(b"r")
        number = self._publisher.next_id()
        target = Target(target=QueryTarget.BEST_MATCHING)
        # What a query asks for has the head of what is published, and nothing behind it.
        words = (self._word + b"q%0*d" % (DIGITS, number)).decode()
        urgent = QoS(D=1, E=1)
        self._publisher.post(
            Request(
                request_id=number,
                key_suffix=self._key,
                extensions=[urgent, target, Timeout(timeout=WAITING_MS)],
                body=Query(P=1, parameters=words),
            )
        )
        asked = self._subscriber.expect(Request).request_id
        self._asked += 1
        by_alias = self._names_replies and self._asked % 2
        self._subscriber.post(
            Response(
                request_id=asked,
                **({"key_scope": REPLIES, "M": 1} if by_alias else {"key_suffix": self._key}),
                extensions=[urgent],
                body=Reply(body=Put(data=data)),
            ),
            ResponseFinal(request_id=asked),
        )
        got = self._publisher.expect(Response, request_id=number)
        reply = bytes(getattr(getattr(got.body, "body", None), "data", b""))
        if reply != data:
            self._note("reply", f"a reply arrives changed: {reply.hex()}")

    def lost(self, *, common: bool) -> str:
        """Returns what is wrong with what we send each other, or nothing.

        Args:
            common: Keys that were carried at first are looked at, too.
        """
        marks = [time.monotonic()]
        try:
            if self._joins and not self._end_in_parts():
                return "what others publish in two fragments no longer arrives"
            marks.append(time.monotonic())
            for _ in range(RARE_EXCHANGES if common else EXCHANGES):
                self.publish()
                if self._replies:
                    self.ask()
                marks.append(time.monotonic())
            self.longest = max(after - before for before, after in itertools.pairwise(marks))
            if common and (wrong := self._lost_besides()):
                return wrong
        except TROUBLE as error:
            return f"what others send each other no longer arrives: {error}"
        self._subscriber.wait(lambda: False, HEARING)
        self._hear()
        self._count()
        return "; ".join(self._spoilt.values())

    def _lost_besides(self) -> str:
        """Returns what is wrong with what was well at first besides, or nothing."""
        for key in self._common:
            if not self._arrives_on(key, overlapping=True):
                return f"what others publish for {key} no longer arrives"
        if kept := self._kept():
            return kept
        for size, lane in self._besides:
            if not self._carries(size, lane):
                return f"what others publish of {size} bytes with priority {lane} no longer arrives"
        if self._first is not None and (told := self._told()) != self._first:
            return f"a new session is told {told} instead of {self._first}"
        # What one session leaves behind shows in the next one.
        judged = self._tokens and "token" not in self._borne
        return (self._wrong_token() or self._wrong_token()) if judged else ""

    def _arrives_on(self, key: str, *, overlapping: bool = False) -> bool:
        """Subscribes to a key for a moment; tells whether what is published on it arrives.

        Args:
            key: One of the common ones.
            overlapping: Our publisher subscribes too, and takes that back before.
        """
        number = self._subscriber.declare_subscriber(key)
        if overlapping:
            other = self._publisher.declare_subscriber(key)
            self._publisher.post(Declare(body=UndeclareSubscriber(entity_id=other)))
        seen = len(self._subscriber.inbox)
        sent: list[bytes] = []
        for _ in range(COMMON_TRIES if overlapping else 1):
            sent.append(self._data(b"k"))
            self._publisher.put(key, sent[-1])
            self._subscriber.wait(lambda: bool(self._came_on(key, seen)), PATIENCE)
            if self._came_on(key, seen):
                break
        self._subscriber.post(Declare(body=UndeclareSubscriber(entity_id=number)))
        self._subscriber.fence()
        came = self._came_on(key, seen)
        if any(data not in sent for data in came):
            self._note("changed", f"a publication for {key} arrives changed")
        elif len(set(came)) < len(came):
            self._note("twice", f"a publication for {key} arrives twice")
        return bool(came)

    def _kept(self) -> str:
        """Returns whether what was taken back is still served, in words; nothing when it is not, or soon no more."""
        subscriber, publisher, key = self._subscriber, self._publisher, f"{self._key}/served"
        if self._replies:
            number = subscriber.declare_queryable(key)
            subscriber.post(Declare(body=UndeclareQueryable(entity_id=number)))
            subscriber.fence()
        until = time.monotonic() + PATIENCE
        while True:
            last, seen = time.monotonic() > until, len(subscriber.inbox)
            for common in self._common:
                publisher.put(common, self._data(b"k"))
            if self._replies:
                number = publisher.next_id()
                words = f"@zenoh-harness/k{number:0{2 * DIGITS}d}"
                publisher.post(
                    Request(
                        request_id=number,
                        key_suffix=key,
                        extensions=[Timeout(timeout=ASKED_MS)],
                        body=Query(P=1, parameters=words),
                    )
                )
            publisher.fence()
            subscriber.fence()
            asked = any(isinstance(one.message, Request) for one in subscriber.inbox[seen:])
            if not asked and not any(self._came_on(common, seen) for common in self._common):
                return ""
            if last:
                return "a subscriber or a queryable that was taken back is still served"

    def _carries(self, size: int, lane: int) -> bool:
        """Publishes a payload of a size with a priority, and on its lane; tells whether it arrives."""
        start = self._data(b"l")[: WORD + 1 + DIGITS]
        data = start + secrets.token_bytes(size - len(start))
        qos = QoS(D=1, E=1) if lane == DATA else QoS(D=1, E=1, priority=lane)
        seen = len(self._subscriber.inbox)

        def came() -> bytes | None:
            return next((one for one in self._came_on(self._key, seen) if one.startswith(start)), None)

        push = Push(key_suffix=self._key, extensions=[qos], body=Put(data=data))
        self._publisher.post(push, priority=lane)
        self._subscriber.wait(lambda: came() is not None, PATIENCE)
        arrived = came()
        if arrived is not None and arrived != data:
            self._note("besides", f"a publication of {size} bytes with priority {lane} arrives changed")
        return arrived is not None

    def _came_on(self, key: str, seen: int) -> list[bytes]:
        """Returns what came of ours on a key behind the first ones in the inbox, as far as our word tells."""
        pushes = [one.message for one in self._subscriber.inbox[seen:] if isinstance(one.message, Push)]
        data = [
            bytes(getattr(push.body, "data", b"")) for push in pushes if self._subscriber.key(push) == key
        ]
        return [one for one in data if self._word in one]

    def _told(self) -> Opened:
        """Returns what the node tells a new session, but for the number that it begins with."""
        tester = self._begin()
        try:
            peer = tester.session().session.peer
            assert peer is not None
            return replace(peer, initial_sn=0)
        finally:
            tester.close()

    def _wrong_token(self) -> str:
        """Returns what is wrong with what a session declares that ends, or nothing."""
        self._guests += 1
        tester, key, left = self._begin(), f"{self._key}/{self._guests}", self._left
        try:
            guest = tester.session()
            if left:
                self._publisher.post(Push(key_suffix=left, body=Put(data=b"left")))
                self._publisher.fence()
            guest.post(Declare(body=DeclareToken(entity_id=1, key_suffix=key)))
            guest.declare_subscriber(key)
            self._left = key
            guest.fence()
            told = self._is_told(key)
            if any(isinstance(seen.message, Push) for seen in guest.inbox):
                return "a new session receives what an ended session had subscribed to"
        finally:
            tester.close()
        if not told:
            return UNTOLD
        until = time.monotonic() + PATIENCE
        while self._is_told(key):
            if time.monotonic() > until:
                return "a token is still announced although its session has ended"
        return ""

    def _is_told(self, key: str) -> bool:
        """Asks which tokens there are of a key; tells whether there is one."""
        seen, number = len(self._subscriber.inbox), self._subscriber.next_id()
        self._subscriber.post(
            Interest(mode=InterestMode.CURRENT, interest_id=number, tokens=1, key_suffix=key)
        )
        self._subscriber.fence()
        came = [one.message for one in self._subscriber.inbox[seen:]]
        return any(isinstance(one, Declare) and isinstance(one.body, DeclareToken) for one in came)

    def pace(self) -> float:
        """Returns seconds that a publication takes from one session to another."""
        return median(self.publish() for _ in range(EXCHANGES))

    def _data(self, kind: bytes) -> bytes:
        self._number += 1
        filler = secrets.token_bytes(FILLER + self._number % SPREAD)
        return self._word + kind + b"%0*d" % (DIGITS, self._number) + filler

    def _carries_queries(self) -> bool:
        try:
            self.ask()
        except Unmet:
            return False
        return True


def _vle(data: bytes) -> int:
    """Returns the number at the beginning of bytes: seven bits in each, the last one without the highest bit."""
    size = next((at for at, byte in enumerate(data, 1) if byte < 0x80), len(data))
    return sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data[:size]))


def _is_close(batch: bytes) -> bool:
    """Tells whether a batch begins with CLOSE."""
    return _first(batch) in {b"\x03", b"\x23", b"\x83", b"\xa3"}


def _is_keep_alive(batch: bytes) -> bool:
    """Tells whether a batch begins with KEEP_ALIVE."""
    return _first(batch) in {b"\x04", b"\x84"}


def _first(batch: bytes) -> bytes:
    """Returns the header of the first message of a batch; of a session with compression, behind that of the batch."""
    return batch[1:2] if batch[:1] == b"\0" else batch[:1]


def _ends_within(pid: int, seconds: float) -> None:
    """Waits until a process has ended, or a time is over."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            select.select([descriptor], [], [], seconds)
        finally:
            os.close(descriptor)


def _connected(node: Node) -> Link:
    """Makes a link to a node that listens."""
    locator = node.locator
    if locator.group:
        return _datagrams(locator)
    if locator.proto == UNIX:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(locator.path)
    elif locator.proto == "udp":
        sock = socket.socket(socket.AF_INET6 if ":" in locator.host else socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect((locator.host, locator.port))
    else:
        sock = socket.create_connection((locator.host, locator.port), PATIENCE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if locator.proto == "tls":
            sock = client_context(node.tls).wrap_socket(sock, server_hostname=locator.host)
    link = Link(WebSocketStream(sock, locator.bare.partition("/")[2]) if locator.proto == "ws" else sock)
    link.user, link.as_written = node.user, bool(node.as_written)
    return link


def _datagrams(locator: Locator) -> Link:
    """Returns a socket from which datagrams go to a group or a node on this machine."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    sock.bind(("127.0.0.1", 0))
    return Link(sock, (locator.host, locator.port))


def _overheard(group: Locator) -> tuple[str, int]:
    """Returns from where somebody speaks in a group, once that happens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ear.bind((group.host, group.port))
        member = socket.inet_aton(group.host) + socket.inet_aton("127.0.0.1")
        ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        ear.settimeout(10 * PATIENCE)
        _, source = ear.recvfrom(1 << 16)
    return str(source[0]), int(source[1])


def node_wanted(request: Any, default: str) -> str:
    """Returns the node under test: ``--node`` if it was typed, the variable ZENOH_NODE, or the one of the finding."""
    return _typed(request, "--node") or os.environ.get("ZENOH_NODE") or default


def user_wanted(request: Any) -> Credentials | None:
    """Returns who we are to the node under test: ``--user`` if it was typed, or the variable ZENOH_USER."""
    named = _typed(request, "--user") or os.environ.get("ZENOH_USER")
    return Credentials.parse(named) if named else None


def _typed(request: Any, option: str) -> str:
    typed = request.config.invocation_params.args
    there = any(str(word).partition("=")[0] == option for word in typed)
    return str(request.config.getoption(option)) if there else ""


def check(
    node: str,
    config: dict[str, Any],
    needs: str,
    harm: str,
    steps: list[dict[str, Any]],
    rounds: int,
    late: float,
    user: Credentials | None = None,
) -> None:
    """Plays a finding against a node that is started for it.

    Args:
        node: As for ``--node``.
        config: Configuration paths that the node needs.
        needs: How links come about, see ``Replay``.
        harm: What it does to the node.
        steps: What is played.
        rounds: How often.
        late: Seconds in which the process may still die of it.
        user: Who we are, to a node that asks for it.

    Raises:
        AssertionError: The fault is there; says what is seen.
        unittest.SkipTest: This node cannot show it.
    """
    links = sum(step["do"] == "link" for step in steps)
    for _ in range(TRIES):
        with (
            tempfile.TemporaryDirectory() as folder,
            Replay(node, config, needs, links, Path(folder), user) as replay,
        ):
            why = replay.play(harm, steps, rounds, late)
        assert not why, f"{harm}: {why}"
