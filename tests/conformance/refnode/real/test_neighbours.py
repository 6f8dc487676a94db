"""Real clients, peers and routers on both sides of several nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pytest

from tests.conformance.refnode.real.clients import Client, big, digest, payload, text, texts
from tests.conformance.refnode.real.conftest import Connect, StartNode, StartWorker
from tests.conformance.refnode.real.conversation import LONG, converse, know_each_other, put
from tests.conformance.refnode.real.nodes import NODES, RunningNode, Transport, Wanted, locator

Line: TypeAlias = list[RunningNode]
"""Nodes of which each is connected to the next."""

LINES = [
    ("ref", "real"),
    ("real", "ref"),
    ("ref", "ref"),
    ("ref", "real", "ref"),
    ("real", "real"),
    ("real",) * 3,
]


def line_of(kinds: tuple[str, ...], start: StartNode, *, backwards: bool = False) -> Line:
    """Starts routers in a line, each dialling the one before; backwards from the far end."""
    nodes: Line = []
    for kind in reversed(kinds) if backwards else kinds:
        dialled = tuple(locator(node) for node in nodes[-1:])
        nodes.append(start(Wanted(connect=dialled), kind=kind))
    return nodes[::-1] if backwards else nodes


@pytest.fixture(scope="module", params=LINES, ids="-".join)
def kinds(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """What the nodes of a line are."""
    chosen: tuple[str, ...] = request.param
    return chosen


@pytest.fixture(scope="module")
def line(kinds: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """A line that the tests of this module share."""
    started: Line = []

    def start(wanted: Wanted | None = None, *, kind: str) -> RunningNode:
        started.append(NODES[kind](wanted or Wanted(), tmp_path_factory.mktemp("node")))
        return started[-1]

    yield line_of(kinds, start)
    for node in reversed(started):
        node.stop()


@pytest.fixture
def ends(line: Line, connect: Connect) -> tuple[Client, Client]:
    """A client at each end of the line."""
    here, there = connect(line[0]), connect(line[-1])
    know_each_other(here, there)
    return here, there


@pytest.mark.spot_check
def test_clients_at_both_ends_converse(ends: tuple[Client, Client]) -> None:
    converse(*ends)


def test_publications_cross_the_line_with_all_that_was_said_about_them(ends: tuple[Client, Client]) -> None:
    for here, there in (ends, ends[::-1]):
        subscriber = there.subscribe("cross/**")
        publisher = here.publisher("cross/a", priority="DATA_HIGH", congestion_control="BLOCK", express=True)
        publisher.matched()
        publisher.put("x", encoding="text/plain", attachment=payload("at"))
        publisher.put(big(3_000_000))
        publisher.delete()
        small, large, gone = subscriber.take(3)
        assert (text(small), small["encoding"], small["attachment"]["size"]) == ("x", "text/plain", 2)
        assert large["payload"] == digest(3_000_000)
        assert (gone["kind"], gone["key"]) == ("DELETE", "cross/a")
        for sample in (small, large, gone):
            assert (sample["priority"], sample["congestion"], sample["express"]) == (
                "DATA_HIGH",
                "BLOCK",
                True,
            )
        subscriber.undeclare()


def test_thousands_of_puts_cross_the_line_in_order(ends: tuple[Client, Client]) -> None:
    here, there = ends
    subscriber = there.subscribe("thousands")
    here.publisher("thousands").matched()
    here.put_many("thousands", 5000, congestion_control="BLOCK")
    assert texts(subscriber.take(5000, 30)) == [str(number) for number in range(5000)]


def test_publisher_learns_of_subscribers_at_the_other_end(ends: tuple[Client, Client]) -> None:
    here, there = ends
    publisher = here.publisher("match/a")
    changes = publisher.listener()
    here.settle()
    for key in ("match/a", "match/*", "**"):
        assert not publisher.matching()
        subscriber = there.subscribe(key)
        assert changes.next() == {"matching": True}
        publisher.put(key)
        assert texts(subscriber.take(1)) == [key]
        subscriber.undeclare()
        assert changes.next() == {"matching": False}


def test_every_client_of_the_line_hears_a_sample_once(line: Line, connect: Connect) -> None:
    clients = [connect(node) for node in line for _ in range(2)]
    for client in clients[1:]:
        know_each_other(clients[0], client)
    subscribers = [client.subscribe("once/**") for client in clients]
    # Who hears of the last one has heard of those before it.
    for client in clients:
        for number, _ in enumerate(clients):
            client.publisher(f"once/{number}").matched()
    for number, subscriber in enumerate(subscribers):
        mark = clients[number].subscribe(f"mark/{number}")
        for client in clients:
            client.publisher(f"mark/{number}").matched()
        assert mark is not subscriber
    for number, client in enumerate(clients):
        client.put(f"once/{number}", str(number))
    for subscriber in subscribers:
        assert sorted(texts(subscriber.take(len(clients)))) == [
            str(number) for number, _ in enumerate(clients)
        ]
    clients[0].put("once/end", "end")
    for subscriber in subscribers:
        assert texts(subscriber.take(1)) == ["end"]


def test_queries_cross_the_line(ends: tuple[Client, Client]) -> None:
    for here, there in (ends, ends[::-1]):
        queryable = there.queryable(
            "cross/**",
            put("fine", key="cross/a", encoding="text/plain", attachment=payload("at")),
            {"kind": "DELETE", "key": "cross/b"},
            {"kind": "ERR", "payload": payload("wrong")},
        )
        querier = here.querier("cross/*", consolidation="NONE", timeout=LONG)
        querier.matched()
        replies = querier.get(parameters="p=1", payload=payload("q"), attachment=payload("qat"))
        assert [reply["kind"] for reply in replies] == ["PUT", "DELETE", "ERR"]
        assert (text(replies[0]), replies[0]["encoding"], replies[0]["replier"]) == (
            "fine",
            "text/plain",
            there.zid,
        )
        query = queryable.next()
        assert (query["key"], query["parameters"], query["attachment"]["size"]) == ("cross/*", "p=1", 3)
        queryable.undeclare()


@pytest.mark.parametrize(
    ("target", "expected"), [("ALL", ["far", "near", "whole"]), ("ALL_COMPLETE", ["whole"])]
)
def test_targets_are_chosen_all_along_the_line(
    line: Line, connect: Connect, ends: tuple[Client, Client], target: str, expected: list[str]
) -> None:
    here, there = ends
    near, whole = connect(line[0]), connect(line[-1])
    know_each_other(here, whole)
    near.queryable("along/a", put("near"))
    there.queryable("along/a", put("far"))
    whole.queryable("along/**", put("whole"), complete=True)
    here.querier("along/a", target="ALL_COMPLETE").matched()
    there.publisher("along/news")
    replies = here.get("along/a", target=target, consolidation="NONE", timeout=LONG)
    assert sorted(texts(replies)) == expected


def test_get_for_nobody_ends_at_once(ends: tuple[Client, Client]) -> None:
    assert ends[0].get("nobody/a", within=8, timeout=LONG) == []
    assert ends[1].get("nobody/a", within=8, timeout=LONG) == []


def test_silence_at_the_other_end_ends_with_the_timeout(ends: tuple[Client, Client]) -> None:
    here, there = ends
    there.holding_queryable("silent/a")
    here.querier("silent/a").matched()
    replies = here.get("silent/a", consolidation="NONE", timeout=1.0, within=8)
    assert {reply["kind"] for reply in replies} <= {"ERR"}


def test_query_ends_when_the_process_at_the_other_end_dies(
    line: Line, connect: Connect, start_worker: StartWorker
) -> None:
    here, mortal = connect(line[0]), start_worker()
    there = connect(line[-1], worker=mortal)
    queryable = there.holding_queryable("mortal/a")
    querier = here.querier("mortal/a")
    querier.matched()
    asked = here.start_get("mortal/a", consolidation="NONE", timeout=LONG)
    there.reply(queryable.next(), "PUT", payload=payload("last words"))
    assert text(asked.next()) == "last words"
    changes = querier.listener()
    mortal.kill()
    assert asked.rest(10) == []
    changes.until(lambda event: event["matching"] is False)


def test_liveliness_crosses_the_line(line: Line, connect: Connect, ends: tuple[Client, Client]) -> None:
    for node, here, there in ((line[0], *ends), (line[-1], *ends[::-1])):
        asking = connect(node)
        watching = here.watch("cross/*", history=False)
        first, second = there.token("cross/a"), there.token("cross/b")
        assert sorted(event["key"] for event in watching.take(2)) == ["cross/a", "cross/b"]
        assert asking.alive("cross/*") == ["cross/a", "cross/b"]
        with_history = here.watch("cross/*", history=True)
        assert sorted(event["key"] for event in with_history.take(2)) == ["cross/a", "cross/b"]
        first.undeclare()
        for heard in (watching, with_history):
            assert [(event["kind"], event["key"]) for event in heard.take(1)] == [("DELETE", "cross/a")]
        assert asking.alive("cross/*") == ["cross/b"]
        second.undeclare()
        assert watching.next()["key"] == "cross/b"
        assert asking.alive("cross/*") == []


def test_token_at_the_other_end_goes_with_its_process(
    line: Line, connect: Connect, start_worker: StartWorker
) -> None:
    here, mortal = connect(line[0]), start_worker()
    watching = here.watch("mortal/*", history=True)
    connect(line[-1], worker=mortal).token("mortal/a")
    assert watching.next()["kind"] == "PUT"
    mortal.kill()
    assert watching.next()["kind"] == "DELETE"
    assert here.alive("mortal/*") == []


def test_two_tokens_on_a_key_at_both_ends_are_one(
    line: Line, connect: Connect, ends: tuple[Client, Client]
) -> None:
    here, there = ends
    asking = connect(line[-1])
    watching = there.watch("both/*", history=False)
    first, second = here.token("both/a"), there.token("both/a")
    assert watching.next()["kind"] == "PUT"
    first.undeclare()
    know_each_other(here, there)
    assert set(asking.alive("both/*")) == {"both/a"}
    second.undeclare()
    assert watching.next()["kind"] == "DELETE"
    assert asking.alive("both/*") == []


@pytest.mark.spot_check
@pytest.mark.parametrize("kinds", LINES[:3] + LINES[4:5], ids="-".join, scope="function")
@pytest.mark.parametrize("backwards", [False, True], ids=["onwards", "backwards"])
def test_what_was_declared_before_the_nodes_met_is_known_afterwards(
    kinds: tuple[str, ...], start_any: StartNode, connect: Connect, backwards: bool
) -> None:
    first_kind, second_kind = kinds[::-1] if backwards else kinds
    first = start_any(kind=first_kind)
    here = connect(first)
    subscriber = here.subscribe("before/*")
    here.queryable("before/**", put("answer", key="before/a"))
    here.token("before/token")
    # A client cannot be there before the node, but a publisher on the old node can be before the new one.
    publisher = here.publisher("after/a")
    second = start_any(Wanted(connect=(locator(first),)), kind=second_kind)
    there = connect(second)
    know_each_other(here, there)
    there.publisher("before/a").matched()
    there.put("before/a", "x")
    assert text(subscriber.next()) == "x"
    there.querier("before/a").matched()
    assert texts(there.get("before/a", timeout=LONG)) == ["answer"]
    assert there.watch("before/*", history=True).next()["key"] == "before/token"
    assert connect(second).alive("before/*") == ["before/token"]
    after = there.subscribe("after/*")
    publisher.matched()
    publisher.put("y")
    assert text(after.next()) == "y"


@pytest.mark.parametrize("kinds", LINES[:3] + LINES[4:5], ids="-".join, scope="function")
def test_what_was_known_of_a_node_goes_with_it(
    kinds: tuple[str, ...], start_any: StartNode, connect: Connect, start_worker: StartWorker
) -> None:
    stays, goes = line_of(kinds, start_any)
    here, there = connect(stays), connect(goes, worker=start_worker())
    know_each_other(here, there)
    there.subscribe("goes/a")
    queryable = there.holding_queryable("goes/a")
    there.token("goes/a")
    publisher, querier, watching = (
        here.publisher("goes/a"),
        here.querier("goes/a"),
        here.watch("goes/*", history=True),
    )
    publisher.matched()
    querier.matched()
    assert watching.next()["kind"] == "PUT"
    asked = here.start_get("goes/a", timeout=LONG)
    queryable.next()
    changes = [publisher.listener(), querier.listener()]
    goes.kill()
    assert watching.next()["kind"] == "DELETE"
    for listener in changes:
        listener.until(lambda event: event["matching"] is False)
    assert [reply for reply in asked.rest(10) if reply["kind"] == "PUT"] == []
    assert here.alive("goes/*") == []


@pytest.mark.parametrize("kinds", LINES[:3] + LINES[4:5], ids="-".join, scope="function")
@pytest.mark.parametrize(
    "transport",
    [Transport(compression=True), Transport(batch_size=256), Transport(fsn=8)],
    ids=["compression", "small batches", "small numbers"],
)
def test_neighbours_of_any_kind_of_session_serve_their_clients(
    kinds: tuple[str, ...], start_any: StartNode, connect: Connect, transport: Transport
) -> None:
    first = start_any(Wanted(transport=transport), kind=kinds[0])
    second = start_any(Wanted(transport=transport, connect=(locator(first),)), kind=kinds[1])
    here, there = connect(first), connect(second)
    know_each_other(here, there)
    converse(here, there)
