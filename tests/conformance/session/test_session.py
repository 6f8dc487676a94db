"""Both sides of a unicast session, joined in memory or against hand-made bytes."""

from __future__ import annotations

import hashlib
import hmac
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.config import Credentials
from conformance.errors import LocalError
from conformance.session.events import Closed, Opened, Received
from conformance.session.lanes import Outbox
from conformance.session.machine import Session
from conformance.session.negotiate import Offer
from conformance.session.policy import FRAME_ROOM, Policy
from conformance.session.registry import Registry
from conformance.session.states import TABLE, State
from scapy_layers.batch import MAX_BATCH, contents
from scapy_layers.catalogue import decode_batch
from scapy_layers.codes import CloseReason, Priority, Resolution, WhatAmI
from scapy_layers.data import Put
from scapy_layers.errors import Overlong
from scapy_layers.extensions import (
    AuthInitSyn,
    Compression,
    LowLatency,
    MultiLinkInitSyn,
    Patch,
    QoS,
    QoSLink,
    QoSOffer,
    RegionName,
    UsrPwd,
)
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.network import Push
from scapy_layers.transport import Close, Frame, Init, Join, KeepAlive, Open, TransportOam
from tests.conformance.session.pair import ACCEPTING, CONNECTING, Pair, end, pair

USERS = {b"alice": b"secret"}


def acceptor(**arguments: Any) -> Session:
    session = end(ACCEPTING, **arguments)
    session.accept(0.0)
    return session


def sent(session: Session, now: float = 0.0) -> list[Message]:
    return [message for batch in session.batches_to_send(now) for message in decode_batch(batch)]


def init_syn(**fields: Any) -> bytes:
    return bytes(Init(**{"zid": CONNECTING, "whatami": WhatAmI.CLIENT, **fields}))


def answered(session: Session, **fields: Any) -> Init:
    assert session.receive(init_syn(**fields), 0.0) == []
    (answer,) = sent(session)
    assert isinstance(answer, Init)
    assert answer.value("A") == 1
    return answer


def open_syn(answer: Init, **fields: Any) -> bytes:
    return bytes(Open(**{"A": 0, "T": 1, "lease": 10, "initial_sn": 5, "cookie": answer.cookie, **fields}))


def refusal(session: Session, batch: bytes) -> int:
    """Gives a batch that has to be refused, and returns the reason of the CLOSE that answers."""
    (event,) = session.receive(batch, 0.0)
    assert isinstance(event, Closed)
    assert event.by_us
    (close,) = sent(session)
    assert isinstance(close, Close)
    assert close.reason == event.reason
    assert session.over
    return int(close.reason)


def put(key: str = "a", data: bytes = b"", **fields: Any) -> Push:
    return Push(key_suffix=key, body=Put(data=data), **fields)


# Handshake -----------------------------------------------------------------------------------------


def test_two_ends_open_and_know_each_other() -> None:
    joined = pair({"whatami": WhatAmI.PEER, "lease": 3.0}, {"whatami": WhatAmI.ROUTER, "lease": 7.0})
    assert joined.open
    (there,) = joined.seen[joined.connecting]
    (here,) = joined.seen[joined.accepting]
    assert isinstance(there, Opened)
    assert isinstance(here, Opened)
    assert (there.zid, there.whatami, there.lease) == (ACCEPTING, WhatAmI.ROUTER, 7.0)
    assert (here.zid, here.whatami, here.lease) == (CONNECTING, WhatAmI.PEER, 3.0)
    assert here.initial_sn == joined.connecting.initial_sn


def test_handshake_is_four_messages_in_order() -> None:
    joined = pair(qos=True, patch=1)
    messages = [message for _, batch in joined.travelled for message in decode_batch(batch)]
    assert [(type(message), message.value("A")) for message in messages] == [
        (Init, 0),
        (Init, 1),
        (Open, 0),
        (Open, 1),
    ]


