"""Puts a text into every string of a report that a node, a person or a damaged file decides."""

import dataclasses
from collections.abc import Mapping
from typing import Any

HOSTILE = (
    "</style></script><script>alert(1)</script><img src=x onerror=alert(1)> \"'`|{{ 7*7 }}"
    "\u202e\x00\x1b[31m\udc80]]>&\n| a | b |\n# Title\n@someone"
)

# Words that code compares, and what tells rows apart.
_OURS = {
    *("outcome", "before", "after", "status", "state", "certainty", "kind", "better", "level"),
    *(
        "started_at",
        "ended_at",
        "first_seen",
        "last_seen",
        "run_id",
        "first_run",
        "last_run",
        "last_flip_run",
    ),
    *("before_run", "after_run", "area", "file", "asked"),
}


def with_text(value: Any, text: str) -> Any:
    """Returns the value with the text in place of every string that is not ours."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(with_text(item, text) for item in value)
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            field.name: with_text(getattr(value, field.name), text)
            for field in dataclasses.fields(value)
            if field.name not in _OURS and getattr(value, field.name)
        }
        return dataclasses.replace(value, **changed)
    return value
