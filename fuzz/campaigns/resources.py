"""Many things at once, each of them allowed: what a node holds for us, and whether it lets go.

Every case says what it holds, and ends the moment it has it: the links are closed behind it, so that nothing of it
may be left. Whether memory, descriptors, threads and time come back is for the oracles that watch trends.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Source, reach
from fuzz.phrases import (
    DIGITS,
    Pieces,
    act,
    answering,
    as_fragment,
    as_frame,
    batch,
    closing,
    declare,
    final,
    frame,
    handshake,
    in_few_batches,
    init,
    interest,
    keyexpr,
    link_state,
    linked,
    listen,
    noise,
    numbered,
    push,
    query,
    queryable,
    reply,
    subscriber,
    token,
    undeclare,
)
from fuzz.player.fitting import NODE_BATCH
from fuzz.script import Do, Step
from fuzz.sequences import ENDS, Drawn, Made, given
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.codes import InterestMode, WhatAmI
from scapy_layers.data import Put, Query
from scapy_layers.declarations import (
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.message import Message
from scapy_layers.network import Push, Request, ResponseFinal

MANY = 1000
"""Declarations and the like of one case: a node needs some tens of ms for them, and what each costs adds up to what
can be measured."""

SOME = 150
"""Of what is large, or costs the node more than a message does."""

MOST_BYTES = 8 << 20
"""Bytes of one case at most; with some cases a second it is no test of the machine's memory."""

LONG_KEY = 8_000
"""Bytes of a long key; a key may have 65535."""

HALF_OPEN = 60
"""Links that stay half open: fewer than the hundred that nodes admit, so that new links are not refused with reason."""

UNTIL_DONE = (act(Do.SETTLE),)
"""Ends cases: with thousands of messages a node that is well is not done at once."""

Thing = Callable[[int, str], Message]
"""Makes a message from an id and a key."""


def _query(number: int, key: str) -> Message:
    return Request(request_id=number, key_suffix=key, extensions=[ext.Target(target=1)], body=Query())


THINGS: Mapping[str, Thing] = {
    "D_KEYEXPR": keyexpr,
    "D_SUBSCRIBER": subscriber,
    "D_QUERYABLE": queryable,
    "D_TOKEN": token,
    "INTEREST": lambda number, key: interest(number, key=key),
    "REQUEST": _query,
    "PUSH": lambda number, key: push(key),  # noqa: ARG005  (called like the others)
}
"""What a node holds something for, by kind of message."""

_BACK: Mapping[str, Callable[[int], Message]] = {
    "D_KEYEXPR": lambda number: declare(UndeclareKeyExpr(key_id=number)),
    "D_SUBSCRIBER": partial(undeclare, UndeclareSubscriber),
    "D_QUERYABLE": partial(undeclare, UndeclareQueryable),
    "D_TOKEN": partial(undeclare, UndeclareToken),
    "INTEREST": lambda number: interest(number, InterestMode.FINAL),
    "REQUEST": lambda number: ResponseFinal(request_id=number),
}
"""What takes it back."""

KEYS: Mapping[str, str] = {
    "each of its own key": f"fuzz/{DIGITS}",
    "of one key": "fuzz/k",
    "each of a long key": f"fuzz/{'k' * LONG_KEY}/{DIGITS}",
    "each of a key of many chunks": f"fuzz/{'k/' * 300}{DIGITS}",
    "each of a wide key": f"fuzz/**/{DIGITS}/**",
    "each of a key of wide chunks": f"fuzz/{'$*k' * 10}/{DIGITS}",
}


