"""What is laid on single messages: what each of them leaves behind is too little to be seen in the case that says it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import pytest

from fuzz.campaigns.base import Campaign
from fuzz.cases import Case, Cause, Fixed, send
from fuzz.lab import Lab, Tried
from fuzz.oracles import Harm, Objection
from fuzz.phrases import frame, init, interest, numbered, push, query, subscriber
from fuzz.plan import Numbered
from fuzz.script import Do, Script, Step, Template
from fuzz.states import State
from fuzz.triage import suspects
from fuzz.triage.attribution import LIKELY, Attribution
from fuzz.triage.suspects import MUCH, OFTEN, Suspect, each_message_often
from scapy_layers.codes import InterestMode
from scapy_layers.data import Put
from scapy_layers.network import Push

CAMPAIGN = Campaign("sessions", "for tests", lambda _: iter(()))
SLOW = Objection("time", Harm.SLOW, "", "an answer takes 20 ms")
GROWTH = Objection("memory", Harm.GROWTH, "memory", "memory grows")
BUSY = Objection("cpu", Harm.BUSY, "cpu", "the process takes 98% of a processor")
LASTING = interest(7, InterestMode.FUTURE)
KEPT = bytes(subscriber(3, "kept"))[-4:]


def said(number: int, *steps: Step, state: State = State.OPEN) -> Suspect:
    """A case of these steps, on a link in a state."""
    source = Fixed("sessions", state, "FRAME", {"x": steps}, "edge")
    case = Case(source, "FRAME", "f", "", "edge", (Cause("sessions", "f", str(number)),), plan="x")
    script = Script((Step(Do.REACH, "a", state), *steps), valid=True)
    return Suspect(Numbered(CAMPAIGN, number, case), steps, script, number, state)


def told(suspects: Iterable[Suspect]) -> list[tuple[str, str]]:
    """Returns the messages that suspects are about, with all that is sent."""
    return [(one.case.message, str(one.steps[0].data)) for one in suspects]


def test_each_kind_of_message_is_sent_often_under_ids_of_its_own() -> None:
    often = each_message_often(
        [
            said(1, frame(subscriber(300)), Step(Do.SETTLE), frame(push("a", b"x"))),
            said(2, frame(LASTING), frame(interest(7)), frame(push("b", b"y"))),
        ]
    )
    assert told(often) == [
        ("D_SUBSCRIBER", "{size}25{sn}1e22{count}000666757a7a2f6b"),
        ("INTEREST", "{size}25{sn}79{count}3f000766757a7a2f2a2a"),
        ("PUT", "{size}25{sn}7d000162010179"),
        ("INTEREST", "{size}25{sn}59{count}3f000766757a7a2f2a2a"),
    ]
    for one in often:
        assert [step.times for step in one.steps] == [OFTEN]
        assert one.alone.steps[0] == Step(Do.REACH, "a", State.OPEN)
        # An alias may be missing, and be what ends the session.
        assert not one.alone.valid
        assert str(OFTEN) in one.case.mutation


def test_message_with_digits_keeps_them_and_gets_an_id_of_its_own() -> None:
    step = numbered(subscriber, times=3, note="some")
    fixed = replace(step, data=Template.parse(str(step.data).replace("{count}", "05")))
    for one in (step, fixed):
        (often,) = each_message_often([said(1, one)])
        assert often.steps[0].data == step.data


def test_only_the_last_id_of_a_batch_is_another_one_each_time() -> None:
    (one,) = each_message_often([said(1, frame(query(3, "a"), subscriber(4, "b")))])
    assert told([one]) == [("D_SUBSCRIBER", "{size}25{sn}3c0300016103" + "1e22{count}000162")]


def test_large_messages_are_sent_less_often() -> None:
    (one,) = each_message_often([said(1, frame(push("k", bytes(50_000))))])
    assert one.steps[0].times == 1 + MUCH // 50_000
    assert str(one.steps[0].times) in one.case.mutation


def test_link_of_a_message_comes_into_the_state_that_it_had() -> None:
    steps = (Step(Do.REACH, "b", State.DECLARED), frame(push(), link="b"), frame(LASTING, link="nowhere"))
    (one,) = each_message_often([said(1, *steps)])
    assert one.alone.steps[0] == Step(Do.REACH, "a", State.DECLARED)
    assert one.steps[0].link == "a"


def test_batches_of_low_latency_sessions_are_network_messages() -> None:
    step = send("size32", bytes(subscriber(4)), note="D_SUBSCRIBER")
    (one,) = each_message_often([said(1, step, state=State.LOW_LATENCY)])
    assert told([one]) == [("D_SUBSCRIBER", "{size32}1e22{count}000666757a7a2f6b")]


def test_what_is_said_where_no_session_is_and_what_nobody_can_read_is_left_out() -> None:
    assert not each_message_often([said(1, init("a"), state=State.CONNECTED)])
    assert not each_message_often([said(1, send(b"\x18", note="?"), send(b"", note="nothing"))])


def test_kinds_that_differ_in_the_header_alone_come_last_and_there_are_not_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, encoded = push("k"), Push(key_suffix="k", body=Put(E=1, encoding=4, data=b"hello"))
    cases = [said(number, frame(one)) for number, one in enumerate((plain, LASTING, encoded, encoded))]
    often = each_message_often(cases)
    assert [one.case.message for one in often] == ["PUT", "INTEREST", "PUT"]
    assert [one.numbered.number for one in often] == [3, 1, 0]
    monkeypatch.setattr(suspects, "MOST_KINDS", 2)
    assert [one.numbered.number for one in each_message_often(cases)] == [3, 1]


class Filling:
    """Stands for a lab whose node takes a microsecond longer, and a kilobyte more, for each id that a subscriber ever had.

    A script is played fifty times a second, whatever it says.
    """

    def __init__(self, harm: Objection) -> None:
        self.harm = harm
        self.played: list[Script] = []

    def play(self, script: Script, *, rounds: int, seconds: float, **_: object) -> Tried:
        """Plays what is tried, and says what the node keeps of it."""
        self.played.append(script)
        sent = [step for step in script.steps if str(step.data).endswith(KEPT.hex())]
        ids = sum(step.times if "count" in step.data.pieces else 1 for step in sent)
        kept = ids * min(rounds, 50 * seconds)
        tried = Tried(script, self.harm if kept > 10_000 else None)
        tried.grown = 1e3 * kept / seconds, 0.0, 1e-6 * kept / seconds
        return tried


def laid_on(objection: Objection, lab: Filling) -> tuple[str, int] | None:
    """Returns the message that harm is laid on, and how often it is sent in a round; forty cases may have done it."""
    kinds = [frame(one) for one in (push("a"), LASTING, subscriber(3, "kept"), query(4, "a"))]
    cases = [said(number, kinds[number % 4]) for number in range(40)]
    attribution = Attribution(cast("Lab", lab), {}, lambda until: time.monotonic() > until)
    found = attribution.culprit(objection, cases, time.monotonic() + 10)
    return found and (found[0].case.message, found[0].steps[0].times)


@pytest.mark.parametrize("harm", [SLOW, GROWTH])
def test_harm_is_laid_on_a_message_of_which_a_case_says_too_few(harm: Objection) -> None:
    assert laid_on(harm, Filling(harm)) == ("D_SUBSCRIBER", OFTEN)


def test_message_that_shows_other_harm_is_not_blamed() -> None:
    lab = Filling(GROWTH)
    assert laid_on(SLOW, lab) is None
    closely = [script for script in lab.played if len(script.steps) == 2][-LIKELY:]
    assert closely[0].steps[1].data != closely[1].steps[1].data


def test_processor_that_does_not_come_to_rest_is_no_matter_of_many_messages() -> None:
    lab = Filling(BUSY)
    lab.walk = lambda *_: None  # type: ignore[attr-defined]
    assert laid_on(BUSY, lab) is None
    assert all(step.times == 1 for script in lab.played for step in script.steps)
