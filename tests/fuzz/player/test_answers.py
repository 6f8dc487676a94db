"""What a node says, told from what it does not."""

import socket

import pytest

from fuzz.player import Answers
from fuzz.player.answers import FENCE_ID, OURS
from fuzz.player.pipe import Pipe
from fuzz.player.trace import Trace
from scapy_layers.codes import CloseReason, WhatAmI
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareFinal, DeclareSubscriber
from scapy_layers.network import Declare, Push, ResponseFinal
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Frame, Init, KeepAlive
from tests.fuzz.campaigns.test_state import ENDS

INIT = bytes(Init(zid=bytes(range(1, 17)), whatami=WhatAmI.PEER, S=1, batch_size=65_507))


@pytest.mark.parametrize(
    ("batch", "names", "refused"),
    [
        (bytes(Hello(zid=b"\x01", whatami=WhatAmI.ROUTER)), ("HELLO",), False),
        (bytes(Scout()), ("SCOUT",), False),
        # The sender of a HELLO without locators is where the session begins, over UDP.
        (INIT, ("INIT",), False),
        (bytes(KeepAlive()), ("KEEP_ALIVE",), False),
        (INIT[:-1], ("SCOUT", "SCOUT"), True),
        (b"\x1f", (), True),
    ],
)
def test_a_port_that_scouts_hears_scouting_and_udp_links(
    batch: bytes, names: tuple[str, ...], *, refused: bool
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pipe = Pipe(ours, ENDS, Trace(), Answers(), b"\x01" * 16)
        pipe.facts["scouting"] = True
        answer = Answers().read(batch, 0, pipe)
    assert (answer.names, bool(answer.refused)) == (names, refused)


OTHER = ResponseFinal(request_id=6)
FENCES = [ResponseFinal(request_id=FENCE_ID), Declare(interest_id=FENCE_ID, body=DeclareFinal())]


@pytest.mark.parametrize("fence", FENCES, ids=["query", "interest"])
def test_an_answer_is_the_same_with_that_of_a_fence_in_its_batch(fence: ResponseFinal | Declare) -> None:
    answers = Answers()
    alone = answers.read(bytes(Frame(sn=1, messages=[OTHER])), 0)
    for order in ([OTHER, fence], [fence, OTHER], [fence, OTHER, fence]):
        batch = bytes(Frame(sn=1, messages=order))
        for read in (answers, answers, Answers()):
            answer = read.read(batch, 0)
            assert (answer.names, answer.shape, answer.fence) == (alone.names, alone.shape, False)
            assert answer.finals == order.count(fence)
            assert answer.batch == batch
    frames = answers.read(bytes(Frame(sn=1, messages=[fence])) + bytes(Frame(sn=2, messages=[OTHER])), 0)
    assert (frames.names, frames.shape, frames.fence) == (alone.names, alone.shape, False)
    bare = answers.read(bytes(fence) + bytes(OTHER), 0)
    assert (bare.names, bare.finals, bare.fence) == (("RESPONSE_FINAL",), 1, False)


def test_what_the_canary_publishes_for_keys_that_cases_use_is_no_answer() -> None:
    ours = Push(key_suffix="fuzz/k", body=Put(data=OURS + b"1"))
    theirs = Push(key_suffix="fuzz/k", body=Put(data=b"of a case"))
    answers = Answers()
    alone = answers.read(bytes(Frame(sn=1, messages=[theirs])), 0)
    beside = answers.read(bytes(Frame(sn=2, messages=[ours, theirs])), 0)
    assert (beside.names, beside.shape, beside.fence) == (alone.names, alone.shape, False)
    answer = answers.read(bytes(Frame(sn=3, messages=[ours])), 0)
    assert (answer.fence, answer.finals) == (True, 0)


@pytest.mark.parametrize("fence", FENCES, ids=["query", "interest"])
def test_nothing_but_answers_to_fences_is_told_from_the_rest(fence: ResponseFinal | Declare) -> None:
    answers = Answers()
    frame = bytes(Frame(sn=1, messages=[fence]))
    for batch in (frame, bytes(fence), frame + frame):
        answer = answers.read(batch, 0)
        assert answer.fence
        assert answer.names
    for more in (b"\x1f", bytes(Close(reason=CloseReason.INVALID)), bytes(KeepAlive())):
        answer = answers.read(frame + more, 0)
        assert (answer.fence, answer.finals) == (False, 1)


def test_what_differs_from_link_to_link_by_its_base_key_is_taken_apart_once() -> None:
    answers = Answers()
    ours, theirs = socket.socketpair()
    read = []
    with ours, theirs:
        for sn, base in ((1, "fuzz/aa"), (700, "fuzz/bb")):
            pipe = Pipe(ours, ENDS, Trace(), answers, b"\x01" * 16)
            pipe.facts["base"] = base
            told = Declare(body=DeclareSubscriber(entity_id=2, key_suffix=f"{base}/**"))
            batch = bytes(Frame(sn=sn, messages=[told]))
            read.append(answers.read(batch, 0, pipe))
            assert read[-1].batch == batch
            assert read[-1] == Answers().read(batch, 0)
            # The same of another link says something else.
            other = bytes(
                Frame(
                    sn=sn, messages=[Declare(body=DeclareSubscriber(entity_id=2, key_suffix=f"{base}x/**"))]
                )
            )
            assert answers.read(other, 0, pipe) == Answers().read(other, 0)
    assert (read[0].shape, read[0].names) == (read[1].shape, read[1].names)
    assert answers.decoded == 2
