"""The page of a run: one file, nothing loaded from elsewhere. Whatever it prints is made visible and escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from conformance.page.content import MEANINGS, NAMES, content_of, link_to
from conformance.page.facts import UNTRIED
from conformance.page.proof import Proof
from conformance.page.reading import Recorded
from conformance.page.words import title_of, visible

TEMPLATES = Path(__file__).parent / "templates"


@cache
def _template() -> jinja2.Template:
    """Returns the template; to compile it takes longer than to fill it in."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"css": css_class, "title_of": title_of, "link_to": link_to}
    return made.get_template("page.html.j2")


def render(recorded: Recorded, proof: Proof | None) -> str:
    """Returns the page."""
    # Ours, and the only text that is not escaped.
    style, script = (Markup((TEMPLATES / name).read_text("utf-8")) for name in ("page.css", "page.js"))  # noqa: S704
    return _template().render(
        page=content_of(recorded, proof),
        style=style,
        script=script,
        names=NAMES,
        meanings=MEANINGS,
        untried=UNTRIED,
        rank={name: number for number, name in enumerate(NAMES)},
    )


def css_class(outcome: str) -> str:
    """Returns the class of an outcome."""
    return {"n/a": "na", UNTRIED: "untried"}.get(outcome, outcome if outcome in NAMES else "inconclusive")


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup) or value is None:
        return value
    return visible(value)
