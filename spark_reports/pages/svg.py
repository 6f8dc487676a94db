"""The pictures of a page: small inline SVG, coloured by the style sheet, with words for people who hear it.

They hold no text to be read, only shapes, so they may be stretched to any width; what they show stands
in words beside them. Neighbours of one kind are one shape, so that a picture of sixty runs is as small as its
story is short.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from spark_reports.pages.text import short, visible

_WIDTH = 1000
_LEAST = 12.0
"""Width of the smallest part of a bar, so that one fail among thousands is still seen."""

_LEAST_COLUMNS = 10
"""Room for so many columns is always there, so that one alone does not become a block."""

_MOST = 120
"""Characters of a label; a name from a wire may be endless."""

_BAR = Markup(
    '<svg class="bar" viewBox="0 0 {width} 10" preserveAspectRatio="none" role="img" aria-label="{label}">'
    "{parts}</svg>"
)
_PART = Markup(
    '<rect class="{kind}" x="{x:.1f}" width="{width:.1f}" height="10"><title>{title}</title></rect>'
)
_PICTURE = Markup(
    '<svg class="{css}" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" '
    'aria-label="{label}">{parts}</svg>'
)
_PATH = Markup('<path class="{kind}" d="{d}"/>')


def bar(parts: Sequence[tuple[str, int]], label: str, *, css: str = "o") -> Markup:
    """Returns one bar with a part for each (name, number) that is not zero.

    Args:
        parts: In the order in which they stand.
        label: What the bar is about, for people who hear it.
        css: Prefix of the class of a part, ``o-pass``.
    """
    seen = [(name, number) for name, number in parts if number > 0]
    total = sum(number for _, number in seen)
    words = ", ".join(f"{number} {name}" for name, number in seen) or "nothing"
    widths = [max(_LEAST, number / total * _WIDTH) for _, number in seen]
    scale = _WIDTH / sum(widths) if widths else 1.0
    drawn, x = [], 0.0
    for (name, number), width in zip(seen, widths, strict=True):
        title = _words(f"{number} {name}")
        drawn.append(_PART.format(kind=css_class(name, css), x=x, width=width * scale, title=title))
        x += width * scale
    return _BAR.format(
        width=_WIDTH, label=_words(f"{short(label, _MOST)}: {words}"), parts=Markup("").join(drawn)
    )


def meter(value: float, top: float, label: str) -> Markup:
    """Returns a bar as long as the share of ``value`` in ``top``."""
    width = max(_LEAST, min(1.0, value / top) * _WIDTH) if value > 0 and top > 0 else 0.0
    part = _PART.format(kind="meter", x=0.0, width=width, title=_words(label))
    return _BAR.format(width=_WIDTH, label=_words(label), parts=part)


def columns(values: Sequence[float], label: str, *, kind: str) -> Markup:
    """Returns a column for each value, oldest first; zero is a faint line on the ground."""
    top = max(values, default=0.0)
    some: list[str] = []
    none: list[str] = []
    for position, value in enumerate(values):
        height = max(4.0, value / top * 30) if value > 0 else 1.5
        (some if value > 0 else none).append(_box(position * 10 + 1, 30 - height, 8, height))
    width = max(_LEAST_COLUMNS, len(values)) * 10
    return _picture("columns", width, 30, label, [(kind, some), ("zero", none)])


TALL = 14
_LINES: dict[str, Sequence[int]] = {
    "pass": (7,),
    "fail": (7,),
    "deviation": (3, 11),
    "warning": (10,),
    "inconclusive": (4,),
    "n/a": (7,),
}
"""Where lines run that fill a cell; how thick they are is in the style sheet. A shape for each outcome."""


def strip(outcomes: Iterable[str]) -> Markup:
    """Returns the shapes of a row of cells, one for each outcome; a cell without outcome stays empty.

    Cells are 1 wide and ``TALL`` high; they are lines, which take fewer bytes than boxes. Fails are barred as
    well as red.
    """
    drawn: dict[str, dict[int, str]] = {}
    ends: dict[str, int] = {}
    x = 0
    for outcome, run in groupby(outcomes):
        number = sum(1 for _ in run)
        lines = drawn.setdefault(outcome, {}) if outcome in _LINES else {}
        for y in _LINES.get(outcome, ()):
            start = f"m{x - ends[outcome]} 0" if outcome in ends else f"M{x} {y}"
            lines[y] = f"{lines.get(y, '')}{start}h{number}"
        x += number
        ends[outcome] = x
    paths = [(css_class(outcome, "k"), list(lines.values())) for outcome, lines in drawn.items()]
    return _paths([*paths, ("k-bars", list(drawn.get("fail", {}).values()))])


TICK = 10


def story(outcomes: Sequence[str], label: str) -> Markup:
    """Returns a tick for each outcome, oldest first: high for fail, low for pass, a dot for anything else."""
    high, low, other = [], [], []
    for position, outcome in enumerate(outcomes):
        x = position * TICK + 1
        if outcome == "fail":
            high.append(_box(x, 0, 8, TALL))
        elif outcome == "pass":
            low.append(_box(x, 8, 8, 6))
        else:
            other.append(_box(x + 2, 11, 4, 3))
    width = max(_LEAST_COLUMNS, len(outcomes)) * TICK
    return _picture("story", width, TALL, label, [("o-pass", low), ("o-fail", high), ("o-na", other)])


def shares(
    interval: tuple[float, float] | None, now: float | None, before: float | None, label: str
) -> Markup:
    """Returns shares on a line from 0 to 1: an interval as a band, now as a disc, before as a ring."""
    parts = [_PATH.format(kind="axis", d="M4 10H196M4 6V14M196 6V14")]
    if interval is not None:
        low, high = (_along(end) for end in interval)
        parts.append(_PATH.format(kind="band", d=f"M{low:.1f} 6H{max(high, low + 1):.1f}V14H{low:.1f}z"))
    if before is not None:
        parts.append(_PATH.format(kind="ring", d=_circle(_along(before), 10, 4)))
    if now is not None:
        parts.append(_PATH.format(kind="disc", d=_circle(_along(now), 10, 4)))
    return Markup(
        '<svg class="shares" viewBox="0 0 200 20" role="img" aria-label="{label}">{parts}</svg>'
    ).format(label=_words(label), parts=Markup("").join(parts))


@dataclass(frozen=True, slots=True)
class Value:
    """A measured value; the ends of its interval, if it has one; whether it belongs to what is judged."""

    value: float
    low: float | None = None
    high: float | None = None
    judged: bool = False


LINE_WIDTH = 300
LINE_HEIGHT = 80


def span(values: Sequence[Value]) -> tuple[float, float]:
    """Returns between what a line is drawn: all values and intervals, and never so little that noise looks like drift."""
    low = min(item.value if item.low is None else item.low for item in values)
    high = max(item.value if item.high is None else item.high for item in values)
    middle = (low + high) / 2
    room = max((high - low) / 2, 0.15 * abs(middle)) or 1.0
    return middle - room, middle + room


def line(values: Sequence[Value], level: float | None, label: str) -> Markup:
    """Returns values as a line, oldest first, on the band of their intervals; a dot is on the last that is judged.

    Args:
        values: At least one, oldest first.
        level: What is drawn across as a dashed line, for example what was usual before; None for nothing.
        label: What the picture is about, for people who hear it.
    """
    low, high = span(values)
    step = LINE_WIDTH / max(1, len(values) - 1)
    xs = [number * step if len(values) > 1 else LINE_WIDTH / 2 for number in range(len(values))]

    def height(value: float) -> float:
        return LINE_HEIGHT - 4 - (value - low) / (high - low) * (LINE_HEIGHT - 8)

    points = [(x, height(item.value)) for x, item in zip(xs, values, strict=True)]
    upper = [
        (x, height(item.value if item.high is None else item.high))
        for x, item in zip(xs, values, strict=True)
    ]
    lower = [
        (x, height(item.value if item.low is None else item.low)) for x, item in zip(xs, values, strict=True)
    ]
    judged = [x for x, item in zip(xs, values, strict=True) if item.judged]
    end = next((point for point in reversed(points) if point[0] in judged), points[-1])
    parts: list[tuple[str, Sequence[str]]] = []
    if judged:
        left, right = max(0.0, judged[0] - step / 2), min(float(LINE_WIDTH), judged[-1] + step / 2)
        parts.append(("judged", [_box(left, 0, max(right - left, 4), LINE_HEIGHT)]))
    if any(item.low is not None for item in values):
        parts.append(("band", [f"{_polyline([*upper, *reversed(lower)])}z"]))
    if level is not None:
        parts.append(("level", [f"M0 {height(min(max(level, low), high)):.1f}H{LINE_WIDTH}"]))
    parts += [("line", [_polyline(points)]), ("end", [f"M{end[0]:.1f} {end[1]:.1f}h0"])]
    return _picture("curve", LINE_WIDTH, LINE_HEIGHT, label, parts)


def steps(points: Sequence[tuple[float, float]], label: str) -> Markup:
    """Returns how a number grew with another, (x, y) in the order of x: both from 0, level between the points."""
    right, top = max((x for x, _ in points), default=0.0), max((y for _, y in points), default=0.0)
    d, y = f"M0 {LINE_HEIGHT}", float(LINE_HEIGHT)
    for at, number in points:
        x = at / right * LINE_WIDTH if right > 0 else 0.0
        new = LINE_HEIGHT - 2 - number / top * (LINE_HEIGHT - 8) if top > 0 else float(LINE_HEIGHT - 2)
        d += f"H{x:.1f}" + (f"V{new:.1f}" if abs(new - y) > 0.05 else "")
        y = new
    area = f"{d}V{LINE_HEIGHT}z"
    return _picture("curve", LINE_WIDTH, LINE_HEIGHT, label, [("band", [area]), ("line", [d])])


def css_class(name: str, prefix: str = "o") -> str:
    """Returns the class of an outcome or a verdict: letters only, whatever a file holds."""
    return f"{prefix}-{''.join(char for char in name.lower() if 'a' <= char <= 'z')}"


def _picture(
    css: str, width: float, height: float, label: str, parts: Iterable[tuple[str, Sequence[str]]]
) -> Markup:
    return _PICTURE.format(css=css, width=width, height=height, label=_words(label), parts=_paths(parts))


def _paths(parts: Iterable[tuple[str, Sequence[str]]]) -> Markup:
    """Draws all shapes of one kind as one path."""
    return Markup("").join(_PATH.format(kind=kind, d="".join(shapes)) for kind, shapes in parts if shapes)


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{_short(x)} {_short(y)}h{_short(width)}v{_short(height)}h-{_short(width)}z"


def _words(text: str) -> str:
    return visible(short(text, 2 * _MOST))


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _circle(x: float, y: float, radius: float) -> str:
    return f"M{x - radius:.1f} {y}a{radius} {radius} 0 1 0 {2 * radius} 0a{radius} {radius} 0 1 0-{2 * radius} 0z"


def _along(share: float) -> float:
    return 4 + min(max(share, 0.0), 1.0) * 192


def _polyline(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
