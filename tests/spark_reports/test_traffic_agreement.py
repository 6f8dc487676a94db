"""What Spark says of every capture is what the passive reader says, message by message and in sum."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from scapy_layers import capture, names
from scapy_layers.codes import Kind
from scapy_layers.conversation import Conversations, Heard, Unread
from scapy_layers.conversation.identify import is_batch
from scapy_layers.message import Message
from scapy_layers.statistics import Statistics
from scapy_layers.stream import Gap, units
from spark_reports import traffic
from spark_reports.captures import traffic_report
from tests.scapy_layers.test_lint import disordered

PCAPS = Path(__file__).parents[2] / "pcaps"
CAPTURES = sorted(PCAPS.glob("*.pcapng"))
OUT_OF_ORDER = ("mixed", "udp6")
"""Captures that are read once more, with the questions behind their answers."""

Told = dict[str, Any]


def table_of(message: Message) -> str:
    return names.layer_name(type(message).shape())


@dataclass
class Passive:
    """What the passive reader says of all captures."""

    messages: Counter[tuple[Any, ...]]
    requests: Counter[tuple[Any, ...]]
    statistics: dict[str, Any]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    late = [
        disordered(stem, tmp_path_factory.mktemp(stem)).rename(
            tmp_path_factory.mktemp("late") / f"{stem}.pcap"
        )
        for stem in OUT_OF_ORDER
    ]
    return [*CAPTURES, *late]


@pytest.fixture(scope="module")
def passive(captures: list[Path]) -> Passive:
    messages: Counter[tuple[Any, ...]] = Counter()
    requests: Counter[tuple[Any, ...]] = Counter()
    statistics = Statistics()
    for path in captures:
        conversations = Conversations()
        asked: dict[int, Any] = {}
        statistics.begin()

        def segments(path: Path = path) -> Iterator[capture.Segment]:
            for segment in capture.read(path):
                statistics.packet(segment)
                yield segment

        for unit in units(segments(), plausible=is_batch):
            if isinstance(unit, Gap):
                statistics.take(unit)
            for heard in conversations.hear(unit):
                statistics.take(heard)
                if not isinstance(heard.message, Unread):
                    messages[message_of(path, heard)] += 1
                if heard.exchange is not None and heard.exchange.kind == "query":
                    asked[id(heard.exchange)] = heard.exchange
        statistics.end(conversations)
        for one in asked.values():
            ended = None if one.ended_time is None else one.ended_time - one.asked_time
            first = one.answers[0].time - one.asked_time if one.answers else None
            requests[path.name, one.asked, one.id, one.keyexpr or None, one.answered, first, ended] += 1
    return Passive(messages, requests, statistics.as_data(top=1_000))


def message_of(path: Path, heard: Heard) -> tuple[Any, ...]:
    message = heard.message
    body = message.fields.get("body")
    value = None if body is None else body.fields.get("body")
    network = message.kind is Kind.NETWORK
    return (
        path.name,
        heard.number,
        heard.way.forward,
        table_of(message),
        None if body is None else table_of(body),
        None if value is None else table_of(value),
        heard.lane.reliable if network and heard.lane else None,
        heard.keyexpr if _says_key(message) else None,
        len(heard.pieces),
    )


TAKEN_BACK = ("u_subscriber", "u_queryable", "u_token")


def _says_key(message: Message) -> bool:
    """Others have the key of what they belong to: a RESPONSE_FINAL, an undeclaration."""
    said = message.fields.get("body") if table_of(message) == "declare" else message
    return "key_scope" in said.fields or table_of(said) == "u_keyexpr"


Read = tuple[DataFrame, DataFrame, DataFrame]


@pytest.fixture(scope="module")
def read(spark: SparkSession, captures: list[Path]) -> Read:
    """The tables that ``made`` keeps while it is in use."""
    return traffic_report.read(spark, [str(path) for path in captures])


@pytest.fixture(scope="module")
def made(read: Read) -> Iterator[traffic_report.Frames]:
    with traffic_report.frames(*read) as frames:
        yield frames


MESSAGE = (
    "capture",
    "packet",
    "forward",
    "message",
    "body",
    "value",
    "reliable",
    "keyexpr",
    "pieces",
)


def test_messages_of_every_capture_are_the_same(made: traffic_report.Frames, passive: Passive) -> None:
    rows = made.keyed.select(*MESSAGE).collect()
    network = {"push", "request", "response", "response_final", "declare", "interest", "network_oam"}
    found = Counter(
        (
            Path(row.capture).name,
            row.packet,
            row.forward,
            row.message,
            row.body,
            row.value,
            row.reliable if row.message in network else None,
            None if row.body in TAKEN_BACK else row.keyexpr,
            row.pieces,
        )
        for row in rows
    )
    assert sorted((passive.messages - found).items(), key=str)[:5] == []
    assert sorted((found - passive.messages).items(), key=str)[:5] == []


def test_alike_messages_that_count_as_one_have_the_same_keys(
    spark: SparkSession, made: traffic_report.Frames, read: Read, captures: list[Path]
) -> None:
    names = [str(path) for path in captures]
    _, connections, _ = read
    links = traffic.links(connections)
    source = spark.read.format("zenoh").option("count", "true").option("columns", traffic.KEY_COLUMNS)
    counted = source.load(names).cache()
    by = ("capture", "message", "body", "keyexpr")
    keyed = traffic.keys(counted, traffic.aliases(counted, links)).groupBy(*by).agg(sf.sum("count"))
    apart = Counter(map(tuple, made.keyed.groupBy(*by).count().collect()))
    assert Counter(map(tuple, keyed.collect())) == apart
    assert counted.count() < sum(messages for *_, messages in apart)
    counted.unpersist()


def test_requests_of_every_capture_are_the_same(made: traffic_report.Frames, passive: Passive) -> None:
    rows = made.requests.where("packet is not null").collect()
    found = Counter(
        (
            Path(row.capture).name,
            row.packet,
            row.request_id,
            row.keyexpr,
            row.replies + row.errors,
            row.first_answer_ns,
            row.final_ns,
        )
        for row in rows
    )
    assert sorted((passive.requests - found).items(), key=str)[:5] == []
    assert sorted((found - passive.requests).items(), key=str)[:5] == []


def test_sums_over_all_captures_are_the_same(made: traffic_report.Frames, passive: Passive) -> None:
    told = traffic_report.collect(made, 1.0, lambda _: None)
    statistics = passive.statistics
    requests = statistics["requests"]
    for name in ("sent", "answered", "unanswered", "finals_without_request"):
        assert getattr(told.latency, name) == requests[name], name
    for name, ours in (("to_first_reply", "first_answer"), ("to_final", "final")):
        for field in ("count", "min", "median", "max"):
            assert getattr(told.latency, f"{ours}_{field}") == requests[name][field], (name, field)
    numbers = ("events", "puts", "deletes", "queries", "replies", "errors", "payload_bytes")
    keys = {row["keyexpr"]: row for row in statistics["keys"]["listed"]}
    found = {row.keyexpr: row.asDict() for row in traffic.totals(made.events).collect()}
    assert {key: [row[name] for name in numbers] for key, row in keys.items()} == {
        key: [row[name] for name in numbers] for key, row in found.items() if key is not None
    }
    assert {name: getattr(told.total, name) for name in numbers} == {
        name: statistics["keys"]["total"][name] for name in numbers
    }
    assert told.disordered == statistics["disordered_links"] > 0
    gaps = statistics["gaps"]
    assert told.lost == sum(line.gaps for line in told.gaps) == gaps["count"]
    assert sum(line.missing_bytes for line in told.gaps) == gaps["missing_bytes"]
    assert sum(line.skipped_bytes for line in told.gaps) == gaps["skipped_bytes"]


def test_nodes_and_sessions_of_all_captures_are_the_same(
    made: traffic_report.Frames, passive: Passive
) -> None:
    nodes = {
        row["zid"]: (row["messages"], row["payload_bytes"]) for row in passive.statistics["zids"]["listed"]
    }
    rows = traffic_report.nodes(made.keyed, made.events).where("zid is not null").collect()
    assert {row.zid: (row.messages, row.payload_bytes) for row in rows} == nodes
    sessions = Counter(
        (frozenset(row["zids"]), len(row["links"]), row["messages"])
        for row in passive.statistics["sessions"]["listed"]
    )
    rows = made.sessions.collect()
    found = Counter(
        (frozenset((row.source_zid, row.target_zid)), row.connections, row.messages) for row in rows
    )
    assert (sessions - found, found - sessions) == (Counter(), Counter())
    links = {f"{row['first']} -> {row['second']}" for row in passive.statistics["links"]["listed"]}
    assert {row.ends for row in rows} <= links
