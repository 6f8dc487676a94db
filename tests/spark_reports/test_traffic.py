"""DataFrame functions over messages: on a few rows, and against the passive reader on every capture."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_reports import traffic
from spark_reports.frames.columns import MissingColumns
from tests.spark_reports.frames import local_frame

MESSAGE = (
    "capture string, connection int, forward boolean, batch long, pieces int, offset int, packet long, "
    "time_ns long, source_zid string, target_zid string, message string, body string, key_scope long, "
    "key_suffix string, mapping boolean, key_id long, request_id long, payload_size long"
)
LINK = "capture string, connection int, session int, flipped boolean, room string, grouped boolean"

Rows = list[dict[str, Any]]
Make = Callable[..., DataFrame]


def frame_of(spark: SparkSession, columns: str, rows: Rows) -> DataFrame:
    names = [column.split()[0] for column in columns.split(", ")]
    return local_frame(spark, [tuple(row.get(name) for name in names) for row in rows], columns)


@pytest.fixture(scope="session")
def messages(spark: SparkSession) -> Make:
    """Makes messages of captures by their names: batch by batch, in the order given."""

    def make(captures: Mapping[str, Rows]) -> DataFrame:
        standard = {
            "connection": 0,
            "forward": True,
            "pieces": 0,
            "offset": 3,
            "source_zid": "a1",
            "target_zid": "b2",
        }
        filled: list[dict[str, Any]] = []
        for capture, rows in captures.items():
            for number, row in enumerate(rows):
                # Batches are numbered with holes, and beyond 32 bits.
                at = {"batch": number + 1 << 40, "packet": number + 1, "time_ns": number * 1_000}
                filled.append({**standard, "capture": capture, **at, **row})
        return frame_of(spark, MESSAGE, filled)

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


def links_for(captures: Mapping[str, Rows], special: Mapping[str, Rows]) -> Rows:
    """Every connection is a session, where nothing else is said."""
    found: Rows = []
    for capture, rows in captures.items():
        alone = {
            row.get("connection", 0): {
                "session": row.get("connection", 0),
                "flipped": False,
                "room": str(row.get("connection", 0)),
                "grouped": False,
            }
            for row in rows
        }
        for row in special.get(capture, []):
            alone[row["connection"]] |= row
        found += [{"capture": capture, "connection": number} | row for number, row in alone.items()]
    return found


# Keys ---------------------------------------------------------------------------------------------

LONG = "x" * (traffic.LONGEST_KEY - 1)

KEYS: dict[str, tuple[Rows, list[str | None]]] = {
    "an alias stands for its key": (
        [d_keyexpr(5, "robot/1"), push(5), push(5, "/pose"), push(0, "plain"), push(6)],
        ["robot/1", "robot/1", "robot/1/pose", "plain", None],
    ),
    "an alias of the other end is meant when M is clear": (
        [
            d_keyexpr(5, "ours"),
            d_keyexpr(5, "theirs", forward=False),
            push(5),
            push(5, mapping=False),
            push(5, forward=False),
            push(5, mapping=False, forward=False),
        ],
        ["ours", "theirs", "ours", "theirs", "theirs", "ours"],
    ),
    "an alias of an alias keeps its key": (
        [d_keyexpr(1, "a"), d_keyexpr(2, "/b", scope=1), u_keyexpr(1), push(2, "/c"), push(1)],
        ["a", "a/b", "a", "a/b/c", None],
    ),
    "an alias of what is not declared is none": (
        [d_keyexpr(2, "/b", scope=1), push(2), u_keyexpr(2), u_keyexpr(3)],
        [None, None, None, None],
    ),
    "an undeclared alias still holds for the other end, until it is declared again": (
        [
            d_keyexpr(1, "old"),
            u_keyexpr(1),
            push(1),
            push(1, mapping=False, forward=False),
            d_keyexpr(1, "new"),
            push(1),
            push(1, mapping=False, forward=False),
        ],
        ["old", "old", None, "old", "new", "new", "new"],
    ),
    "an alias that is declared anew has its new key": (
        [
            d_keyexpr(1, "first"),
            d_keyexpr(1, "first"),
            push(1),
            d_keyexpr(1, "second"),
            push(1),
            push(1, mapping=False, forward=False),
        ],
        ["first", "first", "first", "second", "second", "second"],
    ),
    "connections are apart": (
        [
            d_keyexpr(1, "here"),
            push(1, connection=1),
            d_keyexpr(1, "there", connection=1),
            push(1, connection=1),
        ],
        ["here", None, "there", "there"],
    ),
    "captures are apart": ([push(1)], [None]),
    "in a batch the offset is the order": (
        [push(1, batch=7, offset=3), d_keyexpr(1, "k", batch=7, offset=20), push(1, batch=7, offset=40)],
        [None, "k", "k"],
    ),
    "what came in fragments comes behind its batch": (
        [d_keyexpr(1, "k", batch=7, offset=20), push(1, batch=7, offset=0, pieces=3)],
        ["k", "k"],
    ),
    "a session of two links has one set of aliases": (
        [
            d_keyexpr(1, "k"),
            push(1, connection=1, forward=False),
            push(1, connection=1, mapping=False),
            push(1, connection=1),
        ],
        ["k", "k", "k", None],
    ),
    "an endless alias of aliases is not made": (
        [d_keyexpr(1, LONG), d_keyexpr(2, "yz", scope=1), push(2), push(1, "yz"), push(1, "y")],
        [LONG, None, None, None, LONG + "y"],
    ),
    "no key is none": (
        [push(0), {"message": "response_final", "request_id": 1}, push(2, key_scope=None)],
        ["", None, None],
    ),
}
TWO_LINKS: Rows = [{"connection": 1, "session": 0, "flipped": True, "room": "0"}]


@pytest.fixture(scope="module")
def found_keys(spark: SparkSession, messages: Make) -> dict[str, list[str | None]]:
    captures = {name: rows for name, (rows, _) in KEYS.items()}
    frame = messages(captures)
    links = links_for(captures, {"a session of two links has one set of aliases": TWO_LINKS})
    linked = frame_of(spark, LINK, links)
    keyed = traffic.keys(frame, traffic.aliases(frame, linked))
    found: dict[str, list[str | None]] = {}
    for row in keyed.orderBy("capture", "batch", "pieces", "offset").collect():
        found.setdefault(row.capture, []).append(row.keyexpr)
    return found


@pytest.mark.parametrize("name", KEYS)
def test_message_refers_to_a_key_it_is_full(name: str, found_keys: dict[str, list[str | None]]) -> None:
    assert found_keys[name] == KEYS[name][1]


# Requests -----------------------------------------------------------------------------------------

REQUESTS: dict[str, tuple[Rows, list[tuple[Any, ...]]]] = {
    "answers and end": (
        [request(7), response(7), response(7, "err"), final(7)],
        [(1, "q", 1, 1, 1_000, 3_000, 1)],
    ),
    "an id is used again": (
        [request(7), response(7), final(7), response(7), final(7), request(7), final(7), request(7)],
        [(1, "q", 2, 0, 1_000, 2_000, 2), (6, "q", 0, 0, None, 1_000, 1), (8, "q", 0, 0, None, None, 0)],
    ),
    "both ends ask under one id": (
        [request(7), request(7, forward=False), response(7, forward=True), final(7), final(7, forward=True)],
        [(1, "q", 0, 0, None, 3_000, 1), (2, "q", 1, 0, 1_000, 3_000, 1)],
    ),
    "the request was not captured": ([response(9), final(9)], [(None, None, 1, 0, None, None, 1)]),
    "a group answers": (
        [request(3), response(3, connection=1, forward=True), final(3, connection=1, forward=True)],
        [(1, "q", 1, 0, 1_000, 2_000, 1)],
    ),
    "the answer comes on another link": (
        [request(3), response(3, connection=1, forward=True), final(3, connection=1, forward=True)],
        [(1, "q", 1, 0, 1_000, 2_000, 1)],
    ),
}


@pytest.fixture(scope="module")
def exchanged(spark: SparkSession, messages: Make) -> DataFrame:
    """Returns the requests of all captures."""
    captures = {name: rows for name, (rows, _) in REQUESTS.items()}
    group: Rows = [{"connection": number, "room": "224.0.0.1", "grouped": True} for number in (0, 1)]
    links = links_for(captures, {"a group answers": group, "the answer comes on another link": TWO_LINKS})
    linked = frame_of(spark, LINK, links)
    frame = messages(captures)
    keyed = traffic.keys(frame, traffic.aliases(frame, linked))
    return traffic.requests(keyed, linked).localCheckpoint()


@pytest.fixture(scope="module")
def found_requests(exchanged: DataFrame) -> Rows:
    return [row.asDict() for row in exchanged.orderBy("capture", "packet").collect()]


@pytest.mark.parametrize("name", REQUESTS)
def test_request_is_seen_its_answers_and_times_are_told(name: str, found_requests: Rows) -> None:
    columns = ("packet", "keyexpr", "replies", "errors", "first_answer_ns", "final_ns", "finals")
    found = [tuple(row[column] for column in columns) for row in found_requests if row["capture"] == name]
    assert found == REQUESTS[name][1]


def test_requests_are_added_up(exchanged: DataFrame) -> None:
    told = traffic.latencies(exchanged).collect()[0]
    assert (told.sent, told.answered, told.unanswered, told.finals_without_request) == (8, 7, 1, 2)
    assert (told.first_answer_count, told.first_answer_min, told.first_answer_max) == (5, 1_000, 1_000)
    assert (told.final_count, told.final_min, told.final_median, told.final_max) == (7, 1_000, 2_000, 3_000)


# Events and rates ---------------------------------------------------------------------------------

SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def events(messages: Make) -> DataFrame:
    start = 1_700_000_000 * SECOND
    frame = messages(
        {
            "a": [
                request(7, time_ns=start),
                response(7, "err", time_ns=start),
                final(7, time_ns=start),
                push(0, "k", time_ns=start),
                push(0, "k", time_ns=start + SECOND - 1),
                push(0, "k", time_ns=start + SECOND, body="del", payload_size=None),
                push(0, "k", time_ns=start + 3 * SECOND + 5),
                push(9, "unknown", time_ns=start),
            ]
        }
    )
    return traffic.events(traffic.keys(frame, traffic.aliases(frame))).localCheckpoint()


def test_error_names_no_key_event_has_that_of_the_request(events: DataFrame) -> None:
    found = events.groupBy("event", "keyexpr").count().collect()
    assert {(row.event, row.keyexpr): row["count"] for row in found} == {
        ("query", "q"): 1,
        ("reply_err", "q"): 1,
        ("put", "k"): 3,
        ("delete", "k"): 1,
        ("put", None): 1,
    }


def test_rates_count_by_interval_and_key(events: DataFrame) -> None:
    found = traffic.rates(events.where("keyexpr = 'k'"), 1.0).orderBy("start").collect()
    assert [
        (row.start.timestamp(), row.puts, row.deletes, row.events, row.payload_bytes, row.per_second)
        for row in found
    ] == [
        (1_700_000_000.0, 2, 0, 2, 8, 2.0),
        (1_700_000_001.0, 0, 1, 1, 0, 1.0),
        (1_700_000_003.0, 1, 0, 1, 4, 1.0),
    ]


def test_rates_count_by_node(events: DataFrame) -> None:
    found = traffic.rates(events, 2.0, by=("source_zid",)).orderBy("start").collect()
    assert [(row.source_zid, row.events, row.per_second) for row in found] == [("a1", 6, 3.0), ("a1", 1, 0.5)]


@pytest.mark.parametrize("interval", [0, -1.0, 1e-10])
def test_interval_is_nothing_error_says_so(interval: float, events: DataFrame) -> None:
    with pytest.raises(ValueError, match="at least a nanosecond"):
        traffic.rates(events, interval)


def test_column_is_missing_error_names_it(messages: Make) -> None:
    with pytest.raises(MissingColumns, match="no column key_id"):
        traffic.aliases(messages({"a": [push(0)]}).drop("key_id"))


# Links --------------------------------------------------------------------------------------------

CONNECTION = (
    "connection int, multicast boolean, target string, dport int, multilink boolean, source_zid string, target_zid string, "
    "first_packet long, last_packet long, capture string"
)


def test_links_belong_together_as_sessions_and_rooms(spark: SparkSession) -> None:
    rows = [
        (0, False, "10.0.0.2", 7447, True, "a1", "b2", 1, 50, "multilink"),
        (1, False, "10.0.0.1", 7447, True, "b2", "a1", 20, 90, "multilink"),
        (2, False, "10.0.0.2", 7447, True, "a1", "b2", 91, 99, "multilink"),
        (3, False, "10.0.0.2", 7447, False, "a1", "b2", 1, 99, "multilink"),
        (4, False, "10.0.0.2", 7447, None, None, None, 1, 99, "multilink"),
        (0, True, "224.0.0.224", 7447, None, "a1", None, 1, 2, "groups"),
        (1, True, "224.0.0.224", 7447, None, "b2", None, 1, 2, "groups"),
        (2, True, "ff02::1", 7447, None, "b2", None, 1, 2, "groups"),
        (3, False, "10.0.0.1", 7447, None, "b2", "a1", 1, 2, "groups"),
        (4, False, "10.0.0.1", 7447, None, "b2", "a1", 1, 2, "groups"),
    ]
    found = traffic.links(local_frame(spark, rows, CONNECTION)).orderBy("capture", "connection").collect()
    united = [row for row in found if row.capture == "multilink"]
    assert [(row.session, row.flipped) for row in united] == [
        (0, False),
        (0, True),
        (2, False),
        (3, False),
        (4, False),
    ]
    assert united[0].room == united[1].room != united[2].room
    groups = [row for row in found if row.capture == "groups"]
    assert [row.grouped for row in groups] == [True, True, True, False, False]
    assert groups[0].room == groups[1].room
    assert len({row.room for row in groups}) == 4


# Sessions -----------------------------------------------------------------------------------------


def test_sessions_of_a_table_that_does_not_know_disorder_say_so(spark: SparkSession, messages: Make) -> None:
    columns = (
        f"{CONNECTION}, source string, sport int, lowlatency boolean, compression boolean, disordered boolean"
    )
    standard = {"capture": "a", "target": "b", "dport": 7447, "source": "a", "multicast": False}
    rows = [standard | {"connection": number, "disordered": number == 1} for number in range(2)]
    connections = frame_of(spark, columns, rows)
    heard = messages({"a": [push(0), push(0, connection=1)]})
    found = traffic.sessions(connections, heard).orderBy("session")
    saved_before = traffic.sessions(connections.drop("disordered"), heard).orderBy("session")
    assert [row.disordered for row in found.collect()] == [0, 1]
    assert [row.disordered for row in saved_before.collect()] == [None, None]
    assert saved_before.schema["disordered"].dataType == found.schema["disordered"].dataType
