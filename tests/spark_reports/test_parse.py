import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from spark_reports import rows
from spark_reports.rows import LONGEST_LINE
from spark_reports.storage import parse
from spark_reports.storage.parse import (
    LONGEST_TEXT,
    NoRow,
    Other,
    Parsed,
    read_block,
    read_line,
    variant,
)
from spark_reports.storage.tables import ROW_TYPES
from spark_reports.storage.wanted import Wanted, wanted

Row = Callable[..., rows.LineRow]


def parsed(*lines: bytes | str, table: str = "verdicts", last: bool = False) -> Parsed:
    data = b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)
    return read_block(data if last else data + b"\n", table, 1, last=last)


def taken(result: Parsed) -> tuple[int, int, int, int]:
    """Returns how many lines are good, kept apart, blank and footers; checks that this is all of them."""
    counts = (result.rows, len(result.apart), result.blank, result.footers)
    assert sum(counts) == result.lines
    return counts


def reasons(result: Parsed) -> dict[int, str]:
    return {apart.line: apart.reason for apart in result.apart}


def spoilt(row: rows.LineRow, **change: object) -> str:
    return json.dumps({**dataclasses.asdict(row), **change})


FOOTER = '{"footer":true,"rows":1,"rows_version":4}'


def test_good_rows_are_read_whole_in_their_order(verdict_row: Row) -> None:
    first = verdict_row(requirements=("ZN-A-1", "ZN-B-2"), seen='ü\u2028\U0001f600"\\}\\n{')
    result = parsed(rows.to_json(first), rows.to_json(verdict_row(test="b")), FOOTER)
    assert taken(result) == (2, 0, 0, 1)
    (table,) = result.good
    assert table.to_pylist()[0] == {**dataclasses.asdict(first), "requirements": ["ZN-A-1", "ZN-B-2"]}
    assert table["test"].to_pylist()[1] == "b"


@pytest.mark.parametrize("table", [name for name in ROW_TYPES if name != "runs"])
def test_rows_of_every_table_are_read_together_and_singly_alike(table: str) -> None:
    want = wanted(table)
    values = {str: "x", int: 1, float: 0.5, bool: True}
    row = {name: [values[kind]] if name in want.lists else values[kind] for name, kind in want.kinds.items()}
    line = json.dumps(row).encode()
    together, singly = parsed(line, table=table), parsed(line, " ", table=table)
    assert together.good[0].to_pylist() == singly.good[0].to_pylist() == [row]
    assert together.good[0].schema == singly.good[0].schema == want.schema


def test_older_rows_get_what_stands_for_their_missing_fields(case_row: Row) -> None:
    row = dataclasses.asdict(case_row()) | {"rows_version": 2}
    old = {name: value for name, value in row.items() if name not in rows.later_fields(rows.FuzzCaseRow)}
    for block in ([json.dumps(old)], [json.dumps(old), ""]):
        table = pa.concat_tables(parsed(*block, rows.to_json(case_row(2, job=3)), table="cases").good)
        assert (table["engine"].to_pylist(), table["job"].to_pylist()) == (["boofuzz", "boofuzz"], [0, 3])
        assert table["rows_version"].to_pylist() == [2, rows.ROWS_VERSION]


def test_unknown_keys_are_kept_in_extra(verdict_row: Row) -> None:
    more = {"later": [1, 2.5, None, {"a": "\udcff"}], "wide": 10**18}
    good = rows.to_json(verdict_row())
    result = parsed(good, spoilt(verdict_row(), **more), good)
    assert taken(result) == (3, 0, 0, 0)
    table = pa.concat_tables(result.good, promote_options="default")
    none, extra, _ = table["extra"].to_pylist()
    assert none is None
    assert json.loads(VariantVal(extra["value"], extra["metadata"]).toJson()) == {
        "later": [1, 2.5, None, {"a": "\\udcff"}],
        "wide": 10**18,
    }


@pytest.mark.parametrize("value", [10**18, [[]] * 3, "x" * 1000, None, True, -0.5, {"a": {"b": []}}])
def test_variant_holds_any_value_of_json(value: Any) -> None:
    made = variant(value)
    assert json.loads(VariantVal(made["value"], made["metadata"]).toJson()) == value


@pytest.mark.parametrize(("levels", "is_text"), [(100, False), (101, True), (500, True)])
def test_value_that_is_nested_deeper_than_any_python_reads_a_variant_is_kept_as_its_text(
    levels: int, is_text: bool
) -> None:
    value = json.loads("[" * levels + "1" + "]" * levels)
    made = variant(value)
    read = json.loads(VariantVal(made["value"], made["metadata"]).toJson())
    assert isinstance(read, str) is is_text
    assert (json.loads(read) if is_text else read) == value


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


