"""Makes the captures of this folder: real nodes on loopback, recorded from the wire.

``python pcaps/capture.py [NAME ...]`` plays scenarios (all without a name; ``--list`` shows them). Each one
starts eclipse-zenoh nodes as processes in a network of their own, with fixed ZenohIDs and ports that the
system chooses, and leaves three things: ``NAME.pcapng``, ``NAME.truth.json`` with what the API of the
nodes handed out (so that decoders are judged by somebody else's word), and a row in ``manifest.toml``.

Nothing waits for a fixed time: a scenario goes on when a reply, a sample or a packet arrived. A ``get`` of
``fence`` that nobody answers makes sure that a router has taken all that a client sent before.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import importlib.metadata
import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HERE = Path(__file__).parent

NODE = "eclipse-zenoh"

LICENCE = "GPL-2.0-or-later"

PATIENCE = 20.0
"""Seconds after which what a scenario waits for counts as never coming."""

GROUP = "239.255.74.46"
"""Private multicast group, so that nodes outside the scenario are never asked."""

ZIDS = {
    "router": "a1" * 16,
    "north": "a2" * 16,
    "south": "a3" * 16,
    "alice": "b1" * 16,
    "bob": "b2" * 16,
    "carol": "c",
    "left": "d1" * 8,
    "right": "d2" * 8,
}
"""ZenohIDs of the nodes by name, as configured; of 16, 8 and 1 bytes."""


class CaptureError(Exception):
    """A capture cannot be made; the text says why, in one line."""


# Recording ----------------------------------------------------------------------------------------

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
SO_TIMESTAMPNS = 35
SOL_PACKET, PACKET_STATISTICS = 263, 6
PACKET_OUTGOING = 4
ETH_P_ALL = 3
IPV4 = b"\x08\x00"
TCP, UDP = 6, 17
BUFFER = 1 << 24
"""Bytes the kernel keeps for us; half of it is enough for any scenario at once."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet as it was on the interface.

    Attributes:
        time_ns: When the kernel saw it, since the epoch.
        frame: All of its bytes, from the Ethernet header on.
        protocol: TCP or UDP, 0 for anything else.
        source: Port.
        target: Port.
        payload: What TCP or UDP carried.
    """

    time_ns: int
    frame: bytes
    protocol: int = 0
    source: int = 0
    target: int = 0
    payload: bytes = b""

    @classmethod
    def of(cls, time_ns: int, frame: bytes) -> Self:
        """Reads IPv4 and what is in it; fragments of IP do not occur on loopback."""
        protocol = frame[23] if frame[12:14] == IPV4 else 0
        if protocol not in {TCP, UDP}:
            return cls(time_ns, frame)
        end = 14 + int.from_bytes(frame[16:18], "big")
        at = 14 + (frame[14] & 0xF) * 4
        source, target = struct.unpack_from(">HH", frame, at)
        size = (frame[at + 12] >> 4) * 4 if protocol == TCP else 8
        return cls(time_ns, frame, protocol, source, target, frame[at + size : end])


def own_network() -> None:
    """Moves this process, and the nodes it will start, into a network of its own, if the system lets it.

    There nothing else is on the wire, no address of the machine can get into a locator, and an ordinary
    user may record. Where that is not to be had, the loopback interface of the machine is recorded.
    """
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None)
    if libc.unshare(CLONE_NEWNET) == 0:
        pass
    elif libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0:
        for file, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with contextlib.suppress(OSError):  # the recorder finds out what is missing
                Path(f"/proc/self/{file}").write_text(text, encoding="ascii")
    else:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


class Recorder(threading.Thread):
    """Records the loopback interface from entering the context until ``stop``.

    The socket is ready when it is bound, and the kernel hands over packets on loopback before the
    sender's call returns: nothing of a node that is started later is missed.

    Raises:
        CaptureError: No right to record.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._packets: list[Packet] = []
        self._arrived = threading.Condition()
        self._stopped = False
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        except PermissionError:
            raise CaptureError(
                "recording packets needs root, as this system keeps user namespaces from you"
            ) from None
        except (AttributeError, OSError) as error:
            raise CaptureError(f"this system has no packet sockets to record with ({error})") from None
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        try:
            self._socket.bind(("lo", 0))
        except OSError as error:
            raise CaptureError(f"the loopback interface cannot be recorded ({error.strerror})") from None

    def run(self) -> None:
        """Takes packets until the socket is closed."""
        while not self._stopped:
            frame, extra, _, address = self._socket.recvmsg(1 << 17, 64)
            # Each packet shows twice on loopback, leaving and arriving.
            if address[2] != PACKET_OUTGOING:
                seconds, nanoseconds = struct.unpack("qq", extra[0][2])
                with self._arrived:
                    self._packets.append(Packet.of(seconds * 10**9 + nanoseconds, frame))
                    self._arrived.notify_all()

    def wait(self, what: str, found: Callable[[list[Packet]], bool]) -> None:
        """Waits until the packets so far are what a scenario wants.

        Raises:
            CaptureError: They never are.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: found(self._packets), PATIENCE):
                raise CaptureError(f"no {what} within {PATIENCE:g} s")

    def stop(self) -> list[Packet]:
        """Ends the recording; everything sent before is in it.

        Raises:
            CaptureError: The kernel had to drop packets.
        """
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.sendto(b"", ("127.0.0.1", port))
            self.wait("probe packet", lambda packets: any(packet.target == port for packet in packets))
            self._stopped = True
            probe.sendto(b"", ("127.0.0.1", port))
        self.join()
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self._socket.close()
        if dropped:
            raise CaptureError(f"{dropped} packets were lost while recording; try again when it is quieter")
        return self._packets


def pcapng(packets: Iterable[Packet]) -> bytes:
    """Returns a capture file that says nothing about where it was made.

    Spec: draft-ietf-opsawg-pcapng; section header, interface description (Ethernet, nanoseconds, name lo),
    enhanced packets.
    """
    out = bytearray()

    def block(kind: int, body: bytes) -> None:
        body += bytes(-len(body) % 4)
        size = len(body) + 12
        out.extend(struct.pack("<II", kind, size) + body + struct.pack("<I", size))

    block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    name = struct.pack("<HH4s", 2, 2, b"lo")
    resolution = struct.pack("<HHB3x", 9, 1, 9)
    block(1, struct.pack("<HHI", 1, 0, 0) + name + resolution + bytes(4))
    for packet in packets:
        high, low = packet.time_ns >> 32, packet.time_ns & 0xFFFFFFFF
        size = len(packet.frame)
        block(6, struct.pack("<IIIII", 0, high, low, size, size) + packet.frame)
    return bytes(out)


# Nodes --------------------------------------------------------------------------------------------

QUIET: dict[str, Any] = {
    "scouting/delay": 0,
    "scouting/multicast/enabled": False,
    "adminspace/enabled": False,
    "transport/shared_memory/enabled": False,
}
"""Configuration of all nodes: nothing on the wire that the scenario did not ask for."""


class Node:
    """A node in a process of its own. Methods are those of ``node_process.Node``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.opened: dict[str, Any] = {}
        self._told: list[str] = []
        reading, writing = os.pipe()
        # A file, not a pipe: a pipe that nobody drains stalls the node.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by end)
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "node_process.py"), str(writing)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[writing],
            env={**os.environ, "RUST_BACKTRACE": "0", "RUST_LOG": "off"},
        )
        os.close(writing)
        self._answers = os.fdopen(reading)

    def tell(self, do: str, **arguments: Any) -> None:
        """Says what to do without waiting; ``answer`` waits."""
        self._told.append(f"{do} {arguments}")
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Waits for what the oldest unanswered command gave.

        Raises:
            CaptureError: It failed, or nothing came.
        """
        do = self._told.pop(0)
        ready, _, _ = select.select([self._answers], [], [], PATIENCE)
        line = self._answers.readline() if ready else ""
        if not line:
            raise CaptureError(f"node {self.name}, {do}: {self._fate()}")
        answer = json.loads(line)
        if "error" in answer:
            raise CaptureError(f"node {self.name}, {do}: {answer['error']}")
        return answer["ok"]

    def _fate(self) -> str:
        ended = self._process.poll() is not None
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip().splitlines()
        why = (
            f"ended with exit code {self._process.returncode}"
            if ended
            else f"did not answer within {PATIENCE:g} s"
        )
        return why + (f" ({said[-1]})" if said else "")

    def __getattr__(self, do: str) -> Callable[..., Any]:
        def command(**arguments: Any) -> Any:
            self.tell(do, **arguments)
            return self.answer()

        return command

    def fence(self) -> None:
        """Returns when the router has taken everything this node sent before."""
        self.get(selector="fence", timeout=PATIENCE)

    def end(self) -> None:
        """Ends the process; a session that is still open goes without CLOSE."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE / 4)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._log.close()


