import csv
import dataclasses
import io

from spark_reports.pages.spreadsheets import spreadsheets
from spark_reports.report import Report
from tests.spark_reports.hostile import HOSTILE, with_text
from tests.spark_reports.reports import example_report


def table(report: Report, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(spreadsheets(report)[name])))


def test_every_table_of_a_report_is_a_file() -> None:
    found = example_report()
    files = spreadsheets(found)
    tables = {
        field.name
        for field in dataclasses.fields(found)
        if isinstance(value := getattr(found, field.name), tuple) and value
    }
    assert {*(f"{name}.csv" for name in tables), "trend_points.csv"} == set(files)
    for name in tables:
        assert len(table(found, f"{name}.csv")) == len(getattr(found, name)), name


def test_row_holds_the_values_of_its_part() -> None:
    found = example_report()
    row = table(found, "changes.csv")[0]
    assert (row["status"], row["requirements"], row["failed_c"], row["p"]) == (
        "new failure",
        "ZN-INIT-000",
        "3",
        "",
    )
    assert table(found, "flaky.csv")[0]["history"].startswith(f"{found.runs[-1].run_id}=")
    assert table(found, "runs.csv")[0]["outcomes"].startswith("deviation=0 fail=")


def test_points_of_all_trends_are_one_file() -> None:
    found = example_report()
    points = table(found, "trend_points.csv")
    assert len(points) == sum(len(trend.points) for trend in found.trends)
    assert points[0]["trend"] == found.trends[0].name


def test_table_without_rows_has_its_head() -> None:
    assert (
        spreadsheets(example_report(stale=()))["stale.csv"]
        == "node_impl,node_version,requirement,test,run_id\n"
    )


def test_spreadsheet_runs_nothing_that_a_node_said() -> None:
    for text in ("=1+1", "@SUM(A1)", "+1", "-1", "\t=1", "\n=1", "\uff1d1", "\uff201"):
        assert table(with_text(example_report(), text), "changes.csv")[0]["seen"] == f"'{text.strip()}"
    assert {row["change"] for row in table(example_report(), "trends.csv")} == {"0.4", "0.01", ""}


def test_hostile_text_stays_in_its_cell() -> None:
    plain, hostile = (spreadsheets(with_text(example_report(), text)) for text in ("plain", HOSTILE))
    for name, text in hostile.items():
        assert not {"\x1b", "\u202e", "\x00", "\udc80"} & set(text)
        shapes = [[len(row) for row in csv.reader(io.StringIO(one[name]))] for one in (plain, hostile)]
        assert shapes[0] == shapes[1], name
