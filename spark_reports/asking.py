"""Brings the answers of many small queries out of Spark, several at a time and none without a limit.

A query over rollups takes a tenth of a second of computing and as much of planning. So some are put together and
planned while others run, and their answers are put in order here instead of by one more shuffle.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    import pyarrow as pa

LIMIT = 5_000
"""At most so many rows of one kind leave Spark; a report says when there were more."""

MOST = 500_000
"""Limit of what grows with runs times requirements or campaigns, of which nothing should be left out."""

AT_ONCE = 3
"""So many queries run side by side."""


class Questions:
    """Queries that are being answered, each with a name.

    Args:
        say: Told what is asked, by the name of each query.

    Attributes:
        left_out: Names of those of which there were more rows than their limit, as far as they were answered.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="question")
        self._answers: dict[str, Future[pa.Table] | None] = {}
        self.left_out: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def add(
        self, name: str, frame: Callable[[], DataFrame], *, limit: int = LIMIT, first: Sequence[str] = ()
    ) -> None:
        """Begins to answer a query.

        Args:
            name: What it asks for.
            frame: Makes the frame of its answer, which takes Spark a while; called from another thread.
            limit: At most so many rows.
            first: Columns by which rows are chosen when there are more; the others break ties.
        """
        self._answers[name] = self._pool.submit(self._fetch, name, frame, limit, first)

    def skip(self, name: str) -> None:
        """Takes note of a query that has no rows, so that nobody needs to be asked."""
        self._answers[name] = None

    def table(self, name: str) -> "pa.Table":
        """Waits for the answer to a query that was not skipped; its rows are in no order."""
        answer = self._answers[name]
        assert answer is not None
        return answer.result()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Waits for the answer to a query; lists are tuples, rows are ordered by their values."""
        if self._answers[name] is None:
            return []
        return sorted(map(plain, self.table(name).to_pylist()), key=_order)

    def _fetch(
        self, name: str, make: Callable[[], DataFrame], limit: int, first: Sequence[str]
    ) -> "pa.Table":
        self._say(name)
        frame = make()
        found = _answer(frame.limit(limit + 1))
        if found.num_rows > limit:
            self.left_out.add(name)
            # Only now is an order worth its price: which rows are shown must not depend on chance.
            ties = (column for column in frame.columns if column not in first)
            found = _answer(frame.orderBy(*first, *ties).limit(limit))
        return found


def _answer(frame: DataFrame) -> "pa.Table":
    # Over Connect toArrow asks for the schema first, for which the server analyses everything once more.
    at_once = getattr(frame, "_to_table", None)
    return frame.toArrow() if at_once is None else at_once()[0]


def plain(value: Any) -> Any:
    """Makes lists tuples, and numbers that JSON does not have None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def _order(value: Any) -> tuple[Any, ...]:
    """Returns what values are ordered by, whatever their types: numbers as numbers, None before all."""
    if value is None:
        return (0,)
    if isinstance(value, int | float):
        return 1, value
    if isinstance(value, dict):
        return 3, *map(_order, value.values())
    if isinstance(value, tuple):
        return 3, *map(_order, value)
    return 2, str(value)
