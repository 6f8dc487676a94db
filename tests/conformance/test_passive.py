"""Rules that look at everything a node sends: what they find, and what they must not blame on a node."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.observe import Direction, Endpoints, History
from conformance.passive import CHECKERS, Remark, look
from conformance.requirements import requirements
from conformance.tester import Tester
from scapy_layers.batch import prefixed
from scapy_layers.codes import Kind, Priority
from scapy_layers.data import Err, Put, Query, Reply
from scapy_layers.declarations import DeclareSubscriber
from scapy_layers.extensions import (
    First,
    Lane,
    NodeId,
    Patch,
    QoS,
    QoSOffer,
    RegionName,
    ResponderId,
    Timestamp,
)
from scapy_layers.message import Extension, Message, UnknownExtension
from scapy_layers.network import Declare, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam

OURS, THEIRS = ("127.0.0.1", 40_000), ("127.0.0.1", 7447)

GROUP = ("239.255.7.7", 20_007)

FIRST_SN = 100
"""Initial number of the node."""

ZID = b"\x01\x02\x03"


@dataclass
class Made:
    """A history that is made by hand, on one link or in one group."""

    history: History = field(default_factory=History)
    link: str = "a"
    proto: str = "tcp"
    clock: Iterable[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.history.endpoints[self.link] = Endpoints(OURS, THEIRS, self.proto)

    def said(self, *messages: Message | bytes) -> None:
        """Something that we sent."""
        self._add(Direction.SENT, messages)

    def heard(self, *messages: Message | bytes) -> None:
        """Something that the node sent."""
        self._add(Direction.RECEIVED, messages)

    def datagram(self, raw: bytes, kind: Kind | None = None, source: tuple[str, int] = THEIRS) -> None:
        """A datagram that came in a group."""
        self.history.add(1, self.link, Direction.RECEIVED, raw, raw, kind=kind, route=(source, GROUP))

    def _add(self, direction: Direction, messages: tuple[Message | bytes, ...]) -> None:
        raw = b"".join(map(bytes, messages))
        self.history.add(1, self.link, direction, prefixed(raw), raw)

    def remark(self, requirement: str) -> Remark | None:
        """What is found of a requirement."""
        return next((one for one in look(self.history) if one.requirement == requirement), None)

    def breaks(self) -> set[str]:
        """The requirements that were broken."""
        return {one.requirement for one in look(self.history) if one.broken}


def session(*offer: Extension, fsn: int = 2, batch_size: int = 65_535) -> Made:
    """A history in which a session has begun; both ends make the same offer."""
    made = Made()
    sizes = {"S": 1, "fsn": fsn, "rid": 2, "batch_size": batch_size}
    made.said(Init(zid=b"\x09", extensions=[one.copy() for one in offer], **sizes))
    made.heard(Init(A=1, zid=ZID, cookie=b"c", extensions=[one.copy() for one in offer], **sizes))
    made.said(Open(cookie=b"c", initial_sn=7))
    made.heard(Open(A=1, initial_sn=FIRST_SN))
    return made


def frame(*messages: Message, sn: int = FIRST_SN, **fields: object) -> Frame:
    """A FRAME of the node."""
    return Frame(R=1, sn=sn, messages=list(messages), **fields)


def push(**fields: object) -> Push:
    """A PUSH with a key."""
    return Push(**{"key_suffix": "a", "body": Put(data=b"1"), **fields})


def bent(message: Message, byte: int, mask: int) -> bytes:
    """A message with some bits set."""
    raw = bytearray(bytes(message))
    raw[byte] |= mask
    return bytes(raw)


def test_every_checker_is_a_requirement_of_the_catalogue() -> None:
    assert set(CHECKERS) <= set(requirements())
    assert len(CHECKERS) >= 80


def test_good_session_breaks_nothing_and_is_seen() -> None:
    made = session(QoSOffer(), Patch(patch=1))
    made.heard(KeepAlive())
    made.heard(frame(push(extensions=[QoS(), Timestamp(timestamp=1, timestamp_id=ZID), NodeId(node_id=0)])))
    made.heard(
        frame(Declare(extensions=[QoS(D=1)], body=DeclareSubscriber(entity_id=1, key_suffix="a/**")), sn=101)
    )
    made.said(frame(Request(request_id=5, key_suffix="a", body=Query()), sn=7))
    reply = Response(
        request_id=5, key_suffix="a", extensions=[ResponderId(zid=ZID, eid=1)], body=Err(data=b"1")
    )
    made.heard(frame(reply, sn=102), KeepAlive())
    made.heard(frame(ResponseFinal(request_id=5), sn=103))
    made.heard(Fragment(R=1, M=1, sn=104, extensions=[First()], data=b"xx"))
    made.heard(Fragment(R=1, M=0, sn=105, data=b"xx"))
    made.heard(frame(push(), sn=106))
    made.heard(Frame(R=0, sn=FIRST_SN, messages=[push()]))
    made.heard(Close(S=1, reason=0))
    assert made.breaks() == set()
    for requirement in ("ZN-MSG-001", "ZN-FRM-010", "ZN-FRG-003", "ZN-FIN-004", "ZN-INIT-044", "ZN-CLS-101"):
        remark = made.remark(requirement)
        assert remark is not None
        assert remark.applied
        assert remark.at == -1


QOS_8 = UnknownExtension(ext_id=1, data=b"\x08")

BROKEN: list[tuple[str, list[Message | bytes]]] = [
    ("ZN-MSG-001", [b"\x0c"]),
    ("ZN-MSG-010", [b"\x20"]),
    ("ZN-NET-001", [push()]),
    ("ZN-KA-001", [b"\x24"]),
    ("ZN-KA-001", [b"\x44"]),
    ("ZN-CLS-001", [bent(Close(), 0, 0x40)]),
    ("ZN-CLS-002", [b"\x03"]),
    ("ZN-CLS-101", [Close(reason=8)]),
    ("ZN-EXT-101", [b"\x84\x6e"]),
    ("ZN-FRM-001", [bent(frame(push()), 0, 0x40)]),
    ("ZN-FRM-003", [frame()]),
    ("ZN-FRM-007", [frame(push(), extensions=[UnknownExtension(ext_id=1, z64=5)])]),
    ("ZN-FRM-008", [bytes(frame(push(), extensions=[Lane(priority=5)])).replace(b"\x31\x05", b"\x31\x0d")]),
    ("ZN-INIT-049", [frame(push(), extensions=[Lane(priority=4)])]),
    ("ZN-FRG-104", [Fragment(R=1, sn=FIRST_SN, extensions=[UnknownExtension(ext_id=1, z64=5)], data=b"x")]),
    ("ZN-OAM-004", [TransportOam(oam_id=1, extensions=[UnknownExtension(ext_id=1, z64=5)])]),
    ("ZN-OPEN-011", [frame(push(), sn=FIRST_SN + 1)]),
    ("ZN-FRM-010", [frame(push()), frame(push(), sn=FIRST_SN + 2)]),
    ("ZN-FRM-010", [frame(push()), frame(push())]),
    ("ZN-FRM-002", [frame(push(), sn=1 << 33)]),
    ("ZN-FRG-102", [Fragment(R=1, M=1, sn=FIRST_SN, data=b"x"), frame(push(), sn=FIRST_SN + 1)]),
    (
        "ZN-FRG-003",
        [
            Fragment(R=1, M=1, sn=FIRST_SN, data=b"x"),
            Fragment(R=1, M=0, sn=FIRST_SN + 1, data=b"x"),
            frame(push(), sn=FIRST_SN + 3),
        ],
    ),
    ("ZN-INIT-043", [Fragment(R=1, M=1, sn=FIRST_SN, extensions=[First()], data=b"x")]),
    ("ZN-FRG-005", [Fragment(R=1, M=1, sn=FIRST_SN, extensions=[UnknownExtension(ext_id=2, z64=1)])]),
    ("ZN-NET-003", [frame(push(extensions=[QOS_8]))]),
    ("ZN-NET-004", [frame(push(extensions=[UnknownExtension(ext_id=1, M=1, z64=5)]))]),
    ("ZN-NET-010", [frame(push(extensions=[UnknownExtension(ext_id=1, z64=0x45)]))]),
    ("ZN-NET-012", [frame(Declare(extensions=[QoS()], body=DeclareSubscriber(entity_id=1, key_suffix="a")))]),
    ("ZN-NET-013", [frame(push(extensions=[UnknownExtension(ext_id=2, z64=1)]))]),
    ("ZN-OAM-006", [frame(NetworkOam(oam_id=7, extensions=[QOS_8]))]),
    ("ZN-RTE-010", [frame(push(extensions=[UnknownExtension(ext_id=3, z64=1)]))]),
    ("ZN-REQ-102", [frame(Request(request_id=1, key_suffix="a", extensions=[UnknownExtension(ext_id=4, z64=1)], body=Query()))]),
    ("ZN-REQ-102", [frame(Request(request_id=1, key_suffix="a", extensions=[UnknownExtension(ext_id=5, M=1, z64=1)], body=Query()))]),
    ("ZN-FIN-002", [frame(ResponseFinal(request_id=9))]),
    ("ZN-RSP-002", [frame(Response(request_id=9, key_suffix="a", body=Reply(body=Put())))]),
    ("ZN-PUSH-006", [frame(push(body=Query()))]),
    ("ZN-DATA-001", [frame(push(body=Query()))]),
    ("ZN-KEX-101", [frame(push(key_suffix="a//b"))]),
    ("ZN-KEX-102", [frame(push(key_suffix="a/**/**"))]),
    ("ZN-INIT-010", [Init(A=0, zid=ZID)]),
]  # fmt: skip


@pytest.mark.parametrize(("requirement", "messages"), BROKEN, ids=[name for name, _ in BROKEN])
def test_break_inside_a_session_is_found(requirement: str, messages: list[Message | bytes]) -> None:
    made = session()
    for message in messages:
        made.heard(message)
    remark = made.remark(requirement)
    assert remark is not None
    assert remark.broken
    assert remark.applied >= 1
    assert remark.expected != remark.seen
    assert made.history.observations[remark.at].direction is Direction.RECEIVED


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ("ZN-INIT-014", Init(A=1, zid=ZID, cookie=b"c", version=8)),
        ("ZN-INIT-016", bent(Init(A=1, zid=ZID, cookie=b"c"), 2, 0x04)),
        ("ZN-INIT-019", bent(Init(A=1, zid=ZID, cookie=b"c"), 2, 0x03)),
        ("ZN-INIT-021", bent(Init(A=1, zid=ZID, cookie=b"c", S=1), 6, 0x10)),
        ("ZN-INIT-028", Init(A=1, zid=ZID)),
        ("ZN-INIT-035", Init(A=1, zid=ZID, cookie=b"c", extensions=[UnknownExtension(ext_id=2)])),
        ("ZN-INIT-041", Init(A=1, zid=ZID, cookie=b"c", extensions=[RegionName(region="")])),
        ("ZN-INIT-042", Init(A=1, zid=ZID, cookie=b"c", extensions=[UnknownExtension(ext_id=7, M=1, z64=1)])),
        ("ZN-INIT-047", Init(A=1, zid=ZID, cookie=b"c", S=1, fsn=3)),
        ("ZN-INIT-001", Frame(R=1, sn=1, messages=[push()])),
        ("ZN-INIT-001", Open(A=1)),
        ("ZN-OPEN-003", Open(A=0)),
        ("ZN-OPEN-007", Open(A=1, initial_sn=1 << 33)),
        ("ZN-OPEN-018", Open(A=1, extensions=[QoSOffer()])),
        ("ZN-OPEN-019", Open(A=1, extensions=[UnknownExtension(ext_id=2)])),
        ("ZN-OPEN-021", Open(A=1, extensions=[UnknownExtension(ext_id=4, data=b"x")])),
        ("ZN-OPEN-025", Open(A=1, extensions=[UnknownExtension(ext_id=7, M=1, z64=0)])),
    ],
)
def test_break_of_the_handshake_is_found(requirement: str, message: Message | bytes) -> None:
    made = Made()
    made.said(Init(zid=b"\x09"))
    if requirement.startswith("ZN-OPEN"):
        made.heard(Init(A=1, zid=ZID, cookie=b"c"))
    made.heard(message)
    assert requirement in made.breaks()


def test_batch_larger_than_agreed_is_found() -> None:
    made = session(batch_size=300)
    made.heard(frame(push(body=Put(data=bytes(100)))))
    assert made.breaks() == set()
    made.heard(frame(push(body=Put(data=bytes(300))), sn=FIRST_SN + 1))
    assert made.breaks() == {"ZN-BAT-103", "ZN-INIT-027"}


def test_priority_on_another_lane_is_found() -> None:
    made = session(QoSOffer())
    message = push(extensions=[QoS(priority=Priority.DATA_LOW)])
    made.heard(frame(message, extensions=[Lane(priority=Priority.DATA_LOW)]))
    assert made.breaks() == set()
    made.heard(frame(message, sn=FIRST_SN + 1, extensions=[Lane(priority=Priority.DATA_LOW)]))
    made.heard(frame(message, sn=FIRST_SN))
    assert made.breaks() == {"ZN-NET-006"}


def test_second_final_and_what_comes_behind_the_first_are_found() -> None:
    made = session()
    made.said(frame(Request(request_id=5, key_suffix="a", body=Query()), sn=7))
    made.heard(frame(ResponseFinal(request_id=5)))
    assert made.breaks() == set()
    made.heard(frame(Response(request_id=5, key_suffix="a", body=Err()), sn=FIRST_SN + 1))
    assert made.breaks() == {"ZN-FIN-003"}
    made.heard(frame(ResponseFinal(request_id=5), sn=FIRST_SN + 2))
    assert made.breaks() == {"ZN-FIN-003", "ZN-FIN-004"}


def test_missing_and_misplaced_first_are_found_with_patch_1() -> None:
    made = session(Patch(patch=1))
    made.heard(Fragment(R=1, M=1, sn=FIRST_SN, data=b"x"))
    assert made.breaks() == {"ZN-INIT-044"}
    made = session(Patch(patch=1))
    made.heard(Fragment(R=1, M=1, sn=FIRST_SN, extensions=[First()], data=b"x"))
    made.heard(Fragment(R=1, M=0, sn=FIRST_SN + 1, extensions=[First()], data=b"x"))
    assert made.breaks() == {"ZN-INIT-044"}


def test_number_may_wrap_where_the_range_in_use_ends() -> None:
    made = session(fsn=0)
    for number in range(FIRST_SN, 128):
        made.heard(frame(push(), sn=number))
    made.heard(frame(push(), sn=0), KeepAlive())
    assert made.breaks() == set()


# Groups and scouting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "raw"),
    [
        ("ZN-MSG-006", bytes(Init(A=1, zid=ZID))),
        ("ZN-INIT-008", bytes(Init(zid=ZID))),
        ("ZN-OPEN-006", bytes(Open(A=1))),
        ("ZN-JOIN-002", bytes(Join(zid=ZID, version=8))),
        ("ZN-JOIN-003", bent(Join(zid=ZID), 2, 0x04)),
        ("ZN-JOIN-004", bytes(Join(zid=ZID))[:-1]),
        ("ZN-BAT-105", prefixed(bytes(Join(zid=ZID)))),
    ],
)
def test_break_in_a_group_is_found(requirement: str, raw: bytes) -> None:
    made = Made(proto="udp")
    made.datagram(bytes(Join(zid=ZID)))
    assert made.breaks() == set()
    made.datagram(raw)
    assert requirement in made.breaks()


def test_what_we_say_in_a_group_is_nothing_of_the_node() -> None:
    made = Made(proto="udp")
    made.history.endpoints["b"] = Endpoints(("127.0.0.1", 40_001), GROUP, "udp")
    made.datagram(bytes(Init(zid=ZID)), source=("127.0.0.1", 40_001))
    assert look(made.history) == []


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ("ZN-HLO-005", bent(Hello(zid=ZID), 0, 0x40)),
        ("ZN-HLO-006", bytes(Hello(zid=ZID))[:-1]),
        ("ZN-HLO-008", bent(Hello(zid=ZID), 2, 0x04)),
        ("ZN-HLO-009", bent(Hello(zid=ZID), 2, 0x03)),
        ("ZN-HLO-010", bytes(Hello(zid=ZID, version=8))),
        ("ZN-SCT-018", bytes(Scout(what=1, version=10))),
    ],
)
def test_break_in_scouting_is_found(requirement: str, message: bytes) -> None:
    made = Made(proto="udp")
    made.datagram(bytes(Hello(zid=ZID)), Kind.SCOUTING)
    made.datagram(bytes(Scout(what=1)), Kind.SCOUTING)
    assert made.breaks() == set()
    made.datagram(message, Kind.SCOUTING)
    assert requirement in made.breaks()


# What is no fault of the node ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        push(extensions=[UnknownExtension(ext_id=1, z64=0x45)]),
        push(extensions=[UnknownExtension(ext_id=3, z64=1)]),
        Request(request_id=3, key_suffix="a", extensions=[UnknownExtension(ext_id=4, z64=1)], body=Query()),
        Response(request_id=3, key_suffix="a", extensions=[UnknownExtension(ext_id=3)], body=Err()),
        Declare(extensions=[QoS()], body=DeclareSubscriber(entity_id=1, key_suffix="a")),
    ],
)
def test_what_one_of_us_said_wrong_may_be_passed_on(message: Message) -> None:
    made = session()
    made.said(frame(Request(request_id=3, key_suffix="x", body=Query()), sn=7))
    made.heard(frame(message))
    assert made.breaks()
    echoed = session()
    echoed.said(frame(message, Request(request_id=3, key_suffix="x", body=Query()), sn=7))
    echoed.heard(frame(message))
    assert echoed.breaks() == set()


def test_reserved_bits_that_we_set_must_not_be_echoed() -> None:
    made = Made()
    made.said(bent(Init(zid=ZID, S=1), 6, 0x10))
    made.heard(bent(Init(A=1, zid=ZID, S=1, cookie=b"c"), 6, 0x10))
    assert "ZN-INIT-021" in made.breaks()


def test_what_our_two_ends_say_to_each_other_is_not_judged() -> None:
    made = Made()
    made.history.endpoints["in1"] = Endpoints(THEIRS, OURS, "tcp", accepted=True)
    made.heard(b"\x0c")
    assert look(made.history) == []


def test_two_ends_of_a_tester_are_recognised_over_every_stream(tmp_path: object) -> None:
    for locator in ("tcp/127.0.0.1:0", f"unixsock-stream/{tmp_path}/s", "udp/127.0.0.1:0"):
        tester = Tester("tcp/127.0.0.1:1", random.Random(1), 1.0)
        try:
            listener = tester.listen(locator)
            ours = tester.starting(locator=listener.locator)
            ours.init(version=8)
            theirs = listener.accept_link()
            theirs.expect(Init)
            assert look(tester.history) == [], locator
        finally:
            tester.close()


def test_numbers_are_not_judged_when_what_we_said_leaves_the_session_open() -> None:
    made = session()
    made.said(b"\x0c")
    made.heard(frame(push(), sn=5))
    made.heard(frame(ResponseFinal(request_id=77), sn=9))
    assert made.breaks() == set()


def test_numbers_and_answers_are_not_judged_where_a_session_has_several_links() -> None:
    made = session(UnknownExtension(ext_id=4, data=b"key"))
    made.heard(frame(push(), sn=FIRST_SN + 5))
    made.heard(frame(ResponseFinal(request_id=77), sn=FIRST_SN + 9))
    assert made.breaks() == set()


def test_what_cannot_be_understood_is_not_judged() -> None:
    compression = UnknownExtension(ext_id=6)
    made = session(compression)
    made.heard(b"\x01\xff\xff\xff")
    lowlatency = session(UnknownExtension(ext_id=5))
    raw = b"\x00\x01\xff\xff"
    lowlatency.history.add(1, "a", Direction.RECEIVED, prefixed(raw), raw)
    for one in (made, lowlatency):
        assert one.breaks() == set()


def test_bare_messages_of_a_low_latency_session_are_fine() -> None:
    made = session(UnknownExtension(ext_id=5))
    raw = bytes(push())
    made.history.add(1, "a", Direction.RECEIVED, len(raw).to_bytes(4, "little") + raw, raw)
    assert made.breaks() == set()
    remark = made.remark("ZN-NET-001")
    assert remark is not None
    assert remark.applied == 1


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=60)), max_size=8), st.booleans())
def test_any_bytes_are_judged_without_an_error(batches: list[tuple[bool, bytes]], opened: bool) -> None:
    made = session(QoSOffer(), Patch(patch=1)) if opened else Made()
    for ours, raw in batches:
        (made.said if ours else made.heard)(raw)
    look(made.history)


@given(st.lists(st.binary(max_size=40), max_size=6), st.sampled_from([None, Kind.SCOUTING]))
def test_any_datagrams_are_judged_without_an_error(datagrams: list[bytes], kind: Kind | None) -> None:
    made = Made(proto="udp")
    for raw in datagrams:
        made.datagram(raw, kind)
    look(made.history)


HEADERS = st.sampled_from([0x25, 0x05, 0x66, 0x26, 0x85, 0xA5, 0x21, 0xE1, 0x22, 0x03, 0x04, 0x87, 0x00])


@given(st.lists(st.tuples(HEADERS, st.binary(max_size=40)), max_size=8))
def test_anything_behind_a_header_is_judged_without_an_error(batches: list[tuple[int, bytes]]) -> None:
    made = session(QoSOffer(), Patch(patch=1))
    for header, raw in batches:
        made.heard(bytes([header]) + raw)
        made.said(bytes([header]) + raw)
    look(made.history)
