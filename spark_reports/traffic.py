"""Traffic of captures as DataFrame functions: full keys, requests and their times, rates, sessions, gaps.

They take what ``capture_source`` reads and return DataFrames; they hold no session and start nothing. What
they say equals what ``scapy_layers.samples`` and ``scapy_layers.statistics`` say of the same capture, only
that a refused message changes nothing here and that there is no bound on what is remembered.

::

    traffic.register(spark)
    captures = spark.read.format("zenoh")
    messages = captures.load("captures/*.pcapng")
    links = traffic.links(captures.option("table", "connections").load("captures/*.pcapng"))
    keyed = traffic.keys(messages, traffic.aliases(messages, links))
    traffic.requests(keyed, links)                     # one row for each request, with the time to its answers
    traffic.rates(traffic.events(keyed, links), 1.0)   # per key and second

Times are in ns, as ``long``: ``time_ns`` since 1970, ``latency_ns`` a difference.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark_reports.engine.progress import is_connect
from spark_reports.engine.settings import is_local
from spark_reports.frames.columns import require

COUNTED = {
    "put": "puts",
    "delete": "deletes",
    "query": "queries",
    "reply": "replies",
    "reply_err": "errors",
}
"""What is counted of a key: kinds of events, and the columns of their numbers."""

LONGEST_KEY = 1 << 16
"""Characters. A longer key cannot be said without an alias; an alias of aliases may grow without end."""

NS = 1_000_000_000

_AT = ("capture", "connection", "forward", "batch", "pieces", "offset")
_REFERENCE = ("key_scope", "key_suffix", "mapping")
KEY_COLUMNS = ",".join(("message", "body", "key_id", *_AT, *_REFERENCE))
"""What ``columns`` says where only keys are of interest; with ``count`` alike messages come as one then.

::

    counted = captures.option("columns", traffic.KEY_COLUMNS).option("count", "true").load(...).cache()
    keyed = traffic.keys(counted, traffic.aliases(counted))
    keyed.groupBy("keyexpr").agg(sf.sum("count"))
