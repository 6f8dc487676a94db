import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reports.pages.text import markdown, one_line, parameter, short, visible

HOSTILE = [
    ("a\u202eb", "a\\u202eb"),
    ("\x00\x1b[31m", "\\x00\\x1b[31m"),
    ("\u200b\ufeff", "\\u200b\\ufeff"),
    ("\udc80", "\\udc80"),
    ("\U000e0041", "\\U000e0041"),
    ("line\u2028end\r", "line\\u2028end\\x0d"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "ünïcödé 中文 \U0001f600"])
def test_readable_text_stays(text: str) -> None:
    assert visible(text) == text


@given(st.text(st.characters()))
def test_visible_text_holds_nothing_harmful(text: str) -> None:
    for char in visible(text):
        assert char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    visible(text).encode()


def test_long_text_is_cut_and_says_so() -> None:
    assert short("x" * 1500, 100) == "x" * 100 + "… (1 400 more)"
    # Nobody knows how many when it was cut before.
    assert short("x" * 299 + "…", 100) == "x" * 100 + "…"
    assert short("xx…", 3) == "xx…"
    assert short("x" * 100, 100) == "x" * 100
    assert short("a, b" + "x" * 10, 4) == "a, b… (10 more)"


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("suite/test_x.py::test_y[over tcp-large]", "over tcp-large"),
        ("suite/test_x.py::test_y[[a]]", "[a]"),
        ("suite/test_x.py::test_y", ""),
        ("[", ""),
        ("", ""),
    ],
)
def test_parameter_is_what_tells_tests_of_one_function_apart(test: str, told: str) -> None:
    assert parameter(test) == told


def test_one_line_has_no_line_ends() -> None:
    assert one_line(" a\r\n\tb\u2028c ") == "a b c"


@given(st.text(st.characters()))
def test_markdown_cell_cannot_leave_its_cell(text: str) -> None:
    cell = markdown(text)
    assert "\n" not in cell
    assert "<" not in cell
    assert "@" not in cell
    # No address of mail, once platforms have read the entities.
    assert all(before.endswith("&#8203;") for before in cell.split("&#64;")[:-1])
    unescaped = cell.replace("\\\\", "")
    assert all(unescaped[at - 1 : at] == "\\" for at, char in enumerate(unescaped) if char in "|`*_[")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("http://2130706433/x", "http&#58;//2130706433/x"),
        ("see FTP://q/z", "see FTP&#58;//q/z"),
        ("mailto:a", "mailto&#58;a"),
        ("XMPP:a", "XMPP&#58;a"),
        ("until 10:30: it hangs", "until 10:30: it hangs"),
        ("user@evil", "user&#8203;&#64;evil"),
    ],
)
def test_address_in_a_markdown_cell_is_no_link(text: str, cell: str) -> None:
    assert markdown(text) == cell
