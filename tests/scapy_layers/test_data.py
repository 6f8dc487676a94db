"""Data sub-messages on their own; inside network messages they are in test_network.py."""

from __future__ import annotations

import pytest

from scapy_layers.catalogue import decode
from scapy_layers.codes import Encoding, Kind
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.extensions import PutAttachment, QueryBody, QueryBodyShm, QueryBodySliced, Shm, SourceInfo
from scapy_layers.message import Message, UnknownExtension
from tests.scapy_layers.golden import T1, assert_every_cut_refused, assert_golden, raw

ALL: list[tuple[str, str, Message]] = [
    ("PUT", "01026869", Put(data=b"hi")),
    ("PUT, empty", "0100", Put()),
    ("PUT, timestamp", "21888e98a8c0e080810101aa026869", Put(**T1, data=b"hi")),
    ("PUT, encoding", "41090475746638026869", Put(encoding=Encoding.TEXT_PLAIN, schema="utf8", data=b"hi")),
    ("PUT, shared memory", "8112 00", Put(extensions=[Shm()], slices=[])),
    ("DEL", "02", Del()),
    ("QUERY", "03", Query()),
    (
        "QUERY, all",
        "e30301620f",
        Query(consolidation=3, parameters="b", extensions=[UnknownExtension()]),
    ),
    (
        "QUERY, body in shared memory",
        "83 84 4306 0a 01 00 02706c",
        Query(
            extensions=[
                QueryBodyShm(),
                QueryBodySliced(encoding=Encoding.APPLICATION_JSON, slices=[{"kind": 0, "slice": b"pl"}]),
            ]
        ),
    ),
    ("REPLY", "2403010176", Reply(consolidation="latest", body=Put(data=b"v"))),
    ("ERR", "05046f6f7073", Err(data=b"oops")),
    ("ERR, encoding", "450803657272", Err(encoding=Encoding.TEXT_PLAIN, data=b"err")),
    (
        "ERR, source",
        "85410510e101010203657272",
        Err(extensions=[SourceInfo(zid="1e1", eid=1, source_sn=2)], data=b"err"),
    ),
]


@pytest.mark.parametrize(("digits", "message"), [row[1:] for row in ALL], ids=[row[0] for row in ALL])
def test_golden_bytes(digits: str, message: Message) -> None:
    assert_golden(digits, message)
    assert_every_cut_refused(digits, Kind.DATA)


def test_error_has_no_timestamp() -> None:
    err = decode(raw("25 00"), Kind.DATA)
    assert (err.reserved_5, err.data) == (1, b"")


def test_deletion_may_have_the_attachment_of_a_put() -> None:
    # zenoh-pico sends it so.
    for digits in ("82 43026b76", "81 43026b76 00"):
        (attachment,) = decode(raw(digits), Kind.DATA).extensions
        assert isinstance(attachment, PutAttachment)
        assert attachment.attachment == b"kv"


SLICES = "03 00026869 01 06 8020 07 ac02 09 0000"


def test_payload_is_sliced_only_with_the_extension() -> None:
    sliced, whole = decode(raw("8112" + SLICES), Kind.DATA), decode(raw("818f12" + SLICES), Kind.DATA)
    assert [one["kind"] for one in sliced.slices] == [0, 1, 0]
    assert sliced.slices[0]["slice"] == b"hi"
    shared = sliced.slices[1]["reference"]
    assert (shared.size, shared.segment_id, shared.index, shared.generation) == (4096, 7, 300, 9)
    assert sliced.data is None
    assert [one["kind"] for one in whole.slices] == [0, 1, 0]
    plain = decode(raw("8102 03616263"), Kind.DATA)
    assert (plain.data, plain.slices) == (b"abc", [])


def test_error_is_not_sliced_whatever_its_extension_says() -> None:
    error = decode(raw("8512 03303030"), Kind.DATA)
    assert error.data == b"000"


def test_body_in_shared_memory_ends_where_its_slices_do() -> None:
    # The length is that of the bytes referred to.
    query = decode(raw("8384 c3b209 08 01 01 06 e807a5600000 45026b76"), Kind.DATA)
    assert query.extensions[1].slices[0]["reference"].size == 1000
    assert query.extensions[2].attachment == b"kv"
    assert bytes(query) == raw("8384 c3b209 08 01 01 06 e807a5600000 45026b76")


def test_body_of_a_query_is_sliced_only_behind_its_marker() -> None:
    (_, behind), (before, _) = (
        decode(raw(digits), Kind.DATA).extensions for digits in ("83 84 4302 0000", "83 c30200ff 04")
    )
    assert isinstance(behind, QueryBodySliced)
    assert (behind.encoding, behind.slices) == (0, [])
    assert isinstance(before, QueryBody)
    assert before.data == b"\xff"


@pytest.mark.parametrize(
    ("digits", "name", "encoding", "schema"),
    [
        ("08", "TEXT_PLAIN", 4, None),
        ("09057574662d38", "TEXT_PLAIN", 4, b"utf-8"),
        ("0a", "APPLICATION_JSON", 5, None),
        ("ffff0703612f62", "CUSTOM", 0xFFFF, b"a/b"),
    ],
)
def test_encoding(digits: str, name: str, encoding: int, schema: bytes | None) -> None:
    put = decode(raw("41") + raw(digits) + b"\x00", Kind.DATA)
    assert (put.encoding, put.schema) == (encoding, schema)
    assert bytes(Put(encoding=name, schema=schema)) == bytes(put)
