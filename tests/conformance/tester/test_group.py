"""Multicast groups on the loopback interface: ends of ours, and a real peer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.errors import LocalError, Unmet
from conformance.tester import GroupEnd, Tester
from conformance.tester.bends import changed, dropped
from scapy_layers.codes import WhatAmI
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareKeyExpr, DeclareSubscriber
from scapy_layers.network import Declare, Push
from scapy_layers.transport import Close, Fragment, Frame, Join
from tests.conformance.tester._pairs import lone_tester
from tests.conformance.tester.test_listener import PATIENCE, heard, real_client
from tests.conformance.tester.test_scout import free_group, locator_of


@pytest.fixture
def tester() -> Iterator[Tester]:
    with lone_tester() as made:
        yield made


@pytest.fixture
def ends(tester: Tester) -> tuple[GroupEnd, GroupEnd]:
    where = locator_of(free_group())
    one, two = tester.group(where), tester.group(where, join=False)
    two.join()
    assert tester.takes_part
    return one, two


def test_both_ends_come_to_know_each_other(ends: tuple[GroupEnd, GroupEnd]) -> None:
    one, two = ends
    member = one.expect_member(two.group.config.zid)
    assert member.whatami == WhatAmI.PEER
    # The first JOIN of the other left before this one was there; it is repeated.
    two.expect_member(one.group.config.zid, within=60)


def test_values_go_to_the_group_whole_or_in_fragments(ends: tuple[GroupEnd, GroupEnd]) -> None:
    one, two = ends
    one.expect_member(two.group.config.zid)
    for size in (1, 20_000):
        two.put("a/b", b"x" * size)
        assert one.expect(Push, key="a/b").body.data == b"x" * size
    assert isinstance(one.inbox[-1].carrier, Fragment)


def test_alias_belongs_to_the_one_who_declared_it(tester: Tester, ends: tuple[GroupEnd, GroupEnd]) -> None:
    one, two = ends
    three = tester.group(one.locator)
    two.post(Declare(body=DeclareKeyExpr(key_id=1, key_suffix="two")))
    three.post(Declare(body=DeclareKeyExpr(key_id=1, key_suffix="three")))
    for end in (two, three):
        end.post(Push(key_scope=1, M=1, body=Put()))
    one.expect(Push, key="two")
    one.expect(Push, key="three")


def test_member_that_leaves_is_gone(ends: tuple[GroupEnd, GroupEnd]) -> None:
    one, two = ends
    zid = two.group.config.zid
    one.expect_member(zid)
    two.leave(3)
    one.expect(Close, reason=3)
    assert one.expect_left(zid).reason == 3
    assert zid not in one.members
    with pytest.raises(LocalError):
        two.put("a")


def test_member_that_falls_silent_is_gone(tester: Tester) -> None:
    where = locator_of(free_group())
    one = tester.group(where)
    two = tester.group(where, lease=0.3)
    one.expect_member(two.group.config.zid)
    two.bend(dropped(Join))
    assert one.expect_left(two.group.config.zid, within=60).reason is None


def test_join_can_say_something_else(tester: Tester) -> None:
    where = locator_of(free_group())
    one, two = tester.group(where), tester.group(where, join=False)
    two.join(version=8)
    one.expect(Join, version=8)
    with pytest.raises(Unmet, match="a member"):
        one.expect_member(within=0.05)


def test_bend_reaches_what_goes_to_the_group(ends: tuple[GroupEnd, GroupEnd]) -> None:
    one, two = ends
    two.bend(changed(Frame, sn=5), changed(Put, data=b"bent"))
    two.put("a")
    assert one.expect(Frame).sn == 5
    assert one.expect(Push).body.data == b"bent"


def test_stranger_is_heard_but_no_member(tester: Tester) -> None:
    where = locator_of(free_group())
    one, two = tester.group(where), tester.group(where, join=False)
    two.send(Frame(R=1, sn=1, messages=[Push(key_suffix="a", body=Put())]))
    one.expect(Push, key="a")
    assert one.members == {}


def declares_subscriber(end: GroupEnd) -> bool:
    """Tells whether a subscriber was declared, whenever that was."""
    return any(
        isinstance(seen.message, Declare) and isinstance(seen.message.body, DeclareSubscriber)
        for seen in end.inbox
    )


def test_real_peer_joins_and_hears_what_goes_to_the_group(tester: Tester) -> None:
    pytest.importorskip("zenoh")
    where = locator_of(free_group())
    group = tester.group(where, join=False, patch=1)
    with real_client({"mode": "peer", "listen/endpoints": [where]}, "t/**") as process:
        group.expect(Join, version=9, within=PATIENCE)
        # It hears the group in order, so it knows us when the value comes.
        group.join()
        assert group.expect_member(within=PATIENCE).whatami == WhatAmI.PEER
        # Nobody says which comes first, its JOIN or what it declares.
        assert group.wait(lambda: declares_subscriber(group), PATIENCE)
        group.put("t/a", b"hello")
        assert heard(group, process) == b"t/a=hello\n"
