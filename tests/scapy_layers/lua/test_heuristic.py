"""What is recognised on ports that nobody named, and above all what is not."""

from __future__ import annotations

import random
import shutil
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from scapy_layers import capture
from scapy_layers.conversation import Heard, identify, listen
from scapy_layers.data import Del, Put
from scapy_layers.extensions import Patch, QoSOffer
from scapy_layers.message import Message
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Frame, Init, Join, Open
from tests.scapy_layers.lua.parts import VERSIONS, Runtime, part, runtime
from tests.scapy_layers.lua.wire import (
    ANSWERER,
    ASKER,
    PCAPS,
    ZIDS,
    Talk,
    count,
    datagram,
    fields,
    needs_tshark,
    prefixed,
    push,
    save,
    tshark,
    values,
)

GROUP = "224.0.0.224"
SYN = Init(version=9, zid=ZIDS[0], whatami=2, S=1, extensions=[Patch(patch=1)])
ACK = Init(A=1, version=9, zid=ZIDS[1], whatami=0, S=1, cookie=b"cookie--")
JOIN = Join(version=9, zid=ZIDS[0], whatami=1, S=1, lease=10_000, next_sn_re=1, next_sn_be=2)
HELLO = Hello(version=9, zid=ZIDS[1], whatami=0, L=1, locators=["tcp/10.0.0.2:7447", "tcp/[fe80::1]:7447"])
SCOUT = Scout(version=9, what=7, I=1, zid=ZIDS[0])
PUT = push("demo/a", Put(data=b"payload"))

# The walk itself, under every Lua ------------------------------------------------------------------

_STUB = """
Z = { listen = function() end, on_init = {}, entry = {}, settings = { heuristics = true }, strict = function() return true end }
"""
"""The last word of the reader is left out: the walk alone has to be good."""


def load(lua: Runtime) -> None:
    """Loads the part, and the one it needs."""
    part(lua, "lz4", _STUB)
    part(lua, "heuristic", "")


@pytest.fixture(scope="module", params=VERSIONS)
def lua(request: pytest.FixtureRequest) -> Runtime:
    made = runtime(request.param)
    load(made)
    return made


def stream(lua: Runtime, raw: bytes) -> bool:
    return bool(lua.execute("return Z.looks_like_stream(...)", raw))


def sort(lua: Runtime, raw: bytes, *, group: bool = False, asked: bool = False) -> bytes | None:
    found: bytes | None = lua.execute("return Z.looks_like_datagram(...)", raw, group, asked)
    return found


@pytest.mark.parametrize(
    "batches",
    [
        [SYN],
        [Init(version=9, zid="1", whatami=1)],
        [ACK],
        [Init(version=9, zid="ff" * 16, whatami=2, extensions=[QoSOffer(), Patch(patch=1)])],
        [Open(lease=10_000, initial_sn=7, cookie=b"cookie--")],
        [SYN, Open(lease=10_000, initial_sn=7, cookie=b"cookie--")],
        [Frame(R=1, sn=300, messages=[PUT])],
        [Frame(R=1, sn=300, messages=[PUT]), Frame(R=0, sn=1, messages=[push("a", Del())])],
    ],
)
def test_stream_of_batches_is_taken_whole_and_only_whole(lua: Runtime, batches: list[Message]) -> None:
    raw = b"".join(map(prefixed, batches))
    assert stream(lua, raw)
    assert not stream(lua, raw + b"\0")
    last = len(prefixed(batches[-1]))
    whole = {len(raw) - last} if len(batches) > 1 else set()
    assert not any(stream(lua, raw[:size]) for size in range(len(raw)) if size not in whole)


@pytest.mark.parametrize(
    ("message", "group", "found"),
    [
        (SYN, False, b"session"),
        (ACK, False, b"session"),
        (JOIN, True, b"join"),
        (SCOUT, True, b"scout"),
        (Scout(version=9, what=7), True, b"scout"),
        (HELLO, False, b"hello"),
    ],
)
def test_datagram_is_taken_whole_and_only_whole(
    lua: Runtime, message: Message, group: bool, found: bytes
) -> None:
    raw = bytes(message)
    assert sort(lua, raw, group=group) == found
    assert sort(lua, raw, group=not group) is None
    assert sort(lua, raw + b"\0", group=group) is None
    shorter = [sort(lua, raw[:size], group=group) for size in range(len(raw))]
    assert not any(shorter)


