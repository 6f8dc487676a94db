"""What reports read instead of the rows themselves: a few thousand rows for each run, whatever its size.

They are made once, when a run is taken in, by the workers that parse its lines and have them in memory then. Each
piece of a file gives a partial rollup, and ``merge`` makes one of those of a run: counts, sums, extremes, histograms,
so that the parts add up to the same as the whole. The columns of the result are those of ``tables.ROLLUPS``.

This is Arrow and not Spark SQL: seven queries over a run that was just written cost more than taking it in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.frames.findings import NO_BUCKET
from spark_reports.frames.matrix import LEVELS, NO_REQUIREMENT, WORST_FIRST
from spark_reports.rows import CUT, PASSIVE, STALE
from spark_reports.storage.tables import SMALLEST, arrow_schema

BINS_PER_DOUBLING = 8
"""Resolution of the histograms: a bin is 9 % wide."""

LONGEST_SEEN = 300
"""Characters of what a check saw and why, with ``CUT`` at the end where there was more; the verdict has it whole."""

LONGEST_HEX = 4096
"""Characters of the stimulus of a bucket's smallest case."""

LONGEST_NAMES = 200
"""Characters of the names of a batch's messages; a hostile batch has thousands of them."""

MOST_NAMES = 100
"""Fields, states, oracles and messages of a bucket that are listed."""

MOST_SECONDS, MOST_BYTES, MOST_NS = 1e6, 1 << 32, 1 << 62
"""A case takes less time, sends less, and is played earlier. What is beyond is damage and counts as so much: sums and
ends stay within 64 bits."""

_MOST_CODES = 1 << 62
"""Numbers of groups fit into 64 bits."""

_KEY = ("run_id", "attempt")
_NAMES = ("field", "state", "oracle", "message")
_UNKNOWN_LEVEL, _UNKNOWN_OUTCOME = LEVELS.index("MAY"), WORST_FIRST.index("inconclusive")

Tables = Sequence[pa.Table]


@dataclass(frozen=True, slots=True)
class Rollup:
    """A rollup.

    Attributes:
        table: What it is made of.
        part: Makes a partial one of rows of that table.
        merge: Makes one of partial ones, which come in the order of the file, each with the number of rows in front
            of those that it was made of. Its columns are those of the rollup but for run and attempt.
    """

    table: str
    part: Callable[[pa.Table], pa.Table]
    merge: Callable[[Tables, Sequence[int]], pa.Table]


def made_of(table: str) -> list[str]:
    """Returns the rollups that are made of a table."""
    return [name for name, rollup in ROLLUP_OF.items() if rollup.table == table]


def merged(name: str, parts: Tables, before: Sequence[int], run_id: str, attempt: int) -> pa.Table:
    """Returns the rollup of a run.

    Args:
        name: Of the rollup.
        parts: Partial ones, in the order of the file.
        before: For each of them the number of rows of the table in front of it.
        run_id: The run.
        attempt: Its attempt.
    """
    made = ROLLUP_OF[name].merge(parts, before)
    key = {"run_id": pa.repeat(run_id, made.num_rows), "attempt": pa.repeat(attempt, made.num_rows)}
    schema = arrow_schema(name)
    columns = [key[column] if column in key else made.column(column) for column in schema.names]
    return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


# Verdicts ---------------------------------------------------------------------------------------------------


def _requirements_part(verdicts: pa.Table) -> pa.Table:
    lists = verdicts.column("requirements").combine_chunks()
    # A test that names none has one that says so, or its outcome would not be seen.
    none = pc.equal(pc.list_value_length(lists), 0)
    at = pa.concat_arrays([pc.list_parent_indices(lists), pc.indices_nonzero(none).cast(pa.int64())])
    names = pa.concat_arrays([lists.flatten(), pa.repeat(NO_REQUIREMENT, pc.sum(none).as_py() or 0)])
    single = pa.table(
        {
            "requirement": names,
            "level": _ranks(verdicts.column("level"), LEVELS, _UNKNOWN_LEVEL).take(at),
            "outcome": _ranks(_shown_of_node(verdicts), WORST_FIRST, _UNKNOWN_OUTCOME).take(at),
            "tests": pa.repeat(pa.scalar(1, pa.int64()), len(names)),
        }
    )
    return _worst(single)


def _shown_of_node(verdicts: pa.Table) -> pa.ChunkedArray:
    """Returns the outcomes; where a deviation is stale it is the list of deviations that fails, not the node."""
    outcome = verdicts.column("outcome")
    stale = pc.and_(pc.equal(outcome, "fail"), pc.equal(verdicts.column("reason"), STALE))
    return pc.if_else(stale, "pass", outcome)


