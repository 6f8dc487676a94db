"""Datagrams: where a node hears SCOUT, where one that looks for others takes HELLO, and a multicast group.

Nothing ends there, so that a node is asked by what must come of a correct datagram behind the stimulus: HELLO to
another port of ours, a link to a listener of ours, a publication that reaches a subscriber of ours.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from functools import lru_cache

from conformance.config import Locator
from conformance.observe import Endpoints
from conformance.tester import fresh_zid
from fuzz.player.accepting import LOOPBACK
from fuzz.player.doorbell import Doorbell
from fuzz.player.doors import Door, NoLink
from fuzz.player.pipe import FIRST_SN, LEAVE, Pipe
from fuzz.player.player import FRAME_BE, Ending, NotReached, Played, Player, reach, settling, template_of
from fuzz.player.sessions import frame, helper
from fuzz.player.tasks import Task, Wait, Waited
from fuzz.script import Template
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.batch import contents
from scapy_layers.codes import Kind, What, WhatAmI
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareSubscriber
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Join

LOST = 0.02
"""Seconds after which a datagram that should have been answered is sent again: one may be lost in a flood."""

LARGEST = 65_507
"""Bytes of a datagram over IPv4."""

IMPATIENT = 0.3
"""Share of T1 that is waited behind a stimulus to a group: what is dead there answers nothing, and the next link that
is brought into the group is waited for until T1."""

TTL = 1

IP_MULTICAST_ALL = 49
"""Linux; the module socket does not know it."""

_ZID = b"\xf6\xe7\x5bzid of a link"


class Speaker(Door):
    """Sends datagrams to one address on loopback, from a port of its own.

    Args:
        where: Group or address, IPv4.
    """

    def __init__(self, where: Locator) -> None:
        self.where = where
        self.peer: tuple[str, int] = (where.host, where.port)

    def open(self) -> tuple[socket.socket, Endpoints]:
        """See Door."""
        try:
            made = speaking(self.where)
        except OSError as error:
            raise NoLink(f"cannot send datagrams to {self.where} ({error.strerror or error})") from None
        return made, Endpoints(made.getsockname()[:2], self.peer, "udp")


def _interface(where: Locator) -> int:
    return socket.if_nametoindex(where.config.get("iface", "lo"))


def speaking(where: Locator) -> socket.socket:
    """Returns a socket from which a group or an address on loopback is spoken to.

    Raises:
        OSError: The system does not let us.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        if where.group:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, TTL)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            wanted = struct.pack("=4s4si", b"", b"", _interface(where))
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, wanted)
        if where.config.get("iface", "lo") == "lo":
            made.bind((LOOPBACK, 0))
    except OSError:
        made.close()
        raise
    return made


class Ear:
    """Hears what is said in a group, without a word.

    Attributes:
        ended: How it ended; empty while it hears.
    """

    def __init__(self, where: Locator) -> None:
        self.ended = ""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((where.host, where.port))
            self._socket.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
            wanted = struct.pack("=4s4si", socket.inet_aton(where.host), b"", _interface(where))
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, wanted)
            self._socket.setblocking(False)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """The file descriptor."""
        return self._socket.fileno()

    def wait(self, seconds: float) -> bool:
        """Waits until something is said; tells whether something was."""
        self._socket.settimeout(max(seconds, 0.0))
        try:
            return bool(self._socket.recvfrom(1, socket.MSG_PEEK))
        except (TimeoutError, BlockingIOError):
            return False
        finally:
            self._socket.setblocking(False)

    def heard(self) -> tuple[bytes, tuple[str, int]] | None:
        """Returns the next datagram and where it came from; None when there is none."""
        try:
            return self._socket.recvfrom(LARGEST)
        except BlockingIOError:
            return None

    def drain(self) -> None:
        """Forgets what was said."""
        while self.heard() is not None:
            pass

    def close(self) -> None:
        """Hears no more."""
        self.ended = "closed"
        self._socket.close()


