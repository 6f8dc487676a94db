"""The captures of real nodes: each has its row, decodes strictly, and holds what the nodes' API saw."""

import base64
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet
from scapy.utils import rdpcap

from conformance.session.fragments import Reassembly
from scapy_layers import catalogue
from scapy_layers.batch import BatchReader
from scapy_layers.codes import Kind, Priority
from scapy_layers.data import Del, Err, Put
from scapy_layers.declarations import DeclareKeyExpr, DeclareToken, UndeclareToken
from scapy_layers.extensions import (
    AuthInitSyn,
    Compression,
    DelAttachment,
    JoinLanes,
    Lane,
    LowLatency,
    NodeId,
    PutAttachment,
    QoS,
    QoSLink,
    QueryAttachment,
    QueryBody,
    RegionName,
    SourceInfo,
    TimestampStack,
    WireExpr,
)
from scapy_layers.keyexpr import intersects
from scapy_layers.message import Message
from scapy_layers.network import Declare, NetworkOam, Push, Request, Response
from scapy_layers.scouting import Hello
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open

PCAPS = Path(__file__).parent.parent / "pcaps"
SCRIPT = PCAPS / "capture.py"
ROWS: list[dict[str, Any]] = tomllib.loads((PCAPS / "manifest.toml").read_text(encoding="utf-8"))["capture"]
NAMES = [row["file"].removesuffix(".pcapng") for row in ROWS if "truth" in row]
OPAQUE = {row["file"].removesuffix(".pcapng") for row in ROWS if row.get("opaque")}
SESSIONS = [name for name in NAMES if name not in OPAQUE | {"unicast_scouting"}]
BY_REFERENCE = {"shared_memory", "shared_query", "shared_1_9_0"}
"""Some payloads stand in shared memory, so they did not travel."""

SCOUTED = {"scouting", "unicast_scouting", "meeting"}
"""Their datagrams are SCOUT and HELLO."""

LEFT_BY_LOWLATENCY = bytes.fromhex("02000300")
"""A second CLOSE with a 2-byte length, which eclipse-zenoh writes behind the last 4-byte one."""

NAMED = """
zenoh/bytes zenoh/string zenoh/serialized application/octet-stream text/plain application/json text/json
application/cdr application/cbor application/yaml text/yaml text/json5 application/python-serialized-object
application/protobuf application/java-serialized-object application/openmetrics-text image/png image/jpeg
image/gif image/bmp image/webp application/xml application/x-www-form-urlencoded text/html text/xml text/css
text/javascript text/markdown text/csv application/sql application/coap-payload application/json-patch+json
application/json-seq application/jsonpath application/jwt application/mp4 application/soap+xml
application/yang audio/aac audio/flac audio/mp4 audio/ogg audio/vorbis video/h261 video/h263 video/h264
video/h265 video/h266 video/mp4 video/ogg video/raw video/vp8 video/vp9
"""
ENCODINGS = dict(enumerate(NAMED.split())) | {0xFFFF: ""}
"""Names as the API writes them, by number; its own texts are the schema of the last one."""
POINTS = {1: "SEND", 2: "ROUTE", 4: "RECEIVE"}


# From packets to messages -------------------------------------------------------------------------


@dataclass
class Flow:
    """What one node sent to another, or to a group (receiver None), on one link."""

    sender: str
    receiver: str | None
    batches: list[bytes]

    def transport(self) -> list[Message]:
        return [message for raw in self.batches if raw for message in catalogue.decode_batch(raw)]

    def network(self) -> Iterator[tuple[Message | None, Message]]:
        """Network messages, each with its FRAME or last FRAGMENT (None in low latency)."""
        lanes: dict[tuple[int, int], Reassembly] = defaultdict(lambda: Reassembly(patch=1))
        for message in self.transport():
            if isinstance(message, Frame):
                yield from ((message, inner) for inner in message.messages)
            elif isinstance(message, Fragment):
                whole = lanes[message.R, lane_of(message)].take(message)
                if whole is not None:
                    yield message, catalogue.decode(whole, Kind.NETWORK)
            elif message.kind is Kind.NETWORK:
                yield None, message

    def messages(self) -> list[Message]:
        return [message for _, message in self.network()]


def first(message: Any, kind: type[Any]) -> Any:
    return next((found for found in message.extensions or [] if isinstance(found, kind)), None)


def lane_of(message: Any) -> int:
    lane = first(message, Lane)
    return lane.priority if lane else Priority.DATA


def zid_text(zid: bytes) -> str:
    return zid[::-1].hex().lstrip("0")


Ends = tuple[int, int]
"""Ports of sender and receiver."""


@cache
def packets(name: str) -> list[Packet]:
    return list(rdpcap(str(PCAPS / f"{name}.pcapng")))


