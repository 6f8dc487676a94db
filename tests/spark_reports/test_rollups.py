import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from spark_reports import rows
from spark_reports.frames.findings import NO_BUCKET
from spark_reports.frames.matrix import NO_REQUIREMENT
from spark_reports.storage.rollups import (
    LONGEST_HEX,
    LONGEST_SEEN,
    MOST_BYTES,
    MOST_NAMES,
    ROLLUP_OF,
    _grouped,
    made_of,
    merged,
)
from spark_reports.storage.tables import ROLLUPS, arrow_schema

Row = Callable[..., Any]


def table_of(found: Sequence[rows.LineRow]) -> pa.Table:
    name = found[0].TABLE
    schema = arrow_schema(name)
    return pa.Table.from_pylist([{**dataclasses.asdict(row), "attempt": 2} for row in found], schema=schema)


def rolled(name: str, *found: rows.LineRow, cuts: Sequence[int] = ()) -> list[dict[str, Any]]:
    """Returns a rollup of rows that are read in pieces, cut at some places."""
    ends = [*cuts, len(found)]
    begins = [0, *cuts]
    parts = [ROLLUP_OF[name].part(table_of(found[a:b])) for a, b in zip(begins, ends, strict=True)]
    made = merged(name, parts, begins, "r1", 2)
    assert made.schema.names == ROLLUPS[name].names
    return [{key: value for key, value in row.items() if key != "run_id"} for row in made.to_pylist()]


def only(name: str, *found: rows.LineRow) -> dict[str, Any]:
    (row,) = rolled(name, *found)
    return row


def test_every_rollup_is_made_of_a_table() -> None:
    assert set(ROLLUP_OF) == set(ROLLUPS)
    assert made_of("cases") == ["case_outcomes", "case_times", "buckets"]
    assert made_of("findings") == []


def test_worst_outcome_of_a_requirement_counts(verdict_row: Row) -> None:
    found = rolled(
        "requirements",
        verdict_row("pass", ("ZN-INIT-001", "ZN-OPEN-002"), level="SHOULD"),
        verdict_row("warning", ("ZN-INIT-001",), level="MUST"),
        verdict_row("made up", ("odd",), level="made up"),
        verdict_row("n/a", ()),
        cuts=[1],
    )
    assert sorted(
        (row["requirement"], row["area"], row["level"], row["outcome"], row["tests"]) for row in found
    ) == [
        (NO_REQUIREMENT, "other", "MUST", "n/a", 1),
        ("ZN-INIT-001", "INIT", "MUST", "warning", 2),
        ("ZN-OPEN-002", "OPEN", "SHOULD", "pass", 1),
        ("odd", "other", "MAY", "inconclusive", 1),
    ]
    assert {row["attempt"] for row in found} == {2}


def test_requirement_whose_deviation_is_stale_is_met(verdict_row: Row) -> None:
    stale = verdict_row("fail", ("ZN-INIT-001",), reason=rows.STALE, seen="the requirement is met")
    assert only("requirements", stale)["outcome"] == "pass"
    assert only("requirements", stale, verdict_row("fail"))["outcome"] == "fail"
    assert only("requirements", stale, verdict_row("warning"))["outcome"] == "warning"


def cut(char: str) -> str:
    return char * (LONGEST_SEEN - 1) + "…"


def test_checks_are_verdicts_without_their_long_texts(verdict_row: Row) -> None:
    row = only("checks", verdict_row("fail", seen="ü" * 1000, reason="r" * 1000, transport="tls"))
    assert (row["seen"], row["reason"]) == (cut("ü"), cut("r"))
    whole = only("checks", verdict_row("fail", seen="ü" * LONGEST_SEEN, reason=""))
    assert (whole["seen"], whole["reason"]) == ("ü" * LONGEST_SEEN, "")
    assert (row["transport"], row["requirements"]) == ("tls", ["ZN-INIT-001"])


def test_what_all_tests_saw_is_the_same_check_whichever_test_broke_it(verdict_row: Row) -> None:
    from conformance.running.passing import FOLDER

    tests = (f"{FOLDER}/ZN-MSG-001", "suite/test_a.py::test_a", f"{FOLDER}/ZN-MSG-001")
    found = [
        verdict_row(test=test, transport=over) for test, over in zip(tests, ("", "tls", "tcp"), strict=True)
    ]
    assert [row["transport"] for row in rolled("checks", *found)] == ["", "tls", ""]


