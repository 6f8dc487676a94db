"""What a strict decoder takes and what it refuses, rule by rule: limits of numbers, texts, ids, chains, bodies."""

from __future__ import annotations

import pytest

from scapy_layers.batch import contents
from scapy_layers.catalogue import decode_one
from scapy_layers.codes import Kind
from scapy_layers.errors import (
    BadValue,
    Overlong,
    Truncated,
    UnknownMandatoryExtension,
    UnknownMessage,
    WireError,
)
from scapy_layers.primitives import write_vle
from tests.scapy_layers.golden import raw

OVER_16 = "808004"
"""65536 as a VLE integer."""

OVER_32 = "8080808010"
"""2^32 as a VLE integer."""

HUGE = "ff" * 9
"""2^64 - 1 as a VLE integer."""


def zbuf(body: str) -> str:
    """Returns a body behind its length."""
    return (write_vle(len(raw(body))) + raw(body)).hex()


TAKEN: dict[str, list[str]] = {
    "numbers have one to nine bytes, the ninth with eight bits": [
        "02 00 00 00",
        "02 ff7f 00 00",
        "02" + "80" * 8 + "01 00 00",
        "02" + "80" * 8 + "80 00 00",
        f"02 {HUGE} 00 00",
    ],
    "over-long numbers are numbers": [
        "02 8a8000 00 00",
        "02 8a" + "80" * 7 + "00 8000 8000",
        "1a 818080808000",
    ],
    "the largest value of an enforced type": [
        "1d ffff03 02",
        "1a ffffffff0f",
        "1d00 41 feffffff0f 00",
        "1d00 41 01 ff01" + "61" * 255 + "00",
        "210902 01 ffff03" + "00" * 65535,
    ],
    "larger values of other types are for the receiver to cut": [
        f"02 00 {OVER_32} 00",
        f"22 00 {OVER_32}",
        f"25 {OVER_32}",
        f"26 {OVER_32}",
        f"070901 01 00 {OVER_32} {OVER_32}",
        f"1e 00 {OVER_16} 00",
        f"1e 01 {OVER_16}",
        *(f"1e {head:02x} {OVER_32} 00" for head in (2, 4, 6)),
        *(f"1e {head:02x} {OVER_32}" for head in (3, 5, 7)),
        f"3e {OVER_32} 1a",
        f"19 {OVER_32}",
        f"39 {OVER_32} 00",
        f"00 {OVER_16}",
        f"1f {OVER_16}",
        f"9b0000 43 07 00 01 {OVER_32} 05 00",
        f"1d00 82 41 0c 00 01 {OVER_32} {OVER_32}",
        f"9d00 33 {OVER_16} 02",
        f"9d00 21 {HUGE} 02",
        "1d00 41 808008 00",
    ],
    "counts that only the bytes at hand limit": [
        "420a00" + "818004" + "00" * 65537,
        "1c0000 43" + "818004" + "61" * 65537,
        "1f2a",
        "5f2a" + "818004" + "00" * 65537,
        "9d00 47" + zbuf("01 01 82 808004" + "00" * 65536) + "02",
    ],
    "texts may be empty, other bytes may be anything": [
        "3d0000 02",
        "1c0000 43 00",
        "1d00 41 09 02fffe 00",
        "1d00 81 43 02 fffe 00",
        "81090201 48 00",
        "81090201 48 21" + "61" * 33,
    ],
    "ZenohIDs may end with zero bytes": ["010922 010000", "1d00 21 00 03 010000 00"],
    "key references": ["1d 00 02", "1d 07 02", "3d 07 00 02", "7d 07 00 02", "1e 60 01 00 0161"],
    "encodings": ["1d00 41 00 00", "1d00 41 01 00 00"],
    "reserved bits": [
        "21090e 01 00",
        "4109 0e 01 fa 0000",
        "9b0000 43 03 0f 01 00 05 00",
        "6500 1a00",
        "1e 7a",
        "63 00",
        "64",
        "5a 00",
    ],
    "enumerations of what a session judges": [
        "01ff02 01",
        "03ff",
        "1c0000 23 7f",
        "a20000 27 09",
        "a5 00 31 0d",
    ],
    "an INTEREST that ends has no options": ["19 05", "39 05 00", "59 05 00", "79 05 00"],
    "unknown optional extensions of each encoding": [
        "84 8f af05 4f 02 6869",
        "84 0f",
        "84 2f 8000",
        "84 4f 00",
    ],
    "a known id with other bits is unknown": ["9d00 01 02", "9d00 41 00 02", "9d00 23 05 02", "a500 21 05"],
    "any order, and again": [
        "9d00 b305 2105 02",
        "9d00 a105 a109 2101 02",
        "81090201 a701 81 01",
        "81090201 81 21 01",
    ],
    "bodies that nodes look into only when they need them": [
        "81090201 c300 c303ffffff 4301 02",
        "81090201 c200 c201ff 44 03 05ffff",
        "8200 00 00 c202 0007 c201 05 43 02 ffff",
        "a20000 c300 42 03 010203",
    ],
    "messages behind each other": ["2500", "2500 1a00 1a00", "26 00", "26 00 ffff"],
    "payloads": ["1d00 01 00", "1d00 81 12 00", "1d00 81 12 01 00 00", "1b0000 05 00", "1b0000 85 12 00"],
    "stacks of timestamps": ["9d00 47 02 01 00 02", "9d00 47" + zbuf("01 ff01" + "8200" * 255) + "02"],
    "link state": ["5f01 01 00", "5f01 05 01 00 00 00 00", "5f01 05 01 08 00 00 00"],
}


