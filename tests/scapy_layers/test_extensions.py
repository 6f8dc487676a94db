"""Extensions: the table of all headers, typed bodies, and lies in Z, ENC, M and the length."""

from __future__ import annotations

import pytest

from scapy_layers import shape
from scapy_layers.catalogue import decode, shapes
from scapy_layers.codes import Kind
from scapy_layers.data import Put
from scapy_layers.errors import BadValue, Overlong, Truncated, UnknownMandatoryExtension
from scapy_layers.extensions import QoS, QoSLink, Timestamp, TimestampStack, WireExpr
from scapy_layers.fields import Vle
from scapy_layers.message import Extension, Extensions, UnknownExtension, extension
from scapy_layers.network import Push
from tests.scapy_layers.golden import raw

COMMON = {0x21: "QoS", 0x42: "Timestamp"}
HEADERS: dict[str, dict[int, str]] = {
    "SCOUT": {},
    "HELLO": {},
    "transport OAM": {0x31: "QoS"},
    "INIT": {
        0x01: "QoS",
        0x21: "QoSLink",
        0x42: "Shm",
        0x43: "Auth",
        0x44: "MultiLink",
        0x05: "LowLatency",
        0x06: "Compression",
        0x27: "Patch",
        0x48: "RegionName",
    },
    "OPEN": {
        0x01: "QoS",
        0x22: "Shm",
        0x42: "Shm",
        0x43: "Auth",
        0x44: "MultiLink",
        0x04: "MultiLinkAck",
        0x05: "LowLatency",
        0x06: "Compression",
        0x27: "RemoteBound",
    },
    "CLOSE": {},
    "KEEP_ALIVE": {},
    "FRAME": {0x31: "QoS"},
    "FRAGMENT": {0x31: "QoS", 0x02: "First", 0x03: "Drop"},
    "JOIN": {0x51: "QoS", 0x52: "Shm", 0x27: "Patch"},
    "PUSH": {**COMMON, 0x33: "NodeId", 0x47: "TimestampStack"},
    "REQUEST": {
        **COMMON,
        0x33: "NodeId",
        0x34: "QueryTarget",
        0x25: "Budget",
        0x26: "Timeout",
        0x47: "TimestampStack",
    },
    "RESPONSE": {**COMMON, 0x43: "ResponderId", 0x47: "TimestampStack"},
    "RESPONSE_FINAL": COMMON,
    "DECLARE": {**COMMON, 0x33: "NodeId"},
    "INTEREST": {**COMMON, 0x33: "NodeId"},
    "OAM": COMMON,
    "D_KEYEXPR": {},
    "U_KEYEXPR": {},
    "D_SUBSCRIBER": {},
    "U_SUBSCRIBER": {0x5F: "WireExpr"},
    "D_QUERYABLE": {0x21: "QueryableInfo"},
    "U_QUERYABLE": {0x5F: "WireExpr"},
    "D_TOKEN": {},
    "U_TOKEN": {0x5F: "WireExpr"},
    "D_FINAL": {},
    "PUT": {0x41: "SourceInfo", 0x12: "Shm", 0x43: "Attachment"},
    "DEL": {0x41: "SourceInfo", 0x42: "Attachment", 0x43: "Attachment"},
    "QUERY": {0x41: "SourceInfo", 0x43: "QueryBody", 0x04: "QueryBodyShm", 0x45: "Attachment"},
    "REPLY": {},
    "ERR": {0x41: "SourceInfo", 0x12: "Shm"},
}


def test_table_of_extensions() -> None:
    found = {}
    for described in shapes().values():
        (chain,) = (one for one in shape.walk(described.fields) if isinstance(one, shape.Chain))
        name = "transport OAM" if (described.kind, described.id) == (Kind.TRANSPORT, 0) else described.name
        found[name] = {known.header: known.name for known in chain.known}
        assert chain.skips_mandatory is (described.kind is Kind.SCOUTING)
    assert found == HEADERS


def test_bits_of_a_number_are_read_each() -> None:
    link = decode(raw("81090205 21b6f020")).extensions[0]
    assert isinstance(link, QoSLink)
    assert (link.qos, link.has_priorities, link.has_reliability) == (0, 1, 1)
    assert (link.first_priority, link.last_priority, link.reliability) == (6, 7, 1)
    qos = QoS(raw("21 7e"))
    assert (qos.F, qos.E, qos.D, qos.priority, qos.reserved6) == (1, 1, 1, 6, 1)
    assert bytes(QoS(F=1, E=1, priority=7)).hex() == "2137"
    assert QoS(raw("21" + "ff" * 9)).reserved6 == (1 << 58) - 1


