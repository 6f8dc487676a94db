"""Each kind of link."""

from __future__ import annotations

from typing import Any

from pcaps.keys import certificates
from pcaps.recording import Packet
from pcaps.scenarios.handshakes import DIRECT, PACKED
from pcaps.stage import GROUP, ZIDS, Stage, scenario


@scenario()
def datagrams(stage: Stage) -> None:
    """UDP unicast: the same messages as datagrams without a length in front, best effort."""
    router = stage.router(listen__endpoints=["udp/127.0.0.1:0"])
    locator = f"udp/127.0.0.1:{router.opened['udp'][0]}"
    bob = stage.start("bob", "client", connect__endpoints=[locator])
    bob.subscribe(name="all", key="dgram/**")
    bob.fence()
    alice = stage.start("alice", "client", connect__endpoints=[locator])
    alice.put(key="dgram/a", payload="one")
    alice.put(key="dgram/b", payload="two", priority="DATA_HIGH", encoding="text/plain")
    stage.received(bob, 2)


@scenario()
def multicast(stage: Stage) -> None:
    """Multicast transport of two peers: JOIN, FRAME and CLOSE in a group, nothing else."""
    port = stage.port()
    config: dict[str, Any] = {
        "listen/endpoints": [f"udp/{GROUP}:{port}#iface=lo"],
        "transport/multicast/join_interval": 200,
        "transport/multicast/qos/enabled": True,
    }
    left = stage.start("left", "peer", **config)
    left.subscribe(name="all", key="group/**")
    right = stage.start("right", "peer", **config)
    zids = [bytes.fromhex(ZIDS[name]) for name in ("left", "right")]

    def twice(packets: list[Packet]) -> bool:
        in_group = [packet.payload for packet in packets if packet.target == port]
        return all(sum(zid in payload for payload in in_group) > 1 for zid in zids)

    stage.recorder.wait("second JOIN of both", twice)
    right.put(key="group/a", payload="to all")
    right.put(key="group/b", payload="urgent", priority="REAL_TIME")
    right.delete(key="group/a")
    stage.received(left, 3)


def talk(
    stage: Stage, listen: str, protocol: str, host: str = "127.0.0.1", large: int = 9000, **config: Any
) -> None:
    """Plays the same on any link: a router, a client that listens and answers, one that puts and asks.

    Args:
        stage: Where.
        listen: Endpoint of the router.
        protocol: Protocol to connect by.
        host: Host to connect to.
        large: Bytes of the largest payload; the default needs several batches.
        config: Configuration of all three.
    """
    metadata = listen.partition("?")[2]
    config["transport/link/tx/batch_size"] = 2048
    router = stage.router(listen__endpoints=[listen], **config)
    locator = stage.locator(router, protocol, host) + (f"?{metadata}" if metadata else "")
    bob = stage.start("bob", "client", connect__endpoints=[locator], **config)
    bob.subscribe(name="all", key="link/**")
    bob.queryable(name="q", key="link/q", answers=[{"key": "link/q", "payload": "answer"}])
    bob.token(name="bob", key="link/bob")
    bob.fence()
    alice = stage.start("alice", "client", connect__endpoints=[locator], **config)
    alice.put(key="link/text", payload="over the link", encoding="text/plain")
    alice.put(key="link/urgent", payload="now", priority="REAL_TIME", congestion_control="BLOCK")
    alice.put(key="link/large", payload=f"count:{large}", congestion_control="BLOCK")
    alice.delete(key="link/text")
    stage.received(bob, 4)
    stage.asks(alice, "link/q")
    alice.alive(key="link/*")


@scenario()
def tcp6(stage: Stage) -> None:
    """TCP over IPv6."""
    talk(stage, "tcp/[::1]:0", "tcp", "[::1]")


@scenario()
def udp6(stage: Stage) -> None:
    """UDP unicast over IPv6, with FRAGMENTs in datagrams."""
    talk(stage, "udp/[::1]:0", "udp", "[::1]")


@scenario()
def websocket(stage: Stage) -> None:
    """WebSocket: an HTTP upgrade, then each batch in a binary message; what clients send is masked."""
    talk(stage, "ws/127.0.0.1:0", "ws")


def trust(mutual: bool = False) -> dict[str, Any]:
    """Returns the configuration of nodes that trust each other by a certificate of this run."""
    made = certificates()
    tls = "transport/link/tls"
    config: dict[str, Any] = {
        f"{tls}/root_ca_certificate_base64": made["authority"],
        f"{tls}/listen_private_key_base64": made["key"],
        f"{tls}/listen_certificate_base64": made["certificate"],
    }
    if mutual:
        config |= {
            f"{tls}/enable_mtls": True,
            f"{tls}/connect_private_key_base64": made["key"],
            f"{tls}/connect_certificate_base64": made["certificate"],
        }
    return config


