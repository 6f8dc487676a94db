"""The planted node: a sane router without faults, and with each of them a node that shows it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.errors import HarnessError, LinkFailed, Unmet
from conformance.nodes.base import Node
from fuzz.player import Ending, Initiator, Played, Player, run
from fuzz.script import Do, Step
from fuzz.states import State
from scapy_layers.network import Push
from scapy_layers.transport import Close
from tests.fuzz import planted_process
from tests.fuzz.planted import FAULTS, planted

REPLY = 2.0
SHORT = 0.2


@contextmanager
def running(folder: Path, *faults: str) -> Iterator[Node]:
    node = planted(folder, *faults)
    with node:
        yield node


@contextmanager
def playing(node: Node) -> Iterator[Player]:
    player = Player(Initiator(node.locator), REPLY)
    yield player
    player.close()


def set_off(node: Node, name: str, times: int = 1) -> Played:
    """Plays what sets a fault off."""
    with playing(node) as player:
        for _ in range(times):
            played = player.play(FAULTS[name].trigger)
            assert not played.failure
    return played


def delivered(node: Node, count: int = 6) -> tuple[int, int]:
    """Publishes from one session to another; returns how much came, and how much of it was altered."""
    tester = node.tester(REPLY)
    try:
        subscriber, publisher = tester.session(), tester.session()
        subscriber.declare_subscriber("well/*")
        subscriber.fence()
        for number in range(count):
            publisher.put(f"well/{number}", b"payload")
        publisher.fence()
        # What was handed on has left before the answer to this.
        subscriber.fence()
        came = [seen.message for seen in subscriber.inbox if isinstance(seen.message, Push)]
        return len(came), sum(push.body.data != b"payload" for push in came)
    finally:
        tester.close()


def test_every_fault_has_a_description() -> None:
    assert list(FAULTS) == list(planted_process.FAULTS)


def test_without_faults_it_is_a_router_that_carries_and_answers(tmp_path: Path) -> None:
    with running(tmp_path) as node:
        assert (node.whatami, node.fence, node.doubt(REPLY)) == ("router", "query", "")
        for name in FAULTS:
            set_off(node, name)
        assert node.problem(REPLY) == ""
        assert delivered(node) == (6, 0)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/c", False),
        ("a/*", "a/c", True),
        ("a/*", "a/c/d", False),
        ("a/**", "a", True),
        ("a/**/c", "a/x/*/c", True),
        ("**", "@own/a", False),
        ("@own/**", "@own/a/b", True),
        ("a$*c/b", "abbc/b", True),
        ("a$*c", "ab", False),
        ("a$*", "$*b", True),
        ("a$*", "b$*", False),
        ("*/b/**", "**/c", True),
        ("*", "**", True),
        ("a/**/b", "a/c", False),
    ],
)
def test_keys_meet(one: str, other: str, common: bool) -> None:
    assert planted_process.meet(one, other) is common
    assert planted_process.meet(other, one) is common


@pytest.mark.parametrize("name", ["abort", "stall", "refuse", "pair", "across", "exit0", "deadtables"])
def test_fault_that_ends_service(tmp_path: Path, name: str) -> None:
    words = {
        "abort": "died of SIGABRT",
        "pair": "died of SIGABRT",
        "across": "died of SIGABRT",
        "exit0": "ended with exit code 0",
    }
    with running(tmp_path, name) as node:
        assert node.problem(REPLY) == ""
        set_off(node, name)
        deadline = time.monotonic() + 60
        while words.get(name, "expected ") not in (seen := node.problem(SHORT)):
            assert time.monotonic() < deadline, seen


def test_nothing_happens_when_half_of_it_was_said_or_in_the_other_order(tmp_path: Path) -> None:
    with running(tmp_path, "pair", "across") as node, playing(node) as player:
        for name in ("pair", "across"):
            script = FAULTS[name].trigger
            reaching = [step for step in script.steps if step.do is Do.REACH]
            first, second = (step for step in script.steps if step.do is Do.SEND)
            settled = Step(Do.SETTLE, second.link)
            for steps in ([*reaching, first], [*reaching, second], [*reaching, second, settled, first]):
                assert player.play(script.with_steps(steps)).ending is Ending.ACCEPTED
        # The same two in sessions of their own.
        script = FAULTS["pair"].trigger
        for step in script.steps[-2:]:
            player.play(script.with_steps([script.steps[0], step]))
        assert node.problem(REPLY) == ""


def test_late_death_comes_behind_the_answer(tmp_path: Path) -> None:
    with running(tmp_path, "late") as node:
        # How soon it dies behind its answer, nobody can tell who has to wait for a processor.
        assert set_off(node, "late").ending is Ending.ACCEPTED
        assert eventually(node.death, 60.0) == "the process died of SIGABRT"


def test_panic_ends_the_session_and_leaves_the_process(tmp_path: Path) -> None:
    with running(tmp_path, "panic") as node:
        assert set_off(node, "panic").ending is Ending.REFUSED
        assert node.death() == ""
        assert re.search(r"panicked at \S+/planted-codec-1.2.3/src/put.rs:12:5", node.complaints())
        assert node._canary(REPLY) == ""


def test_a_crash_that_comes_sometimes_comes_in_the_end(tmp_path: Path) -> None:
    with running(tmp_path, "sometimes") as node, playing(node) as player:
        tries = 0
        while not node.death():
            tries += 1
            if player.play(FAULTS["sometimes"].trigger).failure:
                # It takes no links any more, and may take its time to end.
                node.awaited_death()
            assert tries < 100
        assert node.death() == "the process died of SIGABRT"


def test_new_sessions_are_refused_while_old_ones_live(tmp_path: Path) -> None:
    with running(tmp_path, "refuse") as node, playing(node) as player:
        player.reach(State.OPEN)
        set_off(node, "refuse")
        with pytest.raises((Unmet, HarnessError, LinkFailed)):
            node.tester(SHORT).session()
        played = Played()
        run(player.conclude(played))
        assert played.ending is Ending.ACCEPTED


@pytest.mark.parametrize(
    ("name", "came", "altered"), [("deadroutes", 0, 0), ("disturb", 6, 6), ("lose", 4, 0)]
)
def test_publications_of_others_suffer(tmp_path: Path, name: str, came: int, altered: int) -> None:
    with running(tmp_path, name) as node:
        set_off(node, name)
        assert node.problem(REPLY) == ""
        assert delivered(node) == (came, altered)


def test_bystander_is_closed(tmp_path: Path) -> None:
    with running(tmp_path, "undue") as node:
        tester = node.tester(REPLY)
        bystander = tester.session()
        set_off(node, "undue")
        assert bystander.expect(Close).reason == 0
        tester.close()


def test_undecodable_answer(tmp_path: Path) -> None:
    with running(tmp_path, "undecodable") as node:
        played = set_off(node, "undecodable")
        assert played.ending is Ending.ACCEPTED
        assert played.refused


def test_what_it_keeps_shows_in_proc(tmp_path: Path) -> None:
    with running(tmp_path, "leak", "fds", "threads", "spin") as node:
        before = kilobytes(node), count(node, "fd"), count(node, "task")
        set_off(node, "leak", 40)
        set_off(node, "fds", 40)
        set_off(node, "threads", 40)
        assert kilobytes(node) - before[0] > 8000
        # A link of before may have ended meanwhile.
        assert count(node, "fd") - before[1] > 30
        assert count(node, "task") - before[2] == 40
        set_off(node, "spin")
        # Nothing is asked of it meanwhile.
        least = ticks(node) + 20
        assert eventually(lambda: ticks(node) >= least, 60.0)
        assert node.problem(REPLY) == ""


def test_slow_node_is_slow_and_well(tmp_path: Path) -> None:
    with running(tmp_path, "slow") as node:
        # Once at least while nobody else has the processor.
        assert any(set_off(node, "panic").rtt < 0.02 for _ in range(100))
        set_off(node, "slow")
        assert min(set_off(node, "panic").rtt for _ in range(5)) >= 0.02
        assert node.problem(REPLY) == ""


def eventually(look: Callable[[], object], seconds: float) -> object:
    """Looks until there is something to see."""
    deadline = time.monotonic() + seconds
    while not (seen := look()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return seen


def process(node: Node) -> Path:
    # The command is run by a process that becomes it.
    return Path(f"/proc/{node._process.pid}")  # type: ignore[attr-defined]


def kilobytes(node: Node) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", (process(node) / "status").read_text())
    assert found
    return int(found[1])


def count(node: Node, what: str) -> int:
    return len(list((process(node) / what).iterdir()))


def ticks(node: Node) -> int:
    fields = (process(node) / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
