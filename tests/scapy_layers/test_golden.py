"""Golden bytes of what messages rarely have, and the proof that nothing in the catalogue lacks golden bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scapy_layers import extensions as ext
from scapy_layers.batch import Batch, contents
from scapy_layers.catalogue import EXTENSIONS, MESSAGES, decode_batch
from scapy_layers.codes import OamId, WhatAmI
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.message import Extension, Layer, Message, Region, UnknownExtension
from scapy_layers.network import NetworkOam, Push, Request, Response
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open
from tests.scapy_layers import test_data, test_declarations, test_network, test_scouting, test_transport
from tests.scapy_layers.golden import ROUTER, T1, assert_every_cut_refused, assert_golden, raw

COOKIE = bytes.fromhex("deadbeef")
MODULUS = bytes(range(64))
HMAC = bytes(range(32))
SYN, ACK = "81090205", "a109020504deadbeef"
OPEN_SYN, OPEN_ACK = "c20a0004deadbeef", "e20a00"


def init_syn(*extensions: Extension) -> Init:
    return Init(zid="5", extensions=list(extensions))


def init_ack(*extensions: Extension) -> Init:
    return Init(zid="5", cookie=COOKIE, extensions=list(extensions))


def open_syn(*extensions: Extension) -> Open:
    return Open(T=1, lease=10, cookie=COOKIE, extensions=list(extensions))


def open_ack(*extensions: Extension) -> Open:
    return Open(A=1, T=1, lease=10, extensions=list(extensions))


HANDSHAKES: list[tuple[str, str, Message]] = [
    # Shared memory: the segment, the challenge read in the other one, the counters of 1.10.
    ("Shm, InitSyn", SYN + "42 05 bcaffc800c", init_syn(ext.InitSynShm(segment_id=0xC01F17BC))),
    (
        "Shm, InitAck",
        ACK + "42 0e 95a9a5f6c8f0c4f0fe 9a99ab8906",
        init_ack(ext.InitAckShm(challenge=0xFEE113848EC95495, segment_id=0x612ACC9A)),
    ),
    (
        "Shm, OpenSyn (C03)",
        "c20a84edcb6d04deadbeef 42 12 94b8b7aabec8b59d3e 01 0001020304050607",
        Open(
            T=1,
            lease=10,
            initial_sn=0xDB2F684,
            cookie=COOKIE,
            extensions=[
                ext.OpenSynShm(challenge=0x3E3AD643E54DDC14, has_counters=1, counters=list(range(8)))
            ],
        ),
    ),
    ("Shm, OpenSyn, best effort", OPEN_SYN + "42 02 07 00", open_syn(ext.OpenSynShm(challenge=7))),
    (
        "Shm, OpenAck",
        OPEN_ACK + "42 0b 01 00 ffff03 020304050607",
        open_ack(ext.OpenAckShm(counters=[0, 65535, 2, 3, 4, 5, 6, 7])),
    ),
    ("Shm, OpenAck, best effort", OPEN_ACK + "42 01 00", open_ack(ext.OpenAckShm())),
    ("Shm, OpenSyn as the page has it", OPEN_SYN + "22 ac02", open_syn(ext.OpenShm(challenge=300))),
    # User and password.
    ("UsrPwd, InitSyn", SYN + "43 01 02", init_syn(ext.AuthInitSyn(extensions=[ext.UsrPwd()]))),
    (
        "UsrPwd, InitAck",
        ACK + "43 0a 22 99ccaa9da486db8eb6",
        init_ack(ext.AuthInitAck(extensions=[ext.UsrPwdNonce(nonce=0xB61D6C3243AAA619)])),
    ),
    (
        "UsrPwd, OpenSyn",
        OPEN_SYN + "43 28 42 26 04 75736572 20" + HMAC.hex(),
        open_syn(ext.AuthOpenSyn(extensions=[ext.UsrPwdProof(user=b"user", hmac=HMAC)])),
    ),
    ("UsrPwd, OpenAck", OPEN_ACK + "43 01 02", open_ack(ext.AuthOpenAck(extensions=[ext.UsrPwd()]))),
    # Public key, alone and beside user and password.
    (
        "PubKey, InitSyn",
        SYN + "43 08 82 41 05 02abcd 0103",
        init_syn(ext.AuthInitSyn(extensions=[ext.UsrPwd(), ext.PubKeySyn(n=b"\xab\xcd", e=b"\x03")])),
    ),
    (
        "PubKey, InitAck",
        ACK + "43 0a 41 08 02abcd 0103 021234",
        init_ack(ext.AuthInitAck(extensions=[ext.PubKeyAck(n=b"\xab\xcd", e=b"\x03", nonce=b"\x12\x34")])),
    ),
    (
        "PubKey, OpenSyn",
        OPEN_SYN + "43 05 41 03 021234",
        open_syn(ext.AuthOpenSyn(extensions=[ext.PubKeyProof(nonce=b"\x12\x34")])),
    ),
    (
        "PubKey, OpenAck",
        OPEN_ACK + "43 02 81 02",
        open_ack(ext.AuthOpenAck(extensions=[ext.PubKeyDone(), ext.UsrPwd()])),
    ),
    # Several links of one session.
    (
        "MultiLink, InitSyn",
        SYN + "44 45 40" + MODULUS.hex() + "03 010001",
        init_syn(ext.MultiLinkInitSyn(n=MODULUS, e=b"\x01\x00\x01")),
    ),
    (
        "MultiLink, InitAck",
        ACK + "44 47 40" + MODULUS.hex() + "03 010001 0177",
        init_ack(ext.MultiLinkInitAck(n=MODULUS, e=b"\x01\x00\x01", nonce=b"w")),
    ),
    ("MultiLink, OpenSyn", OPEN_SYN + "44 03 021234", open_syn(ext.MultiLinkOpenSyn(nonce=b"\x12\x34"))),
    ("MultiLink, OpenAck", OPEN_ACK + "04", open_ack(ext.MultiLinkAck())),
    # What the pages define for OPEN and nobody sends.
    (
        "OPEN, QoS LowLatency Compression",
        OPEN_SYN + "81 85 06",
        open_syn(ext.QoSOffer(), ext.LowLatency(), ext.Compression()),
    ),
    (
        "C02, shared memory agreed",
        "e109f09ab6f7cab4d12f7ff4a9d26c7554d82e 0a 00c0 04deadbeef 81 c20e95a9a5f6c8f0c4f0fe9a99ab8906 2701",
        Init(
            whatami=WhatAmI.ROUTER,
            zid=ROUTER,
            batch_size=0xC000,
            cookie=COOKIE,
            extensions=[
                ext.QoSOffer(),
                ext.InitAckShm(challenge=0xFEE113848EC95495, segment_id=0x612ACC9A),
                ext.Patch(patch=1),
            ],
        ),
    ),
    ("B08 and C19", "0300", Close()),
    ("JOIN, Shm", "870901 01 904e 00 00 52 03 616263", Join(zid="1", extensions=[ext.JoinShm(data=b"abc")])),
]

DATA: list[tuple[str, str, Message]] = [
    (
        "O27 first",
        "e6dbc6c34002 7d0003752f78",
        Fragment(R=1, M=1, sn=0x810E35B, extensions=[ext.First()], data=raw("7d0003752f78")),
    ),
    ("O27 last", "26dcc6c340 616263", Fragment(R=1, sn=0x810E35C, data=b"abc")),
    (
        "O28",
        "7d0003742f78 61 e0cacbb1b2a3d6806b 10 9ab6f7cab4d12f7ff4a9d26c7554d82e 0904757466 38 03616263",
        Push(
            M=1,
            key_suffix="t/x",
            body=Put(
                timestamp=0x6B01591B2632E560, timestamp_id=ROUTER, encoding=4, schema=b"utf8", data=b"abc"
            ),
        ),
    ),
    (
        "PUT in shared memory",
        "1d07 81 12 02 00 026869 01 06 8020 07 ac02 09",
        Push(
            key_scope=7,
            body=Put(
                extensions=[ext.Shm()],
                slices=[
                    {"slice": b"hi"},
                    {"reference": ext.ShmReference(size=4096, segment_id=7, index=300, generation=9)},
                ],
            ),
        ),
    ),
    (
        "ERR that says shared memory",
        "1b0700 c5 08 12 03 010203",
        Response(
            request_id=7,
            body=Err(
                encoding=4,
                extensions=[ext.Shm()],
                data=bytes([1, 2, 3]),
            ),
        ),
    ),
    (
        "QUERY with a body in shared memory",
        "1c0100 83 84 43 08 0a 02 000161 000162",
        Request(
            request_id=1,
            body=Query(
                extensions=[
                    ext.QueryBodyShm(),
                    ext.QueryBodySliced(encoding=5, slices=[{"slice": b"a"}, {"slice": b"b"}]),
                ]
            ),
        ),
    ),
    (
        "DEL of zenoh-pico",
        "1d00 82 43 01 61",
        Push(body=Del(extensions=[ext.PutAttachment(attachment=b"a")])),
    ),
    (
        "REPLY with an unknown extension",
        "1b0000 a4 01 0f 02",
        Response(body=Reply(consolidation=1, extensions=[UnknownExtension()], body=Del())),
    ),
    (
        "TimestampStack with a record of another kind",
        "9d00 47 12 07 02 02 0b 888e98a8c0e080810101aa 84 01 63 02",
        Push(
            extensions=[
                ext.TimestampStack(
                    conf_flags=7,
                    records=[
                        {"point": 2, "stamp": ext.StackedTimestamp(**T1)},
                        {"point": 4, "record": b"c"},
                    ],
                )
            ],
            body=Del(),
        ),
    ),
    (
        "LINKSTATE with all there is",
        "5f01 20 02 1f 05 ac02 02aabb 04 02 03612f62 03632f64 02 0106 0a ffff03 00 00 00 03 070809",
        NetworkOam(
            oam_id=OamId.LINKSTATE,
            linkstate=ext.LinkState(
                records=[
                    {
                        "gateway": 1,
                        "psid": 5,
                        "state_sn": 300,
                        "zid": b"\xaa\xbb",
                        "whatami": 4,
                        "locators": ["a/b", "c/d"],
                        "links": [1, 6],
                        "weights": [10, 65535],
                    },
                    {"links": [7, 8, 9]},
                ]
            ),
        ),
    ),
    ("OAM of another id", "5f2a026869", NetworkOam(oam_id=42, data=b"hi")),
]

HERE = HANDSHAKES + DATA
WITH_NAMES = HERE + test_network.GOLDEN + test_transport.GOLDEN + test_scouting.GOLDEN + test_data.ALL
EVERYWHERE = [message for _, _, message in WITH_NAMES] + [message for _, message in test_declarations.ALL]


@pytest.mark.parametrize(("digits", "message"), [row[1:] for row in HERE], ids=[row[0] for row in HERE])
def test_golden_bytes(digits: str, message: Message) -> None:
    assert_golden(digits, message)
    if not isinstance(message, Fragment):
        assert_every_cut_refused(digits, message.kind)


def test_everything_in_the_catalogue_has_golden_bytes() -> None:
    found = {type(layer) for message in EVERYWHERE for layer in inside(message)}
    assert {*MESSAGES, *EXTENSIONS, *Region.__subclasses__()} - found == set()


def inside(layer: Layer) -> Iterator[Layer]:
    """Yields a layer and all layers in it."""
    yield layer
    for field in layer.fields_desc:
        value = layer.getfieldval(field.name)
        for one in value if isinstance(value, list) else [value]:
            for part in one.values() if isinstance(one, dict) else [one]:
                if isinstance(part, Layer):
                    yield from inside(part)


def test_golden_batch() -> None:
    digits = "25 07 3d000161010134 04 25 08 3d000161010135"  # H61
    batch = [
        Frame(R=1, sn=7, messages=[Push(key_suffix="a", body=Put(data=b"4"))]),
        KeepAlive(),
        Frame(R=1, sn=8, messages=[Push(key_suffix="a", body=Put(data=b"5"))]),
    ]
    assert bytes(Batch(messages=batch)) == raw(digits)
    assert b"".join(map(bytes, decode_batch(raw(digits)))) == raw(digits)
    assert contents(raw(digits)).error is None
