"""What processes write to standard error when they fail, in one line: where, and why."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

LIBRARY = re.compile(r"/lib/python[\d.]+/|/src/runtime/|<frozen ")
"""Files that everybody calls: what failed is in front of them."""

_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""What makes a terminal show colours."""

_PYTHON = re.compile(r"^Traceback \(most recent call last\)")
_PYTHON_FRAME = re.compile(r'^\s+File "')
_GO = re.compile(r"^(?:panic|fatal error): ")
_GO_FRAME = re.compile(r"^\s+\S+\.go:\d+")
_C = re.compile(r"[A-Z][a-z]+Sanitizer: ")
_C_SUMMARY = re.compile(r"^SUMMARY: \w+Sanitizer: [A-Za-z][\w-]+ ")
_C_LEAKED = re.compile(r"^SUMMARY: \w+Sanitizer: \d+ byte\(s\) leaked ")
_C_FRAME = re.compile(
    r"^\s+#\d+ 0x[0-9a-f]+ in (?P<name>.+?) (?P<file>\S+:\d+(?::\d+)?|\(\S+\))(?: \(BuildId: \w+\))?$"
)
_C_LIBRARY = re.compile(
    r"libsanitizer/|sanitizer_common|compiler-rt/|sysdeps/|^\.\./|^\(\S*/lib[^/]*\.so|/include/c\+\+/"
)
_C_INTERCEPTED = re.compile(
    r"^(?:__interceptor_|__asan_|__sanitizer_|operator (?:new|delete))|^(?:mem|str)[a-z]+$"
)


def lines_of(said: bytes) -> list[str]:
    """Returns the lines that a process wrote, without colours."""
    return _COLOUR.sub("", said.decode(errors="replace")).splitlines()


def told(lines: Sequence[str], at: int) -> str:
    """Returns a line that tells of a failure, with those behind it that say where it was and why.

    Args:
        lines: All that was said, with the space in front.
        at: The line.
    """
    if _PYTHON.search(lines[at]):
        end = _end_of_frames(lines, at)
        frames = [line for line in lines[at:end] if _PYTHON_FRAME.search(line)]
        own = [line for line in frames if not LIBRARY.search(line)] or frames
        found = [lines[at], *own[-1:], *lines[end : end + 1]]
    elif _GO.search(lines[at]):
        frames = [line for line in lines[at:] if _GO_FRAME.search(line) and not LIBRARY.search(line)]
        found = [lines[at], *frames[:1]]
    elif _C_SUMMARY.search(lines[at]):
        found = [_own_summary(lines, at)]
    elif _C_LEAKED.search(lines[at]):
        found = [_leak_summary(lines, at)]
    else:
        # Two lines tell more than one: a panic says where, then why.
        found = [*lines[at : at + 2]]
    return " ".join(line.strip() for line in found).strip()


def goes_on(said: bytes) -> bool:
    """Tells whether a process is about to say where it has failed; it may write that piece by piece."""
    lines = lines_of(said)
    for at, line in enumerate(lines):
        if _PYTHON.search(line) and _end_of_frames(lines, at) == len(lines):
            return True
        if _GO.search(line) and not any(_GO_FRAME.search(behind) for behind in lines[at:]):
            return True
    return _reports(lines)


def reports(said: bytes) -> bool:
    """Tells whether a sanitizer is about to say where it was: it looks up files and lines first, which takes it long."""
    return _reports(lines_of(said))


def _reports(lines: Sequence[str]) -> bool:
    starts = [at for at, line in enumerate(lines) if _C.search(line)]
    return bool(starts) and not any(line.startswith("SUMMARY: ") for line in lines[starts[-1] :])


def _own_summary(lines: Sequence[str], at: int) -> str:
    """Returns the last line of a sanitizer's report, with the first place that is the process's own.

    What it names itself may be a function of the C library that everybody calls, or its own stand-in for one.
    """
    summary = _C_SUMMARY.search(lines[at])
    assert summary is not None
    started = next((index for index in range(at - 1, -1, -1) if _C.search(lines[index])), at)
    place = _own_place(itertools.takewhile(str.strip, lines[started + 1 : at]))
    return f"{summary[0]}{place}" if place else lines[at]


def _leak_summary(lines: Sequence[str], at: int) -> str:
    """Returns the last line of a report of what was never freed, with the place where the most of it was taken."""
    started = next((index for index in range(at - 1, -1, -1) if _C.search(lines[index])), at)
    place = _own_place(lines[started + 1 : at])
    name, _, rest = lines[at].removeprefix("SUMMARY: ").partition(": ")
    return f"SUMMARY: {name}: leak {place}: {rest}" if place else lines[at]


def _own_place(lines: Iterable[str]) -> str:
    """Returns the first place of a trace that is the process's own, with its function; nothing when there is none."""
    for line in lines:
        frame = _C_FRAME.search(line)
        if frame and not _C_LIBRARY.search(frame["file"]) and not _C_INTERCEPTED.search(frame["name"]):
            return f"{frame['file']} in {frame['name']}"
    return ""


def _end_of_frames(lines: Sequence[str], at: int) -> int:
    """Returns the line behind the frames of a trace of Python: what was raised."""
    behind = range(at + 1, len(lines))
    return next((index for index in behind if lines[index][:1].strip()), len(lines))
