"""Routers among routers, and peers among peers: what is declared anywhere leads there from everywhere, once."""

from __future__ import annotations

import pytest

from conformance.router import Face, RouterPolicy
from conformance.router.linkstates import Record, write
from scapy_layers.codes import InterestMode, WhatAmI
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareSubscriber, UndeclareSubscriber
from scapy_layers.extensions import NodeId, Target, WireExpr
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request
from tests.conformance.router.mesh import KINDS, End, Mesh, node_ids
from tests.conformance.router.web import Web, ask_for_all, pushes

SHAPES = {
    "two": ["ab"],
    "line": ["ab", "bc", "cd"],
    "ring": ["ab", "bc", "cd", "da"],
    "star": ["ab", "ac", "ad"],
    "full": ["ab", "ac", "ad", "bc", "bd", "cd"],
    "double ring": ["ab", "bc", "cd", "da", "be", "ef", "fc", "ae"],
}
WEBS = pytest.mark.parametrize("links", SHAPES.values(), ids=SHAPES)
KEEPERS = pytest.mark.parametrize("whatami", [WhatAmI.ROUTER, WhatAmI.PEER], ids=["routers", "peers"])


@WEBS
@KEEPERS
def test_publication_reaches_every_subscriber_once(links: list[str], whatami: int) -> None:
    web = Web(*links, whatami=whatami)
    ends = {name: web.client(name) for name in web.stations}
    for end in ends.values():
        end.declare("sub", "t/**")
    for name, end in ends.items():
        end.put("t/x", name.encode())
        got = {other: reader.said() for other, reader in ends.items()}
        assert got == {other: [] if other == name else [f"PUT t/x={name}"] for other in ends}


@WEBS
def test_publication_takes_no_link_that_leads_to_nobody(links: list[str]) -> None:
    web = Web(*links)
    publisher, subscriber = web.client("a"), web.client("b")
    subscriber.declare("sub", "t/x")
    publisher.put("t/x")
    publisher.put("t/y")
    assert subscriber.said() == ["PUT t/x=1"]
    assert sum(pushes(station, Push) for station in web.stations.values()) == 1


@WEBS
@pytest.mark.parametrize("kind", KINDS)
def test_declarations_come_and_go_everywhere(links: list[str], kind: str) -> None:
    web = Web(*links)
    holder, again = web.client("a"), web.client("b")
    watchers = {name: web.client(name) for name in web.stations}
    number = holder.declare(kind, "t/x")
    twice = again.declare(kind, "t/x")
    for watcher in watchers.values():
        (said,) = ask_for_all(watcher)
        assert said.startswith(f"+{kind} t/x")
    holder.undeclare(kind, number)
    for watcher in watchers.values():
        assert len(ask_for_all(watcher)) == 1
    again.undeclare(kind, twice)
    for watcher in watchers.values():
        assert ask_for_all(watcher) == []
    for station in web.stations.values():
        assert len(station.router._records) == 0


def test_distance_grows_with_each_router() -> None:
    web = Web("ab", "bc")
    web.client("a").declare("qable", "q", complete=1)
    assert [ask_for_all(web.client(name))[0] for name in "abc"] == [
        "+qable q complete 1",
        "+qable q complete 2",
        "+qable q complete 3",
    ]


@WEBS
def test_routers_that_come_later_know_it_all(links: list[str]) -> None:
    web = Web()
    for name in sorted({*"".join(links)}):
        web.client(name).declare("sub", f"t/{name}")
    for link in links:
        web.link(*link)
    for name in web.stations:
        assert ask_for_all(web.client(name)) == [f"+sub t/{other}" for other in sorted(web.stations)]


def test_cut_link_of_a_ring_is_gone_round() -> None:
    web = Web("ab", "bc", "cd", "da")
    ends = {name: web.client(name) for name in "abcd"}
    for end in ends.values():
        end.declare("sub", "t")
    for link in ("ab", "ba"):
        web.cut(*link)
        for name, end in ends.items():
            end.put("t", name.encode())
            for other, reader in ends.items():
                assert reader.said() == ([] if reader is end else [f"PUT t={name}"]), (name, other)


def test_what_cannot_be_reached_is_forgotten_and_comes_back() -> None:
    web = Web("ab", "bc")
    near, far = web.client("a"), web.client("c")
    near.interest(None, "sub", "token")
    far.declare("sub", "t")
    far.declare("token", "live")
    assert near.said() == ["!1 done", "+sub t", "+token live"]
    web.cut("b", "c")
    assert sorted(near.said()) == ["-sub t", "-token live"]
    near.put("t")
    assert sum(pushes(station, Push) for station in web.stations.values()) == 0
    web.link("b", "c")
    assert sorted(near.said()) == ["+sub t", "+token live"]
    near.put("t")
    assert far.said() == ["PUT t=1"]


