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
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.utils import rdpcap

from conformance.session.fragments import Reassembly
from scapy_layers import catalogue
from scapy_layers.batch import BatchReader
from scapy_layers.codes import Kind, Priority
from scapy_layers.data import Del, Err, Put
from scapy_layers.declarations import DeclareKeyExpr, DeclareToken, UndeclareToken
from scapy_layers.extensions import (
    Compression,
    DelAttachment,
    Lane,
    LowLatency,
    PutAttachment,
    QoS,
    QueryAttachment,
    QueryBody,
    SourceInfo,
    TimestampStack,
)
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push, Request, Response
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open

PCAPS = Path(__file__).parent.parent / "pcaps"
SCRIPT = PCAPS / "capture.py"
ROWS: list[dict[str, Any]] = tomllib.loads((PCAPS / "manifest.toml").read_text(encoding="utf-8"))["capture"]
NAMES = [row["file"].removesuffix(".pcapng") for row in ROWS if "truth" in row]
SESSIONS = [name for name in NAMES if name != "scouting"]

LEFT_BY_LOWLATENCY = bytes.fromhex("02000300")
"""A second CLOSE with a 2-byte length, which eclipse-zenoh writes behind the last 4-byte one."""

ENCODINGS = {
    0: "zenoh/bytes",
    3: "application/octet-stream",
    4: "text/plain",
    5: "application/json",
    28: "text/csv",
    0xFFFF: "",
}
"""Names as the API writes them; its own texts are the schema of the last one."""
POINTS = {1: "SEND", 2: "ROUTE", 4: "RECEIVE"}


# From packets to messages -------------------------------------------------------------------------


@dataclass
class Flow:
    """What one node sent to another, or to a group (receiver None)."""

    sender: str
    receiver: str | None
    batches: list[bytes]

    def transport(self) -> list[Message]:
        return [message for raw in self.batches for message in catalogue.decode_batch(raw)]

    def network(self) -> Iterator[Message]:
        lanes: dict[tuple[int, int], Reassembly] = defaultdict(lambda: Reassembly(patch=1))
        for message in self.transport():
            if isinstance(message, Frame):
                yield from message.messages
            elif isinstance(message, Fragment):
                lane = first(message, Lane)
                whole = lanes[message.R, lane.priority if lane else Priority.DATA].take(message)
                if whole is not None:
                    yield catalogue.decode(whole, Kind.NETWORK)
            elif message.kind is Kind.NETWORK:
                yield message


def first(message: Any, kind: type[Any]) -> Any:
    return next((found for found in message.extensions or [] if isinstance(found, kind)), None)


def zid_text(zid: bytes) -> str:
    return zid[::-1].hex().lstrip("0")


def streams(name: str) -> dict[tuple[int, int], bytes]:
    """The TCP streams by ports, put in order by sequence number; nothing may be missing."""
    found: dict[tuple[int, int], bytearray] = {}
    starts: dict[tuple[int, int], int] = {}
    for packet in rdpcap(str(PCAPS / f"{name}.pcapng")):
        if TCP not in packet:
            continue
        tcp = packet[TCP]
        ends = (tcp.sport, tcp.dport)
        size = packet[IP].len - packet[IP].ihl * 4 - tcp.dataofs * 4
        if tcp.flags.S:
            starts[ends], found[ends] = tcp.seq + 1, bytearray()
        if ends not in starts:
            assert tcp.flags.R, "a node that tries a router again that has gone"
            continue
        at = (tcp.seq - starts[ends]) % (1 << 32)
        if size and at >= len(found[ends]):
            assert at == len(found[ends]), f"{name}: bytes of {ends} are missing"
            found[ends] += bytes(tcp.payload)[:size]
    return {ends: bytes(stream) for ends, stream in found.items() if stream}


def datagrams(name: str) -> list[tuple[int, int, bytes]]:
    packets = [packet[UDP] for packet in rdpcap(str(PCAPS / f"{name}.pcapng")) if UDP in packet]
    return [(udp.sport, udp.dport, bytes(udp.payload)[: udp.len - 8]) for udp in packets]


def of_stream(stream: bytes, init_pair: tuple[Init, Init]) -> list[bytes]:
    def agreed(kind: type[Any]) -> bool:
        return all(first(init, kind) for init in init_pair)

    if agreed(LowLatency):
        size = sum(2 + len(raw) for raw in BatchReader().feed(stream)[:2])
        opening, later = BatchReader(), BatchReader(prefix=4, limit=1 << 20)
        batches = opening.feed(stream[:size]) + later.feed(stream[size:])
        assert later.pending in {b"", LEFT_BY_LOWLATENCY}
        return batches
    reader = BatchReader()
    batches = reader.feed(stream)
    assert not reader.pending
    if agreed(Compression):
        return batches[:2] + [lz4(raw[1:]) if raw[0] else raw[1:] for raw in batches[2:]]
    return batches


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


