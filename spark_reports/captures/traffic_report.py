"""What a traffic report says, as plain values, and the tables that are written beside it.

``collect`` is the only place where Spark is asked for results. What comes back is bounded, whatever the captures
hold: the first rows of each table by what matters; whole tables are written by Spark, by ``write_tables``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType

from spark_reports import traffic
from spark_reports.asking import plain
from spark_reports.errors import NothingToReport

TRAFFIC_VERSION = 1
"""Version of ``traffic.json``; raised when a field goes away or changes its meaning."""

ROWS = 100
"""Rows of each table in the page and in ``traffic.json``; all of them are in the tables beside."""

BINS = 120
"""Most columns of a picture over time."""

DRAWN_KEYS = 12
"""Keys with a picture of their own."""

NICE_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
"""Intervals that people can read, s; below a second it is 1, 2 and 5 times a power of ten."""

MESSAGE_COLUMNS = (
    "capture",
    "packet",
    "time_ns",
    "connection",
    "forward",
    "source_zid",
    "target_zid",
    "batch",
    "offset",
    "pieces",
    "message",
    "body",
    "value",
    "reliable",
    "key_scope",
    "key_suffix",
    "mapping",
    "key_id",
    "request_id",
    "payload_size",
    "error",
)
"""What a report needs of ``messages``: everything but the payloads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLine:
    """A capture: its messages, and when they travelled (ns since 1970)."""

    capture: str
    messages: int
    refused: int
    first_ns: int | None
    last_ns: int | None
    damage: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many messages of a kind there are, by body."""

    message: str
    body: str | None
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What is counted of events; see ``traffic.totals``."""

    events: int
    puts: int
    deletes: int
    queries: int
    replies: int
    errors: int
    payload_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine(Numbers):
    """A key; None stands for all whose alias was declared before its capture began."""

    keyexpr: str | None
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A node; None stands for all whose handshake was not captured."""

    zid: str | None
    messages: int
    events: int
    payload_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin(Numbers):
    """An interval of the picture over time; ``keyexpr`` only in those of single keys."""

    start_ns: int
    keyexpr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long answers took, ns; see ``traffic.latencies``."""

    sent: int
    answered: int
    unanswered: int
    finals_without_request: int
    first_answer_count: int
    first_answer_min: int | None
    first_answer_median: int | None
    first_answer_p99: int | None
    first_answer_max: int | None
    final_count: int
    final_min: int | None
    final_median: int | None
    final_p99: int | None
    final_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyBin:
    """Requests whose end came between ``from_ns`` and ``to_ns``."""

    from_ns: int
    to_ns: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLine:
    """A request; ``final_ns`` is None when its end was not captured."""

    capture: str
    packet: int
    request_id: int
    keyexpr: str | None
    source_zid: str | None
    target_zid: str | None
    replies: int
    errors: int
    first_answer_ns: int | None
    final_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """A session between two nodes, or of a sender with its group."""

    capture: str
    session: int
    source_zid: str | None
    target_zid: str | None
    ends: str
    connections: int
    grouped: bool
    lowlatency: bool | None
    compression: bool | None
    messages: int
    first_ns: int | None
    last_ns: int | None
    disordered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GapLine:
    """What is missing on the links of a capture, for one reason."""

    capture: str
    why: str
    gaps: int
    missing_bytes: int
    of_unknown_size: int
    skipped_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLine:
    """What could not be read, and how often."""

    error: str
    count: int
    capture: str
    packet: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """All that a traffic report says; tables hold at most ``ROWS`` rows, those that matter most.

    Attributes:
        interval_ns: Width of a ``Bin``.
        lost: How many gaps there are, those included that have no line.
        disordered: How many connections were captured out of order, those included whose session has no line.
        left_out: Names of tables that have more rows than are here.
    """

    captures: tuple[CaptureLine, ...]
    counts: tuple[Count, ...]
    total: Numbers
    keys: tuple[KeyLine, ...]
    nodes: tuple[NodeLine, ...]
    interval_ns: int
    over_time: tuple[Bin, ...]
    keys_over_time: tuple[Bin, ...]
    latency: Latency
    latency_bins: tuple[LatencyBin, ...]
    slowest: tuple[RequestLine, ...]
    unanswered: tuple[RequestLine, ...]
    sessions: tuple[SessionLine, ...]
    gaps: tuple[GapLine, ...]
    lost: int
    disordered: int
    errors: tuple[ErrorLine, ...]
    left_out: tuple[str, ...]
    traffic_version: int = TRAFFIC_VERSION

    @property
    def messages(self) -> int:
        """Messages of all captures."""
        return sum(line.messages for line in self.captures)

    @property
    def span(self) -> tuple[int, int] | None:
        """When the first and the last message travelled, ns; None where captures have no times."""
        first = [line.first_ns for line in self.captures if line.first_ns]
        last = [line.last_ns for line in self.captures if line.last_ns]
        return (min(first), max(last)) if first and last else None


