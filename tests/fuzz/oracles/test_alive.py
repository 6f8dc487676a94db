"""The process, its last words, new sessions."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fuzz.oracles import PAUSE, Harm, Objection, Patient, When, place_of
from fuzz.oracles.alive import HELD_UP, LONG_PAUSE, objection_of
from fuzz.oracles.machine import Watch
from fuzz.oracles.patient import AFTERMATH, SURVIVED, hurried
from fuzz.oracles.places import in_file
from fuzz.oracles.service import NOTHING, Served, Step, question_of
from fuzz.oracles.trouble import MUTE
from fuzz.player import Ending, Played
from scapy_layers.batch import contents, prefixed
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame
from tests.fuzz.oracles.router import REPLY, RouterNode, RouterStage, patient_of

PANIC = "thread 'rx-0' (7) panicked at /build/some-crate-1.2.3/src/net/face.rs:83:22: called unwrap"


@pytest.fixture
def node() -> Iterator[RouterNode]:
    with RouterNode() as node:
        yield node


@pytest.fixture
def patient(node: RouterNode) -> Iterator[Patient]:
    with patient_of(node) as patient:
        yield patient


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else has the processors, whatever runs beside these tests."""
    monkeypatch.setattr(Watch, "busy", False)
    monkeypatch.setattr("fuzz.oracles.patient.overslept", lambda: 0.0)


def seen(patient: Patient, when: When = When.ODD) -> Objection:
    objection = patient.examine(when)
    assert objection
    assert not patient.failures
    return objection


def test_a_process_that_died_is_a_crash_with_its_signal(node: RouterNode, patient: Patient) -> None:
    node.dead = "the process died of SIGSEGV"
    objection = seen(patient, When.CASE)
    assert (objection.oracle, objection.harm, objection.place) == ("process", Harm.CRASH, "SIGSEGV")


def test_last_words_of_a_dead_process_are_the_place(node: RouterNode, patient: Patient) -> None:
    node.dead, node.words = "the process died of SIGABRT", "memory allocation of 12345678 bytes failed"
    assert seen(patient, When.CASE).place == "SIGABRT memory allocation"


def test_a_panic_text_is_a_panic_at_its_place(node: RouterNode, patient: Patient) -> None:
    node.words = PANIC
    objection = seen(patient, When.CASE)
    assert (objection.oracle, objection.harm) == ("stderr", Harm.PANIC)
    assert objection.place == "some-crate/src/net/face.rs:83"


