"""One session after another, by hand: what is settled, resolved, tied together, and what is said to be wrong."""

from __future__ import annotations

import pytest

from scapy_layers.codes import DeclarationId, InterestMode, Priority, Resolution, WhatAmI
from scapy_layers.conversation import Conversations, Heard, Lane, Limits, RemarkKind, Unread, identify
from scapy_layers.data import Err, Put, Query, Reply
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareSubscriber,
    DeclareToken,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import (
    Compression,
    Drop,
    JoinLanes,
    LowLatency,
    MultiLinkInitAck,
    MultiLinkInitSyn,
    NodeId,
    Patch,
    QoSLink,
    QoSOffer,
    WireExpr,
)
from scapy_layers.message import Extension, Message
from scapy_layers.network import Declare, Interest, Request, Response, ResponseFinal
from scapy_layers.primitives import Reader
from scapy_layers.stream import End, Endpoint, Framing
from scapy_layers.transport import Close, Init, Join, KeepAlive, Open
from tests.scapy_layers.conversation.pair import (
    ALICE,
    BOB,
    COOKIE,
    DATA,
    A,
    B,
    Pair,
    alias,
    fragment,
    frame,
    kinds,
    names,
    no_alias,
    put,
)
from tests.scapy_layers.golden import raw


def opened(*extensions: Extension, sn: tuple[int, int] = (10, 20), fsn: int = 2) -> Pair:
    pair = Pair()
    assert not kinds(pair.handshake(*extensions, sn=sn, fsn=fsn))
    return pair


def request(number: int, key: str = "a/b") -> Request:
    return Request(request_id=number, key_suffix=key, body=Query())


def response(number: int, key: str = "a/b") -> Response:
    return Response(request_id=number, key_suffix=key, body=Reply(body=Put(data=b"!")))


def subscriber(number: int, key: str, *chain: Extension, answers: int | None = None) -> Declare:
    body = DeclareSubscriber(entity_id=number, key_suffix=key)
    return Declare(interest_id=answers, extensions=list(chain), body=body)


def no_subscriber(number: int, key: str = "", *chain: Extension) -> Declare:
    named = [WireExpr(mapping=1, key_suffix=key)] if key else []
    return Declare(extensions=list(chain), body=UndeclareSubscriber(entity_id=number, extensions=named))


# The handshake ------------------------------------------------------------------------------------


def test_handshake_tells_both_ends_on_every_message() -> None:
    pair = Pair()
    heard = pair.handshake()
    assert [(one.source_zid, one.target_zid) for one in heard] == [(A, None), (B, A), (A, B), (B, A)]
    (keep_alive,) = pair.answer(KeepAlive())
    assert (keep_alive.source_zid, keep_alive.target_zid, keep_alive.lane) == (B, A, None)
    assert (keep_alive.number, keep_alive.time) == (5, 5 * 10**9)


def test_handshake_settles_the_lower_value_and_what_both_name() -> None:
    pair = Pair()
    pair.say(
        Init(zid=ALICE, fsn=3, rid=1, batch_size=9000, extensions=[QoSOffer(), Patch(patch=3), LowLatency()])
    )
    chain = [QoSOffer(), Patch(patch=1)]
    pair.answer(Init(A=1, whatami=0, zid=BOB, fsn=1, rid=2, batch_size=4000, cookie=COOKIE, extensions=chain))
    pair.say(Open(T=1, lease=10, initial_sn=7, cookie=COOKIE))
    (ack,) = pair.answer(Open(A=1, T=0, lease=2500, initial_sn=9))
    session = ack.session
    assert session is not None
    assert session.zids == (A, B)
    assert [party.whatami for party in session.parties] == [WhatAmI.CLIENT, WhatAmI.ROUTER]
    assert [party.lease for party in session.parties] == [10_000, 2500]
    assert (session.fsn, session.rid, session.mask) == (Resolution.BITS_16, Resolution.BITS_16, 0x3FFF)
    assert (session.batch_size, session.patch) == (4000, 1)
    assert (session.qos, session.lowlatency, session.compression) == (True, False, False)
    assert session.links == [pair.link]


def test_handshake_without_sizes_means_the_defaults() -> None:
    pair = Pair()
    pair.say(Init(zid=ALICE))
    (ack,) = pair.answer(Init(A=1, whatami=0, zid=BOB, cookie=COOKIE))
    assert ack.session is not None
    assert (ack.session.fsn, ack.session.batch_size, ack.session.patch) == (Resolution.BITS_32, 65_535, 0)


@pytest.mark.parametrize(
    ("link", "lanes"),
    [
        (QoSLink(qos=1), True),
        (QoSLink(has_priorities=1, first_priority=6, last_priority=7), True),
        (QoSLink(), False),
    ],
)
def test_qoslink_means_lanes_unless_it_is_empty(link: QoSLink, lanes: bool) -> None:
    (*_, ack) = Pair().handshake(link)
    assert ack.session is not None
    assert ack.session.qos is lanes


def test_low_latency_changes_the_framing_of_both_ways_after_open() -> None:
    pair = Pair()
    framings = []
    for step in range(4):
        pair_step(pair, step)
        framings.append(tuple(way.framing for way in pair.link.ways))
    either, long = Framing.EITHER, Framing.LONG
    assert framings == [(either, either), (either, either), (long, either), (long, long)]
    (heard,) = pair.say(put("a/b"))
    assert (heard.keyexpr, heard.lane, heard.within, heard.remarks) == ("a/b", None, None, [])


def pair_step(pair: Pair, step: int) -> list[Heard]:
    chain = [LowLatency()]
    message = (
        Init(zid=ALICE, extensions=chain),
        Init(A=1, whatami=0, zid=BOB, cookie=COOKIE, extensions=chain),
        Open(T=1, lease=10, initial_sn=7, cookie=COOKIE),
        Open(A=1, T=1, lease=10, initial_sn=7),
    )[step]
    return pair.say(message, back=bool(step % 2))


def test_low_latency_that_was_offered_is_found_out_when_the_answer_was_not_heard() -> None:
    pair = Pair()
    pair.say(Init(zid=ALICE, extensions=[LowLatency()]))
    pair.say(Open(T=1, lease=10, initial_sn=7, cookie=COOKIE))
    assert [way.framing for way in pair.link.ways] == [Framing.EITHER, Framing.EITHER]
    (heard,) = pair.say(put("a/b"))
    assert (heard.keyexpr, heard.remarks) == ("a/b", [])
    assert [way.framing for way in pair.link.ways] == [Framing.LONG, Framing.EITHER]


def test_handshake_without_any_init_leaves_the_framing_open_until_a_frame() -> None:
    pair = Pair()
    pair.say(Open(T=1, lease=10, initial_sn=7, cookie=COOKIE))
    assert [way.framing for way in pair.link.ways] == [Framing.EITHER, Framing.EITHER]
    pair.say(frame(7, put("a")))
    assert [way.framing for way in pair.link.ways] == [Framing.SHORT, Framing.SHORT]


