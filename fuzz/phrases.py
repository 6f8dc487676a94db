"""Steps that say one thing each: a FRAME, a FRAGMENT, a handshake message, every kind of message there is.

Campaigns about the order and the number of things are made of them. All bytes come from the layers; each step
carries a note that names what it says, because operators and findings speak of steps by their notes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from fuzz.cases import send
from fuzz.player import template_of
from fuzz.player.fitting import NODE_BATCH
from fuzz.player.pipe import FIRST_SN
from fuzz.script import SIZE, Do, Step, Template
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.codes import InterestMode, OamId, Resolution, What, WhatAmI
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
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.primitives import write_vle
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam

Number = int | str
"""A sequence number, or the name of a live one."""

ZID_MARK = b"\xf6\xe7\x5bzid of a link"
COOKIE_MARK = b"\xf7\xe7\x5bcookie of a link"
"""What ``template_of`` takes for the link's own ZenohID and cookie."""

DATA = 5
"""The lane of messages that name none."""

KEY = "fuzz/k"
OTHER_KEY = "fuzz/q"


# Numbers and what stands in front -----------------------------------------------------------------------


def number(sn: Number | None, reliable: bool = True) -> bytes | str:
    """Returns the piece of a template for a sequence number; None is the one that is due."""
    if sn is None:
        return "sn" if reliable else "sn_be"
    return write_vle(sn) if isinstance(sn, int) else sn


@cache
def _frame_parts(reliable: bool, lane: int | None) -> tuple[bytes, bytes]:
    chain = [] if lane is None else [ext.Lane(priority=lane)]
    raw = bytes(Frame(R=reliable, sn=0, extensions=chain))
    return raw[:1], raw[2:]


@cache
def _fragment_parts(
    reliable: bool, more: bool, first: bool, drop: bool, lane: int | None
) -> tuple[bytes, bytes]:
    chain: list[object] = [] if lane is None else [ext.Lane(priority=lane)]
    if first:
        chain.append(ext.First())
    if drop:
        chain.append(ext.Drop())
    raw = bytes(Fragment(R=reliable, M=more, sn=0, extensions=chain))
    return raw[:1], raw[2:]


Pieces = tuple[bytes | str, ...]
"""A transport message as pieces of a template, without the length of its batch."""


def as_frame(
    *messages: Message | bytes, reliable: bool = True, lane: int | None = None, sn: Number | None = None
) -> Pieces:
    """Returns a FRAME."""
    head, tail = _frame_parts(reliable, lane)
    return head, number(sn, reliable), tail + b"".join(map(bytes, messages))


def as_fragment(
    data: bytes,
    *,
    more: bool = False,
    first: bool = False,
    drop: bool = False,
    reliable: bool = True,
    lane: int | None = None,
    sn: Number | None = None,
) -> Pieces:
    """Returns a FRAGMENT; it owns the rest of its batch."""
    head, tail = _fragment_parts(reliable, more, first, drop, lane)
    return head, number(sn, reliable), tail + data


def batch(*parts: Pieces | Message | bytes, link: str = "a", note: str = "", times: int = 1) -> Step:
    """Returns the step that sends transport messages in one batch."""
    pieces: list[bytes | str] = [SIZE]
    for part in parts:
        pieces += part if isinstance(part, tuple) else (bytes(part),)
    return send(*pieces, link=link, note=note, times=times)


def frame(
    *messages: Message | bytes,
    link: str = "a",
    note: str = "",
    times: int = 1,
    reliable: bool = True,
    lane: int | None = None,
    sn: Number | None = None,
) -> Step:
    """Returns the step that sends network messages in a FRAME."""
    words = note or " ".join(_words(message) for message in messages) or "empty FRAME"
    return batch(as_frame(*messages, reliable=reliable, lane=lane, sn=sn), link=link, note=words, times=times)


