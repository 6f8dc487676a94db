"""How sessions end."""

from __future__ import annotations

import signal
from typing import Any

from pcaps.stage import Stage, scenario, tell_apart


@scenario()
def endings(stage: Stage) -> None:
    """Clients that close, are interrupted, terminated and killed, while others watch; last the router closes."""
    router = stage.router()
    router.transports()
    erin = stage.client("erin", router)
    erin.watch(name="others", key="end/*")
    erin.fence()
    names = ("alice", "bob", "carol", "dave")
    ways = (None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    for seen, (name, way) in enumerate(zip(names, ways, strict=True)):
        node = stage.client(name, router)
        node.token(name="here", key=f"end/{name}")
        stage.received(erin, 2 * seen + 1)
        if way is None:
            stage.close(node)
        else:
            stage.kill(node, way)
        stage.received(erin, 2 * seen + 2)
    router.gathered(what="transports", count=1 + 2 * len(names))
    stage.close(router, erin)


@scenario()
def connected_again(stage: Stage) -> None:
    """A session of two links that are both cut, and the one that its nodes begin as soon as they can, with as many."""
    router, bob, left = stage.linked_twice("again/**")
    left.links()
    left.publisher(name="data", key="again/data")
    for seen, when in enumerate(("first", "again")):
        if seen:
            left.cut(ports=router.opened["tcp"])
        left.gathered(what="links", count=2 + 4 * seen)
        left.matching(name="data")
        for text in tell_apart(4, when):
            left.publish(name="data", payload=text)
        stage.received(bob, 4 + 4 * seen)


@scenario()
def leases(stage: Stage) -> None:
    """A node that stops breathing: no KEEP_ALIVE, so its session ends with its lease; then it comes back."""
    router = stage.router(transport__link__tx__lease=1000)
    erin = stage.client("erin", router)
    erin.watch(name="others", key="lease/*")
    erin.fence()
    bob = stage.client("bob", router, transport__link__tx__lease=1000)
    bob.subscribe(name="all", key="lease/data")
    bob.token(name="here", key="lease/bob")
    stage.received(erin, 1)
    bob.signal(signal.SIGSTOP)
    stage.received(erin, 2)
    bob.signal(signal.SIGCONT)
    # It connects again by itself and declares what it has.
    stage.received(erin, 3)
    erin.publisher(name="data", key="lease/data")
    erin.matching(name="data")
    erin.publish(name="data", payload="welcome back")
    stage.received(bob, 1)


NARROW: dict[str, Any] = {
    "transport/link/tcp/so_sndbuf": 4096,
    "transport/link/tcp/so_rcvbuf": 4096,
    "transport/link/tx/batch_size": 2048,
}
"""Configuration of nodes whose links are full soon."""


@scenario()
def dropped(stage: Stage) -> None:
    """A large message that its sender gives up half way, as the router takes nothing.

    Instead of the next FRAGMENT comes an empty batch, and its sequence number is left out.
    """
    router = stage.router(**NARROW)
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="drop/**")
    bob.fence()
    alice = stage.client(
        "alice",
        router,
        **NARROW,
        transport__link__tx__queue__congestion_control__drop__max_wait_before_drop_fragments=50_000,
    )
    alice.put(key="drop/before", payload="count:5000")
    stage.received(bob, 1)
    router.signal(signal.SIGSTOP)
    alice.put(key="drop/large", payload="count:60000", congestion_control="DROP")
    router.signal(signal.SIGCONT)
    alice.put(key="drop/after", payload="count:5000", congestion_control="BLOCK")
    stage.received(bob, 2)


@scenario()
def unresponsive(stage: Stage) -> None:
    """A message that must not be dropped, to a router that takes nothing: its sender ends the link.

    An empty batch, no CLOSE; then it connects again.
    """
    router = stage.router(**NARROW)
    alice = stage.client(
        "alice",
        router,
        **NARROW,
        transport__link__tx__queue__congestion_control__block__wait_before_close=100_000,
    )
    alice.transports()
    alice.gathered(what="transports", count=1)
    router.signal(signal.SIGSTOP)
    alice.put(key="drop/large", payload="count:60000", congestion_control="BLOCK")
    router.signal(signal.SIGCONT)
    # Its end, and the next one.
    alice.gathered(what="transports", count=3)
