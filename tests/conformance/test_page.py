"""What is made of the rows of a run: page, JUnit XML, coverage, badge. Rows are written here, no node is needed."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from conformance.page import rendering
from conformance.page.__main__ import main
from conformance.page.facts import Facts, worst
from conformance.page.writing import write_all
from conformance.requirements import requirements
from spark_reports.rows import (
    OBSERVATIONS,
    VERDICTS,
    ObservationRow,
    RowWriter,
    RunRow,
    VerdictRow,
    write_run,
)

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\x00\u202e\ud800]]>--><img src=x onerror=y>"

RUN = RunRow(
    run_id="run",
    started_at="2026-01-01T00:00:00.000Z",
    ended_at="2026-01-01T00:01:02.500Z",
    kind="conformance",
    node="tcp/127.0.0.1:7447",
    node_impl="some-node",
    node_version="1.2.3",
    node_whatami="router",
    node_zid="ab",
    harness_version="0",
    python="3.11",
    platform="Linux",
    seed=7,
    command="pytest conformance",
    status="complete",
)


def verdict(name: str, outcome: str, *ids: str, **values: Any) -> VerdictRow:
    ids = ids or ("ZN-INIT-001",)
    row = VerdictRow(
        run_id="run",
        test=f"suite/test_init.py::test_{name}",
        requirements=ids,
        level=requirements()[ids[0]].level if ids[0] in requirements() else "FACT",
        outcome=outcome,
        expected="",
        seen="",
        reason="",
        stimulus="",
        duration_s=0.25,
        started_ns=1,
        capture=f"captures/{name}.pcapng",
        repeat=f"pytest {name}",
        transport="tcp",
    )
    return replace(row, **values)


def folder_of(
    folder: Path, *rows: VerdictRow, run: RunRow = RUN, observations: int = 0, end: bool = True
) -> Path:
    """Writes a run folder."""
    (folder / "captures").mkdir(parents=True)
    write_run(folder, run)
    writer = RowWriter(folder / VERDICTS)
    seen = RowWriter(folder / OBSERVATIONS)
    for row in rows:
        writer.write(row)
        for number in range(observations):
            seen.write(
                ObservationRow(
                    run_id="run",
                    test=row.test,
                    seq=number,
                    time_ns=1_000_000 * number,
                    link="a",
                    direction="received",
                    messages="INIT",
                    summary=f"INIT {HOSTILE}",
                    raw_hex="02" * 400,
                    error="",
                )
            )
    writer.close()
    seen.close()
    if not end:
        lines = (folder / VERDICTS).read_text().splitlines(keepends=True)
        (folder / VERDICTS).write_text("".join(lines[:-1]))
    return folder


SOME = (
    verdict("met", "pass"),
    verdict("broken", "fail", "ZN-INIT-002", "ZN-INIT-003", expected="this", seen="that", stimulus="INIT"),
    verdict("known", "deviation", "ZN-OPEN-005", expected="this", seen="that", reason="recorded"),
    verdict("mild", "warning", "ZN-CLS-106", expected="this", seen="that"),
    verdict("unsure", "inconclusive", "ZN-INIT-004", reason="the node was not well"),
    verdict("other", "n/a", "ZN-INIT-005", reason="another node"),
    verdict("half", "n/a", "ZN-INIT-001", reason="another node"),
)


class Parsed(HTMLParser):
    """Elements, links, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        assert tag
        self._inside = ""

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = folder_of(tmp_path_factory.mktemp("page") / "run", *SOME, observations=70)
    write_all(folder)
    return folder


# Facts ------------------------------------------------------------------------------------------------


def test_worst_test_counts_and_an_open_one_leaves_the_requirement_undecided() -> None:
    assert worst(["pass", "n/a"]) == "pass"
    assert worst(["pass", "inconclusive"]) == "inconclusive"
    assert worst(["deviation", "warning", "fail"]) == "fail"
    assert worst(["pass", "of another version"]) == "inconclusive"
    assert worst([]) == ""
    assert Facts(SOME).decided == {"pass": 1, "fail": 2, "warning": 1, "deviation": 1}


# The page ---------------------------------------------------------------------------------------------


def test_page_says_what_came_of_it_and_shows_what_failed_first(made: Path) -> None:
    text = (made / "index.html").read_text()
    assert (
        "2 requirements fail, 1 requirement differs as recorded, 1 warning; 1 of 5 decided requirements are met"
        in text
    )
    order = [
        text.index(f'<section id="{name}"')
        for name in ("fail", "inconclusive", "warning", "deviation", "areas")
    ]
    assert order == sorted(order)
    assert "pytest broken" in text
    assert "some-node 1.2.3" in text
    assert "62.5 s" in text
    assert text.count("another node") == 1