def test_low_latency_that_was_not_offered_is_not_thought_of() -> None:
    pair = Pair()
    pair.say(Init(zid=ALICE))
    pair.say(Open(T=1, lease=10, initial_sn=7, cookie=COOKIE))
    assert [way.framing for way in pair.link.ways] == [Framing.SHORT, Framing.SHORT]


def test_low_latency_of_one_end_changes_nothing() -> None:
    pair = Pair()
    pair.say(Init(zid=ALICE, extensions=[LowLatency()]))
    pair.answer(Init(A=1, whatami=0, zid=BOB, cookie=COOKIE))
    pair.say(Open(T=1, lease=10, initial_sn=7, cookie=COOKIE))
    pair.answer(Open(A=1, T=1, lease=10, initial_sn=7))
    assert [way.framing for way in pair.link.ways] == [Framing.SHORT, Framing.SHORT]


def test_low_latency_on_a_websocket_keeps_its_framing() -> None:
    pair = Pair()
    for way in pair.link.ways:
        way.framing = Framing.WEBSOCKET
    pair.handshake(LowLatency())
    assert [way.framing for way in pair.link.ways] == [Framing.WEBSOCKET, Framing.WEBSOCKET]


def test_open_ack_that_was_lost_is_taken_as_given() -> None:
    pair = Pair()
    for step in range(3):
        pair_step(pair, step)
    pair.gap(back=True)
    assert [way.framing for way in pair.link.ways] == [Framing.LONG, Framing.LONG]


@pytest.mark.parametrize(
    "bad", [frame(1, put("a")), fragment(1, b"x", first=True)], ids=["FRAME", "FRAGMENT"]
)
def test_numbered_message_in_low_latency_is_out_of_place(bad: Message) -> None:
    heard = opened(LowLatency()).say(bad)
    assert kinds(heard) == [RemarkKind.PLACE]
    assert all(one.ignored for one in heard)


def test_network_message_without_frame_is_out_of_place() -> None:
    (heard,) = opened().say(put("a/b"))
    assert (kinds([heard]), heard.ignored, heard.keyexpr) == ([RemarkKind.PLACE], True, "a/b")


def test_compression_begins_behind_open() -> None:
    block = raw("ff0025dbadee187d0003742f7801c801410100ae60414141414141")
    number = Reader(block[3:]).vle()
    pair = Pair()
    assert names(pair.handshake(Compression(), sn=(number - 1, 0))) == ["INIT", "INIT", "OPEN", "OPEN"]
    heard = [
        *pair.say(b"\x00", KeepAlive()),
        *pair.say(b"\x00", frame(number - 1, put("a"))),
        *pair.say(b"\x01", block),
    ]
    assert names(heard) == ["KEEP_ALIVE", "FRAME", "PUSH", "FRAME", "PUSH"]
    assert heard[-1].message.body.data == b"A" * 200
    assert not kinds(heard)


def test_handshake_of_which_one_end_was_not_captured_leaves_what_was_agreed() -> None:
    pair = Pair()
    pair.answer(Init(A=1, whatami=0, zid=BOB, cookie=COOKIE, extensions=[Compression()]))
    pair.answer(Open(A=1, lease=10, initial_sn=0))
    pair.gap()
    (_, heard) = pair.say(b"\0", frame(7, put("a")))
    assert (heard.keyexpr, heard.remarks) == ("a", [])


def test_compression_on_udp_is_noticed_although_open_was_lost() -> None:
    pair = Pair(tcp=False)
    chain: list[Extension] = [Compression()]
    pair.say(Init(zid=ALICE, extensions=chain))
    pair.answer(Init(A=1, whatami=0, zid=BOB, cookie=COOKIE, extensions=chain))
    _, heard = pair.say(b"\0", frame(7, put("a")))
    assert (heard.keyexpr, heard.remarks) == ("a", [])


def test_low_latency_has_no_header_byte_even_with_compression() -> None:
    pair = opened(LowLatency(), Compression())
    damaged = pair.say(b"\x00", put("a/b"))
    assert kinds(damaged) == [RemarkKind.REFUSED]
    assert not kinds(pair.say(put("a/b")))


def test_extension_that_comes_twice_counts_as_it_comes_last() -> None:
    (*_, ack) = Pair().handshake(Patch(patch=1), Patch(patch=3))
    assert ack.session is not None
    assert ack.session.patch == 3


def test_damaged_compression_is_told_with_its_place() -> None:
    (heard,) = opened(Compression()).say(b"\x01\xf0")
    assert isinstance(heard.message, Unread)
    (remark,) = heard.remarks
    assert (remark.kind, remark.field, remark.offset) == (RemarkKind.REFUSED, "batch.length", 1)


def test_close_of_a_failed_handshake_needs_no_header() -> None:
    pair = Pair()
    pair.say(Init(zid=ALICE, extensions=[Compression()]))
    pair.answer(Init(A=1, whatami=0, zid=BOB, cookie=COOKIE, extensions=[Compression()]))
    pair.say(Open(T=1, lease=10, initial_sn=7, cookie=COOKIE))
    assert names(pair.say(Close(reason=2))) == ["CLOSE"]


@pytest.mark.parametrize(
    "late", [Init(zid=ALICE), Open(T=1, lease=1, initial_sn=99, cookie=COOKIE), Join(zid=ALICE)]
)
def test_handshake_inside_a_session_changes_nothing(late: Message) -> None:
    pair = opened()
    heard = pair.say(late)
    assert (kinds(heard), heard[0].ignored) == ([RemarkKind.PLACE], True)
    assert not kinds(pair.say(frame(10, put("a"))))


# Frames -------------------------------------------------------------------------------------------


def test_frame_is_heard_once_then_what_it_carries() -> None:
    pair = opened(QoSOffer())
    heard = pair.say(frame(10, put("a"), put("b"), lane=1), KeepAlive(), frame(10, put("c"), reliable=False))
    assert names(heard) == ["FRAME", "PUSH", "PUSH", "KEEP_ALIVE", "FRAME", "PUSH"]
    assert [one.keyexpr for one in heard] == [None, "a", "b", None, None, "c"]
    real_time, data = Lane(Priority.REAL_TIME, reliable=True), Lane(DATA, reliable=False)
    assert [one.lane for one in heard] == [real_time, real_time, real_time, None, data, data]
    assert heard[1].within is heard[0].message
    assert not kinds(heard)


def test_priority_lane_without_qos_is_told() -> None:
    assert kinds(opened().say(frame(10, put("a"), lane=1))) == [RemarkKind.LANE]


def test_messages_in_front_of_a_refused_one_are_heard() -> None:
    pair = opened()
    bad = bytes(put("b"))[:-2]
    heard = pair.say(frame(10, alias(1, "a"), put("b")), bytes(frame(11, put("c"))) + bad + b"\x1f")
    assert [one.keyexpr for one in heard][:5] == [None, "a", "b", None, "c"]
    (remark,) = (remark for one in heard for remark in one.remarks)
    assert remark.kind is RemarkKind.REFUSED
    assert remark.field is not None
    assert remark.field.startswith("PUSH.body.PUT")
    assert remark.offset is not None
    assert remark.offset > 20


