"""The parts of a report as CSV, a file for each, for spreadsheets and for people who like to count themselves.

A file is there even when a report has no such part, with its head alone, so that no file of an earlier report
stays behind.
"""

import csv
import dataclasses
import io
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_reports.pages.text import one_line, visible
from spark_reports.report import Report, TrendPoint

# The wide forms as well: a spreadsheet that is set to Japanese or Chinese takes them for the others.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")

TREND = "trend"


def spreadsheets(report: Report) -> dict[str, str]:
    """Returns the text of each file by its name."""
    files = {}
    for name, kind in _parts().items():
        columns = [field.name for field in dataclasses.fields(kind) if field.name != "points"]
        rows = ([getattr(one, column) for column in columns] for one in getattr(report, name))
        files[f"{name}.csv"] = _text(columns, rows)
    columns = [field.name for field in dataclasses.fields(TrendPoint)]
    points = (
        [trend.name, *(getattr(point, column) for column in columns)]
        for trend in report.trends
        for point in trend.points
    )
    files["trend_points.csv"] = _text([TREND, *columns], points)
    return files


def _parts() -> dict[str, type]:
    """Returns the fields of a report that are a table, and what a row of each is."""
    parts = {}
    for name, hint in typing.get_type_hints(Report).items():
        arguments = typing.get_args(hint)
        if typing.get_origin(hint) is tuple and dataclasses.is_dataclass(arguments[0]):
            parts[name] = typing.cast("type", arguments[0])
    return parts


def _text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()


def cell(value: Any) -> Any:
    """Returns a value as it may stand in a spreadsheet: one line, nothing hidden, nothing that is run."""
    match value:
        case str():
            plain = visible(one_line(value))
            # A spreadsheet would run what a node said.
            return f"'{plain}" if plain.startswith(_FORMULA) else plain
        case Mapping():
            return cell(" ".join(f"{name}={number}" for name, number in sorted(value.items())))
        case tuple():
            return cell(
                " ".join("=".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value)
            )
        case _:
            return value
