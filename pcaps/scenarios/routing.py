"""Routers and peers among themselves."""

from __future__ import annotations

from typing import Any

from pcaps.stage import GROUP, QUIET, ZIDS, Stage, scenario, tell_apart


@scenario()
def scouting(stage: Stage) -> None:
    """SCOUT for routers, for peers, for all; HELLO of a router and a peer.

    At the end a client finds its router that way and opens a session.
    """
    config: dict[str, Any] = {
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": f"{GROUP}:{stage.port()}",
        "scouting/multicast/interface": "lo",
        "scouting/multicast/autoconnect": {"router": [], "peer": [], "client": ["router"]},
    }
    stage.router(**config)
    stage.start("left", "peer", **{"listen/endpoints": ["tcp/127.0.0.1:0"], **config})
    alice = stage.process("alice")
    for what, count in (("router", 1), ("peer", 1), ("router|peer|client", 2)):
        alice.scout(what=what, count=count, config={**QUIET, **config})
    stage.start("bob", "client", **config)


@scenario()
def routers(stage: Stage) -> None:
    """Two routers with a client each: LINKSTATE, declarations with entity id 0.

    Data, a query and tokens go from one client to the other.
    """
    north = stage.router("north")
    south = stage.router("south", connect__endpoints=[stage.locator(north)])
    bob = stage.client("bob", north)
    bob.subscribe(name="all", key="far/**")
    bob.queryable(
        name="complete", key="far/answers", complete=True, answers=[{"key": "far/answers", "payload": "yes"}]
    )
    bob.token(name="bob", key="far/bob")
    bob.watch(name="south", key="south/*")
    alice = stage.client("alice", south)
    # A router drops data until it has computed its trees, and sends declarations on only then.
    alice.token(name="alice", key="south/alice")
    stage.received(bob, 1)
    alice.publisher(name="data", key="far/data")
    alice.matching(name="data")
    alice.publish(name="data", payload="through two routers")
    alice.publish(name="data", payload="again", attachment="with")
    stage.received(bob, 3)
    alice.querier(name="asker", key="far/answers", target="ALL_COMPLETE")
    alice.matching(name="asker")
    stage.asks(alice, "", querier="asker")
    stage.answered(bob, 1)
    alice.watch(name="tokens", key="far/**", history=True)
    stage.received(alice, 1)
    for name in ("all", "complete", "bob"):
        bob.undeclare(name=name)
    stage.received(alice, 2)


@scenario()
def peers(stage: Stage) -> None:
    """Two peers: LINKSTATE and D_FINAL for interest 0 at once, then data, a query and a token."""
    left = stage.start("left", "peer", listen__endpoints=["tcp/127.0.0.1:0"])
    left.subscribe(name="all", key="peer/**")
    left.queryable(name="q", key="peer/q", answers=[{"key": "peer/q", "payload": "from left"}])
    left.token(name="left", key="peer/left")
    right = stage.start(
        "right", "peer", listen__endpoints=["tcp/127.0.0.1:0"], connect__endpoints=[stage.locator(left)]
    )
    right.publisher(name="data", key="peer/data")
    right.matching(name="data")
    right.publish(name="data", payload="to left")
    right.retract(name="data")
    stage.received(left, 2)
    stage.asks(right, "peer/q")
    stage.answered(left, 1)
    right.watch(name="tokens", key="peer/*", history=True)
    stage.received(right, 1)
    left.undeclare(name="left")
    stage.received(right, 2)


@scenario()
def unicast_scouting(stage: Stage) -> None:
    """SCOUT to the address of a node instead of a group; its HELLO comes from another port than was asked."""
    config: dict[str, Any] = {
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": f"127.0.0.1:{stage.port()}",
        "scouting/multicast/interface": "lo",
    }
    stage.router(**config)
    alice = stage.process("alice")
    for what in ("router", "router|peer"):
        alice.scout(what=what, count=1, config={**QUIET, **config})