def test_refused_text_leaves_the_messages_behind_it() -> None:
    pair = opened()
    bad = bytes.fromhex("3d0001ff") + bytes(Put(data=b"x"))
    heard = pair.say(bytes(frame(10)) + bad + bytes(put("b")), frame(11, put("c")))
    assert [one.keyexpr for one in heard] == [None, "\udcff", "b", None, "c"]
    assert [one.refused for one in heard] == [False, True, False, False, False]


def test_unknown_id_is_told_with_all_that_is_left() -> None:
    keep_alive, left = opened().say(KeepAlive(), b"\x08\x01\x02")
    assert keep_alive.remarks == []
    assert isinstance(left.message, Unread)
    assert left.message.data == b"\x08\x01\x02"
    assert [(remark.offset, remark.field) for remark in left.remarks] == [(1, "header")]


def test_number_behind_a_refused_batch_is_no_gap() -> None:
    pair = opened()
    pair.say(frame(10, put("a")))
    pair.say(b"\x08")
    assert not kinds(pair.say(frame(14, put("a"), put(scope=3))))


# Sequence numbers ---------------------------------------------------------------------------------


def test_lanes_count_apart_and_from_the_number_in_open() -> None:
    pair = opened(QoSOffer())
    for heard in (
        pair.say(frame(10, put("a"))),
        pair.say(frame(10, put("a"), reliable=False)),
        pair.say(frame(10, put("a"), lane=0)),
        pair.say(frame(11, put("a"))),
        pair.answer(frame(20, put("a"))),
    ):
        assert not kinds(heard)
    assert kinds(pair.answer(frame(21, put("a"), lane=7))) == [RemarkKind.GAP]
    assert kinds(pair.say(frame(13, put("a"), reliable=False))) == [RemarkKind.LOSS]


def test_repeated_frame_is_ignored_with_all_it_carries() -> None:
    pair = opened()
    pair.say(frame(10, alias(1, "a")))
    heard = pair.say(frame(10, alias(2, "b")))
    assert kinds(heard) == [RemarkKind.DUPLICATE]
    assert [one.ignored for one in heard] == [True, True]
    assert heard[1].exchange is None
    assert pair.say(frame(11, put(scope=2)))[1].keyexpr is None


def test_number_outside_the_resolution_is_told() -> None:
    assert kinds(opened(fsn=0).say(frame(128, put("a")))) == [RemarkKind.RANGE]


def test_number_wraps_at_the_agreed_resolution() -> None:
    pair = opened(fsn=0, sn=(126, 0))
    assert not kinds([*pair.say(frame(126)), *pair.say(frame(127)), *pair.say(frame(0)), *pair.say(frame(1))])


def test_number_behind_a_gap_is_taken_as_it_is() -> None:
    pair = opened()
    pair.say(frame(10))
    pair.answer(frame(20))
    pair.gap()
    assert not kinds(pair.say(frame(55)))
    assert kinds(pair.answer(frame(22))) == [RemarkKind.GAP]
    assert kinds(pair.say(frame(57))) == [RemarkKind.GAP]


def test_gap_before_the_first_number_of_a_lane_is_no_alarm() -> None:
    pair = opened()
    pair.gap()
    assert not kinds(pair.say(frame(17)))


# Aliases ------------------------------------------------------------------------------------------


def test_alias_is_resolved_from_both_ends_and_undeclared() -> None:
    pair = opened()
    declared = pair.say(frame(10, alias(1, "robot/1"), put("/temp", scope=1)))
    assert [one.keyexpr for one in declared[1:]] == ["robot/1", "robot/1/temp"]
    answered = pair.answer(frame(20, put("/x", scope=1, own=False), put(scope=1, own=False)))
    assert [one.keyexpr for one in answered[1:]] == ["robot/1/x", "robot/1"]
    assert not kinds([*declared, *answered])
    heard = pair.say(frame(11, no_alias(1), put("/temp", scope=1)))
    assert [one.keyexpr for one in heard[1:]] == ["robot/1", None]
    assert kinds(heard) == [RemarkKind.ALIAS]
    assert heard[1].exchange is declared[1].exchange


def test_alias_of_one_end_is_not_one_of_the_other() -> None:
    pair = opened()
    pair.say(frame(10, alias(1, "a")))
    heard = pair.answer(frame(20, put(scope=1)))
    assert (heard[1].keyexpr, kinds(heard)) == (None, [RemarkKind.ALIAS])


def test_message_under_way_while_its_alias_is_undeclared_keeps_its_key() -> None:
    pair = opened()
    pair.say(frame(10, alias(1, "a"), no_alias(1)))
    heard = pair.answer(frame(20, put("/b", scope=1, own=False)))
    assert (heard[1].keyexpr, kinds(heard)) == ("a/b", [])


def test_alias_that_is_in_use_stays_as_in_real_nodes() -> None:
    pair = opened()
    heard = pair.say(frame(10, alias(1, "a"), alias(1, "a"), alias(1, "b"), put(scope=1)))
    assert kinds(heard) == [RemarkKind.ALIAS]
    assert heard[4].keyexpr == "a"
    heard = pair.say(frame(11, no_alias(1), alias(1, "b"), put(scope=1)))
    assert (heard[3].keyexpr, kinds(heard)) == ("b", [])


def test_alias_may_build_on_an_earlier_one_of_its_sender() -> None:
    heard = opened().say(frame(10, alias(1, "a"), alias(2, "/b", scope=1), put("/c", scope=2)))
    assert (heard[3].keyexpr, kinds(heard)) == ("a/b/c", [])


def test_alias_unknown_behind_a_gap_is_no_alarm() -> None:
    pair = opened()
    pair.gap()
    heard = pair.say(frame(30, put(scope=1)))
    assert (heard[1].keyexpr, kinds(heard)) == (None, [])
    assert kinds(pair.answer(frame(20, put(scope=1)))) == [RemarkKind.ALIAS]


def test_aliases_end_with_their_connection() -> None:
    hearing = Conversations()
    pair = Pair(hearing)
    pair.handshake()
    pair.say(frame(10, alias(1, "a")))
    pair.end()
    again = Pair(hearing, number=1)
    again.handshake()
    heard = again.say(frame(10, put(scope=1)))
    assert (heard[1].keyexpr, kinds(heard)) == (None, [RemarkKind.ALIAS])


def test_reset_ends_both_ways() -> None:
    pair = opened()
    pair.say(frame(10, alias(1, "a")))
    pair.end(reset=True)
    heard = pair.say(frame(11, put(scope=1)))
    assert (heard[1].keyexpr, heard[1].source_zid) == (None, None)


