"""The session machine against a scripted acceptor, in memory."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.errors import LocalError
from conformance.session.events import Closed, Dropped, Event, Opened, Received
from conformance.session.machine import Session, SessionConfig
from conformance.session.negotiate import Offer
from conformance.session.states import State
from scapy_layers.catalogue import decode_batch
from scapy_layers.codes import CloseReason, WhatAmI
from scapy_layers.data import Put
from scapy_layers.extensions import First, Lane, Patch, QoSOffer
from scapy_layers.message import Message
from scapy_layers.network import Push
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open

COOKIE = bytes(range(40))
NODE = b"\xaa\xbb"


def started(**offer: Any) -> Session:
    session = Session(SessionConfig(zid=b"\x01\x02", offer=Offer(**offer)), rng=random.Random(5))
    session.connect()
    return session


def sent(session: Session, now: float = 0.0) -> list[Message]:
    return [message for batch in session.batches_to_send(now) for message in decode_batch(batch)]


def init_ack(**fields: Any) -> bytes:
    given = {
        "fsn": 2,
        "rid": 2,
        "batch_size": 49_152,
        "cookie": COOKIE,
        "whatami": WhatAmI.ROUTER,
        "zid": NODE,
    }
    return bytes(Init(A=1, **{**given, **fields}))


def opened(
    initial_sn: int = 100, lease: int = 10, answer: dict[str, Any] | None = None, **offer: Any
) -> Session:
    session = started(**offer)
    sent(session)
    session.receive(init_ack(**(answer or {})), 0.0)
    sent(session)
    session.receive(bytes(Open(A=1, T=1, lease=lease, initial_sn=initial_sn)), 0.0)
    assert session.state is State.OPEN
    return session


def frame(sn: int, *messages: Message, **fields: Any) -> bytes:
    return bytes(
        Frame(R=1, sn=sn, messages=list(messages) or [Push(key_suffix="a", body=Put(data=b"1"))], **fields)
    )


def test_handshake_sends_init_then_open_with_the_cookie() -> None:
    session = started()
    (init,) = sent(session)
    assert bytes(init) == bytes.fromhex("010912 0102".replace(" ", ""))
    assert session.receive(init_ack(), 0.0) == []
    (answer,) = sent(session)
    assert isinstance(answer, Open)
    assert answer.value("A") == 0
    assert answer.cookie == COOKIE
    assert (answer.value("T"), answer.lease) == (1, 10)
    events = session.receive(bytes(Open(A=1, T=0, lease=2500, initial_sn=7)), 0.0)
    assert events == [Opened(NODE, WhatAmI.ROUTER, session.agreed, 2.5, 7)]


def test_offer_other_than_the_defaults_is_written_out() -> None:
    (init,) = sent(started(fsn=0, batch_size=300, qos=True, patch=1))
    assert isinstance(init, Init)
    assert (init.fsn, init.rid, init.batch_size) == (0, 2, 300)
    assert [type(extension) for extension in init.extensions] == [QoSOffer, Patch]


def test_lease_of_broken_seconds_is_written_in_milliseconds() -> None:
    session = Session(SessionConfig(zid=b"\x01", lease=0.4), rng=random.Random(5))
    session.connect()
    sent(session)
    session.receive(init_ack(), 0.0)
    (answer,) = sent(session)
    assert isinstance(answer, Open)
    assert (answer.value("T"), answer.lease) == (0, 400)


@pytest.mark.parametrize("fsn", [0, 1, 2])
def test_initial_sn_is_inside_the_lowered_resolution(fsn: int) -> None:
    session = started()
    sent(session)
    session.receive(init_ack(fsn=fsn), 0.0)
    (answer,) = sent(session)
    assert isinstance(answer, Open)
    assert answer.initial_sn <= (0x7F, 0x3FFF, 0x0FFFFFFF)[fsn]


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (bytes(Init(zid=NODE)), CloseReason.INVALID),
        (bytes(KeepAlive()), CloseReason.INVALID),
        (init_ack(fsn=3), CloseReason.INVALID),
        (init_ack(extensions=[Patch(patch=2)]), CloseReason.GENERIC),
        (init_ack()[:-1], CloseReason.INVALID),
        (b"", CloseReason.INVALID),
    ],
    ids=["InitSyn", "KEEP_ALIVE", "raised", "patch", "cut", "empty"],
)
def test_wrong_answer_to_init_is_closed_with_the_reason_it_deserves(batch: bytes, reason: int) -> None:
    session = started()
    sent(session)
    (event,) = session.receive(batch, 0.0)
    assert isinstance(event, Closed)
    assert event.by_us
    (close,) = sent(session)
    assert isinstance(close, Close)
    assert close.reason == reason
    assert session.over


def test_close_of_the_node_ends_the_session_without_an_answer() -> None:
    session = started()
    sent(session)
    assert session.receive(bytes(Close(reason=1)), 0.0) == [Closed(1, by_us=False, why="CLOSE received")]
    assert sent(session) == []
    assert session.receive(init_ack(), 0.0) == []


def test_first_frame_carries_the_initial_sn_and_counts_on() -> None:
    session = opened()
    initial = session.take_sn()
    session.send(Push(key_suffix="a", body=Put()))
    session.send(Push(key_suffix="b", body=Put()))
    session.send(Push(key_suffix="c", body=Put()), reliable=False)
    one, two, other = sent(session)
    assert isinstance(one, Frame)
    assert isinstance(two, Frame)
    assert isinstance(other, Frame)
    assert (one.sn, two.sn) == (initial + 1, initial + 2)
    assert (other.value("R"), other.sn) == (0, initial)


def test_network_message_before_open_is_our_own_mistake() -> None:
    with pytest.raises(LocalError, match="init sent"):
        started().send(Push(body=Put()))


def test_lane_without_qos_is_refused_on_both_sides() -> None:
    session = opened()
    with pytest.raises(LocalError, match="QoS"):
        session.send(Push(body=Put()), priority=1)
    (event,) = session.receive(frame(100, extensions=[Lane(priority=1)]), 0.0)
    assert isinstance(event, Closed)


def test_lanes_count_apart_when_agreed() -> None:
    session = opened(qos=True, answer={"extensions": [QoSOffer()]})
    session.send(Push(body=Put()), priority=1)
    session.send(Push(body=Put()), priority=2)
    one, two = sent(session)
    assert isinstance(one, Frame)
    assert isinstance(two, Frame)
    assert one.sn == two.sn
    assert [item.extensions[0].priority for item in (one, two)] == [1, 2]


def kinds(events: list[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


def test_old_and_repeated_numbers_are_dropped_gaps_are_taken() -> None:
    session = opened(initial_sn=100)
    assert kinds(session.receive(frame(100), 0.0)) == [Received]
    assert session.receive(frame(100), 0.0) == [Dropped(100)]
    assert kinds(session.receive(frame(105), 0.0)) == [Received]
    assert session.receive(frame(104), 0.0) == [Dropped(104)]


def test_numbers_wrap_at_the_resolution() -> None:
    session = opened(initial_sn=0x7F, answer={"fsn": 0})
    assert kinds(session.receive(frame(0x7F), 0.0)) == [Received]
    assert kinds(session.receive(frame(0), 0.0)) == [Received]


@given(st.integers(1, 2000), st.sampled_from([0, 1]))
def test_big_message_travels_in_fragments_within_the_batch_size(size: int, patch: int) -> None:
    extensions = [Patch(patch=1)] if patch else []
    session = opened(batch_size=64, patch=patch, answer={"batch_size": 64, "extensions": extensions})
    message = Push(key_suffix="big", body=Put(data=b"x" * size))
    session.send(message)
    batches = session.batches_to_send(0.0)
    assert all(len(batch) + 2 <= 64 for batch in batches)
    other = opened(initial_sn=session.initial_sn, patch=patch, answer={"extensions": extensions})
    events = [event for batch in batches for event in other.receive(batch, 0.0)]
    assert [bytes(event.message) for event in events if isinstance(event, Received)] == [bytes(message)]
    marked = [
        b"" for batch in batches for m in decode_batch(batch) if isinstance(m, Fragment) and m.extensions
    ]
    assert len(marked) == (1 if patch and len(batches) > 1 else 0)
    assert First().describe() == "First"


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x00\x00", b"\x04"], ids=["rubbish", "OAM", "KEEP_ALIVE"])
def test_what_is_no_network_message_after_reassembly_is_dropped_without_harm(data: bytes) -> None:
    session = opened(initial_sn=1)
    assert session.receive(bytes(Fragment(R=1, sn=1, data=data)), 0.0) == []
    assert kinds(session.receive(frame(2), 0.0)) == [Received]


def test_keep_alive_goes_out_every_quarter_of_our_lease_when_nothing_else_did() -> None:
    session = opened(lease=60)
    assert session.next_deadline() == pytest.approx(2.5)
    assert session.tick(2.4) == []
    assert sent(session, 2.4) == []
    session.tick(2.5)
    assert [message.name for message in sent(session, 2.5)] == ["KEEP_ALIVE"]
    assert session.next_deadline() == pytest.approx(5.0)
    session.send(Push(body=Put()))
    sent(session, 4.0)
    assert session.next_deadline() == pytest.approx(6.5)


def test_session_that_we_neglect_for_a_whole_lease_is_told() -> None:
    session = opened(lease=1)
    assert session.neglected(0.99) == 0.0
    assert session.neglected(1.5) == pytest.approx(1.5)
    session.tick(0.25)
    sent(session, 0.25)
    assert session.neglected(1.2) == 0.0
    session.tick(1.5)
    assert session.state is State.CLOSED
    assert session.neglected(9.0) == 0.0


def test_silent_node_is_given_up_after_the_smaller_lease() -> None:
    session = opened(lease=1)
    session.receive(bytes(KeepAlive()), 0.5)
    assert session.tick(1.4) == []
    (event,) = session.tick(1.5)
    assert isinstance(event, Closed)
    assert event.reason == CloseReason.EXPIRED
    assert session.next_deadline() is None


def test_bytes_that_do_not_decode_close_an_open_session_after_the_good_messages() -> None:
    session = opened(initial_sn=1)
    events = session.receive(frame(1) + b"\x08", 0.0)
    assert kinds(events) == [Received, Closed]


@given(st.binary(max_size=200))
def test_any_bytes_are_understood_or_end_the_session(data: bytes) -> None:
    for session in (started(), opened()):
        sent(session)
        session.receive(data, 0.0)
        assert session.state in set(State)
