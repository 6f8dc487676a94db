"""The rollups of fuzz cases by five engines: the one of the reports, Spark SQL, DuckDB, polars and pandas.

Each is a class: made once (which is its start), then asked as often as wanted to read Parquet files and to write the
three rollups as Parquet. The reports have theirs made by Arrow in the tasks of Spark, run by run. The others follow one
plan, the best we know for each: count by keys; count by bin; for buckets, look at the findings alone, and count what
came before them by the second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf

from spark_reports.engine.java import find_java
from spark_reports.engine.session import PROFILES, spark_session
from spark_reports.engine.settings import LINES_OF_PARQUET, Profile, cores
from spark_reports.storage.rollups import ROLLUP_OF, merged
from spark_reports.storage.tables import SCHEMAS, arrow_schema
from spark_reports.storage.writing import ddl
from tests.benchmarks._cases import KEYS

PROFILE = os.environ.get("BENCH_PROFILE", "auto")
"""Of Spark: ``fast``, ``bulk``, or by the size of the input."""

SMALLEST = (
    *("campaign", "case", "sent_bytes", "sent_hex", "message", "field", "mutation"),
    *("state", "reply", "detail", "capture", "seed"),
)
ALL_DIFFERENT = ("sent_hex",)
LISTED = ("field", "state", "oracle", "message")
SECOND_NS = 1_000_000_000
LONGEST_S = 1e6


class Engine(Protocol):
    """What makes rollups."""

    def rollup(self, cases: Path, out: Path) -> None:
        """Reads the files of a folder and writes one folder or file for each rollup."""

    def close(self) -> None:
        """Ends whatever was started."""


class Spark:
    """What is done when runs are taken in, with rows from Parquet: Arrow in the tasks of Spark, ``rollups``."""

    def __init__(self, cases: Path) -> None:
        self._ends = ExitStack()
        self._session = _spark(cases, self._ends)

    def rollup(self, cases: Path, out: Path) -> None:
        files = [str(path) for path in sorted(cases.iterdir())]
        for name in KEYS:
            (out / name).mkdir(parents=True)
        read = self._session.range(0, len(files), 1, len(files)).mapInArrow(_parts_of(files), ddl(_PARTS))
        runs = read.repartition(2 * cores(), "run_id").groupBy("run_id", "attempt")
        runs.applyInArrow(_merge_into(str(out)), "rows bigint").collect()

    def close(self) -> None:
        self._ends.close()


_PARTS = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("file", "first", "attempt", "rows")),
        pa.field("run_id", pa.string()),
        *(pa.field(name, pa.binary()) for name in KEYS),
    ]
)
"""Partial rollups of neighbouring rows of a run, and where they begin."""


def _parts_of(files: Sequence[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = arrow_schema("cases")
    # To number what is alike is half of the work, and a dictionary in the file has done it.
    texts = [
        column.name for column in schema if column.type == pa.string() and column.name not in ALL_DIFFERENT
    ]
    names = sorted({*("run_id", "attempt", "engine", "job", "strategy", "verdict", "time_ns", "duration_s"),
        *("node_instance", "rtt_us", "bucket", *SMALLEST, *LISTED)})  # fmt: skip

    def parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in (number for batch in batches for number in batch.column(0).to_pylist()):
            first = 0
            source = pq.ParquetFile(files[file], read_dictionary=texts)
            for group in range(source.num_row_groups):
                rows = source.read_row_group(group, columns=names, use_threads=False)
                for mine in _runs_in(rows):
                    made = {name: [_to_bytes(ROLLUP_OF[name].part(mine))] for name in KEYS}
                    where = {"file": [file], "first": [first], "rows": [mine.num_rows]}
                    run = {name: [mine.column(name)[0].as_py()] for name in ("run_id", "attempt")}
                    yield pa.RecordBatch.from_pydict({**where, **run, **made}, schema=_PARTS)
                    first += mine.num_rows

    return parts


def _runs_in(rows: pa.Table) -> Iterator[pa.Table]:
    """Yields the rows of each run; those of a run stand together."""
    number = pc.dictionary_encode(rows.column("run_id").combine_chunks().cast(pa.string())).indices.to_numpy()
    ends = [*(np.flatnonzero(np.diff(number)) + 1).tolist(), rows.num_rows]
    for begin, end in pairwise([0, *ends]):
        yield rows.slice(begin, end - begin)


def _merge_into(out: str) -> Callable[[pa.Table], pa.Table]:
    def merge(parts: pa.Table) -> pa.Table:
        parts = parts.sort_by([("file", "ascending"), ("first", "ascending")])
        rows = parts.column("rows").to_pylist()
        run_id, attempt = (parts.column(name)[0].as_py() for name in ("run_id", "attempt"))
        before = [0, *accumulate(rows)][:-1]
        for name in KEYS:
            made = [pa.ipc.open_stream(part).read_all() for part in parts.column(name).to_pylist()]
            whole = merged(name, made, before, run_id, attempt)
            pq.write_table(whole, f"{out}/{name}/{run_id}-{attempt}.parquet", compression="zstd")
        return pa.table({"rows": [sum(rows)]})

    return merge


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _spark(cases: Path, ends: ExitStack) -> SparkSession:
    """Starts Spark in the profile that the size of the input asks for."""
    size = sum(path.stat().st_size for path in cases.iterdir())
    profile = PROFILES[PROFILE] or Profile.for_input(LINES_OF_PARQUET * size)
    return ends.enter_context(spark_session(find_java(os.environ), os.environ, profile))


class SparkSQL:
    """Frames, as whoever knows nothing of ``rollups`` would ask."""

    def __init__(self, cases: Path) -> None:
        self._ends = ExitStack()
        self._session = _spark(cases, self._ends)

    def rollup(self, cases: Path, out: Path) -> None:
        read = self._session.read.schema(SCHEMAS["cases"]).parquet(str(cases))
        key = ("run_id", "attempt")
        end = sf.col("time_ns") + (
            sf.least(sf.greatest("duration_s", sf.lit(0.0)), sf.lit(LONGEST_S)) * 1e9
        ).cast("bigint")
        outcomes = read.groupBy(
            *key, "campaign", "engine", "job", "state", "message", "strategy", "verdict"
        ).agg(
            sf.count("*").alias("cases"),
            sf.sum("duration_s").alias("seconds"),
            sf.sum("sent_bytes").alias("sent_bytes"),
            sf.min("time_ns").alias("first_ns"),
            sf.max("time_ns").alias("last_ns"),
            sf.max(end).alias("last_end_ns"),
            sf.max("node_instance").alias("node_starts"),
        )
        time_bin = sf.floor(sf.log2(sf.greatest("rtt_us", sf.lit(1))) * 8).alias("bin")
        times = (
            read.where("rtt_us > 0")
            .groupBy(*key, "campaign", "message", time_bin)
            .agg(sf.count("*").alias("cases"), sf.max("rtt_us").alias("max_us"))
        )
        found = (
            read.where("verdict = 'finding' AND bucket <> ''")
            .groupBy(*key, "bucket", "campaign")
            .agg(
                sf.count("*").alias("cases"),
                sf.min_by("case", sf.struct("time_ns", "case")).alias("first_case"),
                sf.min("time_ns").alias("first_ns"),
                sf.array(sf.first("campaign")).alias("campaigns"),
                *(sf.slice(sf.sort_array(sf.collect_set(name)), 1, 100).alias(f"{name}s") for name in LISTED),
                sf.min_by(sf.struct(*SMALLEST), sf.struct("sent_bytes", "case")).alias("smallest"),
            )
        )
        second = sf.floor(sf.col("time_ns") / SECOND_NS).alias("second")
        when = found.select(
            *key, "first_ns", sf.floor(sf.col("first_ns") / SECOND_NS).alias("second")
        ).distinct()
        runs = found.select(*key).distinct()
        mine = read.select(*key, "time_ns", second).join(sf.broadcast(runs), [*key], "left_semi")
        earlier = Window.partitionBy(*key).orderBy("second").rowsBetween(Window.unboundedPreceding, -1)
        by_second = mine.groupBy(*key, "second").agg(sf.count("*").alias("played"))
        before = by_second.select(*key, "second", sf.sum("played").over(earlier).alias("before"))
        same = (
            mine.join(sf.broadcast(when), [*key, "second"])
            .groupBy(*key, "second", "first_ns")
            .agg(sf.count_if(sf.col("time_ns") < sf.col("first_ns")).alias("within"))
        )
        total = (sf.coalesce("before", sf.lit(0)) + sf.col("within")).alias("cases_before")
        counted = same.join(before, [*key, "second"]).select(*key, "first_ns", total)
        buckets = found.join(counted, [*key, "first_ns"])
        for name, frame in (("case_outcomes", outcomes), ("case_times", times), ("buckets", buckets)):
            frame.write.parquet(str(out / name))

    def close(self) -> None:
        self._ends.close()


class DuckDB:
    """SQL."""

    def __init__(self, _: Path) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._connection.execute(f"SET threads = {cores()}")
        self._connection.execute("SET preserve_insertion_order = false")

    def rollup(self, cases: Path, out: Path) -> None:
        ask = self._connection.execute
        ask(f"CREATE OR REPLACE VIEW cases AS SELECT * FROM read_parquet('{cases}/*.parquet')")
        smallest = ", ".join(f"{name} := {name}" for name in SMALLEST)
        listed = ", ".join(f"list_sort(list(DISTINCT {name}))[1:100] AS {name}s" for name in LISTED)
        queries = {
            "case_outcomes": f"""
                SELECT run_id, attempt, campaign, engine, job, state, message, strategy, verdict,
                    count(*) AS cases, sum(duration_s) AS seconds, sum(sent_bytes)::BIGINT AS sent_bytes,
                    min(time_ns) AS first_ns, max(time_ns) AS last_ns,
                    max(time_ns + trunc(least(greatest(duration_s, 0), {LONGEST_S}) * 1e9)::BIGINT) AS last_end_ns,
                    max(node_instance) AS node_starts
                FROM cases GROUP BY ALL""",
            "case_times": """
                SELECT run_id, attempt, campaign, message, floor(8 * log2(greatest(rtt_us, 1)))::BIGINT AS bin,
                    count(*) AS cases, max(rtt_us) AS max_us
                FROM cases WHERE rtt_us > 0 GROUP BY ALL""",
            "buckets": f"""
                WITH found AS (
                    SELECT run_id, attempt, bucket, campaign, count(*) AS cases,
                        arg_min("case", (time_ns, "case")) AS first_case, min(time_ns) AS first_ns,
                        [campaign] AS campaigns, {listed},
                        arg_min(struct_pack({smallest.replace("case := case", '"case" := "case"')}),
                            (sent_bytes, "case")) AS smallest
                    FROM cases WHERE verdict = 'finding' AND bucket <> '' GROUP BY run_id, attempt, bucket, campaign),
                times AS (SELECT DISTINCT run_id, attempt, first_ns, first_ns // {SECOND_NS} AS second FROM found),
                mine AS (SELECT run_id, attempt, time_ns, time_ns // {SECOND_NS} AS second FROM cases
                    WHERE (run_id, attempt) IN (SELECT run_id, attempt FROM found)),
                by_second AS (SELECT run_id, attempt, second, count(*) AS played FROM mine GROUP BY ALL),
                before AS (SELECT run_id, attempt, second, sum(played) OVER (PARTITION BY run_id, attempt
                    ORDER BY second ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM by_second),
                same AS (SELECT run_id, attempt, second, first_ns,
                    count(*) FILTER (WHERE time_ns < first_ns) AS within
                    FROM mine JOIN times USING (run_id, attempt, second) GROUP BY ALL)
                SELECT found.*, (coalesce(before, 0) + within)::BIGINT AS cases_before
                FROM found JOIN same USING (run_id, attempt, first_ns) JOIN before USING (run_id, attempt, second)""",
        }
        out.mkdir()
        for name, query in queries.items():
            ask(f"COPY ({query}) TO '{out / name}.parquet' (FORMAT parquet, COMPRESSION zstd)")

    def close(self) -> None:
        self._connection.close()


class Polars:
    """Lazy frames."""

    def __init__(self, _: Path) -> None:
        import polars as pl

        self._pl = pl

    def rollup(self, cases: Path, out: Path) -> None:
        pl = self._pl
        read = pl.scan_parquet(cases / "*.parquet")
        key = ("run_id", "attempt")
        end = pl.col("time_ns") + (pl.col("duration_s").clip(0, LONGEST_S) * 1e9).cast(pl.Int64)
        outcomes = read.group_by(
            *key, "campaign", "engine", "job", "state", "message", "strategy", "verdict"
        ).agg(
            pl.len().cast(pl.Int64).alias("cases"),
            pl.col("duration_s").sum().alias("seconds"),
            pl.col("sent_bytes").sum(),
            pl.col("time_ns").min().alias("first_ns"),
            pl.col("time_ns").max().alias("last_ns"),
            end.max().alias("last_end_ns"),
            pl.col("node_instance").max().alias("node_starts"),
        )
        time_bin = (pl.col("rtt_us").clip(1).log(2) * 8).floor().cast(pl.Int64).alias("bin")
        times = (
            read.filter(pl.col("rtt_us") > 0)
            .group_by(*key, "campaign", "message", time_bin)
            .agg(pl.len().cast(pl.Int64).alias("cases"), pl.col("rtt_us").max().alias("max_us"))
        )
        findings = read.filter((pl.col("verdict") == "finding") & (pl.col("bucket") != ""))
        found = findings.group_by(*key, "bucket", "campaign").agg(
            pl.len().cast(pl.Int64).alias("cases"),
            pl.col("case").sort_by("time_ns", "case").first().alias("first_case"),
            pl.col("time_ns").min().alias("first_ns"),
            *(pl.col(name).unique().sort().head(100).alias(f"{name}s") for name in LISTED),
            pl.struct(SMALLEST).sort_by("sent_bytes", "case").first().alias("smallest"),
        )
        found = found.with_columns(pl.concat_list("campaign").alias("campaigns")).collect().lazy()
        second = pl.col("time_ns") // SECOND_NS
        when = found.select(*key, "first_ns", (pl.col("first_ns") // SECOND_NS).alias("second")).unique()
        runs = found.select(*key).unique()
        mine = read.select(*key, "time_ns", second.alias("second")).join(runs, on=key, how="semi")
        before = (
            mine.group_by(*key, "second")
            .agg(pl.len().cast(pl.Int64).alias("played"))
            .sort("second")
            .with_columns((pl.col("played").cum_sum().over(key) - pl.col("played")).alias("before"))
        )
        same = (
            mine.join(when, on=(*key, "second"))
            .group_by(*key, "second", "first_ns")
            .agg((pl.col("time_ns") < pl.col("first_ns")).sum().cast(pl.Int64).alias("within"))
        )
        total = (pl.col("before") + pl.col("within")).alias("cases_before")
        counted = same.join(before, on=(*key, "second")).select(*key, "first_ns", total)
        buckets = found.join(counted, on=(*key, "first_ns"))
        out.mkdir()
        for name, frame in (("case_outcomes", outcomes), ("case_times", times), ("buckets", buckets)):
            frame.collect(engine="streaming").write_parquet(out / f"{name}.parquet", compression="zstd")

    def close(self) -> None:
        """Nothing was started."""


class Pandas:
    """Frames in memory, with strings as categories; only the columns that are used are read."""

    def __init__(self, _: Path) -> None:
        import pandas as pd

        self._pd = pd

    def rollup(self, cases: Path, out: Path) -> None:
        import pyarrow.dataset as ds

        key = ["run_id", "attempt"]
        outcome_keys = [*key, "campaign", "engine", "job", "state", "message", "strategy", "verdict"]
        words = ["run_id", "campaign", "engine", "state", "message", "strategy", "verdict"]
        numbers = ["attempt", "job", "duration_s", "sent_bytes", "time_ns", "node_instance", "rtt_us"]
        read = pq.read_table(cases, columns=[*words, *numbers], read_dictionary=words).unify_dictionaries()
        frame = read.to_pandas(self_destruct=True)
        del read
        frame["end_ns"] = frame["time_ns"] + (frame["duration_s"].clip(0, LONGEST_S) * 1e9).astype("int64")
        outcomes = frame.groupby(outcome_keys, observed=True, sort=False).agg(
            cases=("time_ns", "size"),
            seconds=("duration_s", "sum"),
            sent_bytes=("sent_bytes", "sum"),
            first_ns=("time_ns", "min"),
            last_ns=("time_ns", "max"),
            last_end_ns=("end_ns", "max"),
            node_starts=("node_instance", "max"),
        )
        answered = frame.loc[frame["rtt_us"] > 0, [*key, "campaign", "message", "rtt_us"]]
        answered["bin"] = np.floor(8 * np.log2(answered["rtt_us"])).astype("int64")
        times = answered.groupby([*key, "campaign", "message", "bin"], observed=True, sort=False).agg(
            cases=("rtt_us", "size"), max_us=("rtt_us", "max")
        )
        of_finding = (ds.field("verdict") == "finding") & (ds.field("bucket") != "")
        columns = list(dict.fromkeys([*key, "bucket", "time_ns", *SMALLEST, *LISTED]))
        findings = ds.dataset(cases).to_table(columns=columns, filter=of_finding).to_pandas()
        in_order = {
            run: part.sort_values() for run, part in frame.groupby("run_id", observed=True)["time_ns"]
        }
        rows = []
        for (run, attempt, bucket, campaign), part in findings.groupby([*key, "bucket", "campaign"]):
            first = part.sort_values(["time_ns", "case"]).iloc[0]
            smallest = part.sort_values(["sent_bytes", "case"]).iloc[0]
            rows.append(
                {
                    "run_id": run,
                    "attempt": attempt,
                    "bucket": bucket,
                    "campaign": campaign,
                    "cases": len(part),
                    "first_case": first["case"],
                    "first_ns": first["time_ns"],
                    "cases_before": in_order[run].searchsorted(first["time_ns"]),
                    "campaigns": [campaign],
                    **{f"{name}s": sorted(part[name].unique())[:100] for name in LISTED},
                    "smallest": {name: smallest[name] for name in SMALLEST},
                }
            )
        out.mkdir()
        for name, result in (("case_outcomes", outcomes), ("case_times", times)):
            made = pa.Table.from_pandas(result.reset_index(), preserve_index=False)
            pq.write_table(made, out / f"{name}.parquet", compression="zstd")
        made = pa.Table.from_pandas(self._pd.DataFrame(rows), preserve_index=False)
        pq.write_table(made, out / "buckets.parquet", compression="zstd")

    def close(self) -> None:
        """Nothing was started."""


ENGINES: dict[str, Callable[[Path], Any]] = {
    "spark": Spark,
    "spark-sql": SparkSQL,
    "duckdb": DuckDB,
    "polars": Polars,
    "pandas": Pandas,
}
