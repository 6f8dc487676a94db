"""Captures as Arrow tables: the rows are the messages that a passive reader hears, and nothing is lost in between."""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from scapy_layers import capture, scan, stream, tables
from scapy_layers.all import (
    Close,
    Init,
    MultiLinkInitAck,
    MultiLinkInitSyn,
    Open,
    Patch,
)
from scapy_layers.capture import CaptureError
from scapy_layers.conversation import Conversations, Unread, is_batch
from scapy_layers.message import Message
from scapy_layers.names import layer_name
from scapy_layers.tables import SCHEMAS, read
from tests.agreement import damage
from tests.benchmarks._common import prefixed, put
from tests.scapy_layers.conversation import pair
from tests.scapy_layers.packets import ethernet, ipv4, udp
from tests.scapy_layers.scan.heard import batch_stream, said, timed, written

CAPTURES = sorted((Path(__file__).parents[2] / "pcaps").glob("*.pcapng"))
FRAGMENTED = [path for path in CAPTURES if b"fragment" in path.name.encode()] + [
    path
    for path in CAPTURES
    if path.stem in {"dropped", "interleaved", "joins", "oversized", "packed_datagrams", "tcp6", "websocket"}
]
BODIES = {"put", "del", "query", "reply", "err"}
PUTS = [put(sn, b"x" * (sn % 9)) for sn in range(200)]


def datagram(data: bytes, *, back: bool = False, port: int = 50_000) -> bytes:
    """Between two nodes, one of them on port 7447; back: from there."""
    ports = {"sport": 7447, "dport": port} if back else {"sport": port, "dport": 7447}
    raw = ethernet(ipv4(udp(data, **ports), protocol=17))
    return raw[:26] + raw[30:34] + raw[26:30] + raw[34:] if back else raw


def all_of(found: Iterable[tables.Tables]) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for made in found:
        for name, batch in made.items():
            assert batch.num_rows
            rows.setdefault(name, []).extend(batch.to_pylist())
    return rows


def of(data: bytes, **how: Any) -> dict[str, list[dict[str, Any]]]:
    return all_of(read(io.BytesIO(data), **how))


def heard(path: Path) -> Counter[tuple[Any, ...]]:
    """The messages of a capture as ``conversation`` tells them, bodies aside."""
    found: Counter[tuple[Any, ...]] = Counter()
    conversations = Conversations()
    for unit in stream.units_of(path, plausible=is_batch):
        for one in conversations.hear(unit):
            if isinstance(one.message, Unread) or one.refused:
                continue
            name = layer_name(type(one.message).shape())
            link = one.way.link.number
            found[name, one.number, one.time, link, one.way.forward, len(one.pieces)] += 1
    return found


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_rows_are_the_messages_that_are_heard(path: Path) -> None:
    found: Counter[tuple[Any, ...]] = Counter()
    for made in read(path):
        for name, batch in made.items():
            assert batch.schema == tables.schema(name)
            if name in SCHEMAS or name in BODIES or name.startswith(("d_", "u_")):
                continue
            columns = [
                batch.column(column) for column in ("packet", "time", "connection", "forward", "pieces")
            ]
            columns[1] = columns[1].cast(pa.int64())
            found.update(
                (name, *row) for row in zip(*(column.to_pylist() for column in columns), strict=True)
            )
    assert found == heard(path)


@pytest.mark.parametrize("path", FRAGMENTED, ids=lambda path: path.stem)
def test_messages_in_fragments_have_their_payload(path: Path) -> None:
    expected = []
    conversations = Conversations()
    for unit in stream.units_of(path, plausible=is_batch):
        for one in conversations.hear(unit):
            body = one.message.fields.get("body")
            if one.pieces and body is not None and "data" in body.fields:
                expected.append((one.number, len(one.pieces), bytes(body.data)))
    found = all_of(read(path)).get("put", [])
    pieced = [(row["packet"], row["pieces"], row["data"]) for row in found if row["pieces"]]
    assert sorted(pieced) == sorted(expected)
    assert pieced


