"""Writes all that is made of the rows of a run into its folder, each file whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from conformance.page import badge, coverage, junit
from conformance.page.proof import read_proof
from conformance.page.reading import Recorded, read_run_folder
from conformance.page.rendering import render

PAGE = "index.html"
JUNIT = "junit.xml"
COVERAGE_CSV = "coverage.csv"
COVERAGE_JSON = "coverage.json"
BADGE = "badge.svg"


def write_all(folder: Path, *, proof: Path | None = None) -> Recorded:
    """Writes page, coverage, JUnit XML and badge, and returns what the run recorded.

    Args:
        folder: Of the run, finished or cut off.
        proof: What a campaign of mutants found.

    Raises:
        RowsError: The folder holds no run with verdicts.
        UsageError: ``proof`` cannot be read.
        OSError: The folder cannot be read or written.
    """
    recorded = read_run_folder(folder)
    files = {
        COVERAGE_CSV: coverage.as_csv(recorded.facts),
        COVERAGE_JSON: coverage.as_json(recorded),
        JUNIT: junit.as_xml(recorded),
        BADGE: badge.as_svg(recorded.facts),
        PAGE: render(recorded, read_proof(proof) if proof else None),
    }
    for name, text in files.items():
        _write(folder / name, text)
    return recorded


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    # A lone surrogate, from bytes that are no text, stands as what it is called.
    temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    temporary.replace(path)
