import re

import pytest

from spark_reports.pages import charts


def test_columns_stand_in_their_slots_parts_on_each_other() -> None:
    chart = charts.stacked([(0, "first", [("a", 1.0), ("b", 3.0)]), (4, "last", [("a", 2.0)])], 5, "rate")
    assert re.findall(r'<rect class="(\w)" x="(\d+)" y="([\d.]+)" width="8" height="([\d.]+)"', chart) == [
        ("a", "1", "120.0", "40.0"),
        ("b", "1", "0.0", "120.0"),
        ("a", "41", "80.0", "80.0"),
    ]
    assert 'viewBox="0 0 50 160"' in chart


def test_small_part_is_still_seen_and_nothing_is_outside() -> None:
    chart = charts.stacked([(0, "t", [("a", 1e9), ("b", 1.0)]), (99, "outside", [("a", 1.0)])], 2, "rate")
    tops = [float(y) for y in re.findall(r' y="([\d.-]+)"', chart)]
    heights = [float(height) for height in re.findall(r' height="([\d.]+)"', chart)]
    assert min(heights) > 1
    assert min(tops) >= 0
    assert "outside" not in chart


def test_hostile_title_is_text() -> None:
    chart = charts.stacked([(0, "<script>\u202e", [("a", 1.0)])], 1, '"><script>')
    assert "<script>" not in chart
    assert "\u202e" not in chart


def test_too_many_slots_are_not_drawn() -> None:
    assert f'viewBox="0 0 {charts.MOST_SLOTS * charts.SLOT} 160"' in charts.stacked([], 10**12, "rate")


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 ns"),
        (999, "999 ns"),
        (1_234, "1.23 µs"),
        (45_600_000, "45.6 ms"),
        (1.5e9, "1.5 s"),
        (7.2e12, "7,200 s"),
        (-2_000_000, "-2 ms"),
    ],
)
def test_duration_has_a_unit(ns: float | None, text: str) -> None:
    assert charts.duration(ns) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (999, "999 B"), (1_234, "1.23 kB"), (5e9, "5 GB")])
def test_size_has_a_unit(number: float, text: str) -> None:
    assert charts.size(number) == text
