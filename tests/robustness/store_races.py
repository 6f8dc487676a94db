"""Everything at once on one store, with kills: ``python -m tests.robustness.store_races --seconds 60``.

Writers publish runs, some of them under names that they share, and are ended by SIGKILL at any moment; others merge,
cut down and sweep meanwhile, and readers count. No reader may ever see a run with a row too few or too many, and
whatever a writer was told is published must be there at the end. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import datetime as dt
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

from spark_reports.errors import DataTrouble
from spark_reports.storage import upkeep
from spark_reports.storage.merging import batches, keys_of
from spark_reports.storage.store import Store
from spark_reports.storage.upkeep import Retention
from tests.spark_reports.stored import cases, publish

GRACE_S = 20.0
"""Longer than a reader takes, on a machine with much else to do."""

START_S = 10.0
"""The first kill comes when all have begun."""

REQUIREMENTS, LOUD, ALL = 5, 2, 6
"""Rows of each run: requirements; cases that stay; cases."""

LATER = dt.datetime(2027, 11, 1, tzinfo=dt.UTC)


def write(uri: str, told: str) -> None:
    """Publishes runs until it is killed; notes those of which it knows."""
    store = Store(uri)
    mine = random.Random(os.getpid())
    with Path(told, str(os.getpid())).open("a", buffering=1) as notes:
        for number in range(sys.maxsize):
            name = mine.choice(("own", "shared"))
            run_id = f"{name}-{mine.randrange(8)}" + (f"-{os.getpid()}" if name == "own" else "")
            tables = {
                "requirements": [{"tests": n} for n in range(REQUIREMENTS)],
                "cases": cases(closed=ALL - LOUD, finding=LOUD),
            }
            commit = publish(store, run_id, tables, bundle=f"{os.getpid()} {number}")
            notes.write(f"{commit.bundle}\n")


def merge(uri: str, told: str) -> None:
    """Merges until it is killed."""
    _again(lambda: upkeep.compact(Store(uri), ["requirements", "cases"], least=1), told)


def cut_down(uri: str, told: str) -> None:
    """Drops cases until it is killed."""
    _again(lambda: upkeep.retain(Store(uri), Retention(cases_days=1), LATER), told)


def sweep(uri: str, told: str) -> None:
    """Sweeps until it is killed."""
    _again(lambda: upkeep.sweep(Store(uri), GRACE_S), told)


def _again(action: Callable[[], object], _: str) -> None:
    while True:
        try:
            action()
        except DataTrouble:
            # Another process is at it.
            time.sleep(0.05)


def look(store: Store) -> list[str]:
    """Returns what a reader sees wrong."""
    wrong = []
    commits, generations = store.snapshot()
    for table in ("requirements", "cases"):
        files = store.files(table, commits, generations.get(table))
        seen: Counter[tuple[str, int]] = Counter()
        keys = keys_of(files.live)
        for file in (*files.merged, *files.loose):
            for batch in batches(store.place, file, keys=keys if file in files.merged else None):
                seen.update((row["run_id"], row["attempt"]) for row in batch.to_pylist())
        for commit in commits:
            wanted = REQUIREMENTS if table == "requirements" else LOUD if commit.trimmed else ALL
            found = seen.pop((commit.run_id, commit.attempt), 0)
            if found != wanted:
                wrong.append(f"{commit.run_id} attempt {commit.attempt} has {found} {table}, not {wanted}")
        wrong += [f"{run} has {count} {table} although it does not count" for run, count in seen.items()]
    return wrong


def main() -> int:
    """Runs all of them; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="of the kills (default: %(default)s)")
    arguments = parser.parse_args()
    kills = random.Random(arguments.seed)
    context = multiprocessing.get_context("spawn")
    wrong: list[str] = []
    looks = killed = 0
    with tempfile.TemporaryDirectory() as folder:
        uri, told = f"{folder}/store", f"{folder}/told"
        Path(told).mkdir()
        store = Store(uri)
        store.create()

        def start(role: Callable[[str, str], None]) -> BaseProcess:
            process = context.Process(target=role, args=(uri, told), daemon=True)
            process.start()
            return process

        roles = (write, write, write, merge, merge, cut_down, sweep)
        processes = [start(role) for role in roles]
        end = time.monotonic() + arguments.seconds
        next_kill = time.monotonic() + START_S
        while time.monotonic() < end and not wrong:
            wrong += look(Store(uri))
            looks += 1
            time.sleep(0.05)
            for at, process in enumerate(processes):
                if not process.is_alive():
                    wrong.append(f"{roles[at].__name__} ended by itself: {process.exitcode}")
            if time.monotonic() > next_kill:
                at = kills.randrange(len(roles))
                processes[at].kill()
                processes[at].join()
                processes[at] = start(roles[at])
                killed += 1
                next_kill = time.monotonic() + kills.uniform(1, 5)
        for process in processes:
            process.kill()
            process.join()
        left = len(store.clean())
        bundles = {commit.bundle for commit in store.history()}
        published = {line for path in Path(told).iterdir() for line in path.read_text().splitlines()}
        wrong += [f"{bundle} was published and is gone" for bundle in sorted(published - bundles)]
        wrong += [*look(store), *upkeep.check(store)]
        wrong += [f"{path.name} is left in _staging" for path in Path(uri, "_staging").iterdir()]
        print(
            f"{len(published)} runs published, {looks} looks, {killed} kills, {left} leftovers cleaned, "
            f"{len(store.all_generations())} generations; wrong: {len(wrong)}"
        )
    for sentence in wrong[:20]:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
