"""How fast run folders are taken into a store: ``python tests/benchmarks/bench_ingest.py --lines 2000000``.

The lines are fuzz cases as ``zenoh-fuzz`` records them, some of them damaged. Two ways in turn, each in a process of its
own with the profile of Spark that suits it:

- ``ingest``: hash, accounts, rollups and records included, with the profile that ``zenoh-reports ingest`` takes;
- text and from_json: the lines as text, ``from_json`` with a corrupt column, Parquet. It has no line numbers, takes two
  rows on a line for one, and drops unknown keys; with rollups it would take longer.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[2]))

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from spark_reports import rows
from spark_reports.engine.java import find_java
from spark_reports.engine.session import spark_session
from spark_reports.engine.settings import BULK, FAST, Profile
from spark_reports.folders import RunFolder, find_run_folders
from spark_reports.storage import ingest as module
from spark_reports.storage.schemas import relaxed, schema_of
from spark_reports.storage.store import Store
from tests.benchmarks._common import Rate, table

ONE_BAD_IN = 10_000
SOME = 20_000
"""Different rows that lines are made of; what differs in each line is its number and its time."""


def lines(count: int, seed: int) -> list[bytes]:
    """Returns different lines of fuzz cases, with places for number and time."""
    chance = random.Random(seed)
    states = ("connected", "init_acked", "open", "established")
    messages = ("INIT", "OPEN", "PUSH", "REQUEST", "DECLARE", "FRAME", "INTEREST", "FRAGMENT")
    fields = ("sn", "key_suffix", "ext", "payload", "encoding", "batch_size", "lease", "zid")
    made = []
    for _ in range(count):
        message, field = chance.choice(messages), chance.choice(fields)
        size = chance.choice((24, 40, 60, 90))
        finding = chance.random() < 0.001
        row = rows.FuzzCaseRow(
            run_id="20261101T100000Z-0123abcd",
            campaign=f"campaign-{chance.randrange(12)}",
            case=1111111111,
            time_ns=2222222222222222222,
            duration_s=round(chance.expovariate(3000), 6),
            seed=3735928559,
            state=chance.choice(states),
            message=message,
            field=f"{message}.{field}",
            mutation=f"{field} {chance.randrange(1 << 16)} -> {chance.randrange(1 << 32)}",
            sent_hex=chance.randbytes(size).hex(),
            sent_bytes=size,
            reply=chance.choice(("", "CLOSE", "RESPONSE_FINAL", "DECLARE")),
            verdict="finding" if finding else chance.choice(("accepted", "accepted", "closed", "silent")),
            oracle="alive" if finding else "",
            bucket=f"{'panic' if finding else ''}{chance.randrange(20) if finding else ''}",
            detail="the process ended" if finding else "",
            node_instance=1 + chance.randrange(4),
            capture="",
            engine="fast",
            source=f"{message} in open",
            strategy=chance.choice(("edge", "length", "havoc", "order")),
            answer=f"CLOSE/{chance.randrange(8):02x} INVALID",
            rtt_us=int(chance.lognormvariate(5, 1)),
            session=chance.randrange(1000),
            position=chance.randrange(200),
        )
        made.append(as_recorded(row) + b"\n")
    return made


USUAL = {"links": 1, "session": 0, "position": 0, "parent": "", "job": 0, "sent_zlib": ""}
"""Values that ``fuzz.recorder`` leaves out."""


def as_recorded(row: rows.FuzzCaseRow) -> bytes:
    """Returns a row as ``zenoh-fuzz`` writes it."""
    values = {name: value for name, value in rows.as_dict(row).items() if USUAL.get(name, ...) != value}
    return json.dumps(values, separators=(",", ":")).encode()


def make(root: Path, count: int, runs: int, seed: int) -> int:
    """Writes run folders, one of them with half of the lines; returns how many bytes they have."""
    templates = [
        line.replace(b"1111111111", b"%d").replace(b"2222222222222222222", b"%d")
        for line in lines(SOME, seed)
        if line.count(b"%") == 0
    ]
    chance = random.Random(seed)
    size = 0
    for run in range(runs):
        folder = root / f"2026110{1 + run % 9}T100000Z-{run:08x}"
        folder.mkdir(parents=True)
        mine = count // 2 if run == 0 else count // 2 // max(1, runs - 1)
        mine = count if runs == 1 else mine
        rows.write_run(folder, run_row(folder.name))
        with (folder / rows.FUZZ_CASES).open("wb") as file:
            for case in range(1, mine + 1):
                line = chance.choice(templates) % (case, 1_790_000_000_000_000_000 + case * 330_000)
                file.write(line if case % ONE_BAD_IN else line[:100] + b"\n")
            file.write(b'{"footer":true,"rows":%d,"rows_version":%d}\n' % (mine, rows.ROWS_VERSION))
            size += file.tell()
    return size


def run_row(run_id: str) -> rows.RunRow:
    """Returns what a run says about itself."""
    return rows.RunRow(
        run_id=run_id, started_at="2026-11-01T10:00:00.000Z", ended_at="2026-11-01T11:00:00.000Z", kind="fuzz",
        node="pypi", node_impl="eclipse-zenoh", node_version="1.10.2", node_whatami="router", node_zid="a1",
        harness_version="0.1.0", python="3.11", platform="Linux x86_64", seed=7, command="zenoh-fuzz run all",
        status="complete",
    )  # fmt: skip


def with_from_json(spark: SparkSession, folders: list[RunFolder], out: Path) -> None:
    """The plain way of Spark."""
    schema = StructType([*relaxed(schema_of(rows.FuzzCaseRow)), StructField("bad", StringType())])
    text = spark.read.text([str(folder.path / rows.FUZZ_CASES) for folder in folders])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    parsed = text.select(sf.from_json("value", schema, options).alias("row")).select("row.*")
    parsed.write.option("compression", "zstd").parquet(str(out))


def cpu() -> dict[int, float]:
    """Returns CPU seconds of this process and all below it."""
    below: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parts = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        below.setdefault(int(parts[1]), []).append(int(folder.name))
        used[int(folder.name)] = sum(map(int, parts[11:13])) / os.sysconf("SC_CLK_TCK")
    found, waiting = {}, [os.getpid()]
    while waiting:
        process = waiting.pop()
        found[process] = used.get(process, 0.0)
        waiting += below.get(process, [])
    return found


def measured(name: str, count: int, run: Callable[[], object]) -> Rate:
    """Runs something once, and says how long it took."""
    begin, before = perf_counter(), cpu()
    run()
    seconds = perf_counter() - begin
    # What a worker used that Spark let go meanwhile is not known.
    busy = sum(used - before.get(process, 0.0) for process, used in cpu().items())
    print(f"{name}: {seconds:.1f} s, {busy:.1f} s of CPU", file=sys.stderr, flush=True)
    return Rate(name, count / seconds)


def ingested(spark: SparkSession, folders: list[RunFolder], out: Path) -> None:
    """The way of ``zenoh-reports ingest``."""
    done = module.ingest(spark, Store(out), folders)
    bad = done.account.lines // ONE_BAD_IN
    assert abs(done.account.apart - bad) <= len(folders), done.account
    assert done.account.balanced


WAYS: dict[str, tuple[Profile, Callable[[SparkSession, list[RunFolder], Path], None]]] = {
    "ingest": (FAST, ingested),
    "text and from_json": (BULK, with_from_json),
}


def once(way: str, root: Path, count: int) -> float:
    """Goes one way once, in the session of this process; returns the rate."""
    profile, run = WAYS[way]
    if way not in _SESSIONS:
        _SESSIONS[way] = _OPEN.enter_context(spark_session(find_java(os.environ), os.environ, profile))
    folders = find_run_folders([root / "runs"])
    with tempfile.TemporaryDirectory(prefix="out-", dir=root) as name:
        return measured(way, count, lambda: run(_SESSIONS[way], folders, Path(name) / "out")).rate


_OPEN = ExitStack()
_SESSIONS: dict[str, SparkSession] = {}


def close() -> None:
    """Ends the session of this process."""
    _OPEN.close()


def main() -> None:
    """Measures and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=20, help="one of them has half of the lines")
    parser.add_argument("--rounds", type=int, default=2, help="the first one also warms up (default: 2)")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="bench-ingest-", dir=options.folder)
        root = Path(stack.enter_context(folder))
        size = make(root / "runs", options.lines, options.runs, 1)
        print(f"{size / 1e6:,.0f} MB, {size / options.lines:.0f} bytes a line", file=sys.stderr)
        pools = {way: stack.enter_context(ProcessPoolExecutor(1, spawn)) for way in WAYS}
        rates: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way, pool in pools.items():
                rates[way].append(pool.submit(once, way, root, options.lines).result())
        for pool in pools.values():
            pool.submit(close).result()
    best = [Rate(way, max(found), tuple(found)) for way, found in rates.items()]
    print(table(f"{options.lines:,} lines in {options.runs} runs, lines", best, against="text and from_json"))


if __name__ == "__main__":
    main()
