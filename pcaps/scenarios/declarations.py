"""DECLARE and INTEREST."""

from __future__ import annotations

from pcaps.stage import Stage, scenario


@scenario()
def declarations(stage: Stage) -> None:
    """D_KEYEXPR, D_SUBSCRIBER, D_QUERYABLE and what takes them back; INTEREST of publishers.

    Aliases are used by both ends of a link.
    """
    router = stage.router()
    bob = stage.client("bob", router)
    bob.subscribe(name="exact", key="home/kitchen/temperature")
    bob.subscribe(name="wild", key="home/**")
    bob.alias(name="hall", key="home/hall")
    bob.queryable(name="complete", key="home/history/**", complete=True, answers=[])
    bob.queryable(name="partial", key="home/history/hall", answers=[])
    bob.fence()
    alice = stage.client("alice", router)
    alice.publisher(name="kitchen", key="home/kitchen/temperature", encoding="text/plain")
    alice.publisher(name="hall", key="home/hall/temperature", priority="DATA_HIGH")
    alice.matching(name="kitchen")
    alice.matching(name="hall")
    alice.publish(name="kitchen", payload="21.5")
    alice.publish(name="hall", payload="18.0", encoding="text/csv", attachment="sensor 2")
    alice.retract(name="hall")
    alice.alias(name="cellar", key="home/cellar")
    alice.put_alias(name="cellar", payload="dry")
    # Kitchen matches both subscribers.
    stage.received(bob, 5)
    for name in ("exact", "wild", "complete", "partial", "hall"):
        bob.undeclare(name=name)
    bob.fence()
    for name in ("kitchen", "hall", "cellar"):
        alice.undeclare(name=name)
    alice.fence()


@scenario()
def liveliness(stage: Stage) -> None:
    """D_TOKEN and U_TOKEN; INTEREST for tokens: current, future, both.

    One token is undeclared, one ends with its session.
    """
    router = stage.router()
    alice = stage.client("alice", router)
    alice.watch(name="future", key="group/**")
    alice.fence()
    bob = stage.client("bob", router)
    bob.token(name="bob", key="group/bob")
    stage.received(alice, 1)
    alice.alive(key="group/*")
    alice.alive(key="nobody/*")
    alice.watch(name="with history", key="group/*", history=True)
    stage.received(alice, 2)
    bob.undeclare(name="bob")
    stage.received(alice, 4)
    bob.token(name="again", key="group/bob/again")
    stage.received(alice, 5)
    stage.close(bob)
    stage.received(alice, 6)


@scenario()
def undeclarations(stage: Stage) -> None:
    """Everything that can be declared, declared and taken back, by a client, by a peer, and declared again."""
    router = stage.router()
    left = stage.start(
        "left", "peer", connect__endpoints=[stage.locator(router)], listen__endpoints=["tcp/127.0.0.1:0"]
    )
    left.transports()
    left.gathered(what="transports", count=1)
    bob = stage.client("bob", router)
    bob.watch(name="tokens", key="all/tokens/**")
    bob.fence()
    seen = 0
    for _ in range(2):
        for node, name in ((left, "left"), (bob, "bob")):
            node.subscribe(name="subscriber", key=f"all/{name}/**")
            node.queryable(name="queryable", key=f"all/{name}/q", complete=True, answers=[])
            node.token(name="token", key=f"all/tokens/{name}")
            node.alias(name="alias", key=f"all/{name}/alias")
            node.watch(name="watch", key="nothing/*", history=True)
            node.publisher(name="publisher", key=f"all/data/{name}")
            node.querier(name="querier", key=f"all/asked/{name}")
            node.fence()
            seen += 1
            stage.received(bob, seen)
        for node in (bob, left):
            for name in ("querier", "publisher", "watch", "alias", "token", "queryable", "subscriber"):
                node.undeclare(name=name)
            node.fence()
            seen += 1
            stage.received(bob, seen)


@scenario()
def aggregation(stage: Stage) -> None:
    """Subscribers and publishers that are declared as one, for the key they have in common by configuration."""
    router = stage.router()
    bob = stage.client("bob", router, aggregation={"subscribers": ["sum/in/**"], "publishers": []})
    for name in ("a", "b"):
        bob.subscribe(name=name, key=f"sum/in/{name}")
    bob.subscribe(name="other", key="sum/other")
    bob.fence()
    alice = stage.client("alice", router, aggregation={"subscribers": [], "publishers": ["sum/**"]})
    for name, key in (("a", "sum/in/a"), ("c", "sum/in/c"), ("other", "sum/other")):
        alice.publisher(name=name, key=key)
        alice.matching(name=name)
        # What nobody wants travels as well: it is in what was declared.
        alice.publish(name=name, payload=name)
    stage.received(bob, 2)
    for name in ("a", "b", "other"):
        bob.undeclare(name=name)
    bob.fence()
