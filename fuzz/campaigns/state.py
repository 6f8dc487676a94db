"""Order, repetition, omission, replay, and several sessions at once.

Valid exchanges and what operators make of them (``fuzz.sequences``); beside them what no operator brings about:
cookies and ZenohIDs of other links, numbers around their end, answers that nobody waits for, peers that do not
read, many links at once, and every kind of message behind every other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.counting import numbers
from fuzz.campaigns.several import MOST_LINKS, answers, churn, crowd, many_links, slow
from fuzz.cases import THEN, Case, Cause, Edge, Fixed, Source, reach, send
from fuzz.phrases import (
    act,
    batch,
    frame,
    handshake,
    init,
    kinds,
    linked,
    listen,
    opening,
    push,
    subscriber,
    together,
)
from fuzz.scenarios import scenarios
from fuzz.script import Do, Step
from fuzz.sequences import ENDS, Ordered, flat
from fuzz.states import State
from scapy_layers.codes import WhatAmI
from scapy_layers.transport import Init, Open

NOISES = 60
"""So many cookies of noise follow each other, each on a link of its own."""

NOISE_SIZES = (16, 32, 48, 49, 64)
"""Bytes: blocks of ciphers, and with a length in front."""


# What no operator brings about ------------------------------------------------------------------------------


def _cookies() -> Fixed:
    twice = [*linked(State.CONNECTED, "b"), init(), listen(), init("b"), listen("b")]
    return Fixed(
        "cookies and ZenohIDs",
        State.CONNECTED,
        "OPEN",
        {
            "the cookie of another link": [*twice, opening(cookie="cookie@b"), listen()],
            "cookies the other way round": [
                *twice,
                opening(cookie="cookie@b"),
                opening("b", cookie="cookie@a"),
                listen(),
            ],
            "the cookie of a link that is closed": [
                *twice,
                act(Do.CLOSE, "b"),
                opening(cookie="cookie@b"),
                listen(),
            ],
            "the cookie of a session": [
                *linked(State.OPEN, "b"),
                init(),
                listen(),
                opening(cookie="cookie@b"),
                listen(),
            ],
            "the same cookie twice": [*handshake(), opening(), listen()],
            "no INIT, the cookie of another link": [
                *linked(State.CONNECTED, "b"),
                init("b"),
                listen("b"),
                opening(cookie="cookie@b"),
                listen(),
            ],
            "INIT and OPEN with the cookie of another link in one batch": [
                *linked(State.INIT_ACKED, "b"),
                _batched(init(), opening(cookie="cookie@b")),
                listen(),
            ],
            "INIT twice, then OPEN": [init(), listen(), init(), listen(), opening(), listen()],
            "INIT twice in one batch": [_batched(init(), init()), listen(), opening(), listen()],
            "OPEN twice in one batch": [init(), listen(), _batched(opening(), opening()), listen()],
            "OPEN and a FRAME in one batch": [init(), listen(), _batched(opening(), frame(push())), listen()],
            "a FRAME before OpenAck": [init(), listen(), opening(), frame(push()), listen()],
            "a FRAME instead of OPEN": [init(), listen(), frame(push()), opening(), listen()],
            "InitAck of ours": [
                batch(Init(A=1, zid=bytes(range(1, 17)), cookie=b"ours"), note="InitAck"),
                listen(),
            ],
            "OpenAck of ours": [init(), listen(), batch(Open(A=1, initial_sn=1), note="OpenAck"), listen()],
            "the same ZenohID on two links at once": [
                *linked(State.CONNECTED, "b"),
                init(),
                init("b", zid="zid@a"),
                listen(),
                listen("b"),
                opening(),
                opening("b"),
                listen(),
                listen("b"),
                frame(push()),
                frame(push(), link="b"),
            ],
            "the ZenohID of a session": [
                *linked(State.OPEN, "b"),
                frame(subscriber(1), link="b"),
                init(zid="zid@b"),
                listen(),
                opening(),
                listen(),
                frame(push(), link="b"),
            ],
            "the ZenohID of a session with another role": [
                *linked(State.OPEN, "b"),
                init(zid="zid@b", role=WhatAmI.PEER),
                listen(),
                opening(),
                listen(),
            ],
            "the ZenohID of a session that ends meanwhile": [
                *linked(State.OPEN, "b"),
                frame(subscriber(1), link="b"),
                init(zid="zid@b"),
                listen(),
                act(Do.RESET, "b"),
                opening(),
                listen(),
                frame(subscriber(1)),
            ],
            "the ZenohID of a session again and again": [
                *linked(State.OPEN, "b"),
                *flat(
                    (reach(State.CONNECTED, "a"), init(zid="zid@b"), listen(), opening(), act(how))
                    for how in (*ENDS, *ENDS)
                ),
                frame(push(), link="b"),
            ],
        },
        "handshake",
    )


def _batched(first: Step, second: Step) -> Step:
    both = together(first, second)
    assert both is not None
    return both


def _noise() -> Fixed:
    """Cookies that nobody sent: what a node that encrypts its own reads from one of them is left to chance."""
    rng = random.Random(NOISES)

    def some(size: int) -> list[Step]:
        tries = [
            [
                *linked(State.INIT_ACKED, "a"),
                batch(Open(T=1, lease=60, initial_sn=1, cookie=rng.randbytes(size)), note="OPEN"),
                listen(),
            ]
            for _ in range(NOISES)
        ]
        return [step for one in tries for step in one]

    variants = {f"{NOISES} of {size} bytes": some(size) for size in NOISE_SIZES}
    return Fixed("cookies of noise", State.CONNECTED, "OPEN", variants, "noise")


def _half_open() -> Fixed:
    """Handshakes that stop halfway; the links end with the case."""
    names = [f"h{number}" for number in range(MOST_LINKS)]
    return Fixed(
        "handshakes left half done",
        State.CONNECTED,
        "INIT",
        {
            "many links that say nothing": [*linked(State.CONNECTED, *names), *handshake()],
            "many links behind INIT": [*linked(State.INIT_ACKED, *names), *handshake()],
            "many links behind half an INIT": [
                *flat((reach(State.CONNECTED, name), _cut(init(name))) for name in names),
                *handshake(),
            ],
            "many links behind half an OPEN": [
                *flat((reach(State.INIT_ACKED, name), _cut(opening(name))) for name in names),
                *handshake(),
            ],
            "many links behind one byte of a length": [
                *flat(
                    (reach(State.CONNECTED, name), send(b"\x10", link=name, note="one byte"))
                    for name in names
                ),
                *handshake(),
            ],
            "many links whose OPEN is never read": [
                *flat(
                    (reach(State.INIT_ACKED, name), act(Do.PAUSE, name), opening(name), act(Do.RESET, name))
                    for name in names
                ),
                *handshake(),
            ],
            "INIT again and again on one link": [*([init()] * MOST_LINKS), listen(), opening(), listen()],
            "links that end behind INIT, each in another way": [
                *flat(
                    (reach(State.CONNECTED, name), init(name), act(ENDS[index % len(ENDS)], name))
                    for index, name in enumerate(names)
                ),
                *handshake(),
            ],
            "links that end behind OPEN, each in another way": [
                *flat(
                    (reach(State.INIT_ACKED, name), opening(name), act(ENDS[index % len(ENDS)], name))
                    for index, name in enumerate(names)
                ),
                *handshake(),
            ],
        },
        "half open",
    )


def _cut(step: Step) -> Step:
    pieces = step.data.pieces
    first = pieces[1]
    assert isinstance(first, bytes)
    return send(
        "size|length says 127", first[: len(first) // 2 + 1], link=step.link, note=f"half of {step.note}"
    )


# Pairs ------------------------------------------------------------------------------------------------------


class Behind(Source):
    """One kind of message behind each kind, in a session.

    Args:
        kind: The second message, by the name of ``phrases.kinds``.
        state: Where the link is.
    """

    sequence = True

    def __init__(self, kind: str, state: State = State.OPEN) -> None:
        self.name = f"{kind} behind each"
        self.kind = kind
        self.message = kind
        self.state = state

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """See Source."""
        firsts = list(kinds())
        for first in rng.sample(firsts, len(firsts)):
            yield Case(
                self,
                self.message,
                "",
                f"{self.kind} behind {first}",
                "pair of messages",
                (Cause(self.name, "", f"behind {first}"),),
                (self._edge(first),),
                plan=(first, self.kind),
            )

    def more(self, rng: random.Random) -> Iterator[Case]:
        """Yields longer chains that end with it."""
        firsts = list(kinds())
        while True:
            before = [rng.choice(firsts) for _ in range(rng.randint(2, 6))]
            yield Case(
                self,
                self.message,
                "",
                f"{self.kind} behind {', '.join(before)}",
                "chain of messages",
                tuple(Cause(self.name, "", f"behind {first}") for first in before[-1:]),
                plan=(*before, self.kind),
            )

    def _edge(self, first: str) -> Edge:
        return Edge(self.kind, THEN, first)

    def edges(self) -> Iterable[Edge]:
        """See Source."""
        return [self._edge(first) for first in kinds()]

    def steps(self, case: Case) -> tuple[Step, ...]:
        """See Source."""
        return tuple(kinds()[kind]("a") for kind in case.plan)


def _sources(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (nothing depends on it)
    known = scenarios()
    for scenario in known:
        yield Ordered(scenario, known)
    yield _cookies()
    yield _noise()
    yield _half_open()
    yield from numbers()
    yield answers()
    yield churn()
    yield slow()
    yield many_links()
    yield crowd()
    for kind in kinds():
        yield Behind(kind)


CAMPAIGN = Campaign(
    "state",
    "reordered, repeated, omitted and replayed messages, several sessions at once, peers that do not read",
    _sources,
)
