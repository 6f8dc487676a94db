"""What must hold for every order of deliveries that the text allows, across wraps, and within bounds."""

from __future__ import annotations

import random
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.session import sequence
from conformance.session.events import Received
from conformance.session.machine import Session
from conformance.session.policy import Dice, Policy
from scapy_layers.batch import BatchReader, prefixed
from scapy_layers.catalogue import decode_batch
from scapy_layers.data import Put
from scapy_layers.extensions import Drop, First, Lane
from scapy_layers.network import Push
from scapy_layers.transport import Fragment, Frame, KeepAlive
from tests.conformance.session.pair import Pair, pair

LaneKey = tuple[bool, int]

lanes = st.tuples(st.booleans(), st.integers(0, 7))
traffic = st.lists(st.tuples(lanes, st.integers(0, 600)), min_size=1, max_size=25)


def put(number: int, size: int = 0) -> Push:
    return Push(key_suffix=f"n/{number}", body=Put(data=bytes(size)))


def number_of(event: Received) -> int:
    return int(event.message.key_suffix.split("/")[1])


def queued(joined: Pair, messages: list[tuple[LaneKey, int]]) -> dict[LaneKey, list[bytes]]:
    """Sends numbered messages and returns the batches that carry them, lane by lane."""
    batches: dict[LaneKey, list[bytes]] = defaultdict(list)
    for number, (lane, size) in enumerate(messages):
        joined.connecting.send(put(number, size), reliable=lane[0], priority=lane[1])
        batches[lane] += joined.connecting.batches_to_send(0.0)
    return batches


def deliver(session: Session, batches: Iterator[bytes]) -> dict[LaneKey, list[int]]:
    came: dict[LaneKey, list[int]] = defaultdict(list)
    for batch in batches:
        for event in session.receive(batch, 0.0):
            if isinstance(event, Received):
                came[event.reliable, event.priority].append(number_of(event))
    return came


def merged(batches: dict[LaneKey, list[bytes]], rng: random.Random) -> Iterator[bytes]:
    """Yields all batches, lanes in any order among each other, each lane in its own order."""
    waiting = {lane: list(reversed(each)) for lane, each in batches.items() if each}
    while waiting:
        lane = rng.choice(sorted(waiting))
        yield waiting[lane].pop()
        if not waiting[lane]:
            del waiting[lane]


@given(traffic, st.integers(0, 1), st.integers(0, 2), st.randoms(use_true_random=False))
def test_lanes_may_overtake_each_other_and_lose_nothing(
    messages: list[tuple[LaneKey, int]], patch: int, fsn: int, rng: random.Random
) -> None:
    joined = pair(qos=True, patch=patch, fsn=fsn, batch_size=128)
    batches = queued(joined, messages)
    came = deliver(joined.accepting, merged(batches, rng))
    expected: dict[LaneKey, list[int]] = defaultdict(list)
    for number, (lane, _) in enumerate(messages):
        expected[lane].append(number)
    assert came == expected


@given(traffic, st.integers(0, 1), st.randoms(use_true_random=False), st.floats(0, 0.6))
def test_loss_repetition_and_disorder_never_give_a_wrong_message(
    messages: list[tuple[LaneKey, int]], patch: int, rng: random.Random, loss: float
) -> None:
    joined = pair(qos=True, patch=patch, batch_size=128)
    sizes = {number: size for number, (_, size) in enumerate(messages)}
    line = [batch for each in queued(joined, messages).values() for batch in each if rng.random() >= loss]
    line += [batch for batch in line if rng.random() < 0.3]
    rng.shuffle(line)
    seen: list[int] = []
    for batch in line:
        for event in joined.accepting.receive(batch, 0.0):
            if isinstance(event, Received):
                assert len(event.message.body.data) == sizes[number_of(event)]
                seen.append(number_of(event))
    assert len(seen) == len(set(seen))
    assert joined.open


@given(traffic, st.randoms(use_true_random=False))
def test_lost_batches_cost_only_the_messages_they_carried(
    messages: list[tuple[LaneKey, int]], rng: random.Random
) -> None:
    joined = pair(qos=True, patch=1, batch_size=128)
    kept: list[bytes] = []
    whole: list[int] = []
    for number, (lane, size) in enumerate(messages):
        joined.connecting.send(put(number, size), reliable=lane[0], priority=lane[1])
        batches = joined.connecting.batches_to_send(0.0)
        arriving = [batch for batch in batches if rng.random() < 0.8]
        kept += arriving
        if len(arriving) == len(batches):
            whole.append(number)
    came = deliver(joined.accepting, iter(kept))
    assert sorted(number for each in came.values() for number in each) == whole


@given(traffic, st.data())
def test_any_cut_of_the_stream_gives_the_same_events(
    messages: list[tuple[LaneKey, int]], data: st.DataObject
) -> None:
    joined = pair(qos=True, patch=1, batch_size=200)
    for number, (lane, size) in enumerate(messages):
        joined.connecting.send(put(number, size), reliable=lane[0], priority=lane[1])
    stream = b"".join(prefixed(batch) for batch in joined.connecting.batches_to_send(0.0))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader = BatchReader()
    came: list[int] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        for batch in reader.feed(stream[start:end]):
            came += [number_of(e) for e in joined.accepting.receive(batch, 0.0) if isinstance(e, Received)]
    assert came == list(range(len(messages)))


