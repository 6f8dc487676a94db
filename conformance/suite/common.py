"""Exchanges that several tests share, and the words for what came of them.

Keys in these words are relative to a base that a test has for itself, so that they do not change from
run to run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from conformance.errors import NotApplicable, Unmet
from conformance.expect import check
from conformance.tester import Bend, End, SessionEnd, Tester
from scapy_layers.codes import InterestMode, WhatAmI
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import QoS
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open

PAUSE_SECONDS = 0.01
"""Between two attempts at something that a node will grant when it has tidied up."""

UNKNOWN_ID = 0xE
"""An extension id that no message defines."""

UNKNOWN: dict[str, dict[str, Any]] = {
    "unit": {"ENC": 0},
    "z64": {"ENC": 1, "z64": 300},
    "zbuf": {"ENC": 2, "data": b"unknown"},
}
"""Fields of an extension that nobody knows, in each encoding."""


def unknown(enc: str = "unit", *, mandatory: bool = False) -> UnknownExtension:
    """Returns an extension that nobody knows."""
    return UnknownExtension(ext_id=UNKNOWN_ID, M=int(mandatory), **UNKNOWN[enc])


# The handshake, message by message -------------------------------------------------------------------


def greet(tester: Tester, **fields: Any) -> tuple[End, Init]:
    """Sends a correct InitSyn on a new link and returns the link and the InitAck."""
    link = tester.link()
    link.send(tester.init(**fields))
    answer: Init = link.expect(Init, A=1)
    return link, answer


def goes_on(link: End, ack: Init) -> None:
    """Judges that the handshake goes on behind an InitAck to its end."""
    link.send(Open(cookie=ack.cookie))
    link.expect(Open, A=1)


def accept(tester: Tester, **fields: Any) -> tuple[End, Open]:
    """Sends a correct InitSyn and an OpenSyn with these fields; returns the link and the OpenAck."""
    link, answer = greet(tester)
    link.send(Open(**{"cookie": answer.cookie, **fields}))
    opened: Open = link.expect(Open, A=1)
    return link, opened


def not_taken(link: End, unless: type[Message] = Init) -> None:
    """Judges that the node ends the link, with or without CLOSE, and does not go on with the handshake."""
    link.expect_end()
    names = [seen.message.name for seen in link.inbox if isinstance(seen.message, unless)]
    check(not names, f"the link ends without {unless.shape().name}", ", ".join(map(str, names)))


def bits(message: Message, byte: int, mask: int) -> int:
    """Returns some bits of a received message as it was on the wire."""
    raw: bytes = message.original
    return raw[byte] & mask


# Times -----------------------------------------------------------------------------------------------


def silent(message: Message) -> Message | None:
    """A bend: no KEEP_ALIVE leaves."""
    return None if isinstance(message, KeepAlive) else message


def announcing(**lease: int) -> Bend:
    """A bend: OPEN announces another lease than the one that our own machine holds to."""

    def bend(message: Message) -> Message:
        if isinstance(message, Open):
            for name, value in {"T": 0, **lease}.items():
                setattr(message, name, value)
        return message

    return bend


def lifetime(tester: Tester, end: End, *, within: float) -> float | None:
    """Waits for the end of a link; returns seconds from the last batch we sent to it, or to CLOSE."""
    end.wait(lambda: end.link.ended is not None, within)
    seen = [item for item in tester.history.observations if item.link == end.link.name]
    sent = [item.time_ns for item in seen if item.direction == "sent" and item.batch]
    stamps = [item.time_ns for item in end.inbox if isinstance(item.message, Close)]
    stamps += [item.time_ns for item in seen if item.direction == "ended"]
    return (stamps[0] - sent[-1]) / 1e9 if stamps else None


def check_lifetime(seconds: float | None, lease: float, slack: float) -> None:
    """Judges that a silent link ended when its lease was over."""
    # A timer that starts when the last message arrives cannot fire before; 2 ms are for clocks.
    words = f"the end of the silent link after {lease:g} s"
    if seconds is None:
        raise Unmet(words, "the link lives on")
    check(seconds >= lease - 0.002, words, "an early end", f"{seconds:.3f} s")
    check(seconds <= lease + slack, words, "a late end", f"{seconds:.3f} s")


# Messages in FRAMEs made by hand -------------------------------------------------------------------


def frame(end: SessionEnd, *messages: Message, **fields: Any) -> Frame:
    """Returns a FRAME with the next number of its channel; fields given win."""
    reliable = bool(fields.get("R", 1))
    sn = fields["sn"] if "sn" in fields else end.session.take_sn(reliable=reliable)
    return Frame(**{"R": 1, **fields, "sn": sn, "messages": list(messages)})


def carriers(end: SessionEnd) -> list[Frame | Fragment]:
    """Returns the FRAMEs and FRAGMENTs that an end got, in order."""
    return [seen.message for seen in end.inbox if isinstance(seen.message, Frame | Fragment)]


def fragments_of(end: SessionEnd, message: Message) -> list[Fragment]:
    """Returns the FRAGMENTs in which an end got a message; none if it came in a FRAME.

    A node may cut what would fit a FRAME as well (reading R-61): others of its FRAGMENTs tell nothing of this message.
    """
    parts: list[Fragment] = []
    for seen in end.inbox:
        if isinstance(seen.message, Fragment):
            parts.append(seen.message)
        elif isinstance(seen.carrier, Fragment):
            if seen.message is message:
                return parts
            parts = []
    return []


def count_up_to(end: SessionEnd, largest: int) -> SessionEnd:
    """Makes 0 follow a number of ours in a session that has not come to it yet."""
    end.session.policy.following_sn = lambda sn, resolution: 0 if sn == largest else sn + 1  # type: ignore[method-assign]  # noqa: ARG005
    return end


def settle(end: SessionEnd) -> bool:
    """Waits until the node has handled all we sent, or has ended the link; tells whether the link lives.

    For stimuli after which the text leaves open whether the link ends.

    Raises:
        Unmet: Neither happens.
    """
    try:
        end.fence()
    except Unmet:
        if end.link.ended is None and end.closed is None:
            raise
    return end.link.ended is None and end.closed is None


def leave(end: SessionEnd) -> None:
    """Sends CLOSE and waits until the node has ended the link."""
    end.session.close()
    end.flush()
    end.expect_end()


def patiently(tester: Tester, **config: Any) -> SessionEnd:
    """Opens a session with a node that may still be busy with the end of the last one.

    Raises:
        Unmet: The node refuses for all of T1.
    """
    deadline = time.monotonic() + tester.reply
    while True:
        try:
            return tester.session(**config)
        except Unmet:
            if time.monotonic() > deadline:
                raise
            tester.links.wait(lambda: False, PAUSE_SECONDS)


def routes(end: SessionEnd) -> SessionEnd:
    """Returns a session with a router.

    Raises:
        NotApplicable: The node is none, so it need not carry data between sessions of ours.
    """
    peer = end.session.peer
    if peer is None or peer.whatami != WhatAmI.ROUTER:
        raise NotApplicable("only a router has to carry messages between sessions of ours")
    return end


# Publications ----------------------------------------------------------------------------------------


def undropped(**fields: Any) -> Push:
    """Returns a PUSH that is not sent yet, of a value that a node may not drop, however busy it is.

    Args:
        fields: Of PUSH. Other extensions take the place of QoS with D=1; the body is a PUT of ``1`` unless given.
    """
    return Push(**{"body": Put(data=b"1"), "extensions": [QoS(D=1)], **fields})


def question(**fields: Any) -> Request:
    """Returns a REQUEST that is not sent yet, of a query that a node may not drop, nor what answers it.

    Args:
        fields: Of REQUEST. Other extensions take the place of QoS with D=1; the body is a QUERY unless given.
    """
    return Request(**{"body": Query(), "extensions": [QoS(D=1)], **fields})


@dataclass
class Pair:
    """A session that subscribes to everything below a base, and one that publishes there.

    Attributes:
        sub: Subscribes to ``base/**``.
        pub: Publishes.
        base: Key of this test.
    """

    tester: Tester
    sub: SessionEnd
    pub: SessionEnd
    base: str

    def at(self, key: str) -> str:
        """Returns a full key."""
        return f"{self.base}/{key}"

    def put(self, key: str, data: bytes = b"", **fields: Any) -> None:
        """Publishes a value."""
        self.pub.put(self.at(key), data, **fields)

    def push(self, key: str = "a", **fields: Any) -> Push:
        """Returns a PUSH that is not sent yet; it may not be dropped, unless other extensions are given."""
        return undropped(**{"key_suffix": self.at(key), **fields})

    def words(self, push: Push) -> str:
        """Returns what a PUSH says: ``PUT a=1``."""
        return describe(self.sub, push, self.base)

    def delivered(self) -> list[Push]:
        """Returns what the subscriber gets before a control value that is published after it."""
        publisher = self.pub if settle(self.pub) else self.tester.session()
        control = self.at(f"control/{self.tester.word()}")
        publisher.put(control)
        came = self.sub.until(Push, key=control)
        return [message for message in came if isinstance(message, Push)]

    def expect(self, *wanted: str) -> list[Push]:
        """Judges what the subscriber got, in words, before a control value: ``PUT a=1``, ``DEL b``."""
        came = self.delivered()
        seen = [self.words(push) for push in came]
        check(seen == list(wanted), listed(wanted), listed(seen))
        return came


def pair(tester: Tester, *, subscriber: dict[str, Any] | None = None, **publisher: Any) -> Pair:
    """Opens a subscribing and a publishing session.

    Args:
        tester: Makes them.
        subscriber: Arguments of the subscribing session.
        publisher: Arguments of the publishing one.

    Raises:
        NotApplicable: The node is no router.
    """
    base = f"harness/{tester.word()}"
    sub = routes(tester.session(**(subscriber or {})))
    sub.declare_subscriber(f"{base}/**")
    return Pair(tester, sub, tester.session(**publisher), base)


def listed(words: list[str] | tuple[str, ...]) -> str:
    """Joins words; none are "nothing"."""
    return ", ".join(words) or "nothing"


def describe(end: SessionEnd, message: Message, base: str) -> str:
    """Returns what a PUSH, REQUEST or RESPONSE says, its key relative to a base: ``PUT a=1``."""
    body = message.body
    if isinstance(body, Reply):
        body = body.body
    key = end.key(message).removeprefix(base).removeprefix("/")
    match body:
        case Put():
            data = bytes(body.data)
            value = data.decode() if data.isascii() and len(data) <= 20 else f"{len(data)} bytes"
            return f"PUT {key}={value}"
        case Del():
            return f"DEL {key}"
        case Err():
            return f"ERR {bytes(body.data).decode(errors='replace')}"
        case Query():
            return f"QUERY {key}"
        case _:
            return f"{message.name} without a body"


# Queries ---------------------------------------------------------------------------------------------


@dataclass
class Inquiry:
    """A session that asks, and sessions that have a queryable on everything below a base.

    Attributes:
        asker: Asks.
        answerers: Each has a queryable.
        base: Key of this test.
    """

    tester: Tester
    asker: SessionEnd
    answerers: list[SessionEnd]
    base: str

    @property
    def answerer(self) -> SessionEnd:
        """The first queryable's session."""
        return self.answerers[0]

    def at(self, key: str) -> str:
        """Returns a full key."""
        return f"{self.base}/{key}"

    def request(self, key: str = "a", **fields: Any) -> Request:
        """Returns a REQUEST that is not sent yet, with an id of its own; nothing of it may be dropped."""
        number = fields.pop("request_id", None)
        number = self.asker.next_id() if number is None else number
        return question(**{"request_id": number, "key_suffix": self.at(key), **fields})

    def ask(self, key: str = "a", **fields: Any) -> int:
        """Sends a REQUEST and returns its id."""
        request = self.request(key, **fields)
        self.asker.post(request)
        number: int = request.request_id
        return number

    def asked(self, key: str = "a", **fields: Any) -> tuple[int, Request]:
        """Sends a REQUEST; returns its id and the REQUEST that the first queryable gets."""
        number = self.ask(key, **fields)
        return number, self.answerer.expect(Request)

    def reply(self, request: Request, *bodies: Message, key: str = "a", **fields: Any) -> None:
        """Answers from the first queryable; a PUT or DEL is wrapped in REPLY."""
        for body in bodies:
            whole = Reply(body=body) if isinstance(body, Put | Del) else body
            said = {"request_id": request.request_id, "key_suffix": self.at(key), "body": whole}
            self.answerer.post(Response(**{**said, **fields}))

    def finish(self, request: Request, answerer: SessionEnd | None = None, **fields: Any) -> None:
        """Says from a queryable, the first if none is named, that no more replies come."""
        (answerer or self.answerer).post(ResponseFinal(request_id=request.request_id, **fields))

    def answers(self, number: int) -> list[Response]:
        """Returns the replies to a REQUEST that come before its RESPONSE_FINAL."""
        came = self.asker.until(ResponseFinal, request_id=number)
        return [message for message in came if isinstance(message, Response) and message.request_id == number]

    def expect(self, number: int, *wanted: str) -> list[Response]:
        """Judges the replies to a REQUEST, in words, up to its RESPONSE_FINAL."""
        came = self.answers(number)
        seen = [describe(self.asker, message, self.base) for message in came]
        check(seen == list(wanted), listed(wanted), listed(seen))
        return came


def inquiry(tester: Tester, queryables: int = 1, *, complete: bool = False, **answerer: Any) -> Inquiry:
    """Opens a session that asks and some with a queryable.

    Raises:
        NotApplicable: The node is no router.
    """
    base = f"harness/{tester.word()}"
    asker = routes(tester.session())
    answerers = [tester.session(**answerer) for _ in range(queryables)]
    for end in answerers:
        end.declare_queryable(f"{base}/**", complete=complete)
    return Inquiry(tester, asker, answerers, base)


# Declarations ------------------------------------------------------------------------------------------

DECLARATIONS: dict[str, tuple[type[Message], type[Message]]] = {
    "subscribers": (DeclareSubscriber, UndeclareSubscriber),
    "queryables": (DeclareQueryable, UndeclareQueryable),
    "tokens": (DeclareToken, UndeclareToken),
}
"""What INTEREST asks for, and the bodies that tell of it."""

ALL_KINDS = {"subscribers": 1, "queryables": 1, "tokens": 1}


@dataclass
class Watcher:
    """A session that is told of declarations below a base.

    Attributes:
        end: The session.
        base: Key of this test.
        interest_id: Of the interest that was asked last.
    """

    end: SessionEnd
    base: str
    interest_id: int = 0
    _known: dict[tuple[str, int], str] = field(default_factory=dict)

    def at(self, key: str) -> str:
        """Returns a full key."""
        return f"{self.base}/{key}"

    def ask(self, mode: int = InterestMode.CURRENT_FUTURE, **fields: Any) -> int:
        """Sends an INTEREST in what is below the base, of all kinds unless some are named; returns its id.

        What a router has told before is no answer to it: it may tell all sessions unasked, at once (reading R-40).
        """
        self.told()
        kinds = {} if fields.keys() & {*ALL_KINDS, "keyexprs"} else ALL_KINDS
        fields = {**kinds, "interest_id": self.end.next_id(), "key_suffix": self.at("**"), **fields}
        self.interest_id = fields["interest_id"]
        self.end.post(Interest(**{"mode": mode, "restricted": 1, **fields}))
        return self.interest_id

    def words(self, declare: Declare) -> str:
        """Returns what a DECLARE says: ``D_SUBSCRIBER a``; what is undeclared has the key it was declared with."""
        body = declare.body
        name = str(body.name)
        if isinstance(body, DeclareSubscriber | DeclareQueryable | DeclareToken):
            key = self.end.key(body).removeprefix(self.base).removeprefix("/")
            self._known[name[2:], body.entity_id] = key
            return f"{name} {key}"
        if isinstance(body, UndeclareSubscriber | UndeclareQueryable | UndeclareToken):
            return f"{name} {self._known.get((name[2:], body.entity_id), 'of something unknown')}"
        return name

    def told(self, fence: Callable[[], object] | None = None) -> list[str]:
        """Returns all that the node tells before a fence is answered, in words."""
        came = self.end.collect(Declare, until=fence or self.end.fence)
        return [self.words(declare) for declare in came if not is_about_aliases(declare.body)]

    def expect(self, *wanted: str, fence: Callable[[], object] | None = None) -> None:
        """Judges all that the node tells before a fence is answered, whatever the order."""
        seen = sorted(self.told(fence))
        check(seen == sorted(wanted), listed(sorted(wanted)), listed(seen))

    def expect_nothing(self, tester: Tester, other: SessionEnd, kind: str) -> None:
        """Judges that the node tells nothing that was not asked for.

        Args:
            tester: Makes one more session if it does.
            other: A session that declares.
            kind: What it declares.

        Raises:
            NotApplicable: The node tells who asked for one thing of everything, as Routing wants it (reading R-40).
        """
        try:
            self.expect()
        except Unmet:
            bystander = Watcher(tester.session(), f"{self.base}-apart")
            bystander.ask(InterestMode.CURRENT)
            bystander.told()
            declare(other, kind, f"{self.base}-elsewhere")
            if bystander.told():
                raise NotApplicable(
                    "the node tells every session of everything, whatever it asks for"
                ) from None
            raise

    def snapshot(self) -> list[Declare]:
        """Returns the DECLAREs that come before D_FINAL of the last interest.

        Raises:
            Unmet: No D_FINAL comes.
        """
        came = self.end.until(Declare, body=FINAL, interest_id=self.interest_id)
        declares = [message for message in came if isinstance(message, Declare)]
        return [declare for declare in declares if not is_about_aliases(declare.body)]

    def picture(self, said: Iterable[Declare]) -> set[str]:
        """Returns what is declared when all of that was said: kind and key, ``SUBSCRIBER a``.

        An id is taken back, not a key: two ids may stand for one key, in whatever order they come and go.
        """
        there: dict[tuple[str, int], str] = {}
        for declare in said:
            what, _, key = self.words(declare).partition(" ")
            if what == "D_FINAL" or is_about_aliases(declare.body):
                continue
            named = what[2:], int(declare.body.entity_id)
            if what.startswith("U_"):
                there.pop(named, None)
            else:
                there[named] = f"{what[2:]} {key}"
        return set(there.values())

    def until(self, wanted: str, *, within: float | None = None) -> list[str]:
        """Waits for one thing to be told; returns what was told before it."""
        said: list[str] = []

        def hit(body: Message) -> bool:
            if is_about_aliases(body):
                return False
            said.append(self.words(Declare(body=body)))
            return said[-1] == wanted

        hit.__doc__ = wanted
        self.end.until(Declare, within=within, body=hit)
        return said[:-1]


def is_final(body: Message) -> bool:
    """D_FINAL"""
    return isinstance(body, DeclareFinal)


FINAL = is_final


def is_about_aliases(body: Message) -> bool:
    """Tells whether a declaration gives or takes a number for a key: that tells of nobody (reading R-60)."""
    return isinstance(body, DeclareKeyExpr | UndeclareKeyExpr)


def watcher(tester: Tester, base: str | None = None, **session: Any) -> Watcher:
    """Opens a session that will be told of declarations.

    Raises:
        NotApplicable: The node is no router.
    """
    if session:
        # Learnt as a client, so that a node that is no router never sees a session of another kind.
        leave(routes(tester.session()))
    return Watcher(
        tester.session(**session) if session else routes(tester.session()), base or f"harness/{tester.word()}"
    )


def undeclare(end: SessionEnd, kind: str, number: int) -> None:
    """Takes a declaration of ours back and waits until the node has taken that in."""
    end.post(Declare(body=DECLARATIONS[kind][1](entity_id=number)))
    end.fence()


def declare(end: SessionEnd, kind: str, key: str, **fields: Any) -> int:
    """Declares an entity and returns its id; waits until the node has taken it in."""
    number = end.next_id()
    end.post(Declare(body=DECLARATIONS[kind][0](entity_id=number, key_suffix=key), **fields))
    end.fence()
    return number


# Groups ------------------------------------------------------------------------------------------------


def a_group() -> str:
    """Returns a multicast group on loopback that nobody else is in."""
    dice = random.SystemRandom()
    host = f"239.255.{dice.randrange(1, 255)}.{dice.randrange(1, 255)}"
    return f"udp/{host}:{dice.randrange(20_000, 30_000)}#iface=lo"
