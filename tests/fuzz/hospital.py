"""A node with planted faults that costs nothing, for what looks into findings: it is started in no time."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance.config import Locator, RunConfig, prepare_run_dir
from conformance.nodes.base import Node
from conformance.observe import Endpoints
from fuzz.campaigns.base import Campaign
from fuzz.cases import Case, Cause, Fixed, send
from fuzz.lab import Ground, Lab
from fuzz.oracles import Harm, Objection, When
from fuzz.plan import Numbered
from fuzz.player import Answers, Played, Player, Trace
from fuzz.player.doors import Door
from fuzz.script import Do, Script, Step
from fuzz.states import State
from fuzz.triage import Suspect

CAMPAIGN = Campaign("trial", "for tests", lambda _: ())

PLACE = "some-crate/src/net/face.rs:83"
SAID = (
    "thread 'rx-0' (7) panicked at /build/.cargo/registry/src/index-1/some-crate-1.2.3/src/net/face.rs:83:22: "
    "called `Option::unwrap()` on a `None` value"
)

CRASH = Objection("process", Harm.CRASH, f"SIGABRT {PLACE}", f"the process died of SIGABRT; {SAID}")
PANIC = Objection("stderr", Harm.PANIC, PLACE, SAID)
STALL = Objection("ping", Harm.STALL, "", "a new session fails: expected INIT, got nothing within 1 s")
GROWTH = Objection("memory", Harm.GROWTH, "memory", "memory grows by 100 MB")

Fault = Callable[[list[bytes]], Objection | None]
"""Given all that was sent to a node since it was started, in order: what is wrong with it."""


class _Sink(Door):
    """Takes what is sent to a node, and never answers."""

    def __init__(self, node: SickNode) -> None:
        self._node = node

    def open(self) -> tuple[socket.socket, Endpoints]:
        ours, theirs = socket.socketpair()
        self._node.ends.append(theirs)
        return ours, Endpoints(("127.0.0.1", 1), ("127.0.0.1", 2))


class SickNode(Node):
    """A node that remembers what it was sent."""

    owned = True
    impl = "sick"
    version = "1.2.3"

    def __init__(self, fault: Fault, process: int | None = None) -> None:
        self.fault = fault
        self.process = process
        self.ends: list[socket.socket] = []
        self.heard: list[bytes] = []
        self.locator = Locator("tcp", "127.0.0.1", 1)

    @property
    def pid(self) -> int | None:
        return self.process

    def start(self) -> None:
        self.stop()
        self.starts += 1

    def stop(self) -> None:
        for end in self.ends:
            end.close()
        self.ends, self.heard = [], []

    def listen(self) -> list[bytes]:
        """Takes in what was sent since."""
        for end in self.ends:
            end.setblocking(False)
            data = b""
            try:
                while part := end.recv(1 << 16):
                    data += part
            except BlockingIOError:
                pass
            while len(data) >= 2:
                size = 2 + int.from_bytes(data[:2], "little")
                self.heard.append(data[2:size])
                data = data[size:]
            end.close()
        self.ends = []
        return self.heard

    def death(self) -> str:
        return ""

    def complaints(self) -> str:
        return ""

    def variant(self, **config: object) -> SickNode:  # noqa: ARG002
        return SickNode(self.fault, self.process)


class SickStage:
    def __init__(self, node: SickNode) -> None:
        self.node: Node = node
        self.sick = node

    def start(self) -> None:
        self.node.start()

    def restart(self) -> None:
        self.node.start()

    def player(
        self, rng: random.Random | None = None, trace: Trace | None = None, answers: Answers | None = None
    ) -> Player:
        return Player(_Sink(self.sick), 0.0, rng=rng, trace=trace, answers=answers)

    def stop(self) -> None:
        self.node.stop()


class Doctor:
    """Looks at a sick node as oracles would."""

    usual = 0.0
    rare = False

    def __init__(self, stage: Ground) -> None:
        assert isinstance(stage, SickStage)
        self.node = stage.sick
        self.looks: list[When] = []

    def begin(self) -> None:
        pass

    def examine(self, when: When, played: Played | None = None, case: Case | None = None) -> Objection | None:  # noqa: ARG002
        self.looks.append(when)
        return self.node.fault(self.node.listen())

    def has_failed(self) -> bool:
        return False

    def owed(self, place: str) -> Objection | None:  # noqa: ARG002
        return self.node.fault(self.node.listen())

    def close(self) -> None:
        pass


def lab_of(config: RunConfig, node: SickNode) -> Lab:
    return Lab(
        config,
        node,
        stage_of=lambda _needs, _where: SickStage(SickNode(node.fault, node.process)),
        patient_of=Doctor,
    )


def config_in(folder: Path) -> RunConfig:
    prepare_run_dir(folder)
    # It never answers, so nothing is waited for.
    return RunConfig(node="sick", run_dir=folder, run_id=folder.name, seed=7, time_scale=0.001)


def on(needle: bytes, objection: Objection = CRASH) -> Fault:
    """A fault that a stimulus with some bytes brings about."""
    return lambda heard: objection if any(needle in one for one in heard) else None


def behind(first: bytes, second: bytes, objection: Objection = CRASH) -> Fault:
    """A fault that two stimuli bring about, in this order."""

    def fault(heard: list[bytes]) -> Objection | None:
        at = next((index for index, one in enumerate(heard) if first in one), len(heard))
        return objection if any(second in one for one in heard[at + 1 :]) else None

    return fault


def suspect(
    number: int, *data: bytes, message: str = "PUSH", field: str = "PUT.data", kind: str = "edge"
) -> Suspect:
    """A case that says some bytes on a link of its own."""
    steps = tuple(send("size", one, note=f"number {number}") for one in data)
    source = Fixed(f"source {message}", State.CONNECTED, message, {"x": steps}, "edge")
    case = Case(
        source, message, field, f"said {number}", "edge", (Cause(source.name, field, kind),), plan="x"
    )
    script = Script((Step(Do.REACH, "a", State.CONNECTED), *steps))
    return Suspect(Numbered(CAMPAIGN, number, case), steps, script, number, State.CONNECTED)


def of_one_session(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The same cases, one behind the other on one link."""
    together: list[Suspect] = []
    steps: tuple[Step, ...] = (Step(Do.REACH, "a", State.CONNECTED),)
    for one in suspects:
        steps += one.steps
        together.append(Suspect(one.numbered, one.steps, Script(steps), 1, one.state))
    return together
