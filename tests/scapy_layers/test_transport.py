"""Transport messages against bytes that real nodes sent or took."""

from __future__ import annotations

import pytest

from scapy_layers.catalogue import decode
from scapy_layers.codes import CloseReason, Kind, Priority, Resolution, WhatAmI
from scapy_layers.errors import BadValue, Overlong, Truncated, UnknownMandatoryExtension, UnknownMessage
from scapy_layers.extensions import (
    AuthInitSyn,
    Compression,
    Drop,
    First,
    InitSynShm,
    JoinLanes,
    Lane,
    LowLatency,
    MultiLinkAck,
    MultiLinkInitSyn,
    OpenAckShm,
    OpenShm,
    Patch,
    QoSLink,
    QoSOffer,
    RegionName,
    RemoteBound,
    UsrPwd,
)
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam
from tests.scapy_layers.golden import CLIENT, ROUTER, assert_every_cut_refused, assert_golden, raw

COOKIE = bytes.fromhex("deadbeef")
COOKIE_O02 = bytes.fromhex(
    "30d069fdc30b8bb81cbdaa57cec6d23345e19c91ba4cef1ac36eb66f57ee58f455bd4a12d24fca3de0db77c71c2cf56cdd"
)
COOKIE_B02 = bytes.fromhex(
    "30c77f8c37f0025d584a0a70d7b9695d17154b9a8728db264e1f4144e538b9c2775c2527eb61f5e909b247fbfeab60e8e7"
)
LANES = [(1, 101), (2, 110), (3, 119), (4, 128), (5, 137), (6, 146), (7, 155), (8, 164)]