@given(
    st.fixed_dictionaries(
        {
            "fsn": st.sampled_from(Resolution),
            "rid": st.sampled_from(Resolution),
            "batch_size": st.integers(32, 65_535),
            "qos": st.booleans(),
            "patch": st.integers(0, 3),
            "lowlatency": st.booleans(),
            "compression": st.booleans(),
        }
    ),
    st.fixed_dictionaries(
        {
            "fsn": st.sampled_from(Resolution),
            "rid": st.sampled_from(Resolution),
            "batch_size": st.integers(32, 65_535),
            "qos": st.booleans(),
            "patch": st.integers(0, 3),
            "lowlatency": st.booleans(),
            "compression": st.booleans(),
        }
    ),
)
def test_both_ends_agree_on_the_same_whatever_they_offer(
    ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    joined = pair({"offer": ours}, {"offer": theirs})
    assert joined.open
    one, two = joined.connecting.agreed, joined.accepting.agreed
    assert one == two
    for name in ("fsn", "rid", "batch_size", "patch"):
        assert getattr(one, name) == min(ours[name], theirs[name])
    assert one.qos == (ours["qos"] and theirs["qos"])
    assert one.compression == (ours["compression"] and theirs["compression"])
    assert not (one.qos and one.lowlatency)
    message = put(data=b"x" * 500)
    joined.connecting.send(message)
    joined.accepting.send(message)
    joined.run()
    assert [bytes(m) for m in joined.received(joined.accepting)] == [bytes(message)]
    assert [bytes(m) for m in joined.received(joined.connecting)] == [bytes(message)]


def test_region_of_the_other_end_is_known() -> None:
    joined = pair({"offer": {"region": "north"}}, {"offer": {"region": "south"}})
    assert (joined.connecting.agreed.region, joined.accepting.agreed.region) == ("south", "north")


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (init_syn(version=8), CloseReason.UNSUPPORTED),
        (init_syn(extensions=[UnknownExtension(M=1, ext_id=0xF)]), CloseReason.UNSUPPORTED),
        (init_syn(A=1, cookie=b"x"), CloseReason.INVALID),
        (init_syn()[:-1], CloseReason.INVALID),
        (init_syn(zid=b"\0"), CloseReason.INVALID),
        (init_syn(extensions=[RegionName(region="r" * 33)]), CloseReason.INVALID),
        (init_syn(S=1, batch_size=10), CloseReason.INVALID),
        (bytes(Open(A=0, cookie=b"x")), CloseReason.INVALID),
        (bytes(KeepAlive()), CloseReason.INVALID),
        (bytes(Frame(messages=[put()])), CloseReason.INVALID),
        (bytes(put()), CloseReason.INVALID),
        (b"\x1b", CloseReason.INVALID),
        (b"", CloseReason.INVALID),
    ],
    ids=[
        "version",
        "mandatory",
        "InitAck",
        "cut",
        "zid 0",
        "region",
        "batch size",
        "OPEN",
        "KEEP_ALIVE",
        "FRAME",
        "PUSH",
        "unknown id",
        "empty",
    ],
)
def test_wrong_first_message_gets_the_close_it_deserves(batch: bytes, reason: int) -> None:
    assert refusal(acceptor(), batch) == reason


@pytest.mark.parametrize("at", range(20))
def test_cut_init_never_starts_a_session(at: int) -> None:
    whole = init_syn(fsn=1, rid=1, batch_size=1000, extensions=[QoSOffer(), Patch(patch=1)])
    if at < len(whole):
        assert refusal(acceptor(), whole[:at]) == CloseReason.INVALID


def test_bytes_behind_a_handshake_message_are_ignored() -> None:
    session = acceptor()
    assert session.receive(init_syn() + b"\x1b\x1b", 0.0) == []
    assert session.state is State.INIT_ANSWERED


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"cookie": b"other"}, CloseReason.INVALID),
        ({"cookie": b""}, CloseReason.INVALID),
        ({"A": 1}, CloseReason.INVALID),
        ({"lease": 0}, CloseReason.INVALID),
        ({"initial_sn": 1 << 32}, CloseReason.INVALID),
        ({"extensions": [UnknownExtension(M=1, ext_id=0xF)]}, CloseReason.UNSUPPORTED),
    ],
    ids=["cookie", "no cookie", "OpenAck", "lease", "initial_sn", "mandatory"],
)
def test_wrong_open_gets_the_close_it_deserves(fields: dict[str, Any], reason: int) -> None:
    session = acceptor()
    assert refusal(session, open_syn(answered(session), **fields)) == reason


