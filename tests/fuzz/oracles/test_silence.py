"""What is owed to links on which nothing is said, on the planted node; limits are shorter where it never comes."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz import standalone
from fuzz.lab import Lab, Tried
from fuzz.oracles import Harm, When
from fuzz.oracles.vigil import IDLE, OWED, lease_of
from fuzz.player import NotReached, Player
from fuzz.regression import fails_on
from fuzz.script import Script
from scapy_layers.batch import prefixed
from scapy_layers.message import Message
from scapy_layers.network import ResponseFinal
from scapy_layers.transport import Close, KeepAlive, Open
from tests.fuzz.oracles.router import RouterNode, Session, patient_of
from tests.fuzz.planted import FAULTS, command

END = "end of a silent session"


def waited_for(folder: Path, place: str, *faults: str) -> Tried:
    """Plays what sets off a fault, and waits for what is owed."""
    config = RunConfig(node=command(*faults), run_dir=folder, run_id="planted", seed=1)
    script = FAULTS[faults[0]].trigger if faults else Script(())
    with Lab(config, node_of(config), seats=1) as lab, lab.waiting_for(Harm.OVERDUE, place):
        return lab.play(script)


@pytest.mark.parametrize(
    ("fault", "place"),
    [("mumble", "KEEP_ALIVE"), ("faithful", END), ("keep", IDLE[0]), ("keep", IDLE[1]), ("hold", IDLE[2])],
)
def test_node_that_never_gives_what_it_owes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, place: str
) -> None:
    monkeypatch.setitem(OWED, place, replace(OWED[place], seconds=0.5))
    objection = waited_for(tmp_path, place, fault).objection
    assert objection is not None
    assert (objection.oracle, objection.harm, objection.place) == ("silence", Harm.OVERDUE, place)


@pytest.mark.parametrize("place", ["KEEP_ALIVE", END, IDLE[2]])
def test_node_that_is_well_gives_it(tmp_path: Path, place: str) -> None:
    assert waited_for(tmp_path, place).objection is None


def test_of_links_without_a_session_one_is_open_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    with RouterNode() as node, patient_of(node) as patient:
        vigil = patient.vigil
        assert vigil is not None
        asked: list[str] = []

        def is_given(place: str) -> bool:
            asked.append(place)
            return place in IDLE

        monkeypatch.setattr(vigil, "is_given", is_given)
        for _ in range(4):
            assert vigil.look() == ""
        assert [place for place in asked if place in IDLE] == [*IDLE, IDLE[0]]


def test_link_is_not_ended_by_a_close_that_answers_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    place = IDLE[2]
    monkeypatch.setitem(OWED, place, replace(OWED[place], seconds=0.5))
    with RouterNode() as node, patient_of(node) as patient:

        def answer(session: Session, message: Message) -> None:
            if isinstance(message, Close):
                session.sock.sendall(prefixed(bytes(message)))
            else:
                take(session, message)

        take = node.router._take
        monkeypatch.setattr(node.router, "_take", answer)
        objection = patient.owed(place)
        assert objection is not None
        assert objection.detail == "a link on which CLOSE was sent stays open"


@pytest.mark.parametrize("place", OWED)
def test_link_that_could_not_be_begun_is_owed_nothing(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    begin = OWED[place].begin

    def broken(player: Player, name: str) -> None:
        begin(player, name)
        raise NotReached("expected OPEN, got nothing within 1 s")

    with RouterNode() as node, patient_of(node) as patient:
        vigil = patient.vigil
        assert vigil is not None
        monkeypatch.setitem(OWED, place, replace(OWED[place], begin=broken, seconds=0.0))
        vigil.begin(place)
        assert vigil.look() == ""
        monkeypatch.setitem(OWED, place, replace(OWED[place], begin=begin))
        # It is begun anew.
        assert vigil.look() == ""
        assert vigil._player.links


def test_what_is_owed_may_stand_behind_what_nobody_has_read_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWED, END, replace(OWED[END], seconds=0.0))
    with RouterNode() as node, patient_of(node) as patient:
        vigil = patient.vigil
        assert vigil is not None
        vigil.begin(END)
        pipe = vigil._player.links[END]
        for number in range(3):
            node.router.say(-1, ResponseFinal(request_id=number))
        node.router.end(-1, reason=2)

        def receive_a_few_bytes() -> None:
            pipe._take(pipe.sock.recv(8))

        monkeypatch.setattr(pipe, "receive", receive_a_few_bytes)
        assert vigil.look() == ""
        assert vigil._player.links[END] is not pipe


def test_what_is_not_judged_any_more_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWED, END, replace(OWED[END], seconds=0.0))
    with RouterNode() as node, patient_of(node) as patient:
        seen = patient.examine(When.TREND, names=["silence"])
        assert seen is not None
        assert seen.place == END
        patient.unjudged = {(Harm.OVERDUE, END)}
        assert patient.vigil is not None
        patient.vigil.begin()
        assert patient.examine(When.TREND, names=["silence"]) is None


def test_lease_is_read_in_its_unit() -> None:
    assert lease_of(bytes(Open(A=1, T=1, lease=10, initial_sn=0))) == 10
    assert lease_of(bytes(Open(A=1, T=0, lease=2500, initial_sn=0))) == 2.5


@pytest.mark.parametrize(
    ("fault", "what"),
    [("faithful", "the end of a session with a lease of 1 s"), ("hold", standalone.BEHIND_CLOSE)],
)
def test_its_test_fails_until_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, what: str
) -> None:
    monkeypatch.setattr(standalone, "OWED", {what: standalone.OWED[what]})
    config = RunConfig(node=command(fault), run_dir=tmp_path, run_id="planted", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        tried = lab.play(FAULTS[fault].trigger)
    assert fails_on(command(fault), "overdue", tried)
    assert fails_on(command(), "overdue", tried) is False


def test_session_in_which_the_node_has_to_speak_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    with RouterNode() as node, patient_of(node) as patient:
        vigil = patient.vigil
        assert vigil is not None
        heard = threading.Event()
        take = node.router._take

        def taken(session: Session, message: Message) -> None:
            if isinstance(message, KeepAlive):
                heard.set()
            take(session, message)

        monkeypatch.setattr(node.router, "_take", taken)
        assert vigil.look() == ""
        assert heard.wait(60)


def test_its_test_keeps_that_session_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = socket.socketpair()
    monkeypatch.setattr(standalone, "OWED", {"KEEP_ALIVE": ((), 0.0)})
    monkeypatch.setattr(standalone, "_connected", lambda _: standalone.Link(mine))
    with mine, other:
        replay = cast("standalone.Replay", SimpleNamespace(node=None, _all=[]))
        assert "KEEP_ALIVE does not come" in standalone.Replay._overdue(replay)
        assert other.recv(1 << 10).startswith(prefixed(bytes(KeepAlive())))
