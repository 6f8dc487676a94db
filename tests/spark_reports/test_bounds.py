import datetime as dt
import pickle

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
)

from spark_reports.captures.bounds import Bounds

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "capture": "a",
            "packet": number,
            "message": message,
            "time": NOON + dt.timedelta(seconds=number),
        }
        for number, message in enumerate(["push", "declare", None, "push"])
    ],
    schema=pa.schema(
        [
            ("capture", pa.string()),
            ("packet", pa.int64()),
            ("message", pa.string()),
            ("time", pa.timestamp("us", "UTC")),
        ]
    ),
)


def packets(*filters: Filter) -> list[int]:
    bounds = Bounds()
    for one in filters:
        bounds.take(one)
    found: list[int] = pickle.loads(pickle.dumps(bounds)).apply(ROWS).column("packet").to_pylist()
    return found


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (EqualTo(("message",), "push"), [0, 3]),
        (EqualNullSafe(("message",), "declare"), [1]),
        (EqualNullSafe(("message",), None), [0, 1, 2, 3]),
        (In(("packet",), (1, 2, 9)), [1, 2]),
        (GreaterThan(("packet",), 1), [2, 3]),
        (GreaterThanOrEqual(("packet",), 1), [1, 2, 3]),
        (LessThan(("packet",), 1), [0]),
        (LessThanOrEqual(("packet",), 1), [0, 1]),
        (GreaterThan(("time",), NOON + dt.timedelta(seconds=1)), [2, 3]),
        (EqualTo(("connection",), 3), [0, 1, 2, 3]),
        (EqualTo(("payload_size",), 3), [0, 1, 2, 3]),
        (EqualTo(("qos", "priority"), 3), [0, 1, 2, 3]),
        (StringContains(("message",), "us"), [0, 1, 2, 3]),
    ],
)
def test_filter_leaves_rows_that_pass(one: Filter, expected: list[int]) -> None:
    assert packets(one) == expected


def test_several_filters_all_hold() -> None:
    assert packets(EqualTo(("message",), "push"), GreaterThan(("packet",), 0)) == [3]
    assert packets(EqualTo(("message",), "push"), In(("message",), ("declare",))) == []


def test_what_is_allowed_is_what_some_row_may_have() -> None:
    bounds = Bounds()
    assert bounds.allows("message", "push")
    bounds.take(In(("message",), ("push", "declare")))
    bounds.take(EqualTo(("message",), "push"))
    assert bounds.allows("message", "push")
    assert not bounds.allows("message", "declare")
