"""The multicast side of the session machine: several ends and a medium that everybody hears."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.errors import LocalError
from conformance.session.events import Dropped, Event, Joined, Left, Received
from conformance.session.group import JOIN_BATCH_SIZE, Group, GroupConfig
from conformance.session.negotiate import Offer
from conformance.session.policy import Policy
from scapy_layers.catalogue import decode_batch
from scapy_layers.codes import CloseReason
from scapy_layers.data import Put
from scapy_layers.extensions import JoinLanes, Lane
from scapy_layers.network import Push
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive


def member(number: int, *, policy: Policy | None = None, lease: float = 10.0, **offer: Any) -> Group:
    config = GroupConfig(
        zid=bytes([number]), lease=lease, offer=Offer(**{"batch_size": JOIN_BATCH_SIZE, **offer})
    )
    return Group(config, rng=random.Random(number), policy=policy)


class Medium:
    """Carries datagrams to everybody, their sender included."""

    def __init__(self, *groups: Group) -> None:
        self.now = 0.0
        self.groups = dict(enumerate(groups))
        self.seen: dict[Group, list[Event]] = {group: [] for group in groups}
        for group in groups:
            group.join(self.now)

    def run(self, *, lost: Callable[[bytes], bool] = lambda _: False) -> Medium:
        for source, group in self.groups.items():
            for datagram in group.batches_to_send(self.now):
                if lost(datagram):
                    continue
                for other in self.groups.values():
                    self.seen[other] += other.receive(datagram, source, self.now)
        return self

    def tick(self, seconds: float, *silent: Group) -> Medium:
        until = self.now + seconds
        while self.now < until:
            awake = [group for group in self.seen if group not in silent]
            self.now = min([until, *(due for group in awake if (due := group.next_deadline()) is not None)])
            for group in awake:
                self.seen[group] += group.tick(self.now)
            self.run()
        return self

    def received(self, group: Group) -> list[tuple[bytes, str]]:
        return [
            (event.zid, event.message.key_suffix) for event in self.seen[group] if isinstance(event, Received)
        ]


def put(key: str, data: bytes = b"") -> Push:
    return Push(key_suffix=key, body=Put(data=data))


def join(**fields: Any) -> bytes:
    return bytes(Join(**{"zid": b"\x09", "T": 1, "lease": 10, "next_sn_re": 5, "next_sn_be": 7, **fields}))


def frame(sn: int, **fields: Any) -> bytes:
    return bytes(Frame(**{"R": 1, "sn": sn, "messages": [put("a")], **fields}))


def kinds(events: list[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


def alone(**offer: Any) -> Group:
    group = member(1, **offer)
    group.join(0.0)
    return group


def test_everybody_hears_everybody_but_itself() -> None:
    one, two, three = member(1), member(2), member(3)
    medium = Medium(one, two, three).run()
    assert {joined.zid for joined in one.members} == {b"\x02", b"\x03"}
    one.send(put("x"))
    two.send(put("y"), reliable=False)
    medium.run()
    assert medium.received(three) == [(b"\x01", "x"), (b"\x02", "y")]
    assert medium.received(one) == [(b"\x02", "y")]


def test_frame_of_a_stranger_has_no_effect() -> None:
    group = alone()
    assert group.receive(frame(5), "there", 0.0) == []
    group.receive(join(), "there", 0.0)
    assert kinds(group.receive(frame(5), "there", 0.0)) == [Received]
    assert group.receive(frame(6), "elsewhere", 0.0) == []


def test_numbers_begin_where_join_says() -> None:
    group = alone()
    group.receive(join(), "there", 0.0)
    assert group.receive(frame(4), "there", 0.0) == [Dropped(4, b"\x09")]
    assert kinds(group.receive(frame(5), "there", 0.0)) == [Received]
    assert group.receive(frame(6, R=0), "there", 0.0) == [Dropped(6, b"\x09")]
    assert kinds(group.receive(frame(7, R=0), "there", 0.0)) == [Received]


def test_numbers_of_the_lanes_stand_in_for_those_of_the_body() -> None:
    group = alone(qos=True)
    lanes = JoinLanes(lanes=[{"next_sn_re": 100 + n, "next_sn_be": 200 + n} for n in range(8)])
    group.receive(join(extensions=[lanes]), "there", 0.0)
    lane = [Lane(priority=2)]
    assert group.receive(frame(101, extensions=lane), "there", 0.0) == [Dropped(101, b"\x09")]
    assert kinds(group.receive(frame(102, extensions=lane), "there", 0.0)) == [Received]
    assert group.receive(frame(5), "there", 0.0) == [Dropped(5, b"\x09")]
    assert kinds(group.receive(frame(105), "there", 0.0)) == [Received]


def test_join_says_the_next_number_of_each_lane() -> None:
    group = alone(qos=True)
    (first,) = decode_batch(group.batches_to_send(0.0)[0])
    group.send(put("a"), priority=2)
    group.send(put("a"), priority=2)
    group.batches_to_send(0.0)
    group.tick(2.5)
    (second,) = decode_batch(group.batches_to_send(2.5)[0])
    assert isinstance(first, Join)
    assert isinstance(second, Join)
    before, after = first.extensions[0].lanes, second.extensions[0].lanes
    assert [b["next_sn_re"] - a["next_sn_re"] for a, b in zip(before, after, strict=True)] == [
        2 if n == 2 else 0 for n in range(8)
    ]
    assert second.next_sn_re == after[5]["next_sn_re"]


def test_join_comes_again_every_quarter_of_the_lease() -> None:
    group = alone()
    group.batches_to_send(0.0)
    assert group.next_deadline() == pytest.approx(2.5)
    group.tick(2.4)
    assert group.batches_to_send(2.4) == []
    group.send(put("traffic does not replace it"))
    group.batches_to_send(2.4)
    group.tick(2.5)
    assert len(group.batches_to_send(2.5)) == 1


def test_member_whose_joins_stop_is_gone_after_its_lease() -> None:
    one, two = member(1), member(2, lease=1.0)
    medium = Medium(one, two).run()
    medium.tick(3.0)
    assert len(one.members) == 1
    medium.tick(1.1, two)
    assert one.members == []
    assert medium.seen[one][-1] == Left(b"\x02", None, "no JOIN for a whole lease")


def test_close_takes_a_member_out_and_its_next_join_brings_it_back() -> None:
    group = alone()
    group.receive(join(), "there", 0.0)
    assert group.receive(bytes(Close(reason=3)), "there", 0.0) == [Left(b"\x09", 3, "CLOSE received")]
    assert group.receive(frame(5), "there", 0.0) == []
    assert kinds(group.receive(join(), "there", 0.0)) == [Joined]


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 8},
        {"S": 1, "batch_size": 1000},
        {"S": 1, "fsn": 1, "batch_size": JOIN_BATCH_SIZE},
        {"extensions": [JoinLanes(lanes=[{"next_sn_re": 0, "next_sn_be": 0}] * 8)]},
        {"lease": 0},
        {"zid": b"\x01"},
    ],
    ids=["version", "batch size", "resolution", "lanes", "lease", "own ZenohID"],
)
def test_join_that_does_not_fit_is_passed_over(fields: dict[str, Any]) -> None:
    group = alone()
    assert group.receive(join(**fields), "there", 0.0) == []
    assert group.members == []


def test_join_with_the_same_sizes_written_out_is_taken() -> None:
    group = alone()
    assert kinds(group.receive(join(S=1, batch_size=JOIN_BATCH_SIZE), "there", 0.0)) == [Joined]


def test_other_parameters_from_the_same_address_are_another_member() -> None:
    group = alone()
    group.receive(join(), "there", 0.0)
    assert kinds(group.receive(join(zid=b"\x0a"), "there", 0.0)) == [Left, Joined]
    assert [joined.zid for joined in group.members] == [b"\x0a"]


def test_node_that_joins_from_another_address_is_one_member() -> None:
    group = alone()
    group.receive(join(), "there", 0.0)
    assert kinds(group.receive(join(), "elsewhere", 0.0)) == [Left, Joined]
    assert len(group.members) == 1
    assert group.receive(frame(5), "there", 0.0) == []
    assert kinds(group.receive(frame(5), "elsewhere", 0.0)) == [Received]


def test_lane_that_was_not_announced_takes_the_member_out() -> None:
    group = alone()
    group.receive(join(), "there", 0.0)
    (event,) = group.receive(frame(5, extensions=[Lane(priority=1)]), "there", 0.0)
    assert isinstance(event, Left)


def test_big_message_travels_in_fragments() -> None:
    one, two = member(1, patch=1, batch_size=256), member(2, patch=1, batch_size=256)
    medium = Medium(one, two).run()
    one.send(put("big", bytes(5000)))
    sizes = [len(batch) for batch in one.batches_to_send(0.0)]
    assert max(sizes) <= 256
    one.send(put("big", bytes(5000)))
    one.send(put("small"))
    medium.run()
    assert medium.received(two) == [(b"\x01", "big"), (b"\x01", "small")]


def test_lost_fragment_costs_one_message() -> None:
    one, two = member(1, patch=1, batch_size=256), member(2, patch=1, batch_size=256)
    medium = Medium(one, two).run()
    numbers = iter(range(1000))

    def lost(datagram: bytes) -> bool:
        return isinstance(decode_batch(datagram)[0], Fragment) and next(numbers) == 3

    for key in ("one", "two"):
        one.send(put(key, bytes(2000)))
    medium.run(lost=lost)
    assert medium.received(two) == [(b"\x01", "two")]


def test_leaving_says_close_and_hears_nothing_more() -> None:
    one, two = member(1), member(2)
    medium = Medium(one, two).run()
    one.leave()
    medium.run()
    assert medium.seen[two][-1] == Left(b"\x01", CloseReason.GENERIC, "CLOSE received")
    assert one.receive(join(), "there", 0.0) == []
    with pytest.raises(LocalError, match="closed"):
        one.send(put("a"))


def test_unicast_handshake_is_not_answered() -> None:
    group = alone()
    group.batches_to_send(0.0)
    group.receive(join(), "there", 0.0)
    assert group.receive(bytes(Init(zid=b"\x09")), "there", 0.0) == []
    assert group.batches_to_send(0.0) == []


def test_members_are_bounded() -> None:
    config = GroupConfig(zid=b"\x01", max_members=3)
    group = Group(config, rng=random.Random(1))
    group.join(0.0)
    for number in range(10):
        group.receive(join(zid=bytes([100 + number])), number, 0.0)
    assert len(group.members) == 3


def test_whoever_was_silent_for_longest_makes_room_for_a_new_member() -> None:
    group = Group(GroupConfig(zid=b"\x01", max_members=3), rng=random.Random(1))
    group.join(0.0)
    for number in range(3):
        # They say that they stay for ever.
        group.receive(join(zid=bytes([100 + number]), lease=1 << 62), number, float(number))
    group.receive(join(zid=b"\x64", lease=1 << 62), 0, 3.0)
    group.receive(bytes(KeepAlive()), 1, 4.0)
    events = group.receive(join(zid=b"\x09"), "new", 5.0)
    assert kinds(events) == [Left, Joined]
    assert [event.zid for event in events if isinstance(event, Left)] == [b"\x66"]
    assert {member.zid for member in group.members} == {b"\x64", b"\x65", b"\x09"}


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=60)), max_size=8))
def test_any_datagrams_leave_the_group_alive(datagrams: list[tuple[int, bytes]]) -> None:
    group = alone()
    group.receive(join(), 0, 0.0)
    for source, datagram in datagrams:
        group.receive(datagram, source, 0.0)
    group.tick(5.0)
    assert kinds(group.receive(join(zid=b"\x77"), "new", 5.0)) == [Joined]