def test_reset_of_one_way_ends_the_link() -> None:
    pair = opened()
    list(pair.hearing.hear(End(pair.link.ways[0], 9, 9, reset=True)))
    assert pair.answer(frame(20))[0].source_zid is None


def test_messages_behind_the_end_of_the_other_way_are_still_known() -> None:
    pair = opened()
    pair.say(frame(10, alias(1, "a")))
    pair.say(Close(reason=0))
    heard = pair.answer(frame(20, put(scope=1, own=False)))
    assert heard[1].keyexpr == "a"


@pytest.mark.parametrize("header", [b"", b"\0"])
def test_close_said_again_on_udp_is_one_of_the_session_and_nothing_else_is(header: bytes) -> None:
    pair = Pair(tcp=False)
    first = pair.handshake(*([Compression()] if header else []))[-1]
    for back in (False, True, False):
        (close,) = pair.say(header + bytes(Close(reason=0)), back=back)
        assert (close.message.name, close.session, close.source_zid) == ("CLOSE", first.session, (A, B)[back])
    assert all(one.session is not first.session for one in pair.say(header + bytes(frame(10, put("a")))))
    (init,) = pair.say(Init(zid=ALICE))
    assert init.session is not first.session


def test_init_that_was_captured_behind_its_answer_begins_no_other_session() -> None:
    pair = Pair(tcp=False)
    (answer,) = pair.answer(Init(A=1, whatami=0, zid=BOB, cookie=bytes(8)))
    pair.answer(Open(A=1, lease=2500, initial_sn=20))
    (init,) = pair.say(Init(whatami=2, zid=ALICE))
    assert init.session is answer.session
    assert (init.source_zid, init.target_zid) == (A, B)
    assert pair.link.disordered


def test_empty_key_is_not_an_unknown_one() -> None:
    err = Response(request_id=1, body=Err(data=b"Timeout"))
    pair = opened()
    pair.say(frame(10, request(1)))
    assert pair.answer(frame(20, err))[1].keyexpr == ""


# Fragments ----------------------------------------------------------------------------------------


def test_fragments_become_the_message_they_carry() -> None:
    pair = opened(Patch(patch=1))
    whole = bytes(put("a/b", b"0123456789"))
    heard = [
        *pair.say(fragment(10, whole[:5], first=True)),
        *pair.say(KeepAlive()),
        *pair.say(fragment(11, whole[5:9])),
        *pair.say(fragment(12, whole[9:], more=False)),
    ]
    assert names(heard) == ["FRAGMENT", "KEEP_ALIVE", "FRAGMENT", "FRAGMENT", "PUSH"]
    push = heard[-1]
    assert (push.keyexpr, push.pieces, push.number) == ("a/b", (5, 7, 8), 8)
    assert push.within is heard[-2].message
    assert push.lane == Lane(DATA, reliable=True)
    assert push.message.body.data == b"0123456789"
    assert not kinds(heard)


def test_declaration_in_fragments_counts() -> None:
    pair = opened(Patch(patch=1))
    whole = bytes(alias(1, "a/b"))
    pair.say(fragment(10, whole[:4], first=True))
    pair.say(fragment(11, whole[4:], more=False))
    assert pair.say(frame(12, put(scope=1)))[1].keyexpr == "a/b"


def test_fragment_that_was_given_up_leaves_no_trace() -> None:
    pair = opened(Patch(patch=1))
    whole = bytes(put("a/b"))
    heard = [
        *pair.say(fragment(10, whole[:4], first=True)),
        *pair.say(fragment(11, b"", extra=[Drop()])),
        *pair.say(fragment(12, whole[:4], first=True)),
        *pair.say(fragment(13, whole[4:], more=False)),
    ]
    assert (names(heard)[-1], heard[-1].pieces, kinds(heard)) == ("PUSH", (7, 8), [])


@pytest.mark.parametrize("then", [frame(14, put("c")), fragment(14, b"\x1d", first=True), fragment(14, b"")])
def test_message_in_fragments_of_which_the_capture_lacks_some_is_no_alarm(then: Message) -> None:
    pair = opened(Patch(patch=1))
    pair.say(fragment(10, bytes(put("a/b"))[:4], first=True))
    pair.gap()
    assert kinds(pair.say(then)) == []


def test_chain_with_a_hole_is_lost() -> None:
    pair = opened(Patch(patch=1))
    whole = bytes(put("a/b"))
    pair.say(fragment(10, whole[:4], first=True))
    heard = pair.say(fragment(12, whole[4:], more=False))
    assert (names(heard), kinds(heard)) == (["FRAGMENT"], [RemarkKind.GAP, RemarkKind.FRAGMENT])


def datagrams(*extensions: Extension) -> Pair:
    pair = Pair(tcp=False)
    assert not kinds(pair.handshake(*extensions))
    return pair


@pytest.mark.parametrize("patch", [0, 1])
def test_datagram_of_a_fragment_that_is_lost_is_the_fault_of_nobody(patch: int) -> None:
    whole = bytes(put("a/b"))
    said = [
        fragment(10, whole[:4], first=bool(patch)),
        fragment(11, whole[4:], more=False),
        frame(12, put("c")),
        fragment(13, whole[:4], first=bool(patch)),
        fragment(14, whole[4:6]),
        fragment(15, whole[6:], more=False),
        fragment(16, whole[:4], first=bool(patch)),
        fragment(17, whole[4:], more=False),
        frame(18, put("c")),
    ]
    for lost in range(len(said)):
        pair = datagrams(Patch(patch=patch))
        heard = [one for index, message in enumerate(said) if index != lost for one in pair.say(message)]
        assert set(kinds(heard)) <= {RemarkKind.UNORDERED}, lost


def test_datagram_of_another_lane_or_end_that_is_lost_is_the_fault_of_nobody() -> None:
    pair = datagrams()
    heard = pair.say(frame(10, put(scope=1), no_alias(2), reliable=False))
    assert kinds(heard) == [RemarkKind.UNORDERED] * 2
    heard = pair.answer(frame(20, response(1), ResponseFinal(request_id=1), no_subscriber(1)))
    assert kinds(heard) == [RemarkKind.UNORDERED] * 3


def test_what_a_sender_leaves_undone_behind_a_lost_datagram_is_its_fault() -> None:
    pair = datagrams(Patch(patch=1))
    pair.say(frame(10, put("a")))
    assert kinds(pair.say(frame(12, put("a")))) == [RemarkKind.UNORDERED]
    assert kinds(pair.say(fragment(13, b"\x1d", first=True))) == []
    assert kinds(pair.say(fragment(14, b"\x1d", first=True))) == [RemarkKind.FRAGMENT]
    assert kinds(pair.say(frame(15, put("a")))) == [RemarkKind.FRAGMENT]
    assert kinds(pair.say(fragment(16, b"\x1d", more=False))) == [RemarkKind.FRAGMENT]
    assert kinds(pair.say(fragment(17, b"\x04", more=False, first=True))) == [RemarkKind.FRAGMENT]


