"""A badge for a README: whether anything became worse, in a few words."""

from html import escape

from spark_reports.pages.page import count
from spark_reports.report import SLOWER, Report

LABEL = "zenoh reports"

BAD, MIXED, GOOD, NONE = "#c0392b", "#b7791f", "#2a8f68", "#6b7785"

CHARACTER_PX = 6.6
"""Width of a character: the text is stretched to what is drawn for it, so that any font fits."""

PADDING_PX = 7


def words(report: Report) -> tuple[str, str]:
    """Returns what the badge says and its colour."""
    failures = sum(change.is_news for change in report.changes)
    findings = sum(found.is_news for found in report.findings)
    slower = sum(trend.status == SLOWER for trend in report.trends)
    failed = sum(not gate.ok for gate in report.gates)
    worse = [
        words
        for number, words in (
            (failures, count(failures, "new failure")),
            (findings, count(findings, "new finding")),
            (failed, f"{count(failed, 'gate')} failed"),
        )
        if number
    ]
    if worse:
        return ", ".join(worse), BAD
    softer = [
        words
        for number, words in (
            (slower, f"{slower} slower"),
            (len(report.flaky), f"{len(report.flaky)} flaky"),
            (len(report.lost), f"{len(report.lost)} no longer covered"),
        )
        if number
    ]
    if softer:
        return ", ".join(softer), MIXED
    if report.not_whole or report.sets.unread:
        return "newest run incomplete" if report.not_whole else "newest run not judged", MIXED
    if any(pair.selected_only for pair in report.sets.pairs):
        return "nothing new in some tests", MIXED
    if not (report.cells or report.rates):
        return "nothing judged", NONE
    return "nothing new", GOOD


def badge(report: Report) -> str:
    """Returns the badge as SVG."""
    text, colour = words(report)
    left, right = (round(len(part) * CHARACTER_PX) + 2 * PADDING_PX for part in (LABEL, text))
    title = escape(f"{LABEL}: {text}")
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{title}">
<title>{title}</title>
<clipPath id="r"><rect width="{left + right}" height="20" rx="4"/></clipPath>
<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3d4752"/><rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" lengthAdjust="spacingAndGlyphs">
<text x="{PADDING_PX}" y="14" textLength="{left - 2 * PADDING_PX}">{escape(LABEL)}</text>
<text x="{left + PADDING_PX}" y="14" textLength="{right - 2 * PADDING_PX}">{escape(text)}</text>
</g></svg>
"""