def test_cookie_of_another_handshake_is_refused() -> None:
    one, two = acceptor(seed=1), acceptor(seed=2)
    first, second = answered(one), answered(two)
    assert first.cookie != second.cookie
    assert refusal(one, open_syn(second)) == CloseReason.INVALID
    assert isinstance(two.receive(open_syn(second), 0.0)[0], Opened)


@pytest.mark.parametrize("extended", [b"\0", b"x"])
def test_cookie_with_more_behind_it_is_refused(extended: bytes) -> None:
    session = acceptor()
    answer = answered(session)
    assert refusal(session, open_syn(answer, cookie=answer.cookie + extended)) == CloseReason.INVALID


@pytest.mark.parametrize(("fsn", "bits"), [(0, 8), (1, 16), (2, 32)])
def test_initial_sn_of_the_range_on_the_page_is_taken(fsn: int, bits: int) -> None:
    for sn, taken in ((0, True), ((1 << bits) - 1, True), (1 << bits, False)):
        session = acceptor()
        answer = answered(session, S=1, fsn=fsn)
        (event,) = session.receive(open_syn(answer, initial_sn=sn), 0.0)
        assert isinstance(event, Opened) == taken


def test_extensions_that_were_not_offered_are_not_answered() -> None:
    session = acceptor(offer={"qos": True, "patch": 1, "lowlatency": True, "compression": True})
    answer = answered(session)
    assert not answer.extensions


def test_answer_has_what_both_have_each_extension_optional() -> None:
    session = acceptor(offer={"qos": True, "patch": 1, "compression": True})
    answer = answered(session, extensions=[QoSOffer(), Patch(patch=200), LowLatency(), Compression()])
    assert [type(extension) for extension in answer.extensions] == [QoSOffer, Compression, Patch]
    assert answer.extensions[-1].patch == 1
    assert not any(extension.value("M") for extension in answer.extensions)


def test_qos_link_is_told_from_qos_and_not_taken_up() -> None:
    offer = {"qos": True}
    assert not answered(acceptor(offer=offer), extensions=[QoSLink(qos=1)]).extensions
    both = answered(acceptor(offer=offer), extensions=[QoSOffer(), QoSLink(qos=1)])
    assert [type(extension) for extension in both.extensions] == [QoSOffer]


def test_multilink_is_not_taken_up() -> None:
    answer = answered(acceptor(), extensions=[MultiLinkInitSyn(n=b"n", e=b"e")])
    assert not answer.extensions


def test_lanes_and_low_latency_do_not_meet() -> None:
    session = acceptor(offer={"qos": True, "lowlatency": True})
    answer = answered(session, extensions=[LowLatency(), QoSOffer()])
    assert [type(extension) for extension in answer.extensions] == [QoSOffer]


def test_reserved_bits_of_the_proposal_are_not_echoed() -> None:
    session = acceptor()
    raw = bytearray(init_syn(S=1, fsn=2, rid=2))
    raw[2] |= 0x0C
    raw[3 + len(CONNECTING)] |= 0xF0
    session.receive(bytes(raw), 0.0)
    (batch,) = session.batches_to_send(0.0)
    assert batch[2] & 0x0C == 0


# Users ---------------------------------------------------------------------------------------------


def test_right_password_opens() -> None:
    me = Credentials(user=b"alice", password=b"secret")
    joined = pair({"credentials": me}, {"users": USERS})
    assert joined.open
    assert b"secret" not in b"".join(batch for _, batch in joined.travelled)


@pytest.mark.parametrize(
    "me",
    [
        None,
        Credentials(user=b"alice", password=b"guess"),
        Credentials(user=b"bob", password=b"secret"),
        Credentials(user=b"bob", password=b""),
        Credentials(user=b"", password=b""),
    ],
    ids=["none", "password", "user", "nobody", "empty"],
)
def test_wrong_or_missing_password_is_closed(me: Credentials | None) -> None:
    joined = pair({"credentials": me}, {"users": USERS})
    assert not joined.open
    closed = joined.closed(joined.connecting)
    assert closed is not None
    assert closed.reason == CloseReason.INVALID