@scenario()
def three_routers(stage: Stage) -> None:
    """Three routers in a triangle with weights on their links, a client at each; then one of them goes away.

    LINKSTATE with links, weights and new versions; declarations that carry NodeId and distance.
    """
    weights: dict[str, Any] = {
        "routing/router/linkstate/transport_weights": [
            {"dst_zid": ZIDS["north"], "weight": 10},
            {"dst_zid": ZIDS["south"], "weight": 200},
        ]
    }
    north = stage.router("north")
    south = stage.router("south", connect__endpoints=[stage.locator(north)])
    east = stage.router("east", connect__endpoints=[stage.locator(north), stage.locator(south)], **weights)
    clients = {
        name: stage.client(name, router)
        for name, router in (("alice", north), ("bob", south), ("dave", east))
    }
    for name, node in clients.items():
        node.watch(name="others", key="at/**", history=True)
        node.token(name=name, key=f"at/{name}")
        node.subscribe(name="all", key="to/**")
        node.queryable(
            name="q", key=f"ask/{name}", complete=True, answers=[{"key": f"ask/{name}", "payload": name}]
        )
    for node in clients.values():
        # All tokens: its own, too.
        stage.received(node, 3)
    for name, node in clients.items():
        node.publisher(name="data", key=f"to/all/{name}", allowed_destination="REMOTE")
        node.matching(name="data")
        node.querier(name="asker", key="ask/*", target="ALL_COMPLETE", allowed_destination="REMOTE")
        node.matching(name="asker")
    for name, node in clients.items():
        node.publish(name="data", payload=f"from {name}")
    for node in clients.values():
        stage.received(node, 3 + 2)
    stage.asks(clients["alice"], "", querier="asker")
    stage.close(clients["dave"])
    for name in ("alice", "bob"):
        # The token of dave.
        stage.received(clients[name], 3 + 2 + 1)
    stage.close(east)
    clients["bob"].undeclare(name="q")
    clients["alice"].put(key="to/last", payload="by two routers", allowed_destination="REMOTE")
    stage.received(clients["bob"], 3 + 2 + 1 + 1)


@scenario()
def gossip(stage: Stage) -> None:
    """Three peers, two of which know only the third: LINKSTATE tells them of each other, and they connect."""
    local: dict[str, Any] = {"listen/endpoints": ["tcp/127.0.0.1:0"]}
    middle = stage.start("middle", "peer", **local)
    known = {**local, "connect/endpoints": [stage.locator(middle)]}
    nodes = [middle, *(stage.start(name, "peer", **known) for name in ("left", "right"))]
    for node in nodes:
        node.transports()
        node.gathered(what="transports", count=2)
        node.subscribe(name="all", key="gossip/**", allowed_origin="REMOTE")
    for node in nodes:
        node.token(name="here", key=f"here/{node.name}")
        node.publisher(name="data", key=f"gossip/{node.name}")
        node.watch(name="others", key="here/*", history=True)
    for node in nodes:
        stage.received(node, 3)
        node.matching(name="data")
    for node in nodes:
        node.publish(name="data", payload=f"from {node.name}")
    for node in nodes:
        stage.received(node, 3 + 2)


@scenario()
def dialed_back(stage: Stage) -> None:
    """Two peers that are told to connect to each other, one of which looks for the other only every three seconds.

    One session on two links; then the first link is cut, so that what follows goes over the second one, and comes again.
    """
    port = stage.port()
    left = stage.start(
        "left",
        "peer",
        listen__endpoints=["tcp/127.0.0.1:0"],
        connect__endpoints=[f"tcp/127.0.0.1:{port}"],
        connect__retry={"period_init_ms": 3000, "period_max_ms": 3000},
    )
    right = stage.start(
        "right",
        "peer",
        listen__endpoints=[f"tcp/127.0.0.1:{port}"],
        connect__endpoints=[stage.locator(left)],
    )
    nodes = left, right
    for node in nodes:
        node.links()
        node.subscribe(name="all", key="back/**", allowed_origin="REMOTE")
        node.publisher(name="data", key=f"back/{node.name}")
    for node in nodes:
        node.matching(name="data")
    for seen, (links, when) in enumerate(((1, "on one link"), (2, "on two"), (4, "on the second one"))):
        if seen == 2:
            right.cut(ports=left.opened["tcp"])
        for node in nodes:
            node.gathered(what="links", count=links)
        for node in nodes:
            node.publish(name="data", payload=when)
        for node in nodes:
            stage.received(node, seen + 1)


