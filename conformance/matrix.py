"""python -m conformance.matrix: the core run against many releases of one implementation.

Each release gets a run folder of its own. A release that cannot be had, or whose run breaks off, is named,
and the others go on. What differs from release to release is for Spark to say: ``zenoh-reports versions DIR``.

Exit codes: 0 every release was judged and nothing failed; 1 something failed or was inconclusive on one of
them; 3 a release could not be had or its run broke off; 4 wrong use; 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.deviations.versions import Key, version_key
from conformance.errors import UsageError
from conformance.nodes.releases import RELEASES
from conformance.suite_runs import CORE, Runner, apart, counts_of, in_words, is_run, say
from scapy_layers.commands.terminal import at_least, folder, seconds
from spark_reports.rows import VERDICTS, RowsError, new_run_id, read_rows, read_run

MATRIX = "matrix.json"
"""File that says what a folder of runs is made of."""

LIMIT_SECONDS = 600.0
"""How long one release may take: a core run takes half a minute on an idle machine."""

OK, FAILED, BROKEN, WRONG_USE, INTERRUPTED = 0, 1, 3, 4, 130

_EXAMPLES = """\
examples:
  python -m conformance.matrix --versions all --out runs/releases
  python -m conformance.matrix --versions 1.7.2,1.9.0..          these, and all from 1.9.0 on
  python -m conformance.matrix --versions ..1.5.1 -- --req ZN-INIT   only some tests
  zenoh-reports versions runs/releases                           what differs, and since when

exit codes:
  0 nothing failed   1 something failed or was inconclusive   3 a release could not be installed, or its run was cut off
  4 wrong use   130 interrupted
