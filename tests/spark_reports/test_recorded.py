"""Lines that are read as they are written, against ``read_line``, which says what a line is."""

import json
import random
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_reports import rows
from spark_reports.storage.parse import read_line
from spark_reports.storage.recorded import can_read, read_recorded
from spark_reports.storage.tables import ROW_TYPES
from spark_reports.storage.wanted import Wanted, wanted
from tests.spark_reports.test_parse import DAMAGE, assert_read_as_singly, damaged

Row = Callable[..., rows.LineRow]

CASES = wanted("cases")
READ_HERE = [wanted(name) for name in ("cases", "observations")]
TEXTS = (
    "", "a", "INIT", 'say "x"', "back\\slash\\", "\\\\", "\t\x00\x1f", "ü\u2028\U0001f600", "\x7f", "\udcff",
    '{},:\\"', "x" * 300,
)  # fmt: skip
WHOLE = (0, 1, 9, 10, 99_999_999, 100_000_000, 10**16, 1_790_000_000_000_000_000, (1 << 63) - 1)
FRACTIONS = (0.0, 1.0, 1, 0.5, 9.6e-05, 0.000456, 12345.678901, 1e16, 1.5e90, -0.25)


def line_of(want: Wanted, chance: random.Random) -> bytes:
    """Returns a line as it is written, with values and missing fields as chance has them."""
    values: dict[type, Any] = {str: TEXTS, int: WHOLE, float: FRACTIONS}
    row = {name: chance.choice(values[kind]) for name, kind in want.kinds.items()}
    row["rows_version"] = chance.randint(1, rows.ROWS_VERSION)
    for name in want.later:
        if chance.random() < 0.3:
            del row[name]
    text = json.dumps(
        row, ensure_ascii="\udcff" in row.values() or chance.random() < 0.5, separators=(",", ":")
    )
    return text.encode()


def block(want: Wanted, count: int, seed: int = 1) -> bytes:
    chance = random.Random(seed)
    return b"".join(line_of(want, chance) + b"\n" for _ in range(count))


def test_tables_of_texts_and_numbers_are_read_here() -> None:
    tables = [wanted(name) for name in ROW_TYPES if name != "runs"]
    assert {want.table for want in tables if can_read(want)} == {want.table for want in READ_HERE}


@pytest.mark.parametrize("want", READ_HERE, ids=lambda want: want.table)
def test_whatever_writers_write_is_taken(want: Wanted) -> None:
    data = block(want, 2000)
    found = read_recorded(data, want)
    lines = data.split(b"\n")[:-1]
    assert found.taken.all()
    assert found.ends.tolist() == list(accumulate(len(line) + 1 for line in lines))
    assert found.rows.schema == want.schema
    found.rows.validate(full=True)
    singly = [read_line(line, want) for line in lines]
    assert found.rows.to_pylist() == [{name: row[name] for name in want.kinds} for row in singly]  # type: ignore[index]


def test_row_of_the_writer_is_taken(case_row: Row) -> None:
    line = rows.to_json(case_row()).encode()
    assert read_recorded(line + b"\n" + line, CASES).taken.tolist() == [True, True]


DIGITS = st.text("0123456789", max_size=17)
NUMBERS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "-", "0"]),
        DIGITS,
        st.sampled_from(["", ".", ".", "..", ".0", ".-"]),
        DIGITS,
        st.sampled_from(["", "", "e-05", "e-5", "e-22", "e-23", "e-99", "e+05", "E-05", "e-0x", "e-:0", "e-0:", "ee-5", "-e05"]),
    ),
) | st.floats(0, 1e6).map(lambda number: repr(round(number, 6)))  # fmt: skip
CASE = block(CASES, 1)


