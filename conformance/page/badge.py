"""A badge for a README: how many requirements were decided, and whether any failed."""

from __future__ import annotations

from html import escape

from conformance.page.facts import Facts

LABEL = "zenoh conformance"

COLOURS = {"fail": "#c0392b", "mixed": "#b7791f", "pass": "#2a8f68", "none": "#6b7785"}

CHARACTER = 6.6
"""Width of a character, px: the text is stretched to what is drawn for it, so that any font fits."""

PADDING = 7


def as_svg(facts: Facts) -> str:
    """Returns the badge."""
    decided = facts.decided
    total = sum(decided.values())
    if not total:
        text, colour = "nothing decided", COLOURS["none"]
    elif decided["fail"]:
        text, colour = f"{decided['fail']} of {total} failed", COLOURS["fail"]
    elif decided["deviation"] or decided["warning"]:
        known = decided["deviation"] + decided["warning"]
        text, colour = f"{total} decided, {known} known to differ", COLOURS["mixed"]
        if not decided["deviation"]:
            text = f"{total} decided, {known} warnings"
    else:
        text, colour = f"{total} requirements met", COLOURS["pass"]
    left, right = (round(len(words) * CHARACTER) + 2 * PADDING for words in (LABEL, text))
    title = escape(f"{LABEL}: {text}")
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{title}">
<title>{title}</title>
<clipPath id="r"><rect width="{left + right}" height="20" rx="4"/></clipPath>
<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3d4752"/><rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" lengthAdjust="spacingAndGlyphs">
<text x="{PADDING}" y="14" textLength="{left - 2 * PADDING}">{escape(LABEL)}</text>
<text x="{left + PADDING}" y="14" textLength="{right - 2 * PADDING}">{escape(text)}</text>
</g></svg>
"""
