"""Pictures of traffic: small inline SVG like that of ``svg``, with a title on each part and no text inside."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from spark_reports.pages.text import visible

HEIGHT = 160
SLOT = 10
LEAST = 1.5
"""Height of the smallest part of a column, so that one error among thousands is still seen."""

MOST_SLOTS = 400
"""More columns than that are not drawn; whoever asks for a picture makes few enough."""

_CHART = Markup(
    '<svg class="chart" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" '
    'aria-label="{label}">{parts}</svg>'
)
_GROUP = Markup("<g><title>{title}</title>{parts}</g>")
_PART = Markup('<rect class="{kind}" x="{x}" y="{y:.1f}" width="{width}" height="{height:.1f}"/>')
_LINE = Markup('<path class="grid" d="M0 {y:.1f}H{width}"/>')

Column = tuple[int, str, Sequence[tuple[str, float]]]
"""Slot, title, and (class, value) of its parts from the ground up."""


def stacked(columns: Sequence[Column], slots: int, label: str, *, height: int = HEIGHT) -> Markup:
    """Returns columns of several parts over ``slots`` places; where there is no column, there was nothing.

    Args:
        columns: In any order; those outside of the places are left out.
        slots: Number of places.
        label: What the picture is about, for people who hear it.
        height: Of the highest column.
    """
    slots = max(1, min(slots, MOST_SLOTS))
    top = max((sum(value for _, value in parts) for _, _, parts in columns), default=0.0)
    width = slots * SLOT
    drawn = [_LINE.format(y=height * share, width=width) for share in (0.25, 0.5, 0.75)]
    for slot, title, parts in columns:
        if 0 <= slot < slots and top > 0:
            drawn.append(_GROUP.format(title=visible(title), parts=_column(slot, parts, top, height)))
    return _CHART.format(width=width, height=height, label=visible(label), parts=Markup("").join(drawn))


def _column(slot: int, parts: Sequence[tuple[str, float]], top: float, height: int) -> Markup:
    seen = [(kind, max(LEAST, value / top * height)) for kind, value in parts if value > 0]
    scale = min(1.0, height / sum(size for _, size in seen)) if seen else 1.0
    drawn, y = [], float(height)
    for kind, size in seen:
        y -= size * scale
        drawn.append(_PART.format(kind=kind, x=slot * SLOT + 1, y=y, width=SLOT - 2, height=size * scale))
    return Markup("").join(drawn)


def duration(ns: float | None) -> str:
    """Returns a duration with three digits and its unit, ``1.23 ms``; a dash for none."""
    if ns is None:
        return "\N{EN DASH}"
    size = abs(ns)
    for unit, worth in _UNITS.items():
        if size >= worth:
            return f"{ns / worth:.3g} {unit}" if size < 1000 * worth else f"{ns / worth:,.0f} {unit}"
    return f"{ns:.0f} ns"


_UNITS: Mapping[str, float] = {"s": 1e9, "ms": 1e6, "µs": 1e3}


def size(number: float) -> str:
    """Returns a number of bytes with three digits and its unit, ``1.23 MB``."""
    for unit, worth in _SIZES.items():
        if number >= worth:
            return f"{number / worth:.3g} {unit}"
    return f"{number:.0f} B"


_SIZES: Mapping[str, float] = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}