def test_join_of_a_group_with_compression_is_taken(lua: Runtime) -> None:
    packed = bytes.fromhex("0143a70971d10100b00ada919c29bdbda7272701")  # of a real node
    assert sort(lua, packed, group=True) == b"join"
    assert sort(lua, packed) is None
    assert sort(lua, packed[:-1], group=True) is None
    assert sort(lua, b"\0" + bytes(JOIN), group=True) == b"join"
    assert sort(lua, b"\0" + bytes(SYN), group=True) is None


def test_hello_without_locators_is_only_believed_as_an_answer(lua: Runtime) -> None:
    raw = bytes(Hello(version=9, zid=ZIDS[1], whatami=0))
    assert sort(lua, raw) is None
    assert sort(lua, raw, asked=True) == b"hello"


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 0x42),  # another id
        (1, 8),  # another version
        (2, 0x33),  # no role
        (2, 0x36),  # a reserved bit
        (2, 0x42),  # a longer zid
        (7, 0x1A),  # a reserved bit of the resolution
        (10, 0x3F),  # a mandatory extension nobody knows
    ],
)
def test_each_fact_has_to_fit(lua: Runtime, at: int, value: int) -> None:
    raw = bytearray(bytes(SYN))
    assert sort(lua, bytes(raw)) == b"session"
    raw[at] = value
    assert sort(lua, bytes(raw)) is None
    # In a stream the length in front fits as well: people look for what is wrong behind id and version.
    assert stream(lua, prefixed(bytes(raw))) == (at > 1)
    assert not stream(lua, prefixed(bytes(raw)) + b"\0")


def test_first_bytes_of_an_init_without_its_zid_are_none(lua: Runtime) -> None:
    assert stream(lua, prefixed(bytes(SYN)[:7]))
    assert not any(stream(lua, prefixed(bytes(SYN)[:size])) for size in range(1, 7))


def test_zid_of_zeros_is_none(lua: Runtime) -> None:
    raw = bytes(SYN).replace(bytes.fromhex(ZIDS[0])[::-1], bytes(4))
    assert sort(lua, raw) is None
    assert not stream(lua, prefixed(raw))


@pytest.mark.parametrize("text", ["010911", "010900", "610901", "8109014e07756e6b6e6f776e"])
def test_odd_scout_is_only_believed_in_company(lua: Runtime, text: str) -> None:
    raw = bytes.fromhex(text)
    assert sort(lua, raw, group=True) is None
    assert sort(lua, raw, group=True, asked=True) == b"scout"
    assert sort(lua, raw) is None
    assert sort(lua, raw, asked=True) == b"scout"


_RANDOM = """
local lengths, facts, seed, rounds = ...
math.randomseed(seed)
local random, char = math.random, string.char
local taken = 0
for round = 1, rounds do
  local size = random(3, lengths)
  local bytes = {}
  for index = 1, size do bytes[index] = random(0, 255) end
  if facts then bytes[facts] = 9 end
  if facts == 4 then bytes[3] = 1 end
  local raw = char(unpack and unpack(bytes) or table.unpack(bytes))
  local group, asked = round % 2 == 0, round % 4 == 1
  if Z.looks_like_datagram(raw, group, asked) then taken = taken + 1 end
  if Z.looks_like_stream(raw) then taken = taken + 1 end
end
return taken
"""


def test_a_million_random_datagrams_are_left_alone() -> None:
    # The fastest Lua: the others take the same decisions, as the tests above show.
    lua = runtime("luajit21")
    load(lua)
    assert lua.execute(_RANDOM, 24, None, 1, 1_000_000) == 0


def test_version_alone_convinces_nobody() -> None:
    lua = runtime("lua54")
    load(lua)
    # Short ones of a zid and nothing else are met by chance once in tens of thousands.
    assert lua.execute(_RANDOM, 64, 2, 2, 100_000) <= 4
    # Streams with id and version: the length is met by chance as often.
    assert lua.execute(_RANDOM, 64, 4, 2, 100_000) <= 4


