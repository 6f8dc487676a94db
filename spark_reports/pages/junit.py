"""A report as JUnit XML, which most pipelines show: new failures and new findings fail, nothing else does.

What fails as it did before is no news to a pipeline and passes here; a flaky test is skipped, with its rate, and so is
a new failure in quarantine. Checks that are unchanged are only counted.
"""

from collections import Counter
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from spark_reports.pages.cards import count
from spark_reports.pages.text import short, visible
from spark_reports.report import (
    FLAKY,
    NA_EVERYWHERE,
    NEW_FAILURE,
    NOT_COMPARABLE,
    NOT_RUN,
    NOT_SELECTED,
    CheckChange,
    Finding,
    GateResult,
    Report,
)

LIMIT = 2_000
"""Characters of a text that are kept."""

_SKIPPED = {NEW_FAILURE, FLAKY, NOT_RUN, NOT_SELECTED, NA_EVERYWHERE, NOT_COMPARABLE}


def junit(report: Report) -> str:
    """Returns the report as one ``testsuites`` element: checks, findings, gates."""
    root = ET.Element("testsuites", name="zenoh-reports")
    alike = Counter((change.test, change.transport) for change in report.changes)
    checks = (_check(change, alone=alike[change.test, change.transport] == 1) for change in report.changes)
    _suite(root, "checks", checks, unchanged=report.unchanged)
    shared = Counter(finding.bucket for finding in report.findings)
    findings = (_finding(finding, alone=shared[finding.bucket] == 1) for finding in report.findings)
    _suite(root, "findings", findings)
    _suite(root, "gates", map(_gate, report.gates))
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, name: str, cases: Iterable[ET.Element], **properties: int) -> None:
    suite = ET.SubElement(root, "testsuite", name=name)
    if properties:
        inside = ET.SubElement(suite, "properties")
        for key, value in properties.items():
            ET.SubElement(inside, "property", name=key, value=str(value))
    suite.extend(cases)
    for attribute, path in (
        ("tests", "testcase"),
        ("failures", "testcase/failure"),
        ("skipped", "testcase/skipped"),
    ):
        suite.set(attribute, str(len(suite.findall(path))))
    suite.set("errors", "0")


def _case(place: str, name: str) -> ET.Element:
    return ET.Element("testcase", classname=_safe(place), name=_safe(name))


def _check(change: CheckChange, *, alone: bool) -> ET.Element:
    place, _, name = change.test.rpartition("::")
    over = f" over {change.transport}" if change.transport else ""
    # Of two cases of one name pipelines show one.
    where = "" if alone else f" on {change.key}"
    case = _case(place, f"{name}{over}{where}")
    of_runs = f"failed in {change.failed_c} of {count(change.runs_c, 'run')}, before in {change.failed_b} of {change.runs_b}"
    if change.is_news:
        failure = ET.SubElement(
            case, "failure", message=_safe(f"{change.status}: {' '.join(change.requirements)}")
        )
        failure.text = _safe(
            f"{of_runs}\nseen: {change.seen}\nrun: {change.run_id}\ncapture: {change.capture}\nrepeat: {change.repeat}"
        )
    elif change.status in _SKIPPED:
        held = f", in quarantine {change.quarantine}" if change.quarantine else ""
        ET.SubElement(case, "skipped", message=_safe(f"{change.status}{held}: {of_runs}"))
    return case


def _finding(finding: Finding, *, alone: bool) -> ET.Element:
    # As of checks; several implementations may show one signature.
    case = _case("findings", finding.bucket if alone else f"{finding.bucket} on {finding.node_impl}")
    if finding.is_news:
        failure = ET.SubElement(case, "failure", message=_safe(f"{finding.status} finding: {finding.bucket}"))
        failure.text = _safe(
            f"{finding.detail}\nrun: {finding.run_id}, {finding.campaign} case {finding.case}\n"
            f"sent: {finding.sent_hex}\ncapture: {finding.capture}"
        )
    return case


def _gate(gate: GateResult) -> ET.Element:
    case = _case("gates", gate.name)
    if not gate.ok:
        ET.SubElement(case, "failure", message=_safe(gate.text))
    return case


def _safe(text: str) -> str:
    """Returns a text without characters that XML does not have."""
    return visible(short(text, LIMIT))
