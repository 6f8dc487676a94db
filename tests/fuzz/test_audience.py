from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.audience import LINK, attended
from fuzz.cases import reach, send
from fuzz.findings import CONFIRMED
from fuzz.lab import Lab
from fuzz.oracles import Harm, Objection
from fuzz.script import Do, Script, Step
from fuzz.states import State
from fuzz.triage import Suspect, Triage
from fuzz.triage.attribution import Attribution
from scapy_layers.batch import contents
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame
from tests.fuzz.fakes import FakeNode, config_in
from tests.fuzz.hospital import suspect

HEAD = bytes(Frame(R=1, sn=0))[:1]


def pushes(data: bytes) -> Step:
    return send("size", HEAD, "sn", bytes(Push(key_suffix="a/b", body=Put(data=data))))


def case(number: int, data: bytes) -> Suspect:
    """A case that publishes something in a session."""
    step = pushes(data)
    script = Script((Step(Do.REACH, "a", State.OPEN), step))
    return Suspect(suspect(number, data).numbered, (step,), script, number, State.OPEN)


class HandingOn(FakeNode):
    """A node that dies when it hands something on: it needs somebody who wants it, and what it cannot bear."""

    def __init__(self) -> None:
        super().__init__(self._takes)
        self._wanted = False

    def _takes(self, batch: bytes) -> str:
        self._wanted |= b"**" in batch
        return "die" if self._wanted and b"bad" in batch else ""

    def start(self) -> None:
        self._wanted = False
        super().start()

    def variant(self, **config: object) -> HandingOn:  # noqa: ARG002
        return HandingOn()


@pytest.mark.parametrize("harm", [Harm.CRASH, Harm.DISTURBED])
def test_what_kills_a_node_when_it_hands_it_on_is_laid_on_the_case_that_was_handed_on(
    tmp_path: Path, harm: Harm
) -> None:
    """Who wanted it was a session that had been there for long."""
    config = replace(config_in(tmp_path / "run"), time_scale=0.3)
    node = HandingOn()
    suspects = [*(case(number, b"good") for number in range(1, 9)), case(9, b"bad"), case(10, b"good")]
    with Lab(config, node) as lab:
        triage = Triage(config, node, lab)
        finding = triage.found(Objection("process", harm, "", "the process died of SIGSEGV"), suspects)
        # What a node bears may be the work of a subscriber that does not read.
        assert (finding.status == CONFIRMED) is (harm is Harm.CRASH)
        if finding.status == CONFIRMED:
            assert (finding.case, finding.confirmed) == (9, (3, 3))
            assert (finding.script.sends, finding.script.steps[-1]) == (2, pushes(b"bad"))
            triage.minimise(finding, 5)
            assert {step.link for step in finding.script.steps} == {LINK, "a"}


def test_the_last_case_is_handed_on_before_all_others_are_played(tmp_path: Path) -> None:
    config = replace(config_in(tmp_path / "run"), time_scale=0.3)
    suspects = [*(case(number, b"good") for number in range(1, 100)), case(100, b"bad")]
    with Lab(config, HandingOn()) as lab:
        finding = Triage(config, HandingOn(), lab).found(
            Objection("process", Harm.CRASH, "", "it died"), suspects
        )
        assert (finding.case, finding.confirmed) == (100, (3, 3))
        # Alone, with others handed on, alone handed on, that twice more, and whether it needs a case at all.
        assert lab.tries == 6


class WantingTwo(HandingOn):
    """It takes two that are handed on."""

    def _takes(self, batch: bytes) -> str:
        self._bad |= {word for word in (b"bad", b"worse") if word in batch}
        self._wanted |= b"**" in batch
        return "die" if self._wanted and len(self._bad) == 2 else ""

    def start(self) -> None:
        self._bad: set[bytes] = set()
        super().start()

    def variant(self, **config: object) -> HandingOn:  # noqa: ARG002
        return WantingTwo()


def test_what_only_several_that_are_handed_on_do_is_not_laid_on_the_last_of_them(tmp_path: Path) -> None:
    config = replace(config_in(tmp_path / "run"), time_scale=0.3)
    suspects = [case(1, b"bad"), case(2, b"worse"), case(3, b"good")]
    with Lab(config, WantingTwo()) as lab:
        finding = Triage(config, WantingTwo(), lab).found(
            Objection("process", Harm.CRASH, "", "it died"), suspects
        )
        assert finding.message == ""
    # What says where it failed needs no case.
    with Lab(config, WantingTwo()) as lab:
        placed = Objection("process", Harm.CRASH, "src/a.rs:3", "it died")
        assert Attribution(lab, {}, lambda _: False).culprit(placed, suspects, math.inf) is not None


@pytest.mark.parametrize("state", [State.CONNECTED, State.ACCEPTED, State.SCOUTING, State.COMPRESSED])
def test_only_to_sessions_that_we_begin_somebody_listens(state: State) -> None:
    script = Script((reach(state, "a"), pushes(b"x")))
    assert attended(script) == script


def test_audience_wants_all_there_is() -> None:
    script = Script((reach(State.DECLARED, "a"), pushes(b"x")), (("a/b", 1),))
    made = attended(script)
    assert made.where == script.where
    assert made.steps[-2:] == script.steps
    (said,) = (step for step in made.steps if step.do is Do.SEND and step.link == LINK)
    inside = contents(said.data.fill({"sn": b"\x01"})[2:])
    assert not inside.error
    assert inside.names.split() == ["FRAME", "DECLARE", "D_SUBSCRIBER", "DECLARE", "D_QUERYABLE", "INTEREST"]
    assert [declare.body.key_suffix for declare in inside.messages[0].messages[:2]] == ["**", "**"]