GOLDEN: list[tuple[str, str, Message]] = [
    ("H01", "0005", TransportOam(oam_id=5)),
    ("H02", "a0053101ac02", TransportOam(oam_id=5, extensions=[Lane(priority=1)], z64=300)),
    ("H03", "400502beef", TransportOam(oam_id=5, data=b"\xbe\xef")),
    ("H04", "01090205", Init(whatami=WhatAmI.CLIENT, zid="5")),
    (
        "H05",
        "c10932ddccbbaa050008812701",
        Init(
            zid="aabbccdd",
            rid=Resolution.BITS_16,
            fsn=Resolution.BITS_16,
            batch_size=2048,
            extensions=[QoSOffer(), Patch(patch=1)],
        ),
    ),
    (
        "H06",
        "610930ddccbbaa0a00c004deadbeef",
        Init(whatami="router", zid="aabbccdd", batch_size=49152, cookie=COOKIE),
    ),
    ("H07", "420aac0204deadbeef", Open(T=1, lease=10, initial_sn=300, cookie=COOKIE)),
    ("H08", "02c4130004deadbeef", Open(lease=2500, cookie=COOKIE)),
    ("H09", "620a7f", Open(A=1, T=1, lease=10, initial_sn=127)),
    ("H10", "e20a002701", Open(A=1, T=1, lease=10, extensions=[RemoteBound(bound="south")])),
    ("H11", "840f", KeepAlive(extensions=[UnknownExtension()])),
    ("H12", "070931ddccbbaa904e0506", Join(zid="aabbccdd", next_sn_re=5, next_sn_be=6)),
    (
        "H13",
        "670931ddccbbaa0a00200a0506",
        Join(T=1, zid="aabbccdd", batch_size=8192, lease=10, next_sn_re=5, next_sn_be=6),
    ),
    ("JOIN, T alone", "27090101 0a 00 00", Join(T=1, zid="1", lease=10)),
    ("JOIN, S alone", "47090101 0aff00 904e 00 00", Join(zid="1", batch_size=255)),
    (
        "H14",
        "e70931ddccbbaa0a00200a0000d1150165026e0377048001058901069201079b0108a4012701",
        Join(
            T=1,
            S=1,
            zid="aabbccdd",
            lease=10,
            extensions=[
                JoinLanes(lanes=[{"next_sn_re": re, "next_sn_be": be} for re, be in LANES]),
                Patch(patch=1),
            ],
        ),
    ),
    ("H59 first", "e601023d0003612f", Fragment(R=1, M=1, sn=1, extensions=[First()], data=b"=\x00\x03a/")),
    ("H59 more", "66026201", Fragment(R=1, M=1, sn=2, data=b"b\x01")),
    ("H59 last", "2603026869", Fragment(R=1, sn=3, data=b"\x02hi")),
    ("H60 drop", "e60503", Fragment(R=1, M=1, sn=5, extensions=[Drop()])),
    ("H62", "2305", Close(S=1, reason=CloseReason.EXPIRED)),
    ("H63", "0300", Close()),
    (
        "H64",
        "8109f20102030405060708090a0b0c0d0e0f10 2701",
        Init(zid=CLIENT, extensions=[Patch(patch=1)]),
    ),
    (
        "H65",
        "8109f20102030405060708090a0b0c0d0e0f10 21b6f020",
        Init(
            zid=CLIENT,
            extensions=[
                QoSLink(has_priorities=1, has_reliability=1, first_priority=6, last_priority=7, reliability=1)
            ],
        ),
    ),
    ("O01", "0109f20102030405060708090a0b0c0d0e0f10", Init(zid=CLIENT)),
    (
        "O02",
        "6109f0 9ab6f7cab4d12f7ff4a9d26c7554d82e 0a 00c0 31" + COOKIE_O02.hex(),
        Init(whatami="router", zid=ROUTER, batch_size=0xC000, cookie=COOKIE_O02),
    ),
    ("O03", "420a0031" + COOKIE_O02.hex(), Open(T=1, lease=10, cookie=COOKIE_O02)),
    ("O04", "620acdb7fa37", Open(A=1, T=1, lease=10, initial_sn=0x6FE9BCD)),
    ("O05", "04", KeepAlive()),
    ("O06 invalid", "0302", Close(reason="invalid")),
    ("O06 links", "0304", Close(reason="max_links")),
    ("O06 self", "0307", Close(reason="connection_to_self")),
    (
        "B01",
        "c109f202c112c1d5909db178ceaa5f713a3c240ac8ff812701",
        Init(
            zid=raw("02c112c1d5909db178ceaa5f713a3c24"),
            batch_size=65480,
            extensions=[QoSOffer(), Patch(patch=1)],
        ),
    ),
    (
        "B02",
        "e109f0d9b2ca3c4788be782d48469f1ae188a30a00c031" + COOKIE_B02.hex() + "812701",
        Init(
            whatami="router",
            zid=raw("d9b2ca3c4788be782d48469f1ae188a3"),
            batch_size=0xC000,
            cookie=COOKIE_B02,
            extensions=[QoSOffer(), Patch(patch=1)],
        ),
    ),
    (
        "B03",
        "420a88b3da3831" + COOKIE_B02.hex(),
        Open(T=1, lease=10, initial_sn=0x7169988, cookie=COOKIE_B02),
    ),
    ("B04", "620a8bd6972d", Open(A=1, T=1, lease=10, initial_sn=0x5A5EB0B)),
    (
        "C01",
        "c109f2f07567ccfa1f4dece0e38bd3ea09fa610ac8ff 81 c205bcaffc800c 2701",
        Init(
            zid=raw("f07567ccfa1f4dece0e38bd3ea09fa61"),
            batch_size=65480,
            extensions=[QoSOffer(), InitSynShm(segment_id=0xC01F17BC), Patch(patch=1)],
        ),
    ),
    (
        "C04",
        "e20aca9dd3764209010001020304050607",
        Open(
            A=1,
            T=1,
            lease=10,
            initial_sn=0xED4CECA,
            extensions=[OpenAckShm(has_counters=1, counters=list(range(8)))],
        ),
    ),
    (
        "low latency",
        "81090205852701",
        Init(zid="5", extensions=[LowLatency(), Patch(patch=1)]),
    ),
    (
        "compression, region, links, login",
        "81090205 86 c30102 c40401ab01cd a701 48056e6f727468",
        Init(
            zid="5",
            extensions=[
                Compression(),
                AuthInitSyn(extensions=[UsrPwd()]),
                MultiLinkInitSyn(n=b"\xab", e=b"\xcd"),
                Patch(patch=1),
                RegionName(region="north"),
            ],
        ),
    ),
    (
        "OPEN of the page",
        "e20a00 84 222a",
        Open(A=1, T=1, lease=10, extensions=[MultiLinkAck(), OpenShm(challenge=42)]),
    ),
    ("empty FRAME", "2500", Frame(R=1)),
    (
        "lane of a FRAME",
        "a5ac023101",
        Frame(R=1, sn=300, extensions=[Lane(priority=Priority.REAL_TIME)]),
    ),
]

WHOLE = [row for row in GOLDEN if not isinstance(row[2], Fragment | Frame)]


@pytest.mark.parametrize(("digits", "message"), [row[1:] for row in GOLDEN], ids=[row[0] for row in GOLDEN])
def test_golden_bytes(digits: str, message: Message) -> None:
    assert_golden(digits, message)


@pytest.mark.parametrize("digits", [row[1] for row in WHOLE], ids=[row[0] for row in WHOLE])
def test_every_cut_is_refused(digits: str) -> None:
    assert_every_cut_refused(digits, Kind.TRANSPORT)


