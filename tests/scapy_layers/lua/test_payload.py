"""Payloads in Wireshark's own dissectors, by encoding and by key; attachments of ROS 2 nodes."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_layers.codes import Encoding
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.declarations import DeclareFinal
from scapy_layers.extensions import DelAttachment, PutAttachment, QueryAttachment, QueryBody, Timestamp
from scapy_layers.keyexpr import canonical, intersects
from scapy_layers.message import Message
from scapy_layers.network import Declare, Request, Response
from scapy_layers.transport import Fragment
from tests.scapy_layers.lua.parts import VERSIONS, Runtime, part, runtime
from tests.scapy_layers.lua.wire import (
    PCAPS,
    Talk,
    count,
    fields,
    needs_tshark,
    packets_of,
    push,
    run,
    values,
)

pytestmark = needs_tshark
JSON = b'{"speed": 12.5}'
PNG = (
    b"\x89PNG\r\n\x1a\n"
    + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 7, 5, 8, 0, 0, 0, 0)
    + struct.pack(">I", zlib.crc32(b"IHDR" + struct.pack(">IIBBBBB", 7, 5, 8, 0, 0, 0, 0)))
    + struct.pack(">I4sI", 0, b"IEND", zlib.crc32(b"IEND"))
)
GIF = bytes.fromhex(
    "474946383961 07000500800000 000000ffffff 21f9040100000000 2c00000000010001000002024401003b"
)
CBOR = bytes.fromhex("a1657370656564187b")  # {"speed": 123}
PROTOBUF = bytes.fromhex("089601")  # field 1: 150
TEXT = "Line-based text data"


def capture(tmp_path: Path, *bodies: Message, key: str = "demo/a") -> Path:
    return Talk().open().frame(*(push(key, body) for body in bodies)).save(tmp_path / "t.pcap")


# By encoding --------------------------------------------------------------------------------------

DISSECTED: dict[str, tuple[Put, str, str]] = {
    "json": (Put(encoding=Encoding.APPLICATION_JSON, data=JSON), "json.key", "speed"),
    "text json": (Put(encoding=Encoding.TEXT_JSON, data=JSON), "json.value.number", "12.5"),
    "schema": (Put(encoding=Encoding.APPLICATION_JSON, schema=b"x.y", data=JSON), "json.key", "speed"),
    "patch": (Put(encoding=Encoding.APPLICATION_JSON_PATCH_JSON, data=JSON), "json.key", "speed"),
    "cbor": (Put(encoding=Encoding.APPLICATION_CBOR, data=CBOR), "cbor.type.uint", "1"),
    "xml": (Put(encoding=Encoding.APPLICATION_XML, data=b"<a><b>c</b></a>"), "xml.cdata", "c"),
    "text xml": (Put(encoding=Encoding.TEXT_XML, data=b"<a>c</a>"), "xml.cdata", "c"),
    "soap": (Put(encoding=Encoding.APPLICATION_SOAP_XML, data=b"<a>c</a>"), "xml.cdata", "c"),
    "png": (Put(encoding=Encoding.IMAGE_PNG, data=PNG), "png.ihdr.width", "7"),
    "gif": (Put(encoding=Encoding.IMAGE_GIF, data=GIF), "image-gif.screen.width", "7"),
    "protobuf": (Put(encoding=Encoding.APPLICATION_PROTOBUF, data=PROTOBUF), "protobuf.field.value", "9601"),
    "plain": (Put(encoding=Encoding.TEXT_PLAIN, data=b"hello"), "data-text-lines", TEXT),
    "markdown": (Put(encoding=Encoding.TEXT_MARKDOWN, data=b"# hello"), "data-text-lines", TEXT),
    "string": (Put(encoding=Encoding.ZENOH_STRING, data=b"hello"), "data-text-lines", TEXT),
    "yaml": (Put(encoding=Encoding.APPLICATION_YAML, data=b"a: 1"), "data-text-lines", TEXT),
    "own": (Put(encoding=Encoding.CUSTOM, schema=b"application/geo+json", data=JSON), "json.key", "speed"),
    "capitals": (
        Put(encoding=Encoding.CUSTOM, schema=b"Application/JSON;charset=utf-8", data=JSON),
        "json.key",
        "speed",
    ),
}
"""A payload of each kind, the field in which it is found, and what that says."""

UNKNOWN = {
    "default": Put(data=JSON),
    "octets": Put(encoding=Encoding.APPLICATION_OCTET_STREAM, data=JSON),
    "own name": Put(encoding=Encoding.CUSTOM, schema=b"json", data=JSON),
    "unknown number": Put(encoding=400, data=JSON),
    "empty": Put(encoding=Encoding.APPLICATION_JSON, data=b""),
}
"""Payloads nobody can say much about."""

WRONG = {
    "no cbor": Put(encoding=Encoding.APPLICATION_CBOR, data=b"\x5f\x5f\x5f"),
    "cut cbor": Put(encoding=Encoding.APPLICATION_CBOR, data=CBOR[:-1]),
    "cut protobuf": Put(encoding=Encoding.APPLICATION_PROTOBUF, data=b"\x0a\x7fabc"),
    "no protobuf": Put(encoding=Encoding.APPLICATION_PROTOBUF, data=b"text"),
    "no png": Put(encoding=Encoding.IMAGE_PNG, data=b"no image"),
    "no jpeg": Put(encoding=Encoding.IMAGE_JPEG, data=b"no image"),
    "no gif": Put(encoding=Encoding.IMAGE_GIF, data=b"no image"),
    "no json": Put(encoding=Encoding.APPLICATION_JSON, data=b"[[[}"),
    "no xml": Put(encoding=Encoding.APPLICATION_XML, data=b"<a><"),
}
"""Payloads that are not what their encoding says."""

FIELDS = sorted({name for _, name, _ in DISSECTED.values()})
Row = dict[str, list[str]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """What tshark finds in payloads, each in a packet of its own with another behind it, by its name."""
    talk = Talk().open()
    puts = {name: put for name, (put, _, _) in DISSECTED.items()} | UNKNOWN | WRONG
    for number, (name, put) in enumerate(puts.items()):
        talk.frame(push(name, put), push("behind", Put(data=b"behind")), sn=number + 1)
    path = talk.save(tmp_path_factory.mktemp("payloads") / "t.pcap")
    names = ["zenoh.keyexpr", "zenoh.put.data", "_ws.malformed", "_ws.lua.error", *FIELDS]
    found = {}
    for line in fields(path, *names, where="zenoh.put"):
        row = {name: value.split("|") if value else [] for name, value in zip(names, line, strict=True)}
        found[row["zenoh.keyexpr"][0]] = row
    return found


@pytest.mark.parametrize(
    ("encoding", "schema", "data", "shown"),
    [
        (Encoding.APPLICATION_XML, b"", b"22", 0),
        (Encoding.TEXT_XML, b"", b"\x90)\xb5\xd7@=", 0),
        (Encoding.CUSTOM, b"image/svg+xml", b"svg", 0),
        (Encoding.APPLICATION_XML, b"", b"\n <a/>", 1),
        (Encoding.TEXT_XML, b"", b"\xef\xbb\xbf<a/>", 1),
    ],
)
def test_what_does_not_begin_as_xml_is_left_alone(
    tmp_path: Path, encoding: Encoding, schema: bytes, data: bytes, shown: int
) -> None:
    put = Put(encoding=encoding, schema=schema or None, data=data)
    path = Talk().open().frame(push("a", put)).save(tmp_path / "t.pcap")
    assert count(path, "xml") == shown
    assert count(path, "zenoh && _ws.expert") == 0


@pytest.mark.parametrize("name", DISSECTED)
def test_payload_goes_to_the_dissector_of_its_encoding(rows: dict[str, Row], name: str) -> None:
    _, field, expected = DISSECTED[name]
    assert any(value.startswith(expected) for value in rows[name][field])
    kind = field.partition(".")[0]
    assert not [other for other in FIELDS if rows[name][other] and not other.startswith(kind)]


@pytest.mark.parametrize("name", UNKNOWN)
def test_payload_of_no_known_type_stays_bytes(rows: dict[str, Row], name: str) -> None:
    data = UNKNOWN[name].data
    assert rows[name]["zenoh.put.data"][-1] == b"behind".hex()
    assert not data or rows[name]["zenoh.put.data"][0] == data.hex()
    assert not [field for field in FIELDS if rows[name][field]]


@pytest.mark.parametrize("name", WRONG)
def test_payload_that_is_not_what_it_says_harms_nothing(rows: dict[str, Row], name: str) -> None:
    assert rows[name]["zenoh.put.data"] == [WRONG[name].data.hex(), b"behind".hex()]
    assert not rows[name]["_ws.malformed"]
    assert not rows[name]["_ws.lua.error"]


def test_highlighted_bytes_are_those_of_the_payload(tmp_path: Path) -> None:
    path = capture(tmp_path, Put(encoding=Encoding.APPLICATION_JSON, data=JSON))
    [layers] = packets_of(path, "-x", "-Y", "json")
    assert layers["zenoh"]["zenoh.batch"]  # the payload stands inside of our tree
    raw = json.dumps(layers)
    assert raw.count(f'"{JSON.hex()}", ') >= 2  # the field of ours and the object of theirs


def test_bodies_of_queries_replies_and_errors_are_dissected(tmp_path: Path) -> None:
    kind = Encoding.APPLICATION_JSON
    asked = Request(
        request_id=1,
        N=1,
        M=1,
        key_suffix="q",
        body=Query(extensions=[QueryBody(encoding=kind, data=b'{"a": 1}')]),
    )
    answers = [
        Response(
            request_id=1, N=1, M=1, key_suffix="q", body=Reply(body=Put(encoding=kind, data=b'{"b": 2}'))
        ),
        Response(request_id=1, N=1, M=1, key_suffix="q", body=Err(encoding=kind, data=b'{"c": 3}')),
    ]
    path = Talk().open().frame(asked).frame(*answers, back=True).save(tmp_path / "t.pcap")
    assert values(path, "json.key") == ["a", "b", "c"]


def test_payload_of_fragments_is_dissected(tmp_path: Path) -> None:
    text = b'{"speed": "' + b"x" * 300 + b'"}'
    whole = bytes(push("demo/a", Put(encoding=Encoding.APPLICATION_JSON, data=text)))
    talk = Talk().open()
    talk.batch(Fragment(R=1, M=1, sn=1, data=whole[:100]))
    talk.batch(Fragment(R=1, M=1, sn=2, data=whole[100:250]))
    talk.batch(Fragment(R=1, M=0, sn=3, data=whole[250:]))
    path = talk.save(tmp_path / "t.pcap")
    assert values(path, "json.key") == ["speed"]
    assert values(path, "json.value.string") == ["x" * 300]


def test_dissector_that_fails_leaves_the_next_messages_alone(tmp_path: Path) -> None:
    broken = PNG[:20]
    path = capture(tmp_path, Put(encoding=Encoding.IMAGE_PNG, data=broken), Put(data=b"behind"))
    assert values(path, "zenoh.put.data") == [broken.hex(), b"behind".hex()]


# Settings -----------------------------------------------------------------------------------------


def test_more_payloads_than_wireshark_takes_in_a_packet_are_left_as_bytes(tmp_path: Path) -> None:
    path = capture(tmp_path, *[Put(encoding=Encoding.APPLICATION_JSON, data=JSON)] * 1000)
    for options in ((), ("-2",)):
        out = run(path, "-V", *options).stdout
        assert "Dissector bug" not in out
        assert out.count("Member: speed") == 128
        assert out.count("more than 128 payloads") == 1000 - 128
        assert out.count("PUSH: demo/a") == 1000


def test_payloads_can_be_left_alone(tmp_path: Path) -> None:
    path = capture(tmp_path, Put(encoding=Encoding.APPLICATION_JSON, data=JSON))
    assert count(path, "json") == 1
    assert count(path, "json", "-o", "zenoh.payload:FALSE") == 0


def by_key(table: str) -> tuple[str, str]:
    return "-o", f"zenoh.payload_dissectors:{table}"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("demo/**=json", {"demo/a", "demo/a/b", "demo/abc/end"}),
        (" demo/* = application/json ; ", {"demo/a"}),
        ("demo/a$*/end=json", {"demo/abc/end"}),
        ("demo/a=none; **/@adv/**=json; other=xml; **=json", {"demo/a/b", "demo/abc/end", "demo/@adv/a"}),
        ("", set()),
    ],
)
def test_key_table_names_the_dissector(tmp_path: Path, table: str, expected: set[str]) -> None:
    talk = Talk().open()
    for number, key in enumerate(("demo/a", "demo/a/b", "demo/abc/end", "demo/@adv/a")):
        talk.frame(push(key, Put(data=JSON)), sn=number + 1)
    path = talk.save(tmp_path / "t.pcap")
    assert set(values(path, "zenoh.keyexpr", where="json", options=by_key(table))) == expected


def test_key_table_decides_before_the_encoding(tmp_path: Path) -> None:
    path = capture(tmp_path, Put(encoding=Encoding.APPLICATION_JSON, data=JSON))
    assert count(path, "json", *by_key("demo/**=none")) == 0


@pytest.fixture
def demo_point(tmp_path: Path) -> tuple[str, str]:
    """Tells the dissector of Protocol Buffers about a message, as a user would."""
    (tmp_path / "demo.proto").write_text('syntax = "proto3"; package demo; message Point { int32 x = 1; }')
    return "-o", f'uat:protobuf_search_paths:"{tmp_path}","TRUE"'


@pytest.mark.parametrize(
    ("put", "table"),
    [
        (Put(encoding=Encoding.APPLICATION_PROTOBUF, schema=b"demo.Point", data=PROTOBUF), ""),
        (Put(data=PROTOBUF), "demo/**=protobuf:demo.Point"),
    ],
    ids=["schema", "key table"],
)
def test_protobuf_is_dissected_as_the_message_it_is(
    tmp_path: Path, demo_point: tuple[str, str], put: Put, table: str
) -> None:
    path = capture(tmp_path, put)
    options = [*demo_point, *by_key(table)]
    assert values(path, "protobuf.message.name", options=options) == ["demo.Point"]
    assert values(path, "protobuf.field.name", options=options) == ["x"]


def test_key_table_that_makes_no_sense_is_told(tmp_path: Path) -> None:
    path = capture(tmp_path, Put(data=JSON))
    table = "demo; demo//a=json; demo/a*=json; demo=jason; demo=zenoh; **=json"
    done = run(path, *by_key(table), "-Y", "json", "-T", "fields", "-e", "json.key")
    for said in (
        "'demo' is not KEY=DISSECTOR",
        "'demo//a' is no key expression: an empty chunk",
        "'demo/a*' is no key expression: 'a*' is no chunk",
        "there is no dissector and no media type 'jason'",
        "there is no dissector and no media type 'zenoh'",
    ):
        assert said in done.stderr + done.stdout
    assert done.stdout.splitlines()[-1] == "speed"  # the entry that makes sense is in force


_CDR = """
local cdr = Proto("cdr", "Common Data Representation")
local text = ProtoField.string("cdr.told", "told")
cdr.fields = { text }
function cdr.dissector(tvb, pinfo, tree)
  local private = pinfo.private
  local told = private["zenoh.keyexpr"] .. " " .. private["zenoh.encoding"] .. " " .. private["zenoh.schema"]
  tree:add(cdr, tvb()):add(text, tvb(0, 4), told)