@dataclass(frozen=True, slots=True)
class Frames:
    """What a report is made of, and the tables that are written beside it.

    Attributes:
        messages: The table ``messages`` with ``MESSAGE_COLUMNS``.
        keyed: As from ``traffic.keys``.
        events: As from ``traffic.events``.
        requests: As from ``traffic.requests``.
        sessions: As from ``traffic.sessions``.
        gaps: The table ``gaps``.
    """

    messages: DataFrame
    keyed: DataFrame
    events: DataFrame
    requests: DataFrame
    sessions: DataFrame
    gaps: DataFrame


def read(spark: SparkSession, captures: Sequence[str]) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Returns the tables ``messages``, ``connections`` and ``gaps`` of captures."""
    traffic.register(spark)

    def table(name: str, columns: Sequence[str] = ()) -> DataFrame:
        source = spark.read.format("zenoh").option("table", name).option("columns", ",".join(columns))
        return source.load(list(captures))

    return table("messages", MESSAGE_COLUMNS), table("connections"), table("gaps")


@contextmanager
def frames(messages: DataFrame, connections: DataFrame, gaps: DataFrame) -> Iterator[Frames]:
    """Makes the frames of a report; while they are in use, what was read is kept.

    Args:
        messages: The table ``messages`` with ``MESSAGE_COLUMNS``.
        connections: The table ``connections``.
        gaps: The table ``gaps``.
    """
    with ExitStack() as stack:

        def kept(frame: DataFrame) -> DataFrame:
            frame.persist()
            stack.callback(frame.unpersist)
            return frame

        messages, connections, gaps = kept(messages), kept(connections), kept(gaps)
        links = kept(traffic.links(connections))
        said = messages.where("message is not null")
        keyed = traffic.keys(said, kept(traffic.aliases(said, links)))
        yield Frames(
            messages,
            keyed,
            kept(traffic.events(keyed, links)),
            kept(traffic.requests(keyed, links)),
            kept(traffic.sessions(connections, messages)),
            gaps,
        )


class Fetcher:
    """Brings rows out of Spark, in order, and remembers of what there were more than it brought.

    Attributes:
        left_out: Names of what was cut at a limit.
    """

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def __call__(
        self, frame: DataFrame, *order: str | Column, what: str = "", limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Returns the rows of a frame as dictionaries; ``what`` names them if they may be too many."""
        ordered = frame.orderBy(*order)
        found = (ordered if limit is None else ordered.limit(limit + 1)).collect()
        if limit is not None and len(found) > limit:
            self.left_out.append(what)
        return [plain(row.asDict(recursive=True)) for row in found[:limit]]


