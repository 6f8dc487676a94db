import random
from types import SimpleNamespace

import pytest

from spark_reports.pages import grid
from spark_reports.pages.grid import make_grid, version_key
from tests.spark_reports.reports import example_report

OLD, NEW = ("eclipse-zenoh", "1.9.0"), ("eclipse-zenoh", "1.10.2")


def test_areas_stand_in_the_order_of_the_specification(parts: SimpleNamespace) -> None:
    cells = [parts.cell(requirement=f"ZN-{name}-1", area=name) for name in ("ZZZ", "RTE", "SCT", "INIT")]
    assert [area.title for area in make_grid(cells, [NEW]).areas] == ["SCOUT", "INIT", "Routing", "ZZZ"]


def test_versions_go_from_old_to_new_and_the_one_judged_last_counts(parts: SimpleNamespace) -> None:
    cells = [parts.cell("fail", node_version="1.9.0"), parts.cell("pass", other=("fail",))]
    made = make_grid(cells, [NEW, OLD])
    (row,) = made.areas[0].rows
    assert made.columns == [OLD, NEW]
    assert made.ends == ("1.9.0", "1.10.2")
    assert row.outcome == "pass"
    assert row.title == "ZN-INIT-001 MUST: fail 1.9.0, pass 1.10.2; other runs of it: fail"
    assert made.areas[0].counts == {"pass": 1}


def test_requirement_that_a_version_never_tried_is_left_open(parts: SimpleNamespace) -> None:
    made = make_grid([parts.cell(node_version="1.9.0")], [NEW, OLD])
    (row,) = made.areas[0].rows
    assert (row.outcome, row.title) == ("", "ZN-INIT-001 MUST: pass 1.9.0")
    assert made.areas[0].counts == {}
    ((_, shapes),) = made.symbols
    assert "M0 7h1" in shapes


def test_requirement_that_was_not_selected_is_not_counted(parts: SimpleNamespace) -> None:
    cells = [
        parts.cell("fail", "ZN-INIT-001", node_version="1.9.0", other=("pass",)),
        parts.cell("pass", "ZN-INIT-002", node_version="1.9.0"),
        parts.cell("pass", "ZN-INIT-002"),
    ]
    made = make_grid(cells, [NEW, OLD], {NEW})
    (area,) = made.areas
    assert [row.title for row in area.rows] == [
        "ZN-INIT-001 MUST: fail 1.9.0, not selected on 1.10.2; other runs of it: pass",
        "ZN-INIT-002 MUST: pass 1.9.0 to 1.10.2",
    ]
    assert (area.counts, area.requirements) == ({"pass": 1}, 1)
    assert made.selected == ["1.10.2"]
    assert make_grid(cells, [NEW, OLD], {OLD}).areas[0].requirements == 2


def test_implementations_stand_apart(parts: SimpleNamespace) -> None:
    cells = [parts.cell(), parts.cell("fail", node_impl="zenoh-pico", node_version="1.0")]
    made = make_grid(cells, [NEW, ("zenoh-pico", "1.0")])
    assert made.ends == ("zenoh-pico 1.0", "eclipse-zenoh 1.10.2")
    assert made.width == 3
    assert made.areas[0].rows[0].title.endswith("fail zenoh-pico 1.0, pass eclipse-zenoh 1.10.2")


def test_equal_rows_share_a_symbol() -> None:
    example = example_report(checks=500, versions=1)
    made = make_grid(example.cells, [("eclipse-zenoh", "1.0.0")])
    assert sum(len(area.rows) for area in made.areas) == 500
    assert len(made.symbols) <= 5


def test_rows_with_nothing_in_common_get_fewer_columns_and_the_grid_says_so(parts: SimpleNamespace) -> None:
    chance = random.Random(1)
    versions = [("node", f"1.{number}") for number in range(60)]
    cells = [
        parts.cell(
            chance.choice(grid.ORDER), f"ZN-A-{number}", node_impl="node", node_version=version, run_id="r"
        )
        for number in range(400)
        for _, version in versions
    ]
    made = make_grid(cells, versions[::-1])
    assert sum(len(shapes) for _, shapes in made.symbols) <= grid.MAX_BYTES
    assert 5 < len(made.columns) < 60
    assert made.columns[-1] == versions[-1]
    assert made.left_out == 60 - len(made.columns)


def test_requirements_that_do_not_pass_have_a_row_first_and_all_are_counted(
    parts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "MAX_ROWS", 5)
    outcomes = ("pass", "pass", "fail", "n/a", "warning", "fail", "deviation", "inconclusive")
    cells = [parts.cell(outcome, f"ZN-INIT-{number}") for number, outcome in enumerate(outcomes)]
    cells += [parts.cell("pass", "ZN-PUSH-1", area="PUSH")]
    cells += [parts.cell("pass", "ZN-INIT-8", node_version="1.9.0")]
    made = make_grid(cells, [NEW, OLD])
    init, push = made.areas
    assert [row.requirement for row in init.rows] == [f"ZN-INIT-{number}" for number in (2, 4, 5, 6, 7)]
    assert (init.requirements, init.counts) == (
        9,
        {"pass": 2, "deviation": 1, "warning": 1, "fail": 2, "inconclusive": 1, "n/a": 1},
    )
    assert (push.rows, push.requirements, push.counts) == ([], 1, {"pass": 1})
    assert made.rows_left_out == 5


def test_grid_of_nothing_is_empty() -> None:
    made = make_grid([], [])
    assert (made.columns, made.areas, made.symbols, made.ends) == ([], [], [], ("", ""))


@pytest.mark.parametrize(
    "ordered",
    [
        ["1.9.0", "1.10.0"],
        ["1.0.0-rc1", "1.0.0"],
        ["1.0.0-alpha", "1.0.0-beta", "1.0.0-rc1", "1.0.0-rc2", "1.0.0", "1.0.0.1", "1.0.1"],
        ["v1.2", "v1.10"],
        ["unknown", "1.0"],
        ["", "1.0"],
    ],
)
def test_versions_are_ordered_as_people_do(ordered: list[str]) -> None:
    turned = ordered[::-1]
    assert sorted(turned, key=version_key) == ordered


def test_any_text_can_stand_among_versions() -> None:
    odd = ["", "\x00", "1", "a", "1a", "a1", "\u202e", "1..2", "²", "1.0+x", "-", "٣", "9" * 10_000]
    assert sorted(odd, key=version_key)
