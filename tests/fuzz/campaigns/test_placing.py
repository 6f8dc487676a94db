"""Messages in states, and the lies about them."""

import random
from itertools import islice

import pytest
from boofuzz.mutation_context import MutationContext
from boofuzz.protocol_session import ProtocolSession

from fuzz.campaigns.messages import Wish, forms, main_forms, message_of
from fuzz.campaigns.placing import Stated, framing_of, placed
from fuzz.cases import VALID, Edge, send
from fuzz.script import SIZE, Do, Step, Template
from fuzz.states import State
from scapy_layers.catalogue import decode_batch
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareToken
from scapy_layers.network import Push, Response
from scapy_layers.primitives import Reader
from scapy_layers.transport import Fragment, Frame, Init, KeepAlive, Open
from tests.fuzz.campaigns.sent import VALUES, filled


def pieces(source: Stated) -> tuple[bytes | str, ...]:
    (step,) = source.valid_steps()
    return step.data.pieces


def test_a_message_stands_in_what_it_travels_in() -> None:
    put = message_of(Put, Wish())
    place = placed(put, State.OPEN)
    assert [type(one) for one in (place.message, place.message.messages[0], place.message.messages[0].body)] == [
        Frame, Push, Put,
    ]  # fmt: skip
    assert place.quiet == ("FRAME", "PUSH")
    assert place.live == {"FRAME.sn": "sn"}
    assert placed(put, State.LOW_LATENCY).quiet == ("PUSH",)
    assert placed(put, State.OPEN, reliable=False).live == {"FRAME.sn": "sn_be"}
    assert placed(KeepAlive(), State.OPEN).message == KeepAlive()


def test_keys_go_by_the_alias_where_there_is_one() -> None:
    declared = placed(message_of(Put, Wish()), State.DECLARED).message.messages[0]
    assert (declared.key_scope, declared.M) == (7, 1)
    assert placed(message_of(Put, Wish()), State.OPEN).message.messages[0].key_scope == 0


def test_what_stands_in_front_is_that_of_the_state() -> None:
    def of(state: State) -> tuple[bytes | str, ...]:
        return pieces(Stated("x", state, message_of(DeclareToken, Wish())))

    token = bytes(placed(message_of(DeclareToken, Wish()), State.LOW_LATENCY).message)
    assert of(State.OPEN) == (SIZE, b"\x25", "sn", token)
    assert of(State.COMPRESSED) == (SIZE, b"\x00\x25", "sn", token)
    assert of(State.LOW_LATENCY) == ("size32", token)
    assert of(State.JOINED) == (b"\x25", "sn", token)
    for state in State:
        assert framing_of(state).prefix in {"", "size", "size32"}


def test_what_only_a_link_knows_is_filled_in() -> None:
    def names(state: State, message: object) -> tuple[str, ...]:
        return Template(pieces(Stated("x", state, message))).names  # type: ignore[arg-type]

    assert names(State.CONNECTED, message_of(Init, Wish())) == ("zid",)
    assert names(State.INIT_ACKED, message_of(Open, Wish(roles={"A": 0}))) == ("cookie",)
    assert names(State.INIT_ACKED, message_of(Open, Wish(roles={"A": 1}))) == ()
    assert names(State.PENDING, message_of(Response, Wish())) == ("sn", "rid")
    assert names(State.OPEN, Fragment(R=1, data=b"x")) == ("sn",)
    assert names(State.OPEN, Fragment(R=0, data=b"x")) == ("sn_be",)


def test_the_valid_message_comes_first_and_then_each_lie_once() -> None:
    source = Stated("x", State.OPEN, message_of(Push, Wish()))
    first, *lies = source.cases(random.Random(1))
    assert (first.strategy, first.mutation, first.edges) == (VALID, VALID, (Edge("PUSH", "", VALID),))
    (step,) = first.steps
    assert step.note == VALID
    assert bytes(decode_batch(filled(step)[2:])[0].messages[0]) == bytes(message_of(Push, Wish()))
    edges = [case.edges for case in lies]
    assert len(set(edges)) == len(edges) == len(list(source.edges())) - 1
    assert {case.message for case in lies} == {"PUSH", "PUT"}
    assert len({case.field for case in lies[:8]}) == 8


def test_those_that_send_the_same_share_what_is_made_of_it() -> None:
    one, other = (Stated(str(state), state, message_of(Push, Wish())) for state in (State.OPEN, State.CLOSED))
    apart = Stated("x", State.JOINED, message_of(Push, Wish()))
    assert one.request is other.request is not apart.request
    assert [case.source for case in islice(one.cases(random.Random(1)), 3)] == [one] * 3


def test_steps_in_front_and_behind_come_with_every_case() -> None:
    around = (send(SIZE, b"\x04"),), (Step(Do.AWAIT),)
    source = Stated("x", State.OPEN, KeepAlive(), before=around[0], after=around[1])
    for case in source.cases(random.Random(1)):
        assert (case.steps[:1], case.steps[2:]) == around


FORMS = [("PUSH", State.OPEN), ("INIT", State.CONNECTED), ("OPEN", State.INIT_ACKED), ("RESPONSE", State.PENDING),
         ("FRAGMENT", State.COMPRESSED), ("U_TOKEN", State.LOW_LATENCY), ("JOIN", State.JOINED)]  # fmt: skip


@pytest.mark.parametrize(("kind", "state"), FORMS)
def test_the_bytes_are_those_that_boofuzz_renders(kind: str, state: State) -> None:
    raw = {name: Reader(VALUES[name]).vle() for name in ("sn", "sn_be", "rid")}
    live = {**raw, "zid": VALUES["zid"], "cookie": VALUES["cookie"][1:]}
    session = ProtocolSession(session_variables=live)
    rng = random.Random(7)
    framing = framing_of(state)
    for words, message in main_forms(kind).items():
        source = Stated(words, state, message)
        for case in rng.sample(list(source.cases(rng)), 40):
            (step,) = case.steps
            assert case.request is not None
            context = MutationContext(mutations=dict(case.mutations), protocol_session=session)
            rendered = case.request.render(context)
            ours = filled(step)
            if "cut after" in case.mutation:
                # Of a value that is filled in, one byte alone is not told from others.
                ours, rendered = ours[:-1], rendered[:-1]
            if framing.prefix == SIZE and not framing.head:
                assert ours == rendered, case.mutation
            else:
                assert ours.endswith(framing.head + rendered), case.mutation


def test_forms_by_alias_are_other_messages() -> None:
    assert forms("PUSH") != forms("PUSH", by_alias=True)
