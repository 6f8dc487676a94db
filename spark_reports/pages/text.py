"""Makes strings that came from a node fit to be read: nothing invisible, nothing endless.

Escaping for HTML is Jinja's work and is always on; this is about characters that are valid text and
still harm a reader: controls, bidirectional overrides, zero-width ones, halves of surrogate pairs.
"""

import re
import unicodedata

from spark_reports.rows import CUT

_HARMFUL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_SCHEME = re.compile(r"(?i):(?=//)|(?<=mailto):|(?<=xmpp):")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+.!|~>-])")


NONE = "\N{EN DASH}"
"""Stands where there is no number."""


def visible(text: str) -> str:
    r"""Returns the text with every character that cannot be seen written as an escape, ``\u202e``.

    Line ends and tabs stay.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(_escape(char) if _is_harmful(char) else char for char in text)


def short(text: str, limit: int) -> str:
    """Returns at most ``limit`` characters and how many more there were, unless the text was cut before."""
    left = len(text) - limit
    if left <= 0:
        return text
    if text.endswith(CUT):
        return text[:limit] + CUT
    number = f"{left:,}".replace(",", " ")
    return f"{text[:limit]}… ({number} more)"


def percent(share: float | None) -> str:
    """Writes a share from 0 to 1 as whole per cent, never 0 or 100 for what is not; a dash for none."""
    if share is None:
        return NONE
    rounded = round(100 * share)
    if 0 < share < 1 and rounded in {0, 100}:
        return "< 1 %" if rounded == 0 else "> 99 %"
    return f"{rounded} %"


def parameter(test: str) -> str:
    """Returns what tells the tests of one function apart, ``z`` of ``test_x.py::test_y[z]``; empty for the only one."""
    return test.partition("[")[2][:-1] if test.endswith("]") else ""


def one_line(text: str) -> str:
    """Returns the text on one line."""
    return " ".join(text.split())


def markdown(text: str, limit: int = 200) -> str:
    """Returns the text for a cell of a Markdown table: one line, nothing in it is markup."""
    safe = visible(short(one_line(text), limit)).replace("&", "&amp;").replace("<", "&lt;")
    # Entities, because what looks like an address becomes a link, and a name behind an at sign is called. GitHub looks for
    # addresses of mail when entities are characters again, so that a space that nobody sees stands in front.
    return _SCHEME.sub("&#58;", _MARKDOWN.sub(r"\\\1", safe)).replace("@", "&#8203;&#64;")


def _is_harmful(char: str) -> bool:
    return not char.isprintable() and char not in "\n\t" and unicodedata.category(char) in _HARMFUL


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
