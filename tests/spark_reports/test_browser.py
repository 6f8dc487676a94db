"""Looks at pages in headless Chromium; without Chromium these tests are skipped."""

import dataclasses
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_reports.captures import traffic_page
from spark_reports.pages import html_page
from spark_reports.pages.page import make_page
from spark_reports.report import Report
from tests.spark_reports import chromium
from tests.spark_reports.hostile import HOSTILE, with_text
from tests.spark_reports.reports import example_report
from tests.spark_reports.test_traffic_page import make as make_traffic

PROGRAM = chromium.find()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")

PWNED = (
    "</script><script>window.pwned = 1</script></style><img src=x onerror='window.pwned = 2'>"
    "<svg onload='window.pwned = 3'>\"'><iframe srcdoc='<script>parent.pwned = 4</script>'></iframe>"
    "<a href='javascript:window.pwned = 5'>\u202e\x00\ud800"
)
TEXTS = {
    "hostile": HOSTILE + PWNED,
    "long": "demo/" + "x" * 200_000,
    "wide": "\ufdfd\u0488" * 2_000,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Browser]:
    with chromium.running(PROGRAM or "") as found:
        yield found


@pytest.fixture
def tab(browser: chromium.Browser) -> Iterator[chromium.Tab]:
    made = chromium.Tab(browser)
    yield made
    made.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as a file."""
    return write(tmp_path_factory.mktemp("page"), example_report())


def write(folder: Path, found: Report) -> Path:
    path = folder / "report.html"
    path.write_text(html_page.html(make_page(found)), encoding="utf-8")
    return path


def background(png: bytes) -> tuple[int, ...]:
    """Returns the colour of the last pixel in the first column of a PNG."""
    data, at = b"", 8
    width, height, depth, kind = struct.unpack_from(">IIBB", png, 16)
    assert (depth, kind) in {(8, 2), (8, 6)}
    while at < len(png):
        size, name = struct.unpack_from(">I4s", png, at)
        if name == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += 12 + size
    raw = zlib.decompress(data)
    pixel = 3 if kind == 2 else 4
    above = bytes(pixel)
    for row in range(height):
        start = row * (1 + width * pixel)
        coded, here = raw[start], raw[start + 1 : start + 1 + pixel]
        # The first pixel of a row has none to its left, so only what is above can be added to it.
        share = {0: 0, 1: 0, 2: 1, 3: 0.5, 4: 1}[coded]
        above = bytes((now + int(share * before)) % 256 for now, before in zip(here, above, strict=True))
    return tuple(above[:3])


def test_page_loads_without_network_and_without_a_complaint(tab: chromium.Tab, page: Path) -> None:
    tab.ask(
        "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
    )
    tab.open(page)
    assert tab.complaints == []
    assert tab.requests == []
    assert "1 new failure" in tab.run("document.querySelector('h1').textContent")


def test_policy_stops_what_is_not_ours(tab: chromium.Tab, page: Path) -> None:
    tab.open(page)
    tab.run(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 1';"
        " document.body.append(s); const i = document.createElement('img'); i.src = 'https://example.org/x.png';"
        " i.setAttribute('onerror', 'window.pwned = 2'); document.body.append(i);"
        " return new Promise(done => i.addEventListener('error', () => done(1))); })()"
    )
    tab.collect(page.as_uri())
    assert tab.run("typeof window.pwned") == "undefined"
    # The tab would have told of a script that ran and of a picture that was asked for.
    assert any("Content Security Policy" in text for text in tab.complaints)


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_strings_do_nothing(tab: chromium.Tab, tmp_path: Path, name: str) -> None:
    found = example_report(checks=12, runs=4)
    # What is too long to be copied has no button for it.
    counts = (
        "[document.querySelectorAll('*:not(.copy)').length, document.scripts.length, document.images.length]"
    )
    tab.open(write(tmp_path, with_text(found, "plain")))
    plain = tab.run(counts)
    tab.open(write(tmp_path, with_text(found, TEXTS[name])))
    assert tab.run("typeof window.pwned") == "undefined"
    assert tab.run(counts) == plain
    assert tab.complaints == []
    assert tab.requests == []
    for width in (1280, 390):
        tab.size(width, 800)
        assert tab.run("document.documentElement.scrollWidth") <= width


def test_versions_are_sorted_as_versions(tab: chromium.Tab, tmp_path: Path) -> None:
    found = example_report(checks=12, runs=4)
    versions = ["1.10.0", "1.9.0", "1.10.0-12-g0a1b2c3", "1.10.0rc1"]
    runs = tuple(
        dataclasses.replace(run, node_version=version)
        for run, version in zip(found.runs, versions, strict=True)
    )
    tab.open(write(tmp_path, dataclasses.replace(found, runs=runs)))
    tab.click("#run-list th:nth-child(2) button")
    cells = "[...document.querySelectorAll('#run-list tbody tr')].map(r => r.cells[1].textContent)"
    order = [text.split()[1].removesuffix("router") for text in tab.run(cells)]
    assert order == ["1.9.0", "1.10.0rc1", "1.10.0", "1.10.0-12-g0a1b2c3"]


def test_table_is_sorted_by_the_head_that_is_clicked(tab: chromium.Tab, page: Path) -> None:
    tab.open(page)
    column = "[...document.querySelectorAll('#flaky ~ .card tbody tr')].map(r => +r.cells[2].dataset.value)"
    head = "#flaky ~ .card th:nth-child(3)"
    before = tab.run(column)
    assert len(set(before)) == 3
    seen = []
    for _ in range(2):
        tab.click(f"{head} button")
        seen.append((tab.run(f"document.querySelector('{head}').getAttribute('aria-sort')"), tab.run(column)))
    assert seen == [("descending", sorted(before)[::-1]), ("ascending", sorted(before))]
    tab.click("#flaky ~ .card th:nth-child(1) button")
    names = "[...document.querySelectorAll('#flaky ~ .card tbody .mono:first-child')].map(e => e.textContent)"
    assert tab.run(names) == sorted(tab.run(names))
    assert tab.run("document.querySelectorAll('#flaky ~ .card th[aria-sort]').length") == 1


def test_search_leaves_what_has_every_word(tab: chromium.Tab, page: Path) -> None:
    tab.open(page)
    visible = "[...document.querySelectorAll('#grid .q')].filter(e => e.offsetParent).map(e => e.title.split(' ')[0])"
    whole = tab.run(visible)
    assert len(whole) == 120
    tab.type("[data-for=grid] input", "init must 08")
    assert tab.run(visible) == ["ZN-INIT-080"]
    assert tab.run("document.querySelector('[data-for=grid] .shown').textContent") == "1 of 120"
    assert tab.run("[...document.querySelectorAll('.area')].filter(e => e.offsetParent).length") == 1
    tab.type("[data-for=grid] input", " nothing like it")
    assert tab.run(visible) == []


def test_buttons_leave_their_outcomes(tab: chromium.Tab, page: Path) -> None:
    tab.open(page)
    kinds = "[...document.querySelectorAll('#grid .q')].filter(e => e.offsetParent).map(e => e.className)"
    tab.click("[data-for=grid] [data-kind=o-fail]")
    tab.click("[data-for=grid] [data-kind=o-warning]")
    assert set(tab.run(kinds)) == {"q o-fail", "q o-warning"}
    tab.click("[data-for=grid] [data-kind=o-fail]")
    assert set(tab.run(kinds)) == {"q o-warning"}


def test_link_unfolds_and_unfilters_what_it_leads_to(tab: chromium.Tab, page: Path) -> None:
    tab.open(page)
    tab.type("[data-for=not-passed] input", "nothing like it")
    target = "document.querySelector('#r-ZN-OPEN-001').closest('details')"
    assert tab.run(f"[{target}.hidden, {target}.open]") == [True, False]
    tab.run("window.followed = new Promise(done => addEventListener('hashchange', () => done(1))), 0")
    tab.click("a.q[href='#r-ZN-OPEN-001']")
    tab.run("window.followed")
    assert tab.run(f"[{target}.hidden, {target}.open]") == [False, True]


def test_what_has_the_focus_is_in_view_at_once(tab: chromium.Tab, page: Path) -> None:
    tab.open(page)
    where = (
        "(({top, bottom}) => top < innerHeight && bottom > 0)(document.activeElement.getBoundingClientRect())"
    )
    seen = []
    for _ in range(60):
        for way in ("keyDown", "keyUp"):
            tab.ask("Input.dispatchKeyEvent", type=way, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        seen.append(tab.run(where))
    assert all(seen)
    assert tab.run("scrollY > innerHeight")


def test_dark_and_light_follow_the_system_and_the_switch(tab: chromium.Tab, page: Path) -> None:
    tab.open(page)
    light = background(tab.picture())
    tab.media(dark=True)
    dark = background(tab.picture())
    assert min(light) > 200
    assert max(dark) < 60
    tab.click("#theme")
    assert background(tab.picture()) == light
    tab.click("#theme")
    assert background(tab.picture()) == dark
    # What was chosen stays when the page is loaded again, whatever the system says.
    tab.media(dark=False)
    tab.open(page)
    assert background(tab.picture()) == dark


# The least contrast of a text that is seen with what is behind it, as WCAG has it, and that text.
CONTRAST = """(() => {
    document.querySelectorAll("details").forEach(one => one.open = true);
    const colour = text => {
        const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
        return text.startsWith("color(") ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
    };
    const over = (top, below) => below.map((value, at) => value * (1 - top[3]) + top[at] * top[3]);
    const behind = element => {
        if (!element) return [255, 255, 255];
        const here = colour(getComputedStyle(element).backgroundColor);
        return here[3] < 1 ? over(here, behind(element.parentElement)) : here.slice(0, 3);
    };
    const light = rgb => rgb.map(value => value / 255)
        .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
        .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0.05);
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let least = [99, ""];
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement, words = texts.currentNode.textContent.trim();
        if (!words || element.closest("script, svg") || !element.getBoundingClientRect().width) continue;
        const ground = behind(element), ink = over(colour(getComputedStyle(element).color), ground);
        const both = [light(ground), light(ink)].sort((one, other) => other - one);
        if (both[0] / both[1] < least[0]) least = [both[0] / both[1], words];
    }
    return least;
})()"""


@pytest.mark.parametrize("tone", ["bad", "mixed", "good", "none"])
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out(tab: chromium.Tab, page: Path, dark: bool, tone: str) -> None:
    tab.media(dark=dark)
    tab.open(page)
    tab.run(f"document.querySelector('.top').className = 'top {tone}'")
    least, text = tab.run(CONTRAST)
    # The sign before the headline is a large one.
    assert least >= (3 if len(text) == 1 else 4.5), text


def test_page_can_be_read_without_its_script(tab: chromium.Tab, page: Path) -> None:
    tab.script(allowed=False)
    tab.open(page)
    seen: dict[str, Any] = tab.run(
        "({tools: [...document.querySelectorAll('.tools, #theme, .copy')].filter(e => e.offsetParent).length,"
        " heads: document.querySelectorAll('th button').length,"
        " cells: document.querySelectorAll('.q svg use').length, text: document.body.innerText.length})"
    )
    assert (seen["tools"], seen["heads"], seen["cells"]) == (0, 0, 120)
    assert seen["text"] > 5_000


def test_cells_of_the_grid_are_painted(tab: chromium.Tab, page: Path) -> None:
    tab.open(page)
    tab.run("document.querySelector('#grid').scrollIntoView({behavior: 'instant'})")
    boxes = "[...document.querySelectorAll('.q svg')].map(e => [e.clientWidth, e.clientHeight])"
    assert all(width > 20 and height > 5 for width, height in tab.run(boxes))
    strokes = "[...document.querySelectorAll('symbol path')].map(e => getComputedStyle(e).stroke)"
    colours = set(tab.run(strokes))
    assert len(colours) >= 5
    assert "none" not in colours
    # The last cell of a requirement that fails is red in the picture, which is more than a style that says so.
    clip = tab.run(
        "(() => { const b = document.querySelector('.q.o-fail svg').getBoundingClientRect();"
        " return {x: b.right + scrollX - 12, y: b.y + scrollY, width: 3, height: b.height, scale: 1}; })()"
    )
    red, green, blue = background(tab.picture(clip))
    assert red > 150 > green
    assert green < 120 > blue


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_is_wider_than_the_window(tab: chromium.Tab, page: Path, width: int) -> None:
    tab.size(width, 900)
    tab.open(page)
    assert tab.run("document.documentElement.scrollWidth") <= width


def test_paper_has_no_tools_and_nothing_beside_it(tab: chromium.Tab, page: Path) -> None:
    tab.media(kind="print", dark=True)
    tab.size(718, 1000)
    tab.open(page)
    gone = "[...document.querySelectorAll('nav, .tools, #theme, .copy')].filter(e => e.offsetParent).length"
    assert tab.run(gone) == 0
    assert tab.run("document.documentElement.scrollWidth") <= 718
    assert tab.run("getComputedStyle(document.body).color") == "rgb(24, 33, 44)"
    assert tab.paper().startswith(b"%PDF-")


def test_paper_shows_what_is_folded(tab: chromium.Tab, page: Path) -> None:
    tab.size(718, 1000)
    tab.open(page)
    shut = (
        "[...document.querySelectorAll('details:not([open]) > .body')]"
        ".filter(body => !body.checkVisibility({contentVisibilityProperty: true})).length"
    )
    assert tab.run(shut) > 0
    tab.media(kind="print")
    assert tab.run(shut) == 0
    # A long text is not cut where paper cannot be scrolled.
    cut = "[...document.querySelectorAll('.pair > div')].filter(e => e.scrollHeight > e.clientHeight + 1).length"
    assert tab.run(cut) == 0


def test_tables_fit_on_paper_and_their_heads_can_be_repeated(tab: chromium.Tab, page: Path) -> None:
    tab.size(718, 1000)
    tab.media(kind="print")
    tab.open(page)
    over = (
        "[...document.querySelectorAll('table')].filter(table => table.checkVisibility() && "
        "table.getBoundingClientRect().right > table.parentElement.getBoundingClientRect().right + 1).length"
    )
    assert tab.run(over) == 0
    thin = (
        "[...document.querySelectorAll('td.wide')].filter(cell => cell.checkVisibility() && "
        "cell.getBoundingClientRect().width < 78).length"
    )
    assert tab.run(thin) == 0
    # What holds a box of its own, such as a button, is not printed again on the next page.
    boxes = "[...document.querySelectorAll('thead button')].filter(one => one.getClientRects().length).length"
    assert tab.run("document.querySelectorAll('thead button').length") > 0
    assert tab.run(boxes) == 0
    assert tab.run("getComputedStyle(document.querySelector('thead')).breakInside") == "avoid"


def test_long_names_leave_the_other_columns_of_paper_their_room(tab: chromium.Tab, tmp_path: Path) -> None:
    found = example_report()
    (row,) = found.first_bad
    long = f"suite/test_frm.py::test_{'resolution_closes_the_link_' * 2}[router-64]"
    rows = [dataclasses.replace(row, test=long, environment=f"machine {number}, " * 5) for number in range(2)]
    tab.size(718, 1000)
    tab.media(kind="print")
    tab.open(write(tmp_path, dataclasses.replace(found, first_bad=tuple(rows))))
    widths = "[...document.querySelector('#releases ~ .card').querySelectorAll('td.lead')].map(e => e.getBoundingClientRect().width)"
    assert min(tab.run(widths)) > 150
    cut = "getComputedStyle(document.querySelector('.card.scroll')).boxDecorationBreak"
    assert tab.run(cut) == "clone", "a table that goes on has no border at the end of its page"
    whole = "[...document.querySelectorAll('.hint, .sub + p')].every(e => getComputedStyle(e).breakInside == 'avoid')"
    assert tab.run(whole)
    heads = "[...document.querySelectorAll('h2, .sub, .hint, .sub + p')].every(e => getComputedStyle(e).breakAfter == 'avoid')"
    assert tab.run(heads)


def test_traffic_page_loads_without_a_complaint(tab: chromium.Tab, tmp_path: Path) -> None:
    path = tmp_path / "traffic.html"
    path.write_text(traffic_page.html(traffic_page.make_page(make_traffic(PWNED))), encoding="utf-8")
    tab.open(path)
    assert tab.complaints == []
    assert tab.requests == []
    assert tab.run("typeof window.pwned") == "undefined"
    tab.media(dark=True)
    assert max(background(tab.picture())) < 60


def test_large_page_is_ready_soon(tab: chromium.Tab, tmp_path: Path) -> None:
    found = example_report(checks=1000, runs=60, versions=13)
    tab.open(write(tmp_path, dataclasses.replace(found, gates=())))
    assert tab.run("document.querySelectorAll('#grid .q').length") == 1000
    assert tab.complaints == []
