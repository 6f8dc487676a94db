"""DataFrame functions over messages: on a few rows, and against the passive reader on every capture."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_reports import traffic
from spark_reports.columns import MissingColumns

MESSAGE = (
    "capture string, connection int, forward boolean, batch long, pieces int, offset int, packet long, "
    "time_ns long, source_zid string, target_zid string, message string, body string, key_scope long, "
    "key_suffix string, mapping boolean, key_id long, request_id long, payload_size long"
)
LINK = "capture string, connection int, session int, flipped boolean, room string, grouped boolean"

Rows = list[dict[str, Any]]


@pytest.fixture(scope="session")
def messages(spark: SparkSession) -> Callable[..., DataFrame]:
    """Makes messages of one capture: batch by batch, in the order given."""

    def make(*rows: dict[str, Any]) -> DataFrame:
        schema = StructType.fromDDL(MESSAGE)
        standard = {
            "capture": "a.pcap",
            "connection": 0,
            "forward": True,
            "pieces": 0,
            "offset": 3,
            "source_zid": "a1",
            "target_zid": "b2",
        }
        filled: list[dict[str, Any]] = []
        for number, row in enumerate(rows):
            at = {"batch": number, "packet": number + 1, "time_ns": number * 1_000}
            filled.append({**standard, **at, **row})
        return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in filled], schema)

    return make


def d_keyexpr(number: int, suffix: str, scope: int = 0, **more: Any) -> dict[str, Any]:
    key = {"key_id": number, "key_scope": scope, "key_suffix": suffix, "mapping": True}
    return {"message": "declare", "body": "d_keyexpr", **key, **more}


def u_keyexpr(number: int, **more: Any) -> dict[str, Any]:
    return {"message": "declare", "body": "u_keyexpr", "key_id": number, **more}


def push(scope: int, suffix: str = "", *, mapping: bool = True, **more: Any) -> dict[str, Any]:
    key = {"key_scope": scope, "key_suffix": suffix, "mapping": mapping}
    return {"message": "push", "body": "put", "payload_size": 4, **key, **more}


def request(number: int, **more: Any) -> dict[str, Any]:
    key = {"key_scope": 0, "key_suffix": "q", "mapping": False}
    return {"message": "request", "body": "query", "request_id": number, **key, **more}


def response(number: int, body: str = "reply", **more: Any) -> dict[str, Any]:
    key = {"key_scope": 0, "key_suffix": "" if body == "err" else "q/1", "mapping": False}
    return {"message": "response", "body": body, "request_id": number, "forward": False, **key, **more}


def final(number: int, **more: Any) -> dict[str, Any]:
    return {"message": "response_final", "request_id": number, "forward": False, **more}


def rows_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.select(*columns).collect()]


def keys_of(messages: DataFrame, links: DataFrame | None = None) -> list[str | None]:
    keyed = traffic.keys(messages, traffic.aliases(messages, links))
    return [row.keyexpr for row in keyed.orderBy("batch", "offset").collect()]


# Keys ---------------------------------------------------------------------------------------------


def test_alias_is_used_key_is_full(messages: Callable[..., DataFrame]) -> None:
    frame = messages(d_keyexpr(5, "robot/1"), push(5), push(5, "/pose"), push(0, "plain"), push(6))
    assert keys_of(frame) == ["robot/1", "robot/1", "robot/1/pose", "plain", None]


def test_alias_of_the_other_end_is_meant_when_mapping_is_clear(messages: Callable[..., DataFrame]) -> None:
    frame = messages(
        d_keyexpr(5, "ours"),
        d_keyexpr(5, "theirs", forward=False),
        push(5),
        push(5, mapping=False),
        push(5, forward=False),
        push(5, mapping=False, forward=False),
    )
    assert keys_of(frame)[2:] == ["ours", "theirs", "theirs", "ours"]


def test_alias_of_an_alias_is_full_and_keeps_its_key(messages: Callable[..., DataFrame]) -> None:
    frame = messages(d_keyexpr(1, "a"), d_keyexpr(2, "/b", scope=1), u_keyexpr(1), push(2, "/c"), push(1))
    assert keys_of(frame) == ["a", "a/b", "a", "a/b/c", None]


def test_undeclared_alias_still_holds_for_messages_of_the_other_end(
    messages: Callable[..., DataFrame],
) -> None:
    frame = messages(
        d_keyexpr(1, "old"),
        u_keyexpr(1),
        push(1),
        push(1, mapping=False, forward=False),
        d_keyexpr(1, "new"),
        push(1),
        push(1, mapping=False, forward=False),
    )
    assert keys_of(frame)[2:] == [None, "old", "new", "new", "new"]


def test_alias_in_use_is_declared_again_first_key_stays(messages: Callable[..., DataFrame]) -> None:
    frame = messages(d_keyexpr(1, "first"), d_keyexpr(1, "second"), push(1))
    assert keys_of(frame)[2] == "first"


def test_two_captures_and_connections_aliases_are_apart(messages: Callable[..., DataFrame]) -> None:
    frame = messages(
        d_keyexpr(1, "here"),
        push(1, connection=1),
        push(1, capture="b.pcap"),
        d_keyexpr(1, "there", connection=1),
        push(1, connection=1),
    )
    assert keys_of(frame)[1:] == [None, None, "there", "there"]


def test_several_messages_in_a_batch_order_is_by_offset(messages: Callable[..., DataFrame]) -> None:
    frame = messages(
        push(1, batch=7, offset=40), d_keyexpr(1, "k", batch=7, offset=20), push(1, batch=7, offset=3)
    )
    assert keys_of(frame) == [None, "k", "k"]


def test_session_of_two_links_alias_holds_on_both(
    spark: SparkSession, messages: Callable[..., DataFrame]
) -> None:
    links = spark.createDataFrame(
        [("a.pcap", 0, 0, False, "0", False), ("a.pcap", 1, 0, True, "0", False)], LINK
    )
    frame = messages(
        d_keyexpr(1, "k"),
        push(1, connection=1, forward=False),
        push(1, connection=1, mapping=False),
        push(1, connection=1),
    )
    assert keys_of(frame, links) == ["k", "k", "k", None]


def test_endless_alias_of_aliases_is_not_made(messages: Callable[..., DataFrame]) -> None:
    long = "x" * (traffic.LONGEST_KEY - 1)
    frame = messages(d_keyexpr(1, long), d_keyexpr(2, "yz", scope=1), push(2), push(1, "yz"), push(1, "y"))
    assert [key if key is None else len(key) for key in keys_of(frame)] == [
        len(long),
        None,
        None,
        None,
        len(long) + 1,
    ]


# Requests -----------------------------------------------------------------------------------------


def keyed(frame: DataFrame) -> DataFrame:
    return traffic.keys(frame, traffic.aliases(frame))


def test_request_is_answered_times_are_told(messages: Callable[..., DataFrame]) -> None:
    frame = traffic.requests(keyed(messages(request(7), response(7), response(7, "err"), final(7))))
    assert rows_of(frame, "packet", "keyexpr", "replies", "errors", "first_answer_ns", "final_ns", "finals") == [
        (1, "q", 1, 1, 1_000, 3_000, 1)
    ]


def test_id_is_used_again_each_request_has_its_answers(messages: Callable[..., DataFrame]) -> None:
    frame = messages(
        request(7), response(7), final(7), response(7), final(7), request(7), final(7), request(7)
    )
    found = traffic.requests(keyed(frame)).orderBy("packet")
    assert rows_of(found, "packet", "replies", "final_ns", "finals") == [
        (1, 2, 2_000, 2),
        (6, 0, 1_000, 1),
        (8, 0, None, 0),
    ]
    told = traffic.latencies(found)
    assert rows_of(told, "sent", "answered", "unanswered", "finals_without_request") == [(3, 2, 1, 1)]
    assert rows_of(told, "first_answer_count", "final_min", "final_max") == [(1, 1_000, 2_000)]


def test_both_ends_ask_under_one_id_they_are_apart(messages: Callable[..., DataFrame]) -> None:
    frame = messages(
        request(7), request(7, forward=False), response(7, forward=True), final(7), final(7, forward=True)
    )
    found = traffic.requests(keyed(frame)).orderBy("packet")
    assert rows_of(found, "packet", "replies", "final_ns") == [(1, 0, 3_000), (2, 1, 3_000)]


def test_request_was_not_captured_answer_has_a_row_without_times(messages: Callable[..., DataFrame]) -> None:
    found = traffic.requests(keyed(messages(response(9), final(9))))
    assert rows_of(found, "packet", "connection", "replies", "first_answer_ns", "final_ns") == [
        (None, 0, 1, None, None)
    ]
    assert rows_of(traffic.latencies(found), "sent", "finals_without_request", "final_max") == [(0, 1, None)]


def test_group_answers_come_from_any_sender(spark: SparkSession, messages: Callable[..., DataFrame]) -> None:
    links = spark.createDataFrame([("a.pcap", n, n, False, "224.0.0.1:7447", True) for n in (0, 1)], LINK)
    frame = messages(request(3), response(3, connection=1, forward=True), final(3, connection=1, forward=True))
    found = traffic.requests(keyed(frame), links)
    assert rows_of(found, "packet", "connection", "replies", "final_ns") == [(1, 0, 1, 2_000)]


# Events and rates ---------------------------------------------------------------------------------


def test_error_names_no_key_event_has_that_of_the_request(messages: Callable[..., DataFrame]) -> None:
    frame = keyed(messages(request(7), response(7, "err"), final(7), push(0, "k"), push(0, "k", body="del")))
    assert sorted(rows_of(traffic.events(frame), "event", "keyexpr")) == [
        ("delete", "k"),
        ("put", "k"),
        ("query", "q"),
        ("reply_err", "q"),
    ]


def test_rates_count_by_interval(messages: Callable[..., DataFrame]) -> None:
    second = 1_000_000_000
    times = [0, second - 1, second, 3 * second + 5]
    frame = keyed(messages(*(push(0, "k", time_ns=1_700_000_000 * second + time) for time in times)))
    found = traffic.rates(traffic.events(frame), 1.0).orderBy("start")
    assert [
        (row.start.timestamp(), row.keyexpr, row.puts, row.payload_bytes, row.per_second)
        for row in found.collect()
    ] == [
        (1_700_000_000.0, "k", 2, 8, 2.0),
        (1_700_000_001.0, "k", 1, 4, 1.0),
        (1_700_000_003.0, "k", 1, 4, 1.0),
    ]
    by_node = traffic.rates(traffic.events(frame), 2.0, by=("source_zid",)).orderBy("start")
    assert rows_of(by_node, "source_zid", "events", "per_second") == [("a1", 3, 1.5), ("a1", 1, 0.5)]


def test_interval_is_nothing_says_so(messages: Callable[..., DataFrame]) -> None:
    with pytest.raises(ValueError, match="at least a nanosecond"):
        traffic.rates(traffic.events(keyed(messages(push(0, "k")))), 0)


def test_column_is_missing_error_names_it(messages: Callable[..., DataFrame]) -> None:
    with pytest.raises(MissingColumns, match="no column key_id"):
        traffic.aliases(messages(push(0)).drop("key_id"))


# Links --------------------------------------------------------------------------------------------

CONNECTION = (
    "capture string, connection int, tcp boolean, target string, multilink boolean, source_zid string, "
    "target_zid string, first_packet long, last_packet long"
)


def links_of(spark: SparkSession, rows: Iterable[tuple[Any, ...]]) -> Rows:
    frame = traffic.links(spark.createDataFrame([("a.pcap", *row) for row in rows], CONNECTION))
    return [row.asDict() for row in frame.orderBy("connection").collect()]


def test_links_with_multilink_that_overlap_are_one_session(spark: SparkSession) -> None:
    found = links_of(
        spark,
        [
            (0, True, "10.0.0.2", True, "a1", "b2", 1, 50),
            (1, True, "10.0.0.1", True, "b2", "a1", 20, 90),
            (2, True, "10.0.0.2", True, "a1", "b2", 91, 99),
            (3, True, "10.0.0.2", False, "a1", "b2", 1, 99),
            (4, True, "10.0.0.2", None, None, None, 1, 99),
        ],
    )
    assert [(row["session"], row["flipped"]) for row in found] == [
        (0, False),
        (0, True),
        (2, False),
        (3, False),
        (4, False),
    ]
    assert found[0]["room"] == found[1]["room"] != found[2]["room"]


def test_senders_of_a_group_share_a_room(spark: SparkSession) -> None:
    found = links_of(
        spark,
        [
            (0, False, "224.0.0.224:7447", None, "a1", None, 1, 2),
            (1, False, "224.0.0.224:7447", None, "b2", None, 1, 2),
            (2, False, "[ff02::1]:7447", None, "b2", None, 1, 2),
            (3, False, "10.0.0.1:7447", None, "b2", "a1", 1, 2),
            (4, True, "10.0.0.1:7447", None, "b2", "a1", 1, 2),
        ],
    )
    assert [row["grouped"] for row in found] == [True, True, True, False, False]
    assert found[0]["room"] == found[1]["room"]
    assert len({row["room"] for row in found}) == 4
