"""Where a process says that it failed, in words that are the same in every run."""

from __future__ import annotations

import re

LIBRARIES = frozenset({"alloc", "core", "std", "hashbrown"})
"""Crates that everybody calls."""


OTHERS = (
    # Python, as its traces are cut short when they are read.
    re.compile(r"Traceback \(most recent call last\): File \"([^\"]+)\", line (\d+)"),
    # Go.
    re.compile(r"(?:panic|fatal error): .*?(\S+\.go):(\d+)"),
    # Sanitizers of C and C++; what is undefined has its place in front.
    re.compile(r"SUMMARY: \w+Sanitizer: \S+ (\S+\.\w+):(\d+)"),
    re.compile(r"(\S+\.\w+):(\d+):\d+: runtime error: "),
    # assert() of C.
    re.compile(r"(\S+\.\w+):(\d+): .*?: Assertion [`']"),
)
"""Files and lines as processes say them that are not written in Rust."""


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
    for elsewhere in OTHERS:
        place = elsewhere.search(said)
        if place:
            return f"{place[1].rpartition('/')[2]}:{place[2]}"
    known = re.search(r"memory allocation|stack overflow|fatal runtime error", said)
    return known[0] if known else ""


def in_file(place: str) -> bool:
    """Tells whether a place is one in a file; those of a standard library say nothing, everybody calls it."""
    found = re.search(r"(\S+)\.\w+:\d+", place)
    return found is not None and ("/" not in found[1] or found[1].partition("/")[0] not in LIBRARIES)