"""


@dataclass(slots=True)
class Matrix:
    """What is run, and what became of it.

    Attributes:
        out: Folder of the runs.
        kind: What stands in front of the version in ``--node``.
        versions: Oldest first.
        words: Arguments for pytest; what is saved has no password.
        runs: Name of the run folder, by version.
        broken: Why a version was not judged, by version.
        counts: How many tests ended in each outcome, by version.
    """

    out: Path
    kind: str
    versions: list[str]
    words: list[str]
    runs: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    def save(self) -> None:
        """Writes what is known so far.

        Raises:
            UsageError: The folder cannot be written.
        """
        values = {name: getattr(self, name) for name in ("kind", "versions", "runs", "broken", "counts")}
        values["words"] = apart(self.words)[0]
        temporary = self.out / f".{MATRIX}"
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
            temporary.replace(self.out / MATRIX)
        except OSError as error:
            raise UsageError(
                f"{self.out}: cannot be written ({error.strerror}); name another --out"
            ) from None

    @property
    def code(self) -> int:
        """The exit code."""
        if self.broken:
            return BROKEN
        bad = any(counts.get("fail") or counts.get("inconclusive") for counts in self.counts.values())
        return FAILED if bad else OK


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for_pytest: list[str] = []
    if "--" in words:
        at = words.index("--")
        words, for_pytest = words[:at], words[at + 1 :]
    try:
        arguments = _parser().parse_args(words)
        matrix = Matrix(
            arguments.out or Path("runs") / f"matrix-{new_run_id()}",
            arguments.node_kind,
            choose(arguments.versions, RELEASES),
            [*CORE, "--seed", str(arguments.seed), *for_pytest],
        )
        _take_up(matrix, resume=arguments.resume)
        matrix.save()
        run_all(matrix, Runner(arguments.limit, matrix.out.resolve().name), arguments.jobs)
    except UsageError as error:
        say(f"matrix: {error}", error=True)
        return WRONG_USE
    except KeyboardInterrupt:
        say("matrix: interrupted; --resume goes on", error=True)
        return INTERRUPTED
    _sum_up(matrix)
    return matrix.code


class _Parser(argparse.ArgumentParser):
    """Ends wrong use as the suite does; 2 is taken for interrupted by pytest."""

    def error(self, message: str) -> Any:
        raise UsageError(f"{message}; see --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m conformance.matrix",
        description="Runs the core of the suite (tcp, no slow tests) against several releases of one implementation.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--versions",
        default="all",
        metavar="VERSIONS",
        help=f"all, or some joined by commas: 1.9.0, 1.5.1.. (from there on), ..1.5.1, 1.5.1..1.9.0 "
        f"(default: all, which are {', '.join(RELEASES)})",
    )
    parser.add_argument(
        "--out", type=folder, metavar="DIR", help="folder for the runs (default: runs/matrix-<run-id>)"
    )
    parser.add_argument(
        "--jobs", type=at_least(1), default=2, metavar="N", help="releases tested in parallel (default: 2)"
    )
    parser.add_argument(
        "--node-kind",
        default="pypi",
        metavar="KIND",
        help="prefix of the version in --node (default: pypi)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="seed of all runs, which makes them comparable (default: 1)",
    )
    parser.add_argument(
        "--limit",
        type=seconds,
        default=LIMIT_SECONDS,
        metavar="SECONDS",
        help="stop a run that takes longer (default: %(default)g)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue in --out, skip releases whose run is complete"
    )
    return parser


def choose(text: str, releases: Sequence[str]) -> list[str]:
    """Returns the versions that ``--versions`` names, oldest first, each once.

    A single version need not be among the releases: whether it can be had turns out when it is run.

    Raises:
        UsageError: It names none.
    """
    found: dict[Key, str] = {}
    for part in text.split(","):
        name = part.strip()
        low, dots, high = name.partition("..")
        if name == "all":
            chosen = list(releases)
        elif dots:
            first, last = _key(low, text) if low else None, _key(high, text) if high else None
            chosen = [version for version in releases if _between(first, _key(version, text), last)]
        else:
            chosen = [name]
        if not chosen:
            raise UsageError(f"--versions {name}: no release lies there; there are {', '.join(releases)}")
        for version in chosen:
            found.setdefault(_key(version, text), version)
    return [found[key] for key in sorted(found)]


def _between(low: Key | None, key: Key, high: Key | None) -> bool:
    return (low is None or low <= key) and (high is None or key <= high)


def _key(version: str, text: str) -> Key:
    key = version_key(version)
    if key is None:
        raise UsageError(
            f"--versions {text}: {version!r} is no version; write all, 1.9.0, 1.5.1.. or ..1.5.1"
        )
    return key


def _take_up(matrix: Matrix, *, resume: bool) -> None:
    """Takes over what an earlier call has done.

    Raises:
        UsageError: The folder holds another matrix, or one that is not to be gone on with.
    """
    path = matrix.out / MATRIX
    if not path.exists():
        return
    if not resume:
        raise UsageError(f"{matrix.out}: holds a matrix; --resume goes on with it, or name another --out")
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        same = (before["kind"], before["words"]) == (matrix.kind, apart(matrix.words)[0])
        runs = {str(version): str(name) for version, name in before["runs"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path}: is damaged; name another --out") from None
    if not same:
        raise UsageError(
            f"{matrix.out}: was run with other arguments ({' '.join(before['words'])}); name another --out"
        )
    for version, name in runs.items():
        verdicts = _complete(matrix.out / name)
        if verdicts is not None:
            matrix.runs[version], matrix.counts[version] = name, counts_of(verdicts)
    matrix.versions = choose(",".join([*matrix.versions, *matrix.runs]), RELEASES)


def _complete(folder: Path) -> list[dict[str, Any]] | None:
    """Returns the verdicts of a run that ended in order."""
    if not is_run(folder):
        return None
    with contextlib.suppress(RowsError, OSError):
        found = read_rows(folder / VERDICTS)
        if found.complete and read_run(folder).status == "complete":
            return found.rows
    return None


def run_all(matrix: Matrix, runner: Runner, jobs: int) -> None:
    """Runs all versions that have no run yet, and tells of each as it ends.

    Raises:
        UsageError: The folder cannot be written.
    """
    wide = max(map(len, matrix.versions))
    for version in matrix.versions:
        if version in matrix.runs:
            say(f"{version:<{wide}}  {in_words(matrix.counts[version])}  (was there)")
    waiting = [version for version in matrix.versions if version not in matrix.runs]
    started = time.monotonic()
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="release")
    try:
        futures = {pool.submit(_run_one, matrix, version, runner): version for version in waiting}
        for future in as_completed(futures):
            version = futures[future]
            done, seconds = future.result(), time.monotonic() - started
            say(f"{version:<{wide}}  {done}  ({seconds:.0f} s since the start)")
            matrix.save()
    except BaseException:
        runner.stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _run_one(matrix: Matrix, version: str, runner: Runner) -> str:
    """Runs one version; returns what to say about it."""
    name = f"{new_run_id()}-{version}"
    done = runner.run(f"{matrix.kind}:{version}", matrix.out / name, *matrix.words)
    if done.why:
        matrix.broken[version] = done.why
        return f"not judged: {done.why}"
    matrix.runs[version], matrix.counts[version] = name, done.counts
    return f"{in_words(done.counts)}, {done.seconds:.0f} s"


def _sum_up(matrix: Matrix) -> None:
    judged = len(matrix.versions) - len(matrix.broken)
    say(f"{judged} of {len(matrix.versions)} releases judged: {matrix.out}")
    for version, why in matrix.broken.items():
        say(f"not judged: {version}: {why}")
    say(f"what differs, and since when: zenoh-reports versions {matrix.out}")


if __name__ == "__main__":
    sys.exit(main())