def test_fragments_that_make_no_message_are_told() -> None:
    pair = opened(Patch(patch=1))
    assert kinds(pair.say(fragment(10, b"\x04", more=False, first=True))) == [RemarkKind.FRAGMENT]
    assert kinds(pair.say(fragment(11, b"", more=False, first=True))) == [RemarkKind.FRAGMENT]
    heard = pair.say(fragment(12, bytes(put("a/b"))[:-1], more=False, first=True))
    assert (names(heard), kinds(heard)) == (["FRAGMENT", "PUSH"], [RemarkKind.REFUSED])
    heard = pair.say(fragment(13, bytes(put("a")) + bytes(put("b")), more=False, first=True))
    assert ([one.keyexpr for one in heard], kinds(heard)) == ([None, "a"], [RemarkKind.FRAGMENT])


# Requests -----------------------------------------------------------------------------------------


def test_request_has_its_responses_and_final() -> None:
    pair = opened()
    asked = pair.say(frame(10, request(1), request(2, "c")))
    pair.answer(frame(20, response(2, "c"), response(1), response(1)))
    final = pair.answer(frame(21, ResponseFinal(request_id=1)))
    exchange = asked[1].exchange
    assert exchange is not None
    assert final[1].exchange is exchange
    assert (exchange.kind, exchange.id, exchange.keyexpr) == ("query", 1, "a/b")
    assert (exchange.asked, exchange.asked_time) == (5, 5 * 10**9)
    assert [answer.number for answer in exchange.answers] == [6, 6]
    assert (exchange.answered, exchange.ended, exchange.ended_time) == (2, 7, 7 * 10**9)
    other = asked[2].exchange
    assert other is not None
    assert (other.answered, other.ended) == (1, None)


def test_both_ends_use_the_same_request_id() -> None:
    pair = opened()
    first = pair.say(frame(10, request(1)))[1]
    second = pair.answer(frame(20, request(1, "z")))[1]
    assert pair.answer(frame(21, response(1)))[1].exchange is first.exchange
    assert pair.say(frame(11, response(1)))[1].exchange is second.exchange


def test_request_id_is_free_after_its_final() -> None:
    pair = opened()
    pair.say(frame(10, request(1)))
    pair.answer(frame(20, ResponseFinal(request_id=1)))
    again = pair.say(frame(11, request(1)))
    assert not kinds(again)
    assert kinds(pair.say(frame(12, request(1)))) == [RemarkKind.REQUEST]


def test_answer_to_nothing_is_told_if_the_request_must_have_been_heard() -> None:
    pair = opened()
    assert kinds(pair.answer(frame(20, response(1)))) == [RemarkKind.REQUEST]
    assert kinds(pair.answer(frame(21, ResponseFinal(request_id=1)))) == [RemarkKind.REQUEST]
    pair.gap()
    assert not kinds(pair.answer(frame(22, response(1))))


# Declarations -------------------------------------------------------------------------------------


def test_undeclaration_has_the_key_of_its_declaration() -> None:
    pair = opened()
    declared = pair.say(frame(10, alias(1, "a"), Declare(body=DeclareToken(M=1, entity_id=3, key_scope=1))))
    heard = pair.say(frame(11, Declare(body=UndeclareToken(entity_id=3))))
    assert (heard[1].keyexpr, kinds(heard)) == ("a", [])
    assert heard[1].exchange is declared[2].exchange
    assert heard[1].exchange is not None
    assert (heard[1].exchange.kind, heard[1].exchange.asked, heard[1].exchange.ended) == ("declaration", 5, 6)


def test_entity_ids_count_apart_for_each_kind_and_end() -> None:
    pair = opened()
    pair.say(frame(10, subscriber(1, "s"), Declare(body=DeclareToken(entity_id=1, key_suffix="t"))))
    pair.answer(frame(20, subscriber(1, "other")))
    heard = pair.say(frame(11, no_subscriber(1)))
    assert (heard[1].keyexpr, kinds(heard)) == ("s", [])


def test_routers_declare_with_id_0_by_node_and_key() -> None:
    pair = opened()
    near, far = NodeId(node_id=1), NodeId(node_id=2)
    heard = pair.say(
        frame(
            10,
            subscriber(0, "a", near),
            subscriber(0, "b", near),
            subscriber(0, "a", far),
        )
    )
    undeclared = pair.say(frame(11, no_subscriber(0, "a", near)))
    assert not kinds([*heard, *undeclared])
    assert undeclared[1].exchange is heard[1].exchange
    assert heard[3].exchange is not None
    assert heard[3].exchange.ended is None


def test_undeclaration_of_nothing_is_told_unless_it_says_its_key() -> None:
    pair = opened()
    assert kinds(pair.say(frame(10, no_subscriber(1)))) == [RemarkKind.DECLARATION]
    heard = pair.say(frame(11, no_subscriber(1, "a/b")))
    assert (heard[1].keyexpr, kinds(heard)) == ("a/b", [])


def test_entity_that_is_declared_again_is_the_same_unless_its_key_changes() -> None:
    pair = opened()
    first = pair.say(frame(10, subscriber(1, "a")))[1]
    again = pair.say(frame(11, subscriber(1, "a")))[1]
    assert again.exchange is first.exchange
    assert not again.remarks
    heard = pair.say(frame(12, subscriber(1, "b")))
    assert kinds(heard) == [RemarkKind.DECLARATION]
    assert pair.say(frame(13, no_subscriber(1)))[1].keyexpr == "b"


# Interests ----------------------------------------------------------------------------------------


def interest(mode: InterestMode, number: int = 4) -> Interest:
    key = {} if mode is InterestMode.FINAL else {"subscribers": 1, "key_suffix": "a/**"}
    return Interest(mode=mode, interest_id=number, **key)


def final(number: int = 4) -> Declare:
    return Declare(interest_id=number, body=DeclareFinal())


def test_interest_has_its_answers_and_ends_with_final() -> None:
    pair = opened()
    asked = pair.say(frame(10, interest(InterestMode.CURRENT_FUTURE)))[1]
    declared = pair.answer(frame(20, subscriber(1, "a/b", answers=4), final()))
    later = pair.answer(frame(21, subscriber(2, "a/c")))
    exchange = asked.exchange
    assert exchange is not None
    assert (asked.keyexpr, exchange.keyexpr, exchange.kind) == ("a/**", "a/**", "interest")
    assert declared[1].interest is exchange
    assert declared[1].exchange is not exchange
    assert declared[2].exchange is exchange
    assert later[1].interest is None
    assert (exchange.answered, exchange.complete, exchange.ended) == (2, 6, None)
    ended = pair.say(frame(11, interest(InterestMode.FINAL)))
    assert ended[1].exchange is exchange
    assert (ended[1].keyexpr, exchange.ended, kinds(ended)) == ("a/**", 8, [])


def test_interest_in_what_is_ends_with_the_answer() -> None:
    pair = opened()
    exchange = pair.say(frame(10, interest(InterestMode.CURRENT)))[1].exchange
    pair.answer(frame(20, final()))
    assert exchange is not None
    assert (exchange.complete, exchange.ended) == (6, 6)