class NearTheWrap(Policy):
    """Counts from shortly below the largest number."""

    def initial_sn(self, resolution: int, rng: Dice) -> int:
        del rng
        return sequence.mask(resolution) - 50


@pytest.mark.parametrize("fsn", range(4))
@pytest.mark.parametrize("patch", [0, 1])
def test_long_run_crosses_the_wrap_of_every_resolution(fsn: int, patch: int) -> None:
    joined = pair({"policy": NearTheWrap()}, {"policy": NearTheWrap()}, fsn=fsn, patch=patch, batch_size=64)
    assert joined.open
    for number in range(400):
        joined.connecting.send(put(number, number % 90))
        joined.accepting.send(put(number, number % 80))
        joined.run()
    for session in (joined.accepting, joined.connecting):
        events = [event for event in joined.seen[session] if isinstance(event, Received)]
        assert [number_of(event) for event in events] == list(range(400))
        assert joined.dropped(session) == []


def test_long_run_through_the_whole_range_of_the_smallest_resolutions() -> None:
    for fsn, rounds in ((0, 1000), (1, 16_500)):
        joined = pair(fsn=fsn)
        sn = joined.connecting.initial_sn
        largest = 0
        for number in range(rounds):
            frame = Frame(R=1, sn=sn, messages=[b"\x1a\x01"])
            largest = max(largest, sn)
            (event,) = joined.accepting.receive(bytes(frame), 0.0)
            assert isinstance(event, Received), number
            sn = sequence.following(sn, fsn)
        assert largest == sequence.mask(fsn)


def endless(joined: Pair, count: int, data: bytes) -> list[bytes]:
    """Returns the first fragments of a message that never ends."""
    batches = []
    for number in range(count):
        chain = [First()] if number == 0 else []
        sn = joined.connecting.take_sn()
        batches.append(bytes(Fragment(R=1, M=1, sn=sn, extensions=chain, data=data)))
    return batches


@pytest.mark.parametrize("patch", [0, 1])
@pytest.mark.parametrize(("count", "size"), [(100, 60_000), (5000, 1), (5000, 0)])
def test_endless_fragments_take_bounded_memory(patch: int, count: int, size: int) -> None:
    joined = pair({}, {"max_message": 100_000}, patch=patch)
    batches = endless(joined, count, bytes(size))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for batch in batches:
            assert joined.accepting.receive(batch, 0.0) == []
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # Far less than an object for each fragment would take.
    assert grown < 150_000
    assert joined.open


def test_fragments_on_all_lanes_share_one_bound() -> None:
    most = 100_000
    joined = pair({}, {"max_message": most}, qos=True, patch=1)
    session = joined.accepting
    for number in range(4):
        for priority in range(8):
            for reliable in (True, False):
                sn = joined.connecting.take_sn(reliable=reliable, priority=priority)
                chain = [First()] if number == 0 else []
                fragment = Fragment(R=int(reliable), M=1, sn=sn, extensions=chain, data=bytes(10_000))
                if priority != 5:
                    fragment.extensions.append(Lane(priority=priority))
                session.receive(bytes(fragment), 0.0)
                assert session._inbox is not None
                assert session._inbox.held <= most
    joined.connecting.send(put(1))
    joined.run()
    assert [event.key_suffix for event in joined.received(session)] == ["n/1"]


def test_message_after_one_that_was_too_big_is_whole() -> None:
    joined = pair({}, {"max_message": 5000}, patch=1, batch_size=512)
    joined.connecting.send(put(1, 20_000))
    joined.connecting.send(put(2, 4000))
    joined.run()
    assert [message.key_suffix for message in joined.received(joined.accepting)] == ["n/2"]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["first", "drop", "more", "last", "frame", "gap", "other"]), max_size=30))
def test_fragments_in_any_order_leave_the_lane_usable(steps: list[str]) -> None:
    joined = pair(patch=1)
    sn = joined.connecting.initial_sn
    session = joined.accepting

    def follow(by: int = 1) -> int:
        nonlocal sn
        now, sn = sn, sn + by & sequence.mask(2)
        return now

    for step in steps:
        match step:
            case "frame":
                message: Any = Frame(R=1, sn=follow(), messages=[put(0)])
            case "gap":
                follow(3)
                continue
            case "other":
                message = KeepAlive()
            case _:
                chain = {"first": [First()], "drop": [Drop()]}.get(step, [])
                message = Fragment(R=1, M=int(step != "last"), sn=follow(), extensions=chain, data=b"\x1a")
        session.receive(bytes(message), 0.0)
    whole = bytes(put(7, 300))
    parts = [whole[:100], whole[100:200], whole[200:]]
    events = []
    for at, part in enumerate(parts):
        chain = [First()] if at == 0 else []
        fragment = Fragment(R=1, M=int(at < 2), sn=follow(), extensions=chain, data=part)
        events += session.receive(bytes(fragment), 0.0)
    assert [number_of(event) for event in events if isinstance(event, Received)] == [7]


def test_hundreds_of_sessions_one_after_another_leave_nothing_behind() -> None:
    for seed in range(300):
        joined = pair({"seed": seed}, {"seed": seed + 1}, qos=True, patch=1)
        assert joined.open
        joined.connecting.send(put(seed, 10))
        joined.run()
        joined.connecting.close()
        joined.run()
        assert joined.accepting.over
        assert joined.accepting._inbox is None
        assert [decode_batch(batch)[0].name for _, batch in joined.travelled][-1] == "CLOSE"
