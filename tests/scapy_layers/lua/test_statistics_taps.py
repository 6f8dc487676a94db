"""The tables of ``tshark -z zenoh,...``, held against what ``zenoh-dissect stats`` counts."""

from __future__ import annotations

import contextlib
import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import rdpcap

from scapy_layers.__main__ import main
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.network import Request, Response, ResponseFinal
from scapy_layers.transport import Close, Frame
from tests.scapy_layers.lua import made
from tests.scapy_layers.lua.wire import ASKER, PCAPS, ZIDS, Talk, needs_tshark, push, run, save, tshark

pytestmark = needs_tshark

Rows = dict[str, dict[str, str]]


TABLES = ("messages", "keys", "sessions", "requests")

OUT_OF_ORDER = ("-o", "tcp.reassemble_out_of_order:TRUE")


@cache
def tables_of(path: Path, *options: str) -> dict[str, list[str]]:
    """Returns the lines of all tables between their rulers."""
    asked = [part for name in TABLES for part in ("-z", f"zenoh,{name}")]
    lines = tshark(path, "-q", *asked, *options).splitlines()
    rulers = [number for number, line in enumerate(lines) if set(line) == {"="}]
    assert len(rulers) == 2 * len(TABLES), lines
    between = [lines[first + 1 : last] for first, last in zip(rulers[::2], rulers[1::2], strict=True)]
    return {next(name for name in TABLES if found[0] == f"Zenoh {name}"): found for found in between}


def printed(path: Path, name: str, *options: str) -> list[str]:
    """Returns the lines of a table between its rulers."""
    return tables_of(path, *options)[name]


def rows_of(path: Path, name: str, *options: str) -> list[list[str]]:
    """Returns titles and rows of a table."""
    lines = printed(path, name, *options)
    rule = next(number for number, line in enumerate(lines) if set(line) == {"-"})
    width = len(lines[rule])
    rows = [lines[rule - 1], *lines[rule + 1 :]]
    assert max(map(len, rows[:-1])) <= width
    return [re.split(r" {2,}", row.strip()) for row in rows]


def table(path: Path, name: str, *options: str) -> Rows:
    """Returns the rows of a table by the text in their first column."""
    titles, *rows = rows_of(path, name, *options)
    return {row[0]: dict(zip(titles[1:], row[1:], strict=True)) for row in rows if len(row) == len(titles)}


