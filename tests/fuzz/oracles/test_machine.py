"""How busy the machine is, and how long a process could work."""

import os
from pathlib import Path

import pytest

from fuzz.oracles import Harm, Objection, When
from fuzz.oracles.machine import Turns, Watch
from fuzz.oracles.service import NOBODY, NOTHING, Served, Step
from tests.fuzz.oracles.router import RouterNode, patient_of


class Told(Turns):
    """What the kernel would tell, first and last."""

    def __init__(self, *told: dict[str, float]) -> None:
        self._told = list(told)
        super().__init__(1)

    def _delays(self) -> dict[str, float]:
        return self._told.pop(0)


def test_process_that_did_not_wait_for_a_processor_had_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Told({"1": 5.0, "2": 7.0}, {"1": 5.0, "2": 7.25, "3": 0.5})
    monkeypatch.setattr("fuzz.oracles.machine.time.perf_counter", lambda: turns._began + 2.0)
    # The third thread is new, and waited longest.
    assert turns.had == pytest.approx(1.5)


@pytest.mark.parametrize("told", [({}, {}), ({"1": 1.0}, {}), ({"1": 1.0}, {"1": 1e9})])
def test_process_of_which_nothing_is_known_had_no_time(
    told: tuple[dict[str, float], dict[str, float]],
) -> None:
    assert Told(*told).had == 0.0


def test_the_kernel_counts_for_each_thread_of_a_process() -> None:
    turns = Turns(os.getpid())
    if not Path(f"/proc/self/task/{os.getpid()}/schedstat").exists():
        pytest.skip("this kernel does not count")
    assert str(os.getpid()) in turns._delays()
    assert Turns(None).had == 0.0


@pytest.mark.parametrize(("times", "calls"), [(0.0, 5), (0.9, 5), (1.0, 3)])
def test_stall_is_waited_for_on_a_busy_machine_only_until_the_node_had_the_time_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, times: float, calls: int
) -> None:
    made = []

    def unanswered(_: float | None = None) -> Served:
        made.append(1)
        return Served(Step.INIT, NOTHING, "nothing comes")

    with RouterNode() as node, patient_of(node) as patient:
        monkeypatch.setattr(Watch, "busy", True)
        monkeypatch.setattr(Turns, "had", times * patient.reply)
        monkeypatch.setattr(patient, "call", unanswered)
        patient.thorough = True
        objection = patient.examine(When.ODD, names=["ping"])
    assert objection is not None
    assert objection.harm in {Harm.STALL, Harm.REFUSING}
    assert len(made) == calls


@pytest.mark.parametrize(("had", "looks"), [(0.0, 4), (100.0, 1)])
def test_what_a_state_needs_is_looked_for_on_a_busy_machine_only_as_long_as_the_node_gets_no_time(
    monkeypatch: pytest.MonkeyPatch, had: float, looks: int
) -> None:
    made = []

    def lost(reply: float) -> str:
        made.append(reply)
        return "it has left its group"

    with RouterNode() as node, patient_of(node) as patient:
        monkeypatch.setattr(Watch, "busy", True)
        monkeypatch.setattr(Turns, "had", had)
        monkeypatch.setattr(patient.stage, "trouble", lost)
        patient.thorough = True
        objection = patient.examine(When.ODD, names=["stage"])
        assert made == [patient.reply * 2**longer for longer in range(looks)]
    assert objection is not None
    assert (objection.harm, objection.detail) == (Harm.STALL, "it has left its group")


def test_node_that_refuses_at_once_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Objection("ping", Harm.STALL, "", "nothing comes")
    made = []

    def refused(_: float | None = None) -> Served:
        made.append(1)
        return Served(Step.LINK, NOBODY, "nobody listens")

    with RouterNode() as node, patient_of(node) as patient:
        monkeypatch.setattr(patient, "call", refused)
        assert patient.outlasted(seen) is seen
    assert len(made) == 1