def test_cases_are_counted_by_what_they_were_and_how_they_ended(case_row: Row) -> None:
    found = rolled(
        "case_outcomes",
        case_row(1, duration_s=0.25, sent_bytes=3),
        case_row(2, duration_s=0.5, sent_bytes=4, node_instance=3),
        case_row(3, verdict="silent"),
        cuts=[1, 2],
    )
    closed, silent = sorted(found, key=lambda row: str(row["verdict"]))
    assert (closed["cases"], closed["seconds"], closed["sent_bytes"], closed["node_starts"]) == (
        2,
        0.75,
        7,
        3,
    )
    assert (closed["first_ns"], closed["last_ns"], closed["last_end_ns"]) == (10**9, 2 * 10**9, 25 * 10**8)
    assert (silent["cases"], silent["verdict"], silent["message"]) == (1, "silent", "INIT")


@pytest.mark.parametrize("most", [1, 50, 1 << 62])
def test_groups_are_those_of_arrow_however_many_values_there_are(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("spark_reports.storage.rollups._MOST_CODES", most)
    chance = random.Random(1)
    columns = {name: [chance.choice(["", "a", "b", "c", None]) for _ in range(300)] for name in "xyz"}
    numbers = {"n": [chance.choice([-1, 0, 7]) for _ in range(300)], "v": [*range(300)]}
    table = pa.table(columns | numbers)
    whole = pa.concat_tables([table[:100], table[100:]])
    for rows_of in (whole, whole[:0]):
        ours = _grouped(rows_of, [*"xyzn"], {"v": "sum"})
        grouped = rows_of.group_by([*"xyzn"], use_threads=False).aggregate([("v", "sum")])
        theirs = grouped.rename_columns([*"xyzn", "v"])
        assert ours.schema == theirs.schema
        assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))


def test_values_that_cannot_be_do_not_overflow(case_row: Row) -> None:
    worst = (1 << 63) - 1
    odd = [case_row(n, duration_s=1e300, time_ns=worst, sent_bytes=worst, rtt_us=worst) for n in (1, 2)]
    row = only("case_outcomes", *odd)
    assert (row["sent_bytes"], row["last_ns"], row["last_end_ns"] > 0) == (2 * MOST_BYTES, worst, True)
    assert only("case_times", *odd)["bin"] == 8 * 63


def test_times_fall_into_bins_of_an_eighth_of_a_doubling(case_row: Row) -> None:
    times = [-1, 0, 1, 2, 1000, 1023, 1024]
    found = rolled("case_times", *(case_row(n, rtt_us=us) for n, us in enumerate(times)), cuts=[5])
    assert sorted((row["bin"], row["cases"], row["max_us"]) for row in found) == [
        (0, 1, 1),
        (8, 1, 2),
        (79, 2, 1023),
        (80, 1, 1024),
    ]


