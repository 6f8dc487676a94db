"""Sessions that live through the run: what goes wrong with them, and what it is called."""

import math
import random
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from conformance.config import RunConfig
from conformance.errors import Inconclusive
from conformance.nodes import node_of
from fuzz.lab import Lab
from fuzz.oracles import Harm, Objection, Patient, Spot, When
from fuzz.oracles.besides import BESIDES, LARGE
from fuzz.oracles.canary import LEAST_LOOKS, NEGLECT_SECONDS, ODD_AGE, PROMPT, WAITING_MS, Canary
from fuzz.oracles.common import COMMON, CommonKeys
from fuzz.oracles.fresh import CALLS, EXCHANGES
from fuzz.oracles.guests import Guests
from fuzz.oracles.reading import MOST_JOINED, Joiner
from fuzz.oracles.service import Caller, Served, Step
from fuzz.oracles.trouble import Wrong
from fuzz.player import Answers, NotReached, Pipe, Played, run
from fuzz.player.answers import FENCE_ID
from fuzz.player.fitting import FRAME_R
from fuzz.regression import fails_on
from fuzz.script import Template
from fuzz.stages import stage_for
from fuzz.states import State
from scapy_layers.codes import Priority
from scapy_layers.data import Put, Reply
from scapy_layers.extensions import Lane
from scapy_layers.message import Message
from scapy_layers.network import Push, Response, ResponseFinal
from scapy_layers.transport import Fragment, Frame
from tests.fuzz.oracles.router import LONG, REPLY, Router, RouterNode, Session, patient_of
from tests.fuzz.planted import FAULTS, command

pytestmark = pytest.mark.usefixtures("unhurried")


@pytest.fixture
def node() -> Iterator[RouterNode]:
    with RouterNode() as node:
        yield node


@pytest.fixture
def patient(node: RouterNode) -> Iterator[Patient]:
    with patient_of(node) as patient:
        yield patient


def router_of(patient: Patient) -> Router:
    assert isinstance(patient.node, RouterNode)
    return patient.node.router


def objection(patient: Patient, when: When = When.ODD) -> Objection:
    seen = patient.examine(when)
    assert seen
    assert not patient.failures
    return seen


@pytest.mark.parametrize(("lease", "keep", "neglect"), [("1", 0.25, 0.5), ("10", 1.0, 3.0)])
def test_sessions_are_kept_as_often_as_the_lease_of_the_node_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lease: str, keep: float, neglect: float
) -> None:
    words = f"{shlex.quote(sys.executable)} -m conformance.refnode --listen {{locator}} --lease {lease}"
    with node_of(RunConfig(node=f"cmd:{words}", run_dir=tmp_path, run_id="run", seed=1)) as node:
        canary = Canary(node, 2.0, random.Random(1))
        canary.open()
        # However long that took, and whatever else takes time.
        canary._excused.clear()
        now = time.perf_counter()
        monkeypatch.setattr(time, "perf_counter", lambda: now)
        pipe = canary.idler
        said = canary._said_at
        for ago, kept, left in (
            (keep / 2, False, False),
            (keep * 1.1, True, False),
            (neglect * 1.1, True, True),
        ):
            said[pipe] = before = now - ago
            assert canary.neglected(pipe) is left
            canary._keep_at = 0.0
            canary.keep()
            assert (said[pipe] > before) is kept
        assert canary.neglected(pipe)
        canary.close()


def test_a_node_that_routes_has_no_objection(patient: Patient) -> None:
    assert patient.canary
    assert patient.canary.routes
    assert patient.canary.replies
    assert patient.canary.named
    assert not patient.notes
    for when in When:
        assert patient.examine(when) is None
    assert not patient.failures
    assert 0 < patient.canary.baseline < REPLY