def test_proof_is_the_keyed_hash_that_real_nodes_send() -> None:
    key, password = bytes([8, 7, 6, 5, 4, 3, 2, 1]), b"pass"
    proof = hmac.new(key, password, hashlib.sha3_256).digest()
    assert Policy().accepts_user({b"u": password}, b"u", 0x0102030405060708, proof)
    assert not Policy().accepts_user({b"u": password}, b"u", 0x0102030405060709, proof)


def test_replayed_proof_is_refused() -> None:
    me = Credentials(user=b"alice", password=b"secret")
    joined = pair({"credentials": me}, {"users": USERS})
    old = joined.travelled[2][1]
    again = acceptor(seed=99, users=USERS)
    answer = answered(again, extensions=[AuthInitSyn(extensions=[UsrPwd()])])
    replay = contents(old).messages[0]
    assert refusal(again, open_syn(answer, extensions=replay.extensions)) == CloseReason.INVALID


# Who may have a session ----------------------------------------------------------------------------


def attempt(registry: Registry, zid: bytes, own: bytes = ACCEPTING) -> Pair:
    connecting = end(zid, seed=3)
    accepting = end(own, seed=4, registry=registry)
    return Pair(connecting, accepting).start()


def test_limit_of_sessions_is_answered_with_its_reason_and_frees_again() -> None:
    registry = Registry(max_sessions=1)
    first = attempt(registry, b"\x01")
    second = attempt(registry, b"\x03")
    closed = second.closed(second.connecting)
    assert closed is not None
    assert closed.reason == CloseReason.MAX_SESSIONS
    assert first.open
    first.connecting.close()
    first.run()
    assert attempt(registry, b"\x03").open


def test_second_link_of_a_node_is_refused_and_the_first_lives() -> None:
    registry = Registry()
    first, second = attempt(registry, b"\x01"), attempt(registry, b"\x01")
    closed = second.closed(second.connecting)
    assert closed is not None
    assert closed.reason == CloseReason.MAX_LINKS
    assert first.open
    assert list(registry.present) == [b"\x01"]


def test_connection_to_self_is_refused() -> None:
    joined = attempt(Registry(), ACCEPTING)
    closed = joined.closed(joined.connecting)
    assert closed is not None
    assert closed.reason == CloseReason.CONNECTION_TO_SELF


@pytest.mark.parametrize("how", ["close", "link", "expired"])
def test_same_node_can_come_back_after_every_kind_of_end(how: str) -> None:
    registry = Registry()
    for _ in range(20):
        joined = attempt(registry, b"\x01")
        assert joined.open
        match how:
            case "close":
                joined.connecting.close()
                joined.run()
            case "link":
                joined.accepting.link_ended("end of stream")
            case _:
                joined.accepting.tick(1e9)
        assert not registry.present


# In the session --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [Init(zid=b"\x01"), Open(A=1), Join(zid=b"\x01"), TransportOam(oam_id=7), KeepAlive()],
    ids=lambda message: str(message.name),
)
def test_transport_messages_out_of_place_change_nothing(message: Message) -> None:
    joined = pair()
    assert joined.accepting.receive(bytes(message), 0.0) == []
    assert joined.open
    assert joined.accepting.batches_to_send(0.0) == []


def test_network_message_outside_frame_ends_the_session() -> None:
    joined = pair()
    assert refusal(joined.accepting, bytes(put())) == CloseReason.INVALID


def test_frame_in_a_low_latency_session_ends_it() -> None:
    joined = pair(lowlatency=True)
    assert refusal(joined.accepting, bytes(Frame(sn=0, messages=[put()]))) == CloseReason.INVALID


def test_low_latency_messages_go_bare_behind_long_lengths() -> None:
    joined = pair(lowlatency=True)
    message = put(data=bytes(100_000))
    joined.connecting.send(message)
    (unit,) = joined.connecting.units_to_send(0.0)
    assert unit.prefix == 4
    assert unit.raw == bytes(message)
    (event,) = joined.accepting.receive(unit.raw, 0.0)
    assert isinstance(event, Received)
    assert joined.accepting.limit > MAX_BATCH


