"""Nodes of older releases beside the installed one."""

from __future__ import annotations

from pcaps.scenarios.data import SHARING
from pcaps.stage import Node, Stage, scenario


def talk(bob: Node, alice: Node, root: str, stage: Stage) -> None:
    """Plays data, a query and a token between two clients of a router."""
    bob.subscribe(name="all", key=f"{root}/**")
    bob.queryable(
        name="q", key=f"{root}/q", complete=True, answers=[{"key": f"{root}/q", "payload": "answer"}]
    )
    bob.token(name="bob", key=f"{root}/bob")
    bob.fence()
    alice.publisher(name="data", key=f"{root}/data", reliability="BEST_EFFORT")
    alice.put(key=f"{root}/a", payload="text", encoding="text/plain;utf-8", attachment="with")
    alice.put(key=f"{root}/b", payload="count:9000", congestion_control="BLOCK", priority="DATA_HIGH")
    alice.put(key=f"{root}/c", payload="at once", express=True)
    alice.delete(key=f"{root}/a", attachment="gone")
    alice.publish(name="data", payload="best effort")
    stage.received(bob, 5)
    stage.asks(alice, f"{root}/q?x=1", payload="body", encoding="text/plain", target="ALL")
    alice.alive(key=f"{root}/*")
    alice.watch(name="tokens", key=f"{root}/*", history=True)
    stage.received(alice, 1)
    bob.undeclare(name="bob")
    stage.received(alice, 2)


def beside(stage: Stage, version: str) -> None:
    """Plays an old router with an old and a new client, then a new router with the same, and two routers."""
    old = stage.router("north", version=version)
    talk(stage.client("bob", old, version=version), stage.client("alice", old), "old", stage)
    new = stage.router("south", connect__endpoints=[stage.locator(old)])
    talk(stage.client("dave", new), stage.client("erin", new, version=version), "new", stage)


@scenario("1.0.4")
def older_1_0_4(stage: Stage) -> None:
    """A router and clients of release 1.0.4 beside those of the installed one."""
    beside(stage, "1.0.4")


@scenario("1.9.0")
def older_1_9_0(stage: Stage) -> None:
    """A router and clients of release 1.9.0 beside those of the installed one."""
    beside(stage, "1.9.0")


@scenario("1.9.0")
def shared_1_9_0(stage: Stage) -> None:
    """Peers of release 1.9.0 that share memory, and one of the installed release that tries to.

    Shm in OPEN has two forms that do not understand each other.
    """
    left = stage.start("left", "peer", version="1.9.0", **SHARING)
    left.subscribe(name="all", key="shared/**")
    for name, version, size in (("middle", "1.9.0", 2500), ("right", "", 2000)):
        node = stage.start(name, "peer", version=version, connect__endpoints=[stage.locator(left)], **SHARING)
        node.publisher(name="data", key=f"shared/{name}")
        node.matching(name="data")
        node.publish(name="data", payload=f"shared:count:{size}")
    stage.received(left, 2)