@settings(max_examples=200, deadline=None)
@given(numbers=st.lists(NUMBERS, min_size=10, max_size=10))
def test_number_is_what_json_says_to_the_last_bit_or_is_left_to_others(numbers: list[str]) -> None:
    begin = CASE.index(b'"duration_s":') + len(b'"duration_s":')
    end = CASE.index(b",", begin)
    found = read_recorded(
        b"".join((CASE[:begin] + number.encode() + CASE[end:]) * 2 for number in numbers), CASES
    )
    values = iter(found.rows.column("duration_s").to_pylist())
    for number, taken in zip(numbers, found.taken.reshape(-1, 2).tolist(), strict=True):
        try:
            meant = json.loads(number)
        except ValueError:
            assert taken == [False, False]
            continue
        if any(taken):
            assert taken == [True, True]
            assert [next(values), next(values)] == [float(meant)] * 2
        else:
            assert not 0 <= meant < 1e15 or len(number) > 15
    assert list(values) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Other spellings of JSON, which are rows but not as they are written.
        (b'"case":12,', b'"case": 12,'),
        (b'"case":12,', b'"case":-12,'),
        (b'"state":"open"', b'"state" :"open"'),
        (b'"state":"open"', b'"st\\u0061te":"open"'),
        (b'"state":"open",', b'"state":"open","more":1,'),
        (b'"engine":"fast"', b'"engine":null'),
        (b'{"run_id":"r1","campaign":"c"', b'{"campaign":"c","run_id":"r1"'),
        (b'"duration_s":0.5', b'"duration_s":1e-320'),
        # No rows.
        (b'"case":12,', b'"case":"12",'),
        (b'"case":12,', b'"case":012,'),
        (b'"case":12,', b'"case":00,'),
        (b'"case":12,', b'"case":+12,'),
        (b'"case":12,', b'"case":0x1,'),
        (b'"case":12,', b'"case":12.0,'),
        (b'"case":12,', b'"case":1_2,'),
        (b'"case":12,', b'"case":1e1,'),
        (b'"case":12,', b'"case":,'),
        (b'"case":12,', b'"case":true,'),
        (b'"case":12,', b'"case":null,'),
        (b'"case":12,', b'"case":12,,'),
        (b'"case":12,', b'"case":12 3,'),
        (b'"case":12,', b'"case":9223372036854775808,'),
        (b'"case":12,', b'"case":18446744073709551616,'),
        (b'"case":12,', b'"case":100000000000000000012,'),
        (b'"case":12,', b'"case":\xd9\xa1,'),
        (b'"case":12,', b'"case":12,"case":12,'),
        (b'"duration_s":0.5', b'"duration_s":"0.5"'),
        (b'"duration_s":0.5', b'"duration_s":.5'),
        (b'"duration_s":0.5', b'"duration_s":5.'),
        (b'"duration_s":0.5', b'"duration_s":00.5'),
        (b'"duration_s":0.5', b'"duration_s":-'),
        (b'"duration_s":0.5', b'"duration_s":1e'),
        (b'"duration_s":0.5', b'"duration_s":0x1p3'),
        (b'"duration_s":0.5', b'"duration_s":NaN'),
        (b'"duration_s":0.5', b'"duration_s":Infinity'),
        (b'"duration_s":0.5', b'"duration_s":1e999'),
        (b'"duration_s":0.5', b'"duration_s":0.5\n0'),
        (b'"state":"open"', b'"state":open'),
        (b'"state":"open"', b'"state":1'),
        (b'"state":"open"', b'"state":["open"]'),
        (b'"state":"open"', b'"state":{"open":"x"}'),
        (b'"state":"open"', b'"state":"op\ten"'),
        (b'"state":"open"', b'"state":"op\x00en"'),
        (b'"state":"open"', b'"state":"op\xff\xfeen"'),
        (b'"state":"open"', b'"state":"\xed\xa0\x80"'),
        (b'"state":"open"', b'"state":"op\\xen"'),
        (b'"state":"open"', b'"state":"op\\"'),
        (b'"state":"open"', b'"state":"op\\u12"'),
        (b'"state":"open"', b'"state":"op"en"'),
        (b'"state":"open"', b'"state":"open""'),
        (b'"state":"open",', b'"state":"open"\\,'),
        (b'"state":"open",', b'"state":"open"'),
        (b'"state":"open",', b'"state":"open",""'),
        (b'"state":"open",', b""),
        (b'"state":"open"', b"\"state\":'open'"),
        (b'"state":', b'"State":'),
        (b'"rows_version":6}', b'"rows_version":0}'),
        (b'"rows_version":6}', b'"rows_version":7}'),
        (b'"rows_version":6}', b'"rows_version":6,}'),
        (b'"rows_version":6}', b'"rows_version":6}}'),
        (b'"rows_version":6}', b'"rows_version":6} {}'),
        (b'"rows_version":6}', b'"rows_version":6}null{"x":4}'),
        (b'"rows_version":6}', b'"rows_version":6'),
        (b'"rows_version":6}', b'"x":4}'),
        (b'{"run_id"', b'[{"run_id"'),
        (b'{"run_id"', b'"run_id"'),
        (b'{"run_id"', b' {"run_id"'),
        (b'{"run_id"', b'\xef\xbb\xbf{"run_id"'),
    ],
)  # fmt: skip
def test_line_that_differs_in_a_byte_is_left_to_others(case_row: Row, old: bytes, new: bytes) -> None:
    row = case_row(12, run_id="r1", campaign="c", duration_s=0.5, state="open", engine="fast")
    good = rows.to_json(row).encode()
    assert good.count(old) == 1
    lines = [good, good.replace(old, new), good]
    data = b"\n".join(lines) + b"\n"
    taken = read_recorded(data, CASES).taken.tolist()
    assert (taken[0], taken[-1]) == (True, True)
    assert not any(taken[1:-1])
    assert_read_as_singly(data, CASES, last=False)