@pytest.mark.parametrize("path", [*FRAGMENTED[:4], *CAPTURES[:3]], ids=lambda path: path.stem)
def test_parts_have_together_the_rows_of_the_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = all_of(read(path))
    monkeypatch.setattr(capture, "CHUNK", 300)
    monkeypatch.setattr(scan, "SIZE", 300)
    splits = pickle.loads(pickle.dumps(scan.plan(path, path.stat().st_size // 10)))
    assert len(splits) > 1
    together: dict[str, list[dict[str, Any]]] = {}
    for split in splits:
        for name, rows in all_of(read(path, split=split)).items():
            together.setdefault(name, []).extend(rows)
    assert together == whole


def test_piece_with_very_many_messages_is_handed_out_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_MESSAGES", 1_000, raising=False)
    data = written(timed(said([prefixed(b"\x04" * 100)] * 200)))
    made = [found["keep_alive"].num_rows for found in read(io.BytesIO(data)) if "keep_alive" in found]
    assert sum(made) == 20_000
    assert max(made) <= 2_000


@pytest.mark.parametrize("most", [10, 100])
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_rows_are_the_same_in_whatever_pieces(path: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = all_of(read(path))
    monkeypatch.setattr(tables, "MOST_MESSAGES", most)
    assert all_of(read(path)) == whole


def test_gap_in_the_midst_of_a_piece_that_is_cut_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = said([prefixed(one) for one in PUTS])
    data = written(timed([*frames[:50], *frames[51:120], *frames[121:]]))
    whole = of(data)
    monkeypatch.setattr(tables, "MOST_MESSAGES", 10)
    found = list(read(io.BytesIO(data)))
    assert all_of(found) == whole
    assert sum("gaps" in made for made in found) == 2


# What is wrong is told ----------------------------------------------------------------------------


def test_batch_that_is_refused_has_a_row_in_errors() -> None:
    bad = b"\x25\x05\x3d\x00\x02a"
    rows = of(written(timed(said([prefixed(one) for one in (*PUTS[:3], bad, *PUTS[3:])]))))
    (error,) = rows["errors"]
    assert (error["packet"], error["batch"], error["connection"], error["forward"]) == (10, 7, 0, True)
    assert (error["kind"], error["offset"], error["pieces"]) == ("Truncated", 4, 0)
    assert error["rest"].endswith(bad[2:])
    assert len(rows["put"]) == len(PUTS)


def test_block_that_cannot_be_decompressed_has_a_row_in_errors() -> None:
    path = next(path for path in CAPTURES if path.stem == "compression")
    frames = [buffer[start:end] for buffer, records in capture.runs(path) for _, _, start, end, _ in records]
    spoiled = [frame.replace(b"\x01\xff", b"\x01\x0f") if len(frame) > 200 else frame for frame in frames]
    damaged = [
        index for index, (one, other) in enumerate(zip(frames, spoiled, strict=True), 1) if one != other
    ]
    if not damaged:
        spoiled = [
            frame[:68] + b"\x01\x0f\xff\xff" + frame[72:] if len(frame) > 300 else frame for frame in frames
        ]
    rows = of(written(timed(spoiled)))
    assert any(error["field"].startswith("batch.") for error in rows["errors"])
    assert all(error["rest"] for error in rows["errors"])


def test_gap_has_a_row() -> None:
    frames = said([prefixed(one) for one in PUTS])
    rows = of(written(timed([*frames[:50], *frames[51:]])))
    (gap,) = rows["gaps"]
    assert (gap["packet"], gap["batch"], gap["connection"], gap["missing"], gap["skipped"]) == (
        51,
        48,
        0,
        len(prefixed(PUTS[44])),
        0,
    )
    assert len(rows["put"]) == len(PUTS) - 1
    assert rows["capture"][0]["gaps"] == 1


def test_file_that_is_damaged_gives_all_in_front_and_a_row() -> None:
    data = written(timed(said([prefixed(one) for one in PUTS])))
    rows = of(data[:-2])
    (error,) = rows["errors"]
    assert (error["kind"], error["field"], error["packet"]) == ("CaptureError", "capture", len(PUTS) + 6)
    assert error["connection"] is error["time"] is None
    assert "ends inside a packet" in error["found"]
    assert len(rows["put"]) == len(PUTS) - 1
    assert rows["capture"][0]["damage"] == error["found"]


@pytest.mark.parametrize("reader", [capture.read, stream.units_of, scan.chunks, read])
def test_file_may_be_named_by_a_text(reader: Callable[[str | Path], Iterator[object]]) -> None:
    path = CAPTURES[0]
    assert [str(found) for found in reader(str(path))] == [str(found) for found in reader(path)]


def test_init_on_udp_that_was_captured_again_takes_nothing_back() -> None:
    with_patch = [Patch(patch=1)]
    syn = datagram(bytes(Init(zid=b"\xa1", extensions=with_patch)))
    ack = datagram(bytes(Init(A=1, zid=b"\xb2", cookie=b"cookie--", extensions=with_patch)), back=True)
    (row,) = of(written(timed([syn, syn, ack, syn, *map(datagram, PUTS)])))["connections"]
    assert (row["source_zid"], row["target_zid"], row["patch"]) == ("a1", "b2", 1)
    # Behind something else it may be a node that came back.
    (row,) = of(written(timed([syn, ack, *map(datagram, PUTS), syn])))["connections"]
    assert (row["source_zid"], row["target_zid"], row["patch"]) == ("a1", None, None)


@pytest.mark.parametrize(
    ("at_once", "crossing", "later", "closed"),
    [
        (True, True, 0, False),
        (False, True, 0, False),
        (False, True, 9, False),
        (False, True, 11, False),
        (False, True, 0, True),
        (True, False, 0, False),
        (False, False, 9, False),
    ],
)
def test_connections_of_nodes_that_connect_to_each_other_are_several_of_one_session(
    at_once: bool, crossing: bool, later: int, closed: bool
) -> None:
    a1, b2 = (
        [
            Init(zid=one, whatami=1),
            Init(A=1, zid=other, whatami=1, cookie=b"cookie"),
            Open(lease=10_000, initial_sn=sn, cookie=b"cookie"),
            Open(A=1, lease=10_000, initial_sn=30 - sn),
        ]
        for one, other, sn in ((b"\xa1", b"\xb2", 10), (b"\xb2", b"\xa1", 20))
    )
    first = [
        datagram(bytes(one), back=back) for one, back in zip(a1, (False, True, False, True), strict=True)
    ]
    second = [
        datagram(bytes(one), back=back == crossing, port=50_001)
        for one, back in zip(b2 if crossing else a1, (True, False, True, False), strict=True)
    ]
    if closed:
        first.append(datagram(bytes(Close(S=0, reason=0))))
    both = [one for two in zip(first, second, strict=True) for one in two] if at_once else [*first, *second]
    packets = timed(both)
    moved = [(time + later * 10**9, link, raw, size) for time, link, raw, size in packets[len(first) :]]
    rows = of(written([*packets[: len(first)], *moved]))["connections"]
    united = crossing and later < 10 and not closed  # the lease is 10 s
    assert [(row["source_zid"], row["target_zid"], row["multilink"]) for row in rows] == [
        ("a1", "b2", united),
        ("b2", "a1", united) if crossing else ("a1", "b2", united),
    ]


@pytest.mark.parametrize(
    ("later", "closed", "united"), [(0, False, True), (9, False, True), (11, False, False), (0, True, False)]
)
def test_link_belongs_to_a_session_of_several_while_that_lives(
    later: int, closed: bool, united: bool
) -> None:
    proof = {"n": b"\x01" * 64, "e": b"\x03"}
    opening: list[tuple[bool, Message]] = [
        (False, Init(zid=b"\xa1", extensions=[MultiLinkInitSyn(**proof)])),
        (True, Init(A=1, zid=b"\xb2", cookie=b"cookie", extensions=[MultiLinkInitAck(**proof)])),
        (False, Open(lease=10_000, initial_sn=10, cookie=b"cookie")),
        (True, Open(A=1, lease=10_000, initial_sn=20)),
    ]
    whole = bytes(pair.put("a", b"value"))
    pieces = [(False, pair.fragment(10, whole[:4])), (False, pair.fragment(11, whole[4:], more=False))]
    closes = [(True, Close(S=0, reason=0))] * closed
    first, second = (
        [datagram(bytes(one), back=back, port=port) for back, one in said]
        for port, said in (
            (50_000, [*opening, *pieces[: 1 if united else 2], *closes]),
            (50_001, [*opening, *pieces[united:]]),
        )
    )
    packets = timed([*first, *second])
    moved = [(time + later * 10**9, link, raw, size) for time, link, raw, size in packets[len(first) :]]
    assert len(of(written([*packets[: len(first)], *moved]))["put"]) == (1 if united else 2)


def test_what_is_no_capture_is_an_exception() -> None:
    with pytest.raises(CaptureError, match="neither pcap nor pcapng"):
        of(b"no capture at all")


def test_connection_has_a_row_when_it_is_over() -> None:
    (row,) = of(written(timed(said([prefixed(one) for one in PUTS]))))["connections"]
    assert (row["source"], row["sport"], row["target"], row["dport"]) == (
        "127.0.0.1",
        50_000,
        "127.0.0.1",
        7447,
    )
    assert (row["source_zid"], row["target_zid"]) == ("7060504030201", "17161514131211")
    assert (row["source_whatami"], row["target_whatami"]) == ("client", "client")
    assert (row["certain"], row["lowlatency"], row["compression"], row["fsn_bits"]) == (
        True,
        False,
        False,
        32,
    )
    assert (row["batches_forward"], row["batches_backward"]) == (len(PUTS) + 2, 2)
    assert (row["first_packet"], row["last_packet"]) == (3, len(PUTS) + 6)


@pytest.mark.parametrize("name", ["dropped", "older_1_0_4", "older_1_9_0"])
def test_connection_ends_with_its_last_message_whatever_the_segments(name: str) -> None:
    made = damage.variant(CAPTURES[0].with_name(f"{name}.pcapng"), "cut", 3)
    rows = of(made.data)
    latest: dict[int, int] = {}
    for table in ("init", "open", "frame", "fragment", "keep_alive", "close"):
        for row in rows.get(table, ()):
            latest[row["connection"]] = max(latest.get(row["connection"], 0), row["packet"])
    assert latest
    assert {row["connection"]: row["last_packet"] for row in rows["connections"]} == latest


# What is wanted -----------------------------------------------------------------------------------


def test_only_what_is_wanted_is_made() -> None:
    data = written(timed(said([batch_stream(PUTS)])))
    rows = of(data, tables=["put", "connections"], columns={"put": ["data", "packet", "within"]})
    assert set(rows) == {"put", "connections"}
    assert set(rows["put"][0]) == {"packet", "within", "data"}
    assert [row["data"] for row in rows["put"]] == [b"x" * (sn % 9) for sn in range(200)]


def test_table_of_fragments_is_not_needed_for_messages_in_fragments() -> None:
    rows = all_of(read(FRAGMENTED[0], tables=["put"], columns={"put": ["pieces"]}))
    assert set(rows) == {"put"}
    assert any(row["pieces"] > 1 for row in rows["put"])


@pytest.mark.parametrize(
    ("how", "word"), [({"tables": ["puts"]}, "puts"), ({"columns": {"put": ["x"]}}, "'x'")]
)
def test_name_that_does_not_exist_is_told_with_those_that_do(how: dict[str, Any], word: str) -> None:
    with pytest.raises(KeyError, match=word) as told:
        of(written([]), **how)
    assert "put" in str(told.value) or "data" in str(told.value)


def test_names_and_schemas_are_those_of_all_messages() -> None:
    assert {"put", "transport_oam", "d_keyexpr", "connections", "gaps", "errors", "capture"} <= set(
        tables.names()
    )
    for name in tables.names():
        assert tables.schema(name).names
        if name not in SCHEMAS:
            assert tables.schema(name).names[:6] == [
                "packet",
                "time",
                "connection",
                "forward",
                "batch",
                "pieces",
            ]


def test_capture_without_zenoh_says_so() -> None:
    rows = of(written(timed([bytes(12) + b"\x08\x06" + bytes(28)] * 3)))
    assert set(rows) == {"capture"}
    (row,) = rows["capture"]
    assert (row["packets"], row["other_packets"], row["links"], row["connections"]) == (3, 3, 0, 0)
