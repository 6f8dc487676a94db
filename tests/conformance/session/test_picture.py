"""The picture and the table of docs/session.md are those of today."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from conformance.session.picture import dot, edges, with_table

DOCS = Path(__file__).parents[3] / "docs"


def test_page_has_the_table_of_today() -> None:
    page = (DOCS / "session.md").read_text()
    assert page == with_table(page), "python -m conformance.session.picture docs draws it again"


def test_picture_has_exactly_the_changes_of_today() -> None:
    svg = (DOCS / "session.svg").read_text()
    drawn = {
        tuple(unescape(title).split("->")) for title in re.findall(r"<title>([^<]*&gt;[^<]*)</title>", svg)
    }
    assert drawn == {(str(state), str(target)) for state, target in edges()}
    words = {unescape(text) for text in re.findall(r">([^<>]+)</text>", svg)}
    assert {trigger for triggers in edges().values() for trigger in triggers} <= words


def test_every_change_is_in_the_graph() -> None:
    assert dot().count("->") == len(edges())


def test_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no"):
        with_table("a page")