@WEBS
def test_queries_find_the_way_there_and_back(links: list[str]) -> None:
    web = Web(*links)
    asker = web.client("a")
    ends = {name: web.client(name) for name in web.stations}
    for end in ends.values():
        end.declare("qable", "q/**")
    asker.ask("q/x", 7, Target(target=1))
    for name, end in ends.items():
        (request,) = [message for message in end.got() if isinstance(message, Request)]
        end.reply(request.request_id, f"q/{name}")
        end.finish(request.request_id)
    said = asker.said()
    assert said[-1] == "final #7"
    assert sorted(said[:-1]) == [f"PUT q/{name}=1 #7" for name in sorted(ends)]
    for station in web.stations.values():
        assert len(station.router._queries) == 0


def test_best_match_is_the_nearest() -> None:
    web = Web("ab", "bc")
    asker, near, far = web.client("a"), web.client("b"), web.client("c")
    far.declare("qable", "q")
    near.declare("qable", "q")
    asker.ask("q", 1)
    assert (near.said(), far.said()) == (["? q #0"], [])


def test_router_lost_with_a_query_counts_as_finished() -> None:
    web = Web("ab", "bc")
    asker, end = web.client("a"), web.client("c")
    end.declare("qable", "q")
    asker.ask("q", 1)
    assert asker.said() == []
    web.cut("b", "c")
    assert asker.said() == ["final #1"]


# Routers made by hand -----------------------------------------------------------------------------------


def neighbours() -> tuple[Mesh, list[Declare]]:
    """Returns a router, and a subscription of its client as a new router is told of it."""
    mesh = Mesh()
    (client,) = mesh.clients(1)
    client.declare("sub", "t")
    end = mesh.open(WhatAmI.ROUTER)
    return mesh, end.got()


def test_router_is_told_at_once_behind_the_link_state() -> None:
    mesh, got = neighbours()
    assert isinstance(got[0], NetworkOam)
    assert isinstance(got[1].body, DeclareSubscriber)
    assert got[1].body.entity_id == 0
    assert node_ids(got[1:]) == [None]
    assert mesh.router.next_deadline() is None


def test_router_that_says_nothing_of_its_links_is_a_neighbour_all_the_same() -> None:
    mesh = Mesh()
    one, other = mesh.open(WhatAmI.ROUTER), mesh.open(WhatAmI.ROUTER)
    (client,) = mesh.clients(1)
    client.interest(None, "sub")
    number = one.declare("sub", "t")
    assert other.said() == ["+sub t"]
    assert one.said() == []
    other.declare("sub", "t")
    assert client.said() == ["!1 done", "+sub t"]
    client.put("t")
    assert (one.said(), other.said()) == (["+sub t", "PUT t=1"], ["PUT t=1"])
    one.put("t", b"2")
    assert (one.said(), other.said()) == ([], ["PUT t=2"])
    one.undeclare("sub", number)
    assert other.said() == ["-sub t"]
    other.close()
    assert client.said() == ["-sub t"]


def test_router_declares_by_key_where_it_gives_no_ids() -> None:
    mesh = Mesh()
    router = mesh.open(WhatAmI.ROUTER)
    (client,) = mesh.clients(1)
    client.interest(None, "sub")
    for key in ("t/x", "t/y", "t/x"):
        router.declare("sub", key, 0)
    assert client.said() == ["!1 done", "+sub t/x", "+sub t/y"]
    router.alias(3, "t")
    where = WireExpr(key_scope=3, mapping=1, key_suffix=b"/x")
    router.send(Declare(body=UndeclareSubscriber(entity_id=0, extensions=[where])))
    router.send(Declare(body=UndeclareSubscriber(entity_id=0)))
    router.undeclare("sub", 0, "t/z")
    assert client.said() == ["-sub t/x"]
    client.put("t/x")
    client.put("t/y")
    assert [word for word in router.said() if word.startswith("PUT")] == ["PUT t/y=1"]


def test_router_that_becomes_next_on_the_way_is_told_what_it_missed() -> None:
    mesh = Mesh()
    one, other = mesh.open(WhatAmI.ROUTER), mesh.open(WhatAmI.ROUTER)
    zids = (mesh.router.zid, one.zid, other.zid)

    def linked(end: End, far: End, sn: int, *, both: bool) -> NetworkOam:
        names = [Record(psid=psid, sn=0, zid=zid) for psid, zid in ((1, zids[0]), (2, far.zid))]
        return write([Record(psid=0, sn=sn, zid=end.zid, links=(1, 2) if both else (1,)), *names])

    one.send(linked(one, other, 1, both=True))
    other.send(linked(other, one, 1, both=True))
    one.declare("sub", "t", 0)
    assert "+sub t" not in other.said()
    one.send(linked(one, other, 2, both=False))
    other.send(linked(other, one, 2, both=False))
    assert other.said() == ["+sub t"]
    one.send(linked(one, other, 3, both=True))
    other.send(linked(other, one, 3, both=True))
    one.put("t")
    assert other.said() == []


