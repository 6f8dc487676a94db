"""Publishers that keep and number what they publish, subscribers that ask for what they missed (zenoh.ext)."""

from __future__ import annotations

from typing import Any

from pcaps.stage import Stage, scenario, tell_apart

STAMPED: dict[str, Any] = {"timestamping/enabled": True}


@scenario()
def history(stage: Stage) -> None:
    """A subscriber that comes late and gets the last values from the cache of the publisher; then a late publisher.

    Samples with SourceInfo, queries with _anyke and _max, liveliness tokens of publishers under @adv.
    """
    router = stage.router(**STAMPED)
    alice = stage.client("alice", router, **STAMPED)
    alice.advanced_publisher(name="data", key="history/alice", cache=3, detection=True)
    for text in tell_apart(5):
        alice.publish(name="data", payload=text)
    alice.fence()
    bob = stage.client("bob", router, **STAMPED)
    bob.advanced_subscribe(name="all", key="history/**", history=10, late=True)
    stage.received(bob, 3)
    alice.publish(name="data", payload="live", encoding="text/plain")
    alice.retract(name="data")
    stage.received(bob, 5)
    erin = stage.client("erin", router, **STAMPED)
    erin.advanced_publisher(name="data", key="history/erin", cache=5, detection=True)
    for text in tell_apart(2, "late"):
        erin.publish(name="data", payload=text)
    stage.received(bob, 7)


@scenario()
def recovery(stage: Stage) -> None:
    """Values that a router holds back for their size, and how subscribers notice: gaps and heartbeats.

    Those of a publisher with a cache are asked for and come as replies; those without are reported missed.
    """
    router = stage.router(
        low_pass_filter=[
            {"messages": ["put"], "flows": ["egress"], "key_exprs": ["lost/*"], "size_limit": 100}
        ],
        **STAMPED,
    )
    bob = stage.client("bob", router, **STAMPED)
    bob.advanced_subscribe(name="all", key="lost/*", recovery=True)
    bob.fence()
    alice = stage.client("alice", router, **STAMPED)
    alice.advanced_publisher(name="kept", key="lost/kept", cache=10, heartbeat=0.1)
    for number, payload in enumerate(("first", "count:200", "third", "count:300")):
        alice.publish(name="kept", payload=payload)
        if number % 2 == 0:
            alice.fence()
    # The second when the third comes, the fourth when a heartbeat tells of it.
    stage.received(bob, 4)
    alice.undeclare(name="kept")
    alice.advanced_publisher(name="gone", key="lost/gone", heartbeat=0)
    for payload in ("one", "count:400", "three"):
        alice.publish(name="gone", payload=payload)
    stage.received(bob, 6)
    bob.gathered(what="misses", count=1)
