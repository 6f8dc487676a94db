"""Writes a traffic report: one HTML page and one JSON file. Same report, same bytes.

Every string that came from a capture goes through ``visible`` and is escaped, as in all our pages.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from spark_reports.captures.traffic_report import BINS, Bin, KeyLine, Traffic
from spark_reports.errors import WrongUse
from spark_reports.pages import charts, svg
from spark_reports.pages.html_page import environment
from spark_reports.pages.page import count
from spark_reports.pages.render import write_texts
from spark_reports.traffic import COUNTED, NS

HTML = "traffic.html"
JSON = "traffic.json"
TEMPLATE = "traffic.html.j2"

CLASSES: Mapping[str, str] = {
    "puts": "t-puts",
    "deletes": "t-deletes",
    "queries": "t-queries",
    "replies": "t-replies",
    "errors": "t-errors",
}
"""Columns of numbers, and the classes that colour them."""


@dataclasses.dataclass(frozen=True, slots=True)
class KeyView:
    """A key and its pictures."""

    key: KeyLine
    meter: Markup
    mix: Markup
    history: Markup


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Everything the template needs."""

    headline: str
    tone: str
    span: str
    seconds: float
    chart: Markup
    top_rate: float
    begins: str
    ends: str
    width: str
    keys: Sequence[KeyView]
    latency: Markup
    gap_meters: Sequence[Markup]
    traffic: Traffic


def make_page(traffic: Traffic) -> Page:
    """Returns the page of a report."""
    span = traffic.span
    seconds = (span[1] - span[0]) / NS if span else 0.0
    step, bins = traffic.interval_ns, traffic.over_time
    first = min((one.start_ns for one in bins), default=0)
    last = max((one.start_ns for one in bins), default=0)
    slots = (last - first) // step + 1
    refused = sum(line.refused for line in traffic.captures)
    damaged = sum(line.damage is not None for line in traffic.captures)
    words = [count(traffic.messages, "message"), count(traffic.total.events, "event")]
    troubles = [
        count(number, noun)
        for number, noun in ((traffic.lost, "gap"), (refused, "refused batch"), (damaged, "damaged capture"))
        if number
    ]
    if traffic.disordered:
        troubles.append(f"{count(traffic.disordered, 'link')} captured out of order")
    return Page(
        headline=", ".join(words),
        tone="bad" if damaged else "mixed" if troubles else "good",
        span="; ".join([count(len(traffic.captures), "capture"), *troubles]).replace("batchs", "batches"),
        seconds=seconds,
        chart=charts.stacked(
            [((one.start_ns - first) // step, _said(one), _parts(one)) for one in bins],
            slots,
            f"events over time, {count(len(bins), 'interval')} of {charts.duration(step)}",
        ),
        top_rate=max((one.events for one in bins), default=0) / (step / NS),
        begins=_stamp(first),
        ends=_stamp(last + step),
        width=charts.duration(step),
        keys=_keys(traffic, first, slots),
        latency=_latency(traffic),
        gap_meters=[
            svg.meter(line.gaps, max(one.gaps for one in traffic.gaps), count(line.gaps, "gap"))
            for line in traffic.gaps
        ],
        traffic=traffic,
    )


def _keys(traffic: Traffic, first: int, slots: int) -> list[KeyView]:
    of_key: dict[str | None, list[Bin]] = {}
    for one in traffic.keys_over_time:
        of_key.setdefault(one.keyexpr, []).append(one)
    top = max((key.events for key in traffic.keys), default=0)
    views = []
    for key in traffic.keys:
        name = key.keyexpr or "unknown key"
        bins = of_key.get(key.keyexpr, []) if key.keyexpr is not None else []
        columns = [((one.start_ns - first) // traffic.interval_ns, _said(one), _parts(one)) for one in bins]
        views.append(
            KeyView(
                key,
                svg.meter(key.events, top, count(key.events, "event")),
                svg.bar([(kind, getattr(key, kind)) for kind in COUNTED.values()], name, css="t"),
                charts.stacked(columns, min(slots, BINS + 2), f"{name} over time", height=30)
                if columns
                else Markup(""),
            )
        )
    return views


def _latency(traffic: Traffic) -> Markup:
    bins = traffic.latency_bins
    if not bins:
        return Markup("")
    first = min(one.from_ns for one in bins).bit_length()
    last = max(one.from_ns for one in bins).bit_length()
    columns = [
        (
            one.from_ns.bit_length() - first,
            f"{charts.duration(one.from_ns)} to {charts.duration(one.to_ns)}: {count(one.requests, 'request')}",
            [("t-replies", float(one.requests))],
        )
        for one in bins
    ]
    return charts.stacked(columns, max(last - first + 1, 12), "requests by time to final reply")


def _parts(one: Bin) -> list[tuple[str, float]]:
    return [(css, float(getattr(one, kind))) for kind, css in CLASSES.items()]


def _said(one: Bin) -> str:
    numbers = ", ".join(f"{number} {kind}" for kind in CLASSES if (number := getattr(one, kind)))
    return f"{_stamp(one.start_ns)}: {numbers or 'nothing'}"


def _stamp(ns: int | None) -> str:
    """Writes a time as ``2026-11-10 00:07:41.250``; a dash where captures have none."""
    if not ns:
        return "\N{EN DASH}"
    try:
        moment = datetime.fromtimestamp(ns // NS, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ns} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{ns % NS // 1_000_000:03d}"


def html(page: Page) -> str:
    """Returns the page: self-contained, no script, nothing loaded from elsewhere."""
    made = environment()
    made.filters |= {"duration": charts.duration, "bytes": charts.size, "moment": _stamp}
    made.globals |= {"COUNTED": COUNTED, "CLASSES": CLASSES, "count": count}
    return made.get_template(TEMPLATE).render(page=page, traffic=page.traffic)


def to_json(traffic: Traffic) -> str:
    """Returns the report for programs; ASCII, so that no reader stumbles over a character."""
    return json.dumps(dataclasses.asdict(traffic), indent=1, sort_keys=True, allow_nan=False) + "\n"


def write(traffic: Traffic, out: Path) -> Path:
    """Writes both files into a folder, both or none; returns the HTML page.

    Raises:
        WrongUse: The folder cannot be written.
    """
    files = {JSON: to_json(traffic), HTML: html(make_page(traffic))}
    try:
        write_texts({out / name: text for name, text in files.items()})
    except OSError as error:
        raise WrongUse(f"cannot write into {out} ({error.strerror}); name another --out") from error
    return out / HTML
