"""What INIT and OPEN agree on, or do not."""

from __future__ import annotations

import tempfile
from typing import Any

from pcaps.keys import key_pair
from pcaps.recording import Packet
from pcaps.stage import Stage, scenario, tell_apart

KEEP_ALIVE = bytes.fromhex("010004")
"""A batch with nothing else in it."""

DIRECT: dict[str, Any] = {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False}
"""Configuration of nodes that talk with low latency."""

PACKED: dict[str, Any] = {"transport/unicast/compression/enabled": True}
"""Configuration of nodes that compress."""


@scenario()
def handshake(stage: Stage) -> None:
    """INIT, OPEN, KEEP_ALIVE of both ends, CLOSE by the client; another client, CLOSE by the router."""
    router = stage.router(transport__link__tx__lease=1000)
    alice = stage.client("alice", router, transport__link__tx__lease=1000)
    port = router.opened["tcp"][0]

    def both(packets: list[Packet]) -> bool:
        return {packet.source == port for packet in packets if packet.payload == KEEP_ALIVE} == {False, True}

    stage.recorder.wait("KEEP_ALIVE of both ends", both)
    stage.close(alice)
    stage.client("carol", router)
    stage.close(router)


@scenario()
def resolution(stage: Stage) -> None:
    """8-bit sequence numbers that wrap: 140 messages, each in a FRAME of its own."""
    narrow: dict[str, Any] = {"transport/link/tx/sequence_number_resolution": "8bit"}
    router = stage.router(**narrow)
    bob = stage.client("bob", router, **narrow)
    bob.subscribe(name="all", key="n/*")
    bob.fence()
    alice = stage.client("alice", router, **narrow)
    for number in range(140):
        alice.put(key="n/n", payload=str(number), express=True, congestion_control="BLOCK")
    stage.received(bob, 140)


@scenario()
def lowlatency(stage: Stage) -> None:
    """Low latency (INIT extension 0x5): 4-byte lengths, no FRAME after OPEN, KEEP_ALIVE."""
    direct = {**DIRECT, "transport/link/tx/lease": 1000}
    router = stage.router(**direct)
    bob = stage.client("bob", router, **direct)
    bob.subscribe(name="all", key="low/**")
    bob.queryable(name="q", key="low/q", answers=[{"key": "low/q", "payload": "quick"}])
    bob.fence()
    alice = stage.client("alice", router, **direct)
    alice.put(key="low/a", payload="one", encoding="text/plain")
    alice.put(key="low/b", payload="count:3000")
    alice.delete(key="low/a")
    stage.received(bob, 3)
    stage.asks(alice, "low/q")
    stage.answered(bob, 1)
    breath = bytes.fromhex("0100000004")
    stage.recorder.wait("KEEP_ALIVE", lambda packets: any(packet.payload == breath for packet in packets))


@scenario()
def compression(stage: Stage) -> None:
    """Compression (INIT extension 0x6): a header byte in each batch after OPEN, LZ4 where shorter.

    Compressed FRAGMENTs, too.
    """
    router = stage.router(**PACKED)
    bob = stage.client("bob", router, **PACKED)
    bob.subscribe(name="all", key="zip/**")
    bob.fence()
    alice = stage.client("alice", router, **PACKED)
    alice.put(key="zip/short", payload="too short")
    alice.put(key="zip/long", payload="again and " * 100)
    alice.put(key="zip/count", payload="count:3000")
    carol = stage.client("carol", router, transport__link__tx__batch_size=2048, **PACKED)
    carol.put(key="zip/fragments", payload="count:9000", congestion_control="BLOCK")
    stage.received(bob, 4)