def collect(made: Frames, interval: float, say: Callable[[str], None], read: Sequence[str] = ()) -> Traffic:
    """Asks Spark for everything a report says.

    Args:
        made: The frames.
        interval: Least width of the columns of a picture over time, s.
        say: Told what is being done, a few words each.
        read: All captures, for those that have no row.

    Raises:
        NothingToReport: There is no Zenoh in the captures.
    """
    fetch = Fetcher()
    say("messages")
    found = fetch(_captures(made.messages), "capture", what="captures", limit=max(ROWS, len(read)))
    captures = [CaptureLine(**row) for row in found]
    without = sorted(set(read) - {line.capture for line in captures})
    nothing: dict[str, Any] = {"messages": 0, "refused": 0, "first_ns": None, "last_ns": None, "damage": None}
    captures += [CaptureLine(capture=capture, **nothing) for capture in without]
    if not any(line.messages or line.refused for line in captures):
        damage = next((f"{line.capture}: {line.damage}" for line in captures if line.damage), None)
        raise NothingToReport(damage or "no Zenoh in these captures")
    said = made.messages.where("message is not null")
    counts = fetch(said.groupBy("message", "body").agg(sf.count("*").alias("messages")), "message", "body")
    errors = fetch(_errors(made.messages), sf.desc("count"), "error", what="errors", limit=ROWS)

    say("keys and nodes")
    (total,) = fetch(traffic.totals(made.events, by=()), "events")
    keys = fetch(traffic.totals(made.events), sf.desc("events"), "keyexpr", what="keys", limit=ROWS)
    of_nodes = fetch(nodes(said, made.events), sf.desc("messages"), "zid", what="nodes", limit=ROWS)

    say("rates")
    step = bin_width(total["first_ns"], total["last_ns"], interval)
    over_time = fetch(_bins(made.events, step), "start_ns")
    drawn = [row["keyexpr"] for row in keys if row["keyexpr"] is not None][:DRAWN_KEYS]
    of_drawn = made.events.where(sf.col("keyexpr").isin(drawn)) if drawn else made.events.limit(0)
    keys_over_time = fetch(_bins(of_drawn, step, "keyexpr"), "keyexpr", "start_ns")

    say("requests")
    asked = made.requests.where("packet is not null")
    (latency,) = fetch(traffic.latencies(made.requests), "sent")
    bins = fetch(_latency_bins(asked), "octave")
    slowest = fetch(asked.where("final_ns is not null"), sf.desc("final_ns"), "capture", "packet", limit=ROWS)
    open_ones = fetch(
        asked.where("final_ns is null"), "capture", "packet", what="unanswered requests", limit=ROWS
    )

    say("sessions and gaps")
    sessions = fetch(made.sessions, sf.desc("messages"), "capture", "session", what="sessions", limit=ROWS)
    late_links = sf.coalesce(sf.sum("disordered"), sf.lit(0)).alias("disordered")
    (late,) = fetch(made.sessions.agg(late_links), "disordered")
    # A few for each capture, of which all are here as well.
    lost = fetch(traffic.gaps(made.gaps, by=("capture", "why")), sf.desc("gaps"), "capture", "why")
    if len(lost) > ROWS:
        fetch.left_out.append("gaps")
    return Traffic(
        captures=tuple(captures),
        counts=tuple(_build(Count, row) for row in counts),
        total=_build(Numbers, total),
        keys=tuple(_build(KeyLine, row) for row in keys),
        nodes=tuple(_build(NodeLine, row) for row in of_nodes),
        interval_ns=step,
        over_time=tuple(_build(Bin, row) for row in over_time),
        keys_over_time=tuple(_build(Bin, row) for row in keys_over_time),
        latency=_build(Latency, latency),
        latency_bins=tuple(
            LatencyBin(from_ns=2 ** row["octave"], to_ns=2 ** (row["octave"] + 1), requests=row["requests"])
            for row in bins
        ),
        slowest=tuple(_build(RequestLine, row) for row in slowest),
        unanswered=tuple(_build(RequestLine, row) for row in open_ones),
        sessions=tuple(_build(SessionLine, row) for row in sessions),
        gaps=tuple(_build(GapLine, row) for row in lost[:ROWS]),
        lost=sum(row["gaps"] for row in lost),
        disordered=late["disordered"],
        errors=tuple(_build(ErrorLine, row) for row in errors),
        left_out=tuple(sorted(set(fetch.left_out) - {""})),
    )