def test_names_asked_for_by_any_id_are_left_alone(lua: Runtime) -> None:
    # The id of a DNS message may be what a Zenoh message begins with.
    for flags in (b"\x01\x00", b"\x81\x80", b"\x84\x00", b"\x00\x00"):
        for number in range(0, 1 << 16, 13):
            assert sort(lua, struct.pack(">H", number) + flags + dns()[4:], group=number % 2 > 0) is None
    for first_byte in range(256):
        for value in range(0, 1 << 16, 1021):
            raw = bytes([first_byte, 9]) + struct.pack(">H", value) + dns()[4:]
            assert sort(lua, raw) is None
            assert identify.scout(raw) is None, "in company strict decoding decides"
            assert identify.hello(raw) is None


# Other protocols, in tshark ------------------------------------------------------------------------


def dns(*, answer: bool = False, number: int = 0x0109) -> bytes:
    name = b"\x07example\x03com\x00"
    head = struct.pack(">HHHHHH", number, 0x8180 if answer else 0x0100, 1, int(answer), 0, 0)
    record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + bytes([93, 184, 216, 34]) if answer else b""
    return head + name + b"\x00\x01\x00\x01" + record


def quic(generator: random.Random) -> bytes:
    ids = b"\x08" + generator.randbytes(8) + b"\x08" + generator.randbytes(8)
    initial = b"\xc3\x00\x00\x00\x01" + ids + b"\x00\x44\x9e" + generator.randbytes(1180)
    return initial[:1200]


def short_quic(generator: random.Random) -> bytes:
    return bytes([0x40 | generator.randrange(64)]) + generator.randbytes(generator.randrange(25, 200))


def stun(generator: random.Random) -> bytes:
    return struct.pack(">HHI", 1, 0, 0x2112A442) + generator.randbytes(12)


def ntp(generator: random.Random) -> bytes:
    return b"\x23\x09\x06\x20" + generator.randbytes(44)


def rtp(generator: random.Random) -> bytes:
    return b"\x81\x09" + generator.randbytes(170)


def noise(generator: random.Random) -> bytes:
    return generator.randbytes(generator.randrange(1, 40))


def odd_datagrams() -> Iterator[Packet]:
    generator = random.Random(4)
    kinds: list[Callable[[random.Random], bytes]] = [quic, short_quic, stun, ntp, rtp, noise]
    for index in range(600):
        to = (ANSWERER, GROUP)[index % 2]
        raw = kinds[index % len(kinds)](generator)
        yield datagram(raw, to=to, sport=40_000 + index, dport=45_000 + index % 50)
    for answer in (False, True):
        yield datagram(dns(answer=answer), dport=53)
        yield datagram(dns(answer=answer), to="224.0.0.251", sport=5353, dport=5353)
        yield datagram(dns(answer=answer), dport=45_678)


@needs_tshark
def test_datagrams_of_others_are_left_alone(tmp_path: Path) -> None:
    path = save(tmp_path / "t.pcap", list(odd_datagrams()))
    assert count(path) == 0


@needs_tshark
def test_streams_of_others_are_left_alone(tmp_path: Path) -> None:
    generator = random.Random(5)
    hello = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + generator.randbytes(194)
    packets: list[Packet] = []
    says = [
        hello,
        b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        struct.pack(">H", len(dns())) + dns(),
        *(len(raw).to_bytes(2, "little") + raw for raw in map(noise, [generator] * 200)),
        *(generator.randbytes(generator.randrange(1, 60)) for _ in range(200)),
    ]
    for index, raw in enumerate(says):
        packets += Talk(port=40_000 + index, asker_port=20_000 + index).raw(raw).packets
    assert count(save(tmp_path / "t.pcap", packets)) == 0


@needs_tshark
@pytest.mark.parametrize(
    "name", ["quic", "quic_by_udp", "quic_datagrams", "quic_streams", "tls", "mutual_tls"]
)
def test_ciphered_captures_are_left_alone(name: str) -> None:
    path = PCAPS / f"{name}.pcapng"
    assert count(path, "frame") > 10
    assert count(path) == 0


# What is recognised, in tshark ---------------------------------------------------------------------


@needs_tshark
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("handshake", "zenoh.open"),
        ("datagrams", "zenoh.open"),
        ("tcp6", "zenoh.put"),
        ("udp6", "zenoh.put"),
        ("multicast", "zenoh.put"),
        ("packed_multicast", "zenoh.join"),
        ("unicast_scouting", "zenoh.hello"),
        ("meeting", "zenoh.hello"),
        ("scouting", "zenoh.hello"),
        ("websocket", "zenoh.put"),
        ("older_1_0_4", "zenoh.put"),
    ],
)
def test_captures_of_real_nodes_are_recognised_on_any_port(name: str, what: str) -> None:
    path = PCAPS / f"{name}.pcapng"
    assert count(path, what) > 0


