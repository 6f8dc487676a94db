"""What a session can be in: declarations, queries that wait, fragments, low latency, compression.

Some of it needs a second session with the same node, the assistant's, so that what is said in the first leads
somewhere: it subscribes to the base key of all links of its player and never answers a query.
"""

from __future__ import annotations

import time
from functools import cache

from fuzz.player.doors import Door
from fuzz.player.pipe import Pipe
from fuzz.player.player import NotReached, Player, opened, reach
from fuzz.player.tasks import Task, Wait
from fuzz.script import Template
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.codes import InterestMode
from scapy_layers.data import Put, Query
from scapy_layers.declarations import DeclareKeyExpr, DeclareQueryable, DeclareSubscriber, DeclareToken
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request
from scapy_layers.primitives import write_vle
from scapy_layers.transport import Fragment, Frame, KeepAlive

ALIAS = 7
"""Key id that stands for the base key of the link in the states ``declared`` and ``pending``."""

SUBSCRIBER, QUERYABLE, TOKEN, INTEREST = 900, 901, 902, 1000
"""Ids of what is declared there: on ALIAS + ``/**``, ``/q``, ``/t``, ``/**``."""

QUERIES = (1000, 1001, 1002, 1003)
"""Request ids of our queries that wait."""

WAITING = 16
"""Queries of the node that wait for a reply of ours."""

HOUR_MS = 3_600_000
"""So long queries wait: longer than a link lives."""

ASSISTANT = "assistant"

QUIET_SECONDS = 10.0
"""A helper that has said nothing for so long sends KEEP_ALIVE; the lease of our sessions is a minute."""

SERVED = 16
"""So many links have one assistant. Queries that it never answers pile up in the node; for each link that ends a node
may go through all of them, and takes ten times as long as for the first."""

_FIRST_REQUEST = 2000


def base_of(pipe: Pipe) -> str:
    """Returns the base key of a link: what is declared there is below it, and no wild card of others matches it."""
    key: str = pipe.facts["base"]
    return key


@cache
def _head(*, reliable: bool = True) -> bytes:
    return bytes(Frame(R=int(reliable), sn=0))[:1]


def frame(*messages: Message) -> Template:
    """Returns a reliable FRAME of messages with the sequence number that is due."""
    return Template.of("size", _head(), "sn", *map(bytes, messages))


KEEP_ALIVE = Template.of("size", bytes(KeepAlive()))


def helper(player: Player, name: str, door: Door | None = None) -> Task[tuple[Pipe, bool]]:
    """Returns a session that outlives cases, and whether it is new; it says what is needed to stay open.

    Args:
        player: Keeps it.
        name: One of its helpers.
        door: Where a new one comes from; the player's when None.

    Raises:
        NotReached: No new one is to be had.
    """
    pipe = player.helpers.get(name)
    if pipe is not None:
        # That the node has ended it shows only behind the last that came.
        pipe.receive()
        pipe.receive()
        pipe.take()
        if not pipe.ended:
            now = time.monotonic()
            if now - pipe.facts["spoke"] > QUIET_SECONDS:
                pipe.facts["spoke"] = now
                pipe.send(KEEP_ALIVE.fill(pipe), "helper")
            return pipe, False
        del player.helpers[name]
    pipe = yield from player.helping(State.OPEN, name, door or player.door)
    pipe.facts["spoke"] = time.monotonic()
    return pipe, True


def assistant(player: Player) -> Task[Pipe]:
    """Returns the player's assistant, for one more link."""
    there = player.helpers.get(ASSISTANT)
    if there is not None and there.facts["served"] >= SERVED and not _needed(player, there):
        player.helpers.pop(ASSISTANT).close()
    pipe, new = yield from helper(player, ASSISTANT)
    pipe.facts["served"] = pipe.facts.get("served", 0) + 1
    if new:
        key = f"@fuzz/{pipe.zid.hex()}"
        pipe.facts["base"] = key
        said = (
            DeclareSubscriber(entity_id=1, key_suffix=f"{key}/**"),
            DeclareQueryable(entity_id=2, key_suffix=f"{key}/*/ask"),
        )
        player.say(pipe, b"".join(bytes(Declare(body=body)) for body in said), "assistant")
        yield from player.fenced(pipe)
        pipe.deaf = True
    return pipe


def _needed(player: Player, helper: Pipe) -> bool:
    """Tells whether a link that lives is in a state that needs a helper."""
    return any(helper in pipe.facts.get("helpers", ()) for pipe in player.links.values() if not pipe.ended)


def _with_base(player: Player, pipe: Pipe) -> Task[Pipe]:
    """Gives a link a base key; returns the assistant."""
    beside = yield from assistant(player)
    pipe.facts["base"] = f"{base_of(beside)}/{pipe.zid.hex()}"
    pipe.facts["helpers"] = (beside,)
    return beside


def _declared(pipe: Pipe) -> bytes:
    base = base_of(pipe)
    return _declarations(len(base)).replace(b"*" * len(base), base.encode())


