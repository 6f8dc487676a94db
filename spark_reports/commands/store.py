"""``zenoh-reports store``: what a store holds, whether it is whole, and what keeps it small and quick."""

import argparse
import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from spark_reports.commands.common import say, some_place
from spark_reports.engine.java import find_java
from spark_reports.engine.session import spark_session
from spark_reports.engine.settings import BULK
from spark_reports.errors import DataTrouble, WrongUse
from spark_reports.storage import upkeep
from spark_reports.storage.commits import Commit, Generation
from spark_reports.storage.store import RAW, Store

_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_COLUMNS = ("run", "attempt", "started", "node", "state", "verdicts", "cases", "apart", "size")


def add(commands: Any) -> None:
    """Adds the parser."""
    parser = commands.add_parser(
        "store",
        help="list, check, compact, trim and sweep a store",
        description="Maintains a store that `ingest` created. Safe to run while others read it or add runs.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = _action(actions, "list", "list the runs", "Lists the runs of a store, oldest first.", _list)
    listing.add_argument("--json", action="store_true", help="print one JSON object for each run")
    checking = _action(
        actions,
        "check",
        "check that all files exist and every line is accounted for",
        "Compares the records of a store with its files. Exits with 3 if something is missing.",
        _check,
    )
    checking.add_argument(
        "--read",
        action="store_true",
        help="read every file completely, to also find bytes that changed in place",
    )
    compact = _action(
        actions,
        "compact",
        "merge the small files of many runs",
        "Merges the files of all runs, table by table, so that reports open fewer. The old files stay until `sweep`.",
        _compact,
    )
    compact.add_argument(
        "--least",
        type=_count,
        default=upkeep.FEW,
        metavar="N",
        help="skip a table with fewer loose files, and fewer outdated runs in merged ones (default: %(default)s)",
    )
    compact.add_argument(
        "--master",
        metavar="URL",
        help="merge base tables with Spark, for example on a cluster (default: locally, without Spark)",
    )
    retain = _action(
        actions,
        "retain",
        "drop the large data of old runs",
        "Drops raw files, fuzz cases and observations of runs that started longer ago than given. Kept are cases that "
        "are findings or inconclusive, observations of tests that were neither pass nor n/a, and everything that "
        "reports count. `compact` and `sweep` then free the space.",
        _retain,
    )
    for name, what in (
        ("raw", "raw files"),
        ("cases", "fuzz cases"),
        ("observations", "observations"),
    ):
        retain.add_argument(
            f"--{name}", type=_seconds, metavar="TIME", help=f"keep {what} this long: 90d, 12w, 36h"
        )
    sweep = _action(
        actions,
        "sweep",
        "remove files that are no longer used",
        "Removes leftovers of killed writers, and files that were merged, replaced or dropped long enough ago.",
        _sweep,
    )
    sweep.add_argument(
        "--grace",
        type=_seconds,
        default=upkeep.GRACE_S,
        metavar="TIME",
        help="keep files that went out of use more recently than this, as reports may still read them; if the store is "
        "not a local folder, this also protects files being written, so make it longer than any ingest takes "
        "(default: 24h)",
    )


def _action(actions: Any, name: str, text: str, description: str, function: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=description)
    parser.add_argument(
        "store", type=some_place, metavar="STORE", help="a folder, or a URI such as s3://bucket/store"
    )
    parser.set_defaults(function=function)
    return parser


def _list(arguments: argparse.Namespace) -> int:
    store = Store(arguments.store)
    commits, generations = store.snapshot()
    if arguments.json:
        for commit in commits:
            print(json.dumps(_line(commit), ensure_ascii=False))
        return 0
    lines = [_line(commit) for commit in commits]
    texts = [_COLUMNS, *(tuple(_shown(line[name]) for name in _COLUMNS) for line in lines)]
    widths = [max(len(text[at]) for text in texts) for at in range(len(_COLUMNS))]
    for text in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(text, widths, strict=True)).rstrip())
    print(_summary(store, commits, generations))
    return 0


