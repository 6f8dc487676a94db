"""Sessions in which all is valid are not ended."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.campaigns.valid import CAMPAIGN, Speaker
from fuzz.cases import reach, send
from fuzz.fast import Ran
from fuzz.findings import Finding
from fuzz.lab import Lab
from fuzz.oracles import ORACLES, Harm, Patient
from fuzz.phrases import batch, listen
from fuzz.plan import Numbered
from fuzz.player import Answers, Played
from fuzz.regression import fails_on
from fuzz.runner import _suspect
from fuzz.script import Do, Script, Step
from fuzz.sequences import Made
from fuzz.states import State
from fuzz.triage.smaller import minimise
from fuzz.triage.suspects import Suspect, joined
from scapy_layers.codes import CloseReason
from scapy_layers.data import Del, Put
from scapy_layers.declarations import DeclareToken
from scapy_layers.network import Push
from scapy_layers.transport import Close
from tests.fuzz.planted import FAULTS, command, declared, in_session, said

RUDE = FAULTS["rude"].trigger
ANY: Any = None


@pytest.fixture
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    config = RunConfig(node=command(*request.param), run_dir=tmp_path, run_id="planted", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        yield lab


@pytest.mark.parametrize("lab", [["rude"]], indirect=True)
def test_end_of_a_valid_session_is_a_finding_whose_test_fails_until_it_is_mended(lab: Lab) -> None:
    tried = lab.play(RUDE)
    assert tried.objection is not None
    assert (tried.objection.oracle, tried.objection.harm) == ("valid", Harm.UNDUE)
    assert tried.objection.place == "CLOSE GENERIC"
    assert fails_on(command("rude"), "undue", tried)
    assert fails_on(command(), "undue", tried) is False
    # Of a script of which nobody says that it is valid nothing is known.
    assert lab.play(replace(RUDE, valid=False)).objection is None


@pytest.mark.parametrize("lab", [["rude"]], indirect=True)
def test_any_link_of_a_case_may_be_the_one(lab: Lab) -> None:
    two = in_session(declared(DeclareToken(entity_id=1, key_suffix="fuzz/t"), "b")).steps
    tried = lab.play(RUDE.with_steps((*RUDE.steps, *two)))
    assert tried.objection is not None
    assert tried.objection.harm is Harm.UNDUE


@pytest.mark.parametrize("lab", [[]], indirect=True)
def test_a_node_that_is_well_ends_none(lab: Lab) -> None:
    assert lab.play(RUDE).objection is None


@pytest.mark.parametrize("lab", [[]], indirect=True)
def test_our_own_end_is_none_of_the_node(lab: Lab) -> None:
    ended = RUDE.with_steps((*RUDE.steps, Step(Do.FINISH)))
    assert lab.play(ended).objection is None


@pytest.mark.parametrize("lab", [[]], indirect=True)
def test_what_is_sent_without_an_answer_that_it_needs_is_not_valid(lab: Lab) -> None:
    """The link is told nothing more: the second INIT is not answered."""
    script = replace(in_session(listen()), valid=True)
    tried = lab.play(script)
    assert not tried.played.valid
    assert lab.play(replace(in_session(batch(Close())), valid=True)).played.valid


def judged(*closes: int | None, **fields: bool) -> bool:
    """Tells whether the oracle would look into a case that ended so; a patient that is asked anything fails."""
    answers = [Answers().read(bytes(Close(reason=reason)), 0) for reason in closes if reason is not None]
    played = Played(answers=answers, **fields)  # type: ignore[arg-type]
    try:
        ORACLES["valid"].look(cast("Patient", None), played)
    except AttributeError:
        return True
    return False


def test_only_the_end_of_a_valid_session_counts() -> None:
    assert judged(CloseReason.GENERIC, valid=True, session_ended=True)
    assert judged(valid=True, session_ended=True, by_itself=True)
    assert not judged(CloseReason.GENERIC, valid=False, session_ended=True)
    assert not judged(CloseReason.GENERIC, valid=True)
    assert not judged(CloseReason.EXPIRED, valid=True, session_ended=True)


@pytest.mark.parametrize("lab", [[]], indirect=True)
def test_who_takes_no_session_ends_none(lab: Lab) -> None:
    """A node that is full answers INIT with CLOSE; `ping` looks at that."""
    version = replace(in_session(), valid=True).with_steps((*FAULTS["fds"].trigger.steps, listen()))
    tried = lab.play(version)
    assert tried.played.by_itself or tried.played.close is not None
    assert not tried.played.session_ended
    assert tried.objection is None


@pytest.mark.parametrize("lab", [[]], indirect=True)
def test_batch_that_is_larger_than_was_agreed_is_not_valid(lab: Lab) -> None:
    large = send("size", b"\x25", "sn", bytes(Push(key_suffix="fuzz/k", body=Put(data=bytes(50_000)))))
    tried = lab.play(replace(in_session(large), valid=True))
    assert not tried.played.valid


def test_cases_that_stand_together_are_valid_if_all_are() -> None:
    good, bad = (Suspect(ANY, (), Script((), valid=valid), 1, State.OPEN) for valid in (True, False))
    assert joined([good, good]).valid
    assert not joined([good, bad]).valid
    assert good.alone.valid


def test_no_batch_of_a_conversation_is_larger_than_one_value() -> None:
    speaker = Speaker("a", State.OPEN, random.Random(1))
    value = Push(key_suffix="fuzz/k", body=Put(data=bytes(20_000)))
    assert len(speaker.says(value, value, value, note="PUT")) == 3
    assert len(speaker.says(Push(key_suffix="a", body=Del()), Push(key_suffix="b", body=Del()), note="")) == 1


def test_what_lasts_is_beyond_doubt() -> None:
    script = Script(())
    stall = Finding(
        bucket="stall ?",
        harm=Harm.STALL,
        oracle="ping",
        place="",
        detail="nothing comes",
        state="",
        message="",
        script=script,
        first=script,
    )
    assert not stall.beyond_doubt
    assert replace(stall, lasting=True).beyond_doubt
    plain = {**replace(stall, lasting=True).to_json()}
    assert Finding.from_json(plain, script, script).lasting


def test_close_in_answer_to_our_end_is_none_of_the_node(tmp_path: Path) -> None:
    config = RunConfig(node="pypi", run_dir=tmp_path, run_id="real", seed=1)
    # The answer is waited for; on a busy machine it may come too late to show anything.
    ended = Script((reach(State.LOW_LATENCY, "a"), Step(Do.FINISH), listen()), valid=True)
    with Lab(config, node_of(config), seats=1) as lab:
        tried = lab.play(ended)
    assert not tried.played.session_ended
    assert tried.objection is None


@pytest.mark.parametrize("valid", [True, False])
def test_script_of_a_suspect_is_valid_if_all_that_its_cases_send_is(*, valid: bool) -> None:
    source = Made("talk", State.OPEN, "FRAME", {"x": lambda: (listen(),)}, "valid", all_valid=valid)
    other = Made("other", State.OPEN, "FRAME", {"x": lambda: (listen(),)}, "valid", all_valid=True)

    def ran(source: Made) -> Ran:
        case = next(source.cases(random.Random(1)))
        return Ran(Numbered(CAMPAIGN, 1, case), case.steps, 1, 0, State.OPEN, 0, 0.0)

    assert _suspect(ran(source), ()).script.valid is valid
    assert _suspect(ran(other), [ran(source)]).script.valid is valid


@pytest.mark.parametrize("lab", [["rude"]], indirect=True)
def test_what_is_left_of_a_valid_session_is_valid(lab: Lab) -> None:
    """Without the alias that it ends, the last message would be no reason to blame the node."""
    around = [said(Push(key_suffix=f"fuzz/{number}", body=Put(data=b"x"))) for number in range(4)]
    reached, named, ended = RUDE.steps
    script = RUDE.with_steps((reached, around[0], named, *around[1:3], ended, around[3]))
    tried = lab.play(script)
    assert tried.objection is not None
    seen = tried.objection
    finding = Finding(
        bucket="undue",
        harm=seen.harm,
        oracle=seen.oracle,
        place=seen.place,
        detail=seen.detail,
        state="open",
        message="FRAME",
        script=script,
        first=script,
    )
    minimise(lab, finding, 600.0)
    assert finding.minimised is not None
    assert finding.minimised.done
    assert [step for step in finding.script.steps if step.do is Do.SEND] == [named, ended]