SPOILT: dict[str, tuple[Callable[[Router], None], Wrong]] = {
    "lost": (lambda router: setattr(router, "lose", 1), Wrong.LOST),
    "silent": (lambda router: router.without.add("routes"), Wrong.SILENT),
    "changed": (lambda router: setattr(router, "alter", True), Wrong.CHANGED),
    "replaced": (lambda router: setattr(router, "replace", True), Wrong.CHANGED),
    "twice": (lambda router: setattr(router, "twice", True), Wrong.TWICE),
    "queries": (lambda router: router.without.add("queries"), Wrong.UNREPLIED),
    "replies": (lambda router: router.without.add("replies"), Wrong.NO_REPLY),
    "reply to another": (lambda router: setattr(router, "shift", 1), Wrong.REPLY_ASTRAY),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_sent_through_the_node_is_disturbed(patient: Patient, name: str) -> None:
    spoil, wrong = SPOILT[name]
    spoil(router_of(patient))
    seen = objection(patient)
    assert (seen.oracle, seen.harm, seen.place) == ("canary", Harm.DISTURBED, str(wrong))


SPOILT_FROM_THE_START: dict[str, tuple[Callable[[Router], None], Wrong]] = {
    "changed": SPOILT["changed"],
    "replaced": SPOILT["replaced"],
    "twice": SPOILT["twice"],
}


@pytest.mark.parametrize("name", SPOILT_FROM_THE_START)
def test_what_a_fresh_node_spoils_is_judged_at_the_first_look(node: RouterNode, name: str) -> None:
    spoil, wrong = SPOILT_FROM_THE_START[name]
    spoil(node.router)
    with patient_of(node) as patient:
        assert patient.canary
        assert patient.canary.routes
        assert patient.canary.replies
        assert patient.canary.baseline > 0
        assert "canary" not in patient.notes
        seen = objection(patient, When.BEAT)
        assert (seen.oracle, seen.harm, seen.place) == ("canary", Harm.DISTURBED, str(wrong))


@pytest.mark.parametrize("name", ["changed", "twice", "lost"])
def test_what_is_not_judged_any_more_hides_nothing_else(node: RouterNode, name: str) -> None:
    spoil, wrong = SPOILT[name]
    unjudged = {(Harm.DISTURBED, str(wrong))}
    with patient_of(node, unjudged) as patient:
        assert patient.canary
        spoil(node.router)
        assert patient.examine(When.ODD) is None
        before = patient.canary._number
        node.router.lose = 0
        assert patient.examine(When.ODD) is None
        assert patient.canary._number >= before + LEAST_LOOKS
        node.router.without.add("replies")
        assert objection(patient).place == Wrong.NO_REPLY


@pytest.mark.parametrize("forgets", [1, 1000])
def test_publication_of_which_a_part_is_forgotten_meanwhile_is_told(patient: Patient, forgets: int) -> None:
    assert patient.canary
    assert patient.canary.joins
    assert patient.examine(When.ODD) is None
    if not patient.canary._rest:
        patient.canary._send()
    # It has read what was begun.
    until = time.monotonic() + LONG
    while not router_of(patient).sessions[2].parts.get(1):
        assert time.monotonic() < until
    router_of(patient).forgets = forgets
    assert objection(patient).place == Wrong.UNJOINED


@pytest.mark.parametrize("abandons", [True, False])
def test_question_of_ours_is_not_in_the_midst_of_what_was_begun_in_fragments(
    patient: Patient, *, abandons: bool
) -> None:
    assert patient.canary
    assert patient.canary.joins
    if not abandons:
        router_of(patient).without.add("abandoning")
    router_of(patient).lose = 1
    patient.canary._send()
    patient.canary._overdue()
    for _ in range(3):
        assert patient.examine(When.ODD) is None


def test_publication_by_an_alias_that_is_lost_is_told(patient: Patient) -> None:
    router_of(patient).without.add("aliases")
    assert objection(patient).place == Wrong.UNNAMED


def test_reply_by_an_alias_that_is_lost_is_told(patient: Patient) -> None:
    router_of(patient).without.add("named replies")
    assert objection(patient).place == Wrong.UNNAMED_REPLY


def test_all_replies_that_are_lost_are_not_laid_on_the_alias(patient: Patient) -> None:
    router_of(patient).without.add("replies")
    places = {objection(patient).place for _ in range(2)}
    assert places == {Wrong.NO_REPLY}


def test_node_that_resolves_no_aliases_in_replies_is_not_asked_to(node: RouterNode) -> None:
    node.router.without.add("named replies")
    with patient_of(node) as patient:
        assert patient.canary
        assert (patient.canary.named, patient.canary.replies, patient.canary.named_replies) == (
            True,
            True,
            False,
        )
        assert patient.examine(When.ODD) is None


def test_node_that_knows_no_aliases_is_not_asked_to(node: RouterNode) -> None:
    node.router.without.add("aliases")
    with patient_of(node) as patient:
        assert patient.canary
        assert (patient.canary.routes, patient.canary.named) == (True, False)
        assert patient.examine(When.ODD) is None
        # What it does with one behind that is its business.
        patient.canary._arrived(patient.canary._given_up, whole=True)
        assert patient.examine(When.ODD) is None


def test_node_that_joins_no_fragments_is_not_asked_to(node: RouterNode) -> None:
    node.router.without.add("joining")
    with patient_of(node) as patient:
        assert patient.canary
        assert (patient.canary.routes, patient.canary.joins) == (True, False)
        for when in When:
            assert patient.examine(when) is None


def test_node_that_joins_fragments_late_is_given_its_time(
    node: RouterNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = node.router._join

    def slowly(session: Session, fragment: Fragment) -> None:
        time.sleep(0.3)
        join(session, fragment)

    monkeypatch.setattr(node.router, "_join", slowly)
    with patient_of(node) as patient:
        assert patient.canary
        assert patient.canary.joins


def test_reply_to_a_question_of_ours_that_others_were_handed_is_no_fault(patient: Patient) -> None:
    router_of(patient).say(1, Response(request_id=FENCE_ID, body=Reply(body=Put(data=b"x"))))
    assert patient.examine(When.ODD) is None


@pytest.mark.parametrize(("session", "number"), [(0, FENCE_ID), (1, FENCE_ID), (1, 7), (2, FENCE_ID), (2, 7)])
def test_an_answer_to_a_query_of_another_session_is_told(patient: Patient, session: int, number: int) -> None:
    router_of(patient).say(session, ResponseFinal(request_id=number))
    assert objection(patient).place == Wrong.UNASKED


SPOILT_KEY: dict[str, tuple[Callable[[Router], None], Wrong]] = {
    "dropped": (lambda router: setattr(router, "dropped", COMMON[1]), Wrong.COMMON_SILENT),
    "taken away": (lambda router: router.without.add("others"), Wrong.COMMON_SILENT),
    "altered": (lambda router: setattr(router, "altered", COMMON[1]), Wrong.COMMON_CHANGED),
    "doubled": (lambda router: setattr(router, "double", COMMON[1]), Wrong.COMMON_TWICE),
}


@pytest.mark.parametrize("name", SPOILT_KEY)
def test_a_key_that_cases_use_is_spoilt_while_all_others_are_carried(patient: Patient, name: str) -> None:
    spoil, wrong = SPOILT_KEY[name]
    assert patient.canary
    assert patient.canary.common.carried == COMMON
    assert patient.examine(When.ODD) is None
    spoil(router_of(patient))
    assert patient.examine(When.BEAT) is None
    seen = objection(patient)
    assert (seen.oracle, seen.harm, seen.place) == ("keys", Harm.DISTURBED, str(wrong))
    assert COMMON[1] in seen.detail
    assert COMMON[1] not in seen.place


def test_a_key_that_a_fresh_node_does_not_carry_is_not_judged(node: RouterNode) -> None:
    node.router.dropped = COMMON[1]
    with patient_of(node) as patient:
        assert patient.canary
        assert patient.canary.common.carried == (COMMON[0], COMMON[2])
        assert patient.examine(When.ODD) is None


def test_what_takes_a_key_from_others_at_all_times_is_judged_from_the_start(node: RouterNode) -> None:
    node.router.without.add("others")
    with patient_of(node) as patient:
        assert objection(patient).place == Wrong.COMMON_SILENT


@pytest.mark.parametrize("kept", ["ends", "ends of queryables"])
def test_what_was_taken_back_and_is_served_still_is_told_when_t1_is_over(patient: Patient, kept: str) -> None:
    assert patient.examine(When.ODD) is None
    router_of(patient).without.add(kept)
    began = time.monotonic()
    seen = objection(patient)
    assert (seen.oracle, seen.harm, seen.place) == ("keys", Harm.DISTURBED, str(Wrong.KEPT))
    assert time.monotonic() - began > patient.reply


def test_a_node_may_take_a_moment_to_see_that_a_subscriber_was_taken_back(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert patient.canary
    common, router = patient.canary.common, router_of(patient)
    seen: list[bool] = []

    def taken_back() -> None:
        if common.kept:
            seen.append(True)
            router.sessions[1].keys = {
                one: key for one, key in router.sessions[1].keys.items() if key not in COMMON
            }
        CommonKeys.taken_back(common)

    monkeypatch.setattr(common, "taken_back", taken_back)
    router.without.add("ends")
    assert patient.examine(When.ODD) is None
    assert seen


def test_subscribers_of_common_keys_are_there_for_a_moment_only(patient: Patient) -> None:
    assert patient.examine(When.ODD) is None
    assert not {key for session in router_of(patient).sessions for key in session.keys.values()} & {*COMMON}


def test_what_cases_publish_on_a_common_key_is_no_fault(patient: Patient) -> None:
    subscriber = next(at for at, one in enumerate(router_of(patient).sessions) if one.keys)
    router_of(patient).say(subscriber, Push(key_suffix=COMMON[0], body=Put(data=b"of a case")))
    assert patient.examine(When.ODD) is None
    router_of(patient).say(subscriber + 1, Push(key_suffix=COMMON[0], body=Put(data=b"of a case")))
    assert objection(patient).place == Wrong.ASTRAY


@pytest.mark.parametrize("when", [When.BEAT, When.ODD])
def test_what_another_session_publishes_for_its_key_is_not_its_own_changed(
    patient: Patient, when: When
) -> None:
    """A node may tell others of the subscriber by an alias, and a stimulus may hit upon it."""
    assert patient.canary
    publication = bytes(Push(key_suffix=patient.canary.key, body=Put(data=b"of another one")))
    player = patient.stage.player()
    pipe = player.reach(State.OPEN)
    for _ in range(3):
        pipe.send(Template.of("size", FRAME_R, "sn", publication).fill(pipe), "other")
        run(player.settle(pipe, Played()))
        assert patient.examine(when) is None
    player.leave()


def test_sessions_that_a_node_always_ends_are_opened_anew_when_that_is_not_judged(node: RouterNode) -> None:
    with patient_of(node, {(Harm.UNDUE, "end of the link")}) as patient:
        old = patient.canary
        node.router.end(0)
        assert patient.examine(When.ODD) is None
        assert patient.canary is not old
        node.router.end(next(at for at, one in enumerate(node.router.sessions) if one.keys), 6)
        assert objection(patient).place == "CLOSE UNRESPONSIVE"


def test_a_changed_publication_is_not_lost_as_well(patient: Patient) -> None:
    router_of(patient).alter = True
    assert objection(patient).place == Wrong.CHANGED
    router_of(patient).alter = False
    while (seen := patient.examine(When.ODD)) is not None:
        assert seen.place == Wrong.CHANGED


def test_publications_out_of_order_are_told_from_lost_ones(patient: Patient) -> None:
    router_of(patient).swap = True
    assert patient.canary
    patient.canary.joins, patient.canary._rest = False, b""
    patient.canary._send()
    patient.canary._seen = patient.canary._number  # as if the first had come: the next one is sent
    patient.canary._seen -= 1
    patient.canary._number += 1
    patient.canary.say(
        patient.canary.publisher, patient.canary._push + patient.canary._payload(b"p", patient.canary._number)
    )
    seen = objection(patient)
    assert seen.place == Wrong.REORDERED


def test_a_publication_for_another_key_is_told(patient: Patient) -> None:
    router_of(patient).say(1, Push(key_suffix="somebody/else", body=Put(data=b"x")))
    assert objection(patient).place == Wrong.ASTRAY


@pytest.mark.parametrize(("reason", "place"), [(None, "end of the link"), (6, "CLOSE UNRESPONSIVE")])
@pytest.mark.parametrize("session", [0, 1, 2])
def test_the_end_of_a_session_that_did_nothing_wrong_is_undue(
    patient: Patient, session: int, reason: int | None, place: str
) -> None:
    router_of(patient).end(session, reason)
    seen = objection(patient)
    assert (seen.oracle, seen.harm, seen.place) == ("undue", Harm.UNDUE, place)


@pytest.mark.parametrize("session", [0, 1, 2])
def test_a_session_that_we_left_alone_may_end(patient: Patient, session: int) -> None:
    assert patient.canary
    for pipe in patient.canary.pipes:
        patient.canary._said_at[pipe] -= 2 * NEGLECT_SECONDS
    router_of(patient).end(session, 5)
    patient.keep()
    old = patient.canary
    assert patient.examine(When.ODD) is None
    assert patient.canary is not old
    assert patient.examine(When.ODD) is None
    sessions = router_of(patient).sessions
    router_of(patient).end(next(at for at, one in enumerate(sessions) if one.keys), 5)
    assert objection(patient).harm is Harm.UNDUE


def test_a_node_without_routes_is_still_asked_in_old_sessions(node: RouterNode) -> None:
    node.router.without |= {"routes", "queries"}
    with patient_of(node) as patient:
        assert "does not forward publications" in patient.notes["canary"]
        assert patient.examine(When.ODD) is None
        node.router.without.add("served")
        seen = objection(patient)
    assert seen.harm is Harm.STALL


def test_a_beat_does_not_wait_for_what_is_late_and_says_nothing_of_it(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert patient.canary
    hear = patient.canary.hear
    waits: list[float] = []

    def counted(done: Callable[[], bool], seconds: float) -> bool:
        waits.append(seconds)
        return hear(done, seconds)

    router_of(patient).delay = 0.4
    with monkeypatch.context() as patch:
        # However long it takes us to send.
        patch.setattr(Canary, "odd_age", LONG)
        patch.setattr(patient.canary, "hear", counted)
        assert patient.examine(When.BEAT) is None
    assert waits == [PROMPT]
    router_of(patient).delay = 0.0
    assert patient.examine(When.ODD) is None


def test_a_node_that_lets_everybody_wait_for_long_is_late(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.oracles.machine._waited", lambda: 0.0)
    monkeypatch.setattr("fuzz.oracles.machine.BUSY", 2.0)
    assert patient.canary
    patient.canary.reply = LONG
    patient.canary._send()
    assert patient.canary.hear(patient.canary._complete, LONG)
    # However long it took at first.
    patient.canary.baseline = 0.0
    patient.canary._number += 1
    patient.canary._sent_at = time.perf_counter() - 3 * LONG
    late = patient.canary.later()
    assert late
    assert late.wrong is Wrong.LATE


@pytest.mark.parametrize("reliable", [True, False])
def test_numbers_are_followed_in_batches_of_any_form(patient: Patient, reliable: bool) -> None:
    birds = patient.canary
    assert birds
    final = ResponseFinal(request_id=5)

    def put(number: int) -> Push:
        return Push(key_suffix=birds.key, body=Put(data=birds._payload(b"p", number)))

    def batch(*numbers: int, inside: Message) -> bytes:
        return b"".join(bytes(Frame(R=int(reliable), sn=sn, messages=[inside])) for sn in numbers)

    urgent = bytes(Frame(R=1, sn=3, extensions=[Lane(priority=Priority.REAL_TIME)], messages=[final]))
    in_turn = [
        batch(7, inside=final),
        batch(8, inside=put(1)),
        batch(9, 10, inside=final),
        batch(11, 12, inside=put(2)),
        urgent,
        batch(13, inside=put(3)),
        b"",
        b"\x25",
        b"\x25\xff\xff",
        bytes(Frame(R=int(reliable), sn=14, messages=[put(4), final])),
        # As long as that one.
        batch(15, inside=put(5)) + bytes(Frame(R=int(reliable), sn=16)),
        batch(17, inside=final),
    ]
    pipe = birds.idler
    birds._numbering._consecutive.clear()
    birds._uncounted = [(pipe, one) for one in in_turn]
    birds._count()
    assert not birds._wrong
    for late in (batch(19, inside=final), batch(21, inside=put(6)), batch(22, 24, inside=put(7))):
        birds._uncounted = [(pipe, late)]
        # What came last is looked at as well.
        trouble = birds.trouble()
        assert (trouble.wrong if trouble else None) == (Wrong.MISNUMBERED if reliable else None), late


@pytest.mark.parametrize("busy", [False, True])
def test_a_query_that_we_served_too_late_needs_no_reply(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    monkeypatch.setattr("fuzz.oracles.machine.BUSY", -1.0 if busy else math.inf)
    birds = patient.canary
    assert birds
    router_of(patient).without.add("replies")
    # On a busy machine a reply is looked for until long after the node has given the query up.
    birds.reply = 0.6 * WAITING_MS / 1000
    birds._send()
    birds._query_at -= WAITING_MS / 1000
    assert birds.trouble() is None
    birds._send()
    birds._query_at -= 2 * ODD_AGE
    missed = birds.trouble()
    assert missed
    assert missed.wrong is Wrong.NO_REPLY


def test_a_query_that_the_node_had_to_give_up_needs_no_reply(patient: Patient) -> None:
    birds = patient.canary
    assert birds
    router_of(patient).without.add("replies")
    birds._send()
    assert birds.hear(lambda: birds._queried == birds._query, REPLY)
    # We have replied in time, and nobody answers anything until now.
    birds._query_at -= WAITING_MS / 1000
    assert birds.trouble() is None
    birds._send()
    assert birds.hear(lambda: birds._queried == birds._query, REPLY)
    birds._query_at -= 2 * ODD_AGE
    missed = birds.trouble()
    assert missed
    assert missed.wrong is Wrong.NO_REPLY


def test_sessions_are_kept_alive(patient: Patient) -> None:
    assert patient.canary
    patient.canary._keep = 0.0
    before = [patient.canary._said_at[pipe] for pipe in patient.canary.pipes]
    patient.canary._keep_at = 0.0
    patient.keep()
    assert all(
        patient.canary._said_at[pipe] > at for pipe, at in zip(patient.canary.pipes, before, strict=True)
    )


def test_a_canary_that_could_not_be_opened_is_opened_later(node: RouterNode) -> None:
    node.router.without.add("init")
    with patient_of(node) as patient:
        assert "INIT" in patient.notes["canary"]
        node.router.without.clear()
        assert patient.examine(When.ODD) is None
        assert patient.canary
        assert not patient.notes


def test_node_that_takes_one_session_at_a_time_is_not_judged(node: RouterNode) -> None:
    node.router.without.add("beside")
    with pytest.raises(Inconclusive, match="one session at a time"), patient_of(node, reply=LONG):
        pass


def test_node_that_sees_late_that_its_session_has_ended_takes_one_at_a_time(
    node: RouterNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.router.without.add("beside")
    caller = Caller(node, LONG, Answers())
    call, refused = caller.call, Served(Step.OPEN, why="it has not seen the end of the last one")
    looks = iter([refused])
    monkeypatch.setattr(caller, "call", lambda reply: next(looks, None) or call(reply))
    assert caller.crowded(LONG)


def test_node_that_has_not_seen_the_end_of_the_canary_takes_one_at_a_time(
    node: RouterNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.router.without.add("beside")
    caller = Caller(node, LONG, Answers())
    reach, tries = caller._player.reach, iter([NotReached("it has not seen the end of the last one")])

    def late(state: State, name: str = "") -> Pipe:
        for refused in tries:
            raise refused
        return reach(state, name)

    monkeypatch.setattr(caller._player, "reach", late)
    assert caller.crowded(LONG)


def test_what_a_node_that_carries_nothing_publishes_of_its_own_disturbs_nobody(node: RouterNode) -> None:
    node.router.without |= {"routes", "queries"}
    with patient_of(node) as patient:
        router_of(patient).say(1, Push(key_suffix="somebody/else", body=Put(data=b"x")))
        assert patient.examine(When.ODD) is None


def test_message_that_a_node_never_ends_takes_a_bounded_part_of_the_memory() -> None:
    joiner, pipe = Joiner(Answers()), cast("Pipe", object())
    part = Answers().read(bytes(Fragment(R=1, M=1, sn=1, data=bytes(1 << 15))), 0)
    for _ in range(2 * MOST_JOINED >> 15):
        assert joiner.take(pipe, part) == []
    assert [len(kept) for kept in joiner._parts.values()] == [MOST_JOINED]


def roomy() -> RouterNode:
    """Returns a node that carries large publications."""
    node = RouterNode()
    start = node.start

    def started() -> None:
        start()
        node.router.largest = 1 << 20

    node.start = started  # type: ignore[method-assign]
    return node


@pytest.mark.parametrize(
    ("spoil", "wrong"),
    [("largest", Wrong.LARGE_LOST), ("alters_from", Wrong.LARGE_CHANGED)],
)
def test_publications_that_are_large_arrive(spoil: str, wrong: Wrong) -> None:
    with roomy() as node, patient_of(node) as patient:
        canary = patient.canary
        assert canary is not None
        # It has agreed on no lanes.
        assert canary.besides == [*range(len(LARGE))]
        for _ in LARGE:
            assert patient.examine(When.ODD, names=["canary"]) is None
        setattr(node.router, spoil, 1 << 16)
        seen = [patient.examine(When.ODD, names=["canary"]) for _ in LARGE]
        (objection,) = {(one.harm, one.place) for one in seen if one is not None}
        assert objection == (Harm.DISTURBED, wrong)
        # One of them has each size.
        assert sum(one is not None for one in seen) == sum(one.size > 1 << 16 for one in LARGE)
        patient.thorough = True
        assert all(patient.examine(When.ODD, names=["canary"]) for _ in LARGE)


@pytest.mark.parametrize("owned", [True, False])
def test_after_trouble_only_a_node_that_nobody_starts_anew_gets_a_fresh_canary(owned: bool) -> None:
    node = RouterNode()
    node.owned = owned
    with node, patient_of(node) as patient:
        before = patient.canary
        assert before is not None
        router_of(patient).say(1, ResponseFinal(request_id=FENCE_ID))
        assert objection(patient).place == Wrong.UNASKED
        assert (patient.canary is before) is owned
        assert patient.canary is not None
        assert {pipe.ended for pipe in (before.publisher, before.subscriber)} == {"" if owned else "closed"}


def test_what_one_process_carried_is_not_tried_on_the_next() -> None:
    with roomy() as node, patient_of(node) as patient:
        patient.close_canary()
        # None of it would arrive.
        node.router.largest = 1 << 16
        node.router.dropped = COMMON[0]
        node.router.without |= {"aliases", "named replies", "joining"}
        patient.open_canary()
        canary = patient.canary
        assert canary is not None
        assert canary.besides == [*range(len(LARGE))]
        assert (canary.named, canary.named_replies, canary.joins) == (True, True, True)
        assert canary.common.carried == COMMON


def test_a_further_process_is_known_soon_and_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guests, wrong = [0], Guests.wrong

    def counted(self: Guests, *, at_once: bool = True) -> Wrong | None:
        guests[0] += 1
        return wrong(self, at_once=at_once)

    monkeypatch.setattr(Guests, "wrong", counted)
    config = RunConfig(node="ref", run_dir=tmp_path, run_id="run", seed=1)
    with node_of(config) as node:
        patient = Patient(stage_for("", node, config), config.reply)
        said, known = [], []
        for first in (True, False):
            guests[0] = 0
            patient.begin()
            assert guests[0] == first
            canary = patient.canary
            assert canary is not None
            said.append(canary.trace.end)
            known.append(
                (
                    canary.named,
                    canary.named_replies,
                    canary.joins,
                    canary.guests.tokens,
                    canary.besides,
                    canary.common.carried,
                )
            )
            paces = patient.exchange, patient.opening, patient.declaring
            assert [len(pace.baseline) for pace in paces] == [EXCHANGES, CALLS, CALLS]
            assert canary.look(every=True) is canary.look_at_common() is canary.look_at_tokens() is None
        patient.close()
    assert known[0] == known[1] == (True, True, True, True, [*range(len(BESIDES))], COMMON)
    assert 4 * said[1] < said[0]


def test_sizes_that_a_fresh_node_does_not_carry_are_not_asked_for() -> None:
    with RouterNode() as node, patient_of(node) as patient:
        canary = patient.canary
        assert canary is not None
        assert canary.besides == []
        assert patient.examine(When.ODD, names=["canary"]) is None


@pytest.mark.parametrize("lost", [False, True])
def test_publications_of_all_priorities_arrive(tmp_path: Path, lost: bool) -> None:
    config = RunConfig(node="ref", run_dir=tmp_path, run_id="run", seed=1)
    with node_of(config) as node, closing(Canary(node, config.reply, random.Random())) as canary:
        canary.open()
        assert canary.besides == [*range(len(BESIDES))]
        assert canary.look(every=True) is None
        if lost:
            # As if the node had heard that number before.
            canary._lanes[Priority.BACKGROUND] -= 2
            trouble = canary.look(every=True)
            assert trouble is not None
            assert (trouble.wrong, trouble.detail) == (
                Wrong.UNRANKED,
                "a publication of priority BACKGROUND does not arrive although sessions are answered; others do",
            )
        assert canary.trouble() is None


def test_lab_finds_again_what_shows_at_large_payloads_only(tmp_path: Path) -> None:
    config = RunConfig(node=command("coarse"), run_dir=tmp_path, run_id="planted", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        tried = lab.play(FAULTS["coarse"].trigger)
    assert tried.objection is not None
    assert (tried.objection.harm, tried.objection.place) == (Harm.DISTURBED, Wrong.LARGE_CHANGED)
    assert fails_on(command("coarse"), "disturbed", tried)
    assert fails_on(command(), "disturbed", tried) is False


def test_large_publication_that_a_fresh_node_alters_is_told() -> None:
    node = roomy()
    start = node.start

    def started() -> None:
        start()
        node.router.alters_from = 5000

    node.start = started  # type: ignore[method-assign]
    with node, patient_of(node) as patient:
        objection = patient.examine(When.ODD, names=["canary"])
        assert objection is not None
        assert objection.place == Wrong.LARGE_CHANGED


def test_what_harms_a_fresh_node_is_not_published_again(tmp_path: Path) -> None:
    config = RunConfig(node=command("stout"), run_dir=tmp_path, run_id="planted", seed=1)
    unjudged: dict[Spot, str] = {}
    carried = []
    for _ in range(2):
        with (
            node_of(config) as node,
            closing(Canary(node, config.reply, random.Random(), unjudged)) as canary,
        ):
            canary.open()
            carried.append((canary.besides[:2], canary.gone is None))
    assert carried == [([0, 1], False), ([0, 1], True)]
