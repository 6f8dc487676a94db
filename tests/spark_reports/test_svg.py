import xml.etree.ElementTree as ET

import pytest

from spark_reports import svg

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


def test_columns_are_as_high_as_their_values() -> None:
    parts = rects(svg.columns([("a", 10), ("b", 5), ("c", 0)], "cases", kind="o-fail"))
    assert [float(part.get("height", "")) for part in parts] == [30, 15, 1.5]
    assert [part.get("class") for part in parts] == ["o-fail", "o-fail", "zero"]


@pytest.mark.parametrize(("value", "top", "width"), [(5, 10, 500), (0, 10, 0), (0, 0, 0), (1, 10_000, 6)])
def test_meter_is_as_long_as_its_share(value: float, top: float, width: float) -> None:
    (part,) = rects(svg.meter(value, top, "rate"))
    assert float(part.get("width", "")) == width


def test_hostile_labels_are_escaped() -> None:
    for text in (
        svg.bar([(HOSTILE, 1)], HOSTILE),
        svg.columns([(HOSTILE, 1)], HOSTILE, kind="meter"),
        svg.meter(1, 1, HOSTILE),
    ):
        assert [element.tag for element in ET.fromstring(text).iter()].count("script") == 0
        assert "\u202e" not in text