def test_page_has_a_row_and_a_chip_for_every_requirement(made: Path) -> None:
    parsed = Parsed((made / "index.html").read_text())
    rows = {attrs.get("id"): attrs.get("data-outcome") for attrs in parsed.all("tr") if attrs.get("id")}
    assert set(rows) == set(requirements())
    assert (rows["ZN-INIT-001"], rows["ZN-INIT-003"], rows["ZN-INIT-005"]) == ("pass", "fail", "na")
    assert rows["ZN-INIT-006"] == "untried"
    chips = [attrs["href"] for attrs in parsed.all("a") if "chip" in (attrs.get("class") or "")]
    assert sorted(map(str, chips)) == sorted(f"#{name}" for name in requirements())


def test_page_loads_nothing_and_links_only_into_the_folder(made: Path) -> None:
    parsed = Parsed((made / "index.html").read_text())
    assert not [tag for tag, _ in parsed.tags if tag in {"link", "img", "iframe", "object"}]
    assert not [attrs for attrs in parsed.all("script") if attrs]
    links = {str(attrs.get("href")) for attrs in parsed.all("a")}
    assert not [link for link in links if re.match(r"[a-z]+:|//|\.\.|/", link)]
    assert "captures/broken.pcapng" in links
    assert not re.search(r"https?://", (made / "index.html").read_text())


def test_exchange_is_cut_and_says_so(made: Path) -> None:
    text = (made / "index.html").read_text()
    assert "(the last 60; 10 earlier not shown)" in text
    assert "… (400 bytes)" in text


def test_hostile_text_stays_text_everywhere(tmp_path: Path) -> None:
    texts = dict.fromkeys(
        ("expected", "seen", "reason", "stimulus", "repeat", "test", "level", "transport"), HOSTILE
    )
    rows = [
        verdict(
            "x",
            outcome,
            "ZN-INIT-001",
            HOSTILE,
            capture=f"captures/{HOSTILE}".replace("/script", ""),
            **texts,
        )
        for outcome in ("fail", "deviation", "warning", "inconclusive", "n/a", "pass", HOSTILE)
    ]
    run = replace(
        RUN, node=HOSTILE, node_impl=HOSTILE, node_version=HOSTILE, command=HOSTILE, node_zid=HOSTILE
    )
    folder = folder_of(tmp_path / "run", *rows, run=run, observations=1)
    write_all(folder)
    text = (folder / "index.html").read_text()
    parsed, plain = Parsed(text), Parsed(_page(tmp_path))
    assert {tag for tag, _ in parsed.tags} <= {tag for tag, _ in plain.tags} | {"dd", "details"}
    assert not parsed.all("img")
    assert parsed.scripts == plain.scripts
    assert not any("onerror" in attrs for _, attrs in parsed.tags)
    for letter in "\x00\x1b\u202e\ud800":
        assert letter not in text
    ET.parse(folder / "junit.xml")
    ET.parse(folder / "badge.svg")
    with (folder / "coverage.csv").open(newline="") as file:
        assert len(list(csv.reader(file))) > len(requirements())
    json.loads((folder / "coverage.json").read_text())


def _page(tmp_path: Path) -> str:
    folder = folder_of(tmp_path / "plain", *SOME, observations=70)
    write_all(folder)
    return (folder / "index.html").read_text()