@scenario()
def packed_datagrams(stage: Stage) -> None:
    """UDP with compression: the header byte first in each datagram after OPEN, and compressed FRAGMENTs."""
    talk(stage, "udp/127.0.0.1:0", "udp", **PACKED)


@scenario()
def direct_datagrams(stage: Stage) -> None:
    """UDP with low latency: a network message each, with nothing in front."""
    talk(stage, "udp/127.0.0.1:0", "udp", large=1500, **DIRECT)


@scenario()
def direct_websocket(stage: Stage) -> None:
    """WebSocket with low latency."""
    talk(stage, "ws/127.0.0.1:0", "ws", large=1500, **DIRECT)


@scenario()
def packed_websocket(stage: Stage) -> None:
    """WebSocket with compression."""
    talk(stage, "ws/127.0.0.1:0", "ws", **PACKED)


@scenario(opaque=True)
def tls(stage: Stage) -> None:
    """TLS on TCP: nothing that can be read, to be left alone."""
    talk(stage, "tls/127.0.0.1:0", "tls", "localhost", **trust())


@scenario(opaque=True)
def mutual_tls(stage: Stage) -> None:
    """TLS on TCP with certificates of both ends, to be left alone."""
    talk(stage, "tls/127.0.0.1:0", "tls", "localhost", **trust(mutual=True))


@scenario(opaque=True)
def quic(stage: Stage) -> None:
    """QUIC with one stream, to be left alone."""
    talk(stage, "quic/127.0.0.1:0", "quic", "localhost", **trust())


@scenario(opaque=True)
def quic_datagrams(stage: Stage) -> None:
    """QUIC datagrams (rel=0) instead of streams, to be left alone."""
    talk(stage, "quic/127.0.0.1:0?rel=0", "quic", "localhost", **trust())


@scenario(opaque=True)
def quic_streams(stage: Stage) -> None:
    """QUIC with a stream for each priority (multistream=1), to be left alone."""
    talk(stage, "quic/127.0.0.1:0?multistream=1", "quic", "localhost", **trust())


@scenario(opaque=True)
def quic_by_udp(stage: Stage) -> None:
    """UDP that is to be reliable (rel=1), which is QUIC without encryption; to be left alone."""
    talk(stage, "udp/127.0.0.1:0?rel=1", "udp", "localhost", **trust())


@scenario()
def joins(stage: Stage) -> None:
    """Three peers in a multicast group without lanes: JOIN with two sequence numbers and a batch size, CLOSE.

    FRAGMENTs only where a datagram cannot be larger, whatever batch size JOIN says.
    """
    port = stage.port()
    config: dict[str, Any] = {
        "listen/endpoints": [f"udp/{GROUP}:{port}#iface=lo"],
        "transport/multicast/join_interval": 200,
        "transport/link/tx/batch_size": 4096,
    }
    names = ("left", "middle", "right")
    left, middle, right = (stage.start(name, "peer", **config) for name in names)
    zids = [bytes.fromhex(ZIDS[name]) for name in names]

    def often(packets: list[Packet]) -> bool:
        # After the last has come, as one that is not known yet is not heard.
        in_group = [packet.payload for packet in packets if packet.target == port]
        first = next((at for at, payload in enumerate(in_group) if zids[-1] in payload), len(in_group))
        return all(sum(zid in payload for payload in in_group[first:]) > 1 for zid in zids)

    stage.recorder.wait("second JOIN of all", often)
    # Of one peer only: in a group of three each repeats what the others declare.
    left.subscribe(name="all", key="group/**")
    for node in (middle, right):
        node.publisher(name="data", key=f"group/{node.name}")
        node.matching(name="data")
        node.publish(name="data", payload=f"from {node.name}")
    right.put(key="group/large", payload="count:70000", congestion_control="BLOCK")
    right.delete(key="group/right", attachment="gone")
    stage.received(left, 4)


@scenario()
def packed_multicast(stage: Stage) -> None:
    """Multicast with compression: a header byte in each datagram of the group, in those with JOIN, too."""
    port = stage.port()
    config: dict[str, Any] = {
        "listen/endpoints": [f"udp/{GROUP}:{port}#iface=lo"],
        "transport/multicast/join_interval": 200,
        "transport/multicast/compression/enabled": True,
    }
    left = stage.start("left", "peer", **config)
    left.subscribe(name="all", key="group/**")
    right = stage.start("right", "peer", **config)

    def often(packets: list[Packet]) -> bool:
        # Their ZenohIDs may be compressed away.
        senders = [packet.source for packet in packets if packet.target == port]
        return len(set(senders)) > 1 and min(senders.count(sender) for sender in senders) > 2

    stage.recorder.wait("third JOIN of both", often)
    right.put(key="group/short", payload="short")
    right.put(key="group/long", payload="again and " * 100)
    stage.received(left, 2)
