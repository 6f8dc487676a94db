"""``zenoh-reports build``: a report over run folders, or over a store; the exit code says what became worse."""

import argparse
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_reports.commands.common import check_not_empty, say, some_path, some_place
from spark_reports.commands.opening import open_store, opened
from spark_reports.engine.session import add_engine_options
from spark_reports.errors import DataTrouble, WrongUse
from spark_reports.folders import COMPLETE, find_run_folders, is_in

if TYPE_CHECKING:
    from spark_reports.gates import Gates
    from spark_reports.pages.page import Page
    from spark_reports.report import Report
    from spark_reports.storage.commits import Commit

__all__ = ["add", "open_store", "run"]

VERSIONS = 8
"""So many versions are told on the terminal."""


def add(commands: Any) -> None:
    """Adds the parser."""
    build = commands.add_parser(
        "build",
        help="write a report on run folders or a store",
        description="Writes a report on all run folders at and below the given folders, and on all runs in the store. "
        "Runs that were cut off or are still running are included up to that point, and the report says so. "
        "docs/reports.md explains what is compared with what, the terms, and the gates file.",
    )
    build.add_argument(
        "runs", nargs="*", type=some_path, metavar="RUNS", help="a run folder, or a folder of run folders"
    )
    build.add_argument(
        "--out", required=True, type=some_path, metavar="DIR", help="output folder; created if missing"
    )
    build.add_argument(
        "--store",
        type=some_place,
        metavar="URI",
        help="ingest the runs into this store and report on all runs in it (default: a temporary store)",
    )
    build.add_argument(
        "--baseline",
        default="previous",
        metavar="RUN|VERSION|previous",
        help="what to compare the newest runs with (default: the previous version)",
    )
    build.add_argument(
        "--fail-on",
        metavar="NAMES",
        help="exit with 1 if there are any of these (comma-separated): new-failures, new-findings, coverage, flaky, "
        "slower, not-run, stale",
    )
    build.add_argument(
        "--gates", type=some_path, metavar="FILE", help="a TOML file that sets how many of each are allowed"
    )
    add_engine_options(build)
    build.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Writes a report, tells what is in it, and ends with the path of the page."""
    gates = _gates(arguments)
    if not arguments.runs and arguments.store is None:
        raise WrongUse("give run folders, a store with --store, or both")
    if not arguments.baseline:
        raise WrongUse("--baseline is empty; give a run, a version, or previous")
    folders = find_run_folders(arguments.runs)
    if arguments.store is None:
        check_not_empty(folders, arguments.runs)
    with ThreadPoolExecutor(1, thread_name_prefix="write") as pool:
        with opened(arguments, folders, lambda: _load(arguments.out)) as found:
            from spark_reports import collect

            report = collect.collect(
                found.views,
                found.commits,
                arguments.baseline,
                say,
                duplicates=[folder for folder in folders if folder.duplicate_of is not None],
                open_few=found.few,
                interpreted=found.interpreted,
                near=found.near,
            )
            runs = {
                found.names.get(folder.path, folder.run.run_id): folder.path
                for folder in folders
                if folder.duplicate_of is None
            }
            others = [commit for commit in found.commits if commit.folder and commit.run_id not in runs]
            # While Spark ends.
            written = pool.submit(_write, report, gates, runs, others, arguments.out)
        made, path = written.result()
    for trouble in found.troubles:
        say(f"warning: skipped {trouble}")
    _tell(made, path)

    from spark_reports.gates import check
    from spark_reports.pages.page import count

    if found.troubles:
        raise DataTrouble(f"{count(len(found.troubles), 'run')} could not be read: {found.troubles[0]}")
    check(made.report.gates)
    return 0


def _load(out: Path) -> None:
    """Imports what takes its time and is not needed before Spark answers; checks that the report can be written."""
    import spark_reports.collect
    import spark_reports.gates  # noqa: F401
    from spark_reports.pages import render

    render.check_writable(out)


def _write(
    report: "Report",
    gates: "Gates | None",
    given: Mapping[str, Path],
    others: Iterable["Commit"],
    out: Path,
) -> tuple["Page", Path]:
    """Judges a report, makes its page and writes all of it.

    Args:
        report: What it says.
        gates: By what it is judged; None if that was not asked.
        given: Where run folders are, by run id.
        others: Runs that only the store has, with a folder.
        out: Where to.
    """
    from spark_reports.gates import judged
    from spark_reports.pages import page, render

    runs, gone = dict(given), dict[str, Path]()
    for commit in others:
        (runs if is_in(commit.folder, commit.run) else gone)[commit.run_id] = Path(commit.folder)
    made = page.make_page(
        report if gates is None else judged(report, gates),
        page.places_of(runs, out),
        typed=page.typed_of({**gone, **runs}, Path.cwd()),
        missing=page.missing_of(report, runs),
    )
    return made, render.write_report(made, out)


def _gates(arguments: argparse.Namespace) -> "Gates | None":
    """Returns the gates that were asked for, None if none were."""
    if arguments.gates is None and arguments.fail_on is None:
        return None
    from spark_reports.gates import Gates, parse_names, read_gates

    gates = Gates() if arguments.gates is None else read_gates(arguments.gates)
    try:
        return gates if arguments.fail_on is None else gates.failing_on(parse_names(arguments.fail_on))
    except ValueError as error:
        raise WrongUse(f"--fail-on: {error}") from error


def _tell(page: "Page", path: Path) -> None:
    """Prints what the report says, in a few lines."""
    from spark_reports.pages.page import count
    from spark_reports.pages.text import one_line, visible
    from spark_reports.report import UNCHANGED

    report = page.report
    states = [run.state for run in report.runs if run.state != COMPLETE]
    for state in sorted(set(states)):
        say(f"warning: {count(states.count(state), 'run')} {state}; see data health in the report")
    for one in report.sets.unread:
        say(f"warning: {visible(one.run_id)} may be the newest run but was not judged: {visible(one.why)}")
    if page.bad_lines:
        say(f"warning: {count(page.bad_lines, 'line')} set aside as invalid; see data health in the report")
    lines = [f"{page.span}: {page.headline}"]
    if report.sets.baseline:
        lines.append(f"compared: {report.sets.text}")
        statuses = [change.status for change in report.changes if change.status != UNCHANGED]
        changed = [f"{status} {statuses.count(status)}" for status in dict.fromkeys(statuses)]
        if report.unchanged:
            changed.append(f"unchanged {report.unchanged}")
        lines += [f"checks: {', '.join(changed)}"] if changed else []
    for version in page.versions[:VERSIONS]:
        counts = ", ".join(f"{number} {name}" for name, number in version.counts.items() if number)
        lines.append(f"{version.label}: {counts}")
    if len(page.versions) > VERSIONS:
        lines.append(f"{len(page.versions) - VERSIONS} more versions")
    fresh = sum(finding.is_news for finding in report.findings)
    if page.cases:
        lines.append(
            f"{count(len(report.findings), 'finding')} ({fresh} new) in {count(page.cases, 'fuzz case')}"
        )
    lines += [f"gate {gate.name} {'holds' if gate.ok else 'FAILED'}: {gate.text}" for gate in report.gates]
    for line in lines:
        print(visible(one_line(line)))
    print(visible(str(path)))
