import csv
import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_reports import render
from spark_reports.errors import WrongUse
from spark_reports.folders import STATES
from spark_reports.page import make_page
from spark_reports.report import BadLineShown, NotApplicable, Report

HOSTILE = "</style></script><script>alert(1)</script><img src=x onerror=alert(1)> \"'`|{{ 7*7 }}\u202e\x00\x1b[31m\udc80"


class Elements(HTMLParser):
    """Lists the elements of a page, their attributes' names, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.text += data


def full_report(parts: SimpleNamespace) -> Report:
    """A report in which every part of the page is there."""
    result: Report = parts.report(
        runs=(
            parts.run(notes=("a note",), bad=1),
            parts.run("r0", outcomes={**parts.run().outcomes, "pass": 3}),
        ),
        cells=(parts.cell("fail"), parts.cell("pass", "ZN-INIT-002", node_version="1.5.1", run_id="r0")),
        changes=(parts.change(), parts.change("pass", "fail")),
        troubles=(parts.trouble(), parts.trouble("deviation", seen="other")),
        not_applicable=(NotApplicable(reason="no multicast", tests=2),),
        findings=(parts.finding(), parts.finding("gone one", "gone")),
        rates=(parts.rate(),),
        bad_lines=(BadLineShown(run_id="r1", file="verdicts.jsonl", problem="no JSON", text="what"),),
        differences=(parts.difference(), parts.difference("ZN-INIT-002", differing=3)),
    )
    return result


# Words that code compares, not text that a node or a person chose.
FIXED = {"outcome", "before", "after", "status", "started_at"}
RUN_IDS = {"run_id", "by_run", "first_run", "last_run", "before_run", "after_run", "state", "area"}


def with_text(value: Any, text: str) -> Any:
    """Puts a text into every string that a node, a person or a damaged file decides."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(with_text(item, text) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            field.name: with_text(getattr(value, field.name), text)
            for field in dataclasses.fields(value)
            if field.name not in FIXED | RUN_IDS and getattr(value, field.name)
        }
        return dataclasses.replace(value, **changed)
    return value


def html(report: Report) -> str:
    return render.html(make_page(report))


@given(text=st.text(st.characters(), min_size=1, max_size=60) | st.just(HOSTILE) | st.just("x" * 100_000))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_string_changes_what_the_page_is_made_of(parts: SimpleNamespace, text: str) -> None:
    page = html(with_text(full_report(parts), text))
    page.encode()
    plain = Elements(html(with_text(full_report(parts), "plain")))
    assert Elements(page).seen == plain.seen
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", page)
    assert len(page) < 800_000


def test_hostile_text_is_shown_as_text(parts: SimpleNamespace) -> None:
    shown = Elements(html(with_text(full_report(parts), HOSTILE))).text
    assert "<script>alert(1)</script>" in shown
    assert "\\u202e\\x00\\x1b[31m\\udc80" in shown
    assert "{{ 7*7 }}" in shown


def test_page_is_self_contained(parts: SimpleNamespace) -> None:
    page = Elements(html(full_report(parts)))
    assert not [tag for tag, _ in page.seen if tag in {"script", "iframe", "object", "embed", "img"}]
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert not [names for _, names in page.seen if any(name.startswith("on") for name in names)]


def test_every_link_leads_to_one_place(parts: SimpleNamespace) -> None:
    page = Elements(html(full_report(parts)))
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_page_says_first_what_changed_and_last_how_it_was_measured(parts: SimpleNamespace) -> None:
    page = Elements(html(full_report(parts)))
    order = ["changed", "findings", "verdicts", "requirements", "runs", "rates", "health"]
    assert [name for name in page.ids if name in order] == order


def test_failure_shows_expected_and_seen(parts: SimpleNamespace) -> None:
    text = " ".join(
        Elements(html(parts.report(runs=(parts.run(),), troubles=(parts.trouble(),)))).text.split()
    )
    assert re.search("Expected ?INIT ?Seen ?CLOSE", text)


def test_page_names_the_first_release_that_differs(parts: SimpleNamespace) -> None:
    text = Elements(html(parts.report(differences=(parts.difference(differing=3),)))).text
    for words in ("1.9.0", "13 versions from 1.0.0 to 1.10.2; 2 more differ later", "as required"):
        assert words in text
    assert "What releases show differently" not in html(parts.report())