def _requirements_merge(parts: Tables, _: Sequence[int]) -> pa.Table:
    whole = _worst(pa.concat_tables(parts))
    # ``INIT`` in ``ZN-INIT-003``.
    area = pc.struct_field(
        pc.extract_regex(whole.column("requirement"), r"^[A-Za-z]+-(?P<area>[A-Za-z]+)-"), "area"
    )
    return (
        whole.set_column(
            whole.schema.get_field_index("level"), "level", _named(whole.column("level"), LEVELS)
        )
        .set_column(
            whole.schema.get_field_index("outcome"), "outcome", _named(whole.column("outcome"), WORST_FIRST)
        )
        .append_column("area", pc.fill_null(area, "other"))
    )


def _worst(single: pa.Table) -> pa.Table:
    """Returns the strictest level and the worst outcome of each requirement, as ranks; see ``matrix``."""
    return _grouped(single, ["requirement"], {"level": "min", "outcome": "min", "tests": "sum"})


def _cut(texts: pa.ChunkedArray, most: int) -> pa.ChunkedArray:
    shorter = pc.binary_join_element_wise(pc.utf8_slice_codeunits(texts, 0, most - len(CUT)), CUT, "")
    return pc.if_else(pc.greater(pc.utf8_length(texts), most), shorter, texts)


def _checks_part(verdicts: pa.Table) -> pa.Table:
    names = [name for name in arrow_schema("checks").names if name not in _KEY]
    short = {name: _cut(verdicts.column(name), LONGEST_SEEN) for name in ("seen", "reason")}
    # It would be one check while it passes and another when it fails.
    passive = pc.starts_with(verdicts.column("test"), PASSIVE)
    transport = pc.if_else(passive, "", verdicts.column("transport"))
    made = {**short, "transport": transport}
    return pa.table({name: made.get(name, verdicts.column(name)) for name in names})


def _joined(parts: Tables, _: Sequence[int]) -> pa.Table:
    return pa.concat_tables(parts)


# Cases ------------------------------------------------------------------------------------------------------

_OUTCOME_KEY = ["campaign", "engine", "job", "state", "message", "strategy", "verdict"]
_OUTCOME_SUMS = {
    "cases": "sum", "seconds": "sum", "sent_bytes": "sum", "first_ns": "min", "last_ns": "max", "last_end_ns": "max",
    "node_starts": "max",
}  # fmt: skip


def _case_outcomes_part(cases: pa.Table) -> pa.Table:
    began = _clipped(cases.column("time_ns"), -MOST_NS, MOST_NS)
    took_ns = pc.multiply(_clipped(cases.column("duration_s"), 0.0, MOST_SECONDS), 1e9).cast(
        pa.int64(), safe=False
    )
    values = {
        "cases": pa.repeat(pa.scalar(1, pa.int64()), cases.num_rows),
        "seconds": _clipped(cases.column("duration_s"), -MOST_SECONDS, MOST_SECONDS),
        "sent_bytes": _clipped(cases.column("sent_bytes"), 0, MOST_BYTES),
        "first_ns": cases.column("time_ns"),
        "last_ns": cases.column("time_ns"),
        "last_end_ns": pc.add(began, took_ns),
        "node_starts": cases.column("node_instance"),
    }
    keys = {name: cases.column(name) for name in _OUTCOME_KEY}
    return _grouped(pa.table({**keys, **values}), _OUTCOME_KEY, _OUTCOME_SUMS)


def _case_outcomes_merge(parts: Tables, _: Sequence[int]) -> pa.Table:
    return _grouped(pa.concat_tables(parts), _OUTCOME_KEY, _OUTCOME_SUMS)


def _case_times_part(cases: pa.Table) -> pa.Table:
    answered = cases.select(["campaign", "message", "rtt_us"]).filter(pc.greater(cases.column("rtt_us"), 0))
    return _histogram(answered, ["campaign", "message"], answered.column("rtt_us"), "cases")


def _case_times_merge(parts: Tables, _: Sequence[int]) -> pa.Table:
    return _grouped(
        pa.concat_tables(parts), ["campaign", "message", "bin"], {"cases": "sum", "max_us": "max"}
    )


