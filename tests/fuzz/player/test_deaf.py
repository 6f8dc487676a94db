"""Sessions in which nothing is answered any more, told from those in which that is no wonder."""

from __future__ import annotations

import random
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.config import Locator, RunConfig
from conformance.nodes import node_of
from conformance.tester import Fencing
from fuzz.campaigns import CAMPAIGNS, Setting
from fuzz.cases import reach, send
from fuzz.lab import Lab
from fuzz.oracles import Harm
from fuzz.phrases import act, init, listen, opening
from fuzz.player import Ending, Initiator, Pipe, Played, Player, run
from fuzz.player.pipe import FIRST_SN
from fuzz.player.player import HEARING, IN_VAIN, is_whole, questions_of
from fuzz.player.tasks import Task
from fuzz.regression import fails_on, flat
from fuzz.script import Do, Script, Step, Template
from fuzz.states import State
from scapy_layers.primitives import Reader, write_vle
from scapy_layers.transport import Frame, KeepAlive
from tests.fuzz.fakes import Server
from tests.fuzz.planted import FAULTS, command, planted

REPLY = 0.3
"""Seconds for what never comes."""

LONG = 30.0
"""Seconds for what comes."""

MUTE = b"mute"
BEST_EFFORT, RELIABLE = (bytes(Frame(R=reliable, sn=0))[:1] for reliable in (0, 1))


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(lambda batch: "mute" if MUTE in batch else "")
    yield made
    made.close()


class Patient(Player):
    """Waits for what is owed by any node, a session, as long as it takes, and then so long as it was told.

    Args:
        reply: T1 of what is asked at the end, in seconds.
    """

    def __init__(self, port: int, reply: float = REPLY) -> None:
        super().__init__(Initiator(Locator("tcp", "127.0.0.1", port)), LONG)
        self._later = reply

    def conclude(self, played: Played) -> Task[None]:
        self.reply = self._later
        yield from super().conclude(played)


def in_session(port: int, *steps: Step, reply: float = REPLY) -> tuple[Ending, bool]:
    """Plays steps in a session; returns what became of them, and whether nothing was answered any more."""
    player = Patient(port, reply)
    played = player.play(Script((reach(State.OPEN, "a"), *steps)))
    assert not played.failure
    return played.ending, played.deaf


def test_node_that_answers_nothing_behind_a_whole_batch_is_deaf(server: Server) -> None:
    assert in_session(server.port, send("size", bytes(KeepAlive()), MUTE)) == (Ending.SILENT, True)
    assert in_session(server.port, send("size", bytes(KeepAlive())), reply=LONG) == (Ending.ACCEPTED, False)


@pytest.mark.parametrize(("how", "deaf"), [("babble", False), ("idle", True)])
def test_node_that_still_says_something_else_is_not_deaf_unless_it_only_shows_that_it_lives(
    how: str, deaf: bool
) -> None:
    server = Server(lambda batch: how if MUTE in batch else "")
    try:
        assert in_session(server.port, send("size", bytes(KeepAlive()), MUTE))[1] is deaf
    finally:
        server.close()


def test_node_that_drops_what_may_be_dropped_is_not_deaf() -> None:
    server = Server(lambda batch: "congested" if MUTE in batch else "")
    try:
        assert in_session(server.port, send("size", bytes(KeepAlive()), MUTE)) == (Ending.ACCEPTED, False)
    finally:
        server.close()


@pytest.mark.parametrize(("times", "deaf"), [(3, True), (150, False)])
def test_node_that_has_much_to_do_on_other_links_is_not_deaf(
    server: Server, times: int, *, deaf: bool
) -> None:
    much = Step(Do.SEND, "b", data=Template.of("size", bytes(KeepAlive()) * 1000), times=times)
    mute = send("size", bytes(KeepAlive()), MUTE)
    assert in_session(server.port, reach(State.OPEN, "b"), much, mute)[1] is deaf


def test_node_that_still_computes_for_a_link_is_not_deaf_there(server: Server) -> None:
    player = Patient(server.port)
    asked: list[bool] = []

    def computes() -> bool:
        asked.append(any(pipe.finished for pipe in player.links.values()))
        return True

    player.at_work = computes
    played = player.play(Script((reach(State.OPEN, "a"), send("size", bytes(KeepAlive()), MUTE))))
    assert (played.ending, played.deaf) == (Ending.SILENT, False)
    assert asked == [False]


def test_node_that_has_come_to_rest_because_it_is_done_with_a_link_is_not_deaf_there() -> None:
    server = Server(lambda batch: "mute" if MUTE in batch else "")
    player = Patient(server.port)

    def is_done() -> bool:
        server.close()
        return False

    player.at_work = is_done
    played = player.play(Script((reach(State.OPEN, "a"), send("size", bytes(KeepAlive()), MUTE))))
    assert not played.deaf


def test_of_many_sessions_that_go_on_in_vain_only_the_first_are_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = Patient(server.port)
    waits: list[float] = []
    await_it = player._await

    def counted(pipe: Pipe, wanted: int | None, seconds: float) -> Task[bool]:
        waits.append(seconds)
        return await_it(pipe, wanted, 0.01)

    monkeypatch.setattr(player, "_await", counted)
    played = Played()
    for name in "abcde":
        mute = send("size", bytes(KeepAlive()), MUTE, link=name)
        run(player.steps((reach(State.OPEN, name), mute, act(Do.SETTLE, name)), played))
    assert waits == [LONG] * IN_VAIN + [HEARING] * 2
    monkeypatch.setattr(player, "_await", await_it)
    player.patience = LONG
    run(player.steps((reach(State.OPEN, "f"), act(Do.SETTLE, "f")), played))
    assert played.in_vain == 5
    player.leave()


