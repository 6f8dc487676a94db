"""Pace, answers, another node: oracles that compare."""

import itertools
import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conformance.config import Locator
from conformance.nodes.base import Node
from fuzz.cases import Case, Cause, Fixed, reach, send
from fuzz.oracles import ORACLES, Harm, Objection, Patient, When
from fuzz.oracles.canary import Canary
from fuzz.oracles.common import COMMON
from fuzz.oracles.fresh import CALLS
from fuzz.oracles.machine import Watch
from fuzz.oracles.pace import AGAIN, IN_A_ROW, LEAST, TIMES, Pace, is_slow
from fuzz.oracles.rival import MOST_ALIKE, Rival
from fuzz.player import Answers, Ending, Played, Player
from fuzz.script import Script, Step
from fuzz.states import State
from scapy_layers.data import Put
from scapy_layers.network import Push, ResponseFinal
from scapy_layers.transport import Close, Frame, Init, Open
from tests.fuzz.oracles.router import REPLY, RouterNode, RouterStage, patient_of

pytestmark = pytest.mark.usefixtures("unhurried")


@pytest.fixture
def node() -> Iterator[RouterNode]:
    with RouterNode() as node:
        yield node


@pytest.fixture(autouse=True)
def awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that these tests run on may be busy."""
    monkeypatch.setattr("fuzz.oracles.pace.overslept", lambda: 0.0)


# Pace ------------------------------------------------------------------------------------------------

FRESH = [0.0002] * 18 + [0.004, 0.004]


def test_many_times_as_long_as_at_first_is_slow() -> None:
    assert is_slow(FRESH, [0.05])
    assert not is_slow(FRESH, [0.9 * LEAST])
    assert not is_slow([0.01] * 20, [0.07])
    assert is_slow([0.001] * 10 + [0.02] * 10, [0.05])
    assert not is_slow([], [0.05])
    assert not is_slow(FRESH, [])


def test_slow_is_slow_again_and_again_and_never_fast_in_between() -> None:
    pace = Pace(FRESH)
    for _ in range(IN_A_ROW - 1):
        assert not pace.judge([0.05], lambda: 0.05)
    assert pace.judge([0.05], lambda: 0.05) == [0.05] * AGAIN
    busy = iter([0.05, 0.03, 0.0003] * AGAIN)
    assert not pace.judge([0.05], lambda: next(busy))
    assert pace.slow == 0
    pace.slow = 2
    assert not pace.judge([0.0002], lambda: 0.05)
    assert pace.slow == 0
    assert not pace.judge([0.05], lambda: None)


def test_a_node_is_not_slow_where_we_are_woken_late_ourselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.oracles.pace.overslept", lambda: 0.01)
    pace = Pace(FRESH)
    assert [pace.judge([0.05], lambda: 0.05) for _ in range(IN_A_ROW)] == [[]] * IN_A_ROW


def test_a_node_that_becomes_slow_is_told(node: RouterNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.oracles.canary.LOOKS", 1)
    monkeypatch.setattr("fuzz.oracles.pace.AGAIN", 2)
    with patient_of(node) as patient:
        patient.exchange.baseline = FRESH
        patient.opening.baseline = FRESH
        node.router.delay = 0.008
        seen = [patient.examine(When.ODD) for _ in range(IN_A_ROW)]
        assert not patient.failures
    assert seen[:-1] == [None] * (IN_A_ROW - 1)
    last = seen[-1]
    assert last
    assert (last.oracle, last.harm, last.place) == ("time", Harm.SLOW, "")


def test_a_node_to_which_declarations_become_more_and_more_work_is_told(
    node: RouterNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.oracles.pace.AGAIN", 2)
    clock, work = [0.0], 0.001

    def carries(_: Canary) -> bool:
        clock[0] += work
        return True

    with patient_of(node) as patient:
        assert len(patient.declaring.baseline) == CALLS
        monkeypatch.setattr(Canary, "carries_common", carries)
        monkeypatch.setattr(patient, "vitals", SimpleNamespace(pid=node.pid, cpu=lambda: clock[0]))
        patient.declaring.baseline = [patient.effort() or 0.0]
        work = TIMES * 0.0009
        assert patient.examine(When.ODD) is None
        assert patient.declaring.slow == 0
        work = TIMES * 0.0011
        seen = [patient.examine(When.ODD) for _ in range(IN_A_ROW)]
        assert not patient.failures
    assert seen[:-1] == [None] * (IN_A_ROW - 1)
    last = seen[-1]
    assert last
    assert (last.oracle, last.harm, last.place) == ("time", Harm.SLOW, "")
    assert last.detail.startswith("declaration")


def test_effort_is_known_where_all_is_carried(node: RouterNode) -> None:
    with patient_of(node) as patient:
        assert patient.effort()
        node.router.dropped = COMMON[0]
        assert patient.effort() is None
        patient.vitals = None
        assert patient.effort() is None


@pytest.mark.parametrize(
    ("spends", "runnable", "deaf"),
    [
        ([1, 1], [], False),
        ([0, 0], [], True),
        (None, [], True),
        # It keeps its sessions alive in between.
        ([1, 0], [], True),
        # It waits for a processor; it woke up now and then.
        ([0, 0], [True, True, True, True], False),
        ([0, 0], [True, True, True, False], True),
        ([0, 0], [False, True], True),
    ],
)
def test_a_session_is_deaf_where_the_process_has_come_to_rest(
    spends: list[int] | None, runnable: list[bool], *, deaf: bool
) -> None:
    # Looked at before and behind each moment.
    spent = itertools.accumulate(itertools.chain.from_iterable((0, more) for more in spends or ()))
    states = iter(runnable)
    vitals = SimpleNamespace(cpu=lambda: next(spent), is_runnable=lambda: next(states, False))
    with RouterNode() as node:
        patient = Patient(RouterStage(node), REPLY)
        patient.vitals = None if spends is None else cast("Any", vitals)
        assert patient.stage.at_work == patient.is_at_work
        objection = ORACLES["deaf"].look(patient, Played(deaf=True))
    assert (objection is not None) is deaf


# Answers ---------------------------------------------------------------------------------------------


def judged(*batches: bytes) -> Objection | None:
    answers = Answers()
    played = Played(answers=[answers.read(batch, 0) for batch in batches])
    with RouterNode() as node:
        return ORACLES["undecodable"].look(Patient(RouterStage(node), REPLY), played)


CUT = bytes(Frame(sn=1, messages=[ResponseFinal(request_id=300)]))[:-1]
FORWARDED = bytes(Frame(sn=1, messages=[Push(key_suffix="a", body=Put(data=b"abc"))]))[:-2]
ACK = bytes(Open(A=1, initial_sn=1))


def test_what_the_node_says_itself_is_decoded_strictly() -> None:
    objection = judged(bytes(Close(reason=0)), CUT)
    assert objection
    assert (objection.oracle, objection.harm) == ("undecodable", Harm.UNDECODABLE)
    assert objection.place == "FRAME.messages.RESPONSE_FINAL.request_id"
    other = judged(bytes(Frame(sn=77, messages=[ResponseFinal(request_id=70_000)]))[:-1])
    assert other
    assert other.place == objection.place


def test_what_the_node_hands_on_may_be_our_own_lie() -> None:
    assert judged(FORWARDED) is None


def test_behind_a_handshake_that_may_have_agreed_on_anything_nothing_is_judged() -> None:
    assert judged(bytes(Init(A=1, zid=b"z", cookie=b"c")), ACK, CUT) is None
    assert judged(ACK[:-1])


def test_correct_answers_are_nothing() -> None:
    assert judged(bytes(Close(reason=0)), bytes(Frame(sn=1, messages=[ResponseFinal(request_id=3)]))) is None


# Another node ----------------------------------------------------------------------------------------


def case(name: str = "one", steps: tuple[Step, ...] = ()) -> Case:
    source = Fixed(name, State.OPEN, "CLOSE", {"words": steps or (send("size", bytes(Close())),)}, "order")
    return next(source.cases(random.Random(1)))


class Scripted(RouterStage):
    """A stage whose player says how a case ended, time after time; the last word again and again."""

    def __init__(self, node: Node, *endings: str) -> None:
        super().__init__(node)
        self.endings = list(endings)
        self.restarts = 0
        self.drawn: list[float] = []

    def restart(self) -> None:
        self.restarts += 1
        self.node.dead = ""  # type: ignore[attr-defined]

    def player(self, rng: random.Random | None = None) -> Player:
        assert rng is not None
        self.drawn.append(rng.random())
        return Playing(self)


class Playing(Player):
    """Its player."""

    def __init__(self, stage: Scripted) -> None:
        self.stage = stage
        self.batches: list[bytes] = []

    def play(self, script: Script, hopeless: Callable[[], bool] | None = None) -> Played:  # noqa: ARG002
        ending = self.stage.endings.pop(0) if len(self.stage.endings) > 1 else self.stage.endings[0]
        if ending == "died":
            self.stage.node.dead = "the process died of SIGSEGV"  # type: ignore[attr-defined]
        if ending in {"failed", "died"}:
            return Played(failure="no")
        return Played(ending=Ending(ending), answers=[Answers().read(batch, 0) for batch in self.batches])

    def leave(self) -> None:
        pass


class Closing(Scripted):
    """A stage whose player says that its case ended with a CLOSE of some reason, or with one that was lost."""

    def __init__(self, node: Node, reason: int | None) -> None:
        super().__init__(node, "closed")
        self.reason = reason

    def player(self, rng: random.Random | None = None) -> Player:  # noqa: ARG002  (called like that of a stage)
        made = Playing(self)
        made.batches = [] if self.reason is None else [bytes(Close(reason=self.reason))]
        return made


@pytest.mark.parametrize(
    ("ours", "theirs", "place"),
    [
        (["accepted"], ["accepted"], ""),
        (["accepted"], ["closed"], "accepted / closed"),
        (["silent", "accepted"], ["accepted"], ""),
        (["accepted"], ["closed", "closed", "refused"], ""),
        (["accepted"], ["failed"], ""),
        (["accepted"], ["died"], "accepted / died"),
        (["died"], ["accepted"], ""),
    ],
)
def test_a_difference_shows_every_time(ours: list[str], theirs: list[str], place: str) -> None:
    mine, other = Scripted(RouterNode(), *ours), Scripted(RouterNode(), *theirs)
    found = Rival(other).compare(mine, case())
    assert (f"{found.ours} / {found.theirs}" if found else "") == place
    assert other.restarts == (3 if "died" in theirs else 0)


@pytest.mark.parametrize(
    ("protocols", "endings", "place"),
    [
        ("udp tcp", ("silent", "refused"), ""),
        ("tcp udp", ("refused", "silent"), ""),
        ("udp tcp", ("closed", "refused"), "closed / refused"),
        ("udp tcp", ("silent", "accepted"), "silent / accepted"),
        ("udp udp", ("silent", "refused"), "silent / refused"),
        ("tcp unixsock-stream", ("silent", "refused"), "silent / refused"),
    ],
)
def test_that_a_link_of_datagrams_has_no_end_is_no_difference(
    protocols: str, endings: tuple[str, str], place: str
) -> None:
    mine, other = (Scripted(RouterNode(), ending) for ending in endings)
    for stage, protocol in zip((mine, other), protocols.split(), strict=True):
        stage.node.locator = Locator(protocol, "127.0.0.1", 7447)
    found = Rival(other).compare(mine, case())
    assert (f"{found.ours} / {found.theirs}" if found else "") == place


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("some-node", "other"), ("some-node 1", "other 1")),
        (("some-node", "unknown"), ("some-node 1", "the node of --also")),
        (("unknown", "unknown"), ("the node under test", "the node of --also")),
        (("some-node", "some-node"), ("the node under test", "the node of --also")),
    ],
)
def test_nodes_that_differ_are_told_apart_by_what_they_are_called(
    names: tuple[str, str], said: tuple[str, str]
) -> None:
    mine, other = Scripted(RouterNode(), "accepted"), Scripted(RouterNode(), "closed")
    for stage, name in zip((mine, other), names, strict=True):
        stage.node.impl, stage.node.version = name, "1"
    rival = Rival(other)
    found = rival.compare(mine, case())
    assert found
    assert re.search(f"from {said[0]}, .* from {said[1]}$", found.detail)
    assert rival.so_far().title in {f"{names[1]} 1", said[1]}


def test_both_nodes_get_the_same_zenoh_ids_and_others_each_time() -> None:
    mine, other = Scripted(RouterNode(), "accepted"), Scripted(RouterNode(), "closed")
    assert Rival(other).compare(mine, case())
    assert mine.drawn == other.drawn
    assert len(set(mine.drawn)) == len(mine.drawn) == 3


def test_a_class_of_differences_is_told_once_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.oracles.rival.SHARE", 1.0)
    rival = Rival(Scripted(RouterNode(), "closed"))
    mine = Scripted(RouterNode(), "accepted")
    found = [rival.compare(mine, case()) for _ in range(2 * MOST_ALIKE)]
    assert found[0]
    assert found[1:] == [None] * (2 * MOST_ALIKE - 1)
    assert rival.counts == {("open", "CLOSE", "accepted / closed"): MOST_ALIKE}


def test_comparing_takes_its_share_of_the_time() -> None:
    rival = Rival(Scripted(RouterNode(), "closed"))
    mine = Scripted(RouterNode(), "accepted")
    rival.compare(mine, case())
    rival._next += 100
    assert rival.compare(mine, case()) is None
    assert rival.compared == 1


def about(field: str) -> Case:
    return replace(case(), field=field)


def test_cases_wait_until_there_is_time_and_fields_that_were_not_compared_come_first() -> None:
    mine, other = Scripted(RouterNode(), "accepted"), Scripted(RouterNode(), "closed")
    rival = Rival(other)
    rival._next = math.inf
    for field in ("one", "silent", "two", "one"):
        assert rival.compare(mine, about(field), silent=field == "silent") is None
    compared = []
    for field in ("one", "three", "one", "one"):
        rival._next = 0.0
        # All of them are told.
        rival.counts.clear()
        found = rival.compare(mine, about(field))
        assert found
        compared.append(found.case.field)
    assert compared == ["one", "two", "three", "silent"]
    assert "4 of 4 fields in their states, by 4 cases; 1 kind of difference" in rival.so_far().note()
    assert rival.waiting == 1


def test_a_case_about_two_fields_is_compared_where_nothing_else_waits() -> None:
    rival = Rival(Scripted(RouterNode(), "closed"))
    both = replace(about("one + two"), causes=(Cause("a", "one", ""), Cause("a", "two", "")))
    assert rival.wants(both)
    rival._next = math.inf
    rival.compare(Scripted(RouterNode(), "accepted"), about("one"))
    assert not rival.wants(both)


def test_a_case_that_was_answered_waits_in_place_of_one_that_was_not() -> None:
    rival = Rival(Scripted(RouterNode(), "closed"))
    rival._next = math.inf
    slow, quick = about("one"), about("one")
    rival.compare(Scripted(RouterNode(), "accepted"), slow, silent=True)
    assert rival.waits(slow)
    rival.compare(Scripted(RouterNode(), "accepted"), quick)
    assert rival.waits(quick)


@pytest.mark.parametrize(
    ("ours", "theirs", "place"),
    [
        (2, 2, ""),
        (2, 1, "closed INVALID / closed UNSUPPORTED"),
        (2, 99, "closed INVALID / closed 99"),
        (2, None, ""),
    ],
)
def test_two_nodes_differ_in_the_reason_of_a_close(ours: int, theirs: int | None, place: str) -> None:
    mine, other = Closing(RouterNode(), ours), Closing(RouterNode(), theirs)
    found = Rival(other).compare(mine, case())
    assert (f"{found.ours} / {found.theirs}" if found else "") == place


def test_two_real_ends_differ_through_the_patient(node: RouterNode) -> None:
    other = RouterNode()
    other.start()
    other.router.without |= {"queries", "answers"}
    patient = Patient(RouterStage(node), REPLY, also=RouterStage(other))
    patient.begin()
    played = Played()
    steps = (reach(State.OPEN, "b"), send("size", b"\x04"))
    objection = patient.examine(When.CASE, played, case(steps=steps))
    patient.close()
    other.stop()
    assert objection
    assert (objection.oracle, objection.harm) == ("differs", Harm.DIFFERS)
    assert objection.place.startswith("accepted / ")


# The machine -----------------------------------------------------------------------------------------


def test_a_machine_on_which_we_oversleep_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.oracles.machine._waited", lambda: None)
    watch = Watch()
    assert not watch.busy
    watch.woken(-1.0)
    assert not watch.busy
    watch.woken(10.0)
    assert watch.share == 1.0


def test_what_the_kernel_says_of_waiting_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.oracles.machine._waited", lambda: 100.0)
    watch = Watch()
    monkeypatch.setattr("fuzz.oracles.machine._waited", lambda: 101.0)
    assert watch.busy


def test_every_oracle_has_a_name_and_a_purpose() -> None:
    assert [*ORACLES] == [
        "process",
        "stderr",
        "pause",
        "ping",
        "canary",
        "valid",
        "keys",
        "tokens",
        "stage",
        "undecodable",
        "deaf",
        "differs",
        "ending",
        "memory",
        "handles",
        "cpu",
        "silence",
        "time",
    ]
    assert all(oracle.purpose and not oracle.purpose.endswith(".") for oracle in ORACLES.values())
    page = (Path(__file__).parents[3] / "docs" / "fuzzing.md").read_text()
    assert [name for name in ORACLES if f"`{name}`" not in page] == []
