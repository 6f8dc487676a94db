"""Network messages with their bodies, against bytes that real nodes sent or took."""

from __future__ import annotations

import pytest

from scapy_layers.catalogue import decode
from scapy_layers.codes import Consolidation, Encoding, Kind, OamId, Priority, QueryTarget, What
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.errors import BadValue, Overlong, UnknownMessage
from scapy_layers.extensions import (
    Budget,
    DelAttachment,
    Lane,
    LinkState,
    NodeId,
    PutAttachment,
    QoS,
    QueryableInfo,
    QueryAttachment,
    QueryBody,
    ResponderId,
    SourceInfo,
    StackedTimestamp,
    Target,
    Timeout,
    Timestamp,
    TimestampStack,
    WireExpr,
)
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.primitives import zid_from_text
from scapy_layers.transport import Frame
from tests.scapy_layers.golden import CLIENT, ROUTER, T1, assert_every_cut_refused, assert_golden, raw

SOURCE = {"zid": "aabbccdd", "eid": 7, "source_sn": 300}
DECLARED = QoS(D=1, priority=Priority.CONTROL)
ASKED = QoS(D=1)
URGENT = QoS(E=1, D=1, priority=Priority.REAL_TIME)


def push(body: Message, suffix: str = "a", **fields: object) -> Push:
    return Push(key_suffix=suffix, body=body, **fields)


def state(psid: int, sn: int, zid: str, role: What, *locators: str, links: list[int]) -> dict[str, object]:
    known: dict[str, object] = {"psid": psid, "state_sn": sn, "zid": zid_from_text(zid), "whatami": role}
    return known | ({"locators": list(locators)} if locators else {}) | {"links": links}


def declare(body: Message, **fields: object) -> Declare:
    return Declare(extensions=[DECLARED], body=body, **fields)


