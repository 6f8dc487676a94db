"""Times as people type them."""

import argparse

import pytest

from spark_reports.commands.times import seconds


@pytest.mark.parametrize(
    ("text", "wanted"), [("100ms", 0.1), ("1s", 1.0), ("1.5m", 90.0), ("2h", 7200.0), ("3", 3.0)]
)
def test_time_with_a_unit_is_seconds(text: str, wanted: float) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize("text", ["", "s", "0s", "-1s", "1d", "nan", "inf", "0.1ms", "1 h 2 m", "1sm"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time of at least 1ms"):
        seconds(text)
