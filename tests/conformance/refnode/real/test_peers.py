"""Real peers next to the node, and the node as a peer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.refnode.real.clients import texts
from tests.conformance.refnode.real.conftest import Connect, StartNode
from tests.conformance.refnode.real.conversation import converse, know_each_other
from tests.conformance.refnode.real.nodes import RunningNode, Wanted, locator

PEER: dict[str, Any] = {"mode": "peer", "listen__endpoints": [], "scouting__gossip__enabled": False}
"""A peer that nobody can dial, and that dials nobody but the node."""


@pytest.mark.spot_check
def test_peer_and_client_converse_through_a_router(node: RunningNode, connect: Connect) -> None:
    converse(connect(node, **PEER), connect(node))


def test_peer_with_gossip_converses_with_a_client(node: RunningNode, connect: Connect) -> None:
    converse(connect(node, mode="peer", listen__endpoints=["tcp/127.0.0.1:0"]), connect(node))


def test_peer_knows_the_router_it_is_connected_to(node: RunningNode, connect: Connect) -> None:
    info = connect(node, **PEER).info()
    assert (info["routers"], info["peers"]) == ([node.zid], [])


@pytest.mark.spot_check
def test_clients_converse_through_a_peer(start_node: StartNode, connect: Connect) -> None:
    node = start_node(Wanted(mode="peer"))
    here, there = connect(node), connect(node)
    assert here.info()["peers"] == [node.zid]
    converse(here, there)


def test_peer_and_client_of_a_peer_converse(start_node: StartNode, connect: Connect) -> None:
    node = start_node(Wanted(mode="peer"))
    converse(connect(node, **PEER), connect(node))


@pytest.mark.parametrize("mode", ["router", "peer"])
@pytest.mark.parametrize("other", ["router", "peer"])
def test_node_serves_its_clients_next_to_a_real_node(
    start_node: StartNode, connect: Connect, mode: str, other: str
) -> None:
    real = start_node(Wanted(mode=other), kind="real")
    node = start_node(Wanted(mode=mode, connect=(locator(real),)))
    here, there = connect(node), connect(real)
    know_each_other(here, there)
    converse(here, there)


@pytest.mark.parametrize("mode", ["router", "peer"])
@pytest.mark.parametrize("other", ["router", "peer"])
def test_real_node_that_dials_serves_its_clients(
    start_node: StartNode, connect: Connect, mode: str, other: str
) -> None:
    node = start_node(Wanted(mode=mode))
    real = start_node(Wanted(mode=other, connect=(locator(node),)), kind="real")
    here, there = connect(node), connect(real)
    know_each_other(here, there)
    converse(here, there)


def test_two_peers_that_know_each_other_hear_things_once(start_node: StartNode, connect: Connect) -> None:
    node = start_node()
    first = start_node(Wanted(mode="peer", connect=(locator(node),)), kind="real")
    second = connect(first, **{**PEER, "connect__endpoints": [locator(first), locator(node)]})
    here = connect(node)
    subscribers = [here.subscribe("once/**"), second.subscribe("once/**")]
    publisher = connect(first).publisher("once/a")
    publisher.matched()
    for number in range(5):
        publisher.put(str(number))
    for subscriber in subscribers:
        assert texts(subscriber.take(5)) == ["0", "1", "2", "3", "4"]
    publisher.put("end")
    for subscriber in subscribers:
        assert texts(subscriber.take(1)) == ["end"]
