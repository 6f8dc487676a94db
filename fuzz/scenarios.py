"""Valid exchanges, for operators to spoil: what a session begins with, what it is for, how it ends."""

from __future__ import annotations

from fuzz.cases import reach
from fuzz.phrases import (
    act,
    answering,
    as_frame,
    batch,
    chain,
    closing,
    declare,
    failure,
    final,
    frame,
    handshake,
    interest,
    keyexpr,
    link_state,
    linked,
    listen,
    push,
    query,
    queryable,
    reply,
    subscriber,
    token,
    undeclare,
)
from fuzz.script import Do, Step
from fuzz.sequences import Scenario
from fuzz.states import State
from scapy_layers.codes import InterestMode, WhatAmI
from scapy_layers.declarations import (
    DeclareFinal,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.network import Declare
from scapy_layers.transport import KeepAlive


def scenarios() -> list[Scenario]:
    """Returns the valid exchanges, shortest first."""
    by_alias = batch(as_frame(push("/x", scope=1)), note="PUSH by alias")
    return [
        Scenario(
            "handshake",
            "INIT",
            State.CONNECTED,
            (*handshake(), frame(subscriber(1)), frame(push()), closing()),
        ),
        Scenario(
            "handshake of a peer",
            "OAM (network)",
            State.CONNECTED,
            (
                *handshake(role=WhatAmI.PEER),
                frame(link_state(1), lane=0),
                _no_more(),
                frame(link_state(2), lane=0),
            ),
        ),
        Scenario(
            "handshake of a router",
            "OAM (network)",
            State.CONNECTED,
            (
                *handshake(role=WhatAmI.ROUTER),
                frame(link_state(1), lane=0),
                frame(link_state(2, 1), lane=0),
                frame(subscriber(0)),
                frame(link_state(3), lane=0),
            ),
        ),
        Scenario(
            "keep-alive and CLOSE",
            "CLOSE",
            State.OPEN,
            (batch(KeepAlive(), note="KEEP_ALIVE"), frame(push()), closing(session=True)),
        ),
        Scenario(
            "alias, subscriber, publication",
            "PUSH",
            State.OPEN,
            (
                frame(keyexpr(1, "fuzz")),
                frame(subscriber(1, "fuzz/**")),
                by_alias,
                frame(undeclare(UndeclareSubscriber, 1)),
                frame(declare(UndeclareKeyExpr(key_id=1))),
            ),
        ),
        Scenario(
            "publication to another session",
            "PUSH",
            State.OPEN,
            (
                reach(State.OPEN, "b"),
                frame(subscriber(1)),
                act(Do.SETTLE),
                frame(push(block=True), link="b"),
                listen(),
                frame(undeclare(UndeclareSubscriber, 1)),
                frame(push(), link="b"),
            ),
        ),
        Scenario(
            "query, reply, final",
            "RESPONSE",
            State.OPEN,
            (
                reach(State.OPEN, "b"),
                frame(queryable(1)),
                act(Do.SETTLE),
                frame(query(5), link="b"),
                listen(),
                answering(reply(), note="REPLY"),
                answering(final(), note="RESPONSE_FINAL"),
                listen("b"),
                frame(undeclare(UndeclareQueryable, 1)),
            ),
        ),
        Scenario(
            "two queryables",
            "RESPONSE_FINAL",
            State.OPEN,
            (
                *linked(State.OPEN, "b", "c"),
                frame(queryable(1)),
                frame(queryable(1, "fuzz/*"), link="c"),
                act(Do.SETTLE),
                act(Do.SETTLE, "c"),
                frame(query(6, "fuzz/**"), link="b"),
                listen(),
                listen("c"),
                answering(reply(), final(), note="REPLY and RESPONSE_FINAL"),
                answering(failure(), link="c", note="ERR"),
                answering(final(), link="c", note="RESPONSE_FINAL"),
                listen("b"),
            ),
        ),
        Scenario(
            "interest, declarations, final",
            "INTEREST",
            State.OPEN,
            (
                reach(State.OPEN, "b"),
                frame(interest(1)),
                listen(),
                frame(subscriber(1), link="b"),
                frame(token(2), link="b"),
                listen(),
                frame(undeclare(UndeclareToken, 2), link="b"),
                frame(undeclare(UndeclareSubscriber, 1), link="b"),
                act(Do.SETTLE, "b"),
                act(Do.SETTLE),
                frame(interest(1, InterestMode.FINAL)),
            ),
        ),
        Scenario(
            "tokens that are there and tokens that come",
            "D_TOKEN",
            State.OPEN,
            (
                reach(State.OPEN, "b"),
                frame(token(1), link="b"),
                act(Do.SETTLE, "b"),
                frame(interest(2, InterestMode.CURRENT, tokens=1)),
                act(Do.SETTLE),
                frame(interest(3, InterestMode.FUTURE, tokens=1)),
                frame(token(2, "fuzz/t2"), link="b"),
                listen(),
                frame(undeclare(UndeclareToken, 1), link="b"),
                act(Do.SETTLE, "b"),
                act(Do.SETTLE),
                frame(interest(3, InterestMode.FINAL)),
            ),
        ),
        Scenario(
            "a fragmented publication to another session",
            "FRAGMENT",
            State.OPEN,
            (
                reach(State.OPEN, "b"),
                frame(subscriber(1)),
                act(Do.SETTLE),
                *chain(bytes(push(data=b"x" * 300)), 3, link="b"),
                listen(),
            ),
        ),
        Scenario(
            "the same alias in two sessions",
            "D_KEYEXPR",
            State.OPEN,
            (
                reach(State.OPEN, "b"),
                frame(keyexpr(1, "fuzz")),
                frame(keyexpr(1, "fuzz/k"), link="b"),
                frame(subscriber(1, "fuzz/k/x")),
                act(Do.SETTLE),
                batch(as_frame(push("/x", scope=1)), link="b", note="PUSH by alias"),
                listen(),
                frame(declare(UndeclareKeyExpr(key_id=1)), link="b"),
            ),
        ),
    ]


def _no_more() -> Step:
    return frame(Declare(interest_id=0, body=DeclareFinal()))
