"""Real clients that find the node by themselves, and real peers in a multicast group with it."""

from __future__ import annotations

import pytest

from conformance.nodes.places import free_port
from tests.conformance.refnode.real.clients import CLIENT, texts
from tests.conformance.refnode.real.conftest import Connect, Crew, StartNode
from tests.conformance.refnode.real.conversation import converse
from tests.conformance.refnode.real.nodes import Transport, Wanted, scouting


def group(last: int) -> str:
    """Returns a multicast group on the loopback interface, on a port that is free."""
    return f"udp/239.255.77.{last}:{free_port('udp')}#iface=lo"


@pytest.mark.spot_check
@pytest.mark.parametrize("mode", ["router", "peer"])
def test_scout_is_told_who_is_there_and_where(start_node: StartNode, workers: Crew, mode: str) -> None:
    where = group(1)
    node = start_node(Wanted(scout=where, mode=mode))
    [hello] = workers[0].scout(scouting(where))
    assert (hello["whatami"], hello["zid"]) == (mode, node.zid)
    assert set(node.locators) <= set(hello["locators"])


def test_scout_that_looks_for_others_is_not_answered(start_node: StartNode, workers: Crew) -> None:
    where = group(2)
    router = start_node(Wanted(scout=where))
    peer = start_node(Wanted(scout=where, mode="peer"))
    for what, node in (("peer", peer), ("router", router)):
        [hello] = workers[0].scout(scouting(where), what)
        assert hello["zid"] == node.zid


def test_client_without_an_address_finds_the_node(start_node: StartNode, workers: Crew) -> None:
    where = group(3)
    node = start_node(Wanted(scout=where))
    clients = [worker.open({**CLIENT, **scouting(where)}) for worker in (workers[0], workers[1])]
    assert [client.info()["routers"] for client in clients] == [[node.zid], [node.zid]]
    converse(*clients)
    for client in clients:
        client.close()


@pytest.mark.spot_check
def test_peer_in_a_group_and_client_hear_each_other(
    start_node: StartNode, connect: Connect, workers: Crew
) -> None:
    where, lanes = group(4), Transport(qos=False, batch_size=8192)
    node = start_node(Wanted(mode="peer", group=where, transport=lanes))
    here = connect(node)
    there = workers[2].open(
        {**CLIENT, **lanes.config, "mode": "peer", "listen/endpoints": [where], "connect/endpoints": []}
    )
    for one, other in ((here, there), (there, here)):
        subscriber = one.subscribe(f"group/{one.zid}")
        # In a group nobody knows who is there to hear it.
        other.put(f"group/{one.zid}", "probe")
        while not (heard := subscriber.take(1, within=0.1)):
            other.put(f"group/{one.zid}", "probe")
        assert texts(heard) == ["probe"]
    there.close()