@cache
def flows(name: str) -> list[Flow]:
    found = []
    tcp = streams(name)
    inits = {ends: catalogue.decode(BatchReader().feed(stream)[0]) for ends, stream in tcp.items()}
    assert all(isinstance(init, Init) for init in inits.values())
    for ends, stream in tcp.items():
        answer = inits[ends[::-1]]
        raws = of_stream(stream, (inits[ends], answer))
        found.append(Flow(zid_text(inits[ends].zid), zid_text(answer.zid), raws))
    if name == "scouting":
        return found
    udp: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    for sport, dport, raw in datagrams(name):
        udp[sport, dport].append(raw)
    greetings = {ends: catalogue.decode_batch(raws[0])[0] for ends, raws in udp.items()}
    for ends, raws in udp.items():
        greeting, other = greetings[ends], greetings.get(ends[::-1])
        assert isinstance(greeting, Init | Join)
        found.append(Flow(zid_text(greeting.zid), None if other is None else zid_text(other.zid), raws))
    return found


# From messages to what an application sees --------------------------------------------------------


@cache
def aliases(name: str) -> dict[tuple[str, str | None, int], str]:
    table: dict[tuple[str, str | None, int], str] = {}
    for flow in flows(name):
        for message in flow.network():
            if isinstance(message, Declare) and isinstance(message.body, DeclareKeyExpr):
                declared = message.body
                assert not declared.key_scope, "real nodes chain no aliases"
                place = (flow.sender, flow.receiver, declared.key_id)
                # An alias that was taken back may be given again, which no scenario provokes.
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


def towards(name: str, zid: str) -> list[Flow]:
    return [flow for flow in flows(name) if flow.sender != zid and flow.receiver in {zid, None}]


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
    assert sum((PCAPS / row["file"]).stat().st_size for row in ROWS) < 1_500_000


@pytest.mark.parametrize("name", NAMES)
def test_capture_says_nothing_about_the_machine(name: str) -> None:
    raw = (PCAPS / f"{name}.pcapng").read_bytes()
    section = int.from_bytes(raw[4:8], "little")
    interface = int.from_bytes(raw[section + 4 : section + 8], "little")
    assert section == 28, "a section header without options"
    # Its options: the name lo, the time resolution, the end.
    assert raw[section + 16 : section + interface - 4].hex() == "020002006c6f0000090001000900000000000000"
    for packet in rdpcap(str(PCAPS / f"{name}.pcapng")):
        assert {packet.src, packet.dst} <= {"00:00:00:00:00:00"} or packet[IP].dst.startswith("239.")
        assert packet[IP].src == "127.0.0.1"
    # Locators are the only addresses that travel inside.
    assert set(re.findall(rb"(?:tcp|udp)/([^/:]+):\d", raw)) <= {b"127.0.0.1"}


# The wire -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SESSIONS)
def test_batches_decode_strictly_and_encode_to_the_same_bytes(name: str) -> None:
    assert flows(name)
    for flow in flows(name):
        for raw in flow.batches:
            assert b"".join(bytes(message) for message in catalogue.decode_batch(raw)) == raw
        for message in flow.network():
            assert catalogue.decode(bytes(message), Kind.NETWORK) == message


def test_scouting_datagrams_decode_as_scouting() -> None:
    messages = []
    for _, _, raw in datagrams("scouting"):
        message = catalogue.decode(raw, Kind.SCOUTING)
        assert bytes(message) == raw
        messages.append(message)
    hellos = [message for message in messages if isinstance(message, Hello)]
    scouts = [message for message in messages if isinstance(message, Scout)]
    assert [scout.what for scout in scouts if not scout.I][:3] == [1, 2, 7]
    wire = {(zid_text(hello.zid), hello.whatami, tuple(hello.locators)) for hello in hellos}
    told = {
        (hello["zid"], ["router", "peer", "client"].index(hello["whatami"]), tuple(hello["locators"]))
        for scouted in truth("scouting")["alice"]["scouts"]
        for hello in scouted["hellos"]
    }
    assert wire == told
    assert len(flows("scouting")) == 2, "the client went on to open a session"


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


def test_batches_hold_several_frames_of_both_reliabilities() -> None:
    most = max(
        ([message.R for message in catalogue.decode_batch(raw)] for raw in flows("batches")[2].batches[2:-1]),
        key=len,
    )
    assert len(most) > 3
    assert set(most) == {0, 1}


