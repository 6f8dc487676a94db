"""What sessions can be like: compressed, of low latency, without lanes, with a password; and coming back."""

from __future__ import annotations

import pytest

from tests.conformance.refnode.real.clients import Refused, big, text
from tests.conformance.refnode.real.conftest import Connect, StartNode
from tests.conformance.refnode.real.conversation import converse
from tests.conformance.refnode.real.nodes import RunningNode, Transport, Wanted, again, locator

LOW = Transport(lowlatency=True, qos=False)

UNBROKEN = 40_000
"""Size of a payload that goes into a batch: there are no fragments in a session of low latency."""


def works(node: RunningNode, connect: Connect, *, large: int = 200_000, **config: object) -> None:
    """Lets a client like this converse with one that is not."""
    converse(connect(node, **config), connect(node), large=large)


@pytest.mark.spot_check
@pytest.mark.parametrize("node_too", [True, False])
@pytest.mark.parametrize(
    "transport",
    [
        Transport(compression=True),
        Transport(qos=False),
        Transport(compression=True, qos=False, batch_size=1024),
    ],
    ids=["compression", "one lane", "compression, one lane, small batches"],
)
def test_session_as_the_client_wants_it_works(
    start_node: StartNode, connect: Connect, transport: Transport, node_too: bool
) -> None:
    node = start_node(Wanted(transport=transport if node_too else Transport()))
    works(node, connect, **transport.config)


def test_session_of_low_latency_works(start_node: StartNode, connect: Connect) -> None:
    node = start_node(Wanted(transport=LOW))
    works(node, connect, large=UNBROKEN, **LOW.config)


def test_client_that_wants_low_latency_gets_on_with_a_node_that_does_not(
    start_node: StartNode, connect: Connect
) -> None:
    works(start_node(), connect, **LOW.config)


def test_node_that_wants_low_latency_gets_on_with_clients_that_do_not(
    start_node: StartNode, connect: Connect
) -> None:
    works(start_node(Wanted(transport=LOW)), connect)


def test_lanes_are_used_only_where_both_ends_want_them(start_node: StartNode, connect: Connect) -> None:
    node = start_node()
    one_lane = Transport(qos=False).config
    assert connect(node).info()["qos"] == [True]
    assert connect(node, **one_lane).info()["qos"] == [False]


@pytest.mark.spot_check
def test_password_opens_the_session_and_nothing_else_does(start_node: StartNode, connect: Connect) -> None:
    node = start_node(Wanted(users={"ada": "lovelace", "alan": "turing"}))

    def who(user: str, password: str) -> dict[str, str]:
        return {"transport__auth__usrpwd__user": user, "transport__auth__usrpwd__password": password}

    here, there = connect(node, **who("ada", "lovelace")), connect(node, **who("alan", "turing"))
    for user, password in (("ada", "turing"), ("ada", ""), ("nobody", "lovelace")):
        with pytest.raises(Refused):
            connect(node, **who(user, password))
    with pytest.raises(Refused):
        connect(node)
    subscriber = there.subscribe("secret")
    here.put("secret", "x")
    assert text(subscriber.next()) == "x"


@pytest.mark.spot_check
def test_client_knows_whom_it_is_connected_to(node: RunningNode, connect: Connect) -> None:
    info = connect(node).info()
    assert info["routers"] == [node.zid]
    assert info["peers"] == []
    assert [link["dst"] for link in info["links"]] == [locator(node)]


@pytest.mark.spot_check
def test_client_comes_back_when_the_node_does(start_node: StartNode, connect: Connect) -> None:
    first = start_node()
    here, there = connect(first), connect(first)
    seen = [client.transports() for client in (here, there)]
    subscriber = there.subscribe("back/**")
    queryable = there.queryable("ask/**", {"kind": "PUT", "payload": big(10)})
    there.token("alive/a")
    watching = here.watch("alive/*", history=True)
    publisher = here.publisher("back/a")
    changes = publisher.listener()
    publisher.matched()
    for transports in seen:
        assert transports.next()["kind"] == "PUT"
    first.kill()
    for transports in seen:
        assert transports.next()["kind"] == "DELETE"
    changes.until(lambda event: event["matching"] is False)
    second = start_node(again(first))
    for transports in seen:
        assert transports.next(30)["kind"] == "PUT"
    assert here.info()["routers"] == [second.zid]
    changes.until(lambda event: event["matching"] is True)
    publisher.put("after")
    assert text(subscriber.next()) == "after"
    there.settle()
    assert len(here.get("ask/a")) == 1
    assert queryable.next()["key"] == "ask/a"
    assert [event["kind"] for event in watching.take(3)] == ["PUT", "DELETE", "PUT"]


def test_client_that_closes_and_opens_again_starts_afresh(node: RunningNode, connect: Connect) -> None:
    there = connect(node)
    subscriber = there.subscribe("afresh/**")
    for number in range(20):
        here = connect(node)
        publisher = here.publisher(f"afresh/{number}")
        publisher.matched()
        publisher.put(str(number))
        assert text(subscriber.next()) == str(number)
