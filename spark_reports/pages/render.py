"""Writes a report: a page, a summary, JSON, CSV, JUnit XML and a badge. Same report, same bytes."""

import csv
import dataclasses
import errno
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_reports.errors import WrongUse
from spark_reports.pages.badge import badge
from spark_reports.pages.html_page import html
from spark_reports.pages.junit import junit
from spark_reports.pages.page import Page, count
from spark_reports.pages.spreadsheets import cell, spreadsheets
from spark_reports.pages.summary import summary
from spark_reports.pages.text import one_line, short, visible
from spark_reports.report import Difference, Report

HTML = "report.html"
MARKDOWN = "summary.md"
JSON = "report.json"

JUNIT = "junit.xml"
BADGE = "badge.svg"
CSV = "csv"
"""A folder."""


def write_report(page: Page, out: Path) -> Path:
    """Writes all files of a report into a folder, all or none of them; returns the HTML page.

    Raises:
        WrongUse: The folder cannot be written.
    """
    report = page.report
    files = {
        MARKDOWN: summary(page),
        JSON: to_json(report),
        JUNIT: junit(report),
        BADGE: badge(report),
        **{f"{CSV}/{name}": text for name, text in spreadsheets(report).items()},
        HTML: html(page),
    }
    try:
        (out / CSV).mkdir(parents=True, exist_ok=True)
        write_texts({out / name: text for name, text in files.items()})
    except OSError as error:
        raise WrongUse(f"cannot write into {out} ({error.strerror}); name another --out") from error
    return out / HTML


def check_writable(out: Path) -> None:
    """Makes the folder if it is not there, and checks that a file can be made in it.

    Raises:
        WrongUse: It cannot.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise WrongUse(f"cannot write into {out} ({error.strerror}); name another --out") from error


def to_json(report: Report) -> str:
    """Returns the report for programs: a line for each row; ASCII, so that no reader stumbles over a character."""
    encode = json.JSONEncoder(sort_keys=True, allow_nan=False, default=_fields).encode
    parts = []
    for name, value in sorted(_fields(report).items()):
        if isinstance(value, tuple) and value:
            parts.append(f'"{name}": [\n ' + ",\n ".join(map(encode, value)) + "]")
        else:
            parts.append(f'"{name}": {encode(value)}')
    return "{" + ",\n".join(parts) + "}\n"


def _fields(value: Any) -> dict[str, Any]:
    """Returns the fields of a part; faster than ``asdict``, which copies everything below."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def differences_text(found: Sequence[Difference]) -> str:
    """Returns what releases show differently, for a terminal: a few words, then a line for each difference."""
    lines: list[str] = []
    for impl in dict.fromkeys(row.node_impl for row in found):
        mine = [row for row in found if row.node_impl == impl]
        differing = [row for row in mine if row.first is not None]
        releases = max(row.versions for row in mine)
        verb = "differs" if len(mine) == 1 else "differ"
        lines.append(
            f"{visible(one_line(impl))}, {count(releases, 'release')}: {len(differing)} of {count(len(mine), 'requirement')} {verb}"
        )
        cells = [
            (
                row.requirement,
                row.level,
                row.first or "",
                f"{short(row.before or '', 60)} -> {short(row.after or '', 60)}",
                row.test or "",
            )
            for row in differing
        ]
        lines += _aligned([[visible(one_line(cell)) for cell in row] for row in cells])
    return "".join(f"{line}\n" for line in lines)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def differences_csv(found: Sequence[Difference]) -> str:
    """Returns what releases show differently, for programs; empty fields where no release differs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [field.name for field in dataclasses.fields(Difference)]
    writer.writerow(names)
    for row in found:
        writer.writerow([cell(getattr(row, name)) for name in names])
    return text.getvalue()


def write_texts(files: Mapping[Path, str]) -> None:
    """Writes files, all or none of them: none is put in its place before all are written."""
    made: dict[Path, Path] = {}
    try:
        for path, text in files.items():
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            made[path] = Path(temporary)
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        # A temporary file is for its owner alone; a report is for everyone the umask permits.
        umask = os.umask(0)
        os.umask(umask)
        for path, ready in made.items():
            ready.chmod(0o666 & ~umask)
            ready.replace(path)
    finally:
        for left in made.values():
            left.unlink(missing_ok=True)