"""

_EXCHANGED = ("request", "response", "response_final")


def register(spark: SparkSession) -> None:
    """Makes ``spark.read.format("zenoh")`` known to a session; see ``capture_source`` for its options."""
    from spark_reports.captures.capture_source import CaptureSource

    # Without it Spark refuses sources that take filters, which ours does when asked to.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    if (
        not is_connect(spark)
        and is_local(spark.sparkContext.master or "")
        and "PYSPARK_PYTHON" not in os.environ
    ):
        # Else workers run the first python3 of the path, which need not have any of this installed.
        spark.sparkContext.pythonExec = sys.executable
    spark.dataSource.register(CaptureSource)


# Links --------------------------------------------------------------------------------------------


def links(connections: DataFrame) -> DataFrame:
    """Returns which connections belong together, from the table ``connections``.

    Columns: ``capture connection session flipped room grouped``. A session has one connection or, where both
    nodes agreed on several links, or connected to each other, all connections between these two
    that overlap; its number is that of the first one. ``flipped``: the first end of the session is the second one of
    this connection. ``room`` is what shares request ids: the session or, when ``grouped``, all senders of a
    multicast group.
    """
    require(connections, "capture", "connection", "target", "dport", "multicast", "multilink")
    require(connections, "source_zid", "target_zid", "first_packet", "last_packet")
    known = sf.col("source_zid").isNotNull() & sf.col("target_zid").isNotNull()
    zids = sf.concat_ws(" ", sf.array_sort(sf.array("source_zid", "target_zid")))
    pair = sf.when(sf.col("multilink") & known, zids).otherwise(sf.col("connection").cast("string"))
    in_turn = Window.partitionBy("capture", "pair").orderBy("first_packet", "connection")
    ended = sf.max("last_packet").over(in_turn.rowsBetween(Window.unboundedPreceding, -1))
    begins = sf.coalesce(sf.col("first_packet") > ended, sf.lit(True))
    so_far = in_turn.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    leader = sf.when(begins, sf.struct("connection", "source_zid"))
    group = sf.when(sf.col("multicast"), _endpoint("target", "dport"))
    own = sf.concat(sf.lit("session "), sf.col("session").cast("string"))
    return (
        connections.withColumn("pair", pair)
        .withColumn("leader", leader)
        .withColumn("leader", sf.last("leader", ignorenulls=True).over(so_far))
        .withColumn("session", sf.col("leader.connection"))
        .withColumn(
            "flipped", sf.coalesce(sf.col("leader.source_zid") != sf.col("source_zid"), sf.lit(False))
        )
        .withColumn("room", sf.coalesce(group, own))
        .select("capture", "connection", "session", "flipped", "room", group.isNotNull().alias("grouped"))
    )


def _endpoint(address: str, port: str) -> Column:
    host = sf.when(sf.col(address).contains(":"), sf.format_string("[%s]", address)).otherwise(
        sf.col(address)
    )
    return sf.concat_ws(":", host, port)


def place() -> Column:
    """Returns where a message stands in its capture: something that grows from message to message.

    A message put together from fragments comes behind the others of the batch in which it was completed.
    """
    return sf.struct(sf.col("batch").cast("long").alias("batch"), _at().alias("at"))


def _at() -> Column:
    """Returns where a message stands in its batch."""
    offset = sf.col("offset").cast("long")
    return sf.when(sf.col("pieces") > 0, offset + sf.lit(1 << 40)).otherwise(offset)


def _behind(place: str) -> Column:
    """Tells whether a message stands behind a place; plain numbers are compared faster than structs."""
    batch = sf.col("batch").cast("long")
    return (batch > sf.col(f"{place}.batch")) | (
        (batch == sf.col(f"{place}.batch")) & (_at() > sf.col(f"{place}.at"))
    )


# Keys ---------------------------------------------------------------------------------------------

PLACE = "struct<batch: long, at: long>"
ALIASES = (
    f"capture string, session long, side boolean, key_id long, alias string, since {PLACE}, until_own {PLACE}, "
    f"until {PLACE}"
)
"""What ``aliases`` finds in one session: the end that declared, the number, the key, and the places between which
its own messages, and those of the other end, may use it."""


def aliases(messages: DataFrame, links: DataFrame | None = None) -> DataFrame:
    """Returns for each connection the numbers that stood for keys, and where in the capture they did.

    Columns: ``capture connection forward key_id alias since until_own until``: in messages behind the place
    ``since``, up to ``until_own`` in those of the end that declared it (``forward``), up to ``until`` in those
    of the other end, which may be under way when it is undeclared. Null is no end.

    Args:
        messages: The table ``messages``.
        links: As from ``links``; without it every connection is a session.
    """
    require(messages, *_AT, *_REFERENCE, "body", "key_id")
    declared = messages.where(sf.col("body").isin("d_keyexpr", "u_keyexpr"))
    of_session = (
        _joined(declared, links)
        .select(
            "capture",
            "session",
            _side().alias("side"),
            place().alias("place"),
            (sf.col("body") == "d_keyexpr").alias("declares"),
            sf.col("key_id").cast("long").alias("key_id"),
            sf.col("key_scope").cast("long").alias("key_scope"),
            "key_suffix",
        )
        .groupBy("capture", "session")
        .applyInArrow(_lifetimes, ALIASES)
    )
    if links is None:
        shared = of_session.withColumn("connection", sf.col("session").cast("int")).withColumn(
            "flipped", sf.lit(False)
        )
    else:
        # Of a session all connections: an alias may be declared on one and used on another.
        wide = links.select(
            "capture", "connection", sf.col("session").cast("long").alias("session"), "flipped"
        )
        shared = of_session.join(wide, ["capture", "session"])
    return shared.select(
        "capture",
        "connection",
        (sf.col("side") != sf.col("flipped")).alias("forward"),
        "key_id",
        "alias",
        "since",
        "until_own",
        "until",
    )


def keys(messages: DataFrame, aliases: DataFrame) -> DataFrame:
    """Adds ``keyexpr``, the full key that a message means; of an U_KEYEXPR the one that is taken back.

    Null where there is none, or where its alias was declared before the capture began. Aliases go to every
    worker; the messages stay where they are.
    """
    require(messages, *_AT, *_REFERENCE, "body", "key_id")
    require(aliases, "capture", "connection", "forward", "key_id", "alias", "since", "until_own", "until")
    retired = sf.col("body") == "u_keyexpr"
    number = sf.when(retired, sf.col("key_id")).otherwise(sf.col("key_scope")).cast("long")
    own = sf.coalesce(retired | sf.col("mapping"), sf.lit(True))
    asked = messages.withColumn("_number", sf.when(number > 0, number)).withColumn("_own", own)
    known = sf.broadcast(
        aliases.select(
            sf.col("capture").alias("_capture"),
            sf.col("connection").alias("_connection"),
            sf.col("forward").alias("_owner"),
            sf.col("key_id").alias("_key_id"),
            sf.col("alias").alias("_alias"),
            sf.col("since").alias("_since"),
            sf.col("until_own").alias("_until_own"),
            sf.col("until").alias("_until"),
        )
    )
    over = sf.when(sf.col("_own"), _behind("_until_own")).otherwise(_behind("_until"))
    fits = (
        (sf.col("capture") == sf.col("_capture"))
        & (sf.col("connection") == sf.col("_connection"))
        & (sf.col("_number") == sf.col("_key_id"))
        & ((sf.col("forward") == sf.col("_own")) == sf.col("_owner"))
        & _behind("_since")
        & ~sf.coalesce(over, sf.lit(False))
    )
    suffix = sf.coalesce(sf.col("key_suffix"), sf.lit(""))
    length = sf.length("_alias") + sf.length(suffix)
    full = sf.when(sf.col("key_scope") == 0, suffix).when(
        length <= LONGEST_KEY, sf.concat(sf.col("_alias"), suffix)
    )
    return asked.join(known, fits, "left").select(*messages.columns, full.alias("keyexpr"))


def _lifetimes(table: pa.Table) -> pa.Table:
    """Goes through the declarations of one session in order, as ``scapy_layers.conversation.aliases`` does.

    What takes an alias back may not be in the capture, so one that is declared anew has its new key.
    """
    found: list[dict[str, Any]] = []
    in_use: dict[tuple[bool, int], dict[str, Any]] = {}
    for row in sorted(table.to_pylist(), key=_in_order):
        name = row["side"], row["key_id"]
        known = in_use.get(name)
        if not row["declares"]:
            if known is not None and known["until_own"] is None:
                known["until_own"] = row["place"]
            continue
        key = row["key_suffix"] or ""
        if row["key_scope"]:
            built_on = in_use.get((row["side"], row["key_scope"]))
            if built_on is None or built_on["until_own"] is not None:
                continue
            key = f"{built_on['alias']}{key}"
        if len(key) > LONGEST_KEY:
            continue
        if known is not None:
            if known["until_own"] is None:
                if known["alias"] == key:
                    continue
                known["until_own"] = row["place"]
            known["until"] = row["place"]
        in_use[name] = {
            "capture": row["capture"],
            "session": row["session"],
            "side": row["side"],
            "key_id": row["key_id"],
            "alias": key,
            "since": row["place"],
            "until_own": None,
            "until": None,
        }
        found.append(in_use[name])
    return pa.Table.from_pylist(found, schema=_ALIASES)


def _in_order(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(row["place"].values())


_PLACE = pa.struct([("batch", pa.int64()), ("at", pa.int64())])
_ALIASES = pa.schema(
    [
        ("capture", pa.string()),
        ("session", pa.int64()),
        ("side", pa.bool_()),
        ("key_id", pa.int64()),
        ("alias", pa.string()),
        ("since", _PLACE),
        ("until_own", _PLACE),
        ("until", _PLACE),
    ]
)


def _joined(messages: DataFrame, links: DataFrame | None) -> DataFrame:
    """Adds ``session flipped room grouped``."""
    if links is None:
        return (
            messages.withColumn("session", sf.col("connection").cast("long"))
            .withColumn("flipped", sf.lit(False))
            .withColumn("room", sf.col("connection").cast("string"))
            .withColumn("grouped", sf.lit(False))
        )
    require(links, "capture", "connection", "session", "flipped", "room", "grouped")
    wide = links.withColumn("session", sf.col("session").cast("long"))
    return messages.join(sf.broadcast(wide), ["capture", "connection"])


def _side() -> Column:
    """Returns which end of its session speaks: true for the first one."""
    return sf.col("forward") != sf.col("flipped")


# Requests -----------------------------------------------------------------------------------------


def exchanges(keyed: DataFrame, links: DataFrame | None = None) -> DataFrame:
    """Returns the messages of requests, each with the request that it belongs to.

    Adds ``room grouped asker turn asked``: requests of one end of a session with one id take turns, from 1;
    ``asked`` is the request (``packet time_ns keyexpr source_zid target_zid connection``), null with turn 0 where
    it was not captured. An answer behind the end of its request still belongs to it until the id is used again.
    """
    require(keyed, *_AT, "message", "request_id", "packet", "time_ns", "keyexpr", "source_zid", "target_zid")
    asks = sf.col("message") == "request"
    # In a group nobody can tell whose request is answered.
    asker = sf.col("grouped") | (asks == _side())
    in_order = Window.partitionBy("capture", "room", "asker", "request_id").orderBy("_place")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    asked = sf.struct("packet", "time_ns", "keyexpr", "source_zid", "target_zid", "connection")
    return (
        _joined(keyed.where(sf.col("message").isin(*_EXCHANGED)), links)
        .withColumn("asker", asker)
        .withColumn("_place", place())
        .withColumn("turn", sf.count(sf.when(asks, True)).over(so_far))
        .withColumn("asked", sf.last(sf.when(asks, asked), ignorenulls=True).over(so_far))
        .drop("session", "flipped")
    )


def requests(keyed: DataFrame, links: DataFrame | None = None) -> DataFrame:
    """Returns one row for each request, and one for each id that was answered but not asked for in the capture.

    Columns: ``capture connection request_id packet time_ns keyexpr source_zid target_zid`` of the request (null,
    but for the id, where it was not captured), ``replies errors`` as counted, ``first_answer_ns final_ns`` from
    the request to its first answer and to its end (null without), ``finals``: how often its end was said.
    """
    row = exchanges(keyed, links)
    answer = sf.col("message") == "response"
    final = sf.col("message") == "response_final"
    asked = sf.col("asked")
    return (
        row.groupBy("capture", "room", "asker", "request_id", "turn")
        .agg(
            sf.first("asked").alias("asked"),
            sf.min_by("connection", "_place").alias("_connection"),
            sf.count(sf.when(sf.col("body") == "reply", True)).alias("replies"),
            sf.count(sf.when(sf.col("body") == "err", True)).alias("errors"),
            sf.min_by("time_ns", sf.when(answer, sf.col("_place"))).alias("_answered"),
            sf.min_by("time_ns", sf.when(final, sf.col("_place"))).alias("_ended"),
            sf.count(sf.when(final, True)).alias("finals"),
        )
        .select(
            "capture",
            sf.coalesce(asked["connection"], "_connection").alias("connection"),
            "request_id",
            asked["packet"].alias("packet"),
            asked["time_ns"].alias("time_ns"),
            sf.nullif(asked["keyexpr"], sf.lit("")).alias("keyexpr"),
            asked["source_zid"].alias("source_zid"),
            asked["target_zid"].alias("target_zid"),
            "replies",
            "errors",
            (sf.col("_answered") - asked["time_ns"]).alias("first_answer_ns"),
            (sf.col("_ended") - asked["time_ns"]).alias("final_ns"),
            "finals",
        )
    )


def latencies(requests: DataFrame) -> DataFrame:
    """Returns one row: how many requests there were, and how long answers took.

    Columns: ``sent answered unanswered finals_without_request`` and, for ``first_answer`` and ``final``,
    ``_count _min _median _p99 _max`` in ns; null when there are none. The median is one of the times, of two the
    lower.
    """
    require(requests, "packet", "finals", "first_answer_ns", "final_ns")
    sent = sf.col("packet").isNotNull()
    answered = sf.count(sf.when(sent & (sf.col("finals") > 0), True))
    spreads = []
    for name in ("first_answer", "final"):
        taken = sf.col(f"{name}_ns")
        spreads += [
            sf.count(taken).alias(f"{name}_count"),
            sf.min(taken).alias(f"{name}_min"),
            _least_above(f"{name}_ns", 0.5).alias(f"{name}_median"),
            _least_above(f"{name}_ns", 0.99).alias(f"{name}_p99"),
            sf.max(taken).alias(f"{name}_max"),
        ]
    return requests.agg(
        sf.count(sf.when(sent, True)).alias("sent"),
        answered.alias("answered"),
        (sf.count(sf.when(sent, True)) - answered).alias("unanswered"),
        (sf.coalesce(sf.sum("finals"), sf.lit(0)) - answered).alias("finals_without_request"),
        *spreads,
    )


def _least_above(name: str, share: float) -> Column:
    """Returns the least value of a column that such a share of them does not exceed."""
    # As a function of Python it does not exist.
    return sf.expr(f"cast(percentile_disc({share}) WITHIN GROUP (ORDER BY {name}) AS bigint)")


# Events and rates ---------------------------------------------------------------------------------


def events(keyed: DataFrame, links: DataFrame | None = None) -> DataFrame:
    """Returns what travelled: values, deletions, queries and replies.

    Columns: ``capture connection event keyexpr time_ns source_zid target_zid payload_size``; ``event`` is one of
    ``COUNTED``. An error names no key: it has that of its request.
    """
    require(keyed, *_AT, "message", "body", "keyexpr", "time_ns", "payload_size")
    body = sf.col("body")
    event = (
        sf.when(body == "put", "put")
        .when(body == "del", "delete")
        .when(body == "query", "query")
        .when(body == "reply", "reply")
        .when(body == "err", "reply_err")
    )
    columns = (
        "capture",
        "connection",
        "event",
        "keyexpr",
        "time_ns",
        "source_zid",
        "target_zid",
        "payload_size",
    )
    own = sf.nullif(sf.col("keyexpr"), sf.lit(""))
    answers = sf.when(sf.col("message") == "response", sf.nullif(sf.col("asked.keyexpr"), sf.lit("")))
    pushed = keyed.where("message = 'push'").withColumn("keyexpr", own)
    exchanged = exchanges(keyed, links).where("message <> 'response_final'")
    exchanged = exchanged.withColumn("keyexpr", sf.coalesce(own, answers))
    both = [
        frame.withColumn("event", event).where("event is not null").select(*columns)
        for frame in (pushed, exchanged)
    ]
    return both[0].unionByName(both[1])


def rates(events: DataFrame, interval: float, by: Sequence[str] = ("keyexpr",)) -> DataFrame:
    """Returns one row for each interval in which something travelled, and for each key or node.

    Columns: ``by``, ``start`` (timestamp), the numbers as in ``totals``, ``per_second``, ``bytes_per_second``.

    Args:
        events: As from ``events``.
        interval: Seconds; intervals begin at whole multiples of it since 1970.
        by: ``keyexpr``, ``source_zid``, ``capture``, ``connection``, or several, or none.
    """
    require(events, "event", "time_ns", "payload_size", *by)
    step = _step(interval)
    start = sf.col("time_ns") - sf.pmod(sf.col("time_ns"), sf.lit(step))
    grouped = events.withColumn("_start", start).groupBy(*by, "_start").agg(*_numbers())
    return grouped.select(
        *by,
        sf.timestamp_micros((sf.col("_start") / 1000).cast("long")).alias("start"),
        *(name for name in grouped.columns if name not in {*by, "_start"}),
        (sf.col("events") / sf.lit(step / NS)).alias("per_second"),
        (sf.col("payload_bytes") / sf.lit(step / NS)).alias("bytes_per_second"),
    )


def totals(events: DataFrame, by: Sequence[str] = ("keyexpr",)) -> DataFrame:
    """Returns one row for each key, or whatever ``by`` says, over all time.

    Columns: ``by``, ``events puts deletes queries replies errors payload_bytes first_ns last_ns``.
    """
    require(events, "event", "time_ns", "payload_size", *by)
    seen = (sf.min("time_ns").alias("first_ns"), sf.max("time_ns").alias("last_ns"))
    return events.groupBy(*by).agg(*_numbers(), *seen)


def _numbers() -> list[Column]:
    kinds = (sf.count(sf.when(sf.col("event") == event, True)).alias(name) for event, name in COUNTED.items())
    size = sf.coalesce(sf.sum("payload_size"), sf.lit(0)).alias("payload_bytes")
    return [sf.count("*").alias("events"), *kinds, size]


def _step(interval: float) -> int:
    step = round(interval * NS)
    if step <= 0:
        raise ValueError(f"an interval of {interval} s; it must be at least a nanosecond")
    return step


# Sessions and gaps --------------------------------------------------------------------------------


def sessions(connections: DataFrame, messages: DataFrame) -> DataFrame:
    """Returns one row for each session: who talks to whom, on how many connections, how much and how long.

    Scouting is no session.

    Columns: ``capture session source_zid target_zid ends connections grouped lowlatency compression messages
    first_ns last_ns disordered``; ``ends`` are the addresses of the first connection, ``disordered`` is how many of
    the connections were captured out of order: answers may stand in front of what they answer. It is null for a
    table ``connections`` that was saved before it said so.
    """
    require(connections, "source", "sport", "lowlatency", "compression")
    late = sf.col("disordered") if "disordered" in connections.columns else sf.lit(None)
    require(messages, "capture", "connection", "message", "time_ns")
    ends = sf.concat_ws(" -> ", _endpoint("source", "sport"), _endpoint("target", "dport"))
    first = sf.struct("source_zid", "target_zid", ends.alias("ends"))
    told = connections.join(links(connections), ["capture", "connection"])
    of_session = told.groupBy("capture", "session").agg(
        sf.min_by(first, "connection").alias("first"),
        sf.count("*").alias("connections"),
        sf.bool_or("grouped").alias("grouped"),
        sf.bool_or("lowlatency").alias("lowlatency"),
        sf.bool_or("compression").alias("compression"),
        sf.sum(late.cast("long")).alias("disordered"),
    )
    heard = (
        messages.where("message not in ('scout', 'hello')")
        .groupBy("capture", "connection")
        .agg(
            sf.count("*").alias("messages"),
            sf.min("time_ns").alias("first_ns"),
            sf.max("time_ns").alias("last_ns"),
        )
    )
    counted = (
        told.select("capture", "connection", "session")
        .join(heard, ["capture", "connection"])
        .groupBy("capture", "session")
        .agg(
            sf.sum("messages").alias("messages"),
            sf.min("first_ns").alias("first_ns"),
            sf.max("last_ns").alias("last_ns"),
        )
    )
    return of_session.join(counted, ["capture", "session"]).select(
        "capture",
        "session",
        "first.source_zid",
        "first.target_zid",
        "first.ends",
        "connections",
        "grouped",
        "lowlatency",
        "compression",
        "messages",
        "first_ns",
        "last_ns",
        "disordered",
    )


def gaps(gaps: DataFrame, by: Sequence[str] = ("capture", "connection", "forward")) -> DataFrame:
    """Returns what is missing, added up, from the table ``gaps``.

    Columns: ``by``, ``gaps``, ``missing_bytes`` as far as known, ``of_unknown_size``, ``skipped_bytes`` (captured,
    but passed over to find the next batch), ``first_packet`` behind a hole.
    """
    require(gaps, "missing", "skipped", "packet", *by)
    return gaps.groupBy(*by).agg(
        sf.count("*").alias("gaps"),
        sf.coalesce(sf.sum("missing"), sf.lit(0)).alias("missing_bytes"),
        sf.count(sf.when(sf.col("missing").isNull(), True)).alias("of_unknown_size"),
        sf.coalesce(sf.sum("skipped"), sf.lit(0)).alias("skipped_bytes"),
        sf.min("packet").alias("first_packet"),
    )