TAKEN_BY_SCOUTING = ["010900", "0109ff" + "00" * 15 + "01", "61ff07", "810907 1f", "22090001 00"]

REFUSED: list[tuple[str, type[WireError], str, int]] = [
    # Numbers that end too early.
    ("22", Truncated, "OPEN.lease", 1),
    ("2280", Truncated, "OPEN.lease", 1),
    ("22" + "ff" * 8, Truncated, "OPEN.lease", 1),
    # Larger than an enforced type.
    (f"1d {OVER_16} 02", Overlong, "PUSH.key_scope", 1),
    (f"3d00 {OVER_16} 02", Overlong, "PUSH.key_suffix", 2),
    (f"1c00 {OVER_16} 03", Overlong, "REQUEST.key_scope", 2),
    (f"1b00 {OVER_16} 0500", Overlong, "RESPONSE.key_scope", 2),
    (f"390010 {OVER_16}", Overlong, "INTEREST.key_scope", 3),
    (f"390030 00 {OVER_16}", Overlong, "INTEREST.key_suffix", 4),
    (f"1e0000 {OVER_16}", Overlong, "DECLARE.body.D_KEYEXPR.key_scope", 3),
    (f"1e0200 {OVER_16}", Overlong, "DECLARE.body.D_SUBSCRIBER.key_scope", 3),
    (f"1e0400 {OVER_16}", Overlong, "DECLARE.body.D_QUERYABLE.key_scope", 3),
    (f"1e0600 {OVER_16}", Overlong, "DECLARE.body.D_TOKEN.key_scope", 3),
    (f"1e8300 5f04 00 {OVER_16}", Overlong, "DECLARE.body.U_SUBSCRIBER.extensions[0].WireExpr.key_scope", 6),
    (f"1c {OVER_32} 00 03", Overlong, "REQUEST.request_id", 1),
    (f"1b {OVER_32} 00 0500", Overlong, "RESPONSE.request_id", 1),
    (f"1a {OVER_32}", Overlong, "RESPONSE_FINAL.request_id", 1),
    (f"1a {HUGE}", Overlong, "RESPONSE_FINAL.request_id", 1),
    (f"1d00 41 {OVER_32} 00", Overlong, "PUSH.body.PUT.encoding", 3),
    (f"1b0000 45 {OVER_32} 00", Overlong, "RESPONSE.body.ERR.encoding", 4),
    ("1c0000 83 43 06" + OVER_32 + "00", Overlong, "REQUEST.body.QUERY.extensions[0].QueryBody.encoding", 6),
    ("1d00 41 01 8002" + "00" * 257, Overlong, "PUSH.body.PUT.schema", 4),
    (f"1d00 01 {OVER_32}", Overlong, "PUSH.body.PUT.data", 3),
    (f"1b0000 05 {OVER_32}", Overlong, "RESPONSE.body.ERR.data", 4),
    (f"21090201 {OVER_16}", Overlong, "INIT.cookie", 4),
    (f"84 4f {OVER_32}", Overlong, "KEEP_ALIVE.extensions[0].unknown extension.length", 2),
    (f"5f01 0e 01 04 00 00 01 {HUGE}", Overlong, "OAM.linkstate.records[0].locators[0].locator", 8),
    (f"1d00 81 12 01 01 06 05 {OVER_16} 00 00", Overlong, "PUSH.body.PUT.slices[0].reference.segment_id", 8),
    # Counts that nothing but the bytes at hand limits.
    (f"02 00 00 {HUGE}", Truncated, "OPEN.cookie", 3),
    (f"1c0000 43 {HUGE}", Truncated, "REQUEST.body.QUERY.parameters", 4),
    (f"5f2a {HUGE}", Truncated, "OAM.data", 2),
    (f"5f01 {HUGE}", Overlong, "OAM.linkstate.length", 2),
    (f"4000 {HUGE}", Truncated, "OAM.data", 2),
    (f"5f01 09 {HUGE}", Truncated, "OAM.linkstate.records[0].gateway", 12),
    (f"1d00 81 12 {HUGE}", Truncated, "PUSH.body.PUT.slices[0].kind", 13),
    (f"1d00 81 12 01 00 {HUGE}", Truncated, "PUSH.body.PUT.slices[0].slice", 6),
    # Texts.
    ("3d00 01 ff 02", BadValue, "PUSH.key_suffix", 2),
    ("3d00 02 c328 02", BadValue, "PUSH.key_suffix", 2),
    ("3d00 03 eda080 02", BadValue, "PUSH.key_suffix", 2),
    ("3d00 02 61", Truncated, "PUSH.key_suffix", 2),
    ("1c0000 43 01 ff", BadValue, "REQUEST.body.QUERY.parameters", 4),
    ("81090201 48 01 ff", BadValue, "INIT.extensions[0].RegionName.region", 6),
    ("1e8300 5f03 01 00 ff", BadValue, "DECLARE.body.U_SUBSCRIBER.extensions[0].WireExpr.key_suffix", 7),
    ("5f01 09 01 04 00 00 01 01 ff 00", Truncated, "OAM.linkstate.length", 2),
    ("5f01 0a 01 04 00 00 01 02 2fff 00 00", BadValue, "OAM.linkstate.records[0].locators[0].locator", 8),
    ("5f01 08 01 04 00 00 01 01 61 00", BadValue, "OAM.linkstate.records[0].locators[0].locator", 8),
    # ZenohIDs and timestamps.
    ("010902 00", BadValue, "INIT.zid", 3),
    ("0109f2" + "00" * 16, BadValue, "INIT.zid", 3),
    ("010912 01", Truncated, "INIT.zid", 3),
    ("070901 00 00 00 00", BadValue, "JOIN.zid", 3),
    ("1d00 21 00 00", BadValue, "PUSH.body.PUT.timestamp_id", 4),
    ("1d00 21 00 02 0000 00", BadValue, "PUSH.body.PUT.timestamp_id", 4),
    ("1d00 21 00 11" + "01" * 17, BadValue, "PUSH.body.PUT.timestamp_id", 4),
    (f"1d00 21 00 {HUGE}", BadValue, "PUSH.body.PUT.timestamp_id", 4),
    ("9d00 42 03 000100 02", BadValue, "PUSH.extensions[0].Timestamp.timestamp_id", 5),
    ("1d00 82 41 04 00 00 00 00", BadValue, "PUSH.body.DEL.extensions[0].SourceInfo.zid", 6),
    ("9b0000 43 03 00 00 00 0500", BadValue, "RESPONSE.extensions[0].ResponderId.zid", 6),
    ("5f01 07 01 01 00 00 01 00 00", BadValue, "OAM.linkstate.records[0].zid", 7),
    ("5f01 05 01 01 00 00 00", BadValue, "OAM.linkstate.records[0].zid", 7),
    # Enumerations.
    ("010903 01", BadValue, "INIT.whatami", 2),
    ("070903 01 00 00 00", BadValue, "JOIN.whatami", 2),
    *(
        (f"5f01 06 01 02 00 00 {role:02x} 00", BadValue, "OAM.linkstate.records[0].whatami", 7)
        for role in (0, 3, 5, 7, 8)
    ),
    ("9c0000 34 03 03", BadValue, "REQUEST.extensions[0].QueryTarget.target", 4),
    ("60 05", BadValue, "OAM.ENC", 0),
    ("7f 05", BadValue, "OAM.ENC", 0),
    # Chains.
    ("84", Truncated, "KEEP_ALIVE.extensions", 1),
    ("84 8f", Truncated, "KEEP_ALIVE.extensions", 2),
    ("84 1f", UnknownMandatoryExtension, "KEEP_ALIVE.extensions[0]", 1),
    ("84 8f 3f 00", UnknownMandatoryExtension, "KEEP_ALIVE.extensions[1]", 2),
    ("84 5f 00", UnknownMandatoryExtension, "KEEP_ALIVE.extensions[0]", 1),
    ("84 6f", BadValue, "KEEP_ALIVE.extensions[0]", 1),
    ("84 8f 7f", BadValue, "KEEP_ALIVE.extensions[1]", 2),
    ("84 2f", Truncated, "KEEP_ALIVE.extensions[0].unknown extension.z64", 2),
    ("84 4f 02 00", Truncated, "KEEP_ALIVE.extensions[0].unknown extension.length", 2),
    ("9d00 53 00 02", UnknownMandatoryExtension, "PUSH.extensions[0]", 2),
    ("a500 51 00", UnknownMandatoryExtension, "FRAME.extensions[0]", 2),
    ("81090201 11", UnknownMandatoryExtension, "INIT.extensions[0]", 4),
    # Bodies of another length than their fields.
    ("9d00 42 04 0001aa00 02", BadValue, "PUSH.extensions[0].Timestamp.length", 7),
    ("9d00 42 02 0001 02", Truncated, "PUSH.extensions[0].Timestamp.timestamp_id", 5),
    ("1d00 81 41 05 00 01 00 00 00 00", BadValue, "PUSH.body.PUT.extensions[0].SourceInfo.length", 9),
    ("1d00 81 41 03 00 01 00 00", Truncated, "PUSH.body.PUT.extensions[0].SourceInfo.source_sn", 8),
    ("9b0000 43 04 00 01 00 00 0500", BadValue, "RESPONSE.extensions[0].ResponderId.length", 8),
    ("870901 01 00 00 00 51 0f" + "00" * 15, Truncated, "JOIN.extensions[0].QoS.lanes[7].next_sn_be", 24),
    ("870901 01 00 00 00 51 11" + "00" * 17, BadValue, "JOIN.extensions[0].QoS.length", 25),
    ("9d00 47 03 01 00 00 02", BadValue, "PUSH.extensions[0].TimestampStack.length", 6),
    ("5f01 02 00 00", BadValue, "OAM.linkstate.length", 4),
    ("5f01 00", Truncated, "OAM.linkstate.records", 3),
    ("5f01 04 01 00 00 00", Truncated, "OAM.linkstate.records[0].links", 7),
    ("5f01 06 01 08 00 00 01 00", Truncated, "OAM.linkstate.records[0].weights[0].weight", 9),
    # Stacks of timestamps.
    (
        "9d00 47 04 01 01 02 00 02",
        Truncated,
        "PUSH.extensions[0].TimestampStack.records[0].stamp.timestamp",
        8,
    ),
    ("9d00 47 02 00 00 02", BadValue, "PUSH.extensions[0].TimestampStack.conf_flags", 4),
    (
        "9d00 47" + zbuf("01 8002" + "0200" * 256) + "02",
        BadValue,
        "PUSH.extensions[0].TimestampStack.records",
        6,
    ),
    # Ids that may not stand there.
    ("08", UnknownMessage, "header", 0),
    ("18", UnknownMessage, "header", 0),
    *((f"1d00 {body:02x}", UnknownMessage, "PUSH.body", 2) for body in (0, 3, 4, 5, 31)),
    *((f"1c0000 {body:02x}", UnknownMessage, "REQUEST.body", 3) for body in (0, 1, 2, 4, 5)),
    *((f"1b0000 {body:02x}", UnknownMessage, "RESPONSE.body", 3) for body in (0, 1, 2, 3, 6)),
    *((f"1b0000 04 {body:02x}", UnknownMessage, "RESPONSE.body.REPLY.body", 4) for body in (0, 3, 4, 5)),
    *((f"1e {body:02x}", UnknownMessage, "DECLARE.body", 1) for body in (8, 9, 0x19, 0x1B, 0x1F)),
    ("1d00", Truncated, "PUSH.body", 2),
    ("2500 1d00", Truncated, "FRAME.messages.PUSH.body", 4),
    ("2500 1a00 1d00 07", UnknownMessage, "FRAME.messages.PUSH.body", 6),
    ("1d00 81 12 01 02", BadValue, "PUSH.body.PUT.slices[0].kind", 5),
    # What is missing.
    ("00", Truncated, "OAM.oam_id", 1),
    ("a0 05 31 01", Truncated, "OAM.z64", 4),
    ("40 05 02 be", Truncated, "OAM.data", 2),
    ("03", Truncated, "CLOSE.reason", 1),
    ("39 00", Truncated, "INTEREST.aggregate", 2),
    ("41 09 02 01 0a 00", Truncated, "INIT.batch_size", 5),
]