class Overheard:
    """What a node said first in a group, and from where.

    Args:
        where: The group.
        cls: Kind of message.
    """

    def __init__(self, where: Locator, cls: type[Message]) -> None:
        self._ear = Ear(where)
        self._cls = cls
        self._found: tuple[bytes, tuple[str, int]] | None = None

    def first(self, seconds: float) -> Task[tuple[bytes, tuple[str, int]]]:
        """Waits for the first such message that can be read; returns the datagram and its sender.

        Raises:
            NoLink: None comes.
        """
        deadline = time.perf_counter() + seconds
        while self._found is None:
            while self._found is None and (one := self._ear.heard()) is not None:
                kind = Kind.SCOUTING if self._cls.kind is Kind.SCOUTING else None
                messages = contents(one[0], kind).messages
                if any(isinstance(message, self._cls) and not message.errors for message in messages):
                    self._found = one
            if self._found is None:
                if time.perf_counter() >= deadline:
                    raise NoLink(
                        f"the node sent no {self._cls.shape().name} to its group within {seconds:g} s"
                    )
                yield Wait(self._ear, deadline)
        return self._found

    def forget(self) -> None:
        """The node that said it is gone."""
        self._found = None
        self._ear.drain()

    def close(self) -> None:
        """Hears no more."""
        self._ear.close()


def _asking(
    seconds: float, ask: Callable[[], object], there: Callable[[], bool], beside: Waited
) -> Task[int]:
    """Asks until the answer is there or time has passed; returns how often it took, 0 when none came.

    Args:
        seconds: How long.
        ask: Sends a correct datagram.
        there: Tells whether its answer came; takes in what there is.
        beside: What is to be waited for.
    """
    end = time.perf_counter() + seconds
    pause = LOST
    times = 0
    while True:
        ask()
        times += 1
        deadline = min(end, time.perf_counter() + pause)
        while True:
            if there():
                return times
            if time.perf_counter() >= deadline:
                break
            yield Wait(beside, deadline)
        if time.perf_counter() >= end:
            return 0
        pause *= 2


def _conclude(pipe: Pipe, played: Played, *, answered: bool) -> None:
    pipe.receive()
    played.answers += pipe.take()
    played.ending = Ending.ACCEPTED if answered else Ending.SILENT


# Where SCOUT is heard -------------------------------------------------------------------------------------

SCOUT = bytes(Scout(what=What.ROUTER | What.PEER | What.CLIENT))

ASKER = "asker"


def _asker(player: Player) -> Task[Pipe]:
    """Returns the port to which the answers of pings go; those to a stimulus go to the link itself."""
    pipe = player.helpers.get(ASKER)
    if pipe is None:
        pipe = player.helpers[ASKER] = yield from player.linking(player.door)
        pipe.facts["scouting"] = True
    return pipe


@reach(State.SCOUTING)
def _scouting(player: Player, pipe: Pipe) -> Task[None]:
    pipe.facts["scouting"] = True
    answered = yield from _pinged(player)
    if not answered:
        raise NotReached("the node does not answer SCOUT")


def _pinged(player: Player) -> Task[bool]:
    asker = yield from _asker(player)
    asker.receive()
    asker.take()

    def there() -> bool:
        asker.receive()
        return bool(asker.take())

    times = yield from _asking(player.reply, lambda: asker.send(SCOUT, "ping"), there, asker)
    if times != 1:
        # An answer that comes late must not be taken for that of the next ping.
        player.helpers.pop(ASKER).close()
    return times > 0


@settling(State.SCOUTING)
def _settle_scouting(player: Player, pipe: Pipe, played: Played) -> Task[None]:
    answered = yield from _pinged(player)
    _conclude(pipe, played, answered=answered)


# Where HELLO is heard -------------------------------------------------------------------------------------


class Seeker(Speaker):
    """Sends datagrams to the port from which a node looks for others.

    Args:
        where: The group in which it asks.
        scout: What it said there.
        bell: Rings when it comes.

    Attributes:
        bell: Where a node comes to that follows a HELLO of ours.
        scouted: The node answers SCOUT at that port too, and did so before it followed.
    """

    def __init__(self, where: Locator, scout: Overheard, bell: Doorbell) -> None:
        super().__init__(where)
        self.bell = bell
        self.scouted = False
        self._scout = scout

    def opening(self, seconds: float) -> Task[tuple[socket.socket, Endpoints]]:
        """Waits for the first SCOUT of the node.

        Raises:
            NoLink: None comes.
        """
        _, self.peer = yield from self._scout.first(seconds)
        return self.open()