class Stage:
    """The nodes of one scenario, the recording of them, and what they saw."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self._nodes: dict[str, Node] = {}
        self._open: list[Node] = []
        self._saw: dict[str, dict[str, Any]] = {}
        self._ports: set[int] = set()

    def __enter__(self) -> Self:
        self.recorder.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self._nodes.values():
            node.end()

    # Opening and closing --------------------------------------------------------------------------

    def start(self, name: str, mode: str, **config: Any) -> Node:
        """Starts a node and opens its session.

        Args:
            name: One of ``ZIDS``.
            mode: Its role.
            config: Configuration on top of ``QUIET``; ``__`` stands for ``/`` in paths.
        """
        node = self.process(name)
        paths = {path.replace("__", "/"): value for path, value in config.items()}
        node.opened = node.open(config={**QUIET, "mode": mode, "id": ZIDS[name], **paths})
        self._open.append(node)
        if "listen/endpoints" in paths:
            self._ports.update(node.opened["tcp"], node.opened["udp"])
        self.sees(node, "session", {"zid": node.opened["zid"], "mode": mode})
        return node

    def process(self, name: str) -> Node:
        """Starts a process without a session."""
        node = self._nodes[name] = Node(name)
        return node

    def router(self, name: str = "router", **config: Any) -> Node:
        """Starts a router that listens on a port that the system chooses."""
        return self.start(name, "router", **{"listen__endpoints": ["tcp/127.0.0.1:0"], **config})

    def client(self, name: str, router: Node, **config: Any) -> Node:
        """Starts a client of a router."""
        return self.start(name, "client", connect__endpoints=[self.locator(router)], **config)

    def locator(self, node: Node) -> str:
        """Returns where a node listens for TCP."""
        return f"tcp/127.0.0.1:{node.opened['tcp'][0]}"

    def port(self) -> int:
        """Returns a free port for a multicast group and records what goes there."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("", 0))
            port: int = taken.getsockname()[1]
        self._ports.add(port)
        return port

    def close(self, *nodes: Node) -> None:
        """Closes sessions, in this order; all that are open when none is given, the last one first."""
        for node in nodes or tuple(reversed(self._open)):
            node.close()
            self._open.remove(node)

    # What was seen --------------------------------------------------------------------------------

    def sees(self, node: Node, what: str, seen: Any) -> None:
        """Writes down what the API of a node handed out; lists are added to."""
        saw = self._saw.setdefault(node.name, {})
        if isinstance(seen, list):
            saw.setdefault(what, []).extend(seen)
        else:
            saw[what] = seen

    def asks(self, node: Node, selector: str, **options: Any) -> None:
        """Queries and writes down the replies."""
        # A querier has the timeout it was declared with.
        timeout = {} if "querier" in options else {"timeout": PATIENCE}
        replies = node.get(selector=selector, **timeout, **options)
        self.sees(node, "gets", [{"selector": selector, **options, "replies": replies}])

    def received(self, node: Node, samples: int) -> None:
        """Waits until a node has received so many samples, and writes them down."""
        self._saw[node.name]["samples"] = node.samples(count=samples)

    def answered(self, node: Node, queries: int) -> None:
        """Waits until a node has answered so many queries, and writes them down."""
        self._saw[node.name]["queries"] = node.queries(count=queries)

    def results(self) -> tuple[list[Packet], dict[str, Any]]:
        """Closes what is open; returns the packets of this scenario and what its nodes saw."""
        self.close()
        for node in self._nodes.values():
            node.end()
        packets = self.recorder.stop()
        # A node answers SCOUT at the port it came from.
        asking = {
            packet.source for packet in packets if packet.protocol == UDP and packet.target in self._ports
        }
        return [
            packet
            for packet in packets
            if {packet.source, packet.target} & self._ports
            or (packet.protocol == UDP and packet.target in asking)
        ], self._saw