REFUSED_BY_SCOUTING: list[tuple[str, type[WireError], str, int]] = [
    ("0109", Truncated, "SCOUT.zid_len", 2),
    ("010908 00", BadValue, "SCOUT.zid", 3),
    ("810907 6f", BadValue, "SCOUT.extensions[0]", 3),
    ("810907", Truncated, "SCOUT.extensions", 3),
    ("020903 01", BadValue, "HELLO.whatami", 2),
    ("020900 00", BadValue, "HELLO.zid", 3),
    ("220900 01 01 03 746370", BadValue, "HELLO.locators[0].locator", 5),
    ("220900 01 01 04 612f2362", BadValue, "HELLO.locators[0].locator", 5),
    ("220900 01 01 8002" + "2f" * 256, Overlong, "HELLO.locators[0].locator", 5),
    (f"220900 01 {HUGE}", Truncated, "HELLO.locators[0].locator", 13),
    ("03", UnknownMessage, "header", 0),
]


def assert_taken(digits: str, kind: Kind | None) -> None:
    whole = raw(digits)
    message, end = decode_one(whole, kind)
    assert (bytes(message), end) == (whole, len(whole))
    assert bytes(message.copy()) == whole


def assert_refused(digits: str, kind: Kind | None, error: type[WireError], field: str, offset: int) -> None:
    whole = raw(digits)
    with pytest.raises(WireError) as caught:
        decode_one(whole, kind)
    refused = caught.value
    assert (type(refused), refused.field, refused.offset) == (error, field, offset)
    found = contents(whole, kind)
    assert str(found.error) == str(refused)
    assert b"".join(map(bytes, found.messages)) + found.rest == whole


@pytest.mark.parametrize(
    ("rule", "digits"),
    [(rule, digits) for rule, rows in TAKEN.items() for digits in rows],
    ids=lambda x: x[:32],
)
def test_taken(rule: str, digits: str) -> None:
    assert rule
    assert_taken(digits, None)


@pytest.mark.parametrize("digits", TAKEN_BY_SCOUTING)
def test_taken_by_scouting(digits: str) -> None:
    assert_taken(digits, Kind.SCOUTING)


@pytest.mark.parametrize(("digits", "error", "field", "offset"), REFUSED, ids=lambda x: str(x)[:32])
def test_refused(digits: str, error: type[WireError], field: str, offset: int) -> None:
    assert_refused(digits, None, error, field, offset)


@pytest.mark.parametrize(
    ("digits", "error", "field", "offset"), REFUSED_BY_SCOUTING, ids=lambda x: str(x)[:32]
)
def test_refused_by_scouting(digits: str, error: type[WireError], field: str, offset: int) -> None:
    assert_refused(digits, Kind.SCOUTING, error, field, offset)