def _seeker(player: Player) -> Seeker:
    door = player.door
    if not isinstance(door, Seeker):
        raise NotReached("it is unknown from where the node scouts")
    return door


@reach(State.SEEKING)
def _seeking(player: Player, pipe: Pipe) -> Task[None]:
    pipe.facts["scouting"] = True
    answered = yield from _followed(player)
    if not answered:
        raise NotReached("the node does not act on HELLO")


@lru_cache(maxsize=64)
def _hello_at(locator: str) -> tuple[bytes, bytes]:
    """Returns what stands before and behind the ZenohID, of 16 bytes, in a HELLO with a locator."""
    mark = b"\xf6zid of a HELLO\xf6"
    head, _, tail = bytes(Hello(zid=mark, whatami=WhatAmI.PEER, locators=[locator])).partition(mark)
    return head, tail


def _followed(player: Player) -> Task[bool]:
    """Sends HELLO and SCOUT to the port; tells whether one of them led to something.

    A node need not follow every HELLO, and need not hear SCOUT where it asks.
    """
    door = _seeker(player)
    asker = yield from _asker(player)
    asker.receive()
    asker.take()
    door.bell.drain()
    # As of somebody whom the node has not seen yet.
    head, tail = _hello_at(str(door.bell.locator))
    hello = head + fresh_zid(player.rng) + tail

    def ask() -> None:
        asker.send(hello, "ping")
        asker.send(SCOUT, "ping")

    def there() -> bool:
        asker.receive()
        door.scouted = bool(asker.take())
        return door.scouted or door.bell.drain() > 0

    times = yield from _asking(player.reply, ask, there, asker if door.scouted else door.bell)
    if times != 1:
        player.helpers.pop(ASKER).close()
    return times > 0


@settling(State.SEEKING)
def _settle_seeking(player: Player, pipe: Pipe, played: Played) -> Task[None]:
    answered = yield from _followed(player)
    _conclude(pipe, played, answered=answered)


# A group ----------------------------------------------------------------------------------------------------


class Company(Speaker):
    """Sends datagrams to a multicast group in which a node is.

    Args:
        where: The group.
        unicast: Where the node takes sessions: a subscriber of ours hears there what came through the group.
        join: What it said there.
    """

    def __init__(self, where: Locator, unicast: Door, join: Overheard) -> None:
        super().__init__(where)
        self.unicast = unicast
        self._said = join
        self._join: Template | None = None

    def opening(self, seconds: float) -> Task[tuple[socket.socket, Endpoints]]:
        """Waits for the first JOIN of the node: ours has to announce the same.

        Raises:
            NoLink: None comes.
        """
        said, _ = yield from self._said.first(seconds)
        self._join = join_like(said)
        return self.open()

    @property
    def join(self) -> Template:
        """The JOIN that the node takes."""
        assert self._join is not None
        return self._join


@lru_cache(maxsize=64)
def join_like(theirs: bytes) -> Template:
    """Returns a JOIN that announces what another one does, with numbers and ZenohID of ours."""
    said = next(message for message in contents(theirs).messages if isinstance(message, Join))
    chain = said.extensions or []
    offered: list[Message] = []
    if any(isinstance(one, ext.JoinLanes) for one in chain):
        offered.append(ext.JoinLanes(lanes=[{"next_sn_re": FIRST_SN, "next_sn_be": FIRST_SN}] * 8))
    if any(isinstance(one, ext.Patch) for one in chain):
        offered.append(ext.Patch(patch=1))
    sizes = {name: getattr(said, name) for name in ("rid", "fsn", "batch_size")} if said.S else {}
    made = Join(
        T=1,
        zid=_ZID,
        lease=LEASE_SECONDS,
        next_sn_re=FIRST_SN,
        next_sn_be=FIRST_SN,
        extensions=offered,
        **sizes,
    )
    return template_of(made, "")


LEASE_SECONDS = 10
"""Of members: they leave with CLOSE; one that could not is forgotten before the table of members is full."""

REJOIN_SECONDS = 2.0

JOIN_TRIES = 3
"""A datagram may be lost: so often we join before the node is said to take nothing from us."""

GUIDE, HEARER = "guide", "hearer"

OURS, GUIDES = b"of the link", b"of the guide"
"""What a control value holds, by its sender."""