# Scenarios ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a capture shows, and the play that shows it."""

    shows: str
    play: Callable[[Stage], None]


SCENARIOS: dict[str, Scenario] = {}

KEEP_ALIVE = bytes.fromhex("010004")
"""A batch with nothing else in it."""


def scenario(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Registers a function as the scenario of its name; its docstring says what the capture shows."""
    SCENARIOS[play.__name__] = Scenario(" ".join((play.__doc__ or "").split()), play)
    return play


def tell_apart(count: int, text: str = "value") -> Iterator[str]:
    """Returns payloads that can be told apart."""
    return (f"{text} {number}" for number in range(count))


@scenario
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


@scenario
def put_delete(stage: Stage) -> None:
    """PUT and DEL of a client to its router, and from there to a subscriber.

    Encodings, a schema, an own encoding, attachments, a timestamp, SourceInfo, an empty and a binary payload, a
    long key, TimestampStack.
    """
    router = stage.router()
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="demo/**")
    bob.fence()
    alice = stage.client("alice", router)
    alice.put(key="demo/plain", payload="no encoding")
    alice.put(key="demo/text", payload="Grüße", encoding="text/plain")
    alice.put(key="demo/schema", payload="text", encoding="text/plain;utf-8")
    alice.put(key="demo/json", payload='{"a": 1}', encoding="application/json")
    alice.put(key="demo/custom", payload="<a/>", encoding="application/x-own;v=2")
    alice.put(key="demo/empty")
    alice.put(key="demo/binary", payload="hex:00ff7f80fe", encoding="application/octet-stream")
    alice.put(key="demo/attachment", payload="with", attachment="an attachment")
    alice.put(key="demo/all", payload="of it", encoding="text/csv", attachment="x=1", stamped=True, sourced=7)
    alice.put(key="demo/long/key/" + "k" * 100, payload="count:500")
    alice.put(key="demo/traced", payload="on the way", traced=True)
    alice.delete(key="demo/plain")
    alice.delete(key="demo/text", attachment="why", stamped=True, sourced=8)
    alice.put(key="elsewhere", payload="nobody subscribed")
    stage.received(bob, 13)


@scenario
def query(stage: Stage) -> None:
    """REQUEST and RESPONSE: one reply, several, an error, a deletion, no reply, no queryable.

    Parameters, body, attachment, SourceInfo, targets, consolidations, a priority, a querier.
    """
    router = stage.router()
    bob = stage.client("bob", router)
    bob.queryable(name="one", key="answers/one", answers=[{"key": "answers/one", "payload": "1"}])
    bob.queryable(
        name="many",
        key="answers/many/*",
        complete=True,
        answers=[
            {"key": "answers/many/a", "payload": "first", "encoding": "text/plain"},
            {"key": "answers/many/b", "payload": "second", "attachment": "with", "stamped": True},
            {"key": "answers/many/c"},
        ],
    )
    bob.queryable(
        name="error", key="answers/error", answers=[{"payload": "no such thing", "encoding": "text/plain"}]
    )
    bob.queryable(name="bare", key="answers/bare", answers=[{"payload": "error without encoding"}])
    bob.queryable(name="none", key="answers/none", answers=[])
    bob.fence()
    alice = stage.client("alice", router)
    stage.asks(alice, "answers/one")
    stage.asks(alice, "answers/one?a=1;b=two")
    stage.asks(alice, "answers/many/*", target="ALL", consolidation="NONE")
    stage.asks(alice, "answers/many/*", target="ALL_COMPLETE", consolidation="MONOTONIC")
    stage.asks(alice, "answers/error")
    stage.asks(alice, "answers/bare")
    stage.asks(alice, "answers/none")
    stage.asks(alice, "nobody/answers")
    stage.asks(
        alice, "answers/one", payload='{"body": true}', encoding="application/json", attachment="query"
    )
    stage.asks(alice, "answers/*", target="ALL", accept_replies="ANY", priority="INTERACTIVE_HIGH", sourced=3)
    alice.querier(name="asker", key="answers/**", target="ALL")
    alice.matching(name="asker")
    stage.asks(alice, "by=querier", querier="asker")
    alice.undeclare(name="asker")
    # The error queryables, one, none: *; these and many: **.
    stage.answered(bob, 8 + 4 + 5)


@scenario
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


@scenario
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
    stage.sees(
        alice, "alive", [{"key": key, "replies": alice.alive(key=key)} for key in ("group/*", "nobody/*")]
    )
    alice.watch(name="with history", key="group/*", history=True)
    stage.received(alice, 2)
    bob.undeclare(name="bob")
    stage.received(alice, 4)
    bob.token(name="again", key="group/bob/again")
    stage.received(alice, 5)
    stage.close(bob)
    stage.received(alice, 6)


@scenario
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
        hellos = alice.scout(what=what, count=count, config={**QUIET, **config})
        stage.sees(alice, "scouts", [{"what": what, "hellos": hellos}])
    stage.start("bob", "client", **config)


@scenario
def fragments(stage: Stage) -> None:
    """FRAGMENT: 60 000 bytes in batches of 4096 to the router, of the default size from it; two lanes."""
    router = stage.router()
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="big/**")
    bob.fence()
    alice = stage.client("alice", router, transport__link__tx__batch_size=4096)
    alice.put(key="big/small", payload="before")
    alice.put(key="big/message", payload="count:60000", encoding="text/plain", congestion_control="BLOCK")
    alice.put(key="big/urgent", payload="count:9000", priority="REAL_TIME", congestion_control="BLOCK")
    alice.put(key="big/small", payload="after")
    stage.received(bob, 4)


@scenario
def batches(stage: Stage) -> None:
    """Several messages in a FRAME, several FRAMEs in a batch.

    Reliable and best effort in turn, then express messages, each in a batch of its own.
    """
    slow: dict[str, Any] = {"transport/link/tx/queue/batching/time_limit": 50}
    router = stage.router(**slow)
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="mixed/**")
    bob.fence()
    alice = stage.client("alice", router, **slow)
    for reliability in ("RELIABLE", "BEST_EFFORT"):
        alice.publisher(name=reliability, key=f"mixed/{reliability.lower()}", reliability=reliability)
        alice.matching(name=reliability)
    names = ["RELIABLE"] * 3 + ["BEST_EFFORT"] * 2 + ["RELIABLE", "BEST_EFFORT"] * 3
    alice.publish_all(
        values=[
            {"name": name, "payload": text} for name, text in zip(names, tell_apart(len(names)), strict=True)
        ]
    )
    alice.put_all(
        values=[{"key": "mixed/express", "payload": text, "express": True} for text in tell_apart(3)]
    )
    alice.put_all(values=[{"key": "mixed/put", "payload": text} for text in tell_apart(20)])
    stage.received(bob, len(names) + 23)


PRIORITIES = (
    "REAL_TIME",
    "INTERACTIVE_HIGH",
    "INTERACTIVE_LOW",
    "DATA_HIGH",
    "DATA",
    "DATA_LOW",
    "BACKGROUND",
)


@scenario
def lanes(stage: Stage) -> None:
    """Each priority on its lane, with Drop, Block, BlockFirst and express; then a client without QoS."""
    router = stage.router()
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="lane/**")
    bob.fence()
    alice = stage.client("alice", router)
    for priority in PRIORITIES:
        for control in ("DROP", "BLOCK", "BLOCK_FIRST"):
            key = f"lane/{priority.lower()}/{control.lower()}"
            alice.put(key=key, payload=priority, priority=priority, congestion_control=control)
        alice.put(key=f"lane/{priority.lower()}/express", payload="now", priority=priority, express=True)
    stage.received(bob, len(PRIORITIES) * 4)
    plain = stage.client("carol", router, transport__unicast__qos__enabled=False)
    plain.put(key="lane/none", payload="one lane", priority="REAL_TIME", congestion_control="BLOCK")
    stage.received(bob, len(PRIORITIES) * 4 + 1)


@scenario
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


@scenario
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


@scenario
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


@scenario
def lowlatency(stage: Stage) -> None:
    """Low latency (INIT extension 0x5): 4-byte lengths and no FRAME after OPEN."""
    direct: dict[str, Any] = {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False}
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


@scenario
def compression(stage: Stage) -> None:
    """Compression (INIT extension 0x6): a header byte in each batch after OPEN, LZ4 where shorter."""
    packed: dict[str, Any] = {"transport/unicast/compression/enabled": True}
    router = stage.router(**packed)
    bob = stage.client("bob", router, **packed)
    bob.subscribe(name="all", key="zip/**")
    bob.fence()
    alice = stage.client("alice", router, **packed)
    alice.put(key="zip/short", payload="too short")
    alice.put(key="zip/long", payload="again and " * 100)
    alice.put(key="zip/count", payload="count:3000")
    stage.received(bob, 3)


@scenario
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


@scenario
def multilink(stage: Stage) -> None:
    """Two links of one session (INIT and OPEN extension 0x4), with a public key of each node."""
    router = stage.router(
        listen__endpoints=["tcp/127.0.0.1:0", "tcp/127.0.0.1:0"], transport__unicast__max_links=2
    )
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="links/**")
    bob.fence()
    locators = [f"tcp/127.0.0.1:{port}" for port in router.opened["tcp"]]
    left = stage.start(
        "left",
        "peer",
        # Not on all addresses, which is the default: they would be in its LINKSTATE.
        listen__endpoints=["tcp/127.0.0.1:0"],
        connect__endpoints=locators,
        transport__unicast__max_links=2,
    )
    left.publisher(name="data", key="links/data")
    left.matching(name="data")
    for text in tell_apart(4):
        left.publish(name="data", payload=text)
    stage.received(bob, 4)


@scenario
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


@scenario
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


# Making them --------------------------------------------------------------------------------------


def capture(name: str, out: Path, version: str) -> dict[str, Any]:
    """Plays a scenario, writes its files, returns its row.

    Raises:
        CaptureError: It could not be played; the files are as before.
        OSError: They cannot be written.
    """
    with Stage() as stage:
        SCENARIOS[name].play(stage)
        packets, saw = stage.results()
    raw = pcapng(packets)
    truth = (json.dumps(saw, indent=1, ensure_ascii=False) + "\n").encode()
    for suffix, content in ((".pcapng", raw), (".truth.json", truth)):
        temporary = out / f".{name}{suffix}"
        temporary.write_bytes(content)
        temporary.replace(out / f"{name}{suffix}")
    return {
        "file": f"{name}.pcapng",
        "shows": SCENARIOS[name].shows,
        "node": NODE,
        "version": version,
        "command": f"python pcaps/capture.py {name}",
        "date": datetime.now(UTC).date(),
        "licence": LICENCE,
        "sha256": hashlib.sha256(raw).hexdigest(),
        "truth": f"{name}.truth.json",
        "truth_sha256": hashlib.sha256(truth).hexdigest(),
    }


MANIFEST = "manifest.toml"

HEADER = """\
# Where each capture comes from. A capture without a row, or with another SHA-256, fails our tests.
# Rows of captures that capture.py makes are written by it.
"""


def read_manifest(out: Path) -> list[dict[str, Any]]:
    """Returns the rows of a manifest, none when there is no file.

    Raises:
        CaptureError: It is no manifest.
    """
    try:
        rows = tomllib.loads((out / MANIFEST).read_text(encoding="utf-8")).get("capture", [])
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise CaptureError(f"{out / MANIFEST} cannot be read: {error}") from None
    if not all(isinstance(row, dict) and isinstance(row.get("file"), str) for row in rows):
        raise CaptureError(f"{out / MANIFEST} has a row without a file")
    return list(rows)


def write_manifest(out: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes a manifest whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    tables = [
        "\n[[capture]]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in row.items())
        for row in sorted(rows, key=lambda row: str(row["file"]))
    ]
    temporary = out / f".{MANIFEST}"
    temporary.write_text(HEADER + "".join(tables), encoding="utf-8")
    temporary.replace(out / MANIFEST)


def _toml(value: Any) -> str:
    # A JSON string is a TOML basic string.
    return value.isoformat() if isinstance(value, date) else json.dumps(value, ensure_ascii=False)


def make(names: list[str], out: Path) -> None:
    """Makes captures and their rows.

    Raises:
        CaptureError: One cannot be made; those before it are complete.
        OSError: The folder cannot be written.
    """
    try:
        version = importlib.metadata.version(NODE)
    except importlib.metadata.PackageNotFoundError:
        raise CaptureError(f"{NODE} is not installed; install the extra 'node'") from None
    out.mkdir(parents=True, exist_ok=True)
    rows = {row["file"]: row for row in read_manifest(out)}
    for name in names:
        try:
            row = capture(name, out, version)
        except CaptureError as error:
            raise CaptureError(f"{name}: {error}") from None
        rows[row["file"]] = row
        write_manifest(out, rows.values())
        print(f"{out / row['file']}: {(out / row['file']).stat().st_size} bytes")


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Makes the captures of this folder from real nodes on loopback."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios to play; all when none is given")
    parser.add_argument(
        "--out", type=Path, default=HERE, metavar="DIR", help="where to write; default: this folder"
    )
    parser.add_argument("--list", action="store_true", help="show the scenarios and end")
    options = parser.parse_args(arguments)
    if options.list:
        for name, described in SCENARIOS.items():
            print(f"{name:15}{described.shows}")
        return 0
    unknown = [name for name in options.names if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; --list shows them")
    own_network()
    try:
        make(options.names or list(SCENARIOS), options.out)
    except CaptureError as error:
        print(f"capture.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"capture.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