HAND_MADE: list[tuple[str, str, Message]] = [
    ("H15", "3d0003612f6201026869", push(Put(data=b"hi"), "a/b")),
    ("H16", "1d0701026869", Push(key_scope=7, body=Put(data=b"hi"))),
    ("H17", "7d07022f7801026869", push(Put(data=b"hi"), "/x", M=1, key_scope=7)),
    (
        "H18",
        "bd000161a119c20b888e98a8c0e080810101aab305470f0301020b888e98a8c0e080810101aa01026869",
        push(
            Put(data=b"hi"),
            extensions=[
                URGENT,
                Timestamp(**T1),
                NodeId(node_id=5),
                TimestampStack(conf_flags=3, records=[{"point": 2, "stamp": StackedTimestamp(**T1)}]),
            ],
        ),
    ),
    (
        "H19",
        "bd000161a119c20b888e98a8c0e080810101aa330502",
        push(Del(), extensions=[URGENT, Timestamp(**T1), NodeId(node_id=5)]),
    ),
    ("H20", "3d00016122888e98a8c0e080810101aa", push(Del(**T1))),
    (
        "H21",
        "3d000161e1888e98a8c0e080810101aa090475746638c10830ddccbbaa07ac0243026b76026869",
        push(
            Put(
                **T1,
                encoding=Encoding.TEXT_PLAIN,
                schema="utf8",
                extensions=[SourceInfo(**SOURCE), PutAttachment(attachment=b"kv")],
                data=b"hi",
            )
        ),
    ),
    (
        "H22",
        "3d00016182c10830ddccbbaa07ac0242026b76",
        push(Del(extensions=[SourceInfo(**SOURCE), DelAttachment(attachment=b"kv")])),
    ),
    ("H23", "3c010003612f6203", Request(request_id=1, key_suffix="a/b", body=Query())),
    (
        "H24",
        "bcac020003612f2aa10db401a50526d00fe30203783d31c10830ddccbbaa07ac02c30308686945026b76",
        Request(
            request_id=300,
            key_suffix="a/*",
            extensions=[ASKED, Target(target=QueryTarget.ALL), Budget(budget=5), Timeout(timeout=2000)],
            body=Query(
                consolidation=Consolidation.MONOTONIC,
                parameters="x=1",
                extensions=[
                    SourceInfo(**SOURCE),
                    QueryBody(encoding=Encoding.TEXT_PLAIN, data=b"hi"),
                    QueryAttachment(attachment=b"kv"),
                ],
            ),
        ),
    ),
    (
        "H25",
        "bbac020003612f62430630ddccbbaa070401026869",
        Response(
            request_id=300,
            key_suffix="a/b",
            extensions=[ResponderId(zid="aabbccdd", eid=7)],
            body=Reply(body=Put(data=b"hi")),
        ),
    ),
    (
        "H26",
        "3bac020003612f62240302",
        Response(request_id=300, key_suffix="a/b", body=Reply(consolidation="latest", body=Del())),
    ),
    (
        "H27",
        "3bac020003612f624508046f6f7073",
        Response(request_id=300, key_suffix="a/b", body=Err(encoding="text_plain", data=b"oops")),
    ),
    ("H28", "1aac02", ResponseFinal(request_id=300)),
    ("H29", "9aac02210d", ResponseFinal(request_id=300, extensions=[ASKED])),
    ("H30", "1e20070003612f62", Declare(body=DeclareKeyExpr(key_id=7, key_suffix="a/b"))),
    ("H31", "1e200807022f63", Declare(body=DeclareKeyExpr(key_id=8, key_scope=7, key_suffix="/c"))),
    ("H32", "1e0107", Declare(body=UndeclareKeyExpr(key_id=7))),
    ("H33", "9e210822010004612f2a2a", declare(DeclareSubscriber(entity_id=1, key_suffix="a/**"))),
    ("H34", "1e420207", Declare(body=DeclareSubscriber(entity_id=2, M=1, key_scope=7))),
    ("H35", "1e0301", Declare(body=UndeclareSubscriber(entity_id=1))),
    (
        "H36",
        "1e83015f060100612f2a2a",
        Declare(body=UndeclareSubscriber(entity_id=1, extensions=[WireExpr(key_suffix="a/**")])),
    ),
    ("H37", "1e2403000161", Declare(body=DeclareQueryable(entity_id=3, key_suffix="a"))),
    (
        "H38",
        "1ea403000161218106",
        Declare(
            body=DeclareQueryable(
                entity_id=3, key_suffix="a", extensions=[QueryableInfo(complete=1, distance=3)]
            )
        ),
    ),
    (
        "H39",
        "1e85035f020000",
        Declare(body=UndeclareQueryable(entity_id=3, extensions=[WireExpr()])),
    ),
    ("H40", "1e2604000161", Declare(body=DeclareToken(entity_id=4, key_suffix="a"))),
    ("H41", "1e87045f020000", Declare(body=UndeclareToken(entity_id=4, extensions=[WireExpr()]))),
    ("H42", "3e091a", Declare(interest_id=9, body=DeclareFinal())),
    (
        "H43",
        "3909380004612f2a2a",
        Interest(mode="current", interest_id=9, tokens=1, key_suffix="a/**"),
    ),
    ("H44", "590a02", Interest(mode="future", interest_id=10, subscribers=1)),
    (
        "H45",
        "790bb30004612f2a2a",
        Interest(
            mode="current_future",
            interest_id=11,
            keyexprs=1,
            subscribers=1,
            aggregate=1,
            key_suffix="a/**",
        ),
    ),
    ("H46", "190b", Interest(interest_id=11)),
    (
        "H47",
        "df012108200107000204ddccbbaa0201127463702f3132372e302e302e313a373434370101",
        NetworkOam(
            oam_id=OamId.LINKSTATE,
            extensions=[DECLARED],
            linkstate=LinkState(
                records=[
                    state(0, 2, "aabbccdd", What.PEER, "tcp/127.0.0.1:7447", links=[1]),
                ]
            ),
        ),
    ),
    ("H48", "1f2a", NetworkOam(oam_id=42)),
    ("H49", "3f2aac02", NetworkOam(oam_id=42, z64=300)),
]

R01_STATE = (
    "0207000210510a9c0d66634659af0165fe1be608920101137463702f3132372e302e302e313a313736303001010301"
    "0010d47728aff2b91dbf0f6eec30d1f5195d0100"
)
PEER_STATE = (
    "0207000210c88487532c425b40b1cdce76b7a2d77c0201137463702f3132372e302e302e313a3137363030000301"
    "0010d986fdc0e0cef627c2f8873b2ef0f0290200"
)


def frame(sn: int, *messages: Message, **fields: object) -> Frame:
    return Frame(R=1, sn=sn, messages=list(messages), **fields)


