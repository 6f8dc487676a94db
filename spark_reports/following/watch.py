"""Runs while they go on: Spark's structured streaming over the lines that writers append, counted batch by batch.

Every line counts once, also when the watch is killed and started again with the same checkpoint: Spark remembers how
far the files were read, the tally which batch was counted last.
"""

import json
import queue
import re
import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_reports.errors import EngineFailed, WrongUse
from spark_reports.following import tally
from spark_reports.following.stream import FORMAT, EventSource
from spark_reports.following.tally import Group, News, Tally
from spark_reports.frames.columns import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S = 1.0
"""How often whoever watches gets a say while no line comes."""

TRIES = 6
"""How often in a row Spark may begin without having read anything."""

_CHECKPOINT = "spark"
_IDLE_EVENTS = "spark.sql.streaming.noDataProgressEventInterval"
_BY = ("folder", "file", "kind", "campaign", "outcome", "bucket", "test")


def groups(events: DataFrame) -> DataFrame:
    """Returns the lines of a batch that are alike as one row each: the fields of ``tally.Group``."""
    require(events, *_BY, "text", "time_ns", "case")
    first = sf.min(sf.struct("time_ns", "case", "text"))
    return (
        events.groupBy(*_BY)
        .agg(sf.count("*").alias("lines"), first.alias("first"), sf.max("time_ns").alias("last_ns"))
        .select(
            *_BY,
            "lines",
            sf.col("first.time_ns").alias("first_ns"),
            "last_ns",
            sf.col("first.case").alias("case"),
            sf.col("first.text").alias("text"),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is watched, and until when.

    Attributes:
        roots: The folders that runs are in, or come to be in.
        checkpoint: Folder that remembers what was counted; made if missing.
        every_s: Seconds between two looks at the files.
        once: Count what is there, and end.
        idle_s: End when no line came for so many seconds; None for never.
    """

    roots: Sequence[Path]
    checkpoint: Path
    every_s: float = 1.0
    once: bool = False
    idle_s: float | None = None


def begin(plan: Plan) -> Tally:
    """Returns what an earlier watch with the same checkpoint has counted, or an empty tally.

    Raises:
        WrongUse: The checkpoint belongs to a watch of other folders, or cannot be written.
    """
    try:
        plan.checkpoint.mkdir(parents=True, exist_ok=True)
        counted = tally.load(plan.checkpoint, _roots(plan))
        # Nothing may be counted by the time this one is killed, and the next one is to know when it began.
        counted.save(plan.checkpoint)
    except OSError as error:
        raise WrongUse(f"{plan.checkpoint} cannot be used as a checkpoint ({error.strerror})") from error
    return counted


def _forget_start(query: Path) -> None:
    """Removes what a query left that ended before its first batch: Spark begins none where there is something.

    A batch is there from the moment its end is in ``offsets``; without one nothing was read.
    """
    if query.exists() and not any(path.name.isdecimal() for path in query.glob("offsets/*")):
        shutil.rmtree(query)


def _roots(plan: Plan) -> list[str]:
    return [str(root.resolve()) for root in plan.roots]


def follow(
    spark: "SparkSession", plan: Plan, counted: Tally, say: Callable[[str], None] = lambda _: None
) -> Generator[News | None]:
    """Counts what comes, and yields what is new with every batch; None when Spark has looked and found nothing.

    Close it to end the watch; a batch that was not counted by then is counted by the next watch.

    Args:
        spark: A session on this machine; batches come back into this process.
        plan: What is watched.
        counted: What ``begin`` returned; it grows.
        say: Told when Spark has to begin again, in one line.

    Raises:
        EngineFailed: Spark gave up.
    """
    with _query(spark, plan, _roots(plan)) as (inbox, start):
        start()
        left = TRIES - 1
        last_news = monotonic()
        while True:
            message = inbox.get()
            if isinstance(message, _Ended):
                if message.error is None:
                    return
                if not (left and _was_late(message.error)):
                    raise message.error
                left -= 1
                say("the machine is very busy: Spark's Python did not start in time; trying again")
                start()
                continue
            left = TRIES - 1
            if isinstance(message, _Idle):
                # A slow batch is not mistaken for silence.
                if plan.idle_s is not None and monotonic() - last_news >= plan.idle_s:
                    return
                yield None
                continue
            news = counted.add(message.number, message.groups)
            counted.save(plan.checkpoint)
            _acknowledge(message.counted)
            last_news = monotonic()
            if news is not None:
                yield news


def _acknowledge(counted: threading.Event) -> None:
    """Lets Spark take note of the end of a batch. What it takes note of is never handed on again."""
    counted.set()


@dataclass(frozen=True, slots=True)
class _Batch:
    """Lines that Spark handed on; ``counted`` is set when they are in the tally."""

    number: int
    groups: list[Group]
    counted: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class _Ended:
    """The query is over; with its error, if it had one."""

    error: EngineFailed | None


@dataclass(frozen=True, slots=True)
class _Idle:
    """Spark looked and found no new line."""


_Inbox = queue.SimpleQueue[_Batch | _Ended | _Idle]


@contextmanager
def _query(
    spark: "SparkSession", plan: Plan, roots: Sequence[str]
) -> Iterator[tuple[_Inbox, Callable[[], None]]]:
    """Yields what begins the query, also once more after its end, and the queue for what Spark's threads have to say."""
    inbox: _Inbox = queue.SimpleQueue()
    closing = threading.Event()

    def hand_on(events: DataFrame, number: int) -> None:
        batch = _Batch(number, [Group(**row.asDict()) for row in groups(events).collect()])
        inbox.put(batch)
        while not batch.counted.wait(LOOK_S):
            if closing.is_set():
                raise InterruptedError("the watch has ended")

    listener = _Listener(inbox)
    spark.dataSource.register(EventSource)
    before = spark.conf.get(_IDLE_EVENTS)
    spark.conf.set(_IDLE_EVENTS, str(int(LOOK_S * 1000)))
    spark.streams.addListener(listener)
    begun: list[StreamingQuery] = []
    try:
        writer = (
            spark.readStream.format(FORMAT)
            .option("roots", json.dumps(roots))
            .load()
            .writeStream.foreachBatch(hand_on)
            .option("checkpointLocation", str((plan.checkpoint / _CHECKPOINT).resolve()))
        )
        trigger = (
            writer.trigger(availableNow=True)
            if plan.once
            else writer.trigger(processingTime=f"{plan.every_s} seconds")
        )

        def start() -> None:
            _forget_start(plan.checkpoint / _CHECKPOINT)
            try:
                begun[:] = [trigger.start()]
            except (PySparkException, Py4JError) as error:
                raise _failed(error) from error
            threading.Thread(target=_wait, args=(*begun, inbox), name="watch", daemon=True).start()

        yield inbox, start
    finally:
        closing.set()
        for query in begun:
            query.stop()
        spark.streams.removeListener(listener)
        spark.conf.set(_IDLE_EVENTS, str(before))


def _wait(query: "StreamingQuery", inbox: _Inbox) -> None:
    try:
        query.awaitTermination()
    except (PySparkException, Py4JError, OSError) as error:
        # An OSError where Java is gone, of which nobody else would hear.
        inbox.put(_Ended(_failed(error)))
    else:
        inbox.put(_Ended(None))


def _was_late(error: EngineFailed) -> bool:
    """Tells whether all that went wrong is that the Python which looks for lines took more than 10 s to start.

    Spark has no setting for that, and nothing was read yet; the Pythons of its tasks may take longer.
    """
    return "worker failed to connect back" in str(error)


def _failed(error: Exception) -> EngineFailed:
    """Puts an error into words, which has to be done while Java is there: innermost cause, without the stacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    thrown = [line.lstrip(": ") for line in lines if re.match(r"[:A-Za-z_.$ ]+(Error|Exception): ", line)]
    told = thrown[-1] if thrown else next(iter(lines), type(error).__name__)
    return EngineFailed(f"Spark gave up: {told[:500]}")


class _Listener(StreamingQueryListener):
    """Hears from Spark that there was nothing to read."""

    def __init__(self, inbox: _Inbox) -> None:
        super().__init__()
        self._inbox = inbox

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: ARG002, N802 (Spark's names)
        self._inbox.put(_Idle())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing to be said."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Nothing to be said; batches come by themselves."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing to be said; somebody waits for it."""