def test_bucket_tells_when_it_was_met_and_its_smallest_case(case_row: Row) -> None:
    cases = [
        case_row(1),
        case_row(2, "panic", sent_bytes=9, field="b", state="open"),
        case_row(3),
        case_row(4, "panic", sent_bytes=5, field="a", sent_hex="ab" * LONGEST_HEX),
        case_row(5, "panic", sent_bytes=5, field="c"),
        case_row(6, "panic", campaign="other", sent_bytes=1),
        case_row(7, verdict="finding"),
    ]
    for cuts in ((), (4,), (1, 2, 3, 4, 5, 6)):
        nameless, panic, other = rolled("buckets", *cases, cuts=cuts)
        assert (panic["cases"], panic["first_case"], panic["first_ns"], panic["cases_before"]) == (
            3,
            2,
            2 * 10**9,
            1,
        )
        assert (panic["fields"], panic["states"]) == (["a", "b", "c"], ["connected", "open"])
        assert (panic["smallest"]["case"], panic["smallest"]["field"]) == (4, "a")
        assert panic["smallest"]["sent_hex"] == "ab" * (LONGEST_HEX // 2)
        assert (other["campaign"], other["campaigns"], other["cases_before"]) == ("other", ["other"], 5)
        assert (nameless["bucket"], nameless["cases_before"]) == (NO_BUCKET, 6)


def test_smallest_case_of_a_bucket_is_one_that_sent_something(case_row: Row) -> None:
    idle = [case_row(number, "stall", sent_bytes=0) for number in (1, 4)]
    sent = [case_row(2, "stall", sent_bytes=40), case_row(3, "stall", sent_bytes=30)]
    for cuts in ((), (1,), (2,), (1, 2, 3)):
        (row,) = rolled("buckets", idle[0], *sent, idle[1], cuts=cuts)
        assert (row["smallest"]["case"], row["smallest"]["sent_bytes"]) == (3, 30)
    (row,) = rolled("buckets", *idle, cuts=(1,))
    assert (row["smallest"]["case"], row["cases"]) == (1, 2)


def test_bucket_lists_some_of_many_fields(case_row: Row) -> None:
    many = [case_row(n, "panic", field=f"f{n:04d}") for n in range(MOST_NAMES + 50)]
    (row,) = rolled("buckets", *many, cuts=[80])
    assert row["fields"] == [f"f{n:04d}" for n in range(MOST_NAMES)]


def test_no_finding_makes_no_bucket(case_row: Row) -> None:
    assert rolled("buckets", case_row(1)) == []


def test_traffic_is_counted(observation_row: Row) -> None:
    found = rolled(
        "traffic",
        observation_row("opened"),
        observation_row("sent"),
        observation_row("received"),
        observation_row("received", error="truncated"),
        cuts=[2],
    )
    assert found == [{"attempt": 2, "sent": 1, "received": 2, "undecoded": 1}]


def test_reply_is_what_comes_next_on_the_same_link(observation_row: Row) -> None:
    script = [
        ("a", "sent", "INIT", 0),
        ("b", "sent", "OPEN", 1),
        ("a", "received", "INIT", 2),
        ("b", "sent", "PUSH", 3),
        ("b", "received", "CLOSE", 7),
        ("b", "received", "CLOSE", 8),
        ("a", "sent", "OPEN", 9),
        ("a", "ended", "", 10),
    ]
    seen = [
        observation_row(direction, seq=seq, link=link, messages=messages, time_ns=ms * 1_000_000)
        for seq, (link, direction, messages, ms) in enumerate(script)
    ]
    other = [observation_row("received", test="another", seq=0, time_ns=99, messages="CLOSE")]
    random.Random(1).shuffle(seen)
    found = rolled("reply_times", *seen, *other)
    assert sorted((row["stimulus"], row["reply"], row["count"], row["max_us"]) for row in found) == [
        ("INIT", "INIT", 1, 2000),
        ("PUSH", "CLOSE", 1, 4000),
    ]
    assert {row["bin"] for row in found} == {math.floor(8 * math.log2(2000)), math.floor(8 * math.log2(4000))}


@pytest.mark.parametrize("other", [{"link": "b"}, {"test": "another"}])
def test_what_comes_on_another_link_or_in_another_test_is_no_reply(
    observation_row: Row, other: dict[str, str]
) -> None:
    seen = [observation_row("sent", seq=0), observation_row("received", seq=1, time_ns=5000, **other)]
    assert rolled("reply_times", *seen) == []


@pytest.mark.parametrize("name", list(ROLLUP_OF))
def test_pieces_of_a_file_give_the_same_as_the_whole(
    name: str, verdict_row: Row, case_row: Row, observation_row: Row
) -> None:
    chance = random.Random(7)
    made: Row = {
        "verdicts": lambda n: verdict_row(chance.choice(rows.OUTCOMES), (f"ZN-A-{chance.randrange(3)}",), test=f"t{n}"),
        "cases": lambda n: case_row(
            n, chance.choice(("", "", "p", "q")), rtt_us=chance.randrange(5000), sent_bytes=chance.randrange(50),
            duration_s=chance.randrange(64) / 64,
        ),
        "observations": lambda n: observation_row(
            ("sent", "received")[n % 2], seq=n, time_ns=n * 1_000_000, messages=chance.choice("AB"), test=f"t{n // 2}"
        ),
    }[ROLLUP_OF[name].table]  # fmt: skip
    found = [made(number) for number in range(60)]
    by_text = sorted(map(str, rolled(name, *found)))
    for cuts in ([30], [2, 4, 6, 50], list(range(2, 60, 2))):
        assert sorted(map(str, rolled(name, *found, cuts=cuts))) == by_text