@cache
def streams(name: str) -> dict[Ends, bytes]:
    """The TCP streams by ports, put in order by sequence number; nothing may be missing."""
    found: dict[Ends, bytearray] = {}
    starts: dict[Ends, int] = {}
    for packet in packets(name):
        if TCP not in packet:
            continue
        tcp = packet[TCP]
        ends = (tcp.sport, tcp.dport)
        inside = packet[IP].len - packet[IP].ihl * 4 if IP in packet else packet[IPv6].plen
        size = inside - tcp.dataofs * 4
        if tcp.flags.S:
            starts[ends], found[ends] = tcp.seq + 1, bytearray()
        if ends not in starts:
            assert tcp.flags.R, "a node that tries a router again that has gone"
            continue
        at = (tcp.seq - starts[ends]) % (1 << 32)
        if size and at + size > len(found[ends]) and at < 1 << 31:
            assert at <= len(found[ends]), f"{name}: bytes of {ends} are missing"
            found[ends] += bytes(tcp.payload)[len(found[ends]) - at : size]
    return {ends: bytes(stream) for ends, stream in found.items() if stream}


@cache
def datagrams(name: str) -> list[tuple[Ends, bytes]]:
    udps = [packet[UDP] for packet in packets(name) if UDP in packet]
    return [((udp.sport, udp.dport), bytes(udp.payload)[: udp.len - 8]) for udp in udps]


def scouting(name: str) -> list[Message]:
    """SCOUTs and HELLOs."""
    return [catalogue.decode(raw, Kind.SCOUTING) for _, raw in datagrams(name)]


def cut(stream: bytes) -> list[bytes]:
    """What precedes an agreement about framing: batches behind 2 bytes, or binary WebSocket messages."""
    if not stream.startswith((b"GET ", b"HTTP/1.1 101 ")):
        return BatchReader().feed(stream)
    batches, at = [], stream.index(b"\r\n\r\n") + 4
    while at < len(stream):
        kind, size = stream[at] & 0xF, stream[at + 1] & 0x7F
        masked, at = stream[at + 1] >> 7, at + 2
        if size == 126:
            size, at = int.from_bytes(stream[at : at + 2], "big"), at + 2
        mask, at = (stream[at : at + 4], at + 4) if masked else (bytes(4), at)
        if kind == 2:
            batches.append(bytes(byte ^ mask[index % 4] for index, byte in enumerate(stream[at : at + size])))
        at += size
    return batches


def of_stream(stream: bytes, agreed: set[type[Any]]) -> list[bytes]:
    if LowLatency in agreed and not stream.startswith((b"GET", b"HTTP")):
        size = sum(2 + len(raw) for raw in BatchReader().feed(stream)[:2])
        opening, later = BatchReader(), BatchReader(prefix=4, limit=1 << 20)
        batches = opening.feed(stream[:size]) + later.feed(stream[size:])
        assert later.pending in {b"", LEFT_BY_LOWLATENCY}
        return batches
    return unpacked(cut(stream), agreed)


def unpacked(batches: list[bytes], agreed: set[type[Any]]) -> list[bytes]:
    """Takes the header byte of compression off what follows INIT and OPEN."""
    if Compression not in agreed:
        return batches
    return batches[:2] + [lz4(raw[1:]) if raw[0] else raw[1:] for raw in batches[2:]]


def lz4(block: bytes) -> bytes:
    """An LZ4 block without its size: literals, then a copy of earlier output, again and again."""
    out, at = bytearray(), 0

    def more(size: int) -> int:
        nonlocal at
        if size == 15:
            while True:
                at += 1
                size += block[at - 1]
                if block[at - 1] != 255:
                    break
        return size

    while True:
        token, at = block[at], at + 1
        literals = more(token >> 4)
        out += block[at : at + literals]
        at += literals
        if at == len(block):
            return bytes(out)
        back, at = int.from_bytes(block[at : at + 2], "little"), at + 2
        for _ in range(4 + more(token & 15)):
            out.append(out[-back])


def agreed_by(*greetings: Message | None) -> set[type[Any]]:
    """What both INITs have."""
    return {
        kind
        for kind in (LowLatency, Compression)
        if all(isinstance(init, Init) and first(init, kind) for init in greetings)
    }


@cache
def flows(name: str) -> list[Flow]:
    """All links, each in both directions; not those that end before INIT is answered by INIT."""
    found = []
    tcp = streams(name)
    greetings = {ends: catalogue.decode(cut(stream)[0]) for ends, stream in tcp.items()}
    for ends, stream in tcp.items():
        mine, other = greetings[ends], greetings.get(ends[::-1])
        if isinstance(mine, Init) and isinstance(other, Init):
            raws = of_stream(stream, agreed_by(mine, other))
            found.append(Flow(zid_text(mine.zid), zid_text(other.zid), raws))
    udp: dict[Ends, list[bytes]] = defaultdict(list)
    for ends, raw in datagrams(name) if name not in SCOUTED else []:
        # A group that compresses does so from its JOIN on.
        packed = name == "packed_multicast"
        udp[ends].append(raw if not packed else lz4(raw[1:]) if raw[0] else raw[1:])
    firsts = {ends: catalogue.decode_batch(raws[0])[0] for ends, raws in udp.items()}
    for ends, raws in udp.items():
        mine, other = firsts[ends], firsts.get(ends[::-1])
        assert isinstance(mine, Init | Join)
        batches = unpacked(raws, agreed_by(mine, other))
        found.append(Flow(zid_text(mine.zid), None if other is None else zid_text(other.zid), batches))
    return found


