"""Much of it: large payloads, many subscriptions, many messages, small batches, small sequence numbers."""

from __future__ import annotations

import pytest

from tests.conformance.refnode.real.clients import big, digest, text, texts
from tests.conformance.refnode.real.conftest import Connect, StartNode
from tests.conformance.refnode.real.nodes import RunningNode, Transport, Wanted

PATIENCE = 60.0
"""Seconds for what is large on a busy machine."""

COUNT = 10_000

SIZES = [100_000, 5_000_000, 50_000_000]


@pytest.mark.spot_check
@pytest.mark.parametrize("size", SIZES)
def test_large_payload_arrives_as_it_was(node: RunningNode, connect: Connect, size: int) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("large/*")
    here.put("large/a", big(size), congestion_control="BLOCK")
    assert subscriber.next(PATIENCE)["payload"] == digest(size)


@pytest.mark.parametrize("size", SIZES[:2])
def test_large_question_and_large_answer_arrive_as_they_were(
    node: RunningNode, connect: Connect, size: int
) -> None:
    here, there = connect(node), connect(node)
    queryable = there.queryable("large/*", {"kind": "PUT", "payload": big(size, seed=2)})
    [reply] = here.get("large/a", payload=big(size), within=PATIENCE, timeout=PATIENCE)
    assert queryable.next()["payload"] == digest(size)
    assert reply["payload"] == digest(size, seed=2)


def test_large_payloads_and_small_ones_do_not_mix(node: RunningNode, connect: Connect) -> None:
    here, other, there = connect(node), connect(node), connect(node)
    large, small = there.subscribe("mix/large"), there.subscribe("mix/small/*")
    for seed in range(5):
        here.put("mix/large", big(1_000_000, seed), congestion_control="BLOCK", priority="DATA_LOW")
        here.put_many("mix/small/{n}", 20, first=20 * seed, congestion_control="BLOCK", priority="REAL_TIME")
        other.put("mix/large", big(300_000, seed + 10), congestion_control="BLOCK")
    assert texts(small.take(100, PATIENCE)) == [str(number) for number in range(100)]
    arrived = [event["payload"] for event in large.take(10, PATIENCE)]
    assert [told for told in arrived if told["size"] == 1_000_000] == [digest(1_000_000, n) for n in range(5)]
    assert [told for told in arrived if told["size"] == 300_000] == [
        digest(300_000, n + 10) for n in range(5)
    ]


@pytest.mark.spot_check
def test_thousand_subscriptions_of_a_session_hear_what_is_theirs(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    subscribers = there.subscribe_many("thousand/{n}/*", 1000)
    here.put_many("thousand/{n}/a", 1000, congestion_control="BLOCK")
    samples = subscribers.take(1000, PATIENCE)
    assert texts(samples) == [str(sample["of"]) for sample in samples] == [str(n) for n in range(1000)]
    subscribers.undeclare()
    last = there.subscribe("thousand/**")
    here.put_many("thousand/{n}/a", 10)
    assert len(last.take(10)) == 10
    assert subscribers.take(1, within=0) == []


def test_thousand_subscriptions_of_four_sessions_hear_what_is_theirs(
    node: RunningNode, connect: Connect
) -> None:
    here = connect(node)
    subscribers = [connect(node).subscribe_many("four/{n}", 250, first=250 * n) for n in range(4)]
    here.put_many("four/{n}", 1000, congestion_control="BLOCK")
    for number, mine in enumerate(subscribers):
        assert [sample["of"] for sample in mine.take(250, PATIENCE)] == list(
            range(250 * number, 250 * number + 250)
        )
    here.put("four/*", "all")
    for mine in subscribers:
        assert {text(sample) for sample in mine.take(250, PATIENCE)} == {"all"}


@pytest.mark.spot_check
def test_many_small_puts_arrive_in_order_without_loss(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("small")
    here.put_many("small", COUNT, congestion_control="BLOCK")
    assert texts(subscriber.take(COUNT, PATIENCE)) == [str(number) for number in range(COUNT)]


@pytest.mark.parametrize("proposed", ["client", "node", "both"])
def test_small_batches_carry_large_messages(start_node: StartNode, connect: Connect, proposed: str) -> None:
    small = Transport(batch_size=256)
    node = start_node(Wanted(transport=small if proposed != "client" else Transport()))
    config = small.config if proposed != "node" else {}
    here, there = connect(node, **config), connect(node)
    subscriber = there.subscribe("batch/**")
    queryable = here.queryable("question/**", {"kind": "PUT", "payload": big(3000, seed=2)})
    for seed in range(10):
        here.put("batch/a", big(10_000, seed), congestion_control="BLOCK")
    assert [event["payload"] for event in subscriber.take(10)] == [digest(10_000, seed) for seed in range(10)]
    here.put_many("batch/{n}", 300, congestion_control="BLOCK")
    assert texts(subscriber.take(300)) == [str(number) for number in range(300)]
    [reply] = there.get("question/a", payload=big(5000))
    assert reply["payload"] == digest(3000, seed=2)
    assert queryable.next()["payload"] == digest(5000)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("proposed", ["client", "node"])
def test_sequence_numbers_start_over(
    start_node: StartNode, connect: Connect, bits: int, proposed: str
) -> None:
    few = Transport(fsn=bits)
    node = start_node(Wanted(transport=few if proposed == "node" else Transport()))
    config = few.config if proposed == "client" else {}
    here, there = connect(node, **config), connect(node, **config)
    subscriber = there.subscribe("wrap/*")
    # Express: a frame of its own for each, and so a number of its own.
    here.put_many("wrap/a", 1500, congestion_control="BLOCK", express=True)
    assert texts(subscriber.take(1500, PATIENCE)) == [str(number) for number in range(1500)]
    # Fragments take numbers too.
    here.put("wrap/large", big(2_000_000), congestion_control="BLOCK")
    assert subscriber.next(PATIENCE)["payload"] == digest(2_000_000)
