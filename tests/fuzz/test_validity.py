"""What is left of a valid script is still valid, or is not tried."""

import random
from itertools import islice

import pytest

from fuzz.campaigns import Setting
from fuzz.campaigns.valid import CAMPAIGN, TALKS, Speaker
from fuzz.cases import reach, send
from fuzz.phrases import handshake
from fuzz.script import SIZE, Do, Script, Step
from fuzz.shrink import shrink
from fuzz.states import State
from fuzz.triage.validity import still_valid
from scapy_layers.codes import InterestMode
from scapy_layers.data import Put
from scapy_layers.declarations import (
    DeclareKeyExpr,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareSubscriber,
)
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push
from scapy_layers.transport import Fragment
from tests.fuzz.planted import FRAME, said

KEY = "fuzz/v"


def valid(*steps: Step, state: State = State.OPEN) -> Script:
    return Script((reach(state, "a"), *steps), valid=True)


def named(*messages: Message) -> Script:
    return valid(*(said(message) for message in messages))


def without(script: Script, *numbers: int) -> Script:
    """Leaves out steps; 0 is the first one behind the state."""
    return script.with_steps(step for number, step in enumerate(script.steps, -1) if number not in numbers)


PAIRS = [
    (Declare(body=DeclareKeyExpr(key_id=7, key_suffix=KEY)), Push(M=1, key_scope=7, body=Put(data=b"x"))),
    (Declare(body=DeclareKeyExpr(key_id=7, key_suffix=KEY)), Declare(body=UndeclareKeyExpr(key_id=7))),
    (
        Declare(body=DeclareKeyExpr(key_id=7, key_suffix=KEY)),
        Declare(body=DeclareKeyExpr(key_id=8, key_scope=7, key_suffix="/a")),
    ),
    (
        Declare(body=DeclareSubscriber(entity_id=7, key_suffix=KEY)),
        Declare(body=UndeclareSubscriber(entity_id=7)),
    ),
    (
        Interest(mode=InterestMode.FUTURE, interest_id=7, tokens=1, key_suffix=KEY),
        Interest(mode=InterestMode.FINAL, interest_id=7),
    ),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_what_a_message_needs_stays_in_front_of_it(first: Message, second: Message) -> None:
    both = named(first, second)
    assert still_valid(both, both)
    assert still_valid(without(both, 1), both)
    assert not still_valid(without(both, 0), both)
    assert not still_valid(named(second, first), both)


def test_an_id_of_one_kind_is_none_of_another() -> None:
    token = Declare(body=DeclareToken(entity_id=7, key_suffix=KEY))
    gone = Declare(body=UndeclareSubscriber(entity_id=7))
    both = named(Declare(body=DeclareSubscriber(entity_id=7, key_suffix=KEY)), token, gone)
    assert still_valid(without(both, 1), both)
    assert not still_valid(without(both, 0), both)


def test_what_the_state_has_declared_is_there() -> None:
    pushed = valid(said(Push(M=1, key_scope=7, body=Put(data=b"x"))), state=State.DECLARED)
    assert still_valid(pushed, pushed)


def test_nothing_is_changed_in_a_message_or_round_it() -> None:
    push = Push(M=1, key_suffix=KEY, body=Put(data=b"xx"))
    origin = named(push, push)
    assert not still_valid(named(Push(M=1, key_suffix=KEY, body=Put(data=b"x"))), origin)
    best_effort = bytes([FRAME[0] & ~0x20])
    assert not still_valid(valid(send("size", best_effort, "sn", bytes(push))), origin)
    together = valid(send("size", FRAME, "sn", bytes(push), bytes(push)))
    assert still_valid(together, origin)
    assert not still_valid(named(push, push, push), origin)
    assert not still_valid(Script(named(push).steps, (("mode", "peer"),), valid=True), origin)
    assert not still_valid(valid(said(push), state=State.DECLARED), origin)


def test_fragments_stay_together() -> None:
    def piece(data: bytes, more: int) -> Step:
        head = bytes(Fragment(M=more, sn=0))[:1]
        return send("size", head, "sn", data)

    origin = valid(piece(b"ab", 1), piece(b"cd", 0), said(Push(key_suffix=KEY, body=Put(data=b"x"))))
    assert still_valid(without(origin, 2), origin)
    assert still_valid(without(origin, 0, 1), origin)
    assert not still_valid(without(origin, 0), origin)
    assert not still_valid(without(origin, 1), origin)


def test_a_handshake_by_hand_stays_whole() -> None:
    origin = valid(*handshake(), said(Push(key_suffix=KEY, body=Put(data=b"x"))), state=State.CONNECTED)
    assert still_valid(without(origin, len(origin.steps) - 2), origin)
    for number in range(len(handshake())):
        assert not still_valid(without(origin, number), origin)


def test_step_that_sends_nothing_may_be_left_out() -> None:
    origin = valid(send(), said(PAIRS[0][0]))
    assert still_valid(origin, origin)
    assert still_valid(without(origin, 0), origin)


def test_bytes_that_are_no_message_are_left_as_they_are() -> None:
    origin = valid(send(SIZE, b"\xff\xff"), send(SIZE, b"\xff\xfe"))
    assert still_valid(without(origin, 0), origin)
    assert not still_valid(valid(send(SIZE, b"\xff")), origin)


def test_every_case_is_part_of_itself_and_so_is_each_of_its_beginnings() -> None:
    tried = 0
    for source in CAMPAIGN.make(Setting(3)):
        rng = random.Random(3)
        for case in [*source.cases(rng), *islice(source.more(rng), 3)]:
            if not source.all_valid or source.state is State.CONNECTED:
                continue
            origin = Script((reach(case.state, "a"), *case.steps), valid=True)
            assert still_valid(origin, origin)
            pieces = [at for at, step in enumerate(origin.steps) if "fragment" in step.note]
            if not pieces:
                assert still_valid(origin.with_steps(origin.steps[: len(origin.steps) // 2]), origin)
                tried += 1
    assert tried > 50


@pytest.mark.parametrize("state", [State.OPEN, State.COMPRESSED, State.LOW_LATENCY])
def test_a_conversation_becomes_as_small_as_what_ends_it_and_what_that_needs(state: State) -> None:
    speaker = Speaker("a", state, random.Random(1))
    talks = ("publishing", "shortening", "living")
    steps = [step for talk in talks for step in TALKS[talk](speaker, speaker, KEY, random.Random(2))]
    origin = valid(*steps, state=state)
    wanted = next(step for step in steps if step.note == "U_KEYEXPR")

    def harms(script: Script) -> bool:
        return still_valid(script, origin) and wanted in script.steps

    shrunk = shrink(origin, harms, float("inf"), whole=True)
    assert shrunk.done
    assert [step.note for step in shrunk.script.steps if step.do is Do.SEND] == [
        "D_KEYEXPR, D_SUBSCRIBER",
        "U_KEYEXPR",
    ]
