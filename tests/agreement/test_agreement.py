"""Scapy = tshark with zenoh.lua = columns, field for field: on all captures and on units of every kind.

More of it: ``python -m tests.agreement --examples 100000 --seed 7``.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from fuzz.readers import by_scapy, by_tshark
from fuzz.readers.carry import GROUP, HERE, Packets, carried, stored_or_packed
from fuzz.readers.compare import first_difference
from fuzz.readers.said import Entry, Reading
from fuzz.readers.together import Order, Read, read_capture, read_units
from fuzz.readers.units import Unit, UnitKind
from scapy_layers.codes import DEFAULT_PORT, SCOUTING_PORT
from scapy_layers.data import Put
from scapy_layers.extensions import Compression, First, LowLatency, Patch
from scapy_layers.message import Extension, Message
from scapy_layers.network import Push
from scapy_layers.transport import Close, Fragment, Init, Join, KeepAlive, Open
from scapy_layers.tshark import is_there
from tests.agreement import generate
from tests.agreement.joined import joined, lossy
from tests.robustness.tshark import capture_of
from tests.scapy_layers.lua.made import COOKIE, Datagrams, Talk, frame, lossy_datagrams, put, save

PCAPS = sorted((Path(__file__).parents[2] / "pcaps").glob("*.pcapng"))

SEED = 7

needs_tshark = pytest.mark.skipif(not is_there(), reason="tshark is not there")


def assert_agreement(read: Read) -> None:
    difference = first_difference(read.units, read.readings)
    assert difference is None, f"\n{difference}"


# Agreement ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PCAPS, ids=lambda path: path.stem)
def test_capture_of_real_nodes_is_read_alike(path: Path) -> None:
    assert_agreement(read_capture(path))


def test_valid_units_of_every_kind_are_read_alike() -> None:
    units = [*generate.valid(10, SEED), *generate.batches(100, SEED)]
    assert {unit.kind for unit in units} == {UnitKind.BATCH, UnitKind.SCOUTING, UnitKind.NETWORK}
    assert_agreement(read_units(units))


def test_units_with_one_lie_are_read_alike() -> None:
    assert_agreement(read_units(list(generate.wrong(14, SEED))))


def test_truncated_units_are_read_alike() -> None:
    assert_agreement(read_units(list(generate.cut(3, SEED))))


def test_mutated_units_are_read_alike() -> None:
    assert_agreement(read_units(list(generate.mutated(2_500, SEED))))


@needs_tshark
@pytest.mark.parametrize("session", ["low_latency", "compression"])
def test_units_in_another_kind_of_session_are_read_alike(session: str) -> None:
    assert_agreement(read_units(_batches(), **{session: True}))


@pytest.mark.parametrize("packets", [3, 7, 9, 20])
@pytest.mark.parametrize(
    "name", ["compression", "declarations", "fragments", "lowlatency", "query", "liveliness"]
)
def test_capture_that_begins_in_mid_session_is_read_alike(name: str, packets: int, tmp_path: Path) -> None:
    path = tmp_path / f"{name}_{packets}.pcapng"
    path.write_bytes(joined(PCAPS[0].parent / f"{name}.pcapng", packets))
    read = read_capture(path)
    assert sum(unit.kind is UnitKind.BATCH for unit in read.units) > 10
    assert_agreement(read)


@pytest.mark.parametrize("size", [536, 1460])
@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("name", ["declarations", "fragments", "oversized", "query"])
def test_capture_with_lost_segments_is_read_alike(name: str, seed: int, size: int, tmp_path: Path) -> None:
    path = tmp_path / f"{name}_{size}_{seed}.pcap"
    whole = joined(PCAPS[0].parent / f"{name}.pcapng", 0)
    path.write_bytes(lossy(whole, size, 0.03, seed))
    read = read_capture(path)
    assert sum(unit.kind is UnitKind.BATCH for unit in read.units) > 10
    assert_agreement(read)


@pytest.mark.parametrize("patch", [0, 1])
@pytest.mark.parametrize("vain", [0, 1])
def test_datagrams_with_fragments_that_are_lost_are_read_alike(patch: int, vain: int, tmp_path: Path) -> None:
    read = read_capture(save(tmp_path / "made.pcap", *lossy_datagrams(patch, vain)))
    assert sum(unit.kind is UnitKind.NETWORK for unit in read.units) > 10
    assert_agreement(read)


def test_datagrams_in_low_latency_without_their_handshake_are_read_alike(tmp_path: Path) -> None:
    talk = Datagrams()
    talk.say(put("a"))
    talk.answer(put("b"))
    read = read_capture(save(tmp_path / "made.pcap", talk))
    assert [unit.packet for unit in read.units] == [1, 2]
    assert_agreement(read)


@needs_tshark
def test_low_latency_with_something_else_in_place_of_an_answer_is_read_alike(tmp_path: Path) -> None:
    talk, offer = Talk(), [LowLatency()]
    talk.say(Init(whatami=2, zid=b"\x01", extensions=offer))
    talk.answer(Init(A=1, zid=b"\x02", cookie=COOKIE, extensions=offer))
    talk.say(Open(initial_sn=10, cookie=COOKIE))
    talk.answer(Fragment(sn=1, data=b"text"))
    talk.prefix = 4
    talk.say(put("a"))
    talk.raw(b"\x02\0\x03\0", back=True)  # as real nodes leave
    read = read_capture(save(tmp_path / "made.pcap", talk), order=Order.LATER)
    assert [unit.packet for unit in read.units] == [3, 4, 5, 6, 7, 8]
    assert_agreement(read)


def in_progress(offer: Extension) -> Talk:
    talk = Talk()
    talk.handshake(offer)
    talk.packets.clear()
    return talk


def long_put(size: int) -> Push:
    """A PUSH of so many bytes, which are more than a few hundred."""
    made = Push(key_suffix="a/key", body=Put(data=b"0" * size))
    return Push(key_suffix="a/key", body=Put(data=b"0" * (2 * size - len(bytes(made)))))


@needs_tshark
@pytest.mark.parametrize("size", [66_000, 140_000])
def test_low_latency_in_progress_may_begin_with_a_long_message(size: int, tmp_path: Path) -> None:
    talk = in_progress(LowLatency())
    raw = bytes(long_put(size))
    stream = len(raw).to_bytes(4, "little") + raw
    for at in range(0, len(stream), 40_000):
        talk.raw(stream[at : at + 40_000])
    talk.say(put("a/key"))
    read = read_capture(save(tmp_path / "made.pcap", talk), order=Order.LATER)
    assert [len(unit.data) for unit in read.units] == [size, len(bytes(put("a/key")))]
    assert_agreement(read)


@needs_tshark
def test_low_latency_in_progress_may_begin_with_lengths_that_look_like_tls(tmp_path: Path) -> None:
    talk = in_progress(LowLatency())
    for _ in range(5):
        talk.say(long_put(0x0316))
    assert talk.packets[0][54:57] == b"\x16\x03\0"
    read = read_capture(save(tmp_path / "made.pcap", talk), order=Order.LATER)
    assert len(read.units) == 5
    assert_agreement(read)


@needs_tshark
def test_compressed_session_in_progress_may_begin_with_what_looks_like_tls(tmp_path: Path) -> None:
    talk = in_progress(Compression())
    for number in range(5):
        raw = stored_or_packed(bytes(frame(number, long_put(782))))
        talk.raw(len(raw).to_bytes(2, "little") + raw)
    assert talk.packets[0][54:57] == b"\x16\x03\x01"
    read = read_capture(save(tmp_path / "made.pcap", talk), order=Order.LATER)
    assert len(read.units) == 5
    assert_agreement(read)


@needs_tshark
@pytest.mark.parametrize("port", [SCOUTING_PORT, DEFAULT_PORT, 9000])
def test_group_with_compression_is_read_alike_on_any_port(port: int, tmp_path: Path) -> None:
    packets = Packets()
    said: list[Message] = [Join(zid=b"\x01" * 4), frame(0, put("a/b")), frame(1, put("a/key")), KeepAlive()]
    for message in said:
        for raw in (stored_or_packed(bytes(message)), b"\0" + bytes(message)):
            packets.udp(raw, (40_000, port), (HERE, GROUP))
    path = tmp_path / "made.pcap"
    path.write_bytes(packets.file())
    read = read_capture(path)
    assert [unit.kind for unit in read.units] == [UnitKind.BATCH] * 8
    assert_agreement(read)


def test_session_behind_an_init_whose_length_is_damaged_is_read_alike(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    talk.say(frame(10, put("a/key")))
    syn = bytearray(talk.packets[2])
    syn[55] ^= 0x40  # of 16 KiB more
    talk.packets[2] = bytes(syn)
    read = read_capture(save(tmp_path / "made.pcap", talk), order=Order.LATER)
    assert [unit.packet for unit in read.units] == [4, 5, 6, 7]
    assert_agreement(read)


def test_node_that_takes_the_socket_of_another_in_a_group_with_compression_is_read_alike(
    tmp_path: Path,
) -> None:
    packets = Packets()
    for zid in (b"\x01" * 4, b"\x02" * 4):
        for message in (Join(zid=zid), frame(0, put("a/b")), frame(1, put("a/key"))):
            packets.udp(stored_or_packed(bytes(message)), (40_000, 9000), (HERE, GROUP))
    path = tmp_path / "made.pcap"
    path.write_bytes(packets.file())
    read = read_capture(path)
    assert [said.name for one in read.readings["scapy"] for said in one.messages].count("put") == 4
    assert_agreement(read)


@needs_tshark
@pytest.mark.parametrize("packed", [False, True])
def test_unusual_join_is_believed_behind_another_one_in_its_group(packed: bool, tmp_path: Path) -> None:
    packets = Packets()
    odd = (
        bytes(Join(zid=b"\x02" * 4, extensions=[Patch(patch=1)]))[:-2] + b"\x26\x01"
    )  # an extension nobody knows
    for port, raw in ((40_000, bytes(Join(zid=b"\x01" * 4))), (40_001, odd)):
        packets.udp(stored_or_packed(raw) if packed else raw, (port, 9000), (HERE, GROUP))
    path = tmp_path / "made.pcap"
    path.write_bytes(packets.file())
    read = read_capture(path)
    assert [unit.packet for unit in read.units] == [1, 2]
    assert_agreement(read)


@needs_tshark
def test_close_that_is_all_that_was_captured_of_one_end_in_low_latency_is_read_alike(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake(LowLatency())
    del talk.packets[1:]
    for number in range(4):
        talk.say(put(f"a/key/that/tells/more/{number}"))
    talk.say(Close(S=0, reason=0))
    talk.raw(b"\x02\0\x03\0", back=True)  # as real nodes leave
    read = read_capture(save(tmp_path / "made.pcap", talk), order=Order.LATER)
    assert [unit.packet for unit in read.units] == [2, 3, 4, 5, 6, 7]
    assert_agreement(read)


@needs_tshark
def test_low_latency_whose_handshake_the_capture_has_cut_off_is_read_alike(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake(LowLatency())
    talk.packets[2:6] = [raw[:-3] for raw in talk.packets[2:6]]
    for number in range(4):
        talk.say(put(f"a/key/that/tells/more/{number}"))
        talk.answer(put(f"and/its/answer/{number}"))
    read = read_capture(save(tmp_path / "made.pcap", talk), order=Order.LATER)
    assert [unit.packet for unit in read.units] == [*range(7, 15)]
    assert_agreement(read)


def test_compression_behind_an_open_that_cannot_be_read_is_read_alike(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake(Compression())
    talk.packets[4] = talk.packets[4].replace(bytes([len(COOKIE)]) + COOKIE, b"\xff" + COOKIE)
    talk.say(frame(10, put("a")))
    talk.answer(frame(20, put("b")))
    read = read_capture(save(tmp_path / "made.pcap", talk))
    assert [unit.data[0] for unit in read.units[-2:]] == [0x25, 0x25]
    assert_agreement(read)


@needs_tshark
def test_datagram_in_which_something_is_refused_offers_nothing(tmp_path: Path) -> None:
    talk = Datagrams()
    talk.say(Init(S=1, whatami=2, zid=b"\x01", fsn=0), b"\x1f")
    talk.answer(Init(S=1, A=1, zid=b"\x02", fsn=2, cookie=COOKIE, extensions=[Patch(patch=1)]))
    talk.say(Open(initial_sn=100_000, cookie=COOKIE))
    talk.answer(Open(A=1, initial_sn=1))
    talk.say(Fragment(M=1, sn=100_000, extensions=[First()], data=bytes(put("a"))[:3]))
    talk.say(Fragment(sn=100_001, data=bytes(put("a"))[3:]))
    read = read_capture(save(tmp_path / "made.pcap", talk))
    assert [unit.kind for unit in read.units[-2:]] == [UnitKind.BATCH, UnitKind.NETWORK]
    assert_agreement(read)


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_captures_are_read_alike_by_layers_and_columns(seed: int, tmp_path: Path) -> None:
    # Where a stream goes on behind damage tshark cannot be told: Wireshark cuts it.
    path = tmp_path / f"mutated_{seed}.pcap"
    path.write_bytes(capture_of(1_000, seed).file())
    assert_agreement(read_capture(path, tshark=False))


@cache
def _batches() -> list[Unit]:
    some = chain(generate.valid(2, SEED + 1), generate.wrong(2, SEED + 1), generate.mutated(400, SEED + 1))
    return [unit for unit in some if unit.kind is UnitKind.BATCH]


# The comparison itself ----------------------------------------------------------------------------

PUT = bytes.fromhex("25053d05026b79010474657874")
"""A FRAME with a PUSH of a PUT: scope 5, suffix ``ky``, data ``text``."""


def planted(reading: Reading, message: int, change: Entry) -> Reading:
    """Gives a field of a message another value."""
    messages = list(reading.messages)
    entries = [change if entry[:2] == change[:2] else entry for entry in messages[message].entries]
    messages[message] = replace(messages[message], entries=tuple(entries))
    return replace(reading, messages=tuple(messages))


def test_planted_difference_is_named_with_all_it_takes_to_see_it_again() -> None:
    units = [
        Unit(UnitKind.BATCH, bytes.fromhex("04")),
        Unit(UnitKind.BATCH, PUT, packet=12, about="planted"),
    ]
    right = [by_scapy.reading(unit) for unit in units]
    wrong = [right[0], planted(right[1], 1, Entry("push", "key_scope", 6))]

    difference = first_difference(units, {"scapy": right, "tshark": wrong, "columns": right})

    assert difference is not None
    assert (difference.number, difference.at, difference.message) == (1, 2, "push")
    assert difference.values == {"scapy": "5", "tshark": "6", "columns": "5"}
    assert str(difference).splitlines() == [
        "planted, packet 12, unit 1: push at byte 2, zenoh.push.key_scope",
        "  scapy    5",
        "  tshark   6",
        "  columns  5",
        f"  bytes    batch:{PUT.hex()}",
    ]


@pytest.mark.parametrize("reader", ["tshark", "columns"])
@pytest.mark.parametrize(
    ("raw", "spoil", "field"),
    [
        (PUT, lambda one: replace(one, messages=one.messages[:-1]), "within"),
        (PUT[:-1], lambda one: replace(one, refusal=None), "kind"),
        (PUT[:-1], lambda one: replace(one, refusal=one.refusal._replace(offset=9)), "kind"),
        (PUT[:-1], lambda one: replace(one, refusal=one.refusal._replace(field="PUT.data")), "field"),
        (PUT, lambda one: planted(one, 2, Entry("put", "data", b"tex")), "zenoh.put.data"),
        (PUT, lambda one: planted(one, 2, Entry("put", "data", "text")), "zenoh.put.data"),
    ],
    ids=["a message less", "not refused", "elsewhere", "another field", "other bytes", "text for bytes"],
)
def test_any_planted_difference_is_found(
    reader: str, raw: bytes, spoil: Callable[[Reading], Reading], field: str
) -> None:
    unit = Unit(UnitKind.BATCH, raw)
    right = by_scapy.reading(unit)

    difference = first_difference([unit], {"scapy": [right], reader: [spoil(right)]})

    assert difference is not None
    assert difference.field == field
    assert difference.values["scapy"] != difference.values[reader]


SHOWN = """<?xml version="1.0"?>
<pdml><packet>
  <proto name="geninfo"><field name="num" pos="0" show="3" size="0"/></proto>
  <proto name="zenoh" pos="54" size="15">
    <field name="zenoh.batch" pos="54" size="15" show="" value="">
      <field name="zenoh.batch.length" pos="54" size="2" show="13" value="0d00"/>
      <field name="zenoh.frame" pos="56" size="13" show="" value="">
        <field name="zenoh.frame.Z" pos="56" size="1" show="0" value="0" unmaskedvalue="25"/>
        <field name="zenoh.frame.R" pos="56" size="1" show="1" value="1" unmaskedvalue="25"/>
        <field name="zenoh.frame.sn" pos="57" size="1" show="5" value="05"/>
        <field name="zenoh.push" pos="58" size="11" show="" value="">
          <field name="zenoh.push.Z" pos="58" size="1" show="0" value="0" unmaskedvalue="3d"/>
          <field name="zenoh.push.M" pos="58" size="1" show="0" value="0" unmaskedvalue="3d"/>
          <field name="zenoh.push.N" pos="58" size="1" show="1" value="1" unmaskedvalue="3d"/>
          <field name="zenoh.push.key_scope" pos="59" size="1" show="5" value="05"/>
          <field name="zenoh.push.key_suffix" pos="61" size="2" show="ky" value="6b79"/>
          <field name="zenoh.put" pos="63" size="6" show="" value="">
            <field name="zenoh.put.Z" pos="63" size="1" show="0" value="0" unmaskedvalue="01"/>
            <field name="zenoh.put.E" pos="63" size="1" show="0" value="0" unmaskedvalue="01"/>
            <field name="zenoh.put.T" pos="63" size="1" show="0" value="0" unmaskedvalue="01"/>
            <field name="zenoh.put.data" pos="65" size="4" show="74:65:78:74" value="74657874"/>
          </field>
        </field>
      </field>
    </field>
  </proto>
