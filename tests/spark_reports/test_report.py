from spark_reports import report
from tests.spark_reports.reports import example_report


def test_sets_name_all_runs_of_all_pairs() -> None:
    (pair,) = example_report().sets.pairs
    other = report.Compared(
        key="k", node="n", candidate=("c",), baseline=("b",), candidate_version="2", baseline_version="1"
    )
    sets = report.SetInfo(pairs=(pair, other))
    assert sets.candidate == (*pair.candidate, "c")
    assert sets.baseline == (*pair.baseline, "b")


def test_example_has_every_part_of_a_report() -> None:
    found = example_report()
    empty = [name for name in found.__dataclass_fields__ if not getattr(found, name)]
    assert empty == ["left_out"]
    assert {change.status for change in found.changes} == {*report.CHECK_STATUSES} - {report.UNCHANGED}