OBSERVED: list[tuple[str, str, Message]] = [
    (
        "H57",
        "a5003105 3d000161010131 3d000161010132",
        Frame(R=1, extensions=[Lane()], messages=[push(Put(data=b"1")), push(Put(data=b"2"))]),
    ),
    ("H58", "05003d000161010136", Frame(messages=[push(Put(data=b"6"))])),
    (
        "O07",
        "25a3a0917d7d0003742f7821e0cacbb1b2a3d6806b109ab6f7cab4d12f7ff4a9d26c7554d82e0568656c6c6f",
        frame(
            0xFA45023, push(Put(timestamp=0x6B01591B2632E560, timestamp_id=ROUTER, data=b"hello"), "t/x", M=1)
        ),
    ),
    ("O08", "25aaa0917d7d0003742f7802", frame(0xFA4502A, push(Del(), "t/x", M=1))),
    (
        "O09 entity",
        "be02210862010004612f2a2a",
        declare(DeclareSubscriber(entity_id=1, M=1, key_suffix="a/**"), interest_id=2),
    ),
    ("O09 final", "be0221081a", declare(DeclareFinal(), interest_id=2)),
    ("O10", "9e210862030005612f6e6577", declare(DeclareSubscriber(entity_id=3, M=1, key_suffix="a/new"))),
    ("O11", "9e21080303", declare(UndeclareSubscriber(entity_id=3))),
    ("O12", "be07210866000005612f746f6b", declare(DeclareToken(M=1, key_suffix="a/tok"), interest_id=7)),
    ("O13", "9e2108870a5f020000", declare(UndeclareToken(entity_id=10, extensions=[WireExpr()]))),
    (
        "O14",
        "be042108e4060003612f71218106",
        declare(
            DeclareQueryable(
                entity_id=6, M=1, key_suffix="a/q", extensions=[QueryableInfo(complete=1, distance=3)]
            ),
            interest_id=4,
        ),
    ),
    ("O15", "9e210820010003612f62", declare(DeclareKeyExpr(key_id=1, key_suffix="a/b"))),
    (
        "O16",
        "25d8e5d04a7c010003712f6103",
        frame(0x95432D8, Request(M=1, request_id=1, key_suffix="q/a", body=Query())),
    ),
    (
        "O17",
        "fc020003712f61340103",
        Request(M=1, request_id=2, key_suffix="q/a", extensions=[Target(target="all")], body=Query()),
    ),
    (
        "O18",
        "7c080003712f6183c105100a0b0701c304086162634503617474",
        Request(
            M=1,
            request_id=8,
            key_suffix="q/a",
            body=Query(
                extensions=[
                    SourceInfo(zid="b0a", eid=7, source_sn=1),
                    QueryBody(encoding=Encoding.TEXT_PLAIN, data=b"abc"),
                    QueryAttachment(attachment=b"att"),
                ]
            ),
        ),
    ),
    (
        "O19",
        "258680fd7e7b050003712f6104010376616c",
        frame(0xFDF4006, Response(M=1, request_id=5, key_suffix="q/a", body=Reply(body=Put(data=b"val")))),
    ),
    ("O20", "258780fd7e1a05", frame(0xFDF4007, ResponseFinal(request_id=5))),
    (
        "O21",
        "258880fd7e7b060003712f6105046f6f7073",
        frame(0xFDF4008, Response(M=1, request_id=6, key_suffix="q/a", body=Err(data=b"oops"))),
    ),
    (
        "O22",
        "258c80fd7edb0900a10d430410e10100050754696d656f7574",
        frame(
            0xFDF400C,
            Response(
                M=1,
                request_id=9,
                extensions=[ASKED, ResponderId(zid="1e1")],
                body=Err(data=b"Timeout"),
            ),
        ),
    ),
    (
        "O23",
        "259280fd7efb0d0003712f61430410e101092403010176",
        frame(
            0xFDF4012,
            Response(
                M=1,
                request_id=13,
                key_suffix="q/a",
                extensions=[ResponderId(zid="1e1", eid=9)],
                body=Reply(consolidation=3, body=Put(data=b"v")),
            ),
        ),
    ),
    (
        "O24",
        "259480fd7e1b0d00450803657272",
        frame(0xFDF4014, Response(request_id=13, body=Err(encoding=Encoding.TEXT_PLAIN, data=b"err"))),
    ),
    (
        "O25",
        "a5cdb7fa373100df0121080100",
        frame(
            0x6FE9BCD,
            NetworkOam(oam_id=1, extensions=[DECLARED], linkstate=LinkState()),
            extensions=[Lane(priority=0)],
        ),
    ),
    (
        "O26",
        (
            "a5cdb7fa373100df0121084302070002109ab6f7cab4d12f7ff4a9d26c7554d82e0101137463702f3132372e302e302e"
            "313a31373535310101030100100102030405060708090a0b0c0d0e0f100100"
        ),
        frame(
            0x6FE9BCD,
            NetworkOam(
                oam_id="linkstate",
                extensions=[DECLARED],
                linkstate=LinkState(
                    records=[
                        state(0, 2, ROUTER, What.ROUTER, "tcp/127.0.0.1:17551", links=[1]),
                        state(1, 0, CLIENT, What.ROUTER, links=[]),
                    ]
                ),
            ),
            extensions=[Lane(priority="control")],
        ),
    ),
    ("B05", "2588b3da387d0003742f78010568656c6c6f", frame(0x7169988, push(Put(data=b"hello"), "t/x", M=1))),
    (
        "B06",
        "2589b3da38fc010003712f78a10d26e8072303",
        frame(
            0x7169989,
            Request(
                M=1,
                request_id=1,
                key_suffix="q/x",
                extensions=[ASKED, Timeout(timeout=1000)],
                body=Query(consolidation="latest"),
            ),
        ),
    ),
    (
        "B07",
        "258bd6972dfb010003712f78a10d4312f0d9b2ca3c4788be782d48469f1ae188a307040101729a01210d",
        frame(
            0x5A5EB0B,
            Response(
                M=1,
                request_id=1,
                key_suffix="q/x",
                extensions=[ASKED, ResponderId(zid=raw("d9b2ca3c4788be782d48469f1ae188a3"), eid=7)],
                body=Reply(body=Put(data=b"r")),
            ),
            ResponseFinal(request_id=1, extensions=[ASKED]),
        ),
    ),
    (
        "C05",
        "a584edcb6d31009e21082001000764656d6f2f65789e2108620101032f2a2a",
        frame(
            0xDB2F684,
            declare(DeclareKeyExpr(key_id=1, key_suffix="demo/ex")),
            declare(DeclareSubscriber(entity_id=1, M=1, key_scope=1, key_suffix="/**")),
            extensions=[Lane(priority="control")],
        ),
    ),
    (
        "C06",
        "2584edcb6d7d01022f6101027631",
        frame(0xDB2F684, push(Put(data=b"v1"), "/a", M=1, key_scope=1)),
    ),
    (
        "C07",
        "2585edcb6d7d00076f746865722f6bc10843026174027631",
        frame(
            0xDB2F685,
            push(
                Put(encoding="text_plain", extensions=[PutAttachment(attachment=b"at")], data=b"v1"),
                "other/k",
                M=1,
            ),
        ),
    ),
    (
        "C08",
        "a584edcb6d3101fd00076f746865722f6b211901027631",
        frame(
            0xDB2F684,
            push(Put(data=b"v1"), "other/k", M=1, extensions=[URGENT]),
            extensions=[Lane(priority="real_time")],
        ),
    ),
    ("C09", "2586edcb6d7d00076f746865722f6b02", frame(0xDB2F686, push(Del(), "other/k", M=1))),
    ("C10 alias", "9e2108200200077075622f6b6579", declare(DeclareKeyExpr(key_id=2, key_suffix="pub/key"))),
    (
        "C10 interest",
        "f90253022108",
        Interest(
            mode="current_future",
            interest_id=2,
            keyexprs=1,
            subscribers=1,
            M=1,
            key_scope=2,
            extensions=[DECLARED],
        ),
    ),
    ("C11", "99022108", Interest(interest_id=2, extensions=[DECLARED])),
    ("C12 alias", "9e2108200300027171", declare(DeclareKeyExpr(key_id=3, key_suffix="qq"))),
    (
        "C12 queryable",
        "9e2108e40303032f2a2a2101",
        declare(
            DeclareQueryable(
                entity_id=3, M=1, key_scope=3, key_suffix="/**", extensions=[QueryableInfo(complete=1)]
            )
        ),
    ),
    (
        "C13",
        "fc0100086e6f626f64792f2aa10d26e807630303613d62",
        Request(
            M=1,
            request_id=1,
            key_suffix="nobody/*",
            extensions=[ASKED, Timeout(timeout=1000)],
            body=Query(consolidation=3, parameters="a=b"),
        ),
    ),
    ("C14", "9a01210d", ResponseFinal(request_id=1, extensions=[ASKED])),
    (
        "C15",
        "fc0200086e6f626f64792f6ba10db40126e807a301c3030a706c45027a7a",
        Request(
            M=1,
            request_id=2,
            key_suffix="nobody/k",
            extensions=[ASKED, Target(target="all"), Timeout(timeout=1000)],
            body=Query(
                consolidation="none",
                extensions=[
                    QueryBody(encoding=Encoding.APPLICATION_JSON, data=b"pl"),
                    QueryAttachment(attachment=b"zz"),
                ],
            ),
        ),
    ),
    (
        "C16 interest",
        "b9057905032f2a2a2108",
        Interest(
            mode="current",
            interest_id=5,
            keyexprs=1,
            tokens=1,
            M=1,
            key_scope=5,
            key_suffix="/**",
            extensions=[DECLARED],
        ),
    ),
    ("C16 token", "be052108060004", declare(DeclareToken(key_scope=4), interest_id=5)),
    (
        "C17",
        "d9067905032f2a2a2108",
        Interest(
            mode="future",
            interest_id=6,
            keyexprs=1,
            tokens=1,
            M=1,
            key_scope=5,
            key_suffix="/**",
            extensions=[DECLARED],
        ),
    ),
    ("C18", "9e210885035f020000", declare(UndeclareQueryable(entity_id=3, extensions=[WireExpr()]))),
    (
        "R01",
        "a5a58c90733100df01210843" + R01_STATE,
        frame(
            0xE640625,
            NetworkOam(
                oam_id=1,
                extensions=[DECLARED],
                linkstate=LinkState(
                    records=[
                        state(
                            0,
                            2,
                            "9208e61bfe6501af594663660d9c0a51",
                            What.ROUTER,
                            "tcp/127.0.0.1:17600",
                            links=[1],
                        ),
                        state(1, 0, "5d19f5d130ec6e0fbf1db9f2af2877d4", What.ROUTER, links=[]),
                    ]
                ),
            ),
            extensions=[Lane(priority="control")],
        ),
    ),
    (
        "R02",
        "a5a88c907331009e2108620001032f2a2a",
        frame(
            0xE640628,
            declare(DeclareSubscriber(M=1, key_scope=1, key_suffix="/**")),
            extensions=[Lane(priority="control")],
        ),
    ),
    (
        "R03",
        "9e210883005f0503012f2a2a",
        declare(UndeclareSubscriber(extensions=[WireExpr(mapping=1, key_scope=1, key_suffix="/**")])),
    ),
    (
        "R04 queryable",
        "9e210885005f020202",
        declare(UndeclareQueryable(extensions=[WireExpr(mapping=1, key_scope=2)])),
    ),
    (
        "R04 token",
        "9e210887005f020203",
        declare(UndeclareToken(extensions=[WireExpr(mapping=1, key_scope=3)])),
    ),
    (
        "R05",
        "9e2108c400022101",
        declare(DeclareQueryable(M=1, key_scope=2, extensions=[QueryableInfo(complete=1)])),
    ),
    (
        "R06",
        "25abe3d4353d01022f7821d0a6cba78ef7d6806b10d47728aff2b91dbf0f6eec30d1f5195d0568656c6c6f",
        frame(
            0x6B531AB,
            push(
                Put(
                    timestamp=0x6B015BB8E4F2D350,
                    timestamp_id=raw("d47728aff2b91dbf0f6eec30d1f5195d"),
                    data=b"hello",
                ),
                "/x",
                key_scope=1,
            ),
        ),
    ),
    (
        "two peers",
        "a5cfa0831b3100df01210842" + PEER_STATE + "be0021081a",
        frame(
            0x360D04F,
            NetworkOam(
                oam_id=1,
                extensions=[DECLARED],
                linkstate=LinkState(
                    records=[
                        state(
                            0,
                            2,
                            "7cd7a2b776cecdb1405b422c538784c8",
                            What.PEER,
                            "tcp/127.0.0.1:17600",
                            links=[],
                        ),
                        state(1, 0, "29f0f02e3b87f8c227f6cee0c0fd86d9", What.PEER, links=[]),
                    ]
                ),
            ),
            declare(DeclareFinal(), interest_id=0),
            extensions=[Lane(priority="control")],
        ),
    ),
    ("token of a peer", "9e21082003 0005746f6b2f31", declare(DeclareKeyExpr(key_id=3, key_suffix="tok/1"))),
    ("low latency PUSH", "7d0003742f78010568656c6c6f", push(Put(data=b"hello"), "t/x", M=1)),
    (
        "unknown extensions are kept",
        "9e8fabac024c01311a",
        Declare(
            extensions=[
                UnknownExtension(ext_id=15),
                UnknownExtension(ext_id=11, z64=300),
                UnknownExtension(ext_id=12, data=b"1"),
            ],
            body=DeclareFinal(),
        ),
    ),
    (
        "custom encoding",
        "3d00016141ffff0703612f6200",
        push(Put(encoding=Encoding.CUSTOM, schema="a/b")),
    ),
]

