"""Real nodes of all releases in roles, configurations and company that are drawn: ``python -m tests.agreement --plays 50``.

What no test thought of happens here: nodes that connect to each other, links that are cut and come again, nodes that stop
for a while, die or come back with the same ZenohID, sessions with other resolutions, batches and leases on each side. Ports, sequence numbers and times
differ from run to run, and so does what happens at once.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from pcaps.recording import CaptureError, pcapng
from pcaps.releases import release
from pcaps.stage import GROUP, ZIDS, Node, Stage
from scapy_layers.conversation import Conversations
from scapy_layers.conversation.identify import is_batch
from scapy_layers.lint import Severity, findings
from scapy_layers.stream import units_of
from scapy_layers.tshark import is_there
from tests.scapy_layers.lua.experts import experts

OURS_FIRST = [part for proto in ("tcp", "udp") for part in ("-o", f"{proto}.try_heuristic_first:TRUE")]
"""The port that a system gave to a node may be another protocol's, which Wireshark would ask first."""

VERSIONS = ("1.0.0", "1.1.1", "1.2.1", "1.3.4", "1.4.0", "1.5.1", "1.6.2", "1.7.2", "1.9.0", "1.10.0")
"""Releases besides the installed one."""

INSTALLED = ""

NAMES = [name for name in ZIDS if name != "mirror"]

KEYS = ("a", "a/b", "a/b/c", "x/y", f"deep/{'k' * 60}/z")
WILD = ("**", "x/**", "*/b", "a/*", "a/$*b")

TX = "transport/link/tx"

OPTIONS: tuple[tuple[float, str, tuple[Any, ...]], ...] = (
    (0.3, f"{TX}/sequence_number_resolution", ("8bit", "16bit", "32bit")),
    (0.3, f"{TX}/batch_size", (256, 1024, 2048, 9000, 65_535)),
    (0.3, f"{TX}/lease", (1000, 2000, 15_500)),
    (0.3, "transport/unicast/max_links", (2, 3)),
    (0.2, "scouting/gossip/enabled", (False,)),
    (0.2, "adminspace/enabled", (True,)),
    (0.2, "timestamping/enabled", ({"router": True, "peer": True, "client": True},)),
    (0.1, "transport/shared_memory/enabled", (True,)),
)
"""How often a node has an option that is not the default, and its values."""

FEATURES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"transport/unicast/compression/enabled": True},
    {"transport/unicast/qos/enabled": False},
    {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False},
)

RETRY = {"period_init_ms": 500, "period_max_ms": 1000, "period_increase_factor": 2}

WAIT = 1.5
"""Seconds a query has."""