def test_a_process_that_dies_of_its_panic_has_crashed(
    node: RouterNode, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.words = PANIC

    def dies(place: str) -> bool:
        assert place
        node.dead = "the process died of SIGABRT"
        return True

    monkeypatch.setattr(patient, "ends", dies)
    objection = seen(patient, When.CASE)
    assert (objection.oracle, objection.harm) == ("process", Harm.CRASH)
    assert objection.place == "SIGABRT some-crate/src/net/face.rs:83"


def test_a_panic_that_was_survived_before_is_hardly_waited_for(
    node: RouterNode, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    exits = False

    def wait(_: object, seconds: float) -> bool:
        asked.append(seconds)
        if exits:
            node.dead = "the process died of SIGABRT"
        return exits

    monkeypatch.setattr("fuzz.oracles.patient._Exit.wait", wait)
    other = PANIC.replace("83:22", "84:1")
    for said in (PANIC, PANIC, other):
        node.words = said
        assert seen(patient, When.CASE).harm is Harm.PANIC
        patient.begin()
    assert asked == [AFTERMATH, SURVIVED, AFTERMATH]
    exits, node.words = True, PANIC
    assert seen(patient, When.CASE).harm is Harm.CRASH


def test_whether_a_node_has_failed_is_told_without_asking_it(node: RouterNode, patient: Patient) -> None:
    assert not patient.has_failed()
    node.words = PANIC
    assert patient.has_failed()
    assert seen(patient, When.CASE).harm is Harm.PANIC


def test_what_was_said_before_a_restart_is_forgotten(node: RouterNode, patient: Patient) -> None:
    node.words = PANIC
    seen(patient, When.CASE)
    patient.begin()
    assert patient.examine(When.CASE) is None


def test_a_node_that_answers_nobody_stalls(node: RouterNode, patient: Patient) -> None:
    node.router.without.add("served")
    objection = seen(patient)
    assert (objection.oracle, objection.harm, objection.place) == ("ping", Harm.STALL, "")


def test_a_node_that_answers_nobody_stalls_for_ping_alone(node: RouterNode, patient: Patient) -> None:
    node.router.without.add("served")
    objection = patient.examine(When.ODD, names=["ping"])
    assert objection
    assert (objection.harm, objection.place) == (Harm.STALL, "")


def test_a_stall_that_does_not_end_is_true_whoever_did_it_and_is_waited_for_once(
    node: RouterNode, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.router.without.add("served")
    calls: list[float | None] = []
    call = patient.call

    def counted(reply: float | None = None) -> object:
        calls.append(reply)
        return call(reply)

    monkeypatch.setattr(patient, "call", counted)
    assert seen(patient).lasting
    calls.clear()
    with patient.hurried():
        seen(patient)
    least = len(calls)
    again = seen(patient)
    assert (again.harm, again.lasting) == (Harm.STALL, False)
    # No call more than where nobody has the time to wait.
    assert len(calls) == 2 * least


def test_a_stall_that_ends_is_not_known_to_be_one(
    node: RouterNode, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.router.without.add("served")
    outlasted = patient.outlasted

    def recovers(objection: Objection) -> Objection:
        node.router.without.clear()
        return outlasted(objection)

    monkeypatch.setattr(patient, "outlasted", recovers)
    objection = seen(patient)
    assert (objection.harm, objection.lasting) == (Harm.STALL, False)


def test_nobody_waits_for_the_end_of_a_stall_where_scripts_are_tried(
    node: RouterNode, patient: Patient
) -> None:
    node.router.without.add("served")
    with patient.hurried():
        assert not seen(patient).lasting
    patient.thorough = True
    assert not seen(patient).lasting


def test_a_machine_that_gives_the_node_no_time_proves_nothing(
    node: RouterNode, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.router.without.add("served")
    monkeypatch.setattr(Watch, "busy", True)
    monkeypatch.setattr("fuzz.oracles.machine.Turns.had", property(lambda _: 0.0))
    assert not seen(patient).lasting


def test_sessions_that_open_and_are_not_served_are_a_stall_of_their_own(
    node: RouterNode, patient: Patient
) -> None:
    node.router.without |= {"queries", "routes", "answers"}
    objection = seen(patient)
    assert (objection.oracle, objection.harm) == ("ping", Harm.STALL)
    assert objection.place == "sessions open, nothing is answered in them"


@pytest.mark.parametrize(("how", "place"), [("new", "INIT: end of the link"), ("init", "INIT: no answer")])
def test_a_node_that_serves_old_sessions_only_refuses(
    node: RouterNode, patient: Patient, how: str, place: str
) -> None:
    node.router.without.add(how)
    objection = seen(patient)
    assert (objection.oracle, objection.harm, objection.place) == ("ping", Harm.REFUSING, place)
    assert "opened earlier are still served" in objection.detail


def test_a_node_that_serves_new_sessions_as_soon_as_old_ones_has_paused(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, failing = patient.call, [Served(Step.INIT, NOTHING, "nothing comes")] * 2
    monkeypatch.setattr(patient, "call", lambda reply=None: failing.pop() if failing else call(reply))
    monkeypatch.setattr(Watch, "seconds", 5.0)
    objection = seen(patient)
    assert (objection.harm, objection.place) == (Harm.PAUSE, "")
    assert objection.detail.startswith("a new session took 5.0 s")


def test_a_node_of_ours_where_nobody_listens_refuses(node: RouterNode, patient: Patient) -> None:
    node.router.deafen()
    objection = seen(patient)
    assert (objection.harm, objection.place) == (Harm.REFUSING, "link: nobody listens")


def test_a_process_that_takes_its_time_to_die_where_nobody_listens_any_more_has_crashed(
    node: RouterNode, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(_: object, seconds: float) -> bool:
        # Longer than anything that has stopped serving is watched for.
        if seconds >= REPLY:
            node.dead = "the process died of SIGABRT"
        return bool(node.dead)

    monkeypatch.setattr("fuzz.oracles.patient._Exit.wait", wait)
    node.router.deafen()
    objection = seen(patient)
    assert (objection.oracle, objection.harm, objection.place) == ("process", Harm.CRASH, "SIGABRT")


def test_an_address_where_nobody_listens_is_gone_when_the_node_is_not_ours(node: RouterNode) -> None:
    node.owned = False
    with patient_of(node) as patient:
        node.router.close()
        objection = seen(patient)
        node.start()
    assert (objection.harm, objection.place) == (Harm.GONE, "")


def test_an_answer_that_took_its_time_is_a_pause(patient: Patient) -> None:
    assert patient.examine(When.CASE, Played(late=PAUSE - 0.01)) is None
    objection = patient.examine(When.CASE, Played(late=PAUSE + 0.01))
    assert objection
    assert (objection.oracle, objection.harm, objection.place) == ("pause", Harm.PAUSE, "")
    assert "took 0.5 s" in objection.detail


def test_much_that_was_sent_may_take_its_time(patient: Patient) -> None:
    patient.exchange.baseline[:] = [0.001] * 9
    much, little = [bytes(100)] * 100, [bytes(100)] * 20
    assert patient.examine(When.CASE, Played(late=2.0, sent=much)) is None
    assert patient.examine(When.CASE, Played(late=2.0, sent=little))
    # It still has to do with what others sent.
    busy = Played(sent=much)
    patient.lately = lambda: [busy]
    assert patient.examine(When.CASE, Played(late=2.0, sent=little)) is None
    patient.lately = lambda: [busy, busy]
    assert patient.examine(When.CASE, Played(late=3.2, sent=little))


def test_a_large_payload_is_one_message(patient: Patient) -> None:
    patient.exchange.baseline[:] = [0.0001] * 9
    payload = prefixed(bytes(Frame(R=1, sn=1, messages=[Push(key_suffix="a", body=Put(data=bytes(40_000)))])))
    assert patient.examine(When.CASE, Played(late=1.0, sent=[payload] * 200))
    assert patient.examine(When.CASE, Played(late=1.0, sent=[prefixed(bytes(40_000))] * 200)) is None


def test_much_that_was_sent_is_no_reason_to_stop_reading(patient: Patient) -> None:
    much = [bytes(1000)] * 10_000
    assert patient.examine(When.CASE, Played(late=1.0, sent=much)) is None
    assert patient.examine(When.CASE, Played(late=1.0, sent=much, torn=True))


def test_a_node_that_always_takes_its_time_does_not_pause(patient: Patient) -> None:
    patient.exchange.baseline[:] = [0.1] * 9
    assert patient.examine(When.CASE, Played(late=1.9)) is None
    assert patient.examine(When.CASE, Played(late=2.1))


def test_a_busy_machine_makes_no_pause(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "busy", True)
    assert patient.examine(When.CASE, Played(late=LONG_PAUSE - 0.1)) is None
    # But for what no machine explains.
    seen = patient.examine(When.CASE, Played(late=LONG_PAUSE + 0.1))
    assert seen is not None
    assert seen.harm is Harm.PAUSE


@pytest.mark.parametrize(
    ("before", "seconds", "there"),
    [
        (None, PAUSE + 0.1, True),
        (None, HELD_UP + 0.1, False),
        # What was played last was not answered either.
        (Played(ending=Ending.SILENT, rtt=REPLY), HELD_UP + 0.1, True),
        (Played(failure="expected INIT, got nothing"), HELD_UP + 0.1, True),
        (Played(ending=Ending.SILENT, rtt=REPLY), HELD_UP - 0.05, False),
        (Played(ending=Ending.ACCEPTED, rtt=REPLY), HELD_UP + 0.1, False),
    ],
)
def test_a_new_session_that_has_to_wait_is_a_pause(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, before: Played | None, seconds: float, *, there: bool
) -> None:
    patient.reply = REPLY
    monkeypatch.setattr(Watch, "seconds", seconds)
    monkeypatch.setattr(Watch, "busy", False)
    objection = patient.examine(When.ODD, before, names=["ping"])
    assert (objection.harm if objection else None) is (Harm.PAUSE if there else None)


def test_a_node_on_which_sessions_always_take_long_does_not_pause(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watch, "seconds", 0.6)
    monkeypatch.setattr(Watch, "busy", False)
    patient.opening.baseline[:] = [0.1] * 9
    assert patient.examine(When.ODD, names=["ping"]) is None
    patient.opening.baseline[:] = [0.05] * 9
    assert patient.examine(When.ODD, names=["ping"])


def test_what_comes_late_between_sessions_of_ours_is_a_pause(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert patient.canary is not None
    monkeypatch.setattr(patient.canary, "later", lambda: None)
    monkeypatch.setattr(Watch, "busy", False)
    assert objection_of(patient, MUTE) is None
    monkeypatch.setattr(Watch, "seconds", PAUSE + 0.1)
    objection = objection_of(patient, MUTE)
    assert objection
    assert objection.harm is Harm.PAUSE


def test_a_new_session_that_fails_once_is_nothing(
    node: RouterNode, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.router.without.add("new")
    call = patient.call

    def heal(reply: float | None = None) -> object:
        served = call(reply)
        node.router.without.clear()
        return served

    monkeypatch.setattr(patient, "call", heal)
    assert patient.examine(When.ODD) is None


@pytest.mark.parametrize("late", ["dead", "words"])
def test_what_a_process_says_when_it_dies_wins_over_what_it_fails_at_first(
    node: RouterNode, patient: Patient, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.router.without |= {"served"}
    # It speaks at the twentieth look, however slow the machine is.
    monkeypatch.setattr("fuzz.oracles.patient.AFTERMATH", 2.0)
    asked = 0
    death, complaints = node.death, node.complaints

    def told(really: object) -> str:
        nonlocal asked
        asked += 1
        if asked > 20:
            setattr(node, late, PANIC if late == "words" else "the process died of SIGABRT")
        return death() if really is death else complaints()

    monkeypatch.setattr(node, "death", lambda: told(death))
    monkeypatch.setattr(node, "complaints", lambda: told(complaints))
    assert seen(patient).harm is (Harm.PANIC if late == "words" else Harm.CRASH)


def test_what_a_process_says_while_an_answer_is_waited_for_wins_over_the_stall(
    node: RouterNode, patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert patient.canary is not None

    def speaks() -> object:
        node.words = PANIC
        return MUTE

    # New sessions are served; the words come behind the last pause that is made for them.
    monkeypatch.setattr(patient.canary, "look", lambda **_: MUTE)
    monkeypatch.setattr(patient.canary, "later", speaks)
    objection = seen(patient)
    assert (objection.oracle, objection.harm) == ("stderr", Harm.PANIC)
    assert objection.place == "some-crate/src/net/face.rs:83"


def test_in_a_hurry_answers_are_waited_for_less_long(patient: Patient) -> None:
    patient.begin()
    assert patient.canary is not None
    with patient.hurried() as reply:
        assert reply == patient.reply == patient.canary.reply == hurried(REPLY) < REPLY
    assert patient.reply == patient.canary.reply == REPLY
    with pytest.raises(KeyError), patient.hurried():
        raise KeyError
    assert patient.reply == REPLY


def test_a_stage_that_does_not_do_what_it_is_for_stalls(node: RouterNode) -> None:
    stage = RouterStage(node)
    patient = Patient(stage, REPLY)
    patient.begin()
    stage.lacking = "no HELLO"
    objection = seen(patient)
    patient.close()
    assert (objection.oracle, objection.harm, objection.detail) == ("stage", Harm.STALL, "no HELLO")


def test_a_question_waits_for_no_session_of_the_campaign() -> None:
    # A peer hands a query on to sessions of which it does not know yet what they serve.
    found = contents(bytes(Frame(sn=1)) + question_of("query")).messages[0].messages[0]
    assert [str(one.name) for one in found.extensions] == ["Timeout"]
    assert question_of("interest")
    assert question_of("none") == b""


def test_a_process_that_is_gone_when_it_is_first_looked_at_is_a_crash(
    node: RouterNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.oracles.vitals.Vitals.sample", lambda _: _gone())
    with patient_of(node) as patient:
        assert patient.vitals is None
        node.dead = "the process died of SIGABRT"
        assert seen(patient, When.TREND).harm is Harm.CRASH


def _gone() -> None:
    raise FileNotFoundError


def test_only_the_named_oracles_are_asked(node: RouterNode, patient: Patient) -> None:
    node.words = PANIC
    assert patient.examine(When.ODD, names=["ping", "process"]) is None
    assert set(patient.looks) == {"ping", "process"}


@pytest.mark.usefixtures("unhurried")
def test_an_oracle_that_fails_is_not_asked_again_and_says_so(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patient, "call", lambda _=None: 1 / 0)
    assert patient.examine(When.ODD) is None
    assert "division by zero" in patient.failures["ping"]
    assert patient.examine(When.ODD) is None
    assert patient.looks["ping"] == 1
    assert patient.looks["canary"] == 2


@pytest.fixture
def now(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only the test moves; a canary would wait for ever for what the node does not carry."""
    seconds = [time.perf_counter()]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    monkeypatch.setattr(patient, "open_canary", lambda: None)
    patient.begin()
    return seconds


def test_a_look_is_due_by_cases_and_by_time(patient: Patient, now: list[float]) -> None:
    began = now[0]
    dues = [patient.due() for _ in range(32)]
    assert dues == [When.CASE] * 31 + [When.BEAT]
    patient._looked(When.BEAT)
    assert patient.due() is When.CASE
    for seconds, when in ((0.06, When.BEAT), (2.1, When.ODD), (5.1, When.TREND)):
        now[0] = began + seconds
        assert patient.due() is when


def test_time_in_which_no_case_is_played_makes_no_thorough_look_due(
    patient: Patient, now: list[float]
) -> None:
    for away in (0.0, 100.0, 200.0):
        patient.pause()
        now[0] += away
        patient.resume()
        now[0] += 0.06
        assert patient.due() is When.BEAT
        patient._looked(When.BEAT)
    for seconds, when in ((2.0, When.ODD), (3.0, When.TREND)):
        now[0] += seconds
        assert patient.due() is when
    patient.resume()
    assert patient.due() is When.TREND


def test_process_is_measured_between_turns_as_often_as_in_them(
    patient: Patient, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(patient, "history", SimpleNamespace(add=lambda _, cases: taken.append(cases)))
    for away in (5.0, 4.0, 1.5):
        patient.pause()
        now[0] += away
        patient.resume()
    assert len(taken) == 2


def test_process_is_measured_as_often_where_thorough_looks_take_long(
    patient: Patient, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[float] = []
    monkeypatch.setattr(patient, "history", SimpleNamespace(add=lambda _, __: taken.append(now[0])))
    patient._took[When.TREND] = 9.0
    patient._sample()
    taken.clear()
    for _ in range(86):
        now[0] += 0.25
        assert patient.due() is not When.TREND
    assert len(taken) == 4
    # A thorough look measures by itself.
    now[0] += 10
    assert patient.due() is When.TREND
    assert len(taken) == 4


def test_look_that_took_long_is_not_due_again_at_once(
    patient: Patient, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:

    def slowly(*_: object) -> None:
        now[0] += 2.0

    monkeypatch.setattr(patient, "_ask", slowly)
    patient.examine(When.ODD, names=["ping"])
    patient._trend_at = now[0] + 1e6
    for seconds, due in ((2.1, When.BEAT), (4.0, When.ODD)):
        now[0] += seconds
        assert patient.due() is due
    # However long it took.
    patient._took[When.ODD] = 1e6
    now[0] += 31
    assert patient.due() is When.ODD
    patient.begin()
    now[0] += 2.1
    assert patient.due() is When.ODD


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("thread 'a' panicked at zenoh/src/net/x.rs:1:2: why", "zenoh/src/net/x.rs:1"),
        (
            "thread 'a' panicked at /build/git/checkouts/z-9c5/cc8/io/zenoh-link/src/a.rs:10:1:",
            "zenoh-link/src/a.rs:10",
        ),
        ("thread 'a' panicked at /x/slab-0.4.11/src/lib.rs:7:9: invalid key", "slab/src/lib.rs:7"),
        ("thread 'a' panicked at 'it failed', src/lib.rs:12:5", "src/lib.rs:12"),
        ("thread 'a' panicked at /rustc/0f1e2d/library/core/src/cell.rs:3:1:", "core/src/cell.rs:3"),
        ("thread 'rx-0' has overflowed its stack fatal runtime error: stack overflow", "fatal runtime error"),
        ("memory allocation of 99 bytes failed", "memory allocation"),
        (
            'Traceback (most recent call last): File "/srv/a/session.py", line 8, in on_x KeyError: 7',
            "session.py:8",
        ),
        (
            "panic: runtime error: index out of range [9] /srv/build/node/session.go:214 +0x1d",
            "session.go:214",
        ),
        (
            "==7==ERROR: AddressSanitizer: x; SUMMARY: AddressSanitizer: x /build/src/message.c:512:9 in decode",
            "message.c:512",
        ),
        ("/build/src/core.c:61:22: runtime error: shift exponent 70 is too large", "core.c:61"),
        (
            "SUMMARY: AddressSanitizer: heap-use-after-free (/build/node+0x26b) (BuildId: 0ab) in read_key",
            "node:read_key",
        ),
        ("node: codec.c:93: read_vle: Assertion `len <= 9' failed.", "codec.c:93"),
        ("something else", ""),
    ],
)
def test_place_has_no_prefix_version_or_column(said: str, place: str) -> None:
    assert place_of(said) == place


def test_a_file_may_be_called_as_a_library_is() -> None:
    assert in_file("core.c:61")
    assert not in_file("core/src/cell.rs:3")