def held(kind: str, key: str, times: int, link: str = "a") -> Step:
    """Returns the step that has a node hold many of a kind; keys as in ``KEYS``, fewer when they are long."""
    form = KEYS[key]
    times = min(times, MOST_BYTES // 32 // len(form)) if len(form) > 100 else times
    times = min(times, SOME) if "*" in form else times
    return numbered(
        lambda number, _: THINGS[kind](number, form), link=link, times=times, note=f"{times} {kind} {key}"
    )


def _taken_back(kind: str, link: str, times: int) -> Step:
    back = _BACK[kind]
    return numbered(lambda number, _: back(number), link=link, times=times, note="taken back")


def _things(kind: str) -> Made:
    """Many of one kind, in several forms."""
    make = THINGS[kind]
    own = "each of its own key"
    variants: dict[str, Callable[[], Sequence[Step]]] = {
        f"{MANY} {key}" if len(KEYS[key]) < 20 else f"many {key}": given(held(kind, key, MANY))
        for key in KEYS
    }
    variants |= {
        "many in few batches": lambda: in_few_batches(
            lambda number, _: make(number, f"fuzz/{DIGITS}"), MANY, kind
        ),
        "many on each of eight links": lambda: [
            step for name in _names(8) for step in (reach(State.OPEN, name), held(kind, own, SOME, name))
        ],
        "many while another session wants to know": lambda: [
            reach(State.OPEN, "b"),
            frame(interest(1), link="b"),
            act(Do.SETTLE, "b"),
            held(kind, own, SOME),
            listen("b"),
        ],
        "many while another session has as many": lambda: [
            reach(State.OPEN, "b"),
            held("D_SUBSCRIBER", "each of a wide key", SOME, "b"),
            held("D_QUERYABLE", "each of a wide key", SOME, "b"),
            act(Do.SETTLE, "b"),
            held(kind, own, SOME),
        ],
        **{
            f"many, then the link ends: {how}": given(
                held(kind, own, MANY),
                act(how),
            )
            for how in ENDS
        },
        "many, then CLOSE": lambda: [held(kind, own, MANY), closing()],
    }
    if kind in _BACK:
        back = _BACK[kind]
        variants |= {
            "many under one id": lambda: [
                numbered(lambda _, key: make(1, key), times=MANY, note=f"{kind} of one id")
            ],
            "many, all taken back": given(held(kind, own, MANY), _taken_back(kind, "a", MANY)),
            "many, taken back, again": given(
                *[held(kind, own, MANY // 3), _taken_back(kind, "a", MANY // 3)] * 3,
            ),
            "there and back in turns": lambda: [
                batch(as_frame(make(1, "fuzz/k"), back(1)), times=MANY, note=f"{kind} there and back")
            ],
            "many taken back that never were": given(_taken_back(kind, "a", MANY)),
        }
    draw = partial(_any_things, kind)
    return Made(f"many {kind}", State.OPEN, kind, variants, "many", draw, behind=UNTIL_DONE)


def _names(count: int) -> list[str]:
    return [f"l{number}" for number in range(count)]


def _any_things(kind: str, rng: random.Random) -> Drawn:
    """Draws some kinds of things side by side, on one link or two."""
    chosen = [kind, *rng.choices(list(THINGS), k=rng.randint(1, 3))]
    steps: list[Step] = [reach(State.OPEN, "b")]
    words: list[str] = []
    for one in chosen:
        key = rng.choice(list(KEYS))
        step = held(one, key, rng.choice((10, 100, 1000)), rng.choice("ab"))
        steps.append(step)
        words.append(f"{step.note} on {step.link}")
        if one in _BACK and rng.random() < 0.4:
            steps.append(_taken_back(one, step.link, step.times))
            words.append("taken back")
    if rng.random() < 0.5:
        how = rng.choice(ENDS)
        steps.append(act(how, rng.choice("ab")))
        words.append(str(how))
    return Drawn(", ".join(words), tuple(dict.fromkeys(chosen)), steps)


# Queries that wait ----------------------------------------------------------------------------------------


def _pending() -> Made:
    waiting = [reach(State.OPEN, "b"), frame(queryable(1, "fuzz/**"), link="b"), act(Do.SETTLE, "b")]
    asked = [*waiting, held("REQUEST", "each of its own key", 1000), listen("b")]
    return Made(
        "pending queries",
        State.OPEN,
        "REQUEST",
        {
            "a thousand that nobody answers": lambda: asked,
            "a thousand of one id": lambda: [
                *waiting,
                batch(as_frame(query(1, "fuzz/k")), times=1000, note="REQUEST of one id"),
                listen("b"),
            ],
            **{
                f"a thousand, then the session that asked ends: {how}": given(*asked, act(how))
                for how in ENDS
            },
            **{
                f"a thousand, then the session that should answer ends: {how}": given(
                    *asked,
                    act(how, "b"),
                )
                for how in ENDS
            },
            "a thousand, then the queryable goes": lambda: [
                *asked,
                frame(undeclare(UndeclareQueryable, 1), link="b"),
            ],
            "a thousand with a time-out of nothing": lambda: [
                *waiting,
                _timed(0),
                listen("b"),
            ],
            "a thousand with a time-out beyond all time": lambda: [
                *waiting,
                _timed((1 << 64) - 1),
                listen("b"),
            ],
            "one that is asked of many queryables": lambda: [
                reach(State.OPEN, "b"),
                held("D_QUERYABLE", "each of its own key", 1000, "b"),
                act(Do.SETTLE, "b"),
                *[frame(_query(number, "fuzz/**")) for number in range(1, 20)],
                listen("b"),
            ],
            "one that is asked in thirty sessions": lambda: [
                *[
                    step
                    for name in _names(30)
                    for step in (
                        reach(State.OPEN, name),
                        frame(queryable(1), link=name),
                        act(Do.SETTLE, name),
                    )
                ],
                *[frame(_query(number, "fuzz/**")) for number in range(1, 50)],
            ],
            "very many replies to one": lambda: [
                *waiting,
                frame(query(5, "fuzz/**")),
                listen("b"),
                _often(answering(reply(key="fuzz/k"), link="b", note="REPLY"), MANY),
                answering(final(), link="b", note="RESPONSE_FINAL"),
                listen(),
            ],
            "large replies to one": lambda: [
                *waiting,
                frame(query(5, "fuzz/**")),
                listen("b"),
                _often(
                    answering(reply(key="fuzz/k", data=noise(40_000)), link="b", note="REPLY of 40 kB"), 100
                ),
                answering(final(), link="b", note="RESPONSE_FINAL"),
                listen(),
            ],
            "large replies to one that does not read": lambda: [
                *waiting,
                frame(query(5, "fuzz/**")),
                listen("b"),
                act(Do.PAUSE),
                _often(
                    answering(reply(key="fuzz/k", data=noise(40_000)), link="b", note="REPLY of 40 kB"), 150
                ),
                act(Do.RESET),
            ],
        },
        "pending",
        behind=UNTIL_DONE,
    )


def _often(step: Step, times: int) -> Step:
    return Step(step.do, step.link, data=step.data, times=times, note=f"{times} {step.note}")


def _timed(milliseconds: int) -> Step:
    return numbered(
        lambda number, key: Request(
            request_id=number, key_suffix=key, extensions=[ext.Timeout(timeout=milliseconds)], body=Query()
        ),
        times=1000,
        note="1000 REQUEST",
    )


# Payloads and fragments -----------------------------------------------------------------------------------


def _payloads() -> Made:
    large = NODE_BATCH - 300
    times = MOST_BYTES // 2 // large
    attached = Push(
        key_suffix="fuzz/k",
        body=Put(extensions=[ext.PutAttachment(attachment=noise(large - 100))], data=b"x"),
    )
    schema = Push(key_suffix="fuzz/k", body=Put(encoding=4, schema=noise(255), data=noise(10_000)))
    heard = [reach(State.OPEN, "b"), frame(subscriber(1, "fuzz/**"), link="b"), act(Do.SETTLE, "b")]
    return Made(
        "large payloads",
        State.OPEN,
        "PUSH",
        {
            "that nobody hears": lambda: [_often(frame(push(data=noise(large))), times)],
            "to another session": lambda: [
                *heard,
                _often(frame(push(data=noise(large), block=True)), times),
                listen("b"),
            ],
            "to ten sessions": lambda: [
                *[
                    step
                    for name in _names(10)
                    for step in (
                        reach(State.OPEN, name),
                        frame(subscriber(1), link=name),
                        act(Do.SETTLE, name),
                    )
                ],
                _often(frame(push(data=noise(large))), times // 4),
            ],
            "with large attachments": lambda: [*heard, _often(frame(attached), times), listen("b")],
            "with large schemas": lambda: [*heard, _often(frame(schema), times), listen("b")],
            "of queries": lambda: [
                reach(State.OPEN, "b"),
                frame(queryable(1), link="b"),
                act(Do.SETTLE, "b"),
                _often(
                    frame(
                        Request(
                            request_id=1,
                            key_suffix="fuzz/q",
                            body=Query(extensions=[ext.QueryBody(encoding=4, data=noise(large - 100))]),
                        )
                    ),
                    50,
                ),
                listen("b"),
            ],
            "and parameters of queries": lambda: [
                _often(
                    frame(Request(request_id=1, key_suffix="fuzz/q", body=Query(parameters="x=1;" * 10_000))),
                    50,
                )
            ],
        },
        "payload",
        behind=UNTIL_DONE,
    )


def _unfinished() -> Made:
    part = 60_000 // 2

    def everywhere(size: int, *end: Step, link: str = "a") -> list[Step]:
        return [
            step
            for lane in range(8)
            for reliable in (True, False)
            for step in (
                batch(_opening(lane, reliable), link=link, note=f"first fragment on lane {lane}"),
                batch(
                    as_fragment(noise(part), more=True, lane=lane, reliable=reliable),
                    link=link,
                    times=max(1, size // 16 // part),
                    note="fragments",
                ),
            )
        ] + list(end)

    return Made(
        "unfinished fragments",
        State.OPEN,
        "FRAGMENT",
        {
            "on every lane": lambda: everywhere(MOST_BYTES // 2),
            **{
                f"on every lane, then the link ends: {how}": partial(everywhere, MOST_BYTES // 2, act(how))
                for how in ENDS
            },
            "on every lane of ten links": lambda: [
                step
                for name in _names(10)
                for step in (reach(State.OPEN, name), *everywhere(MOST_BYTES // 16, link=name))
            ],
            "on every lane, given up": lambda: everywhere(
                MOST_BYTES // 2,
                *[
                    batch(as_fragment(b"", more=True, drop=True, lane=lane, reliable=reliable), note="drop")
                    for lane in range(8)
                    for reliable in (True, False)
                ],
            ),
            "begun anew, very often": lambda: [batch(_opening(5, True), times=MANY, note="first fragment")],
        },
        "unfinished",
        behind=UNTIL_DONE,
    )


def _opening(lane: int, reliable: bool) -> Pieces:
    return as_fragment(bytes(push())[:6], first=True, more=True, lane=lane, reliable=reliable)


# Keys that are hard to match ------------------------------------------------------------------------------


def hard_keys(size: int) -> dict[str, tuple[str, str]]:
    """Returns pairs of valid keys whose intersection is hard to decide, by words.

    Args:
        size: How many wild cards there are in each.
    """
    return {
        "many ** against many chunks": ("/".join(["**", "a"] * size), "/".join(["a"] * (2 * size) + ["b"])),
        "many ** against many **": (
            "/".join(["**", "a"] * size + ["x"]),
            "/".join(["a", "**"] * size + ["y"]),
        ),
        "many * against many **": ("/".join(["*"] * (2 * size)), "/".join(["**", "a"] * size + ["b"])),
        "many $* against a long chunk": ("fuzz/" + "$*a" * size + "$*b", "fuzz/" + "a" * (20 * size)),
        "many $* against many $*": ("fuzz/" + "$*a" * size + "$*x", "fuzz/" + "a$*" * size + "y"),
        "** and $* in turns": ("/".join(["**", "$*a$*"] * size), "/".join(["aaab"] * (2 * size))),
    }


SIZES = (2, 4, 6, 8, 12, 16)
"""Numbers of wild cards in a key: in steps, so that it shows how the time grows with them."""


def _matching() -> Made:
    variants: dict[str, Callable[[], Sequence[Step]]] = {}
    for size in SIZES:
        for words, (wide, other) in hard_keys(size).items():
            variants |= {
                f"{words}, {size}: publication": given(
                    reach(State.OPEN, "b"),
                    frame(subscriber(1, wide), link="b"),
                    act(Do.SETTLE, "b"),
                    frame(push(other)),
                ),
                f"{words}, {size}: declarations": given(
                    frame(subscriber(1, wide)),
                    frame(subscriber(2, other)),
                    frame(interest(1, key=wide)),
                    frame(query(2, other)),
                ),
            }
    variants |= {
        "all against all": lambda: [
            reach(State.OPEN, "b"),
            held("D_SUBSCRIBER", "each of a wide key", SOME, "b"),
            act(Do.SETTLE, "b"),
            held("D_SUBSCRIBER", "each of a wide key", SOME),
            frame(push("fuzz/**")),
        ],
        "publications to wide keys": lambda: [
            reach(State.OPEN, "b"),
            held("D_SUBSCRIBER", "each of its own key", 1000, "b"),
            act(Do.SETTLE, "b"),
            *[frame(push("fuzz/**")) for _ in range(20)],
            *[frame(push("**")) for _ in range(20)],
        ],
        "interests in everything": lambda: [
            reach(State.OPEN, "b"),
            held("D_TOKEN", "each of its own key", SOME, "b"),
            act(Do.SETTLE, "b"),
            *[frame(interest(number, key="**")) for number in range(1, 6)],
            listen(),
        ],
    }
    return Made(
        "keys that are hard to match",
        State.OPEN,
        "PUSH",
        variants,
        "keys",
        _any_keys,
        kind=lambda words: words.partition(",")[0],
        behind=UNTIL_DONE,
    )


def _any_keys(rng: random.Random) -> Drawn:
    """Draws wide keys that share an alphabet of two."""

    def key() -> str:
        chunks = [
            rng.choice(("a", "b", "*", "**", "a$*", "$*b", "a$*b", "aab")) for _ in range(rng.randint(1, 14))
        ]
        kept = [
            one for index, one in enumerate(chunks) if one != "**" or index == 0 or chunks[index - 1] != "**"
        ]
        # A single wild card may not follow a double one in a canonical key.
        return "/".join(
            "a" if one == "*" and index and kept[index - 1] == "**" else one for index, one in enumerate(kept)
        )

    keys = [key() for _ in range(rng.randint(2, 12))]
    steps = [reach(State.OPEN, "b")]
    steps += [frame(subscriber(number, one), link="b") for number, one in enumerate(keys, 1)]
    steps += [act(Do.SETTLE, "b"), *[frame(push(key())) for _ in range(5)], frame(interest(1, key=key()))]
    return Drawn(f"{len(keys)} keys like {keys[0]}", ("drawn",), steps)


# Links ----------------------------------------------------------------------------------------------------


def _links() -> Made:
    names = _names(HALF_OPEN)
    return Made(
        "links",
        State.CONNECTED,
        "INIT",
        {
            "half open, nothing said": lambda: [*linked(State.CONNECTED, *names), *handshake()],
            "half open behind INIT": lambda: [*linked(State.INIT_ACKED, *names), *handshake()],
            "half open, then all end": lambda: [
                *linked(State.INIT_ACKED, *names),
                *[act(ENDS[index % len(ENDS)], name) for index, name in enumerate(names)],
                *handshake(),
            ],
            "sessions side by side": lambda: [*linked(State.OPEN, *names), *handshake()],
            "sessions one after the other": lambda: [
                *[
                    step
                    for index in range(100)
                    for step in (reach(State.OPEN, "b"), act(ENDS[index % len(ENDS)], "b"))
                ],
                *handshake(),
            ],
            "sessions with declarations one after the other": lambda: [
                *[
                    step
                    for index in range(30)
                    for step in (
                        reach(State.OPEN, "b"),
                        held("D_SUBSCRIBER", "each of its own key", 50, "b"),
                        held("D_TOKEN", "each of its own key", 50, "b"),
                        act(ENDS[index % len(ENDS)], "b"),
                    )
                ],
                *handshake(),
            ],
            "sessions that nobody keeps alive": lambda: [
                *[step for name in names for step in (reach(State.OPEN, name), act(Do.PAUSE, name))],
                *handshake(),
            ],
            "INIT of ever new ZenohIDs": lambda: [
                *[
                    step
                    for _ in range(100)
                    for step in (reach(State.CONNECTED, "b"), init("b"), act(Do.RESET, "b"))
                ],
                *handshake(),
            ],
        },
        "links",
    )


def _network() -> Made:
    def told(role: int, *steps: Step) -> Callable[[], Sequence[Step]]:
        return lambda: [*handshake(role=role), *steps]

    variants: dict[str, Callable[[], Sequence[Step]]] = {}
    for words, role in (("a router", WhatAmI.ROUTER), ("a peer", WhatAmI.PEER)):
        variants |= {
            f"{words} that knows two hundred others": told(role, frame(link_state(1, 200), lane=0)),
            f"{words} that tells the same again and again": told(
                role, *[frame(link_state(number, 20), lane=0) for number in range(1, 50)]
            ),
            f"{words} whose others come and go": told(
                role, *[frame(link_state(number, number % 2 * 100), lane=0) for number in range(1, 30)]
            ),
            f"{words} with many declarations": told(
                role,
                frame(link_state(1), lane=0),
                held("D_SUBSCRIBER", "each of its own key", 1000),
                held("D_TOKEN", "each of its own key", 1000),
            ),
        }
    return Made("the network as it is told", State.CONNECTED, "OAM (network)", variants, "network")


def _sources(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (nothing depends on it)
    for kind in THINGS:
        yield _things(kind)
    yield _pending()
    yield _payloads()
    yield _unfinished()
    yield _matching()
    yield _links()
    yield _network()


CAMPAIGN = Campaign(
    "resources",
    "thousands of declarations, aliases, interests, pending queries, links and fragments, large keys and payloads",
    _sources,
    weight=0.5,
)