def test_final_for_interest_0_belongs_to_nothing() -> None:
    heard = opened().say(frame(10, final(0)))
    assert (heard[1].exchange, kinds(heard)) == (None, [])


# Multilink ----------------------------------------------------------------------------------------


PROOF = MultiLinkInitSyn(n=b"\x01" * 64, e=b"\x03")


def two_links(*, swapped: bool = False) -> tuple[Pair, Pair]:
    first = Pair()
    assert not kinds(multi(first, (ALICE, BOB), (10, 20)))
    second = Pair(first.hearing, number=1, first=Endpoint("10.0.0.1", 50_001))
    second.packet = 8
    ends = ((BOB, ALICE), (20, 10)) if swapped else ((ALICE, BOB), (10, 20))
    assert not kinds(multi(second, *ends))
    return first, second


def accepted(zid: bytes) -> Init:
    proof = MultiLinkInitAck(n=b"\x01" * 64, e=b"\x03")
    return Init(A=1, whatami=1, zid=zid, cookie=COOKIE, extensions=[proof])


def multi(pair: Pair, zids: tuple[bytes, bytes], sn: tuple[int, int]) -> list[Heard]:
    return [
        *pair.say(Init(whatami=1, zid=zids[0], extensions=[PROOF])),
        *pair.answer(accepted(zids[1])),
        *pair.say(Open(T=1, lease=10, initial_sn=sn[0], cookie=COOKIE)),
        *pair.answer(Open(A=1, T=1, lease=10, initial_sn=sn[1])),
    ]


@pytest.mark.parametrize("swapped", [False, True])
def test_links_of_one_session_share_aliases_and_numbers(swapped: bool) -> None:
    first, second = two_links(swapped=swapped)
    heard = [
        *first.say(frame(10, alias(1, "a"))),
        *second.say(frame(11, put("/x", scope=1)), back=swapped),
        *first.say(frame(12, put("/y", scope=1))),
        *second.say(frame(20, put("/z", scope=1, own=False)), back=not swapped),
    ]
    assert [one.keyexpr for one in heard if one.within] == ["a", "a/x", "a/y", "a/z"]
    assert not kinds(heard)
    sessions = {id(one.session) for one in heard}
    assert len(sessions) == 1
    assert heard[0].session is not None
    assert heard[0].session.links == [first.link, second.link]
    assert [one.source_zid for one in heard if one.within] == [A, A, A, B]


def test_links_may_overtake_each_other() -> None:
    first, second = two_links()
    heard = [
        *first.say(frame(10, put("a"))),
        *second.say(frame(13, put("a"))),
        *first.say(frame(11, put("a"))),
        *first.say(frame(12, put("a"))),
        *second.say(frame(14, put("a"))),
    ]
    assert not kinds(heard)
    assert kinds(first.say(frame(12, put("a")))) == [RemarkKind.OLD]


def test_number_that_no_link_brought_is_told_late() -> None:
    first, second = two_links()
    first.say(frame(10))
    second.say(frame(12))
    late = [kind for sn in range(13, 100) for kind in kinds(first.say(frame(sn)))]
    assert late == [RemarkKind.GAP]


def test_declaration_may_come_later_on_another_link() -> None:
    first, second = two_links()
    heard = [*second.say(frame(11, put(scope=1))), *first.say(frame(10, alias(1, "a")))]
    heard += second.answer(frame(20, response(1)))
    assert not kinds(heard)


def test_link_that_joins_a_session_from_the_middle_of_a_capture_raises_no_alarm() -> None:
    first = Pair()
    first.say(frame(500, alias(1, "a")))
    second = Pair(first.hearing, number=1)
    multi(second, (ALICE, BOB), (10, 20))
    assert not kinds([*second.say(frame(700)), *second.say(frame(701)), *second.answer(frame(900))])


def test_link_that_is_recognised_late_leaves_the_numbers_in_doubt() -> None:
    first = Pair()
    multi(first, (ALICE, BOB), (10, 20))
    second = Pair(first.hearing, number=1)
    early = [accepted(BOB), Open(A=1, T=1, lease=10, initial_sn=20), frame(20), frame(21)]
    late = [Init(whatami=1, zid=ALICE, extensions=[PROOF]), Open(T=1, lease=10, initial_sn=10, cookie=COOKIE)]
    heard = [one for message in early for one in second.answer(message)]
    heard += [one for message in late for one in second.say(message)]
    heard += [one for sn in range(22, 120) for one in first.answer(frame(sn))]
    assert not kinds(heard)
    assert first.link in (heard[-1].session.links if heard[-1].session else [])
    assert second.link in (heard[-1].session.links if heard[-1].session else [])


def test_session_lives_as_long_as_one_of_its_links() -> None:
    first, second = two_links()
    first.say(frame(10, alias(1, "a")))
    first.end()
    assert second.say(frame(11, put(scope=1)))[1].keyexpr == "a"
    second.end()
    third = Pair(first.hearing, number=2)
    multi(third, (ALICE, BOB), (10, 20))
    assert third.say(frame(10, put(scope=1)))[1].keyexpr is None


@pytest.mark.parametrize("begun", [8, 14, 15])
@pytest.mark.parametrize("gone", [None, False, True])
def test_link_begins_a_session_where_the_one_before_has_no_link_that_lives(
    gone: bool | None, begun: int
) -> None:
    first, second = Pair(), Pair(number=1, first=Endpoint("10.0.0.1", 50_001))
    second.hearing = first.hearing
    multi(first, (ALICE, BOB), (10, 20))
    first.say(frame(10, alias(1, "a")))
    if gone is not None:
        assert not list(first.hearing.hear(End(first.link.ways[gone], first.packet, 0, False)))
    second.packet = begun - 4
    multi(second, (ALICE, BOB), (10, 20))
    united = gone is None and begun < 15  # the lease
    heard = second.say(frame(11 if united else 10, put(scope=1)))
    assert heard[1].keyexpr == ("a" if united else None)
    third = Pair(first.hearing, number=2, first=Endpoint("10.0.0.1", 50_002))
    third.packet = second.packet
    multi(third, (ALICE, BOB), (10, 20))
    assert not kinds(third.say(frame(12 if united else 11)))


def test_two_sessions_of_the_same_nodes_without_multilink_share_nothing() -> None:
    hearing = Conversations()
    pairs = Pair(hearing), Pair(hearing, number=1, first=Endpoint("10.0.0.1", 50_001))
    for pair in pairs:
        pair.handshake()
    pairs[0].say(frame(10, alias(1, "a")))
    assert pairs[1].say(frame(10, put(scope=1)))[1].keyexpr is None


