"""JUnit XML out of verdicts, as continuous integration reads it.

A test that is n/a is skipped, an inconclusive one an error; a deviation and a warning have passed and say so in
their output. Properties stand in each test case, as pytest writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from conformance.page.reading import Recorded
from spark_reports.rows import VerdictRow

NAME = "zenoh-conformance"


def as_xml(recorded: Recorded) -> str:
    """Returns the document: one suite for each file of tests."""
    run, rows = recorded.run, recorded.facts.rows
    root = Element("testsuites", {"name": NAME, **_counts(rows, skipped=False)})
    by_file: dict[str, list[VerdictRow]] = {}
    for row in rows:
        by_file.setdefault(_file(row), []).append(row)
    for name, mine in by_file.items():
        suite = SubElement(
            root,
            "testsuite",
            {
                "name": _text(name),
                **_counts(mine, skipped=True),
                "timestamp": _text(run.started_at.rstrip("Z").partition(".")[0]),
                "hostname": "localhost",
            },
        )
        _properties(
            suite,
            {
                "run": run.run_id,
                "node": run.node,
                "implementation": f"{run.node_impl} {run.node_version}",
                "seed": str(run.seed),
                "harness": run.harness_version,
            },
        )
        for row in mine:
            _case(suite, row, name)
    indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _case(suite: Element, row: VerdictRow, file: str) -> None:
    case = SubElement(
        suite,
        "testcase",
        {
            "name": _text(row.test.partition("::")[2] or row.test.rpartition("/")[2]),
            "classname": _text(file.removesuffix(".py").replace("/", ".")),
            "time": f"{row.duration_s:.6f}",
        },
    )
    _properties(
        case,
        {
            "requirements": " ".join(row.requirements),
            "level": row.level,
            "outcome": row.outcome,
            "transport": row.transport,
            "capture": row.capture,
        },
    )
    told = f"expected {row.expected}; seen {row.seen}" if row.expected else row.reason
    match row.outcome:
        case "fail":
            found = SubElement(case, "failure", {"message": _text(told), "type": _text(row.level)})
            found.text = _text(_words(row))
        case "n/a":
            SubElement(case, "skipped", {"message": _text(row.reason), "type": "n/a"})
        case "deviation" | "warning":
            SubElement(case, "system-out").text = _text(f"{row.outcome}: {told}\n{_words(row)}")
        case "pass":
            pass
        case _:
            found = SubElement(case, "error", {"message": _text(row.reason or told), "type": "inconclusive"})
            found.text = _text(_words(row))


def _words(row: VerdictRow) -> str:
    facts = [
        ("requirements", ", ".join(row.requirements)),
        ("stimulus", row.stimulus),
        ("expected", row.expected),
        ("seen", row.seen),
        ("reason", row.reason),
        ("capture", row.capture),
        ("repeat", row.repeat),
    ]
    return "\n".join(f"{name}: {text}" for name, text in facts if text)


def _counts(rows: Iterable[VerdictRow], *, skipped: bool) -> dict[str, str]:
    rows = list(rows)
    fine = {"pass", "fail", "n/a", "deviation", "warning"}
    counts = {
        "tests": str(len(rows)),
        "failures": str(sum(row.outcome == "fail" for row in rows)),
        "errors": str(sum(row.outcome not in fine for row in rows)),
    }
    if skipped:
        counts["skipped"] = str(sum(row.outcome == "n/a" for row in rows))
    return {**counts, "time": f"{sum(row.duration_s for row in rows):.3f}"}


def _properties(parent: Element, values: dict[str, str]) -> None:
    properties = SubElement(parent, "properties")
    for name, value in values.items():
        if value:
            SubElement(properties, "property", {"name": name, "value": _text(value)})


def _file(row: VerdictRow) -> str:
    return row.test.partition("::")[0] if "::" in row.test else row.test.partition("/")[0]


_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even as a reference."""


def _text(text: str) -> str:
    return _FORBIDDEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
