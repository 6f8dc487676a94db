"""What processes write to standard error when they fail, in one line: where, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence

LIBRARY = re.compile(r"/lib/python[\d.]+/|/src/runtime/|<frozen ")
"""Files that everybody calls: what failed is in front of them."""

_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""What makes a terminal show colours."""

_PYTHON = re.compile(r"^Traceback \(most recent call last\)")
_PYTHON_FRAME = re.compile(r'^\s+File "')
_GO = re.compile(r"^(?:panic|fatal error): ")
_GO_FRAME = re.compile(r"^\s+\S+\.go:\d+")
_C = re.compile(r"[A-Z][a-z]+Sanitizer: ")
_C_SUMMARY = re.compile(r"^SUMMARY: ")


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
    starts = [at for at, line in enumerate(lines) if _C.search(line)]
    return bool(starts) and not any(_C_SUMMARY.search(line) for line in lines[starts[-1] :])


def _end_of_frames(lines: Sequence[str], at: int) -> int:
    """Returns the line behind the frames of a trace of Python: what was raised."""
    behind = range(at + 1, len(lines))
    return next((index for index in behind if lines[index][:1].strip()), len(lines))
