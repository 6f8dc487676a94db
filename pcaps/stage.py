"""What a scenario is played with: nodes in processes of their own, the recording, and what they saw."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pcaps.recording import PATIENCE, UDP, CaptureError, Packet, Recorder

HERE = Path(__file__).parent

GROUP = "239.255.74.46"
"""Private multicast group, so that nodes outside the scenario are never asked."""

ZIDS = {
    "router": "a1" * 16,
    "north": "a2" * 16,
    "south": "a3" * 16,
    "east": "a4" * 16,
    "alice": "b1" * 16,
    "bob": "b2" * 16,
    "carol": "c",
    "dave": "b4" * 16,
    "erin": "b5" * 4,
    "left": "d1" * 8,
    "right": "d2" * 8,
    "middle": "d3" * 8,
    # The same as of another one, which it meets as if that were itself.
    "mirror": "a3" * 16,
}
"""ZenohIDs of the nodes by name, as configured; of 16, 8, 4 and 1 bytes."""

QUIET: dict[str, Any] = {
    "scouting/delay": 0,
    "scouting/multicast/enabled": False,
    "adminspace/enabled": False,
    "transport/shared_memory/enabled": False,
    # The default is a millisecond, in which a busy machine loses messages.
    "transport/link/tx/queue/congestion_control/drop/wait_before_drop": 5_000_000,
    "transport/link/tx/queue/congestion_control/drop/max_wait_before_drop_fragments": 5_000_000,
}
"""Configuration of all nodes: nothing on the wire that the scenario did not ask for, and all that it did."""

UNTOLD = ("_file", "_base64", "_pem")
"""Ends of configuration paths whose values say something about this run or machine only."""


class Node:
    """A node in a process of its own. Methods are those of ``node_process.Node``.

    Args:
        name: What the scenario calls it.
        path: Where its release of the API is, when that is not the installed one.
    """

    def __init__(self, name: str, path: str = "") -> None:
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
            env={**os.environ, "RUST_BACKTRACE": "0", "RUST_LOG": "off", "PYTHONPATH": path},
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

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process; for one that ends it, returns when it has."""
        self._process.send_signal(number)
        if number not in {signal.SIGSTOP, signal.SIGCONT}:
            self._process.wait(PATIENCE)

    @property
    def running(self) -> bool:
        """Whether the process can still be asked."""
        return self._process.poll() is None

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
    """The nodes of one scenario, the recording of them, and what they saw.

    Args:
        releases: Import paths of the releases of the API that nodes may run, by version.
    """

    def __init__(self, releases: dict[str, str]) -> None:
        self.recorder = Recorder()
        self._releases = releases
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

    def start(self, name: str, mode: str, version: str = "", **config: Any) -> Node:
        """Starts a node and opens its session.

        Args:
            name: One of ``ZIDS``.
            mode: Its role.
            version: Release of the API; the installed one when empty.
            config: Configuration on top of ``QUIET``; ``__`` stands for ``/`` in paths.
        """
        node = self.process(name, version)
        paths = {path.replace("__", "/"): value for path, value in config.items()}
        told = {path: value for path, value in paths.items() if not path.endswith(UNTOLD)}
        session = {"zid": ZIDS[name], "mode": mode, "config": told}
        if version:
            session["version"] = version
        self._saw[name] = {"session": session}
        node.opened = node.open(config={**QUIET, "mode": mode, "id": ZIDS[name], **paths})
        session["zid"] = node.opened["zid"]
        self._open.append(node)
        if "listen/endpoints" in paths:
            self._ports.update(node.opened["tcp"], node.opened["udp"])
        return node

    def refused(self, name: str, mode: str, **config: Any) -> None:
        """Starts a node whose session must not open; it tries once.

        Raises:
            CaptureError: It opened.
        """
        try:
            self.start(name, mode, **config)
        except CaptureError as error:
            if "ZError" not in str(error):
                raise
            self._saw[name]["session"]["end"] = "refused"
        else:
            raise CaptureError(f"{name} opened a session that was to be refused")

    def process(self, name: str, version: str = "") -> Node:
        """Starts a process without a session."""
        node = self._nodes[name] = Node(name, self._releases[version] if version else "")
        return node

    def router(self, name: str = "router", **config: Any) -> Node:
        """Starts a router that listens on a port that the system chooses."""
        return self.start(name, "router", **{"listen__endpoints": ["tcp/127.0.0.1:0"], **config})

    def client(self, name: str, router: Node, **config: Any) -> Node:
        """Starts a client of a router, by TCP."""
        return self.start(name, "client", connect__endpoints=[self.locator(router)], **config)

    def linked_twice(self, key: str) -> tuple[Node, Node, Node]:
        """Starts a router, a client that subscribes to a key, and a peer with two links to the router."""
        router = self.router(
            listen__endpoints=["tcp/127.0.0.1:0", "tcp/127.0.0.1:0"], transport__unicast__max_links=2
        )
        bob = self.client("bob", router)
        bob.subscribe(name="all", key=key)
        bob.fence()
        left = self.start(
            "left",
            "peer",
            # Not on all addresses, which is the default: they would be in its LINKSTATE.
            listen__endpoints=["tcp/127.0.0.1:0"],
            connect__endpoints=[f"tcp/127.0.0.1:{port}" for port in router.opened["tcp"]],
            transport__unicast__max_links=2,
        )
        return router, bob, left

    def locator(self, node: Node, protocol: str = "tcp", host: str = "127.0.0.1") -> str:
        """Returns where a node listens; its first port."""
        transport = "udp" if protocol in {"udp", "quic"} else "tcp"
        return f"{protocol}/{host}:{node.opened[transport][0]}"

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
            self._ended(node, "close")

    def kill(self, node: Node, number: signal.Signals) -> None:
        """Ends the process of a node with a signal; what it saw until then counts."""
        self._saw[node.name].update(node.record())
        node.signal(number)
        self._ended(node, number.name)

    def _ended(self, node: Node, how: str) -> None:
        self._saw[node.name]["session"]["end"] = how
        self._open.remove(node)

    # What was seen --------------------------------------------------------------------------------

    def asks(self, node: Node, selector: str, **options: Any) -> None:
        """Queries and waits for the replies."""
        # A querier has the timeout it was declared with.
        timeout = {} if "querier" in options else {"timeout": PATIENCE}
        node.get(selector=selector, **{**timeout, **options})

    def received(self, node: Node, samples: int) -> None:
        """Waits until a node has received so many samples."""
        node.gathered(what="samples", count=samples)

    def answered(self, node: Node, queries: int) -> None:
        """Waits until a node has answered so many queries."""
        node.gathered(what="queries", count=queries)

    def results(self) -> tuple[list[Packet], dict[str, Any]]:
        """Closes what is open; returns the packets of this scenario and what its nodes saw."""
        self.close()
        for node in self._nodes.values():
            if node.running:
                self._saw.setdefault(node.name, {}).update(node.record())
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
    """What a capture shows, and the play that shows it.

    Attributes:
        shows: One or two sentences.
        play: The play.
        versions: Releases of the API it needs besides the installed one.
        opaque: Nothing in the capture can be read as Zenoh: the links are encrypted.
    """

    shows: str
    play: Callable[[Stage], None]
    versions: tuple[str, ...] = ()
    opaque: bool = False


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    *versions: str, opaque: bool = False
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Registers a function as the scenario of its name; its docstring says what the capture shows.

    Args:
        versions: Releases of the API it needs besides the installed one.
        opaque: Nothing in the capture can be read as Zenoh.
    """

    def register(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        shows = " ".join((play.__doc__ or "").split())
        SCENARIOS[play.__name__] = Scenario(shows, play, versions, opaque)
        return play

    return register


def tell_apart(count: int, text: str = "value") -> Iterator[str]:
    """Returns payloads that can be told apart."""
    return (f"{text} {number}" for number in range(count))
