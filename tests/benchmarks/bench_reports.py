"""How fast reports are, beside DuckDB, polars and pandas on the same aggregation: ``bench_reports.py --help``.

Rollups of fuzz cases (counts by nine keys, histograms of times, buckets of findings) are made of 2 and of 20 million
rows in Parquet by each engine in a process of its own, and compared cell by cell. Then 200 run folders with 2 million
cases are taken into a store, and reports over it are made: cold (a process and a Java of its own) and warm (on the
local server). Wall seconds suffer from whatever else the machine does; CPU seconds stand beside them, and ratios are
of one run. What is made goes away with the temporary folder, unless ``--keep`` names one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import psutil  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq

from spark_reports.storage.tables import arrow_schema
from tests.benchmarks._cases import KEYS, RUNS, write_parquet, write_runs
from tests.benchmarks._engines import ENGINES
from tests.benchmarks._memory import Watch, tree
from tests.benchmarks._rows import record

SMALL, LARGE = 2_000_000, 20_000_000
ROWS_OF_FILE = 2_500_000
CASES_OF_RUN, VERDICTS_OF_RUN = 10_000, 1000
WITHIN = (
    ("warm wall of Spark / DuckDB, 20 million rows", 3.0),
    ("warm wall of Spark / pandas, 20 million rows", 1.0),
    ("Spark, start and first pass: 20 million rows / 2 million", 2.5),
    ("cold report over 200 runs with 2 million cases, s", 10.0),
    ("warm report over 200 runs with 2 million cases, s", 5.0),
)
"""What is promised, and its bound."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds, and the most memory of the process and its children, MB."""

    wall: float
    cpu: float
    memory: float = 0.0

    def __str__(self) -> str:
        return f"{self.wall:7.1f} {self.cpu:7.1f}"


def cpu_seconds() -> float:
    """Returns what this process and those it has started have used."""
    used = 0.0
    for process in tree():
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        used += times.user + times.system + times.children_user + times.children_system
    return used


def work(engine: str, cases: Path, out: Path, passes: int) -> dict[str, Any]:
    """Runs one engine in this process: its start, and some passes, the first of them cold."""
    with Watch() as watch, ExitStack() as ends:
        begin = perf_counter()
        made = ENGINES[engine](cases)
        ends.callback(made.close)
        start = perf_counter() - begin, cpu_seconds()
        spent = []
        for number in range(passes):
            wall, cpu = perf_counter(), cpu_seconds()
            made.rollup(cases, out / str(number))
            spent.append((perf_counter() - wall, cpu_seconds() - cpu))
    return {"start": start, "passes": spent, "memory": watch.most}


@dataclass(frozen=True, slots=True)
class Measured:
    """One engine at one size; of warm passes the best, which was disturbed least."""

    start: Spent
    cold: Spent
    warm: Spent
    out: Path