@pytest.mark.parametrize(
    ("later", "sn", "united"), [(0, 20, True), (9, 20, True), (10, 20, False), (0, 21, False)]
)
def test_nodes_that_connect_to_each_other_have_one_session(later: int, sn: int, united: bool) -> None:
    first = Pair()
    second = Pair(
        first.hearing, number=1, first=Endpoint("10.0.0.2", 50_001), second=Endpoint("10.0.0.1", 7447)
    )
    first.handshake(zids=(ALICE, BOB), sn=(10, 20))
    second.packet = later
    second.handshake(zids=(BOB, ALICE), sn=(sn, 10))
    first.say(frame(10, alias(1, "a")))
    heard = second.say(frame(sn, put(scope=1, own=False)))
    assert heard[1].keyexpr == ("a" if united else None)
    assert kinds(heard) == ([] if united else [RemarkKind.ALIAS])
    assert heard[0].session is not None
    assert heard[0].session.links == ([first.link, second.link] if united else [second.link])
    first.end()
    assert second.answer(frame(10 + united))[0].session is heard[0].session


def test_link_of_which_one_end_has_gone_is_none_that_another_joins() -> None:
    first = Pair()
    first.handshake()
    first.say(frame(10, alias(1, "a")))
    assert not list(first.hearing.hear(End(first.link.ways[0], first.packet, 0, False)))
    second = Pair(
        first.hearing, number=1, first=Endpoint("10.0.0.2", 50_001), second=Endpoint("10.0.0.1", 7447)
    )
    second.handshake(zids=(BOB, ALICE), sn=(20, 10))
    assert second.answer(frame(10, put(scope=1)))[1].keyexpr is None


@pytest.mark.parametrize(
    ("back", "ended", "united"), [(True, 0, True), (True, None, True), (True, 1, False), (False, None, False)]
)
def test_node_that_connects_again_is_in_the_session_while_the_other_one_has_a_link(
    back: bool, ended: int | None, united: bool
) -> None:
    pairs = [Pair()]
    hearing = pairs[0].hearing
    if back:
        ends = Endpoint("10.0.0.2", 50_001), Endpoint("10.0.0.1", 7447)
        pairs.append(Pair(hearing, number=1, first=ends[0], second=ends[1]))
    third = Pair(hearing, number=2, first=Endpoint("10.0.0.1", 50_002), second=Endpoint("10.0.0.2", 7447))
    for pair, zids, sn in zip(pairs, ((ALICE, BOB), (BOB, ALICE)), ((10, 20), (20, 10)), strict=False):
        pair.handshake(zids=zids, sn=sn)
    pairs[-1].say(frame(10, alias(1, "a")), back=back)
    if ended is not None:
        pairs[ended].end()
    third.handshake(sn=(10, 20))
    heard = third.say(frame(11 if united else 10, put(scope=1)))
    assert heard[1].keyexpr == ("a" if united else None)
    assert kinds(heard) == ([] if united else [RemarkKind.ALIAS])


# Datagrams and groups -----------------------------------------------------------------------------


@pytest.mark.parametrize("junk", [bytes(Init(zid=BOB, version=8)), bytes(Init(zid=BOB)) + b"\x1f"])
def test_what_only_looks_like_init_on_udp_begins_no_session(junk: bytes) -> None:
    pair = Pair(tcp=False)
    pair.handshake()
    pair.say(junk)
    (_, heard) = pair.say(frame(10, put("a")))
    assert (heard.source_zid, heard.target_zid) == (A, B)


def test_new_init_on_udp_begins_a_new_session() -> None:
    pair = Pair(tcp=False)
    first = pair.handshake()[-1]
    pair.say(frame(10, alias(1, "a")))
    second = pair.handshake()[-1]
    assert first.session is not second.session
    heard = pair.say(frame(10, put(scope=1)))
    assert (heard[1].keyexpr, kinds(heard)) == (None, [RemarkKind.UNORDERED])


def test_init_on_udp_that_has_no_answer_yet_is_repeated_in_the_same_session() -> None:
    pair = Pair(tcp=False)
    syn, ack = Init(whatami=2, zid=ALICE), Init(A=1, whatami=0, zid=BOB, cookie=COOKIE)
    heard = [*pair.say(syn), *pair.say(syn), *pair.answer(ack), *pair.say(syn), *pair.answer(ack)]
    heard += pair.say(Open(T=1, lease=10, initial_sn=10, cookie=COOKIE))
    assert len({id(one.session) for one in heard}) == 1
    assert not kinds(heard)
    # Another node, and one that begins anew behind OPEN, are not the same handshake.
    (other,) = pair.say(Init(whatami=2, zid=b"\xc3"))
    (again,) = pair.say(syn)
    assert len({id(one.session) for one in (heard[-1], other, again)}) == 3


def group(hearing: Conversations | None = None, *, number: int = 0, port: int = 40_000) -> Pair:
    target = Endpoint("224.0.0.225", 7447)
    return Pair(hearing, number=number, tcp=False, first=Endpoint("10.0.0.1", port), second=target)


def test_sender_to_a_group_is_known_from_its_join() -> None:
    alice = group()
    (join,) = alice.say(Join(zid=ALICE, lease=10, T=1, next_sn_re=4, next_sn_be=9))
    assert join.session is not None
    assert (join.session.multicast, join.session.zids, join.session.batch_size) == (True, (A, None), 8192)
    assert (join.session.qos, join.session.parties[0].lease) == (False, 10_000)
    heard = alice.say(frame(4, alias(1, "a"), put("/b", scope=1)))
    assert [(one.source_zid, one.keyexpr) for one in heard] == [(A, None), (A, "a"), (A, "a/b")]
    assert not kinds(heard)
    assert kinds(alice.say(frame(12, reliable=False))) == [RemarkKind.LOSS]


def test_lanes_of_a_join_have_numbers_of_their_own() -> None:
    alice = group()
    lanes = [{"next_sn_re": number, "next_sn_be": number + 100} for number in range(8)]
    (join,) = alice.say(Join(zid=ALICE, next_sn_re=0, next_sn_be=0, extensions=[JoinLanes(lanes=lanes)]))
    assert join.session is not None
    assert join.session.qos
    assert not kinds([*alice.say(frame(3, lane=3)), *alice.say(frame(103, lane=3, reliable=False))])
    assert kinds(alice.say(frame(9, lane=7))) == [RemarkKind.UNORDERED]


def test_senders_of_a_group_count_apart_and_answer_each_other() -> None:
    alice = group()
    bob = group(alice.hearing, number=1, port=40_001)
    for pair, zid in ((alice, ALICE), (bob, BOB)):
        pair.say(Join(zid=zid, next_sn_re=0, next_sn_be=0))
    asked = alice.say(frame(0, request(1)))[1]
    answered = bob.say(frame(0, response(1)))[1]
    assert answered.exchange is asked.exchange
    assert asked.exchange is not None
    assert (answered.source_zid, asked.exchange.answered) == (B, 1)
    assert not kinds(bob.say(frame(1, request(1)))), "of another node"