def _line(commit: Commit) -> dict[str, Any]:
    return {
        "run": commit.run_id,
        "attempt": commit.attempt,
        "started": commit.started_at[:19],
        "node": f"{commit.run.get('node_impl', '')} {commit.run.get('node_version', '')}".strip(),
        "state": commit.state,
        "verdicts": commit.rows("verdicts"),
        "cases": commit.rows("cases"),
        "apart": sum(account.apart for account in commit.accounts.values()),
        "size": sum(file.bytes for files in commit.tables.values() for file in files),
        "trimmed": list(commit.trimmed),
    }


def _shown(value: object) -> str:
    # What a run says of itself may hold anything, also what a terminal obeys.
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))


def _summary(store: Store, commits: Sequence[Commit], generations: dict[str, Generation]) -> str:
    loose = merged = 0
    for table in {table for commit in commits for table in commit.tables} - {RAW}:
        files = store.files(table, commits, generations.get(table))
        loose += len(files.loose)
        merged += len(files.merged)
    advice = (
        "; `zenoh-reports store compact` merges the loose ones"
        if loose > 32 * len(generations or "x")
        else ""
    )
    return f"{_runs(len(commits))} in {loose} loose and {merged} merged files{advice}"


def _check(arguments: argparse.Namespace) -> int:
    store = Store(arguments.store)
    wrong = upkeep.check(store, read=arguments.read)
    for sentence in wrong:
        print(_shown(sentence))
    if wrong:
        problems = "1 problem" if len(wrong) == 1 else f"{len(wrong)} problems"
        raise DataTrouble(f"{store.name} is damaged: {problems}")
    print(f"{_runs(len(store.commits()))}, all files present, every line accounted for")
    return 0


def _compact(arguments: argparse.Namespace) -> int:
    store = Store(arguments.store)
    store.commits()
    master = arguments.master
    session = (
        nullcontext()
        if master is None
        else spark_session(find_java(os.environ), os.environ, BULK, master=master)
    )
    with session as spark:
        done = upkeep.compact(store, least=arguments.least, spark=spark)
    for one in done:
        print(f"{one.table}: {one.rows} rows from {one.before} files in {one.after}")
    if not done:
        print("no table has enough loose files")
    return 0


def _retain(arguments: argparse.Namespace) -> int:
    limits = {
        "raw": arguments.raw,
        "cases": arguments.cases,
        "observations": arguments.observations,
    }
    if not any(limit is not None for limit in limits.values()):
        raise WrongUse("nothing to drop: give --raw, --cases or --observations with a time, for example 90d")
    store = Store(arguments.store)
    before = {commit.run_id: commit for commit in store.commits()}
    days = {name: None if limit is None else limit / 86400 for name, limit in limits.items()}
    revised = upkeep.retain(
        store, upkeep.Retention(**{f"{name}_days": limit for name, limit in days.items()})
    )
    for commit in revised:
        print(_shown(f"{commit.run_id}: {', '.join(_dropped(before[commit.run_id], commit))}"))
    left = "; `compact` and `sweep` free the space" if revised else ": nothing that old is left to drop"
    say(f"{len(revised)} run{'' if len(revised) == 1 else 's'} trimmed{left}")
    return 0


def _dropped(before: Commit, after: Commit) -> Iterable[str]:
    for table in sorted({*after.trimmed} - {*before.trimmed}):
        if table == RAW:
            yield "raw files dropped"
        else:
            yield f"{after.rows(table)} of {before.rows(table)} {table} kept"


def _sweep(arguments: argparse.Namespace) -> int:
    store = Store(arguments.store)
    store.commits()
    swept = upkeep.sweep(store, arguments.grace)
    print(
        f"removed {swept.files} files, {swept.bytes / 1e6:.1f} MB, and the leftovers of {swept.leftovers} killed writers"
    )
    return 0


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 999999999")
    return int(text)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write for example 90d, 12w, 36h or 0m")
    return float(found[1]) * _SECONDS[found[2]]