def test_push_between_routers_names_where_it_began() -> None:
    web = Web("ab", "bc")
    publisher, subscriber = web.client("a"), web.client("c")
    subscriber.declare("sub", "t")
    publisher.put("t")
    b = web.station("b")
    sent = [out.message for out in b.sent if isinstance(out.message, Push)]
    assert node_ids(sent) == [b.router.network.node_id(b"a")]
    assert node_ids(sent) != [0]


def test_message_that_began_here_is_not_sent_on() -> None:
    web = Web("ab", "bc")
    subscriber = web.client("b")
    subscriber.declare("sub", "t")
    b, a = web.station("b"), web.station("a")
    ours = a.router.network.node_id(b"b")
    face = next(face for face, (end, _) in b.links.items() if end is a)
    said = [NodeId(node_id=ours)] if ours else []
    b.router.receive(face, Push(key_suffix="t", extensions=said, body=Put()), 0.0)
    b._collect()
    assert subscriber.said() == []


def test_declarations_of_one_router_beyond_the_limit_are_refused() -> None:
    class Tight(RouterPolicy):
        def most_declarations(self) -> int:
            return 2

    mesh = Mesh(policy=Tight())
    router = mesh.open(WhatAmI.ROUTER)
    for number in range(5):
        router.declare("sub", f"t/{number}", 0)
    assert len(mesh.router._records) == 2
    assert mesh.router.refused == 3


# Peers ---------------------------------------------------------------------------------------------------


def test_peer_tells_a_peer_what_there_is_and_that_this_is_all() -> None:
    mesh = Mesh(whatami=WhatAmI.PEER)
    (client,) = mesh.clients(1)
    client.declare("sub", "t")
    peer = mesh.open(WhatAmI.PEER)
    oam, made, done = peer.got()
    assert isinstance(oam, NetworkOam)
    assert made.body.entity_id > 0
    assert bytes(done) == bytes.fromhex("be002108 1a")


def test_peer_asks_a_router_and_tells_it_at_once() -> None:
    mesh = Mesh(whatami=WhatAmI.PEER)
    (client,) = mesh.clients(1)
    client.declare("sub", "t")
    router = mesh.open(WhatAmI.ROUTER)
    interests = [message for message in router.got() if isinstance(message, Interest)]
    assert [bytes(message) for message in interests] == [bytes.fromhex("f9010e2108")]
    router.declare("sub", "u", I=1, interest_id=1)
    client.put("u")
    assert router.said() == ["PUT u=1"]


def test_peer_passes_declarations_of_its_clients_to_its_neighbours_and_not_back() -> None:
    mesh = Mesh(whatami=WhatAmI.PEER)
    one, peer = mesh.open(), mesh.open(WhatAmI.PEER)
    peer.said()
    other = mesh.open(WhatAmI.CLIENT)
    mesh.wait(1)
    one.declare("sub", "t")
    assert (one.said(), other.said(), peer.said()) == ([], ["+sub t"], ["+sub t"])


def test_nothing_is_carried_between_peers_that_have_a_link_of_their_own() -> None:
    mesh = Mesh()
    one, other = mesh.open(WhatAmI.PEER), mesh.open(WhatAmI.PEER)
    for end in (one, other):
        end.declare("sub", "t")
        end.declare("qable", "t")
    one.put("t")
    assert "PUT t=1" in other.said()
    state = Mesh(whatami=WhatAmI.PEER, zid=one.zid)
    state.router.open(Face(50), mesh.router.zid, WhatAmI.ROUTER, 0.0)
    state.router.open(Face(51), other.zid, WhatAmI.PEER, 0.0)
    for out in state.router.take():
        if out.face == 50:
            one.send(out.message)
    if not mesh.router.network.linked(one.face, other.zid):
        pytest.fail("the link between the peers is not known")
    one.put("t")
    one.ask("t", 1)
    assert not [word for word in other.said() if word.startswith(("PUT", "?"))]
    assert "final #1" in one.said()


def test_router_answers_an_interest_of_a_router() -> None:
    web = Web("ab")
    web.client("a").declare("sub", "t")
    mesh = web.station("a")
    router = mesh.open(WhatAmI.ROUTER)
    router.said()
    router.interest(None, "sub", mode=InterestMode.CURRENT)
    assert router.said() == ["!1 +sub t", "!1 done"]