end
"""


def test_dissector_of_others_gets_cdr_and_is_told_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "cdr.lua").write_text(_CDR)
    put = Put(encoding=Encoding.APPLICATION_CDR, schema=b"std_msgs/Int32", data=bytes(8))
    path = capture(tmp_path, put, Put(data=b"behind"))
    assert count(path, "zenoh.put.data") == 1
    loaded = ("-X", f"lua_script:{tmp_path / 'cdr.lua'}")
    assert values(path, "cdr.told", options=loaded) == ["demo/a application/cdr std_msgs/Int32"]


def test_columns_stay_ours_whatever_dissects_payloads(tmp_path: Path) -> None:
    path = capture(tmp_path, Put(data=b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Put(data=JSON))
    rows = fields(path, "_ws.col.Protocol", "_ws.col.Info", where="zenoh.put", options=by_key("demo/**=http"))
    assert count(path, "http", *by_key("demo/**=http")) == 1
    assert rows[0][0] == "Zenoh"
    assert rows[0][1].startswith("PUSH demo/a PUT")
    assert "HTTP" not in rows[0][1]


_GREEDY = """
local greedy = Proto("greedy", "Wants more")
function greedy.dissector(tvb, pinfo, tree)
  tree:add(greedy, tvb())
  pinfo.desegment_offset, pinfo.desegment_len = 0, 20
  return tvb:len()