@pytest.mark.parametrize("capture", ["javascript:alert(1)", "captures/../../x", "/etc/passwd", "captures/"])
def test_capture_elsewhere_is_not_linked(capture: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", verdict("x", "fail", capture=capture))
    write_all(folder)
    links = {attrs.get("href") for attrs in Parsed((folder / "index.html").read_text()).all("a")}
    assert not [
        link for link in links if link and ("pcapng" in link or "javascript" in link or "passwd" in link)
    ]
    assert not [link for link in links if link and ".." in link]


def test_run_that_was_cut_off_has_a_page_that_says_so(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", *SOME, run=replace(RUN, ended_at=None, status="running"), end=False)
    with (folder / VERDICTS).open("a") as file:
        file.write('{"run_id": "run", "te')
    assert main([str(folder)]) == 0
    text = (folder / "index.html").read_text()
    assert "was cut off" in text
    assert "1 line of the verdicts cannot be read" in text


def test_run_in_which_nothing_was_decided_is_not_praised(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", verdict("x", "n/a", reason="none"))
    write_all(folder)
    assert "Nothing was decided about this node" in (folder / "index.html").read_text()
    assert "nothing decided" in (folder / "badge.svg").read_text()
    write_all(folder_of(tmp_path / "empty"))
    assert "Nothing was decided" in (tmp_path / "empty" / "index.html").read_text()


def test_proof_marks_what_is_proven(tmp_path: Path) -> None:
    proof = {
        "started_at": "2026-01-01",
        "summary": {"mutants": 3, "killed": 2, "survivors": ["ZN-INIT-002"], "null_passes": 0},
        "requirements": {
            "ZN-INIT-001": {"mutants": ["ZN-INIT-001"], "killed": ["ZN-INIT-001"]},
            "ZN-INIT-002": {"mutants": ["ZN-INIT-002"], "killed": []},
            "ZN-INIT-003": {"mutants": [], "killed": []},
        },
    }
    (tmp_path / "proof.json").write_text(json.dumps(proof))
    folder = folder_of(tmp_path / "run", *SOME)
    write_all(folder, proof=tmp_path / "proof.json")
    text = (folder / "index.html").read_text()
    assert "2 of 3" in text
    assert text.count("✓ proven") == 1
    assert '<section id="proof">' in text


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"summary": 3}', "\xff"])
def test_file_that_is_no_proof_is_refused_in_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "proof.json").write_text(text, encoding="latin-1")
    folder = folder_of(tmp_path / "run", *SOME)
    assert main([str(folder), "--proof", str(tmp_path / "proof.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_folder_that_is_no_run_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no run folder" in capsys.readouterr().err
    write_run(tmp_path, RUN)
    assert main([str(tmp_path)]) == 2
    assert "holds no verdicts" in capsys.readouterr().err


def test_rows_of_wrong_types_are_counted_and_left_out(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", *SOME, end=False)
    line = json.loads((folder / VERDICTS).read_text().splitlines()[0])
    with (folder / VERDICTS).open("a") as file:
        for changes in (
            {"requirements": "ZN"},
            {"duration_s": "x"},
            {"capture": None},
            {"requirements": [3]},
        ):
            file.write(json.dumps({**line, **changes}) + "\n")
    recorded = write_all(folder)
    assert (len(recorded.facts.rows), recorded.damaged) == (len(SOME), 4)


# JUnit ------------------------------------------------------------------------------------------------

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "testcase": {"properties", "skipped", "failure", "error", "system-out"},
    "properties": {"property"},
    "property": set[str](),
}
REQUIRED = {
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    "testcase": {"name", "classname", "time"},
    "property": {"name", "value"},
}


def test_junit_has_the_usual_shape(made: Path) -> None:
    root = ET.parse(made / "junit.xml").getroot()
    for element in root.iter():
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
        assert REQUIRED.get(element.tag, set()) <= set(element.attrib)
        if element.tag in {"testsuite", "testsuites"}:
            assert re.fullmatch(r"\d+\.\d{3}", element.attrib["time"])
    (suite,) = root
    assert {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "7",
        "failures": "1",
        "errors": "1",
        "skipped": "2",
    }
    assert suite.attrib["timestamp"] == "2026-01-01T00:00:00"


def test_junit_tells_each_outcome_in_its_own_way(made: Path) -> None:
    cases = {case.attrib["name"]: case for case in ET.parse(made / "junit.xml").getroot().iter("testcase")}
    kinds = {name: [child.tag for child in case if child.tag != "properties"] for name, case in cases.items()}
    assert kinds == {
        "test_met": [],
        "test_broken": ["failure"],
        "test_known": ["system-out"],
        "test_mild": ["system-out"],
        "test_unsure": ["error"],
        "test_other": ["skipped"],
        "test_half": ["skipped"],
    }
    broken = cases["test_broken"]
    properties = {one.attrib["name"]: one.attrib["value"] for one in broken.iter("property")}
    assert properties["requirements"] == "ZN-INIT-002 ZN-INIT-003"
    assert properties["capture"] == "captures/broken.pcapng"
    assert properties["level"]
    failure = broken.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "expected this; seen that"
    assert "pytest broken" in str(failure.text)


# Coverage and badge -----------------------------------------------------------------------------------


def test_coverage_names_each_pair_once_and_requirements_without_tests(made: Path) -> None:
    with (made / "coverage.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    mine = [(line["requirement"], line["test"], line["outcome"]) for line in lines if line["test"]]
    assert len(mine) == 8
    assert ("ZN-INIT-003", "suite/test_init.py::test_broken", "fail") in mine
    assert {line["requirement"] for line in lines} == set(requirements())
    told = json.loads((made / "coverage.json").read_text())
    assert len(told["requirements"]) == len(requirements())
    first = next(one for one in told["requirements"] if one["id"] == "ZN-INIT-001")
    assert first["outcome"] == "pass"
    assert first["tests"] == {
        "suite/test_init.py::test_met": "pass",
        "suite/test_init.py::test_half": "n/a",
    }


@pytest.mark.parametrize(
    ("outcome", "words"),
    [("pass", "1 requirements met"), ("fail", "1 of 1 failed"), ("deviation", "1 known to differ")],
)
def test_badge_says_what_counts(outcome: str, words: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", verdict("x", outcome))
    write_all(folder)
    root = ET.parse(folder / "badge.svg").getroot()
    assert words in "".join(root.itertext())


def test_template_is_compiled_once_for_all_pages() -> None:
    assert rendering._template() is rendering._template()