def test_resolution_shows_sequence_numbers_that_wrap() -> None:
    (alice,) = (flow for flow in flows("resolution") if flow.sender == "b1" * 16)
    numbers = [message.sn for message in alice.transport() if isinstance(message, Frame)]
    assert len(numbers) >= 140
    assert all((after - before) % 128 == 1 for before, after in pairwise(numbers))
    assert max(numbers) == 127


# What the API of the nodes saw --------------------------------------------------------------------


@pytest.mark.parametrize("name", SESSIONS)
def test_samples_of_the_api_are_those_on_the_wire(name: str) -> None:
    for saw in truth(name).values():
        told = [item for item in saw.get("samples", []) if "subscriber" in item]
        wire = []
        stacks = []
        for flow in towards(name, saw["session"]["zid"]):
            for message in flow.network():
                # What reaches a router is for it to forward.
                if isinstance(message, Push) and saw["session"]["mode"] != "router":
                    wire.append(sample(key_of(name, flow, message), message, message.body))
                    if stack := first(message, TimestampStack):
                        stacks.append([POINTS[record["point"]] for record in stack.records])
        seen, sent = frozen(told, without=("subscriber", "timestamp_stack")), frozen(wire)
        assert set(seen) == set(sent)
        # A node with two subscribers for a key hands one message to both.
        assert all(seen[item] >= count for item, count in sent.items())
        # The receiver appends itself to the stack.
        appended = [item["timestamp_stack"] for item in told if "timestamp_stack" in item]
        assert [
            stack for stack, after in zip(stacks, appended, strict=True) if after[: len(stack)] != stack
        ] == []


@pytest.mark.parametrize("name", ["liveliness", "routers", "peers"])
def test_liveliness_of_the_api_is_on_the_wire(name: str) -> None:
    for saw in truth(name).values():
        told = {(item["kind"], item["key"]) for item in saw.get("samples", []) if "liveliness" in item}
        wire = set()
        tokens: dict[int, str] = {}
        for flow in towards(name, saw["session"]["zid"]):
            for message in flow.network():
                body = message.body if isinstance(message, Declare) else None
                if isinstance(body, DeclareToken):
                    tokens[body.entity_id] = key_of(name, flow, body)
                    wire.add(("PUT", tokens[body.entity_id]))
                elif isinstance(body, UndeclareToken) and body.entity_id in tokens:
                    wire.add(("DELETE", tokens[body.entity_id]))
        assert told <= wire


@pytest.mark.parametrize("name", ["query", "routers", "peers", "lowlatency"])
def test_queries_and_replies_of_the_api_are_those_on_the_wire(name: str) -> None:
    for saw in truth(name).values():
        zid = saw["session"]["zid"]
        queries = [query for flow in towards(name, zid) for query in requests(name, flow)]
        if "queries" in saw:
            wire = frozen(queries, without=("request_id",))
            assert set(wire) == set(frozen(saw["queries"], without=("queryable",)))
        asked = [
            (query["request_id"], flow.receiver)
            for flow in flows(name)
            if flow.sender == zid
            for query in requests(name, flow)
        ]
        if "gets" in saw:
            assert len(asked) == len(saw["gets"])
            for (request_id, receiver), get in zip(asked, saw["gets"], strict=True):
                told = [
                    {"error": reply["error"]} if "error" in reply else {"ok": reply["ok"]}
                    for reply in get["replies"]
                ]
                assert frozen(told) == frozen(replies(name, receiver, zid, request_id)), get["selector"]


def requests(name: str, flow: Flow) -> list[dict[str, Any]]:
    found = []
    for message in flow.network():
        if isinstance(message, Request) and (key := key_of(name, flow, message)) != "fence":
            query = message.body
            body, attachment = first(query, QueryBody), first(query, QueryAttachment)
            asked = {
                "request_id": message.request_id,
                "key": key,
                "parameters": query.parameters if query.P else "",
                "payload": body and shown(body.data),
                "encoding": body and encoding_of(body),
                "attachment": attachment and shown(attachment.attachment),
            }
            found.append({name: value for name, value in asked.items() if value is not None})
    return found


def replies(name: str, sender: str | None, receiver: str, request_id: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for flow in flows(name):
        if (flow.sender, flow.receiver) != (sender, receiver):
            continue
        for message in flow.network():
            if not isinstance(message, Response) or message.request_id != request_id:
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
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert sorted(listed) == sorted(NAMES)


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


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_tshark_reads_all_packets(name: str) -> None:
    path = str(PCAPS / f"{name}.pcapng")
    done = subprocess.run(
        ["tshark", "-r", path, "-T", "fields", "-e", "frame.number"], capture_output=True, check=False
    )
    assert done.returncode == 0
    assert len(done.stdout.split()) == len(rdpcap(path))
