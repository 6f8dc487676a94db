"""Where a process says that it failed, in words that are the same in every run."""

from __future__ import annotations

import re

LIBRARIES = frozenset({"alloc", "core", "std", "hashbrown"})
"""Crates that everybody calls."""


def place_of(said: str) -> str:
    """Returns where a failure was: ``crate/src/file.rs:line`` without version and column, or what failed."""
    # ``panicked at /some/where/crate-1.2.3/src/a.rs:12:5``; older ones have the quoted message in front.
    place = re.search(r"panicked at (?:'.*?', )?(\S+?):(\d+)(?::\d+)?", said)
    if place:
        path = place[1].split("/")
        if "src" in path:
            at = len(path) - 1 - path[::-1].index("src")
            crate = re.sub(r"-\d+\.\d[\w.+-]*$", "", path[at - 1]) if at else ""
            path = [*([crate] if crate else []), *path[at:]]
        else:
            path = path[-1:]
        return f"{'/'.join(path)}:{place[2]}"
    known = re.search(r"memory allocation|stack overflow|fatal runtime error", said)
    return known[0] if known else ""


def in_file(place: str) -> bool:
    """Tells whether a place is one in a file; those of a standard library say nothing, everybody calls it."""
    found = re.search(r"(\S+)\.\w+:\d+", place)
    return found is not None and found[1].partition("/")[0] not in LIBRARIES