def _buckets_part(cases: pa.Table) -> pa.Table:
    position = pa.array(np.arange(cases.num_rows))
    mine = pc.equal(cases.column("verdict"), "finding")
    wanted = ["bucket", "time_ns", *_NAMES, *(name for name in SMALLEST.names if name not in _NAMES)]
    found = cases.select(list(dict.fromkeys(wanted))).append_column("position", position).filter(mine)
    bucket = found.column("bucket")
    named = pc.if_else(pc.equal(bucket, ""), NO_BUCKET, bucket)
    found = found.set_column(0, "bucket", named).append_column("row", pa.array(np.arange(found.num_rows)))
    key = ["bucket", "campaign"]
    # The rows come in the order of the file, so that the first of a group is the first that was met.
    counted = found.group_by(key, use_threads=False).aggregate(
        [("row", "count"), ("row", "min"), *((name, "distinct") for name in _NAMES)]
    )
    # What did not come to send anything does not show how it was met.
    order = pc.sort_indices(
        found.append_column("idle", pc.equal(found.column("sent_bytes"), 0)),
        [("idle", "ascending"), ("sent_bytes", "ascending"), ("case", "ascending")],
    )
    least = found.select([*key, "row"]).take(order).group_by(key, use_threads=False)
    smallest = found.take(_in_order(counted, least.aggregate([("row", "first")]), key))
    first = found.take(counted.column("row_min"))
    short = pc.utf8_slice_codeunits(smallest.column("sent_hex"), 0, LONGEST_HEX)
    parts = [short if name == "sent_hex" else smallest.column(name) for name in SMALLEST.names]
    return pa.table(
        {
            "bucket": counted.column("bucket"),
            "campaign": counted.column("campaign"),
            "cases": counted.column("row_count"),
            "first_case": first.column("case"),
            "first_ns": first.column("time_ns"),
            "cases_before": first.column("position"),
            **{f"{name}s": counted.column(f"{name}_distinct") for name in _NAMES},
            "smallest": pa.StructArray.from_arrays(
                [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in parts],
                names=list(SMALLEST.names),
            ),
        }
    )


def _in_order(counted: pa.Table, least: pa.Table, key: list[str]) -> pa.Array:
    """Returns the rows of ``least`` in the order of ``counted``; both have the same groups."""
    at = dict(zip(_pairs(least, key), least.column("row_first").to_pylist(), strict=True))
    return pa.array([at[pair] for pair in _pairs(counted, key)], pa.int64())


def _pairs(table: pa.Table, key: list[str]) -> Iterable[tuple[Any, ...]]:
    return zip(*(table.column(name).to_pylist() for name in key), strict=True)


def _buckets_merge(parts: Tables, before: Sequence[int]) -> pa.Table:
    whole: dict[tuple[str, str], dict[str, Any]] = {}
    for part, rows in zip(parts, before, strict=True):
        for row in part.to_pylist():
            row["cases_before"] += rows
            known = whole.setdefault((row["bucket"], row["campaign"]), row)
            if known is row:
                continue
            known["cases"] += row["cases"]
            for name in _NAMES:
                known[f"{name}s"] += row[f"{name}s"]
            known["smallest"] = min(known["smallest"], row["smallest"], key=_size)
    for row in whole.values():
        row["campaigns"] = [row["campaign"]]
        row |= {f"{name}s": sorted(set(row[f"{name}s"]))[:MOST_NAMES] for name in _NAMES}
    schema = arrow_schema("buckets")
    wanted = pa.schema([column for column in schema if column.name not in _KEY])
    return pa.Table.from_pylist([whole[key] for key in sorted(whole)], schema=wanted)


def _size(case: Mapping[str, Any]) -> tuple[bool, int, int]:
    return case["sent_bytes"] == 0, case["sent_bytes"], case["case"]


# Observations -----------------------------------------------------------------------------------------------


def _traffic_part(seen: pa.Table) -> pa.Table:
    direction = seen.column("direction")
    received = pc.equal(direction, "received")
    broken = pc.and_(received, pc.not_equal(seen.column("error"), ""))
    counts = {"sent": pc.equal(direction, "sent"), "received": received, "undecoded": broken}
    return pa.table({name: [pc.sum(mask).as_py() or 0] for name, mask in counts.items()})


def _traffic_merge(parts: Tables, _: Sequence[int]) -> pa.Table:
    whole = pa.concat_tables(parts)
    return pa.table({name: [pc.sum(whole.column(name)).as_py()] for name in whole.column_names})