@needs_tshark
def test_claimed_conversation_is_followed_in_both_directions(tmp_path: Path) -> None:
    talk = Talk(port=40_001).open().frame(PUT).frame(PUT, back=True)
    path = talk.save(tmp_path / "t.pcap")
    assert fields(path, "zenoh.push.key_suffix") == [[""]] * 4 + [["demo/a"]] * 2


@needs_tshark
def test_capture_from_mid_session_is_recognised(tmp_path: Path) -> None:
    talk = Talk(port=40_001).batch(b"\x04").frame(PUT, sn=7000).batch(b"\x04").frame(PUT, back=True)
    path = talk.save(tmp_path / "t.pcap")
    assert [row[0] for row in fields(path, "frame.number")] == ["2", "3", "4"]


def in_segments(talk: Talk, raw: bytes, size: int, *, back: bool = False) -> None:
    for at in range(0, len(raw), size):
        talk.raw(raw[at : at + size], back=back)


@needs_tshark
@pytest.mark.parametrize("options", [[], ["-2"]])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 10])
def test_init_in_several_segments_is_recognised(size: int, options: list[str], tmp_path: Path) -> None:
    talk = Talk(port=40_001)
    in_segments(talk, b"\x07no\x01z", 1)  # which may be the length of something else
    in_segments(talk, prefixed(SYN), size)
    of_syn = len(talk.packets)
    in_segments(talk, prefixed(ACK), size, back=True)
    of_ack = len(talk.packets)
    talk.frame(PUT)
    path = talk.save(tmp_path / "t.pcap")
    assert fields(path, "frame.number", "zenoh.init.zid", "zenoh.push.key_suffix", options=options) == [
        [f"{of_syn}", ZIDS[0], ""],
        [f"{of_ack}", ZIDS[1], ""],
        [f"{of_ack + 1}", "", "demo/a"],
    ]


@needs_tshark
def test_beginnings_of_other_streams_are_forgotten(tmp_path: Path) -> None:
    raw, packets = prefixed(SYN), []
    for index in range(1_100):
        packets += Talk(port=40_001, asker_port=10_000 + index).raw(raw[:4]).packets
    first = Talk(port=40_001, asker_port=9_999).raw(raw[:4])
    packets = [*first.packets, *packets]
    last = Talk(port=40_001)
    in_segments(last, raw, 4)
    packets += [*last.packets, *first.raw(raw[4:]).packets[1:]]
    assert values(save(tmp_path / "t.pcap", packets), "tcp.srcport") == ["50000"], "not the first"


@needs_tshark
def test_udp_session_is_recognised_by_its_init(tmp_path: Path) -> None:
    back = {"sport": 50_001, "dport": 50_000, "source": ANSWERER, "to": ASKER}
    frame = Frame(R=0, sn=1, messages=[PUT])
    packets = [datagram(frame), datagram(SYN), datagram(ACK, **back), datagram(frame)]  # type: ignore[arg-type]
    path = save(tmp_path / "t.pcap", packets)
    assert [row[0] for row in fields(path, "frame.number")] == ["2", "3", "4"]


@needs_tshark
@pytest.mark.parametrize("sizes", [0, 1])
@pytest.mark.parametrize(
    ("port", "to", "name"),
    [(7447, ANSWERER, "init"), (9000, ANSWERER, "init"), (7446, ANSWERER, "scout"), (7447, GROUP, "scout")],
)
def test_init_whose_zid_reads_as_extensions_of_a_scout_is_one_where_nobody_scouts(
    port: int, to: str, name: str, sizes: int, tmp_path: Path
) -> None:
    zid = b"\xc1\x05\x01" if sizes else b"\xa1\x01"
    either = Init(S=sizes, version=9, whatami=2, zid=zid, extensions=[Patch(patch=1)])
    path = save(tmp_path / "t.pcap", [datagram(either, to=to, dport=port)])
    assert values(path, f"zenoh.{name}.version") == ["9"]
    heard = [one.message.name for one in listen(capture.read(path)) if isinstance(one, Heard)]
    assert heard == [name.upper()]


