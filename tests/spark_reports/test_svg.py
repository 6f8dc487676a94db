import re
import xml.etree.ElementTree as ET

import pytest

from spark_reports.pages import svg
from spark_reports.rows import OUTCOMES

HOSTILE = '"><script>alert(1)</script>\u202e\x00'


def rects(text: str) -> list[ET.Element]:
    return list(ET.fromstring(text).iter("rect"))


def test_parts_of_a_bar_fill_it_in_order() -> None:
    parts = rects(svg.bar([("pass", 60), ("fail", 0), ("n/a", 40)], "node"))
    assert [part.get("class") for part in parts] == ["o-pass", "o-na"]
    assert [float(part.get("x", "")) for part in parts] == [0.0, 600.0]
    assert [float(part.get("width", "")) for part in parts] == [600.0, 400.0]


def test_one_among_many_is_still_seen_and_the_bar_not_overrun() -> None:
    parts = rects(svg.bar([("pass", 1_000_000), ("fail", 1)], "node"))
    widths = [float(part.get("width", "")) for part in parts]
    assert widths[1] > 5
    assert sum(widths) == pytest.approx(1000, abs=0.2)


def test_nothing_draws_an_empty_bar() -> None:
    text = svg.bar([("pass", 0)], "node")
    assert not rects(text)
    assert "node: nothing" in text


def paths(text: str) -> dict[str, str]:
    return {path.get("class", ""): path.get("d", "") for path in ET.fromstring(text).iter("path")}


def test_columns_are_as_high_as_their_values() -> None:
    drawn = paths(svg.columns([10, 5, 0], "cases", kind="o-fail"))
    assert drawn == {"o-fail": "M1 0h8v30h-8zM11 15h8v15h-8z", "zero": "M21 28.5h8v1.5h-8z"}


@pytest.mark.parametrize(
    ("value", "top", "width"), [(5, 10, 500), (0, 10, 0), (0, 0, 0), (1, 10_000, 12), (20, 10, 1000)]
)
def test_meter_is_as_long_as_its_share(value: float, top: float, width: float) -> None:
    (part,) = rects(svg.meter(value, top, "rate"))
    assert float(part.get("width", "")) == width


def test_neighbours_of_one_outcome_are_one_line() -> None:
    drawn = paths(f"<g>{svg.strip(['pass'] * 40 + ['fail'] * 2 + ['', 'pass'])}</g>")
    assert drawn == {"k-pass": "M0 7h40m3 0h1", "k-fail": "M40 7h2", "k-bars": "M40 7h2"}


def test_every_outcome_has_a_shape_of_its_own() -> None:
    shapes = [paths(f"<g>{svg.strip([outcome])}</g>") for outcome in OUTCOMES]
    assert all(shapes)
    # pass and n/a run along the same line and differ in thickness; fail is barred.
    assert len({tuple(shape.values()) for shape in shapes}) >= len(OUTCOMES) - 1
    assert not svg.strip(["what is this", ""])


def test_story_is_high_where_it_failed() -> None:
    drawn = paths(svg.story(["pass", "fail", "n/a"], "story"))
    assert drawn == {"o-pass": "M1 8h8v6h-8z", "o-fail": "M11 0h8v14h-8z", "o-na": "M23 11h4v3h-4z"}


def test_shares_stay_on_their_line_whatever_they_are() -> None:
    drawn = paths(svg.shares((-1.0, 2.0), 0.5, None, "rate"))
    assert drawn["band"] == "M4.0 6H196.0V14H4.0z"
    assert drawn["disc"].startswith("M96.0 10a")
    assert "ring" not in drawn
    assert "band" not in paths(svg.shares(None, None, 0.0, "rate"))


def test_line_keeps_noise_small_and_everything_inside() -> None:
    values = [svg.Value(100.0), svg.Value(101.0, 90.0, 140.0, judged=True)]
    low, high = svg.span(values)
    assert (low, high) == (90.0, 140.0)
    assert svg.span([svg.Value(100.0), svg.Value(100.1)])[0] < 90
    drawn = paths(svg.line(values, 1e9, "line"))
    heights = [float(number) for number in re.findall(r"[\d.]+ ([\d.]+)", drawn["line"] + drawn["band"])]
    assert 0 <= min(heights) <= max(heights) <= svg.LINE_HEIGHT
    assert drawn["level"].startswith("M0 4.0H")


def test_dot_is_on_the_last_value_that_is_judged() -> None:
    values = [svg.Value(1.0), svg.Value(2.0, judged=True), svg.Value(3.0)]
    assert paths(svg.line(values, None, "line"))["end"].startswith("M150.0 ")
    assert paths(svg.line(values[:1] * 3, None, "line"))["end"].startswith("M300.0 ")


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [5.0], [-3.0, 3.0]])
def test_line_of_few_or_equal_values_can_be_drawn(values: list[float]) -> None:
    drawn = paths(svg.line([svg.Value(value) for value in values], None, "line"))
    assert set(drawn) == {"line", "end"}
    assert "nan" not in drawn["line"]


def test_steps_rise_where_the_number_does() -> None:
    drawn = paths(svg.steps([(0, 0), (50, 1), (100, 1)], "found"))
    assert drawn["line"] == "M0 80H0.0V78.0H150.0V6.0H300.0"
    assert "nan" not in svg.steps([(0, 0)], "found")


def test_hostile_labels_are_escaped() -> None:
    for text in (
        svg.bar([(HOSTILE, 1)], HOSTILE),
        svg.columns([1], HOSTILE, kind="meter"),
        svg.meter(1, 1, HOSTILE),
        svg.story([HOSTILE], HOSTILE),
        svg.shares((0, 1), 0.5, 0.5, HOSTILE),
        svg.line([svg.Value(1.0)], None, HOSTILE),
        svg.steps([(1, 1)], HOSTILE),
        f"<g>{svg.strip([HOSTILE])}</g>",
    ):
        assert [element.tag for element in ET.fromstring(text).iter()].count("script") == 0
        assert "\u202e" not in text
