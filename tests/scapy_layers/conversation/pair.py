"""Two nodes and the link between them, as a capture shows them; units made by hand."""

from __future__ import annotations

from collections.abc import Sequence

from scapy_layers.codes import Priority
from scapy_layers.conversation import Conversations, Heard, RemarkKind
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareKeyExpr, UndeclareKeyExpr
from scapy_layers.extensions import First, Lane
from scapy_layers.message import Extension, Message
from scapy_layers.network import Declare, Push
from scapy_layers.stream import Batch, Datagram, End, Endpoint, Framing, Gap, Link, plausible
from scapy_layers.transport import Fragment, Frame, Init, Open

ALICE, BOB = b"\xa1\x01", b"\xb2\x02"
A, B = "1a1", "2b2"
"""The same two in text form."""

COOKIE = bytes(49)
FIRST, SECOND = Endpoint("10.0.0.1", 50_000), Endpoint("10.0.0.2", 7447)


class Pair:
    """One link; packets are numbered as they are said, a second apart."""

    def __init__(
        self,
        hearing: Conversations | None = None,
        *,
        number: int = 0,
        tcp: bool = True,
        first: Endpoint = FIRST,
        second: Endpoint = SECOND,
    ) -> None:
        self.hearing = hearing or Conversations()
        self.link = Link(number, tcp, first, second, plausible)
        self.packet = 0
        if tcp:
            for way in self.link.ways:
                way.framing = Framing.SHORT

    def say(self, *messages: Message | bytes, back: bool = False) -> list[Heard]:
        """One batch, from the first endpoint to the second, or back."""
        self.packet += 1
        unit = Batch if self.link.tcp else Datagram
        raw = b"".join(map(bytes, messages))
        return list(self.hearing.hear(unit(self.link.ways[back], self.packet, self.packet * 10**9, raw)))

    def answer(self, *messages: Message | bytes) -> list[Heard]:
        """One batch from the second endpoint to the first."""
        return self.say(*messages, back=True)

    def gap(self, *, back: bool = False) -> None:
        """Bytes of one direction that are not in the capture."""
        self.packet += 1
        assert not list(self.hearing.hear(Gap(self.link.ways[back], self.packet, 0, 100, 0, "lost")))

    def end(self, *, reset: bool = False) -> None:
        """The end of the connection."""
        for way in self.link.ways:
            assert not list(self.hearing.hear(End(way, self.packet, 0, reset)))

    def handshake(
        self,
        *extensions: Extension,
        zids: tuple[bytes, bytes] = (ALICE, BOB),
        sn: tuple[int, int] = (10, 20),
        fsn: int = 2,
    ) -> list[Heard]:
        """INIT and OPEN of both; both name the extensions."""
        first, second = zids
        own = list(extensions)
        return [
            *self.say(Init(whatami=2, zid=first, fsn=fsn, extensions=own)),
            *self.answer(Init(A=1, whatami=0, zid=second, fsn=fsn, cookie=COOKIE, extensions=own)),
            *self.say(Open(T=1, lease=10, initial_sn=sn[0], cookie=COOKIE)),
            *self.answer(Open(A=1, T=0, lease=2500, initial_sn=sn[1])),
        ]


def frame(sn: int, *messages: Message, lane: int | None = None, reliable: bool = True) -> Frame:
    chain = [] if lane is None else [Lane(priority=lane)]
    return Frame(R=int(reliable), sn=sn, extensions=chain, messages=list(messages))


def fragment(
    sn: int, data: bytes, *, more: bool = True, first: bool = False, extra: Sequence[Extension] = ()
) -> Fragment:
    chain = [First()] if first else []
    return Fragment(R=1, M=int(more), sn=sn, extensions=[*chain, *extra], data=data)


def put(key: str = "", data: bytes = b"x", *, scope: int = 0, own: bool = True) -> Push:
    """A PUT; ``own`` when the alias is one of the sender."""
    return Push(M=int(own), N=int(bool(key)), key_scope=scope, key_suffix=key, body=Put(data=data))


def alias(number: int, key: str, scope: int = 0) -> Declare:
    return Declare(body=DeclareKeyExpr(key_id=number, key_scope=scope, key_suffix=key))


def no_alias(number: int) -> Declare:
    return Declare(body=UndeclareKeyExpr(key_id=number))


def kinds(heard: Sequence[Heard]) -> list[RemarkKind]:
    return [remark.kind for one in heard for remark in one.remarks]


def names(heard: Sequence[Heard]) -> list[str]:
    return [str(one.message.name) for one in heard]


DATA = Priority.DATA