@cache
def counted(path: Path) -> dict[str, Any]:
    """Returns what our own statistics say about a capture."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = main(["stats", str(path), "--format", "json", "--top", "1000"])
    assert status == 0
    data: dict[str, Any] = json.loads(said.getvalue())
    return data


CAPTURES = (
    "query",
    "put_delete",
    "lanes",
    "mixed",
    "multicast",
    "lowlatency",
    "compression",
    "meeting",
    "gossip",
)


@pytest.mark.parametrize("name", CAPTURES)
def test_messages_are_counted_as_our_statistics_do(name: str) -> None:
    rows = table(PCAPS / f"{name}.pcapng", "messages")
    assert {message: int(row["Count"]) for message, row in rows.items()} == counted(PCAPS / f"{name}.pcapng")[
        "counts"
    ]


@pytest.mark.parametrize("name", CAPTURES)
def test_keys_are_counted_as_our_statistics_do(name: str) -> None:
    rows = table(PCAPS / f"{name}.pcapng", "keys")
    data = counted(PCAPS / f"{name}.pcapng")
    expected = {
        row["keyexpr"]: [
            row[each] for each in ("puts", "deletes", "queries", "replies", "errors", "payload_bytes")
        ]
        for row in data["keys"]["listed"]
        if row["keyexpr"] and len(row["keyexpr"]) <= 60
    }
    titles = ("Puts", "Deletes", "Queries", "Replies", "Errors", "Bytes")
    found = {
        key: [int(row[title]) for title in titles]
        for key, row in rows.items()
        if key in expected or len(key) <= 60
    }
    found.pop("(no key)", None)
    assert found == expected
    duration = data["duration"] / 1e9
    for row in rows.values():
        published = int(row["Puts"]) + int(row["Deletes"])
        assert float(row["Per second"]) == pytest.approx(published / duration, abs=0.002)


@pytest.mark.parametrize("name", ["query", "query_lanes", "targets", "unanswered"])
def test_requests_are_timed_as_our_statistics_do(name: str) -> None:
    titles, *rows = rows_of(PCAPS / f"{name}.pcapng", "requests")
    rows = [row for row in rows if len(row) == len(titles)]
    data = counted(PCAPS / f"{name}.pcapng")["requests"]
    assert sum(int(row[1]) for row in rows) == data["sent"]
    assert sum(int(row[4]) for row in rows) == data["unanswered"]
    for first, total in ((5, data["to_first_reply"]), (9, data["to_final"])):
        least = [float(row[first]) for row in rows if row[first] != "-"]
        most = [float(row[first + 2]) for row in rows if row[first] != "-"]
        assert min(least) == pytest.approx(total["min"] / 1e6, abs=0.001)
        assert max(most) == pytest.approx(total["max"] / 1e6, abs=0.001)


def asked(number: int, key: str = "q") -> Request:
    return Request(request_id=number, N=1, M=1, key_suffix=key, body=Query())


def answer(number: int, body: Reply | Err, key: str = "q") -> Response:
    return Response(request_id=number, N=1, M=1, key_suffix=key, body=body)


def test_times_of_requests_are_those_of_the_packets(tmp_path: Path) -> None:
    talk = Talk().open()
    for number in range(1, 21):
        talk.frame(asked(number), sn=number)
        for _ in range(number):
            talk.batch(b"\x04")  # KEEP_ALIVE: a millisecond each
        talk.frame(answer(number, Reply(body=Put(data=b"x"))), back=True, sn=2 * number - 1)
        talk.frame(ResponseFinal(request_id=number), back=True, sn=2 * number)
    talk.frame(asked(99, "never"), sn=21)
    titles, *rows = rows_of(talk.save(tmp_path / "t.pcap"), "requests")
    assert titles[:5] == ["Key expression", "Queries", "Replies", "Errors", "Open"]
    [key, queries, replies, errors, still_open, *times] = rows[0]
    assert (key, queries, replies, errors, still_open) == ("q", "20", "20", "0", "0")
    assert [float(time) for time in times] == pytest.approx(
        [2.0, 11.5, 21.0, 20.0, 3.0, 12.5, 22.0, 21.0], rel=0.011
    )
    assert rows[1] == ["never", "1", "0", "0", "1", *["-"] * 8]


def test_answers_without_a_question_are_told(tmp_path: Path) -> None:
    talk = Talk().open().frame(answer(7, Err(data=b"no")), ResponseFinal(request_id=7), back=True)
    path = talk.save(tmp_path / "t.pcap")
    assert "2 answers to queries that this capture does not have." in printed(path, "requests")


def test_keys_tell_what_was_done_with_them(tmp_path: Path) -> None:
    talk = Talk().open()
    talk.frame(push("a/b", Put(data=b"12345")), push("a/b", Put(data=b"678")), push("a/b", Del()))
    talk.frame(asked(1, "a/*"), sn=2)
    talk.frame(answer(1, Reply(body=Put(data=b"12")), "a/b"), answer(1, Err(data=b"123"), "a/*"), back=True)
    rows = table(talk.save(tmp_path / "t.pcap"), "keys")
    columns = ("Puts", "Deletes", "Queries", "Replies", "Errors", "Bytes")
    assert [rows["a/b"][one] for one in columns] == ["2", "1", "0", "1", "0", "10"]
    assert [rows["a/*"][one] for one in columns] == ["0", "0", "1", "0", "1", "3"]


def test_what_receivers_drop_counts_as_messages_only(tmp_path: Path) -> None:
    talk = Talk().open()
    for _ in range(2):
        talk.frame(push("a", Put(data=b"x")), asked(1), sn=1)
        talk.frame(answer(1, Reply(body=Put(data=b"12"))), ResponseFinal(request_id=1), back=True, sn=1)
    path = talk.save(tmp_path / "t.pcap")
    keys = table(path, "keys")
    assert [keys["a"]["Puts"], keys["q"]["Queries"], keys["q"]["Replies"]] == ["1", "1", "1"]
    assert not any("does not have" in line for line in printed(path, "requests"))
    assert table(path, "messages")["PUT"]["Count"] == "4"


def test_sessions_tell_who_talked_and_how_it_ended(tmp_path: Path) -> None:
    talk = Talk().open().frame(push("a", Put(data=b"x"))).batch(Close(S=1, reason=5), back=True)
    titles, row, *_ = rows_of(talk.save(tmp_path / "t.pcap"), "sessions")
    assert titles == [
        "Zid",
        "Zid",
        "Locator",
        "Locator",
        "Links",
        "Start",
        "End",
        "Messages",
        "Bytes",
        "Ended",
    ]
    assert row[:2] == [f"{ZIDS[0]} client", f"{ZIDS[1]} router"]
    assert row[2:4] == [f"tcp/{ASKER}:50000", "tcp/10.0.0.2:7447"]
    assert row[4:8] == ["1", "0.000", "0.005", "7"]
    assert row[9] == "CLOSE expired, from the right"


@pytest.mark.parametrize(("name", "protocol"), [("websocket", "ws"), ("datagrams", "udp"), ("tcp6", "tcp")])
def test_locators_are_of_the_kind_of_link(name: str, protocol: str) -> None:
    _, *rows, _ = rows_of(PCAPS / f"{name}.pcapng", "sessions")
    assert {cell.partition("/")[0] for row in rows for cell in row[2:4]} == {protocol}


def test_two_sessions_of_the_same_ends_are_two_rows(tmp_path: Path) -> None:
    talk = Talk().syn().open().batch(Close(S=1, reason=0))
    talk.next = {False: 900_000, True: 700_000}
    talk.syn().open()
    rows = [row for row in rows_of(talk.save(tmp_path / "t.pcap"), "sessions") if row[0].startswith(ZIDS[0])]
    assert [row[9] for row in rows] == ["CLOSE generic, from the left", "not by CLOSE"]


@pytest.mark.parametrize(
    "name",
    [*CAPTURES, "multilink", "connected_again", "direct_websocket", "datagrams", "joins", "older_1_0_4"],
)
def test_sessions_are_those_of_our_statistics(name: str) -> None:
    _, *rows, _ = rows_of(PCAPS / f"{name}.pcapng", "sessions")
    found = [
        (sorted({cell.split()[0] for cell in row[:2]} - {"-"}), int(row[4]), int(row[7])) for row in rows
    ]
    expected = [
        (sorted(zid for zid in row["zids"] if zid), len(row["links"]), row["messages"])
        for row in counted(PCAPS / f"{name}.pcapng")["sessions"]["listed"]
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("late", [False, True])
def test_requests_tell_that_packets_were_captured_out_of_order(late: bool, tmp_path: Path) -> None:
    talk = made.Talk()
    talk.handshake()
    talk.say(Frame(R=1, sn=10, messages=[Request(request_id=7, key_suffix="a", body=Query())]))
    talk.answer(Frame(R=1, sn=20, messages=[ResponseFinal(request_id=7)]))
    if late:
        talk.packets[-2:] = talk.packets[:-3:-1]
    path = made.save(tmp_path / "t.pcap", talk)
    assert table(path, "requests", *OUT_OF_ORDER)["a"]["Open"] == str(int(late))
    assert any("captured out of order" in line for line in printed(path, "requests", *OUT_OF_ORDER)) is late


@pytest.mark.parametrize("options", [(), ("-2",)])
def test_links_of_nodes_that_connect_to_each_other_at_once_are_one_session(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    first, second = made.Talk(), made.Talk(50_001)
    first.handshake(sn=(10, 20))
    second.handshake(sn=(20, 10), zids=made.ZIDS[::-1])
    # Both begin before either is complete.
    both = [packet for pair in zip(first.packets, second.packets, strict=True) for packet in pair]
    first.packets, second.packets = both, []
    query = Request(request_id=7, key_suffix="a", body=Query())
    first.say(Frame(R=1, sn=10, messages=[query]))
    second.say(Frame(R=1, sn=20, messages=[Response(request_id=7, key_suffix="a", body=Reply(body=Put()))]))
    second.say(Frame(R=1, sn=21, messages=[ResponseFinal(request_id=7)]))
    path = made.save(tmp_path / "t.pcap", first, second)
    _, row, _ = rows_of(path, "sessions", *options)
    assert row[2:5] + row[7:8] == ["tcp/10.0.0.1:50000", "tcp/10.0.0.2:7447", "2", "14"]
    assert table(path, "requests", *options)["a"]["Replies"] == "1"
    assert table(path, "requests", *options)["a"]["Open"] == "0"


def test_session_whose_handshake_was_captured_out_of_order_is_one(tmp_path: Path) -> None:
    talk = made.Talk()
    talk.handshake()
    syns, (init, init_ack, open_syn, open_ack) = talk.packets[:2], talk.packets[2:]
    talk.packets = [*syns, init_ack, open_ack, init, open_syn]
    _, row, _ = rows_of(made.save(tmp_path / "t.pcap", talk), "sessions", *OUT_OF_ORDER)
    assert row[4] + row[7] == "14"


def test_session_on_udp_that_was_captured_twice_is_one(tmp_path: Path) -> None:
    packets = [packet for packet in rdpcap(str(PCAPS / "datagrams.pcapng")) for _ in range(2)]
    path = save(tmp_path / "twice.pcap", packets)
    zids = [row[:2] for row in rows_of(path, "sessions")[1:-1]]
    assert zids == [row[:2] for row in rows_of(PCAPS / "datagrams.pcapng", "sessions")[1:-1]]
    assert len(zids) == len(counted(path)["sessions"]["listed"]) == 2


def test_filter_leaves_packets_out(tmp_path: Path) -> None:
    talk = Talk().open().frame(push("a", Put(data=b"x"))).frame(push("b", Put(data=b"x")), sn=2)
    path = talk.save(tmp_path / "t.pcap")
    text = tshark(path, "-q", "-z", 'zenoh,keys,zenoh.keyexpr == "a"')
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("a ", "b "))] == ["a"]


def test_two_passes_count_once(tmp_path: Path) -> None:
    path = Talk().frame(push("demo/example", Put(data=bytes(100)))).save(tmp_path / "t.pcap")
    assert table(path, "messages", "-2")["PUT"]["Count"] == "1"
    assert table(PCAPS / "query.pcapng", "messages", "-2") == table(PCAPS / "query.pcapng", "messages")


def test_many_keys_are_bounded_and_told(tmp_path: Path) -> None:
    talk = Talk().open()
    for sn, start in enumerate(range(0, 300, 50), start=1):
        talk.frame(*(push(f"key/{number}", Put(data=b"x")) for number in range(start, start + 50)), sn=sn)
    talk.frame(push("key/299", Put(data=b"x")), sn=7)
    lines = printed(talk.save(tmp_path / "t.pcap"), "keys")
    assert lines[4].startswith("key/299")  # what weighs most comes first
    assert "200 more rows are left out." in lines


def test_keys_that_do_not_show_stay_in_their_column(tmp_path: Path) -> None:
    long = "long/" + "ä" * 200 + "/end"
    talk = Talk().open().frame(push("schön/\tda", Put(data=b"x")), push(long, Put(data=b"x")))
    rows = printed(talk.save(tmp_path / "t.pcap"), "keys")[4:6]
    assert rows[0].startswith("schön/?da ")
    assert rows[1].startswith("long/ä")
    assert "..." in rows[1]
    assert len(rows[0]) == len(rows[1])


def test_key_that_is_no_utf8_harms_nobody_who_reads_the_table(tmp_path: Path) -> None:
    broken = bytes(push("KEY", Put(data=b"x"))).replace(b"KEY", b"k\xff\xfe")
    path = Talk().open().batch(Frame(R=1, sn=1), broken).save(tmp_path / "t.pcap")
    assert printed(path, "keys")[4].startswith("k\ufffd\ufffd ")


def test_nothing_to_count_is_an_empty_table(tmp_path: Path) -> None:
    path = Talk(port=80).raw(b"nothing of ours").save(tmp_path / "t.pcap")
    for name in ("messages", "keys", "sessions", "requests"):
        assert len(rows_of(path, name)) == 2


@pytest.mark.parametrize("name", TABLES)
def test_filter_that_is_none_ends_tshark_with_one_line(name: str) -> None:
    done = run(PCAPS / "keys.pcapng", "-q", "-z", f"zenoh,{name},ip..src")
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "root" not in line]
    assert len(said) == 1
    assert said[0].startswith(f'tshark: Couldn\'t register zenoh,{name} tap: Filter "ip..src" is invalid - ')
    assert not done.stdout
