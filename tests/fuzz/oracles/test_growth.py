"""What a process holds and does, seen from outside; a child process is the node."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fuzz.oracles import Harm, Patient, When
from fuzz.oracles.growth import MEMORY_MOST
from fuzz.oracles.history import ENOUGH
from fuzz.oracles.vitals import Vitals
from tests.fuzz.oracles.router import RouterNode, patient_of

MB = 1 << 20

CHILD = """
import sys
from subprocess import Popen
from threading import Event, Thread
kept = []
for line in sys.stdin:
    kept.append(eval(line))
    print(flush=True)
"""


class Child:
    """A process that does what it is told."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid

    def tell(self, expression: str, *, wait: bool = True) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        if wait:
            self.process.stdout.readline()


@contextmanager
def child() -> Iterator[Child]:
    made = Child()
    try:
        made.tell("None")
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


class NodeOfChild(RouterNode):
    """A router whose process, as far as anybody can see, is the child."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._pid = pid

    @property
    def pid(self) -> int:
        return self._pid


@contextmanager
def watched() -> Iterator[tuple[Patient, Child]]:
    with child() as process, NodeOfChild(process.pid) as node, patient_of(node) as patient:
        yield patient, process


def test_vitals_of_a_process() -> None:
    with child() as process:
        vitals = Vitals(process.pid)
        before = vitals.sample()
        process.tell("bytearray(b'x') * (20 << 20)")
        # Before there are threads: their stacks are memory, too, of huge pages where the kernel gives them unasked.
        memory = vitals.memory()
        process.tell("[open('/dev/null') for _ in range(5)]")
        process.tell("[Thread(target=Event().wait, daemon=True).start() for _ in range(3)]")
        process.tell(
            "Thread(target=lambda: [kept.append(Popen('true')), Event().wait()], daemon=True).start()"
        )
        process.tell("any(iter(lambda: any(isinstance(one, Popen) for one in kept), True))")
        process.tell("sum(range(300_000))")
        after = vitals.sample()
    assert 19 * MB < memory - before.memory < 24 * MB
    assert [now - then for now, then in zip(after.handles, before.handles, strict=True)] == [5, 4, 1]
    assert after.handles.more_than(before.handles) == "descriptors"
    assert after.cpu > before.cpu
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        vitals.memory()


def test_process_is_runnable_while_a_thread_computes() -> None:
    with child() as process:
        vitals = Vitals(process.pid)
        # Behind its answer it comes to rest, however long it has to wait for a processor.
        until = time.monotonic() + 60
        while vitals.is_runnable():
            assert time.monotonic() < until
        process.tell("Thread(target=lambda: exec('while True: pass'), daemon=True).start()")
        assert all(vitals.is_runnable() for _ in range(100))
    with pytest.raises(FileNotFoundError):
        vitals.is_runnable()


@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("descriptors", "[open('/dev/null') for _ in range(4)]"),
        ("threads", "[Thread(target=Event().wait, daemon=True).start() for _ in range(4)]"),
        ("children", "[Popen('true') for _ in range(4)]"),
    ],
)
def test_memory_and_what_is_held_that_grow_look_after_look_are_told(
    what: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.oracles.growth.REST", 0.0)
    names = ["memory", "handles"]
    with watched() as (patient, process):
        seen = []
        for _ in range(40):
            process.tell("bytearray(b'x') * (1 << 20)")
            process.tell(more)
            objection = patient.examine(When.TREND, names=names)
            if objection is not None:
                seen.append((objection.oracle, objection.harm, objection.place))
                # Sooner nobody can tell, and a run that is shorter says so.
                assert patient.measured >= ENOUGH
            if len(seen) == 2:
                break
    assert sorted(seen) == [("handles", Harm.LEAK, what), ("memory", Harm.GROWTH, "memory")]
    assert patient.measured <= ENOUGH + 2
    assert not patient.failures


def test_memory_that_stays_far_above_the_first_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.oracles.growth.MEMORY_MOST", 30 * MB)
    monkeypatch.setattr("fuzz.oracles.growth.RESTLESS_SECONDS", 0.05)
    assert MEMORY_MOST > 512 * MB
    with watched() as (patient, process):
        assert patient.examine(When.TREND, names=["memory"]) is None
        process.tell("bytearray(b'x') * (40 << 20)")
        objection = patient.examine(When.TREND, names=["memory"])
    assert objection
    assert (objection.harm, objection.place) == (Harm.GROWTH, "memory")


def test_more_threads_than_links_explain_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.oracles.growth.THREADS_MOST", 8)
    monkeypatch.setattr("fuzz.oracles.growth.THREADS_EACH", 2)
    monkeypatch.setattr("fuzz.oracles.growth.RESTLESS_SECONDS", 0.05)
    with watched() as (patient, process):
        # Each of them may be for a link.
        process.tell("[open('/dev/null') for _ in range(20)]")
        process.tell("[Thread(target=Event().wait, daemon=True).start() for _ in range(40)]")
        assert patient.examine(When.TREND, names=["handles"]) is None
        process.tell("[Thread(target=Event().wait, daemon=True).start() for _ in range(40)]")
        objection = patient.examine(When.TREND, names=["handles"])
    assert objection
    assert (objection.harm, objection.place) == (Harm.LEAK, "threads")


def test_a_process_that_never_rests_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.oracles.growth.RESTLESS_SECONDS", 0.3)
    # On a busy machine it does not get much.
    monkeypatch.setattr("fuzz.oracles.growth.SPIN", 0.02)
    monkeypatch.setattr("fuzz.oracles.growth.RESTING", 0.01)
    with watched() as (patient, process):
        assert patient.examine(When.TREND, names=["cpu"]) is None
        process.tell("[None for _ in iter(int, 1)]", wait=False)
        looks = (patient.examine(When.TREND, names=["cpu"]) for _ in range(50))
        objection = next(filter(None, looks), None)
    assert objection
    assert (objection.oracle, objection.harm, objection.place) == ("cpu", Harm.BUSY, "cpu")


def test_a_process_that_comes_to_rest_is_not_busy() -> None:
    with watched() as (patient, process):
        process.tell("sum(range(4_000_000))", wait=False)
        assert patient.examine(When.TREND, names=["cpu"]) is None


def test_the_process_of_somebody_else_is_not_looked_at() -> None:
    with RouterNode() as node:
        node.owned = False
        with patient_of(node) as patient:
            assert patient.vitals is None
            assert set(patient.notes) == {"memory", "handles", "cpu"}
            assert patient.examine(When.TREND) is None
        assert node.pid is None