@scenario()
def authentication(stage: Stage) -> None:
    """User and password (INIT and OPEN extension 0x3); the password of alice is 'open sesame'."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as known:
        known.write("alice:open sesame\n")
        known.flush()
        own = {"transport/auth/usrpwd/user": "router", "transport/auth/usrpwd/password": "for itself"}
        router = stage.router(**own, **{"transport/auth/usrpwd/dictionary_file": known.name})
    hers = {"transport/auth/usrpwd/user": "alice", "transport/auth/usrpwd/password": "open sesame"}
    alice = stage.client("alice", router, **hers)
    alice.fence()


@scenario()
def multilink(stage: Stage) -> None:
    """Two links of one session (INIT and OPEN extension 0x4), with a public key of each node."""
    _, bob, left = stage.linked_twice("links/**")
    left.publisher(name="data", key="links/data")
    left.matching(name="data")
    for text in tell_apart(4):
        left.publish(name="data", payload=text)
    stage.received(bob, 4)


@scenario()
def negotiation(stage: Stage) -> None:
    """What each side offers, and what both have: resolutions of 8, 16 and 32 bits, batch sizes, leases.

    A lease in milliseconds and in seconds, a region name, QoS, compression and low latency that only one of
    the two wants.
    """
    router = stage.router(transport__link__tx__lease=20000)
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="agreed/**")
    bob.fence()
    offers: dict[str, dict[str, Any]] = {
        "alice": {
            "transport/link/tx/sequence_number_resolution": "8bit",
            "transport/link/tx/batch_size": 1024,
            "transport/link/tx/lease": 15500,
        },
        "carol": {
            "transport/link/tx/sequence_number_resolution": "16bit",
            "transport/link/tx/lease": 60000,
            "region_name": "harbour",
        },
        "dave": {
            "transport/link/tx/sequence_number_resolution": "32bit",
            "transport/unicast/compression/enabled": True,
            "transport/link/tx/batch_size": 50000,
        },
        "erin": {"transport/unicast/qos/enabled": False, "transport/unicast/lowlatency": True},
    }
    for name, offer in offers.items():
        node = stage.client(name, router, **offer)
        node.put(key=f"agreed/{name}", payload="count:1500", congestion_control="BLOCK")
    stage.received(bob, len(offers))


@scenario()
def refusals(stage: Stage) -> None:
    """Sessions that do not come to be, and the CLOSE that says so.

    A wrong password, no password, one session too many, a node that meets itself, one link too many.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as known:
        known.write("alice:open sesame\n")
        known.flush()
        own = {"transport/auth/usrpwd/user": "router", "transport/auth/usrpwd/password": "for itself"}
        strict = stage.router("router", **own, **{"transport/auth/usrpwd/dictionary_file": known.name})
    wrong = {"transport/auth/usrpwd/user": "alice", "transport/auth/usrpwd/password": "open barley"}
    stage.refused("alice", "client", connect__endpoints=[stage.locator(strict)], **wrong)
    stage.refused("carol", "client", connect__endpoints=[stage.locator(strict)])
    small = stage.router("north", transport__unicast__max_sessions=1)
    stage.client("bob", small)
    stage.refused("dave", "client", connect__endpoints=[stage.locator(small)])
    south = stage.router("south", listen__endpoints=["tcp/127.0.0.1:0", "tcp/127.0.0.1:0"])
    stage.refused("mirror", "client", connect__endpoints=[stage.locator(south)])
    ports = south.opened["tcp"]
    left = stage.start(
        "left",
        "peer",
        listen__endpoints=["tcp/127.0.0.1:0"],
        connect__endpoints=[f"tcp/127.0.0.1:{port}" for port in ports],
    )
    left.put(key="one", payload="link is enough")

    def tried(packets: list[Packet]) -> bool:
        return all(any(packet.payload and packet.target == port for packet in packets) for port in ports)

    stage.recorder.wait("second link", tried)
    left.fence()


@scenario()
def ranges(stage: Stage) -> None:
    """Two links of one session, for priorities and reliabilities of their own (QoSLink, INIT extension 0x1)."""
    kinds = ("prio=0-3;rel=1", "prio=4-7;rel=0")
    router = stage.router(
        listen__endpoints=[f"tcp/127.0.0.1:0?{kind}" for kind in kinds], transport__unicast__max_links=2
    )
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="range/**")
    bob.fence()
    left = stage.start(
        "left",
        "peer",
        listen__endpoints=["tcp/127.0.0.1:0"],
        connect__endpoints=[
            f"tcp/127.0.0.1:{port}?{kind}" for port, kind in zip(router.opened["tcp"], kinds, strict=True)
        ],
        transport__unicast__max_links=2,
    )
    for priority in ("REAL_TIME", "INTERACTIVE_LOW", "DATA", "BACKGROUND"):
        left.publisher(
            name=priority,
            key=f"range/{priority.lower()}",
            priority=priority,
            reliability="BEST_EFFORT" if priority.startswith(("DATA", "BACK")) else "RELIABLE",
        )
        left.matching(name=priority)
        left.publish(name=priority, payload=priority)
    stage.received(bob, 4)


@scenario()
def public_keys(stage: Stage) -> None:
    """An RSA key in INIT (extension 0x3, method 1). No configuration tells a node the keys of others: CLOSE."""
    router = stage.router(**key_pair())
    stage.refused("alice", "client", connect__endpoints=[stage.locator(router)], **key_pair())