def chain(
    data: bytes,
    parts: int,
    *,
    link: str = "a",
    reliable: bool = True,
    lane: int | None = None,
    note: str = "fragment",
) -> list[Step]:
    """Returns the steps that send a network message in so many FRAGMENTs of about the same size."""
    size = max(1, -(-len(data) // parts))
    cuts = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    last = len(cuts) - 1
    return [
        batch(
            as_fragment(piece, first=index == 0, more=index < last, reliable=reliable, lane=lane),
            link=link,
            note=f"{note} {index + 1} of {len(cuts)}",
        )
        for index, piece in enumerate(cuts)
    ]


def _words(message: Message | bytes) -> str:
    if isinstance(message, bytes):
        return f"{len(message)} bytes"
    body = getattr(message, "body", None)
    if isinstance(message, Declare) and isinstance(body, Message):
        return str(body.name)
    return str(message.name)


# Steps that are no messages ------------------------------------------------------------------------------


def listen(link: str = "a") -> Step:
    """Returns the step that waits a moment for the next answer."""
    return Step(Do.AWAIT, link, note="an answer")


def act(do: Do, link: str = "a", note: str = "") -> Step:
    """Returns a step that sends nothing."""
    return Step(do, link, note=note or str(do))


def linked(state: State, *links: str) -> list[Step]:
    """Returns the steps that bring links into a state."""
    return [Step(Do.REACH, link, state) for link in links]


def noise(size: int) -> bytes:
    """Returns so many bytes. They are no zeros: a count or a pointer that is written over with them shows."""
    return b"\xa5" * size


# Handshakes ----------------------------------------------------------------------------------------------


@cache
def init(
    link: str = "a",
    *,
    zid: str = "zid",
    fsn: int = Resolution.BITS_32,
    batch_size: int = 65_535,
    role: int = 2,
) -> Step:
    """Returns the step that sends InitSyn.

    Args:
        link: Where.
        zid: Name of the live value.
        fsn: Width of sequence numbers that is asked for.
        batch_size: What is offered.
        role: Role.
    """
    message = Init(
        S=1,
        zid=ZID_MARK,
        whatami=role,
        fsn=fsn,
        rid=Resolution.BITS_32,
        batch_size=batch_size,
        extensions=[ext.QoSOffer(), ext.Patch(patch=1)],
    )
    return _renamed(template_of(message), {"zid": zid}, link, "INIT")


@cache
def opening(
    link: str = "a", *, cookie: str = "cookie", first: int = FIRST_SN, lease: int = 60, seconds: bool = True
) -> Step:
    """Returns the step that sends OpenSyn; the numbers of the link begin with ``first`` from there on."""
    message = Open(T=seconds, lease=lease, initial_sn=0, cookie=COOKIE_MARK)
    size = 1 + len(write_vle(lease))
    pieces = template_of(message).pieces
    head = pieces[1]
    assert isinstance(head, bytes)
    template = Template.of(SIZE, head[:size], f"from {first}", head[size + 1 :], *pieces[2:])
    return _renamed(template, {"cookie": cookie}, link, "OPEN")


def handshake(link: str = "a", *, role: int = WhatAmI.CLIENT) -> list[Step]:
    """Returns the steps that turn a fresh link into a session."""
    return [init(link, role=role), listen(link), opening(link), listen(link)]


@cache
def closing(link: str = "a", reason: int = 0, *, session: bool = False) -> Step:
    """Returns the step that sends CLOSE."""
    return batch(Close(reason=reason, S=session), link=link, note="CLOSE")


def _renamed(template: Template, names: dict[str, str], link: str, note: str) -> Step:
    pieces = (names.get(piece, piece) if isinstance(piece, str) else piece for piece in template.pieces)
    return send(*pieces, link=link, note=note)


# Network messages ----------------------------------------------------------------------------------------


def push(key: str = KEY, data: bytes = b"hello", *, block: bool = False, scope: int = 0) -> Push:
    """Returns a PUSH of PUT; with ``block`` it may not be dropped."""
    return Push(
        M=1,
        key_scope=scope,
        key_suffix=key or None,
        extensions=[ext.QoS(D=1)] if block else [],
        body=Put(data=data),
    )


def declare(body: Message) -> Declare:
    """Returns a DECLARE."""
    return Declare(body=body)


def keyexpr(key_id: int, key: str = KEY) -> Declare:
    """Gives a key an alias."""
    return Declare(body=DeclareKeyExpr(key_id=key_id, key_suffix=key))


def subscriber(entity: int, key: str = KEY) -> Declare:
    """Declares a subscriber."""
    return Declare(body=DeclareSubscriber(entity_id=entity, key_suffix=key))


def queryable(entity: int, key: str = OTHER_KEY) -> Declare:
    """Declares a queryable."""
    return Declare(
        body=DeclareQueryable(
            entity_id=entity, key_suffix=key, extensions=[ext.QueryableInfo(complete=1, distance=0)]
        )
    )


def token(entity: int, key: str = "fuzz/t") -> Declare:
    """Declares a token."""
    return Declare(body=DeclareToken(entity_id=entity, key_suffix=key))


def undeclare(kind: type[Message], entity: int, key: str = "") -> Declare:
    """Takes a declaration back: U_SUBSCRIBER, U_QUERYABLE or U_TOKEN."""
    chain = [ext.WireExpr(key_suffix=key)] if key else []
    return Declare(body=kind(entity_id=entity, extensions=chain))


def query(request: int, key: str = OTHER_KEY) -> Request:
    """Asks for the values of a key."""
    return Request(request_id=request, key_suffix=key, body=Query())


def interest(
    interest_id: int, mode: int = InterestMode.CURRENT_FUTURE, key: str = "fuzz/**", **options: int
) -> Interest:
    """Asks for declarations, of all kinds unless told."""
    if mode == InterestMode.FINAL:
        return Interest(mode=mode, interest_id=interest_id)
    wanted = options or {"keyexprs": 1, "subscribers": 1, "queryables": 1, "tokens": 1}
    return Interest(mode=mode, interest_id=interest_id, key_suffix=key, **wanted)


def _after_id(message: Message, name: str) -> Pieces:
    """Returns a message whose id, one VLE byte behind the header, is a live value."""
    raw = bytes(message)
    return raw[:1], name, raw[2:]


def reply(name: str = "rid", key: str = OTHER_KEY, data: bytes = b"answer") -> Pieces:
    """Answers the node's query whose id is a live value."""
    return _after_id(Response(request_id=0, M=1, key_suffix=key, body=Reply(body=Put(data=data))), name)


def failure(name: str = "rid", key: str = OTHER_KEY) -> Pieces:
    """Answers the node's query with an error."""
    return _after_id(Response(request_id=0, M=1, key_suffix=key, body=Err(encoding=4, data=b"oops")), name)


def final(name: str = "rid") -> Pieces:
    """Ends the answers to the node's query."""
    return _after_id(ResponseFinal(request_id=0), name)


def answering(*parts: Pieces, link: str = "a", note: str) -> Step:
    """Returns the step that sends network messages with live ids in a FRAME."""
    inside = [piece for part in parts for piece in part]
    return send(SIZE, *as_frame(), *inside, link=link, note=note)


def link_state(sn: int, links: int = 0) -> NetworkOam:
    """Tells of the node's place in the network, and of so many others that it is linked to.

    Args:
        sn: Version of what is told.
        links: How many others.
    """
    records = [
        {
            "psid": psid,
            "state_sn": sn,
            "zid": bytes([psid + 1, 2, 3, 4]),
            "whatami": What.ROUTER,
            "locators": ["tcp/127.0.0.1:1"],
            "links": [*range(1, links + 1)] if psid == 0 else [0],
        }
        for psid in range(links + 1)
    ]
    return NetworkOam(oam_id=OamId.LINKSTATE, linkstate=ext.LinkState(records=records))


# Every kind ----------------------------------------------------------------------------------------------

_ZID = bytes(range(1, 17))

EMPTY = "batch"
"""Kind of a batch in which there is no message."""


def _framed(message: Message) -> Callable[[str], Step]:
    return cache(lambda link: frame(message, link=link))


def _bare(message: Message) -> Callable[[str], Step]:
    return cache(lambda link: batch(message, link=link, note=str(message.name)))


def _in_frame(message: Message) -> Message:
    """Returns the network message that a data message travels in."""
    match message:
        case Put() | Del():
            return Push(key_suffix=KEY, body=message)
        case Query():
            return Request(request_id=900, key_suffix=OTHER_KEY, body=message)
        case Reply() | Err():
            return Response(request_id=900, key_suffix=OTHER_KEY, body=message)
        case _:
            return Declare(body=message)


@cache
def kinds() -> dict[str, Callable[[str], Step]]:
    """Returns what sends a valid message of each kind on a link that is in a session, by kind.

    Those of scouting and of handshakes have no place in a session and are there nevertheless.
    """
    beginning = bytes(push())[:6]
    bare: dict[str, Message] = {
        "OAM (transport)": TransportOam(oam_id=7, data=b"hi"),
        "INIT": Init(zid=_ZID),
        "OPEN": Open(cookie=_ZID),
        "CLOSE": Close(reason=0),
        "KEEP_ALIVE": KeepAlive(),
        "JOIN": Join(zid=_ZID, extensions=[ext.JoinLanes(lanes=[{"next_sn_re": 0, "next_sn_be": 0}] * 8)]),
        "SCOUT": Scout(what=What.ROUTER),
        "HELLO": Hello(zid=_ZID),
    }
    return {
        EMPTY: lambda link: batch(link=link, note="empty batch"),
        "FRAME": lambda link: frame(link=link, lane=1),
        "FRAGMENT": lambda link: batch(
            as_fragment(beginning, first=True, more=True), link=link, note="FRAGMENT"
        ),
        **{name: _bare(message) for name, message in bare.items()},
        **{name: _framed(message) for name, message in network_messages().items()},
    }


@cache
def network_messages() -> dict[str, Message]:
    """Returns a valid network message for each kind that may stand in a FRAME or travels in one, by kind."""
    inner: list[Message] = [
        DeclareKeyExpr(key_id=7, key_suffix=KEY),
        UndeclareKeyExpr(key_id=7),
        DeclareSubscriber(entity_id=900, key_suffix="fuzz/**"),
        UndeclareSubscriber(entity_id=900),
        DeclareQueryable(entity_id=901, key_suffix=OTHER_KEY, extensions=[ext.QueryableInfo(complete=1)]),
        UndeclareQueryable(entity_id=901),
        DeclareToken(entity_id=902, key_suffix="fuzz/t"),
        UndeclareToken(entity_id=902),
        DeclareFinal(),
        Put(data=b"hello"),
        Del(),
        Query(parameters="x=1"),
        Reply(body=Put(data=b"answer")),
        Err(data=b"oops"),
    ]
    network: dict[str, Message] = {
        "INTEREST": interest(900),
        "RESPONSE_FINAL": ResponseFinal(request_id=900),
        "RESPONSE": Response(request_id=901, key_scope=7, key_suffix="/r", body=Reply(body=Del())),
        "REQUEST": Request(request_id=901, M=1, key_scope=7, extensions=[ext.Target(target=1)], body=Query()),
        "PUSH": Push(M=1, key_scope=7, extensions=[ext.QoS(priority=1)], body=Put(data=b"by alias")),
        "DECLARE": Declare(interest_id=900, body=DeclareSubscriber(entity_id=903, key_suffix="fuzz/a")),
        "OAM (network)": link_state(2),
    }
    return {**network, **{str(message.name): _in_frame(message) for message in inner}}


DIGITS = "######"
"""Stands for six digits in a key."""


def with_digits(*pieces: bytes | str) -> Pieces:
    """Returns pieces in which ``digits`` stands wherever ``DIGITS`` did: keys that are others in each play."""
    result: list[bytes | str] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            first, *others = piece.split(DIGITS.encode())
            result += [first, *(part for other in others for part in ("digits", other))]
        else:
            result.append(piece)
    return tuple(result)


_ID = 0x7E
"""Stands for an id; no header and no key of ours has this byte."""


def _numbered(make: Callable[[int, str], Message]) -> Pieces:
    """Returns a message as pieces, with ``count`` for its id and ``digits`` in its key."""
    head, its_id, tail = bytes(make(_ID, DIGITS)).partition(bytes([_ID]))
    return with_digits(head, "count", tail) if its_id else with_digits(head)


def numbered(make: Callable[[int, str], Message], *, link: str = "a", times: int, note: str) -> Step:
    """Returns the step that sends a message again and again, each with an id and a key of its own.

    Args:
        make: Makes it from an id below 128, and a key in which ``DIGITS`` stands for six digits.
        link: Where.
        times: How often.
        note: What it is.
    """
    return send(SIZE, *as_frame(), *_numbered(make), link=link, note=note, times=times)


def in_few_batches(make: Callable[[int, str], Message], times: int, note: str) -> list[Step]:
    """Returns the same in as few FRAMEs as possible."""
    pieces = _numbered(make)
    steps: list[Step] = []
    inside: list[bytes] = []
    size = 0
    for turn in range(1, times + 1):
        count, digits = write_vle(turn), b"%06d" % turn
        one = b"".join(
            piece if isinstance(piece, bytes) else count if piece == "count" else digits for piece in pieces
        )
        if size + len(one) > NODE_BATCH - 16:
            steps.append(frame(b"".join(inside), note=f"{len(inside)} {note}"))
            inside, size = [], 0
        inside.append(one)
        size += len(one)
    return [*steps, frame(b"".join(inside), note=f"{len(inside)} {note}")]


def together(first: Step, second: Step) -> Step | None:
    """Returns two steps as one batch; None when one of them is no whole batch."""
    if not (_whole(first) and _whole(second)):
        return None
    pieces = (*first.data.pieces, *second.data.pieces[1:])
    return send(*pieces, link=first.link, note=f"{first.note} with {second.note}")


def _whole(step: Step) -> bool:
    return step.do is Do.SEND and bool(step.data.pieces) and step.data.pieces[0] == SIZE