def test_other_field_is_read_to_the_same_depth_by_every_python(verdict_row: Row) -> None:
    # The row itself is one level, and what holds nothing none.
    lines = [spoilt(verdict_row(), later=json.loads(deep(levels))) for levels in (500, 501)]
    result = parsed(*lines)
    assert (taken(result), reasons(result)) == ((1, 1, 0, 0), {2: "nested too deeply"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not JSON"),
        (b"null", "not an object"),
        (b"[{}]", "not an object"),
        (b"{}", "no run_id, test, "),
        (b'{"footer": 1}', "no run_id"),
        (b"{'footer': true}", "not JSON"),
        (b"\xff\xfe", "not UTF-8 (byte 1)"),
        (b'{"a": "\x00"}', "not JSON"),
        (b"\x00" * 40, "not JSON"),
        (b'{"a":' + deep(100_000).encode() + b"}", "nested too deeply"),
        (b'{"a":' + b"9" * 5000 + b"}", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"run_id":"a","run_id":"b"}', "run_id stands in it twice"),
        (b'{"x":{"y":1,"y":1}}', "y stands in it twice"),
    ],
)
def test_line_that_is_no_row_is_kept_apart_with_its_number_and_text(
    verdict_row: Row, line: bytes, reason: str
) -> None:
    good = rows.to_json(verdict_row())
    result = parsed(good, "", line, good, FOOTER)
    assert taken(result) == (2, 1, 1, 1)
    (apart,) = result.apart
    assert (apart.line, apart.text) == (3, line.decode("utf-8", "backslashreplace")[:LONGEST_TEXT])
    assert apart.reason.startswith(reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"rows_version": rows.ROWS_VERSION + 1},
            f"rows_version {rows.ROWS_VERSION + 1} is newer than this reader ({rows.ROWS_VERSION})",
        ),
        (
            {"rows_version": 10**90},
            f"rows_version 1{'0' * 39}… is newer than this reader ({rows.ROWS_VERSION})",
        ),
        ({"rows_version": 0}, "rows_version 0 was never written"),
        ({"rows_version": "4"}, "rows_version is no whole number"),
        ({"rows_version": True}, "rows_version is no whole number"),
        ({"rows_version": None}, "no rows_version"),
        ({"seen": None}, "no seen"),
        ({"seen": 1}, "seen is no text"),
        ({"seen": {}}, "seen is no text"),
        ({"transport": 1}, "transport is no text"),
        ({"requirements": "ZN-A-1"}, "requirements is no list"),
        ({"requirements": ["ZN-A-1", None]}, "requirements is no text"),
        ({"started_ns": 1.0}, "started_ns is no whole number"),
        ({"started_ns": "soon"}, "started_ns is no whole number"),
        ({"started_ns": True}, "started_ns is no whole number"),
        ({"started_ns": 1 << 63}, "started_ns does not fit into 64 bits"),
        ({"duration_s": float("nan")}, "duration_s is no finite number"),
        ({"duration_s": float("-inf")}, "duration_s is no finite number"),
        ({"duration_s": 10**400}, "duration_s is no finite number"),
        ({"duration_s": False}, "duration_s is no number"),
    ],
)
def test_value_that_does_not_fit_keeps_its_line_apart(
    verdict_row: Row, change: dict[str, object], reason: str
) -> None:
    result = parsed(rows.to_json(verdict_row()), spoilt(verdict_row(), **change))
    assert reasons(result) == {2: reason}
    assert result.rows == 1


@pytest.mark.parametrize(
    "change",
    [
        {"duration_s": 1},
        {"duration_s": 1e-400},
        {"started_ns": -(1 << 63)},
        {"transport": None},
        {"seen": "\x00"},
    ],
)
def test_value_that_fits_in_another_spelling_is_taken(verdict_row: Row, change: dict[str, object]) -> None:
    line = spoilt(verdict_row(), **change)
    together, singly = parsed(line), parsed(line, "")
    assert (together.rows, singly.rows) == (1, 1)
    assert together.good[0].to_pylist() == singly.good[0].to_pylist()


def test_lone_surrogate_becomes_its_escape(verdict_row: Row) -> None:
    (table,) = parsed(spoilt(verdict_row(), seen="a\udcff\u00fc")).good
    assert table["seen"].to_pylist() == ["a\\udcffü"]


@pytest.mark.parametrize("pairs", ["{0}{0}", "{0} {0}", "{0},{0}", "{0}null{0}", "{0}null"])
def test_two_rows_on_a_line_are_none(verdict_row: Row, pairs: str) -> None:
    good = rows.to_json(verdict_row())
    # A blank line, or a row over two lines, makes the number of rows right again.
    head, tail = good[:40], good[40:]
    result = parsed(good, pairs.format(good), "", head, tail, good)
    assert taken(result) == (2, 3, 1, 0)
    assert list(reasons(result)) == [2, 4, 5]


def test_two_rows_on_a_line_are_none_among_lines_that_look_like_rows(verdict_row: Row) -> None:
    good = rows.to_json(verdict_row())
    result = parsed(good, good + good, good)
    assert taken(result) == (2, 1, 0, 0)
    assert reasons(result) == {2: "not JSON"}


