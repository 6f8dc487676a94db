import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from spark_reports.captures.arrow import fit, fitting_schema, fitting_type

INNER = pa.struct([("number", pa.uint8()), ("items", pa.list_(pa.struct([("wide", pa.uint64())])))])


def test_unsigned_numbers_become_wider_values_stay() -> None:
    for kind, most in ((pa.uint8(), 2**8 - 1), (pa.uint16(), 2**16 - 1), (pa.uint32(), 2**32 - 1)):
        values = pa.array([0, None, most], kind)
        assert fit(values, fitting_type(kind)).to_pylist() == [0, None, most]


def test_widest_numbers_keep_their_bits() -> None:
    values = fit(pa.array([0, None, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64()), pa.int64())
    assert values.to_pylist() == [0, None, 2**63 - 1, -(2**63), -1]


def test_nested_values_fit_at_any_depth() -> None:
    values = pa.array(
        [None, {"number": 200, "items": [{"wide": 2**64 - 1}, None]}, {"number": None, "items": None}], INNER
    )
    for first in range(3):
        expected = [None, {"number": 200, "items": [{"wide": -1}, None]}, {"number": None, "items": None}]
        assert fit(values.slice(first), fitting_type(INNER)).to_pylist() == expected[first:]


@pytest.mark.parametrize("first", range(4))
def test_part_of_lists_fits(first: int) -> None:
    values = pa.array([[1], None, [2, 3], []], pa.list_(pa.uint8()))
    assert fit(values.slice(first), fitting_type(values.type)).to_pylist() == [[1], None, [2, 3], []][first:]


def test_times_lose_what_is_below_a_microsecond() -> None:
    values = pa.array([1_000_000_001_999], pa.timestamp("ns", "UTC"))
    (found,) = fit(values, fitting_type(values.type)).to_pylist()
    assert found == dt.datetime(1970, 1, 1, 0, 16, 40, 1, tzinfo=dt.UTC)


def test_fitting_schema_is_what_spark_says_back() -> None:
    schema = fitting_schema(
        pa.schema(
            [
                pa.field("plain", pa.int64(), nullable=False),
                ("inner", INNER),
                ("time", pa.timestamp("ns", "UTC")),
                ("text", pa.dictionary(pa.int32(), pa.string())),
                ("bytes", pa.large_binary()),
                ("flag", pa.bool_()),
            ]
        )
    )
    assert to_arrow_schema(from_arrow_schema(schema), timezone="UTC").equals(schema)
