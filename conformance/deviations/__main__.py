"""python -m conformance.deviations: proposals for the deviations file out of recorded runs.

Exit codes: 0 nothing to change; 1 there are proposals; 2 wrong use. An error is one line on standard error.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path

from conformance.deviations.proposals import beside, propose
from conformance.deviations.recorded import SHIPPED, Deviations
from conformance.errors import UsageError
from conformance.nodes.releases import RELEASES
from spark_reports.rows import RUN

_EXAMPLES = """\
examples:
  python -m conformance.deviations runs/matrix               all runs below a folder, of several versions
  python -m conformance.deviations runs/A runs/B --out proposed.toml

exit codes:
  0 nothing to change   1 there are proposals   2 wrong use
"""


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    arguments = _parser().parse_args(argv)
    path: Path = arguments.deviations
    out: Path = arguments.out or beside(path, Path.cwd())
    try:
        deviations = Deviations.load(path)
        if out.resolve() == path.resolve():
            raise UsageError(
                f"{out}: is the deviations file itself, which is never edited; name another --out"
            )
        found = propose(
            deviations,
            _run_folders(arguments.runs),
            releases=RELEASES,
            today=dt.datetime.now(dt.UTC).date(),
        )
        found.write(out, path.name)
    except UsageError as error:
        print(f"deviations: {error}", file=sys.stderr)
        return 2
    print(f"{len(found)} proposals, {len(found.left_out)} left out: {out}")
    return 1 if len(found) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance.deviations",
        description="Compares recorded runs with the deviations file and writes beside it what should change: new "
        "entries, stale ones, other signatures, narrower and wider ranges of versions. Edits nothing.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder, or a folder of them")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="where to write (default: deviations.proposed.toml beside the file)",
    )
    parser.add_argument(
        "--deviations",
        type=Path,
        default=SHIPPED,
        metavar="FILE",
        help="the deviations file (default: the shipped one)",
    )
    return parser


def _run_folders(roots: list[Path]) -> list[Path]:
    """Returns the run folders at and below some folders.

    Raises:
        UsageError: There is none.
    """
    found = []
    for root in roots:
        mine = sorted({path.parent for path in root.rglob(RUN)})
        if not mine:
            raise UsageError(f"{root}: holds no run")
        found += mine
    return found


if __name__ == "__main__":
    sys.exit(main())