def test_join_is_repeated_and_another_node_may_take_the_port() -> None:
    alice = group()
    (first,) = alice.say(Join(zid=ALICE, next_sn_re=5, next_sn_be=0))
    alice.say(frame(5, alias(1, "a")))
    (again,) = alice.say(Join(zid=ALICE, next_sn_re=6, next_sn_be=0))
    assert again.session is first.session
    (other,) = alice.say(Join(zid=BOB, next_sn_re=0, next_sn_be=0))
    assert other.source_zid == B
    assert alice.say(frame(0, put(scope=1)))[1].keyexpr is None


def test_datagram_is_looked_at_once_however_many_nodes_take_the_port_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[bytes] = []
    whole = identify.is_batch

    def look(raw: bytes) -> bool:
        looked.append(raw)
        return whole(raw)

    monkeypatch.setattr(identify, "is_batch", look)
    alice = group()
    alice.say(Join(zid=ALICE))
    del looked[:]
    said = alice.say(*(Join(zid=zid) for zid in (BOB, ALICE) * 100))
    assert [message.source_zid for message in said[:3]] == [B, A, B]
    assert len(looked) == 1


def test_close_ends_a_sender_to_a_group() -> None:
    alice = group()
    (join,) = alice.say(Join(zid=ALICE))
    alice.say(Close(reason=0))
    (again,) = alice.say(Join(zid=ALICE))
    assert again.session is not join.session


# Bounds -------------------------------------------------------------------------------------------


def test_links_are_forgotten_oldest_first_and_counted() -> None:
    hearing = Conversations(Limits(links=2))
    pairs = [Pair(hearing, number=number) for number in range(3)]
    for pair in pairs:
        pair.handshake()
    assert hearing.forgotten["links"] == 1
    assert pairs[0].say(frame(10))[0].source_zid is None
    assert pairs[2].say(frame(10))[0].source_zid == A


def test_aliases_are_forgotten_least_used_first_and_counted() -> None:
    hearing = Conversations(Limits(aliases=3000))
    pair = Pair(hearing)
    pair.handshake()
    pair.say(frame(10, alias(1, "used"), alias(2, "left")))
    for number in range(3, 30):
        pair.say(frame(8 + number, alias(number, "k"), put(scope=1)))
    assert hearing.forgotten["aliases"] > 10
    heard = pair.say(frame(38, put(scope=1), put(scope=2)))
    assert ([one.keyexpr for one in heard[1:]], kinds(heard)) == (["used", None], [])


def test_open_requests_are_bounded_and_counted() -> None:
    hearing = Conversations(Limits(exchanges=100_000, answers=4))
    pair = Pair(hearing)
    pair.handshake()
    for number in range(1000):
        pair.say(frame(10 + number, request(number)))
    assert hearing.forgotten["exchanges"] > 800
    assert not kinds(pair.answer(frame(20, response(0))))
    assert pair.answer(frame(21, response(999)))[1].exchange is not None


def test_answers_are_listed_up_to_a_bound_and_counted_beyond() -> None:
    pair = Pair(Conversations(Limits(answers=3)))
    pair.handshake()
    exchange = pair.say(frame(10, request(1)))[1].exchange
    for number in range(5):
        pair.answer(frame(20 + number, response(1)))
    assert exchange is not None
    assert (len(exchange.answers), exchange.answered) == (3, 5)


def test_message_of_too_many_bytes_is_thrown_away_and_told() -> None:
    hearing = Conversations(Limits(message=1000))
    pair = Pair(hearing)
    pair.handshake(Patch(patch=1))
    heard = pair.say(fragment(10, bytes(400), first=True))
    for sn in range(11, 20):
        heard += pair.say(fragment(sn, bytes(400)))
    assert kinds(heard) == [RemarkKind.LIMIT]
    assert hearing.forgotten["messages"] == 1
    whole = bytes(put("a/b"))
    assert names(pair.say(fragment(20, whole, first=True, more=False))) == ["FRAGMENT", "PUSH"]


def test_key_that_grows_by_aliases_of_aliases_is_cut_off() -> None:
    pair = Pair(Conversations(Limits(key=1000)))
    pair.handshake()
    heard = pair.say(frame(10, alias(1, "k" * 300), *(alias(n, "k" * 300, scope=n - 1) for n in range(2, 9))))
    assert max(len(one.keyexpr or "") for one in heard) == 900
    assert RemarkKind.LIMIT in kinds(heard)
    assert heard[1].message.body.mid == DeclarationId.D_KEYEXPR
    assert isinstance(heard[1].message.body, DeclareKeyExpr)


def test_reply_behind_its_final_still_belongs_to_the_request() -> None:
    pair = Pair()
    pair.handshake(QoSOffer())
    pair.say(frame(10, Request(request_id=1, key_suffix="a", body=Query())))
    pair.answer(frame(20, ResponseFinal(request_id=1), lane=1))
    (_, late) = pair.answer(frame(20, Response(request_id=1, key_suffix="a", body=Reply(body=Put())), lane=6))
    assert late.exchange
    assert (late.exchange.asked, late.exchange.ended, late.exchange.answered) == (5, 6, 1)
    assert [remark.text for remark in late.remarks] == ["behind the RESPONSE_FINAL of packet 6"]
    # The id is free again: what comes then belongs to the new request.
    pair.say(frame(11, Request(request_id=1, key_suffix="b", body=Query())))
    (_, reply) = pair.answer(
        frame(21, Response(request_id=1, key_suffix="b", body=Reply(body=Put())), lane=6)
    )
    assert reply.exchange
    assert (reply.exchange.asked, reply.remarks) == (8, [])


def test_declaration_without_a_number_is_taken_back_without_its_key() -> None:
    # As nodes up to 1.7 do it: they count from 0, and name the key only where the number says nothing.
    pair = Pair()
    pair.handshake()
    pair.say(frame(10, Declare(body=DeclareToken(entity_id=0, key_suffix="a"))))
    (_, gone) = pair.say(frame(11, Declare(body=UndeclareToken(entity_id=0, extensions=[WireExpr()]))))
    assert gone.exchange
    assert (gone.keyexpr, gone.exchange.asked, gone.remarks) == ("a", 5, [])
    (_, again) = pair.say(frame(12, Declare(body=UndeclareToken(entity_id=0, extensions=[WireExpr()]))))
    assert (again.keyexpr, kinds([again])) == (None, [RemarkKind.DECLARATION])


def test_of_several_without_a_number_none_is_guessed() -> None:
    pair = Pair()
    pair.handshake()
    pair.say(frame(10, *(Declare(body=DeclareToken(entity_id=0, key_suffix=key)) for key in "ab")))
    (_, gone) = pair.say(frame(11, Declare(body=UndeclareToken(entity_id=0))))
    assert (gone.exchange, gone.keyexpr, gone.remarks) == (None, None, [])
    named = WireExpr(N=1, key_suffix="a")
    (_, gone) = pair.say(frame(12, Declare(body=UndeclareToken(entity_id=0, extensions=[named]))))
    assert gone.exchange
    assert gone.exchange.asked == 5