GOLDEN = HAND_MADE + OBSERVED


@pytest.mark.parametrize(("digits", "message"), [row[1:] for row in GOLDEN], ids=[row[0] for row in GOLDEN])
def test_golden_bytes(digits: str, message: Message) -> None:
    assert_golden(digits, message)


WHOLE = [row for row in GOLDEN if not isinstance(row[2], Frame)]


@pytest.mark.parametrize("digits", [row[1] for row in WHOLE], ids=[row[0] for row in WHOLE])
def test_every_cut_is_refused(digits: str) -> None:
    assert_every_cut_refused(digits, Kind.NETWORK)


@pytest.mark.parametrize(
    ("digits", "error", "field", "offset"),
    [
        ("1d80800400", Overlong, "PUSH.key_scope", 1),
        ("3d00808004", Overlong, "PUSH.key_suffix", 2),
        ("3c8080808010 000161 03", Overlong, "REQUEST.request_id", 1),
        ("1b8080808010 00 0500", Overlong, "RESPONSE.request_id", 1),
        ("1a8080808010", Overlong, "RESPONSE_FINAL.request_id", 1),
        ("3d000161 41 8080808010 00", Overlong, "PUSH.body.PUT.encoding", 5),
        ("3d000161 41 09 8002", Overlong, "PUSH.body.PUT.schema", 6),
        ("3d000161 21 00 00 00", BadValue, "PUSH.body.PUT.timestamp_id", 6),
        ("3d000161 21 00 0100 00", BadValue, "PUSH.body.PUT.timestamp_id", 6),
        ("3d000161 21 00 11" + "01" * 17 + "00", BadValue, "PUSH.body.PUT.timestamp_id", 6),
        ("3d000161 03", UnknownMessage, "PUSH.body", 4),
        ("3b01000161 01", UnknownMessage, "RESPONSE.body", 5),
        ("3b00000161 04 03", UnknownMessage, "RESPONSE.body.REPLY.body", 6),
        ("3c01000161 01", UnknownMessage, "REQUEST.body", 5),
        ("bc01000161 2500 03 ff", BadValue, "REQUEST", 8),
        ("3c01000161 43 02 c328", BadValue, "REQUEST.body.QUERY.parameters", 6),
        ("1e83015f05 018080 0400", Overlong, "DECLARE.body.U_SUBSCRIBER.extensions[0].WireExpr.key_scope", 6),
        ("1e83015f03 0100ff", BadValue, "DECLARE.body.U_SUBSCRIBER.extensions[0].WireExpr.key_suffix", 7),
        ("bd000161 47 02 0000 02", BadValue, "PUSH.extensions[0].TimestampStack.conf_flags", 6),
        ("bd000161 47 03 018002 02", BadValue, "PUSH.extensions[0].TimestampStack.records", 7),
        ("bd000161 42 04 000101aa 02", BadValue, "PUSH.extensions[0].Timestamp.length", 9),
        ("7f05", BadValue, "OAM.ENC", 0),
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
        pytest.param("1e20 818004 00 0161", id="key id of more than 16 bits"),
        pytest.param("1e42 8080808010 07", id="entity id of more than 32 bits"),
        pytest.param("198080808010", id="interest id of more than 32 bits"),
        pytest.param("3e097a", id="flags of D_FINAL"),
        pytest.param("bd000161 21ffff03 02", id="QoS wider than a byte"),
        pytest.param("bd000161 33ffffff01 02", id="NodeId wider than 16 bits"),
        pytest.param("3c01000161 23 7f", id="consolidation without a name"),
        pytest.param("3d000002", id="empty suffix"),
        pytest.param("3d000161 41 0900 00", id="empty schema"),
        pytest.param("3d000161 41 00 00", id="default encoding written out"),
        pytest.param("3d000161 21 00 020100 00", id="zero bytes behind a timestamp id"),
        pytest.param("7d8000 818000 61 01 8000", id="over-long numbers"),
    ],
)
def test_accepted_although_unusual(digits: str) -> None:
    assert bytes(decode(raw(digits))) == raw(digits)


def test_later_of_two_equal_extensions_is_there_too() -> None:
    push_twice = decode(raw("bd000161 a108 210d 02"))
    assert [one.priority for one in push_twice.extensions] == [0, 5]