@pytest.mark.parametrize(
    "data",
    [b"\n", b"\n\n", b"{}", b"{}\n", b"null\n", b'"', b"\\", b'\\"\n', b"}\n{\n", b"\x00" * 100, b"{" * 100 + b"}"],
)  # fmt: skip
def test_lines_that_hold_next_to_nothing_are_left_to_others(data: bytes) -> None:
    assert not read_recorded(data, CASES).taken.any()
    assert_read_as_singly(data, CASES, last=False)


ODD = st.sampled_from(
    [
        *(b'"', b'""', b"\\", b'\\"', b"\\\\", b",", b":", b"0", b"-", b".", b"e", b"{", b"}", b"}\n{", b"\n", b"\r"),
        *(b"\x00", b"\x1f", b"\xff", b"\xc3\xa9", b"\xe2\x80", b" ", b"null", b"true", b"[]", b"1e999", b"9" * 20),
        *(b'"case":1,', b'"engine":"x",', b'"job":7,', b'"more":1,', b'","', b'":"', b"\\ud800", b"\\u0041", b"\\n"),
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    want=st.sampled_from(READ_HERE),
    seed=st.integers(0, 1000),
    places=DAMAGE | st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 12), ODD), max_size=8),
    last=st.booleans(),
)
def test_damaged_lines_are_what_they_are_one_by_one(
    want: Wanted, seed: int, places: list[tuple[int, int, bytes]], last: bool
) -> None:
    assert_read_as_singly(damaged(block(want, 20, seed), places), want, last=last)


def test_some_odd_lines_do_not_disturb_the_others() -> None:
    lines = block(CASES, 3000).split(b"\n")[:-1]
    for number in (0, 7, 8, 9, 1500, 2998, 2999):
        lines[number] = lines[number][: 40 + number % 7]
    result = assert_read_as_singly(b"\n".join(lines) + b"\n", CASES, last=False)
    assert len(result.apart) == 7
    # Those between them come as one table each.
    assert len(result.good) == 3
