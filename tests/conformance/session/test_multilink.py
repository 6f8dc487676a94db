"""Sessions of several links, as the machines of their links see it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from conformance.session.events import Received
from conformance.session.machine import Session
from conformance.session.policy import Policy
from conformance.session.registry import Registry
from conformance.session.rsa import PrivateKey, new_key
from conformance.session.states import State
from scapy_layers.batch import contents
from scapy_layers.codes import CloseReason
from scapy_layers.data import Put
from scapy_layers.extensions import MultiLinkAck, MultiLinkInitAck, MultiLinkInitSyn, MultiLinkOpenSyn
from scapy_layers.message import Message
from scapy_layers.network import Push
from scapy_layers.transport import Close, Init, Open
from tests.conformance.session.pair import Pair, end

OURS, THEIRS, OTHER = (new_key(random.Random(seed)) for seed in (1, 2, 3))


class Node:
    """What connects, and what accepts: each with a registry of its own."""

    def __init__(self, max_links: int = 2, policy: Policy | None = None) -> None:
        self.connecting, self.accepting = Registry(), Registry()
        self._max_links = max_links
        self._policy = policy
        self._seed = 10

    def link(self, key: PrivateKey | None = THEIRS, **config: Any) -> Pair:
        """Makes one more link."""
        self._seed += 2
        one = end(
            b"\1\1", seed=self._seed, registry=self.connecting, max_links=9 if key else 1, key=key, **config
        )
        two = end(
            b"\2\2",
            seed=self._seed + 1,
            registry=self.accepting,
            max_links=self._max_links,
            key=OURS,
            policy=self._policy,
        )
        return Pair(one, two).start()


def said(joined: Pair, by: Session, kind: type[Message]) -> list[type]:
    """Returns the classes of the extensions of a message."""
    batches = [contents(raw).messages[0] for session, raw in joined.travelled if session is by]
    message = next(one for one in batches if isinstance(one, kind))
    return [type(extension) for extension in message.extensions or []]


def put(text: str) -> Push:
    return Push(key_suffix=text, body=Put(data=b"1"))


def test_both_ends_prove_that_they_may_have_several_links() -> None:
    joined = Node().link()
    assert joined.open
    assert said(joined, joined.connecting, Init) == [MultiLinkInitSyn]
    assert said(joined, joined.accepting, Init) == [MultiLinkInitAck]
    assert said(joined, joined.connecting, Open) == [MultiLinkOpenSyn]
    assert said(joined, joined.accepting, Open) == [MultiLinkAck]


def test_nothing_is_said_of_several_links_to_whoever_does_not_ask() -> None:
    joined = Node().link(key=None)
    assert joined.open
    assert said(joined, joined.accepting, Init) == said(joined, joined.accepting, Open) == []


def test_second_link_with_the_same_key_joins_and_a_third_is_refused() -> None:
    node = Node(max_links=2)
    first, second, third = (node.link() for _ in range(3))
    assert first.open
    assert second.open
    assert (first.accepting.joined, second.accepting.joined) == (False, True)
    closed = third.closed(third.connecting)
    assert closed is not None
    assert closed.reason == CloseReason.MAX_LINKS


@pytest.mark.parametrize("key", [None, OTHER], ids=["none", "another"])
def test_second_link_without_the_key_of_the_first_is_refused(key: PrivateKey | None) -> None:
    node = Node()
    first, second = node.link(), node.link(key=key)
    assert first.open
    closed = second.closed(second.connecting)
    assert closed is not None
    assert closed.reason == CloseReason.MAX_LINKS


def test_second_link_with_other_sizes_is_refused() -> None:
    node = Node()
    first, second = node.link(), node.link(offer={"batch_size": 512})
    assert first.open
    assert not second.open


def test_whoever_does_not_own_the_key_it_named_is_refused() -> None:
    class Liar(Session):
        def _take_init_ack(self, message: Message) -> None:
            for extension in message.extensions or []:
                if isinstance(extension, MultiLinkInitAck):
                    ciphered = THEIRS.public.cipher(b"another!", random.Random(1))
                    extension.nonce = ciphered
            super()._take_init_ack(message)

    node = Node()
    honest = node.link()
    assert honest.open
    template = end(b"\3\3", registry=Registry(), max_links=2, key=THEIRS)
    liar = Liar(template.config, rng=random.Random(5), registry=Registry())
    joined = Pair(liar, end(b"\2\2", registry=node.accepting, max_links=2, key=OURS)).start()
    assert joined.accepting.state is State.CLOSED


def test_links_of_a_session_count_together() -> None:
    node = Node()
    first, second = node.link(), node.link()
    for joined, text in ((first, "a"), (second, "b"), (first, "c")):
        for sender in (joined.connecting, joined.accepting):
            sender.send(put(text))
        joined.run()
    for joined, keys in ((first, ["a", "c"]), (second, ["b"])):
        for taker in (joined.connecting, joined.accepting):
            seen = [event.message.key_suffix for event in joined.seen[taker] if isinstance(event, Received)]
            assert seen == keys
    frames = [
        contents(raw).messages[0].sn
        for joined in (first, second)
        for session, raw in joined.travelled
        if session is joined.accepting and contents(raw).messages[0].name == "FRAME"
    ]
    assert sorted(frames) == list(range(min(frames), min(frames) + 3))


def test_second_link_announces_the_first_number_of_the_session() -> None:
    node = Node()
    first, second = node.link(), node.link()
    assert second.connecting.peer is not None
    assert first.connecting.peer is not None
    assert second.connecting.peer.initial_sn == first.connecting.peer.initial_sn


def test_session_goes_on_when_its_first_link_has_ended() -> None:
    node = Node()
    first, second = node.link(), node.link()
    first.connecting.close()
    first.run()
    second.connecting.send(put("a"))
    second.run()
    assert [one.key_suffix for one in second.received(second.accepting)] == ["a"]
    assert list(node.accepting.present) == [b"\1\1"]
    assert node.link().accepting.joined
    assert not node.link(key=None).open


@pytest.mark.parametrize("whole", [True, False])
def test_close_says_whether_all_links_end(whole: bool) -> None:
    joined = Node().link()
    (closed,) = joined.accepting.receive(bytes(Close(S=int(whole), reason=0)), 0.0)
    assert closed.all_links is whole  # type: ignore[union-attr]


def test_lease_that_is_over_ends_one_link() -> None:
    joined = Node().link()
    (closed,) = joined.accepting.tick(1e6)
    assert closed.all_links is False  # type: ignore[union-attr]
