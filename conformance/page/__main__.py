"""``python -m conformance.page RUN``: makes page, coverage, JUnit XML and badge of a run again from its rows."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from conformance.errors import UsageError
from conformance.page.writing import PAGE, write_all
from spark_reports.rows import RowsError

EXIT_USAGE = 2


def main(words: list[str] | None = None) -> int:
    """Writes the files of each run; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.page",
        description="Makes index.html, coverage.csv, coverage.json, junit.xml and badge.svg of a run again from its "
        "rows, whether it came to its end or was cut off.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run")
    parser.add_argument("--proof", type=Path, metavar="FILE", help="proof.json of a campaign of mutants")
    given = parser.parse_args(words)
    for folder in given.runs:
        try:
            write_all(folder, proof=given.proof)
        except (UsageError, RowsError) as error:
            print(f"page: {error}", file=sys.stderr)
            return EXIT_USAGE
        except OSError as error:
            print(f"page: {folder}: {error.strerror or error}", file=sys.stderr)
            return EXIT_USAGE
        print(folder / PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