def test_node_that_answers_after_all_is_not_deaf() -> None:
    server = Server(lambda batch: "late" if MUTE in batch else "")
    try:
        assert in_session(server.port, send("size", bytes(KeepAlive()), MUTE)) == (Ending.ACCEPTED, False)
    finally:
        server.close()


@pytest.mark.parametrize("size", [1 << 8, (1 << 16) - 1])
def test_node_that_waits_for_the_rest_of_a_batch_is_not_deaf(server: Server, size: int) -> None:
    assert in_session(server.port, send(size.to_bytes(2, "little"), MUTE)) == (Ending.SILENT, False)


def test_numbers_that_were_spoiled_make_nobody_deaf(tmp_path: Path) -> None:
    config = RunConfig(node="ref", run_dir=tmp_path, run_id="run", seed=1)
    ahead = write_vle(FIRST_SN + (1 << 26))
    with node_of(config) as node:
        spoiled = in_session(
            node.locator.port, send("size", BEST_EFFORT, ahead), send("size", RELIABLE, ahead)
        )
    assert spoiled == (Ending.ACCEPTED, False)


@pytest.mark.parametrize("last", [0, 1, 1 << 12, 1 << 27, (1 << 28) - 1])
def test_of_the_numbers_asked_with_one_is_behind_the_last_one_read(last: int) -> None:
    asked = [
        Reader(question.fill({})[3:]).vle()
        for question in questions_of(Fencing.QUERY, State.OPEN, (5, 7), (1 << 32) - 1)
    ]
    for lane in (asked[::2], asked[1::2]):
        assert any(0 < (number - last) % (1 << 28) < 1 << 27 for number in lane)


@pytest.mark.parametrize(
    ("data", "whole"),
    [(b"", True), (b"\0\0", True), (b"\x01\0a\x02\0bc", True), (b"\x02\0a", False), (b"\x01\0a\x01", False)],
)
def test_batches_are_whole_when_nothing_is_missing(data: bytes, *, whole: bool) -> None:
    assert is_whole(data, 2) is whole


def test_a_deaf_session_is_a_finding_whose_test_fails_until_it_is_mended(tmp_path: Path) -> None:
    config = RunConfig(node=command("mute"), run_dir=tmp_path, run_id="planted", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        tried = lab.play(FAULTS["mute"].trigger)
    assert tried.objection is not None
    assert (tried.objection.oracle, tried.objection.harm) == ("deaf", Harm.DEAF)
    assert flat(tried)[-1]["again"]
    assert fails_on(command("mute"), "deaf", tried)
    assert fails_on(command(), "deaf", tried) is False
    said = next(piece for piece in reversed(FAULTS["mute"].trigger.steps[-1].data.pieces) if piece != "sn")
    assert isinstance(said, bytes)
    for how, deaf in (("mute", True), ("idle", True), ("babble", False)):
        server = Server(lambda batch, how=how: how if said in batch else "")  # type: ignore[misc]
        try:
            assert fails_on(f"tcp/127.0.0.1:{server.port}", "deaf", tried) is deaf
        finally:
            server.close()


@pytest.mark.parametrize("bits", [8, 16])
def test_numbers_of_ours_stay_in_the_range_that_a_node_has_agreed_to(tmp_path: Path, bits: int) -> None:
    command = f"cmd:{shlex.quote(sys.executable)} -m conformance.refnode --listen {{locator}} --fsn {bits}"
    config = RunConfig(node=command, run_dir=tmp_path, run_id="run", seed=1)
    with node_of(config) as node:
        many = send("size", RELIABLE, "sn", times=200)
        assert in_session(node.locator.port, many, reply=LONG) == (Ending.ACCEPTED, False)


@pytest.mark.parametrize(("size", "deaf"), [(0, False), (31, False), (32, True)])
def test_node_that_has_agreed_to_batches_without_room_for_an_answer_is_not_deaf(
    server: Server, size: int, deaf: bool
) -> None:
    player = Patient(server.port)
    steps = (init(batch_size=size), listen(), opening(), listen(), send("size", bytes(KeepAlive()), MUTE))
    played = player.play(Script((reach(State.CONNECTED, "a"), *steps)))
    assert (played.failure, played.deaf) == ("", deaf)


def test_question_that_was_given_up_and_is_answered_later_tells_how_long_the_node_was_silent(
    tmp_path: Path,
) -> None:
    token = FAULTS["freeze"].trigger.steps[-1]
    script = Script(
        (reach(State.OPEN, "a"), reach(State.OPEN, "b"), replace(token, link="b"), Step(Do.SETTLE, "a"))
    )
    with planted(tmp_path, "freeze") as node:
        played = Player(Initiator(node.locator), 2.0).play(script)
    assert played.late > 1.0
    assert not played.torn


@pytest.mark.parametrize("source", ["links that stop in the middle", "peers that do not read"])
def test_node_is_asked_on_one_link_while_it_could_wait_for_another(source: str) -> None:
    made = [one for campaign in ("framing", "state") for one in CAMPAIGNS[campaign].make(Setting(1))]
    (found,) = (one for one in made if one.name == source)
    settled = [
        [index for index, step in enumerate(case.steps) if step.do is Do.SETTLE]
        for case in found.cases(random.Random(1))
    ]
    asked = [
        case
        for case, places in zip(found.cases(random.Random(1)), settled, strict=True)
        if places and case.steps[places[-1]].link != case.steps[places[-1] - 1].link
    ]
    assert asked
