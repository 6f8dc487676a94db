"""How far Spark has got, in one line of the terminal that is written over and leaves nothing behind.

Only a terminal is shown it; a log file has no use for a line that changes. What everybody is told is that a cluster
gives no workers: such a job would otherwise wait for ever without a word.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import DataFrame, SparkSession

EVERY_S = 0.3
"""How often Spark is asked."""

QUIET_S = 1.0
"""Work that ends sooner is not worth a line."""

WORKERS_S = 20.0
"""How long a cluster may take to give a worker before somebody is told."""

WIDTH = 24
"""Characters of the bar."""

NO_WORKERS = (
    "waiting: the cluster has not provided a worker yet; does it have one with as much memory as requested "
    "(spark.executor.memory)?"
)

_CLEAR = "\r\x1b[K"


def line(done: int, tasks: int, seconds: float) -> str:
    """Returns what is shown of so many tasks."""
    filled = WIDTH * done // max(tasks, 1)
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done} of {tasks} tasks, {seconds:.0f} s"


class Bar:
    """The line; nothing where the stream is no terminal."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = monotonic) -> None:
        self.on = stream.isatty()
        self._stream = stream
        self._clock = clock
        self._shown = False
        self._since: float | None = None

    def show(self, done: int, tasks: int) -> None:
        """Shows how many of the tasks that are known are done; no tasks take the line away."""
        if not tasks:
            self.clear()
            return
        now = self._clock()
        if self._since is None:
            self._since = now
        if self.on and now - self._since >= QUIET_S:
            # The cursor goes back to the front, so that whatever is said next begins there.
            self._stream.write(f"{_CLEAR}{line(done, tasks, now - self._since)}\r")
            self._stream.flush()
            self._shown = True

    def clear(self) -> None:
        """Takes the line away."""
        self._since = None
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._shown = False


class Patience:
    """Says once when tasks have waited for too long without one of them being taken up."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._over = False

    def lost(self, tasks: int, taken: int) -> bool:
        """Whether this is the moment to say so.

        Args:
            tasks: That are known now.
            taken: Of these, running or done.
        """
        if taken:
            self._over = True
        if self._over or not tasks:
            self._since = None
            return False
        now = self._clock()
        if self._since is None:
            self._since = now
        self._over = now - self._since > WORKERS_S
        return self._over


@contextmanager
def shown(
    spark: "SparkSession", *, cluster: bool, say: Callable[[str], None], stream: TextIO | None = None
) -> Iterator[None]:
    """Shows the progress of whatever Spark does in the body.

    Args:
        spark: The session, with a gateway of its own or over Connect.
        cluster: There are workers to wait for.
        say: Told once if they do not come.
        stream: The terminal; standard error if None.
    """
    bar = Bar(sys.stderr if stream is None else stream)
    if is_connect(spark):
        with _listening(spark, bar):
            yield
    elif bar.on or cluster:
        with _asking(spark.sparkContext.statusTracker(), bar, Patience() if cluster else None, say):
            yield
    else:
        yield


def is_connect(spark: "SparkSession | DataFrame") -> bool:
    """Whether a session, or that of a frame, talks to a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def _listening(spark: "SparkSession", bar: Bar) -> Iterator[None]:
    """Lets the server say how far it is; it does so while it is waited for, in the same thread."""

    def handle(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:  # noqa: ARG001
        bar.show(
            sum(stage.num_completed_tasks for stage in stages),
            0 if done else sum(stage.num_tasks for stage in stages),
        )

    # Spark's type is a class to inherit from; a function that takes the same is as good.
    handler: Any = handle
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)
        bar.clear()


@contextmanager
def _asking(
    tracker: "StatusTracker", bar: Bar, patience: Patience | None, say: Callable[[str], None]
) -> Iterator[None]:
    """Asks Spark from a thread of its own while the body runs."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(EVERY_S):
            try:
                known = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except (Py4JError, OSError):
                # Java is gone; whoever works with it in the body learns that too, and says it better.
                return
            stages = [stage for stage in known if stage is not None]
            done, tasks = (
                sum(stage.numCompletedTasks for stage in stages),
                sum(stage.numTasks for stage in stages),
            )
            bar.show(done, tasks)
            if patience is not None and patience.lost(tasks, done + sum(s.numActiveTasks for s in stages)):
                bar.clear()
                say(NO_WORKERS)

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        bar.clear()
