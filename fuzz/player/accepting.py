"""Links that the node makes: a door that listens, and the states behind it."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from functools import lru_cache
from typing import cast

from conformance.config import CONNECT_SECONDS, Locator
from conformance.observe import Endpoints
from fuzz.player.doors import Door, NoLink
from fuzz.player.pipe import Pipe
from fuzz.player.player import NotReached, Player, first_number, mask_of, reach, template_of
from fuzz.player.tasks import Task, Wait, run
from fuzz.script import Template
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.batch import contents
from scapy_layers.codes import WhatAmI
from scapy_layers.message import Message
from scapy_layers.transport import Init, Open

LOOPBACK = "127.0.0.1"

PAUSE_SECONDS = 6.0
"""So long a node may pause before it tries again, when it cannot be told to be quick."""

LOOK_SECONDS = 0.02
"""Seconds between two looks whether a node has left that is to make a link."""

COOKIE = bytes(range(0xC0, 0xD0))
"""Of our InitAck."""

NONCE = 0xC0C1_C2C3_C4C5_C6C7
"""What a node hashes its password with. We know none, and believe whoever shows one."""

_ZID = b"\xf6\xe7\x5bzid of a link"

GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class Acceptor(Door):
    """Listens for links of a node that connects to us.

    Attributes:
        call: Called while there is no link, to start a node again that has left.
        locator: Where; the system chose the port.
        patient: The node pauses between two links, so that one that waits is taken, however old.
        ended: How it ended; empty while it listens.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self._listener.setblocking(False)
        self.locator = Locator("tcp", LOOPBACK, self._listener.getsockname()[1])
        self.ended = ""
        self.patient = False
        self.call: Callable[[], None] = lambda: None

    def fileno(self) -> int:
        """The file descriptor."""
        return self._listener.fileno()

    def wait(self, seconds: float) -> bool:
        """Waits until somebody connects; tells whether somebody did."""
        return _is(self._listener, select.POLLIN, seconds)

    def open(self) -> tuple[socket.socket, Endpoints]:
        """See Door."""
        return run(self.opening(CONNECT_SECONDS))

    def opening(self, seconds: float) -> Task[tuple[socket.socket, Endpoints]]:
        """Waits for the next link that is made; one that has waited for us may be given up at any moment.

        Raises:
            NoLink: The node makes none.
        """
        if not self.patient:
            self.drain()
        deadline = time.perf_counter() + max(seconds, PAUSE_SECONDS)
        while True:
            made = self._next()
            if made is not None:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ends = Endpoints(made.getsockname()[:2], made.getpeername()[:2], "tcp", accepted=True)
                return made, ends
            self.call()
            if time.perf_counter() >= deadline:
                raise NoLink(
                    f"the node did not connect to {self.locator} within {max(seconds, PAUSE_SECONDS):g} s"
                )
            yield Wait(self, min(deadline, time.perf_counter() + LOOK_SECONDS))

    def _next(self) -> socket.socket | None:
        """Returns a link that waits to be taken; those that the node gave up are dropped."""
        while True:
            try:
                made, _ = self._listener.accept()
            except BlockingIOError:
                return None
            if not _is(made, GONE, 0):
                return made
            made.close()

    def drain(self) -> int:
        """Drops the links that wait; returns how many lived."""
        count = 0
        while (made := self._next()) is not None:
            made.close()
            count += 1
        return count

    def close(self) -> None:
        """Listens no more."""
        self.drain()
        self._listener.close()
        self.ended = "closed"


def _is(sock: socket.socket, events: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(sock, events)
    return any(seen & events for _, seen in poll.poll(max(0.0, seconds) * 1000))


# States ------------------------------------------------------------------------------------------------


@reach(State.INIT_RECEIVED)
def _init_received(player: Player, pipe: Pipe) -> Task[None]:
    answer = yield from player.expect(pipe, "INIT")
    pipe.facts["init"] = answer.batch
    pipe.sn_mask = mask_of(answer.batch, pipe) or pipe.sn_mask


@reach(State.OPEN_RECEIVED)
def _open_received(player: Player, pipe: Pipe) -> Task[None]:
    pipe.send(init_ack_to(pipe.facts["init"]).fill(pipe))
    yield from player.expect(pipe, "OPEN")


@reach(State.ACCEPTED)
def _accepted(player: Player, pipe: Pipe) -> Task[None]:
    pipe.send(open_ack_to(pipe.facts["init"]).fill(pipe))
    pipe.state = State.ACCEPTED
    # What the node says by itself at the beginning is no answer to a stimulus; what it says last shows that it is done.
    yield from player.fenced(pipe)


@lru_cache(maxsize=64)
def init_ack_to(proposal: bytes) -> Template:
    """Returns an InitAck that takes what an InitSyn proposes.

    Raises:
        NotReached: It is none.
    """
    return template_of(Init(A=1, cookie=COOKIE, **_taken(_read(proposal))))


@lru_cache(maxsize=64)
def open_ack_to(proposal: bytes) -> Template:
    """Returns the OpenAck of a session that an InitSyn has begun.

    Raises:
        NotReached: It is none.
    """
    known = [ext.AuthOpenAck(extensions=[ext.UsrPwd()])] if _shows_user(_read(proposal)) else []
    return first_number(template_of(Open(A=1, T=1, lease=60, initial_sn=0, extensions=known)))


def _read(proposal: bytes) -> Init:
    init = next((message for message in contents(proposal).messages if isinstance(message, Init)), None)
    if init is None or init.errors:
        raise NotReached("the node opens a session with an INIT that cannot be decoded")
    return init


def _shows_user(init: Init) -> bool:
    """Tells whether a node wants to show a user and a password."""
    shown = (one.extensions or [] for one in init.extensions or [] if isinstance(one, ext.AuthInitSyn))
    return any(isinstance(method, ext.UsrPwd) for methods in shown for method in methods)


def _taken(init: Init) -> dict[str, object]:
    offered = [type(extension) for extension in init.extensions or []]
    chain: list[Message] = [cast("Message", kind()) for kind in (ext.QoSOffer,) if kind in offered]
    if _shows_user(init):
        chain.append(ext.AuthInitAck(extensions=[ext.UsrPwdNonce(nonce=NONCE)]))
    if ext.Patch in offered:
        chain.append(ext.Patch(patch=1))
    sizes = {name: getattr(init, name) for name in ("rid", "fsn", "batch_size")} if init.S else {}
    return {"zid": _ZID, "whatami": WhatAmI.ROUTER, "extensions": chain, **sizes}