def write_tables(made: Frames, interval: float, out: Path, kind: str) -> None:
    """Writes whole tables, each a folder that replaces the one of an earlier report.

    Args:
        made: The frames.
        interval: Of the rates, s.
        out: Folder.
        kind: ``parquet`` or ``csv``.
    """
    tables = {
        "keys": traffic.totals(made.events),
        "nodes": nodes(made.messages.where("message is not null"), made.events),
        "rates": traffic.rates(made.events, interval),
        "requests": made.requests,
        "sessions": made.sessions,
        "gaps": traffic.gaps(made.gaps),
        "errors": made.messages.where("error is not null").select("capture", "packet", "connection", "error"),
    }
    for name, frame in tables.items():
        writer = frame.write.mode("overwrite")
        if kind == "csv":
            # Quotes inside are doubled, as in any CSV but Spark's.
            writer = inert(frame).write.mode("overwrite").option("header", True).option("escape", '"')
        writer.format(kind).save(str(out / name))


def inert(frame: DataFrame) -> DataFrame:
    """Returns rows with texts that no spreadsheet runs and no terminal obeys."""
    columns = []
    for field in frame.schema:
        column = sf.col(field.name)
        if isinstance(field.dataType, StringType):
            column = sf.regexp_replace(column, r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]", "\ufffd")
            column = sf.when(column.rlike("^[=+@-]"), sf.concat(sf.lit("'"), column)).otherwise(column)
        columns.append(column.alias(field.name))
    return frame.select(*columns)


def bin_width(first: int | None, last: int | None, interval: float) -> int:
    """Returns the width of columns over time, ns: at least the interval, and few enough columns."""
    least = interval
    if first is not None and last is not None:
        least = max(interval, (last - first) / BINS / traffic.NS)
    if least <= interval:
        return round(interval * traffic.NS)
    if least > NICE_S[-1]:
        return math.ceil(least / NICE_S[-1]) * NICE_S[-1] * traffic.NS
    if least >= 1:
        return next(step for step in NICE_S if step >= least) * traffic.NS
    power: int = 10 ** math.floor(math.log10(least * traffic.NS))
    return next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= least * traffic.NS)


def _captures(messages: DataFrame) -> DataFrame:
    said = sf.col("message").isNotNull()
    damage = sf.col("error").isNotNull() & sf.col("connection").isNull()
    return messages.groupBy("capture").agg(
        sf.count(sf.when(said, True)).alias("messages"),
        sf.count(sf.when(~said & ~damage, True)).alias("refused"),
        sf.min("time_ns").alias("first_ns"),
        sf.max("time_ns").alias("last_ns"),
        sf.max(sf.when(damage, sf.col("error"))).alias("damage"),
    )


def _errors(messages: DataFrame) -> DataFrame:
    return (
        messages.where("error is not null")
        .groupBy("error")
        .agg(
            sf.count("*").alias("count"),
            sf.min(sf.struct("capture", "packet")).alias("first"),
        )
        .select("error", "count", "first.capture", "first.packet")
    )


def nodes(messages: DataFrame, events: DataFrame) -> DataFrame:
    """Returns ``zid messages events payload_bytes``: what each node has said."""
    said = messages.groupBy(sf.col("source_zid").alias("zid")).agg(sf.count("*").alias("messages"))
    sent = traffic.totals(events, by=("source_zid",)).select(
        sf.col("source_zid").alias("_zid"), "events", "payload_bytes"
    )
    none = sf.lit(0).cast("long")
    return said.join(sent, sf.col("zid").eqNullSafe(sf.col("_zid")), "left").select(
        "zid",
        "messages",
        sf.coalesce("events", none).alias("events"),
        sf.coalesce("payload_bytes", none).alias("payload_bytes"),
    )


def _bins(events: DataFrame, step: int, *by: str) -> DataFrame:
    start = sf.col("time_ns") - sf.pmod(sf.col("time_ns"), sf.lit(step))
    return traffic.totals(events.withColumn("start_ns", start), by=(*by, "start_ns"))


def _latency_bins(requests: DataFrame) -> DataFrame:
    # Times of one capture may run backwards; those count with the shortest.
    octave = sf.floor(sf.log2(sf.greatest("final_ns", sf.lit(1)))).cast("int")
    ended = requests.where("final_ns is not null").withColumn("octave", octave)
    return ended.groupBy("octave").agg(sf.count("*").alias("requests"))


_T = TypeVar("_T")


def _build(kind: type[_T], row: Mapping[str, Any]) -> _T:
    """Makes a value of the columns that are named like its fields."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in row.items() if name in names})