@needs_tshark
def test_hello_without_locators_is_recognised_behind_its_scout(tmp_path: Path) -> None:
    asked = datagram(SCOUT, to=GROUP, sport=40_000, dport=7446)
    hello = Hello(version=9, zid=ZIDS[1], whatami=0)
    answer = datagram(hello, source=ANSWERER, to=ASKER, sport=41_000, dport=40_000)
    path = save(tmp_path / "t.pcap", [answer.copy(), asked, answer])
    assert values(path, "frame.number", where="zenoh.hello") == ["3"]
    assert values(path, "frame.number", where="zenoh.hello", options=["-2"]) == ["3"]


@needs_tshark
def test_odd_scout_is_recognised_behind_a_hello_to_its_socket(tmp_path: Path) -> None:
    odd = datagram(b"\x41\x09\x06", to=GROUP, sport=40_000, dport=9000)
    answer = datagram(HELLO, source=ANSWERER, to=ASKER, sport=41_000, dport=40_000)
    path = save(tmp_path / "t.pcap", [odd.copy(), answer, odd])
    assert values(path, "frame.number", where="zenoh.scout") == ["3"]
    assert values(path, "frame.number", where="zenoh.scout", options=["-2"]) == ["3"]


@needs_tshark
def test_odd_scout_is_not_recognised_behind_what_is_refused(tmp_path: Path) -> None:
    refused = datagram(b"\x01\x09\x0f\x42\x43", to=GROUP, sport=40_000, dport=7446)
    odd = datagram(b"\x01\x09\x11", to=GROUP, sport=40_000, dport=9000)
    assert values(save(tmp_path / "t.pcap", [refused, odd]), "frame.number") == ["1"]


@needs_tshark
@pytest.mark.parametrize("asker", [0, 1])
@pytest.mark.parametrize("text", ["010911", "010900", "610901", "8109014e07756e6b6e6f776e"])
def test_odd_scout_is_recognised_behind_another_one_to_the_same_group(
    tmp_path: Path, asker: int, text: str
) -> None:
    odd = datagram(bytes.fromhex(text), to=GROUP, sport=40_000, dport=9000)
    other = datagram(SCOUT, to=GROUP, sport=40_000 + asker, dport=9000)
    path = save(tmp_path / "t.pcap", [odd.copy(), other, odd])
    assert values(path, "frame.number", where="zenoh.scout") == ["2", "3"]
    assert values(path, "frame.number", where="zenoh.scout", options=["-2"]) == ["2", "3"]


@needs_tshark
@pytest.mark.parametrize("port", [7447, 40_001])
def test_what_an_icmp_error_quotes_is_not_said_again(tmp_path: Path, port: int) -> None:
    said = [
        datagram(SYN, dport=port),
        datagram(ACK, sport=port, dport=50_000, source=ANSWERER, to=ASKER),
        datagram(Open(lease=10_000, initial_sn=7, cookie=b"cookie--"), dport=port),
        datagram(Open(A=1, lease=10_000, initial_sn=7), sport=port, dport=50_000, source=ANSWERER, to=ASKER),
        datagram(Frame(R=1, sn=7, messages=[PUT]), dport=port),
    ]
    errors = [Ether() / IP(src=ANSWERER, dst=ASKER) / ICMP(type=3, code=3) / one[IP] for one in said]
    path = save(tmp_path / "t.pcap", [packet for both in zip(said, errors, strict=True) for packet in both])
    assert values(path, "frame.number") == ["1", "3", "5", "7", "9"]
    assert count(path, "zenoh && _ws.expert") == 0


@needs_tshark
def test_recognising_can_be_switched_off(tmp_path: Path) -> None:
    path = Talk(port=40_001).open().save(tmp_path / "t.pcap")
    assert count(path, "zenoh", "-o", "zenoh.heuristics:FALSE") == 0
    assert count(path, "zenoh", "-o", "zenoh.heuristics:FALSE", "-o", "zenoh.tcp_ports:39990-40010") == 4


@needs_tshark
def test_ports_can_be_moved(tmp_path: Path) -> None:
    path = Talk().open().save(tmp_path / "t.pcap")
    off = ("-o", "zenoh.heuristics:FALSE")
    assert count(path, "zenoh", *off) == 4
    assert count(path, "zenoh", *off, "-o", "zenoh.tcp_ports:8000") == 0
    assert count(path, "zenoh", *off, "-o", "zenoh.tcp_ports:") == 0
    assert count(path, "zenoh", *off, "-o", "zenoh.tcp_ports:8000,7440-7450") == 4


