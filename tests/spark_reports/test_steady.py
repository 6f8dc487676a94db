from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_reports.storage.steady import ROLLUPS, Changing, set_aside
from spark_reports.storage.tables import arrow_schema

Row = tuple[str, str, str, list[str] | None, str | None]
"""Run, test, transport, requirements, outcome."""

NAMES = ("run_id", "test", "transport", "requirements", "outcome")


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows], arrow_schema("checks"))


def left(made: Changing) -> list[Row]:
    return [tuple(row[name] for name in NAMES) for row in made.rows.to_pylist()]


def runs_of(rows: Sequence[Row]) -> dict[tuple[str, ...], frozenset[str]]:
    found: dict[tuple[str, ...], set[str]] = {}
    for run, test, transport, _, _ in rows:
        found.setdefault((test, transport), set()).add(run)
    return {check: frozenset(runs) for check, runs in found.items()}


def test_one_stands_for_all_that_passed_in_the_same_runs() -> None:
    rows: list[Row] = [
        *((run, f"t{number}", "tcp", [f"R-{number}"], "pass") for run in ("a", "b") for number in range(5)),
        ("a", "fails", "tcp", ["R-7"], "pass"),
        ("b", "fails", "tcp", ["R-7"], "fail"),
        # About the same as one that fails.
        ("a", "shares", "tcp", ["R-8", "R-7"], "pass"),
        # Elsewhere it is another check, and one more that ran in other runs.
        ("b", "t0", "udp", ["R-0"], "pass"),
        ("b", "new", "tcp", ["R-9"], "pass"),
    ]
    made = set_aside(table(rows), ROLLUPS["checks"])
    assert made.members == {
        ("t0", "tcp"): [(f"t{number}", "tcp") for number in range(5)],
        ("t0", "udp"): [("t0", "udp"), ("new", "tcp")],
    }
    assert left(made) == [row for row in rows if row[1] in {"t0", "fails", "shares"}]


def test_nothing_is_set_aside_of_nothing() -> None:
    assert set_aside(table([]), ROLLUPS["checks"]) == Changing(table([]), {})


words = st.sampled_from(["a", "b", "c"])
rows_of = st.lists(
    st.tuples(
        words,
        st.sampled_from("tuvwxyz"),
        st.sampled_from(["tcp", "udp"]),
        st.none() | st.lists(st.sampled_from(["R-1", "R-2", "R-3", "R-4"]), max_size=2),
        st.sampled_from(["pass", "pass", "pass", "pass", "fail", "n/a", None]),
    ),
    max_size=30,
)


@given(rows_of)
def test_what_is_set_aside_is_told_by_what_stands_for_it(rows: list[Row]) -> None:
    made = set_aside(table(rows), ROLLUPS["checks"])
    kept = {row[1:3] for row in left(made)}
    assert left(made) == [row for row in rows if row[1:3] in kept]
    unsteady = {row[1:3] for row in rows if row[4] != "pass"}
    shared = {name for row in rows if row[1:3] in unsteady for name in row[3] or ["none"]}
    for row in rows:
        if row[1:3] not in kept:
            assert row[4] == "pass"
            assert not shared & set(row[3] or ["none"])
    runs, members = runs_of(rows), list(made.members.values())
    assert {kind[0] for kind in members} == made.members.keys() <= kept
    assert [len({runs[check] for check in kind}) for kind in members] == [1] * len(members)
    assert len({runs[kind[0]] for kind in members}) == len(members)
    assert sorted(check for kind in members for check in kind[1:]) == sorted(runs.keys() - kept)


def test_requirements_of_one_kind_have_their_runs_their_level_and_their_area_in_common() -> None:
    rows = [
        {"run_id": run, "requirement": name, "area": area, "level": level, "outcome": outcome}
        for run in ("a", "b")
        for name, area, level, outcome in (
            ("R-1", "R", "MUST", "pass"),
            ("R-2", "R", "MUST", "pass"),
            ("R-3", "R", "MAY" if run == "b" else "MUST", "pass"),
            ("R-4", "S", "MUST", "pass"),
            ("R-5", "R", "MUST", "fail" if run == "b" else "pass"),
        )
    ]
    made = set_aside(pa.Table.from_pylist(rows, arrow_schema("requirements")), ROLLUPS["requirements"])
    assert made.members == {("R-1",): [("R-1",), ("R-2",)], ("R-3",): [("R-3",)], ("R-4",): [("R-4",)]}
    assert set(made.rows["requirement"].to_pylist()) == {"R-1", "R-3", "R-4", "R-5"}
