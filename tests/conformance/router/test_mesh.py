"""Several routers with clients, joined in memory: everything arrives once, and the traffic ends."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.router import Face, Outgoing, Router
from scapy_layers.catalogue import decode
from scapy_layers.codes import InterestMode, QueryTarget, WhatAmI
from scapy_layers.data import Put, Query, Reply
from scapy_layers.declarations import (
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import QueryableInfo, Target
from scapy_layers.keyexpr import intersects
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal

MADE = {"sub": DeclareSubscriber, "qable": DeclareQueryable, "token": DeclareToken}
GONE = {"sub": UndeclareSubscriber, "qable": UndeclareQueryable, "token": UndeclareToken}

Link = list[tuple[int, int]]


def line(size: int) -> Link:
    return [(at, at + 1) for at in range(size - 1)]


def ring(size: int) -> Link:
    return [*line(size), (size - 1, 0)]


def full(size: int) -> Link:
    return list(combinations(range(size), 2))


SHAPES = {
    "line of 4": (4, line(4)),
    "ring of 4": (4, ring(4)),
    "ring of 5": (5, ring(5)),
    "full mesh of 4": (4, full(4)),
    "two rings": (6, [*ring(4), (3, 4), (4, 5), (5, 2)]),
}

shapes = pytest.mark.parametrize("shape", SHAPES)


class Client:
    """The other end of a client's session: notes what comes, answers queries when it has a queryable."""

    def __init__(self, net: Net, at: int, face: Face) -> None:
        self.net, self.at, self.face = net, at, face
        self.entities: dict[int, tuple[str, str]] = {}
        self.heard: list[str] = []
        self.asked: list[str] = []
        self.answers: dict[int, list[str]] = defaultdict(list)
        self.finals: dict[int, int] = defaultdict(int)
        self.seen: set[tuple[str, str]] = set()
        self._known: dict[tuple[str, int], tuple[str, list[tuple[int, int]]]] = {}
        self._number = 0

    def send(self, message: Message) -> None:
        raw = decode(bytes(message))
        self.net.routers[self.at].receive(self.face, raw, self.net.now)
        self.net.collect(self.at)

    def declare(self, kind: str, key: str, **info: int) -> int:
        self._number += 1
        chain = [QueryableInfo(**info)] if info else []
        self.entities[self._number] = (kind, key)
        self.send(Declare(body=MADE[kind](entity_id=self._number, key_suffix=key, extensions=chain)))
        return self._number

    def undeclare(self, number: int) -> None:
        kind, _ = self.entities.pop(number)
        self.send(Declare(body=GONE[kind](entity_id=number)))

    def watch(self) -> None:
        """Asks for all declarations there are and will be."""
        self.send(
            Interest(interest_id=1, mode=InterestMode.CURRENT_FUTURE, subscribers=1, queryables=1, tokens=1)
        )

    def put(self, key: str, data: str) -> None:
        self.send(Push(key_suffix=key, body=Put(data=data.encode())))

    def ask(self, key: str, target: int = QueryTarget.ALL) -> int:
        self._number += 1
        chain = [Target(target=target)] if target else []
        self.send(Request(request_id=self._number, key_suffix=key, extensions=chain, body=Query()))
        return self._number

    def close(self) -> None:
        self.net.routers[self.at].close(self.face, self.net.now)
        self.net.clients.remove(self)
        self.net.collect(self.at)

    def wants(self, kind: str, key: str) -> bool:
        return any(made == kind and intersects(own, key) for made, own in self.entities.values())

    def receive(self, message: Message) -> None:
        match message:
            case Push():
                self.heard.append(f"{message.key_suffix}={bytes(message.body.data).decode()}")
            case Request():
                self.asked.append(message.key_suffix)
                answer = Reply(body=Put(data=str(self.face).encode()))
                self.send(Response(request_id=message.request_id, key_suffix=message.key_suffix, body=answer))
                self.send(ResponseFinal(request_id=message.request_id))
            case Response():
                assert not self.finals[message.request_id], "a reply after the final"
                self.answers[message.request_id].append(bytes(message.body.body.data).decode())
            case ResponseFinal():
                self.finals[message.request_id] += 1
            case Declare():
                self._declaration(message.body)

    def _declaration(self, body: Message) -> None:
        made = next((kind for kind, cls in MADE.items() if type(body) is cls), None)
        gone = next((kind for kind, cls in GONE.items() if type(body) is cls), None)
        if made is not None:
            info = [(ext.complete, ext.distance) for ext in body.extensions if isinstance(ext, QueryableInfo)]
            known = self._known.get((made, body.entity_id))
            # With the number it has: a queryable is nearer or farther now, or complete or not.
            again = known is not None and known[0] == body.key_suffix and known[1] != info
            assert again or (made, body.key_suffix) not in self.seen, "declared twice"
            self._known[made, body.entity_id] = (body.key_suffix, info)
            self.seen.add((made, body.key_suffix))
        elif gone is not None:
            self.seen.remove((gone, self._known.pop((gone, body.entity_id))[0]))


