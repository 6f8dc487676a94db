"""Words for people out of rows."""

from __future__ import annotations

import re

from conformance.requirements import requirements
from spark_reports.rows import VerdictRow

PASSIVE = "passive/"
"""What ids of verdicts begin with that were made by looking at all tests."""


def words_of(test: str) -> str:
    """Returns the name of a test as words: ``unknown version is refused [0x08]``."""
    name, bracket, parameters = test.rpartition("::")[2].partition("[")
    words = re.sub(r"^test_", "", name).replace("_", " ").strip()
    return f"{words} [{parameters}" if bracket else words


def title_of(row: VerdictRow) -> str:
    """Returns what a test is about."""
    if row.test.startswith(PASSIVE) and row.requirements:
        requirement = requirements().get(row.requirements[0])
        return requirement.text if requirement is not None else row.test
    return words_of(row.test)


def visible(text: object) -> str:
    """Returns a text in which nothing can hide: what is not printed stands as its number."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else f"\\u{ord(letter):04x}" for letter in str(text)
    )