# From messages to what an application sees --------------------------------------------------------


@cache
def aliases(name: str) -> dict[tuple[str, str | None, int], str]:
    table: dict[tuple[str, str | None, int], str] = {}
    for flow in flows(name):
        for message in flow.messages():
            if isinstance(message, Declare) and isinstance(message.body, DeclareKeyExpr):
                declared = message.body
                assert not declared.key_scope, "real nodes chain no aliases"
                place = (flow.sender, flow.receiver, declared.key_id)
                # One that was taken back may be given again; here always for the same key.
                assert table.setdefault(place, declared.key_suffix) == declared.key_suffix
    return table


def key_of(name: str, flow: Flow, message: Any) -> str:
    suffix = message.key_suffix if message.N else ""
    if not message.key_scope:
        return str(suffix)
    ends = (flow.sender, flow.receiver) if message.M else (flow.receiver or "", flow.sender)
    return aliases(name)[*ends, message.key_scope] + str(suffix)


def shown(data: bytes | None) -> Any:
    if data is None:
        return None
    if len(data) > 512:
        return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def encoding_of(message: Any) -> str:
    number, schema = message.encoding, message.schema.decode() if message.S else ""
    return ";".join(filter(None, [ENCODINGS[number], schema]))


def received_by(name: str, zid: str) -> Iterator[tuple[Flow, Message]]:
    """Network messages that reached a node."""
    for flow in flows(name):
        if flow.sender != zid and flow.receiver in {zid, None}:
            yield from ((flow, message) for message in flow.messages())


def sample(key: str, carrier: Any, body: Any) -> dict[str, Any]:
    assert isinstance(body, Put | Del)
    put = isinstance(body, Put)
    qos, source = first(carrier, QoS), first(body, SourceInfo)
    attachment = first(body, PutAttachment if put else DelAttachment)
    seen = {
        "key": key,
        "kind": "PUT" if put else "DELETE",
        "payload": shown(body.data if put else b""),
        "encoding": encoding_of(body) if put and body.E else ENCODINGS[0],
        "attachment": attachment and shown(attachment.attachment),
        "priority": Priority(qos.priority).name if qos else "DATA",
        "congestion_control": ("BLOCK" if qos.D else "BLOCK_FIRST" if qos.F else "DROP") if qos else "DROP",
        "express": bool(qos and qos.E),
        "source": source and {"zid": zid_text(source.zid), "eid": source.eid, "sn": source.source_sn},
    }
    if body.T:
        seen["timestamp"] = {"ntp64": body.timestamp, "id": body.timestamp_id.hex()}
    return {name: value for name, value in seen.items() if value is not None}


def frozen(items: list[dict[str, Any]], *, without: tuple[str, ...] = ()) -> Counter[str]:
    return Counter(
        json.dumps({name: value for name, value in item.items() if name not in without}, sort_keys=True)
        for item in items
    )


def truth(name: str) -> dict[str, dict[str, Any]]:
    saw: dict[str, dict[str, Any]] = json.loads((PCAPS / f"{name}.truth.json").read_text(encoding="utf-8"))
    return saw


# The manifest -------------------------------------------------------------------------------------


def test_every_capture_has_a_row_and_every_row_a_capture() -> None:
    named = Counter(row["file"] for row in ROWS) + Counter(row["truth"] for row in ROWS if "truth" in row)
    there = {path.name for path in PCAPS.iterdir() if path.suffix in {".pcap", ".pcapng", ".json"}}
    assert set(named) == there
    assert set(named.values()) == {1}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"])
def test_row_tells_where_a_capture_comes_from(row: dict[str, Any]) -> None:
    for column in ("shows", "node", "version", "command", "licence"):
        assert isinstance(row[column], str)
        assert row[column]
    assert type(row["date"]) is date
    assert re.fullmatch(r"\d+(\.\d+)+", row["version"])
    assert hashlib.sha256((PCAPS / row["file"]).read_bytes()).hexdigest() == row["sha256"]
    if "truth" in row:
        assert hashlib.sha256((PCAPS / row["truth"]).read_bytes()).hexdigest() == row["truth_sha256"]


def test_captures_are_small() -> None:
    assert sum((PCAPS / row["file"]).stat().st_size for row in ROWS) < 3_000_000
    assert max((PCAPS / row["file"]).stat().st_size for row in ROWS) < 200_000