@needs_tshark
def test_decode_as_has_the_last_word(tmp_path: Path) -> None:
    path = Talk(port=9000).open().save(tmp_path / "t.pcap")
    off = ("-o", "zenoh.heuristics:FALSE")
    assert count(path, "zenoh", *off, "-d", "tcp.port==9000,zenoh") == 4
    moved = ("-o", "zenoh.tcp_ports:7447,8000")
    path = Talk().open().save(tmp_path / "t.pcap")
    assert count(path, "zenoh", *off, "-d", "tcp.port==7447,data") == 0
    assert count(path, "zenoh", *off, *moved, "-d", "tcp.port==7447,data") == 0


@needs_tshark
def test_scouting_ports_can_be_moved(tmp_path: Path) -> None:
    path = save(tmp_path / "t.pcap", [datagram(Scout(version=9, what=7), dport=9000)])
    off = ("-o", "zenoh.heuristics:FALSE")
    assert count(path, "zenoh.scout", *off) == 0
    assert count(path, "zenoh.scout", *off, "-o", "zenoh.scouting_ports:7446,9000") == 1


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
UPGRADED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)


def websocket(message: Message, *, back: bool) -> bytes:
    """A message of WebSocket; those of the one who asked have a mask, here of zeros."""
    raw = bytes(message)
    assert len(raw) <= 125
    return bytes([0x82, len(raw) | (0 if back else 0x80)]) + (b"" if back else bytes(4)) + raw


@needs_tshark
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
def test_websocket_with_lost_segments_raises_no_alarm(
    tmp_path: Path, back: bool, lost: bool, passes: tuple[str, ...]
) -> None:
    """A number that was skipped is told, unless a part of the stream is missing that may have had it."""
    talk = Talk().syn().raw(UPGRADE).raw(UPGRADED, back=True)
    for message, answer in (
        (SYN, False),
        (ACK, True),
        (Open(lease=10_000, initial_sn=1, cookie=b"cookie--"), False),
        (Open(A=1, lease=10_000, initial_sn=1), True),
    ):
        talk.raw(websocket(message, back=answer), back=answer)
    first, skipped, *others = (
        websocket(Frame(R=1, sn=sn, messages=[push(f"key/{sn}", Put(data=b"12345678"))]), back=back)
        for sn in range(1, 6)
    )
    talk.raw(first, back=back)
    talk.next[back] += len(skipped) if lost else 0
    talk.raw(others[0] + others[1], back=back).raw(others[2], back=back)
    path = talk.save(tmp_path / "t.pcap")
    rows = fields(path, "zenoh.keyexpr", "zenoh.expert.gap", options=passes)
    gap = "" if lost else "1"
    assert rows[-3:] == [["key/1", ""], ["key/3|key/4", gap], ["key/5", ""]]
    assert not any(told for _, told in rows[:-3])


@needs_tshark
def test_websocket_on_a_named_port_needs_no_heuristic() -> None:
    path = PCAPS / "websocket.pcapng"
    [port, *_] = values(path, "tcp.dstport", where="http.request")
    off = ("-o", "zenoh.heuristics:FALSE")
    assert count(path, "zenoh.put", *off) == 0
    assert count(path, "zenoh.put", *off, "-o", f"zenoh.tcp_ports:{port}") > 0


# TLS, with the keys -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate, and is not installed")
    path = tmp_path_factory.mktemp("tls") / "node.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-subj", "/CN=node", "-days", "1", "-keyout", str(path), "-out", str(path) + ".crt"]
    subprocess.run(command, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


class Ciphered:
    """A TLS connection in memory, captured, with its keys in a file."""

    def __init__(self, talk: Talk, certificate: Path, keys: Path) -> None:
        self.talk = talk.syn()
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        client.keylog_filename = str(keys)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate)
        self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ends = (
            client.wrap_bio(self.out[1], self.out[0]),
            server.wrap_bio(self.out[0], self.out[1], server_side=True),
        )
        # Each end reads what the other has written; the bytes are looked at on their way.
        waiting = True
        while waiting:
            waiting = False
            for side, end in enumerate(self.ends):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    waiting = True
                self._carry(side)

    def _carry(self, side: int) -> None:
        data = self.out[side].read()
        if data:
            self.talk.raw(data, back=side == 1)
            self.out[side].write(data)

    def say(self, data: bytes, *, back: bool = False) -> None:
        """Sends application data, a record each."""
        side = int(back)
        self.ends[side].write(data)
        self._carry(side)
        self.ends[1 - side].read(65_536)


