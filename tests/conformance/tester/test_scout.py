"""Scouting: two ends of ours, and a real node on both sides."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from conformance.config import Locator
from conformance.errors import LocalError, Unmet
from conformance.nodes.places import free_port
from conformance.nodes.pypi import PypiNode
from conformance.tester import ResponderEnd, ScoutEnd, Tester
from scapy_layers.codes import WhatAmI
from scapy_layers.network import Declare
from scapy_layers.primitives import zid_to_text
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Init
from tests.conformance.tester._pairs import lone_tester
from tests.conformance.tester.test_listener import PATIENCE, real_client


def free_group() -> str:
    """Returns a group of our own on the loopback interface."""
    return f"239.255.77.9:{free_port('udp')}"


def locator_of(group: str) -> str:
    return f"udp/{group}#iface=lo"


@pytest.fixture
def tester() -> Iterator[Tester]:
    with lone_tester() as made:
        yield made


@pytest.fixture
def ends(tester: Tester) -> tuple[ScoutEnd, ResponderEnd]:
    where = locator_of(free_group())
    return tester.scout(where), tester.responder(where)


def test_scout_is_heard_and_answered_where_it_came_from(ends: tuple[ScoutEnd, ResponderEnd]) -> None:
    scout, responder = ends
    scout.scout(what=3)
    heard = responder.expect(Scout, what=3)
    assert responder.came_from(heard) == scout.address
    responder.reply("tcp/127.0.0.1:7447", "udp/[::1]:7")
    hello = scout.expect(Hello, whatami=WhatAmI.ROUTER, L=1)
    assert hello.locators == ["tcp/127.0.0.1:7447", "udp/[::1]:7"]
    assert scout.came_from(hello) == responder.address


def test_each_scout_for_our_role_is_answered_at_once(ends: tuple[ScoutEnd, ResponderEnd]) -> None:
    scout, responder = ends
    responder.answers("tcp/127.0.0.1:7447")
    scout.expect_nothing(Hello, fence=lambda: (scout.scout(what=6), scout.ping()))
    scout.scout(what=1)
    scout.expect(Hello)


def test_hello_without_a_locator_has_l_clear(ends: tuple[ScoutEnd, ResponderEnd]) -> None:
    scout, responder = ends
    scout.scout()
    responder.expect(Scout)
    responder.reply(whatami=WhatAmI.PEER)
    assert scout.expect(Hello, whatami=WhatAmI.PEER).value("L") == 0


def test_fence_does_not_hide_an_answer_that_must_not_come(ends: tuple[ScoutEnd, ResponderEnd]) -> None:
    scout, responder = ends
    responder.answers("tcp/127.0.0.1:7447")
    scout.scout(version=8)
    with pytest.raises(Unmet, match="no HELLO"):
        scout.expect_nothing(Hello, fence=scout.ping)
    # The answer to the ping itself is none of them.
    scout.until(Hello)
    scout.expect_nothing(Hello, fence=scout.ping)


def test_bytes_that_are_no_scout_are_sent_and_heard_as_they_are(
    tester: Tester, ends: tuple[ScoutEnd, ResponderEnd]
) -> None:
    scout, responder = ends
    responder.answers("tcp/127.0.0.1:7447")
    scout.send(b"\x01\x09")
    scout.ping()
    cut = next(seen for seen in tester.history.observations if seen.batch == b"\x01\x09")
    assert cut.contents.error is not None
    scout.expect_nothing(Hello, fence=scout.ping)


def test_answer_without_a_scout_is_a_mistake_of_the_test(ends: tuple[ScoutEnd, ResponderEnd]) -> None:
    with pytest.raises(LocalError, match="no SCOUT"):
        ends[1].reply()


# The real node ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def group() -> str:
    return free_group()


@pytest.fixture(scope="module")
def node(group: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PypiNode]:
    config = {
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": group,
        "scouting/multicast/interface": "lo",
    }
    with PypiNode(tmp_path_factory.mktemp("nodes"), config=config) as running:
        yield running


@pytest.fixture
def scout(node: PypiNode, group: str) -> Iterator[ScoutEnd]:
    made = Tester(node.locator, random.Random(1))
    yield made.scout(locator_of(group))
    made.close()


def test_real_node_answers_with_its_role_zid_and_locator(node: PypiNode, scout: ScoutEnd) -> None:
    scout.scout(what=1)
    hello = scout.expect(Hello, whatami=WhatAmI.ROUTER, version=9)
    assert zid_to_text(hello.zid) == node.zid
    assert str(node.locator) in hello.locators


def test_real_node_is_silent_when_it_is_not_asked(scout: ScoutEnd) -> None:
    scout.scout(what=6)
    scout.send(b"\x01\x09")
    scout.expect_nothing(Hello, fence=scout.ping)


def test_locator_in_hello_of_a_real_node_is_one_of_a_session(node: PypiNode, scout: ScoutEnd) -> None:
    scout.scout()
    hello = scout.expect(Hello)
    tester = Tester(Locator.parse(hello.locators[0]), random.Random(2))
    end = tester.link()
    end.send(tester.init())
    assert end.expect(Init, A=1).zid == hello.zid
    tester.close()
    assert node.death() == ""


def test_real_client_scouts_and_connects_to_what_hello_says(tester: Tester) -> None:
    pytest.importorskip("zenoh")
    group = free_group()
    listener, responder = tester.listen(), tester.responder(locator_of(group))
    config = {
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": group,
        "scouting/multicast/interface": "lo",
    }
    with real_client(config, "t/**"):
        # It repeats what is not answered, with growing gaps.
        scouts = responder.expect_scouts(2, PATIENCE)
        assert [scout.version for scout in scouts] == [9, 9]
        assert responder.gaps()[0] > 0.5
        assert not listener.called
        responder.reply(str(listener.locator))
        # Whoever answers there must be the one whom HELLO named.
        end = listener.accept(PATIENCE, zid=responder.zid)
        end.serve()
        end.expect(Declare, within=PATIENCE)
