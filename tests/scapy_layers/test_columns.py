"""Columns: every message kind, right and wrong, says the same as Scapy layers that are read strictly."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_layers.catalogue import shapes
from scapy_layers.codes import DataId, Kind
from scapy_layers.derive.columns import MOST_BYTES, PLACE, CrowdedError, Decoder, UnitKind, Units, schemas
from scapy_layers.derive.strategies import batches, messages, nearly_valid
from scapy_layers.links import Batch as LinkBatch
from scapy_layers.links import Datagram
from scapy_layers.message import Message
from scapy_layers.primitives import write_vle
from scapy_layers.stream import units_of
from tests.scapy_layers.column_rows import DECODER, Unit, assert_same, units_from
from tests.scapy_layers.test_golden import EVERYWHERE
from tests.scapy_layers.test_strictness import REFUSED, REFUSED_BY_SCOUTING, TAKEN, TAKEN_BY_SCOUTING

PCAPS = Path(__file__).parents[2] / "pcaps"
PUT = bytes.fromhex("3d 00 01 61 01 01 62")
"""PUSH of key a, PUT of b."""

SOME = settings(max_examples=30)


def batch(*parts: bytes) -> Unit:
    return b"".join(parts), UnitKind.BATCH


def scouting(raw: bytes) -> Unit:
    return raw, UnitKind.SCOUTING


def network(raw: bytes) -> Unit:
    return raw, UnitKind.NETWORK


def on_its_own(message: Message) -> Unit:
    """The shortest unit with a message in it."""
    raw = bytes(message)
    match message.kind:
        case Kind.SCOUTING:
            return scouting(raw)
        case Kind.DECLARATION:
            return batch(b"\x1e", raw)
        case Kind.DATA:
            outer = {DataId.QUERY: "1c0100", DataId.REPLY: "1b0100", DataId.ERR: "1b0100"}
            return batch(bytes.fromhex(outer.get(DataId(message.id), "1d00")), raw)
        case _:
            return batch(raw)


def cuts(units: Sequence[Unit]) -> list[Unit]:
    """Each unit, cut at every byte."""
    return [(raw[:size], kind) for raw, kind in units for size in range(len(raw) + 1)]


def mutations(raw: bytes, random: Random) -> list[bytes]:
    """Bytes with each one changed: a bit, or altogether."""
    return [
        raw[:at] + bytes([byte]) + raw[at + 1 :]
        for at in range(len(raw))
        for byte in (raw[at] ^ 1 << random.randrange(8), random.randrange(256))
    ]


# The same as Scapy layers -----------------------------------------------------------------------------


def test_golden_messages_whole_and_cut_say_the_same() -> None:
    units = dict.fromkeys(on_its_own(message) for message in EVERYWHERE)
    assert_same(cuts(list(units)))


def test_golden_messages_with_a_byte_changed_say_the_same() -> None:
    random = Random(4)
    units = dict.fromkeys(on_its_own(message) for message in EVERYWHERE)
    assert_same([(raw, kind) for whole, kind in units for raw in mutations(whole, random)[::4]])


def test_what_strict_decoding_takes_and_refuses_is_the_same() -> None:
    digits = [*(row for rows in TAKEN.values() for row in rows), *(row[0] for row in REFUSED)]
    scouted = [*TAKEN_BY_SCOUTING, *(row[0] for row in REFUSED_BY_SCOUTING)]
    units = [batch(bytes.fromhex(row)) for row in digits] + [scouting(bytes.fromhex(row)) for row in scouted]
    assert_same([*units, *(batch(b"\x25\x01", raw) for raw, _ in units), *(network(raw) for raw, _ in units)])


@pytest.mark.parametrize("part", range(4))
def test_captures_of_real_nodes_say_the_same(part: int) -> None:
    units: dict[Unit, None] = {}
    for path in sorted(PCAPS.glob("*.pcapng"))[part::4]:
        for unit in units_of(path):
            match unit:
                case LinkBatch():
                    units[batch(unit.data)] = None
                case Datagram():
                    scouted = 7446 in {unit.way.source.port, unit.way.target.port}
                    units[scouting(unit.data) if scouted else batch(unit.data)] = None
    assert len(units) > 100
    assert_same([unit for unit in units if len(unit[0]) < 5_000])


@SOME
@given(st.lists(batches().map(bytes), min_size=1, max_size=3))
def test_valid_batches_say_the_same(raws: list[bytes]) -> None:
    assert_same([batch(raw) for raw in raws], between=b"\xff")


@SOME
@given(st.lists(messages(Kind.NETWORK).map(bytes), min_size=1, max_size=3))
def test_valid_network_messages_say_the_same(raws: list[bytes]) -> None:
    assert_same([make(raw) for raw in raws for make in (batch, network)], between=b"\x01")


@SOME
@given(st.lists(messages(Kind.SCOUTING).map(bytes), min_size=1, max_size=3))
def test_valid_scouting_says_the_same(raws: list[bytes]) -> None:
    assert_same([scouting(raw + behind) for raw in raws for behind in (b"", b"\x00")])


@settings(max_examples=60)
@given(st.lists(nearly_valid(Kind.NETWORK) | nearly_valid(Kind.TRANSPORT), min_size=1, max_size=3))
def test_messages_with_one_lie_say_the_same(raws: list[bytes]) -> None:
    assert_same(
        [unit for raw in raws for unit in (batch(raw), batch(b"\x25\x01", PUT, raw, PUT), network(raw))]
    )


@SOME
@given(st.lists(nearly_valid(Kind.SCOUTING), min_size=1, max_size=3))
def test_scouting_with_one_lie_says_the_same(raws: list[bytes]) -> None:
    assert_same([scouting(raw) for raw in raws])


@settings(max_examples=8)
@given(batches().map(bytes), st.randoms(use_true_random=False))
def test_batches_cut_and_changed_anywhere_say_the_same(raw: bytes, random: Random) -> None:
    assert_same([*cuts([batch(raw)]), *(batch(changed) for changed in mutations(raw, random)[:100])])


@SOME
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20), st.sampled_from(UnitKind))
def test_any_bytes_say_the_same(raws: list[bytes], kind: UnitKind) -> None:
    assert_same([(raw, kind) for raw in raws])


# One rule at a time -----------------------------------------------------------------------------------


def test_a_put_has_its_values_in_three_tables() -> None:
    raw = bytes.fromhex(
        "a5 ac02 31 05 bd 02 04 642f6162 21 0d 61 b9e0 808080808080 40 02 0a00 09 01 73 02 6869"
    )
    decoded = DECODER.decode(units_from([batch(raw), batch(raw)]))
    frame, push, put = (decoded.tables[name].to_pylist()[1] for name in ("frame", "push", "put"))
    assert decoded.errors.num_rows == 0
    assert (frame["unit"], frame["offset"], frame["length"], frame["within"]) == (1, 0, len(raw), None)
    assert (push["unit"], push["offset"], push["length"], push["within"]) == (1, 5, len(raw) - 5, 0)
    assert (put["unit"], put["offset"], put["length"], put["within"]) == (1, 14, len(raw) - 14, 5)
    assert (frame["R"], frame["sn"], frame["qos"]["priority"]) == (1, 300, 5)
    assert (push["key_scope"], push["key_suffix"], push["qos"]["D"], push["timestamp"]) == (
        2,
        "d/ab",
        1,
        None,
    )
    assert (put["timestamp"], put["timestamp_id"]) == (0x40 << 56 | 0x3039, "a")
    assert (put["encoding"], put["S"], put["schema"], put["data"], put["slices"]) == (4, 1, b"s", b"hi", None)


def test_integers_of_every_width_stand_in_one_column() -> None:
    values = [0, 1, 127, 128, 300, *((1 << 7 * size) + size for size in range(1, 10)), (1 << 64) - 1]
    forms = [
        (value, write_vle(value, width)) for value in values for width in range(len(write_vle(value)), 10)
    ]
    decoded = DECODER.decode(units_from([batch(b"\x25", form) for _, form in forms]))
    assert decoded.tables["frame"].column("sn").to_pylist() == [value for value, _ in forms]


def test_a_refused_message_ends_its_unit_and_no_other() -> None:
    refused = bytes.fromhex("25 02 3d 00 01 61 03")
    units = [batch(b"\x25\x01", PUT, b"\x04", refused, PUT), batch(b"\x25\x03", PUT)]
    decoded = DECODER.decode(units_from(units))
    assert [row["sn"] for row in decoded.tables["frame"].to_pylist()] == [1, 2, 3]
    assert decoded.tables["frame"].column("length").to_pylist() == [9, 2, 9]
    assert decoded.tables["push"].column("unit").to_pylist() == [0, 1]
    assert decoded.tables["put"].column("unit").to_pylist() == [0, 1]
    assert decoded.errors.to_pylist() == [
        {
            "unit": 0,
            "offset": 16,
            "field": "FRAME.messages.PUSH.body",
            "kind": "UnknownMessage",
            "found": "id 0x03 may not stand here",
            "rest": refused[2:] + PUT,
        }
    ]


def test_the_first_error_in_order_decides() -> None:
    # The scope needs 17 bits, the suffix is no UTF-8, the body is cut: all three are wrong.
    assert_same([batch(bytes.fromhex("25 01 3d 808004 01 ff 01 05 61"))] * 3)
    decoded = DECODER.decode(units_from([batch(bytes.fromhex("25 01 3d 808004 01 ff 01 05 61"))]))
    (error,) = decoded.errors.to_pylist()
    assert (error["kind"], error["offset"], error["field"]) == (
        "Overlong",
        3,
        "FRAME.messages.PUSH.key_scope",
    )


def test_messages_in_several_frames_stand_in_order() -> None:
    frames = [b"\x25" + bytes([sn]) + PUT * many for sn, many in ((1, 3), (2, 0), (3, 1))]
    units = [batch(*frames, b"\x04"), batch(PUT, frames[0]), batch(b"\x04", *frames[::-1])] * 4
    assert_same(units)
    decoded = DECODER.decode(units_from(units))
    for table in decoded.tables.values():
        places = list(zip(table.column("unit").to_pylist(), table.column("offset").to_pylist(), strict=True))
        assert places == sorted(places)


def test_unknown_repeated_and_unreadable_extensions_are_kept_as_they_came() -> None:
    first, again, unknown, counted = "a10d", "a10e", "af8101", "cf02abcd"
    push = bytes.fromhex(f"9d 00 {first} {again} {unknown} {counted} 0e 01 00")
    shm = bytes.fromhex("81 09 02 07 42 02 ffff")  # INIT: the body of Shm is no number
    assert_same([batch(push), batch(shm)] * 10)
    decoded = DECODER.decode(units_from([batch(push), batch(shm)] * 10))
    row = decoded.tables["push"].to_pylist()[9]
    assert row["qos"]["priority"] == 5
    assert row["other_extensions"] == [
        {"header": 0x21, "body": b"\x0e"},
        {"header": 0x2F, "body": b"\x81\x01"},
        {"header": 0x4F, "body": b"\xab\xcd"},
        {"header": 0x0E, "body": b""},
    ]
    row = decoded.tables["init"].to_pylist()[9]
    assert (row["shm"], row["other_extensions"]) == (None, [{"header": 0x42, "body": b"\xff\xff"}])


@pytest.mark.parametrize("count", [31, 32, 33, 40])
def test_long_lists_and_chains_say_the_same(count: int) -> None:
    hello = bytes.fromhex("22 09 00 01") + bytes([count]) + b"\x03a/b" * count
    chain = b"\x84" + b"\x81" * (count - 1) + b"\x02"
    assert_same([scouting(hello), batch(chain), batch(chain, b"\x04")] * 3)


def test_hostile_counts_are_refused() -> None:
    huge = "ffffffffffffffffff"
    digits = [
        f"25013d{huge}",
        f"25013d00{huge}",
        f"25013d000161 01{huge}",
        f"5f 01 {huge}",
        f"5f 01 8180 04 {huge} 00",
    ]
    hello = bytes.fromhex(f"22 09 00 01 {huge}") + b"\x01/" * 50
    assert_same([*(batch(bytes.fromhex(row)) for row in digits), scouting(hello)] * 4)


def test_zids_of_every_size_have_their_text() -> None:
    zids = [bytes(size) + b"\x01" for size in range(16)] + [b"\x10" + bytes(size) for size in range(16)]
    hellos = [bytes([0x02, 0x09, (len(zid) - 1) << 4]) + zid for zid in zids]
    assert_same([scouting(hello) for hello in hellos] + [scouting(b"\x02\x09\xf0" + bytes(16))])


def test_text_beyond_ascii_is_kept_and_no_utf_8_refused() -> None:
    suffixes = [
        b"a",
        "日本/é".encode(),
        b"",
        b"\xff",
        b"a\xed\xa0\x80",
        "🙂".encode(),
        b"\xc0\x80",
        b"\xe6\x97",
    ]
    pushes = [b"\x3d\x00" + bytes([len(one)]) + one + b"\x01\x01b" for one in suffixes]
    assert_same([batch(b"\x25\x01", push) for push in pushes] * 4)


def test_units_without_bytes_have_no_rows() -> None:
    units = [batch(b""), scouting(b""), network(b"")]
    assert_same(units)
    decoded = DECODER.decode(units_from(units))
    assert not decoded.tables
    assert [(row["unit"], row["kind"]) for row in decoded.errors.to_pylist()] == [
        (1, "Truncated"),
        (2, "Truncated"),
    ]
    assert DECODER.decode(units_from([])).errors.num_rows == 0


def test_too_many_messages_are_told_with_into_how_many_parts_to_cut() -> None:
    units = [batch(b"\x04" * 50) for _ in range(40)]
    with pytest.raises(CrowdedError) as raised:
        DECODER.decode(units_from(units), most=500)
    assert raised.value.parts == 4
    assert DECODER.decode(units_from(units), most=2_000).tables["keep_alive"].num_rows == 2_000
    with pytest.raises(CrowdedError) as raised:
        DECODER.decode(units_from([batch(b"\x04")] * 40), most=10)
    assert raised.value.parts == 4


# What stands around -----------------------------------------------------------------------------------


def test_every_schema_can_be_written_as_parquet() -> None:
    for name, schema in schemas(shapes()).items():
        file = BytesIO()
        pq.write_table(schema.empty_table(), file)
        assert pq.read_table(file).schema.names == schema.names, name
        assert list(schema)[: len(PLACE)] == list(PLACE)


def test_tables_and_columns_can_be_chosen() -> None:
    wanted = Decoder(shapes(), {"put": ["data"], "close": None})
    decoded = wanted.decode(
        units_from([batch(b"\x25\x01", PUT), batch(b"\x03\x00"), batch(b"\x25\x01\x1d")] * 10)
    )
    assert list(decoded.tables) == ["put", "close"]
    assert decoded.tables["put"].schema.names == ["unit", "offset", "length", "within", "data"]
    assert decoded.tables["put"].column("data").to_pylist() == [b"b"] * 10
    assert decoded.errors.num_rows == 10


@pytest.mark.parametrize("wanted", [{"puts": None}, {"put": ["payload"]}])
def test_choosing_what_does_not_exist_says_what_does(wanted: dict[str, list[str] | None]) -> None:
    with pytest.raises(KeyError, match=r"there are .*(put|data)"):
        Decoder(shapes(), wanted)


def test_a_decoder_can_be_pickled() -> None:
    decoder = pickle.loads(pickle.dumps(Decoder(shapes(), {"put": ["data"]})))
    assert decoder.decode(units_from([batch(PUT)])).tables["put"].column("data").to_pylist() == [b"b"]


def test_a_buffer_that_arrow_cannot_count_is_bad_use() -> None:
    data = np.broadcast_to(np.zeros(1, np.uint8), (MOST_BYTES + 1,))
    nothing = np.zeros(0, np.int64)
    with pytest.raises(ValueError, match="decode it in parts"):
        DECODER.decode(Units(data, nothing, nothing, nothing.astype(np.uint8)))


@pytest.mark.parametrize(
    ("start", "end", "kind"),
    [
        ([0], [11], [0]),
        ([-1], [3], [0]),
        ([4], [3], [0]),
        ([0, 2], [3, 5], [0, 0]),
        ([5, 0], [6, 1], [0, 0]),
        ([0], [3], [3]),
        ([0, 1], [1], [0]),
    ],
)
def test_units_that_do_not_lie_in_the_bytes_are_bad_use(
    start: list[int], end: list[int], kind: list[int]
) -> None:
    units = Units(np.zeros(10, np.uint8), np.array(start), np.array(end), np.array(kind, np.uint8))
    with pytest.raises(ValueError, match=r"^unit|units begin"):
        DECODER.decode(units)


def test_columns_nobody_fills_share_their_zeros() -> None:
    before = pa.total_allocated_bytes()
    decoded = DECODER.decode(units_from([batch(b"\x25\x01", PUT)] * 20_000))
    assert decoded.tables["put"].column("slices").null_count == 20_000
    assert pa.total_allocated_bytes() - before < 40 * 20_000


def test_neither_scapy_nor_spark_is_imported() -> None:
    code = "import sys, scapy_layers.derive.columns; print([m for m in ('scapy', 'pyspark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