def test_differences_are_lines_for_a_terminal_and_fields_for_programs(parts: SimpleNamespace) -> None:
    none = {"first": None, "test": None, "before": None, "after": None, "differing": 0}
    found = [parts.difference(after=f'a\nb,"{HOSTILE}'), parts.difference("ZN-INIT-002", **none)]
    head, line = render.differences_text(found).splitlines()
    assert head == "eclipse-zenoh, 13 releases: 1 of 2 requirements differ"
    assert line.startswith("  ZN-INIT-001  MUST  1.9.0  as required -> a b,")
    table = render.differences_csv(found)
    assert table.count("\n") == 3
    assert [row["first"] for row in csv.DictReader(table.splitlines())] == ["1.9.0", ""]
    for text in (line, table):
        assert not {"\x1b", "\u202e", "\x00", "\udc80"} & set(text)


def test_empty_report_says_so_in_every_part(parts: SimpleNamespace) -> None:
    text = Elements(html(parts.report(runs=(parts.run(),)))).text
    for words in (
        "there is nothing to compare",
        "No fuzz cases in these runs",
        "No conformance verdicts",
        "All 1 run complete",
    ):
        assert words in text


@pytest.mark.parametrize("state", STATES)
def test_every_state_of_a_run_is_explained_on_the_page(parts: SimpleNamespace, state: str) -> None:
    text = Elements(html(parts.report(runs=(parts.run(state=state, notes=("a note",)),)))).text
    assert STATES[state] in text


def test_summary_keeps_its_tables_whatever_the_text(parts: SimpleNamespace) -> None:
    plain = render.summary(make_page(with_text(full_report(parts), "plain")))
    hostile = render.summary(
        make_page(with_text(full_report(parts), HOSTILE + "\n| a | b |\n# Title\n@someone"))
    )
    bars = re.compile(r"(?<!\\)\|")
    assert [len(bars.findall(line)) for line in hostile.splitlines()] == [
        len(bars.findall(line)) for line in plain.splitlines()
    ]
    assert "<script" not in hostile
    assert "@" not in hostile


def test_summary_is_capped_and_says_what_is_left_out(parts: SimpleNamespace) -> None:
    many = tuple(
        parts.trouble(test=f"t{number}", seen="y" * 500, expected="z" * 500) for number in range(120)
    )
    findings = tuple(parts.finding("b" * 190 + str(number), detail="d") for number in range(500))
    runs = tuple(parts.run(f"r{number}", state="cut off", notes=("n" * 900,)) for number in range(500))
    text = render.summary(
        make_page(parts.report(runs=(parts.run(), *runs), troubles=many, findings=findings))
    )
    assert len(text.encode()) < render.MARKDOWN_LIMIT + 200
    assert "450 more in report.html" in text


def test_summary_beyond_the_limit_ends_with_a_count(
    parts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "MARKDOWN_LIMIT", 300)
    text = render.summary(make_page(full_report(parts)))
    assert len(text.encode()) < 400
    assert re.search(r"\d+ more lines; all of it is in report.html.\n$", text)


def test_files_are_written_whole_and_the_same_each_time(parts: SimpleNamespace, tmp_path: Path) -> None:
    report = with_text(full_report(parts), HOSTILE)
    path = render.write_report(report, tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert path == tmp_path / "report.html"
    assert set(before) == {"report.html", "summary.md", "report.json"}
    render.write_report(report, tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_json_holds_the_whole_report(parts: SimpleNamespace) -> None:
    text = render.to_json(full_report(parts))
    assert text.isascii()
    value = json.loads(text)
    assert value["report_version"] == 1
    assert value["findings"][0]["sent_hex"] == "0102"
    assert value["troubles"][0]["expected"] == "INIT"


def test_folder_that_cannot_be_written_is_wrong_use(tmp_path: Path, parts: SimpleNamespace) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(WrongUse, match=r"cannot write into .*; name another --out"):
            render.check_writable(folder)
        with pytest.raises(WrongUse, match=r"cannot write into .*; name another --out"):
            render.write_report(parts.report(runs=(parts.run(),)), folder)


def test_folder_is_made_if_it_is_missing(tmp_path: Path) -> None:
    render.check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