@pytest.mark.parametrize("name", NAMES)
def test_capture_says_nothing_about_the_machine(name: str) -> None:
    raw = (PCAPS / f"{name}.pcapng").read_bytes()
    section = int.from_bytes(raw[4:8], "little")
    interface = int.from_bytes(raw[section + 4 : section + 8], "little")
    assert section == 28, "a section header without options"
    # Its options: the name lo, the time resolution, the end.
    assert raw[section + 16 : section + interface - 4].hex() == "020002006c6f0000090001000900000000000000"
    for packet in packets(name):
        network = packet[IP] if IP in packet else packet[IPv6]
        assert {packet.src, packet.dst} <= {"00:00:00:00:00:00"} or network.dst.startswith("239.")
        assert network.src in {"127.0.0.1", "::1"}
    # Locators are the only addresses that travel inside.
    if name not in OPAQUE:
        assert set(re.findall(rb"(?:tcp|udp|ws)/([^/]+):\d", raw)) <= {b"127.0.0.1", b"[::1]"}


# The wire -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SESSIONS)
def test_batches_decode_strictly_and_encode_to_the_same_bytes(name: str) -> None:
    assert flows(name) or name == "public_keys"
    for flow in flows(name):
        for raw in flow.batches:
            if raw or name not in {"dropped", "unresponsive"}:
                assert b"".join(bytes(message) for message in catalogue.decode_batch(raw)) == raw
        for message in flow.messages():
            assert catalogue.decode(bytes(message), Kind.NETWORK) == message


@pytest.mark.parametrize("name", sorted(SCOUTED))
def test_scouting_datagrams_decode_as_scouting(name: str) -> None:
    for _, raw in datagrams(name):
        assert bytes(catalogue.decode(raw, Kind.SCOUTING)) == raw
    hellos = {
        (zid_text(hello.zid), hello.whatami, tuple(hello.locators))
        for hello in scouting(name)
        if isinstance(hello, Hello)
    }
    told = {
        (hello["zid"], ["router", "peer", "client"].index(hello["whatami"]), tuple(hello["locators"]))
        for scouted in truth(name).get("alice", {}).get("scouts", [])
        for hello in scouted["hellos"]
    }
    assert hellos
    assert told in ({*()}, hellos)


@pytest.mark.parametrize("name", sorted(OPAQUE))
def test_what_cannot_be_read_shows_nothing_of_what_was_said(name: str) -> None:
    raw = (PCAPS / f"{name}.pcapng").read_bytes()
    # QUIC on UDP does not encrypt.
    assert (b"over the link" in raw) == (name == "quic_by_udp")
    assert len(truth(name)["bob"]["samples"]) == 4


# What each capture is there to show ---------------------------------------------------------------


def of_node(name: str, sender: str) -> list[Flow]:
    return [flow for flow in flows(name) if flow.sender == truth(name)[sender]["session"]["zid"]]


def every(name: str, kind: type[Any]) -> list[Any]:
    """All transport or network messages of a kind, in the order of flows."""
    both = (message for flow in flows(name) for message in (*flow.transport(), *flow.messages()))
    return [message for message in both if isinstance(message, kind)]


def declared(name: str) -> set[str]:
    return {type(message.body).__name__ for message in every(name, Declare)}


def test_handshake_shows_keep_alive_and_close_from_both_ends() -> None:
    by_ends = {(flow.sender, flow.receiver): flow.transport() for flow in flows("handshake")}
    assert len(by_ends) == 4
    for messages in by_ends.values():
        assert [type(message) for message in messages[:2]] == [Init, Open]
    router, alice, carol = (
        truth("handshake")[name]["session"]["zid"] for name in ("router", "alice", "carol")
    )
    assert isinstance(by_ends[alice, router][-1], Close)
    assert isinstance(by_ends[router, carol][-1], Close)
    assert all(
        any(isinstance(one, KeepAlive) for one in by_ends[ends])
        for ends in [(alice, router), (router, alice)]
    )


def test_negotiation_shows_resolutions_leases_and_offers_of_one_side_only() -> None:
    inits = every("negotiation", Init)
    assert {init.fsn for init in inits if init.A and init.S} == {0, 1, 2}
    assert {open_.T for open_ in every("negotiation", Open)} == {0, 1}
    for kind in (RegionName, Compression, LowLatency):
        assert [init.A for init in inits if first(init, kind)] == [0]


def test_refusals_show_the_reasons_of_close() -> None:
    reasons = [
        last.reason
        for stream in streams("refusals").values()
        if isinstance(last := catalogue.decode_batch(cut(stream)[-1])[-1], Close)
    ]
    assert set(reasons) == {0, 2, 4, 7}
    ends = {name: saw["session"]["end"] for name, saw in truth("refusals").items()}
    assert {name for name, end in ends.items() if end == "refused"} == {"alice", "carol", "dave", "mirror"}