@scenario()
def mesh(stage: Stage) -> None:
    """A router, a peer at it, a client at the peer, a client at the router: who tells whom of what.

    Data, a query and a token from the client of the peer by peer and router to the other client.
    """
    router = stage.router()
    left = stage.start(
        "left", "peer", connect__endpoints=[stage.locator(router)], listen__endpoints=["tcp/127.0.0.1:0"]
    )
    left.subscribe(name="all", key="mesh/**", allowed_origin="REMOTE")
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="mesh/**")
    bob.queryable(name="q", key="mesh/q", answers=[{"key": "mesh/q", "payload": "by the router"}])
    bob.token(name="bob", key="token/bob")
    bob.fence()
    alice = stage.client("alice", left)
    alice.watch(name="tokens", key="token/*", history=True)
    stage.received(alice, 1)
    alice.publisher(name="data", key="mesh/data")
    alice.matching(name="data")
    alice.publish(name="data", payload="by the peer")
    left.publisher(name="own", key="mesh/own")
    left.matching(name="own")
    left.publish(name="own", payload="of the peer")
    stage.received(left, 1)
    stage.received(bob, 2)
    alice.querier(name="asker", key="mesh/q")
    alice.matching(name="asker")
    stage.asks(alice, "", querier="asker")
    stage.answered(bob, 1)


@scenario()
def meeting(stage: Stage) -> None:
    """Two peers that meet by SCOUT and HELLO, and a client that joins them the same way."""
    config: dict[str, Any] = {
        "listen/endpoints": ["tcp/127.0.0.1:0"],
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": f"{GROUP}:{stage.port()}",
        "scouting/multicast/interface": "lo",
        "scouting/multicast/autoconnect_strategy": {"peer": {"to_peer": "greater-zid"}},
        "scouting/gossip/enabled": False,
    }
    left = stage.start("left", "peer", **config)
    left.subscribe(name="all", key="met/**")
    right = stage.start("right", "peer", **config)
    right.publisher(name="data", key="met/data")
    right.matching(name="data")
    right.publish(name="data", payload="found you")
    stage.received(left, 1)
    del config["listen/endpoints"]
    alice = stage.start("alice", "client", **config)
    alice.publisher(name="data", key="met/client")
    alice.matching(name="data")
    alice.publish(name="data", payload="me too")
    stage.received(left, 2)


@scenario()
def filters(stage: Stage) -> None:
    """A router that holds things back: access control, a rate limit, a size limit; on its way out only."""
    router = stage.router(
        access_control={
            "enabled": True,
            "default_permission": "allow",
            "rules": [
                {
                    "id": "secrets",
                    "messages": ["put", "delete", "reply", "declare_subscriber", "query"],
                    "flows": ["egress"],
                    "permission": "deny",
                    "key_exprs": ["limit/secret/**"],
                }
            ],
            "subjects": [{"id": "all"}],
            "policies": [{"rules": ["secrets"], "subjects": ["all"]}],
        },
        downsampling=[
            {"messages": ["put"], "flows": ["egress"], "rules": [{"key_expr": "limit/rate/*", "freq": 0.01}]}
        ],
        low_pass_filter=[
            {"messages": ["put"], "flows": ["egress"], "key_exprs": ["limit/size/*"], "size_limit": 100}
        ],
    )
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="limit/**")
    bob.queryable(name="q", key="limit/**", answers=[{"key": "limit/secret/q", "payload": "hidden"}])
    bob.fence()
    alice = stage.client("alice", router)
    alice.put(key="limit/secret/a", payload="never seen")
    alice.put(key="limit/open", payload="seen")
    for text in tell_apart(3, "rate"):
        alice.put(key="limit/rate/a", payload=text)
    alice.put(key="limit/size/a", payload="count:200")
    alice.put(key="limit/size/a", payload="count:50")
    stage.asks(alice, "limit/secret/*")
    stage.asks(alice, "limit/q", accept_replies="ANY")
    alice.put(key="limit/last", payload="end")
    stage.received(bob, 4)


@scenario()
def namespaces(stage: Stage) -> None:
    """Nodes with a namespace: their keys have it in front on the wire, their applications do not see it."""
    router = stage.router()
    bob = stage.client("bob", router, namespace="robot/one")
    bob.subscribe(name="all", key="state/**")
    bob.queryable(name="q", key="ask", answers=[{"key": "ask", "payload": "from inside"}])
    bob.token(name="bob", key="alive/bob")
    bob.fence()
    dave = stage.client("dave", router)
    dave.subscribe(name="all", key="robot/**")
    dave.watch(name="tokens", key="robot/*/alive/*", history=True)
    dave.fence()
    alice = stage.client("alice", router, namespace="robot/one")
    alice.put(key="state/a", payload="inside")
    alice.watch(name="tokens", key="alive/*", history=True)
    stage.asks(alice, "ask")
    dave.put(key="robot/one/state/b", payload="from outside", allowed_destination="REMOTE")
    dave.put(key="state/c", payload="not for those inside")
    stage.asks(dave, "robot/*/ask")
    stage.received(alice, 1)
    stage.received(bob, 2)
    stage.received(dave, 1 + 1)
