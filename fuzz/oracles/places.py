"""Where a process says that it failed, in words that are the same in every run."""

from __future__ import annotations

import re
from typing import NamedTuple

LIBRARIES = frozenset({"alloc", "core", "std", "hashbrown"})
"""Crates that everybody calls."""

WORDS = 8
"""So many words of what a process said are in its signature."""

_CODE = re.compile(r"[A-Za-z_][\w:]*(?:\(\))?")


class _Way(NamedTuple):
    """How processes say that they fail: the file and line, if they do, and why."""

    where: re.Pattern[str] | None
    why: re.Pattern[str]


_OTHERS = (
    # Python, as its traces are cut short when they are read: the function, and what was raised there.
    _Way(
        re.compile(r"Traceback \(most recent call last\): File \"([^\"]+)\", line (\d+)"),
        re.compile(r"Traceback \(most recent call last\): File \"[^\"]+\", line \d+, in ([^;]*)"),
    ),
    # Go.
    _Way(
        re.compile(r"(?:panic|fatal error): .*?(\S+\.go):(\d+)"),
        re.compile(r"(?:^|; )(?:panic|fatal error): (.*?)(?: \S+\.go:\d|; |$)"),
    ),
    # Sanitizers of C and C++; what is undefined has its place in front.
    _Way(
        re.compile(r"SUMMARY: \w+Sanitizer: \S+ (\S+\.\w+):(\d+)"),
        re.compile(r"SUMMARY: \w+Sanitizer: ([\w-]+)"),
    ),
    # Built without lines: the program and its function.
    _Way(
        re.compile(
            r"SUMMARY: \w+Sanitizer: \S+ \((\S+)\+0x[0-9a-f]+\)(?: \(BuildId: \w+\))? in ([A-Za-z_]\w*)"
        ),
        re.compile(r"SUMMARY: \w+Sanitizer: ([\w-]+)"),
    ),
    _Way(
        re.compile(r"(\S+\.\w+):(\d+):\d+: runtime error: "),
        re.compile(r"\w:\d+:\d+: runtime error: ([^;]*)"),
    ),
    # assert() of C.
    _Way(
        re.compile(r"(\S+\.\w+):(\d+): .*?: Assertion [`']"),
        re.compile(r"\w:\d+: ([^;]*?: Assertion .*?' failed)"),
    ),
    # C++.
    _Way(None, re.compile(r"terminate called after throwing (an instance of '.*?')")),
)
"""What processes say that are not written in Rust."""


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
    for way in _OTHERS:
        place = way.where and way.where.search(said)
        if place:
            return f"{place[1].rpartition('/')[2]}:{place[2]}"
    known = re.search(r"memory allocation|stack overflow|fatal runtime error", said)
    return known[0] if known else ""


def in_file(place: str) -> bool:
    """Tells whether a place is one in a file; those of a standard library say nothing, everybody calls it."""
    found = re.search(r"(\S+)\.\w+:\d+|(?:^| )[^\s:]+:[A-Za-z_]\w*$", place)
    if found and found[1] is None:
        return True
    return found is not None and ("/" not in found[1] or found[1].partition("/")[0] not in LIBRARIES)


def words_of(detail: str) -> str:
    """Returns why a process failed as it says, without what differs from run to run: numbers, names in quotes."""
    found = re.search(
        r"panicked at '(.*?)', \S+:\d+|panicked at \S+?:\d+(?::\d+)?:?\s*(.*)", detail, re.DOTALL
    )
    if not found:
        return _other_words_of(detail)
    said = (found[1] if found[1] is not None else found[2]).split("; ")[0]
    said = re.sub(r"note: run with.*|thread '.*", "", said, flags=re.DOTALL)
    said = re.sub(r"\bat \S+/\S+|\S+/\S+\.\w+:\d+\S*", "", said)
    said = re.sub(r"\"[^\"]*\"", "_", said)
    # Code stays (`Option::unwrap()`), values do not.
    said = re.sub(r"`([^`]*)`", lambda quoted: quoted[1] if _CODE.fullmatch(quoted[1]) else "_", said)
    said = re.sub(r"0x[0-9a-f]+|\b\d[\d_.]*\b|\b[0-9a-f]{8,}\b", "N", said)
    said = re.sub(r"[\[({][N, _]+[\])}]", "", said)
    return _in_few_words(said)


def _other_words_of(detail: str) -> str:
    found = next(filter(None, (way.why.search(detail) for way in _OTHERS)), None)
    if not found:
        return ""
    # What an instance is of is no value.
    said = re.sub(r"instance of '(.*?)'", r"instance of \1", found[1])
    said = re.sub(r"Assertion [`'](.*?)' failed", r"Assertion \1 failed", said)
    said = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"", "_", said)
    return _in_few_words(re.sub(r"0x[0-9a-f]+|\b-?\d[\d_.]*\b|\b[0-9a-f]{8,}\b", "N", said))


def _in_few_words(said: str) -> str:
    return " ".join(said.replace("`", "").replace('"', "").split()[:WORDS]).rstrip(":,;.")
