"""The pictures of a page: small inline SVG, coloured by the style sheet, with a title on each part.

They hold no text to be read, only shapes, so they may be stretched to any width; what they show stands
in words beside them.
"""

from collections.abc import Sequence

from markupsafe import Markup

from spark_reports.text import visible

_WIDTH = 1000
_LEAST = 6.0
"""Width of the smallest part of a bar, so that one fail among thousands is still seen."""

_LEAST_COLUMNS = 10
"""Room for so many columns is always there, so that one alone does not become a block."""

_BAR = Markup(
    '<svg class="bar" viewBox="0 0 {width} 10" preserveAspectRatio="none" role="img" aria-label="{label}">'
    "{parts}</svg>"
)
_PART = Markup(
    '<rect class="{kind}" x="{x:.1f}" width="{width:.1f}" height="10"><title>{title}</title></rect>'
)
_COLUMNS = Markup(
    '<svg class="columns" viewBox="0 0 {width} 30" preserveAspectRatio="none" role="img" '
    'aria-label="{label}">{parts}</svg>'
)
_COLUMN = Markup(
    '<rect class="{kind}" x="{x}" y="{y:.1f}" width="8" height="{height:.1f}"><title>{title}</title></rect>'
)


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
        title = visible(f"{number} {name}")
        drawn.append(_PART.format(kind=css_class(name, css), x=x, width=width * scale, title=title))
        x += width * scale
    return _BAR.format(width=_WIDTH, label=visible(f"{label}: {words}"), parts=Markup("").join(drawn))


def columns(values: Sequence[tuple[str, float]], label: str, *, kind: str) -> Markup:
    """Returns a column for each (title, value), oldest first; zero is a faint line on the ground."""
    top = max((value for _, value in values), default=0.0)
    drawn = []
    for position, (title, value) in enumerate(values):
        height = max(4.0, value / top * 30) if value > 0 else 1.5
        drawn.append(
            _COLUMN.format(
                kind=kind if value > 0 else "zero",
                x=position * 10 + 1,
                y=30 - height,
                height=height,
                title=visible(title),
            )
        )
    width = max(_LEAST_COLUMNS, len(values)) * 10
    return _COLUMNS.format(width=width, label=visible(label), parts=Markup("").join(drawn))


def meter(value: float, top: float, label: str) -> Markup:
    """Returns a bar as long as the share of ``value`` in ``top``."""
    width = max(_LEAST, value / top * _WIDTH) if value > 0 and top > 0 else 0.0
    part = _PART.format(kind="meter", x=0.0, width=width, title=visible(label))
    return _BAR.format(width=_WIDTH, label=visible(label), parts=part)


def css_class(name: str, prefix: str = "o") -> str:
    """Returns the class of an outcome or a verdict: letters only, whatever a file holds."""
    return f"{prefix}-{''.join(char for char in name.lower() if 'a' <= char <= 'z')}"
