"""Turns a page into HTML by templates: whatever they print is made visible and escaped, none can forget it.

A page carries its style and its script with it. A policy in its head names both by their SHA-256, so a
browser runs nothing else and asks for nothing, whatever strings the rows held.
"""

import base64
import functools
import hashlib
import importlib.resources
import re
from typing import Any

import jinja2
from markupsafe import Markup

from spark_reports.folders import STATES
from spark_reports.pages.grid import ORDER
from spark_reports.pages.page import GLYPHS, Page, count, make_page
from spark_reports.pages.svg import css_class
from spark_reports.pages.text import NONE, one_line, parameter, percent, short, visible

# A wheel that spark-submit hands over stays a zip file.
TEMPLATES = importlib.resources.files("spark_reports.pages") / "templates"
MOST_BYTES = 500 * 1024


def environment() -> jinja2.Environment:
    """Returns what renders a template: whatever it prints is made visible and escaped."""
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"short": short, "css": css_class, "number": number, "unbroken": unbroken}
    return made


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def html(page: Page) -> str:
    """Returns the page: self-contained, nothing loaded from elsewhere, readable without its script.

    One that is larger than ``MOST_BYTES`` is made again with less of everything, as long as that helps.
    """
    while True:
        text = _render(page)
        size = len(text.encode())
        smaller = page.limits.smaller(min(0.9, (MOST_BYTES / size) ** 1.5))
        if size <= MOST_BYTES or smaller == page.limits:
            return text
        page = make_page(page.report, page.places, smaller, page.grid, page.typed, page.missing)


def _render(page: Page) -> str:
    template = _environment().get_template("page.html.j2")
    return template.render(page=page, report=page.report, limits=page.limits)


@functools.cache
def _environment() -> jinja2.Environment:
    made = environment()
    made.filters |= {
        "hexdump": hexdump,
        "clock": clock,
        "percent": percent,
        "figure": figure,
        "one_line": one_line,
        "parameter": parameter,
    }
    made.globals |= {
        "GLYPHS": GLYPHS,
        "STATES": STATES,
        "ORDER": ORDER,
        "count": count,
        "STYLE": _asset("style.css", "page.css"),
        "SCRIPT": _asset("page.js"),
        "digest": digest,
    }
    return made


def digest(text: str) -> Markup:
    """Returns the source that a Content-Security-Policy knows an inline style or script by."""
    made = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup("'sha256-{}'").format(made)


def number(value: float | None, digits: int = 0) -> str:
    """Writes a number with thin spaces between thousands; a dash for none."""
    return NONE if value is None else f"{value:,.{digits}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def unbroken(text: str) -> str:
    """Lets no line end inside of a number: the spaces between thousands are those of ``number``."""
    return re.sub(r"(?<=\d) (?=\d{3}(?!\d))", "\N{NARROW NO-BREAK SPACE}", text)


def figure(value: float | None) -> str:
    """Writes a measured value with about three digits: ``0.0123``, ``4.56``, ``1 230``; a dash for none."""
    if value is None:
        return NONE
    return number(value) if abs(value) >= 100 else f"{value:.3g}"


def hexdump(text: str, limit: int = 64) -> str:
    """Writes hex digits in pairs, each of several stimuli on a line of its own."""
    room, lines = limit, []
    for stimulus in text.split():
        if room <= 0:
            break
        pairs = [stimulus[at : at + 2] for at in range(0, min(len(stimulus), 2 * room), 2)]
        room -= len(pairs)
        lines.append(" ".join(pairs))
    more = len("".join(text.split())) // 2 - limit
    return "\n".join(lines) + (f" … {more} more byte{'s' * (more > 1)}" if more > 0 else "")


def clock(stamp: str | None) -> str:
    """Writes ``2026-11-10T00:07:41.250Z`` as ``2026-11-10 00:07``; anything else as it is."""
    return (stamp or NONE).replace("T", " ")[:16]


def _asset(*names: str) -> Markup:
    return Markup("").join(Markup(_template(name)) for name in names)  # noqa: S704 - ours, not from rows


def _finalize(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