class Play:
    """One play.

    Args:
        stage: The nodes and their recording.
        dice: Draws everything.
    """

    def __init__(self, stage: Stage, dice: Random) -> None:
        self._stage = stage
        self._dice = dice
        self._nodes: list[Node] = []
        self._doors: list[str] = []
        self._promised: list[str] = []
        self._group = f"udp/{GROUP}:{stage.port()}#iface=lo" if dice.random() < 0.3 else ""
        self._stopped: set[Node] = set()
        self._gone: list[Node] = []
        self._how_begun: dict[Node, tuple[str, str, dict[str, Any]]] = {}
        self._entities: dict[Node, list[tuple[str, str]]] = {}
        self._count = 0

    def run(self) -> None:
        """Starts some nodes, and has them do something with each other."""
        dice = self._dice
        for name in dice.sample(NAMES, dice.randint(2, 6)):
            self._start(name)
        acts, weights = zip(*self._acts().items(), strict=True)
        for act in dice.choices(acts, weights, k=dice.randint(40, 120)):
            ready = [node for node in self._nodes if node not in self._stopped]
            if ready:
                act(dice.choice(ready))
        for node in self._stopped:
            node.signal(signal.SIGCONT)

    def _acts(self) -> dict[Callable[[Node], None], int]:
        return {
            self._put: 10,
            self._burst: 3,
            self._delete: 2,
            self._publisher: 3,
            self._publish: 6,
            self._subscribe: 4,
            self._queryable: 3,
            self._token: 3,
            self._watch: 3,
            self._get: 4,
            self._undeclare: 4,
            self._cut: 2,
            self._stop: 1,
            self._go_on: 1,
            self._leave: 1,
            self._come_back: 2,
        }

    # Nodes ------------------------------------------------------------------------------------------

    def _start(self, name: str) -> None:
        dice = self._dice
        version = dice.choice((INSTALLED, dice.choice(VERSIONS)))
        role = dice.choice(("router", "peer", "client") if self._doors else ("router", "peer"))
        config = {path: dice.choice(values) for chance, path, values in OPTIONS if dice.random() < chance}
        config |= dice.choice(FEATURES)
        others = dice.sample(
            self._doors, min(len(self._doors), 1 if role == "client" else dice.randint(1, 2))
        )
        if role != "client":
            config["listen/endpoints"] = self._listens(role)
            if dice.random() < 0.5:
                # Somebody may be there later.
                others.append(f"tcp/127.0.0.1:{self._stage.port()}")
                self._promised.append(others[-1])
        if others:
            config |= {"connect/endpoints": others, "connect/retry": RETRY, "connect/exit_on_failure": False}
            config["connect/timeout_ms"] = {"router": 0, "peer": 0, "client": 5000}
        self._open(name, role, version, config)

    def _open(self, name: str, role: str, version: str, config: dict[str, Any]) -> None:
        try:
            node = self._stage.start(name, role, version, **config)
        except CaptureError:
            return  # not all that is drawn fits together, or is known to an older release
        if role != "client":
            place, *more = config["listen/endpoints"]
            kind = place.partition("/")[0]
            for port in node.opened["udp" if kind == "udp" else "tcp"][:1]:
                place = f"{kind}/127.0.0.1:{port}"
                self._doors += [place] if place not in self._doors else []
            config = {**config, "listen/endpoints": [place, *more]}
        self._nodes.append(node)
        self._entities[node] = []
        self._how_begun[node] = (role, version, config)

    def _listens(self, role: str) -> list[str]:
        kind = self._dice.choice(("tcp", "tcp", "tcp", "udp", "ws"))
        places = [f"{kind}/127.0.0.1:0"]
        if self._promised and self._dice.random() < 0.6:
            places = [self._promised.pop()]
        return [*places, self._group] if role == "peer" and self._group else places

    # What they do -----------------------------------------------------------------------------------

    def _name(self, node: Node, kind: str) -> str:
        self._count += 1
        self._entities[node].append((kind, name := f"{kind}{self._count}"))
        return name

    def _how(self) -> dict[str, Any]:
        return {
            "priority": self._dice.choice(("REAL_TIME", "DATA", "DATA_LOW", "BACKGROUND")),
            "congestion_control": self._dice.choice(("DROP", "BLOCK")),
        }

    def _any(self) -> str:
        return self._dice.choice((*KEYS, *WILD))

    def _put(self, node: Node) -> None:
        payload = self._dice.choice(("x", "count:50", "count:3000", "count:20000"))
        node.put(
            key=self._dice.choice(KEYS), payload=payload, express=self._dice.random() < 0.3, **self._how()
        )

    def _burst(self, node: Node) -> None:
        keys = self._dice.choices(KEYS, k=40)
        node.put_all(values=[{"key": key, "payload": "b", "congestion_control": "BLOCK"} for key in keys])

    def _delete(self, node: Node) -> None:
        node.delete(key=self._dice.choice(KEYS), **self._how())

    def _publisher(self, node: Node) -> None:
        node.publisher(name=self._name(node, "publisher"), key=self._dice.choice(KEYS), **self._how())

    def _publish(self, node: Node) -> None:
        names = [name for kind, name in self._entities[node] if kind == "publisher"]
        if names:
            node.publish(name=self._dice.choice(names), payload=self._dice.choice(("v", "count:200")))

    def _subscribe(self, node: Node) -> None:
        node.subscribe(name=self._name(node, "subscriber"), key=self._any())

    def _queryable(self, node: Node) -> None:
        key = self._dice.choice(KEYS)
        answers = [{"key": key, "payload": "y"}]
        complete = self._dice.random() < 0.5
        node.queryable(name=self._name(node, "queryable"), key=key, complete=complete, answers=answers)

    def _token(self, node: Node) -> None:
        node.token(name=self._name(node, "token"), key=self._dice.choice(KEYS))

    def _watch(self, node: Node) -> None:
        node.watch(name=self._name(node, "watch"), key=self._any(), history=self._dice.random() < 0.5)

    def _get(self, node: Node) -> None:
        target = self._dice.choice(("ALL", "BEST_MATCHING", "ALL_COMPLETE"))
        node.get(selector=self._any(), timeout=WAIT, target=target)

    def _undeclare(self, node: Node) -> None:
        if self._entities[node]:
            entity = self._dice.choice(self._entities[node])
            self._entities[node].remove(entity)
            node.undeclare(name=entity[1])

    def _cut(self, node: Node) -> None:
        places = [place for place in (*self._doors, *self._promised) if not place.startswith("udp")]
        if places:
            places = self._dice.sample(places, min(len(places), self._dice.randint(1, 3)))
            node.cut(ports=[int(place.rpartition(":")[2]) for place in places])

    def _stop(self, node: Node) -> None:
        node.signal(signal.SIGSTOP)
        self._stopped.add(node)

    def _go_on(self, _node: Node) -> None:
        if self._stopped:
            self._stopped.pop().signal(signal.SIGCONT)

    def _leave(self, node: Node) -> None:
        self._nodes.remove(node)
        if self._dice.random() < 0.5:
            self._stage.close(node)
        else:
            self._stage.kill(node, self._dice.choice((signal.SIGKILL, signal.SIGTERM)))
        self._gone.append(node)

    def _come_back(self, _node: Node) -> None:
        if self._gone:
            node = self._gone.pop()
            node.end()
            self._open(node.name, *self._how_begun[node])


def releases() -> dict[str, str]:
    """Returns where the older releases are; they are fetched once.

    Raises:
        CaptureError: One is not to be had.
    """
    return {version: release(version) for version in VERSIONS}


def play(seed: int, found: dict[str, str]) -> bytes:
    """Plays, and returns the capture.

    Raises:
        CaptureError: A node did not go along.
    """
    with Stage(found) as stage:
        Play(stage, Random(seed)).run()
        packets, _ = stage.results()
    return pcapng(packets)


def accusations(path: Path) -> Iterator[str]:
    """Yields what is said against the nodes of a capture, by our readers and by Wireshark: true, or a mistake of ours."""
    accused = set()
    conversations = Conversations()
    for unit in units_of(path, plausible=is_batch):
        for heard in conversations.hear(unit):
            for remark in heard.remarks:
                accused.add(heard.number)
                yield f"packet {heard.number}: {heard.message.name}: {remark.text}"
    for found in findings(units_of(path, plausible=is_batch)):
        accused.add(found.packet)
        if found.severity is Severity.MUST:
            yield f"packet {found.packet}: {found.rule.ids[0]}: {found.text}"
    for one in experts(path, *OURS_FIRST) if is_there() else ():
        if one.severity in {"warn", "error"} and one.packet not in accused:
            yield f"packet {one.packet}: Wireshark alone: {one.text}"