def test_text_that_is_no_utf_8_keeps_its_line_apart(verdict_row: Row) -> None:
    good = rows.to_json(verdict_row()).encode()
    result = parsed(good, good.replace(b"INIT(S=1)", b"INIT\xff\xfe"), good)
    assert taken(result) == (2, 1, 0, 0)
    assert result.apart[0].reason.startswith("not UTF-8")
    assert "INIT\\xff\\xfe" in result.apart[0].text


def test_windows_line_ends_are_no_damage(verdict_row: Row) -> None:
    good = rows.to_json(verdict_row())
    data = f"{good}\r\n{good}\r\n\r\n{FOOTER}\r\n".encode()
    assert taken(read_block(data, "verdicts", 1)) == (2, 0, 1, 1)


def test_footer_between_rows_is_one(verdict_row: Row) -> None:
    good = rows.to_json(verdict_row())
    assert taken(parsed(good, FOOTER, good, FOOTER)) == (2, 0, 0, 2)


@pytest.mark.parametrize("table", ["verdicts", "cases"])
def test_file_cut_at_any_byte_of_its_last_line_loses_that_line_only(
    table: str, verdict_row: Row, case_row: Row
) -> None:
    make = {"verdicts": verdict_row, "cases": case_row}[table]
    good = rows.to_json(make(detail="ü") if table == "cases" else make(seen="ü")).encode()
    for end in range(1, len(good)):
        result = parsed(good, good[:end], table=table, last=True)
        assert taken(result) == (1, 1, 0, 0)
        assert reasons(result) == {2: "cut off in the middle of a line"}
        assert result.apart[0].text == good[:end].decode("utf-8", "backslashreplace")
    assert taken(parsed(good, good, table=table, last=True)) == (2, 0, 0, 0)


def test_line_beyond_the_limit_is_kept_apart(verdict_row: Row) -> None:
    long = rows.to_json(verdict_row(seen="x" * LONGEST_LINE))
    result = parsed(rows.to_json(verdict_row()), long)
    assert reasons(result) == {2: "longer than 16 MiB"}
    assert len(result.apart[0].text) == LONGEST_TEXT


def test_one_bad_line_among_thousands_costs_no_good_one(verdict_row: Row) -> None:
    lines = [rows.to_json(verdict_row(test=f"t{number}")) for number in range(3000)]
    for at in (0, 1, 1500, 2998, 2999):
        damaged = [*lines]
        damaged[at] = damaged[at][:50]
        result = parsed(*damaged, FOOTER)
        assert reasons(result) == {at + 1: "not JSON"}
        tests = [name for table in result.good for name in table["test"].to_pylist()]
        assert tests == [f"t{number}" for number in range(3000) if number != at]


def test_no_lines_hold_nothing() -> None:
    assert taken(read_block(b"", "verdicts", 1, last=True)) == (0, 0, 0, 0)


ODD = st.sampled_from(
    [
        b"null",
        b"{",
        b"}",
        b"}{",
        b"}null{",
        b'"',
        b"\\",
        b"\x00",
        b"\xff",
        b"\r",
        b"\n",
        b"}\n{",
        b",",
        b"[",
        b"1e999",
    ]
)


DAMAGE = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 12), ODD), min_size=1, max_size=6)


def damaged(data: bytes, places: list[tuple[int, int, bytes]]) -> bytes:
    for at, gone, odd in places:
        data = data[:at] + odd + data[at + gone :]
    return data


def assert_read_as_singly(data: bytes, want: Wanted, *, last: bool) -> Parsed:
    """Reads a block, and asserts that ``read_line`` says the same of each of its lines."""
    result = read_block(data, want.table, 1, last=last)
    taken(result)
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    alone: dict[int, object] = {}
    for number, line in enumerate(lines, start=1):
        try:
            alone[number] = read_line(
                line, want, ended=not last or number < len(lines) or data.endswith(b"\n")
            )
        except NoRow as error:
            alone[number] = str(error)
    assert reasons(result) == {number: value for number, value in alone.items() if isinstance(value, str)}
    assert result.blank == list(alone.values()).count(Other.BLANK)
    good = [value for value in alone.values() if isinstance(value, dict)]
    found = [row for table in result.good for row in table.to_pylist()]
    assert [{name: row[name] for name in want.kinds} for row in found] == [
        {name: value[name] for name in want.kinds} for value in good
    ]
    return result


@settings(max_examples=300, deadline=None)
@given(places=DAMAGE, last=st.booleans())
def test_lines_read_together_are_what_they_are_one_by_one(
    places: list[tuple[int, int, bytes]], last: bool
) -> None:
    row = rows.CoverageRow(
        run_id="r1",
        kind="edge",
        campaigns="a",
        state="",
        message="INIT",
        field="S",
        what="{}\\",
        count=4,
        planned=True,
    )
    with pytest.MonkeyPatch.context() as patch:
        # As if these few bytes were many.
        patch.setattr(parse, "_SINGLY", 0)
        data = damaged((rows.to_json(row).encode() + b"\n") * 12, places)
        assert_read_as_singly(data, wanted("coverage"), last=last)