def test_public_keys_shows_a_key_and_its_refusal() -> None:
    syn, answer = (catalogue.decode(cut(stream)[0]) for stream in streams("public_keys").values())
    assert first(syn, AuthInitSyn)
    assert isinstance(answer, Close)


def test_ranges_show_links_of_their_own() -> None:
    left = of_node("ranges", "left")
    assert all(first(flow.transport()[0], QoSLink) for flow in left)
    lanes = [
        {
            (lane_of(frame), frame.R)
            for frame, message in flow.network()
            if isinstance(message, Push) and isinstance(frame, Frame)
        }
        for flow in left
    ]
    assert sorted(map(sorted, lanes)) == [[(1, 1), (3, 1)], [(5, 0), (7, 0)]]


@pytest.mark.parametrize("name", ["batches", "mixed"])
def test_batches_hold_several_frames_of_both_reliabilities(name: str) -> None:
    (alice,) = of_node(name, "alice")
    kinds = [[message.R for message in catalogue.decode_batch(raw)] for raw in alice.batches[2:-1]]
    assert max(min(batch.count(0), batch.count(1)) for batch in kinds) >= 2


def test_mixed_shows_hundreds_of_samples() -> None:
    assert len(truth("mixed")["bob"]["samples"]) == 400


def test_interleaved_shows_fragments_of_one_lane_between_those_of_another() -> None:
    (alice,) = of_node("interleaved", "alice")
    lanes = [lane_of(message) for message in alice.transport() if isinstance(message, Fragment)]
    assert len(set(lanes)) == 4
    assert sum(one != other for one, other in pairwise(lanes)) > 3


def test_oversized_shows_a_whole_message_that_nobody_got() -> None:
    zid = truth("oversized")["bob"]["session"]["zid"]
    assert len(wire_samples("oversized", zid)) == 3
    assert len(truth("oversized")["bob"]["samples"]) == 2


def test_resolution_shows_sequence_numbers_that_wrap() -> None:
    (alice,) = of_node("resolution", "alice")
    numbers = [message.sn for message in alice.transport() if isinstance(message, Frame)]
    assert len(numbers) >= 140
    assert all((after - before) % 128 == 1 for before, after in pairwise(numbers))
    assert max(numbers) == 127


def test_dropped_shows_an_empty_batch_and_a_number_that_is_left_out() -> None:
    (alice,) = of_node("dropped", "alice")
    assert alice.batches.count(b"") == 1
    numbers = [message.sn for message in alice.transport() if isinstance(message, Fragment) and message.R]
    assert {after - before for before, after in pairwise(numbers)} == {1, 2}


def test_encodings_show_all_that_have_a_number() -> None:
    bodies = [message.body for message in every("encodings", Push)]
    assert {body.encoding for body in bodies if body.E} | {0} == set(ENCODINGS)


def test_timestamps_show_those_of_client_and_application_and_none() -> None:
    stamped = Counter(bool(item.get("timestamp")) for item in truth("timestamps")["bob"]["samples"])
    assert stamped == {True: 3, False: 2}


def test_ros2_shows_both_forms_of_its_attachment() -> None:
    attachments = [first(message.body, PutAttachment) for message in every("ros2", Push)]
    sizes = {len(attachment.attachment) for attachment in attachments if attachment}
    assert len(sizes) == 2
    assert min(sizes) == 8 + 8 + 1 + 16


def test_undeclarations_show_everything_and_its_end() -> None:
    kinds = {"Subscriber", "Queryable", "Token"}
    ends = {f"Undeclare{kind}" for kind in kinds}
    assert {f"Declare{kind}" for kind in kinds} | ends | {"DeclareKeyExpr"} <= declared("undeclarations")


def test_aggregation_shows_one_subscriber_for_two() -> None:
    (bob,) = of_node("aggregation", "bob")
    keys = [
        key_of("aggregation", bob, message.body)
        for message in bob.messages()
        if isinstance(message, Declare) and type(message.body).__name__ == "DeclareSubscriber"
    ]
    assert sorted(keys) == ["sum/in/**", "sum/other"]


def test_matching_shows_who_came_and_went() -> None:
    seen = truth("matching")["alice"]["matching"]
    assert Counter((row["entity"], row["matching"]) for row in seen) == Counter(
        {(name, matching): 1 for name in ("data", "any", "complete") for matching in (True, False)}
    )


def test_joins_show_a_batch_size_and_fragments_but_no_lanes() -> None:
    found = every("joins", Join)
    assert {zid_text(join.zid) for join in found} == {
        saw["session"]["zid"] for saw in truth("joins").values()
    }
    assert all(join.S and not first(join, JoinLanes) for join in found)
    assert every("joins", Fragment)
    assert all(first(join, JoinLanes) for join in every("multicast", Join))


