"""Writes a report: one HTML page, one Markdown summary, one JSON file. Same report, same bytes.

Whatever a template prints goes through ``visible`` and is escaped; no template can forget it.
"""

import csv
import dataclasses
import io
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from spark_reports import page as page_module
from spark_reports.errors import WrongUse
from spark_reports.folders import STATES
from spark_reports.page import GLYPHS, Page, count, make_page
from spark_reports.report import Difference, Report
from spark_reports.svg import css_class
from spark_reports.text import markdown, one_line, short, visible

HTML = "report.html"
MARKDOWN = "summary.md"
JSON = "report.json"

MARKDOWN_LIMIT = 60_000
"""Bytes; platforms that show such summaries cut them off at about a million."""

MARKDOWN_ROWS = 50


def write_report(report: Report, out: Path) -> Path:
    """Writes all files of a report into a folder, each whole or not at all; returns the HTML page.

    Raises:
        WrongUse: The folder cannot be written.
    """
    page = make_page(report)
    files = {HTML: html(page), MARKDOWN: summary(page), JSON: to_json(report)}
    try:
        for name, text in files.items():
            write_text(out / name, text)
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


def environment() -> jinja2.Environment:
    """Returns what renders a template: whatever it prints is made visible and escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates", encoding="utf-8"),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"short": short, "css": css_class, "number": _number}
    return made


def html(page: Page) -> str:
    """Returns the page: self-contained, no script, nothing loaded from elsewhere."""
    made = environment()
    made.filters |= {"hexdump": _hexdump, "clock": _clock}
    made.globals |= {"GLYPHS": GLYPHS, "STATES": STATES, "limits": page_module, "count": count}
    return made.get_template("page.html.j2").render(page=page, report=page.report)


def to_json(report: Report) -> str:
    """Returns the report for programs; ASCII, so that no reader stumbles over a character."""
    return json.dumps(dataclasses.asdict(report), indent=1, sort_keys=True, allow_nan=False) + "\n"


def summary(page: Page) -> str:
    """Returns the report in a few tables of Markdown, for the summary of a pipeline."""
    report = page.report
    lines = [f"# {markdown(page.headline)}", "", f"{page.span}.", ""]
    rows = [[line.label, *(str(line.counts[name]) for name in page_module.ORDER)] for line in page.versions]
    lines += _table(["node", *page_module.ORDER], rows)
    lines += _section(
        "What changed",
        ["", "requirement", "before", "after", "node"],
        [
            [
                change.direction,
                change.requirement,
                change.before,
                change.after,
                f"{change.node}: {change.before_version} to {change.after_version}",
            ]
            for change in page.changes
        ],
    )
    lines += _section(
        "What releases show differently",
        ["requirement", "since", "before", "then", "node"],
        [
            [row.requirement, row.first or "", row.before or "", row.after or "", row.node_impl]
            for row in report.differences
        ],
    )
    lines += _section(
        "Findings",
        ["", "bucket", "cases", "campaigns", "first seen", "last seen", "smallest case"],
        [
            [
                finding.status,
                finding.bucket,
                str(finding.cases),
                ", ".join(finding.campaigns),
                finding.first_run,
                finding.last_run,
                f"{finding.campaign} case {finding.case}, {finding.sent_bytes} bytes",
            ]
            for finding in report.findings
        ],
    )
    lines += _section(
        "Requirements that did not pass",
        ["outcome", "requirement", "expected", "seen", "node"],
        [
            [
                card.trouble.outcome,
                " ".join(card.trouble.requirements),
                card.trouble.expected or card.trouble.reason,
                card.trouble.seen,
                ", ".join(card.labels),
            ]
            for card in page.troubles
        ],
    )
    lines += _section(
        "Runs that are not whole",
        ["run", "state", "what is wrong"],
        [
            [
                run.run_id,
                run.state,
                "; ".join([*run.notes, *([count(run.bad, "bad line")] if run.bad else [])])
                or STATES[run.state],
            ]
            for run in page.ailing
        ],
    )
    return _cap(lines)


def differences_text(found: Sequence[Difference]) -> str:
    """Returns what releases show differently, for a terminal: a few words, then a line for each difference."""
    lines: list[str] = []
    for impl in dict.fromkeys(row.node_impl for row in found):
        mine = [row for row in found if row.node_impl == impl]
        differing = [row for row in mine if row.first is not None]
        releases = max(row.versions for row in mine)
        lines.append(
            f"{visible(one_line(impl))}, {count(releases, 'release')}: {len(differing)} of {count(len(mine), 'requirement')} differ"
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
        values = [getattr(row, name) for name in names]
        writer.writerow([visible(one_line(value)) if isinstance(value, str) else value for value in values])
    return text.getvalue()


def _section(title: str, head: list[str], rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    shown = rows[:MARKDOWN_ROWS]
    more = [f"{len(rows) - len(shown)} more in {HTML}.", ""] if len(rows) > len(shown) else []
    return [f"## {title}", "", *_table(head, shown), *more]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    body = ["| " + " | ".join(markdown(cell) for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body, ""]


def _cap(lines: list[str]) -> str:
    text = "\n".join(lines).rstrip() + "\n"
    if len(text.encode()) <= MARKDOWN_LIMIT:
        return text
    kept, size = [], 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > MARKDOWN_LIMIT:
            break
        kept.append(line)
    return "\n".join([*kept, "", f"{len(lines) - len(kept)} more lines; all of it is in {HTML}."]) + "\n"


def _finalize(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _number(value: float | None, digits: int = 0) -> str:
    """Writes a number with thin spaces between thousands; a dash for none."""
    return (
        "\N{EN DASH}" if value is None else f"{value:,.{digits}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    )


def _hexdump(text: str, limit: int = 64) -> str:
    """Writes hex digits in pairs."""
    pairs = [text[at : at + 2] for at in range(0, min(len(text), 2 * limit), 2)]
    more = (len(text) - 2 * limit) // 2
    return " ".join(pairs) + (f" … {more} more bytes" if more > 0 else "")


def _clock(stamp: str | None) -> str:
    """Writes ``2026-11-10T00:07:41.250Z`` as ``2026-11-10 00:07``; anything else as it is."""
    return (stamp or "\N{EN DASH}").replace("T", " ")[:16]


def write_text(path: Path, text: str) -> None:
    """Writes a file, whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # A temporary file is for its owner alone; a report is for everyone the umask permits.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