def _reply_times_part(seen: pa.Table) -> pa.Table:
    """Makes a histogram of the time from a batch that a test sent to what came next on the same link.

    If something else was sent before anything came, or the link ended, there is no time.
    """
    test, link = (_numbered(_one_chunk(seen.column(name)))[0] for name in ("test", "link"))
    order = np.lexsort((seen.column("seq").to_numpy(), link, test))
    if len(order) < 2:
        return _no_reply_times()
    now, then = order[:-1], order[1:]
    direction = seen.column("direction")
    sent, received = (pc.equal(direction, name).to_numpy() for name in ("sent", "received"))
    times = _clipped(seen.column("time_ns"), 0, MOST_NS).to_numpy()
    us = (times[then] - times[now]) // 1000
    pairs = (test[now] == test[then]) & (link[now] == link[then]) & sent[now] & received[then] & (us >= 0)
    names = pc.utf8_slice_codeunits(seen.column("messages"), 0, LONGEST_NAMES)
    table = pa.table(
        {"stimulus": names.take(pa.array(now[pairs])), "reply": names.take(pa.array(then[pairs]))}
    )
    return _histogram(
        table, ["stimulus", "reply"], pa.chunked_array([pa.array(us[pairs], pa.int64())]), "count"
    )


def _no_reply_times() -> pa.Table:
    text, number = pa.array([], pa.string()), pa.array([], pa.int64())
    return pa.table({"stimulus": text, "reply": text, "bin": number, "count": number, "max_us": number})


def _reply_times_merge(parts: Tables, _: Sequence[int]) -> pa.Table:
    return _grouped(pa.concat_tables(parts), ["stimulus", "reply", "bin"], {"count": "sum", "max_us": "max"})


# Tools ------------------------------------------------------------------------------------------------------


def time_bin(us: Any) -> Any:
    """Returns the bins of times in microseconds: ``floor(8 * log2(max(us, 1)))``."""
    return pc.floor(
        pc.multiply(pc.log2(pc.max_element_wise(us, 1).cast(pa.float64(), safe=False)), BINS_PER_DOUBLING)
    ).cast(pa.int64())


def _histogram(table: pa.Table, key: list[str], us: pa.ChunkedArray, count: str) -> pa.Table:
    ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
    values = {"bin": time_bin(us), count: ones, "max_us": us}
    made = pa.table({**{name: table.column(name) for name in key}, **values})
    return _grouped(made, [*key, "bin"], {count: "sum", "max_us": "max"})


def _grouped(table: pa.Table, key: list[str], values: Mapping[str, str]) -> pa.Table:
    """Returns one row for each key, under the names that the values had, in the order in which the keys come."""
    # Arrow groups by one number several times faster than by some texts, and one chunk ten times faster than hundreds.
    keys = [_one_chunk(table.column(name)) for name in key]
    codes, size = np.zeros(table.num_rows, np.int64), 1
    for column in keys:
        number, count = _numbered(column)
        if size * count > _MOST_CODES:
            codes, size = _numbered(pa.array(codes))
        codes = codes * count + number
        size *= count
    row = np.arange(table.num_rows)
    numbered = pa.table(
        {"code": codes, "row": row, **{name: _one_chunk(table.column(name)) for name in values}}
    )
    made = numbered.group_by("code", use_threads=False).aggregate([("row", "min"), *values.items()])
    first = made.column("row_min")
    counted = [made.column(f"{name}_{how}") for name, how in values.items()]
    return pa.table([*(column.take(first) for column in keys), *counted], names=[*key, *values])


def _numbered(column: pa.Array) -> tuple[np.ndarray, int]:
    """Returns a number from 0 for each different value, and how many there are."""
    made = pc.dictionary_encode(column, null_encoding="encode")
    return made.indices.to_numpy(zero_copy_only=False).astype(np.int64), max(1, len(made.dictionary))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    made = column.combine_chunks()
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def _clipped(column: pa.ChunkedArray, least: float, most: float) -> pa.ChunkedArray:
    kind = column.type
    return pc.min_element_wise(pc.max_element_wise(column, pa.scalar(least, kind)), pa.scalar(most, kind))


def _ranks(column: pa.ChunkedArray, order: tuple[str, ...], unknown: int) -> pa.Array:
    found = pc.index_in(column, pa.array(order)).combine_chunks()
    return pc.fill_null(found, unknown).cast(pa.int64())


def _named(ranks: pa.ChunkedArray, order: tuple[str, ...]) -> pa.Array:
    return pa.array(order).take(ranks.combine_chunks())


ROLLUP_OF: Mapping[str, Rollup] = {
    "requirements": Rollup("verdicts", _requirements_part, _requirements_merge),
    "checks": Rollup("verdicts", _checks_part, _joined),
    "case_outcomes": Rollup("cases", _case_outcomes_part, _case_outcomes_merge),
    "case_times": Rollup("cases", _case_times_part, _case_times_merge),
    "buckets": Rollup("cases", _buckets_part, _buckets_merge),
    "traffic": Rollup("observations", _traffic_part, _traffic_merge),
    "reply_times": Rollup("observations", _reply_times_part, _reply_times_merge),
}
"""Every rollup."""