def test_big_low_latency_messages_may_be_compressed() -> None:
    joined = pair(lowlatency=True, compression=True)
    message = put(data=bytes(200_000))
    joined.connecting.send(message)
    joined.run()
    assert [bytes(m) for m in joined.received(joined.accepting)] == [bytes(message)]


def test_compressed_batches_carry_their_header_only_behind_open() -> None:
    joined = pair(compression=True)
    handshake = [batch[0] & 0x1F for _, batch in joined.travelled]
    assert handshake == [1, 1, 2, 2]
    joined.connecting.send(put(data=bytes(5000)))
    joined.connecting.send(put(data=random.Random(1).randbytes(100)))
    small, stored = joined.connecting.batches_to_send(0.0)
    assert small[0] == 1
    assert len(small) < 200
    assert stored[0] == 0
    for batch in (small, stored):
        assert isinstance(joined.accepting.receive(batch, 0.0)[0], Received)


@pytest.mark.parametrize(
    "batch", [b"", b"\x01\xff\xff", b"\x01", b"\x00\x1b"], ids=lambda b: b.hex() or "empty"
)
def test_compressed_rubbish_ends_the_session(batch: bytes) -> None:
    joined = pair(compression=True)
    (event,) = joined.accepting.receive(batch, 0.0)
    assert isinstance(event, Closed)
    (close,) = joined.accepting.batches_to_send(0.0)
    assert close[0] == 0
    assert event.reason == CloseReason.INVALID


def test_messages_queued_together_share_a_frame_when_batching() -> None:
    joined = pair({"batching": True})
    for key in "abc":
        joined.connecting.send(put(key))
    joined.connecting.send(put("d"), reliable=False)
    batches = joined.connecting.batches_to_send(0.0)
    frames = [decode_batch(batch) for batch in batches]
    assert [[len(m.messages) for m in batch if isinstance(m, Frame)] for batch in frames] == [[3], [1]]


@pytest.mark.parametrize("size", [40, 100, 1000])
def test_shared_frames_stay_within_the_batch_size(size: int) -> None:
    joined = pair({"batching": True}, batch_size=size)
    for number in range(200):
        joined.connecting.send(put(f"k{number}", bytes(number % 7)))
    assert max(len(batch) + 2 for batch in joined.connecting.batches_to_send(0.0)) <= size


def test_express_messages_do_not_share() -> None:
    joined = pair({"batching": True})
    express = [QoS(E=1)]
    joined.connecting.send(put("a"))
    joined.connecting.send(put("b", extensions=express))
    joined.connecting.send(put("c", extensions=express))
    joined.connecting.send(put("d"))
    assert len(joined.connecting.batches_to_send(0.0)) == 4


@pytest.mark.parametrize(("patch", "kept"), [(0, 0), (1, 1)])
def test_block_first_is_sent_only_where_it_is_known(patch: int, kept: int) -> None:
    joined = pair(patch=patch)
    message = put(extensions=[QoS(F=1, priority=3)])
    joined.connecting.send(message)
    joined.run()
    (came,) = joined.received(joined.accepting)
    assert (came.extensions[0].F, came.extensions[0].priority) == (kept, 3)
    assert message.extensions[0].F == 1


def test_messages_of_a_unit_are_what_its_bytes_say() -> None:
    joined = pair({"batching": True})
    for key in "ab":
        joined.connecting.send(put(key))
    (unit,) = joined.connecting.units_to_send(0.0)
    raw = unit.raw
    (frame,) = unit.messages
    assert isinstance(frame, Frame)
    assert [inner.key_suffix for inner in frame.messages] == ["a", "b"]
    assert bytes(frame) == raw
    assert unit.raw == raw


def test_close_stops_everything_behind_it() -> None:
    joined = pair()
    sn = joined.connecting.initial_sn
    batch = bytes(Close(reason=3)) + bytes(Frame(R=1, sn=sn, messages=[put()]))
    assert joined.accepting.receive(batch, 0.0) == [Closed(3, by_us=False, why="CLOSE received")]
    assert joined.accepting.batches_to_send(0.0) == []
    with pytest.raises(LocalError):
        joined.accepting.send(put())