def test_unicast_scouting_shows_an_answer_from_another_port() -> None:
    (asked,) = {ends[1] for ends, raw in datagrams("unicast_scouting") if len(raw) == 3}
    answers = [ends for ends, raw in datagrams("unicast_scouting") if len(raw) > 3]
    assert len(answers) == 2
    assert all(asked not in ends for ends in answers)


def test_three_routers_show_weights_and_the_node_that_declared() -> None:
    records = [
        record for message in every("three_routers", NetworkOam) for record in message.linkstate.records
    ]
    assert any(record["has_weights"] for record in records)
    assert any(first(message, NodeId) for message in every("three_routers", Declare))


def test_gossip_brings_those_together_that_did_not_know_each_other() -> None:
    left, right = (truth("gossip")[name]["session"]["zid"] for name in ("left", "right"))
    assert any({flow.sender, flow.receiver} == {left, right} for flow in flows("gossip"))


def test_links_of_peers_that_connect_to_each_other_go_on_from_the_same_numbers() -> None:
    left, right = (truth("dialed_back")[name]["session"]["zid"] for name in ("left", "right"))
    links = [
        (flow.sender, [one for one in flow.transport() if isinstance(one, Open)])
        for flow in flows("dialed_back")
    ]
    assert sum(not opening.A for _, (opening,) in links) == 3
    for zid in (left, right):
        assert len({opening.initial_sn for sender, (opening,) in links if sender == zid}) == 1


def test_session_that_begins_again_has_as_many_links_and_the_same_numbers() -> None:
    left = truth("connected_again")["left"]
    assert [event["kind"] for event in left["links"]] == ["PUT"] * 2 + ["DELETE"] * 2 + ["PUT"] * 2
    links = [
        [one for one in flow.transport() if isinstance(one, (Open, Frame))]
        for flow in flows("connected_again")
        if flow.sender == left["session"]["zid"]
    ]
    assert len(links) == 4
    assert len({opening.initial_sn for opening, *_ in links}) == 1
    for begun in (links[:2], links[2:]):
        assert {frame.sn for _, *frames in begun for frame in frames} & {links[0][0].initial_sn}


def test_endings_show_who_says_close() -> None:
    said = {
        name: any(isinstance(message, Close) for message in of_node("endings", name)[0].transport())
        for name in ("alice", "bob", "carol", "dave")
    }
    ends = {name: truth("endings")[name]["session"]["end"] for name in said}
    assert ends == {"alice": "close", "bob": "SIGINT", "carol": "SIGTERM", "dave": "SIGKILL"}
    assert said == {"alice": True, "bob": True, "carol": False, "dave": False}


def test_leases_show_a_node_that_comes_back() -> None:
    assert len(of_node("leases", "bob")) == 2
    kinds = [item["kind"] for item in truth("leases")["erin"]["samples"] if "liveliness" in item]
    assert kinds[:3] == ["PUT", "DELETE", "PUT"]


def test_unresponsive_shows_a_link_that_ends_without_close() -> None:
    ended, again = of_node("unresponsive", "alice")
    assert not any(isinstance(message, Close) for message in ended.transport())
    assert isinstance(again.transport()[0], Init)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("websocket")])
def test_websocket_starts_with_an_upgrade(name: str) -> None:
    assert all(stream.startswith((b"GET /", b"HTTP/1.1 101 ")) for stream in streams(name).values())


@pytest.mark.parametrize("name", ["tcp6", "udp6"])
def test_version_6_of_ip_is_what_it_says(name: str) -> None:
    assert all(IPv6 in packet for packet in packets(name))


def test_shared_memory_shows_references_instead_of_bytes() -> None:
    # One slice, of kind 1, counted: 1000 bytes, of the node's own pool 5000, of a reply 2000.
    wire = b"".join(streams("shared_memory").values())
    for size in (b"\xe8\x07", b"\x88\x27", b"\xd0\x0f"):
        assert re.search(rb"\x12\x01\x01[\x05-\x0b]" + size, wire)
    assert {item["payload"].get("size") for item in truth("shared_memory")["left"]["samples"]} > {1000, 5000}


def test_shared_query_claims_the_bytes_that_are_not_there() -> None:
    wire = b"".join(streams("shared_query").values())
    # The extension is said to have 1202 bytes; encoding, one slice, of kind 1, 1200 bytes.
    assert re.search(rb"\x84\x43\xb2\x09\x08\x01\x01[\x05-\x0b]\xb0\x09", wire)
    assert truth("shared_query")["left"]["queries"][0]["payload"]["size"] == 1200


def test_shared_error_has_its_bytes() -> None:
    wire = b"".join(streams("shared_error").values())
    assert b"\x85\x12\xdc\x0b0000000\n" in wire
    (get,) = truth("shared_error")["right"]["gets"]
    assert get["replies"][0]["error"]["payload"]["size"] == 1500