def _company(player: Player) -> Company:
    door = player.door
    if not isinstance(door, Company):
        raise NotReached("no group of the node is known")
    return door


def _hearer(player: Player, door: Company) -> Task[Pipe]:
    """Returns the session that hears what comes through the group."""
    pipe, new = yield from helper(player, HEARER, door.unicast)
    if new:
        pipe.facts["key"] = f"@fuzz/{pipe.zid.hex()}"
        said = Declare(body=DeclareSubscriber(entity_id=1, key_suffix=pipe.facts["key"]))
        pipe.send(frame(said).fill(pipe), "hearer")
        yield from player.fenced(pipe)
    return pipe


ROUNDS = 200
"""Control values of so many rounds differ: one that comes late is not taken for that of the next."""


@lru_cache(maxsize=20 * ROUNDS)
def _control(key: str, data: bytes) -> Template:
    return Template.of(
        FRAME_BE, "sn_be", bytes(Push(key_suffix=key, extensions=[ext.QoS(D=1)], body=Put(data=data)))
    )


def _member(pipe: Pipe, door: Company) -> None:
    pipe.facts["joined"] = time.monotonic()
    pipe.send(door.join.fill(pipe), "JOIN")
    pipe.farewell = LEAVE


def _guided(player: Player, pipe: Pipe | None = None, share: float = 1.0) -> Task[tuple[bool, bool]]:
    """Sends control values of the guide, and in front of them of a link.

    Args:
        player: Keeps the guide.
        pipe: The link; None for the guide alone.
        share: Of T1: how long to wait.

    Returns:
        Whether the guide's came, and whether the link's came before it.
    """
    door = _company(player)
    hearer = yield from _hearer(player, door)
    guide = player.helpers.get(GUIDE)
    if guide is None:
        guide = player.helpers[GUIDE] = yield from player.linking(door)
        _member(guide, door)
    elif time.monotonic() - guide.facts["joined"] > REJOIN_SECONDS:
        _member(guide, door)
    ours = False
    key = hearer.facts["key"]
    turn = hearer.facts["round"] = (hearer.facts.get("round", 0) + 1) % ROUNDS
    by_link, by_guide = b"%s %03d" % (OURS, turn), b"%s %03d" % (GUIDES, turn)

    def ask() -> None:
        if pipe is not None:
            pipe.send(_control(key, by_link).fill(pipe), "fence")
        guide.send(_control(key, by_guide).fill(guide), "fence")

    def there() -> bool:
        nonlocal ours
        hearer.receive()
        came = b"".join(answer.batch for answer in hearer.take())
        ours |= by_link in came
        return by_guide in came or bool(hearer.ended)

    times = yield from _asking(player.reply * share, ask, there, hearer)
    answered = times > 0 and not hearer.ended
    if not answered:
        for name in (GUIDE, HEARER):
            player.helpers.pop(name).close()
    return answered, ours


@reach(State.GROUP)
def _group(player: Player, pipe: Pipe) -> Task[None]:
    # A stimulus may be a JOIN; members that do not leave would fill the node's table.
    pipe.farewell = LEAVE
    if GUIDE not in player.helpers:
        answered, _ = yield from _guided(player)
        if not answered:
            raise NotReached("nothing sent to the group reaches a subscriber of the node")


@reach(State.JOINED)
def _joined(player: Player, pipe: Pipe) -> Task[None]:
    door = _company(player)
    for _ in range(JOIN_TRIES):
        _member(pipe, door)
        answered, ours = yield from _guided(player, pipe)
        if ours:
            return
        if not answered:
            break
    raise NotReached("the node accepts nothing from the fuzzer after its JOIN")


@settling(State.GROUP)
def _settle_group(player: Player, pipe: Pipe, played: Played) -> Task[None]:
    answered, _ = yield from _guided(player, share=IMPATIENT)
    _conclude(pipe, played, answered=answered)


@settling(State.JOINED)
def _settle_joined(player: Player, pipe: Pipe, played: Played) -> Task[None]:
    answered, ours = yield from _guided(player, pipe, IMPATIENT)
    _conclude(pipe, played, answered=answered)
    if answered and not ours:
        # It takes nothing from us any more, for whatever the stimulus said; the others still are members.
        played.ending = Ending.REFUSED
        pipe.drop("no longer a member")
