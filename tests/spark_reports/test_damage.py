"""Damaged files: what is said to be left in them is left in them."""

import pytest

from spark_reports.rows import ROWS_VERSION
from spark_reports.storage.damage import DAMAGE, Harm

WHOLE = b"".join(b'{"run_id":"r","case":%d,"rows_version":%d}\n' % (at, ROWS_VERSION) for at in range(8))
FOOTER = b'{"footer":true,"rows":8,"rows_version":%d}\n' % ROWS_VERSION


@pytest.mark.parametrize(("name", "harm", "state"), DAMAGE, ids=[harm.__name__ for _, harm, _ in DAMAGE])
def test_counts_add_up_to_the_lines_of_the_damaged_file(name: str, harm: Harm, state: str) -> None:
    damaged, good, apart, blank, footers = harm(WHOLE + FOOTER)
    assert damaged != WHOLE + FOOTER
    lines = damaged.split(b"\n")
    assert len(lines) - (not lines[-1]) == good + apart + blank + footers
    assert sum(not line.strip() for line in lines[:-1]) == blank
    assert damaged.count(b'"footer":true') == footers
    assert (state == "complete") == (footers == 1 and good + apart == 8)
    assert name.endswith(".jsonl")
