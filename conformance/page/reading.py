"""Reads the rows of a run, finished or cut off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.page.facts import Facts
from spark_reports.rows import OBSERVATIONS, VERDICTS, RowsError, RunRow, VerdictRow, read_rows, read_run

REMARKABLE = ("fail", "inconclusive", "warning", "deviation")
"""Outcomes whose exchange is worth a place on the page."""

MOST_SEEN = 60
"""Observations of a test that the page shows."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run as its folder tells it.

    Attributes:
        run: What ran.
        facts: Its verdicts.
        exchanges: What was seen in tests that are remarkable, by test.
        damaged: Lines that are no rows.
        complete: Nothing was cut off.
    """

    run: RunRow
    facts: Facts
    exchanges: dict[str, list[dict[str, Any]]]
    damaged: int
    complete: bool


def read_run_folder(folder: Path) -> Recorded:
    """Reads a run.

    Raises:
        RowsError: The folder holds no run with verdicts.
        OSError: A file cannot be read.
    """
    run = read_run(folder)
    if not (folder / VERDICTS).exists():
        raise RowsError(f"{folder.name} holds no verdicts: it is no run of the conformance suite")
    found = read_rows(folder / VERDICTS)
    rows, damaged = [], len(found.bad)
    for values in found.rows:
        if _is_verdict(values):
            rows.append(VerdictRow(**{**values, "requirements": tuple(values["requirements"])}))
        else:
            damaged += 1
    wanted = {row.test for row in rows if row.outcome in REMARKABLE}
    return Recorded(run, Facts(rows), _exchanges(folder, wanted), damaged, found.complete)


def _is_verdict(values: dict[str, Any]) -> bool:
    """Tells whether a row has the types of one, which reading does not look at."""
    texts = (
        "test",
        "level",
        "outcome",
        "expected",
        "seen",
        "reason",
        "stimulus",
        "capture",
        "repeat",
        "transport",
    )
    return (
        all(isinstance(values[name], str) for name in texts)
        and isinstance(values["requirements"], list)
        and all(isinstance(name, str) for name in values["requirements"])
        and all(
            isinstance(values[name], int | float) and not isinstance(values[name], bool)
            for name in ("duration_s", "started_ns")
        )
    )


def _exchanges(folder: Path, wanted: set[str]) -> dict[str, list[dict[str, Any]]]:
    if not wanted or not (folder / OBSERVATIONS).exists():
        return {}
    found: dict[str, list[dict[str, Any]]] = {}
    for values in read_rows(folder / OBSERVATIONS).rows:
        if values["test"] in wanted and isinstance(values["time_ns"], int):
            found.setdefault(values["test"], []).append(values)
    return found