# What is wrong, and what is not ours ---------------------------------------------------------------


@needs_tshark
def test_problems_of_ours_are_found_beside_those_of_other_dissectors(tmp_path: Path) -> None:
    talk = Talk().syn().open()
    for sn in (1, 9, 10):
        talk.frame(PUT, sn=sn)
    closed = talk.packets[-1].copy()
    closed[TCP].window = 0  # *Zero window* is an expert info of TCP
    path = save(tmp_path / "t.pcap", [*talk.packets[:-1], closed])
    assert count(path, "zenoh && _ws.expert.severity >= 6291456") == 2
    assert values(path, "zenoh.problem") == ["gap"]
    assert values(path, "zenoh.problem", options=["-2"]) == ["gap"]
    assert count(path, "zenoh.problem") == count(path, "zenoh.expert.gap") == 1
    frames = [datagram(Frame(R=1, sn=sn, messages=[PUT])) for sn in (1, 9)]
    back = datagram(ACK, sport=50_001, dport=50_000, source=ANSWERER, to=ASKER)
    noted = save(tmp_path / "u.pcap", [datagram(SYN), back, *frames])
    assert (count(noted, "zenoh.expert.unordered"), count(noted, "zenoh.problem")) == (1, 0)


@needs_tshark
@pytest.mark.parametrize("late", [0, 4])
def test_tls_on_our_port_is_left_to_its_dissector(tmp_path: Path, certificate: Path, late: int) -> None:
    link = Ciphered(Talk(), certificate, tmp_path / "keys.log")
    for number in range(20):
        link.say(prefixed(Frame(R=1, sn=number, messages=[PUT])), back=number % 2 > 0)
    del link.talk.packets[: late + 2]
    path = link.talk.save(tmp_path / "t.pcap")
    assert count(path) == 0
    assert count(path, "tls") >= 20


@needs_tshark
@pytest.mark.parametrize("port", [7447, 40_001])
def test_batches_inside_tls_are_read_with_the_keys(tmp_path: Path, certificate: Path, port: int) -> None:
    keys = tmp_path / "keys.log"
    link = Ciphered(Talk(port=port), certificate, keys)
    link.say(prefixed(SYN))
    link.say(prefixed(ACK), back=True)
    link.say(prefixed(Open(lease=10_000, initial_sn=1, cookie=b"cookie--")))
    link.say(prefixed(Open(A=1, lease=10_000, initial_sn=1)), back=True)
    link.say(prefixed(Frame(R=1, sn=1, messages=[PUT])))
    path = link.talk.save(tmp_path / "t.pcap")
    assert count(path) == 0
    with_keys = ("-o", f"tls.keylog_file:{keys}")
    assert values(path, "zenoh.push.key_suffix", options=with_keys) == ["demo/a"]
    assert count(path, "zenoh.init && tls", *with_keys) == 2
    assert values(path, "zenoh.push.key_suffix", options=("-2", *with_keys)) == ["demo/a"]
    assert f"tls/{ANSWERER}:{port}" in tshark(path, *with_keys, "-q", "-z", "zenoh,sessions")


@needs_tshark
@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
def test_batch_behind_one_that_began_in_another_record_follows_it(
    tmp_path: Path, certificate: Path, passes: tuple[str, ...]
) -> None:
    keys = tmp_path / "keys.log"
    link = Ciphered(Talk(), certificate, keys)
    link.say(prefixed(SYN))
    link.say(prefixed(ACK), back=True)
    link.say(prefixed(Open(lease=10_000, initial_sn=1, cookie=b"cookie--")))
    link.say(prefixed(Open(A=1, lease=10_000, initial_sn=1)), back=True)
    first, other = (prefixed(Frame(R=1, sn=sn, messages=[PUT])) for sn in (1, 3))
    link.say(first[:10])
    link.say(first[10:] + other)
    path = link.talk.save(tmp_path / "t.pcap")
    options = ("-o", f"tls.keylog_file:{keys}", *passes)
    assert count(path, "zenoh.push", *options) == 1
    # Nothing is missing in front of the other one that could have had number 2.
    assert count(path, "zenoh.expert.gap", *options) == 1
