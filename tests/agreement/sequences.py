"""Conversations that nobody holds: sessions begin, change, break off and begin again, in an order that is drawn.

Readers that remember the same say the same of them. Orderly ones begin as sessions do and keep to what they agreed
on, with all else in any order: so does tshark, which believes its ports from the first message on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random

from fuzz.readers.carry import GROUP, HERE, THERE, Connection, Packets, stored_or_packed
from scapy_layers.codes import DEFAULT_PORT, SCOUTING_PORT
from scapy_layers.conversation import identify
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareKeyExpr
from scapy_layers.extensions import (
    Compression,
    Drop,
    First,
    JoinLanes,
    Lane,
    LowLatency,
    MultiLinkInitAck,
    MultiLinkInitSyn,
    Patch,
    QoSOffer,
)
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open
from tests.robustness.inputs import inputs

Said = list[tuple[bool, bytes]]
"""Batches, each with whether it goes forward."""

_ZIDS = b"\x01" * 16, b"\x03" * 16
_ACCEPTOR = b"\x02" * 16
_LEASE, _COOKIE = 10_000, b"c"
_MASK = (1 << 28) - 1
_LENGTHS = 5, 15, 40, 100
_STEPS = *[1] * 15, 0, 2, 3, -1, -2, 100


def capture(seed: int, *, orderly: bool) -> bytes:
    """Returns a capture in pcap with a few connections, pairs and groups that take turns."""
    dice, packets = Random(seed), Packets()
    links = [_link(packets, dice, 40_000 + 10 * number, orderly) for number in range(dice.randrange(1, 4))]
    if orderly:
        for link in links:
            link.begin()
    for _ in range(dice.choice(_LENGTHS)):
        dice.choice(links).go_on()
    for _ in range(3 if not orderly and dice.random() < 0.15 else 0):
        at = dice.randrange(max(1, packets.number - 1))
        if dice.random() < 0.5:
            del packets.frames[at : at + 1]
        else:
            packets.frames[at : at + 2] = packets.frames[at : at + 2][::-1]
    return packets.file()


def _link(packets: Packets, dice: Random, port: int, orderly: bool) -> _Talk:
    kind = dice.randrange(4)
    if kind == 0:
        return _Stream(packets, dice, port, orderly)
    return (_Group if kind == 1 else _Pair)(packets, dice, port, orderly)


class _Talk(ABC):
    """What is said on one link, and what is needed to say it: numbers of the next message, what was agreed."""

    def __init__(self, packets: Packets, dice: Random, port: int, orderly: bool) -> None:
        self.packets, self.dice, self.port, self.orderly = packets, dice, port, orderly
        self.target = DEFAULT_PORT if orderly or dice.random() < 0.8 else 9999
        self.sn = {True: 0, False: 0}
        self.offers: list[Message] = []
        self.agreed = False  # what is offered holds from here on
        self.kinds: Sequence[Callable[[], Said]] = [
            self.frame, self.frame, self.frame, self.frame, self.fragments, self.fragments, self.fragments,
            self.fragments, self.handshake, self.handshake, self.close, self.alive, self.bare, self.noise,
            self.several, self.join, self.mutated, self.scout, self.syn, self.init_ack, self.open_syn, self.open_ack,
        ]  # fmt: skip

    def begin(self) -> None:
        """Says what a session begins with."""
        self.say(self.opening(whole=True))

    def go_on(self) -> None:
        """Says something of any kind."""
        said = self.dice.choice(self.kinds)()
        if self.orderly:
            said = [one for one in said if not _is(one[1], Close)]  # behind which all begins anew
        self.say(said)

    @abstractmethod
    def say(self, said: Said) -> None:
        """Puts it into packets, as was agreed."""

    def opening(self, *, whole: bool) -> Said:
        """Returns a handshake, most often a whole one."""
        dice = self.dice
        self.offers = self._offers()
        # Links of two nodes that begin with the same numbers were begun by both at once, and are one session.
        self.sn = {way: dice.randrange(_MASK) if self.orderly else 0 for way in (True, False)}
        # Several links of the same nodes, whoever connects, may belong to one session. That one of them has ended
        # tshark does not know.
        zids = [dice.choice(_ZIDS), _ACCEPTOR]
        if dice.random() < 0.2:
            zids.reverse()
        linked = not self.orderly and dice.random() < 0.3
        syn, ack = ([MultiLinkInitSyn()], [MultiLinkInitAck()]) if linked else ([], [])
        said = [
            (True, bytes(Init(zid=zids[0], extensions=[*self.offers, *syn]))),
            (False, bytes(Init(A=1, zid=zids[1], cookie=_COOKIE, extensions=[*self.offers, *ack]))),
            (True, bytes(Open(lease=_LEASE, initial_sn=self.sn[True], cookie=_COOKIE))),
            (False, bytes(Open(A=1, lease=_LEASE, initial_sn=self.sn[False]))),
        ]
        while not whole and said and dice.random() < 0.15:
            del said[dice.randrange(len(said))]
        if not whole and dice.random() < 0.1:
            dice.shuffle(said)
        return said

    def _offers(self) -> list[Message]:
        chances = ((QoSOffer(), 0.3), (LowLatency(), 0.25), (Compression(), 0.25), (Patch(patch=1), 0.5))
        return [offer for offer, chance in chances if self.dice.random() < chance]

    def holds(self, offer: type[Message]) -> bool:
        """Tells whether something was agreed on."""
        return self.agreed and any(isinstance(one, offer) for one in self.offers)

    # What can be said -----------------------------------------------------------------------------

    def frame(self) -> Said:
        forward = self._way()
        some = [self._network() for _ in range(self.dice.randrange(1, 3))]
        chain = [Lane(priority=self.dice.randrange(1, 8))] if self.dice.random() < 0.1 else []
        return [
            (
                forward,
                bytes(Frame(R=self._reliable(), sn=self._next(forward), extensions=chain, messages=some)),
            )
        ]

    def fragments(self) -> Said:
        dice, forward, reliable = self.dice, self._way(), self._reliable()
        raw = bytes(self._network())
        if dice.random() < 0.2:
            raw = raw[: dice.randrange(len(raw))]
        cuts = [0, *sorted(dice.randrange(len(raw) + 1) for _ in range(dice.randrange(3))), len(raw)]
        said: Said = []
        for start, end in pairwise(cuts):
            chain: list[Message] = [First()] if (start == 0) != (dice.random() < 0.1) else []
            chain += [Drop()] if dice.random() < 0.04 else []
            more = int(end < len(raw)) if dice.random() < 0.95 else dice.randrange(2)
            piece = Fragment(
                R=reliable, M=more, sn=self._next(forward), extensions=chain, data=raw[start:end]
            )
            said.append((forward, bytes(piece)))
        while said and dice.random() < 0.1:
            del said[dice.randrange(len(said))]
        return said

    def handshake(self) -> Said:
        return self.opening(whole=self.orderly)

    def close(self) -> Said:
        both = self.orderly or self.dice.random() < 0.4
        ways = (True, False) if both else (self._way(),)
        said = [(forward, bytes(Close(S=int(both) or self.dice.randrange(2), reason=0))) for forward in ways]
        if self.orderly:
            self.say(said)
            return self.opening(whole=True)
        return said

    def alive(self) -> Said:
        return [(self._way(), bytes(KeepAlive()))]

    def bare(self) -> Said:
        return [(self._way(), bytes(self._network()))]

    def noise(self) -> Said:
        return [(self._way(), self.dice.randbytes(self.dice.choice((1, 2, 3, 8))))]

    def several(self) -> Said:
        """Returns messages that share a batch."""
        if self.orderly:
            (forward, frame), *_ = self.frame()
            return [(forward, bytes(KeepAlive()) + frame)]
        some = [raw for _ in range(self.dice.randrange(2, 4)) for _, raw in self.dice.choice(self.kinds)()]
        return [(self._way(), b"".join(some))]

    def join(self) -> Said:
        return [(self._way(), bytes(Join(zid=self.dice.choice(_ZIDS))))]

    def mutated(self) -> Said:
        return [(self._way(), raw) for raw in inputs(1, self.dice.randrange(1 << 30))]

    def scout(self) -> Said:
        if self.orderly:
            return []  # what tshark looks for on other ports only
        return [(self._way(), bytes(self.dice.choice((Scout(what=3), Hello(zid=_ZIDS[0], whatami=0)))))]

    def syn(self) -> Said:
        if not self.orderly and self.dice.random() < 0.5:
            self.offers = self._offers()
        return [(self._way(), bytes(Init(zid=self.dice.choice(_ZIDS), extensions=self.offers)))]

    def init_ack(self) -> Said:
        ack = Init(A=1, zid=self.dice.choice(_ZIDS), cookie=_COOKIE, extensions=self.offers)
        return [(not self._way(), bytes(ack))]

    def open_syn(self) -> Said:
        return [(self._way(), bytes(Open(lease=_LEASE, initial_sn=0, cookie=_COOKIE)))]

    def open_ack(self) -> Said:
        return [(not self._way(), bytes(Open(A=1, lease=_LEASE, initial_sn=0)))]

    def _way(self) -> bool:
        return self.dice.random() < 0.75

    def _reliable(self) -> int:
        return int(self.dice.random() < 0.9)

    def _next(self, forward: bool) -> int:
        self.sn[forward] = self.sn[forward] + self.dice.choice(_STEPS) & _MASK
        return self.sn[forward]

    def _network(self) -> Message:
        dice = self.dice
        match dice.randrange(9):
            case 0:
                return Declare(body=DeclareKeyExpr(key_id=dice.randrange(3), key_suffix=dice.choice("ab")))
            case 1:
                return Push(key_scope=dice.randrange(3), key_suffix="/z", body=Put(data=b"q"))
            case _:
                data = dice.choice((b"x", b"hello" * dice.randrange(1, 30)))
                return Push(key_suffix=dice.choice(("a", "a/b")), body=Put(data=data))

    def as_agreed(self, raw: bytes) -> bytes:
        """Returns a batch with the header byte of compression where it was agreed on."""
        if not raw or not self.holds(Compression) or (not self.orderly and self.dice.random() < 0.1):
            return raw
        return b"\0" + raw if self.dice.random() < 0.5 else stored_or_packed(raw)


class _Pair(_Talk):
    """Two nodes over UDP."""

    def say(self, said: Said) -> None:
        for forward, raw in said:
            if _is(raw, Init):
                self.agreed = False
            ends, ports = (
                ((HERE, THERE), (self.port, self.target))
                if forward
                else ((THERE, HERE), (self.target, self.port))
            )
            self.packets.udp(raw if self.holds(LowLatency) else self.as_agreed(raw), ports, ends)
            self.agreed = self.agreed or _is(raw, Open, ack=True)


class _Group(_Talk):
    """Two senders of a multicast group."""

    def __init__(self, packets: Packets, dice: Random, port: int, orderly: bool) -> None:
        super().__init__(packets, dice, port, orderly)
        if orderly:
            never = {self.handshake, self.syn, self.init_ack, self.open_syn, self.open_ack}
            self.kinds = [kind for kind in self.kinds if kind not in never]

    def opening(self, *, whole: bool) -> Said:
        """Returns what each sender says of itself; no offers go with it."""
        self.sn = {True: 0, False: 0}
        lanes = [{"next_sn_re": self.dice.choice((0, 3)), "next_sn_be": 1} for _ in range(8)]
        extensions = [JoinLanes(lanes=lanes)] if self.dice.random() < 0.3 else []
        ends = ((True, _ZIDS[0]), (False, _ACCEPTOR))
        said = [(forward, bytes(Join(zid=zid, extensions=extensions))) for forward, zid in ends]
        if self.orderly:
            return (
                said * 2
            )  # of one alone, what cannot be read behind it makes readers doubt that it is Zenoh
        return said if whole else said[:1]

    def say(self, said: Said) -> None:
        for forward, raw in said:
            port, sender = (self.port, HERE) if forward else (self.port + 1, THERE)
            self.packets.udp(raw, (port, self.target), (sender, GROUP))


class _Stream(_Talk):
    """Two nodes over TCP; the capture may begin inside the connection."""

    def __init__(self, packets: Packets, dice: Random, port: int, orderly: bool) -> None:
        super().__init__(packets, dice, port, orderly)
        self.connection = Connection(packets, port)
        if orderly or dice.random() < 0.5:
            self.connection.connect()
        if orderly:
            # A second handshake needs a second connection.
            self.kinds = [kind for kind in self.kinds if kind != self.handshake]

    def opening(self, *, whole: bool) -> Said:
        if self.orderly and self.agreed:
            self.connection.end()
            self.port += 1
            self.connection = Connection(self.packets, self.port).connect()
            self.agreed = False
        return super().opening(whole=whole)

    def say(self, said: Said) -> None:
        if not self.orderly and self.dice.random() < 0.02:
            self.connection.end()
            self.connection.connect()
            self.agreed = False
        for forward, raw in said:
            opens = not self.agreed or (not self.orderly and (_is(raw, Init) or _is(raw, Open)))
            self.connection.prefix = 4 if self.holds(LowLatency) and not opens else 2
            packed = raw if opens or self.holds(LowLatency) else self.as_agreed(raw)
            self.connection.send(
                len(packed).to_bytes(self.connection.prefix, "little") + packed, forward=forward
            )
            self.agreed = self.agreed or _is(raw, Open, ack=True)


def _is(raw: bytes, kind: type[Message], *, ack: bool = False) -> bool:
    """Tells by its first byte whether a batch begins with a message, and with its answer."""
    wanted = bytes(kind())[0] & 0x1F
    return bool(raw) and raw[0] & 0x1F == wanted and (not ack or bool(raw[0] & 0x20))


_SOCKETS = (HERE, 40_000), (HERE, 40_001), (THERE, 41_000), (THERE, 9000)
_ASKED = (
    (THERE, 9000),
    (GROUP, 9000),
    (GROUP, 9001),
    (bytes([224, 0, 0, 225]), 9000),
    (THERE, 7446),
    (GROUP, 7446),
)
_SCOUTS = (
    "010907", "01093f42434445", "010911", "010900", "610901", "8109014e07756e6b6e6f776e", "01090800", "01090f42",
    "01091f0000", "01090f424344", "010908ff",
)  # fmt: skip
_HELLOS = (
    "0209300102030405", "22093201020304010a7463702f613a37343437", "2209320102030401057463702f61", "2209320102030400",
    "220930010203040103612f20", "82093001020304", "42093001020304", "02093601020304", "02093000000000", "0209ff",
)  # fmt: skip


def scouting(seed: int) -> bytes:
    """Returns a capture in pcap of who asks whom on which port, and who answers; much of it is odd."""
    dice, packets = Random(seed), Packets()
    for _ in range(40):
        source = dice.choice(_SOCKETS)
        if dice.random() < 0.5:
            raw, target = dice.choice(_SCOUTS), dice.choice(_ASKED)
        else:
            raw, target = dice.choice(_HELLOS), dice.choice((*_SOCKETS, *_ASKED[1:2]))
        said = bytes.fromhex(raw)
        refused = identify.scout(said) is None and identify.hello(said) is None
        # What is refused there tshark shows by the port alone.
        if source != target and not (refused and target[1] == SCOUTING_PORT):
            packets.udp(said, (source[1], target[1]), (source[0], target[0]))
    return packets.file()


def captures(count: int, seed: int, *, orderly: bool) -> Iterator[tuple[str, bytes]]:
    """Yields so many captures with names; of orderly ones every fourth is of scouting."""
    for number in range(count):
        made = seed * 1_000_003 + number
        if orderly and number % 4 == 3:
            yield f"scouting_{made}.pcap", scouting(made)
            continue
        yield f"{'orderly' if orderly else 'any'}_{made}.pcap", capture(made, orderly=orderly)