@pytest.mark.parametrize("row", [row for row in ROWS if "beside" in row], ids=lambda row: row["file"])
def test_nodes_of_older_releases_are_beside_the_others(row: dict[str, Any]) -> None:
    sessions = [saw["session"] for saw in truth(row["file"].removesuffix(".pcapng")).values()]
    assert {session["version"] for session in sessions if "version" in session} == set(row["beside"])
    assert any("version" not in session for session in sessions)


# What the API of the nodes saw --------------------------------------------------------------------


def wire_samples(name: str, zid: str) -> list[tuple[str, dict[str, Any]]]:
    """What reached a node in PUSH, by key."""
    found = []
    for flow, message in received_by(name, zid):
        if isinstance(message, Push):
            key = key_of(name, flow, message)
            found.append((key, sample(key, message, message.body)))
    return found


QOS = ("priority", "congestion_control", "express")
"""What a sample that was asked for has from its reply."""


@pytest.mark.parametrize("name", [name for name in SESSIONS if name not in BY_REFERENCE])
def test_samples_of_each_subscriber_are_those_on_the_wire(name: str) -> None:
    for saw in truth(name).values():
        if "subscribers" not in saw:
            continue
        zid, config = saw["session"]["zid"], saw["session"]["config"]
        root = f"{config['namespace']}/" if "namespace" in config else ""
        limit = config.get("transport/link/rx/max_message_size", 1 << 30)
        sent = wire_samples(name, zid)
        for subscriber in saw["subscribers"]:
            if subscriber["kind"] != "subscriber":
                continue
            wire = [
                {**item, "key": key.removeprefix(root)}
                for key, item in sent
                if subscriber.get("allowed_origin") != "SESSION_LOCAL"
                and intersects(root + subscriber["key"], key)
                and item.get("payload", {}).get("size", 0) < limit
            ]
            told = [
                item
                for item in saw.get("samples", [])
                if item.get("subscriber") == subscriber["name"] and item.get("source", {}).get("zid") != zid
            ]
            without = ("subscriber", "timestamp_stack")
            assert frozen(told, without=without) == frozen(wire, without=without), subscriber


def test_put_delete_shows_a_stack_to_which_the_receiver_appends_itself() -> None:
    (told,) = (item for item in truth("put_delete")["bob"]["samples"] if "timestamp_stack" in item)
    (stack,) = (
        stack
        for _, message in received_by("put_delete", "b2" * 16)
        if isinstance(message, Push) and (stack := first(message, TimestampStack))
    )
    points = [POINTS[record["point"]] for record in stack.records]
    assert told["timestamp_stack"][: len(points)] == points
    assert told["timestamp_stack"][-1] == "RECEIVE"


@pytest.mark.parametrize("name", ["history", "recovery"])
def test_samples_of_an_advanced_subscriber_came_in_push_or_in_a_reply(name: str) -> None:
    bob = truth(name)["bob"]
    zid = bob["session"]["zid"]
    (subscriber,) = bob["subscribers"]
    live, asked = [], []
    for flow, message in received_by(name, zid):
        if isinstance(message, Push):
            live.append(sample(key_of(name, flow, message), message, message.body))
        elif isinstance(message, Response) and not isinstance(message.body, Err):
            asked.append(sample(key_of(name, flow, message), message, message.body.body))
    wire = [
        frozen([item for item in items if intersects(subscriber["key"], item["key"])], without=QOS)
        for items in (live, asked)
    ]
    told = frozen(bob["samples"], without=("subscriber", *QOS))
    assert all(wire), "some came by themselves, some had to be asked for"
    assert set(told) == set(wire[0]) | set(wire[1])
    assert set(told.values()) == {1}


@pytest.mark.parametrize("name", SESSIONS)
def test_liveliness_of_the_api_is_on_the_wire(name: str) -> None:
    for saw in truth(name).values():
        told = {(item["kind"], item["key"]) for item in saw.get("samples", []) if item.get("liveliness")}
        if not told:
            continue
        config = saw["session"]["config"]
        root = f"{config['namespace']}/" if "namespace" in config else ""
        own = {("PUT", token["key"]) for token in saw.get("tokens", [])}
        wire = set()
        tokens: dict[tuple[str, int], str] = {}
        for flow, message in received_by(name, saw["session"]["zid"]):
            body = message.body if isinstance(message, Declare) else None
            if isinstance(body, DeclareToken):
                key = key_of(name, flow, body).removeprefix(root)
                tokens[flow.sender, body.entity_id] = key
                wire.add(("PUT", key))
            elif isinstance(body, UndeclareToken):
                key = tokens.get((flow.sender, body.entity_id), "")
                if named := first(body, WireExpr):
                    key = key_of(name, flow, named).removeprefix(root) or key
                wire.add(("DELETE", key))
        # With a session its tokens end.
        gone = {("DELETE", key) for _, key in wire | own}
        assert told <= wire | own | gone


