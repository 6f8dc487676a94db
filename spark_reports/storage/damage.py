"""Files of rows as machines that go down, full disks and foreign tools leave them, with what is left in them."""

from collections.abc import Callable

from spark_reports import rows

Harm = Callable[[bytes], tuple[bytes, int, int, int, int]]
"""Takes a whole file; gives the damaged one, and how many of its lines are good, kept apart, blank and footers."""


def _rows_of(whole: bytes) -> tuple[list[bytes], bytes]:
    """Returns the lines of a whole file, and its footer."""
    *lines, end = whole.splitlines(keepends=True)
    return lines, end


def _cut_in_a_line(whole: bytes) -> tuple[bytes, int, int, int, int]:
    lines, _ = _rows_of(whole)
    half = len(lines) // 2
    return b"".join(lines[:half]) + lines[half][: len(lines[half]) // 2], half, 1, 0, 0


def _cut_between_lines(whole: bytes) -> tuple[bytes, int, int, int, int]:
    lines, _ = _rows_of(whole)
    return b"".join(lines[:-3]), len(lines) - 3, 0, 0, 0


def _rubbish_inside(whole: bytes) -> tuple[bytes, int, int, int, int]:
    lines, end = _rows_of(whole)
    rubbish = [b"\x00\xff\xfe no row\n", b"[1, 2]\n", lines[0].replace(b'"run_id"', b'"was_run_id"')]
    return b"".join([*lines[:2], *rubbish, *lines[2:], end]), len(lines), len(rubbish), 0, 1


def _blank_lines(whole: bytes) -> tuple[bytes, int, int, int, int]:
    lines, end = _rows_of(whole)
    return b"".join([b"\n", lines[0], b"  \n", *lines[1:], b"\r\n", end]), len(lines), 0, 3, 1


def _foreign_fields(whole: bytes) -> tuple[bytes, int, int, int, int]:
    lines, end = _rows_of(whole)
    lines[0] = lines[0].replace(b"{", b'{"note":{"by":"another tool","tries":[1,2]},', 1)
    return b"".join([*lines, end]), len(lines), 0, 0, 1


def _from_the_future(whole: bytes) -> tuple[bytes, int, int, int, int]:
    lines, end = _rows_of(whole)
    now = b'"rows_version":%d' % rows.ROWS_VERSION
    lines[-1] = lines[-1].replace(now, b'"rows_version":99')
    return b"".join([*lines, end]), len(lines) - 1, 1, 0, 1


DAMAGE: tuple[tuple[str, Harm, str], ...] = (
    (rows.VERDICTS, _cut_in_a_line, "cut off"),
    (rows.FUZZ_CASES, _cut_in_a_line, "cut off"),
    (rows.OBSERVATIONS, _cut_between_lines, "cut off"),
    (rows.FUZZ_CASES, _rubbish_inside, "cut off"),
    (rows.VERDICTS, _blank_lines, "complete"),
    (rows.FUZZ_CASES, _foreign_fields, "complete"),
    (rows.FUZZ_CASES, _from_the_future, "complete"),
)
"""Which file is damaged how, and what the state of its run is then."""
