"""A router whose way to another one changes while declarations are under way ends up with what is so."""

from __future__ import annotations

import pytest

from conformance.router.linkstates import Record, write
from scapy_layers.codes import InterestMode, WhatAmI
from scapy_layers.declarations import DeclareFinal
from scapy_layers.extensions import NodeId, QoS
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, NetworkOam
from tests.conformance.router.mesh import MADE, End, Mesh

FAR = b"\xfa\x01"
OURS, HERE = 1, 2
"""What a neighbour calls us and the far node."""


class Fork:
    """A router with two neighbours, of which one or the other leads to a far node."""

    def __init__(self) -> None:
        self.mesh = Mesh()
        self.one, self.other = (self.mesh.open(WhatAmI.ROUTER) for _ in range(2))
        self.client = self.mesh.asker()
        self.client.interest("**")
        self.client.said()
        self._sn = 0

    def tell(self, *ways: End) -> None:
        """Both say with whom they have links: the far node has one with each of these."""
        self._sn += 1
        far = {HERE: FAR, 3: self.one.zid, 4: self.other.zid}
        # Who is on the way tells first, so that the far node is never out of reach in between.
        for end in dict.fromkeys((*ways, self.one, self.other)):
            names = [Record(psid=OURS, sn=0, zid=self.mesh.router.zid)]
            names += [Record(psid=psid, sn=0, zid=zid) for psid, zid in far.items() if zid != end.zid]
            back = tuple(
                0 if way is end else next(psid for psid, zid in far.items() if zid == way.zid) for way in ways
            )
            own = Record(psid=0, sn=self._sn, zid=end.zid, links=(OURS, HERE) if end in ways else (OURS,))
            end.send(write([*names, Record(psid=HERE, sn=self._sn, zid=FAR, links=back), own]))

    def far(self, kind: str = "sub", key: str = "t", *, number: int | None = None) -> Declare:
        """Returns a declaration of the far node, in answer to an interest or not."""
        said = {} if number is None else {"I": 1, "interest_id": number}
        body = MADE[kind](entity_id=0, key_suffix=key)
        return Declare(body=body, extensions=[QoS(), NodeId(node_id=HERE)], **said)


def questions(messages: list[Message]) -> list[int]:
    """Returns the ids of the questions for all there is."""
    found = [message for message in messages if isinstance(message, Interest)]
    for one in found:
        assert (one.mode, one.subscribers, one.queryables, one.tokens) == (InterestMode.CURRENT, 1, 1, 1)
    return [one.interest_id for one in found]


def finished(number: int) -> Declare:
    return Declare(I=1, interest_id=number, body=DeclareFinal())


@pytest.fixture
def fork() -> Fork:
    fork = Fork()
    fork.tell(fork.one)
    for key in ("t", "u"):
        fork.one.send(fork.far(key=key))
    assert fork.client.said() == ["+sub t", "+sub u"]
    assert not questions(fork.one.got())
    return fork


def test_what_the_new_way_does_not_confirm_is_gone(fork: Fork) -> None:
    fork.tell(fork.other)
    (number,) = questions(fork.other.got())
    assert not questions(fork.one.got())
    fork.other.send(fork.far(key="t", number=number), finished(number + 1))
    assert fork.client.said() == []
    fork.other.send(finished(number))
    assert fork.client.said() == ["-sub u"]
    fork.other.send(finished(number))
    assert fork.client.said() == []


def test_way_that_does_not_answer_is_believed_and_asked_once(fork: Fork) -> None:
    for ways in (fork.other, fork.one, fork.other, fork.one, fork.other):
        fork.tell(ways)
    assert len(questions(fork.other.got())) == 1
    assert len(questions(fork.one.got())) == 1
    assert fork.client.said() == []


def test_who_is_not_on_the_way_is_believed_and_the_way_is_asked(fork: Fork) -> None:
    fork.other.send(fork.far(key="stale"))
    assert fork.client.said() == ["+sub stale"]
    (number,) = questions(fork.one.got())
    fork.other.send(fork.far(key="stale too"))
    fork.one.send(fork.far(key="t", number=number), fork.far(key="u", number=number), finished(number))
    assert fork.client.said() == ["+sub stale too", "-sub stale", "-sub stale too"]
    # The second came while the question was under way, so it is asked again.
    assert questions(fork.one.got()) == [number + 1]


def test_node_that_was_out_of_reach_for_a_moment_is_asked_for(fork: Fork) -> None:
    fork.tell()
    assert fork.client.said() == ["-sub t", "-sub u"]
    fork.tell(fork.one)
    (number,) = questions(fork.one.got())
    fork.one.send(fork.far(key="t", number=number), finished(number))
    assert fork.client.said() == ["+sub t"]


def declarations(end: End) -> list[tuple[str, int | None]]:
    """Returns the declarations that came, each with its NodeId."""
    found: list[tuple[str, int | None]] = []
    for message in end.got():
        if not isinstance(message, Interest | NetworkOam):
            node_id = [extension.node_id for extension in message.extensions if isinstance(extension, NodeId)]
            found.append((end.word(message), node_id[0] if node_id else None))
    return found


def test_what_went_while_we_were_not_on_the_way_is_taken_back_when_we_are_again(fork: Fork) -> None:
    told = declarations(fork.other)
    assert [word for word, _ in told] == ["+sub t", "+sub u"]
    fork.tell(fork.one, fork.other)
    fork.one.undeclare("sub", 0, "u", extensions=[QoS(), NodeId(node_id=HERE)])
    assert declarations(fork.other) == []
    fork.tell(fork.one)
    number = told[0][1]
    assert declarations(fork.other) == [("+sub t", number), ("-sub u", number)]
    fork.tell(fork.one, fork.other)
    fork.tell(fork.one)
    assert declarations(fork.other) == [("+sub t", number)]


def test_router_answers_another_that_asks(fork: Fork) -> None:
    told = declarations(fork.other)
    fork.other.interest(None, mode=InterestMode.CURRENT, number=7)
    answer = declarations(fork.other)
    assert answer[:2] == [(f"!7 {word}", number) for word, number in told]
    assert answer[2:] == [("!7 done", None)]