end
"""


def test_dissector_that_wants_more_of_the_stream_gets_no_more(tmp_path: Path) -> None:
    (tmp_path / "greedy.lua").write_text(_GREEDY)
    talk = (
        Talk().open().frame(push("demo/a", Put(data=b"abc"))).frame(push("demo/b", Put(data=b"behind")), sn=2)
    )
    path = talk.save(tmp_path / "t.pcap")
    options = ("-X", f"lua_script:{tmp_path / 'greedy.lua'}", *by_key("demo/a=greedy"))
    rows = fields(path, "greedy", "zenoh.put.data", where="zenoh.put", options=options)
    assert [row[1] for row in rows] == [b"abc".hex(), b"behind".hex()]
    assert rows[0][0]


# ROS 2 --------------------------------------------------------------------------------------------

GID = bytes(range(16))
BARE = struct.pack("<qq", 7, 1_700_000_000_123_456_789) + b"\x10" + GID
NAMED = (
    b"\x0fsequence_number" + BARE[:8] + b"\x10source_timestamp" + BARE[8:16] + b"\x0asource_gid" + BARE[16:]
)
ROS2 = ("zenoh.ros2.sequence_number", "zenoh.ros2.source_timestamp", "zenoh.ros2.source_gid")


def test_attachment_of_rmw_zenoh_has_typed_fields(tmp_path: Path) -> None:
    talk = Talk().open()
    for raw in (BARE, NAMED):
        talk.frame(push("chatter", Put(extensions=[PutAttachment(attachment=raw)], data=b"x")))
        talk.frame(push("chatter", Del(extensions=[DelAttachment(attachment=raw)])), sn=2)
        query = Query(extensions=[QueryAttachment(attachment=raw)])
        talk.frame(Request(request_id=1, N=1, M=1, key_suffix="q", body=query), sn=3)
    found = fields(talk.save(tmp_path / "t.pcap"), *ROS2, where="zenoh.ros2.sequence_number > 6")
    assert len(found) == 6
    for number, time, gid in found:
        assert number == "7"
        assert "22:13:20.123456789" in time
        assert gid.replace(":", "") == GID.hex()


def test_timestamp_is_shown_as_the_time_that_it_stands_for(tmp_path: Path) -> None:
    now = 1_795_750_764 << 32
    put = Put(T=1, timestamp=now + 0xFFFFFFFF, timestamp_id=b"\xbb", data=b"x")
    talk = (
        Talk()
        .open()
        .frame(
            push("a", put), Declare(extensions=[Timestamp(timestamp=now + 0x89705F41)], body=DeclareFinal())
        )
    )
    path = talk.save(tmp_path / "t.pcap")
    (found,) = fields(path, "zenoh.put.timestamp_time", "zenoh.timestamp.timestamp_time", where="zenoh.put")
    assert "03:39:24.999999999" in found[0]
    assert "03:39:24.536870911" in found[1]
    assert count(path, 'zenoh.put.timestamp_time > "2026-11-27 03:39:24.9"') == 1
    assert count(path, 'zenoh.timestamp.timestamp_time > "2026-11-27 03:39:24.9"') == 0


def test_sequence_number_and_time_may_be_negative(tmp_path: Path) -> None:
    raw = struct.pack("<qq", -2, -1_500_000_000) + b"\x10" + GID
    path = Talk().open().frame(push("a", Put(extensions=[PutAttachment(attachment=raw)], data=b"x")))
    saved = path.save(tmp_path / "t.pcap")
    assert values(saved, ROS2[0]) == ["-2"]
    assert count(saved, f'{ROS2[1]} < "1970-01-01 00:00:00"') == 1


def test_other_attachments_stay_bytes(tmp_path: Path) -> None:
    talk = Talk().open()
    others = b"", BARE[:-1], BARE + b"x", BARE[:16] + b"\x0f" + GID, NAMED[:-1], b"\xff" * 33
    for number, raw in enumerate(others):
        talk.frame(push("a", Put(extensions=[PutAttachment(attachment=raw)], data=b"x")), sn=number + 1)
    path = talk.save(tmp_path / "t.pcap")
    assert fields(path, "zenoh.ros2.sequence_number", where="zenoh.put") == [[""]] * len(others)


def test_attachments_of_the_ros2_capture_are_read() -> None:
    found = fields(PCAPS / "ros2.pcapng", *ROS2, where=ROS2[0])
    assert len(found) > 3
    assert all(map(all, found))


def test_payloads_of_real_nodes_raise_no_alarm() -> None:
    found = fields(PCAPS / "encodings.pcapng", "_ws.malformed", "_ws.lua.error", "json")
    assert not any(row[0] or row[1] for row in found)
    assert any(row[2] for row in found)


# The parts of it, under every Lua -------------------------------------------------------------------

_STUB = """
local any = setmetatable({}, { __index = function() return function() return {} end end })
ProtoField, ProtoExpert, TreeItem, Tvb, TvbRange, base = any, any, any, any, any, {}
expert = { group = {}, severity = {} }
Z = { prefix = "zenoh", proto = {} }
"""


@pytest.fixture(scope="module", params=VERSIONS)
def lua(request: pytest.FixtureRequest) -> Runtime:
    made = runtime(request.param)
    part(made, "core", _STUB)
    part(made, "payload", "")
    return made


CHUNKS = st.sampled_from(["a", "b", "ab", "abc", "*", "**", "a$*", "$*b", "a$*c", "$*a$*b$*", "@v", "@w"])


@st.composite
def key_expressions(draw: st.DrawFn) -> str:
    return canonical("/".join(draw(st.lists(CHUNKS, min_size=1, max_size=6))))


def test_keys_intersect_by_the_rules_of_zenoh(lua: Runtime) -> None:
    @settings(max_examples=150)
    @given(key_expressions(), key_expressions())
    def agrees(one: str, other: str) -> None:
        found = lua.execute("return Z.keys_intersect(...)", one.encode(), other.encode())
        assert found == intersects(one, other), (one, other)

    agrees()


def test_long_keys_are_compared_in_time(lua: Runtime) -> None:
    # A search through combinations would not come back.
    long = "/".join(["a"] * 20_000)
    patterns = ["**/a/**/a/**/a/**/b", "**/*/**/*/b/**", "/".join(["**/a"] * 30) + "/b"]
    for pattern in patterns:
        assert not lua.execute("return Z.keys_intersect(...)", pattern.encode(), long.encode())
    chunk = "a" * 60_000
    assert not lua.execute("return Z.keys_intersect(...)", b"$*a$*a$*a$*b", chunk.encode())


WELL_FORMED = """
00 17 1818 1903e8 1a000f4240 1bffffffffffffffff 20 3903e7 f90000 fa47c35000 fb3ff199999999999a f4 f6 f820
c074323031332d30332d32315432303a30343a30305a d74401020304 40 4401020304 60 62225c 63e6b0b4 80 83010203
8301820203820405 98190102030405060708090a0b0c0d0e0f101112131415161718181819 a0 a201020304
a26161016162820203 5f42010243030405ff 7f657374726561646d696e67ff 9fff 9f018202039f0405ffff 83018202039f0405ff
bf61610161629f0203ffff 826161bf61626163ff
""".split()  # noqa: SIM905  (examples of RFC 8949; as a list a line each)


@pytest.mark.parametrize("digits", WELL_FORMED)
def test_cbor_is_recognised_whole_and_only_whole(lua: Runtime, digits: str) -> None:
    check = "return Z.payload_checks['application/cbor'](...)"
    raw = bytes.fromhex(digits)
    assert lua.execute(check, raw)
    assert lua.execute(check, raw + b"\x00")  # a sequence: its first item is shown
    assert not any(lua.execute(check, raw[:size]) for size in range(len(raw)))


@pytest.mark.parametrize(
    "digits", ["ff", "1c", "1f", "3f", "df", "81ff", "9f", "5c", "a1", "c0", "9b7fffffffffffffff"]
)
def test_what_is_no_cbor_is_refused(lua: Runtime, digits: str) -> None:
    assert not lua.execute("return Z.payload_checks['application/cbor'](...)", bytes.fromhex(digits))


def test_cbor_of_any_depth_is_refused_or_understood(lua: Runtime) -> None:
    check = "return Z.payload_checks['application/cbor'](...)"
    assert not lua.execute(check, b"\x81" * 100_000 + b"\x00")
    assert lua.execute(check, b"\x81" * 60 + b"\x00")


@pytest.mark.parametrize(
    ("digits", "good"),
    [("", True), ("0801", True), ("0a0161", True), ("0900000000000000001500000000", True), ("0b0c", True)]
    + [
        (each, False)
        for each in ("00", "08", "0a0561", "0f", "09000000", "0a", "08ff", "0affffffffffffffff7f")
    ],
)
def test_protocol_buffers_are_recognised_to_the_last_byte(lua: Runtime, digits: str, good: bool) -> None:
    assert lua.execute("return Z.payload_checks['application/protobuf'](...)", bytes.fromhex(digits)) is good


def test_any_bytes_are_checked_without_an_error(lua: Runtime) -> None:
    @settings(max_examples=150)
    @given(st.binary(max_size=40))
    def survives(raw: bytes) -> None:
        for name in ("application/cbor", "application/protobuf", "image/png"):
            found = lua.execute(
                "local name, raw = ... return Z.payload_checks[name](raw)", name.encode(), raw
            )
            assert found in {True, False}
        lua.execute("Z.ros2_places(...)", raw)

    survives()