class Net:
    """Routers, links between them, and clients; what is under way stays in order on each lane of a link."""

    def __init__(self, size: int, links: Iterable[tuple[int, int]] = (), seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        zids = [self.rng.randbytes(7) + bytes([at + 1]) for at in range(size)]
        self.zids = zids
        self.routers = [Router(zid) for zid in zids]
        self.clients: list[Client] = []
        self.links: dict[frozenset[int], dict[int, Face]] = {}
        self.behind: dict[Face, tuple[int, Face]] = {}
        self.on_way: dict[tuple[Face, bool, int], deque[bytes]] = defaultdict(deque)
        self.carried = 0
        self._faces = 0
        for one, other in links:
            self.join(one, other)
        self.settle()

    def face(self) -> Face:
        self._faces += 1
        return Face(self._faces)

    def join(self, one: int, other: int) -> None:
        here, there = self.face(), self.face()
        self.links[frozenset((one, other))] = {one: here, other: there}
        self.behind[here], self.behind[there] = (other, there), (one, here)
        for at, face, peer in ((one, here, other), (other, there, one)):
            self.routers[at].open(face, self.zids[peer], WhatAmI.ROUTER, self.now)
            self.collect(at)

    def cut(self, one: int, other: int) -> None:
        for at, face in self.links.pop(frozenset((one, other))).items():
            del self.behind[face]
            for lane in [lane for lane in self.on_way if lane[0] == face]:
                del self.on_way[lane]
            self.routers[at].close(face, self.now)
            self.collect(at)

    def client(self, at: int) -> Client:
        face = self.face()
        client = Client(self, at, face)
        self.clients.append(client)
        self.routers[at].open(face, self.rng.randbytes(7) + b"\xff", WhatAmI.CLIENT, self.now)
        # One that asks for something gets that and nothing else.
        client.send(
            Interest(interest_id=99, mode=InterestMode.FUTURE, restricted=1, key_suffix="x", tokens=1)
        )
        return client

    def collect(self, at: int) -> None:
        for out in self.routers[at].take():
            if out.face in self.behind:
                self.on_way[self._lane(out)].append(bytes(out.message))
            else:
                client = next((client for client in self.clients if client.face == out.face), None)
                if client is not None:
                    client.receive(decode(bytes(out.message)))

    def _lane(self, out: Outgoing) -> tuple[Face, bool, int]:
        return self.behind[out.face][1], out.reliable, out.priority

    def settle(self, count: int | None = None) -> None:
        """Carries messages until there are none, or so many, in any order that the lanes allow."""
        most = self.carried + 3000 + 200 * len(self.routers) ** 2
        until = None if count is None else self.carried + count
        while self.carried != until:
            ready = [lane for lane, queue in self.on_way.items() if queue]
            if not ready:
                return
            lane = self.rng.choice(ready)
            at = self.behind[self.behind[lane[0]][1]][0]
            raw = self.on_way[lane].popleft()
            self.routers[at].receive(lane[0], decode(raw), self.now, reliable=lane[1], priority=lane[2])
            self.collect(at)
            self.carried += 1
            assert self.carried < most, "the traffic never ends"

    def component(self, at: int) -> set[int]:
        found, ahead = {at}, [at]
        while ahead:
            here = ahead.pop()
            for link in self.links:
                if here in link and not link <= found:
                    (there,) = link - {here}
                    found.add(there)
                    ahead.append(there)
        return found

    def judge(self, key: str) -> None:
        """Every client publishes and asks: each that matches and can be reached is reached once."""
        for source in list(self.clients):
            for client in self.clients:
                client.heard.clear()
                client.asked.clear()
            reach = self.component(source.at)
            source.put(key, "v")
            number = source.ask(key)
            self.settle()
            for client in self.clients:
                there = client.at in reach and client is not source
                assert client.heard == [f"{key}=v"] * (there and client.wants("sub", key)), (key, client.at)
                assert client.asked == [key] * (there and client.wants("qable", key)), (key, client.at)
            assert source.finals[number] == 1
            assert sorted(source.answers[number]) == sorted(
                str(client.face) for client in self.clients if client.asked
            )

    def judge_seen(self) -> None:
        """Each client that watches knows what others in its reach have declared, and nothing else."""
        for client in self.clients:
            reach = self.component(client.at)
            assert client.seen == {
                entity
                for other in self.clients
                if other.at in reach and other is not client
                for entity in other.entities.values()
            }


@shapes
def test_publication_reaches_each_subscriber_once(shape: str) -> None:
    size, links = SHAPES[shape]
    net = Net(size, links)
    for at in range(size):
        net.client(at).declare("sub", "a/**")
        # One that subscribes twice still gets one copy.
        twice = net.client(at)
        twice.declare("sub", "a/b")
        twice.declare("sub", "a/*")
    net.client(0)
    net.settle()
    net.judge("a/b")


@shapes
def test_query_to_all_asks_each_once_and_ends_once(shape: str) -> None:
    size, links = SHAPES[shape]
    net = Net(size, links)
    clients = [net.client(at) for at in range(size)]
    for client in clients[1:]:
        client.declare("qable", "q/**")
    net.settle()
    net.judge("q/x")
    net.judge("nobody/x")


@shapes
def test_query_to_the_best_asks_one_and_ends_once(shape: str) -> None:
    size, links = SHAPES[shape]
    net = Net(size, links)
    clients = [net.client(at) for at in range(size)]
    for client in clients[1:]:
        client.declare("qable", "q/**", complete=1)
    net.settle()
    number = clients[0].ask("q/x", QueryTarget.BEST_MATCHING)
    net.settle()
    assert sum(len(client.asked) for client in clients) == 1
    assert len(clients[0].answers[number]) == 1
    assert clients[0].finals[number] == 1


@shapes
def test_query_to_all_complete_ones_asks_those_and_ends_once(shape: str) -> None:
    size, links = SHAPES[shape]
    net = Net(size, links)
    clients = [net.client(at) for at in range(size)]
    for client in clients[1:]:
        client.declare("qable", "q/**", complete=client.at % 2)
    net.settle()
    number = clients[0].ask("q/x", QueryTarget.ALL_COMPLETE)
    net.settle()
    assert [len(client.asked) for client in clients] == [client.at % 2 for client in clients]
    assert clients[0].finals[number] == 1


@shapes
def test_declarations_are_seen_everywhere_and_vanish_with_their_client(shape: str) -> None:
    size, links = SHAPES[shape]
    net = Net(size, links)
    watchers = [net.client(at) for at in range(size)]
    for watcher in watchers[::2]:
        watcher.watch()
    leaving = net.client(size - 1)
    for kind in MADE:
        leaving.declare(kind, f"k/{kind}")
    net.settle()
    for watcher in watchers[1::2]:
        watcher.watch()
    net.settle()
    net.judge_seen()
    assert len(watchers[0].seen) == 3
    leaving.close()
    net.settle()
    net.judge_seen()
    assert not watchers[0].seen


@shapes
def test_late_router_learns_what_was_declared_before(shape: str) -> None:
    size, links = SHAPES[shape]
    net = Net(size, links[:-1])
    for at in range(size):
        client = net.client(at)
        client.declare("sub", "a/**")
        client.declare("qable", "a/b")
    net.settle()
    net.join(*links[-1])
    net.settle()
    net.judge("a/b")


def test_ring_that_breaks_goes_on_as_a_line() -> None:
    net = Net(5, ring(5))
    for at in range(5):
        client = net.client(at)
        client.declare("sub", "a/**")
        client.declare("token", f"here/{at}")
        client.watch()
    net.settle()
    for one, other in ring(5):
        net.cut(one, other)
        net.settle()
        net.judge("a/b")
        net.judge_seen()
        net.join(one, other)
        net.settle()
        net.judge("a/b")
        net.judge_seen()


def test_router_that_dies_takes_the_declarations_of_its_clients_along() -> None:
    net = Net(4, ring(4))
    clients = [net.client(at) for at in range(4)]
    for client in clients:
        client.declare("sub", f"from/{client.at}")
        client.watch()
    net.settle()
    net.judge_seen()
    for one, other in ((1, 2), (2, 3)):
        net.cut(one, other)
    net.settle()
    net.judge_seen()
    assert ("sub", "from/2") not in clients[0].seen


def test_quiet_mesh_stays_quiet() -> None:
    net = Net(4, full(4))
    for at in range(4):
        net.client(at).declare("sub", "a")
    net.settle()
    before = net.carried
    for router in net.routers:
        assert router.next_deadline() is None
        router.tick(1000.0)
        assert router.take() == []
    net.settle()
    assert net.carried == before


def test_declaration_crosses_few_links() -> None:
    net = Net(6, full(6))
    client = net.client(0)
    before = net.carried
    client.declare("sub", "a")
    net.settle()
    assert net.carried - before == 5
    client.undeclare(1)
    net.settle()
    assert net.carried - before == 10


KEYS = ("a", "a/b", "a/*", "**", "c")


@st.composite
def lives(draw: st.DrawFn) -> tuple[int, int, list[tuple[Any, ...]]]:
    """A number of routers, a seed, and what happens to links and clients."""
    size = draw(st.integers(2, 6))
    pairs = st.sampled_from(list(combinations(range(size), 2)))
    step = st.one_of(
        st.tuples(st.just("link"), pairs),
        st.tuples(st.just("link"), pairs),
        st.tuples(st.just("client"), st.integers(0, 9)),
        st.tuples(st.just("declare"), st.sampled_from(list(MADE)), st.sampled_from(KEYS), st.integers(0, 9)),
        st.tuples(st.just("undeclare"), st.integers(0, 9)),
        st.tuples(st.just("close"), st.integers(0, 9)),
        st.tuples(st.just("settle")),
        st.tuples(st.just("carry"), st.integers(1, 12)),
    )
    return size, draw(st.integers(0, 1 << 16)), draw(st.lists(step, max_size=30))


def live(net: Net, step: tuple[Any, ...]) -> None:
    """Lets one thing happen; what it leaves under way goes on, however links and declarations overtake each other."""
    client = net.clients[step[-1] % len(net.clients)] if isinstance(step[-1], int) else net.clients[-1]
    match step:
        case ("link", (one, other)):
            (net.cut if frozenset((one, other)) in net.links else net.join)(one, other)
        case ("client", at):
            net.client(at % len(net.routers)).watch()
        case ("declare", kind, key, _):
            client.declare(kind, key)
        case ("undeclare", _) if client.entities:
            client.undeclare(min(client.entities))
        case ("close", _) if len(net.clients) > 1:
            client.close()
        case ("settle",):
            net.settle()
        case ("carry", count):
            net.settle(count)


@given(lives())
@settings(max_examples=30, deadline=None)
def test_whatever_happened_everything_arrives_once_in_the_end(life: tuple[int, int, Any]) -> None:
    size, seed, steps = life
    net = Net(size, line(size), seed)
    for at in range(size):
        net.client(at).watch()
    for step in steps:
        live(net, step)
    net.settle()
    net.judge_seen()
    for key in ("a", "a/b", "c"):
        net.judge(key)