ASKING = ["query", "query_lanes", "routers", "peers", "lowlatency", "targets", "unanswered", "matching"]
"""Scenarios in which each query goes to one node."""


@pytest.mark.parametrize("name", ASKING)
def test_queries_and_replies_of_the_api_are_those_on_the_wire(name: str) -> None:
    for saw in truth(name).values():
        zid = saw["session"]["zid"]
        if saw["session"]["mode"] != "router":
            asked = [query for flow, query in requests(name) if flow.receiver == zid]
            told = frozen(saw.get("queries", []), without=("queryable",))
            assert set(told) == set(frozen(asked, without=("request_id",)))
        asked_by = [
            (query["request_id"], flow.receiver) for flow, query in requests(name) if flow.sender == zid
        ]
        if saw["session"]["mode"] == "router":
            continue
        gets = saw.get("gets", [])
        assert len(asked_by) == len(gets)
        for (request_id, receiver), get in zip(asked_by, gets, strict=True):
            told = frozen(
                [
                    {"error": reply["error"]} if "error" in reply else {"ok": reply["ok"]}
                    for reply in get["replies"]
                    if reply["replier"]
                ]
            )
            wire = frozen(replies(name, receiver, zid, request_id))
            if get.get("consolidation") == "NONE":
                assert told == wire, get["selector"]
            else:
                assert told <= wire, get["selector"]
                assert bool(told) == bool(wire)


def requests(name: str) -> list[tuple[Flow, dict[str, Any]]]:
    found = []
    for flow in flows(name):
        for message in flow.messages():
            if not isinstance(message, Request):
                continue
            query = message.body
            body, attachment = first(query, QueryBody), first(query, QueryAttachment)
            source = first(query, SourceInfo)
            asked = {
                "request_id": message.request_id,
                "key": key_of(name, flow, message),
                "parameters": query.parameters if query.P else "",
                "payload": body and shown(body.data),
                "encoding": body and encoding_of(body),
                "attachment": attachment and shown(attachment.attachment),
                "source": source and {"zid": zid_text(source.zid), "eid": source.eid, "sn": source.source_sn},
            }
            found.append((flow, {part: value for part, value in asked.items() if value is not None}))
    return found


def replies(name: str, sender: str | None, receiver: str, request_id: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for flow, message in received_by(name, receiver):
        if flow.sender != sender or not isinstance(message, Response) or message.request_id != request_id:
            continue
        if isinstance(message.body, Err):
            error = message.body
            encoding = encoding_of(error) if error.E else ENCODINGS[0]
            found.append({"error": {"payload": shown(error.data), "encoding": encoding}})
        else:
            found.append({"ok": sample(key_of(name, flow, message), message, message.body.body)})
    return found


# The script ---------------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_script_lists_the_scenarios_of_the_manifest() -> None:
    done = run("--list")
    assert done.returncode == 0, done.stderr
    listed = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert listed == {row["file"].removesuffix(".pcapng"): row["shows"] for row in ROWS if "truth" in row}


def test_script_refuses_an_unknown_scenario_in_one_line() -> None:
    done = run("nothing")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "capture.py: error: no scenario nothing; --list shows them"


@pytest.mark.skipif(not importlib.util.find_spec("zenoh"), reason="eclipse-zenoh is not installed")
def test_script_makes_a_capture_and_its_row(tmp_path: Path) -> None:
    (tmp_path / "manifest.toml").write_text(
        '[[capture]]\nfile = "other.pcap"\nnode = "x \\" é"\n', encoding="utf-8"
    )
    done = run("datagrams", "--out", str(tmp_path))
    if "needs root" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    rows = tomllib.loads((tmp_path / "manifest.toml").read_text(encoding="utf-8"))["capture"]
    made, other = rows
    assert other == {"file": "other.pcap", "node": 'x " é'}
    (known,) = (row for row in ROWS if row["file"] == made["file"])
    assert set(made) == set(known)
    assert len(rdpcap(str(tmp_path / "datagrams.pcapng"))) > 6


@cache
def read_by_tshark() -> dict[str, list[int]]:
    """The lengths of all packets by capture; tshark, slow to start, reads all captures as one, as pcapng allows."""
    whole = b"".join((PCAPS / f"{name}.pcapng").read_bytes() for name in NAMES)
    command = ["tshark", "-r", "-", "-T", "fields", "-e", "frame.len"]
    done = subprocess.run(command, input=whole, capture_output=True, check=True)
    said = iter(done.stdout.split())
    read = {name: [int(length) for length in islice(said, len(packets(name)))] for name in NAMES}
    assert not list(said)
    return read


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_tshark_reads_all_packets(name: str) -> None:
    assert read_by_tshark()[name] == [len(packet) for packet in packets(name)]
