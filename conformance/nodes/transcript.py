"""What a correct node answers, batch by batch: recorded once from two ends of ours that speak with each other."""

from __future__ import annotations

import random
from dataclasses import dataclass

from conformance.config import Locator
from conformance.observe import Direction
from conformance.tester import SessionEnd, Tester
from scapy_layers.codes import InterestMode, WhatAmI
from scapy_layers.data import Put, Query, Reply
from scapy_layers.declarations import DeclareFinal, DeclareSubscriber
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from scapy_layers.scouting import Hello

SECONDS = 5.0
"""How long our own ends may take; they need a millisecond."""

KEY = "harness/replayed"

ROUNDS = 4
"""How often the part behind the handshake is said."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One side of a dialog.

    Attributes:
        answers: By the number of the batch that was heard: the batches that were said then.
        hello: What answers a SCOUT.
    """

    answers: tuple[tuple[bytes, ...], ...]
    hello: bytes


def record(rng: random.Random) -> Transcript:
    """Returns what a correct node says in a dialog of handshake, queries, declarations and publications."""
    tester = Tester(Locator("tcp", "127.0.0.1", 1), rng, SECONDS)
    try:
        listener = tester.listen()
        ours = tester.starting(locator=listener.locator)
        ours.begin()
        theirs = listener.accept()
        theirs.serve()
        ours.finish()
        for _ in range(ROUNDS):
            _speak(ours, theirs)
        theirs.close()
        hello = Hello(zid=theirs.session.config.zid, whatami=WhatAmI.ROUTER, locators=[str(listener.locator)])
        return Transcript(_said(tester, theirs), bytes(hello))
    finally:
        tester.close()


def _speak(ours: SessionEnd, theirs: SessionEnd) -> None:
    """Speaks a while; each thing we say is answered as a router would."""
    for message, answers in _dialog(ours):
        ours.post(message)
        theirs.expect(type(message))
        theirs.post(*answers)
        for answer in answers:
            ours.expect(type(answer))


def _dialog(ours: SessionEnd) -> list[tuple[Message, list[Message]]]:
    fence, query, interest = ours.next_id(), ours.next_id(), ours.next_id()
    value = Put(data=b"replayed")
    reply = Response(request_id=query, key_suffix=KEY, body=Reply(body=value))
    return [
        (
            Request(request_id=fence, key_suffix=f"{KEY}/fence", body=Query()),
            [ResponseFinal(request_id=fence)],
        ),
        (Declare(body=DeclareSubscriber(entity_id=1, key_suffix=KEY)), []),
        (Push(key_suffix=KEY, body=value), [Push(key_suffix=KEY, body=value)]),
        (
            Request(request_id=query, key_suffix=KEY, body=Query()),
            [reply, ResponseFinal(request_id=query)],
        ),
        (
            Interest(interest_id=interest, mode=InterestMode.CURRENT, tokens=1),
            [Declare(interest_id=interest, body=DeclareFinal())],
        ),
    ]


def _said(tester: Tester, theirs: SessionEnd) -> tuple[tuple[bytes, ...], ...]:
    """Returns what one end said, by the number of the batch that it had heard."""
    said: list[list[bytes]] = []
    for seen in tester.history.observations:
        if seen.link != theirs.link.name:
            continue
        if seen.direction is Direction.RECEIVED:
            said.append([])
        elif seen.direction is Direction.SENT and said:
            said[-1].append(seen.batch)
    return tuple(map(tuple, said))