@pytest.mark.parametrize("session_flag", [0, 1])
def test_close_with_either_flag_ends_a_session_of_one_link(session_flag: int) -> None:
    joined = pair()
    (event,) = joined.accepting.receive(bytes(Close(S=session_flag, reason=0)), 0.0)
    assert isinstance(event, Closed)


def test_frame_in_the_batch_of_open_is_taken() -> None:
    session = acceptor()
    answer = answered(session)
    events = session.receive(open_syn(answer) + bytes(Frame(R=1, sn=5, messages=[put()])), 0.0)
    assert [type(event) for event in events] == [Opened, Received]


@pytest.mark.parametrize("fsn", [0, 1, 2])
def test_number_beyond_the_resolution_ends_the_session(fsn: int) -> None:
    joined = pair(fsn=fsn)
    sn = 1 << (8, 16, 32)[fsn]
    assert refusal(joined.accepting, bytes(Frame(R=1, sn=sn, messages=[put()]))) == CloseReason.INVALID


def test_over_long_length_is_answered_with_close() -> None:
    joined = pair()
    (event,) = joined.accepting.refuse(Overlong("batch length", "70000 bytes, at most 65535"))
    assert isinstance(event, Closed)
    assert event.reason == CloseReason.INVALID
    assert joined.accepting.refuse(Overlong("batch length", "again")) == []


# Time ------------------------------------------------------------------------------------------------


def test_idle_session_lives_by_keep_alives_every_quarter_of_the_smaller_lease() -> None:
    joined = pair({"lease": 1.0}, {"lease": 60.0})
    before = len(joined.travelled)
    joined.tick(10.0)
    assert joined.open
    each = {
        session: sum(1 for who, _ in joined.travelled[before:] if who is session) for session in joined.seen
    }
    assert each == {joined.connecting: 40, joined.accepting: 40}


@pytest.mark.parametrize(("ours", "theirs"), [(1.0, 60.0), (60.0, 1.0)])
def test_silence_for_the_smaller_lease_ends_with_expired(ours: float, theirs: float) -> None:
    joined = pair({"lease": theirs}, {"lease": ours})
    session = joined.accepting
    assert session.tick(0.99) == []
    (event,) = session.tick(1.0)
    assert isinstance(event, Closed)
    assert event.reason == CloseReason.EXPIRED
    assert sent(session)[-1].reason == CloseReason.EXPIRED


@pytest.mark.parametrize("side", ["accepting", "connecting"])
def test_handshake_that_stops_is_given_up_in_time(side: str) -> None:
    session = end(ACCEPTING)
    getattr(session, side.replace("ing", ""))(100.0)
    session.batches_to_send(100.0)
    assert session.next_deadline() == 110.0
    assert session.tick(109.9) == []
    (event,) = session.tick(110.0)
    assert isinstance(event, Closed)
    assert session.next_deadline() is None


def test_handshake_without_a_limit_waits_for_ever() -> None:
    session = end(ACCEPTING)
    session.accept()
    assert session.next_deadline() is None
    assert session.tick(1e9) == []


def test_end_of_the_link_is_an_event_and_says_nothing() -> None:
    joined = pair()
    assert joined.accepting.link_ended("end of stream") == [Closed(None, by_us=False, why="end of stream")]
    assert joined.accepting.batches_to_send(0.0) == []
    assert joined.accepting.link_ended("again") == []


def test_every_start_is_allowed_once() -> None:
    session = end(ACCEPTING)
    session.accept()
    with pytest.raises(LocalError, match="accepting"):
        session.connect()


# Robustness ------------------------------------------------------------------------------------------


@given(
    st.lists(st.binary(max_size=80), max_size=6),
    st.sampled_from(["accept", "answered", "open", "low", "lz4"]),
)
def test_no_bytes_make_the_machine_fail(batches: list[bytes], where: str) -> None:
    match where:
        case "accept":
            session = acceptor()
        case "answered":
            session = acceptor()
            answered(session)
        case "open":
            session = pair(qos=True, patch=1).accepting
        case "low":
            session = pair(lowlatency=True).accepting
        case _:
            session = pair(compression=True).accepting
    for batch in batches:
        session.receive(batch, 0.0)
        session.batches_to_send(0.0)
    session.tick(1e6)
    assert session.over


