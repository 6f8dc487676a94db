import csv
import dataclasses
import errno
import json
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_reports.errors import WrongUse
from spark_reports.pages import render
from spark_reports.pages.page import make_page
from spark_reports.report import REPORT_VERSION
from tests.spark_reports.hostile import HOSTILE, with_text
from tests.spark_reports.reports import example_report


def test_differences_are_lines_for_a_terminal_and_fields_for_programs(parts: SimpleNamespace) -> None:
    none = {"first": None, "test": None, "before": None, "after": None, "differing": 0}
    found = [parts.difference(after=f'a\nb,"{HOSTILE}'), parts.difference("ZN-INIT-002", **none)]
    head, line = render.differences_text(found).splitlines()
    assert head == "eclipse-zenoh, 13 releases: 1 of 2 requirements differ"
    assert line.startswith("  ZN-INIT-001  MUST  1.9.0  as required -> a b,")
    assert render.differences_text(found[:1]).splitlines()[0].endswith("1 of 1 requirement differs")
    table = render.differences_csv(found)
    assert table.count("\n") == 3
    assert [row["first"] for row in csv.DictReader(table.splitlines())] == ["1.9.0", ""]
    (formula,) = csv.DictReader(render.differences_csv([parts.difference(after="=1+1")]).splitlines())
    assert formula["after"] == "'=1+1"
    for text in (line, table):
        assert not {"\x1b", "\u202e", "\x00", "\udc80"} & set(text)


def test_folder_is_made_if_it_is_missing(tmp_path: Path) -> None:
    render.check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_files_are_written_whole_and_the_same_each_time(tmp_path: Path) -> None:
    page = make_page(with_text(example_report(), HOSTILE))
    path = render.write_report(page, tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert path == tmp_path / "report.html"
    names = {str(file.relative_to(tmp_path)) for file in before}
    assert names >= {"report.html", "summary.md", "report.json", "junit.xml", "badge.svg", "csv/changes.csv"}
    assert not [name for name in names if Path(name).name.startswith(".")]
    render.write_report(page, tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("full", ["junit.xml", "csv/changes.csv", "report.html"])
def test_disk_that_gets_full_leaves_the_report_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    render.write_report(make_page(example_report()), tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    make = tempfile.mkstemp

    def mkstemp(*, dir: Path, prefix: str) -> tuple[int, str]:  # noqa: A002 (its name in tempfile)
        if prefix == f".{Path(full).name}.":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(dir=dir, prefix=prefix)

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    with pytest.raises(WrongUse, match="No space left on device"):
        render.write_report(make_page(with_text(example_report(), HOSTILE)), tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_folder_in_the_place_of_a_file_leaves_the_report_that_was_there(tmp_path: Path) -> None:
    render.write_report(make_page(example_report()), tmp_path)
    (tmp_path / "badge.svg").unlink()
    (tmp_path / "badge.svg").mkdir()
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(WrongUse, match="Is a directory"):
        render.write_report(make_page(with_text(example_report(), HOSTILE)), tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_json_holds_the_whole_report_a_line_for_each_row() -> None:
    found = example_report()
    text = render.to_json(found)
    assert text.isascii()
    value = json.loads(text)
    assert value == json.loads(json.dumps(dataclasses.asdict(found)))
    assert value["report_version"] == REPORT_VERSION
    assert all(line.count('"node_version":') <= 1 for line in text.splitlines())


def test_folder_that_cannot_be_written_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(WrongUse, match=r"cannot write into .*; name another --out"):
            render.check_writable(folder)
        with pytest.raises(WrongUse, match=r"cannot write into .*; name another --out"):
            render.write_report(make_page(example_report()), folder)
