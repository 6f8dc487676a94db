"""What several commands need: arguments, words on standard error, and whether there is anything to report."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spark_reports.errors import NothingToReport
from spark_reports.folders import COMPLETE, FAILED, RUNNING, RunFolder


def some_path(text: str) -> Path:
    """Reads a path; an empty one, as of a variable that is not set, would be the current folder."""
    return Path(some_place(text))


def some_place(text: str) -> str:
    """Reads a path or URI that is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty; use . for the current folder")
    return text


def say(text: str) -> None:
    """Tells what is being done, on standard error."""
    # A path need not be text.
    text = text.encode("utf-8", "backslashreplace").decode()
    # On a terminal there may be a line that shows progress, see ``progress``.
    line = f"\x1b[K{text}\n" if sys.stderr.isatty() else f"{text}\n"
    # In one piece: questions are asked side by side, and each tells of itself.
    sys.stderr.write(line)
    sys.stderr.flush()


def check_not_empty(folders: Sequence[RunFolder], roots: Sequence[Path]) -> None:
    """Checks that something was recorded.

    Raises:
        NothingToReport: Nothing was; says how to record a run.
    """
    names = ", ".join(map(str, roots))
    how = "record one with `pytest conformance/ --node ...` or `zenoh-fuzz run`"
    if not folders:
        raise NothingToReport(f"no run folders in {names} (a run folder has a run.json); {how}")
    ended = any(folder.run.status in {COMPLETE, FAILED, RUNNING} for folder in folders if folder.files)
    if not ended and not any(tail.size for folder in folders for tail in folder.files.values()):
        problems = [folder.problem for folder in folders if folder.problem]
        problems += [
            f"{folder.path.name}/{name} cannot be opened ({why})"
            for folder in folders
            for name, why in sorted(folder.locked.items())
        ]
        first = next(iter(problems), "no rows were written")
        raise NothingToReport(f"nothing recorded in {names}: {first}; {how}")