</packet></pdml>"""
"""``PUT`` as tshark shows it."""


def shown_difference(old: str = "", new: str = "") -> str:
    """Compares ``SHOWN`` with something replaced; empty when it is right."""
    assert old in SHOWN
    (shown,) = by_tshark.units_in(io.BytesIO(SHOWN.replace(old, new).encode()))
    unit = Unit(UnitKind.BATCH, PUT, packet=shown.packet)
    difference = first_difference([unit], {"scapy": [by_scapy.reading(unit)], "tshark": [shown.reading]})
    return "" if difference is None else f"{difference.field}: {difference.values['tshark']}"


def test_what_tshark_shows_is_read_back() -> None:
    assert shown_difference() == ""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('show="5" value="05"/>\n          <', 'show="6" value="05"/>\n          <', "zenoh.push.key_scope: 6"),
        ('pos="59" size="1" show="5" value="05"', 'pos="59" size="1" show="5" value="06"', "key_scope: 5, highlighted 06"),
        ('pos="65" size="4"', 'pos="66" size="4"', "zenoh.put.data: b'text', highlighted at 10, 4 bytes, outside of its message"),
        ('pos="61" size="2"', 'pos="58" size="2"', "highlighted at 2, which belongs to the field in front of it"),
        ('show="74:65:78:74"', 'show="74:65:78"', "zenoh.put.data: b'text', shown as 74:65:78"),
        ('name="zenoh.put" pos="63" size="6"', 'name="zenoh.put" pos="63" size="5"', "length: 5"),
        ('name="zenoh.put.T"', 'name="zenoh.put.S"', "zenoh.put.T: "),
        ('<proto name="zenoh"', '<field showname="Lua Error: x"/><proto name="zenoh"', "script: Lua Error: x"),
    ],
)  # fmt: skip
def test_wrong_highlight_or_value_of_tshark_is_found(old: str, new: str, found: str) -> None:
    assert found in shown_difference(old, new)


@needs_tshark
def test_key_that_reads_like_an_error_of_a_script_is_none() -> None:
    suffix = b"Lua Error: x"
    push = bytes([0x25, 0x00, 0x3D, 0x00, len(suffix)]) + suffix + bytes([0x01, 0x01, 0x78])
    assert_agreement(read_units([Unit(UnitKind.BATCH, push)]))


def test_units_travel_in_a_capture_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "units.pcap"
    batches = _batches()
    for session in ({}, {"low_latency": True}, {"compression": True}):
        capture, placed = carried(batches, **session)
        path.write_bytes(capture)
        heard = {unit.packet: unit.data for unit in by_scapy.units_of(path) if unit.kind is UnitKind.BATCH}
        assert [heard[unit.packet] for unit in placed] == [unit.data for unit in batches], session