def test_timestamp_is_shown_as_the_time_that_it_stands_for() -> None:
    shown = Timestamp(timestamp=(1_795_750_764 << 32) + 0xFFFFFFFF, timestamp_id=b"\xbb").show(dump=True)
    assert "(2026-11-27T03:39:24.999999999Z)" in shown
    assert "(1970-01-01T00:00:00.500000000Z)" in Put(T=1, timestamp=1 << 31).show(dump=True)
    assert "(2106-02-07T06:28:15.999999999Z)" in Put(T=1, timestamp=(1 << 64) - 1).show(dump=True)


def test_stack_of_timestamps() -> None:
    stack = TimestampStack(raw("470a 07 02 02 03 0a01bb 84 01 ff"))
    first, second = stack.records
    assert (first["custom"], first["point"], first["stamp"].timestamp) == (0, 2, 10)
    assert first["stamp"].timestamp_id == b"\xbb"
    assert (second["custom"], second["point"], second["record"]) == (1, 4, b"\xff")
    assert not stack.errors
    assert bytes(stack) == raw("470a 07 02 02 03 0a01bb 84 01 ff")


def test_suffix_of_an_undeclaration_fills_the_extension() -> None:
    # Reading R-09.
    key = WireExpr(raw("5f05 03 01 2f2a2a"))
    assert (key.mapping, key.N, key.key_scope, key.key_suffix) == (1, 1, 1, "/**")


@pytest.mark.parametrize(
    ("chain", "error", "field", "offset"),
    [
        ("7f", BadValue, "PUSH.extensions[0]", 4),
        ("6f", BadValue, "PUSH.extensions[0]", 4),
        ("a105 1f", UnknownMandatoryExtension, "PUSH.extensions[1]", 6),
        ("8f 3105", UnknownMandatoryExtension, "PUSH.extensions[1]", 5),
        ("21", Truncated, "PUSH.extensions[0].QoS.F", 5),
        ("a105", Truncated, "PUSH.extensions", 6),
        ("4f", Truncated, "PUSH.extensions[0].unknown extension.length", 5),
        ("4f 7f 00", Truncated, "PUSH.extensions[0].unknown extension.length", 5),
        ("4f 8080808010 00", Overlong, "PUSH.extensions[0].unknown extension.length", 5),
        ("42 03 0001aa", Truncated, "PUSH.body", 9),
        ("42 02 0001 02", Truncated, "PUSH.extensions[0].Timestamp.timestamp_id", 7),
        ("42 05 0001aa0000 02", BadValue, "PUSH.extensions[0].Timestamp.length", 9),
    ],
)
def test_lies_in_a_chain_are_refused_where_they_stand(
    chain: str, error: type[Exception], field: str, offset: int
) -> None:
    whole = raw("bd000161") + raw(chain)
    with pytest.raises(error) as caught:
        decode(whole)
    assert (caught.value.field, caught.value.offset) == (field, offset)  # type: ignore[attr-defined]
    tolerant = Push(whole)
    assert tolerant.errors
    assert bytes(tolerant) == whole


def test_known_id_with_another_encoding_is_unknown() -> None:
    # Reading R-08: 0x01 and 0x23 stand where 0x21 and 0x33 are known.
    push = decode(raw("bd000161 81 2305 02"))
    assert [type(one) for one in push.extensions] == [UnknownExtension, UnknownExtension]
    assert push.extensions[1].z64 == 5


def test_scouting_skips_unknown_mandatory_extensions() -> None:
    # Reading R-04.
    assert decode(raw("810907 1f"), Kind.SCOUTING).extensions[0].M == 1
    with pytest.raises(BadValue):
        decode(raw("810907 6f"), Kind.SCOUTING)


def test_two_classes_for_the_same_extension_are_refused() -> None:
    class Once(Extension):
        name = "Twice"
        fields_desc = extension(0xE, 1, Vle("a", 8))  # type: ignore[arg-type]

    class Again(Extension):
        name = "Twice"
        fields_desc = extension(0xE, 1, Vle("a", 8))  # type: ignore[arg-type]

    Extensions(Once)
    with pytest.raises(TypeError, match="Again describes the same extension as Once"):
        Extensions(Again)