def test_every_state_of_the_table_is_reached_by_some_change() -> None:
    reached = set(TABLE.values()) | {State.IDLE}
    assert reached == set(State)


def test_priorities_of_the_lanes_reach_the_other_end() -> None:
    joined = pair(qos=True)
    for priority in Priority:
        joined.connecting.send(put(f"p{int(priority)}"), priority=priority)
        joined.connecting.send(put(f"p{int(priority)}"), priority=priority, reliable=False)
    joined.run()
    events = [event for event in joined.seen[joined.accepting] if isinstance(event, Received)]
    assert [(event.priority, event.reliable) for event in events] == [
        (int(priority), reliable) for priority in Priority for reliable in (True, False)
    ]


# What is queued --------------------------------------------------------------------------------------


def test_queue_is_taken_in_parts_and_fragments_are_made_when_they_leave() -> None:
    joined = pair(patch=1, batch_size=100)
    session = joined.connecting
    big, small = put("big", bytes(2000)), put("small")
    session.send(big)
    session.send(small)
    assert session.waiting == len(bytes(big)) + len(bytes(small))
    came: list[Message] = []
    before = session.waiting
    while session.has_more:
        units = session.units_to_send(0.0, 3)
        assert 1 <= len(units) <= 3
        assert session.waiting < before
        before = session.waiting
        for unit in units:
            events = joined.accepting.receive(unit.raw, 0.0)
            came += [event.message for event in events if isinstance(event, Received)]
    assert [bytes(message) for message in came] == [bytes(big), bytes(small)]
    assert session.waiting == 0
    assert session.units_to_send(0.0) == []


def test_messages_that_come_while_fragments_leave_stay_behind_them() -> None:
    joined = pair({"batching": True}, patch=1, batch_size=100)
    session = joined.connecting
    session.send(put("big", bytes(1000)))
    first = session.units_to_send(0.0, 2)
    session.send(put("next"))
    session.send(put("again"))
    for unit in [*first, *session.units_to_send(0.0)]:
        joined.seen[joined.accepting] += joined.accepting.receive(unit.raw, 0.0)
    assert [m.key_suffix for m in joined.received(joined.accepting)] == ["big", "next", "again"]
    assert joined.dropped(joined.accepting) == []


@pytest.mark.parametrize(("reason", "kept"), [(CloseReason.GENERIC, True), (CloseReason.UNRESPONSIVE, False)])
def test_what_is_queued_leaves_before_close_unless_nobody_reads(reason: CloseReason, kept: bool) -> None:
    joined = pair()
    joined.connecting.send(put())
    joined.connecting.close(reason)
    names = [message.name for message in sent(joined.connecting)]
    assert names == (["FRAME"] if kept else []) + ["CLOSE"]


def test_batch_size_without_room_for_a_fragment_is_our_own_mistake() -> None:
    outbox = Outbox(Policy(), Offer(batch_size=FRAME_ROOM), batching=False)
    with pytest.raises(LocalError, match="no room"):
        outbox.put(put("a", bytes(50)), (True, 5), prefix=2)


def test_who_breaks_the_protocol_is_not_told_the_rest() -> None:
    joined = pair()
    joined.accepting.send(put())
    joined.accepting.receive(b"\x1b", 0.0)
    assert [message.name for message in sent(joined.accepting)] == ["CLOSE"]


def test_bytes_that_are_known_are_not_built_again() -> None:
    joined = pair()
    message = put("a", b"1")
    raw = bytes(message)
    joined.connecting.send(message, raw=raw)
    joined.run()
    assert [bytes(m) for m in joined.received(joined.accepting)] == [raw]


def test_known_bytes_do_not_count_where_the_message_must_change() -> None:
    joined = pair(patch=0)
    message = put(extensions=[QoS(F=1, priority=3)])
    joined.connecting.send(message, raw=bytes(message))
    joined.run()
    (came,) = joined.received(joined.accepting)
    assert came.extensions[0].F == 0