@cache
def _declarations(size: int) -> bytes:
    """Returns what is declared on a link, with stars where the base key of so many bytes belongs."""
    scope = {"key_scope": ALIAS, "M": 1}
    declared = (
        Declare(body=DeclareKeyExpr(key_id=ALIAS, key_suffix="*" * size)),
        Declare(body=DeclareSubscriber(entity_id=SUBSCRIBER, key_suffix="/**", **scope)),
        Declare(body=DeclareQueryable(entity_id=QUERYABLE, key_suffix="/q", **scope)),
        Declare(body=DeclareToken(entity_id=TOKEN, key_suffix="/t", **scope)),
        Interest(
            mode=InterestMode.CURRENT_FUTURE,
            interest_id=INTEREST,
            keyexprs=1,
            subscribers=1,
            queryables=1,
            tokens=1,
            key_suffix="/**",
            **scope,
        ),
    )
    return b"".join(map(bytes, declared))


@cache
def _asked() -> bytes:
    """Returns our queries that wait."""
    return b"".join(_request(number, "/ask", ALIAS) for number in QUERIES)


def _request(number: int, key: str, scope: int = 0) -> bytes:
    """Returns a query that waits for long."""
    header, behind = _around_id(len(key), scope)
    return header + write_vle(number) + behind.replace(b"*" * len(key), key.encode())


@cache
def _around_id(size: int, scope: int) -> tuple[bytes, bytes]:
    """Returns what stands in front of the id of such a query and behind it, with stars where the key belongs."""
    wait = [ext.Timeout(timeout=HOUR_MS)]
    made = bytes(
        Request(
            request_id=0,
            key_scope=scope,
            M=int(scope > 0),
            key_suffix="*" * size,
            extensions=wait,
            body=Query(),
        )
    )
    return made[:1], made[2:]


@reach(State.DECLARED)
def _declare(player: Player, pipe: Pipe) -> Task[None]:
    yield from _with_base(player, pipe)
    pipe.state = State.DECLARED
    player.say(pipe, _declared(pipe), "declarations")
    yield from player.fenced(pipe)


@reach(State.PENDING)
def _pend(player: Player, pipe: Pipe) -> Task[None]:
    beside = yield from _with_base(player, pipe)
    pipe.state = State.PENDING
    player.say(pipe, _declared(pipe) + _asked(), "declarations and queries")
    yield from player.fenced(pipe)
    first = beside.facts.get("request", _FIRST_REQUEST)
    beside.facts["request"] = first + WAITING
    key = f"{base_of(pipe)}/q"
    ask = b"".join(_request(number, key) for number in range(first, first + WAITING))
    player.say(beside, ask, "queries for the link", fence=False)
    beside.facts["spoke"] = time.monotonic()
    yield from _take_queries(player, pipe)


def _take_queries(player: Player, pipe: Pipe) -> Task[None]:
    deadline = time.perf_counter() + player.reply
    ids: list[int] = []
    while len(ids) < WAITING:
        pipe.receive()
        came = pipe.take()
        ids += [number for answer in came for number in answer.ids]
        if pipe.ended or any(answer.close is not None for answer in came):
            raise NotReached("expected queries for the fuzzer's queryable, got the end of the session")
        if len(ids) < WAITING:
            if time.perf_counter() >= deadline:
                raise NotReached(f"expected {WAITING} queries for the fuzzer's queryable, got {len(ids)}")
            yield Wait(pipe, deadline)
    pipe.rids.extend(map(write_vle, ids))
    # From here on each of them in turn.
    del pipe.values["rid"]


@reach(State.FRAGMENTING)
def _fragment(player: Player, pipe: Pipe) -> Task[None]:  # noqa: ARG001  (called like the others)
    yield from ()
    pipe.send(FIRST_FRAGMENT.fill(pipe), "first fragment")


WHOLE = bytes(Push(key_suffix="fuzz/k", extensions=[ext.QoS(D=1)], body=Put(data=b"hello")))
"""The message whose first half was sent in the state ``fragmenting``."""

HALF = len(WHOLE) // 2

FRAGMENT_HEAD = bytes(Fragment(R=1, M=1, sn=0, extensions=[ext.First()]))

FIRST_FRAGMENT = Template.of("size", FRAGMENT_HEAD[:1], "sn", FRAGMENT_HEAD[2:], WHOLE[:HALF])


# What INIT agreed on -----------------------------------------------------------------------------------

LOW_LATENCY, COMPRESSION = "05", "06"
"""Headers of extensions of INIT."""


def agreed(pipe: Pipe, header: str) -> bool:
    """Tells whether InitAck held an extension."""
    shape: str = pipe.facts["agreed"]
    _, bracket, rest = shape.partition("(")
    return bool(bracket) and header in rest.partition(")")[0].split(",")


@reach(State.LOW_LATENCY)
def _low_latency(player: Player, pipe: Pipe) -> Task[None]:
    if not agreed(pipe, LOW_LATENCY):
        raise NotReached("the node does not accept low latency")
    yield from opened(player, pipe)
    pipe.longer()


@reach(State.COMPRESSED)
def _compressed(player: Player, pipe: Pipe) -> Task[None]:
    if not agreed(pipe, COMPRESSION):
        raise NotReached("the node does not accept compression")
    yield from opened(player, pipe)
    pipe.facts["compressed"] = True
