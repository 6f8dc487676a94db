"""The campaigns: what each is for, where its links stand, which messages it lies about, who judges.

To add one, write a function that returns its stimuli and register it in ``CAMPAIGNS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fuzz.prelude import State
from scapy_layers import extensions as ext
from scapy_layers.codes import Consolidation, InterestMode, OamId, QueryTarget, Resolution, What, WhatAmI
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
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam

ZID = bytes(range(1, 17))
"""Stands for the ZenohIDs of nodes that do not exist."""


@dataclass(frozen=True, slots=True)
class Stimulus:
    """A valid message and what a case has to know about it.

    Attributes:
        name: Unique in its campaign.
        state: Where the link is when it leaves.
        message: The message; its lies are the cases.
        live: Fields that are filled in from the link: path -> name of the value (prelude).
        quiet: Messages around it that stay correct.
    """

    name: str
    state: State
    message: Message
    live: dict[str, str] = field(default_factory=dict)
    quiet: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Campaign:
    """A named plan.

    Attributes:
        name: For the command line.
        purpose: One line.
        stimuli: Makes its stimuli.
        oracles: Names of the oracles that judge each case, in order.
    """

    name: str
    purpose: str
    stimuli: Callable[[], Iterator[Stimulus]]
    oracles: tuple[str, ...] = ("process", "stderr", "ping")

    @property
    def states(self) -> list[str]:
        """The states its stimuli leave in."""
        return sorted({str(stimulus.state) for stimulus in self.stimuli()})

    @property
    def messages(self) -> list[str]:
        """The names of its stimuli."""
        return [stimulus.name for stimulus in self.stimuli()]


def handshake() -> Iterator[Stimulus]:
    """INIT on a fresh link, OPEN behind an InitAck with the cookie that came in it."""
    inits = {
        "INIT": Init(zid=ZID),
        "INIT of a peer": Init(
            zid=ZID, whatami=WhatAmI.PEER, rid=Resolution.BITS_16, fsn=Resolution.BITS_16, batch_size=8192
        ),
        "INIT with options": Init(
            zid=ZID,
            extensions=[
                ext.QoSOffer(),
                ext.LowLatency(),
                ext.Compression(),
                ext.Patch(patch=1),
                ext.RegionName(region="north"),
            ],
        ),
        "INIT with QoSLink": Init(
            zid=ZID,
            whatami=WhatAmI.ROUTER,
            extensions=[ext.QoSLink(qos=1, has_priorities=1, first_priority=1, last_priority=6)],
        ),
        "INIT with Shm": Init(zid=ZID, extensions=[ext.InitSynShm(segment_id=12_345)]),
        "INIT with Auth": Init(zid=ZID, extensions=[ext.AuthInitSyn(extensions=[ext.UsrPwd()])]),
        "INIT with MultiLink": Init(
            zid=ZID, extensions=[ext.MultiLinkInitSyn(n=b"\x5a" * 64, e=b"\x01\x00\x01")]
        ),
    }
    for name, init in inits.items():
        yield Stimulus(name, State.CONNECTED, init, {"INIT.zid": "zid"})
    opens = {
        "OPEN": Open(lease=10_000, initial_sn=1000, cookie=ZID),
        "OPEN with options": Open(
            T=1,
            lease=10,
            initial_sn=1000,
            cookie=ZID,
            extensions=[ext.QoSOffer(), ext.LowLatency(), ext.Compression(), ext.RemoteBound(bound=1)],
        ),
        "OPEN with Shm": Open(initial_sn=1000, cookie=ZID, extensions=[ext.OpenSynShm(challenge=7)]),
        "OPEN with Auth": Open(
            initial_sn=1000,
            cookie=ZID,
            extensions=[
                ext.AuthOpenSyn(extensions=[ext.UsrPwdProof(user=b"me", hmac=b"pw")]),
                ext.MultiLinkOpenSyn(nonce=b"\x5a" * 64),
            ],
        ),
    }
    for name, message in opens.items():
        yield Stimulus(name, State.INIT_ACKED, message, {"OPEN.cookie": "cookie"})
    yield Stimulus("CLOSE", State.INIT_ACKED, Close(reason=0))


def session() -> Iterator[Stimulus]:
    """Every message that may travel in a session, with the sequence number that is due."""
    sn = {"FRAME.sn": "sn"}
    yield Stimulus("FRAME", State.OPEN, Frame(R=1, messages=[_push()]), sn)
    yield Stimulus("FRAME with lane", State.OPEN, Frame(R=1, extensions=[ext.Lane()], messages=[_push()]), sn)
    for name, message in _network():
        yield Stimulus(name, State.OPEN, Frame(R=1, messages=[message]), sn, ("FRAME",))
    several = [_push(), Declare(body=DeclareSubscriber(entity_id=900, key_suffix="fuzz/s")), _query()]
    yield Stimulus(
        "FRAME of several", State.OPEN, Frame(R=1, messages=several), sn, ("PUSH", "DECLARE", "REQUEST")
    )
    fragment = {"FRAGMENT.sn": "sn"}
    whole = bytes(_push())
    yield Stimulus(
        "FRAGMENT, whole", State.OPEN, Fragment(R=1, extensions=[ext.First()], data=whole), fragment
    )
    first = Fragment(R=1, M=1, extensions=[ext.First()], data=whole[:4])
    yield Stimulus("FRAGMENT, first", State.OPEN, first, fragment)
    yield Stimulus("FRAGMENT, drop", State.OPEN, Fragment(R=1, M=1, extensions=[ext.Drop()]), fragment)
    yield Stimulus("KEEP_ALIVE", State.OPEN, KeepAlive())
    yield Stimulus("CLOSE", State.OPEN, Close(reason=0))
    yield Stimulus("OAM of the transport", State.OPEN, TransportOam(oam_id=7, data=b"hi"))
    yield Stimulus("INIT again", State.OPEN, Init(zid=ZID))
    yield Stimulus("OPEN again", State.OPEN, Open(cookie=ZID))
    lanes = [{"next_sn_re": 0, "next_sn_be": 0}] * 8
    yield Stimulus(
        "JOIN", State.OPEN, Join(zid=ZID, extensions=[ext.JoinLanes(lanes=lanes), ext.Patch(patch=1)])
    )


def _push() -> Push:
    return Push(key_suffix="fuzz/k", body=Put(data=b"hello"))


def _query() -> Request:
    return Request(request_id=1000, key_suffix="fuzz/q", body=Query())


def _network() -> Iterator[tuple[str, Message]]:
    info = ext.SourceInfo(zid=ZID, eid=7, source_sn=9)
    stamp = {"timestamp": 0x6B80_0000_0000_0000, "timestamp_id": ZID}
    stack = ext.TimestampStack(conf_flags=1, records=[{"point": 1, "stamp": ext.StackedTimestamp(**stamp)}])
    common = [ext.QoS(D=1), ext.Timestamp(**stamp)]
    yield (
        "PUSH of PUT",
        Push(
            M=1,
            key_suffix="fuzz/k",
            extensions=[*common, ext.NodeId(node_id=0), stack],
            body=Put(
                **stamp,
                encoding=4,
                schema=b"utf-8",
                extensions=[info, ext.PutAttachment(attachment=b"at")],
                data=b"hello",
            ),
        ),
    )
    yield (
        "PUSH of DEL",
        Push(key_suffix="fuzz/k", body=Del(**stamp, extensions=[info, ext.DelAttachment(attachment=b"at")])),
    )
    yield (
        "REQUEST",
        Request(
            request_id=1000,
            key_suffix="fuzz/q",
            extensions=[
                *common,
                ext.Target(target=QueryTarget.ALL),
                ext.Budget(budget=5),
                ext.Timeout(timeout=500),
                ext.NodeId(node_id=0),
                stack,
            ],
            body=Query(
                consolidation=Consolidation.MONOTONIC,
                parameters="x=1",
                extensions=[
                    info,
                    ext.QueryBody(encoding=4, data=b"hi"),
                    ext.QueryAttachment(attachment=b"at"),
                ],
            ),
        ),
    )
    yield (
        "INTEREST",
        Interest(
            mode=InterestMode.CURRENT_FUTURE,
            interest_id=1000,
            keyexprs=1,
            subscribers=1,
            queryables=1,
            tokens=1,
            key_suffix="fuzz/**",
            extensions=common,
        ),
    )
    yield "INTEREST, final", Interest(mode=InterestMode.FINAL, interest_id=1000)
    yield (
        "RESPONSE of REPLY",
        Response(
            request_id=1000,
            key_suffix="fuzz/q",
            extensions=[*common, ext.ResponderId(zid=ZID, eid=7)],
            body=Reply(consolidation=Consolidation.LATEST, body=Put(data=b"val")),
        ),
    )
    yield (
        "RESPONSE of ERR",
        Response(request_id=1000, key_suffix="fuzz/q", body=Err(encoding=4, data=b"oops")),
    )
    yield "RESPONSE_FINAL", ResponseFinal(request_id=1000, extensions=common)
    declarations: list[tuple[Message, ...]] = [
        (DeclareKeyExpr(key_id=7, key_suffix="fuzz/k"),),
        (DeclareSubscriber(entity_id=900, key_suffix="fuzz/**"),),
        (
            DeclareQueryable(
                entity_id=901, key_suffix="fuzz/q", extensions=[ext.QueryableInfo(complete=1, distance=3)]
            ),
        ),
        (DeclareToken(entity_id=902, key_suffix="fuzz/t"),),
        (UndeclareKeyExpr(key_id=7),),
        (UndeclareSubscriber(entity_id=900, extensions=[ext.WireExpr(key_suffix="fuzz/**")]),),
        (UndeclareQueryable(entity_id=901, extensions=[ext.WireExpr(key_suffix="fuzz/q")]),),
        (UndeclareToken(entity_id=902, extensions=[ext.WireExpr(key_suffix="fuzz/t")]),),
        (DeclareFinal(),),
    ]
    for (body,) in declarations:
        yield f"DECLARE of {body.name}", Declare(body=body)
    yield (
        "DECLARE, answering",
        Declare(
            interest_id=1000,
            extensions=[*common, ext.NodeId(node_id=0)],
            body=DeclareSubscriber(entity_id=903, key_suffix="fuzz/a"),
        ),
    )
    link_state = ext.LinkState(
        records=[
            {
                "psid": 0,
                "state_sn": 2,
                "zid": b"\x01\x02\x03\x04",
                "whatami": What.PEER,
                "locators": ["tcp/127.0.0.1:1"],
                "links": [1],
            }
        ]
    )
    yield "OAM of link state", NetworkOam(oam_id=OamId.LINKSTATE, extensions=common, linkstate=link_state)
    yield "OAM of another id", NetworkOam(oam_id=42, z64=300)


CAMPAIGNS: dict[str, Campaign] = {
    campaign.name: campaign
    for campaign in (
        Campaign("handshake", "lies about INIT and OPEN, before there is a session", handshake),
        Campaign("session", "lies about every message that travels in an open session", session),
    )
}