def measure(engine: str, cases: Path, out: Path, passes: int) -> Measured:
    """Runs one engine in a process of its own."""
    out.mkdir(parents=True)
    command = [sys.executable, __file__, "--work", engine, str(cases), str(out), str(passes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    said = json.loads(done.stdout.splitlines()[-1])
    spent = [Spent(wall, cpu, said["memory"]) for wall, cpu in said["passes"]]
    warm = min(spent[1:], key=lambda one: one.wall)
    return Measured(Spent(*said["start"]), spent[0], warm, out / str(passes - 1))


def result(out: Path, name: str) -> pa.Table:
    """Returns a rollup in an order and with types that are the same for all engines."""
    path = out / name if (out / name).is_dir() else out / f"{name}.parquet"
    schema = arrow_schema(name)
    table = pq.read_table(path)
    columns = [_plain(table[field.name].combine_chunks(), field.type) for field in schema]
    return pa.table(columns, schema=schema).sort_by([(key, "ascending") for key in KEYS[name]])


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        # The order of the fields differs from engine to engine.
        fields = [_plain(column.field(field.name), field.type) for field in kind]
        return pa.StructArray.from_arrays(fields, fields=list(kind))
    return column.cast(kind)


def compare(wanted: Path, other: Path) -> int:
    """Compares the rollups of two engines; returns how many cells there are.

    Raises:
        AssertionError: One differs; names it.
    """
    cells = 0
    for name in KEYS:
        ours, theirs = result(wanted, name), result(other, name)
        assert ours.num_rows == theirs.num_rows, f"{name}: {ours.num_rows} rows, {other}: {theirs.num_rows}"
        for column in ours.column_names:
            if not ours[column].equals(theirs[column]):
                pairs = zip(ours[column].to_pylist(), theirs[column].to_pylist(), strict=True)
                row, (mine, its) = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
                raise AssertionError(f"{name}.{column}, row {row}: {mine!r}; {other}: {its!r}")
            cells += ours.num_rows
    return cells


def engines(
    folder: Path, sizes: Sequence[int], names: Sequence[str], passes: int
) -> dict[tuple[str, int], Measured]:
    """Measures engines at sizes, one after the other, and compares what they made."""
    measured: dict[tuple[str, int], Measured] = {}
    for count in sizes:
        cases = folder / f"cases-{count}"
        if not cases.exists():
            size = write_parquet(cases, count, max(2, count // ROWS_OF_FILE))
            print(f"\n{count / 1e6:g} million cases, {size / 1e6:.0f} MB of Parquet", flush=True)
        print(
            f"{'':8}  start          first pass       best warm pass    memory\n{'':8}  wall    CPU    wall     CPU    wall     CPU"
        )
        with tempfile.TemporaryDirectory(dir=folder) as out:
            for name in names:
                one = measure(name, cases, Path(out) / name, passes)
                measured[name, count] = one
                print(f"{name:8} {one.start} {one.cold} {one.warm}  {one.cold.memory:6.0f} MB", flush=True)
            for name in names[1:]:
                cells = compare(measured[names[0], count].out, measured[name, count].out)
                print(f"{names[0]} and {name} agree in all {cells:,} cells", flush=True)
    return measured


def command(*words: str | Path) -> Spent:
    """Runs a command of the reports; what ends with it counts, a server that stays does not."""
    wall, cpu = perf_counter(), cpu_seconds()
    done = subprocess.run(
        [sys.executable, "-m", "spark_reports", *map(str, words)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    spent = Spent(perf_counter() - wall, cpu_seconds() - cpu)
    assert done.returncode == 0, done.stderr
    return spent


def reports(folder: Path, times: int) -> dict[str, Spent]:
    """Takes run folders into a store and makes reports over it."""
    lines = write_runs(folder, CASES_OF_RUN, VERDICTS_OF_RUN)
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    taken = command("ingest", folder / "runs", "--store", store)
    print(
        f"\n{RUNS} runs, {lines:,} lines\n{'':24}  wall    CPU\n{'ingest':24} {taken}   {lines / taken.wall:,.0f} lines/s"
    )
    # With an archive of classes, as on a machine where reports were made ready for.
    command("warmup")
    spent = {}
    for name, options in (("cold report", ()), ("warm report", ("--warm",))):
        if options:
            command("build", "--store", store, "--out", folder / "out", *options)
        found = [command("build", "--store", store, "--out", folder / "out", *options) for _ in range(times)]
        print("\n".join(f"{name:24} {one}" for one in found), flush=True)
        record(name, [one.wall for one in found], "s", metric="wall", better="lower")
        spent[name] = min(found, key=lambda one: one.wall)
    command("warmup", "--stop")
    return spent


def judged(
    measured: dict[tuple[str, int], Measured], made: dict[str, Spent]
) -> Iterator[tuple[str, float, float]]:
    """Yields each promise, its figure and its bound, as far as it was measured."""
    figures: dict[str, float] = {}
    if ours := measured.get(("spark", LARGE)):
        for name, label in (("duckdb", "DuckDB"), ("pandas", "pandas")):
            if theirs := measured.get((name, LARGE)):
                figures[f"warm wall of Spark / {label}, 20 million rows"] = ours.warm.wall / theirs.warm.wall
                figures[f"warm CPU of Spark / {label}, 20 million rows"] = ours.warm.cpu / theirs.warm.cpu
        if small := measured.get(("spark", SMALL)):
            total = (ours.start.wall + ours.cold.wall) / (small.start.wall + small.cold.wall)
            figures["Spark, start and first pass: 20 million rows / 2 million"] = total
    for name, one in made.items():
        figures[f"{name} over 200 runs with 2 million cases, s"] = one.wall
    bounds = dict(WITHIN)
    for name, figure in figures.items():
        record(name, [figure], "", metric="figure", better="lower")
        yield name, figure, bounds.get(name, float("inf"))


PACKAGES = ("duckdb", "polars", "pandas")
"""Engines that are packages of their own, under their names."""


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="bench-reports-") as folder:
        yield Path(folder)


def main() -> int:
    """Measures; returns 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[SMALL, LARGE], help="how many cases")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES, help="Spark first")
    parser.add_argument("--passes", type=int, default=4, help="of each engine, the first of them cold")
    parser.add_argument("--reports", type=int, default=3, help="how often reports are made")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="for the data; used again if it is there")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        engine, cases, out, passes = arguments.work
        print(json.dumps(work(engine, Path(cases), Path(out), int(passes))))
        return 0
    missing = [name for name in arguments.engines if name in PACKAGES and not importlib.util.find_spec(name)]
    if arguments.rows and missing:
        parser.error(
            f"{', '.join(missing)} not installed: pip install -e '.[bench]', or choose others by --engines"
        )
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with _folder(arguments.keep) as folder:
        measured = engines(folder, arguments.rows, arguments.engines, arguments.passes)
        made = reports(folder, arguments.reports) if arguments.reports else {}
    print()
    kept = True
    for name, figure, bound in judged(measured, made):
        kept &= figure <= bound
        print(f"{name:64} {figure:6.2f}{'' if bound == float('inf') else f'  (at most {bound:g})'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