HEAD = "8109f20102030405060708090a0b0c0d0e0f10"


@pytest.mark.parametrize(
    ("digits", "error", "field", "offset"),
    [
        pytest.param("0109f3" + HEAD[6:], BadValue, "INIT.whatami", 2, id="N02"),
        pytest.param("01090200", BadValue, "INIT.zid", 3, id="N03"),
        pytest.param(HEAD + "1f", UnknownMandatoryExtension, "INIT.extensions[0]", 19, id="N04"),
        pytest.param(HEAD + "6f", BadValue, "INIT.extensions[0]", 19, id="N05"),
        pytest.param(HEAD, Truncated, "INIT.extensions", 19, id="N06"),
        pytest.param("25003d0001ff02", BadValue, "FRAME.messages.PUSH.key_suffix", 4, id="N10"),
        pytest.param("a5001f3d0001610100", UnknownMandatoryExtension, "FRAME.extensions[0]", 2, id="N11"),
        pytest.param(
            "25003d0001612201 00", BadValue, "FRAME.messages.PUSH.body.DEL.timestamp_id", 8, id="N12"
        ),
        pytest.param("25001e0800", UnknownMessage, "FRAME.messages.DECLARE.body", 3, id="N13"),
        pytest.param("25003c010001610100", UnknownMessage, "FRAME.messages.REQUEST.body", 7, id="N14"),
        pytest.param("08", UnknownMessage, "header", 0, id="N15"),
        pytest.param(
            "2500bc01000161340303",
            BadValue,
            "FRAME.messages.REQUEST.extensions[0].QueryTarget.target",
            8,
            id="N17",
        ),
        pytest.param("6005", BadValue, "OAM.ENC", 0, id="N19"),
        pytest.param("a50031", Truncated, "FRAME.extensions[0].QoS.priority", 3, id="N20"),
        pytest.param("25", Truncated, "FRAME.sn", 1, id="N21"),
        ("0109020502", BadValue, "INIT", 4),
        ("210902058080 04", Overlong, "INIT.cookie", 4),
        ("a10902050048 01ff", BadValue, "INIT.extensions[0].RegionName.region", 7),
        ("400502be", Truncated, "OAM.data", 2),
        ("e7090101 0a0020 0a0000 51 02 0102", Truncated, "JOIN.extensions[0].QoS.lanes[1].next_sn_re", 14),
        ("e7090101 0a0020 0a0000 51 11" + "00" * 17, BadValue, "JOIN.extensions[0].QoS.length", 28),
        ("", Truncated, "header", 0),
    ],
)
def test_refused_bytes_name_the_field_and_the_place(
    digits: str, error: type[Exception], field: str, offset: int
) -> None:
    with pytest.raises(error) as caught:
        decode(raw(digits))
    assert (caught.value.field, caught.value.offset) == (field, offset)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "digits",
    [
        pytest.param("0108f20102030405060708090a0b0c0d0e0f10", id="N01: version 8"),
        pytest.param(HEAD + "812101", id="N07: QoS twice"),
        pytest.param(HEAD + "4800", id="N08: empty region"),
        pytest.param("420a0000", id="N09: empty cookie"),
        pytest.param("a5003104", id="N16: lane not agreed"),
        pytest.param("2580808080013d0001610100", id="N18: SN out of its resolution"),
        pytest.param("2500bc01000161340203", id="N17 with AllComplete"),
        pytest.param("22ffffffffffffffffff00", id="OPEN lease of 64 bits"),
        pytest.param("620a8080808010", id="OPEN SN of more than 32 bits"),
        pytest.param("61090e05fa0000 00", id="reserved bits everywhere"),
        pytest.param("848f0f", id="two unknown extensions"),
        pytest.param("420a008180800061", id="over-long count"),
        pytest.param("420a00" + "818004" + "00" * 0x10001, id="OPEN cookie longer than 16 bits count"),
    ],
)
def test_decoding_leaves_to_the_session_what_is_no_matter_of_bytes(digits: str) -> None:
    message = decode(raw(digits))
    assert bytes(message) == raw(digits)


def test_extension_with_another_mandatory_bit_is_unknown() -> None:
    frame = decode(raw("a5002105"))
    assert isinstance(frame.extensions[0], UnknownExtension)
    assert frame.extensions[0].z64 == 5
    with pytest.raises(UnknownMandatoryExtension):
        decode(raw("81090205 3701"))


def test_parameters_without_s_are_the_defaults() -> None:
    # Reading R-05.
    assert (Init().value("fsn"), Init().value("batch_size")) == (Resolution.BITS_32, 65535)
    assert Join().value("batch_size") == 8192
    assert decode(raw("01090205")).batch_size is None
